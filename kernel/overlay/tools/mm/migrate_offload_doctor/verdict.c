// SPDX-License-Identifier: GPL-2.0
/*
 * The meaning of the findings: first of each engine, then for the machine; and in plain words.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

/* The share of folios that a way must have copied itself: the others say nothing about it. */
#define COPIED		0.9
/* Less than this is not worth another thing that may break. */
#define FASTER		1.2
#define NOT_SLOWER	0.9
#define SHORTER		0.5
#define MUCH_LONGER	2.0
/* Waits of the kernel's rounds that differ by more are those of other work. */
#define NOISY		4.0

/* Long lists were measured: these reasons have such lists. */
static const char * const bulk_reasons[] = {
	"syscall_or_cpuset", "mempolicy_mbind", "damon", "memory_hotplug"
};

void list_ways(struct exam *exam)
{
	exam->way[KERNEL] = (struct way){ .migrator = "none", .name = "kernel alone" };
	exam->way[MTCOPY] = (struct way){ .migrator = "mtcopy", .name = "mtcopy" };
	exam->nr_ways = ENGINES + exam->nr_engines;
	for (unsigned int i = 0; i < exam->nr_engines; i++) {
		struct way *way = &exam->way[ENGINES + i];

		*way = (struct way){ .migrator = "dcbm", .engine = &exam->engine[i] };
		snprintf(way->name, sizeof(way->name), "dcbm on %s", way->engine->driver);
	}
}

bool point_is_wrong(const struct point *point)
{
	return point->bytes_wrong || point->errors || point->timeouts || point->lost;
}

/* GB, by its migrator. */
static double copied_gb(const struct way *way)
{
	double gb = 0;

	for (unsigned int at = 0; at < NR_POINTS; at++)
		gb += way->point[at].copied * way->point[at].folio_kib * KIB / 1e9;
	return gb;
}

static size_t folios_moved(const struct point *point)
{
	return point->bytes / (point->folio_kib * KIB);
}

/* Not by the kernel, which copies what a migrator does not. */
static bool is_copied(const struct point *point)
{
	return point->copied && point->copied >= COPIED * folios_moved(point);
}

/* Of all moves; more than half have @middle or more. */
struct span { double least, middle, most; };

