// SPDX-License-Identifier: GPL-2.0
/*
 * Pools: creating, handing out, growing, reclaiming.
 *
 * Normal operation: a buffer is taken from a free list and put back there. A
 * pool that runs empty grows by a block, at once where the caller may sleep,
 * else through its worker.
 *
 * Reclaiming runs once per pool, from ucb_pool_destroy() or when the bus goes,
 * whichever is first; the other waits for it. Order: refuse what is new
 * (dying), wait for calls inside, kill our URBs, revoke clients, refuse alloc
 * and free (dead), wait for readers, give the memory back.
 */

#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "internal.h"

#define UCB_BLOCK_BYTES		(16UL << 10)
#define UCB_STRIDE_ALIGN	64

static LIST_HEAD(ucb_pools);
static DEFINE_RAW_SPINLOCK(ucb_pools_lock);
static atomic_t ucb_next_id;

static LIST_HEAD(ucb_clients);
static DEFINE_SPINLOCK(ucb_clients_lock);
DEFINE_STATIC_SRCU(ucb_clients_srcu);

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
	if (atomic_dec_and_test(&pool->users) && READ_ONCE(pool->dying))
		wake_up(&pool->idle_wait);
}

static void ucb_pool_release(struct work_struct *work)
{
	struct ucb_pool *pool = container_of(work, struct ucb_pool, release);

	cancel_work_sync(&pool->work);
	usb_put_dev(pool->udev);
	kfree_rcu(pool, rcu);
}

static void ucb_pool_unref(struct kref *ref)
{
	struct ucb_pool *pool = container_of(ref, struct ucb_pool, ref);

	/* the last handle may go in any context, usb_put_dev() may sleep */
	queue_work(ucb_wq, &pool->release);
}

void ucb_pool_put(struct ucb_pool *pool)
{
	kref_put(&pool->ref, ucb_pool_unref);
}

static struct ucb_buf *ucb_pool_pop(struct ucb_pool *pool, unsigned int class)
{
	struct ucb_buf *buf = NULL;
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	if (!pool->dead)
		buf = list_first_entry_or_null(&pool->free[class],
					       struct ucb_buf, node);
	if (buf) {
		list_del_init(&buf->node);
		pool->idle -= buf->block->stride;
		pool->allocs++;
		pool->high = max(pool->high, ++pool->nr_live);
	}
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return buf;
}

/* Hand out: the buffer is on no list, so it is ours until use is 1. */
static void ucb_buf_hand_out(struct ucb_buf *buf, size_t requested,
			     unsigned long caller)
{
	buf->requested = requested;
	buf->caller = caller;
	if (buf->block->pool->flags & UCB_POOL_DEBUG)
		ucb_guard_arm(buf);
	atomic_set_release(&buf->use, 1);
}

struct ucb_buf *ucb_pool_take(struct ucb_pool *pool, unsigned int class,
			      size_t requested, unsigned long caller)
{
	struct ucb_buf *buf;

	while ((buf = ucb_pool_pop(pool, class))) {
		unsigned long flags;

		if (!(pool->flags & UCB_POOL_DEBUG) || ucb_poison_intact(buf)) {
			ucb_buf_hand_out(buf, requested, caller);
			return buf;
		}
		atomic_set(&buf->use, UCB_QUARANTINED);
		raw_spin_lock_irqsave(&pool->lock, flags);
		pool->nr_live--;
		raw_spin_unlock_irqrestore(&pool->lock, flags);
	}
	return NULL;
}

/*
 * A new block joins the pool; with @requested, its first buffer goes out at
 * once. The caller is inside ucb_pool_enter(), so reclaiming comes later.
 */
