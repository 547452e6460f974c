// SPDX-License-Identifier: GPL-2.0
/*
 * migrate-offload-doctor: is a DMA engine of this machine safe and worth it for copy offload
 * of page migration? See its --help.
 *
 * A child examines the machine. Its parent has saved everything before, and does nothing but
 * wait, so that it can put everything back however the child ends.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

/* Others may use this number of processors. */
#define BUSY	0.5
/* A channel that hangs keeps its module for so long. */
#define UNLOAD_S	30

static const char usage_text[] =
"Usage: migrate-offload-doctor [OPTION]...\n"
"Is a DMA engine of this machine safe and worth it for copying migrated memory?\n"
"Tests engines with dmatest, moves memory in every way, verifies every byte, says what to\n"
"do, and restores all settings, also when interrupted, unless by SIGKILL. Run it as root,\n"
"on a machine that does nothing important: until the end it uses engines, and changes\n"
"routes, huge pages, NUMA balancing and demotion, for all programs. An engine that writes\n"
"after it says that it is done may write to any program's memory: try an unknown engine\n"
"on a machine that you can lose, and for hours (-i 1000000).\n"
"\n"
"  -s, --size=MB          memory to move in each way (default: 256)\n"
"  -i, --iterations=N     tests of dmatest for each channel (default: 200)\n"
"  -e, --engine=DRIVER    only this engine; also if its driver cannot tell that it has\n"
"                         stopped: if it hangs, memory is lost until the next boot\n"
"  -n, --nodes=FROM,TO    move memory between these nodes (default: of the fastest and\n"
"                         the slowest tier, or the first two that have enough)\n"
"  -f, --force            also while other programs use the processors\n"
"  -j, --json             print JSON\n"
"  -q, --quiet            do not print steps, nor what they disturb\n"
"  -h, --help             print this\n"
"\n"
"Exit status: 0: use it; 1: do not; 2: could not tell.\n";

/* Each may use those behind it: they are unloaded in this order. */
static struct module {
	const char *name;
	bool loaded;
} modules[] = { { .name = "dmatest" }, { .name = "dcbm" }, { .name = "mtcopy" } };

/* Threads of dmatest, and batches of a migrator, end first. */
static int unload(const char *name)
{
	for (unsigned int tenth = 0; ; tenth++) {
		int error = module_unload(name);

		if ((error != -EAGAIN && error != -EBUSY) || tenth == 10 * UNLOAD_S)
			return error == -ENOENT ? 0 : error;
		usleep(100000);
	}
}

/* The last setting that is remembered is put back first: the main switch finds its routes. */
static void remember_all(void)
{
	memory_settings_save();
	setting_save("/sys/kernel/mm/numa/demotion_enabled");
	offload_save();
	for (unsigned int i = ARRAY_SIZE(modules); i-- > 0;) {
		modules[i].loaded = module_loaded(modules[i].name);
		settings_save(setting_path("/sys/module/%s/parameters/*", modules[i].name));
	}
}

static unsigned int put_back_all(void)
{
	unsigned int wrong;

	/* Terminates what dmatest still does, and gives the channels back. */
	setting_write("/sys/module/dmatest/parameters/run", "0");
	offload_set_enabled(false);
	wrong = settings_restore_below("", "doctor");
	settings_forget();
	for (unsigned int i = 0; i < ARRAY_SIZE(modules); i++) {
		int error = modules[i].loaded ? 0 : unload(modules[i].name);

		if (!error)
			continue;
		fprintf(stderr, "doctor: cannot unload %s: %s\n", modules[i].name,
			strerror(-error));
		wrong++;
	}
	return wrong;
}

static void test_engine(struct exam *exam, struct engine *engine)
{
	/* Until it is judged: only what is sound so far is given memory to move. */
	engine->verdict = COULD_NOT_TELL;
	if (!engine->for_memory || !run_dmatest(exam, engine) || engine->failures)
		return;
	if (exam->options->engine || engine->stops)
		engine->verdict = USE_IT;
}

/* Of all processors together, the time in which they were not idle. */
static double busy_seconds(void)
{
	FILE *file = fopen("/proc/uptime", "re");
	double up = 0, idle = 0;

	if (file && fscanf(file, "%lf %lf", &up, &idle) != 2)
		up = 0;
	if (file)
		fclose(file);
	return up * sysconf(_SC_NPROCESSORS_ONLN) - idle;
}

/* A load of others would be measured as well, and disturbed. */
static bool is_idle(struct exam *exam)
{
	double busy = -busy_seconds();

	if (exam->options->force)
		return true;
	sleep(1);
	busy += busy_seconds();
	return busy <= BUSY ||
	       hinder(exam, "others use %.1f processors: stop them, or give --force", busy);
}

