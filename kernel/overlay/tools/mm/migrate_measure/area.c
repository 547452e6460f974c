// SPDX-License-Identifier: GPL-2.0
/* Memory in folios of the sizes that are to move, and what has become of them. */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>

const char * const memory_names[] = {
	[MEMORY_ANON] = "anon", [MEMORY_SHMEM] = "shmem", [MEMORY_FILE] = "file",
	[MEMORY_HUGETLB] = "hugetlb", [MEMORY_MIXED] = "mixed",
};

/*
 * Mixed memory: ten thousand folios that move together. The largest of a kind go first:
 * khugepaged collapses the others where those are allowed.
 */
static const struct {
	enum memory memory;
	unsigned long folio_kib;
	size_t folios;
} mixture[] = {
	{ MEMORY_ANON, 2048, 50 }, { MEMORY_ANON, 64, 1300 }, { MEMORY_ANON, 4, 2000 },
	{ MEMORY_SHMEM, 2048, 50 }, { MEMORY_SHMEM, 64, 1300 }, { MEMORY_SHMEM, 4, 2000 },
	{ MEMORY_FILE, 64, 1300 }, { MEMORY_FILE, 4, 2000 },
};

size_t count_folios(const struct options *options, unsigned long folio_kib)
{
	size_t folios = 0;

	if (options->memory != MEMORY_MIXED)
		return options->mib * KIB / folio_kib;
	for (unsigned int i = 0; i < ARRAY_SIZE(mixture); i++)
		folios += mixture[i].folios;
	return folios;
}

size_t count_bytes(const struct options *options)
{
	size_t bytes = 0;

	if (options->memory != MEMORY_MIXED)
		return options->mib * MIB;
	for (unsigned int i = 0; i < ARRAY_SIZE(mixture); i++)
		bytes += mixture[i].folio_kib * KIB * mixture[i].folios;
	return bytes;
}

bool makes_huge_pages(const struct options *options)
{
	return options->addresses >= ADDRESSES_COMPACTION;
}

size_t huge_size(const struct options *options)
{
	return options->addresses == ADDRESSES_CONTIG ? MAX_HUGETLB_KIB * KIB : PMD_SIZE;
}

/* For compaction, twice as much memory is free. */
__u64 huge_wanted(const struct options *options)
{
	return options->addresses == ADDRESSES_CONTIG ? 1 : options->mib * KIB / MAX_FOLIO_KIB / 2;
}

void *allocate(size_t nr, size_t size)
{
	void *memory = calloc(nr, size);

	if (!memory)
		errx(1, "out of memory for %zu entries of %zu bytes", nr, size);
	/* All of it is in memory from now on. */
	memset(memory, 0xff, nr * size);
	return memory;
}

void area_prepare(struct area *area, const struct options *options)
{
	size_t smallest = options->folio_kib[0];
	size_t nr;

	if (options->addresses == ADDRESSES_ALL)
		smallest = memory_page_size() / KIB;
	for (unsigned int i = 1; i < options->nr_sizes; i++)
		smallest = MIN(smallest, options->folio_kib[i]);
	nr = options->mib * KIB / smallest;
	if (options->addresses == ADDRESSES_COMPACTION)
		nr *= 2;
	*area = (struct area) {
		.options = options, .list = allocate(nr, sizeof(*area->list)),
		.named = allocate(nr, sizeof(*area->named)),
		.nodes = allocate(nr, sizeof(*area->nodes)),
		.status = allocate(nr, sizeof(*area->status)),
		.frames = allocate(nr, sizeof(*area->frames)),
	};
	if (options->reads)
		area->written = allocate(options->mib * MIB / memory_page_size(),
					 sizeof(*area->written));
}

/* How many folios from this one on are neighbours of the same size. */
static size_t neighbours(const struct area *area, size_t first)
{
	const struct folio *folio = &area->list[first];
	size_t nr = 1;

	while (first + nr < area->folios && folio[nr].size == folio->size &&
	       folio[nr].addr == folio->addr + nr * folio->size)
		nr++;
	return nr;
}

/* Write a word to each page, not zero: no page is the zero page. */
static void touch(const struct area *area)
{
	size_t nr = 0;

	for (size_t i = 0; i < area->folios; i++)
		for (size_t j = 0; j < area->list[i].size; j += memory_page_size())
			*(__u64 *)(area->list[i].addr + j) = ++nr;
}

void area_fill(struct area *area)
{
	if (area->options->verify) {
		area->seed += area->folios;
		for (size_t nr, i = 0; i < area->folios; i += nr) {
			nr = neighbours(area, i);
			memory_stamp(area->list[i].addr, nr * area->list[i].size, area->seed + i);
		}
	} else {
		touch(area);
	}
	if (area->written)
		memset(area->written, 0, area->len / memory_page_size() * sizeof(*area->written));
	/* Dirty pages may be under writeback when they are to migrate. */
	for (unsigned int i = 0; i < area->nr_parts; i++)
		if (area->parts[i].fd >= 0 && fsync(area->parts[i].fd))
			err(1, "cannot write the file back");
}

