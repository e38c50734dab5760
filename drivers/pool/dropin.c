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
 * The pool is made at the first allocation, in whatever context that is, and
 * goes when the device is gone and the last buffer home.
 */

#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/slab.h>

#include "internal.h"

#define UCB_DROPIN_BITS		6

static struct hlist_head ucb_dropins[1 << UCB_DROPIN_BITS];
static DEFINE_RAW_SPINLOCK(ucb_dropin_lock);

static struct hlist_head *ucb_dropin_bucket(const struct usb_device *udev)
{
	return &ucb_dropins[hash_ptr(udev, UCB_DROPIN_BITS)];
}

/* The caller is inside rcu_read_lock() or holds ucb_dropin_lock. */
static struct ucb_pool *ucb_dropin_find(struct usb_device *udev)
{
	struct ucb_pool *pool;

	hlist_for_each_entry_rcu(pool, ucb_dropin_bucket(udev), dropin_node,
				 lockdep_is_held(&ucb_dropin_lock))
		if (pool->udev == udev)
			return pool;
	return NULL;
}

static struct ucb_pool *ucb_dropin_make(struct usb_device *udev, gfp_t gfp)
{
	struct ucb_pool *pool, *other = NULL;
	unsigned long flags;

	/* no allocator in hardirq */
	if (in_hardirq())
		return NULL;
	pool = ucb_pool_new(udev, gfp);
	if (!pool)
		return NULL;
	strscpy(pool->name, "drop-in", sizeof(pool->name));
	pool->dropin = true;
	if (READ_ONCE(ucb_debug))
		pool->flags |= UCB_POOL_DEBUG;
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
	if (!other)
		hlist_add_head_rcu(&pool->dropin_node, ucb_dropin_bucket(udev));
	raw_spin_unlock_irqrestore(&ucb_dropin_lock, flags);

	if (other) {
		/* another CPU was first: this one owns nothing */
		ucb_pool_drop(pool);
		ucb_pool_put(pool);
		return other;
	}
	/* the worker makes the debugfs folder */
	queue_work(ucb_wq, &pool->work);
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
	return pool ?: ucb_dropin_make(udev, gfp & ~__GFP_ZERO);
}

/* With the class, the bytes of a block of it. */
static unsigned int ucb_dropin_class(const struct ucb_pool *pool, size_t *size)
{
	unsigned int shift;

	if (pool->flags & UCB_POOL_DEBUG)
		*size += UCB_GUARD_BYTES;
	if (pool->kind == UCB_HCD_LOCALMEM ||
	    *size > BIT(UCB_CLASS_MAX_SHIFT))
		return UCB_CLASS_NONE;
	shift = max_t(unsigned int, order_base_2(*size), UCB_CLASS_MIN_SHIFT);
	*size = BIT(shift);
	return shift - UCB_CLASS_MIN_SHIFT;
}

static struct ucb_buf *ucb_dropin_fresh(struct ucb_pool *pool,
					unsigned int class, size_t bytes,
					size_t requested, gfp_t gfp,
					unsigned long caller)
{
	struct ucb_block *block;
	unsigned long flags;

	atomic_long_inc(&pool->misses);
	if (in_hardirq() || (IS_ENABLED(CONFIG_PREEMPT_RT) &&
			     !gfpflags_allow_blocking(gfp)))
		return NULL;
	if (!ucb_pool_enter(pool))
		return NULL;
	block = ucb_block_new(pool, class, 1, bytes, bytes, gfp);
	if (block) {
		raw_spin_lock_irqsave(&pool->lock, flags);
		pool->nr_bufs++;
		raw_spin_unlock_irqrestore(&pool->lock, flags);
		ucb_pool_adopt(pool, block, requested, caller);
	}
	ucb_pool_exit(pool);
	return block ? &block->bufs[0] : NULL;
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
 * Context: Any but NMI, as @gfp says. In hardirq only buffers that were used
 * before are given.
 * Return: The buffer's address, to be given back with ucb_free_coherent(); or
 * NULL: no memory, @size is 0, or the controller is going.
 */
void *ucb_alloc_coherent(struct usb_device *udev, size_t size, gfp_t gfp,
			 dma_addr_t *dma)
{
	size_t bytes = size;
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	unsigned int class;
	void *addr = NULL;

	if (!udev || !udev->bus || !size || size > SIZE_MAX - PAGE_SIZE)
		return NULL;
	pool = ucb_dropin_get(udev, gfp);
	if (!pool)
		return NULL;
	class = ucb_dropin_class(pool, &bytes);
	buf = ucb_pool_take(pool, class, size, _RET_IP_);
	if (!buf)
		buf = ucb_dropin_fresh(pool, class, bytes, size, gfp, _RET_IP_);
	if (buf) {
		if (size > 2048 || want_init_on_alloc(gfp))
			memset(buf->addr, 0, size);
		*dma = buf->dma;
		addr = buf->addr;
	}
	ucb_pool_put(pool);
	return addr;
}
EXPORT_SYMBOL_GPL(ucb_alloc_coherent);

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
		ret = ucb_buf_check_and_free(buf, &dma, &size, _RET_IP_);
	} else if (pool) {
		bool dead = READ_ONCE(pool->dead);

		ret = ucb_refuse(pool, NULL,
				 dead ? UCB_MISUSE_GONE : UCB_MISUSE_UNKNOWN,
				 dead ? -ENODEV : -ENOENT, 0, size, _RET_IP_);
	} else if (udev->state == USB_STATE_NOTATTACHED) {
		ret = -ENODEV;
	} else {
		dev_err_ratelimited(&udev->dev,
				    "ucb: free of %zu bytes by %pS: the device has no buffers\n",
				    size, (void *)_RET_IP_);
		ret = -ENOENT;
	}
	rcu_read_unlock();
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_free_coherent);

/* End a pool whose device is gone once nothing of it is out; or any, @all. */
static struct ucb_pool *ucb_dropin_next(bool all)
{
	struct ucb_pool *pool;
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&ucb_dropin_lock, flags);
	for (i = 0; i < ARRAY_SIZE(ucb_dropins); i++) {
		hlist_for_each_entry(pool, &ucb_dropins[i], dropin_node) {
			bool end;

			raw_spin_lock(&pool->lock);
			end = all || (pool->gone && !pool->nr_live) ||
			      (pool->gone && pool->dead);
			raw_spin_unlock(&pool->lock);
			if (end) {
				hlist_del_rcu(&pool->dropin_node);
				goto out;
			}
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
	queue_work(ucb_wq, &ucb_dropin_work);
}

void ucb_dropin_exit(void)
{
	cancel_work_sync(&ucb_dropin_work);
	ucb_dropin_end(true);
}
