// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that a migration with copy offload must keep, each with a test that fails without it:
 *
 *  2  Only memory that cannot change is copied early: neither a folio with another
 *     reference nor shmem that no page table maps. Nor folios with buffer
 *     heads: the program buffer_heads. And a driver that pins one meanwhile waits.
 *  5  When pages are given back, nothing may still be writing to them: the fault "late" of
 *     the program faults. Memory of an engine that cannot be stopped is not given
 *     back: quarantine.
 *  6  Every completion counts; engines may complete in any order.
 *  7  No wait without a bound, and a full ring is no error.
 *  9  A migrator does not go away while it has copies in flight.
 * 10  Nothing happens for a reason without a migrator.
 *
 * And a change of a mapping while its folios are copied holds for the copies.
 *
 * The KUnit tests have 1 (a copy is good for one attempt), 3 (metadata that a copy must
 * carry) and 4 (poison), lockdep has 8 (locks). No program can test 1: one that makes the
 * first attempt fail and changes the folio keeps its reference, or waits for the lock,
 * until all attempts of the batch have failed.
 */
#include <linux/udmabuf.h>

#include "run.h"
#include "window.h"

#define TIMEOUT		300
#define LONG_MS		60000
#define TRACING		"/sys/kernel/tracing/"
#define COPIED_EVENT	TRACING "events/migrate/mm_migrate_batch_copied/enable"
#define SOFT_OFFLINE	"/sys/devices/system/memory/soft_offline_page"

FIXTURE(rules) { };

FIXTURE_SETUP(rules)
{
	if (run_begin(_metadata))
		setting_save(COPIED_EVENT);
}

FIXTURE_TEARDOWN(rules)
{
	window_end_faults();
	window_unmap();
	run_end();
}

#define PIPE_PAGES	16

/*
 * A pipe holds a reference to each page, of which the kernel knows only that it is not
 * one of its own: a write may come through it.
 */
TEST_F_TIMEOUT(rules, rule_2_pages_with_a_reference, TIMEOUT)
{
	size_t done = 0, size = PIPE_PAGES * memory_page_size();
	char *piped = malloc(size);
	struct iovec iov;
	int ends[2];

	ASSERT_NE(piped, NULL);
	ASSERT_EQ(pipe(ends), 0);
	create_area(AREA_ANON_4K, size);
	route_only(MOVE_PAGES, "cpu");
	iov = (struct iovec){ .iov_base = area.addr, .iov_len = size };
	ASSERT_EQ(vmsplice(ends[1], &iov, 1, 0), (ssize_t)size);

	offload_mark();
	EXPECT_EQ(area_move(&area, nodes[1]), PIPE_PAGES);
	EXPECT_GE(offload_grown("declined"), PIPE_PAGES);
	expect_copies(0, "fallback_", 0);
	EXPECT_EQ(area_wrong(&area), 0);

	/* The migrator copies them as soon as the pipe has let go. */
	while (done < size) {
		ssize_t got = read(ends[0], piped + done, size - done);

		ASSERT_GT(got, 0);
		done += got;
	}
	EXPECT_EQ(memory_verify(piped, size, area.seed), 0);
	move_to(nodes[1]);
	expect_copies(PIPE_PAGES, "fallback_", 0);
	free(piped);
}

/* Has the kernel move a page and never use its old place again. */
static int soft_offline(uint64_t pfn)
{
	return setting_write_number(SOFT_OFFLINE, pfn * memory_page_size());
}

/*
 * Drivers write to shmem that no page table maps without its lock. The machine loses two
 * pages by this until the next boot.
 */
