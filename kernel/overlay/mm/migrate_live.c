// SPDX-License-Identifier: GPL-2.0
/*
 * Live copies: the folios of a chunk are write-protected, and copied while they are
 * mapped. Then they are unmapped, and moved, in groups, and inaccessible only for as
 * long as that takes. Pages that were written are copied again in between.
 *
 * All folios of a chunk are locked from their protection to their move. Only
 * MIGRATE_ASYNC steps are taken meanwhile: no wait for locks or writeback.
 */

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <trace/events/migrate.h>

#include "internal.h"
#include "migrate.h"

/* Whether routes copy live; 0: no; 1: large folios; 2: single pages as well */
static u32 migrate_live_folios;

void __init migrate_live_debugfs(struct dentry *dir)
{
	debugfs_create_u32("live", 0644, dir, &migrate_live_folios);
}

/* Limit per TLB flush, for which memory is inaccessible; one larger folio is allowed. */
#define MIGRATE_LIVE_GROUP_PAGES	48
#define MIGRATE_LIVE_GROUP_FOLIOS	24

/* Of a group: a word with a bit for each page of a folio, or all for one folio. */
#define MIGRATE_LIVE_GROUP_WORDS	32
static_assert(MIGRATE_LIVE_GROUP_FOLIOS <= MIGRATE_LIVE_GROUP_WORDS);
static_assert(MIGRATE_LIVE_GROUP_PAGES <= BITS_PER_LONG);

/* Return whether @folio is worth the lock and a closer look. */
static bool folio_looks_live(const struct migrate_route *route, struct folio *folio)
{
	return migrate_route_is_worth(route, folio) &&
	       (folio_test_large(folio) || READ_ONCE(migrate_live_folios) > 1) &&
	       folio_nr_pages(folio) <= MIGRATE_LIVE_GROUP_WORDS * BITS_PER_LONG &&
	       !page_has_movable_ops(&folio->page) && !folio_test_hugetlb(folio) &&
	       folio_test_anon(folio) && folio_ref_count(folio) > 1;
}

/*
 * Whether only page tables refer to @folio, which is anonymous and locked: it is
 * not in the swap cache, and not KSM's.
 */
static bool folio_may_copy_live(struct folio *folio)
{
	return !folio_test_ksm(folio) && !folio_test_swapcache(folio) &&
	       !folio_contain_hwpoisoned_page(folio) &&
	       folio_content_is_bytes(folio);
}

/*
 * Take folios of at least @max_pages from @from, and allocate their dst before
 * any of them is locked. Move folios that cannot be copied live to @rest. One for
 * which there is no memory ends the chunk: it is tried once more, with fewer locked.
 * Return: false if the chunk is empty, and there is no other one.
 */
static bool migrate_chunk_fill(struct migrate_call *call,
			       struct migrate_offload_batch *chunk,
			       struct list_head *from, struct list_head *rest,
			       unsigned int max_pages)
{
	struct folio *src, *src2, *dst;

	chunk->nr_pairs = 0;
	chunk->nr_pages = 0;
	if (!migrate_offload_enabled())
		return false;

	list_for_each_entry_safe(src, src2, from, lru) {
		cond_resched();

		if (!folio_looks_live(&call->route, src)) {
			list_move_tail(&src->lru, rest);
			continue;
		}

		dst = call->get_new_folio(src, call->private);
		if (!dst) {
			list_move_tail(&src->lru, rest);
			migrate_offload_count(&call->route, MIGRATE_OFFLOAD_STAT_LIVE_DECLINED, 1);
			break;
		}
		dst->migrate_info = 0;
		list_del(&src->lru);
		if (migrate_offload_add(chunk, src, dst) || chunk->nr_pages >= max_pages)
			break;
	}

	return chunk->nr_pairs || !list_empty(from);
}

