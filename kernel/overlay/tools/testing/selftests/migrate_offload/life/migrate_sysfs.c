// SPDX-License-Identifier: GPL-2.0
/*
 * The files in /sys/kernel/mm/migrate_offload, and those in debugfs: their defaults, what
 * they accept and what they refuse.
 */
#include "run.h"

#define BOUND OFFLOAD_DIR "/max_inaccessible_us"

FIXTURE(migrate_sysfs) { };

/* The value that was read last. */
static char value[OFFLOAD_ROUTE_SIZE];

FIXTURE_SETUP(migrate_sysfs)
{
	settings_restore();
	if (!offload_available())
		SKIP(return, "no " OFFLOAD_DIR);
}

FIXTURE_TEARDOWN(migrate_sysfs) { settings_restore(); }

static void expect_route(struct __test_metadata *_metadata, const char *reason, const char *route)
{
	EXPECT_EQ(0, offload_get_route(reason, value));
	EXPECT_STREQ(route, value) TH_LOG("reason %s", reason);
}

/* The caller may have changed the settings; MIG_DEFAULTS=1 says that it has not. */
TEST_F(migrate_sysfs, defaults)
{
	const char *untouched = getenv("MIG_DEFAULTS");

	if (!untouched || *untouched != '1')
		SKIP(return, "MIG_DEFAULTS is not set");
	EXPECT_EQ(0, setting_read(OFFLOAD_DIR "/enabled", value, sizeof(value)));
	EXPECT_STREQ("0", value);
	EXPECT_EQ(100, setting_read_number(BOUND));
	EXPECT_EQ(100, setting_read_number(OFFLOAD_DEBUG "/timeout_ms"));
	EXPECT_EQ(1, setting_read_number(OFFLOAD_DEBUG "/live"));
	for (unsigned int i = 0; offload_reasons[i]; i++)
		expect_route(_metadata, offload_reasons[i], "none");
}

/* A test gives back the settings that it saved. */
TEST_F(migrate_sysfs, restored_as_it_was)
{
	ASSERT_EQ(0, offload_set_route("damon", "cpu required"));
	/* The process that the program began as remembers the settings as it found them. */
	settings_forget();
	offload_save();
	ASSERT_EQ(0, offload_set_route("damon", "none"));
	settings_restore();
	expect_route(_metadata, "damon", "cpu required");
}

/* A file that is empty becomes so again: sysfs does not notice that nothing is written. */
TEST_F(migrate_sysfs, restored_to_nothing)
{
	static const char device[] = "/sys/module/dmatest/parameters/device";

	if (module_load("dmatest", ""))
		SKIP(return, "no dmatest");
	settings_forget();
	setting_save(device);
	setting_write(device, "dma0");
	settings_restore();
	EXPECT_EQ(0, setting_read(device, value, sizeof(value)));
	EXPECT_STREQ("", value);
	module_unload("dmatest");
}

TEST_F(migrate_sysfs, enabled_accepts_0_and_1)
{
	static const char * const written[] = { "1", "0", "1\n", "0\n" };

	for (size_t i = 0; i < ARRAY_SIZE(written); i++) {
		EXPECT_EQ(0, setting_write(OFFLOAD_DIR "/enabled", written[i]));
		EXPECT_EQ(0, setting_read(OFFLOAD_DIR "/enabled", value, sizeof(value)));
		EXPECT_EQ(written[i][0], value[0]);
		EXPECT_EQ(1, strlen(value));
	}
}

TEST_F(migrate_sysfs, enabled_refuses_all_else)
{
	static const char * const refused[] = { "2", "-1", "garbage", "\n", " " };

	for (int was = 0; was <= 1; was++) {
		ASSERT_EQ(0, offload_set_enabled(was));
		for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
			EXPECT_EQ(-EINVAL, setting_write(OFFLOAD_DIR "/enabled", refused[i]))
				TH_LOG("value '%s'", refused[i]);
		}
		EXPECT_EQ(was, setting_read_number(OFFLOAD_DIR "/enabled"));
	}
}

