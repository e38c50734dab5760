// SPDX-License-Identifier: GPL-2.0
/*
 * The checked free, and the reports of what it refuses.
 *
 * A refused free changes nothing. Which of two racing frees wins is decided by
 * one cmpxchg of the buffer's state; only the winner touches the free list.
 */

#include <linux/device.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>

#include "internal.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

const char * const ucb_misuse_names[UCB_NR_MISUSES] = {
	[UCB_MISUSE_SIZE] = "size differs from the allocation",
	[UCB_MISUSE_DMA] = "dma differs from the allocation",
	[UCB_MISUSE_UNKNOWN] = "no buffer starts at this address",
	[UCB_MISUSE_DOUBLE] = "freed twice",
	[UCB_MISUSE_BUSY] = "a URB or registration is at work on it",
	[UCB_MISUSE_GONE] = "its pool or controller is gone",
	[UCB_MISUSE_URB] = "URB does not match its buffer",
	[UCB_MISUSE_OVERRUN] = "written past the requested size",
	[UCB_MISUSE_USE_AFTER_FREE] = "written after free",
};

/*
 * Count, trace and report one refused call. The values are the two that
 * differ: sizes, DMA addresses or states; never kernel addresses.
 */
int ucb_refuse(struct ucb_pool *pool, struct ucb_buf *buf,
	       enum ucb_misuse what, int error, u64 want, u64 got,
	       unsigned long caller)
{
	unsigned long owner = buf ? READ_ONCE(buf->caller) : 0;

	atomic_long_inc(&pool->misuse[what]);
	trace_ucb_misuse(pool->id, ucb_misuse_names[what], error, caller);
	dev_err_ratelimited(&pool->udev->dev,
			    "ucb: pool %u (%s): %s: expected %#llx, got %#llx, called from %pS, allocated by %pS\n",
			    pool->id, pool->name, ucb_misuse_names[what], want,
			    got, (void *)caller, (void *)owner);
	return error;
}

/* The caller has won the buffer: state 0 is set and it is on no list yet. */
static int ucb_buf_home(struct ucb_buf *buf)
{
	struct ucb_block *block = buf->block;
	struct ucb_pool *pool = block->pool;
	bool reap = false, forget;
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (pool->dead) {
		raw_spin_unlock_irqrestore(&pool->lock, flags);
		return -ENODEV;
	}
	pool->nr_live--;
	if (pool->dropin && (buf->class == UCB_CLASS_NONE ||
			     pool->idle + block->size > UCB_DROPIN_IDLE_BYTES)) {
		/* off the pool: from here the worker's alone */
		list_del_init(&block->node);
		pool->nr_blocks--;
		pool->nr_bufs--;
		reap = true;
	} else {
		pool->idle += block->stride;
		if (pool->flags & UCB_POOL_DEBUG)
			list_add_tail(&buf->node, &pool->free[buf->class]);
		else
			list_add(&buf->node, &pool->free[buf->class]);
	}
	forget = pool->dropin && pool->gone && !pool->nr_live;
	/* under the lock: once it is dropped, reclaiming may run to its end */
	if (reap)
		llist_add(&block->reap, &pool->reap);
	if (reap)
		queue_work(ucb_wq, &pool->work);
	if (forget)
		ucb_dropin_sweep();
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return 0;
}

int ucb_buf_check_and_free(struct ucb_buf *buf, const dma_addr_t *dma,
			   const size_t *size, unsigned long caller)
{
	struct ucb_pool *pool = buf->block->pool;
	bool debug = pool->flags & UCB_POOL_DEBUG;
	int use = atomic_read(&buf->use);

	if (READ_ONCE(pool->dead))
		return ucb_refuse(pool, buf, UCB_MISUSE_GONE, -ENODEV, 0, 0,
				  caller);
	if (use <= 0)
		return ucb_refuse(pool, buf, UCB_MISUSE_DOUBLE, -EALREADY, 1,
				  use, caller);
	if (size && *size != buf->requested)
		return ucb_refuse(pool, buf, UCB_MISUSE_SIZE, -EINVAL,
				  buf->requested, *size, caller);
	if (dma && *dma != buf->dma)
		return ucb_refuse(pool, buf, UCB_MISUSE_DMA, -EINVAL, buf->dma,
				  *dma, caller);

	/*
	 * In a debug pool the bytes are looked at before the state changes
	 * hands, so that a loser of the race never reads a reissued buffer.
	 */
	use = atomic_cmpxchg(&buf->use, 1, debug ? UCB_QUARANTINED : 0);
	if (use > 1)
		return ucb_refuse(pool, buf, UCB_MISUSE_BUSY, -EBUSY, 1, use,
				  caller);
	if (use != 1)
		return ucb_refuse(pool, buf, UCB_MISUSE_DOUBLE, -EALREADY, 1,
				  use, caller);
	if (debug) {
		if (!ucb_guard_intact(buf)) {
			unsigned long flags;

			raw_spin_lock_irqsave(&pool->lock, flags);
			pool->nr_live--;
			raw_spin_unlock_irqrestore(&pool->lock, flags);
			return 0;
		}
		ucb_poison(buf);
		atomic_set_release(&buf->use, 0);
	} else if (want_init_on_free()) {
		memset(buf->addr, 0, buf->requested);
	}
	return ucb_buf_home(buf);
}

