// SPDX-License-Identifier: GPL-2.0
/*
 * Save and restore settings of the machine. The process that restores settings is not the
 * one that changes them: it saves everything before anything changes.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "doctor.h"

/* A channel that hangs keeps its module for so long. */
#define UNLOAD_S	30

/* Each may use those behind it: they are unloaded in this order. */
static struct module {
	const char *name;
	bool loaded;
} modules[] = { { .name = "dmatest" }, { .name = "dcbm" }, { .name = "mtcopy" } };

/* Threads of dmatest, and batches of a migrator, end first. */
static int unload(const char *name)
{
	for (unsigned int tenth = 0; ; tenth++) {
		int error = module_unload(name);

		if ((error != -EAGAIN && error != -EBUSY) || tenth == 10 * UNLOAD_S)
			return error == -ENOENT ? 0 : error;
		usleep(100000);
	}
}

/* The last setting that is remembered is put back first: the main switch finds its routes. */
void remember_all(void)
{
	memory_settings_save();
	offload_save();
	for (unsigned int i = ARRAY_SIZE(modules); i-- > 0;) {
		char pattern[128];

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
	offload_set_enabled(false);
	wrong = settings_restore_below("", "doctor");
	settings_forget();
	for (unsigned int i = 0; i < ARRAY_SIZE(modules); i++) {
		int error = modules[i].loaded ? 0 : unload(modules[i].name);

		if (!error)
			continue;
		fprintf(stderr, "doctor: cannot unload %s: %s\n", modules[i].name,
			strerror(-error));
		wrong++;
	}
	return wrong;
}
