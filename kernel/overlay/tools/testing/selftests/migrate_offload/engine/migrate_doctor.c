// SPDX-License-Identifier: GPL-2.0
/*
 * migrate-offload-doctor: what it says of an engine that works, and of ones that lie, hang and
 * corrupt; and that it leaves the machine as it was, also when it is interrupted.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "engine.h"
#include "offload.h"
#include "setting.h"
#include "window.h"

#define TIMEOUT		300
#define DOCTOR		"/usr/sbin/migrate-offload-doctor"
#define OUTPUT		"/tmp/doctor.json"
#define DMATEST		"/sys/module/dmatest/parameters/"

enum exit_code { USE_IT, DO_NOT, COULD_NOT_TELL };

/* What is wrong with the engine. */
enum fault { NONE, LIES, CORRUPTS, CORRUPTS_RARELY, HANGS, FAILS };

/* One copy in so many. */
#define RARELY		50

FIXTURE(doctor)
{
	struct engine_test test;
	struct window window;
	char said[65536];
};

static bool is_dmasim(void)
{
	return !strcmp(engine_module(), "dmasim");
}

static void set_fault(FIXTURE_DATA(doctor) *self, enum fault fault)
{
	static const char * const of_dmasim[] = {
		[LIES] = "no_copy", [CORRUPTS] = "wrong_byte",
		[CORRUPTS_RARELY] = "wrong_byte", [HANGS] = "never_complete",
		[FAILS] = "result_error",
	};
	static const enum knob of_model[] = {
		[LIES] = SKIP_EVERY, [CORRUPTS] = FLIP_EVERY,
		[CORRUPTS_RARELY] = FLIP_EVERY, [HANGS] = HANG_EVERY,
		[FAILS] = ERROR_EVERY,
	};
	const unsigned int every = fault == CORRUPTS_RARELY ? RARELY : 1;

	if (fault == NONE)
		return;
	if (is_dmasim()) {
		engine_set_fault(of_dmasim[fault], 100 / every);
		return;
	}
	/* What hung writes no more when it is let go. */
	window_set(&self->window, ERROR_CODE, ODMA0_AXI_SLVERR);
	if (fault == HANGS)
		window_set(&self->window, ERROR_EVERY, 1);
	window_set(&self->window, of_model[fault], every);
}

static void end_faults(FIXTURE_DATA(doctor) *self)
{
	if (is_dmasim())
		engine_clear_faults();
	else
		window_end_faults(&self->window);
}

/* All that the doctor might change, as one text. */
static char *state_of_machine(void)
{
	static const char * const patterns[] = {
		OFFLOAD_DIR "/*", OFFLOAD_DIR "/routes/*",
		THP_DIR "/hugepages-*/enabled", NUMA_BALANCING, DMATEST "*", DCBM_PARAMETERS "*",
		"/sys/module/mtcopy/parameters/t*",
	};
	char *text, value[256];
	glob_t found;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	for (unsigned int i = 0; i < ARRAY_SIZE(patterns); i++)
		if (glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &found) && !i)
			break;
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (!setting_read(found.gl_pathv[i], value, sizeof(value)))
			fprintf(file, "%s: %s\n", found.gl_pathv[i], value);
	globfree(&found);
	fclose(file);
	return text;
}

static bool same_state(char *before)
{
	char *after = state_of_machine(), *line, *place = after;
	bool same = !strcmp(before, after);

	while (!same && (line = strsep(&place, "\n")))
		if (!strstr(before, line))
			printf("# not put back: %s\n", line);
	free(before);
	free(after);
	return same;
}

/* When the doctor says @cue, this happens to it or to the engine. */
struct event {
	const char *cue;
	enum fault fault;
	int sig;
};

/* Runs the doctor. Its exit status, or -1; what it said on stdout is in @self->said. */
static int run(FIXTURE_DATA(doctor) *self, struct event event, const char *option)
{
	const char * const argv[] = {
		DOCTOR, "--json", "--size", "4", "--iterations", "4", option, NULL
	};
	char *before = state_of_machine();
	char line[512];
	int ends[2], status;
	FILE *progress;
	pid_t pid;

	fflush(stdout);
	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		if (!freopen(OUTPUT, "w", stdout))
			_exit(127);
		execv(DOCTOR, (char **)argv);
		_exit(127);
	}
	close(ends[1]);
	progress = fdopen(ends[0], "r");
	while (fgets(line, sizeof(line), progress)) {
		printf("# %s", line);
		fflush(stdout);
		if (!event.cue || !strstr(line, event.cue))
			continue;
		event.cue = NULL;
		set_fault(self, event.fault);
		if (event.sig)
			kill(pid, event.sig);
	}
	fclose(progress);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	self->said[0] = '\0';
	setting_read(OUTPUT, self->said, sizeof(self->said));
	printf("# %.1000s\n", self->said);
	return same_state(before) ? WEXITSTATUS(status) : -1;
}

