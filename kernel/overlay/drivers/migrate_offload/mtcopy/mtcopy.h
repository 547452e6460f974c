/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mtcopy shares with its KUnit tests.
 */
#ifndef _MTCOPY_H
#define _MTCOPY_H

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/migrate_offload.h>
#include <linux/sched/isolation.h>
#include <linux/types.h>

/* The caller and its helpers together. */
#define MTCOPY_MAX_THREADS	16U

/*
 * Pages that a thread copies before it takes more. A helper copies a piece without
 * preemption: 128 KB take about 15 us.
 */
#define MTCOPY_PIECE		32U

/* Batches from one trial to the next: a prime, unlike what repeats itself. */
#define MTCOPY_TRIAL		61U

/* Trials that a change of mind takes at most. */
#define MTCOPY_SCORE		3

struct page;
struct task_struct;

/**
 * enum helper_state - ownership of a helper
 * @HELPER_IDLE: free for any caller to claim
 * @HELPER_CLAIMED: owned by a caller, without work
 * @HELPER_OFFERED: the helper may start with a piece, or the caller may end the offer
 * @HELPER_RUNNING: the helper has a piece, and may access the job and its folios
 * @HELPER_LOST: the caller gave up on the helper; final
 */
enum helper_state {
	HELPER_IDLE,
	HELPER_CLAIMED,
	HELPER_OFFERED,
	HELPER_RUNNING,
	HELPER_LOST,
};

/**
 * struct mtcopy_helper - the helper of one CPU
 * @state: an enum helper_state
 * @folio: index of the folio at which the last piece of the helper ended
 * @job: the job to help with; valid while a caller owns the helper
 * @task: the thread; only the owning caller uses it
 */
struct mtcopy_helper {
	atomic_t state;
	unsigned int folio;
	struct mtcopy_job *job;
	struct task_struct *task;
};

/**
 * struct mtcopy_job - a batch that helpers may copy
 * @taken: 1 if a caller has this job
 * @nr_helpers: number of @helpers
 * @nr_pages: size of the batch in pages
 * @next: the first page of the batch that no thread has taken
 * @helpers: the helpers that the caller has claimed
 * @failed: folios whose copy met poison
 * @left: number of pages of each folio that are not copied yet
 * @start: number of pages before each folio, and before the end
 * @src: the folios to copy from
 * @dst: the folios to copy to
 *
 * A lost helper may access its job long after the batch is gone. Therefore a job
 * does not refer to the batch, and a job with a lost helper is never reused.
 */
struct mtcopy_job {
	atomic_t taken;
	unsigned int nr_helpers;
	unsigned int nr_pages;
	atomic_t next;
	struct mtcopy_helper *helpers[MTCOPY_MAX_THREADS - 1];
	DECLARE_BITMAP(failed, MIGRATE_OFFLOAD_MAX_PAIRS);
	atomic_t left[MIGRATE_OFFLOAD_MAX_PAIRS];
	unsigned int start[MIGRATE_OFFLOAD_MAX_PAIRS + 1];
	struct folio *src[MIGRATE_OFFLOAD_MAX_PAIRS];
	struct folio *dst[MIGRATE_OFFLOAD_MAX_PAIRS];
};

/**
 * struct mtcopy_trial - whether helpers pay for one kind of batch
 * @nr: number of batches
 * @helped: the cost of the last batch that was copied with helpers for comparison, or 0
 * @score: above 0 if helpers were cheaper in most of the last comparisons
 */
struct mtcopy_trial {
	unsigned int nr;
	u64 helped;
	int score;
};

#if IS_ENABLED(CONFIG_KUNIT)
bool mtcopy_housekeeping(unsigned int cpu, enum hk_type type);
bool mtcopy_may_ask(unsigned int cpu, const struct cpumask *allowed);
int mtcopy_copy_page(struct page *dst, struct page *src);
void mtcopy_fill(struct mtcopy_job *job, const struct migrate_offload_batch *batch);
unsigned int mtcopy_copy_piece(struct mtcopy_job *job, unsigned int *folio);
bool mtcopy_help(struct mtcopy_helper *helper);
bool mtcopy_recall(struct mtcopy_helper *helper, unsigned long end);
void mtcopy_report(struct mtcopy_job *job, struct migrate_offload_batch *batch);
bool mtcopy_pays(const struct mtcopy_trial *trial);
void mtcopy_learn(struct mtcopy_trial *trial, bool helped, u64 cost);
#endif

#endif /* _MTCOPY_H */
