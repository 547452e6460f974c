// SPDX-License-Identifier: GPL-2.0
/*
 * The files in /sys/kernel/mm/migrate_offload: their defaults, what they accept
 * and what they refuse.
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "offload.h"

static void __attribute__((constructor)) save_settings(void)
{
	offload_save();
}

FIXTURE(migrate_sysfs)
{
};

FIXTURE_SETUP(migrate_sysfs)
{
	settings_restore();
	if (!offload_available())
		SKIP(return, "no " OFFLOAD_DIR);
}

FIXTURE_TEARDOWN(migrate_sysfs)
{
	settings_restore();
}

static unsigned int words(const char *text)
{
	unsigned int nr = 0;

	while (*text) {
		text += strspn(text, " ");
		nr += !!*text;
		text += strcspn(text, " ");
	}
	return nr;
}

static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	while (*text) {
		if (!strncmp(text, word, len) && (!text[len] || text[len] == ' '))
			return true;
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return false;
}

/* The caller may have changed the settings; MIG_DEFAULTS=1 says that nobody has. */
TEST_F(migrate_sysfs, defaults)
{
	const char *untouched = getenv("MIG_DEFAULTS");
	char value[64];

	if (!untouched || *untouched != '1')
		SKIP(return, "MIG_DEFAULTS is not set");
	EXPECT_EQ(0, setting_read(OFFLOAD_DIR "/enabled", value, sizeof(value)));
	EXPECT_STREQ("0", value);
	EXPECT_EQ(100, setting_read_number(OFFLOAD_DIR "/timeout_ms"));
	EXPECT_EQ(1, setting_read_number(OFFLOAD_DIR "/live_min_order"));
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		char path[PATH_MAX];

		EXPECT_EQ(0, offload_get_route(offload_reasons[i], value, sizeof(value)));
		EXPECT_STREQ("none", value);
		snprintf(path, sizeof(path), OFFLOAD_DIR "/routes/%s/live", offload_reasons[i]);
		EXPECT_EQ(0, setting_read(path, value, sizeof(value)));
		EXPECT_STREQ("auto", value);
		snprintf(path, sizeof(path), OFFLOAD_DIR "/routes/%s/max_inaccessible_us",
			 offload_reasons[i]);
		EXPECT_EQ(500, setting_read_number(path));
	}
}

/* What a test saved it gives back. */
TEST_F(migrate_sysfs, restored_as_it_was)
{
	static const char route[] = ROUTE("damon", "migrator"), live[] = ROUTE("damon", "live");
	int status;
	pid_t pid;

	ASSERT_EQ(0, setting_write(route, "cpu"));
	ASSERT_EQ(0, setting_write(live, "1"));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		settings_forget();
		offload_save();
		setting_write(route, "none");
		setting_write(live, "0");
		settings_restore();
		_exit(setting_read_number(live) != 1);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* A file that is empty becomes so again: sysfs does not notice that nothing is written. */
TEST_F(migrate_sysfs, restored_to_nothing)
{
	static const char device[] = "/sys/module/dmatest/parameters/device";
	char value[64];
	int status;
	pid_t pid;

	if (system("modprobe dmatest"))
		SKIP(return, "no dmatest");
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		settings_forget();
		setting_save(device);
		setting_write(device, "dma0");
		settings_restore();
		_exit(setting_read(device, value, sizeof(value)) || *value);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	system("rmmod dmatest");
}

TEST_F(migrate_sysfs, enabled_accepts_0_and_1)
{
	static const char * const written[] = { "1", "0", "1\n", "0\n" };
	char value[64];

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
	char value[64];

	for (int was = 0; was <= 1; was++) {
		ASSERT_EQ(0, offload_set_enabled(was));
		for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
			int ret = setting_write(OFFLOAD_DIR "/enabled", refused[i]);

			EXPECT_EQ(-EINVAL, ret) TH_LOG("value '%s'", refused[i]);
		}
		EXPECT_EQ(0, setting_read(OFFLOAD_DIR "/enabled", value, sizeof(value)));
		EXPECT_EQ(was, value[0] - '0');
	}
}

static void check_number(struct __test_metadata *_metadata, const char *name, long least,
			 long most)
{
	const long refused[] = { least - 1, most + 1 };
	const long accepted[] = { least, most };
	char path[PATH_MAX];
	long was;

	snprintf(path, sizeof(path), OFFLOAD_DIR "/%s", name);
	was = setting_read_number(path);
	for (size_t i = 0; i < 2; i++) {
		EXPECT_EQ(0, setting_write_number(path, accepted[i]));
		EXPECT_EQ(accepted[i], setting_read_number(path));
		EXPECT_EQ(-EINVAL, setting_write_number(path, refused[i]));
		EXPECT_EQ(accepted[i], setting_read_number(path));
	}
	EXPECT_EQ(-EINVAL, setting_write(path, "garbage"));
	EXPECT_EQ(0, setting_write_number(path, was));
}

