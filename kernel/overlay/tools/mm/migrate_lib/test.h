/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For programs of selftests. kselftest_harness.h runs each test in a process of its own: the
 * memory of a test, and the test itself, are variables of its program.
 */
#ifndef TEST_H
#define TEST_H

#include "kselftest_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/mempolicy.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "memory.h"
#include "setting.h"

/* The test that this process runs: EXPECT_EQ() and the like need its name in helpers. */
static struct __test_metadata *_metadata;
/* The first two nodes that have memory. */
static int nodes[2];

static void __attribute__((constructor)) save_memory_settings(void)
{
	memory_settings_save();
}

/*
 * Settings are as they were before the program, and only the test moves its memory. False, with
 * the reason why the test is skipped, if the machine has no two nodes.
 */
static inline bool test_begin(struct __test_metadata *metadata)
{
	_metadata = metadata;
	settings_restore();
	if (memory_nodes(nodes, 2) < 2)
		SKIP(return false, "needs two nodes with memory");
	setting_write(NUMA_BALANCING, "0");
	return true;
}

/* Ends a process that fork() made, unless @pid is 0. */
static inline void end_process(pid_t pid)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* Whether a process ended without a complaint. */
static inline bool process_was_fine(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && !status;
}

/* A pipe takes a reference to a page in @step bytes, so that no folio can move until let_go(). */
static inline void hold(int ends[2], char *addr, size_t len, size_t step)
{
	ASSERT_EQ(0, pipe(ends));
	for (size_t i = 0; i < len; i += step) {
		struct iovec word = { addr + i, sizeof(long) };

		ASSERT_EQ((ssize_t)sizeof(long), vmsplice(ends[1], &word, 1, 0));
	}
}

static inline void let_go(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* A process with the memory of the test, which answers each time that it is asked. */
struct child {
	pid_t pid;
	int question, answer;
};

/* The answer is how much is wrong, as the child finds it. */
static inline void fork_child(struct child *child, size_t (*find_wrong)(void))
{
	int question[2], answer[2];
	size_t wrong;
	char byte;

	ASSERT_EQ(0, pipe(question));
	ASSERT_EQ(0, pipe(answer));
	fflush(stdout);
	child->pid = fork();
	ASSERT_LE(0, child->pid);
	child->question = question[1];
	child->answer = answer[0];
	close(question[!child->pid]);
	close(answer[!!child->pid]);
	if (child->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(question[0], &byte, 1) == 1) {
		wrong = find_wrong();
		if (write(answer[1], &wrong, sizeof(wrong)) != sizeof(wrong))
			break;
	}
	_exit(0);
}

/* The answer of a child, SIZE_MAX if it has died. */
static inline size_t ask_child(const struct child *child)
{
	size_t wrong;

	if (write(child->question, "?", 1) != 1 ||
	    read(child->answer, &wrong, sizeof(wrong)) != sizeof(wrong))
		return SIZE_MAX;
	return wrong;
}

#endif /* TEST_H */