TEST_F_TIMEOUT(rules, rule_2_shmem_that_is_not_mapped, TIMEOUT)
{
	size_t page = memory_page_size();
	uint64_t pfn;
	char *map;
	int fd;

	if (access(SOFT_OFFLINE, W_OK))
		SKIP(return, "a kernel without CONFIG_MEMORY_FAILURE");
	route_only("memory_failure", "cpu");
	fd = memfd_create("rules", 0);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, page), 0);
	map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(map, MAP_FAILED);
	memory_stamp(map, page, 1);

	/* The kernel copies a mapped page early: nothing else keeps it from that. */
	offload_mark();
	EXPECT_EQ(soft_offline(memory_pfn(map)), 0);
	expect_copies(1, "fallback_", 0);
	EXPECT_EQ(memory_verify(map, page, 1), 0);

	pfn = memory_pfn(map);
	ASSERT_EQ(munmap(map, page), 0);
	offload_mark();
	EXPECT_EQ(soft_offline(pfn), 0);
	expect_copies(0, "fallback_", 0);
	EXPECT_EQ(offload_grown("declined"), 1);

	map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(map, MAP_FAILED);
	EXPECT_EQ(memory_verify(map, page, 1), 0);
	EXPECT_NE(memory_pfn(map), pfn);
	munmap(map, page);
	close(fd);
}

/* One channel, and a descriptor for each page: the first one meets @fault. */
static void break_first_descriptor(const char *fault)
{
	load_with_timeout("channels=1 ring_depth=64 late_ms=500", "", LONG_MS);
	create_area(AREA_ANON_4K, 32 * KIB);
	ASSERT_EQ(engine_set_fault_times(fault, 1), 0);
}

TEST_F_TIMEOUT(rules, rule_6_first_completes_last, TIMEOUT)
{
	double begin;

	break_first_descriptor("late");
	begin = seconds_now();
	move_to(nodes[1]);
	EXPECT_GE(seconds_now() - begin, 0.5);
	expect_copies(area_folios(&area), "fallback_", 0);
}

TEST_F_TIMEOUT(rules, rule_6_first_fails, TIMEOUT)
{
	break_first_descriptor("result_error");
	move_to(nodes[1]);
	expect_copies(area_folios(&area) - 1, "fallback_", 1);
}

TEST_F_TIMEOUT(rules, rule_7_ring_shorter_than_batch, TIMEOUT)
{
	ASSERT_TRUE(engine_load("ring_depth=3", "channels=1"));
	create_area(AREA_ANON_4K, 2 * MIB);
	move_to(nodes[1]);
	expect_copies(area_folios(&area), "fallback_", 0);
}

TEST_F_TIMEOUT(rules, rule_7_waits_are_bounded, TIMEOUT)
{
	double begin;

	load_with_timeout("channels=2", "", 200);
	create_area(AREA_ANON_4K, 2 * MIB);
	ASSERT_EQ(engine_set_fault("never_complete", 100), 0);
	begin = seconds_now();
	move_to(nodes[1]);
	if (times_count())
		EXPECT_LT(seconds_now() - begin, debug_kernel() ? 20 : 5);
	expect_copies(0, "fallback_", area_folios(&area));
}

static void expect_in_flight(void)
{
	EXPECT_EQ(offload_grown("folios_copied"), 0)
		TH_LOG("too slow: nothing is in flight any more");
}

#define FLIGHT_PAGES	128

/*
 * Starts a flight of the area, which is there: almost two seconds, as each of four channels
 * has a quarter of the folios.
 */
static void launch(void)
{
	const uint64_t ns = 7680000000 / area_folios(&area);

	load_with_timeout("channels=4 ring_depth=64", "channels=4", LONG_MS);
	if (!engine_is("dmasim")) {
		ASSERT_TRUE(window_map());
		window_set(DESC_NS, ns);
	} else {
		set_latency(ns);
	}
	/* A child may map it, too. */
	mover.flags = MPOL_MF_MOVE_ALL;
	/* When it copies, all folios of the batch are unmapped, and the route was looked at. */
	begin_move();
	expect_in_flight();
}

static void begin_flight(enum area_kind kind, size_t size)
{
	create_area(kind, size);
	launch();
}

static void end_flight(void)
{
	end_move();
	EXPECT_EQ(area_wrong(&area), 0);
	/* The migrator may finish a batch that it accepted before the change. */
	EXPECT_EQ(offload_grown("folios_copied") + offload_grown("fallback_"), FLIGHT_PAGES);
}

/*
 * A driver pins shmem by its file while that is copied, writes to it, and lets it go before
 * the copy is complete. In ZONE_MOVABLE whoever pins waits for a migration in any case.
 */
