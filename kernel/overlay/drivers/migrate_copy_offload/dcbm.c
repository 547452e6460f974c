// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: copy the folios of a migration batch with a DMA engine, over several
 * channels.
 *
 * A batch is shared out over the channels that are free, one folio to one
 * channel. A ring may be shorter than its share: what does not fit waits for
 * completions. A folio counts as copied if completions without an error vouch
 * for each of its bytes; engines may complete in any order. After a time-out
 * the channel is terminated before anything is unmapped. A channel that will
 * not terminate is never used, unmapped or released again, and the folios it
 * had are lost: a leak is safe, a stray write is not.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cleanup.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/list.h>
#include <linux/migrate_copy_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* More channels than any engine in the tree offers to one client. */
#define DCBM_MAX_LANES		64

/* An engine that is slower than this counts as hanging. */
#define DCBM_MIN_BYTES_PER_MS	SZ_16K

/*
 * A ring that is empty of our descriptors has room, but a driver may need a
 * moment to recycle the last ones.
 */
#define DCBM_MAX_STALLS		16
#define DCBM_STALL_US		100

/* A lane may run dry for as long while others keep their rings full. */
#define DCBM_REFILL_MS		10

static unsigned int channels;
module_param(channels, uint, 0444);
MODULE_PARM_DESC(channels, "Most channels to take (default: 0 = all there are, up to 64)");

#define DCBM_MAX_TIMEOUT_MS	(60 * 60 * 1000)

static int set_timeout_ms(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, DCBM_MAX_TIMEOUT_MS);
}

static const struct kernel_param_ops timeout_ms_ops = {
	.set = set_timeout_ms,
	.get = param_get_uint,
};

static unsigned int timeout_ms = 1000;
module_param_cb(timeout_ms, &timeout_ms_ops, &timeout_ms, 0644);
MODULE_PARM_DESC(timeout_ms, "Time-out of a batch in milliseconds, 1 to 3600000, on top of one for each 16 KB (default: 1000)");

static unsigned int batch_pages;
module_param(batch_pages, uint, 0644);
MODULE_PARM_DESC(batch_pages, "Base pages to ask core to migrate together; more keep more channels busy and memory inaccessible for longer (default: 0 = core's own)");

/* Protects the list of free lanes. */
static DEFINE_SPINLOCK(dcbm_lock);
static LIST_HEAD(free_lanes);

static struct dcbm_lane *lanes[DCBM_MAX_LANES];
static unsigned int nr_lanes;

static struct device *lane_dev(struct dcbm_lane *lane)
{
	return dmaengine_get_dma_device(lane->chan);
}

/* Bytes that are left in the current entry; 0 at the end. */
static size_t side_left(const struct dcbm_side *side)
{
	return side->nents ? sg_dma_len(side->sg) - side->offset : 0;
}

static void side_advance(struct dcbm_side *side, size_t len)
{
	side->offset += len;
	if (side->offset < sg_dma_len(side->sg))
		return;

	side->offset = 0;
	if (--side->nents)
		side->sg = sg_next(side->sg);
}

/**
 * dcbm_walk_init() - start a walk over a range of pairs
 * @walk: the walk
 * @pairs: all pairs of the batch
 * @first: first pair of the range
 * @end: end of the range, excluded
 * @src_sg: mapped scatterlist of the sources, in the order of the pairs
 * @src_nents: number of its entries as mapped
 * @dst_sg: the same for the destinations
 * @dst_nents: the same for the destinations
 */
VISIBLE_IF_KUNIT void
dcbm_walk_init(struct dcbm_walk *walk, const struct migrate_copy_pair *pairs,
	       unsigned int first, unsigned int end, struct scatterlist *src_sg,
	       unsigned int src_nents, struct scatterlist *dst_sg,
	       unsigned int dst_nents)
{
	walk->src = (struct dcbm_side){ .sg = src_sg, .nents = src_nents };
	walk->dst = (struct dcbm_side){ .sg = dst_sg, .nents = dst_nents };
	walk->pairs = pairs;
	walk->pair = first;
	walk->end = end;
	walk->offset = 0;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_init);

/**
 * dcbm_walk_next() - take the next segment of a walk
 * @walk: the walk
 * @segment: the segment, if there is one
 *
 * A segment never crosses the border of a folio, so that each completion
 * vouches for bytes of one folio.
 *
 * Return: true if there was one; false at the end.
 */
VISIBLE_IF_KUNIT bool dcbm_walk_next(struct dcbm_walk *walk,
				     struct dcbm_segment *segment)
{
	size_t size, len;

