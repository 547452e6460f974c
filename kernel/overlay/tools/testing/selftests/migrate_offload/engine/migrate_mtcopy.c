// SPDX-License-Identifier: GPL-2.0
/*
 * mtcopy: helpers copy their share on idle CPUs that the caller may use, delay no task that wants
 * these CPUs, and survive CPUs that come and go. On the machine of these tests they pay.
 *
 * Needs two nodes with a CPU each.
 */
#include <dirent.h>

#include "run.h"

#define TIMEOUT		300
#define PARAMETERS	"/sys/module/mtcopy/parameters/"
#define CPU1_ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define CGROUP		"/sys/fs/cgroup/"
#define ISOLATED	"/sys/devices/system/cpu/isolated"

/* A helper may join each of them. */
#define MOVES		(debug_kernel() ? 6U : 20U)

/*
 * The one helper copies at least this many per cent of the pages while it has a CPU to
 * itself: nearly half of them once mtcopy has learned that helpers pay. Where a host takes
 * their time away, they may not.
 */
#define FAIR_SHARE	(times_count() ? 20 : 0)
#define FAIR_SECONDS	30

FIXTURE(mtcopy) { };

static long helped_pages(void)
{
	return setting_read_number(PARAMETERS "helped_pages");
}

/* Folios that a child has mapped too would stay where they are. */
static void create(enum area_kind kind, size_t size)
{
	create_area(kind, size);
	ASSERT_EQ(0, madvise(area.addr, area.size, MADV_DONTFORK));
}

/* The helper of @cpu, or 0. */
static pid_t find_helper(int cpu)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char name[32], wanted[32];
	pid_t helper = 0;

	snprintf(wanted, sizeof(wanted), "mtcopy/%d", cpu);
	while (proc && !helper && (entry = readdir(proc))) {
		pid_t pid = atoi(entry->d_name);

		if (pid && !setting_read(setting_path("/proc/%d/comm", pid), name, sizeof(name)) &&
		    !strcmp(name, wanted))
			helper = pid;
	}
	if (proc)
		closedir(proc);
	return helper;
}

FIXTURE_SETUP(mtcopy)
{
	if (!run_begin(_metadata))
		return;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two CPUs");
	ASSERT_EQ(module_load("mtcopy", ""), 0);
	route_only(MOVE_PAGES, "mtcopy");
	ASSERT_EQ(offload_set_bound(0), 0);
	create(AREA_ANON_2M, 8 * MIB);
}

FIXTURE_TEARDOWN(mtcopy)
{
	run_on_cpus(0, CPU_SETSIZE - 1);
	run_end();
	EXPECT_EQ(find_helper(0), 0);
	EXPECT_EQ(find_helper(1), 0);
}

/* Returns how many pages helpers copied while the area went back and forth. */
static long back_and_forth(unsigned int moves)
{
	long helped = helped_pages();

	offload_mark();
	for (unsigned int i = 0; i < moves; i++) {
		EXPECT_EQ(area_move(&area, nodes[(i + 1) % 2]), 0);
		EXPECT_EQ(area_wrong(&area), 0);
		if (i % 2)
			area_stamp(&area, i);
	}
	expect_copies(moves * area_folios(&area), "fallback_", 0);
	return helped_pages() - helped;
}

/*
 * True if helpers copy their share in some round. mtcopy may have to learn first that they
 * pay: there are many rounds.
 */
static bool helpers_do_their_share(void)
{
	const long pages = MOVES * area.size / memory_page_size();
	double end = seconds_now() + FAIR_SECONDS;
	long helped;

	do {
		helped = back_and_forth(MOVES);
		printf("# helpers copied %ld of %ld pages\n", helped, pages);
		EXPECT_LT(helped, pages);
		if (helped && helped >= pages * FAIR_SHARE / 100)
			return true;
	} while (seconds_now() < end);
	return false;
}

