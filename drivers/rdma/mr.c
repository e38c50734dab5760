// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations.
 *
 * Registering maps the buffer's pages for the NIC, puts exactly the bytes asked
 * for into a fast-registration MR whose addresses start below one page, and has
 * the domain's queue pair give it a key. Ending one goes the other way: the key
 * is invalidated, the MR destroyed or kept for another key, the pages unmapped,
 * and only then may the pool give the buffer to somebody else.
 *
 * Three parties can end a registration: its owner, the pool that is destroyed,
 * and the device that goes. The first claims it and takes it down, without any
 * lock; the others wait until it is dead. The handle is the owner's alone and
 * stays until ucb_mr_dereg().
 *
 * Memory goes back only when the device has said that it has let go: an MR is
 * invalidated or destroyed, a queue pair drained. Where an MR is not, the
 * registration is stuck: its memory stays held, and the next who is to end it,
 * the owner or one of the others, tries once more. After that, or where nothing
 * would change, the memory is kept for good, and the log says so, once.
 *
 * Invalidation stops new accesses, but a soft device may be in the middle of
 * copying a packet. Where that is so an MR that a peer could reach is always
 * destroyed: destruction waits for it.
 *
 * A mapping (see conn.c) is taken down in the same way, with its connection
 * in place of an MR: nothing else stops the device from using the domain's
 * local_dma_lkey.
 */
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "bridge.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* all that are not dead; pd->live and pd->shut */
static LIST_HEAD(ucb_mrs);
static DEFINE_SPINLOCK(ucb_mrs_lock);
/* for those that somebody takes down */
static DECLARE_WAIT_QUEUE_HEAD(ucb_mrs_wait);

bool ucb_access_ok(int access)
{
	if (access & ~UCB_MR_ACCESS)
		return false;
	return !(access & IB_ACCESS_REMOTE_WRITE) ||
	       access & IB_ACCESS_LOCAL_WRITE;
}

/* Does the device stop using an MR only when that is destroyed? */
bool ucb_must_retire(const struct ucb_pd *pd, int access)
{
	return ib_uses_virt_dma(pd->ibdev) && access & UCB_MR_REMOTE;
}

static void mr_release(struct kref *ref)
{
	struct ucb_mr *mr = container_of(ref, struct ucb_mr, ref);

	if (mr->uqp)
		ucb_qp_put(mr->uqp);
	ucb_pd_unref(mr->pd);
	kfree(mr);
}

static int mr_list(struct ucb_mr *mr)
{
	int err = 0;

	spin_lock(&ucb_mrs_lock);
	if (mr->pd->shut) {
		err = -ENODEV;
	} else {
		mr->pd->live++;
		list_add_tail(&mr->node, &ucb_mrs);
	}
	spin_unlock(&ucb_mrs_lock);
	return err;
}

/* With an error the device may still know it: the domain counts it for good. */
static void mr_unlist(struct ucb_mr *mr)
{
	spin_lock(&ucb_mrs_lock);
	list_del_init(&mr->node);
	if (!mr->error)
		mr->pd->live--;
	spin_unlock(&ucb_mrs_lock);
}

/* An attached queue pair keeps a domain as a registration does. */
int ucb_pd_count(struct ucb_pd *pd)
{
	int err = 0;

	spin_lock(&ucb_mrs_lock);
	if (pd->shut)
		err = -ENODEV;
	else
		pd->live++;
	spin_unlock(&ucb_mrs_lock);
	return err;
}

void ucb_pd_uncount(struct ucb_pd *pd)
{
	spin_lock(&ucb_mrs_lock);
	pd->live--;
	spin_unlock(&ucb_mrs_lock);
}

/*
 * Let no registration into the domain any more; with @only_if_idle leave it open
 * if there are some, and name them. Return: how many there are.
 */
unsigned int ucb_mr_shut(struct ucb_pd *pd, bool only_if_idle)
{
	unsigned int live;
	struct ucb_mr *mr;

	spin_lock(&ucb_mrs_lock);
	live = pd->live;
	if (!live || !only_if_idle) {
		pd->shut = true;
		goto out;
	}
	list_for_each_entry(mr, &ucb_mrs, node)
		if (mr->pd == pd)
			ibdev_warn_ratelimited(pd->ibdev,
					       "ucb: PD has a live registration: key %#x, %zu bytes\n",
					       mr->rkey, mr->mapped);
	ibdev_warn_ratelimited(pd->ibdev,
			       "ucb: PD has %u registrations and queue pairs in all\n",
			       live);
out:
	spin_unlock(&ucb_mrs_lock);
	return live;
}

