// SPDX-License-Identifier: GPL-2.0
/*
 * Something goes wrong, or somebody takes something away, while an engine copies memory
 * that is mapped. The memory is right afterwards, nobody waited that had no need to, and
 * no page is left without an owner.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		300
#define REASON		"syscall_or_cpuset"
#define FAIL_ALLOC	"/sys/kernel/debug/fail_page_alloc/"
#define UNPOISON	"/sys/kernel/debug/hwpoison/unpoison-pfn"
#define CGROUPS		"/sys/fs/cgroup/"
#define GROUP		CGROUPS "live_faults/"
/* KPF_HWPOISON of /proc/kpageflags. */
#define POISONED	(1ULL << 19)

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

/* A descriptor takes that many ns: a call that waits for none returns before one has ended. */
#define LATENCY		"600000000"
/* A time-out that strikes. */
#define SHORT_MS	100
/* Of each fate: a large folio that is lost each time shows. */
#define ROUNDS		4
/* Pages that come and go with what is not ours: 19 were seen. */
#define NOISE		28

FIXTURE(live_faults)
{
	struct engine_test test;
	struct area area;
	pthread_t mover;
	long missing;
};

FIXTURE_VARIANT(live_faults)
{
	enum area_kind kind;
	size_t size;
};

FIXTURE_VARIANT_ADD(live_faults, anon_64k) { AREA_ANON_64K, 256 * KIB };
FIXTURE_VARIANT_ADD(live_faults, anon_2m) { AREA_ANON_2M, 2 * MIB };

static void load_engine(struct __test_metadata *_metadata)
{
	ASSERT_TRUE(engine_load("channels=4 ring_depth=64 latency_ns=" LATENCY, ""));
	ASSERT_EQ(0, offload_set_live(true));
}

FIXTURE_SETUP(live_faults)
{
	const char *missing = engine_test_begin(&self->test);

	if (missing)
		SKIP(return, "%s", missing);
	load_engine(_metadata);
	ASSERT_TRUE(area_create(&self->area, variant->kind, variant->size, self->test.nodes[0]));
}

FIXTURE_TEARDOWN(live_faults)
{
	area_destroy(&self->area);
	EXPECT_EQ(engine_test_end(&self->test), 0);
}

static void *move_area(void *arg)
{
	FIXTURE_DATA(live_faults) *self = arg;

	self->missing = area_move(&self->area, self->test.nodes[1]);
	return NULL;
}

static void begin_move(struct __test_metadata *_metadata, FIXTURE_DATA(live_faults) *self)
{
	ASSERT_TRUE(engine_begin_move(&self->mover, move_area, self));
}

static void nobody_waited(struct __test_metadata *_metadata)
{
	EXPECT_EQ(0, offload_grown("batches"));
}

/* All of it is on the other node, and as it was. */
static void end_move(struct __test_metadata *_metadata, FIXTURE_DATA(live_faults) *self)
{
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_EQ(0, area_wrong(&self->area));
	EXPECT_TRUE(area_is_whole(&self->area));
}

/* Back again without a fault, and with new contents: no old copy is still under way. */
static void move_back(struct __test_metadata *_metadata, FIXTURE_DATA(live_faults) *self)
{
	area_stamp(&self->area, self->area.seed + 1);
	EXPECT_EQ(0, area_move(&self->area, self->test.nodes[0]));
	EXPECT_EQ(0, area_wrong(&self->area));
	EXPECT_TRUE(area_is_whole(&self->area));
}

TEST_F_TIMEOUT(live_faults, an_error, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_fault("result_error", 100));
	begin_move(_metadata, self);
	end_move(_metadata, self);
	EXPECT_LT(0, offload_grown("fallback_error"));
	engine_clear_faults();
	move_back(_metadata, self);
}

/* The engine writes to dst after the CPU copied: terminated, it must not. */
TEST_F_TIMEOUT(live_faults, a_timeout, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(SHORT_MS));
	begin_move(_metadata, self);
	end_move(_metadata, self);
	EXPECT_LT(0, offload_grown("fallback_timeout"));
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	area_stamp(&self->area, 2);
	usleep(1000000);
	EXPECT_EQ(0, area_wrong(&self->area));
	move_back(_metadata, self);
}

