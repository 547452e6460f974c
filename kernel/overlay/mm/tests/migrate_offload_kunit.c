// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for copy offload: the registry, routes, which folios may be copied early, and the
 * result for a folio that the migrator copied, failed to copy, or lost.
 *
 * migrate_pages() itself moves folios of shmem files, with a migrator that the test controls.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/buffer_head.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/migrate.h>
#include <linux/mman.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shmem_fs.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

#include "../internal.h"
#include "../migrate.h"

/* Nothing else in a test kernel migrates for this reason. */
#define TEST_REASON	MR_DAMON

#define MAX_FOLIOS	600

struct offload_test {
	struct kunit *test;
	struct migrator migrator, twin, *cpu;
	bool registered, was_enabled;
	unsigned int was_bound, was_min_pages, was_live, was_cpu_ns;
	struct file *file;
	/* Of the file while it migrates; NULL: those of shmem. */
	const struct address_space_operations *aops;
	struct list_head folios;

	/* Called by the migrator for each pair. */
	enum migrate_offload_status (*copy)(struct offload_test *ctx,
					    struct migrate_offload_pair *pair, unsigned int i);
	int submit_error;
	unsigned int nr_submits, nr_batches, nr_pairs;
	unsigned int nr_dsts_at_first_submit, nr_dsts_at_first_copy;
	unsigned long deadline;

	int nid;
	struct folio *dsts[MAX_FOLIOS];
	unsigned int nr_dsts, nr_put;
	bool put_with_marker;
	/* The so-manyeth from now on never comes; 0: none. */
	unsigned int missing_dst;
	struct folio *first_src;
	bool locked_at_dst;
	size_t nr_left;

	struct folio *held;
	struct completion started, go, done;

	unsigned long stats[NR_MIGRATE_OFFLOAD_STATS];
};

static void fill(struct folio *folio, u8 byte)
{
	memset(folio_address(folio), byte, folio_size(folio));
}

static bool filled(struct folio *folio, u8 byte)
{
	return !memchr_inv(folio_address(folio), byte, folio_size(folio));
}

/* Return the byte that fills page @index, never SCRIBBLE. */
static u8 stamp(unsigned int index)
{
	return index % 100 + 1;
}

#define SCRIBBLE	0xa5

/* Return the previous state of the switch. */
static bool migrate_offload_set_enabled(bool on)
{
	bool was = migrate_offload_enabled();

	if (on)
		static_branch_enable(&migrate_offload_key);
	else
		static_branch_disable(&migrate_offload_key);
	return was;
}

static struct folio *get_dst(struct folio *src, unsigned long private)
{
	struct offload_test *ctx = (struct offload_test *)private;
	struct folio *dst;

	if (!ctx->nr_dsts)
		ctx->first_src = src;
	ctx->locked_at_dst |= folio_test_locked(ctx->first_src);
	if (ctx->missing_dst && !--ctx->missing_dst)
		return NULL;
	dst = __folio_alloc_node(GFP_KERNEL | __GFP_THISNODE, folio_order(src), ctx->nid);
	if (dst && ctx->nr_dsts < MAX_FOLIOS)
		ctx->dsts[ctx->nr_dsts++] = dst;
	return dst;
}

static void put_dst(struct folio *dst, unsigned long private)
{
	struct offload_test *ctx = (struct offload_test *)private;

	ctx->nr_put++;
	ctx->put_with_marker |= dst->migrate_info != 0;
	folio_put(dst);
}

static int test_submit(struct migrator *migrator, struct migrate_offload_batch *batch)
{
	struct offload_test *ctx = container_of(migrator, struct offload_test, migrator);

	ctx->deadline = batch->deadline;
	if (!ctx->nr_submits++)
		ctx->nr_dsts_at_first_submit = ctx->nr_dsts;
	ctx->nr_pairs += batch->nr_pairs;

	for (unsigned int i = 0; i < batch->nr_pairs; i++)
		migrate_offload_report(&batch->pairs[i], ctx->copy(ctx, &batch->pairs[i], i));

	return ctx->submit_error;
}

static void test_wait(struct migrator *migrator, struct migrate_offload_batch *batch)
{
}

/* Set the averages of a migrator for folios of a page. */
static void set_folio_ns(const struct migrator *migrator, unsigned int ns)
{
	for (unsigned int nid = 0; nid < nr_node_ids; nid++)
		migrator->folio_ns[nid * NR_PAGE_ORDERS] = ns;
}

static void unregister(struct offload_test *ctx)
{
	if (ctx->registered)
		migrate_offload_unregister(&ctx->migrator);
	ctx->registered = false;
}

static void clean_up(void *data)
{
	struct offload_test *ctx = data;

	unregister(ctx);
	migrate_offload_set_route(TEST_REASON, "none");
	migrate_max_inaccessible_us = ctx->was_bound;
	migrate_batch_min_pages = ctx->was_min_pages;
	set_folio_ns(ctx->cpu, ctx->was_cpu_ns);
	migrate_live_folios = ctx->was_live;
	migrate_learns = true;
	migrate_offload_set_enabled(ctx->was_enabled);
}

/* A kthread's fput() is delayed; the test must not outrun it. */
KUNIT_DEFINE_ACTION_WRAPPER(put_file, __fput_sync, struct file *);

static struct file *new_file(struct kunit *test, unsigned int nr)
{
	struct file *file = shmem_file_setup("migrate_offload_kunit", nr * PAGE_SIZE,
					     mk_vma_flags(VMA_NORESERVE_BIT));

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_file, file));
	return file;
}

/* Add @folio, of which the caller gives a reference, to the list to migrate. */
static void isolate(struct offload_test *ctx, struct folio *folio)
{
	lru_add_drain();
	if (!folio_test_lru(folio))
		lru_add_drain_all();
	KUNIT_ASSERT_TRUE(ctx->test, isolate_folio_to_list(folio, &ctx->folios));
	list_move_tail(&folio->lru, &ctx->folios);
	folio_put(folio);
}

/* Add page @index of @file to the list of folios to migrate. */
static struct folio *add_folio(struct offload_test *ctx, struct file *file, unsigned int index)
{
	struct folio *folio = shmem_read_folio(file->f_mapping, index);

	KUNIT_ASSERT_FALSE(ctx->test, IS_ERR(folio));
	fill(folio, stamp(index));
	isolate(ctx, folio);
	return folio;
}

static void add_folios(struct offload_test *ctx, unsigned int nr)
{
	for (unsigned int page = 0; page < nr; page++)
		add_folio(ctx, ctx->file, page);
}

static void save_stats(struct offload_test *ctx)
{
	for (int i = 0; i < NR_MIGRATE_OFFLOAD_STATS; i++)
		ctx->stats[i] = migrate_offload_read_stat(i);
}

