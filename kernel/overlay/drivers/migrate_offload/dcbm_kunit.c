// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for dcbm: the walk over scatterlists that an IOMMU may have merged, the shares of the
 * channels, and the accounting of completions; with an engine that copies nothing also when
 * channels are acquired, and the stop before a suspend or a reboot.
 */

#include <kunit/device.h>
#include <kunit/static_stub.h>
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/suspend.h>
#include <linux/workqueue.h>

#include "dcbm.h"

#define SRC_BASE	0x100000000ULL
#define DST_BASE	0x900000000ULL
#define MAX_PAIRS	32
#define MAX_ENTRIES	256
#define ENGINE		"dcbm-test"
#define ANOTHER		"dcbm-test-2"

struct dcbm_test {
	struct migrate_offload_batch batch;
	struct dcbm_job job;
	struct scatterlist src_sg[MAX_ENTRIES], dst_sg[MAX_ENTRIES];
	struct sg_table src, dst;
};

#define ctx_of(kunit)	((struct dcbm_test *)(kunit)->priv)

KUNIT_DEFINE_ACTION_WRAPPER(put_folio, folio_put, struct folio *);

static struct folio *alloc_folio(struct kunit *test, unsigned int order)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_folio, folio));
	return folio;
}

static void add_pair(struct kunit *test, unsigned int order)
{
	struct folio *folio = alloc_folio(test, order);
	struct dcbm_test *ctx = test->priv;

	KUNIT_ASSERT_LT(test, ctx->batch.nr_pairs, MAX_PAIRS);
	/* Most tests use only the size of a folio. */
	ctx->batch.pairs[ctx->batch.nr_pairs].src = folio;
	ctx->batch.pairs[ctx->batch.nr_pairs].dst = folio;
	ctx->job.left[ctx->batch.nr_pairs++] = folio_size(folio);
	ctx->batch.nr_pages += folio_nr_pages(folio);
}

static void add_pairs(struct kunit *test, unsigned int nr, unsigned int order)
{
	while (nr--)
		add_pair(test, order);
}

/*
 * Map @len bytes as one entry. There are gaps between the entries in the
 * engine's address space, so that a segment across entries shows as wrong.
 */
static void map(struct sg_table *table, u64 base, size_t len)
{
	struct scatterlist *sg = &table->sgl[table->nents];

	sg_dma_address(sg) = base + table->nents++ * (u64)SZ_1G;
	sg_dma_len(sg) = len;
}

/* Map entries of as many pages as the digits say. */
static void map_pages(struct kunit *test, const char *src, const char *dst)
{
	while (*src)
		map(&ctx_of(test)->src, SRC_BASE, (*src++ - '0') * PAGE_SIZE);
	while (*dst)
		map(&ctx_of(test)->dst, DST_BASE, (*dst++ - '0') * PAGE_SIZE);
}

/* Return the DMA address of byte @offset of the whole list. */
static u64 address_of(const struct sg_table *table, size_t offset)
{
	struct scatterlist *sg = table->sgl;

	while (offset >= sg_dma_len(sg))
		offset -= sg_dma_len(sg++);
	return sg_dma_address(sg) + offset;
}

static size_t all_bytes(struct kunit *test)
{
	return ctx_of(test)->batch.nr_pages * PAGE_SIZE;
}

static size_t size_of(struct kunit *test, unsigned int item)
{
	return folio_size(ctx_of(test)->batch.pairs[item].src);
}

/* The walk visits every byte once, in order, at its address on both sides. */
static unsigned int expect_walk_over(struct kunit *test, const struct dcbm_range *range)
{
	struct dcbm_test *ctx = test->priv;
	unsigned int nr_segments = 0, item = range->first;
	size_t offset = 0, in_item = range->offset;
	struct dcbm_walk walk;

	dcbm_walk_init(&walk, range, &ctx->src, &ctx->dst);

	while (walk.rest.len) {
		struct dcbm_segment segment = dcbm_walk_peek(&walk, SIZE_MAX);
		size_t len = segment.range.len, last = len - 1;

		KUNIT_ASSERT_GT(test, len, 0);
		KUNIT_EXPECT_EQ(test, item, segment.range.first);
		KUNIT_EXPECT_EQ(test, in_item, segment.range.offset);
		KUNIT_EXPECT_EQ(test, address_of(&ctx->src, offset), segment.src);
		KUNIT_EXPECT_EQ(test, address_of(&ctx->src, offset + last), segment.src + last);
		KUNIT_EXPECT_EQ(test, address_of(&ctx->dst, offset), segment.dst);
		KUNIT_EXPECT_EQ(test, address_of(&ctx->dst, offset + last), segment.dst + last);

		offset += len;
		in_item += len;
		while (item + 1 < ctx->batch.nr_pairs && in_item >= size_of(test, item))
			in_item -= size_of(test, item++);
		dcbm_walk_advance(&walk, &ctx->job, len);
		nr_segments++;
	}

	KUNIT_EXPECT_EQ(test, range->len, offset);
	return nr_segments;
}

