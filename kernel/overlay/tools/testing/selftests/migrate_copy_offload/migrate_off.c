// SPDX-License-Identifier: GPL-2.0
/*
 * Where the feature is switched off, or on without a route for the reason of a
 * migration, nothing changes: memory migrates as ever and no counter moves.
 */
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "offload.h"

#define REASON		"syscall_or_cpuset"
#define LEN		(4 * MIB)

FIXTURE(migrate_off)
{
	char *addr;
	int from;
	int to;
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
	if (!memory_two_nodes(&self->from, &self->to))
		SKIP(return, "needs two nodes with memory");

	numa_balancing_off();
	self->addr = memory_map_aligned(LEN, MIB);
	ASSERT_NE(NULL, self->addr);
	ASSERT_EQ(0, memory_bind(self->from));
	memory_stamp(self->addr, LEN, getpid());
	ASSERT_EQ(0, memory_bind(-1));

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
		int node = i % 2 ? self->from : self->to;

		EXPECT_EQ(0, memory_move(0, self->addr, LEN, memory_page_size(), node,
					 MPOL_MF_MOVE));
		EXPECT_EQ(0, memory_verify(self->addr, LEN, getpid()));
	}

	/* The empty prefix: all counters. */
	EXPECT_EQ(variant->copies, offload_grown("") > 0);
	EXPECT_EQ(variant->copies ? 4 * LEN / memory_page_size() : 0,
		  offload_grown("folios_copied"));
}

TEST_HARNESS_MAIN
