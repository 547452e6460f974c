// SPDX-License-Identifier: GPL-2.0
/*
 * Migration counts mapped pages of many folios at once, and leaves the sums right: of each
 * node and memory cgroup, whatever happens to the memory and to the cgroup meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "kselftest_harness.h"
#include "memory.h"
#include "setting.h"

#define TIMEOUT		120
#define SEED		31
#define LENGTH		(2 * MIB)
#define LARGE		(64 * KIB)
/* The kernel sums up what its CPUs have counted every two seconds. */
#define SUM_SECONDS	8
#define ROUNDS		30
#define ROUND_SECONDS	6
#define HELD_FOLIOS	8

#define CGROUPS		"/sys/fs/cgroup"

FIXTURE(migrate_counts)
{
	int nodes[2];
	/* The process is in home, and in first or second while it allocates. */
	char top[64], home[96], first[96], second[96];
	size_t folio_size;
	int flags;
	const char *name;	/* in memory.numa_stat */
	char *addr;
};

FIXTURE_VARIANT(migrate_counts)
{
	bool large;
	bool shmem;
};

FIXTURE_VARIANT_ADD(migrate_counts, small) { };
FIXTURE_VARIANT_ADD(migrate_counts, large) { .large = true, };
FIXTURE_VARIANT_ADD(migrate_counts, shmem) { .shmem = true, };

/* A thread that moves the memory to the second node. */
struct mover {
	FIXTURE_DATA(migrate_counts) *self;
	bool begins;
	double seconds;		/* that it took last time */
};

static void __attribute__((constructor)) save_settings(void)
{
	memory_settings_save();
}

static int join(const char *cgroup)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	return setting_write(path, "0");
}

