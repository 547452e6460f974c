// SPDX-License-Identifier: GPL-2.0
/*
 * Callers of move_pages(2) know nothing of folios: they name any pages, in any order,
 * some of them twice. The status of each address is the node that it was moved to, or
 * why it was not, and a large folio migrates once, whatever number of its pages is named.
 */
#include "folios.h"

#define TIMEOUT		120
#define EVENT		"mm_migrate_pages"
#define EVENT_ENABLE	TRACE_DIR "/events/migrate/" EVENT "/enable"
#define EVENT_PID	TRACE_DIR "/set_event_pid"
#define FOLIOS		4
#define MAX_NAMED	4096
#define NOT_STORED	(-1000)
#define SPLIT_ROUNDS	30
#define SPLIT_SECONDS	4

/* See shift_folios() and straddle_folios(). */
enum layout { PLAIN, STRADDLED, SHIFTED };

FIXTURE(migrate_addresses) { };

static size_t page_size, per_folio;
static pid_t child;

/* The arguments of the next call of move_pages(2), and how many addresses the last one got. */
static size_t nr, nr_moved;
static void *pages[MAX_NAMED];
static int targets[MAX_NAMED];
static int status[MAX_NAMED];

FIXTURE_VARIANT(migrate_addresses) { size_t folio_size; enum layout layout; };
FIXTURE_VARIANT_ADD(migrate_addresses, plain_16k) { 16 * KIB, PLAIN };
FIXTURE_VARIANT_ADD(migrate_addresses, plain_64k) { 64 * KIB, PLAIN };
FIXTURE_VARIANT_ADD(migrate_addresses, plain_1m) { 1 * MIB, PLAIN };
FIXTURE_VARIANT_ADD(migrate_addresses, plain_2m) { PMD_SIZE, PLAIN };
FIXTURE_VARIANT_ADD(migrate_addresses, straddled_64k) { 64 * KIB, STRADDLED };
FIXTURE_VARIANT_ADD(migrate_addresses, shifted_1m) { 1 * MIB, SHIFTED };

static void __attribute__((constructor)) save_settings(void)
{
	setting_save(EVENT_ENABLE);
	setting_save(TRACE_DIR "/tracing_on");
}

FIXTURE_SETUP(migrate_addresses)
{
	if (!test_begin(_metadata) || !map_folios(variant->folio_size, FOLIOS, false))
		return;
	page_size = memory_page_size();
	per_folio = variant->folio_size / page_size;
	if (variant->layout == SHIFTED)
		shift_folios();
	else if (variant->layout == STRADDLED)
		straddle_folios(variant->folio_size);
}

FIXTURE_TEARDOWN(migrate_addresses)
{
	end_process(child);
	setting_write(EVENT_PID, "\n");
	unmap_folios();
}

static char *page_of(size_t folio, size_t page)
{
	return addr + (folio * per_folio + page) * page_size;
}

static void name(char *addr, int node)
{
	if (nr == MAX_NAMED)
		exit(KSFT_FAIL);
	pages[nr] = addr;
	targets[nr] = node;
	status[nr++] = NOT_STORED;
}

static void name_all(int node)
{
	for (size_t i = 0; i < FOLIOS * per_folio; i++)
		name(page_of(0, i), node);
}

/* Moves what was named, and forgets it: only the status is left. */
static long move(int flags)
{
	long ret = syscall(__NR_move_pages, 0, nr, pages, targets, status, flags);

	nr_moved = nr;
	nr = 0;
	return ret < 0 ? -errno : ret;
}

/* How many addresses of the last call have a status. */
static size_t count(int expected)
{
	size_t matches = 0;

	for (size_t i = 0; i < nr_moved; i++)
		matches += status[i] == expected;
	return matches;
}

/* Moves what was named, all of which goes where it should. */
static void move_named(int flags)
{
	size_t misplaced = 0;

	ASSERT_EQ(0, move(flags));
	for (size_t i = 0; i < nr_moved; i++)
		misplaced += status[i] != targets[i];
	EXPECT_EQ(0, misplaced);
}

/* Names each page of each folio, all of which arrive. */
static void move_all(int node, int flags)
{
	name_all(node);
	move_named(flags);
	EXPECT_EQ(0, memory_pages_not_on(addr, len, node));
}

