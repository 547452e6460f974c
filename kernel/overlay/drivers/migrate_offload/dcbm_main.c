// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: copy the folios of a migration batch with a DMA engine, over several
 * channels.
 *
 * dcbm divides the bytes of a batch among as many free channels as are worth
 * using: it cuts large folios and groups small ones. A channel copies its share
 * with one descriptor for each segment that is contiguous on both sides; segments
 * that do not fit into the ring wait for completions.
 *
 * A folio counts as copied if completions without an error cover each of its
 * bytes; engines may complete in any order. After the deadline of the batch dcbm
 * never uses the channel or undoes its mappings again, and the folios of its share
 * are lost, since no driver says that its engine has stopped. A leak is safe, a
 * stray write is not.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "dcbm.h"

/* A ring without descriptors of ours may need a moment to recycle the last ones. */
#define DCBM_STALL_US		100

/* Longest time a lane may idle while others keep their rings full. */
#define DCBM_REFILL_MS		10

/* If prep refuses this length, the length is not the reason. */
#define DCBM_MIN_LEN		SZ_4K
#define DCBM_MAX_STALLS		16

/*
 * A callback gets a token, which stands for one descriptor and is never used
 * again. So a second or late call of a callback has no effect on the
 * descriptor that has the slot now, even if the lane is gone.
 */
static void complete_token(void *param, const struct dmaengine_result *result)
{
	unsigned long token = (unsigned long)param;
	struct dcbm_lane *lane;
	struct dcbm_slot *slot;
	struct dcbm_job *job;
	bool wake;

	/* A lane and a job are freed only after a grace period. */
	guard(rcu)();

	lane = rcu_dereference(dcbm_by_id[token / DCBM_MAX_SLOTS % DCBM_MAX_LANES]);
	if (!lane)
		return;
	slot = &lane->slots[token % DCBM_MAX_SLOTS];

	/*
	 * Disable preemption so that stop_job() never waits for a task preempted
	 * between the cmpxchg() and the last atomic_dec().
	 */
	scoped_guard(preempt) {
		if (cmpxchg(&slot->token, token, 0) != token)
			return;

		slot->error = result->result != DMA_TRANS_NOERROR ||
			      result->residue;
		job = READ_ONCE(lane->job);
		wake = atomic_dec_return(&job->in_flight) <= READ_ONCE(job->wake_at);
		/* Afterwards other descriptors may use the slot, lane and job. */
		atomic_dec_return_release(&lane->in_flight);
	}
	if (wake)
		wake_up(&job->wait);
}

/* Fill the next entries of the tables of the job with the share of a lane. */
static void fill_tables(struct dcbm_lane *lane)
{
	struct dcbm_job *job = lane->job;
	size_t offset = lane->range.offset, left = lane->range.len;
	struct migrate_offload_pair *pair = &job->batch->pairs[lane->range.first];
	size_t len;

	lane->src = (struct sg_table){ .sgl = &job->src_sg[job->nents] };
	lane->dst = (struct sg_table){ .sgl = &job->dst_sg[job->nents] };
	for (; left; left -= len, offset = 0, pair++) {
		len = min(folio_size(pair->src) - offset, left);
		dcbm_add_entry(&lane->src, pair->src, len, offset);
		dcbm_add_entry(&lane->dst, pair->dst, len, offset);
	}
	sg_mark_end(&lane->src.sgl[lane->src.orig_nents - 1]);
	sg_mark_end(&lane->dst.sgl[lane->dst.orig_nents - 1]);
	job->nents += max(lane->src.orig_nents, lane->dst.orig_nents);
}

/* On failure the lane gets no work, and its folios are not copied. */
static void map_lane(struct dcbm_lane *lane)
{
	lane->walk.rest.len = 0;
	lane->mapped = false;
	if (!lane->range.len)
		return;

	fill_tables(lane);
	if (dma_map_sgtable(lane->dev, &lane->src, DMA_TO_DEVICE, 0))
		return;
	if (dma_map_sgtable(lane->dev, &lane->dst, DMA_FROM_DEVICE, 0)) {
		dma_unmap_sgtable(lane->dev, &lane->src, DMA_TO_DEVICE, 0);
		return;
	}

	lane->mapped = true;
	lane->stalls = 0;
	lane->max_len = DCBM_MAX_MERGED;
	dcbm_walk_init(&lane->walk, &lane->range, &lane->src, &lane->dst);
}

