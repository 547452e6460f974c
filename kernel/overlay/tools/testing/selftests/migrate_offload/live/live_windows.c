// SPDX-License-Identifier: GPL-2.0
/*
 * An engine takes its time to copy memory that is mapped. Meanwhile the memory is
 * written in every way that leaves little to see, and protected again. Each write must
 * be in the memory after the move, and must not have waited for the engine.
 *
 * A kernel with CONFIG_MIGRATE_LIVE_DELAY also waits before each step of a live copy.
 */
#include <sys/ptrace.h>
#include <linux/userfaultfd.h>

#include "../../../../../lib/test_hmm_uapi.h"
#include "run.h"

#define TIMEOUT		300

/* A descriptor takes that many ns: a call that waits for none returns before one has ended. */
#define LATENCY		"1000000000"
#define NEW_BYTE	0x5a

/* The delays of the steps, in us. */
#define DELAYS		"/sys/kernel/debug/migrate_live_delay/"
#define DELAY		600000L

/* Of the first chunk of a move; others have four times that. A descriptor has a segment. */
#define CHUNK		PMD_SIZE
#define SEGMENT		(64 * KIB)
#define CHANNELS	4

static const char * const steps[] = {
	"protect", "flush", "unmap", "judge", "group_flush", "move",
};

/* The byte that a test writes, the last one of the memory, and its old value. */
static char *byte, old;

FIXTURE(live_windows) { };
FIXTURE_VARIANT(live_windows) { enum area_kind kind; size_t size; };
FIXTURE_VARIANT_ADD(live_windows, anon_4k) { AREA_ANON_4K, 16 * KIB };
FIXTURE_VARIANT_ADD(live_windows, anon_64k) { AREA_ANON_64K, 256 * KIB };
FIXTURE_VARIANT_ADD(live_windows, anon_2m) { AREA_ANON_2M, 2 * MIB };

static void set_delay(const char *step, long us)
{
	ASSERT_EQ(0, setting_write_number(setting_path(DELAYS "%s", step), us));
}

FIXTURE_SETUP(live_windows)
{
	if (!run_begin(_metadata))
		return;
	ASSERT_TRUE(engine_load("channels=4 ring_depth=64 latency_ns=" LATENCY, ""));
	ASSERT_EQ(0, offload_set_live(true));
	create_area(variant->kind, variant->size);
	byte = area.addr + area.size - 1;
	old = *byte;
}

FIXTURE_TEARDOWN(live_windows)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(steps) && !access(DELAYS, F_OK); i++)
		set_delay(steps[i], 0);
	run_end();
}

/* How many delays have begun. */
static long delays_reached(void)
{
	return setting_read_number(DELAYS "reached");
}

static bool move_is_over(void)
{
	return __atomic_load_n(&mover.is_over, __ATOMIC_ACQUIRE);
}

/* Returns at once when a delay after @before begins, or the move is over: ticks change TLBs. */
static void wait_for_delay(long before)
{
	while (delays_reached() <= before && !move_is_over())
		;
}

/* Returns when a move waits before @step; the engine takes no time. */
static void begin_move_until(const char *step)
{
	const long before = delays_reached();

	set_latency(1000);
	set_delay(step, DELAY);
	start_move();
	wait_for_delay(before);
	ASSERT_EQ(before + 1, delays_reached());
}

static void protect(int protection)
{
	ASSERT_EQ(0, mprotect(area.addr, area.size, protection));
}

/* The byte has been written, and nothing else. */
static void expect_written(void)
{
	EXPECT_EQ(NEW_BYTE, *byte);
	*byte = old;
	EXPECT_EQ(0, area_wrong(&area));
}

/* The move is over, and knows of the write; no task had to wait. */
static void end_written_move(void)
{
	expect_no_wait();
	end_move();
	EXPECT_TRUE(area_is_by_pmd(&area));
	protect(PROT_READ | PROT_WRITE);
	expect_written();
	EXPECT_EQ(1, offload_grown("live_written"));
	EXPECT_EQ(0, offload_grown("live_in_pieces"));
	EXPECT_EQ(area_folios(&area) - 1, offload_grown("live_copied"));
}

/* All was copied live. */
static void end_live_move(void)
{
	expect_no_wait();
	end_move();
	EXPECT_EQ(area_folios(&area), offload_grown("live_copied"));
}

