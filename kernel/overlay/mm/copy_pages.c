// SPDX-License-Identifier: GPL-2.0
/*
 * The primitives that copy ranges of pages, measured.
 *
 * A range can be copied page by page, or with one call of a bulk primitive. No way is the
 * fastest everywhere: it depends on the processor, on the length, and on the use of the
 * destination. So the kernel measures the primitives after the first copy of a range, and
 * uses a primitive where it was measurably faster than the loop, which it uses elsewhere.
 * Until then it does as kernels that cannot measure.
 */

#define pr_fmt(fmt) "copy_pages: " fmt

#include <kunit/visibility.h>
#include <linux/cleanup.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/init.h>
#include <linux/kobject.h>
#include <linux/ktime.h>
#include <linux/memory.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/node.h>
#include <linux/nodemask.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include <asm/copy_pages.h>

#include "copy_pages.h"

/* The loop that a primitive replaces; the two need not be equally fast. */
enum copy_loop {
	COPY_LOOP_PLAIN,
	COPY_LOOP_MC,
	NR_COPY_LOOPS,
};

/* A smaller sample takes hardly longer than reading the clock. */
#define SAMPLE_BYTES	(256UL << 10)

/* Delay after the first copy, since timings are noisy during boot. */
#define CALIBRATION_DELAY	(10 * HZ)

/* The machine-check-safe loop is measured like one more primitive. */
#define MC_LOOP		NR_COPY_PRIMITIVES
#define NR_MEASURED	(NR_COPY_PRIMITIVES + 1)

static int copy_forced = COPY_AUTO;
static u8 copy_choices[NR_COPY_LOOPS][NR_COPY_USES][NR_COPY_CLASSES] = {
	[0 ... NR_COPY_LOOPS - 1] = {
		[0 ... NR_COPY_USES - 1] = { [0 ... NR_COPY_CLASSES - 1] = COPY_DEFAULT },
	},
};

/* Protects copy_calibrated; held by every writer of copy_choices. */
static DEFINE_MUTEX(copy_lock);
static bool copy_calibrated;

static void calibrate_in_background(struct work_struct *work);
static DECLARE_DELAYED_WORK(calibration_work, calibrate_in_background);

/* Calibrate soon after the first copy that could use a choice. */
static void want_calibration(void)
{
	static bool wanted;

	if (READ_ONCE(wanted) || xchg(&wanted, true))
		return;
	if (arch_copy_timings_last())
		queue_delayed_work(system_dfl_wq, &calibration_work, CALIBRATION_DELAY);
}

/*
 * A task that moves memory to a remote node is unlikely to read it soon, and would have to
 * fetch it anyway. Memory zeroed on allocation is already in this CPU's cache, where
 * stores that bypass the cache lose.
 */
static enum copy_use copy_use_of(const struct page *dst, const struct page *src)
{
	int nid = page_to_nid(dst);

	if (nid == page_to_nid(src) || nid == numa_mem_id() || want_init_on_alloc(0))
		return COPY_FOR_READER;
	return COPY_FAR;
}

static enum copy_primitive choose(const struct page *dst, const struct page *src,
				  unsigned long bytes, bool mc)
{
	unsigned int class = copy_class(bytes);
	int forced = READ_ONCE(copy_forced);

	if (class == COPY_CLASS_NONE)
		return COPY_DEFAULT;
	if (forced == COPY_AUTO) {
		want_calibration();
		return READ_ONCE(copy_choices[mc ? COPY_LOOP_MC : COPY_LOOP_PLAIN]
					      [copy_use_of(dst, src)][class]);
	}
	if (!(arch_copy_primitives(mc) & BIT(forced)))
		return COPY_DEFAULT;
	return forced;
}

/**
 * copy_pages_chosen - copy a range of pages with the primitive that was chosen for it
 * @dst: first of the pages to copy to
 * @src: first of the pages to copy from
 * @len: length in bytes, a multiple of the page size and not 0
 * @mc: whether the copy must survive poison in @src
 *
 * Return: the number of bytes at the end that are left to the loop.
 */
