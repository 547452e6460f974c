// SPDX-License-Identifier: GPL-2.0
/*
 * migrate-offload-doctor: its verdict on an engine that works, and on ones that lie, hang and
 * corrupt. It restores the machine's settings, also when it is interrupted.
 */
#include "run.h"
#include "window.h"

#define TIMEOUT		300
#define DOCTOR		"/usr/sbin/migrate-offload-doctor"
#define OUTPUT		"/tmp/doctor.json"
#define DMATEST		"/sys/module/dmatest/parameters/"

enum exit_code { USE_IT, DO_NOT, COULD_NOT_TELL };

/* A fault of the engine. */
enum fault { NONE, LIES, CORRUPTS, CORRUPTS_RARELY, HANGS, LOSES_INTERRUPTS, FAILS };

/* One of this number of copies. */
#define RARELY		10

/* The last words of the doctor. */
static char output[65536];

FIXTURE(doctor) { };

static void set_fault(enum fault fault)
{
	static const char * const of_dmasim[] = {
		[LIES] = "no_copy", [CORRUPTS] = "wrong_byte", [CORRUPTS_RARELY] = "wrong_byte",
		[HANGS] = "never_complete", [FAILS] = "result_error",
	};
	static const enum knob of_model[] = {
		[LIES] = SKIP_EVERY, [CORRUPTS] = FLIP_EVERY, [CORRUPTS_RARELY] = FLIP_EVERY,
		[HANGS] = HANG_EVERY, [LOSES_INTERRUPTS] = LOST_EVERY, [FAILS] = ERROR_EVERY,
	};
	const unsigned int every = fault == CORRUPTS_RARELY ? RARELY : 1;

	if (fault == NONE)
		return;
	if (engine_is("dmasim")) {
		engine_set_fault(of_dmasim[fault], 100 / every);
		return;
	}
	/* A descriptor that hung writes no more when it is let go. */
	window_set(ERROR_CODE, engine_model()->error);
	if (fault == HANGS)
		window_set(ERROR_EVERY, 1);
	window_set(of_model[fault], every);
}

static void end_faults(void)
{
	if (engine_is("dmasim"))
		engine_clear_faults();
	else
		window_end_faults();
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
	glob_t paths;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	for (unsigned int i = 0; i < ARRAY_SIZE(patterns); i++)
		if (glob(patterns[i], i ? GLOB_APPEND : 0, NULL, &paths) && !i)
			break;
	for (size_t i = 0; i < paths.gl_pathc; i++)
		if (!setting_read(paths.gl_pathv[i], value, sizeof(value)))
			fprintf(file, "%s: %s\n", paths.gl_pathv[i], value);
	globfree(&paths);
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
struct event { const char *cue; enum fault fault; int sig; };

/* Runs the doctor. Its exit status, or -1; its standard output is in @output. */
static int run(struct event event, const char *option)
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
		set_fault(event.fault);
		if (event.sig)
			kill(pid, event.sig);
	}
	fclose(progress);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	output[0] = '\0';
	setting_read(OUTPUT, output, sizeof(output));
	printf("# %.1000s\n", output);
	return same_state(before) ? WEXITSTATUS(status) : -1;
}

static bool says(const char *text)
{
	return strstr(output, text);
}

static const struct event nothing = { NULL, NONE, 0 };

static bool can_stop(void)
{
	return engine_is("dmasim") || engine_model()->terminates;
}

/* The administrator answers for an engine that cannot stop. */
static const char *answer(void)
{
	static char option[32];

	snprintf(option, sizeof(option), "--engine=%s", engine_module());
	return can_stop() ? NULL : option;
}

/* A sound engine: a model pays in virtual time, and software never. */
static int verdict(void)
{
	return engine_is("dmasim") ? DO_NOT : USE_IT;
}