static unsigned int expect_walk(struct kunit *test)
{
	const struct dcbm_range all = { .len = all_bytes(test) };

	return expect_walk_over(test, &all);
}

static void walk_unmerged(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	for (unsigned int i = 0; i < 6; i++) {
		add_pair(test, i % 3 * 2);
		map(&ctx->src, SRC_BASE, PAGE_SIZE << (i % 3 * 2));
		map(&ctx->dst, DST_BASE, PAGE_SIZE << (i % 3 * 2));
	}
	KUNIT_EXPECT_EQ(test, 6, expect_walk(test));
}

static void walk_merged_on_both_sides(struct kunit *test)
{
	add_pairs(test, 8, 0);
	map_pages(test, "8", "8");
	/* Neighbours that the IOMMU merged stay one segment. */
	KUNIT_EXPECT_EQ(test, 1, expect_walk(test));
}

static void walk_merged_on_one_side(struct kunit *test)
{
	add_pairs(test, 8, 0);
	map_pages(test, "11111111", "35");
	KUNIT_EXPECT_EQ(test, 8, expect_walk(test));
}

static void walk_folio_in_pieces(struct kunit *test)
{
	add_pair(test, 3);
	add_pair(test, 0);
	map_pages(test, "54", "27");
	/* 2 + 3 pages of the first folio, then its other 3 with the second. */
	KUNIT_EXPECT_EQ(test, 3, expect_walk(test));
}

static void map_at_random(struct rnd_state *rnd, struct sg_table *table,
			  u64 base, unsigned int nr_pages)
{
	while (nr_pages) {
		unsigned int nr = 1 + prandom_u32_state(rnd) % min(nr_pages, 16);

		map(table, base, nr * PAGE_SIZE);
		nr_pages -= nr;
	}
}

static void walk_at_random(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	u64 seed = get_random_u64();
	struct rnd_state rnd;

	kunit_info(test, "seed %llu", seed);
	prandom_seed_state(&rnd, seed);
	for (unsigned int i = 0; i < MAX_PAIRS; i++)
		add_pair(test, prandom_u32_state(&rnd) % 4);

	for (unsigned int i = 0; i < 1000; i++) {
		ctx->src.nents = 0;
		ctx->dst.nents = 0;
		map_at_random(&rnd, &ctx->src, SRC_BASE, ctx->batch.nr_pages);
		map_at_random(&rnd, &ctx->dst, DST_BASE, ctx->batch.nr_pages);
		expect_walk(test);
	}
}

/* A range that begins and ends within folios. */
static void walk_part_of_a_batch(struct kunit *test)
{
	const struct dcbm_range range = { 1, 2 * PAGE_SIZE, 7 * PAGE_SIZE };

	add_pairs(test, 4, 2);
	map_pages(test, "7", "34");
	/* 2 pages and 1, then 3 and 1 of the last folio. */
	KUNIT_EXPECT_EQ(test, 2, expect_walk_over(test, &range));
}

/* A range that ends before the lists do, and within a folio. */
static void walk_ends_with_its_range(struct kunit *test)
{
	const struct dcbm_range range = { .len = 3 * PAGE_SIZE };

	add_pairs(test, 2, 2);
	map_pages(test, "8", "8");
	KUNIT_EXPECT_EQ(test, 1, expect_walk_over(test, &range));
}

