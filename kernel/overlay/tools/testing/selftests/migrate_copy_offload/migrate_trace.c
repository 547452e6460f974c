// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of one move_pages(2), in their order: a batch starts, the TLB
 * is flushed, a migrator has copied, the folios are accessible again.
 */
#include <stdlib.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "offload.h"

#define TRACE_DIR	"/sys/kernel/tracing"
#define EVENT_DIR	TRACE_DIR "/events/migrate"
#define REASON		"syscall_or_cpuset"
#define PAGES		64
#define MAX_EVENTS	(4 * PAGES)

static const char * const events[] = {
	"mm_migrate_batch_start", "mm_migrate_batch_flush", "mm_migrate_batch_copied",
	"mm_migrate_folio_accessible",
};

enum { START, FLUSH, COPIED, ACCESSIBLE };

struct event {
	int kind;
	char fields[192];
};

FIXTURE(migrate_trace)
{
	char *addr;
	size_t len;
	int from;
	int to;
	struct event *seen;
	unsigned int nr_seen;
};

static void __attribute__((constructor)) save_settings(void)
{
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		snprintf(path, sizeof(path), EVENT_DIR "/%s/enable", events[i]);
		setting_save(path);
	}
	setting_save(TRACE_DIR "/tracing_on");
	setting_save(TRACE_DIR "/set_event_pid");
	setting_save("/proc/sys/kernel/numa_balancing");
	offload_save();
}

static int trace(bool on)
{
	char path[128];
	int ret = 0;

	for (size_t i = 0; !ret && i < ARRAY_SIZE(events); i++) {
		snprintf(path, sizeof(path), EVENT_DIR "/%s/enable", events[i]);
		ret = setting_write(path, on ? "1" : "0");
	}
	return ret;
}

FIXTURE_SETUP(migrate_trace)
{
	settings_restore();
	if (!offload_available())
		SKIP(return, "no " OFFLOAD_DIR);
	if (access(TRACE_DIR "/trace", R_OK))
		SKIP(return, "no tracefs in " TRACE_DIR);
	if (!memory_two_nodes(&self->from, &self->to))
		SKIP(return, "needs two nodes with memory");

	self->len = PAGES * memory_page_size();
	self->addr = memory_map_aligned(self->len, MIB);
	ASSERT_NE(NULL, self->addr);
	ASSERT_EQ(0, madvise(self->addr, self->len, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, memory_bind(self->from));
	memory_stamp(self->addr, self->len, getpid());
	ASSERT_EQ(0, memory_bind(-1));
	self->seen = calloc(MAX_EVENTS, sizeof(*self->seen));
	ASSERT_NE(NULL, self->seen);

	setting_write("/proc/sys/kernel/numa_balancing", "0");
	ASSERT_EQ(0, offload_route_only(REASON, "cpu"));
	ASSERT_EQ(0, offload_set_enabled(true));
	ASSERT_EQ(0, setting_write(TRACE_DIR "/tracing_on", "1"));
	ASSERT_EQ(0, setting_write_number(TRACE_DIR "/set_event_pid", getpid()));
	ASSERT_EQ(0, setting_write(TRACE_DIR "/trace", "\n"));
}

FIXTURE_TEARDOWN(migrate_trace)
{
	trace(false);
	setting_write(TRACE_DIR "/set_event_pid", "\n");
	settings_restore();
}

/* A line of the trace: "task-pid [cpu] flags timestamp: event: fields" */
static bool parse(char *line, struct event *event)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		const char *found = strstr(line, events[i]);

		if (!found || found[strlen(events[i])] != ':')
			continue;
		event->kind = i;
		snprintf(event->fields, sizeof(event->fields), "%s",
			 found + strlen(events[i]) + 1);
		return true;
	}
	return false;
}

