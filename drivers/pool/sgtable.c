// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of a buffer, for a second device to map.
 *
 * dma_get_sgtable() is not safe in general, so what it returns is believed
 * only where it agrees with the kernel's own page tables, page by page.
 */

#include <linux/cc_platform.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "internal.h"

/*
 * As force_dma_unencrypted(), which is not exported, where the platform tells of
 * its encryption at all (s390 does not before 7.3), or stricter: the host's own
 * encryption (SME) is a bit of the address that 64-bit devices alone are sure
 * to have.
 */
static bool ucb_dma_is_decrypted(struct device *dev)
{
	u64 mask = min_not_zero(dev->coherent_dma_mask, dev->bus_dma_limit);

	if (cc_platform_has(CC_ATTR_HOST_MEM_ENCRYPT))
		return mask < DMA_BIT_MASK(64);
	return cc_platform_has(CC_ATTR_MEM_ENCRYPT);
}

/* Why no buffer of the pool can be given to another device; or NULL. */
const char *ucb_why_no_pages(const struct ucb_pool *pool)
{
	struct device *dev = pool->udev->bus->sysdev;

	if (!(pool->flags & UCB_POOL_RDMA))
		return "the pool was made without UCB_POOL_RDMA";
	switch (pool->kind) {
	case UCB_HCD_LOCALMEM:
		return "the controller's local memory has no pages";
	case UCB_HCD_PIO:
		return NULL;
	case UCB_HCD_DMA:
		break;
	}
#ifdef CONFIG_DMA_DECLARE_COHERENT
	if (dev->dma_mem)
		return "per-device coherent memory";
#endif
	if (!dev_is_dma_coherent(dev))
		return "uncached mapping";
	if (ucb_dma_is_decrypted(dev))
		return "memory is decrypted for DMA";
	return NULL;
}

static struct page *ucb_page_of(void *addr)
{
	if (is_vmalloc_addr(addr))
		return vmalloc_to_page(addr);
	return virt_addr_valid(addr) ? virt_to_page(addr) : NULL;
}

/*
 * 0 when the DMA API names the same pages for the block as the page tables, or
 * -ENOMEM; any other error when it does not.
 */
static int ucb_span_check_pages(struct ucb_pool *pool,
				const struct ucb_span *span)
{
	struct device *dev = pool->udev->bus->sysdev;
	struct sg_page_iter iter;
	struct sg_table sgt;
	size_t done = 0;
	bool ok = true;
	int ret;

	ret = dma_get_sgtable(dev, &sgt, span->addr, span->dma, span->size);
	if (ret)
		return ret;
	for_each_sgtable_page(&sgt, &iter, 0) {
		struct page *page = sg_page_iter_page(&iter);

		if (done >= span->size)
			break;
		ok = pfn_valid(page_to_pfn(page)) &&
		     page == ucb_page_of(span->addr + done);
		if (!ok)
			break;
		done += PAGE_SIZE;
	}
	sg_free_table(&sgt);
	return ok && done >= span->size ? 0 : -EOPNOTSUPP;
}

/* 0; -EOPNOTSUPP when no other device may have the block; -ENOMEM */
static int ucb_span_check(struct ucb_pool *pool, const struct ucb_span *span)
{
	const char *why = ucb_why_no_pages(pool);
	int ret;

	if (!why && !PAGE_ALIGNED(span->addr))
		why = "the block shares a page";
	ret = why || pool->kind != UCB_HCD_DMA ? 0 :
						 ucb_span_check_pages(pool, span);
	if (ret == -ENOMEM)
		return ret;
	if (ret)
		why = "the DMA API does not name its pages";
	if (!why)
		return 0;
	dev_warn_ratelimited(&pool->udev->dev,
			     "ucb: pool %u (%s): no remote access: %s\n",
			     pool->id, pool->name, why);
	return -EOPNOTSUPP;
}

/* The pages of @spans, which start and end with pages. */
static int ucb_pages_get_sgtable(const struct ucb_span *spans, unsigned int nr,
				 struct sg_table *sgt)
{
	struct page **pages;
	unsigned int n = 0;
	unsigned int i;
	size_t done;
	size_t size;
	int ret;

	for (size = 0, i = 0; i < nr; i++)
		size += spans[i].size;
	pages = kvmalloc_array(size >> PAGE_SHIFT, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		for (done = 0; done < spans[i].size; done += PAGE_SIZE)
			pages[n++] = ucb_page_of(spans[i].addr + done);
	ret = sg_alloc_table_from_pages(sgt, pages, n, 0, size, GFP_KERNEL);
	kvfree(pages);
	return ret;
}

/**
 * ucb_buf_get_sgtable() - the pages under a buffer
 * @buf: a buffer on which the caller holds ucb_buf_busy_get()
 * @sgt: filled in; to be freed with sg_free_table()
 * @offset: stores where in the first page the buffer starts, in bytes
 *
 * Checked where dma_get_sgtable() is not.
 *
 * Context: Process; may sleep.
 * Return: 0; -EOPNOTSUPP when the memory must not be given to another device
 * (the log says why); -ENOMEM.
 */
int ucb_buf_get_sgtable(struct ucb_buf *buf, struct sg_table *sgt,
			size_t *offset)
{
	struct ucb_block *block = buf->block;
	struct ucb_span whole = {
		.addr = block->addr,
		.dma = block->dma,
		.size = block->size,
	};
	struct ucb_span pages;
	int ret;

	ret = ucb_span_check(block->pool, &whole);
	if (ret)
		return ret;
	*offset = offset_in_page(buf->addr);
	pages.addr = buf->addr - *offset;
	pages.size = PAGE_ALIGN(*offset + buf->requested);
	return ucb_pages_get_sgtable(&pages, 1, sgt);
}
EXPORT_SYMBOL_GPL(ucb_buf_get_sgtable);

/**
 * ucb_pool_get_sgtable() - the pages of blocks
 * @pool: the pool
 * @spans: blocks of ucb_pool_get_spans(), before ucb_pool_put_spans()
 * @nr: how many
 * @sgt: filled in; to be freed with sg_free_table()
 *
 * Context: Process; may sleep.
 * Return: as ucb_buf_get_sgtable().
 */
int ucb_pool_get_sgtable(struct ucb_pool *pool, const struct ucb_span *spans,
			 unsigned int nr, struct sg_table *sgt)
{
	unsigned int i;
	int ret;

	for (i = 0; i < nr; i++) {
		ret = ucb_span_check(pool, &spans[i]);
		if (ret)
			return ret;
	}
	return ucb_pages_get_sgtable(spans, nr, sgt);
}
EXPORT_SYMBOL_GPL(ucb_pool_get_sgtable);
