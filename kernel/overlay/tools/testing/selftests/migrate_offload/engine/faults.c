// SPDX-License-Identifier: GPL-2.0
/*
 * Every fault that dmasim knows: no byte may be lost, the CPU must copy what the engine did not,
 * under the right cause, nothing may leak, and the engine must be of use again afterwards.
 * terminate_error is for good and has its own program, quarantine.
 */
#include "run.h"

#define TIMEOUT		300

/* Time-out of a batch where it is to strike, and where it must not. */
#define SHORT_MS	100
#define LONG_MS		ENGINE_LONG_MS
#define LATE_MS		1000
/* A debug kernel needs some of it for what is not late. */
#define SHORT_DEBUG_MS	150
/* Pairs of faults are many. */
#define PAIR_SHORT_MS	40
#define PAIR_LATE_MS	90
/* Both strike by then. */
#define PAIR_MOVES_MAX	100
/* Fewer folios than this may all be lucky at 10 %. */
#define ENOUGH_FOLIOS	128

FIXTURE(fault) { };

FIXTURE_VARIANT(fault)
{
	const char *fault;
	unsigned int probability;
	/* Counters of what the CPU copied, by the beginning of their names; NULL: none. */
	const char *cause;
	int timeout_ms;
	/* Parameters of dcbm, besides the usual ones. */
	const char *migrator;
};

