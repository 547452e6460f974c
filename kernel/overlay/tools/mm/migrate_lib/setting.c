// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setting.h"

#define MAX_SETTINGS	256
#define VALUE_SIZE	256
/* No kernel has transparent huge pages of more than this. */
#define MAX_THP_KIB	(1024 * 1024UL)

static struct {
	char path[128];
	char value[VALUE_SIZE];
} saved[MAX_SETTINGS];
/* Read by signal handlers: an entry that counts is complete. */
static unsigned int nr_saved;
static pid_t saver;

const char *setting_path(const char *format, ...)
{
	static __thread char path[VALUE_SIZE];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	return path;
}

const char *own_cgroup(const char *file)
{
	char line[256];

	if (setting_read("/proc/self/cgroup", line, sizeof(line)) || strncmp(line, "0::", 3))
		return "cgroup of version 2";
	return setting_path("/sys/fs/cgroup%s/%s", line + 3, file);
}

int setting_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	/* sysfs does not notice that nothing is written. */
	const char *text = *value ? value : "\n";
	ssize_t len = strlen(text), written;
	int ret = 0;

	if (fd < 0)
		return -errno;
	written = write(fd, text, len);
	if (written != len)
		ret = written < 0 ? -errno : -EIO;
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
	int fd = open(path, O_RDONLY | O_CLOEXEC);
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
	char line[4096], *next = NULL, *found = NULL;
	long sum = 0;

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, name);
	if (file)
		fclose(file);
	if (!found)
		return -1;
	for (next = found + strlen(name); next != found;) {
		found = next;
		sum += strtol(found, &next, 10);
	}
	return sum;
}

long setting_count_lines(const char *path, const char *text)
{
	FILE *file = fopen(path, "r");
	char line[1024];
	long nr = 0;

	while (file && fgets(line, sizeof(line), file))
		nr += !!strstr(line, text);
	if (file)
		fclose(file);
	return file ? nr : -1;
}

int setting_value(const char *path, char *buf, size_t size)
{
	int ret = setting_read(path, buf, size);
	char *first = ret ? NULL : strchr(buf, '[');
	char *last = first ? strchr(first, ']') : NULL;

	if (last) {
		*last = '\0';
		memmove(buf, first + 1, last - first);
	}
	return ret;
}

/* NULL, or why the file has another value, or @now with that value. */
static const char *put_back(const char *path, const char *value, char *now)
{
	int err = setting_value(path, now, VALUE_SIZE);

	if (!err && strcmp(now, value))
		err = setting_write(path, value) ?: setting_value(path, now, VALUE_SIZE);
	if (err)
		return strerror(-err);
	return strcmp(now, value) ? now : NULL;
}

unsigned int settings_restore_below(const char *prefix, const char *program)
{
	unsigned int wrong = 0;

	for (unsigned int i = __atomic_load_n(&nr_saved, __ATOMIC_ACQUIRE); i-- > 0;) {
		char now[VALUE_SIZE];
		const char *why;

		if (strncmp(saved[i].path, prefix, strlen(prefix)))
			continue;
		why = put_back(saved[i].path, saved[i].value, now);
		if (!why)
			continue;
		wrong++;
		if (program)
			fprintf(stderr, "%s: cannot set %s to '%s' again: %s%s%s\n", program,
				saved[i].path, saved[i].value, why == now ? "it stays '" : "",
				why, why == now ? "'" : "");
	}
	return wrong;
}

void settings_restore(void)
{
	settings_restore_below("", NULL);
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
	/* Unblocked, and thus fatal, when this handler returns. */
	raise(sig);
}