TEST_F_TIMEOUT(rules, rule_2_pinned_by_its_file, TIMEOUT)
{
	struct udmabuf_create request = { .size = FLIGHT_PAGES * memory_page_size() };
	struct area written = { .size = request.size, .folio_size = memory_page_size() };
	int device = open("/dev/udmabuf", O_RDWR), memfd, buffer;

	if (device < 0)
		SKIP(return, "a kernel without CONFIG_UDMABUF");
	memfd = memfd_create("rules", MFD_ALLOW_SEALING);
	ASSERT_GE(memfd, 0);
	request.memfd = memfd;
	ASSERT_EQ(ftruncate(memfd, request.size), 0);
	ASSERT_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	area = written;
	area.addr = mmap(NULL, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	ASSERT_NE(area.addr, MAP_FAILED);
	area.seed = 1;
	ASSERT_EQ(memory_fill(area.addr, area.size, area.folio_size, nodes[0], area.seed), 0);
	/* The bytes of a descriptor arrive when it ends: each folio has its own. */
	launch();
	sleep(1); /* by then, half of it has been copied */
	expect_in_flight();

	buffer = ioctl(device, UDMABUF_CREATE, &request);
	ASSERT_GE(buffer, 0);
	written.addr = mmap(NULL, written.size, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	ASSERT_NE(written.addr, MAP_FAILED);
	area_stamp(&written, 2);
	area_destroy(&written);
	close(buffer);
	join_move();
	area.seed = 2;
	EXPECT_EQ(area_wrong(&area), 0);
	close(memfd);
	close(device);
}

TEST_F_TIMEOUT(rules, rule_9_unload_while_busy, TIMEOUT)
{
	char route[OFFLOAD_ROUTE_SIZE];
	double begin;

	begin_flight(AREA_ANON_4K, FLIGHT_PAGES * memory_page_size());

	/* It waits by itself, or says -EAGAIN. */
	begin = seconds_now();
	EXPECT_EQ(engine_unload_busy("dcbm"), 0);
	EXPECT_GT(seconds_now() - begin, 0.5);

	EXPECT_EQ(offload_grown("folios_copied"), FLIGHT_PAGES);
	end_flight();

	EXPECT_FALSE(module_loaded("dcbm"));
	ASSERT_EQ(offload_get_route(MOVE_PAGES, route), 0);
	EXPECT_STREQ(route, "none");
	EXPECT_EQ(offload_set_route(MOVE_PAGES, "dcbm"), -ENOENT);
}

TEST_F_TIMEOUT(rules, rule_9_route_changes_while_busy, TIMEOUT)
{
	begin_flight(AREA_ANON_4K, FLIGHT_PAGES * memory_page_size());
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(offload_route_only(MOVE_PAGES, "cpu"), 0);
		EXPECT_EQ(offload_route_only(MOVE_PAGES, "none"), 0);
		EXPECT_EQ(offload_route_only(MOVE_PAGES, "dcbm"), 0);
	}
	end_flight();
}

TEST_F_TIMEOUT(rules, rule_9_switched_off_while_busy, TIMEOUT)
{
	begin_flight(AREA_ANON_4K, FLIGHT_PAGES * memory_page_size());
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(offload_set_enabled(false), 0);
		EXPECT_EQ(offload_set_enabled(true), 0);
	}
	EXPECT_EQ(offload_set_enabled(false), 0);
	end_flight();
}

#define HALF		(32 * KIB)
#define PARTIALLY_MAPPED THP_DIR "/hugepages-64kB/stats/nr_anon_partially_mapped"

/* Leaves out the upper half of every @nr-th folio, which is not mapped any more. */
static size_t bytes_wrong_in_halves(unsigned int nr)
{
	char *expected = malloc(area.size);
	size_t wrong = 0;

	memory_stamp(expected, area.size, area.seed);
	for (size_t i = 0; i < area.size; i += HALF)
		if (i / HALF % (2 * nr) != 2 * nr - 1)
			wrong += !!memcmp(expected + i, area.addr + i, HALF) * HALF;
	free(expected);
	return wrong;
}

/* Has the kernel write a byte, and say whether it could. */
static bool is_writable(void *addr)
{
	int fd = open("/dev/zero", O_RDONLY);
	bool written = read(fd, addr, 1) == 1;

	close(fd);
	return written;
}

