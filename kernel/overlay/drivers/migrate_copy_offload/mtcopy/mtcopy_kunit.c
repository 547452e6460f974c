// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for mtcopy: how it cuts a batch into pieces, when and which helpers it
 * asks, and what it reports for poisoned and for lost folios.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/migrate_copy_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "mtcopy.h"

#define NR_FOLIOS	MIGRATE_COPY_MAX_PAIRS
#define MAX_ORDER	9

struct mtcopy_test {
	u32 pages[NR_FOLIOS];
	u32 seen[NR_FOLIOS];
};

static int mtcopy_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct mtcopy_test), GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

/* Cut @nr folios, and check that each page is in exactly one piece, in order. */
static unsigned int cut(struct kunit *test, unsigned int nr, unsigned int max)
{
	struct mtcopy_test *t = test->priv;
	struct mtcopy_piece piece;
	unsigned int pieces = 0, i;
	u64 cursor = 0, next = 0;

	memset(t->seen, 0, sizeof(t->seen));
	for (; mtcopy_next_piece(t->pages, nr, max, cursor, &piece, &next); cursor = next) {
		unsigned int sum = 0;

		KUNIT_ASSERT_GE(test, piece.nr, 1);
		KUNIT_ASSERT_GE(test, piece.nr_pages, 1);
		KUNIT_ASSERT_LE(test, piece.nr_pages, max);
		KUNIT_ASSERT_LE(test, piece.first + piece.nr, nr);
		KUNIT_ASSERT_GT(test, next, cursor);
		for (i = piece.first; i < piece.first + piece.nr; i++) {
			unsigned int part = piece.nr > 1 ? t->pages[i] : piece.nr_pages;

			KUNIT_ASSERT_EQ(test, t->seen[i], piece.page);
			t->seen[i] += part;
			sum += part;
		}
		KUNIT_ASSERT_EQ(test, sum, piece.nr_pages);
		pieces++;
	}
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ_MSG(test, t->seen[i], t->pages[i], "folio %u", i);
	return pieces;
}

static void cut_one_large_folio(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;

	t->pages[0] = 512;
	KUNIT_EXPECT_EQ(test, cut(test, 1, 64), 8);
	KUNIT_EXPECT_EQ(test, cut(test, 1, 512), 1);
	KUNIT_EXPECT_EQ(test, cut(test, 1, 1), 512);
	/* Not a power of two: the last piece is smaller. */
	t->pages[0] = 100;
	KUNIT_EXPECT_EQ(test, cut(test, 1, 64), 2);
}

static void cut_small_folios(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	unsigned int i;

	for (i = 0; i < NR_FOLIOS; i++)
		t->pages[i] = 1;
	KUNIT_EXPECT_EQ(test, cut(test, NR_FOLIOS, 64), NR_FOLIOS / 64);
	KUNIT_EXPECT_EQ(test, cut(test, 65, 64), 2);
	for (i = 0; i < NR_FOLIOS; i++)
		t->pages[i] = 16;
	KUNIT_EXPECT_EQ(test, cut(test, 32, 64), 8);
	KUNIT_EXPECT_EQ(test, cut(test, 32, 16), 32);
}

/* The rest of a cut folio is a piece by itself. */
static void cut_mixed_folios(struct kunit *test)
{
	static const u32 sizes[] = { 1, 1, 512, 1, 16, 16, 64, 1 };
	struct mtcopy_test *t = test->priv;

	memcpy(t->pages, sizes, sizeof(sizes));
	KUNIT_EXPECT_EQ(test, cut(test, ARRAY_SIZE(sizes), 64), 1 + 8 + 1 + 1 + 1);
	/* A folio of 100 pages leaves a piece of 36; the next folio is not added to it. */
	t->pages[2] = 100;
	KUNIT_EXPECT_EQ(test, cut(test, 4, 64), 1 + 2 + 1);
}

static void cut_random_batches(struct kunit *test)
{
	struct mtcopy_test *t = test->priv;
	struct rnd_state rnd;
	unsigned int round, i;

	prandom_seed_state(&rnd, 1);
	for (round = 0; round < 200; round++) {
		unsigned int nr = 1 + prandom_u32_state(&rnd) % NR_FOLIOS;
		unsigned int max = BIT(prandom_u32_state(&rnd) % (MAX_ORDER + 1));

		for (i = 0; i < nr; i++)
			t->pages[i] = BIT(prandom_u32_state(&rnd) % (MAX_ORDER + 1));
		cut(test, nr, max);
	}
}

