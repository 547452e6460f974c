// SPDX-License-Identifier: GPL-2.0
/*
 * All that can be seen of a layout, as text: neighbouring pages of one folio that
 * are alike make one line, and folios are numbered as they come.
 */
#include "layout.h"

#define MAX_PAGES		8192

static const char * const counter_names[] = {
	"nr_anon_pages ", "nr_mapped ", "nr_mlock ", "nr_isolated_anon ", "nr_isolated_file ",
	"nr_anon_transparent_hugepages ", "nr_shmem_pmdmapped ", "nr_file_pmdmapped ",
};

#define NR_COUNTERS		ARRAY_SIZE(counter_names)

struct snapshot {
	size_t nr_pages;
	struct page_state pages[MAX_PAGES];
	/* Ascending: by process, then by address. */
	struct {
		unsigned int process;
		char *addr;
	} places[MAX_PAGES];
	long counters[NR_COUNTERS];
	long rss[MAX_PROCESSES][4];
};

struct bit_name {
	uint32_t bit;
	const char *name;
};

#define BIT_NAME(bit, name)	{ bit, name },
static const struct bit_name pte_bits[] = { PTE_STATE_BITS(BIT_NAME) };
static const struct bit_name page_bits[] = { PAGE_STATE_BITS(BIT_NAME) };

/* Numbers for folios, in the order in which they are seen. */
#define HASH_SIZE	(2 * MAX_PAGES)

struct numbers {
	uint32_t nr;
	struct {
		uint64_t pfn;
		uint32_t number;
	} known[HASH_SIZE];
};

static uint32_t number_of(struct numbers *numbers, uint64_t pfn)
{
	size_t i = pfn * 0x9e3779b97f4a7c15ULL % HASH_SIZE;

	while (numbers->known[i].pfn && numbers->known[i].pfn != pfn)
		i = (i + 1) % HASH_SIZE;
	if (!numbers->known[i].pfn) {
		numbers->known[i].pfn = pfn;
		numbers->known[i].number = numbers->nr++;
	}
	return numbers->known[i].number;
}

static void print_bits(const struct bit_name *bits, size_t nr, uint32_t value)
{
	const char *separator = " ";

	for (size_t i = 0; i < nr; i++)
		if (bits[i].name && value & bits[i].bit) {
			printf("%s%s", separator, bits[i].name);
			separator = ",";
		}
	if (*separator == ' ')
		printf(" -");
}

/* True if the pages differ in contents and in being @apart pages apart, and only in that. */
static bool alike(const struct page_state *a, const struct page_state *b, size_t apart)
{
	if (a->pte != b->pte || a->page != b->page || a->mapcount != b->mapcount ||
	    a->node != b->node || a->extra_refs != b->extra_refs || a->order != b->order ||
	    !a->folio_pfn != !b->folio_pfn)
		return false;
	if (!a->folio_pfn)
		return true;
	/* Small folios that were first seen one after the other are one line, too. */
	if (!a->order)
		return b->folio_pfn == a->folio_pfn + apart;
	return a->folio_pfn == b->folio_pfn && b->index == a->index + apart;
}

static void print_run(const struct page_state *state, size_t first, size_t nr)
{
	printf("%lx+%zx", first, nr);
	print_bits(pte_bits, ARRAY_SIZE(pte_bits), state->pte);
	if (state->folio_pfn) {
		printf(" folio %llu.%u order %u node %d map %d large %d entire %d pages %x",
		       (unsigned long long)state->folio_pfn - 1, state->index, state->order,
		       state->node, state->mapcount, state->large_mapcount,
		       state->entire_mapcount, state->nr_pages_mapped);
		print_bits(page_bits, ARRAY_SIZE(page_bits), state->page);
		if (state->extra_refs)
			printf(" refs %+d", state->extra_refs);
	}
	putchar('\n');
}

static bool contents_wrong(const struct layout *layout, const struct page_state *before,
			   const struct page_state *after)
{
	const uint32_t kept = FOLIO_IS_ANON | FOLIO_IS_SWAPBACKED;

	if (layout->pressure && !after->folio_pfn && (before->page & kept) != kept)
		return false;
	/* A split may replace a page of zeros by the zero page. */
	if (!before->hash && (after->pte & PTE_IS_SPECIAL))
		return false;
	return before->folio_pfn && before->hash != after->hash;
}

