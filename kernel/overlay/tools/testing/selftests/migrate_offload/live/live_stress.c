// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is written in every way that there is, and protected, shared, swapped out, moved
 * about and split, while two movers move all of it both ways at once and it is copied live.
 * Each writer has a word, or a sector, of every page, and knows what it wrote last.
 *
 * MIG_SECONDS is the time for each test; MIG_FILE_DIR a file system with O_DIRECT; MIG_ENGINE
 * the engine's module. There must be a swap area.
 */
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>

#include "run.h"
#include "touch.h"

#define TIMEOUT		1800
#define SEED		1

#define SECTOR		512
#define NR_SECTORS	64
#define MAX_PAGES	4096
/* Of the words of a page, those that belong to no writer keep their first contents. */
#define NR_WORDS	16
#define REPORTS		4

#define SCAN		"/sys/kernel/debug/sched/numa_balancing/"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

/* The area has a part for each way to disturb writers. All write to all, but the last. */
enum part { PLAIN, PROTECTED, FORKED, WATCHED, SPLIT, SWAPPED, MOVED, NR_PARTS };

struct writer;

struct writer_kind {
	const char *name;
	bool (*open)(struct writer *writer);
	/* False if the kernel refused, and wrote nothing. */
	bool (*write)(struct writer *writer, uint64_t *addr, uint64_t value);
	size_t len;
	/* CONFIG_DEBUG_VM prints a trace of it in memory that userfaultfd protects. */
	bool traced;
	/* It does not mark the pages dirty, so reclaim may drop what it has a copy of in swap. */
	bool clean;
};

struct writer {
	const struct writer_kind *kind;
	unsigned int index;
	/* Byte of each page at which its own begin. */
	size_t offset;
	int in, out;
	struct io_uring_sqe *sqes;
	char *ring;
	struct io_uring_params params;
	uint64_t random, sequence;
	unsigned long written, refused, lost;
	bool failed;
	pthread_t thread;
	uint64_t last[MAX_PAGES];
};

/* Shared by all threads, and a child that fork_run() made. */
static struct stress {
	size_t part;
	/* Where the part MOVED is half of the time. */
	char *elsewhere;
	int uffd;
	bool stop;
	/* Set when no writer is left that could wait for a fault. */
	bool stop_watching;
	unsigned long moves, dumps, undumped;
	unsigned long turns[NR_PARTS], wrong[NR_PARTS];
	struct writer writers[NR_WORDS];
} *stress;

static char *part_addr(enum part part)
{
	return area.addr + part * stress->part;
}

static bool is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag)
{
	__atomic_store_n(flag, true, __ATOMIC_RELEASE);
}

static bool stopped(void)
{
	return is_set(&stress->stop);
}

static uint64_t load(uint64_t *addr)
{
	return __atomic_load_n(addr, __ATOMIC_RELAXED);
}

/* The part PROTECTED is not always accessible: a thread that gets a signal there tries again. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	char *addr = info->si_addr;

	if (addr < part_addr(PROTECTED) || addr >= part_addr(PROTECTED) + stress->part)
		signal(SIGSEGV, SIG_DFL);
	sched_yield();
}

static bool write_store(struct writer *writer, uint64_t *addr, uint64_t value)
{
	__atomic_store_n(addr, value, __ATOMIC_RELAXED);
	return true;
}

/* A file with a word that each of these changes first, and then reads into memory. */
static bool open_memfd(struct writer *writer)
{
	writer->in = memfd_create("word", 0);
	return writer->in >= 0;
}

static bool write_read(struct writer *writer, uint64_t *addr, uint64_t value)
{
	return pwrite(writer->in, &value, sizeof(value), 0) == sizeof(value) &&
	       pread(writer->in, addr, sizeof(value), 0) == sizeof(value);
}

static bool write_process_vm(struct writer *writer, uint64_t *addr, uint64_t value)
{
	struct iovec from = { &value, sizeof(value) }, to = { addr, sizeof(value) };

	return process_vm_writev(getpid(), &from, 1, &to, 1, 0) == sizeof(value);
}

