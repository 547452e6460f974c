// SPDX-License-Identifier: GPL-2.0
/*
 * The ZDMA of the ZynqMP as dcbm's engine, with the driver that is in the tree. No byte
 * may be lost by what is peculiar to that driver:
 *
 *  - A ring has 32 descriptors.
 *  - A channel that reports an error fails all descriptors that it has.
 *  - A channel that lost a completion does not report it.
 *
 * The faults are provoked by accesses to registers behind the driver's back, which takes
 * /dev/mem, and a machine that does nothing else: QEMU's xlnx-zcu102.
 */
#include "run.h"

#define TIMEOUT		240
#define NR_CHANNELS	16

/* Of a batch: where faults strike, and where there are none. */
#define SHORT_MS	100
#define LONG_MS		30000

#define REG_UNDECODED	0x008
#define REG_STATUS	0x100
#define REG_DISABLE	0x10c
#define REG_CONTROL	0x110
#define REG_STATE	0x11c
#define REG_BYTES	0x188
#define REG_RATE	0x18c
#define STATUS_DONE	0x400U
#define CONTROL_RATE	0x008U
#define STATE_BUSY	1
/* Cycles of 2 ns from one burst of 256 bytes to the next; half the channels have 128. */
#define SLOWEST		0xfffU
#define ALL_INTERRUPTS	0xfffU

/* Until a channel that was terminated must be of use again. */
#define RECOVERY_S	(debug_kernel() ? 60 : 20)

/* Of a saboteur: the rarest strikes, and how long it tries to do harm. */
#define MAX_PERIOD	1024
#define SABOTAGE_S	90

enum fault {
	/* The channel reports an access to an address without a register. */
	CHANNEL_ERROR,
	LOST_COMPLETION, BOTH_FAULTS,
};

/* Strikes at channels that have just copied, before the driver hears of it. */
static struct saboteur {
	pthread_t thread;
	enum fault fault;
	/* How many such moments go by for each strike: more where nothing survives. */
	unsigned int period;
	unsigned int strikes;
	bool stop;
} saboteur;

/* The registers of each channel. */
static uint32_t *channels[NR_CHANNELS];

/* Once for each kind of memory. */
FIXTURE(zdma) { };

/* Once. */
FIXTURE(zdma_once) { };

static uint32_t reg_read(uint32_t *channel, unsigned int offset)
{
	return __atomic_load_n(&channel[offset / sizeof(*channel)], __ATOMIC_RELAXED);
}

static void reg_write(uint32_t *channel, unsigned int offset, uint32_t value)
{
	__atomic_store_n(&channel[offset / sizeof(*channel)], value, __ATOMIC_RELAXED);
}

static void strike(uint32_t *channel, enum fault fault)
{
	if (fault == CHANNEL_ERROR)
		reg_read(channel, REG_UNDECODED);
	else
		reg_write(channel, REG_DISABLE, ALL_INTERRUPTS);
}

/* With 0 a channel has copied as soon as it is told to. The driver leaves that alone. */
static void set_rate(uint32_t cycles)
{
	for (unsigned int i = 0; i < NR_CHANNELS; i++) {
		uint32_t control = reg_read(channels[i], REG_CONTROL);

		control &= ~CONTROL_RATE;
		reg_write(channels[i], REG_RATE, cycles);
		reg_write(channels[i], REG_CONTROL, control | (cycles ? CONTROL_RATE : 0));
	}
}

/* How many channels access memory. */
static unsigned int channels_busy(void)
{
	unsigned int busy = 0;

	for (unsigned int i = 0; i < NR_CHANNELS; i++)
		busy += reg_read(channels[i], REG_STATE) == STATE_BUSY;
	return busy;
}

static uint32_t bytes_moved(void)
{
	uint32_t bytes = 0;

	for (unsigned int i = 0; i < NR_CHANNELS; i++)
		bytes += reg_read(channels[i], REG_BYTES);
	return bytes;
}

/*
 * The first CPU handles the interrupts, the last one moves memory: a saboteur on either would
 * mostly come too late.
 */
