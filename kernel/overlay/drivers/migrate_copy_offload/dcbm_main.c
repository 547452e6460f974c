// SPDX-License-Identifier: GPL-2.0
/*
 * dcbm: copy the folios of a migration batch with a DMA engine, over several
 * channels.
 *
 * dcbm divides the bytes of a batch among as many free channels as are worth
 * using: it cuts large folios and groups small ones. Channels that start earlier
 * get more, so that all finish at about the same time; see dcbm_share(). A
 * channel copies its share with one descriptor if the provider takes
 * scatterlists, otherwise with one for each segment; segments that do not fit
 * into the ring wait for completions.
 *
 * A folio counts as copied if completions without an error cover each of its
 * bytes; engines may complete in any order. After a time-out dcbm terminates the
 * channel before it unmaps anything. If the channel does not terminate, or is
 * shared with other clients, dcbm quarantines it: dcbm never uses the channel or
 * undoes its mappings again, and the folios of its share are lost. A leak is
 * safe, a stray write is not.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/list.h>
#include <linux/migrate_copy_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

#include "dcbm.h"

/*
 * A ring without descriptors of ours has room, but the driver may need a moment
 * to recycle the last ones.
 */
#define DCBM_MAX_STALLS		16
#define DCBM_STALL_US		100

/* Longest time a lane may idle while others keep their rings full. */
#define DCBM_REFILL_MS		10

static unsigned int batch_pages;
module_param(batch_pages, uint, 0644);
MODULE_PARM_DESC(batch_pages, "Base pages to ask core to migrate together; a larger batch keeps more channels busy, and memory inaccessible for longer (default: 0 = chosen by core)");

/* Average number of bytes a channel copies before the next one starts. */
static size_t usual_lead;

static bool lists = true;
module_param(lists, bool, 0644);
MODULE_PARM_DESC(lists, "Use one descriptor for a channel's whole share of a batch if the provider takes scatterlists (default: Y)");

/*
 * A callback gets a token, which stands for one descriptor and is never used
 * again. A call that comes twice, or late, therefore says nothing about the
 * descriptor that has the slot now, even if the lane is gone.
 */
static unsigned long new_token(struct dcbm_lane *lane,
			       const struct dcbm_slot *slot)
{
	return (++lane->uses * DCBM_MAX_LANES + lane->id) *
	       ARRAY_SIZE(lane->slots) + (slot - lane->slots);
}

static struct dcbm_lane *lane_of_token(unsigned long token)
{
	unsigned int id = token / DCBM_MAX_ENTRIES % DCBM_MAX_LANES;

	return rcu_dereference(dcbm_by_id[id]);
}

