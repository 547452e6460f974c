// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for dmasim: when the modelled engine is done with what it has to
 * do. The times that are expected follow from the bandwidths alone.
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/time64.h>

#include "dmasim_model.h"

/* Some time after boot */
#define BEGIN		1234567890123ULL
#define MAX_JOBS	DMASIM_MAX_CHANNELS

struct dmasim_test {
	struct dmasim_model model;
	struct dmasim_job jobs[MAX_JOBS];
};

/* Bandwidth grows with the number of active channels, but not in proportion. */
static const unsigned int shared[] = { 1000, 1600, 2100 };
static const unsigned int flat[] = { 1000 };

static void engine(struct kunit *test, const unsigned int *total_mbps,
		   unsigned int nr_total_mbps)
{
	struct dmasim_test *ctx = test->priv;

	dmasim_model_init(&ctx->model, total_mbps, nr_total_mbps);
	KUNIT_ASSERT_NULL(test, dmasim_model_run(&ctx->model, BEGIN));
}

static void start(struct kunit *test, unsigned int job, u64 fixed_ns, u32 bytes)
{
	struct dmasim_test *ctx = test->priv;

	dmasim_model_start(&ctx->model, &ctx->jobs[job], fixed_ns, bytes);
}

/* Nothing is done until @ns after the beginning; run the model until then. */
static void expect_nothing_until(struct kunit *test, u64 ns)
{
	struct dmasim_test *ctx = test->priv;

	KUNIT_EXPECT_NULL(test, dmasim_model_run(&ctx->model, BEGIN + ns));
	KUNIT_EXPECT_EQ(test, ctx->model.now, BEGIN + ns);
}

/* The next one that is done is @job, @ns after the beginning. */
static void expect_done(struct kunit *test, unsigned int job, u64 ns)
{
	struct dmasim_test *ctx = test->priv;
	struct dmasim_job *done = dmasim_model_run(&ctx->model, U64_MAX - 1);

	KUNIT_ASSERT_NOT_NULL(test, done);
	KUNIT_EXPECT_EQ(test, done - ctx->jobs, job);
	KUNIT_EXPECT_EQ(test, ctx->model.now - BEGIN, ns);
}

static void expect_idle(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;

	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			DMASIM_NEVER_DONE);
	KUNIT_EXPECT_EQ(test, ctx->model.nr_active, 0);
}

static void one_channel(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;

	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 0, 4096);
	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			BEGIN + 4096);
	expect_nothing_until(test, 4095);
	expect_done(test, 0, 4096);
	expect_idle(test);
}

/* Done in the first ns in which the last byte is there: never early. */
static void time_is_rounded_up(struct kunit *test)
{
	static const unsigned int odd[] = { 13900 };

	engine(test, odd, ARRAY_SIZE(odd));
	start(test, 0, 0, 4096);
	/* 294.67 ns */
	expect_done(test, 0, 295);
	start(test, 1, 0, 139);
	/* 10 ns sharp */
	expect_done(test, 1, 305);
}

static void fixed_time_comes_first(struct kunit *test)
{
	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 740, 1000);
	expect_nothing_until(test, 700);
	expect_nothing_until(test, 1500);
	expect_done(test, 0, 740 + 1000);
	start(test, 1, 500, 0);
	expect_done(test, 1, 1740 + 500);
	expect_idle(test);
}

static void fixed_time_takes_no_bandwidth(struct kunit *test)
{
	engine(test, flat, ARRAY_SIZE(flat));
	start(test, 0, 0, 1000);
	start(test, 1, 1000, 1000);
	expect_done(test, 0, 1000);
	expect_done(test, 1, 2000);
}

static void fixed_times_in_any_order(struct kunit *test)
{
	engine(test, NULL, 0);
	start(test, 0, 3000, 0);
	start(test, 1, 1000, 0);
	start(test, 2, 2000, 0);
	start(test, 3, 2000, 0);
	expect_done(test, 1, 1000);
	expect_done(test, 2, 2000);
	expect_done(test, 3, 2000);
	expect_done(test, 0, 3000);
}