static const struct page_state *find(const struct snapshot *snapshot, unsigned int process,
				     const char *addr)
{
	size_t low = 0, high = snapshot->nr_pages;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (snapshot->places[middle].process < process ||
		    (snapshot->places[middle].process == process &&
		     snapshot->places[middle].addr < addr))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == snapshot->nr_pages || snapshot->places[low].process != process ||
	    snapshot->places[low].addr != addr)
		return NULL;
	return &snapshot->pages[low];
}

/* True if the page may have changed while it migrated. */
static bool was_touched(const struct layout *layout, unsigned int process, const char *addr)
{
	for (unsigned int i = 0; i < layout->nr_touched; i++) {
		const struct touched *touched = &layout->touched[i];

		if (touched->everywhere ||
		    (touched->process == process && addr >= touched->range.addr &&
		     addr < touched->range.addr + touched->range.len))
			return true;
	}
	return false;
}

static size_t nr_wrong(const struct layout *layout, unsigned int process,
		       const struct snapshot *before, const struct vma *vma,
		       const struct page_state *states)
{
	size_t page = memory_page_size(), wrong = 0;

	for (size_t i = 0; before && i < vma->len / page; i++) {
		const struct page_state *was = find(before, process, vma->addr + i * page);

		wrong += was && contents_wrong(layout, was, &states[i]) &&
			 !was_touched(layout, process, vma->addr + i * page);
	}
	return wrong;
}

/* The contents of all pages in one number; those of zeros add nothing, nor what is nowhere. */
static uint64_t sum_of(const struct vma *vma, const struct page_state *states)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < vma->len / memory_page_size(); i++)
		sum += states[i].hash * (2 * i + 1) * 0x9e3779b97f4a7c15ULL;
	return sum;
}

static void print_pages(const struct vma *vma, const struct page_state *states)
{
	size_t page = memory_page_size(), nr = vma->len / page, start, i;
	size_t first = ((uintptr_t)vma->addr - ARENA_BASE) / page;

	for (start = 0; start < nr; start = i) {
		i = start;
		while (i < nr && alike(&states[start], &states[i], i - start))
			i++;
		if (states[start].pte)
			print_run(&states[start], first + start, i - start);
	}
}

/* Bits of /proc/pid/pagemap, as runs of equal ones; without frame numbers. */
static void print_pagemap(pid_t pid, const struct vma *vma)
{
	size_t page = memory_page_size(), nr = vma->len / page;
	size_t first = ((uintptr_t)vma->addr - ARENA_BASE) / page;
	uint64_t entries[512], last = 0;
	size_t run = 0, done, i;
	int fd = open(setting_path("/proc/%d/pagemap", pid), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	printf(" pagemap");
	for (done = 0; done < nr; done += i) {
		size_t wanted = nr - done < 512 ? nr - done : 512;
		off_t offset = ((uintptr_t)vma->addr / page + done) * sizeof(entries[0]);
		ssize_t got = pread(fd, entries, wanted * sizeof(entries[0]), offset);

		if (got <= 0)
			break;
		for (i = 0; i < got / sizeof(entries[0]); i++) {
			uint64_t bits = entries[i] >> 55;

			if (done + i && bits != last) {
				printf(" %zx+%zx:%lx", first + run, done + i - run, last);
				run = done + i;
			}
			last = bits;
		}
	}
	close(fd);
	printf(" %zx+%zx:%lx\n", first + run, nr - run, last);
}

/* These are the same for all mappings. */
static bool is_constant(const char *name)
{
	return !strcmp(name, "Size") || !strcmp(name, "KernelPageSize") ||
	       !strcmp(name, "MMUPageSize");
}

/* Prints what /proc/pid/smaps says of mappings in the arena, without zeros. */
static void print_smaps(pid_t pid)
{
	unsigned long start, end, value;
	FILE *file = fopen(setting_path("/proc/%d/smaps", pid), "r");
	char line[512], *colon;
	bool inside = false;

	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		colon = strchr(line, ':');
		if (strchr("0123456789abcdef", line[0])) {
			if (inside)
				putchar('\n');
			start = strtoul(line, &colon, 16);
			end = strtoul(colon + 1, NULL, 16);
			inside = start >= ARENA_BASE && start < ARENA_END;
			if (inside)
				printf(" smaps %lx+%lx:", (start - ARENA_BASE) /
				       memory_page_size(), (end - start) / memory_page_size());
			continue;
		}
		if (!inside || !colon)
			continue;
		if (!strncmp(line, "VmFlags:", 8)) {
			printf(" %.*s", (int)strcspn(line, "\n"), line);
			continue;
		}
		*colon = '\0';
		value = strtoul(colon + 1, NULL, 10);
		if (value && !is_constant(line))
			printf(" %s %lu", line, value);
	}
	if (inside)
		putchar('\n');
	fclose(file);
}

