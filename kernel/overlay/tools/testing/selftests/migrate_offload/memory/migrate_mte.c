// SPDX-License-Identifier: GPL-2.0
/*
 * Memory with tags (arm64 MTE) migrates to another node and back: every byte and
 * the tag of every granule of 16 bytes must come along. A migrator moves bytes
 * alone, so that folios in which any page has tags must be left to the CPU, and
 * all others need not be.
 */
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <asm/hwcap.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		180
#define GRANULE		16UL
#define TAG_SHIFT	56
#define REASON		"syscall_or_cpuset"

#ifndef PROT_MTE
#define PROT_MTE	0x20
#endif

enum tagged_part {
	NO_PAGE,
	/* The last page of every folio. */
	LAST_PAGE,
	ALL_PAGES,
};

struct tagged {
	char *addr;
	size_t len;
	size_t folio_size;
	enum tagged_part part;
	bool two_a_page;
};

FIXTURE(migrate_mte)
{
	struct tagged memory;
	int from;
	int to;
};

FIXTURE_VARIANT(migrate_mte)
{
	size_t len;
	size_t folio_size;
	bool shared;
	enum tagged_part part;
};

FIXTURE_VARIANT_ADD(migrate_mte, anon_4k) { 1 * MIB, 4 * KIB, false, ALL_PAGES };
FIXTURE_VARIANT_ADD(migrate_mte, anon_64k) { 1 * MIB, 64 * KIB, false, ALL_PAGES };
FIXTURE_VARIANT_ADD(migrate_mte, anon_2m) { 4 * MIB, PMD_SIZE, false, ALL_PAGES };
FIXTURE_VARIANT_ADD(migrate_mte, shmem) { 1 * MIB, 4 * KIB, true, ALL_PAGES };
FIXTURE_VARIANT_ADD(migrate_mte, anon_64k_last_page) { 1 * MIB, 64 * KIB, false, LAST_PAGE };
FIXTURE_VARIANT_ADD(migrate_mte, anon_2m_last_page) { 4 * MIB, PMD_SIZE, false, LAST_PAGE };
FIXTURE_VARIANT_ADD(migrate_mte, anon_4k_untagged) { 1 * MIB, 4 * KIB, false, NO_PAGE };
FIXTURE_VARIANT_ADD(migrate_mte, anon_64k_untagged) { 1 * MIB, 64 * KIB, false, NO_PAGE };
FIXTURE_VARIANT_ADD(migrate_mte, anon_2m_untagged) { 4 * MIB, PMD_SIZE, false, NO_PAGE };

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
	offload_save();
}

/* The logical tag of @addr becomes the allocation tag of its granule. */
static void store_tag(uint64_t addr)
{
	asm volatile(".arch armv8.5-a+memtag\n\tstg %0, [%0]" : : "r" (addr) : "memory");
}

static unsigned int load_tag(uint64_t addr)
{
	asm volatile(".arch armv8.5-a+memtag\n\tldg %0, [%0]" : "+r" (addr) : : "memory");
	return addr >> TAG_SHIFT & 0xf;
}

static void set_tag(char *addr, unsigned int tag)
{
	store_tag((uintptr_t)addr + ((uint64_t)tag << TAG_SHIFT));
}

/*
 * QEMU 7.2 keeps two tags a page, one for the even granules and one for the odd
 * ones: fixed by "target/arm: Fix physical address resolution for MTE".
 */
static bool two_tags_a_page(char *page)
{
	set_tag(page, 1);
	set_tag(page + 2 * GRANULE, 2);
	return load_tag((uintptr_t)page) == 2;
}

/* Not 0, the tag of fresh memory; differs between neighbours and between pages. */
static unsigned int granule_tag(bool two_a_page, size_t offset)
{
	size_t granule = offset / GRANULE;

	if (two_a_page)
		granule = 2 * (offset / memory_page_size()) + granule % 2;
	return 1 + granule * 7 % 15;
}

static bool page_is_tagged(const struct tagged *memory, size_t offset)
{
	size_t size = memory->folio_size;

	if (memory->part == LAST_PAGE)
		return offset % size >= size - memory_page_size();
	return memory->part == ALL_PAGES;
}

/* How many granules do not have the tag that they were given. */
static size_t wrong_tags(const struct tagged *memory)
{
	uintptr_t addr = (uintptr_t)memory->addr;
	size_t wrong = 0;

	for (size_t i = 0; i < memory->len; i += GRANULE)
		if (page_is_tagged(memory, i))
			wrong += load_tag(addr + i) != granule_tag(memory->two_a_page, i);
	return wrong;
}