static bool map_memory(FIXTURE_DATA(migrate_counts) *self)
{
	char *addr = mmap(NULL, 2 * LENGTH, PROT_READ | PROT_WRITE, self->flags, -1, 0);
	char *end = addr + 2 * LENGTH;

	if (addr == MAP_FAILED)
		return false;
	self->addr = (char *)(((uintptr_t)addr + LENGTH - 1) & ~(LENGTH - 1));
	if (self->addr > addr)
		munmap(addr, self->addr - addr);
	if (end > self->addr + LENGTH)
		munmap(self->addr + LENGTH, end - self->addr - LENGTH);
	return !madvise(self->addr, LENGTH,
			self->folio_size == LARGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Allocates memory of @cgroup. */
static int fill(FIXTURE_DATA(migrate_counts) *self, const char *cgroup, size_t offset,
		size_t len, int node)
{
	int ret = join(cgroup);

	if (!ret)
		ret = memory_fill(self->addr + offset, len, self->folio_size,
				  self->nodes[node], SEED);
	return join(self->home) ?: ret;
}

static long move(FIXTURE_DATA(migrate_counts) *self, int node)
{
	return memory_move(0, self->addr, LENGTH, self->folio_size, self->nodes[node],
			   MPOL_MF_MOVE_ALL);
}

static long move_half(FIXTURE_DATA(migrate_counts) *self)
{
	return memory_move(0, self->addr, LENGTH / 2, self->folio_size, self->nodes[1],
			   MPOL_MF_MOVE_ALL);
}

/* Bytes that @cgroup counts on @node; -1 if there is no such number. */
static long counted(const char *cgroup, const char *name, int node)
{
	char path[128], line[512], key[32];
	long bytes = -1;
	FILE *file;
	char *at;

	snprintf(path, sizeof(path), "%s/memory.numa_stat", cgroup);
	snprintf(key, sizeof(key), " N%d=", node);
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		at = line + strlen(name);
		if (strncmp(line, name, strlen(name)) || *at != ' ')
			continue;
		at = strstr(at, key);
		if (at)
			bytes = strtol(at + strlen(key), NULL, 10);
	}
	fclose(file);
	return bytes;
}

/* The same, once it is @bytes, or else after some time. */
static long counted_in_time(const char *cgroup, const char *name, int node, long bytes)
{
	double end = seconds_now() + SUM_SECONDS;
	long now;

	do {
		now = counted(cgroup, name, node);
		if (now == bytes)
			break;
		usleep(20000);
	} while (seconds_now() < end);
	return now;
}

FIXTURE_SETUP(migrate_counts)
{
	char control[128];

	settings_restore();
	if (!memory_two_nodes(&self->nodes[0], &self->nodes[1]))
		SKIP(return, "needs two nodes with memory");
	if (setting_write(CGROUPS "/cgroup.subtree_control", "+memory"))
		SKIP(return, "needs cgroup2 with memory");
	numa_balancing_off();
	if (variant->large && thp_only(LARGE))
		SKIP(return, "no folios of 64 KiB");

	snprintf(self->top, sizeof(self->top), CGROUPS "/migrate_counts.%d", getpid());
	snprintf(self->home, sizeof(self->home), "%s/home", self->top);
	snprintf(self->first, sizeof(self->first), "%s/first", self->top);
	snprintf(self->second, sizeof(self->second), "%s/second", self->top);
	snprintf(control, sizeof(control), "%s/cgroup.subtree_control", self->top);
	ASSERT_EQ(0, mkdir(self->top, 0755));
	ASSERT_EQ(0, setting_write(control, "+memory"));
	ASSERT_EQ(0, mkdir(self->home, 0755));
	ASSERT_EQ(0, mkdir(self->first, 0755));
	ASSERT_EQ(0, mkdir(self->second, 0755));
	ASSERT_EQ(0, join(self->home));

	self->folio_size = variant->large ? LARGE : memory_page_size();
	self->flags = MAP_ANONYMOUS | (variant->shmem ? MAP_SHARED : MAP_PRIVATE);
	self->name = variant->shmem ? "file_mapped" : "anon";
	/* What fill() touches besides the memory is not of a cgroup that is looked at. */
	ASSERT_TRUE(map_memory(self));
	ASSERT_EQ(0, fill(self, self->home, 0, LENGTH, 0));
	munmap(self->addr, LENGTH);
	ASSERT_TRUE(map_memory(self));
}

FIXTURE_TEARDOWN(migrate_counts)
{
	munmap(self->addr, LENGTH);
	join(CGROUPS);
	rmdir(self->second);
	rmdir(self->first);
	rmdir(self->home);
	rmdir(self->top);
	settings_restore();
}

#define EXPECT_COUNTED(cgroup, node, bytes)					\
	EXPECT_EQ(bytes, counted_in_time(cgroup, self->name, self->nodes[node], bytes))

/* Neighbours belong to different cgroups. */
TEST_F_TIMEOUT(migrate_counts, moved, TIMEOUT)
{
	for (size_t i = 0; i < LENGTH; i += self->folio_size)
		ASSERT_EQ(0, fill(self, i / self->folio_size % 2 ? self->second : self->first,
				  i, self->folio_size, 0));
	for (int node = 0; node < 2; node++) {
		EXPECT_COUNTED(self->first, node, node ? 0 : (long)LENGTH / 2);
		EXPECT_COUNTED(self->second, node, node ? 0 : (long)LENGTH / 2);
	}
	for (int to = 1; to >= 0; to--) {
		ASSERT_EQ(0, move(self, to));
		for (int node = 0; node < 2; node++) {
			EXPECT_COUNTED(self->first, node, node == to ? (long)LENGTH / 2 : 0);
			EXPECT_COUNTED(self->second, node, node == to ? (long)LENGTH / 2 : 0);
		}
	}
}

/* Folios with a reference are unmapped, and mapped again where they were. */
TEST_F_TIMEOUT(migrate_counts, could_not_be_moved, TIMEOUT)
{
	int held[2];
	long left;

	ASSERT_EQ(0, fill(self, self->first, 0, LENGTH, 0));
	ASSERT_EQ(0, pipe(held));
	for (size_t i = 0; i < LENGTH; i += LENGTH / HELD_FOLIOS) {
		struct iovec vec = { .iov_base = self->addr + i, .iov_len = 8 };

		ASSERT_EQ(8, vmsplice(held[1], &vec, 1, 0));
	}
	move(self, 1);
	left = memory_pages_not_on(self->addr, LENGTH, self->nodes[1]) * memory_page_size();
	EXPECT_LE(HELD_FOLIOS * self->folio_size, left);
	EXPECT_GT((long)LENGTH, left);
	EXPECT_COUNTED(self->first, 0, left);
	EXPECT_COUNTED(self->first, 1, (long)LENGTH - left);
	close(held[0]);
	close(held[1]);
}

static void *move_to_second(void *arg)
{
	struct mover *mover = arg;
	double begun;

	run_on_cpus(0, 0);
	begun = seconds_now();
	__atomic_store_n(&mover->begins, true, __ATOMIC_RELEASE);
	move(mover->self, 1);
	mover->seconds = seconds_now() - begun;
	return NULL;
}

/* Moves the memory. Meanwhile, drops half of it, and removes @cgroup unless it is NULL. */
static bool drop_while_moved(struct mover *mover, long round, const char *cgroup)
{
	FIXTURE_DATA(migrate_counts) *self = mover->self;
	double then, share = mover->seconds * (round * 37 % 101) / 101;
	pid_t child = fork_idle();
	bool removed = true;
	pthread_t thread;

	mover->begins = false;
	if (child < 0 || pthread_create(&thread, NULL, move_to_second, mover))
		return false;
	while (!__atomic_load_n(&mover->begins, __ATOMIC_ACQUIRE))
		sched_yield();
	then = seconds_now() + share;
	while (seconds_now() < then)
		sched_yield();
	kill(child, SIGKILL);
	for (size_t i = 0; i < LENGTH; i += 2 * LARGE)
		madvise(self->addr + i, LARGE, MADV_DONTNEED);
	if (cgroup)
		removed = !rmdir(cgroup);
	pthread_join(thread, NULL);
	return waitpid(child, NULL, 0) == child && removed;
}

/* A process ends, and another one drops memory, while it is unmapped or just mapped. */
TEST_F_TIMEOUT(migrate_counts, dropped_while_moved, TIMEOUT)
{
	double end = seconds_now() + ROUND_SECONDS;
	struct mover mover = { .self = self };
	char *kept = self->addr;

	/* Something to be subtracted from: counters show no less than 0. */
	ASSERT_EQ(0, fill(self, self->first, 0, LENGTH, 0));
	ASSERT_EQ(0, move_half(self));
	for (long round = 1; round <= ROUNDS && seconds_now() < end; round++) {
		ASSERT_TRUE(map_memory(self));
		ASSERT_EQ(0, fill(self, self->first, 0, LENGTH, 0));
		ASSERT_TRUE(drop_while_moved(&mover, round, NULL));
		munmap(self->addr, LENGTH);
	}
	self->addr = kept;
	for (int node = 0; node < 2; node++)
		EXPECT_COUNTED(self->first, node, (long)LENGTH / 2);
}

/* The memory cgroup, in which nobody is any longer, is removed as well. */
TEST_F_TIMEOUT(migrate_counts, removed_while_moved, TIMEOUT)
{
	double end = seconds_now() + ROUND_SECONDS;
	struct mover mover = { .self = self };
	char *kept = self->addr;
	char cgroup[128];

	ASSERT_EQ(0, fill(self, self->first, 0, LENGTH, 0));
	ASSERT_EQ(0, move_half(self));
	snprintf(cgroup, sizeof(cgroup), "%s/removed", self->top);
	for (long round = 1; round <= ROUNDS && seconds_now() < end; round++) {
		ASSERT_TRUE(map_memory(self));
		ASSERT_EQ(0, mkdir(cgroup, 0755));
		ASSERT_EQ(0, fill(self, cgroup, 0, LENGTH, 0));
		ASSERT_TRUE(drop_while_moved(&mover, round, cgroup));
		munmap(self->addr, LENGTH);
	}
	self->addr = kept;
	/* What is left of removed ones is counted by the one above. */
	for (int node = 0; node < 2; node++) {
		long all, own;

		end = seconds_now() + SUM_SECONDS;
		do {
			usleep(20000);
			all = counted(self->top, self->name, self->nodes[node]);
			own = counted(self->home, self->name, self->nodes[node]);
		} while (all - own != LENGTH / 2 && seconds_now() < end);
		EXPECT_EQ((long)LENGTH / 2, all - own) TH_LOG("on node %d", node);
	}
}

TEST_HARNESS_MAIN
