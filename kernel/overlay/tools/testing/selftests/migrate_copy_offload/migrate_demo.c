// SPDX-License-Identifier: GPL-2.0
/*
 * Moves anonymous memory from one node to another with one move_pages(2), in a
 * mode of copy offload, verifies every byte and prints the result as one line of
 * JSON. Restores the settings that it changes.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest.h"
#include "memory.h"
#include "offload.h"

#define DMA_DIR		"/sys/class/dma"
#define REASON		"syscall_or_cpuset"
#define INSTRUMENT	"/sys/kernel/debug/migrate_latency"

struct demo {
	size_t folio_size;
	size_t len;
	const char *mode;
	int from;
	int to;

	char *addr;
	char engine[32];
	unsigned int channels;
	size_t folios_asked;
	size_t folios_moved;
	size_t bytes_wrong;
	double seconds;
	/* Of the folio that waited longest, in ns; -1: this kernel has no instrument. */
	long inaccessible;
};

static void usage(FILE *out)
{
	fputs("Usage: migrate_demo [options]\n"
	      "Migrate anonymous memory between two nodes and verify it. Needs root.\n"
	      "\n"
	      "  -k, --folio-kib=N  size of its folios: 4 (default), or a size of transparent\n"
	      "                     huge pages that this kernel has, such as 64 or 2048\n"
	      "  -m, --mode=MODE    off (default): without copy offload; cpu: copied in\n"
	      "                     batches by the CPU; dcbm: copied by DMA engines; live: the\n"
	      "                     same while the memory is mapped\n"
	      "  -s, --mib=N        how much memory, in MiB (default 64)\n"
	      "  -f, --from=NODE    where it is (default: the first node with memory)\n"
	      "  -t, --to=NODE      where it goes (default: the second one)\n"
	      "  -h, --help         this text\n", out);
}

