/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/copy_pages.c provides for mm/util.c, and with KUnit for its tests, and the
 * functions that an architecture with ARCH_HAS_COPY_PAGES provides for it.
 */
#ifndef _MM_COPY_PAGES_H
#define _MM_COPY_PAGES_H

#include <linux/copy_pages.h>
#include <linux/types.h>

#include "copy_pages_select.h"

struct page;

unsigned int arch_copy_primitives(bool mc);
bool arch_copy_timings_last(void);
void arch_copy_pages_by(enum copy_primitive primitive, void *dst, const void *src,
			unsigned long len);
unsigned long arch_copy_mc_pages_by(enum copy_primitive primitive, void *dst,
				    const void *src, unsigned long len);
void arch_copy_evict(void *start, unsigned long len);

unsigned long copy_pages_chosen(struct page *dst, struct page *src, unsigned long len, bool mc);

/* Instead of an enum copy_primitive: use the calibrated choices. */
#define COPY_AUTO	(-1)

#if IS_ENABLED(CONFIG_KUNIT)
int copy_pages_force(int primitive);
int copy_pages_forced(void);
#endif

#endif /* _MM_COPY_PAGES_H */
