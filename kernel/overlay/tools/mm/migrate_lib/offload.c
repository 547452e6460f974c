// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "offload.h"

const char * const offload_reasons[] = {
	"compaction", "memory_failure", "memory_hotplug", "syscall_or_cpuset",
	"mempolicy_mbind", "numa_misplaced", "contig_range", "longterm_pin",
	"demotion", "damon", NULL
};

void offload_save(void)
{
	settings_save(OFFLOAD_DEBUG "/*");
	settings_save(OFFLOAD_DIR "/*");
	settings_save(OFFLOAD_DIR "/routes/*");
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
	char route[OFFLOAD_ROUTE_SIZE];

	return offload_enabled() && !offload_get_route(reason, route) && strcmp(route, "none");
}

bool offload_on_only_for(const char *reason)
{
	char route[OFFLOAD_ROUTE_SIZE];

	return offload_on_for(reason) && !offload_get_route(reason, route) &&
	       !offload_route_only(reason, route);
}

int offload_set_enabled(bool enabled)
{
	return setting_write(OFFLOAD_DIR "/enabled", enabled ? "1" : "0");
}

int offload_set_bound(unsigned int us)
{
	return setting_write_number(OFFLOAD_DIR "/max_inaccessible_us", us);
}

int offload_set_live(bool live)
{
	return setting_write(OFFLOAD_DEBUG "/live", live ? "2" : "0");
}

int offload_set_route(const char *reason, const char *route)
{
	return setting_write(setting_path(OFFLOAD_DIR "/routes/%s", reason), route);
}

int offload_get_route(const char *reason, char route[OFFLOAD_ROUTE_SIZE])
{
	return setting_read(setting_path(OFFLOAD_DIR "/routes/%s", reason), route,
			    OFFLOAD_ROUTE_SIZE);
}

int offload_set_required(const char *reason, bool required)
{
	char route[OFFLOAD_ROUTE_SIZE + sizeof(" required")];
	int ret = offload_get_route(reason, route);

	if (ret)
		return ret;
	strcpy(route + strcspn(route, " "), required ? " required" : "");
	return offload_set_route(reason, route);
}

int offload_route_only(const char *reason, const char *route)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && offload_reasons[i]; i++) {
		bool chosen = !reason || !strcmp(reason, offload_reasons[i]);

		ret = offload_set_route(offload_reasons[i], chosen ? route : "none");
	}
	return ret;
}

bool offload_read_stats(struct offload_stats *stats, const char *reason)
{
	FILE *file = fopen(OFFLOAD_DEBUG "/stats", "re");
	unsigned long long value;
	char line_reason[32], name[32];

	memset(stats, 0, sizeof(*stats));
	while (file && fscanf(file, "%31s %31s %llu", line_reason, name, &value) == 3) {
		unsigned int i = 0;

		while (i < stats->nr && strcmp(stats->counter[i].name, name))
			i++;
		if (i == OFFLOAD_MAX_COUNTERS)
			break;
		if (i == stats->nr)
			strcpy(stats->counter[stats->nr++].name, name);
		if (!reason || !strcmp(line_reason, reason))
			stats->counter[i].value += value;
	}
	if (file)
		fclose(file);
	return stats->nr;
}

static struct offload_stats mark;

void offload_mark(void)
{
	offload_read_stats(&mark, NULL);
}

uint64_t offload_grown_since(const struct offload_stats *then, const char *reason,
			     const char *prefix)
{
	struct offload_stats now;
	uint64_t growth = 0;

	offload_read_stats(&now, reason);
	for (unsigned int i = 0; i < now.nr; i++)
		if (!strncmp(now.counter[i].name, prefix, strlen(prefix)))
			growth += now.counter[i].value - then->counter[i].value;
	return growth;
}

uint64_t offload_grown(const char *prefix)
{
	return offload_grown_since(&mark, NULL, prefix);
}

void offload_show_grown(void)
{
	for (unsigned int i = 0; i < mark.nr; i++) {
		unsigned long long growth = offload_grown(mark.counter[i].name);

		if (growth)
			printf("# %s grew by %llu\n", mark.counter[i].name, growth);
	}
}
