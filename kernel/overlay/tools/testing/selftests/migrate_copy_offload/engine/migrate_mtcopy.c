// SPDX-License-Identifier: GPL-2.0
/*
 * mtcopy: helpers copy their share on idle CPUs that the caller may use, never with
 * more priority than the caller, and survive CPUs that come and go. mtcopy finds out
 * whether they pay; all other tests ask them always.
 *
 * Needs two nodes with a CPU each.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		300
#define PARAMETERS	"/sys/module/mtcopy/parameters/"
#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define CGROUP		"/sys/fs/cgroup/"
#define ISOLATED	"/sys/devices/system/cpu/isolated"

/* A helper may join each of them. */
#define MOVES		(debug_kernel() ? 6U : 20U)

/*
 * The one helper copies at least this many per cent of the pages while it has a CPU to
 * itself: nearly half of them on an idle machine, less where the host interferes.
 */
#define FAIR_SHARE	20
#define FAIR_SECONDS	30

struct run {
	struct engine_test test;
	struct area area;
};

FIXTURE(mtcopy)
{
	struct run run;
};

/* Leaves a module behind that cannot be unloaded: run it last. */
FIXTURE(mtcopy_lost)
{
	struct run run;
};

static long helped_pages(void)
{
	return setting_read_number(PARAMETERS "helped_pages");
}

static long helped_batches(void)
{
	return setting_read_number(PARAMETERS "helped_batches");
}

static long lone_batches(void)
{
	return setting_read_number(PARAMETERS "lone_batches");
}

/* Folios that a child has mapped too would stay where they are. */
static bool create(struct area *area, enum area_kind kind, size_t size, int node)
{
	return area_create(area, kind, size, node) &&
	       !madvise(area->addr, area->size, MADV_DONTFORK);
}

/* The helper of @cpu, or 0. */
static pid_t find_helper(int cpu)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char path[300], name[32], wanted[32];
	pid_t found = 0;

	snprintf(wanted, sizeof(wanted), "mtcopy/%d", cpu);
	while (proc && !found && (entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (atoi(entry->d_name) && !setting_read(path, name, sizeof(name)) &&
		    !strcmp(name, wanted))
			found = atoi(entry->d_name);
	}
	if (proc)
		closedir(proc);
	return found;
}

