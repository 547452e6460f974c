// SPDX-License-Identifier: GPL-2.0
/*
 * The module of a migrator comes and goes while several processes migrate.
 *
 * usage: migrator_churn MODULE MIGRATOR [SECONDS [PARAMETERS]]
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

#define DEFAULT_SECONDS	10

static unsigned int loads, unloads, unloads_busy, errors;

static void must(const char *what, int err)
{
	if (!err)
		return;
	ksft_print_msg("%s: %s\n", what, strerror(-err));
	errors++;
}

static void come(const char *module, const char *migrator, const char *parameters)
{
	must("load", module_load(module, parameters));
	loads++;
	must("route", offload_route_only("syscall_or_cpuset", migrator));
}

static void go(const char *module)
{
	int err = module_unload(module);

	/* Refused while it has a batch: its route, then, is as it was. */
	if (err == -EAGAIN) {
		unloads_busy++;
		return;
	}
	must("unload", err);
	unloads++;
}

int main(int argc, char **argv)
{
	const char *parameters = argc > 4 ? argv[4] : "";
	struct offload_stats before, after;
	struct movers_result result;
	uint64_t copied;
	int nodes[2], log, tries;
	double end;

	ksft_print_header();
	if (argc < 3)
		ksft_exit_fail_msg("usage: %s MODULE MIGRATOR [SECONDS [PARAMETERS]]\n",
				   argv[0]);
	if (!offload_available())
		ksft_exit_skip("no %s\n", OFFLOAD_DIR);
	if (!memory_two_nodes(&nodes[0], &nodes[1]))
		ksft_exit_skip("needs two nodes with memory\n");
	ksft_set_plan(6);

	log = kernel_log_open();
	offload_save();
	area_settings_save();
	srandom(1);
	if (module_loaded(argv[1]))
		must("unload", module_unload(argv[1]));
	must("switch", offload_set_enabled(true));
	if (!movers_start(nodes, 4 * MIB))
		ksft_exit_fail_msg("no memory to move\n");

	end = seconds_now() + (argc > 3 ? atoi(argv[3]) : DEFAULT_SECONDS);
	offload_read_stats(&before);
	while (seconds_now() < end) {
		if (module_loaded(argv[1]))
			go(argv[1]);
		else
			come(argv[1], argv[2], parameters);
		usleep(random() % 100000);
	}
	movers_stop(&result);
	offload_read_stats(&after);
	copied = offload_growth(&before, &after, "folios_copied");

	ksft_print_msg("%u loads, %u unloads, %u unloads refused as busy\n", loads,
		       unloads, unloads_busy);
	ksft_print_msg("%llu moves of areas, %llu folios stayed, %llu copied\n",
		       (unsigned long long)result.moves, (unsigned long long)result.stayed,
		       (unsigned long long)copied);
	ksft_test_result(!result.failed && !result.bytes_wrong, "contents\n");
	ksft_test_result(!errors, "every_change_accepted\n");
	ksft_test_result(result.moves > 10 && copied > 500 && unloads > 3,
			 "enough_of_everything\n");

	for (tries = 0; tries < 100 && module_loaded(argv[1]); tries++) {
		module_unload(argv[1]);
		usleep(10000);
	}
	ksft_test_result(!module_loaded(argv[1]), "unloaded\n");
	settings_restore();
	ksft_test_result(!kernel_log_bad(log), "kernel_log\n");
	ksft_test_result(!kmemleak_found(), "no_leak\n");
	ksft_finished();
}