void ucb_pool_adopt(struct ucb_pool *pool, struct ucb_block *block,
		    size_t requested, unsigned long caller)
{
	unsigned int i = 0;
	unsigned long flags;

	if (requested)
		ucb_buf_hand_out(&block->bufs[0], requested, caller);
	raw_spin_lock_irqsave(&pool->lock, flags);
	list_add_tail(&block->node, &pool->blocks);
	pool->nr_blocks++;
	if (requested) {
		i = 1;
		pool->allocs++;
		pool->high = max(pool->high, ++pool->nr_live);
	}
	for (; i < block->nr; i++) {
		struct ucb_buf *buf = &block->bufs[i];

		list_add_tail(&buf->node, &pool->free[buf->class]);
		pool->idle += block->stride;
	}
	raw_spin_unlock_irqrestore(&pool->lock, flags);
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

/* -ENOSPC when max is reached, -ENOMEM, -ENODEV when the pool is going */
static int ucb_pool_grow(struct ucb_pool *pool, gfp_t gfp)
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
	nr = min(nr, pool->max - pool->nr_bufs);
	pool->nr_bufs += nr;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	if (!nr) {
		ret = -ENOSPC;
		goto out;
	}
	block = ucb_block_new(pool, 0, nr, stride, size, gfp);
	if (block) {
		ucb_pool_adopt(pool, block, 0, 0);
	} else {
		raw_spin_lock_irqsave(&pool->lock, flags);
		pool->nr_bufs -= nr;
		raw_spin_unlock_irqrestore(&pool->lock, flags);
		ret = -ENOMEM;
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
		ucb_block_hide(block);
		ucb_block_release_memory(block);
	}
	raw_spin_lock_irqsave(&pool->lock, flags);
	want = pool->want && list_empty(&pool->free[0]);
	pool->want = false;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	if (want && !pool->dropin)
		ucb_pool_grow(pool, GFP_NOIO | __GFP_NOWARN);
	if (pool->dropin)
		ucb_debugfs_add(pool);
}

/* Any context: a drop-in pool may be made by its first, atomic, allocation. */
struct ucb_pool *ucb_pool_new(struct usb_device *udev, gfp_t gfp)
{
	struct ucb_pool *pool;
	unsigned long flags;
	unsigned int i;

	pool = kzalloc(sizeof(*pool), gfp);
	if (!pool)
		return NULL;
	kref_init(&pool->ref);
	pool->udev = usb_get_dev(udev);
	pool->id = atomic_inc_return(&ucb_next_id);
	pool->max = UINT_MAX;
	pool->kind = ucb_hcd_kind(udev);
	raw_spin_lock_init(&pool->lock);
	for (i = 0; i < ARRAY_SIZE(pool->free); i++)
		INIT_LIST_HEAD(&pool->free[i]);
	INIT_LIST_HEAD(&pool->blocks);
	init_waitqueue_head(&pool->idle_wait);
	init_usb_anchor(&pool->urbs);
	init_llist_head(&pool->reap);
	INIT_WORK(&pool->work, ucb_pool_work);
	INIT_WORK(&pool->release, ucb_pool_release);
	init_completion(&pool->reclaimed);

	raw_spin_lock_irqsave(&ucb_pools_lock, flags);
	list_add_tail(&pool->node, &ucb_pools);
	raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
	return pool;
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
	if (params->max && params->min > params->max) {
		dev_err(&udev->dev, "ucb: pool min %u is over max %u\n",
			params->min, params->max);
		return -EINVAL;
	}
	return 0;
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
	pool = ucb_pool_new(udev, GFP_KERNEL);
	if (!pool)
		return ERR_PTR(-ENOMEM);
	/* looked at once the pool is listed, so that USB_BUS_REMOVE finds it */
	if (READ_ONCE(udev->state) == USB_STATE_NOTATTACHED) {
		ucb_pool_destroy(pool);
		return ERR_PTR(-ENODEV);
	}
	strscpy(pool->name, params->name ?: "unnamed", sizeof(pool->name));
	pool->size = params->size;
	pool->min = params->min;
	pool->max = params->max ?: UINT_MAX;
	pool->flags = params->flags;
	if (READ_ONCE(ucb_debug))
		pool->flags |= UCB_POOL_DEBUG;

	while (pool->nr_bufs < pool->min) {
		ret = ucb_pool_grow(pool, GFP_KERNEL);
		if (ret) {
			dev_err(&udev->dev,
				"ucb: pool %u (%s): min %u not met, %u buffers of %zu bytes allocated: %pe\n",
				pool->id, pool->name, pool->min, pool->nr_bufs,
				pool->size, ERR_PTR(ret));
			ucb_pool_destroy(pool);
			return ERR_PTR(ret);
		}
	}
	ucb_debugfs_add(pool);
	return pool;
}
EXPORT_SYMBOL_GPL(ucb_pool_create);

