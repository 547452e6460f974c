// SPDX-License-Identifier: GPL-2.0
/*
 * Something goes wrong, or goes away, while an engine copies memory that is mapped. The memory
 * is right afterwards, no task waited that had no need to, and no page is left without an owner.
 */
#include "run.h"

#define TIMEOUT		300
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

FIXTURE(live_faults) { };
FIXTURE_VARIANT(live_faults) { enum area_kind kind; size_t size; };
FIXTURE_VARIANT_ADD(live_faults, anon_64k) { AREA_ANON_64K, 256 * KIB };
FIXTURE_VARIANT_ADD(live_faults, anon_2m) { AREA_ANON_2M, 2 * MIB };

static void load_engine(void)
{
	ASSERT_TRUE(engine_load("channels=4 ring_depth=64 latency_ns=" LATENCY, ""));
	ASSERT_EQ(0, offload_set_live(true));
}

FIXTURE_SETUP(live_faults)
{
	if (!run_begin(_metadata))
		return;
	load_engine();
	create_area(variant->kind, variant->size);
}

FIXTURE_TEARDOWN(live_faults) { run_end(); }

/* The move is over: all is on the other node, and as it was. */
static void end_intact_move(void)
{
	end_move();
	expect_intact();
}

/* Then back without a fault, and with new contents: no old copy is still under way. */
static void end_and_move_back(void)
{
	end_intact_move();
	move_anew(nodes[0]);
}

TEST_F_TIMEOUT(live_faults, an_error, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_fault("result_error", 100));
	begin_move();
	end_intact_move();
	EXPECT_LT(0, offload_grown("fallback_error"));
	engine_clear_faults();
	move_anew(nodes[0]);
}

/* The engine writes to dst after the CPU copied: terminated, it must not. */
TEST_F_TIMEOUT(live_faults, a_timeout, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(SHORT_MS));
	begin_move();
	end_intact_move();
	EXPECT_LT(0, offload_grown("fallback_timeout"));
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	area_stamp(&area, 2);
	usleep(1000000);
	EXPECT_EQ(0, area_wrong(&area));
	move_anew(nodes[0]);
}

TEST_F_TIMEOUT(live_faults, no_answer, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(SHORT_MS));
	ASSERT_EQ(0, engine_set_fault("never_complete", 100));
	begin_move();
	end_intact_move();
	EXPECT_LT(0, offload_grown("fallback_timeout"));
	engine_clear_faults();
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	move_anew(nodes[0]);
}

/* The engine's driver cannot go before dcbm has let go of its channels. */
TEST_F_TIMEOUT(live_faults, the_engine_is_unloaded, TIMEOUT)
{
	begin_move();
	EXPECT_EQ(-EAGAIN, module_unload(engine_module()));
	EXPECT_EQ(0, engine_unload_busy("dcbm"));
	EXPECT_EQ(0, engine_unload_busy(engine_module()));
	end_and_move_back();
	load_engine();
	begin_move();
	end_intact_move();
	EXPECT_EQ(area_folios(&area), offload_grown("live_copied"));
}

TEST_F_TIMEOUT(live_faults, the_migrator_is_unloaded, TIMEOUT)
{
	begin_move();
	EXPECT_EQ(0, engine_unload_busy("dcbm"));
	end_and_move_back();
}

TEST_F_TIMEOUT(live_faults, the_route_changes, TIMEOUT)
{
	static const char * const migrators[] = { "none", "cpu", "dcbm" };

	begin_move();
	for (unsigned int i = 0; i < 10 * ARRAY_SIZE(migrators); i++) {
		EXPECT_EQ(0, offload_set_route(MOVE_PAGES, migrators[i % ARRAY_SIZE(migrators)]));
		EXPECT_EQ(0, offload_set_live(i % 2));
	}
	EXPECT_EQ(0, offload_set_enabled(false));
	end_and_move_back();
}

