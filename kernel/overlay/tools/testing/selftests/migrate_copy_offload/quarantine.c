// SPDX-License-Identifier: GPL-2.0
/*
 * An engine that neither completes nor terminates: what it may still write to must
 * never be given back, nor what may still call back be unloaded. The channels are
 * lost for good, so that these tests need a machine that is rebooted afterwards,
 * and run in the order in which they stand here. A machine has either private
 * channels (fixture quarantine) or public ones (public_quarantine).
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		300
#define TIMEOUT_MS	500
#define LATE_MS		3000

FIXTURE(quarantine)
{
	int nodes[2];
	int log;
	struct area area;
};

FIXTURE_SETUP(quarantine)
{
	self->log = kernel_log_open();
	ASSERT_GE(self->log, 0);
	ASSERT_TRUE(memory_two_nodes(&self->nodes[0], &self->nodes[1]));
	area_settings_save();
	ASSERT_TRUE(module_loaded("dcbm") ||
		    engine_load("channels=4 ring_depth=1024", "segment_bytes=4096"));
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "dcbm"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
}

FIXTURE_TEARDOWN(quarantine)
{
	area_destroy(&self->area);
	settings_restore();
	EXPECT_EQ(kernel_log_bad(self->log), 0);
	close(self->log);
}

static void break_engine(struct __test_metadata *_metadata)
{
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "timeout_ms", TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	ASSERT_EQ(engine_set_fault("terminate_error", 100), 0);
}

static void repair_engine(struct __test_metadata *_metadata)
{
	engine_clear_faults();
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "timeout_ms", 20000), 0);
}

/* Takes free memory of a node, what was freed last before all, and stamps it. */
static bool take_free_memory(struct area *taken, int node)
{
	taken->size = 64 * MIB;
	taken->folio_size = memory_page_size();
	taken->addr = memory_map_aligned(taken->size, 2 * MIB);
	if (!taken->addr)
		return false;
	madvise(taken->addr, taken->size, MADV_NOHUGEPAGE);
	memory_bind(node);
	area_stamp(taken, 77);
	memory_bind(-1);
	return true;
}

/*
 * Folios that are lost stay where they are, with their contents, and what the
 * engine writes late hits nothing that anybody uses.
 */
static void lose(struct __test_metadata *_metadata, struct area *area, int node)
{
	struct offload_stats before, after;
	struct area taken = { 0 };
	double begin = seconds_now();

	offload_read_stats(&before);
	EXPECT_EQ(area_move(area, node), area_folios(area));
	offload_read_stats(&after);
	EXPECT_LT(seconds_now() - begin, LATE_MS / 1000.0)
		TH_LOG("too slow: the late copies came before the check");
	EXPECT_EQ(offload_growth(&before, &after, "fallback_lost"),
		  area_folios(area));
	EXPECT_EQ(offload_growth(&before, &after, "fallback_"),
		  area_folios(area));
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), 0);
	EXPECT_EQ(area_wrong(area), 0);

	/* If anything was given back, then this is where it lies now. */
	area_stamp(area, 5);
	ASSERT_TRUE(take_free_memory(&taken, node));
	while (seconds_now() < begin + 2 * LATE_MS / 1000.0)
		usleep(10000);
	EXPECT_EQ(area_wrong(area), 0);
	EXPECT_EQ(area_wrong(&taken), 0);
	area_destroy(&taken);
}

struct unload {
	const struct area *area;
	int err;
};

static void *unload_thread(void *arg)
{
	struct unload *unload = arg;

	area_wait_in_flight(unload->area);
	unload->err = module_unload("dcbm");
	return NULL;
}

TEST_F_TIMEOUT(quarantine, lost_while_unloading, TIMEOUT)
{
	struct unload unload = { .area = &self->area };
	pthread_t thread;

	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, memory_page_size(),
				self->nodes[0]));
	break_engine(_metadata);
	ASSERT_EQ(pthread_create(&thread, NULL, unload_thread, &unload), 0);
	lose(_metadata, &self->area, self->nodes[1]);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	repair_engine(_metadata);

	/* A copy that cannot be stopped was in flight. */
	EXPECT_EQ(unload.err, -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
}

TEST_F_TIMEOUT(quarantine, other_channels_go_on, TIMEOUT)
{
	struct offload_stats before, after;

	repair_engine(_metadata);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->nodes[0]));
	offload_read_stats(&before);
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "fallback_"), 0);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"),
		  area_folios(&self->area));
	EXPECT_EQ(area_wrong(&self->area), 0);
}

