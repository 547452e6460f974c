// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that a migration with copy offload must keep, each with a test that fails
 * without it:
 *
 *  2  Only what nobody can change is copied early: neither a folio to which somebody
 *     else has a reference nor shmem that no page table maps. Nor folios with buffer
 *     heads: buffer_heads.sh. And a driver that pins one meanwhile waits.
 *  5  When pages are given back, nothing may still be writing to them. What an
 *     engine that cannot be stopped may write to is not given back: quarantine.
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
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>
#include <linux/udmabuf.h>

#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"
#include "window.h"

#define TIMEOUT		300
#define LONG_MS		60000
#define TRACING		"/sys/kernel/tracing/"
#define COPIED_EVENT	TRACING "events/migrate/mm_migrate_batch_copied/enable"

FIXTURE(rules)
{
	struct engine_test test;
	struct area area;
	struct window window;
};

FIXTURE_SETUP(rules)
{
	const char *missing = engine_test_begin(&self->test);

	if (missing)
		SKIP(return, "%s", missing);
	setting_save(COPIED_EVENT);
}

FIXTURE_TEARDOWN(rules)
{
	window_end_faults(&self->window);
	window_unmap(&self->window);
	area_destroy(&self->area);
	EXPECT_EQ(engine_test_end(&self->test), 0);
}

static void load(struct __test_metadata *_metadata, const char *dmasim_parameters,
		 long timeout_ms)
{
	ASSERT_TRUE(engine_load(dmasim_parameters, ""));
	ASSERT_EQ(engine_set_timeout(timeout_ms), 0);
}

/* Moves the area to the second node, where it must arrive whole and unchanged. */
static void move(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self)
{
	offload_mark();
	EXPECT_EQ(area_move(&self->area, self->test.nodes[1]), 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
}

static void expect_copies(struct __test_metadata *_metadata, uint64_t copied,
			  uint64_t fallbacks)
{
	EXPECT_EQ(offload_grown("folios_copied"), copied);
	EXPECT_EQ(offload_grown("fallback_"), fallbacks)
		offload_show_grown();
}

#define PIPE_PAGES	16

/*
 * A pipe holds a reference to each page, of which the kernel knows only that it is not
 * one of its own: somebody may write through it.
 */
TEST_F_TIMEOUT(rules, rule_2_pages_with_a_reference, TIMEOUT)
{
	size_t size = PIPE_PAGES * memory_page_size();
	char *piped = malloc(size);
	struct iovec iov;
	size_t done = 0;
	int ends[2];

	ASSERT_NE(piped, NULL);
	ASSERT_EQ(pipe(ends), 0);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, size, self->test.nodes[0]));
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "cpu"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	iov = (struct iovec){ .iov_base = self->area.addr, .iov_len = size };
	ASSERT_EQ(vmsplice(ends[1], &iov, 1, 0), (ssize_t)size);

	offload_mark();
	EXPECT_EQ(area_move(&self->area, self->test.nodes[1]), PIPE_PAGES);
	EXPECT_GE(offload_grown("declined_references"), PIPE_PAGES);
	expect_copies(_metadata, 0, 0);
	EXPECT_EQ(area_wrong(&self->area), 0);

	/* The migrator copies them as soon as nobody holds them. */
	while (done < size) {
		ssize_t got = read(ends[0], piped + done, size - done);

		ASSERT_GT(got, 0);
		done += got;
	}
	EXPECT_EQ(memory_verify(piped, size, self->area.seed), 0);
	move(_metadata, self);
	expect_copies(_metadata, PIPE_PAGES, 0);
	free(piped);
}

