// SPDX-License-Identifier: GPL-2.0
/*
 * migrate_bench: how fast memory moves between NUMA nodes, and how long it is
 * inaccessible meanwhile. See its --help.
 *
 * One measurement maps fresh memory in folios of one size on one node, moves it
 * to another node ("move 1") and back ("move 2"). The two are reported apart:
 * the second migration of a folio may cost more than the first.
 *
 * Its only threads are those that use the memory while it moves. It does not call
 * setlocale(): decimal points are points.
 */
#define _GNU_SOURCE
#include "migrate_measure/measure.h"

#include <getopt.h>
#include <sched.h>

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define PROACTIVENESS	"/proc/sys/vm/compaction_proactiveness"
#define CPU_LISTS	"/proc/sys/vm/percpu_pagelist_high_fraction"

#define MAX_REPEAT	1000
#define MAX_MIB		(16 * 1024 * 1024UL)
#define MAX_TOUCHES	100000000

const char * const instrument_names[] = {
	[INSTRUMENT_AUTO] = "auto", [INSTRUMENT_OFF] = "off", [INSTRUMENT_ONLY] = "only",
};

const char * const addresses_names[] = {
	[ADDRESSES_HEADS] = "heads", [ADDRESSES_ALL] = "all", [ADDRESSES_RANGE] = "range",
	[ADDRESSES_RECLAIM] = "reclaim", [ADDRESSES_FAULT] = "fault",
	[ADDRESSES_COMPACTION] = "compaction", [ADDRESSES_CONTIG] = "contig",
};

static void usage(void)
{
	fputs("Usage: migrate_bench [options]\n"
	      "Move memory between two NUMA nodes with move_pages(2), there (move 1) and back\n"
	      "(move 2), and tell how long it takes. Folios larger than a page need root. Huge\n"
	      "page settings, demotion, NUMA balancing and for compaction min_free_kbytes of\n"
	      "the whole machine are changed while it runs, and restored afterwards.\n"
	      "\n"
	      "  --folio-kib=LIST     folio sizes in KiB: powers of two from 4 to 2048 except 8,\n"
	      "                       with commas between (default 4,16,64,256,1024,2048);\n"
	      "                       with --memory=hugetlb up to 1048576\n"
	      "  --memory=KIND        anon (default); shmem; file: a new one in --dir; hugetlb;\n"
	      "                       mixed: ten thousand folios of 4, 64 and 2048 KiB of the\n"
	      "                       first three kinds, whatever --mib and --folio-kib say\n"
	      "  --dir=DIR            where files are, of a file system with large folios\n"
	      "                       (default /tmp)\n"
	      "  --mib=N              memory moved per measurement, in MiB (default 256)\n"
	      "  --folios-per-call=N  folios that one call gets; 0: all of them (default 0)\n"
	      "  --addresses=WHICH    what a call gets of each folio: heads: the address of its\n"
	      "                       first page (default); all: those of all its pages;\n"
	      "                       range: mbind(2) gets the range of all folios.\n"
	      "                       No call: with reclaim the memory is cold, and demoted to\n"
	      "                       a lower tier by memory.reclaim of this program's cgroup;\n"
	      "                       with fault NUMA balancing moves each folio at the first\n"
	      "                       access, if this program runs on a CPU of --to;\n"
	      "                       with compaction half of twice as much memory is freed,\n"
	      "                       folio by folio, while hugetlb holds all that is free of\n"
	      "                       --from, which is then compacted; with contig a huge page\n"
	      "                       of 1 GB is made where the memory is. --moves is 1\n"
	      "  --from=NODE          node that memory is allocated on\n"
	      "  --to=NODE            node that it moves to, and back from\n"
	      "                       (default: the first two nodes with memory)\n"
	      "  --moves=N            1: only there; 2: there and back (default 2)\n"
	      "  --warmup=N           measurements dropped before each size (default 1)\n"
	      "  --repeat=N           measurements of each size, 1 to 1000 (default 3)\n"
	      "  --instrument=WHEN    use the kernel's latency instrument, if there is one:\n"
	      "                       auto: in one more measurement, apart from those of speed\n"
	      "                       (default); off: never; only: in the only measurement, and\n"
	      "                       speeds include what it costs\n"
	      "  --touch=R,W[,N]      while memory moves, each of N threads (default 1) reads R\n"
	      "                       random pages of it a second, another writes to W, and no\n"
	      "                       write may get lost. They have real-time priority (needs\n"
	      "                       root): they wait for memory, and not for a processor. A\n"
	      "                       thread leaves out what it has no time for\n"
	      "  --zipf               few pages get most accesses: the n-th of them about 1/n\n"
	      "                       of those that the first gets\n"
	      "  --verify             fill memory with a pattern before each move, and compare\n"
	      "                       after it, outside the time measured; wrong bytes are\n"
	      "                       counted, and make this program fail\n"
	      "  --realtime           have real-time priority (needs root): no other program\n"
	      "                       has the processor while memory moves\n"
	      "  --output=FILE        where JSON goes (default: standard output)\n"
	      "  --quiet              no table on standard error\n"
	      "  --help               this text\n"
	      "\n"
	      "Speeds are in GB/s (10^9 bytes per second) of the folios that arrived, the mean\n"
	      "of all repetitions; times are in ns. folios_failed and folios_split are the\n"
	      "most of any repetition; folios_split is -1 where /proc/kpageflags is not\n"
	      "readable. latency_lost counts folios that are in no latency. offload says which\n"
	      "migrator copied, with the parameters of its module; live is as in debugfs. With\n"
	      "compaction and contig failed are folios that stayed; huge_pages are those that\n"
	      "there were to be (for compaction, of twice as much free memory), and those that\n"
	      "there are. With --touch, read_ns and write_ns are the longest that an access\n"
	      "took, p999 what one of a thousand took longer than, of the slowest thread, ipis\n"
	      "interrupts to flush TLBs and to call functions (x86), and copied_twice counts\n"
	      "folios that were written while the kernel copied them: most of any repetition.\n",
	      stdout);
}

