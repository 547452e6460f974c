// SPDX-License-Identifier: GPL-2.0
/*
 * Random layouts of memory, migrated there and back, and all that can be seen of
 * them in between, as text: migrate_layouts [-t] <first seed> <number of seeds>.
 * Two kernels that do the same print the same. Needs the module page_state.
 *
 * With -t a second thread runs on the last CPU while memory migrates, so that the
 * process's translations may be in use there.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "layout.h"
#include "memory.h"
#include "page_state/page_state.h"

#define SECONDS_PER_LAYOUT	60
#define LAYOUTS_PER_WORD	25

static uint64_t own_value(const struct layout *layout, const uint64_t *word)
{
	return ((uintptr_t)word << 8) + layout->self + 1;
}

/*
 * Pages of a private mapping are this process's alone: nobody else may have seen
 * what is written, nor may it change. Of shared ones the last writer's is there.
 */
void layout_write_all(struct layout *layout)
{
	static struct vma vmas[MAX_VMAS];
	size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	size_t page = memory_page_size();
	size_t written = 0, failed = 0, lost = 0;

	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; vmas[i].writable && j < vmas[i].len; j += page) {
			uint64_t *word = layout_own_word(vmas[i].addr + j);

			if (layout_try_write(word, own_value(layout, word)))
				written++;
			else
				failed++;
		}
	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; vmas[i].writable && j < vmas[i].len; j += page) {
			uint64_t *word = layout_own_word(vmas[i].addr + j);
			uint64_t value;

			if (vmas[i].shared || !layout_try_read(word))
				continue;
			/* Through a translation that is no more both would look right. */
			lost += *word != own_value(layout, word) ||
				!layout_kernels_word(vmas[i].addr + j, &value) ||
				value != *word;
		}
	printf("p%u wrote %zu pages, could not write %zu, lost %zu\n", layout->self, written,
	       failed, lost);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* A thread that runs on another CPU while memory is moved, and touches none of it. */
struct other {
	pthread_t thread;
	int busy;
	int stop;
};

