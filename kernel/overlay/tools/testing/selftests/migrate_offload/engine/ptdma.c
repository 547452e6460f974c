// SPDX-License-Identifier: GPL-2.0
/*
 * PTDMA, and other engines that have a model, with the drivers that are in the tree: promises of
 * the drivers to any client, with dmatest, and copies by dcbm.
 *
 * Needs QEMU's models.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "run.h"
#include "window.h"

#define TIMEOUT		900

FIXTURE(ptdma) { };

/* False, with the reason why the test is skipped, if the machine is not one for it. */
static bool set_up(struct __test_metadata *metadata)
{
	_metadata = metadata;
	if (!engine_model())
		SKIP(return false, "the engine is %s", engine_module());
	/* AE4DMA's driver loads PTDMA's, which maps rings, and stays: count mappings afterwards. */
	ASSERT_EQ(engine_load_module(""), 0);
	if (!run_begin(metadata))
		return false;
	/* run_begin() has unloaded it. */
	ASSERT_EQ(engine_load_module(""), 0);
	ASSERT_TRUE(window_map());
	return true;
}

static void tear_down(void)
{
	window_end_faults();
	for (enum knob knob = RUN_DROPS_WHEN_EMPTY; knob < NO_POWER_US; knob++)
		window_set(knob, 0);
	EXPECT_TRUE(window_wait_until_idle());
	run_end();
	window_unmap();
}

FIXTURE_SETUP(ptdma)
{
	set_up(_metadata);
}

FIXTURE_TEARDOWN(ptdma)
{
	tear_down();
}

/* The value of a register is on its way for a while, in which others change the register. */
TEST_F_TIMEOUT(ptdma, registers_are_slow, TIMEOUT)
{
	int fd = open(setting_path("/sys/bus/pci/devices/%s/resource%u", window.device[0].name,
				   engine_is("ptdma") ? 2 : 0), O_RDWR | O_SYNC);
	volatile uint32_t *registers = mmap(NULL, memory_page_size(), PROT_READ, MAP_SHARED, fd, 0);
	double before;

	if (!times_count())
		SKIP(return, "only in virtual time");
	ASSERT_NE(registers, MAP_FAILED);
	window_set(ACCESS_US, 500);
	before = seconds_now();
	(void)*registers;
	EXPECT_GE(seconds_now() - before, 0.0005);
}

/*
 * Threads that ask for the status of their transfer while another one is in flight, and while
 * the interrupt handler reads and acknowledges the same status.
 */
TEST_F_TIMEOUT(ptdma, asked_while_it_completes, TIMEOUT)
{
	/* A descriptor takes long enough to be seen half done. */
	window_set(MBPS, 20);
	/* The value of a register may be old when it comes. */
	window_set(ACCESS_US, 100);
	EXPECT_EQ(engine_dmatest("threads_per_chan=4 max_channels=2 iterations=50 timeout=20000"),
		  0);
}

/* Descriptors of 64 KB, which take 65 ms where a byte takes a microsecond. */
#define SLOW		"max_channels=1 iterations=1 norandom=1 test_buf_size=65536 "
#define SOME_SLOW	SLOW "noverify=1 "

/* More than the ring has room for, on every channel. */
TEST_F_TIMEOUT(ptdma, everything_issued_is_started, TIMEOUT)
{
	EXPECT_EQ(engine_dmatest("threads_per_chan=8 iterations=20 timeout=20000"), 0);
	/* Without an interrupt; dmatest does not poll DSA. */
	EXPECT_EQ(engine_dmatest("iterations=20 polled=1"), 0);
	/* 65 ms each, so that the ring gets full; a queue of DSA takes 16. */
	window_set(MBPS, 1);
	EXPECT_EQ(engine_dmatest(engine_is("idxd") ? SLOW "threads_per_chan=16 timeout=20000" :
					     SLOW "threads_per_chan=40 timeout=20000"), 0);
}

/* A client that terminates, and then frees its buffers: no queue writes to them any more. */
static void give_up(void)
{
	window_set(MBPS, 1);
	/* Long enough for all threads to have submitted: terminating frees what they have not. */
	EXPECT_TRUE(engine_dmatest_gives_up(engine_is("ptdma") ?
					    SOME_SLOW "threads_per_chan=4 timeout=100" :
					    SOME_SLOW "timeout=10"));
	EXPECT_EQ(window_sum(BUSY), 0);
	window_end_faults();
}

