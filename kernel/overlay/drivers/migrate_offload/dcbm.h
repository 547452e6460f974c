/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the three parts of dcbm: dcbm_main.c (the migrator: how a job runs)
 * calls dcbm_channels.c (which channels dcbm holds) and dcbm_share.c (shares,
 * segments, accounts), which do not call each other.
 */
#ifndef __DCBM_H
#define __DCBM_H

#include <linux/bitmap.h>
#include <linux/dmaengine.h>
#include <linux/migrate_offload.h>
#include <linux/notifier.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/wait.h>

/* More channels than any in-tree engine offers to one client. */
#define DCBM_MAX_CHANS		64

/*
 * Descriptors of a channel that are in flight or not yet judged. With that many a channel
 * has 12 KB and a job 44 KB; kmalloc() would allocate 16 KB and 64 KB.
 */
#define DCBM_MAX_SLOTS		224

/* There is a job for each four channels, up to this number. */
#define DCBM_MAX_JOBS		8
#define DCBM_CHANS_PER_JOB	4

/* Entries of the tables of a job: each channel may cut one folio. */
#define DCBM_MAX_ENTRIES	(MIGRATE_OFFLOAD_MAX_PAIRS + DCBM_MAX_CHANS)

/* Lengths in scatterlists have 32 bits, and a table may map a batch as one entry. */
#define DCBM_MAX_PAGES		(SZ_2G / PAGE_SIZE)

/*
 * Neighbours in physical memory are mapped together up to this length. No descriptor
 * of a segment is longer, however large a folio is: an engine may have to finish a
 * descriptor before it stops.
 */
#define DCBM_MAX_MERGED		SZ_2M

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

/* One side of a walk: the unread rest of a mapped scatterlist. */
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
	unsigned long token;	/* while in flight; a completion exchanges it for 0 */
	struct dcbm_range range;
	s32 cookie;
	bool error;
};

/*
 * One batch. Only the task that submitted the batch accesses its job, except
 * that completions access @in_flight, @wake_at and @wait.
 */
struct dcbm_job {
	struct migrate_offload_batch *batch;
	struct rcu_head rcu;
	struct list_head node;		/* on the list of free jobs */
	struct list_head chans;
	bool timed_out;
	bool unreachable;		/* each channel would have needed bounce buffers */

	atomic_t in_flight;		/* of all channels */
	int wake_at;
	wait_queue_head_t wait;

	/* How many bytes of each folio no successful completion has covered yet. */
	size_t left[MIGRATE_OFFLOAD_MAX_PAIRS];
	/* Folios that a channel may still read or write. */
	DECLARE_BITMAP(lost, MIGRATE_OFFLOAD_MAX_PAIRS);

	/* The folios as the channels map them, each channel consecutive entries. */
	unsigned int nents;
	struct scatterlist src_sg[DCBM_MAX_ENTRIES];
	struct scatterlist dst_sg[DCBM_MAX_ENTRIES];
};

/*
 * A channel with everything that a batch needs to use it, allocated when the
 * channel is acquired. A channel belongs to one job at a time, so terminating the
 * channel affects no other job.
 */
struct dcbm_chan {
	struct list_head node;		/* on the list of free channels, or a job's */
	struct rcu_head rcu;
	struct dma_chan *chan;
	struct device *dev;
	struct dcbm_job *job;
	char name[24];
	unsigned int id;		/* index in dcbm_by_id[] */
	bool retiring;			/* about to be released */
	bool lost;			/* the engine may still access its share */
	bool bounces;			/* does not reach all memory directly */

	/* The share of the job. */
	struct dcbm_range range;
	struct sg_table src, dst;	/* of the entries of its job */
	bool mapped;
	struct dcbm_walk walk;		/* the rest to submit */
	size_t max_len;			/* longest descriptor to try */
	unsigned int stalls;		/* preps that failed with nothing in flight */

	/* The first slots are in flight, or completed and not yet judged. */
	unsigned int nr_used;
	atomic_t in_flight;
	struct dcbm_slot slots[DCBM_MAX_SLOTS];
};

/* dcbm_channels.c */
extern struct dcbm_chan __rcu *dcbm_by_id[DCBM_MAX_CHANS];
struct dcbm_job *dcbm_get_job(struct migrate_offload_batch *batch);
void dcbm_put_job(struct dcbm_job *job);
void dcbm_channels_init(void);
void dcbm_channels_exit(void);
void dcbm_routed(struct migrator *migrator, bool routed);

/* dcbm_share.c */
void dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_range *range,
		    const struct sg_table *src, const struct sg_table *dst);
struct dcbm_segment dcbm_walk_peek(const struct dcbm_walk *walk, size_t max);
void dcbm_walk_advance(struct dcbm_walk *walk, const struct dcbm_job *job,
		       size_t len);
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_chans, struct dcbm_range *share);
void dcbm_add_entry(struct sg_table *table, struct folio *folio, size_t len,
		    size_t offset);
void dcbm_account(struct dcbm_job *job, struct dcbm_range range);
void dcbm_lose(struct dcbm_job *job, struct dcbm_range range);
enum migrate_offload_status dcbm_item_status(const struct dcbm_job *job,
					     unsigned int item);

#endif /* __DCBM_H */