/* The kernel writes through a reference that it drops at once. */
static void write_by_reference(void)
{
	char value = NEW_BYTE;
	struct iovec from = { &value, 1 }, to = { byte, 1 };

	ASSERT_EQ(1, process_vm_writev(getpid(), &from, 1, &to, 1, 0));
}

TEST_F_TIMEOUT(live_windows, nobody_writes, TIMEOUT)
{
	begin_move();
	EXPECT_EQ(0, area_wrong(&area));
	end_live_move();
	EXPECT_EQ(0, area_wrong(&area));
}

TEST_F_TIMEOUT(live_windows, a_store, TIMEOUT)
{
	EXPECT_TRUE(area_is_by_pmd(&area));
	begin_move();
	EXPECT_TRUE(area_is_by_pmd(&area));
	*byte = NEW_BYTE;
	EXPECT_EQ(area.folio_size != PMD_SIZE, area_is_by_pmd(&area));
	end_written_move();
}

TEST_F_TIMEOUT(live_windows, a_store_protected_again, TIMEOUT)
{
	begin_move();
	*byte = NEW_BYTE;
	protect(PROT_READ);
	end_written_move();
}

static volatile bool refused;

static void refuse(int sig)
{
	refused = true;
	mprotect(area.addr, area.size, PROT_READ | PROT_WRITE);
}

/* The move gives back only what the mapping allows by then. */
TEST_F_TIMEOUT(live_windows, protected_for_good, TIMEOUT)
{
	begin_move();
	protect(PROT_READ);
	end_live_move();

	signal(SIGSEGV, refuse);
	*(volatile char *)byte = NEW_BYTE;
	EXPECT_TRUE(refused);
	expect_written();
}

/* mprotect() makes PTEs writable without a fault. */
TEST_F_TIMEOUT(live_windows, a_reference_between_two_mprotect, TIMEOUT)
{
	begin_move();
	protect(PROT_READ);
	protect(PROT_READ | PROT_WRITE);
	write_by_reference();
	protect(PROT_READ);
	end_written_move();
}

/*
 * A debugger needs no write permission, and waits for the folio lock afterwards. It has no copy
 * of the area, whose pages stay exclusive.
 */
TEST_F_TIMEOUT(live_windows, a_debugger_while_not_writable, TIMEOUT)
{
	const pid_t target = getpid();
	long *addr = (long *)(byte + 1) - 1, word = *addr;
	volatile bool *go;
	pid_t debugger;

	((char *)&word)[sizeof(word) - 1] = NEW_BYTE;
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, go);
	ASSERT_EQ(0, madvise(area.addr, area.size, MADV_DONTFORK));
	debugger = fork();
	if (!debugger) {
		bool fine;

		while (!*go)
			usleep(1000);
		fine = !ptrace(PTRACE_ATTACH, target, NULL, NULL) &&
		       waitpid(target, NULL, __WALL) == target &&
		       !ptrace(PTRACE_POKEDATA, target, addr, (void *)word);
		ptrace(PTRACE_DETACH, target, NULL, NULL);
		_exit(!fine);
	}
	ASSERT_LT(0, debugger);

	begin_move();
	protect(PROT_READ);
	*go = true;
	EXPECT_TRUE(process_was_fine(debugger));
	/* While it waited its reference kept the folio where it was. */
	join_move();
	protect(PROT_READ | PROT_WRITE);
	expect_written();
}

/* MADV_FREE takes dirty bits away, though not those of a folio that is locked. */
TEST_F_TIMEOUT(live_windows, lazily_freed_meanwhile, TIMEOUT)
{
	begin_move();
	*byte = NEW_BYTE;
	ASSERT_EQ(0, madvise(area.addr, area.size, MADV_FREE));
	protect(PROT_READ);
	end_written_move();
}

/*
 * The first two chunks are locked. Of the third, isolated as they are, MADV_FREE takes all
 * dirty bits, and would take those of writes to come.
 */
