// SPDX-License-Identifier: GPL-2.0
/*
 * mt_bench: measure what a second thread brings to copies of 2 MB folios, and what the
 * migrator mtcopy makes of it.
 *
 * It is built from the kernel's own files: the assembly that copies, in
 * arch/x86/lib/copy_pages_64.S, and the code that cuts a folio into pieces, decides when
 * to ask a helper and learns whether helpers pay, in
 * drivers/migrate_copy_offload/mtcopy/mtcopy_split.h. Build it in tools/mm, for x86-64.
 *
 * The caller runs on one processor. The helper is bound to another, in SCHED_IDLE, as
 * in the kernel. Every round copies a folio in three ways with each primitive, in
 * random order: with one thread, with two wherever the helper may be asked, and as
 * mtcopy does, which asks only if that pays and has learned in batches before. Source and
 * destination are in no cache. There are two series: in one the helper's processor is
 * otherwise idle, in the other a process spins on it. Results are quartiles over the
 * rounds, of times and of ratios within a round.
 */

#define _GNU_SOURCE
#include <err.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../drivers/migrate_copy_offload/mtcopy/mtcopy_split.h"
#include "copy_pages/bench.h"

#define FOLIO		HUGE_PAGE
/* MTCOPY_SPIN_NS in mtcopy.c. */
#define SPIN_NS		50000ULL
/* With each primitive, before the rounds of a series. */
#define LEARN_BATCHES	100
/* How long to wait for the helper, if it does not copy anything. */
#define VERIFY_NS	30000000000ULL

static const struct {
	const char *name;
	unsigned long (*copy)(void *dst, const void *src, unsigned long len);
} primitives[] = {
	{ "movsq", copy_mc_pages_movsq },
	{ "movsb", copy_mc_pages_movsb },
	{ "nontemporal", copy_mc_pages_nontemporal },
};

#define NR_PRIMITIVES	ARRAY_SIZE(primitives)

enum { IDLE, BUSY, NR_SERIES };

static const char * const series_names[NR_SERIES] = { "idle", "busy" };

enum { ONE, TWO, MTCOPY, NR_WAYS };

static const char * const way_names[NR_WAYS] = { "one", "two", "mtcopy" };

/* States of the helper. The caller offers and withdraws, the helper runs. */
enum { NOTHING, OFFERED, RUNNING, DONE };

static struct bench_options options;

static struct {
	atomic_int state;
	pid_t tid;
	bool cannot_boost;
	unsigned long copied;
	unsigned long offers;
	unsigned long boosts;
} helper;

static struct {
	atomic_ullong cursor;
	const __u32 *pages;
	const unsigned long *starts;
	unsigned int nr_folios;
	unsigned int piece_pages;
	unsigned int primitive;
} job;

static char *src, *dst;
static int caller_cpu, helper_cpu;
static __u64 rest_until[NR_WAYS];
static struct mtcopy_gain gains[NR_PRIMITIVES];
static __u64 samples[NR_SERIES][NR_PRIMITIVES][NR_WAYS][COPY_MAX_ROUNDS];
/* What the helper did. */
static struct {
	unsigned long pages;
	unsigned long offers;
	unsigned long boosts;
} did[NR_SERIES][NR_PRIMITIVES][NR_WAYS];

