// SPDX-License-Identifier: GPL-2.0
/*
 * Folios of a few pages side by side are mapped together after they were copied: all of them,
 * where they were, and nothing else, however VMAs, page tables and processes divide them. Those
 * that a child may map as well are mapped one by one.
 */
#include "folios.h"

#define TIMEOUT		60
#define PAGES		160
#define ROUNDS		6
/* The first page of a page table, and of a second VMA: neither begins a run. */
#define TABLE_AT	23
#define VMA_AT		55
/* Of a large folio; of the first one, some pages are before the area. */
#define LARGE_PAGES	4
#define BEFORE		1
#define FILLED		(BEFORE + PAGES + 3)
#define CHILDS_SEED	1000

FIXTURE(migrate_neighbours) { };

static char *map;
static size_t page;
static struct child child;
static bool has_holes;

FIXTURE_VARIANT(migrate_neighbours)
{
	bool two_vmas, holes, forked;
	/* Folios of LARGE_PAGES instead of one; @shifted: page tables divide them. */
	bool large, shifted;
};

#define VARIANT(name, ...)							\
	FIXTURE_VARIANT_ADD(migrate_neighbours, name) { __VA_ARGS__ }

VARIANT(plain);
VARIANT(two_vmas, .two_vmas = true);
VARIANT(holes, .holes = true);
VARIANT(forked, .forked = true);
VARIANT(all, .two_vmas = true, .holes = true, .forked = true);
VARIANT(large, .large = true);
VARIANT(large_shifted, .large = true, .shifted = true);
VARIANT(large_holes, .large = true, .holes = true);
VARIANT(large_forked, .large = true, .forked = true);
VARIANT(large_all, .large = true, .shifted = true, .two_vmas = true, .forked = true);

static bool is_hole(int i)
{
	return has_holes && i % 7 == 5;
}

/* The child writes to some pages, and unmaps others. */
static bool is_childs(int i)
{
	return i % 5 == 3 && i < VMA_AT;
}

static bool is_dropped(int i)
{
	return i % 6 == 2;
}

static char *page_at(int i)
{
	return addr + i * page;
}

/* How many bytes and mappings are wrong. First the child makes some pages its own. */
static size_t use_in_child(void)
{
	static bool used;
	size_t wrong = 0;

	for (int i = 0; !used && i < PAGES; i++) {
		if (is_dropped(i))
			madvise(page_at(i), page, MADV_DONTNEED);
		else if (is_childs(i) && !is_hole(i))
			memory_stamp(page_at(i), page, CHILDS_SEED + i);
	}
	used = true;
	for (int i = 0; i < PAGES; i++) {
		if (is_hole(i) || is_dropped(i))
			wrong += memory_pfn(page_at(i)) != MEMORY_NO_PFN;
		else
			wrong += memory_verify(page_at(i), page,
					       (is_childs(i) ? CHILDS_SEED : SEED) + i);
	}
	return wrong;
}

static void fill_with_small(void)
{
	for (int i = 0; i < PAGES; i++)
		if (!is_hole(i))
			ASSERT_EQ(0, memory_fill(page_at(i), page, page, nodes[0], SEED + i));
}

static void remap(char *to)
{
	ASSERT_EQ(to, mremap(addr, PAGES * page, PAGES * page, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	addr = to;
}

/* Of the first and the last folio only a part stays. */
static void fill_with_large(bool is_shifted)
{
	const size_t size = LARGE_PAGES * page;
	char *filled = page_at(-BEFORE), *shifted = addr - page;

	ASSERT_EQ(0, thp_only(size));
	ASSERT_EQ(0, memory_fill(filled, FILLED * page, size, nodes[0], SEED));
	ASSERT_TRUE(memory_folios_are(filled, FILLED * page, size));
	ASSERT_EQ(0, munmap(filled, BEFORE * page));
	ASSERT_EQ(0, munmap(page_at(PAGES), (FILLED - BEFORE - PAGES) * page));
	if (is_shifted) {
		char *away = memory_map_aligned(PMD_SIZE, PMD_SIZE);

		ASSERT_NE(NULL, away);
		remap(away);
		remap(shifted);
		munmap(away, PMD_SIZE);
	}
	for (int i = 0; i < PAGES; i++) {
		if (is_hole(i))
			madvise(page_at(i), page, MADV_DONTNEED);
		else
			memory_stamp(page_at(i), page, SEED + i);
	}
}

FIXTURE_SETUP(migrate_neighbours)
{
	if (!test_begin(_metadata))
		return;
	has_holes = variant->holes;
	page = memory_page_size();
	map = memory_map_aligned(2 * PMD_SIZE, PMD_SIZE);
	ASSERT_NE(NULL, map);
	addr = map + PMD_SIZE - TABLE_AT * page;
	if (variant->large)
		fill_with_large(variant->shifted);
	else
		fill_with_small();
	if (variant->two_vmas)
		ASSERT_EQ(0, mprotect(page_at(VMA_AT), (PAGES - VMA_AT) * page, PROT_READ));
	if (!variant->forked)
		return;
	ASSERT_EQ(0, memory_bind(nodes[0]));
	fork_child(&child, use_in_child);
	ASSERT_EQ(0, ask_child(&child));
	ASSERT_EQ(0, memory_bind(-1));
}

FIXTURE_TEARDOWN(migrate_neighbours)
{
	end_process(child.pid);
	munmap(map, 2 * PMD_SIZE);
	settings_restore();
}

TEST_F_TIMEOUT(migrate_neighbours, mapped_again, TIMEOUT)
{
	const size_t len = PAGES * page;
	const size_t holes = memory_pages_not_on(addr, len, nodes[0]);

	for (int round = 0; round < ROUNDS; round++) {
		int node = nodes[(round + 1) % 2];

		ASSERT_EQ(holes, memory_move(0, addr, len, page, node, MPOL_MF_MOVE_ALL));
		/* Nothing waits: not even a page that is still unmapped is on the node. */
		ASSERT_EQ(holes, memory_pages_not_on(addr, len, node))
			TH_LOG("in round %d", round);
		for (int i = 0; i < PAGES; i++) {
			ASSERT_EQ(is_hole(i), memory_pfn(page_at(i)) == MEMORY_NO_PFN)
				TH_LOG("page %d in round %d", i, round);
			if (!is_hole(i))
				ASSERT_EQ(0, memory_verify(page_at(i), page, SEED + i));
		}
		/* A folio of which only a part is mapped may be split. */
		if (variant->large && !variant->holes)
			ASSERT_TRUE(memory_folios_are(page_at(LARGE_PAGES - BEFORE),
						      (PAGES - LARGE_PAGES) * page,
						      LARGE_PAGES * page))
				TH_LOG("in round %d", round);
		if (!variant->forked)
			continue;
		memory_move(child.pid, addr, len, page, node, MPOL_MF_MOVE_ALL);
		ASSERT_EQ(0, ask_child(&child)) TH_LOG("in round %d", round);
	}
}

TEST_HARNESS_MAIN