static void channels_share_equally(struct kunit *test)
{
	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 0, 8000);
	start(test, 1, 0, 8000);
	/* 800 MB/s each */
	expect_done(test, 0, 10000);
	expect_done(test, 1, 10000);
	expect_idle(test);
}

/* Until a channel starts, the others proceed at the old rate. */
static void channel_comes_and_goes(struct kunit *test)
{
	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 0, 10000);
	expect_nothing_until(test, 4000);
	start(test, 1, 0, 3000);
	/* 6000 bytes are left of job 0, and both have 800 MB/s */
	expect_done(test, 1, 4000 + 3750);
	/* 3000 bytes are left, at 1000 MB/s again */
	expect_done(test, 0, 7750 + 3000);
}

static void shorter_job_overtakes(struct kunit *test)
{
	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 0, 7000);
	start(test, 1, 0, 1400);
	start(test, 2, 0, 3000);
	/* 700 MB/s each */
	expect_done(test, 1, 2000);
	/* 800 MB/s each for the 1600 bytes left */
	expect_done(test, 2, 4000);
	/* 1000 MB/s for the 4000 bytes left */
	expect_done(test, 0, 8000);
}

static void cancelled_job_leaves_bandwidth(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;

	engine(test, shared, ARRAY_SIZE(shared));
	start(test, 0, 0, 10000);
	start(test, 1, 0, 50000);
	start(test, 2, 500000, 1);
	expect_nothing_until(test, 5000);
	dmasim_model_cancel(&ctx->model, &ctx->jobs[1]);
	dmasim_model_cancel(&ctx->model, &ctx->jobs[1]);
	dmasim_model_cancel(&ctx->model, &ctx->jobs[2]);
	dmasim_model_cancel(&ctx->model, &ctx->jobs[3]);
	/* 4000 bytes at 800 MB/s, 6000 at 1000 */
	expect_done(test, 0, 5000 + 6000);
	expect_idle(test);
}

/* The last entry holds for more channels, and is shared by all of them. */
static void more_channels_than_entries(struct kunit *test)
{
	unsigned int i;

	engine(test, shared, ARRAY_SIZE(shared));
	for (i = 0; i < 7; i++)
		start(test, i, 0, 3000);
	for (i = 0; i < 7; i++)
		expect_done(test, i, 10000);
}

static void channel_has_a_limit(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;

	engine(test, flat, ARRAY_SIZE(flat));
	ctx->model.channel_mbps = 400;
	start(test, 0, 0, 4000);
	start(test, 1, 0, 8000);
	/* 400 MB/s each, and not 500 */
	expect_done(test, 0, 10000);
	start(test, 2, 0, 1000);
	start(test, 3, 0, 1000);
	/* 333.3 MB/s each, and not 400; 3000 bytes are left of job 1 */
	expect_done(test, 2, 13000);
	expect_done(test, 3, 13000);
	expect_done(test, 1, 13000 + 7500);

	engine(test, NULL, 0);
	ctx->model.channel_mbps = 100;
	start(test, 0, 0, 1000);
	start(test, 1, 0, 1000);
	expect_done(test, 0, 10000);
	expect_done(test, 1, 10000);
}

/* A job is done later if others become active meanwhile. */
static void looks_ahead(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;

	engine(test, flat, ARRAY_SIZE(flat));
	start(test, 0, 0, 2000);
	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			BEGIN + 2000);
	start(test, 1, 2000, 1);
	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			BEGIN + 2000);
	start(test, 2, 1000, 2000);
	/* the byte of job 1 takes 3 ns by now */
	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			BEGIN + 2003);
	start(test, 3, 1500, 100);
	/* 1000 ns alone, 500 ns with one more, and then with two more */
	KUNIT_EXPECT_EQ(test, dmasim_model_next_done(&ctx->model),
			BEGIN + 1800);
	expect_done(test, 3, 1800);
}