unsigned long copy_pages_chosen(struct page *dst, struct page *src, unsigned long len, bool mc)
{
	enum copy_primitive primitive = choose(dst, src, len, mc);
	void *to = page_address(dst), *from = page_address(src);

	switch (primitive) {
	case COPY_PER_PAGE:
		return len;
	case COPY_DEFAULT:
		return mc ? arch_copy_mc_pages(to, from, len) : arch_copy_pages(to, from, len);
	default:
		if (mc)
			return arch_copy_mc_pages_by(primitive, to, from, len);
		arch_copy_pages_by(primitive, to, from, len);
		return 0;
	}
}

/* Buffers and results of a calibration; too large for the stack. */
struct copy_calibration {
	struct page *src;
	struct page *dst;
	u64 ns[NR_COPY_STATES][NR_MEASURED][COPY_ROUNDS];
	struct copy_timings timings[NR_COPY_STATES];
};

static bool is_measured(unsigned int measured)
{
	return measured == MC_LOOP || arch_copy_primitives(false) & BIT(measured);
}

/* Ignore poison in the freshly allocated samples: the next user meets it. */
static void copy_sample(struct copy_calibration *cal, unsigned int measured,
			unsigned long total, unsigned long bytes)
{
	unsigned long offset, i;

	for (offset = 0; offset < total; offset += bytes) {
		struct page *dst = cal->dst + offset / PAGE_SIZE;
		struct page *src = cal->src + offset / PAGE_SIZE;

		for (i = 0; measured == COPY_PER_PAGE && i < bytes / PAGE_SIZE; i++)
			copy_highpage(dst + i, src + i);
		for (i = 0; measured == MC_LOOP && i < bytes / PAGE_SIZE; i++) {
			if (copy_mc_highpage(dst + i, src + i))
				return;
		}
		if (measured != COPY_PER_PAGE && measured != MC_LOOP)
			arch_copy_pages_by(measured, page_address(dst), page_address(src),
					   bytes);
	}
}

static void read_sample(struct copy_calibration *cal, unsigned long total)
{
	const u8 *start = page_address(cal->dst);
	unsigned long offset;

	for (offset = 0; offset < total; offset += SMP_CACHE_BYTES)
		READ_ONCE(start[offset]);
}

static u64 time_sample(struct copy_calibration *cal, unsigned int measured,
		       unsigned long bytes, enum copy_state state)
{
	unsigned long total = max(bytes, SAMPLE_BYTES);
	u64 start;

	arch_copy_evict(page_address(cal->src), total);
	arch_copy_evict(page_address(cal->dst), total);
	if (state == COPY_HOT) {
		/* Copy twice: lines still being written back may leave the cache. */
		copy_sample(cal, COPY_PER_PAGE, total, bytes);
		copy_sample(cal, COPY_PER_PAGE, total, bytes);
	}

	guard(preempt)();
	start = ktime_get_ns();
	copy_sample(cal, measured, total, bytes);
	if (state == COPY_READ_BACK)
		read_sample(cal, total);
	return ktime_get_ns() - start;
}

static void take_samples(struct copy_calibration *cal, unsigned int class, enum copy_use use)
{
	unsigned int states = use == COPY_FOR_READER ? NR_COPY_STATES : COPY_COLD + 1;
	unsigned int round, i, state;

	for (round = 0; round < COPY_ROUNDS; round++) {
		for (i = 0; i < NR_MEASURED; i++) {
			unsigned int measured = (i + round) % NR_MEASURED;

			for (state = 0; state < states && is_measured(measured); state++) {
				cal->ns[state][measured][round] =
					time_sample(cal, measured, copy_class_bytes[class],
						    state);
				cond_resched();
			}
		}
	}
}

static enum copy_primitive choose_by_samples(struct copy_calibration *cal, enum copy_loop loop,
					     enum copy_use use, unsigned int class)
{
	unsigned int loop_measured = loop == COPY_LOOP_MC ? MC_LOOP : COPY_PER_PAGE;
	unsigned int allowed = arch_copy_primitives(loop == COPY_LOOP_MC);
	unsigned int i, state;

