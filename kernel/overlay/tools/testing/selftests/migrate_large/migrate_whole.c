// SPDX-License-Identifier: GPL-2.0
/*
 * A folio that was whole stays whole: large folios that migrate ten times are not
 * split, not even queued for it, and those that could not be moved are as before.
 * What was mapped in part keeps its mark, and is split by its next migration.
 * What is mlocked stays so, and is counted once. What is mapped in part after a
 * migration is queued, whichever process unmapped the rest, and whenever.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

#define TIMEOUT		240
#define IDLE_BITMAP	"/sys/kernel/mm/page_idle/bitmap"
#define MOVES		10
#define FOLIOS		4
#define SEED		17
/* Of the kernel's own flags, which /proc/kpageflags shows as well. */
#define KPF_MLOCKED	33
/* An mlocked folio has both as soon as no CPU's batch holds it. */
#define LOCKED		(1ULL << KPF_MLOCKED | 1ULL << KPF_UNEVICTABLE)

enum layout {
	/* One mapping, of a process with one thread. */
	PLAIN,
	/* Another thread has run on another CPU. */
	THREADED,
	MLOCKED,
	/* MLOCKED, and PTEs of the two halves of a folio differ. */
	MIXED,
	/* A second process maps it all. */
	FORKED,
	/* The last quarter of each folio belongs to another VMA. */
	STRADDLED,
	/* Each folio is mapped one page behind its natural place. */
	SHIFTED,
	/* Page cache of tmpfs. */
	SHMEM,
	/* The last page of each folio is not mapped any more. */
	PARTIAL,
};

FIXTURE(migrate_whole)
{
	char *addr;
	size_t len;
	int nodes[2];
	long mlocked_before;
	pid_t child;
	pthread_t thread;
	bool thread_runs;
	bool thread_stops;
};

FIXTURE_VARIANT(migrate_whole)
{
	size_t folio_size;
	enum layout layout;
};

#define SIZE_VARIANTS(name, which)						\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_16k) {			\
		.folio_size = 16 * KIB, .layout = (which),			\
	};									\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_64k) {			\
		.folio_size = 64 * KIB, .layout = (which),			\
	};									\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_256k) {			\
		.folio_size = 256 * KIB, .layout = (which),			\
	};									\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_1m) {				\
		.folio_size = 1 * MIB, .layout = (which),			\
	};									\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_2m) {				\
		.folio_size = PMD_SIZE, .layout = (which),			\
	}

SIZE_VARIANTS(plain, PLAIN);
SIZE_VARIANTS(threaded, THREADED);
SIZE_VARIANTS(mlocked, MLOCKED);
SIZE_VARIANTS(mixed, MIXED);
SIZE_VARIANTS(forked, FORKED);
SIZE_VARIANTS(straddled, STRADDLED);
SIZE_VARIANTS(shifted, SHIFTED);
SIZE_VARIANTS(shmem, SHMEM);
SIZE_VARIANTS(partial, PARTIAL);

/* What the kernel counts for folios of one size. */
struct counts {
	long split;
	long split_deferred;
	long partially_mapped;
};

static long size_count(size_t folio_size, const char *name)
{
	char path[192];

	snprintf(path, sizeof(path), THP_DIR "/hugepages-%zukB/stats/%s", folio_size / KIB, name);
	return setting_read_number(path);
}

static struct counts read_counts(size_t folio_size)
{
	return (struct counts) {
		.split = size_count(folio_size, "split"),
		.split_deferred = size_count(folio_size, "split_deferred"),
		.partially_mapped = size_count(folio_size, "nr_anon_partially_mapped"),
	};
}

/* How many pages of the machine are mlocked, -1 if that is not known. */
static long mlocked_pages(void)
{
	/* Of every CPU what it has not told yet. */
	setting_write("/proc/sys/vm/stat_refresh", "1");
	return setting_find_number("/proc/vmstat", "nr_mlock ");
}

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
}

