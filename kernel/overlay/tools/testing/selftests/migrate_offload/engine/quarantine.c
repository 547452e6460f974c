// SPDX-License-Identifier: GPL-2.0
/*
 * An engine neither completes nor terminates: the kernel must never free memory that
 * the engine may still write to, nor unload code that it may still call. The channels
 * are lost for good: these tests need a machine that is rebooted afterwards, and run in
 * the order in which they stand here. One boot has either private channels (fixture
 * quarantine), some that are never terminated (unproven_quarantine), or many (pairs_quarantine).
 */
#include "run.h"

#define TIMEOUT		300
#define TIMEOUT_MS	500
#define LATE_MS		3000

/* The first test loads the modules, which stay. */
static void set_up(struct __test_metadata *metadata, const char *engine, const char *migrator)
{
	test.stuck = module_loaded("dcbm");
	if (!run_begin(metadata))
		return;
	ASSERT_TRUE(test.stuck || engine_load(engine, migrator));
	test.stuck = true;
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
	route_only(MOVE_PAGES, "dcbm");
	/* A batch has all folios, however slow the machine is. */
	ASSERT_EQ(offload_set_bound(0), 0);
}

#define ONE_BOOT(name, engine, migrator)					\
	FIXTURE(name) { };							\
	FIXTURE_SETUP(name) { set_up(_metadata, engine, migrator); }		\
	FIXTURE_TEARDOWN(name) { run_end(); }

ONE_BOOT(quarantine, "channels=6 ring_depth=1024", "segment_bytes=4096")
ONE_BOOT(unproven_quarantine, "channels=2 can_stop=0", "")
ONE_BOOT(pairs_quarantine, "channels=64 ring_depth=16", "segment_bytes=16384")

static void break_engine(void)
{
	ASSERT_EQ(engine_set_timeout(TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	ASSERT_EQ(engine_set_fault("terminate_error", 100), 0);
}

static void repair_engine(void)
{
	engine_clear_faults();
	ASSERT_EQ(engine_set_timeout(20000), 0);
}

/* Takes free memory of a node, first what was freed last, and stamps it. */
static bool take_free_memory(struct area *taken, int node)
{
	*taken = (struct area) {
		.addr = memory_map_aligned(64 * MIB, PMD_SIZE), .size = 64 * MIB,
		.folio_size = memory_page_size(), .seed = 77,
	};
	return taken->addr &&
	       !memory_fill(taken->addr, taken->size, taken->folio_size, node, taken->seed);
}

/*
 * Folios that are lost stay where they are, with their contents, and what the
 * engine writes late hits nothing in use.
 */
static void lose(void)
{
	const size_t folios = area_folios(&area);
	double begin = seconds_now();
	struct area taken;

	offload_mark();
	EXPECT_EQ(area_move(&area, nodes[1]), folios);
	if (times_count())
		EXPECT_LT(seconds_now() - begin, LATE_MS / 1000.0)
			TH_LOG("too slow: the late copies came before the check");
	expect_copies(0, "fallback_lost", folios);
	EXPECT_EQ(area_wrong(&area), 0);

	/* If anything was given back, then this is where it lies now. */
	area_stamp(&area, 5);
	ASSERT_TRUE(take_free_memory(&taken, nodes[1]));
	while (seconds_now() < begin + 2 * LATE_MS / 1000.0)
		usleep(10000);
	EXPECT_EQ(area_wrong(&area), 0);
	EXPECT_EQ(area_wrong(&taken), 0);
	area_destroy(&taken);
}

/* Loses a page. Another thread does something as soon as the engine copies it. */
static void lose_during(void *(*something)(void *descriptors))
{
	void *descriptors = (void *)engine_descriptors();
	pthread_t thread;

	create_area(AREA_ANON_4K, memory_page_size());
	break_engine();
	ASSERT_EQ(pthread_create(&thread, NULL, something, descriptors), 0);
	lose();
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	repair_engine();
}

#define POOL		4

/* Neither a lost folio nor its destination returns to the pool: the engine may still write. */
TEST_F_TIMEOUT(quarantine, hugetlb_never_returns, TIMEOUT)
{
	long before[2];

	for (long node = 0; node < 2; node++) {
		ASSERT_TRUE(hugetlb_reserve(PMD_SIZE, nodes[node], POOL));
		before[node] = hugetlb_free(PMD_SIZE, nodes[node]);
	}
	/* One channel has a folio, and others are left. */
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "segment_bytes", PMD_SIZE), 0);

	for (int shared = 0; shared < 2; shared++) {
		ASSERT_TRUE(area_create_hugetlb(&area, PMD_SIZE, shared, PMD_SIZE, nodes[0]));
		break_engine();
		if (shared) {
			lose();
		} else {
			offload_mark();
			EXPECT_EQ(area_move(&area, nodes[1]), 1);
			EXPECT_EQ(offload_grown("fallback_lost"), 1);
			EXPECT_EQ(area_wrong(&area), 0);
		}
		repair_engine();
		area_destroy(&area);
		for (long node = 0; node < 2; node++)
			EXPECT_EQ(hugetlb_free(PMD_SIZE, nodes[node]), before[node] - 1 - shared);
	}
	EXPECT_EQ(engine_quarantined(), 2);
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "segment_bytes", 4096), 0);
}

