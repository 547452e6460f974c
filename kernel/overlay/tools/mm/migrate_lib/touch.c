// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
#include <sys/resource.h>

#include "memory.h"
#include "touch.h"

/* A thread that touches more pages a second touches several each time that it wakes up. */
#define MAX_WAKEUPS	20000
/* A thread that touches more takes the time of several accesses together. */
#define MAX_TIMES	2000000
/* Scatters the pages that are used most. */
#define PRIME		2654435761ULL
/* Without a pause, the accesses from one look at the stop flag to the next. */
#define BURST		16

uint64_t random_number(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void count_time(struct toucher *toucher, uint64_t ns)
{
	unsigned int shift = ns < TOUCH_STEPS ? 0 : 58 - __builtin_clzll(ns);

	toucher->taken[shift * TOUCH_STEPS + (ns >> shift)]++;
	if (ns > toucher->longest)
		toucher->longest = ns;
}

/* Touches that it has no time for are left out: a stall is no reason for a burst. */
static void *touch_pages(void *arg)
{
	struct toucher *toucher = arg;
	const uint64_t per_second = toucher->per_second;
	const size_t page_size = memory_page_size(), pages = toucher->len / page_size;
	const uint64_t burst = per_second ? (per_second + MAX_WAKEUPS - 1) / MAX_WAKEUPS : BURST;
	const uint64_t interval = per_second ? burst * NSEC_PER_SEC / per_second : 0;
	const unsigned int together = 1 + per_second / MAX_TIMES;
	const unsigned int bits = 64 - __builtin_clzll(pages);
	uint64_t due = nanoseconds_now(), random = toucher->random;
	unsigned int until_write = 1;
	struct rusage usage;

	while (!__atomic_load_n(&toucher->stop, __ATOMIC_RELAXED)) {
		uint64_t now, last = nanoseconds_now();
		struct timespec wake;

		for (uint64_t i = 0; i < burst; i++) {
			size_t page = random_number(&random) % pages;
			uint64_t *word;

			if (toucher->zipf)
				page = (page >> (random >> 32) % bits) * PRIME % pages;
			word = (uint64_t *)(toucher->addr + page * page_size);
			if (!toucher->write_every || --until_write) {
				__atomic_load_n(word, __ATOMIC_RELAXED);
			} else {
				until_write = toucher->write_every;
				__atomic_store_n(word, random, __ATOMIC_RELAXED);
				toucher->written[page] = random;
			}
			if ((i + 1) % together && i + 1 < burst)
				continue;
			now = nanoseconds_now();
			count_time(toucher, now - last);
			last = now;
		}
		if (!interval)
			continue;
		due += ((last - due) / interval + 1) * interval;
		wake.tv_sec = due / NSEC_PER_SEC;
		wake.tv_nsec = due % NSEC_PER_SEC;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
	}
	getrusage(RUSAGE_THREAD, &usage);
	toucher->faults = usage.ru_minflt + usage.ru_majflt;
	return NULL;
}

int toucher_start(struct toucher *toucher)
{
	struct sched_param param = { .sched_priority = toucher->priority };
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	if (toucher->priority) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
		pthread_attr_setschedparam(&attr, &param);
	}
	err = pthread_create(&toucher->thread, &attr, touch_pages, toucher);
	pthread_attr_destroy(&attr);
	return err;
}

void toucher_stop(struct toucher *toucher)
{
	__atomic_store_n(&toucher->stop, true, __ATOMIC_RELAXED);
	pthread_join(toucher->thread, NULL);
}

uint64_t toucher_p999(const struct toucher *toucher)
{
	uint64_t left = 0, i, shift;

	for (i = 0; i < 60 * TOUCH_STEPS; i++)
		left += toucher->taken[i];
	left /= 1000;
	while (i-- > 1 && left >= toucher->taken[i])
		left -= toucher->taken[i];
	shift = i < 2 * TOUCH_STEPS ? 0 : i / TOUCH_STEPS - 1;
	return (i - shift * TOUCH_STEPS) << shift;
}

size_t toucher_lost(const struct toucher *toucher)
{
	const size_t page_size = memory_page_size();
	size_t lost = 0;

	for (size_t i = 0; i < toucher->len / page_size; i++)
		lost += toucher->written[i] &&
			toucher->written[i] != *(uint64_t *)(toucher->addr + i * page_size);
	return lost;
}
