// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of the machine: what they were, and making them so again. The process that
 * puts back is not the one that changes: it remembers everything before anything changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

/* A channel that hangs keeps its module for so long. */
#define UNLOAD_S	30

/* Each may use those behind it: they are unloaded in this order. */
static struct module {
	const char *name;
	bool loaded;
} modules[] = { { .name = "dmatest" }, { .name = "dcbm" }, { .name = "mtcopy" } };

static bool module_loaded(const char *module)
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

/* What is remembered last is put back first: what is on again finds its routes. */
void remember_all(void)
{
	setting_save(NUMA_BALANCING);
	settings_save(THP_DIR "/hugepages-*/enabled");
	settings_save(OFFLOAD_DIR "/*");
	settings_save(OFFLOAD_DIR "/routes/*/*");
	for (unsigned int i = ARRAY_SIZE(modules); i-- > 0;) {
		char pattern[PATH_MAX];

		modules[i].loaded = module_loaded(modules[i].name);
		snprintf(pattern, sizeof(pattern), "/sys/module/%s/parameters/*",
			 modules[i].name);
		settings_save(pattern);
	}
}

unsigned int put_back_all(void)
{
	unsigned int wrong;

	/* Terminates what dmatest still does, and gives the channels back. */
	setting_write("/sys/module/dmatest/parameters/run", "0");
	setting_write(OFFLOAD_DIR "/enabled", "0");
	wrong = settings_restore_below("", "doctor");
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
