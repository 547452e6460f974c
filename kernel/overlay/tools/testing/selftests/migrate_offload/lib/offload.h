/* SPDX-License-Identifier: GPL-2.0 */
/* /sys/kernel/mm/migrate_offload as the tests use it. */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "setting.h"

#define OFFLOAD_DIR "/sys/kernel/mm/migrate_offload"
/* A file of the route of a reason. */
#define ROUTE(reason, file)	OFFLOAD_DIR "/routes/" reason "/" file

/* setting_save() for the main switch, all routes, and what they share. */
void offload_save(void);
bool offload_available(void);
bool offload_enabled(void);
/* Enabled and routed to a migrator for this reason. */
bool offload_on_for(const char *reason);
/* offload_on_for(), after all other routes were removed: nobody else's folios count. */
bool offload_on_only_for(const char *reason);
int offload_set_enabled(bool enabled);
int offload_set_route(const char *reason, const char *migrator);
/* For how long memory may be inaccessible; 0: no bound. */
int offload_set_bound(const char *reason, unsigned int us);
/* Whether nothing migrates that the route's migrator has not copied. */
int offload_set_required(const char *reason, bool required);
/* Whether the route copies live. */
int offload_set_live(const char *reason, bool live);
int offload_get_route(const char *reason, char *migrator, size_t size);
/* @migrator for @reason, "none" for all others; @reason NULL: for all reasons. */
int offload_route_only(const char *reason, const char *migrator);

/* All reasons that have a route, ended by NULL. */
extern const char * const offload_reasons[];

#define OFFLOAD_MAX_COUNTERS 48

struct offload_counter {
	char name[32];
	uint64_t value;
};

struct offload_stats {
	unsigned int nr;
	struct offload_counter counter[OFFLOAD_MAX_COUNTERS];
};

/* Reads every file in stats/; none when there is no such directory. */
void offload_read_stats(struct offload_stats *stats);

/* Remembers the value of every counter. */
void offload_mark(void);
/* Growth since the mark, of all counters whose names begin with @prefix. */
uint64_t offload_grown(const char *prefix);
/* Prints every counter that has grown since the mark. */
void offload_show_grown(void);

#endif /* OFFLOAD_H */