/* Expect that a counter has grown by @nr since save_stats(). */
static void expect_stat(struct offload_test *ctx, unsigned int stat, unsigned long nr)
{
	KUNIT_EXPECT_EQ_MSG(ctx->test, nr, migrate_offload_read_stat(stat) - ctx->stats[stat],
			    "stat %d", stat);
}

static int migrate(struct offload_test *ctx)
{
	const struct address_space_operations *old_aops = ctx->file->f_mapping->a_ops;
	int nr_failed;

	if (ctx->aops)
		ctx->file->f_mapping->a_ops = ctx->aops;
	save_stats(ctx);
	nr_failed = migrate_pages(&ctx->folios, get_dst, put_dst, (unsigned long)ctx,
				  MIGRATE_ASYNC, TEST_REASON, NULL);
	ctx->file->f_mapping->a_ops = old_aops;
	ctx->nr_left = list_count_nodes(&ctx->folios);
	putback_movable_pages(&ctx->folios);
	return nr_failed;
}

/* Expect that page @index of the file is filled with @byte. */
static void expect_content(struct offload_test *ctx, unsigned int index, u8 byte)
{
	struct folio *folio = shmem_read_folio(ctx->file->f_mapping, index);

	KUNIT_ASSERT_FALSE(ctx->test, IS_ERR(folio));
	KUNIT_EXPECT_TRUE_MSG(ctx->test, filled(folio, byte), "page %u", index);
	folio_put(folio);
}

static void expect_contents(struct offload_test *ctx, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		expect_content(ctx, i, stamp(i));
}

/* Expect that @failed folios stay, and that each page of @nr has its contents. */
static void expect_migrated(struct offload_test *ctx, unsigned int nr, int failed)
{
	KUNIT_EXPECT_EQ(ctx->test, failed, migrate(ctx));
	expect_contents(ctx, nr);
}

static enum migrate_offload_status
copy_done(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	folio_copy(pair->dst, pair->src);
	return MIGRATE_OFFLOAD_DONE;
}

static enum migrate_offload_status
scribble_done(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	fill(pair->dst, SCRIBBLE);
	return MIGRATE_OFFLOAD_DONE;
}

/* The architecture, or KMSAN, may decline every folio. */
static void skip_unless_copied(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);
	bool bytes = folio && folio_content_is_bytes(folio);

	if (folio)
		folio_put(folio);
	if (!bytes)
		kunit_skip(test, "every folio is declined here");
}

/* Replaces migrate_folio_was_mapped(), as no page table maps the files of these tests. */
static bool was_mapped(struct folio *dst)
{
	return true;
}

/* Register and route the migrator, and isolate @nr folios of a file to migrate. */
static struct offload_test *setup(struct kunit *test, unsigned int nr)
{
	struct offload_test *ctx = test->priv;

	skip_unless_copied(test);
	ctx->copy = copy_done;
	kunit_activate_static_stub(test, migrate_folio_was_mapped, was_mapped);
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_register(&ctx->migrator));
	ctx->registered = true;
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, "kunit"));
	migrate_offload_set_enabled(true);

	ctx->file = new_file(test, max(nr, 1));
	add_folios(ctx, nr);
	return ctx;
}

static int offload_test_init(struct kunit *test)
{
	struct offload_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;

	ctx->test = test;
	ctx->migrator.name = "kunit";
	ctx->migrator.submit = test_submit;
	ctx->migrator.wait = test_wait;
	INIT_LIST_HEAD(&ctx->folios);
	init_completion(&ctx->started);
	init_completion(&ctx->go);
	init_completion(&ctx->done);
	ctx->was_enabled = migrate_offload_set_enabled(false);
	ctx->was_bound = migrate_max_inaccessible_us;
	migrate_max_inaccessible_us = 0;
	ctx->was_min_pages = migrate_batch_min_pages;
	migrate_batch_min_pages = 1;
	migrate_offload_set_route(TEST_REASON, "cpu");
	ctx->cpu = migrate_offload_get_route(TEST_REASON);
	migrate_offload_set_route(TEST_REASON, "none");
	ctx->was_cpu_ns = ctx->cpu->folio_ns[0];
	ctx->nid = numa_mem_id();
	ctx->was_live = migrate_live_folios;
	migrate_learns = false;
	test->priv = ctx;
	return kunit_add_action_or_reset(test, clean_up, ctx);
}

/* Registry and routes */

static void register_validates(struct kunit *test)
{
	struct offload_test *ctx = test->priv;
	struct migrator *migrator = &ctx->migrator;
	static const char * const bad_names[] = { NULL, "", "none", "two words", "new\nline" };

	for (int i = 0; i < ARRAY_SIZE(bad_names); i++) {
		migrator->name = bad_names[i];
		KUNIT_EXPECT_EQ_MSG(test, -EINVAL, migrate_offload_register(migrator), "%d", i);
	}

	migrator->name = "kunit";
	migrator->submit = NULL;
	KUNIT_EXPECT_EQ(test, -EINVAL, migrate_offload_register(migrator));
	migrator->submit = test_submit;
	migrator->wait = NULL;
	KUNIT_EXPECT_EQ(test, -EINVAL, migrate_offload_register(migrator));
}

static void register_refuses_taken_name(struct kunit *test)
{
	struct offload_test *ctx = test->priv;
	struct migrator twin = ctx->migrator;

	KUNIT_ASSERT_EQ(test, 0, migrate_offload_register(&ctx->migrator));
	KUNIT_EXPECT_EQ(test, -EBUSY, migrate_offload_register(&twin));
	migrate_offload_unregister(&ctx->migrator);
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_register(&twin));
	migrate_offload_unregister(&twin);
}

static void routes_are_per_reason(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 0);

	KUNIT_EXPECT_PTR_EQ(test, &ctx->migrator, migrate_offload_get_route(TEST_REASON));
	KUNIT_EXPECT_PTR_EQ(test, NULL, migrate_offload_get_route(MR_CONTIG_RANGE));

	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, "cpu\n"));
	KUNIT_EXPECT_STREQ(test, "cpu", migrate_offload_get_route(TEST_REASON)->name);

	KUNIT_EXPECT_EQ(test, -ENOENT, migrate_offload_set_route(TEST_REASON, "absent"));
	KUNIT_EXPECT_EQ(test, -EINVAL, migrate_offload_set_route(TEST_REASON, "kunit always"));
	KUNIT_EXPECT_STREQ(test, "cpu", migrate_offload_get_route(TEST_REASON)->name);
}

static unsigned int nr_routed, nr_unrouted;

static void count_routed(struct migrator *migrator, bool routed)
{
	nr_routed += routed;
	nr_unrouted += !routed;
}

