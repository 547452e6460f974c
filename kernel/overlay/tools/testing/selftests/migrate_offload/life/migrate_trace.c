// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of one move_pages(2), in their order: a batch starts, the TLB
 * is flushed, a migrator has copied, the folios are accessible again.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "area.h"
#include "memory.h"
#include "offload.h"

#define TRACE_DIR	"/sys/kernel/tracing"
#define EVENT_DIR	TRACE_DIR "/events/migrate"
#define REASON		"syscall_or_cpuset"
#define PAGES		64
#define MAX_EVENTS	(4 * PAGES)
#define TIMES		"migrate_offload_times.awk"

static const char * const events[] = {
	"mm_migrate_batch_start", "mm_migrate_batch_flush", "mm_migrate_batch_copied",
	"mm_migrate_folio_accessible", "mm_migrate_chunk_protected",
	"mm_migrate_folio_unmapped",
};

enum { START, FLUSH, COPIED, ACCESSIBLE, PROTECTED, UNMAPPED };

struct event {
	int kind;
	char fields[192];
};

struct run {
	struct area area;
	int from;
	int to;
	struct event *seen;
	unsigned int nr_seen;
};

FIXTURE(migrate_trace)
{
	struct run run;
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
	memory_settings_save();
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
	struct run *run = &self->run;

	settings_restore();
	if (!offload_available())
		SKIP(return, "no " OFFLOAD_DIR);
	if (access(TRACE_DIR "/trace", R_OK))
		SKIP(return, "no tracefs in " TRACE_DIR);
	if (!memory_two_nodes(&run->from, &run->to))
		SKIP(return, "needs two nodes with memory");

	numa_balancing_off();
	ASSERT_TRUE(area_create(&run->area, AREA_ANON_4K, PAGES * memory_page_size(), run->from));
	run->seen = calloc(MAX_EVENTS, sizeof(*run->seen));
	ASSERT_NE(NULL, run->seen);

	ASSERT_EQ(0, offload_route_only(REASON, "cpu"));
	ASSERT_EQ(0, offload_set_bound(0));
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
static void traced_move(struct __test_metadata *_metadata, struct run *run)
{
	char line[512];
	FILE *file;

	ASSERT_EQ(0, trace(true));
	ASSERT_EQ(0, area_move(&run->area, run->to));
	ASSERT_EQ(0, trace(false));
	ASSERT_EQ(0, area_wrong(&run->area));

	file = fopen(TRACE_DIR "/trace", "r");
	ASSERT_NE(NULL, file);
	run->nr_seen = 0;
	while (run->nr_seen < MAX_EVENTS && fgets(line, sizeof(line), file))
		if (line[0] != '#' && parse(line, &run->seen[run->nr_seen]))
			run->nr_seen++;
	fclose(file);
}

/* How many events of this kind there are, and where the first one is. */
static unsigned int count(const struct run *run, int kind, unsigned int *first)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < run->nr_seen; i++) {
		if (run->seen[i].kind != kind)
			continue;
		if (!nr++)
			*first = i;
	}
	return nr;
}

TEST_F(migrate_trace, order)
{
	struct run *run = &self->run;
	unsigned int first[ARRAY_SIZE(events)] = { 0 };

	traced_move(_metadata, run);
	EXPECT_EQ(1, count(run, START, &first[START]));
	EXPECT_EQ(1, count(run, FLUSH, &first[FLUSH]));
	EXPECT_EQ(1, count(run, COPIED, &first[COPIED]));
	EXPECT_EQ(PAGES, count(run, ACCESSIBLE, &first[ACCESSIBLE]));
	EXPECT_EQ(PAGES, count(run, UNMAPPED, &first[UNMAPPED]));
	ASSERT_EQ(KSFT_PASS, _metadata->exit_code);

	EXPECT_EQ(0, first[START]);
	EXPECT_EQ(1, first[UNMAPPED]);
	EXPECT_EQ(PAGES + 1, first[FLUSH]);
	EXPECT_EQ(PAGES + 2, first[COPIED]);
	EXPECT_EQ(PAGES + 3, first[ACCESSIBLE]);
}