/* One descriptor of one channel is stuck: only what that channel had is lost. */
TEST_F_TIMEOUT(quarantine, other_folios_go_on, TIMEOUT)
{
	struct offload_stats before, after;
	uint64_t copied, lost;

	ASSERT_TRUE(area_create(&self->area, AREA_ANON_64K, 512 * KIB, self->nodes[0]));
	break_engine(_metadata);
	ASSERT_EQ(engine_set_fault_times("late", 1), 0);
	offload_read_stats(&before);
	EXPECT_GT(area_move(&self->area, self->nodes[1]), 0);
	offload_read_stats(&after);
	copied = offload_growth(&before, &after, "folios_copied");
	lost = offload_growth(&before, &after, "fallback_lost");
	TH_LOG("%llu folios lost, %llu copied", (unsigned long long)lost,
	       (unsigned long long)copied);
	/* Three channels have a third of eight folios each, cut where it comes. */
	EXPECT_GE(lost, 2);
	EXPECT_LE(lost, 4);
	EXPECT_EQ(lost + copied, area_folios(&self->area));
	EXPECT_EQ(area_wrong(&self->area), 0);
	/* The late copy hits nothing. */
	area_stamp(&self->area, 6);
	usleep(1500 * LATE_MS);
	EXPECT_EQ(area_wrong(&self->area), 0);
	repair_engine(_metadata);
}

TEST_F_TIMEOUT(quarantine, all_channels_lost, TIMEOUT)
{
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 256 * KIB, self->nodes[0]));
	break_engine(_metadata);
	lose(_metadata, &self->area, self->nodes[1]);
	repair_engine(_metadata);
}

TEST_F_TIMEOUT(quarantine, cpu_goes_on, TIMEOUT)
{
	struct offload_stats before, after;
	enum area_kind kind;

	for (kind = 0; kind < NR_AREA_KINDS; kind++) {
		ASSERT_TRUE(area_create(&self->area, kind, 4 * MIB, self->nodes[0]));
		offload_read_stats(&before);
		EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
		offload_read_stats(&after);
		EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), 0);
		EXPECT_EQ(offload_growth(&before, &after, "fallback_busy") +
			  offload_growth(&before, &after, "fallback_refused"),
			  area_folios(&self->area));
		EXPECT_EQ(area_wrong(&self->area), 0);
		area_destroy(&self->area);
	}
}

TEST_F_TIMEOUT(quarantine, nothing_unloads, TIMEOUT)
{
	EXPECT_EQ(module_unload("dcbm"), -EAGAIN);
	EXPECT_EQ(module_unload("dmasim"), -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
	EXPECT_TRUE(module_loaded("dmasim"));
}

FIXTURE(public_quarantine)
{
	int nodes[2];
	int log;
	struct area area;
};

FIXTURE_SETUP(public_quarantine)
{
	self->log = kernel_log_open();
	ASSERT_GE(self->log, 0);
	ASSERT_TRUE(memory_two_nodes(&self->nodes[0], &self->nodes[1]));
	offload_save();
	area_settings_save();
	ASSERT_TRUE(engine_load("channels=2 public=1", ""));
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
}

FIXTURE_TEARDOWN(public_quarantine)
{
	area_destroy(&self->area);
	settings_restore();
	EXPECT_EQ(kernel_log_bad(self->log), 0);
	close(self->log);
}

/* Others use the channel: it is not terminated, and what it had stays its own. */
TEST_F_TIMEOUT(public_quarantine, never_terminated, TIMEOUT)
{
	struct engine_channel first[ENGINE_MAX_CHANNELS], then[ENGINE_MAX_CHANNELS];
	struct offload_stats before, after;
	unsigned int i, stuck = 0;

	/* A page is for one channel. */
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, memory_page_size(),
				self->nodes[0]));
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "timeout_ms", TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	lose(_metadata, &self->area, self->nodes[1]);
	repair_engine(_metadata);
	area_destroy(&self->area);

	/* The other one goes on. This one has completed, and is as good as gone all the same. */
	ASSERT_EQ(engine_channels(first), 2);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->nodes[0]));
	offload_read_stats(&before);
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	offload_read_stats(&after);
	EXPECT_EQ(area_wrong(&self->area), 0);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"),
		  area_folios(&self->area));
	ASSERT_EQ(engine_channels(then), 2);
	for (i = 0; i < 2; i++) {
		bool quarantined = !strcmp(then[i].state, "quarantined");

		stuck += quarantined;
		EXPECT_STREQ(then[i].kind, "public");
		EXPECT_EQ(then[i].timeouts, quarantined);
		EXPECT_EQ(then[i].descriptors == first[i].descriptors, quarantined);
	}
	EXPECT_EQ(stuck, 1);
	EXPECT_EQ(module_unload("dcbm"), -EAGAIN);
}

TEST_HARNESS_MAIN
