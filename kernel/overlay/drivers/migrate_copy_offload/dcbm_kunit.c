// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for dcbm: the walk over scatterlists that an IOMMU may have
 * merged, the shares of the channels, and the accounting of completions.
 */

#include <kunit/test.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>

#include "dcbm.h"

#define SRC_BASE	0x100000000ULL
#define DST_BASE	0x900000000ULL
#define MAX_PAIRS	32
#define MAX_ENTRIES	256

struct dcbm_test {
	struct migrate_copy_batch batch;
	struct scatterlist src[MAX_ENTRIES];
	struct scatterlist dst[MAX_ENTRIES];
	unsigned int src_nents;
	unsigned int dst_nents;
	struct dcbm_lane lane;
};

static void put_folio(void *folio)
{
	folio_put(folio);
}

static void add_pair(struct kunit *test, unsigned int order)
{
	struct dcbm_test *ctx = test->priv;
	struct folio *folio = folio_alloc(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0,
			kunit_add_action_or_reset(test, put_folio, folio));
	KUNIT_ASSERT_LT(test, ctx->batch.nr_pairs, MAX_PAIRS);
	/* Only the size of a folio matters here. */
	ctx->batch.pairs[ctx->batch.nr_pairs].src = folio;
	ctx->batch.pairs[ctx->batch.nr_pairs].dst = folio;
	ctx->batch.nr_pairs++;
	ctx->batch.nr_pages += folio_nr_pages(folio);
}

/*
 * Map @len bytes as one entry. Entries do not touch in the engine's address
 * space, so that a segment that crossed from one to the next would be wrong.
 */
static void map(struct scatterlist *sg, unsigned int *nents, u64 base,
		size_t len)
{
	sg_dma_address(&sg[*nents]) = base + *nents * (u64)SZ_1G;
	sg_dma_len(&sg[*nents]) = len;
	(*nents)++;
}

/* The address of byte @offset of the whole list. */
static u64 address_of(struct scatterlist *sg, size_t offset)
{
	while (offset >= sg_dma_len(sg))
		offset -= sg_dma_len(sg++);
	return sg_dma_address(sg) + offset;
}

/* Every byte of every pair once, in order, at its address on both sides. */
static unsigned int expect_walk(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	unsigned int nr_segments = 0, pair = 0;
	struct dcbm_segment segment;
	struct dcbm_walk walk;
	size_t offset = 0, in_pair = 0;

	dcbm_walk_init(&walk, ctx->batch.pairs, 0, ctx->batch.nr_pairs,
		       ctx->src, ctx->src_nents, ctx->dst, ctx->dst_nents);

	while (dcbm_walk_next(&walk, &segment)) {
		size_t last = segment.len - 1;

		KUNIT_ASSERT_GT(test, segment.len, 0);
		KUNIT_EXPECT_EQ(test, pair, segment.pair);
		KUNIT_EXPECT_EQ(test, address_of(ctx->src, offset),
				segment.src);
		KUNIT_EXPECT_EQ(test, address_of(ctx->src, offset + last),
				segment.src + last);
		KUNIT_EXPECT_EQ(test, address_of(ctx->dst, offset),
				segment.dst);
		KUNIT_EXPECT_EQ(test, address_of(ctx->dst, offset + last),
				segment.dst + last);

		offset += segment.len;
		in_pair += segment.len;
		KUNIT_ASSERT_LE(test, in_pair,
				folio_size(ctx->batch.pairs[pair].src));
		if (in_pair == folio_size(ctx->batch.pairs[pair].src)) {
			in_pair = 0;
			pair++;
		}
		nr_segments++;
	}

	KUNIT_EXPECT_EQ(test, ctx->batch.nr_pairs, pair);
	KUNIT_EXPECT_EQ(test, ctx->batch.nr_pages * PAGE_SIZE, offset);
	return nr_segments;
}

static void walk_unmerged(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		add_pair(test, i % 3 * 2);
		map(ctx->src, &ctx->src_nents, SRC_BASE,
		    PAGE_SIZE << (i % 3 * 2));
		map(ctx->dst, &ctx->dst_nents, DST_BASE,
		    PAGE_SIZE << (i % 3 * 2));
	}
	KUNIT_EXPECT_EQ(test, 6, expect_walk(test));
}

