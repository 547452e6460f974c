// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for copies of ranges of pages: which bytes each routine writes, how it handles
 * poison, and which ranges it is used for.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/cpufeature.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/set_memory.h>
#include <linux/sizes.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/copy_routines.h>
#include <asm/tlbflush.h>

#define MAX_PAGES	512U
/* The non-temporal routine is not used for shorter ranges. */
#define MIN_PAGES	4U
/* folio_mc_copy() copies ranges of this length. */
#define STEP_PAGES	(SZ_1M / PAGE_SIZE)
#define FILL		0x5a

struct copy_test {
	enum copy_routine before_test;
	/* Calls that the stubs recorded, and when they stop. */
	enum copy_routine used;
	unsigned int calls;
	unsigned int stop_after;	/* bytes */
};

KUNIT_DEFINE_ACTION_WRAPPER(free_page_action, __free_page, struct page *);

static struct page *alloc_range(struct kunit *test, int nid, unsigned int order)
{
	struct page *page = alloc_pages_node(nid, GFP_KERNEL | __GFP_THISNODE | __GFP_NOWARN,
					     order);

	if (!page)
		kunit_skip(test, "no contiguous memory");
	/* Free page by page: poisoned pages are not freed. */
	split_page(page, order);
	for (unsigned long i = 0; i < 1UL << order; i++)
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_page_action,
								   page + i));
	return page;
}

/* Allocate MAX_PAGES with one page before and one after. */
static struct page *alloc_longest(struct kunit *test, int nid)
{
	return alloc_range(test, nid, get_order((MAX_PAGES + 2) * PAGE_SIZE));
}

static int far_node(struct kunit *test)
{
	int nid;

	for_each_node_state(nid, N_MEMORY)
		if (nid != numa_mem_id())
			return nid;
	kunit_skip(test, "there is one node");
	return NUMA_NO_NODE;
}

static void fill_differently(struct page *page, unsigned int nr_pages)
{
	u32 *word = page_address(page);

	for (unsigned long i = 0; i < nr_pages * PAGE_SIZE / sizeof(*word); i++)
		word[i] = i * 2654435761U;
}

static int copy_test_init(struct kunit *test)
{
	struct copy_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	ctx->before_test = READ_ONCE(copy_routine);
	test->priv = ctx;
	/* Stay on the node that the tests call near. */
	return set_cpus_allowed_ptr(current, cpumask_of(raw_smp_processor_id()));
}

static void copy_test_exit(struct kunit *test)
{
	struct copy_test *ctx = test->priv;

	if (ctx)
		WRITE_ONCE(copy_routine, ctx->before_test);
}

static const enum copy_routine routines[] = { COPY_DEFAULT, COPY_MOVSQ, COPY_NONTEMPORAL };

static void routine_name(const enum copy_routine *routine, char *name)
{
	static const char * const names[] = { "default", "movsq", "nontemporal" };

	strscpy(name, names[*routine], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(routine, routines, routine_name);

static enum copy_routine choose(struct kunit *test)
{
	enum copy_routine routine = *(const enum copy_routine *)test->param_value;

	if (routine == COPY_NONTEMPORAL && want_init_on_alloc(0))
		kunit_skip(test, "init_on_alloc is on");
	WRITE_ONCE(copy_routine, routine);
	return routine;
}

static unsigned long copy_by(enum copy_routine routine, void *dst, const void *src,
			     unsigned int bytes)
{
	switch (routine) {
	case COPY_MOVSQ:
		return copy_range_movsq(dst, src, bytes);
	case COPY_NONTEMPORAL:
		return copy_range_nontemporal(dst, src, bytes);
	default:
		return copy_mc_to_kernel(dst, src, bytes);
	}
}

static unsigned long noted_copy(enum copy_routine routine, void *dst, const void *src,
				unsigned int bytes)
{
	struct copy_test *ctx = kunit_get_current_test()->priv;

	ctx->calls++;
	ctx->used = routine;
	return copy_by(routine, dst, src, bytes);
}

/* A range has one call of the routine that copy_pages= names, or of the default. */
static void lengths(struct kunit *test)
{
	struct page *src = alloc_longest(test, numa_mem_id());
	struct page *dst = alloc_longest(test, far_node(test));
	enum copy_routine routine = choose(test);
	struct copy_test *ctx = test->priv;
	unsigned int nr;

	kunit_activate_static_stub(test, copy_range_by, noted_copy);
	fill_differently(src, MAX_PAGES + 1);
	memset(page_address(dst), FILL, (MAX_PAGES + 2) * PAGE_SIZE);

	for (nr = 1; nr <= MAX_PAGES; nr += nr < 3 * MIN_PAGES ? 1 : 2 * MIN_PAGES + 1) {
		/* Alternate the source, so that leftovers of the last copy differ. */
		struct page *from = src + nr % 2;

		ctx->calls = 0;
		KUNIT_ASSERT_EQ(test, copy_mc_pages(dst + 1, from, nr), 0);
		KUNIT_ASSERT_EQ(test, ctx->calls, nr > 1);
		if (ctx->calls)
			KUNIT_ASSERT_EQ(test, ctx->used,
					nr < MIN_PAGES && routine == COPY_NONTEMPORAL ?
					COPY_DEFAULT : routine);
		KUNIT_ASSERT_EQ(test, 0, memcmp(page_address(dst + 1), page_address(from),
						nr * PAGE_SIZE));
		KUNIT_ASSERT_NULL(test, memchr_inv(page_address(dst), FILL, PAGE_SIZE));
		KUNIT_ASSERT_NULL(test, memchr_inv(page_address(dst + nr + 1), FILL, PAGE_SIZE));
		cond_resched();
	}
}

KUNIT_DEFINE_ACTION_WRAPPER(put_folio, folio_put, struct folio *);

static struct folio *alloc_folio(struct kunit *test, unsigned int order)
{
	struct folio *folio = folio_alloc(GFP_KERNEL | __GFP_NOWARN, order);

	if (!folio)
		kunit_skip(test, "no contiguous memory");
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_folio, folio));
	return folio;
}