TEST_F_TIMEOUT(live_faults, no_answer, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(SHORT_MS));
	ASSERT_EQ(0, engine_set_fault("never_complete", 100));
	begin_move(_metadata, self);
	end_move(_metadata, self);
	EXPECT_LT(0, offload_grown("fallback_timeout"));
	engine_clear_faults();
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	move_back(_metadata, self);
}

/* The engine's driver cannot go before dcbm has let go of its channels. */
TEST_F_TIMEOUT(live_faults, the_engine_is_unloaded, TIMEOUT)
{
	begin_move(_metadata, self);
	EXPECT_EQ(-EAGAIN, module_unload(engine_module()));
	EXPECT_EQ(0, engine_unload_busy("dcbm"));
	EXPECT_EQ(0, engine_unload_busy(engine_module()));
	end_move(_metadata, self);
	move_back(_metadata, self);
	load_engine(_metadata);
	begin_move(_metadata, self);
	end_move(_metadata, self);
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_copied"));
}

TEST_F_TIMEOUT(live_faults, the_migrator_is_unloaded, TIMEOUT)
{
	begin_move(_metadata, self);
	EXPECT_EQ(0, engine_unload_busy("dcbm"));
	end_move(_metadata, self);
	move_back(_metadata, self);
}

TEST_F_TIMEOUT(live_faults, the_route_changes, TIMEOUT)
{
	static const char * const migrators[] = { "none", "cpu", "dcbm" };

	begin_move(_metadata, self);
	for (unsigned int i = 0; i < 10 * ARRAY_SIZE(migrators); i++) {
		EXPECT_EQ(0, offload_set_route(REASON, migrators[i % ARRAY_SIZE(migrators)]));
		EXPECT_EQ(0, offload_set_live(i % 2));
	}
	EXPECT_EQ(0, offload_set_enabled(false));
	end_move(_metadata, self);
	move_back(_metadata, self);
}

/* One in five allocations of tasks that say so fails, of whatever order. */
static bool prepare_failures(void)
{
	static const struct {
		const char *file;
		long value;
	} settings[] = {
		{ "task-filter", 1 }, { "ignore-gfp-wait", 0 }, { "ignore-gfp-highmem", 0 },
		{ "min-order", 0 }, { "verbose", 0 }, { "interval", 1 }, { "space", 0 },
		{ "times", -1 }, { "probability", 20 },
	};
	char path[128];

	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++) {
		snprintf(path, sizeof(path), FAIL_ALLOC "%s", settings[i].file);
		if (setting_write_number(path, settings[i].value))
			return false;
	}
	return true;
}

/* What switches it off may fail as well. */
static bool allocations_fail(bool fail)
{
	for (unsigned int i = 0; i < 100; i++)
		if (!setting_write_number("/proc/thread-self/make-it-fail", fail))
			return true;
	return false;
}

TEST_F_TIMEOUT(live_faults, memory_is_refused, TIMEOUT)
{
	size_t moved = 0;

	if (!prepare_failures())
		SKIP(return, "no " FAIL_ALLOC);
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 1000));
	offload_mark();
	for (unsigned int i = 0; i < 20; i++) {
		long missing;

		ASSERT_TRUE(allocations_fail(true));
		missing = area_move(&self->area, self->test.nodes[(i + 1) % 2]);
		ASSERT_TRUE(allocations_fail(false));
		/* move_pages(2) may say so as well. */
		moved += missing >= 0 ? area_folios(&self->area) - missing : 0;
		EXPECT_EQ(0, area_wrong(&self->area));
	}
	TH_LOG("%zu folios were moved, of %zu", moved, 20 * area_folios(&self->area));
	offload_show_grown();
	EXPECT_LT(0, offload_grown("live_copied"));
	/* Some may be split. */
	self->area.folio_size = memory_page_size();
	EXPECT_EQ(0, area_move(&self->area, self->test.nodes[1]));
	EXPECT_EQ(0, area_move(&self->area, self->test.nodes[0]));
	EXPECT_EQ(0, area_wrong(&self->area));
}

