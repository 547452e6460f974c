// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure how long page migration keeps memory inaccessible, and how long each
 * phase takes
 *
 * Probes on the tracepoints of the phases accumulate in the kernel what user
 * space would otherwise compute from a trace of every folio. Files in debugfs,
 * directory migrate_latency/:
 *
 *	enabled		write 1 to reset all figures and start, 0 to stop
 *	phases		total time of each phase of all batches
 *	first_folio	time from the entry of migrate_pages() until the first
 *			folio was accessible again
 *	inaccessible	histogram over all folios: time from before the first
 *			PTE became a migration entry to after the last one
 *			works again
 *	affected	the same from before the first PTE became read-only, to
 *			be copied live, if any did: a write faults from then on
 *
 * No probe is registered while the measurement is stopped.
 */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/migrate_mode.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include <trace/events/migrate.h>

/* Number of concurrently migrating tasks that can be measured */
#define TASK_BITS	6
#define NR_TASKS	BIT(TASK_BITS)

/* Number of concurrently unmapped folios that can be measured */
#define FOLIO_BITS	20
#define NR_FOLIOS	BIT(FOLIO_BITS)
/* A folio takes one of this many adjacent slots, from its hash on. */
#define NR_WAYS		16

/* Each octave of nanoseconds has this many buckets: no bucket is wider than 1.6 %. */
#define SUB_BITS	6
#define NR_SUB		BIT(SUB_BITS)
/* Times of 2^36 ns (68 s) and more share the last bucket. */
#define MAX_BITS	36
#define NR_BUCKETS	((MAX_BITS - SUB_BITS + 1) * NR_SUB)

/**
 * struct migrating_task - a task inside migrate_pages()
 * @task: the task, or NULL if the slot is free; the task that claims a slot owns
 *	the other fields until it resets @task
 * @depth: number of nested calls, made by the allocation of a dst; they are not
 *	measured, and their time counts for the outermost call
 * @start: when the task entered migrate_pages()
 * @moved: whether a folio has become accessible again since @start
 * @batch: when the batch began
 * @unmapped: when the last folio of the batch was unmapped; 0 if none was
 * @flushed: when the flush of the batch ended; 0 before that
 * @copied: when a migrator finished the batch; 0 if none has
 * @accessible: when the latest folio of the batch became accessible; 0 if none has
 * @change: when PTEs of the folio @changed last began to change
 * @changed: its pfn
 */
struct migrating_task {
	struct task_struct	*task;
	unsigned int		depth;
	u64			start;
	bool			moved;
	u64			batch;
	u64			unmapped;
	u64			flushed;
	u64			copied;
	u64			accessible;
	u64			change;
	unsigned long		changed;
};

/**
 * struct unmapped_folio - a folio whose PTEs change
 * @key: pfn of the src folio plus one, or 0 if the slot is free
 * @affected: when the first PTE was about to change
 * @time: when the first PTE was about to become a migration entry
 */
struct unmapped_folio {
	unsigned long		key;
	u64			affected;
	u64			time;
};

struct histogram {
	u64			buckets[NR_BUCKETS];
	u64			max;
};

static struct {
	spinlock_t		lock;	/* protects all fields below */
	u64			unmap;
	u64			flush;
	u64			copy;
	u64			move;
	u64			batches;
	u64			first_count;
	u64			first_sum;
	u64			first_min;
	u64			first_max;
} totals = {
	.lock = __SPIN_LOCK_UNLOCKED(totals.lock),
};

static DEFINE_MUTEX(enable_mutex);
static bool enabled;
static atomic64_t folios;
static atomic64_t lost;
static struct migrating_task tasks[NR_TASKS];
static struct unmapped_folio *unmapped_folios;
enum { INACCESSIBLE, AFFECTED, NR_HISTOGRAMS };
static struct histogram __percpu *histograms[NR_HISTOGRAMS];

static unsigned int bucket_of(u64 ns)
{
	unsigned int shift;

	if (ns < NR_SUB)
		return ns;
	if (ns >= BIT_ULL(MAX_BITS))
		return NR_BUCKETS - 1;
	shift = __fls(ns) - SUB_BITS;
	return ((shift + 1) << SUB_BITS) + (ns >> shift) - NR_SUB;
}

