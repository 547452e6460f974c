/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the three parts of dcbm. Calls go one way: dcbm_main.c (the
 * migrator: how a job runs) calls dcbm_channels.c (which channels dcbm holds)
 * and dcbm_share.c (shares, segments, accounts). dcbm_channels.c asks
 * dcbm_share.c how many lanes a job is worth; dcbm_share.c calls neither.
 */
#ifndef __DCBM_H
#define __DCBM_H

#include <linux/bitmap.h>
#include <linux/dmaengine.h>
#include <linux/llist.h>
#include <linux/migrate_offload.h>
#include <linux/notifier.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/wait.h>

/* More channels than any in-tree engine offers to one client. */
#define DCBM_MAX_LANES		64

/*
 * Descriptors of a lane that are in flight or not yet judged. By it a lane has 12
 * KB; kmalloc() would make 16 KB of it, and 64 KB of the 42 KB of a job.
 */
#define DCBM_MAX_SLOTS		224

/* There is a job for each four lanes, up to this number. */
#define DCBM_MAX_JOBS		8
#define DCBM_LANES_PER_JOB	4

/* Entries of the tables of a job: each lane may cut one folio. */
#define DCBM_MAX_ENTRIES	(MIGRATE_OFFLOAD_MAX_PAIRS + DCBM_MAX_LANES)

/* Lengths in scatterlists have 32 bits, and a table may map a batch as one entry. */
#define DCBM_MAX_PAGES		(SZ_2G / PAGE_SIZE)

/*
 * Neighbours in physical memory are mapped together up to this length. No descriptor
 * of a segment is longer, however large a folio is: what an engine has begun it may
 * have to finish before it stops.
 */
#define DCBM_MAX_MERGED		SZ_4M

/* Consecutive bytes of a job, starting at @offset in folio @first. */
struct dcbm_range {
	unsigned int first;
	size_t offset;
	size_t len;
};

/* Bytes that are contiguous in DMA addresses on both sides. */
struct dcbm_segment {
	dma_addr_t src;
	dma_addr_t dst;
	struct dcbm_range range;
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
	struct dcbm_range rest;
};

/* One descriptor and the bytes it copies. */
struct dcbm_slot {
	struct llist_node node;
	unsigned long token;	/* while in flight; a completion exchanges it for 0 */
	struct dcbm_range range;
	s32 cookie;
	u8 lane;		/* the id of its lane */
	bool error;
};

/*
 * One batch. Only the task that submitted the batch accesses its job, except
 * that completions access @completed, @in_flight, @wake_at and @wait.
 */
struct dcbm_job {
	struct migrate_offload_batch *batch;
	struct rcu_head rcu;
	struct list_head node;		/* on the list of free jobs */
	struct list_head lanes;
	unsigned long deadline;		/* in jiffies */
	bool timed_out;
	bool unreachable;		/* a lane would have needed bounce buffers */
	bool whole;			/* do not cut folios */
	bool leaked;			/* an engine may still read the tables */

	struct llist_head completed;	/* slots that nobody has collected */
	atomic_t in_flight;		/* number of slots not yet in @completed */
	int wake_at;
	wait_queue_head_t wait;

	/* How many bytes of each folio no successful completion has covered yet. */
	size_t left[MIGRATE_OFFLOAD_MAX_PAIRS];
	/* Folios that a channel may still read or write. */
	DECLARE_BITMAP(lost, MIGRATE_OFFLOAD_MAX_PAIRS);

	/* The folios as the lanes map them, each lane consecutive entries. */
	unsigned int nents;
	struct scatterlist src_sg[DCBM_MAX_ENTRIES];
	struct scatterlist dst_sg[DCBM_MAX_ENTRIES];
};

/*
 * A channel with everything that a batch needs to use it, allocated when the
 * channel is acquired. A lane belongs to one job at a time, so terminating its
 * channel affects no other job.
 */
