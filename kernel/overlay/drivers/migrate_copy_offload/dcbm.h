/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the three parts of dcbm: jobs (dcbm_main.c), channels
 * (dcbm_channels.c), and the arithmetic of shares, segments and completions
 * (dcbm_share.c).
 */
#ifndef __DCBM_H
#define __DCBM_H

#include <linux/bitmap.h>
#include <linux/dmaengine.h>
#include <linux/llist.h>
#include <linux/migrate_copy_offload.h>
#include <linux/notifier.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/wait.h>

/* More channels than any in-tree engine offers to one client. */
#define DCBM_MAX_LANES		64

/* Batches in flight at a time; the CPU copies further ones. */
#define DCBM_MAX_JOBS		16

/* A range has at most one entry for each pair of a batch. */
#define DCBM_MAX_ENTRIES	MIGRATE_COPY_MAX_PAIRS

struct dcbm_lane;

/* A part of one folio that is contiguous in DMA addresses on both sides. */
struct dcbm_segment {
	dma_addr_t src;
	dma_addr_t dst;
	size_t len;
	unsigned int item;
	size_t offset;			/* within the folio */
};

/* Consecutive bytes of a job, starting at @offset in folio @first. */
struct dcbm_range {
	unsigned int first;
	size_t offset;
	size_t len;
};

/* One side of a walk: the unread rest of the mapped scatterlist. */
struct dcbm_side {
	struct scatterlist *sg;
	unsigned int nents;
	size_t offset;
};

/*
 * A walk over the two mapped scatterlists of a range. An IOMMU may merge
 * neighbours on one side and not on the other: an entry may hold many folios,
 * and a folio may be spread over many entries.
 */
struct dcbm_walk {
	struct dcbm_side src;
	struct dcbm_side dst;
	const struct dcbm_job *job;
	unsigned int item;
	size_t offset;
	size_t left;
};

/* One descriptor in flight and the bytes it copies. */
struct dcbm_slot {
	struct llist_node node;
	struct dcbm_lane *lane;
	s32 cookie;
	struct dcbm_range range;
	unsigned long token;	/* of its descriptor in flight; its completion leaves 0 */
	bool error;
};

/*
 * One batch. Only the task that submitted the batch accesses its job, except
 * that completions access @completed, @in_flight, @wake_at and @wait.
 */
struct dcbm_job {
	struct migrate_copy_batch *batch;
	struct list_head node;		/* on the list of free jobs */
	struct list_head lanes;
	unsigned long deadline;		/* in jiffies */
	bool timed_out;
	bool whole;			/* do not cut folios */
	ktime_t begun, started;		/* when the first and last channel started */

	struct llist_head completed;	/* slots not yet accounted for */
	atomic_t in_flight;		/* number of slots not yet in @completed */
	int wake_at;
	wait_queue_head_t wait;

	/*
	 * The folios that the engine can reach: the index of each one's pair,
	 * and how many of its bytes no successful completion has covered yet.
	 */
	unsigned int nr;
	u16 pair[MIGRATE_COPY_MAX_PAIRS];
	size_t left[MIGRATE_COPY_MAX_PAIRS];
	/* Folios that a channel may still read or write. */
	DECLARE_BITMAP(lost, MIGRATE_COPY_MAX_PAIRS);
};

/*
 * A channel with everything that a batch needs to use it, allocated when the
 * channel is acquired. A lane belongs to one job at a time, so terminating its
 * channel affects no other job.
 */
struct dcbm_lane {
	struct list_head node;		/* on the list of free lanes, or a job's */
	struct dma_chan *chan;
	struct device *dev;
	struct dcbm_job *job;
	unsigned int id;		/* index in dcbm_by_id[] */
	unsigned long uses;		/* how many descriptors had a slot of this lane */
	char name[24];
	char provider[24];

