// SPDX-License-Identifier: GPL-2.0
/*
 * Moves. Only the calls that move memory are timed. move_pages(2) gets its addresses in
 * arrays that exist and are in memory before.
 */
#define _GNU_SOURCE
#include "measure.h"

#define VMSTAT	"/proc/vmstat"
#define UPDATES	"numa_pte_updates "

/* Moves what is named from @first on, @nr times. All of it goes to the same node. */
static long call_one(const struct area *area, size_t first, size_t nr)
{
	struct node_mask mask;

	if (area->options->addresses != ADDRESSES_RANGE)
		return syscall(__NR_move_pages, 0, nr, area->named + first, area->nodes + first,
			       area->status + first, MPOL_MF_MOVE);
	mask = memory_node_mask(area->nodes[first]);
	return syscall(__NR_mbind, area->named[first], nr * area->folio_size, MPOL_BIND,
		       mask.bits, MEMORY_MAX_NODES + 1, MPOL_MF_MOVE);
}

/* Reclaim may give up: folios that are left behind are counted later. */
static int demote(const struct area *area)
{
	char request[64];

	snprintf(request, sizeof(request), "%zu swappiness=200", area->folios * area->folio_size);
	setting_write(own_cgroup("memory.reclaim"), request);
	return 0;
}

/* Have the kernel take away all access to the memory, so that the next one is a fault. */
static void protect(const struct area *area)
{
	const long pages = area->len / memory_page_size();
	const long then = setting_find_number(VMSTAT, UPDATES);

	if (setting_write(NUMA_BALANCING, "1") || then < 0)
		errx(1, "this kernel does not balance NUMA nodes");
	while (setting_find_number(VMSTAT, UPDATES) < then + pages)
		;
}

static int use(const struct area *area)
{
	for (size_t i = 0; i < area->folios; i++)
		__atomic_load_n((char *)area->named[i], __ATOMIC_RELAXED);
	return 0;
}

static int make_way(const struct options *options)
{
	size_t size = huge_size(options);

	hugetlb_hold(size, options->from, hugetlb_held(size, options->from) + 1);
	return 0;
}

static int call_all(const struct area *area)
{
	const struct options *options = area->options;
	size_t nr = area->folios * area->per_folio;
	size_t step = options->folios_per_call ? options->folios_per_call * area->per_folio : nr;

	if (options->addresses == ADDRESSES_RECLAIM)
		return demote(area);
	if (options->addresses == ADDRESSES_FAULT)
		return use(area);
	if (options->addresses == ADDRESSES_COMPACTION)
		return setting_write(setting_path(NODE_DIR "/node%lu/compact", options->from), "1");
	if (options->addresses == ADDRESSES_CONTIG)
		return make_way(options);
	for (size_t i = 0; i < nr; i += step)
		/* A positive result is about some folios: all are counted later. */
		if (call_one(area, i, MIN(nr - i, step)) < 0)
			return -errno;
	return 0;
}

static void time_calls(const struct area *area, struct sample *sample)
{
	__u64 cpu = nanoseconds_used();
	__u64 start = nanoseconds_now();
	__u64 end;
	int err;

	err = call_all(area);
	end = nanoseconds_now();
	sample->cpu = nanoseconds_used() - cpu;
	if (err)
		errx(1, "cannot move pages between nodes %lu and %lu: %s", area->options->from,
		     area->options->to, strerror(-err));

	/* A move takes time, even if the clock's resolution hides it. */
	sample->elapsed = end > start ? end - start : 1;
}

static long count_ipis(void)
{
	return setting_find_number("/proc/interrupts", "TLB:") +
	       setting_find_number("/proc/interrupts", "CAL:");
}

static void keep_most(struct met *most, struct met met)
{
	most->longest = MAX(most->longest, met.longest);
	most->p999 = MAX(most->p999, met.p999);
	most->faults = MAX(most->faults, met.faults);
}

static void start_thread(struct toucher *toucher)
{
	int err = toucher_start(toucher);

	if (err)
		errx(1, "cannot start a thread with real-time priority: %s", strerror(err));
}

static void time_touched(const struct area *area, struct sample *sample)
{
	const struct options *options = area->options;
	/* The first one writes. */
	struct toucher touchers[1 + MAX_READERS];
	struct offload_stats then;
	bool counted = offload_read_stats(&then, NULL);
	size_t lost;

	/* The mover keeps none from a processor, nor does the writer keep a reader. */
	for (unsigned int i = 0; i <= options->readers; i++) {
		touchers[i] = (struct toucher) {
			.addr = area->addr, .len = area->len, .zipf = options->zipf,
			.per_second = i ? options->reads : options->writes, .write_every = !i,
			.written = area->written, .priority = i ? 2 : 1, .random = 1 + i,
		};
		start_thread(&touchers[i]);
	}
	sample->ipis = count_ipis();
	time_calls(area, sample);
	sample->ipis = count_ipis() - sample->ipis;
	for (unsigned int i = 0; i <= options->readers; i++) {
		struct toucher *toucher = &touchers[i];

		toucher_stop(toucher);
		keep_most(i ? &sample->read : &sample->write, (struct met) {
			toucher->longest, toucher_p999(toucher), toucher->faults });
	}
	sample->twice = counted ? (__s64)offload_grown_since(&then, NULL, "live_written") : -1;
	lost = toucher_lost(&touchers[0]);
	if (lost)
		errx(1, "%zu pages of folios of %zu KiB lost what was written meanwhile", lost,
		     area->folio_size / KIB);
}