/* mtcopy_next_piece() reads no sizes at the end: a late helper may run after the batch. */
static void end_reads_nothing(struct kunit *test)
{
	struct mtcopy_piece piece;
	u64 next;

	KUNIT_EXPECT_FALSE(test, mtcopy_next_piece(NULL, 3, 64, 3ULL << 32, &piece, &next));
	KUNIT_EXPECT_FALSE(test, mtcopy_next_piece(NULL, 0, 64, 0, &piece, &next));
}

static void threads_for_their_share(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtcopy_threads(1, 4), 1);
	KUNIT_EXPECT_EQ(test, mtcopy_threads(2 * MTCOPY_SHARE_PAGES - 1, 4), 1);
	KUNIT_EXPECT_EQ(test, mtcopy_threads(2 * MTCOPY_SHARE_PAGES, 4), 2);
	KUNIT_EXPECT_EQ(test, mtcopy_threads(512, 4), 4);
	KUNIT_EXPECT_EQ(test, mtcopy_threads(512, 1), 1);
	KUNIT_EXPECT_EQ(test, mtcopy_threads(1UL << 30, MTCOPY_MAX_THREADS),
			MTCOPY_MAX_THREADS);
}

static void several_pieces_a_thread(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mtcopy_piece_pages(512, 2), 64);
	KUNIT_EXPECT_EQ(test, mtcopy_piece_pages(512, 4), 32);
	KUNIT_EXPECT_EQ(test, mtcopy_piece_pages(128, 2), 16);
	KUNIT_EXPECT_EQ(test, mtcopy_piece_pages(1, 16), MTCOPY_MIN_PIECE);
	KUNIT_EXPECT_EQ(test, mtcopy_piece_pages(1UL << 20, 16), MTCOPY_MAX_PIECE);
}

/* How long a batch of 512 pages takes alone. */
#define ALONE_NS	150000U

struct history {
	u64 ns;
	unsigned int helped;
};

/*
 * Copy @nr batches in the way that mtcopy chooses. With helpers each takes @helped_ns.
 * Every @odd-th batch takes ten times as long, whichever way it is copied.
 */
static struct history copy_batches(struct mtcopy_gain *gain, unsigned int nr,
				   unsigned int helped_ns, unsigned int odd)
{
	struct history history = { };
	unsigned int i;

	for (i = 1; i <= nr; i++) {
		bool helped = mtcopy_ask(gain);
		u64 ns = helped ? helped_ns : ALONE_NS;

		if (odd && i % odd == 0)
			ns *= 10;
		mtcopy_learn(gain, helped, ns, 512);
		history.ns += ns;
		history.helped += helped;
	}
	return history;
}

static void helpers_that_pay_are_asked(struct kunit *test)
{
	struct mtcopy_gain gain = { };

	KUNIT_EXPECT_FALSE(test, mtcopy_ask(&gain));
	KUNIT_EXPECT_GE(test, copy_batches(&gain, 20, ALONE_NS * 2 / 3, 0).helped, 10);
	KUNIT_EXPECT_GE(test, copy_batches(&gain, 1000, ALONE_NS * 2 / 3, 0).helped, 970);
	/* Alone from time to time, to see that they still pay. */
	KUNIT_EXPECT_LE(test, copy_batches(&gain, 1000, ALONE_NS * 2 / 3, 0).helped, 990);
}

/* However slow they are, mtcopy is never below 0.97 of one thread. */
static void helpers_that_cost_time_are_not_asked(struct kunit *test)
{
	static const unsigned int percent[] = { 100, 103, 110, 150, 200, 1000, 10000 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(percent); i++) {
		struct mtcopy_gain gain = { };
		struct history history;

		history = copy_batches(&gain, 10000, ALONE_NS / 100 * percent[i], 0);
		KUNIT_EXPECT_LE_MSG(test, history.ns * 97, 10000ULL * ALONE_NS * 100,
				    "%u %%", percent[i]);
		/* But from time to time. */
		KUNIT_EXPECT_GE(test, history.helped, 2);
		KUNIT_EXPECT_LE(test, history.helped, 170);
	}
}