/* Has the kernel move a page and never use its old place again. */
static int soft_offline(uint64_t pfn)
{
	char address[32];

	snprintf(address, sizeof(address), "%#llx",
		 (unsigned long long)pfn * memory_page_size());
	return setting_write("/sys/devices/system/memory/soft_offline_page", address);
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

	if (access("/sys/devices/system/memory/soft_offline_page", W_OK))
		SKIP(return, "a kernel without CONFIG_MEMORY_FAILURE");
	ASSERT_EQ(offload_route_only("memory_failure", "cpu"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	fd = memfd_create("rules", 0);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(ftruncate(fd, page), 0);
	map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(map, MAP_FAILED);
	memory_stamp(map, page, 1);

	/* The kernel copies a mapped page early: nothing else keeps it from that. */
	offload_mark();
	EXPECT_EQ(soft_offline(memory_pfn(map)), 0);
	expect_copies(_metadata, 1, 0);
	EXPECT_EQ(memory_verify(map, page, 1), 0);

	pfn = memory_pfn(map);
	ASSERT_EQ(munmap(map, page), 0);
	offload_mark();
	EXPECT_EQ(soft_offline(pfn), 0);
	expect_copies(_metadata, 0, 0);
	EXPECT_EQ(offload_grown("declined_mapping"), 1);

	map = mmap(NULL, page, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(map, MAP_FAILED);
	EXPECT_EQ(memory_verify(map, page, 1), 0);
	EXPECT_NE(memory_pfn(map), pfn);
	munmap(map, page);
	close(fd);
}

static void no_stray_write(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
			   enum area_kind kind)
{
	const long late_ms = 1500;

	load(_metadata, "channels=4 ring_depth=1024 late_ms=1500", 50);
	ASSERT_TRUE(area_create(&self->area, kind, 2 * MIB, self->test.nodes[0]));
	ASSERT_EQ(engine_set_fault("late", 100), 0);
	move(_metadata, self);
	expect_copies(_metadata, 0, area_folios(&self->area));

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

/* One channel, and a descriptor for each page: the first one meets @fault. */
static void break_first_descriptor(struct __test_metadata *_metadata,
				   FIXTURE_DATA(rules) *self, const char *fault)
{
	load(_metadata, "channels=1 ring_depth=64 sg=0 late_ms=500", LONG_MS);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 32 * KIB, self->test.nodes[0]));
	ASSERT_EQ(engine_set_fault_times(fault, 1), 0);
}

TEST_F_TIMEOUT(rules, rule_6_first_completes_last, TIMEOUT)
{
	double begin;

	break_first_descriptor(_metadata, self, "late");
	begin = seconds_now();
	move(_metadata, self);
	EXPECT_GE(seconds_now() - begin, 0.5);
	expect_copies(_metadata, area_folios(&self->area), 0);
}

TEST_F_TIMEOUT(rules, rule_6_first_fails, TIMEOUT)
{
	break_first_descriptor(_metadata, self, "result_error");
	move(_metadata, self);
	expect_copies(_metadata, area_folios(&self->area) - 1, 1);
}

TEST_F_TIMEOUT(rules, rule_7_ring_shorter_than_batch, TIMEOUT)
{
	ASSERT_TRUE(engine_load("ring_depth=3 sg=0", "channels=1"));
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->test.nodes[0]));
	move(_metadata, self);
	expect_copies(_metadata, area_folios(&self->area), 0);
}

TEST_F_TIMEOUT(rules, rule_7_waits_are_bounded, TIMEOUT)
{
	double begin;

	load(_metadata, "channels=2", 200);
	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->test.nodes[0]));
	ASSERT_EQ(engine_set_fault("never_complete", 100), 0);
	begin = seconds_now();
	move(_metadata, self);
	if (times_count())
		EXPECT_LT(seconds_now() - begin, debug_kernel() ? 20 : 5);
	expect_copies(_metadata, 0, area_folios(&self->area));
}

/* A migration in a thread of its own. */
struct flight {
	pthread_t thread;
	struct area *area;
	int node;
	long stayed;
};

static void *flight_thread(void *arg)
{
	struct flight *flight = arg;
	struct area *area = flight->area;

	/* A child may map it, too. */
	flight->stayed = memory_move(0, area->addr, area->size, area->folio_size,
				     flight->node, MPOL_MF_MOVE_ALL);
	return NULL;
}