static void folios(struct kunit *test)
{
	struct copy_test *ctx = test->priv;
	unsigned int nr = 1;

	kunit_activate_static_stub(test, copy_range_by, noted_copy);
	for (unsigned int order = 0; nr <= MAX_PAGES; order++, nr *= 2) {
		struct folio *src = alloc_folio(test, order), *dst = alloc_folio(test, order);

		fill_differently(&src->page, nr);
		memset(folio_address(dst), FILL, folio_size(dst));
		ctx->calls = 0;
		KUNIT_EXPECT_EQ(test, folio_mc_copy(dst, src), 0);
		KUNIT_EXPECT_EQ(test, ctx->calls, nr == 1 ? 0 : DIV_ROUND_UP(nr, STEP_PAGES));
		KUNIT_EXPECT_EQ(test, 0, memcmp(folio_address(dst), folio_address(src),
						folio_size(src)));
	}
}

static void stores_bypass_the_cache_only_for_far_copies(struct kunit *test)
{
	void *far = page_address(alloc_range(test, far_node(test), 2));
	void *near = page_address(alloc_range(test, numa_mem_id(), 2));
	void *other = page_address(alloc_range(test, numa_mem_id(), 2));

	if (want_init_on_alloc(0))
		kunit_skip(test, "init_on_alloc is on");
	WRITE_ONCE(copy_routine, COPY_NONTEMPORAL);
	KUNIT_EXPECT_EQ(test, copy_routine_for(far, near, SZ_16K), COPY_NONTEMPORAL);
	KUNIT_EXPECT_EQ(test, copy_routine_for(far, near, SZ_8K), COPY_DEFAULT);
	KUNIT_EXPECT_EQ(test, copy_routine_for(near, far, SZ_16K), COPY_DEFAULT);
	KUNIT_EXPECT_EQ(test, copy_routine_for(near, other, SZ_16K), COPY_DEFAULT);
	KUNIT_EXPECT_EQ(test, copy_routine_for(far, far, SZ_16K), COPY_DEFAULT);
}

/* Stop after some bytes, as for a transient error. */
static unsigned long stopping_copy(enum copy_routine routine, void *dst, const void *src,
				   unsigned int bytes)
{
	struct copy_test *ctx = kunit_get_current_test()->priv;
	unsigned int copied = min(bytes, ctx->stop_after);

	ctx->calls++;
	memcpy(dst, src, copied);
	return bytes - copied;
}

