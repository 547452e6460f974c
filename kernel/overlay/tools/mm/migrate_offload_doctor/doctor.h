/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the parts of migrate-offload-doctor. main.c remembers all settings, lets a child
 * examine the machine, and puts everything back: engines.c finds the engines, dmatest.c and
 * move.c test them, verdict.c judges in words, json.c prints JSON; all tell say.c of progress.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../migrate_lib/memory.h"
#include "../migrate_lib/module.h"
#include "../migrate_lib/offload.h"

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

#define DCBM_DIR	"/sys/module/dcbm/parameters"
#define REASON		"syscall_or_cpuset"
#define DEMOTION	"demotion"
#define BOUND		OFFLOAD_DIR "/max_inaccessible_us"

#define MAX_ENGINES	16
#define MAX_CHANNELS	256
/* From a page on each is four times the one before, and the last 2 MB. */
#define NR_SIZES	6
/* 2 MB again, not live, with bounds on how long memory is inaccessible; demotion of 64 KB, 2 MB. */
enum { BOUNDS = NR_SIZES, DEMOTIONS = BOUNDS + 3, NR_POINTS = DEMOTIONS + 2 };
/* All ways take turns, so that a noisy moment does not decide. */
#define ROUNDS		3
/* There and back; of demotion, twice there. */
#define SAMPLES		(2 * ROUNDS)

/* Six, and one for each reason. */
#define MAX_SETTINGS	(6 + 5)

enum verdict { USE_IT, DO_NOT, COULD_NOT_TELL };

struct options {
	size_t size;
	unsigned int iterations;
	/* The driver that the administrator answers for, or NULL. */
	const char *engine;
	/* From which node to which memory moves; two that are the same: the doctor finds two. */
	int node[2];
	bool json, quiet;
	/* Also while others use the processors. */
	bool force;
};

/* All channels of one driver. */
struct engine {
	char driver[32];
	char iommu[16];
	char channel[MAX_CHANNELS][24];
	unsigned int nr_channels;
	/* Channels that another client has. */
	unsigned int in_use;
	/* dcbm told what follows. */
	bool described;
	/* Channels that dcbm gets: the others do not copy memory, or are in use. */
	unsigned int for_memory;
	/* Its driver can tell whether the engine has stopped. */
	bool stops;

	/* dmatest. */
	bool tested;
	unsigned long tests;
	unsigned long failures;
	char complaint[160];

	enum verdict verdict;
	char why[400];
};

/*
 * GB/s, and ms of processor time of the thread that moves for each GB: of memory at rest, and
 * while a thread reads and writes it; and the longest that this one waits. Cold memory is demoted:
 * no thread touches it.
 */
enum figure { GBPS, CPU_MS, GBPS_TOUCHED, CPU_MS_TOUCHED, WAIT_US, NR_FIGURES };

/* One way, with folios of one size; without any of these if rounds are 0. */
struct point {
	size_t folio_kib;
	long bound_us;
	bool demoted;
	unsigned int rounds;
	double figure[NR_FIGURES][SAMPLES];
	size_t bytes;
	size_t bytes_wrong;
	unsigned long long copied, live, errors, timeouts, lost, unreachable;
};

/* How memory is moved: by the kernel without copy offload, by mtcopy, by dcbm with an engine. */
enum { KERNEL, MTCOPY, ENGINES };

struct way {
	const char *migrator;
	struct engine *engine;
	char name[48];
	struct point point[NR_POINTS];
};

/* All findings about the machine. */
struct exam {
	const struct options *options;
	struct engine engine[MAX_ENGINES];
	unsigned int nr_engines;
	int node[2];
	/* Of the machine; -1 if the kernel has none. */
	long bound_us;
	double seconds;
	struct way way[ENGINES + MAX_ENGINES];
	unsigned int nr_ways;
	bool moved;
	/* Why something could not be examined, or "". */
	char hindrance[200];
	/* The way to use, or NULL, and from which folio size on. */
	const struct way *best;
	size_t best_kib;
	/* Commands for a shell, which make the machine use it. */
	char setting[MAX_SETTINGS][100];
	unsigned int nr_settings;
	enum verdict verdict;
};

/* say.c: nothing is said if it must be quiet, and of hindrances only the first is kept. */
void progress(const struct exam *exam, const char *format, ...);
/* Returns false. */
bool hinder(struct exam *exam, const char *format, ...);

/* engines.c */
void find_engines(struct exam *exam);
/* 0 or -errno: memory that move_pages(2) moves, or reclaim demotes, is copied so. */
int set_way(const struct way *way);

/* dmatest.c: false if it cannot run, with the reason as the hindrance. */
bool run_dmatest(struct exam *exam, struct engine *engine);

/* move.c: an engine that makes a mistake is not used any more. */
bool node_exists(int node);
bool find_nodes(struct exam *exam);
void move_memory(struct exam *exam);

/* verdict.c */
void list_ways(struct exam *exam);
bool point_is_wrong(const struct point *point);
/* Of its largest folios; NULL if nothing has moved so. */
const struct point *last_point(const struct way *way);
void judge(struct exam *exam);
void print_words(const struct exam *exam);

/* json.c */
void print_json(const struct exam *exam);

#endif /* DOCTOR_H */