/*
 * dmatest gives up, and frees its buffers after terminating. An engine ends what it got, which is
 * to be less than what the driver waits for.
 */
TEST_F_TIMEOUT(ptdma, terminate_waits, TIMEOUT)
{
	if (!engine_model()->terminates)
		SKIP(return, "%s does not terminate", engine_module());
	/* A device that does not answer in time is not one that is gone. */
	for (unsigned int out = 0; out < 2; out++) {
		window_set(READS_TIME_OUT, out);
		give_up();
	}
	/* A ring with a descriptor without a waiter completes each with the one before it. */
	window_set(MBPS, 20);
	EXPECT_EQ(engine_dmatest("threads_per_chan=4 iterations=20 timeout=20000"), 0);
}

/*
 * An engine that does not stop in time keeps its descriptors, and works again once it did. The
 * descriptor ends with an error and not a byte more: dmatest has freed its buffers.
 */
TEST_F_TIMEOUT(ptdma, terminate_gives_up, TIMEOUT)
{
	if (!engine_model()->terminates)
		SKIP(return, "%s does not terminate", engine_module());
	window_set(ERROR_CODE, engine_model()->error);
	window_set(ERROR_EVERY, 1);
	window_set(HANG_EVERY, 1);
	EXPECT_GT(engine_dmatest(SOME_SLOW "timeout=10"), 0);
	EXPECT_GT(window_sum(BUSY), 0);
	EXPECT_GT(engine_dmatest(SOME_SLOW "timeout=10"), 0);
	window_end_faults();
	ASSERT_TRUE(window_wait_until_idle());
	EXPECT_EQ(engine_dmatest("iterations=20 timeout=20000"), 0);
}

/* In milliseconds: where nothing may take too long. */
#define LONG_MS		30000

static unsigned int nr_channels(void)
{
	struct engine_channel channels[ENGINE_MAX_CHANNELS];

	return engine_channels(channels);
}

static void begin(int timeout_ms, enum area_kind kind, size_t bytes)
{
	load_with_timeout("", "", timeout_ms);
	create_area(kind, bytes);
	offload_mark();
}

/* There and back, with new contents for each move. */
static void round_trip(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		area_stamp(&area, area.seed + 1);
		EXPECT_EQ(area_move(&area, nodes[1 - i]), 0);
		expect_intact();
	}
}

TEST_F_TIMEOUT(ptdma, every_kind, TIMEOUT)
{
	load_with_timeout("", "", LONG_MS);
	every_kind(8 * MIB);
	EXPECT_GT(window_sum(DESCRIPTORS), 0);
}

/* A work queue of DSA may have a maximum that is shorter than a folio. */
TEST_F_TIMEOUT(ptdma, longer_than_a_queue_takes, TIMEOUT)
{
	if (!engine_is("idxd"))
		SKIP(return, "%s has no such maximum", engine_module());
	ASSERT_TRUE(engine_unload());
	setenv("DSA_MAX_TRANSFER", "65536", 1);
	load_with_timeout("", "", LONG_MS);
	unsetenv("DSA_MAX_TRANSFER");
	create_area(AREA_ANON_2M, 8 * MIB);
	offload_mark();
	round_trip();
	offload_show_grown();
	/* Dcbm is told before it has submitted anything. */
	EXPECT_EQ(offload_grown("fallback_error"), 0);
}

/* Interrupts of two of the descriptors of each device come before their records. */
TEST_F_TIMEOUT(ptdma, late_record, TIMEOUT)
{
	if (!engine_is("idxd"))
		SKIP(return, "%s writes no records", engine_module());
	if (!times_count())
		SKIP(return, "only in virtual time is no late record the last of its queue");
	begin(LONG_MS, AREA_ANON_4K, 4 * MIB);
	window_set(LATE_US, 1);
	/* Of 256: queues have more descriptors, whose interrupts tell of these as well. */
	window_set(LATE_RECORD_EVERY, 100);
	EXPECT_EQ(area_move(&area, nodes[1]), 0);
	window_end_faults();
	expect_intact();
	expect_copies(area_folios(&area), "fallback_", 0);
}

