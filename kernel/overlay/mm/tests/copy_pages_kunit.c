// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for copies of ranges of pages: which bytes each primitive writes, how it
 * handles poison, and which primitive is chosen from timings.
 *
 * Choices from recorded timings of real machines are tested in user space, where
 * mm/copy_pages_select.c also builds.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/cpufeature.h>
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/set_memory.h>
#include <linux/vmalloc.h>

#include <asm/copy_pages.h>
#include <asm/copy_primitives.h>
#include <asm/mce.h>
#include <asm/tlbflush.h>

#include "../copy_pages.h"

#define MAX_PAGES	512UL
/* Shorter ranges are always copied as by default. */
#define MIN_PAGES	4UL
#define FILL		0x5a

struct copy_test {
	int forced;
	/* Calls that the stubs recorded, and when they stop. */
	enum copy_primitive primitive;
	unsigned int calls;
	unsigned long stop_after;	/* bytes */
};

struct pages {
	struct page *page;
	unsigned long nr;
};

/* Free page by page: poisoned pages are not freed. */
static void free_pages_action(void *data)
{
	struct pages *pages = data;

	free_contig_range(page_to_pfn(pages->page), pages->nr);
}

static struct page *alloc_range(struct kunit *test, unsigned int order)
{
	struct pages *pages = kunit_kzalloc(test, sizeof(*pages), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pages);
	pages->page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, order);
	if (!pages->page)
		kunit_skip(test, "no contiguous memory");
	split_page(pages->page, order);
	pages->nr = 1UL << order;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_pages_action, pages), 0);
	return pages->page;
}

/* Allocate MAX_PAGES with one page before and one after. */
static struct page *alloc_longest(struct kunit *test)
{
	return alloc_range(test, get_order((MAX_PAGES + 2) * PAGE_SIZE));
}

static void fill_differently(struct page *page, unsigned long nr_pages)
{
	u32 *word = page_address(page);
	unsigned long i;

	for (i = 0; i < nr_pages * PAGE_SIZE / sizeof(*word); i++)
		word[i] = i * 2654435761U;
}

static void restore_forced(void *data)
{
	struct copy_test *ctx = data;

	copy_pages_force(ctx->forced);
}

static int copy_test_init(struct kunit *test)
{
	struct copy_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	ctx->forced = copy_pages_forced();
	test->priv = ctx;
	return kunit_add_action_or_reset(test, restore_forced, ctx);
}

static const enum copy_primitive primitives[] = {
	COPY_PER_PAGE, COPY_MOVSQ, COPY_MOVSB, COPY_NONTEMPORAL, COPY_DEFAULT,
};

