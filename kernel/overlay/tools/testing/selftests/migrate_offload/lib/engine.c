// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <limits.h>
#include <regex.h>

#include "kselftest.h"
#include "area.h"
#include "engine.h"
#include "kernel_complaints.h"
#include "memory.h"
#include "offload.h"

#define DMASIM_FAULTS "/sys/kernel/debug/dmasim/"
#define DCBM_CHANNELS "/sys/kernel/debug/dcbm/channels"
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define DMA_DEBUG "/sys/kernel/debug/dma-api/"

const char * const engine_faults[] = {
	"prep_null", "submit_error", "result_error", "status_error", "short_copy",
	"never_complete", "late", "out_of_order", "call_twice", NULL
};

bool times_count(void)
{
	return !getenv("MIG_UNTIMED");
}

bool debug_kernel(void)
{
	const char *debug = getenv("MIG_DEBUG");

	return debug && !strcmp(debug, "1");
}

const char *engine_module(void)
{
	const char *module = getenv("MIG_ENGINE");

	return module && *module ? module : "dmasim";
}

bool engine_is(const char *module)
{
	return !strcmp(engine_module(), module);
}

bool engine_set_up(void)
{
	const char *command = getenv("MIG_ENGINE_SETUP");

	return !command || !system(command);
}

int engine_load_module(const char *parameters)
{
	int err = module_load(engine_module(), parameters);

	return err || engine_set_up() ? err : -EIO;
}

int engine_load_dcbm(const char *parameters)
{
	char text[192];

	/* The driver in zynqmp_dma has another name than its module. */
	snprintf(text, sizeof(text), "providers=%s,xilinx-zynqmp-dma %s", engine_module(),
		 parameters);
	return module_load("dcbm", text);
}

bool engine_load(const char *dmasim_parameters, const char *dcbm_parameters)
{
	char parameters[128];

	/*
	 * Tests also move single pages, and count descriptors of batches that do not
	 * depend on how fast an emulated machine copies.
	 */
	snprintf(parameters, sizeof(parameters), "min_pages=1 min_order=0 merge=N %s",
		 dcbm_parameters);
	return !engine_load_module(engine_is("dmasim") ? dmasim_parameters : "") &&
	       !engine_load_dcbm(parameters) &&
	       !engine_set_timeout(ENGINE_LONG_MS) &&
	       !offload_route_only("syscall_or_cpuset", "dcbm") &&
	       !offload_set_bound(0) && !offload_set_live(false) && !offload_set_enabled(true);
}

bool engine_unload(void)
{
	const char * const modules[] = {
		"dcbm", engine_module(), "mtcopy", "sample_migrator",
	};
	int err;

	for (unsigned int i = 0; i < ARRAY_SIZE(modules); i++) {
		err = module_loaded(modules[i]) ? module_unload(modules[i]) : 0;
		if (err) {
			printf("# unloading %s: %s\n", modules[i], strerror(-err));
			return false;
		}
	}
	return true;
}

int engine_unload_busy(const char *module)
{
	int err;

	wait_until((err = module_unload(module)) != -EAGAIN, 60);
	return err;
}

int engine_set_timeout(int ms)
{
	return setting_write_number(OFFLOAD_DEBUG "/timeout_ms", ms);
}

static int set(const char *directory, const char *fault, const char *file, long value)
{
	return setting_write_number(setting_path("%s%s/%s", directory, fault, file), value);
}

int fault_set(const char *directory, const char *fault, unsigned int percent, long times)
{
	/* No report of each fault. "times" counts down. */
	return set(directory, fault, "verbose", 0) ?: set(directory, fault, "interval", 1) ?:
	       set(directory, fault, "space", 0) ?: set(directory, fault, "times", times) ?:
	       set(directory, fault, "probability", percent);
}

int engine_set_fault(const char *fault, unsigned int probability)
{
	return fault_set(DMASIM_FAULTS, fault, probability, INT_MAX);
}

long engine_fault_strikes(const char *fault)
{
	return INT_MAX - setting_read_number(setting_path(DMASIM_FAULTS "%s/times", fault));
}

