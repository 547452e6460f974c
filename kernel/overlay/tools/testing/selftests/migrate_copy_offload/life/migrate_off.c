// SPDX-License-Identifier: GPL-2.0
/*
 * Where the feature is switched off, or on without a route for the reason of a
 * migration, nothing changes: memory migrates as ever and no counter moves.
 */
#include "kselftest_harness.h"
#include "area.h"
#include "memory.h"
#include "offload.h"

#define REASON		"syscall_or_cpuset"
#define SIZE		(4 * MIB)

FIXTURE(migrate_off)
{
	struct area area;
	int nodes[2];
};

FIXTURE_VARIANT(migrate_off)
{
	bool enabled;
	/* Of the reason that the test migrates for, and of all others. */
	const char *route;
	const char *other_routes;
	bool copies;
};

FIXTURE_VARIANT_ADD(migrate_off, disabled_without_routes) {
	.enabled = false, .route = "none", .other_routes = "none",
};

FIXTURE_VARIANT_ADD(migrate_off, disabled_with_routes) {
	.enabled = false, .route = "cpu", .other_routes = "cpu",
};

FIXTURE_VARIANT_ADD(migrate_off, enabled_without_routes) {
	.enabled = true, .route = "none", .other_routes = "none",
};

FIXTURE_VARIANT_ADD(migrate_off, enabled_with_other_routes) {
	.enabled = true, .route = "none", .other_routes = "cpu",
};

/* The counterpart: proves that the counters of the others could have moved. */
FIXTURE_VARIANT_ADD(migrate_off, enabled_with_this_route_only) {
	.enabled = true, .route = "cpu", .other_routes = "none", .copies = true,
};

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
	offload_save();
}

FIXTURE_SETUP(migrate_off)
{
	settings_restore();
	if (!offload_available())
		SKIP(return, "no " OFFLOAD_DIR);
	if (!memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes with memory");

	numa_balancing_off();
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, SIZE, self->nodes[0]));

	ASSERT_EQ(0, offload_route_only(NULL, variant->other_routes));
	ASSERT_EQ(0, offload_set_route(REASON, variant->route));
	ASSERT_EQ(0, offload_set_enabled(variant->enabled));
}

FIXTURE_TEARDOWN(migrate_off)
{
	settings_restore();
}

TEST_F(migrate_off, counters)
{
	offload_mark();
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(0, area_move(&self->area, self->nodes[(i + 1) % 2]));
		EXPECT_EQ(0, area_wrong(&self->area));
	}

	/* The empty prefix: all counters. */
	EXPECT_EQ(variant->copies, offload_grown("") > 0);
	EXPECT_EQ(variant->copies ? 4 * area_folios(&self->area) : 0,
		  offload_grown("folios_copied"));
}

TEST_HARNESS_MAIN
