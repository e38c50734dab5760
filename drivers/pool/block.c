// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks: the memory that comes from the USB core, and the table that finds a
 * buffer by its address.
 *
 * One block is one usb_alloc_coherent() allocation, cut into equal buffers.
 * Every buffer of every pool is in one hash table by address, read under RCU
 * from any context. It is sized once, by the machine's memory: adding to it
 * must not fail, nor allocate with IRQs off. The record of a block is freed by
 * RCU, after its last holder.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "internal.h"

/* a bucket for so many pages of the machine's memory */
#define UCB_BUFS_PAGES_SHIFT	6
#define UCB_BUFS_MIN_BITS	8
#define UCB_BUFS_MAX_BITS	16

struct hlist_head *ucb_bufs __ro_after_init;
unsigned int ucb_bufs_shift __ro_after_init;
static DEFINE_RAW_SPINLOCK(ucb_bufs_lock);

int __init ucb_bufs_init(void)
{
	unsigned int bits = clamp(ilog2(totalram_pages()) - UCB_BUFS_PAGES_SHIFT,
				  UCB_BUFS_MIN_BITS, UCB_BUFS_MAX_BITS);

	ucb_bufs_shift = BITS_PER_LONG - bits;
	ucb_bufs = kvcalloc(1UL << bits, sizeof(*ucb_bufs), GFP_KERNEL);
	return ucb_bufs ? 0 : -ENOMEM;
}

void ucb_bufs_exit(void)
{
	kvfree(ucb_bufs);
}

static void ucb_block_show(struct ucb_block *block)
{
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&ucb_bufs_lock, flags);
	for (i = 0; i < block->nr; i++) {
		struct ucb_buf *buf = &block->bufs[i];

		hlist_add_head_rcu(&buf->hash, ucb_bufs_bucket(buf->addr));
	}
	raw_spin_unlock_irqrestore(&ucb_bufs_lock, flags);
}

/* From here on no address of the block is found. */
void ucb_block_hide(struct ucb_block *block)
{
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&ucb_bufs_lock, flags);
	for (i = 0; i < block->nr; i++)
		hlist_del_rcu(&block->bufs[i].hash);
	raw_spin_unlock_irqrestore(&ucb_bufs_lock, flags);
}

/* Process context: dma_free_coherent() may unmap. */
void ucb_block_release_memory(struct ucb_block *block)
{
	struct ucb_pool *pool = block->pool;

	might_sleep();
	atomic_long_inc(&pool->core_frees);
	usb_free_coherent(pool->udev, block->size, block->addr, block->dma);
	ucb_block_put(block);
}

static void ucb_block_free(struct ucb_block *block)
{
	kfree(block->stacks);
	kfree(block->bufs);
	kfree(block);
}

static void ucb_block_free_rcu(struct rcu_head *rcu)
{
	ucb_block_free(container_of(rcu, struct ucb_block, rcu));
}

static void ucb_block_release(struct kref *ref)
{
	struct ucb_block *block = container_of(ref, struct ucb_block, ref);

	ucb_pool_put(block->pool);
	call_rcu(&block->rcu, ucb_block_free_rcu);
}

void ucb_block_put(struct ucb_block *block)
{
	kref_put(&block->ref, ucb_block_release);
}

/*
 * The USB core zeroes what comes from dma_alloc_coherent() and nothing else;
 * what another driver left in the rest must not show.
 */
static bool ucb_core_zeroes(const struct ucb_pool *pool, size_t size)
{
	return pool->kind == UCB_HCD_DMA && size > 2048;
}

/*
 * Behind an IOMMU the DMA API allocates page tables and lists with GFP_KERNEL,
 * whatever it was asked for: the task's scope is what it cannot widen. That of
 * GFP_NOIO is GFP_NOFS's too.
 */
static void *ucb_core_alloc(struct ucb_pool *pool, size_t size, gfp_t gfp,
			    dma_addr_t *dma)
{
	bool scope = gfpflags_allow_blocking(gfp) &&
		     (gfp & GFP_KERNEL) != GFP_KERNEL;
	unsigned int noio = 0;
	void *addr;

	atomic_long_inc(&pool->core_allocs);
	/* what a caller asks for is no reason for the page allocator to WARN */
	if (size > KMALLOC_MAX_SIZE)
		gfp |= __GFP_NOWARN;
	if (scope)
		noio = memalloc_noio_save();
	addr = usb_alloc_coherent(pool->udev, size, gfp, dma);
	if (scope)
		memalloc_noio_restore(noio);
	return addr;
}

