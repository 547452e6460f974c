// SPDX-License-Identifier: GPL-2.0
/*
 * A folio that was whole stays whole: large folios that migrate ten times are not
 * split, not even queued for it, and those that could not be moved are as before.
 * A folio that was mapped in part keeps its mark, and is split by its next migration.
 * An mlocked folio stays so, and is counted once. A folio that is mapped in part after a
 * migration is queued, whichever process unmapped the rest, and whenever.
 */
#include <setjmp.h>
#include <sys/resource.h>
#include <linux/kernel-page-flags.h>

#include "folios.h"

#define TIMEOUT		240
#define IDLE_BITMAP	"/sys/kernel/mm/page_idle/bitmap"
#define MOVES		10
#define FOLIOS		4
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
	/* See straddle_folios() and shift_folios(). */
	STRADDLED, SHIFTED,
	/* Page cache of tmpfs. */
	SHMEM,
	/* The last page of each folio is not mapped any more. */
	PARTIAL,
};

FIXTURE(migrate_whole) { };

static long mlocked_before;
static pid_t child;
static pthread_t thread;
static bool is_locked, thread_runs, thread_stops;

FIXTURE_VARIANT(migrate_whole) { size_t folio_size; enum layout layout; };

#define SIZE_VARIANTS(name, layout)						\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_16k) { 16 * KIB, layout };	\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_64k) { 64 * KIB, layout };	\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_256k) { 256 * KIB, layout };	\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_1m) { 1 * MIB, layout };	\
	FIXTURE_VARIANT_ADD(migrate_whole, name##_2m) { PMD_SIZE, layout }

SIZE_VARIANTS(plain, PLAIN);
SIZE_VARIANTS(threaded, THREADED);
SIZE_VARIANTS(mlocked, MLOCKED);
SIZE_VARIANTS(mixed, MIXED);
SIZE_VARIANTS(forked, FORKED);
SIZE_VARIANTS(straddled, STRADDLED);
SIZE_VARIANTS(shifted, SHIFTED);
SIZE_VARIANTS(shmem, SHMEM);
SIZE_VARIANTS(partial, PARTIAL);

/* The kernel's counts for folios of one size. */
struct counts { long split, split_deferred, partially_mapped; };

static long size_count(size_t folio_size, const char *name)
{
	return setting_read_number(setting_path(THP_DIR "/hugepages-%zukB/stats/%s",
						folio_size / KIB, name));
}

static struct counts read_counts(size_t folio_size)
{
	return (struct counts) {
		.split = size_count(folio_size, "split"),
		.split_deferred = size_count(folio_size, "split_deferred"),
		.partially_mapped = size_count(folio_size, "nr_anon_partially_mapped"),
	};
}

/* How many pages of the machine are mlocked; -1: not known. */
static long mlocked_pages(void)
{
	/* Of every CPU what it has not told yet. */
	setting_write("/proc/sys/vm/stat_refresh", "1");
	return setting_find_number("/proc/vmstat", "nr_mlock ");
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
	run_on_last_cpu();
	while (!__atomic_load_n(&thread_stops, __ATOMIC_ACQUIRE))
		usleep(200);
	return NULL;
}

/* All of it is mlocked, if it is to be, and nothing else that was not before. */
static void check_locked(void)
{
	size_t pages = len / memory_page_size();

	if (!is_locked)
		return;
	EXPECT_EQ(pages, memory_pages_flagged(addr, len, LOCKED));
	EXPECT_EQ(mlocked_before + pages, mlocked_pages());
}

/* One munlock() is enough: no migration counted a folio as mlocked again. */
static void check_unlocked(void)
{
	if (!is_locked)
		return;
	ASSERT_EQ(0, munlock(addr, len));
	EXPECT_EQ(0, memory_pages_flagged(addr, len, 1ULL << KPF_MLOCKED));
	EXPECT_EQ(0, memory_pages_flagged(addr, len, 1ULL << KPF_UNEVICTABLE));
	EXPECT_EQ(mlocked_before, mlocked_pages());
}

/* Afterwards only the PTEs of each folio's first half are young. */
static bool touch_first_halves(size_t folio_size)
{
	int fd = open(IDLE_BITMAP, O_WRONLY);
	bool done = fd >= 0;

	for (size_t i = 0; done && i < len; i += folio_size) {
		uint64_t pfn = memory_pfn(addr + i);
		uint64_t word = 1ULL << pfn % 64;

		done = pwrite(fd, &word, sizeof(word), pfn / 64 * sizeof(word)) == sizeof(word);
	}
	for (size_t i = 0; done && i < len; i += memory_page_size())
		if (i % folio_size < folio_size / 2)
			__atomic_load_n(addr + i, __ATOMIC_RELAXED);
	if (fd >= 0)
		close(fd);
	return done;
}

static void lay_out(const FIXTURE_VARIANT(migrate_whole) *variant)
{
	size_t size = variant->folio_size, page = memory_page_size();

	switch (variant->layout) {
	case THREADED:
		if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
			SKIP(return, "needs two CPUs");
		ASSERT_EQ(0, pthread_create(&thread, NULL, other_thread, NULL));
		thread_runs = true;
		usleep(2000);
		break;
	case MLOCKED:
	case MIXED:
		ASSERT_EQ(0, mlock(addr, len));
		is_locked = true;
		if (variant->layout == MIXED)
			ASSERT_TRUE(touch_first_halves(size));
		check_locked();
		break;
	case FORKED:
		child = fork_idle();
		ASSERT_GT(child, 0);
		break;
	case STRADDLED:
		straddle_folios(size);
		break;
	case SHIFTED:
		shift_folios();
		break;
	case PARTIAL:
		for (size_t i = 0; i < len; i += size)
			ASSERT_EQ(0, munmap(addr + i + size - page, page));
		break;
	case PLAIN:
	case SHMEM:
		break;
	}
}

FIXTURE_SETUP(migrate_whole)
{
	if (!test_begin(_metadata) ||
	    !map_folios(variant->folio_size, FOLIOS, variant->layout == SHMEM))
		return;
	mlocked_before = mlocked_pages();
	ASSERT_LE(0, mlocked_before);
	lay_out(variant);
}

FIXTURE_TEARDOWN(migrate_whole)
{
	end_process(child);
	if (thread_runs) {
		__atomic_store_n(&thread_stops, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
	}
	unmap_folios();
}

static long move_all(size_t step, int node)
{
	return memory_move(0, addr, len, step, node, child ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE);
}

/* Pages that are not mapped any more count as right. */
static size_t wrong_in_folios(size_t folio_size)
{
	char *copy = malloc(len);
	size_t wrong;

	memory_stamp(copy, len, SEED);
	for (size_t i = 0; i < len; i += folio_size)
		memcpy(copy + i, addr + i, folio_size - memory_page_size());
	wrong = memory_verify(copy, len, SEED);
	free(copy);
	return wrong;
}

/* Since @before no folio was split or queued, and no other one was marked. */
static void check_counts(size_t folio_size, const struct counts *before)
{
	struct counts after = read_counts(folio_size);

	EXPECT_EQ(before->split, after.split);
	EXPECT_EQ(before->split_deferred, after.split_deferred);
	EXPECT_EQ(before->partially_mapped, after.partially_mapped);
}

TEST_F_TIMEOUT(migrate_whole, moved, TIMEOUT)
{
	struct counts before = read_counts(variant->folio_size);
	bool partial = variant->layout == PARTIAL;
	size_t step = partial ? memory_page_size() : variant->folio_size;
	struct counts after;

	if (!partial) {
		for (int i = 0; i < MOVES; i++) {
			ASSERT_EQ(0, move_all(step, nodes[(i + 1) % 2]));
			ASSERT_TRUE(memory_folios_are(addr, len, step))
				TH_LOG("split by move %d", i + 1);
			check_locked();
		}
		check_unlocked();
		EXPECT_EQ(0, run_shrinkers());
		check_counts(step, &before);
		EXPECT_TRUE(memory_folios_are(addr, len, step));
		EXPECT_EQ(0, bytes_wrong());
		return;
	}

	/* The kernel splits a folio that is mapped in part, and moves its pages. */
	ASSERT_LE(FOLIOS, before.partially_mapped);
	EXPECT_EQ(FOLIOS, move_all(step, nodes[1]))
		TH_LOG("other addresses than those without a page stayed");
	after = read_counts(variant->folio_size);
	EXPECT_EQ(before.split + FOLIOS, after.split);
	EXPECT_EQ(before.partially_mapped - FOLIOS, after.partially_mapped);
	EXPECT_EQ(before.split_deferred, after.split_deferred);
	EXPECT_EQ(0, wrong_in_folios(variant->folio_size));
}

TEST_F_TIMEOUT(migrate_whole, could_not_be_moved, TIMEOUT)
{
	size_t size = variant->folio_size;
	bool partial = variant->layout == PARTIAL;
	struct counts before = read_counts(size);
	int held[2];

	hold(held, addr, len, size);
	EXPECT_EQ(FOLIOS, move_all(size, nodes[1]));
	check_counts(size, &before);
	let_go(held);
	check_locked();
	if (partial) {
		ASSERT_LE(FOLIOS, before.partially_mapped);
		/* They are still queued. */
		EXPECT_EQ(0, run_shrinkers());
		EXPECT_EQ(before.split + FOLIOS, read_counts(size).split);
		EXPECT_EQ(0, wrong_in_folios(size));
		return;
	}
	/* The next attempt finds them whole. */
	EXPECT_EQ(0, run_shrinkers());
	EXPECT_EQ(0, move_all(size, nodes[1]));
	check_counts(size, &before);
	EXPECT_TRUE(memory_folios_are(addr, len, size));
	EXPECT_EQ(0, bytes_wrong());
	check_locked();
	check_unlocked();
}

/*
 * move_pages(2) looks for the VMA of an address in that of the address before it
 * first. Neither the last address of all nor one beside the VMA lies in it.
 */
TEST(addresses_outside_of_the_vma)
{
	size_t page = memory_page_size();
	char *addr = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	/* The addresses next to that of a good page are errors. */
	void *pages[] = { addr + page, (void *)-1L, addr + page, addr + 2 * page, addr };
	int status[] = { -1, -1, -1, -1, -1 };
	int targets[5];

	if (!test_begin(_metadata))
		return;
	ASSERT_NE(MAP_FAILED, addr);
	ASSERT_EQ(0, munmap(addr, page));
	ASSERT_EQ(0, munmap(addr + 2 * page, page));
	ASSERT_EQ(0, memory_bind(nodes[0]));
	addr[page] = 1;
	ASSERT_EQ(0, memory_bind(-1));

	for (int i = 0; i < 5; i++)
		targets[i] = nodes[i != 2];
	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 5, pages, targets, status, MPOL_MF_MOVE));
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(pages[i] == addr + page ? targets[i] : -EFAULT, status[i]);
	munmap(addr + page, page);
}

