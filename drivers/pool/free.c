// SPDX-License-Identifier: GPL-2.0
/*
 * The checked free, and the reports of what it refuses.
 *
 * The fast path makes every check at once, with IRQs off: anything that is not
 * as it should be goes through ucb_free_checked(), which finds out what, and
 * says so. A refused free changes nothing. Which of two racing frees wins is
 * decided by one cmpxchg of the buffer's state; only the winner touches a list.
 */

#include <linux/device.h>
#include <linux/mm.h>
#include <linux/ratelimit.h>

#include "cache.h"

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
 * differ: sizes, DMA addresses or states; never kernel addresses. True when the
 * report is in the log: each pool has a limit of its own, so that one which
 * floods hides no other.
 */
bool ucb_report(struct ucb_pool *pool, const struct ucb_buf *buf,
		enum ucb_misuse what, int error, u64 want, u64 got,
		unsigned long caller)
{
	unsigned long owner = buf ? READ_ONCE(buf->caller) : 0;

	atomic_long_inc(&pool->misuse[what]);
	trace_ucb_misuse(pool->id, ucb_misuse_names[what], error, caller);
	if (!__ratelimit(&pool->reports))
		return false;
	dev_err(&pool->udev->dev,
		"ucb: pool %u (%s): %s: expected %#llx, got %#llx, called from %pS, allocated by %pS\n",
		pool->id, pool->name, ucb_misuse_names[what], want, got,
		(void *)caller, (void *)owner);
	if (buf)
		ucb_stacks_print(buf);
	return true;
}

int ucb_refuse(struct ucb_pool *pool, const struct ucb_buf *buf,
	       enum ucb_misuse what, int error, u64 want, u64 got,
	       unsigned long caller)
{
	ucb_report(pool, buf, what, error, want, got, caller);
	return error;
}

/*
 * Its pool has been reclaimed, or is being. Only a handle can still find the
 * buffer; if reclaiming has come to it, it left a reference for the handle.
 */
static int ucb_free_gone(struct ucb_buf *buf, unsigned long caller)
{
	int use = atomic_read(&buf->use);

	do {
		if (use < UCB_USE_OUT && use != UCB_USE_ORPHAN)
			break;
		if (use > 0 && (use & UCB_USE_COUNT) > 1)
			break;
	} while (!atomic_try_cmpxchg(&buf->use, &use, UCB_USE_HOME));
	ucb_refuse(buf->block->pool, buf, UCB_MISUSE_GONE, -ENODEV, 0, 0,
		   caller);
	if (use == UCB_USE_ORPHAN)
		ucb_block_put(buf->block);
	return -ENODEV;
}

/*
 * The whole story: who gets here has something to report, or bytes to look at.
 * The caller is inside rcu_read_lock().
 */
int ucb_free_checked(struct ucb_buf *buf, const dma_addr_t *dma,
		     const size_t *size, unsigned long caller)
{
	struct ucb_pool *pool = buf->block->pool;
	int use = atomic_read(&buf->use);
	unsigned long flags;

	if (READ_ONCE(pool->dead))
		return ucb_free_gone(buf, caller);
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
	 * Won first and at home later: while the bytes are looked at or wiped,
	 * a loser of the race must not take it for a buffer at home.
	 */
	do {
		if (use <= 0)
			return ucb_refuse(pool, buf, UCB_MISUSE_DOUBLE,
					  -EALREADY, 1, use, caller);
		if ((use & UCB_USE_COUNT) > 1)
			return ucb_refuse(pool, buf, UCB_MISUSE_BUSY, -EBUSY, 1,
					  use & UCB_USE_COUNT, caller);
	} while (!atomic_try_cmpxchg(&buf->use, &use, UCB_USE_QUARANTINED));

	trace_ucb_free(pool->id, buf->requested, caller);
	if (pool->flags & UCB_POOL_DEBUG) {
		ucb_stacks_save(buf, true);
		if (!ucb_guard_intact(buf)) {
			ucb_buf_quarantine(buf);
			return 0;
		}
		ucb_poison(buf);
	} else if (want_init_on_free()) {
		ucb_zero(buf->addr, buf->requested);
	}
	local_irq_save(flags);
	atomic_set_release(&buf->use, UCB_USE_HOME);
	if (ucb_cache_put(buf))
		ucb_cache_overflow(buf->block);
	local_irq_restore(flags);
	return 0;
}

/*
 * IRQs off; the buffer is the right one. False when there is anything to look
 * at more closely.
 */
