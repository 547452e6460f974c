// SPDX-License-Identifier: GPL-2.0
/*
 * copy_bench: measure how fast the kernel's routines copy ranges of pages on this machine.
 *
 * It is built from one file of the kernel, arch/x86/include/asm/copy_routines.h, for x86-64.
 *
 * One sample copies one or more folios of one size, all in the same state:
 *
 *   cold       source and destination are in no cache (evicted by clflush)
 *   hot        both were copied just before, and are in the cache as far as they fit
 *   cold_read  as cold, and the time includes reading the whole destination afterwards
 *
 * Every round takes one sample of each way, in a rotating order, so that a slow phase of the
 * machine affects all of them. Results are quartiles over the rounds, of times and of ratios
 * within a round.
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <linux/types.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "arch/x86/include/asm/copy_routines.h"

#define KIB		1024UL
#define MIB		(1024 * KIB)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#define PAGE		4096UL
#define LINE		64UL
#define HUGE_PAGE	(2 * MIB)

/* The kernel copies longer ranges in steps of this length. */
#define COPY_STEP_BYTES	MIB

#define MIN_ROUNDS	5
#define MAX_ROUNDS	63

/* The default, copy_mc_to_kernel(), on processors with ERMS. */
static unsigned long copy_range_movsb(void *dst, const void *src, unsigned long len)
{
	asm volatile("rep movsb" : "+D" (dst), "+S" (src), "+c" (len) : : "memory");
	return len;
}

/* In the order of the names that are printed. */
static const struct {
	const char *name;
	unsigned long (*copy)(void *dst, const void *src, unsigned long len);
} routines[] = {
	{ "movsq", copy_range_movsq },
	{ "movsb", copy_range_movsb },
	{ "nontemporal", copy_range_nontemporal },
};

#define NR_ROUTINES	ARRAY_SIZE(routines)

static __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Evict memory from all caches. */
static void evict(const char *start, unsigned long bytes)
{
	unsigned long offset;

	for (offset = 0; offset < bytes; offset += LINE)
		__builtin_ia32_clflush(start + offset);
}

/*
 * Map @bytes and fill them, in huge pages if possible, as in the kernel's direct mapping.
 * Set @huge to false if there are no huge pages.
 */