static void primitive_name(const enum copy_primitive *primitive, char *name)
{
	strscpy(name, copy_primitive_names[*primitive], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(primitive, primitives, primitive_name);

/* The primitives that copy a range at once. */
static const enum copy_primitive candidates[] = {
	COPY_MOVSQ, COPY_MOVSB, COPY_NONTEMPORAL,
};

KUNIT_ARRAY_PARAM(candidate, candidates, primitive_name);

static enum copy_primitive force(struct kunit *test)
{
	enum copy_primitive primitive = *(const enum copy_primitive *)test->param_value;

	if (copy_pages_force(primitive))
		kunit_skip(test, "this processor lacks the primitive");
	return primitive;
}

static void note_call(enum copy_primitive primitive)
{
	struct copy_test *ctx = kunit_get_current_test()->priv;

	ctx->calls++;
	ctx->primitive = primitive;
}

static void noted_copy(enum copy_primitive primitive, void *dst, const void *src,
		       unsigned long bytes)
{
	note_call(primitive);
	switch (primitive) {
	case COPY_MOVSB:
		return copy_pages_movsb(dst, src, bytes);
	case COPY_NONTEMPORAL:
		return copy_pages_nontemporal(dst, src, bytes);
	default:
		return copy_pages_movsq(dst, src, bytes);
	}
}

static unsigned long copy_mc_by(enum copy_primitive primitive, void *dst, const void *src,
				unsigned long bytes)
{
	switch (primitive) {
	case COPY_MOVSB:
		return copy_mc_pages_movsb(dst, src, bytes);
	case COPY_NONTEMPORAL:
		return copy_mc_pages_nontemporal(dst, src, bytes);
	default:
		return copy_mc_pages_movsq(dst, src, bytes);
	}
}

static unsigned long noted_copy_mc(enum copy_primitive primitive, void *dst, const void *src,
				   unsigned long bytes)
{
	note_call(primitive);
	return copy_mc_by(primitive, dst, src, bytes);
}

/* Return the expected number of calls of a primitive for a range. */
static unsigned int steps_of(enum copy_primitive primitive, unsigned long nr_pages)
{
	unsigned long step = COPY_STEP_BYTES / PAGE_SIZE;
	unsigned int calls = 0;

	if (primitive == COPY_PER_PAGE || primitive == COPY_DEFAULT)
		return 0;
	for (; nr_pages; nr_pages -= min(nr_pages, step))
		calls += min(nr_pages, step) >= MIN_PAGES;
	return calls;
}

/*
 * Return the length to try after @nr: each one near a whole number of steps, and some of the
 * others, odd and even by turns.
 */
static unsigned long next_length(unsigned long nr)
{
	unsigned long step = COPY_STEP_BYTES / PAGE_SIZE, of_step = nr % step;
	bool near = of_step < 2 * MIN_PAGES || of_step + 3 * MIN_PAGES > step;

	return nr + (near ? 1 : 2 * MIN_PAGES + 1);
}

static void test_lengths(struct kunit *test, bool mc)
{
	struct page *dst = alloc_longest(test), *src = alloc_longest(test);
	enum copy_primitive primitive = force(test);
	struct copy_test *ctx = test->priv;
	unsigned long nr;

	kunit_activate_static_stub(test, arch_copy_pages_by, noted_copy);
	kunit_activate_static_stub(test, arch_copy_mc_pages_by, noted_copy_mc);
	fill_differently(src, MAX_PAGES + 1);
	memset(page_address(dst), FILL, (MAX_PAGES + 2) * PAGE_SIZE);

	for (nr = 1; nr <= MAX_PAGES; nr = next_length(nr)) {
		/* Alternate the source, so that leftovers of the last length differ. */
		struct page *from = src + nr % 2;

		ctx->calls = 0;
		if (mc)
			KUNIT_ASSERT_EQ(test, copy_mc_pages(dst + 1, from, nr), 0);
		else
			copy_pages(dst + 1, from, nr);
		KUNIT_ASSERT_EQ(test, ctx->calls, steps_of(primitive, nr));
		if (ctx->calls)
			KUNIT_ASSERT_EQ(test, ctx->primitive, primitive);
		KUNIT_ASSERT_EQ(test, 0, memcmp(page_address(dst + 1), page_address(from),
						nr * PAGE_SIZE));
		KUNIT_ASSERT_NULL(test, memchr_inv(page_address(dst), FILL, PAGE_SIZE));
		KUNIT_ASSERT_NULL(test, memchr_inv(page_address(dst + nr + 1), FILL, PAGE_SIZE));
		cond_resched();
	}
}

static void lengths(struct kunit *test)
{
	test_lengths(test, false);
}

static void lengths_mc(struct kunit *test)
{
	test_lengths(test, true);
}

/* Ranges shorter than those for which a primitive is ever chosen. */
static void short_ranges(struct kunit *test)
{
	struct page *dst = alloc_range(test, 2), *src = alloc_range(test, 2);
	enum copy_primitive primitive = force(test);
	unsigned long nr, form;

	fill_differently(src, MIN_PAGES);
	for (nr = 1; nr < MIN_PAGES; nr++) {
		for (form = 0; form < 2; form++) {
			void *to = page_address(dst), *from = page_address(src);
			unsigned long bytes = nr * PAGE_SIZE, left = 0;

			memset(to, FILL, MIN_PAGES * PAGE_SIZE);
			if (form)
				left = arch_copy_mc_pages_by(primitive, to, from, bytes);
			else
				arch_copy_pages_by(primitive, to, from, bytes);
			KUNIT_EXPECT_EQ(test, left, 0);
			KUNIT_EXPECT_EQ(test, 0, memcmp(to, from, bytes));
			KUNIT_EXPECT_NULL(test, memchr_inv(to + bytes, FILL, PAGE_SIZE));
		}
	}
}

/* Stop after some bytes, as for a transient error. */
static unsigned long stopping_copy_mc(enum copy_primitive primitive, void *dst,
				      const void *src, unsigned long bytes)
{
	struct copy_test *ctx = kunit_get_current_test()->priv;
	unsigned long copied = min(bytes, ctx->stop_after);

	note_call(primitive);
	ctx->stop_after -= copied;
	memcpy(dst, src, copied);
	return bytes - copied;
}

static void what_is_left_is_copied_page_by_page(struct kunit *test)
{
	static const unsigned long copied[] = {
		0, 64, PAGE_SIZE - 64, PAGE_SIZE, MAX_PAGES / 2 * PAGE_SIZE - 1,
		MAX_PAGES / 2 * PAGE_SIZE, MAX_PAGES / 2 * PAGE_SIZE + 1,
		(MAX_PAGES - 1) * PAGE_SIZE, MAX_PAGES * PAGE_SIZE - 1,
	};
	struct page *dst = alloc_longest(test), *src = alloc_longest(test);
	struct copy_test *ctx = test->priv;
	unsigned int i;

	KUNIT_ASSERT_EQ(test, copy_pages_force(COPY_MOVSQ), 0);
	kunit_activate_static_stub(test, arch_copy_mc_pages_by, stopping_copy_mc);
	fill_differently(src, MAX_PAGES);
	for (i = 0; i < ARRAY_SIZE(copied); i++) {
		ctx->stop_after = copied[i];
		ctx->calls = 0;
		memset(page_address(dst), FILL, MAX_PAGES * PAGE_SIZE);
		KUNIT_EXPECT_EQ(test, copy_mc_pages(dst, src, MAX_PAGES), 0);
		KUNIT_EXPECT_EQ(test, ctx->calls, 2);
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
	static const unsigned long poisoned[] = {
		0, 1, MAX_PAGES / 2 - 1, MAX_PAGES / 2, MAX_PAGES - 1,
	};
	struct page *dst = alloc_longest(test), *src = alloc_longest(test);
	unsigned long i, page, waits;

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "CONFIG_MEMORY_FAILURE is not set");
	if (!cpu_feature_enabled(X86_FEATURE_ERMS) && !copy_mc_is_fragile())
		kunit_skip(test, "copies of pages do not recover on this processor");
	force(test);
	fill_differently(src, MAX_PAGES);

	for (i = 0; i < ARRAY_SIZE(poisoned); i++) {
		struct page *hole = src + poisoned[i];

		memset(page_address(dst), FILL, MAX_PAGES * PAGE_SIZE);
		KUNIT_ASSERT_EQ(test, set_direct_map_invalid_noflush(hole), 0);
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, map_again, hole), 0);
		flush_page(hole);
		KUNIT_EXPECT_EQ(test, copy_mc_pages(dst, src, MAX_PAGES), -EHWPOISON);
		kunit_release_action(test, map_again, hole);

		/* A worker sets the flag. */
		for (waits = 0; waits < 50 && !PageHWPoison(hole); waits++)
			msleep(20);
		for (page = 0; page < MAX_PAGES; page++)
			KUNIT_EXPECT_EQ(test, PageHWPoison(src + page), page == poisoned[i]);
		KUNIT_EXPECT_EQ(test, 0, memcmp(page_address(dst), page_address(src),
						poisoned[i] * PAGE_SIZE));
		ClearPageHWPoison(hole);
	}
}

