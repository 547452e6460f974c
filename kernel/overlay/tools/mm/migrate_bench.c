// SPDX-License-Identifier: GPL-2.0
/*
 * migrate_bench: how fast memory moves between NUMA nodes, and how long nobody can
 * access it meanwhile.
 *
 * One measurement maps fresh memory in folios of one size on one node, moves it
 * to another node ("move 1") and back ("move 2"). The two are reported apart:
 * the second migration of a folio may cost more than the first.
 *
 * Only the calls that move memory are timed. move_pages(2) gets one address per
 * folio, or that of every page, in arrays that exist and are in memory before.
 *
 * Reclaim demotes memory instead if it is asked to; compaction moves it within a node that has
 * no huge page left, or the allocator makes way for a huge page of 1 GB.
 *
 * Latencies come from the kernel's own instrument in debugfs, where there is one.
 * It costs a little, so they are measured in a run of their own.
 *
 * Its only threads are those that use the memory while it moves. It does not call
 * setlocale().
 */

#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE
/* __u64 is printed by %llu on every architecture. */
#define __SANE_USERSPACE_TYPES__
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>
#include <linux/types.h>

#define KIB		1024UL
#define MIB		(1024 * KIB)
#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))
#define FLAG(bit)	(1ULL << (bit))

#define NODE_DIR	"/sys/devices/system/node"
#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define OFFLOAD_DIR	"/sys/kernel/mm/migrate_copy_offload"
#define ROUTES_DIR	OFFLOAD_DIR "/routes"
#define INSTRUMENT_DIR	"/sys/kernel/debug/migrate_latency"
#define DCBM_CHANNELS	"/sys/kernel/debug/dcbm/channels"
#define COPIED_TWICE	OFFLOAD_DIR "/stats/live_written"
#define COPY_PRIMITIVE	"/sys/kernel/mm/copy_pages/primitive"
#define NUMA_BALANCING	"/proc/sys/kernel/numa_balancing"
#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define CGROUPS		"/sys/fs/cgroup"
#define MIN_FREE	"/proc/sys/vm/min_free_kbytes"
#define PROACTIVENESS	"/proc/sys/vm/compaction_proactiveness"
#define CPU_LISTS	"/proc/sys/vm/percpu_pagelist_high_fraction"

#define MAX_NODES	1024
#define MAX_PROVIDERS	8
#define BITS_PER_LONG	(8 * sizeof(unsigned long))
#define MIN_FOLIO_KIB	4
#define MAX_FOLIO_KIB	2048
#define MAX_HUGETLB_KIB	(1024 * 1024UL)
/* No kernel has transparent huge pages of more than this. */
#define MAX_THP_KIB	(1024 * 1024UL)
#define MAX_SIZES	9
#define MAX_REPEAT	1000
#define MAX_MIB		(16 * 1024 * 1024UL)
#define MAX_FOLIO_PAGES	(MAX_FOLIO_KIB / MIN_FOLIO_KIB)
#define MAX_BUCKETS	1024
#define MAX_PARTS	9
#define MAX_TOUCHES	100000000
/* Threads that touch more pages a second than this touch several each time they wake up. */
#define MAX_WAKEUPS	20000
#define NSEC_PER_SEC	1000000000ULL

#define PAGEMAP_PRESENT	FLAG(63)
#define PAGEMAP_PFN	(FLAG(55) - 1)

/* The first move goes from the node where memory was allocated, the second back. */
#define NR_MOVES	2

enum instrument_use {
	INSTRUMENT_AUTO,
	INSTRUMENT_OFF,
	INSTRUMENT_ONLY,
};

static const char * const instrument_names[] = {
	[INSTRUMENT_AUTO]	= "auto",
	[INSTRUMENT_OFF]	= "off",
	[INSTRUMENT_ONLY]	= "only",
};

/*
 * What moves memory: move_pages(2), which gets addresses of each folio; mbind(2), which
 * gets a range; reclaim, which demotes it; and those that leave it on its node: compaction,
 * and who allocates a contiguous range.
 */
enum addresses {
	ADDRESSES_HEADS,
	ADDRESSES_ALL,
	ADDRESSES_RANGE,
	ADDRESSES_RECLAIM,
	ADDRESSES_COMPACTION,
	ADDRESSES_CONTIG,
};

static const char * const addresses_names[] = {
	[ADDRESSES_HEADS]	= "heads",
	[ADDRESSES_ALL]		= "all",
	[ADDRESSES_RANGE]	= "range",
	[ADDRESSES_RECLAIM]	= "reclaim",
	[ADDRESSES_COMPACTION]	= "compaction",
	[ADDRESSES_CONTIG]	= "contig",
};

/* The kernel's names of the reasons for which it migrates then. */
static const char * const reasons[] = {
	[ADDRESSES_HEADS]	= "syscall_or_cpuset",
	[ADDRESSES_ALL]		= "syscall_or_cpuset",
	[ADDRESSES_RANGE]	= "mempolicy_mbind",
	[ADDRESSES_RECLAIM]	= "demotion",
	[ADDRESSES_COMPACTION]	= "compaction",
	[ADDRESSES_CONTIG]	= "contig_range",
};

enum memory {
	MEMORY_ANON,
	MEMORY_SHMEM,
	MEMORY_FILE,
	MEMORY_HUGETLB,
	MEMORY_MIXED,
};

static const char * const memory_names[] = {
	[MEMORY_ANON]		= "anon",
	[MEMORY_SHMEM]		= "shmem",
	[MEMORY_FILE]		= "file",
	[MEMORY_HUGETLB]	= "hugetlb",
	[MEMORY_MIXED]		= "mixed",
};

/*
 * Mixed memory: ten thousand folios that move together. The largest of a kind go first:
 * khugepaged collapses the others where those are allowed.
 */
static const struct {
	enum memory memory;
	unsigned long folio_kib;
	size_t folios;
} mixture[] = {
	{ MEMORY_ANON, 2048, 50 }, { MEMORY_ANON, 64, 1300 }, { MEMORY_ANON, 4, 2000 },
	{ MEMORY_SHMEM, 2048, 50 }, { MEMORY_SHMEM, 64, 1300 }, { MEMORY_SHMEM, 4, 2000 },
	{ MEMORY_FILE, 64, 1300 }, { MEMORY_FILE, 4, 2000 },
};

/* How many folios mixed memory has, and how many KiB. */
static size_t count_mixed(unsigned long *kib)
{
	size_t folios = 0;

	*kib = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(mixture); i++) {
		folios += mixture[i].folios;
		*kib += mixture[i].folio_kib * mixture[i].folios;
	}
	return folios;
}

static struct {
	unsigned long folio_kib[MAX_SIZES];
	unsigned int nr_sizes;
	unsigned long mib;
	unsigned long folios_per_call;
	/* Pages a second; 0: nobody touches them. */
	unsigned long reads;
	unsigned long writes;
	int from;
	int to;
	unsigned int moves;
	unsigned int warmup;
	unsigned int repeat;
	enum instrument_use instrument;
	enum addresses addresses;
	enum memory memory;
	const char *dir;
	bool verify;
	bool quiet;
	const char *output;
} options = {
	.folio_kib = { 4, 16, 64, 256, 1024, 2048 },
	.nr_sizes = 6,
	.mib = 256,
	.from = -1,
	.to = -1,
	.moves = NR_MOVES,
	.dir = "/tmp",
	.warmup = 1,
	.repeat = 3,
};

/* What one move took, and what became of the folios. Times in ns. */
struct sample {
	__u64 elapsed;
	__u64 cpu;
	bool has_cpu;
	__u64 failed;
	/* -1: cannot be told. */
	__s64 split;
	/* The longest that an access took while memory moved. */
	__u64 read;
	__u64 write;
	/* Folios that were written while they were copied. -1: cannot be told. */
	__s64 twice;
	/* Of huge_wanted(), afterwards. */
	__u64 huge;
};

/* What the kernel's instrument says of one move. Times in ns. */
struct latency {
	__u64 unmap;
	__u64 flush;
	__u64 copy;
	__u64 move;
	__u64 batches;
	__u64 lost;
	/* Of the calls of move_pages(2), and the sum of their first-folio latencies. */
	__u64 first_count;
	__u64 first_sum;
	/* Times for which folios were inaccessible. */
	__u64 count;
	__u64 p50;
	__u64 p99;
	__u64 max;
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

	double gbps_mean;
	double gbps_sd;
	double gbps_min;
	double ns_per_folio;
	__u64 failed;
	__s64 split;
	__u64 read;
	__u64 write;
	__s64 twice;
	__u64 huge;
};

struct folio {
	char *addr;
	size_t size;
	enum memory memory;
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
	int *nodes;
	int *status;
	/* Where each folio was. */
	__u64 *frames;
};

static size_t page_size;

/* Whether memory is to leave where it is for huge pages, and stays on its node. */
static bool makes_huge_pages(void)
{
	return options.addresses == ADDRESSES_COMPACTION || options.addresses == ADDRESSES_CONTIG;
}

/* The size of what memory leaves for. */
static unsigned long huge_kib(void)
{
	return options.addresses == ADDRESSES_CONTIG ? MAX_HUGETLB_KIB : MAX_FOLIO_KIB;
}

/* How many huge pages there are to be. For compaction, twice as much memory is free. */
static __u64 huge_wanted(void)
{
	return options.addresses == ADDRESSES_CONTIG ? 1 : options.mib * KIB / MAX_FOLIO_KIB / 2;
}

