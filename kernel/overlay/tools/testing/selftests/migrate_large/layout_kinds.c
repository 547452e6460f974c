// SPDX-License-Identifier: GPL-2.0
/* The kinds of memory that a layout is made of, and what can be done to them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/io_uring.h>
#include <linux/mman.h>
#include <linux/userfaultfd.h>

#include "layout.h"
#include "memory.h"
#include "offload.h"

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage"
#define KSM_DIR		"/sys/kernel/mm/ksm"
#define NUMA_DIR	"/sys/kernel/debug/sched/numa_balancing"
#define NUMA_BALANCING	"/proc/sys/kernel/numa_balancing"
#define PMD_SIZE	(2 * MIB)

static const size_t folio_sizes[] = {
	4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1 * MIB,
	PMD_SIZE,
};

/* How often each of these is taken: most of what is new is about small mTHP. */
static const unsigned int folio_size_weights[] = { 2, 6, 3, 8, 3, 4, 1, 1, 1 };

static void size_setting(size_t size, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), THP_DIR "/hugepages-%zukB/%s", size / KIB, name);
	setting_write(path, value);
}

/* Memory with MADV_HUGEPAGE gets folios of this size from now on. */
static void only_size(size_t size)
{
	static size_t last;

	if (last) {
		size_setting(last, "enabled", "never");
		size_setting(last, "shmem_enabled", "never");
	}
	last = size == 4 * KIB ? 0 : size;
	if (last) {
		size_setting(last, "enabled", "madvise");
		size_setting(last, "shmem_enabled", "advise");
	}
}

void layout_settings(void)
{
	for (size_t i = 1; i < ARRAY_SIZE(folio_sizes); i++) {
		size_setting(folio_sizes[i], "enabled", "never");
		size_setting(folio_sizes[i], "shmem_enabled", "never");
	}
	/* Nothing of what happens may depend on when it happens. */
	setting_write(THP_DIR "/khugepaged/scan_sleep_millisecs", "4000000000");
	setting_write("/proc/sys/vm/dirty_writeback_centisecs", "0");
	setting_write("/proc/sys/vm/dirty_expire_centisecs", "360000");
	setting_write(NUMA_BALANCING, "0");
	setting_write(NUMA_DIR "/scan_delay_ms", "1");
	setting_write(NUMA_DIR "/scan_period_min_ms", "1");
	setting_write(NUMA_DIR "/scan_size_mb", "4096");
	setting_write(KSM_DIR "/run", "0");
	setting_write(KSM_DIR "/sleep_millisecs", "1");
	setting_write(KSM_DIR "/pages_to_scan", "100000");
	setting_write(KSM_DIR "/smart_scan", "0");
	setting_write("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages",
		      "4");
	setting_write("/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages",
		      "4");
}

static size_t random_folio_size(struct rng *rng)
{
	unsigned int sum = 0;
	uint64_t chosen;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(folio_sizes); i++)
		sum += folio_size_weights[i];
	chosen = rng_below(rng, sum);
	for (i = 0; chosen >= folio_size_weights[i]; i++)
		chosen -= folio_size_weights[i];
	return folio_sizes[i];
}

static void write_pages(struct rng *rng, char *addr, size_t len, unsigned int percent)
{
	size_t page = memory_page_size();

	for (size_t i = 0; i < len; i += page) {
		uint64_t *word = (uint64_t *)(addr + i) + rng_below(rng, 512);
		uint64_t value = rng_next(rng);

		if (rng_chance(rng, percent))
			layout_try_write(word, value);
	}
}

static void read_pages(char *addr, size_t len)
{
	for (size_t i = 0; i < len; i += memory_page_size())
		layout_try_read(addr + i);
}

static int new_file(struct layout *layout, bool on_disk, size_t len)
{
	int fd;

	if (on_disk)
		fd = openat(layout->file_dir, ".", O_TMPFILE | O_RDWR, 0600);
	else
		fd = memfd_create("layout", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, len)) {
		close(fd);
		return -errno;
	}
	return fd;
}