/* A provider that takes no more bytes gets a segment in parts. */
static void segment_is_cut(struct kunit *test)
{
	const struct dcbm_range all = { .len = 6 * PAGE_SIZE };
	struct dcbm_segment part;
	struct dcbm_walk walk;

	add_pair(test, 1);
	add_pair(test, 2);
	map_pages(test, "6", "6");
	dcbm_walk_init(&walk, &all, &ctx_of(test)->src, &ctx_of(test)->dst);
	part = dcbm_walk_peek(&walk, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, SRC_BASE, part.src);
	KUNIT_EXPECT_EQ(test, 3 * PAGE_SIZE, part.range.len);
	KUNIT_EXPECT_EQ(test, 0, part.range.first);
	dcbm_walk_advance(&walk, &ctx_of(test)->job, 3 * PAGE_SIZE);
	part = dcbm_walk_peek(&walk, SIZE_MAX);
	KUNIT_EXPECT_EQ(test, SRC_BASE + 3 * PAGE_SIZE, part.src);
	KUNIT_EXPECT_EQ(test, DST_BASE + 3 * PAGE_SIZE, part.dst);
	KUNIT_EXPECT_EQ(test, 3 * PAGE_SIZE, part.range.len);
	KUNIT_EXPECT_EQ(test, 1, part.range.first);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, part.range.offset);
}

/* Shares have no gaps between them, and their sizes differ by at most @spread. */
static void expect_shares(struct kunit *test, unsigned int nr_chans, size_t spread)
{
	struct dcbm_test *ctx = test->priv;
	struct dcbm_range share, rest = { .len = all_bytes(test) };
	size_t least = SIZE_MAX, most = 0, offset = 0;
	unsigned int item = 0;

	for (unsigned int i = nr_chans; i; i--) {
		dcbm_share(&ctx->job, &rest, i, &share);
		KUNIT_EXPECT_EQ(test, item, share.first);
		KUNIT_EXPECT_EQ(test, offset, share.offset);
		KUNIT_EXPECT_EQ(test, 0, share.len % SZ_512);
		least = min(least, share.len);
		most = max(most, share.len);

		for (offset += share.len; item < ctx->batch.nr_pairs; item++) {
			size_t size = size_of(test, item);

			if (offset < size)
				break;
			offset -= size;
		}
	}
	KUNIT_EXPECT_EQ(test, 0, rest.len);
	KUNIT_EXPECT_EQ(test, ctx->batch.nr_pairs, item);
	KUNIT_EXPECT_LE(test, most - least, spread);
}

/* An order-0 folio is never cut. */
static void shares_of_small_folios(struct kunit *test)
{
	struct dcbm_range share, rest;

	add_pairs(test, 16, 0);
	for (unsigned int i = 1; i <= 20; i++)
		expect_shares(test, i, PAGE_SIZE);

	rest = (struct dcbm_range){ .len = all_bytes(test) };
	for (unsigned int i = 5; i; i--) {
		dcbm_share(&ctx_of(test)->job, &rest, i, &share);
		KUNIT_EXPECT_TRUE(test, PAGE_ALIGNED(share.len));
		KUNIT_EXPECT_EQ(test, 0, rest.offset);
	}
}

static void shares_of_one_large_folio(struct kunit *test)
{
	add_pair(test, 7);
	for (unsigned int i = 1; i <= DCBM_MAX_CHANS; i++)
		expect_shares(test, i, SZ_512);
}

static void shares_of_mixed_sizes(struct kunit *test)
{
	add_pair(test, 5);
	add_pairs(test, 6, 0);
	add_pair(test, 4);
	for (unsigned int i = 1; i <= DCBM_MAX_CHANS; i++)
		expect_shares(test, i, PAGE_SIZE);
}

/* A descriptor of these bytes has completed; one that failed is not accounted. */
static void account(struct kunit *test, unsigned int item, size_t offset, size_t len)
{
	dcbm_account(&ctx_of(test)->job, (struct dcbm_range){ item, offset, len });
}

static enum migrate_offload_status status(struct kunit *test, unsigned int item)
{
	return dcbm_item_status(&ctx_of(test)->job, item);
}