/* One in five allocations of tasks that say so fails, of whatever order. */
static bool prepare_failures(void)
{
	return !setting_write_number(FAIL_ALLOC "task-filter", 1) &&
	       !setting_write_number(FAIL_ALLOC "ignore-gfp-wait", 0) &&
	       !setting_write_number(FAIL_ALLOC "ignore-gfp-highmem", 0) &&
	       !setting_write_number(FAIL_ALLOC "min-order", 0) &&
	       !fault_set(FAIL_ALLOC, "", 20, -1);
}

/* The write that switches it off may fail as well. */
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
	set_latency(1000);
	offload_mark();
	for (unsigned int i = 0; i < 20; i++) {
		long missing;

		ASSERT_TRUE(allocations_fail(true));
		missing = area_move(&area, nodes[(i + 1) % 2]);
		ASSERT_TRUE(allocations_fail(false));
		/* move_pages(2) may say so as well. */
		moved += missing >= 0 ? area_folios(&area) - missing : 0;
		EXPECT_EQ(0, area_wrong(&area));
	}
	TH_LOG("%zu folios were moved, of %zu", moved, 20 * area_folios(&area));
	offload_show_grown();
	EXPECT_LT(0, offload_grown("live_copied"));
	/* Some may be split. */
	area.folio_size = memory_page_size();
	EXPECT_EQ(0, area_move(&area, nodes[1]));
	EXPECT_EQ(0, area_move(&area, nodes[0]));
	EXPECT_EQ(0, area_wrong(&area));
}

/*
 * No page of the machine is poisoned any more. Returns how many were, or -1 if one stays
 * so. A frame that was freed while it was poisoned must not be allocated again.
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
static size_t pages_lost(const char *was)
{
	const size_t size = memory_page_size();
	char *page = malloc(size);
	size_t lost = 0;

	for (size_t at = 0; at < area.size; at += size) {
		struct iovec to = { page, size }, from = { area.addr + at, size };

		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)size)
			lost++;
		else
			EXPECT_EQ(0, memcmp(page, was + at, size));
	}
	free(page);
	return lost;
}

static char *contents(void)
{
	return memcpy(malloc(area.size), area.addr, area.size);
}

/*
 * memory_failure() cannot take a page that is being migrated, and marks it. A PTE of its own
 * becomes one that faults; a PMD moves whole. Returns how many folios were copied live.
 */
static size_t poison_while_copied(size_t at)
{
	const bool by_ptes = area.folio_size < PMD_SIZE;
	char *was = contents();

	begin_move();
	EXPECT_EQ(-1, madvise(area.addr + at, memory_page_size(), MADV_HWPOISON));
	expect_no_wait();
	join_move();
	/* The status of a page that is gone is not known. */
	EXPECT_EQ(!at && by_ptes, mover.missing);
	EXPECT_EQ(by_ptes, pages_lost(was));
	free(was);
	area_destroy(&area);
	EXPECT_EQ(1, unpoison());
	return offload_grown("live_copied");
}

TEST_F_TIMEOUT(live_faults, a_page_is_poisoned, TIMEOUT)
{
	const size_t folios = area_folios(&area);

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	/* No access reads the copy of the page. */
	EXPECT_EQ(folios, poison_while_copied(3 * memory_page_size()));
	create_area(variant->kind, variant->size);
	/* A folio tells of its first page, and is copied once more, by the CPU. */
	EXPECT_EQ(folios - 1, poison_while_copied(0));
	EXPECT_EQ(1, offload_grown("declined"));
}

static void on_signal(int sig)
{
}

/* The reference of a pipe keeps the folio whole and mapped, and then it is moved. */
TEST_F_TIMEOUT(live_faults, it_was_poisoned_before, TIMEOUT)
{
	const size_t folios = area_folios(&area);
	char *was = contents();
	int ends[2];

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	signal(SIGBUS, on_signal);
	hold(ends, area.addr, 1, 1);
	EXPECT_EQ(-1, madvise(area.addr + 3 * memory_page_size(), memory_page_size(),
			      MADV_HWPOISON));
	let_go(ends);

	offload_mark();
	EXPECT_EQ(0, area_move(&area, nodes[1]));
	EXPECT_EQ(folios - 1, offload_grown("live_copied"));
	EXPECT_EQ(1, offload_grown("live_declined"));
	EXPECT_EQ(1, offload_grown("declined"));
	EXPECT_EQ(variant->size < PMD_SIZE, pages_lost(was));
	free(was);
	area_destroy(&area);
	EXPECT_EQ(1, unpoison());
}