/* No job is done sooner than alone, nor does it make an earlier one faster. */
static void no_sooner_than_alone(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;
	u64 soonest[8], first = DMASIM_NEVER_DONE;
	struct dmasim_job *done;
	unsigned int i;

	engine(test, shared, ARRAY_SIZE(shared));
	for (i = 0; i < ARRAY_SIZE(soonest); i++) {
		const u32 bytes = 9000 - 1000 * i;

		soonest[i] = dmasim_model_soonest(&ctx->model, 100 * i, bytes);
		KUNIT_EXPECT_EQ(test, soonest[i],
				ctx->model.now + 100 * i + bytes);
		start(test, i, 100 * i, bytes);
		KUNIT_EXPECT_GE(test, dmasim_model_next_done(&ctx->model),
				min(first, soonest[i]));
		first = dmasim_model_next_done(&ctx->model);
		expect_nothing_until(test, 50 * (i + 1));
	}
	while ((done = dmasim_model_run(&ctx->model, U64_MAX - 1)))
		KUNIT_EXPECT_GE(test, ctx->model.now,
				soonest[done - ctx->jobs]);
}

/* If a second channel makes the first one faster, there is no lower bound. */
static void company_may_help(struct kunit *test)
{
	static const unsigned int steep[] = { 1000, 2001 };
	static const unsigned int even[] = { 1000, 2000 };
	struct dmasim_test *ctx = test->priv;

	engine(test, steep, ARRAY_SIZE(steep));
	KUNIT_EXPECT_EQ(test, 0, dmasim_model_soonest(&ctx->model, 100, 1000));
	engine(test, even, ARRAY_SIZE(even));
	KUNIT_EXPECT_EQ(test, BEGIN + 1100,
			dmasim_model_soonest(&ctx->model, 100, 1000));
}

/* No limit means 4294967295 MB/s: these bytes take a ns. */
static void no_limit(struct kunit *test)
{
	engine(test, NULL, 0);
	start(test, 0, 70, U32_MAX / 1000);
	expect_done(test, 0, 71);
}

/* A late interrupt finds all finished jobs, each with its own time. */
static void late_look(struct kunit *test)
{
	struct dmasim_test *ctx = test->priv;
	struct dmasim_job *job;
	unsigned int done = 0;

	engine(test, flat, ARRAY_SIZE(flat));
	start(test, 0, 0, 100);
	while ((job = dmasim_model_run(&ctx->model, BEGIN + 1000))) {
		done++;
		KUNIT_EXPECT_EQ(test, ctx->model.now, BEGIN + done * 100);
		dmasim_model_start(&ctx->model, job, 0, 100);
	}
	KUNIT_EXPECT_EQ(test, done, 10);
	KUNIT_EXPECT_EQ(test, ctx->model.now, BEGIN + 1000);

	/* the past has no effect */
	KUNIT_EXPECT_NULL(test, dmasim_model_run(&ctx->model, BEGIN));
	KUNIT_EXPECT_EQ(test, ctx->model.now, BEGIN + 1000);
}

/* The longest jobs on all channels of the slowest engine */
static void nothing_overflows(struct kunit *test)
{
	static const unsigned int slow[] = { 1 };
	static const unsigned int fast[] = { U32_MAX };
	unsigned int i;

	engine(test, slow, ARRAY_SIZE(slow));
	for (i = 0; i < DMASIM_MAX_CHANNELS; i++)
		start(test, i, 0, U32_MAX);
	for (i = 0; i < DMASIM_MAX_CHANNELS; i++)
		expect_done(test, i, 256ULL * U32_MAX * NSEC_PER_USEC);
	expect_idle(test);

	engine(test, fast, ARRAY_SIZE(fast));
	for (i = 0; i < DMASIM_MAX_CHANNELS; i++)
		start(test, i, U32_MAX, U32_MAX);
	for (i = 0; i < DMASIM_MAX_CHANNELS; i++)
		expect_done(test, i, U32_MAX + 256ULL * NSEC_PER_USEC);
}

