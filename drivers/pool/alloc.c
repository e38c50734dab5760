// SPDX-License-Identifier: GPL-2.0
/*
 * Handing buffers out.
 *
 * A buffer comes from this CPU's cache, else from the depot (cache.c), else from
 * the other CPUs. A pool with none grows by a block, at once where the caller
 * may sleep, else through its worker.
 */

#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "cache.h"
#include "trace.h"

/*
 * Hand a buffer out that is on no list, off the fast path: a debug pool's with
 * what is watched. Reclaiming cannot free its record meanwhile.
 */
void ucb_buf_give(struct ucb_buf *buf, u32 requested, int use,
		  unsigned long caller, struct ucb_given *given)
{
	if (buf->block->pool->flags & UCB_POOL_DEBUG) {
		ucb_guard_arm(buf, requested);
		ucb_stacks_save(buf, false);
		use |= UCB_USE_SLOW;
	}
	WRITE_ONCE(buf->requested, requested);
	ucb_buf_hand_out(buf, use, caller);
	given->buf = buf;
	given->addr = buf->addr;
	given->dma = buf->dma;
}

/*
 * Without the cache: from the depot, and from the other CPUs when that is
 * empty.
 */
bool ucb_pool_take(struct ucb_pool *pool, unsigned int class, u32 requested,
		   int use, unsigned long caller, struct ucb_given *given)
{
	bool drained = false;
	struct ucb_buf *buf;
	unsigned long flags;

	rcu_read_lock();
	for (;;) {
		local_irq_save(flags);
		buf = ucb_depot_get(pool, class);
		local_irq_restore(flags);
		if (!buf) {
			if (drained)
				break;
			ucb_cache_drain(pool, class);
			drained = true;
			continue;
		}
		if ((pool->flags & UCB_POOL_DEBUG) && !ucb_poison_intact(buf)) {
			ucb_buf_quarantine(buf);
			continue;
		}
		ucb_buf_give(buf, requested, use, caller, given);
		break;
	}
	rcu_read_unlock();
	return buf;
}

/*
 * While somebody waits, no buffer stays in a cache. A CPU that puts one there
 * reads its limit after that; a waiter looks into the caches after it has set
 * the limits. Between is a full barrier on both sides: one sees the other.
 */
static void ucb_pool_add_waiters(struct ucb_pool *pool, int add)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	WRITE_ONCE(pool->waiters, pool->waiters + add);
	ucb_cache_set_limits(pool);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	/* pairs with the cmpxchg of ucb_cache_push() */
	smp_mb();
}

/*
 * A search that misses no buffer: an ordinary one goes from cache to cache, and
 * buffers come home behind its back.
 */
static bool ucb_pool_take_last(struct ucb_pool *pool, int use,
			       unsigned long caller, struct ucb_given *given)
{
	bool got;

	ucb_pool_add_waiters(pool, 1);
	got = ucb_pool_take(pool, 0, pool->size, use, caller, given);
	ucb_pool_add_waiters(pool, -1);
	return got;
}

/* After a miss: grow, or have the worker do it. */
static noinline bool ucb_pool_get_slow(struct ucb_pool *pool, gfp_t gfp,
				       int use, unsigned long caller,
				       struct ucb_given *given)
{
	bool sleeps = gfpflags_allow_blocking(gfp);
	int ret = 0;

	while (!ucb_pool_take(pool, 0, pool->size, use, caller, given)) {
		atomic_long_inc(&pool->misses);
		if (sleeps) {
			ret = ucb_pool_grow(pool, gfp, false);
			if (!ret)
				continue;
		}
		if (ucb_pool_take_last(pool, use, caller, given))
			return true;
		if (!sleeps)
			ucb_pool_want(pool);
		if (ret != -ENOSPC)
			return false;
		/* one that has less than max by now is to grow */
		if (READ_ONCE(pool->nr_bufs) < READ_ONCE(pool->max))
			continue;
		if (!(gfp & __GFP_NOWARN))
			dev_warn_ratelimited(&pool->udev->dev,
					     "ucb: pool %u (%s): all %u buffers (max) are out\n",
					     pool->id, pool->name, pool->max);
		return false;
	}
	return true;
}

