/* SPDX-License-Identifier: GPL-2.0 */
/* The exception table that asm/asm.h, beside this file, makes in user space. */
#ifndef TOOLS_MM_COPY_PAGES_EXTABLE_H
#define TOOLS_MM_COPY_PAGES_EXTABLE_H

#include <stdint.h>

/* Where a fault may happen, and where to go on: relative to the fields themselves. */
struct exception {
	int32_t from;
	int32_t to;
	int32_t type;
};

/* Defined by the linker. */
extern const struct exception __start___ex_table[];
extern const struct exception __stop___ex_table[];

#endif /* TOOLS_MM_COPY_PAGES_EXTABLE_H */
