// SPDX-License-Identifier: GPL-2.0
/* Chance, mappings, accesses that may fail, and the state of pages. */
#include <setjmp.h>
#include <signal.h>

#include "layout.h"

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

size_t rng_choose(struct rng *rng, const unsigned int *weights, size_t nr)
{
	unsigned int sum = 0;
	uint64_t chosen;
	size_t i;

	for (i = 0; i < nr; i++)
		sum += weights[i];
	chosen = rng_below(rng, sum);
	for (i = 0; chosen >= weights[i]; i++)
		chosen -= weights[i];
	return i;
}

bool rng_chance(struct rng *rng, unsigned int percent)
{
	return rng_below(rng, 100) < percent;
}

size_t layout_vmas(pid_t pid, struct vma *vmas, size_t max)
{
	FILE *file = fopen(setting_path("/proc/%d/maps", pid), "r");
	char line[512];
	size_t nr = 0;

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
	uint64_t entry = 0;
	bool any = false;

	for (size_t i = 0; i < nr && !any; i++)
		any = pread(fd, &entry, sizeof(entry), (first + i) * sizeof(entry)) > 0 &&
		      (entry >> PAGEMAP_UFFD_BIT) & 1;
	close(fd);
	return any;
}

static sigjmp_buf failed_access;
static volatile bool accessing;

static void on_fault(int signal, siginfo_t *info, void *context)
{
	bool poison = signal == SIGBUS && (info->si_code == BUS_MCEERR_AO ||
					   info->si_code == BUS_MCEERR_AR);

	if (accessing)
		siglongjmp(failed_access, 1);
	/* The kernel reports poison to processes that do not touch it, too. */
	if (!poison)
		_exit(signal);
}

void layout_catch_faults(void)
{
	/* No access saves or restores the signal mask: it must not change. */
	struct sigaction action = {
		.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART,
	};

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

static bool try_access(volatile uint64_t *word, const uint64_t *value)
{
	volatile bool done = false;

	accessing = true;
	if (!sigsetjmp(failed_access, 0)) {
		if (value)
			*word = *value;
		else
			(void)*(volatile char *)word;
		done = true;
	}
	accessing = false;
	return done;
}

bool layout_try_read(const void *addr)
{
	return try_access((void *)addr, NULL);
}

bool layout_try_write(void *addr, uint64_t value)
{
	return try_access(addr, &value);
}

char *layout_new_slot(struct layout *layout)
{
	if (layout->nr_slots == MAX_SLOTS)
		return NULL;
	return (char *)ARENA_BASE + SLOT_SIZE * layout->nr_slots++;
}

int layout_device(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/page_state", O_RDWR | O_CLOEXEC);
	return fd;
}

bool layout_states(pid_t pid, struct range range, struct page_state *states)
{
	struct page_state_query query = {
		.pid = pid, .start = (uintptr_t)range.addr,
		.nr = range.len / memory_page_size(), .states = (uintptr_t)states,
	};

	return !ioctl(layout_device(), PAGE_STATE_GET, &query);
}

static uint64_t *own_word(char *page)
{
	return (uint64_t *)page + PAGE_STATE_WORD;
}

/* The word as the kernel sees it, whatever stale translation this process has. */
static bool kernels_word(char *page, uint64_t *word)
{
	const struct range range = { .addr = page, .len = memory_page_size() };
	struct page_state state;

	if (!layout_states(getpid(), range, &state) || !state.folio_pfn)
		return false;
	*word = state.word;
	return true;
}

static uint64_t own_value(const struct layout *layout, const uint64_t *word)
{
	return ((uintptr_t)word << 8) + layout->self + 1;
}

/*
 * No other process may change what this one writes to a private mapping. Shared pages
 * have what the last writer wrote.
 */
void layout_write_all(struct layout *layout)
{
	static struct vma vmas[MAX_VMAS];
	size_t page = memory_page_size(), nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	size_t written = 0, tried = 0, lost = 0;

	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; vmas[i].writable && j < vmas[i].len; j += page, tried++) {
			uint64_t *word = own_word(vmas[i].addr + j);

			written += layout_try_write(word, own_value(layout, word));
		}
	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; vmas[i].writable && j < vmas[i].len; j += page) {
			uint64_t *word = own_word(vmas[i].addr + j);
			uint64_t value;

			if (vmas[i].shared || !layout_try_read(word))
				continue;
			/* A write and a read through one stale translation agree. */
			lost += *word != own_value(layout, word) ||
				!kernels_word(vmas[i].addr + j, &value) || value != *word;
		}
	printf("p%u wrote %zu pages, could not write %zu, lost %zu\n", layout->self, written,
	       tried - written, lost);
}
