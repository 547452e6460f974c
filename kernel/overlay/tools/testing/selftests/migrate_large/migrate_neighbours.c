// SPDX-License-Identifier: GPL-2.0
/*
 * Folios of a few pages side by side are mapped together after they were copied: all of them,
 * where they were, and nothing else, however VMAs, page tables and processes divide them. Those
 * that a child may map as well are mapped one by one.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

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
#define SEED		100
#define CHILDS_SEED	1000

FIXTURE(migrate_neighbours)
{
	char *map;
	char *addr;
	size_t page;
	int nodes[2];
	pid_t child;
	int orders[2];
	int reports[2];
};

FIXTURE_VARIANT(migrate_neighbours)
{
	bool two_vmas;
	bool holes;
	bool forked;
	/* Folios of LARGE_PAGES instead of one; @shifted: page tables divide them. */
	bool large;
	bool shifted;
};

FIXTURE_VARIANT_ADD(migrate_neighbours, plain) { };
FIXTURE_VARIANT_ADD(migrate_neighbours, two_vmas) { .two_vmas = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, holes) { .holes = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, forked) { .forked = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, all)
{
	.two_vmas = true,
	.holes = true,
	.forked = true,
};

FIXTURE_VARIANT_ADD(migrate_neighbours, large) { .large = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, large_shifted) { .large = true, .shifted = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, large_holes) { .large = true, .holes = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, large_forked) { .large = true, .forked = true, };
FIXTURE_VARIANT_ADD(migrate_neighbours, large_all)
{
	.large = true,
	.shifted = true,
	.two_vmas = true,
	.forked = true,
};

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
}

static bool is_hole(const FIXTURE_VARIANT(migrate_neighbours) *variant, int i)
{
	return variant->holes && i % 7 == 5;
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

static char *page_at(FIXTURE_DATA(migrate_neighbours) *self, int i)
{
	return self->addr + i * self->page;
}

static size_t wrong_in_child(FIXTURE_DATA(migrate_neighbours) *self,
			     const FIXTURE_VARIANT(migrate_neighbours) *variant)
{
	size_t wrong = 0;

	for (int i = 0; i < PAGES; i++) {
		if (is_hole(variant, i) || is_dropped(i))
			wrong += memory_pfn(page_at(self, i)) != MEMORY_NO_PFN;
		else
			wrong += memory_verify(page_at(self, i), self->page,
					       (is_childs(i) ? CHILDS_SEED : SEED) + i);
	}
	return wrong;
}

/* Reports after each order, and once before, how many bytes and mappings are wrong. */
static void child_main(FIXTURE_DATA(migrate_neighbours) *self,
		       const FIXTURE_VARIANT(migrate_neighbours) *variant)
{
	size_t wrong;
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (memory_bind(self->nodes[0]))
		_exit(1);
	for (int i = 0; i < PAGES; i++) {
		if (is_dropped(i))
			madvise(page_at(self, i), self->page, MADV_DONTNEED);
		else if (is_childs(i) && !is_hole(variant, i))
			memory_stamp(page_at(self, i), self->page, CHILDS_SEED + i);
	}
	do {
		wrong = wrong_in_child(self, variant);
		if (write(self->reports[1], &wrong, sizeof(wrong)) != sizeof(wrong))
			break;
	} while (read(self->orders[0], &order, 1) == 1);
	_exit(0);
}

static size_t ask_child(FIXTURE_DATA(migrate_neighbours) *self, bool first)
{
	size_t wrong;

	if (!first && write(self->orders[1], "", 1) != 1)
		return -1;
	return read(self->reports[0], &wrong, sizeof(wrong)) == sizeof(wrong) ? wrong : -1;
}

static void fill_with_small(struct __test_metadata *_metadata,
			    FIXTURE_DATA(migrate_neighbours) *self,
			    const FIXTURE_VARIANT(migrate_neighbours) *variant)
{
	for (int i = 0; i < PAGES; i++) {
		if (!is_hole(variant, i))
			ASSERT_EQ(0, memory_fill(page_at(self, i), self->page, self->page,
						 self->nodes[0], SEED + i));
	}
}

/* Of the first and the last folio only a part stays. */
static void fill_with_large(struct __test_metadata *_metadata,
			    FIXTURE_DATA(migrate_neighbours) *self,
			    const FIXTURE_VARIANT(migrate_neighbours) *variant)
{
	const size_t size = LARGE_PAGES * self->page;
	char *filled = page_at(self, -BEFORE), *shifted = self->addr - self->page;

	ASSERT_EQ(0, thp_only(size));
	ASSERT_EQ(0, memory_fill(filled, FILLED * self->page, size, self->nodes[0], SEED));
	ASSERT_TRUE(memory_folios_are(filled, FILLED * self->page, size));
	ASSERT_EQ(0, munmap(filled, BEFORE * self->page));
	ASSERT_EQ(0, munmap(page_at(self, PAGES), (FILLED - BEFORE - PAGES) * self->page));
	if (variant->shifted) {
		char *away = memory_map_aligned(PMD_SIZE, PMD_SIZE);

		ASSERT_NE(NULL, away);
		ASSERT_EQ(away, mremap(self->addr, PAGES * self->page, PAGES * self->page,
				       MREMAP_MAYMOVE | MREMAP_FIXED, away));
		ASSERT_EQ(shifted, mremap(away, PAGES * self->page, PAGES * self->page,
					  MREMAP_MAYMOVE | MREMAP_FIXED, shifted));
		munmap(away, PMD_SIZE);
		self->addr = shifted;
	}
	for (int i = 0; i < PAGES; i++) {
		if (is_hole(variant, i))
			madvise(page_at(self, i), self->page, MADV_DONTNEED);
		else
			memory_stamp(page_at(self, i), self->page, SEED + i);
	}
}

FIXTURE_SETUP(migrate_neighbours)
{
	settings_restore();
	self->child = -1;
	if (!memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes with memory");
	numa_balancing_off();
	self->page = memory_page_size();
	self->map = memory_map_aligned(2 * PMD_SIZE, PMD_SIZE);
	ASSERT_NE(NULL, self->map);
	self->addr = self->map + PMD_SIZE - TABLE_AT * self->page;
	if (variant->large)
		fill_with_large(_metadata, self, variant);
	else
		fill_with_small(_metadata, self, variant);
	if (variant->two_vmas)
		ASSERT_EQ(0, mprotect(page_at(self, VMA_AT), (PAGES - VMA_AT) * self->page,
				      PROT_READ));
	if (!variant->forked)
		return;
	ASSERT_EQ(0, pipe(self->orders));
	ASSERT_EQ(0, pipe(self->reports));
	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child)
		child_main(self, variant);
	ASSERT_EQ(0, ask_child(self, true));
}

FIXTURE_TEARDOWN(migrate_neighbours)
{
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		waitpid(self->child, NULL, 0);
	}
	munmap(self->map, 2 * PMD_SIZE);
	settings_restore();
}

