// SPDX-License-Identifier: GPL-2.0
/* A layout from its seed: a few regions, then operations on random parts of them. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "layout.h"
#include "memory.h"

#define MAX_OPERATIONS	14

uint64_t rng_next(struct rng *rng)
{
	uint64_t value = rng->state += 0x9e3779b97f4a7c15ULL;

	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
	return value ^ (value >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t end)
{
	return rng_next(rng) % end;
}

bool rng_chance(struct rng *rng, unsigned int percent)
{
	return rng_below(rng, 100) < percent;
}

size_t layout_vmas(pid_t pid, struct vma *vmas, size_t max)
{
	char path[64], line[512];
	size_t nr = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (nr < max && fgets(line, sizeof(line), file)) {
		char *pos;
		unsigned long start = strtoul(line, &pos, 16);
		unsigned long end = strtoul(pos + 1, &pos, 16);
		unsigned long inode;

		if (start < ARENA_BASE)
			continue;
		if (start >= ARENA_END)
			break;
		/* " rwxp <offset> <device> <inode>" */
		if (sscanf(pos, " %*s %*s %*s %lu", &inode) != 1)
			inode = 0;
		vmas[nr++] = (struct vma) {
			.addr = (char *)start, .len = end - start,
			.readable = pos[1] == 'r', .writable = pos[2] == 'w',
			.shared = pos[4] == 's', .file = inode,
		};
	}
	fclose(file);
	return nr;
}

#define PAGEMAP_UFFD_BIT	57

bool layout_any_uffd(struct range part)
{
	size_t nr = part.len / memory_page_size();
	off_t first = (uintptr_t)part.addr / memory_page_size();
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry;
	bool any = false;

	for (size_t i = 0; i < nr && !any; i++) {
		if (pread(fd, &entry, sizeof(entry), (first + i) * sizeof(entry)) !=
		    sizeof(entry))
			break;
		any = (entry >> PAGEMAP_UFFD_BIT) & 1;
	}
	close(fd);
	return any;
}

static sigjmp_buf failed_access;

static volatile bool accessing;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	bool poison = signal == SIGBUS && (info->si_code == BUS_MCEERR_AO ||
					   info->si_code == BUS_MCEERR_AR);

	if (!accessing) {
		/* That a page has gone bad is also said to those who do not touch it. */
		if (poison)
			return;
		_exit(signal);
	}
	siglongjmp(failed_access, 1);
}

void layout_catch_faults(void)
{
	/* Neither saved nor restored at each access: the mask must not change. */
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART,
	};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

bool layout_try_read(const void *addr)
{
	volatile bool done = false;

	accessing = true;
	if (!sigsetjmp(failed_access, 0)) {
		(void)*(const volatile char *)addr;
		done = true;
	}
	accessing = false;
	return done;
}

bool layout_try_write(void *addr, uint64_t value)
{
	volatile bool done = false;

	accessing = true;
	if (!sigsetjmp(failed_access, 0)) {
		*(volatile uint64_t *)addr = value;
		done = true;
	}
	accessing = false;
	return done;
}

char *layout_new_slot(struct layout *layout)
{
	if (layout->nr_slots == MAX_SLOTS)
		return NULL;
	return (char *)ARENA_BASE + SLOT_SIZE * layout->nr_slots++;
}

static const struct operation *random_operation(struct rng *rng)
{
	unsigned int sum = 0;
	uint64_t chosen;
	size_t i;

	for (i = 0; i < nr_operations; i++)
		sum += operations[i].weight;
	chosen = rng_below(rng, sum);
	for (i = 0; chosen >= operations[i].weight; i++)
		chosen -= operations[i].weight;
	return &operations[i];
}

/* All of it, one page, or anything between; often with an end where a folio may end. */
static struct range random_part(struct rng *rng, const struct vma *vma)
{
	size_t page = memory_page_size();
	size_t nr = vma->len / page;
	size_t first = 0, len = nr;

	if (!rng_chance(rng, 15)) {
		first = rng_below(rng, nr);
		len = 1 + rng_below(rng, rng_chance(rng, 50) && nr > 16 ? 16 : nr);
		if (rng_chance(rng, 30))
			first &= ~15UL;
		if (rng_chance(rng, 30))
			len = (len + 15) & ~15UL;
	}
	if (len > nr - first)
		len = nr - first;
	return (struct range) { .addr = vma->addr + first * page, .len = len * page };
}

static void run_random_operation(struct layout *layout)
{
	static struct vma vmas[MAX_VMAS];
	size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	const struct operation *operation;
	const struct vma *vma;
	struct range part;
	int err;

	if (!nr)
		return;
	vma = &vmas[rng_below(&layout->rng, nr)];
	part = random_part(&layout->rng, vma);
	operation = random_operation(&layout->rng);
	err = operation->run(layout, vma, part);
	printf("p%u %s %lx+%zx = %d\n", layout->self, operation->name,
	       ((uintptr_t)part.addr - ARENA_BASE) / memory_page_size(),
	       part.len / memory_page_size(), err);
}

void layout_build(struct layout *layout)
{
	unsigned int regions = 1 + rng_below(&layout->rng, 4);
	unsigned int steps = 2 + rng_below(&layout->rng, MAX_OPERATIONS);

	while (regions--) {
		int err = layout_add_region(layout);

		if (err)
			printf("no region: %d\n", err);
	}
	while (steps--)
		run_random_operation(layout);
}
