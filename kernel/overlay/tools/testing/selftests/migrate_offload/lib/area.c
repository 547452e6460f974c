// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "area.h"
#include "memory.h"
#include "offload.h"

const char * const area_kind_names[NR_ALL_AREA_KINDS] = {
	[AREA_ANON_4K] = "anon_4k", [AREA_ANON_64K] = "anon_64k", [AREA_ANON_2M] = "anon_2m",
	[AREA_SHMEM] = "shmem", [AREA_FILE] = "file", [AREA_HUGETLB] = "hugetlb",
};

/* Folio sizes are a setting of the whole machine: puts it back to pages. */
static bool fault_in(struct area *area, enum area_kind kind, int node)
{
	int err;

	area->folio_size = kind == AREA_ANON_64K ? 64 * KIB :
			   kind == AREA_ANON_2M ? PMD_SIZE : memory_page_size();
	err = thp_only(area->folio_size);
	if (err) {
		printf("# huge page settings: %s\n", strerror(-err));
		return false;
	}
	area->seed = 1;
	err = memory_fill(area->addr, area->size, area->folio_size, node, area->seed);
	return !err && !thp_only(memory_page_size());
}

/* False, with a reason printed, if there is no memory of @kind where it should be mapped. */
static bool is_mapped(struct area *area, enum area_kind kind)
{
	if (area->addr && area->addr != MAP_FAILED)
		return true;
	area->addr = NULL;
	printf("# no %s: %s\n", area_kind_names[kind], strerror(errno));
	return false;
}

/* Stamps memory on @node, where all of it must come to lie. */
static bool stamp_on(struct area *area, int node)
{
	memory_bind(node);
	area_stamp(area, 1);
	memory_bind(-1);
	return !memory_pages_not_on(area->addr, area->size, node);
}

static bool create_file(struct area *area, int node)
{
	int fd = open(getenv("MIG_FILE_DIR") ?: ".", O_TMPFILE | O_RDWR, 0600);
	bool done;

	area->folio_size = memory_page_size();
	area->addr = ftruncate(fd, area->size) ? NULL :
		     mmap(NULL, area->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	done = is_mapped(area, AREA_FILE) && stamp_on(area, node);
	/* Dirty pages may be under writeback when they are to migrate. */
	fsync(fd);
	close(fd);
	return done;
}

bool area_create(struct area *area, enum area_kind kind, size_t size, int node)
{
	if (kind == AREA_HUGETLB)
		return area_create_hugetlb(area, PMD_SIZE, true, size, node);
	area->size = size;
	if (kind == AREA_FILE)
		return create_file(area, node);
	if (kind == AREA_SHMEM)
		area->addr = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	else
		area->addr = memory_map_aligned(size, PMD_SIZE);
	if (!is_mapped(area, kind) || !fault_in(area, kind, node))
		return false;
	if (!memory_pages_not_on(area->addr, size, node) && area_is_whole(area))
		return true;
	printf("# %s: not allocated on node %d, or not in folios of %zu bytes\n",
	       area_kind_names[kind], node, area->folio_size);
	return false;
}

static void *map_hugetlb(size_t folio_size, bool shared, size_t size)
{
	/* The same bits for mmap() and memfd_create(). */
	const unsigned int order = __builtin_ctzl(folio_size) << 26;
	void *addr;
	int fd;

	if (!shared)
		return mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | order, -1, 0);
	fd = memfd_create("hugetlb", MFD_HUGETLB | order);
	if (fd < 0)
		return MAP_FAILED;
	addr = ftruncate(fd, size) ? MAP_FAILED :
	       mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return addr;
}

bool area_create_hugetlb(struct area *area, size_t folio_size, bool shared, size_t size, int node)
{
	area->addr = map_hugetlb(folio_size, shared, size);
	area->size = size;
	area->folio_size = folio_size;
	return is_mapped(area, AREA_HUGETLB) && stamp_on(area, node) && area_is_whole(area);
}

void area_destroy(struct area *area)
{
	if (area->addr)
		munmap(area->addr, area->size);
	area->addr = NULL;
}

bool area_is_whole(const struct area *area)
{
	return memory_folios_are(area->addr, area->size, area->folio_size);
}

bool area_is_by_pmd(const struct area *area)
{
	return setting_find_number("/proc/self/smaps_rollup", "AnonHugePages:") * KIB ==
	       (area->folio_size == PMD_SIZE ? area->size : 0);
}

size_t area_folios(const struct area *area)
{
	return area->size / area->folio_size;
}

void area_stamp(struct area *area, uint64_t seed)
{
	area->seed = seed;
	memory_stamp(area->addr, area->size, seed);
}

size_t area_wrong(const struct area *area)
{
	return memory_verify(area->addr, area->size, area->seed);
}

long area_move(struct area *area, int node)
{
	return memory_move(0, area->addr, area->size, area->folio_size, node, MPOL_MF_MOVE);
}

long area_bind(struct area *area, int node, int flags)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_mbind, area->addr, area->size, MPOL_BIND, &mask, 8 * sizeof(mask),
		    flags))
		return -errno;
	return memory_pages_not_on(area->addr, area->size, node) * memory_page_size() /
	       area->folio_size;
}

int uffd_open(const void *addr, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register all = {
		.range = { (unsigned long)addr, len }, .mode = UFFDIO_REGISTER_MODE_WP,
	};
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (uffd >= 0 && !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &all))
		return uffd;
	close(uffd);
	return -1;
}

int uffd_protect(int uffd, const void *addr, size_t len, bool on)
{
	struct uffdio_writeprotect range = {
		.range = { (unsigned long)addr, len }, .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(uffd, UFFDIO_WRITEPROTECT, &range);
}
