// SPDX-License-Identifier: GPL-2.0
/* The results: a table for people, and JSON. */
#include "measure.h"

#include <dirent.h>
#include <sys/utsname.h>

#include "../migrate_lib/json.h"

#define DCBM_CHANNELS	"/sys/kernel/debug/dcbm/channels"
#define MAX_PROVIDERS	8

/* The kernel's names of the reasons for which it migrates then. */
static const char * const reasons[] = {
	[ADDRESSES_HEADS] = "syscall_or_cpuset", [ADDRESSES_ALL] = "syscall_or_cpuset",
	[ADDRESSES_RANGE] = "mempolicy_mbind", [ADDRESSES_RECLAIM] = "demotion",
	[ADDRESSES_FAULT] = "numa_misplaced", [ADDRESSES_COMPACTION] = "compaction",
	[ADDRESSES_CONTIG] = "contig_range",
};

static void print_us(double ns, bool known)
{
	if (known)
		fprintf(stderr, " %11.1f", ns / 1000);
	else
		fprintf(stderr, " %11s", "-");
}

void print_table_row(const struct result *result, bool first)
{
	const struct latency *latency = &result->latency;
	bool has_first = result->has_latency && latency->first_count;
	bool has_times = result->has_latency && latency->count;

	if (first)
		fprintf(stderr, "%9s %4s %9s %6s %6s %11s %11s %11s\n", "folio KiB", "move",
			"GB/s", "failed", "split", "first us", "p50 us", "max us");
	fprintf(stderr, "%9lu %4u %9.3f %6llu %6lld", result->folio_kib, result->move,
		result->gbps_mean, result->worst.failed, result->worst.split);
	print_us(has_first ? (double)latency->first_sum / latency->first_count : 0, has_first);
	print_us(latency->p50, has_times);
	print_us(latency->max, has_times);
	fputc('\n', stderr);
}

static void json_cpu_model(FILE *out)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256], model[256] = "";

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "model name : %255[^\n]", model) == 1)
			break;
	if (file)
		fclose(file);
	json_string(out, model[0] ? model : NULL);
}

/* All parameters of a module as an object of strings; null without the module. */
static void json_parameters(FILE *out, const char *module)
{
	DIR *parameters = opendir(setting_path("/sys/module/%s/parameters", module));
	const char *comma = "", *path;
	struct dirent *entry;
	char value[256];

	if (!parameters) {
		fputs("null", out);
		return;
	}
	fputc('{', out);
	while ((entry = readdir(parameters))) {
		if (entry->d_name[0] == '.')
			continue;
		path = setting_path("/sys/module/%s/parameters/%s", module, entry->d_name);
		fputs(comma, out);
		comma = ", ";
		json_member(out, entry->d_name,
			    setting_value(path, value, sizeof(value)) ? NULL : value);
	}
	fputc('}', out);
	closedir(parameters);
}

/*
 * DMA drivers whose channels dcbm holds, each once, and how many channels it may use: those
 * that are not quarantined. The second and fourth columns of its file in debugfs say so.
 */
static void json_channels(FILE *out)
{
	FILE *file = fopen(DCBM_CHANNELS, "re");
	char line[256], provider[64], state[32];
	char seen[MAX_PROVIDERS][64];
	unsigned int nr = 0, nr_seen = 0;

	if (!file) {
		fputs("\"providers\": null, \"channels\": null", out);
		return;
	}
	fputs("\"providers\": [", out);
	/* The first line names the columns. */
	while (fgets(line, sizeof(line), file)) {
		unsigned int i = 0;

		if (sscanf(line, "%*s %63s %*d %31s", provider, state) != 2 ||
		    !strcmp(state, "quarantined"))
			continue;
		nr++;
		while (i < nr_seen && strcmp(seen[i], provider))
			i++;
		if (i < nr_seen || nr_seen == MAX_PROVIDERS)
			continue;
		strcpy(seen[nr_seen++], provider);
		fputs(i ? ", " : "", out);
		json_string(out, provider);
	}
	fclose(file);
	fprintf(out, "], \"channels\": %u", nr);
}

static void json_offload(FILE *out, const struct options *options)
{
	long bound = setting_read_number(OFFLOAD_DIR "/max_inaccessible_us");
	long live = setting_read_number(OFFLOAD_DEBUG "/live");
	char migrator[OFFLOAD_ROUTE_SIZE];

	if (offload_get_route(reasons[options->addresses], migrator)) {
		fputs("null", out);
		return;
	}
	/* Without "required". */
	migrator[strcspn(migrator, " ")] = '\0';
	fprintf(out, "{\"enabled\": %s, ", json_bool(offload_enabled()));
	json_member(out, "migrator", migrator);
	fputs(",\n    \"parameters\": ", out);
	json_parameters(out, migrator);
	fputs(",\n    ", out);
	json_channels(out);
	fprintf(out, ", \"live\": %ld, \"max_inaccessible_us\": %ld}", MAX(live, 0), MAX(bound, 0));
}

