// SPDX-License-Identifier: GPL-2.0
/*
 * The promise of a route that nothing migrates which its migrator has not copied, and the
 * bound: all memory migrates, however short the time is for which it may be inaccessible.
 */
#include "run.h"

#define TIMEOUT		300

#define MBIND		"mempolicy_mbind"
#define STRICT		(MPOL_MF_MOVE | MPOL_MF_STRICT)

FIXTURE(required) { };
FIXTURE_VARIANT(required) { enum area_kind kind; bool live; };
FIXTURE_VARIANT_ADD(required, anon_4k) { AREA_ANON_4K, false };
FIXTURE_VARIANT_ADD(required, anon_64k) { AREA_ANON_64K, false };
FIXTURE_VARIANT_ADD(required, anon_2m) { AREA_ANON_2M, false };
FIXTURE_VARIANT_ADD(required, shmem) { AREA_SHMEM, false };
FIXTURE_VARIANT_ADD(required, live_4k) { AREA_ANON_4K, true };
FIXTURE_VARIANT_ADD(required, live_2m) { AREA_ANON_2M, true };

static bool load(const FIXTURE_VARIANT(required) *variant)
{
	/* Small batches are left to the CPU, if the CPU may. */
	return engine_load("channels=2", "min_pages=2000") &&
	       !offload_set_route(MBIND, "dcbm required") &&
	       !offload_set_route(MOVE_PAGES, "dcbm required") &&
	       !offload_set_live(variant->live);
}

FIXTURE_SETUP(required)
{
	if (!run_begin(_metadata))
		return;
	ASSERT_TRUE(load(variant));
	create_area(variant->kind, 4 * MIB);
}

FIXTURE_TEARDOWN(required) { run_end(); }

static void all_is_on(int node)
{
	expect_on(node);
	EXPECT_EQ(0, memory_isolated(nodes));
}

/* Neither way moves anything, and each folio is counted once. */
static void nothing_moves(void)
{
	const size_t folios = area_folios(&area);

	for (int i = 0; i < 2; i++) {
		offload_mark();
		EXPECT_EQ(i ? -EIO : (long)folios,
			  i ? area_bind(&area, nodes[1], STRICT) : area_move(&area, nodes[1]));
		EXPECT_EQ(folios, offload_grown("required_failed"))
			offload_show_grown();
		all_is_on(nodes[0]);
	}
}

/* The engine copies all. */
static void all_moves(void)
{
	int node;

	for (int i = 0; i < 2; i++) {
		node = nodes[1 - i];
		offload_mark();
		EXPECT_EQ(0, i ? area_bind(&area, node, STRICT) : area_move(&area, node));
		EXPECT_LE(area_folios(&area), offload_grown("folios_copied"))
			offload_show_grown();
		EXPECT_EQ(0, offload_grown("required_failed"));
		all_is_on(node);
	}
}

TEST_F_TIMEOUT(required, engine_that_always_fails, TIMEOUT)
{
	all_moves();
	ASSERT_EQ(0, engine_set_fault("result_error", 100));
	nothing_moves();
	EXPECT_EQ(0, offload_grown("folios_copied"));

	/* The CPU copies where it may. */
	ASSERT_EQ(0, offload_set_required(MOVE_PAGES, false));
	EXPECT_EQ(0, area_move(&area, nodes[1]));
	all_is_on(nodes[1]);
	EXPECT_EQ(0, area_move(&area, nodes[0]));

	ASSERT_EQ(0, offload_set_required(MOVE_PAGES, true));
	engine_clear_faults();
	all_moves();
}

TEST_F_TIMEOUT(required, engine_that_hangs, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(20));
	ASSERT_EQ(0, engine_set_fault("never_complete", 100));
	nothing_moves();
	engine_clear_faults();
	/* Channels that hang are left alone for good. */
	ASSERT_EQ(0, module_unload("dcbm"));
	ASSERT_TRUE(load(variant));
	all_moves();
}

/* Without the migrator, and with the main switch off, the route is closed. */
TEST_F_TIMEOUT(required, no_engine, TIMEOUT)
{
	ASSERT_EQ(0, offload_set_enabled(false));
	nothing_moves();
	ASSERT_EQ(0, offload_set_enabled(true));
	all_moves();
	ASSERT_EQ(0, module_unload("dcbm"));
	nothing_moves();
	ASSERT_TRUE(load(variant));
	all_moves();
}

/* Memory of every kind in one call, files among it, in folios of every size. */
FIXTURE(bound) { };

/* One of each kind, and a file. */
static struct area areas[NR_AREA_KINDS + 1];

FIXTURE_VARIANT(bound)
{
	unsigned int us;
	const char *migrator;
	/* Of the engine, all the time; NULL: none. */
	const char *fault;
};

FIXTURE_VARIANT_ADD(bound, shortest) { 1, "dcbm", NULL };
FIXTURE_VARIANT_ADD(bound, shortest_no_engine) { 1, "dcbm", "prep_null" };
FIXTURE_VARIANT_ADD(bound, shortest_broken_engine) { 1, "dcbm", "result_error" };
FIXTURE_VARIANT_ADD(bound, shortest_cpu) { 1, "cpu", NULL };
FIXTURE_VARIANT_ADD(bound, shortest_no_route) { 1, "none", NULL };
FIXTURE_VARIANT_ADD(bound, by_default) { 100, "dcbm", NULL };
FIXTURE_VARIANT_ADD(bound, by_default_broken_engine) { 100, "dcbm", "result_error" };
FIXTURE_VARIANT_ADD(bound, by_default_cpu) { 100, "cpu", NULL };
FIXTURE_VARIANT_ADD(bound, longest) { 1000000, "dcbm", NULL };

FIXTURE_SETUP(bound)
{
	if (!run_begin(_metadata))
		return;
	ASSERT_TRUE(engine_load("channels=2", ""));
	ASSERT_EQ(0, offload_set_route(MOVE_PAGES, variant->migrator));
	ASSERT_EQ(0, offload_set_bound(variant->us));
	for (unsigned int kind = 0; kind < ARRAY_SIZE(areas); kind++)
		ASSERT_TRUE(area_create(&areas[kind], kind, PMD_SIZE, nodes[0]));
	if (variant->fault)
		ASSERT_EQ(0, engine_set_fault(variant->fault, 100));
}

FIXTURE_TEARDOWN(bound)
{
	for (unsigned int kind = 0; kind < ARRAY_SIZE(areas); kind++)
		area_destroy(&areas[kind]);
	run_end();
}

static long move_process(int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;

	return syscall(SYS_migrate_pages, 0, 8 * sizeof(old), &old, &new);
}

TEST_F_TIMEOUT(bound, all_moves, TIMEOUT)
{
	for (int turn = 0; turn < 2; turn++) {
		int from = nodes[turn], to = nodes[1 - turn];

		EXPECT_LE(0, move_process(from, to));
		for (unsigned int kind = 0; kind < ARRAY_SIZE(areas); kind++) {
			struct area *area = &areas[kind];

			EXPECT_EQ(0, memory_pages_not_on(area->addr, area->size, to));
			EXPECT_TRUE(kind == NR_AREA_KINDS || area_is_whole(area));
			EXPECT_EQ(0, area_wrong(area));
		}
		EXPECT_EQ(0, memory_isolated(nodes));
	}
}

TEST_HARNESS_MAIN
