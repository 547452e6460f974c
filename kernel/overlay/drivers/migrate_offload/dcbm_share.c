// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of dcbm: the share of each channel, the segments of a range and
 * the accounting of completions. Nothing here locks, allocates, or accesses a
 * channel.
 */

#include <linux/minmax.h>
#include <linux/mm.h>

#include "dcbm.h"

/*
 * Granularity of cuts in a large folio. No engine needs an alignment of more than
 * 256 bytes. Whole pages would be too coarse: while one channel of a fast engine
 * copies a page, all others may finish.
 */
#define DCBM_GRAIN		SZ_512

static size_t size_of(const struct dcbm_job *job, unsigned int item)
{
	return folio_size(job->batch->pairs[item].src);
}

/* Return how many bytes of a range its first folio has. */
static size_t in_first(const struct dcbm_job *job, const struct dcbm_range *range)
{
	return min(size_of(job, range->first) - range->offset, range->len);
}

/* Take @len bytes off the beginning of a range. */
static void advance(const struct dcbm_job *job, struct dcbm_range *range,
		    size_t len)
{
	range->len -= len;
	range->offset += len;
	while (range->first < job->batch->nr_pairs &&
	       range->offset >= size_of(job, range->first))
		range->offset -= size_of(job, range->first++);
}

/* Return the bytes left in the current entry, 0 at the end of the list. */
static size_t side_left(const struct dcbm_side *side)
{
	return side->nents ? sg_dma_len(side->sg) - side->offset : 0;
}

static void side_advance(struct dcbm_side *side, size_t len)
{
	side->offset += len;
	if (side->offset < sg_dma_len(side->sg))
		return;

	side->offset = 0;
	if (--side->nents)
		side->sg = sg_next(side->sg);
}

/* Walk over a range, whose bytes are mapped by the two tables. */
void dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_range *range,
		    const struct sg_table *src, const struct sg_table *dst)
{
	walk->src = (struct dcbm_side){ .sg = src->sgl, .nents = src->nents };
	walk->dst = (struct dcbm_side){ .sg = dst->sgl, .nents = dst->nents };
	walk->rest = *range;
}

/*
 * Return the next segment, of at most @max bytes. It ends where the addresses of one
 * side are not contiguous. It may begin and end within folios, and hold several.
 */
struct dcbm_segment dcbm_walk_peek(const struct dcbm_walk *walk, size_t max)
{
	struct dcbm_segment segment = {
		.src = sg_dma_address(walk->src.sg) + walk->src.offset,
		.dst = sg_dma_address(walk->dst.sg) + walk->dst.offset,
		.range = walk->rest,
	};

	segment.range.len = min3(side_left(&walk->src), side_left(&walk->dst),
				 min(walk->rest.len, max));
	return segment;
}

/* Go on after the first @len bytes, which are a segment or a part of it. */
void dcbm_walk_advance(struct dcbm_walk *walk, const struct dcbm_job *job,
		       size_t len)
{
	bool ended;

	side_advance(&walk->src, len);
	side_advance(&walk->dst, len);
	advance(job, &walk->rest, len);
	/* If a list is too short, the rest stays uncopied: no completion covers it. */
	ended = !side_left(&walk->src) || !side_left(&walk->dst);
	if (WARN_ON_ONCE(ended && walk->rest.len))
		walk->rest.len = 0;
}

/*
 * Split the share of the next channel off the bytes that @nr_chans channels
 * without a share divide. Large folios may be cut, order-0 folios are not. The
 * last shares may be empty.
 */
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_chans, struct dcbm_range *share)
{
	size_t even = DIV_ROUND_UP(rest->len, nr_chans);
	size_t len = min(ALIGN(even, DCBM_GRAIN), rest->len);

	*share = *rest;
	share->len = 0;
	while (share->len < len) {
		size_t step = in_first(job, rest);

		if (size_of(job, rest->first) > PAGE_SIZE)
			step = min(step, len - share->len);
		share->len += step;
		advance(job, rest, step);
	}
}

/*
 * Add @len bytes of @folio, from @offset on, to a table, or to its last entry if they
 * are neighbours in physical memory.
 */
void dcbm_add_entry(struct sg_table *table, struct folio *folio, size_t len,
		    size_t offset)
{
	struct scatterlist *sg = &table->sgl[table->orig_nents];

	if (table->orig_nents && sg_phys(&sg[-1]) + sg[-1].length ==
	    PFN_PHYS(folio_pfn(folio)) + offset &&
	    sg[-1].length + len <= DCBM_MAX_MERGED) {
		sg[-1].length += len;
		return;
	}

	sg_unmark_end(sg);
	/* Not sg_set_folio(): an offset in an entry has 32 bits. */
	sg_set_page(sg, folio_page(folio, offset >> PAGE_SHIFT), len,
		    offset_in_page(offset));
	table->orig_nents++;
}

/* All bytes of @range were copied. */
void dcbm_account(struct dcbm_job *job, struct dcbm_range range)
{
	while (range.len) {
		size_t step = in_first(job, &range);

		job->left[range.first] -= step;
		advance(job, &range, step);
	}
}

/*
 * A channel may still access @range. All of it is lost, since its mappings can
 * only be undone together.
 */
void dcbm_lose(struct dcbm_job *job, struct dcbm_range range)
{
	while (range.len) {
		__set_bit(range.first, job->lost);
		advance(job, &range, in_first(job, &range));
	}
}

/*
 * Return what to report of a folio at the end of its job. It is lost if any
 * channel that had a part of it may still access it, however many other parts
 * completed.
 */
enum migrate_offload_status
dcbm_item_status(const struct dcbm_job *job, unsigned int item)
{
	if (test_bit(item, job->lost))
		return MIGRATE_OFFLOAD_LOST;
	if (!job->left[item])
		return MIGRATE_OFFLOAD_DONE;
	if (job->timed_out)
		return MIGRATE_OFFLOAD_TIMEOUT;
	if (job->unreachable)
		return MIGRATE_OFFLOAD_UNREACHABLE;
	return MIGRATE_OFFLOAD_ERROR;
}