/* Contents that are on disk already: dirty is what is written later. */
static int fill_file(struct rng *rng, int fd, size_t len)
{
	char buffer[4096];

	for (size_t i = 0; i < len; i += sizeof(buffer)) {
		memory_stamp(buffer, sizeof(buffer), rng_next(rng) & 0xffff);
		if (pwrite(fd, buffer, sizeof(buffer), i) != sizeof(buffer))
			return -EIO;
	}
	return fsync(fd) ? -errno : 0;
}

enum region_kind {
	ANON,
	SHMEM,
	/* A private mapping of a file of tmpfs: some pages its own, some the file's. */
	TMPFS_PRIVATE,
	DISK_SHARED,
	DISK_PRIVATE,
	HUGETLB,
	NR_REGION_KINDS
};

static const struct {
	const char *name;
	unsigned int weight;
} region_kinds[NR_REGION_KINDS] = {
	[ANON]		= { "anon", 60 },
	[SHMEM]		= { "shmem", 14 },
	[TMPFS_PRIVATE]	= { "tmpfs_private", 10 },
	[DISK_SHARED]	= { "disk_shared", 6 },
	[DISK_PRIVATE]	= { "disk_private", 4 },
	[HUGETLB]	= { "hugetlb", 2 },
};

static enum region_kind random_kind(struct rng *rng)
{
	unsigned int sum = 0;
	uint64_t chosen;
	int i;

	for (i = 0; i < NR_REGION_KINDS; i++)
		sum += region_kinds[i].weight;
	chosen = rng_below(rng, sum);
	for (i = 0; chosen >= region_kinds[i].weight; i++)
		chosen -= region_kinds[i].weight;
	return i;
}

int layout_add_region(struct layout *layout)
{
	struct rng *rng = &layout->rng;
	enum region_kind kind = random_kind(rng);
	size_t size = random_folio_size(rng);
	size_t page = memory_page_size();
	/* Some start where a folio can, others do not. */
	size_t shift = rng_chance(rng, 50) ? 0 : rng_below(rng, 64) * page;
	size_t len = (1 + rng_below(rng, rng_chance(rng, 20) ? 256 : 48)) * page;
	unsigned int percent = rng_chance(rng, 70) ? 100 : 10 + rng_below(rng, 90);
	struct region *region = &layout->regions[layout->nr_regions];
	char *slot = layout_new_slot(layout);
	int flags = MAP_FIXED_NOREPLACE;
	int fd = -1;
	char *addr;
	int err = 0;

	if (!slot || layout->nr_regions == MAX_REGIONS)
		return -ENOSPC;
	if (size == PMD_SIZE && rng_chance(rng, 70)) {
		len += PMD_SIZE;
		shift = 0;
	}
	if (size >= 512 * KIB && len < size)
		len = size;
	if (kind == HUGETLB) {
		len = PMD_SIZE;
		shift = 0;
	}

	switch (kind) {
	case ANON:
		flags |= MAP_PRIVATE | MAP_ANONYMOUS;
		break;
	case HUGETLB:
		flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;
		break;
	default:
		fd = new_file(layout, kind == DISK_SHARED || kind == DISK_PRIVATE, len);
		if (fd < 0)
			return fd;
		flags |= kind == SHMEM || kind == DISK_SHARED ? MAP_SHARED : MAP_PRIVATE;
		break;
	}

	only_size(size);
	memory_bind(layout->nodes[0]);
	if (kind == DISK_SHARED || kind == DISK_PRIVATE)
		err = fill_file(rng, fd, len);
	addr = mmap(slot + shift, len, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (addr == MAP_FAILED) {
		err = -errno;
	} else {
		madvise(addr, len, size > page ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		if (kind == TMPFS_PRIVATE) {
			char *shared = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED,
					    fd, 0);

			madvise(shared, len, MADV_HUGEPAGE);
			write_pages(rng, shared, len, 100);
			munmap(shared, len);
		}
		if (kind != ANON)
			read_pages(addr, len);
		write_pages(rng, addr, len, kind == ANON || kind == SHMEM ? percent :
			    rng_below(rng, 100));
	}
	memory_bind(-1);
	printf("region %s at %lx+%zx folios %zuk written %u = %d\n", region_kinds[kind].name,
	       ((uintptr_t)slot + shift - ARENA_BASE) / page, len / page, size / KIB, percent,
	       err);
	*region = (struct region) {
		.fd = fd, .len = len, .range = { .addr = addr, .len = len },
	};
	if (!err)
		layout->nr_regions++;
	else if (fd >= 0)
		close(fd);
	return err;
}

static int do_write(struct layout *layout, const struct vma *vma, struct range part)
{
	if (!vma->writable)
		return -EACCES;
	write_pages(&layout->rng, part.addr, part.len, 100);
	return 0;
}

static int do_read(struct layout *layout, const struct vma *vma, struct range part)
{
	if (!vma->readable)
		return -EACCES;
	read_pages(part.addr, part.len);
	return 0;
}

static int advise(struct range part, int advice)
{
	return madvise(part.addr, part.len, advice) ? -errno : 0;
}

#define ADVISE(name, advice)							\
static int do_##name(struct layout *layout, const struct vma *vma,		\
		     struct range part)						\
{										\
	return advise(part, advice);						\
}

