// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of every kind is migrated in every way that makes sense for it, and
 * must keep its contents, arrive where it was sent and stay in folios of the
 * same size. With the offload on, the copies must show in its statistics.
 *
 * MIG_FILE_DIR names a directory on a file system with buffer heads (ext4) for
 * the file-backed kinds; the kind "swapcache" needs a swap area.
 */
#include "run.h"

#include <sys/mount.h>
#include <linux/kernel-page-flags.h>

#define TIMEOUT		180
/* Of /proc/kpageflags, but not in the uapi header. */
#define KPF_RESERVED	32
#define MEMORY_DIR	"/sys/devices/system/memory"
#define CGROUP_DIR	"/sys/fs/cgroup"
#define HUGE_POOL	"hugepages/hugepages-2048kB/nr_hugepages"
#define MAX_BLOCKS	16
#define MAX_REPLACEMENTS 20
/*
 * How far apart the folios of a region lie that compaction is to move, in folios.
 * Its free scanner looks at every 32nd page of some page blocks: no divisor of that.
 */
#define HOLE_DISTANCE	15

enum offload_part {
	/* Copied by a migrator when the reason is routed. */
	OFFLOADED,
	/* Looked at in a batch, and left to the CPU. */
	DECLINED,
	/* Partly the one, partly the other. */
	MIXED,
};

struct memory_kind {
	size_t size;
	/* Size of its folios; 0: the file system chooses. */
	size_t folio_size;
	/* Mapped more than once: takes MPOL_MF_MOVE_ALL. */
	bool shared;
	enum offload_part part;
	/* A file or directory that there must be, unless NULL. */
	const char *needs;
	/* Maps; false on failure. */
	bool (*create)(void);
	/* Called after the stamp, unless NULL. */
	bool (*finish)(void);
};

struct migration_method {
	const char *reason;
	/* Migrates the memory back as well. */
	bool round_trip;
	/* Splits large folios where there is no room for them. */
	bool may_split;
	/* Touches no memory but the area. */
	bool exact;
	/* Called before the memory is allocated, unless NULL. */
	void (*prepare)(void);
	/* True if the memory may lie where it does; NULL: anywhere. */
	bool (*suits)(void);
	/* Migrates, and asserts that the pages went where they should. */
	void (*migrate)(int from, int to);
};

FIXTURE(migrate_contents) { };

/* Of the test. Memory is on the first node at first. */
static const struct memory_kind *kind;
static const struct migration_method *method;
/* The stamp starts afresh after this number of bytes. */
static size_t period;
/* Of the file behind the memory, or -1. */
static int file_fd = -1;
/* A process that shares the memory. */
static struct child sharer;
/* How many folios compaction moved. */
static size_t compacted;
/* Memory blocks taken offline. */
static unsigned long blocks[MAX_BLOCKS];
static unsigned int nr_blocks;
static char cgroup[64];
static char *filler;
static size_t filler_len;

FIXTURE_VARIANT(migrate_contents)
{
	const struct memory_kind *kind;
	const struct migration_method *method;
};

/* Kinds of memory */

static size_t area_wrong_here(void)
{
	return area_wrong(&area);
}

