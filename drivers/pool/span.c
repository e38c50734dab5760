// SPDX-License-Identifier: GPL-2.0
/*
 * Whole blocks, for a client that registers a pool once and for all: what its
 * peer reaches is all that the pool has, at home or out.
 */

#include <linux/slab.h>

#include "internal.h"

/*
 * Nothing may be added to the pool, or go back, while its blocks are known:
 * from here on it has a pin.
 */
static int ucb_pool_fix(struct ucb_pool *pool)
{
	unsigned long flags;
	int ret = 0;

	if (ucb_why_no_pages(pool) || (pool->flags & UCB_POOL_DEBUG))
		return -EOPNOTSUPP;
	ucb_cache_drain(pool, 0);
	raw_spin_lock_irqsave(&pool->lock, flags);
	if (!pool->min || pool->min != pool->max || pool->nr_bufs != pool->max)
		ret = -EINVAL;
	else if (!pool->pins && ucb_cache_live(pool))
		ret = -EBUSY;
	else
		pool->pins++;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return ret;
}

/* The blocks, and their memory zeroed unless somebody has it registered. */
static unsigned int ucb_pool_fill_spans(struct ucb_pool *pool,
					struct ucb_span *spans,
					unsigned int nr)
{
	struct ucb_block *block;
	unsigned long flags;
	unsigned int i = 0;
	bool shared;

	raw_spin_lock_irqsave(&pool->lock, flags);
	list_for_each_entry(block, &pool->blocks, node) {
		if (i == nr)
			break;
		spans[i].addr = block->addr;
		spans[i].dma = block->dma;
		spans[i].size = block->size;
		i++;
	}
	shared = pool->pins > 1;
	raw_spin_unlock_irqrestore(&pool->lock, flags);

	if (shared)
		return i;
	for (nr = 0; nr < i; nr++)
		ucb_zero(spans[nr].addr, spans[nr].size);
	return i;
}

/**
 * ucb_pool_get_spans() - all blocks of a pool, zeroed
 * @pool: a pool with UCB_POOL_RDMA whose min and max are the same, with no
 *	buffer out
 * @nr: stores how many
 *
 * Blocks that are pinned are not zeroed: who registers them as well shares what
 * is in them. Until ucb_pool_put_spans() the pool's destruction waits.
 *
 * Context: Process; may sleep. Calls for a pool must not overlap, and no buffer
 * of it is allocated meanwhile.
 * Return: the blocks; or ERR_PTR of -EINVAL when the pool can grow or shrink;
 * -EBUSY when a buffer is out; -EOPNOTSUPP when the memory must not be given to
 * another device, or for a debug pool, which watches its bytes; -ENODEV when
 * the pool is going; -ENOMEM.
 */
struct ucb_span *ucb_pool_get_spans(struct ucb_pool *pool, unsigned int *nr)
{
	struct ucb_span *spans;
	int ret = -ENODEV;

	if (!ucb_pool_enter(pool))
		return ERR_PTR(ret);
	ret = ucb_pool_fix(pool);
	if (ret)
		goto err_exit;
	ret = -ENOMEM;
	spans = kvcalloc(pool->nr_blocks, sizeof(*spans), GFP_KERNEL);
	if (!spans)
		goto err_unpin;
	*nr = ucb_pool_fill_spans(pool, spans, pool->nr_blocks);
	return spans;

err_unpin:
	ucb_pool_unpin(pool, false);
err_exit:
	ucb_pool_exit(pool);
	return ERR_PTR(ret);
}
EXPORT_SYMBOL_GPL(ucb_pool_get_spans);

/**
 * ucb_pool_put_spans() - the other half of ucb_pool_get_spans()
 * @pool: the pool
 * @spans: what that returned
 *
 * Context: Process.
 */
void ucb_pool_put_spans(struct ucb_pool *pool, struct ucb_span *spans)
{
	kvfree(spans);
	ucb_pool_unpin(pool, false);
	ucb_pool_exit(pool);
}
EXPORT_SYMBOL_GPL(ucb_pool_put_spans);

/**
 * ucb_pool_pin() - a device is about to use a pool's blocks
 * @pool: the pool
 *
 * As ucb_buf_busy_get(), for blocks: the registration is listed before. Buffers
 * can be allocated and freed; the pool keeps its size.
 *
 * Context: Any but NMI.
 * Return: 0, or -ENODEV when the pool is going or its device has gone.
 */
int ucb_pool_pin(struct ucb_pool *pool)
{
	unsigned long flags;
	int ret = 0;

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (ucb_pool_closed(pool) || pool->dead)
		ret = -ENODEV;
	else
		pool->pins++;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_pool_pin);

/**
 * ucb_pool_unpin() - a device no longer uses a pool's blocks
 * @pool: the pool
 * @lost: it may, for good: the memory never goes back to the kernel
 *
 * Context: Any but NMI.
 */
void ucb_pool_unpin(struct ucb_pool *pool, bool lost)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (lost)
		pool->lost = true;
	else
		pool->pins--;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}
EXPORT_SYMBOL_GPL(ucb_pool_unpin);