TEST_F_TIMEOUT(ptdma, idle_after_an_error, TIMEOUT)
{
	if (!engine_is("ioatdma"))
		SKIP(return, "%s has no timer", engine_module());
	begin(LONG_MS, AREA_ANON_64K, 4 * MIB);
	window_set(ERROR_CODE, engine_model()->error);
	window_set(ERROR_EVERY, 4);
	round_trip();
	window_end_faults();
	EXPECT_GT(offload_grown("fallback_error"), 0);
	/* More than the time of the driver, which resets a channel in use that has failed. */
	sleep(1);
	EXPECT_EQ(system("dmesg -c >/dev/null"), 0);
	sleep(2);
	EXPECT_NE(system("dmesg | grep 'ioatdma.*Reset channel'"), 0);
}

struct fault {
	const char *name;
	struct {
		enum knob knob;
		uint32_t value;
	} set[2];
	/* The time of a batch, and what dcbm must have seen; NULL if all comes in time. */
	int timeout_ms;
	const char *fallback;
	/* Only an engine whose driver finds it by itself has it, or that can do it. */
	const char *only;
	/* It is there before dcbm has a channel. */
	bool early;
};

/* Stands for the error code of the engine. */
#define ITS_ERROR	UINT32_MAX

static const struct fault faults[] = {
	/*
	 * Its timer looks after 200 ms. First: the last user of the channel was the driver's own
	 * test, which gives it back with the timer running. A channel begins with a descriptor of
	 * its own, whose interrupt starts the timer.
	 */
	{ "no interrupt", { { LOST_EVERY, 1 } }, LONG_MS, NULL, "ioatdma", true },
	{ "error", { { ERROR_CODE, ITS_ERROR }, { ERROR_EVERY, 2 } }, LONG_MS,
	  "fallback_error" },
	{ "lost interrupt", { { LOST_EVERY, 3 } }, 100, "fallback_timeout" },
	{ "late interrupt", { { LATE_US, 20000 }, { LATE_EVERY, 4 } }, LONG_MS, NULL },
	{ "interrupt that is later than dcbm waits",
	  { { LATE_US, 200000 }, { LATE_EVERY, 4 } }, 100, "fallback_timeout" },
	{ "slow registers", { { ACCESS_US, 200 } }, LONG_MS, NULL },
	/* Descriptors in hardware take 64 ms. */
	{ "slow", { { MBPS, 4 } }, 5, "fallback_timeout" },
	/* READ_DATA_ERR and another one at once. */
	{ "errors that its driver does not expect", { { ERROR_CODE, 0x140 }, { ERROR_EVERY, 2 } },
	  LONG_MS, "fallback_error", "ioatdma" },
	/* It resets a channel that has not gone on after 400 ms. */
	{ "never ends", { { HANG_EVERY, 3 } }, LONG_MS, "fallback_error", "ioatdma" },
	{ "another order", { { REORDER_EVERY, 2 } }, LONG_MS, NULL, "idxd" },
};

/*
 * A channel that does not terminate is lost when dcbm gives up: dcbm waits for completions that are
 * late. Idxd never looks for a completion without an interrupt.
 */
static const char *fallback_of(const struct fault *fault)
{
	if (fault->timeout_ms < LONG_MS && !engine_model()->terminates)
		return NULL;
	return fault->fallback;
}

static bool has(const struct fault *fault)
{
	if (engine_is("idxd") && fault->set[0].knob == LOST_EVERY) {
		printf("# %s: left to the test what_does_not_stop_is_lost\n", fault->name);
		return false;
	}
	return !fault->only || engine_is(fault->only);
}

/*
 * Whether the devices count how often it strikes: not if all is slow. Of large folios a queue has
 * one descriptor, and no order.
 */
static bool strikes(const struct fault *fault, enum area_kind kind)
{
	const enum knob knob = fault->set[0].knob;

	return knob != ACCESS_US && knob != MBPS && (knob != REORDER_EVERY || kind == AREA_ANON_4K);
}

/* After which a fault must have been seen. */
#define MOST_ROUNDS	10

/*
 * Moves memory of a kind with both faults, which may be the same one, and expects every byte in
 * its place: meanwhile, and when the engine has ended all that it was late with. False if the
 * engine is not one for that.
 */
