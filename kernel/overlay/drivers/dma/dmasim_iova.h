/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DMA addresses of dmasim that are no physical ones.
 */
#ifndef __DMASIM_IOVA_H
#define __DMASIM_IOVA_H

#include <linux/errno.h>
#include <linux/types.h>

struct device;

#ifdef CONFIG_DMASIM_IOVA
int dmasim_iova_enable(struct device *dev);
void *dmasim_iova_find(struct device *dev, dma_addr_t addr, size_t *len);
#else
static inline int dmasim_iova_enable(struct device *dev)
{
	return -EOPNOTSUPP;
}

static inline void *dmasim_iova_find(struct device *dev, dma_addr_t addr,
				     size_t *len)
{
	return NULL;
}
#endif

#endif /* __DMASIM_IOVA_H */