static __u64 random_number(__u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *allocate(size_t nr, size_t size)
{
	void *memory = calloc(nr, size);

	if (!memory)
		errx(1, "out of memory for %zu entries of %zu bytes", nr, size);
	/* All of it is in memory from now on. */
	memset(memory, 0xff, nr * size);
	return memory;
}

/*
 * Settings of the machine. Whatever is changed is saved before, and is as it was
 * when the program ends, whether by exit() or by a signal.
 */

#define MAX_SETTINGS	32

static struct {
	char path[128];
	char value[64];
} saved[MAX_SETTINGS];
/* Read by signal handlers: an entry that counts is complete. */
static int nr_saved;

/* Safe in a signal handler. */
static int write_file(const char *path, const char *value)
{
	ssize_t len = strlen(value);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, len) != len)
		err = -errno;
	close(fd);
	return err;
}

static void restore_settings(void)
{
	for (int i = __atomic_load_n(&nr_saved, __ATOMIC_ACQUIRE); i-- > 0;)
		write_file(saved[i].path, saved[i].value);
}

static void restore_on_signal(int sig)
{
	restore_settings();
	/* Unblocked, and thus fatal, when this handler returns. */
	raise(sig);
}

static void restore_at_end(void)
{
	static const int signals[] = {
		SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGBUS, SIGSEGV, SIGXCPU,
	};
	struct sigaction action = {
		.sa_handler = restore_on_signal,
		.sa_flags = SA_RESETHAND,
	};

	sigfillset(&action.sa_mask);
	for (unsigned int i = 0; i < ARRAY_SIZE(signals); i++)
		sigaction(signals[i], &action, NULL);
	atexit(restore_settings);
}

/* The first line of a file, without its end; false if it cannot be read. */
static bool read_line(const char *path, char *line, size_t size)
{
	FILE *file = fopen(path, "re");
	bool ok;

	if (!file)
		return false;
	ok = fgets(line, size, file);
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

/* A file that shows all its values has the one that counts in brackets. */
static void keep_selected(char *value)
{
	char *first = strchr(value, '[');
	char *last = first ? strchr(first, ']') : NULL;

	if (!last)
		return;
	*last = '\0';
	memmove(value, first + 1, last - first);
}

static void save_setting(const char *path, const char *value)
{
	int i = nr_saved;

	for (int j = 0; j < i; j++)
		if (!strcmp(saved[j].path, path))
			return;
	if (i == MAX_SETTINGS || strlen(path) >= sizeof(saved[i].path) ||
	    strlen(value) >= sizeof(saved[i].value))
		errx(1, "cannot save the setting %s", path);
	strcpy(saved[i].path, path);
	strcpy(saved[i].value, value);
	__atomic_store_n(&nr_saved, i + 1, __ATOMIC_RELEASE);
}

static int change_setting(const char *path, const char *value)
{
	char old[64];

	if (!read_line(path, old, sizeof(old)))
		return -errno;
	keep_selected(old);
	if (!strcmp(old, value))
		return 0;
	save_setting(path, old);
	return write_file(path, value);
}

/* Nodes. */

static int mark_node(const char *text, bool *has_memory)
{
	char *pos = (char *)text;
	int nr = 0;

	while (*pos >= '0' && *pos <= '9') {
		long node = strtol(pos, &pos, 10);
		long last = *pos == '-' ? strtol(pos + 1, &pos, 10) : node;

		for (; node <= last && node < MAX_NODES; node++, nr++)
			has_memory[node] = true;
		pos += *pos == ',';
	}
	return nr;
}

/* Returns how many nodes have memory. */
static int read_nodes(bool *has_memory)
{
	char list[4096];

	if (!read_line(NODE_DIR "/has_memory", list, sizeof(list)))
		return 0;
	return mark_node(list, has_memory);
}

static int first_node(const bool *has_memory, int except)
{
	int node = 0;

	while (node < MAX_NODES && (!has_memory[node] || node == except))
		node++;
	return node;
}

static void choose_nodes(int *nr_nodes)
{
	static bool has_memory[MAX_NODES];

	*nr_nodes = read_nodes(has_memory);
	if (*nr_nodes < 2)
		errx(1, "this machine has fewer than two NUMA nodes with memory");
	if (options.from < 0)
		options.from = first_node(has_memory, options.to);
	if (options.to < 0)
		options.to = first_node(has_memory, options.from);
	if (!has_memory[options.from])
		errx(1, "node %d has no memory", options.from);
	if (!has_memory[options.to])
		errx(1, "node %d has no memory", options.to);
}

static __u64 node_kib(int node, const char *name)
{
	char path[64], line[256], label[32];
	__u64 kib;
	FILE *file;

	snprintf(path, sizeof(path), NODE_DIR "/node%d/meminfo", node);
	file = fopen(path, "re");
	if (!file)
		err(1, "cannot read %s", path);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %*d %31[^:]: %llu kB", label, &kib) != 2 ||
		    strcmp(label, name))
			continue;
		fclose(file);
		return kib;
	}
	errx(1, "%s has no line %s", path, name);
}

/*
 * A node keeps some of its memory to itself, far less than a fiftieth. A program
 * that asks for that too meets reclaim, and the OOM killer in the end.
 */
static void check_free(int node)
{
	__u64 mib = options.addresses == ADDRESSES_COMPACTION ? 2 * options.mib : options.mib;
	__u64 need = mib + node_kib(node, "MemTotal") / 50 / KIB;
	__u64 free = node_kib(node, "MemFree") / KIB;

	if (free < need)
		errx(1, "node %d has %llu MiB free, and %llu are needed to move %lu MiB",
		     node, free, need, options.mib);
}

/* As system calls want it: with MAX_NODES + 1. */
struct node_mask {
	unsigned long bits[MAX_NODES / BITS_PER_LONG + 1];
};

static struct node_mask mask_of(int node)
{
	struct node_mask mask = { 0 };

	mask.bits[node / BITS_PER_LONG] = 1UL << (node % BITS_PER_LONG);
	return mask;
}

