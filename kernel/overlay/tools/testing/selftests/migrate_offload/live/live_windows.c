// SPDX-License-Identifier: GPL-2.0
/*
 * An engine takes its time to copy memory that is mapped. Meanwhile the memory is
 * written in every way that leaves little to see, and protected again. Each write must
 * be in the memory after the move, and must not have waited for the engine.
 *
 * A kernel with CONFIG_MIGRATE_LIVE_DELAY also waits before each step of a live copy.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "../../../../../lib/test_hmm_uapi.h"
#include "kselftest_harness.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "offload.h"

#define TIMEOUT		300
#define REASON		"syscall_or_cpuset"

/* A descriptor takes that many ns: a call that waits for none returns before one has ended. */
#define LATENCY		"1000000000"
#define NEW_BYTE	0x5a

/* The delays of the steps, in us. */
#define DELAYS		"/sys/kernel/debug/migrate_live_delay/"
#define DELAY		600000L

/* The first chunks of a move have so much, if the engine is slow; a descriptor has a segment. */
#define CHUNK		PMD_SIZE
#define SEGMENT		(64 * KIB)
#define CHANNELS	4

FIXTURE(live_windows)
{
	struct engine_test test;
	struct area area;
	pthread_t mover;
	long missing;
	bool moved;
};

FIXTURE_VARIANT(live_windows)
{
	enum area_kind kind;
	size_t size;
};

FIXTURE_VARIANT_ADD(live_windows, anon_4k) { AREA_ANON_4K, 16 * KIB };
FIXTURE_VARIANT_ADD(live_windows, anon_64k) { AREA_ANON_64K, 256 * KIB };
FIXTURE_VARIANT_ADD(live_windows, anon_2m) { AREA_ANON_2M, 2 * MIB };

FIXTURE_SETUP(live_windows)
{
	const char *missing = engine_test_begin(&self->test);

	if (missing)
		SKIP(return, "%s", missing);
	ASSERT_TRUE(engine_load("channels=4 ring_depth=64 latency_ns=" LATENCY, ""));
	ASSERT_EQ(0, offload_set_live(true));
	ASSERT_TRUE(area_create(&self->area, variant->kind, variant->size, self->test.nodes[0]));
}

static const char * const steps[] = {
	"protect", "flush", "unmap", "judge", "group_flush", "move",
};

static void set_delay(struct __test_metadata *_metadata, const char *step, long us)
{
	char path[128];

	snprintf(path, sizeof(path), DELAYS "%s", step);
	ASSERT_EQ(0, setting_write_number(path, us));
}

FIXTURE_TEARDOWN(live_windows)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(steps) && !access(DELAYS, F_OK); i++)
		set_delay(_metadata, steps[i], 0);
	area_destroy(&self->area);
	EXPECT_EQ(engine_test_end(&self->test), 0);
}

static void *move_area(void *arg)
{
	FIXTURE_DATA(live_windows) *self = arg;

	self->missing = area_move(&self->area, self->test.nodes[1]);
	__atomic_store_n(&self->moved, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Returns when the engine copies. */
static void begin_move(struct __test_metadata *_metadata,
		       FIXTURE_DATA(live_windows) *self)
{
	ASSERT_TRUE(engine_begin_move(&self->mover, move_area, self));
}

static void nobody_waited(struct __test_metadata *_metadata)
{
	EXPECT_EQ(0, offload_grown("batches"));
}

/* How many delays have begun. */
static long delays_reached(void)
{
	return setting_read_number(DELAYS "reached");
}

/* Returns when a move has reached @nr delays more than @before, or is over. */
static void wait_for_delay(FIXTURE_DATA(live_windows) *self, long before, long nr)
{
	while (delays_reached() < before + nr &&
	       !__atomic_load_n(&self->moved, __ATOMIC_ACQUIRE))
		usleep(1000);
}

/* Returns when a move waits before @step; the engine takes no time. */
static void begin_move_until(struct __test_metadata *_metadata,
			     FIXTURE_DATA(live_windows) *self, const char *step)
{
	const long before = delays_reached();

	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 1000));
	set_delay(_metadata, step, DELAY);
	offload_mark();
	ASSERT_EQ(0, pthread_create(&self->mover, NULL, move_area, self));
	wait_for_delay(self, before, 1);
	ASSERT_EQ(before + 1, delays_reached());
}