/* Before, between and after the steps of a move that takes a few ms. */
TEST_F_TIMEOUT(live_faults, a_page_is_poisoned_at_any_time, TIMEOUT)
{
	const unsigned int rounds = 12, pages = variant->size / memory_page_size();
	const long half = area.folio_size / memory_page_size() / 2;
	long before = 0, grown, held = 0;
	size_t lost = 0;

	if (!can_poison())
		SKIP(return, "no " UNPOISON);
	signal(SIGBUS, on_signal);
	set_latency(2000000);
	srandom(1);
	for (unsigned int i = 0; i < rounds; i++) {
		const bool hard = i % 3;
		char *page = area.addr + random() % pages * memory_page_size();
		char *was = contents();
		size_t now;

		start_move();
		usleep(random() % 8000);
		madvise(page, memory_page_size(), hard ? MADV_HWPOISON : MADV_SOFT_OFFLINE);
		join_move();
		now = pages_lost(was);
		free(was);
		EXPECT_GE(hard, now);
		lost += now;
		area_destroy(&area);
		EXPECT_LE(hard, unpoison());
		create_area(variant->kind, variant->size);
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
	begin_move();
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_EQ(0, pthread_kill(mover.thread, SIGUSR1));
	end_and_move_back();
}

/* The end of a process while its memory is copied; the last one not on every kernel. */
enum fate { KILLED, EXITS, EXECS, UNMAPS, OOM_KILLED, NR_FATES };

struct process {
	enum area_kind kind;
	size_t size;
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

static long oom_kills(void)
{
	return setting_find_number(GROUP "memory.events", "oom_kill ");
}

/* In the process: has an area of its own, and moves it. */
static void live_and_die(struct process *process)
{
	const unsigned long before = engine_descriptors();
	bool fine;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (process->fate == OOM_KILLED && setting_write(GROUP "cgroup.procs", "0"))
		_exit(1);
	if (!area_create(&area, process->kind, process->size, nodes[0]) ||
	    pthread_create(&mover.thread, NULL, move_area, NULL))
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
		area_destroy(&area);
		pthread_join(mover.thread, NULL);
		_exit(0);
	default:
		for (;;)
			pause();
	}
}

static void die(struct process *process)
{
	const bool killed = process->fate == KILLED || process->fate == OOM_KILLED;
	const long kills_before = oom_kills();
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
	EXPECT_EQ(0, kernel_log_bad(test.log, NULL));
	if (process->fate == KILLED)
		kill(pid, SIGKILL);
	else if (process->fate == OOM_KILLED)
		EXPECT_EQ(0, setting_write(GROUP "memory.max", "0"));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(killed ? SIGKILL : 0, status);
	let_go(ends);
	if (process->fate == OOM_KILLED) {
		EXPECT_EQ(kills_before + 1, oom_kills());
		/* Out of memory, the kernel shows its stack; all other complaints count. */
		EXPECT_EQ(0, kernel_log_bad(test.log, "Call Trace"));
		EXPECT_EQ(0, setting_write(GROUP "memory.max", "max"));
	}
}

/* Fewer pages than if each round after the first has lost a large folio. */
static void expect_none_lost(unsigned int fates, long pages_before)
{
	long grown = pages_unaccounted() - pages_before;

	TH_LOG("%u fates, %ld pages more in use", fates, grown);
	EXPECT_GT((long)((ROUNDS - 1) * area.folio_size / memory_page_size()), grown);
}

TEST_F_TIMEOUT(live_faults, its_process_ends, TIMEOUT)
{
	struct process process = { variant->kind, variant->size };
	const unsigned int fates = make_group();
	long before;

	area_destroy(&area);
	/* The first time is for what is allocated once. */
	die(&process);
	before = pages_unaccounted();
	for (unsigned int i = 0; i < fates * ROUNDS; i++) {
		process.fate = i % fates;
		die(&process);
	}
	rmdir(GROUP);
	expect_none_lost(fates, before);
}

/* An event during a move. */
enum event {
	ERROR, NO_ANSWER, MIGRATOR_UNLOADED, ENGINE_UNLOADED, ROUTE_CHANGED, MEMORY_REFUSED,
	SIGNAL, NR_EVENTS
};

static void happen(enum event event)
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
	case ENGINE_UNLOADED:
		EXPECT_EQ(0, engine_unload_busy("dcbm"));
		if (event == ENGINE_UNLOADED)
			EXPECT_EQ(0, engine_unload_busy(engine_module()));
		break;
	case ROUTE_CHANGED:
		EXPECT_EQ(0, offload_set_route(MOVE_PAGES, "cpu"));
		EXPECT_EQ(0, offload_set_live(false));
		EXPECT_EQ(0, offload_set_enabled(false));
		break;
	case MEMORY_REFUSED:
		EXPECT_EQ(0, setting_write_number(FAIL_ALLOC "probability", 100));
		break;
	case SIGNAL:
		pthread_kill(mover.thread, SIGUSR1);
		break;
	default:
		break;
	}
}