static bool count_calls(void)
{
	return !setting_write(TRACE_DIR "/tracing_on", "1") &&
	       !setting_write_number(EVENT_PID, getpid()) &&
	       !setting_write(EVENT_ENABLE, "1") && !setting_write(TRACE_DIR "/trace", "\n");
}

/* How often the kernel has migrated a list of folios since count_calls(); -1: not known. */
static long calls(void)
{
	setting_write(EVENT_ENABLE, "0");
	return setting_count_lines(TRACE_DIR "/trace", " " EVENT ":");
}

TEST_F_TIMEOUT(migrate_addresses, every_page, TIMEOUT)
{
	move_all(nodes[1], MPOL_MF_MOVE);
	EXPECT_EQ(FOLIOS, memory_folios(addr, len));
	EXPECT_EQ(0, bytes_wrong());
}

TEST_F_TIMEOUT(migrate_addresses, all_folios_in_one_batch, TIMEOUT)
{
	if (!count_calls())
		SKIP(return, "no tracefs in " TRACE_DIR);
	name_all(nodes[1]);
	ASSERT_EQ(0, move(MPOL_MF_MOVE));
	EXPECT_EQ(1, calls());
}

/* Some pages, none of them a folio's first, and backwards. */
TEST_F_TIMEOUT(migrate_addresses, named_in_part, TIMEOUT)
{
	for (size_t i = 0; i < FOLIOS; i++)
		for (size_t page = per_folio - 1; page > 0; page -= 1 + page / 2)
			name(page_of(i, page), nodes[1]);
	move_named(MPOL_MF_MOVE);
	EXPECT_EQ(0, memory_pages_not_on(addr, len, nodes[1]));
	EXPECT_EQ(FOLIOS, memory_folios(addr, len));
	EXPECT_EQ(0, bytes_wrong());
}

/* A folio goes where each address says, one after another. */
TEST_F_TIMEOUT(migrate_addresses, nodes_differ_within_a_folio, TIMEOUT)
{
	for (size_t i = 0; i < 8; i++)
		name(page_of(0, i / 2), nodes[1 - i % 2]);
	/* Runs of pages in a row, for one node each. */
	for (size_t i = 0; i < 4; i++)
		name(page_of(1, i), nodes[1 - i / 2]);
	for (size_t i = 0; i < 4; i++)
		name(page_of(2, i), nodes[1 - i % 2]);
	name(page_of(3, 0), nodes[1]);
	move_named(MPOL_MF_MOVE);
	EXPECT_EQ(0, memory_pages_not_on(page_of(0, 0), 3 * variant->folio_size, nodes[0]));
	EXPECT_EQ(0, memory_pages_not_on(page_of(3, 0), variant->folio_size, nodes[1]));
	EXPECT_EQ(0, bytes_wrong());
}

/* In a row, in turns, and a page that is small. */
TEST_F_TIMEOUT(migrate_addresses, given_twice, TIMEOUT)
{
	char *small = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	ASSERT_NE(MAP_FAILED, small);
	ASSERT_EQ(0, memory_bind(nodes[0]));
	small[0] = 1;
	ASSERT_EQ(0, memory_bind(-1));

	for (size_t i = 0; i < 4; i++)
		name(i < 2 ? page_of(0, 1) : small, nodes[1]);
	for (size_t i = 0; i < 4; i++)
		for (size_t folio = 1; folio < FOLIOS; folio++)
			name(page_of(folio, i), nodes[1]);
	name(small, nodes[1]);
	name(page_of(0, 0), nodes[1]);
	move_named(MPOL_MF_MOVE);
	EXPECT_EQ(0, memory_pages_not_on(addr, len, nodes[1]));
	EXPECT_EQ(0, memory_pages_not_on(small, page_size, nodes[1]));
	EXPECT_EQ(0, bytes_wrong());
	munmap(small, page_size);
}

/* Addresses without a page among those of a folio, and between folios. */
TEST_F_TIMEOUT(migrate_addresses, holes, TIMEOUT)
{
	char *dropped = page_of(1, 2), *unmapped = page_of(2, 0);

	ASSERT_EQ(0, madvise(dropped, page_size, MADV_DONTNEED));
	ASSERT_EQ(0, munmap(unmapped, page_size));
	name_all(nodes[1]);
	ASSERT_EQ(0, move(MPOL_MF_MOVE));
	EXPECT_EQ(-ENOENT, status[per_folio + 2]);
	EXPECT_EQ(-EFAULT, status[2 * per_folio]);
	EXPECT_EQ(nr_moved - 2, count(nodes[1]));
	EXPECT_EQ(2, memory_pages_not_on(addr, len, nodes[1]));
}

