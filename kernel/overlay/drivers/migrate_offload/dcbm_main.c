// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: copy the folios of a migration batch with a DMA engine, over several
 * channels.
 *
 * dcbm divides the bytes of a batch among as many free channels as are worth
 * using: it cuts large folios and groups small ones. A channel copies its share
 * with one descriptor if the provider takes scatterlists, otherwise with one for
 * each segment that is contiguous on both sides; segments that do not fit into
 * the ring wait for completions.
 *
 * A folio counts as copied if completions without an error cover each of its
 * bytes; engines may complete in any order. After the deadline of the batch dcbm
 * terminates the channel before it unmaps anything, if the provider states that
 * terminating waits for the hardware. Otherwise, or if that fails, dcbm
 * quarantines the channel: dcbm never uses the channel or undoes its mappings
 * again, and the folios of its share are lost. A leak is safe, a stray write is
 * not.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* A ring without descriptors of ours may need a moment to recycle the last ones. */
#define DCBM_STALL_US		100

/* Longest time a lane may idle while others keep their rings full. */
#define DCBM_REFILL_MS		10

/* If prep refuses even this much so many times, the length is not the reason. */
#define DCBM_MIN_LEN		SZ_4K
#define DCBM_MAX_STALLS		16

/* Descriptors per interrupt while more are to follow. */
#define DCBM_BURST		16

/* Time-outs in a row after which a channel is never used again. */
#define DCBM_MAX_STRIKES	3

/* Below this the CPU has copied before an engine has begun. */
#define DCBM_MIN_PAGES		16

/* On a model of PTDMA pages of 4 KB migrate more slowly than by the CPU, 16 KB faster. */
#define DCBM_MIN_ORDER		2

static bool lists = true;
module_param(lists, bool, 0644);
MODULE_PARM_DESC(lists, "Use one descriptor for a channel's whole share of a batch if the provider takes scatterlists (default: Y)");

static bool merge = true;
module_param(merge, bool, 0644);
MODULE_PARM_DESC(merge, "Use one descriptor for neighbours in physical memory (default: Y)");

/*
 * A callback gets a token, which stands for one descriptor and is never used
 * again. A call that comes twice, or late, therefore says nothing about the
 * descriptor that has the slot now, even if the lane is gone.
 */
static unsigned long new_token(struct dcbm_lane *lane,
			       const struct dcbm_slot *slot)
{
	return (++lane->uses * DCBM_MAX_LANES + lane->id) * DCBM_MAX_SLOTS +
	       (slot - lane->slots);
}

static struct dcbm_lane *lane_of_token(unsigned long token)
{
	unsigned int id = token / DCBM_MAX_SLOTS % DCBM_MAX_LANES;

	return rcu_dereference(dcbm_by_id[id]);
}

/* Called in any context. Afterwards the slot belongs to the task that has the job. */
static void complete_token(unsigned long token, bool error)
{
	struct dcbm_lane *lane;
	struct dcbm_slot *slot;
	struct dcbm_job *job;
	bool wake;

	/* A lane and a job are freed only after a grace period. */
	guard(rcu)();

	lane = lane_of_token(token);
	if (!lane)
		return;
	slot = &lane->slots[token % DCBM_MAX_SLOTS];

	/*
	 * Disable preemption so that stop_job() never waits for a task preempted
	 * between the cmpxchg() and the atomic_dec_return().
	 */
	scoped_guard(preempt) {
		if (cmpxchg(&slot->token, token, 0) != token)
			return;

		slot->error = error;
		/* The lane keeps its job until the count below reaches the job. */
		job = READ_ONCE(lane->job);
		llist_add(&slot->node, &job->completed);
		wake = atomic_dec_return(&job->in_flight) <=
		       READ_ONCE(job->wake_at);
	}
	if (wake)
		wake_up(&job->wait);
}

static void dcbm_callback_result(void *param,
				 const struct dmaengine_result *result)
{
	complete_token((unsigned long)param,
		       result->result != DMA_TRANS_NOERROR || result->residue);
}

