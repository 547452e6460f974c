// SPDX-License-Identifier: GPL-2.0
/*
 * The metadata of a small file system is busy while the folios of its block device migrate. These
 * folios have buffer heads, through which a file system changes them without the folio lock and
 * without a folio reference: a copy taken before buffer_migrate_folio_norefs() closed that window
 * is stale, and to use it corrupts the file system. The file system has no journal, because jbd2
 * keeps references to the buffers and so would hide the mistake.
 *
 * MIG_FOLIOS is how many of these folios must have been declined.
 */
#include "run.h"

#include <sys/mount.h>

#define TIMEOUT		900
#define NR_WORKERS	3
#define NR_NAMES	100
#define ROUNDS_MAX	1000
#define OPERATIONS	1000
#define MAX_SIZE	8192
/* Counts folios with buffer heads. */
#define DECLINED	"declined"

/* The contents that the file of a name must have: the stamp of @generation. */
struct file { bool present; ssize_t size; uint64_t generation; };

/* Shared by all processes. */
static struct state {
	struct file files[NR_WORKERS][NR_NAMES];
	uint64_t operations[NR_WORKERS];
	bool stop;
} *state;

static char device[64];

FIXTURE(buffer_heads) { };
FIXTURE_VARIANT(buffer_heads) { const char *migrator; };
FIXTURE_VARIANT_ADD(buffer_heads, cpu) { "cpu" };
FIXTURE_VARIANT_ADD(buffer_heads, dcbm) { "dcbm" };

FIXTURE_SETUP(buffer_heads)
{
	char work[] = "/tmp/buffer_heads.XXXXXX";

	if (!run_begin(_metadata))
		return;
	if (!strcmp(variant->migrator, "dcbm"))
		ASSERT_TRUE(engine_load("", ""));
	ASSERT_NE(NULL, mkdtemp(work));
	ASSERT_EQ(0, chdir(work));
	ASSERT_EQ(0, system("dd if=/dev/zero of=image bs=1M count=0 seek=8 2>/dev/null"));
	ASSERT_EQ(0, system("mkfs.ext4 -q -F -b 1024 -O ^has_journal image && mkdir mnt"));
	ASSERT_EQ(0, system("losetup -f >device && losetup $(cat device) image"));
	ASSERT_EQ(0, setting_read("device", device, sizeof(device)));
	ASSERT_EQ(0, mount(device, "mnt", "ext4", 0, NULL));
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_NE(MAP_FAILED, state);
	route_only(NULL, variant->migrator);
}

FIXTURE_TEARDOWN(buffer_heads)
{
	umount("mnt");
	system("losetup -d $(cat device); cd /; rm -r $OLDPWD");
	run_end();
}

static char *path_of(int worker, int name)
{
	static char paths[2][64];
	static int turn;

	turn = !turn;
	snprintf(paths[turn], sizeof(paths[turn]), "mnt/worker%d/name-%03d", worker, name);
	return paths[turn];
}

static bool failed(const char *what, const char *path)
{
	printf("# %s %s: %s\n", what, path, strerror(errno));
	return false;
}

static bool file_write(const char *path, const struct file *file)
{
	char buffer[MAX_SIZE];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memory_stamp(buffer, file->size, file->generation);
	if (fd < 0 || write(fd, buffer, file->size) != file->size || close(fd))
		return failed("write", path);
	return true;
}

static bool file_check(const char *path, const struct file *file)
{
	char buffer[MAX_SIZE + 1];
	int fd = open(path, O_RDONLY);
	ssize_t size;

	if (fd < 0)
		return (errno == ENOENT && !file->present) || failed("open", path);
	size = read(fd, buffer, sizeof(buffer));
	close(fd);
	if (!file->present || size != file->size) {
		printf("# %s has %zd bytes instead of %zd\n", path, size,
		       file->present ? file->size : -1);
		return false;
	}
	return !memory_verify(buffer, size, file->generation) || failed("wrong contents", path);
}

/* One random operation on one random name. */
static bool operate(int worker, uint64_t *generation)
{
	struct file *files = state->files[worker], *target;
	int name = random() % NR_NAMES;
	struct file *file = &files[name];
	char *path = path_of(worker, name);

	switch (file->present ? random() % 4 : 0) {
	case 0:
		file->present = true;
		file->size = random() % (MAX_SIZE / 8) * 8;
		file->generation = ++*generation;
		return file_write(path, file);
	case 1:
		file->present = false;
		return !unlink(path) || failed("unlink", path);
	case 2:
		target = &files[random() % NR_NAMES];
		if (target == file)
			return true;
		*target = *file;
		file->present = false;
		return !rename(path, path_of(worker, target - files)) || failed("rename", path);
	default:
		return file_check(path, file);
	}
}

