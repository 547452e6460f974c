// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/kernel-page-flags.h>
#include <linux/mempolicy.h>

#include "memory.h"
#include "setting.h"

#define BITS_PER_LONG		(8 * sizeof(unsigned long))
#define FLAG(bit)		(1ULL << (bit))
#define PAGEMAP_PRESENT		FLAG(63)
#define PAGEMAP_SOFT_DIRTY	FLAG(55)
#define PAGEMAP_PFN		(FLAG(55) - 1)

/* One move_pages(2) call takes this many addresses at most. */
#define MOVE_MAX		65536
#define REPORT_MAX		4
/* How many entries of kpageflags one read has at most. */
#define FLAGS_MAX		512

size_t memory_page_size(void)
{
	static size_t size;

	if (!size)
		size = sysconf(_SC_PAGESIZE);
	return size;
}

static uint64_t nanoseconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

uint64_t nanoseconds_now(void)
{
	return nanoseconds_of(CLOCK_MONOTONIC);
}

uint64_t nanoseconds_used(void)
{
	return nanoseconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double seconds_now(void)
{
	return nanoseconds_now() / 1e9;
}

void run_on_cpus(int first, int last)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (int cpu = first; cpu <= last; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

pid_t fork_idle(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The caller may have ended before that. */
		while (getppid() != 1)
			pause();
		_exit(0);
	}
	return pid;
}

static uint64_t stamp_value(uint64_t seed, size_t index)
{
	uint64_t value = (index + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1b54a32d192ed03ULL;

	return value ^ (value >> 29);
}

void memory_stamp(void *addr, size_t len, uint64_t seed)
{
	uint64_t *word = addr;

	for (size_t i = 0; i < len / sizeof(*word); i++)
		word[i] = stamp_value(seed, i);
}

static unsigned int bytes_differing(uint64_t a, uint64_t b)
{
	uint64_t diff = a ^ b;
	unsigned int nr = 0;

	for (; diff; diff >>= 8)
		nr += !!(diff & 0xff);
	return nr;
}

/* @written: see memory_wrong(); @report: how many words to print. */
static size_t count_wrong(const void *addr, size_t len, uint64_t seed, const uint64_t *written,
			  unsigned int report)
{
	const size_t per_page = memory_page_size() / sizeof(uint64_t);
	const uint64_t *word = addr;
	size_t wrong = 0;

	for (size_t i = 0; i < len / sizeof(*word); i++) {
		uint64_t expected = written && i % per_page == 0 ? written[i / per_page] : 0;
		uint64_t seen = word[i];

		if (!expected)
			expected = stamp_value(seed, i);
		if (seen == expected)
			continue;
		wrong += bytes_differing(seen, expected);
		if (report && report--)
			printf("# offset %#zx: %#llx instead of %#llx\n", i * sizeof(*word),
			       (unsigned long long)seen, (unsigned long long)expected);
	}
	return wrong;
}

size_t memory_verify(const void *addr, size_t len, uint64_t seed)
{
	return count_wrong(addr, len, seed, NULL, REPORT_MAX);
}

size_t memory_wrong(const void *addr, size_t len, uint64_t seed, const uint64_t *written)
{
	return count_wrong(addr, len, seed, written, 0);
}

unsigned int memory_nodes(int *nodes, unsigned int max)
{
	char list[4096], *pos = list;
	unsigned int nr = 0;

	if (setting_read(NODE_DIR "/has_memory", list, sizeof(list)))
		return 0;
	while (*pos >= '0' && *pos <= '9') {
		int node = strtol(pos, &pos, 10);
		int last = *pos == '-' ? strtol(pos + 1, &pos, 10) : node;

		for (; node <= last; node++, nr++)
			if (nr < max)
				nodes[nr] = node;
		pos += *pos == ',';
	}
	return nr;
}

long memory_node_kib(int node, const char *name)
{
	return setting_find_number(setting_path(NODE_DIR "/node%d/meminfo", node), name);
}

struct node_mask memory_node_mask(int node)
{
	struct node_mask mask = { 0 };

	mask.bits[node / BITS_PER_LONG] = 1UL << node % BITS_PER_LONG;
	return mask;
}

int memory_bind(int node)
{
	struct node_mask mask;

	if (node < 0)
		return syscall(__NR_set_mempolicy, MPOL_DEFAULT, NULL, 0);
	mask = memory_node_mask(node);
	return syscall(__NR_set_mempolicy, MPOL_BIND, mask.bits, MEMORY_MAX_NODES + 1);
}

/*
 * move_pages(2) on up to MOVE_MAX addresses; @query only asks. Returns in how many groups of
 * @group addresses one is not on @node, or -errno.
 */
static long move_some(pid_t pid, const char *addr, size_t nr, size_t step, size_t group,
		      int node, bool query, int flags)
{
	void **pages = calloc(nr, sizeof(*pages));
	int *nodes = calloc(nr, sizeof(*nodes));
	int *status = calloc(nr, sizeof(*status));
	long ret = -ENOMEM;
	size_t i;

	if (!pages || !nodes || !status)
		goto out;

	for (i = 0; i < nr; i++) {
		pages[i] = (void *)(addr + i * step);
		nodes[i] = node;
		status[i] = -ENODATA;
	}
	ret = syscall(__NR_move_pages, pid, nr, pages, query ? NULL : nodes, status, flags);
	if (ret < 0) {
		ret = -errno;
		goto out;
	}

	/*
	 * The kernel leaves out the status of an address that it did not try, and
	 * vanilla reports an error for a folio's second address: ask where they are.
	 */
	if (!query)
		syscall(__NR_move_pages, pid, nr, pages, NULL, status, flags);
	ret = 0;
	for (i = 0; i < nr; i += group) {
		size_t there = i;

		while (there < nr && there < i + group && status[there] == node)
			there++;
		ret += there < nr && there < i + group;
	}
out:
	free(pages);
	free(nodes);
	free(status);
	return ret;
}

static long move_all(pid_t pid, const void *addr, size_t len, size_t step, size_t group,
		     int node, bool query, int flags)
{
	const size_t most = group < MOVE_MAX ? MOVE_MAX / group * group : group;
	size_t left = (len + step - 1) / step;
	const char *pos = addr;
	long missing = 0;

	while (left) {
		size_t nr = left < most ? left : most;
		long ret = move_some(pid, pos, nr, step, group, node, query, flags);

		if (ret < 0)
			return ret;
		missing += ret;
		pos += nr * step;
		left -= nr;
	}
	return missing;
}

size_t memory_folios_not_on(const void *addr, size_t len, size_t size, int node)
{
	const size_t step = memory_page_size();
	long ret = move_all(0, addr, len, step, size / step, node, true, 0);

	return ret < 0 ? len / size : (size_t)ret;
}

size_t memory_pages_not_on(const void *addr, size_t len, int node)
{
	return memory_folios_not_on(addr, len, memory_page_size(), node);
}

long memory_move(pid_t pid, void *addr, size_t len, size_t step, int node, int flags)
{
	return move_all(pid, addr, len, step, 1, node, false, flags);
}

static uint64_t pagemap_pfn(uint64_t entry)
{
	return entry & PAGEMAP_PRESENT ? entry & PAGEMAP_PFN : MEMORY_NO_PFN;
}

static uint64_t read_entry(const char *path, uint64_t index)
{
	uint64_t entry = 0;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		return 0;
	if (pread(fd, &entry, sizeof(entry), index * sizeof(entry)) != sizeof(entry))
		entry = 0;
	close(fd);
	return entry;
}

static uint64_t pagemap_entry(const void *addr)
{
	return read_entry("/proc/self/pagemap", (uintptr_t)addr / memory_page_size());
}

bool memory_soft_dirty(const void *addr)
{
	return pagemap_entry(addr) & PAGEMAP_SOFT_DIRTY;
}

int memory_split(const void *addr, size_t len)
{
	char request[96];

	snprintf(request, sizeof(request), "%d,%#lx,%#lx", getpid(), (unsigned long)addr,
		 (unsigned long)addr + len);
	return setting_write(SPLIT_PAGES, request);
}

uint64_t memory_pfn(const void *addr)
{
	return pagemap_pfn(pagemap_entry(addr));
}

uint64_t memory_mapped_by(const void *addr)
{
	return read_entry("/proc/kpagecount", memory_pfn(addr));
}

uint64_t *memory_pfns(const void *addr, size_t len)
{
	size_t nr = len / memory_page_size(), size = nr * sizeof(uint64_t), done = 0;
	off_t start = (uintptr_t)addr / memory_page_size() * sizeof(uint64_t);
	uint64_t *pfns = calloc(nr + 1, sizeof(*pfns));
	int fd = open("/proc/self/pagemap", O_RDONLY);
	ssize_t ret = 1;

	while (pfns && fd >= 0 && done < size && ret > 0) {
		ret = pread(fd, (char *)pfns + done, size - done, start + done);
		done += ret > 0 ? ret : 0;
	}
	if (fd >= 0)
		close(fd);
	if (!pfns || fd < 0 || done < size) {
		free(pfns);
		return NULL;
	}
	for (size_t i = 0; i < nr; i++)
		pfns[i] = pagemap_pfn(pfns[i]);
	return pfns;
}

/*
 * Reads /proc/kpageflags, of pages in a row at once, and never of pages that the caller did
 * not name: where a folio comes or goes at that moment, a kernel with CONFIG_DEBUG_VM_PGFLAGS
 * may not survive it (snapshot_page() in 7.3).
 */
struct flags_reader {
	int fd;
	uint64_t first;
	uint64_t nr;
	uint64_t flags[FLAGS_MAX];
	/* The frames of the memory that is looked at. */
	uint64_t *pfns;
};

static void flags_close(struct flags_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	free(reader->pfns);
}

static bool flags_open(struct flags_reader *reader, const void *addr, size_t len)
{
	reader->nr = 0;
	reader->fd = open("/proc/kpageflags", O_RDONLY);
	reader->pfns = memory_pfns(addr, len);
	if (reader->fd >= 0 && reader->pfns)
		return true;
	flags_close(reader);
	return false;
}

/* The flags of the first of @nr pages. */
static uint64_t flags_of(struct flags_reader *reader, const uint64_t *pfns, size_t nr)
{
	uint64_t pfn = pfns[0];
	size_t row = 1;
	ssize_t got;

	if (pfn < reader->first || pfn >= reader->first + reader->nr) {
		while (row < nr && row < FLAGS_MAX && pfns[row] == pfn + row)
			row++;
		got = pread(reader->fd, reader->flags, row * sizeof(reader->flags[0]),
			    pfn * sizeof(reader->flags[0]));
		reader->first = pfn;
		reader->nr = got > 0 ? got / sizeof(reader->flags[0]) : 0;
	}
	return reader->nr ? reader->flags[pfn - reader->first] : 0;
}

static int compare_pfns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

size_t memory_folios(const void *addr, size_t len)
{
	size_t nr = len / memory_page_size(), folios = 0;
	uint64_t pfn, *pfns, before = MEMORY_NO_PFN;
	struct flags_reader reader;

	if (!flags_open(&reader, addr, len))
		return 0;
	pfns = reader.pfns;
	/* Replace each page by the first one of its folio. */
	for (size_t i = 0; i < nr; i++, before = pfn) {
		pfn = pfns[i];
		if (pfn == MEMORY_NO_PFN ||
		    !(flags_of(&reader, pfns + i, nr - i) & FLAG(KPF_COMPOUND_TAIL)))
			continue;
		if (i && pfn == before + 1) {
			pfns[i] = pfns[i - 1];
			continue;
		}
		do
			pfns[i]--;
		while (flags_of(&reader, pfns + i, 1) & FLAG(KPF_COMPOUND_TAIL));
	}

	qsort(pfns, nr, sizeof(*pfns), compare_pfns);
	for (size_t i = 0; i < nr && pfns[i] != MEMORY_NO_PFN; i++)
		folios += !i || pfns[i] != pfns[i - 1];
	flags_close(&reader);
	return folios;
}

/* @pfns: the pages mapped at a naturally aligned range of one folio's size. */
static bool is_folio(struct flags_reader *reader, const uint64_t *pfns, size_t nr)
{
	uint64_t kind = nr > 1 ? FLAG(KPF_COMPOUND_HEAD) : 0;
	uint64_t mask = FLAG(KPF_COMPOUND_HEAD) | FLAG(KPF_COMPOUND_TAIL);
	uint64_t next = pfns[0] + nr;

	for (size_t i = 0; i < nr; i++) {
		if (pfns[i] == MEMORY_NO_PFN || pfns[i] != pfns[0] + i ||
		    (flags_of(reader, pfns + i, nr - i) & mask) != kind)
			return false;
		if (nr > 1)
			kind = FLAG(KPF_COMPOUND_TAIL);
	}
	return !(flags_of(reader, &next, 1) & FLAG(KPF_COMPOUND_TAIL));
}

size_t memory_folios_not(const void *addr, size_t len, size_t size)
{
	size_t per_folio = size / memory_page_size(), nr = len / size, wrong = 0;
	struct flags_reader reader;

	if (!flags_open(&reader, addr, len))
		return nr;
	for (size_t i = 0; i < nr; i++)
		wrong += !is_folio(&reader, reader.pfns + i * per_folio, per_folio);
	flags_close(&reader);
	return wrong;
}

bool memory_folios_are(const void *addr, size_t len, size_t size)
{
	return !memory_folios_not(addr, len, size);
}

bool memory_frames_readable(void)
{
	struct flags_reader reader;
	uint64_t pfn = 0;

	pfn = memory_pfn(&pfn);
	/* An unprivileged reader sees frame 0. */
	if (!pfn || pfn == MEMORY_NO_PFN || !flags_open(&reader, NULL, 0))
		return false;
	flags_of(&reader, &pfn, 1);
	flags_close(&reader);
	return reader.nr;
}

size_t memory_pages_flagged(const void *addr, size_t len, uint64_t mask)
{
	size_t nr = len / memory_page_size(), flagged = 0;
	struct flags_reader reader;

	if (!flags_open(&reader, addr, len))
		return 0;
	for (size_t i = 0; i < nr; i++)
		if (reader.pfns[i] != MEMORY_NO_PFN &&
		    (flags_of(&reader, reader.pfns + i, nr - i) & mask) == mask)
			flagged++;
	flags_close(&reader);
	return flagged;
}

void *memory_map_aligned(size_t len, size_t align)
{
	char *map = mmap(NULL, len + align, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t head;

	if (map == MAP_FAILED)
		return NULL;
	head = -(uintptr_t)map & (align - 1);
	if (head)
		munmap(map, head);
	if (align - head)
		munmap(map + head + len, align - head);
	return map + head;
}

int memory_fill(void *addr, size_t len, size_t folio_size, int node, uint64_t seed)
{
	bool huge = folio_size > memory_page_size();
	int err;

	/* A kernel without huge pages refuses either advice, and needs none for pages. */
	if (madvise(addr, len, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) && huge)
		return -errno;
	if (memory_bind(node))
		return -errno;
	memory_stamp(addr, len, seed);
	err = memory_bind(-1) ? -errno : 0;
	/* khugepaged, awake while a test allows 2 MB, must not collapse what is there. */
	madvise(addr, len, MADV_NOHUGEPAGE);
	return err;
}

static long meminfo_kib(const char *meminfo, const char *name)
{
	const char *at = strstr(meminfo, name);

	return at ? atol(at + strlen(name)) : 0;
}

/* Free pages that wait on lists of single CPUs; they count as in use. */
static long pages_on_cpu_lists(const char *zoneinfo)
{
	static const char name[] = " count: ";
	long pages = 0;

	while ((zoneinfo = strstr(zoneinfo, name)))
		pages += atol(zoneinfo += strlen(name));
	return pages;
}

/* The file stays open: another time the kernel need not allocate to show it. */
static void read_again(int *fd, const char *path, char *text, size_t size)
{
	size_t len = 0;
	ssize_t ret;

	if (*fd < 0)
		*fd = open(path, O_RDONLY | O_CLOEXEC);
	while ((ret = pread(*fd, text + len, size - 1 - len, len)) > 0)
		len += ret;
	if (!len) {
		perror(path);
		exit(1);
	}
	text[len] = '\0';
}

long pages_unaccounted(void)
{
	static const char * const owners[] = {
		"\nMemFree:", "\nBuffers:", "\nCached:", "\nSwapCached:", "\nAnonPages:",
		"\nSlab:", "\nPageTables:", "\nPercpu:",
		"\nVmallocUsed:", /* stacks, too */
		"\nHugetlb:", "\nHardwareCorrupted:", NULL
	};
	static int meminfo_fd = -1, zoneinfo_fd = -1;
	static char meminfo[8192], zoneinfo[1024 * 1024];
	long kib;

	/* Folios wait on lists of single CPUs, too. */
	setting_write("/proc/sys/vm/drop_caches", "1");
	/* Counters that wait on single CPUs are up to date when all is read at once. */
	for (int i = 0; i < 2; i++) {
		setting_write("/proc/sys/vm/stat_refresh", "1");
		read_again(&meminfo_fd, "/proc/meminfo", meminfo, sizeof(meminfo));
		read_again(&zoneinfo_fd, "/proc/zoneinfo", zoneinfo, sizeof(zoneinfo));
	}
	kib = meminfo_kib(meminfo, "MemTotal:");
	for (unsigned int i = 0; owners[i]; i++)
		kib -= meminfo_kib(meminfo, owners[i]);
	return kib * (long)KIB / (long)memory_page_size() - pages_on_cpu_lists(zoneinfo);
}

static long isolated_on(int node)
{
	const char *path = setting_path(NODE_DIR "/node%d/vmstat", node);

	return setting_find_number(path, "nr_isolated_anon ") +
	       setting_find_number(path, "nr_isolated_file ");
}

long memory_isolated(const int nodes[2])
{
	long nr = 0;

	for (int i = 0; i < 100; i++) {
		/* CPUs add what they have counted by themselves. */
		setting_write("/proc/sys/vm/stat_refresh", "1");
		nr = isolated_on(nodes[0]) + isolated_on(nodes[1]);
		if (!nr)
			break;
		usleep(100000);
	}
	return nr;
}
