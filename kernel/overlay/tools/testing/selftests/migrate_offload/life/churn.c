// SPDX-License-Identifier: GPL-2.0
/*
 * Memory is on the move all the time while a migrator comes and goes, routes and what
 * they promise change, and the whole feature is switched on and off. With dcbm, the
 * engine changes too, and with dmasim it has faults of every kind.
 *
 * usage: churn [SECONDS [MODULE MIGRATOR [PARAMETERS]]]
 * CHURN_SEED chooses what is done; 1 if it is not set.
 */
#include "kselftest.h"
#include "engine.h"
#include "memory.h"
#include "movers.h"
#include "offload.h"

#define DEFAULT_SECONDS	40
#define ENOUGH_COPIED	1000	/* folios, by migrators */

/* Why the movers' memory moves. */
static const char * const reasons[] = { "syscall_or_cpuset", "mempolicy_mbind" };

static const char *module = "dcbm", *migrator = "dcbm", *parameters;

/* Actions that are done again and again. */
enum thing {
	LOADS, UNLOADS, UNLOADS_BUSY, ENGINE_CHANGES, ROUTES, ROUTES_GONE, PROMISES, FAULTS,
	SWITCHES, ERRORS, NR_THINGS
};

static const char * const names[NR_THINGS] = {
	"loads", "unloads", "unloads refused as busy", "other engines", "routes set",
	"routes to a migrator that was not there", "promises changed", "faults", "switches",
	"errors",
};

static unsigned int done[NR_THINGS];

static void must(const char *what, int err)
{
	if (!err)
		return;
	ksft_print_msg("%s: %s\n", what, strerror(-err));
	done[ERRORS]++;
}

static void bring_engine(void)
{
	static const char * const engines[] = {
		"channels=1 ring_depth=4", "channels=4", "channels=2 latency_ns=200000",
		"channels=8 ring_depth=16 latency_ns=20000",
	};
	const char *engine = engine_module();

	/* No migrator holds the engine now. */
	if (!(random() % 4) && module_loaded(engine)) {
		must("unload the engine", module_unload(engine));
		done[ENGINE_CHANGES]++;
	}
	if (!module_loaded(engine))
		must("load the engine",
		     module_load(engine, strcmp(engine, "dmasim") ? "" : engines[random() % 4]));
}

static void bring_in(void)
{
	if (!strcmp(module, "dcbm")) {
		bring_engine();
		must("load dcbm",
		     engine_load_dcbm(random() % 2 ? "min_order=0" : "min_order=0 channels=1"));
	} else {
		must("load the migrator", module_load(module, parameters));
	}
	done[LOADS]++;
}

/* A migrator that is always in use goes when its routes have gone. */
static void take_away(void)
{
	int err = module_unload(module);

	if (err == -EAGAIN && ++done[UNLOADS_BUSY] % 8)
		return;
	if (err == -EAGAIN) {
		must("end the routes", offload_route_only(NULL, "none"));
		err = engine_unload_busy(module);
	}
	must("unload the migrator", err);
	done[UNLOADS]++;
}

static void change_route(void)
{
	const char * const migrators[] = { "cpu", migrator, migrator, migrator, "none" };
	unsigned int reason = 0;
	int err;

	/* A reason that the movers have, or any other. */
	while (offload_reasons[reason + 1] && random() % 8)
		reason++;
	err = offload_set_route(random() % 2 ? reasons[random() % ARRAY_SIZE(reasons)] :
				offload_reasons[reason], migrators[random() % 5]);
	done[err == -ENOENT ? ROUTES_GONE : ROUTES]++;
	must("route", err == -ENOENT ? 0 : err);
}

/* The promises of a route of the movers: a bound, its migrator or none, and live copies. */
static void change_promise(void)
{
	static const unsigned int bounds[] = { 0, 1, 20, 100, 500, 1000000 };
	const char *reason = reasons[random() % ARRAY_SIZE(reasons)];

	switch (random() % 3) {
	case 0:
		must("bound", offload_set_bound(bounds[random() % ARRAY_SIZE(bounds)]));
		break;
	case 1:
		must("required", offload_set_required(reason, random() % 2));
		break;
	default:
		must("live", offload_set_live(random() % 2));
		break;
	}
	done[PROMISES]++;
}