TEST_F_TIMEOUT(live_windows, lazily_freed_before_it_is_protected, TIMEOUT)
{
	size_t folios, descriptors;

	create_area(variant->kind, 6 * CHUNK);
	folios = area_folios(&area);
	descriptors = area.folio_size < SEGMENT ? folios / 6 : CHUNK / SEGMENT;
	/* The channels need a second for a chunk. */
	set_latency(1000000000L * CHANNELS / descriptors);
	begin_move();
	ASSERT_EQ(0, madvise(area.addr + 5 * CHUNK, CHUNK, MADV_FREE));
	join_move();
	EXPECT_EQ(folios / 6 * 5, offload_grown("live_copied"));
	EXPECT_EQ(folios / 6, offload_grown("live_declined"));
	EXPECT_EQ(0, area_wrong(&area));
}

/* The child sees it as well. Not all of it may move. */
TEST_F_TIMEOUT(live_windows, a_store_before_fork, TIMEOUT)
{
	char nothing;
	int ends[2];
	pid_t child;

	ASSERT_EQ(0, pipe(ends));
	begin_move();
	*byte = NEW_BYTE;
	child = fork();
	if (!child) {
		close(ends[1]);
		/* Until the parent's end is closed as well. */
		_exit(read(ends[0], &nothing, 1) || *byte != NEW_BYTE);
	}
	ASSERT_LT(0, child);
	expect_no_wait();
	join_move();
	close(ends[1]);
	EXPECT_EQ(area_folios(&area), offload_grown("live_written"));
	expect_written();
	EXPECT_TRUE(process_was_fine(child));
	close(ends[0]);
}

/* The child keeps what was there, the parent what it wrote. Not all of it may move. */
TEST_F_TIMEOUT(live_windows, a_store_after_fork, TIMEOUT)
{
	pid_t child;

	begin_move();
	child = fork();
	if (!child)
		_exit(*byte != old);
	ASSERT_LT(0, child);
	*byte = NEW_BYTE;
	EXPECT_TRUE(process_was_fine(child));
	join_move();
	expect_written();
}

/* Pages that are thrown away are zero afterwards, and the rest is as it was. */
TEST_F_TIMEOUT(live_windows, a_part_is_unmapped, TIMEOUT)
{
	size_t half = area.size / 2;

	begin_move();
	ASSERT_EQ(0, madvise(area.addr + half, half, MADV_DONTNEED));
	expect_no_wait();
	join_move();
	for (size_t i = half; i < area.size; i++)
		ASSERT_EQ(0, area.addr[i]);
	EXPECT_EQ(0, memory_verify(area.addr, half, area.seed));
}

static void *store(void *arg)
{
	*(volatile char *)byte = NEW_BYTE;
	return NULL;
}

static void protect_by(int uffd, bool on)
{
	ASSERT_EQ(0, uffd_protect(uffd, area.addr, area.size, on));
}

/* A userfaultfd that protects memory while it is copied gets the write faults after it. */
TEST_F_TIMEOUT(live_windows, userfaultfd_protects, TIMEOUT)
{
	struct pollfd fault = { .fd = uffd_open(area.addr, area.size), .events = POLLIN };
	pthread_t writer;

	if (fault.fd < 0)
		SKIP(return, "no userfaultfd that protects");

	begin_move();
	protect_by(fault.fd, true);
	end_live_move();

	ASSERT_EQ(0, pthread_create(&writer, NULL, store, NULL));
	EXPECT_EQ(1, poll(&fault, 1, 10000));
	protect_by(fault.fd, false);
	ASSERT_EQ(0, pthread_join(writer, NULL));
	expect_written();
	close(fault.fd);
}

/* Without the protection PTEs may be written without a fault, and with it again look clean. */
TEST_F_TIMEOUT(live_windows, uffd_unprotected_written_protected, TIMEOUT)
{
	int uffd = uffd_open(area.addr, area.size);

	if (uffd < 0)
		SKIP(return, "no userfaultfd that protects");

	begin_move();
	protect_by(uffd, true);
	protect_by(uffd, false);
	write_by_reference();
	protect_by(uffd, true);
	expect_no_wait();
	join_move();
	EXPECT_EQ(1, offload_grown("live_written"));
	/* A PMD is one again only without a userfaultfd's protection. */
	EXPECT_EQ(area.folio_size == PMD_SIZE, offload_grown("live_in_pieces"));
	protect_by(uffd, false);
	expect_written();
	close(uffd);
}

