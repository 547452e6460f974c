// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that a migration with copy offload must keep, each with a test that fails
 * without it:
 *
 *  2  Folios with buffer heads are not copied early: buffer_heads.sh.
 *  5  When pages are given back, nothing may still be writing to them. What an
 *     engine that cannot be stopped may write to is not given back: quarantine.
 *  6  Every completion counts; engines may complete in any order.
 *  7  No wait without a bound, and a full ring is no error.
 *  9  A migrator does not go away while it has copies in flight.
 * 10  Nothing happens for a reason without a migrator.
 *
 * And what is done to a mapping while its folios are copied is done to the copies.
 *
 * 1 (a copy is good for one attempt), 3 (metadata that a copy must carry), 4
 * (poison) and 8 (locks) cannot be broken from here: the KUnit tests and lockdep
 * have them.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		300
#define LONG_MS		60000
#define TRACING		"/sys/kernel/tracing/"
#define COPIED_EVENT	TRACING "events/migrate/mm_migrate_batch_copied/enable"

FIXTURE(rules)
{
	int nodes[2];
	int log;
	struct area area;
};

FIXTURE_SETUP(rules)
{
	self->log = kernel_log_open();
	ASSERT_GE(self->log, 0);
	ASSERT_TRUE(memory_two_nodes(&self->nodes[0], &self->nodes[1]));
	offload_save();
	area_settings_save();
	setting_save(COPIED_EVENT);
}

FIXTURE_TEARDOWN(rules)
{
	area_destroy(&self->area);
	EXPECT_TRUE(engine_unload());
	EXPECT_EQ(kernel_log_bad(self->log), 0);
	close(self->log);
	settings_restore();
}

static void load(struct __test_metadata *_metadata, const char *dmasim_parameters,
		 long timeout_ms)
{
	ASSERT_TRUE(engine_load(dmasim_parameters, ""));
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "timeout_ms", timeout_ms), 0);
}

/* Moves the area to the second node, and reports what the statistics say. */
static void move(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
		 uint64_t *copied, uint64_t *fallbacks)
{
	struct offload_stats before, after;

	offload_read_stats(&before);
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	offload_read_stats(&after);
	*copied = offload_growth(&before, &after, "folios_copied");
	*fallbacks = offload_growth(&before, &after, "fallback_");
	EXPECT_EQ(area_wrong(&self->area), 0);
}

static void no_stray_write(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
			   enum area_kind kind)
{
	const long late_ms = 1500;
	uint64_t copied, fallbacks;

	load(_metadata, "channels=4 ring_depth=1024 late_ms=1500", 50);
	ASSERT_TRUE(area_create(&self->area, kind, 2 * MIB, self->nodes[0]));
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	move(_metadata, self, &copied, &fallbacks);
	EXPECT_EQ(copied, 0);
	EXPECT_EQ(fallbacks, area_folios(&self->area));

	/* A copy that is still under way brings the old contents back. */
	area_stamp(&self->area, 2);
	usleep(1500 * late_ms);
	EXPECT_EQ(area_wrong(&self->area), 0);
}

TEST_F_TIMEOUT(rules, rule_5_no_stray_write_4k, TIMEOUT)
{
	no_stray_write(_metadata, self, AREA_ANON_4K);
}

TEST_F_TIMEOUT(rules, rule_5_no_stray_write_2m, TIMEOUT)
{
	no_stray_write(_metadata, self, AREA_ANON_2M);
}

/* The last descriptor of each channel completes well before one that it overtakes. */
TEST_F_TIMEOUT(rules, rule_6_completions_out_of_order, TIMEOUT)
{
	uint64_t copied, fallbacks;
	int i;

	load(_metadata, "channels=2 ring_depth=64", LONG_MS);
	ASSERT_EQ(engine_set_fault("out_of_order", 50), 0);
	for (i = 0; i < 8; i++) {
		ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 64 * KIB,
					self->nodes[0]));
		area_stamp(&self->area, i);
		move(_metadata, self, &copied, &fallbacks);
		EXPECT_EQ(copied, area_folios(&self->area));
		EXPECT_EQ(fallbacks, 0);
		area_destroy(&self->area);
	}
}

TEST_F_TIMEOUT(rules, rule_7_ring_shorter_than_batch, TIMEOUT)
{
	uint64_t copied, fallbacks;

	load(_metadata, "channels=1 ring_depth=3", LONG_MS);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->nodes[0]));
	move(_metadata, self, &copied, &fallbacks);
	EXPECT_EQ(copied, area_folios(&self->area));
	EXPECT_EQ(fallbacks, 0);
}

