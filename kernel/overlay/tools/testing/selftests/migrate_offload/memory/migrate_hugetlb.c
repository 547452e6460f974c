// SPDX-License-Identifier: GPL-2.0
/*
 * hugetlb folios of 2 MB and 1 GB, private ones and those of a file, by an engine: every
 * byte, every fault, and what a route promises. quarantine has folios that are lost.
 */
#include <linux/memfd.h>

#include "run.h"

#define TIMEOUT		300
#define GIB		(1024 * MIB)
#define CHANNELS	4

/* Longest descriptor that an engine gets, and what may take timeout_ms. */
#define LONGEST		(4 * MIB)
#define TIMEOUT_BYTES	(64 * MIB)
/* The longest, of HZ=100. */
#define JIFFY_MS	10

FIXTURE(hugetlb) { };
FIXTURE_VARIANT(hugetlb) { size_t folio_size; unsigned int folios; bool shared; };
FIXTURE_VARIANT_ADD(hugetlb, private_2m) { PMD_SIZE, 4, false };
FIXTURE_VARIANT_ADD(hugetlb, shared_2m) { PMD_SIZE, 4, true };
FIXTURE_VARIANT_ADD(hugetlb, private_1g) { GIB, 1, false };
FIXTURE_VARIANT_ADD(hugetlb, shared_1g) { GIB, 1, true };

FIXTURE_SETUP(hugetlb)
{
	if (!run_begin(_metadata))
		return;
	for (int i = 0; i < 2; i++)
		if (!hugetlb_reserve(variant->folio_size, nodes[i], variant->folios))
			SKIP(return, "no %u hugetlb folios of %zu MB on each node",
			     variant->folios, variant->folio_size / MIB);
	ASSERT_TRUE(engine_load("channels=4", ""));
	ASSERT_TRUE(area_create_hugetlb(&area, variant->folio_size, variant->shared,
					variant->folios * variant->folio_size, nodes[0]));
}

FIXTURE_TEARDOWN(hugetlb) { run_end(); }

/* Moves what other processes map, too. Returns how many folios stay. */
static long move(int node)
{
	return memory_move(0, area.addr, area.size, area.folio_size, node, MPOL_MF_MOVE_ALL);
}

/* The engine copies each folio once, and the CPU copies none. */
static void engine_moves(int node)
{
	const uint64_t folios = area_folios(&area);

	/* New contents: the destination may have the old ones. */
	area_stamp(&area, area.seed + 1);
	offload_mark();
	EXPECT_EQ(0, move(node));
	EXPECT_EQ(folios, offload_grown("folios_copied"))
		offload_show_grown();
	EXPECT_EQ(folios, offload_grown("batches"));
	EXPECT_EQ(area.size / memory_page_size(), offload_grown("pages_copied"));
	EXPECT_EQ(0, offload_grown("fallback_") + offload_grown("declined"));
	EXPECT_EQ(0, offload_grown("required_failed"));
	expect_on(node);
}

TEST_F_TIMEOUT(hugetlb, by_all_channels, TIMEOUT)
{
	struct engine_channel channels[ENGINE_MAX_CHANNELS];
	const size_t folio_size = area.folio_size;
	const unsigned int nr = engine_channels(channels);
	/* As many as a channel's share needs. */
	unsigned long least = folio_size / nr / LONGEST ?: 1;

	ASSERT_EQ(CHANNELS, nr);
	engine_moves(nodes[1]);
	engine_channels(channels);
	for (unsigned int i = 0; i < nr; i++) {
		EXPECT_EQ(area.size / nr, channels[i].bytes);
		EXPECT_LE(area_folios(&area) * least, channels[i].descriptors);
	}
}

TEST_F_TIMEOUT(hugetlb, by_the_cpu_migrator, TIMEOUT)
{
	ASSERT_EQ(0, offload_set_route(MOVE_PAGES, "cpu"));
	engine_moves(nodes[1]);
}

/* A route that is live, and bounded, moves them as any other route does. */
TEST_F_TIMEOUT(hugetlb, by_a_live_route, TIMEOUT)
{
	ASSERT_EQ(0, offload_set_live(true));
	ASSERT_EQ(0, offload_set_bound(1));
	engine_moves(nodes[1]);
	EXPECT_EQ(0, offload_grown("live_"));
}