/* The shrinkers split all that is queued. */
static int run_shrinkers(void)
{
	return setting_write("/proc/sys/vm/drop_caches", "2");
}

static void run_on_last_cpu(void)
{
	int cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;

	run_on_cpus(cpu, cpu);
}

/* Keeps a CPU's translations of the process in use, and touches nothing. */
static void *other_thread(void *arg)
{
	bool *stops = arg;

	run_on_last_cpu();
	while (!__atomic_load_n(stops, __ATOMIC_ACQUIRE))
		usleep(200);
	return NULL;
}

static bool move_by_one_page(FIXTURE_DATA(migrate_whole) *self)
{
	char *room = memory_map_aligned(self->len + PMD_SIZE, PMD_SIZE);
	char *to = room + memory_page_size();

	if (!room || munmap(room, self->len + PMD_SIZE))
		return false;
	if (mremap(self->addr, self->len, self->len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		return false;
	self->addr = to;
	return true;
}

static bool is_locked(const FIXTURE_VARIANT(migrate_whole) *variant)
{
	return variant->layout == MLOCKED || variant->layout == MIXED;
}

/* All of it is mlocked, and nothing else that was not before. */
static void check_locked(struct __test_metadata *_metadata, FIXTURE_DATA(migrate_whole) *self)
{
	size_t pages = self->len / memory_page_size();

	EXPECT_EQ(pages, memory_pages_flagged(self->addr, self->len, LOCKED));
	EXPECT_EQ(self->mlocked_before + pages, mlocked_pages());
}

/* One munlock() is enough: no migration counted a folio as mlocked again. */
static void check_unlocked(struct __test_metadata *_metadata,
			   FIXTURE_DATA(migrate_whole) *self)
{
	ASSERT_EQ(0, munlock(self->addr, self->len));
	EXPECT_EQ(0, memory_pages_flagged(self->addr, self->len, 1ULL << KPF_MLOCKED));
	EXPECT_EQ(0, memory_pages_flagged(self->addr, self->len, 1ULL << KPF_UNEVICTABLE));
	EXPECT_EQ(self->mlocked_before, mlocked_pages());
}

/* Afterwards only the PTEs of each folio's first half are young. */
static bool touch_first_halves(FIXTURE_DATA(migrate_whole) *self, size_t folio_size)
{
	size_t page = memory_page_size();
	int fd = open(IDLE_BITMAP, O_WRONLY);
	bool done = fd >= 0;

	for (size_t i = 0; done && i < self->len; i += folio_size) {
		uint64_t pfn = memory_pfn(self->addr + i);
		uint64_t word = 1ULL << pfn % 64;

		done = pwrite(fd, &word, sizeof(word), pfn / 64 * sizeof(word)) == sizeof(word);
	}
	for (size_t i = 0; done && i < self->len; i += page)
		if (i % folio_size < folio_size / 2)
			__atomic_load_n(self->addr + i, __ATOMIC_RELAXED);
	if (fd >= 0)
		close(fd);
	return done;
}

static void lay_out(struct __test_metadata *_metadata, FIXTURE_DATA(migrate_whole) *self,
		    const FIXTURE_VARIANT(migrate_whole) *variant)
{
	size_t size = variant->folio_size;
	size_t page = memory_page_size();
	size_t quarter = size / 4;

	switch (variant->layout) {
	case THREADED:
		if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
			SKIP(return, "needs two CPUs");
		ASSERT_EQ(0, pthread_create(&self->thread, NULL, other_thread,
					    &self->thread_stops));
		self->thread_runs = true;
		usleep(2000);
		break;
	case MLOCKED:
	case MIXED:
		ASSERT_EQ(0, mlock(self->addr, self->len));
		if (variant->layout == MIXED)
			ASSERT_TRUE(touch_first_halves(self, size));
		check_locked(_metadata, self);
		break;
	case FORKED:
		self->child = fork_idle();
		ASSERT_GT(self->child, 0);
		break;
	case STRADDLED:
		for (size_t i = 0; i < self->len; i += size)
			ASSERT_EQ(0, mprotect(self->addr + i + size - quarter, quarter,
					      PROT_READ));
		break;
	case SHIFTED:
		ASSERT_TRUE(move_by_one_page(self));
		break;
	case PARTIAL:
		for (size_t i = 0; i < self->len; i += size)
			ASSERT_EQ(0, munmap(self->addr + i + size - page, page));
		break;
	case PLAIN:
	case SHMEM:
		break;
	}
}

FIXTURE_SETUP(migrate_whole)
{
	size_t size = variant->folio_size;

	settings_restore();
	if (!memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes with memory");
	if (size_count(size, "split") < 0)
		SKIP(return, "no folios of this size");

	numa_balancing_off();
	ASSERT_EQ(0, thp_only(size));
	self->len = FOLIOS * size;
	self->addr = memory_map_aligned(self->len, PMD_SIZE);
	ASSERT_NE(NULL, self->addr);
	if (variant->layout == SHMEM)
		ASSERT_NE(MAP_FAILED,
			  mmap(self->addr, self->len, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, memory_fill(self->addr, self->len, size, self->nodes[0], SEED));
	ASSERT_TRUE(memory_folios_are(self->addr, self->len, size));
	self->mlocked_before = mlocked_pages();
	ASSERT_LE(0, self->mlocked_before);
	lay_out(_metadata, self, variant);
}

FIXTURE_TEARDOWN(migrate_whole)
{
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		waitpid(self->child, NULL, 0);
	}
	if (self->thread_runs) {
		__atomic_store_n(&self->thread_stops, true, __ATOMIC_RELEASE);
		pthread_join(self->thread, NULL);
	}
	/* With the holes of what was mapped in part. */
	munmap(self->addr, self->len);
	settings_restore();
}

static long move_all(FIXTURE_DATA(migrate_whole) *self, size_t step, int node)
{
	return memory_move(0, self->addr, self->len, step, node,
			   self->child ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE);
}

static size_t bytes_wrong(FIXTURE_DATA(migrate_whole) *self, size_t folio_size, bool partial)
{
	size_t part = folio_size - (partial ? memory_page_size() : 0);
	char *copy = malloc(self->len);
	size_t wrong;

	if (!copy)
		return self->len;
	/* Pages that are not mapped any more count as right. */
	memory_stamp(copy, self->len, SEED);
	for (size_t i = 0; i < self->len; i += folio_size)
		memcpy(copy + i, self->addr + i, part);
	wrong = memory_verify(copy, self->len, SEED);
	free(copy);
	return wrong;
}

/* Since @before no folio was split or queued, and no other one was marked. */
static void check_counts(struct __test_metadata *_metadata, size_t folio_size,
			 const struct counts *before)
{
	struct counts after = read_counts(folio_size);

	EXPECT_EQ(before->split, after.split);
	EXPECT_EQ(before->split_deferred, after.split_deferred);
	EXPECT_EQ(before->partially_mapped, after.partially_mapped);
}

/* A pipe with a reference to every folio: none of them can move. */
struct hold {
	int pipe[2];
};

static bool hold_pages(struct hold *hold, char *addr, size_t len, size_t folio_size)
{
	if (pipe(hold->pipe))
		return false;
	if (fcntl(hold->pipe[1], F_SETPIPE_SZ, 64 * memory_page_size()) < 0)
		return false;
	for (size_t i = 0; i < len; i += folio_size) {
		struct iovec vec = { .iov_base = addr + i, .iov_len = 8 };

		if (vmsplice(hold->pipe[1], &vec, 1, 0) != 8)
			return false;
	}
	return true;
}

static void release_pages(struct hold *hold)
{
	close(hold->pipe[0]);
	close(hold->pipe[1]);
}

TEST_F_TIMEOUT(migrate_whole, moved, TIMEOUT)
{
	struct counts before = read_counts(variant->folio_size);
	bool partial = variant->layout == PARTIAL;
	size_t step = partial ? memory_page_size() : variant->folio_size;
	struct counts after;

	if (!partial) {
		for (int i = 0; i < MOVES; i++) {
			ASSERT_EQ(0, move_all(self, step, self->nodes[(i + 1) % 2]));
			ASSERT_TRUE(memory_folios_are(self->addr, self->len, step))
				TH_LOG("split by move %d", i + 1);
			if (is_locked(variant))
				check_locked(_metadata, self);
		}
		if (is_locked(variant))
			check_unlocked(_metadata, self);
		EXPECT_EQ(0, run_shrinkers());
		check_counts(_metadata, step, &before);
		EXPECT_TRUE(memory_folios_are(self->addr, self->len, step));
		EXPECT_EQ(0, bytes_wrong(self, step, false));
		return;
	}

	/* The kernel splits a folio that is mapped in part, and moves its pages. */
	ASSERT_LE(FOLIOS, before.partially_mapped);
	EXPECT_EQ(FOLIOS, move_all(self, step, self->nodes[1]))
		TH_LOG("other addresses than those without a page stayed");
	after = read_counts(variant->folio_size);
	EXPECT_EQ(before.split + FOLIOS, after.split);
	EXPECT_EQ(before.partially_mapped - FOLIOS, after.partially_mapped);
	EXPECT_EQ(before.split_deferred, after.split_deferred);
	EXPECT_EQ(0, bytes_wrong(self, variant->folio_size, true));
}

TEST_F_TIMEOUT(migrate_whole, could_not_be_moved, TIMEOUT)
{
	size_t size = variant->folio_size;
	bool partial = variant->layout == PARTIAL;
	struct counts before = read_counts(size);
	struct hold hold;

	ASSERT_TRUE(hold_pages(&hold, self->addr, self->len, size));
	EXPECT_EQ(FOLIOS, move_all(self, size, self->nodes[1]));
	check_counts(_metadata, size, &before);
	release_pages(&hold);
	if (is_locked(variant))
		check_locked(_metadata, self);

	if (partial) {
		ASSERT_LE(FOLIOS, before.partially_mapped);
		/* They are still queued. */
		EXPECT_EQ(0, run_shrinkers());
		EXPECT_EQ(before.split + FOLIOS, read_counts(size).split);
		EXPECT_EQ(0, bytes_wrong(self, size, true));
		return;
	}
	/* The next attempt finds them whole. */
	EXPECT_EQ(0, run_shrinkers());
	EXPECT_EQ(0, move_all(self, size, self->nodes[1]));
	check_counts(_metadata, size, &before);
	EXPECT_TRUE(memory_folios_are(self->addr, self->len, size));
	EXPECT_EQ(0, bytes_wrong(self, size, false));
	if (is_locked(variant)) {
		check_locked(_metadata, self);
		check_unlocked(_metadata, self);
	}
}

/*
 * move_pages(2) looks for the VMA of an address in that of the address before it
 * first. Neither the last address of all nor one beside the VMA lies in it.
 */
TEST(addresses_outside_of_the_vma)
{
	size_t page = memory_page_size();
	char *addr = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *pages[5];
	int nodes[5], status[5];
	int first, second;

	if (!memory_two_nodes(&first, &second))
		SKIP(return, "needs two nodes with memory");
	ASSERT_NE(MAP_FAILED, addr);
	ASSERT_EQ(0, munmap(addr, page));
	ASSERT_EQ(0, munmap(addr + 2 * page, page));
	ASSERT_EQ(0, memory_bind(first));
	addr[page] = 1;
	ASSERT_EQ(0, memory_bind(-1));

	/* The addresses next to that of a good page are errors. */
	pages[0] = addr + page;
	pages[1] = (void *)-1L;
	pages[2] = addr + page;
	pages[3] = addr + 2 * page;
	pages[4] = addr;
	for (int i = 0; i < 5; i++) {
		nodes[i] = i == 2 ? first : second;
		status[i] = -1;
	}
	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 5, pages, nodes, status, MPOL_MF_MOVE));
	EXPECT_EQ(second, status[0]);
	EXPECT_EQ(-EFAULT, status[1]);
	EXPECT_EQ(first, status[2]);
	EXPECT_EQ(-EFAULT, status[3]);
	EXPECT_EQ(-EFAULT, status[4]);
	munmap(addr + page, page);
}

/* What the rest of the system may allocate or free meanwhile, in pages. */
#define NOISE_PAGES	24

enum { ON_LRU, ISOLATED, MAPPED, NR_NODE_COUNTS };

struct node_counts {
	long of[2][NR_NODE_COUNTS];
};

/* What two nodes count of anonymous memory. */
static struct node_counts read_node_counts(int first, int second)
{
	struct node_counts counts;
	char path[64];

	/* Of every CPU what it has not told yet. */
	setting_write("/proc/sys/vm/stat_refresh", "1");
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/vmstat",
			 i ? second : first);
		counts.of[i][ON_LRU] = setting_find_number(path, "nr_inactive_anon ") +
				       setting_find_number(path, "nr_active_anon ") +
				       setting_find_number(path, "nr_unevictable ");
		counts.of[i][ISOLATED] = setting_find_number(path, "nr_isolated_anon ");
		counts.of[i][MAPPED] = setting_find_number(path, "nr_anon_pages ");
	}
	return counts;
}

