/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What /dev/page_state tells about the pages of a process: the bits of their page
 * table entries, which no file in /proc shows, and the folios that they belong to.
 */
#ifndef PAGE_STATE_H
#define PAGE_STATE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Of the page table entry. An entry that is not present has none but soft-dirty
 * and what follows.
 */
#define PTE_IS_PRESENT		(1U << 0)
#define PTE_IS_HUGE		(1U << 1)	/* a PMD */
#define PTE_IS_WRITABLE		(1U << 2)
#define PTE_IS_YOUNG		(1U << 3)
#define PTE_IS_DIRTY		(1U << 4)
#define PTE_IS_PROTNONE		(1U << 5)
#define PTE_IS_SPECIAL		(1U << 6)
#define PTE_IS_SOFT_DIRTY	(1U << 7)
#define PTE_IS_UFFD		(1U << 8)
#define PTE_IS_SWAP		(1U << 9)
#define PTE_IS_MIGRATION	(1U << 10)
#define PTE_IS_POISON		(1U << 11)	/* its page has gone bad */
#define PTE_IS_MARKER		(1U << 12)
#define PTE_IS_SWAP_EXCLUSIVE	(1U << 13)
#define PTE_IS_CONTIGUOUS	(1U << 14)	/* one of several that arm64 maps by one entry */

/* Of the page and its folio. */
#define PAGE_IS_EXCLUSIVE	(1U << 0)	/* PageAnonExclusive() */
#define FOLIO_IS_ANON		(1U << 1)
#define FOLIO_IS_KSM		(1U << 2)
#define FOLIO_IS_HUGETLB	(1U << 3)
#define FOLIO_IS_DIRTY		(1U << 4)
#define FOLIO_IS_REFERENCED	(1U << 5)
#define FOLIO_IS_ACTIVE		(1U << 6)
#define FOLIO_IS_MLOCKED	(1U << 7)
#define FOLIO_IS_UNEVICTABLE	(1U << 8)
#define FOLIO_IS_SWAPBACKED	(1U << 9)
#define FOLIO_IS_SWAPCACHE	(1U << 10)
#define FOLIO_IS_WORKINGSET	(1U << 11)
#define FOLIO_IS_IDLE		(1U << 12)
#define FOLIO_IS_PARTIAL	(1U << 13)	/* marked partially mapped */
#define FOLIO_IS_QUEUED		(1U << 14)	/* for a deferred split */
#define FOLIO_IS_SHARED		(1U << 15)	/* folio_maybe_mapped_shared() */
#define PAGE_IS_ZERO		(1U << 16)	/* as its contents are */

#define PAGE_STATE_WORD		7

struct page_state {
	__u32 pte;
	__u32 page;
	__u64 folio_pfn;
	__u32 index;	/* in its folio */
	__u32 order;
	__s32 mapcount;
	__s32 entire_mapcount;
	__s32 large_mapcount;
	__s32 nr_pages_mapped;
	__s32 node;
	/* References to the folio that page tables and the page cache do not explain. */
	__s32 extra_refs;
	__u32 reserved;
	/* Of the contents, also of a file's page that is not mapped; 0 for zeros. */
	__u32 hash;
	/* Of the contents, too: what the kernel sees there. */
	__u64 word;
};

struct page_state_query {
	__s32 pid;
	__u32 nr;
	__u64 start;
	__u64 states;	/* struct page_state [nr] */
};

#define PAGE_STATE_GET	_IOW('p', 0x60, struct page_state_query)

/*
 * A migration can be paused half way, while its folios are unmapped: when it moves a
 * folio of the file whose descriptor is the argument. PAGE_STATE_PAUSE_WAIT returns 1
 * when that has happened, and 0 if PAGE_STATE_PAUSE_END, which lets the migration go
 * on, came first.
 */
#define PAGE_STATE_PAUSE_AT	_IO('p', 0x61)
#define PAGE_STATE_PAUSE_WAIT	_IO('p', 0x62)
#define PAGE_STATE_PAUSE_END	_IO('p', 0x63)

#endif /* PAGE_STATE_H */