static void unmap_lane(struct dcbm_lane *lane)
{
	if (!lane->mapped || !dma_need_unmap(lane->dev))
		return;

	dma_unmap_sgtable(lane->dev, &lane->src, DMA_TO_DEVICE, 0);
	dma_unmap_sgtable(lane->dev, &lane->dst, DMA_FROM_DEVICE, 0);
}

/* Descriptors that ever had a slot of a lane with this id. */
static unsigned long dcbm_uses[DCBM_MAX_LANES];

/* No callback of the descriptor accesses the job, except one that has begun. */
static void drop(struct dcbm_lane *lane, struct dcbm_slot *slot)
{
	if (!xchg(&slot->token, 0))
		return;
	slot->error = true;
	atomic_dec(&lane->job->in_flight);
	atomic_dec(&lane->in_flight);
}

static void submit(struct dcbm_lane *lane, struct dma_async_tx_descriptor *tx,
		   const struct dcbm_range *range)
{
	struct dcbm_slot *slot = &lane->slots[lane->nr_used++];
	struct dcbm_job *job = lane->job;
	unsigned long token;

	token = (++dcbm_uses[lane->id] * DCBM_MAX_LANES + lane->id) * DCBM_MAX_SLOTS +
		(slot - lane->slots);
	slot->range = *range;
	/* Set all three: some drivers keep the callbacks of an earlier use. */
	tx->callback = NULL;
	tx->callback_result = complete_token;
	tx->callback_param = (void *)token;

	/* The descriptor may complete before dmaengine_submit() returns. */
	atomic_inc(&job->in_flight);
	atomic_inc(&lane->in_flight);
	/* A completion that sees the token also sees the slot and the counts. */
	smp_store_release(&slot->token, token);
	slot->cookie = dmaengine_submit(tx);

	/* On an error the driver took the descriptor back and copies nothing. */
	if (dma_submit_error(slot->cookie))
		drop(lane, slot);
}

/*
 * Prep refused a descriptor. If others are in flight, the ring is full. If none is,
 * the length may be the reason: return true to try a shorter one.
 */
static bool refused(struct dcbm_lane *lane, size_t len, unsigned int in_flight)
{
	if (in_flight)
		return false;
	if (len > DCBM_MIN_LEN) {
		/* A power of two is aligned for any engine. */
		lane->max_len = max(rounddown_pow_of_two(len - 1), DCBM_MIN_LEN);
		return true;
	}
	/* Wait for a moment, and in the end leave the rest of the share to the CPU. */
	if (++lane->stalls > DCBM_MAX_STALLS)
		lane->walk.rest.len = 0;
	return false;
}

/* Submit the next segment, or as much of it as the provider takes. */
static bool push_segment(struct dcbm_lane *lane)
{
	struct dcbm_segment next = dcbm_walk_peek(&lane->walk, lane->max_len);
	/* Before prep: meanwhile others may complete, and leave the ring. */
	const unsigned int in_flight = atomic_read(&lane->in_flight);
	struct dma_async_tx_descriptor *tx;

	tx = dmaengine_prep_dma_memcpy(lane->chan, next.dst, next.src,
				       next.range.len,
				       DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!tx)
		return refused(lane, next.range.len, in_flight);

	lane->stalls = 0;
	dcbm_walk_advance(&lane->walk, lane->job, next.range.len);
	submit(lane, tx, &next.range);
	return true;
}

/* Submit segments until none are left or the ring is full. */
static void push_lane(struct dcbm_lane *lane)
{
	bool pushed = false;

	while (lane->walk.rest.len && lane->nr_used < DCBM_MAX_SLOTS &&
	       push_segment(lane))
		pushed = true;

	if (pushed)
		dma_async_issue_pending(lane->chan);
}

/* The engine may go on, and write to the folios of the lane: they are lost. */
static void lose_lane(struct dcbm_lane *lane)
{
	unsigned int i;

	lane->walk.rest.len = 0;
	lane->lost = true;
	dcbm_lose(lane->job, lane->range);
	pr_warn("%s timed out: channel never used again, %zu bytes lost\n",
		lane->name, lane->range.len);

	for (i = 0; i < lane->nr_used; i++)
		drop(lane, &lane->slots[i]);
}