/* The neighbours are parts of one folio: no function allocates folios side by side. */
static void neighbours_share_an_entry(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;
	struct sg_table *table = &ctx->src;
	struct folio *folio;

	add_pair(test, 3);
	folio = ctx->batch.pairs[0].src;
	dcbm_add_entry(table, folio, PAGE_SIZE, 0);
	dcbm_add_entry(table, folio, PAGE_SIZE, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 1, table->orig_nents);
	KUNIT_EXPECT_EQ(test, 2 * PAGE_SIZE, ctx->src_sg[0].length);

	/* A gap, then what lies before it. */
	dcbm_add_entry(table, folio, PAGE_SIZE, 4 * PAGE_SIZE);
	dcbm_add_entry(table, folio, PAGE_SIZE, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 3, table->orig_nents);

	/* Not beyond the limit; the test accesses no byte. */
	table->orig_nents = 0;
	dcbm_add_entry(table, folio, DCBM_MAX_MERGED - PAGE_SIZE, 0);
	dcbm_add_entry(table, folio, PAGE_SIZE, DCBM_MAX_MERGED - PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, 1, table->orig_nents);
	dcbm_add_entry(table, folio, PAGE_SIZE, DCBM_MAX_MERGED);
	KUNIT_EXPECT_EQ(test, 2, table->orig_nents);
}

/* Bytes of a folio may begin where 32 bits do not reach; the test accesses none. */
static void entries_reach_beyond_4g(struct kunit *test)
{
	const size_t offset = (size_t)SZ_2G * 2 + PAGE_SIZE;
	struct dcbm_test *ctx = test->priv;
	struct folio *folio;

	if (!IS_ENABLED(CONFIG_64BIT))
		kunit_skip(test, "no folio is so large");

	add_pair(test, 0);
	folio = ctx->batch.pairs[0].src;
	dcbm_add_entry(&ctx->src, folio, PAGE_SIZE - 512, offset + 512);
	KUNIT_EXPECT_PTR_EQ(test, folio_page(folio, offset >> PAGE_SHIFT),
			    sg_page(&ctx->src_sg[0]));
	KUNIT_EXPECT_EQ(test, 512, ctx->src_sg[0].offset);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE - 512, ctx->src_sg[0].length);
}

/* No reason is routed to dcbm, so dcbm has no channel for the smaller batch. */
static void larger_batches_are_refused(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	add_pair(test, 0);
	ctx->batch.nr_pages = DCBM_MAX_PAGES;
	KUNIT_EXPECT_EQ(test, -EBUSY, dcbm_submit(NULL, &ctx->batch));
	ctx->batch.nr_pages++;
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, dcbm_submit(NULL, &ctx->batch));
}

static void every_completion_counts(struct kunit *test)
{
	add_pair(test, 2);
	add_pair(test, 0);

	/* The completion of the last descriptor proves nothing about the others. */
	account(test, 1, 0, PAGE_SIZE);
	account(test, 0, 3 * PAGE_SIZE, PAGE_SIZE);
	account(test, 0, PAGE_SIZE, 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_DONE, status(test, 1));
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_ERROR, status(test, 0));
	account(test, 0, 0, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_DONE, status(test, 0));
}

/* One descriptor covers the end of a folio, a whole one, and half of a third. */
static void one_completion_for_several_folios(struct kunit *test)
{
	struct dcbm_test *ctx = test->priv;

	add_pairs(test, 3, 1);
	account(test, 0, PAGE_SIZE, 4 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, ctx->job.left[0]);
	KUNIT_EXPECT_EQ(test, 0, ctx->job.left[1]);
	KUNIT_EXPECT_EQ(test, PAGE_SIZE, ctx->job.left[2]);
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_ERROR, status(test, 0));
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_DONE, status(test, 1));
}

static void one_error_fails_the_folio(struct kunit *test)
{
	add_pair(test, 1);
	account(test, 0, PAGE_SIZE, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_ERROR, status(test, 0));
}

static void time_out_fails_what_is_left(struct kunit *test)
{
	add_pairs(test, 2, 0);
	account(test, 0, 0, PAGE_SIZE);
	ctx_of(test)->job.timed_out = true;
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_DONE, status(test, 0));
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_TIMEOUT, status(test, 1));
}

/* A stuck channel loses each folio of which it had a part, and no other. */
static void stuck_channel_loses_its_folios(struct kunit *test)
{
	const struct dcbm_range range = { 1, PAGE_SIZE, 3 * PAGE_SIZE };
	const struct dcbm_range other = { 4, PAGE_SIZE, 2 * PAGE_SIZE };
	struct dcbm_test *ctx = test->priv;

	add_pairs(test, 6, 1);
	account(test, 0, 0, 12 * PAGE_SIZE);
	ctx->job.timed_out = true;
	dcbm_lose(&ctx->job, range);
	dcbm_lose(&ctx->job, other);
	for (unsigned int i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, i % 3 ? MIGRATE_OFFLOAD_LOST : MIGRATE_OFFLOAD_DONE,
				status(test, i));
}

