// SPDX-License-Identifier: GPL-2.0
/* The kernel's own instrument of latencies, in debugfs. */
#include "measure.h"

#define INSTRUMENT_DIR	"/sys/kernel/debug/migrate_latency"
#define MAX_BUCKETS	1024

bool instrument_present(void)
{
	return !access(INSTRUMENT_DIR "/enabled", W_OK);
}

void instrument_enable(bool on)
{
	int err;

	setting_save(INSTRUMENT_DIR "/enabled");
	err = setting_write_number(INSTRUMENT_DIR "/enabled", on);
	if (err)
		errx(1, "cannot write " INSTRUMENT_DIR "/enabled: %s", strerror(-err));
}

static __u64 number_of(const char *path, const char *name)
{
	long number = setting_find_number(path, name);

	if (number < 0)
		errx(1, "%s has no line %s", path, name);
	return number;
}

struct bucket {
	__u64 low, high, count;
};

/* The middle of the bucket that holds the value with @percent of all below or equal. */
static __u64 percentile(const struct bucket *buckets, size_t nr, __u64 count, unsigned int percent)
{
	__u64 rank = (count * percent + 99) / 100, below = 0;

	for (size_t i = 0; i < nr; i++) {
		below += buckets[i].count;
		if (below >= rank)
			return buckets[i].low + (buckets[i].high - buckets[i].low) / 2;
	}
	return 0;
}

static void read_inaccessible(struct latency *latency)
{
	static const char path[] = INSTRUMENT_DIR "/inaccessible";
	static struct bucket buckets[MAX_BUCKETS];
	FILE *file = fopen(path, "re");
	char line[128];
	size_t nr = 0;

	if (!file)
		err(1, "cannot read %s", path);
	latency->count = 0;
	latency->max = number_of(path, "max_ns ");
	while (fgets(line, sizeof(line), file)) {
		struct bucket *bucket = &buckets[nr];

		if (!strncmp(line, "max_ns ", strlen("max_ns ")))
			continue;
		if (nr + 1 == MAX_BUCKETS ||
		    sscanf(line, "%llu %llu %llu", &bucket->low, &bucket->high,
			   &bucket->count) != 3)
			errx(1, "%s is no histogram: '%s'", path, strtok(line, "\n"));
		latency->count += bucket->count;
		nr++;
	}
	fclose(file);
	/* The middle of the last bucket may be above all that is in it. */
	latency->p50 = MIN(percentile(buckets, nr, latency->count, 50), latency->max);
	latency->p99 = MIN(percentile(buckets, nr, latency->count, 99), latency->max);
}

void instrument_read(struct latency *latency)
{
	static const char phases[] = INSTRUMENT_DIR "/phases";
	static const char first_folio[] = INSTRUMENT_DIR "/first_folio";

	*latency = (struct latency) {
		.unmap = number_of(phases, "unmap_ns "), .flush = number_of(phases, "flush_ns "),
		.copy = number_of(phases, "copy_ns "), .move = number_of(phases, "move_ns "),
		.batches = number_of(phases, "batches "), .lost = number_of(phases, "lost "),
		.first_count = number_of(first_folio, "count "),
		.first_sum = number_of(first_folio, "sum_ns "),
	};
	read_inaccessible(latency);
	/* Even if quiet: latencies are not those of all folios then. */
	if (latency->lost)
		fprintf(stderr, "migrate_bench: the instrument lost %llu folios\n", latency->lost);
}
