// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for batches of PTEs: the bits that clearing several PTEs collects, and what
 * ends a run of migration entries. No processor walks the table that they use.
 */

#include <kunit/test.h>
#include <linux/leafops.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/swapops.h>

#include "../internal.h"

#define NR	8
#define ODD	5

struct table {
	pte_t *ptes;
	unsigned long pfn;
};

/* Map consecutive pages, all with the bits of an old and clean PTE. */
static void map_pages(struct table *table)
{
	for (unsigned int i = 0; i < NR; i++) {
		pte_t pte = pfn_pte(table->pfn + i, PAGE_SHARED);

		table->ptes[i] = pte_clear_soft_dirty(pte_mkclean(pte_mkold(pte)));
	}
}

static pte_t clear_all(struct table *table)
{
	return get_and_clear_ptes(&init_mm, 0, table->ptes, NR);
}

static void expect_same(struct kunit *test, pte_t pte, pte_t other)
{
	KUNIT_EXPECT_EQ(test, (u64)pte_val(pte), (u64)pte_val(other));
}

static void young_and_dirty_are_collected(struct kunit *test)
{
	struct table *table = test->priv;
	pte_t first, pte;

	map_pages(table);
	first = table->ptes[0];
	expect_same(test, clear_all(table), first);
	for (unsigned int i = 0; i < NR; i++)
		KUNIT_EXPECT_TRUE(test, pte_none(table->ptes[i]));

	map_pages(table);
	table->ptes[ODD] = pte_mkyoung(table->ptes[ODD]);
	expect_same(test, clear_all(table), pte_mkyoung(first));

	map_pages(table);
	table->ptes[ODD] = pte_mkdirty(table->ptes[ODD]);
	pte = clear_all(table);
	KUNIT_EXPECT_TRUE(test, pte_dirty(pte));
	KUNIT_EXPECT_FALSE(test, pte_young(pte));
	KUNIT_EXPECT_EQ(test, pte_pfn(pte), table->pfn);
}

static void soft_dirty_is_that_of_the_first(struct kunit *test)
{
	struct table *table = test->priv;
	pte_t pte;

	if (!IS_ENABLED(CONFIG_MEM_SOFT_DIRTY))
		kunit_skip(test, "needs soft-dirty");

	map_pages(table);
	table->ptes[ODD] = pte_mkdirty(table->ptes[ODD]);
	pte = clear_all(table);
	KUNIT_EXPECT_TRUE(test, pte_dirty(pte));
	KUNIT_EXPECT_FALSE(test, pte_soft_dirty(pte));

	map_pages(table);
	table->ptes[0] = pte_mksoft_dirty(table->ptes[0]);
	table->ptes[ODD] = pte_clear_soft_dirty(pte_mkdirty(table->ptes[ODD]));
	pte = clear_all(table);
	KUNIT_EXPECT_TRUE(test, pte_dirty(pte));
	KUNIT_EXPECT_TRUE(test, pte_soft_dirty(pte));
}

static void shadow_stack_stays_one(struct kunit *test)
{
#ifdef CONFIG_X86_64
	struct table *table = test->priv;
	pte_t first;

	map_pages(table);
	for (unsigned int i = 0; i < NR; i++)
		table->ptes[i] = pte_mkwrite_shstk(table->ptes[i]);
	first = table->ptes[0];
	expect_same(test, clear_all(table), first);
#else
	kunit_skip(test, "only x86-64 has its kind of shadow stacks");
#endif
}

static pte_t migration_entry(struct table *table, unsigned int i)
{
	return softleaf_to_pte(make_readable_migration_entry(table->pfn + i));
}

static int run_length(struct table *table)
{
	return swap_pte_batch(table->ptes, NR, table->ptes[0]);
}

/* The run ends at an entry that differs. */
static void expect_end(struct kunit *test, pte_t odd)
{
	struct table *table = test->priv;

	table->ptes[ODD] = odd;
	KUNIT_EXPECT_EQ(test, run_length(table), ODD);
}

static void runs_of_migration_entries(struct kunit *test)
{
	struct table *table = test->priv;
	const unsigned long pfn = table->pfn + ODD;
	swp_entry_t entry = make_readable_migration_entry(pfn);

	for (unsigned int i = 0; i < NR; i++)
		table->ptes[i] = migration_entry(table, i);
	KUNIT_EXPECT_EQ(test, run_length(table), NR);
	KUNIT_EXPECT_EQ(test, swap_pte_batch(table->ptes, ODD, table->ptes[0]), ODD);

	expect_end(test, migration_entry(table, ODD + 1));
	expect_end(test, softleaf_to_pte(make_writable_migration_entry(pfn)));
	expect_end(test, softleaf_to_pte(make_readable_exclusive_migration_entry(pfn)));
	if (migration_entry_supports_ad()) {
		expect_end(test, softleaf_to_pte(make_migration_entry_young(entry)));
		expect_end(test, softleaf_to_pte(make_migration_entry_dirty(entry)));
	}
	if (IS_ENABLED(CONFIG_MEM_SOFT_DIRTY))
		expect_end(test, pte_swp_mksoft_dirty(migration_entry(table, ODD)));
	if (IS_ENABLED(CONFIG_HAVE_ARCH_USERFAULTFD_WP))
		expect_end(test, pte_swp_mkuffd(migration_entry(table, ODD)));
	expect_end(test, pfn_pte(pfn, PAGE_SHARED));
}

static int pte_batch_test_init(struct kunit *test)
{
	struct table *table = kunit_kzalloc(test, sizeof(*table), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, table);
	table->ptes = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, table->ptes);
	/* Any page will do: nothing looks at it. */
	table->pfn = ALIGN(page_to_pfn(virt_to_page(table->ptes)), NR);
	test->priv = table;
	return 0;
}

static struct kunit_case pte_batch_test_cases[] = {
	KUNIT_CASE(young_and_dirty_are_collected),
	KUNIT_CASE(soft_dirty_is_that_of_the_first),
	KUNIT_CASE(shadow_stack_stays_one),
	KUNIT_CASE(runs_of_migration_entries),
	{}
};

static struct kunit_suite pte_batch_test_suite = {
	.name = "pte_batch",
	.init = pte_batch_test_init,
	.test_cases = pte_batch_test_cases,
};

kunit_test_suite(pte_batch_test_suite);
