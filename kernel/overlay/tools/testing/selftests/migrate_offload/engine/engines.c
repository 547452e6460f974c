// SPDX-License-Identifier: GPL-2.0
/*
 * Engines of every kind: how a batch is shared out over channels, public and
 * private ones, which of them the administrator allows, what comes and goes
 * while memory migrates, and what an engine cannot reach.
 */
#include "run.h"

#define TIMEOUT		600
#define DRIVER		"/sys/bus/platform/drivers/dmasim/"
#define TRACING		"/sys/kernel/tracing/"

/* The channels, with their counts of the last move. */
static struct engine_channel channels[ENGINE_MAX_CHANNELS];
static unsigned int nr;

FIXTURE(engines) { };

FIXTURE_SETUP(engines) { run_begin(_metadata); }
FIXTURE_TEARDOWN(engines) { run_end(); }

static void channels_since(const struct engine_channel *before)
{
	nr = engine_channels(channels);
	for (unsigned int i = 0; i < nr; i++) {
		channels[i].bytes -= before[i].bytes;
		channels[i].descriptors -= before[i].descriptors;
	}
}

static void move_once(enum area_kind kind, size_t size)
{
	struct engine_channel before[ENGINE_MAX_CHANNELS];

	create_area(kind, size);
	engine_channels(before);
	move_to(nodes[1]);
	channels_since(before);
}

/* Four channels have as much each, a folio of 2 MB in one descriptor each. */
TEST_F_TIMEOUT(engines, shared_out_over_all_channels, TIMEOUT)
{
	static const struct {
		const char *engine;
		enum area_kind kind;
		unsigned int descriptors;
	} moves[] = {
		{ "channels=4", AREA_ANON_2M, 1 },
		{ "channels=4 ring_depth=32", AREA_ANON_4K, 128 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(moves); i++) {
		ASSERT_TRUE(engine_load(moves[i].engine, "segment_bytes=65536"));
		move_once(moves[i].kind, 2 * MIB);
		ASSERT_EQ(nr, 4);
		for (unsigned int j = 0; j < 4; j++) {
			EXPECT_EQ(channels[j].bytes, 2 * MIB / 4);
			EXPECT_EQ(channels[j].descriptors, moves[i].descriptors);
		}
		ASSERT_TRUE(engine_unload());
	}
}

TEST_F_TIMEOUT(engines, every_kind_by_every_engine, TIMEOUT)
{
	static const char * const pairs[][2] = {
		/* 31 channels do not divide 512 pages. */
		{ "channels=31 ring_depth=2", "segment_bytes=4096" },
		/* Of folios that are neighbours some have a descriptor together. */
		{ "channels=2", "merge=Y" },
		/* Public channels are held like private ones. */
		{ "channels=4 public=1", "segment_bytes=65536" },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(pairs); i++) {
		ASSERT_TRUE(engine_load(pairs[i][0], pairs[i][1]));
		every_kind(4 * MIB);
		ASSERT_TRUE(engine_unload());
	}
}

TEST_F_TIMEOUT(engines, small_folios_are_grouped, TIMEOUT)
{
	unsigned int used = 0;

	ASSERT_TRUE(engine_load("channels=4", "segment_bytes=65536"));
	move_once(AREA_ANON_4K, 128 * KIB);
	ASSERT_EQ(nr, 4);
	for (unsigned int i = 0; i < 4; i++) {
		used += !!channels[i].bytes;
		EXPECT_EQ(channels[i].bytes % (64 * KIB), 0);
	}
	EXPECT_EQ(used, 2);
}

/* Folios that a move made neighbours are neighbours after the next: most share descriptors. */
TEST_F_TIMEOUT(engines, neighbours_stay_neighbours, TIMEOUT)
{
	unsigned long before;

	ASSERT_TRUE(engine_load("channels=1", "merge=Y"));
	create_area(AREA_ANON_64K, 4 * MIB);
	move_anew(nodes[1]);
	before = engine_descriptors();
	move_anew(nodes[0]);
	EXPECT_LT(engine_descriptors() - before, area_folios(&area) / 2);
	expect_copies(area_folios(&area), "fallback_", 0);
}

/*
 * A ring of one, which is full until the engine's driver has cleaned up: dcbm waits a few ms
 * for that, and leaves the rest to the CPU where a busy host takes longer.
 */
TEST_F_TIMEOUT(engines, ring_of_one, TIMEOUT)
{
	unsigned int moves = 0;
	uint64_t copied;

	ASSERT_TRUE(engine_load("channels=1 ring_depth=1", ""));
	create_area(AREA_ANON_4K, 512 * KIB);
	do {
		move_anew(nodes[++moves % 2]);
		copied = offload_grown("folios_copied");
		expect_copies(copied, "fallback_error", area_folios(&area) - copied);
	} while (copied <= area_folios(&area) / 2 && moves < 10);
	EXPECT_LT(area_folios(&area) / 2, copied);
}

/* An engine that takes short descriptors only: dcbm halves until it does, for each batch anew. */
TEST_F_TIMEOUT(engines, limited_length, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=1 max_bytes=300000", ""));
	move_once(AREA_ANON_2M, 2 * MIB);
	EXPECT_EQ(channels[0].descriptors, 8);
	expect_copies(1, "fallback_", 0);
	every_kind(4 * MIB);
	ASSERT_TRUE(engine_unload());
	/* A length that an engine refused for another reason is taken the next time. */
	ASSERT_TRUE(engine_load("channels=1", ""));
	ASSERT_EQ(engine_set_fault_times("prep_null", 2), 0);
	move_once(AREA_ANON_2M, 2 * MIB);
	EXPECT_EQ(channels[0].descriptors, 4);
	move_once(AREA_ANON_2M, 2 * MIB);
	EXPECT_EQ(channels[0].descriptors, 1);
}

/* Small batches, and small folios, are not worth an engine, and left to the CPU. */
TEST_F_TIMEOUT(engines, small_is_for_the_cpu, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=2", "min_pages=16"));
	create_area(AREA_ANON_4K, 15 * 4 * KIB);
	move_to(nodes[1]);
	expect_copies(0, "fallback_small", 15);
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "min_pages", 15), 0);
	move_to(nodes[0]);
	expect_copies(15, "fallback_", 0);
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "min_order", 4), 0);
	move_to(nodes[1]);
	expect_copies(0, "fallback_small", 15);
	there_and_back(AREA_ANON_64K, 1 * MIB);
}

