// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's own test of DMA engines, on all channels of an engine at once. It writes
 * its results to the kernel log.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

#define PARAMETERS	"/sys/module/dmatest/parameters/"
#define BUFFER_BYTES	65536
/* A busy machine may take longer than an engine. */
#define TIMEOUT_MS	3000
/* A test that prints nothing for so long has stopped. */
#define SILENCE_S	10

struct counts {
	unsigned long ended;
	unsigned long tests;
	unsigned long failures;
};

/* A line of the kernel log: of dmatest, or of another part. */
static void read_line(struct engine *engine, struct counts *counts, char *line)
{
	unsigned long tests, failures;
	char *at;

	line[strcspn(line, "\n")] = '\0';
	at = strstr(line, "summary ");
	if (at && sscanf(at, "summary %lu tests, %lu failures", &tests, &failures) == 2) {
		counts->ended++;
		counts->tests += tests;
		counts->failures += failures;
		return;
	}
	at = strstr(line, "result #");
	if (at && !strstr(at, "'test passed'") && !engine->complaint[0])
		snprintf(engine->complaint, sizeof(engine->complaint), "%.150s",
			 line + strlen("dmatest: "));
}

/* True if there was something to read. */
static bool read_log(struct engine *engine, struct counts *counts, int log)
{
	char record[8192], *line;
	bool any = false;
	ssize_t len;

	while ((len = read(log, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
		record[len > 0 ? len : 0] = '\0';
		line = strchr(record, ';');
		if (!line || strncmp(line + 1, "dmatest: ", strlen("dmatest: ")))
			continue;
		any = true;
		read_line(engine, counts, line + 1);
	}
	return any;
}

static bool is_running(void)
{
	char run[8];

	return !setting_read(PARAMETERS "run", run, sizeof(run)) && *run == 'Y';
}

/* Channels that another program has chosen for a test. */
static bool is_configured(void)
{
	char channel[32];

	return !setting_read(PARAMETERS "channel", channel, sizeof(channel)) && *channel;
}

static int configure(const struct exam *exam)
{
	static const struct {
		const char *name;
		long value;
	} parameters[] = {
		/* A thread that failed terminates its channel, also while another prepares. */
		{ "threads_per_chan", 1 }, { "test_buf_size", BUFFER_BYTES },
		{ "max_channels", 0 }, { "dmatest", 0 }, { "noverify", 0 },
		{ "norandom", 0 }, { "polled", 0 }, { "transfer_size", 0 },
		{ "alignment", -1 }, { "verbose", 0 },
	};
	long timeout = setting_read_number(OFFLOAD_DEBUG "/timeout_ms");
	int error = 0;

	if (timeout < TIMEOUT_MS)
		timeout = TIMEOUT_MS;
	for (unsigned int i = 0; !error && i < ARRAY_SIZE(parameters); i++)
		error = setting_write_number(setting_path(PARAMETERS "%s", parameters[i].name),
					     parameters[i].value);
	return error ?: setting_write(PARAMETERS "device", "") ?:
	       setting_write_number(PARAMETERS "iterations", exam->options->iterations) ?:
	       setting_write_number(PARAMETERS "timeout", timeout);
}

/* Returns how many channels dmatest takes: another client may have some. */
static unsigned int add_channels(const struct engine *engine)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < engine->nr_channels; i++)
		nr += !setting_write(PARAMETERS "channel", engine->channel[i]);
	return nr;
}

static void wait_for_end(struct engine *engine, struct counts *counts, unsigned int channels,
			 int log)
{
	unsigned int silent = 0;

	while (counts->ended < channels && silent < 10 * SILENCE_S) {
		bool heard = read_log(engine, counts, log);

		/* One mistake is enough, and one that hangs takes long to make many. */
		if (engine->complaint[0])
			return;
		silent = heard || is_running() ? 0 : silent + 1;
		usleep(100000);
	}
}

bool run_dmatest(struct exam *exam, struct engine *engine)
{
	struct counts counts = { 0 };
	unsigned int channels;
	int log, error;

	progress(exam, "dmatest %s", engine->driver);
	if (module_load("dmatest", ""))
		return hinder(exam, "the module dmatest cannot be loaded: see dmesg");
	if (is_running() || is_configured())
		return hinder(exam, "another program uses dmatest: end it first");
	log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (log < 0 || lseek(log, 0, SEEK_END) < 0)
		return hinder(exam, "/dev/kmsg cannot be read: %s", strerror(errno));
	error = configure(exam);
	channels = error ? 0 : add_channels(engine);
	if (!error && channels)
		error = setting_write_number(PARAMETERS "run", 1);
	if (error || !channels) {
		close(log);
		return hinder(exam, "dmatest does not start on %s: %s", engine->driver,
			      error ? strerror(-error) : "no channel is free");
	}
	wait_for_end(engine, &counts, channels, log);
	/* Threads say how many failures they saw before they end. */
	setting_write_number(PARAMETERS "run", 0);
	read_log(engine, &counts, log);
	close(log);

	engine->tests = counts.tests;
	engine->failures = counts.failures;
	engine->tested = counts.ended >= channels;
	return engine->tested ||
	       hinder(exam, "the results of dmatest on %s are not in the kernel log",
		      engine->driver);
}
