// SPDX-License-Identifier: GPL-2.0
/*
 * Trust domains.
 *
 * A key works from any queue pair of its protection domain, so a protection
 * domain is what one peer is trusted with. ucb_pd_get() makes one of our own,
 * ucb_pd_attach() uses one that the caller has made.
 *
 * A domain is open until it is closed, once: by the owner's last put, by
 * detach, or when the device goes. Closing waits for the calls inside, revokes
 * the registrations and gives everything of the device back; the owner's handle
 * stays until the owner drops it. Calls inside are counted, not locked: no
 * lock is held while the device destroys something.
 */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "bridge.h"

/* domains that are not yet closed, and the devices that can have some */
static LIST_HEAD(ucb_pds);
static LIST_HEAD(ucb_devs);
static DEFINE_SPINLOCK(ucb_pds_lock);
static DECLARE_WAIT_QUEUE_HEAD(ucb_pds_wait);
struct workqueue_struct *ucb_rdma_wq;

static struct ucb_dev *find_dev(struct ib_device *ibdev)
{
	struct ucb_dev *dev;

	list_for_each_entry(dev, &ucb_devs, node)
		if (dev->ibdev == ibdev)
			return dev;
	return NULL;
}

/* Return: 0, or -ENODEV once the domain is closing. */
int ucb_pd_enter(struct ucb_pd *pd)
{
	if (test_bit(0, &pd->closing))
		return -ENODEV;
	return refcount_inc_not_zero(&pd->active) ? 0 : -ENODEV;
}

void ucb_pd_exit(struct ucb_pd *pd)
{
	if (refcount_dec_and_test(&pd->active))
		complete(&pd->idle);
}

/* Whoever is second waits for the first. */
static void pd_close(struct ucb_pd *pd)
{
	if (test_and_set_bit(0, &pd->closing)) {
		wait_for_completion(&pd->closed);
		return;
	}

	ucb_mr_shut(pd, false);
	ucb_pd_exit(pd);
	wait_for_completion(&pd->idle);
	ucb_rqp_drop(pd);
	ucb_qps_stop(pd);
	ucb_mr_revoke_pd(pd);
	ucb_fr_drain(pd);
	complete_all(&pd->closed);
}

static void pd_unlist(struct ucb_pd *pd)
{
	spin_lock(&ucb_pds_lock);
	list_del_init(&pd->node);
	spin_unlock(&ucb_pds_lock);
	wake_up_all(&ucb_pds_wait);
}

/* Give the PD back to the device, if it is ours. The domain is closed. */
static void pd_drop_ibpd(struct ucb_pd *pd)
{
	struct ib_pd *ibpd = pd->ibpd;

	WRITE_ONCE(pd->ibpd, NULL);
	if (!ibpd || pd->foreign)
		return;
	/* Freeing it under a live user would be a use after free. */
	if (atomic_read(&ibpd->usecnt))
		ibdev_err(pd->ibdev, "ucb: PD given up while in use, leaked\n");
	else
		ib_dealloc_pd(ibpd);
}

static void pd_free(struct ucb_pd *pd)
{
	pd_close(pd);
	pd_drop_ibpd(pd);
	pd_unlist(pd);
	kfree(pd);
}

static void free_work(struct work_struct *work)
{
	pd_free(container_of(work, struct ucb_pd, free_work));
}

static void pd_release(struct kref *ref)
{
	pd_free(container_of(ref, struct ucb_pd, ref));
}

/* An open domain's device waits for its end. */
static void pd_release_later(struct kref *ref)
{
	struct ucb_pd *pd = container_of(ref, struct ucb_pd, ref);

	if (!test_bit(0, &pd->closing) && ucb_pd_is_iwarp(pd))
		queue_work(ucb_rdma_wq, &pd->free_work);
	else
		pd_free(pd);
}

void ucb_pd_ref(struct ucb_pd *pd)
{
	kref_get(&pd->ref);
}

/*
 * By those who may be in a CM callback, where the domain's queue pairs on iWARP
 * cannot be destroyed.
 */
