// SPDX-License-Identifier: GPL-2.0
/*
 * Per-transfer keys.
 *
 * The owner of a connection lends us its queue pair. A buffer is mapped for the
 * device once; for a transfer it gets a key of exactly the bytes that the peer
 * is to reach, by IB_WR_REG_MR in front of the owner's own work requests, and
 * loses it by IB_WR_LOCAL_INV when the transfer is over. MRs are made when the
 * queue pair is lent: giving and taking a key allocates nothing.
 *
 * An invalidation that nobody waits for is kept for up to a millisecond, so
 * that up to 16 go to the device at once and only the last tells of its
 * completion: the send queue is executed in order. Until then the buffer is
 * busy.
 *
 * When a work request fails, the connection is lost: nothing more is posted,
 * the queue is drained, and only then the MRs are destroyed, whatever state
 * they are in, and the buffers are free.
 */
#include <linux/delay.h>
#include <linux/export.h>
#include <linux/slab.h>

#include "bridge.h"
#include "trace.h"

#define UCB_INV_BATCH	16

/* microseconds that an invalidation waits for others */
#define UCB_LATE_MIN	500
#define UCB_LATE_MAX	1000

/* uqp->lock is held. */
static void qp_fail(struct ucb_qp *uqp)
{
	if (uqp->broken)
		return;
	uqp->broken = true;
	queue_work(ucb_rdma_wq, &uqp->stop);
}

static void reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ucb_key *key = container_of(wc->wr_cqe, struct ucb_key, reg_cqe);
	unsigned long flags;

	if (wc->status == IB_WC_SUCCESS)
		return;
	spin_lock_irqsave(&key->uqp->lock, flags);
	qp_fail(key->uqp);
	spin_unlock_irqrestore(&key->uqp->lock, flags);
}

static bool key_must_retire(const struct ucb_key *key)
{
	return key->fr->uses >= UCB_FR_KEYS ||
	       ucb_must_retire(key->uqp->pd, key->mr->access);
}

/*
 * Tell the owner of @mr. uqp->lock is held, and is dropped meanwhile;
 * ucb_mr_dereg() waits for RCU, so that the mapping outlives the call.
 */
static void tell_recalled(struct ucb_qp *uqp, struct ucb_mr *mr,
			  unsigned long *flags, int error)
{
	if (!uqp->attr.recalled)
		return;
	rcu_read_lock();
	spin_unlock_irqrestore(&uqp->lock, *flags);
	uqp->attr.recalled(mr, mr->priv, error);
	rcu_read_unlock();
	spin_lock_irqsave(&uqp->lock, *flags);
}

/* The mapping can have another. uqp->lock is held, and is dropped meanwhile. */
void ucb_key_home(struct ucb_key *key, unsigned long *flags, int error)
{
	struct ucb_qp *uqp = key->uqp;
	struct ucb_mr *mr = key->mr;
	bool recalled = key->state == UCB_KEY_RECALLED;

	key->mr = NULL;
	key->state = UCB_KEY_IDLE;
	key->unused = false;
	if (key->fr)
		list_add(&key->node, &uqp->idle);
	else
		list_add_tail(&key->node, &uqp->idle);
	/* without one it was only renewed */
	if (!mr)
		return;
	mr->key = NULL;
	if (recalled)
		tell_recalled(uqp, mr, flags, error);
}

/* The send queue is executed in order: what was posted before is done, too. */
static void inv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ucb_key *last = container_of(wc->wr_cqe, struct ucb_key, inv_cqe);
	struct ucb_qp *uqp = last->uqp;
	struct ucb_key *key = NULL;
	unsigned long flags;

	spin_lock_irqsave(&uqp->lock, flags);
	if (wc->status != IB_WC_SUCCESS)
		qp_fail(uqp);
	while (!uqp->broken && key != last && !list_empty(&uqp->posted)) {
		key = list_first_entry(&uqp->posted, struct ucb_key, node);
		ucb_stat_add(UCB_STAT_INV, key->start);
		trace_ucb_mr_inv(uqp->pd->ibdev, key->inv.ex.invalidate_rkey, 0);
		if (key_must_retire(key)) {
			list_move_tail(&key->node, &uqp->ended);
			queue_work(ucb_rdma_wq, &uqp->renew);
		} else {
			list_del(&key->node);
			ucb_key_home(key, &flags, 0);
		}
	}
	spin_unlock_irqrestore(&uqp->lock, flags);
}