/**
 * ucb_pool_free() - give a buffer back to its pool
 * @pool: the pool it came from
 * @addr: what ucb_pool_alloc() returned
 * @dma: what it stored
 *
 * The checked counterpart of dma_pool_free(). Whatever is refused is left as
 * it was, and reported once.
 *
 * Context: Any but NMI; locks held and IRQs off are fine.
 * Return: 0; -EINVAL when @dma is not the buffer's; -ENOENT when no buffer of
 * @pool starts at @addr; -EALREADY when it was freed before and not handed out
 * again; -EBUSY while a URB submitted with ucb_submit_urb() or a registration
 * is at work on it; -ENODEV when the controller has gone, with nothing
 * touched.
 */
int ucb_pool_free(struct ucb_pool *pool, void *addr, dma_addr_t dma)
{
	struct ucb_buf *buf;
	int ret;

	rcu_read_lock();
	buf = ucb_buf_find(addr);
	if (buf && buf->block->pool == pool)
		ret = ucb_buf_check_and_free(buf, &dma, NULL, _RET_IP_);
	else if (READ_ONCE(pool->dead))
		ret = ucb_refuse(pool, NULL, UCB_MISUSE_GONE, -ENODEV, 0, 0,
				 _RET_IP_);
	else
		ret = ucb_refuse(pool, NULL, UCB_MISUSE_UNKNOWN, -ENOENT, 0, 0,
				 _RET_IP_);
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_pool_free);

/**
 * ucb_buf_free() - give a buffer back by its handle
 * @buf: from ucb_buf_alloc()
 *
 * On 0 and on -ENODEV the handle is given up as well.
 *
 * Context: Any but NMI; locks held and IRQs off are fine.
 * Return: 0; -EALREADY, -EBUSY or -ENODEV as for ucb_pool_free().
 */
int ucb_buf_free(struct ucb_buf *buf)
{
	int ret;

	rcu_read_lock();
	ret = ucb_buf_check_and_free(buf, NULL, NULL, _RET_IP_);
	if (!ret || ret == -ENODEV)
		ucb_buf_put(buf);
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_buf_free);

/**
 * ucb_buf_busy_get() - mark a buffer as being worked on
 * @buf: a buffer that the driver has
 *
 * Until ucb_buf_busy_put() the buffer cannot be freed, and its record stays.
 * A client that registers buffers lists the registration before this call, so
 * that a revoke running at the same time either sees it or makes this call
 * fail.
 *
 * Context: Any but NMI.
 * Return: 0; -ENOENT when the driver does not have the buffer; -ENODEV when
 * its pool is going or its device has gone.
 */
int ucb_buf_busy_get(struct ucb_buf *buf)
{
	struct ucb_pool *pool = buf->block->pool;
	int use = atomic_read(&buf->use);

	do {
		if (use < 1)
			return -ENOENT;
	} while (!atomic_try_cmpxchg(&buf->use, &use, use + 1));
	/* the cmpxchg is a full barrier: pairs with the lock around dying */
	if (READ_ONCE(pool->dying) || READ_ONCE(pool->gone)) {
		atomic_dec(&buf->use);
		return -ENODEV;
	}
	kref_get(&buf->block->ref);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_buf_busy_get);

/**
 * ucb_buf_busy_put() - the work on a buffer is over
 * @buf: from ucb_buf_busy_get()
 *
 * Context: Any but NMI.
 */
void ucb_buf_busy_put(struct ucb_buf *buf)
{
	struct ucb_block *block = buf->block;

	atomic_dec(&buf->use);
	ucb_block_put(block);
}
EXPORT_SYMBOL_GPL(ucb_buf_busy_put);