void ucb_pd_unref(struct ucb_pd *pd)
{
	kref_put(&pd->ref, pd_release_later);
}

static void pd_put(struct ucb_pd *pd)
{
	kref_put(&pd->ref, pd_release);
}

/* The open domain on @ibpd with a reference, or NULL. */
struct ucb_pd *ucb_pd_find(struct ib_pd *ibpd)
{
	struct ucb_pd *found = NULL;
	struct ucb_pd *pd;

	spin_lock(&ucb_pds_lock);
	list_for_each_entry(pd, &ucb_pds, node) {
		if (READ_ONCE(pd->ibpd) == ibpd &&
		    kref_get_unless_zero(&pd->ref)) {
			found = pd;
			break;
		}
	}
	spin_unlock(&ucb_pds_lock);
	return found;
}

static struct ucb_pd *pd_alloc(struct ib_device *ibdev, u32 port)
{
	const char *why;
	struct ucb_pd *pd;

	if (!rdma_is_port_valid(ibdev, port))
		return ERR_PTR(-EINVAL);
	why = ucb_why_no_registration(ibdev, port);
	if (why) {
		ibdev_warn_ratelimited(ibdev, "ucb: port %u: no registration: %s\n",
				       port, why);
		return ERR_PTR(-EOPNOTSUPP);
	}

	pd = kzalloc(sizeof(*pd), GFP_KERNEL);
	if (!pd)
		return ERR_PTR(-ENOMEM);

	kref_init(&pd->ref);
	INIT_LIST_HEAD(&pd->node);
	INIT_WORK(&pd->free_work, free_work);
	pd->ibdev = ibdev;
	pd->port = port;
	refcount_set(&pd->active, 1);
	init_completion(&pd->idle);
	init_completion(&pd->closed);
	ucb_rqp_init(pd);
	spin_lock_init(&pd->fr_lock);
	INIT_LIST_HEAD(&pd->fr_idle);
	spin_lock_init(&pd->qps_lock);
	INIT_LIST_HEAD(&pd->qps);
	return pd;
}

/* Put the domain on the list, if its device is still there. */
static int pd_list(struct ucb_pd *pd)
{
	struct ucb_pd *other;
	int err = 0;

	spin_lock(&ucb_pds_lock);
	pd->dev = find_dev(pd->ibdev);
	if (!pd->dev) {
		err = -ENODEV;
		goto out;
	}
	list_for_each_entry(other, &ucb_pds, node) {
		if (READ_ONCE(other->ibpd) == pd->ibpd) {
			err = -EEXIST;
			goto out;
		}
	}
	list_add_tail(&pd->node, &ucb_pds);
out:
	spin_unlock(&ucb_pds_lock);
	return err;
}

/*
 * The registration queue pair is made here, so that a bad one shows early. A
 * port that is not active yet is no error: ucb_mr_reg() tries again.
 */
static int pd_open(struct ucb_pd *pd)
{
	int err;

	err = ucb_pd_enter(pd);
	if (err)
		return err;
	err = ucb_rqp_prepare(pd);
	ucb_pd_exit(pd);
	return err == -EAGAIN ? 0 : err;
}

/*
 * List a new domain and open it. Once it is listed a call on a connection may
 * find it and register, so on failure it is closed before the owner is told.
 */
static struct ucb_pd *pd_start(struct ucb_pd *pd)
{
	int err;

	err = pd_list(pd);
	if (!err)
		err = pd_open(pd);
	if (!err)
		return pd;

	pd_close(pd);
	pd_unlist(pd);
	pd_put(pd);
	return ERR_PTR(err);
}

