/* SPDX-License-Identifier: GPL-2.0 */
/* Threads that use memory while it moves, and find out how long an access takes. */
#ifndef TOUCH_H
#define TOUCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A bucket of its histogram is a 32nd of a power of two wide. */
#define TOUCH_STEPS 32

/* One thread, which touches the first words of pages at random. */
struct toucher {
	char *addr;
	size_t len;
	/* How often in a second; 0: without a pause. */
	uint64_t per_second;
	/* One of this number of accesses is a write; 0: none is. */
	unsigned int write_every;
	/* The last word that it wrote to each page; no other thread writes them. */
	uint64_t *written;
	/* Not 0: of real-time priority, so that it waits for memory, and not for a processor. */
	int priority;
	/* Not 0: which pages it chooses. */
	uint64_t random;
	/* Few pages get most accesses: the n-th of them about 1/n of those that the first gets. */
	bool zipf;

	pthread_t thread;
	bool stop;
	/* Page faults that it met. */
	uint64_t faults;
	/* The longest that an access took, in ns, and how many took how long. */
	uint64_t longest;
	uint32_t taken[60 * TOUCH_STEPS];
};

/* xorshift; @state is not 0, and does not become 0. */
uint64_t random_number(uint64_t *state);
/* 0, or an error of pthread_create(). */
int toucher_start(struct toucher *toucher);
void toucher_stop(struct toucher *toucher);
/* The ns that one of a thousand accesses took longer than, within the width of a bucket. */
uint64_t toucher_p999(const struct toucher *toucher);
/* How many pages have not what was written last. */
size_t toucher_lost(const struct toucher *toucher);

#endif /* TOUCH_H */
