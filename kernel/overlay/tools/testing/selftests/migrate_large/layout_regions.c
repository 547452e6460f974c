// SPDX-License-Identifier: GPL-2.0
/* The kinds of memory that a layout is made of. */
#include <linux/mman.h>

#include "layout.h"

#define NUMA_DIR	"/sys/kernel/debug/sched/numa_balancing"

static const size_t folio_sizes[] = {
	4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1 * MIB,
	PMD_SIZE,
};

/* Small mTHP come most often: runs of PTEs are about them. */
static const unsigned int folio_size_weights[] = { 2, 6, 3, 8, 3, 4, 1, 1, 1 };

static void allow_size(size_t size, bool allow)
{
	setting_write(setting_path(THP_DIR "/hugepages-%zukB/enabled", size / KIB),
		      allow ? "madvise" : "never");
	setting_write(setting_path(THP_DIR "/hugepages-%zukB/shmem_enabled", size / KIB),
		      allow ? "advise" : "never");
}

/*
 * Memory with MADV_HUGEPAGE gets folios of this size from now on, or of the last one of an
 * earlier layout: that was another process, whose setting is still there.
 */
static void only_size(size_t size)
{
	static size_t last;

	if (last)
		allow_size(last, false);
	last = size == 4 * KIB ? 0 : size;
	if (last)
		allow_size(last, true);
}

void layout_settings(void)
{
	static const char * const settings[][2] = {
		/* Nothing may depend on time. */
		{ THP_DIR "/khugepaged/scan_sleep_millisecs", "4000000000" },
		{ "/proc/sys/vm/dirty_writeback_centisecs", "0" },
		{ "/proc/sys/vm/dirty_expire_centisecs", "360000" },
		{ NUMA_DIR "/scan_delay_ms", "1" }, { NUMA_DIR "/scan_period_min_ms", "1" },
		{ NUMA_DIR "/scan_size_mb", "4096" },
		{ KSM_DIR "/run", "0" }, { KSM_DIR "/sleep_millisecs", "1" },
		{ KSM_DIR "/pages_to_scan", "100000" }, { KSM_DIR "/smart_scan", "0" },
		{ NODE_DIR "/node0/hugepages/hugepages-2048kB/nr_hugepages", "4" },
		{ NODE_DIR "/node1/hugepages/hugepages-2048kB/nr_hugepages", "4" },
	};

	for (size_t i = 1; i < ARRAY_SIZE(folio_sizes); i++)
		allow_size(folio_sizes[i], false);
	setting_write(NUMA_BALANCING, "0");
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		setting_write(settings[i][0], settings[i][1]);
}

void layout_write_pages(struct rng *rng, char *addr, size_t len, unsigned int percent)
{
	size_t page = memory_page_size();

	for (size_t i = 0; i < len; i += page) {
		uint64_t *word = (uint64_t *)(addr + i) + rng_below(rng, 512);
		uint64_t value = rng_next(rng);

		if (rng_chance(rng, percent))
			layout_try_write(word, value);
	}
}

void layout_read_pages(char *addr, size_t len)
{
	for (size_t i = 0; i < len; i += memory_page_size())
		layout_try_read(addr + i);
}

static int new_file(struct layout *layout, bool on_disk, size_t len)
{
	int fd = on_disk ? openat(layout->file_dir, ".", O_TMPFILE | O_RDWR, 0600) :
		 memfd_create("layout", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, len)) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* Writes the contents to disk: pages are clean until a write to them. */
static int fill_file(struct rng *rng, int fd, size_t len)
{
	char buffer[4096];

	for (size_t i = 0; i < len; i += sizeof(buffer)) {
		memory_stamp(buffer, sizeof(buffer), rng_next(rng) & 0xffff);
		if (pwrite(fd, buffer, sizeof(buffer), i) != sizeof(buffer))
			return -EIO;
	}
	return fsync(fd) ? -errno : 0;
}

