/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How mtcopy cuts a batch into pieces that threads take one by one, and which
 * threads it asks.
 *
 * The kernel, its KUnit tests and tools/mm/mt_bench.c share this file, so it uses
 * nothing of the kernel.
 */
#ifndef _MTCOPY_SPLIT_H
#define _MTCOPY_SPLIT_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

/* The caller and its helpers. */
#define MTCOPY_MAX_THREADS	16

/*
 * Of 4 KB. At the end of a batch a thread waits for the others at most as long as
 * one piece takes. Ranges below 256 KB are copied by slower primitives.
 */
#define MTCOPY_MAX_PIECE	64U
#define MTCOPY_MIN_PIECE	16U
/* Pieces for each thread, if the batch is large enough for that many. */
#define MTCOPY_PIECES		4U

/* What is less than this for each thread is copied before a helper is awake. */
#define MTCOPY_SHARE_PAGES	64U

/* How long a helper is left alone that was asked in vain, doubled each time. */
#define MTCOPY_REST_NS		1000000ULL
#define MTCOPY_MAX_REST_SHIFT	7

/**
 * struct mtcopy_piece - what a thread copies before it comes for more
 * @first: the first folio
 * @nr: the number of folios; if there are several, they are whole
 * @page: where to start in the first folio
 * @nr_pages: how many pages; of all folios together
 */
struct mtcopy_piece {
	unsigned int first;
	unsigned int nr;
	unsigned int page;
	unsigned int nr_pages;
};

/**
 * struct mtcopy_rest - what is known of a helper's readiness
 * @until: when it may be asked again, in ns
 * @vain: grows when it was asked and copied nothing, halved when it copied
 */
struct mtcopy_rest {
	__u64 until;
	unsigned int vain;
};

/**
 * mtcopy_threads() - how many threads are worth their while
 * @nr_pages: size of the batch
 * @max_threads: how many there may be, the caller included
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
 * mtcopy_piece_pages() - how large the pieces of a batch should be
 * @nr_pages: size of the batch
 * @threads: how many threads copy it
 *
 * Return: the most pages of a piece, a power of two.
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
 * @piece_pages: the most pages of a piece
 * @cursor: where the piece starts: 0, or what @next was
 * @piece: the piece, if there is one
 * @next: where the next one starts
 *
 * Large folios are cut, small ones are taken together. A cursor is one word, so
 * that threads can take pieces by exchanging it.
 *
 * Return: true if there was one; false at the end, after reading nothing of @pages.
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
	/* The rest of a folio goes by itself: only whole ones are taken together. */
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
 * mtcopy_rested() - whether to ask a helper
 * @rest: what is known of it
 * @now: the time in ns
 *
 * Return: true if it was of use when it was last asked, or that is long enough ago.
 */
static inline bool mtcopy_rested(const struct mtcopy_rest *rest, __u64 now)
{
	return now >= rest->until;
}

/**
 * mtcopy_note() - remember whether a helper was of use
 * @rest: what is known of it
 * @now: the time in ns
 * @helped: whether it copied anything
 *
 * A helper on a busy processor costs the caller the attempt to wake it. With this
 * it does so ever more rarely, down to once in 128 ms. Even there it gets lucky now
 * and then, which does not change much.
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
