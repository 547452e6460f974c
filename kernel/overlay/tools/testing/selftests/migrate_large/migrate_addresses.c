// SPDX-License-Identifier: GPL-2.0
/*
 * Callers of move_pages(2) know nothing of folios: they name any pages, in any order,
 * some of them twice. The status of each address is the node that it was moved to, or
 * why it was not, and a large folio migrates once, whatever number of its pages is named.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

#define TIMEOUT		120
#define TRACE_DIR	"/sys/kernel/tracing"
#define EVENT		"mm_migrate_pages"
#define EVENT_ENABLE	TRACE_DIR "/events/migrate/" EVENT "/enable"
#define EVENT_PID	TRACE_DIR "/set_event_pid"
#define FOLIOS		4
#define SEED		23
#define MAX_NAMED	4096
#define NOT_STORED	(-1000)
#define SPLIT_ROUNDS	30
#define SPLIT_SECONDS	4

enum layout {
	PLAIN,
	/* The last quarter of each folio belongs to another VMA. */
	STRADDLED,
	/* Each folio is mapped one page behind its natural place. */
	SHIFTED,
};

FIXTURE(migrate_addresses)
{
	char *addr;
	size_t len;
	size_t page;
	size_t per_folio;
	int from;
	int to;
	pid_t child;
	/* What the next call of move_pages(2) gets. */
	size_t nr;
	void *pages[MAX_NAMED];
	int nodes[MAX_NAMED];
	int status[MAX_NAMED];
};

FIXTURE_VARIANT(migrate_addresses)
{
	size_t folio_size;
	enum layout layout;
};

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
	memory_settings_save();
}