/**
 * ucb_pd_get() - make a trust domain
 * @ibdev: the RDMA device; the caller makes sure that it exists, as inside its
 *	own ib_client or while it holds a connection on it
 * @port: port number, from 1
 *
 * Every call makes a new domain with a PD of its own: use one for each peer. The
 * caller makes its queue pair for the peer with ucb_create_qp(). Mirrors
 * ibv_alloc_pd(3).
 *
 * When the device goes, the registrations are revoked and calls on the domain
 * return -ENODEV; the handle stays valid until ucb_pd_put(). If there are queue
 * pairs of the caller on the domain by then, the device waits for that put. The
 * caller hears of the removal as their owner: by the connection manager's
 * DEVICE_REMOVAL event, or in its own ib_client.
 *
 * Context: Process context, sleeps. Not from a connection manager callback of
 * the same device.
 * Return: the domain, or an ERR_PTR: -EINVAL for a NULL device or a port it does
 * not have, -EOPNOTSUPP for a port of another kind than InfiniBand, RoCE and
 * iWARP, a device without fast registration, or one for which memory may be
 * bounced, -ENODEV when the device is going, -ENOMEM, or what the device gave.
 */
struct ucb_pd *ucb_pd_get(struct ib_device *ibdev, u32 port)
{
	struct ucb_pd *pd;
	int err;

	might_sleep();
	if (!ibdev)
		return ERR_PTR(-EINVAL);

	pd = pd_alloc(ibdev, port);
	if (IS_ERR(pd))
		return pd;

	pd->ibpd = ib_alloc_pd(ibdev, 0);
	if (IS_ERR(pd->ibpd)) {
		err = PTR_ERR(pd->ibpd);
		kfree(pd);
		return ERR_PTR(err);
	}

	return pd_start(pd);
}
EXPORT_SYMBOL_GPL(ucb_pd_get);

/**
 * ucb_pd_put() - drop a trust domain of ucb_pd_get()
 * @pd: the domain, or NULL
 *
 * The caller has destroyed its queue pairs on it; otherwise the PD is leaked and
 * reported. The domain goes when its last registration's handle and its last
 * attached queue pair have gone too; never, if one of those could not be
 * drained. Mirrors ibv_dealloc_pd(3).
 *
 * Context: Process context, sleeps. On iWARP not from a connection manager
 * callback.
 */
void ucb_pd_put(struct ucb_pd *pd)
{
	bool held;

	might_sleep();
	if (!pd)
		return;
	if (pd->foreign) {
		/* its device may have gone, and cannot be named */
		pr_warn_ratelimited("ucb: attached PD put, it is to be detached\n");
		return;
	}

	spin_lock(&ucb_pds_lock);
	pd->given_up = true;
	held = pd->holds_device;
	pd->holds_device = false;
	spin_unlock(&ucb_pds_lock);

	if (held) {
		pd_drop_ibpd(pd);
		ib_device_put(pd->ibdev);
	}
	pd_put(pd);
}
EXPORT_SYMBOL_GPL(ucb_pd_put);

/**
 * ucb_pd_attach() - make a trust domain on the caller's own PD
 * @ibpd: the PD; must stay until ucb_pd_detach() has returned 0
 * @port: port number, from 1, of the peers that will use it
 *
 * Context: Process context, sleeps.
 * Return: the domain, or an ERR_PTR: -EINVAL for NULL, -EEXIST when the PD is
 * already of a domain, and those of ucb_pd_get().
 */
struct ucb_pd *ucb_pd_attach(struct ib_pd *ibpd, u32 port)
{
	struct ucb_pd *pd;

	might_sleep();
	if (!ibpd)
		return ERR_PTR(-EINVAL);

	pd = pd_alloc(ibpd->device, port);
	if (IS_ERR(pd))
		return pd;
	pd->ibpd = ibpd;
	pd->foreign = true;

	return pd_start(pd);
}
EXPORT_SYMBOL_GPL(ucb_pd_attach);

/**
 * ucb_pd_detach() - give up a trust domain of ucb_pd_attach()
 * @pd: the domain; gone when this returns 0
 *
 * A PD that is freed under a registration cannot be detected later, so this
 * refuses while there is one, and names it, or a queue pair that
 * ucb_qp_detach() has not given back. An MR that the device did not release, or
 * a queue pair that it did not drain, counts as long as the device is there.
 * After 0 the bridge uses nothing of the PD.
 *
 * Context: Process context, sleeps.
 * Return: 0, -EINVAL for NULL or a domain of ucb_pd_get(), or -EBUSY when there
 * are registrations, which are named in the log, or attached queue pairs, which
 * are counted there.
 */
