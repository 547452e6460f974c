// SPDX-License-Identifier: GPL-2.0
/*
 * mtcopy: copy the folios of a migration batch with several CPUs.
 *
 * The migrating task (the caller) copies, and asks helpers to join in: one thread per CPU, in
 * SCHED_IDLE, so that it only runs where the CPU is otherwise idle. Caller and helpers take
 * pieces of the batch until none are left.
 *
 * A helper copies each piece without preemption, so the caller waits for it at most as long as
 * a piece takes, even if other tasks want its CPU. If a helper does not come back for some
 * seconds, because a host has taken its CPU away, then the folios of its piece are lost, since
 * nothing can stop it from writing to them.
 *
 * From time to time mtcopy copies a batch with helpers and the next one without, and does until
 * the next trial as the faster one did.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smpboot.h>
#include <uapi/linux/sched/types.h>

#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "mtcopy.h"

/* Batches at a time; core copies further ones. */
#define MTCOPY_JOBS		16

/* A thread with a smaller share is not worth it: waking a helper takes as long. */
#define MTCOPY_SHARE		64U

/* Longer than any piece takes, unless the helper has no CPU. */
#define MTCOPY_SPIN_NS		(50 * NSEC_PER_USEC)
#define MTCOPY_STOP		(5 * HZ)

static unsigned int threads = 4;
module_param(threads, uint, 0644);
MODULE_PARM_DESC(threads, "Maximum number of threads that copy a batch, the caller included, up to 16 (default: 4)");

static unsigned long helped_pages;
module_param(helped_pages, ulong, 0444);
MODULE_PARM_DESC(helped_pages, "Number of base pages that helpers have copied");

static DEFINE_PER_CPU(struct mtcopy_helper, helpers);

static struct mtcopy_job *jobs;

/* Protects helped_pages and trials. There is a trial for each node that batches go to. */
static DEFINE_SPINLOCK(trials_lock);
static struct mtcopy_trial trials[MAX_NUMNODES];

/* Take the next piece of a job, and copy it. Return its number of pages; 0 if all are taken. */
VISIBLE_IF_KUNIT unsigned int mtcopy_copy_piece(struct mtcopy_job *job)
{
	unsigned int page = atomic_fetch_add(MTCOPY_PIECE, &job->next);
	const unsigned int end = min(page + MTCOPY_PIECE, job->nr_pages);
	unsigned int i = 0, copied = 0, nr;

	for (; page < end; page += nr, copied += nr) {
		while (page >= job->start[i + 1])
			i++;
		nr = min(end, job->start[i + 1]) - page;
		/* Poison: in the move phase the CPU copies again, and decides. */
		if (copy_mc_pages(folio_page(job->dst[i], page - job->start[i]),
				  folio_page(job->src[i], page - job->start[i]), nr))
			set_bit(i, job->failed);
		/* Pairs with the acquire in mtcopy_report(): left == 0 publishes the bytes. */
		atomic_fetch_sub_release(nr, &job->left[i]);
	}
	return copied;
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_copy_piece);

/*
 * Copy a piece of the job that a helper is offered, without preemption: the caller may have to
 * wait for it. Return true if there may be another piece.
 */
VISIBLE_IF_KUNIT bool mtcopy_help(struct mtcopy_helper *helper)
{
	bool more;

	guard(preempt)();
	if (atomic_cmpxchg(&helper->state, HELPER_OFFERED, HELPER_RUNNING) != HELPER_OFFERED)
		return false;
	more = mtcopy_copy_piece(helper->job);
	/* A lost helper stays lost. Otherwise the caller may end the offer now. */
	atomic_cmpxchg(&helper->state, HELPER_RUNNING, more ? HELPER_OFFERED : HELPER_CLAIMED);
	return more;
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_help);

static void helper_setup(unsigned int cpu)
{
	const struct sched_attr attr = { .sched_policy = SCHED_IDLE };

	WARN_ON_ONCE(sched_setattr_nocheck(current, &attr));
}

static int helper_should_run(unsigned int cpu)
{
	return atomic_read(&per_cpu(helpers.state, cpu)) == HELPER_OFFERED;
}

static void helper_run(unsigned int cpu)
{
	mtcopy_help(per_cpu_ptr(&helpers, cpu));
	cond_resched();
}

static struct smp_hotplug_thread helper_threads = {
	.store			= &helpers.task,
	.setup			= helper_setup,
	.thread_should_run	= helper_should_run,
	.thread_fn		= helper_run,
	.thread_comm		= "mtcopy/%u",
};

