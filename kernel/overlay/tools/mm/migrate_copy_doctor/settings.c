// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of the machine: what they were, and making them so again. The process that
 * puts back is not the one that changes: it remembers everything before anything changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

#define VALUE_SIZE	256
/* A channel that hangs keeps its module for so long. */
#define UNLOAD_S	30

/* In the order in which they are put back. */
static struct setting {
	struct setting *next;
	char value[VALUE_SIZE];
	char path[];
} *first, **last = &first;

/* Each may use those behind it: they are unloaded in this order. */
static struct module {
	const char *name;
	bool loaded;
} modules[] = { { .name = "dmatest" }, { .name = "dcbm" }, { .name = "mtcopy" } };

bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return false;
	len = read(fd, text, size - 1);
	close(fd);
	if (len < 0)
		return false;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return true;
}

long read_number(const char *path)
{
	char text[VALUE_SIZE], *end;
	long number;

	if (!read_text(path, text, sizeof(text)))
		return -1;
	number = strtol(text, &end, 10);
	return end == text ? -1 : number;
}

int write_text(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	/* sysfs does not notice that nothing is written. */
	const char *text = *value ? value : "\n";
	ssize_t len = strlen(text);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != len)
		error = -errno;
	close(fd);
	return error;
}

int write_number(const char *path, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	return write_text(path, text);
}

bool module_loaded(const char *module)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/module/%s", module);
	return !access(path, F_OK);
}

int module_load(const char *module)
{
	int status;
	pid_t pid;

	if (module_loaded(module))
		return 0;
	pid = fork();
	if (!pid) {
		execlp("modprobe", "modprobe", "-q", module, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	return module_loaded(module) ? 0 : -ENOENT;
}

/* Threads of dmatest, and batches of a migrator, end first. */
static int module_unload(const char *module)
{
	for (unsigned int tenth = 0; ; tenth++) {
		if (!syscall(SYS_delete_module, module, O_NONBLOCK) || errno == ENOENT)
			return 0;
		if ((errno != EAGAIN && errno != EBUSY) || tenth == 10 * UNLOAD_S)
			return -errno;
		usleep(100000);
	}
}

/* A file that shows all its values has the one that counts in brackets. */
static void keep_selected(char *value)
{
	char *begin = strchr(value, '[');
	char *end = begin ? strchr(begin, ']') : NULL;

	if (!end)
		return;
	*end = '\0';
	memmove(value, begin + 1, end - begin);
}

static bool read_value(const char *path, char *value)
{
	if (!read_text(path, value, VALUE_SIZE))
		return false;
	keep_selected(value);
	return true;
}

/* Remember what can be written. Files that cannot are no settings, and none may exist. */
static void remember(const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i];
		struct setting *setting;
		struct stat st;

		if (stat(path, &st) || !S_ISREG(st.st_mode) || !(st.st_mode & 0200))
			continue;
		setting = malloc(sizeof(*setting) + strlen(path) + 1);
		if (!setting)
			abort();
		if (!read_value(path, setting->value)) {
			free(setting);
			continue;
		}
		memcpy(setting->path, path, strlen(path) + 1);
		setting->next = NULL;
		*last = setting;
		last = &setting->next;
	}
	globfree(&found);
}

void remember_all(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(modules); i++) {
		char pattern[PATH_MAX];

		modules[i].loaded = module_loaded(modules[i].name);
		snprintf(pattern, sizeof(pattern), "/sys/module/%s/parameters/*",
			 modules[i].name);
		remember(pattern);
	}
	/* What is on again finds its routes. */
	remember(OFFLOAD_DIR "/routes/*/*");
	remember(OFFLOAD_DIR "/*");
	remember(THP_DIR "/hugepages-*/enabled");
	remember(NUMA_BALANCING);
}

static unsigned int put_back(const struct setting *setting)
{
	char now[VALUE_SIZE];
	int error;

	if (read_value(setting->path, now) && !strcmp(now, setting->value))
		return 0;
	error = write_text(setting->path, setting->value);
	if (!error && read_value(setting->path, now) && !strcmp(now, setting->value))
		return 0;
	fprintf(stderr, "doctor: cannot set %s to '%s' again: %s\n", setting->path,
		setting->value, strerror(-error));
	return 1;
}

void put_back_below(const char *path)
{
	for (struct setting *setting = first; setting; setting = setting->next)
		if (!strncmp(setting->path, path, strlen(path)))
			put_back(setting);
}

unsigned int put_back_all(void)
{
	unsigned int wrong = 0;

	/* Terminates what dmatest still does, and gives the channels back. */
	write_text("/sys/module/dmatest/parameters/run", "0");
	write_text(OFFLOAD_DIR "/enabled", "0");
	for (struct setting *setting = first; setting; setting = setting->next)
		wrong += put_back(setting);
	for (unsigned int i = 0; i < ARRAY_SIZE(modules); i++) {
		int error = modules[i].loaded ? 0 : module_unload(modules[i].name);

		if (!error)
			continue;
		fprintf(stderr, "doctor: cannot unload %s: %s\n", modules[i].name,
			strerror(-error));
		wrong++;
	}
	return wrong;
}
