// SPDX-License-Identifier: GPL-2.0
/*
 * Migration counts mapped pages of many folios at once, and leaves the sums right: of each
 * node and memory cgroup, whatever happens to the memory and to the cgroup meanwhile.
 */
#include "folios.h"

#define TIMEOUT		120
#define LENGTH		(2 * MIB)
#define LARGE		(64 * KIB)
/* The kernel sums up what its CPUs have counted every two seconds. */
#define SUM_SECONDS	8
#define ROUNDS		30
#define ROUND_SECONDS	6
#define HELD_FOLIOS	8

#define CGROUPS		"/sys/fs/cgroup"

FIXTURE(migrate_counts) { };

/* The process is in home, and in first or second while it allocates. */
static char top[64], home[96], first[96], second[96];
static size_t folio_size;
static bool shmem;
/* Of the memory, in memory.numa_stat. */
static const char *name;

FIXTURE_VARIANT(migrate_counts)
{
	bool large;
	bool shmem;
};

FIXTURE_VARIANT_ADD(migrate_counts, small) { };
FIXTURE_VARIANT_ADD(migrate_counts, large) { .large = true, };
FIXTURE_VARIANT_ADD(migrate_counts, shmem) { .shmem = true, };

static int join(const char *cgroup)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	return setting_write(path, "0");
}