/* A page that was copied when it was written to is mapped amid a folio's others. */
TEST_F_TIMEOUT(migrate_addresses, copied_on_write_among_them, TIMEOUT)
{
	uint64_t *word = (uint64_t *)page_of(0, 1);
	bool counted;

	ASSERT_EQ(0, memory_bind(nodes[0]));
	child = fork_idle();
	ASSERT_GT(child, 0);
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	ASSERT_EQ(0, memory_bind(-1));
	ASSERT_NE(memory_pfn(page_of(0, 0)) + 1, memory_pfn(page_of(0, 1)));

	name_all(nodes[1]);
	ASSERT_EQ(0, move(MPOL_MF_MOVE));
	EXPECT_EQ(nr_moved - 1, count(-EACCES));
	EXPECT_EQ(nodes[1], status[1]);

	name(page_of(0, 1), nodes[0]);
	ASSERT_EQ(0, move(MPOL_MF_MOVE));
	counted = count_calls();
	move_all(nodes[1], MPOL_MF_MOVE_ALL);
	if (counted)
		EXPECT_EQ(1, calls());
	EXPECT_EQ(0, bytes_wrong());
}

/* A pipe holds one of several folios: that one stays, and counts once. */
TEST_F_TIMEOUT(migrate_addresses, one_cannot_move, TIMEOUT)
{
	size_t size = variant->folio_size;
	int held[2];

	hold(held, page_of(1, 1), 1, 1);
	name_all(nodes[1]);
	EXPECT_EQ(1, move(MPOL_MF_MOVE));
	EXPECT_EQ(nr_moved - per_folio, count(nodes[1]));
	for (size_t i = 0; i < per_folio; i++)
		EXPECT_EQ(nodes[0], status[per_folio + i]);
	EXPECT_EQ(0, memory_pages_not_on(page_of(0, 0), size, nodes[1]));
	EXPECT_EQ(0, memory_pages_not_on(page_of(1, 0), size, nodes[0]));
	EXPECT_EQ(0, memory_pages_not_on(page_of(2, 0), 2 * size, nodes[1]));
	let_go(held);

	move_all(nodes[1], MPOL_MF_MOVE);
	EXPECT_EQ(FOLIOS, memory_folios(addr, len));
	EXPECT_EQ(0, bytes_wrong());
}

static bool splitting_stops;

static void *split_all(void *arg)
{
	while (!__atomic_load_n(&splitting_stops, __ATOMIC_ACQUIRE)) {
		memory_split(addr, len);
		usleep(100);
	}
	return NULL;
}

/* Folios become small ones while they are looked up and moved, there and back. */
TEST_F_TIMEOUT(migrate_addresses, split_meanwhile, TIMEOUT)
{
	double end = seconds_now() + SPLIT_SECONDS;
	pthread_t thread;
	size_t odd = 0;

	if (access(SPLIT_PAGES, W_OK))
		SKIP(return, "needs debugfs");
	for (int round = 0; round < SPLIT_ROUNDS && seconds_now() < end; round++) {
		splitting_stops = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, split_all, NULL));
		for (int i = 0; i < 4; i++) {
			int node = nodes[1 - i % 2];
			long ret;

			name_all(node);
			ret = move(MPOL_MF_MOVE);
			ASSERT_LE(0, ret);
			/* The other thread may have isolated or unmapped any of them. */
			if (!ret)
				odd += nr_moved - count(node) - count(-EBUSY) - count(-ENOENT);
		}
		__atomic_store_n(&splitting_stops, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		move_all(nodes[1], MPOL_MF_MOVE);
		ASSERT_EQ(0, bytes_wrong());
		munmap(addr, len);
		addr = memory_map_aligned(len, PMD_SIZE);
		ASSERT_NE(NULL, addr);
		ASSERT_EQ(0, memory_fill(addr, len, variant->folio_size, nodes[0], SEED));
	}
	EXPECT_EQ(0, odd);
}

TEST_HARNESS_MAIN