static void __noreturn __printf(1, 2) fail(const char *format, ...)
{
	va_list args;

	fputs("migrate_demo: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static long parse_number(const char *text, long min, long max, const char *what)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		fail("%s '%s' is not a number from %ld to %ld", what, text, min, max);
	return value;
}

static void parse_options(struct demo *demo, int argc, char **argv)
{
	static const struct option options[] = {
		{ "folio-kib", required_argument, NULL, 'k' },
		{ "mode", required_argument, NULL, 'm' },
		{ "mib", required_argument, NULL, 's' },
		{ "from", required_argument, NULL, 'f' },
		{ "to", required_argument, NULL, 't' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	int option;

	while ((option = getopt_long(argc, argv, "k:m:s:f:t:h", options, NULL)) != -1) {
		switch (option) {
		case 'k':
			demo->folio_size = parse_number(optarg, 4, 2048, "folio size") * KIB;
			break;
		case 'm':
			demo->mode = optarg;
			break;
		case 's':
			demo->len = parse_number(optarg, 2, 65536, "amount") * MIB;
			break;
		case 'f':
			demo->from = parse_number(optarg, 0, 63, "node");
			break;
		case 't':
			demo->to = parse_number(optarg, 0, 63, "node");
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc)
		fail("unexpected argument '%s'", argv[optind]);
	if (strcmp(demo->mode, "off") && strcmp(demo->mode, "cpu") &&
	    strcmp(demo->mode, "dcbm") && strcmp(demo->mode, "live"))
		fail("mode '%s' is not off, cpu, dcbm or live", demo->mode);
	if (demo->folio_size & (demo->folio_size - 1) ||
	    demo->folio_size < memory_page_size())
		fail("there are no folios of %zu KiB", demo->folio_size / KIB);
	if (demo->len % PMD_SIZE)
		fail("the amount must be a multiple of 2 MiB");
	if (demo->from == demo->to)
		fail("both nodes are node %d", demo->from);
}

static void set_mode(const struct demo *demo)
{
	bool on = strcmp(demo->mode, "off");
	bool live = !strcmp(demo->mode, "live");
	const char *migrator = !on ? "none" : live ? "dcbm" : demo->mode;
	int ret;

	if (!offload_available())
		fail("this kernel has no " OFFLOAD_DIR);
	offload_save();
	ret = offload_route_only(on ? REASON : NULL, migrator);
	if (ret == -ENOENT)
		fail("no migrator %s: is its module loaded?", migrator);
	/* What an emulated machine takes to copy says nothing. */
	ret = ret ?: offload_set_bound(REASON, 0);
	if (ret)
		fail("cannot route to %s: %s", migrator, strerror(-ret));
	ret = offload_set_live(REASON, live);
	if (ret)
		fail("cannot switch live copies: %s", strerror(-ret));
	ret = offload_set_enabled(on);
	if (ret)
		fail("cannot switch copy offload: %s", strerror(-ret));
}

static void allocate_folios(struct demo *demo)
{
	int err;

	if (thp_only(demo->folio_size))
		fail("this kernel has no folios of %zu KiB", demo->folio_size / KIB);
	demo->addr = memory_map_aligned(demo->len, PMD_SIZE);
	if (!demo->addr)
		fail("cannot map %zu MiB", demo->len / MIB);
	err = memory_fill(demo->addr, demo->len, demo->folio_size, demo->from, getpid());
	if (err)
		fail("cannot allocate from node %d: %s", demo->from, strerror(-err));

	if (!memory_folios_are(demo->addr, demo->len, demo->folio_size))
		fail("memory of node %d did not come in folios of %zu KiB", demo->from,
		     demo->folio_size / KIB);
	if (memory_pages_not_on(demo->addr, demo->len, demo->from))
		fail("memory is not on node %d", demo->from);
}

/*
 * An engine made of software works on a processor. Where there is only one, it must not get that
 * while memory is unmapped: no engine would.
 */
static void keep_processor(void)
{
	const struct sched_param param = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &param))
		fail("no real-time priority: %s", strerror(errno));
}

/*
 * Times one call for all folios, by the address of the first page of each, and
 * nothing else; check_folios() looks where they are.
 */
static void move_folios(struct demo *demo)
{
	size_t nr = demo->len / demo->folio_size;
	void **pages = calloc(nr, sizeof(*pages));
	int *nodes = calloc(nr, sizeof(*nodes));
	int *status = calloc(nr, sizeof(*status));
	double begin;

	if (!pages || !nodes || !status)
		fail("out of memory");
	for (size_t i = 0; i < nr; i++) {
		pages[i] = demo->addr + i * demo->folio_size;
		nodes[i] = demo->to;
	}

	setting_write(INSTRUMENT "/enabled", "1");
	begin = seconds_now();
	if (syscall(__NR_move_pages, 0, nr, pages, nodes, status, MPOL_MF_MOVE) < 0)
		fail("move_pages: %s", strerror(errno));
	demo->seconds = seconds_now() - begin;
	setting_write(INSTRUMENT "/enabled", "0");
	demo->inaccessible = setting_find_number(INSTRUMENT "/inaccessible", "max_ns");

	demo->folios_asked = nr;
	free(pages);
	free(nodes);
	free(status);
}

static bool moved(const struct demo *demo, const char *addr, size_t len)
{
	return !memory_pages_not_on(addr, len, demo->to) &&
	       memory_folios_are(addr, len, demo->folio_size);
}

static void check_folios(struct demo *demo)
{
	demo->bytes_wrong = memory_verify(demo->addr, demo->len, getpid());
	if (moved(demo, demo->addr, demo->len)) {
		demo->folios_moved = demo->folios_asked;
		return;
	}
	for (size_t i = 0; i < demo->len; i += demo->folio_size)
		demo->folios_moved += moved(demo, demo->addr + i, demo->folio_size);
}

static bool channel_in_use(const char *channel)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), DMA_DIR "/%s/in_use", channel);
	return setting_read_number(path) > 0;
}

