// SPDX-License-Identifier: GPL-2.0
/*
 * How pools end, and what they hear of their device and bus.
 *
 * Reclaiming runs once per pool, from ucb_pool_destroy() or when the bus goes,
 * whichever is first; the other waits for it. Order: refuse what is new
 * (dying), wait for calls inside, kill our URBs, revoke clients, refuse alloc
 * and free (dead), wait for readers, give the memory back.
 */

#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/usb.h>

#include "internal.h"

LIST_HEAD(ucb_pools);
DEFINE_RAW_SPINLOCK(ucb_pools_lock);

static LIST_HEAD(ucb_clients);
static DEFINE_SPINLOCK(ucb_clients_lock);
DEFINE_STATIC_SRCU(ucb_clients_srcu);

/* Buffers that were not freed, of one size, by who allocated them. */
struct ucb_kept {
	unsigned long caller;
	u32 size;
	bool busy;
	unsigned int count;
};

#define UCB_NR_KEPT	16

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

/* The last entry counts what there is no room for. */
static void ucb_kept_add(struct ucb_kept *kept, const struct ucb_buf *buf,
			 bool busy)
{
	unsigned int i;

	for (i = 0; i < UCB_NR_KEPT; i++)
		if (!kept[i].count ||
		    (kept[i].caller == buf->caller && kept[i].busy == busy &&
		     kept[i].size == buf->requested))
			break;
	if (i < UCB_NR_KEPT && !kept[i].count) {
		kept[i].caller = buf->caller;
		kept[i].size = buf->requested;
		kept[i].busy = busy;
	}
	kept[i].count++;
}

static void ucb_kept_report(struct ucb_pool *pool, const struct ucb_kept *kept)
{
	struct device *dev = &pool->udev->dev;
	unsigned int i;

	for (i = 0; i < UCB_NR_KEPT && kept[i].count; i++)
		dev_warn(dev, "ucb: pool %u (%s): %u buffers of %u bytes allocated by %pS %s\n",
			 pool->id, pool->name, kept[i].count, kept[i].size,
			 (void *)kept[i].caller,
			 kept[i].busy ? "still in use, leaked" :
					"not freed, reclaimed");
	if (kept[UCB_NR_KEPT].count)
		dev_warn(dev, "ucb: pool %u (%s): %u more not freed\n", pool->id,
			 pool->name, kept[UCB_NR_KEPT].count);
}

/*
 * The driver still has the buffer: from here on freeing it is refused. True
 * when something is still at work on it: its memory must stay.
 */
static bool ucb_buf_reclaim(struct ucb_buf *buf, struct ucb_kept *kept)
{
	struct ucb_block *block = buf->block;
	int use = atomic_read(&buf->use), end;
	bool busy;

	/* the driver's handle, if it has one, stays good for ucb_buf_free() */
	kref_get(&block->ref);
	do {
		if (use < UCB_USE_OUT) {
			ucb_block_put(block);
			return false;
		}
		busy = (use & UCB_USE_COUNT) > 1;
		end = busy ? use | UCB_USE_SLOW :
		      use & UCB_USE_HANDLE ? UCB_USE_ORPHAN :
					     UCB_USE_RECLAIMED;
	} while (!atomic_try_cmpxchg(&buf->use, &use, end));
	ucb_kept_add(kept, buf, busy);
	if (end != UCB_USE_ORPHAN)
		ucb_block_put(block);
	return busy;
}

static bool ucb_block_reclaim(struct ucb_block *block, struct ucb_kept *kept)
{
	bool busy = false;
	unsigned int i;

	ucb_block_check_home(block);
	for (i = 0; i < block->nr; i++)
		busy |= ucb_buf_reclaim(&block->bufs[i], kept);
	return busy;
}

/*
 * Nothing is handed out any more when this returns, and what was handed out
 * says so in its use.
 */
static void ucb_pool_stop(struct ucb_pool *pool)
{
	unsigned long flags;
	unsigned int class;

	raw_spin_lock_irqsave(&pool->lock, flags);
	WRITE_ONCE(pool->dead, true);
	ucb_cache_set_limits(pool);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	/* nothing is put into a cache to stay there, once this is over, ... */
	synchronize_rcu();
	for (class = 0; class < pool->nr_classes; class++)
		ucb_cache_drain(pool, class);
	/* ... and what came out of one is handed out, once this is */
	synchronize_rcu();
}