static void set_up(struct __test_metadata *_metadata, struct run *run,
		   const char *parameters)
{
	const char *missing = engine_test_begin(&run->test);

	if (!missing && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		missing = "needs two CPUs";
	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_EQ(module_load("mtcopy", parameters), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "mtcopy"), 0);
	ASSERT_EQ(offload_set_bound("syscall_or_cpuset", 0), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	ASSERT_TRUE(create(&run->area, AREA_ANON_2M, 8 * MIB, run->test.nodes[0]));
}

static void tear_down(struct __test_metadata *_metadata, struct run *run)
{
	run_on_cpus(0, CPU_SETSIZE - 1);
	area_destroy(&run->area);
	EXPECT_EQ(engine_test_end(&run->test), 0);
}

FIXTURE_SETUP(mtcopy)
{
	set_up(_metadata, &self->run, "adapt=N");
}

FIXTURE_TEARDOWN(mtcopy)
{
	tear_down(_metadata, &self->run);
	EXPECT_EQ(find_helper(0), 0);
	EXPECT_EQ(find_helper(1), 0);
}

FIXTURE_SETUP(mtcopy_lost)
{
	set_up(_metadata, &self->run, "adapt=N");
	ASSERT_EQ(engine_set_timeout(10), 0);
}

FIXTURE_TEARDOWN(mtcopy_lost)
{
	tear_down(_metadata, &self->run);
}

/* Returns how many pages helpers copied while the area went back and forth. */
static long back_and_forth(struct __test_metadata *_metadata, struct run *run,
			   unsigned int moves)
{
	long helped = helped_pages();
	unsigned int i;

	offload_mark();
	for (i = 0; i < moves; i++) {
		EXPECT_EQ(area_move(&run->area, run->test.nodes[(i + 1) % 2]), 0);
		EXPECT_EQ(area_wrong(&run->area), 0);
		if (i % 2)
			area_stamp(&run->area, i);
	}
	EXPECT_EQ(offload_grown("folios_copied"), moves * area_folios(&run->area));
	EXPECT_EQ(offload_grown("fallback_"), 0);
	return helped_pages() - helped;
}

/*
 * True if helpers copy their share in some round. A helper that was of no use before
 * rests for a while, and a busy host may keep the CPU from it: there are many rounds.
 */
static bool helpers_do_their_share(struct __test_metadata *_metadata, struct run *run)
{
	const long pages = MOVES * run->area.size / memory_page_size();
	double end = seconds_now() + FAIR_SECONDS;
	long helped;

	do {
		helped = back_and_forth(_metadata, run, MOVES);
		printf("# helpers copied %ld of %ld pages\n", helped, pages);
		EXPECT_LT(helped, pages);
		if (helped >= pages * FAIR_SHARE / 100)
			return true;
	} while (seconds_now() < end);
	return false;
}

TEST_F_TIMEOUT(mtcopy, folios_of_every_size, TIMEOUT)
{
	struct run *run = &self->run;
	enum area_kind kind;

	for (kind = 0; kind < NR_AREA_KINDS; kind++) {
		area_destroy(&run->area);
		ASSERT_TRUE(create(&run->area, kind, 8 * MIB, run->test.nodes[0]));
		EXPECT_TRUE(helpers_do_their_share(_metadata, run))
			TH_LOG("%s: helpers copied less than their share in each round",
			       area_kind_names[kind]);
	}
}

/*
 * mtcopy tries both ways, and keeps to one of them unless it changes its mind. Which way
 * is faster is up to the machine, where CPUs do not take turns.
 */
#define LEARN_MOVES	(5 * MOVES)
TEST_F_TIMEOUT(mtcopy, finds_out_whether_helpers_pay, TIMEOUT)
{
	struct run *run = &self->run;
	long helped, lone;

	EXPECT_EQ(setting_write(PARAMETERS "adapt", "Y"), 0);
	helped = helped_batches();
	lone = lone_batches();
	back_and_forth(_metadata, run, LEARN_MOVES);
	helped = helped_batches() - helped;
	lone = lone_batches() - lone;
	printf("# %ld batches with helpers, %ld without\n", helped, lone);
	/* 8 MB are four batches at least. */
	EXPECT_GE(helped + lone, 4 * LEARN_MOVES);
	EXPECT_GT(helped, 0);
	EXPECT_GT(lone, 0);
}

TEST_F_TIMEOUT(mtcopy, affinity_of_the_caller, TIMEOUT)
{
	long helped = helped_batches();

	run_on_cpus(0, 0);
	EXPECT_EQ(back_and_forth(_metadata, &self->run, MOVES), 0);
	EXPECT_EQ(helped_batches(), helped);
	run_on_cpus(0, 1);
	EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));
}

TEST_F_TIMEOUT(mtcopy, cpuset_of_the_caller, TIMEOUT)
{
	cpu_set_t cpus;

	if (setting_write(CGROUP "cgroup.subtree_control", "+cpuset") ||
	    mkdir(CGROUP "mtcopy", 0755))
		SKIP(return, "no cpuset controller");

	EXPECT_EQ(setting_write(CGROUP "mtcopy/cpuset.cpus", "0"), 0);
	EXPECT_EQ(setting_write_number(CGROUP "mtcopy/cgroup.procs", getpid()), 0);
	EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	EXPECT_EQ(CPU_COUNT(&cpus), 1);
	EXPECT_EQ(back_and_forth(_metadata, &self->run, MOVES), 0);

	EXPECT_EQ(setting_write(CGROUP "mtcopy/cpuset.cpus", "0-1"), 0);
	EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));

	EXPECT_EQ(setting_write_number(CGROUP "cgroup.procs", getpid()), 0);
	EXPECT_EQ(rmdir(CGROUP "mtcopy"), 0);
}

/* Helpers stay off CPU 1 if the kernel was booted with isolcpus=1, and only then. */
TEST_F_TIMEOUT(mtcopy, isolated_cpus_are_left_alone, TIMEOUT)
{
	char list[64] = "";

	setting_read(ISOLATED, list, sizeof(list));
	run_on_cpus(0, 1);
	if (strcmp(list, "1")) {
		EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));
		return;
	}
	EXPECT_EQ(back_and_forth(_metadata, &self->run, MOVES), 0);
	/* A caller on CPU 1 may ask CPU 0. */
	EXPECT_EQ(sched_getcpu(), 0);
}

