// SPDX-License-Identifier: GPL-2.0
/*
 * An engine neither completes nor terminates: the kernel must never free memory that
 * the engine may still write to, nor unload code that it may still call. The channels
 * are lost for good: these tests need a machine that is rebooted afterwards, and run in
 * the order in which they stand here. One boot has either private channels (fixture
 * quarantine), some that are never terminated (unproven_quarantine), or many (pairs_quarantine).
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

struct run {
	struct engine_test test;
	struct area area;
};

FIXTURE(quarantine)
{
	struct run run;
};

FIXTURE(unproven_quarantine)
{
	struct run run;
};

/* The first test loads the modules, which stay. */
static void set_up(struct __test_metadata *_metadata, struct run *run, const char *engine,
		   const char *migrator)
{
	const char *missing;

	run->test.stuck = module_loaded("dcbm");
	missing = engine_test_begin(&run->test);
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_TRUE(run->test.stuck || engine_load(engine, migrator));
	run->test.stuck = true;
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "dcbm"), 0);
	/* A batch has all folios, however slow the machine is. */
	ASSERT_EQ(offload_set_bound(0), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
}

static void tear_down(struct __test_metadata *_metadata, struct run *run)
{
	area_destroy(&run->area);
	EXPECT_EQ(engine_test_end(&run->test), 0);
}

FIXTURE(pairs_quarantine)
{
	struct run run;
};

FIXTURE_SETUP(quarantine)
{
	set_up(_metadata, &self->run, "channels=6 ring_depth=1024", "segment_bytes=4096");
}

FIXTURE_TEARDOWN(quarantine)
{
	tear_down(_metadata, &self->run);
}

FIXTURE_SETUP(unproven_quarantine)
{
	set_up(_metadata, &self->run, "channels=2 reliable_terminate=0", "");
}

FIXTURE_TEARDOWN(unproven_quarantine)
{
	tear_down(_metadata, &self->run);
}

FIXTURE_SETUP(pairs_quarantine)
{
	set_up(_metadata, &self->run, "channels=64 ring_depth=16", "segment_bytes=16384");
}

FIXTURE_TEARDOWN(pairs_quarantine)
{
	tear_down(_metadata, &self->run);
}

static void break_engine(struct __test_metadata *_metadata)
{
	ASSERT_EQ(engine_set_timeout(TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	ASSERT_EQ(engine_set_fault("terminate_error", 100), 0);
}

static void repair_engine(struct __test_metadata *_metadata)
{
	engine_clear_faults();
	ASSERT_EQ(engine_set_timeout(20000), 0);
}

/* Takes free memory of a node, first what was freed last, and stamps it. */
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
	struct area taken = { 0 };
	double begin = seconds_now();

	offload_mark();
	EXPECT_EQ(area_move(area, node), area_folios(area));
	if (times_count())
		EXPECT_LT(seconds_now() - begin, LATE_MS / 1000.0)
			TH_LOG("too slow: the late copies came before the check");
	EXPECT_EQ(offload_grown("fallback_lost"), area_folios(area));
	EXPECT_EQ(offload_grown("fallback_"), area_folios(area));
	EXPECT_EQ(offload_grown("folios_copied"), 0);
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
	unsigned long descriptors;
	int err;
};

static void *unload_thread(void *arg)
{
	struct unload *unload = arg;

	unload->err = -ETIME;
	if (engine_wait_until_copying(unload->descriptors))
		unload->err = module_unload("dcbm");
	return NULL;
}

#define POOL		4

/* Neither a lost folio nor its destination returns to the pool: the engine may still write. */
TEST_F_TIMEOUT(quarantine, hugetlb_never_returns, TIMEOUT)
{
	struct run *run = &self->run;
	long before[2], node;

	for (node = 0; node < 2; node++) {
		ASSERT_TRUE(hugetlb_reserve(PMD_SIZE, run->test.nodes[node], POOL));
		before[node] = hugetlb_free(PMD_SIZE, run->test.nodes[node]);
	}
	/* One channel has a folio, and others are left. */
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "segment_bytes", PMD_SIZE), 0);

	for (int shared = 0; shared < 2; shared++) {
		ASSERT_TRUE(area_create_hugetlb(&run->area, PMD_SIZE, shared, PMD_SIZE,
						run->test.nodes[0]));
		break_engine(_metadata);
		if (shared) {
			lose(_metadata, &run->area, run->test.nodes[1]);
		} else {
			offload_mark();
			EXPECT_EQ(area_move(&run->area, run->test.nodes[1]), 1);
			EXPECT_EQ(offload_grown("fallback_lost"), 1);
			EXPECT_EQ(area_wrong(&run->area), 0);
		}
		repair_engine(_metadata);
		area_destroy(&run->area);
		for (node = 0; node < 2; node++)
			EXPECT_EQ(hugetlb_free(PMD_SIZE, run->test.nodes[node]),
				  before[node] - 1 - shared);
	}
	EXPECT_EQ(engine_quarantined(), 2);
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "segment_bytes", 4096), 0);
}