/* A migrator hears of the first route and of the last one, and of no other. */
static void routed_is_told_once(struct kunit *test)
{
	struct offload_test *ctx = test->priv;

	nr_routed = 0;
	nr_unrouted = 0;
	ctx->migrator.routed = count_routed;
	setup(test, 0);
	KUNIT_EXPECT_EQ(test, 1, nr_routed);
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(MR_DEMOTION, "kunit"));
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, "kunit"));
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, "none"));
	KUNIT_EXPECT_EQ(test, 1, nr_routed);
	KUNIT_EXPECT_EQ(test, 0, nr_unrouted);
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(MR_DEMOTION, "cpu"));
	KUNIT_EXPECT_EQ(test, 1, nr_unrouted);
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(MR_DEMOTION, "none"));
	KUNIT_EXPECT_EQ(test, 1, nr_routed);
}

static void unregister_resets_routes(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 0);

	KUNIT_ASSERT_EQ(test, 0, migrate_offload_set_route(MR_CONTIG_RANGE, "cpu"));
	/* clean_up() would reset the route itself. */
	unregister(ctx);
	KUNIT_EXPECT_PTR_EQ(test, NULL, migrate_offload_get_route(TEST_REASON));
	KUNIT_EXPECT_STREQ(test, "cpu", migrate_offload_get_route(MR_CONTIG_RANGE)->name);
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(MR_CONTIG_RANGE, "none"));
	KUNIT_EXPECT_EQ(test, -ENOENT, migrate_offload_set_route(TEST_REASON, "kunit"));
}

static void off_hands_out_nothing(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 4);

	migrate_offload_set_enabled(false);
	expect_migrated(ctx, 4, 0);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_submits);
	for (int i = 0; i < NR_MIGRATE_OFFLOAD_STATS; i++)
		expect_stat(ctx, i, 0);
}

/* Which folios may be copied early */

static struct folio *eligible_anon_folio(struct kunit *test)
{
	struct folio *folio;

	skip_unless_copied(test);
	folio = folio_alloc(GFP_KERNEL | __GFP_ZERO, 0);
	KUNIT_ASSERT_NOT_NULL(test, folio);
	folio->mapping = (void *)FOLIO_MAPPING_ANON;
	return folio;
}

static void expect_early(struct kunit *test, bool eligible, struct folio *folio)
{
	KUNIT_EXPECT_EQ(test, eligible, migrate_folio_may_copy_early(folio, true));
}

static void anon_folio_is_eligible(struct kunit *test)
{
	struct folio *folio = eligible_anon_folio(test);

	expect_early(test, true, folio);

	folio_get(folio);
	expect_early(test, false, folio);
	folio_put(folio);

	SetPageHWPoison(&folio->page);
	expect_early(test, false, folio);
	ClearPageHWPoison(&folio->page);

	expect_early(test, true, folio);
	folio_put(folio);
}

static void movable_ops_page_is_declined(struct kunit *test)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, 0);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	/* Nor is one without an owner eligible. */
	expect_early(test, false, folio);
	__SetPageOffline(&folio->page);
	SetPageMovableOps(&folio->page);
	expect_early(test, false, folio);
	/* Type and flag stay set until the page is freed. */
	folio_put(folio);
}

static bool content_is_more_than_bytes(struct folio *folio)
{
	return false;
}

static void folio_with_more_than_bytes_is_declined(struct kunit *test)
{
	struct folio *folio = eligible_anon_folio(test);

	kunit_activate_static_stub(test, folio_content_is_bytes, content_is_more_than_bytes);
	expect_early(test, false, folio);
	kunit_deactivate_static_stub(test, folio_content_is_bytes);
	expect_early(test, true, folio);
	folio_put(folio);
}

static int unknown_migrate_folio(struct address_space *mapping, struct folio *dst,
				 struct folio *src, enum migrate_mode mode)
{
	return migrate_folio(mapping, dst, src, mode);
}

static void only_plain_mappings_are_eligible(struct kunit *test)
{
	static const struct {
		const struct address_space_operations aops;
		bool eligible;
	} kinds[] = {
		{ { .migrate_folio = migrate_folio },		     true },
		{ { .migrate_folio = filemap_migrate_folio },	     true },
		{ { .migrate_folio = buffer_migrate_folio },	     false },
		{ { .migrate_folio = buffer_migrate_folio_norefs },  false },
		{ { .migrate_folio = unknown_migrate_folio },	     false },
		{ { .migrate_folio = NULL },			     false },
	};
	struct address_space *mapping = kunit_kzalloc(test, sizeof(*mapping), GFP_KERNEL);
	struct inode *inode = kunit_kzalloc(test, sizeof(*inode), GFP_KERNEL);
	struct folio *folio;

	skip_unless_copied(test);
	folio = folio_alloc(GFP_KERNEL, 0);
	KUNIT_ASSERT_NOT_NULL(test, mapping);
	KUNIT_ASSERT_NOT_NULL(test, inode);
	KUNIT_ASSERT_NOT_NULL(test, folio);

	folio->mapping = mapping;
	/* A reference as from the page cache. */
	folio_get(folio);

	for (int i = 0; i < ARRAY_SIZE(kinds); i++) {
		kunit_info(test, "%ps", kinds[i].aops.migrate_folio);
		mapping->a_ops = &kinds[i].aops;
		expect_early(test, kinds[i].eligible, folio);
	}

	inode->i_mode = S_IFBLK;
	mapping->host = inode;
	mapping->a_ops = &kinds[1].aops;
	expect_early(test, false, folio);
	inode->i_mode = S_IFREG;
	expect_early(test, true, folio);

	mapping->a_ops = &kinds[0].aops;
	mapping_set_inaccessible(mapping);
	expect_early(test, false, folio);

	folio->mapping = NULL;
	folio_put(folio);
	folio_put(folio);
}

/* A driver may write to such a folio with only a reference from the page cache. */
static void shmem_that_is_not_mapped_is_declined(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 2);

	kunit_deactivate_static_stub(test, migrate_folio_was_mapped);
	expect_migrated(ctx, 2, 0);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_pairs);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_DECLINED, 2);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 0);
}

/* Results of copies */

static void copied_folio_is_not_copied_again(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 8);

	ctx->copy = scribble_done;
	KUNIT_EXPECT_EQ(test, 0, migrate(ctx));
	KUNIT_EXPECT_EQ(test, 8, ctx->nr_pairs);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_BATCHES, 1);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 8);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_PAGES_COPIED, 8);

	for (unsigned int i = 0; i < 8; i++) {
		expect_content(ctx, i, SCRIBBLE);
		KUNIT_EXPECT_PTR_EQ(test, NULL, ctx->dsts[i]->private);
	}
}

