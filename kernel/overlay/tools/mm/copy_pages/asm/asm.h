/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What arch/x86/lib/copy_pages_64.S needs of <asm/asm.h>, in user space: the
 * exception table is a section of the program, for a handler of SIGSEGV to search.
 */
#ifndef TOOLS_MM_COPY_PAGES_ASM_H
#define TOOLS_MM_COPY_PAGES_ASM_H

#define EX_TYPE_DEFAULT_MCE_SAFE	14

/* Both addresses are relative to where they are stored. */
#define _ASM_EXTABLE_TYPE(from, to, type)	\
	.pushsection __ex_table, "a";		\
	.balign 4;				\
	.long (from) - .;			\
	.long (to) - .;				\
	.long type;				\
	.popsection

#endif /* TOOLS_MM_COPY_PAGES_ASM_H */
