// SPDX-License-Identifier: GPL-2.0
/*
 * Reads pages of its memory in open loop, 999 of 1000 in a hot set: an eighth of the memory, and
 * the next eighth when its time is over. It begins in the middle, and ends when each was hot three
 * times: how much of one hot set is promoted in time is chance.
 *
 * Usage: hot_reader 2m|64k|4k <MiB> <ms for a hot set> <reads a second> <us>. Says when its memory
 * is filled, waits for a line on its standard input, and prints times of reads since they were due,
 * how many took longer than <us>, and which share of a hot set was on node 0 when that was over.
 */
#include <sys/syscall.h>
#include <unistd.h>
#include "times.h"

#define MAX_PAGES	(1 << 20)
#define PARTS		8
#define HOT_SETS	(3 * PARTS)

static uint64_t on_first_node(char *from, size_t pages)
{
	static void *addresses[MAX_PAGES];
	static int nodes[MAX_PAGES];
	uint64_t count = 0;

	for (size_t i = 0; i < pages; i++)
		addresses[i] = from + i * PAGE;
	if (syscall(SYS_move_pages, 0, pages, addresses, NULL, nodes, 0))
		err(1, "move_pages");
	for (size_t i = 0; i < pages; i++)
		count += nodes[i] == 0;
	return count;
}

int main(int argc, char **argv)
{
	uint64_t near = 0, due, every, until;
	size_t pages, hot, page;
	char *area;

	if (argc != 6)
		errx(1, "five arguments");
	pages = atol(argv[2]) * (MIB / PAGE);
	hot = pages / PARTS;
	every = 1000000000 / atol(argv[4]);
	late = atol(argv[5]) * 1000;
	area = map(pages * PAGE, *argv[1] != '4');
	for (page = 0; page < pages; page++)
		fill(area + page * PAGE);
	wait_after("filled");

	for (int set = 0; set < HOT_SETS; set++) {
		size_t first = (PARTS / 2 + set) % PARTS * hot;

		begin_times();
		due = clock_ns(CLOCK_MONOTONIC);
		for (until = due + atol(argv[3]) * 1000000; due < until; due += every) {
			while (clock_ns(CLOCK_MONOTONIC) < due)
				;
			page = random_below(1000) ? first + random_below(hot) : random_below(pages);
			check(area + page * PAGE);
			count_time(due);
		}
		end_times();
		near += on_first_node(area + first * PAGE, hot);
	}
	print_times();
	printf("near: %.4f\n", near / ((double)HOT_SETS * hot));
	return 0;
}