TEST_F_TIMEOUT(rules, rule_7_waits_are_bounded, TIMEOUT)
{
	uint64_t copied, fallbacks;
	double begin;

	load(_metadata, "channels=2", 200);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->nodes[0]));
	ASSERT_EQ(engine_set_fault("never_complete", 100), 0);
	begin = seconds_now();
	move(_metadata, self, &copied, &fallbacks);
	EXPECT_LT(seconds_now() - begin, debug_kernel() ? 20 : 5);
	EXPECT_EQ(copied, 0);
	EXPECT_EQ(fallbacks, area_folios(&self->area));
}

/* Migration in a thread of its own, while something happens to the migrator. */
struct flight {
	struct area *area;
	int node;
	long stayed;
	double end;
};

static void *flight_thread(void *arg)
{
	struct flight *flight = arg;

	flight->stayed = area_move(flight->area, flight->node);
	flight->end = seconds_now();
	return NULL;
}

/* Four channels with 32 descriptors each of 60 ms: almost two seconds. */
#define FLIGHT_PAGES	128

static void *begin_flight(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
			  struct flight *flight)
{
	static pthread_t thread;

	load(_metadata, "channels=4 ring_depth=64 latency_ns=60000000", LONG_MS);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K,
				FLIGHT_PAGES * memory_page_size(), self->nodes[0]));
	*flight = (struct flight){ .area = &self->area, .node = self->nodes[1] };
	ASSERT_EQ(pthread_create(&thread, NULL, flight_thread, flight), 0);
	area_wait_in_flight(&self->area);
	return &thread;
}

static void end_flight(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
		       struct flight *flight, void *thread,
		       const struct offload_stats *before)
{
	struct offload_stats after;

	ASSERT_EQ(pthread_join(*(pthread_t *)thread, NULL), 0);
	offload_read_stats(&after);
	EXPECT_EQ(flight->stayed, 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
	/* Each folio either way: a batch that was accepted may end as it began. */
	EXPECT_EQ(offload_growth(before, &after, "folios_copied") +
		  offload_growth(before, &after, "fallback_"), FLIGHT_PAGES);
}

TEST_F_TIMEOUT(rules, rule_9_unload_while_busy, TIMEOUT)
{
	struct offload_stats before, after;
	struct flight flight;
	char route[64];
	void *thread;
	double begin;
	int err;

	offload_read_stats(&before);
	thread = begin_flight(_metadata, self, &flight);
	offload_read_stats(&after);
	ASSERT_EQ(offload_growth(&before, &after, "folios_copied"), 0)
		TH_LOG("too slow: nothing is in flight any more");

	/* It may wait by itself, or have us wait. */
	begin = seconds_now();
	do {
		err = module_unload("dcbm");
		usleep(1000);
	} while (err == -EAGAIN && seconds_now() < begin + 60);
	EXPECT_EQ(err, 0);
	EXPECT_GT(seconds_now() - begin, 0.5);

	/* All that was in flight has ended, and well. */
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), FLIGHT_PAGES);
	end_flight(_metadata, self, &flight, thread, &before);

	EXPECT_FALSE(module_loaded("dcbm"));
	ASSERT_EQ(offload_get_route("syscall_or_cpuset", route, sizeof(route)), 0);
	EXPECT_STREQ(route, "none");
	EXPECT_EQ(offload_set_route("syscall_or_cpuset", "dcbm"), -ENOENT);
}

TEST_F_TIMEOUT(rules, rule_9_route_changes_while_busy, TIMEOUT)
{
	struct offload_stats before;
	struct flight flight;
	void *thread;
	int i;

	offload_read_stats(&before);
	thread = begin_flight(_metadata, self, &flight);
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "cpu"), 0);
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "none"), 0);
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "dcbm"), 0);
	}
	end_flight(_metadata, self, &flight, thread, &before);
}

TEST_F_TIMEOUT(rules, rule_9_switched_off_while_busy, TIMEOUT)
{
	struct offload_stats before;
	struct flight flight;
	void *thread;
	int i;

	offload_read_stats(&before);
	thread = begin_flight(_metadata, self, &flight);
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(offload_set_enabled(false), 0);
		EXPECT_EQ(offload_set_enabled(true), 0);
	}
	EXPECT_EQ(offload_set_enabled(false), 0);
	end_flight(_metadata, self, &flight, thread, &before);
}

#define HALF		(32 * KIB)
#define PARTIALLY_MAPPED \
	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/nr_anon_partially_mapped"