/* Called in any context. Afterwards the slot belongs to the task that has the job. */
static void complete_token(unsigned long token, bool error)
{
	struct dcbm_lane *lane;
	struct dcbm_slot *slot;
	struct dcbm_job *job;
	bool wake;

	/* A lane is freed only after a grace period. */
	guard(rcu)();

	lane = lane_of_token(token);
	if (!lane)
		return;
	slot = &lane->slots[token % ARRAY_SIZE(lane->slots)];

	/*
	 * Disable preemption so that settle() never waits for a task preempted
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

static void dcbm_callback(void *param)
{
	complete_token((unsigned long)param, false);
}

static void dcbm_callback_result(void *param,
				 const struct dmaengine_result *result)
{
	complete_token((unsigned long)param,
		       result && (result->result != DMA_TRANS_NOERROR ||
				  result->residue));
}

/* A bounce buffer would make two copies of one: treat it as unreachable. */
static bool reachable(const struct dcbm_lane *lane, struct folio *folio)
{
	return dcbm_reaches(phys_to_dma(lane->dev, PFN_PHYS(folio_pfn(folio))),
			    folio_size(folio), lane->reach);
}

static bool reachable_by_all(const struct dcbm_job *job,
			     const struct migrate_copy_pair *pair)
{
	struct dcbm_lane *lane;

	list_for_each_entry(lane, &job->lanes, node)
		if (lane->limited && (!reachable(lane, pair->src) ||
				      !reachable(lane, pair->dst)))
			return false;

	return true;
}

/* Collect the folios that all lanes can reach. Return their size in bytes. */
static size_t gather(struct dcbm_job *job)
{
	struct migrate_copy_batch *batch = job->batch;
	bool limited = false;
	struct dcbm_lane *lane;
	unsigned int i, nr = 0;
	size_t bytes = 0;

	list_for_each_entry(lane, &job->lanes, node)
		limited |= lane->limited;

	for (i = 0; i < batch->nr_pairs; i++) {
		struct migrate_copy_pair *pair = &batch->pairs[i];
		size_t size = folio_size(pair->src);

		if (limited && !reachable_by_all(job, pair)) {
			migrate_offload_report(pair, MIGRATE_COPY_UNREACHABLE);
			continue;
		}
		job->pair[nr] = i;
		job->left[nr] = size;
		bytes += size;
		nr++;
	}
	job->nr = nr;

	return bytes;
}

/* The tables are never reallocated: only the end markers move. */
static void fill_tables(struct dcbm_lane *lane)
{
	const struct dcbm_job *job = lane->job;
	size_t offset = lane->range.offset, left = lane->range.len;
	unsigned int item = lane->range.first, nr = 0;

	if (lane->nents) {
		sg_unmark_end(&lane->src_sg[lane->nents - 1]);
		sg_unmark_end(&lane->dst_sg[lane->nents - 1]);
	}

	while (left) {
		struct folio *src = dcbm_src(job, item);
		size_t len = min(folio_size(src) - offset, left);

		sg_set_folio(&lane->src_sg[nr], src, len, offset);
		sg_set_folio(&lane->dst_sg[nr], dcbm_dst(job, item), len,
			     offset);
		left -= len;
		offset = 0;
		item++;
		nr++;
	}

	sg_mark_end(&lane->src_sg[nr - 1]);
	sg_mark_end(&lane->dst_sg[nr - 1]);
	lane->nents = nr;
}

static bool map_folio(struct dcbm_lane *lane, struct folio *folio,
		      enum dma_data_direction dir, dma_addr_t *addr)
{
	*addr = dma_map_phys(lane->dev, PFN_PHYS(folio_pfn(folio)),
			     folio_size(folio), dir, 0);
	return !dma_mapping_error(lane->dev, *addr);
}

static bool map_both(struct dcbm_lane *lane, struct folio *src,
		     struct folio *dst)
{
	if (!map_folio(lane, src, DMA_TO_DEVICE, &lane->src))
		return false;
	if (map_folio(lane, dst, DMA_FROM_DEVICE, &lane->dst))
		return true;

	dma_unmap_phys(lane->dev, lane->src, folio_size(src), DMA_TO_DEVICE, 0);
	return false;
}

/* Return true if the lane started before @lane has mapped the same folio. */
static bool may_borrow(const struct dcbm_lane *lane)
{
	const struct dcbm_lane *before = list_prev_entry(lane, node);

	return !list_is_first(&lane->node, &lane->job->lanes) &&
	       before->mapped && before->single && before->dev == lane->dev &&
	       before->range.first == lane->range.first;
}

/*
 * Lanes that copy parts of one folio need no tables and share one mapping. It
 * belongs to the first of them, and is never unmapped if the folio is lost.
 */
static void map_single(struct dcbm_lane *lane)
{
	const struct dcbm_job *job = lane->job;
	const struct dcbm_range *range = &lane->range;

	lane->borrowed = may_borrow(lane);
	if (lane->borrowed) {
		lane->src = list_prev_entry(lane, node)->src;
		lane->dst = list_prev_entry(lane, node)->dst;
	} else if (!map_both(lane, dcbm_src(job, range->first),
			     dcbm_dst(job, range->first))) {
		return;
	}

	lane->mapped = true;
	lane->use_sg = false;
	lane->next = (struct dcbm_segment){
		.src = lane->src + range->offset,
		.dst = lane->dst + range->offset,
		.len = range->len,
		.item = range->first,
		.offset = range->offset,
	};
	lane->more = true;
	lane->walk.left = 0;
}

static void unmap_single(struct dcbm_lane *lane)
{
	const struct dcbm_job *job = lane->job;
	const unsigned int item = lane->range.first;
	size_t size = folio_size(dcbm_src(job, item));

	if (lane->borrowed || test_bit(item, job->lost))
		return;

	dma_unmap_phys(lane->dev, lane->src, size, DMA_TO_DEVICE, 0);
	dma_unmap_phys(lane->dev, lane->dst, size, DMA_FROM_DEVICE, 0);
}

static void map_tables(struct dcbm_lane *lane)
{
	int src_nents, dst_nents;

	fill_tables(lane);
	src_nents = dma_map_sg(lane->dev, lane->src_sg, lane->nents,
			       DMA_TO_DEVICE);
	if (!src_nents)
		return;

	dst_nents = dma_map_sg(lane->dev, lane->dst_sg, lane->nents,
			       DMA_FROM_DEVICE);
	if (!dst_nents) {
		dma_unmap_sg(lane->dev, lane->src_sg, lane->nents,
			     DMA_TO_DEVICE);
		return;
	}

	lane->mapped = true;
	lane->src_nents = src_nents;
	lane->dst_nents = dst_nents;
	lane->use_sg = lane->offers_sg && READ_ONCE(lists);
	dcbm_walk_init(&lane->walk, lane->job, &lane->range, lane->src_sg,
		       src_nents, lane->dst_sg, dst_nents);
	lane->more = dcbm_walk_next(&lane->walk, &lane->next);
}

/* On failure the lane gets no work, and its folios are not copied. */
static void map_lane(struct dcbm_lane *lane)
{
	const struct dcbm_range *range = &lane->range;

	lane->more = false;
	lane->mapped = false;
	if (!range->len)
		return;

	lane->single = range->len <= folio_size(dcbm_src(lane->job, range->first)) -
				     range->offset;
	if (lane->single)
		map_single(lane);
	else
		map_tables(lane);
}

static void unmap_lane(struct dcbm_lane *lane)
{
	if (!lane->mapped)
		return;

	lane->mapped = false;
	if (!dma_need_unmap(lane->dev))
		return;

	if (lane->single) {
		unmap_single(lane);
		return;
	}
	dma_unmap_sg(lane->dev, lane->src_sg, lane->nents, DMA_TO_DEVICE);
	dma_unmap_sg(lane->dev, lane->dst_sg, lane->nents, DMA_FROM_DEVICE);
}

static bool lane_idle(const struct dcbm_lane *lane)
{
	return lane->nr_free == ARRAY_SIZE(lane->slots);
}

/* Skip the remaining segments of the next segment's folio. */
static void skip_folio(struct dcbm_lane *lane)
{
	const unsigned int item = lane->next.item;

	while (lane->more && lane->next.item == item)
		lane->more = dcbm_walk_next(&lane->walk, &lane->next);
}

/* Return true if the channel accepted the descriptor. */
static bool submit(struct dcbm_lane *lane, struct dma_async_tx_descriptor *tx,
		   const struct dcbm_range *range)
{
	struct dcbm_slot *slot = lane->free[--lane->nr_free];
	unsigned long token = new_token(lane, slot);
	struct dcbm_job *job = lane->job;

	slot->range = *range;
	/* Set all three: some drivers keep the callbacks of an earlier use. */
	tx->callback = dcbm_callback;
	tx->callback_result = dcbm_callback_result;
	tx->callback_param = (void *)token;

	/* The descriptor may complete before dmaengine_submit() returns. */
	atomic_inc(&job->in_flight);
	/* A completion that sees the token also sees the slot and the count. */
	smp_store_release(&slot->token, token);
	slot->cookie = dmaengine_submit(tx);
	lane->stalls = 0;
	if (!dma_submit_error(slot->cookie)) {
		lane->descriptors++;
		return true;
	}

	/* The driver took the descriptor back and copies nothing. */
	if (xchg(&slot->token, 0)) {
		atomic_dec(&job->in_flight);
		lane->free[lane->nr_free++] = slot;
	}
	return false;
}

/* Submit the whole share as one list. On failure the caller submits segments. */
static bool push_list(struct dcbm_lane *lane)
{
	struct dma_async_tx_descriptor *tx;

	lane->use_sg = false;
	tx = dmaengine_prep_dma_memcpy_sg(lane->chan,
					  lane->dst_sg, lane->dst_nents,
					  lane->src_sg, lane->src_nents,
					  DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!tx)
		return false;

	lane->more = false;
	lane->lists++;
	return submit(lane, tx, &lane->range);
}

/* Submit segments until none are left or the ring is full. */
static void push_lane(struct dcbm_lane *lane)
{
	bool pushed = false;

	if (lane->more && lane->use_sg)
		pushed = push_list(lane);

	while (lane->more && lane->nr_free) {
		const struct dcbm_range range = {
			lane->next.item, lane->next.offset, lane->next.len
		};
		struct dma_async_tx_descriptor *tx;

		tx = dmaengine_prep_dma_memcpy(lane->chan, lane->next.dst,
					       lane->next.src, lane->next.len,
					       DMA_PREP_INTERRUPT |
					       DMA_CTRL_ACK);
		if (!tx) {
			if (!lane_idle(lane) ||
			    ++lane->stalls <= DCBM_MAX_STALLS)
				break;
			/* The ring is not the cause: leave this folio to the CPU. */
			skip_folio(lane);
			continue;
		}

		pushed |= submit(lane, tx, &range);
		lane->more = dcbm_walk_next(&lane->walk, &lane->next);
	}

	if (pushed)
		dma_async_issue_pending(lane->chan);
}

static enum dma_status slot_status(const struct dcbm_slot *slot)
{
	if (dma_submit_error(slot->cookie))
		return DMA_ERROR;
	return dma_async_is_tx_complete(slot->lane->chan, slot->cookie, NULL,
					NULL);
}

static bool lane_in_flight(const struct dcbm_lane *lane)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lane->slots); i++)
		if (READ_ONCE(lane->slots[i].token))
			return true;

	return false;
}

