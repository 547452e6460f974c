// SPDX-License-Identifier: GPL-2.0
/*
 * How a process is flushed whose translations only this CPU has: each page by itself, or, if
 * a batch has the 32 pages from which on that is cheaper, all at once. Pages that have a flush
 * of their own are none of the 32.
 */
#include "folios.h"

#define TIMEOUT		60
#define TRACING_ON	TRACE_DIR "/tracing_on"
#define EVENT_ENABLE	TRACE_DIR "/events/tlb/tlb_flush/enable"
#define EVENT_PID	TRACE_DIR "/set_event_pid"
#define BATCH_PAGES	"/sys/module/migrate/parameters/batch_pages"
/* For how long a batch may take, if that has a bound: pages of a slow host would be few. */
#define BOUND		"/sys/kernel/mm/migrate_offload/max_inaccessible_us"
#define ROUNDS		4
/* From this number of pages on, none is flushed by itself. */
#define CEILING		32
#define FEW		16
#define MANY		(2 * CEILING)

FIXTURE(migrate_flushes) { };

static size_t page_size;
static void *pages[MANY];
/* Flushes of single pages and of everything, in the round with the fewest. */
static long fewest_single, fewest_full;

static void __attribute__((constructor)) prepare(void)
{
	/* All tests are children of this process: their memory is known to one CPU only. */
	run_on_cpus(0, 0);
	setting_save(EVENT_ENABLE);
	setting_save(TRACING_ON);
	setting_save(BATCH_PAGES);
	setting_save(BOUND);
}

FIXTURE_SETUP(migrate_flushes)
{
	if (!test_begin(_metadata))
		return;
	if (setting_write_number(EVENT_PID, getpid()) || setting_write(EVENT_ENABLE, "1"))
		SKIP(return, "needs tracefs and the event tlb_flush, which is x86's");
	if (!system("grep -qw invlpgb /proc/cpuinfo"))
		SKIP(return, "INVLPGB flushes all CPUs at once, and nothing is deferred");
	page_size = memory_page_size();
	setting_write_number(BOUND, 0);
	ASSERT_EQ(0, thp_only(page_size));
}

FIXTURE_TEARDOWN(migrate_flushes)
{
	setting_write(EVENT_PID, "\n");
	settings_restore();
}

/* Names @nr new pages, behind @at others. */
static void name_pages(size_t at, size_t nr)
{
	char *addr = memory_map_aligned(nr * page_size, PMD_SIZE);

	ASSERT_NE(NULL, addr);
	ASSERT_EQ(0, memory_fill(addr, nr * page_size, page_size, nodes[0], SEED));
	for (size_t i = 0; i < nr; i++)
		pages[at + i] = addr + i * page_size;
}

/* Counts the flushes in the trace, and keeps the counts if they are lower. */
static void count(void)
{
	FILE *trace = fopen(TRACE_DIR "/trace", "r");
	long single = 0, full = 0;
	char line[512];

	ASSERT_NE(NULL, trace);
	while (fgets(line, sizeof(line), trace)) {
		const char *event = strstr(line, "tlb_flush: ");
		long pages;

		if (!event || sscanf(event, "tlb_flush: pages:%ld", &pages) != 1 ||
		    !strstr(event, "shootdown"))
			continue;
		single += pages == 1;
		full += pages != 1;
	}
	fclose(trace);
	fewest_single = single < fewest_single ? single : fewest_single;
	fewest_full = full < fewest_full ? full : fewest_full;
}

/*
 * Moves the first @nr named pages there and back, and counts the flushes of each round. A
 * round may have one more: a child's first write to a page of its stack flushes as well, and a
 * page that is tried again does. None has one less.
 */
static long move(size_t nr)
{
	int targets[MANY], status[MANY];
	long ret = 0;

	fewest_single = LONG_MAX;
	fewest_full = LONG_MAX;
	for (size_t round = 0; round < ROUNDS && !ret; round++) {
		for (size_t i = 0; i < nr; i++)
			targets[i] = nodes[1 - round % 2];
		setting_write(TRACING_ON, "1");
		setting_write(TRACE_DIR "/trace", "\n");
		ret = syscall(__NR_move_pages, 0, nr, pages, targets, status, MPOL_MF_MOVE);
		/* To disable the event would patch code, which flushes as well. */
		setting_write(TRACING_ON, "0");
		count();
	}
	return ret;
}

TEST_F_TIMEOUT(migrate_flushes, few, TIMEOUT)
{
	name_pages(0, FEW);
	ASSERT_EQ(0, move(FEW));
	EXPECT_EQ(FEW, fewest_single);
	EXPECT_EQ(0, fewest_full);
}

TEST_F_TIMEOUT(migrate_flushes, many, TIMEOUT)
{
	name_pages(0, MANY);
	ASSERT_EQ(0, move(MANY));
	EXPECT_EQ(0, fewest_single);
	EXPECT_EQ(1, fewest_full);
}

/* Folios that a PMD maps are flushed alone. */
TEST_F_TIMEOUT(migrate_flushes, behind_a_pmd, TIMEOUT)
{
	if (setting_write_number(BATCH_PAGES, 2 * PMD_SIZE / page_size))
		SKIP(return, "nothing is behind a PMD: needs " BATCH_PAGES);
	if (!map_folios(PMD_SIZE, 1, false))
		return;
	pages[0] = addr;
	name_pages(1, FEW);
	ASSERT_EQ(0, move(1 + FEW));
	EXPECT_EQ(FEW, fewest_single);
	/* That of the PMD. */
	EXPECT_EQ(1, fewest_full);
	EXPECT_EQ(0, bytes_wrong());
}

TEST_HARNESS_MAIN
