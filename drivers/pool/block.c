// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks: the memory that comes from the USB core, and the table that finds a
 * buffer by its address.
 *
 * One block is one usb_alloc_coherent() allocation, cut into equal buffers.
 * Every buffer of every pool is in one hash table by address, read under RCU
 * from any context; inserting and removing is done where blocks are made and
 * given back. The record of a block is freed by RCU, after its last handle.
 */

#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "internal.h"

static struct rhashtable ucb_bufs;

static const struct rhashtable_params ucb_bufs_params = {
	.key_len = sizeof_field(struct ucb_buf, addr),
	.key_offset = offsetof(struct ucb_buf, addr),
	.head_offset = offsetof(struct ucb_buf, hash),
	.automatic_shrinking = true,
};

int ucb_bufs_init(void)
{
	return rhashtable_init(&ucb_bufs, &ucb_bufs_params);
}

void ucb_bufs_exit(void)
{
	rhashtable_destroy(&ucb_bufs);
}

/* The caller is inside rcu_read_lock(). */
struct ucb_buf *ucb_buf_find(const void *addr)
{
	return rhashtable_lookup(&ucb_bufs, &addr, ucb_bufs_params);
}

static void ucb_block_hide_first(struct ucb_block *block, unsigned int nr)
{
	while (nr--)
		rhashtable_remove_fast(&ucb_bufs, &block->bufs[nr].hash,
				       ucb_bufs_params);
}

/* From here on no address of the block is found. */
void ucb_block_hide(struct ucb_block *block)
{
	ucb_block_hide_first(block, block->nr);
}

static void ucb_block_free_core(struct ucb_block *block)
{
	struct ucb_pool *pool = block->pool;

	atomic_long_inc(&pool->core_frees);
	usb_free_coherent(pool->udev, block->size, block->addr, block->dma);
}

/* Process context: dma_free_coherent() may unmap. */
void ucb_block_release_memory(struct ucb_block *block)
{
	might_sleep();
	ucb_block_free_core(block);
	ucb_block_put(block);
}

static void ucb_block_release(struct kref *ref)
{
	struct ucb_block *block = container_of(ref, struct ucb_block, ref);

	ucb_pool_put(block->pool);
	kfree_rcu(block, rcu);
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

struct ucb_block *ucb_block_new(struct ucb_pool *pool, unsigned int class,
				unsigned int nr, size_t stride, size_t size,
				gfp_t gfp)
{
	struct ucb_block *block;
	unsigned int i;

	block = kzalloc(struct_size(block, bufs, nr), gfp & ~__GFP_ZERO);
	if (!block)
		return NULL;
	kref_init(&block->ref);
	block->nr = nr;
	block->pool = pool;
	block->size = size;
	block->stride = stride;
	atomic_long_inc(&pool->core_allocs);
	block->addr = usb_alloc_coherent(pool->udev, size, gfp & ~__GFP_ZERO,
					 &block->dma);
	if (!block->addr)
		goto err_free;
	if (!ucb_core_zeroes(pool, size))
		memset(block->addr, 0, size);

	for (i = 0; i < nr; i++) {
		struct ucb_buf *buf = &block->bufs[i];

		buf->block = block;
		buf->class = class;
		buf->addr = block->addr + i * stride;
		/* PIO controllers give every buffer the same address, ~0 */
		buf->dma = pool->kind == UCB_HCD_PIO ? block->dma :
						       block->dma + i * stride;
		INIT_LIST_HEAD(&buf->node);
		if (pool->flags & UCB_POOL_DEBUG)
			ucb_poison(buf);
		if (rhashtable_insert_fast(&ucb_bufs, &buf->hash,
					   ucb_bufs_params))
			goto err_hide;
	}
	kref_get(&pool->ref);
	return block;

err_hide:
	ucb_block_hide_first(block, i);
	/*
	 * A lookup may have seen the record: it waits for the grace period.
	 * The memory was never handed out; in atomic context it is at most
	 * 2048 bytes or goes with the worker.
	 */
	kref_get(&pool->ref);
	llist_add(&block->reap, &pool->reap);
	queue_work(ucb_wq, &pool->work);
	return NULL;
err_free:
	kfree(block);
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
	if (!buf || buf->block->pool != pool || atomic_read(&buf->use) < 1 ||
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
