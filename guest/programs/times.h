/* SPDX-License-Identifier: GPL-2.0 */
/* How long things took; for programs that measure what they get. */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

/* No program needs all that is here. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"

#define PAGE		4096ul
#define WORDS		(PAGE / sizeof(uint64_t))
#define HUGE		(512 * PAGE)
#define MIB		(256 * PAGE)

/* A bucket of the histogram is a 32nd of a power of two wide. */
#define STEPS		32

static uint64_t taken[60 * STEPS];
static uint64_t times, wall, cpu, longest;
/* A time that is longer than this is late; 0 is for no limit. */
static uint64_t late, times_late;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ul + now.tv_nsec;
}

static void begin_times(void)
{
	wall -= clock_ns(CLOCK_MONOTONIC);
	cpu -= clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void end_times(void)
{
	wall += clock_ns(CLOCK_MONOTONIC);
	cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void count_ns(uint64_t ns)
{
	unsigned int shift = ns < STEPS ? 0 : 58 - __builtin_clzl(ns);

	taken[shift * STEPS + (ns >> shift)]++;
	times++;
	longest = ns > longest ? ns : longest;
	times_late += late && ns > late;
}

/* Count what took from @last to now, and return now. */
static uint64_t count_time(uint64_t last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	count_ns(now - last);
	return now;
}

/* In us, the lower end of the bucket. */
static double percentile(double share)
{
	uint64_t seen = 0;
	unsigned int i, shift;

	for (i = 0; (seen += taken[i]) <= share * times; i++)
		;
	shift = i < 2 * STEPS ? 0 : i / STEPS - 1;
	return ((uint64_t)(i - shift * STEPS) << shift) / 1000.0;
}

/* How many a second; us that one took, percentiles and the longest; us of the processor for one. */
static void print_times(void)
{
	printf("times: %.0f %g %g %g %g %g\n", times * 1e9 / wall, percentile(0.5),
	       percentile(0.99), percentile(0.999), longest / 1000.0, cpu / 1000.0 / times);
	if (late)
		printf("late: %lu\n", times_late);
}

static void wait_after(const char *word)
{
	char line[8];

	puts(word);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		errx(1, "no line says go");
}

/* Memory in huge pages or in small ones. */
static char *map(size_t bytes, int huge)
{
	char *area = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		err(1, "mmap");
	area += HUGE - (uintptr_t)area % HUGE;
	if (madvise(area, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		err(1, "madvise");
	return area;
}

/* Word by word, whatever a compiler knows of vectors: virtual time counts instructions. */
static void fill(char *page)
{
	for (size_t i = 0; i < WORDS; i++)
		((volatile uint64_t *)page)[i] = (uintptr_t)page;
}

static void check(const char *page)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < WORDS; i++)
		wrong |= ((const volatile uint64_t *)page)[i] ^ (uintptr_t)page;
	if (wrong)
		errx(1, "the page at %p is not what it was", page);
}

static uint64_t random_below(uint64_t limit)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005 + 1442695040888963407;
	return (state >> 33) % limit;
}
