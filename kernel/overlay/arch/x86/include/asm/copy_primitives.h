/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Primitives that copy ranges of pages, documented in arch/x86/lib/copy_pages_64.S.
 * The benchmarks in tools/mm include this file as well.
 */
#ifndef _ASM_X86_COPY_PRIMITIVES_H
#define _ASM_X86_COPY_PRIMITIVES_H

void copy_pages_movsb(void *dst, const void *src, unsigned long len);
void copy_pages_movsq(void *dst, const void *src, unsigned long len);
void copy_pages_nontemporal(void *dst, const void *src, unsigned long len);

unsigned long copy_mc_pages_movsb(void *dst, const void *src, unsigned long len);
unsigned long copy_mc_pages_movsq(void *dst, const void *src, unsigned long len);
unsigned long copy_mc_pages_nontemporal(void *dst, const void *src, unsigned long len);

#endif /* _ASM_X86_COPY_PRIMITIVES_H */