ADVISE(dontneed, MADV_DONTNEED)
ADVISE(free, MADV_FREE)
ADVISE(cold, MADV_COLD)
ADVISE(pageout, MADV_PAGEOUT)

/*
 * Where a page of a file is write-protected by a userfaultfd, the kernel (7.3) tries for
 * ever to make it a guard: what it takes away leaves a marker behind.
 */
static int do_guard(struct layout *layout, const struct vma *vma, struct range part)
{
	return vma->file && layout_any_uffd(part) ? -EBUSY : advise(part, MADV_GUARD_INSTALL);
}

#define PROTECT(name, prot)							\
static int do_##name(struct layout *layout, const struct vma *vma,		\
		     struct range part)						\
{										\
	return mprotect(part.addr, part.len, prot) ? -errno : 0;		\
}

PROTECT(read_only, PROT_READ)
PROTECT(writable, PROT_READ | PROT_WRITE)
PROTECT(no_access, PROT_NONE)

static int do_unmap(struct layout *layout, const struct vma *vma, struct range part)
{
	return munmap(part.addr, part.len) ? -errno : 0;
}

/*
 * A page that has gone bad: an entry that says so, between those of a large folio perhaps.
 * Only one that is a folio by itself: nobody keeps pages of others from being used again.
 */
static int do_poison(struct layout *layout, const struct vma *vma, struct range part)
{
	size_t page = memory_page_size();

	for (; part.len; part.addr += page, part.len -= page)
		if (layout_is_small_anon(part.addr)) {
			part.len = page;
			return advise(part, MADV_HWPOISON);
		}
	return -ENOENT;
}

/* To a place that is as far from where a folio may start as chance wills. */
static int do_move(struct layout *layout, const struct vma *vma, struct range part)
{
	int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	char *to = layout_new_slot(layout);

	if (!to)
		return -ENOSPC;
	to += rng_below(&layout->rng, 64) * memory_page_size();
	if (rng_chance(&layout->rng, 20))
		flags |= MREMAP_DONTUNMAP;
	return mremap(part.addr, part.len, part.len, flags, to) == to ? 0 : -errno;
}

