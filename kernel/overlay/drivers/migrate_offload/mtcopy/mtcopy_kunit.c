// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests for mtcopy: which pages each piece has, when and which helpers it asks, how
 * it waits for them, and what it reports for poisoned and for lost folios.
 */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/jiffies.h>
#include <linux/migrate_offload.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include "mtcopy.h"

/* How long a batch takes alone. */
#define ALONE		100000U

struct history {
	u64 cost;
	unsigned int helped;
};

/*
 * Copy @nr batches in the way that mtcopy chooses. With helpers each takes @percent of the
 * time. Every @odd-th batch takes ten times as long, whichever way it is copied.
 */
static struct history copy_batches(struct mtcopy_trial *trial, unsigned int nr,
				   unsigned int percent, unsigned int odd)
{
	struct history history = { };

	for (unsigned int i = 1; i <= nr; i++) {
		bool helped = mtcopy_pays(trial);
		u64 cost = helped ? ALONE / 100 * percent : ALONE;

		if (odd && i % odd == 0)
			cost *= 10;
		mtcopy_learn(trial, helped, cost);
		history.cost += cost;
		history.helped += helped;
	}
	return history;
}

/* From the first comparison on, but in each of the next. */
static void helpers_that_pay_are_asked(struct kunit *test)
{
	struct mtcopy_trial trial = { };
	unsigned int helped = copy_batches(&trial, 10 * MTCOPY_TRIAL, 93, 0).helped;

	KUNIT_EXPECT_EQ(test, helped, 10 * (MTCOPY_TRIAL - 1));
}

/* The first half of each comparison is all that they cost. A little is not worth a CPU. */
static void helpers_that_cost_time_are_not_asked(struct kunit *test)
{
	static const unsigned int percent[] = { 94, 100, 110, 150, 200 };

	for (unsigned int i = 0; i < ARRAY_SIZE(percent); i++) {
		struct mtcopy_trial trial = { };
		struct history history = copy_batches(&trial, 10 * MTCOPY_TRIAL, percent[i], 0);

		KUNIT_EXPECT_EQ(test, history.helped, 10);
		KUNIT_EXPECT_LE(test, history.cost * 98, 10ULL * MTCOPY_TRIAL * ALONE * 100);
	}
}

static void gain_comes_and_goes(struct kunit *test)
{
	const unsigned int change = (2 * MTCOPY_SCORE + 1) * MTCOPY_TRIAL;
	struct mtcopy_trial trial = { };

	for (unsigned int i = 0; i < 10; i++) {
		copy_batches(&trial, change, 70, 0);
		KUNIT_EXPECT_EQ(test, copy_batches(&trial, MTCOPY_TRIAL, 70, 0).helped,
				MTCOPY_TRIAL - 1);
		copy_batches(&trial, change, 150, 0);
		KUNIT_EXPECT_EQ(test, copy_batches(&trial, MTCOPY_TRIAL, 150, 0).helped, 1);
	}
}

/* One batch in 29 in which the caller lost its CPU says nothing about helpers. */
static void odd_batches_hardly_matter(struct kunit *test)
{
	struct mtcopy_trial trial = { };

	KUNIT_EXPECT_GE(test, copy_batches(&trial, 100 * MTCOPY_TRIAL, 80, 29).helped,
			95 * MTCOPY_TRIAL);
	trial = (struct mtcopy_trial){ };
	KUNIT_EXPECT_LE(test, copy_batches(&trial, 100 * MTCOPY_TRIAL, 110, 29).helped,
			5 * MTCOPY_TRIAL);
}

/* No comparison without helpers: there may be none. */
static void nothing_is_learned_without_helpers(struct kunit *test)
{
	struct mtcopy_trial trial = { .helped = 1 };

	for (unsigned int i = 0; i < 10 * MTCOPY_TRIAL; i++)
		mtcopy_learn(&trial, false, ALONE);
	KUNIT_EXPECT_EQ(test, trial.score, 0);
}

/* CPUs that the administrator excluded from a kind of housekeeping. */
static struct cpumask isolated, tickless;

