// SPDX-License-Identifier: GPL-2.0
/*
 * Folios move to folios that were allocated in bulk. By every way to migrate they arrive
 * where they should, each of its own size, and what is left of the bulk is freed. Something
 * is left in this memory each time that the order changes, and at the end of each call.
 */
#include "folios.h"

#define TIMEOUT		120
#define ROUNDS		400
#define LARGE		(16 * KIB)
/* The eighth of a kind allocates eight, so that seven are left. */
#define LARGE_FOLIOS	8
/* At either end: the second allocates two, so that one is left. */
#define SMALL_FOLIOS	2
#define FOLIOS		(SMALL_FOLIOS + LARGE_FOLIOS + SMALL_FOLIOS)
/* A page in eight of those that calls could lose of large folios: two folios each. */
#define MOST_LOST	(ROUNDS / 2)

enum caller { MOVE_PAGES, MIGRATE_PAGES, MBIND, MBIND_PREFERRED, MBIND_INTERLEAVE };

/* The memory has large folios between small ones. */
FIXTURE(migrate_spares) { };
FIXTURE_VARIANT(migrate_spares) { enum caller caller; };
FIXTURE_VARIANT_ADD(migrate_spares, move_pages) { MOVE_PAGES };
FIXTURE_VARIANT_ADD(migrate_spares, migrate_pages) { MIGRATE_PAGES };
FIXTURE_VARIANT_ADD(migrate_spares, mbind) { MBIND };
FIXTURE_VARIANT_ADD(migrate_spares, mbind_preferred) { MBIND_PREFERRED };
FIXTURE_VARIANT_ADD(migrate_spares, mbind_interleave) { MBIND_INTERLEAVE };

FIXTURE_SETUP(migrate_spares)
{
	const size_t small = SMALL_FOLIOS * memory_page_size();

	if (!test_begin(_metadata))
		return;
	if (thp_only(LARGE))
		SKIP(return, "no folios of 16 KiB");
	len = small + LARGE_FOLIOS * LARGE + small;
	addr = memory_map_aligned(len + 2 * LARGE, PMD_SIZE);
	ASSERT_NE(NULL, addr);
	ASSERT_EQ(0, munmap(addr, LARGE - small));
	addr += LARGE - small;
	ASSERT_EQ(0, munmap(addr + len, LARGE + small));
	ASSERT_EQ(0, memory_fill(addr, len, LARGE, nodes[0], SEED));
	ASSERT_EQ(FOLIOS, memory_folios(addr, len));
}

FIXTURE_TEARDOWN(migrate_spares) { unmap_folios(); }

static long move_to(enum caller caller, int node)
{
	int other = nodes[node == nodes[0]];
	unsigned long to = 1UL << node, from = 1UL << other;
	int mode = caller == MBIND ? MPOL_BIND :
		   caller == MBIND_PREFERRED ? MPOL_PREFERRED : MPOL_INTERLEAVE;

	if (caller == MOVE_PAGES)
		return memory_move(0, addr, len, memory_page_size(), node, MPOL_MF_MOVE);
	/* All that belongs to this program alone. */
	if (caller == MIGRATE_PAGES)
		return syscall(__NR_migrate_pages, 0, 8 * sizeof(to), &from, &to);
	return syscall(__NR_mbind, addr, len, mode, &to, 8 * sizeof(to),
		       MPOL_MF_MOVE | MPOL_MF_STRICT);
}

TEST_F_TIMEOUT(migrate_spares, arrive_and_are_freed, TIMEOUT)
{
	long before;

	/* Memory that the first moves allocate for good is no loss. */
	for (int i = 0; i < 4; i++)
		ASSERT_LE(0, move_to(variant->caller, nodes[(i + 1) % 2]));
	before = pages_unaccounted();

	for (int i = 0; i < ROUNDS; i++) {
		int node = nodes[(i + 1) % 2];

		ASSERT_LE(0, move_to(variant->caller, node));
		ASSERT_EQ(0, memory_pages_not_on(addr, len, node))
			TH_LOG("in round %d", i);
	}
	EXPECT_GT(MOST_LOST, pages_unaccounted() - before);
	EXPECT_EQ(FOLIOS, memory_folios(addr, len));
	EXPECT_EQ(0, bytes_wrong());
}

TEST_HARNESS_MAIN
