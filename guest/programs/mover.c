// SPDX-License-Identifier: GPL-2.0
/*
 * Moves all memory of a process, or of all processes of a name, to the other node, and the next
 * time back: a move each <us>, as long as /run/moving is there. A late move begins at once.
 *
 * Usage: mover <us> <process|name>. Prints how many there were, and the seconds they took.
 */
#include <dirent.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "times.h"

static int has_name(const char *process, const char *name)
{
	char path[300], comm[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/comm", process);
	file = fopen(path, "r");
	if (!file)
		return 0;
	if (!fgets(comm, sizeof(comm), file))
		comm[0] = 0;
	fclose(file);
	comm[strcspn(comm, "\n")] = 0;
	return !strcmp(comm, name);
}

/* Some processes end meanwhile. */
static void move(const char *name, unsigned long from, unsigned long to)
{
	DIR *all = opendir("/proc");
	struct dirent *entry;

	if (atoi(name))
		syscall(SYS_migrate_pages, atoi(name), 8, &from, &to);
	while (!atoi(name) && all && (entry = readdir(all)))
		if (atoi(entry->d_name) && has_name(entry->d_name, name))
			syscall(SYS_migrate_pages, atoi(entry->d_name), 8, &from, &to);
	closedir(all);
}

int main(int argc, char **argv)
{
	uint64_t due = clock_ns(CLOCK_MONOTONIC), busy = 0, moves, began;

	if (argc != 3)
		errx(1, "two arguments");
	for (moves = 0; !access("/run/moving", F_OK); moves++) {
		struct timespec until = { due / 1000000000, due % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
		if (access("/run/moving", F_OK))
			break; /* no load would meet this move */
		began = clock_ns(CLOCK_MONOTONIC);
		move(argv[2], 1 + moves % 2, 2 - moves % 2);
		busy += clock_ns(CLOCK_MONOTONIC) - began;
		due += atol(argv[1]) * 1000;
	}
	printf("%lu %g\n", moves, busy / 1e9);
	return 0;
}