TEST_F_TIMEOUT(engines, pages_are_for_the_cpu_by_default, TIMEOUT)
{
	ASSERT_EQ(engine_load_dcbm(""), 0);
	ASSERT_TRUE(engine_load("channels=2", ""));
	create_area(AREA_ANON_4K, 1 * MIB);
	move_to(nodes[1]);
	expect_copies(0, "fallback_small", 256);
	there_and_back(AREA_ANON_64K, 1 * MIB);
}

/* dcbm uses no engine that has no name in "providers", and says how to name one. */
TEST_F_TIMEOUT(engines, not_named, TIMEOUT)
{
	ASSERT_EQ(module_load("dcbm", ""), 0);
	ASSERT_TRUE(engine_load("channels=2", ""));
	EXPECT_EQ(engine_channels(channels), 0);
	EXPECT_EQ(system("dmesg | grep 'dcbm: .*\"providers\" names no engine'"), 0);
	create_area(AREA_ANON_64K, 1 * MIB);
	move_to(nodes[1]);
	expect_copies(0, "fallback_busy", area_folios(&area));
	ASSERT_EQ(setting_write(DCBM_PARAMETERS "providers", "dmasim"), 0);
	EXPECT_EQ(engine_channels(channels), 2);
	ASSERT_EQ(setting_write(DCBM_PARAMETERS "providers", ""), 0);
	EXPECT_EQ(engine_channels(channels), 0);
}

/* Channels are held while a reason is routed to dcbm, and nothing is copied for them. */
TEST_F_TIMEOUT(engines, held_while_routed, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=2", ""));
	ASSERT_EQ(engine_channels(channels), 2);
	EXPECT_EQ(channels[0].descriptors, 0);
	ASSERT_EQ(offload_set_route("demotion", "dcbm"), 0);
	ASSERT_EQ(offload_set_route("syscall_or_cpuset", "none"), 0);
	EXPECT_EQ(engine_channels(channels), 2);
	ASSERT_EQ(offload_set_route("demotion", "cpu"), 0);
	EXPECT_EQ(engine_channels(channels), 0);
	/* No client uses the engine any more. */
	EXPECT_EQ(module_unload("dmasim"), 0);
	ASSERT_EQ(module_load("dmasim", "channels=3"), 0);
	EXPECT_EQ(engine_channels(channels), 0);
	ASSERT_EQ(offload_set_route("syscall_or_cpuset", "dcbm"), 0);
	EXPECT_EQ(engine_channels(channels), 3);
	every_kind(4 * MIB);
}

/* A channel that only times out is left alone after three batches, for good. */
TEST_F_TIMEOUT(engines, dead_channel, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=1", ""));
	create_area(AREA_ANON_64K, 512 * KIB);
	ASSERT_EQ(engine_set_timeout(20), 0);
	ASSERT_EQ(engine_set_fault("never_complete", 100), 0);
	for (unsigned int i = 0; i < 4; i++) {
		move_to(nodes[1 - i % 2]);
		expect_copies(0, i < 3 ? "fallback_timeout" : "fallback_busy", area_folios(&area));
	}
	ASSERT_EQ(engine_channels(channels), 1);
	EXPECT_STREQ(channels[0].state, "quarantined");
	EXPECT_EQ(channels[0].timeouts, 3);

	engine_clear_faults();
	ASSERT_EQ(engine_set_timeout(ENGINE_LONG_MS), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "none"), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "dcbm"), 0);
	move_to(nodes[1]);
	expect_copies(0, "fallback_busy", area_folios(&area));
}