static bool open_mem(struct writer *writer)
{
	writer->in = open("/proc/self/mem", O_RDWR);
	return writer->in >= 0;
}

static bool write_mem(struct writer *writer, uint64_t *addr, uint64_t value)
{
	return pwrite(writer->in, &value, sizeof(value), (uintptr_t)addr) == sizeof(value);
}

/* The kernel adds one. */
static bool write_futex(struct writer *writer, uint64_t *addr, uint64_t value)
{
	uint32_t unused = 0;
	int op = FUTEX_OP(FUTEX_OP_ADD, 1, FUTEX_OP_CMP_EQ, 0);

	return syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, 0, NULL, addr, op) >= 0;
}

/* A pipe holds a page that may be written meanwhile; another fills it. */
static bool open_pipes(struct writer *writer)
{
	int ends[2];

	if (pipe2(ends, O_NONBLOCK))
		return false;
	writer->in = ends[0];
	writer->out = ends[1];
	return true;
}

static bool write_vmsplice(struct writer *writer, uint64_t *addr, uint64_t value)
{
	struct iovec word = { addr, sizeof(value) };
	uint64_t held[2];
	bool done;

	/* The reference stays in the pipe until the word is written. */
	if (write(writer->out, &value, sizeof(value)) != sizeof(value))
		return false;
	vmsplice(writer->out, &word, 1, 0);
	done = vmsplice(writer->in, &word, 1, 0) == sizeof(value);
	while (read(writer->in, held, sizeof(held)) > 0)
		;
	return done;
}

/* Sector n of the file has n + 1 in all words. */
static bool open_sectors(struct writer *writer)
{
	const char *path = setting_path("%s/live_stress.%u", getenv("MIG_FILE_DIR"), writer->index);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	uint64_t words[SECTOR / sizeof(uint64_t)];

	for (uint64_t i = 0; i < NR_SECTORS; i++) {
		for (unsigned int j = 0; j < ARRAY_SIZE(words); j++)
			words[j] = i + 1;
		if (pwrite(fd, words, SECTOR, i * SECTOR) != SECTOR)
			return false;
	}
	fsync(fd);
	close(fd);
	writer->in = open(path, O_RDONLY | O_DIRECT);
	unlink(path);
	return writer->in >= 0;
}

static bool write_direct(struct writer *writer, uint64_t *addr, uint64_t value)
{
	return pread(writer->in, addr, SECTOR, (value - 1) * SECTOR) == SECTOR;
}

static bool open_uring(struct writer *writer)
{
	struct io_uring_params *params = &writer->params;
	size_t len;

	if (!open_memfd(writer))
		return false;
	writer->out = syscall(SYS_io_uring_setup, 1, params);
	if (writer->out < 0 || !(params->features & IORING_FEAT_SINGLE_MMAP))
		return false;
	len = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
	writer->ring = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, writer->out,
			    IORING_OFF_SQ_RING);
	writer->sqes = mmap(NULL, sizeof(*writer->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
			    writer->out, IORING_OFF_SQES);
	return writer->ring != MAP_FAILED && writer->sqes != MAP_FAILED;
}

static bool read_fixed(struct writer *writer, uint64_t *addr, size_t len)
{
	struct io_uring_params *params = &writer->params;
	uint32_t *sq_tail = (uint32_t *)(writer->ring + params->sq_off.tail);
	uint32_t *cq_head = (uint32_t *)(writer->ring + params->cq_off.head);
	struct io_uring_cqe *cqes = (void *)(writer->ring + params->cq_off.cqes);
	bool done;

	*writer->sqes = (struct io_uring_sqe) {
		.opcode = IORING_OP_READ_FIXED, .fd = writer->in,
		.addr = (uintptr_t)addr, .len = len,
	};
	/* The only entry there is: its place in the array of the ring stays 0. */
	__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, writer->out, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return false;
	done = cqes[*cq_head % params->cq_entries].res == (int)len;
	__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
	return done;
}

