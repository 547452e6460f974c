/* SPDX-License-Identifier: GPL-2.0 */
/* For the kernel's <asm/copy_routines.h> in a program, where nothing is poisoned. */
#define _ASM_EXTABLE_TYPE(from, to, type) ""
