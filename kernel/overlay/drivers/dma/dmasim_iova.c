// SPDX-License-Identifier: GPL-2.0-only
/*
 * An IOMMU made of software for dmasim: DMA addresses that are no physical
 * ones, and scatterlists whose neighbours are merged, differently for sources
 * and for destinations. An address is used once and never again, so that an
 * access through a mapping that is gone is found out.
 */
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/maple_tree.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "dmasim_iova.h"

/* Far above physical memory; what is left lasts longer than any machine runs. */
#define DMASIM_IOVA_BEGIN	BIT_ULL(52)

/* How many neighbours become one; primes, so that the borders seldom agree. */
#define DMASIM_MERGE_SRC	3
#define DMASIM_MERGE_DST	5

struct dmasim_extent {
	phys_addr_t phys;
	dma_addr_t begin;
	size_t len;
};

static DEFINE_MTREE(dmasim_iovas);
static atomic64_t dmasim_next_iova = ATOMIC64_INIT(DMASIM_IOVA_BEGIN);

static int dmasim_add(dma_addr_t iova, phys_addr_t phys, size_t len)
{
	struct dmasim_extent *extent = kmalloc_obj(*extent, GFP_NOWAIT);
	int ret;

	if (!extent)
		return -ENOMEM;

	*extent = (struct dmasim_extent){ phys, iova, len };
	ret = mtree_store_range(&dmasim_iovas, iova, iova + len - 1, extent,
				GFP_NOWAIT);
	if (ret)
		kfree(extent);
	return ret;
}

static void dmasim_remove_range(dma_addr_t iova, size_t len)
{
	const dma_addr_t end = iova + len;

	while (iova < end) {
		struct dmasim_extent *extent = mtree_erase(&dmasim_iovas, iova);

		if (WARN_ON_ONCE(!extent))
			return;
		iova = extent->begin + extent->len;
		kfree(extent);
	}
}

/* One more page than needed: neighbours in time never touch. */
static dma_addr_t dmasim_reserve(size_t len)
{
	return atomic64_fetch_add(PAGE_ALIGN(len) + PAGE_SIZE,
				  &dmasim_next_iova);
}

static dma_addr_t dmasim_map_phys(struct device *dev, phys_addr_t phys,
				  size_t size, enum dma_data_direction dir,
				  unsigned long attrs)
{
	dma_addr_t iova = dmasim_reserve(size);

	return dmasim_add(iova, phys, size) ? DMA_MAPPING_ERROR : iova;
}

static void dmasim_unmap_phys(struct device *dev, dma_addr_t iova, size_t size,
			      enum dma_data_direction dir, unsigned long attrs)
{
	dmasim_remove_range(iova, size);
}

static void dmasim_unmap_sg(struct device *dev, struct scatterlist *sgl,
			    int nents, enum dma_data_direction dir,
			    unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	/* fewer than @nents, if there was something to merge */
	for_each_sg(sgl, sg, nents, i) {
		if (!sg_dma_len(sg))
			break;
		dmasim_remove_range(sg_dma_address(sg), sg_dma_len(sg));
	}
}

static int dmasim_map_sg(struct device *dev, struct scatterlist *sgl, int nents,
			 enum dma_data_direction dir, unsigned long attrs)
{
	const int merge = dir == DMA_FROM_DEVICE ? DMASIM_MERGE_DST :
						   DMASIM_MERGE_SRC;
	struct scatterlist *sg, *out = sgl;
	int i, in_group = 0, nr = 0;
	dma_addr_t iova = 0;

	for_each_sg(sgl, sg, nents, i)
		sg_dma_len(sg) = 0;

	for_each_sg(sgl, sg, nents, i) {
		struct scatterlist *ahead = sg;
		size_t len = 0;
		int j;

		if (!in_group) {
			for (j = 0; j < merge && i + j < nents; j++) {
				len += ahead->length;
				ahead = sg_next(ahead);
			}
			iova = dmasim_reserve(len);
			if (nr++)
				out = sg_next(out);
			sg_dma_address(out) = iova;
		}
		if (dmasim_add(iova, sg_phys(sg), sg->length)) {
			dmasim_unmap_sg(dev, sgl, nents, dir, attrs);
			return -ENOMEM;
		}
		sg_dma_len(out) += sg->length;
		iova += sg->length;
		in_group = (in_group + 1) % merge;
	}

	return nr;
}

static int dmasim_dma_supported(struct device *dev, u64 mask)
{
	return mask == DMA_BIT_MASK(64);
}

static const struct dma_map_ops dmasim_dma_ops = {
	.map_phys	= dmasim_map_phys,
	.unmap_phys	= dmasim_unmap_phys,
	.map_sg		= dmasim_map_sg,
	.unmap_sg	= dmasim_unmap_sg,
	.dma_supported	= dmasim_dma_supported,
};

/**
 * dmasim_iova_enable() - put a device behind the IOMMU made of software
 * @dev: the device, for which nothing is mapped yet
 *
 * Return: 0
 */
int dmasim_iova_enable(struct device *dev)
{
	set_dma_ops(dev, &dmasim_dma_ops);
	return 0;
}

/**
 * dmasim_iova_find() - find the memory behind an address
 * @dev: the device
 * @addr: the address
 * @len: set to how many bytes lie there in a row
 *
 * Return: the memory; NULL if the device is not behind this IOMMU, or if nothing
 * is mapped there.
 */
void *dmasim_iova_find(struct device *dev, dma_addr_t addr, size_t *len)
{
	struct dmasim_extent *extent;

	if (get_dma_ops(dev) != &dmasim_dma_ops)
		return NULL;

	/* freed when it is unmapped, which no client does with a copy in flight */
	extent = mtree_load(&dmasim_iovas, addr);
	if (WARN_ONCE(!extent, "dmasim: nothing is mapped at %pad\n", &addr))
		return NULL;

	*len = extent->len - (addr - extent->begin);
	return phys_to_virt(extent->phys + (addr - extent->begin));
}