/* Nothing is wrong any more. */
static void mend(void)
{
	setting_write_number(FAIL_ALLOC "probability", 0);
	if (!module_loaded("dcbm") || !module_loaded(engine_module())) {
		load_engine();
		set_latency(2000000);
	}
	engine_clear_faults();
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
	ASSERT_EQ(0, offload_set_route(MOVE_PAGES, "dcbm"));
	ASSERT_EQ(0, offload_set_live(true));
	ASSERT_EQ(0, offload_set_enabled(true));
}

static void *move_unlucky_area(void *arg)
{
	allocations_fail(true);
	return move_area(arg);
}

static void anything_happens(const FIXTURE_VARIANT(live_faults) *variant, unsigned int fates)
{
	struct process process = { variant->kind, variant->size };

	for (unsigned int i = 0; i < NR_EVENTS; i++) {
		create_area(variant->kind, variant->size);
		ASSERT_EQ(0, pthread_create(&mover.thread, NULL, move_unlucky_area, NULL));
		usleep(random() % 8000);
		happen(i);
		join_move();
		EXPECT_EQ(0, area_wrong(&area))
			TH_LOG("event %u", i);
		mend();
		area_destroy(&area);
	}
	for (unsigned int i = 0; i < fates; i++) {
		process.fate = i;
		process.after_us = 1 + random() % 8000;
		die(&process);
	}
}

/* Before, between and after the steps of a move that takes a few ms. */
TEST_F_TIMEOUT(live_faults, anything_at_any_time, TIMEOUT)
{
	const unsigned int fates = make_group();
	long before = 0;

	if (!prepare_failures())
		SKIP(return, "no " FAIL_ALLOC);
	mend();
	set_latency(2000000);
	area_destroy(&area);
	signal(SIGUSR1, on_signal);
	srandom(1);
	offload_mark();
	for (unsigned int i = 0; i < ROUNDS; i++) {
		anything_happens(variant, fates);
		/* The first time is for what is allocated once. */
		if (!i)
			before = pages_unaccounted();
	}
	rmdir(GROUP);
	expect_none_lost(fates, before);
	EXPECT_LT(0, offload_grown("live_copied"));
}

/* Page tables move, and the folios as well. */
TEST_F_TIMEOUT(live_faults, it_is_remapped, TIMEOUT)
{
	const size_t size = area.size;
	char *to = memory_map_aligned(size, PMD_SIZE);

	ASSERT_NE(NULL, to);
	begin_move();
	ASSERT_EQ(to, mremap(area.addr, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	expect_no_wait();
	join_move();
	area.addr = to;
	expect_on(nodes[1]);
	move_anew(nodes[0]);
}

TEST_HARNESS_MAIN