static unsigned long parse_number(const char *text, const char *option, unsigned long min,
				  unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || value < min || value > max)
		errx(2, "--%s: '%s' is not a number from %lu to %lu", option, text, min, max);
	return value;
}

static void parse_sizes(struct options *options, char *list)
{
	char *text;

	options->nr_sizes = 0;
	while ((text = strsep(&list, ","))) {
		unsigned long kib = parse_number(text, "folio-kib", MIN_FOLIO_KIB, MAX_HUGETLB_KIB);

		if (kib & (kib - 1) || kib == 8)
			errx(2, "--folio-kib: there are no folios of %lu KiB", kib);
		for (unsigned int i = 0; i < options->nr_sizes; i++)
			if (options->folio_kib[i] == kib)
				errx(2, "--folio-kib: %lu is there twice", kib);
		options->folio_kib[options->nr_sizes++] = kib;
	}
}

/* Which of @nr names @text is. */
static unsigned int parse_name(const char *text, const char *option,
			       const char * const *names, unsigned int nr)
{
	char known[64] = "";
	size_t len = 0;

	for (unsigned int i = 0; i < nr; i++) {
		if (!strcmp(text, names[i]))
			return i;
		len += snprintf(known + len, sizeof(known) - len, "%s%s",
				!i ? "" : i == nr - 1 ? " or " : ", ", names[i]);
	}
	errx(2, "--%s: '%s' is not %s", option, text, known);
}

static void parse_touch(struct options *options, char *list)
{
	const char *reads = strsep(&list, ","), *writes = strsep(&list, ",");

	if (!writes)
		errx(2, "--touch: '%s' is not two numbers with a comma between", reads);
	options->reads = parse_number(reads, "touch", 1, MAX_TOUCHES);
	options->writes = parse_number(writes, "touch", 1, MAX_TOUCHES);
	if (list)
		options->readers = parse_number(list, "touch", 1, MAX_READERS);
}

static void adjust_options(struct options *options)
{
	if (options->addresses >= ADDRESSES_RECLAIM)
		options->moves = 1;
	else if (options->memory == MEMORY_ANON)
		return;
	if (options->reads)
		errx(2, "--touch is for anonymous memory that calls move");
	if (options->addresses != ADDRESSES_HEADS && options->memory != MEMORY_ANON)
		errx(2, "--addresses is for anonymous memory");
	if (options->memory == MEMORY_MIXED) {
		options->mib = (count_bytes(options) + MIB - 1) / MIB;
		options->nr_sizes = 1;
		options->folio_kib[0] = MIN_FOLIO_KIB;
	}
	for (unsigned int i = 0; i < options->nr_sizes; i++)
		if (options->folio_kib[i] > MAX_FOLIO_KIB && options->memory != MEMORY_HUGETLB)
			errx(2, "--folio-kib: only hugetlb folios are larger than %u KiB",
			     MAX_FOLIO_KIB);
}