FIXTURE_SETUP(doctor)
{
	/* AE4DMA's driver loads PTDMA's, which maps rings, and stays: count mappings afterwards. */
	ASSERT_EQ(0, engine_load_module(""));
	if (!run_begin(_metadata))
		return;
	if (access(DOCTOR, X_OK))
		SKIP(return, "no " DOCTOR);
	ASSERT_EQ(0, engine_load_module(""));
	if (!engine_is("dmasim"))
		ASSERT_TRUE(window_map());
	/* An emulated machine takes longer than an engine may. */
	ASSERT_EQ(0, engine_set_timeout(ENGINE_LONG_MS));
}

FIXTURE_TEARDOWN(doctor)
{
	end_faults();
	if (!engine_is("dmasim"))
		EXPECT_TRUE(window_wait_until_idle());
	if (module_loaded("dmatest"))
		EXPECT_EQ(0, module_unload("dmatest"));
	run_end();
	window_unmap();
}

/* Runs the doctor, and expects that it says each of some texts. */
static void expect_says(int status, struct event event, const char *option,
			const char * const *texts)
{
	EXPECT_EQ(status, run(event, option));
	for (; *texts; texts++) {
		EXPECT_TRUE(says(*texts))
			TH_LOG("%s", *texts);
	}
}

#define EXPECT_SAYS(status, event, option, ...)					\
	expect_says(status, event, option, (const char * const []) { __VA_ARGS__, NULL })

TEST_F_TIMEOUT(doctor, sound, TIMEOUT)
{
	char bounded[128];

	snprintf(bounded, sizeof(bounded),
		 "\"engine\": \"%s\", \"folio_kib\": 2048, \"bound_us\": 50, \"demoted\": false, \"live\": 0",
		 engine_module());
	EXPECT_SAYS(verdict(), nothing, answer(),
		    engine_is("dmasim") ? "made of software" : "It makes no mistake, and it pays",
		    can_stop() ? "\"stops\": true" : "\"stops\": false", "\"failures\": 0}",
		    "\"moved\": true", "\"hindrance\": \"\"", bounded);
}

/* dmatest finds it, so no memory is moved. */
static void expect_found_by_dmatest(enum fault fault)
{
	set_fault(fault);
	EXPECT_SAYS(DO_NOT, nothing, NULL, "of dmatest failed", "\"moved\": false");
	EXPECT_FALSE(says("\"migrator\": \"dcbm\""));
}

TEST_F_TIMEOUT(doctor, lies, TIMEOUT) { expect_found_by_dmatest(LIES); }
TEST_F_TIMEOUT(doctor, corrupts, TIMEOUT) { expect_found_by_dmatest(CORRUPTS); }

TEST_F_TIMEOUT(doctor, hangs, TIMEOUT)
{
	ASSERT_EQ(0, engine_set_timeout(1000));
	expect_found_by_dmatest(HANGS);
}

/* The engine goes wrong only when memory moves. */
static void expect_found_by_moves(enum fault fault, const char *why)
{
	EXPECT_SAYS(DO_NOT, ((struct event){ "move folios", fault, 0 }), answer(), why,
		    "\"failures\": 0}", "\"moved\": true", "\"settings\": []");
}

#define FOUND_BY_MOVES(name, fault, why)					\
	TEST_F_TIMEOUT(doctor, name, TIMEOUT) { expect_found_by_moves(fault, why); }

FOUND_BY_MOVES(lies_later, LIES, "It corrupts memory")
FOUND_BY_MOVES(corrupts_later, CORRUPTS, "It corrupts memory")
FOUND_BY_MOVES(corrupts_rarely, CORRUPTS_RARELY, "It corrupts memory")
FOUND_BY_MOVES(fails_later, FAILS, "It reports errors")

TEST_F_TIMEOUT(doctor, hangs_later, TIMEOUT)
{
	/* A queue of a model does not stop in a copy that hangs: the memory would be lost. */
	if (!can_stop())
		SKIP(return, "%s does not stop", engine_module());
	ASSERT_EQ(0, engine_set_timeout(300));
	expect_found_by_moves(engine_is("dmasim") ? HANGS : LOSES_INTERRUPTS,
			      "It does not end in time");
}