static int bind_to(int node)
{
	struct node_mask mask;

	if (node < 0)
		return syscall(__NR_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	mask = mask_of(node);
	return syscall(__NR_set_mempolicy, MPOL_BIND, mask.bits, MAX_NODES + 1);
}

/* Folio sizes. */

static void thp_path(char *path, size_t size, unsigned long kib, enum memory memory)
{
	snprintf(path, size, THP_DIR "/hugepages-%lukB/%senabled", kib,
		 memory == MEMORY_SHMEM ? "shmem_" : "");
}

static void hugetlb_path(char *path, size_t size, unsigned long kib, int node)
{
	snprintf(path, size, NODE_DIR "/node%d/hugepages/hugepages-%lukB/nr_hugepages", node,
		 kib);
}

static bool size_offered(unsigned long kib)
{
	char path[128];

	if (options.memory == MEMORY_HUGETLB) {
		hugetlb_path(path, sizeof(path), kib, options.from);
		return !access(path, F_OK);
	}
	/* A file system has folios as large as what is written to a new file. */
	if (kib * KIB == page_size || options.memory == MEMORY_FILE)
		return true;
	thp_path(path, sizeof(path), kib, options.memory);
	return kib * KIB > page_size && !access(path, F_OK);
}

static void check_size(unsigned long kib)
{
	char list[128] = "";
	size_t len = 0;

	if (!size_offered(kib)) {
		for (unsigned long k = MIN_FOLIO_KIB; k <= MAX_HUGETLB_KIB; k *= 2)
			if (size_offered(k))
				len += snprintf(list + len, sizeof(list) - len, " %lu", k);
		errx(1, "this kernel has no %s folios of %lu KiB, but these:%s",
		     memory_names[options.memory], kib, list);
	}
	if (options.mib * KIB % kib)
		errx(1, "%lu MiB are not a multiple of folios of %lu KiB", options.mib, kib);
}

/* A fault takes the largest folio that is allowed: allow just one size. */
static void allow_only(unsigned long kib, enum memory memory)
{
	char path[128];
	int err;

	if (kib * KIB == page_size)
		return;
	for (unsigned long k = 2 * page_size / KIB; k <= MAX_THP_KIB; k *= 2) {
		thp_path(path, sizeof(path), k, memory);
		if (access(path, F_OK))
			continue;
		err = change_setting(path, k != kib ? "never" :
				     memory == MEMORY_SHMEM ? "advise" : "madvise");
		if (err)
			errx(1, "cannot set %s, which folios of %lu KiB need: %s", path, kib,
			     strerror(-err));
	}
}

/* Let hugetlb have @nr huge pages of the node, or as many as there are. */
static void hold_huge_pages(unsigned long kib, __u64 nr)
{
	char path[128], value[32];

	hugetlb_path(path, sizeof(path), kib, options.from);
	snprintf(value, sizeof(value), "%llu", nr);
	change_setting(path, value);
}

static __u64 held_huge_pages(void)
{
	char path[128], line[32];

	hugetlb_path(path, sizeof(path), huge_kib(), options.from);
	if (!read_line(path, line, sizeof(line)))
		err(1, "cannot read %s", path);
	return strtoull(line, NULL, 10);
}

/* Make a node have @nr huge pages at least. */
static void reserve_huge_pages(unsigned long kib, int node, size_t nr)
{
	char path[128], line[32], wanted[32];

	hugetlb_path(path, sizeof(path), kib, node);
	if (read_line(path, line, sizeof(line)) && strtoul(line, NULL, 10) >= nr)
		return;
	snprintf(wanted, sizeof(wanted), "%zu", nr);
	change_setting(path, wanted);
	if (!read_line(path, line, sizeof(line)) || strtoul(line, NULL, 10) < nr)
		errx(1, "node %d cannot have %zu huge pages of %lu KiB", node, nr, kib);
}

/*
 * Frame numbers and page flags. An unprivileged reader sees zeros, or no files.
 */

struct page_maps {
	int pagemap;
	int kpageflags;
};

static bool maps_open(struct page_maps *maps)
{
	maps->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	maps->kpageflags = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	return maps->pagemap >= 0 && maps->kpageflags >= 0;
}

static void maps_close(struct page_maps *maps)
{
	if (maps->pagemap >= 0)
		close(maps->pagemap);
	if (maps->kpageflags >= 0)
		close(maps->kpageflags);
}

/* Returns how many of @nr entries from @first on there are; the others become 0. */
static size_t read_entries(int fd, __u64 first, __u64 *entries, size_t nr)
{
	ssize_t len = pread(fd, entries, nr * sizeof(*entries), first * sizeof(*entries));
	size_t got = len > 0 ? len / sizeof(*entries) : 0;

	memset(entries + got, 0, (nr - got) * sizeof(*entries));
	return got;
}

static bool frames_readable(void)
{
	struct page_maps maps;
	__u64 entry = 0, flags = 0;
	__u64 self = (uintptr_t)&options / page_size;
	bool ok = maps_open(&maps);

	ok = ok && read_entries(maps.pagemap, self, &entry, 1) && entry & PAGEMAP_PFN &&
	     read_entries(maps.kpageflags, entry & PAGEMAP_PFN, &flags, 1);
	maps_close(&maps);
	return ok;
}

/* True if the pages of @folio are one folio, and all of it. Huge pages do not split. */
static bool is_whole_folio(struct page_maps *maps, const struct folio *folio)
{
	const __u64 compound = FLAG(KPF_COMPOUND_HEAD) | FLAG(KPF_COMPOUND_TAIL);
	static __u64 frames[MAX_FOLIO_PAGES], flags[MAX_FOLIO_PAGES + 1];
	const char *addr = folio->addr;
	size_t nr = folio->memory == MEMORY_HUGETLB ? 1 : folio->size / page_size;
	__u64 first;

	if (read_entries(maps->pagemap, (uintptr_t)addr / page_size, frames, nr) != nr)
		return false;
	first = frames[0] & PAGEMAP_PFN;
	for (size_t i = 0; i < nr; i++)
		if (!(frames[i] & PAGEMAP_PRESENT) || (frames[i] & PAGEMAP_PFN) != first + i)
			return false;

	/* Where memory ends there is no page that could belong to the folio. */
	if (read_entries(maps->kpageflags, first, flags, nr + 1) < nr)
		return false;
	if (folio->memory == MEMORY_HUGETLB)
		return flags[0] & FLAG(KPF_HUGE);
	if (flags[0] & FLAG(KPF_HUGE) || flags[nr] & FLAG(KPF_COMPOUND_TAIL))
		return false;
	if (nr == 1)
		return !(flags[0] & compound);
	if ((flags[0] & compound) != FLAG(KPF_COMPOUND_HEAD))
		return false;
	if (folio->memory == MEMORY_ANON && !(flags[0] & FLAG(KPF_THP)))
		return false;
	for (size_t i = 1; i < nr; i++)
		if ((flags[i] & compound) != FLAG(KPF_COMPOUND_TAIL))
			return false;
	return true;
}

/* -1 if it cannot be told. @first is set if it is not 0. */
static __s64 count_split(const struct area *area, const struct folio **first)
{
	struct page_maps maps;
	__s64 split = 0;

	if (!frames_readable())
		return -1;
	if (!maps_open(&maps))
		err(1, "cannot open the page maps");
	for (size_t i = 0; i < area->folios; i++)
		if (!is_whole_folio(&maps, &area->list[i]) && !split++)
			*first = &area->list[i];
	maps_close(&maps);
	return split;
}

/* How many folios are no longer, or not yet, where @area says that they were. */
static __u64 count_moved(struct area *area)
{
	struct page_maps maps;
	__u64 moved = 0;

	if (!maps_open(&maps))
		err(1, "cannot open the page maps");
	for (size_t i = 0; i < area->folios; i++) {
		__u64 frame;

		read_entries(maps.pagemap, (uintptr_t)area->list[i].addr / page_size, &frame, 1);
		moved += area->frames[i] != (frame & PAGEMAP_PFN);
		area->frames[i] = frame & PAGEMAP_PFN;
	}
	maps_close(&maps);
	return moved;
}

/* How many folios are not, with all their pages, on @node. */
static __u64 count_elsewhere(const struct area *area, int node)
{
	static void *pages[MAX_FOLIO_PAGES];
	static int status[MAX_FOLIO_PAGES];
	__u64 elsewhere = 0;

	for (size_t i = 0; i < area->folios; i++) {
		const struct folio *folio = &area->list[i];
		size_t nr = folio->memory == MEMORY_HUGETLB ? 1 : folio->size / page_size;
		bool here = true;

		for (size_t j = 0; j < nr; j++)
			pages[j] = folio->addr + j * page_size;
		if (syscall(__NR_move_pages, 0, nr, pages, NULL, status, 0))
			err(1, "cannot ask where pages are");
		for (size_t j = 0; j < nr; j++)
			here &= status[j] == node;
		elsewhere += !here;
	}
	return elsewhere;
}

/* Memory. */

/* Differs from word to word, and from one @seed to the next. */
static __u64 pattern(__u64 seed, size_t index)
{
	__u64 value = (index + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1b54a32d192ed03ULL;

	return value ^ (value >> 31);
}

static void fill(const struct area *area, __u64 seed)
{
	size_t nr = 0;

	for (size_t i = 0; i < area->folios; i++) {
		__u64 *word = (__u64 *)area->list[i].addr;

		for (size_t j = 0; j < area->list[i].size / sizeof(*word); j++)
			word[j] = pattern(seed, nr++);
	}
}

static void compare(const struct area *area, __u64 seed, unsigned int move)
{
	size_t nr = 0, wrong = 0;

	for (size_t i = 0; i < area->folios; i++) {
		const __u64 *word = (const __u64 *)area->list[i].addr;

		for (size_t j = 0; j < area->list[i].size / sizeof(*word); j++)
			wrong += word[j] != pattern(seed, nr++);
	}
	if (wrong)
		errx(1, "contents are wrong after move %u of folios of %zu KiB: %zu of %zu words",
		     move, area->folio_size / KIB, wrong, nr);
}

/* A word in each page, not zero: what migrates is no zero page. */
static void touch(const struct area *area)
{
	size_t nr = 0;

	for (size_t i = 0; i < area->folios; i++)
		for (size_t j = 0; j < area->list[i].size; j += page_size)
			*(__u64 *)(area->list[i].addr + j) = ++nr;
}

/* What is dirty may be under writeback when it is to migrate. */
static void clean(const struct area *area)
{
	for (unsigned int i = 0; i < area->nr_parts; i++)
		if (area->parts[i].fd >= 0 && fsync(area->parts[i].fd))
			err(1, "cannot write the file back");
}

/* Address space for @len bytes at a multiple of @align, with nothing there. */
static char *reserve_aligned(size_t len, size_t align)
{
	char *map = mmap(NULL, len + align, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (map == MAP_FAILED)
		err(1, "no address space for %zu MiB", len / MIB);
	head = -(uintptr_t)map & (align - 1);
	if (head)
		munmap(map, head);
	if (align - head)
		munmap(map + head + len, align - head);
	return map + head;
}

/* A new file in folios of this size: they are as large as each write. */
static int create_file(size_t len, size_t folio_size)
{
	char *buffer = allocate(1, folio_size);
	int fd = open(options.dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		err(1, "cannot create a file in %s", options.dir);
	for (size_t i = 0; i < len; i += folio_size)
		if (pwrite(fd, buffer, folio_size, i) != (ssize_t)folio_size)
			err(1, "cannot write a file in %s", options.dir);
	free(buffer);
	return fd;
}

static struct part *map_part(struct area *area, enum memory memory, size_t folio_size,
			     size_t len)
{
	static const int flags[] = {
		[MEMORY_ANON]		= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		[MEMORY_SHMEM]		= MAP_SHARED | MAP_ANONYMOUS,
		[MEMORY_FILE]		= MAP_SHARED,
		[MEMORY_HUGETLB]	= MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
	};
	struct part *part = &area->parts[area->nr_parts++];
	int size = memory == MEMORY_HUGETLB ? __builtin_ctzl(folio_size) << MAP_HUGE_SHIFT : 0;
	size_t align = folio_size > MAX_FOLIO_KIB * KIB ? folio_size : MAX_FOLIO_KIB * KIB;

	part->fd = memory == MEMORY_FILE ? create_file(len, folio_size) : -1;
	part->len = len;
	part->addr = mmap(reserve_aligned(len, align), len, PROT_READ | PROT_WRITE,
			  flags[memory] | size | MAP_FIXED, part->fd, 0);
	if (part->addr == MAP_FAILED)
		err(1, "cannot map %zu MiB of %s memory", len / MIB, memory_names[memory]);
	return part;
}

/* Memory of one kind in folios of one size, which are the next ones of the list. */
static void add_part(struct area *area, enum memory memory, size_t folio_size, size_t len)
{
	bool small = folio_size == page_size;
	struct part *part;

	if (memory == MEMORY_ANON || memory == MEMORY_SHMEM)
		allow_only(folio_size / KIB, memory);
	part = map_part(area, memory, folio_size, len);
	/* Without transparent huge pages there is no advice, and no need of it. */
	if (memory != MEMORY_HUGETLB &&
	    madvise(part->addr, len, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) && !small)
		err(1, "cannot ask for huge pages");
	for (size_t i = 0; i < len; i += folio_size) {
		area->list[area->folios++] = (struct folio) {
			.addr = part->addr + i, .size = folio_size, .memory = memory,
		};
		*(__u64 *)(part->addr + i) = i + 1;
	}
}

/* A move meets folios of all kinds, mixed. */
static void shuffle(struct area *area)
{
	__u64 state = 1;

	for (size_t i = area->folios; i > 1; i--) {
		size_t j = random_number(&state) % i;
		struct folio other = area->list[j];

		area->list[j] = area->list[i - 1];
		area->list[i - 1] = other;
	}
}

static void area_check(const struct area *area)
{
	__u64 elsewhere = count_elsewhere(area, options.from);
	const struct folio *first;
	__s64 split = count_split(area, &first);

	if (elsewhere)
		errx(1, "%llu of %zu folios were not allocated on node %d", elsewhere,
		     area->folios, options.from);
	if (split > 0)
		errx(1, "node %d is too fragmented: %lld of %zu folios of %s of %zu KiB are not",
		     options.from, split, area->folios, memory_names[first->memory],
		     first->size / KIB);
}

/* How many huge pages are free on a node, without those on lists of CPUs. */
static __u64 free_huge_pages(int node)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	__u64 count, pages = 0;
	char line[512];
	int of, pos, len;

	if (!file)
		err(1, "cannot read /proc/buddyinfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %d, zone %*s%n", &of, &pos) != 1 || of != node)
			continue;
		for (size_t size = page_size; sscanf(line + pos, "%llu%n", &count, &len) == 1;
		     size *= 2, pos += len)
			pages += size / (MAX_FOLIO_KIB * KIB) * count;
	}
	fclose(file);
	return pages;
}

/*
 * Free one of two folios, while hugetlb holds all that is not in pieces. Which one is random:
 * compaction looks for free pages at multiples of a stride.
 */
static void fragment(struct area *area)
{
	__u64 state = 1;

	/* The kernel raises it if huge pages are allowed. */
	change_setting(MIN_FREE, "512");
	hold_huge_pages(MAX_FOLIO_KIB, node_kib(options.from, "MemTotal") / MAX_FOLIO_KIB);
	area->folios /= 2;
	for (size_t i = 0; i < area->folios; i++) {
		size_t kept = 2 * i + (random_number(&state) >> 32) % 2;

		if (madvise(area->list[kept ^ 1].addr, area->folio_size, MADV_DONTNEED))
			err(1, "cannot free memory");
		area->list[i] = area->list[kept];
	}
	/* What CPUs had on their lists before is whole again. */
	hold_huge_pages(MAX_FOLIO_KIB, held_huge_pages() + free_huge_pages(options.from));
	if (free_huge_pages(options.from))
		errx(1, "node %d is not fragmented: huge pages are free", options.from);
}

/*
 * Move memory to where a huge page of 1 GB was: hugetlb has all else. Page tables, which
 * cannot make way, are on the node that memory was allocated on.
 */
static void fill_contiguous(const struct area *area)
{
	const __u64 kib = node_kib(options.from, "MemTotal");

	hold_huge_pages(huge_kib(), kib / huge_kib());
	if (!held_huge_pages())
		errx(1, "node %d has no room for a huge page of 1 GB", options.from);
	hold_huge_pages(MAX_FOLIO_KIB, kib / MAX_FOLIO_KIB);
	hold_huge_pages(huge_kib(), held_huge_pages() - 1);
	for (size_t i = 0; i < area->folios; i++)
		area->nodes[i] = options.from;
	if (syscall(__NR_move_pages, 0, area->folios, area->named, area->nodes, area->status,
		    MPOL_MF_MOVE))
		err(1, "cannot move memory to node %d", options.from);
	hold_huge_pages(MAX_FOLIO_KIB, 0);
}

static void area_create(struct area *area)
{
	int from = options.addresses == ADDRESSES_CONTIG ? options.to : options.from;
	size_t len = options.mib * MIB;

	area->nr_parts = 0;
	area->folios = 0;
	if (options.memory == MEMORY_HUGETLB) {
		size_t nr = len / area->folio_size;

		reserve_huge_pages(area->folio_size / KIB, options.from, nr);
		reserve_huge_pages(area->folio_size / KIB, options.to, nr);
	}
	if (bind_to(from))
		err(1, "cannot allocate from node %d", from);
	if (options.memory == MEMORY_MIXED) {
		for (unsigned int i = 0; i < ARRAY_SIZE(mixture); i++)
			add_part(area, mixture[i].memory, mixture[i].folio_kib * KIB,
				 mixture[i].folio_kib * KIB * mixture[i].folios);
		shuffle(area);
	} else {
		if (options.addresses == ADDRESSES_COMPACTION)
			len *= 2;
		add_part(area, options.memory, area->folio_size, len);
	}
	touch(area);
	bind_to(-1);
	if (options.addresses == ADDRESSES_COMPACTION)
		fragment(area);
	area->addr = area->parts[0].addr;
	area->len = area->parts[0].len;
	for (size_t i = 0; i < area->folios * area->per_folio; i++)
		area->named[i] = area->list[i / area->per_folio].addr +
				 i % area->per_folio * page_size;
	if (options.addresses == ADDRESSES_CONTIG)
		fill_contiguous(area);
	area_check(area);
	if (makes_huge_pages())
		count_moved(area);
}

static void area_destroy(struct area *area)
{
	for (unsigned int i = 0; i < area->nr_parts; i++) {
		munmap(area->parts[i].addr, area->parts[i].len);
		if (area->parts[i].fd >= 0)
			close(area->parts[i].fd);
	}
}

/* Clocks. */

static __u64 to_ns(const struct timespec *time)
{
	return time->tv_sec * NSEC_PER_SEC + time->tv_nsec;
}

static __u64 monotonic_time(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		err(1, "cannot read the clock");
	return to_ns(&now);
}

static bool read_thread_time(__u64 *ns)
{
	struct timespec time;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time))
		return false;
	*ns = to_ns(&time);
	return true;
}

