// SPDX-License-Identifier: GPL-2.0
/*
 * mtcopy: helpers copy, on CPUs that the caller may use and nothing else does, never
 * above the caller, and they survive CPUs that come and go.
 *
 * Needs two nodes with a CPU each.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

/* Enough for a helper to have had its chance. */
#define MOVES		20

FIXTURE(mtcopy)
{
	int nodes[2];
	int log;
	struct area area;
};

static long helped_pages(void)
{
	return setting_read_number(PARAMETERS "helped_pages");
}

static void run_on(int first, int last)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (int cpu = first; cpu <= last; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
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

FIXTURE_SETUP(mtcopy)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 ||
	    !memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes and two CPUs");
	self->log = kernel_log_open();
	ASSERT_GE(self->log, 0);
	offload_save();
	area_settings_save();
	if (module_loaded("mtcopy"))
		ASSERT_EQ(module_unload("mtcopy"), 0);
	ASSERT_EQ(module_load("mtcopy", ""), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "mtcopy"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	ASSERT_TRUE(create(&self->area, AREA_ANON_2M, 8 * MIB, self->nodes[0]));
}

FIXTURE_TEARDOWN(mtcopy)
{
	run_on(0, CPU_SETSIZE - 1);
	area_destroy(&self->area);
	settings_restore();
	EXPECT_EQ(module_unload("mtcopy"), 0);
	EXPECT_EQ(find_helper(0), 0);
	EXPECT_EQ(find_helper(1), 0);
	EXPECT_EQ(kernel_log_bad(self->log), 0);
	close(self->log);
}

/* Returns how many pages helpers copied while the area went to and fro. */
static long to_and_fro(struct __test_metadata *_metadata, FIXTURE_DATA(mtcopy) *self,
		       unsigned int moves)
{
	struct offload_stats before, after;
	long helped = helped_pages();
	unsigned int i;

	offload_read_stats(&before);
	for (i = 0; i < moves; i++) {
		EXPECT_EQ(area_move(&self->area, self->nodes[(i + 1) % 2]), 0);
		EXPECT_EQ(area_wrong(&self->area), 0);
		if (i % 2)
			area_stamp(&self->area, i);
	}
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"),
		  moves * area_folios(&self->area));
	EXPECT_EQ(offload_growth(&before, &after, "fallback_"), 0);
	return helped_pages() - helped;
}

/*
 * Helpers that were of no use are asked again some time. On a busy host they may come
 * too late for a few moves.
 */
static bool help_returns(struct __test_metadata *_metadata, FIXTURE_DATA(mtcopy) *self)
{
	double end = seconds_now() + 10;

	while (seconds_now() < end) {
		if (to_and_fro(_metadata, self, 2))
			return true;
		usleep(50000);
	}
	return false;
}

TEST_F_TIMEOUT(mtcopy, helpers_copy, TIMEOUT)
{
	long pages = MOVES * self->area.size / memory_page_size();
	long helped = to_and_fro(_metadata, self, MOVES);

	printf("# helpers copied %ld of %ld pages\n", helped, pages);
	EXPECT_TRUE(helped || help_returns(_metadata, self));
	EXPECT_LT(helped, pages);
}

/*
 * Whatever the size of the folios, and each of their bytes. A helper may come too late
 * for any of a few moves.
 */
TEST_F_TIMEOUT(mtcopy, folios_of_every_size, TIMEOUT)
{
	enum area_kind kind;

	for (kind = 0; kind < NR_AREA_KINDS; kind++) {
		double end = seconds_now() + 10;
		long helped = helped_pages();
		unsigned int i;

		area_destroy(&self->area);
		ASSERT_TRUE(create(&self->area, kind, 8 * MIB, self->nodes[0]));
		for (i = 0; i < MOVES ||
		     (helped_pages() == helped && seconds_now() < end); i++) {
			if (i >= MOVES)
				usleep(50000);
			EXPECT_EQ(area_move(&self->area, self->nodes[(i + 1) % 2]), 0);
			EXPECT_EQ(area_wrong(&self->area), 0);
			area_stamp(&self->area, i);
		}
		EXPECT_GT(helped_pages(), helped)
			TH_LOG("%s: no helper copied", area_kind_names[kind]);
	}
}

TEST_F_TIMEOUT(mtcopy, affinity_of_the_caller, TIMEOUT)
{
	run_on(0, 0);
	EXPECT_EQ(to_and_fro(_metadata, self, MOVES), 0);
	run_on(0, 1);
	EXPECT_TRUE(help_returns(_metadata, self));
}