/* A device with page tables of its own fills the last page of the area from @buffer. */
static bool device_writes(int device, const char *buffer)
{
	struct hmm_dmirror_cmd command = {
		.addr = (uintptr_t)byte + 1 - memory_page_size(),
		.ptr = (uintptr_t)buffer, .npages = 1,
	};

	return !ioctl(device, HMM_DMIRROR_WRITE, &command) && command.cpages == 1;
}

/* Its entry for the page is writable when the page is write-protected. */
TEST_F_TIMEOUT(live_windows, a_device_writes, TIMEOUT)
{
	const size_t size = memory_page_size();
	char *buffer = malloc(size);
	int device;

	if (module_load("test_hmm", ""))
		SKIP(return, "no test_hmm");
	device = open("/dev/hmm_dmirror0", O_RDWR);
	ASSERT_LE(0, device);
	ASSERT_NE(NULL, buffer);
	memcpy(buffer, byte + 1 - size, size);
	ASSERT_TRUE(device_writes(device, buffer));

	begin_move();
	buffer[size - 1] = NEW_BYTE;
	EXPECT_TRUE(device_writes(device, buffer));
	end_written_move();
	free(buffer);
	close(device);
}

/* UFFDIO_MOVE sleeps while the engine copies, and lets go: it comes first on the mover's CPU. */
TEST_F_TIMEOUT(live_windows, userfaultfd_moves, TIMEOUT)
{
	const struct sched_param first = { .sched_priority = 1 };
	char *to = memory_map_aligned(area.size, PMD_SIZE);
	int uffd = uffd_open(to, area.size);
	struct uffdio_move move;
	size_t moved = 0;
	uint64_t used;

	if (uffd < 0)
		SKIP(return, "no userfaultfd");
	run_on_cpus(0, 0);
	begin_move();
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &first));
	used = nanoseconds_used();
	do {
		move = (struct uffdio_move) {
			.dst = (uintptr_t)to + moved, .src = (uintptr_t)area.addr + moved,
			.len = area.size - moved,
		};
		ioctl(uffd, UFFDIO_MOVE, &move);
		moved += move.move > 0 ? move.move : 0;
		/* The mover may still hold a reference to what it has moved. */
		usleep(1000);
	} while (moved < area.size && (move.move > 0 || move.move == -EBUSY));
	EXPECT_GT(100000000, nanoseconds_used() - used);
	join_move();
	EXPECT_EQ(area_folios(&area), offload_grown("live_copied"));
	EXPECT_EQ(0, memory_verify(to, area.size, area.seed));
	close(uffd);
}

/* A store sets the soft-dirty bit that was cleared while the memory moved. */
static void expect_soft_dirty_store(void)
{
	EXPECT_FALSE(memory_soft_dirty(byte));
	*byte = NEW_BYTE;
	EXPECT_TRUE(memory_soft_dirty(byte));
	expect_written();
}

TEST_F_TIMEOUT(live_windows, soft_dirty_cleared_meanwhile, TIMEOUT)
{
	if (!memory_soft_dirty(byte))
		SKIP(return, "no soft-dirty bits");
	begin_move();
	ASSERT_EQ(0, setting_write("/proc/self/clear_refs", "4"));
	end_live_move();
	expect_soft_dirty_store();
}

/*
 * Memory is unmapped, not copied live, when soft-dirty is cleared. It is clean, as
 * MADV_FREE leaves it: a PMD that is dirty counts as soft-dirty after a migration.
 */
TEST_F_TIMEOUT(live_windows, written_after_soft_dirty_was_cleared, TIMEOUT)
{
	if (!memory_soft_dirty(byte))
		SKIP(return, "no soft-dirty bits");
	ASSERT_EQ(0, offload_set_live(false));
	ASSERT_EQ(0, madvise(area.addr, area.size, MADV_FREE));

	begin_move();
	ASSERT_EQ(0, setting_write("/proc/self/clear_refs", "4"));
	expect_no_wait();
	end_move();
	expect_soft_dirty_store();
}

/* A pipe gets a reference to the first folio after all were counted: GUP-fast needs no lock. */
TEST_F_TIMEOUT(live_windows, a_reference_while_it_is_protected, TIMEOUT)
{
	int ends[2];

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	faults_of_writing();
	begin_move_until("protect");
	hold(ends, area.addr, 1, 1);
	join_move();
	EXPECT_EQ(1, offload_grown("live_declined"));
	EXPECT_EQ(area_folios(&area) - 1, offload_grown("live_copied"));
	let_go(ends);
	EXPECT_EQ(0, faults_of_writing());
	EXPECT_EQ(0, area_wrong(&area));
}