/*
 * Folios are taken off the LRU, put back, freed and counted several at a time. There
 * and back: nothing is missing, and nothing waits when move_pages(2) returns.
 */
TEST(lists_are_complete)
{
	const size_t sizes[] = { memory_page_size(), 64 * KIB };
	const size_t len = 4 * MIB;
	const long nr_pages = len / memory_page_size();
	struct node_counts before, after;
	int first, second;
	char *addr;

	if (!memory_two_nodes(&first, &second))
		SKIP(return, "needs two nodes with memory");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		ASSERT_EQ(0, thp_only(sizes[i]));
		addr = memory_map_aligned(len, PMD_SIZE);
		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, memory_fill(addr, len, sizes[i], first, SEED));
		/* On the LRU, and not in the list of a CPU: the first move sees to that. */
		for (int round = 0; round < 3; round++) {
			int node = round % 2 ? first : second;
			long sign = round % 2 ? -1 : 1;

			before = read_node_counts(first, second);
			ASSERT_EQ(0, memory_move(0, addr, len, sizes[i], node,
						 MPOL_MF_MOVE));
			after = read_node_counts(first, second);
			for (int n = 0; n < 2; n++) {
				long grown = n ? sign * nr_pages : -sign * nr_pages;

				EXPECT_EQ(before.of[n][ISOLATED], after.of[n][ISOLATED]);
				grown -= after.of[n][MAPPED] - before.of[n][MAPPED];
				EXPECT_GE(NOISE_PAGES, labs(grown));
				if (!round)
					continue;
				/* Each page on a list is mapped, and the other way round. */
				grown = after.of[n][ON_LRU] - before.of[n][ON_LRU] -
					(after.of[n][MAPPED] - before.of[n][MAPPED]);
				EXPECT_GE(NOISE_PAGES, labs(grown));
			}
		}
		EXPECT_EQ(0, memory_verify(addr, len, SEED));
		munmap(addr, len);
	}
}