/* Return whether @src and @dst are locked, and @src is protected. */
static bool migrate_protect_folio(struct migrate_call *call, struct folio *src,
				  struct folio *dst, enum ttu_flags ttu)
{
	if (!folio_trylock(src))
		return false;
	if (folio_trylock(dst)) {
		if (folio_may_copy_live(src) && folio_protect_live(src, ttu))
			return true;
		migrate_offload_count(&call->route, MIGRATE_OFFLOAD_STAT_LIVE_DECLINED, 1);
		folio_unlock(dst);
	}
	folio_unlock(src);
	return false;
}

/* Lock and protect the folios of a chunk, which keeps those that it may copy. */
static void migrate_chunk_protect(struct migrate_call *call,
				  struct migrate_offload_batch *chunk,
				  struct list_head *rest)
{
	const unsigned int nr = chunk->nr_pairs;
	unsigned int i;

	chunk->nr_pairs = 0;
	chunk->nr_pages = 0;

	for (i = 0; i < nr; i++) {
		struct folio *src = chunk->pairs[i].src;
		struct folio *dst = chunk->pairs[i].dst;

		cond_resched();

		if (migrate_protect_folio(call, src, dst, TTU_BATCH_FLUSH)) {
			migrate_offload_add(chunk, src, dst);
			continue;
		}
		list_add_tail(&src->lru, rest);
		migrate_folio_undo_dst(dst, false, call->put_new_folio, call->private);
	}

	/* No CPU writes from now on without a fault. */
	try_to_unmap_flush();
	if (chunk->nr_pairs)
		trace_mm_migrate_chunk_protected(MIGRATE_ASYNC, call->reason);
}

/* The CPU copies all folios that the migrator does not copy, live as well. */
static void migrate_chunk_wait(struct migrate_call *call,
			       struct migrate_offload_batch *chunk)
{
	unsigned int i;

	if (call->copying)
		migrate_offload_finish(chunk);
	call->copying = NULL;

	for (i = 0; i < chunk->nr_pairs; i++) {
		struct migrate_offload_pair *pair = &chunk->pairs[i];

		if (pair->status == MIGRATE_OFFLOAD_DONE ||
		    pair->status == MIGRATE_OFFLOAD_LOST)
			continue;
		if (!folio_mc_copy(pair->dst, pair->src))
			pair->status = MIGRATE_OFFLOAD_DONE;
		cond_resched();
	}
}

/* Unmap the folio of @pair into @b. See try_to_migrate_live() for @unwritten. */
static void migrate_pair_unmap(struct migrate_batch *b,
			       struct migrate_offload_pair *pair,
			       unsigned long *unwritten)
{
	struct folio *src = pair->src, *dst = pair->dst;
	int rc = migrate_folio_unmap_live(src, dst, b->ttu, unwritten);

	WRITE_ONCE(src->migrate_info, 0);
	if (rc) {
		pair->status = MIGRATE_OFFLOAD_ERROR;
		folio_unlock(src);
		list_add_tail(&src->lru, b->ret_folios);
		migrate_folio_undo_dst(dst, true, b->call->put_new_folio, b->call->private);
		return;
	}

	trace_mm_migrate_folio_unmapped(src, dst, b->call->reason);
	list_add_tail(&src->lru, &b->src_folios);
	list_add_tail(&dst->lru, &b->dst_folios);
}

/*
 * Copy again all pages that are not in @unwritten, and mark dst: it has what src
 * has now. src is unmapped, and the TLBs are flushed: no CPU writes.
 */
static void migrate_pair_renew(struct migrate_call *call,
			       struct migrate_offload_pair *pair,
			       const unsigned long *unwritten)
{
	const unsigned int nr_pages = folio_nr_pages(pair->src);
	unsigned int i, why = MIGRATE_OFFLOAD_STAT_DECLINED;

	if (pair->status != MIGRATE_OFFLOAD_DONE)
		return;
	if (!migrate_folio_may_copy_early(pair->src, true))
		goto out;

	why = bitmap_full(unwritten, nr_pages) ? MIGRATE_OFFLOAD_STAT_LIVE_COPIED :
						 MIGRATE_OFFLOAD_STAT_LIVE_WRITTEN;
	/* Read no byte before what former holders of references wrote. */
	smp_rmb();
	for_each_clear_bit(i, unwritten, nr_pages) {
		if (copy_mc_highpage(folio_page(pair->dst, i), folio_page(pair->src, i)))
			goto out;
		cond_resched();
	}
	migrate_folio_set_copied(pair->dst);
out:
	migrate_offload_count(&call->route, why, 1);
}