static enum migrate_offload_status
every_other_fails(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	static const enum migrate_offload_status failures[] = {
		MIGRATE_OFFLOAD_ERROR, MIGRATE_OFFLOAD_TIMEOUT, MIGRATE_OFFLOAD_PENDING,
	};

	if (i % 2 == 0)
		return copy_done(ctx, pair, i);

	fill(pair->dst, SCRIBBLE);
	return failures[i / 2 % ARRAY_SIZE(failures)];
}

static void failed_folios_fall_back_one_by_one(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 12);

	ctx->copy = every_other_fails;
	expect_migrated(ctx, 12, 0);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 6);
	expect_stat(ctx, MIGRATE_OFFLOAD_ERROR, 4);
	expect_stat(ctx, MIGRATE_OFFLOAD_TIMEOUT, 2);
}

static void refused_batch_is_copied_by_cpu(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 0);
	static const struct {
		int error;
		unsigned int stat;
	} refusals[] = {
		{ -EBUSY,	MIGRATE_OFFLOAD_STAT_BUSY },
		{ -EOPNOTSUPP,	MIGRATE_OFFLOAD_UNREACHABLE },
		{ -EIO,		MIGRATE_OFFLOAD_ERROR },
	};

	ctx->file = new_file(test, 4);
	/* The migrator reports pairs as done and then refuses: core ignores the reports. */
	ctx->copy = scribble_done;
	for (unsigned int i = 0; i < ARRAY_SIZE(refusals); i++) {
		add_folios(ctx, 4);
		ctx->submit_error = refusals[i].error;
		expect_migrated(ctx, 4, 0);
		expect_stat(ctx, refusals[i].stat, 4);
		expect_stat(ctx, MIGRATE_OFFLOAD_STAT_BATCHES, 0);
		expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 0);
	}
}

/* A folio of many GB has more time than others, but no more than may be allowed. */
static void deadline_has_a_limit(struct kunit *test)
{
	struct migrate_offload_batch *batch = kunit_kzalloc(test, sizeof(*batch), GFP_KERNEL);
	struct offload_test *ctx = setup(test, 1);
	struct migrate_route route = { .migrator = &ctx->migrator, .reason = TEST_REASON };
	unsigned long begin = jiffies;

	KUNIT_ASSERT_NOT_NULL(test, batch);
	KUNIT_EXPECT_EQ(test, 0, migrate(ctx));
	KUNIT_EXPECT_TRUE(test, time_after(ctx->deadline, begin));
	KUNIT_EXPECT_TRUE(test, time_before(ctx->deadline, jiffies + 61 * HZ));
	begin = jiffies;
	batch->route = &route;
	batch->nr_pages = 60000 * (SZ_64M / PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, migrate_offload_start(batch));
	KUNIT_EXPECT_TRUE(test, time_before(begin + 59 * HZ, ctx->deadline));
	KUNIT_EXPECT_TRUE(test, time_before(ctx->deadline, jiffies + 61 * HZ));
}

static void small_batch_is_copied_by_cpu(struct kunit *test)
{
	struct offload_test *ctx = test->priv;

	ctx->migrator.min_pages = 5;
	setup(test, 4);
	expect_migrated(ctx, 4, 0);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_submits);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_SMALL, 4);
}

/* A route that requires its migrator */

static void require(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, "kunit required"));
}

static void required_leaves_what_is_not_copied(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 12);

	ctx->copy = every_other_fails;
	require(test);
	expect_migrated(ctx, 12, 6);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 6);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, 6);
	KUNIT_EXPECT_EQ(test, 6, ctx->nr_put);
	KUNIT_EXPECT_FALSE(test, ctx->put_with_marker);
}

static void required_route_without_migrator_is_closed(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 4);

	require(test);
	unregister(ctx);
	KUNIT_ASSERT_NULL(test, migrate_offload_get_route(TEST_REASON));
	KUNIT_EXPECT_EQ(test, 4, migrate(ctx));
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, 4);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_submits);

	migrate_offload_set_route(TEST_REASON, "none");
	add_folios(ctx, 4);
	expect_migrated(ctx, 4, 0);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, 0);
}

/* The main switch takes migrators away; it does not let the CPU copy. */
static void required_route_that_is_off_is_closed(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 4);

	require(test);
	migrate_offload_set_enabled(false);
	KUNIT_EXPECT_EQ(test, 4, migrate(ctx));
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, 4);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_submits);

	migrate_offload_set_enabled(true);
	add_folios(ctx, 4);
	expect_migrated(ctx, 4, 0);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_submits);
}

/* A route that requires its migrator concerns no other one, nor turns anything on. */
static void off_is_off_beside_a_required_route(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 4);

	migrate_offload_set_enabled(false);
	migrate_offload_set_route(MR_DEMOTION, "none required");
	expect_migrated(ctx, 4, 0);
	migrate_offload_set_route(MR_DEMOTION, "none");
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_submits);
}

static void required_has_no_smallest_batch(struct kunit *test)
{
	struct offload_test *ctx = test->priv;

	ctx->migrator.min_pages = 5;
	setup(test, 4);
	require(test);
	expect_migrated(ctx, 4, 0);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 4);
}

/* A copy that timed out ends offloading for its call */

static enum migrate_offload_status
copy_times_out(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	return MIGRATE_OFFLOAD_TIMEOUT;
}

static void time_out_ends_offload(struct kunit *test)
{
	struct offload_test *ctx = setup(test, MAX_FOLIOS);

	ctx->copy = copy_times_out;
	expect_migrated(ctx, MAX_FOLIOS, 0);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_submits);
	expect_stat(ctx, MIGRATE_OFFLOAD_TIMEOUT, MAX_FOLIOS);
}

static void time_out_ends_a_required_call(struct kunit *test)
{
	struct offload_test *ctx = setup(test, MAX_FOLIOS);

	ctx->copy = copy_times_out;
	require(test);
	expect_migrated(ctx, MAX_FOLIOS, MAX_FOLIOS);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_submits);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_REQUIRED_FAILED, MAX_FOLIOS);
	/* The folios after the first batch were not even unmapped. */
	KUNIT_EXPECT_EQ(test, ctx->nr_pairs, ctx->nr_dsts);
}

/* A batch is allocated when the first folio has turned out to be eligible. */

static struct migrate_offload_batch *count_batch(struct migrate_route *route)
{
	struct offload_test *ctx = kunit_get_current_test()->priv;

	ctx->nr_batches++;
	return NULL;
}

static void no_batch_without_eligible_folio(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 2);

	kunit_activate_static_stub(test, migrate_offload_begin, count_batch);
	ctx->migrator.min_order = 1;
	KUNIT_EXPECT_EQ(test, 0, migrate(ctx));
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_SMALL, 2);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_batches);

	ctx->migrator.min_order = 0;
	add_folios(ctx, 2);
	expect_migrated(ctx, 2, 0);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_BUSY, 2);
	KUNIT_EXPECT_GT(test, ctx->nr_batches, 0);
}