/* Half of the time there is none. A channel that hangs is of no use until dcbm goes. */
static void change_fault(void)
{
	unsigned int nr = 0;

	if (!module_loaded("dmasim"))
		return;
	engine_clear_faults();
	if (random() % 2)
		return;
	while (engine_faults[nr])
		nr++;
	must("fault", engine_set_fault(engine_faults[random() % nr], 1 + random() % 50));
	done[FAULTS]++;
}

static void set_switch(bool on)
{
	must("switch", offload_set_enabled(on));
	done[SWITCHES]++;
}

static void one_change(void)
{
	const unsigned int choice = random() % 16;

	if (choice < 2 && module_loaded(module))
		take_away();
	else if (choice < 2)
		bring_in();
	else if (choice < 5)
		set_switch(choice > 2);
	else if (choice < 9)
		change_promise();
	else if (choice < 11)
		change_fault();
	else
		change_route();
}

static void show_done(void)
{
	for (unsigned int i = 0; i < NR_THINGS; i++)
		ksft_print_msg("%u %s\n", done[i], names[i]);
}

static bool enough_changes(double seconds)
{
	/* A slow machine does in minutes what others do in a few seconds. */
	const double most = seconds > DEFAULT_SECONDS ? DEFAULT_SECONDS : seconds;
	const bool faulty = engine_is("dmasim") && !strcmp(module, "dcbm");

	return done[LOADS] > 2 + most / 12 && done[UNLOADS] > 2 + most / 12 &&
	       done[ROUTES] > 10 + most && done[SWITCHES] > 5 + most / 2 &&
	       done[PROMISES] > 10 + most && (!faulty || done[FAULTS] > 2 + most / 12);
}

int main(int argc, char **argv)
{
	const double seconds = argc > 1 ? atoi(argv[1]) : DEFAULT_SECONDS;
	const char *seed = getenv("CHURN_SEED") ?: "1";
	const double begin = seconds_now();
	double shown_at = begin;
	struct engine_test test = { 0 };
	unsigned long long moves, copied;
	const char *missing;
	bool ok;

	ksft_print_header();
	if (argc > 3) {
		module = argv[2];
		migrator = argv[3];
		parameters = argc > 4 ? argv[4] : "";
	}
	missing = engine_test_begin(&test);
	if (missing)
		ksft_exit_skip("%s\n", missing);
	ksft_set_plan(6);

	ksft_print_msg("seed %s\n", seed);
	srandom(atoi(seed));
	if (!movers_start(test.nodes, 4 * MIB, true))
		ksft_exit_fail_msg("no memory to move\n");

	offload_mark();
	/* A slow machine gets more time. */
	while (seconds_now() < begin + seconds ||
	       ((!enough_changes(seconds) || offload_grown("folios_copied") <= ENOUGH_COPIED) &&
		seconds_now() < begin + 4 * seconds + 60)) {
		one_change();
		usleep(random() % 20000);
		/* A long run shows that it is alive. */
		if (seconds_now() > shown_at + 60) {
			shown_at = seconds_now();
			show_done();
		}
	}
	ok = movers_stop(&moves);
	copied = offload_grown("folios_copied");

	show_done();
	ksft_print_msg("%llu moves of areas, %llu folios copied by a migrator\n", moves, copied);

	ksft_test_result(ok, "contents\n");
	ksft_test_result(!done[ERRORS], "every_change_accepted\n");
	ksft_test_result(!memory_isolated(test.nodes), "nothing_isolated\n");
	ksft_test_result(moves > 20 && copied > ENOUGH_COPIED && enough_changes(seconds),
			 "enough_of_everything\n");
	ksft_test_result(wait_until(engine_unload(), 1) && !engine_test_end(&test),
			 "unloaded_without_complaint\n");
	if (kmemleak_available())
		ksft_test_result(!kmemleak_found(), "no_leak\n");
	else
		ksft_test_result_skip("no_leak: no kmemleak\n");
	ksft_finished();
}