TEST_F_TIMEOUT(quarantine, lost_while_unloading, TIMEOUT)
{
	struct unload unload = { .descriptors = engine_descriptors() };
	pthread_t thread;

	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, memory_page_size(),
				self->run.test.nodes[0]));
	break_engine(_metadata);
	ASSERT_EQ(pthread_create(&thread, NULL, unload_thread, &unload), 0);
	lose(_metadata, &self->run.area, self->run.test.nodes[1]);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	repair_engine(_metadata);

	/* A copy that cannot be stopped was in flight. */
	EXPECT_EQ(unload.err, -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
}

TEST_F_TIMEOUT(quarantine, other_channels_go_on, TIMEOUT)
{
	repair_engine(_metadata);
	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, 2 * MIB, self->run.test.nodes[0]));
	offload_mark();
	EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[1]), 0);
	EXPECT_EQ(offload_grown("fallback_"), 0);
	EXPECT_EQ(offload_grown("folios_copied"), area_folios(&self->run.area));
	EXPECT_EQ(area_wrong(&self->run.area), 0);
}

/* One descriptor of one channel is stuck: only the folios of that channel are lost. */
TEST_F_TIMEOUT(quarantine, other_folios_go_on, TIMEOUT)
{
	uint64_t copied, lost;

	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_64K, 512 * KIB,
				self->run.test.nodes[0]));
	break_engine(_metadata);
	ASSERT_EQ(engine_set_fault_times("late", 1), 0);
	offload_mark();
	EXPECT_GT(area_move(&self->run.area, self->run.test.nodes[1]), 0);
	copied = offload_grown("folios_copied");
	lost = offload_grown("fallback_lost");
	TH_LOG("%llu folios lost, %llu copied", (unsigned long long)lost,
	       (unsigned long long)copied);
	/* Three channels have a third of eight folios each, cut where it comes. */
	EXPECT_GE(lost, 2);
	EXPECT_LE(lost, 4);
	EXPECT_EQ(lost + copied, area_folios(&self->run.area));
	EXPECT_EQ(area_wrong(&self->run.area), 0);
	/* The late copy hits nothing. */
	area_stamp(&self->run.area, 6);
	usleep(1500 * LATE_MS);
	EXPECT_EQ(area_wrong(&self->run.area), 0);
	repair_engine(_metadata);
}

static void *unroute_thread(void *descriptors)
{
	if (engine_wait_until_copying((unsigned long)descriptors))
		offload_set_route("syscall_or_cpuset", "none");
	return NULL;
}

/* Unrouting waits for a batch, and keeps the channel that the batch loses. */
TEST_F_TIMEOUT(quarantine, lost_while_unrouting, TIMEOUT)
{
	const unsigned int before = engine_quarantined();
	pthread_t thread;

	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, memory_page_size(),
				self->run.test.nodes[0]));
	break_engine(_metadata);
	ASSERT_EQ(pthread_create(&thread, NULL, unroute_thread, (void *)engine_descriptors()), 0);
	lose(_metadata, &self->run.area, self->run.test.nodes[1]);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	repair_engine(_metadata);
	EXPECT_EQ(engine_quarantined(), before + 1);
	/* A new route does not bring it back. */
	ASSERT_EQ(offload_set_route("syscall_or_cpuset", "dcbm"), 0);
	EXPECT_EQ(engine_quarantined(), before + 1);
}

TEST_F_TIMEOUT(quarantine, all_channels_lost, TIMEOUT)
{
	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, 256 * KIB, self->run.test.nodes[0]));
	break_engine(_metadata);
	lose(_metadata, &self->run.area, self->run.test.nodes[1]);
	repair_engine(_metadata);
}