/*
 * No page of the machine is poisoned any more. Returns how many were, or -1 if one stays
 * so. A frame that was freed while it was poisoned must not become somebody's memory.
 */
static long unpoison(void)
{
	int file = open("/proc/kpageflags", O_RDONLY);
	uint64_t flags[4096], pfn = 0;
	long poisoned = 0;
	ssize_t len;

	while ((len = read(file, flags, sizeof(flags))) > 0) {
		for (size_t i = 0; i < len / sizeof(*flags); i++, pfn++) {
			if (!(flags[i] & POISONED))
				continue;
			if (setting_write_number(UNPOISON, pfn))
				poisoned = LONG_MIN;
			poisoned++;
		}
	}
	close(file);
	return poisoned < 0 ? -1 : poisoned;
}

static bool can_poison(void)
{
	return !module_load("hwpoison_inject", "") && !access(UNPOISON, W_OK);
}

/* Returns how many pages cannot be read. Others are as they were. */
static size_t pages_lost(struct __test_metadata *_metadata, const struct area *area,
			 const char *was)
{
	const size_t size = memory_page_size();
	char *page = malloc(size);
	size_t lost = 0;

	for (size_t at = 0; at < area->size; at += size) {
		struct iovec to = { page, size }, from = { area->addr + at, size };

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)size)
			lost++;
		else
			EXPECT_EQ(0, memcmp(page, was + at, size));
	}
	free(page);
	return lost;
}

static char *contents(const struct area *area)
{
	return memcpy(malloc(area->size), area->addr, area->size);
}

/*
 * memory_failure() cannot take a page that is being migrated, and marks it. A PTE of its
 * own becomes one that nobody may read; a PMD moves whole. Returns how many folios were
 * copied live.
 */
static size_t poison_while_copied(struct __test_metadata *_metadata,
				  FIXTURE_DATA(live_faults) *self, size_t at)
{
	const bool by_ptes = self->area.folio_size < PMD_SIZE;
	char *was = contents(&self->area);

	begin_move(_metadata, self);
	EXPECT_EQ(-1, madvise(self->area.addr + at, memory_page_size(), MADV_HWPOISON));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	/* Nobody can tell where a page is that is gone. */
	EXPECT_EQ(!at && by_ptes, self->missing);
	EXPECT_EQ(by_ptes, pages_lost(_metadata, &self->area, was));
	free(was);
	area_destroy(&self->area);
	EXPECT_EQ(1, unpoison());
	return offload_grown("live_copied");
}

TEST_F_TIMEOUT(live_faults, a_page_is_poisoned, TIMEOUT)
{
	const size_t folios = area_folios(&self->area);

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	/* Nobody reads what was copied of the page. */
	EXPECT_EQ(folios, poison_while_copied(_metadata, self, 3 * memory_page_size()));
	ASSERT_TRUE(area_create(&self->area, variant->kind, variant->size, self->test.nodes[0]));
	/* A folio tells of its first page, and is copied once more, by the CPU. */
	EXPECT_EQ(folios - 1, poison_while_copied(_metadata, self, 0));
	EXPECT_EQ(1, offload_grown("declined_poison"));
}

static void on_signal(int sig)
{
}

/* Somebody's reference keeps the folio whole and mapped, and then it is moved. */
TEST_F_TIMEOUT(live_faults, it_was_poisoned_before, TIMEOUT)
{
	const size_t folios = area_folios(&self->area);
	char *was = contents(&self->area);
	struct iovec word = { self->area.addr, sizeof(long) };
	int ends[2];

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	signal(SIGBUS, on_signal);
	ASSERT_EQ(0, pipe(ends));
	ASSERT_EQ((ssize_t)sizeof(long), vmsplice(ends[1], &word, 1, 0));
	EXPECT_EQ(-1, madvise(self->area.addr + 3 * memory_page_size(), memory_page_size(),
			      MADV_HWPOISON));
	close(ends[0]);
	close(ends[1]);

	offload_mark();
	EXPECT_EQ(0, area_move(&self->area, self->test.nodes[1]));
	EXPECT_EQ(folios - 1, offload_grown("live_copied"));
	EXPECT_EQ(1, offload_grown("live_declined_type"));
	EXPECT_EQ(1, offload_grown("declined_poison"));
	EXPECT_EQ(variant->size < PMD_SIZE, pages_lost(_metadata, &self->area, was));
	free(was);
	area_destroy(&self->area);
	EXPECT_EQ(1, unpoison());
}