/*
 * Without device_synchronize() nothing tells when a terminated channel has
 * stopped and its callbacks have ended. Terminating a public channel would drop
 * the descriptors of its other clients.
 */
static int terminate(struct dcbm_lane *lane)
{
	if (lane->shared)
		return -EBUSY;
	if (!lane->chan->device->device_synchronize)
		return -EOPNOTSUPP;

	lane->terminated = true;
	return dmaengine_terminate_sync(lane->chan);
}

/*
 * After this the channel does not access the lane's folios, or it is
 * quarantined. No callback accesses the job, except one that has already begun.
 */
static void stop_lane(struct dcbm_lane *lane)
{
	unsigned int i;
	int error;

	lane->more = false;
	lane->timeouts++;
	error = terminate(lane);
	if (error) {
		lane->quarantined = true;
		dcbm_lose(lane->job, &lane->range);
		pr_warn("%s does not terminate (%d): channel quarantined, %u folios lost\n",
			lane->name, error, lane->single ? 1 : lane->nents);
	}

	for (i = 0; i < ARRAY_SIZE(lane->slots); i++) {
		struct dcbm_slot *slot = &lane->slots[i];

		if (xchg(&slot->token, 0)) {
			atomic_dec(&lane->job->in_flight);
			lane->free[lane->nr_free++] = slot;
		}
	}
}