static __always_inline bool ucb_free_win(struct ucb_buf *buf, int use)
{
	if (want_init_on_free() || trace_ucb_free_enabled())
		return false;
	return likely(atomic_try_cmpxchg(&buf->use, &use, UCB_USE_HOME));
}

/* Out of line, with the flags, so that the fast path needs no stack. */
static noinline int ucb_free_overflow(struct ucb_block *block,
				      unsigned long flags)
{
	ucb_cache_overflow(block);
	local_irq_restore(flags);
	return 0;
}

/* The end of the fast path: the buffer was won. */
static __always_inline int ucb_free_home(struct ucb_buf *buf,
					 unsigned long flags)
{
	if (ucb_cache_put(buf))
		return ucb_free_overflow(buf->block, flags);
	local_irq_restore(flags);
	return 0;
}

static int ucb_pool_free_checked(struct ucb_pool *pool, const size_t *size,
				 void *addr, dma_addr_t dma,
				 unsigned long caller)
{
	struct ucb_buf *buf;
	int ret;

	rcu_read_lock();
	buf = ucb_buf_find(addr);
	if (buf && buf->block->pool == pool)
		ret = ucb_free_checked(buf, &dma, size, caller);
	else if (READ_ONCE(pool->dead))
		ret = ucb_refuse(pool, NULL, UCB_MISUSE_GONE, -ENODEV, 0, 0,
				 caller);
	else
		ret = ucb_refuse(pool, NULL, UCB_MISUSE_UNKNOWN, -ENOENT, 0, 0,
				 caller);
	rcu_read_unlock();
	return ret;
}

static noinline int ucb_pool_free_slow(struct ucb_pool *pool, void *addr,
				       dma_addr_t dma, unsigned long caller)
{
	return ucb_pool_free_checked(pool, NULL, addr, dma, caller);
}

static noinline int ucb_pool_free_sized_slow(struct ucb_pool *pool, size_t size,
					     void *addr, dma_addr_t dma,
					     unsigned long caller)
{
	return ucb_pool_free_checked(pool, &size, addr, dma, caller);
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
	unsigned long flags;

	local_irq_save(flags);
	buf = ucb_buf_find(addr);
	if (unlikely(!buf || buf->block->pool != pool || buf->dma != dma ||
		     !ucb_free_win(buf, UCB_USE_OUT))) {
		local_irq_restore(flags);
		return ucb_pool_free_slow(pool, addr, dma, _RET_IP_);
	}
	return ucb_free_home(buf, flags);
}
EXPORT_SYMBOL_GPL(ucb_pool_free);

/**
 * ucb_pool_free_sized() - give a buffer back, and name its size
 * @pool: the pool it came from
 * @size: bytes in each buffer of @pool
 * @addr: what ucb_pool_alloc() returned
 * @dma: what it stored
 *
 * As ucb_pool_free(), for a caller that keeps the size with the buffer, as
 * usb_free_coherent() has it.
 *
 * Context: Any but NMI; locks held and IRQs off are fine.
 * Return: As ucb_pool_free(), and -EINVAL when @size is not the buffer's.
 */
int ucb_pool_free_sized(struct ucb_pool *pool, size_t size, void *addr,
			dma_addr_t dma)
{
	struct ucb_buf *buf;
	unsigned long flags;

	local_irq_save(flags);
	buf = ucb_buf_find(addr);
	if (unlikely(!buf || buf->block->pool != pool || buf->dma != dma ||
		     buf->requested != size ||
		     !ucb_free_win(buf, UCB_USE_OUT))) {
		local_irq_restore(flags);
		return ucb_pool_free_sized_slow(pool, size, addr, dma,
						_RET_IP_);
	}
	return ucb_free_home(buf, flags);
}
EXPORT_SYMBOL_GPL(ucb_pool_free_sized);

static noinline int ucb_buf_free_slow(struct ucb_buf *buf, unsigned long caller)
{
	int ret;

	rcu_read_lock();
	ret = ucb_free_checked(buf, NULL, NULL, caller);
	rcu_read_unlock();
	return ret;
}

/**
 * ucb_buf_free() - give a buffer back by its handle
 * @buf: from ucb_buf_alloc()
 *
 * On 0 and on -ENODEV the handle is given up as well. That a handle was given
 * up before can only be told as long as its pool keeps the block.
 *
 * Context: Any but NMI; locks held and IRQs off are fine.
 * Return: 0; -EALREADY, -EBUSY or -ENODEV as for ucb_pool_free().
 */
