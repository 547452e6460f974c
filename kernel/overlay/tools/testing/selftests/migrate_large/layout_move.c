// SPDX-License-Identifier: GPL-2.0
/*
 * Migration of all that a layout has, and what happens to its memory meanwhile.
 *
 * A list of addresses for move_pages(2) may have a page of a file among them at which
 * the module page_state pauses the migration. The rest of the batch is unmapped then,
 * and a thread does something to the memory: the same on every kernel.
 */
#include <pthread.h>
#include <linux/mempolicy.h>

#include "layout.h"

#define MAX_NAMED	16384
#define NOT_STORED	(-1000)
#define MAX_PFN		(1UL << 22)

/* A thread that runs on another CPU while memory is moved, and touches none of it. */
struct other {
	pthread_t thread;
	int busy, stop;
};

static void *other_main(void *arg)
{
	const int last_cpu = sysconf(_SC_NPROCESSORS_ONLN) - 1;
	struct other *other = arg;

	run_on_cpus(last_cpu, last_cpu);
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

void layout_drain_batches(void)
{
	static char page;
	void *pages[] = { &page };
	int node = 0, status;

	syscall(__NR_move_pages, 0, 1, pages, &node, &status, MPOL_MF_MOVE);
}

/* Addresses of a process for move_pages(2); @large: the heads of large folios. */
struct names { size_t nr; void *pages[MAX_NAMED]; bool large[MAX_NAMED]; };

static struct names names[MAX_PROCESSES];

static void add_name(struct names *list, void *page, bool large)
{
	if (list->nr == MAX_NAMED)
		return;
	list->pages[list->nr] = page;
	list->large[list->nr++] = large;
}

/* True if a list has a page of this folio already. */
static bool named_before(uint8_t *seen, uint64_t pfn)
{
	bool before = pfn && pfn < MAX_PFN && seen[pfn / 8] & 1U << pfn % 8;

	if (pfn < MAX_PFN)
		seen[pfn / 8] |= 1U << pfn % 8;
	return before;
}

/*
 * Chance decides how many heads and how many other pages are named, but only one page of
 * each folio: at the second one move_pages(2) of vanilla ends a batch, with an error for
 * its status. migrate_addresses.c tests ours.
 */
static void choose_names(struct layout *layout, struct names *list, pid_t pid)
{
	static const unsigned int chances[] = { 0, 0, 0, 3, 20, 100 };
	unsigned int others = chances[rng_below(&layout->rng, ARRAY_SIZE(chances))];
	unsigned int heads = rng_chance(&layout->rng, 85) ? 100 : others;
	static struct page_state states[SLOT_SIZE / 4096];
	static struct vma vmas[MAX_VMAS];
	static uint8_t seen[MAX_PFN / 8];
	size_t page = memory_page_size(), nr = layout_vmas(pid, vmas, MAX_VMAS);

	list->nr = 0;
	memset(seen, 0, sizeof(seen));
	for (size_t i = 0; i < nr; i++) {
		if (!layout_states(pid, (struct range) { vmas[i].addr, vmas[i].len }, states))
			printf("NO STATE: %d\n", errno);
		for (size_t j = 0; j < vmas[i].len / page; j++) {
			bool head = states[j].folio_pfn && !states[j].index;

			if (rng_chance(&layout->rng, head ? heads : others) &&
			    !named_before(seen, states[j].folio_pfn))
				add_name(list, vmas[i].addr + j * page, head && states[j].order);
		}
	}
}

/* Puts the page that pauses the migration somewhere in a list; it must be on @node. */
static void name_pause(struct layout *layout, struct names *list, int node)
{
	size_t at = rng_chance(&layout->rng, 60) ? 0 : rng_below(&layout->rng, list->nr + 1);
	void *from = layout->pause_page;

	if (list->nr == MAX_NAMED ||
	    syscall(__NR_move_pages, 0, 1, &from, &node, &(int) { 0 }, MPOL_MF_MOVE) < 0)
		return;
	memmove(&list->pages[at + 1], &list->pages[at], (list->nr - at) * sizeof(*list->pages));
	memmove(&list->large[at + 1], &list->large[at], (list->nr - at) * sizeof(*list->large));
	list->pages[at] = layout->pause_page;
	list->large[at] = false;
	list->nr++;
}

static void show_pause(const struct names *list)
{
	size_t unmapped = 0, large = 0;

	for (size_t i = 0; i < list->nr; i++) {
		struct range range = { list->pages[i], memory_page_size() };
		struct page_state state;

		if (!layout_states(getpid(), range, &state) || !(state.pte & PTE_IS_MIGRATION))
			continue;
		unmapped++;
		large += list->large[i];
	}
	printf("paused: %zu of %zu pages named are unmapped, %zu large folios\n", unmapped,
	       list->nr, large);
}

/* Does something to the memory while the migration is paused. */
static void *meddle(void *arg)
{
	struct layout *layout = arg;
	unsigned int steps;

	if (ioctl(layout_device(), PAGE_STATE_PAUSE_WAIT) != 1) {
		printf("not paused\n");
		return NULL;
	}
	show_pause(&names[0]);
	layout->paused = true;
	for (steps = 1 + rng_below(&layout->rng, 3); steps; steps--) {
		struct touched *touched = &layout->touched[layout->nr_touched];
		unsigned int who = rng_below(&layout->rng, layout->nr_processes);

		if (layout->nr_touched == MAX_TOUCHED)
			break;
		if (!who)
			*touched = layout_operate(layout);
		else if (!layout_command(layout, who, COMMAND_OPERATE, touched))
			printf("PROCESS %u IS GONE\n", who);
		layout->nr_touched++;
	}
	layout->paused = false;
	ioctl(layout_device(), PAGE_STATE_PAUSE_END);
	return NULL;
}

static void show_status(const struct names *list, const int *status)
{
	size_t page = memory_page_size(), first = 0;

	printf(" status");
	for (size_t i = 1; i <= list->nr; i++) {
		if (i < list->nr && status[i] == status[first] &&
		    list->pages[i] == (char *)list->pages[i - 1] + page)
			continue;
		if (list->pages[first] == (void *)PAUSE_ADDR)
			printf(" pause:%d", status[first]);
		else
			printf(" %lx+%zx:%d", ((uintptr_t)list->pages[first] - ARENA_BASE) / page,
			       i - first, status[first]);
		first = i;
	}
	putchar('\n');
}

static void move_process(struct layout *layout, unsigned int number, int node)
{
	static int nodes[MAX_NAMED], status[MAX_NAMED];
	const struct names *list = &names[number];
	long ret;

	if (!list->nr)
		return;
	for (size_t i = 0; i < list->nr; i++) {
		nodes[i] = node;
		status[i] = NOT_STORED;
	}
	ret = syscall(__NR_move_pages, layout->processes[number].pid, list->nr, list->pages,
		      nodes, status, MPOL_MF_MOVE_ALL);
	printf("move process %u to node %d: %ld of %zu, %s\n", number, node, ret, list->nr,
	       ret < 0 ? strerror(errno) : "done");
	show_status(list, status);
	/* A fork shared it meanwhile: it is copied, by kernels that stored nothing as well. */
	memset(status, 0, list->nr * sizeof(*status));
}

static void move_and_meddle(struct layout *layout, int node)
{
	pthread_t thread;

	if (ioctl(layout_device(), PAGE_STATE_PAUSE_AT, layout->pause_fd) ||
	    pthread_create(&thread, NULL, meddle, layout)) {
		printf("NO STATE: %d\n", errno);
		return;
	}
	move_process(layout, 0, node);
	ioctl(layout_device(), PAGE_STATE_PAUSE_END);
	pthread_join(thread, NULL);
}

/* Migrates the builder's memory by mapping, which splits the work in another way. */
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

void layout_move(struct layout *layout, int node, bool threaded)
{
	unsigned int nr_processes = layout->nr_processes;
	int from = node == layout->nodes[0] ? layout->nodes[1] : layout->nodes[0];
	/* On the way back vanilla splits folios, and so unmaps others before the pause. */
	bool paused = node == layout->nodes[1] && rng_chance(&layout->rng, 50);
	struct other other;

	/* Choose all before anything moves: a move may change folios. */
	for (unsigned int i = 0; i < nr_processes; i++)
		choose_names(layout, &names[i], layout->processes[i].pid);
	if (paused)
		name_pause(layout, &names[0], from);
	if (threaded)
		other_begin(&other);
	/* The OOM killer ends a process that is bound to a full node. */
	if (rng_chance(&layout->rng, 15) && !layout->pressure)
		bind_all(layout, node);
	if (paused)
		move_and_meddle(layout, node);
	else
		move_process(layout, 0, node);
	for (unsigned int i = 1; i < nr_processes; i++)
		move_process(layout, i, node);
	if (threaded)
		other_end(&other);
}