/* Let dcbm use only engines of these names. */
static int name_engines(const char *names)
{
	const struct kernel_param kp = { .arg = &dcbm_providers };

	return dcbm_set_parameter(names, &kp);
}

KUNIT_DEFINE_ACTION_WRAPPER(use_only, name_engines, const char *);

/*
 * An engine that copies nothing, with room for one descriptor, whose interrupt comes
 * at the worst moment: while dcbm prepares the next descriptor, which gets the room.
 */
struct ring_of_one {
	struct dma_device dma;
	struct dma_chan chan;
	struct dma_async_tx_descriptor tx;
	size_t left;	/* bytes that no descriptor covers yet */
	bool busy, issued;
};

static struct ring_of_one *to_ring(struct dma_chan *chan)
{
	return container_of(chan, struct ring_of_one, chan);
}

static void ring_interrupt(struct ring_of_one *ring)
{
	const struct dmaengine_result result = { .result = DMA_TRANS_NOERROR };

	ring->busy = false;
	ring->tx.callback_result(ring->tx.callback_param, &result);
}

static dma_cookie_t ring_submit(struct dma_async_tx_descriptor *tx)
{
	return DMA_MIN_COOKIE;
}

static struct dma_async_tx_descriptor *
ring_prep(struct dma_chan *chan, dma_addr_t dst, dma_addr_t src, size_t len, unsigned long flags)
{
	struct ring_of_one *ring = to_ring(chan);

	if (len > PAGE_SIZE)
		return NULL;
	if (ring->busy && ring->issued && ring->tx.flags & DMA_PREP_INTERRUPT)
		ring_interrupt(ring);
	if (ring->busy)
		return NULL;

	dma_async_tx_descriptor_init(&ring->tx, chan);
	ring->tx.tx_submit = ring_submit;
	ring->tx.flags = flags;
	ring->busy = true;
	ring->issued = false;
	ring->left -= len;
	return &ring->tx;
}

static void ring_issue(struct dma_chan *chan)
{
	struct ring_of_one *ring = to_ring(chan);

	ring->issued = true;
	/* Nothing will be prepared after the last one. */
	if (ring->busy && !ring->left && ring->tx.flags & DMA_PREP_INTERRUPT)
		ring_interrupt(ring);
}

static enum dma_status ring_status(struct dma_chan *chan, dma_cookie_t cookie,
				   struct dma_tx_state *state)
{
	return DMA_COMPLETE;
}

static int ring_stop(struct dma_chan *chan)
{
	to_ring(chan)->busy = false;
	return 0;
}

KUNIT_DEFINE_ACTION_WRAPPER(ring_goes, dma_async_device_unregister, struct dma_device *);

/* Register an engine. From here on dcbm may use no other provider than ours. */
static void register_engine(struct kunit *test, struct ring_of_one *ring, const char *name)
{
	struct device *dev = kunit_device_register(test, name);
	struct dma_device *dma = &ring->dma;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_ASSERT_EQ(test, 0, dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64)));
	KUNIT_ASSERT_EQ(test, 0, name_engines(ENGINE "," ANOTHER));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, use_only, ""));

	dma->dev = dev;
	dma_cap_set(DMA_MEMCPY, dma->cap_mask);
	dma_cap_set(DMA_PRIVATE, dma->cap_mask);
	dma->device_prep_dma_memcpy = ring_prep;
	dma->device_tx_status = ring_status;
	dma->device_issue_pending = ring_issue;
	dma->device_stop = ring_stop;
	INIT_LIST_HEAD(&dma->channels);
	ring->chan.device = dma;
	list_add_tail(&ring->chan.device_node, &dma->channels);
	KUNIT_ASSERT_EQ(test, 0, dma_async_device_register(dma));
}

static struct ring_of_one *add_engine(struct kunit *test, const char *name)
{
	struct ring_of_one *ring = kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	register_engine(test, ring, name);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, ring_goes, &ring->dma));
	return ring;
}

struct event {
	struct work_struct work;
	struct completion done;
	int (*notify)(struct notifier_block *nb, unsigned long event, void *data);
	unsigned long event;
};

