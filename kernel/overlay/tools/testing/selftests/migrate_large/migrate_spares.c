// SPDX-License-Identifier: GPL-2.0
/*
 * Folios move to folios that were allocated in bulk. By every way to migrate they arrive
 * where they should, each of its own size, and what is left of the bulk is freed. Something
 * is left in this memory each time that the order changes, and at the end of each call.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

#define TIMEOUT		120
#define SEED		29
#define ROUNDS		400
#define LARGE		(16 * KIB)
/* The eighth of a kind allocates eight, so that seven are left. */
#define LARGE_FOLIOS	8
/* At either end: the second allocates two, so that one is left. */
#define SMALL_FOLIOS	2
#define FOLIOS		(SMALL_FOLIOS + LARGE_FOLIOS + SMALL_FOLIOS)
/* A page in eight of those that calls could lose of large folios: two folios each. */
#define MOST_LOST	(ROUNDS / 2)

enum caller {
	MOVE_PAGES,
	MIGRATE_PAGES,
	MBIND,
	MBIND_PREFERRED,
	MBIND_INTERLEAVE,
};

FIXTURE(migrate_spares)
{
	/* Large folios between small ones. */
	char *addr;
	size_t len;
	size_t page;
	int nodes[2];
};

FIXTURE_VARIANT(migrate_spares)
{
	enum caller caller;
};

FIXTURE_VARIANT_ADD(migrate_spares, move_pages) { .caller = MOVE_PAGES, };
FIXTURE_VARIANT_ADD(migrate_spares, migrate_pages) { .caller = MIGRATE_PAGES, };
FIXTURE_VARIANT_ADD(migrate_spares, mbind) { .caller = MBIND, };
FIXTURE_VARIANT_ADD(migrate_spares, mbind_preferred) { .caller = MBIND_PREFERRED, };
FIXTURE_VARIANT_ADD(migrate_spares, mbind_interleave) { .caller = MBIND_INTERLEAVE, };

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
}

FIXTURE_SETUP(migrate_spares)
{
	size_t small;

	settings_restore();
	if (!memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes with memory");
	if (access(THP_DIR "/hugepages-16kB/enabled", W_OK))
		SKIP(return, "no folios of 16 KiB");
	numa_balancing_off();
	ASSERT_EQ(0, thp_only(LARGE));
	self->page = memory_page_size();
	small = SMALL_FOLIOS * self->page;
	self->len = small + LARGE_FOLIOS * LARGE + small;
	self->addr = memory_map_aligned(self->len + 2 * LARGE, PMD_SIZE);
	ASSERT_NE(NULL, self->addr);
	ASSERT_EQ(0, munmap(self->addr, LARGE - small));
	self->addr += LARGE - small;
	ASSERT_EQ(0, munmap(self->addr + self->len, LARGE + small));
	ASSERT_EQ(0, memory_fill(self->addr, self->len, LARGE, self->nodes[0], SEED));
	ASSERT_EQ(FOLIOS, memory_folios(self->addr, self->len));
}

FIXTURE_TEARDOWN(migrate_spares)
{
	munmap(self->addr, self->len);
	settings_restore();
}

static long move_to(FIXTURE_DATA(migrate_spares) *self, enum caller caller, int node)
{
	int other = self->nodes[node == self->nodes[0]];
	unsigned long to = 1UL << node, from = 1UL << other;
	int mode = caller == MBIND ? MPOL_BIND :
		   caller == MBIND_PREFERRED ? MPOL_PREFERRED : MPOL_INTERLEAVE;

	if (caller == MOVE_PAGES)
		return memory_move(0, self->addr, self->len, self->page, node, MPOL_MF_MOVE);
	/* All that belongs to this program alone. */
	if (caller == MIGRATE_PAGES)
		return syscall(__NR_migrate_pages, 0, 8 * sizeof(to), &from, &to);
	return syscall(__NR_mbind, self->addr, self->len, mode, &to, 8 * sizeof(to),
		       MPOL_MF_MOVE | MPOL_MF_STRICT);
}

TEST_F_TIMEOUT(migrate_spares, arrive_and_are_freed, TIMEOUT)
{
	long before;

	/* What the first moves allocate for good is no loss. */
	for (int i = 0; i < 4; i++)
		ASSERT_LE(0, move_to(self, variant->caller, self->nodes[(i + 1) % 2]));
	before = pages_unaccounted();

	for (int i = 0; i < ROUNDS; i++) {
		int node = self->nodes[(i + 1) % 2];

		ASSERT_LE(0, move_to(self, variant->caller, node));
		ASSERT_EQ(0, memory_pages_not_on(self->addr, self->len, node))
			TH_LOG("in round %d", i);
	}
	EXPECT_GT(MOST_LOST, pages_unaccounted() - before);
	EXPECT_EQ(FOLIOS, memory_folios(self->addr, self->len));
	EXPECT_EQ(0, memory_verify(self->addr, self->len, SEED));
}

TEST_HARNESS_MAIN