	if (walk->pair == walk->end)
		return false;

	size = folio_size(walk->pairs[walk->pair].src);
	len = min3(side_left(&walk->src), side_left(&walk->dst),
		   size - walk->offset);
	/* Lists that are too short leave folios that nobody vouches for. */
	if (WARN_ON_ONCE(!len))
		return false;

	segment->src = sg_dma_address(walk->src.sg) + walk->src.offset;
	segment->dst = sg_dma_address(walk->dst.sg) + walk->dst.offset;
	segment->len = len;
	segment->pair = walk->pair;

	side_advance(&walk->src, len);
	side_advance(&walk->dst, len);
	walk->offset += len;
	if (walk->offset == size) {
		walk->offset = 0;
		walk->pair++;
	}

	return true;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_next);

/**
 * dcbm_share() - share out what is left of a batch evenly
 * @batch: the batch
 * @first: first pair that is left
 * @nr_lanes: number of lanes that are left, at most as many as pairs are
 * @nr_pages: base pages that are left; less this share on return
 *
 * Return: the end of the share of the next lane, excluded. Every lane gets at
 * least one pair.
 */
VISIBLE_IF_KUNIT unsigned int
dcbm_share(const struct migrate_copy_batch *batch, unsigned int first,
	   unsigned int nr_lanes, unsigned long *nr_pages)
{
	const unsigned long goal = DIV_ROUND_UP(*nr_pages, nr_lanes);
	const unsigned int last = batch->nr_pairs - (nr_lanes - 1);
	unsigned long share = 0;
	unsigned int end = first;

	do {
		share += folio_nr_pages(batch->pairs[end].src);
		end++;
	} while (end < last && (share < goal || nr_lanes == 1));

	*nr_pages -= share;
	return end;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_share);

/**
 * dcbm_completed() - judge a completion
 * @slot: a slot whose callback was called; its error is set if there was one
 * @status: what the provider says of the slot's cookie
 *
 * After a time-out only what completed before counts: some providers call back
 * for descriptors that they were told to drop, and call that a success.
 *
 * Return: true if the descriptor is not in flight any more; false if the
 * callback was one of an earlier use of the slot.
 */
VISIBLE_IF_KUNIT bool dcbm_completed(struct dcbm_slot *slot,
				     enum dma_status status)
{
	if (slot->lane->timed_out) {
		slot->error = true;
		return true;
	}

	/* Some providers report an error here and nowhere else. */
	if (status == DMA_ERROR)
		slot->error = true;

	return status != DMA_IN_PROGRESS;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_completed);

/**
 * dcbm_account() - account for a completion
 * @job: the job of the slot
 * @slot: a slot that is not in flight any more
 */
VISIBLE_IF_KUNIT void dcbm_account(struct dcbm_job *job, struct dcbm_slot *slot)
{
	if (!slot->error)
		job->left[slot->pair] -= slot->len;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_account);

/**
 * dcbm_pair_status() - what became of a pair, when its lane is done
 * @job: the job
 * @lane: the lane that had the pair
 * @pair: the pair
 *
 * The mappings of a lane live and die together: on a quarantined one no folio
 * may be given back, whether its own descriptors completed or not.
 *
 * Return: what to report.
 */
VISIBLE_IF_KUNIT enum migrate_copy_status
dcbm_pair_status(const struct dcbm_job *job, const struct dcbm_lane *lane,
		 unsigned int pair)
{
	if (lane->quarantined)
		return MIGRATE_COPY_LOST;
	if (!job->left[pair])
		return MIGRATE_COPY_DONE;
	if (lane->timed_out)
		return MIGRATE_COPY_TIMEOUT;
	return MIGRATE_COPY_ERROR;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_pair_status);

/* Any context. After this the slot belongs to the task that has the job. */
static void complete_slot(struct dcbm_slot *slot, bool error)
{
	struct dcbm_job *job = slot->lane->job;

	/* Providers have been seen to call twice. */
	if (!xchg(&slot->in_flight, 0))
		return;

	slot->error = error;
	llist_add(&slot->node, &job->completed);
	if (atomic_dec_return(&job->in_flight) <= READ_ONCE(job->wake_at))
		wake_up(&job->wait);
}

static void dcbm_callback(void *param)
{
	complete_slot(param, false);
}

static void dcbm_callback_result(void *param,
				 const struct dmaengine_result *result)
{
	complete_slot(param, result && (result->result != DMA_TRANS_NOERROR ||
					result->residue));
}

