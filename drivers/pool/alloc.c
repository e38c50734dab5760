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
 * what is watched. Reclaiming cannot take its memory or record meanwhile.
 */
void ucb_buf_give(struct ucb_buf *buf, struct ucb_request *req)
{
	struct ucb_pool *pool = buf->block->pool;
	int use = req->use;

	if (req->zero)
		ucb_zero(buf->addr, req->size);
	if (pool->flags & UCB_POOL_DEBUG) {
		ucb_guard_arm(buf, req->size);
		ucb_stacks_save(buf, false);
		use |= UCB_USE_SLOW;
	}
	trace_ucb_alloc(pool->id, req->size, req->caller);
	WRITE_ONCE(buf->requested, req->size);
	ucb_buf_hand_out(buf, use, req->caller);
	req->buf = buf;
	req->addr = buf->addr;
	req->dma = buf->dma;
}

/*
 * Without the cache: from the depot, and from the other CPUs when that is
 * empty.
 */
bool ucb_pool_take(struct ucb_pool *pool, unsigned int class,
		   struct ucb_request *req)
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
		ucb_buf_give(buf, req);
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
static bool ucb_pool_take_last(struct ucb_pool *pool, struct ucb_request *req)
{
	bool got;

	ucb_pool_add_waiters(pool, 1);
	got = ucb_pool_take(pool, 0, req);
	ucb_pool_add_waiters(pool, -1);
	return got;
}

/* After a miss: grow, or have the worker do it. */
static bool ucb_pool_get_slow(struct ucb_pool *pool, gfp_t gfp,
			      struct ucb_request *req)
{
	bool sleeps = gfpflags_allow_blocking(gfp);
	int ret = 0;

	while (!ucb_pool_take(pool, 0, req)) {
		atomic_long_inc(&pool->misses);
		if (sleeps) {
			ret = ucb_pool_grow(pool, gfp);
			if (!ret)
				continue;
		}
		if (ucb_pool_take_last(pool, req))
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

/*
 * What the fast path has no room for. It comes with IRQs off, and they are let
 * on inside rcu_read_lock(): reclaiming waits for both, so that what is zeroed
 * is the pool's still.
 */
static noinline void *ucb_pool_finish(struct ucb_pool *pool, void *addr,
				      gfp_t gfp, unsigned long caller,
				      unsigned long flags)
{
	rcu_read_lock();
	local_irq_restore(flags);
	if (ucb_pool_zeroes(pool, gfp))
		ucb_zero(addr, pool->size);
	trace_ucb_alloc(pool->id, pool->size, caller);
	rcu_read_unlock();
	return addr;
}

static struct ucb_request ucb_pool_request(const struct ucb_pool *pool,
					   gfp_t gfp, int use,
					   unsigned long caller)
{
	return (struct ucb_request){
		.size = pool->size,
		.use = use,
		.zero = ucb_pool_zeroes(pool, gfp),
		.caller = caller,
	};
}

static noinline void *ucb_pool_alloc_slow(struct ucb_pool *pool, gfp_t gfp,
					  dma_addr_t *dma, unsigned long caller)
{
	struct ucb_request req = ucb_pool_request(pool, gfp, UCB_USE_OUT,
						  caller);

	if (!ucb_pool_get_slow(pool, gfp, &req))
		return NULL;
	*dma = req.dma;
	return req.addr;
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
	if (ucb_pool_zeroes(pool, gfp) || trace_ucb_alloc_enabled())
		return ucb_pool_finish(pool, addr, gfp, caller, flags);
	local_irq_restore(flags);
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
					       unsigned long caller,
					       unsigned long flags)
{
	ucb_pool_finish(pool, buf->addr, gfp, caller, flags);
	return buf;
}

static noinline struct ucb_buf *ucb_buf_alloc_slow(struct ucb_pool *pool,
						   gfp_t gfp,
						   unsigned long caller)
{
	const int use = UCB_USE_OUT | UCB_USE_HANDLE;
	struct ucb_request req = ucb_pool_request(pool, gfp, use, caller);

	return ucb_pool_get_slow(pool, gfp, &req) ? req.buf : NULL;
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
	if (ucb_pool_zeroes(pool, gfp) || trace_ucb_alloc_enabled())
		return ucb_buf_finish(pool, buf, gfp, _RET_IP_, flags);
	local_irq_restore(flags);
	return buf;
}
EXPORT_SYMBOL_GPL(ucb_buf_alloc);

/* Nothing is out that could come home, and none could be made. */
static bool ucb_pool_is_barren(const struct ucb_pool *pool, gfp_t gfp)
{
	return gfpflags_allow_blocking(gfp) && !READ_ONCE(pool->nr_bufs) &&
	       !READ_ONCE(pool->dying);
}

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
 * -ENOMEM when the pool has none and there is no memory for one, -ENODEV when
 * the pool is going.
 */
struct ucb_buf *ucb_buf_alloc_wait(struct ucb_pool *pool, gfp_t gfp,
				   unsigned long timeout)
{
	const int use = UCB_USE_OUT | UCB_USE_HANDLE;
	struct ucb_request req = ucb_pool_request(pool, gfp, use, _RET_IP_);
	long ret = -ENOMEM;
	bool got;

	might_sleep();
	if (ucb_pool_take(pool, 0, &req))
		return req.buf;
	if (!ucb_pool_enter(pool))
		return ERR_PTR(-ENODEV);
	ucb_pool_add_waiters(pool, 1);
	/* from here on no memory pressure takes what comes home or is made */
	got = ucb_pool_get_slow(pool, gfp | __GFP_NOWARN, &req);
	if (!got && !ucb_pool_is_barren(pool, gfp))
		ret = wait_event_interruptible_timeout(pool->home_wait,
						       (got = ucb_pool_take(pool, 0, &req)) ||
						       READ_ONCE(pool->dying),
						       timeout);
	ucb_pool_add_waiters(pool, -1);
	ucb_pool_exit(pool);
	if (!got)
		return ERR_PTR(ret > 0 ? -ENODEV : ret ?: -ETIMEDOUT);
	return req.buf;
}
EXPORT_SYMBOL_GPL(ucb_buf_alloc_wait);