static void count_huge_pages(struct area *area, struct sample *sample, long held)
{
	const struct options *options = area->options;

	sample->failed = area->folios - count_moved(area);
	if (sample->failed == area->folios)
		errx(1, "no folio of %zu KiB has moved", area->folio_size / KIB);
	if (options->addresses == ADDRESSES_CONTIG)
		sample->huge = hugetlb_held(huge_size(options), options->from) - held;
	else
		sample->huge = free_huge_pages(options->from);
	sample->huge = MIN(sample->huge, huge_wanted(options));
}

/* @instrumented: its latencies go to @result. */
static void measure_move(struct area *area, struct result *result, struct sample *sample,
			 bool instrumented)
{
	const struct options *options = area->options;
	int target = result->move == 1 ? options->to : options->from;
	long held = 0;

	*sample = (struct sample){ .twice = -1 };
	for (size_t i = 0; i < area->folios * area->per_folio; i++)
		area->nodes[i] = target;
	area_fill(area);
	/* Memory that was not used for long is on the inactive list, and not young. */
	if (options->addresses == ADDRESSES_RECLAIM && madvise(area->addr, area->len, MADV_COLD))
		err(1, "cannot make memory cold");

	if (options->addresses == ADDRESSES_FAULT)
		protect(area);
	if (options->addresses == ADDRESSES_CONTIG)
		held = hugetlb_held(huge_size(options), options->from);
	if (instrumented)
		instrument_enable(true);
	if (options->reads)
		time_touched(area, sample);
	else
		time_calls(area, sample);
	if (options->addresses == ADDRESSES_FAULT)
		setting_write(NUMA_BALANCING, "0");
	if (instrumented) {
		instrument_enable(false);
		instrument_read(&result->latency);
	}

	if (makes_huge_pages(options))
		count_huge_pages(area, sample, held);
	else
		sample->failed = count_elsewhere(area, target);
	sample->split = count_split(area);
	if (options->verify) {
		result->bytes_verified += count_bytes(options);
		result->bytes_wrong += area_wrong(area);
	}
}

/* @samples: one for each move. */
static void measure(struct area *area, struct result *results, struct sample **samples,
		    bool instrumented)
{
	const struct options *options = area->options;
	long held = 0;

	if (makes_huge_pages(options))
		held = hugetlb_held(huge_size(options), options->from);
	area_create(area, results->folio_kib);
	for (unsigned int i = 0; i < options->moves; i++)
		measure_move(area, &results[i], samples[i], instrumented);
	area_destroy(area);
	if (makes_huge_pages(options))
		hugetlb_hold(huge_size(options), options->from, held);
}

/* Speeds are those of folios that did arrive. */
static double sample_gbps(const struct result *result, const struct sample *sample, size_t bytes)
{
	double share = (double)(result->folios - sample->failed) / result->folios;

	return share * bytes / sample->elapsed;
}

static void keep_worst(struct sample *worst, const struct sample *sample)
{
	worst->failed = MAX(worst->failed, sample->failed);
	worst->split = MAX(worst->split, sample->split);
	keep_most(&worst->read, sample->read);
	keep_most(&worst->write, sample->write);
	worst->ipis = MAX(worst->ipis, sample->ipis);
	worst->twice = MAX(worst->twice, sample->twice);
	worst->huge = MIN(worst->huge, sample->huge);
}

static void summarise(struct result *result, size_t bytes)
{
	result->worst = result->samples[0];
	for (unsigned int i = 0; i < result->nr; i++) {
		result->gbps_mean += sample_gbps(result, &result->samples[i], bytes) / result->nr;
		keep_worst(&result->worst, &result->samples[i]);
	}
}

void measure_size(struct area *area, unsigned long folio_kib, struct result *results,
		  bool instrumented)
{
	const struct options *options = area->options;
	bool plain = options->instrument != INSTRUMENT_ONLY;
	struct sample *samples[NR_MOVES];
	struct sample dropped[NR_MOVES];

	for (unsigned int i = 0; i < options->moves; i++) {
		results[i] = (struct result) {
			.folio_kib = folio_kib, .move = i + 1, .has_latency = instrumented,
			.folios = count_folios(options, folio_kib),
			.nr = plain ? options->repeat : 1,
		};
		results[i].samples = allocate(results[i].nr, sizeof(struct sample));
		samples[i] = &dropped[i];
	}

	for (unsigned int i = 0; i < options->warmup; i++)
		measure(area, results, samples, false);
	for (unsigned int i = 0; plain && i < options->repeat; i++) {
		for (unsigned int j = 0; j < options->moves; j++)
			samples[j] = &results[j].samples[i];
		measure(area, results, samples, false);
	}
	if (instrumented) {
		for (unsigned int i = 0; i < options->moves; i++)
			samples[i] = plain ? &dropped[i] : results[i].samples;
		measure(area, results, samples, true);
	}
	for (unsigned int i = 0; i < options->moves; i++)
		summarise(&results[i], count_bytes(options));
}
