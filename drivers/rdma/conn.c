// SPDX-License-Identifier: GPL-2.0
/*
 * Connections whose queue pair its owner has lent us, and buffers mapped for
 * them. The keys that these have are in key.c.
 *
 * A mapping is used by the domain's local_dma_lkey, and a key by work requests
 * that may still be in the send queue: nothing but the end of the connection is
 * sure to keep the device from the memory. So that is how both are revoked.
 *
 * A queue pair that cannot be drained may go on, so its buffers are kept for
 * good, its MRs are left alone, and what its work requests may still complete
 * stays where it is.
 */
#include <linux/export.h>
#include <linux/kmemleak.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "bridge.h"

static void qp_release(struct kref *ref)
{
	struct ucb_qp *uqp = container_of(ref, struct ucb_qp, ref);
	unsigned int i;

	for (i = 0; i < uqp->attr.keys; i++)
		kvfree(uqp->keys[i].sg);
	kvfree(uqp->keys);
	ucb_pd_unref(uqp->pd);
	kfree(uqp);
}

void ucb_qp_put(struct ucb_qp *uqp)
{
	kref_put(&uqp->ref, qp_release);
}

static void stop_work(struct work_struct *work)
{
	ucb_qp_stop(container_of(work, struct ucb_qp, stop));
}

/*
 * The end of the connection: nothing is posted any more, what was is flushed,
 * and then every MR goes. Whoever is second waits for the first.
 *
 * Return: 0, or an errno when the device may still execute what was posted.
 */
int ucb_qp_stop(struct ucb_qp *uqp)
{
	unsigned long flags;
	unsigned int i;

	if (test_and_set_bit(0, &uqp->stopping)) {
		wait_for_completion(&uqp->stopped);
		return uqp->error;
	}

	spin_lock_irqsave(&uqp->lock, flags);
	uqp->broken = true;
	spin_unlock_irqrestore(&uqp->lock, flags);
	cancel_work_sync(&uqp->late);
	uqp->error = ucb_drain_qp(uqp->pd->dev, uqp->qp, uqp->drains);
	cancel_work_sync(&uqp->renew);
	if (uqp->error) {
		kref_get(&uqp->ref);
		kmemleak_not_leak(uqp);
		ibdev_err(uqp->pd->ibdev,
			  "ucb: queue pair not drained (%d), its buffers are kept\n",
			  uqp->error);
	}
	/* what is not released now is tried again when its mapping ends */
	for (i = 0; i < uqp->attr.keys; i++)
		ucb_key_end(&uqp->keys[i]);
	complete_all(&uqp->stopped);
	return uqp->error;
}

/* All of a domain that is being closed. */
void ucb_qps_stop(struct ucb_pd *pd)
{
	struct ucb_qp *found;
	struct ucb_qp *uqp;

	do {
		found = NULL;
		spin_lock(&pd->qps_lock);
		list_for_each_entry(uqp, &pd->qps, node) {
			if (!completion_done(&uqp->stopped)) {
				kref_get(&uqp->ref);
				found = uqp;
				break;
			}
		}
		spin_unlock(&pd->qps_lock);

		if (found) {
			ucb_qp_stop(found);
			ucb_qp_put(found);
		}
	} while (found);
}

int ucb_qp_add_map(struct ucb_mr *mr)
{
	struct ucb_qp *uqp = mr->uqp;
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&uqp->lock, flags);
	if (uqp->broken)
		err = -ENOTCONN;
	else
		atomic_inc(&uqp->maps);
	spin_unlock_irqrestore(&uqp->lock, flags);
	return err;
}

/*
 * The mapping has no key, or its connection has ended, or with @stop ends now.
 * Return: 0, or an errno when the device may still be at the buffer.
 */
int ucb_qp_end_map(struct ucb_mr *mr, bool stop)
{
	struct ucb_qp *uqp = mr->uqp;
	int err;

	/* a connection that has just failed may still be at its buffers */
	if (!stop && !READ_ONCE(uqp->broken))
		return 0;
	err = ucb_qp_stop(uqp);
	if (!err && mr->key)
		err = ucb_key_end(mr->key);
	return err;
}

/* With a key if that was not released: then nobody finds the mapping by it. */
void ucb_qp_del_map(struct ucb_mr *mr)
{
	struct ucb_qp *uqp = mr->uqp;
	unsigned long flags;

	spin_lock_irqsave(&uqp->lock, flags);
	if (mr->key)
		mr->key->mr = NULL;
	mr->key = NULL;
	spin_unlock_irqrestore(&uqp->lock, flags);
	atomic_dec(&uqp->maps);
}

bool ucb_qp_key_out(struct ucb_mr *mr)
{
	struct ucb_qp *uqp = mr->uqp;
	unsigned long flags;
	bool out;

	spin_lock_irqsave(&uqp->lock, flags);
	out = mr->key && !uqp->broken;
	spin_unlock_irqrestore(&uqp->lock, flags);
	return out;
}

