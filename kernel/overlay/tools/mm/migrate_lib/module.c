// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "module.h"
#include "setting.h"

static bool is_there(const char *name, const char *file)
{
	return !access(setting_path("/sys/module/%s/%s", name, file), F_OK);
}

bool module_loaded(const char *name)
{
	return is_there(name, "initstate");
}

int module_load(const char *name, const char *parameters)
{
	char command[256];

	snprintf(command, sizeof(command), "modprobe -q %s %s", name, parameters);
	return system(command) || !is_there(name, "") ? -ENOENT : 0;
}

int module_unload(const char *name)
{
	return syscall(SYS_delete_module, name, O_NONBLOCK) ? -errno : 0;
}