static void expect_idle_and_bound(struct __test_metadata *_metadata)
{
	cpu_set_t cpus;
	int cpu;

	for (cpu = 0; cpu < 2; cpu++) {
		pid_t pid = find_helper(cpu);

		ASSERT_GT(pid, 0);
		EXPECT_EQ(sched_getscheduler(pid), SCHED_IDLE);
		EXPECT_EQ(sched_getaffinity(pid, sizeof(cpus), &cpus), 0);
		EXPECT_EQ(CPU_COUNT(&cpus), 1);
		EXPECT_TRUE(CPU_ISSET(cpu, &cpus));
	}
}

TEST_F_TIMEOUT(mtcopy, idle_caller_is_alone, TIMEOUT)
{
	struct sched_param param = { 0 };

	ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &param), 0);
	EXPECT_EQ(back_and_forth(_metadata, &self->run, MOVES), 0);
	ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &param), 0);
	EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));
}

TEST_F_TIMEOUT(mtcopy, one_thread, TIMEOUT)
{
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 0), -EINVAL);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 17), -EINVAL);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 1), 0);
	EXPECT_EQ(back_and_forth(_metadata, &self->run, MOVES), 0);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 2), 0);
	EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));
}

/* mtcopy refuses a batch of less than min_pages. */
TEST_F_TIMEOUT(mtcopy, small_batches, TIMEOUT)
{
	struct run *run = &self->run;
	long helped = helped_pages();

	area_destroy(&run->area);
	ASSERT_TRUE(create(&run->area, AREA_ANON_4K, 64 * KIB, run->test.nodes[0]));
	offload_mark();
	EXPECT_EQ(area_move(&run->area, run->test.nodes[1]), 0);
	EXPECT_EQ(area_wrong(&run->area), 0);
	EXPECT_EQ(offload_grown("fallback_small"), 16);
	EXPECT_EQ(offload_grown("folios_copied"), 0);
	EXPECT_EQ(helped_pages(), helped);
}

/* Processor time of a helper so far, in seconds. */
static double helper_seconds(int cpu)
{
	char path[64], stat[512], *at;
	unsigned long user = 0, system = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", find_helper(cpu));
	if (setting_read(path, stat, sizeof(stat)))
		return -1;
	at = strrchr(stat, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			  &user, &system) != 2)
		return -1;
	return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

/* fork(2); the child runs on @cpu only, and ends with its parent. */
static pid_t fork_to(int cpu)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on_cpus(cpu, cpu);
	}
	return pid;
}

/*
 * A process that wants all of a CPU, but for @pause_us (and up to a half more) after
 * each @busy seconds. @policy may be one that nothing else preempts.
 */
static pid_t start_spinner(int cpu, double busy, unsigned int pause_us, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO };
	pid_t pid = fork_to(cpu);

	if (pid)
		return pid;
	sched_setscheduler(0, policy, &param);
	for (;;) {
		double end = seconds_now() + busy;

		while (seconds_now() < end)
			;
		usleep(pause_us + random() % (pause_us / 2));
	}
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Other work that wants both CPUs keeps them, and the caller finishes. */
TEST_F_TIMEOUT(mtcopy, busy_cpus_are_left_alone, TIMEOUT)
{
	struct run *run = &self->run;
	double begin, took, wall;
	unsigned int moves = 0;
	pid_t spinners[2];
	long helped;
	int cpu;

	for (cpu = 0; cpu < 2; cpu++)
		spinners[cpu] = start_spinner(cpu, TIMEOUT, 1000, SCHED_OTHER);
	usleep(200000);
	helped = helped_pages();
	took = helper_seconds(0) + helper_seconds(1);
	EXPECT_GE(took, 0);
	begin = seconds_now();
	do {
		EXPECT_EQ(area_move(&run->area, run->test.nodes[++moves % 2]), 0);
		wall = seconds_now() - begin;
	} while (wall < 1.5 || moves % 2);
	took = helper_seconds(0) + helper_seconds(1) - took;
	for (cpu = 0; cpu < 2; cpu++)
		stop(spinners[cpu]);
	printf("# %u moves, helpers copied %ld pages and took %.1f %% of a CPU\n", moves,
	       helped_pages() - helped, took / wall * 100);
	EXPECT_EQ(area_wrong(&run->area), 0);
	if (times_count())
		EXPECT_LT(took, wall * 0.1);
	EXPECT_TRUE(helpers_do_their_share(_metadata, run));
}

#define CALLERS_NICE	5

