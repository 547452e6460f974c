/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The answer of /dev/page_state about the pages of a process: the bits of their page
 * table entries, which no file in /proc shows, and the folios that they belong to.
 */
#ifndef PAGE_STATE_H
#define PAGE_STATE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/*
 * Each bit with the name that it has in what is printed. First those of the page table entry: one
 * that is not present has none but soft-dirty and what follows.
 */
#define PTE_STATE_BITS(BIT)						\
	BIT(PTE_IS_PRESENT, NULL)					\
	BIT(PTE_IS_HUGE, "pmd")						\
	/* One of several that arm64 maps by one entry. */		\
	BIT(PTE_IS_CONTIGUOUS, "cont")					\
	BIT(PTE_IS_WRITABLE, "write")					\
	BIT(PTE_IS_YOUNG, "young")					\
	BIT(PTE_IS_DIRTY, "dirty")					\
	BIT(PTE_IS_PROTNONE, "protnone")				\
	BIT(PTE_IS_SPECIAL, "special")					\
	BIT(PTE_IS_SOFT_DIRTY, "soft")					\
	BIT(PTE_IS_UFFD, "uffd")					\
	BIT(PTE_IS_SWAP, "swap")					\
	BIT(PTE_IS_MIGRATION, "MIGRATION")				\
	/* Its page has gone bad. */					\
	BIT(PTE_IS_POISON, "poison")					\
	BIT(PTE_IS_MARKER, "marker")					\
	BIT(PTE_IS_SWAP_EXCLUSIVE, "exclusive")

/* Of the page and its folio; the last one: of its contents. */
#define PAGE_STATE_BITS(BIT)						\
	BIT(PAGE_IS_EXCLUSIVE, "exclusive")				\
	BIT(FOLIO_IS_ANON, "anon")					\
	BIT(FOLIO_IS_KSM, "ksm")					\
	BIT(FOLIO_IS_HUGETLB, "hugetlb")				\
	BIT(FOLIO_IS_DIRTY, "fdirty")					\
	BIT(FOLIO_IS_REFERENCED, "referenced")				\
	BIT(FOLIO_IS_ACTIVE, "active")					\
	BIT(FOLIO_IS_MLOCKED, "mlocked")				\
	BIT(FOLIO_IS_UNEVICTABLE, "unevictable")			\
	BIT(FOLIO_IS_SWAPBACKED, "swapbacked")				\
	BIT(FOLIO_IS_SWAPCACHE, "swapcache")				\
	BIT(FOLIO_IS_WORKINGSET, "workingset")				\
	BIT(FOLIO_IS_IDLE, "idle")					\
	BIT(FOLIO_IS_PARTIAL, "partial")				\
	BIT(FOLIO_IS_QUEUED, "queued")					\
	BIT(FOLIO_IS_SHARED, "shared")					\
	BIT(PAGE_IS_ZERO, "zero")

#define PAGE_STATE_NR(bit, ...)	bit##_NR,
#define PAGE_STATE_VALUE(bit, ...)	bit = 1U << bit##_NR,
enum { PTE_STATE_BITS(PAGE_STATE_NR) };
enum { PAGE_STATE_BITS(PAGE_STATE_NR) };
enum { PTE_STATE_BITS(PAGE_STATE_VALUE) PAGE_STATE_BITS(PAGE_STATE_VALUE) };

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
	/* Of the contents, too: a word as the kernel reads it. */
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
 * A migration can be paused half way, while its folios are unmapped: when it moves a folio of the
 * file whose descriptor is the argument. PAGE_STATE_PAUSE_WAIT returns 1 when that has happened,
 * and 0 if PAGE_STATE_PAUSE_END, which lets the migration go on, came first.
 */
#define PAGE_STATE_PAUSE_AT	_IO('p', 0x61)
#define PAGE_STATE_PAUSE_WAIT	_IO('p', 0x62)
#define PAGE_STATE_PAUSE_END	_IO('p', 0x63)

#endif /* PAGE_STATE_H */