static int mr_give_key(struct ucb_mr *mr)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = mr->fr->ibmr,
		.key = mr->rkey,
		.access = mr->access,
	};
	ktime_t start = ktime_get();
	int err;

	err = ucb_rqp_exec(mr->pd, &wr.wr);
	if (!err)
		ucb_stat_add(UCB_STAT_REG, start);
	trace_ucb_mr_reg(mr->pd->ibdev, mr->rkey, mr->length, mr->access, err);
	return err;
}

static int mr_take_key(struct ucb_mr *mr)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = mr->rkey,
	};
	ktime_t start = ktime_get();
	int err;

	/* not once more the full wait, for each of maybe many */
	if (READ_ONCE(mr->pd->mute))
		return -EIO;
	err = ucb_pd_enter(mr->pd);
	if (err)
		return err;
	err = ucb_rqp_exec(mr->pd, &wr);
	ucb_pd_exit(mr->pd);
	if (!err)
		ucb_stat_add(UCB_STAT_INV, start);
	trace_ucb_mr_inv(mr->pd->ibdev, mr->rkey, err);
	return err;
}

/* Keep the memory where it is, until mr_let_go(). */
static int mr_hold(struct ucb_mr *mr)
{
	return mr->buf ? ucb_buf_busy_get(mr->buf) : ucb_pool_pin(mr->pool);
}

/* With @lost the device may still use it, and it is never given out again. */
static void mr_let_go(struct ucb_mr *mr, bool lost)
{
	if (!mr->buf)
		ucb_pool_unpin(mr->pool, lost);
	else if (!lost)
		ucb_buf_busy_put(mr->buf);
}

static int mr_make_key(struct ucb_mr *mr)
{
	struct ib_device *ibdev = mr->pd->ibdev;
	unsigned int limit = ibdev->attrs.max_fast_reg_page_list_len;
	unsigned int pages;
	int err;

	pages = PFN_UP(mr->sgt.sgl->offset + mr->mapped);
	if (pages > limit || mr->mapped > ibdev->attrs.max_mr_size) {
		ibdev_warn_ratelimited(ibdev,
				       "ucb: %zu bytes in %u pages, the device takes %u pages\n",
				       mr->mapped, pages, limit);
		return -E2BIG;
	}

	mr->fr = ucb_fr_get(mr->pd, pages);
	if (IS_ERR(mr->fr))
		return PTR_ERR(mr->fr);

	err = ucb_fr_fill(mr->fr, mr->sgt.sgl, mr->sgt.nents, mr->mapped);
	if (!err) {
		mr->iova = mr->fr->ibmr->iova;
		mr->rkey = mr->fr->ibmr->rkey;
		err = mr_give_key(mr);
	}
	/* What became of the key is not known, so the MR goes. */
	if (err)
		mr->error = ucb_fr_put(mr->pd, mr->fr, true);
	return err;
}

/* The caller is inside the domain, and mr is listed. */
static int mr_setup(struct ucb_mr *mr, size_t offset,
		    const struct ucb_span *spans, unsigned int nr)
{
	int err;

	err = mr_hold(mr);
	if (err)
		return err;

	err = ucb_mr_map_pages(mr, offset, spans, nr);
	if (err)
		goto err_hold;

	err = mr->uqp ? ucb_qp_add_map(mr) : mr_make_key(mr);
	if (err)
		goto err_unmap;
	return 0;

err_unmap:
	if (mr->error) {
		ibdev_err(mr->pd->ibdev,
			  "ucb: MR not released (%d), memory kept\n",
			  mr->error);
		ucb_fr_forget(mr->fr);
	}
	ucb_mr_unmap_pages(mr, mr->error);
err_hold:
	mr_let_go(mr, mr->error);
	return err;
}

/* Return: 0, or an errno when the device did not let go. */
static int mr_release_key(struct ucb_mr *mr, bool retire)
{
	if (mr->uqp)
		return ucb_qp_end_map(mr, retire);
	if (!retire && mr_take_key(mr))
		retire = true;
	if (ucb_must_retire(mr->pd, mr->access))
		retire = true;
	return ucb_fr_put(mr->pd, mr->fr, retire);
}

