/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A call of migrate_pages() and its batches, for the files that implement it.
 */
#ifndef __MM_MIGRATE_H
#define __MM_MIGRATE_H

#include <linux/huge_mm.h>
#include <linux/list.h>
#include <linux/migrate.h>
#include <linux/rmap.h>

#include "migrate_offload.h"

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#define NR_MAX_BATCHED_MIGRATION	HPAGE_PMD_NR
#else
#define NR_MAX_BATCHED_MIGRATION	512
#endif
#define NR_MAX_MIGRATE_PAGES_RETRY	10
#define NR_MAX_MIGRATE_ASYNC_RETRY	3
#define NR_MAX_MIGRATE_SYNC_RETRY					\
	(NR_MAX_MIGRATE_PAGES_RETRY - NR_MAX_MIGRATE_ASYNC_RETRY)

struct migrate_pages_stats {
	/* Normal and large folios migrated successfully, in units of base pages */
	int nr_succeeded;
	/* Normal and large folios failed to be migrated, in base pages; not untried ones */
	int nr_failed_pages;
	int nr_thp_succeeded;	/* THP migrated successfully */
	int nr_thp_failed;	/* THP failed to be migrated */
	int nr_thp_split;	/* THP split before migrating */
	int nr_split;	/* Large folio (include THP) split before migrating */
};

/* State that all batches of a call of migrate_pages() share. */
struct migrate_call {
	new_folio_t *get_new_folio;
	free_folio_t *put_new_folio;	/* NULL: folio_put() */
	unsigned long private;		/* for both callbacks */
	enum migrate_reason reason;
	struct migrate_route route;
};

/*
 * Folios that are unmapped together and share one TLB flush. The steps are
 * migrate_batch_unmap(), _flush(), _copy(), _move() and, for folios that were
 * not moved, _undo().
 */
struct migrate_batch {
	struct migrate_call *call;
	enum migrate_mode mode;
	int nr_pass;			/* attempts to unmap, and to move, a folio */
	struct list_head *ret_folios;	/* receives permanent failures */
	struct list_head *split_folios;	/* receives the parts of folios that were split */
	struct migrate_pages_stats *stats;
	struct list_head src_folios;	/* locked and unmapped */
	struct list_head dst_folios;	/* locked, in step with @src_folios */
	enum ttu_flags ttu;		/* how to flush unmapped folios */
	int nr_failed;

	/* Folios that the current pass leaves for the next one. */
	int retry;
	int thp_retry;
	int nr_retry_pages;
};

/* mm/migrate_offload.c */
void migrate_batch_copy(struct migrate_batch *b);

#endif /* __MM_MIGRATE_H */
