// SPDX-License-Identifier: GPL-2.0
/*
 * What dcbm computes: the share of each channel, the segments of a range, what a
 * completion is worth. No locks, no channels, no memory of its own.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mm.h>

#include <kunit/visibility.h>

#include "dcbm.h"

/* A descriptor takes at most 1/9 of the time of a segment of its own. */
#define DCBM_WORTH		8
#define DCBM_MIN_SEGMENT	SZ_16K
#define DCBM_MAX_SEGMENT	SZ_2M
#define DCBM_DEFAULT_SEGMENT	SZ_64K

/*
 * Where a large folio may be cut. No engine asks for more than 256 bytes; while a
 * channel of a fast one copies a page all others may be done.
 */
#define DCBM_GRAIN		SZ_512

/**
 * dcbm_reaches() - does an engine reach a piece of memory without a detour?
 * @first: its first address, all ones if the device has no address for it
 * @size: its size in bytes, more than one
 * @reach: the last address that the engine reaches, 0 if it reaches nothing
 *
 * Return: true if it does
 */
bool dcbm_reaches(dma_addr_t first, size_t size, dma_addr_t reach)
{
	return size - 1 <= reach && first <= reach - (size - 1);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_reaches);

/* Bytes that are left in the current entry; 0 at the end. */
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
 * @job: whose folios they are
 * @range: the bytes to walk over
 * @src_sg: mapped scatterlist of the sources of these bytes
 * @src_nents: number of its entries as mapped
 * @dst_sg: the same for the destinations
 * @dst_nents: the same for the destinations
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
 * dcbm_walk_next() - take the next segment of a walk
 * @walk: the walk
 * @segment: the segment, if there is one
 *
 * A segment never crosses the border of a folio, so that each completion
 * vouches for bytes of one folio.
 *
 * Return: true if there was one; false at the end.
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
	/* Lists that are too short leave folios that nobody vouches for. */
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
 * dcbm_nr_lanes() - how many channels are worth their while
 * @bytes: how much is to be copied
 * @segment_bytes: the least that is worth a descriptor
 * @max: at most this many, not 0
 *
 * Return: the number of channels; each gets @segment_bytes or more, but for a
 * single one.
 */
unsigned int dcbm_nr_lanes(size_t bytes,
			   unsigned int segment_bytes,
			   unsigned int max)
{
	return clamp(bytes / segment_bytes, 1, max);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_nr_lanes);

/**
 * dcbm_share() - take the share of the next channel off a range
 * @job: whose folios they are
 * @rest: what no channel has so far, not empty; less the share on return
 * @nr_lanes: number of channels that are left
 * @lead: what a channel copies before the next one is started
 * @share: the share
 *
 * A large folio may be cut, unless the job is to leave it whole; a page is not worth
 * two descriptors. Each share is larger by @lead than the next one, so that all
 * channels end at a time. The last ones may be empty.
 */
void dcbm_share(const struct dcbm_job *job, struct dcbm_range *rest,
		unsigned int nr_lanes, size_t lead, struct dcbm_range *share)
{
	size_t even = DIV_ROUND_UP(rest->len, nr_lanes);
	size_t len = ALIGN(even, DCBM_GRAIN);

	/* Half of the share is the most that a measurement may be wrong by. */
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
 * dcbm_lead() - what a channel copies before the next one is started
 * @step_ns: the time from the start of a channel to that of the next
 * @copy_ns: the time that all channels took, from the start of the last one
 * @bytes: what they copied
 * @nr_lanes: how many they were
 *
 * Return: a number of bytes
 */
size_t dcbm_lead(u64 step_ns, u64 copy_ns, size_t bytes, unsigned int nr_lanes)
{
	/* About half of the starting time counts for all channels. */
	copy_ns += step_ns * nr_lanes / 2;
	if (!copy_ns || !nr_lanes)
		return 0;

	return div64_u64(step_ns * (bytes / nr_lanes), copy_ns);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_lead);

/**
 * dcbm_completed() - judge a completion
 * @slot: a slot whose callback was called; its error is set if there was one
 * @status: what the provider says of the slot's cookie
 *
 * After a termination only what completed before counts: some providers call
 * back for descriptors that they were told to drop, and call that a success.
 *
 * Return: true if the descriptor is not in flight any more; false if the
 * callback was one of an earlier use of the slot.
 */
bool dcbm_completed(struct dcbm_slot *slot,
		    enum dma_status status)
{
	/* What a quarantined lane had is lost, whatever becomes of it. */
	if (slot->lane->terminated || slot->lane->quarantined) {
		slot->error = true;
		return true;
	}

	/* Some providers report an error here and nowhere else. */
	if (status == DMA_ERROR)
		slot->error = true;

	return status != DMA_IN_PROGRESS;
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_completed);

/**
 * dcbm_account() - account for a completion
 * @job: the job of the slot
 * @slot: a slot that is not in flight any more
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
 * dcbm_lose() - a channel may still write to a range
 * @job: the job
 * @range: what the channel had: its mappings live and die together
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
 * dcbm_item_status() - what became of a folio, when its job is done
 * @job: the job
 * @item: the folio
 *
 * One segment on a channel that may still write loses the folio, however many
 * others completed.
 *
 * Return: what to report.
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
 * dcbm_worthwhile() - the least that is worth a descriptor of its own
 * @one_ns: time of one small copy
 * @many_ns: time of several at once, on one channel
 * @many: how many
 * @large_ns: time of one large copy
 * @small: bytes of a small copy
 * @large: bytes of a large copy
 *
 * What all three have in common, the interrupt above all, cancels out. What is
 * left may be less than the noise: of the bytes, or of the descriptors, but not
 * of both.
 *
 * Return: a number of bytes, within bounds; a default if the times make no
 * sense.
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
	/* of a small copy's bytes alone */
	bytes_ns = div64_u64((large_ns - one_ns) * small, large - small);
	if (each_ns <= bytes_ns)
		return DCBM_MIN_SEGMENT;

	segment = div64_u64(DCBM_WORTH * (each_ns - bytes_ns) *
			    (large - small), large_ns - one_ns);
	return clamp(segment, DCBM_MIN_SEGMENT, DCBM_MAX_SEGMENT);
}
EXPORT_SYMBOL_IF_KUNIT(dcbm_worthwhile);