/* Memory that the rest of the system may allocate or free meanwhile, in pages. */
#define NOISE_PAGES	24

enum { ON_LRU, ISOLATED, MAPPED, NR_NODE_COUNTS };

struct node_counts { long of[2][NR_NODE_COUNTS]; };

/* The counts of two nodes for anonymous memory. */
static struct node_counts read_node_counts(void)
{
	struct node_counts counts;

	/* Of every CPU what it has not told yet. */
	setting_write("/proc/sys/vm/stat_refresh", "1");
	for (int i = 0; i < 2; i++) {
		const char *path = setting_path(NODE_DIR "/node%d/vmstat", nodes[i]);

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
	const long nr_pages = 4 * MIB / memory_page_size();
	struct node_counts before, after;

	if (!test_begin(_metadata))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (!map_folios(sizes[i], 4 * MIB / sizes[i], false))
			return;
		/* On the LRU, and not in the list of a CPU: the first move sees to that. */
		for (int round = 0; round < 3; round++) {
			before = read_node_counts();
			ASSERT_EQ(0, move_all(sizes[i], nodes[1 - round % 2]));
			after = read_node_counts();
			for (int n = 0; n < 2; n++) {
				long due = n == round % 2 ? -nr_pages : nr_pages;
				long mapped = after.of[n][MAPPED] - before.of[n][MAPPED];
				long on_lru = after.of[n][ON_LRU] - before.of[n][ON_LRU];

				EXPECT_EQ(before.of[n][ISOLATED], after.of[n][ISOLATED]);
				EXPECT_GE(NOISE_PAGES, labs(due - mapped));
				/* Each page on a list is mapped, and the other way round. */
				if (round)
					EXPECT_GE(NOISE_PAGES, labs(on_lru - mapped));
			}
		}
		EXPECT_EQ(0, bytes_wrong());
		munmap(addr, len);
	}
}

