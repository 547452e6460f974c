/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes that move their memory back and forth, one for each kind of memory,
 * and look at all of it after every move.
 */
#ifndef MOVERS_H
#define MOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "area.h"

struct movers_result {
	unsigned long long moves;
	/* Folios that were not on the other node after their move. */
	unsigned long long stayed;
	unsigned long long bytes_wrong;
	/* How often large folios were found split after a move. */
	unsigned long long splits;
	/* Processes that could not do their work. */
	unsigned int failed;
};

/*
 * Returns when all processes have @size bytes each and begin to move them. With @all also
 * memory of a file, if there is a MIG_FILE_DIR, and of hugetlb, if there is room; and
 * move_pages(2) and mbind(2) take turns at random.
 */
bool movers_start(const int nodes[2], size_t size, bool all);
/* Returns when they have moved their memory @moves times, all of them together. */
void movers_wait(uint64_t moves);
/*
 * Waits for all processes, each of which looks at its memory once more. True if all
 * did their work, no byte is wrong, and no folio was split.
 */
bool movers_stop(struct movers_result *result);

#endif /* MOVERS_H */