static bool survive(const struct fault *a, const struct fault *b, enum area_kind kind)
{
	const struct fault *pair[] = { a, b };
	const char *fallback = fallback_of(a) ?: fallback_of(b);
	const bool counted = strikes(a, kind) || strikes(b, kind);
	const unsigned int enough = a == b && !debug_kernel() ? 2 : 1;
	unsigned int rounds = 0;
	int ms = LONG_MS;

	if (!has(a) || !has(b))
		return false;
	if (engine_model()->terminates)
		ms = a->timeout_ms < b->timeout_ms ? a->timeout_ms : b->timeout_ms;
	window_set(STRIKES, 0);
	if (a->early)
		window_set(a->set[0].knob, a->set[0].value);
	begin(ms, kind, 4 * MIB);
	/* Each descriptor ends by itself, and is not seen ended with the one before. */
	window_set(MBPS, 200);
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(a->set); i++)
		if (pair[i % 2]->set[i / 2].value == ITS_ERROR)
			window_set(ERROR_CODE, engine_model()->error);
		else if (pair[i % 2]->set[i / 2].value)
			window_set(pair[i % 2]->set[i / 2].knob, pair[i % 2]->set[i / 2].value);
	/* No batch waits for most interrupts: until one of those that count was lost or late. */
	do {
		round_trip();
	} while (++rounds < enough ||
		 (rounds < MOST_ROUNDS && ((counted && !window_sum(STRIKES)) ||
					   (fallback && a == b && !offload_grown(fallback)))));
	window_end_faults();
	ASSERT_TRUE(window_wait_until_idle());
	EXPECT_EQ(area_wrong(&area), 0);

	printf("# %s, %s, %s\n", area_kind_names[kind], a->name, a == b ? "alone" : b->name);
	offload_show_grown();
	/* Every folio once. */
	EXPECT_EQ(offload_grown("folios_copied") + offload_grown("fallback_"),
		  2 * rounds * area_folios(&area));
	if (!fallback)
		EXPECT_EQ(offload_grown("fallback_"), 0);
	if (fallback && a == b)
		EXPECT_GT(offload_grown(fallback), 0);
	/* The statistics show a fault that no device counts. */
	if (counted)
		EXPECT_GT(window_sum(STRIKES), 0);
	if (!counted && fallback)
		EXPECT_GT(offload_grown("fallback_"), 0);
	EXPECT_EQ(offload_grown("fallback_lost"), 0);
	area_destroy(&area);
	EXPECT_EQ(engine_unload_busy("dcbm"), 0);
	return true;
}

/* Cases that survived, and pages in use after the first, which is for what is allocated once. */
struct tally {
	long cases, pages;
};

static void count_case(struct tally *tally, bool survived)
{
	if (survived && !tally->cases++)
		tally->pages = pages_unaccounted();
}

/*
 * A case has four batches that fail, or more: a page that each of them loses is above this limit.
 * The rest of the system takes up to 28 pages and gives them back; a debug kernel takes more.
 */
static void expect_no_leak(const struct tally *tally)
{
	long leaked = pages_unaccounted() - tally->pages;

	printf("# %ld cases, %ld pages more in use\n", tally->cases, leaked);
	if (!debug_kernel())
		EXPECT_LT(leaked, 2 * tally->cases);
}

/* Of memory of every kind; the debug kernel is slow, and takes small and large folios by turns. */
TEST_F_TIMEOUT(ptdma, faults, TIMEOUT)
{
	struct tally tally = { 0 };

	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++) {
		for (enum area_kind kind = 0; kind < NR_AREA_KINDS; kind++) {
			if (debug_kernel() && kind != (i % 2 ? AREA_ANON_2M : AREA_ANON_4K))
				continue;
			count_case(&tally, survive(&faults[i], &faults[i], kind));
		}
	}
	if (engine_is("ptdma"))
		EXPECT_EQ(system("dmesg | grep -q 'PTDMA error: ERR 38: ODMA0_AXI_SLVERR'"), 0);
	expect_no_leak(&tally);
}

