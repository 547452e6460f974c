/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files of settings, which get their old values back when a program ends, and those that
 * decide about folios.
 */
#ifndef SETTING_H
#define SETTING_H

#include <stdbool.h>
#include <stddef.h>

#define NODE_DIR "/sys/devices/system/node"
#define THP_DIR "/sys/kernel/mm/transparent_hugepage"
#define KSM_DIR "/sys/kernel/mm/ksm"
#define NUMA_BALANCING "/proc/sys/kernel/numa_balancing"

/* As printf(3) would print it; good until this thread calls it again. */
const char *setting_path(const char *format, ...);
/* A file of the cgroup that this process is in; no path without version 2. */
const char *own_cgroup(const char *file);
/* 0 or -errno, of the open or of the write. */
int setting_write(const char *path, const char *value);
int setting_write_number(const char *path, long value);
/* First line without its newline; 0 or -errno. */
int setting_read(const char *path, char *buf, size_t size);
/* Of a file that shows all its values, the one in brackets, which counts. */
int setting_value(const char *path, char *buf, size_t size);
/* -1 if there is no number. */
long setting_read_number(const char *path);
/* The sum of the numbers behind the first @name in a file of many, such as /proc/vmstat; or -1. */
long setting_find_number(const char *path, const char *name);
/* How many lines of a file have @text in them; -1 if it cannot be read. */
long setting_count_lines(const char *path, const char *text);

/*
 * Remembers the value that a file has now. The process that called this first writes all
 * values back when it exits, or when a signal ends it that it does not handle itself. A
 * file that is missing, or that cannot be written, is ignored.
 */
void setting_save(const char *path);
/* Remembers all files that match a pattern, which are put back in their alphabetical order. */
void settings_save(const char *pattern);
/* setting_write() of a file that is remembered, if it has another value. */
int setting_change(const char *path, const char *value);
/* Puts everything back, what was saved last first, in any process. */
void settings_restore(void);
/*
 * The same for files whose paths begin with @prefix. Returns how many have another value, and
 * says which, and why, unless @program is NULL.
 */
unsigned int settings_restore_below(const char *prefix, const char *program);
/* Values that were saved so far are not put back any more. */
void settings_forget(void);

/* setting_save() for the sizes of folios and for NUMA balancing. */
void memory_settings_save(void);
/*
 * Memory with MADV_HUGEPAGE, anonymous or shmem, comes in folios of @folio_size; with
 * the size of a page, in pages. 0 or -errno.
 */
int thp_only(size_t folio_size);
/* Of memory of one sort. */
int thp_only_anon(size_t folio_size);
int thp_only_shmem(size_t folio_size);

/* How many folios of @folio_size hugetlb has on @node, and how many of them are free. */
long hugetlb_held(size_t folio_size, int node);
long hugetlb_free(size_t folio_size, int node);
/* Let hugetlb have @nr of them; returns how many it has then. The pool gets its old size back. */
long hugetlb_hold(size_t folio_size, int node, unsigned long nr);
/* Let it have at least @nr. False if the machine has no room for them. */
bool hugetlb_reserve(size_t folio_size, int node, unsigned long nr);

#endif /* SETTING_H */
