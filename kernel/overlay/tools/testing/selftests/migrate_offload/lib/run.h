/* SPDX-License-Identifier: GPL-2.0 */
/* For tests of copy offload: the memory of a test, and how it moves. */
#ifndef RUN_H
#define RUN_H

#include <sys/resource.h>

#include "test.h"
#include "area.h"
#include "engine.h"
#include "movers.h"
#include "offload.h"

#define MOVE_PAGES	"syscall_or_cpuset"

/* Of a test with a migrator. */
static struct engine_test test;
static struct area area;

static void __attribute__((constructor)) save_offload_settings(void)
{
	offload_save();
}

/* engine_test_begin(). False, with the reason why the test is skipped, if that fails. */
static inline bool run_begin(struct __test_metadata *metadata)
{
	const char *missing = engine_test_begin(&test);

	_metadata = metadata;
	if (missing)
		SKIP(return false, "%s", missing);
	memcpy(nodes, test.nodes, sizeof(nodes));
	return true;
}

static inline void run_end(void)
{
	area_destroy(&area);
	EXPECT_EQ(0, engine_test_end(&test));
}

/* The same for tests with migrators that are there, and must be set by the test. */
static inline bool offload_begin(struct __test_metadata *metadata)
{
	_metadata = metadata;
	if (!offload_available())
		SKIP(return false, "no " OFFLOAD_DIR);
	return test_begin(metadata);
}

/* Only @reason is routed, to @migrator, and all is switched on. */
static inline void route_only(const char *reason, const char *migrator)
{
	ASSERT_EQ(0, offload_route_only(reason, migrator));
	ASSERT_EQ(0, offload_set_enabled(true));
}

/* engine_load(), but a batch may take another time. */
static inline void load_with_timeout(const char *engine, const char *dcbm, int ms)
{
	ASSERT_TRUE(engine_load(engine, dcbm));
	ASSERT_EQ(0, engine_set_timeout(ms));
}

/* New memory on the first node takes the place of what the test had. */
static inline void create_area(enum area_kind kind, size_t size)
{
	area_destroy(&area);
	ASSERT_TRUE(area_create(&area, kind, size, nodes[0]));
}

static inline void set_latency(unsigned long ns)
{
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", ns));
}

/* The memory is in folios of its size, with the contents that it has. */
static inline void expect_intact(void)
{
	EXPECT_EQ(0, area_wrong(&area));
	EXPECT_TRUE(area_is_whole(&area));
}

static inline long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* How many faults it takes to write to each page. The contents stay. */
static inline long faults_of_writing(void)
{
	long before = minor_faults();

	for (size_t i = 0; i < area.size; i += memory_page_size()) {
		volatile char *byte = area.addr + i;

		*byte = *byte;
	}
	return minor_faults() - before;
}

/* All of it is on @node, too. */
static inline void expect_on(int node)
{
	EXPECT_EQ(0, memory_pages_not_on(area.addr, area.size, node));
	expect_intact();
}

/* Moves the memory to a node, where it arrives intact. Counters are marked before. */
static inline void move_to(int node)
{
	offload_mark();
	EXPECT_EQ(0, area_move(&area, node));
	expect_intact();
}

/* The same with new contents: a page that no one copied cannot have them by chance. */
static inline void move_anew(int node)
{
	area_stamp(&area, area.seed + 1);
	move_to(node);
}

/* Since the mark: @copied folios by the migrator, and @fallbacks others, all for one cause. */
static inline void expect_copies(uint64_t copied, const char *cause, uint64_t fallbacks)
{
	EXPECT_EQ(copied, offload_grown("folios_copied"));
	EXPECT_EQ(fallbacks, offload_grown(cause));
	EXPECT_EQ(fallbacks, offload_grown("fallback_"))
		offload_show_grown();
}

/* There and back, with new contents for each move, all by the migrator. */
static inline void there_and_back(enum area_kind kind, size_t size)
{
	create_area(kind, size);
	for (int i = 0; i < 2; i++) {
		move_anew(nodes[1 - i]);
		expect_copies(area_folios(&area), "fallback_", 0);
	}
}

/* The CPU copies each folio, for one cause. */
static inline void every_kind_falls_back(const char *cause)
{
	for (enum area_kind kind = 0; kind < NR_AREA_KINDS; kind++) {
		create_area(kind, 4 * MIB);
		move_to(nodes[1]);
		expect_copies(0, cause, area_folios(&area));
	}
}

static inline void every_kind(size_t size)
{
	for (enum area_kind kind = 0; kind < NR_AREA_KINDS; kind++)
		there_and_back(kind, size);
}

/* Memory of every kind, @size bytes each, is on the move until end_load(). */
static inline void begin_load(size_t size)
{
	offload_mark();
	ASSERT_TRUE(movers_start(nodes, size, false));
}

/* More than @least moves were right since begin_load(), and no folio is lost. */
static inline void end_load(unsigned int least)
{
	unsigned long long moves;

	EXPECT_TRUE(movers_stop(&moves));
	TH_LOG("%llu moves", moves);
	offload_show_grown();
	EXPECT_GT(moves, least);
	EXPECT_EQ(offload_grown("fallback_lost"), 0);
}

/* A thread that moves the memory to the second node. */
static struct {
	pthread_t thread;
	int flags;
	/* Folios that are not there when it is over. */
	long missing;
	bool is_over;
} mover = { .flags = MPOL_MF_MOVE };

static inline void *move_area(void *arg)
{
	mover.missing = memory_move(0, area.addr, area.size, area.folio_size, nodes[1],
				    mover.flags);
	__atomic_store_n(&mover.is_over, true, __ATOMIC_RELEASE);
	return NULL;
}

static inline void start_move(void)
{
	offload_mark();
	ASSERT_EQ(0, pthread_create(&mover.thread, NULL, move_area, NULL));
}

/* Returns when the engine copies. */
static inline void begin_move(void)
{
	const unsigned long before = engine_descriptors();

	start_move();
	ASSERT_TRUE(engine_wait_until_copying(before));
}

static inline void join_move(void)
{
	ASSERT_EQ(0, pthread_join(mover.thread, NULL));
}

/* All of the memory is on the other node then. */
static inline void end_move(void)
{
	join_move();
	EXPECT_EQ(0, mover.missing);
}

/* While memory is copied live, no task has waited for the end of a batch. */
static inline void expect_no_wait(void)
{
	EXPECT_EQ(0, offload_grown("batches"));
}

#endif /* RUN_H */