/* A little is not worth another CPU. Once helpers are asked, less will do. */
static void helpers_pay_from_a_sixteenth(struct kunit *test)
{
	struct mtcopy_gain gain = { };

	KUNIT_EXPECT_LE(test, copy_batches(&gain, 1000, ALONE_NS / 100 * 95, 0).helped, 20);
	copy_batches(&gain, 300, ALONE_NS / 100 * 90, 0);
	KUNIT_EXPECT_GE(test, copy_batches(&gain, 1000, ALONE_NS / 100 * 90, 0).helped, 970);
	KUNIT_EXPECT_GE(test, copy_batches(&gain, 1000, ALONE_NS / 100 * 95, 0).helped, 970);
	copy_batches(&gain, 600, ALONE_NS / 100 * 98, 0);
	KUNIT_EXPECT_LE(test, copy_batches(&gain, 1000, ALONE_NS / 100 * 98, 0).helped, 20);
}

static void gain_comes_and_goes(struct kunit *test)
{
	struct mtcopy_gain gain = { };
	unsigned int i;

	for (i = 0; i < 10; i++) {
		copy_batches(&gain, 400, ALONE_NS * 2 / 3, 0);
		KUNIT_EXPECT_GE(test, copy_batches(&gain, 100, ALONE_NS * 2 / 3, 0).helped, 95);
		copy_batches(&gain, 400, ALONE_NS * 3 / 2, 0);
		KUNIT_EXPECT_LE(test, copy_batches(&gain, 100, ALONE_NS * 3 / 2, 0).helped, 5);
	}
}

/* Batches whose caller lost its CPU say nothing about helpers. */
static void odd_batches_hardly_matter(struct kunit *test)
{
	struct mtcopy_gain gain = { };

	copy_batches(&gain, 400, ALONE_NS / 100 * 80, 29);
	KUNIT_EXPECT_GE(test, copy_batches(&gain, 3000, ALONE_NS / 100 * 80, 29).helped, 2850);
	gain = (struct mtcopy_gain){ };
	KUNIT_EXPECT_LE(test, copy_batches(&gain, 3000, ALONE_NS / 100 * 110, 29).helped, 150);
}

/* A trial for which there is no helper is made up for. */
static void trial_waits_for_a_helper(struct kunit *test)
{
	struct mtcopy_gain gain = { };
	unsigned int i;

	for (i = 0; i < 100; i++)
		mtcopy_learn(&gain, false, ALONE_NS, 512);
	KUNIT_EXPECT_TRUE(test, mtcopy_ask(&gain));
	mtcopy_learn(&gain, true, ALONE_NS, 512);
	KUNIT_EXPECT_FALSE(test, mtcopy_ask(&gain));
}

/* CPUs that the administrator excluded from a kind of housekeeping. */
static struct cpumask isolated, tickless;

static bool housekeeping_of_test(unsigned int cpu, enum hk_type type)
{
	switch (type) {
	case HK_TYPE_DOMAIN:
		return !cpumask_test_cpu(cpu, &isolated);
	case HK_TYPE_KERNEL_NOISE:
		return !cpumask_test_cpu(cpu, &tickless);
	default:
		return false;
	}
}

/* Helpers run only where the caller may run, and on no isolated or tickless CPU. */
static void helpers_of_housekeeping_cpus(struct kunit *test)
{
	struct cpumask *allowed = kunit_kzalloc(test, sizeof(*allowed), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, allowed);
	cpumask_clear(&isolated);
	cpumask_clear(&tickless);
	kunit_activate_static_stub(test, mtcopy_housekeeping, housekeeping_of_test);

	KUNIT_EXPECT_FALSE(test, mtcopy_may_ask(0, allowed));
	cpumask_set_cpu(0, allowed);
	KUNIT_EXPECT_TRUE(test, mtcopy_may_ask(0, allowed));
	cpumask_set_cpu(0, &isolated);
	KUNIT_EXPECT_FALSE(test, mtcopy_may_ask(0, allowed));
	cpumask_clear(&isolated);
	cpumask_set_cpu(0, &tickless);
	KUNIT_EXPECT_FALSE(test, mtcopy_may_ask(0, allowed));
	cpumask_clear(&tickless);
	KUNIT_EXPECT_TRUE(test, mtcopy_may_ask(0, allowed));
}

/* The folios of one batch: some are cut, some are whole pieces, some are grouped. */
static const unsigned int batch_orders[] = { 7, 0, 2, 2, 6, 0 };

#define NR_BATCH	ARRAY_SIZE(batch_orders)
#define POISONED	2

struct batch_test {
	struct migrate_copy_batch batch;
	struct mtcopy_job job;
};

static struct page *poisoned;

static int copy_unless_poisoned(struct page *dst, struct page *src,
				unsigned int nr_pages)
{
	if (poisoned >= src && poisoned < src + nr_pages)
		return -EHWPOISON;
	while (nr_pages--)
		copy_highpage(dst++, src++);
	return 0;
}