/* The end of a claimed registration; with an @error the device did not let go. */
static void mr_finish(struct ucb_mr *mr, int error)
{
	mr->error = error;
	/* better lost than written by a peer; told once of a queue pair */
	if (error && !(mr->uqp && mr->uqp->error))
		ibdev_err(mr->pd->ibdev,
			  "ucb: key %#x not released (%d), memory kept\n",
			  mr->rkey, error);
	if (error && !mr->uqp)
		ucb_fr_forget(mr->fr);
	ucb_mr_unmap_pages(mr, error);
	mr_let_go(mr, error);
	if (mr->uqp)
		ucb_qp_del_map(mr);
}

/* Nobody finds it any more, and who waits for its end goes on. */
static void mr_dead(struct ucb_mr *mr)
{
	mr_unlist(mr);
	atomic_set_release(&mr->state, UCB_MR_DEAD);
	wake_up_all(&ucb_mrs_wait);
}

/* Have it to take down, if it is not dead. @again: it was tried before. */
static bool mr_claim(struct ucb_mr *mr, bool *again)
{
	int state;

	for (;;) {
		wait_event(ucb_mrs_wait,
			   (state = atomic_read_acquire(&mr->state)) !=
			   UCB_MR_CLAIMED);
		if (state == UCB_MR_DEAD)
			return false;
		*again = state == UCB_MR_STUCK;
		if (atomic_cmpxchg(&mr->state, state, UCB_MR_CLAIMED) == state)
			return true;
	}
}

/*
 * For the owner: it is dead or stuck when this returns, whoever does that.
 * Return: 0, or an errno when the device did not let go.
 */
static int mr_end(struct ucb_mr *mr)
{
	bool again;
	int err;

	if (!mr_claim(mr, &again))
		return mr->error;
	err = mr_release_key(mr, again);
	/* a queue pair that was not drained will not be another time */
	if (err && !again && !(mr->uqp && mr->uqp->error)) {
		atomic_set_release(&mr->state, UCB_MR_STUCK);
		wake_up_all(&ucb_mrs_wait);
		return err;
	}
	mr_finish(mr, err);
	mr_dead(mr);
	return err;
}

/* It is dead when this returns, whoever does that: the owner may be at it. */
static void mr_end_revoked(struct ucb_mr *mr)
{
	ktime_t start = ktime_get();
	bool again;

	if (!mr_claim(mr, &again))
		return;
	/*
	 * Work requests whose poster found it live are posted after that.
	 * Expedited, for a pool can have many, and unplug waits.
	 */
	synchronize_rcu_expedited();
	mr_finish(mr, mr_release_key(mr, true));
	ucb_stat_add(UCB_STAT_REVOKE, start);
	/* the device may go once the last of its registrations is unlisted */
	trace_ucb_mr_revoke(mr->pd->ibdev, mr->rkey, mr->error);
	mr_dead(mr);
}

/* Revoke those of @pool, or of @pd if that is given. */
static void mr_revoke(struct ucb_pool *pool, struct ucb_pd *pd)
{
	struct ucb_mr *found;
	struct ucb_mr *mr;

	do {
		found = NULL;
		spin_lock(&ucb_mrs_lock);
		list_for_each_entry(mr, &ucb_mrs, node) {
			if (pd ? mr->pd == pd : mr->pool == pool) {
				found = mr;
				kref_get(&mr->ref);
				break;
			}
		}
		spin_unlock(&ucb_mrs_lock);

		if (found) {
			wait_for_completion(&found->ready);
			mr_end_revoked(found);
			kref_put(&found->ref, mr_release);
		}
	} while (found);
}

void ucb_mr_revoke_pd(struct ucb_pd *pd)
{
	mr_revoke(NULL, pd);
}

static void revoke_pool(struct ucb_client *client, struct ucb_pool *pool)
{
	mr_revoke(pool, NULL);
}

struct ucb_client ucb_pool_client = {
	.revoke = revoke_pool,
};

static void mr_init(struct ucb_mr *mr)
{
	kref_init(&mr->ref);
	atomic_set(&mr->state, UCB_MR_SETUP);
	init_completion(&mr->ready);
	ucb_pd_ref(mr->pd);
	if (mr->uqp)
		kref_get(&mr->uqp->ref);
}