/* The engine calls back again while the next descriptor is in flight: that says nothing of it. */
TEST_F_TIMEOUT(engines, called_back_twice, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=1", ""));
	/* A second in which it is not done. */
	set_latency(1000000000);
	create_area(AREA_ANON_2M, 2 * MIB);
	ASSERT_EQ(engine_set_fault_times("call_twice", 2), 0);
	for (unsigned int i = 0; i < 4; i++) {
		move_anew(nodes[(i + 1) % 2]);
		expect_copies(1, "fallback_", 0);
	}
}

TEST_F_TIMEOUT(engines, administrator_chooses, TIMEOUT)
{
	ASSERT_TRUE(engine_load("channels=4 devices=2", ""));
	EXPECT_TRUE(engine_wait_for_channels(8));
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "channels", 3), 0);
	EXPECT_TRUE(engine_wait_for_channels(3));
	every_kind(4 * MIB);
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "channels", 0), 0);
	EXPECT_TRUE(engine_wait_for_channels(8));
	EXPECT_EQ(setting_write_number(DCBM_PARAMETERS "channels", 65), -EINVAL);
	ASSERT_EQ(setting_write(DCBM_PARAMETERS "providers", "ioatdma,dmasim.1"), 0);
	EXPECT_TRUE(engine_wait_for_channels(4));
	every_kind(4 * MIB);
	ASSERT_EQ(setting_write(DCBM_PARAMETERS "providers", "dmasi"), 0);
	EXPECT_TRUE(engine_wait_for_channels(0));
	EXPECT_EQ(module_unload("dmasim"), 0);
	ASSERT_EQ(setting_write(DCBM_PARAMETERS "providers", "dmasim"), 0);
	ASSERT_EQ(module_load("dmasim", "channels=2"), 0);
	EXPECT_TRUE(engine_wait_for_channels(2));
	every_kind(4 * MIB);
}

TEST_F_TIMEOUT(engines, near_memory_first, TIMEOUT)
{
	struct engine_channel before[ENGINE_MAX_CHANNELS];
	unsigned long near = 0, far = 0;
	unsigned int i;
	char parameters[64];
	char *hole;

	snprintf(parameters, sizeof(parameters), "devices=2 channels=2 node=%d,%d", nodes[0],
		 nodes[1]);
	/* One channel is enough for any batch. */
	ASSERT_TRUE(engine_load(parameters, "segment_bytes=1073741824"));
	ASSERT_TRUE(engine_wait_for_channels(4));
	ASSERT_EQ(offload_route_only("compaction", "dcbm"), 0);
	engine_channels(before);

	/*
	 * Every second page of the second node is free: compaction has work, there alone.
	 * Memory in the upper half of a node stays: take more of the node each time.
	 */
	for (unsigned int tries = 0; tries < 4 && !near; tries++) {
		ASSERT_TRUE(area_create(&area, AREA_ANON_4K, 64 * MIB << tries, nodes[1]));
		for (hole = area.addr; hole < area.addr + area.size; hole += 8 * KIB)
			madvise(hole, 4 * KIB, MADV_DONTNEED);
		snprintf(parameters, sizeof(parameters),
			 "/sys/devices/system/node/node%d/compact", nodes[1]);
		ASSERT_EQ(setting_write(parameters, "1"), 0);
		area_destroy(&area);
		channels_since(before);
		for (near = far = i = 0; i < nr; i++)
			if (channels[i].node == nodes[1])
				near += channels[i].bytes;
			else
				far += channels[i].bytes;
	}
	TH_LOG("%lu bytes by channels of the node, %lu by others", near, far);
	EXPECT_GT(near, 0);
	EXPECT_EQ(far, 0);
}

TEST_F_TIMEOUT(engines, beyond_reach, TIMEOUT)
{
	/* 16 MB: nothing that a test gets. */
	ASSERT_TRUE(engine_load("channels=4 dma_bits=24", ""));
	every_kind_falls_back("fallback_unreachable");
}

/* With bounce buffers the CPU would copy twice: dcbm leaves such folios to it. */
TEST_F_TIMEOUT(engines, bounced, TIMEOUT)
{
	/* The kernel bounces what any device reads or writes. */
	if (system("grep -q swiotlb=force /proc/cmdline"))
		SKIP(return, "a kernel without swiotlb=force");
	ASSERT_TRUE(engine_load("channels=4", ""));
	every_kind_falls_back("fallback_unreachable");
}