static __always_inline bool ucb_pool_zeroes(const struct ucb_pool *pool,
					    gfp_t gfp)
{
	return want_init_on_alloc(gfp | pool->zero);
}

/* What the fast path has no room for. */
static noinline void *ucb_pool_finish(struct ucb_pool *pool, void *addr,
				      gfp_t gfp, unsigned long caller)
{
	if (ucb_pool_zeroes(pool, gfp))
		ucb_zero(addr, pool->size);
	trace_ucb_alloc(pool->id, pool->size, caller);
	return addr;
}

static noinline void *ucb_pool_alloc_slow(struct ucb_pool *pool, gfp_t gfp,
					  dma_addr_t *dma, unsigned long caller)
{
	struct ucb_given given;

	if (!ucb_pool_get_slow(pool, gfp, UCB_USE_OUT, caller, &given))
		return NULL;
	*dma = given.dma;
	return ucb_pool_finish(pool, given.addr, gfp, caller);
}

static __always_inline void *ucb_pool_get(struct ucb_pool *pool, gfp_t gfp,
					  dma_addr_t *dma, unsigned long caller)
{
	struct ucb_buf *buf;
	unsigned long flags;
	void *addr;

	local_irq_save(flags);
	buf = ucb_cache_pop(this_cpu_ptr(pool->cache));
	if (unlikely(!buf)) {
		local_irq_restore(flags);
		return ucb_pool_alloc_slow(pool, gfp, dma, caller);
	}
	ucb_buf_hand_out(buf, UCB_USE_OUT, caller);
	/* read with IRQs off: reclaiming may free the record */
	addr = buf->addr;
	*dma = buf->dma;
	local_irq_restore(flags);
	if (ucb_pool_zeroes(pool, gfp) || trace_ucb_alloc_enabled())
		return ucb_pool_finish(pool, addr, gfp, caller);
	return addr;
}

/**
 * ucb_pool_alloc() - take a buffer
 * @pool: the pool
 * @gfp: GFP_ATOMIC where the caller cannot sleep
 * @dma: stores the DMA address; ~0 on a PIO controller
 *
 * The counterpart of dma_pool_alloc(). A buffer that was used before keeps its
 * bytes unless the pool has UCB_POOL_ZERO, @gfp has __GFP_ZERO or the kernel
 * runs with init_on_alloc. A caller that may sleep makes the pool grow; for
 * another, a miss asks the worker to.
 *
 * Context: Any but NMI, as @gfp says.
 * Return: The buffer's address, or NULL: no memory, max reached, or the pool
 * is going.
 */
void *ucb_pool_alloc(struct ucb_pool *pool, gfp_t gfp, dma_addr_t *dma)
{
	return ucb_pool_get(pool, gfp, dma, _RET_IP_);
}
EXPORT_SYMBOL_GPL(ucb_pool_alloc);

/**
 * ucb_pool_zalloc() - take a zeroed buffer
 * @pool: the pool
 * @gfp: as for ucb_pool_alloc()
 * @dma: stores the DMA address
 *
 * The counterpart of dma_pool_zalloc().
 *
 * Context: Any but NMI, as @gfp says.
 * Return: As ucb_pool_alloc().
 */
void *ucb_pool_zalloc(struct ucb_pool *pool, gfp_t gfp, dma_addr_t *dma)
{
	return ucb_pool_get(pool, gfp | __GFP_ZERO, dma, _RET_IP_);
}
EXPORT_SYMBOL_GPL(ucb_pool_zalloc);

static noinline struct ucb_buf *ucb_buf_finish(struct ucb_pool *pool,
					       struct ucb_buf *buf, gfp_t gfp,
					       unsigned long caller)
{
	ucb_pool_finish(pool, buf->addr, gfp, caller);
	return buf;
}