static char *map_filled(unsigned long bytes, bool *huge)
{
	char *start = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long k;

	if (start == MAP_FAILED)
		err(1, "cannot map %lu MiB", (bytes + HUGE_PAGE) / MIB);
	start = (char *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	for (k = 0; k < bytes; k++)
		start[k] = k * 2654435761UL >> 13;
	if (madvise(start, bytes, MADV_COLLAPSE))
		*huge = false;
	return start;
}

static int compare_values(const void *left, const void *right)
{
	const __u64 *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* Print the quartiles of @values, divided by @unit, as a member of a JSON object. */
static void print_quartiles(FILE *out, const char *name, const __u64 *values,
				   unsigned int rounds, double unit)
{
	__u64 sorted[MAX_ROUNDS];

	memcpy(sorted, values, rounds * sizeof(*values));
	qsort(sorted, rounds, sizeof(*sorted), compare_values);
	fprintf(out, "\"%s\": {\"lower\": %.3f, \"median\": %.3f, \"upper\": %.3f}", name,
		sorted[rounds / 4] / unit, sorted[rounds / 2] / unit,
		sorted[rounds * 3 / 4] / unit);
}

/* Print the quartiles of the ratios @base / @values, taken within each round. */
static void print_ratios(FILE *out, const char *name, const __u64 *base,
				const __u64 *values, unsigned int rounds)
{
	__u64 ratios[MAX_ROUNDS];
	unsigned int i;

	for (i = 0; i < rounds; i++)
		ratios[i] = base[i] * 1000 / (values[i] ? values[i] : 1);
	print_quartiles(out, name, ratios, rounds, 1000.0);
}

#define MIN_KIB		4
#define MAX_KIB		2048
#define NR_SIZES	10
/* A sample has several small folios: one would take less than the clock resolves. */
#define SAMPLE_BYTES	(256 * KIB)

enum { COLD, HOT, COLD_READ, NR_STATES };

static const char * const state_names[NR_STATES] = { "cold", "hot", "cold_read" };

/* Each routine for a range at once, and the two that the kernel uses for a page, by page. */
enum { PER_PAGE = NR_ROUTINES, PER_PAGE_MC, NR_WAYS };

static unsigned int nr_rounds = 31;
static unsigned long sizes_kib[NR_SIZES] = { 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048 };
static unsigned int nr_sizes = NR_SIZES;

/* Times of the samples in ns. */
static __u64 samples[NR_SIZES][NR_STATES][NR_WAYS][MAX_ROUNDS];
static char *src, *dst;

static const char *way_name(unsigned int way)
{
	if (way < NR_ROUTINES)
		return routines[way].name;
	return way == PER_PAGE ? "per_page" : "per_page_mc";
}

static unsigned long folios_per_sample(unsigned long bytes)
{
	return bytes < SAMPLE_BYTES ? SAMPLE_BYTES / bytes : 1;
}

/* Copy one folio as the kernel would: in steps, or page by page. */
static void copy_folio(unsigned int way, char *to, const char *from, unsigned long bytes)
{
	unsigned long step = way < NR_ROUTINES ? COPY_STEP_BYTES : PAGE, offset;
	unsigned int routine = way % NR_ROUTINES;

	if (step > bytes)
		step = bytes;
	/* Folios have powers of two. */
	for (offset = 0; offset < bytes; offset += step) {
		if (routines[routine].copy(to + offset, from + offset, step))
			errx(1, "%s did not copy everything", way_name(way));
	}
}

static void read_all(const char *start, unsigned long bytes)
{
	const __u64 *word = (const __u64 *)start;
	__u64 sum = 0;
	unsigned long i;

	for (i = 0; i < bytes / sizeof(*word); i++)
		sum += word[i];
	/* Keep the compiler from dropping the sum. */
	asm volatile("" : : "r" (sum));
}

static __u64 sample(unsigned int way, unsigned int state, unsigned long bytes)
{
	unsigned long folios = folios_per_sample(bytes);
	unsigned long total = folios * bytes;
	unsigned long i;
	__u64 start;

	/* Evict what earlier samples left; hot samples all start from the same copies. */
	evict(src, total);
	evict(dst, total);
	__builtin_ia32_mfence();
	for (i = 0; state == HOT && i < 2 * folios; i++)
		copy_folio(PER_PAGE, dst + i % folios * bytes, src + i % folios * bytes, bytes);

	start = now_ns();
	for (i = 0; i < folios; i++)
		copy_folio(way, dst + i * bytes, src + i * bytes, bytes);
	if (state == COLD_READ)
		read_all(dst, total);
	return now_ns() - start;
}

static void measure(void)
{
	unsigned int size, state, round, i;

	for (size = 0; size < nr_sizes; size++) {
		for (state = 0; state < NR_STATES; state++) {
			/* Round 0 warms up; round 1 overwrites its results. */
			for (round = 0; round <= nr_rounds; round++) {
				for (i = 0; i < NR_WAYS; i++) {
					unsigned int way = (i + round) % NR_WAYS;

					samples[size][state][way][round ? round - 1 : 0] =
						sample(way, state, sizes_kib[size] * KIB);
				}
			}
		}
	}
}

static void print_result(FILE *out, unsigned int size, unsigned int state, unsigned int way)
{
	const __u64 (*ns)[MAX_ROUNDS] = (const void *)samples[size][state];

	fprintf(out, "    {\"kib\": %lu, \"state\": \"%s\", \"routine\": \"%s\", ",
		sizes_kib[size], state_names[state], way_name(way));
	print_quartiles(out, "ns", ns[way], nr_rounds,
			folios_per_sample(sizes_kib[size] * KIB));
	fputs(", ", out);
	print_ratios(out, "ratio", ns[PER_PAGE], ns[way], nr_rounds);
	fputs(", ", out);
	print_ratios(out, "ratio_mc", ns[PER_PAGE_MC], ns[way], nr_rounds);
	fputc('}', out);
}

static void print_json(FILE *out, bool huge)
{
	unsigned int size, state, way;
	const char *comma = "";

	fputs("{\n  \"program\": \"copy_bench\",\n  \"format\": 2,\n", out);
	fprintf(out, "  \"rounds\": %u,\n  \"huge_pages\": %s,\n", nr_rounds,
		huge ? "true" : "false");
	fputs("  \"results\": [\n", out);
	for (size = 0; size < nr_sizes; size++) {
		for (state = 0; state < NR_STATES; state++) {
			for (way = 0; way < NR_WAYS; way++) {
				fputs(comma, out);
				print_result(out, size, state, way);
				comma = ",\n";
			}
		}
	}
	fputs("\n  ]\n}\n", out);
}

#define FILL		0x5a

static void check_fill(const char *start, const char *name)
{
	unsigned long i;

	for (i = 0; i < PAGE; i++) {
		if (start[i] != FILL)
			errx(1, "%s: wrote beside the range", name);
	}
}

/* Each routine copies all bytes of every length, and no others. */
static void verify(void)
{
	unsigned long pages, bytes;
	unsigned int i;

	for (i = 0; i < NR_ROUTINES; i++) {
		for (pages = 1; pages <= MAX_KIB * KIB / PAGE; pages++) {
			char *to = dst + PAGE;

			bytes = pages * PAGE;
			memset(dst, FILL, bytes + 2 * PAGE);
			if (routines[i].copy(to, src, bytes) || memcmp(to, src, bytes))
				errx(1, "%s: %lu pages: wrong bytes", routines[i].name, pages);
			check_fill(dst, routines[i].name);
			check_fill(to + bytes, routines[i].name);
		}
		printf("%s: every length from 1 to %lu pages: correct\n", routines[i].name,
		       MAX_KIB * KIB / PAGE);
	}
}

/* Stay on the current processor for all measurements. */
static void stay(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		warn("not bound to one processor");
}

static const char usage[] =
	"usage: copy_bench [options]\n"
	"  -r, --rounds N    rounds, 5 to 63 (default 31)\n"
	"  -s, --sizes LIST  folio sizes in KiB, powers of two from 4 to 2048\n"
	"  -o, --output FILE write results as JSON to FILE (default: standard output)\n"
	"  -v, --verify      verify what the routines copy, and measure nothing\n";

static unsigned long parse_number(const char *text, char **end)
{
	unsigned long value;

	errno = 0;
	value = strtoul(text, end, 10);
	if (*end == text || errno || *text < '0' || *text > '9')
		errx(2, "not a number: '%s'", text);
	return value;
}

static void parse_rounds(const char *text)
{
	char *end;
	unsigned long rounds = parse_number(text, &end);

	if (*end || rounds < MIN_ROUNDS || rounds > MAX_ROUNDS)
		errx(2, "rounds must be from %d to %d", MIN_ROUNDS, MAX_ROUNDS);
	nr_rounds = rounds;
}

static void parse_sizes(const char *text)
{
	char *end;

	nr_sizes = 0;
	for (;; text = end + 1) {
		unsigned long kib = parse_number(text, &end);

		if (kib < MIN_KIB || kib > MAX_KIB || (kib & (kib - 1)))
			errx(2, "not a folio size: %lu KiB", kib);
		if (nr_sizes == NR_SIZES)
			errx(2, "more than %d sizes", NR_SIZES);
		sizes_kib[nr_sizes++] = kib;
		if (!*end)
			break;
		if (*end != ',')
			errx(2, "not a list of sizes: '%s'", text);
	}
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
		{ "rounds",	required_argument,	NULL, 'r' },
		{ "sizes",	required_argument,	NULL, 's' },
		{ "output",	required_argument,	NULL, 'o' },
		{ "verify",	no_argument,		NULL, 'v' },
		{ }
	};
	const char *output = NULL;
	bool huge = true, verifies = false;
	FILE *out = stdout;
	int option;

	while ((option = getopt_long(argc, argv, "r:s:o:v", longs, NULL)) != -1) {
		if (option == 'r')
			parse_rounds(optarg);
		else if (option == 's')
			parse_sizes(optarg);
		else if (option == 'o')
			output = optarg;
		else if (option == 'v')
			verifies = true;
		else
			errx(2, "%s", usage);
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s'", argv[optind]);
	stay();
	src = map_filled(2 * HUGE_PAGE, &huge);
	dst = map_filled(2 * HUGE_PAGE, &huge);
	if (verifies) {
		verify();
		return 0;
	}

	if (output)
		out = fopen(output, "w");
	if (!out)
		err(1, "%s", output);
	measure();
	print_json(out, huge);
	if (fflush(out) || ferror(out))
		err(1, "cannot write results");
	return 0;
}