static void ucb_pool_revoke(struct ucb_pool *pool)
{
	struct ucb_client *client;
	int idx;

	idx = srcu_read_lock(&ucb_clients_srcu);
	list_for_each_entry_srcu(client, &ucb_clients, node,
				 srcu_read_lock_held(&ucb_clients_srcu))
		client->revoke(client, pool);
	srcu_read_unlock(&ucb_clients_srcu, idx);
}

/* True when something is still at work on a buffer: its memory must stay. */
static bool ucb_block_report(struct ucb_block *block)
{
	struct ucb_pool *pool = block->pool;
	bool busy = false;
	unsigned int i;

	for (i = 0; i < block->nr; i++) {
		struct ucb_buf *buf = &block->bufs[i];
		int use = atomic_read(&buf->use);

		if (use < 1)
			continue;
		dev_warn_ratelimited(&pool->udev->dev,
				     "ucb: pool %u (%s): %zu bytes allocated by %pS %s\n",
				     pool->id, pool->name, buf->requested,
				     (void *)buf->caller,
				     use > 1 ? "still in use, leaked" :
					       "not freed, reclaimed");
		busy |= use > 1;
	}
	return busy;
}

void ucb_pool_reclaim(struct ucb_pool *pool)
{
	struct ucb_block *block, *next;
	unsigned long flags;
	LIST_HEAD(blocks);
	unsigned int i;

	if (atomic_inc_return(&pool->reclaimers) > 1) {
		wait_for_completion(&pool->reclaimed);
		return;
	}
	raw_spin_lock_irqsave(&pool->lock, flags);
	pool->dying = true;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	wait_event(pool->idle_wait, !atomic_read(&pool->users));
	usb_kill_anchored_urbs(&pool->urbs);
	ucb_pool_revoke(pool);

	raw_spin_lock_irqsave(&pool->lock, flags);
	pool->dead = true;
	list_splice_init(&pool->blocks, &blocks);
	for (i = 0; i < ARRAY_SIZE(pool->free); i++)
		INIT_LIST_HEAD(&pool->free[i]);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	synchronize_rcu();
	/* blocks that were freed before dead was set; none is added now */
	flush_work(&pool->work);

	list_for_each_entry_safe(block, next, &blocks, node) {
		list_del_init(&block->node);
		ucb_block_hide(block);
		/* never give back what a device may still write to */
		if (ucb_block_report(block))
			continue;
		ucb_block_release_memory(block);
	}
	complete_all(&pool->reclaimed);
}

/* Any context: the end of a pool that owns nothing, or nothing any more. */
void ucb_pool_drop(struct ucb_pool *pool)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&ucb_pools_lock, flags);
	list_del(&pool->node);
	raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
	ucb_pool_put(pool);
}

/**
 * ucb_pool_destroy() - end a pool
 * @pool: the pool, or NULL
 *
 * For disconnect(). Kills the URBs submitted with ucb_submit_urb() and waits
 * for their completions, revokes registrations, reports and reclaims what the
 * driver kept.
 *
 * Context: Process; may sleep.
 */
void ucb_pool_destroy(struct ucb_pool *pool)
{
	if (!pool)
		return;
	ucb_pool_reclaim(pool);
	ucb_debugfs_remove(pool);
	ucb_pool_drop(pool);
}
EXPORT_SYMBOL_GPL(ucb_pool_destroy);

