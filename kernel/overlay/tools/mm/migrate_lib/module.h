/* SPDX-License-Identifier: GPL-2.0 */
/* Modules of the kernel. */
#ifndef MODULE_H
#define MODULE_H

#include <stdbool.h>

/* Whether it could be unloaded: it is not built in. */
bool module_loaded(const char *name);
/* Nothing to do if it is loaded. @parameters: as for modprobe(8), may be "". 0 or -errno. */
int module_load(const char *name, const char *parameters);
/* 0 or -errno; waits for the module's exit, but not for others that use it. */
int module_unload(const char *name);

#endif /* MODULE_H */