TEST_F_TIMEOUT(mtcopy, cpuset_of_the_caller, TIMEOUT)
{
	char pid[16];
	cpu_set_t cpus;

	snprintf(pid, sizeof(pid), "%d", getpid());
	if (setting_write(CGROUP "cgroup.subtree_control", "+cpuset") ||
	    mkdir(CGROUP "mtcopy", 0755))
		SKIP(return, "no cpuset controller");

	EXPECT_EQ(setting_write(CGROUP "mtcopy/cpuset.cpus", "0"), 0);
	EXPECT_EQ(setting_write(CGROUP "mtcopy/cgroup.procs", pid), 0);
	EXPECT_EQ(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
	EXPECT_EQ(CPU_COUNT(&cpus), 1);
	EXPECT_EQ(to_and_fro(_metadata, self, MOVES), 0);

	EXPECT_EQ(setting_write(CGROUP "mtcopy/cpuset.cpus", "0-1"), 0);
	EXPECT_TRUE(help_returns(_metadata, self));

	EXPECT_EQ(setting_write(CGROUP "cgroup.procs", pid), 0);
	EXPECT_EQ(rmdir(CGROUP "mtcopy"), 0);
}

/* With isolcpus=1 as without it: nothing but that must keep helpers off CPU 1. */
TEST_F_TIMEOUT(mtcopy, isolated_cpus_are_left_alone, TIMEOUT)
{
	char list[64] = "";

	setting_read(ISOLATED, list, sizeof(list));
	run_on(0, 1);
	if (strcmp(list, "1")) {
		EXPECT_TRUE(help_returns(_metadata, self));
		return;
	}
	EXPECT_EQ(to_and_fro(_metadata, self, MOVES), 0);
	/* From there CPU 0 may be asked. */
	EXPECT_EQ(sched_getcpu(), 0);
}

/* Before, and after a caller had to lend them its own priority. */
TEST_F_TIMEOUT(mtcopy, helpers_are_idle_and_bound, TIMEOUT)
{
	unsigned int round;
	cpu_set_t cpus;
	int cpu;

	for (round = 0; round < 2; round++) {
		for (cpu = 0; cpu < 2; cpu++) {
			pid_t pid = find_helper(cpu);

			ASSERT_GT(pid, 0);
			EXPECT_EQ(sched_getscheduler(pid), SCHED_IDLE);
			EXPECT_EQ(sched_getaffinity(pid, sizeof(cpus), &cpus), 0);
			EXPECT_EQ(CPU_COUNT(&cpus), 1);
			EXPECT_TRUE(CPU_ISSET(cpu, &cpus));
		}
		EXPECT_TRUE(help_returns(_metadata, self));
	}
}

TEST_F_TIMEOUT(mtcopy, idle_caller_is_alone, TIMEOUT)
{
	struct sched_param param = { 0 };

	ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &param), 0);
	EXPECT_EQ(to_and_fro(_metadata, self, MOVES), 0);
	ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &param), 0);
	EXPECT_TRUE(help_returns(_metadata, self));
}

TEST_F_TIMEOUT(mtcopy, one_thread, TIMEOUT)
{
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 0), -EINVAL);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 17), -EINVAL);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 1), 0);
	EXPECT_EQ(to_and_fro(_metadata, self, MOVES), 0);
	EXPECT_EQ(setting_write_number(PARAMETERS "threads", 2), 0);
	EXPECT_TRUE(help_returns(_metadata, self));
}

/* A batch of less than min_pages is not for mtcopy at all. */
TEST_F_TIMEOUT(mtcopy, small_batches, TIMEOUT)
{
	struct offload_stats before, after;
	long helped = helped_pages();

	area_destroy(&self->area);
	ASSERT_TRUE(create(&self->area, AREA_ANON_4K, 64 * KIB, self->nodes[0]));
	offload_read_stats(&before);
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
	offload_read_stats(&after);
	EXPECT_EQ(offload_growth(&before, &after, "fallback_small"), 16);
	EXPECT_EQ(offload_growth(&before, &after, "folios_copied"), 0);
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

/* Processes that want all of both CPUs. */
static void start_spinners(pid_t pids[2])
{
	for (int cpu = 0; cpu < 2; cpu++) {
		fflush(stdout);
		pids[cpu] = fork();
		if (!pids[cpu]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_on(cpu, cpu);
			for (;;)
				;
		}
	}
}

/* Somebody else's work has the CPUs: it keeps them, and the caller finishes. */
TEST_F_TIMEOUT(mtcopy, busy_cpus_are_left_alone, TIMEOUT)
{
	double begin, took, wall;
	unsigned int moves = 0;
	pid_t spinners[2];
	long helped;

	start_spinners(spinners);
	usleep(200000);
	helped = helped_pages();
	took = helper_seconds(0) + helper_seconds(1);
	EXPECT_GE(took, 0);
	begin = seconds_now();
	do {
		EXPECT_EQ(area_move(&self->area, self->nodes[++moves % 2]), 0);
		wall = seconds_now() - begin;
	} while (wall < 4);
	took = helper_seconds(0) + helper_seconds(1) - took;
	for (int cpu = 0; cpu < 2; cpu++) {
		kill(spinners[cpu], SIGKILL);
		waitpid(spinners[cpu], NULL, 0);
	}
	printf("# %u moves, helpers copied %ld pages and took %.1f %% of a CPU\n", moves,
	       helped_pages() - helped, took / wall * 100);
	EXPECT_EQ(area_wrong(&self->area), 0);
	EXPECT_GT(moves, 2);
	EXPECT_LT(took, wall * 0.1);

	if (moves % 2)
		EXPECT_EQ(area_move(&self->area, self->nodes[0]), 0);
	EXPECT_TRUE(help_returns(_metadata, self));
}

/*
 * A helper that lost its CPU in the middle of a copy gets it back before the other
 * process is done with it: as if the caller itself were there.
 */
#define BURST		3.0
TEST_F_TIMEOUT(mtcopy, preempted_helper_gets_its_share, TIMEOUT)
{
	double end = seconds_now() + 4 * BURST, longest = 0;
	unsigned int moves = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(1, 1);
		for (;;) {
			double until = seconds_now() + BURST;

			while (seconds_now() < until)
				;
			usleep(30000);
		}
	}
	while (seconds_now() < end) {
		double begin = seconds_now();

		EXPECT_EQ(area_move(&self->area, self->nodes[++moves % 2]), 0);
		if (seconds_now() - begin > longest)
			longest = seconds_now() - begin;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
	printf("# %u moves, the longest took %.0f ms\n", moves, longest * 1000);
	EXPECT_LT(longest, BURST / 2);
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
		EXPECT_EQ(area_move(&self->area, self->nodes[++moves % 2]), 0);
		EXPECT_EQ(area_wrong(&self->area), 0);
	} while (!waitpid(pid, &status, WNOHANG));
	EXPECT_EQ(status, 0);
	printf("# %u moves, CPU 1 went %u times\n", moves, toggles);

	if (moves % 2)
		EXPECT_EQ(area_move(&self->area, self->nodes[0]), 0);
	EXPECT_TRUE(help_returns(_metadata, self));
}