static bool says(const FIXTURE_DATA(doctor) *self, const char *text)
{
	return strstr(self->said, text);
}

static const struct event nothing = { NULL, NONE, 0 };

FIXTURE_SETUP(doctor)
{
	const char *missing;

	/* AE4DMA's driver loads PTDMA's, which maps rings, and stays: count mappings afterwards. */
	ASSERT_EQ(0, module_load(engine_module(), ""));
	missing = engine_test_begin(&self->test);
	if (missing)
		SKIP(return, "%s", missing);
	if (access(DOCTOR, X_OK))
		SKIP(return, "no " DOCTOR);
	ASSERT_EQ(0, module_load(engine_module(), ""));
	if (!is_dmasim())
		ASSERT_TRUE(window_map(&self->window));
	/* An emulated machine takes longer than an engine may. */
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
}

FIXTURE_TEARDOWN(doctor)
{
	end_faults(self);
	if (!is_dmasim())
		EXPECT_TRUE(window_wait_until_idle(&self->window));
	if (module_loaded("dmatest"))
		EXPECT_EQ(0, module_unload("dmatest"));
	EXPECT_EQ(0, engine_test_end(&self->test));
	window_unmap(&self->window);
}

TEST_F_TIMEOUT(doctor, sound, TIMEOUT)
{
	int status = run(self, nothing, NULL);

	/* Whether it pays, only a real machine knows. */
	if (is_dmasim())
		EXPECT_EQ(DO_NOT, status);
	EXPECT_TRUE(status == USE_IT || status == DO_NOT);
	EXPECT_EQ(status == USE_IT, says(self, "and it pays"));
	EXPECT_TRUE(says(self, "\"states_result\": true, \"states_terminate\": true"));
	EXPECT_TRUE(says(self, "\"failures\": 0}"));
	EXPECT_TRUE(says(self, "\"moved\": true"));
	EXPECT_TRUE(says(self, is_dmasim() ? "made of software" : "It makes no mistake"));
	EXPECT_TRUE(says(self, "\"folio_kib\": 2048, \"gbps\""));
	EXPECT_TRUE(says(self, "\"hindrance\": \"\""));
}

/* dmatest finds it, so no memory is moved. */
static void expect_found_by_dmatest(struct __test_metadata *_metadata,
				    FIXTURE_DATA(doctor) *self, enum fault fault)
{
	set_fault(self, fault);
	EXPECT_EQ(DO_NOT, run(self, nothing, NULL));
	EXPECT_TRUE(says(self, "of dmatest failed"));
	EXPECT_TRUE(says(self, "\"moved\": false"));
	EXPECT_FALSE(says(self, "\"migrator\": \"dcbm\""));
}

TEST_F_TIMEOUT(doctor, lies, TIMEOUT)
{
	expect_found_by_dmatest(_metadata, self, LIES);
}

TEST_F_TIMEOUT(doctor, corrupts, TIMEOUT)
{
	expect_found_by_dmatest(_metadata, self, CORRUPTS);
}

TEST_F_TIMEOUT(doctor, hangs, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(1000));
	expect_found_by_dmatest(_metadata, self, HANGS);
}

/* The engine goes wrong only when memory moves. */
static void expect_found_by_moves(struct __test_metadata *_metadata,
				  FIXTURE_DATA(doctor) *self, enum fault fault, const char *why)
{
	EXPECT_EQ(DO_NOT, run(self, (struct event){ "move folios", fault, 0 }, NULL));
	EXPECT_TRUE(says(self, "\"failures\": 0}"));
	EXPECT_TRUE(says(self, "\"moved\": true"));
	EXPECT_TRUE(says(self, why));
	EXPECT_TRUE(says(self, "\"settings\": []"));
}

TEST_F_TIMEOUT(doctor, lies_later, TIMEOUT)
{
	expect_found_by_moves(_metadata, self, LIES, "It corrupts memory");
}

TEST_F_TIMEOUT(doctor, corrupts_later, TIMEOUT)
{
	expect_found_by_moves(_metadata, self, CORRUPTS, "It corrupts memory");
}

TEST_F_TIMEOUT(doctor, corrupts_rarely, TIMEOUT)
{
	expect_found_by_moves(_metadata, self, CORRUPTS_RARELY, "It corrupts memory");
}

TEST_F_TIMEOUT(doctor, fails_later, TIMEOUT)
{
	expect_found_by_moves(_metadata, self, FAILS, "It reports errors");
}

