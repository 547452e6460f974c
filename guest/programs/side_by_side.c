// SPDX-License-Identifier: GPL-2.0
/*
 * How processors of a guest run side by side: side_by_side <test>. Prints nanoseconds.
 *
 *	threads		1, 2 and 4 threads with the same work: until all have ended, and each one's
 *	pingpong	a store that another processor waits for, with and without PAUSE
 *	timer		how late the median timer is that wakes its processor, and the one that
 *			interrupts it, beside none and beside three busy processors
 *	ipi		an interrupt of 1, 2 and 3 other processors; beside 400, as with threads
 *	accessed	how many accessed bits a second pass over pages sets: those of pages that
 *			have lost their place in the TLB, whose size must not depend on the host
 */
#define _GNU_SOURCE
#include <err.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CPUS 4
#define WORK 10000000L
#define HOPS 2000
#define SLEEP_NS 1000000L
#define ROUNDS 20
#define INTERRUPTS 400
#define PAGES 2048
#define PAGE 4096

static atomic_int turn, waiting, stop;
static long took[CPUS], started;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void on_cpu(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		err(1, "sched_setaffinity");
}

/* Start threads on the processors from @first on, and return when all of them run there. */
static void start(pthread_t *threads, long first, long count, void *(*run)(void *))
{
	started = now();
	atomic_store(&waiting, count);
	atomic_store(&stop, 0);
	for (long i = first; i < first + count; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i))
			errx(1, "pthread_create");
	while (atomic_load(&waiting))
		sched_yield();
}

static void join(pthread_t *threads, long first, long count)
{
	atomic_store(&stop, 1);
	for (long i = first; i < first + count; i++)
		pthread_join(threads[i], NULL);
}

static void *work(void *arg)
{
	long cpu = (long)arg, began;

	on_cpu(cpu);
	atomic_fetch_sub(&waiting, 1);
	while (atomic_load(&waiting))
		;
	began = now();
	for (volatile long i = 0; i < WORK; i++)
		;
	took[cpu] = now() - began;
	return NULL;
}

static void join_and_print(pthread_t *threads, long first, long count)
{
	join(threads, first, count);
	printf(" %ld", now() - started);
	for (long i = first; i < first + count; i++)
		printf(" %ld", took[i]);
	printf("\n");
}

static void *spin(void *arg)
{
	on_cpu((long)arg);
	atomic_fetch_sub(&waiting, 1);
	while (!atomic_load(&stop))
		;
	return NULL;
}

static void pause_cpu(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#else
	__asm__ volatile("yield");
#endif
}

static void *pong(void *arg)
{
	long with_pause = (long)arg > 1;

	on_cpu(1);
	atomic_fetch_sub(&waiting, 1);
	for (int i = 0; i < HOPS; i += 2) {
		while (atomic_load(&turn) != i + 1)
			if (with_pause)
				pause_cpu();
		atomic_store(&turn, i + 2);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[CPUS];

	for (int count = 1; count <= CPUS; count *= 2) {
		start(thread, 0, count, work);
		printf("threads %d", count);
		join_and_print(thread, 0, count);
	}
}

static void pingpong(void)
{
	pthread_t thread[CPUS];

	for (long with_pause = 0; with_pause < 2; with_pause++) {
		long began;

		atomic_store(&turn, 0);
		start(thread, 1 + with_pause, 1, pong);
		began = now();
		for (int i = 0; i < HOPS; i += 2) {
			atomic_store(&turn, i + 1);
			while (atomic_load(&turn) != i + 2)
				if (with_pause)
					pause_cpu();
		}
		printf("pingpong %ld %ld\n", with_pause, (now() - began) / HOPS);
		join(thread, 1 + with_pause, 1);
	}
}

static int compare(const void *first, const void *second)
{
	const long *a = first, *b = second;

	return (*a > *b) - (*a < *b);
}

static long median(long *values, int count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

static long lateness(void)
{
	long late[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		long until = now() + SLEEP_NS;
		struct timespec time = { until / 1000000000L, until % 1000000000L };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		late[i] = now() - until;
	}
	return median(late, ROUNDS);
}

static volatile long rang;

static void ring(int signal)
{
	(void)signal;
	rang = now();
}

/* The same with a processor that is busy until then. */
static long busy_lateness(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	long late[ROUNDS];
	timer_t timer;

	signal(SIGALRM, ring);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		err(1, "timer_create");
	for (int i = 0; i < ROUNDS; i++) {
		long until = now() + SLEEP_NS;
		struct itimerspec time = {
			.it_value = { until / 1000000000L, until % 1000000000L },
		};

		rang = 0;
		timer_settime(timer, TIMER_ABSTIME, &time, NULL);
		while (!rang)
			;
		late[i] = rang - until;
	}
	timer_delete(timer);
	return median(late, ROUNDS);
}

static void timer(void)
{
	pthread_t thread[CPUS];

	prctl(PR_SET_TIMERSLACK, 1UL);
	printf("timer 0 %ld %ld\n", lateness(), busy_lateness());
	start(thread, 1, CPUS - 1, spin);
	printf("timer %d %ld %ld\n", CPUS - 1, lateness(), busy_lateness());
	join(thread, 1, CPUS - 1);
}

static void ipi(void)
{
	pthread_t thread[CPUS];

	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	for (int count = 1; count < CPUS; count++) {
		long began;

		start(thread, 1, count, work);
		began = now();
		for (int i = 0; i < INTERRUPTS; i++)
			if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
				err(1, "membarrier");
		printf("ipi %d %ld", count, (now() - began) / INTERRUPTS);
		join_and_print(thread, 1, count);
	}
}

/* Return the pages of this process that were accessed, or -1; @forget clears their bits. */
static long accessed_pages(bool forget)
{
	FILE *file = fopen(forget ? "/proc/self/clear_refs" : "/proc/self/smaps_rollup",
			   forget ? "w" : "r");
	char line[128];
	long kb = -1;

	if (!file)
		return -1;
	if (forget)
		kb = fputs("1", file) < 0 ? -1 : 0;
	while (!forget && fgets(line, sizeof(line), file))
		if (sscanf(line, "Referenced: %ld", &kb) == 1)
			break;
	return fclose(file) || kb < 0 ? -1 : kb / 4;
}

static void accessed(void)
{
	volatile char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || madvise((void *)area, PAGES * PAGE, MADV_NOHUGEPAGE))
		err(1, "accessed");
	for (int round = 0; round < 2 * ROUNDS; round++) {
		/* A TLB grows at four flushes; the smaller it is, the more of these share entries. */
		long step = round < 4 ? 1 : 16;

		for (volatile long i = 0; i < WORK / 20; i++)
			;
		/* Each call flushes the whole TLB. */
		mprotect((void *)area, PAGES * PAGE, PROT_READ);
		mprotect((void *)area, PAGES * PAGE, PROT_READ | PROT_WRITE);
		for (long i = 0; i < PAGES; i += step)
			area[i * PAGE] = 1;
		if (accessed_pages(true))
			err(1, "clear_refs");
		for (long i = 0; i < PAGES; i += step)
			area[i * PAGE] = 2;
		printf("accessed %d %ld\n", round, accessed_pages(false));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "threads", threads }, { "pingpong", pingpong },
		{ "timer", timer }, { "ipi", ipi }, { "accessed", accessed },
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	on_cpu(0);
	for (unsigned int i = 0; argc == 2 && i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (!strcmp(argv[1], tests[i].name)) {
			tests[i].run();
			return 0;
		}
	}
	fprintf(stderr, "usage: side_by_side threads|pingpong|timer|ipi|accessed\n");
	return 2;
}