TEST_F(migrate_sysfs, bounds_of_a_batch)
{
	check_number(_metadata, "timeout_ms", 1, 60000);
}

TEST_F(migrate_sysfs, smallest_live_folio)
{
	const char *path = OFFLOAD_DIR "/live_min_order";
	long was = setting_read_number(path);

	EXPECT_EQ(0, setting_write_number(path, 9));
	EXPECT_EQ(9, setting_read_number(path));
	EXPECT_EQ(-EINVAL, setting_write_number(path, -1));
	EXPECT_EQ(-EINVAL, setting_write_number(path, 64));
	EXPECT_EQ(9, setting_read_number(path));
	EXPECT_EQ(0, setting_write_number(path, was));
}

TEST_F(migrate_sysfs, every_reason_has_a_route)
{
	DIR *dir = opendir(OFFLOAD_DIR "/routes");
	unsigned int found = 0, known = 0;
	struct dirent *entry;

	ASSERT_NE(NULL, dir);
	while ((entry = readdir(dir)))
		found += entry->d_name[0] != '.';
	closedir(dir);
	while (offload_reasons[known])
		known++;
	EXPECT_EQ(known, found);
}

TEST_F(migrate_sysfs, route_accepts_migrators_and_none)
{
	static const char * const written[] = { "cpu", "none", "cpu\n", "none\n" };
	char value[64];

	for (unsigned int i = 0; offload_reasons[i]; i++) {
		for (size_t j = 0; j < ARRAY_SIZE(written); j++) {
			EXPECT_EQ(0, offload_set_route(offload_reasons[i], written[j]));
			EXPECT_EQ(0, offload_get_route(offload_reasons[i], value,
						       sizeof(value)));
			EXPECT_EQ(0, strncmp(value, written[j], strlen(value)));
			EXPECT_EQ(strcspn(written[j], "\n"), strlen(value));
		}
	}
}

static void check_refused(struct __test_metadata *_metadata, const char *reason,
			  const char *route)
{
	static const char * const refused[] = {
		"nobody", "cp", "cpux", "CPU", "cpu none", "1", "\n",
	};
	char value[64];

	ASSERT_EQ(0, offload_set_route(reason, route));
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		int ret = offload_set_route(reason, refused[i]);

		EXPECT_EQ(-ENOENT, ret) TH_LOG("value '%s'", refused[i]);
	}
	EXPECT_EQ(0, offload_get_route(reason, value, sizeof(value)));
	EXPECT_STREQ(route, value);
}

TEST_F(migrate_sysfs, route_refuses_all_else)
{
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		check_refused(_metadata, offload_reasons[i], "cpu");
		check_refused(_metadata, offload_reasons[i], "none");
	}
}

TEST_F(migrate_sysfs, a_route_is_for_its_reason_only)
{
	char value[64];

	ASSERT_EQ(0, offload_route_only(NULL, "none"));
	ASSERT_EQ(0, offload_set_route("demotion", "cpu"));
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		bool demotion = !strcmp(offload_reasons[i], "demotion");

		EXPECT_EQ(0, offload_get_route(offload_reasons[i], value, sizeof(value)));
		EXPECT_STREQ(demotion ? "cpu" : "none", value);
	}
}

TEST_F(migrate_sysfs, cpu_is_always_a_migrator)
{
	char value[256];

	ASSERT_EQ(0, setting_read(OFFLOAD_DIR "/migrators", value, sizeof(value)));
	EXPECT_TRUE(has_word(value, "cpu"));
	EXPECT_FALSE(has_word(value, "none"));
}

static void check_mode(struct __test_metadata *_metadata, const char *path, mode_t mode)
{
	struct stat status;

	ASSERT_EQ(0, stat(path, &status)) TH_LOG("%s", path);
	EXPECT_EQ(mode, status.st_mode & 07777) TH_LOG("%s", path);
}

/* Callers with these reasons cannot do without the migration. */
TEST_F(migrate_sysfs, not_every_route_may_require)
{
	EXPECT_NE(0, access(ROUTE("memory_failure", "required"), F_OK));
	EXPECT_NE(0, access(ROUTE("memory_hotplug", "required"), F_OK));
	EXPECT_NE(0, access(ROUTE("contig_range", "required"), F_OK));
	EXPECT_NE(0, access(ROUTE("longterm_pin", "required"), F_OK));
	EXPECT_EQ(0, setting_read_number(ROUTE("demotion", "required")));
	EXPECT_EQ(0, setting_write(ROUTE("demotion", "required"), "1"));
	EXPECT_EQ(1, setting_read_number(ROUTE("demotion", "required")));
	EXPECT_EQ(-EINVAL, setting_write(ROUTE("demotion", "required"), "maybe"));
}

