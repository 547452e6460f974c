/* SPDX-License-Identifier: GPL-2.0 */
/* Settings of copy offload, and the table of its counters. */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "setting.h"

#define OFFLOAD_DIR "/sys/kernel/mm/migrate_offload"
#define OFFLOAD_DEBUG "/sys/kernel/debug/migrate_offload"
#define OFFLOAD_ROUTE_SIZE 64

/* All reasons that have a route, ended by NULL. */
extern const char * const offload_reasons[];

/* setting_save() for the main switch, all routes, and what they share. */
void offload_save(void);
bool offload_available(void);
bool offload_enabled(void);
/* Enabled and routed to a migrator for this reason. */
bool offload_on_for(const char *reason);
/* offload_on_for(), after all other routes were removed, so that no other folios count. */
bool offload_on_only_for(const char *reason);
int offload_set_enabled(bool enabled);
/* For how long memory may be inaccessible; 0: no bound. */
int offload_set_bound(unsigned int us);
/* Whether routes copy live, folios of every size. In debugfs: for tests. */
int offload_set_live(bool live);
/* "none" or a migrator's name, and perhaps " required". */
int offload_set_route(const char *reason, const char *route);
int offload_get_route(const char *reason, char route[OFFLOAD_ROUTE_SIZE]);
/* Whether nothing migrates that the route's migrator has not copied. */
int offload_set_required(const char *reason, bool required);
/* @route for @reason, "none" for all others; @reason NULL: for all reasons. */
int offload_route_only(const char *reason, const char *route);

#define OFFLOAD_MAX_COUNTERS 48

struct offload_counter {
	char name[32];
	uint64_t value;
};

struct offload_stats {
	unsigned int nr;
	struct offload_counter counter[OFFLOAD_MAX_COUNTERS];
};

/* The counters of a reason, or with NULL of all together. False if there is no table. */
bool offload_read_stats(struct offload_stats *stats, const char *reason);
/* Growth since then, of all counters whose names begin with @prefix. */
uint64_t offload_grown_since(const struct offload_stats *then, const char *reason,
			     const char *prefix);

/* Remembers the value of every counter. */
void offload_mark(void);
/* Growth since the mark, of all reasons together. */
uint64_t offload_grown(const char *prefix);
/* Prints every counter that has grown since the mark. */
void offload_show_grown(void);

#endif /* OFFLOAD_H */