__u64 area_wrong(const struct area *area)
{
	__u64 wrong = 0;

	for (size_t nr, i = 0; i < area->folios; i += nr) {
		const struct folio *folio = &area->list[i];
		size_t page = (folio->addr - area->addr) / memory_page_size();

		nr = neighbours(area, i);
		wrong += memory_wrong(folio->addr, nr * folio->size, area->seed + i,
				      area->written ? area->written + page : NULL);
	}
	return wrong;
}

__u64 count_elsewhere(const struct area *area, int node)
{
	__u64 elsewhere = 0;

	for (size_t nr, i = 0; i < area->folios; i += nr) {
		const struct folio *folio = &area->list[i];

		nr = neighbours(area, i);
		elsewhere += memory_folios_not_on(folio->addr, nr * folio->size, folio->size, node);
	}
	return elsewhere;
}

__s64 count_split(const struct area *area)
{
	__s64 split = 0;

	if (!memory_frames_readable())
		return -1;
	/* Huge pages do not split. */
	if (area->options->memory == MEMORY_HUGETLB)
		return 0;
	for (size_t nr, i = 0; i < area->folios; i += nr) {
		const struct folio *folio = &area->list[i];

		nr = neighbours(area, i);
		split += memory_folios_not(folio->addr, nr * folio->size, folio->size);
	}
	return split;
}

__u64 count_moved(struct area *area)
{
	__u64 moved = 0;

	for (size_t i = 0; i < area->folios; i++) {
		__u64 frame = memory_pfn(area->list[i].addr);

		moved += area->frames[i] != frame;
		area->frames[i] = frame;
	}
	return moved;
}

/* A new file in folios of this size: they are as large as each write. */
static int create_file(const char *dir, size_t len, size_t folio_size)
{
	char *buffer = allocate(1, folio_size);
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		err(1, "cannot create a file in %s", dir);
	for (size_t i = 0; i < len; i += folio_size)
		if (pwrite(fd, buffer, folio_size, i) != (ssize_t)folio_size)
			err(1, "cannot write a file in %s", dir);
	free(buffer);
	return fd;
}

static struct part *map_part(struct area *area, enum memory memory, size_t folio_size, size_t len)
{
	static const int flags[] = {
		[MEMORY_ANON]		= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		[MEMORY_SHMEM]		= MAP_SHARED | MAP_ANONYMOUS,
		[MEMORY_FILE]		= MAP_SHARED,
		[MEMORY_HUGETLB]	= MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
	};
	struct part *part = &area->parts[area->nr_parts++];
	int size = memory == MEMORY_HUGETLB ? __builtin_ctzl(folio_size) << MAP_HUGE_SHIFT : 0;

	part->fd = memory == MEMORY_FILE ? create_file(area->options->dir, len, folio_size) : -1;
	part->len = len;
	part->addr = memory_map_aligned(len, MAX(folio_size, MAX_FOLIO_KIB * KIB));
	if (!part->addr ||
	    mmap(part->addr, len, PROT_READ | PROT_WRITE, flags[memory] | size | MAP_FIXED,
		 part->fd, 0) == MAP_FAILED)
		err(1, "cannot map %zu MiB of %s memory", len / MIB, memory_names[memory]);
	return part;
}

/* Memory of one kind in folios of one size, which are the next ones of the list. */
static void add_part(struct area *area, enum memory memory, size_t folio_size, size_t len)
{
	bool small = folio_size == memory_page_size();
	struct part *part;
	int error = 0;

	/* A fault takes the largest folio that is allowed. */
	if (!small && memory == MEMORY_ANON)
		error = thp_only_anon(folio_size);
	else if (!small && memory == MEMORY_SHMEM)
		error = thp_only_shmem(folio_size);
	if (error)
		errx(1, "cannot allow folios of %zu KiB only: %s", folio_size / KIB,
		     strerror(-error));
	part = map_part(area, memory, folio_size, len);
	/* Without transparent huge pages there is no advice, and no need of it. */
	if (memory != MEMORY_HUGETLB &&
	    madvise(part->addr, len, small ? MADV_NOHUGEPAGE : MADV_HUGEPAGE) && !small)
		err(1, "cannot ask for huge pages");
	for (size_t i = 0; i < len; i += folio_size) {
		area->list[area->folios++] = (struct folio) {
			.addr = part->addr + i, .size = folio_size,
		};
		*(__u64 *)(part->addr + i) = i + 1;
	}
}

/* A move meets folios of all kinds, mixed. */
static void shuffle(struct area *area)
{
	uint64_t state = 1;

	for (size_t i = area->folios; i > 1; i--) {
		size_t j = random_number(&state) % i;
		struct folio other = area->list[j];

		area->list[j] = area->list[i - 1];
		area->list[i - 1] = other;
	}
}