/* The CPU copies what the engine does not, and a copy of which nothing is certain. */
TEST_F_TIMEOUT(hugetlb, faults, TIMEOUT)
{
	static const struct fault {
		const char *name, *cause;
		int timeout_ms;
	} faults[] = {
		{ "result_error", "fallback_error", ENGINE_LONG_MS },
		{ "short_copy", "fallback_error", ENGINE_LONG_MS },
		{ "prep_null", "fallback_", ENGINE_LONG_MS },
		{ "never_complete", "fallback_timeout", 50 },
	};
	const uint64_t folios = area_folios(&area);

	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++) {
		const struct fault *fault = &faults[i];
		uint64_t failed;

		area_stamp(&area, 10 + i);
		ASSERT_EQ(0, engine_set_timeout(fault->timeout_ms));
		ASSERT_EQ(0, engine_set_fault(fault->name, 100));
		offload_mark();
		EXPECT_EQ(0, move(nodes[1 - i % 2]));
		expect_on(nodes[1 - i % 2]);
		failed = offload_grown(fault->cause);
		/* Channels that time out again and again are left alone. */
		if (fault->timeout_ms != ENGINE_LONG_MS) {
			EXPECT_LT(0, failed);
			failed += offload_grown("fallback_busy");
		}
		EXPECT_EQ(folios, failed)
			TH_LOG("%s", fault->name);
		EXPECT_EQ(0, offload_grown("folios_copied"));
		engine_clear_faults();
	}

	ASSERT_EQ(0, module_unload("dcbm"));
	ASSERT_TRUE(engine_load("channels=4", ""));
	engine_moves(nodes[1]);
}

/* A folio that is larger than any batch may take as much longer. */
TEST_F_TIMEOUT(hugetlb, timeout_by_size, TIMEOUT)
{
	const unsigned int times = area.folio_size / TIMEOUT_BYTES ?: 1;
	const double ms = 250;
	double begin, took;

	/* One folio of several is enough: each has a batch of its own. */
	area.size = area.folio_size;
	ASSERT_EQ(0, engine_set_timeout(ms));
	ASSERT_EQ(0, engine_set_fault("never_complete", 100));
	/* The CPU must not copy either: that takes as long on an emulated machine. */
	ASSERT_EQ(0, offload_set_required(MOVE_PAGES, true));
	offload_mark();
	begin = seconds_now();
	EXPECT_EQ(1, move(nodes[1]));
	took = 1000 * (seconds_now() - begin);
	area.size *= variant->folios;
	TH_LOG("%.0f ms", took);
	EXPECT_EQ(1, offload_grown("fallback_timeout"));
	/* Deadlines are in jiffies: the one under way has begun. */
	EXPECT_LE(times * ms - JIFFY_MS, took);
	/* More for what an emulated machine does besides. */
	if (times_count())
		EXPECT_GT(times * ms + 2500, took);
	EXPECT_EQ(0, area_wrong(&area));
}

static void required_stays(void)
{
	const uint64_t folios = area_folios(&area);

	offload_mark();
	EXPECT_EQ(folios, move(nodes[1]));
	EXPECT_EQ(folios, offload_grown("required_failed"))
		offload_show_grown();
	EXPECT_EQ(0, offload_grown("folios_copied"));
	expect_on(nodes[0]);
}

/* Nothing migrates that the engine has not copied. */
TEST_F_TIMEOUT(hugetlb, required, TIMEOUT)
{
	ASSERT_EQ(0, offload_set_required(MOVE_PAGES, true));
	engine_moves(nodes[1]);
	engine_moves(nodes[0]);

	ASSERT_EQ(0, engine_set_fault("result_error", 100));
	required_stays();
	engine_clear_faults();
	ASSERT_EQ(0, offload_set_enabled(false));
	required_stays();
	ASSERT_EQ(0, offload_set_enabled(true));
	ASSERT_EQ(0, module_unload("dcbm"));
	required_stays();
	ASSERT_TRUE(engine_load("channels=4", ""));
	engine_moves(nodes[1]);
}

/*
 * A reference may be used to write: no migrator gets the folio, and it does not move until
 * the reference is gone. That has nothing to do with what the route requires.
 */
TEST_F_TIMEOUT(hugetlb, reference, TIMEOUT)
{
	const uint64_t others = area_folios(&area) - 1;
	int held[2];

	for (int required = 0; required < 2; required++) {
		ASSERT_EQ(0, offload_set_required(MOVE_PAGES, required));
		hold(held, area.addr, 1, 1);
		offload_mark();
		EXPECT_EQ(1, move(nodes[1]));
		EXPECT_LT(0, offload_grown("declined"));
		EXPECT_EQ(others, offload_grown("folios_copied"));
		EXPECT_EQ(0, offload_grown("required_failed"));
		EXPECT_EQ(0, area_wrong(&area));
		let_go(held);
		EXPECT_EQ(0, move(nodes[1]));
		engine_moves(nodes[0]);
	}
}

#define SPARSE_FOLIOS	4

/* Two processes whose page tables are the same: unmapping unshares them. */
FIXTURE(shared_tables) { };

/* Both processes see how the memory was stamped last. */
static struct area *shared;

/* Only whole page tables are shared: 1 GB, of which a part is allocated. */
static char *map_sparsely(void)
{
	char *addr = memory_map_aligned(GIB, GIB);
	int fd = memfd_create("sparse", MFD_HUGETLB | MFD_HUGE_2MB);

	ASSERT_NE(NULL, addr);
	ASSERT_EQ(0, ftruncate(fd, GIB));
	ASSERT_EQ(addr, mmap(addr, GIB, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0));
	close(fd);
	return addr;
}

