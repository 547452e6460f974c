/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory as tests and tools of page migration see it: its contents, its node, and the size
 * of its folios.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KIB 1024UL
#define MIB (1024 * KIB)
#define PMD_SIZE (2 * MIB)
#define MEMORY_MAX_NODES 1024
#define NSEC_PER_SEC 1000000000ULL

size_t memory_page_size(void);
/* Of a clock that never goes back. */
uint64_t nanoseconds_now(void);
double seconds_now(void);
/* Of a processor, by the calling thread. */
uint64_t nanoseconds_used(void);
/* Lets the calling thread run on CPUs @first to @last only. */
void run_on_cpus(int first, int last);
/* A child with the same memory, which waits until it is killed, and ends with the caller. */
pid_t fork_idle(void);

/*
 * Every 8-byte word gets a value of its own, derived from @seed and the word's
 * offset; @len is a multiple of 8.
 */
void memory_stamp(void *addr, size_t len, uint64_t seed);
/* How many of @len bytes are not what memory_stamp() wrote; reports the first ones. */
size_t memory_verify(const void *addr, size_t len, uint64_t seed);
/*
 * The same without a report. @written, if not NULL, has the first word of each page that was
 * written since then, and 0 for the others.
 */
size_t memory_wrong(const void *addr, size_t len, uint64_t seed, const uint64_t *written);

/* The first @max of the nodes that have memory; returns how many there are. */
unsigned int memory_nodes(int *nodes, unsigned int max);
/* A line of a node's meminfo, such as "MemFree:"; -1 if there is none. */
long memory_node_kib(int node, const char *name);

/* As system calls want it: with MEMORY_MAX_NODES + 1. */
struct node_mask {
	unsigned long bits[MEMORY_MAX_NODES / 8 / sizeof(unsigned long) + 1];
};

struct node_mask memory_node_mask(int node);
/* Binds what this process allocates from now on to @node; -1: no binding. */
int memory_bind(int node);

/* How many pages of the range are absent or not on @node. */
size_t memory_pages_not_on(const void *addr, size_t len, int node);
/* How many folios of @size are not there with all their pages. */
size_t memory_folios_not_on(const void *addr, size_t len, size_t size, int node);
/*
 * move_pages(2), one address every @step bytes, for process @pid (0: the caller).
 * Returns how many of these addresses are not on @node afterwards, or -errno.
 */
long memory_move(pid_t pid, void *addr, size_t len, size_t step, int node, int flags);

/* No frame: memory may begin at address 0, with a frame of that number. */
#define MEMORY_NO_PFN	UINT64_MAX

/* Whether the page at @addr was written since soft-dirty bits were cleared. */
bool memory_soft_dirty(const void *addr);
/* Splits the large folios of the range, if the kernel can. 0 or -errno. */
#define SPLIT_PAGES	"/sys/kernel/debug/split_huge_pages"
int memory_split(const void *addr, size_t len);
/* Frame number of the page at @addr, MEMORY_NO_PFN if it is not present. */
uint64_t memory_pfn(const void *addr);
/* How many page tables map the page at @addr; 0 if it is not present. */
uint64_t memory_mapped_by(const void *addr);
/* Frame numbers of every page of the range, in an array that the caller frees. */
uint64_t *memory_pfns(const void *addr, size_t len);
/* How many different folios the range is mapped to. */
size_t memory_folios(const void *addr, size_t len);
/* True if naturally aligned folios of exactly @size bytes make up the range. */
bool memory_folios_are(const void *addr, size_t len, size_t size);
/* At how many places of the range where such a folio should be there is none. */
size_t memory_folios_not(const void *addr, size_t len, size_t size);
/* Whether this process may see which frames its memory has, and their flags. */
bool memory_frames_readable(void);
/* How many pages of the range have all bits of @mask in /proc/kpageflags. */
size_t memory_pages_flagged(const void *addr, size_t len, uint64_t mask);

/*
 * @len bytes at a multiple of @align inside a larger reservation of address
 * space, anonymous and private; NULL on failure.
 */
void *memory_map_aligned(size_t len, size_t align);
/*
 * Stamps memory that is not allocated yet, and so allocates it on @node, in folios of
 * @folio_size if the settings allow no other size. khugepaged leaves it alone. 0 or -errno.
 */
int memory_fill(void *addr, size_t len, size_t folio_size, int node, uint64_t seed);

/*
 * How many pages of two nodes are isolated, once what others do now is over: none, unless
 * something has lost them.
 */
long memory_isolated(const int nodes[2]);

/*
 * Pages that are neither free nor have an owner that the kernel counts. They grow when something
 * keeps pages and forgets them. Fewer than 0 if an owner counts some that another one counts too.
 */
long pages_unaccounted(void);

#endif /* MEMORY_H */
