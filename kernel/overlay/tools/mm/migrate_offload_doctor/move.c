// SPDX-License-Identifier: GPL-2.0
/*
 * Moving memory of every folio size in every way: is every byte right, how fast is it, how much
 * of a processor does it take, and how long does a thread wait that touches the memory meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <linux/mempolicy.h>

#include "doctor.h"
#include "../migrate_lib/touch.h"

#define LARGEST_KIB	2048UL
#define TIERS		"/sys/devices/virtual/memory_tiering"
#define MAX_TIERS	1000
#define DEMOTING	"/sys/kernel/mm/numa/demotion_enabled"
/* The size of one call, which cannot be interrupted. */
#define CALL_BYTES	(64 * MIB)
/* One of this number of accesses is a write. */
#define WRITE_EVERY	16
/* Others use memory as well. */
#define RESERVE		(64 * MIB)
/* Folios of another size are no measurement of this one. */
#define MOST_OTHERS	100

struct area {
	char *addr;
	size_t size;
	size_t folio;
	uint64_t seed;
	/* The last word that the thread wrote to each page; 0: none. */
	uint64_t *written;
};

/* Each move gets contents of its own: pages that were not copied may still have the last. */
static void stamp(struct area *area)
{
	static uint64_t seed;

	area->seed = ++seed;
	memory_stamp(area->addr, area->size, seed);
	memset(area->written, 0, area->size / memory_page_size() * sizeof(*area->written));
}

static void area_unmap(struct area *area)
{
	munmap(area->addr, area->size);
	free(area->written);
}

/* False if the kernel does not give such folios. */
static bool area_map(struct area *area, const struct exam *exam, size_t kib)
{
	const size_t size = exam->options->size;
	int error;

	*area = (struct area) {
		.addr = memory_map_aligned(size, LARGEST_KIB * KIB),
		.size = size, .folio = kib * KIB,
	};
	if (!area->addr)
		return false;
	area->written = calloc(size / memory_page_size(), sizeof(uint64_t));
	/* A setting of the whole machine. */
	error = area->written ? thp_only_anon(area->folio) : -ENOMEM;
	if (!error)
		error = memory_fill(area->addr, size, area->folio, exam->node[0], area->seed);
	settings_restore_below(THP_DIR, "doctor");
	if (!error && memory_folios_not(area->addr, size, area->folio) <=
		      size / area->folio / MOST_OTHERS)
		return true;
	area_unmap(area);
	return false;
}

static void count(struct point *point, const struct offload_stats *then)
{
	const char *reason = point->demoted ? DEMOTION : REASON;

	point->copied += offload_grown_since(then, reason, "folios_copied");
	point->live += offload_grown_since(then, reason, "live_copied");
	point->errors += offload_grown_since(then, reason, "fallback_error");
	point->timeouts += offload_grown_since(then, reason, "fallback_timeout");
	point->lost += offload_grown_since(then, reason, "fallback_lost");
	point->unreachable += offload_grown_since(then, reason, "fallback_unreachable");
}

/* Memory that is not young. Returns how many folios are not on @node then: reclaim may give up. */
static long demote(const struct area *area, int node)
{
	char request[64];

	madvise(area->addr, area->size, MADV_COLD);
	snprintf(request, sizeof(request), "%zu swappiness=200", area->size);
	setting_write(own_cgroup("memory.reclaim"), request);
	return memory_folios_not_on(area->addr, area->size, area->folio, node);
}

/*
 * Moves the whole area, in calls unless reclaim does, and stops at the first mistake of an
 * engine. @figure and the next one are of this move.
 */
static void move_area(struct area *area, struct point *point, int node, enum figure figure,
		      unsigned int sample)
{
	const size_t most = point->demoted ? area->size : CALL_BYTES;
	double took = 0, cpu = 0;
	size_t moved = 0, size;

	for (size_t offset = 0; offset < area->size; offset += size) {
		struct offload_stats then;
		uint64_t cpu_begin;
		double begin;
		long missing;

		size = area->size - offset < most ? area->size - offset : most;
		offload_read_stats(&then, point->demoted ? DEMOTION : REASON);
		begin = seconds_now();
		cpu_begin = nanoseconds_used();
		missing = point->demoted ? demote(area, node) :
			  memory_move(0, area->addr + offset, size, area->folio, node,
				      MPOL_MF_MOVE);
		if (missing >= 0)
			moved += size - missing * area->folio;
		took += seconds_now() - begin;
		cpu += (nanoseconds_used() - cpu_begin) / 1e9;
		count(point, &then);
		if (point_is_wrong(point))
			break;
	}
	point->bytes += moved;
	point->figure[figure][sample] = moved / took / 1e9;
	point->figure[figure + 1][sample] = cpu * 1e12 / moved;
}

/* There and back, at rest and touched; in each second round touched first. */
static void measure(struct exam *exam, struct area *area, struct point *point)
{
	for (unsigned int move = 0; move < 4; move++) {
		const bool back = move % 2;
		const bool touched = !point->demoted && move / 2 != point->rounds % 2;
		const unsigned int sample = 2 * point->rounds + (point->demoted ? move / 2 : back);
		struct toucher toucher = {
			.addr = area->addr, .len = area->size, .write_every = WRITE_EVERY,
			.written = area->written, .random = 1,
		};

		if (point->demoted && back) {
			memory_move(0, area->addr, area->size, area->folio, exam->node[0],
				    MPOL_MF_MOVE);
			continue;
		}
		stamp(area);
		if (touched && toucher_start(&toucher))
			return;
		move_area(area, point, exam->node[!back], touched ? GBPS_TOUCHED : GBPS, sample);
		if (touched) {
			toucher_stop(&toucher);
			point->figure[WAIT_US][sample] = toucher.longest / 1e3;
		}
		point->bytes_wrong += memory_wrong(area->addr, area->size, area->seed,
						   area->written);
		if (point_is_wrong(point))
			return;
	}
	point->rounds++;
}

