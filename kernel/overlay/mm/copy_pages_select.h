/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Choose the primitive that copies a range of pages, from timings.
 *
 * The kernel, its KUnit tests and tools/mm/copy_bench.c share this header and
 * copy_pages_select.c, so both must not depend on kernel internals.
 */
#ifndef _MM_COPY_PAGES_SELECT_H
#define _MM_COPY_PAGES_SELECT_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

/**
 * enum copy_primitive - ways to copy a range of contiguous pages
 * @COPY_PER_PAGE: the loop that copies page by page, the baseline that every
 *	candidate has to beat
 * @COPY_MOVSQ: one ``rep movsq`` for the range
 * @COPY_MOVSB: one ``rep movsb`` for the range
 * @COPY_NONTEMPORAL: stores that bypass the cache, loads prefetched a page ahead
 * @NR_COPY_PRIMITIVES: number of primitives
 * @COPY_DEFAULT: none of these, but what a kernel that cannot measure uses
 *
 * Where timings cannot tell two of them apart, the first is preferred.
 */
enum copy_primitive {
	COPY_PER_PAGE,
	COPY_MOVSQ,
	COPY_MOVSB,
	COPY_NONTEMPORAL,
	NR_COPY_PRIMITIVES,
	COPY_DEFAULT = NR_COPY_PRIMITIVES,
};

/**
 * enum copy_use - expected use of the destination of a copy
 * @COPY_FOR_READER: this CPU may read the destination soon
 * @COPY_FAR: this CPU is unlikely to read the destination soon, as after a
 *	demotion to another node
 * @NR_COPY_USES: number of uses
 */
enum copy_use {
	COPY_FOR_READER,
	COPY_FAR,
	NR_COPY_USES,
};

/**
 * enum copy_state - cache state of a range of pages when a measurement copies it
 * @COPY_COLD: source and destination are in no cache
 * @COPY_HOT: source and destination are in the cache, as far as they fit
 * @COPY_READ_BACK: as @COPY_COLD, and the time includes reading the destination
 * @NR_COPY_STATES: number of states
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

/* Longer ranges are copied in steps of this length, with a resched point between. */
#define COPY_STEP_BYTES		(1024UL << 10)

/* Fewer rounds than this have no meaningful spread, and never choose a primitive. */
#define COPY_MIN_ROUNDS		5
#define COPY_MAX_ROUNDS		63
/* Number of rounds of a calibration. */
#define COPY_ROUNDS		15

/**
 * struct copy_timings - the times of all primitives in one state of the caches
 * @rounds: number of valid entries for each primitive, at most COPY_MAX_ROUNDS
 * @ns: times in ns for the same number of bytes; every round measures each
 *	primitive once, so that a slow phase of the machine affects all of them
 */
struct copy_timings {
	unsigned int rounds;
	__u64 ns[NR_COPY_PRIMITIVES][COPY_MAX_ROUNDS];
};

/**
 * struct copy_quartiles - the distribution of times, in ns
 * @lower: first quartile
 * @median: second quartile
 * @upper: third quartile
 */
struct copy_quartiles {
	__u64 lower;
	__u64 median;
	__u64 upper;
};

extern const char * const copy_primitive_names[COPY_DEFAULT + 1];
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
