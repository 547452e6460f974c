// SPDX-License-Identifier: GPL-2.0
/*
 * Which primitive copies a range of pages: a choice made from timings.
 *
 * The rule is that nobody gets slower. A candidate is chosen only if it was measurably
 * faster than copying page by page, where "measurably" means by more than what its
 * times and those of the loop scatter, and never by less than FASTER. Where this CPU will
 * read the destination it must also be shown not to lose, by more than NOT_SLOWER, when
 * the cache is hot, and when reading is part of it. Noise, then, keeps the loop where a
 * candidate would have been faster; the converse takes several coincidences.
 *
 * This file is part of user-space programs as well: see copy_pages_select.h.
 */

#include "copy_pages_select.h"

/* A gain below 1/32 is not worth a choice that other machines have to maintain. */
#define FASTER		32
/* What a candidate may lose where it is not chosen for its speed. */
#define NOT_SLOWER	32

const char * const copy_primitive_names[NR_COPY_PRIMITIVES] = {
	[COPY_PER_PAGE]		= "per_page",
	[COPY_MOVSQ]		= "movsq",
	[COPY_MOVSB]		= "movsb",
	[COPY_NONTEMPORAL]	= "nontemporal",
};

const char * const copy_use_names[NR_COPY_USES] = {
	[COPY_FOR_READER]	= "reader",
	[COPY_FAR]		= "far",
};

/*
 * The shortest range of each class. A class is measured with ranges of this length:
 * what a call costs at its start and end weighs most there.
 */
const unsigned long copy_class_bytes[NR_COPY_CLASSES] = {
	16UL << 10, 64UL << 10, 256UL << 10, 1024UL << 10,
};

/**
 * copy_class - the size class of a range
 * @bytes: its length
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
 * copy_quartiles - the distribution of some times
 * @ns: times in any order
 * @rounds: their number, 1 to COPY_MAX_ROUNDS; no more than that are looked at
 *
 * Return: quartiles, each of them one of the times; all 0 if there are none.
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
 * copy_measurably_faster - whether times show that one thing is faster than another
 * @one: distribution of its times
 * @other: distribution of the times of the other
 *
 * The medians must be apart by 3/4 of the sum of the two interquartile ranges, which is
 * twice the standard deviation of times that are alike, and by 1/32 of the slower.
 * Medians of 15 rounds are not that far apart by chance. This relation is transitive.
 *
 * Return: true if @one is.
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
 * copy_primitive_allowed - whether timings may choose a primitive at all
 * @primitive: the primitive
 * @use: what it would be used for
 *
 * Stores that bypass the cache are fast because they leave the destination out of it.
 * Whoever reads it next pays for that, and no timing of the copy shows it.
 *
 * Return: true if they may.
 */
bool copy_primitive_allowed(enum copy_primitive primitive, enum copy_use use)
{
	return primitive != COPY_NONTEMPORAL || use == COPY_FAR;
}

/*
 * Half of what copy_measurably_faster() asks for, which is one standard deviation of a
 * time: two of the difference between two medians of 15.
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
 * @use: what it is for
 * @timings: times in each state, by enum copy_state; for COPY_FAR only those of COPY_COLD
 * @current_choice: what was chosen before, COPY_PER_PAGE at first. It stays unless
 *	something is measurably faster than it, or it would not be chosen at all.
 *
 * Return: the primitive; never one that is not measurably faster than COPY_PER_PAGE when
 * cold, and for COPY_FOR_READER none that may be slower in one of the other states.
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