/* Fill the next entries of the job's tables with the share of a lane. */
static void fill_tables(struct dcbm_lane *lane)
{
	struct dcbm_job *job = lane->job;
	size_t offset = lane->range.offset, left = lane->range.len;
	const bool neighbours = READ_ONCE(merge);
	unsigned int item = lane->range.first;

	lane->src_filled = 0;
	lane->dst_filled = 0;
	lane->src_sg = &job->src_sg[job->nents];
	lane->dst_sg = &job->dst_sg[job->nents];
	while (left) {
		struct migrate_offload_pair *pair = &job->batch->pairs[item++];
		size_t len = min(folio_size(pair->src) - offset, left);

		lane->src_filled = dcbm_add_entry(lane->src_sg,
						  lane->src_filled, pair->src,
						  len, offset, neighbours);
		lane->dst_filled = dcbm_add_entry(lane->dst_sg,
						  lane->dst_filled, pair->dst,
						  len, offset, neighbours);
		left -= len;
		offset = 0;
	}
	sg_mark_end(&lane->src_sg[lane->src_filled - 1]);
	sg_mark_end(&lane->dst_sg[lane->dst_filled - 1]);
	job->nents += max(lane->src_filled, lane->dst_filled);
}

static bool map_tables(struct dcbm_lane *lane)
{
	int src, dst;

	src = dma_map_sg(lane->dev, lane->src_sg, lane->src_filled,
			 DMA_TO_DEVICE);
	if (!src)
		return false;

	dst = dma_map_sg(lane->dev, lane->dst_sg, lane->dst_filled,
			 DMA_FROM_DEVICE);
	if (!dst) {
		dma_unmap_sg(lane->dev, lane->src_sg, lane->src_filled,
			     DMA_TO_DEVICE);
		return false;
	}

	lane->src_nents = src;
	lane->dst_nents = dst;
	return true;
}

/* On failure the lane gets no work, and its folios are not copied. */
static void map_lane(struct dcbm_lane *lane)
{
	lane->more = false;
	lane->mapped = false;
	if (!lane->range.len)
		return;
	if (lane->bounces) {
		lane->job->unreachable = true;
		return;
	}

	fill_tables(lane);
	lane->mapped = map_tables(lane);
	if (!lane->mapped)
		return;
	lane->use_list = READ_ONCE(lists) &&
			 (lane->src_nents > 1 || lane->dst_nents > 1) &&
			 dma_has_cap(DMA_MEMCPY_SG, lane->chan->device->cap_mask);
	lane->stalls = 0;
	lane->depth = DCBM_MAX_SLOTS;
	lane->try_len = lane->max_len;
	dcbm_walk_init(&lane->walk, &lane->range, lane->src_sg,
		       lane->src_nents, lane->dst_sg, lane->dst_nents);
	lane->more = dcbm_walk_next(&lane->walk, lane->job, &lane->next);
}

static void unmap_lane(struct dcbm_lane *lane)
{
	if (!lane->mapped || !dma_need_unmap(lane->dev))
		return;

	dma_unmap_sg(lane->dev, lane->src_sg, lane->src_filled, DMA_TO_DEVICE);
	dma_unmap_sg(lane->dev, lane->dst_sg, lane->dst_filled,
		     DMA_FROM_DEVICE);
}

static void submit(struct dcbm_lane *lane, struct dma_async_tx_descriptor *tx,
		   const struct dcbm_range *range)
{
	struct dcbm_slot *slot = &lane->slots[lane->free[--lane->nr_free]];
	unsigned long token = new_token(lane, slot);
	struct dcbm_job *job = lane->job;

	slot->range = *range;
	/* Set all three: some drivers keep the callbacks of an earlier use. */
	tx->callback = NULL;
	tx->callback_result = dcbm_callback_result;
	tx->callback_param = (void *)token;

	/* The descriptor may complete before dmaengine_submit() returns. */
	atomic_inc(&job->in_flight);
	/* A completion that sees the token also sees the slot and the count. */
	smp_store_release(&slot->token, token);
	slot->cookie = dmaengine_submit(tx);
	lane->descriptors++;

	/* On an error the driver took the descriptor back and copies nothing. */
	if (dma_submit_error(slot->cookie) && xchg(&slot->token, 0)) {
		atomic_dec(&job->in_flight);
		lane->free[lane->nr_free++] = slot - lane->slots;
	}
}

