/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dcbm's scatterlist walk and accounting, for dcbm.c and its tests.
 */
#ifndef __DCBM_H
#define __DCBM_H

#include <linux/dmaengine.h>
#include <linux/llist.h>
#include <linux/migrate_copy_offload.h>
#include <linux/scatterlist.h>
#include <linux/wait.h>

struct dcbm_lane;

/* A piece of one folio that is contiguous for the engine on both sides. */
struct dcbm_segment {
	dma_addr_t src;
	dma_addr_t dst;
	size_t len;
	unsigned int pair;
};

/* One side of a walk: what is left of the mapped scatterlist. */
struct dcbm_side {
	struct scatterlist *sg;
	unsigned int nents;
	size_t offset;
};

/*
 * A walk over the two mapped scatterlists of a range of pairs. An IOMMU may
 * have merged neighbours on one side and not on the other: an entry may hold
 * many folios, and a folio may be spread over many entries.
 */
struct dcbm_walk {
	struct dcbm_side src;
	struct dcbm_side dst;
	const struct migrate_copy_pair *pairs;
	unsigned int pair;
	unsigned int end;
	size_t offset;
};

/* One descriptor in flight. */
struct dcbm_slot {
	struct llist_node node;
	struct dcbm_lane *lane;
	s32 cookie;
	size_t len;
	unsigned int pair;
	unsigned int in_flight;		/* exchanged by a completion */
	bool error;
};

/*
 * One batch. Only the task that submitted it looks at a job, except for what a
 * completion touches: @completed, @in_flight, @wake_at and @wait.
 */
struct dcbm_job {
	struct migrate_copy_batch *batch;
	struct list_head lanes;
	unsigned long deadline;		/* in jiffies */

	struct llist_head completed;	/* slots, not yet accounted for */
	atomic_t in_flight;		/* slots, not yet in @completed */
	int wake_at;
	wait_queue_head_t wait;

	/* Bytes of each pair that no completion has vouched for. */
	size_t left[MIGRATE_COPY_MAX_PAIRS];
};

/*
 * A channel with all that a batch needs of it, set aside at load. It belongs to
 * one job at a time, so that terminating it stops nobody else.
 */
struct dcbm_lane {
	struct list_head node;		/* in the list of free lanes, or a job's */
	struct dma_chan *chan;
	struct dcbm_job *job;

	unsigned int first, end;	/* range of pairs, end excluded */
	bool mapped;
	bool timed_out;
	bool quarantined;
	struct scatterlist src_sg[MIGRATE_COPY_MAX_PAIRS];
	struct scatterlist dst_sg[MIGRATE_COPY_MAX_PAIRS];

	struct dcbm_walk walk;
	struct dcbm_segment next;	/* valid if @more */
	bool more;
	unsigned int stalls;		/* preps refused with nothing in flight */

	unsigned int nr_free;
	struct dcbm_slot *free[MIGRATE_COPY_MAX_PAIRS];
	struct dcbm_slot slots[MIGRATE_COPY_MAX_PAIRS];

	struct dcbm_job own_job;	/* in use if this is a job's first lane */
};

#if IS_ENABLED(CONFIG_KUNIT)
void dcbm_walk_init(struct dcbm_walk *walk,
		    const struct migrate_copy_pair *pairs, unsigned int first,
		    unsigned int end, struct scatterlist *src_sg,
		    unsigned int src_nents, struct scatterlist *dst_sg,
		    unsigned int dst_nents);
bool dcbm_walk_next(struct dcbm_walk *walk, struct dcbm_segment *segment);
unsigned int dcbm_share(const struct migrate_copy_batch *batch,
			unsigned int first, unsigned int nr_lanes,
			unsigned long *nr_pages);
bool dcbm_completed(struct dcbm_slot *slot, enum dma_status status);
void dcbm_account(struct dcbm_job *job, struct dcbm_slot *slot);
enum migrate_copy_status dcbm_pair_status(const struct dcbm_job *job,
					  const struct dcbm_lane *lane,
					  unsigned int pair);
#endif

#endif /* __DCBM_H */