/* Of small folios, and of large ones; on the debug kernel by turns. */
TEST_F_TIMEOUT(ptdma, pairs_of_faults, TIMEOUT)
{
	struct tally tally = { 0 };

	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++) {
		for (unsigned int j = i + 1; j < ARRAY_SIZE(faults); j++) {
			/* An interrupt is late, or later. */
			if (faults[i].set[1].knob == LATE_EVERY &&
			    faults[j].set[1].knob == LATE_EVERY)
				continue;
			if (!debug_kernel() || (i + j) % 2)
				count_case(&tally, survive(&faults[i], &faults[j], AREA_ANON_4K));
			if (!debug_kernel() || (i + j) % 2 == 0)
				count_case(&tally, survive(&faults[i], &faults[j], AREA_ANON_2M));
		}
	}
	expect_no_leak(&tally);
}

/* Many batches that fail: not even one in two of them may forget a page. */
TEST_F_TIMEOUT(ptdma, leak, TIMEOUT)
{
	const unsigned int moves = 40;

	load_with_timeout("", "", engine_model()->terminates ? 5 : LONG_MS);
	create_area(AREA_ANON_4K, 256 * KIB);
	window_set(STRIKES, 0);
	window_set(ERROR_CODE, engine_model()->error);
	window_set(ERROR_EVERY, 2);
	/* Each would lose the memory of a channel for good. */
	if (!engine_is("idxd"))
		window_set(LOST_EVERY, 3);
	EXPECT_LT(pages_leaked(&area, nodes, moves), moves / 2);
	window_end_faults();

	printf("# %llu strikes\n", (unsigned long long)window_sum(STRIKES));
	EXPECT_GT(window_sum(STRIKES), moves);
	EXPECT_EQ(area_wrong(&area), 0);
}

/* sysfs: "unbind" or "bind" of the driver of a device. */
static int driver(const char *what, const char *device)
{
	return setting_write(setting_path("/sys/bus/pci/drivers/%s/%s", engine_module(), what),
			     device);
}

/* Whether all channels are back. */
static bool unbind_and_bind(unsigned int i, unsigned int nr)
{
	const char *name = window.device[i % window.nr].name;

	EXPECT_EQ(driver("unbind", name), 0);
	EXPECT_EQ(driver("bind", name), 0);
	EXPECT_TRUE(engine_set_up());
	return engine_wait_for_channels(nr) && nr_channels() == nr;
}

/* Devices that come and go while memory of every kind moves, less often on the debug kernel. */
TEST_F_TIMEOUT(ptdma, unbind_under_load, TIMEOUT)
{
	unsigned int nr;
	bool back = true;
	pid_t child;

	load_with_timeout("", "", LONG_MS);
	nr = nr_channels();
	begin_load(2 * MIB);
	for (unsigned int i = 0; i < (debug_kernel() ? 5 : 100); i++)
		ASSERT_TRUE(unbind_and_bind(i, nr));
	end_load(0);
	EXPECT_GT(offload_grown("folios_copied"), 0);
	/* Dcbm looks for channels all the time, and finds each once. */
	child = fork();
	while (!child)
		setting_write(DCBM_PARAMETERS "channels", "0");
	for (unsigned int i = 0; back && i < 8; i++)
		back = unbind_and_bind(i, nr);
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, NULL, 0), child);
	ASSERT_TRUE(back);
	every_kind(8 * MIB);
}

/*
 * A device goes whose queues hang: its driver ends what they have, and says so, long before a
 * client gives up.
 */
TEST_F_TIMEOUT(ptdma, unbind_while_it_hangs, TIMEOUT)
{
	const char *name = window.device[0].name;

	if (engine_model()->terminates)
		SKIP(return, "%s ends what dcbm terminates", engine_module());
	load_with_timeout("", "", LONG_MS);
	window.device[0].knobs[HANG_EVERY] = 1;
	begin_load(2 * MIB);
	/* From its first descriptor on. */
	while (!window.device[0].knobs[BUSY])
		usleep(1000);
	EXPECT_EQ(driver("unbind", name), 0);
	end_load(0);
	EXPECT_GT(offload_grown("fallback_error"), 0);
	EXPECT_EQ(offload_grown("fallback_timeout"), 0);
	window_end_faults();
	EXPECT_EQ(driver("bind", name), 0);
	EXPECT_TRUE(engine_set_up());
	every_kind(8 * MIB);
}

static int reset_device(unsigned int i)
{
	const char *name = window.device[i].name;

	return setting_write(setting_path("/sys/bus/pci/devices/%s/reset", name), "1");
}