static bool map_memory(void)
{
	int flags = MAP_ANONYMOUS | MAP_FIXED | (shmem ? MAP_SHARED : MAP_PRIVATE);

	len = LENGTH;
	addr = memory_map_aligned(LENGTH, LENGTH);
	return addr && mmap(addr, LENGTH, PROT_READ | PROT_WRITE, flags, -1, 0) == addr &&
	       !madvise(addr, LENGTH, folio_size == LARGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Allocates memory of @cgroup. */
static int fill(const char *cgroup, size_t offset, size_t len, int node)
{
	int ret = join(cgroup);

	if (!ret)
		ret = memory_fill(addr + offset, len, folio_size, nodes[node], SEED);
	return join(home) ?: ret;
}

static long move(int node)
{
	return memory_move(0, addr, LENGTH, folio_size, nodes[node], MPOL_MF_MOVE_ALL);
}

static long move_half(void)
{
	return memory_move(0, addr, LENGTH / 2, folio_size, nodes[1], MPOL_MF_MOVE_ALL);
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

	if (!test_begin(_metadata))
		return;
	if (setting_write(CGROUPS "/cgroup.subtree_control", "+memory"))
		SKIP(return, "needs cgroup2 with memory");
	if (variant->large && thp_only(LARGE))
		SKIP(return, "no folios of 64 KiB");

	snprintf(top, sizeof(top), CGROUPS "/migrate_counts.%d", getpid());
	snprintf(home, sizeof(home), "%s/home", top);
	snprintf(first, sizeof(first), "%s/first", top);
	snprintf(second, sizeof(second), "%s/second", top);
	snprintf(control, sizeof(control), "%s/cgroup.subtree_control", top);
	ASSERT_EQ(0, mkdir(top, 0755));
	ASSERT_EQ(0, setting_write(control, "+memory"));
	ASSERT_EQ(0, mkdir(home, 0755));
	ASSERT_EQ(0, mkdir(first, 0755));
	ASSERT_EQ(0, mkdir(second, 0755));
	ASSERT_EQ(0, join(home));

	folio_size = variant->large ? LARGE : memory_page_size();
	shmem = variant->shmem;
	name = variant->shmem ? "file_mapped" : "anon";
	/* Other memory that fill() touches is not of a cgroup that is looked at. */
	ASSERT_TRUE(map_memory());
	ASSERT_EQ(0, fill(home, 0, LENGTH, 0));
	munmap(addr, LENGTH);
	ASSERT_TRUE(map_memory());
}

FIXTURE_TEARDOWN(migrate_counts)
{
	unmap_folios();
	join(CGROUPS);
	rmdir(second);
	rmdir(first);
	rmdir(home);
	rmdir(top);
}

#define EXPECT_COUNTED(cgroup, node, bytes)					\
	EXPECT_EQ(bytes, counted_in_time(cgroup, name, nodes[node], bytes))

/* Neighbours belong to different cgroups. */
TEST_F_TIMEOUT(migrate_counts, moved, TIMEOUT)
{
	for (size_t i = 0; i < LENGTH; i += folio_size)
		ASSERT_EQ(0, fill(i / folio_size % 2 ? second : first, i, folio_size, 0));
	for (int node = 0; node < 2; node++) {
		EXPECT_COUNTED(first, node, node ? 0 : (long)LENGTH / 2);
		EXPECT_COUNTED(second, node, node ? 0 : (long)LENGTH / 2);
	}
	for (int to = 1; to >= 0; to--) {
		ASSERT_EQ(0, move(to));
		for (int node = 0; node < 2; node++) {
			EXPECT_COUNTED(first, node, node == to ? (long)LENGTH / 2 : 0);
			EXPECT_COUNTED(second, node, node == to ? (long)LENGTH / 2 : 0);
		}
	}
}

/* Folios with a reference are unmapped, and mapped again where they were. */
TEST_F_TIMEOUT(migrate_counts, could_not_be_moved, TIMEOUT)
{
	int held[2];
	long left;

	ASSERT_EQ(0, fill(first, 0, LENGTH, 0));
	hold(held, addr, LENGTH, LENGTH / HELD_FOLIOS);
	move(1);
	left = memory_pages_not_on(addr, LENGTH, nodes[1]) * memory_page_size();
	EXPECT_LE(HELD_FOLIOS * folio_size, left);
	EXPECT_GT((long)LENGTH, left);
	EXPECT_COUNTED(first, 0, left);
	EXPECT_COUNTED(first, 1, (long)LENGTH - left);
	let_go(held);
}

/* A thread moves the memory to the second node. */
static bool move_begins;
static double move_took;

static void *move_to_second(void *arg)
{
	double begun;

	run_on_cpus(0, 0);
	begun = seconds_now();
	__atomic_store_n(&move_begins, true, __ATOMIC_RELEASE);
	move(1);
	move_took = seconds_now() - begun;
	return NULL;
}

/* Moves the memory. Meanwhile, drops half of it, and removes @cgroup unless it is NULL. */
static bool drop_while_moved(long round, const char *cgroup)
{
	double then, share = move_took * (round * 37 % 101) / 101;
	pid_t child = fork_idle();
	bool removed = true;
	pthread_t thread;

	move_begins = false;
	if (child < 0 || pthread_create(&thread, NULL, move_to_second, NULL))
		return false;
	while (!__atomic_load_n(&move_begins, __ATOMIC_ACQUIRE))
		sched_yield();
	then = seconds_now() + share;
	while (seconds_now() < then)
		sched_yield();
	kill(child, SIGKILL);
	for (size_t i = 0; i < LENGTH; i += 2 * LARGE)
		madvise(addr + i, LARGE, MADV_DONTNEED);
	if (cgroup)
		removed = !rmdir(cgroup);
	pthread_join(thread, NULL);
	return waitpid(child, NULL, 0) == child && removed;
}

/* Drops memory of the first cgroup, or of @cgroup, which is removed, again and again. */
static void drop_in_rounds(const char *cgroup)
{
	double end = seconds_now() + ROUND_SECONDS;
	char *kept = addr;

	/* Something to be subtracted from: counters show no less than 0. */
	ASSERT_EQ(0, fill(first, 0, LENGTH, 0));
	ASSERT_EQ(0, move_half());
	for (long round = 1; round <= ROUNDS && seconds_now() < end; round++) {
		ASSERT_TRUE(map_memory());
		if (cgroup)
			ASSERT_EQ(0, mkdir(cgroup, 0755));
		ASSERT_EQ(0, fill(cgroup ?: first, 0, LENGTH, 0));
		ASSERT_TRUE(drop_while_moved(round, cgroup));
		munmap(addr, LENGTH);
	}
	addr = kept;
}

/* A process ends, and another one drops memory, while it is unmapped or just mapped. */
TEST_F_TIMEOUT(migrate_counts, dropped_while_moved, TIMEOUT)
{
	drop_in_rounds(NULL);
	for (int node = 0; node < 2; node++)
		EXPECT_COUNTED(first, node, (long)LENGTH / 2);
}

/* The memory cgroup, which has no process any longer, is removed as well. */
TEST_F_TIMEOUT(migrate_counts, removed_while_moved, TIMEOUT)
{
	char cgroup[128];
	double end;

	snprintf(cgroup, sizeof(cgroup), "%s/removed", top);
	drop_in_rounds(cgroup);
	/* Memory of removed ones is counted by the one above. */
	for (int node = 0; node < 2; node++) {
		long all, own;

		end = seconds_now() + SUM_SECONDS;
		do {
			usleep(20000);
			all = counted(top, name, nodes[node]);
			own = counted(home, name, nodes[node]);
		} while (all - own != LENGTH / 2 && seconds_now() < end);
		EXPECT_EQ((long)LENGTH / 2, all - own) TH_LOG("on node %d", node);
	}
}

TEST_HARNESS_MAIN