/* The instrument. */

static bool instrument_present(void)
{
	return !access(INSTRUMENT_DIR "/enabled", W_OK);
}

static void instrument_enable(bool on)
{
	int err;

	if (on)
		save_setting(INSTRUMENT_DIR "/enabled", "0");
	err = write_file(INSTRUMENT_DIR "/enabled", on ? "1" : "0");
	if (err)
		errx(1, "cannot write " INSTRUMENT_DIR "/enabled: %s", strerror(-err));
}

static FILE *instrument_open(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), INSTRUMENT_DIR "/%s", name);
	file = fopen(path, "re");
	if (!file)
		err(1, "cannot read %s", path);
	return file;
}

/* A line "key number" for each of @nr keys, in any order and among others. */
static void instrument_read(const char *name, const char * const *keys, __u64 **values,
			    size_t nr)
{
	FILE *file = instrument_open(name);
	bool found[8] = { false };
	char key[32], line[128];
	__u64 value;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31s %llu", key, &value) != 2)
			continue;
		for (size_t i = 0; i < nr; i++) {
			if (strcmp(key, keys[i]))
				continue;
			*values[i] = value;
			found[i] = true;
		}
	}
	fclose(file);
	for (size_t i = 0; i < nr; i++)
		if (!found[i])
			errx(1, INSTRUMENT_DIR "/%s has no line %s", name, keys[i]);
}

static void read_phases(struct latency *latency)
{
	static const char * const keys[] = {
		"unmap_ns", "flush_ns", "copy_ns", "move_ns", "batches", "lost",
	};
	__u64 *values[] = {
		&latency->unmap, &latency->flush, &latency->copy, &latency->move,
		&latency->batches, &latency->lost,
	};

	instrument_read("phases", keys, values, ARRAY_SIZE(keys));
}

static void read_first_folio(struct latency *latency)
{
	static const char * const keys[] = { "count", "sum_ns" };
	__u64 *values[] = { &latency->first_count, &latency->first_sum };

	instrument_read("first_folio", keys, values, ARRAY_SIZE(keys));
}

struct bucket {
	__u64 low;
	__u64 high;
	__u64 count;
};

/* The middle of the bucket that holds the value with @percent of all below or equal. */
static __u64 percentile(const struct bucket *buckets, size_t nr, __u64 count,
			unsigned int percent)
{
	__u64 rank = (count * percent + 99) / 100;
	__u64 below = 0;

	for (size_t i = 0; i < nr; i++) {
		below += buckets[i].count;
		if (below >= rank)
			return buckets[i].low + (buckets[i].high - buckets[i].low) / 2;
	}
	return 0;
}