/* Return the lower bound of a bucket, which is the upper bound of the one before. */
static u64 bucket_low(unsigned int bucket)
{
	unsigned int octave = bucket >> SUB_BITS;

	if (!octave)
		return bucket;
	return (u64)(NR_SUB + (bucket & (NR_SUB - 1))) << (octave - 1);
}

static void histogram_add(unsigned int which, u64 ns)
{
	struct histogram *histogram = get_cpu_ptr(histograms[which]);

	histogram->buckets[bucket_of(ns)]++;
	histogram->max = max(histogram->max, ns);
	put_cpu_ptr(histograms[which]);
}

static struct migrating_task *task_find(struct task_struct *task)
{
	unsigned int i, first = hash_ptr(current, TASK_BITS);

	for (i = 0; i < NR_TASKS; i++) {
		struct migrating_task *t = &tasks[(first + i) % NR_TASKS];

		if (READ_ONCE(t->task) == task)
			return t;
	}
	return NULL;
}

/* Return the slot of the current task, or NULL in a nested call. */
static struct migrating_task *task_measured(void)
{
	struct migrating_task *t = task_find(current);

	return t && !t->depth ? t : NULL;
}

static struct migrating_task *task_claim(void)
{
	struct migrating_task *t;

	while ((t = task_find(NULL)))
		if (!cmpxchg(&t->task, NULL, current))
			return t;
	return NULL;
}

static struct unmapped_folio *folio_slot(unsigned long pfn, unsigned int way)
{
	return &unmapped_folios[(hash_long(pfn, FOLIO_BITS) + way) % NR_FOLIOS];
}

/* Return a slot for a folio; if none is free, another folio loses the first one. */
static struct unmapped_folio *folio_slot_claim(unsigned long pfn)
{
	unsigned int way;

	for (way = 0; way < NR_WAYS; way++) {
		struct unmapped_folio *slot = folio_slot(pfn, way);
		unsigned long key = READ_ONCE(slot->key);

		if (!key || key == pfn + 1)
			return slot;
	}
	return folio_slot(pfn, 0);
}

/* Return the slot that a folio claimed, or NULL. */
static struct unmapped_folio *folio_slot_find(unsigned long pfn)
{
	unsigned int way;

	for (way = 0; way < NR_WAYS; way++) {
		struct unmapped_folio *slot = folio_slot(pfn, way);

		if (READ_ONCE(slot->key) == pfn + 1)
			return slot;
	}
	return NULL;
}

static void batch_end(struct migrating_task *t)
{
	u64 copied = t->copied;

	/* A live copy is no phase of a batch: it ends earlier, or is of other folios. */
	if (copied < t->flushed || (t->accessible && copied > t->accessible))
		copied = t->flushed;

	if (t->unmapped && t->flushed) {
		guard(spinlock)(&totals.lock);
		totals.unmap += t->unmapped - t->batch;
		totals.flush += t->flushed - t->unmapped;
		totals.copy += copied - t->flushed;
		if (t->accessible)
			totals.move += t->accessible - copied;
		totals.batches++;
	}
	t->unmapped = 0;
	t->flushed = 0;
	t->copied = 0;
	t->accessible = 0;
}

static void probe_start(void *data, enum migrate_mode mode,
			enum migrate_reason reason)
{
	struct migrating_task *t = task_find(current);

	if (t) {
		t->depth++;
		return;
	}
	t = task_claim();
	if (!t) {
		atomic64_inc(&lost);
		return;
	}
	t->moved = false;
	t->start = ktime_get_ns();
	t->batch = t->start;
}

static void probe_batch_start(void *data, enum migrate_mode mode,
			      enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();

	if (!t)
		return;
	batch_end(t);
	t->batch = ktime_get_ns();
}

/* Note when a folio was affected first in this call, and return its slot. */
static struct unmapped_folio *folio_affected(const struct migrating_task *t,
					     unsigned long pfn, u64 now)
{
	struct unmapped_folio *slot = folio_slot_find(pfn) ?: folio_slot_claim(pfn);

	/* A key that is still set may belong to a folio that failed: overwrite it. */
	if (xchg(&slot->key, pfn + 1) != pfn + 1 || slot->affected < t->start)
		WRITE_ONCE(slot->affected, now);
	return slot;
}