TEST_F(migrate_trace, fields)
{
	struct run *run = &self->run;
	uint64_t *old = memory_pfns(run->area.addr, run->area.size);
	unsigned int page = 0;
	uint64_t *new;

	ASSERT_NE(NULL, old);
	traced_move(_metadata, run);
	new = memory_pfns(run->area.addr, run->area.size);
	ASSERT_NE(NULL, new);

	for (unsigned int i = 0; i < run->nr_seen; i++) {
		const struct event *event = &run->seen[i];
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
		case UNMAPPED:
			ASSERT_EQ(3, sscanf(event->fields, " src_pfn=%lx order=%u reason=%31s",
					    &src, &order, reason))
				TH_LOG("%s", event->fields);
			EXPECT_EQ(0, order);
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
	struct run *run = &self->run;
	unsigned int first;

	ASSERT_EQ(0, offload_route_only(NULL, "none"));
	traced_move(_metadata, run);
	EXPECT_LT(0, count(run, START, &first));
	EXPECT_LT(0, count(run, FLUSH, &first));
	EXPECT_EQ(0, count(run, COPIED, &first));
	EXPECT_EQ(PAGES, count(run, ACCESSIBLE, &first));
}

/* The script is beside the test. */
static bool times_path(char *path, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", path, size - 1);
	char *name;

	if (len < 0)
		return false;
	path[len] = '\0';
	name = strrchr(path, '/') + 1;
	snprintf(name, path + size - name, TIMES);
	return !access(path, R_OK);
}

/* What the guide for administrators says to run finds each folio once, and the copy. */
TEST_F(migrate_trace, histograms)
{
	struct run *run = &self->run;
	unsigned long copies = 0, folios = 0, copy_us = 0, folio_us = 0, low, high, nr;
	char path[256], command[320], what[32];
	FILE *output;

	if (!times_path(path, sizeof(path)))
		SKIP(return, "no " TIMES);
	traced_move(_metadata, run);
	snprintf(command, sizeof(command), "awk -f %s " TRACE_DIR "/trace", path);
	output = popen(command, "r");
	ASSERT_NE(NULL, output);
	while (fscanf(output, "%31s %lu %lu %lu", what, &low, &high, &nr) == 4) {
		TH_LOG("%s %lu %lu %lu", what, low, high, nr);
		EXPECT_LT(low, high);
		if (!strcmp(what, "copy")) {
			copies += nr;
			copy_us = low;
		} else if (!strcmp(what, "inaccessible")) {
			folios += nr;
			folio_us = high;
		}
	}
	EXPECT_EQ(0, pclose(output));
	EXPECT_EQ(1, copies);
	EXPECT_EQ(PAGES, folios);
	/* The longest wait includes the whole copy. */
	EXPECT_LE(copy_us, folio_us);
}

/* Live copies begin with as little as a batch, so that the first folio moves soon. */
TEST_F(migrate_trace, first_live_chunk_is_small)
{
	struct run *run = &self->run;
	unsigned int folios = 0, first;
	unsigned long pages = 0;
	int found;

	area_destroy(&run->area);
	ASSERT_TRUE(area_create(&run->area, AREA_ANON_64K, 4 * MIB, run->from));
	ASSERT_EQ(0, offload_set_live(true));
	traced_move(_metadata, run);
	EXPECT_EQ(area_folios(&run->area), count(run, ACCESSIBLE, &first));
	ASSERT_LT(1, count(run, PROTECTED, &first));
	found = sscanf(run->seen[first].fields, " nr_folios=%u nr_pages=%lu", &folios, &pages);
	ASSERT_EQ(2, found)
		TH_LOG("%s", run->seen[first].fields);
	EXPECT_EQ(area_folios(&run->area) / 2, folios);
	EXPECT_EQ(2 * MIB / memory_page_size(), pages);
}

TEST_HARNESS_MAIN
