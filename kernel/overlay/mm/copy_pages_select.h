/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which primitive copies a range of pages: a choice made from timings.
 *
 * The kernel, its KUnit tests and tools/mm/copy_bench.c share these files, so they
 * use nothing of the kernel.
 */
#ifndef _MM_COPY_PAGES_SELECT_H
#define _MM_COPY_PAGES_SELECT_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

/**
 * enum copy_primitive - ways to copy a range of contiguous pages
 * @COPY_PER_PAGE: a loop that copies page by page, which is what every candidate
 *	has to beat
 * @COPY_MOVSQ: one ``rep movsq`` for the range
 * @COPY_MOVSB: one ``rep movsb`` for the range
 * @COPY_NONTEMPORAL: stores that bypass the cache, loads prefetched a page ahead
 * @NR_COPY_PRIMITIVES: their number
 *
 * In order of preference where timings cannot tell two of them apart.
 */
enum copy_primitive {
	COPY_PER_PAGE,
	COPY_MOVSQ,
	COPY_MOVSB,
	COPY_NONTEMPORAL,
	NR_COPY_PRIMITIVES,
};

/**
 * enum copy_use - what becomes of the destination of a copy
 * @COPY_FOR_READER: this CPU may be about to read it
 * @COPY_FAR: it is not, as in a demotion to another node
 * @NR_COPY_USES: their number
 */
enum copy_use {
	COPY_FOR_READER,
	COPY_FAR,
	NR_COPY_USES,
};

/**
 * enum copy_state - what a range of pages is like when it is copied for a measurement
 * @COPY_COLD: source and destination are in memory alone
 * @COPY_HOT: both are in the cache, as far as they fit
 * @COPY_READ_BACK: like @COPY_COLD, and the time includes reading all of the destination
 * @NR_COPY_STATES: their number
 */
enum copy_state {
	COPY_COLD,
	COPY_HOT,
	COPY_READ_BACK,
	NR_COPY_STATES,
};

/* Ranges shorter than the smallest class are copied page by page. */
#define NR_COPY_CLASSES		4
#define COPY_CLASS_NONE		NR_COPY_CLASSES

/* A longer range is copied in steps of this length, between which others may run. */
#define COPY_STEP_BYTES		(1024UL << 10)

/* Fewer rounds than this have no spread to speak of, and choose nothing. */
#define COPY_MIN_ROUNDS		5
#define COPY_MAX_ROUNDS		63
/* What a calibration measures. */
#define COPY_ROUNDS		15

/**
 * struct copy_timings - what all primitives took, in the same state of the caches
 * @rounds: number of valid entries for each primitive, at most COPY_MAX_ROUNDS
 * @ns: times in ns, of the same bytes for all; every round measures each primitive
 *	once, so that a slow spell of the machine meets them all
 */
struct copy_timings {
	unsigned int rounds;
	__u64 ns[NR_COPY_PRIMITIVES][COPY_MAX_ROUNDS];
};

/**
 * struct copy_quartiles - how times are distributed, in ns
 * @lower: first quartile
 * @median: second quartile
 * @upper: third quartile
 */
struct copy_quartiles {
	__u64 lower;
	__u64 median;
	__u64 upper;
};

extern const char * const copy_primitive_names[NR_COPY_PRIMITIVES];
extern const char * const copy_use_names[NR_COPY_USES];
extern const unsigned long copy_class_bytes[NR_COPY_CLASSES];

unsigned int copy_class(unsigned long bytes);
struct copy_quartiles copy_quartiles(const __u64 *ns, unsigned int rounds);
bool copy_measurably_faster(const struct copy_quartiles *one,
			    const struct copy_quartiles *other);
bool copy_primitive_allowed(enum copy_primitive primitive, enum copy_use use);
enum copy_primitive copy_select(enum copy_use use,
				const struct copy_timings timings[NR_COPY_STATES],
				enum copy_primitive current_choice);

#endif /* _MM_COPY_PAGES_SELECT_H */
