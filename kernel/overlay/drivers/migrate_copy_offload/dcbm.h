/* SPDX-License-Identifier: GPL-2.0 */
/*
 * dcbm's parts: jobs (dcbm_main.c), channels (dcbm_channels.c), and the
 * arithmetic of shares, segments and completions (dcbm_share.c).
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

/* More channels than any engine in the tree offers to one client. */
#define DCBM_MAX_LANES		64

/* Tasks that may have a batch at a time; the CPU copies for more. */
#define DCBM_MAX_JOBS		16

/* A range of pairs, from a byte of the first one on, meets at most as many. */
#define DCBM_MAX_ENTRIES	MIGRATE_COPY_MAX_PAIRS

struct dcbm_lane;

/* A piece of one folio that is contiguous for the engine on both sides. */
struct dcbm_segment {
	dma_addr_t src;
	dma_addr_t dst;
	size_t len;
	unsigned int item;
	size_t offset;			/* in the folio */
};

/* A row of bytes of a job: from @offset in folio @first on. */
struct dcbm_range {
	unsigned int first;
	size_t offset;
	size_t len;
};

/* One side of a walk: what is left of the mapped scatterlist. */
struct dcbm_side {
	struct scatterlist *sg;
	unsigned int nents;
	size_t offset;
};

/*
 * A walk over the two mapped scatterlists of a range. An IOMMU may have merged
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

/* One descriptor in flight, and the row of bytes that it copies. */
struct dcbm_slot {
	struct llist_node node;
	struct dcbm_lane *lane;
	s32 cookie;
	struct dcbm_range range;
	unsigned int in_flight;		/* exchanged by a completion */
	bool error;
};

/*
 * One batch. Only the task that submitted it looks at a job, except for what a
 * completion touches: @completed, @in_flight, @wake_at and @wait. Jobs are not
 * freed while a channel is held, so that a callback may end when it likes.
 */
struct dcbm_job {
	struct migrate_copy_batch *batch;
	struct list_head node;		/* in the list of free jobs */
	struct list_head lanes;
	unsigned long deadline;		/* in jiffies */
	bool timed_out;
	bool whole;			/* no folio is cut */
	ktime_t begun, started;		/* the first and the last channel */

	struct llist_head completed;	/* slots, not yet accounted for */
	atomic_t in_flight;		/* slots, not yet in @completed */
	int wake_at;
	wait_queue_head_t wait;

	/*
	 * The folios that the engine can reach: which pair each one is, and how
	 * many of its bytes no completion has vouched for.
	 */
	unsigned int nr;
	u16 pair[MIGRATE_COPY_MAX_PAIRS];
	size_t left[MIGRATE_COPY_MAX_PAIRS];
	/* Those that a channel may still write to. */
	DECLARE_BITMAP(lost, MIGRATE_COPY_MAX_PAIRS);
};

/*
 * A channel with all that a batch needs of it, set aside when it is taken. It
 * belongs to one job at a time, so that terminating it stops nobody else.
 */
struct dcbm_lane {
	struct list_head node;		/* in the list of free lanes, or a job's */
	struct dma_chan *chan;
	struct device *dev;
	struct dcbm_job *job;
	char name[24];
	char provider[24];

	bool shared;			/* a public channel: never terminate it */
	bool offers_sg;
	bool retiring;			/* to be released when its job is done */
	bool quarantined;
	bool limited;			/* some memory is beyond @reach */
	dma_addr_t reach;		/* the last address of the engine */
	unsigned int segment_bytes;	/* the least that is worth a descriptor */

	struct dcbm_range range;
	bool mapped;
	bool single;			/* a part of one folio, without a table */
	bool borrowed;			/* another lane's mapping of that folio */
	dma_addr_t src, dst;		/* of the folio, if @single */
	unsigned int nents;		/* in the tables */
	unsigned int src_nents, dst_nents;	/* as mapped */
	bool terminated;
	bool use_sg;
	struct scatterlist src_sg[DCBM_MAX_ENTRIES];
	struct scatterlist dst_sg[DCBM_MAX_ENTRIES];

	struct dcbm_walk walk;
	struct dcbm_segment next;	/* valid if @more */
	bool more;
	unsigned int stalls;		/* preps refused with nothing in flight */

	unsigned int nr_free;
	struct dcbm_slot *free[DCBM_MAX_ENTRIES];
	struct dcbm_slot slots[DCBM_MAX_ENTRIES];

	/* What it did so far; written by the task that has the job. */
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
bool dcbm_completed(struct dcbm_slot *slot, enum dma_status status);
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
