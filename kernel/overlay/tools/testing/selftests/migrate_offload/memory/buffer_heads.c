// SPDX-License-Identifier: GPL-2.0
/*
 * Keep the metadata of a small file system busy while the folios of its block
 * device migrate. These folios have buffer heads, through which a file system
 * changes them without the folio lock and without a folio reference: a copy
 * taken before buffer_migrate_folio_norefs() closed that window is stale, and
 * using it corrupts the file system.
 *
 * buffer_heads.sh prepares the file system, and checks it afterwards.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"
#include "offload.h"

#define NR_WORKERS	3
#define NR_NAMES	100
#define ROUNDS_MAX	1000
#define OPERATIONS	1000
#define MAX_WORDS	1024
#define MPOL_MF_MOVE_ALL (1 << 2)
/* Counts folios with buffer heads. */
#define DECLINED	"declined_mapping"

/* What the file of a name must contain: a function of all these fields. */
struct file {
	uint32_t present;
	uint32_t words;
	uint64_t generation;
};

/* Shared by all processes, and written to the manifest when they are done. */
struct state {
	struct file files[NR_WORKERS][NR_NAMES];
	uint64_t operations[NR_WORKERS];
	bool stop;
};

static const char *mountpoint;

static uint64_t word(uint64_t generation, uint64_t index)
{
	uint64_t x = generation * 0x9e3779b97f4a7c15 + index + 1;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

static char *path_of(int worker, int name)
{
	static char paths[2][256];
	static int turn;

	turn = !turn;
	snprintf(paths[turn], sizeof(paths[turn]), "%s/worker%d/name-%03d",
		 mountpoint, worker, name);
	return paths[turn];
}

static bool failed(const char *what, const char *path)
{
	printf("# %s %s: %s\n", what, path, strerror(errno));
	return false;
}

static bool file_write(const char *path, const struct file *file)
{
	uint64_t words[MAX_WORDS];
	ssize_t size = file->words * sizeof(words[0]);
	bool ok = true;
	uint32_t i;
	int fd;

	for (i = 0; i < file->words; i++)
		words[i] = word(file->generation, i);

	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0)
		return failed("open for writing", path);
	if (write(fd, words, size) != size)
		ok = failed("write", path);
	if (close(fd))
		ok = failed("close", path);
	return ok;
}

static bool file_check(const char *path, const struct file *file)
{
	uint64_t words[MAX_WORDS + 1];
	ssize_t size, expected = file->words * sizeof(words[0]);
	uint32_t i;
	int fd;

	fd = open(path, O_RDONLY);
	if (fd < 0) {
		if (errno == ENOENT && !file->present)
			return true;
		return failed("open for reading", path);
	}
	size = read(fd, words, sizeof(words));
	close(fd);
	if (size < 0)
		return failed("read", path);
	if (!file->present) {
		printf("# %s exists, though it was removed\n", path);
		return false;
	}
	if (size != expected) {
		printf("# %s has %zd bytes instead of %zd\n", path, size, expected);
		return false;
	}
	for (i = 0; i < file->words; i++) {
		if (words[i] != word(file->generation, i)) {
			printf("# %s is wrong at byte %zu\n", path, i * sizeof(words[0]));
			return false;
		}
	}
	return true;
}

/* One random operation on one random name. */
static bool operate(struct state *state, int worker, uint64_t *generation)
{
	struct file *files = state->files[worker];
	int name = random() % NR_NAMES;
	struct file *file = &files[name];
	struct file *target;
	char *path = path_of(worker, name);
	char *target_path;

	switch (file->present ? random() % 4 : 0) {
	case 0:
		file->present = true;
		file->words = random() % MAX_WORDS;
		file->generation = ++*generation;
		return file_write(path, file);
	case 1:
		if (unlink(path))
			return failed("unlink", path);
		file->present = false;
		return true;
	case 2:
		target = &files[random() % NR_NAMES];
		if (target == file)
			return true;
		target_path = path_of(worker, target - files);
		if (rename(path, target_path))
			return failed("rename", path);
		*target = *file;
		file->present = false;
		return true;
	default:
		return file_check(path, file);
	}
}

static int worker_run(struct state *state, int worker)
{
	uint64_t generation = (uint64_t)(worker + 1) << 48;

	srandom(worker + 1);
	while (!__atomic_load_n(&state->stop, __ATOMIC_RELAXED)) {
		if (!operate(state, worker, &generation))
			return 1;
		state->operations[worker]++;
	}
	return 0;
}

/*
 * Moves the pages that are not on @node, in one call: move_pages(2) gives up early
 * when it meets a page that need not move after one that could not. Returns how
 * many arrived, or -1.
 */
