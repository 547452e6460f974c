/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The engine made of software (dmasim), or another one, and its migrator (dcbm), as
 * tests load, tune, break and unload them; and what else must stay right meanwhile: the
 * kernel log and the amount of memory in use.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "area.h"
#include "module.h"

#define DMASIM_PARAMETERS "/sys/module/dmasim/parameters/"
#define DCBM_PARAMETERS "/sys/module/dcbm/parameters/"

/* Looks each ms, until the seconds are over. False if @condition was never true. */
#define wait_until(condition, seconds)						\
({										\
	const double end_ = seconds_now() + (seconds);				\
	bool met_;								\
										\
	while (!(met_ = (condition)) && seconds_now() < end_)			\
		usleep(1000);							\
	met_;									\
})

/*
 * The faults of dmasim that dcbm survives, but for terminate_error: that one is for good.
 * Ended by NULL.
 */
extern const char * const engine_faults[];

/* A debug kernel is slow: fewer rounds, longer time-outs. */
bool debug_kernel(void);
/* Whether a time says something: not where other work of the host takes some of it. */
bool times_count(void);

/* The module of the engine: MIG_ENGINE, or dmasim. */
const char *engine_module(void);
bool engine_is(const char *module);
/*
 * Runs MIG_ENGINE_SETUP, if there is such a variable: an engine may have channels only after
 * that command. False if that fails.
 */
bool engine_set_up(void);
/* Loads the module of the engine, and sets it up. 0 or -errno. */
int engine_load_module(const char *parameters);
/* Loads dcbm with @parameters, to use that engine, there already or later. 0 or -errno. */
int engine_load_dcbm(const char *parameters);
/*
 * Loads dmasim with @parameters, no fault on, and dcbm on top, and routes only the
 * reason of move_pages(2) to it, not live and without a bound of time. Another engine
 * than dmasim has no parameters. The settings of the feature were saved before.
 */
bool engine_load(const char *dmasim_parameters, const char *dcbm_parameters);
/* Unloads both, and the other migrators; true also when they were not loaded. */
bool engine_unload(void);
/* Unloads a module that is in use until then, within a minute. 0 or -errno. */
int engine_unload_busy(const char *module);
/* The time that a batch may take. engine_load() sets it to ENGINE_LONG_MS. */
#define ENGINE_LONG_MS	20000
int engine_set_timeout(int ms);
/* Of the kernel's framework for faults, at most @times. 0 or -errno. */
int fault_set(const char *directory, const char *fault, unsigned int percent, long times);
/* Percentage of the occasions at which @fault happens. */
int engine_set_fault(const char *fault, unsigned int probability);
/* How often it happened since then. */
long engine_fault_strikes(const char *fault);
void engine_clear_faults(void);

/* As engine_set_fault(), at every occasion, but only so often. */
int engine_set_fault_times(const char *fault, int times);

#define ENGINE_MAX_CHANNELS	64

/* A channel that dcbm holds, as it says. */
struct engine_channel {
	char name[32];
	char provider[32];
	int node;
	char state[16];
	unsigned long descriptors, bytes, errors, timeouts;
};

/* How many channels dcbm holds; the array has room for ENGINE_MAX_CHANNELS. */
unsigned int engine_channels(struct engine_channel *channels);
/* A channel that a provider offers is taken a moment later. False after 10 s. */
bool engine_wait_for_channels(unsigned int nr);
/* How many descriptors all channels got since dcbm was loaded. */
unsigned long engine_descriptors(void);
/* Waits until they are more than @before; false after 60 s. */
bool engine_wait_until_copying(unsigned long before);
/* How many channels dcbm will not use again. */
unsigned int engine_quarantined(void);

/*
 * Reports of the kernel about itself: warnings, lockdep, sanitizers, oopses. Without
 * them no test says anything: the program fails if they cannot be read.
 */
int kernel_log_open(void);
/*
 * How many lines since kernel_log_open() or the last call are such, but for those that have
 * @meant in them, if it is not NULL; prints them.
 */
size_t kernel_log_bad(int fd, const char *meant);

/*
 * Runs dmatest with @parameters. How many of its tests failed; -1 if it did not run. Waits for
 * the last word of each thread: to dmatest, one that has not begun yet is one that has ended.
 * Unloading it terminates all channels, waits for them, and gives them back.
 */
long engine_dmatest(const char *parameters);
/*
 * Runs dmatest until a test fails, five times at most: a time-out that is short may not strike
 * on a busy host. False if none fails, or dmatest does not run.
 */
bool engine_dmatest_gives_up(const char *parameters);

/*
 * Moves @area back and forth, @moves times in each of several rounds, and looks after
 * each for pages that are neither free nor have an owner that the kernel counts.
 * Returns how many more there are after a round, the median of all rounds, so that other
 * work of the machine in some of them does not count. LONG_MAX if a move fails.
 */
long pages_leaked(struct area *area, const int nodes[2], unsigned int moves);

bool kmemleak_available(void);
/*
 * The number of leaks that kmemleak finds, after two scans; 0, and a line that says so, without
 * kmemleak.
 */
size_t kmemleak_found(void);

/* The state of the machine before a test with a migrator, and after it. */
struct engine_test {
	int nodes[2];
	int log;
	/* Entries of the DMA debugging in use; -1 where there is none. */
	long mappings;
	/* The test makes it impossible to unload the modules. */
	bool stuck;
};

/*
 * Unloads all migrators and engines, and saves the settings. NULL, or why the machine will not do.
 */
const char *engine_test_begin(struct engine_test *test);
/*
 * Unloads all; restores the settings. Returns the number of faults, and prints them: modules
 * that cannot be unloaded, DMA mappings that are left, complaints in the kernel log.
 */
size_t engine_test_end(struct engine_test *test);

#endif /* ENGINE_H */