/* The buffer is pinned before, while and after it is written. */
static bool write_uring(struct writer *writer, uint64_t *addr, uint64_t value)
{
	struct iovec word = { addr, sizeof(value) };
	bool done;

	if (pwrite(writer->in, &value, sizeof(value), 0) != sizeof(value) ||
	    syscall(SYS_io_uring_register, writer->out, IORING_REGISTER_BUFFERS, &word, 1))
		return false;
	done = read_fixed(writer, addr, sizeof(value));
	syscall(SYS_io_uring_register, writer->out, IORING_UNREGISTER_BUFFERS, NULL, 0);
	return done;
}

/* The index of one with words is its word; sectors are the last ones of a page. */
enum { FUTEX = 1, DUMP = 2, FORK = 3, MOVE = 4 };

static const struct writer_kind writer_kinds[] = {
	{ "store", NULL, write_store, sizeof(uint64_t) },
	[FUTEX] = { "futex", NULL, write_futex, sizeof(uint64_t), true },
	[DUMP] = { "store_for_a_dump", NULL, write_store, sizeof(uint64_t) },
	[FORK] = { "store_before_and_after_fork", NULL, write_store, sizeof(uint64_t) },
	[MOVE] = { "store_after_mremap", NULL, write_store, sizeof(uint64_t) },
	{ "read", open_memfd, write_read, sizeof(uint64_t) },
	{ "process_vm_writev", NULL, write_process_vm, sizeof(uint64_t) },
	{ "proc_pid_mem", open_mem, write_mem, sizeof(uint64_t), true },
	{ "vmsplice", open_pipes, write_vmsplice, sizeof(uint64_t) },
	{ "io_uring_fixed_buffer", open_uring, write_uring, sizeof(uint64_t), .clean = true },
	{ "o_direct", open_sectors, write_direct, SECTOR },
};

#define NR_WRITERS ARRAY_SIZE(writer_kinds)

static uint64_t *place(const struct writer *writer, size_t page)
{
	return (uint64_t *)(area.addr + page * memory_page_size() + writer->offset);
}

static void check(struct writer *writer, size_t page, uint64_t *addr)
{
	uint64_t *last = addr + writer->kind->len / sizeof(*addr) - 1;
	uint64_t first_found = load(addr), last_found = load(last);
	uint64_t expected = writer->last[page];

	if (first_found == expected && last_found == expected)
		return;
	if (writer->lost++ < REPORTS)
		printf("# %s: page %zu (part %zu): wrote %#llx, found %#llx and %#llx\n",
		       writer->kind->name, page, page * memory_page_size() / stress->part,
		       (unsigned long long)expected, (unsigned long long)first_found,
		       (unsigned long long)last_found);
	writer->last[page] = first_found;
}

/* A value names its writer and the time; a sector's also its place in the file. */
static uint64_t next_value(struct writer *writer, size_t page)
{
	if (writer->kind->len == SECTOR)
		return 1 + random_number(&writer->random) % NR_SECTORS;
	if (writer->index == FUTEX)
		return writer->last[page] + 1;
	return ++writer->sequence << 8 | (writer->index + 1);
}

static void write_page_at(struct writer *writer, size_t page, uint64_t *addr)
{
	uint64_t value;

	check(writer, page, addr);
	value = next_value(writer, page);
	if (!writer->kind->write(writer, addr, value)) {
		writer->refused++;
		return;
	}
	writer->last[page] = value;
	writer->written++;
}

static size_t any_page(struct writer *writer, enum part last)
{
	size_t pages = stress->part / memory_page_size();
	uint64_t random = random_number(&writer->random);

	/* Half of the writes go to the part PLAIN. */
	return random & 1 ? (random >> 1) % pages : (random >> 1) % (pages * last);
}

static void *writer_run(void *arg)
{
	struct writer *writer = arg;
	const enum part last = writer->kind->traced && debug_kernel() ? WATCHED :
			       writer->kind->clean ? SWAPPED : MOVED;
	size_t page;

	while (!stopped()) {
		page = any_page(writer, last);
		write_page_at(writer, page, place(writer, page));
	}
	return NULL;
}