static void walk_merged_on_both_sides(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	unsigned int i;

	for (i = 0; i < 8; i++)
		add_pair(test, 0);
	map(ctx->src, &ctx->src_nents, SRC_BASE, 8 * PAGE_SIZE);
	map(ctx->dst, &ctx->dst_nents, DST_BASE, 8 * PAGE_SIZE);
	/* A segment ends where its folio ends. */
	KUNIT_EXPECT_EQ(test, 8, expect_walk(test));
}

static void walk_merged_on_one_side(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		add_pair(test, 0);
		map(ctx->src, &ctx->src_nents, SRC_BASE, PAGE_SIZE);
	}
	map(ctx->dst, &ctx->dst_nents, DST_BASE, 3 * PAGE_SIZE);
	map(ctx->dst, &ctx->dst_nents, DST_BASE, 5 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 8, expect_walk(test));
}

static void walk_folio_in_pieces(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	add_pair(test, 3);
	add_pair(test, 0);
	map(ctx->src, &ctx->src_nents, SRC_BASE, 5 * PAGE_SIZE);
	map(ctx->src, &ctx->src_nents, SRC_BASE, 4 * PAGE_SIZE);
	map(ctx->dst, &ctx->dst_nents, DST_BASE, 2 * PAGE_SIZE);
	map(ctx->dst, &ctx->dst_nents, DST_BASE, 7 * PAGE_SIZE);
	/* 2 + 3 + 3 pages of the first folio, and the second. */
	KUNIT_EXPECT_EQ(test, 4, expect_walk(test));
}

static void map_at_random(struct rnd_state *rnd, struct scatterlist *sg,
			  unsigned int *nents, u64 base, unsigned int nr_pages)
{
	while (nr_pages) {
		unsigned int nr = 1 + prandom_u32_state(rnd) %
				      min(nr_pages, 16);

		map(sg, nents, base, nr * PAGE_SIZE);
		nr_pages -= nr;
	}
}

static void walk_at_random(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	u64 seed = get_random_u64();
	struct rnd_state rnd;
	unsigned int i;

	kunit_info(test, "seed %llu", seed);
	prandom_seed_state(&rnd, seed);
	for (i = 0; i < MAX_PAIRS; i++)
		add_pair(test, prandom_u32_state(&rnd) % 4);

	for (i = 0; i < 1000; i++) {
		ctx->src_nents = 0;
		ctx->dst_nents = 0;
		map_at_random(&rnd, ctx->src, &ctx->src_nents, SRC_BASE,
			      ctx->batch.nr_pages);
		map_at_random(&rnd, ctx->dst, &ctx->dst_nents, DST_BASE,
			      ctx->batch.nr_pages);
		expect_walk(test);
	}
}

/* Shares are ranges without gaps, none is empty, and none is much too large. */
static void expect_shares(struct kunit *test, unsigned int nr_lanes)
{
	struct dcbm_test *ctx = test->priv;
	unsigned long left = ctx->batch.nr_pages, largest = 0, before;
	unsigned int first = 0, end, i;

	for (i = 0; i < ctx->batch.nr_pairs; i++)
		largest = max(largest,
			      folio_nr_pages(ctx->batch.pairs[i].src));

	for (i = nr_lanes; i; i--) {
		before = left;
		end = dcbm_share(&ctx->batch, first, i, &left);
		KUNIT_ASSERT_GT(test, end, first);
		KUNIT_EXPECT_LE(test, before - left,
				DIV_ROUND_UP(before, i) + largest);
		first = end;
	}
	KUNIT_EXPECT_EQ(test, ctx->batch.nr_pairs, first);
	KUNIT_EXPECT_EQ(test, 0, left);
}

static void shares_are_even(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	unsigned long left;
	unsigned int i;

	for (i = 0; i < 16; i++)
		add_pair(test, 0);
	left = ctx->batch.nr_pages;
	KUNIT_EXPECT_EQ(test, 4, dcbm_share(&ctx->batch, 0, 4, &left));
	KUNIT_EXPECT_EQ(test, 12, left);
	for (i = 1; i <= 16; i++)
		expect_shares(test, i);
}

static void shares_of_mixed_sizes(struct kunit *test)
{
	unsigned int i;

	add_pair(test, 5);
	for (i = 0; i < 6; i++)
		add_pair(test, 0);
	add_pair(test, 4);
	for (i = 1; i <= 8; i++)
		expect_shares(test, i);
}

static void account(struct kunit *test, unsigned int pair, size_t len,
		    bool error)
{
	struct dcbm_test *ctx = test->priv;
	struct dcbm_slot slot = { .pair = pair, .len = len, .error = error };

	dcbm_account(&ctx->lane.own_job, &slot);
}

