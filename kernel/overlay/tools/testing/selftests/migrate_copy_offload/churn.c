// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is on the move all the time while migrators come and go, routes change
 * and the whole feature is switched on and off.
 *
 * usage: churn [SECONDS]
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest.h"
#include "area.h"
#include "engine.h"
#include "memory.h"
#include "movers.h"
#include "offload.h"

#define DEFAULT_SECONDS	40

/* How often each thing was done. */
static struct {
	unsigned int loads;
	unsigned int unloads;
	unsigned int unloads_busy;
	unsigned int engine_changes;
	unsigned int routes;
	unsigned int routes_gone;
	unsigned int switches;
	unsigned int errors;
} done;

static void must(const char *what, int err)
{
	if (!err)
		return;
	ksft_print_msg("%s: %s\n", what, strerror(-err));
	done.errors++;
}

static void bring_in(void)
{
	static const char * const engines[] = {
		"channels=1 ring_depth=4", "channels=4", "channels=2 latency_ns=200000",
		"channels=8 ring_depth=16 bandwidth_mbps=500",
	};

	const char *engine = engine_module();
	const char *parameters = strcmp(engine, "dmasim") ? "" : engines[random() % 4];

	/* Now and then another engine, which only works when nobody has the old one. */
	if (!(random() % 4) && module_loaded(engine)) {
		must("unload the engine", module_unload(engine));
		done.engine_changes++;
	}
	if (!module_loaded(engine))
		must("load the engine", module_load(engine, parameters));
	must("load dcbm", module_load("dcbm", random() % 2 ? "" : "channels=1"));
	done.loads++;
}

static void take_away(void)
{
	int err = module_unload("dcbm");

	if (err == -EAGAIN) {
		done.unloads_busy++;
		return;
	}
	must("unload dcbm", err);
	done.unloads++;
}

static void change_route(void)
{
	static const char * const migrators[] = { "cpu", "dcbm", "dcbm", "dcbm", "none" };
	unsigned int reason = 0;
	int err;

	/* The reason that the movers have, or any other. */
	while (offload_reasons[reason + 1] && random() % 8)
		reason++;
	err = offload_set_route(random() % 2 ? "syscall_or_cpuset" : offload_reasons[reason],
				migrators[random() % 5]);
	if (err == -ENOENT) {
		done.routes_gone++;
		return;
	}
	must("route", err);
	done.routes++;
}

static void one_change(void)
{
	switch (random() % 10) {
	case 0:
	case 1:
		if (module_loaded("dcbm"))
			take_away();
		else
			bring_in();
		break;
	case 2:
		must("switch", offload_set_enabled(false));
		done.switches++;
		break;
	case 3:
	case 4:
		must("switch", offload_set_enabled(true));
		done.switches++;
		break;
	default:
		change_route();
		break;
	}
}

static bool unload_all(void)
{
	int tries;

	for (tries = 0; tries < 100; tries++) {
		if (engine_unload())
			return true;
		usleep(10000);
	}
	return false;
}

static bool enough_changes(void)
{
	return done.loads > 5 && done.unloads > 5 && done.routes > 50 && done.switches > 20;
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atoi(argv[1]) : DEFAULT_SECONDS;
	const double begin = seconds_now();
	struct offload_stats before, after;
	struct movers_result result;
	uint64_t engine_folios;
	int nodes[2], log;
	long mappings;
	bool unloaded;

	ksft_print_header();
	if (!offload_available())
		ksft_exit_skip("no %s\n", OFFLOAD_DIR);
	if (!memory_two_nodes(&nodes[0], &nodes[1]))
		ksft_exit_skip("needs two nodes with memory\n");
	ksft_set_plan(6);

	log = kernel_log_open();
	mappings = dma_mappings();
	offload_save();
	area_settings_save();
	srandom(1);
	if (!movers_start(nodes, 4 * MIB))
		ksft_exit_fail_msg("no memory to move\n");

	offload_read_stats(&before);
	/* A machine that is slow gets more time. */
	while (seconds_now() < begin + seconds ||
	       (!enough_changes() && seconds_now() < begin + 4 * seconds)) {
		one_change();
		usleep(random() % 20000);
	}
	movers_stop(&result);
	offload_read_stats(&after);
	engine_folios = offload_growth(&before, &after, "folios_copied");

	ksft_print_msg("%u loads, %u unloads, %u unloads refused as busy, %u other engines\n",
		       done.loads, done.unloads, done.unloads_busy, done.engine_changes);
	ksft_print_msg("%u routes set, %u to a migrator that was not there, %u switches\n",
		       done.routes, done.routes_gone, done.switches);
	ksft_print_msg("%llu moves of areas, %llu folios stayed, %llu copied by a migrator\n",
		       (unsigned long long)result.moves, (unsigned long long)result.stayed,
		       (unsigned long long)engine_folios);

	ksft_test_result(!result.failed && !result.bytes_wrong, "contents\n");
	ksft_test_result(!done.errors, "every_change_accepted\n");
	ksft_test_result(result.moves > 20 && engine_folios > 1000 && enough_changes(),
			 "enough_of_everything\n");
	unloaded = unload_all();
	ksft_test_result(unloaded && dma_mappings() == mappings, "all_unloaded\n");
	settings_restore();
	ksft_test_result(!kernel_log_bad(log), "kernel_log\n");
	ksft_test_result(!kmemleak_found(), "no_leak\n");
	ksft_finished();
}