/* A thread on CPU 0 counts how often the helper of CPU 1 has the caller's nice value. */
struct watch {
	pthread_t thread;
	pid_t helper;
	unsigned int lent;
	bool stop;
};

static void *watch_thread(void *arg)
{
	struct watch *watch = arg;

	run_on_cpus(0, 0);
	while (!__atomic_load_n(&watch->stop, __ATOMIC_RELAXED)) {
		watch->lent += sched_getscheduler(watch->helper) == SCHED_OTHER &&
			       getpriority(PRIO_PROCESS, watch->helper) == CALLERS_NICE;
		usleep(2000);
	}
	return NULL;
}

static long preemptions(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return setting_find_number(path, "nonvoluntary_ctxt_switches:");
}

/*
 * Another process takes the CPU of a helper in the middle of a copy. The caller waits,
 * and lends the helper its priority meanwhile: so the wait ends before that process is
 * done with the CPU, and afterwards the helper is what it was.
 */
#define BURST		1.0
TEST_F_TIMEOUT(mtcopy, preempted_helper_is_lent_priority, TIMEOUT)
{
	struct watch watch = { .helper = find_helper(1) };
	double longest = 0, start = seconds_now();
	struct run *run = &self->run;
	unsigned int moves = 0;
	long preempted;
	pid_t spinner;

	expect_idle_and_bound(_metadata);
	preempted = preemptions(watch.helper);
	ASSERT_GE(preempted, 0);
	ASSERT_EQ(setpriority(PRIO_PROCESS, 0, CALLERS_NICE), 0);
	/* A helper that was of no use rests for less than a pause: it copies in each. */
	spinner = start_spinner(1, BURST, 200000, SCHED_OTHER);
	ASSERT_EQ(pthread_create(&watch.thread, NULL, watch_thread, &watch), 0);
	while (seconds_now() < start + 4 * BURST ||
	       (!__atomic_load_n(&watch.lent, __ATOMIC_RELAXED) &&
		seconds_now() < start + 20 * BURST)) {
		double begin = seconds_now();

		EXPECT_EQ(area_move(&run->area, run->test.nodes[++moves % 2]), 0);
		if (seconds_now() - begin > longest)
			longest = seconds_now() - begin;
	}
	stop(spinner);
	__atomic_store_n(&watch.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(pthread_join(watch.thread, NULL), 0);
	preempted = preemptions(watch.helper) - preempted;
	printf("# %u moves, the longest took %.0f ms\n", moves, longest * 1000);
	printf("# the helper was preempted %ld times, and had the caller's nice value %u times\n",
	       preempted, watch.lent);
	EXPECT_EQ(area_wrong(&run->area), 0);
	EXPECT_GT(preempted, 0);
	EXPECT_GT(watch.lent, 0);
	if (times_count())
		EXPECT_LT(longest, BURST / 2);
	expect_idle_and_bound(_metadata);
}

TEST_F_TIMEOUT(mtcopy, cpus_come_and_go, TIMEOUT)
{
	unsigned int toggles = debug_kernel() ? 6 : 20, moves = 0, i;
	int status;
	pid_t pid;

	if (setting_read_number(CPU1_ONLINE) != 1)
		SKIP(return, "CPU 1 cannot be taken offline");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int err = 0;

		for (i = 0; i < toggles && !err; i++) {
			err = setting_write_number(CPU1_ONLINE, 0);
			usleep(random() % 50000);
			err = err ?: setting_write_number(CPU1_ONLINE, 1);
			usleep(random() % 50000);
		}
		_exit(err != 0);
	}
	do {
		EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[++moves % 2]), 0);
		EXPECT_EQ(area_wrong(&self->run.area), 0);
	} while (!waitpid(pid, &status, WNOHANG));
	EXPECT_EQ(status, 0);
	printf("# %u moves, CPU 1 went %u times\n", moves, toggles);

	if (moves % 2)
		EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[0]), 0);
	EXPECT_TRUE(helpers_do_their_share(_metadata, &self->run));
}

/*
 * Keeps CPU 1 from now and then until the next move ends: as long as a helper that lost
 * its CPU in the middle of a copy is waited for.
 */
static pid_t start_hog(const unsigned int *moves, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	pid_t pid = fork_to(1);

	if (pid)
		return pid;
	if (sched_setscheduler(0, SCHED_FIFO, &param))
		_exit(1);
	for (;;) {
		unsigned int before = __atomic_load_n(moves, __ATOMIC_RELAXED);

		while (__atomic_load_n(moves, __ATOMIC_RELAXED) == before)
			;
		/* A move takes 20 to 200 ms: strike anywhere in one. */
		usleep(random() % 200000);
	}
}

