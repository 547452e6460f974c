/* SPDX-License-Identifier: GPL-2.0 */
/* The exception table that the _ASM_EXTABLE_TYPE() of asm/asm.h builds. */
#ifndef TOOLS_MM_COPY_PAGES_EXTABLE_H
#define TOOLS_MM_COPY_PAGES_EXTABLE_H

#include <stdint.h>

/* Addresses of an instruction that may fault and of its fixup, relative to each field. */
struct exception {
	int32_t from;
	int32_t to;
	int32_t type;
};

/* Defined by the linker. */
extern const struct exception __start___ex_table[];
extern const struct exception __stop___ex_table[];

#endif /* TOOLS_MM_COPY_PAGES_EXTABLE_H */