/* Post what was recalled, in batches. uqp->lock is held. */
static void post_recalled(struct ucb_qp *uqp)
{
	const struct ib_send_wr *bad;
	struct ib_send_wr *next;
	struct ucb_key *key;
	int left;
	int err;

	while (!uqp->broken && uqp->nr_recalled) {
		left = min(uqp->nr_recalled, UCB_INV_BATCH);
		list_for_each_entry(key, &uqp->recalled, node) {
			next = &list_next_entry(key, node)->inv;
			key->inv.next = --left ? next : NULL;
			key->inv.send_flags = left ? 0 : IB_SEND_SIGNALED;
			if (!left)
				break;
		}

		key = list_first_entry(&uqp->recalled, struct ucb_key, node);
		bad = NULL;
		err = ib_post_send(uqp->qp, &key->inv, &bad);
		do {
			if (err && bad == &key->inv)
				break;
			next = key->inv.next;
			list_move_tail(&key->node, &uqp->posted);
			uqp->nr_recalled--;
			key = next ? container_of(next, struct ucb_key, inv) :
				     NULL;
		} while (key);

		/* a full queue empties; another error is the connection's end */
		if (err == -ENOMEM)
			queue_work(ucb_rdma_wq, &uqp->late);
		else if (err)
			qp_fail(uqp);
		if (err)
			break;
	}
}

void ucb_key_late_work(struct work_struct *work)
{
	struct ucb_qp *uqp = container_of(work, struct ucb_qp, late);
	unsigned long flags;

	usleep_range(UCB_LATE_MIN, UCB_LATE_MAX);
	spin_lock_irqsave(&uqp->lock, flags);
	post_recalled(uqp);
	spin_unlock_irqrestore(&uqp->lock, flags);
}

/* Return: 0, with or without another MR, or what the device gave. */
static int key_renew(struct ucb_key *key)
{
	int err;

	if (key->unused && key->fr->uses < UCB_FR_KEYS)
		return 0;
	if (key->fr) {
		err = ucb_fr_destroy(key->fr);
		if (err)
			return err;
	}
	key->fr = ucb_fr_alloc(key->uqp->pd, key->uqp->pages);
	if (IS_ERR(key->fr))
		key->fr = NULL;
	return 0;
}

/*
 * The device stops using some MRs only when they are destroyed, and others have
 * had all their keys: have another in place of each.
 */
void ucb_key_renew_work(struct work_struct *work)
{
	struct ucb_qp *uqp = container_of(work, struct ucb_qp, renew);
	struct ucb_key *key;
	unsigned long flags;

	spin_lock_irqsave(&uqp->lock, flags);
	while (!uqp->broken && !list_empty(&uqp->ended)) {
		key = list_first_entry(&uqp->ended, struct ucb_key, node);
		list_del_init(&key->node);
		spin_unlock_irqrestore(&uqp->lock, flags);

		if (key_renew(key)) {
			spin_lock_irqsave(&uqp->lock, flags);
			qp_fail(uqp);
			break;
		}
		spin_lock_irqsave(&uqp->lock, flags);
		ucb_key_home(key, &flags, 0);
	}
	spin_unlock_irqrestore(&uqp->lock, flags);
}

int ucb_key_init(struct ucb_qp *uqp, struct ucb_key *key)
{
	key->uqp = uqp;
	key->reg_cqe.done = reg_done;
	key->inv_cqe.done = inv_done;
	key->reg.wr.opcode = IB_WR_REG_MR;
	key->reg.wr.wr_cqe = &key->reg_cqe;
	key->inv.opcode = IB_WR_LOCAL_INV;
	key->inv.wr_cqe = &key->inv_cqe;
	list_add(&key->node, &uqp->idle);

	key->sg = kvcalloc(uqp->pages, sizeof(*key->sg), GFP_KERNEL);
	if (!key->sg)
		return -ENOMEM;
	sg_init_table(key->sg, uqp->pages);

	key->fr = ucb_fr_alloc(uqp->pd, uqp->pages);
	if (IS_ERR(key->fr)) {
		int err = PTR_ERR(key->fr);

		key->fr = NULL;
		return err;
	}
	return 0;
}

/*
 * Destroy the MR of a key that is not used any more, and have the key home.
 * Return: 0, or an errno when the device does not let go: then the mapping that
 * had it last still has it, and this can be tried again.
 */