/* The driver of the device that a channel belongs to. */
static bool read_driver(const char *channel, char *driver, size_t size)
{
	char path[PATH_MAX];
	char link[PATH_MAX];
	const char *name;
	ssize_t len;

	snprintf(path, sizeof(path), DMA_DIR "/%s/device/driver", channel);
	len = readlink(path, link, sizeof(link) - 1);
	if (len < 0)
		return false;
	link[len] = '\0';
	name = strrchr(link, '/');
	name = name ? name + 1 : link;
	if (strlen(name) >= size)
		return false;
	strcpy(driver, name);
	return true;
}

/* Counts the channels in use: nobody but dcbm should hold any. */
static void find_engine(struct demo *demo)
{
	DIR *dir;
	struct dirent *entry;

	if (strcmp(demo->mode, "dcbm") && strcmp(demo->mode, "live")) {
		snprintf(demo->engine, sizeof(demo->engine), "%s",
			 strcmp(demo->mode, "off") ? demo->mode : "");
		return;
	}
	dir = opendir(DMA_DIR);
	if (!dir)
		fail("no " DMA_DIR);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !channel_in_use(entry->d_name))
			continue;
		if (!read_driver(entry->d_name, demo->engine, sizeof(demo->engine)))
			fail("channel %s has no driver", entry->d_name);
		demo->channels++;
	}
	closedir(dir);
	if (!demo->channels)
		fail("no DMA channel is in use: is dcbm loaded?");
}

/* Prints why the migrator did not copy folios, and how many. */
static void print_fallbacks(void)
{
	struct offload_stats stats;
	const char *comma = "";

	offload_read_stats(&stats);
	for (unsigned int i = 0; i < stats.nr; i++) {
		const char *name = stats.counter[i].name;
		uint64_t growth = offload_grown(name);

		if (!growth || (strncmp(name, "fallback_", strlen("fallback_")) &&
				strncmp(name, "declined_", strlen("declined_"))))
			continue;
		printf("%s\"%s\": %llu", comma, name, (unsigned long long)growth);
		comma = ", ";
	}
}

static void print_result(const struct demo *demo)
{
	uint64_t copied = offload_grown("folios_copied");

	printf("result: {\"folio_kib\": %zu, \"mode\": \"%s\", ", demo->folio_size / KIB,
	       demo->mode);
	if (demo->engine[0])
		printf("\"engine\": \"%s\", ", demo->engine);
	else
		printf("\"engine\": null, ");
	printf("\"channels\": %u, \"folios_asked\": %zu, \"folios_moved\": %zu, ",
	       demo->channels, demo->folios_asked, demo->folios_moved);
	printf("\"folios_by_engine\": %llu, \"folios_live\": %llu, \"fallbacks\": {",
	       demo->channels ? (unsigned long long)copied : 0,
	       (unsigned long long)offload_grown("live_copied"));
	print_fallbacks();
	printf("}, \"inaccessible_us\": ");
	if (demo->inaccessible < 0)
		printf("null, ");
	else
		printf("%.3f, ", demo->inaccessible / 1e3);
	printf("\"bytes_verified\": %zu, \"bytes_wrong\": %zu, \"gbps_emulated\": %.3f}\n",
	       demo->len, demo->bytes_wrong, demo->len / demo->seconds / 1e9);
}

int main(int argc, char **argv)
{
	struct demo demo = {
		.folio_size = 4 * KIB, .len = 64 * MIB, .mode = "off",
		.from = -1, .to = -1,
	};
	int first, second;

	if (!memory_two_nodes(&first, &second)) {
		first = -1;
		second = -2;
	}
	demo.from = first;
	demo.to = second;
	parse_options(&demo, argc, argv);
	if (first < 0)
		fail("this machine has not two nodes with memory");
	if (geteuid())
		fail("must be run by root");

	memory_settings_save();
	numa_balancing_off();
	set_mode(&demo);
	find_engine(&demo);
	allocate_folios(&demo);
	keep_processor();

	offload_mark();
	move_folios(&demo);
	check_folios(&demo);

	print_result(&demo);
	return demo.bytes_wrong || demo.folios_moved < demo.folios_asked;
}
