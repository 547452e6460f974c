// SPDX-License-Identifier: GPL-2.0
/*
 * Memory with tags (arm64 MTE) migrates to another node and back: every byte and the tag of every
 * granule of 16 bytes must come along. A migrator moves bytes alone, so that folios in which any
 * page has tags must be left to the CPU, and all others need not be.
 */
#include "run.h"

#include <sys/auxv.h>
#include <asm/hwcap.h>

#define TIMEOUT		180
#define GRANULE		16UL
#define TAG_SHIFT	56
#ifndef PROT_MTE
#define PROT_MTE	0x20
#endif

/* LAST_PAGE: of every folio. */
enum tagged_part { NO_PAGE, LAST_PAGE, ALL_PAGES };

static enum tagged_part tagged_part;
static bool two_a_page;

FIXTURE(migrate_mte) { };

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
static unsigned int granule_tag(size_t offset)
{
	size_t granule = offset / GRANULE;

	if (two_a_page)
		granule = 2 * (offset / memory_page_size()) + granule % 2;
	return 1 + granule * 7 % 15;
}

static bool page_is_tagged(size_t offset)
{
	size_t size = area.folio_size;

	if (tagged_part == LAST_PAGE)
		return offset % size >= size - memory_page_size();
	return tagged_part == ALL_PAGES;
}

/* How many granules do not have the tag that they were given. */
static size_t wrong_tags(void)
{
	uintptr_t addr = (uintptr_t)area.addr;
	size_t wrong = 0;

	for (size_t i = 0; i < area.size; i += GRANULE)
		if (page_is_tagged(i))
			wrong += load_tag(addr + i) != granule_tag(i);
	return wrong;
}

FIXTURE_SETUP(migrate_mte)
{
	int sharing = MAP_ANONYMOUS | MAP_FIXED | (variant->shared ? MAP_SHARED : MAP_PRIVATE);
	int protection = PROT_READ | PROT_WRITE | (variant->part == ALL_PAGES ? PROT_MTE : 0);
	size_t page = memory_page_size();

	if (!(getauxval(AT_HWCAP2) & HWCAP2_MTE))
		SKIP(return, "the machine has no memory tags");
	if (!test_begin(_metadata))
		return;
	ASSERT_EQ(offload_on_for(MOVE_PAGES), offload_on_only_for(MOVE_PAGES));
	ASSERT_EQ(0, thp_only(variant->folio_size));

	tagged_part = variant->part;
	area = (struct area) { NULL, variant->len, variant->folio_size, 1 };
	area.addr = memory_map_aligned(variant->len, PMD_SIZE);
	ASSERT_NE(NULL, area.addr);
	ASSERT_NE(MAP_FAILED, mmap(area.addr, variant->len, protection, sharing, -1, 0));
	ASSERT_EQ(0, memory_fill(area.addr, variant->len, variant->folio_size, nodes[0], 1));
	ASSERT_TRUE(area_is_whole(&area));

	for (size_t i = 0; i < variant->len; i += page)
		if (variant->part == LAST_PAGE && page_is_tagged(i))
			ASSERT_EQ(0, mprotect(area.addr + i, page, protection | PROT_MTE));
	/* A tag check would need pointers with the tag of what they point to. */
	ASSERT_EQ(0, prctl(PR_SET_TAGGED_ADDR_CTRL,
			   PR_TAGGED_ADDR_ENABLE | PR_MTE_TCF_NONE, 0, 0, 0));
	two_a_page = two_tags_a_page(area.addr + variant->folio_size - page);
	for (size_t i = 0; i < variant->len; i += GRANULE)
		if (page_is_tagged(i))
			set_tag(area.addr + i, granule_tag(i));
	/* Setting tags must not have split what is going to migrate. */
	ASSERT_TRUE(area_is_whole(&area));
}

FIXTURE_TEARDOWN(migrate_mte) { settings_restore(); }

static void move_and_check(int node)
{
	ASSERT_EQ(0, area_move(&area, node));
	EXPECT_EQ(0, memory_pages_not_on(area.addr, area.size, node));
	EXPECT_EQ(0, area_wrong(&area));
	EXPECT_EQ(0, wrong_tags());
}

TEST_F_TIMEOUT(migrate_mte, tags_come_along, TIMEOUT)
{
	size_t folios = variant->len / variant->folio_size;
	bool offload_on = offload_on_for(MOVE_PAGES);

	ASSERT_EQ(0, wrong_tags());

	offload_mark();
	move_and_check(nodes[1]);
	if (!offload_on) {
		EXPECT_EQ(0, offload_grown(""));
	} else if (variant->part == NO_PAGE) {
		EXPECT_EQ(0, offload_grown("declined"));
		EXPECT_EQ(folios, offload_grown("folios_copied"));
	} else {
		EXPECT_EQ(folios, offload_grown("declined"));
		EXPECT_EQ(0, offload_grown("folios_copied"));
	}

	/*
	 * On the way back Linux 7.3 splits folios of which only a part is mapped as it
	 * was, and a split gives all pages the head's PG_mte_tagged: where that is
	 * not set, the tags are lost without any of our doing.
	 */
	if (variant->part != LAST_PAGE)
		move_and_check(nodes[0]);
}

/* Callers may name pages by pointers with tags, also those that only ask where pages are. */
TEST_F(migrate_mte, pointers_have_tags)
{
	void *tagged = (void *)((uintptr_t)area.addr + (5UL << TAG_SHIFT));
	int node = nodes[1], status = -1;

	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 1, &tagged, NULL, &status, 0));
	EXPECT_EQ(nodes[0], status);
	ASSERT_EQ(0, syscall(__NR_move_pages, 0, 1, &tagged, &node, &status, MPOL_MF_MOVE));
	EXPECT_EQ(nodes[1], status);
}

TEST_HARNESS_MAIN