static void probe_change(void *data, struct folio *folio)
{
	struct migrating_task *t = task_measured();

	if (!t)
		return;
	t->change = ktime_get_ns();
	t->changed = folio_pfn(folio);
	folio_affected(t, t->changed, t->change);
}

static void probe_unmapped(void *data, struct folio *src, struct folio *dst,
			   enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();
	struct unmapped_folio *slot;

	if (!t)
		return;
	t->unmapped = ktime_get_ns();
	slot = folio_affected(t, folio_pfn(src), t->unmapped);
	/* A folio that has no PTE does not change. */
	WRITE_ONCE(slot->time, t->changed == folio_pfn(src) ? t->change : t->unmapped);
}

static void probe_flush(void *data, enum migrate_mode mode,
			enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();

	if (!t)
		return;
	t->flushed = ktime_get_ns();
}

#ifdef CONFIG_MIGRATION_COPY_OFFLOAD
/* A migrator may be called several times per batch: the last call counts. */
static void probe_copied(void *data, const char *migrator,
			 unsigned int nr_folios, unsigned int nr_copied,
			 unsigned long nr_pages, enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();

	if (t)
		t->copied = ktime_get_ns();
}

#endif

static void probe_accessible(void *data, struct folio *src, struct folio *dst,
			     enum migrate_reason reason)
{
	struct migrating_task *t = task_measured();
	struct unmapped_folio *slot;
	u64 affected, time, now = ktime_get_ns();

	if (!t)
		return;
	t->accessible = now;
	atomic64_inc(&folios);

	if (!t->moved) {
		u64 latency = now - t->start;

		t->moved = true;
		guard(spinlock)(&totals.lock);
		if (!totals.first_count || latency < totals.first_min)
			totals.first_min = latency;
		totals.first_max = max(totals.first_max, latency);
		totals.first_sum += latency;
		totals.first_count++;
	}

	slot = folio_slot_find(folio_pfn(src));
	affected = slot ? READ_ONCE(slot->affected) : 0;
	time = slot ? READ_ONCE(slot->time) : 0;
	/* The times are valid if the slot still has the key of this folio now. */
	if (slot &&
	    cmpxchg(&slot->key, folio_pfn(src) + 1, 0) == folio_pfn(src) + 1) {
		histogram_add(INACCESSIBLE, now - time);
		histogram_add(AFFECTED, now - affected);
	} else {
		atomic64_inc(&lost);
	}
}

static void probe_end(void *data, unsigned long succeeded, unsigned long failed,
		      unsigned long thp_succeeded, unsigned long thp_failed,
		      unsigned long thp_split, unsigned long large_folio_split,
		      enum migrate_mode mode, enum migrate_reason reason)
{
	struct migrating_task *t = task_find(current);

	if (!t)
		return;
	if (t->depth) {
		t->depth--;
		return;
	}
	batch_end(t);
	/* The next task that claims the slot sees it reset. */
	smp_store_release(&t->task, NULL);
}

/* In the order of registration: no probe does anything without the last one. */
static const struct {
	struct tracepoint *event;
	void *probe;
} probes[] = {
	{ &__tracepoint_mm_migrate_pages, probe_end },
	{ &__tracepoint_mm_migrate_folio_accessible, probe_accessible },
#ifdef CONFIG_MIGRATION_COPY_OFFLOAD
	{ &__tracepoint_mm_migrate_batch_copied, probe_copied },
#endif
	{ &__tracepoint_mm_migrate_batch_flush, probe_flush },
	{ &__tracepoint_mm_migrate_folio_unmapped, probe_unmapped },
	{ &__tracepoint_mm_migrate_folio_change, probe_change },
	{ &__tracepoint_mm_migrate_batch_start, probe_batch_start },
	{ &__tracepoint_mm_migrate_pages_start, probe_start },
};

/*
 * Tasks inside migrate_pages() may leave their slots in use; start() resets all
 * slots.
 */
static void probes_unregister(unsigned int nr)
{
	while (nr--)
		tracepoint_probe_unregister(probes[nr].event, probes[nr].probe, NULL);
	tracepoint_synchronize_unregister();
}

static int probes_register(void)
{
	unsigned int i;
	int ret;

	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		ret = tracepoint_probe_register(probes[i].event, probes[i].probe, NULL);
		if (ret) {
			probes_unregister(i);
			return ret;
		}
	}
	return 0;
}

