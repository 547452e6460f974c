/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Replaces <asm/asm.h> for arch/x86/lib/copy_pages_64.S in user space. The exception
 * table becomes a section of the program, which a handler of SIGSEGV searches.
 */
#ifndef TOOLS_MM_COPY_PAGES_ASM_H
#define TOOLS_MM_COPY_PAGES_ASM_H

#define EX_TYPE_DEFAULT_MCE_SAFE	14

/* Both addresses are relative to their own location. */
#define _ASM_EXTABLE_TYPE(from, to, type)	\
	.pushsection __ex_table, "a";		\
	.balign 4;				\
	.long (from) - .;			\
	.long (to) - .;				\
	.long type;				\
	.popsection

#endif /* TOOLS_MM_COPY_PAGES_ASM_H */