#define TOUCHED_FOLIOS	16
#define TOUCH_ROUNDS	60
#define TOUCH_SECONDS	12
#define TOUCH_STEP_NS	2000

/*
 * Writes to a page of every second folio, one after the other, in each round, as soon as
 * the folio before it is unmapped, or a little later.
 */
struct toucher {
	char *addr;
	size_t folio_size;
	int pagemap;
	/* What pagemap showed of each folio before the round. */
	uint64_t entries[TOUCHED_FOLIOS];
	/* The last round that was asked for, whose migration is over, and that is done. */
	long asked;
	long moved;
	long done;
};

/* What the kernel shows of the first page of a folio; 0 if it does not. */
static uint64_t folio_entry(const struct toucher *toucher, long folio)
{
	size_t page = (uintptr_t)(toucher->addr + folio * toucher->folio_size) /
		      memory_page_size();
	uint64_t entry = 0;

	if (pread(toucher->pagemap, &entry, sizeof(entry), page * sizeof(entry)) < 0)
		return 0;
	return entry;
}

/* In the first eighth of the folio: what the kernel looks at first, it clears long after. */
static long *touched_word(const struct toucher *toucher, long round, long folio)
{
	size_t pages = toucher->folio_size / memory_page_size() / 8;
	size_t page = (round * 7919 + folio * 104729) % pages;

	return (long *)(toucher->addr + folio * toucher->folio_size +
			page * memory_page_size());
}

