/* SPDX-License-Identifier: GPL-2.0 */
/*
 * /sys/kernel/mm/migrate_copy_offload as the tests use it, and files of settings
 * that get their old values back.
 */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFLOAD_DIR "/sys/kernel/mm/migrate_copy_offload"
#define THP_DIR "/sys/kernel/mm/transparent_hugepage"
#define KSM_DIR "/sys/kernel/mm/ksm"
#define NUMA_BALANCING "/proc/sys/kernel/numa_balancing"

/* 0 or -errno, of the open or of the write. */
int setting_write(const char *path, const char *value);
int setting_write_number(const char *path, long value);
/* First line without its newline; 0 or -errno. */
int setting_read(const char *path, char *buf, size_t size);
/* -1 if there is no number. */
long setting_read_number(const char *path);
/* The number behind the first @name in a file of many, such as /proc/vmstat; or -1. */
long setting_find_number(const char *path, const char *name);

/*
 * Remembers the value that a file has now. The process that called this first
 * writes all values back when it exits, also after SIGTERM, SIGINT or SIGHUP;
 * settings_restore() does it at once, in any process. A missing file is ignored.
 */
void setting_save(const char *path);
void settings_restore(void);

/* setting_save() for the sizes of folios and for NUMA balancing. */
void memory_settings_save(void);
/* Nobody but the caller moves its memory. */
void numa_balancing_off(void);
/*
 * Memory with MADV_HUGEPAGE, anonymous or shmem, comes in folios of @folio_size; with
 * the size of a page, in pages. 0 or -errno.
 */
int thp_only(size_t folio_size);

/* offload_save(): setting_save() for the main switch and all routes. */
void offload_save(void);
bool offload_available(void);
bool offload_enabled(void);
/* Enabled and routed to a migrator for this reason. */
bool offload_on_for(const char *reason);
/* offload_on_for(), after all other routes were removed: nobody else's folios count. */
bool offload_on_only_for(const char *reason);
int offload_set_enabled(bool enabled);
int offload_set_route(const char *reason, const char *migrator);
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