static bool housekeeping_of_test(unsigned int cpu, enum hk_type type)
{
	if (type == HK_TYPE_DOMAIN)
		return !cpumask_test_cpu(cpu, &isolated);
	return type == HK_TYPE_KERNEL_NOISE && !cpumask_test_cpu(cpu, &tickless);
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

/* Folios are cut, whole pieces, or share one. */
#define NR_BATCH	24
#define MAX_ORDER	7

/* A batch, its job, and a helper that no thread runs. */
struct batch_test {
	struct migrate_offload_batch batch;
	struct mtcopy_job job;
	struct mtcopy_helper helper;
	struct page *poisoned;
	unsigned int copied;	/* pages */
};

static int copy_unless_poisoned(struct page *dst, struct page *src, unsigned int nr_pages)
{
	struct batch_test *b = kunit_get_current_test()->priv;

	b->copied += nr_pages;
	for (unsigned int i = 0; i < nr_pages; i++) {
		if (src + i == b->poisoned)
			return -EHWPOISON;
		copy_highpage(dst + i, src + i);
	}
	return 0;
}

KUNIT_DEFINE_ACTION_WRAPPER(put_folio, folio_put, struct folio *);

static struct folio *get_folio(struct kunit *test, unsigned int order, u8 fill)
{
	struct folio *folio = folio_alloc(GFP_KERNEL, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, put_folio, folio));
	memset(folio_address(folio), fill, folio_size(folio));
	return folio;
}

static struct batch_test *make_batch(struct kunit *test, u64 seed)
{
	struct batch_test *b = kunit_kzalloc(test, sizeof(*b), GFP_KERNEL);
	struct rnd_state rnd;

	KUNIT_ASSERT_NOT_NULL(test, b);
	test->priv = b;
	kunit_activate_static_stub(test, copy_mc_pages, copy_unless_poisoned);
	prandom_seed_state(&rnd, seed);
	for (unsigned int i = 0; i < NR_BATCH; i++) {
		/* The first one has more than one piece. */
		unsigned int order = i ? prandom_u32_state(&rnd) % MAX_ORDER : MAX_ORDER;
		struct migrate_offload_pair *pair = &b->batch.pairs[i];

		pair->src = get_folio(test, order, i + 1);
		pair->dst = get_folio(test, order, 0xee);
		b->batch.nr_pages += 1U << order;
	}
	b->batch.nr_pairs = NR_BATCH;
	mtcopy_fill(&b->job, &b->batch);
	b->helper.job = &b->job;
	atomic_set(&b->helper.state, HELPER_OFFERED);
	return b;
}

static void check_copied(struct kunit *test, unsigned int first)
{
	struct batch_test *b = test->priv;

	for (unsigned int i = first; i < NR_BATCH; i++) {
		const struct migrate_offload_pair *pair = &b->batch.pairs[i];

		KUNIT_EXPECT_EQ(test, pair->status, MIGRATE_OFFLOAD_DONE);
		KUNIT_EXPECT_MEMEQ(test, folio_address(pair->dst), folio_address(pair->src),
				   folio_size(pair->src));
	}
}

/* Each page is copied once, by the caller or by a helper. */
static void each_page_is_in_one_piece(struct kunit *test)
{
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 1);
	for (unsigned int round = 0; round < 20; round++) {
		struct batch_test *b = make_batch(test, round);
		unsigned int nr = 1;

		while (nr) {
			if (prandom_u32_state(&rnd) % 2)
				mtcopy_help(&b->helper);
			nr = mtcopy_copy_piece(&b->job);
			KUNIT_EXPECT_LE(test, nr, MTCOPY_PIECE);
		}
		KUNIT_EXPECT_EQ(test, b->copied, b->batch.nr_pages);
		mtcopy_report(&b->job, &b->batch);
		check_copied(test, 0);
	}
}

