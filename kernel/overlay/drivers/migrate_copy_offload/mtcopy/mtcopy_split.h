/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How mtcopy cuts a batch into pieces that threads take one by one, and when it
 * asks a helper.
 *
 * The kernel, its KUnit tests and tools/mm/mt_bench.c share this file, so it must
 * not depend on kernel internals.
 */
#ifndef _MTCOPY_SPLIT_H
#define _MTCOPY_SPLIT_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

/* The caller and its helpers together. */
#define MTCOPY_MAX_THREADS	16

/*
 * In pages of 4 KB. At the end of a batch the caller waits for the helpers at most
 * as long as one piece takes, so pieces should be small. Ranges below 256 KB may
 * be copied by slower primitives, so pieces should not be smaller than necessary.
 */
#define MTCOPY_MAX_PIECE	64U
#define MTCOPY_MIN_PIECE	16U
/* Pieces per thread, if the batch is large enough. */
#define MTCOPY_PIECES		4U

/* A thread with a smaller share is not worth it: waking a helper takes as long. */
#define MTCOPY_SHARE_PAGES	64U

/* How long to avoid a helper that copied nothing: its CPU is busy. */
#define MTCOPY_REST_NS		10000000ULL

/* Batches from one trial to the next; doubled each time that it changes nothing. */
#define MTCOPY_TRIAL		2U
#define MTCOPY_MAX_TRIAL_SHIFT	5
/* And as many more for each batch that was lost to a slow trial. */
#define MTCOPY_TRIAL_SHARE	64
#define MTCOPY_MAX_LOST		256

/* Helpers pay from when they save the first part of the time until less than the second. */
#define MTCOPY_WHOLE		1024
#define MTCOPY_PAYS		(MTCOPY_WHOLE / 16)
#define MTCOPY_STILL_PAYS	(MTCOPY_WHOLE / 32)

/**
 * struct mtcopy_piece - what a thread copies before it takes the next piece
 * @first: index of the first folio
 * @nr: number of folios; if more than one, the piece has them whole
 * @page: first page to copy within the first folio
 * @nr_pages: number of pages of all folios together
 */
struct mtcopy_piece {
	unsigned int first;
	unsigned int nr;
	unsigned int page;
	unsigned int nr_pages;
};

/**
 * struct mtcopy_gain - what helpers bring to batches of one kind
 * @cost: average time that the usual way takes, in ns for 16 pages
 * @saved: average part of its time that a batch saves with helpers, in 1/1024;
 *	negative if helpers cost time
 * @left: number of batches before the next trial
 * @shift: how often the time between trials was doubled
 * @pays: the usual way is with helpers
 *
 * All zero before the first batch.
 */
struct mtcopy_gain {
	__s64 cost;
	int saved;
	unsigned int left;
	unsigned int shift;
	bool pays;
};

/**
 * mtcopy_threads() - calculate how many threads are worth using
 * @nr_pages: size of the batch in pages
 * @max_threads: maximum number of threads, the caller included
 *
 * Return: 1 to @max_threads.
 */
static inline unsigned int mtcopy_threads(unsigned long nr_pages,
					  unsigned int max_threads)
{
	unsigned long threads = nr_pages / MTCOPY_SHARE_PAGES;

	if (threads > max_threads)
		threads = max_threads;
	return threads ? threads : 1;
}

/**
 * mtcopy_piece_pages() - calculate the size of the pieces of a batch
 * @nr_pages: size of the batch in pages
 * @threads: number of threads that copy it
 *
 * Return: the maximum number of pages in a piece, a power of two.
 */
static inline unsigned int mtcopy_piece_pages(unsigned long nr_pages,
					      unsigned int threads)
{
	unsigned int pages = MTCOPY_MAX_PIECE;

	while (pages > MTCOPY_MIN_PIECE &&
	       nr_pages / pages < (unsigned long)threads * MTCOPY_PIECES)
		pages /= 2;
	return pages;
}