/* Only the administrator can answer for an engine that may go on. */
TEST_F_TIMEOUT(doctor, cannot_stop, TIMEOUT)
{
	if (!engine_is("dmasim") && can_stop())
		SKIP(return, "%s can stop", engine_module());
	if (engine_is("dmasim")) {
		ASSERT_EQ(0, module_unload("dmasim"));
		ASSERT_EQ(0, module_load("dmasim", "can_stop=N"));
	}
	EXPECT_SAYS(DO_NOT, nothing, NULL, "\"stops\": false", "cannot tell whether",
		    "\"moved\": false");
	if (engine_is("dmasim"))
		EXPECT_SAYS(DO_NOT, nothing, "--engine=dmasim", "\"moved\": true");
}

/* Others use a processor. */
TEST_F_TIMEOUT(doctor, beside_a_load, TIMEOUT)
{
	pid_t pid = fork();

	if (!pid)
		for (;;)
			;
	EXPECT_SAYS(COULD_NOT_TELL, nothing, NULL, "others use", "\"moves\": []");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The settings and modules of a machine that uses copy offload already. */
static void use_copy_offload(void)
{
	ASSERT_EQ(0, module_load("mtcopy", "threads=3"));
	ASSERT_EQ(0, module_load("dcbm", "min_pages=24"));
	ASSERT_EQ(0, module_load("dmatest", "iterations=7 test_buf_size=4096"));
	ASSERT_EQ(0, offload_set_route("compaction", "cpu"));
	ASSERT_EQ(0, offload_set_route("demotion", "mtcopy required"));
	ASSERT_EQ(0, offload_set_route("damon", "dcbm"));
	/* The doctor measures what the CPU copies all the same. */
	ASSERT_EQ(0, offload_set_route(MOVE_PAGES, "none required"));
	ASSERT_EQ(0, offload_set_bound(100));
	ASSERT_EQ(0, offload_set_enabled(true));
	ASSERT_EQ(0, setting_write(THP_DIR "/hugepages-64kB/enabled", "always"));
	ASSERT_EQ(0, setting_write(NUMA_BALANCING, "1"));
}

TEST_F_TIMEOUT(doctor, puts_back_what_was_set, TIMEOUT)
{
	use_copy_offload();
	EXPECT_EQ(verdict(), run(nothing, NULL));
}

static const char * const steps[] = { "find engines", "ask dcbm", "dmatest", "move folios" };

TEST_F_TIMEOUT(doctor, interrupted, TIMEOUT)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++)
		EXPECT_EQ(COULD_NOT_TELL, run((struct event){ steps[i], NONE, SIGINT }, NULL));
	use_copy_offload();
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++)
		EXPECT_EQ(COULD_NOT_TELL, run((struct event){ steps[i], NONE, SIGTERM }, NULL));
}

TEST_F_TIMEOUT(doctor, options, TIMEOUT)
{
	static const char * const no_nodes[] = {
		"--nodes=0", "--nodes=0,0", "--nodes=0,1,2", "--nodes=1,900", "--nodes=-1,0",
	};
	char text[32];

	EXPECT_EQ(0, run(nothing, "--help"));
	EXPECT_EQ(COULD_NOT_TELL, run(nothing, "--unknown"));
	EXPECT_EQ(COULD_NOT_TELL, run(nothing, "--size=0"));
	/* More memory than there is. */
	EXPECT_SAYS(COULD_NOT_TELL, nothing, "--size=100000", "free memory are needed");
	for (unsigned int i = 0; i < ARRAY_SIZE(no_nodes); i++)
		EXPECT_EQ(COULD_NOT_TELL, run(nothing, no_nodes[i]));
	snprintf(text, sizeof(text), "--nodes=%d,%d", nodes[1], nodes[0]);
	EXPECT_EQ(verdict(), run(nothing, text));
	snprintf(text, sizeof(text), "\"nodes\": [%d, %d]", nodes[1], nodes[0]);
	EXPECT_TRUE(says(text));
	EXPECT_SAYS(COULD_NOT_TELL, nothing, "--engine=another",
		    "there is no engine with the driver another");
}

TEST_HARNESS_MAIN