struct ucb_block *ucb_block_new(struct ucb_pool *pool, unsigned int class,
				unsigned int nr, size_t stride, size_t size,
				gfp_t gfp)
{
	struct ucb_block *block;
	bool unsettled;
	unsigned int i;

	block = kzalloc(sizeof(*block), UCB_RECORD_GFP(gfp));
	if (!block)
		return NULL;
	block->bufs = kcalloc(nr, sizeof(*block->bufs), UCB_RECORD_GFP(gfp));
	if (!block->bufs)
		goto err_free;
	kref_init(&block->ref);
	INIT_LIST_HEAD(&block->depot);
	block->nr = nr;
	block->pool = pool;
	block->class = class;
	block->cache = pool->cache + class;
	block->size = size;
	block->stride = stride;
	if ((pool->flags & UCB_POOL_DEBUG) && !ucb_stacks_alloc(block, gfp))
		goto err_free;
	gfp &= ~__GFP_ZERO;
	unsettled = ucb_pools_unsettled(pool, gfp);
	block->addr = ucb_core_alloc(pool, size, gfp, &block->dma);
	if (!block->addr && unsettled) {
		ucb_pools_settle();
		block->addr = ucb_core_alloc(pool, size, gfp, &block->dma);
	}
	if (!block->addr)
		goto err_free;
	if (!ucb_core_zeroes(pool, size))
		ucb_zero(block->addr, size);

	for (i = 0; i < nr; i++) {
		struct ucb_buf *buf = &block->bufs[i];

		buf->block = block;
		buf->requested = pool->size;
		buf->addr = block->addr + i * stride;
		/* PIO controllers give every buffer the same address, ~0 */
		buf->dma = pool->kind == UCB_HCD_PIO ? block->dma :
						       block->dma + i * stride;
		if (pool->flags & UCB_POOL_DEBUG)
			ucb_poison(buf);
	}
	kref_get(&pool->ref);
	ucb_block_show(block);
	return block;

err_free:
	ucb_block_free(block);
	return NULL;
}

/**
 * ucb_buf_addr() - address of a buffer
 * @buf: the buffer
 *
 * Context: Any.
 * Return: The kernel virtual address of the first byte. Behind an IOMMU this
 * is a vmalloc address.
 */
void *ucb_buf_addr(const struct ucb_buf *buf)
{
	return buf->addr;
}
EXPORT_SYMBOL_GPL(ucb_buf_addr);

/**
 * ucb_buf_dma() - DMA address of a buffer
 * @buf: the buffer
 *
 * Context: Any.
 * Return: What &urb.transfer_dma is set to; ~0 on a PIO controller.
 */
dma_addr_t ucb_buf_dma(const struct ucb_buf *buf)
{
	return buf->dma;
}
EXPORT_SYMBOL_GPL(ucb_buf_dma);

/**
 * ucb_buf_size() - size of a buffer
 * @buf: the buffer, with the driver
 *
 * Context: Any.
 * Return: Bytes that were asked for.
 */
size_t ucb_buf_size(const struct ucb_buf *buf)
{
	return buf->requested;
}
EXPORT_SYMBOL_GPL(ucb_buf_size);

/**
 * ucb_buf_pool() - pool of a buffer
 * @buf: the buffer
 *
 * Context: Any.
 * Return: The pool; valid while the buffer or a handle of it is held.
 */
struct ucb_pool *ucb_buf_pool(const struct ucb_buf *buf)
{
	return buf->block->pool;
}
EXPORT_SYMBOL_GPL(ucb_buf_pool);

/**
 * ucb_buf_get() - find a buffer by its address and hold its record
 * @pool: the pool it must belong to
 * @addr: address of its first byte
 *
 * The handle keeps the record, not the memory: that goes back when the pool
 * is destroyed or the controller removed.
 *
 * Context: Any but NMI.
 * Return: The buffer, to be given up with ucb_buf_put(); or ERR_PTR(-ENOENT)
 * when @addr is not the first byte of a buffer of @pool that the driver has.
 */
struct ucb_buf *ucb_buf_get(struct ucb_pool *pool, const void *addr)
{
	struct ucb_buf *buf;

	rcu_read_lock();
	buf = ucb_buf_find(addr);
	if (!buf || buf->block->pool != pool || atomic_read(&buf->use) < UCB_USE_OUT ||
	    !kref_get_unless_zero(&buf->block->ref))
		buf = ERR_PTR(-ENOENT);
	rcu_read_unlock();
	return buf;
}
EXPORT_SYMBOL_GPL(ucb_buf_get);

/**
 * ucb_buf_put() - give up a handle
 * @buf: from ucb_buf_get()
 *
 * Context: Any but NMI.
 */
void ucb_buf_put(struct ucb_buf *buf)
{
	ucb_block_put(buf->block);
}
EXPORT_SYMBOL_GPL(ucb_buf_put);