/* Take up to @max of the free lanes. Return NULL if there is none. */
static struct dcbm_job *get_job(unsigned int max)
{
	struct dcbm_job *job = NULL;
	struct dcbm_lane *lane;

	guard(spinlock)(&dcbm_lock);

	while (max-- && !list_empty(&free_lanes)) {
		lane = list_first_entry(&free_lanes, struct dcbm_lane, node);
		if (!job) {
			job = &lane->own_job;
			INIT_LIST_HEAD(&job->lanes);
		}
		lane->job = job;
		list_move_tail(&lane->node, &job->lanes);
	}

	return job;
}

static void put_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane, *next;

	guard(spinlock)(&dcbm_lock);

	list_for_each_entry_safe(lane, next, &job->lanes, node) {
		if (lane->quarantined)
			list_del_init(&lane->node);
		else
			list_move_tail(&lane->node, &free_lanes);
	}
}

/* On failure the lane has nothing to do, and its folios stay uncopied. */
static void map_lane(struct dcbm_lane *lane)
{
	const struct migrate_copy_pair *pairs = lane->job->batch->pairs;
	const unsigned int nr = lane->end - lane->first;
	int src_nents, dst_nents;
	unsigned int i;

	sg_init_table(lane->src_sg, nr);
	sg_init_table(lane->dst_sg, nr);
	for (i = 0; i < nr; i++) {
		const struct migrate_copy_pair *pair = &pairs[lane->first + i];

		sg_set_folio(&lane->src_sg[i], pair->src,
			     folio_size(pair->src), 0);
		sg_set_folio(&lane->dst_sg[i], pair->dst,
			     folio_size(pair->src), 0);
	}

	lane->more = false;
	lane->mapped = false;
	src_nents = dma_map_sg(lane_dev(lane), lane->src_sg, nr, DMA_TO_DEVICE);
	if (!src_nents)
		return;

	dst_nents = dma_map_sg(lane_dev(lane), lane->dst_sg, nr,
			       DMA_FROM_DEVICE);
	if (!dst_nents) {
		dma_unmap_sg(lane_dev(lane), lane->src_sg, nr, DMA_TO_DEVICE);
		return;
	}

	lane->mapped = true;
	dcbm_walk_init(&lane->walk, pairs, lane->first, lane->end, lane->src_sg,
		       src_nents, lane->dst_sg, dst_nents);
	lane->more = dcbm_walk_next(&lane->walk, &lane->next);
}

static void unmap_lane(struct dcbm_lane *lane)
{
	const unsigned int nr = lane->end - lane->first;

	if (!lane->mapped)
		return;

	dma_unmap_sg(lane_dev(lane), lane->src_sg, nr, DMA_TO_DEVICE);
	dma_unmap_sg(lane_dev(lane), lane->dst_sg, nr, DMA_FROM_DEVICE);
	lane->mapped = false;
}

static bool lane_idle(const struct dcbm_lane *lane)
{
	return lane->nr_free == ARRAY_SIZE(lane->slots);
}

/* Leave out what is left of the folio of the next segment. */
static void skip_pair(struct dcbm_lane *lane)
{
	const unsigned int pair = lane->next.pair;

	while (lane->more && lane->next.pair == pair)
		lane->more = dcbm_walk_next(&lane->walk, &lane->next);
}

/* Hand segments to the channel until there are none, or no room for more. */
static void push_lane(struct dcbm_lane *lane)
{
	struct dcbm_job *job = lane->job;
	bool pushed = false;

	while (lane->more && lane->nr_free) {
		struct dma_async_tx_descriptor *tx;
		struct dcbm_slot *slot;

		tx = dmaengine_prep_dma_memcpy(lane->chan, lane->next.dst,
					       lane->next.src, lane->next.len,
					       DMA_PREP_INTERRUPT |
					       DMA_CTRL_ACK);
		if (!tx) {
			if (!lane_idle(lane) ||
			    ++lane->stalls <= DCBM_MAX_STALLS)
				break;
			/* It is not the ring: the CPU copies this folio. */
			skip_pair(lane);
			continue;
		}

		slot = lane->free[--lane->nr_free];
		slot->pair = lane->next.pair;
		slot->len = lane->next.len;
		/* Some drivers never clear the callbacks of the last use. */
		tx->callback = dcbm_callback;
		tx->callback_result = dcbm_callback_result;
		tx->callback_param = slot;

		/* It may complete before dmaengine_submit() returns. */
		WRITE_ONCE(slot->in_flight, 1);
		atomic_inc(&job->in_flight);
		slot->cookie = dmaengine_submit(tx);
		if (dma_submit_error(slot->cookie)) {
			/* The driver has the descriptor back, and no bytes. */
			WRITE_ONCE(slot->in_flight, 0);
			atomic_dec(&job->in_flight);
			lane->free[lane->nr_free++] = slot;
		} else {
			pushed = true;
		}

		lane->stalls = 0;
		lane->more = dcbm_walk_next(&lane->walk, &lane->next);
	}

	if (pushed)
		dma_async_issue_pending(lane->chan);
}

