/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the parts of migrate_bench. ../migrate_bench.c reads the command line; machine.c
 * knows nodes, and the sizes that folios have there; area.c maps memory; moves.c moves it,
 * and takes the time; instrument.c asks the kernel for latencies; report.c tells.
 */
#ifndef MEASURE_H
#define MEASURE_H

/* __u64 is printed by %llu on every architecture. */
#define __SANE_USERSPACE_TYPES__
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/mempolicy.h>
#include <linux/types.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/syscall.h>

#include "../migrate_lib/memory.h"
#include "../migrate_lib/offload.h"
#include "../migrate_lib/setting.h"
#include "../migrate_lib/touch.h"

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#define MIN_FOLIO_KIB	4
#define MAX_FOLIO_KIB	2048
#define MAX_HUGETLB_KIB	(1024 * 1024UL)
#define MAX_SIZES	9
#define MAX_PARTS	9
#define MAX_READERS	64
#define ANY_NODE	ULONG_MAX

/* The first move goes from the node where memory was allocated, the second back. */
#define NR_MOVES	2

enum instrument_use { INSTRUMENT_AUTO, INSTRUMENT_OFF, INSTRUMENT_ONLY, NR_INSTRUMENT_USES };

/*
 * The ways to move memory: move_pages(2), which gets addresses of each folio; mbind(2), which
 * gets a range; reclaim, which demotes it; NUMA balancing, at faults of this program; and two
 * that leave it on its node: compaction, and the allocation of a contiguous range.
 */
enum addresses {
	ADDRESSES_HEADS, ADDRESSES_ALL, ADDRESSES_RANGE, ADDRESSES_RECLAIM, ADDRESSES_FAULT,
	ADDRESSES_COMPACTION, ADDRESSES_CONTIG, NR_ADDRESSES
};

enum memory { MEMORY_ANON, MEMORY_SHMEM, MEMORY_FILE, MEMORY_HUGETLB, MEMORY_MIXED, NR_MEMORY };

struct options {
	unsigned long folio_kib[MAX_SIZES];
	unsigned int nr_sizes;
	unsigned long mib;
	unsigned long folios_per_call;
	/* Pages a second, 0: no thread touches them; and how many threads read. */
	unsigned long reads, writes, readers;
	unsigned long from, to;
	unsigned long moves, warmup, repeat;
	enum instrument_use instrument;
	enum addresses addresses;
	enum memory memory;
	const char *dir, *output;
	int zipf, verify, realtime, quiet;
};

/* Of the accesses of some threads while memory moved: times in ns, and faults. */
struct met {
	__u64 longest, p999, faults;
};

/* The times of one move, in ns, and the fate of its folios. */
struct sample {
	__u64 elapsed, cpu;
	__u64 failed;
	/* -1: cannot be told. */
	__s64 split;
	struct met read, write;
	/* Interrupts with which processors had others flush TLBs, and call functions. */
	__u64 ipis;
	/* Folios that were written while they were copied. -1: cannot be told. */
	__s64 twice;
	/* Of huge_wanted(), afterwards. */
	__u64 huge;
};

/* The kernel's instrument on one move. Times in ns. */
struct latency {
	__u64 unmap, flush, copy, move, batches, lost;
	/* Of the calls of move_pages(2), and the sum of their first-folio latencies. */
	__u64 first_count, first_sum;
	/* Times for which folios were inaccessible. */
	__u64 count, p50, p99, max;
};

/* All that is reported of one move of one folio size. */
struct result {
	unsigned long folio_kib;
	unsigned int move;
	__u64 folios;
	unsigned int nr;
	struct sample *samples;
	bool has_latency;
	struct latency latency;
	/* Of all measurements, also those that are dropped. */
	__u64 bytes_verified, bytes_wrong;
	/* The most of any sample, but the least of huge; no times. */
	struct sample worst;

	double gbps_mean;
};

struct folio {
	char *addr;
	size_t size;
};

struct part {
	char *addr;
	size_t len;
	/* -1: of no file */
	int fd;
};

/*
 * Memory that is moved, and the arguments of move_pages(2), @per_folio of each folio.
 * @addr and @len are those of the first part.
 */
struct area {
	const struct options *options;
	struct part parts[MAX_PARTS];
	unsigned int nr_parts;
	char *addr;
	size_t len;
	/* Of mixed memory, that of the smallest. */
	size_t folio_size;
	struct folio *list;
	size_t folios;
	size_t per_folio;
	void **named;
	int *nodes, *status;
	/* Where each folio was. */
	__u64 *frames;
	/* The seed of the next contents. */
	__u64 seed;
	/* The words that threads wrote meanwhile to the beginning of each page. */
	uint64_t *written;
};

extern const char * const instrument_names[];
extern const char * const addresses_names[];
extern const char * const memory_names[];

/* machine.c */
unsigned int choose_nodes(struct options *options);
void check_free(const struct options *options, int node);
void check_size(const struct options *options, unsigned long kib);
__u64 node_kib(int node, const char *name);
/* How many huge pages are free on a node, without those on lists of CPUs. */
__u64 free_huge_pages(int node);

/* area.c */
void *allocate(size_t nr, size_t size);
/* How many folios of this size there are to move, and how much memory. */
size_t count_folios(const struct options *options, unsigned long folio_kib);
size_t count_bytes(const struct options *options);
/* Whether memory is to leave where it is for huge pages, and stays on its node. */
bool makes_huge_pages(const struct options *options);
/* The size of what memory leaves for, and how many of them there are to be. */
size_t huge_size(const struct options *options);
__u64 huge_wanted(const struct options *options);
void area_prepare(struct area *area, const struct options *options);
void area_create(struct area *area, unsigned long folio_kib);
void area_destroy(struct area *area);
/* New contents for each move: those of the one before may still be anywhere. */
void area_fill(struct area *area);
/* How many bytes are not as they were filled, or written since then. */
__u64 area_wrong(const struct area *area);
/* How many folios are not, with all their pages, on @node. */
__u64 count_elsewhere(const struct area *area, int node);
/* How many folios are in pieces; -1 if that cannot be told. */
__s64 count_split(const struct area *area);
/* How many folios are no longer, or not yet, where @area says that they were. */
__u64 count_moved(struct area *area);

/* moves.c: fills in one result for each move. */
void measure_size(struct area *area, unsigned long folio_kib, struct result *results,
		  bool instrumented);

/* instrument.c */
bool instrument_present(void);
void instrument_enable(bool on);
void instrument_read(struct latency *latency);

/* report.c */
void print_table_row(const struct result *result, bool first);
void print_json(FILE *out, const struct options *options, const struct result *results,
		size_t nr, unsigned int nr_nodes);

#endif /* MEASURE_H */