/* Drivers that hear of no reset have to be loaded anew. */
TEST_F_TIMEOUT(ptdma, reset_while_unused, TIMEOUT)
{
	window_set(RESET_REGISTERS, 1);
	for (unsigned int i = 0; i < window.nr; i++)
		EXPECT_EQ(reset_device(i), 0);
	if (!engine_model()->terminates)
		ASSERT_TRUE(engine_unload());
	begin(LONG_MS, AREA_ANON_2M, 8 * MIB);
	round_trip();
	offload_show_grown();
	expect_copies(2 * area_folios(&area), "fallback_", 0);
	window_set(RESET_REGISTERS, 0);
}

/* dcbm comes and goes with memory on the move, and every fifth time the engine does too. */
TEST_F_TIMEOUT(ptdma, reload, TIMEOUT)
{
	begin_load(2 * MIB);
	for (unsigned int i = 0; i < (debug_kernel() ? 5 : 100); i++) {
		load_with_timeout("", "", LONG_MS);
		usleep(5000);
		ASSERT_EQ(offload_set_enabled(false), 0);
		ASSERT_EQ(engine_unload_busy("dcbm"), 0);
		if (i % 5 == 0)
			ASSERT_TRUE(engine_unload());
		if (i % 20 == 0)
			printf("# loaded %u times\n", i + 1);
	}
	end_load(0);
	load_with_timeout("", "", LONG_MS);
	every_kind(8 * MIB);
}

/* The slot of a device is empty from one moment to the next, and its driver hears of it later. */
TEST_F_TIMEOUT(ptdma, surprise_removal, TIMEOUT)
{
	/* A batch that nothing terminates waits for the unbind. */
	load_with_timeout("", "", engine_model()->terminates ? 100 : LONG_MS);
	begin_load(2 * MIB);
	usleep(200000);
	window.device[0].knobs[GONE] = 1;
	usleep(500000);
	EXPECT_EQ(driver("unbind", window.device[0].name), 0);
	usleep(200000);
	end_load(0);
	for (unsigned int i = 0; i < window.nr; i++)
		EXPECT_EQ(window.device[i].knobs[BUSY], 0);
	window.device[0].knobs[GONE] = 0;
	EXPECT_EQ(driver("bind", window.device[0].name), 0);
	ASSERT_TRUE(engine_unload());
	load_with_timeout("", "", LONG_MS);
	every_kind(8 * MIB);
}

/*
 * The share of a queue that does not stop is lost: nothing else is, and the channel is not used
 * again. Nothing can be unloaded afterwards.
 */
TEST_F_TIMEOUT(ptdma, what_does_not_stop_is_lost, TIMEOUT)
{
	volatile uint32_t *knobs = window.device[0].knobs;
	unsigned int share, lost = 1;

	/* Only this queue takes as long, and no reset by its driver ends it. */
	begin(3000, AREA_ANON_4K, 4 * MIB);
	/* Of the 512 folios of a batch. */
	share = 512 / nr_channels();
	/* No queue of this device tells of its end, and idxd does not look. */
	if (engine_is("idxd")) {
		window.device[1].knobs[LOST_EVERY] = 1;
		lost += nr_channels() / window.nr;
	}
	share *= lost;
	knobs[LIMIT] = 1;
	knobs[HANG_EVERY] = 1;
	knobs[COAST_US] = 10000000;
	test.stuck = true;
	for (unsigned int i = 0; i < 6; i++) {
		area_stamp(&area, area.seed + 1);
		/* Lost folios stay, since their references are never given back. */
		ASSERT_EQ(area_move(&area, nodes[(i + 1) % 2]), i % 2 ? 0 : share);
		EXPECT_EQ(area_wrong(&area), 0);
	}
	offload_show_grown();
	EXPECT_EQ(offload_grown("fallback_lost"), share);
	EXPECT_EQ(offload_grown("declined"), 5 * share);
	EXPECT_EQ(offload_grown("folios_copied") + offload_grown("fallback_") +
		  offload_grown("declined"), 6 * area_folios(&area));
	EXPECT_EQ(engine_quarantined(), lost);

	/* The queue still writes, but to memory that has no user. */
	window_end_faults();
	ASSERT_TRUE(window_wait_until_idle());
	EXPECT_EQ(area_wrong(&area), 0);
}