static void reap(struct dcbm_job *job)
{
	struct llist_node *completed = llist_del_all(&job->completed);
	struct dcbm_slot *slot, *next;

	llist_for_each_entry_safe(slot, next, completed, node) {
		struct dcbm_lane *lane = slot->lane;
		enum dma_status status;

		status = dma_async_is_tx_complete(lane->chan, slot->cookie,
						  NULL, NULL);
		if (!dcbm_completed(slot, status)) {
			atomic_inc(&job->in_flight);
			WRITE_ONCE(slot->in_flight, 1);
			continue;
		}

		dcbm_account(job, slot);
		lane->free[lane->nr_free++] = slot;
	}
}

static bool lane_in_flight(const struct dcbm_lane *lane)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lane->slots); i++)
		if (READ_ONCE(lane->slots[i].in_flight))
			return true;

	return false;
}

/*
 * Only a provider that can synchronize tells when a terminated channel has
 * stopped, and its callbacks have ended.
 */
static int terminate(struct dma_chan *chan)
{
	if (!chan->device->device_synchronize)
		return -EOPNOTSUPP;

	return dmaengine_terminate_sync(chan);
}

/*
 * After this nothing reads or writes the lane's folios, or it is quarantined;
 * and no callback touches the job, but one that has begun already.
 */
static void stop_lane(struct dcbm_lane *lane)
{
	unsigned int i;
	int error;

	lane->timed_out = true;
	lane->more = false;
	if (!lane_in_flight(lane))
		return;

	error = terminate(lane->chan);
	if (error) {
		lane->quarantined = true;
		pr_warn("%s does not terminate (%d): quarantined, and its %u folios are lost\n",
			dma_chan_name(lane->chan), error,
			lane->end - lane->first);
	}

	for (i = 0; i < ARRAY_SIZE(lane->slots); i++) {
		struct dcbm_slot *slot = &lane->slots[i];

		if (xchg(&slot->in_flight, 0)) {
			atomic_dec(&lane->job->in_flight);
			lane->free[lane->nr_free++] = slot;
		}
	}
}

static void stop_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane;

	/* What completed in time counts. */
	reap(job);
	list_for_each_entry(lane, &job->lanes, node)
		stop_lane(lane);

	/* Callbacks that have begun are a few instructions from their end. */
	while (atomic_read(&job->in_flight))
		usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
	reap(job);
}

static int dcbm_submit(struct migrator *migrator,
		       struct migrate_copy_batch *batch)
{
	unsigned long left = batch->nr_pages;
	struct dcbm_lane *lane;
	unsigned int i, n, first = 0;
	struct dcbm_job *job;

	job = get_job(batch->nr_pairs);
	if (!job)
		return -EBUSY;

	batch->migrator_data = job;
	job->batch = batch;
	job->wake_at = 0;
	init_llist_head(&job->completed);
	atomic_set(&job->in_flight, 0);
	for (i = 0; i < batch->nr_pairs; i++)
		job->left[i] = folio_size(batch->pairs[i].src);
	job->deadline = jiffies + msecs_to_jiffies(READ_ONCE(timeout_ms) +
				batch->nr_pages * PAGE_SIZE /
				DCBM_MIN_BYTES_PER_MS);

	n = list_count_nodes(&job->lanes);
	list_for_each_entry(lane, &job->lanes, node) {
		lane->first = first;
		lane->end = dcbm_share(batch, first, n--, &left);
		first = lane->end;
		lane->timed_out = false;
		lane->stalls = 0;
		map_lane(lane);
		push_lane(lane);
	}

	return 0;
}

static void dcbm_wait(struct migrator *migrator,
		      struct migrate_copy_batch *batch)
{
	struct dcbm_job *job = batch->migrator_data;
	struct dcbm_lane *lane;
	unsigned int i;