static void json_machine(FILE *out, const struct options *options, unsigned int nr_nodes)
{
	struct utsname system;

	uname(&system);
	fputs("  \"program\": \"migrate_bench\",\n  ", out);
	json_member(out, "kernel", system.release);
	fprintf(out, ",\n  \"machine\": {\"cpus\": %ld, \"nodes\": %u, \"model\": ",
		sysconf(_SC_NPROCESSORS_ONLN), nr_nodes);
	json_cpu_model(out);
	fprintf(out, "},\n  \"from\": %lu,\n  \"to\": %lu,\n  \"mib\": %lu", options->from,
		options->to, options->mib);
	fprintf(out, ",\n  \"folios_per_call\": %lu", options->folios_per_call);
	fprintf(out, ",\n  \"addresses\": \"%s\"", addresses_names[options->addresses]);
	fprintf(out, ",\n  \"memory\": \"%s\"", memory_names[options->memory]);
	fputs(",\n  \"offload\": ", out);
	json_offload(out, options);
}

/* Begins a member. Its value follows if it is @known, and is null otherwise. */
static bool json_begin(FILE *out, const char *name, bool known)
{
	fprintf(out, ",\n     \"%s\": %s", name, known ? "" : "null");
	return known;
}

static void json_times(FILE *out, const char *name, const struct result *result, size_t offset)
{
	json_begin(out, name, true);
	for (unsigned int i = 0; i < result->nr; i++) {
		const char *sample = (const char *)&result->samples[i];

		fprintf(out, "%s%llu", i ? ", " : "[", *(const __u64 *)(sample + offset));
	}
	fputc(']', out);
}

static void json_latency(FILE *out, const struct result *result)
{
	const struct latency *latency = &result->latency;
	bool has = result->has_latency;

	if (json_begin(out, "first_folio_ns", has && latency->first_count))
		fprintf(out, "%.1f", (double)latency->first_sum / latency->first_count);
	if (json_begin(out, "inaccessible_ns", has && latency->count))
		fprintf(out, "{\"p50\": %llu, \"p99\": %llu, \"max\": %llu, \"count\": %llu}",
			latency->p50, latency->p99, latency->max, latency->count);
	if (json_begin(out, "phases_ns", has)) {
		fprintf(out, "{\"unmap\": %llu, \"flush\": %llu", latency->unmap, latency->flush);
		fprintf(out, ", \"copy\": %llu, \"move\": %llu", latency->copy, latency->move);
		fprintf(out, ", \"batches\": %llu}", latency->batches);
	}
}

static void json_met(FILE *out, const char *name, const struct met *met)
{
	fprintf(out, ", \"%s_ns\": %llu, \"%s_p999_ns\": %llu, \"%s_faults\": %llu", name,
		met->longest, name, met->p999, name, met->faults);
}

static void json_touch(FILE *out, const struct options *options, const struct result *result)
{
	if (!json_begin(out, "touch", options->reads))
		return;
	fprintf(out, "{\"reads_per_s\": %lu, \"writes_per_s\": %lu", options->reads,
		options->writes);
	fprintf(out, ", \"readers\": %lu, \"zipf\": %s", options->readers,
		json_bool(options->zipf));
	json_met(out, "read", &result->worst.read);
	json_met(out, "write", &result->worst.write);
	fprintf(out, ", \"ipis\": %llu, \"copied_twice\": ", result->worst.ipis);
	if (result->worst.twice < 0)
		fputs("null}", out);
	else
		fprintf(out, "%lld}", result->worst.twice);
}

static void json_result(FILE *out, const struct options *options, const struct result *result)
{
	fprintf(out, "    {\"folio_kib\": %lu, \"move\": %u, \"folios\": %llu",
		result->folio_kib, result->move, result->folios);
	fprintf(out, ",\n     \"gbps_mean\": %.6f", result->gbps_mean);
	json_times(out, "elapsed_ns", result, offsetof(struct sample, elapsed));
	json_times(out, "cpu_ns", result, offsetof(struct sample, cpu));
	fprintf(out, ",\n     \"folios_failed\": %llu, \"folios_split\": %lld",
		result->worst.failed, result->worst.split);
	fprintf(out, ", \"latency_lost\": %llu", result->latency.lost);
	json_latency(out, result);
	json_touch(out, options, result);
	if (options->verify)
		fprintf(out, ",\n     \"bytes_verified\": %llu, \"bytes_wrong\": %llu",
			result->bytes_verified, result->bytes_wrong);
	if (makes_huge_pages(options))
		fprintf(out, ",\n     \"huge_pages\": {\"wanted\": %llu, \"got\": %llu}",
			huge_wanted(options), result->worst.huge);
	fputc('}', out);
}

void print_json(FILE *out, const struct options *options, const struct result *results,
		size_t nr, unsigned int nr_nodes)
{
	fputs("{\n", out);
	json_machine(out, options, nr_nodes);
	fputs(",\n  \"runs\": [", out);
	for (size_t i = 0; i < nr; i++) {
		fputs(i ? ",\n" : "\n", out);
		json_result(out, options, &results[i]);
	}
	fputs("\n  ]\n}\n", out);
}
