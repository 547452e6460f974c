/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of one kind that a test moves between nodes, and what must be in it.
 */
#ifndef AREA_H
#define AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum area_kind {
	AREA_ANON_4K, AREA_ANON_64K, AREA_ANON_2M, AREA_SHMEM, NR_AREA_KINDS,
	/* A new file in MIG_FILE_DIR, or in the working directory. */
	AREA_FILE = NR_AREA_KINDS,
	/* Of 2 MB, of a file that only this area has. */
	AREA_HUGETLB,
	NR_ALL_AREA_KINDS
};

extern const char * const area_kind_names[NR_ALL_AREA_KINDS];

struct area {
	char *addr;
	size_t size;
	/* One address of move_pages(2) stands for this many bytes. */
	size_t folio_size;
	/* The last contents that area_stamp() wrote. */
	uint64_t seed;
};

/*
 * @size bytes, all on @node, stamped, in folios of the size that @kind says. False, with a reason
 * printed, if the kernel does not give them. The caller has saved the settings of memory.
 */
bool area_create(struct area *area, enum area_kind kind, size_t size, int node);
/*
 * As area_create(), in hugetlb folios of the pool: private ones, or those of a file
 * that only this area has.
 */
bool area_create_hugetlb(struct area *area, size_t folio_size, bool shared, size_t size, int node);
void area_destroy(struct area *area);

size_t area_folios(const struct area *area);
/* True if the folios are still of the size that they were allocated in. */
bool area_is_whole(const struct area *area);
/* True if PMDs map all that has their size, and nothing else of this process. */
bool area_is_by_pmd(const struct area *area);
void area_stamp(struct area *area, uint64_t seed);
/* How many bytes are not as stamped; reports the first ones. */
size_t area_wrong(const struct area *area);

/* How many folios are not on @node after one call of move_pages(2), or -errno. */
long area_move(struct area *area, int node);
/* The same after one call of mbind(2). */
long area_bind(struct area *area, int node, int flags);

/* A userfaultfd that may protect memory from writes; -1 if there is none. */
int uffd_open(const void *addr, size_t len);
int uffd_protect(int uffd, const void *addr, size_t len, bool on);

#endif /* AREA_H */