TEST_F(migrate_sysfs, live_is_one_of_three)
{
	static const char * const values[] = { "0", "1", "auto" };
	char value[16];

	for (unsigned int i = 0; i < ARRAY_SIZE(values); i++) {
		ASSERT_EQ(0, setting_write(ROUTE("damon", "live"), values[i]));
		ASSERT_EQ(0, setting_read(ROUTE("damon", "live"), value, sizeof(value)));
		EXPECT_STREQ(values[i], value);
		/* It stays, whatever the migrator is. */
		ASSERT_EQ(0, setting_write(ROUTE("damon", "migrator"), i % 2 ? "cpu" : "none"));
		ASSERT_EQ(0, setting_read(ROUTE("damon", "live"), value, sizeof(value)));
		EXPECT_STREQ(values[i], value);
	}
	EXPECT_EQ(-EINVAL, setting_write(ROUTE("damon", "live"), "2"));
}

TEST_F(migrate_sysfs, a_bound_is_at_most_a_second)
{
	EXPECT_EQ(0, setting_write(ROUTE("damon", "max_inaccessible_us"), "1000000"));
	EXPECT_EQ(-EINVAL, setting_write(ROUTE("damon", "max_inaccessible_us"), "1000001"));
	EXPECT_EQ(-EINVAL, setting_write(ROUTE("damon", "max_inaccessible_us"), "-1"));
	EXPECT_EQ(0, setting_write(ROUTE("damon", "max_inaccessible_us"), "0"));
	EXPECT_EQ(0, setting_read_number(ROUTE("damon", "max_inaccessible_us")));
}

TEST_F(migrate_sysfs, modes)
{
	static const char * const files[] = { "migrator", "live", "max_inaccessible_us" };
	struct offload_stats stats;
	char path[PATH_MAX];

	check_mode(_metadata, OFFLOAD_DIR "/enabled", 0644);
	check_mode(_metadata, OFFLOAD_DIR "/timeout_ms", 0644);
	check_mode(_metadata, OFFLOAD_DIR "/live_min_order", 0644);
	check_mode(_metadata, OFFLOAD_DIR "/migrators", 0444);
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		for (unsigned int j = 0; j < ARRAY_SIZE(files); j++) {
			snprintf(path, sizeof(path), OFFLOAD_DIR "/routes/%s/%s",
				 offload_reasons[i], files[j]);
			check_mode(_metadata, path, 0644);
		}
	}
	offload_read_stats(&stats);
	for (unsigned int i = 0; i < stats.nr; i++) {
		snprintf(path, sizeof(path), OFFLOAD_DIR "/stats/%s",
			 stats.counter[i].name);
		check_mode(_metadata, path, 0444);
	}
}

/* Each file but a list has one word; that of a counter is a number. */
TEST_F(migrate_sysfs, one_value_per_file)
{
	struct offload_stats stats;
	char path[PATH_MAX];
	char value[256];

	ASSERT_EQ(0, setting_read(OFFLOAD_DIR "/enabled", value, sizeof(value)));
	EXPECT_EQ(1, words(value));
	for (unsigned int i = 0; offload_reasons[i]; i++) {
		ASSERT_EQ(0, offload_get_route(offload_reasons[i], value, sizeof(value)));
		EXPECT_EQ(1, words(value));
	}
	offload_read_stats(&stats);
	for (unsigned int i = 0; i < stats.nr; i++) {
		snprintf(path, sizeof(path), OFFLOAD_DIR "/stats/%s",
			 stats.counter[i].name);
		ASSERT_EQ(0, setting_read(path, value, sizeof(value)));
		EXPECT_LT(0, strlen(value));
		EXPECT_EQ(strlen(value), strspn(value, "0123456789"))
			TH_LOG("%s: '%s'", path, value);
	}
}

TEST_F(migrate_sysfs, all_counters)
{
	static const char * const names[] = {
		"batches", "folios_copied", "pages_copied",
		"fallback_busy", "fallback_error", "fallback_lost", "fallback_no_memory",
		"fallback_refused", "fallback_small", "fallback_timeout",
		"fallback_unreachable",
		"declined_mapping", "declined_metadata", "declined_poison",
		"declined_references", "declined_type",
		"required_failed",
		"live_copied", "live_written",
		"live_declined_mapping", "live_declined_references",
		"live_declined_shared", "live_declined_type",
	};
	struct offload_stats stats;
	char path[PATH_MAX];

	offload_read_stats(&stats);
	EXPECT_EQ(ARRAY_SIZE(names), stats.nr);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), OFFLOAD_DIR "/stats/%s", names[i]);
		EXPECT_LE(0, setting_read_number(path)) TH_LOG("%s", path);
	}
}

TEST_HARNESS_MAIN