/* Return: 0, or an errno when the device keeps the MR, for good. */
static int qp_free_key(struct ucb_qp *uqp, struct ucb_key *key)
{
	int err = ucb_key_end(key);

	if (err) {
		ibdev_err(uqp->pd->ibdev, "ucb: idle MR not released\n");
		ucb_fr_forget(key->fr);
		key->fr = NULL;
	}
	return err;
}

/* The caller is inside the domain. */
static int qp_init(struct ucb_qp *uqp)
{
	unsigned int i;
	int err;

	kref_init(&uqp->ref);
	atomic_set(&uqp->maps, 0);
	spin_lock_init(&uqp->lock);
	INIT_LIST_HEAD(&uqp->node);
	INIT_LIST_HEAD(&uqp->idle);
	INIT_LIST_HEAD(&uqp->recalled);
	INIT_LIST_HEAD(&uqp->posted);
	INIT_LIST_HEAD(&uqp->ended);
	INIT_WORK(&uqp->late, ucb_key_late_work);
	INIT_WORK(&uqp->renew, ucb_key_renew_work);
	INIT_WORK(&uqp->stop, stop_work);
	init_completion(&uqp->stopped);
	ucb_pd_ref(uqp->pd);

	for (i = 0; i < uqp->attr.keys; i++) {
		err = ucb_key_init(uqp, &uqp->keys[i]);
		if (err)
			goto err_keys;
	}
	err = ucb_pd_count(uqp->pd);
	if (err)
		goto err_keys;
	spin_lock(&uqp->pd->qps_lock);
	list_add_tail(&uqp->node, &uqp->pd->qps);
	spin_unlock(&uqp->pd->qps_lock);
	return 0;

err_keys:
	while (i--)
		qp_free_key(uqp, &uqp->keys[i]);
	ucb_qp_put(uqp);
	return err;
}

static int check_attr(const struct ucb_pd *pd, const struct ib_qp *qp,
		      const struct ucb_qp_attr *attr)
{
	const struct ib_device_attr *dev = &pd->ibdev->attrs;

	if (qp->qp_type != IB_QPT_RC || qp->pd != pd->ibpd)
		return -EINVAL;
	if (!attr->keys)
		return 0;
	if (!attr->length)
		return -EINVAL;
	/* allocates, and may sleep, in ib_map_mr_sg() */
	if (pd->ibdev->ops.driver_id == RDMA_DRIVER_HNS)
		return -EOPNOTSUPP;
	if (attr->length > (u64)dev->max_fast_reg_page_list_len << PAGE_SHIFT ||
	    attr->length > dev->max_mr_size)
		return -E2BIG;
	return 0;
}

/**
 * ucb_qp_attach() - lend a connection's queue pair
 * @pd: the domain that it is of
 * @qp: an RC queue pair, in any state, of which the caller stays the owner
 * @attr: what it is for; copied
 *
 * Mappings (ucb_mr_map()) and their keys are of one connection. The queue pair
 * gets work requests of ours between the caller's own, at most two for each of
 * @attr.keys at a time and one to drain it: the caller adds 2 * @attr.keys + 1
 * to max_send_wr, 1 to max_recv_wr, and their sum to the completion queues,
 * which are of ib_alloc_cq(). Those of IB_POLL_DIRECT must not be polled by the
 * caller while the queue pair is drained, which a revocation does, too: it is
 * done here meanwhile. A device must execute the work requests of one
 * send queue in order, and refuse a key from the completion of its invalidation
 * on: all do.
 *
 * When a mapping is revoked, because its pool, its USB device or the RDMA
 * device goes, the queue pair is put into the error state and drained: nothing
 * else keeps a device from memory that it may use without a key. So it is when
 * one of our work requests fails. It must not be used again after that.
 *
 * Context: Process context, sleeps.
 * Return: what ucb_qp_detach() takes, or an ERR_PTR: -EINVAL for a NULL
 * argument, a queue pair that is not RC or of another PD, or keys without a
 * length; -EOPNOTSUPP for keys on a device whose driver sleeps when it maps an
 * MR (hns); -E2BIG when @attr.length needs more pages than the device's MRs hold;
 * -ENODEV when the device is going; -ENOMEM; or what the device gave.
 */
