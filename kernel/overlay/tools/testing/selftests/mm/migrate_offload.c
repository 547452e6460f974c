// SPDX-License-Identifier: GPL-2.0
/* Folios of all sizes move to another node and back, and each migrator copies them. */
#include <fcntl.h>
#include <fnmatch.h>
#include <numa.h>
#include <numaif.h>
#include "hugepage_settings.h"
#include "vm_util.h"

#define OFFLOAD		"/sys/kernel/mm/migrate_offload/"
#define ENABLED		OFFLOAD "enabled"
#define REASON		"syscall_or_cpuset"
#define ROUTE		OFFLOAD "routes/" REASON
#define STATS		"/sys/kernel/debug/migrate_offload/stats"
#define SIZE		(16UL << 20)
#define WORD(i)		((i) * 0x9e3779b97f4a7c15UL)

static uint64_t *area;
static int nodes[2];
static char old_route[64], old_enabled[8];

static bool set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);

	return fd >= 0 && write(fd, value, strlen(value)) >= 0 && !close(fd);
}

static void restore(void)
{
	set(ROUTE, old_route);
	set(ENABLED, old_enabled);
}

/* The sum of the counters of REASON whose names match. */
static long count(const char *pattern)
{
	FILE *file = fopen(STATS, "r");
	char reason[32], name[32];
	long sum = 0, value;

	if (!file)
		ksft_exit_fail_perror(STATS);
	while (fscanf(file, "%31s %31s %ld", reason, name, &value) == 3)
		if (!strcmp(reason, REASON) && !fnmatch(pattern, name, FNM_EXTMATCH))
			sum += value;
	fclose(file);
	return sum;
}

/* Fill memory that comes in folios of @order where the allocator has them. */
static void fill(int order)
{
	struct thp_settings settings;

	if (thp_available()) {
		thp_read_settings(&settings);
		for (int i = 0; i < NR_ORDERS; i++)
			settings.hugepages[i].enabled = i == order ? THP_ALWAYS : THP_NEVER;
		thp_write_settings(&settings);
	}
	madvise(area, SIZE, MADV_DONTNEED);
	for (unsigned long i = 0; i < SIZE / sizeof(*area); i++)
		area[i] = WORD(i);
}

/* Name each folio once; then all pages, since some folios may be smaller. */
static bool moves_to(int node, int order)
{
	static void *pages[SIZE / 4096];
	static int to[SIZE / 4096], status[SIZE / 4096];
	const unsigned long nr = SIZE / psize();
	bool right;

	for (int pass = 0; pass < 2; pass++, order = 0) {
		for (unsigned long i = 0; i < nr >> order; i++) {
			pages[i] = (char *)area + (i * psize() << order);
			to[i] = node;
		}
		right = !move_pages(0, nr >> order, pages, to, status, MPOL_MF_MOVE);
	}
	for (unsigned long i = 0; i < nr; i++)
		right &= status[i] == node;
	for (unsigned long i = 0; i < SIZE / sizeof(*area); i++)
		right &= area[i] == WORD(i);
	return right;
}

/* Each folio is copied by @migrator, or a counter says why not. NULL: neither. */
static void test(const char *migrator, int order)
{
	static const char * const counters[] = {
		"pages_copied", "@(fallback_*|declined)", "fallback_@(error|lost|timeout)"
	};
	long grown[3], all = 2 * SIZE / psize();
	bool right;

	fill(order);
	for (int i = 0; i < 3; i++)
		grown[i] = -count(counters[i]);
	right = moves_to(nodes[1], order) && moves_to(nodes[0], order);
	for (int i = 0; i < 3; i++)
		grown[i] += count(counters[i]);
	right &= !grown[2] && (migrator ? grown[0] >= all || grown[1] : !grown[0] && !grown[1]);
	ksft_print_msg("%ld of %ld pages copied; folios not copied: %ld, by a failure: %ld\n",
		       grown[0], all, grown[1], grown[2]);
	ksft_test_result(right, "%s, %u KiB\n", migrator ?: "off", (psize() << order) >> 10);
}

int main(void)
{
	unsigned long orders = 1 | (thp_supported_orders() & ((SIZE / psize() << 1) - 1));
	char text[4096] = "", *migrators[8];
	int nr = 0, nr_nodes = 0;

	ksft_print_header();
	read_file(OFFLOAD "migrators", text, sizeof(text));
	for (char *name = strtok(text, "\n "); name && nr < 8; name = strtok(NULL, "\n "))
		migrators[nr++] = name;
	for (int i = 0; numa_available() >= 0 && i <= numa_max_node() && nr_nodes < 2; i++)
		if (numa_bitmask_isbitset(numa_all_nodes_ptr, i))
			nodes[nr_nodes++] = i;
	if (!nr || nr_nodes < 2 || geteuid() || access(STATS, R_OK))
		ksft_exit_skip("needs a migrator, two nodes with memory, root and debugfs\n");

	ksft_set_plan(2 + nr * (1 + __builtin_popcountl(orders)));
	read_file(ROUTE, old_route, sizeof(old_route));
	read_file(ENABLED, old_enabled, sizeof(old_enabled));
	atexit(restore);
	thp_save_settings();
	area = aligned_alloc(SIZE, SIZE);
	numa_tonode_memory(area, SIZE, nodes[0]);

	ksft_test_result(!set(ROUTE, "unknown") && errno == ENOENT, "unknown migrator\n");
	for (int i = 0; i < nr; i++) {
		long before = count("pages_copied");

		if (!set(ROUTE, migrators[i]) || !set(ENABLED, "1"))
			ksft_exit_fail_perror(migrators[i]);
		for (int order = 0; orders >> order; order++)
			if (orders >> order & 1)
				test(migrators[i], order);
		ksft_test_result_report(count("pages_copied") > before ? KSFT_PASS : KSFT_SKIP,
					"%s copies\n", migrators[i]);
	}
	set(ENABLED, "0");
	test(NULL, 0);
	ksft_finished();
}
