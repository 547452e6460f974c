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

/*
 * Returns when all processes have @size bytes each and begin to move them. With @all also
 * memory of a file, if there is a MIG_FILE_DIR, and of hugetlb, if there is room; and
 * move_pages(2) and mbind(2) take turns at random.
 */
bool movers_start(const int nodes[2], size_t size, bool all);
/* Returns when they have moved their memory @moves times, all of them together. */
void movers_wait(uint64_t moves);
/*
 * Waits for all processes, each of which looks at its memory once more, and prints how often
 * it moved. True if all did their work, no byte is wrong, and no folio was split.
 */
bool movers_stop(unsigned long long *moves);

#endif /* MOVERS_H */