/* Submit the whole share as one list. On failure the caller submits segments. */
static bool push_list(struct dcbm_lane *lane)
{
	struct dma_async_tx_descriptor *tx;

	lane->use_list = false;
	tx = dmaengine_prep_dma_memcpy_sg(lane->chan,
					  lane->dst_sg, lane->dst_nents,
					  lane->src_sg, lane->src_nents,
					  DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!tx)
		return false;

	lane->more = false;
	lane->lists++;
	submit(lane, tx, &lane->range);
	return true;
}

/*
 * Prep refused a descriptor. If others are in flight, the ring is full. If none
 * is, wait for a moment once; then the length must be the reason.
 */
static void refused(struct dcbm_lane *lane, size_t len)
{
	if (dcbm_in_flight(lane)) {
		lane->depth = min(lane->depth, dcbm_in_flight(lane));
		return;
	}
	if (!lane->stalls++)
		return;

	if (len > DCBM_MIN_LEN) {
		lane->stalls = 0;
		/* A power of two is aligned for any engine. */
		lane->try_len = max(rounddown_pow_of_two(len - 1), DCBM_MIN_LEN);
	} else if (lane->stalls > DCBM_MAX_STALLS) {
		/* Leave the rest of the share to the CPU. */
		lane->more = false;
	}
}

/*
 * Does anybody wait for the descriptor of the next @len bytes? If it is the last
 * one, and now and then, to refill the ring. A full ring of which none interrupts
 * would stay full until the deadline. So the first one does, for a ring that is full
 * before anything is issued, and then each one that may fill it up. What has
 * completed meanwhile still counts as in flight: at worst one more interrupts. Some
 * drivers, of which nothing is proven, even drop what does not interrupt.
 */
static bool should_interrupt(const struct dcbm_lane *lane, size_t len)
{
	return (len == lane->next.range.len && !lane->walk.rest.len) ||
	       !dcbm_in_flight(lane) || dcbm_in_flight(lane) + 1 >= lane->depth ||
	       lane->nr_free % DCBM_BURST == 1 ||
	       !lane->chan->device->reliable_result;
}

/* Submit the next segment, or as much of it as the provider takes. */
static bool push_segment(struct dcbm_lane *lane)
{
	size_t len = min(lane->next.range.len, lane->try_len);
	struct dma_async_tx_descriptor *tx;
	unsigned long flags = DMA_CTRL_ACK;
	struct dcbm_segment part;

	if (should_interrupt(lane, len))
		flags |= DMA_PREP_INTERRUPT;
	tx = dmaengine_prep_dma_memcpy(lane->chan, lane->next.dst,
				       lane->next.src, len, flags);
	if (!tx) {
		refused(lane, len);
		return false;
	}

	lane->stalls = 0;
	lane->max_len = lane->try_len;
	part = dcbm_cut(lane->job, &lane->next, len);
	if (!lane->next.range.len)
		lane->more = dcbm_walk_next(&lane->walk, lane->job,
					    &lane->next);
	submit(lane, tx, &part.range);
	return true;
}

/* Submit segments until none are left or the ring is full. */
static void push_lane(struct dcbm_lane *lane)
{
	bool pushed = lane->more && lane->use_list && push_list(lane);

	while (lane->more && lane->nr_free && push_segment(lane))
		pushed = true;

	if (pushed)
		dma_async_issue_pending(lane->chan);
}

static void lose_lane(struct dcbm_lane *lane, int error)
{
	struct dcbm_job *job = lane->job;

	lane->lost = true;
	lane->quarantined = true;
	/* The engine may also read a list. */
	job->leaked |= lane->lists > 0;
	dcbm_lose(job, &lane->range);
	pr_warn("%s does not terminate (%d): channel quarantined, %zu bytes lost\n",
		lane->name, error, lane->range.len);
}

/*
 * After this the channel does not access the lane's folios, or they are lost. No
 * callback accesses the job, except one that has already begun.
 */