static void read_inaccessible(struct latency *latency)
{
	static struct bucket buckets[MAX_BUCKETS];
	FILE *file = instrument_open("inaccessible");
	bool has_max = false;
	char line[128];
	size_t nr = 0;

	latency->count = 0;
	while (fgets(line, sizeof(line), file)) {
		struct bucket *bucket = &buckets[nr];

		if (sscanf(line, "max_ns %llu", &latency->max) == 1) {
			has_max = true;
			continue;
		}
		if (nr + 1 == MAX_BUCKETS ||
		    sscanf(line, "%llu %llu %llu", &bucket->low, &bucket->high,
			   &bucket->count) != 3)
			errx(1, INSTRUMENT_DIR "/inaccessible is no histogram: '%s'",
			     strtok(line, "\n"));
		latency->count += bucket->count;
		nr++;
	}
	fclose(file);
	if (!has_max)
		errx(1, INSTRUMENT_DIR "/inaccessible has no line max_ns");
	latency->p50 = percentile(buckets, nr, latency->count, 50);
	latency->p99 = percentile(buckets, nr, latency->count, 99);
	/* The middle of the last bucket may be above all that is in it. */
	if (latency->p50 > latency->max)
		latency->p50 = latency->max;
	if (latency->p99 > latency->max)
		latency->p99 = latency->max;
}

static void read_latency(struct latency *latency)
{
	read_phases(latency);
	read_first_folio(latency);
	read_inaccessible(latency);
	/* Even if quiet: latencies are not those of all folios then. */
	if (latency->lost)
		fprintf(stderr, "migrate_bench: the instrument lost %llu folios\n",
			latency->lost);
}

/* Threads that use the memory while it moves. */

struct toucher {
	pthread_t thread;
	const struct area *area;
	__u64 per_second;
	/* What was last written to the first word of each page; NULL: it reads. */
	__u64 *written;
	__u64 longest;
};

static bool touching;

static void touch_one(struct toucher *toucher, size_t page)
{
	__u64 *word = (__u64 *)(toucher->area->addr + page * page_size);

	if (toucher->written)
		__atomic_store_n(word, ++toucher->written[page], __ATOMIC_RELAXED);
	else
		__atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Touches that it has no time for are left out: a stall is no reason for a burst. */
static void *touch_pages(void *arg)
{
	struct toucher *toucher = arg;
	__u64 burst = (toucher->per_second + MAX_WAKEUPS - 1) / MAX_WAKEUPS;
	__u64 interval = burst * NSEC_PER_SEC / toucher->per_second;
	size_t pages = toucher->area->len / page_size;
	__u64 state = toucher->written ? 1 : 2;
	__u64 due = monotonic_time();

	while (__atomic_load_n(&touching, __ATOMIC_RELAXED)) {
		__u64 begin, end = monotonic_time();
		struct timespec wake;

		for (__u64 i = 0; i < burst; i++) {
			begin = end;
			touch_one(toucher, random_number(&state) % pages);
			end = monotonic_time();
			if (end - begin > toucher->longest)
				toucher->longest = end - begin;
		}
		due += ((end - due) / interval + 1) * interval;
		wake.tv_sec = due / NSEC_PER_SEC;
		wake.tv_nsec = due % NSEC_PER_SEC;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
	}
	return NULL;
}

/* The mover does not keep @toucher from a processor, nor does the one of lower @priority. */
static void toucher_start(struct toucher *toucher, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	err = pthread_create(&toucher->thread, &attr, touch_pages, toucher);
	if (err)
		errx(1, "cannot start a thread with real-time priority: %s", strerror(err));
	pthread_attr_destroy(&attr);
}

static void check_written(const struct area *area, const __u64 *written)
{
	size_t lost = 0;

	for (size_t i = 0; i < area->len / page_size; i++)
		lost += *(__u64 *)(area->addr + i * page_size) != written[i];
	if (lost)
		errx(1, "%zu pages of folios of %zu KiB lost what was written meanwhile", lost,
		     area->folio_size / KIB);
}

static __s64 read_copied_twice(void)
{
	char line[32];

	return read_line(COPIED_TWICE, line, sizeof(line)) ? strtoll(line, NULL, 10) : -1;
}

/* Measurements. */

/* Moves what is named from @first on, @nr times. All of it goes to the same node. */
static long call_one(const struct area *area, size_t first, size_t nr)
{
	struct node_mask mask;

	if (options.addresses != ADDRESSES_RANGE)
		return syscall(__NR_move_pages, 0, nr, area->named + first, area->nodes + first,
			       area->status + first, MPOL_MF_MOVE);
	mask = mask_of(area->nodes[first]);
	return syscall(__NR_mbind, area->named[first], nr * area->folio_size, MPOL_BIND,
		       mask.bits, MAX_NODES + 1, MPOL_MF_MOVE);
}

static const char *own_cgroup(const char *file)
{
	static char path[512];
	char line[256];

	if (!read_line("/proc/self/cgroup", line, sizeof(line)) || strncmp(line, "0::", 3))
		errx(1, "this process is in no cgroup of version 2");
	snprintf(path, sizeof(path), CGROUPS "%s/%s", line + 3, file);
	return path;
}

/* Reclaim gives up where it gets no further: what is left is counted later. */
static int demote(const struct area *area)
{
	char request[64];

	snprintf(request, sizeof(request), "%zu swappiness=200", area->folios * area->folio_size);
	write_file(own_cgroup("memory.reclaim"), request);
	return 0;
}

static int compact_node(void)
{
	char path[64];

	snprintf(path, sizeof(path), NODE_DIR "/node%d/compact", options.from);
	return write_file(path, "1");
}

static int make_way(void)
{
	hold_huge_pages(huge_kib(), held_huge_pages() + 1);
	return 0;
}

static int call_all(const struct area *area)
{
	size_t nr = area->folios * area->per_folio;
	size_t step = options.folios_per_call ? options.folios_per_call * area->per_folio : nr;

	if (options.addresses == ADDRESSES_RECLAIM)
		return demote(area);
	if (options.addresses == ADDRESSES_COMPACTION)
		return compact_node();
	if (options.addresses == ADDRESSES_CONTIG)
		return make_way();
	for (size_t i = 0; i < nr; i += step) {
		size_t left = nr - i;

		/* What a positive result says of some folios is counted later, of all. */
		if (call_one(area, i, left < step ? left : step) < 0)
			return -errno;
	}
	return 0;
}

static void time_calls(const struct area *area, struct sample *sample)
{
	__u64 cpu[2] = { 0 };
	__u64 start, end;
	int err;

	sample->has_cpu = read_thread_time(&cpu[0]);
	start = monotonic_time();
	err = call_all(area);
	end = monotonic_time();
	sample->has_cpu = sample->has_cpu && read_thread_time(&cpu[1]);
	if (err)
		errx(1, "cannot move pages between nodes %d and %d: %s", options.from,
		     options.to, strerror(-err));

	/* Whatever the clock's resolution, nothing is done in no time. */
	sample->elapsed = end > start ? end - start : 1;
	sample->cpu = cpu[1] - cpu[0];
}

static void time_touched(const struct area *area, struct sample *sample)
{
	static __u64 *written;
	size_t pages = area->len / page_size;
	struct toucher reader = { .area = area, .per_second = options.reads };
	struct toucher writer = { .area = area, .per_second = options.writes };
	__s64 twice = read_copied_twice();

	if (!written)
		written = allocate(pages, sizeof(*written));
	for (size_t i = 0; i < pages; i++)
		written[i] = *(__u64 *)(area->addr + i * page_size);
	writer.written = written;

	touching = true;
	toucher_start(&reader, 2);
	toucher_start(&writer, 1);
	time_calls(area, sample);
	__atomic_store_n(&touching, false, __ATOMIC_RELAXED);
	pthread_join(reader.thread, NULL);
	pthread_join(writer.thread, NULL);

	sample->read = reader.longest;
	sample->write = writer.longest;
	sample->twice = twice < 0 ? -1 : read_copied_twice() - twice;
	check_written(area, written);
}

/* @latency may be NULL: without the instrument. */
static void measure_move(struct area *area, unsigned int move, struct sample *sample,
			 struct latency *latency)
{
	static __u64 seed;
	int target = move == 1 ? options.to : options.from;
	const struct folio *first;
	__u64 held = 0;

	for (size_t i = 0; i < area->folios * area->per_folio; i++)
		area->nodes[i] = target;
	/* New contents for each move: those of the one before may still be anywhere. */
	if (options.verify)
		fill(area, ++seed);
	else
		touch(area);
	clean(area);
	/* What nobody has used for long is on the inactive list, and not young. */
	if (options.addresses == ADDRESSES_RECLAIM && madvise(area->addr, area->len, MADV_COLD))
		err(1, "cannot make memory cold");

	if (options.addresses == ADDRESSES_CONTIG)
		held = held_huge_pages();
	if (latency)
		instrument_enable(true);
	if (options.reads)
		time_touched(area, sample);
	else
		time_calls(area, sample);
	if (latency) {
		instrument_enable(false);
		read_latency(latency);
	}

	if (makes_huge_pages()) {
		sample->failed = area->folios - count_moved(area);
		if (sample->failed == area->folios)
			errx(1, "no folio of %zu KiB has moved", area->folio_size / KIB);
		sample->huge = options.addresses == ADDRESSES_CONTIG ?
			       held_huge_pages() - held : free_huge_pages(options.from);
		if (sample->huge > huge_wanted())
			sample->huge = huge_wanted();
	} else {
		sample->failed = count_elsewhere(area, target);
	}
	sample->split = count_split(area, &first);
	if (options.verify)
		compare(area, seed, move);
}

static void measure(struct area *area, struct sample *samples[NR_MOVES],
		    struct latency *latencies[NR_MOVES])
{
	__u64 held = makes_huge_pages() ? held_huge_pages() : 0;

	area_create(area);
	for (unsigned int i = 0; i < options.moves; i++)
		measure_move(area, i + 1, samples[i], latencies ? latencies[i] : NULL);
	area_destroy(area);
	if (makes_huge_pages())
		hold_huge_pages(huge_kib(), held);
}

static double square_root(double value)
{
	double root = value > 1 ? value : 1;

	/* Newton's method; more than enough steps for any deviation of a speed. */
	for (unsigned int i = 0; value > 0 && i < 100; i++)
		root = (root + value / root) / 2;
	return value > 0 ? root : 0;
}

/* Speeds are those of folios that did arrive. */
static double sample_gbps(const struct result *result, const struct sample *sample)
{
	double share = (double)(result->folios - sample->failed) / result->folios;
	unsigned long kib;

	if (options.memory == MEMORY_MIXED)
		count_mixed(&kib);
	else
		kib = options.mib * KIB;
	return share * kib * KIB / sample->elapsed;
}

static void summarise(struct result *result)
{
	double sum = 0, squares = 0, ns = 0;

	for (unsigned int i = 0; i < result->nr; i++) {
		const struct sample *sample = &result->samples[i];
		double gbps = sample_gbps(result, sample);

		sum += gbps;
		if (!i || gbps < result->gbps_min)
			result->gbps_min = gbps;
		ns += (double)sample->elapsed / result->folios;
		if (sample->failed > result->failed)
			result->failed = sample->failed;
		if (!i || sample->split > result->split)
			result->split = sample->split;
		if (sample->read > result->read)
			result->read = sample->read;
		if (sample->write > result->write)
			result->write = sample->write;
		if (!i || sample->twice > result->twice)
			result->twice = sample->twice;
		if (!i || sample->huge < result->huge)
			result->huge = sample->huge;
	}
	result->gbps_mean = sum / result->nr;
	result->ns_per_folio = ns / result->nr;

	for (unsigned int i = 0; i < result->nr; i++) {
		double off = sample_gbps(result, &result->samples[i]) - result->gbps_mean;

		squares += off * off;
	}
	if (result->nr > 1)
		result->gbps_sd = square_root(squares / (result->nr - 1));
}

/* Fills in one result for each move. */
static void measure_size(struct area *area, unsigned long folio_kib, struct result *results,
			 bool instrumented)
{
	bool plain = options.instrument != INSTRUMENT_ONLY;
	struct latency *latencies[NR_MOVES];
	struct sample *samples[NR_MOVES];
	struct sample dropped[NR_MOVES];

	size_t folios = options.mib * KIB / folio_kib;
	unsigned long kib;

	if (options.memory == MEMORY_MIXED)
		folios = count_mixed(&kib);
	area->folio_size = folio_kib * KIB;
	area->per_folio = options.addresses == ADDRESSES_ALL ? area->folio_size / page_size : 1;

	for (unsigned int i = 0; i < options.moves; i++) {
		results[i] = (struct result) {
			.folio_kib = folio_kib,
			.move = i + 1,
			.folios = folios,
			.nr = plain ? options.repeat : 1,
			.has_latency = instrumented,
		};
		results[i].samples = allocate(results[i].nr, sizeof(struct sample));
		latencies[i] = &results[i].latency;
		samples[i] = &dropped[i];
	}

	for (unsigned int i = 0; i < options.warmup; i++)
		measure(area, samples, NULL);
	for (unsigned int i = 0; plain && i < options.repeat; i++) {
		for (unsigned int j = 0; j < options.moves; j++)
			samples[j] = &results[j].samples[i];
		measure(area, samples, NULL);
	}
	if (instrumented) {
		for (unsigned int i = 0; i < options.moves; i++)
			samples[i] = plain ? &dropped[i] : results[i].samples;
		measure(area, samples, latencies);
	}
	for (unsigned int i = 0; i < options.moves; i++)
		summarise(&results[i]);
}

/* Output. Decimal points are points, whatever the locale. */

#define NUMBER_SIZE	48

static const char *decimal(char *buf, double value, unsigned int digits)
{
	__u64 unit = 1;
	__u64 scaled;

	for (unsigned int i = 0; i < digits; i++)
		unit *= 10;
	scaled = value * unit + 0.5;
	snprintf(buf, NUMBER_SIZE, "%llu.%0*llu", scaled / unit, (int)digits,
		 scaled % unit);
	return buf;
}

static void print_table_head(void)
{
	fprintf(stderr, "%9s %4s %9s %8s %9s %11s %6s %6s %11s %11s %11s\n", "folio KiB",
		"move", "GB/s", "sd", "min", "ns/folio", "failed", "split", "first us",
		"p50 us", "max us");
}

static void print_us(double ns, bool known)
{
	char buf[NUMBER_SIZE];

	fprintf(stderr, " %11s", known ? decimal(buf, ns / 1000, 1) : "-");
}

static void print_table_row(const struct result *result, bool first)
{
	const struct latency *latency = &result->latency;
	bool has_first = result->has_latency && latency->first_count;
	bool has_times = result->has_latency && latency->count;
	char buf[NUMBER_SIZE];

	if (first)
		print_table_head();
	fprintf(stderr, "%9lu %4u", result->folio_kib, result->move);
	fprintf(stderr, " %9s", decimal(buf, result->gbps_mean, 3));
	fprintf(stderr, " %8s", decimal(buf, result->gbps_sd, 3));
	fprintf(stderr, " %9s", decimal(buf, result->gbps_min, 3));
	fprintf(stderr, " %11s", decimal(buf, result->ns_per_folio, 1));
	fprintf(stderr, " %6llu %6lld", result->failed, result->split);
	print_us(has_first ? (double)latency->first_sum / latency->first_count : 0, has_first);
	print_us(latency->p50, has_times);
	print_us(latency->max, has_times);
	fputc('\n', stderr);
}

static void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if ((unsigned char)*text < ' ')
			fprintf(out, "\\u%04x", *text);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
	fputc('"', out);
}