static noinline struct ucb_buf *ucb_buf_alloc_slow(struct ucb_pool *pool,
						   gfp_t gfp,
						   unsigned long caller)
{
	struct ucb_given given;

	if (!ucb_pool_get_slow(pool, gfp, UCB_USE_OUT | UCB_USE_HANDLE, caller,
			       &given))
		return NULL;
	return ucb_buf_finish(pool, given.buf, gfp, caller);
}

/**
 * ucb_buf_alloc() - take a buffer by handle
 * @pool: the pool
 * @gfp: as for ucb_pool_alloc()
 *
 * The handle stays good until the buffer is freed, by handle or by address, even
 * when the pool is destroyed before.
 *
 * Context: Any but NMI, as @gfp says.
 * Return: The buffer, to be given back with ucb_buf_free(); or NULL as
 * ucb_pool_alloc().
 */
struct ucb_buf *ucb_buf_alloc(struct ucb_pool *pool, gfp_t gfp)
{
	struct ucb_buf *buf;
	unsigned long flags;

	local_irq_save(flags);
	buf = ucb_cache_pop(this_cpu_ptr(pool->cache));
	if (unlikely(!buf)) {
		local_irq_restore(flags);
		return ucb_buf_alloc_slow(pool, gfp, _RET_IP_);
	}
	ucb_buf_hand_out(buf, UCB_USE_OUT | UCB_USE_HANDLE, _RET_IP_);
	local_irq_restore(flags);
	if (ucb_pool_zeroes(pool, gfp) || trace_ucb_alloc_enabled())
		return ucb_buf_finish(pool, buf, gfp, _RET_IP_);
	return buf;
}
EXPORT_SYMBOL_GPL(ucb_buf_alloc);

/**
 * ucb_buf_alloc_wait() - take a buffer by handle, wait for one if need be
 * @pool: the pool
 * @gfp: as for ucb_pool_alloc(); the caller can sleep
 * @timeout: longest wait, in jiffies; MAX_SCHEDULE_TIMEOUT for no limit
 *
 * For a producer that is to go no faster than its buffers come back. Those who
 * wait are all woken when one does.
 *
 * Context: Process; may sleep.
 * Return: The buffer, to be given back with ucb_buf_free(); or ERR_PTR of
 * -ETIMEDOUT when none came home in time, -ERESTARTSYS when a signal came,
 * -ENODEV when the pool is going.
 */
struct ucb_buf *ucb_buf_alloc_wait(struct ucb_pool *pool, gfp_t gfp,
				   unsigned long timeout)
{
	const int use = UCB_USE_OUT | UCB_USE_HANDLE;
	struct ucb_given given;
	bool got = false;
	long ret;

	might_sleep();
	if (ucb_pool_get_slow(pool, gfp | __GFP_NOWARN, use, _RET_IP_, &given))
		goto out;
	if (!ucb_pool_enter(pool))
		return ERR_PTR(-ENODEV);
	ucb_pool_add_waiters(pool, 1);
	ret = wait_event_interruptible_timeout(pool->home_wait,
					       (got = ucb_pool_take(pool, 0, pool->size, use,
								    _RET_IP_, &given)) ||
					       READ_ONCE(pool->dying),
					       timeout);
	ucb_pool_add_waiters(pool, -1);
	/* inside: what is zeroed has not been reclaimed */
	if (got)
		ucb_buf_finish(pool, given.buf, gfp, _RET_IP_);
	ucb_pool_exit(pool);
	if (!got)
		return ERR_PTR(ret > 0 ? -ENODEV : ret ?: -ETIMEDOUT);
	return given.buf;
out:
	return ucb_buf_finish(pool, given.buf, gfp, _RET_IP_);
}
EXPORT_SYMBOL_GPL(ucb_buf_alloc_wait);