VISIBLE_IF_KUNIT bool mtcopy_housekeeping(unsigned int cpu, enum hk_type type)
{
	KUNIT_STATIC_STUB_REDIRECT(mtcopy_housekeeping, cpu, type);

	return housekeeping_cpu(cpu, type);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_housekeeping);

/* Isolated and tickless CPUs are left alone, even if the caller may run there. */
VISIBLE_IF_KUNIT bool mtcopy_may_ask(unsigned int cpu, const struct cpumask *allowed)
{
	guard(rcu)();

	return cpumask_test_cpu(cpu, allowed) &&
	       mtcopy_housekeeping(cpu, HK_TYPE_DOMAIN) &&
	       mtcopy_housekeeping(cpu, HK_TYPE_KERNEL_NOISE);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_may_ask);

static void claim_helper(struct mtcopy_job *job, unsigned int cpu)
{
	struct mtcopy_helper *helper = per_cpu_ptr(&helpers, cpu);

	if (!READ_ONCE(helper->task) || !cpu_online(cpu) || cpu == raw_smp_processor_id() ||
	    !mtcopy_may_ask(cpu, &current->cpus_mask) ||
	    atomic_cmpxchg(&helper->state, HELPER_IDLE, HELPER_CLAIMED) != HELPER_IDLE)
		return;

	helper->job = job;
	job->helpers[job->nr_helpers++] = helper;
}

/* Claim up to @max helpers near the memory, or else near the caller. */
static void claim_helpers(struct mtcopy_job *job, const struct migrate_offload_batch *batch,
			  unsigned int max)
{
	const int nodes[] = { folio_nid(batch->pairs[0].dst), folio_nid(batch->pairs[0].src),
			      numa_node_id() };
	unsigned int i, cpu;

	job->nr_helpers = 0;
	for (i = 0; i < ARRAY_SIZE(nodes); i++) {
		/* Start at different helpers for different callers of a node. */
		for_each_cpu_wrap(cpu, cpumask_of_node(nodes[i]), raw_smp_processor_id()) {
			if (job->nr_helpers == max)
				return;
			claim_helper(job, cpu);
		}
	}
}

VISIBLE_IF_KUNIT void mtcopy_fill(struct mtcopy_job *job,
				  const struct migrate_offload_batch *batch)
{
	unsigned int i, pages = 0;

	for (i = 0; i < batch->nr_pairs; i++) {
		const struct migrate_offload_pair *pair = &batch->pairs[i];

		job->src[i] = pair->src;
		job->dst[i] = pair->dst;
		job->start[i] = pages;
		atomic_set(&job->left[i], folio_nr_pages(pair->src));
		pages += folio_nr_pages(pair->src);
	}
	job->start[i] = pages;
	job->nr_pages = pages;
	bitmap_zero(job->failed, batch->nr_pairs);
	atomic_set(&job->next, 0);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_fill);

static void offer_job(struct mtcopy_job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++) {
		/* A helper that takes the offer sees the whole job. */
		atomic_set_release(&job->helpers[i]->state, HELPER_OFFERED);
		wake_up_process(job->helpers[i]->task);
	}
}

/*
 * End the offer to a helper. Return true if the helper has no piece and gets none; false
 * if it had one until @end (in jiffies), and is lost.
 */
VISIBLE_IF_KUNIT bool mtcopy_recall(struct mtcopy_helper *helper, unsigned long end)
{
	const u64 spin_end = ktime_get_ns() + MTCOPY_SPIN_NS;

	while (atomic_cmpxchg(&helper->state, HELPER_OFFERED, HELPER_CLAIMED) ==
	       HELPER_RUNNING) {
		if (ktime_get_ns() < spin_end)
			cpu_relax();
		else if (time_before(jiffies, end))
			schedule_timeout_uninterruptible(1);
		else if (atomic_cmpxchg(&helper->state, HELPER_RUNNING, HELPER_LOST) ==
			 HELPER_RUNNING)
			return false;
	}
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_recall);

/* Return false if a helper is lost. */
static bool release_helpers(struct mtcopy_job *job)
{
	const unsigned long end = jiffies + MTCOPY_STOP;
	bool all = true;
	unsigned int i;

	for (i = 0; i < job->nr_helpers; i++) {
		struct mtcopy_helper *helper = job->helpers[i];

		if (mtcopy_recall(helper, end)) {
			atomic_set_release(&helper->state, HELPER_IDLE);
		} else {
			pr_warn("%s does not finish: the folios that it copies are lost\n",
				helper->task->comm);
			all = false;
		}
	}
	return all;
}