static void read_counters(long *counters)
{
	/* Reading it adds each CPU's part to the sums. */
	setting_read_number("/proc/sys/vm/stat_refresh");
	for (size_t i = 0; i < NR_COUNTERS; i++)
		counters[i] = setting_find_number("/proc/vmstat", counter_names[i]);
}

static void read_rss(pid_t pid, long *rss)
{
	static const char * const names[] = { "RssAnon:", "RssFile:", "RssShmem:", "VmSwap:" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		rss[i] = setting_find_number(setting_path("/proc/%d/status", pid), names[i]);
}

static void show_process(const struct layout *layout, unsigned int number, struct snapshot *now,
			 const struct snapshot *before, struct numbers *numbers)
{
	static struct vma vmas[MAX_VMAS];
	pid_t pid = layout->processes[number].pid;
	size_t nr = layout_vmas(pid, vmas, MAX_VMAS);

	printf("process %u\n", number);
	print_smaps(pid);
	for (size_t i = 0; i < nr; i++) {
		size_t pages = vmas[i].len / memory_page_size();
		struct page_state *states = now->pages + now->nr_pages;
		const struct range range = { vmas[i].addr, vmas[i].len };
		size_t wrong;

		if (now->nr_pages + pages > MAX_PAGES) {
			printf("TOO MANY PAGES\n");
			return;
		}
		print_pagemap(pid, &vmas[i]);
		if (!layout_states(pid, range, states)) {
			printf("NO STATE: %d\n", errno);
			return;
		}
		/* Frame numbers are chance: replace them by numbers of ours. */
		for (size_t j = 0; j < pages; j++) {
			if (states[j].folio_pfn)
				states[j].folio_pfn = number_of(numbers, states[j].folio_pfn) + 1;
			now->places[now->nr_pages].process = number;
			now->places[now->nr_pages++].addr = range.addr + j * memory_page_size();
		}
		wrong = nr_wrong(layout, number, before, &vmas[i], states);
		if (wrong)
			printf("CONTENTS WRONG IN %zu PAGES\n", wrong);
		printf(" contents %lx\n", sum_of(&vmas[i], states));
		print_pages(&vmas[i], states);
	}
	read_rss(pid, now->rss[number]);
	if (before)
		printf(" rss anon %+ld file %+ld shmem %+ld swap %+ld\n",
		       now->rss[number][0] - before->rss[number][0],
		       now->rss[number][1] - before->rss[number][1],
		       now->rss[number][2] - before->rss[number][2],
		       now->rss[number][3] - before->rss[number][3]);
}

const struct snapshot *layout_show(const struct layout *layout, const char *stage,
				   const struct snapshot *before)
{
	/* Static: a free() of this size would flush all translations. */
	static struct snapshot snapshots[2];
	struct snapshot *now = &snapshots[!!before];
	static struct numbers numbers;

	now->nr_pages = 0;
	memset(&numbers, 0, sizeof(numbers));
	printf("stage %s\n", stage);
	for (unsigned int i = 0; i < layout->nr_processes; i++)
		show_process(layout, i, now, before, &numbers);
	read_counters(now->counters);
	if (!before)
		return now;
	printf("counters");
	for (size_t i = 0; i < NR_COUNTERS; i++)
		printf(" %s%+ld", counter_names[i], now->counters[i] - before->counters[i]);
	putchar('\n');
	return now;
}