static int examine(const struct options *options)
{
	static struct exam exam;

	exam.options = options;
	exam.seconds = -seconds_now();
	if (is_idle(&exam)) {
		progress(&exam,
			 "until the end, for all programs: memory that they migrate is copied in the ways under test, engines are taken, NUMA balancing is off, huge pages and demotion are set, and %zu MB are in use",
			 options->size / MIB);
		find_engines(&exam);
		list_ways(&exam);
		for (unsigned int i = 0; i < exam.nr_engines; i++)
			test_engine(&exam, &exam.engine[i]);
		if ((exam.nr_engines || !options->engine) && find_nodes(&exam))
			move_memory(&exam);
	}
	exam.seconds += seconds_now();
	judge(&exam);
	if (options->json)
		print_json(&exam);
	else
		print_words(&exam);
	return fflush(stdout) ? COULD_NOT_TELL : (int)exam.verdict;
}

/*
 * Returns the wait status of @child once it and all that it started have ended: by
 * themselves, or because of a signal, which becomes *@interrupted.
 */
static int wait_for(pid_t child, const sigset_t *signals, int *interrupted)
{
	int status, result = -1;
	pid_t pid;

	for (;;) {
		int sig = sigwaitinfo(signals, NULL);

		if (sig > 0 && sig != SIGCHLD)
			*interrupted = sig;
		if (*interrupted)
			kill(-child, SIGKILL);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == child)
				result = status;
		if (pid < 0 && errno == ECHILD)
			return result;
	}
}

static int supervise(const struct options *options)
{
	const pid_t self = getpid();
	int status, interrupted = 0;
	sigset_t signals, before;
	unsigned int wrong;
	pid_t child;

	/* Blocked for good: nothing keeps the parent from putting back. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGQUIT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &before);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	remember_all();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		setpgid(0, 0);
		_exit(getppid() == self ? examine(options) : COULD_NOT_TELL);
	}
	if (child < 0) {
		perror("doctor: fork");
		return COULD_NOT_TELL;
	}
	setpgid(child, child);
	status = wait_for(child, &signals, &interrupted);
	wrong = put_back_all();
	if (interrupted || !WIFEXITED(status)) {
		fprintf(stderr, "doctor: %s%s\n", interrupted ? "interrupted" : "failed",
			wrong ? "" : "; all settings are as they were");
		return COULD_NOT_TELL;
	}
	/* Settings that differ were reported above. */
	return WEXITSTATUS(status);
}

static unsigned long parse(const char *text, unsigned long most)
{
	char *end;
	unsigned long number;

	errno = 0;
	number = strtoul(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || !number || number > most) {
		fprintf(stderr, "doctor: '%s' is not a number from 1 to %lu\n", text, most);
		exit(COULD_NOT_TELL);
	}
	return number;
}

static void parse_nodes(const char *text, int node[2])
{
	int end = 0;

	if (sscanf(text, "%4d,%4d%n", &node[0], &node[1], &end) != 2 || text[end] ||
	    node[0] == node[1] || !node_exists(node[0]) || !node_exists(node[1])) {
		fprintf(stderr, "doctor: '%s' are not two nodes\n", text);
		exit(COULD_NOT_TELL);
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "size", required_argument, NULL, 's' },
		{ "iterations", required_argument, NULL, 'i' },
		{ "engine", required_argument, NULL, 'e' },
		{ "nodes", required_argument, NULL, 'n' },
		{ "force", no_argument, NULL, 'f' },
		{ "json", no_argument, NULL, 'j' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	struct options options = { .size = 256 * MIB, .iterations = 200 };
	int option;

	while ((option = getopt_long(argc, argv, "s:i:e:n:fjqh", long_options, NULL)) != -1) {
		switch (option) {
		case 's':
			/* Whole huge pages. */
			options.size = (parse(optarg, 1024 * 1024) + 1) / 2 * 2 * MIB;
			break;
		case 'i':
			options.iterations = parse(optarg, 1000000000);
			break;
		case 'e':
			options.engine = optarg;
			break;
		case 'n':
			parse_nodes(optarg, options.node);
			break;
		case 'f':
			options.force = true;
			break;
		case 'j':
			options.json = true;
			break;
		case 'q':
			options.quiet = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			return 0;
		default:
			fputs(usage_text, stderr);
			return COULD_NOT_TELL;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "doctor: unexpected '%s'\n", argv[optind]);
		return COULD_NOT_TELL;
	}
	if (!geteuid() && offload_available())
		return supervise(&options);
	fprintf(stderr, "doctor: %s\n", geteuid() ? "must be run by root: use sudo" :
		"this kernel has no " OFFLOAD_DIR ": boot one that has");
	return COULD_NOT_TELL;
}