/* A private mapping of a file has some pages of its own; the others are the file's. */
enum region_kind {
	ANON, SHMEM, TMPFS_PRIVATE, DISK_SHARED, DISK_PRIVATE, HUGETLB, NR_REGION_KINDS
};

static const char * const region_kind_names[NR_REGION_KINDS] = {
	[ANON] = "anon", [SHMEM] = "shmem", [TMPFS_PRIVATE] = "tmpfs_private",
	[DISK_SHARED] = "disk_shared", [DISK_PRIVATE] = "disk_private", [HUGETLB] = "hugetlb",
};

static const unsigned int region_kind_weights[NR_REGION_KINDS] = {
	[ANON] = 60, [SHMEM] = 14, [TMPFS_PRIVATE] = 10, [DISK_SHARED] = 6,
	[DISK_PRIVATE] = 4, [HUGETLB] = 2,
};

int layout_add_region(struct layout *layout)
{
	struct rng *rng = &layout->rng;
	enum region_kind kind = rng_choose(rng, region_kind_weights, NR_REGION_KINDS);
	size_t size = folio_sizes[rng_choose(rng, folio_size_weights, ARRAY_SIZE(folio_sizes))];
	size_t page = memory_page_size();
	/* Half of them start where a folio can. */
	size_t shift = rng_chance(rng, 50) ? 0 : rng_below(rng, 64) * page;
	size_t len = (1 + rng_below(rng, rng_chance(rng, 20) ? 256 : 48)) * page;
	unsigned int percent = rng_chance(rng, 70) ? 100 : 10 + rng_below(rng, 90);
	struct region *region = &layout->regions[layout->nr_regions];
	bool on_disk = kind == DISK_SHARED || kind == DISK_PRIVATE;
	char *slot = layout_new_slot(layout), *addr;
	int flags = MAP_FIXED_NOREPLACE, fd = -1, err = 0;

	if (!slot || layout->nr_regions == MAX_REGIONS)
		return -ENOSPC;
	if (size == PMD_SIZE && rng_chance(rng, 70)) {
		len += PMD_SIZE;
		shift = 0;
	}
	if (size >= 512 * KIB && len < size)
		len = size;
	if (kind == HUGETLB) {
		len = PMD_SIZE;
		shift = 0;
	}

	flags |= kind == SHMEM || kind == DISK_SHARED ? MAP_SHARED : MAP_PRIVATE;
	if (kind == ANON || kind == HUGETLB) {
		flags |= MAP_ANONYMOUS | (kind == HUGETLB ? MAP_HUGETLB | MAP_HUGE_2MB : 0);
	} else {
		fd = new_file(layout, on_disk, len);
		if (fd < 0)
			return fd;
	}

	only_size(size);
	memory_bind(layout->nodes[0]);
	if (on_disk)
		err = fill_file(rng, fd, len);
	addr = mmap(slot + shift, len, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (addr == MAP_FAILED) {
		err = -errno;
	} else {
		madvise(addr, len, size > page ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		if (kind == TMPFS_PRIVATE) {
			char *shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

			madvise(shared, len, MADV_HUGEPAGE);
			layout_write_pages(rng, shared, len, 100);
			munmap(shared, len);
		}
		if (kind != ANON)
			layout_read_pages(addr, len);
		layout_write_pages(rng, addr, len, kind == ANON || kind == SHMEM ? percent :
			    rng_below(rng, 100));
	}
	memory_bind(-1);
	printf("region %s at %lx+%zx folios %zuk written %u = %d\n", region_kind_names[kind],
	       ((uintptr_t)slot + shift - ARENA_BASE) / page, len / page, size / KIB, percent, err);
	*region = (struct region) { .fd = fd, .len = len, .range = { .addr = addr, .len = len } };
	if (!err)
		layout->nr_regions++;
	else if (fd >= 0)
		close(fd);
	return err;
}
