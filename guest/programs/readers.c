// SPDX-License-Identifier: GPL-2.0
/*
 * Threads that read random pages of one memory in open loop: accesses are due at a fixed rate,
 * and the time of each begins when it is due. One of ten writes.
 *
 * Usage: readers 2m|64k|4k <MiB> <threads> <accesses of each> <a second of each> <us>. Says when
 * its memory is filled, and when all is done, and waits for a line each time on its standard input.
 * Prints times of accesses, and how many took longer than <us>.
 */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "times.h"

static char *area;
static uint64_t pages, accesses, every;

static void *use(void *took)
{
	uint64_t *ns = took, seed = (uintptr_t)took, due = clock_ns(CLOCK_MONOTONIC);

	prctl(PR_SET_TIMERSLACK, 1);
	for (uint64_t i = 0; i < accesses; i++, due += every) {
		struct timespec until = { due / 1000000000, due % 1000000000 };
		volatile uint64_t *word;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		seed = seed * 6364136223846793005 + 1442695040888963407;
		word = (uint64_t *)(area + (seed >> 33) % pages * PAGE);
		if ((seed >> 49) % 10)
			(void)*word;
		else
			*word = (uintptr_t)word;
		ns[i] = clock_ns(CLOCK_MONOTONIC) - due;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t threads, *took;
	pthread_t *ids;

	if (argc != 7)
		errx(1, "six arguments");
	pages = atol(argv[2]) * (MIB / PAGE);
	threads = atol(argv[3]);
	accesses = atol(argv[4]);
	every = 1000000000 / atol(argv[5]);
	late = atol(argv[6]) * 1000;
	area = map(pages * PAGE, argv[1][0] != '4');
	/* On the first node, wherever this runs. */
	if (syscall(SYS_set_mempolicy, 1 /* MPOL_PREFERRED */, &(unsigned long){ 1 }, 8))
		err(1, "set_mempolicy");
	for (size_t i = 0; i < pages; i++)
		fill(area + i * PAGE);
	syscall(SYS_set_mempolicy, 0 /* MPOL_DEFAULT */, NULL, 0);
	took = calloc(threads * accesses, sizeof(*took));
	ids = calloc(threads, sizeof(*ids));
	for (size_t i = 0; i < threads * accesses; i++)
		took[i] = 1; /* here, and not when it is measured */
	wait_after("filled");
	begin_times();
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, use, took + i * accesses))
			errx(1, "no thread");
	for (size_t i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	end_times();
	for (size_t i = 0; i < threads * accesses; i++)
		count_ns(took[i]);
	print_times();
	wait_after("done");
	for (size_t i = 0; i < pages; i++)
		check(area + i * PAGE);
	return 0;
}