static void migrate_chunk_move(struct migrate_call *call,
			       struct migrate_offload_batch *chunk,
			       struct list_head *rest,
			       struct migrate_pages_stats *stats)
{
	unsigned int i = 0, k, first, nr_pages;
	struct migrate_pages_stats so_far;

	while (i < chunk->nr_pairs) {
		struct migrate_batch b = {
			.call = call,
			.mode = MIGRATE_ASYNC,
			.nr_pass = NR_MAX_MIGRATE_ASYNC_RETRY,
			.ret_folios = rest,
			.stats = stats,
			.src_folios = LIST_HEAD_INIT(b.src_folios),
			.dst_folios = LIST_HEAD_INIT(b.dst_folios),
			.ttu = TTU_BATCH_FLUSH,
		};
		unsigned long unwritten[MIGRATE_LIVE_GROUP_WORDS] = {};

		trace_mm_migrate_batch_start(b.mode, call->reason);

		first = i;
		nr_pages = 0;
		for (; i < min(first + MIGRATE_LIVE_GROUP_FOLIOS, chunk->nr_pairs); i++) {
			nr_pages += folio_nr_pages(chunk->pairs[i].src);
			if (i > first && nr_pages > MIGRATE_LIVE_GROUP_PAGES)
				break;
			migrate_pair_unmap(&b, &chunk->pairs[i], &unwritten[i - first]);
		}

		/* Folios that cannot be moved now are tried and counted again. */
		so_far = *stats;

		migrate_batch_flush(&b);
		for (k = first; k < i; k++)
			migrate_pair_renew(call, &chunk->pairs[k], &unwritten[k - first]);
		migrate_batch_move(&b);
		migrate_batch_undo(&b);

		stats->nr_failed_pages = so_far.nr_failed_pages;
		stats->nr_thp_failed = so_far.nr_thp_failed;
	}
}

/*
 * Copy live and migrate all folios of @from that may be copied live. The others, and
 * those that could not be moved, stay in @from: they are migrated as without a
 * live route, after this. So no folio is copied live twice.
 */
void migrate_pages_live(struct migrate_call *call, struct list_head *from,
			struct migrate_pages_stats *stats)
{
	struct migrate_offload_batch *chunk;
	const u32 live = READ_ONCE(migrate_live_folios);
	struct folio *src;
	LIST_HEAD(rest);
	bool filled;

	if (!live)
		return;
	list_for_each_entry(src, from, lru) {
		cond_resched();
		if (folio_looks_live(&call->route, src))
			break;
	}
	/* Only now allocate: the CPU copies all folios of most hint faults. */
	chunk = list_entry_is_head(src, from, lru) ? NULL : migrate_offload_begin(&call->route);
	if (!chunk)
		return;

	do {
		filled = migrate_chunk_fill(call, chunk, from, &rest, NR_MAX_BATCHED_MIGRATION);
		migrate_chunk_protect(call, chunk, &rest);
		if (call->route.late)
			migrate_offload_count(&call->route, MIGRATE_OFFLOAD_TIMEOUT,
					      chunk->nr_pairs);
		else if (chunk->nr_pairs && migrate_offload_start(chunk))
			call->copying = chunk;
		migrate_chunk_wait(call, chunk);
		migrate_chunk_move(call, chunk, &rest, stats);
	} while (filled);

	migrate_offload_end(chunk);
	list_splice(&rest, from);
}