/*
 * Free one of two folios, while hugetlb holds all that is not in pieces. Which one is random:
 * compaction looks for free pages at multiples of a stride.
 */
static void fragment(struct area *area)
{
	int node = area->options->from;
	uint64_t state = 1;

	/* The kernel raises it if huge pages are allowed. */
	setting_change("/proc/sys/vm/min_free_kbytes", "512");
	hugetlb_hold(PMD_SIZE, node, node_kib(node, "MemTotal:") / MAX_FOLIO_KIB);
	area->folios /= 2;
	for (size_t i = 0; i < area->folios; i++) {
		size_t kept = 2 * i + (random_number(&state) >> 32) % 2;

		if (madvise(area->list[kept ^ 1].addr, area->folio_size, MADV_DONTNEED))
			err(1, "cannot free memory");
		area->list[i] = area->list[kept];
	}
	/* Pages that CPUs had on their lists before are whole again. */
	hugetlb_hold(PMD_SIZE, node, hugetlb_held(PMD_SIZE, node) + free_huge_pages(node));
	if (free_huge_pages(node))
		errx(1, "node %d is not fragmented: huge pages are free", node);
}

/*
 * Move memory to where a huge page of 1 GB was: hugetlb has all else. Page tables, which
 * cannot make way, are on the node that memory was allocated on.
 */
static void fill_contiguous(const struct area *area)
{
	int node = area->options->from;
	const size_t huge = huge_size(area->options);
	const __u64 kib = node_kib(node, "MemTotal:");
	long held = hugetlb_hold(huge, node, kib * KIB / huge);

	if (held < 1)
		errx(1, "node %d has no room for a huge page of 1 GB", node);
	hugetlb_hold(PMD_SIZE, node, kib / MAX_FOLIO_KIB);
	hugetlb_hold(huge, node, held - 1);
	for (size_t i = 0; i < area->folios; i++)
		area->nodes[i] = node;
	if (syscall(__NR_move_pages, 0, area->folios, area->named, area->nodes, area->status,
		    MPOL_MF_MOVE))
		err(1, "cannot move memory to node %d", node);
	hugetlb_hold(PMD_SIZE, node, 0);
}

static void reserve(const struct area *area, int node)
{
	size_t nr = area->options->mib * MIB / area->folio_size;

	if (!hugetlb_reserve(area->folio_size, node, nr))
		errx(1, "node %d cannot have %zu huge pages of %zu KiB", node, nr,
		     area->folio_size / KIB);
}

static void map_all(struct area *area)
{
	const struct options *options = area->options;
	size_t len = options->mib * MIB;

	if (options->memory == MEMORY_MIXED) {
		for (unsigned int i = 0; i < ARRAY_SIZE(mixture); i++)
			add_part(area, mixture[i].memory, mixture[i].folio_kib * KIB,
				 mixture[i].folio_kib * KIB * mixture[i].folios);
		shuffle(area);
	} else {
		if (options->addresses == ADDRESSES_COMPACTION)
			len *= 2;
		add_part(area, options->memory, area->folio_size, len);
	}
	area->addr = area->parts[0].addr;
	area->len = area->parts[0].len;
}

static void area_check(const struct area *area)
{
	int node = area->options->from;
	__u64 elsewhere = count_elsewhere(area, node);
	__s64 split = count_split(area);

	if (elsewhere)
		errx(1, "%llu of %zu folios were not allocated on node %d", elsewhere,
		     area->folios, node);
	if (split > 0)
		errx(1, "node %d is too fragmented: %lld of %zu folios of %zu KiB are not", node,
		     split, area->folios, area->folio_size / KIB);
}

void area_create(struct area *area, unsigned long folio_kib)
{
	const struct options *options = area->options;
	int from = options->addresses == ADDRESSES_CONTIG ? options->to : options->from;

	area->nr_parts = 0;
	area->folios = 0;
	area->folio_size = folio_kib * KIB;
	area->per_folio = options->addresses == ADDRESSES_ALL ?
			  area->folio_size / memory_page_size() : 1;
	if (options->memory == MEMORY_HUGETLB) {
		reserve(area, options->from);
		reserve(area, options->to);
	}
	if (memory_bind(from))
		err(1, "cannot allocate from node %d", from);
	map_all(area);
	touch(area);
	memory_bind(-1);
	if (options->addresses == ADDRESSES_COMPACTION)
		fragment(area);
	for (size_t i = 0; i < area->folios * area->per_folio; i++)
		area->named[i] = area->list[i / area->per_folio].addr +
				 i % area->per_folio * memory_page_size();
	if (options->addresses == ADDRESSES_CONTIG)
		fill_contiguous(area);
	area_check(area);
	if (makes_huge_pages(options))
		count_moved(area);
}

void area_destroy(struct area *area)
{
	for (unsigned int i = 0; i < area->nr_parts; i++) {
		munmap(area->parts[i].addr, area->parts[i].len);
		if (area->parts[i].fd >= 0)
			close(area->parts[i].fd);
	}
}