TEST_F_TIMEOUT(quarantine, cpu_goes_on, TIMEOUT)
{
	enum area_kind kind;

	for (kind = 0; kind < NR_AREA_KINDS; kind++) {
		ASSERT_TRUE(area_create(&self->run.area, kind, 4 * MIB, self->run.test.nodes[0]));
		offload_mark();
		EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[1]), 0);
		EXPECT_EQ(offload_grown("folios_copied"), 0);
		EXPECT_EQ(offload_grown("fallback_busy") +
			  offload_grown("fallback_refused"),
			  area_folios(&self->run.area));
		EXPECT_EQ(area_wrong(&self->run.area), 0);
		area_destroy(&self->run.area);
	}
}

TEST_F_TIMEOUT(quarantine, nothing_unloads, TIMEOUT)
{
	EXPECT_EQ(module_unload("dcbm"), -EAGAIN);
	EXPECT_EQ(module_unload("dmasim"), -EAGAIN);
	EXPECT_TRUE(module_loaded("dcbm"));
	EXPECT_TRUE(module_loaded("dmasim"));
}

/*
 * dcbm never terminates a channel whose driver does not state that this waits for the
 * engine: it leaks what the channel has.
 */
TEST_F_TIMEOUT(unproven_quarantine, never_terminated, TIMEOUT)
{
	struct engine_channel first[ENGINE_MAX_CHANNELS], then[ENGINE_MAX_CHANNELS];
	unsigned int i, stuck = 0;

	/* A page is for one channel. */
	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, memory_page_size(),
				self->run.test.nodes[0]));
	ASSERT_EQ(engine_set_timeout(TIMEOUT_MS), 0);
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	lose(_metadata, &self->run.area, self->run.test.nodes[1]);
	repair_engine(_metadata);
	area_destroy(&self->run.area);

	/* The other channel goes on. This one has completed, but stays quarantined. */
	ASSERT_EQ(engine_channels(first), 2);
	ASSERT_TRUE(area_create(&self->run.area, AREA_ANON_4K, 2 * MIB, self->run.test.nodes[0]));
	offload_mark();
	EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[1]), 0);
	EXPECT_EQ(area_wrong(&self->run.area), 0);
	EXPECT_EQ(offload_grown("folios_copied"), area_folios(&self->run.area));
	ASSERT_EQ(engine_channels(then), 2);
	for (i = 0; i < 2; i++) {
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
	/* Whether a channel gets a list or segments. */
	int lists;
} pairs_of[] = {
	{ AREA_ANON_4K, 128 * KIB, 0 }, { AREA_ANON_4K, 128 * KIB, 1 },
	{ AREA_ANON_64K, 512 * KIB, 0 }, { AREA_ANON_64K, 512 * KIB, 1 },
};

#define NR_PAIRS_OF	ARRAY_SIZE(pairs_of)

/* terminate_error together with each other fault; faults has the pairs of the others. */
TEST_F_TIMEOUT(pairs_quarantine, every_pair, TIMEOUT)
{
	const int *nodes = self->run.test.nodes;
	struct area area[NR_PAIRS_OF];
	uint64_t seed = 0, copied;
	unsigned int i, j;

	for (i = 0; engine_faults[i]; i++) {
		const bool by_time = !strcmp(engine_faults[i], "never_complete") ||
				     !strcmp(engine_faults[i], "late");

		ASSERT_EQ(engine_set_timeout(by_time ? TIMEOUT_MS : 20000), 0);
		for (j = 0, copied = 0; j < NR_PAIRS_OF; j++) {
			ASSERT_TRUE(area_create(&area[j], pairs_of[j].kind, pairs_of[j].size,
						nodes[0]));
			ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "lists",
						       pairs_of[j].lists), 0);
			area_stamp(&area[j], ++seed);
			ASSERT_EQ(engine_set_fault("terminate_error", 100), 0);
			/* Few: each of them costs a channel. */
			ASSERT_EQ(engine_set_fault_times(engine_faults[i], by_time ? 2 : 4), 0);
			offload_mark();
			area_move(&area[j], nodes[1]);
			engine_clear_faults();
			EXPECT_EQ(area_wrong(&area[j]), 0)
				TH_LOG("%s and terminate_error", engine_faults[i]);
			EXPECT_EQ(offload_grown("fallback_lost") > 0, by_time)
				offload_show_grown();
			copied += offload_grown("folios_copied");
			area_stamp(&area[j], ++seed);
		}
		EXPECT_GT(copied, 0);
		usleep(by_time ? 1500 * LATE_MS : 0);
		for (j = 0; j < NR_PAIRS_OF; j++) {
			EXPECT_EQ(area_wrong(&area[j]), 0);
			area_destroy(&area[j]);
		}
	}
}

TEST_HARNESS_MAIN