/* The upper half of every other folio is not mapped any more. */
static size_t bytes_wrong_in_halves(const struct area *area)
{
	char *expected = malloc(area->size);
	size_t wrong = 0;

	if (!expected)
		return area->size;
	memory_stamp(expected, area->size, area->seed);
	for (size_t i = 0; i < area->size; i += HALF)
		if (i / HALF % 4 != 3)
			wrong += !!memcmp(expected + i, area->addr + i, HALF) * HALF;
	free(expected);
	return wrong;
}

/* The kernel writes for us, and tells. */
static bool is_writable(void *addr)
{
	int fd = open("/dev/zero", O_RDONLY);
	bool written = read(fd, addr, 1) == 1;

	close(fd);
	return written;
}

/*
 * Folios are copied while one half of each is unmapped or made read-only: what is
 * left must come along, and the kernel must know which folios lost a part.
 */
TEST_F_TIMEOUT(rules, halves_unmapped_while_busy, TIMEOUT)
{
	struct offload_stats before, after;
	struct flight flight;
	size_t folios, i;
	pthread_t thread;
	long marked;

	load(_metadata, "channels=4 ring_depth=64 latency_ns=60000000", LONG_MS);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_64K, 2 * MIB, self->nodes[0]));
	folios = area_folios(&self->area);
	marked = setting_read_number(PARTIALLY_MAPPED);
	flight = (struct flight){ .area = &self->area, .node = self->nodes[1] };
	offload_read_stats(&before);
	ASSERT_EQ(pthread_create(&thread, NULL, flight_thread, &flight), 0);
	area_wait_in_flight(&self->area);

	for (i = 0; i < folios; i++) {
		char *upper = self->area.addr + 2 * i * HALF + HALF;

		EXPECT_EQ(i % 2 ? munmap(upper, HALF) : mprotect(upper, HALF, PROT_READ), 0);
	}
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), 0)
		TH_LOG("too slow: nothing was in flight any more");
	ASSERT_EQ(pthread_join(thread, NULL), 0);

	EXPECT_EQ(flight.stayed, 0);
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), folios);
	EXPECT_EQ(bytes_wrong_in_halves(&self->area), 0);
	EXPECT_GE(setting_read_number(PARTIALLY_MAPPED) - marked, (long)folios / 2);
	for (i = 0; i < folios; i += 2)
		EXPECT_FALSE(is_writable(self->area.addr + 2 * i * HALF + HALF));

	/* All but the pages that are not there. */
	EXPECT_EQ(area_move(&self->area, self->nodes[0]),
		  (long)(folios / 2 * HALF / memory_page_size()));
	EXPECT_EQ(bytes_wrong_in_halves(&self->area), 0);
}

static unsigned int copied_events(void)
{
	char line[1024];
	unsigned int nr = 0;
	FILE *file = fopen(TRACING "trace", "r");

	while (file && fgets(line, sizeof(line), file))
		nr += !!strstr(line, " mm_migrate_batch_copied:");
	if (file)
		fclose(file);
	return nr;
}

/* Returns how many events of the copy phase there were, and what all counters grew by. */
static unsigned int trace_move(struct __test_metadata *_metadata,
			       FIXTURE_DATA(rules) *self, uint64_t *growth)
{
	struct offload_stats before, after;
	unsigned int events;

	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->nodes[0]));
	ASSERT_EQ(setting_write(COPIED_EVENT, "1"), 0);
	ASSERT_EQ(setting_write(TRACING "trace", ""), 0);
	offload_read_stats(&before);
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	offload_read_stats(&after);
	events = copied_events();
	ASSERT_EQ(setting_write(COPIED_EVENT, "0"), 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
	area_destroy(&self->area);
	/* The empty prefix: all of them. */
	*growth = offload_growth(&before, &after, "");
	return events;
}

TEST_F_TIMEOUT(rules, rule_10_off_costs_nothing, TIMEOUT)
{
	uint64_t growth;

	ASSERT_EQ(offload_route_only(NULL, "cpu"), 0);
	ASSERT_EQ(offload_set_enabled(false), 0);
	EXPECT_EQ(trace_move(_metadata, self, &growth), 0);
	EXPECT_EQ(growth, 0);

	ASSERT_EQ(offload_route_only(NULL, "none"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	EXPECT_EQ(trace_move(_metadata, self, &growth), 0);
	EXPECT_EQ(growth, 0);

	/* Another reason is routed: the phase is there, but not for us. */
	ASSERT_EQ(offload_route_only("compaction", "cpu"), 0);
	EXPECT_EQ(trace_move(_metadata, self, &growth), 0);

	/* What was not seen is there to be seen. */
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "cpu"), 0);
	EXPECT_GT(trace_move(_metadata, self, &growth), 0);
	EXPECT_GT(growth, 512);
}

TEST_HARNESS_MAIN