/* The bound on how long memory is inaccessible */

/* Longer than what else a kernel with sanitizers does for a folio. */
#define SLOW_MS		2

/* By the clock that core learns from: mdelay() of an emulated machine may be short. */
static void be_slow(void)
{
	const u64 end = ktime_get_ns() + SLOW_MS * NSEC_PER_MSEC;

	while (ktime_get_ns() < end)
		cpu_relax();
}

static enum migrate_offload_status
copy_slowly(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	be_slow();
	return copy_done(ctx, pair, i);
}

static int slow_cpu(struct folio *dst, struct folio *src)
{
	be_slow();
	folio_copy(dst, src);
	return 0;
}

static void migrate_rounds(struct offload_test *ctx, unsigned int rounds, unsigned int nr)
{
	while (rounds--) {
		add_folios(ctx, nr);
		KUNIT_EXPECT_EQ(ctx->test, 0, migrate(ctx));
	}
}

/* Of a file that is offered to migrators, though it is not mapped. */
static const struct address_space_operations plain_aops = {
	.dirty_folio	= noop_dirty_folio,
	.migrate_folio	= migrate_folio,
};

#define SLOW_NS		(SLOW_MS * NSEC_PER_MSEC)

/* As setup(), with time for five slow folios on a route to a migrator that was fast. */
static struct offload_test *setup_bound(struct kunit *test, unsigned int nr)
{
	struct offload_test *ctx = setup(test, nr);

	if (!nr)
		ctx->file = new_file(test, 50);
	ctx->aops = &plain_aops;
	kunit_activate_static_stub(test, folio_mc_copy, slow_cpu);
	set_folio_ns(&ctx->migrator, SLOW_NS / 8);
	migrate_max_inaccessible_us = 5 * SLOW_MS * USEC_PER_MSEC;
	return ctx;
}

static unsigned int submits_of_a_round(struct offload_test *ctx)
{
	ctx->nr_submits = 0;
	migrate_rounds(ctx, 1, 50);
	return ctx->nr_submits;
}

static void bound_makes_batches_small(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);

	ctx->copy = copy_slowly;
	KUNIT_EXPECT_LE(test, submits_of_a_round(ctx), 2);
	migrate_rounds(ctx, 3, 50);
	/* A batch that a tick has made longer is followed by smaller ones, if by any. */
	KUNIT_EXPECT_GE(test, submits_of_a_round(ctx), 7);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 50);
	expect_contents(ctx, 50);
}

/* Batches are as small as the CPU is slow while a migrator is busy, and no longer. */
static void bound_knows_a_busy_migrator(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);

	ctx->submit_error = -EBUSY;
	migrate_rounds(ctx, 4, 50);
	KUNIT_EXPECT_GE(test, submits_of_a_round(ctx), 7);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_BUSY, 50);
	ctx->submit_error = 0;
	migrate_rounds(ctx, 4, 50);
	KUNIT_EXPECT_LE(test, submits_of_a_round(ctx), 3);
	expect_contents(ctx, 50);
}

/* A batch of which the CPU may copy nothing is short: that tells nothing. */
static void bound_learns_nothing_from_failures(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 50);

	require(test);
	set_folio_ns(&ctx->migrator, SLOW_NS);
	ctx->submit_error = -EBUSY;
	KUNIT_EXPECT_EQ(test, 50, migrate(ctx));
	KUNIT_EXPECT_EQ(test, SLOW_NS, ctx->migrator.folio_ns[ctx->nid * NR_PAGE_ORDERS]);
}

/* A NUMA hint moves one folio: it stores nothing that other CPUs read. */
static void bound_learns_nothing_from_one_folio(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 1);

	migrate_max_inaccessible_us = 1;
	ctx->submit_error = -EBUSY;
	expect_migrated(ctx, 1, 0);
	KUNIT_EXPECT_EQ(test, SLOW_NS / 8, ctx->migrator.folio_ns[ctx->nid * NR_PAGE_ORDERS]);
}

/* Memory of one node may be slower than that of another. */
static void bound_knows_each_node(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		ctx->nid = nid;
		set_folio_ns(&ctx->migrator, NSEC_PER_USEC);
		ctx->migrator.folio_ns[nid * NR_PAGE_ORDERS] = SLOW_NS;
		ctx->nr_dsts = 0;
		submits_of_a_round(ctx);
		KUNIT_EXPECT_LE(test, ctx->nr_dsts_at_first_submit, 5);

		set_folio_ns(&ctx->migrator, SLOW_NS);
		ctx->migrator.folio_ns[nid * NR_PAGE_ORDERS] = NSEC_PER_USEC;
		KUNIT_EXPECT_EQ(test, 1, submits_of_a_round(ctx));
	}
	expect_contents(ctx, 50);
}

/*
 * The CPU copies one folio, which may teach nothing for the other four, nor may they
 * for that folio. A kind learns what it is ahead of the others.
 */
static void bound_learns_by_share(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 4);
	unsigned int *cpu_ns = &ctx->cpu->folio_ns[ctx->nid * NR_PAGE_ORDERS];

	set_folio_ns(&ctx->migrator, SLOW_NS / 2);
	set_folio_ns(ctx->cpu, 2 * SLOW_NS + 1);
	add_folio(ctx, new_file(test, 1), 0);
	KUNIT_EXPECT_EQ(test, 0, migrate(ctx));
	KUNIT_EXPECT_EQ(test, 2 * SLOW_NS + 1, *cpu_ns);

	set_folio_ns(&ctx->migrator, SLOW_NS);
	set_folio_ns(ctx->cpu, NSEC_PER_USEC);
	add_folios(ctx, 4);
	add_folio(ctx, new_file(test, 1), 0);
	expect_migrated(ctx, 4, 0);
	KUNIT_EXPECT_LT(test, ctx->migrator.folio_ns[ctx->nid * NR_PAGE_ORDERS], SLOW_NS);
	KUNIT_EXPECT_EQ(test, NSEC_PER_USEC, *cpu_ns);
}

/* However short the time is, one folio after the other migrates, and mostly a few together. */
static void bound_too_short_for_a_folio(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);

	migrate_max_inaccessible_us = 1;
	KUNIT_EXPECT_EQ(test, 50, submits_of_a_round(ctx));
	migrate_batch_min_pages = ctx->was_min_pages;
	KUNIT_EXPECT_EQ(test, DIV_ROUND_UP(50, SZ_128K / PAGE_SIZE), submits_of_a_round(ctx));
	expect_contents(ctx, 50);
}

