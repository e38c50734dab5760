// SPDX-License-Identifier: GPL-2.0
/*
 * The drop-in pair: usb_alloc_coherent() and usb_free_coherent() by other
 * names, with the free checked.
 *
 * Each device has one pool with a free list for each power of two. A block
 * holds one buffer, so that it has the alignment that the USB core gives; at
 * most half of it is wasted. What is larger than the largest class, or comes
 * from a controller's local memory, is allocated exactly and not kept.
 *
 * The pool is made at the first allocation, in whatever context the allocator
 * allows, and goes when the device is gone and the last buffer home.
 */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/slab.h>

#include "cache.h"
#include "trace.h"

#define UCB_DROPIN_BITS		6

static struct hlist_head ucb_dropins[1 << UCB_DROPIN_BITS];
static DEFINE_RAW_SPINLOCK(ucb_dropin_lock);

static struct hlist_head *ucb_dropin_bucket(const struct usb_device *udev)
{
	return &ucb_dropins[hash_ptr(udev, UCB_DROPIN_BITS)];
}

/* The caller is inside rcu_read_lock(), or has IRQs off. */
struct ucb_pool *ucb_dropin_find(const struct usb_device *udev)
{
	struct ucb_pool *pool;

	hlist_for_each_entry_rcu(pool, ucb_dropin_bucket(udev), dropin_node)
		if (pool->udev == udev)
			return pool;
	return NULL;
}

static struct ucb_pool *ucb_dropin_make(struct usb_device *udev, gfp_t gfp)
{
	struct ucb_pool *pool, *other = NULL;
	unsigned long flags;

	if (!ucb_may_allocate(gfp))
		return NULL;
	pool = ucb_pool_new(udev, true, gfp);
	if (!pool)
		return NULL;
	strscpy(pool->name, "drop-in", sizeof(pool->name));
	/*
	 * A device marked as gone may have lost its controller. Looked at once
	 * the pool is listed, so that a later USB_BUS_REMOVE finds it.
	 */
	if (READ_ONCE(udev->state) == USB_STATE_NOTATTACHED) {
		ucb_pool_drop(pool);
		return NULL;
	}

	kref_get(&pool->ref);
	raw_spin_lock_irqsave(&ucb_dropin_lock, flags);
	other = ucb_dropin_find(udev);
	if (other && !kref_get_unless_zero(&other->ref))
		other = NULL;
	if (!other) {
		hlist_add_head_rcu(&pool->dropin_node, ucb_dropin_bucket(udev));
		/*
		 * This may be any context, and the worker must not wait for
		 * reclaim. Under the lock: who ends the pool cancels it.
		 */
		queue_work(ucb_end_wq, &pool->show);
	}
	raw_spin_unlock_irqrestore(&ucb_dropin_lock, flags);

	if (other) {
		/* another CPU was first: this one owns nothing */
		ucb_pool_drop(pool);
		ucb_pool_put(pool);
		return other;
	}
	return pool;
}

/* The pool of @udev with a reference, made where it is missing. */
static struct ucb_pool *ucb_dropin_get(struct usb_device *udev, gfp_t gfp)
{
	struct ucb_pool *pool;

	rcu_read_lock();
	pool = ucb_dropin_find(udev);
	if (pool && !kref_get_unless_zero(&pool->ref))
		pool = NULL;
	rcu_read_unlock();
	return pool ?: ucb_dropin_make(udev, gfp);
}

static __always_inline unsigned int ucb_dropin_class(size_t size)
{
	unsigned int shift = order_base_2(size);

	if (shift > UCB_CLASS_MAX_SHIFT)
		return UCB_CLASS_NONE;
	return max_t(unsigned int, shift, UCB_CLASS_MIN_SHIFT) -
	       UCB_CLASS_MIN_SHIFT;
}

/* A block of one buffer, which is handed out. */
static bool ucb_dropin_fresh(struct ucb_pool *pool, unsigned int class,
			     size_t bytes, gfp_t gfp, struct ucb_request *req)
{
	struct ucb_block *block;

	atomic_long_inc(&pool->misses);
	if (!ucb_may_allocate(gfp))
		return false;
	if (!ucb_pool_enter(pool))
		return false;
	block = ucb_block_new(pool, class, 1, bytes, bytes, gfp);
	if (block) {
		/* it is zeroes, or a debug pool's poison */
		req->zero &= !!(pool->flags & UCB_POOL_DEBUG);
		/* no max; first, as anybody may free what is given */
		ucb_depot_add(pool, block, true);
		ucb_buf_give(&block->bufs[0], req);
	}
	ucb_pool_exit(pool);
	return block;
}

static bool ucb_dropin_zeroes(size_t size, gfp_t gfp)
{
	return size > 2048 || want_init_on_alloc(gfp);
}

