// SPDX-License-Identifier: GPL-2.0
/*
 * Random layouts of memory, migrated there and back, and all that can be seen of
 * them in between, as text: migrate_layouts [-tp] <first seed> <number of seeds>.
 * Two kernels that do the same print the same. Needs the module page_state.
 *
 * With -t a second thread runs on the last CPU while memory migrates, so that the
 * process's translations may be in use there. With -p the node that memory migrates
 * to has too little memory for it.
 */
#include <signal.h>
#include <sys/wait.h>

#include "layout.h"

#define SECONDS_PER_LAYOUT	60
#define LAYOUTS_PER_WORD	25

#define MAX_OPERATIONS	14

static void build(struct layout *layout)
{
	unsigned int regions = 1 + rng_below(&layout->rng, 4);
	unsigned int steps = 2 + rng_below(&layout->rng, MAX_OPERATIONS);

	while (regions--) {
		int err = layout_add_region(layout);

		if (err)
			printf("no region: %d\n", err);
	}
	while (steps--)
		layout_operate(layout);
}

static void write_everywhere(struct layout *layout)
{
	struct touched none;

	layout_write_all(layout);
	for (unsigned int i = 1; i < layout->nr_processes; i++)
		if (!layout_command(layout, i, COMMAND_WRITE, &none))
			printf("PROCESS %u IS GONE\n", i);
}

/* A file with one page, which is mapped where no layout is. */
static void *map_pause_page(struct layout *layout)
{
	size_t page = memory_page_size();
	char *addr;

	layout->pause_fd = open(getenv("MIG_RAM_DIR") ?: "/run/ramfs", O_TMPFILE | O_RDWR, 0600);
	if (layout->pause_fd < 0 || ftruncate(layout->pause_fd, page))
		return NULL;
	addr = mmap((void *)PAUSE_ADDR, page, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_FIXED_NOREPLACE, layout->pause_fd, 0);
	if (addr == MAP_FAILED)
		return NULL;
	*addr = 1;
	if (ioctl(layout_device(), PAGE_STATE_PAUSE_AT, layout->pause_fd))
		return NULL;
	ioctl(layout_device(), PAGE_STATE_PAUSE_END);
	return addr;
}

static int run_layout(uint64_t seed, bool threaded, bool pressure)
{
	static struct layout layout;
	const struct snapshot *before;

	layout = (struct layout) {
		.seed = seed, .rng = { .state = seed * 0x2545f4914f6cdd1dULL },
		.nr_processes = 1, .processes = { { .pid = getpid() } },
		.hold = { -1, -1 }, .file_dir = -1, .pressure = pressure,
	};
	layout.file_dir = open(getenv("MIG_FILE_DIR") ?: "/tmp", O_DIRECTORY | O_CLOEXEC);
	if (memory_nodes(layout.nodes, 2) < 2)
		return 1;
	layout.pause_page = map_pause_page(&layout);
	if (!layout.pause_page)
		return 1;
	alarm(SECONDS_PER_LAYOUT);
	layout_catch_faults();
	/* A write to a dead child must fail: the output says that it died. */
	signal(SIGPIPE, SIG_IGN);
	build(&layout);
	layout_drain_batches();

	before = layout_show(&layout, "before", NULL);
	layout_move(&layout, layout.nodes[1], threaded);
	layout_show(&layout, "there", before);
	close(layout.hold[0]);
	close(layout.hold[1]);
	if (rng_chance(&layout.rng, 50)) {
		layout_move(&layout, layout.nodes[0], threaded);
		layout_show(&layout, "back", before);
	}
	write_everywhere(&layout);
	layout_drain_batches();
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

#define HUGE_POOL	"hugepages/hugepages-2048kB/nr_hugepages"
#define MOST_LEFT	(32 * MIB)
#define LEAST_LEFT	(8 * MIB)

/* Takes most of a node's memory as huge pages, without a write to it. */
static bool take_huge_pages(int node, size_t left)
{
	size_t free = memory_node_kib(node, "MemFree:") * KIB;
	size_t nr = hugetlb_held(PMD_SIZE, node) + (free > left ? (free - left) / PMD_SIZE : 0);

	return !setting_write_number(setting_path(NODE_DIR "/node%d/" HUGE_POOL, node), nr);
}

static bool take_pages(int node, size_t left)
{
	size_t free = memory_node_kib(node, "MemFree:") * KIB;
	char *addr;

	if (free <= left)
		return true;
	memory_bind(node);
	addr = mmap(NULL, free - left, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (addr == MAP_FAILED || mlock(addr, free - left))
		return false;
	memory_bind(-1);
	return true;
}

/* Leaves a node less memory than most layouts have. */
static bool fill_node(int node)
{
	if (setting_write("/proc/sys/vm/min_free_kbytes", "1024") ||
	    !take_huge_pages(node, MOST_LEFT))
		return false;
	for (size_t left = MOST_LEFT; left >= LEAST_LEFT; left /= 2)
		/* Compaction drains the lists of CPUs, whose pages count as free. */
		if (!take_pages(node, left) || setting_write("/proc/sys/vm/compact_memory", "1"))
			return false;
	return true;
}

static int print_usage(void)
{
	fprintf(stderr, "usage: migrate_layouts [-tp] <first seed> <number>\n");
	return 2;
}

int main(int argc, char **argv)
{
	bool threaded = false, pressure = false;
	int nodes[2], failed = 0, option;
	uint64_t first, nr;

	while ((option = getopt(argc, argv, "tp")) != -1) {
		if (option == '?')
			return print_usage();
		threaded |= option == 't';
		pressure |= option == 'p';
	}
	if (argc - optind != 2)
		return print_usage();
	first = strtoull(argv[optind], NULL, 0);
	nr = strtoull(argv[optind + 1], NULL, 0);
	if (access("/dev/page_state", R_OK | W_OK)) {
		fprintf(stderr, "no /dev/page_state\n");
		return 1;
	}
	layout_settings();
	/* Where memory comes from must not depend on where the scheduler puts us. */
	run_on_cpus(0, 0);
	if (pressure && (memory_nodes(nodes, 2) < 2 || !fill_node(nodes[1]))) {
		fprintf(stderr, "node %d cannot be filled\n", nodes[1]);
		return 1;
	}

	for (uint64_t seed = first; seed < first + nr; seed++) {
		int status;
		pid_t pid;

		/* The caller may keep standard output for the end. */
		if (seed != first && !((seed - first) % LAYOUTS_PER_WORD))
			fprintf(stderr, "# %llu of %llu layouts\n",
				(unsigned long long)(seed - first), (unsigned long long)nr);
		layout_drain_batches();
		printf("layout %llu\n", (unsigned long long)seed);
		say_in_log(seed);
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(run_layout(seed, threaded, pressure));
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			printf("FAILED: status %#x\n", status);
			failed = 1;
		}
		printf("end %llu\n", (unsigned long long)seed);
	}
	return failed;
}
