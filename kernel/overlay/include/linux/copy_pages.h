/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _LINUX_COPY_PAGES_H
#define _LINUX_COPY_PAGES_H

struct page;

void copy_pages(struct page *dst, struct page *src, unsigned long nr_pages);
int __must_check copy_mc_pages(struct page *dst, struct page *src, unsigned long nr_pages);

#endif /* _LINUX_COPY_PAGES_H */