/* A test runs on the first CPU, and its thread on the last. */
static bool begin_on_two_cpus(struct __test_metadata *metadata, size_t folio_size)
{
	if (!test_begin(metadata))
		return false;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return false, "needs two CPUs");
	if (thp_only(folio_size))
		SKIP(return false, "no folios of this size");
	run_on_cpus(0, 0);
	return true;
}

#define TOUCHED_FOLIOS	16
#define TOUCH_ROUNDS	60
#define TOUCH_SECONDS	12
#define TOUCH_STEP_NS	2000

/*
 * Writes to a page of every second folio, one after the other, in each round, as soon as
 * the folio before it is unmapped, or a little later.
 */
static struct {
	/* The entry in pagemap of each folio before the round. */
	uint64_t entries[TOUCHED_FOLIOS];
	/* The last round that was asked for, whose migration is over, and that is done. */
	long requested;
	long moved;
	long done;
} toucher;

#define TOUCHED_SIZE	(1 * MIB)

static int pagemap;

/* The entry in pagemap of the first page of a folio; 0 if there is none. */
static uint64_t folio_entry(long folio)
{
	size_t page = (uintptr_t)(addr + folio * TOUCHED_SIZE) / memory_page_size();
	uint64_t entry;

	return pread(pagemap, &entry, sizeof(entry), page * sizeof(entry)) > 0 ? entry : 0;
}