/**
 * mtcopy_next_piece() - cut the next piece off a batch
 * @pages: number of pages of each folio
 * @nr: number of folios
 * @piece_pages: maximum number of pages in a piece
 * @cursor: where the piece starts: 0, or the value of @next from the last call
 * @piece: set to the piece, if there is one
 * @next: set to where the following piece starts
 *
 * Large folios are cut, small ones are grouped. A cursor is one word, so that
 * threads can take pieces with a compare-and-exchange.
 *
 * Return: true if there was a piece; false at the end, without reading @pages.
 */
static inline bool mtcopy_next_piece(const __u32 *pages, unsigned int nr,
				     unsigned int piece_pages, __u64 cursor,
				     struct mtcopy_piece *piece, __u64 *next)
{
	unsigned int first = cursor >> 32;
	unsigned int page = cursor & 0xffffffff;
	unsigned int left, end;

	if (first >= nr)
		return false;

	piece->first = first;
	piece->nr = 1;
	piece->page = page;

	left = pages[first] - page;
	if (left > piece_pages) {
		piece->nr_pages = piece_pages;
		*next = cursor + piece_pages;
		return true;
	}

	piece->nr_pages = left;
	/* Only whole folios are grouped: the rest of a cut folio is a piece by itself. */
	for (end = first + 1; !page && end < nr; end++) {
		if (piece->nr_pages + pages[end] > piece_pages)
			break;
		piece->nr_pages += pages[end];
		piece->nr++;
	}
	*next = (__u64)(first + piece->nr) << 32;
	return true;
}

/**
 * mtcopy_ask() - decide whether to ask helpers
 * @gain: what helpers brought to earlier batches of the same kind
 *
 * Return: true if they pay, or if they do not but a trial is due. If they pay and a
 * trial is due, the caller copies alone.
 */
static inline bool mtcopy_ask(const struct mtcopy_gain *gain)
{
	bool trial = gain->cost && !gain->left;

	return gain->pays != trial;
}

/**
 * mtcopy_learn() - learn from a batch whether helpers pay
 * @gain: what helpers brought to earlier batches of the same kind
 * @helped: whether helpers were asked
 * @ns: how long the batch took, in ns
 * @nr_pages: size of the batch in pages
 *
 * A batch that was not copied in the usual way is a trial, and is compared with the
 * average of the batches before. While trials confirm what is known, no more than one
 * batch in 64 is a trial, and trials take about one part in 64 of the time at most.
 */
static inline void mtcopy_learn(struct mtcopy_gain *gain, bool helped, __u64 ns,
				unsigned long nr_pages)
{
	__s64 cost = ns * 16 / nr_pages + 1;
	__s64 saved, lost = 0;
	bool pays;

	/* The caller may have lost its CPU: no batch counts for more than two. */
	if (gain->cost) {
		lost = (cost - gain->cost) / gain->cost;
		if (lost)
			cost = 2 * gain->cost;
	}

	if (helped == gain->pays) {
		gain->cost += gain->cost ? (cost - gain->cost) / 8 : cost;
		if (gain->left)
			gain->left--;
		return;
	}

	saved = helped ? gain->cost - cost : cost - gain->cost;
	saved = saved * MTCOPY_WHOLE / (cost > gain->cost ? cost : gain->cost);
	gain->saved += ((int)saved - gain->saved) / 4;

	pays = gain->saved > (gain->pays ? MTCOPY_STILL_PAYS : MTCOPY_PAYS);
	if (pays != gain->pays) {
		gain->pays = pays;
		gain->cost = cost;
		gain->shift = 0;
	} else if (gain->shift < MTCOPY_MAX_TRIAL_SHIFT) {
		gain->shift++;
	}
	gain->left = (MTCOPY_TRIAL << gain->shift) + MTCOPY_TRIAL_SHARE *
		     (lost < MTCOPY_MAX_LOST ? lost : MTCOPY_MAX_LOST);
}

#endif /* _MTCOPY_SPLIT_H */