/* Before, between and after the steps of a move that takes a few ms. */
TEST_F_TIMEOUT(live_faults, a_page_is_poisoned_at_any_time, TIMEOUT)
{
	const unsigned int rounds = 12, pages = variant->size / memory_page_size();
	const long half = self->area.folio_size / memory_page_size() / 2;
	long before = 0, grown, held = 0;
	size_t lost = 0;

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	signal(SIGBUS, on_signal);
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 2000000));
	srandom(1);
	for (unsigned int i = 0; i < rounds; i++) {
		const bool hard = i % 3;
		char *page = self->area.addr + random() % pages * memory_page_size();
		char *was = contents(&self->area);
		size_t now;

		ASSERT_EQ(0, pthread_create(&self->mover, NULL, move_area, self));
		usleep(random() % 8000);
		madvise(page, memory_page_size(), hard ? MADV_HWPOISON : MADV_SOFT_OFFLINE);
		ASSERT_EQ(0, pthread_join(self->mover, NULL));
		now = pages_lost(_metadata, &self->area, was);
		free(was);
		EXPECT_GE(hard, now);
		lost += now;
		area_destroy(&self->area);
		EXPECT_LE(hard, unpoison());
		ASSERT_TRUE(area_create(&self->area, variant->kind, variant->size,
					self->test.nodes[0]));
		/* The first time is for what is allocated once. */
		if (!i)
			before = pages_unaccounted();
		else
			held += hard;
	}
	grown = pages_unaccounted() - before;
	TH_LOG("%zu pages were lost; %ld pages more in use", lost, grown);
	/*
	 * Of a page that poison meets while it is freed, unpoison_memory() clears the flag
	 * and does not free it. That may be one of each folio, and not a whole folio.
	 */
	EXPECT_GE(held + (half > NOISE ? half : NOISE), grown);
}

TEST_F_TIMEOUT(live_faults, a_signal, TIMEOUT)
{
	signal(SIGUSR1, on_signal);
	begin_move(_metadata, self);
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_EQ(0, pthread_kill(self->mover, SIGUSR1));
	end_move(_metadata, self);
	move_back(_metadata, self);
}

/* As many pages as are lost if each round after the first loses a large folio. */
static long lost_each_round(const struct area *area)
{
	return (ROUNDS - 1) * area->folio_size / memory_page_size();
}

/* What a process does to itself, or has done to it, while it is copied. */
enum fate {
	KILLED,
	EXITS,
	EXECS,
	UNMAPS,
	/* The last one: not everywhere can a group of processes have no memory. */
	OOM_KILLED,
	NR_FATES
};

struct process {
	FIXTURE_DATA(live_faults) *self;
	const FIXTURE_VARIANT(live_faults) *variant;
	enum fate fate;
	/* How long after the move began; 0: as soon as the engine copies. */
	unsigned int after_us;
	int ready;
};

/* The fates there are. */
static unsigned int make_group(void)
{
	setting_write(CGROUPS "cgroup.subtree_control", "+memory");
	mkdir(GROUP, 0755);
	return access(GROUP "memory.max", W_OK) ? OOM_KILLED : NR_FATES;
}

/* The only process of the group has memory in use. */
static void oom_kill(struct __test_metadata *_metadata)
{
	EXPECT_EQ(0, setting_write(GROUP "memory.max", "0"));
}

static long oom_kills(void)
{
	return setting_find_number(GROUP "memory.events", "oom_kill ");
}