static void reap_slot(struct dcbm_job *job, struct dcbm_slot *slot)
{
	struct dcbm_lane *lane = slot->lane;

	/* A driver that calls back early: the engine may still write. */
	if (!dcbm_judge(slot, slot_status(slot)))
		stop_lane(lane);

	dcbm_account(job, slot);
	if (slot->error)
		lane->errors++;
	else
		lane->bytes += slot->range.len;
	lane->free[lane->nr_free++] = slot;
}

/* Drain the list: the next job must not find slots of this one. */
static void reap(struct dcbm_job *job)
{
	struct llist_node *completed;
	struct dcbm_slot *slot, *next;

	while ((completed = llist_del_all(&job->completed)))
		llist_for_each_entry_safe(slot, next, completed, node)
			reap_slot(job, slot);
}

/* Shared lanes cannot be terminated: give them the time-out once more. */
static void wait_for_shared(struct dcbm_job *job)
{
	unsigned long end = jiffies + dcbm_timeout(0);
	struct dcbm_lane *lane;

	list_for_each_entry(lane, &job->lanes, node) {
		lane->more = false;
		while (lane->shared && lane_in_flight(lane) &&
		       time_before(jiffies, end))
			usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
	}
	reap(job);
}

/*
 * Wait for callbacks that have already taken a slot. They run with preemption
 * disabled and count within a few instructions. The provider's part of a
 * callback is not waited for.
 */
static void settle(struct dcbm_job *job)
{
	while (atomic_read(&job->in_flight))
		usleep_range(DCBM_STALL_US, 2 * DCBM_STALL_US);
	reap(job);
}

static void stop_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane;

	job->timed_out = true;
	wait_for_shared(job);
	/* Stop only lanes with something in flight: what completed in time counts. */
	list_for_each_entry(lane, &job->lanes, node)
		if (lane_in_flight(lane))
			stop_lane(lane);
	settle(job);
}

/**
 * dcbm_init_job() - initialise a newly allocated job
 * @job: the job
 */
void dcbm_init_job(struct dcbm_job *job)
{
	INIT_LIST_HEAD(&job->node);
	INIT_LIST_HEAD(&job->lanes);
	init_llist_head(&job->completed);
	init_waitqueue_head(&job->wait);
}

