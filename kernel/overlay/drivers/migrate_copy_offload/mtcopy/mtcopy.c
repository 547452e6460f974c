// SPDX-License-Identifier: GPL-2.0
/*
 * mtcopy: copy the folios of a migration batch with several CPUs.
 *
 * The migrating task (the caller) copies, and asks helpers to join in: one thread
 * per CPU, in SCHED_IDLE, so that it only runs where the CPU is otherwise idle.
 * Caller and helpers take pieces of the batch from one cursor until none are left.
 * A helper that gets no CPU takes no piece; it costs the caller a wakeup, and the
 * caller avoids it for a while.
 *
 * Whether helpers make a copy faster depends on how the CPUs share the memory. mtcopy
 * times its batches and asks helpers where they pay. From time to time it copies a
 * batch the other way, in case that has changed.
 *
 * The caller must wait for a helper that has taken a piece. If the helper loses
 * its CPU, mtcopy gives it the caller's nice value until it is done, and real-time
 * priority after the deadline of the batch. If it does not finish some seconds
 * later, the folios of its piece are lost, since nothing can stop it from writing
 * to them.
 *
 * Helpers are only asked on CPUs where the caller itself may run, in the node of
 * the source or of the destination, or in the caller's own if these have no CPU.
 * Isolated and tickless CPUs are never asked.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/copy_pages.h>
#include <linux/cpumask.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/migrate_copy_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/rt.h>
#include <linux/slab.h>
#include <linux/smpboot.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <uapi/linux/sched/types.h>

#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "mtcopy.h"

/* Batches that can have helpers at a time; callers copy further ones alone. */
#define MTCOPY_MAX_JOBS		16U

/* Longer than any piece takes, unless its helper loses the CPU. */
#define MTCOPY_SPIN_NS		(50 * NSEC_PER_USEC)

/* Only a task of higher priority that never sleeps keeps a helper from its CPU. */
#define MTCOPY_STOP		(5 * HZ)

static int set_threads(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, MTCOPY_MAX_THREADS);
}

static const struct kernel_param_ops threads_ops = {
	.set = set_threads,
	.get = param_get_uint,
};

static unsigned int threads = 4;
module_param_cb(threads, &threads_ops, &threads, 0644);
MODULE_PARM_DESC(threads, "Maximum number of threads that copy a batch, the caller included, 1 to 16 (default: 4)");

static bool adapt = true;
module_param(adapt, bool, 0644);
MODULE_PARM_DESC(adapt, "Ask helpers only where they make copies faster (default: Y)");

/**
 * enum helper_state - ownership of a helper
 * @HELPER_IDLE: free for any caller to claim
 * @HELPER_CLAIMED: owned by a caller, without work
 * @HELPER_OFFERED: the helper may start, or the caller may withdraw the offer
 * @HELPER_RUNNING: the helper may access the folios of the job
 * @HELPER_DONE: finished; owned by the caller again
 * @HELPER_LOST: the caller gave up on the helper; final
 */
enum helper_state {
	HELPER_IDLE,
	HELPER_CLAIMED,
	HELPER_OFFERED,
	HELPER_RUNNING,
	HELPER_DONE,
	HELPER_LOST,
};

/**
 * struct mtcopy_helper - the helper of one CPU
 * @state: an enum helper_state
 * @job: the job to help with; valid while a caller owns the helper
 * @task: the helper's thread; only the owning caller uses it
 * @copied: pages of this job that the helper copied
 * @all_copied: pages of all jobs that the helper copied
 * @boosted: the helper runs with the caller's nice value, or with more
 * @rest_until: when to ask the helper again, in ns; only the owning caller uses it
 */
struct mtcopy_helper {
	atomic_t state;
	struct mtcopy_job *job;
	struct task_struct *task;
	unsigned long copied;
	unsigned long all_copied;
	bool boosted;
	u64 rest_until;
};

static DEFINE_PER_CPU(struct mtcopy_helper, helpers);
static DEFINE_PER_CPU(struct task_struct *, helper_tasks);

static struct mtcopy_job *jobs;
static unsigned int nr_jobs;

/* What helpers bring, by kind of batch. Two kinds may share an entry. */
#define MTCOPY_GAIN_BITS	7

static DEFINE_SPINLOCK(gains_lock);
static struct mtcopy_gain gains[1 << MTCOPY_GAIN_BITS];