static void futex_wait(int value, const struct timespec *timeout)
{
	syscall(SYS_futex, &helper.state, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

static void futex_wake(void)
{
	syscall(SYS_futex, &helper.state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool take_piece(struct mtcopy_piece *piece)
{
	__u64 cursor = job.cursor, next;

	do {
		if (!mtcopy_next_piece(job.pages, job.nr_folios, job.piece_pages, cursor,
				       piece, &next))
			return false;
	} while (!atomic_compare_exchange_weak(&job.cursor, &cursor, next));
	return true;
}

static void copy_range(unsigned int primitive, unsigned long offset, unsigned long bytes)
{
	if (primitives[primitive].copy(dst + offset, src + offset, bytes))
		errx(1, "%s did not copy everything", primitives[primitive].name);
}

static void copy_piece(const struct mtcopy_piece *piece)
{
	unsigned int i;

	for (i = piece->first; i < piece->first + piece->nr; i++) {
		unsigned int nr = piece->nr > 1 ? job.pages[i] : piece->nr_pages;

		copy_range(job.primitive, (job.starts[i] + piece->page) * PAGE, nr * PAGE);
	}
}

static void bind_to(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "cannot run on processor %d", cpu);
}

static int set_policy(pid_t tid, int policy)
{
	return sched_setscheduler(tid, policy, &(struct sched_param){ 0 });
}

static void *run_helper(void *unused)
{
	struct mtcopy_piece piece;

	(void)unused;
	bind_to(helper_cpu);
	helper.tid = syscall(SYS_gettid);
	if (set_policy(0, SCHED_IDLE))
		err(1, "no SCHED_IDLE");
	atomic_store(&helper.state, NOTHING);
	for (;;) {
		int state = OFFERED;

		if (!atomic_compare_exchange_strong(&helper.state, &state, RUNNING)) {
			futex_wait(state, NULL);
			continue;
		}
		while (take_piece(&piece)) {
			copy_piece(&piece);
			helper.copied += piece.nr_pages;
		}
		atomic_store(&helper.state, DONE);
		futex_wake();
	}
	return NULL;
}

static void start_helper(void)
{
	pthread_t thread;

	atomic_store(&helper.state, RUNNING);
	if (pthread_create(&thread, NULL, run_helper, NULL))
		errx(1, "no thread");
	while (atomic_load(&helper.state) == RUNNING)
		usleep(100);
}

/* Wait for a helper that has begun. If it lost its processor, raise it to our priority. */
static void wait_for_helper(void)
{
	__u64 end = now_ns() + SPIN_NS;
	bool boosted = false;

	while (atomic_load(&helper.state) == RUNNING && now_ns() < end)
		__builtin_ia32_pause();
	if (atomic_load(&helper.state) == RUNNING) {
		boosted = !set_policy(helper.tid, SCHED_OTHER);
		helper.boosts++;
		helper.cannot_boost |= !boosted;
		while (atomic_load(&helper.state) == RUNNING)
			futex_wait(RUNNING, NULL);
	}
	if (boosted)
		set_policy(helper.tid, SCHED_IDLE);
}

/* Copy as folio_mc_copy() does. */
static void copy_alone(void)
{
	unsigned int i;

	for (i = 0; i < job.nr_folios; i++) {
		unsigned long offset = job.starts[i] * PAGE, left = job.pages[i] * PAGE;

		while (left) {
			unsigned long step = left < COPY_STEP_BYTES ? left : COPY_STEP_BYTES;

			copy_range(job.primitive, offset, step);
			offset += step;
			left -= step;
		}
	}
}

/* Return false if the helper cannot be asked. Then nothing is copied. */
static bool copy_with_helper(unsigned int nr_pages, __u64 *rest_until)
{
	struct mtcopy_piece piece;
	int state = OFFERED;

	helper.copied = 0;
	if (mtcopy_threads(nr_pages, 2) < 2 || now_ns() < *rest_until)
		return false;

	job.piece_pages = mtcopy_piece_pages(nr_pages, 2);
	atomic_store(&job.cursor, 0);
	atomic_store(&helper.state, OFFERED);
	futex_wake();
	helper.offers++;
	while (take_piece(&piece))
		copy_piece(&piece);
	if (!atomic_compare_exchange_strong(&helper.state, &state, NOTHING)) {
		wait_for_helper();
		atomic_store(&helper.state, NOTHING);
	}
	if (!helper.copied)
		*rest_until = now_ns() + MTCOPY_REST_NS;
	return true;
}

static __u64 sample(unsigned int primitive, unsigned int way)
{
	static const __u32 pages[] = { FOLIO / PAGE };
	static const unsigned long starts[] = { 0 };
	struct mtcopy_gain *gain = &gains[primitive];
	bool helped;
	__u64 start;

	evict(src, FOLIO);
	evict(dst, FOLIO);
	__builtin_ia32_mfence();
	job.pages = pages;
	job.starts = starts;
	job.nr_folios = 1;
	job.primitive = primitive;

	start = now_ns();
	helped = (way == TWO || (way == MTCOPY && mtcopy_ask(gain))) &&
		 copy_with_helper(FOLIO / PAGE, &rest_until[way]);
	if (!helped)
		copy_alone();
	if (way == MTCOPY)
		mtcopy_learn(gain, helped, now_ns() - start, FOLIO / PAGE);
	return now_ns() - start;
}

/* What runs before a copy affects it: no two rounds have the same order. */
static void shuffle(unsigned int *order, unsigned int nr)
{
	while (nr > 1) {
		unsigned int other = random() % nr--, swapped = order[nr];

		order[nr] = order[other];
		order[other] = swapped;
	}
}

static void measure(unsigned int series)
{
	unsigned int order[NR_PRIMITIVES * NR_WAYS];
	unsigned int round, i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		order[i] = i;

	for (i = 0; i < LEARN_BATCHES * NR_PRIMITIVES; i++)
		sample(i % NR_PRIMITIVES, MTCOPY);

	/* Round 0 warms up; round 1 overwrites its results. */
	for (round = 0; round <= options.rounds; round++) {
		shuffle(order, ARRAY_SIZE(order));
		for (i = 0; i < ARRAY_SIZE(order); i++) {
			unsigned int primitive = order[i] / NR_WAYS, way = order[i] % NR_WAYS;
			unsigned long offers = helper.offers, boosts = helper.boosts;

			samples[series][primitive][way][round ? round - 1 : 0] =
				sample(primitive, way);
			if (!round || helper.offers == offers)
				continue;
			did[series][primitive][way].pages += helper.copied;
			did[series][primitive][way].offers++;
			did[series][primitive][way].boosts += helper.boosts - boosts;
		}
	}
}

/* Start a process that keeps the helper's processor busy. */
static pid_t start_spinner(void)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		bind_to(helper_cpu);
		for (;;)
			__builtin_ia32_pause();
	}
	usleep(100000);
	return pid;
}

static void print_result(FILE *out, unsigned int series, unsigned int primitive)
{
	unsigned int way;

	fprintf(out, "    {\"other\": \"%s\", \"primitive\": \"%s\"", series_names[series],
		primitives[primitive].name);
	for (way = ONE; way < NR_WAYS; way++) {
		fprintf(out, ",\n     \"%s\": {", way_names[way]);
		print_quartiles(out, "us", samples[series][primitive][way], options.rounds,
				1000.0);
		fputs(", ", out);
		print_ratios(out, "ratio", samples[series][primitive][ONE],
			     samples[series][primitive][way], options.rounds);
		fprintf(out, ", \"helped_pages\": %lu, \"offers\": %lu, \"boosts\": %lu}",
			did[series][primitive][way].pages, did[series][primitive][way].offers,
			did[series][primitive][way].boosts);
	}
	fputs("}", out);
}

static void print_json(FILE *out, bool huge)
{
	unsigned int series, primitive;
	const char *comma = "";

	fprintf(out, "{\n  \"program\": \"mt_bench\",\n  \"format\": 2,\n");
	fprintf(out, "  \"rounds\": %u,\n  \"folio_kib\": %lu,\n", options.rounds, FOLIO / KIB);
	fprintf(out, "  \"huge_pages\": %s,\n  \"cpus\": [%d, %d],\n", huge ? "true" : "false",
		caller_cpu, helper_cpu);
	fprintf(out, "  \"may_boost\": %s,\n", helper.cannot_boost ? "false" : "true");
	fputs("  \"results\": [\n", out);
	for (series = 0; series < NR_SERIES; series++) {
		for (primitive = 0; primitive < NR_PRIMITIVES; primitive++) {
			fputs(comma, out);
			print_result(out, series, primitive);
			comma = ",\n";
		}
	}
	fputs("\n  ]\n}\n", out);
}

/* Compare from the last page on, where a helper would still be copying. */
static bool same(unsigned int nr_pages)
{
	while (nr_pages--)
		if (memcmp(dst + nr_pages * PAGE, src + nr_pages * PAGE, PAGE))
			return false;
	return true;
}

/*
 * Copy random batches of up to one large folio: check each byte, and the page after. On a
 * busy machine the helper may have to wait for its processor: go on until it copied some.
 */
static void verify(void)
{
	const unsigned int all = FOLIO / PAGE;
	__u32 pages[FOLIO / PAGE];
	unsigned long starts[FOLIO / PAGE];
	unsigned long helped = 0;
	unsigned int round, order;
	__u64 end = now_ns() + VERIFY_NS;

	for (round = 0; round < 300 || (!helped && now_ns() < end); round++) {
		unsigned int nr = 0, total = 0;

		/* Every fourth batch is one folio, every fourth small ones alone. */
		while (total < all - 1) {
			order = round % 4 == 1 ? 8 : round % 4 == 2 ? 0 : random() % 9;
			while (total + (1U << order) > all - 1)
				order--;
			starts[nr] = total;
			pages[nr++] = 1U << order;
			total += 1U << order;
			if (round % 4 == 1)
				break;
		}
		memset(dst, round, FOLIO);
		job.pages = pages;
		job.starts = starts;
		job.nr_folios = nr;
		job.primitive = round % NR_PRIMITIVES;
		rest_until[TWO] = 0;
		if (!copy_with_helper(total, &rest_until[TWO]))
			copy_alone();
		helped += helper.copied;
		if (!same(total))
			errx(1, "round %u: %u folios of %u pages: wrong bytes", round, nr, total);
		for (order = 0; order < PAGE; order++)
			if (dst[total * PAGE + order] != (char)round)
				errx(1, "round %u: a byte behind the last folio", round);
	}
	printf("%u batches: correct, %lu pages by the helper\n", round, helped);
	if (!helped)
		errx(1, "the helper copied nothing");
}

/* Use the current processor, and another one on a different core if possible. */
static void choose_cpus(void)
{
	char path[96], list[64] = "";
	cpu_set_t cpus;
	FILE *file;
	int cpu, first, last;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) < 2)
		errx(3, "there is only one processor");
	caller_cpu = sched_getcpu();
	helper_cpu = -1;

	snprintf(path, sizeof(path),
		 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", caller_cpu);
	file = fopen(path, "r");
	if (!file || !fgets(list, sizeof(list), file))
		list[0] = '\0';
	if (file)
		fclose(file);
	if (sscanf(list, "%d-%d", &first, &last) != 2 &&
	    sscanf(list, "%d,%d", &first, &last) != 2) {
		first = caller_cpu;
		last = caller_cpu;
	}

	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus) || cpu == caller_cpu)
			continue;
		if (helper_cpu < 0)
			helper_cpu = cpu;
		if (cpu != first && cpu != last) {
			helper_cpu = cpu;
			break;
		}
	}
	bind_to(caller_cpu);
}

static const char usage[] =
	"usage: mt_bench [options]\n"
	"  -r, --rounds N    rounds, 5 to 63 (default 31)\n"
	"  -o, --output FILE write results as JSON to FILE (default: standard output)\n"
	"  -v, --verify      verify what two threads copy, and measure nothing\n"
	"  -h, --help        print this text\n";

int main(int argc, char **argv)
{
	bool huge = true;
	pid_t spinner;
	FILE *out;

	options = parse_options(argc, argv, usage, NULL);
	choose_cpus();
	src = map_filled(FOLIO, &huge);
	dst = map_filled(FOLIO, &huge);
	start_helper();
	if (options.verify) {
		verify();
		return 0;
	}

	out = open_results(options.output);
	measure(IDLE);
	spinner = start_spinner();
	measure(BUSY);
	kill(spinner, SIGKILL);
	waitpid(spinner, NULL, 0);
	print_json(out, huge);
	close_results(out);
	return 0;
}
