// SPDX-License-Identifier: GPL-2.0
/*
 * Pools: creating, resizing, growing. What hands buffers out stands in alloc.c,
 * how a pool ends in lifetime.c.
 */

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "internal.h"

#define UCB_BLOCK_BYTES		(16UL << 10)
#define UCB_STRIDE_ALIGN	64

static unsigned int ucb_next_id;

static enum ucb_hcd_kind ucb_hcd_kind(struct usb_device *udev)
{
	struct usb_hcd *hcd = bus_to_hcd(udev->bus);

	if (hcd->localmem_pool)
		return UCB_HCD_LOCALMEM;
	return hcd_uses_dma(hcd) ? UCB_HCD_DMA : UCB_HCD_PIO;
}

/* Calls that reclaiming must wait for are inside enter and exit. */
bool ucb_pool_enter(struct ucb_pool *pool)
{
	unsigned long flags;
	bool ok;

	raw_spin_lock_irqsave(&pool->lock, flags);
	ok = !pool->dying;
	if (ok)
		atomic_inc(&pool->users);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return ok;
}

void ucb_pool_exit(struct ucb_pool *pool)
{
	/* who waits for the last to leave may then free the pool, by RCU */
	rcu_read_lock();
	if (atomic_dec_and_test(&pool->users)) {
		if (READ_ONCE(pool->dying))
			wake_up(&pool->idle_wait);
		else if (pool->dropin && READ_ONCE(pool->gone))
			/* the last sweep may have let it be for this call */
			ucb_dropin_sweep();
	}
	rcu_read_unlock();
}

static void ucb_pool_free_rcu(struct rcu_head *rcu)
{
	struct ucb_pool *pool = container_of(rcu, struct ucb_pool, rcu);

	free_percpu(pool->cache);
	kfree(pool);
}

static void ucb_pool_release(struct work_struct *work)
{
	struct ucb_pool *pool = container_of(work, struct ucb_pool, release);

	cancel_work_sync(&pool->work);
	irq_work_sync(&pool->wake);
	usb_put_intf(pool->gone_intf);
	usb_put_dev(pool->udev);
	/* a free that came just before reclaiming may still be inside */
	call_rcu(&pool->rcu, ucb_pool_free_rcu);
}

static void ucb_pool_unref(struct kref *ref)
{
	struct ucb_pool *pool = container_of(ref, struct ucb_pool, ref);

	/* the last handle may go in any context, usb_put_dev() may sleep */
	queue_work(ucb_end_wq, &pool->release);
}

void ucb_pool_put(struct ucb_pool *pool)
{
	kref_put(&pool->ref, ucb_pool_unref);
}

static size_t ucb_pool_stride(const struct ucb_pool *pool)
{
	size_t bytes = pool->size;

	if (pool->flags & UCB_POOL_DEBUG)
		bytes += UCB_GUARD_BYTES;
	/* local memory is scarce and never mapped for anyone else */
	if (pool->kind == UCB_HCD_LOCALMEM)
		return ALIGN(bytes, sizeof(u32));
	return bytes < PAGE_SIZE ? ALIGN(bytes, UCB_STRIDE_ALIGN) :
				   PAGE_ALIGN(bytes);
}

/* blocks on their way back to the core */
static atomic_t ucb_reaping;

/* pool->lock is held; @block is on no list of the pool any more. */
void ucb_pool_reap(struct ucb_pool *pool, struct ucb_block *block)
{
	atomic_inc(&ucb_reaping);
	llist_add(&block->reap, &pool->reap);
	/* under the lock: once it is dropped, reclaiming may run to its end */
	queue_work(ucb_wq, &pool->work);
}

/*
 * -ENOSPC when max buffers are there, -ENOMEM, -ENODEV when the pool is going.
 * 0 may also mean that others added what was still missing.
 */
int ucb_pool_grow(struct ucb_pool *pool, gfp_t gfp)
{
	size_t stride = ucb_pool_stride(pool);
	size_t size = stride;
	struct ucb_block *block;
	unsigned int nr = 1;
	unsigned long flags;
	int ret = 0;

	if (pool->kind != UCB_HCD_LOCALMEM) {
		nr = max(UCB_BLOCK_BYTES / stride, 1UL);
		size = PAGE_ALIGN(nr * stride);
	}
	if (!ucb_pool_enter(pool))
		return -ENODEV;

	raw_spin_lock_irqsave(&pool->lock, flags);
	nr = min(nr, pool->max - min(pool->max, pool->nr_bufs));
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	if (!nr) {
		ret = -ENOSPC;
		goto out;
	}
	block = ucb_block_new(pool, 0, nr, stride, size, gfp);
	if (!block) {
		ret = -ENOMEM;
	} else if (!ucb_depot_add(pool, block, false)) {
		ucb_block_hide(block);
		ucb_block_release_memory(block);
	}
out:
	ucb_pool_exit(pool);
	return ret;
}