static long thread_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

static void *touch(void *arg)
{
	struct toucher *toucher = arg;
	long delay = 0, faults = thread_faults();

	run_on_last_cpu();
	for (long round = 1; ; round++) {
		while (__atomic_load_n(&toucher->asked, __ATOMIC_ACQUIRE) < round)
			;
		if (!toucher->addr)
			return NULL;
		for (long folio = 1; folio < TOUCHED_FOLIOS; folio += 2) {
			long seen, before = faults;
			bool waited = false;

			while (folio_entry(toucher, folio - 1) == toucher->entries[folio - 1] &&
			       __atomic_load_n(&toucher->moved, __ATOMIC_ACQUIRE) < round)
				waited = true;
			seen = nanoseconds_now();
			while (nanoseconds_now() < seen + delay)
				;
			__atomic_store_n(touched_word(toucher, round, folio), round,
					 __ATOMIC_RELAXED);
			/* A store that comes too late faults: half of them shall. */
			faults = thread_faults();
			if (waited)
				delay += faults == before ? TOUCH_STEP_NS : -TOUCH_STEP_NS;
		}
		__atomic_store_n(&toucher->done, round, __ATOMIC_RELEASE);
	}
}

/*
 * A thread writes to a page while the kernel unmaps its folio, now and then between the
 * kernel's look at the PTE and the clear. The folio was clean: if the kernel loses the
 * dirty bit, reclaim drops what was written.
 */