	for (state = 0; state < NR_COPY_STATES; state++) {
		struct copy_timings *timings = &cal->timings[state];

		timings->rounds = COPY_ROUNDS;
		for (i = 0; i < NR_COPY_PRIMITIVES; i++) {
			/* A primitive with the times of the loop is never chosen. */
			bool as_loop = i == COPY_PER_PAGE || !is_measured(i) ||
				       !(allowed & BIT(i));

			memcpy(timings->ns[i], cal->ns[state][as_loop ? loop_measured : i],
			       sizeof(cal->ns[state][i]));
		}
	}
	return copy_select(use, cal->timings, copy_choices[loop][use][class]);
}

/*
 * Measure copies from this node to each of @dsts. A primitive is chosen only if the
 * measurements choose it for all of them.
 */
static void calibrate_use(struct copy_calibration *cal, enum copy_use use,
			  struct page * const *dsts, unsigned int nr_dsts)
{
	unsigned int class, loop, i;

	/* What was not measured stays as it is. */
	if (!nr_dsts)
		return;

	for (class = 0; class < NR_COPY_CLASSES; class++) {
		enum copy_primitive choices[NR_COPY_LOOPS] = { };

		for (i = 0; i < nr_dsts; i++) {
			cal->dst = dsts[i];
			take_samples(cal, class, use);
			for (loop = 0; loop < NR_COPY_LOOPS; loop++) {
				enum copy_primitive choice;

				choice = choose_by_samples(cal, loop, use, class);
				if (i && choice != choices[loop])
					choice = COPY_PER_PAGE;
				choices[loop] = choice;
			}
		}
		for (loop = 0; loop < NR_COPY_LOOPS; loop++)
			WRITE_ONCE(copy_choices[loop][use][class], choices[loop]);
	}
}

static struct page *alloc_sample(int nid)
{
	/* Nobody can migrate a sample, so it must not be in movable memory or CMA. */
	gfp_t gfp = GFP_KERNEL | __GFP_THISNODE | __GFP_NORETRY | __GFP_NOWARN | __GFP_ZERO;

	return alloc_pages_node(nid, gfp, get_order(COPY_STEP_BYTES));
}

static void free_sample(struct page *page)
{
	if (page)
		__free_pages(page, get_order(COPY_STEP_BYTES));
}

/* Allocate on a node other than @nid, one with CPUs or a memory-only one. */
static struct page *alloc_far_sample(int nid, bool has_cpus)
{
	struct page *page;
	int other;

	for_each_node_state(other, N_MEMORY) {
		if (other == nid || !!node_state(other, N_CPU) != has_cpus)
			continue;
		page = alloc_sample(other);
		if (page)
			return page;
	}
	return NULL;
}

static void print_choices(void)
{
	unsigned int loop, use;

	for (loop = 0; loop < NR_COPY_LOOPS; loop++) {
		for (use = 0; use < NR_COPY_USES; use++) {
			const u8 *choice = copy_choices[loop][use];

			pr_info("%s, %s: from 16K %s, 64K %s, 256K %s, 1M %s\n",
				loop == COPY_LOOP_MC ? "mc" : "plain", copy_use_names[use],
				copy_primitive_names[choice[0]], copy_primitive_names[choice[1]],
				copy_primitive_names[choice[2]], copy_primitive_names[choice[3]]);
		}
	}
}