static void stop(void)
{
	if (!enabled)
		return;
	probes_unregister(ARRAY_SIZE(probes));
	vfree(unmapped_folios);
	unmapped_folios = NULL;
	enabled = false;
}

static int start(void)
{
	int cpu, which, ret;

	stop();

	for (which = 0; which < NR_HISTOGRAMS; which++)
		histograms[which] = histograms[which] ?: alloc_percpu(struct histogram);
	unmapped_folios = vcalloc(NR_FOLIOS, sizeof(*unmapped_folios));
	if (!histograms[INACCESSIBLE] || !histograms[AFFECTED] || !unmapped_folios) {
		ret = -ENOMEM;
		goto err_free;
	}

	/* Without probes only readers of the totals access this data. */
	memset(tasks, 0, sizeof(tasks));
	for (which = 0; which < NR_HISTOGRAMS; which++)
		for_each_possible_cpu(cpu)
			memset(per_cpu_ptr(histograms[which], cpu), 0, sizeof(struct histogram));
	scoped_guard(spinlock, &totals.lock)
		memset_after(&totals, 0, lock);
	atomic64_set(&folios, 0);
	atomic64_set(&lost, 0);

	ret = probes_register();
	if (ret)
		goto err_free;
	enabled = true;
	return 0;

err_free:
	vfree(unmapped_folios);
	unmapped_folios = NULL;
	return ret;
}

static int enabled_get(void *data, u64 *value)
{
	guard(mutex)(&enable_mutex);
	*value = enabled;
	return 0;
}

static int enabled_set(void *data, u64 value)
{
	guard(mutex)(&enable_mutex);
	if (value > 1)
		return -EINVAL;
	if (value)
		return start();
	stop();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(enabled_fops, enabled_get, enabled_set, "%llu\n");

static int phases_show(struct seq_file *m, void *unused)
{
	guard(spinlock)(&totals.lock);
	seq_printf(m, "unmap_ns %llu\n", totals.unmap);
	seq_printf(m, "flush_ns %llu\n", totals.flush);
	seq_printf(m, "copy_ns %llu\n", totals.copy);
	seq_printf(m, "move_ns %llu\n", totals.move);
	seq_printf(m, "batches %llu\n", totals.batches);
	seq_printf(m, "folios %lld\n", atomic64_read(&folios));
	seq_printf(m, "lost %lld\n", atomic64_read(&lost));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(phases);

static int first_folio_show(struct seq_file *m, void *unused)
{
	guard(spinlock)(&totals.lock);
	seq_printf(m, "count %llu\n", totals.first_count);
	seq_printf(m, "sum_ns %llu\n", totals.first_sum);
	seq_printf(m, "min_ns %llu\n", totals.first_min);
	seq_printf(m, "max_ns %llu\n", totals.first_max);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(first_folio);

static int histogram_show(struct seq_file *m, void *unused)
{
	struct histogram __percpu *histogram;
	unsigned int bucket;
	u64 longest = 0;
	int cpu;

	guard(mutex)(&enable_mutex);
	histogram = *(struct histogram __percpu **)m->private;
	if (!histogram)
		return 0;

	for (bucket = 0; bucket < NR_BUCKETS; bucket++) {
		u64 count = 0;

		for_each_possible_cpu(cpu)
			count += per_cpu_ptr(histogram, cpu)->buckets[bucket];
		if (count)
			seq_printf(m, "%llu %llu %llu\n", bucket_low(bucket),
				   bucket_low(bucket + 1), count);
	}
	for_each_possible_cpu(cpu)
		longest = max(longest, per_cpu_ptr(histogram, cpu)->max);
	seq_printf(m, "max_ns %llu\n", longest);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(histogram);

static int __init migrate_latency_init(void)
{
	struct dentry *dir = debugfs_create_dir("migrate_latency", NULL);

	debugfs_create_file("enabled", 0600, dir, NULL, &enabled_fops);
	debugfs_create_file("phases", 0400, dir, NULL, &phases_fops);
	debugfs_create_file("first_folio", 0400, dir, NULL, &first_folio_fops);
	debugfs_create_file("inaccessible", 0400, dir, &histograms[INACCESSIBLE],
			    &histogram_fops);
	debugfs_create_file("affected", 0400, dir, &histograms[AFFECTED], &histogram_fops);
	return 0;
}
late_initcall(migrate_latency_init);