/*
 * 16 channels, sizes, fixed times and moments of looking at random. With a
 * total that does not depend on the number of channels, an engine that is never
 * idle takes the time that all bytes take one after the other.
 */
static void no_drift(struct kunit *test)
{
	const unsigned int nr_jobs = 20000, nr_channels = 16;
	static const unsigned int total[] = { 71701 };
	struct dmasim_test *ctx = test->priv;
	struct dmasim_job *job;
	u64 bytes = 0, exact, until = BEGIN, end = 0;
	unsigned int i, done = 0;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 7);
	engine(test, total, ARRAY_SIZE(total));
	for (i = 0; i < nr_channels; i++) {
		/* this one is never idle */
		u32 len = i ? 1 + prandom_u32_state(&rnd) % 100000 : U32_MAX;

		bytes += len;
		start(test, i, 0, len);
	}
	while (ctx->model.nr_active) {
		u64 next = dmasim_model_next_done(&ctx->model);

		until += prandom_u32_state(&rnd) % 2000;
		while ((job = dmasim_model_run(&ctx->model, until))) {
			u32 len = 1 + prandom_u32_state(&rnd) % 100000;

			end = ctx->model.now;
			KUNIT_EXPECT_EQ(test, end, next);
			if (job != &ctx->jobs[0] && done++ < nr_jobs) {
				bytes += len;
				dmasim_model_start(&ctx->model, job,
						   prandom_u32_state(&rnd) % 300,
						   len);
			}
			next = dmasim_model_next_done(&ctx->model);
		}
		KUNIT_EXPECT_GT(test, next, until);
	}
	KUNIT_EXPECT_EQ(test, done, nr_jobs + nr_channels - 1);
	exact = div64_u64(bytes * NSEC_PER_USEC, total[0]);
	/*
	 * Each job may hold its share for less than 1 ns too long. There are
	 * hardly ever fewer than 8 to share. What is lost by changes of the
	 * number of jobs is far less.
	 */
	KUNIT_EXPECT_GE(test, end - BEGIN, exact);
	KUNIT_EXPECT_LE(test, end - BEGIN, exact + done / 8);
}

static int dmasim_test_init(struct kunit *test)
{
	struct dmasim_test *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	unsigned int i;

	if (!ctx)
		return -ENOMEM;

	for (i = 0; i < MAX_JOBS; i++)
		dmasim_job_init(&ctx->jobs[i]);
	test->priv = ctx;
	return 0;
}

static struct kunit_case dmasim_test_cases[] = {
	KUNIT_CASE(one_channel),
	KUNIT_CASE(time_is_rounded_up),
	KUNIT_CASE(fixed_time_comes_first),
	KUNIT_CASE(fixed_time_takes_no_bandwidth),
	KUNIT_CASE(fixed_times_in_any_order),
	KUNIT_CASE(channels_share_equally),
	KUNIT_CASE(channel_comes_and_goes),
	KUNIT_CASE(shorter_job_overtakes),
	KUNIT_CASE(cancelled_job_leaves_bandwidth),
	KUNIT_CASE(more_channels_than_entries),
	KUNIT_CASE(channel_has_a_limit),
	KUNIT_CASE(looks_ahead),
	KUNIT_CASE(no_sooner_than_alone),
	KUNIT_CASE(company_may_help),
	KUNIT_CASE(no_limit),
	KUNIT_CASE(late_look),
	KUNIT_CASE(nothing_overflows),
	KUNIT_CASE(no_drift),
	{}
};

static struct kunit_suite dmasim_test_suite = {
	.name = "dmasim",
	.init = dmasim_test_init,
	.test_cases = dmasim_test_cases,
};

kunit_test_suite(dmasim_test_suite);

MODULE_DESCRIPTION("KUnit tests for dmasim");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
