// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "area.h"
#include "memory.h"
#include "offload.h"

#define MPOL_MF_MOVE (1 << 1)
#define NUMA_BALANCING "/proc/sys/kernel/numa_balancing"
#define THP_ENABLED(size) \
	"/sys/kernel/mm/transparent_hugepage/hugepages-" size "kB/enabled"

const char * const area_kind_names[NR_AREA_KINDS] = {
	[AREA_ANON_4K]	= "anon_4k",
	[AREA_ANON_64K]	= "anon_64k",
	[AREA_ANON_2M]	= "anon_2m",
	[AREA_SHMEM]	= "shmem",
};

void area_settings_save(void)
{
	setting_save(THP_ENABLED("64"));
	setting_save(THP_ENABLED("2048"));
	setting_save(NUMA_BALANCING);
	setting_write(NUMA_BALANCING, "0");
}

/* Folio sizes are chosen by settings of the whole machine, which hold until the next area. */
static bool fault_in(struct area *area, enum area_kind kind)
{
	int err = 0;

	switch (kind) {
	case AREA_ANON_64K:
		area->folio_size = 64 * KIB;
		err = setting_write(THP_ENABLED("2048"), "never") ?:
		      setting_write(THP_ENABLED("64"), "madvise");
		break;
	case AREA_ANON_2M:
		area->folio_size = 2 * MIB;
		err = setting_write(THP_ENABLED("2048"), "madvise");
		break;
	default:
		area->folio_size = memory_page_size();
		break;
	}
	if (err) {
		printf("# huge page settings: %s\n", strerror(-err));
		return false;
	}
	madvise(area->addr, area->size, area->folio_size > memory_page_size() ?
		MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	area_stamp(area, 1);
	return true;
}

bool area_create(struct area *area, enum area_kind kind, size_t size, int node)
{
	bool ok;

	area->size = size;
	if (kind == AREA_SHMEM)
		area->addr = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	else
		area->addr = memory_map_aligned(size, 2 * MIB);
	if (!area->addr || area->addr == MAP_FAILED) {
		area->addr = NULL;
		printf("# no address space: %s\n", strerror(errno));
		return false;
	}

	memory_bind(node);
	ok = fault_in(area, kind);
	memory_bind(-1);
	setting_write(THP_ENABLED("64"), "never");
	setting_write(THP_ENABLED("2048"), "never");
	if (!ok)
		return false;

	if (memory_pages_not_on(area->addr, size, node)) {
		printf("# %s: not allocated on node %d\n", area_kind_names[kind], node);
		return false;
	}
	if (!memory_folios_are(area->addr, size, area->folio_size)) {
		printf("# %s: not allocated in folios of %zu bytes\n",
		       area_kind_names[kind], area->folio_size);
		return false;
	}
	return true;
}

void area_destroy(struct area *area)
{
	if (area->addr)
		munmap(area->addr, area->size);
	area->addr = NULL;
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
	/* Migration may have split folios, and each part needs its own address. */
	if (area->folio_size > memory_page_size() &&
	    !memory_folios_are(area->addr, area->size, area->folio_size))
		area->folio_size = memory_page_size();

	return memory_move(0, area->addr, area->size, area->folio_size, node,
			   MPOL_MF_MOVE);
}

void area_wait_in_flight(const struct area *area)
{
	while (memory_pfn(area->addr))
		usleep(100);
	/* All of a batch are unmapped before the first is copied. */
	usleep(30000);
}