/* Report the folios of a job without untaken pieces, whose helpers are done or lost. */
VISIBLE_IF_KUNIT void mtcopy_report(struct mtcopy_job *job,
				    struct migrate_offload_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr_pairs; i++) {
		enum migrate_offload_status status = MIGRATE_OFFLOAD_DONE;

		if (atomic_read_acquire(&job->left[i]))
			status = MIGRATE_OFFLOAD_LOST;
		else if (test_bit(i, job->failed))
			status = MIGRATE_OFFLOAD_ERROR;
		migrate_offload_report(&batch->pairs[i], status);
	}
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_report);

static struct mtcopy_job *get_job(void)
{
	struct mtcopy_job *job;

	for (job = jobs; job < jobs + MTCOPY_JOBS; job++)
		if (!atomic_cmpxchg(&job->taken, 0, 1))
			return job;
	return NULL;
}

/* Return whether to ask helpers: where they pay, and first in each comparison. */
VISIBLE_IF_KUNIT bool mtcopy_pays(const struct mtcopy_trial *trial)
{
	const unsigned int turn = trial->nr % MTCOPY_TRIAL;

	return !turn || (turn > 1 && trial->score > 0);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_pays);

/*
 * Learn from a batch that took @cost for its size. Helpers pay if they save a sixteenth of it.
 * Each comparison counts the same: the caller may have lost its CPU in one of the batches.
 */
VISIBLE_IF_KUNIT void mtcopy_learn(struct mtcopy_trial *trial, bool helped, u64 cost)
{
	unsigned int turn = trial->nr++ % MTCOPY_TRIAL;

	if (turn == 0)
		trial->helped = helped ? cost : 0;
	if (turn != 1 || helped || !trial->helped)
		return;
	if (trial->helped < cost - cost / 16)
		trial->score = min(trial->score + 1, MTCOPY_SCORE);
	else
		trial->score = max(trial->score - 1, -MTCOPY_SCORE);
}
EXPORT_SYMBOL_IF_KUNIT(mtcopy_learn);

static int mtcopy_submit(struct migrator *migrator, struct migrate_offload_batch *batch)
{
	const unsigned int max = min3(batch->nr_pages / MTCOPY_SHARE,
				      READ_ONCE(threads), MTCOPY_MAX_THREADS);
	struct mtcopy_trial *trial = &trials[folio_nid(batch->pairs[0].dst)];
	struct mtcopy_job *job = get_job();
	const u64 start = ktime_get_ns();
	unsigned int own = 0, nr;
	bool pays, lost;

	if (!job)
		return -EBUSY;
	scoped_guard(spinlock, &trials_lock)
		pays = max > 1 && mtcopy_pays(trial);
	claim_helpers(job, batch, pays ? max - 1 : 0);
	mtcopy_fill(job, batch);
	offer_job(job);
	while ((nr = mtcopy_copy_piece(job))) {
		own += nr;
		cond_resched();
	}
	lost = !release_helpers(job);
	mtcopy_report(job, batch);

	scoped_guard(spinlock, &trials_lock) {
		helped_pages += batch->nr_pages - own;
		if (max > 1)
			mtcopy_learn(trial, job->nr_helpers,
				     (ktime_get_ns() - start) * 16 / batch->nr_pages);
	}
	if (!lost)
		atomic_set_release(&job->taken, 0);
	return 0;
}

static void mtcopy_wait(struct migrator *migrator, struct migrate_offload_batch *batch)
{
}

static struct migrator mtcopy_migrator = {
	.name		= "mtcopy",
	.min_pages	= 2 * MTCOPY_SHARE,
	.submit		= mtcopy_submit,
	.wait		= mtcopy_wait,
};

static int __init mtcopy_init(void)
{
	int error;

	jobs = kvzalloc_objs(*jobs, MTCOPY_JOBS);
	if (!jobs)
		return -ENOMEM;
	error = smpboot_register_percpu_thread(&helper_threads);
	if (!error) {
		error = migrate_offload_register(&mtcopy_migrator);
		if (!error)
			return 0;
		smpboot_unregister_percpu_thread(&helper_threads);
	}
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