/* Signals that a program ignores, or handles itself, stay as they are. */
static void restore_at_end(void)
{
	static const int signals[] = {
		SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGBUS, SIGSEGV, SIGXCPU, 0
	};
	struct sigaction before, action = { .sa_handler = restore_on_signal,
					    .sa_flags = SA_RESETHAND };

	saver = getpid();
	atexit(restore_at_exit);
	sigfillset(&action.sa_mask);
	for (const int *sig = signals; *sig; sig++) {
		sigaction(*sig, NULL, &before);
		if (before.sa_handler == SIG_DFL)
			sigaction(*sig, &action, NULL);
	}
}

void setting_save(const char *path)
{
	char value[VALUE_SIZE];
	struct stat st;

	for (unsigned int i = 0; i < nr_saved; i++)
		if (!strcmp(saved[i].path, path))
			return;
	if (stat(path, &st) || !(st.st_mode & 0200) || setting_value(path, value, sizeof(value)))
		return;
	if (nr_saved == MAX_SETTINGS || strlen(path) >= sizeof(saved[0].path)) {
		fprintf(stderr, "no room to remember %s\n", path);
		exit(1);
	}
	strcpy(saved[nr_saved].path, path);
	strcpy(saved[nr_saved].value, value);
	if (!saver)
		restore_at_end();
	__atomic_store_n(&nr_saved, nr_saved + 1, __ATOMIC_RELEASE);
}

void settings_save(const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = found.gl_pathc; i-- > 0;)
		setting_save(found.gl_pathv[i]);
	globfree(&found);
}

static int set_anew(const char *path, const char *value, bool save)
{
	char now[VALUE_SIZE];
	int ret = setting_value(path, now, sizeof(now));

	if (ret || !strcmp(now, value))
		return ret;
	if (save)
		setting_save(path);
	return setting_write(path, value);
}

int setting_change(const char *path, const char *value)
{
	return set_anew(path, value, true);
}

void memory_settings_save(void)
{
	settings_save(THP_DIR "/hugepages-*/*enabled");
	setting_save(NUMA_BALANCING);
}

/*
 * Allows transparent huge pages of this size, and no others. No kernel has folios of every
 * size of both sorts: a file may be missing.
 */
static int thp_allow(size_t folio_size, const char *name, const char *value)
{
	int ret = folio_size > (size_t)sysconf(_SC_PAGESIZE) ? -ENOENT : 0;

	for (size_t kib = 8; kib <= MAX_THP_KIB; kib *= 2) {
		bool wanted = kib * 1024 == folio_size;
		int err = set_anew(setting_path(THP_DIR "/hugepages-%zukB/%s", kib, name),
				   wanted ? value : "never", false);

		if (wanted || (err && err != -ENOENT))
			ret = err;
	}
	return ret;
}

int thp_only_anon(size_t folio_size)
{
	return thp_allow(folio_size, "enabled", "madvise");
}

int thp_only_shmem(size_t folio_size)
{
	return thp_allow(folio_size, "shmem_enabled", "advise");
}

int thp_only(size_t folio_size)
{
	thp_only_shmem(folio_size);
	return thp_only_anon(folio_size);
}

static const char *hugetlb_path(size_t folio_size, int node, const char *file)
{
	return setting_path(NODE_DIR "/node%d/hugepages/hugepages-%zukB/%s_hugepages", node,
			    folio_size / 1024, file);
}

long hugetlb_held(size_t folio_size, int node)
{
	return setting_read_number(hugetlb_path(folio_size, node, "nr"));
}

long hugetlb_free(size_t folio_size, int node)
{
	return setting_read_number(hugetlb_path(folio_size, node, "free"));
}

long hugetlb_hold(size_t folio_size, int node, unsigned long nr)
{
	char value[24];

	snprintf(value, sizeof(value), "%lu", nr);
	setting_change(hugetlb_path(folio_size, node, "nr"), value);
	return hugetlb_held(folio_size, node);
}

bool hugetlb_reserve(size_t folio_size, int node, unsigned long nr)
{
	return hugetlb_held(folio_size, node) >= (long)nr ||
	       hugetlb_hold(folio_size, node, nr) >= (long)nr;
}