static void event_work(struct work_struct *work)
{
	struct event *event = container_of(work, struct event, work);

	event->notify(NULL, event->event, NULL);
	complete(&event->done);
}

static void route_none(void *unused)
{
	dcbm_routed(NULL, false);
}

static void route(struct kunit *test)
{
	dcbm_routed(NULL, true);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, route_none, NULL));
}

/* Return a job for a batch with a deadline in @timeout jiffies. */
static struct dcbm_job *get_job(struct kunit *test, unsigned long timeout)
{
	struct dcbm_test *ctx = test->priv;
	struct dcbm_job *job;

	if (!ctx->batch.nr_pairs) {
		add_pair(test, 0);
		add_engine(test, ENGINE);
		KUNIT_EXPECT_NULL(test, dcbm_get_job(&ctx->batch));
		route(test);
	}
	ctx->batch.deadline = jiffies + timeout;
	job = dcbm_get_job(&ctx->batch);
	KUNIT_ASSERT_NOT_NULL(test, job);
	return job;
}

static struct dma_chan *channel_of(struct dcbm_job *job)
{
	return list_first_entry(&job->chans, struct dcbm_chan, node)->chan;
}

/* The event waits while a job has a channel. Afterwards no job gets one. */
static struct dma_chan *notify_during_job(struct kunit *test, struct event *event)
{
	struct dcbm_job *job = get_job(test, 10 * HZ);
	struct dma_chan *chan = channel_of(job);

	init_completion(&event->done);
	INIT_WORK_ONSTACK(&event->work, event_work);
	schedule_work(&event->work);
	KUNIT_EXPECT_EQ(test, 0, wait_for_completion_timeout(&event->done, HZ / 5));
	dcbm_put_job(job);
	flush_work(&event->work);
	destroy_work_on_stack(&event->work);

	job = dcbm_get_job(&ctx_of(test)->batch);
	KUNIT_EXPECT_NULL(test, job);
	if (job)
		dcbm_put_job(job);
	return chan;
}

static bool is_channel(struct dma_chan *chan, void *wanted)
{
	return chan == wanted;
}

/* Return true if another client could get the channel. */
static bool channel_is_free(struct dma_chan *wanted)
{
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	chan = dma_request_channel(mask, is_channel, wanted);
	if (chan)
		dma_release_channel(chan);
	return chan;
}

/* dcbm acquires channels again some time after the event. */
static void wake_up_again(struct kunit *test, unsigned long event)
{
	struct dcbm_job *job = NULL;

	KUNIT_EXPECT_EQ(test, NOTIFY_DONE, dcbm_pm_event(NULL, event, NULL));
	for (unsigned int i = 0; i < 500 && !job; i++) {
		job = dcbm_get_job(&ctx_of(test)->batch);
		if (!job)
			msleep(20);
	}
	KUNIT_ASSERT_NOT_NULL(test, job);
	dcbm_put_job(job);
}

static void channels_are_given_back_for_sleep(struct kunit *test)
{
	static const unsigned long events[][2] = {
		{ PM_SUSPEND_PREPARE, PM_POST_SUSPEND },
		{ PM_HIBERNATION_PREPARE, PM_POST_HIBERNATION },
		{ PM_RESTORE_PREPARE, PM_POST_RESTORE },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(events); i++) {
		struct event event = { .notify = dcbm_pm_event, .event = events[i][0] };
		struct dma_chan *chan = notify_during_job(test, &event);

		KUNIT_EXPECT_TRUE(test, channel_is_free(chan));
		wake_up_again(test, events[i][1]);
		KUNIT_EXPECT_FALSE(test, channel_is_free(chan));
	}
}

static void reboot_ends_all_jobs(struct kunit *test)
{
	struct event event = { .notify = dcbm_reboot_event };
	struct dma_chan *chan = notify_during_job(test, &event);

	KUNIT_EXPECT_TRUE(test, channel_is_free(chan));

	/* The test machine does not reboot: start again. */
	wake_up_again(test, PM_POST_SUSPEND);
}

/* A job that never ends delays an event by some seconds, and no longer. */
static void stuck_job_is_left_alone(struct kunit *test)
{
	struct dcbm_job *job = get_job(test, 0);
	unsigned long begin = jiffies;

	dcbm_reboot_event(NULL, 0, NULL);
	KUNIT_EXPECT_LT(test, jiffies - begin, 15 * HZ);
	dcbm_put_job(job);
	wake_up_again(test, PM_POST_SUSPEND);
}