/* Moves the memory with all events on, and reads what they said. */
static void traced_move(struct __test_metadata *_metadata,
			FIXTURE_DATA(migrate_trace) *self)
{
	char line[512];
	FILE *file;

	ASSERT_EQ(0, trace(true));
	ASSERT_EQ(0, memory_move(0, self->addr, self->len, memory_page_size(), self->to,
				 MPOL_MF_MOVE));
	ASSERT_EQ(0, trace(false));
	ASSERT_EQ(0, memory_verify(self->addr, self->len, getpid()));

	file = fopen(TRACE_DIR "/trace", "r");
	ASSERT_NE(NULL, file);
	self->nr_seen = 0;
	while (self->nr_seen < MAX_EVENTS && fgets(line, sizeof(line), file))
		if (line[0] != '#' && parse(line, &self->seen[self->nr_seen]))
			self->nr_seen++;
	fclose(file);
}

/* How many events of this kind there are, and where the first one is. */
static unsigned int count(const FIXTURE_DATA(migrate_trace) *self, int kind,
			  unsigned int *first)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < self->nr_seen; i++) {
		if (self->seen[i].kind != kind)
			continue;
		if (!nr++)
			*first = i;
	}
	return nr;
}

TEST_F(migrate_trace, order)
{
	unsigned int first[ARRAY_SIZE(events)] = { 0 };

	traced_move(_metadata, self);
	EXPECT_EQ(1, count(self, START, &first[START]));
	EXPECT_EQ(1, count(self, FLUSH, &first[FLUSH]));
	EXPECT_EQ(1, count(self, COPIED, &first[COPIED]));
	EXPECT_EQ(PAGES, count(self, ACCESSIBLE, &first[ACCESSIBLE]));
	ASSERT_EQ(KSFT_PASS, _metadata->exit_code);

	EXPECT_EQ(0, first[START]);
	EXPECT_EQ(1, first[FLUSH]);
	EXPECT_EQ(2, first[COPIED]);
	EXPECT_EQ(3, first[ACCESSIBLE]);
}

TEST_F(migrate_trace, fields)
{
	uint64_t *old = memory_pfns(self->addr, self->len);
	unsigned int page = 0;
	uint64_t *new;

	ASSERT_NE(NULL, old);
	traced_move(_metadata, self);
	new = memory_pfns(self->addr, self->len);
	ASSERT_NE(NULL, new);

	for (unsigned int i = 0; i < self->nr_seen; i++) {
		const struct event *event = &self->seen[i];
		unsigned int folios = 0, copied = 0, order = 99;
		unsigned long src = 0, dst = 0, pages = 0;
		char migrator[32] = "";
		char mode[32] = "";
		char reason[32] = "";

		switch (event->kind) {
		case START:
		case FLUSH:
			ASSERT_EQ(2, sscanf(event->fields, " mode=%31s reason=%31s", mode,
					    reason))
				TH_LOG("%s", event->fields);
			EXPECT_STREQ("MIGRATE_ASYNC", mode);
			break;
		case COPIED:
			ASSERT_EQ(5, sscanf(event->fields,
					    " migrator=%31s nr_folios=%u nr_copied=%u nr_pages=%lu reason=%31s",
					    migrator, &folios, &copied, &pages, reason))
				TH_LOG("%s", event->fields);
			EXPECT_STREQ("cpu", migrator);
			EXPECT_EQ(PAGES, folios);
			EXPECT_EQ(PAGES, copied);
			EXPECT_EQ(PAGES, pages);
			break;
		case ACCESSIBLE:
			ASSERT_EQ(4, sscanf(event->fields,
					    " src_pfn=%lx dst_pfn=%lx order=%u reason=%31s",
					    &src, &dst, &order, reason))
				TH_LOG("%s", event->fields);
			ASSERT_GT(PAGES, page);
			EXPECT_EQ(old[page], src);
			EXPECT_EQ(new[page], dst);
			EXPECT_EQ(0, order);
			page++;
			break;
		}
		EXPECT_STREQ(REASON, reason);
	}
	EXPECT_EQ(PAGES, page);
}

/* Without a route no migrator copies; the other events are the same. */
TEST_F(migrate_trace, without_route)
{
	unsigned int first;

	ASSERT_EQ(0, offload_route_only(NULL, "none"));
	traced_move(_metadata, self);
	EXPECT_LT(0, count(self, START, &first));
	EXPECT_LT(0, count(self, FLUSH, &first));
	EXPECT_EQ(0, count(self, COPIED, &first));
	EXPECT_EQ(PAGES, count(self, ACCESSIBLE, &first));
}

TEST_HARNESS_MAIN
