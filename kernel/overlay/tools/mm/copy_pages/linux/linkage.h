/* SPDX-License-Identifier: GPL-2.0 */
/* Replaces <linux/linkage.h> for arch/x86/lib/copy_pages_64.S in user space. */
#ifndef TOOLS_MM_COPY_PAGES_LINKAGE_H
#define TOOLS_MM_COPY_PAGES_LINKAGE_H

#define SYM_FUNC_START(name)	func_start name
#define SYM_FUNC_END(name)	func_end name
#define RET			ret

.macro func_start name
	.globl	\name
	.type	\name, @function
	.p2align 4, 0xcc
\name:
.endm

.macro func_end name
	.size	\name, . - \name
.endm

	.section .note.GNU-stack, "", @progbits
	.text

#endif /* TOOLS_MM_COPY_PAGES_LINKAGE_H */