/*
 * Incremental dumps: pages written after soft-dirty bits were cleared must have them.
 * No other thread clears them.
 */
static void *dump_run(void *arg)
{
	struct writer *writer = arg;
	int clear = open("/proc/self/clear_refs", O_WRONLY);
	/* Memory that is new has the bit, if there is one. */
	const bool available = memory_soft_dirty(area.addr);
	size_t pages[8];

	while (!stopped()) {
		if (write(clear, "4", 1) != 1) {
			writer->failed = true;
			break;
		}
		for (unsigned int i = 0; i < ARRAY_SIZE(pages); i++) {
			pages[i] = any_page(writer, MOVED);
			write_page_at(writer, pages[i], place(writer, pages[i]));
		}
		for (unsigned int i = 0; available && i < ARRAY_SIZE(pages); i++)
			if (!memory_soft_dirty(place(writer, pages[i])) &&
			    stress->undumped++ < REPORTS)
				printf("# page %zu was written, but has no soft-dirty bit\n",
				       pages[i]);
		stress->dumps++;
		usleep(1000);
	}
	close(clear);
	return NULL;
}

static void *protect_run(void *arg)
{
	static const int protections[] = { PROT_READ, PROT_NONE };
	const size_t half = stress->part / 2;
	uint64_t random = SEED;

	while (!stopped()) {
		uint64_t turn = random_number(&random);
		char *addr = part_addr(PROTECTED) + (turn & 1 ? half : 0);
		size_t len = turn & 2 ? half : stress->part / 4;

		mprotect(addr, len, protections[turn >> 2 & 1]);
		if (turn & 8)
			usleep(turn >> 4 & 511);
		if (mprotect(addr, len, PROT_READ | PROT_WRITE))
			stress->wrong[PROTECTED]++;
		stress->turns[PROTECTED]++;
		usleep(500);
	}
	return NULL;
}

/* A child sees the memory as it was when it was forked, and has its own writes. */
static int child_run(size_t pages, size_t size)
{
	uint64_t seen[MAX_PAGES];

	for (size_t i = 0; i < pages; i++)
		seen[i] = load((uint64_t *)(part_addr(FORKED) + i * size));
	for (size_t i = 0; i < pages; i += 3)
		write_store(NULL, (uint64_t *)(part_addr(FORKED) + i * size) + FORK, ~0ULL);
	usleep(2000);
	for (size_t i = 0; i < pages; i++) {
		uint64_t *words = (uint64_t *)(part_addr(FORKED) + i * size);

		if (load(words) != seen[i] || (i % 3 == 0 && load(words + FORK) != ~0ULL))
			return 1;
	}
	return 0;
}

