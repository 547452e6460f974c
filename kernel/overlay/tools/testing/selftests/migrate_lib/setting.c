// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setting.h"

#define MAX_SETTINGS	80
#define VALUE_SIZE	256

static struct {
	char path[128];
	char value[VALUE_SIZE];
} saved[MAX_SETTINGS];
static unsigned int nr_saved;
static pid_t saver;

int setting_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_TRUNC);
	ssize_t len = strlen(value);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, len) != len)
		ret = -errno;
	close(fd);
	return ret;
}

int setting_write_number(const char *path, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	return setting_write(path, text);
}

int setting_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t len;

	if (fd < 0)
		return -errno;
	len = read(fd, buf, size - 1);
	if (len < 0)
		len = -errno;
	close(fd);
	if (len < 0)
		return len;
	buf[len] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

long setting_read_number(const char *path)
{
	char buf[VALUE_SIZE];
	char *end;
	long value;

	if (setting_read(path, buf, sizeof(buf)))
		return -1;
	value = strtol(buf, &end, 10);
	return end == buf ? -1 : value;
}

long setting_find_number(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	char line[VALUE_SIZE], *found = NULL;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, name);
	if (file)
		fclose(file);
	return found ? strtol(found + strlen(name), NULL, 10) : -1;
}

/* A file that shows all its values has the one that counts in brackets. */
static void keep_selected(char *value)
{
	char *first = strchr(value, '[');
	char *last = first ? strchr(first, ']') : NULL;

	if (!last)
		return;
	*last = '\0';
	memmove(value, first + 1, last - first);
}

void settings_restore(void)
{
	char now[VALUE_SIZE];

	/* The last one that was saved may depend on the first: go backwards. */
	for (unsigned int i = nr_saved; i-- > 0;) {
		if (setting_read(saved[i].path, now, sizeof(now)))
			continue;
		keep_selected(now);
		/* sysfs does not notice that nothing is written. */
		if (strcmp(now, saved[i].value))
			setting_write(saved[i].path, saved[i].value[0] ? saved[i].value : "\n");
	}
}

void settings_forget(void)
{
	nr_saved = 0;
}

static void restore_at_exit(void)
{
	if (getpid() == saver)
		settings_restore();
}

static void restore_on_signal(int sig)
{
	restore_at_exit();
	signal(sig, SIG_DFL);
	raise(sig);
}

void setting_save(const char *path)
{
	if (nr_saved == MAX_SETTINGS || strlen(path) >= sizeof(saved[0].path))
		return;
	for (unsigned int i = 0; i < nr_saved; i++)
		if (!strcmp(saved[i].path, path))
			return;
	if (setting_read(path, saved[nr_saved].value, VALUE_SIZE))
		return;
	keep_selected(saved[nr_saved].value);
	strcpy(saved[nr_saved].path, path);
	nr_saved++;

	if (!saver) {
		saver = getpid();
		atexit(restore_at_exit);
		signal(SIGTERM, restore_on_signal);
		signal(SIGINT, restore_on_signal);
		signal(SIGHUP, restore_on_signal);
	}
}

static void thp_path(char *path, size_t size, size_t kib, const char *name)
{
	snprintf(path, size, THP_DIR "/hugepages-%zukB/%s", kib, name);
}

void memory_settings_save(void)
{
	char path[PATH_MAX];

	for (size_t kib = 8; kib <= 2048; kib *= 2) {
		thp_path(path, sizeof(path), kib, "enabled");
		setting_save(path);
		thp_path(path, sizeof(path), kib, "shmem_enabled");
		setting_save(path);
	}
	setting_save(NUMA_BALANCING);
}

void numa_balancing_off(void)
{
	setting_write(NUMA_BALANCING, "0");
}

/* No kernel has folios of every size of both sorts: a file may be missing. */
static int thp_set(size_t kib, const char *name, const char *value)
{
	char path[PATH_MAX];

	thp_path(path, sizeof(path), kib, name);
	return setting_write(path, value);
}

int thp_only(size_t folio_size)
{
	int ret = folio_size > (size_t)sysconf(_SC_PAGESIZE) ? -ENOENT : 0;

	for (size_t kib = 8; kib <= 2048; kib *= 2) {
		bool wanted = kib * 1024 == folio_size;
		int err = thp_set(kib, "enabled", wanted ? "madvise" : "never");

		thp_set(kib, "shmem_enabled", wanted ? "advise" : "never");
		if (wanted || (err && err != -ENOENT))
			ret = err;
	}
	return ret;
}