/* dcbm holds channels only as long as a reason is routed to it. */
static void channels_are_held_while_routed(struct kunit *test)
{
	struct dcbm_job *job = get_job(test, 10 * HZ);
	struct dma_chan *chan = channel_of(job);

	dcbm_put_job(job);
	KUNIT_EXPECT_FALSE(test, channel_is_free(chan));
	dcbm_routed(NULL, false);
	KUNIT_EXPECT_TRUE(test, channel_is_free(chan));
	dcbm_routed(NULL, true);
	KUNIT_EXPECT_FALSE(test, channel_is_free(chan));
}

/* An engine that leaves while its channel is acquired. */
struct leaver {
	struct ring_of_one ring;
	struct notifier_block nb;
	struct completion requested, left;
	struct work_struct work;
	bool overtaken;
	unsigned int held;
};

static void leaver_goes(struct work_struct *work)
{
	struct leaver *leaver = container_of(work, struct leaver, work);

	wait_for_completion_timeout(&leaver->requested, 10 * HZ);
	dma_async_device_unregister(&leaver->ring.dma);
}

/* Called after the notifier of dcbm, which has given the channel back. */
static int leaver_event(struct notifier_block *nb, unsigned long event, void *chan)
{
	struct leaver *leaver = container_of(nb, struct leaver, nb);

	if (event == DMA_CHAN_REMOVING && chan == &leaver->ring.chan) {
		leaver->held += leaver->ring.chan.client_count;
		complete(&leaver->left);
	}
	return NOTIFY_OK;
}

/*
 * dcbm has requested the channel, and the notifier finds no dcbm_chan of it yet. The
 * notifier waits for that dcbm_chan; otherwise it would end within microseconds.
 */
static bool leave_now(struct device *dev)
{
	struct leaver *leaver = kunit_get_current_test()->priv;

	complete(&leaver->requested);
	for (unsigned int i = 0; i < 10000 && !READ_ONCE(leaver->ring.chan.removing); i++)
		usleep_range(1000, 2000);
	leaver->overtaken = READ_ONCE(leaver->ring.chan.removing);
	wait_for_completion_timeout(&leaver->left, HZ / 5);
	return false;
}

static void channel_leaves_while_acquired(struct kunit *test)
{
	struct leaver *leaver = kunit_kzalloc(test, sizeof(*leaver), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, leaver);
	test->priv = leaver;
	init_completion(&leaver->requested);
	init_completion(&leaver->left);
	INIT_WORK(&leaver->work, leaver_goes);
	leaver->nb.notifier_call = leaver_event;
	leaver->nb.priority = -1;
	register_engine(test, &leaver->ring, ENGINE);
	KUNIT_EXPECT_EQ(test, 0, dma_register_notifier(&leaver->nb));
	kunit_activate_static_stub(test, dcbm_may_bounce, leave_now);

	schedule_work(&leaver->work);
	dcbm_routed(NULL, true);
	flush_work(&leaver->work);
	dcbm_routed(NULL, false);

	kunit_deactivate_static_stub(test, dcbm_may_bounce);
	dma_unregister_notifier(&leaver->nb);
	KUNIT_EXPECT_TRUE(test, leaver->overtaken);
	KUNIT_EXPECT_EQ(test, 0, leaver->held);
}

/* Return what dcbm reports of a pair whose folios have this order. */
static enum migrate_offload_status copy_pair(struct kunit *test, unsigned int order)
{
	struct dcbm_test *ctx = test->priv;

	ctx->batch.pairs[0].dst = alloc_folio(test, order);
	ctx->batch.deadline = jiffies + 5 * HZ;
	KUNIT_ASSERT_EQ(test, 0, dcbm_submit(NULL, &ctx->batch));
	dcbm_wait(NULL, &ctx->batch);
	return ctx->batch.pairs[0].status;
}

/* dcbm must not rely on an interrupt that is still to come when it prepares the next. */
static void interrupt_while_preparing(struct kunit *test)
{
	struct ring_of_one *ring = add_engine(test, ENGINE);

	route(test);
	add_pair(test, 3);
	ring->left = all_bytes(test);
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_DONE, copy_pair(test, 3));
	KUNIT_EXPECT_EQ(test, 0, ring->left);
}

