/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The job of mtcopy, shared with its KUnit tests.
 */
#ifndef _MTCOPY_H
#define _MTCOPY_H

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/migrate_copy_offload.h>
#include <linux/sched/isolation.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "mtcopy_split.h"

#define MTCOPY_MAX_HELPERS	(MTCOPY_MAX_THREADS - 1)

struct mtcopy_helper;
struct page;

/**
 * struct mtcopy_job - a batch that helpers may copy
 * @taken: 1 if a caller has this job
 * @cursor: where the next piece starts
 * @nr_folios: number of folios
 * @piece_pages: maximum number of pages in a piece
 * @nr_helpers: number of @helpers
 * @helpers: the helpers that the caller has claimed
 * @wait: where the caller waits for running helpers
 * @failed: folios whose copy met poison
 * @left: number of pages of each folio that are not copied yet
 * @pages: number of pages of each folio
 * @src: the folios to copy from
 * @dst: the folios to copy to
 *
 * A lost helper may access its job long after the batch is gone. Therefore a job
 * does not refer to the batch, and a job with a lost helper is never reused.
 */
struct mtcopy_job {
	atomic_t taken;
	atomic64_t cursor;
	unsigned int nr_folios;
	unsigned int piece_pages;
	unsigned int nr_helpers;
	struct mtcopy_helper *helpers[MTCOPY_MAX_HELPERS];
	wait_queue_head_t wait;
	DECLARE_BITMAP(failed, MIGRATE_COPY_MAX_PAIRS);
	atomic_t left[MIGRATE_COPY_MAX_PAIRS];
	u32 pages[MIGRATE_COPY_MAX_PAIRS];
	struct folio *src[MIGRATE_COPY_MAX_PAIRS];
	struct folio *dst[MIGRATE_COPY_MAX_PAIRS];
};

#if IS_ENABLED(CONFIG_KUNIT)
bool mtcopy_housekeeping(unsigned int cpu, enum hk_type type);
bool mtcopy_may_ask(unsigned int cpu, const struct cpumask *allowed);
int mtcopy_copy_range(struct page *dst, struct page *src, unsigned int nr_pages);
void mtcopy_fill(struct mtcopy_job *job, const struct migrate_copy_batch *batch);
bool mtcopy_take(struct mtcopy_job *job, struct mtcopy_piece *piece);
void mtcopy_copy(struct mtcopy_job *job, const struct mtcopy_piece *piece);
void mtcopy_report(struct mtcopy_job *job, struct migrate_copy_batch *batch);
#endif

#endif /* _MTCOPY_H */