static void json_line_of(FILE *out, const char *path)
{
	char line[256];

	if (read_line(path, line, sizeof(line))) {
		keep_selected(line);
		json_string(out, line);
	} else {
		fputs("null", out);
	}
}

static bool flag_set(const char *path)
{
	char line[16];

	return read_line(path, line, sizeof(line)) && strchr("Yy1", line[0]) && line[0];
}

static void json_cpu_model(FILE *out)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256], model[256] = "";

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %255[^\n]", model) == 1)
			break;
	if (file)
		fclose(file);
	if (model[0])
		json_string(out, model);
	else
		fputs("null", out);
}

/* All parameters of a module as an object of strings; null without the module. */
static void json_parameters(FILE *out, const char *module)
{
	char dir[128], path[512];
	bool first = true;
	struct dirent *entry;
	DIR *parameters;

	snprintf(dir, sizeof(dir), "/sys/module/%s/parameters", module);
	parameters = opendir(dir);
	if (!parameters) {
		fputs("null", out);
		return;
	}
	fputc('{', out);
	while ((entry = readdir(parameters))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (!first)
			fputs(", ", out);
		first = false;
		json_string(out, entry->d_name);
		fputs(": ", out);
		json_line_of(out, path);
	}
	fputc('}', out);
	closedir(parameters);
}

/*
 * DMA drivers whose channels dcbm holds, each once, and how many channels it may use: those
 * that are not quarantined. The second and fourth columns of its file in debugfs say so.
 */
static void json_channels(FILE *out)
{
	FILE *file = fopen(DCBM_CHANNELS, "re");
	char line[256], provider[64], state[32];
	char seen[MAX_PROVIDERS][64];
	unsigned int nr = 0, nr_seen = 0;

	if (!file) {
		fputs("\"providers\": null, \"channels\": null", out);
		return;
	}
	fputs("\"providers\": [", out);
	/* The first line names the columns. */
	while (fgets(line, sizeof(line), file)) {
		unsigned int i = 0;

		if (sscanf(line, "%*s %63s %*d %31s", provider, state) != 2 ||
		    !strcmp(state, "quarantined"))
			continue;
		nr++;
		while (i < nr_seen && strcmp(seen[i], provider))
			i++;
		if (i < nr_seen || nr_seen == MAX_PROVIDERS)
			continue;
		strcpy(seen[nr_seen++], provider);
		fputs(i ? ", " : "", out);
		json_string(out, provider);
	}
	fclose(file);
	fprintf(out, "], \"channels\": %u", nr);
}

/* A line of a file of the route for what was measured. */
static bool read_route(const char *name, char *line, size_t size)
{
	char path[128];

	snprintf(path, sizeof(path), ROUTES_DIR "/%s/%s", reasons[options.addresses], name);
	return read_line(path, line, size);
}

/* As the administrator said; or, if the kernel decides, whether it was so. */
static bool copied_live(void)
{
	char live[16], copied[32];

	if (!read_route("live", live, sizeof(live)))
		return false;
	if (strcmp(live, "auto"))
		return !strcmp(live, "1");
	return read_route("stats/live_copied", copied, sizeof(copied)) && strcmp(copied, "0");
}