static void *other_main(void *arg)
{
	struct other *other = arg;

	run_on(sysconf(_SC_NPROCESSORS_ONLN) - 1);
	while (!__atomic_load_n(&other->stop, __ATOMIC_ACQUIRE)) {
		usleep(100);
		__atomic_store_n(&other->busy, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void other_begin(struct other *other)
{
	*other = (struct other) { 0 };
	if (pthread_create(&other->thread, NULL, other_main, other))
		exit(1);
	while (!__atomic_load_n(&other->busy, __ATOMIC_ACQUIRE))
		usleep(100);
}

static void other_end(struct other *other)
{
	__atomic_store_n(&other->stop, 1, __ATOMIC_RELEASE);
	pthread_join(other->thread, NULL);
}

#define MAX_ADDRESSES	16384

/* One call for all pages of a process, so that they are migrated in batches. */
static void move_process(const struct layout *layout, unsigned int number, int node)
{
	static struct vma vmas[MAX_VMAS];
	static void *pages[MAX_ADDRESSES];
	static int nodes[MAX_ADDRESSES], status[MAX_ADDRESSES];
	pid_t pid = layout->processes[number].pid;
	size_t nr_vmas = layout_vmas(pid, vmas, MAX_VMAS);
	size_t nr = 0;
	long ret;

	for (size_t i = 0; i < nr_vmas; i++)
		for (size_t j = 0; j < vmas[i].len && nr < MAX_ADDRESSES;
		     j += memory_page_size()) {
			pages[nr] = vmas[i].addr + j;
			nodes[nr++] = node;
		}
	if (!nr)
		return;
	memset(status, 0, sizeof(status));
	ret = syscall(__NR_move_pages, pid, nr, pages, nodes, status, MPOL_MF_MOVE_ALL);
	printf("move process %u to node %d: %s\n", number, node,
	       ret < 0 ? strerror(errno) : "done");
}

/* By address in the mappings of the builder; splits the work in another way. */
static void bind_all(const struct layout *layout, int node)
{
	static struct vma vmas[MAX_VMAS];
	size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	unsigned long mask = 1UL << node;

	for (size_t i = 0; i < nr; i++) {
		long ret = syscall(__NR_mbind, vmas[i].addr, vmas[i].len, MPOL_BIND, &mask,
				   8 * sizeof(mask), MPOL_MF_MOVE_ALL);

		printf("mbind %zu: %s\n", i, ret < 0 ? strerror(errno) : "done");
	}
}

static void move(struct layout *layout, int node, bool threaded)
{
	struct other other;

	if (threaded)
		other_begin(&other);
	if (rng_chance(&layout->rng, 15))
		bind_all(layout, node);
	for (unsigned int i = 0; i < layout->nr_processes; i++)
		move_process(layout, i, node);
	if (threaded)
		other_end(&other);
}

static void write_everywhere(struct layout *layout)
{
	char byte = 'w';

	layout_write_all(layout);
	fflush(stdout);
	for (unsigned int i = 1; i < layout->nr_processes; i++)
		if (write(layout->processes[i].command, &byte, 1) != 1 ||
		    read(layout->processes[i].answer, &byte, 1) != 1 || byte)
			printf("PROCESS %u IS GONE\n", i);
		else
			byte = 'w';
}

static void release(struct layout *layout)
{
	for (unsigned int i = 0; i < 2; i++)
		if (layout->hold[i] >= 0)
			close(layout->hold[i]);
}

/*
 * Whatever waits in a batch of a CPU goes where it belongs. A migration begins with that,
 * and no layout may depend on those before it.
 */
static void drain_batches(void)
{
	static char page;
	void *pages[] = { &page };
	int node = 0, status;

	syscall(__NR_move_pages, 0, 1, pages, &node, &status, MPOL_MF_MOVE);
}

static int run_layout(uint64_t seed, bool threaded)
{
	static struct layout layout;
	const struct snapshot *before;

	layout = (struct layout) {
		.seed = seed, .rng = { .state = seed * 0x2545f4914f6cdd1dULL },
		.nr_processes = 1, .processes = { { .pid = getpid() } },
		.hold = { -1, -1 }, .file_dir = -1,
	};
	layout.file_dir = open(getenv("MIG_FILE_DIR") ?: "/tmp", O_DIRECTORY | O_CLOEXEC);
	if (!memory_two_nodes(&layout.nodes[0], &layout.nodes[1]))
		return 1;
	alarm(SECONDS_PER_LAYOUT);
	layout_catch_faults();
	layout_build(&layout);
	drain_batches();

	before = layout_show(&layout, "before", NULL);
	move(&layout, layout.nodes[1], threaded);
	layout_show(&layout, "there", before);
	release(&layout);
	if (rng_chance(&layout.rng, 50)) {
		move(&layout, layout.nodes[0], threaded);
		layout_show(&layout, "back", before);
	}
	write_everywhere(&layout);
	layout_show(&layout, "written", NULL);
	for (unsigned int i = 1; i < layout.nr_processes; i++) {
		kill(layout.processes[i].pid, SIGKILL);
		waitpid(layout.processes[i].pid, NULL, 0);
	}
	layout_unpin(&layout);
	fflush(stdout);
	return 0;
}

/* Should the kernel die, its log says in which layout. */
static void say_in_log(uint64_t seed)
{
	FILE *log = fopen("/dev/kmsg", "w");

	if (!log)
		return;
	fprintf(log, "layout %llu\n", (unsigned long long)seed);
	fclose(log);
}

int main(int argc, char **argv)
{
	bool threaded = argc > 1 && !strcmp(argv[1], "-t");
	uint64_t first, nr;
	int failed = 0;

	argc -= threaded;
	argv += threaded;
	if (argc != 3) {
		fprintf(stderr, "usage: migrate_layouts [-t] <first seed> <number>\n");
		return 2;
	}
	first = strtoull(argv[1], NULL, 0);
	nr = strtoull(argv[2], NULL, 0);
	if (access("/dev/page_state", R_OK | W_OK)) {
		fprintf(stderr, "no /dev/page_state\n");
		return 1;
	}
	layout_settings();
	/* Where memory comes from must not depend on where the scheduler puts us. */
	run_on(0);

	for (uint64_t seed = first; seed < first + nr; seed++) {
		int status;
		pid_t pid;

		/* Standard output may be kept for the end. */
		if (seed != first && !((seed - first) % LAYOUTS_PER_WORD))
			fprintf(stderr, "# %llu of %llu layouts\n",
				(unsigned long long)(seed - first), (unsigned long long)nr);
		drain_batches();
		printf("layout %llu\n", (unsigned long long)seed);
		say_in_log(seed);
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(run_layout(seed, threaded));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			printf("FAILED: status %#x\n", status);
			failed = 1;
		}
		printf("end %llu\n", (unsigned long long)seed);
	}
	return failed;
}
