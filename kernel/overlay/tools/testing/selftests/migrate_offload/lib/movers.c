// SPDX-License-Identifier: GPL-2.0
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/mempolicy.h>

#include "memory.h"
#include "movers.h"
#include "setting.h"

/* Written by one process each, read by all. */
struct mover {
	bool ready;
	unsigned long long moves, bytes_wrong;
	/* Folios that were not on the other node after their move, and how often any were split. */
	unsigned long long stayed, splits;
};

static struct shared {
	bool stop;
	struct mover movers[NR_ALL_AREA_KINDS];
} *shared;

static pid_t pids[NR_ALL_AREA_KINDS];

static int mover_run(struct mover *mover, unsigned int kind, const int nodes[2],
		     size_t size, bool all)
{
	struct area area = { 0 };
	long stayed;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!area_create(&area, kind, size, nodes[0]))
		return 1;
	__atomic_store_n(&mover->ready, true, __ATOMIC_RELEASE);

	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED)) {
		const int node = nodes[(mover->moves + 1) % 2];

		stayed = all && random() % 2 ? area_bind(&area, node, MPOL_MF_MOVE) :
					      area_move(&area, node);
		if (stayed < 0) {
			printf("# %s: cannot move: error %ld\n", area_kind_names[kind], stayed);
			return 1;
		}
		mover->stayed += stayed;
		mover->bytes_wrong += area_wrong(&area);
		if (area.folio_size > memory_page_size())
			mover->splits += !area_is_whole(&area);
		mover->moves++;
		/* New contents, so that a late write of an old copy would show. */
		if (mover->moves % 2)
			area_stamp(&area, mover->moves * NR_ALL_AREA_KINDS + kind);
	}
	mover->bytes_wrong += area_wrong(&area);
	area_destroy(&area);
	return 0;
}

/* Whether there are files, or hugetlb folios. Their settings are restored when the program ends. */
static bool present(unsigned int kind, const int nodes[2], size_t size)
{
	if (kind == AREA_FILE)
		return getenv("MIG_FILE_DIR");
	return hugetlb_reserve(PMD_SIZE, nodes[0], size / PMD_SIZE) &&
	       hugetlb_reserve(PMD_SIZE, nodes[1], size / PMD_SIZE);
}

bool movers_start(const int nodes[2], size_t size, bool all)
{
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return false;

	for (unsigned int kind = 0; kind < NR_ALL_AREA_KINDS; kind++) {
		struct mover *mover = &shared->movers[kind];

		pids[kind] = 0;
		if (kind >= NR_AREA_KINDS && (!all || !present(kind, nodes, size)))
			continue;
		fflush(stdout);
		pids[kind] = fork();
		if (!pids[kind]) {
			status = mover_run(mover, kind, nodes, size, all);
			fflush(stdout);
			_exit(status);
		}
		/* One at a time: how folios are allocated is set for the whole machine. */
		while (!__atomic_load_n(&mover->ready, __ATOMIC_ACQUIRE)) {
			if (waitpid(pids[kind], &status, WNOHANG) == pids[kind]) {
				pids[kind] = 0;
				return false;
			}
			usleep(1000);
		}
	}
	return true;
}

void movers_wait(uint64_t moves)
{
	uint64_t done;
	unsigned int kind;

	do {
		usleep(10000);
		for (done = 0, kind = 0; kind < NR_ALL_AREA_KINDS; kind++)
			done += __atomic_load_n(&shared->movers[kind].moves, __ATOMIC_RELAXED);
	} while (done < moves);
}

bool movers_stop(unsigned long long *moves)
{
	bool right = true;
	int status;

	*moves = 0;
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELAXED);
	for (unsigned int kind = 0; kind < NR_ALL_AREA_KINDS; kind++) {
		struct mover *mover = &shared->movers[kind];

		if (kind >= NR_AREA_KINDS && !pids[kind])
			continue;
		if (pids[kind] <= 0 || waitpid(pids[kind], &status, 0) < 0 || status)
			right = false;
		printf("# %s: %llu moves, %llu folios stayed, %llu bytes wrong, split %llu times\n",
		       area_kind_names[kind], mover->moves, mover->stayed, mover->bytes_wrong,
		       mover->splits);
		*moves += mover->moves;
		right &= !mover->bytes_wrong && !mover->splits;
	}
	munmap(shared, sizeof(*shared));
	return right;
}