static unsigned long helped_batches;
module_param(helped_batches, ulong, 0444);
MODULE_PARM_DESC(helped_batches, "Number of batches for which helpers were asked");

static unsigned long lone_batches;
module_param(lone_batches, ulong, 0444);
MODULE_PARM_DESC(lone_batches, "Number of batches that callers copied alone, though large enough for helpers");

static int get_helped_pages(char *buffer, const struct kernel_param *kp)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(helpers.all_copied, cpu));

	return sysfs_emit(buffer, "%lu\n", sum);
}

static const struct kernel_param_ops helped_pages_ops = {
	.get = get_helped_pages,
};

module_param_cb(helped_pages, &helped_pages_ops, NULL, 0444);
MODULE_PARM_DESC(helped_pages, "Number of base pages that helpers have copied");

/**
 * mtcopy_take() - take the next piece of a job
 * @job: the job
 * @piece: set to the piece, if there is one
 *
 * Return: true if there was a piece, false if all are taken.
 */
VISIBLE_IF_KUNIT bool mtcopy_take(struct mtcopy_job *job,
				  struct mtcopy_piece *piece)
{
	s64 cursor = atomic64_read(&job->cursor);
	u64 next;

	do {
		if (!mtcopy_next_piece(job->pages, job->nr_folios,
				       job->piece_pages, cursor, piece, &next))
			return false;
	} while (!atomic64_try_cmpxchg(&job->cursor, &cursor, next));

	return true;
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_take);

/**
 * mtcopy_copy_range() - copy pages of a folio
 * @dst: first page to copy to
 * @src: first page to copy from
 * @nr_pages: number of pages
 *
 * Return: 0, or -EHWPOISON.
 */
VISIBLE_IF_KUNIT int mtcopy_copy_range(struct page *dst, struct page *src,
				       unsigned int nr_pages)
{
	KUNIT_STATIC_STUB_REDIRECT(mtcopy_copy_range, dst, src, nr_pages);

	return copy_mc_pages(dst, src, nr_pages);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_copy_range);

/**
 * mtcopy_copy() - copy a piece
 * @job: the job
 * @piece: a piece of @job that this thread has taken
 */
VISIBLE_IF_KUNIT void mtcopy_copy(struct mtcopy_job *job,
				  const struct mtcopy_piece *piece)
{
	unsigned int i;

	for (i = piece->first; i < piece->first + piece->nr; i++) {
		unsigned int nr = piece->nr > 1 ? job->pages[i] :
						  piece->nr_pages;

		/* Poison: the CPU copies the folio again in the move phase, and decides. */
		if (mtcopy_copy_range(folio_page(job->dst[i], piece->page),
				      folio_page(job->src[i], piece->page), nr))
			set_bit(i, job->failed);

		/* Pairs with the acquire in mtcopy_report(): left == 0 publishes the bytes. */
		atomic_fetch_sub_release(nr, &job->left[i]);
		cond_resched();
	}
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_copy);

static void set_idle_policy(struct task_struct *task)
{
	const struct sched_attr attr = { .sched_policy = SCHED_IDLE };

	WARN_ON_ONCE(sched_setattr_nocheck(task, &attr));
}

static void helper_setup(unsigned int cpu)
{
	set_idle_policy(current);
}

static int helper_should_run(unsigned int cpu)
{
	return atomic_read(&per_cpu(helpers.state, cpu)) == HELPER_OFFERED;
}

static void helper_run(unsigned int cpu)
{
	struct mtcopy_helper *helper = per_cpu_ptr(&helpers, cpu);
	struct mtcopy_piece piece;
	struct mtcopy_job *job;

	if (atomic_cmpxchg(&helper->state, HELPER_OFFERED, HELPER_RUNNING) !=
	    HELPER_OFFERED)
		return;

	job = helper->job;
	while (mtcopy_take(job, &piece)) {
		mtcopy_copy(job, &piece);
		helper->copied += piece.nr_pages;
	}
	WRITE_ONCE(helper->all_copied, helper->all_copied + helper->copied);

	/* A lost helper stays lost. Otherwise the caller owns helper and job again. */
	atomic_cmpxchg(&helper->state, HELPER_RUNNING, HELPER_DONE);
	wake_up(&job->wait);
}