static bool shift_by_one_page(FIXTURE_DATA(migrate_addresses) *self)
{
	char *room = memory_map_aligned(self->len + PMD_SIZE, PMD_SIZE);
	char *to = room + self->page;

	if (!room || munmap(room, self->len + PMD_SIZE))
		return false;
	if (mremap(self->addr, self->len, self->len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to)
		return false;
	self->addr = to;
	return true;
}

FIXTURE_SETUP(migrate_addresses)
{
	size_t size = variant->folio_size, quarter = size / 4;
	char path[128];

	settings_restore();
	if (!memory_two_nodes(&self->from, &self->to))
		SKIP(return, "needs two nodes with memory");
	snprintf(path, sizeof(path), THP_DIR "/hugepages-%zukB/enabled", size / KIB);
	if (access(path, W_OK))
		SKIP(return, "no folios of this size");

	numa_balancing_off();
	ASSERT_EQ(0, thp_only(size));
	self->page = memory_page_size();
	self->per_folio = size / self->page;
	self->len = FOLIOS * size;
	self->addr = memory_map_aligned(self->len, PMD_SIZE);
	ASSERT_NE(NULL, self->addr);
	ASSERT_EQ(0, memory_fill(self->addr, self->len, size, self->from, SEED));
	ASSERT_TRUE(memory_folios_are(self->addr, self->len, size));
	if (variant->layout == SHIFTED)
		ASSERT_TRUE(shift_by_one_page(self));
	for (size_t i = 0; variant->layout == STRADDLED && i < self->len; i += size)
		ASSERT_EQ(0, mprotect(self->addr + i + size - quarter, quarter, PROT_READ));
}

FIXTURE_TEARDOWN(migrate_addresses)
{
	if (self->child > 0) {
		kill(self->child, SIGKILL);
		waitpid(self->child, NULL, 0);
	}
	munmap(self->addr, self->len);
	setting_write(EVENT_PID, "\n");
	settings_restore();
}

static char *page_of(FIXTURE_DATA(migrate_addresses) *self, size_t folio, size_t page)
{
	return self->addr + (folio * self->per_folio + page) * self->page;
}

static void name(FIXTURE_DATA(migrate_addresses) *self, char *addr, int node)
{
	if (self->nr == MAX_NAMED)
		exit(KSFT_FAIL);
	self->pages[self->nr] = addr;
	self->nodes[self->nr] = node;
	self->status[self->nr++] = NOT_STORED;
}

static void name_all(FIXTURE_DATA(migrate_addresses) *self, size_t folio, int node)
{
	for (size_t i = 0; i < self->per_folio; i++)
		name(self, page_of(self, folio, i), node);
}

/* Moves what was named, and forgets it: only the status is left. */
static long move(FIXTURE_DATA(migrate_addresses) *self, int flags)
{
	long ret = syscall(__NR_move_pages, 0, self->nr, self->pages, self->nodes,
			   self->status, flags);

	self->nr = 0;
	return ret < 0 ? -errno : ret;
}

/* How many of the first @nr addresses of the last call were not moved to where they should. */
static size_t misplaced(FIXTURE_DATA(migrate_addresses) *self, size_t nr)
{
	size_t found = 0;

	for (size_t i = 0; i < nr; i++)
		found += self->status[i] != self->nodes[i];
	return found;
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
	FILE *trace = fopen(TRACE_DIR "/trace", "r");
	char line[512];
	long nr = 0;

	if (!trace)
		return -1;
	while (fgets(line, sizeof(line), trace))
		nr += !!strstr(line, " " EVENT ":");
	fclose(trace);
	setting_write(EVENT_ENABLE, "0");
	return nr;
}

static size_t bytes_wrong(FIXTURE_DATA(migrate_addresses) *self)
{
	return memory_verify(self->addr, self->len, SEED);
}

TEST_F_TIMEOUT(migrate_addresses, every_page, TIMEOUT)
{
	size_t nr = FOLIOS * self->per_folio;

	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(0, misplaced(self, nr));
	EXPECT_EQ(0, memory_pages_not_on(self->addr, self->len, self->to));
	EXPECT_EQ(FOLIOS, memory_folios(self->addr, self->len));
	EXPECT_EQ(0, bytes_wrong(self));
}

TEST_F_TIMEOUT(migrate_addresses, all_folios_in_one_batch, TIMEOUT)
{
	if (!count_calls())
		SKIP(return, "no tracefs in " TRACE_DIR);
	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(1, calls());
}

/* Some pages, none of them a folio's first, and backwards. */
TEST_F_TIMEOUT(migrate_addresses, named_in_part, TIMEOUT)
{
	size_t nr = 0;

	for (size_t i = 0; i < FOLIOS; i++)
		for (size_t page = self->per_folio - 1; page > 0; page -= 1 + page / 2, nr++)
			name(self, page_of(self, i, page), self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(0, misplaced(self, nr));
	EXPECT_EQ(0, memory_pages_not_on(self->addr, self->len, self->to));
	EXPECT_EQ(FOLIOS, memory_folios(self->addr, self->len));
	EXPECT_EQ(0, bytes_wrong(self));
}

/* A folio goes where each address says, one after another. */
TEST_F_TIMEOUT(migrate_addresses, nodes_differ_within_a_folio, TIMEOUT)
{
	const int nodes[] = { self->to, self->from };

	for (size_t i = 0; i < 8; i++)
		name(self, page_of(self, 0, i / 2), nodes[i % 2]);
	/* Runs of pages in a row, for one node each. */
	for (size_t i = 0; i < 4; i++)
		name(self, page_of(self, 1, i), nodes[i / 2]);
	for (size_t i = 0; i < 4; i++)
		name(self, page_of(self, 2, i), nodes[i % 2]);
	name(self, page_of(self, 3, 0), self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(0, misplaced(self, 17));
	EXPECT_EQ(0, memory_pages_not_on(page_of(self, 0, 0), 3 * variant->folio_size,
					 self->from));
	EXPECT_EQ(0, memory_pages_not_on(page_of(self, 3, 0), variant->folio_size, self->to));
	EXPECT_EQ(0, bytes_wrong(self));
}

/* In a row, in turns, and a page that is small. */
TEST_F_TIMEOUT(migrate_addresses, given_twice, TIMEOUT)
{
	char *small = mmap(NULL, self->page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t nr;

	ASSERT_NE(MAP_FAILED, small);
	ASSERT_EQ(0, memory_bind(self->from));
	small[0] = 1;
	ASSERT_EQ(0, memory_bind(-1));

	name(self, page_of(self, 0, 1), self->to);
	name(self, page_of(self, 0, 1), self->to);
	name(self, small, self->to);
	name(self, small, self->to);
	for (size_t i = 0; i < 4; i++)
		for (size_t folio = 1; folio < FOLIOS; folio++)
			name(self, page_of(self, folio, i), self->to);
	name(self, small, self->to);
	name(self, page_of(self, 0, 0), self->to);
	nr = self->nr;
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(0, misplaced(self, nr));
	EXPECT_EQ(0, memory_pages_not_on(self->addr, self->len, self->to));
	EXPECT_EQ(0, memory_pages_not_on(small, self->page, self->to));
	EXPECT_EQ(0, bytes_wrong(self));
	munmap(small, self->page);
}

/* Addresses without a page among those of a folio, and between folios. */
TEST_F_TIMEOUT(migrate_addresses, holes, TIMEOUT)
{
	size_t nr = FOLIOS * self->per_folio, wrong = 0;
	char *dropped = page_of(self, 1, 2), *unmapped = page_of(self, 2, 0);

	ASSERT_EQ(0, madvise(dropped, self->page, MADV_DONTNEED));
	ASSERT_EQ(0, munmap(unmapped, self->page));
	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	for (size_t i = 0; i < nr; i++) {
		int expected = self->to;

		if (self->pages[i] == dropped)
			expected = -ENOENT;
		if (self->pages[i] == unmapped)
			expected = -EFAULT;
		wrong += self->status[i] != expected;
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(2, memory_pages_not_on(self->addr, self->len, self->to));
}

/* A page that was copied when it was written to is mapped amid a folio's others. */
TEST_F_TIMEOUT(migrate_addresses, copied_on_write_among_them, TIMEOUT)
{
	size_t nr = FOLIOS * self->per_folio, denied = 0;
	uint64_t *word = (uint64_t *)page_of(self, 0, 1);
	bool counted;

	ASSERT_EQ(0, memory_bind(self->from));
	self->child = fork_idle();
	ASSERT_GT(self->child, 0);
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	ASSERT_EQ(0, memory_bind(-1));
	ASSERT_NE(memory_pfn(page_of(self, 0, 0)) + 1, memory_pfn(page_of(self, 0, 1)));

	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	for (size_t i = 0; i < nr; i++)
		denied += self->status[i] == -EACCES;
	EXPECT_EQ(nr - 1, denied);
	EXPECT_EQ(self->to, self->status[1]);

	name(self, page_of(self, 0, 1), self->from);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
	counted = count_calls();
	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	ASSERT_EQ(0, move(self, MPOL_MF_MOVE_ALL));
	EXPECT_EQ(0, misplaced(self, nr));
	EXPECT_EQ(0, memory_pages_not_on(self->addr, self->len, self->to));
	if (counted)
		EXPECT_EQ(1, calls());
	EXPECT_EQ(0, bytes_wrong(self));
}

/* Of several folios somebody else holds one: that one stays, and counts once. */
TEST_F_TIMEOUT(migrate_addresses, one_cannot_move, TIMEOUT)
{
	size_t size = variant->folio_size, nr = FOLIOS * self->per_folio;
	struct iovec vec = { .iov_base = page_of(self, 1, 1), .iov_len = 8 };
	int held[2];

	ASSERT_EQ(0, pipe(held));
	ASSERT_EQ(8, vmsplice(held[1], &vec, 1, 0));
	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	EXPECT_EQ(1, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(self->per_folio, misplaced(self, nr));
	for (size_t i = 0; i < self->per_folio; i++)
		EXPECT_EQ(self->from, self->status[self->per_folio + i]);
	EXPECT_EQ(0, memory_pages_not_on(page_of(self, 0, 0), size, self->to));
	EXPECT_EQ(0, memory_pages_not_on(page_of(self, 1, 0), size, self->from));
	EXPECT_EQ(0, memory_pages_not_on(page_of(self, 2, 0), 2 * size, self->to));
	close(held[0]);
	close(held[1]);

	for (size_t i = 0; i < FOLIOS; i++)
		name_all(self, i, self->to);
	EXPECT_EQ(0, move(self, MPOL_MF_MOVE));
	EXPECT_EQ(0, misplaced(self, nr));
	EXPECT_EQ(FOLIOS, memory_folios(self->addr, self->len));
	EXPECT_EQ(0, bytes_wrong(self));
}

struct splitter {
	const char *addr;
	size_t len;
	bool stops;
};

static void *split_all(void *arg)
{
	struct splitter *splitter = arg;

	while (!__atomic_load_n(&splitter->stops, __ATOMIC_ACQUIRE)) {
		memory_split(splitter->addr, splitter->len);
		usleep(100);
	}
	return NULL;
}

/* Folios become small ones while they are looked up and moved, there and back. */
TEST_F_TIMEOUT(migrate_addresses, split_meanwhile, TIMEOUT)
{
	size_t nr = FOLIOS * self->per_folio, odd = 0;
	double end = seconds_now() + SPLIT_SECONDS;
	struct splitter splitter = { .len = self->len };
	pthread_t thread;

	if (access(SPLIT_PAGES, W_OK))
		SKIP(return, "needs debugfs");
	for (int round = 0; round < SPLIT_ROUNDS && seconds_now() < end; round++) {
		splitter.addr = self->addr;
		splitter.stops = false;
		ASSERT_EQ(0, pthread_create(&thread, NULL, split_all, &splitter));
		for (int i = 0; i < 4; i++) {
			long ret;

			for (size_t folio = 0; folio < FOLIOS; folio++)
				name_all(self, folio, i % 2 ? self->from : self->to);
			ret = move(self, MPOL_MF_MOVE);
			ASSERT_LE(0, ret);
			/* The other thread may have isolated or unmapped any of them. */
			for (size_t j = 0; !ret && j < nr; j++)
				odd += self->status[j] != self->nodes[j] &&
				       self->status[j] != -EBUSY &&
				       self->status[j] != -ENOENT;
		}
		__atomic_store_n(&splitter.stops, true, __ATOMIC_RELEASE);
		pthread_join(thread, NULL);
		for (size_t folio = 0; folio < FOLIOS; folio++)
			name_all(self, folio, self->to);
		ASSERT_EQ(0, move(self, MPOL_MF_MOVE));
		ASSERT_EQ(0, misplaced(self, nr));
		ASSERT_EQ(0, memory_pages_not_on(self->addr, self->len, self->to));
		ASSERT_EQ(0, bytes_wrong(self));

		munmap(self->addr, self->len);
		self->addr = memory_map_aligned(self->len, PMD_SIZE);
		ASSERT_NE(NULL, self->addr);
		ASSERT_EQ(0, memory_fill(self->addr, self->len, variant->folio_size,
					 self->from, SEED));
	}
	EXPECT_EQ(0, odd);
}

TEST_HARNESS_MAIN