/* The guard page of a vmalloc area simulates poison: the same fixups handle both. */
static void what_cannot_be_read_is_left(struct kunit *test)
{
	const enum copy_primitive primitive = *(const enum copy_primitive *)test->param_value;
	unsigned long bytes = 3 * PAGE_SIZE, readable;
	struct page *dst = alloc_range(test, 2);
	u8 *src, *to = page_address(dst);

	src = vmalloc(bytes);
	KUNIT_ASSERT_NOT_NULL(test, src);
	memset(src, ~FILL, bytes);

	for (readable = 0; readable < bytes; readable += SMP_CACHE_BYTES) {
		unsigned long left;

		memset(to, FILL, bytes);
		left = copy_mc_by(primitive, to, src + bytes - readable, bytes);
		KUNIT_EXPECT_EQ(test, left, bytes - readable);
		KUNIT_EXPECT_NULL(test, memchr_inv(to, (u8)~FILL, readable));
		KUNIT_EXPECT_NULL(test, memchr_inv(to + readable, FILL, bytes - readable));
	}
	vfree(src);
}

static void give_times(struct copy_timings *timings, u64 loop, u64 movsb, u64 nontemporal)
{
	unsigned int round;

	timings->rounds = COPY_MIN_ROUNDS;
	for (round = 0; round < COPY_MIN_ROUNDS; round++) {
		timings->ns[COPY_PER_PAGE][round] = loop;
		timings->ns[COPY_MOVSQ][round] = loop;
		timings->ns[COPY_MOVSB][round] = movsb;
		timings->ns[COPY_NONTEMPORAL][round] = nontemporal;
	}
}

