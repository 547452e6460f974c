// SPDX-License-Identifier: GPL-2.0
/*
 * copy_bench: measure how fast the kernel's primitives copy ranges of pages on this
 * machine, and which of them the kernel's calibration would choose.
 *
 * It is built from the kernel's own files: the assembly in arch/x86/lib/copy_pages_64.S
 * and the choice in mm/copy_pages_select.c. Build it in tools/mm, for x86-64.
 *
 * One sample copies one or more folios of one size, all in the same state:
 *
 *   cold       source and destination are in no cache (evicted by clflush)
 *   hot        both were copied just before, and are in the cache as far as they fit
 *   cold_read  as cold, and the time includes reading the whole destination afterwards
 *
 * Every round takes one sample of each primitive, in a rotating order, so that a slow
 * phase of the machine affects all of them. Results are quartiles over the rounds, of
 * times and of ratios within a round.
 */

#define _GNU_SOURCE
#include <cpuid.h>
#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "copy_pages/bench.h"
#include "copy_pages/extable.h"

#define MIN_KIB		4
#define MAX_KIB		2048
#define NR_SIZES	10
/* A sample has several small folios: one would take less than the clock resolves. */
#define SAMPLE_BYTES	(256 * KIB)

/* The measured primitives, and a second loop to compare them with. */
enum {
	/* folio_mc_copy() on a processor with ERMS, which copies pages with "rep movsb" */
	PER_PAGE_MC = NR_COPY_PRIMITIVES,
	NR_MEASURED,
};

static const char * const state_names[NR_COPY_STATES] = {
	[COPY_COLD]		= "cold",
	[COPY_HOT]		= "hot",
	[COPY_READ_BACK]	= "cold_read",
};

static struct bench_options options;
static unsigned long sizes_kib[NR_SIZES] = { 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048 };
static unsigned int nr_sizes = NR_SIZES;

/* Times of the samples in ns. */
static __u64 samples[NR_SIZES][NR_COPY_STATES][NR_MEASURED][COPY_MAX_ROUNDS];
static char *src, *dst;
static bool has_erms, has_fsrm;

static const char *measured_name(unsigned int measured)
{
	return measured == PER_PAGE_MC ? "per_page_mc" : copy_primitive_names[measured];
}

static unsigned long folios_per_sample(unsigned long bytes)
{
	return bytes < SAMPLE_BYTES ? SAMPLE_BYTES / bytes : 1;
}