static struct smp_hotplug_thread helper_threads = {
	.store			= &helper_tasks,
	.setup			= helper_setup,
	.thread_should_run	= helper_should_run,
	.thread_fn		= helper_run,
	.thread_comm		= "mtcopy/%u",
};

static struct mtcopy_job *get_job(void)
{
	unsigned int i;

	for (i = 0; i < nr_jobs; i++)
		if (!atomic_cmpxchg(&jobs[i].taken, 0, 1))
			return &jobs[i];

	return NULL;
}

static void put_job(struct mtcopy_job *job)
{
	atomic_set_release(&job->taken, 0);
}

/**
 * mtcopy_housekeeping() - check if a CPU does a kind of housekeeping
 * @cpu: the CPU
 * @type: the kind of housekeeping
 *
 * Context: RCU read-side critical section, since cpusets change the masks.
 *
 * Return: true unless the administrator excluded the CPU.
 */
VISIBLE_IF_KUNIT bool mtcopy_housekeeping(unsigned int cpu, enum hk_type type)
{
	KUNIT_STATIC_STUB_REDIRECT(mtcopy_housekeeping, cpu, type);

	return housekeeping_cpu(cpu, type);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_housekeeping);

/**
 * mtcopy_may_ask() - check if the helper of a CPU may be asked
 * @cpu: the CPU
 * @allowed: CPUs on which the caller may run
 *
 * Helpers must not disturb isolated or tickless CPUs, even if the caller itself
 * may run there.
 *
 * Return: true if the helper may be asked.
 */
VISIBLE_IF_KUNIT bool mtcopy_may_ask(unsigned int cpu,
				     const struct cpumask *allowed)
{
	guard(rcu)();

	return cpumask_test_cpu(cpu, allowed) &&
	       mtcopy_housekeeping(cpu, HK_TYPE_DOMAIN) &&
	       mtcopy_housekeeping(cpu, HK_TYPE_KERNEL_NOISE);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_may_ask);

static bool claim_helper(struct mtcopy_job *job, unsigned int cpu, u64 now)
{
	struct mtcopy_helper *helper = per_cpu_ptr(&helpers, cpu);
	struct task_struct *task = READ_ONCE(per_cpu(helper_tasks, cpu));

	if (!task || !cpu_online(cpu) || cpu == raw_smp_processor_id() ||
	    !mtcopy_may_ask(cpu, &current->cpus_mask))
		return false;

	if (atomic_cmpxchg(&helper->state, HELPER_IDLE, HELPER_CLAIMED) !=
	    HELPER_IDLE)
		return false;

	if (now < helper->rest_until) {
		atomic_set_release(&helper->state, HELPER_IDLE);
		return false;
	}

	helper->job = job;
	helper->task = task;
	helper->copied = 0;
	helper->boosted = false;
	job->helpers[job->nr_helpers++] = helper;
	return true;
}

static void claim_on_node(struct mtcopy_job *job, int nid, unsigned int max,
			  u64 now)
{
	unsigned int cpu;

	/* Start at different helpers for different callers of a node. */
	for_each_cpu_wrap(cpu, cpumask_of_node(nid), raw_smp_processor_id()) {
		if (job->nr_helpers == max)
			break;
		claim_helper(job, cpu, now);
	}
}

/* Claim up to @max helpers near the memory, or near the caller if it has no CPU. */
static void claim_helpers(struct mtcopy_job *job,
			  const struct migrate_copy_batch *batch,
			  unsigned int max)
{
	const int src = folio_nid(batch->pairs[0].src);
	const int dst = folio_nid(batch->pairs[0].dst);
	const u64 now = ktime_get_ns();

	job->nr_helpers = 0;
	claim_on_node(job, dst, max, now);
	if (src != dst)
		claim_on_node(job, src, max, now);
	if (cpumask_empty(cpumask_of_node(src)) &&
	    cpumask_empty(cpumask_of_node(dst)))
		claim_on_node(job, numa_node_id(), max, now);
}

/**
 * mtcopy_fill() - fill a job from a batch
 * @job: a job with its helpers
 * @batch: the batch
 */
VISIBLE_IF_KUNIT void mtcopy_fill(struct mtcopy_job *job,
				  const struct migrate_copy_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr_pairs; i++) {
		const struct migrate_copy_pair *pair = &batch->pairs[i];

		job->src[i] = pair->src;
		job->dst[i] = pair->dst;
		job->pages[i] = folio_nr_pages(pair->src);
		atomic_set(&job->left[i], job->pages[i]);
	}
	job->nr_folios = batch->nr_pairs;
	job->piece_pages = mtcopy_piece_pages(batch->nr_pages,
					      job->nr_helpers + 1);
	bitmap_zero(job->failed, batch->nr_pairs);
	atomic64_set(&job->cursor, 0);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_fill);