static void ucb_pool_work(struct work_struct *work)
{
	struct ucb_pool *pool = container_of(work, struct ucb_pool, work);
	struct llist_node *reap = llist_del_all(&pool->reap);
	struct ucb_block *block, *next;
	unsigned long flags;
	bool want;

	llist_for_each_entry_safe(block, next, reap, reap) {
		ucb_block_check_home(block);
		ucb_block_hide(block);
		ucb_block_release_memory(block);
		atomic_dec(&ucb_reaping);
	}
	raw_spin_lock_irqsave(&pool->lock, flags);
	want = pool->want && list_empty(&pool->depot[0]);
	pool->want = false;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	if (want)
		ucb_pool_grow(pool, GFP_NOIO | __GFP_NOWARN);
}

/*
 * What was freed may be on its way still, to a core that has too little without
 * it. Looked at before the core is asked: afterwards it may just have arrived.
 * The worker is that way, and does not wait for itself.
 */
bool ucb_pools_unsettled(struct ucb_pool *pool, gfp_t gfp)
{
	/* only compared: the work item of somebody else's may be freed */
	return gfpflags_allow_blocking(gfp) && atomic_read(&ucb_reaping) &&
	       current_work() != &pool->work;
}

void ucb_pools_settle(void)
{
	flush_workqueue(ucb_wq);
}

static void ucb_pool_show(struct work_struct *work)
{
	ucb_debugfs_add(container_of(work, struct ucb_pool, show));
}

/* Ask the worker for a block. */
void ucb_pool_want(struct ucb_pool *pool)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	pool->want = !pool->dying;
	if (pool->want)
		queue_work(ucb_wq, &pool->work);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}

/* Any context: a drop-in pool may be made by its first, atomic, allocation. */
struct ucb_pool *ucb_pool_new(struct usb_device *udev, bool dropin, gfp_t gfp)
{
	struct ucb_pool *pool;
	unsigned long flags;
	unsigned int i;

	gfp = UCB_RECORD_GFP(gfp);
	pool = kzalloc(sizeof(*pool), gfp);
	if (!pool)
		return NULL;
	pool->dropin = dropin;
	pool->nr_classes = dropin ? UCB_NR_CLASSES : 1;
	pool->cache = __alloc_percpu_gfp(array_size(pool->nr_classes,
						    sizeof(struct ucb_cache)),
					 __alignof__(struct ucb_cache), gfp);
	if (!pool->cache) {
		kfree(pool);
		return NULL;
	}
	kref_init(&pool->ref);
	pool->udev = usb_get_dev(udev);
	pool->max = UINT_MAX;
	pool->kind = ucb_hcd_kind(udev);
	raw_spin_lock_init(&pool->lock);
	for (i = 0; i < ARRAY_SIZE(pool->depot); i++)
		INIT_LIST_HEAD(&pool->depot[i]);
	INIT_LIST_HEAD(&pool->blocks);
	init_waitqueue_head(&pool->idle_wait);
	init_waitqueue_head(&pool->home_wait);
	init_irq_work(&pool->wake, ucb_wake_waiters);
	init_usb_anchor(&pool->urbs);
	init_llist_head(&pool->reap);
	ratelimit_state_init(&pool->reports, DEFAULT_RATELIMIT_INTERVAL,
			     DEFAULT_RATELIMIT_BURST);
	INIT_WORK(&pool->work, ucb_pool_work);
	INIT_WORK(&pool->show, ucb_pool_show);
	INIT_WORK(&pool->release, ucb_pool_release);
	init_completion(&pool->reclaimed);
	if (READ_ONCE(ucb_debug))
		pool->flags |= UCB_POOL_DEBUG;
	/* of a device that is not configured: it goes when nothing is out */
	pool->gone = dropin && !ucb_first_interface(udev);
	ucb_cache_set_limits(pool);

	raw_spin_lock_irqsave(&ucb_pools_lock, flags);
	pool->id = ++ucb_next_id;
	list_add_tail(&pool->node, &ucb_pools);
	raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
	return pool;
}

static int ucb_pool_check_limits(struct usb_device *udev, unsigned int min,
				 unsigned int max)
{
	if (max && min > max) {
		dev_err(&udev->dev, "ucb: pool min %u is over max %u\n", min,
			max);
		return -EINVAL;
	}
	return 0;
}

static int ucb_pool_check_params(struct usb_device *udev,
				 const struct ucb_pool_params *params)
{
	const unsigned int known = UCB_POOL_ZERO | UCB_POOL_DEBUG |
				   UCB_POOL_RDMA;

	if (!params->size || params->size > KMALLOC_MAX_SIZE) {
		dev_err(&udev->dev, "ucb: pool size %zu is not within 1 to %lu\n",
			params->size, KMALLOC_MAX_SIZE);
		return -EINVAL;
	}
	if (params->flags & ~known) {
		dev_err(&udev->dev, "ucb: unknown pool flags %#x\n",
			params->flags & ~known);
		return -EINVAL;
	}
	return ucb_pool_check_limits(udev, params->min, params->max);
}

