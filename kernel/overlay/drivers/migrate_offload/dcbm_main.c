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

/* Longest time a channel may idle while others keep their rings full. */
#define DCBM_REFILL_MS		10

/* If prep refuses this length, the length is not the reason. */
#define DCBM_MIN_LEN		SZ_4K
#define DCBM_MAX_STALLS		16

/*
 * A callback gets a token, which stands for one descriptor and is never used
 * again. So a second or late call of a callback has no effect on the
 * descriptor that has the slot now, even if the channel is gone.
 */
static void complete_token(void *param, const struct dmaengine_result *result)
{
	unsigned long token = (unsigned long)param;
	struct dcbm_chan *dch;
	struct dcbm_slot *slot;
	struct dcbm_job *job;
	bool wake;

	/* A channel and a job are freed only after a grace period. */
	guard(rcu)();

	dch = rcu_dereference(dcbm_by_id[token / DCBM_MAX_SLOTS % DCBM_MAX_CHANS]);
	if (!dch)
		return;
	slot = &dch->slots[token % DCBM_MAX_SLOTS];

	/*
	 * Disable preemption so that stop_job() never waits for a task preempted
	 * between the cmpxchg() and the last atomic_dec().
	 */
	scoped_guard(preempt) {
		if (cmpxchg(&slot->token, token, 0) != token)
			return;

		slot->error = result->result != DMA_TRANS_NOERROR ||
			      result->residue;
		job = READ_ONCE(dch->job);
		wake = atomic_dec_return(&job->in_flight) <= READ_ONCE(job->wake_at);
		/* Afterwards other descriptors may use the slot, channel and job. */
		atomic_dec_return_release(&dch->in_flight);
	}
	if (wake)
		wake_up(&job->wait);
}

/* Fill the next entries of the tables of the job with the share of a channel. */
static void fill_tables(struct dcbm_chan *dch)
{
	struct dcbm_job *job = dch->job;
	size_t offset = dch->range.offset, left = dch->range.len;
	struct migrate_offload_pair *pair = &job->batch->pairs[dch->range.first];
	size_t len;

	dch->src = (struct sg_table){ .sgl = &job->src_sg[job->nents] };
	dch->dst = (struct sg_table){ .sgl = &job->dst_sg[job->nents] };
	for (; left; left -= len, offset = 0, pair++) {
		len = min(folio_size(pair->src) - offset, left);
		dcbm_add_entry(&dch->src, pair->src, len, offset);
		dcbm_add_entry(&dch->dst, pair->dst, len, offset);
	}
	sg_mark_end(&dch->src.sgl[dch->src.orig_nents - 1]);
	sg_mark_end(&dch->dst.sgl[dch->dst.orig_nents - 1]);
	job->nents += max(dch->src.orig_nents, dch->dst.orig_nents);
}

/* On failure the channel gets no work, and its folios are not copied. */
static void map_chan(struct dcbm_chan *dch)
{
	dch->walk.rest.len = 0;
	dch->mapped = false;
	if (!dch->range.len)
		return;

	fill_tables(dch);
	if (dma_map_sgtable(dch->dev, &dch->src, DMA_TO_DEVICE, 0))
		return;
	if (dma_map_sgtable(dch->dev, &dch->dst, DMA_FROM_DEVICE, 0)) {
		dma_unmap_sgtable(dch->dev, &dch->src, DMA_TO_DEVICE, 0);
		return;
	}

	dch->mapped = true;
	dch->stalls = 0;
	dch->max_len = DCBM_MAX_MERGED;
	dcbm_walk_init(&dch->walk, &dch->range, &dch->src, &dch->dst);
}

static void unmap_chan(struct dcbm_chan *dch)
{
	if (!dch->mapped || !dma_need_unmap(dch->dev))
		return;

	dma_unmap_sgtable(dch->dev, &dch->src, DMA_TO_DEVICE, 0);
	dma_unmap_sgtable(dch->dev, &dch->dst, DMA_FROM_DEVICE, 0);
}

/* Descriptors that ever had a slot of a channel with this id. */
static unsigned long dcbm_uses[DCBM_MAX_CHANS];

/* No callback of the descriptor accesses the job, except one that has begun. */
static void drop(struct dcbm_chan *dch, struct dcbm_slot *slot)
{
	if (!xchg(&slot->token, 0))
		return;
	slot->error = true;
	atomic_dec(&dch->job->in_flight);
	atomic_dec(&dch->in_flight);
}

static void submit(struct dcbm_chan *dch, struct dma_async_tx_descriptor *tx,
		   const struct dcbm_range *range)
{
	struct dcbm_slot *slot = &dch->slots[dch->nr_used++];
	struct dcbm_job *job = dch->job;
	unsigned long token;

	token = (++dcbm_uses[dch->id] * DCBM_MAX_CHANS + dch->id) * DCBM_MAX_SLOTS +
		(slot - dch->slots);
	slot->range = *range;
	/* Set all three: some drivers keep the callbacks of an earlier use. */
	tx->callback = NULL;
	tx->callback_result = complete_token;
	tx->callback_param = (void *)token;

	/* The descriptor may complete before dmaengine_submit() returns. */
	atomic_inc(&job->in_flight);
	atomic_inc(&dch->in_flight);
	/* A completion that sees the token also sees the slot and the counts. */
	smp_store_release(&slot->token, token);
	slot->cookie = dmaengine_submit(tx);

	/* On an error the driver took the descriptor back and copies nothing. */
	if (dma_submit_error(slot->cookie))
		drop(dch, slot);
}