static bool map_anon(void)
{
	bool huge = kind->folio_size > memory_page_size();

	if (huge && thp_only(kind->folio_size))
		return false;
	area.addr = memory_map_aligned(area.size, PMD_SIZE);
	return area.addr && !madvise(area.addr, area.size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

static bool map_mlocked(void)
{
	return map_anon() && !mlock(area.addr, area.size);
}

static bool map_shared_file(void)
{
	int flags = MAP_SHARED | MAP_FIXED | (file_fd < 0 ? MAP_ANONYMOUS : 0);

	/* A PMD maps a huge folio only at an aligned address. */
	area.addr = memory_map_aligned(area.size, PMD_SIZE);
	return area.addr && mmap(area.addr, area.size, PROT_READ | PROT_WRITE, flags, file_fd,
				 0) != MAP_FAILED;
}

static bool create_tmpfs(void)
{
	char dir[] = "/tmp/migrate_contents.XXXXXX";

	if (!mkdtemp(dir) ||
	    mount("tmpfs", dir, "tmpfs", 0,
		  kind->folio_size == PMD_SIZE ? "huge=always" : "huge=never"))
		return false;
	file_fd = open(setting_path("%s/file", dir), O_RDWR | O_CREAT, 0600);
	/* The open file keeps the file system alive. */
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	return file_fd >= 0 && !ftruncate(file_fd, area.size) && map_shared_file();
}

static bool open_file(void)
{
	file_fd = open(getenv("MIG_FILE_DIR"), O_TMPFILE | O_RDWR, 0600);
	return file_fd >= 0 && !ftruncate(file_fd, area.size);
}

static bool create_file(void)
{
	return open_file() && map_shared_file();
}

/* One folio a page: a fault would read ahead, in large folios, which fit into no hole. */
static bool create_file_4k(void)
{
	if (!open_file())
		return false;
	for (size_t i = 0; i < area.size; i += memory_page_size())
		if (pwrite(file_fd, "", 1, i) != 1)
			return false;
	return map_shared_file();
}

/* A write to the first half of a private mapping makes it anonymous. */
static bool make_private(void)
{
	if (mmap(area.addr, area.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_fd,
		 0) == MAP_FAILED)
		return false;
	memory_stamp(area.addr, area.size / 2, area.seed);
	return !memory_verify(area.addr, area.size, area.seed);
}

static bool map_hugetlb(void)
{
	area.addr = mmap(NULL, area.size, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (21 << 26), -1, 0);
	return area.addr != MAP_FAILED;
}

/* The sharer verifies its own mapping of the memory each time that it is asked. */
static bool start_sharer(void)
{
	fork_child(&sharer, area_wrong_here);
	return true;
}

static bool map_for_ksm(void)
{
	period = area.size / 2;
	return map_anon() && !madvise(area.addr, area.size, MADV_MERGEABLE);
}

static bool merge_pages(void)
{
	size_t pages = area.size / memory_page_size();

	if (setting_write(KSM_DIR "/pages_to_scan", "4096") ||
	    setting_write(KSM_DIR "/sleep_millisecs", "1") || setting_write(KSM_DIR "/run", "1"))
		return false;
	for (int i = 0; i < 600; i++) {
		if (memory_folios(area.addr, area.size) == pages / 2)
			break;
		usleep(100000);
	}
	setting_write(KSM_DIR "/run", "0");
	return memory_folios(area.addr, area.size) == pages / 2;
}

/* A page that is read after it was paged out keeps its place in the swap area. */
static bool enter_swapcache(void)
{
	size_t pages = area.size / memory_page_size();
	size_t cached = 0;

	for (int i = 0; i < 20 && cached < pages / 2; i++) {
		if (madvise(area.addr, area.size, MADV_PAGEOUT) || area_wrong(&area))
			return false;
		cached = memory_pages_flagged(area.addr, area.size, 1ULL << KPF_SWAPCACHE);
	}
	return cached >= pages / 2;
}

#define THP_2M	THP_DIR "/hugepages-2048kB"

static const struct memory_kind
	anon_4k = { 4 * MIB, 4 * KIB, .create = map_anon },
	anon_64k = { 4 * MIB, 64 * KIB, .needs = THP_DIR "/hugepages-64kB", .create = map_anon },
	anon_2m = { 8 * MIB, PMD_SIZE, .needs = THP_2M, .create = map_anon },
	shmem = { 4 * MIB, 4 * KIB, .create = map_shared_file },
	tmpfs = { 4 * MIB, 4 * KIB, .create = create_tmpfs },
	tmpfs_2m = { 8 * MIB, PMD_SIZE, .needs = THP_2M, .create = create_tmpfs },
	hugetlb = { 8 * MIB, PMD_SIZE, .needs = "/sys/kernel/mm/hugepages/hugepages-2048kB",
		    .create = map_hugetlb },
	mlocked = { 4 * MIB, 4 * KIB, .create = map_mlocked },
	file_shared = { 4 * MIB, .part = DECLINED, .create = create_file },
	file_4k = { 4 * MIB, .part = DECLINED, .create = create_file_4k },
	file_private = { 4 * MIB, .part = MIXED, .create = create_file, .finish = make_private },
	forked = { 4 * MIB, 4 * KIB, .shared = true, .create = map_anon, .finish = start_sharer },
	ksm = { 2 * MIB, .shared = true, .needs = KSM_DIR "/run", .create = map_for_ksm,
		.finish = merge_pages },
	swapcache = { 4 * MIB, 4 * KIB, .create = map_anon, .finish = enter_swapcache };

/* Ways to migrate */

static int move_flags(void)
{
	return kind->shared ? MPOL_MF_MOVE_ALL : MPOL_MF_MOVE;
}

static void by_move_pages(int from, int to)
{
	ASSERT_EQ(0, memory_move(0, area.addr, area.size, area.folio_size, to, move_flags()));
	ASSERT_EQ(0, memory_pages_not_on(area.addr, area.size, to));
}

static void by_migrate_pages(int from, int to)
{
	unsigned long old = 1UL << from, new = 1UL << to;

	/* Memory of this process outside the area may stay behind. */
	ASSERT_LE(0, syscall(__NR_migrate_pages, 0, 8 * sizeof(old), &old, &new));
	ASSERT_EQ(0, memory_pages_not_on(area.addr, area.size, to));
}

static void by_mbind(int from, int to)
{
	unsigned long mask = 1UL << to;

	ASSERT_EQ(0, syscall(__NR_mbind, area.addr, area.size, MPOL_BIND, &mask, 8 * sizeof(mask),
			     MPOL_MF_STRICT | move_flags()))
		TH_LOG("mbind: %s", strerror(errno));
	ASSERT_EQ(0, memory_pages_not_on(area.addr, area.size, to));
}

/* Joins a cgroup whose memory comes from the first node. */
static void enter_cpuset(void)
{
	ASSERT_EQ(0, setting_write(CGROUP_DIR "/cgroup.subtree_control", "+cpuset"));
	snprintf(cgroup, sizeof(cgroup), CGROUP_DIR "/migrate_contents.%d", getpid());
	ASSERT_EQ(0, mkdir(cgroup, 0755));
	ASSERT_EQ(0, setting_write_number(setting_path("%s/cpuset.mems", cgroup), nodes[0]));
	ASSERT_EQ(0, setting_write_number(setting_path("%s/cgroup.procs", cgroup), getpid()));
}

static void by_cpuset(int from, int to)
{
	ASSERT_EQ(0, setting_write_number(setting_path("%s/cpuset.mems", cgroup), to));
	ASSERT_EQ(0, memory_pages_not_on(area.addr, area.size, to));
}

static size_t grain_of(void)
{
	return kind->folio_size ? kind->folio_size : memory_page_size();
}

static void swap_nodes(void)
{
	int first = nodes[0];

	nodes[0] = nodes[1];
	nodes[1] = first;
}

/*
 * Leaves holes of one folio's size all over a stretch of the node's memory, as many as the area
 * needs, so that it comes to lie in them. Between the holes are folios of that size, or no hole
 * would hold one. Compaction ends as soon as it meets a folio larger than any hole: use the node
 * with less page cache, and drop cached files.
 */
static void fragment(void)
{
	size_t grain = grain_of();

	filler_len = HOLE_DISTANCE * kind->size;
	filler = memory_map_aligned(filler_len, PMD_SIZE);
	swap_nodes();
	ASSERT_NE(NULL, filler);
	ASSERT_EQ(0, setting_write("/proc/sys/vm/drop_caches", "3"));
	/* The free scanner does not see pages on lists of CPUs. */
	ASSERT_EQ(0, setting_write("/proc/sys/vm/percpu_pagelist_high_fraction", "100000"));
	if (grain > memory_page_size())
		ASSERT_EQ(0, thp_only(grain));
	ASSERT_EQ(0, madvise(filler, filler_len, MADV_DONTFORK));
	ASSERT_EQ(0, memory_fill(filler, filler_len, grain, nodes[0], 1));
	for (size_t i = 0; i < filler_len; i += HOLE_DISTANCE * grain)
		ASSERT_EQ(0, madvise(filler + i, grain, MADV_DONTNEED));
}

/* The pages of a file folio that was split are mapped again when they are used. */
static void touch_pages(void)
{
	for (size_t i = 0; i < area.size; i += memory_page_size())
		__atomic_load_n(area.addr + i, __ATOMIC_RELAXED);
}

static void by_compaction(int from, int to)
{
	size_t grain = area.folio_size, pages = area.size / memory_page_size(), moved = 0;
	uint64_t *before, *after;
	long migrated;

	/*
	 * Give back most of what lies between the pages of the area: compaction
	 * then moves those at low addresses to the holes at high ones.
	 */
	for (size_t i = 0; i < filler_len; i += HOLE_DISTANCE * grain)
		ASSERT_EQ(0, madvise(filler + i + grain, (HOLE_DISTANCE - 1) * grain,
				     MADV_DONTNEED));

	before = memory_pfns(area.addr, area.size);
	ASSERT_NE(NULL, before);
	migrated = setting_find_number("/proc/vmstat", "pgmigrate_success ");
	/* Most pages move at once; large folios may have to wait for room. */
	for (int round = 0; round < 8 && moved < pages / 2; round++) {
		ASSERT_EQ(0, setting_write(setting_path(NODE_DIR "/node%d/compact", from), "1"));
		touch_pages();
		after = memory_pfns(area.addr, area.size);
		ASSERT_NE(NULL, after);
		moved = 0;
		for (size_t i = 0; i < pages; i++)
			moved += before[i] != after[i];
		free(after);
	}
	migrated = setting_find_number("/proc/vmstat", "pgmigrate_success ") - migrated;
	printf("# compaction moved %zu of %zu pages\n", moved, pages);
	/* A large folio moves only where one of its size is free: one must. */
	EXPECT_LE(grain > memory_page_size() ? grain / memory_page_size() : pages / 4, moved);
	EXPECT_LE(moved, migrated);
	compacted = moved * memory_page_size() / grain;
	EXPECT_EQ(0, memory_pages_not_on(area.addr, area.size, from));
	free(before);
}

static unsigned long block_pages(void)
{
	char text[32];

	if (setting_read(MEMORY_DIR "/block_size_bytes", text, sizeof(text)))
		return 0;
	return strtoul(text, NULL, 16) / memory_page_size();
}

static void set_block_state(unsigned long block, const char *state)
{
	const char *path = setting_path(MEMORY_DIR "/memory%lu/state", block);
	int ret = -EBUSY;

	/* A short-lived reference may keep a page from moving. */
	for (int i = 0; i < 20 && (ret == -EBUSY || ret == -EAGAIN); i++)
		ret = setting_write(path, state);
	EXPECT_EQ(0, ret)
		TH_LOG("%s: %s", path, strerror(-ret));
}

/* Boot-time allocations may lie even in ZONE_MOVABLE, and stay for ever. */
static bool can_be_removed(unsigned long block)
{
	uint64_t flags[512], first = block * block_pages(), pfn = first;
	bool removable = true;
	char zones[64];
	int fd;

	if (setting_read(setting_path(MEMORY_DIR "/memory%lu/valid_zones", block), zones,
			 sizeof(zones)) || strcmp(zones, "Movable"))
		return false;

	fd = open("/proc/kpageflags", O_RDONLY);
	while (removable && pfn < first + block_pages()) {
		if (pread(fd, flags, sizeof(flags), pfn * sizeof(flags[0])) != sizeof(flags))
			break;
		for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
			removable &= !(flags[i] & 1ULL << KPF_RESERVED);
		pfn += ARRAY_SIZE(flags);
	}
	close(fd);
	return removable && pfn == first + block_pages();
}

#ifdef __aarch64__
/* arm64 never takes memory offline that was there at boot. */
static bool arch_can_remove(unsigned long block)
{
	FILE *file = fopen("/proc/iomem", "r");
	unsigned long address = block * block_pages() * memory_page_size();
	unsigned long first, last;
	bool hotplugged = false;
	char line[256];

	while (file && !hotplugged && fgets(line, sizeof(line), file))
		hotplugged = strstr(line, "System RAM (kmem)") &&
			     sscanf(line, "%lx-%lx", &first, &last) == 2 &&
			     first <= address && address < last;
	if (file)
		fclose(file);
	return hotplugged;
}
#else
static bool arch_can_remove(unsigned long block)
{
	return true;
}
#endif

static bool is_removable(unsigned long block)
{
	static unsigned long known_block = ULONG_MAX;
	static bool removable;

	if (block != known_block)
		removable = arch_can_remove(block) && can_be_removed(block);
	known_block = block;
	return removable;
}

static bool has_removable_block(int node)
{
	bool any = false;
	glob_t blocks;

	if (glob(setting_path(NODE_DIR "/node%d/memory*", node), 0, NULL, &blocks))
		return false;
	for (size_t i = 0; !any && i < blocks.gl_pathc; i++) {
		const char *number = strrchr(blocks.gl_pathv[i], 'y') + 1;

		any = *number >= '0' && *number <= '9' && is_removable(strtoul(number, NULL, 10));
	}
	globfree(&blocks);
	return any;
}

static void choose_removable_node(void)
{
	if (has_removable_block(nodes[0]))
		return;
	if (!has_removable_block(nodes[1]))
		SKIP(return, "no node has memory that can be removed (see kernelcore=)");
	swap_nodes();
}

static bool is_offline(unsigned long block)
{
	for (unsigned int i = 0; i < nr_blocks; i++)
		if (blocks[i] == block)
			return true;
	return false;
}

static bool in_removable_blocks(void)
{
	size_t pages = area.size / memory_page_size();
	uint64_t *pfns = memory_pfns(area.addr, area.size);
	unsigned long per_block = block_pages();
	bool removable = pfns;

	for (size_t i = 0; removable && i < pages; i++)
		removable = is_removable(pfns[i] / per_block);
	free(pfns);
	return removable;
}

/* Takes every memory block offline that holds a page of the area. */
static void by_hot_remove(int from, int to)
{
	size_t pages = area.size / memory_page_size();
	unsigned long per_block = block_pages();
	uint64_t *pfns;

	ASSERT_NE(0, per_block);
	pfns = memory_pfns(area.addr, area.size);
	ASSERT_NE(NULL, pfns);
	for (size_t i = 0; i < pages; i++) {
		unsigned long block = pfns[i] / per_block;

		ASSERT_NE(MEMORY_NO_PFN, pfns[i]);
		if (is_offline(block))
			continue;
		ASSERT_GT(MAX_BLOCKS, nr_blocks);
		blocks[nr_blocks++] = block;
		set_block_state(block, "offline");
	}
	free(pfns);

	touch_pages();
	pfns = memory_pfns(area.addr, area.size);
	ASSERT_NE(NULL, pfns);
	for (size_t i = 0; i < pages; i++) {
		ASSERT_NE(MEMORY_NO_PFN, pfns[i]);
		ASSERT_FALSE(is_offline(pfns[i] / per_block));
	}
	free(pfns);
}

static const struct migration_method
	move_pages = { "syscall_or_cpuset", .round_trip = true, .exact = true,
		       .migrate = by_move_pages },
	migrate_pages = { "syscall_or_cpuset", .round_trip = true, .migrate = by_migrate_pages },
	mbind = { "mempolicy_mbind", .round_trip = true, .exact = true, .migrate = by_mbind },
	cpuset = { "syscall_or_cpuset", .round_trip = true, .prepare = enter_cpuset,
		   .migrate = by_cpuset },
	compaction = { "compaction", .may_split = true, .prepare = fragment,
		       .migrate = by_compaction },
	hot_remove = { "memory_hotplug", .prepare = choose_removable_node,
		       .suits = in_removable_blocks, .migrate = by_hot_remove };

/* The combinations that are tested, and no others. */
#define VARIANT(kind, method)								\
	FIXTURE_VARIANT_ADD(migrate_contents, kind##_by_##method) { &(kind), &(method) }
#define BASIC_VARIANTS(method)								\
	VARIANT(anon_4k, method);							\
	VARIANT(anon_64k, method);							\
	VARIANT(shmem, method);								\
	VARIANT(mlocked, method);							\
	VARIANT(forked, method)
#define LARGE_VARIANTS(method)								\
	BASIC_VARIANTS(method);								\
	VARIANT(anon_2m, method);							\
	VARIANT(file_shared, method);							\
	VARIANT(hugetlb, method)

LARGE_VARIANTS(move_pages);
VARIANT(tmpfs, move_pages);
VARIANT(tmpfs_2m, move_pages);
VARIANT(file_private, move_pages);
VARIANT(ksm, move_pages);
VARIANT(swapcache, move_pages);
LARGE_VARIANTS(migrate_pages);
VARIANT(tmpfs_2m, migrate_pages);
VARIANT(file_private, migrate_pages);
VARIANT(swapcache, migrate_pages);
LARGE_VARIANTS(mbind);
VARIANT(tmpfs, mbind);
VARIANT(tmpfs_2m, mbind);
VARIANT(file_private, mbind);
LARGE_VARIANTS(cpuset);
/* Compaction moves within the node, and has no room for folios of 2 MiB. */
BASIC_VARIANTS(compaction);
VARIANT(tmpfs, compaction);
VARIANT(file_4k, compaction);
LARGE_VARIANTS(hot_remove);
VARIANT(tmpfs_2m, hot_remove);

/* Before the harness forks a test: these values hold while none runs. */
static void __attribute__((constructor)) save_settings(void)
{
	static const char * const paths[] = {
		"/proc/sys/vm/percpu_pagelist_high_fraction",
		KSM_DIR "/pages_to_scan", KSM_DIR "/sleep_millisecs", KSM_DIR "/run",
	};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		setting_save(paths[i]);
	settings_save(NODE_DIR "/node*/" HUGE_POOL);
}

static void create_memory(void)
{
	area.size = kind->size;
	area.folio_size = grain_of();
	area.seed = getpid();
	period = kind->size;
	file_fd = -1;

	ASSERT_EQ(0, memory_bind(nodes[0]));
	ASSERT_TRUE(kind->create())
		TH_LOG("cannot create this kind of memory: %s", strerror(errno));
	for (size_t i = 0; i < area.size; i += period)
		memory_stamp(area.addr + i, period, area.seed);
	if (file_fd >= 0)
		ASSERT_EQ(0, fsync(file_fd));
	ASSERT_EQ(0, memory_bind(-1));
}

/*
 * Replaces an area that lies where it should not. The old one stays until the test ends, and more
 * memory is used up, in small and in large folios, so that the new one must lie elsewhere.
 */
static void replace(unsigned int nr)
{
	size_t len = 16 * MIB;
	char *filler = memory_map_aligned(len, PMD_SIZE);

	ASSERT_NE(NULL, filler);
	thp_only(PMD_SIZE);
	ASSERT_EQ(0, madvise(filler, len / 2, MADV_HUGEPAGE));
	ASSERT_EQ(0, madvise(filler + len / 2, len / 2, MADV_NOHUGEPAGE));
	ASSERT_EQ(0, memory_bind(nodes[0]));
	ASSERT_EQ(0, madvise(filler, len, MADV_POPULATE_WRITE));
	if (kind == &hugetlb)
		ASSERT_TRUE(hugetlb_reserve(PMD_SIZE, nodes[0], (nr + 1) * kind->size / PMD_SIZE));
	create_memory();
}

FIXTURE_SETUP(migrate_contents)
{
	kind = variant->kind;
	method = variant->method;
	if (!test_begin(_metadata))
		return;
	if (kind->needs && access(kind->needs, F_OK))
		SKIP(return, "no %s", kind->needs);
	/* Migrators decline folios of files, which have buffer heads. */
	if (kind->part != OFFLOADED && !getenv("MIG_FILE_DIR"))
		SKIP(return, "MIG_FILE_DIR is not set");
	if (kind == &swapcache && setting_find_number("/proc/meminfo", "SwapTotal:") < 1)
		SKIP(return, "no swap area");
	if (getuid())
		SKIP(return, "needs root");
	ASSERT_EQ(offload_on_for(method->reason), offload_on_only_for(method->reason));
	if (kind == &hugetlb) {
		ASSERT_TRUE(hugetlb_reserve(PMD_SIZE, nodes[0], kind->size / PMD_SIZE));
		ASSERT_TRUE(hugetlb_reserve(PMD_SIZE, nodes[1], kind->size / PMD_SIZE));
	}
	if (method->prepare)
		method->prepare();
	if (_metadata->exit_code == KSFT_SKIP)
		return;

	create_memory();
	for (unsigned int i = 1; method->suits && !method->suits(); i++) {
		ASSERT_GT(MAX_REPLACEMENTS, i)
			TH_LOG("memory does not come from removable blocks");
		replace(i);
	}

	ASSERT_EQ(0, memory_bind(nodes[0]));
	if (kind->finish)
		ASSERT_TRUE(kind->finish())
			TH_LOG("cannot bring the memory into this state: %s", strerror(errno));
	ASSERT_EQ(0, memory_bind(-1));
}

FIXTURE_TEARDOWN(migrate_contents)
{
	for (unsigned int i = 0; i < nr_blocks; i++)
		set_block_state(blocks[i], "online_movable");
	end_process(sharer.pid);
	if (cgroup[0]) {
		setting_write_number(CGROUP_DIR "/cgroup.procs", getpid());
		rmdir(cgroup);
	}
	area_destroy(&area);
	settings_restore();
}

static void check_contents(void)
{
	char *copy;

	for (size_t i = 0; i < area.size; i += period)
		ASSERT_EQ(0, memory_verify(area.addr + i, period, area.seed));
	if (sharer.pid)
		ASSERT_EQ(0, ask_child(&sharer));
	if (file_fd < 0)
		return;

	/* read(2) must find the same. */
	copy = malloc(area.size);
	ASSERT_NE(NULL, copy);
	ASSERT_EQ(area.size, pread(file_fd, copy, area.size, 0));
	ASSERT_EQ(0, memory_verify(copy, area.size, area.seed));
	free(copy);
}

/* A few folios may be busy when a migrator should copy them. */
static size_t nearly_all(size_t folios)
{
	return folios - folios / 32;
}

/* At least @folios folios moved: the machine may have migrated others for the same reason. */
static void check_stats(bool offload_on, size_t folios)
{
	unsigned long long copied = offload_grown("folios_copied");
	unsigned long long fallback = offload_grown("fallback_");
	unsigned long long declined = offload_grown("declined");

	if (!offload_on) {
		EXPECT_EQ(0, offload_grown(""));
		return;
	}
	printf("# %zu folios: %llu copied by a migrator, %llu not, %llu declined\n", folios,
	       copied, fallback, declined);
	switch (kind->part) {
	case OFFLOADED:
		EXPECT_LT(0, offload_grown("batches"));
		EXPECT_LE(nearly_all(folios), copied);
		EXPECT_EQ(0, fallback);
		break;
	case MIXED:
		EXPECT_LE(nearly_all(kind->size / 2 / memory_page_size()), copied);
		EXPECT_LT(0, declined);
		EXPECT_EQ(0, fallback);
		break;
	case DECLINED:
		/* Compaction may find the pages of a large folio one by one. */
		EXPECT_LE(method->may_split ? 1 : nearly_all(folios), declined);
		if (method->exact)
			EXPECT_EQ(0, copied);
		break;
	}
}

TEST_F_TIMEOUT(migrate_contents, kept, TIMEOUT)
{
	bool offload_on = offload_on_for(method->reason);
	size_t folios;

	ASSERT_EQ(0, memory_pages_not_on(area.addr, area.size, nodes[0]));
	check_contents();
	if (kind->folio_size)
		ASSERT_TRUE(area_is_whole(&area))
			TH_LOG("the memory did not get folios of this size");
	folios = memory_folios(area.addr, area.size);

	offload_mark();
	method->migrate(nodes[0], nodes[1]);
	check_contents();
	if (kind->folio_size && !method->may_split)
		EXPECT_TRUE(area_is_whole(&area));
	if (!method->may_split)
		EXPECT_EQ(folios, memory_folios(area.addr, area.size));
	check_stats(offload_on, method->migrate == by_compaction ? compacted : folios);

	if (!method->round_trip)
		return;
	method->migrate(nodes[1], nodes[0]);
	check_contents();
	if (kind->folio_size)
		EXPECT_TRUE(area_is_whole(&area));
}

TEST_HARNESS_MAIN
