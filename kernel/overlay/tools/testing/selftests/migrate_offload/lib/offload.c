// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "offload.h"

const char * const offload_reasons[] = {
	"compaction", "memory_failure", "memory_hotplug", "syscall_or_cpuset",
	"mempolicy_mbind", "numa_misplaced", "contig_range", "longterm_pin",
	"demotion", "damon", NULL
};

static void route_path(char *path, size_t size, const char *reason, const char *file)
{
	snprintf(path, size, OFFLOAD_DIR "/routes/%s/%s", reason, file);
}

void offload_save(void)
{
	settings_save(OFFLOAD_DIR "/*");
	settings_save(OFFLOAD_DIR "/routes/*/*");
}

bool offload_available(void)
{
	return !access(OFFLOAD_DIR "/enabled", F_OK);
}

bool offload_enabled(void)
{
	return setting_read_number(OFFLOAD_DIR "/enabled") == 1;
}

bool offload_on_for(const char *reason)
{
	char migrator[64];

	return offload_enabled() &&
	       !offload_get_route(reason, migrator, sizeof(migrator)) &&
	       strcmp(migrator, "none");
}

bool offload_on_only_for(const char *reason)
{
	char migrator[64];

	return offload_on_for(reason) &&
	       !offload_get_route(reason, migrator, sizeof(migrator)) &&
	       !offload_route_only(reason, migrator);
}

int offload_set_enabled(bool enabled)
{
	return setting_write(OFFLOAD_DIR "/enabled", enabled ? "1" : "0");
}

int offload_set_route(const char *reason, const char *migrator)
{
	char path[PATH_MAX];

	route_path(path, sizeof(path), reason, "migrator");
	return setting_write(path, migrator);
}

int offload_set_bound(const char *reason, unsigned int us)
{
	char path[PATH_MAX], value[16];

	route_path(path, sizeof(path), reason, "max_inaccessible_us");
	snprintf(value, sizeof(value), "%u", us);
	return setting_write(path, value);
}

int offload_set_required(const char *reason, bool required)
{
	char path[PATH_MAX];

	route_path(path, sizeof(path), reason, "required");
	return setting_write(path, required ? "1" : "0");
}

int offload_set_live(const char *reason, bool live)
{
	char path[PATH_MAX];

	route_path(path, sizeof(path), reason, "live");
	return setting_write(path, live ? "1" : "0") ?:
	       setting_write(OFFLOAD_DIR "/live_min_order", live ? "0" : "1");
}

int offload_get_route(const char *reason, char *migrator, size_t size)
{
	char path[PATH_MAX];

	route_path(path, sizeof(path), reason, "migrator");
	return setting_read(path, migrator, size);
}

int offload_route_only(const char *reason, const char *migrator)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && offload_reasons[i]; i++) {
		bool chosen = !reason || !strcmp(reason, offload_reasons[i]);

		ret = offload_set_route(offload_reasons[i], chosen ? migrator : "none");
	}
	return ret;
}

void offload_read_stats(struct offload_stats *stats)
{
	DIR *dir = opendir(OFFLOAD_DIR "/stats");
	char path[PATH_MAX];
	struct dirent *entry;

	stats->nr = 0;
	if (!dir)
		return;
	while (stats->nr < OFFLOAD_MAX_COUNTERS) {
		struct offload_counter *counter = &stats->counter[stats->nr];

		entry = readdir(dir);
		if (!entry)
			break;
		if (entry->d_name[0] == '.' ||
		    strlen(entry->d_name) >= sizeof(counter->name))
			continue;
		snprintf(path, sizeof(path), OFFLOAD_DIR "/stats/%s", entry->d_name);
		strcpy(counter->name, entry->d_name);
		counter->value = setting_read_number(path);
		stats->nr++;
	}
	closedir(dir);
}

static struct offload_stats mark;

static uint64_t grown_counter(const struct offload_counter *counter)
{
	for (unsigned int i = 0; i < mark.nr; i++)
		if (!strcmp(mark.counter[i].name, counter->name))
			return counter->value - mark.counter[i].value;
	return counter->value;
}

void offload_mark(void)
{
	offload_read_stats(&mark);
}

uint64_t offload_grown(const char *prefix)
{
	struct offload_stats now;
	uint64_t growth = 0;

	offload_read_stats(&now);
	for (unsigned int i = 0; i < now.nr; i++)
		if (!strncmp(now.counter[i].name, prefix, strlen(prefix)))
			growth += grown_counter(&now.counter[i]);
	return growth;
}

void offload_show_grown(void)
{
	struct offload_stats now;

	offload_read_stats(&now);
	for (unsigned int i = 0; i < now.nr; i++) {
		uint64_t growth = grown_counter(&now.counter[i]);

		if (growth)
			printf("# %s grew by %llu\n", now.counter[i].name,
			       (unsigned long long)growth);
	}
}
