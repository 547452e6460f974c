/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies of ranges of pages, with the instructions that copy_page() and
 * copy_mc_to_kernel() use for a page. The callers copy KMSAN's metadata.
 */
#ifndef _ASM_X86_COPY_PAGES_H
#define _ASM_X86_COPY_PAGES_H

#include <linux/cpufeature.h>
#include <linux/instrumented.h>
#include <linux/uaccess.h>

/**
 * arch_copy_pages - copy a range of pages at once
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: the number of bytes that are left to copy_page(): none, or @len.
 */
static inline unsigned long arch_copy_pages(void *dst, const void *src, unsigned long len)
{
	unsigned long words = len / sizeof(u64);

	if (!cpu_feature_enabled(X86_FEATURE_REP_GOOD))
		return len;
	instrument_memcpy_before(dst, src, len);
	asm volatile("rep movsq" : "+D" (dst), "+S" (src), "+c" (words) : : "memory");
	return 0;
}

/**
 * arch_copy_mc_pages - copy a range of pages that may be poisoned at once
 * @dst: destination, page aligned
 * @src: source, page aligned
 * @len: length in bytes, a multiple of the page size and not 0
 *
 * Return: the number of bytes at the end that were not copied, because of poison at the
 * first of them or shortly after it.
 */
static inline unsigned long arch_copy_mc_pages(void *dst, const void *src, unsigned long len)
{
	return copy_mc_to_kernel(dst, src, len);
}

#endif /* _ASM_X86_COPY_PAGES_H */