static long pages_move(char *map, size_t nr, int node)
{
	size_t page_size = sysconf(_SC_PAGESIZE);
	size_t i, nr_move = 0;
	long moved = -1;
	void **pages;
	int *nodes, *status;

	pages = calloc(nr, sizeof(*pages));
	nodes = calloc(nr, sizeof(*nodes));
	status = calloc(nr, sizeof(*status));
	if (!pages || !nodes || !status)
		goto out;
	for (i = 0; i < nr; i++) {
		pages[i] = map + i * page_size;
		(void)*(volatile char *)pages[i];
		nodes[i] = node;
	}
	if (syscall(SYS_move_pages, 0, nr, pages, NULL, status, 0))
		goto out;
	for (i = 0; i < nr; i++)
		if (status[i] >= 0 && status[i] != node)
			pages[nr_move++] = pages[i];
	if (syscall(SYS_move_pages, 0, nr_move, pages, nodes, status,
		    MPOL_MF_MOVE_ALL) < 0)
		goto out;
	if (syscall(SYS_move_pages, 0, nr_move, pages, NULL, status, 0))
		goto out;
	moved = 0;
	for (i = 0; i < nr_move; i++)
		moved += status[i] == node;
out:
	if (moved < 0)
		perror("move_pages");
	free(pages);
	free(nodes);
	free(status);
	return moved;
}

static uint64_t operations(const struct state *state)
{
	uint64_t sum = 0;

	for (int worker = 0; worker < NR_WORKERS; worker++)
		sum += __atomic_load_n(&state->operations[worker], __ATOMIC_RELAXED);
	return sum;
}

/*
 * Moves the pages of the block device between nodes 0 and 1, until @folios were declined
 * and files have changed often, but not for ever; returns how many pages moved.
 * The metadata that changes most, bitmaps and inodes, lies at the beginning: that part
 * goes in every round, the rest in one of four.
 */
static long device_move(const struct state *state, const char *device, uint64_t folios)
{
	long moved = 0, n = 0;
	unsigned int round = 0;
	uint64_t size, nr;
	int node = 0;
	char *map;
	int fd;

	fd = open(device, O_RDONLY);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size)) {
		perror(device);
		return -1;
	}
	map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		perror("mmap");
		return -1;
	}
	while ((offload_grown(DECLINED) < folios || operations(state) < OPERATIONS) &&
	       round < ROUNDS_MAX && n >= 0) {
		node = !node;
		nr = size / sysconf(_SC_PAGESIZE);
		n = pages_move(map, round++ % 4 ? nr / 4 : nr, node);
		moved += n;
	}
	munmap(map, size);
	return n < 0 ? n : moved;
}

static int churn(const char *device, uint64_t folios, const char *manifest)
{
	struct state *state;
	pid_t pids[NR_WORKERS];
	int worker, status, fd, err = 0;
	char path[256];
	long moved;

	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (worker = 0; worker < NR_WORKERS; worker++) {
		snprintf(path, sizeof(path), "%s/worker%d", mountpoint, worker);
		if (mkdir(path, 0700)) {
			perror(path);
			return 1;
		}
		fflush(stdout);
		pids[worker] = fork();
		if (!pids[worker]) {
			err = worker_run(state, worker);
			fflush(stdout);
			_exit(err);
		}
	}

	offload_mark();
	moved = device_move(state, device, folios);
	__atomic_store_n(&state->stop, true, __ATOMIC_RELAXED);
	for (worker = 0; worker < NR_WORKERS; worker++) {
		if (waitpid(pids[worker], &status, 0) < 0 || status)
			err = 1;
	}

	fd = open(manifest, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, state, sizeof(*state)) != sizeof(*state)) {
		perror(manifest);
		return 1;
	}
	close(fd);
	printf("# %llu file operations, %ld pages of the device moved, %llu folios declined\n",
	       (unsigned long long)operations(state), moved,
	       (unsigned long long)offload_grown(DECLINED));
	return err || moved < 1000 || operations(state) < OPERATIONS ||
	       offload_grown(DECLINED) < folios;
}

static int check(const char *manifest)
{
	static struct state state;
	int worker, name, fd, wrong = 0;

	fd = open(manifest, O_RDONLY);
	if (fd < 0 || read(fd, &state, sizeof(state)) != sizeof(state)) {
		perror(manifest);
		return 1;
	}
	close(fd);
	for (worker = 0; worker < NR_WORKERS; worker++)
		for (name = 0; name < NR_NAMES; name++)
			wrong += !file_check(path_of(worker, name),
					     &state.files[worker][name]);
	printf("# %d of %d names wrong\n", wrong, NR_WORKERS * NR_NAMES);
	return !!wrong;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "churn")) {
		mountpoint = argv[2];
		return churn(argv[3], atol(argv[4]), argv[5]);
	}
	if (argc == 4 && !strcmp(argv[1], "check")) {
		mountpoint = argv[2];
		return check(argv[3]);
	}
	fprintf(stderr,
		"usage: buffer_heads churn MOUNTPOINT DEVICE FOLIOS MANIFEST\n"
		"       buffer_heads check MOUNTPOINT MANIFEST\n");
	return 2;
}
