// SPDX-License-Identifier: GPL-2.0
/*
 * How a process is flushed whose translations only this CPU has: each page by itself, or, if
 * a batch has the 32 pages from which on that is cheaper, all at once. Pages that have a flush
 * of their own are none of the 32.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

#define TIMEOUT		60
#define TRACE_DIR	"/sys/kernel/tracing"
#define TRACING_ON	TRACE_DIR "/tracing_on"
#define EVENT_ENABLE	TRACE_DIR "/events/tlb/tlb_flush/enable"
#define EVENT_PID	TRACE_DIR "/set_event_pid"
#define BATCH_PAGES	"/sys/module/migrate/parameters/batch_pages"
#define SEED		31
#define ROUNDS		4
/* From so many pages on, none is flushed by itself. */
#define CEILING		32
#define FEW		16
#define MANY		(2 * CEILING)

FIXTURE(migrate_flushes)
{
	size_t page;
	int from;
	int to;
	void *pages[MANY];
	int status[MANY];
	/* Flushes of single pages and of everything, in the round with the fewest. */
	long single;
	long full;
};

static void __attribute__((constructor)) prepare(void)
{
	/* All tests are children of this process: their memory is known to one CPU only. */
	run_on_cpus(0, 0);
	setting_save(EVENT_ENABLE);
	setting_save(TRACING_ON);
	setting_save(BATCH_PAGES);
	memory_settings_save();
}

FIXTURE_SETUP(migrate_flushes)
{
	settings_restore();
	if (!memory_two_nodes(&self->from, &self->to))
		SKIP(return, "needs two nodes with memory");
	if (setting_write_number(EVENT_PID, getpid()) || setting_write(EVENT_ENABLE, "1"))
		SKIP(return, "needs tracefs and the event tlb_flush, which is x86's");
	if (!system("grep -qw invlpgb /proc/cpuinfo"))
		SKIP(return, "INVLPGB flushes all CPUs at once, and nothing is deferred");
	numa_balancing_off();
	ASSERT_EQ(0, thp_only(memory_page_size()));
	self->page = memory_page_size();
}

FIXTURE_TEARDOWN(migrate_flushes)
{
	setting_write(EVENT_PID, "\n");
	settings_restore();
}

static char *pages_on(FIXTURE_DATA(migrate_flushes) *self, size_t nr)
{
	char *addr = memory_map_aligned(nr * self->page, PMD_SIZE);

	if (!addr || memory_fill(addr, nr * self->page, self->page, self->from, SEED))
		exit(KSFT_FAIL);
	return addr;
}

/* Names @nr pages from @addr on, behind @at others. */
static void name(FIXTURE_DATA(migrate_flushes) *self, size_t at, char *addr, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		self->pages[at + i] = addr + i * self->page;
}

/* Counts the flushes in the trace, and keeps the counts if they are lower. */
static void count(FIXTURE_DATA(migrate_flushes) *self)
{
	FILE *trace = fopen(TRACE_DIR "/trace", "r");
	long single = 0, full = 0;
	char line[512];

	if (!trace)
		exit(KSFT_FAIL);
	while (fgets(line, sizeof(line), trace)) {
		const char *event = strstr(line, "tlb_flush: ");
		long pages;

		if (!event || sscanf(event, "tlb_flush: pages:%ld", &pages) != 1 ||
		    !strstr(event, "shootdown"))
			continue;
		if (pages == 1)
			single++;
		else
			full++;
	}
	fclose(trace);
	if (single < self->single)
		self->single = single;
	if (full < self->full)
		self->full = full;
}

/*
 * Moves the first @nr named pages there and back, and counts the flushes of each round. A
 * round may have one more: a child's first write to a page of its stack flushes as well, and a
 * page that is tried again does. None has one less.
 */
static long move(FIXTURE_DATA(migrate_flushes) *self, size_t nr)
{
	int nodes[MANY];
	long ret = 0;

	self->single = LONG_MAX;
	self->full = LONG_MAX;
	for (size_t round = 0; round < ROUNDS && !ret; round++) {
		for (size_t i = 0; i < nr; i++)
			nodes[i] = round % 2 ? self->from : self->to;
		setting_write(TRACING_ON, "1");
		setting_write(TRACE_DIR "/trace", "\n");
		ret = syscall(__NR_move_pages, 0, nr, self->pages, nodes, self->status,
			      MPOL_MF_MOVE);
		/* To disable the event would patch code, which flushes as well. */
		setting_write(TRACING_ON, "0");
		count(self);
	}
	return ret;
}

TEST_F_TIMEOUT(migrate_flushes, few, TIMEOUT)
{
	name(self, 0, pages_on(self, FEW), FEW);
	ASSERT_EQ(0, move(self, FEW));
	EXPECT_EQ(FEW, self->single);
	EXPECT_EQ(0, self->full);
}

TEST_F_TIMEOUT(migrate_flushes, many, TIMEOUT)
{
	name(self, 0, pages_on(self, MANY), MANY);
	ASSERT_EQ(0, move(self, MANY));
	EXPECT_EQ(0, self->single);
	EXPECT_EQ(1, self->full);
}

/* Folios that a PMD maps are flushed alone. */
TEST_F_TIMEOUT(migrate_flushes, behind_a_pmd, TIMEOUT)
{
	char *huge = memory_map_aligned(PMD_SIZE, PMD_SIZE);

	if (setting_write_number(BATCH_PAGES, 2 * PMD_SIZE / self->page))
		SKIP(return, "nothing is behind a PMD: needs " BATCH_PAGES);
	if (thp_only(PMD_SIZE))
		SKIP(return, "needs transparent huge pages");
	ASSERT_NE(NULL, huge);
	ASSERT_EQ(0, memory_fill(huge, PMD_SIZE, PMD_SIZE, self->from, SEED));
	ASSERT_TRUE(memory_folios_are(huge, PMD_SIZE, PMD_SIZE));
	name(self, 0, huge, 1);
	name(self, 1, pages_on(self, FEW), FEW);
	ASSERT_EQ(0, move(self, 1 + FEW));
	EXPECT_EQ(FEW, self->single);
	/* That of the PMD. */
	EXPECT_EQ(1, self->full);
	EXPECT_EQ(0, memory_verify(huge, PMD_SIZE, SEED));
}

TEST_HARNESS_MAIN