TEST_F_TIMEOUT(mtcopy, folios_of_every_size, TIMEOUT)
{
	for (enum area_kind kind = 0; kind < NR_AREA_KINDS; kind++) {
		create(kind, 8 * MIB);
		EXPECT_TRUE(helpers_do_their_share())
			TH_LOG("%s: helpers copied less than their share in each round",
			       area_kind_names[kind]);
	}
}

TEST_F_TIMEOUT(mtcopy, affinity_of_the_caller, TIMEOUT)
{
	run_on_cpus(0, 0);
	EXPECT_EQ(back_and_forth(MOVES), 0);
	run_on_cpus(0, 1);
	EXPECT_TRUE(helpers_do_their_share());
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
	EXPECT_EQ(back_and_forth(MOVES), 0);

	EXPECT_EQ(setting_write(CGROUP "mtcopy/cpuset.cpus", "0-1"), 0);
	EXPECT_TRUE(helpers_do_their_share());

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
		EXPECT_TRUE(helpers_do_their_share());
		return;
	}
	EXPECT_EQ(back_and_forth(MOVES), 0);
	/* A caller on CPU 1 may ask CPU 0. */
	EXPECT_EQ(sched_getcpu(), 0);
}

TEST_F_TIMEOUT(mtcopy, helpers_are_idle_and_bound, TIMEOUT)
{
	cpu_set_t cpus;

	for (int cpu = 0; cpu < 2; cpu++) {
		pid_t pid = find_helper(cpu);

		ASSERT_GT(pid, 0);
		EXPECT_EQ(sched_getscheduler(pid), SCHED_IDLE);
		EXPECT_EQ(sched_getaffinity(pid, sizeof(cpus), &cpus), 0);
		EXPECT_EQ(CPU_COUNT(&cpus), 1);
		EXPECT_TRUE(CPU_ISSET(cpu, &cpus));
	}
}

TEST_F_TIMEOUT(mtcopy, one_thread, TIMEOUT)
{
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 1), 0);
	EXPECT_EQ(back_and_forth(MOVES), 0);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 2), 0);
	EXPECT_TRUE(helpers_do_their_share());
}

/* mtcopy refuses a batch of less than min_pages. */
TEST_F_TIMEOUT(mtcopy, small_batches, TIMEOUT)
{
	long helped = helped_pages();

	create_area(AREA_ANON_4K, 64 * KIB);
	move_to(nodes[1]);
	expect_copies(0, "fallback_small", 16);
	EXPECT_EQ(helped_pages(), helped);
}

/* Processor time of a helper so far, in seconds. */
static double helper_seconds(int cpu)
{
	unsigned long user = 0, system = 0;
	char stat[512], *at;

	if (setting_read(setting_path("/proc/%d/stat", find_helper(cpu)), stat, sizeof(stat)))
		return -1;
	at = strrchr(stat, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			  &user, &system) != 2)
		return -1;
	return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

/*
 * A process that wants all of a CPU, but for @pause_us (and up to a half more) after
 * each @busy seconds. @policy may be one that nothing else preempts.
 */
static pid_t start_spinner(int cpu, double busy, unsigned int pause_us, int policy)
{
	struct sched_param param = { .sched_priority = policy == SCHED_FIFO };
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run_on_cpus(cpu, cpu);
	sched_setscheduler(0, policy, &param);
	for (;;) {
		double end = seconds_now() + busy;

		while (seconds_now() < end)
			;
		usleep(pause_us + random() % (pause_us / 2));
	}
}