/* The same file once more, beginning at another page. */
static int do_alias(struct layout *layout, const struct vma *vma, struct range part)
{
	size_t page = memory_page_size();
	struct region *region;
	char *to, *addr;
	size_t skip;

	if (!layout->nr_regions)
		return -ENOENT;
	region = &layout->regions[rng_below(&layout->rng, layout->nr_regions)];
	if (region->fd < 0)
		return -ENODEV;
	to = layout_new_slot(layout);
	if (!to)
		return -ENOSPC;
	skip = rng_below(&layout->rng, region->len / page) * page;
	addr = mmap(to + rng_below(&layout->rng, 64) * page, region->len - skip,
		    PROT_READ | PROT_WRITE,
		    MAP_FIXED_NOREPLACE | (rng_chance(&layout->rng, 60) ? MAP_SHARED :
					   MAP_PRIVATE), region->fd, skip);
	if (addr == MAP_FAILED)
		return -errno;
	read_pages(addr, region->len - skip);
	if (rng_chance(&layout->rng, 50))
		write_pages(&layout->rng, addr, region->len - skip, 30);
	return 0;
}

static int do_lock(struct layout *layout, const struct vma *vma, struct range part)
{
	return mlock(part.addr, part.len) ? -errno : 0;
}

static int do_lock_on_fault(struct layout *layout, const struct vma *vma, struct range part)
{
	return syscall(__NR_mlock2, part.addr, part.len, 1) ? -errno : 0;
}

static int do_unlock(struct layout *layout, const struct vma *vma, struct range part)
{
	return munlock(part.addr, part.len) ? -errno : 0;
}

/*
 * Clearing the young bits leaves translations behind in which they are set, by
 * design: have them flushed, or it is chance whether the next access sets the bit.
 */
static void flush_translations(void)
{
	size_t len = 64 * memory_page_size();
	char *addr = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (addr != MAP_FAILED)
		munmap(addr, len);
}

static int do_clear_young(struct layout *layout, const struct vma *vma, struct range part)
{
	int err = setting_write("/proc/self/clear_refs", "1");

	flush_translations();
	return err;
}

static int do_clear_soft_dirty(struct layout *layout, const struct vma *vma,
			       struct range part)
{
	return setting_write("/proc/self/clear_refs", "4");
}

static int keep_fd(struct layout *layout, int fd)
{
	if (layout->nr_fds == MAX_FDS) {
		close(fd);
		return -EMFILE;
	}
	layout->fds[layout->nr_fds++] = fd;
	return 0;
}

static int new_uffd(struct layout *layout, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = syscall(__NR_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -EINVAL;
	}
	return keep_fd(layout, fd) ?: fd;
}

/* The range and a part of it: one is registered, the other one protected. */
static int uffd_protect(struct layout *layout, struct range part, bool rwp)
{
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)part.addr, .len = part.len },
		.mode = rwp ? UFFDIO_REGISTER_MODE_RWP : UFFDIO_REGISTER_MODE_WP,
	};
	size_t page = memory_page_size();
	size_t skip = rng_below(&layout->rng, part.len / page) * page;
	struct uffdio_writeprotect wp = {
		.range = { .start = (uintptr_t)part.addr + skip, .len = part.len - skip },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	struct uffdio_rwprotect rw = {
		.range = wp.range, .mode = UFFDIO_RWPROTECT_MODE_RWP,
	};
	int fd;

	fd = new_uffd(layout, rwp ? UFFD_FEATURE_RWP | UFFD_FEATURE_RWP_ASYNC :
		      UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED |
		      UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		return -errno;
	if (rwp)
		return ioctl(fd, UFFDIO_RWPROTECT, &rw) ? -errno : 0;
	return ioctl(fd, UFFDIO_WRITEPROTECT, &wp) ? -errno : 0;
}

static int do_uffd_wp(struct layout *layout, const struct vma *vma, struct range part)
{
	return uffd_protect(layout, part, false);
}

static int do_uffd_rwp(struct layout *layout, const struct vma *vma, struct range part)
{
	return uffd_protect(layout, part, true);
}

/* Pages of three different contents, merged. */
static int do_merge(struct layout *layout, const struct vma *vma, struct range part)
{
	size_t page = memory_page_size();
	long scans = setting_read_number(KSM_DIR "/full_scans");
	int err;

	if (!vma->writable || vma->shared)
		return -EACCES;
	err = advise(part, MADV_MERGEABLE);
	if (err)
		return err;
	for (size_t i = 0; i < part.len; i += page)
		if (layout_try_write(part.addr + i, 0))
			memory_stamp(part.addr + i, page, 1000 + rng_below(&layout->rng, 3));
	err = setting_write(KSM_DIR "/run", "1");
	for (int i = 0; !err && i < 5000; i++) {
		if (setting_read_number(KSM_DIR "/full_scans") >= scans + 3)
			break;
		usleep(1000);
	}
	setting_write(KSM_DIR "/run", "0");
	return err;
}

static long counter(const char *name)
{
	size_t len = strlen(name);
	FILE *file = fopen("/proc/vmstat", "r");
	char line[128];
	long value = -1;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && line[len] == ' ')
			value = atol(line + len);
	if (file)
		fclose(file);
	return value;
}