FIXTURE_SETUP(migrate_mte)
{
	struct tagged *memory = &self->memory;
	int sharing = variant->shared ? MAP_SHARED : MAP_PRIVATE;
	size_t page = memory_page_size();

	settings_restore();
	if (!(getauxval(AT_HWCAP2) & HWCAP2_MTE))
		SKIP(return, "the machine has no memory tags");
	if (!memory_two_nodes(&self->from, &self->to))
		SKIP(return, "needs two nodes with memory");

	numa_balancing_off();
	ASSERT_EQ(offload_on_for(REASON), offload_on_only_for(REASON));
	ASSERT_EQ(0, thp_only(variant->folio_size));

	*memory = (struct tagged) {
		.len = variant->len, .folio_size = variant->folio_size,
		.part = variant->part,
	};
	memory->addr = memory_map_aligned(variant->len, PMD_SIZE);
	ASSERT_NE(NULL, memory->addr);
	ASSERT_NE(MAP_FAILED,
		  mmap(memory->addr, variant->len,
		       PROT_READ | PROT_WRITE |
				(variant->part == ALL_PAGES ? PROT_MTE : 0),
		       sharing | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	ASSERT_EQ(0, memory_fill(memory->addr, variant->len, variant->folio_size, self->from, 1));
	ASSERT_TRUE(memory_folios_are(memory->addr, variant->len, variant->folio_size));

	for (size_t i = 0; i < variant->len; i += page)
		if (variant->part == LAST_PAGE && page_is_tagged(memory, i))
			ASSERT_EQ(0, mprotect(memory->addr + i, page,
					      PROT_READ | PROT_WRITE | PROT_MTE));
	/* A tag check would need pointers with the tag of what they point to. */
	ASSERT_EQ(0, prctl(PR_SET_TAGGED_ADDR_CTRL,
			   PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_NONE, 0, 0, 0));
	memory->two_a_page = two_tags_a_page(memory->addr + variant->folio_size - page);
	for (size_t i = 0; i < variant->len; i += GRANULE)
		if (page_is_tagged(memory, i))
			set_tag(memory->addr + i, granule_tag(memory->two_a_page, i));
	/* Setting tags must not have split what is going to migrate. */
	ASSERT_TRUE(memory_folios_are(memory->addr, variant->len, variant->folio_size));
}

FIXTURE_TEARDOWN(migrate_mte)
{
	settings_restore();
}

static void move_and_check(struct __test_metadata *_metadata,
			   const struct tagged *memory, int node)
{
	ASSERT_EQ(0, memory_move(0, memory->addr, memory->len, memory->folio_size, node,
				 MPOL_MF_MOVE));
	EXPECT_EQ(0, memory_pages_not_on(memory->addr, memory->len, node));
	EXPECT_EQ(0, memory_verify(memory->addr, memory->len, 1));
	EXPECT_EQ(0, wrong_tags(memory));
}

TEST_F_TIMEOUT(migrate_mte, tags_come_along, TIMEOUT)
{
	size_t folios = variant->len / variant->folio_size;
	bool offload_on = offload_on_for(REASON);

	ASSERT_EQ(0, wrong_tags(&self->memory));

	offload_mark();
	move_and_check(_metadata, &self->memory, self->to);
	if (!offload_on) {
		EXPECT_EQ(0, offload_grown(""));
	} else if (variant->part == NO_PAGE) {
		EXPECT_EQ(0, offload_grown("declined_metadata"));
		EXPECT_EQ(folios, offload_grown("folios_copied"));
	} else {
		EXPECT_EQ(folios, offload_grown("declined_metadata"));
		EXPECT_EQ(0, offload_grown("folios_copied"));
	}

	/*
	 * On the way back Linux 7.3 splits folios of which only a part is mapped as it
	 * was, and a split gives all pages the head's PG_mte_tagged: where that is
	 * not set, the tags are lost without any of our doing.
	 */
	if (variant->part != LAST_PAGE)
		move_and_check(_metadata, &self->memory, self->from);
}

/* Callers may name pages by pointers with tags, also those that only ask where pages are. */
TEST_F(migrate_mte, pointers_have_tags)
{
	void *tagged = (void *)((uintptr_t)self->memory.addr + (5UL << TAG_SHIFT));
	int node = self->to, status = -1;

	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 1, &tagged, NULL, &status, 0));
	EXPECT_EQ(self->from, status);
	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 1, &tagged, &node, &status, MPOL_MF_MOVE));
	EXPECT_EQ(self->to, status);
}

TEST_HARNESS_MAIN