/* The allocation of a dst may sleep: nothing is locked yet, or unmapped. */
static void dsts_come_first(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 20);

	expect_migrated(ctx, 20, 0);
	KUNIT_EXPECT_EQ(test, 20, ctx->nr_dsts_at_first_submit);
	KUNIT_EXPECT_FALSE(test, ctx->locked_at_dst);
}

/* Without memory for more, the folios that have a dst migrate. */
static void dst_missing(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 50);

	ctx->missing_dst = 26;
	expect_migrated(ctx, 50, -ENOMEM);
	KUNIT_EXPECT_EQ(test, 25, ctx->nr_left);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_submits);
	KUNIT_EXPECT_EQ(test, 0, ctx->nr_put);
}

/* A folio that is locked is tried often, with one dst. */
static void dst_of_locked_folio(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 3);
	struct folio *src = shmem_read_folio(ctx->file->f_mapping, 1);

	KUNIT_ASSERT_FALSE(test, IS_ERR(src));
	folio_lock(src);
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	folio_unlock(src);
	folio_put(src);
	KUNIT_EXPECT_EQ(test, 3, ctx->nr_dsts);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_put);
	expect_contents(ctx, 3);
}

static int count_first_batch(struct folio *dst, struct folio *src)
{
	struct offload_test *ctx = kunit_get_current_test()->priv;

	if (!ctx->nr_dsts_at_first_copy)
		ctx->nr_dsts_at_first_copy = ctx->nr_dsts;
	folio_copy(dst, src);
	return 0;
}

/* The CPU takes @cpu_ns for a folio, the migrator nothing: the first batch has @most. */
static void expect_first_batch(struct offload_test *ctx, unsigned int nr,
			       unsigned int cpu_ns, unsigned int most)
{
	kunit_activate_static_stub(ctx->test, folio_mc_copy, count_first_batch);
	migrate_max_inaccessible_us = USEC_PER_SEC;
	set_folio_ns(&ctx->migrator, 64);
	set_folio_ns(ctx->cpu, cpu_ns);
	ctx->nr_dsts = 0;
	ctx->nr_dsts_at_first_copy = 0;
	migrate_rounds(ctx, 1, nr);
	KUNIT_EXPECT_GT(ctx->test, ctx->nr_dsts_at_first_copy, 0);
	KUNIT_EXPECT_LE(ctx->test, ctx->nr_dsts_at_first_copy, most);
	expect_contents(ctx, nr);
}

/* No larger than without a bound, either, however fast the migrator is. */
static void bound_knows_what_the_cpu_copies(struct kunit *test)
{
	static const struct address_space_operations aops = {
		.dirty_folio	= noop_dirty_folio,
		.migrate_folio	= unknown_migrate_folio,
	};
	struct offload_test *ctx = setup(test, 0);

	if (HPAGE_PMD_NR >= MAX_FOLIOS)
		kunit_skip(test, "a batch holds more folios than this test has");

	ctx->file = new_file(test, MAX_FOLIOS);
	ctx->aops = &aops;
	expect_first_batch(ctx, MAX_FOLIOS, 64, HPAGE_PMD_NR);
	expect_first_batch(ctx, MAX_FOLIOS, NSEC_PER_SEC / 10, 10);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_DECLINED, MAX_FOLIOS);
}

/* The bound holds where no migrator copies: while all is off, and without a route. */
static void bound_needs_no_route(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);

	migrate_offload_set_enabled(false);
	expect_first_batch(ctx, 50, NSEC_PER_SEC / 10, 10);
	migrate_offload_set_enabled(true);
	migrate_offload_set_route(TEST_REASON, "none");
	expect_first_batch(ctx, 50, NSEC_PER_SEC / 10, 10);
}

/*
 * At first a migrator gets folios as it says, then those that it moves an eighth faster, by
 * node. Trials, of two folios here, tell when it has become fast.
 */
static void choice_is_the_faster(struct kunit *test)
{
	struct offload_test *ctx = setup_bound(test, 0);
	struct migrate_route route = { .migrator = &ctx->migrator };
	int nid;

	ctx->migrator.min_order = 1;
	KUNIT_EXPECT_FALSE(test, migrate_order_pays(&route, 0));
	route.folio_ns = ctx->migrator.folio_ns;
	set_folio_ns(ctx->cpu, 800);
	set_folio_ns(&ctx->migrator, 700);
	KUNIT_EXPECT_TRUE(test, migrate_order_pays(&route, 0));
	set_folio_ns(&ctx->migrator, 701);
	KUNIT_EXPECT_FALSE(test, migrate_order_pays(&route, 0));

	migrate_learns = true;
	kunit_activate_static_stub(test, folio_mc_copy, count_first_batch);
	set_folio_ns(ctx->cpu, SLOW_NS / 8 * 5);
	set_folio_ns(&ctx->migrator, SLOW_NS / 2);
	ctx->copy = copy_slowly;
	for_each_node_state(nid, N_MEMORY) {
		ctx->nid = nid;
		KUNIT_EXPECT_GT(test, submits_of_a_round(ctx), 0);
		KUNIT_EXPECT_LE(test, submits_of_a_round(ctx), 1);
	}

	ctx->copy = copy_done;
	route.folio_ns += ctx->nid * NR_PAGE_ORDERS;
	set_folio_ns(&ctx->migrator, 200 * SLOW_NS);
	for (unsigned int i = 0; i < 64 * num_online_cpus(); i++) {
		set_folio_ns(ctx->cpu, 100 * SLOW_NS);
		if (migrate_order_pays(&route, 0))
			break;
		migrate_rounds(ctx, 1, 50);
	}
	KUNIT_EXPECT_TRUE(test, migrate_order_pays(&route, 0));
	expect_contents(ctx, 50);
}

/*
 * The migrator copies the first folio and takes a reference to it, so that the move fails with
 * -EAGAIN. Before the retry, the callback of the second folio changes the first and drops the
 * reference. The retry must not use the stale copy.
 */
static enum migrate_offload_status
copy_then_hold(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	folio_copy(pair->dst, pair->src);
	ctx->held = pair->src;
	folio_get(ctx->held);
	return MIGRATE_OFFLOAD_DONE;
}

static int change_and_drop_held(struct address_space *mapping, struct folio *dst,
				struct folio *src, enum migrate_mode mode)
{
	struct offload_test *ctx = kunit_get_current_test()->priv;

	if (ctx->held) {
		fill(ctx->held, SCRIBBLE);
		folio_put(ctx->held);
		ctx->held = NULL;
	}
	return -EBUSY;
}

