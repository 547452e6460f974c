// SPDX-License-Identifier: GPL-2.0
/* Random operations on the memory of a layout. */
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/io_uring.h>
#include <linux/mman.h>
#include <linux/userfaultfd.h>

#include "layout.h"

#define MAX_CHILD_STEPS	4

static bool is_small_anon(char *addr)
{
	const struct range range = { .addr = addr, .len = memory_page_size() };
	struct page_state state;

	return layout_states(getpid(), range, &state) && state.folio_pfn && !state.order &&
	       (state.page & (FOLIO_IS_ANON | FOLIO_IS_KSM)) == FOLIO_IS_ANON;
}

static int do_write(struct layout *layout, const struct vma *vma, struct range part)
{
	if (!vma->writable)
		return -EACCES;
	layout_write_pages(&layout->rng, part.addr, part.len, 100);
	return 0;
}

static int do_read(struct layout *layout, const struct vma *vma, struct range part)
{
	if (!vma->readable)
		return -EACCES;
	layout_read_pages(part.addr, part.len);
	return 0;
}

static int advise(struct range part, int advice)
{
	return madvise(part.addr, part.len, advice) ? -errno : 0;
}

#define OPERATION(name, result)							\
static int do_##name(struct layout *layout, const struct vma *vma,		\
		     struct range part)						\
{										\
	return result;								\
}

/* @call: 0, or else it sets errno. */
#define SYSTEM_CALL(name, call)	OPERATION(name, (call) ? -errno : 0)

SYSTEM_CALL(dontneed, madvise(part.addr, part.len, MADV_DONTNEED))
SYSTEM_CALL(free, madvise(part.addr, part.len, MADV_FREE))
SYSTEM_CALL(cold, madvise(part.addr, part.len, MADV_COLD))
SYSTEM_CALL(pageout, madvise(part.addr, part.len, MADV_PAGEOUT))
SYSTEM_CALL(read_only, mprotect(part.addr, part.len, PROT_READ))
SYSTEM_CALL(writable, mprotect(part.addr, part.len, PROT_READ | PROT_WRITE))
SYSTEM_CALL(no_access, mprotect(part.addr, part.len, PROT_NONE))
SYSTEM_CALL(unmap, munmap(part.addr, part.len))
SYSTEM_CALL(lock, mlock(part.addr, part.len))
SYSTEM_CALL(lock_on_fault, syscall(__NR_mlock2, part.addr, part.len, 1))
SYSTEM_CALL(unlock, munlock(part.addr, part.len))

/*
 * 7.3 tries for ever to make a guard of a file's page that a userfaultfd write-protects:
 * each zap leaves a marker behind.
 */
OPERATION(guard, vma->file && layout_any_uffd(part) ? -EBUSY : advise(part, MADV_GUARD_INSTALL))

/*
 * Leaves an entry for poison, perhaps between those of a large folio. Only a page that is
 * a folio by itself is poisoned: the kernel uses pages of large folios again.
 */
static int do_poison(struct layout *layout, const struct vma *vma, struct range part)
{
	size_t page = memory_page_size();

	for (; part.len; part.addr += page, part.len -= page)
		if (is_small_anon(part.addr)) {
			part.len = page;
			return advise(part, MADV_HWPOISON);
		}
	return -ENOENT;
}

/* Moves it to a place whose alignment is chance. */
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

/* Maps a file once more, from another page on. */
static int do_alias(struct layout *layout, const struct vma *vma, struct range part)
{
	size_t page = memory_page_size(), skip, len;
	struct region *region;
	char *to, *addr;
	int flags;

	if (!layout->nr_regions)
		return -ENOENT;
	region = &layout->regions[rng_below(&layout->rng, layout->nr_regions)];
	if (region->fd < 0)
		return -ENODEV;
	to = layout_new_slot(layout);
	if (!to)
		return -ENOSPC;
	skip = rng_below(&layout->rng, region->len / page) * page;
	len = region->len - skip;
	flags = MAP_FIXED_NOREPLACE | (rng_chance(&layout->rng, 60) ? MAP_SHARED : MAP_PRIVATE);
	addr = mmap(to + rng_below(&layout->rng, 64) * page, len, PROT_READ | PROT_WRITE, flags,
		    region->fd, skip);
	if (addr == MAP_FAILED)
		return -errno;
	layout_read_pages(addr, len);
	if (rng_chance(&layout->rng, 50))
		layout_write_pages(&layout->rng, addr, len, 30);
	return 0;
}