/*
 * Folios are copied while one half of each is unmapped or made read-only: the other
 * half must come along, and the kernel must know which folios lost a part.
 */
TEST_F_TIMEOUT(rules, halves_unmapped_while_busy, TIMEOUT)
{
	long marked = setting_read_number(PARTIALLY_MAPPED);
	size_t folios;

	begin_flight(AREA_ANON_64K, 2 * MIB);
	folios = area_folios(&area);
	for (size_t i = 0; i < folios; i++) {
		char *upper = area.addr + 2 * i * HALF + HALF;

		EXPECT_EQ(i % 2 ? munmap(upper, HALF) : mprotect(upper, HALF, PROT_READ), 0);
	}
	expect_in_flight();
	end_move();
	expect_copies(folios, "fallback_", 0);
	EXPECT_EQ(bytes_wrong_in_halves(2), 0);
	EXPECT_GE(setting_read_number(PARTIALLY_MAPPED) - marked, (long)folios / 2);
	for (size_t i = 0; i < folios; i += 2)
		EXPECT_FALSE(is_writable(area.addr + 2 * i * HALF + HALF));

	/* Page by page: only the unmapped ones stay. */
	area.folio_size = memory_page_size();
	EXPECT_EQ(area_move(&area, nodes[0]), (long)(folios / 2 * HALF / memory_page_size()));
	EXPECT_EQ(bytes_wrong_in_halves(2), 0);
}

/* Returns how many it could not unmap. */
static size_t unmap_upper_halves(void)
{
	size_t failed = 0;

	for (size_t i = HALF; i < area.size; i += 2 * HALF)
		failed += !!munmap(area.addr + i, HALF);
	return failed;
}

/*
 * All who map a folio unmap the same half. It has lost it, although as many PTEs map it
 * as it has pages.
 */
TEST_F_TIMEOUT(rules, halves_unmapped_by_all_while_busy, TIMEOUT)
{
	struct child sharer;
	size_t folios;
	long marked;

	create_area(AREA_ANON_64K, 2 * MIB);
	folios = area_folios(&area);
	fork_child(&sharer, unmap_upper_halves);
	marked = setting_read_number(PARTIALLY_MAPPED);

	launch();
	EXPECT_EQ(unmap_upper_halves(), 0);
	EXPECT_EQ(ask_child(&sharer), 0);
	expect_in_flight();
	end_move();
	expect_copies(folios, "fallback_", 0);
	EXPECT_EQ(bytes_wrong_in_halves(1), 0);
	EXPECT_EQ(setting_read_number(PARTIALLY_MAPPED) - marked, (long)folios);
	end_process(sharer.pid);
}

/* Returns how many events of the copy phase there were in one move. */
static long trace_move(void)
{
	long events;

	create_area(AREA_ANON_4K, 2 * MIB);
	ASSERT_EQ(setting_write(COPIED_EVENT, "1"), 0);
	ASSERT_EQ(setting_write(TRACING "trace", ""), 0);
	move_to(nodes[1]);
	events = setting_count_lines(TRACING "trace", " mm_migrate_batch_copied:");
	ASSERT_EQ(setting_write(COPIED_EVENT, "0"), 0);
	return events;
}

TEST_F_TIMEOUT(rules, rule_10_off_costs_nothing, TIMEOUT)
{
	/* Without a route, with one for another reason only, and switched off again. */
	static const struct {
		const char *reason, *route;
		bool enabled;
	} off[] = { { NULL, "none", true }, { "compaction", "cpu", true }, { NULL, "cpu", false } };

	for (unsigned int i = 0; i < ARRAY_SIZE(off); i++) {
		ASSERT_EQ(offload_route_only(off[i].reason, off[i].route), 0);
		ASSERT_EQ(offload_set_enabled(off[i].enabled), 0);
		EXPECT_EQ(trace_move(), 0);
		/* The empty prefix: all counters. */
		EXPECT_EQ(offload_grown(""), 0);
	}

	/* A routed move shows in both. */
	ASSERT_EQ(offload_route_only(MOVE_PAGES, "cpu"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	EXPECT_GT(trace_move(), 0);
	EXPECT_EQ(offload_grown("folios_copied"), 512);
}

TEST_HARNESS_MAIN
