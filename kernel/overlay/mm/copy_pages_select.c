// SPDX-License-Identifier: GPL-2.0
/*
 * Choose the primitive that copies a range of pages, from timings.
 *
 * The rule is that no copy gets slower. A candidate is chosen only if it was measurably
 * faster than copying page by page: by more than the scatter of its times and those of
 * the loop, and by at least 1/FASTER. If this CPU is going to read the destination, the
 * candidate must also not lose more than 1/NOT_SLOWER when the cache is hot, and when the
 * time includes reading the destination. Noise therefore keeps the loop where a candidate
 * would have been faster; the converse takes several coincidences.
 *
 * User-space programs are built from this file as well: see copy_pages_select.h.
 */

#include "copy_pages_select.h"

/* A gain below 1/FASTER does not justify a choice. */
#define FASTER		32
/* A candidate may lose up to 1/NOT_SLOWER in states other than COPY_COLD. */
#define NOT_SLOWER	32

const char * const copy_primitive_names[COPY_DEFAULT + 1] = {
	[COPY_PER_PAGE]		= "per_page",
	[COPY_MOVSQ]		= "movsq",
	[COPY_MOVSB]		= "movsb",
	[COPY_NONTEMPORAL]	= "nontemporal",
	[COPY_DEFAULT]		= "default",
};

const char * const copy_use_names[NR_COPY_USES] = {
	[COPY_FOR_READER]	= "reader",
	[COPY_FAR]		= "far",
};

/*
 * The shortest range of each class. A class is measured with ranges of this length,
 * where the fixed cost of a call weighs most.
 */
const unsigned long copy_class_bytes[NR_COPY_CLASSES] = {
	16UL << 10, 64UL << 10, 256UL << 10, 1024UL << 10,
};

/**
 * copy_class - return the size class of a range
 * @bytes: length of the range
 *
 * Return: index of the class, or COPY_CLASS_NONE for a range that is too short.
 */
unsigned int copy_class(unsigned long bytes)
{
	unsigned int class = NR_COPY_CLASSES;

	while (class--) {
		if (bytes >= copy_class_bytes[class])
			return class;
	}
	return COPY_CLASS_NONE;
}

/**
 * copy_quartiles - calculate the quartiles of times
 * @ns: times in any order
 * @rounds: number of times; only the first COPY_MAX_ROUNDS are used
 *
 * Return: the quartiles, each of them one of the times; all 0 if @rounds is 0.
 */
struct copy_quartiles copy_quartiles(const __u64 *ns, unsigned int rounds)
{
	__u64 sorted[COPY_MAX_ROUNDS];
	struct copy_quartiles q = { 0 };
	unsigned int i, j;

	if (rounds > COPY_MAX_ROUNDS)
		rounds = COPY_MAX_ROUNDS;
	if (!rounds)
		return q;
	for (i = 0; i < rounds; i++) {
		for (j = i; j && sorted[j - 1] > ns[i]; j--)
			sorted[j] = sorted[j - 1];
		sorted[j] = ns[i];
	}
	q.lower = sorted[(rounds - 1) / 4];
	q.median = sorted[(rounds - 1) / 2];
	q.upper = sorted[rounds - 1 - (rounds - 1) / 4];
	return q;
}

static __u64 scatter(const struct copy_quartiles *one, const struct copy_quartiles *other)
{
	return one->upper - one->lower + other->upper - other->lower;
}

/**
 * copy_measurably_faster - check if times show that one thing is faster than another
 * @one: distribution of the times of one
 * @other: distribution of the times of the other
 *
 * The medians must differ by more than 3/4 of the sum of the two interquartile ranges,
 * which is twice the standard deviation if both are distributed alike, and by more than
 * 1/32 of the slower one. Medians of 15 rounds do not differ that much by chance. The
 * relation is transitive.
 *
 * Return: true if @one is measurably faster.
 */
bool copy_measurably_faster(const struct copy_quartiles *one,
			    const struct copy_quartiles *other)
{
	__u64 spread = scatter(one, other) * 3 / 4;
	__u64 least = other->median / FASTER;
	__u64 margin = spread > least ? spread : least;

	return one->median + margin < other->median;
}

/**
 * copy_primitive_allowed - check if a primitive is a candidate for a use
 * @primitive: the primitive
 * @use: expected use of the destination
 *
 * Stores that bypass the cache are fast because they leave the destination out of it.
 * The next reader pays for that, and no timing of the copy shows it.
 *
 * Return: true if timings may choose the primitive.
 */
bool copy_primitive_allowed(enum copy_primitive primitive, enum copy_use use)
{
	return primitive != COPY_NONTEMPORAL || use == COPY_FAR;
}

/*
 * Half of the margin of copy_measurably_faster() is one standard deviation of a time, or
 * two standard deviations of the difference between two medians of 15.
 */
static bool surely_not_slower(const struct copy_timings *timings,
			      enum copy_primitive primitive)
{
	struct copy_quartiles one, loop;

	one = copy_quartiles(timings->ns[primitive], timings->rounds);
	loop = copy_quartiles(timings->ns[COPY_PER_PAGE], timings->rounds);
	return one.median + scatter(&one, &loop) * 3 / 8 <=
	       loop.median + loop.median / NOT_SLOWER;
}

/**
 * copy_select - choose the primitive for one size class
 * @use: expected use of the destination
 * @timings: times in each state, by enum copy_state; COPY_FAR needs only COPY_COLD
 * @current_choice: the previous choice, COPY_PER_PAGE at first. It is kept unless another
 *	primitive is measurably faster, or it is no longer a candidate.
 *
 * Return: the primitive. Other than COPY_PER_PAGE, it is measurably faster than that when
 * cold, and for COPY_FOR_READER not slower in the other states.
 */
enum copy_primitive copy_select(enum copy_use use,
				const struct copy_timings timings[NR_COPY_STATES],
				enum copy_primitive current_choice)
{
	const struct copy_timings *cold = &timings[COPY_COLD];
	struct copy_quartiles cold_times[NR_COPY_PRIMITIVES];
	bool candidate[NR_COPY_PRIMITIVES] = { false };
	enum copy_primitive choice = COPY_PER_PAGE;
	unsigned int states = use == COPY_FOR_READER ? NR_COPY_STATES : COPY_COLD + 1;
	unsigned int i, state;

	for (state = 0; state < states; state++) {
		if (timings[state].rounds < COPY_MIN_ROUNDS)
			return COPY_PER_PAGE;
	}

	for (i = 0; i < NR_COPY_PRIMITIVES; i++)
		cold_times[i] = copy_quartiles(cold->ns[i], cold->rounds);
	for (i = COPY_PER_PAGE + 1; i < NR_COPY_PRIMITIVES; i++) {
		candidate[i] = copy_primitive_allowed(i, use) &&
			       copy_measurably_faster(&cold_times[i],
						      &cold_times[COPY_PER_PAGE]);
		for (state = COPY_COLD + 1; candidate[i] && state < states; state++)
			candidate[i] = surely_not_slower(&timings[state], i);
	}

	if (current_choice < NR_COPY_PRIMITIVES && candidate[current_choice])
		choice = current_choice;
	for (i = COPY_PER_PAGE + 1; i < NR_COPY_PRIMITIVES; i++) {
		if (candidate[i] && copy_measurably_faster(&cold_times[i], &cold_times[choice]))
			choice = i;
	}
	return choice;
}