/* A byte of the last page has been written, and nothing else. */
static void end_move(struct __test_metadata *_metadata,
		     FIXTURE_DATA(live_windows) *self, char *byte, char old)
{
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	ASSERT_EQ(0, mprotect(self->area.addr, self->area.size, PROT_READ | PROT_WRITE));
	EXPECT_EQ(NEW_BYTE, *byte);
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
	EXPECT_EQ(1, offload_grown("live_written"));
	EXPECT_EQ(area_folios(&self->area) - 1, offload_grown("live_copied"));
}

static char *last_byte(const struct area *area)
{
	return area->addr + area->size - 1;
}

static void protect(struct __test_metadata *_metadata, const struct area *area,
		    int protection)
{
	ASSERT_EQ(0, mprotect(area->addr, area->size, protection));
}

/* The kernel writes through a reference that it drops at once. */
static void write_by_reference(struct __test_metadata *_metadata, char *byte)
{
	char value = NEW_BYTE;
	struct iovec from = { &value, 1 }, to = { byte, 1 };

	ASSERT_EQ(1, process_vm_writev(getpid(), &from, 1, &to, 1, 0));
}

/*
 * Fork a debugger, which writes @word to @addr when *@go is set. It needs no write
 * permission, and waits for the folio lock afterwards. It has no copy of the area, whose
 * pages stay exclusive.
 */
static pid_t fork_debugger(const struct area *area, long *addr, long word,
			   volatile bool *go)
{
	const pid_t target = getpid();
	pid_t child;
	bool fine;

	if (madvise(area->addr, area->size, MADV_DONTFORK))
		return -1;
	child = fork();
	if (child)
		return child;

	while (!*go)
		usleep(1000);
	fine = !ptrace(PTRACE_ATTACH, target, NULL, NULL) &&
	       waitpid(target, NULL, __WALL) == target &&
	       !ptrace(PTRACE_POKEDATA, target, addr, (void *)word);
	ptrace(PTRACE_DETACH, target, NULL, NULL);
	_exit(!fine);
}

TEST_F_TIMEOUT(live_windows, nobody_writes, TIMEOUT)
{
	begin_move(_metadata, self);
	EXPECT_EQ(0, area_wrong(&self->area));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_copied"));
	EXPECT_EQ(0, area_wrong(&self->area));
}

TEST_F_TIMEOUT(live_windows, a_store, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	begin_move(_metadata, self);
	*byte = NEW_BYTE;
	nobody_waited(_metadata);
	end_move(_metadata, self, byte, old);
}

TEST_F_TIMEOUT(live_windows, a_store_protected_again, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	begin_move(_metadata, self);
	*byte = NEW_BYTE;
	protect(_metadata, &self->area, PROT_READ);
	nobody_waited(_metadata);
	end_move(_metadata, self, byte, old);
}

static struct area guarded;
static volatile bool refused;

static void refuse(int sig)
{
	refused = true;
	mprotect(guarded.addr, guarded.size, PROT_READ | PROT_WRITE);
}