static struct ucb_buf *ucb_pool_get(struct ucb_pool *pool, gfp_t gfp,
				    unsigned long caller)
{
	struct ucb_buf *buf;
	unsigned long flags;
	int ret;

	while (!(buf = ucb_pool_take(pool, 0, pool->size, caller))) {
		atomic_long_inc(&pool->misses);
		if (!gfpflags_allow_blocking(gfp)) {
			raw_spin_lock_irqsave(&pool->lock, flags);
			pool->want = !pool->dying;
			if (pool->want)
				queue_work(ucb_wq, &pool->work);
			raw_spin_unlock_irqrestore(&pool->lock, flags);
			return NULL;
		}
		ret = ucb_pool_grow(pool, gfp);
		if (ret == -ENOSPC)
			dev_warn_ratelimited(&pool->udev->dev,
					     "ucb: pool %u (%s): all %u buffers (max) are out\n",
					     pool->id, pool->name, pool->max);
		if (ret)
			return NULL;
	}
	if ((pool->flags & UCB_POOL_ZERO) || want_init_on_alloc(gfp))
		memset(buf->addr, 0, buf->requested);
	return buf;
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
	struct ucb_buf *buf = ucb_pool_get(pool, gfp, _RET_IP_);

	if (!buf)
		return NULL;
	*dma = buf->dma;
	return buf->addr;
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
	struct ucb_buf *buf = ucb_pool_get(pool, gfp | __GFP_ZERO, _RET_IP_);

	if (!buf)
		return NULL;
	*dma = buf->dma;
	return buf->addr;
}
EXPORT_SYMBOL_GPL(ucb_pool_zalloc);

/**
 * ucb_buf_alloc() - take a buffer by handle
 * @pool: the pool
 * @gfp: as for ucb_pool_alloc()
 *
 * Context: Any but NMI, as @gfp says.
 * Return: The buffer, to be given back with ucb_buf_free(); or NULL as
 * ucb_pool_alloc().
 */
struct ucb_buf *ucb_buf_alloc(struct ucb_pool *pool, gfp_t gfp)
{
	struct ucb_buf *buf = ucb_pool_get(pool, gfp, _RET_IP_);

	if (buf)
		kref_get(&buf->block->ref);
	return buf;
}
EXPORT_SYMBOL_GPL(ucb_buf_alloc);

/**
 * ucb_client_register() - be told when buffers must be given up
 * @client: the client; its revoke may be called from here on
 *
 * Context: Process.
 * Return: 0.
 */
int ucb_client_register(struct ucb_client *client)
{
	spin_lock(&ucb_clients_lock);
	list_add_tail_rcu(&client->node, &ucb_clients);
	spin_unlock(&ucb_clients_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_client_register);

/**
 * ucb_client_unregister() - no longer be told
 * @client: the client; no revoke runs when this returns
 *
 * Context: Process; may sleep. Not from revoke.
 */
void ucb_client_unregister(struct ucb_client *client)
{
	spin_lock(&ucb_clients_lock);
	list_del_rcu(&client->node);
	spin_unlock(&ucb_clients_lock);
	synchronize_srcu(&ucb_clients_srcu);
}
EXPORT_SYMBOL_GPL(ucb_client_unregister);

/* The controller goes: nothing may be left in its allocators. */
void ucb_pools_bus_gone(struct usb_bus *bus)
{
	struct ucb_pool *pool, *found;
	unsigned long flags;

	do {
		found = NULL;
		raw_spin_lock_irqsave(&ucb_pools_lock, flags);
		list_for_each_entry(pool, &ucb_pools, node) {
			if (pool->udev->bus == bus &&
			    !completion_done(&pool->reclaimed) &&
			    kref_get_unless_zero(&pool->ref)) {
				found = pool;
				break;
			}
		}
		raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
		if (found) {
			ucb_pool_reclaim(found);
			ucb_pool_put(found);
		}
	} while (found);
	ucb_dropin_sweep();
}

/* The device goes, or comes back: its controller and memory stay. */
void ucb_pools_device_gone(struct usb_device *udev, bool gone)
{
	struct ucb_pool *pool, *found;
	unsigned long flags;

	do {
		found = NULL;
		raw_spin_lock_irqsave(&ucb_pools_lock, flags);
		list_for_each_entry(pool, &ucb_pools, node) {
			if (pool->udev != udev || pool->gone_revoked == gone)
				continue;
			raw_spin_lock(&pool->lock);
			pool->gone = gone;
			pool->gone_revoked = gone;
			raw_spin_unlock(&pool->lock);
			if (gone && kref_get_unless_zero(&pool->ref)) {
				found = pool;
				break;
			}
		}
		raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
		if (found) {
			ucb_pool_revoke(found);
			ucb_pool_put(found);
		}
	} while (found);
	if (gone)
		ucb_dropin_sweep();
}