static void offer_job(struct mtcopy_job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++) {
		struct mtcopy_helper *helper = job->helpers[i];

		/* A helper that takes the offer sees the whole job. */
		atomic_set_release(&helper->state, HELPER_OFFERED);
		wake_up_process(helper->task);
	}
}

static void withdraw_offers(struct mtcopy_job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++)
		atomic_cmpxchg(&job->helpers[i]->state, HELPER_OFFERED,
			       HELPER_CLAIMED);
}

static bool helper_runs(struct mtcopy_helper *helper)
{
	return atomic_read_acquire(&helper->state) == HELPER_RUNNING;
}

static bool helpers_run(struct mtcopy_job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++)
		if (helper_runs(job->helpers[i]))
			return true;

	return false;
}

/* A preempted helper must not wait for its CPU longer than the caller would. */
static void boost_helpers(struct mtcopy_job *job, bool late)
{
	const int nice = rt_or_dl_task_policy(current) ? MIN_NICE :
							 task_nice(current);
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++) {
		struct mtcopy_helper *helper = job->helpers[i];

		if (!helper_runs(helper))
			continue;
		helper->boosted = true;
		if (late)
			sched_set_fifo(helper->task);
		else
			sched_set_normal(helper->task, nice);
	}
}

/* Wait for running helpers only: one that has not begun may never get a CPU. */
static void wait_for_helpers(struct mtcopy_job *job, unsigned long deadline)
{
	const u64 end = ktime_get_ns() + MTCOPY_SPIN_NS;

	while (helpers_run(job) && !need_resched()) {
		if (ktime_get_ns() >= end)
			break;
		cpu_relax();
	}
	if (!helpers_run(job))
		return;

	boost_helpers(job, false);
	if (wait_event_timeout(job->wait, !helpers_run(job),
			       max((long)(deadline - jiffies), 0)))
		return;
	boost_helpers(job, true);
	wait_event_timeout(job->wait, !helpers_run(job), MTCOPY_STOP);
}

/* Release all helpers that are done. Return true if some helper is lost. */
static bool release_helpers(struct mtcopy_job *job)
{
	const u64 now = ktime_get_ns();
	bool lost = false;
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++) {
		struct mtcopy_helper *helper = job->helpers[i];

		if (atomic_cmpxchg(&helper->state, HELPER_RUNNING,
				   HELPER_LOST) == HELPER_RUNNING) {
			pr_warn("%s does not finish: the folios it copies are lost\n",
				helper->task->comm);
			lost = true;
			continue;
		}

		if (helper->boosted)
			set_idle_policy(helper->task);
		if (!helper->copied)
			helper->rest_until = now + MTCOPY_REST_NS;
		atomic_set_release(&helper->state, HELPER_IDLE);
	}

	return lost;
}

/**
 * mtcopy_report() - report the status of each folio
 * @job: a job without untaken pieces, whose helpers have finished or are lost
 * @batch: the batch that the job was filled from
 */
VISIBLE_IF_KUNIT void mtcopy_report(struct mtcopy_job *job,
				    struct migrate_copy_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr_pairs; i++) {
		enum migrate_copy_status status = MIGRATE_COPY_DONE;

		if (atomic_read_acquire(&job->left[i]))
			status = MIGRATE_COPY_LOST;
		else if (test_bit(i, job->failed))
			status = MIGRATE_COPY_ERROR;
		migrate_offload_report(&batch->pairs[i], status);
	}
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_report);

/* Return false if no helper can be asked. Then nothing is copied. */
static bool copy_with_helpers(struct migrate_copy_batch *batch,
			      unsigned int max)
{
	struct mtcopy_job *job = get_job();
	struct mtcopy_piece piece;
	bool lost;

	if (!job)
		return false;
	claim_helpers(job, batch, max);
	if (!job->nr_helpers) {
		put_job(job);
		return false;
	}

	mtcopy_fill(job, batch);
	offer_job(job);
	while (mtcopy_take(job, &piece))
		mtcopy_copy(job, &piece);

	withdraw_offers(job);
	wait_for_helpers(job, batch->deadline);
	lost = release_helpers(job);
	mtcopy_report(job, batch);
	if (!lost)
		put_job(job);
	return true;
}