TEST(written_while_unmapped)
{
	const size_t size = 1 * MIB, len = TOUCHED_FOLIOS * size;
	long end = nanoseconds_now() + TOUCH_SECONDS * 1000000000L;
	struct toucher toucher = { .folio_size = size };
	size_t lost = 0, stayed = 0;
	pthread_t thread;
	int nodes[2];
	long round;

	if (!memory_two_nodes(&nodes[0], &nodes[1]))
		SKIP(return, "needs two nodes with memory");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	if (size_count(size, "split") < 0)
		SKIP(return, "no folios of this size");
	ASSERT_EQ(0, thp_only(size));
	run_on_cpus(0, 0);
	toucher.pagemap = open("/proc/self/pagemap", O_RDONLY);
	ASSERT_LE(0, toucher.pagemap);
	ASSERT_EQ(0, pthread_create(&thread, NULL, touch, &toucher));

	for (round = 1; round <= TOUCH_ROUNDS && nanoseconds_now() < end; round++) {
		char *addr = memory_map_aligned(len, PMD_SIZE);

		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, madvise(addr, len, MADV_HUGEPAGE));
		ASSERT_EQ(0, memory_bind(nodes[0]));
		for (size_t i = 0; i < len; i += size)
			addr[i] = 1;
		ASSERT_EQ(0, memory_bind(-1));
		ASSERT_TRUE(memory_folios_are(addr, len, size));
		ASSERT_EQ(0, madvise(addr, len, MADV_FREE));
		toucher.addr = addr;
		for (long folio = 0; folio < TOUCHED_FOLIOS; folio++)
			toucher.entries[folio] = folio_entry(&toucher, folio);
		__atomic_store_n(&toucher.asked, round, __ATOMIC_RELEASE);
		stayed += memory_move(0, addr, len, size, nodes[1], MPOL_MF_MOVE);
		__atomic_store_n(&toucher.moved, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&toucher.done, __ATOMIC_ACQUIRE) < round)
			;
		ASSERT_EQ(0, madvise(addr, len, MADV_PAGEOUT));
		for (long folio = 1; folio < TOUCHED_FOLIOS; folio += 2)
			lost += *touched_word(&toucher, round, folio) != round;
		munmap(addr, len);
	}
	toucher.addr = NULL;
	__atomic_store_n(&toucher.asked, round, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	close(toucher.pagemap);
	settings_restore();
	EXPECT_EQ(0, lost) TH_LOG("in %ld rounds", round - 1);
	/* Now and then somebody else has a reference to a folio. */
	EXPECT_GE(round / 10 + 1, stayed);
}