struct dcbm_lane {
	struct list_head node;		/* on the list of free lanes, or a job's */
	struct rcu_head rcu;
	struct dma_chan *chan;
	struct device *dev;
	struct dcbm_job *job;
	char name[24];
	char provider[24];
	unsigned int id;		/* index in dcbm_by_id[] */
	unsigned long uses;		/* descriptors that ever had a slot of this id */
	bool retiring;			/* somebody is about to release it */
	bool quarantined;		/* never use it again */
	bool bounces;			/* it did not reach all memory when it came */

	/* What the provider showed so far. */
	unsigned int strikes;		/* time-outs since the last success */
	size_t max_len;			/* longest descriptor that prep accepted */

	/* The share of the job. */
	struct dcbm_range range;
	struct scatterlist *src_sg, *dst_sg;
	unsigned int src_filled, dst_filled;	/* entries of the tables */
	unsigned int src_nents, dst_nents;	/* entries after mapping */
	bool mapped;
	bool use_list;
	bool stopped;			/* no completion is a success any more */
	bool lost;			/* the engine may still access the share */
	struct dcbm_walk walk;
	struct dcbm_segment next;	/* next segment to submit, if @more */
	bool more;
	unsigned int depth;		/* descriptors in flight that fill the ring */
	unsigned int stalls;		/* preps that failed with nothing in flight */
	size_t try_len;			/* longest descriptor to try now */

	/* A slot is free, in flight, in the job's list of completed ones, or done. */
	unsigned int nr_free, nr_done;
	u8 free[DCBM_MAX_SLOTS];
	u8 done[DCBM_MAX_SLOTS];
	struct dcbm_slot slots[DCBM_MAX_SLOTS];

	/* Statistics; only the task that has the job writes them. */
	unsigned long descriptors;
	unsigned long lists;
	unsigned long bytes;
	unsigned long errors;
	unsigned long timeouts;
};

/* dcbm_channels.c */
extern struct dcbm_lane __rcu *dcbm_by_id[DCBM_MAX_LANES];
struct dcbm_job *dcbm_get_job(struct migrate_offload_batch *batch);
void dcbm_put_job(struct dcbm_job *job);
void dcbm_channels_init(void);
void dcbm_channels_exit(void);
void dcbm_routed(struct migrator *migrator, bool routed);
#if IS_ENABLED(CONFIG_KUNIT)
struct kernel_param;
int dcbm_set_providers(const char *val, const struct kernel_param *kp);
int dcbm_submit(struct migrator *migrator, struct migrate_offload_batch *batch);
void dcbm_wait(struct migrator *migrator, struct migrate_offload_batch *batch);
int dcbm_reboot_event(struct notifier_block *nb, unsigned long event,
		      void *data);
int dcbm_pm_event(struct notifier_block *nb, unsigned long event, void *data);
#endif

/* dcbm_share.c */
void dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_range *range,
		    struct scatterlist *src_sg, unsigned int src_nents,
		    struct scatterlist *dst_sg, unsigned int dst_nents);
bool dcbm_walk_next(struct dcbm_walk *walk, const struct dcbm_job *job,
		    struct dcbm_segment *segment);
struct dcbm_segment dcbm_cut(const struct dcbm_job *job,
			     struct dcbm_segment *segment, size_t len);
unsigned int dcbm_nr_lanes(size_t bytes, size_t segment_bytes, unsigned int max);
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_lanes, struct dcbm_range *share);
unsigned int dcbm_add_entry(struct scatterlist *table, unsigned int nents,
			    struct folio *folio, size_t len, size_t offset,
			    bool merge);
void dcbm_account(struct dcbm_job *job, const struct dcbm_range *range);
void dcbm_lose(struct dcbm_job *job, const struct dcbm_range *range);
enum migrate_offload_status dcbm_item_status(const struct dcbm_job *job,
					     unsigned int item);

/* What completed counts as in flight until the task that has the job collects it. */
static inline unsigned int dcbm_in_flight(const struct dcbm_lane *lane)
{
	return DCBM_MAX_SLOTS - lane->nr_free - lane->nr_done;
}

#endif /* __DCBM_H */