static void *fork_run(void *arg)
{
	struct writer *writer = arg;
	const size_t size = memory_page_size();
	size_t pages = stress->part / size, first = FORKED * pages, page;
	int status;
	pid_t pid;

	while (!stopped()) {
		for (unsigned int i = 0; i < 8; i++) {
			page = first + random_number(&writer->random) % pages;
			write_page_at(writer, page, place(writer, page));
		}
		pid = fork();
		if (!pid)
			_exit(child_run(pages, size));
		for (unsigned int i = 0; i < 8; i++) {
			page = first + random_number(&writer->random) % pages;
			write_page_at(writer, page, place(writer, page));
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			stress->wrong[FORKED]++;
		stress->turns[FORKED]++;
		usleep(5000);
	}
	return NULL;
}

/* The only writer of its part, and the only thread that knows where it is. */
static void *mremap_run(void *arg)
{
	struct writer *writer = arg;
	const size_t size = memory_page_size();
	size_t pages = stress->part / size, first = MOVED * pages;
	char *home = part_addr(MOVED), *at = home, *to;

	while (!stopped() || at != home) {
		to = at == home ? stress->elsewhere : home;
		/* The address range is never free for others. */
		if (mremap(at, stress->part, stress->part,
			   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != to) {
			stress->wrong[MOVED]++;
			break;
		}
		at = to;
		for (unsigned int i = 0; i < 8; i++) {
			size_t page = random_number(&writer->random) % pages;

			write_page_at(writer, first + page,
				      (uint64_t *)(at + page * size + writer->offset));
		}
		stress->turns[MOVED]++;
		usleep(1000);
	}
	return NULL;
}

static int watch_protect(size_t offset, size_t len, bool on)
{
	return uffd_protect(stress->uffd, part_addr(WATCHED) + offset, len, on);
}

/* Protected memory does not change until this thread says so. */
static void *watch_run(void *arg)
{
	const size_t size = memory_page_size();
	const size_t pages = stress->part / size;
	struct pollfd fault = { .fd = stress->uffd, .events = POLLIN };
	uint64_t *words = malloc(pages * sizeof(*words));
	struct uffd_msg message;

	while (!is_set(&stress->stop_watching)) {
		if (watch_protect(0, stress->part, true))
			stress->wrong[WATCHED]++;
		for (size_t i = 0; i < pages; i++)
			words[i] = load((uint64_t *)(part_addr(WATCHED) + i * size));
		usleep(300);
		for (size_t i = 0; i < pages; i++)
			if (load((uint64_t *)(part_addr(WATCHED) + i * size)) != words[i])
				stress->wrong[WATCHED]++;
		for (unsigned int i = 0; i < 16 && poll(&fault, 1, 1) > 0; i++) {
			if (read(stress->uffd, &message, sizeof(message)) != sizeof(message))
				break;
			watch_protect((message.arg.pagefault.address & ~(size - 1)) -
				      (uintptr_t)part_addr(WATCHED), size, false);
			stress->turns[WATCHED]++;
		}
		watch_protect(0, stress->part, false);
		usleep(500);
	}
	watch_protect(0, stress->part, false);
	free(words);
	return NULL;
}

/* Reclaim writes it to a swap area on a loop device, and unmaps what is in the swap cache. */
static void *swap_run(void *arg)
{
	uint64_t random = SEED;

	while (!stopped()) {
		size_t offset = random_number(&random) % stress->part & ~(memory_page_size() - 1);

		madvise(part_addr(SWAPPED) + offset, stress->part - offset, MADV_PAGEOUT);
		stress->turns[SWAPPED]++;
		usleep(2000);
	}
	return NULL;
}

/*
 * Splits folios and their mappings, lets the kernel drop them when it needs memory, which
 * it does not, and makes them whole again.
 */
static void *split_run(void *arg)
{
	static const int advice[] = {
		MADV_FREE, MADV_COLD, MADV_WILLNEED, MADV_NOHUGEPAGE, MADV_HUGEPAGE,
	};
	char *addr = part_addr(SPLIT);
	uint64_t random = SEED;

	while (!stopped()) {
		uint64_t turn = random_number(&random) % 7;
		size_t offset = random_number(&random) % stress->part & ~(memory_page_size() - 1);

		if (turn < ARRAY_SIZE(advice))
			madvise(addr + offset, stress->part - offset, advice[turn]);
		else if (turn == 5)
			memory_split(addr, stress->part);
		else /* whole again, where a part is as large as that */
			madvise(addr, stress->part, MADV_COLLAPSE);
		stress->turns[SPLIT]++;
		usleep(1000);
	}
	return NULL;
}

static void *mover_run(void *arg)
{
	const int node = *(int *)arg;

	while (!stopped()) {
		memory_move(0, area.addr, area.size, memory_page_size(), node, MPOL_MF_MOVE);
		memory_move(0, stress->elsewhere, stress->part, memory_page_size(), node,
			    MPOL_MF_MOVE);
		__atomic_add_fetch(&stress->moves, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Pages without access rights now and then, so that a fault tells who uses them. */
static void numa_hints_on(void)
{
	static const struct {
		const char *file;
		long value;
	} settings[] = {
		{ SCAN "scan_period_min_ms", 10 }, { SCAN "scan_period_max_ms", 20 },
		{ SCAN "scan_delay_ms", 10 }, { NUMA_BALANCING, 1 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(settings); i++) {
		setting_save(settings[i].file);
		setting_write_number(settings[i].file, settings[i].value);
	}
}

static long counted(const char *name)
{
	return setting_find_number("/proc/vmstat", name);
}

FIXTURE(live_stress) { };

FIXTURE_VARIANT(live_stress)
{
	enum area_kind kind;
	/* Of each part. */
	size_t size;
	bool engine;
};

FIXTURE_VARIANT_ADD(live_stress, cpu_4k) { AREA_ANON_4K, 256 * KIB };
FIXTURE_VARIANT_ADD(live_stress, cpu_64k) { AREA_ANON_64K, 512 * KIB };
FIXTURE_VARIANT_ADD(live_stress, cpu_2m) { AREA_ANON_2M, 2 * MIB };
FIXTURE_VARIANT_ADD(live_stress, engine_4k) { AREA_ANON_4K, 256 * KIB, true };
FIXTURE_VARIANT_ADD(live_stress, engine_64k) { AREA_ANON_64K, 512 * KIB, true };
FIXTURE_VARIANT_ADD(live_stress, engine_2m) { AREA_ANON_2M, 2 * MIB, true };

FIXTURE_SETUP(live_stress)
{
	if (!run_begin(_metadata))
		return;
	if (!getenv("MIG_FILE_DIR"))
		SKIP(return, "needs MIG_FILE_DIR, with O_DIRECT");
	if (setting_find_number("/proc/meminfo", "SwapTotal:") < 1)
		SKIP(return, "needs a swap area");
	if (variant->engine) {
		/* A copy takes long enough for others to write. */
		ASSERT_TRUE(engine_load("channels=4 ring_depth=64 latency_ns=200000", ""));
	} else {
		route_only(MOVE_PAGES, "cpu");
	}
	ASSERT_EQ(0, offload_set_live(true));
	numa_hints_on();

	stress = mmap(NULL, sizeof(*stress), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, stress);
	stress->part = variant->size;
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		struct writer *writer = &stress->writers[i];

		writer->kind = &writer_kinds[i];
		writer->index = i;
		writer->random = SEED + i;
		writer->offset = writer->kind->len == SECTOR ?
			memory_page_size() - (NR_WRITERS - i) * SECTOR : i * sizeof(uint64_t);
	}
}

FIXTURE_TEARDOWN(live_stress)
{
	munmap(stress, sizeof(*stress));
	run_end();
}

static void make_area(const FIXTURE_VARIANT(live_stress) *variant)
{
	create_area(variant->kind, NR_PARTS * stress->part);
	ASSERT_LE(area.size / memory_page_size(), MAX_PAGES);
	for (size_t page = 0; page < area.size / memory_page_size(); page++)
		for (unsigned int i = 0; i < NR_WRITERS; i++)
			memset(place(&stress->writers[i], page), 0, writer_kinds[i].len);

	stress->elsewhere = memory_map_aligned(stress->part, PMD_SIZE);
	ASSERT_NE(NULL, stress->elsewhere);
	for (unsigned int part = 0; part < NR_PARTS; part++)
		if (part != FORKED)
			ASSERT_EQ(0, madvise(part_addr(part), stress->part, MADV_DONTFORK));

	stress->uffd = uffd_open(part_addr(WATCHED), stress->part);
	ASSERT_LE(0, stress->uffd);
}

/* How many bytes that no writer has are not as at first. */
static size_t others_wrong(void)
{
	const size_t size = area.size;
	char *stamped = malloc(size);
	size_t wrong = 0;

	memory_stamp(stamped, size, area.seed);
	for (size_t page = 0; page < size / memory_page_size(); page++)
		for (unsigned int i = 0; i < NR_WRITERS; i++) {
			char *from = (char *)place(&stress->writers[i], page);

			memcpy(stamped + (from - area.addr), from, writer_kinds[i].len);
		}
	for (size_t i = 0; i < size; i += sizeof(uint64_t))
		wrong += !!memcmp(stamped + i, area.addr + i, sizeof(uint64_t));
	free(stamped);
	return wrong;
}

/* Each writer wrote, each disturber disturbed, and the movers met some of them. */
static bool enough(void)
{
	bool all = stress->dumps > 5 && stress->moves > 5;

	for (unsigned int i = 0; i < NR_WRITERS; i++)
		all = all && stress->writers[i].written > 20;
	for (unsigned int part = PROTECTED; part < NR_PARTS; part++)
		all = all && stress->turns[part] > 5;
	return all && offload_grown("live_copied") > 50 && offload_grown("live_written") > 3;
}

TEST_F_TIMEOUT(live_stress, no_write_is_lost, TIMEOUT)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	static void *(* const disturb[])(void *arg) = {
		protect_run, swap_run, split_run, mover_run, mover_run,
	};
	const long hints = counted("numa_pte_updates "), swapped = counted("pswpout ");
	pthread_t watching, disturbing[ARRAY_SIZE(disturb)];
	double begin, end, took;

	make_area(variant);
	sigaction(SIGSEGV, &action, NULL);
	offload_mark();

	ASSERT_EQ(0, pthread_create(&watching, NULL, watch_run, NULL));
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		struct writer *writer = &stress->writers[i];
		void *(*run)(void *arg) = i == DUMP ? dump_run : i == FORK ? fork_run :
					  i == MOVE ? mremap_run : writer_run;

		ASSERT_TRUE(!writer->kind->open || writer->kind->open(writer))
			TH_LOG("%s: %s", writer->kind->name, strerror(errno));
		ASSERT_EQ(0, pthread_create(&writer->thread, NULL, run, writer));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(disturb); i++)
		ASSERT_EQ(0, pthread_create(&disturbing[i], NULL, disturb[i], &nodes[i % 2]));

	/* A slow machine gets more time. */
	begin = seconds_now();
	end = begin + (atoi(getenv("MIG_SECONDS") ?: "") ?: 4);
	while (seconds_now() < end || (!enough() && seconds_now() < end + 60))
		usleep(100000);

	took = seconds_now() - begin;
	set(&stress->stop);
	for (unsigned int i = 0; i < NR_WRITERS; i++)
		pthread_join(stress->writers[i].thread, NULL);
	for (unsigned int i = 0; i < ARRAY_SIZE(disturb); i++)
		pthread_join(disturbing[i], NULL);
	set(&stress->stop_watching);
	pthread_join(watching, NULL);

	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		struct writer *writer = &stress->writers[i];

		for (size_t page = 0; page < area.size / memory_page_size(); page++)
			check(writer, page, place(writer, page));
		TH_LOG("%s: %lu written, %lu refused", writer->kind->name, writer->written,
		       writer->refused);
		EXPECT_EQ(0, writer->lost)
			TH_LOG("%s", writer->kind->name);
		EXPECT_FALSE(writer->failed);
	}
	for (unsigned int part = PROTECTED; part < NR_PARTS; part++) {
		EXPECT_EQ(0, stress->wrong[part])
			TH_LOG("part %u", part);
	}
	EXPECT_EQ(0, stress->undumped);
	EXPECT_EQ(0, others_wrong());

	TH_LOG("%.1f s: %lu moves, %lu dumps, turns %lu %lu %lu %lu %lu %lu", took, stress->moves,
	       stress->dumps, stress->turns[PROTECTED], stress->turns[FORKED],
	       stress->turns[WATCHED], stress->turns[SPLIT], stress->turns[SWAPPED],
	       stress->turns[MOVED]);
	offload_show_grown();
	EXPECT_TRUE(enough());
	TH_LOG("%ld PTEs for NUMA hints", counted("numa_pte_updates ") - hints);
	EXPECT_TRUE(hints < 0 || hints < counted("numa_pte_updates "));
	TH_LOG("%ld pages swapped out", counted("pswpout ") - swapped);
	EXPECT_LT(swapped, counted("pswpout "));
}

TEST_HARNESS_MAIN