/* In the first eighth of the folio: the kernel clears long after it has looked there. */
static long *touched_word(long round, long folio)
{
	size_t page = (round * 7919 + folio * 104729) % (TOUCHED_SIZE / memory_page_size() / 8);

	return (long *)(addr + folio * TOUCHED_SIZE + page * memory_page_size());
}

static long thread_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

static void *touch(void *arg)
{
	long delay = 0, faults = thread_faults();

	run_on_last_cpu();
	for (long round = 1; ; round++) {
		while (__atomic_load_n(&toucher.requested, __ATOMIC_ACQUIRE) < round)
			;
		if (!addr)
			return NULL;
		for (long folio = 1; folio < TOUCHED_FOLIOS; folio += 2) {
			long seen, before = faults;
			bool waited = false;

			while (folio_entry(folio - 1) == toucher.entries[folio - 1] &&
			       __atomic_load_n(&toucher.moved, __ATOMIC_ACQUIRE) < round)
				waited = true;
			seen = nanoseconds_now();
			while (nanoseconds_now() < seen + delay)
				;
			__atomic_store_n(touched_word(round, folio), round, __ATOMIC_RELAXED);
			/* A store that comes too late faults: half of them should. */
			faults = thread_faults();
			if (waited)
				delay += faults == before ? TOUCH_STEP_NS : -TOUCH_STEP_NS;
		}
		__atomic_store_n(&toucher.done, round, __ATOMIC_RELEASE);
	}
}