/*
 * Prep refused a descriptor. If others are in flight, the ring is full. If none is,
 * the length may be the reason: return true to try a shorter one.
 */
static bool refused(struct dcbm_chan *dch, size_t len, unsigned int in_flight)
{
	if (in_flight)
		return false;
	if (len > DCBM_MIN_LEN) {
		/* A power of two is aligned for any engine. */
		dch->max_len = max(rounddown_pow_of_two(len - 1), DCBM_MIN_LEN);
		return true;
	}
	/* Wait for a moment, and in the end leave the rest of the share to the CPU. */
	if (++dch->stalls > DCBM_MAX_STALLS)
		dch->walk.rest.len = 0;
	return false;
}

/* Submit the next segment, or as much of it as the provider takes. */
static bool push_segment(struct dcbm_chan *dch)
{
	struct dcbm_segment next = dcbm_walk_peek(&dch->walk, dch->max_len);
	/* Before prep: meanwhile others may complete, and leave the ring. */
	const unsigned int in_flight = atomic_read(&dch->in_flight);
	struct dma_async_tx_descriptor *tx;

	tx = dmaengine_prep_dma_memcpy(dch->chan, next.dst, next.src,
				       next.range.len,
				       DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!tx)
		return refused(dch, next.range.len, in_flight);

	dch->stalls = 0;
	dcbm_walk_advance(&dch->walk, dch->job, next.range.len);
	submit(dch, tx, &next.range);
	return true;
}

/* Submit segments until none are left or the ring is full. */
static void push_chan(struct dcbm_chan *dch)
{
	bool pushed = false;

	while (dch->walk.rest.len && dch->nr_used < DCBM_MAX_SLOTS &&
	       push_segment(dch))
		pushed = true;

	if (pushed)
		dma_async_issue_pending(dch->chan);
}

/* The engine may go on, and write to the folios of the channel: they are lost. */
static void lose_chan(struct dcbm_chan *dch)
{
	unsigned int i;

	dch->walk.rest.len = 0;
	dch->lost = true;
	dcbm_lose(dch->job, dch->range);
	pr_warn("%s timed out: channel never used again, %zu bytes lost\n",
		dch->name, dch->range.len);

	for (i = 0; i < dch->nr_used; i++)
		drop(dch, &dch->slots[i]);
}

/*
 * Judge the completions of a channel that has nothing in flight: a request
 * for a status disturbs copies of some providers.
 */
static void judge_chan(struct dcbm_chan *dch)
{
	unsigned int i;

	for (i = 0; i < dch->nr_used; i++) {
		struct dcbm_slot *slot = &dch->slots[i];
		enum dma_status status = DMA_ERROR;

		if (!dch->lost && !slot->error && !dma_submit_error(slot->cookie))
			status = dma_async_is_tx_complete(dch->chan, slot->cookie, NULL, NULL);
		/*
		 * A call that came early says nothing: the engine may still write. Some
		 * providers report an error in the status and nowhere else.
		 */
		if (status == DMA_IN_PROGRESS)
			lose_chan(dch);
		else if (status != DMA_ERROR)
			dcbm_account(dch->job, slot->range);
	}
	dch->nr_used = 0;
}

/* Stop only channels with descriptors in flight: completions in time count. */
static void stop_job(struct dcbm_job *job)
{
	struct dcbm_chan *dch;

	job->timed_out = true;
	list_for_each_entry(dch, &job->chans, node) {
		dch->walk.rest.len = 0;
		if (atomic_read(&dch->in_flight))
			lose_chan(dch);
		/*
		 * Wait for callbacks that have already taken a slot. They run
		 * with preemption disabled and count within a few instructions.
		 */
		while (atomic_read_acquire(&dch->in_flight))
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
		judge_chan(dch);
	}
}

static void start_job(struct dcbm_job *job)
{
	const struct migrate_offload_batch *batch = job->batch;
	unsigned int i, n = list_count_nodes(&job->chans);
	struct dcbm_range rest = { };
	struct dcbm_chan *dch;

	job->timed_out = false;
	job->wake_at = 0;
	job->nents = 0;
	atomic_set(&job->in_flight, 0);
	bitmap_zero(job->lost, MIGRATE_OFFLOAD_MAX_PAIRS);
	for (i = 0; i < batch->nr_pairs; i++) {
		job->left[i] = folio_size(batch->pairs[i].src);
		rest.len += job->left[i];
	}

	list_for_each_entry(dch, &job->chans, node) {
		dcbm_share(job, &rest, n--, &dch->range);
		map_chan(dch);
		push_chan(dch);
	}
}

/*
 * Judge completed descriptors, and refill rings. Set @more if something is left to
 * submit, and @busy if something is in flight or not yet judged.
 */
static void advance_job(struct dcbm_job *job, bool *more, bool *busy)
{
	struct dcbm_chan *dch;

	*more = false;
	*busy = false;
	list_for_each_entry(dch, &job->chans, node) {
		if (!atomic_read_acquire(&dch->in_flight))
			judge_chan(dch);
		if (dch->walk.rest.len)
			push_chan(dch);
		*more |= dch->walk.rest.len;
		*busy |= dch->nr_used;
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
	struct dcbm_chan *dch;
	unsigned int i;

	run_job(job);
	/* Bytes may reach dst only in the unmap: report afterwards. */
	list_for_each_entry(dch, &job->chans, node)
		if (!dch->lost)
			unmap_chan(dch);
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