/* Poison fails its own folio, and no other folio of the same piece. */
static void poison_fails_one_folio(struct kunit *test)
{
	struct batch_test *b = make_batch(test, 1);

	b->poisoned = folio_page(b->batch.pairs[0].src, 3);
	while (mtcopy_help(&b->helper))
		;
	mtcopy_report(&b->job, &b->batch);
	KUNIT_EXPECT_EQ(test, b->batch.pairs[0].status, MIGRATE_OFFLOAD_ERROR);
	check_copied(test, 1);
}

static void helper_without_a_piece_is_recalled(struct kunit *test)
{
	struct batch_test *b = make_batch(test, 1);

	KUNIT_EXPECT_TRUE(test, mtcopy_help(&b->helper));
	KUNIT_EXPECT_TRUE(test, mtcopy_recall(&b->helper, jiffies));
	KUNIT_EXPECT_EQ(test, atomic_read(&b->helper.state), HELPER_CLAIMED);
	KUNIT_EXPECT_FALSE(test, mtcopy_help(&b->helper));
	KUNIT_EXPECT_EQ(test, b->copied, MTCOPY_PIECE);
}

/* The wait is bounded, and the folio lost, since a helper may still write to it. */
static void helper_with_a_piece_is_lost(struct kunit *test)
{
	struct batch_test *b = make_batch(test, 1);
	const unsigned long start = jiffies;

	/* The helper has taken the first piece. */
	atomic_set(&b->helper.state, HELPER_RUNNING);
	atomic_set(&b->job.next, MTCOPY_PIECE);
	while (mtcopy_copy_piece(&b->job))
		;
	KUNIT_EXPECT_FALSE(test, mtcopy_recall(&b->helper, start + HZ / 10));
	KUNIT_EXPECT_GE(test, jiffies - start, HZ / 10);
	KUNIT_EXPECT_LT(test, jiffies - start, HZ);
	mtcopy_report(&b->job, &b->batch);
	KUNIT_EXPECT_EQ(test, b->batch.pairs[0].status, MIGRATE_OFFLOAD_LOST);
	check_copied(test, 1);

	/* It stays lost. */
	KUNIT_EXPECT_FALSE(test, mtcopy_help(&b->helper));
	KUNIT_EXPECT_EQ(test, atomic_read(&b->helper.state), HELPER_LOST);
}

/* A lost helper that comes back ends its piece, and takes no other. */
static int copy_while_lost(struct page *dst, struct page *src, unsigned int nr_pages)
{
	struct batch_test *b = kunit_get_current_test()->priv;

	atomic_set(&b->helper.state, HELPER_LOST);
	return copy_unless_poisoned(dst, src, nr_pages);
}

static void lost_helper_stays_lost(struct kunit *test)
{
	struct batch_test *b = make_batch(test, 1);

	kunit_activate_static_stub(test, copy_mc_pages, copy_while_lost);
	while (mtcopy_help(&b->helper))
		;
	KUNIT_EXPECT_EQ(test, b->copied, MTCOPY_PIECE);
	KUNIT_EXPECT_EQ(test, atomic_read(&b->helper.state), HELPER_LOST);
}

static struct kunit_case mtcopy_test_cases[] = {
	KUNIT_CASE(helpers_that_pay_are_asked),
	KUNIT_CASE(helpers_that_cost_time_are_not_asked),
	KUNIT_CASE(gain_comes_and_goes),
	KUNIT_CASE(odd_batches_hardly_matter),
	KUNIT_CASE(nothing_is_learned_without_helpers),
	KUNIT_CASE(helpers_of_housekeeping_cpus),
	KUNIT_CASE(each_page_is_in_one_piece),
	KUNIT_CASE(poison_fails_one_folio),
	KUNIT_CASE(helper_without_a_piece_is_recalled),
	KUNIT_CASE(helper_with_a_piece_is_lost),
	KUNIT_CASE(lost_helper_stays_lost),
	{}
};

static struct kunit_suite mtcopy_test_suite = {
	.name = "mtcopy",
	.test_cases = mtcopy_test_cases,
};

kunit_test_suite(mtcopy_test_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests for mtcopy");
MODULE_LICENSE("GPL");