static int worker_run(int worker)
{
	uint64_t generation = (uint64_t)(worker + 1) << 48;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srandom(worker + 1);
	while (!__atomic_load_n(&state->stop, __ATOMIC_RELAXED)) {
		if (!operate(worker, &generation))
			return 1;
		state->operations[worker]++;
	}
	return 0;
}

static uint64_t operations(void)
{
	uint64_t sum = 0;

	for (int worker = 0; worker < NR_WORKERS; worker++)
		sum += __atomic_load_n(&state->operations[worker], __ATOMIC_RELAXED);
	return sum;
}

/*
 * Moves the pages that are not on @node, in one call: move_pages(2) gives up early when it meets a
 * page that need not move after one that could not. Returns how many arrived.
 */
static long pages_move(char *map, size_t nr, int node)
{
	const size_t size = memory_page_size();
	void **pages = calloc(nr, sizeof(*pages));
	int *targets = calloc(nr, sizeof(*targets)), *status = calloc(nr, sizeof(*status));
	size_t nr_move = 0;
	long moved = 0;

	for (size_t i = 0; i < nr; i++) {
		pages[i] = map + i * size;
		(void)*(volatile char *)pages[i];
		targets[i] = node;
	}
	ASSERT_EQ(0, syscall(SYS_move_pages, 0, nr, pages, NULL, status, 0));
	for (size_t i = 0; i < nr; i++)
		if (status[i] >= 0 && status[i] != node)
			pages[nr_move++] = pages[i];
	ASSERT_LE(0, syscall(SYS_move_pages, 0, nr_move, pages, targets, status, MPOL_MF_MOVE_ALL));
	ASSERT_EQ(0, syscall(SYS_move_pages, 0, nr_move, pages, NULL, status, 0));
	for (size_t i = 0; i < nr_move; i++)
		moved += status[i] == node;
	free(pages);
	free(targets);
	free(status);
	return moved;
}

/*
 * Moves the pages of the block device between two nodes, until @folios were declined and
 * files have changed often, but not for ever; returns how many pages moved. The metadata that
 * changes most, bitmaps and inodes, lies at the beginning: that part goes in every round, the
 * rest in one of four.
 */
static long device_move(uint64_t folios)
{
	int fd = open(device, O_RDONLY);
	uint64_t size, nr;
	long moved = 0;
	char *map;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, BLKGETSIZE64, &size));
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, map);
	close(fd);
	nr = size / memory_page_size();
	for (int round = 0; round < ROUNDS_MAX && (offload_grown(DECLINED) < folios ||
						   operations() < OPERATIONS); round++)
		moved += pages_move(map, round % 4 ? nr / 4 : nr, nodes[1 - round % 2]);
	munmap(map, size);
	return moved;
}

TEST_F_TIMEOUT(buffer_heads, file_system_stays_clean, TIMEOUT)
{
	const uint64_t folios = atol(getenv("MIG_FOLIOS") ?: "5000");
	pid_t pids[NR_WORKERS];
	unsigned int wrong = 0;

	for (int worker = 0; worker < NR_WORKERS; worker++) {
		ASSERT_EQ(0, mkdir(setting_path("mnt/worker%d", worker), 0700));
		fflush(stdout);
		pids[worker] = fork();
		if (!pids[worker]) {
			wrong = worker_run(worker);
			fflush(stdout);
			_exit(wrong);
		}
	}
	offload_mark();
	EXPECT_LE(1000, device_move(folios));
	__atomic_store_n(&state->stop, true, __ATOMIC_RELAXED);
	for (int worker = 0; worker < NR_WORKERS; worker++)
		EXPECT_TRUE(process_was_fine(pids[worker]));
	TH_LOG("%llu file operations, %llu folios declined", (unsigned long long)operations(),
	       (unsigned long long)offload_grown(DECLINED));
	EXPECT_LE(OPERATIONS, operations());
	EXPECT_LE(folios, offload_grown(DECLINED));
	EXPECT_EQ(0, offload_set_enabled(false));

	ASSERT_EQ(0, umount("mnt"));
	EXPECT_EQ(0, system("e2fsck -fn $(cat device) >output 2>&1 || { cat output; false; }"));
	ASSERT_EQ(0, mount(device, "mnt", "ext4", MS_RDONLY, NULL));
	for (int worker = 0; worker < NR_WORKERS; worker++)
		for (int name = 0; name < NR_NAMES; name++)
			wrong += !file_check(path_of(worker, name), &state->files[worker][name]);
	EXPECT_EQ(0, wrong);
}

TEST_HARNESS_MAIN