/*
 * Bring a registration to life: of @mr->buf from @offset, or of @spans of
 * @mr->pool. @mr is freed on failure. The caller is inside the domain.
 */
struct ucb_mr *ucb_mr_start(struct ucb_mr *mr, size_t offset,
			    const struct ucb_span *spans, unsigned int nr)
{
	int err;

	mr_init(mr);
	/*
	 * Listed before the memory is held: a pool that is being destroyed
	 * either refuses that or finds this on the list.
	 */
	err = mr_list(mr);
	if (err)
		goto err_put;

	err = mr_setup(mr, offset, spans, nr);
	if (err)
		mr_dead(mr);
	else
		atomic_set(&mr->state, UCB_MR_LIVE);
	complete_all(&mr->ready);
	if (!err)
		return mr;

err_put:
	kref_put(&mr->ref, mr_release);
	return ERR_PTR(err);
}

/**
 * ucb_mr_reg_range() - give a part of a buffer a remote key
 * @pd: the trust domain
 * @buf: a buffer of a pool made with UCB_POOL_RDMA
 * @offset: bytes from the start of the buffer
 * @length: bytes, at least 1
 * @access: IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE
 *	or'ed; remote write needs local write. Local read is always there.
 *
 * The peer reaches exactly the bytes named, at the addresses that
 * ucb_mr_get_descriptor() tells, in the way that @access says. Until
 * ucb_mr_dereg() the buffer cannot be freed (-EBUSY). What a READ gets can be
 * what another peer wrote before, if the pool's buffers are for both and it was
 * made without UCB_POOL_ZERO.
 *
 * Context: Process context, sleeps. Not under a lock that the pool's or the
 * RDMA device's removal needs.
 * Return: the registration, or an ERR_PTR: -EINVAL for a NULL argument, a range
 * that is empty or not inside the buffer, or access bits that are not allowed;
 * -E2BIG when it needs more pages than the device's MRs hold; -EOPNOTSUPP for
 * memory that must not have a key or that the device cannot map as one range;
 * -EAGAIN when the port is not active, or on iWARP has no registration queue pair
 * at the moment; -ENODEV when the RDMA device, the pool or
 * its USB device is going; -ENOENT when the buffer is not allocated; -ENOMEM;
 * -EIO when the device refused, or what else it gave.
 */
struct ucb_mr *ucb_mr_reg_range(struct ucb_pd *pd, struct ucb_buf *buf,
				size_t offset, size_t length, int access)
{
	struct ucb_mr *mr;
	size_t size;
	int err;

	might_sleep();
	if (!pd || !buf || !length || !ucb_access_ok(access))
		return ERR_PTR(-EINVAL);
	size = ucb_buf_size(buf);
	if (offset >= size || length > size - offset)
		return ERR_PTR(-EINVAL);

	err = ucb_pd_enter(pd);
	if (err)
		return ERR_PTR(err);

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr) {
		ucb_pd_exit(pd);
		return ERR_PTR(-ENOMEM);
	}
	mr->pd = pd;
	mr->buf = buf;
	mr->pool = ucb_buf_pool(buf);
	mr->addr = ucb_buf_addr(buf) + offset;
	mr->mapped = length;
	mr->map_access = access;
	mr->length = length;
	mr->access = access;
	mr = ucb_mr_start(mr, offset, NULL, 0);
	ucb_pd_exit(pd);
	return mr;
}
EXPORT_SYMBOL_GPL(ucb_mr_reg_range);

/**
 * ucb_mr_reg() - give a whole buffer a remote key
 * @pd: the trust domain
 * @buf: a buffer of a pool made with UCB_POOL_RDMA
 * @access: as for ucb_mr_reg_range()
 *
 * Mirrors rpma_mr_reg(3) and ibv_reg_mr(3).
 *
 * Context: Process context, sleeps.
 * Return: as ucb_mr_reg_range().
 */
struct ucb_mr *ucb_mr_reg(struct ucb_pd *pd, struct ucb_buf *buf, int access)
{
	if (!buf)
		return ERR_PTR(-EINVAL);
	return ucb_mr_reg_range(pd, buf, 0, ucb_buf_size(buf), access);
}
EXPORT_SYMBOL_GPL(ucb_mr_reg);