/*
 * A thread writes to a page while the kernel unmaps its folio, now and then between the
 * kernel's look at the PTE and the clear. The folio was clean: if the kernel loses the
 * dirty bit, reclaim drops what was written.
 */
TEST(written_while_unmapped)
{
	long round, end = nanoseconds_now() + TOUCH_SECONDS * 1000000000L;
	const size_t size = TOUCHED_SIZE;
	size_t lost = 0, stayed = 0;

	if (!begin_on_two_cpus(_metadata, size))
		return;
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	ASSERT_LE(0, pagemap);
	ASSERT_EQ(0, pthread_create(&thread, NULL, touch, NULL));

	len = TOUCHED_FOLIOS * size;
	for (round = 1; round <= TOUCH_ROUNDS && nanoseconds_now() < end; round++) {
		addr = memory_map_aligned(len, PMD_SIZE);
		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, madvise(addr, len, MADV_HUGEPAGE));
		ASSERT_EQ(0, memory_bind(nodes[0]));
		for (size_t i = 0; i < len; i += size)
			addr[i] = 1;
		ASSERT_EQ(0, memory_bind(-1));
		ASSERT_TRUE(memory_folios_are(addr, len, size));
		ASSERT_EQ(0, madvise(addr, len, MADV_FREE));
		for (long folio = 0; folio < TOUCHED_FOLIOS; folio++)
			toucher.entries[folio] = folio_entry(folio);
		__atomic_store_n(&toucher.requested, round, __ATOMIC_RELEASE);
		stayed += move_all(size, nodes[1]);
		__atomic_store_n(&toucher.moved, round, __ATOMIC_RELEASE);
		while (__atomic_load_n(&toucher.done, __ATOMIC_ACQUIRE) < round)
			;
		ASSERT_EQ(0, madvise(addr, len, MADV_PAGEOUT));
		for (long folio = 1; folio < TOUCHED_FOLIOS; folio += 2)
			lost += *touched_word(round, folio) != round;
		munmap(addr, len);
	}
	addr = NULL;
	__atomic_store_n(&toucher.requested, round, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	settings_restore();
	EXPECT_EQ(0, lost) TH_LOG("in %ld rounds", round - 1);
	/* Now and then another task has a reference to a folio. */
	EXPECT_GE(round / 10 + 1, stayed);
}

#define SPLIT_FOLIOS	64
#define SPLIT_TRIES	100
#define SPLIT_SECONDS	15
#define SPLIT_ENOUGH	3

/* A frame, or MEMORY_NO_PFN. */
static uint64_t looked_at;

/* Takes references to the folio at a frame, for a moment each. */
static void *look_at_folio(void *arg)
{
	int fd = open(IDLE_BITMAP, O_RDONLY);
	uint64_t now, word;

	run_on_last_cpu();
	do {
		now = __atomic_load_n(&looked_at, __ATOMIC_ACQUIRE);
	} while (now != MEMORY_NO_PFN &&
		 pread(fd, &word, sizeof(word), now / 64 * sizeof(word)) >= 0);
	if (fd >= 0)
		close(fd);
	return NULL;
}

/*
 * Splits folios one by one, all of which a child maps but for the last page. Returns how
 * many splits failed after they had unmapped the folio, and kept it as it was.
 */