	bool shared;			/* a public channel: never terminate it */
	bool offers_sg;
	bool retiring;			/* release it when its job is done */
	bool quarantined;
	bool limited;			/* some memory is beyond @reach */
	dma_addr_t reach;		/* last address the engine can access */
	unsigned int segment_bytes;	/* fewest bytes worth a descriptor */

	struct dcbm_range range;
	bool mapped;
	bool single;			/* part of one folio: no tables needed */
	bool borrowed;			/* the mapping belongs to another lane */
	dma_addr_t src, dst;		/* of the whole folio, if @single */
	unsigned int nents;		/* entries of the tables */
	unsigned int src_nents, dst_nents;	/* entries after mapping */
	bool terminated;
	bool use_sg;
	struct scatterlist src_sg[DCBM_MAX_ENTRIES];
	struct scatterlist dst_sg[DCBM_MAX_ENTRIES];

	struct dcbm_walk walk;
	struct dcbm_segment next;	/* next segment to submit, if @more */
	bool more;
	unsigned int stalls;		/* preps that failed with nothing in flight */

	unsigned int nr_free;
	struct dcbm_slot *free[DCBM_MAX_ENTRIES];
	struct dcbm_slot slots[DCBM_MAX_ENTRIES];

	/* Statistics; only the task that has the job writes them. */
	unsigned long descriptors;
	unsigned long lists;
	unsigned long bytes;
	unsigned long errors;
	unsigned long timeouts;
};

/* dcbm_main.c */
void dcbm_init_job(struct dcbm_job *job);
int dcbm_run_on_lane(struct dcbm_lane *lane, struct migrate_copy_batch *batch);

/* dcbm_channels.c */
extern struct dcbm_lane __rcu *dcbm_by_id[DCBM_MAX_LANES];
struct dcbm_job *dcbm_get_job(const struct migrate_copy_batch *batch);
struct dcbm_job *dcbm_get_job_on(struct dcbm_lane *lane);
void dcbm_put_job(struct dcbm_job *job);
int dcbm_channels_init(void);
void dcbm_channels_exit(void);
unsigned long dcbm_timeout(size_t bytes);
#if IS_ENABLED(CONFIG_KUNIT)
int dcbm_reboot_event(struct notifier_block *nb, unsigned long event,
		      void *data);
int dcbm_pm_event(struct notifier_block *nb, unsigned long event, void *data);
#endif

/* dcbm_share.c */
bool dcbm_reaches(dma_addr_t first, size_t size, dma_addr_t reach);
void dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_job *job,
		    const struct dcbm_range *range, struct scatterlist *src_sg,
		    unsigned int src_nents, struct scatterlist *dst_sg,
		    unsigned int dst_nents);
bool dcbm_walk_next(struct dcbm_walk *walk, struct dcbm_segment *segment);
unsigned int dcbm_nr_lanes(size_t bytes, unsigned int segment_bytes,
			   unsigned int max);
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_lanes, size_t lead, struct dcbm_range *share);
size_t dcbm_lead(u64 step_ns, u64 copy_ns, size_t bytes, unsigned int nr_lanes);
bool dcbm_judge(struct dcbm_slot *slot, enum dma_status status);
void dcbm_account(struct dcbm_job *job, const struct dcbm_slot *slot);
void dcbm_lose(struct dcbm_job *job, const struct dcbm_range *range);
enum migrate_copy_status dcbm_item_status(const struct dcbm_job *job,
					  unsigned int item);
unsigned int dcbm_worthwhile(u64 one_ns, u64 many_ns, unsigned int many,
			     u64 large_ns, size_t small, size_t large);

static inline struct folio *dcbm_src(const struct dcbm_job *job,
				     unsigned int item)
{
	return job->batch->pairs[job->pair[item]].src;
}

static inline struct folio *dcbm_dst(const struct dcbm_job *job,
				     unsigned int item)
{
	return job->batch->pairs[job->pair[item]].dst;
}

#endif /* __DCBM_H */