void ucb_pool_reclaim(struct ucb_pool *pool)
{
	struct ucb_kept kept[UCB_NR_KEPT + 1] = { };
	struct ucb_block *block, *next;
	unsigned long flags;

	if (atomic_inc_return(&pool->reclaimers) > 1) {
		wait_for_completion(&pool->reclaimed);
		return;
	}
	raw_spin_lock_irqsave(&pool->lock, flags);
	WRITE_ONCE(pool->dying, true);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	wake_up_all(&pool->home_wait);
	wait_event(pool->idle_wait, !atomic_read(&pool->users));
	usb_kill_anchored_urbs(&pool->urbs);
	ucb_pool_revoke(pool);

	ucb_pool_stop(pool);
	/* blocks that were freed before dead was set; none is added now */
	flush_work(&pool->work);

	/* of a dead pool no other changes the list */
	list_for_each_entry_safe(block, next, &pool->blocks, node) {
		list_del_rcu(&block->node);
		ucb_block_hide(block);
		/* never give back what a device may still write to */
		if (!ucb_block_reclaim(block, kept) && !pool->lost)
			ucb_block_release_memory(block);
	}
	ucb_kept_report(pool, kept);
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
 * Context: Process; may sleep. Not from a completion handler of a URB or of an
 * RDMA connection whose mappings are in it.
 */
void ucb_pool_destroy(struct ucb_pool *pool)
{
	if (!pool)
		return;
	ucb_pool_reclaim(pool);
	cancel_work_sync(&pool->show);
	ucb_debugfs_remove(pool);
	ucb_pool_drop(pool);
}
EXPORT_SYMBOL_GPL(ucb_pool_destroy);

/**
 * ucb_client_register() - be told when buffers must be given up
 * @client: the client; its revoke may be called from here on
 *
 * Until ucb_client_unregister().
 *
 * Context: Process.
 */
void ucb_client_register(struct ucb_client *client)
{
	spin_lock(&ucb_clients_lock);
	list_add_tail_rcu(&client->node, &ucb_clients);
	spin_unlock(&ucb_clients_lock);
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

/* The next pool for which @match is true, with a reference; or NULL. */
static struct ucb_pool *ucb_pools_next(bool (*match)(struct ucb_pool *pool,
						     const void *what),
				       const void *what)
{
	struct ucb_pool *pool, *found = NULL;
	unsigned long flags;

	raw_spin_lock_irqsave(&ucb_pools_lock, flags);
	list_for_each_entry(pool, &ucb_pools, node) {
		if (match(pool, what) && kref_get_unless_zero(&pool->ref)) {
			found = pool;
			break;
		}
	}
	raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
	return found;
}

static bool ucb_pool_loses_bus(struct ucb_pool *pool, const void *bus)
{
	return pool->udev->bus == bus && !completion_done(&pool->reclaimed);
}

/* The controller goes: nothing may be left in its allocators. */
void ucb_pools_bus_gone(struct usb_bus *bus)
{
	struct ucb_pool *pool;

	while ((pool = ucb_pools_next(ucb_pool_loses_bus, bus))) {
		ucb_pool_reclaim(pool);
		ucb_pool_put(pool);
	}
	ucb_dropin_sweep();
}

/* Another one each time that the device is configured; NULL while it is not. */
struct usb_interface *ucb_first_interface(const struct usb_device *udev)
{
	struct usb_host_config *config = READ_ONCE(udev->actconfig);

	return config ? READ_ONCE(config->interface[0]) : NULL;
}

/*
 * True while nothing new may be started on the pool's buffers. A device that
 * went comes back by USB_DEVICE_ADD, but its drivers' probes run before that,
 * when it is configured: what it lost then has another interface.
 */
bool ucb_pool_closed(const struct ucb_pool *pool)
{
	const struct usb_interface *intf;

	if (READ_ONCE(pool->dying))
		return true;
	/* pairs with the release that set it: gone_intf is of that time */
	if (likely(!smp_load_acquire(&pool->gone)))
		return false;
	intf = ucb_first_interface(pool->udev);
	return !intf || intf == pool->gone_intf;
}

static bool ucb_pool_set_gone(struct ucb_pool *pool, bool gone)
{
	struct usb_interface *intf = ucb_first_interface(pool->udev);
	bool changes;

	raw_spin_lock(&pool->lock);
	changes = pool->gone != gone;
	if (changes) {
		/* referenced, so that the next one has another address */
		if (gone)
			pool->gone_intf = usb_get_intf(intf);
		/* pairs with ucb_pool_closed() */
		smp_store_release(&pool->gone, gone);
		ucb_cache_set_limits(pool);
	}
	raw_spin_unlock(&pool->lock);
	return changes;
}

/* True once for each time that the device goes. */
static bool ucb_pool_loses_device(struct ucb_pool *pool, const void *udev)
{
	return pool->udev == udev && ucb_pool_set_gone(pool, true);
}

/* And for each time that it comes back. */
static bool ucb_pool_regains_device(struct ucb_pool *pool, const void *udev)
{
	return pool->udev == udev && ucb_pool_set_gone(pool, false);
}

/* The device goes: its controller and memory stay. */
void ucb_pools_device_gone(struct usb_device *udev)
{
	struct ucb_pool *pool;
	bool dropin = false;

	while ((pool = ucb_pools_next(ucb_pool_loses_device, udev))) {
		dropin |= pool->dropin;
		ucb_pool_revoke(pool);
		ucb_pool_put(pool);
	}
	if (!dropin)
		return;
	/* a free that has not seen gone is over before the sweep counts */
	synchronize_rcu();
	ucb_dropin_sweep();
}

/* It comes back. The USB core lets no two of these calls for it overlap. */
void ucb_pools_device_back(struct usb_device *udev)
{
	struct ucb_pool *pool;

	while ((pool = ucb_pools_next(ucb_pool_regains_device, udev))) {
		usb_put_intf(pool->gone_intf);
		pool->gone_intf = NULL;
		ucb_pool_put(pool);
	}
}