/* Devices that are not behind an IOMMU, or that it lets through: their addresses are memory's. */
static unsigned int not_translated(void)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < window.nr; i++) {
		char type[16] = "none";

		setting_read(setting_path("/sys/bus/pci/devices/%s/iommu_group/type",
					  window.device[i].name), type, sizeof(type));
		/* DMA is strict, DMA-FQ lazy. */
		nr += strcmp(type, "DMA") && strcmp(type, "DMA-FQ");
	}
	return nr;
}

/* The share of a channel is one descriptor, of however many folios, wherever they are. */
TEST_F_TIMEOUT(ptdma, iommu_merges, TIMEOUT)
{
	uint64_t before;

	ASSERT_EQ(not_translated(), 0);
	begin(LONG_MS, AREA_ANON_4K, 4 * MIB);
	before = window_sum(DESCRIPTORS);
	round_trip();
	before = window_sum(DESCRIPTORS) - before;
	offload_show_grown();
	printf("# %llu descriptors\n", (unsigned long long)before);
	EXPECT_EQ(offload_grown("folios_copied"), 2 * area_folios(&area));
	EXPECT_LE(before, nr_channels() * offload_grown("batches"));
}

/*
 * An engine that writes long after it has said that it is done does so to addresses that mean
 * nothing any more. dcbm hears nothing of it; the kernel log does.
 */
TEST_F_TIMEOUT(ptdma, iommu_refuses, TIMEOUT)
{
	const uint64_t refused = window_sum(REFUSED);
	const uint64_t stray = window_sum(STRAY);

	ASSERT_EQ(not_translated(), 0);
	begin(LONG_MS, AREA_ANON_4K, 4 * MIB);
	/* Longer than a batch, and than what is unmapped lazily stays in the IOMMU. */
	window_set(AFTERWARDS_US, 3000000);
	EXPECT_EQ(area_move(&area, nodes[1]), 0);
	EXPECT_EQ(offload_grown("folios_copied"), area_folios(&area));
	/* Each queue, after its last descriptor. */
	wait_until(window_sum(REFUSED) - refused == nr_channels() ||
		   window_sum(STRAY) != stray, 30);
	EXPECT_EQ(window_sum(REFUSED), refused + nr_channels());
	EXPECT_EQ(window_sum(STRAY), stray);
	EXPECT_EQ(area_wrong(&area), 0);
}

/*
 * Drivers do not know these properties of their hardware, and must work with and without: each
 * alone, and in pairs. A case is a cell of the table "driver by property".
 */
FIXTURE(hardware) { };

FIXTURE_VARIANT(hardware) {
	/* 0 is none: a knob of how fast engines are. */
	enum knob knobs[2];
};

#define HARDWARE(name, ...)								\
	FIXTURE_VARIANT_ADD(hardware, name) { .knobs = { __VA_ARGS__ } }

HARDWARE(as_modelled, 0);
HARDWARE(run_drops, RUN_DROPS_WHEN_EMPTY);
HARDWARE(run_drops_head_on_fetch, RUN_DROPS_WHEN_EMPTY, HEAD_ON_FETCH);
HARDWARE(run_drops_head_past_error, RUN_DROPS_WHEN_EMPTY, HEAD_PAST_ERROR);
HARDWARE(run_drops_early_halt, RUN_DROPS_WHEN_EMPTY, EARLY_HALT);
HARDWARE(head_on_fetch, HEAD_ON_FETCH);
HARDWARE(head_on_fetch_past_error, HEAD_ON_FETCH, HEAD_PAST_ERROR);
HARDWARE(head_on_fetch_early_halt, HEAD_ON_FETCH, EARLY_HALT);
HARDWARE(head_past_error, HEAD_PAST_ERROR);
HARDWARE(head_past_error_early_halt, HEAD_PAST_ERROR, EARLY_HALT);
HARDWARE(early_halt, EARLY_HALT);
HARDWARE(silent_success, SILENT_SUCCESS);
HARDWARE(registers_lost, RESET_REGISTERS);
HARDWARE(registers_lost_run_drops, RESET_REGISTERS, RUN_DROPS_WHEN_EMPTY);
HARDWARE(registers_lost_head_on_fetch, RESET_REGISTERS, HEAD_ON_FETCH);
HARDWARE(registers_lost_head_past_error, RESET_REGISTERS, HEAD_PAST_ERROR);
HARDWARE(registers_lost_early_halt, RESET_REGISTERS, EARLY_HALT);
HARDWARE(registers_lost_silent_success, RESET_REGISTERS, SILENT_SUCCESS);