/* dcbm leaves each engine alone that the administrator did not name. */
static void only_named_engines(struct kunit *test)
{
	struct dcbm_job *job = get_job(test, HZ);
	struct dma_chan *chan = channel_of(job);

	dcbm_put_job(job);
	KUNIT_EXPECT_EQ(test, 0, name_engines(""));
	KUNIT_EXPECT_TRUE(test, channel_is_free(chan));
	KUNIT_EXPECT_NULL(test, dcbm_get_job(&ctx_of(test)->batch));
	KUNIT_EXPECT_EQ(test, 0, name_engines("a third one, " ENGINE));
	KUNIT_EXPECT_FALSE(test, channel_is_free(chan));
}

static bool another_bounces(struct device *dev)
{
	/* KUnit's bus binds both devices to the first driver. */
	return strstr(dev_name(dev), ANOTHER);
}

/* A channel that does not reach all memory gets no share, and says so if there is no other. */
static void bouncing_channel_gets_no_share(struct kunit *test)
{
	struct dcbm_job *job;
	char name[64];

	kunit_activate_static_stub(test, dcbm_may_bounce, another_bounces);
	add_engine(test, ANOTHER);
	add_pair(test, 5);
	add_engine(test, ENGINE);
	route(test);
	job = dcbm_get_job(&ctx_of(test)->batch);
	KUNIT_ASSERT_NOT_NULL(test, job);
	KUNIT_ASSERT_EQ(test, 1, list_count_nodes(&job->chans));
	KUNIT_EXPECT_FALSE(test, another_bounces(channel_of(job)->device->dev));
	KUNIT_EXPECT_NULL(test, dcbm_get_job(&ctx_of(test)->batch));
	dcbm_put_job(job);

	snprintf(name, sizeof(name), "%s." ANOTHER, __func__);
	KUNIT_EXPECT_EQ(test, 0, name_engines(name));
	KUNIT_EXPECT_EQ(test, MIGRATE_OFFLOAD_UNREACHABLE, copy_pair(test, 5));
	kunit_deactivate_static_stub(test, dcbm_may_bounce);
}

static int dcbm_test_init(struct kunit *test)
{
	struct dcbm_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;

	ctx->job.batch = &ctx->batch;
	ctx->src.sgl = ctx->src_sg;
	ctx->dst.sgl = ctx->dst_sg;
	sg_init_table(ctx->src_sg, MAX_ENTRIES);
	sg_init_table(ctx->dst_sg, MAX_ENTRIES);
	test->priv = ctx;
	return 0;
}

static struct kunit_case dcbm_test_cases[] = {
	KUNIT_CASE(walk_unmerged),
	KUNIT_CASE(walk_merged_on_both_sides),
	KUNIT_CASE(walk_merged_on_one_side),
	KUNIT_CASE(walk_folio_in_pieces),
	KUNIT_CASE(walk_at_random),
	KUNIT_CASE(walk_part_of_a_batch),
	KUNIT_CASE(walk_ends_with_its_range),
	KUNIT_CASE(segment_is_cut),
	KUNIT_CASE(shares_of_small_folios),
	KUNIT_CASE(shares_of_one_large_folio),
	KUNIT_CASE(shares_of_mixed_sizes),
	KUNIT_CASE(neighbours_share_an_entry),
	KUNIT_CASE(entries_reach_beyond_4g),
	KUNIT_CASE(larger_batches_are_refused),
	KUNIT_CASE(every_completion_counts),
	KUNIT_CASE(one_completion_for_several_folios),
	KUNIT_CASE(one_error_fails_the_folio),
	KUNIT_CASE(time_out_fails_what_is_left),
	KUNIT_CASE(stuck_channel_loses_its_folios),
	KUNIT_CASE(channels_are_given_back_for_sleep),
	KUNIT_CASE(reboot_ends_all_jobs),
	KUNIT_CASE(stuck_job_is_left_alone),
	KUNIT_CASE(channels_are_held_while_routed),
	KUNIT_CASE(channel_leaves_while_acquired),
	KUNIT_CASE(interrupt_while_preparing),
	KUNIT_CASE(only_named_engines),
	KUNIT_CASE(bouncing_channel_gets_no_share),
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