FIXTURE_SETUP(shared_tables)
{
	if (!run_begin(_metadata))
		return;
	for (int i = 0; i < 2; i++)
		if (!hugetlb_reserve(PMD_SIZE, nodes[i], SPARSE_FOLIOS))
			SKIP(return, "no hugetlb folios");
	ASSERT_TRUE(engine_load("channels=4", ""));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	*shared = (struct area) { map_sparsely(), SPARSE_FOLIOS * PMD_SIZE, PMD_SIZE };
	ASSERT_EQ(0, memory_bind(nodes[0]));
	area_stamp(shared, 1);
	ASSERT_EQ(0, memory_bind(-1));
}

FIXTURE_TEARDOWN(shared_tables)
{
	munmap(shared->addr, GIB);
	run_end();
}

/* The other process maps them as well, by the same table. */
static size_t mapped_by_two_tables(void)
{
	size_t folios = 0;

	for (size_t at = 0; at < shared->size; at += shared->folio_size)
		folios += memory_mapped_by(shared->addr + at) != 1;
	return folios;
}

static size_t wrong_in_shared(void)
{
	return area_wrong(shared);
}

TEST_F_TIMEOUT(shared_tables, both_see_all, TIMEOUT)
{
	struct child child;

	fork_child(&child, wrong_in_shared);
	EXPECT_EQ(0, ask_child(&child));
	for (int i = 0; i < 4; i++) {
		area_stamp(shared, 2 + i);
		EXPECT_EQ(0, ask_child(&child));
		EXPECT_EQ(0, mapped_by_two_tables());
		offload_mark();
		/* A process that lost its table to that finds the memory when it touches it. */
		memory_move(0, shared->addr, shared->size, PMD_SIZE, nodes[1 - i % 2],
			    MPOL_MF_MOVE_ALL);
		EXPECT_EQ(SPARSE_FOLIOS, offload_grown("folios_copied"))
			offload_show_grown();
		EXPECT_EQ(0, area_wrong(shared));
		EXPECT_EQ(0, ask_child(&child));
		EXPECT_EQ(0, memory_pages_not_on(shared->addr, shared->size, nodes[1 - i % 2]));
	}
	end_process(child.pid);
}

#define CONTIG_RANGE	"contig_range"
#define MOST_GIGANTIC	16
#define MOST_HUGE	(MOST_GIGANTIC * 512)

/*
 * Memory that makes way for a hugetlb folio of 1 GB: it came when hugetlb had given that one
 * back, and had all else. Page tables, which cannot make way, are on the other node.
 */
FIXTURE(contiguous) { };

static long held;

FIXTURE_SETUP(contiguous)
{
	int node;

	if (!run_begin(_metadata))
		return;
	node = nodes[1];
	held = hugetlb_hold(GIB, node, MOST_GIGANTIC);
	if (held < 1)
		SKIP(return, "no hugetlb folio of 1 GB");
	if (held == MOST_GIGANTIC)
		SKIP(return, "node %d has more memory than the test can take", node);
	create_area(AREA_ANON_64K, 64 * MIB);
	/* The kernel's own allocations must not go to the folio that is given back. */
	ASSERT_TRUE(engine_load("channels=4", ""));
	hugetlb_hold(PMD_SIZE, node, MOST_HUGE);
	ASSERT_EQ(held - 1, hugetlb_hold(GIB, node, held - 1));
	ASSERT_EQ(0, offload_set_route(CONTIG_RANGE, "dcbm"));
	ASSERT_EQ(0, area_move(&area, node));
	ASSERT_EQ(0, hugetlb_hold(PMD_SIZE, node, 0));
}

FIXTURE_TEARDOWN(contiguous) { run_end(); }

/* Returns how many folios the engine has copied, with that bound. */
static uint64_t make_way(unsigned int bound_us)
{
	uint64_t copied;

	ASSERT_EQ(0, offload_set_bound(bound_us));
	offload_mark();
	EXPECT_EQ(held, hugetlb_hold(GIB, nodes[1], held));
	copied = offload_grown("folios_copied");
	EXPECT_LT(area_folios(&area) / 2, copied)
		offload_show_grown();
	EXPECT_EQ(0, offload_grown("fallback_"));
	expect_intact();
	EXPECT_EQ(0, memory_isolated(nodes));
	return copied;
}

/* A block of 2 MB has 32 of them. */
TEST_F_TIMEOUT(contiguous, block_by_block, TIMEOUT)
{
	uint64_t copied = make_way(0);

	EXPECT_LE(8 * offload_grown("batches"), copied)
		offload_show_grown();
}

TEST_F_TIMEOUT(contiguous, within_the_bound, TIMEOUT)
{
	make_way(1);
	/* However short it is, a batch may hold 128 KB. */
	EXPECT_LE(offload_grown("pages_copied"), 32 * offload_grown("batches"))
		offload_show_grown();
}

TEST_HARNESS_MAIN