FIXTURE_SETUP(hardware)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(variant->knobs); i++) {
		const enum knob knob = variant->knobs[i];
		const char *only = knob == SILENT_SUCCESS ? "ae4dma" : "ptdma";

		if (knob && knob != RESET_REGISTERS && !engine_is(only))
			SKIP(return, "a property of %s", only);
	}
	if (!set_up(_metadata))
		return;
	for (unsigned int i = 0; i < ARRAY_SIZE(variant->knobs); i++)
		if (variant->knobs[i])
			window_set(variant->knobs[i], 1);
}

FIXTURE_TEARDOWN(hardware)
{
	tear_down();
}

static void load_anew(void)
{
	ASSERT_TRUE(engine_unload());
	load_with_timeout("", "", LONG_MS);
}

/* Clients that wait, and that give up, and every fault. */
static void clients_and_faults(void)
{
	window_set(MBPS, 20);
	EXPECT_EQ(engine_dmatest("threads_per_chan=4 iterations=5 timeout=20000"), 0);
	if (engine_model()->terminates)
		give_up();
	window_end_faults();
	for (unsigned int i = 0; i < ARRAY_SIZE(faults); i++)
		survive(&faults[i], &faults[i], AREA_ANON_64K);
}

/*
 * Devices are reset while memory of every kind moves, by an FLR or on the way from D3: the engine
 * copies afterwards. Idxd does not give its channels back until the administrator does. IOAT's
 * driver hears of no reset, but its timer finds that a channel has forgotten all.
 */
static void resets(void)
{
	const bool hears = !engine_is("ioatdma");

	load_with_timeout("", "", LONG_MS);
	begin_load(2 * MIB);
	for (unsigned int i = 0; i < (hears ? 12 : 1); i++) {
		const unsigned int device = i % window.nr;

		EXPECT_EQ(setting_write(setting_path("/sys/bus/pci/devices/%s/reset_method",
						     window.device[device].name),
					i % 4 ? "pm" : "flr"), 0);
		EXPECT_EQ(reset_device(device), 0);
	}
	if (!hears)
		EXPECT_TRUE(wait_until(offload_grown("fallback_error"), 60));
	end_load(0);
	if (!engine_model()->terminates)
		load_anew();
	every_kind(8 * MIB);
	ASSERT_TRUE(engine_unload());
}

/*
 * The machine suspends while memory of every kind moves. All but the processors sleeps, for five
 * seconds, and only devices whose drivers put them to sleep lose power; or all do, as in S3. The
 * engine copies afterwards. The CPU copies instead of an engine whose driver does nothing for it,
 * until both modules are loaded anew. By the wall, power may go when a driver works again.
 */
static void suspends(void)
{
	for (unsigned int deep = 0; deep < (times_count() ? 2 : 1); deep++) {
		unsigned int nr;

		load_with_timeout("", "", LONG_MS);
		nr = engine_model()->terminates ? nr_channels() : 0;
		begin_load(2 * MIB);
		ASSERT_EQ(setting_write("/sys/power/pm_test", "platform"), 0);
		for (unsigned int i = 0; i < 3; i++) {
			if (deep)
				window_set(NO_POWER_US, 3000000);
			EXPECT_EQ(setting_write("/sys/power/state", "freeze"), 0);
			ASSERT_TRUE(engine_wait_for_channels(nr));
		}
		end_load(0);
		if (!nr)
			load_anew();
		every_kind(8 * MIB);
		ASSERT_TRUE(engine_unload());
	}
}

TEST_F_TIMEOUT(hardware, works, TIMEOUT)
{
	if (variant->knobs[0] != RESET_REGISTERS)
		clients_and_faults();
	if (variant->knobs[0] && variant->knobs[0] != RESET_REGISTERS)
		return;
	resets();
	suspends();
}

TEST_HARNESS_MAIN
