/* SPDX-License-Identifier: GPL-2.0 */
/* The memory of a test, which is in large folios. */
#ifndef FOLIOS_H
#define FOLIOS_H

#include "test.h"

#define TRACE_DIR	"/sys/kernel/tracing"
#define SEED		23

static char *addr;
static size_t len;

/*
 * Stamped memory in @nr folios of @size on the first node, of shmem if it is shared. False, with
 * the reason why the test is skipped, if there are no such folios.
 */
static inline bool map_folios(size_t size, size_t nr, bool shared)
{
	int flags = MAP_ANONYMOUS | MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE);

	if (thp_only(size))
		SKIP(return false, "no folios of this size");
	len = nr * size;
	addr = memory_map_aligned(len, PMD_SIZE);
	ASSERT_NE(NULL, addr);
	ASSERT_EQ(addr, mmap(addr, len, PROT_READ | PROT_WRITE, flags, -1, 0));
	ASSERT_EQ(0, memory_fill(addr, len, size, nodes[0], SEED));
	ASSERT_TRUE(memory_folios_are(addr, len, size));
	return true;
}

static inline void unmap_folios(void)
{
	/* With the holes of what was mapped in part. */
	munmap(addr, len);
	settings_restore();
}

/* Each folio is mapped one page behind its natural place. */
static inline void shift_folios(void)
{
	char *room = memory_map_aligned(len + PMD_SIZE, PMD_SIZE);
	char *to = room + memory_page_size();

	ASSERT_NE(NULL, room);
	ASSERT_EQ(0, munmap(room, len + PMD_SIZE));
	ASSERT_EQ(to, mremap(addr, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to));
	addr = to;
}

/* The last quarter of each folio belongs to another VMA. */
static inline void straddle_folios(size_t size)
{
	for (size_t i = 0; i < len; i += size)
		ASSERT_EQ(0, mprotect(addr + i + size - size / 4, size / 4, PROT_READ));
}

static inline size_t bytes_wrong(void)
{
	return memory_verify(addr, len, SEED);
}

#endif /* FOLIOS_H */