static int calibrate(void)
{
	struct page *local, *far[2];
	ktime_t start = ktime_get();
	unsigned int nr_far = 0;
	int error = -ENOMEM;

	lockdep_assert_held(&copy_lock);

	struct copy_calibration *cal __free(kfree) = kzalloc_obj(*cal);
	if (!cal)
		return error;

	/* Stay on this CPU, so that near and far nodes do not change. */
	guard(migrate)();
	cal->src = alloc_sample(numa_mem_id());
	local = alloc_sample(numa_mem_id());
	if (cal->src && local) {
		far[nr_far] = alloc_far_sample(numa_mem_id(), true);
		nr_far += !!far[nr_far];
		far[nr_far] = alloc_far_sample(numa_mem_id(), false);
		nr_far += !!far[nr_far];

		calibrate_use(cal, COPY_FOR_READER, &local, 1);
		calibrate_use(cal, COPY_FAR, far, nr_far);
		while (nr_far)
			free_sample(far[--nr_far]);
		WRITE_ONCE(copy_calibrated, true);
		error = 0;
		pr_info("calibrated on CPU %d in %lld us\n", smp_processor_id(),
			ktime_us_delta(ktime_get(), start));
		print_choices();
	}
	free_sample(cal->src);
	free_sample(local);
	return error;
}

/*
 * Copy all ranges with one primitive, or with the measured choices (COPY_AUTO). Return
 * -EINVAL for a primitive that this machine lacks.
 */
VISIBLE_IF_KUNIT int copy_pages_force(int primitive)
{
	if (primitive != COPY_AUTO &&
	    (primitive < 0 || primitive > COPY_DEFAULT ||
	     !(arch_copy_primitives(false) & BIT(primitive))))
		return -EINVAL;
	WRITE_ONCE(copy_forced, primitive);
	return 0;
}

VISIBLE_IF_KUNIT int copy_pages_forced(void)
{
	return READ_ONCE(copy_forced);
}

/* Return an enum copy_primitive, COPY_AUTO, or an error, which equals none of these. */
static int primitive_by_name(const char *name)
{
	return sysfs_streq(name, "auto") ?
	       COPY_AUTO : sysfs_match_string(copy_primitive_names, name);
}

static int __init copy_pages_setup(char *value)
{
	if (copy_pages_force(primitive_by_name(value)))
		pr_warn("copy_pages=%s ignored: no such primitive on this machine\n", value);
	return 1;
}
__setup("copy_pages=", copy_pages_setup);

static void calibrate_in_background(struct work_struct *work)
{
	int error;

	guard(mutex)(&copy_lock);
	error = calibrate();
	if (error)
		pr_warn("calibration failed, copying as before: %pe\n", ERR_PTR(error));
}

/* A node that gets its first memory may become a demotion target: calibrate again. */
static int __meminit copy_pages_node_changed(struct notifier_block *self, unsigned long action,
					     void *arg)
{
	if (action == NODE_ADDED_FIRST_MEMORY && READ_ONCE(copy_calibrated) &&
	    copy_pages_forced() == COPY_AUTO)
		queue_delayed_work(system_dfl_wq, &calibration_work, CALIBRATION_DELAY);
	return NOTIFY_OK;
}

#ifdef CONFIG_SYSFS

static ssize_t primitive_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	int forced = copy_pages_forced(), i;
	ssize_t at = sysfs_emit(buf, forced == COPY_AUTO ? "[auto]" : "auto");

	for (i = 0; i <= COPY_DEFAULT; i++) {
		if (arch_copy_primitives(false) & BIT(i))
			at += sysfs_emit_at(buf, at, forced == i ? " [%s]" : " %s",
					    copy_primitive_names[i]);
	}
	return at + sysfs_emit_at(buf, at, "\n");
}

static ssize_t primitive_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	int primitive = primitive_by_name(buf);
	int error = 0;

	guard(mutex)(&copy_lock);
	if (primitive == COPY_AUTO && !copy_calibrated)
		error = calibrate();
	if (!error)
		error = copy_pages_force(primitive);
	return error ?: count;
}

static struct kobj_attribute primitive_attr = __ATTR_RW(primitive);

static ssize_t calibrate_store(struct kobject *kobj, struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	if (!sysfs_streq(buf, "1"))
		return -EINVAL;
	guard(mutex)(&copy_lock);
	return calibrate() ?: count;
}

static struct kobj_attribute calibrate_attr = __ATTR_WO(calibrate);

static struct attribute *copy_pages_attrs[] = {
	&primitive_attr.attr,
	&calibrate_attr.attr,
	NULL,
};