/*
 * Judge the completions of a lane that has nothing in flight: asking some
 * providers for a status disturbs what they do.
 */
static void judge_lane(struct dcbm_lane *lane)
{
	unsigned int i;

	for (i = 0; i < lane->nr_used; i++) {
		struct dcbm_slot *slot = &lane->slots[i];
		enum dma_status status = DMA_ERROR;

		if (!lane->lost && !slot->error && !dma_submit_error(slot->cookie))
			status = dma_async_is_tx_complete(lane->chan, slot->cookie, NULL, NULL);
		/*
		 * A call that came early says nothing: the engine may still write. Some
		 * providers report an error in the status and nowhere else.
		 */
		if (status == DMA_IN_PROGRESS)
			lose_lane(lane);
		else if (status != DMA_ERROR)
			dcbm_account(lane->job, slot->range);
	}
	lane->nr_used = 0;
}

/* Stop only lanes with descriptors in flight: completions in time count. */
static void stop_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane;

	job->timed_out = true;
	list_for_each_entry(lane, &job->lanes, node) {
		lane->walk.rest.len = 0;
		if (atomic_read(&lane->in_flight))
			lose_lane(lane);
		/*
		 * Wait for callbacks that have already taken a slot. They run
		 * with preemption disabled and count within a few instructions.
		 */
		while (atomic_read_acquire(&lane->in_flight))
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
		judge_lane(lane);
	}
}

static void start_job(struct dcbm_job *job)
{
	const struct migrate_offload_batch *batch = job->batch;
	unsigned int i, n = list_count_nodes(&job->lanes);
	struct dcbm_range rest = { };
	struct dcbm_lane *lane;

	job->timed_out = false;
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
		map_lane(lane);
		push_lane(lane);
	}
}

/*
 * Judge what has completed, and refill rings. Set @more if something is left to
 * submit, and @busy if something is in flight or not yet judged.
 */
static void advance_job(struct dcbm_job *job, bool *more, bool *busy)
{
	struct dcbm_lane *lane;

	*more = false;
	*busy = false;
	list_for_each_entry(lane, &job->lanes, node) {
		if (!atomic_read_acquire(&lane->in_flight))
			judge_lane(lane);
		if (lane->walk.rest.len)
			push_lane(lane);
		*more |= lane->walk.rest.len;
		*busy |= lane->nr_used;
	}
}

/* Return when all descriptors are judged and none is left to submit, or at the deadline. */
static void run_job(struct dcbm_job *job)
{
	for (;;) {
		bool more, busy;
		long left;

		advance_job(job, &more, &busy);
		if (!more && !busy)
			return;

		left = job->batch->deadline - jiffies;
		if (left <= 0) {
			stop_job(job);
			return;
		}

		if (!busy) {
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
			continue;
		}

		/* Wake up to refill half-empty rings; otherwise wait for all slots. */
		WRITE_ONCE(job->wake_at, more ? atomic_read(&job->in_flight) / 2 : 0);
		if (more)
			left = min(left, (long)msecs_to_jiffies(DCBM_REFILL_MS));
		wait_event_timeout(job->wait, atomic_read(&job->in_flight) <=
					      job->wake_at, left);
	}
}

static int dcbm_submit(struct migrator *migrator,
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

static void dcbm_wait(struct migrator *migrator,
		      struct migrate_offload_batch *batch)
{
	struct dcbm_job *job = batch->migrator_data;
	struct dcbm_lane *lane;
	unsigned int i;

	run_job(job);
	/* Bytes may reach dst only in the unmap: report afterwards. */
	list_for_each_entry(lane, &job->lanes, node)
		if (!lane->lost)
			unmap_lane(lane);
	for (i = 0; i < batch->nr_pairs; i++)
		migrate_offload_report(&batch->pairs[i],
				       dcbm_item_status(job, i));
	dcbm_put_job(job);
}

static struct migrator dcbm_migrator = {
	.name		= "dcbm",
	/* The CPU copies a smaller batch before an engine has begun. */
	.min_pages	= 16,
	/* A model of PTDMA moves 4 KB more slowly than the CPU, and 16 KB faster. */
	.min_order	= 2,
	.submit		= dcbm_submit,
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