TEST_F_TIMEOUT(doctor, hangs_later, TIMEOUT)
{
	if (!strcmp(engine_module(), "ae4dma"))
		SKIP(return, "its queues do not stop: the memory would be lost");
	ASSERT_EQ(0, engine_set_timeout(300));
	expect_found_by_moves(_metadata, self, HANGS, "It does not end in time");
}

/* What the driver does not state, only the administrator can answer for. */
TEST_F_TIMEOUT(doctor, does_not_state, TIMEOUT)
{
	if (!is_dmasim())
		SKIP(return, "%s states all", engine_module());
	ASSERT_EQ(0, module_unload("dmasim"));
	ASSERT_EQ(0, module_load("dmasim", "reliable_terminate=N"));
	EXPECT_EQ(DO_NOT, run(self, nothing, NULL));
	EXPECT_TRUE(says(self, "\"states_result\": true, \"states_terminate\": false"));
	EXPECT_TRUE(says(self, "does not state that terminating"));
	EXPECT_TRUE(says(self, "\"moved\": false"));
	EXPECT_EQ(DO_NOT, run(self, nothing, "--engine=dmasim"));
	EXPECT_TRUE(says(self, "\"moved\": true"));
}

/* Settings and modules of somebody who uses copy offload already. */
static void use_copy_offload(struct __test_metadata *_metadata)
{
	ASSERT_EQ(0, module_load("mtcopy", "threads=3"));
	ASSERT_EQ(0, module_load("dcbm", "min_pages=24"));
	ASSERT_EQ(0, module_load("dmatest", "iterations=7 test_buf_size=4096"));
	ASSERT_EQ(0, offload_set_route("compaction", "cpu"));
	ASSERT_EQ(0, offload_set_route("demotion", "mtcopy required"));
	ASSERT_EQ(0, offload_set_route("damon", "dcbm"));
	/* The doctor measures what the CPU copies all the same. */
	ASSERT_EQ(0, offload_set_route("syscall_or_cpuset", "none required"));
	ASSERT_EQ(0, offload_set_bound(100));
	ASSERT_EQ(0, offload_set_enabled(true));
	ASSERT_EQ(0, setting_write(THP_DIR "/hugepages-64kB/enabled", "always"));
	ASSERT_EQ(0, setting_write(NUMA_BALANCING, "1"));
}

TEST_F_TIMEOUT(doctor, puts_back_what_was_set, TIMEOUT)
{
	use_copy_offload(_metadata);
	EXPECT_LE(USE_IT, run(self, nothing, NULL));
}

static const char * const steps[] = { "find engines", "ask dcbm", "dmatest", "move folios" };

TEST_F_TIMEOUT(doctor, interrupted, TIMEOUT)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++)
		EXPECT_EQ(COULD_NOT_TELL,
			  run(self, (struct event){ steps[i], NONE, SIGINT }, NULL));
	use_copy_offload(_metadata);
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++)
		EXPECT_EQ(COULD_NOT_TELL,
			  run(self, (struct event){ steps[i], NONE, SIGTERM }, NULL));
}

TEST_F_TIMEOUT(doctor, options, TIMEOUT)
{
	static const char * const no_nodes[] = {
		"--nodes=0", "--nodes=0,0", "--nodes=0,1,2", "--nodes=1,900", "--nodes=-1,0",
	};
	char nodes[32];

	EXPECT_EQ(0, run(self, nothing, "--help"));
	EXPECT_EQ(COULD_NOT_TELL, run(self, nothing, "--unknown"));
	EXPECT_EQ(COULD_NOT_TELL, run(self, nothing, "--size=0"));
	/* More memory than there is. */
	EXPECT_EQ(COULD_NOT_TELL, run(self, nothing, "--size=100000"));
	EXPECT_TRUE(says(self, "free memory are needed"));
	for (unsigned int i = 0; i < ARRAY_SIZE(no_nodes); i++)
		EXPECT_EQ(COULD_NOT_TELL, run(self, nothing, no_nodes[i]));
	snprintf(nodes, sizeof(nodes), "--nodes=%d,%d", self->test.nodes[1], self->test.nodes[0]);
	EXPECT_LE(run(self, nothing, nodes), DO_NOT);
	snprintf(nodes, sizeof(nodes), "\"nodes\": [%d, %d]", self->test.nodes[1],
		 self->test.nodes[0]);
	EXPECT_TRUE(says(self, nodes));
	EXPECT_EQ(COULD_NOT_TELL, run(self, nothing, "--engine=another"));
	EXPECT_TRUE(says(self, "there is no engine with the driver another"));
}

TEST_HARNESS_MAIN