int ucb_pd_detach(struct ucb_pd *pd)
{
	if (!pd || !pd->foreign)
		return -EINVAL;
	/* without a PD the device has gone, and all registrations with it */
	if (ucb_pd_ib(pd) && ucb_mr_shut(pd, true))
		return -EBUSY;

	pd_close(pd);
	pd_unlist(pd);
	pd_put(pd);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_pd_detach);

/**
 * ucb_pd_ib() - the PD of a trust domain
 * @pd: the domain
 *
 * The PD goes with its device. To make a queue pair on it use ucb_create_qp(),
 * or this where the device cannot go, as inside the caller's own ib_client.
 *
 * Context: Any.
 * Return: the PD, or NULL when the device has gone.
 */
struct ib_pd *ucb_pd_ib(struct ucb_pd *pd)
{
	return READ_ONCE(pd->ibpd);
}
EXPORT_SYMBOL_GPL(ucb_pd_ib);

static int ucb_add_one(struct ib_device *ibdev)
{
	struct ucb_dev *dev;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	dev->ibdev = ibdev;
	dev->preflight = ucb_preflight_add(ibdev);

	spin_lock(&ucb_pds_lock);
	list_add_tail(&dev->node, &ucb_devs);
	spin_unlock(&ucb_pds_lock);

	ib_set_client_data(ibdev, &ucb_ib_client, dev);
	return 0;
}

/* An open domain of @ibdev with a reference, or NULL. */
static struct ucb_pd *take_pd_of(struct ib_device *ibdev)
{
	struct ucb_pd *found = NULL;
	struct ucb_pd *pd;

	spin_lock(&ucb_pds_lock);
	list_for_each_entry(pd, &ucb_pds, node) {
		if (pd->ibdev == ibdev && kref_get_unless_zero(&pd->ref)) {
			found = pd;
			break;
		}
	}
	spin_unlock(&ucb_pds_lock);
	return found;
}

/*
 * The connection manager tells its users only after this, so an owner may
 * still have queue pairs on our PD: then the PD, and with it the device, is kept
 * until the owner's put. No queue pair is added once the domain is closed.
 */
static void remove_pd(struct ucb_pd *pd)
{
	bool held;

	pd_close(pd);

	spin_lock(&ucb_pds_lock);
	if (!pd->foreign && !pd->given_up && atomic_read(&pd->ibpd->usecnt))
		pd->holds_device = ib_device_try_get(pd->ibdev);
	held = pd->holds_device;
	spin_unlock(&ucb_pds_lock);

	if (!held)
		pd_drop_ibpd(pd);
	pd_unlist(pd);
	pd_put(pd);
}

static bool no_pd_of(struct ib_device *ibdev)
{
	struct ucb_pd *pd;
	bool none = true;

	spin_lock(&ucb_pds_lock);
	list_for_each_entry(pd, &ucb_pds, node)
		if (pd->ibdev == ibdev)
			none = false;
	spin_unlock(&ucb_pds_lock);
	return none;
}

static void ucb_rename_one(struct ib_device *ibdev, void *data)
{
	struct ucb_dev *dev = data;

	debugfs_remove(dev->preflight);
	dev->preflight = ucb_preflight_add(ibdev);
}

static void ucb_remove_one(struct ib_device *ibdev, void *data)
{
	struct ucb_dev *dev = data;
	struct ucb_pd *pd;

	spin_lock(&ucb_pds_lock);
	list_del(&dev->node);
	spin_unlock(&ucb_pds_lock);
	debugfs_remove(dev->preflight);

	while ((pd = take_pd_of(ibdev)))
		remove_pd(pd);

	/* those that their owners are putting at this moment */
	wait_event(ucb_pds_wait, no_pd_of(ibdev));
	kfree(dev);
}

struct ib_client ucb_ib_client = {
	.name = "ucb",
	.add = ucb_add_one,
	.remove = ucb_remove_one,
	.rename = ucb_rename_one,
};