static long split_while_looked_at(void)
{
	long failed = 0;

	for (int i = 0; i < SPLIT_FOLIOS; i++) {
		struct counts before = read_counts(PMD_SIZE);
		long unmapped = setting_find_number("/proc/vmstat", "thp_split_pmd ");
		bool tried = false;

		__atomic_store_n(&looked_at, memory_pfn(addr + i * PMD_SIZE), __ATOMIC_RELEASE);
		for (int j = 0; j < SPLIT_TRIES && !tried; j++) {
			if (memory_split(addr + i * PMD_SIZE, memory_page_size()))
				return -1;
			tried = unmapped != setting_find_number("/proc/vmstat", "thp_split_pmd ");
		}
		if (!tried || read_counts(PMD_SIZE).split != before.split)
			continue;
		failed++;
		check_counts(PMD_SIZE, &before);
	}
	return failed;
}

/* In the child. Returns how many it could not unmap. */
static size_t unmap_last_pages(void)
{
	size_t failed = 0;

	for (size_t i = PMD_SIZE; i <= len; i += PMD_SIZE)
		failed += !!munmap(addr + i - memory_page_size(), memory_page_size());
	return failed;
}

/*
 * A split that fails leaves a folio as it was: not queued, though another process maps
 * all of it but one page. Nothing pauses a split half way, so no entry is zapped then:
 * that such a folio is queued is known from reading only.
 */
TEST(split_that_fails)
{
	long failed = 0, more, end = nanoseconds_now() + SPLIT_SECONDS * 1000000000L;
	const size_t page = memory_page_size();
	struct child child;

	if (!begin_on_two_cpus(_metadata, PMD_SIZE))
		return;
	if (access(IDLE_BITMAP, R_OK) || access(SPLIT_PAGES, W_OK))
		SKIP(return, "needs idle page tracking and debugfs");
	ASSERT_EQ(0, pthread_create(&thread, NULL, look_at_folio, NULL));

	len = SPLIT_FOLIOS * PMD_SIZE;
	while (failed < SPLIT_ENOUGH && nanoseconds_now() < end) {
		addr = memory_map_aligned(len, PMD_SIZE);
		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, madvise(addr, len, MADV_HUGEPAGE));
		for (size_t i = 0; i < len; i += page)
			addr[i] = 1;
		ASSERT_TRUE(memory_folios_are(addr, len, PMD_SIZE));
		fork_child(&child, unmap_last_pages);
		EXPECT_EQ(0, ask_child(&child));
		more = split_while_looked_at();
		EXPECT_LE(0, more);
		failed += more;
		end_process(child.pid);
		munmap(addr, len);
	}
	__atomic_store_n(&looked_at, MEMORY_NO_PFN, __ATOMIC_RELEASE);
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
	int held[2], err;
	char *copy;

	if (!getenv("MIG_POISON"))
		SKIP(return, "poisons memory for good: set MIG_POISON=1");
	if (size <= bad)
		SKIP(return, "no folios of this size");
	if (!test_begin(_metadata) || !map_folios(size, 1, false))
		return;
	copy = malloc(size);
	ASSERT_NE(NULL, copy);
	memory_stamp(copy, size, SEED);
	settings_restore();

	hold(held, addr, 1, 1);
	ASSERT_NE(SIG_ERR, signal(SIGBUS, on_sigbus));
	err = poison_page(addr + bad);
	if (err == -EINVAL || err == -EPERM)
		SKIP(return, "no pages can be poisoned");
	ASSERT_EQ(0, err);
	ASSERT_TRUE(memory_folios_are(addr, size, size));
	let_go(held);

	EXPECT_EQ(0, move_all(size, nodes[1]));
	EXPECT_TRUE(read_has_sigbus(addr + bad));
	/* All the others are there, and on the other node. */
	EXPECT_EQ(0, memory_pages_not_on(addr, bad, nodes[1]));
	EXPECT_EQ(0, memory_pages_not_on(addr + bad + page, size - bad - page, nodes[1]));
	memcpy(copy, addr, bad);
	memcpy(copy + bad + page, addr + bad + page, size - bad - page);
	EXPECT_EQ(0, memory_verify(copy, size, SEED));
	free(copy);
	munmap(addr, size);
}

TEST_HARNESS_MAIN