/*
 * By design the kernel clears young bits without a flush: without this one, chance
 * decides whether the next access sets the bit.
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

OPERATION(clear_soft_dirty, setting_write("/proc/self/clear_refs", "4"))

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

/* Registers the range, and protects the end of it. */
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
	struct uffdio_rwprotect rw = { .range = wp.range, .mode = UFFDIO_RWPROTECT_MODE_RWP };
	int fd = new_uffd(layout, rwp ? UFFD_FEATURE_RWP | UFFD_FEATURE_RWP_ASYNC :
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

OPERATION(uffd_wp, uffd_protect(layout, part, false))
OPERATION(uffd_rwp, uffd_protect(layout, part, true))

/* Has KSM merge pages of three different contents. */
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
	layout->merged = true;
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

static long numa_updates(void)
{
	return setting_find_number("/proc/vmstat", "numa_pte_updates ");
}

/* Spins until NUMA balancing has made all memory of this process inaccessible. */
static int do_numa_hint(struct layout *layout, const struct vma *vma, struct range part)
{
	long before = numa_updates();
	int err = setting_write(NUMA_BALANCING, "1");
	int i;

	for (i = 0; !err && i < 20 && numa_updates() == before; i++)
		for (volatile int j = 0; j < 500000; j++)
			;
	setting_write(NUMA_BALANCING, "0");
	return err ?: i < 20 ? 0 : -ETIME;
}

/* Takes references that keep folios from moving until they are dropped. */
static int do_hold(struct layout *layout, const struct vma *vma, struct range part)
{
	struct iovec vec = { .iov_base = part.addr, .iov_len = 8 };

	if (layout->hold[1] < 0 && pipe2(layout->hold, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	return vmsplice(layout->hold[1], &vec, 1, SPLICE_F_NONBLOCK) == 8 ? 0 : -errno;
}

/* Pins a few pages for long, as for a device, and not all of their folios. */
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
	/* This fails, harmlessly, for descriptors that are no rings. */
	for (unsigned int i = 0; i < layout->nr_fds; i++)
		syscall(__NR_io_uring_register, layout->fds[i], IORING_UNREGISTER_BUFFERS, NULL, 0);
}

/* Afterwards no page is exclusive. */
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

/* The line of do_differ() is the same in all its cases: this one has a line of its own. */
static int differ_clear_soft_dirty(struct layout *layout, const struct vma *vma, struct range part)
{
	int err = do_clear_soft_dirty(layout, vma, part);

	printf("p%u clear_soft_dirty to differ = %d\n", layout->self, err);
	return err;
}

/*
 * Makes all pages alike in one bit, and some of them different by a write. If the mapping
 * becomes read-only then, their PTEs differ in nothing else.
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
		err = differ_clear_soft_dirty(layout, vma, part);
		break;
	case 2:
		err = differ_clear_soft_dirty(layout, vma, part) ?: share_briefly();
		break;
	default:
		err = share_briefly();
		break;
	}
	layout_write_pages(&layout->rng, part.addr, part.len, percent);
	if (!err && read_only && mprotect(vma->addr, vma->len, PROT_READ))
		err = -errno;
	return err;
}

struct operation {
	const char *name;
	unsigned int weight;
	/* The part of @vma is whole pages; 0 or -errno. */
	int (*run)(struct layout *layout, const struct vma *vma, struct range part);
	/*
	 * The memory that it can be done to while a migration is paused, without a wait for
	 * its end: any (ZAPS removes migration entries), present pages, or none. No pin is
	 * taken then: a pin for long faults pages in, and may itself migrate them, and either
	 * waits for the paused migration. The writers of live_stress pin while memory migrates
	 * (O_DIRECT, process_vm_writev()).
	 */
	enum { ANY, ZAPS, PRESENT, NEVER } paused;
	bool writes;
};

static int do_fork(struct layout *layout, const struct vma *vma, struct range part);

static const struct operation operations[] = {
	{ "write", 14, do_write, PRESENT, true },
	{ "read", 8, do_read, PRESENT },
	{ "dontneed", 5, do_dontneed, ZAPS },
	{ "free", 3, do_free, ANY },
	{ "cold", 3, do_cold, ANY },
	{ "pageout", 2, do_pageout, NEVER },
	{ "guard", 2, do_guard, ZAPS },
	{ "read_only", 8, do_read_only, ANY },
	{ "writable", 6, do_writable, PRESENT },
	{ "no_access", 4, do_no_access, ANY },
	{ "unmap", 4, do_unmap, ZAPS },
	{ "move", 12, do_move, ZAPS },
	{ "alias", 8, do_alias, NEVER },
	{ "lock", 8, do_lock, PRESENT },
	{ "lock_on_fault", 2, do_lock_on_fault, ANY },
	{ "unlock", 4, do_unlock, ANY },
	{ "clear_young", 8, do_clear_young, ANY },
	{ "clear_soft_dirty", 8, do_clear_soft_dirty, ANY },
	{ "uffd_wp", 8, do_uffd_wp, ANY },
	{ "uffd_rwp", 3, do_uffd_rwp, ANY },
	{ "merge", 2, do_merge, NEVER },
	{ "numa_hint", 1, do_numa_hint, NEVER },
	{ "hold", 2, do_hold, PRESENT },
	{ "pin", 3, do_pin, NEVER },
	{ "fork", 12, do_fork, ANY },
	{ "differ", 10, do_differ, PRESENT, true },
	{ "poison", 3, do_poison, NEVER },
};

static unsigned int weight_of(const struct operation *operation, bool paused)
{
	if (!paused)
		return operation->weight;
	if (operation->paused == NEVER)
		return 0;
	return operation->weight * (operation->paused == ZAPS ? 4 : 1);
}

static const struct operation *random_operation(struct rng *rng, bool paused)
{
	unsigned int weights[ARRAY_SIZE(operations)];

	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		weights[i] = weight_of(&operations[i], paused);
	return &operations[rng_choose(rng, weights, ARRAY_SIZE(weights))];
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

/* True if no access to it would wait for a migration, of its pages or its file's. */
static bool all_settled(const struct vma *vma, struct range part)
{
	size_t page = memory_page_size();

	for (; part.len; part.addr += page, part.len -= page) {
		struct page_state state;

		if (!layout_states(getpid(), (struct range) { part.addr, page }, &state) ||
		    state.pte & PTE_IS_MIGRATION || (vma->file && !(state.pte & PTE_IS_PRESENT)))
			return false;
	}
	return true;
}

static int run_operation(struct layout *layout, const struct operation *operation,
			 const struct vma *vma, struct range part)
{
	bool waits = operation->paused >= PRESENT;
	int err;

	/* mremap() copies pages that KSM has merged, and waits for their migration. */
	if (operation->run == do_move && layout->merged)
		waits = true;
	if (layout->paused && waits && (operation->paused == NEVER || !all_settled(vma, part)))
		err = -EBUSY;
	else
		err = operation->run(layout, vma, part);
	printf("p%u %s %lx+%zx = %d\n", layout->self, operation->name,
	       ((uintptr_t)part.addr - ARENA_BASE) / memory_page_size(),
	       part.len / memory_page_size(), err);
	return err;
}

struct touched layout_operate(struct layout *layout)
{
	struct touched touched = { .process = layout->self };
	static struct vma vmas[MAX_VMAS];
	size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	const struct operation *operation;
	const struct vma *vma;
	int err;

	if (!nr)
		return touched;
	vma = &vmas[rng_below(&layout->rng, nr)];
	touched.range = random_part(&layout->rng, vma);
	operation = random_operation(&layout->rng, layout->paused);
	err = run_operation(layout, operation, vma, touched.range);
	touched.everywhere = !err && operation->writes && vma->shared;
	return touched;
}

static void child_step(struct layout *layout)
{
	static const char * const names[] = { "write", "unmap", "read_only", "lock" };
	const char *name = names[rng_below(&layout->rng, ARRAY_SIZE(names))];
	size_t page = memory_page_size();
	static struct vma vmas[MAX_VMAS];
	size_t nr = layout_vmas(getpid(), vmas, MAX_VMAS);
	const struct vma *vma;
	struct range part;

	if (!nr)
		return;
	vma = &vmas[rng_below(&layout->rng, nr)];
	part.len = (1 + rng_below(&layout->rng, vma->len / page)) * page;
	part.addr = vma->addr + (rng_chance(&layout->rng, 50) ? 0 : vma->len - part.len);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		if (!strcmp(operations[i].name, name))
			run_operation(layout, &operations[i], vma, part);
}

static void child_main(struct layout *layout, int command, int answer)
{
	unsigned int steps = rng_below(&layout->rng, MAX_CHILD_STEPS);
	struct touched touched = { 0 };
	char byte;

	while (steps--)
		child_step(layout);
	do {
		fflush(stdout);
		if (write(answer, &touched, sizeof(touched)) != sizeof(touched) ||
		    read(command, &byte, 1) != 1)
			break;
		layout->paused = byte == COMMAND_OPERATE;
		if (byte == COMMAND_WRITE)
			layout_write_all(layout);
		else
			touched = layout_operate(layout);
	} while (true);
	_exit(0);
}

static int do_fork(struct layout *layout, const struct vma *vma, struct range part)
{
	struct process *process = &layout->processes[layout->nr_processes];
	int command[2], answer[2];
	struct touched none;
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
	return read(answer[0], &none, sizeof(none)) == sizeof(none) ? 0 : -EIO;
}

bool layout_command(const struct layout *layout, unsigned int child, char command,
		    struct touched *answer)
{
	const struct process *process = &layout->processes[child];

	fflush(stdout);
	return write(process->command, &command, 1) == 1 &&
	       read(process->answer, answer, sizeof(*answer)) == sizeof(*answer);
}