/* One folio was written, and before that is asked for another one is found unwritten. */
TEST_F_TIMEOUT(live_windows, two_movers, TIMEOUT)
{
	struct area other;
	long before;

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	byte = area.addr;
	old = *byte;
	ASSERT_TRUE(area_create(&other, variant->kind, variant->size, nodes[0]));
	begin_move_until("unmap");
	*byte = NEW_BYTE;
	before = delays_reached();
	set_delay("judge", 10 * DELAY);
	set_delay("unmap", 0);
	wait_for_delay(before);
	set_delay("judge", 0);
	EXPECT_EQ(0, area_move(&other, nodes[1]));
	EXPECT_FALSE(move_is_over());

	end_move();
	EXPECT_EQ(1, offload_grown("live_written"));
	expect_written();
	EXPECT_EQ(0, area_wrong(&other));
	area_destroy(&other);
}

/* Stores to the last word all the time, through the TLB of a CPU that does nothing else. */
static struct {
	uint64_t *word;
	uint64_t old, stored, lost;
	bool stop;
	pthread_t thread;
} storer;

static void *store_again(void *arg)
{
	run_on_cpus(1, 1);
	while (!__atomic_load_n(&storer.stop, __ATOMIC_ACQUIRE)) {
		uint64_t value = __atomic_load_n(storer.word, __ATOMIC_RELAXED);

		storer.lost += value != storer.stored;
		storer.stored = value + 1;
		__atomic_store_n(storer.word, storer.stored, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Returns when the other CPU's TLB knows the word's page as writable. */
static void start_storing(void)
{
	run_on_cpus(0, 0);
	storer.word = (uint64_t *)(byte + 1) - 1;
	storer.old = *storer.word;
	storer.stored = storer.old;
	ASSERT_EQ(0, pthread_create(&storer.thread, NULL, store_again, NULL));
	while (__atomic_load_n(storer.word, __ATOMIC_RELAXED) == storer.old)
		usleep(1000);
}

/* Of what was stored nothing is lost, and all else is as it was. */
static void stop_storing(void)
{
	__atomic_store_n(&storer.stop, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(storer.thread, NULL));
	TH_LOG("%llu stores", (unsigned long long)(storer.stored - storer.old));
	EXPECT_EQ(0, storer.lost);
	EXPECT_EQ(storer.stored, *storer.word);
	*storer.word = storer.old;
	EXPECT_EQ(0, area_wrong(&area));
}

static bool permitted;

static void wait_for_permission(int sig)
{
	while (!__atomic_load_n(&permitted, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* PTEs are read-only by then, and so need no change; but another CPU's TLB may be writable. */
TEST_F_TIMEOUT(live_windows, mprotect_before_the_flush, TIMEOUT)
{
	uint64_t stored;

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	signal(SIGSEGV, wait_for_permission);
	start_storing();
	begin_move_until("flush");
	protect(PROT_READ);
	stored = __atomic_load_n(storer.word, __ATOMIC_RELAXED);
	usleep(10000);
	EXPECT_EQ(stored, __atomic_load_n(storer.word, __ATOMIC_RELAXED));
	EXPECT_FALSE(move_is_over());

	protect(PROT_READ | PROT_WRITE);
	__atomic_store_n(&permitted, true, __ATOMIC_RELEASE);
	join_move();
	stop_storing();
}

/* A CPU whose TLB was not flushed stores to where the page was, or without a trace. */
TEST_F_TIMEOUT(live_windows, another_cpu_stores_before_each_step, TIMEOUT)
{
	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	set_latency(1000);
	start_storing();
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++) {
		const long before = delays_reached();

		set_delay(steps[i], DELAY / 10);
		offload_mark();
		EXPECT_EQ(0, area_move(&area, nodes[(i + 1) % 2]));
		EXPECT_EQ(area_folios(&area), offload_grown("live_"));
		EXPECT_LT(before, delays_reached());
		EXPECT_TRUE(area_is_by_pmd(&area));
		set_delay(steps[i], 0);
	}
	stop_storing();
}

TEST_HARNESS_MAIN