static int compare_numbers(const void *a, const void *b)
{
	const double *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

static struct span span_of(const double figure[SAMPLES])
{
	double sorted[SAMPLES];

	memcpy(sorted, figure, sizeof(sorted));
	qsort(sorted, SAMPLES, sizeof(*sorted), compare_numbers);
	return (struct span){ sorted[0], sorted[SAMPLES / 2 - 1], sorted[SAMPLES - 1] };
}

/* Each move with the same move, at the same point, of the kernel. */
static struct span compare(const struct exam *exam, const struct way *way,
			   const struct point *point, enum figure figure)
{
	const double *kernel = exam->way[KERNEL].point[point - way->point].figure[figure];
	double ratio[SAMPLES];

	for (unsigned int i = 0; i < SAMPLES; i++)
		ratio[i] = point->figure[figure][i] / kernel[i];
	return span_of(ratio);
}

/* Not of memory that no thread touched either. */
static bool waits_count(const struct point *point)
{
	struct span wait = span_of(point->figure[WAIT_US]);

	return wait.least > 0 && wait.most <= NOISY * wait.least;
}

/* In each move, and in most of those in use: one that is disturbed does not decide. */
static bool pays(const struct exam *exam, const struct way *way, unsigned int at)
{
	const struct point *kernel = &exam->way[KERNEL].point[at], *point = &way->point[at];
	const bool waits = waits_count(kernel) && waits_count(point);
	struct span speed = compare(exam, way, point, GBPS);
	struct span wait = compare(exam, way, point, WAIT_US);

	if (kernel->rounds < ROUNDS || point->rounds < ROUNDS || point_is_wrong(point) ||
	    !is_copied(point) || speed.least < NOT_SLOWER || (waits && wait.least > MUCH_LONGER) ||
	    compare(exam, way, point, GBPS_TOUCHED).middle < NOT_SLOWER)
		return false;
	/* CPUs that help are not the moving thread. */
	return speed.least >= FASTER || (waits && wait.most <= SHORTER) ||
	       (way->engine && compare(exam, way, point, CPU_MS).most <= SHORTER);
}

/* How many of the largest sizes in a row pay, from point @first on, and the smallest of them. */
static unsigned int worth(const struct exam *exam, const struct way *way, unsigned int first,
			  size_t *kib)
{
	unsigned int nr = 0;

	for (unsigned int at = first ? NR_POINTS : NR_SIZES; at-- > first;) {
		if (!way->point[at].bytes)
			continue;
		if (!pays(exam, way, at))
			break;
		nr++;
		*kib = way->point[at].folio_kib;
	}
	return nr;
}

/* All sizes that were demoted, and that the route would get. */
static bool demotion_pays(const struct exam *exam, const struct way *way)
{
	const size_t least = way->point[DEMOTIONS].folio_kib;
	size_t kib = 0;

	return worth(exam, way, DEMOTIONS, &kib) && (kib == least || exam->best_kib > least);
}

/* The shortest that costs large folios little speed; 0 if they were not measured. */
static long best_bound(const struct way *way)
{
	const struct point *last = &way->point[DEMOTIONS - 1], *point = &way->point[BOUNDS];

	while (point < last && span_of(point->figure[GBPS]).least <
	       NOT_SLOWER * span_of(last->figure[GBPS]).least)
		point++;
	return last->rounds == ROUNDS ? point->bound_us : 0;
}

const struct point *last_point(const struct way *way)
{
	for (unsigned int size = NR_SIZES; size-- > 0;)
		if (way->point[size].bytes)
			return &way->point[size];
	return NULL;
}

/* The first mistake with a way, or NULL. */
static const struct point *mistake(const struct way *way)
{
	for (unsigned int at = 0; at < NR_POINTS; at++)
		if (point_is_wrong(&way->point[at]))
			return &way->point[at];
	return NULL;
}

/* Of the CPU's copies: an engine may write to any memory after it said that it is done. */
static bool is_unsafe(const struct exam *exam)
{
	for (unsigned int i = 0; i < ENGINES * NR_POINTS; i++)
		if (exam->way[i / NR_POINTS].point[i % NR_POINTS].bytes_wrong)
			return true;
	return false;
}

static void find_best(struct exam *exam)
{
	double best_gbps = 0;
	unsigned int best = 0;

	exam->best = NULL;
	/* Without an engine only where there is none. */
	for (unsigned int i = exam->nr_engines ? ENGINES : MTCOPY; i < exam->nr_ways; i++) {
		const struct way *way = &exam->way[i];
		unsigned int nr;
		double gbps;
		size_t kib = 0;

		if ((way->engine && way->engine->verdict != USE_IT) || mistake(way) ||
		    is_unsafe(exam))
			continue;
		nr = worth(exam, way, 0, &kib);
		gbps = nr ? span_of(last_point(way)->figure[GBPS]).least : 0;
		if (nr < best || (nr == best && gbps <= best_gbps))
			continue;
		best = nr;
		best_gbps = gbps;
		exam->best = way;
		exam->best_kib = kib;
	}
}

static void say(struct engine *engine, enum verdict verdict, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(engine->why, sizeof(engine->why), format, args);
	va_end(args);
	engine->verdict = verdict;
}

static void say_mistake(struct engine *engine, const struct point *point)
{
	const char *what = point->bytes_wrong ? "It corrupts memory" :
			   point->lost ? "It does not stop when it is told to" :
			   point->timeouts ? "It does not end in time what it begins" :
			   "It reports errors";

	say(engine, DO_NOT,
	    "%s: folios of %zu KiB, %zu bytes wrong, %llu errors, %llu time-outs, %llu folios lost.",
	    what, point->folio_kib, point->bytes_wrong, point->errors, point->timeouts,
	    point->lost);
}

static void say_left(struct engine *engine, const struct point *point)
{
	char reason[120] = "";

	if (point->unreachable)
		snprintf(reason, sizeof(reason),
			 ", %llu because the engine cannot reach them: memory is encrypted, or bounced",
			 point->unreachable);
	say(engine, DO_NOT, "The kernel left folios of %zu KiB to the CPU: %lld of %zu%s.",
	    point->folio_kib, folios_moved(point) - point->copied, folios_moved(point), reason);
}

/* Compared with the kernel alone, of the largest folios. */
static const char *figures(const struct exam *exam, const struct way *way)
{
	static char text[280];
	const struct point *last = last_point(way);
	const struct point *kernel = &exam->way[KERNEL].point[last - way->point];
	struct span speed = compare(exam, way, last, GBPS), cpu = compare(exam, way, last, CPU_MS);
	struct span used = compare(exam, way, last, GBPS_TOUCHED);
	struct span wait = compare(exam, way, last, WAIT_US);
	char waits[80] = "too noisy to judge waits";

	if (waits_count(last) && waits_count(kernel))
		snprintf(waits, sizeof(waits), "the longest wait is %.1f to %.1f times as long",
			 wait.least, wait.most);
	snprintf(text, sizeof(text),
		 "folios of %zu KiB move %.1f to %.1f times as fast (%.1f to %.1f in use%s), for %.0f to %.0f %% of the moving thread's processor time; %s.",
		 last->folio_kib, speed.least, speed.most, used.least, used.most,
		 used.least < NOT_SLOWER && used.most >= NOT_SLOWER ? ": moves disagree" : "",
		 100 * cpu.least, 100 * cpu.most, waits);
	return text;
}

static void say_figures(const struct exam *exam, const struct way *way)
{
	struct span speed = compare(exam, way, last_point(way), GBPS);
	struct span used = compare(exam, way, last_point(way), GBPS_TOUCHED);
	bool unsure = speed.most >= FASTER && (speed.least < FASTER ||
		      (used.middle < NOT_SLOWER && used.most >= NOT_SLOWER));
	size_t kib;
	enum verdict verdict = worth(exam, way, 0, &kib) ? USE_IT :
			       unsure ? COULD_NOT_TELL : DO_NOT;

	say(way->engine, verdict, "It makes no mistake, %s: %s%s",
	    verdict == USE_IT ? "and it pays" : unsure ? "but rounds disagree whether it pays" :
	    "but does not pay", figures(exam, way), verdict != USE_IT || way->engine->stops ? "" :
	    " If it ever hangs, memory is lost until the next boot.");
}

static void judge_engine(const struct exam *exam, const struct way *way)
{
	const struct point *wrong = mistake(way), *last = last_point(way);
	struct engine *engine = way->engine;

	if (engine->failures)
		say(engine, DO_NOT, "%lu of %lu tests of dmatest failed: %s", engine->failures,
		    engine->tests, engine->complaint);
	else if (wrong)
		say_mistake(engine, wrong);
	else if (!engine->described)
		say(engine, COULD_NOT_TELL, "dcbm could not be asked about it.");
	else if (!engine->for_memory && !engine->in_use)
		say(engine, DO_NOT, "It does not copy memory to memory.");
	else if (!engine->for_memory || !engine->tested)
		say(engine, COULD_NOT_TELL, engine->in_use ? "Another client has its channels." :
		    "It could not be tested with dmatest.");
	else if (!last && !engine->stops)
		say(engine, DO_NOT,
		    "Its driver cannot tell whether the engine has stopped. If you answer for it: --engine %s.",
		    engine->driver);
	else if (!last)
		say(engine, COULD_NOT_TELL, "No memory could be moved with it.");
	else if (is_unsafe(exam))
		say(engine, COULD_NOT_TELL,
		    "Memory was corrupted while the CPU copied: perhaps an engine wrote too late.");
	else if (!is_copied(last))
		say_left(engine, last);
	else if (!strcmp(engine->driver, "dmasim"))
		say(engine, DO_NOT, "It is made of software: a CPU makes each copy.");
	else
		say_figures(exam, way);
}

static void add_setting(struct exam *exam, const char *format, ...)
{
	va_list args;

	assert(exam->nr_settings < MAX_SETTINGS);
	va_start(args, format);
	vsnprintf(exam->setting[exam->nr_settings], sizeof(exam->setting[0]), format, args);
	va_end(args);
	exam->nr_settings++;
}

static void list_settings(struct exam *exam)
{
	const struct way *way = exam->best;

	exam->nr_settings = 0;
	if (!way)
		return;
	/* A module may be loaded already, so that its parameters are written. */
	add_setting(exam, "modprobe %s", way->migrator);
	if (way->engine) {
		add_setting(exam, "echo %s > " DCBM_DIR "/providers", way->engine->driver);
		add_setting(exam, "echo %d > " DCBM_DIR "/min_order",
			    __builtin_ctzl(exam->best_kib * KIB / memory_page_size()));
	}
	add_setting(exam, "cd %s", OFFLOAD_DIR);
	if (best_bound(way))
		add_setting(exam, "echo %ld > max_inaccessible_us", best_bound(way));
	for (unsigned int i = 0; i < ARRAY_SIZE(bulk_reasons); i++)
		add_setting(exam, "echo %s > routes/%s", way->migrator, bulk_reasons[i]);
	if (demotion_pays(exam, way))
		add_setting(exam, "echo %s > routes/" DEMOTION, way->migrator);
	add_setting(exam, "echo 1 > enabled");
}

void judge(struct exam *exam)
{
	bool untold = !exam->moved || exam->hindrance[0], wrong = false;

	for (unsigned int i = ENGINES; i < exam->nr_ways; i++) {
		const struct way *way = &exam->way[i];

		judge_engine(exam, way);
		untold |= way->engine->verdict == COULD_NOT_TELL;
		wrong |= way->engine->failures || mistake(way);
	}
	find_best(exam);
	list_settings(exam);
	exam->verdict = exam->best ? USE_IT : untold && !wrong ? COULD_NOT_TELL : DO_NOT;
}

static const char * const verdicts[] = {
	[USE_IT] = "Use it.", [DO_NOT] = "Do not use it.", [COULD_NOT_TELL] = "Could not tell.",
};

static void print_way(const struct way *way)
{
	const struct engine *engine = way->engine;

	printf("%s: %u channels, %u of them for memory; IOMMU %s\n", engine->driver,
	       engine->nr_channels, engine->for_memory, engine->iommu);
	if (engine->for_memory)
		printf("  Its driver %s stop it. dmatest: %lu tests, %lu failed. Copied: %.1f GB.\n"
		       "  Whether it tells of uncorrected errors of memory, its manual says.\n",
		       engine->stops ? "can" : "cannot", engine->tests, engine->failures,
		       copied_gb(way));
	printf("  %s %s\n\n", verdicts[engine->verdict], engine->why);
}

static void print_point(const struct way *way, const struct point *point)
{
	printf("%4zu KiB %5ld  %-18s", point->folio_kib, point->bound_us, way->name);
	for (unsigned int i = 0; i < NR_FIGURES; i++)
		printf(" %8.1f-%-8.1f", span_of(point->figure[i]).least,
		       span_of(point->figure[i]).most);
	if (point->live)
		printf("  live");
	if (point_is_wrong(point))
		printf("  WRONG");
	else if (strcmp(way->migrator, "none") && !is_copied(point))
		printf("  left to the kernel");
	else if (point->demoted)
		printf("  demoted");
	else if (!waits_count(point))
		printf("  too noisy to judge waits");
	printf("\n");
}

static void print_curve(const struct exam *exam)
{
	printf("Nodes %d and %d, least and most of %u moves; CPU: of the thread that moves.\n\n",
	       exam->node[0], exam->node[1], SAMPLES);
	printf("%8s %5s  %-18s %17s %17s %17s %17s %17s\n", "folio", "bound", "moved by", "GB/s",
	       "CPU ms/GB", "GB/s, in use", "CPU ms/GB, in use", "longest wait, us");
	for (unsigned int at = 0; at < NR_POINTS; at++)
		for (unsigned int i = 0; i < exam->nr_ways; i++)
			if (exam->way[i].point[at].bytes)
				print_point(&exam->way[i], &exam->way[i].point[at]);
}

/* Of an engine that has this verdict, if no way is best. */
static void print_why(const struct exam *exam)
{
	const char *why = exam->best ? figures(exam, exam->best) :
		exam->hindrance[0] ? exam->hindrance :
		"there is no DMA engine with a driver, and idle CPUs do not pay.";
	const char *driver = "";

	for (unsigned int i = exam->best ? 0 : exam->nr_engines; i-- > 0;)
		if (exam->engine[i].verdict == exam->verdict) {
			driver = exam->engine[i].driver;
			why = exam->engine[i].why;
		}
	printf("Why: %s%s%s\n", driver, *driver ? ": " : "", why);
}

/* Of the way to use, or of all that find_best() chose from. */
static void print_how_sure(const struct exam *exam)
{
	unsigned long tests = 0, failures = 0;
	unsigned int channels = 0;
	double gb = 0;

	for (unsigned int i = exam->nr_engines ? ENGINES : MTCOPY; i < exam->nr_ways; i++) {
		const struct engine *engine = exam->way[i].engine;

		if (exam->best && exam->best != &exam->way[i])
			continue;
		gb += copied_gb(&exam->way[i]);
		failures += !!mistake(&exam->way[i]) + (engine ? engine->failures : 0);
		tests += engine ? engine->tests : 0;
		channels += engine ? engine->for_memory : 0;
	}
	if (!exam->moved && !tests) {
		printf("How sure: nothing was tested.\n\n");
		return;
	}
	printf("How sure: %s mistake in %.1f GB, %u channels, %lu tests of dmatest, %.0f s; ",
	       failures ? "a" : "no", gb, channels, tests, exam->seconds);
	printf("not tested: stops, errors, unplug; ");
	printf("ten times --size and --iterations take %.0f min.\n\n", exam->seconds / 6);
}

void print_words(const struct exam *exam)
{
	if (exam->best)
		printf("Use %s%s folios of %zu KiB and more, if much memory moves at once%s.\n",
		       exam->best->name, exam->best->engine ? ", for" : ", which pays for",
		       exam->best_kib, demotion_pays(exam, exam->best) ? ", and to demote" : "");
	else
		printf("%s\n", exam->verdict == DO_NOT ? "Do not use copy offload here." :
		       "Could not tell whether to use copy offload here.");
	print_why(exam);
	print_how_sure(exam);
	if (exam->best)
		printf("To use it until the next boot (--size and --iterations: test longer):\n");
	for (unsigned int i = 0; i < exam->nr_settings; i++)
		printf("  %s\n", exam->setting[i]);
	if (exam->hindrance[0])
		printf("Not all could be examined: %s.\n", exam->hindrance);
	printf("Not measured, and without a route: numa_misplaced, compaction, contig_range%s.\n\n",
	       exam->way[KERNEL].point[DEMOTIONS].rounds ? "" : ", " DEMOTION);
	for (unsigned int i = ENGINES; i < exam->nr_ways; i++)
		print_way(&exam->way[i]);
	if (exam->moved)
		print_curve(exam);
}