int engine_set_fault_times(const char *fault, int times)
{
	return fault_set(DMASIM_FAULTS, fault, 100, times);
}

unsigned int engine_channels(struct engine_channel *channels)
{
	FILE *file = fopen(DCBM_CHANNELS, "r");
	unsigned int nr = 0;
	char line[512];

	/* The first line has the names of the columns. */
	if (!file || !fgets(line, sizeof(line), file))
		line[0] = '\0';
	while (file && nr < ENGINE_MAX_CHANNELS && fgets(line, sizeof(line), file)) {
		struct engine_channel *c = &channels[nr];

		if (sscanf(line, "%31s %31s %d %15s %lu %lu %lu %lu", c->name,
			   c->provider, &c->node, c->state, &c->descriptors,
			   &c->bytes, &c->errors, &c->timeouts) == 8)
			nr++;
	}
	if (file)
		fclose(file);
	return nr;
}

bool engine_wait_for_channels(unsigned int nr)
{
	struct engine_channel channels[ENGINE_MAX_CHANNELS];
	bool met = wait_until(engine_channels(channels) == nr, 10);

	if (!met)
		printf("# %u channels, not %u\n", engine_channels(channels), nr);
	return met;
}

unsigned long engine_descriptors(void)
{
	struct engine_channel channels[ENGINE_MAX_CHANNELS];
	unsigned int nr = engine_channels(channels);
	unsigned long sum = 0;

	while (nr--)
		sum += channels[nr].descriptors;
	return sum;
}

bool engine_wait_until_copying(unsigned long before)
{
	return wait_until(engine_descriptors() != before, 60);
}

unsigned int engine_quarantined(void)
{
	struct engine_channel channels[ENGINE_MAX_CHANNELS];
	unsigned int i, nr = engine_channels(channels), quarantined = 0;

	for (i = 0; i < nr; i++)
		quarantined += !strcmp(channels[i].state, "quarantined");
	return quarantined;
}

void engine_clear_faults(void)
{
	for (int i = 0; engine_faults[i]; i++)
		engine_set_fault(engine_faults[i], 0);
	engine_set_fault("terminate_error", 0);
	engine_set_fault("no_copy", 0);
	engine_set_fault("wrong_byte", 0);
}

int kernel_log_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);

	if (fd < 0 || lseek(fd, 0, SEEK_END) < 0)
		ksft_exit_fail_msg("cannot read /dev/kmsg: %s\n", strerror(errno));
	return fd;
}

#define DMATEST_RUN "/sys/module/dmatest/parameters/run"