struct ucb_qp *ucb_qp_attach(struct ucb_pd *pd, struct ib_qp *qp,
			     const struct ucb_qp_attr *attr)
{
	struct ucb_qp *uqp;
	int err;

	might_sleep();
	if (!pd || !qp || !attr)
		return ERR_PTR(-EINVAL);

	err = ucb_pd_enter(pd);
	if (err)
		return ERR_PTR(err);
	err = check_attr(pd, qp, attr);
	if (err)
		goto err_exit;

	err = -ENOMEM;
	uqp = kzalloc(sizeof(*uqp), GFP_KERNEL);
	if (!uqp)
		goto err_exit;
	uqp->pd = pd;
	uqp->qp = qp;
	uqp->attr = *attr;
	/* one more for a range that does not start with a page */
	uqp->pages = min(PFN_UP(attr->length) + 1,
			 pd->ibdev->attrs.max_fast_reg_page_list_len);
	uqp->keys = kvcalloc(attr->keys, sizeof(*uqp->keys), GFP_KERNEL);
	if (!uqp->keys) {
		kfree(uqp);
		goto err_exit;
	}
	err = qp_init(uqp);
	if (err)
		goto err_exit;
	ucb_pd_exit(pd);
	return uqp;

err_exit:
	ucb_pd_exit(pd);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(ucb_qp_attach);

/**
 * ucb_qp_drain() - end a connection, and have its buffers back
 * @uqp: from ucb_qp_attach()
 *
 * For a peer that does not give a buffer back in time. The queue pair is put
 * into the error state and drained, and every key dies. The mappings stay, to
 * be given up with ucb_mr_dereg().
 *
 * Context: Process context, sleeps. Not from a completion handler.
 * Return: 0; -ETIMEDOUT when the device did not drain the two queues within
 * the module's drain_timeout_ms, or a 30th of that if it was so with the queue
 * pair before; -EIO when it said that it is busy; or what else it gave. Then it
 * may still be at the mapped buffers, which are kept for good.
 */
int ucb_qp_drain(struct ucb_qp *uqp)
{
	might_sleep();
	return ucb_qp_stop(uqp);
}
EXPORT_SYMBOL_GPL(ucb_qp_drain);

/**
 * ucb_qp_detach() - have a connection's queue pair back
 * @uqp: from ucb_qp_attach(), or NULL; gone unless this returns -EBUSY
 *
 * Before the queue pair is destroyed. It is in the error state and drained when
 * this returns 0.
 *
 * Context: Process context, sleeps. Not from a completion handler.
 * Return: 0; -EBUSY when it has mappings that were not given up; or as
 * ucb_qp_drain(). On such an error the caller's own memory, too, is the device's
 * until the queue pair is destroyed, and the domain counts it on, see
 * ucb_pd_detach().
 */
int ucb_qp_detach(struct ucb_qp *uqp)
{
	bool stuck;
	unsigned int i;
	int err;

	might_sleep();
	if (!uqp)
		return 0;
	if (atomic_read(&uqp->maps))
		return -EBUSY;

	err = ucb_qp_stop(uqp);
	cancel_work_sync(&uqp->stop);
	stuck = err;
	for (i = 0; i < uqp->attr.keys && !err; i++)
		stuck |= qp_free_key(uqp, &uqp->keys[i]);
	if (!stuck)
		ucb_pd_uncount(uqp->pd);
	spin_lock(&uqp->pd->qps_lock);
	list_del(&uqp->node);
	spin_unlock(&uqp->pd->qps_lock);
	ucb_qp_put(uqp);
	return err;
}
EXPORT_SYMBOL_GPL(ucb_qp_detach);

/**
 * ucb_mr_map() - map a buffer for a connection, without a key
 * @uqp: from ucb_qp_attach()
 * @buf: a buffer of a pool made with UCB_POOL_RDMA
 * @access: IB_ACCESS_LOCAL_WRITE if the device is to write it, or 0
 * @priv: the caller's, for &ucb_qp_attr.recalled
 *
 * Once for a buffer that is used again and again. It can be posted as it is, by
 * the domain's local_dma_lkey, which the peer never hears of: so not as the
 * sink of a READ on iWARP. And it can be given a key for a transfer, by
 * ucb_mr_grant(). Until ucb_mr_dereg() the buffer cannot be freed (-EBUSY).
 *
 * Context: Process context, sleeps.
 * Return: the mapping, or an ERR_PTR: -EINVAL for a NULL argument or other
 * access; -ENOTCONN when the connection was lost; or as ucb_mr_reg_range().
 */
struct ucb_mr *ucb_mr_map(struct ucb_qp *uqp, struct ucb_buf *buf, int access,
			  void *priv)
{
	struct ucb_mr *mr;
	int err;

	might_sleep();
	if (!uqp || !buf || access & ~IB_ACCESS_LOCAL_WRITE)
		return ERR_PTR(-EINVAL);

	err = ucb_pd_enter(uqp->pd);
	if (err)
		return ERR_PTR(err);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr) {
		ucb_pd_exit(uqp->pd);
		return ERR_PTR(-ENOMEM);
	}
	mr->pd = uqp->pd;
	mr->uqp = uqp;
	mr->buf = buf;
	mr->pool = ucb_buf_pool(buf);
	mr->addr = ucb_buf_addr(buf);
	mr->mapped = ucb_buf_size(buf);
	mr->map_access = access;
	mr->priv = priv;
	mr = ucb_mr_start(mr, 0, NULL, 0);
	ucb_pd_exit(uqp->pd);
	return mr;
}
EXPORT_SYMBOL_GPL(ucb_mr_map);