static void start_job(struct dcbm_job *job, struct migrate_copy_batch *batch)
{
	struct dcbm_range rest = { };
	struct dcbm_lane *lane;
	unsigned int n;
	size_t lead;

	batch->migrator_data = job;
	job->batch = batch;
	job->timed_out = false;
	job->wake_at = 0;
	atomic_set(&job->in_flight, 0);
	bitmap_zero(job->lost, MIGRATE_COPY_MAX_PAIRS);
	job->deadline = jiffies + dcbm_timeout(batch->nr_pages * PAGE_SIZE);

	rest.len = gather(job);
	n = list_count_nodes(&job->lanes);
	lead = job->whole ? 0 : READ_ONCE(usual_lead);
	job->begun = ktime_get();
	list_for_each_entry(lane, &job->lanes, node) {
		dcbm_share(job, &rest, n--, lead, &lane->range);
		lane->terminated = false;
		lane->stalls = 0;
		map_lane(lane);
		push_lane(lane);
	}
	job->started = ktime_get();
}

/*
 * Update usual_lead from a job that kept several channels busy. The moving
 * average assumes that consecutive batches are alike, and adapts quickly when
 * they are not.
 */
static void learn(struct dcbm_job *job)
{
	const unsigned int n = list_count_nodes(&job->lanes);
	u64 start_ns, copy_ns;
	size_t lead, usual;

	if (n < 2 || job->timed_out || job->whole)
		return;

	start_ns = ktime_to_ns(ktime_sub(job->started, job->begun));
	copy_ns = ktime_to_ns(ktime_sub(ktime_get(), job->started));
	lead = dcbm_lead(div_u64(start_ns, n), copy_ns,
			 job->batch->nr_pages * PAGE_SIZE, n);
	usual = READ_ONCE(usual_lead);
	WRITE_ONCE(usual_lead, usual ? (3 * usual + lead) / 4 : lead);
}

static void finish_job(struct dcbm_job *job)
{
	struct dcbm_lane *lane;
	unsigned int i;

	for (;;) {
		bool more = false, busy = false;
		long left;

		reap(job);
		list_for_each_entry(lane, &job->lanes, node) {
			if (lane->more)
				push_lane(lane);
			more |= lane->more;
			busy |= !lane_idle(lane);
		}
		/* A callback that has not counted yet must not count for the next job. */
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

		/* Wake up to refill half-empty rings; otherwise wait for all slots. */
		WRITE_ONCE(job->wake_at,
			   more ? atomic_read(&job->in_flight) / 2 : 0);
		if (more)
			left = min(left, (long)msecs_to_jiffies(DCBM_REFILL_MS));
		wait_event_timeout(job->wait, atomic_read(&job->in_flight) <=
					      job->wake_at, left);
	}

	learn(job);

	/* Bytes may reach dst only in the unmap (bounce buffers): report afterwards. */
	list_for_each_entry(lane, &job->lanes, node)
		if (!lane->quarantined)
			unmap_lane(lane);
	for (i = 0; i < job->nr; i++)
		migrate_offload_report(&job->batch->pairs[job->pair[i]],
				       dcbm_item_status(job, i));
	dcbm_put_job(job);
}

static int dcbm_submit(struct migrator *migrator,
		       struct migrate_copy_batch *batch)
{
	struct dcbm_job *job;

	job = dcbm_get_job(batch);
	if (!job)
		return -EBUSY;

	start_job(job, batch);
	return 0;
}

static void dcbm_wait(struct migrator *migrator,
		      struct migrate_copy_batch *batch)
{
	finish_job(batch->migrator_data);
}

/**
 * dcbm_run_on_lane() - copy a batch with one channel
 * @lane: a channel that is not on the free list and stays off it meanwhile
 * @batch: the batch; every pair is reported on return
 *
 * Return: 0, or -EBUSY if no job is free
 */
int dcbm_run_on_lane(struct dcbm_lane *lane, struct migrate_copy_batch *batch)
{
	struct dcbm_job *job = dcbm_get_job_on(lane);

	if (!job)
		return -EBUSY;

	start_job(job, batch);
	finish_job(job);
	return 0;
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

static int __init dcbm_init(void)
{
	int error = dcbm_channels_init();

	if (error)
		return error;

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
	/* No lane is quarantined: core pins the module of a migrator with lost pairs. */
	migrate_offload_unregister(&dcbm_migrator);
	dcbm_channels_exit();
}
module_exit(dcbm_exit);

MODULE_DESCRIPTION("DMA engine batch migrator: copy offload for page migration");
MODULE_LICENSE("GPL");