#define FAULT_VARIANT(name, what, percent, because, ms, ...)				\
	FIXTURE_VARIANT_ADD(fault, name) { #what, percent, because, ms, "" __VA_ARGS__ }

#define FAULT_VARIANTS(what, cause_rarely, cause_always, ms)			\
	FAULT_VARIANT(what##_rarely, what, 10, cause_rarely, ms);	\
	FAULT_VARIANT(what##_always, what, 100, cause_always, ms)

/* A prep that fails now and then means: submit, wait, continue. */
FAULT_VARIANTS(prep_null, NULL, "fallback_", LONG_MS);
FAULT_VARIANTS(submit_error, "fallback_error", "fallback_error", LONG_MS);
FAULT_VARIANTS(result_error, "fallback_error", "fallback_error", LONG_MS);
FAULT_VARIANTS(status_error, "fallback_error", "fallback_error", LONG_MS);
FAULT_VARIANTS(short_copy, "fallback_error", "fallback_error", LONG_MS);
FAULT_VARIANTS(never_complete, "fallback_timeout", "fallback_timeout", SHORT_MS);
FAULT_VARIANTS(late, "fallback_timeout", "fallback_timeout", SHORT_MS);

/* Those that strike always would leave the order as it is. */
FAULT_VARIANT(out_of_order_rarely, out_of_order, 10, NULL, LONG_MS);
FAULT_VARIANT(out_of_order_often, out_of_order, 50, NULL, LONG_MS);
/* Many segments a folio: one that fails is enough. */
#define SEGMENTS	"segment_bytes=16384"
FAULT_VARIANT(segments_short, short_copy, 10, "fallback_error", LONG_MS, SEGMENTS);
FAULT_VARIANT(segments_never, never_complete, 10, "fallback_timeout", SHORT_MS, SEGMENTS);
FAULT_VARIANT(segments_order, out_of_order, 50, NULL, LONG_MS, SEGMENTS);

static bool load(const FIXTURE_VARIANT(fault) *variant)
{
	return engine_load("channels=4 ring_depth=64", variant->migrator);
}

FIXTURE_SETUP(fault)
{
	if (!run_begin(_metadata))
		return;
	ASSERT_TRUE(load(variant));
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
}

FIXTURE_TEARDOWN(fault) { run_end(); }

/* Channels that time out again and again are quarantined; loading dcbm anew has them back. */
static void no_faults(const FIXTURE_VARIANT(fault) *variant)
{
	engine_clear_faults();
	if (variant->timeout_ms == SHORT_MS) {
		ASSERT_EQ(module_unload("dcbm"), 0);
		ASSERT_TRUE(load(variant));
	}
	ASSERT_EQ(engine_set_timeout(LONG_MS), 0);
}

static void inject(const FIXTURE_VARIANT(fault) *variant)
{
	bool longer = variant->timeout_ms == SHORT_MS && debug_kernel();

	no_faults(variant);
	ASSERT_EQ(engine_set_timeout(longer ? SHORT_DEBUG_MS : variant->timeout_ms), 0);
	ASSERT_EQ(engine_set_fault(variant->fault, variant->probability), 0);
}

static void check_causes(const FIXTURE_VARIANT(fault) *variant, uint64_t folios)
{
	uint64_t copied = offload_grown("folios_copied");
	uint64_t failed = offload_grown("fallback_");
	uint64_t caused = variant->cause ? offload_grown(variant->cause) : 0;

	/* All channels may have been terminated in the batch before. */
	if (variant->timeout_ms == SHORT_MS)
		caused += offload_grown("fallback_busy");

	/* None under another cause, and each folio once. */
	EXPECT_EQ(failed, caused)
		offload_show_grown();
	EXPECT_EQ(copied + failed, folios);
	if (variant->probability == 100 && variant->cause) {
		EXPECT_EQ(copied, 0);
	} else if (variant->cause && folios >= ENOUGH_FOLIOS) {
		EXPECT_GT(copied, 0);
		EXPECT_GT(failed, 0);
	}
}

static void move_in_time(int node)
{
	double begin = seconds_now();

	move_anew(node);
	/* Bounded, whatever happens: far more than all batches may take. */
	if (times_count())
		EXPECT_LT(seconds_now() - begin, debug_kernel() ? 120 : 60);
}

static void both_ways(const FIXTURE_VARIANT(fault) *variant, enum area_kind kind, size_t size)
{
	create_area(kind, debug_kernel() ? size / 2 : size);
	for (unsigned int i = 0; i < 2; i++) {
		inject(variant);
		move_in_time(nodes[1 - i]);
		check_causes(variant, area_folios(&area));
	}

	/* Copies that were not stopped would land on the new contents. */
	if (!strcmp(variant->fault, "late")) {
		area_stamp(&area, area.seed + 1);
		usleep(1500 * LATE_MS);
		EXPECT_EQ(area_wrong(&area), 0);
	}

	no_faults(variant);
	move_in_time(nodes[1]);
	expect_copies(area_folios(&area), "fallback_", 0);
}

#define BOTH_WAYS(name, kind, size)						\
	TEST_F_TIMEOUT(fault, name, TIMEOUT) { both_ways(variant, kind, size); }

BOTH_WAYS(anon_4k, AREA_ANON_4K, 4 * MIB)
BOTH_WAYS(anon_64k, AREA_ANON_64K, 8 * MIB)
BOTH_WAYS(anon_2m, AREA_ANON_2M, 8 * MIB)
BOTH_WAYS(shmem, AREA_SHMEM, 4 * MIB)

/* Many small batches: not even one in two of them may forget a page. */
TEST_F_TIMEOUT(fault, leak, TIMEOUT)
{
	const unsigned int moves = 40;

	create_area(AREA_ANON_4K, 64 * KIB);
	inject(variant);
	/* Where it strikes, it may as well strike at once. */
	ASSERT_EQ(engine_set_timeout(variant->timeout_ms == SHORT_MS ? 1 : variant->timeout_ms), 0);
	EXPECT_LT(pages_leaked(&area, nodes, moves), moves / 2);
	EXPECT_EQ(area_wrong(&area), 0);
}

/* Each pair of faults, since one may hide the other. */
FIXTURE(pairs) { };
FIXTURE_VARIANT(pairs) { enum area_kind kind; size_t size; };
FIXTURE_VARIANT_ADD(pairs, small) { AREA_ANON_4K, 256 * KIB };
FIXTURE_VARIANT_ADD(pairs, large) { AREA_ANON_64K, 1 * MIB };

FIXTURE_SETUP(pairs)
{
	if (!run_begin(_metadata))
		return;
	/* The area just fills the rings where each page is a segment. */
	ASSERT_TRUE(engine_load("channels=4 ring_depth=16", "segment_bytes=16384"));
	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", PAIR_LATE_MS), 0);
	create_area(variant->kind, variant->size);
}

FIXTURE_TEARDOWN(pairs) { run_end(); }

static bool strikes_by_time(const char *fault)
{
	return !strcmp(fault, "never_complete") || !strcmp(fault, "late");
}

/* Contents change with each move: a page that was not copied cannot hold them by chance. */
static size_t stamp_and_move(void)
{
	area_stamp(&area, area.seed + 1);
	area_move(&area, nodes[(area.seed + 1) % 2]);
	return area_wrong(&area);
}

static void one_pair(const char *first, const char *second)
{
	const bool by_time = strikes_by_time(first) || strikes_by_time(second);
	const unsigned int moves = by_time ? 2 : 12;
	long strikes[2] = { 0 };
	size_t wrong = 0;
	unsigned int i;

	offload_mark();
	ASSERT_EQ(engine_set_timeout(by_time ? PAIR_SHORT_MS : LONG_MS), 0);
	for (i = 0; i < moves || (i < PAIR_MOVES_MAX && (!strikes[0] || !strikes[1])); i++) {
		/* Often enough to meet, and rarely enough for something to be copied. */
		ASSERT_EQ(engine_set_fault(first, 30), 0);
		ASSERT_EQ(engine_set_fault(second, strcmp(second, "call_twice") ? 30 : 100), 0);
		wrong += stamp_and_move();
		strikes[0] += engine_fault_strikes(first);
		strikes[1] += engine_fault_strikes(second);
		engine_clear_faults();
	}
	EXPECT_EQ(wrong, 0)
		TH_LOG("%s and %s", first, second);
	EXPECT_GT(strikes[0], 0)
		TH_LOG("%s never struck beside %s", first, second);
	EXPECT_GT(strikes[1], 0)
		TH_LOG("%s never struck beside %s", second, first);
	EXPECT_EQ(offload_grown("folios_copied") + offload_grown("fallback_"),
		  i * area_folios(&area))
		TH_LOG("%s and %s", first, second);
	EXPECT_EQ(offload_grown("fallback_lost"), 0);

	ASSERT_EQ(engine_set_timeout(LONG_MS), 0);
	offload_mark();
	EXPECT_EQ(stamp_and_move(), 0);
	EXPECT_EQ(offload_grown("folios_copied"), area_folios(&area))
		offload_show_grown();
}

TEST_F_TIMEOUT(pairs, every_pair, TIMEOUT)
{
	for (unsigned int i = 0; engine_faults[i]; i++)
		for (unsigned int j = i + 1; engine_faults[j]; j++)
			one_pair(engine_faults[i], engine_faults[j]);
}

FIXTURE(all_faults) { };

FIXTURE_SETUP(all_faults)
{
	if (run_begin(_metadata))
		ASSERT_TRUE(engine_load("channels=4 ring_depth=64", ""));
}

FIXTURE_TEARDOWN(all_faults)
{
	run_end();
	EXPECT_EQ(kmemleak_found(), 0);
}

#define FAULTY_MOVES	400

TEST_F_TIMEOUT(all_faults, concurrent_movers, TIMEOUT)
{
	const unsigned int probability = 5;

	ASSERT_EQ(setting_write_number(DMASIM_PARAMETERS "late_ms", LATE_MS), 0);
	set_latency(20000);
	ASSERT_EQ(engine_set_timeout(SHORT_MS), 0);
	TH_LOG("probability %u of each fault, late_ms %d, latency_ns 20000, timeout_ms %d",
	       probability, LATE_MS, SHORT_MS);

	begin_load(4 * MIB);
	for (int i = 0; engine_faults[i]; i++)
		EXPECT_EQ(engine_set_fault(engine_faults[i], probability), 0);
	movers_wait(FAULTY_MOVES);
	end_load(0);
	engine_clear_faults();
	EXPECT_GT(offload_grown("folios_copied"), 0);
	EXPECT_GT(offload_grown("fallback_error"), 0);
	EXPECT_GT(offload_grown("fallback_timeout"), 0);
}

TEST_HARNESS_MAIN