static int last_cpu(void)
{
	return sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

static void *sabotage_thread(void *arg)
{
	bool was_moment[NR_CHANNELS] = { false };
	unsigned int seen = 0;

	run_on_cpus(1, last_cpu() - 1);
	while (!__atomic_load_n(&saboteur.stop, __ATOMIC_RELAXED)) {
		for (unsigned int i = 0; i < NR_CHANNELS; i++) {
			enum fault fault = saboteur.fault;
			bool moment = reg_read(channels[i], REG_STATUS) & STATUS_DONE;
			bool begins = moment && !was_moment[i];

			was_moment[i] = moment;
			if (!begins || ++seen % __atomic_load_n(&saboteur.period, __ATOMIC_RELAXED))
				continue;
			if (fault == BOTH_FAULTS)
				fault = saboteur.strikes % 2 ? CHANNEL_ERROR : LOST_COMPLETION;
			strike(channels[i], fault);
			__atomic_fetch_add(&saboteur.strikes, 1, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

static unsigned int saboteur_strikes(void)
{
	return __atomic_load_n(&saboteur.strikes, __ATOMIC_RELAXED);
}

static void set_period(unsigned int period)
{
	__atomic_store_n(&saboteur.period, period, __ATOMIC_RELAXED);
}

/* The devices of all channels are named by the addresses of their registers. */
static unsigned int map_channels(void)
{
	int fd = open("/dev/mem", O_RDWR | O_SYNC);
	unsigned int nr = 0;
	glob_t paths;

	if (fd < 0 || glob("/sys/class/dma/dma*chan*/device", 0, NULL, &paths)) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (size_t i = 0; i < paths.gl_pathc && nr < NR_CHANNELS; i++) {
		char device[PATH_MAX];
		void *map;

		if (!realpath(paths.gl_pathv[i], device))
			continue;
		map = mmap(NULL, memory_page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   strtoull(strrchr(device, '/') + 1, NULL, 16));
		if (map != MAP_FAILED)
			channels[nr++] = map;
	}
	globfree(&paths);
	close(fd);
	return nr;
}

/* How many channels that dcbm holds have copied since then. */
static unsigned int channels_used(const struct engine_channel *before)
{
	struct engine_channel after[ENGINE_MAX_CHANNELS];
	unsigned int held = engine_channels(after), used = 0;

	for (unsigned int i = 0; i < held; i++)
		used += after[i].bytes > before[i].bytes;
	return used;
}

/* Small segments: a batch uses all channels, however slow they are. */
#define EXCLUSIVE	"segment_bytes=65536"

static void set_up(struct __test_metadata *metadata)
{
	_metadata = metadata;
	if (!engine_is("zynqmp_dma"))
		SKIP(return, "the engine is %s", engine_module());
	if (!run_begin(metadata))
		return;
	ASSERT_EQ(module_load("zynqmp_dma", ""), 0);
	ASSERT_EQ(map_channels(), NR_CHANNELS)
		TH_LOG("/dev/mem: %s", strerror(errno));
}

static void tear_down(void)
{
	set_rate(0);
	run_end();
}

FIXTURE_SETUP(zdma) { set_up(_metadata); }
FIXTURE_SETUP(zdma_once) { set_up(_metadata); }
FIXTURE_TEARDOWN(zdma) { tear_down(); }
FIXTURE_TEARDOWN(zdma_once) { tear_down(); }

static void begin_sabotage(enum fault fault, unsigned int period)
{
	saboteur = (struct saboteur){ .fault = fault, .period = period };
	ASSERT_EQ(engine_set_timeout(SHORT_MS), 0);
	run_on_cpus(last_cpu(), last_cpu());
	ASSERT_EQ(pthread_create(&saboteur.thread, NULL, sabotage_thread, NULL), 0);
}

static void end_sabotage(void)
{
	__atomic_store_n(&saboteur.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(pthread_join(saboteur.thread, NULL), 0);
	run_on_cpus(0, last_cpu());
	ASSERT_EQ(engine_set_timeout(LONG_MS), 0);
}

/* The fate of the folios of some moves. */
static struct outcome {
	unsigned long long folios, copied, failed;
	/*
	 * Of these, those that the engine had, of which it reported some as errors, and those
	 * that found no channel.
	 */
	unsigned long long by_engine, errors, busy;
} sum;

static uint64_t engine_failures(void)
{
	return offload_grown("fallback_timeout") + offload_grown("fallback_error");
}

static void move(int node)
{
	move_anew(node);
	sum.folios += area_folios(&area);
	sum.copied += offload_grown("folios_copied");
	sum.failed += offload_grown("fallback_");
	sum.by_engine += engine_failures();
	sum.errors += offload_grown("fallback_error");
	sum.busy += offload_grown("fallback_busy");
	EXPECT_EQ(offload_grown("declined"), 0);
}

/* Nothing failed for another reason, or was lost; and each folio counts once. */
static void expect_accounted(void)
{
	EXPECT_EQ(sum.failed, sum.by_engine + sum.busy);
	EXPECT_EQ(sum.copied + sum.failed, sum.folios);
}

static void show(const char *what)
{
	printf("# %s: %llu folios, %llu copied by the engine, %llu not: %llu failed, %llu busy\n",
	       what, sum.folios, sum.copied, sum.failed, sum.by_engine, sum.busy);
}

FIXTURE_VARIANT(zdma) { enum area_kind kind; size_t size; };
FIXTURE_VARIANT_ADD(zdma, anon_4k) { AREA_ANON_4K, 32 * MIB };
FIXTURE_VARIANT_ADD(zdma, anon_64k) { AREA_ANON_64K, 32 * MIB };
FIXTURE_VARIANT_ADD(zdma, anon_2m) { AREA_ANON_2M, 64 * MIB };
FIXTURE_VARIANT_ADD(zdma, shmem) { AREA_SHMEM, 32 * MIB };

static uint64_t sum_of_bytes(struct engine_channel *channels)
{
	uint64_t bytes = 0;

	ASSERT_EQ(engine_channels(channels), NR_CHANNELS);
	for (unsigned int i = 0; i < NR_CHANNELS; i++) {
		EXPECT_STREQ(channels[i].provider, "xilinx-zynqmp-dma");
		bytes += channels[i].bytes;
	}
	return bytes;
}

/* All folios, on all channels, which are public and stay so. */
TEST_F_TIMEOUT(zdma, every_channel_works, TIMEOUT)
{
	struct engine_channel before[ENGINE_MAX_CHANNELS], after[ENGINE_MAX_CHANNELS];
	uint64_t bytes;

	load_with_timeout("", "", LONG_MS);
	bytes = sum_of_bytes(before);
	create_area(variant->kind, variant->size);
	move(nodes[1]);
	move(nodes[0]);
	EXPECT_EQ(sum.copied + sum.failed, sum.folios);
	EXPECT_EQ(channels_used(before), NR_CHANNELS);
	EXPECT_GE(sum.copied * 100, (sum.copied + sum.failed) * 99);
	bytes = sum_of_bytes(after) - bytes;
	EXPECT_GE(bytes * 100, 2 * area.size * 99);
	EXPECT_LE(bytes, 2 * area.size);
	show(area_kind_names[variant->kind]);
}

/* A channel that was terminated accesses no memory, at once and later. */
static void expect_stopped(void)
{
	uint32_t bytes = bytes_moved();

	EXPECT_EQ(channels_busy(), 0);
	usleep(200000);
	EXPECT_EQ(bytes_moved(), bytes);
}

/* Soon @nr channels copy, and all succeed. */
static void expect_channels(unsigned int nr)
{
	double end = seconds_now() + RECOVERY_S;
	unsigned int used, moves = 0;

	do {
		struct engine_channel before[ENGINE_MAX_CHANNELS];

		sum = (struct outcome){ 0 };
		engine_channels(before);
		move(nodes[++moves % 2]);
		used = channels_used(before);
	} while ((used < nr || sum.failed) && seconds_now() < end);

	EXPECT_EQ(used, nr);
	EXPECT_EQ(sum.failed, 0);
	EXPECT_EQ(sum.copied, sum.folios);
	show("last move");
	printf("# %u channels copied in move %u after the faults\n", used, moves);
}

/*
 * After the faults every channel copies again, but for those that timed out too often;
 * loading dcbm anew has them back.
 */
static void expect_recovery(void)
{
	unsigned int quarantined = engine_quarantined();

	create_area(AREA_ANON_4K, 4 * MIB);
	ASSERT_EQ(engine_set_timeout(1000), 0);
	if (quarantined < NR_CHANNELS)
		expect_channels(NR_CHANNELS - quarantined);
	if (!quarantined)
		return;
	ASSERT_EQ(module_unload("dcbm"), 0);
	load_with_timeout("", EXCLUSIVE, LONG_MS);
	expect_channels(NR_CHANNELS);
}

static void survive(enum area_kind kind, enum fault fault)
{
	/*
	 * Large folios are few, and so are the occasions. But a channel that loses three
	 * completions in a row is not used again, and all of them might.
	 */
	const unsigned int period = kind == AREA_ANON_2M && fault == CHANNEL_ERROR ? 1 : 3;
	const double end = seconds_now() + SABOTAGE_S;
	unsigned int moves = 0;
	bool enough;

	load_with_timeout("", EXCLUSIVE, LONG_MS);
	create_area(kind, 8 * MIB);
	begin_sabotage(fault, period);
	do {
		move(nodes[++moves % 2]);
		enough = saboteur_strikes() && sum.copied && sum.by_engine;
		/* How many occasions the saboteur sees depends on how busy the host is. */
		if (!sum.copied && saboteur.period < MAX_PERIOD)
			set_period(2 * saboteur.period);
		else if (sum.copied && !enough)
			set_period(1);
	} while (moves < 6 || (!enough && seconds_now() < end));
	end_sabotage();

	show(area_kind_names[kind]);
	printf("# %u strikes in %u moves\n", saboteur_strikes(), moves);
	EXPECT_GT(saboteur_strikes(), 0);
	EXPECT_GT(sum.copied, 0);
	EXPECT_GT(sum.by_engine, 0);
	if (fault == CHANNEL_ERROR)
		EXPECT_GT(sum.errors, 0);
	expect_accounted();
	expect_recovery();
}

TEST_F_TIMEOUT(zdma, channel_errors, TIMEOUT) { survive(variant->kind, CHANNEL_ERROR); }

TEST_F_TIMEOUT(zdma, lost_completions, TIMEOUT) { survive(variant->kind, LOST_COMPLETION); }

#define ONCE_SLOWLY	"max_channels=1 iterations=1 norandom=1 noverify=1 "	\
			"test_buf_size=2090000 "

/* dmatest gives up after 10 ms what takes a channel 67 ms, and frees its buffers. */
TEST_F_TIMEOUT(zdma_once, terminate_waits, TIMEOUT)
{
	set_rate(SLOWEST);
	EXPECT_TRUE(engine_dmatest_gives_up(ONCE_SLOWLY "timeout=10"));
	expect_stopped();
	set_rate(0);
	EXPECT_EQ(engine_dmatest("iterations=20 timeout=20000"), 0);
	EXPECT_EQ(engine_dmatest("iterations=20 polled=1"), 0);
}

/* As dcbm does, and the CPU copies the folios. A channel has 512 KB of each, which take 17 ms. */
TEST_F_TIMEOUT(zdma_once, timeouts, TIMEOUT)
{
	load_with_timeout("", "segment_bytes=524288", LONG_MS);
	create_area(AREA_ANON_2M, 8 * MIB);
	ASSERT_EQ(engine_set_timeout(1), 0);
	set_rate(SLOWEST);
	move(nodes[1]);
	expect_stopped();
	set_rate(0);
	EXPECT_GT(offload_grown("fallback_timeout"), 0);
	expect_accounted();
	ASSERT_EQ(setting_write_number(DCBM_PARAMETERS "segment_bytes", 65536), 0);
	expect_recovery();
}

/* Memory of every kind at once, and both faults. */
TEST_F_TIMEOUT(zdma_once, movers_and_faults, TIMEOUT)
{
	load_with_timeout("", EXCLUSIVE, LONG_MS);
	begin_load(4 * MIB);
	begin_sabotage(BOTH_FAULTS, 20);
	sleep(10);
	end_load(20);
	end_sabotage();
	TH_LOG("%u strikes", saboteur_strikes());
	EXPECT_GT(offload_grown("folios_copied"), 0);
	EXPECT_GT(engine_failures(), 0);
	expect_recovery();
}

TEST_HARNESS_MAIN
