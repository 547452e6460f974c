// SPDX-License-Identifier: GPL-2.0
/*
 * Moving memory of every folio size in every way: is every byte right, how fast is it, and
 * how long does a thread wait that touches the memory meanwhile.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>

#include "doctor.h"

#define NODE_DIR	"/sys/devices/system/node"
#define LARGEST_KIB	2048UL
/* What one call moves: it cannot be interrupted. */
#define CALL_BYTES	(64 * MIB)
/* Of so many accesses one is a write. */
#define WRITE_EVERY	16
/* Others use memory as well. */
#define RESERVE		(64 * MIB)
/* Folios of another size are no measurement of this one. */
#define MOST_OTHERS	100

#define FLAG(bit)	(1ULL << (bit))
#define PAGEMAP_PRESENT	FLAG(63)
#define PAGEMAP_PFN	(FLAG(55) - 1)

static size_t page_size;

struct area {
	uint64_t *words;
	size_t size;
	size_t folio;
	uint64_t seed;
	/* What the thread wrote last to the first word of each page; 0: nothing. */
	uint64_t *written;
};

struct toucher {
	pthread_t thread;
	struct area *area;
	bool stop;
	uint64_t accesses;
	double longest_us;
};

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static uint64_t stamp_of(const struct area *area, size_t index)
{
	uint64_t value = ((area->seed << 40) + index + 1) * 0x9e3779b97f4a7c15ULL;

	return value ^ (value >> 29);
}

/* Each move gets contents of its own: pages that nobody copied may still have the last. */
static void stamp(struct area *area)
{
	area->seed++;
	for (size_t i = 0; i < area->size / sizeof(uint64_t); i++)
		area->words[i] = stamp_of(area, i);
	memset(area->written, 0, area->size / page_size * sizeof(*area->written));
}

static size_t wrong_bytes(const struct area *area)
{
	const size_t words = page_size / sizeof(uint64_t);
	size_t wrong = 0;

	for (size_t i = 0; i < area->size / sizeof(uint64_t); i++) {
		uint64_t expected = i % words ? 0 : area->written[i / words];
		uint64_t differing = area->words[i] ^ (expected ?: stamp_of(area, i));

		for (; differing; differing >>= 8)
			wrong += !!(differing & 0xff);
	}
	return wrong;
}

static void *touch(void *argument)
{
	struct toucher *toucher = argument;
	struct area *area = toucher->area;
	const size_t pages = area->size / page_size;
	uint64_t random = 1;

	while (!__atomic_load_n(&toucher->stop, __ATOMIC_RELAXED)) {
		double begin, took;
		size_t page;
		uint64_t *word;

		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		page = (random >> 33) % pages;
		word = area->words + page * (page_size / sizeof(uint64_t));
		begin = seconds_now();
		if (toucher->accesses++ % WRITE_EVERY) {
			__atomic_load_n(word, __ATOMIC_RELAXED);
		} else {
			__atomic_store_n(word, random, __ATOMIC_RELAXED);
			area->written[page] = random;
		}
		took = (seconds_now() - begin) * 1e6;
		if (took > toucher->longest_us)
			toucher->longest_us = took;
	}
	return NULL;
}

static bool toucher_start(struct toucher *toucher, struct area *area)
{
	*toucher = (struct toucher){ .area = area };
	return !pthread_create(&toucher->thread, NULL, touch, toucher);
}

static double toucher_stop(struct toucher *toucher)
{
	__atomic_store_n(&toucher->stop, true, __ATOMIC_RELAXED);
	pthread_join(toucher->thread, NULL);
	return toucher->longest_us;
}

static int bind_to(int node)
{
	unsigned long mask[MAX_NODES / 64] = { 0 };

	if (node < 0)
		return syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	mask[node / 64] = 1UL << node % 64;
	return syscall(SYS_set_mempolicy, MPOL_BIND, mask, 8 * sizeof(mask));
}

/* Transparent huge pages of one size, and of no other: a setting of the whole machine. */
static bool only_folios_of(size_t kib)
{
	bool found = kib * KIB == page_size;

	for (size_t other = 8; other <= LARGEST_KIB; other *= 2) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), THP_DIR "/hugepages-%zukB/enabled", other);
		if (!write_text(path, other == kib ? "madvise" : "never"))
			found |= other == kib;
	}
	return found;
}