static int unload_error = -ETIME;

static void *unload(void *descriptors)
{
	if (engine_wait_until_copying((unsigned long)descriptors))
		unload_error = module_unload("dcbm");
	return NULL;
}

TEST_F_TIMEOUT(quarantine, lost_while_unloading, TIMEOUT)
{
	lose_during(unload);
	/* A copy that cannot be stopped was in flight. */
	EXPECT_EQ(unload_error, -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
}

TEST_F_TIMEOUT(quarantine, other_channels_go_on, TIMEOUT)
{
	repair_engine();
	create_area(AREA_ANON_4K, 2 * MIB);
	move_to(nodes[1]);
	expect_copies(area_folios(&area), "fallback_", 0);
}

/* One descriptor of one channel is stuck: only the folios of that channel are lost. */
TEST_F_TIMEOUT(quarantine, other_folios_go_on, TIMEOUT)
{
	uint64_t copied, lost;

	create_area(AREA_ANON_64K, 512 * KIB);
	break_engine();
	ASSERT_EQ(engine_set_fault_times("late", 1), 0);
	offload_mark();
	EXPECT_GT(area_move(&area, nodes[1]), 0);
	copied = offload_grown("folios_copied");
	lost = offload_grown("fallback_lost");
	TH_LOG("%llu folios lost, %llu copied", (unsigned long long)lost,
	       (unsigned long long)copied);
	/* Three channels have a third of eight folios each, cut where it comes. */
	EXPECT_GE(lost, 2);
	EXPECT_LE(lost, 4);
	EXPECT_EQ(lost + copied, area_folios(&area));
	EXPECT_EQ(area_wrong(&area), 0);
	/* The late copy hits nothing. */
	area_stamp(&area, 6);
	usleep(1500 * LATE_MS);
	EXPECT_EQ(area_wrong(&area), 0);
	repair_engine();
}

static void *unroute(void *descriptors)
{
	if (engine_wait_until_copying((unsigned long)descriptors))
		offload_set_route("syscall_or_cpuset", "none");
	return NULL;
}

/* Unrouting waits for a batch, and keeps the channel that the batch loses. */
TEST_F_TIMEOUT(quarantine, lost_while_unrouting, TIMEOUT)
{
	const unsigned int before = engine_quarantined();

	lose_during(unroute);
	EXPECT_EQ(engine_quarantined(), before + 1);
	/* A new route does not bring it back. */
	ASSERT_EQ(offload_set_route("syscall_or_cpuset", "dcbm"), 0);
	EXPECT_EQ(engine_quarantined(), before + 1);
}

TEST_F_TIMEOUT(quarantine, all_channels_lost, TIMEOUT)
{
	create_area(AREA_ANON_4K, 256 * KIB);
	break_engine();
	lose();
	repair_engine();
}

TEST_F_TIMEOUT(quarantine, cpu_goes_on, TIMEOUT)
{
	every_kind_falls_back("fallback_busy");
}

TEST_F_TIMEOUT(quarantine, nothing_unloads, TIMEOUT)
{
	EXPECT_EQ(module_unload("dcbm"), -EAGAIN);
	EXPECT_EQ(module_unload("dmasim"), -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
	EXPECT_TRUE(module_loaded("dmasim"));
}

/*
 * dcbm never terminates a channel whose driver cannot tell whether the engine has stopped:
 * it leaks what the channel has.
 */
TEST_F_TIMEOUT(unproven_quarantine, never_terminated, TIMEOUT)
{
	struct engine_channel first[ENGINE_MAX_CHANNELS], then[ENGINE_MAX_CHANNELS];
	unsigned int stuck = 0;

	/* A page is for one channel. */
	create_area(AREA_ANON_4K, memory_page_size());
	ASSERT_EQ(engine_set_timeout(TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	lose();
	repair_engine();

	/* The other channel goes on. This one has completed, but stays quarantined. */
	ASSERT_EQ(engine_channels(first), 2);
	create_area(AREA_ANON_4K, 2 * MIB);
	move_to(nodes[1]);
	EXPECT_EQ(offload_grown("folios_copied"), area_folios(&area));
	ASSERT_EQ(engine_channels(then), 2);
	for (unsigned int i = 0; i < 2; i++) {
		bool quarantined = !strcmp(then[i].state, "quarantined");

		stuck += quarantined;
		EXPECT_EQ(then[i].timeouts, quarantined);
		EXPECT_EQ(then[i].descriptors == first[i].descriptors, quarantined);
	}
	EXPECT_EQ(stuck, 1);
	EXPECT_EQ(module_unload("dcbm"), -EAGAIN);
}

static const struct {
	enum area_kind kind;
	size_t size;
} pairs_of[] = { { AREA_ANON_4K, 128 * KIB }, { AREA_ANON_64K, 512 * KIB } };

#define NR_PAIRS_OF	ARRAY_SIZE(pairs_of)

/* terminate_error together with each other fault; faults has the pairs of the others. */
TEST_F_TIMEOUT(pairs_quarantine, every_pair, TIMEOUT)
{
	struct area areas[NR_PAIRS_OF];
	uint64_t seed = 0;

	for (unsigned int i = 0; engine_faults[i]; i++) {
		const bool by_time = !strcmp(engine_faults[i], "never_complete") ||
				     !strcmp(engine_faults[i], "late");
		/* Few: each of them costs a channel. */
		const int times = by_time ? 2 : 4;
		uint64_t copied = 0;
		bool struck = false;

		ASSERT_EQ(engine_set_timeout(by_time ? TIMEOUT_MS : 20000), 0);
		for (unsigned int j = 0; j < NR_PAIRS_OF; j++) {
			ASSERT_TRUE(area_create(&areas[j], pairs_of[j].kind, pairs_of[j].size,
						nodes[0]));
			area_stamp(&areas[j], ++seed);
			ASSERT_EQ(engine_set_fault("terminate_error", 100), 0);
			ASSERT_EQ(engine_set_fault_times(engine_faults[i], times), 0);
			offload_mark();
			area_move(&areas[j], nodes[1]);
			struck |= engine_fault_strikes(engine_faults[i]) > INT_MAX - times;
			EXPECT_EQ(engine_fault_strikes("terminate_error") > 0, by_time);
			engine_clear_faults();
			EXPECT_EQ(area_wrong(&areas[j]), 0)
				TH_LOG("%s and terminate_error", engine_faults[i]);
			EXPECT_EQ(offload_grown("fallback_lost") > 0, by_time)
				offload_show_grown();
			copied += offload_grown("folios_copied");
			area_stamp(&areas[j], ++seed);
		}
		EXPECT_GT(copied, 0);
		EXPECT_TRUE(struck)
			TH_LOG("%s never struck", engine_faults[i]);
		usleep(by_time ? 1500 * LATE_MS : 0);
		for (unsigned int j = 0; j < NR_PAIRS_OF; j++) {
			EXPECT_EQ(area_wrong(&areas[j]), 0);
			area_destroy(&areas[j]);
		}
	}
}

TEST_HARNESS_MAIN