static void expect_in_flight(struct __test_metadata *_metadata)
{
	EXPECT_EQ(offload_grown("folios_copied"), 0)
		TH_LOG("too slow: nothing is in flight any more");
}

#define FLIGHT_PAGES	128

/*
 * Starts a flight of the area, which is there: almost two seconds, as each of four channels
 * has a quarter of the folios.
 */
static void launch(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
		   struct flight *flight, const char *dcbm_parameters)
{
	const uint64_t ns = 7680000000 / area_folios(&self->area);

	ASSERT_TRUE(engine_load("channels=4 ring_depth=64", dcbm_parameters));
	ASSERT_EQ(engine_set_timeout(LONG_MS), 0);
	if (strcmp(engine_module(), "dmasim")) {
		ASSERT_TRUE(window_map(&self->window));
		window_set(&self->window, DESC_NS, ns);
	} else {
		ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "latency_ns", ns), 0);
	}
	*flight = (struct flight){ .area = &self->area, .node = self->test.nodes[1] };
	/* When it copies, all folios of the batch are unmapped, and the route was looked at. */
	ASSERT_TRUE(engine_begin_move(&flight->thread, flight_thread, flight));
	expect_in_flight(_metadata);
}

static void begin_flight(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
			 struct flight *flight, enum area_kind kind, size_t size)
{
	ASSERT_TRUE(area_create(&self->area, kind, size, self->test.nodes[0]));
	launch(_metadata, self, flight, "channels=4");
}

static void end_flight(struct __test_metadata *_metadata, FIXTURE_DATA(rules) *self,
		       struct flight *flight)
{
	ASSERT_EQ(pthread_join(flight->thread, NULL), 0);
	EXPECT_EQ(flight->stayed, 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
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
	struct area *area = &self->area;
	struct area written = { .size = request.size, .folio_size = memory_page_size() };
	int device = open("/dev/udmabuf", O_RDWR), memfd, buffer;
	struct flight flight;

	if (device < 0)
		SKIP(return, "a kernel without CONFIG_UDMABUF");
	memfd = memfd_create("rules", MFD_ALLOW_SEALING);
	ASSERT_GE(memfd, 0);
	request.memfd = memfd;
	ASSERT_EQ(ftruncate(memfd, request.size), 0);
	ASSERT_EQ(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	*area = written;
	area->addr = mmap(NULL, area->size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	ASSERT_NE(area->addr, MAP_FAILED);
	area->seed = 1;
	ASSERT_EQ(memory_fill(area->addr, area->size, area->folio_size, self->test.nodes[0],
			      area->seed), 0);
	/* The bytes of a descriptor arrive when it ends: each folio has its own. */
	launch(_metadata, self, &flight, "channels=4 lists=0");
	sleep(1); /* by then, half of it has been copied */
	expect_in_flight(_metadata);

	buffer = ioctl(device, UDMABUF_CREATE, &request);
	ASSERT_GE(buffer, 0);
	written.addr = mmap(NULL, written.size, PROT_READ | PROT_WRITE, MAP_SHARED, buffer, 0);
	ASSERT_NE(written.addr, MAP_FAILED);
	area_stamp(&written, 2);
	area_destroy(&written);
	close(buffer);
	ASSERT_EQ(pthread_join(flight.thread, NULL), 0);
	area->seed = 2;
	EXPECT_EQ(area_wrong(area), 0);
	close(memfd);
	close(device);
}

TEST_F_TIMEOUT(rules, rule_9_unload_while_busy, TIMEOUT)
{
	struct flight flight;
	char route[OFFLOAD_ROUTE_SIZE];
	double begin;

	begin_flight(_metadata, self, &flight, AREA_ANON_4K,
		     FLIGHT_PAGES * memory_page_size());

	/* It waits by itself, or says -EAGAIN. */
	begin = seconds_now();
	EXPECT_EQ(engine_unload_busy("dcbm"), 0);
	EXPECT_GT(seconds_now() - begin, 0.5);

	EXPECT_EQ(offload_grown("folios_copied"), FLIGHT_PAGES);
	end_flight(_metadata, self, &flight);

	EXPECT_FALSE(module_loaded("dcbm"));
	ASSERT_EQ(offload_get_route("syscall_or_cpuset", route), 0);
	EXPECT_STREQ(route, "none");
	EXPECT_EQ(offload_set_route("syscall_or_cpuset", "dcbm"), -ENOENT);
}

TEST_F_TIMEOUT(rules, rule_9_route_changes_while_busy, TIMEOUT)
{
	struct flight flight;
	int i;

	begin_flight(_metadata, self, &flight, AREA_ANON_4K,
		     FLIGHT_PAGES * memory_page_size());
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "cpu"), 0);
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "none"), 0);
		EXPECT_EQ(offload_route_only("syscall_or_cpuset", "dcbm"), 0);
	}
	end_flight(_metadata, self, &flight);
}

