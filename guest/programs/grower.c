// SPDX-License-Identifier: GPL-2.0
/*
 * A heap that grows in huge pages. The memory may be in pieces before: one of two pages of as
 * much memory as there is, and not of huge pages, stays with this program.
 *
 * Usage: grower <MiB in pieces> <MiB to grow>. Says when the memory is full, and when the heap
 * will grow, and waits for a line each time on its standard input. Prints times of pages that
 * were written for the first time.
 */
#include "times.h"

int main(int argc, char **argv)
{
	size_t pieces, pages;
	uint64_t last;
	char *old, *heap, **kept;

	if (argc != 3)
		errx(1, "two arguments");
	pieces = atol(argv[1]) * (MIB / PAGE);
	pages = atol(argv[2]) * (MIB / PAGE);
	kept = malloc(pieces * sizeof(*kept));
	old = map(pieces * PAGE, 0);
	heap = map(pages * PAGE, 1);
	for (size_t i = 0; i < pieces; i++)
		fill(old + i * PAGE);
	wait_after("full");
	/* Which one is random: compaction looks for free pages at multiples of a stride. */
	for (size_t i = 0; i < pieces; i += 2) {
		size_t freed = random_below(2);

		if (madvise(old + (i + freed) * PAGE, PAGE, MADV_DONTNEED))
			err(1, "madvise");
		kept[i / 2] = old + (i + 1 - freed) * PAGE;
	}
	wait_after("in pieces");

	begin_times();
	last = clock_ns(CLOCK_MONOTONIC);
	for (size_t i = 0; i < pages; i++) {
		fill(heap + i * PAGE);
		last = count_time(last);
	}
	end_times();
	for (size_t i = 0; i < pieces / 2; i++)
		check(kept[i]);
	for (size_t i = 0; i < pages; i++)
		check(heap + i * PAGE);
	print_times();
	return 0;
}