static void try_way(struct exam *exam, struct area *area, struct way *way, unsigned int at)
{
	static const unsigned int bounds[] = { 50, 100, 250 };
	const bool bounded = at >= BOUNDS && at < DEMOTIONS;
	struct point *point = &way->point[at];
	int error;

	point->demoted = at >= DEMOTIONS;
	point->bound_us = bounded ? bounds[at - BOUNDS] : exam->bound_us;
	progress(exam, "%s folios of %zu KiB, bound %ld us: %s",
		 point->demoted ? "demote" : "move", area->folio / KIB, point->bound_us, way->name);
	error = set_way(way);
	if (!error && exam->bound_us >= 0)
		error = offload_set_bound(point->bound_us);
	/* A bound is for memory that is not copied live. */
	if (!error && bounded)
		error = offload_set_live(false);
	else
		settings_restore_below(OFFLOAD_DEBUG "/live", "doctor");
	/* A kernel may be without mtcopy. */
	if (error == -ENOENT && !way->engine)
		return;
	if (error) {
		hinder(exam, "%s: %s", way->name, strerror(-error));
		return;
	}
	point->folio_kib = area->folio / KIB;
	measure(exam, area, point);
	exam->moved = true;
	if (!point_is_wrong(point))
		return;
	if (way->engine)
		way->engine->verdict = DO_NOT;
	else
		hinder(exam, "%s %s", way->name, point->bytes_wrong ? "corrupts memory" :
		       "fails to copy folios");
	/* The next way begins where this one began. */
	offload_set_enabled(false);
	memory_move(0, area->addr, area->size, area->folio, exam->node[0], MPOL_MF_MOVE);
}

/* At @nr points of each way, from @first on. */
static void try_ways(struct exam *exam, size_t kib, unsigned int first, unsigned int nr)
{
	struct area area;

	if (!area_map(&area, exam, kib)) {
		progress(exam, "no folios of %zu KiB", kib);
		return;
	}
	for (unsigned int i = 0; i < ROUNDS * nr * exam->nr_ways; i++) {
		struct way *way = &exam->way[i % exam->nr_ways];

		if (!way->engine || way->engine->verdict == USE_IT)
			try_way(exam, &area, way, first + i / exam->nr_ways % nr);
	}
	area_unmap(&area);
}

static long free_kib(int node)
{
	return memory_node_kib(node, "MemFree:");
}

bool node_exists(int node)
{
	return node < MEMORY_MAX_NODES && free_kib(node) >= 0;
}

/* Memory has tiers: from the fastest to the slowest, whose number is the highest. */
static void find_tiers(int node[2])
{
	char list[32];
	bool any = false;

	for (unsigned int tier = 0; tier < MAX_TIERS; tier++) {
		if (setting_read(setting_path(TIERS "/memory_tier%u/nodelist", tier), list,
				 sizeof(list)))
			continue;
		node[1] = atoi(list);
		if (!any)
			node[0] = node[1];
		any = true;
	}
}

bool find_nodes(struct exam *exam)
{
	const size_t need = exam->options->size + RESERVE;
	int given[2] = { exam->options->node[0], exam->options->node[1] };
	unsigned int nr = 0;

	if (given[0] == given[1])
		find_tiers(given);
	for (int node = 0; node < MEMORY_MAX_NODES && nr < 2; node++)
		if ((given[0] == given[1] || node == given[0] || node == given[1]) &&
		    free_kib(node) >= (long)(need / KIB))
			exam->node[nr++] = node;
	if (nr < 2)
		hinder(exam, "two nodes with %zu MB of free memory are needed: see --size, --nodes",
		       need / MIB);
	else if (given[0] != given[1])
		memcpy(exam->node, given, sizeof(exam->node));
	return nr == 2;
}

void move_memory(struct exam *exam)
{
	size_t kib = memory_page_size() / KIB;
	struct offload_stats stats;
	int tiers[2] = { 0 };

	if (!offload_read_stats(&stats, REASON)) {
		hinder(exam, "%s/stats is missing: is debugfs mounted?", OFFLOAD_DEBUG);
		return;
	}
	exam->bound_us = setting_read_number(BOUND);
	setting_write_number(NUMA_BALANCING, 0);
	module_load("mtcopy", "");
	for (unsigned int size = 0; kib < LARGEST_KIB; size++, kib *= 4)
		try_ways(exam, kib, size, 1);
	try_ways(exam, LARGEST_KIB, NR_SIZES - 1, 1);
	if (exam->bound_us >= 0)
		try_ways(exam, LARGEST_KIB, BOUNDS, DEMOTIONS - BOUNDS);
	find_tiers(tiers);
	if (tiers[0] != exam->node[0] || tiers[1] != exam->node[1] ||
	    setting_write(DEMOTING, "true"))
		return;
	try_ways(exam, 64, DEMOTIONS, 1);
	try_ways(exam, LARGEST_KIB, DEMOTIONS + 1, 1);
}