static void json_offload(FILE *out)
{
	char migrator[64], bound[32];

	if (!read_route("migrator", migrator, sizeof(migrator))) {
		fputs("null", out);
		return;
	}
	fprintf(out, "{\"enabled\": %s, \"migrator\": ",
		flag_set(OFFLOAD_DIR "/enabled") ? "true" : "false");
	json_string(out, migrator);
	fputs(",\n    \"parameters\": ", out);
	json_parameters(out, migrator);
	fputs(",\n    ", out);
	json_channels(out);
	fputs(", \"copy_pages\": ", out);
	json_line_of(out, COPY_PRIMITIVE);
	fprintf(out, ", \"live\": %s", copied_live() ? "true" : "false");
	fprintf(out, ", \"max_inaccessible_us\": %s}",
		read_route("max_inaccessible_us", bound, sizeof(bound)) ? bound : "0");
}

static void json_machine(FILE *out, int nr_nodes)
{
	struct utsname system;

	uname(&system);
	fputs("  \"program\": \"migrate_bench\",\n  \"kernel\": ", out);
	json_string(out, system.release);
	fprintf(out, ",\n  \"machine\": {\"cpus\": %ld, \"nodes\": %d, \"model\": ",
		sysconf(_SC_NPROCESSORS_ONLN), nr_nodes);
	json_cpu_model(out);
	fprintf(out, "},\n  \"from\": %d,\n  \"to\": %d,\n  \"mib\": %lu", options.from,
		options.to, options.mib);
	fprintf(out, ",\n  \"folios_per_call\": %lu", options.folios_per_call);
	fprintf(out, ",\n  \"addresses\": \"%s\"", addresses_names[options.addresses]);
	fprintf(out, ",\n  \"memory\": \"%s\"", memory_names[options.memory]);
	fputs(",\n  \"offload\": ", out);
	json_offload(out);
}

static void json_times(FILE *out, const char *name, const struct result *result,
		       size_t offset, bool known)
{
	fprintf(out, ",\n     \"%s\": ", name);
	if (!known) {
		fputs("null", out);
		return;
	}
	for (unsigned int i = 0; i < result->nr; i++) {
		const char *sample = (const char *)&result->samples[i];

		fprintf(out, "%s%llu", i ? ", " : "[", *(const __u64 *)(sample + offset));
	}
	fputc(']', out);
}

static void json_latency(FILE *out, const struct result *result)
{
	const struct latency *latency = &result->latency;
	char buf[NUMBER_SIZE];

	if (result->has_latency && latency->first_count)
		fprintf(out, ",\n     \"first_folio_ns\": %s",
			decimal(buf, (double)latency->first_sum / latency->first_count, 1));
	else
		fputs(",\n     \"first_folio_ns\": null", out);

	fputs(",\n     \"inaccessible_ns\": ", out);
	if (result->has_latency && latency->count) {
		fprintf(out, "{\"p50\": %llu, \"p99\": %llu", latency->p50, latency->p99);
		fprintf(out, ", \"max\": %llu, \"count\": %llu}", latency->max, latency->count);
	} else {
		fputs("null", out);
	}

	fputs(",\n     \"phases_ns\": ", out);
	if (result->has_latency) {
		fprintf(out, "{\"unmap\": %llu, \"flush\": %llu", latency->unmap, latency->flush);
		fprintf(out, ", \"copy\": %llu, \"move\": %llu", latency->copy, latency->move);
		fprintf(out, ", \"batches\": %llu}", latency->batches);
	} else {
		fputs("null", out);
	}
}

static void json_touch(FILE *out, const struct result *result)
{
	fputs(",\n     \"touch\": ", out);
	if (!options.reads) {
		fputs("null", out);
		return;
	}
	fprintf(out, "{\"reads_per_s\": %lu, \"writes_per_s\": %lu", options.reads,
		options.writes);
	fprintf(out, ", \"read_ns\": %llu, \"write_ns\": %llu, \"copied_twice\": ",
		result->read, result->write);
	if (result->twice < 0)
		fputs("null}", out);
	else
		fprintf(out, "%lld}", result->twice);
}

static void json_result(FILE *out, const struct result *result)
{
	char buf[NUMBER_SIZE];
	bool has_cpu = true;

	for (unsigned int i = 0; i < result->nr; i++)
		has_cpu &= result->samples[i].has_cpu;
	fprintf(out, "    {\"folio_kib\": %lu, \"move\": %u, \"folios\": %llu",
		result->folio_kib, result->move, result->folios);
	fprintf(out, ",\n     \"gbps_mean\": %s", decimal(buf, result->gbps_mean, 6));
	fprintf(out, ", \"gbps_sd\": %s", decimal(buf, result->gbps_sd, 6));
	fprintf(out, ", \"gbps_min\": %s", decimal(buf, result->gbps_min, 6));
	fprintf(out, ", \"ns_per_folio\": %s", decimal(buf, result->ns_per_folio, 3));
	json_times(out, "elapsed_ns", result, offsetof(struct sample, elapsed), true);
	json_times(out, "cpu_ns", result, offsetof(struct sample, cpu), has_cpu);
	fprintf(out, ",\n     \"folios_failed\": %llu, \"folios_split\": %lld",
		result->failed, result->split);
	fprintf(out, ", \"latency_lost\": %llu", result->latency.lost);
	json_latency(out, result);
	json_touch(out, result);
	if (makes_huge_pages())
		fprintf(out, ",\n     \"huge_pages\": {\"wanted\": %llu, \"got\": %llu}",
			huge_wanted(), result->huge);
	fputc('}', out);
}

static void print_json(FILE *out, const struct result *results, size_t nr, int nr_nodes)
{
	fputs("{\n", out);
	json_machine(out, nr_nodes);
	fputs(",\n  \"runs\": [", out);
	for (size_t i = 0; i < nr; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_result(out, &results[i]);
	}
	fputs("\n  ]\n}\n", out);
}

/* Command line. */

static void usage(void)
{
	fputs("Usage: migrate_bench [options]\n"
	      "Move memory between two NUMA nodes with move_pages(2), there (move 1) and back\n"
	      "(move 2), and tell how long it takes. Folios larger than a page need root. Huge\n"
	      "page settings, demotion, NUMA balancing and for compaction min_free_kbytes of\n"
	      "the whole machine are changed while it runs, and restored afterwards.\n"
	      "\n"
	      "  --folio-kib=LIST     folio sizes in KiB: powers of two from 4 to 2048 except 8,\n"
	      "                       with commas between (default 4,16,64,256,1024,2048);\n"
	      "                       with --memory=hugetlb up to 1048576\n"
	      "  --memory=KIND        anon (default); shmem; file: a new one in --dir; hugetlb;\n"
	      "                       mixed: ten thousand folios of 4, 64 and 2048 KiB of the\n"
	      "                       first three kinds, whatever --mib and --folio-kib say\n"
	      "  --dir=DIR            where files are, of a file system with large folios\n"
	      "                       (default /tmp)\n"
	      "  --mib=N              memory moved per measurement, in MiB (default 256)\n"
	      "  --folios-per-call=N  folios that one call gets; 0: all of them (default 0)\n"
	      "  --addresses=WHICH    what a call gets of each folio: heads: the address of its\n"
	      "                       first page (default); all: those of all its pages;\n"
	      "                       range: mbind(2) gets the range of all folios.\n"
	      "                       No call: with reclaim the memory is cold, and demoted to\n"
	      "                       a lower tier by memory.reclaim of this program's cgroup;\n"
	      "                       with compaction half of twice as much memory is freed,\n"
	      "                       folio by folio, while hugetlb holds all that is free of\n"
	      "                       --from, which is then compacted; with contig a huge page\n"
	      "                       of 1 GB is made where the memory is. --moves is 1\n"
	      "  --from=NODE          node that memory is allocated on\n"
	      "  --to=NODE            node that it moves to, and back from\n"
	      "                       (default: the first two nodes with memory)\n"
	      "  --moves=N            1: only there; 2: there and back (default 2)\n"
	      "  --warmup=N           measurements dropped before each size (default 1)\n"
	      "  --repeat=N           measurements of each size, 1 to 1000 (default 3)\n"
	      "  --instrument=WHEN    use the kernel's latency instrument, if there is one:\n"
	      "                       auto: in one more measurement, apart from those of speed\n"
	      "                       (default); off: never; only: in the only measurement, and\n"
	      "                       speeds include what it costs\n"
	      "  --touch=R,W          while memory moves, one thread reads R random pages of it a\n"
	      "                       second, another writes to W, and no write may get lost.\n"
	      "                       They have real-time priority (needs root): they wait for\n"
	      "                       memory, and not for a processor. A thread leaves out what\n"
	      "                       it has no time for\n"
	      "  --verify             fill memory with a pattern before each move, and compare\n"
	      "                       after it, outside the time measured\n"
	      "  --output=FILE        where JSON goes (default: standard output)\n"
	      "  --quiet              no table on standard error\n"
	      "  --help               this text\n"
	      "\n"
	      "Speeds are in GB/s (10^9 bytes per second) of the folios that arrived; times\n"
	      "are in ns, and per folio for all folios. folios_failed and folios_split are the\n"
	      "most of any repetition; folios_split is -1 where /proc/kpageflags is not\n"
	      "readable. latency_lost counts folios that are in no latency. offload says which\n"
	      "migrator copied, with the parameters of its module. With compaction and contig\n"
	      "failed are folios that stayed; huge_pages are those that there were to be (for\n"
	      "compaction, of twice as much free memory), and those that there are. With\n"
	      "--touch, read_ns and write_ns are the longest that an access took, and\n"
	      "copied_twice counts folios that were written while the kernel copied them: most\n"
	      "of any repetition, too.\n",
	      stdout);
}