TEST_F_TIMEOUT(migrate_neighbours, mapped_again, TIMEOUT)
{
	const size_t len = PAGES * self->page;
	const size_t holes = memory_pages_not_on(self->addr, len, self->nodes[0]);

	for (int round = 0; round < ROUNDS; round++) {
		int node = self->nodes[(round + 1) % 2];

		ASSERT_EQ(holes, memory_move(0, self->addr, len, self->page, node,
					     MPOL_MF_MOVE_ALL));
		/* Nothing waits: not even a page that is still unmapped is on the node. */
		ASSERT_EQ(holes, memory_pages_not_on(self->addr, len, node))
			TH_LOG("in round %d", round);
		for (int i = 0; i < PAGES; i++) {
			ASSERT_EQ(is_hole(variant, i),
				  memory_pfn(page_at(self, i)) == MEMORY_NO_PFN)
				TH_LOG("page %d in round %d", i, round);
			if (!is_hole(variant, i))
				ASSERT_EQ(0, memory_verify(page_at(self, i), self->page, SEED + i));
		}
		/* A folio of which only a part is mapped may be split. */
		if (variant->large && !variant->holes)
			ASSERT_TRUE(memory_folios_are(page_at(self, LARGE_PAGES - BEFORE),
						      (PAGES - LARGE_PAGES) * self->page,
						      LARGE_PAGES * self->page))
				TH_LOG("in round %d", round);
		if (!variant->forked)
			continue;
		memory_move(self->child, self->addr, len, self->page, node, MPOL_MF_MOVE_ALL);
		ASSERT_EQ(0, ask_child(self, false)) TH_LOG("in round %d", round);
	}
}

TEST_HARNESS_MAIN