/* Other work that wants both CPUs keeps them, and the caller finishes. */
TEST_F_TIMEOUT(mtcopy, busy_cpus_are_left_alone, TIMEOUT)
{
	pid_t spinners[] = { start_spinner(0, TIMEOUT, 1000, SCHED_OTHER),
			     start_spinner(1, TIMEOUT, 1000, SCHED_OTHER) };
	double begin, took, wall;
	unsigned int moves = 0;
	long helped;

	usleep(200000);
	helped = helped_pages();
	took = helper_seconds(0) + helper_seconds(1);
	EXPECT_GE(took, 0);
	begin = seconds_now();
	do {
		EXPECT_EQ(area_move(&area, nodes[++moves % 2]), 0);
		wall = seconds_now() - begin;
	} while (wall < 1.5 || moves % 2);
	took = helper_seconds(0) + helper_seconds(1) - took;
	for (int cpu = 0; cpu < 2; cpu++)
		end_process(spinners[cpu]);
	printf("# %u moves, helpers copied %ld pages and took %.1f %% of a CPU\n", moves,
	       helped_pages() - helped, took / wall * 100);
	EXPECT_EQ(area_wrong(&area), 0);
	if (times_count())
		EXPECT_LT(took, wall * 0.1);
	EXPECT_TRUE(helpers_do_their_share());
}

static long preemptions(pid_t pid)
{
	return setting_find_number(setting_path("/proc/%d/status", pid),
				   "nonvoluntary_ctxt_switches:");
}

/*
 * A real-time task takes the CPU of a helper in the middle of a copy, and keeps it: that move
 * waits no longer than for a piece. (The next one waits: it drains the LRU caches of all CPUs.)
 * The caller has a higher priority: it stays on CPU 0.
 */
#define BURST		0.1
TEST_F_TIMEOUT(mtcopy, caller_waits_for_no_other_task, TIMEOUT)
{
	struct sched_param fifo = { .sched_priority = 2 }, other = { 0 };
	pid_t helper = find_helper(1), spinner;
	long before = preemptions(helper), preempted = before;
	double start, longest = 0, begin, took;
	unsigned int moves = 0;

	ASSERT_GE(before, 0);
	/* Helpers pay, since the pauses are longer. */
	spinner = start_spinner(1, BURST, 3 * BURST * 1e6, SCHED_FIFO);
	run_on_cpus(0, 0);
	ASSERT_EQ(sched_setscheduler(0, SCHED_FIFO, &fifo), 0);
	run_on_cpus(0, 1);
	offload_mark();
	start = seconds_now();
	do {
		begin = seconds_now();
		EXPECT_EQ(area_move(&area, nodes[++moves % 2]), 0);
		took = seconds_now() - begin;
		if (preemptions(helper) > preempted && took > longest)
			longest = took;
		preempted = preemptions(helper);
	} while (moves % 2 || (preempted < before + 5 && begin < start + 100 * BURST));
	ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &other), 0);
	end_process(spinner);
	printf("# %u moves, %ld lost their helper, the longest of these took %.0f ms\n", moves,
	       preempted - before, longest * 1000);
	EXPECT_EQ(area_wrong(&area), 0);
	EXPECT_EQ(offload_grown("fallback_"), 0);
	if (times_count()) {
		EXPECT_GE(preempted, before + 5);
		EXPECT_LT(longest, BURST / 2);
	}
}

TEST_F_TIMEOUT(mtcopy, cpus_come_and_go, TIMEOUT)
{
	unsigned int toggles = debug_kernel() ? 6 : 20, moves = 0, i;
	int status, err = 0;
	pid_t pid;

	if (setting_read_number(CPU1_ONLINE) != 1)
		SKIP(return, "CPU 1 cannot be taken offline");
	fflush(stdout);
	pid = fork();
	if (!pid) {
		for (i = 0; i < toggles && !err; i++) {
			err = setting_write_number(CPU1_ONLINE, 0);
			usleep(random() % 50000);
			err = err ?: setting_write_number(CPU1_ONLINE, 1);
			usleep(random() % 50000);
		}
		_exit(err != 0);
	}
	do {
		EXPECT_EQ(area_move(&area, nodes[++moves % 2]), 0);
		EXPECT_EQ(area_wrong(&area), 0);
	} while (!waitpid(pid, &status, WNOHANG));
	EXPECT_EQ(status, 0);
	printf("# %u moves, CPU 1 went %u times\n", moves, toggles);

	if (moves % 2)
		EXPECT_EQ(area_move(&area, nodes[0]), 0);
	EXPECT_TRUE(helpers_do_their_share());
}

TEST_HARNESS_MAIN