/* -EBUSY while a client knows the blocks */
static int ucb_pool_set_limits(struct ucb_pool *pool, unsigned int min,
			       unsigned int max)
{
	unsigned long flags;
	int ret = 0;

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (pool->pins) {
		ret = -EBUSY;
	} else {
		pool->min = min;
		WRITE_ONCE(pool->max, max);
		ucb_cache_set_limits(pool);
	}
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return ret;
}

static int ucb_pool_fill(struct ucb_pool *pool, unsigned int min)
{
	int ret = 0;

	while (!ret && READ_ONCE(pool->nr_bufs) < min)
		ret = ucb_pool_grow(pool, GFP_KERNEL);
	if (ret)
		dev_err(&pool->udev->dev,
			"ucb: pool %u (%s): min %u not met, %u buffers of %zu bytes allocated: %pe\n",
			pool->id, pool->name, min, pool->nr_bufs, pool->size,
			ERR_PTR(ret));
	return ret;
}

/**
 * ucb_pool_create() - make a pool of coherent buffers for one device
 * @udev: the device whose transfers the buffers are for
 * @params: size, limits and flags
 *
 * The counterpart of dma_pool_create(). The @params.min buffers are there when
 * it returns. The pool holds a reference on @udev.
 *
 * Context: Process; may sleep.
 * Return: The pool, to be given up with ucb_pool_destroy(); or ERR_PTR of
 * -EINVAL when the parameters contradict each other (the log says which),
 * -ENOMEM when min cannot be met, -ENODEV when the device has gone.
 */
struct ucb_pool *ucb_pool_create(struct usb_device *udev,
				 const struct ucb_pool_params *params)
{
	struct ucb_pool *pool;
	int ret;

	ret = ucb_pool_check_params(udev, params);
	if (ret)
		return ERR_PTR(ret);
	pool = ucb_pool_new(udev, false, GFP_KERNEL);
	if (!pool)
		return ERR_PTR(-ENOMEM);
	/* looked at once the pool is listed, so that USB_BUS_REMOVE finds it */
	if (READ_ONCE(udev->state) == USB_STATE_NOTATTACHED) {
		ucb_pool_destroy(pool);
		return ERR_PTR(-ENODEV);
	}
	strscpy(pool->name, params->name ?: "unnamed", sizeof(pool->name));
	pool->size = params->size;
	pool->flags |= params->flags;
	if (pool->flags & UCB_POOL_ZERO)
		pool->zero = __GFP_ZERO;
	if (pool->flags & UCB_POOL_DEBUG)
		ucb_stacks_init();
	ucb_pool_set_limits(pool, params->min, params->max ?: UINT_MAX);

	ret = ucb_pool_fill(pool, pool->min);
	if (ret) {
		ucb_pool_destroy(pool);
		return ERR_PTR(ret);
	}
	ucb_debugfs_add(pool);
	return pool;
}
EXPORT_SYMBOL_GPL(ucb_pool_create);

/**
 * ucb_pool_resize() - change a pool's limits
 * @pool: the pool
 * @min: buffers allocated up front and kept
 * @max: most buffers the pool may own; 0 for no limit
 *
 * The counterpart of mempool_resize(). The @min buffers are there when it
 * returns. A pool that owns more than @max makes no new blocks, and gives those
 * back whose buffers are home, at once or when they come. Calls must not
 * overlap.
 *
 * Context: Process; may sleep.
 * Return: 0; -EINVAL when @min is over @max; -EBUSY while its blocks are
 * registered; -ENOMEM when @min cannot be met; -ENODEV when the pool is going.
 * On an error the limits are what they were.
 */
int ucb_pool_resize(struct ucb_pool *pool, unsigned int min, unsigned int max)
{
	unsigned int old_min = pool->min, old_max = pool->max;
	unsigned long done, flags;
	int ret;

	ret = ucb_pool_check_limits(pool->udev, min, max);
	if (ret)
		return ret;
	ret = ucb_pool_set_limits(pool, min, max ?: UINT_MAX);
	if (ret)
		return ret;
	ret = ucb_pool_fill(pool, min);
	if (ret)
		ucb_pool_set_limits(pool, old_min, old_max);

	/* those that only the higher max allowed, or that the lower does not */
	ucb_cache_drain(pool, 0);
	do {
		done = 0;
		raw_spin_lock_irqsave(&pool->lock, flags);
		if (pool->nr_bufs > pool->max)
			done = ucb_depot_trim(pool, 0, pool->max, UCB_BATCH);
		raw_spin_unlock_irqrestore(&pool->lock, flags);
	} while (done);
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_pool_resize);