/* A CPU that a real-time task keeps goes to others after nearly a second of each. */
#define LATE_SECONDS	0.5

/* @late: those whose helper lost its CPU. @stayed: what the last left where it was. */
struct moves {
	unsigned int nr;
	unsigned int late;
	long preempted;
	double longest;
	long stayed;
};

/* Moves until folios are lost, or for @seconds. */
static struct moves move_beside_hog(struct __test_metadata *_metadata, struct run *run,
				    int priority, double seconds)
{
	unsigned int *moves = mmap(NULL, sizeof(*moves), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct moves done = {};
	double end = seconds_now() + seconds;
	pid_t helper = find_helper(1), hog;
	long before = preemptions(helper);

	ASSERT_NE(moves, MAP_FAILED);
	hog = start_hog(moves, priority);
	ASSERT_GT(hog, 0);
	offload_mark();
	while (!offload_grown("fallback_lost") && seconds_now() < end) {
		double begin = seconds_now(), took;
		long preempted = done.preempted;

		__atomic_store_n(moves, ++done.nr, __ATOMIC_RELAXED);
		done.stayed = area_move(&run->area, run->test.nodes[done.nr % 2]);
		took = seconds_now() - begin;
		done.preempted = preemptions(helper) - before;
		done.late += took > LATE_SECONDS && done.preempted > preempted;
		if (took > done.longest)
			done.longest = took;
		EXPECT_EQ(area_wrong(&run->area), 0);
	}
	stop(hog);
	munmap(moves, sizeof(*moves));
	return done;
}

/*
 * A real-time task has the CPU of a helper that is late: the helper gets it for a moment. One may
 * have to wait until real-time tasks are throttled, where a busy host takes the time away.
 */
TEST_F_TIMEOUT(mtcopy, late_helper_runs_above_others, TIMEOUT)
{
	unsigned int tries = 0;
	long preempted = 0;
	struct moves moves;

	ASSERT_EQ(engine_set_timeout(10), 0);
	do {
		moves = move_beside_hog(_metadata, &self->run, 1, 4);
		preempted += moves.preempted;
		printf("# %u moves, %u late, the longest took %.0f ms; %ld preemptions\n",
		       moves.nr, moves.late, moves.longest * 1000, moves.preempted);
		EXPECT_EQ(offload_grown("fallback_"), 0);
		if (times_count())
			EXPECT_LT(moves.longest, 2);
		EXPECT_LE(moves.late, 1 + moves.preempted / 20);
	} while (preempted < 4 && ++tries < 6);
	EXPECT_GE(preempted, 4);
	if (moves.nr % 2)
		EXPECT_EQ(area_move(&self->run.area, self->run.test.nodes[0]), 0);
	expect_idle_and_bound(_metadata);
}

/* A helper loses its CPU in the middle of a copy for longer than callers wait. */
TEST_F_TIMEOUT(mtcopy_lost, folios_stay_and_leak, TIMEOUT)
{
	struct run *run = &self->run;
	struct moves moves;
	uint64_t lost;

	run->test.stuck = true;
	moves = move_beside_hog(_metadata, run, 99, 180);
	lost = offload_grown("fallback_lost");
	/* What the helper writes late must hit nothing that anybody uses. */
	area_stamp(&run->area, 99);
	printf("# %u moves until %llu folios were lost, %ld stayed\n", moves.nr,
	       (unsigned long long)lost, moves.stayed);
	ASSERT_GT(lost, 0);
	EXPECT_EQ(moves.stayed, lost);
	if (times_count())
		EXPECT_LT(moves.longest, 10);
	EXPECT_EQ(module_unload("mtcopy"), -EAGAIN);

	/* Nobody asks that helper again, and memory still moves. */
	usleep(500000);
	EXPECT_EQ(area_wrong(&run->area), 0);
	area_destroy(&run->area);
	ASSERT_TRUE(create(&run->area, AREA_ANON_2M, 8 * MIB, run->test.nodes[0]));
	run_on_cpus(0, 0);
	EXPECT_EQ(back_and_forth(_metadata, run, 2), 0);
	run_on_cpus(0, 1);
	back_and_forth(_metadata, run, 2);
}

TEST_HARNESS_MAIN