static unsigned long parse_number(const char *text, const char *option, unsigned long min,
				  unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < min || value > max)
		errx(2, "--%s: '%s' is not a number from %lu to %lu", option, text, min, max);
	return value;
}

static void add_size(const char *text)
{
	unsigned long kib = parse_number(text, "folio-kib", MIN_FOLIO_KIB, MAX_HUGETLB_KIB);

	if (kib & (kib - 1) || kib == 8)
		errx(2, "--folio-kib: there are no folios of %lu KiB", kib);
	for (unsigned int i = 0; i < options.nr_sizes; i++)
		if (options.folio_kib[i] == kib)
			errx(2, "--folio-kib: %lu is there twice", kib);
	options.folio_kib[options.nr_sizes++] = kib;
}

static void parse_sizes(char *list)
{
	char *text;

	options.nr_sizes = 0;
	while ((text = strsep(&list, ",")))
		add_size(text);
}

/* Which of @nr names @text is. */
static unsigned int parse_name(const char *text, const char *option,
			       const char * const *names, unsigned int nr)
{
	char known[64] = "";
	size_t len = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (!strcmp(text, names[i]))
			return i;
		len += snprintf(known + len, sizeof(known) - len, "%s%s",
				!i ? "" : i == nr - 1 ? " or " : ", ", names[i]);
	}
	errx(2, "--%s: '%s' is not %s", option, text, known);
}

static void parse_touch(char *list)
{
	const char *reads = strsep(&list, ",");

	if (!list)
		errx(2, "--touch: '%s' is not two numbers with a comma between", reads);
	options.reads = parse_number(reads, "touch", 1, MAX_TOUCHES);
	options.writes = parse_number(list, "touch", 1, MAX_TOUCHES);
}

static void adjust_options(void)
{
	unsigned long kib;

	if (options.addresses >= ADDRESSES_RECLAIM)
		options.moves = 1;
	else if (options.memory == MEMORY_ANON)
		return;
	if (options.reads)
		errx(2, "--touch is for anonymous memory that calls move");
	if (options.addresses != ADDRESSES_HEADS && options.memory != MEMORY_ANON)
		errx(2, "--addresses is for anonymous memory");
	if (options.memory == MEMORY_MIXED) {
		count_mixed(&kib);
		options.mib = (kib + KIB - 1) / KIB;
		options.nr_sizes = 1;
		options.folio_kib[0] = MIN_FOLIO_KIB;
	}
	for (unsigned int i = 0; i < options.nr_sizes; i++)
		if (options.folio_kib[i] > MAX_FOLIO_KIB && options.memory != MEMORY_HUGETLB)
			errx(2, "--folio-kib: only hugetlb folios are larger than %u KiB",
			     MAX_FOLIO_KIB);
}

static void parse_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "folio-kib", required_argument, NULL, 'k' },
		{ "mib", required_argument, NULL, 'm' },
		{ "folios-per-call", required_argument, NULL, 'c' },
		{ "addresses", required_argument, NULL, 'a' },
		{ "memory", required_argument, NULL, 'M' },
		{ "dir", required_argument, NULL, 'd' },
		{ "from", required_argument, NULL, 'f' },
		{ "to", required_argument, NULL, 't' },
		{ "moves", required_argument, NULL, 'n' },
		{ "warmup", required_argument, NULL, 'w' },
		{ "repeat", required_argument, NULL, 'r' },
		{ "instrument", required_argument, NULL, 'i' },
		{ "touch", required_argument, NULL, 'T' },
		{ "verify", no_argument, NULL, 'v' },
		{ "output", required_argument, NULL, 'o' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		switch (option) {
		case 'k':
			parse_sizes(optarg);
			break;
		case 'm':
			options.mib = parse_number(optarg, "mib", 1, MAX_MIB);
			break;
		case 'c':
			options.folios_per_call = parse_number(optarg, "folios-per-call", 0,
							       INT_MAX);
			break;
		case 'a':
			options.addresses = parse_name(optarg, "addresses", addresses_names,
						       ARRAY_SIZE(addresses_names));
			break;
		case 'M':
			options.memory = parse_name(optarg, "memory", memory_names,
						    ARRAY_SIZE(memory_names));
			break;
		case 'd':
			options.dir = optarg;
			break;
		case 'f':
			options.from = parse_number(optarg, "from", 0, MAX_NODES - 1);
			break;
		case 't':
			options.to = parse_number(optarg, "to", 0, MAX_NODES - 1);
			break;
		case 'n':
			options.moves = parse_number(optarg, "moves", 1, NR_MOVES);
			break;
		case 'w':
			options.warmup = parse_number(optarg, "warmup", 0, MAX_REPEAT);
			break;
		case 'r':
			options.repeat = parse_number(optarg, "repeat", 1, MAX_REPEAT);
			break;
		case 'i':
			options.instrument = parse_name(optarg, "instrument", instrument_names,
							ARRAY_SIZE(instrument_names));
			break;
		case 'T':
			parse_touch(optarg);
			break;
		case 'v':
			options.verify = true;
			break;
		case 'o':
			options.output = optarg;
			break;
		case 'q':
			options.quiet = true;
			break;
		case 'h':
			usage();
			exit(0);
		default:
			/* getopt_long() has said what is wrong. */
			exit(2);
		}
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s'", argv[optind]);
	if (options.verify && options.reads)
		errx(2, "--touch changes what --verify compares");
	if (options.from >= 0 && options.from == options.to)
		errx(2, "--from and --to are both node %d", options.from);
	adjust_options();
}

/* Everything that can be refused is, before anything is changed or measured. */
static void check_machine(int *nr_nodes)
{
	choose_nodes(nr_nodes);
	for (unsigned int i = 0; i < options.nr_sizes; i++)
		check_size(options.folio_kib[i]);
	if (options.instrument == INSTRUMENT_ONLY && !instrument_present())
		err(1, "cannot write " INSTRUMENT_DIR "/enabled");
	if (options.memory == MEMORY_HUGETLB)
		return;
	check_free(options.from);
	if (makes_huge_pages() && !frames_readable())
		errx(1, "cannot see what has moved: needs root");
	check_free(options.to);
	if (options.addresses == ADDRESSES_RECLAIM &&
	    access(own_cgroup("memory.reclaim"), W_OK))
		err(1, "cannot write %s", own_cgroup("memory.reclaim"));
}

static void prepare_area(struct area *area)
{
	size_t smallest = options.folio_kib[0];
	size_t nr;

	if (options.addresses == ADDRESSES_ALL)
		smallest = page_size / KIB;
	for (unsigned int i = 1; i < options.nr_sizes; i++)
		if (options.folio_kib[i] < smallest)
			smallest = options.folio_kib[i];
	nr = options.mib * KIB / smallest;
	if (options.addresses == ADDRESSES_COMPACTION)
		nr *= 2;
	area->list = allocate(nr, sizeof(*area->list));
	area->named = allocate(nr, sizeof(*area->named));
	area->nodes = allocate(nr, sizeof(*area->nodes));
	area->status = allocate(nr, sizeof(*area->status));
	area->frames = allocate(nr, sizeof(*area->frames));
}

/* Nothing compacts but what is measured, and it finds all that is free. */
static void prepare_compaction(void)
{
	if (change_setting(PROACTIVENESS, "0") || change_setting(CPU_LISTS, "1000000"))
		errx(1, "cannot keep others from compaction, and CPUs from what is free");
}

static FILE *open_output(void)
{
	FILE *out = options.output ? fopen(options.output, "we") : stdout;

	if (!out)
		err(1, "cannot write %s", options.output);
	return out;
}

int main(int argc, char **argv)
{
	static struct result results[MAX_SIZES * NR_MOVES];
	struct area area = { };
	bool instrumented;
	size_t nr = 0;
	int nr_nodes;
	FILE *out;

	page_size = sysconf(_SC_PAGESIZE);
	parse_options(argc, argv);
	check_machine(&nr_nodes);
	out = open_output();
	prepare_area(&area);
	instrumented = options.instrument != INSTRUMENT_OFF && instrument_present();

	restore_at_end();
	/* Balancing must not move the memory meanwhile. Not every kernel has it. */
	change_setting(NUMA_BALANCING, "0");
	if (options.addresses == ADDRESSES_RECLAIM && change_setting(DEMOTION, "true"))
		err(1, "cannot write " DEMOTION);
	if (options.addresses == ADDRESSES_COMPACTION)
		prepare_compaction();

	for (unsigned int i = 0; i < options.nr_sizes; i++) {
		measure_size(&area, options.folio_kib[i], &results[nr], instrumented);
		for (unsigned int j = 0; j < options.moves; j++, nr++)
			if (!options.quiet)
				print_table_row(&results[nr], !nr);
	}

	print_json(out, results, nr, nr_nodes);
	if (fflush(out) || ferror(out))
		err(1, "cannot write the results");
	return 0;
}