/* A helper loses its CPU in the middle of a copy for longer than callers wait. */
static pid_t start_hog(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct sched_param param = { .sched_priority = 1 };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(1, 1);
		sched_setscheduler(0, SCHED_FIFO, &param);
		for (;;) {
			double end = seconds_now() + 0.06;

			while (seconds_now() < end)
				;
			usleep(10000 + random() % 10000);
		}
	}
	return pid;
}

/* In the parent only this may follow: the module cannot be unloaded any more. */
FIXTURE(mtcopy_lost)
{
	int nodes[2];
	int log;
	struct area area;
};

FIXTURE_SETUP(mtcopy_lost)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 ||
	    !memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes and two CPUs");
	self->log = kernel_log_open();
	offload_save();
	area_settings_save();
	ASSERT_EQ(module_load("mtcopy", "timeout_ms=10"), 0);
	ASSERT_EQ(offload_route_only("syscall_or_cpuset", "mtcopy"), 0);
	ASSERT_EQ(offload_set_enabled(true), 0);
	ASSERT_TRUE(create(&self->area, AREA_ANON_2M, 8 * MIB, self->nodes[0]));
}

FIXTURE_TEARDOWN(mtcopy_lost)
{
	settings_restore();
	EXPECT_EQ(kernel_log_bad(self->log), 0);
	close(self->log);
}

TEST_F_TIMEOUT(mtcopy_lost, folios_stay_and_leak, TIMEOUT)
{
	double end = seconds_now() + 60;
	struct offload_stats before, after;
	uint64_t lost = 0;
	long helped;
	unsigned int moves = 0;
	long stayed = 0;
	pid_t hog;

	hog = start_hog();
	ASSERT_GT(hog, 0);
	offload_read_stats(&before);
	while (!lost && seconds_now() < end) {
		stayed = area_move(&self->area, self->nodes[++moves % 2]);
		EXPECT_EQ(area_wrong(&self->area), 0);
		offload_read_stats(&after);
		lost = offload_growth(&before, &after, "fallback_lost");
	}
	/* What the helper writes late must hit nothing that anybody uses. */
	area_stamp(&self->area, 99);
	kill(hog, SIGKILL);
	waitpid(hog, NULL, 0);
	printf("# %u moves until %llu folios were lost, %ld stayed\n", moves,
	       (unsigned long long)lost, stayed);
	ASSERT_GT(lost, 0);
	EXPECT_EQ(stayed, lost);
	EXPECT_EQ(module_unload("mtcopy"), -EAGAIN);

	/* The only helper there was is not asked again, and memory still moves. */
	usleep(500000);
	EXPECT_EQ(area_wrong(&self->area), 0);
	area_destroy(&self->area);
	ASSERT_TRUE(create(&self->area, AREA_ANON_2M, 8 * MIB, self->nodes[0]));
	run_on(0, 0);
	run_on(0, 1);
	helped = helped_pages();
	EXPECT_EQ(area_move(&self->area, self->nodes[1]), 0);
	EXPECT_EQ(area_move(&self->area, self->nodes[0]), 0);
	EXPECT_EQ(area_wrong(&self->area), 0);
	printf("# helpers copied %ld pages afterwards\n", helped_pages() - helped);
}

TEST_HARNESS_MAIN