static void stop_lane(struct dcbm_lane *lane)
{
	int error = -EOPNOTSUPP;
	unsigned int i;

	lane->more = false;
	lane->stopped = true;
	lane->timeouts++;
	lane->strikes++;
	/* Otherwise the engine could go on, and write to memory of others. */
	if (lane->chan->device->reliable_terminate)
		error = dmaengine_terminate_sync(lane->chan);
	if (error)
		lose_lane(lane, error);

	for (i = 0; i < DCBM_MAX_SLOTS; i++) {
		if (xchg(&lane->slots[i].token, 0)) {
			atomic_dec(&lane->job->in_flight);
			lane->free[lane->nr_free++] = i;
		}
	}
}

/*
 * Judge the completions of a lane that has nothing in flight: asking some
 * providers for a status disturbs what they do.
 */
static void judge_lane(struct dcbm_lane *lane)
{
	while (lane->nr_done) {
		struct dcbm_slot *slot = &lane->slots[lane->done[--lane->nr_done]];
		enum dma_status status = DMA_ERROR;

		if (!lane->lost && !slot->error &&
		    !dma_submit_error(slot->cookie))
			status = dma_async_is_tx_complete(lane->chan,
							  slot->cookie, NULL,
							  NULL);
		/* It called back early: it may still write. */
		if (status == DMA_IN_PROGRESS && !lane->stopped)
			stop_lane(lane);

		/* Some providers report an error in the status and nowhere else. */
		if (status == DMA_ERROR || status == DMA_IN_PROGRESS) {
			lane->errors++;
		} else {
			dcbm_account(lane->job, &slot->range);
			lane->bytes += slot->range.len;
			lane->strikes = 0;
		}
		lane->free[lane->nr_free++] = slot - lane->slots;
	}
}

/*
 * Collect what has completed. No completion after a termination counts as a
 * success: some providers call back for descriptors that they dropped, and report
 * success.
 */
static void collect(struct dcbm_job *job)
{
	struct llist_node *completed;
	struct dcbm_slot *slot, *next;

	while ((completed = llist_del_all(&job->completed))) {
		llist_for_each_entry_safe(slot, next, completed, node) {
			struct dcbm_lane *lane;

			lane = rcu_dereference_protected(dcbm_by_id[slot->lane],
							 true);
			slot->error |= lane->stopped;
			lane->done[lane->nr_done++] = slot - lane->slots;
		}
	}
}

static void reap(struct dcbm_job *job)
{
	struct dcbm_lane *lane;

	collect(job);
	list_for_each_entry(lane, &job->lanes, node)
		if (!dcbm_in_flight(lane))
			judge_lane(lane);
}

/* A channel that only ever times out costs each batch that gets it a deadline. */
static void check_strikes(struct dcbm_lane *lane)
{
	if (lane->quarantined || lane->strikes < DCBM_MAX_STRIKES)
		return;

	lane->quarantined = true;
	pr_warn("%s timed out %u times without a success: channel quarantined\n",
		lane->name, lane->strikes);
}

/* Stop only lanes with something in flight: what completed in time counts. */
static void stop_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane;

	job->timed_out = true;
	collect(job);
	list_for_each_entry(lane, &job->lanes, node) {
		lane->more = false;
		if (dcbm_in_flight(lane))
			stop_lane(lane);
	}
	/*
	 * Wait for callbacks that have already taken a slot. They run with
	 * preemption disabled and count within a few instructions.
	 */
	while (atomic_read(&job->in_flight))
		usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
	reap(job);
}

static void start_job(struct dcbm_job *job)
{
	const struct migrate_offload_batch *batch = job->batch;
	unsigned int i, n = list_count_nodes(&job->lanes);
	struct dcbm_range rest = { };
	struct dcbm_lane *lane;

	job->timed_out = false;
	job->unreachable = false;
	job->wake_at = 0;
	job->nents = 0;
	atomic_set(&job->in_flight, 0);
	bitmap_zero(job->lost, MIGRATE_OFFLOAD_MAX_PAIRS);
	for (i = 0; i < batch->nr_pairs; i++) {
		job->left[i] = folio_size(batch->pairs[i].src);
		rest.len += job->left[i];
	}

	list_for_each_entry(lane, &job->lanes, node) {
		dcbm_share(job, &rest, n--, &lane->range);
		lane->stopped = false;
		lane->lost = false;
		map_lane(lane);
		push_lane(lane);
	}
}