/* In the process: has an area of its own, and moves it. */
static void live_and_die(struct process *process)
{
	FIXTURE_DATA(live_faults) own = *process->self, *self = &own;
	const unsigned long before = engine_descriptors();
	bool fine;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (process->fate == OOM_KILLED && setting_write(GROUP "cgroup.procs", "0"))
		_exit(1);
	if (!area_create(&self->area, process->variant->kind, process->variant->size,
			 self->test.nodes[0]) ||
	    pthread_create(&self->mover, NULL, move_area, self))
		_exit(1);
	if (process->after_us)
		usleep(process->after_us);
	fine = process->after_us || engine_wait_until_copying(before);
	if (write(process->ready, &fine, sizeof(fine)) != sizeof(fine) || !fine)
		_exit(1);

	switch (process->fate) {
	case EXITS:
		_exit(0);
	case EXECS:
		execl("/bin/true", "true", NULL);
		_exit(1);
	case UNMAPS:
		area_destroy(&self->area);
		pthread_join(self->mover, NULL);
		_exit(0);
	default:
		for (;;)
			pause();
	}
}

static void die(struct __test_metadata *_metadata, struct process *process)
{
	const bool killed = process->fate == KILLED || process->fate == OOM_KILLED;
	const long kills_before = oom_kills();
	const int log = process->self->test.log;
	bool ready = false;
	int ends[2], status;
	pid_t pid;

	ASSERT_EQ(0, pipe(ends));
	process->ready = ends[1];
	pid = fork();
	if (!pid)
		live_and_die(process);
	ASSERT_LT(0, pid);
	EXPECT_EQ((ssize_t)sizeof(ready), read(ends[0], &ready, sizeof(ready)));
	EXPECT_TRUE(ready);
	EXPECT_EQ(0, kernel_log_bad(log));
	if (process->fate == KILLED)
		kill(pid, SIGKILL);
	else if (process->fate == OOM_KILLED)
		oom_kill(_metadata);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(killed ? SIGKILL : 0, status);
	close(ends[0]);
	close(ends[1]);
	if (process->fate == OOM_KILLED) {
		EXPECT_EQ(kills_before + 1, oom_kills());
		/* Out of memory, the kernel shows its stack; what else it has to say counts. */
		EXPECT_EQ(0, kernel_log_bad_besides(log, "Call Trace"));
		EXPECT_EQ(0, setting_write(GROUP "memory.max", "max"));
	}
}

TEST_F_TIMEOUT(live_faults, its_process_ends, TIMEOUT)
{
	struct process process = { .self = self, .variant = variant };
	const long limit = lost_each_round(&self->area);
	const unsigned int fates = make_group();
	long before, grown;

	area_destroy(&self->area);
	/* The first time is for what is allocated once. */
	die(_metadata, &process);
	before = pages_unaccounted();
	for (unsigned int i = 0; i < fates * ROUNDS; i++) {
		process.fate = i % fates;
		die(_metadata, &process);
	}
	rmdir(GROUP);
	grown = pages_unaccounted() - before;
	TH_LOG("%u fates, %ld pages more in use", fates, grown);
	EXPECT_GT(limit, grown);
}

/* What happens to a move. */
enum event {
	ERROR,
	NO_ANSWER,
	MIGRATOR_UNLOADED,
	ENGINE_UNLOADED,
	ROUTE_CHANGED,
	MEMORY_REFUSED,
	SIGNAL,
	NR_EVENTS
};

static void happen(struct __test_metadata *_metadata, FIXTURE_DATA(live_faults) *self,
		   enum event event)
{
	switch (event) {
	case ERROR:
		EXPECT_EQ(0, engine_set_fault("result_error", 100));
		break;
	case NO_ANSWER:
		EXPECT_EQ(0, engine_set_timeout(SHORT_MS));
		EXPECT_EQ(0, engine_set_fault("never_complete", 100));
		break;
	case MIGRATOR_UNLOADED:
		EXPECT_EQ(0, engine_unload_busy("dcbm"));
		break;
	case ENGINE_UNLOADED:
		EXPECT_EQ(0, engine_unload_busy("dcbm"));
		EXPECT_EQ(0, engine_unload_busy(engine_module()));
		break;
	case ROUTE_CHANGED:
		EXPECT_EQ(0, offload_set_route(REASON, "cpu"));
		EXPECT_EQ(0, offload_set_live(false));
		EXPECT_EQ(0, offload_set_enabled(false));
		break;
	case MEMORY_REFUSED:
		EXPECT_EQ(0, setting_write_number(FAIL_ALLOC "probability", 100));
		break;
	case SIGNAL:
		pthread_kill(self->mover, SIGUSR1);
		break;
	default:
		break;
	}
}