static void parse_options(struct options *options, int argc, char **argv)
{
	const struct {
		unsigned long *value, min, max;
	} numbers[] = {
		{ &options->mib, 1, MAX_MIB }, { &options->folios_per_call, 0, INT_MAX },
		{ &options->from, 0, MEMORY_MAX_NODES - 1 },
		{ &options->to, 0, MEMORY_MAX_NODES - 1 }, { &options->moves, 1, NR_MOVES },
		{ &options->warmup, 0, MAX_REPEAT }, { &options->repeat, 1, MAX_REPEAT },
	};
	/* Options with a number are in the same order. */
	const struct option known[] = {
		{ "mib", required_argument, NULL, 0 },
		{ "folios-per-call", required_argument, NULL, 0 },
		{ "from", required_argument, NULL, 0 },
		{ "to", required_argument, NULL, 0 },
		{ "moves", required_argument, NULL, 0 },
		{ "warmup", required_argument, NULL, 0 },
		{ "repeat", required_argument, NULL, 0 },
		{ "folio-kib", required_argument, NULL, 'k' },
		{ "addresses", required_argument, NULL, 'a' },
		{ "memory", required_argument, NULL, 'M' },
		{ "dir", required_argument, NULL, 'd' },
		{ "instrument", required_argument, NULL, 'i' },
		{ "touch", required_argument, NULL, 'T' },
		{ "output", required_argument, NULL, 'o' },
		{ "help", no_argument, NULL, 'h' },
		{ "zipf", no_argument, &options->zipf, 1 },
		{ "verify", no_argument, &options->verify, 1 },
		{ "realtime", no_argument, &options->realtime, 1 },
		{ "quiet", no_argument, &options->quiet, 1 },
		{ }
	};
	int option, index;

	while ((option = getopt_long(argc, argv, "h", known, &index)) != -1) {
		switch (option) {
		case 0:
			if ((size_t)index < ARRAY_SIZE(numbers))
				*numbers[index].value =
					parse_number(optarg, known[index].name,
						     numbers[index].min, numbers[index].max);
			break;
		case 'k':
			parse_sizes(options, optarg);
			break;
		case 'a':
			options->addresses = parse_name(optarg, "addresses", addresses_names,
							NR_ADDRESSES);
			break;
		case 'M':
			options->memory = parse_name(optarg, "memory", memory_names, NR_MEMORY);
			break;
		case 'd':
			options->dir = optarg;
			break;
		case 'i':
			options->instrument = parse_name(optarg, "instrument", instrument_names,
							 NR_INSTRUMENT_USES);
			break;
		case 'T':
			parse_touch(options, optarg);
			break;
		case 'o':
			options->output = optarg;
			break;
		case 'h':
			usage();
			exit(0);
		default:
			/* getopt_long() has said what is wrong. */
			exit(2);
		}
	}
	if (optind < argc)
		errx(2, "unexpected argument '%s'", argv[optind]);
	if (options->from != ANY_NODE && options->from == options->to)
		errx(2, "--from and --to are both node %lu", options->from);
	adjust_options(options);
}

/* Everything that can be refused is, before anything is changed or measured. */
static unsigned int check_machine(struct options *options)
{
	unsigned int nr_nodes = choose_nodes(options);

	for (unsigned int i = 0; i < options->nr_sizes; i++)
		check_size(options, options->folio_kib[i]);
	if (options->instrument == INSTRUMENT_ONLY && !instrument_present())
		err(1, "cannot write the kernel's instrument");
	if (options->memory == MEMORY_HUGETLB)
		return nr_nodes;
	check_free(options, options->from);
	if (makes_huge_pages(options) && !memory_frames_readable())
		errx(1, "cannot see what has moved: needs root");
	check_free(options, options->to);
	if (options->addresses == ADDRESSES_RECLAIM && access(own_cgroup("memory.reclaim"), W_OK))
		err(1, "cannot write %s", own_cgroup("memory.reclaim"));
	return nr_nodes;
}

/*
 * Balancing must not move the memory meanwhile; not every kernel has it. Nothing compacts but
 * what is measured, and it finds all that is free.
 */
static void prepare_machine(const struct options *options)
{
	memory_settings_save();
	setting_change(NUMA_BALANCING, "0");
	if (options->addresses == ADDRESSES_RECLAIM && setting_change(DEMOTION, "true"))
		errx(1, "cannot write " DEMOTION);
	if (options->addresses == ADDRESSES_COMPACTION &&
	    (setting_change(PROACTIVENESS, "0") || setting_change(CPU_LISTS, "1000000")))
		errx(1, "cannot keep others from compaction, and CPUs from what is free");
}

int main(int argc, char **argv)
{
	static struct result results[MAX_SIZES * NR_MOVES];
	struct options options = {
		.folio_kib = { 4, 16, 64, 256, 1024, 2048 },
		.nr_sizes = 6, .mib = 256, .from = ANY_NODE, .to = ANY_NODE, .moves = NR_MOVES,
		.dir = "/tmp", .warmup = 1, .repeat = 3, .readers = 1,
	};
	const struct sched_param realtime = { .sched_priority = 1 };
	unsigned int nr_nodes;
	FILE *out = stdout;
	struct area area;
	bool instrumented;
	__u64 wrong = 0;
	size_t nr = 0;

	parse_options(&options, argc, argv);
	nr_nodes = check_machine(&options);
	if (options.output)
		out = fopen(options.output, "we");
	if (!out)
		err(1, "cannot write %s", options.output);
	area_prepare(&area, &options);
	instrumented = options.instrument != INSTRUMENT_OFF && instrument_present();
	prepare_machine(&options);
	offload_mark();
	if (options.realtime && sched_setscheduler(0, SCHED_FIFO, &realtime))
		err(1, "no real-time priority");

	for (unsigned int i = 0; i < options.nr_sizes; i++) {
		measure_size(&area, options.folio_kib[i], &results[nr], instrumented);
		for (unsigned int j = 0; j < options.moves; j++, nr++) {
			wrong += results[nr].bytes_wrong;
			if (!options.quiet)
				print_table_row(&results[nr], !nr);
		}
	}

	print_json(out, &options, results, nr, nr_nodes);
	if (fflush(out) || ferror(out))
		err(1, "cannot write the results");
	if (wrong)
		errx(1, "contents are wrong: %llu bytes", wrong);
	return 0;
}