TEST_F_TIMEOUT(rules, rule_9_switched_off_while_busy, TIMEOUT)
{
	struct flight flight;
	int i;

	begin_flight(_metadata, self, &flight, AREA_ANON_4K,
		     FLIGHT_PAGES * memory_page_size());
	for (i = 0; i < 20; i++) {
		EXPECT_EQ(offload_set_enabled(false), 0);
		EXPECT_EQ(offload_set_enabled(true), 0);
	}
	EXPECT_EQ(offload_set_enabled(false), 0);
	end_flight(_metadata, self, &flight);
}

#define HALF		(32 * KIB)
#define PARTIALLY_MAPPED \
	"/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/nr_anon_partially_mapped"

/* Leaves out the upper half of every @nr-th folio, which is not mapped any more. */
static size_t bytes_wrong_in_halves(const struct area *area, unsigned int nr)
{
	char *expected = malloc(area->size);
	size_t wrong = 0;

	if (!expected)
		return area->size;
	memory_stamp(expected, area->size, area->seed);
	for (size_t i = 0; i < area->size; i += HALF)
		if (i / HALF % (2 * nr) != 2 * nr - 1)
			wrong += !!memcmp(expected + i, area->addr + i, HALF) * HALF;
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
 * Folios are copied while one half of each is unmapped or made read-only: what is
 * left must come along, and the kernel must know which folios lost a part.
 */
TEST_F_TIMEOUT(rules, halves_unmapped_while_busy, TIMEOUT)
{
	long marked = setting_read_number(PARTIALLY_MAPPED);
	struct flight flight;
	size_t folios, i;

	begin_flight(_metadata, self, &flight, AREA_ANON_64K, 2 * MIB);
	folios = area_folios(&self->area);
	for (i = 0; i < folios; i++) {
		char *upper = self->area.addr + 2 * i * HALF + HALF;

		EXPECT_EQ(i % 2 ? munmap(upper, HALF) : mprotect(upper, HALF, PROT_READ), 0);
	}
	expect_in_flight(_metadata);
	ASSERT_EQ(pthread_join(flight.thread, NULL), 0);

	EXPECT_EQ(flight.stayed, 0);
	expect_copies(_metadata, folios, 0);
	EXPECT_EQ(bytes_wrong_in_halves(&self->area, 2), 0);
	EXPECT_GE(setting_read_number(PARTIALLY_MAPPED) - marked, (long)folios / 2);
	for (i = 0; i < folios; i += 2)
		EXPECT_FALSE(is_writable(self->area.addr + 2 * i * HALF + HALF));

	/* Page by page: only the unmapped ones stay. */
	self->area.folio_size = memory_page_size();
	EXPECT_EQ(area_move(&self->area, self->test.nodes[0]),
		  (long)(folios / 2 * HALF / memory_page_size()));
	EXPECT_EQ(bytes_wrong_in_halves(&self->area, 2), 0);
}

static bool unmap_upper_halves(const struct area *area)
{
	bool unmapped = true;

	for (size_t i = HALF; i < area->size; i += 2 * HALF)
		unmapped &= !munmap(area->addr + i, HALF);
	return unmapped;
}

/* Unmaps as well, when it reads an order, and maps what is left until nobody can order. */
static pid_t fork_sharer(const struct area *area, int orders[2], int reports[2])
{
	pid_t pid = fork();
	char unmapped;

	if (pid)
		return pid;
	close(orders[1]);
	while (read(orders[0], &unmapped, 1) == 1) {
		unmapped = unmap_upper_halves(area);
		if (write(reports[1], &unmapped, 1) != 1)
			break;
	}
	_exit(0);
}

/*
 * All who map a folio unmap the same half. It has lost it, although as many PTEs map it
 * as it has pages.
 */
TEST_F_TIMEOUT(rules, halves_unmapped_by_all_while_busy, TIMEOUT)
{
	int orders[2], reports[2];
	char unmapped = 0;
	struct flight flight;
	size_t folios;
	pid_t sharer;
	long marked;

	ASSERT_TRUE(area_create(&self->area, AREA_ANON_64K, 2 * MIB, self->test.nodes[0]));
	folios = area_folios(&self->area);
	ASSERT_EQ(pipe(orders), 0);
	ASSERT_EQ(pipe(reports), 0);
	sharer = fork_sharer(&self->area, orders, reports);
	ASSERT_GT(sharer, 0);
	marked = setting_read_number(PARTIALLY_MAPPED);

	launch(_metadata, self, &flight, "channels=4");
	EXPECT_TRUE(unmap_upper_halves(&self->area));
	EXPECT_EQ(write(orders[1], &unmapped, 1), 1);
	EXPECT_EQ(read(reports[0], &unmapped, 1), 1);
	EXPECT_TRUE(unmapped);
	expect_in_flight(_metadata);
	ASSERT_EQ(pthread_join(flight.thread, NULL), 0);

	EXPECT_EQ(flight.stayed, 0);
	expect_copies(_metadata, folios, 0);
	EXPECT_EQ(bytes_wrong_in_halves(&self->area, 1), 0);
	EXPECT_EQ(setting_read_number(PARTIALLY_MAPPED) - marked, (long)folios);
	for (int i = 0; i < 2; i++) {
		close(orders[i]);
		close(reports[i]);
	}
	waitpid(sharer, NULL, 0);
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

/* Returns how many events of the copy phase there were in one move. */
static unsigned int trace_move(struct __test_metadata *_metadata,
			       FIXTURE_DATA(rules) *self)
{
	unsigned int events;

	ASSERT_TRUE(area_create(&self->area, AREA_ANON_4K, 2 * MIB, self->test.nodes[0]));
	ASSERT_EQ(setting_write(COPIED_EVENT, "1"), 0);
	ASSERT_EQ(setting_write(TRACING "trace", ""), 0);
	move(_metadata, self);
	events = copied_events();
	ASSERT_EQ(setting_write(COPIED_EVENT, "0"), 0);
	area_destroy(&self->area);
	return events;
}

TEST_F_TIMEOUT(rules, rule_10_off_costs_nothing, TIMEOUT)
{
	/* The empty prefix: all counters. */
	ASSERT_EQ(offload_route_only(NULL, "cpu"), 0);
	ASSERT_EQ(offload_set_enabled(false), 0);
	EXPECT_EQ(trace_move(_metadata, self), 0);
	EXPECT_EQ(offload_grown(""), 0);

	ASSERT_EQ(offload_route_only(NULL, "none"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	EXPECT_EQ(trace_move(_metadata, self), 0);
	EXPECT_EQ(offload_grown(""), 0);

	/* Only another reason is routed. */
	ASSERT_EQ(offload_route_only("compaction", "cpu"), 0);
	EXPECT_EQ(trace_move(_metadata, self), 0);
	EXPECT_EQ(offload_grown(""), 0);

	/* A routed move shows in both. */
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "cpu"), 0);
	EXPECT_GT(trace_move(_metadata, self), 0);
	EXPECT_EQ(offload_grown("folios_copied"), 512);
}

TEST_HARNESS_MAIN
