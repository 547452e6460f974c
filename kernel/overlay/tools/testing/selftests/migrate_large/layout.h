/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random layouts of memory: what a seed stands for, and what can be seen of it.
 *
 * All of it lies in an arena at a fixed address. Up to three processes have it: one
 * that builds it, and children that it forked on the way. What is printed has no
 * frame numbers and no times, and is the same for two kernels that do the same.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARENA_BASE	0x100000000000UL
#define SLOT_SIZE	(6UL << 20)
#define MAX_SLOTS	32
#define ARENA_END	(ARENA_BASE + MAX_SLOTS * SLOT_SIZE)

#define MAX_PROCESSES	3
#define MAX_VMAS	256
#define MAX_REGIONS	6
#define MAX_FDS		16

struct rng {
	uint64_t state;
};

uint64_t rng_next(struct rng *rng);
/* Less than @end, which is not 0. */
uint64_t rng_below(struct rng *rng, uint64_t end);
bool rng_chance(struct rng *rng, unsigned int percent);

struct range {
	char *addr;
	size_t len;
};

struct vma {
	char *addr;
	size_t len;
	bool readable;
	bool writable;
	bool shared;
	/* Its pages are a file's, at least those that were not written to. */
	bool file;
};

struct region {
	/* Of what can be mapped once more, or -1. */
	int fd;
	size_t len;
	struct range range;
};

struct process {
	pid_t pid;
	/* One byte is one command, and one byte is its answer. */
	int command;
	int answer;
};

struct layout {
	uint64_t seed;
	struct rng rng;
	/* Our own number, 0 for who built it all. */
	unsigned int self;
	unsigned int nr_processes;
	struct process processes[MAX_PROCESSES];
	unsigned int nr_slots;
	unsigned int nr_regions;
	struct region regions[MAX_REGIONS];
	/* Kept for as long as the layout lives: uffds, pins. */
	unsigned int nr_fds;
	int fds[MAX_FDS];
	/* A pipe that holds references to pages, or -1. */
	int hold[2];
	int nodes[2];
	int file_dir;
};

/* The mappings of a process in the arena, in order. */
size_t layout_vmas(pid_t pid, struct vma *vmas, size_t max);
/* Does /proc/self/pagemap say of any page that a userfaultfd protects it? */
bool layout_any_uffd(struct range part);
/* Is this page of ours there, anonymous, and a folio by itself? */
bool layout_is_small_anon(const void *addr);

/* Builds what the seed says, and prints each step and how it ended. */
void layout_build(struct layout *layout);
/* Accesses that may fail: pages may be guards, or beyond the end of a file. */
void layout_catch_faults(void);
bool layout_try_read(const void *addr);
bool layout_try_write(void *addr, uint64_t value);

/* Once, by the first process: the settings that all layouts need. */
void layout_settings(void);

/* What can be done to a mapping; layout_kinds.c. */
struct operation {
	const char *name;
	unsigned int weight;
	/* The part of @vma is whole pages; 0 or -errno. */
	int (*run)(struct layout *layout, const struct vma *vma, struct range part);
};

extern const struct operation operations[];
extern const size_t nr_operations;

/* A new region of a random kind; prints what it is. 0 or -errno. */
int layout_add_region(struct layout *layout);
/* An unused place in the arena, or NULL. */
char *layout_new_slot(struct layout *layout);

/*
 * Writes to every page that is there and may be written to, and reports how many
 * bytes of its own it does not find.
 */
void layout_write_all(struct layout *layout);

/* Where in a page layout_write_all() writes. */
uint64_t *layout_own_word(const void *page);
/* What the kernel finds there: processes may see something else. */
bool layout_kernels_word(const void *page, uint64_t *word);

/* What the pages were before the move: each still has to have its contents. */
struct snapshot;

/*
 * Prints the state of all processes as @stage, against @before if there is one. What it
 * returns is good until the next call with, or without, one.
 */
const struct snapshot *layout_show(const struct layout *layout, const char *stage,
				   const struct snapshot *before);

/* Lets go of pages that are pinned: a ring would do so some time after its process. */
void layout_unpin(const struct layout *layout);

#endif /* LAYOUT_H */