static void put_folio(void *folio)
{
	folio_put(folio);
}

static struct folio *get_folio(struct kunit *test, unsigned int order, u8 fill)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_folio, folio));
	memset(folio_address(folio), fill, folio_size(folio));
	return folio;
}

static struct batch_test *make_batch(struct kunit *test)
{
	struct batch_test *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, b);
	for (i = 0; i < NR_BATCH; i++) {
		struct migrate_copy_pair *pair = &b->batch.pairs[i];

		pair->src = get_folio(test, batch_orders[i], i + 1);
		pair->dst = get_folio(test, batch_orders[i], 0xee);
		b->batch.nr_pages += 1U << batch_orders[i];
	}
	b->batch.nr_pairs = NR_BATCH;
	b->job.nr_helpers = 1;
	mtcopy_fill(&b->job, &b->batch);
	return b;
}

static void check_copied(struct kunit *test, const struct migrate_copy_pair *pair)
{
	KUNIT_EXPECT_EQ(test, pair->status, MIGRATE_COPY_DONE);
	KUNIT_EXPECT_MEMEQ(test, folio_address(pair->dst), folio_address(pair->src),
			   folio_size(pair->src));
}

/* Poison fails its own folio, and no other folio of the same piece. */
static void poison_fails_one_folio(struct kunit *test)
{
	struct batch_test *b = make_batch(test);
	struct mtcopy_piece piece;
	unsigned int i;

	poisoned = folio_page(b->batch.pairs[POISONED].src, 3);
	kunit_activate_static_stub(test, mtcopy_copy_range, copy_unless_poisoned);
	while (mtcopy_take(&b->job, &piece))
		mtcopy_copy(&b->job, &piece);
	mtcopy_report(&b->job, &b->batch);

	for (i = 0; i < NR_BATCH; i++) {
		if (i == POISONED)
			KUNIT_EXPECT_EQ(test, b->batch.pairs[i].status, MIGRATE_COPY_ERROR);
		else
			check_copied(test, &b->batch.pairs[i]);
	}
}

/* A folio is lost if any piece of it was taken and never copied. */
static void unfinished_folios_are_lost(struct kunit *test)
{
	struct batch_test *b = make_batch(test);
	struct mtcopy_piece piece, lost;
	unsigned int i;

	KUNIT_ASSERT_TRUE(test, mtcopy_take(&b->job, &lost));
	while (mtcopy_take(&b->job, &piece))
		mtcopy_copy(&b->job, &piece);
	mtcopy_report(&b->job, &b->batch);

	KUNIT_EXPECT_LT(test, lost.nr_pages, 1U << batch_orders[0]);
	KUNIT_EXPECT_EQ(test, b->batch.pairs[0].status, MIGRATE_COPY_LOST);
	for (i = 1; i < NR_BATCH; i++)
		check_copied(test, &b->batch.pairs[i]);

	/* The late helper finishes after all. */
	mtcopy_copy(&b->job, &lost);
	KUNIT_EXPECT_FALSE(test, mtcopy_take(&b->job, &piece));
	mtcopy_report(&b->job, &b->batch);
	check_copied(test, &b->batch.pairs[0]);
}

static struct kunit_case mtcopy_test_cases[] = {
	KUNIT_CASE(cut_one_large_folio),
	KUNIT_CASE(cut_small_folios),
	KUNIT_CASE(cut_mixed_folios),
	KUNIT_CASE(cut_random_batches),
	KUNIT_CASE(end_reads_nothing),
	KUNIT_CASE(threads_for_their_share),
	KUNIT_CASE(several_pieces_a_thread),
	KUNIT_CASE(helpers_that_pay_are_asked),
	KUNIT_CASE(helpers_that_cost_time_are_not_asked),
	KUNIT_CASE(helpers_pay_from_a_sixteenth),
	KUNIT_CASE(gain_comes_and_goes),
	KUNIT_CASE(odd_batches_hardly_matter),
	KUNIT_CASE(trial_waits_for_a_helper),
	KUNIT_CASE(helpers_of_housekeeping_cpus),
	KUNIT_CASE(poison_fails_one_folio),
	KUNIT_CASE(unfinished_folios_are_lost),
	{}
};

static struct kunit_suite mtcopy_test_suite = {
	.name = "mtcopy",
	.init = mtcopy_test_init,
	.test_cases = mtcopy_test_cases,
};

kunit_test_suite(mtcopy_test_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests for mtcopy");
MODULE_LICENSE("GPL");