static void copy_alone(struct migrate_copy_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr_pairs; i++) {
		struct migrate_copy_pair *pair = &batch->pairs[i];
		int error = folio_mc_copy(pair->dst, pair->src);

		migrate_offload_report(pair, error ? MIGRATE_COPY_ERROR :
						     MIGRATE_COPY_DONE);
		cond_resched();
	}
}

/* A kind: nodes, size of the batch, and whether its folios are large. */
static struct mtcopy_gain *find_gain(const struct migrate_copy_batch *batch)
{
	const u32 src = folio_nid(batch->pairs[0].src);
	const u32 dst = folio_nid(batch->pairs[0].dst);
	const u32 large = batch->nr_pages / batch->nr_pairs >= MTCOPY_MIN_PIECE;
	const u32 nodes = src * MAX_NUMNODES + dst;

	return &gains[hash_32(nodes << 7 | ilog2(batch->nr_pages) << 1 | large,
			      MTCOPY_GAIN_BITS)];
}

static bool should_ask(const struct mtcopy_gain *gain)
{
	guard(spinlock)(&gains_lock);
	return mtcopy_ask(gain) || !adapt;
}

static void learn(struct mtcopy_gain *gain, bool helped, u64 ns,
		  unsigned long nr_pages)
{
	guard(spinlock)(&gains_lock);
	if (helped)
		helped_batches++;
	else
		lone_batches++;
	if (adapt)
		mtcopy_learn(gain, helped, ns, nr_pages);
}

static int mtcopy_submit(struct migrator *migrator,
			 struct migrate_copy_batch *batch)
{
	unsigned int max = mtcopy_threads(batch->nr_pages, READ_ONCE(threads));
	struct mtcopy_gain *gain = find_gain(batch);
	const u64 begin = ktime_get_ns();
	bool helped;

	/* Waiting for a helper would boost it above a SCHED_IDLE caller. */
	if (max == 1 || current->policy == SCHED_IDLE) {
		copy_alone(batch);
		return 0;
	}

	helped = should_ask(gain) && copy_with_helpers(batch, max - 1);
	if (!helped)
		copy_alone(batch);
	learn(gain, helped, ktime_get_ns() - begin, batch->nr_pages);
	return 0;
}

static void mtcopy_wait(struct migrator *migrator,
			struct migrate_copy_batch *batch)
{
}

static struct migrator mtcopy_migrator = {
	.name		= "mtcopy",
	.min_pages	= 2 * MTCOPY_SHARE_PAGES,
	.submit		= mtcopy_submit,
	.wait		= mtcopy_wait,
};

module_param_named(min_pages, mtcopy_migrator.min_pages, uint, 0644);
MODULE_PARM_DESC(min_pages, "Smallest batch to copy, in base pages; core copies smaller ones (default: 128)");

module_param_named(min_order, mtcopy_migrator.min_order, uint, 0644);
MODULE_PARM_DESC(min_order, "Order of the smallest folio to copy (default: 0)");

static int __init mtcopy_init(void)
{
	unsigned int i;
	int error;

	nr_jobs = min(MTCOPY_MAX_JOBS, num_possible_cpus());
	jobs = kvzalloc_objs(*jobs, nr_jobs);
	if (!jobs)
		return -ENOMEM;
	for (i = 0; i < nr_jobs; i++)
		init_waitqueue_head(&jobs[i].wait);

	error = smpboot_register_percpu_thread(&helper_threads);
	if (error)
		goto free_jobs;

	error = migrate_offload_register(&mtcopy_migrator);
	if (error)
		goto stop_helpers;

	return 0;

stop_helpers:
	smpboot_unregister_percpu_thread(&helper_threads);
free_jobs:
	kvfree(jobs);
	return error;
}
module_init(mtcopy_init);

static void __exit mtcopy_exit(void)
{
	/* After this no caller owns a job or a helper. */
	migrate_offload_unregister(&mtcopy_migrator);
	smpboot_unregister_percpu_thread(&helper_threads);
	kvfree(jobs);
}
module_exit(mtcopy_exit);

MODULE_DESCRIPTION("Copy offload for page migration: several CPUs");
MODULE_LICENSE("GPL");