static void retry_copies_afresh(struct kunit *test)
{
	static const struct address_space_operations aops = {
		.dirty_folio	= noop_dirty_folio,
		.migrate_folio	= change_and_drop_held,
	};
	struct offload_test *ctx = setup(test, 1);
	struct file *other = new_file(test, 1);
	const struct address_space_operations *old_aops = other->f_mapping->a_ops;

	add_folio(ctx, other, 0);
	other->f_mapping->a_ops = &aops;

	ctx->copy = copy_then_hold;
	/* The second folio fails permanently. */
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	other->f_mapping->a_ops = old_aops;

	KUNIT_EXPECT_PTR_EQ(test, NULL, ctx->held);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 1);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_DECLINED, 1);
	expect_content(ctx, 0, SCRIBBLE);
}

/* A marker that the move phase did not consume is gone before dst is put. */
static void marker_is_gone_when_dst_is_given_back(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 1);

	ctx->copy = copy_then_hold;
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	KUNIT_ASSERT_NOT_NULL(test, ctx->held);
	folio_put(ctx->held);

	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 1);
	KUNIT_EXPECT_EQ(test, 1, ctx->nr_put);
	KUNIT_EXPECT_FALSE(test, ctx->put_with_marker);
	expect_contents(ctx, 1);
}

/* Poison that the CPU meets fails its own folio and no other. */
static struct folio *poisoned, *written;

static int copy_or_poison(struct folio *dst, struct folio *src)
{
	if (src == poisoned || src == written)
		return -EHWPOISON;
	folio_copy(dst, src);
	return 0;
}

static void poison_fails_one_folio(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 0);
	static const char * const names[] = { "cpu", "kunit", "none" };

	ctx->file = new_file(test, 5);
	ctx->copy = every_other_fails;
	kunit_activate_static_stub(test, folio_mc_copy, copy_or_poison);

	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		KUNIT_ASSERT_EQ(test, 0, migrate_offload_set_route(TEST_REASON, names[i]));
		for (unsigned int page = 0; page < 5; page++) {
			struct folio *folio = add_folio(ctx, ctx->file, page);

			/* The migrator "kunit" reports odd pairs as failed. */
			if (page == 1)
				poisoned = folio;
		}

		KUNIT_EXPECT_EQ_MSG(test, 1, migrate(ctx), "%s", names[i]);
		expect_contents(ctx, 5);

		/* Only the poisoned folio has not moved. */
		for (unsigned int page = 0; page < 5; page++) {
			struct folio *folio = shmem_read_folio(ctx->file->f_mapping, page);

			KUNIT_EXPECT_EQ(test, folio == poisoned, page == 1);
			folio_put(folio);
		}
	}
}

static enum migrate_offload_status
second_gets_poison(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	if (i == 1) {
		poisoned = pair->src;
		SetPageHWPoison(&poisoned->page);
	}
	return copy_done(ctx, pair, i);
}

/* An engine may copy poison that comes up meanwhile: the CPU's copy decides. */
static void poison_during_the_copy(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 4);

	if (!IS_ENABLED(CONFIG_MEMORY_FAILURE))
		kunit_skip(test, "no poison");

	ctx->copy = second_gets_poison;
	kunit_activate_static_stub(test, folio_mc_copy, copy_or_poison);
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	KUNIT_ASSERT_NOT_NULL(test, poisoned);
	ClearPageHWPoison(&poisoned->page);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 3);
	expect_stat(ctx, MIGRATE_OFFLOAD_ERROR, 1);
	expect_contents(ctx, 4);
}

#ifdef CONFIG_MIGRATION_LIVE_COPY
static struct folio *mapped_folio(struct kunit *test, unsigned long addr)
{
	struct page *page;

	KUNIT_ASSERT_EQ(test, 1, get_user_pages_fast(addr, 1, FOLL_WRITE, &page));
	return page_folio(page);
}

static unsigned long write_to;

/* The engine does not copy what is poisoned, and the user writes to another folio. */
static enum migrate_offload_status
fail_or_write(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	enum migrate_offload_status status = copy_done(ctx, pair, i);

	/* Unmapped, it would wait for its own move: then it was copied live before. */
	if (pair->src == written && !folio_mapped(written))
		KUNIT_FAIL(ctx->test, "copied again");
	else if (pair->src == written)
		KUNIT_EXPECT_EQ(ctx->test, 0, clear_user((void __user *)write_to, PAGE_SIZE));
	return pair->src == poisoned ? MIGRATE_OFFLOAD_ERROR : status;
}

/*
 * The CPU meets poison in live copies. The move copies no page that was written. The first
 * folio, for which there is no memory, does not end live copies.
 */
static void poisoned_and_written_live_folios(struct kunit *test)
{
	struct offload_test *ctx = test->priv;
	unsigned long start;

	ctx->migrator.asynchronous = true;
	migrate_live_folios = 2;
	setup(test, 0);
	ctx->copy = fail_or_write;
	kunit_activate_static_stub(test, folio_mc_copy, copy_or_poison);

	start = kunit_vm_mmap(test, NULL, 0, 5 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, 0);
	KUNIT_ASSERT_NE(test, 0, start);
	for (unsigned int page = 0; page < 5; page++) {
		struct folio *folio = mapped_folio(test, start + page * PAGE_SIZE);

		fill(folio, stamp(page));
		if (page == 1)
			poisoned = folio;
		if (page == 3)
			written = folio;
		isolate(ctx, folio);
	}

	write_to = start + 3 * PAGE_SIZE;
	ctx->missing_dst = 1;
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_LIVE_DECLINED, 1);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_LIVE_COPIED, 2);
	expect_stat(ctx, MIGRATE_OFFLOAD_STAT_LIVE_WRITTEN, 1);

	/* Only the poisoned folio has not moved. */
	for (unsigned int page = 0; page < 5; page++) {
		struct folio *folio = mapped_folio(test, start + page * PAGE_SIZE);

		KUNIT_EXPECT_EQ(test, folio == poisoned, page == 1);
		KUNIT_EXPECT_TRUE_MSG(test, filled(folio, page == 3 ? 0 : stamp(page)),
				      "page %u", page);
		folio_put(folio);
	}
	written = NULL;
}
#endif

/* Folios that an engine may still access are never freed. */
static enum migrate_offload_status
second_is_lost(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	if (i != 1)
		return copy_done(ctx, pair, i);

	ctx->held = pair->dst;
	return MIGRATE_OFFLOAD_LOST;
}

