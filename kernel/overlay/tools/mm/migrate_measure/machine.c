// SPDX-License-Identifier: GPL-2.0
/* Nodes, the sizes of folios that they have, and hugetlb's pages. */
#include "measure.h"

static unsigned long first_node(const int *nodes, unsigned long except)
{
	return (unsigned long)nodes[0] == except ? nodes[1] : nodes[0];
}

static void check_node(const int *nodes, unsigned int nr, unsigned long node)
{
	for (unsigned int i = 0; i < nr; i++)
		if ((unsigned long)nodes[i] == node)
			return;
	errx(1, "node %lu has no memory", node);
}

unsigned int choose_nodes(struct options *options)
{
	int nodes[MEMORY_MAX_NODES];
	unsigned int nr = memory_nodes(nodes, MEMORY_MAX_NODES);

	if (nr < 2)
		errx(1, "this machine has fewer than two NUMA nodes with memory");
	if (options->from == ANY_NODE)
		options->from = first_node(nodes, options->to);
	if (options->to == ANY_NODE)
		options->to = first_node(nodes, options->from);
	check_node(nodes, nr, options->from);
	check_node(nodes, nr, options->to);
	return nr;
}

__u64 node_kib(int node, const char *name)
{
	long kib = memory_node_kib(node, name);

	if (kib < 0)
		errx(1, "the meminfo of node %d has no line %s", node, name);
	return kib;
}

/*
 * A node keeps some of its memory to itself, far less than a fiftieth. A program
 * that asks for that too meets reclaim, and the OOM killer in the end.
 */
void check_free(const struct options *options, int node)
{
	__u64 mib = options->addresses == ADDRESSES_COMPACTION ? 2 * options->mib : options->mib;
	__u64 need = mib + node_kib(node, "MemTotal:") / 50 / KIB;
	__u64 free = node_kib(node, "MemFree:") / KIB;

	if (free < need)
		errx(1, "node %d has %llu MiB free, and %llu are needed to move %lu MiB",
		     node, free, need, options->mib);
}

static bool size_offered(const struct options *options, unsigned long kib)
{
	if (options->memory == MEMORY_HUGETLB)
		return hugetlb_held(kib * KIB, options->from) >= 0;
	/* A file system has folios as large as what is written to a new file. */
	if (kib * KIB == memory_page_size() || options->memory == MEMORY_FILE)
		return true;
	return kib * KIB > memory_page_size() &&
	       !access(setting_path(THP_DIR "/hugepages-%lukB/%senabled", kib,
				    options->memory == MEMORY_SHMEM ? "shmem_" : ""), F_OK);
}

void check_size(const struct options *options, unsigned long kib)
{
	char list[128] = "";
	size_t len = 0;

	if (!size_offered(options, kib)) {
		for (unsigned long k = MIN_FOLIO_KIB; k <= MAX_HUGETLB_KIB; k *= 2)
			if (size_offered(options, k))
				len += snprintf(list + len, sizeof(list) - len, " %lu", k);
		errx(1, "this kernel has no %s folios of %lu KiB, but these:%s",
		     memory_names[options->memory], kib, list);
	}
	if (options->mib * KIB % kib)
		errx(1, "%lu MiB are not a multiple of folios of %lu KiB", options->mib, kib);
}

__u64 free_huge_pages(int node)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	__u64 count, pages = 0;
	char line[512];
	int of, pos, len;

	if (!file)
		err(1, "cannot read /proc/buddyinfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %d, zone %*s%n", &of, &pos) != 1 || of != node)
			continue;
		for (size_t size = memory_page_size();
		     sscanf(line + pos, "%llu%n", &count, &len) == 1; size *= 2, pos += len)
			pages += size / (MAX_FOLIO_KIB * KIB) * count;
	}
	fclose(file);
	return pages;
}