/**
 * ucb_mr_dereg() - end a registration
 * @mrp: address of the owner's pointer; set to NULL on success, left on failure
 *
 * When this returns 0 the device has stopped using the memory and refuses the
 * key. The owner's own work requests on the buffer must have completed before.
 * Needed, and successful, for a registration that was revoked too. Mirrors
 * rpma_mr_dereg(3).
 *
 * Context: Process context, sleeps. A mapping not from a completion handler:
 * the first after the connection was lost waits for the queue pair to drain.
 * Return: 0; -EINVAL for a NULL address or a NULL pointer there; -EBUSY for a
 * mapping whose key is out or on its way back, see ucb_mr_recall(); or what the
 * device gave when it did not let go. Then the buffer stays busy, and the next
 * call tries once more, frees the handle and returns 0: if that was in vain, or
 * the registration had been revoked in vain, the buffer is never given out
 * again, as the log says. For a mapping whose queue pair could not be drained
 * that is so at once: nothing is tried again, and the errno is that of
 * ucb_qp_drain(), as -ETIMEDOUT.
 */
int ucb_mr_dereg(struct ucb_mr **mrp)
{
	struct ucb_mr *mr;
	int err;

	might_sleep();
	if (!mrp || !*mrp)
		return -EINVAL;
	mr = *mrp;
	if (mr->uqp && ucb_qp_key_out(mr))
		return -EBUSY;

	err = mr_end(mr);
	if (err && !mr->told) {
		mr->told = true;
		return err;
	}
	*mrp = NULL;
	/* its owner may be about to hear of a recall */
	if (mr->uqp && mr->uqp->attr.recalled)
		synchronize_rcu_expedited();
	kref_put(&mr->ref, mr_release);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_mr_dereg);

/**
 * ucb_mr_get_ptr() - the first registered byte
 * @mr: the registration, not NULL
 *
 * Mirrors rpma_mr_get_ptr(3).
 *
 * Context: Any.
 * Return: its kernel address; valid as long as the buffer.
 */
void *ucb_mr_get_ptr(const struct ucb_mr *mr)
{
	return mr->addr;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_ptr);

/**
 * ucb_mr_get_size() - the length of the registered range
 * @mr: the registration, not NULL
 *
 * Mirrors rpma_mr_get_size(3).
 *
 * Context: Any.
 * Return: bytes.
 */
size_t ucb_mr_get_size(const struct ucb_mr *mr)
{
	return mr->mapped;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_size);

/**
 * ucb_mr_get_rkey() - the key that a peer uses
 * @mr: the registration, not NULL
 *
 * Context: Any.
 * Return: the key; the device refuses it once the registration was revoked, or
 * a mapping's key recalled.
 */
u32 ucb_mr_get_rkey(const struct ucb_mr *mr)
{
	return mr->rkey;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_rkey);

/**
 * ucb_mr_advise() - say how a registration will be used
 * @mr: the registration
 * @offset: bytes from its start
 * @length: bytes
 * @advice: IB_UVERBS_ADVISE_MR_ADVICE_*
 * @flags: 0 or IB_UVERBS_ADVISE_MR_FLAG_FLUSH
 *
 * Mirrors rpma_mr_advise(3) and ibv_advise_mr(3). Those are about pages that the
 * device may have to fault in. These are pinned and mapped, so what they ask for
 * is done when they are asked, and nothing is left to do.
 *
 * Context: Any.
 * Return: 0 for the three prefetching advices; -EINVAL for a NULL argument or
 * other flags; -ENODEV when the registration was revoked; -ERANGE when the bytes
 * are not all inside it; -EACCES for IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
 * without local write; -EOPNOTSUPP for other advice.
 */
int ucb_mr_advise(const struct ucb_mr *mr, size_t offset, size_t length,
		  int advice, u32 flags)
{
	if (!mr || flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	if (atomic_read(&mr->state) != UCB_MR_LIVE)
		return -ENODEV;
	if (offset > mr->mapped || length > mr->mapped - offset)
		return -ERANGE;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		return mr->map_access & IB_ACCESS_LOCAL_WRITE ? 0 : -EACCES;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
EXPORT_SYMBOL_GPL(ucb_mr_advise);