static void the_choice_never_loses(struct kunit *test)
{
	struct copy_timings *t = kunit_kcalloc(test, NR_COPY_STATES, sizeof(*t), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, t);

	/* A primitive that is twice as fast, then one that loses in some state. */
	give_times(&t[COPY_COLD], 1000, 500, 1000);
	give_times(&t[COPY_HOT], 100, 90, 1000);
	give_times(&t[COPY_READ_BACK], 1200, 900, 1900);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FOR_READER, t, COPY_PER_PAGE), COPY_MOVSB);
	give_times(&t[COPY_READ_BACK], 1200, 1300, 1900);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FOR_READER, t, COPY_MOVSB), COPY_PER_PAGE);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FAR, t, COPY_PER_PAGE), COPY_MOVSB);
	give_times(&t[COPY_COLD], 1000, 1120, 1000);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FAR, t, COPY_MOVSB), COPY_PER_PAGE);

	/* Stores that bypass the cache are never chosen for readers, however fast. */
	give_times(&t[COPY_COLD], 1000, 1000, 600);
	give_times(&t[COPY_HOT], 100, 100, 60);
	give_times(&t[COPY_READ_BACK], 1200, 1200, 700);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FAR, t, COPY_PER_PAGE), COPY_NONTEMPORAL);
	KUNIT_EXPECT_EQ(test, copy_select(COPY_FOR_READER, t, COPY_PER_PAGE), COPY_PER_PAGE);
}

static bool timings_do_not_last(void)
{
	struct copy_test *ctx = kunit_get_current_test()->priv;

	ctx->calls++;
	return false;
}

/* A kernel that is told to use measured choices asks for them at its first copy. */
static void the_first_copy_wants_a_choice(struct kunit *test)
{
	struct page *src = alloc_range(test, get_order(MIN_PAGES * PAGE_SIZE));
	struct page *dst = alloc_range(test, get_order(MIN_PAGES * PAGE_SIZE));
	struct copy_test *ctx = test->priv;

	if (ctx->forced == COPY_AUTO)
		kunit_skip(test, "the first copy was made already");
	kunit_activate_static_stub(test, arch_copy_timings_last, timings_do_not_last);

	copy_pages(dst, src, MIN_PAGES);
	KUNIT_EXPECT_EQ(test, ctx->calls, 0);
	copy_pages_force(COPY_AUTO);
	copy_pages(dst, src, MIN_PAGES - 1);
	KUNIT_EXPECT_EQ(test, ctx->calls, 0);
	copy_pages(dst, src, MIN_PAGES);
	KUNIT_EXPECT_EQ(test, ctx->calls, 1);
	copy_pages(dst, src, MIN_PAGES);
	KUNIT_EXPECT_EQ(test, ctx->calls, 1);
}

static struct kunit_case copy_pages_cases[] = {
	KUNIT_CASE_PARAM(lengths, primitive_gen_params),
	KUNIT_CASE_PARAM(lengths_mc, primitive_gen_params),
	KUNIT_CASE_PARAM(short_ranges, candidate_gen_params),
	KUNIT_CASE(what_is_left_is_copied_page_by_page),
	KUNIT_CASE_PARAM(poison_is_reported_where_it_is, primitive_gen_params),
	KUNIT_CASE_PARAM(what_cannot_be_read_is_left, candidate_gen_params),
	KUNIT_CASE(the_choice_never_loses),
	KUNIT_CASE(the_first_copy_wants_a_choice),
	{}
};

static struct kunit_suite copy_pages_suite = {
	.name = "copy_pages",
	.init = copy_test_init,
	.test_cases = copy_pages_cases,
};

kunit_test_suite(copy_pages_suite);
