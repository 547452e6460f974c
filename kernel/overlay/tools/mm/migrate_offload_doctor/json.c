// SPDX-License-Identifier: GPL-2.0
/* The findings for machines. */
#include "doctor.h"
#include "../migrate_lib/json.h"

static const char * const verdicts[] = {
	[USE_IT] = "use it", [DO_NOT] = "do not", [COULD_NOT_TELL] = "could not tell",
};

static const char * const figures[] = {
	[GBPS] = "gbps", [CPU_MS] = "cpu_ms_per_gb", [GBPS_TOUCHED] = "gbps_in_use",
	[CPU_MS_TOUCHED] = "cpu_ms_per_gb_in_use", [WAIT_US] = "wait_us",
};

static void print_member(const char *name, const char *text)
{
	json_member(stdout, name, text);
	printf(", ");
}

static void print_engine(const struct way *way)
{
	const struct engine *engine = way->engine;

	printf("{");
	print_member("driver", engine->driver);
	print_member("iommu", engine->iommu);
	printf("\"channels\": %u, \"for_memory\": %u, \"in_use\": %u, ", engine->nr_channels,
	       engine->for_memory, engine->in_use);
	printf("\"stops\": %s, ", json_bool(engine->stops));
	printf("\"dmatest\": {\"ran\": %s, \"tests\": %lu, \"failures\": %lu}, ",
	       json_bool(engine->tested), engine->tests, engine->failures);
	print_member("why", engine->why);
	printf("\"moved\": %s, \"verdict\": \"%s\"}", json_bool(last_point(way)),
	       verdicts[engine->verdict]);
}

static void print_point(const struct way *way, const struct point *point)
{
	printf("{");
	print_member("migrator", way->migrator);
	if (way->engine)
		print_member("engine", way->engine->driver);
	printf("\"folio_kib\": %zu, \"bound_us\": %ld, \"demoted\": %s, \"live\": %llu, ",
	       point->folio_kib, point->bound_us, json_bool(point->demoted), point->live);
	for (unsigned int i = 0; i < NR_FIGURES; i++) {
		printf("\"%s\": [", figures[i]);
		for (unsigned int move = 0; move < 2 * point->rounds; move++)
			printf("%s%.3f", move ? ", " : "", point->figure[i][move]);
		printf("], ");
	}
	printf("\"bytes\": %zu, \"bytes_wrong\": %zu, ", point->bytes, point->bytes_wrong);
	printf("\"copied\": %llu, \"unreachable\": %llu, ", point->copied, point->unreachable);
	printf("\"errors\": %llu, \"timeouts\": %llu, \"lost\": %llu}", point->errors,
	       point->timeouts, point->lost);
}

void print_json(const struct exam *exam)
{
	const char *comma = "";

	printf("{\"program\": \"migrate-offload-doctor\", \"format\": 3, \"engines\": [");
	for (unsigned int i = ENGINES; i < exam->nr_ways; i++) {
		printf("%s", i > ENGINES ? ", " : "");
		print_engine(&exam->way[i]);
	}
	printf("], \"moves\": [");
	for (unsigned int i = 0; i < exam->nr_ways * NR_POINTS; i++) {
		const struct way *way = &exam->way[i / NR_POINTS];

		if (!way->point[i % NR_POINTS].bytes)
			continue;
		printf("%s", comma);
		print_point(way, &way->point[i % NR_POINTS]);
		comma = ", ";
	}
	printf("], \"nodes\": [%d, %d], ", exam->node[0], exam->node[1]);
	print_member("hindrance", exam->hindrance);
	printf("\"settings\": [");
	for (unsigned int i = 0; i < exam->nr_settings; i++) {
		printf("%s", i ? ", " : "");
		json_string(stdout, exam->setting[i]);
	}
	printf("], \"verdict\": \"%s\"}\n", verdicts[exam->verdict]);
}