#define SPLIT_FOLIOS	64
#define SPLIT_TRIES	100
#define SPLIT_SECONDS	15
#define SPLIT_ENOUGH	3

/* Takes references to the folio at a frame, for a moment each. */
static void *look_at_folio(void *arg)
{
	uint64_t *pfn = arg;
	int fd = open(IDLE_BITMAP, O_RDONLY);

	run_on_last_cpu();
	for (;;) {
		uint64_t now = __atomic_load_n(pfn, __ATOMIC_ACQUIRE), word;

		if (now == MEMORY_NO_PFN)
			break;
		if (pread(fd, &word, sizeof(word), now / 64 * sizeof(word)) < 0)
			break;
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

/*
 * Splits folios one by one, all of which a child maps but for the last page. Returns how
 * many splits failed after they had unmapped the folio, and kept it as it was.
 */
static long split_while_looked_at(struct __test_metadata *_metadata, char *addr, uint64_t *pfn)
{
	long failed = 0;

	for (int i = 0; i < SPLIT_FOLIOS; i++) {
		struct counts before = read_counts(PMD_SIZE);
		long unmapped = setting_find_number("/proc/vmstat", "thp_split_pmd ");
		bool tried = false;

		__atomic_store_n(pfn, memory_pfn(addr + i * PMD_SIZE), __ATOMIC_RELEASE);
		for (int j = 0; j < SPLIT_TRIES && !tried; j++) {
			if (memory_split(addr + i * PMD_SIZE, memory_page_size()))
				return -1;
			tried = unmapped !=
				setting_find_number("/proc/vmstat", "thp_split_pmd ");
		}
		if (!tried || read_counts(PMD_SIZE).split != before.split)
			continue;
		failed++;
		check_counts(_metadata, PMD_SIZE, &before);
	}
	return failed;
}

/*
 * A split that fails leaves a folio as it was: not queued, though another process maps
 * all of it but one page. Nothing pauses a split half way, so nobody zaps entries then:
 * that such a folio is queued is known from reading only.
 */
TEST(split_that_fails)
{
	const size_t len = SPLIT_FOLIOS * PMD_SIZE, page = memory_page_size();
	long end = nanoseconds_now() + SPLIT_SECONDS * 1000000000L;
	uint64_t pfn = 0;
	long failed = 0;
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	if (size_count(PMD_SIZE, "split") < 0)
		SKIP(return, "no folios of this size");
	if (access(IDLE_BITMAP, R_OK) || access(SPLIT_PAGES, W_OK))
		SKIP(return, "needs idle page tracking and debugfs");
	numa_balancing_off();
	ASSERT_EQ(0, thp_only(PMD_SIZE));
	run_on_cpus(0, 0);
	ASSERT_EQ(0, pthread_create(&thread, NULL, look_at_folio, &pfn));

	while (failed < SPLIT_ENOUGH && nanoseconds_now() < end) {
		char *addr = memory_map_aligned(len, PMD_SIZE);
		int ready[2];
		pid_t child;
		long more;
		char byte;

		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, madvise(addr, len, MADV_HUGEPAGE));
		for (size_t i = 0; i < len; i += page)
			addr[i] = 1;
		ASSERT_TRUE(memory_folios_are(addr, len, PMD_SIZE));
		ASSERT_EQ(0, pipe(ready));
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (size_t i = 0; i < len; i += PMD_SIZE)
				munmap(addr + i + PMD_SIZE - page, page);
			byte = write(ready[1], "", 1) == 1;
			while (byte)
				pause();
			_exit(1);
		}
		EXPECT_EQ(1, read(ready[0], &byte, 1));
		more = split_while_looked_at(_metadata, addr, &pfn);
		EXPECT_LE(0, more);
		failed += more;
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		close(ready[0]);
		close(ready[1]);
		munmap(addr, len);
	}
	__atomic_store_n(&pfn, MEMORY_NO_PFN, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	settings_restore();
	if (!failed)
		SKIP(return, "no split failed half way");
}

static sigjmp_buf at_sigbus;

static void on_sigbus(int signal)
{
	siglongjmp(at_sigbus, 1);
}

/* The kernel cannot split a folio that is held: poison stays mapped, and it sends SIGBUS. */
static int poison_page(char *page)
{
	if (sigsetjmp(at_sigbus, 1))
		return 0;
	return madvise(page, memory_page_size(), MADV_HWPOISON) ? -errno : -EAGAIN;
}

static bool read_has_sigbus(volatile char *byte)
{
	if (sigsetjmp(at_sigbus, 1))
		return true;
	(void)*byte;
	return false;
}

/*
 * Migration unmaps a poisoned page that is still mapped, and moves its neighbours.
 * Later the page may well be part of another folio, which then has to be split:
 * nothing else should be tested on this machine until it is booted again.
 */
TEST(poisoned_page_of_a_folio)
{
	const size_t size = 64 * KIB, page = memory_page_size(), bad = 5 * page;
	int first, second, err;
	struct hold hold;
	char *addr, *copy;

	if (!getenv("MIG_POISON"))
		SKIP(return, "poisons memory for good: set MIG_POISON=1");
	if (!memory_two_nodes(&first, &second))
		SKIP(return, "needs two nodes with memory");
	if (size_count(size, "split") < 0 || size <= bad)
		SKIP(return, "no folios of this size");
	ASSERT_EQ(0, thp_only(size));
	addr = memory_map_aligned(size, PMD_SIZE);
	copy = malloc(size);
	ASSERT_TRUE(addr && copy);
	ASSERT_EQ(0, memory_fill(addr, size, size, first, SEED));
	memory_stamp(copy, size, SEED);
	settings_restore();

	ASSERT_TRUE(hold_pages(&hold, addr, size, size));
	ASSERT_NE(SIG_ERR, signal(SIGBUS, on_sigbus));
	err = poison_page(addr + bad);
	if (err == -EINVAL || err == -EPERM)
		SKIP(return, "no pages can be poisoned");
	ASSERT_EQ(0, err);
	ASSERT_TRUE(memory_folios_are(addr, size, size));
	release_pages(&hold);

	EXPECT_EQ(0, memory_move(0, addr, size, size, second, MPOL_MF_MOVE));
	EXPECT_TRUE(read_has_sigbus(addr + bad));
	/* All the others are there, and on the other node. */
	EXPECT_EQ(0, memory_pages_not_on(addr, bad, second));
	EXPECT_EQ(0, memory_pages_not_on(addr + bad + page, size - bad - page, second));
	memcpy(copy, addr, bad);
	memcpy(copy + bad + page, addr + bad + page, size - bad - page);
	EXPECT_EQ(0, memory_verify(copy, size, SEED));
	free(copy);
	munmap(addr, size);
}

TEST_HARNESS_MAIN
