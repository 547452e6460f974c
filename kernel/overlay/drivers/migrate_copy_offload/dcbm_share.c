// SPDX-License-Identifier: GPL-2.0
/*
 * The arithmetic of dcbm: the share of each channel, the segments of a range and
 * the accounting of completions. Nothing here locks, allocates, or accesses a
 * channel.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* Overhead limit: a segment's bytes take at least 8 times its descriptor's time. */
#define DCBM_WORTH		8
#define DCBM_MIN_SEGMENT	SZ_16K
#define DCBM_MAX_SEGMENT	SZ_2M
#define DCBM_DEFAULT_SEGMENT	SZ_64K

/*
 * Granularity of cuts in a large folio. No engine needs an alignment of more than
 * 256 bytes. Whole pages would be too coarse: while one channel of a fast engine
 * copies a page, all others may finish.
 */
#define DCBM_GRAIN		SZ_512

/**
 * dcbm_reaches() - check if an engine can access memory without a bounce buffer
 * @first: first DMA address of the memory, all ones if the device has none for it
 * @size: size in bytes, more than one
 * @reach: last DMA address the engine can access, 0 if it can access none
 *
 * Return: true if the engine can access all of it
 */
bool dcbm_reaches(dma_addr_t first, size_t size, dma_addr_t reach)
{
	return size - 1 <= reach && first <= reach - (size - 1);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_reaches);

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

/**
 * dcbm_walk_init() - start a walk over a range
 * @walk: the walk
 * @job: the job that @range belongs to
 * @range: the bytes to walk over
 * @src_sg: mapped scatterlist of the source of these bytes
 * @src_nents: number of entries of @src_sg after mapping
 * @dst_sg: mapped scatterlist of the destination of these bytes
 * @dst_nents: number of entries of @dst_sg after mapping
 */
void
dcbm_walk_init(struct dcbm_walk *walk, const struct dcbm_job *job,
	       const struct dcbm_range *range, struct scatterlist *src_sg,
	       unsigned int src_nents, struct scatterlist *dst_sg,
	       unsigned int dst_nents)
{
	walk->src = (struct dcbm_side){ .sg = src_sg, .nents = src_nents };
	walk->dst = (struct dcbm_side){ .sg = dst_sg, .nents = dst_nents };
	walk->job = job;
	walk->item = range->first;
	walk->offset = range->offset;
	walk->left = range->len;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_init);

/**
 * dcbm_walk_next() - get the next segment of a walk
 * @walk: the walk
 * @segment: set to the segment, if there is one
 *
 * A segment never crosses a folio boundary, so each completion covers bytes of
 * one folio.
 *
 * Return: true if there was a segment, false at the end.
 */
bool dcbm_walk_next(struct dcbm_walk *walk,
		    struct dcbm_segment *segment)
{
	size_t size, len;

	if (!walk->left)
		return false;

	size = folio_size(dcbm_src(walk->job, walk->item));
	len = min3(side_left(&walk->src), side_left(&walk->dst),
		   min(size - walk->offset, walk->left));
	/* If a list is too short, the rest stays uncopied: no completion covers it. */
	if (WARN_ON_ONCE(!len))
		return false;

	segment->src = sg_dma_address(walk->src.sg) + walk->src.offset;
	segment->dst = sg_dma_address(walk->dst.sg) + walk->dst.offset;
	segment->len = len;
	segment->item = walk->item;
	segment->offset = walk->offset;

	side_advance(&walk->src, len);
	side_advance(&walk->dst, len);
	walk->left -= len;
	walk->offset += len;
	if (walk->offset == size) {
		walk->offset = 0;
		walk->item++;
	}

	return true;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_walk_next);

/**
 * dcbm_nr_lanes() - calculate how many channels are worth using
 * @bytes: number of bytes to copy
 * @segment_bytes: fewest bytes worth a descriptor
 * @max: maximum number of channels, not 0
 *
 * Return: the number of channels. If more than one, each gets @segment_bytes or
 * more on average.
 */
unsigned int dcbm_nr_lanes(size_t bytes,
			   unsigned int segment_bytes,
			   unsigned int max)
{
	return clamp(bytes / segment_bytes, 1, max);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_nr_lanes);

