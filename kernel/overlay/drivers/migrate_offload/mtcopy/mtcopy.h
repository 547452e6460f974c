/* SPDX-License-Identifier: GPL-2.0 */
/* The parts of mtcopy that its KUnit tests use. */
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

/* Batches from one trial to the next: a prime, so that no pattern of batches keeps step. */
#define MTCOPY_TRIAL		61U

/* Trials that a change of mind takes at most. */
#define MTCOPY_SCORE		3

enum helper_state {
	HELPER_IDLE,	/* free for any caller to claim */
	HELPER_CLAIMED,	/* owned by a caller, without work */
	HELPER_OFFERED,	/* the helper may start with a piece, or the caller may end the offer */
	HELPER_RUNNING,	/* the helper has a piece, and may access the job and its folios */
	HELPER_LOST,	/* the caller gave up on the helper; final */
};

/* The helper of one CPU. */
struct mtcopy_helper {
	atomic_t state;			/* an enum helper_state */
	struct mtcopy_job *job;		/* valid while a caller owns the helper */
	struct task_struct *task;	/* NULL if the CPU was never online */
};

/*
 * A batch that helpers may copy. A lost helper may access its job long after the batch is gone.
 * Therefore a job does not refer to the batch, and a job with a lost helper is never reused.
 */
struct mtcopy_job {
	atomic_t taken;			/* 1 if a caller has this job */
	unsigned int nr_helpers;
	unsigned int nr_pages;
	atomic_t next;			/* the first page that no thread has taken */
	struct mtcopy_helper *helpers[MTCOPY_MAX_THREADS - 1];
	DECLARE_BITMAP(failed, MIGRATE_OFFLOAD_MAX_PAIRS);	/* folios that met poison */
	/* Of each folio: pages not copied yet, and pages before it, or before the end. */
	atomic_t left[MIGRATE_OFFLOAD_MAX_PAIRS];
	unsigned int start[MIGRATE_OFFLOAD_MAX_PAIRS + 1];
	struct folio *src[MIGRATE_OFFLOAD_MAX_PAIRS];
	struct folio *dst[MIGRATE_OFFLOAD_MAX_PAIRS];
};

/* Whether helpers pay for one kind of batch. */
struct mtcopy_trial {
	unsigned int nr;	/* batches so far */
	u64 helped;		/* cost of the last one with helpers for comparison, or 0 */
	int score;		/* above 0 if helpers won most of the last comparisons */
};

#if IS_ENABLED(CONFIG_KUNIT)
bool mtcopy_housekeeping(unsigned int cpu, enum hk_type type);
bool mtcopy_may_ask(unsigned int cpu, const struct cpumask *allowed);
void mtcopy_fill(struct mtcopy_job *job, const struct migrate_offload_batch *batch);
unsigned int mtcopy_copy_piece(struct mtcopy_job *job);
bool mtcopy_help(struct mtcopy_helper *helper);
bool mtcopy_recall(struct mtcopy_helper *helper, unsigned long end);
void mtcopy_report(struct mtcopy_job *job, struct migrate_offload_batch *batch);
bool mtcopy_pays(const struct mtcopy_trial *trial);
void mtcopy_learn(struct mtcopy_trial *trial, bool helped, u64 cost);
#endif

#endif /* _MTCOPY_H */
