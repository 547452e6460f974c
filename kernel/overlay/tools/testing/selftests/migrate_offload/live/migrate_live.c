// SPDX-License-Identifier: GPL-2.0
/*
 * Memory that is copied while it is mapped: which memory is, which is not, and its
 * page tables afterwards. The migrator is "cpu", so nothing else is needed.
 */
#include "run.h"

FIXTURE(migrate_live) { };
FIXTURE_VARIANT(migrate_live) { enum area_kind kind; };
FIXTURE_VARIANT_ADD(migrate_live, anon_4k) { AREA_ANON_4K };
FIXTURE_VARIANT_ADD(migrate_live, anon_64k) { AREA_ANON_64K };
FIXTURE_VARIANT_ADD(migrate_live, anon_2m) { AREA_ANON_2M };

FIXTURE_SETUP(migrate_live)
{
	if (!offload_begin(_metadata))
		return;
	route_only(MOVE_PAGES, "cpu");
	ASSERT_EQ(0, offload_set_live(true));
	create_area(variant->kind, 4 * MIB);
	offload_mark();
}

FIXTURE_TEARDOWN(migrate_live) { settings_restore(); }

TEST_F(migrate_live, all_is_copied_live_and_stays_writable)
{
	struct offload_stats others;

	ASSERT_TRUE(offload_read_stats(&others, "demotion"));
	/* The first call may fault for its own code. */
	faults_of_writing();
	for (int turn = 0; turn < 4; turn++) {
		int node = nodes[(turn + 1) % 2];

		move_to(node);
		expect_on(node);
		EXPECT_EQ(area_folios(&area), offload_grown("live_copied"));
		EXPECT_EQ(area_folios(&area), offload_grown("live_"));
		EXPECT_EQ(area_folios(&area), offload_grown("folios_copied"));
		EXPECT_EQ(0, faults_of_writing());
	}
	EXPECT_EQ(0, offload_grown_since(&others, "demotion", "live_"));
}

/* A PMD maps again only what a write has split while it was copied. */
TEST_F(migrate_live, what_was_in_pieces_stays_so)
{
	ASSERT_EQ(0, mprotect(area.addr, memory_page_size(), PROT_READ));
	ASSERT_EQ(0, mprotect(area.addr, memory_page_size(), PROT_READ | PROT_WRITE));
	move_to(nodes[1]);
	EXPECT_EQ(area_folios(&area), offload_grown("live_copied"));
	EXPECT_EQ(area.folio_size != PMD_SIZE, area_is_by_pmd(&area));
}

TEST_F(migrate_live, off_is_off)
{
	ASSERT_EQ(0, offload_set_live(false));
	move_to(nodes[1]);
	EXPECT_EQ(0, offload_grown("live_"));
	EXPECT_EQ(area_folios(&area), offload_grown("folios_copied"));
}

/* By default the route decides by its migrator, and the CPU does nothing meanwhile. */
TEST_F(migrate_live, not_by_default_where_the_cpu_copies)
{
	ASSERT_EQ(0, setting_write(OFFLOAD_DEBUG "/live", "1"));
	move_to(nodes[1]);
	EXPECT_EQ(0, offload_grown("live_"));
}

TEST_F(migrate_live, shared_memory_is_declined)
{
	pid_t child = fork_idle();

	ASSERT_LT(0, child);
	memory_move(0, area.addr, area.size, area.folio_size, nodes[1], MPOL_MF_MOVE_ALL);
	EXPECT_EQ(0, offload_grown("live_copied"));
	EXPECT_EQ(area_folios(&area), offload_grown("live_declined"));
	EXPECT_EQ(0, area_wrong(&area));
	end_process(child);
}

TEST_F(migrate_live, a_reference_declines_its_folio)
{
	struct iovec page = { area.addr, memory_page_size() };
	char *read_back = malloc(page.iov_len);
	int ends[2];

	ASSERT_NE(NULL, read_back);
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ((ssize_t)page.iov_len, vmsplice(ends[1], &page, 1, 0));
	EXPECT_LE(1, area_move(&area, nodes[1]));
	EXPECT_EQ(1, offload_grown("live_declined"));
	EXPECT_EQ(area_folios(&area) - 1, offload_grown("live_copied"));
	ASSERT_EQ((ssize_t)page.iov_len, read(ends[0], read_back, page.iov_len));
	EXPECT_EQ(0, memcmp(read_back, area.addr, page.iov_len));
	EXPECT_EQ(0, area_wrong(&area));
	free(read_back);
}

TEST_F(migrate_live, lazily_freed_memory_is_declined)
{
	ASSERT_EQ(0, madvise(area.addr, area.size, MADV_FREE));
	area_move(&area, nodes[1]);
	EXPECT_EQ(0, offload_grown("live_copied"));
	EXPECT_LT(0, offload_grown("live_declined"));
}

TEST_F(migrate_live, memory_that_is_not_writable_is_declined)
{
	ASSERT_EQ(0, mprotect(area.addr, area.size, PROT_READ));
	move_to(nodes[1]);
	EXPECT_EQ(0, offload_grown("live_copied"));
	EXPECT_EQ(area_folios(&area), offload_grown("live_declined"));
}

TEST_HARNESS_MAIN