	for (;;) {
		bool more = false, busy = false;
		long left;

		reap(job);
		list_for_each_entry(lane, &job->lanes, node) {
			push_lane(lane);
			more |= lane->more;
			busy |= !lane_idle(lane);
		}
		/* A callback that has not counted yet would count for the next job. */
		busy |= atomic_read(&job->in_flight) > 0;
		if (!more && !busy)
			break;

		left = job->deadline - jiffies;
		if (left <= 0) {
			stop_job(job);
			break;
		}

		if (!busy) {
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
			continue;
		}

		/* Refill rings that are half empty; otherwise wait for all. */
		WRITE_ONCE(job->wake_at,
			   more ? atomic_read(&job->in_flight) / 2 : 0);
		if (more)
			left = min(left, (long)msecs_to_jiffies(DCBM_REFILL_MS));
		wait_event_timeout(job->wait, atomic_read(&job->in_flight) <=
					      job->wake_at, left);
	}

	/* Bytes may reach dst as late as in the unmap: report after it. */
	list_for_each_entry(lane, &job->lanes, node) {
		if (!lane->quarantined)
			unmap_lane(lane);
		for (i = lane->first; i < lane->end; i++)
			migrate_offload_report(&batch->pairs[i],
					       dcbm_pair_status(job, lane, i));
	}
	put_job(job);
}

static unsigned int dcbm_preferred_pages(struct migrator *migrator)
{
	return READ_ONCE(batch_pages);
}

static struct migrator dcbm_migrator = {
	.name		 = "dcbm",
	.owner		 = THIS_MODULE,
	.preferred_pages = dcbm_preferred_pages,
	.submit		 = dcbm_submit,
	.wait		 = dcbm_wait,
};

static struct dcbm_lane *alloc_lane(struct dma_chan *chan)
{
	struct dcbm_lane *lane;
	unsigned int i;

	lane = kvzalloc_node(sizeof(*lane), GFP_KERNEL,
			     dev_to_node(dmaengine_get_dma_device(chan)));
	if (!lane)
		return NULL;

	lane->chan = chan;
	init_waitqueue_head(&lane->own_job.wait);
	lane->nr_free = ARRAY_SIZE(lane->slots);
	for (i = 0; i < lane->nr_free; i++) {
		lane->slots[i].lane = lane;
		lane->free[i] = &lane->slots[i];
	}

	return lane;
}

static void release_lanes(void)
{
	unsigned int i;

	/* A callback of one channel may be about to wake a job of another. */
	for (i = 0; i < nr_lanes; i++)
		dma_release_channel(lanes[i]->chan);
	for (i = 0; i < nr_lanes; i++)
		kvfree(lanes[i]);
	INIT_LIST_HEAD(&free_lanes);
	nr_lanes = 0;
}

static int acquire_lanes(void)
{
	unsigned int max = channels ?: DCBM_MAX_LANES;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);

	while (nr_lanes < max) {
		struct dma_chan *chan = dma_request_chan_by_mask(&mask);
		struct dcbm_lane *lane;

		if (IS_ERR(chan))
			break;

		lane = alloc_lane(chan);
		if (!lane) {
			dma_release_channel(chan);
			release_lanes();
			return -ENOMEM;
		}

		lanes[nr_lanes++] = lane;
		list_add_tail(&lane->node, &free_lanes);
	}

	return nr_lanes ? 0 : -ENODEV;
}

static int __init dcbm_init(void)
{
	int error;

	if (channels > DCBM_MAX_LANES) {
		pr_err("channels=%u is more than %u\n", channels,
		       DCBM_MAX_LANES);
		return -EINVAL;
	}

	error = acquire_lanes();
	if (error) {
		pr_err("no DMA engine offers a channel for memory copies: %d\n",
		       error);
		return error;
	}

	error = migrate_offload_register(&dcbm_migrator);
	if (error) {
		pr_err("cannot register: %d\n", error);
		release_lanes();
		return error;
	}

	pr_info("%u channels, the first is %s of %s\n", nr_lanes,
		dma_chan_name(lanes[0]->chan), dev_name(lane_dev(lanes[0])));
	return 0;
}
module_init(dcbm_init);

static void __exit dcbm_exit(void)
{
	/* No lane is quarantined: core does not let go of a module that is. */
	migrate_offload_unregister(&dcbm_migrator);
	release_lanes();
}
module_exit(dcbm_exit);

MODULE_DESCRIPTION("DMA engine batch migrator: copy offload for page migration");
MODULE_LICENSE("GPL");
