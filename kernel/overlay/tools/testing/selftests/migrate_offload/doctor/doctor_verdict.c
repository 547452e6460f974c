// SPDX-License-Identifier: GPL-2.0
/* The judge of migrate-offload-doctor, with figures that are made up. */
#include "../../../../mm/migrate_offload_doctor/doctor.h"
#include "kselftest_harness.h"

#define FOLIOS		1000

static const struct options options = { .size = FOLIOS * 2 * MIB };

FIXTURE(verdict) { struct exam *exam; struct engine *engine; };

static struct point *add_at(struct way *way, unsigned int at, double gbps)
{
	struct point *point = &way->point[at];

	*point = (struct point){
		.folio_kib = 2048, .rounds = ROUNDS, .bytes = FOLIOS * 2 * MIB, .copied = FOLIOS,
	};
	for (unsigned int i = 0; i < SAMPLES; i++) {
		point->figure[GBPS][i] = gbps;
		point->figure[CPU_MS][i] = 100;
		point->figure[GBPS_TOUCHED][i] = gbps;
		point->figure[CPU_MS_TOUCHED][i] = 100;
		point->figure[WAIT_US][i] = 1000;
	}
	return point;
}

static struct point *add(struct way *way, double gbps)
{
	return add_at(way, NR_SIZES - 1, gbps);
}

/* With an engine that makes no mistake, and has moved memory. */
FIXTURE_SETUP(verdict)
{
	self->exam = calloc(1, sizeof(*self->exam));
	ASSERT_NE(NULL, self->exam);
	self->exam->options = &options;
	self->exam->nr_engines = 1;
	self->engine = &self->exam->engine[0];
	*self->engine = (struct engine){
		.driver = "engine", .nr_channels = 1, .described = true, .for_memory = 1,
		.stops = true, .tested = true,
	};
	list_ways(self->exam);
	self->exam->moved = true;
	add(&self->exam->way[KERNEL], 10);
}

FIXTURE_TEARDOWN(verdict) { free(self->exam); }

/* Moves by the engine. */
static struct point *measured(FIXTURE_DATA(verdict) *self, double gbps)
{
	return add(&self->exam->way[ENGINES], gbps);
}

static bool says(const FIXTURE_DATA(verdict) *self, const char *text)
{
	return strstr(self->engine->why, text);
}

/* Half of the processor's time, in each move. */
TEST_F(verdict, saves_the_processor)
{
	struct point *point = measured(self, 10);

	for (unsigned int i = 0; i < SAMPLES; i++) {
		judge(self->exam);
		EXPECT_EQ(DO_NOT, self->exam->verdict);
		EXPECT_TRUE(says(self, "It makes no mistake, but"));
		point->figure[CPU_MS][i] = 50;
	}
	judge(self->exam);
	EXPECT_EQ(USE_IT, self->exam->verdict);
	EXPECT_TRUE(says(self, "It makes no mistake, and it pays"));
}

/* A stall in one round does not decide, but speed must be there in each. */
TEST_F(verdict, a_disturbed_round)
{
	struct point *point = measured(self, 12);

	point->figure[WAIT_US][1] = 50000;
	judge(self->exam);
	EXPECT_EQ(USE_IT, self->exam->verdict);
	point->figure[GBPS][2] = 11;
	judge(self->exam);
	EXPECT_EQ(COULD_NOT_TELL, self->exam->verdict);
	EXPECT_TRUE(says(self, "rounds disagree"));
}

/* Waits that differ so decide neither for an engine nor against it; nor do two moves in use. */
TEST_F(verdict, noise)
{
	struct point *point = measured(self, 12);

	for (unsigned int i = 0; i < SAMPLES; i++) {
		point->figure[WAIT_US][i] = i ? 2500 : 20000;
		point->figure[GBPS_TOUCHED][i] = i < 2 ? 8 : 12;
	}
	judge(self->exam);
	EXPECT_EQ(USE_IT, self->exam->verdict);
	EXPECT_TRUE(says(self, "(0.8 to 1.2 in use: moves disagree)"));
	EXPECT_TRUE(says(self, "too noisy to judge waits"));
	point->figure[GBPS_TOUCHED][2] = 8;
	judge(self->exam);
	EXPECT_EQ(COULD_NOT_TELL, self->exam->verdict);
	point->figure[GBPS_TOUCHED][2] = 12;
	point->figure[WAIT_US][0] = 2500;
	judge(self->exam);
	EXPECT_EQ(DO_NOT, self->exam->verdict);
	EXPECT_TRUE(says(self, "the longest wait is 2.5 to 2.5 times as long"));
}