/* Copy one folio as the kernel would: in steps, or page by page. */
static void copy_folio(unsigned int measured, char *to, const char *from, unsigned long bytes)
{
	unsigned long step = COPY_STEP_BYTES, offset;

	if (measured == COPY_PER_PAGE || measured == PER_PAGE_MC)
		step = PAGE;
	if (step > bytes)
		step = bytes;

	for (offset = 0; offset < bytes; offset += step) {
		unsigned long left = 0;

		switch (measured) {
		case COPY_PER_PAGE:
			copy_pages_movsq(to + offset, from + offset, step);
			break;
		case PER_PAGE_MC:
		case COPY_MOVSB:
			left = copy_mc_pages_movsb(to + offset, from + offset, step);
			break;
		case COPY_MOVSQ:
			left = copy_mc_pages_movsq(to + offset, from + offset, step);
			break;
		case COPY_NONTEMPORAL:
			left = copy_mc_pages_nontemporal(to + offset, from + offset, step);
			break;
		}
		if (left)
			errx(1, "%s left %lu bytes", measured_name(measured), left);
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

static __u64 sample(unsigned int measured, enum copy_state state, unsigned long bytes)
{
	unsigned long folios = folios_per_sample(bytes);
	unsigned long total = folios * bytes;
	unsigned long i;
	__u64 start;

	/* Evict what earlier samples left; hot samples all start from the same copies. */
	evict(src, total);
	evict(dst, total);
	__builtin_ia32_mfence();
	if (state == COPY_HOT) {
		for (i = 0; i < 2 * folios; i++)
			copy_folio(COPY_PER_PAGE, dst + i % folios * bytes,
				   src + i % folios * bytes, bytes);
	}

	start = now_ns();
	for (i = 0; i < folios; i++)
		copy_folio(measured, dst + i * bytes, src + i * bytes, bytes);
	if (state == COPY_READ_BACK)
		read_all(dst, total);
	return now_ns() - start;
}

static void measure(void)
{
	unsigned int size, state, round, i;

	for (size = 0; size < nr_sizes; size++) {
		for (state = 0; state < NR_COPY_STATES; state++) {
			/* Round 0 warms up; round 1 overwrites its results. */
			for (round = 0; round <= options.rounds; round++) {
				unsigned int slot = round ? round - 1 : 0;

				for (i = 0; i < NR_MEASURED; i++) {
					unsigned int measured = (i + round) % NR_MEASURED;

					samples[size][state][measured][slot] =
						sample(measured, state,
						       sizes_kib[size] * KIB);
				}
			}
		}
	}
}

/*
 * Return what the calibration would choose with @loop as its baseline. Like the
 * calibration, use no more than COPY_ROUNDS rounds.
 */
static enum copy_primitive choose(enum copy_use use, unsigned int size, unsigned int loop)
{
	struct copy_timings timings[NR_COPY_STATES] = { };
	unsigned int state, i;

	for (state = 0; state < NR_COPY_STATES; state++) {
		__u64 (*ns)[COPY_MAX_ROUNDS] = samples[size][state];
		struct copy_timings *t = &timings[state];

		t->rounds = options.rounds < COPY_ROUNDS ? options.rounds : COPY_ROUNDS;
		for (i = 0; i < NR_COPY_PRIMITIVES; i++) {
			/* A primitive with the times of the loop is never chosen. */
			bool as_loop = i == COPY_PER_PAGE || (i == COPY_MOVSB && !has_erms);

			memcpy(t->ns[i], ns[as_loop ? loop : i], sizeof(t->ns[i]));
		}
	}
	return copy_select(use, timings, COPY_PER_PAGE);
}

static void print_string(FILE *out, const char *string)
{
	fputc('"', out);
	for (; *string; string++) {
		if (*string == '"' || *string == '\\')
			fputc('\\', out);
		if ((unsigned char)*string >= ' ')
			fputc(*string, out);
	}
	fputc('"', out);
}

static void print_cpu(FILE *out)
{
	unsigned int regs[13] = { 0 };
	unsigned int i;
	char *name = (char *)regs;

	for (i = 0; i < 3; i++)
		__get_cpuid(0x80000002 + i, &regs[4 * i], &regs[4 * i + 1],
			    &regs[4 * i + 2], &regs[4 * i + 3]);
	while (*name == ' ')
		name++;
	fputs("  \"cpu\": {\"model\": ", out);
	print_string(out, name);
	fprintf(out, ", \"erms\": %s, \"fsrm\": %s},\n", has_erms ? "true" : "false",
		has_fsrm ? "true" : "false");
}

static void print_result(FILE *out, unsigned int size, enum copy_state state, unsigned int measured)
{
	const __u64 (*ns)[COPY_MAX_ROUNDS] = (const void *)samples[size][state];
	unsigned long bytes = sizes_kib[size] * KIB;
	double folios = folios_per_sample(bytes);
	__u64 median = copy_quartiles(ns[measured], options.rounds).median;

	fprintf(out, "    {\"kib\": %lu, \"state\": \"%s\", \"primitive\": \"%s\", ",
		sizes_kib[size], state_names[state], measured_name(measured));
	print_quartiles(out, "ns", ns[measured], options.rounds, folios);
	fprintf(out, ", \"gbps\": %.3f, ", bytes * folios / (median ? median : 1));
	print_ratios(out, "ratio", ns[COPY_PER_PAGE], ns[measured], options.rounds);
	fputs(", ", out);
	print_ratios(out, "ratio_mc", ns[PER_PAGE_MC], ns[measured], options.rounds);
	fputc('}', out);
}

static void print_verdicts(FILE *out)
{
	static const unsigned int loops[] = { COPY_PER_PAGE, PER_PAGE_MC };
	unsigned int loop, use, size, class;
	const char *comma = "";

	for (loop = 0; loop < ARRAY_SIZE(loops); loop++) {
		/* Without ERMS the kernel's loop does not use "rep movsb". */
		if (loops[loop] == PER_PAGE_MC && !has_erms)
			continue;
		for (use = 0; use < NR_COPY_USES; use++) {
			for (size = 0; size < nr_sizes; size++) {
				unsigned long bytes = sizes_kib[size] * KIB;
				enum copy_primitive choice;

				class = copy_class(bytes);
				if (class == COPY_CLASS_NONE ||
				    copy_class_bytes[class] != bytes)
					continue;
				choice = choose(use, size, loops[loop]);
				fprintf(out, "%s    {\"loop\": \"%s\", \"use\": \"%s\", ",
					comma, measured_name(loops[loop]),
					copy_use_names[use]);
				fprintf(out, "\"from_kib\": %lu, \"primitive\": \"%s\"}",
					sizes_kib[size], copy_primitive_names[choice]);
				comma = ",\n";
			}
		}
	}
}

static void print_json(FILE *out, bool huge)
{
	unsigned int size, state, measured;
	const char *comma = "";

	fputs("{\n  \"program\": \"copy_bench\",\n  \"format\": 1,\n", out);
	print_cpu(out);
	fprintf(out, "  \"rounds\": %u,\n  \"step_kib\": %lu,\n  \"huge_pages\": %s,\n",
		options.rounds, COPY_STEP_BYTES / KIB, huge ? "true" : "false");
	fputs("  \"results\": [\n", out);
	for (size = 0; size < nr_sizes; size++) {
		for (state = 0; state < NR_COPY_STATES; state++) {
			for (measured = 0; measured < NR_MEASURED; measured++) {
				fputs(comma, out);
				print_result(out, size, state, measured);
				comma = ",\n";
			}
		}
	}
	fputs("\n  ],\n  \"verdict\": [\n", out);
	print_verdicts(out);
	fputs("\n  ]\n}\n", out);
}

/*
 * Verification: each primitive copies all bytes of every length and no others, and
 * handles a source of which a part cannot be read. Inaccessible memory simulates
 * poison, and a handler of SIGSEGV replaces the kernel's fixup handler.
 */

static void fix_up(int signal, siginfo_t *info, void *context)
{
	greg_t *ip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	const struct exception *entry;

	for (entry = __start___ex_table; entry < __stop___ex_table; entry++) {
		if ((greg_t)&entry->from + entry->from == *ip) {
			*ip = (greg_t)&entry->to + entry->to;
			return;
		}
	}
	/* No fixup: die from the same fault, without a handler. */
	(void)info;
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

static const struct {
	const char *name;
	void (*copy)(void *dst, const void *src, unsigned long len);
	unsigned long (*copy_mc)(void *dst, const void *src, unsigned long len);
} forms[] = {
	{ "movsq", copy_pages_movsq, copy_mc_pages_movsq },
	{ "movsb", copy_pages_movsb, copy_mc_pages_movsb },
	{ "nontemporal", copy_pages_nontemporal, copy_mc_pages_nontemporal },
};

#define FILL		0x5a

static void check_fill(const char *start, unsigned long bytes, const char *what)
{
	unsigned long i;

	for (i = 0; i < bytes; i++) {
		if (start[i] != FILL)
			errx(1, "%s: byte %lu was written", what, i);
	}
}

static void verify_lengths(unsigned int form, bool mc)
{
	unsigned long pages, bytes;

	for (pages = 1; pages <= MAX_KIB * KIB / PAGE; pages++) {
		char *to = dst + PAGE;

		bytes = pages * PAGE;
		memset(dst, FILL, bytes + 2 * PAGE);
		if (!mc)
			forms[form].copy(to, src, bytes);
		else if (forms[form].copy_mc(to, src, bytes))
			errx(1, "%s: %lu pages: not all was copied", forms[form].name, pages);
		if (memcmp(to, src, bytes))
			errx(1, "%s: %lu pages: wrong bytes", forms[form].name, pages);
		check_fill(dst, PAGE, "before the range");
		check_fill(to + bytes, PAGE, "after the range");
	}
}

/*
 * @readable: number of readable bytes of the source, a multiple of a word below @bytes.
 * Real poison starts at a cache line. If @readable ends within a line, a primitive may
 * copy less of that line than it could, or more than it reports.
 */
static void verify_poison(unsigned int form, unsigned long bytes, unsigned long readable)
{
	char *hole = src + MAX_KIB * KIB;
	unsigned long left;

	memset(dst, FILL, bytes + PAGE);
	left = forms[form].copy_mc(dst, hole - readable, bytes);
	if (left < bytes - readable || left >= bytes - readable + LINE ||
	    (left != bytes - readable && !(readable % LINE)))
		errx(1, "%s: %lu bytes, %lu readable: %lu left", forms[form].name, bytes,
		     readable, left);
	if (memcmp(dst, hole - readable, bytes - left))
		errx(1, "%s: wrong bytes before poison", forms[form].name);
	readable = (readable + LINE - 1) & ~(LINE - 1);
	check_fill(dst + readable, bytes + PAGE - readable, "after poison");
}

static void verify(void)
{
	static const unsigned long pages[] = { 1, 2, 3, 16, 512 };
	struct sigaction action = { .sa_sigaction = fix_up, .sa_flags = SA_SIGINFO };
	unsigned int form, i;
	unsigned long line, readable;

	sigaction(SIGSEGV, &action, NULL);
	for (form = 0; form < ARRAY_SIZE(forms); form++) {
		verify_lengths(form, false);
		verify_lengths(form, true);
		/* A load without a fixup ends the program. */
		for (readable = 0; readable < 2 * PAGE; readable += sizeof(__u64))
			verify_poison(form, 2 * PAGE, readable);
		for (i = 0; i < ARRAY_SIZE(pages); i++) {
			unsigned long bytes = pages[i] * PAGE;

			for (line = 0; line < bytes / LINE; line++) {
				/* Test long ranges only at the ends and in the middle. */
				if (pages[i] <= 3 || line < 2 || line + 2 >= bytes / LINE ||
				    line == bytes / LINE / 2)
					verify_poison(form, bytes, line * LINE);
			}
		}
		printf("%s: every length from 1 to %lu pages, and poison: correct\n",
		       forms[form].name, MAX_KIB * KIB / PAGE);
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

/* Map the buffers, with inaccessible memory behind the source. */
static bool map_buffers(void)
{
	unsigned long bytes = 2 * HUGE_PAGE;
	bool huge = true;

	src = map_filled(bytes, &huge);
	dst = map_filled(bytes, &huge);
	if (mprotect(src + MAX_KIB * KIB, bytes - MAX_KIB * KIB, PROT_NONE))
		err(1, "cannot protect memory");
	return huge;
}

static const char usage[] =
	"usage: copy_bench [options]\n"
	"  -r, --rounds N    rounds, 5 to 63 (default 31)\n"
	"  -s, --sizes LIST  folio sizes in KiB, powers of two from 4 to 2048\n"
	"  -o, --output FILE write results as JSON to FILE (default: standard output)\n"
	"  -v, --verify      verify what the primitives copy, and measure nothing\n"
	"  -h, --help        print this text\n";

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

static void detect(void)
{
	unsigned int eax, ebx = 0, ecx, edx = 0;

	__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx);
	has_erms = ebx & (1 << 9);
	has_fsrm = edx & (1 << 4);
}

int main(int argc, char **argv)
{
	FILE *out;
	bool huge;

	options = parse_options(argc, argv, usage, parse_sizes);
	detect();
	stay();
	huge = map_buffers();
	if (options.verify) {
		verify();
		return 0;
	}

	out = open_results(options.output);
	measure();
	print_json(out, huge);
	close_results(out);
	return 0;
}