static void rest_is_copied_page_by_page(struct kunit *test)
{
	static const unsigned int copied[] = {
		0, 64, PAGE_SIZE - 64, PAGE_SIZE, MAX_PAGES / 2 * PAGE_SIZE - 1,
		MAX_PAGES / 2 * PAGE_SIZE, MAX_PAGES / 2 * PAGE_SIZE + 1,
		(MAX_PAGES - 1) * PAGE_SIZE, MAX_PAGES * PAGE_SIZE - 1,
	};
	struct page *src = alloc_longest(test, numa_mem_id());
	struct page *dst = alloc_longest(test, numa_mem_id());
	struct copy_test *ctx = test->priv;

	kunit_activate_static_stub(test, copy_range_by, stopping_copy);
	fill_differently(src, MAX_PAGES);
	for (unsigned int i = 0; i < ARRAY_SIZE(copied); i++) {
		ctx->stop_after = copied[i];
		ctx->calls = 0;
		memset(page_address(dst), FILL, MAX_PAGES * PAGE_SIZE);
		KUNIT_EXPECT_EQ(test, copy_mc_pages(dst, src, MAX_PAGES), 0);
		KUNIT_EXPECT_EQ(test, ctx->calls, 1);
		KUNIT_EXPECT_EQ(test, 0, memcmp(page_address(dst), page_address(src),
						MAX_PAGES * PAGE_SIZE));
	}
}

static void flush_page(struct page *page)
{
	unsigned long start = (unsigned long)page_address(page);

	flush_tlb_kernel_range(start, start + PAGE_SIZE);
}

static void map_again(void *page)
{
	set_direct_map_default_noflush(page);
	flush_page(page);
}

/*
 * An unmapped page simulates a poisoned one: the same fixups handle a machine check and a
 * page fault in a copy. Everything after the fault is real.
 */
static void poison_is_reported_where_it_is(struct kunit *test)
{
	static const unsigned int at[] = { 0, 1, MAX_PAGES / 2 - 1, MAX_PAGES / 2, MAX_PAGES - 1 };
	struct page *src = alloc_longest(test, numa_mem_id());
	struct page *dst = alloc_longest(test, far_node(test));

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "CONFIG_MEMORY_FAILURE is not set");
	if (!cpu_feature_enabled(X86_FEATURE_ERMS))
		kunit_skip(test, "copies of pages do not recover on this processor");
	choose(test);
	fill_differently(src, MAX_PAGES);

	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++) {
		struct page *hole = src + at[i];

		memset(page_address(dst), FILL, MAX_PAGES * PAGE_SIZE);
		KUNIT_ASSERT_EQ(test, set_direct_map_invalid_noflush(hole), 0);
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, map_again, hole), 0);
		flush_page(hole);
		KUNIT_EXPECT_EQ(test, copy_mc_pages(dst, src, MAX_PAGES), -EHWPOISON);
		kunit_release_action(test, map_again, hole);

		/* A worker sets the flag. */
		for (unsigned int waits = 0; waits < 50 && !PageHWPoison(hole); waits++)
			msleep(20);
		for (unsigned int page = 0; page < MAX_PAGES; page++)
			KUNIT_EXPECT_EQ(test, PageHWPoison(src + page), page == at[i]);
		KUNIT_EXPECT_EQ(test, 0, memcmp(page_address(dst), page_address(src),
						at[i] * PAGE_SIZE));
		ClearPageHWPoison(hole);
	}
}

/* The guard page of a vmalloc area simulates poison: the same fixups handle both. */
static void unreadable_bytes_are_left(struct kunit *test)
{
	unsigned long bytes = 3 * PAGE_SIZE;
	u8 *to = page_address(alloc_range(test, numa_mem_id(), 2));
	u8 *src = vmalloc(bytes);

	KUNIT_ASSERT_NOT_NULL(test, src);
	memset(src, ~FILL, bytes);
	for (enum copy_routine routine = COPY_MOVSQ; routine <= COPY_NONTEMPORAL; routine++)
		for (unsigned long readable = 0; readable < bytes; readable += SMP_CACHE_BYTES) {
			unsigned long left;

			memset(to, FILL, bytes);
			left = copy_by(routine, to, src + bytes - readable, bytes);
			KUNIT_EXPECT_EQ(test, left, bytes - readable);
			KUNIT_EXPECT_NULL(test, memchr_inv(to, (u8)~FILL, readable));
			KUNIT_EXPECT_NULL(test, memchr_inv(to + readable, FILL, bytes - readable));
		}
	vfree(src);
}

static struct kunit_case copy_pages_cases[] = {
	KUNIT_CASE_PARAM(lengths, routine_gen_params),
	KUNIT_CASE(folios),
	KUNIT_CASE(stores_bypass_the_cache_only_for_far_copies),
	KUNIT_CASE(rest_is_copied_page_by_page),
	KUNIT_CASE_PARAM(poison_is_reported_where_it_is, routine_gen_params),
	KUNIT_CASE(unreadable_bytes_are_left),
	{}
};

static struct kunit_suite copy_pages_suite = {
	.name = "copy_pages",
	.init = copy_test_init,
	.exit = copy_test_exit,
	.test_cases = copy_pages_cases,
};

kunit_test_suite(copy_pages_suite);
