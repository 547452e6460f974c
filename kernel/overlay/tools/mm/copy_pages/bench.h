/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the user-space benchmarks of the kernel's copy primitives. */

#ifndef COPY_PAGES_BENCH_H
#define COPY_PAGES_BENCH_H

#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "../../../arch/x86/include/asm/copy_primitives.h"
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

/* Evict memory from all caches. */
static inline void evict(const char *start, unsigned long bytes)
{
	unsigned long offset;

	for (offset = 0; offset < bytes; offset += LINE)
		__builtin_ia32_clflush(start + offset);
}

/*
 * Map @bytes and fill them, in huge pages if possible, as in the kernel's direct mapping.
 * Set @huge to false if there are no huge pages.
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

/* Print the quartiles of @values, divided by @unit, as a member of a JSON object. */
static inline void print_quartiles(FILE *out, const char *name, const __u64 *values,
				   unsigned int rounds, double unit)
{
	struct copy_quartiles q = copy_quartiles(values, rounds);

	fprintf(out, "\"%s\": {\"lower\": %.3f, \"median\": %.3f, \"upper\": %.3f}", name,
		q.lower / unit, q.median / unit, q.upper / unit);
}

/* Print the quartiles of the ratios @base / @values, taken within each round. */
static inline void print_ratios(FILE *out, const char *name, const __u64 *base,
				const __u64 *values, unsigned int rounds)
{
	__u64 ratios[COPY_MAX_ROUNDS];
	unsigned int i;

	for (i = 0; i < rounds; i++)
		ratios[i] = base[i] * 1000 / (values[i] ? values[i] : 1);
	print_quartiles(out, name, ratios, rounds, 1000.0);
}

/* Open the file for results: @name, or standard output if that is NULL. */
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

struct bench_options {
	unsigned int rounds;
	bool verify;
	const char *output;
};

static inline unsigned long parse_number(const char *text, char **end)
{
	unsigned long value;

	errno = 0;
	value = strtoul(text, end, 10);
	if (*end == text || errno || *text < '0' || *text > '9')
		errx(2, "not a number: '%s'", text);
	return value;
}

/* Parse the command line. Only programs with @parse_sizes accept the option --sizes. */
static inline struct bench_options parse_options(int argc, char **argv, const char *usage,
						 void (*parse_sizes)(const char *text))
{
	static const struct option longs[] = {
		{ "rounds",	required_argument,	NULL, 'r' },
		{ "output",	required_argument,	NULL, 'o' },
		{ "verify",	no_argument,		NULL, 'v' },
		{ "help",	no_argument,		NULL, 'h' },
		{ "sizes",	required_argument,	NULL, 's' },
		{ }
	};
	struct bench_options options = { .rounds = 31 };
	unsigned long rounds;
	char *end;
	int option;

	while ((option = getopt_long(argc, argv, "r:o:vhs:", longs, NULL)) != -1) {
		if (option == 's' && !parse_sizes)
			option = '?';
		switch (option) {
		case 'r':
			rounds = parse_number(optarg, &end);
			if (*end || rounds < COPY_MIN_ROUNDS || rounds > COPY_MAX_ROUNDS)
				errx(2, "rounds must be from %d to %d", COPY_MIN_ROUNDS,
				     COPY_MAX_ROUNDS);
			options.rounds = rounds;
			break;
		case 'o':
			options.output = optarg;
			break;
		case 'v':
			options.verify = true;
			break;
		case 's':
			parse_sizes(optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s'", argv[optind]);
	return options;
}

#endif