int ucb_key_end(struct ucb_key *key)
{
	struct ucb_qp *uqp = key->uqp;
	unsigned long flags;
	int err = uqp->error;

	/* without a queue pair that is drained its MRs are in use */
	if (!err && key->fr)
		err = ucb_fr_destroy(key->fr);

	spin_lock_irqsave(&uqp->lock, flags);
	list_del_init(&key->node);
	if (!err) {
		key->fr = NULL;
		ucb_key_home(key, &flags, -ENOTCONN);
	} else if (key->mr && key->state == UCB_KEY_RECALLED) {
		/* the owner need not wait */
		key->state = UCB_KEY_OUT;
		tell_recalled(uqp, key->mr, &flags, -ENOTCONN);
	}
	spin_unlock_irqrestore(&uqp->lock, flags);
	return err;
}

/* Make the MR hold [@offset, @offset + @length) of the mapping. */
static int key_fill(struct ucb_key *key, size_t offset, size_t length)
{
	struct scatterlist *sg;
	unsigned int nr = 0;
	size_t left = length;
	u32 take;
	int i;

	for_each_sgtable_dma_sg(&key->mr->sgt, sg, i) {
		if (offset >= sg_dma_len(sg)) {
			offset -= sg_dma_len(sg);
			continue;
		}
		if (nr == key->uqp->pages)
			return -E2BIG;
		take = min_t(size_t, left, sg_dma_len(sg) - offset);
		sg_dma_address(&key->sg[nr]) = sg_dma_address(sg) + offset;
		sg_dma_len(&key->sg[nr]) = take;
		nr++;
		left -= take;
		offset = 0;
		if (!left)
			break;
	}
	if (PFN_UP(offset_in_page(sg_dma_address(key->sg)) + length) >
	    key->uqp->pages)
		return -E2BIG;
	return ucb_fr_fill(key->fr, key->sg, nr, length);
}

static struct ucb_key *key_take(struct ucb_mr *mr)
{
	struct ucb_qp *uqp = mr->uqp;
	struct ucb_key *key;

	if (uqp->broken)
		return ERR_PTR(-ENOTCONN);
	if (mr->key)
		return ERR_PTR(-EBUSY);
	key = list_first_entry_or_null(&uqp->idle, struct ucb_key, node);
	if (!key)
		return ERR_PTR(-ENOBUFS);
	if (!key->fr) {
		/* nor has any behind it: try again to have one */
		list_move_tail(&key->node, &uqp->ended);
		queue_work(ucb_rdma_wq, &uqp->renew);
		return ERR_PTR(-ENOBUFS);
	}
	list_del_init(&key->node);
	key->mr = mr;
	key->state = UCB_KEY_FILLED;
	mr->key = key;
	return key;
}

/**
 * ucb_mr_grant() - give a mapping a key for one transfer
 * @mr: from ucb_mr_map()
 * @offset: bytes from its start
 * @length: bytes, at least 1
 * @access: as for ucb_mr_reg_range(); local write only if the mapping has it
 *
 * Only chooses the key: what to tell the peer is known from here on, by
 * ucb_mr_get_descriptor(), and the peer can use it once ucb_mr_grant_post() has
 * posted it.
 *
 * Context: Any but hardirq. Nothing is allocated.
 * Return: 0; -EINVAL for NULL, a registration that is not a mapping, no bytes
 * or access that is not allowed; -ERANGE when the bytes are not all inside the
 * mapping; -EBUSY as long as it has a key, to the completion of its
 * invalidation; -ENOBUFS when all keys of the connection are out; -E2BIG when
 * the range takes more pages than those have; -ENODEV when the mapping was
 * revoked; -ENOTCONN when the connection was lost; or what the device gave.
 */
int ucb_mr_grant(struct ucb_mr *mr, size_t offset, size_t length, int access)
{
	struct ucb_key *key;
	unsigned long flags;
	int err;

	if (!mr || !mr->uqp || !length || !ucb_access_ok(access) ||
	    access & IB_ACCESS_LOCAL_WRITE & ~mr->map_access)
		return -EINVAL;
	if (offset > mr->mapped || length > mr->mapped - offset)
		return -ERANGE;

	spin_lock_irqsave(&mr->uqp->lock, flags);
	if (atomic_read(&mr->state) != UCB_MR_LIVE) {
		err = -ENODEV;
		goto out;
	}
	key = key_take(mr);
	err = PTR_ERR_OR_ZERO(key);
	if (err)
		goto out;

	err = key_fill(key, offset, length);
	if (err) {
		mr->key = NULL;
		key->mr = NULL;
		key->state = UCB_KEY_IDLE;
		list_add(&key->node, &mr->uqp->idle);
		goto out;
	}
	mr->access = access;
	mr->iova = key->fr->ibmr->iova;
	mr->length = length;
	mr->rkey = key->fr->ibmr->rkey;
	key->reg.mr = key->fr->ibmr;
	key->reg.key = mr->rkey;
	key->reg.access = access;
	key->inv.ex.invalidate_rkey = mr->rkey;
out:
	spin_unlock_irqrestore(&mr->uqp->lock, flags);
	return err;
}
EXPORT_SYMBOL_GPL(ucb_mr_grant);