/* Nothing is wrong any more. */
static void mend(struct __test_metadata *_metadata)
{
	setting_write_number(FAIL_ALLOC "probability", 0);
	if (!module_loaded("dcbm") || !module_loaded(engine_module())) {
		load_engine(_metadata);
		ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 2000000));
	}
	engine_clear_faults();
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	ASSERT_EQ(0, offload_set_route(REASON, "dcbm"));
	ASSERT_EQ(0, offload_set_live(true));
	ASSERT_EQ(0, offload_set_enabled(true));
}

static void *move_unlucky_area(void *arg)
{
	allocations_fail(true);
	return move_area(arg);
}

static void anything_happens(struct __test_metadata *_metadata,
			     FIXTURE_DATA(live_faults) *self,
			     const FIXTURE_VARIANT(live_faults) *variant, unsigned int fates)
{
	struct process process = { .self = self, .variant = variant };

	for (unsigned int i = 0; i < NR_EVENTS; i++) {
		ASSERT_TRUE(area_create(&self->area, variant->kind, variant->size,
					self->test.nodes[0]));
		ASSERT_EQ(0, pthread_create(&self->mover, NULL, move_unlucky_area, self));
		usleep(random() % 8000);
		happen(_metadata, self, i);
		ASSERT_EQ(0, pthread_join(self->mover, NULL));
		EXPECT_EQ(0, area_wrong(&self->area))
			TH_LOG("event %u", i);
		mend(_metadata);
		area_destroy(&self->area);
	}
	for (unsigned int i = 0; i < fates; i++) {
		process.fate = i;
		process.after_us = 1 + random() % 8000;
		die(_metadata, &process);
	}
}

/* Before, between and after the steps of a move that takes a few ms. */
TEST_F_TIMEOUT(live_faults, anything_at_any_time, TIMEOUT)
{
	const long limit = lost_each_round(&self->area);
	const unsigned int fates = make_group();
	long before = 0, grown;

	if (!prepare_failures())
		SKIP(return, "no " FAIL_ALLOC);
	mend(_metadata);
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 2000000));
	area_destroy(&self->area);
	signal(SIGUSR1, on_signal);
	srandom(1);
	offload_mark();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		anything_happens(_metadata, self, variant, fates);
		/* The first time is for what is allocated once. */
		if (!i)
			before = pages_unaccounted();
	}
	rmdir(GROUP);
	grown = pages_unaccounted() - before;
	TH_LOG("%u fates, %ld pages more in use", fates, grown);
	EXPECT_GT(limit, grown);
	EXPECT_LT(0, offload_grown("live_copied"));
}

TEST_F_TIMEOUT(live_faults, it_is_unmapped, TIMEOUT)
{
	begin_move(_metadata, self);
	area_destroy(&self->area);
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
}

/* Page tables move, and the folios as well. */
TEST_F_TIMEOUT(live_faults, it_is_remapped, TIMEOUT)
{
	const size_t size = self->area.size;
	char *to = memory_map_aligned(size, PMD_SIZE);

	ASSERT_NE(NULL, to);
	begin_move(_metadata, self);
	ASSERT_EQ(to, mremap(self->area.addr, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	self->area.addr = to;
	EXPECT_EQ(0, area_wrong(&self->area));
	EXPECT_EQ(0, memory_pages_not_on(to, size, self->test.nodes[1]));
	EXPECT_TRUE(area_is_whole(&self->area));
	move_back(_metadata, self);
}

TEST_HARNESS_MAIN