static noinline void *ucb_dropin_alloc_slow(struct usb_device *udev,
					    size_t size, gfp_t gfp,
					    dma_addr_t *dma,
					    unsigned long caller)
{
	struct ucb_request req = {
		.size = size,
		.use = UCB_USE_OUT,
		.zero = ucb_dropin_zeroes(size, gfp),
		.caller = caller,
	};
	struct ucb_pool *pool;
	bool ok, again = true;
	unsigned int class;
	size_t bytes;

	if (!udev || !udev->bus || !size || size > U32_MAX - PAGE_SIZE)
		return NULL;
retry:
	bytes = size;
	pool = ucb_dropin_get(udev, gfp);
	if (!pool)
		return NULL;
	if (pool->flags & UCB_POOL_DEBUG)
		bytes += UCB_GUARD_BYTES;
	class = pool->kind == UCB_HCD_LOCALMEM ? UCB_CLASS_NONE :
						 ucb_dropin_class(bytes);
	if (class != UCB_CLASS_NONE)
		bytes = BIT(class + UCB_CLASS_MIN_SHIFT);

	ok = ucb_pool_take(pool, class, &req) ||
	     ucb_dropin_fresh(pool, class, bytes, gfp, &req);
	if (!ok && again && READ_ONCE(pool->dying)) {
		/* of a device that is just bound again: there can be a new one */
		again = false;
		ucb_pool_put(pool);
		goto retry;
	}
	ucb_pool_put(pool);
	if (!ok)
		return NULL;
	*dma = req.dma;
	return req.addr;
}

/* What the fast path has no room for: as ucb_pool_finish(). */
static noinline void *ucb_dropin_finish(const struct ucb_pool *pool, void *addr,
					size_t size, gfp_t gfp,
					unsigned long caller,
					unsigned long flags)
{
	rcu_read_lock();
	local_irq_restore(flags);
	if (ucb_dropin_zeroes(size, gfp))
		ucb_zero(addr, size);
	trace_ucb_alloc(pool->id, size, caller);
	rcu_read_unlock();
	return addr;
}

/**
 * ucb_alloc_coherent() - usb_alloc_coherent() with a checked free
 * @udev: the device
 * @size: bytes, at least 1
 * @gfp: as for usb_alloc_coherent()
 * @dma: stores the DMA address; ~0 on a PIO controller
 *
 * Takes the sizes that usb_alloc_coherent() takes and gives the alignment that
 * it gives. The buffer is zeroed above 2048 bytes, and below with __GFP_ZERO
 * or init_on_alloc.
 *
 * Context: Any but NMI, as @gfp says. In hardirq, and on PREEMPT_RT where the
 * caller cannot sleep, only buffers that were used before are given.
 * Return: The buffer's address, to be given back with ucb_free_coherent(); or
 * NULL: no memory, @size is 0, or the controller is going.
 */
void *ucb_alloc_coherent(struct usb_device *udev, size_t size, gfp_t gfp,
			 dma_addr_t *dma)
{
	struct ucb_buf *buf = NULL;
	struct ucb_pool *pool;
	unsigned long flags;
	void *addr;

	local_irq_save(flags);
	pool = ucb_dropin_find(udev);
	if (likely(pool && size))
		buf = ucb_cache_pop(this_cpu_ptr(pool->cache +
						 ucb_dropin_class(size)));
	if (unlikely(!buf)) {
		local_irq_restore(flags);
		return ucb_dropin_alloc_slow(udev, size, gfp, dma, _RET_IP_);
	}
	WRITE_ONCE(buf->requested, size);
	ucb_buf_hand_out(buf, UCB_USE_OUT, _RET_IP_);
	addr = buf->addr;
	*dma = buf->dma;
	if (ucb_dropin_zeroes(size, gfp) || trace_ucb_alloc_enabled())
		return ucb_dropin_finish(pool, addr, size, gfp, _RET_IP_, flags);
	local_irq_restore(flags);
	return addr;
}
EXPORT_SYMBOL_GPL(ucb_alloc_coherent);

/*
 * True when the controller is gone; or the device is, and nothing is out: then
 * buffers come and go through the depot, so that its count is exact. pool->lock
 * is held.
 */
static bool ucb_dropin_is_over(struct ucb_pool *pool)
{
	unsigned int class;

	if (pool->dead)
		return true;
	if (!pool->gone || atomic_read(&pool->users))
		return false;
	for (class = 0; class < pool->nr_classes; class++)
		ucb_cache_drain_locked(pool, class);
	return pool->nr_out == pool->nr_bad;
}

/* Out of the table; and if it is over, nothing of it is handed out any more. */
static bool ucb_dropin_remove(struct ucb_pool *pool, bool all)
{
	bool over;

	raw_spin_lock(&pool->lock);
	over = ucb_dropin_is_over(pool);
	if (over || all)
		hlist_del_rcu(&pool->dropin_node);
	if (over) {
		WRITE_ONCE(pool->dying, true);
		WRITE_ONCE(pool->dead, true);
	}
	raw_spin_unlock(&pool->lock);
	return over || all;
}

/* The next pool that is over, or any with @all; it is for the caller to end. */
static struct ucb_pool *ucb_dropin_next(bool all)
{
	struct ucb_pool *pool;
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&ucb_dropin_lock, flags);
	for (i = 0; i < ARRAY_SIZE(ucb_dropins); i++) {
		hlist_for_each_entry(pool, &ucb_dropins[i], dropin_node) {
			if (ucb_dropin_remove(pool, all))
				goto out;
		}
	}
	pool = NULL;
out:
	raw_spin_unlock_irqrestore(&ucb_dropin_lock, flags);
	return pool;
}

static void ucb_dropin_end(bool all)
{
	struct ucb_pool *pool;

	while ((pool = ucb_dropin_next(all)))
		ucb_pool_destroy(pool);
}

static void ucb_dropin_work_fn(struct work_struct *work)
{
	ucb_dropin_end(false);
}

static DECLARE_WORK(ucb_dropin_work, ucb_dropin_work_fn);

void ucb_dropin_sweep(void)
{
	queue_work(ucb_end_wq, &ucb_dropin_work);
}

void ucb_dropin_exit(void)
{
	cancel_work_sync(&ucb_dropin_work);
	ucb_dropin_end(true);
}
