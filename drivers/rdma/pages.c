// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of a registration, mapped for the NIC.
 */
#include <linux/dma-mapping.h>
#include <linux/mm.h>

#include "../compat.h"
#include "bridge.h"

/* Coherent for the USB controller, and never synced for the NIC. */
#define UCB_MAP_ATTRS	(DMA_ATTR_SKIP_CPU_SYNC | DMA_ATTR_REQUIRE_COHERENT)

/* Cut [@skip, @skip + @length) out of @src. */
static int cut_sgtable(struct sg_table *dst, struct sg_table *src, size_t skip,
		       size_t length)
{
	struct scatterlist *to;
	struct scatterlist *sg;
	unsigned int nents = 0;
	size_t left = length;
	size_t from = skip;
	unsigned int off;
	size_t take;
	int err;
	int i;

	for_each_sgtable_sg(src, sg, i) {
		if (from >= sg->length) {
			from -= sg->length;
			continue;
		}
		take = min(left, sg->length - from);
		left -= take;
		from = 0;
		nents++;
		if (!left)
			break;
	}
	if (left)
		return -ERANGE;

	err = sg_alloc_table(dst, nents, GFP_KERNEL);
	if (err)
		return err;

	to = dst->sgl;
	for_each_sgtable_sg(src, sg, i) {
		if (skip >= sg->length) {
			skip -= sg->length;
			continue;
		}
		take = min(length, sg->length - skip);
		off = sg->offset + skip;
		sg_set_page(to, pfn_to_page(page_to_pfn(sg_page(sg)) +
					    (off >> PAGE_SHIFT)),
			    take, offset_in_page(off));
		to = sg_next(to);
		length -= take;
		skip = 0;
		if (!length)
			break;
	}
	return 0;
}

static int mr_get_pages(struct ucb_mr *mr, size_t offset,
			const struct ucb_span *spans, unsigned int nr)
{
	struct sg_table pages;
	size_t start;
	int err;

	if (!mr->buf)
		return ucb_pool_get_sgtable(mr->pool, spans, nr, &mr->sgt);

	err = ucb_buf_get_sgtable(mr->buf, &pages, &start);
	if (err)
		return err;
	err = cut_sgtable(&mr->sgt, &pages, start + offset, mr->mapped);
	sg_free_table(&pages);
	return err;
}

int ucb_mr_map_pages(struct ucb_mr *mr, size_t offset,
		     const struct ucb_span *spans, unsigned int nr)
{
	struct ib_device *ibdev = mr->pd->ibdev;
	int err;

	err = mr_get_pages(mr, offset, spans, nr);
	if (err)
		return err;

	mr->dir = mr->map_access & IB_ACCESS_LOCAL_WRITE ? DMA_BIDIRECTIONAL :
							   DMA_TO_DEVICE;
	err = ib_dma_map_sgtable_attrs(ibdev, &mr->sgt, mr->dir, UCB_MAP_ATTRS);
	if (err)
		sg_free_table(&mr->sgt);
	return err;
}

/* With @lost the device may still use its addresses, and they stay mapped. */
void ucb_mr_unmap_pages(struct ucb_mr *mr, bool lost)
{
	if (!lost)
		ib_dma_unmap_sgtable_attrs(mr->pd->ibdev, &mr->sgt, mr->dir,
					   UCB_MAP_ATTRS);
	sg_free_table(&mr->sgt);
}