static bool tells(FIXTURE_DATA(verdict) *self, const char *setting)
{
	judge(self->exam);
	for (unsigned int i = 0; i < self->exam->nr_settings; i++)
		if (!strcmp(self->exam->setting[i], setting))
			return true;
	return false;
}

/* The shortest of those that cost less than a tenth; and demotion if all its sizes pay. */
TEST_F(verdict, bound_and_demotion)
{
	static const double gbps[] = { 17.9, 18, 20 };
	struct point *point;

	measured(self, 20);
	for (unsigned int i = 0; i < ARRAY_SIZE(gbps); i++)
		add_at(&self->exam->way[ENGINES], BOUNDS + i, gbps[i])->bound_us = 50 << i;
	EXPECT_TRUE(tells(self, "echo 100 > max_inaccessible_us"));
	EXPECT_TRUE(tells(self, setting_path("echo %d > " DCBM_DIR "/min_order",
					     __builtin_ctzl(2 * MIB / memory_page_size()))));
	for (unsigned int at = NR_SIZES - 2; at < NR_POINTS; at++) {
		add_at(&self->exam->way[KERNEL], at, 10);
		point = add_at(&self->exam->way[ENGINES], at, at < NR_SIZES ? 20 : 10);
		point->folio_kib = at == NR_POINTS - 1 ? 2048 : 64;
		point->copied *= 32;
	}
	EXPECT_FALSE(tells(self, "echo dcbm > routes/demotion"));
	for (unsigned int i = 0; i < SAMPLES; i++)
		point->figure[CPU_MS][i] = 50;
	EXPECT_FALSE(tells(self, "echo dcbm > routes/demotion"));
	for (unsigned int i = 0; i < SAMPLES; i++)
		point[-1].figure[CPU_MS][i] = 50;
	EXPECT_TRUE(tells(self, "echo dcbm > routes/demotion"));
}

/* An engine that writes too late may do so while memory moves in another way. */
TEST_F(verdict, corrupted_by_another)
{
	measured(self, 20);
	add(&self->exam->way[MTCOPY], 20)->errors = 1;
	judge(self->exam);
	EXPECT_EQ(USE_IT, self->exam->verdict);
	for (unsigned int way = KERNEL; way < ENGINES; way++) {
		add_at(&self->exam->way[way], 0, 10)->bytes_wrong = 1;
		judge(self->exam);
		EXPECT_EQ(COULD_NOT_TELL, self->exam->verdict);
		EXPECT_EQ(0, self->exam->nr_settings);
		EXPECT_TRUE(says(self, "an engine wrote too late"));
		self->exam->way[way].point[0].bytes_wrong = 0;
	}
}

/* Folios that the CPU copied are no merit of the engine. */
TEST_F(verdict, left_to_the_cpu)
{
	struct point *point = measured(self, 20);

	point->copied = FOLIOS * 9 / 10;
	judge(self->exam);
	EXPECT_EQ(USE_IT, self->exam->verdict);
	point->copied--;
	judge(self->exam);
	EXPECT_EQ(DO_NOT, self->exam->verdict);
	EXPECT_TRUE(says(self, "to the CPU: 101 of 1000."));
	point->unreachable = 77;
	judge(self->exam);
	EXPECT_TRUE(says(self, "101 of 1000, 77 because the engine cannot"));
}

/* Only what migrates long lists gets a route, and all that is told is an order of the shell. */
TEST_F(verdict, routes)
{
	const char *text;
	unsigned int providers = 0, routes = 0, others = 0;

	measured(self, 20);
	judge(self->exam);
	ASSERT_LT(0, self->exam->nr_settings);
	for (unsigned int i = 0; i < self->exam->nr_settings; i++) {
		text = self->exam->setting[i];
		printf("# %s\n", text);
		providers += !strcmp(text, "echo engine > " DCBM_DIR "/providers");
		routes += !!strstr(text, "routes/");
		others += strstr(text, "demotion") || strstr(text, "compaction") ||
			  strstr(text, "contig_range") || strstr(text, "numa_misplaced");
	}
	EXPECT_EQ(1, providers);
	EXPECT_EQ(4, routes);
	EXPECT_EQ(0, others);
	EXPECT_EQ(0, strcmp("echo 1 > enabled", text));
}

TEST_HARNESS_MAIN