/* Works until NUMA balancing has made all memory of this process inaccessible. */
static int do_numa_hint(struct layout *layout, const struct vma *vma, struct range part)
{
	long before = counter("numa_pte_updates");
	int err = setting_write(NUMA_BALANCING, "1");
	int i;

	for (i = 0; !err && i < 20 && counter("numa_pte_updates") == before; i++)
		for (volatile int j = 0; j < 500000; j++)
			;
	setting_write(NUMA_BALANCING, "0");
	return err ?: i < 20 ? 0 : -ETIME;
}

/* A reference to some pages: their folios cannot be moved, until it is dropped. */
static int do_hold(struct layout *layout, const struct vma *vma, struct range part)
{
	struct iovec vec = { .iov_base = part.addr, .iov_len = 8 };

	if (layout->hold[1] < 0 && pipe2(layout->hold, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	return vmsplice(layout->hold[1], &vec, 1, SPLICE_F_NONBLOCK) == 8 ? 0 : -errno;
}

/* Pages pinned for long, as for a device: those of folios of which others are not. */
static int do_pin(struct layout *layout, const struct vma *vma, struct range part)
{
	struct iovec vec = { .iov_base = part.addr, .iov_len = part.len };
	struct io_uring_params params = { 0 };
	int fd;

	if (vec.iov_len > 4 * memory_page_size())
		vec.iov_len = 4 * memory_page_size();
	fd = syscall(__NR_io_uring_setup, 1, &params);
	if (fd < 0)
		return -errno;
	if (syscall(__NR_io_uring_register, fd, IORING_REGISTER_BUFFERS, &vec, 1)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return keep_fd(layout, fd);
}

void layout_unpin(const struct layout *layout)
{
	/* No harm in asking those that are no rings. */
	for (unsigned int i = 0; i < layout->nr_fds; i++)
		syscall(__NR_io_uring_register, layout->fds[i], IORING_UNREGISTER_BUFFERS,
			NULL, 0);
}

/* No page is exclusive then. */
static int share_briefly(void)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		_exit(0);
	return pid < 0 || waitpid(pid, &status, 0) != pid ? -errno : 0;
}

/*
 * All pages are made the same in something, and what is written to is not any more. That
 * nothing may be written to then leaves PTEs that differ in this alone.
 */
static int do_differ(struct layout *layout, const struct vma *vma, struct range part)
{
	unsigned int percent = 20 + rng_below(&layout->rng, 80);
	bool read_only = rng_chance(&layout->rng, 70);
	int err;

	switch (rng_below(&layout->rng, 5)) {
	case 0:
		err = do_clear_young(layout, vma, part);
		break;
	case 1:
		err = do_clear_soft_dirty(layout, vma, part);
		break;
	case 2:
		err = do_clear_soft_dirty(layout, vma, part) ?: share_briefly();
		break;
	default:
		err = share_briefly();
		break;
	}
	write_pages(&layout->rng, part.addr, part.len, percent);
	if (!err && read_only && mprotect(vma->addr, vma->len, PROT_READ))
		err = -errno;
	return err;
}

static void child_main(struct layout *layout, int command, int answer)
{
	unsigned int steps = rng_below(&layout->rng, 4);
	char byte = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (steps--) {
		size_t i = rng_below(&layout->rng, 4);
		static const char * const names[] = { "write", "unmap", "read_only", "lock" };
		static struct vma vmas[MAX_VMAS];
		size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
		struct range part;
		const struct vma *vma;

		if (!nr)
			break;
		vma = &vmas[rng_below(&layout->rng, nr)];
		part.len = (1 + rng_below(&layout->rng, vma->len / memory_page_size())) *
			   memory_page_size();
		part.addr = vma->addr + (rng_chance(&layout->rng, 50) ? 0 :
					 vma->len - part.len);
		for (size_t j = 0; j < nr_operations; j++)
			if (!strcmp(operations[j].name, names[i]))
				printf("p%u %s %lx+%zx = %d\n", layout->self, names[i],
				       ((uintptr_t)part.addr - ARENA_BASE) /
				       memory_page_size(), part.len / memory_page_size(),
				       operations[j].run(layout, vma, part));
	}
	fflush(stdout);
	if (write(answer, &byte, 1) != 1)
		_exit(1);
	while (read(command, &byte, 1) == 1) {
		if (byte == 'w')
			layout_write_all(layout);
		fflush(stdout);
		byte = 0;
		if (write(answer, &byte, 1) != 1)
			break;
	}
	_exit(0);
}

static int do_fork(struct layout *layout, const struct vma *vma, struct range part)
{
	struct process *process = &layout->processes[layout->nr_processes];
	int command[2], answer[2];
	char byte;
	pid_t pid;

	if (layout->nr_processes == MAX_PROCESSES)
		return -EAGAIN;
	if (pipe2(command, O_CLOEXEC) || pipe2(answer, O_CLOEXEC))
		return -errno;
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) {
		close(command[1]);
		close(answer[0]);
		layout->self = layout->nr_processes;
		child_main(layout, command[0], answer[1]);
	}
	close(command[0]);
	close(answer[1]);
	*process = (struct process) {
		.pid = pid, .command = command[1], .answer = answer[0],
	};
	layout->nr_processes++;
	return read(answer[0], &byte, 1) == 1 ? 0 : -EIO;
}

const struct operation operations[] = {
	{ "write", 14, do_write },
	{ "read", 8, do_read },
	{ "dontneed", 5, do_dontneed },
	{ "free", 3, do_free },
	{ "cold", 3, do_cold },
	{ "pageout", 2, do_pageout },
	{ "guard", 2, do_guard },
	{ "read_only", 8, do_read_only },
	{ "writable", 6, do_writable },
	{ "no_access", 4, do_no_access },
	{ "unmap", 4, do_unmap },
	{ "move", 12, do_move },
	{ "alias", 8, do_alias },
	{ "lock", 8, do_lock },
	{ "lock_on_fault", 2, do_lock_on_fault },
	{ "unlock", 4, do_unlock },
	{ "clear_young", 8, do_clear_young },
	{ "clear_soft_dirty", 8, do_clear_soft_dirty },
	{ "uffd_wp", 8, do_uffd_wp },
	{ "uffd_rwp", 3, do_uffd_rwp },
	{ "merge", 2, do_merge },
	{ "numa_hint", 1, do_numa_hint },
	{ "hold", 2, do_hold },
	{ "pin", 3, do_pin },
	{ "fork", 12, do_fork },
	{ "differ", 10, do_differ },
	{ "poison", 3, do_poison },
};

const size_t nr_operations = ARRAY_SIZE(operations);