static void lost_folio_stays_and_leaks(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 3);
	struct folio *src;

	ctx->copy = second_is_lost;
	KUNIT_EXPECT_EQ(test, 1, migrate(ctx));
	KUNIT_ASSERT_NOT_NULL(test, ctx->held);

	/* The late write of the engine. */
	fill(ctx->held, SCRIBBLE);
	expect_contents(ctx, 3);
	expect_stat(ctx, MIGRATE_OFFLOAD_DONE, 2);
	expect_stat(ctx, MIGRATE_OFFLOAD_LOST, 1);

	KUNIT_EXPECT_EQ(test, 1, ctx->nr_put);
	KUNIT_EXPECT_EQ(test, 1, folio_ref_count(ctx->held));
	KUNIT_EXPECT_FALSE(test, folio_test_locked(ctx->held));
	KUNIT_EXPECT_PTR_EQ(test, NULL, ctx->held->private);

	src = shmem_read_folio(ctx->file->f_mapping, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(src));
	/* References: the page cache's, ours, and the one leaked on purpose. */
	lru_add_drain_all();
	KUNIT_EXPECT_EQ(test, 3, folio_ref_count(src));
	folio_put(src);

	/* Drop the references that core leaked on purpose. */
	folio_put(src);
	folio_put(ctx->held);
}

/* Sizes */

static void long_list_comes_in_batches(struct kunit *test)
{
	const unsigned int limit = IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE) ? HPAGE_PMD_NR : 512;
	struct offload_test *ctx;

	if (limit >= MAX_FOLIOS)
		kunit_skip(test, "a batch holds more folios than this test has");

	ctx = setup(test, MAX_FOLIOS);
	expect_migrated(ctx, MAX_FOLIOS, 0);
	KUNIT_EXPECT_EQ(test, limit, ctx->nr_dsts_at_first_submit);
	KUNIT_EXPECT_EQ(test, MAX_FOLIOS, ctx->nr_pairs);
}

/* migrate_offload_unregister() waits for no call that has another migrator. */

static enum migrate_offload_status
copy_when_told(struct offload_test *ctx, struct migrate_offload_pair *pair, unsigned int i)
{
	complete(&ctx->started);
	wait_for_completion_timeout(&ctx->go, 60 * HZ);
	return copy_done(ctx, pair, i);
}

static int migrate_thread(void *data)
{
	struct offload_test *ctx = data;

	/* Static stubs apply only to tasks that belong to the test. */
	current->kunit_test = ctx->test;
	return migrate(ctx);
}

static int unregister_thread(void *data)
{
	struct offload_test *ctx = data;

	migrate_offload_unregister(&ctx->twin);
	complete(&ctx->done);
	return 0;
}

static struct task_struct *run(struct kunit *test, int (*fn)(void *data),
			       void *data, const char *name)
{
	struct task_struct *task = kthread_create(fn, data, "%s", name);

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	return task;
}

static void unregister_waits_for_no_other_copy(struct kunit *test)
{
	struct offload_test *ctx = setup(test, 1);
	struct task_struct *mover, *remover;

	ctx->copy = copy_when_told;
	ctx->twin = ctx->migrator;
	ctx->twin.name = "twin";
	KUNIT_ASSERT_EQ(test, 0, migrate_offload_register(&ctx->twin));
	KUNIT_EXPECT_EQ(test, 0, migrate_offload_set_route(MR_DEMOTION, "twin"));
	mover = run(test, migrate_thread, ctx, "kunit_mover");
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(&ctx->started, 60 * HZ));

	remover = run(test, unregister_thread, ctx, "kunit_remover");
	KUNIT_EXPECT_NE(test, 0, wait_for_completion_timeout(&ctx->done, 30 * HZ));
	KUNIT_EXPECT_PTR_EQ(test, NULL, migrate_offload_get_route(MR_DEMOTION));

	complete(&ctx->go);
	KUNIT_EXPECT_EQ(test, 0, kthread_stop_put(mover));
	kthread_stop_put(remover);
	expect_contents(ctx, 1);
}

static struct kunit_case offload_test_cases[] = {
	KUNIT_CASE(register_validates),
	KUNIT_CASE(register_refuses_taken_name),
	KUNIT_CASE(routes_are_per_reason),
	KUNIT_CASE(routed_is_told_once),
	KUNIT_CASE(unregister_resets_routes),
	KUNIT_CASE(off_hands_out_nothing),
	KUNIT_CASE(anon_folio_is_eligible),
	KUNIT_CASE(movable_ops_page_is_declined),
	KUNIT_CASE(folio_with_more_than_bytes_is_declined),
	KUNIT_CASE(only_plain_mappings_are_eligible),
	KUNIT_CASE(shmem_that_is_not_mapped_is_declined),
	KUNIT_CASE(copied_folio_is_not_copied_again),
	KUNIT_CASE(failed_folios_fall_back_one_by_one),
	KUNIT_CASE(refused_batch_is_copied_by_cpu),
	KUNIT_CASE(deadline_has_a_limit),
	KUNIT_CASE(small_batch_is_copied_by_cpu),
	KUNIT_CASE(required_leaves_what_is_not_copied),
	KUNIT_CASE(required_route_without_migrator_is_closed),
	KUNIT_CASE(required_route_that_is_off_is_closed),
	KUNIT_CASE(off_is_off_beside_a_required_route),
	KUNIT_CASE(required_has_no_smallest_batch),
	KUNIT_CASE(time_out_ends_offload),
	KUNIT_CASE(time_out_ends_a_required_call),
	KUNIT_CASE(no_batch_without_eligible_folio),
	KUNIT_CASE(dsts_come_first),
	KUNIT_CASE(dst_missing),
	KUNIT_CASE(dst_of_locked_folio),
	KUNIT_CASE(bound_makes_batches_small),
	KUNIT_CASE(bound_knows_a_busy_migrator),
	KUNIT_CASE(bound_learns_nothing_from_failures),
	KUNIT_CASE(bound_learns_nothing_from_one_folio),
	KUNIT_CASE(bound_knows_each_node),
	KUNIT_CASE(bound_learns_by_share),
	KUNIT_CASE(bound_too_short_for_a_folio),
	KUNIT_CASE(bound_knows_what_the_cpu_copies),
	KUNIT_CASE(bound_needs_no_route),
	KUNIT_CASE(choice_is_the_faster),
	KUNIT_CASE(retry_copies_afresh),
	KUNIT_CASE(marker_is_gone_when_dst_is_given_back),
	KUNIT_CASE(poison_fails_one_folio),
	KUNIT_CASE(poison_during_the_copy),
#ifdef CONFIG_MIGRATION_LIVE_COPY
	KUNIT_CASE(poisoned_and_written_live_folios),
#endif
	KUNIT_CASE(lost_folio_stays_and_leaks),
	KUNIT_CASE(long_list_comes_in_batches),
	KUNIT_CASE(unregister_waits_for_no_other_copy),
	{}
};

static struct kunit_suite offload_test_suite = {
	.name = "migrate_offload",
	.init = offload_test_init,
	.test_cases = offload_test_cases,
};

kunit_test_suite(offload_test_suite);