static enum migrate_copy_status status(struct kunit *test, unsigned int pair)
{
	struct dcbm_test *ctx = test->priv;

	return dcbm_pair_status(&ctx->lane.own_job, &ctx->lane, pair);
}

static void every_completion_counts(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	size_t *left = ctx->lane.own_job.left;

	left[0] = 3 * PAGE_SIZE;
	left[1] = PAGE_SIZE;

	/* The last one to complete proves nothing about the others. */
	account(test, 1, PAGE_SIZE, false);
	account(test, 0, PAGE_SIZE, false);
	account(test, 0, PAGE_SIZE, false);
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_DONE, status(test, 1));
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_ERROR, status(test, 0));
	account(test, 0, PAGE_SIZE, false);
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_DONE, status(test, 0));
}

static void one_error_fails_the_folio(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	ctx->lane.own_job.left[0] = 2 * PAGE_SIZE;
	account(test, 0, PAGE_SIZE, true);
	account(test, 0, PAGE_SIZE, false);
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_ERROR, status(test, 0));
}

static void completion_is_judged_by_status(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	struct dcbm_slot slot = { .lane = &ctx->lane };

	KUNIT_EXPECT_TRUE(test, dcbm_completed(&slot, DMA_COMPLETE));
	KUNIT_EXPECT_FALSE(test, slot.error);
	KUNIT_EXPECT_TRUE(test, dcbm_completed(&slot, DMA_OUT_OF_ORDER));
	KUNIT_EXPECT_FALSE(test, slot.error);
	KUNIT_EXPECT_FALSE(test, dcbm_completed(&slot, DMA_IN_PROGRESS));
	KUNIT_EXPECT_TRUE(test, dcbm_completed(&slot, DMA_ERROR));
	KUNIT_EXPECT_TRUE(test, slot.error);
}

static void completion_by_termination_is_none(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	struct dcbm_slot slot = { .lane = &ctx->lane };

	ctx->lane.timed_out = true;
	KUNIT_EXPECT_TRUE(test, dcbm_completed(&slot, DMA_COMPLETE));
	KUNIT_EXPECT_TRUE(test, slot.error);
}

static void time_out_fails_what_is_left(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	ctx->lane.own_job.left[0] = PAGE_SIZE;
	ctx->lane.own_job.left[1] = PAGE_SIZE;
	account(test, 0, PAGE_SIZE, false);
	ctx->lane.timed_out = true;
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_DONE, status(test, 0));
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_TIMEOUT, status(test, 1));
}

static void quarantine_loses_all(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	ctx->lane.own_job.left[0] = PAGE_SIZE;
	ctx->lane.own_job.left[1] = PAGE_SIZE;
	account(test, 0, PAGE_SIZE, false);
	ctx->lane.timed_out = true;
	ctx->lane.quarantined = true;
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_LOST, status(test, 0));
	KUNIT_EXPECT_EQ(test, MIGRATE_COPY_LOST, status(test, 1));
}

static int dcbm_test_init(struct kunit *test)
{
	struct dcbm_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;

	sg_init_table(ctx->src, MAX_ENTRIES);
	sg_init_table(ctx->dst, MAX_ENTRIES);
	test->priv = ctx;
	return 0;
}

static struct kunit_case dcbm_test_cases[] = {
	KUNIT_CASE(walk_unmerged),
	KUNIT_CASE(walk_merged_on_both_sides),
	KUNIT_CASE(walk_merged_on_one_side),
	KUNIT_CASE(walk_folio_in_pieces),
	KUNIT_CASE(walk_at_random),
	KUNIT_CASE(shares_are_even),
	KUNIT_CASE(shares_of_mixed_sizes),
	KUNIT_CASE(every_completion_counts),
	KUNIT_CASE(one_error_fails_the_folio),
	KUNIT_CASE(completion_is_judged_by_status),
	KUNIT_CASE(completion_by_termination_is_none),
	KUNIT_CASE(time_out_fails_what_is_left),
	KUNIT_CASE(quarantine_loses_all),
	{}
};

static struct kunit_suite dcbm_test_suite = {
	.name = "dcbm",
	.init = dcbm_test_init,
	.test_cases = dcbm_test_cases,
};

kunit_test_suite(dcbm_test_suite);

MODULE_DESCRIPTION("KUnit tests for dcbm");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