/* How many of the places where a folio should begin have none of such a kind. */
static size_t other_folios(const struct area *area)
{
	FILE *pagemap = fopen("/proc/self/pagemap", "re");
	FILE *flags = fopen("/proc/kpageflags", "re");
	size_t others = 0;

	for (char *at = (char *)area->words; at < (char *)area->words + area->size;
	     at += area->folio) {
		uint64_t entry = 0, flag = 0;

		if (!pagemap || !flags ||
		    fseeko(pagemap, (uintptr_t)at / page_size * sizeof(entry), SEEK_SET) ||
		    fread(&entry, sizeof(entry), 1, pagemap) != 1 || !(entry & PAGEMAP_PRESENT) ||
		    fseeko(flags, (entry & PAGEMAP_PFN) * sizeof(flag), SEEK_SET) ||
		    fread(&flag, sizeof(flag), 1, flags) != 1)
			others++;
		else
			others += !(flag & FLAG(KPF_COMPOUND_HEAD)) == (area->folio > page_size);
	}
	if (pagemap)
		fclose(pagemap);
	if (flags)
		fclose(flags);
	return others;
}

static void area_unmap(struct area *area)
{
	munmap(area->words, area->size);
	free(area->written);
}

/* False if the kernel does not give such folios. */
static bool area_map(struct area *area, const struct exam *exam, size_t kib)
{
	const size_t size = exam->options->size, align = LARGEST_KIB * KIB;
	bool given;
	char *map;

	map = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
		   MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return false;
	*area = (struct area){
		.words = (uint64_t *)(map + (-(uintptr_t)map & (align - 1))),
		.size = size,
		.folio = kib * KIB,
		.written = calloc(size / page_size, sizeof(uint64_t)),
	};
	munmap(map, (char *)area->words - map);
	munmap((char *)area->words + size, map + align - (char *)area->words);
	if (!area->written) {
		area_unmap(area);
		return false;
	}
	madvise(area->words, size, area->folio > page_size ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	given = only_folios_of(kib) && !bind_to(exam->node[0]);
	if (given)
		stamp(area);
	bind_to(-1);
	put_back_below(THP_DIR);
	/* khugepaged would make other folios of them. */
	madvise(area->words, size, MADV_NOHUGEPAGE);
	given = given && other_folios(area) <= size / area->folio / MOST_OTHERS;
	if (!given)
		area_unmap(area);
	return given;
}

/* Returns how many folios are on @node afterwards. */
static size_t move_some(struct area *area, size_t offset, size_t nr, int node)
{
	void **pages = calloc(nr, sizeof(*pages));
	int *nodes = calloc(nr, sizeof(*nodes)), *status = calloc(nr, sizeof(*status));
	size_t there = 0;

	for (size_t i = 0; pages && nodes && status && i < nr; i++) {
		pages[i] = (char *)area->words + offset + i * area->folio;
		nodes[i] = node;
	}
	if (pages && nodes && status &&
	    syscall(SYS_move_pages, 0, nr, pages, nodes, status, MPOL_MF_MOVE) >= 0 &&
	    !syscall(SYS_move_pages, 0, nr, pages, NULL, status, 0))
		for (size_t i = 0; i < nr; i++)
			there += status[i] == node;
	free(pages);
	free(nodes);
	free(status);
	return there;
}

static uint64_t counter(const char *name)
{
	char path[PATH_MAX];
	long value;

	snprintf(path, sizeof(path), OFFLOAD_DIR "/stats/%s", name);
	value = read_number(path);
	return value > 0 ? value : 0;
}

static void count(struct point *point, int sign)
{
	point->copied += sign * counter("folios_copied");
	point->errors += sign * counter("fallback_error");
	point->timeouts += sign * counter("fallback_timeout");
	point->lost += sign * counter("fallback_lost");
	point->unreachable += sign * counter("fallback_unreachable");
}

bool point_is_wrong(const struct point *point)
{
	return point->bytes_wrong || point->errors || point->timeouts || point->lost;
}

/* Moves the whole area in calls, and stops at the first mistake of an engine. GB/s. */
static double move_area(struct area *area, struct point *point, int node)
{
	size_t moved = 0, offset, size;
	double took = 0;

	for (offset = 0; offset < area->size; offset += size) {
		double begin = seconds_now();

		size = area->size - offset < CALL_BYTES ? area->size - offset : CALL_BYTES;
		count(point, -1);
		moved += move_some(area, offset, size / area->folio, node) * area->folio;
		took += seconds_now() - begin;
		count(point, 1);
		if (point_is_wrong(point))
			break;
	}
	point->bytes += moved;
	return moved / took / 1e9;
}

/* There, for the speed, and back, with a thread that touches the memory. */
static void measure(struct exam *exam, struct area *area, struct point *point)
{
	struct toucher toucher;

	stamp(area);
	point->gbps = move_area(area, point, exam->node[1]);
	point->bytes_wrong += wrong_bytes(area);
	if (point_is_wrong(point))
		return;
	stamp(area);
	if (!toucher_start(&toucher, area))
		return;
	move_area(area, point, exam->node[0]);
	point->wait_us = toucher_stop(&toucher);
	point->bytes_wrong += wrong_bytes(area);
}

/* How long an access takes while nothing moves. */
static void measure_rest(struct exam *exam, struct area *area)
{
	struct toucher toucher;

	if (exam->rest_us || !toucher_start(&toucher, area))
		return;
	usleep(200000);
	exam->rest_us = toucher_stop(&toucher);
	stamp(area);
}

/* The curve: from what nobody waits for to what is fastest. */
static const struct way no_engine[] = {
	{ .migrator = "none" },
	{ .migrator = "cpu", .live = true, .max_us = 500 },
	{ .migrator = "mtcopy", .live = true, .max_us = 500 },
	{ .migrator = "mtcopy", .max_us = 500 },
}, with_engine[] = {
	{ .migrator = "dcbm", .live = true, .max_us = 500 },
	{ .migrator = "dcbm", .max_us = 500 },
	{ .migrator = "dcbm", .max_us = 2000 },
	{ .migrator = "dcbm", .max_us = 8000 },
};

static void try_way(struct exam *exam, struct area *area, struct way way)
{
	struct point *point = &exam->point[exam->nr_points];
	char text[64];
	int error;

	describe_way(&way, text, sizeof(text));
	if (exam->nr_points == MAX_POINTS)
		return;
	progress(exam, "move folios of %zu KiB: %s", area->folio / KIB, text);
	error = set_way(&way);
	/* A kernel may be without mtcopy, or without live copies. */
	if (error == -ENOENT && (!way.engine || way.live))
		return;
	if (error) {
		hinder(exam, "%s: %s", text, strerror(-error));
		return;
	}
	*point = (struct point){ .way = way, .folio_kib = area->folio / KIB };
	measure(exam, area, point);
	exam->nr_points++;
	if (!way.engine) {
		if (point->bytes_wrong)
			hinder(exam, "%s corrupts memory", text);
		return;
	}
	way.engine->moved |= point->bytes;
	if (point_is_wrong(point))
		way.engine->verdict = DO_NOT;
}

static void try_ways(struct exam *exam, size_t kib)
{
	struct area area;

	if (!area_map(&area, exam, kib)) {
		progress(exam, "no folios of %zu KiB", kib);
		return;
	}
	measure_rest(exam, &area);
	for (unsigned int i = 0; i < ARRAY_SIZE(no_engine); i++)
		try_way(exam, &area, no_engine[i]);
	for (unsigned int i = 0; i < ARRAY_SIZE(with_engine); i++) {
		for (unsigned int e = 0; e < exam->nr_engines; e++) {
			struct way way = with_engine[i];

			way.engine = &exam->engine[e];
			if (way.engine->verdict == USE_IT)
				try_way(exam, &area, way);
		}
	}
	area_unmap(&area);
}

static size_t free_bytes(int node)
{
	char path[PATH_MAX], line[128];
	size_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), NODE_DIR "/node%d/meminfo", node);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "MemFree:"))
			kib = strtoul(strstr(line, "MemFree:") + strlen("MemFree:"), NULL, 10);
	if (file)
		fclose(file);
	return kib * KIB;
}

bool node_exists(int node)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), NODE_DIR "/node%d", node);
	return node < MAX_NODES && !access(path, F_OK);
}

static bool is_given(const struct options *options, int node)
{
	return options->node[0] == options->node[1] || node == options->node[0] ||
	       node == options->node[1];
}

bool find_nodes(struct exam *exam)
{
	const struct options *options = exam->options;
	unsigned int nr = 0;

	page_size = sysconf(_SC_PAGESIZE);
	for (int node = 0; node < MAX_NODES && nr < 2; node++)
		if (is_given(options, node) && free_bytes(node) >= options->size + RESERVE)
			exam->node[nr++] = node;
	if (nr < 2)
		hinder(exam, "two nodes with %zu MB of free memory are needed: see --size, --nodes",
		       (options->size + RESERVE) / MIB);
	else if (options->node[0] != options->node[1])
		memcpy(exam->node, options->node, sizeof(exam->node));
	return nr == 2;
}

void move_memory(struct exam *exam)
{
	write_number(NUMA_BALANCING, 0);
	module_load("mtcopy");
	for (size_t kib = page_size / KIB; kib <= LARGEST_KIB; kib *= 2)
		try_ways(exam, kib);
}
