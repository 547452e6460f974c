/* SPDX-License-Identifier: GPL-2.0 */
/* What benchmarks of the kernel's copy primitives in user space share. */

#ifndef COPY_PAGES_BENCH_H
#define COPY_PAGES_BENCH_H

#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "../../../arch/x86/include/asm/copy_pages.h"
#include "../../../mm/copy_pages_select.h"

#define KIB		1024UL
#define MIB		(1024 * KIB)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#define PAGE		4096UL
#define LINE		64UL
#define HUGE_PAGE	(2 * MIB)

static inline __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* Leaves memory in no cache. */
static inline void evict(const char *start, unsigned long bytes)
{
	unsigned long offset;

	for (offset = 0; offset < bytes; offset += LINE)
		__builtin_ia32_clflush(start + offset);
}

/*
 * Maps @bytes and fills them, in huge pages if there are any: the kernel's mapping has
 * them. @huge becomes false if there are none.
 */
static inline char *map_filled(unsigned long bytes, bool *huge)
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

/* Prints a member of a JSON object; @unit is how many of the values make one. */
static inline void print_quartiles(FILE *out, const char *name, const __u64 *values,
				   unsigned int rounds, double unit)
{
	struct copy_quartiles q = copy_quartiles(values, rounds);

	fprintf(out, "\"%s\": {\"lower\": %.3f, \"median\": %.3f, \"upper\": %.3f}", name,
		q.lower / unit, q.median / unit, q.upper / unit);
}

/* The same of how many times faster than @base something was within each round. */
static inline void print_ratios(FILE *out, const char *name, const __u64 *base,
				const __u64 *values, unsigned int rounds)
{
	__u64 ratios[COPY_MAX_ROUNDS];
	unsigned int i;

	for (i = 0; i < rounds; i++)
		ratios[i] = base[i] * 1000 / (values[i] ? values[i] : 1);
	print_quartiles(out, name, ratios, rounds, 1000.0);
}

/* Opens where results go: @name, or standard output. */
static inline FILE *open_results(const char *name)
{
	FILE *out = name ? fopen(name, "w") : stdout;

	if (!out)
		err(1, "%s", name);
	return out;
}

static inline void close_results(FILE *out)
{
	if (fflush(out) || ferror(out))
		err(1, "cannot write results");
}

#endif