static void there_and_back_again(void)
{
	area_move(&area, nodes[1]);
	area_move(&area, nodes[0]);
}

/* Allocations from slabs by this task, while it moves memory there and back. */
static long allocations(void)
{
	long lines;

	/* The first moves warm up whatever there is to warm up. */
	there_and_back_again();
	setting_write(TRACING "trace", "");
	setting_write(TRACING "tracing_on", "1");
	there_and_back_again();
	setting_write(TRACING "tracing_on", "0");
	lines = setting_count_lines(TRACING "trace", "bytes_alloc=");
	setting_write(TRACING "trace", "");
	return lines;
}

TEST_F_TIMEOUT(engines, nothing_allocated_per_batch, TIMEOUT)
{
	long off, on;

	ASSERT_TRUE(engine_load("channels=4 ring_depth=1024", ""));
	ASSERT_EQ(setting_write(TRACING "tracing_on", "0"), 0);
	ASSERT_EQ(setting_write_number(TRACING "set_event_pid", getpid()), 0);
	ASSERT_EQ(setting_write(TRACING "events/kmem/kmalloc/enable", "1"), 0);
	ASSERT_EQ(setting_write(TRACING "events/kmem/kmem_cache_alloc/enable", "1"), 0);
	for (enum area_kind kind = 0; kind < NR_AREA_KINDS; kind++) {
		create_area(kind, 8 * MIB);
		EXPECT_EQ(offload_set_enabled(false), 0);
		off = allocations();
		EXPECT_EQ(offload_set_enabled(true), 0);
		on = allocations();
		/* Others, in interrupts, may allocate on this task's account, now and then. */
		for (int i = 0; i < 2 && on > off; i++)
			on = allocations();
		TH_LOG("%s: %ld allocations without, %ld with the engine",
		       area_kind_names[kind], off, on);
		/* If there were none at all, the engine's would not show either. */
		EXPECT_GT(off, 0);
		EXPECT_LE(on, off);
	}
	setting_write(TRACING "events/kmem/enable", "0");
	setting_write(TRACING "set_event_pid", "");
	setting_write(TRACING "tracing_on", "1");
}

/* The first of several engines, or the only one. */
static int rebind(const char *how)
{
	int err = setting_write(how, "dmasim");

	return err == -ENODEV ? setting_write(how, "dmasim.0") : err;
}

static int replace_provider(void)
{
	static const char * const engines[] = {
		"channels=4", "channels=1 ring_depth=2", "channels=8 public=1",
		"channels=3 devices=2", "channels=4 latency_ns=50000",
	};
	static unsigned int next;
	int err;

	err = setting_write(DCBM_PARAMETERS "providers", "");
	err = err ?: module_unload("dmasim");
	err = err ?: module_load("dmasim", engines[next++ % 5]);
	return err ?: setting_write(DCBM_PARAMETERS "providers", "dmasim");
}

/*
 * dcbm goes while it is routed, if nothing migrates at that moment. With all movers at work
 * something mostly does; then, as the administrator's guide says, its routes go first.
 */
static int replace_migrator(unsigned int *busy)
{
	int err = module_unload("dcbm");

	if (err == -EAGAIN) {
		(*busy)++;
		offload_route_only("syscall_or_cpuset", "none");
		err = engine_unload_busy("dcbm");
	}
	err = err ?: engine_load_dcbm(random() % 2 ? "min_order=0" :
						     "min_order=0 segment_bytes=16384");
	return err ?: offload_route_only("syscall_or_cpuset", "dcbm");
}

static int rebind_provider(void)
{
	int err = rebind(DRIVER "unbind");

	usleep(random() % 5000);
	return err ?: rebind(DRIVER "bind");
}

TEST_F_TIMEOUT(engines, providers_and_migrators_come_and_go, TIMEOUT)
{
	const unsigned int times = debug_kernel() ? 6 : 34;
	unsigned int busy = 0;

	ASSERT_TRUE(engine_load("channels=4", ""));
	srandom(1);
	begin_load(2 * MIB);
	for (unsigned int i = 0; i < times; i++) {
		usleep(random() % 20000);
		ASSERT_EQ(rebind_provider(), 0);
		usleep(random() % 20000);
		ASSERT_EQ(replace_provider(), 0);
		usleep(random() % 20000);
		ASSERT_EQ(replace_migrator(&busy), 0);
		if (i % 10 == 9)
			TH_LOG("each of them %u times", i + 1);
	}
	/* The last engine copies as well. */
	usleep(200000);
	end_load(20);
	TH_LOG("each %u times; dcbm was asked %u times while it was busy", times, busy);
	EXPECT_GT(offload_grown("folios_copied"), 1000);
	EXPECT_EQ(offload_grown("fallback_timeout"), 0);
	EXPECT_EQ(kmemleak_found(), 0);
}

TEST_HARNESS_MAIN
