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

/* How long to avoid a helper that copied nothing; doubled each time. */
#define MTCOPY_REST_NS		1000000ULL
#define MTCOPY_MAX_REST_SHIFT	7

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
 * struct mtcopy_rest - how long to avoid a helper
 * @until: when the helper may be asked again, in ns
 * @vain: incremented when the helper copied nothing, halved when it copied
 */
struct mtcopy_rest {
	__u64 until;
	unsigned int vain;
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
 * mtcopy_rested() - check if a helper may be asked
 * @rest: the state of the helper
 * @now: current time in ns
 *
 * Return: true if the helper copied something when it was last asked, or if that
 * was long enough ago.
 */
static inline bool mtcopy_rested(const struct mtcopy_rest *rest, __u64 now)
{
	return now >= rest->until;
}

/**
 * mtcopy_note() - record whether a helper was useful
 * @rest: the state of the helper
 * @now: current time in ns
 * @helped: whether the helper copied anything
 *
 * A helper on a busy CPU costs the caller a wakeup for nothing, so the caller
 * asks it ever more rarely, down to once in 128 ms. A single success only halves
 * the count: a helper that succeeds now and then is still mostly avoided.
 */
static inline void mtcopy_note(struct mtcopy_rest *rest, __u64 now, bool helped)
{
	if (helped) {
		rest->vain /= 2;
		return;
	}
	rest->until = now + (MTCOPY_REST_NS << rest->vain);
	if (rest->vain < MTCOPY_MAX_REST_SHIFT)
		rest->vain++;
}

#endif /* _MTCOPY_SPLIT_H */
