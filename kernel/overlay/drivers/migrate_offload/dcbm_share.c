// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of dcbm: the share of each channel, the segments of a range and
 * the accounting of completions. Nothing here locks, allocates, or accesses a
 * channel.
 */

#include <linux/minmax.h>
#include <linux/mm.h>

#include <kunit/visibility.h>

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

/* Walk over a range, whose bytes are mapped by the two lists. */
void dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_range *range,
		    struct scatterlist *src_sg, unsigned int src_nents,
		    struct scatterlist *dst_sg, unsigned int dst_nents)
{
	walk->src = (struct dcbm_side){ .sg = src_sg, .nents = src_nents };
	walk->dst = (struct dcbm_side){ .sg = dst_sg, .nents = dst_nents };
	walk->rest = *range;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_init);

/*
 * Return true and the next segment, or false at the end. A segment ends where the
 * addresses of one side are not contiguous. It may begin and end within folios,
 * and hold several.
 */
bool dcbm_walk_next(struct dcbm_walk *walk, const struct dcbm_job *job,
		    struct dcbm_segment *segment)
{
	size_t len;

	if (!walk->rest.len)
		return false;

	len = min3(side_left(&walk->src), side_left(&walk->dst),
		   walk->rest.len);
	/* If a list is too short, the rest stays uncopied: no completion covers it. */
	if (WARN_ON_ONCE(!len))
		return false;

	segment->src = sg_dma_address(walk->src.sg) + walk->src.offset;
	segment->dst = sg_dma_address(walk->dst.sg) + walk->dst.offset;
	segment->range = walk->rest;
	segment->range.len = len;

	side_advance(&walk->src, len);
	side_advance(&walk->dst, len);
	advance(job, &walk->rest, len);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_next);

/* Cut @len bytes off the beginning of a segment, and return them. */
struct dcbm_segment dcbm_cut(const struct dcbm_job *job,
			     struct dcbm_segment *segment, size_t len)
{
	struct dcbm_segment part = *segment;

	part.range.len = len;
	segment->src += len;
	segment->dst += len;
	advance(job, &segment->range, len);
	return part;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_cut);

/*
 * Return how many channels are worth using: if more than one, each gets
 * @segment_bytes or more on average.
 */
unsigned int dcbm_nr_lanes(size_t bytes, size_t segment_bytes, unsigned int max)
{
	return clamp(bytes / segment_bytes, 1, max);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_nr_lanes);

/*
 * Split the share of the next channel off the bytes that @nr_lanes channels
 * without a share divide. Large folios may be cut, unless the job keeps folios
 * whole; order-0 folios are never cut. The last shares may be empty.
 */
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_lanes, struct dcbm_range *share)
{
	size_t even = DIV_ROUND_UP(rest->len, nr_lanes);
	size_t len = min(ALIGN(even, DCBM_GRAIN), rest->len);

	*share = *rest;
	share->len = 0;
	while (share->len < len) {
		size_t size = size_of(job, rest->first);
		size_t step = size - rest->offset;

		if (!job->whole && size > PAGE_SIZE)
			step = min(step, len - share->len);
		share->len += step;
		advance(job, rest, step);
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_share);

/*
 * Add @len bytes of @folio, from @offset on, to the @nents entries of a table, or
 * to its last entry if they are neighbours in physical memory and @merge is set.
 * Return the new number of entries.
 */
unsigned int dcbm_add_entry(struct scatterlist *table, unsigned int nents,
			    struct folio *folio, size_t len, size_t offset,
			    bool merge)
{
	if (nents && merge) {
		struct scatterlist *last = &table[nents - 1];

		if (sg_phys(last) + last->length ==
		    PFN_PHYS(folio_pfn(folio)) + offset &&
		    last->length + len <= DCBM_MAX_MERGED) {
			last->length += len;
			return nents;
		}
	}

	sg_unmark_end(&table[nents]);
	/* Not sg_set_folio(): an offset in an entry has 32 bits. */
	sg_set_page(&table[nents], folio_page(folio, offset >> PAGE_SHIFT), len,
		    offset_in_page(offset));
	return nents + 1;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_add_entry);

/* All bytes of @range were copied. */
void dcbm_account(struct dcbm_job *job, const struct dcbm_range *range)
{
	struct dcbm_range rest = *range;

	while (rest.len) {
		unsigned int item = rest.first;
		size_t step = min(size_of(job, item) - rest.offset, rest.len);

		job->left[item] -= step;
		advance(job, &rest, step);
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_account);

/*
 * A channel may still access @range. All of it is lost, since its mappings can
 * only be undone together.
 */
void dcbm_lose(struct dcbm_job *job, const struct dcbm_range *range)
{
	struct dcbm_range rest = *range;

	while (rest.len) {
		__set_bit(rest.first, job->lost);
		advance(job, &rest, min(size_of(job, rest.first) - rest.offset,
					rest.len));
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_lose);

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
EXPORT_SYMBOL_IF_KUNIT(dcbm_item_status);