/**
 * dcbm_share() - split the share of the next channel off a range
 * @job: the job that the range belongs to
 * @rest: the bytes not yet assigned to a channel; reduced by the share
 * @nr_lanes: number of channels without a share
 * @lead: bytes that a channel copies before the next one starts
 * @share: set to the share
 *
 * Large folios may be cut, unless the job keeps folios whole; order-0 folios are
 * never cut. Each share is about @lead larger than the next one, so that all
 * channels finish at the same time. The last shares may be empty.
 */
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_lanes, size_t lead, struct dcbm_range *share)
{
	size_t even = DIV_ROUND_UP(rest->len, nr_lanes);
	size_t len = ALIGN(even, DCBM_GRAIN);

	/* Limit the lead to half of a share in case it was measured badly. */
	len += round_down(min(lead * (nr_lanes - 1) / 2, even / 2), DCBM_GRAIN);
	len = min(len, rest->len);
	*share = *rest;
	share->len = 0;
	while (share->len < len) {
		size_t size = folio_size(dcbm_src(job, rest->first));
		size_t step = size - rest->offset;

		if (!job->whole && size > PAGE_SIZE)
			step = min(step, len - share->len);
		share->len += step;
		rest->len -= step;
		rest->offset += step;
		if (rest->offset == size) {
			rest->offset = 0;
			rest->first++;
		}
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_share);

/**
 * dcbm_lead() - calculate what a channel copies before the next one starts
 * @step_ns: time from the start of one channel to the start of the next
 * @copy_ns: time from the start of the last channel to the end of the job
 * @bytes: bytes that all channels copied together
 * @nr_lanes: number of channels
 *
 * Return: a number of bytes
 */
size_t dcbm_lead(u64 step_ns, u64 copy_ns, size_t bytes, unsigned int nr_lanes)
{
	/* On average a channel also copies during half of the starting time. */
	copy_ns += step_ns * nr_lanes / 2;
	if (!copy_ns || !nr_lanes)
		return 0;

	return div64_u64(step_ns * (bytes / nr_lanes), copy_ns);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_lead);

/**
 * dcbm_judge() - judge a completion
 * @slot: a slot whose callback ran; its error is set if there was one
 * @status: what the provider says of the slot's cookie
 *
 * No completion after a termination counts as a success: some providers call
 * back for descriptors that they dropped, and report success.
 *
 * Return: false if the provider contradicts itself: it called back, and says
 * that the descriptor is in progress
 */
bool dcbm_judge(struct dcbm_slot *slot, enum dma_status status)
{
	/* The folios of a quarantined lane stay lost even if it completes. */
	if (slot->lane->terminated || slot->lane->quarantined) {
		slot->error = true;
		return true;
	}

	/* Some providers report an error here and nowhere else. */
	if (status == DMA_ERROR || status == DMA_IN_PROGRESS)
		slot->error = true;

	return status != DMA_IN_PROGRESS;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_judge);

/**
 * dcbm_account() - account for a completion
 * @job: the job of the slot
 * @slot: a slot that is no longer in flight
 */
void dcbm_account(struct dcbm_job *job,
		  const struct dcbm_slot *slot)
{
	size_t offset = slot->range.offset, left = slot->range.len;
	unsigned int item = slot->range.first;

	if (slot->error)
		return;

	while (left) {
		size_t size = folio_size(dcbm_src(job, item));
		size_t step = min(size - offset, left);

		job->left[item] -= step;
		left -= step;
		offset = 0;
		item++;
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_account);

/**
 * dcbm_lose() - mark the folios of a range as lost
 * @job: the job
 * @range: the range of a channel that may still access it. The whole range is
 *	lost, since its mappings can only be undone together.
 */
void dcbm_lose(struct dcbm_job *job,
	       const struct dcbm_range *range)
{
	size_t offset = range->offset, left = range->len;
	unsigned int item = range->first;

	while (left) {
		size_t step = min(folio_size(dcbm_src(job, item)) - offset,
				  left);

		__set_bit(item, job->lost);
		left -= step;
		offset = 0;
		item++;
	}
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_lose);

/**
 * dcbm_item_status() - return the status of a folio at the end of its job
 * @job: the job
 * @item: index of the folio in the job
 *
 * A folio is lost if any channel that had a part of it may still access it,
 * however many other parts completed.
 *
 * Return: the status to report
 */
enum migrate_copy_status
dcbm_item_status(const struct dcbm_job *job, unsigned int item)
{
	if (test_bit(item, job->lost))
		return MIGRATE_COPY_LOST;
	if (!job->left[item])
		return MIGRATE_COPY_DONE;
	if (job->timed_out)
		return MIGRATE_COPY_TIMEOUT;
	return MIGRATE_COPY_ERROR;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_item_status);

/**
 * dcbm_worthwhile() - calculate the fewest bytes worth a descriptor
 * @one_ns: time of one small copy
 * @many_ns: time of @many small copies submitted together on one channel
 * @many: number of small copies
 * @large_ns: time of one large copy
 * @small: bytes of a small copy
 * @large: bytes of a large copy
 *
 * The differences between the times cancel out what all three have in common,
 * mainly the interrupt. One of the differences, of the bytes or of the
 * descriptors, may be too small to measure, but not both.
 *
 * Return: a number of bytes between %DCBM_MIN_SEGMENT and %DCBM_MAX_SEGMENT, or
 * %DCBM_DEFAULT_SEGMENT if the times make no sense.
 */
unsigned int
dcbm_worthwhile(u64 one_ns, u64 many_ns, unsigned int many, u64 large_ns,
		size_t small, size_t large)
{
	u64 bytes_ns, each_ns, segment;

	if (!one_ns || many < 2 || large <= small ||
	    (many_ns <= one_ns && large_ns <= one_ns))
		return DCBM_DEFAULT_SEGMENT;
	if (many_ns <= one_ns)
		return DCBM_MIN_SEGMENT;
	if (large_ns <= one_ns)
		return DCBM_MAX_SEGMENT;

	each_ns = div_u64(many_ns - one_ns, many - 1);
	/* time of the bytes of a small copy, without its descriptor */
	bytes_ns = div64_u64((large_ns - one_ns) * small, large - small);
	if (each_ns <= bytes_ns)
		return DCBM_MIN_SEGMENT;

	segment = div64_u64(DCBM_WORTH * (each_ns - bytes_ns) *
			    (large - small), large_ns - one_ns);
	return clamp(segment, DCBM_MIN_SEGMENT, DCBM_MAX_SEGMENT);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_worthwhile);
