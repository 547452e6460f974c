// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of one move_pages(2), in their order: a batch starts, the TLB
 * is flushed, a migrator has copied, the folios are accessible again.
 */
#include "run.h"

#define TRACE_DIR	"/sys/kernel/tracing"
#define EVENT_DIR	TRACE_DIR "/events/migrate"
#define PAGES		64
#define MAX_EVENTS	(4 * PAGES)

static const char * const events[] = {
	"mm_migrate_batch_start", "mm_migrate_batch_flush", "mm_migrate_batch_copied",
	"mm_migrate_folio_accessible", "mm_migrate_chunk_protected", "mm_migrate_folio_unmapped",
};

enum { START, FLUSH, COPIED, ACCESSIBLE, PROTECTED, UNMAPPED };

/* The events of a move. */
static struct event {
	int kind;
	char fields[192];
} seen[MAX_EVENTS];

static unsigned int nr_seen;

FIXTURE(migrate_trace) { };

static void __attribute__((constructor)) save_settings(void)
{
	settings_save(EVENT_DIR "/*/enable");
	setting_save(TRACE_DIR "/tracing_on");
	setting_save(TRACE_DIR "/set_event_pid");
}

static int trace(bool on)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < ARRAY_SIZE(events); i++)
		ret = setting_write_number(setting_path(EVENT_DIR "/%s/enable", events[i]), on);
	return ret;
}

FIXTURE_SETUP(migrate_trace)
{
	if (!offload_begin(_metadata))
		return;
	if (access(TRACE_DIR "/trace", R_OK))
		SKIP(return, "no tracefs in " TRACE_DIR);
	create_area(AREA_ANON_4K, PAGES * memory_page_size());
	route_only(MOVE_PAGES, "cpu");
	ASSERT_EQ(0, offload_set_bound(0));
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
		const char *name = strstr(line, events[i]);

		if (!name || name[strlen(events[i])] != ':')
			continue;
		event->kind = i;
		snprintf(event->fields, sizeof(event->fields), "%s", name + strlen(events[i]) + 1);
		return true;
	}
	return false;
}

/* Moves the memory with all events on, and reads what they said. */
static void traced_move(void)
{
	char line[512];
	FILE *file;

	ASSERT_EQ(0, trace(true));
	ASSERT_EQ(0, area_move(&area, nodes[1]));
	ASSERT_EQ(0, trace(false));
	ASSERT_EQ(0, area_wrong(&area));

	file = fopen(TRACE_DIR "/trace", "r");
	ASSERT_NE(NULL, file);
	nr_seen = 0;
	while (nr_seen < MAX_EVENTS && fgets(line, sizeof(line), file))
		if (line[0] != '#' && parse(line, &seen[nr_seen]))
			nr_seen++;
	fclose(file);
}

/* How many events of this kind there are, and where the first one is. */
static unsigned int count(int kind, unsigned int *first)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < nr_seen; i++)
		if (seen[i].kind == kind && !nr++)
			*first = i;
	return nr;
}

TEST_F(migrate_trace, order)
{
	unsigned int first[ARRAY_SIZE(events)] = { 0 };

	traced_move();
	EXPECT_EQ(1, count(START, &first[START]));
	EXPECT_EQ(1, count(FLUSH, &first[FLUSH]));
	EXPECT_EQ(1, count(COPIED, &first[COPIED]));
	EXPECT_EQ(PAGES, count(ACCESSIBLE, &first[ACCESSIBLE]));
	EXPECT_EQ(PAGES, count(UNMAPPED, &first[UNMAPPED]));
	ASSERT_EQ(KSFT_PASS, _metadata->exit_code);

	EXPECT_EQ(0, first[START]);
	EXPECT_EQ(1, first[UNMAPPED]);
	EXPECT_EQ(PAGES + 1, first[FLUSH]);
	EXPECT_EQ(PAGES + 2, first[COPIED]);
	EXPECT_EQ(PAGES + 3, first[ACCESSIBLE]);
}

TEST_F(migrate_trace, fields)
{
	uint64_t *old = memory_pfns(area.addr, area.size), *new;
	unsigned int unmapped = 0, accessible = 0, page;
	char expected[sizeof(seen[0].fields)];

	ASSERT_NE(NULL, old);
	traced_move();
	new = memory_pfns(area.addr, area.size);
	ASSERT_NE(NULL, new);

	for (unsigned int i = 0; i < nr_seen; i++) {
		switch (seen[i].kind) {
		case COPIED:
			snprintf(expected, sizeof(expected),
				 " migrator=cpu nr_folios=%u nr_copied=%u nr_pages=%u reason="
				 MOVE_PAGES "\n", PAGES, PAGES, PAGES);
			break;
		case UNMAPPED:
		case ACCESSIBLE:
			page = seen[i].kind == UNMAPPED ? unmapped++ : accessible++;
			ASSERT_GT(PAGES, page);
			snprintf(expected, sizeof(expected),
				 " src_pfn=0x%llx dst_pfn=0x%llx order=0 reason=" MOVE_PAGES "\n",
				 (unsigned long long)old[page], (unsigned long long)new[page]);
			break;
		default:
			snprintf(expected, sizeof(expected),
				 " mode=MIGRATE_ASYNC reason=" MOVE_PAGES "\n");
		}
		EXPECT_STREQ(expected, seen[i].fields);
	}
	EXPECT_EQ(PAGES, unmapped);
	EXPECT_EQ(PAGES, accessible);
}

/* Without a route no migrator copies; the other events are the same. */
TEST_F(migrate_trace, without_route)
{
	unsigned int first;

	ASSERT_EQ(0, offload_route_only(NULL, "none"));
	traced_move();
	EXPECT_LT(0, count(START, &first));
	EXPECT_LT(0, count(FLUSH, &first));
	EXPECT_EQ(0, count(COPIED, &first));
	EXPECT_EQ(PAGES, count(ACCESSIBLE, &first));
}

/* Live copies begin with as little as a batch, so that the first folio moves soon. */
TEST_F(migrate_trace, first_live_chunk_is_small)
{
	unsigned int first = 0, nr_folios = 0;

	create_area(AREA_ANON_64K, 4 * MIB);
	ASSERT_EQ(0, offload_set_live(true));
	traced_move();
	EXPECT_EQ(area_folios(&area), count(ACCESSIBLE, &first));
	ASSERT_LT(1, count(PROTECTED, &first));
	for (unsigned int i = first + 1; i < nr_seen && seen[i].kind != PROTECTED; i++)
		nr_folios += seen[i].kind == UNMAPPED;
	EXPECT_EQ(area_folios(&area) / 2, nr_folios);
}

TEST_HARNESS_MAIN