long engine_dmatest(const char *parameters)
{
	double end = seconds_now() + 60;
	unsigned long nr, started = 0, ended = 0, failures = 0;
	int log = kernel_log_open();
	char record[8192], *text;
	ssize_t len;

	if (module_load("dmatest", parameters)) {
		close(log);
		return -1;
	}
	if (setting_write_number(DMATEST_RUN, 1))
		end = 0;
	do {
		usleep(1000);
		while ((len = read(log, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
			record[len > 0 ? len : 0] = '\0';
			text = strstr(record, "dmatest: Started");
			if (text && sscanf(text, "dmatest: Started %lu", &nr) == 1)
				started += nr;
			text = strstr(record, "summary");
			if (text && sscanf(text, "summary %*u tests, %lu failures", &nr) == 1) {
				ended++;
				failures += nr;
			}
		}
	} while (ended < started && seconds_now() < end);
	close(log);
	if (module_unload("dmatest"))
		return -1;
	return end && started && ended == started ? (long)failures : -1;
}

bool engine_dmatest_gives_up(const char *parameters)
{
	long failures = 0;

	for (unsigned int i = 0; i < 5 && !failures; i++)
		failures = engine_dmatest(parameters);
	return failures > 0;
}

static bool is_bad(const char *line)
{
	static regex_t complaints;
	static bool compiled;

	compiled = compiled || !regcomp(&complaints, KERNEL_COMPLAINTS_IN_A_TEST,
					REG_EXTENDED | REG_NOSUB);
	return !compiled || !regexec(&complaints, line, 0, NULL, 0);
}

size_t kernel_log_bad(int fd, const char *meant)
{
	char record[8192], *text;
	size_t bad = 0;
	ssize_t len;

	for (;;) {
		len = read(fd, record, sizeof(record) - 1);
		/* EPIPE: records were overwritten, and the next read goes on behind them. */
		if (len < 0 && errno == EPIPE) {
			printf("# kernel log: some lines were lost\n");
			continue;
		}
		if (len < 0 && errno != EAGAIN) {
			printf("# kernel log: %s\n", strerror(errno));
			return bad + 1;
		}
		if (len <= 0)
			return bad;
		record[len] = '\0';
		text = strchr(record, ';');
		if (!text || !is_bad(text) || (meant && strstr(text, meant)))
			continue;
		text[strcspn(text, "\n")] = '\0';
		printf("# kernel log: %s\n", text + 1);
		bad++;
	}
}

#define LEAK_ROUNDS	7

static int compare_longs(const void *a, const void *b)
{
	long x = *(const long *)a;
	long y = *(const long *)b;

	return (x > y) - (x < y);
}

long pages_leaked(struct area *area, const int nodes[2], unsigned int moves)
{
	long grown[LEAK_ROUNDS + 1], last = pages_unaccounted(), now;

	/* The first round is for what is allocated once. */
	printf("# %u moves, pages more in use:", moves);
	for (unsigned int round = 0; round <= LEAK_ROUNDS; round++) {
		for (unsigned int i = 0; i < moves; i++)
			if (area_move(area, nodes[(i + 1) % 2]))
				return LONG_MAX;
		now = pages_unaccounted();
		grown[round] = now - last;
		last = now;
		printf(" %ld", grown[round]);
	}
	printf("\n");
	qsort(grown + 1, LEAK_ROUNDS, sizeof(grown[0]), compare_longs);
	return grown[1 + LEAK_ROUNDS / 2];
}

bool kmemleak_available(void)
{
	return !access(KMEMLEAK, W_OK);
}

size_t kmemleak_found(void)
{
	char text[4096];
	size_t reports = 0;
	ssize_t len;
	int fd;

	if (!kmemleak_available()) {
		printf("# no kmemleak: leaks of objects are not looked for\n");
		return 0;
	}
	/* kmemleak reports what two scans found without a reference. */
	if (setting_write(KMEMLEAK, "scan")) {
		printf("# kmemleak: cannot scan\n");
		return 1;
	}
	sleep(6);
	setting_write(KMEMLEAK, "scan");

	fd = open(KMEMLEAK, O_RDONLY);
	while ((len = read(fd, text, sizeof(text) - 1)) > 0) {
		text[len] = '\0';
		printf("# kmemleak: %s\n", text);
		reports++;
	}
	close(fd);
	return reports;
}

static long dma_mappings(void)
{
	long total = setting_read_number(DMA_DEBUG "nr_total_entries");
	long unused = setting_read_number(DMA_DEBUG "num_free_entries");

	return total < 0 || unused < 0 ? -1 : total - unused;
}

const char *engine_test_begin(struct engine_test *test)
{
	if (!offload_available())
		return "no " OFFLOAD_DIR;
	if (memory_nodes(test->nodes, 2) < 2)
		return "needs two nodes with memory";
	if (!test->stuck && !engine_unload())
		return "a migrator or an engine is in use";
	test->log = kernel_log_open();
	test->mappings = dma_mappings();
	offload_save();
	memory_settings_save();
	setting_write(NUMA_BALANCING, "0");
	return NULL;
}

size_t engine_test_end(struct engine_test *test)
{
	size_t bad = kernel_log_bad(test->log, NULL);
	long more;

	if (!test->stuck) {
		bad += !engine_unload();
		more = dma_mappings() - test->mappings;
		if (more) {
			printf("# %ld DMA mappings more than before\n", more);
			bad++;
		}
		bad += kernel_log_bad(test->log, NULL);
	}
	close(test->log);
	settings_restore();
	return bad;
}