int ucb_buf_free(struct ucb_buf *buf)
{
	unsigned long flags;

	local_irq_save(flags);
	if (unlikely(!ucb_free_win(buf, UCB_USE_OUT | UCB_USE_HANDLE))) {
		local_irq_restore(flags);
		return ucb_buf_free_slow(buf, _RET_IP_);
	}
	return ucb_free_home(buf, flags);
}
EXPORT_SYMBOL_GPL(ucb_buf_free);

static noinline int ucb_free_coherent_slow(struct usb_device *udev,
					   size_t size, void *addr,
					   dma_addr_t dma, unsigned long caller)
{
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	int ret;

	if (!addr)
		return 0;
	if (!udev)
		return -ENODEV;
	rcu_read_lock();
	pool = ucb_dropin_find(udev);
	buf = ucb_buf_find(addr);
	if (buf && buf->block->pool == pool) {
		ret = ucb_free_checked(buf, &dma, &size, caller);
	} else if (pool) {
		bool dead = READ_ONCE(pool->dead);

		ret = ucb_refuse(pool, NULL,
				 dead ? UCB_MISUSE_GONE : UCB_MISUSE_UNKNOWN,
				 dead ? -ENODEV : -ENOENT, 0, size, caller);
	} else if (udev->state == USB_STATE_NOTATTACHED) {
		ret = -ENODEV;
	} else {
		dev_err_ratelimited(&udev->dev,
				    "ucb: free of %zu bytes by %pS: the device has no buffers\n",
				    size, (void *)caller);
		ret = -ENOENT;
	}
	rcu_read_unlock();
	return ret;
}

/**
 * ucb_free_coherent() - usb_free_coherent(), checked
 * @udev: the device
 * @size: bytes that were asked for
 * @addr: what ucb_alloc_coherent() returned; NULL does nothing
 * @dma: what it stored
 *
 * Whatever is refused is left as it was, and reported once.
 *
 * Context: Any but NMI; locks held and IRQs off are fine.
 * Return: 0; -EINVAL when @size or @dma is not the buffer's; -ENOENT when no
 * buffer of @udev starts at @addr; -EALREADY when it was freed before and not
 * handed out again; -EBUSY while a URB submitted with ucb_submit_urb() is at
 * work on it; -ENODEV when the controller has gone, with nothing touched.
 */
int ucb_free_coherent(struct usb_device *udev, size_t size, void *addr,
		      dma_addr_t dma)
{
	struct ucb_buf *buf;
	unsigned long flags;

	local_irq_save(flags);
	buf = ucb_buf_find(addr);
	if (unlikely(!buf || buf->requested != size || buf->dma != dma ||
		     buf->block->pool->udev != udev ||
		     !buf->block->pool->dropin ||
		     !ucb_free_win(buf, UCB_USE_OUT))) {
		local_irq_restore(flags);
		return ucb_free_coherent_slow(udev, size, addr, dma, _RET_IP_);
	}
	return ucb_free_home(buf, flags);
}
EXPORT_SYMBOL_GPL(ucb_free_coherent);

/*
 * Mark a buffer as being worked on, and hold its record: @add is 1, with
 * UCB_USE_URB for a URB. The caller has the buffer, or is inside
 * rcu_read_lock().
 */
int ucb_buf_hold(struct ucb_buf *buf, int add)
{
	struct ucb_pool *pool = buf->block->pool;
	int use, ret = 0;

	/*
	 * Looked at before, so that reclaiming, which waits for RCU, finds no
	 * buffer busy that is not; and after, for who has just set dying: the
	 * cmpxchg is a full barrier and pairs with the lock around that.
	 */
	rcu_read_lock();
	if (ucb_pool_closed(pool)) {
		ret = -ENODEV;
		goto out;
	}
	use = atomic_read(&buf->use);
	do {
		if (use < UCB_USE_OUT) {
			ret = -ENOENT;
			goto out;
		}
		if (add & use & UCB_USE_URB) {
			ret = -EBUSY;
			goto out;
		}
	} while (!atomic_try_cmpxchg(&buf->use, &use, use + add));
	if (ucb_pool_closed(pool)) {
		atomic_sub(add, &buf->use);
		ret = -ENODEV;
		goto out;
	}
	kref_get(&buf->block->ref);
out:
	rcu_read_unlock();
	return ret;
}

void ucb_buf_release(struct ucb_buf *buf, int sub)
{
	struct ucb_block *block = buf->block;

	atomic_sub(sub, &buf->use);
	ucb_block_put(block);
}

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
	return ucb_buf_hold(buf, 1);
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
	ucb_buf_release(buf, 1);
}
EXPORT_SYMBOL_GPL(ucb_buf_busy_put);