static const struct attribute_group copy_pages_group = {
	.attrs = copy_pages_attrs,
};

struct choice_attribute {
	struct kobj_attribute attr;
	enum copy_loop loop;
	enum copy_use use;
	unsigned int class;
};

static ssize_t choice_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct choice_attribute *one = container_of(attr, struct choice_attribute, attr);
	enum copy_primitive choice = READ_ONCE(copy_choices[one->loop][one->use][one->class]);

	return sysfs_emit(buf, "%s\n", copy_primitive_names[choice]);
}

#define CHOICE(name, loop, use, class)						\
	{ __ATTR(name, 0444, choice_show, NULL), loop, use, class }

#define NR_CHOICES	(NR_COPY_LOOPS * NR_COPY_USES)

static struct choice_attribute choices[][NR_COPY_CLASSES] = {
	{
		CHOICE(plain_reader, COPY_LOOP_PLAIN, COPY_FOR_READER, 0),
		CHOICE(plain_reader, COPY_LOOP_PLAIN, COPY_FOR_READER, 1),
		CHOICE(plain_reader, COPY_LOOP_PLAIN, COPY_FOR_READER, 2),
		CHOICE(plain_reader, COPY_LOOP_PLAIN, COPY_FOR_READER, 3),
	},
	{
		CHOICE(plain_far, COPY_LOOP_PLAIN, COPY_FAR, 0),
		CHOICE(plain_far, COPY_LOOP_PLAIN, COPY_FAR, 1),
		CHOICE(plain_far, COPY_LOOP_PLAIN, COPY_FAR, 2),
		CHOICE(plain_far, COPY_LOOP_PLAIN, COPY_FAR, 3),
	},
	{
		CHOICE(mc_reader, COPY_LOOP_MC, COPY_FOR_READER, 0),
		CHOICE(mc_reader, COPY_LOOP_MC, COPY_FOR_READER, 1),
		CHOICE(mc_reader, COPY_LOOP_MC, COPY_FOR_READER, 2),
		CHOICE(mc_reader, COPY_LOOP_MC, COPY_FOR_READER, 3),
	},
	{
		CHOICE(mc_far, COPY_LOOP_MC, COPY_FAR, 0),
		CHOICE(mc_far, COPY_LOOP_MC, COPY_FAR, 1),
		CHOICE(mc_far, COPY_LOOP_MC, COPY_FAR, 2),
		CHOICE(mc_far, COPY_LOOP_MC, COPY_FAR, 3),
	},
};

static_assert(ARRAY_SIZE(choices) == NR_CHOICES);

static const char * const class_names[NR_COPY_CLASSES] = {
	"from-16kB", "from-64kB", "from-256kB", "from-1024kB",
};

static int __init create_choices(struct kobject *parent)
{
	struct attribute *attrs[NR_CHOICES + 1] = { };
	struct attribute_group group = { .attrs = attrs };
	unsigned int class, i;
	int error = 0;

	for (class = 0; class < NR_COPY_CLASSES && !error; class++) {
		group.name = class_names[class];
		for (i = 0; i < NR_CHOICES; i++)
			attrs[i] = &choices[i][class].attr.attr;
		error = sysfs_create_group(parent, &group);
	}
	return error;
}

static void __init create_sysfs(void)
{
	struct kobject *kobj = kobject_create_and_add("copy_pages", mm_kobj);
	int error = -ENOMEM;

	if (kobj)
		error = sysfs_create_group(kobj, &copy_pages_group) ?: create_choices(kobj);
	if (error) {
		kobject_put(kobj);
		pr_warn("cannot create the sysfs files: %pe\n", ERR_PTR(error));
	}
}

#else

static inline void create_sysfs(void)
{
}

#endif /* CONFIG_SYSFS */

static int __init copy_pages_init(void)
{
	create_sysfs();
	hotplug_node_notifier(copy_pages_node_changed, DEFAULT_CALLBACK_PRI);
	return 0;
}
late_initcall(copy_pages_init);