/* The move gives back only what the mapping allows by then. */
TEST_F_TIMEOUT(live_windows, protected_for_good, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	begin_move(_metadata, self);
	protect(_metadata, &self->area, PROT_READ);
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_copied"));

	guarded = self->area;
	signal(SIGSEGV, refuse);
	*(volatile char *)byte = NEW_BYTE;
	EXPECT_TRUE(refused);
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* mprotect() makes PTEs writable without a fault. */
TEST_F_TIMEOUT(live_windows, a_reference_between_two_mprotect, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	begin_move(_metadata, self);
	protect(_metadata, &self->area, PROT_READ);
	protect(_metadata, &self->area, PROT_READ | PROT_WRITE);
	write_by_reference(_metadata, byte);
	protect(_metadata, &self->area, PROT_READ);
	nobody_waited(_metadata);
	end_move(_metadata, self, byte, old);
}

TEST_F_TIMEOUT(live_windows, a_debugger_while_not_writable, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;
	long *addr = (long *)(byte + 1) - 1, word = *addr;
	volatile bool *go;
	pid_t debugger;
	int status;

	((char *)&word)[sizeof(word) - 1] = NEW_BYTE;
	go = mmap(NULL, sizeof(*go), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, go);
	debugger = fork_debugger(&self->area, addr, word, go);
	ASSERT_LT(0, debugger);

	begin_move(_metadata, self);
	protect(_metadata, &self->area, PROT_READ);
	*go = true;
	ASSERT_EQ(debugger, waitpid(debugger, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	/* While it waited its reference kept the folio where it was. */
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	protect(_metadata, &self->area, PROT_READ | PROT_WRITE);
	EXPECT_EQ(NEW_BYTE, *byte);
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* MADV_FREE takes dirty bits away, though not those of a folio that is locked. */
TEST_F_TIMEOUT(live_windows, lazily_freed_meanwhile, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	begin_move(_metadata, self);
	*byte = NEW_BYTE;
	ASSERT_EQ(0, madvise(self->area.addr, self->area.size, MADV_FREE));
	protect(_metadata, &self->area, PROT_READ);
	nobody_waited(_metadata);
	end_move(_metadata, self, byte, old);
}

/*
 * Two chunks of three are locked. Of the third, isolated as they are, MADV_FREE takes all
 * dirty bits, and would take those of writes to come.
 */
TEST_F_TIMEOUT(live_windows, lazily_freed_before_it_is_protected, TIMEOUT)
{
	size_t folios, descriptors;

	area_destroy(&self->area);
	ASSERT_TRUE(area_create(&self->area, variant->kind, 3 * CHUNK, self->test.nodes[0]));
	folios = area_folios(&self->area);
	descriptors = self->area.folio_size < SEGMENT ? folios / 3 : CHUNK / SEGMENT;
	/* The channels need a second for a chunk. */
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns",
					  1000000000L * CHANNELS / descriptors));
	begin_move(_metadata, self);
	ASSERT_EQ(0, madvise(self->area.addr + 2 * CHUNK, CHUNK, MADV_FREE));
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(folios / 3 * 2, offload_grown("live_copied"));
	EXPECT_EQ(folios / 3, offload_grown("live_declined"));
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* The child sees it as well. Not all of it may move. */
TEST_F_TIMEOUT(live_windows, a_store_before_fork, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte, nothing;
	int ends[2], status;
	pid_t child;

	ASSERT_EQ(0, pipe(ends));
	begin_move(_metadata, self);
	*byte = NEW_BYTE;
	child = fork();
	if (!child) {
		close(ends[1]);
		/* Until the parent's end is closed as well. */
		_exit(read(ends[0], &nothing, 1) || *byte != NEW_BYTE);
	}
	ASSERT_LT(0, child);
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	close(ends[1]);
	EXPECT_EQ(NEW_BYTE, *byte);
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_written"));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	close(ends[0]);
}

/* The child keeps what was there, the parent what it wrote. Not all of it may move. */
TEST_F_TIMEOUT(live_windows, a_store_after_fork, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;
	int status;
	pid_t child;

	begin_move(_metadata, self);
	child = fork();
	if (!child)
		_exit(*byte != old);
	ASSERT_LT(0, child);
	*byte = NEW_BYTE;
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFEXITED(status) && !WEXITSTATUS(status));
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(NEW_BYTE, *byte);
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* What is thrown away is zero afterwards, and the rest is as it was. */
TEST_F_TIMEOUT(live_windows, a_part_is_unmapped, TIMEOUT)
{
	size_t half = self->area.size / 2;

	begin_move(_metadata, self);
	ASSERT_EQ(0, madvise(self->area.addr + half, half, MADV_DONTNEED));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	for (size_t i = half; i < self->area.size; i++)
		ASSERT_EQ(0, self->area.addr[i]);
	EXPECT_EQ(0, memory_verify(self->area.addr, half, self->area.seed));
}

static void *store(void *arg)
{
	*(volatile char *)arg = NEW_BYTE;
	return NULL;
}

static int protect_by(int uffd, const struct area *area, bool on)
{
	return uffd_protect(uffd, area->addr, area->size, on);
}

/* A userfaultfd that protects memory while it is copied gets the write faults after it. */
TEST_F_TIMEOUT(live_windows, userfaultfd_protects, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;
	struct pollfd fault = { .events = POLLIN };
	pthread_t writer;

	fault.fd = uffd_open(self->area.addr, self->area.size);
	if (fault.fd < 0)
		SKIP(return, "no userfaultfd that protects");

	begin_move(_metadata, self);
	ASSERT_EQ(0, protect_by(fault.fd, &self->area, true));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_copied"));

	ASSERT_EQ(0, pthread_create(&writer, NULL, store, byte));
	EXPECT_EQ(1, poll(&fault, 1, 10000));
	ASSERT_EQ(0, protect_by(fault.fd, &self->area, false));
	ASSERT_EQ(0, pthread_join(writer, NULL));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
	close(fault.fd);
}

/* Without the protection PTEs may be written without a fault, and with it again look clean. */
TEST_F_TIMEOUT(live_windows, uffd_unprotected_written_protected, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;
	int uffd = uffd_open(self->area.addr, self->area.size);

	if (uffd < 0)
		SKIP(return, "no userfaultfd that protects");

	begin_move(_metadata, self);
	ASSERT_EQ(0, protect_by(uffd, &self->area, true));
	ASSERT_EQ(0, protect_by(uffd, &self->area, false));
	write_by_reference(_metadata, byte);
	ASSERT_EQ(0, protect_by(uffd, &self->area, true));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(NEW_BYTE, *byte);
	EXPECT_EQ(1, offload_grown("live_written"));
	ASSERT_EQ(0, protect_by(uffd, &self->area, false));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
	close(uffd);
}

/* A device with page tables of its own fills the last page of @area from @buffer. */
static bool device_writes(int device, const struct area *area, const char *buffer)
{
	struct hmm_dmirror_cmd command = {
		.addr = (uintptr_t)area->addr + area->size - memory_page_size(),
		.ptr = (uintptr_t)buffer,
		.npages = 1,
	};

	return !ioctl(device, HMM_DMIRROR_WRITE, &command) && command.cpages == 1;
}

/* Its entry for the page is writable when the page is write-protected. */
TEST_F_TIMEOUT(live_windows, a_device_writes, TIMEOUT)
{
	const size_t size = memory_page_size();
	char *byte = last_byte(&self->area), old = *byte;
	char *buffer = malloc(size);
	int device;

	if (module_load("test_hmm", ""))
		SKIP(return, "no test_hmm");
	device = open("/dev/hmm_dmirror0", O_RDWR);
	ASSERT_LE(0, device);
	ASSERT_NE(NULL, buffer);
	memcpy(buffer, byte + 1 - size, size);
	ASSERT_TRUE(device_writes(device, &self->area, buffer));

	begin_move(_metadata, self);
	buffer[size - 1] = NEW_BYTE;
	EXPECT_TRUE(device_writes(device, &self->area, buffer));
	nobody_waited(_metadata);
	end_move(_metadata, self, byte, old);
	free(buffer);
	close(device);
}

TEST_F_TIMEOUT(live_windows, soft_dirty_cleared_meanwhile, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	if (!memory_soft_dirty(byte))
		SKIP(return, "no soft-dirty bits");
	begin_move(_metadata, self);
	ASSERT_EQ(0, setting_write("/proc/self/clear_refs", "4"));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_EQ(area_folios(&self->area), offload_grown("live_copied"));
	EXPECT_FALSE(memory_soft_dirty(byte));
	*byte = NEW_BYTE;
	EXPECT_TRUE(memory_soft_dirty(byte));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
}

/*
 * Memory is unmapped, not copied live, when soft-dirty is cleared. It is clean, as
 * MADV_FREE leaves it: a PMD that is dirty counts as soft-dirty after a migration.
 */
TEST_F_TIMEOUT(live_windows, written_after_soft_dirty_was_cleared, TIMEOUT)
{
	char *byte = last_byte(&self->area), old = *byte;

	if (!memory_soft_dirty(byte))
		SKIP(return, "no soft-dirty bits");
	ASSERT_EQ(0, offload_set_live(false));
	ASSERT_EQ(0, madvise(self->area.addr, self->area.size, MADV_FREE));

	begin_move(_metadata, self);
	ASSERT_EQ(0, setting_write("/proc/self/clear_refs", "4"));
	nobody_waited(_metadata);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_FALSE(memory_soft_dirty(byte));
	*byte = NEW_BYTE;
	EXPECT_TRUE(memory_soft_dirty(byte));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* A pipe gets a reference to the first folio after all were counted: GUP-fast needs no lock. */
TEST_F_TIMEOUT(live_windows, a_reference_while_it_is_protected, TIMEOUT)
{
	struct iovec word = { self->area.addr, sizeof(long) };
	int ends[2];

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	ASSERT_EQ(0, pipe(ends));
	begin_move_until(_metadata, self, "protect");
	ASSERT_EQ((ssize_t)sizeof(long), vmsplice(ends[1], &word, 1, 0));
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(1, offload_grown("live_declined_references"));
	EXPECT_EQ(area_folios(&self->area) - 1, offload_grown("live_copied"));
	close(ends[0]);
	close(ends[1]);
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* One folio was written, and before anyone asks another one is found unwritten. */
TEST_F_TIMEOUT(live_windows, two_movers, TIMEOUT)
{
	char *byte = self->area.addr, old = *byte;
	struct area other;
	long before;

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	ASSERT_TRUE(area_create(&other, variant->kind, variant->size, self->test.nodes[0]));
	begin_move_until(_metadata, self, "unmap");
	*byte = NEW_BYTE;
	before = delays_reached();
	set_delay(_metadata, "judge", 10 * DELAY);
	set_delay(_metadata, "unmap", 0);
	wait_for_delay(self, before, 1);
	set_delay(_metadata, "judge", 0);
	EXPECT_EQ(0, area_move(&other, self->test.nodes[1]));
	EXPECT_FALSE(__atomic_load_n(&self->moved, __ATOMIC_ACQUIRE));

	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	EXPECT_EQ(0, self->missing);
	EXPECT_EQ(NEW_BYTE, *byte);
	EXPECT_EQ(1, offload_grown("live_written"));
	*byte = old;
	EXPECT_EQ(0, area_wrong(&self->area));
	EXPECT_EQ(0, area_wrong(&other));
	area_destroy(&other);
}

/* Stores to a word all the time, through the TLB of a CPU that does nothing else. */
struct storer {
	uint64_t *word;
	uint64_t old;
	uint64_t stored;
	uint64_t lost;
	bool stop;
	pthread_t thread;
};

static void *store_again(void *arg)
{
	struct storer *storer = arg;

	run_on_cpus(1, 1);
	while (!__atomic_load_n(&storer->stop, __ATOMIC_ACQUIRE)) {
		uint64_t found = __atomic_load_n(storer->word, __ATOMIC_RELAXED);

		storer->lost += found != storer->stored;
		storer->stored = found + 1;
		__atomic_store_n(storer->word, storer->stored, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Returns when the other CPU's TLB knows the word's page as writable. */
static void start_storing(struct __test_metadata *_metadata, struct storer *storer)
{
	storer->old = *storer->word;
	storer->stored = storer->old;
	ASSERT_EQ(0, pthread_create(&storer->thread, NULL, store_again, storer));
	while (__atomic_load_n(storer->word, __ATOMIC_RELAXED) == storer->old)
		usleep(1000);
}

/* Of what was stored nothing is lost; the word is what it was before. */
static void stop_storing(struct __test_metadata *_metadata, struct storer *storer)
{
	__atomic_store_n(&storer->stop, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(storer->thread, NULL));
	TH_LOG("%llu stores", (unsigned long long)(storer->stored - storer->old));
	EXPECT_EQ(0, storer->lost);
	EXPECT_EQ(storer->stored, *storer->word);
	*storer->word = storer->old;
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
	struct storer storer = { .word = (uint64_t *)(last_byte(&self->area) + 1) - 1 };
	uint64_t stored;

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	signal(SIGSEGV, wait_for_permission);
	run_on_cpus(0, 0);
	start_storing(_metadata, &storer);
	begin_move_until(_metadata, self, "flush");
	protect(_metadata, &self->area, PROT_READ);
	stored = __atomic_load_n(storer.word, __ATOMIC_RELAXED);
	usleep(10000);
	EXPECT_EQ(stored, __atomic_load_n(storer.word, __ATOMIC_RELAXED));
	EXPECT_FALSE(__atomic_load_n(&self->moved, __ATOMIC_ACQUIRE));

	protect(_metadata, &self->area, PROT_READ | PROT_WRITE);
	__atomic_store_n(&permitted, true, __ATOMIC_RELEASE);
	ASSERT_EQ(0, pthread_join(self->mover, NULL));
	stop_storing(_metadata, &storer);
	EXPECT_EQ(0, area_wrong(&self->area));
}

/* A CPU whose TLB nobody has flushed stores to where the page was, or without a trace. */
TEST_F_TIMEOUT(live_windows, another_cpu_stores_before_each_step, TIMEOUT)
{
	struct storer storer = { .word = (uint64_t *)(last_byte(&self->area) + 1) - 1 };

	if (access(DELAYS, F_OK))
		SKIP(return, "no " DELAYS);
	ASSERT_EQ(0, setting_write_number(DMASIM_PARAMETERS "latency_ns", 1000));
	run_on_cpus(0, 0);
	start_storing(_metadata, &storer);
	for (unsigned int i = 0; i < ARRAY_SIZE(steps); i++) {
		const long before = delays_reached();

		set_delay(_metadata, steps[i], DELAY / 10);
		offload_mark();
		EXPECT_EQ(0, area_move(&self->area, self->test.nodes[(i + 1) % 2]));
		EXPECT_EQ(area_folios(&self->area), offload_grown("live_"));
		EXPECT_LT(before, delays_reached());
		set_delay(_metadata, steps[i], 0);
	}

	stop_storing(_metadata, &storer);
	EXPECT_EQ(0, area_wrong(&self->area));
}

TEST_HARNESS_MAIN