/**
 * ucb_mr_grant_post() - make a key valid, and post what tells of it
 * @mr: a mapping that ucb_mr_grant() has given a key
 * @wr: the caller's work requests, executed after that; or NULL
 * @bad: as for ib_post_send(), or NULL: the first of @wr that was not posted
 *
 * One call of ib_post_send() for both.
 *
 * Context: Any but hardirq, as ib_post_send(). Nothing is allocated.
 * Return: 0; -EINVAL for NULL, without a key of ucb_mr_grant(), or for one that
 * is posted already; -ENOTCONN when the connection was lost; or what the device
 * gave, as -ENOMEM when the send queue is full. If none of @wr was posted the
 * key may not be valid either: call again, or ucb_mr_recall().
 */
int ucb_mr_grant_post(struct ucb_mr *mr, struct ib_send_wr *wr,
		      const struct ib_send_wr **bad)
{
	const struct ib_send_wr *first = wr;
	struct ucb_key *key;
	unsigned long flags;
	int err;

	if (!mr || !mr->uqp) {
		if (bad)
			*bad = wr;
		return -EINVAL;
	}

	spin_lock_irqsave(&mr->uqp->lock, flags);
	key = mr->key;
	if (mr->uqp->broken) {
		err = -ENOTCONN;
	} else if (!key || key->state != UCB_KEY_FILLED) {
		err = -EINVAL;
	} else {
		key->reg.wr.next = wr;
		key->start = ktime_get();
		err = ib_post_send(mr->uqp->qp, &key->reg.wr, &first);
		if (!err || first != &key->reg.wr) {
			key->state = UCB_KEY_OUT;
			ucb_stat_add(UCB_STAT_REG, key->start);
		} else {
			first = wr;
		}
		trace_ucb_mr_reg(mr->pd->ibdev, mr->rkey, mr->length,
				 mr->access, err);
	}
	spin_unlock_irqrestore(&mr->uqp->lock, flags);
	if (err && bad)
		*bad = first;
	return err;
}
EXPORT_SYMBOL_GPL(ucb_mr_grant_post);

/**
 * ucb_mr_recall() - take a transfer's key back
 * @mr: a mapping with a key of ucb_mr_grant()
 * @now: somebody waits for it: post at once, with a completion of its own
 *
 * The caller's own work requests that use the key, if any, have completed. The
 * peer need not have given it back: if it still uses it, that costs it the
 * connection. Without @now the invalidation is posted with 15 others or within
 * a millisecond, and there is one completion for all.
 *
 * Until the invalidation has completed, and on a soft device the MR has been
 * replaced, the peer may reach the bytes, and the mapping is busy: then
 * &ucb_qp_attr.recalled is called.
 *
 * Context: Any but hardirq, as ib_post_send(). Nothing is allocated.
 * Return: 0; -EINVAL for NULL or without a key; -EALREADY when it is on its
 * way; -ENOTCONN when the connection was lost, and every key with it.
 */
int ucb_mr_recall(struct ucb_mr *mr, bool now)
{
	struct ucb_key *key;
	struct ucb_qp *uqp;
	unsigned long flags;
	int err = 0;

	if (!mr || !mr->uqp)
		return -EINVAL;
	uqp = mr->uqp;

	spin_lock_irqsave(&uqp->lock, flags);
	key = mr->key;
	if (uqp->broken) {
		err = -ENOTCONN;
	} else if (!key) {
		err = -EINVAL;
	} else if (key->state == UCB_KEY_RECALLED) {
		err = -EALREADY;
	} else if (key->state == UCB_KEY_FILLED) {
		/* the device never heard of it */
		key->unused = true;
		key->state = UCB_KEY_RECALLED;
		list_add_tail(&key->node, &uqp->ended);
		queue_work(ucb_rdma_wq, &uqp->renew);
	} else {
		key->state = UCB_KEY_RECALLED;
		key->start = ktime_get();
		list_add_tail(&key->node, &uqp->recalled);
		if (++uqp->nr_recalled >= UCB_INV_BATCH || now)
			post_recalled(uqp);
		else
			queue_work(ucb_rdma_wq, &uqp->late);
	}
	spin_unlock_irqrestore(&uqp->lock, flags);
	return err;
}
EXPORT_SYMBOL_GPL(ucb_mr_recall);