/*
 * Collect what has completed, and refill rings. Set @more if something is left
 * to submit, and @busy if something is in flight.
 */
static void advance_job(struct dcbm_job *job, bool *more, bool *busy)
{
	struct dcbm_lane *lane;

	*more = false;
	*busy = false;
	reap(job);
	list_for_each_entry(lane, &job->lanes, node) {
		if (lane->more)
			push_lane(lane);
		*more |= lane->more;
		*busy |= dcbm_in_flight(lane);
	}
}

/* Return when nothing is in flight and nothing is left to submit, or too late. */
static void run_job(struct dcbm_job *job)
{
	for (;;) {
		bool more, busy;
		long left;

		advance_job(job, &more, &busy);
		if (!more && !busy)
			return;

		left = job->deadline - jiffies;
		if (left <= 0) {
			stop_job(job);
			return;
		}

		if (!busy) {
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
			continue;
		}

		/* Wake up to refill half-empty rings; otherwise wait for all slots. */
		WRITE_ONCE(job->wake_at,
			   more ? atomic_read(&job->in_flight) / 2 : 0);
		if (more)
			left = min(left, (long)msecs_to_jiffies(DCBM_REFILL_MS));
		wait_event_timeout(job->wait, atomic_read(&job->in_flight) <=
					      job->wake_at, left);
	}
}

VISIBLE_IF_KUNIT int dcbm_submit(struct migrator *migrator,
				 struct migrate_offload_batch *batch)
{
	struct dcbm_job *job;

	if (batch->nr_pages > DCBM_MAX_PAGES)
		return -EOPNOTSUPP;

	job = dcbm_get_job(batch);
	if (!job)
		return -EBUSY;

	batch->migrator_data = job;
	start_job(job);
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_submit);

static void dcbm_poll(struct migrator *migrator,
		      struct migrate_offload_batch *batch)
{
	bool more, busy;

	advance_job(batch->migrator_data, &more, &busy);
}

VISIBLE_IF_KUNIT void dcbm_wait(struct migrator *migrator,
				struct migrate_offload_batch *batch)
{
	struct dcbm_job *job = batch->migrator_data;
	struct dcbm_lane *lane;
	unsigned int i;

	run_job(job);
	/* Bytes may reach dst only in the unmap: report afterwards. */
	list_for_each_entry(lane, &job->lanes, node) {
		if (!lane->lost)
			unmap_lane(lane);
		check_strikes(lane);
	}
	for (i = 0; i < batch->nr_pairs; i++)
		migrate_offload_report(&batch->pairs[i],
				       dcbm_item_status(job, i));
	dcbm_put_job(job);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_wait);

static struct migrator dcbm_migrator = {
	.name		= "dcbm",
	.min_pages	= DCBM_MIN_PAGES,
	.min_order	= DCBM_MIN_ORDER,
	.asynchronous	= true,
	.submit		= dcbm_submit,
	.poll		= dcbm_poll,
	.wait		= dcbm_wait,
	.routed		= dcbm_routed,
};

module_param_named(min_pages, dcbm_migrator.min_pages, uint, 0644);
MODULE_PARM_DESC(min_pages, "Smallest batch to copy, in base pages (default: 16)");

module_param_named(min_order, dcbm_migrator.min_order, uint, 0644);
MODULE_PARM_DESC(min_order, "Order of the smallest folio to copy (default: 2)");

static int __init dcbm_init(void)
{
	int error;

	dcbm_channels_init();
	error = migrate_offload_register(&dcbm_migrator);
	if (error) {
		pr_err("cannot register the migrator: %d\n", error);
		dcbm_channels_exit();
	}
	return error;
}
module_init(dcbm_init);

static void __exit dcbm_exit(void)
{
	/* No pair is lost: core pins the module of a migrator with lost pairs. */
	migrate_offload_unregister(&dcbm_migrator);
	dcbm_channels_exit();
}
module_exit(dcbm_exit);

MODULE_DESCRIPTION("DMA engine batch migrator: copy offload for page migration");
MODULE_LICENSE("GPL");