TEST_F(migrate_sysfs, a_bound_is_at_most_a_second)
{
	static const char * const refused[] = { "1000001", "-1", "garbage", "\n" };

	EXPECT_EQ(0, offload_set_bound(0));
	EXPECT_EQ(0, setting_read_number(BOUND));
	EXPECT_EQ(0, offload_set_bound(1000000));
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		EXPECT_EQ(-EINVAL, setting_write(BOUND, refused[i]))
			TH_LOG("value '%s'", refused[i]);
	}
	EXPECT_EQ(1000000, setting_read_number(BOUND));
}

/* Callers with these reasons cannot do without the migration. */
static bool may_require(const char *reason)
{
	return strcmp(reason, "memory_failure") && strcmp(reason, "memory_hotplug") &&
	       strcmp(reason, "contig_range") && strcmp(reason, "longterm_pin");
}

TEST_F(migrate_sysfs, route_reads_as_it_was_written)
{
	static const char * const written[] = {
		"cpu", "none", "cpu required", "none required", "cpu\n", "cpu required\n", "none\n",
	};
	char before[OFFLOAD_ROUTE_SIZE] = "none";

	for (unsigned int i = 0; offload_reasons[i]; i++) {
		ASSERT_EQ(0, offload_set_route(offload_reasons[i], "none"));
		for (size_t j = 0; j < ARRAY_SIZE(written); j++) {
			bool valid = may_require(offload_reasons[i]) || !strchr(written[j], ' ');

			EXPECT_EQ(valid ? 0 : -EINVAL,
				  offload_set_route(offload_reasons[i], written[j]));
			if (valid)
				snprintf(before, sizeof(before), "%.*s",
					 (int)strcspn(written[j], "\n"), written[j]);
			expect_route(_metadata, offload_reasons[i], before);
		}
	}
}

TEST_F(migrate_sysfs, route_refuses_all_else)
{
	static const struct {
		const char *text;
		int error;
	} refused[] = {
		{ "absent", -ENOENT }, { "cp", -ENOENT }, { "cpux", -ENOENT }, { "CPU", -ENOENT },
		{ "1", -ENOENT }, { "\n", -ENOENT }, { "absent required", -ENOENT },
		{ "cpu none", -EINVAL }, { "cpu ", -EINVAL }, { "cpu  required", -EINVAL },
		{ "cpu required ", -EINVAL }, { "cpu requires", -EINVAL }, { "cpu\n\n", -EINVAL },
	};

	ASSERT_EQ(0, offload_set_route("damon", "cpu required"));
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		EXPECT_EQ(refused[i].error, offload_set_route("damon", refused[i].text))
			TH_LOG("value '%s'", refused[i].text);
	}
	expect_route(_metadata, "damon", "cpu required");
}

TEST_F(migrate_sysfs, a_route_is_for_its_reason_only)
{
	ASSERT_EQ(0, offload_route_only(NULL, "none"));
	ASSERT_EQ(0, offload_set_route("demotion", "cpu"));
	for (unsigned int i = 0; offload_reasons[i]; i++)
		expect_route(_metadata, offload_reasons[i],
			     strcmp(offload_reasons[i], "demotion") ? "none" : "cpu");
}

TEST_F(migrate_sysfs, cpu_is_always_a_migrator)
{
	EXPECT_EQ(0, system("grep -qw cpu " OFFLOAD_DIR "/migrators"));
	EXPECT_NE(0, system("grep -qw none " OFFLOAD_DIR "/migrators"));
}

/* A line for each counter of each reason. */
TEST_F(migrate_sysfs, the_table)
{
	static const char * const names[] = {
		"folios_copied", "fallback_error", "fallback_timeout", "fallback_unreachable",
		"fallback_lost", "fallback_busy", "fallback_small", "declined",
		"required_failed", "batches", "pages_copied",
		"live_copied", "live_written", "live_declined", "live_in_pieces",
	};
	FILE *file = fopen(OFFLOAD_DEBUG "/stats", "r");
	char reason[32], name[32], value[32], rest;

	ASSERT_NE(NULL, file);
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		for (unsigned int j = 0; j < ARRAY_SIZE(names); j++) {
			ASSERT_EQ(3, fscanf(file, "%31s %31s %31[0-9]\n", reason, name, value));
			EXPECT_STREQ(offload_reasons[i], reason);
			EXPECT_STREQ(names[j], name);
		}
	}
	EXPECT_EQ(EOF, fscanf(file, " %c", &rest));
	fclose(file);
}

TEST_HARNESS_MAIN
