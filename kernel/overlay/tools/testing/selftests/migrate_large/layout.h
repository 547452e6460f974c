/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random layouts of memory: a seed gives a layout, whose visible state is printed.
 *
 * All of it lies in an arena at a fixed address. Up to three processes have it: one
 * that builds it, and children that it forked on the way. The text has no
 * frame numbers and no times, and is the same for two kernels that do the same.
 *
 * Each file uses only those before it: layout_base.c, layout_regions.c,
 * layout_operations.c, layout_move.c, layout_show.c, migrate_layouts.c.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "memory.h"
#include "setting.h"
#include "page_state/page_state.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define ARENA_BASE	0x100000000000UL
#define SLOT_SIZE	(6UL << 20)
#define MAX_SLOTS	32
#define PAUSE_ADDR	(ARENA_BASE - SLOT_SIZE)
#define ARENA_END	(ARENA_BASE + MAX_SLOTS * SLOT_SIZE)

#define MAX_PROCESSES	3
#define MAX_VMAS	256
#define MAX_REGIONS	6
#define MAX_FDS		16
#define MAX_TOUCHED	16

/* layout_base.c: chance, mappings, accesses that may fail, and the state of pages */

struct rng { uint64_t state; };

uint64_t rng_next(struct rng *rng);
/* Less than @end, which is not 0. */
uint64_t rng_below(struct rng *rng, uint64_t end);
/* An index into @weights: twice the weight is chosen twice as often. */
size_t rng_choose(struct rng *rng, const unsigned int *weights, size_t nr);
bool rng_chance(struct rng *rng, unsigned int percent);

struct range { char *addr; size_t len; };

struct vma {
	char *addr;
	size_t len;
	bool readable, writable, shared;
	/* Its pages are a file's, at least those that were not written to. */
	bool file;
};

struct region {
	/* Of what can be mapped once more, or -1. */
	int fd;
	size_t len;
	struct range range;
};

/* An order for a child, as one byte; it answers with a struct range. */
#define COMMAND_WRITE	'w'
#define COMMAND_OPERATE	'o'

struct process { pid_t pid; int command, answer; };

/* Memory to which a process did something while it migrated. */
struct touched {
	unsigned int process;
	struct range range;
	/* Shared memory was written to: pages of any process may have changed. */
	bool everywhere;
};

struct layout {
	uint64_t seed;
	struct rng rng;
	/* Number of this process; 0 built the layout. */
	unsigned int self;
	unsigned int nr_processes;
	struct process processes[MAX_PROCESSES];
	unsigned int nr_slots;
	unsigned int nr_regions;
	struct region regions[MAX_REGIONS];
	/* Uffds, and rings that pin pages, open as long as the layout lives. */
	unsigned int nr_fds;
	int fds[MAX_FDS];
	/* A pipe that holds references to pages, or -1. */
	int hold[2];
	int nodes[2];
	int file_dir;
	/* A file whose only page pauses a migration, where it is mapped, and on which node. */
	int pause_fd;
	void *pause_page;
	/* A migration is paused: operations must not wait for its end. */
	bool paused;
	/* KSM may have merged some of the pages. */
	bool merged;
	unsigned int nr_touched;
	struct touched touched[MAX_TOUCHED];
	/* Memory may be short: the kernel may drop clean pages. */
	bool pressure;
};

/* The mappings of a process in the arena, in order. */
size_t layout_vmas(pid_t pid, struct vma *vmas, size_t max);
/* True if /proc/self/pagemap says of any page that a userfaultfd protects it. */
bool layout_any_uffd(struct range part);
int layout_device(void);
/* The state of each page of @range; false if there is none. */
bool layout_states(pid_t pid, struct range range, struct page_state *states);
/* Accesses that may fail: pages may be guards, or beyond the end of a file. */
void layout_catch_faults(void);
bool layout_try_read(const void *addr);
bool layout_try_write(void *addr, uint64_t value);

/* An unused place in the arena, or NULL. */
char *layout_new_slot(struct layout *layout);
/* Writes to every page that may be written to, and reports how many writes were lost. */
void layout_write_all(struct layout *layout);

/* layout_regions.c: the kinds of memory that a layout is made of */

/* Once, by the first process: the settings that all layouts need. */
void layout_settings(void);
/* A new region of a random kind; prints what it is. 0 or -errno. */
int layout_add_region(struct layout *layout);
/* Write to some pages, or read from all. */
void layout_write_pages(struct rng *rng, char *addr, size_t len, unsigned int percent);
void layout_read_pages(char *addr, size_t len);

/* layout_operations.c: operations on a layout */

/* A random operation on a random part of a mapping; prints both. Returns what it touched. */
struct touched layout_operate(struct layout *layout);
/* Has a child do something; false if the child has died. */
bool layout_command(const struct layout *layout, unsigned int child, char command,
		    struct touched *answer);
/* Unpins pages: a ring does so some time after its process has ended. */
void layout_unpin(const struct layout *layout);

/* layout_move.c: migration, and what happens meanwhile */

/* Puts pages of CPUs' batches on the LRU, as every migration does first. */
void layout_drain_batches(void);
/* Migrates the memory of all processes; with @threaded another CPU runs this process. */
void layout_move(struct layout *layout, int node, bool threaded);

/* layout_show.c: the visible state of a layout */

/* The pages at one stage. */
struct snapshot;

/*
 * Prints the state of all processes as @stage, against @before if there is one. The value that it
 * returns is good until the next call with, or without, one.
 */
const struct snapshot *layout_show(const struct layout *layout, const char *stage,
				   const struct snapshot *before);

#endif /* LAYOUT_H */
