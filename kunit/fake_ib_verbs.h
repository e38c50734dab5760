/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs of fake_ib.h that make, use and end CQs, QPs and MRs.
 */
#ifndef _UCB_KUNIT_FAKE_IB_VERBS_H
#define _UCB_KUNIT_FAKE_IB_VERBS_H

#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/platform_device.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#define FAKE_IB_KEYS	256
#define FAKE_IB_CQES	16

/* How a verb fails. All but the first are of posted work requests only. */
enum fake_ib_fault {
	FAKE_IB_REFUSE,		/* it returns an error */
	FAKE_IB_ERROR,		/* completes with an error, QP to error */
	FAKE_IB_FLUSH,		/* the QP was in error before, by itself */
	FAKE_IB_EVENT,		/* so, and an event had said it */
	FAKE_IB_SILENT,		/* the QP is at it until it is in error */
};

/*
 * @dma: has a DMA device
 * @roce: addresses come from the netdev, if it has one
 * @netdev: name or NULL
 * @grh: InfiniBand whose packets need an address; has one if @gids
 * @no_fast_reg: has no fast registration
 * @pages: limit of an MR
 * @drains: has a drain of its own
 */
struct fake_ib_params {
	bool dma;
	bool roce;
	const char *netdev;
	bool grh;
	bool gids;
	bool no_fast_reg;
	unsigned int pages;
	bool drains;
};

/*
 * @port: state of the only port
 * @pds: live objects, as @cqs, @qps and @nr_mrs; @made: MRs ever
 * @task: whose verbs fail, or NULL; @all: those of any task
 * @nth: counted down to the one that fails
 * @lasting: all fail from then on; @hits: how many have
 * @map_less: what ib_map_mr_sg() leaves out: @map_entries, @map_bytes
 * @keeps: so many MRs more are not released when they are to be
 * @no_post: why no work request is taken, or 0
 * @no_destroy: why QPs are not destroyed, or 0
 * @no_error: why QPs do not go to error, or 0
 * @no_drain: why a QP in error takes no work requests, or 0
 * @refusals: both are over after so many, if not 0; @refused: how many there were
 * @dead: nothing that is posted completes
 * @polls: of CQs
 * @last_flags: of the last work request
 * @bad: what should not have been asked
 */
struct fake_ib {
	struct ib_device ibdev;
	struct kunit *test;
	struct fake_ib_params params;
	struct platform_device *pdev;
	bool registered;
	enum ib_port_state port;

	spinlock_t lock;		/* @mrs, states of QPs and MRs, counts */
	struct list_head mrs;
	struct ib_qp *last_qp;
	u32 next_qpn;
	u32 next_key;
	atomic_t pds;
	atomic_t cqs;
	atomic_t qps;
	atomic_t nr_mrs;
	unsigned int made;
	unsigned int posted;
	int last_flags;
	unsigned int bad;

	struct task_struct *task;
	bool all;
	unsigned int nth;
	enum fake_ib_fault fault;
	bool lasting;
	unsigned int hits;
	unsigned int map_entries;
	unsigned int map_bytes;
	unsigned int keeps;
	int no_post;
	int no_destroy;
	int no_error;
	int no_drain;
	unsigned int refusals;
	unsigned int refused;
	bool dead;
	atomic_t polls;
};

struct fake_ib_pd {
	struct ib_pd ibpd;
};

struct fake_ib_cq {
	struct ib_cq ibcq;
	spinlock_t lock;		/* all of this */
	struct ib_wc wc[FAKE_IB_CQES];
	unsigned int head;
	unsigned int tail;
	bool armed;
};

/*
 * @silent: executes nothing any more
 * @held: what it was given and has not completed, @nr_held
 */
struct fake_ib_qp {
	struct ib_qp ibqp;
	enum ib_qp_state state;
	bool silent;
	struct ib_wc held[FAKE_IB_CQES];
	unsigned int nr_held;
};

struct fake_ib_mr {
	struct ib_mr ibmr;
	struct list_head node;
	unsigned int max;
	unsigned int pages;
	bool valid;
	DECLARE_BITMAP(had, FAKE_IB_KEYS);
};

static inline struct fake_ib *to_fake_ib(struct ib_device *ibdev)
{
	return container_of(ibdev, struct fake_ib, ibdev);
}

/* Is this the call that fails? */
static inline bool fake_ib_hit(struct fake_ib *fake)
{
	if ((current != fake->task && !fake->all) || !fake->nth)
		return false;
	if (fake->nth > 1) {
		fake->nth--;
		return false;
	}
	if (!fake->lasting)
		fake->nth = 0;
	fake->hits++;
	return true;
}

/* Return: @why, while it lasts. */
static inline int fake_ib_resists(struct fake_ib *fake, int *why)
{
	int err = *why;

	if (err && ++fake->refused == fake->refusals)
		*why = 0;
	return err;
}

static inline bool fake_ib_refuses(struct fake_ib *fake)
{
	return fake->fault == FAKE_IB_REFUSE && fake_ib_hit(fake);
}

static inline int fake_ib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
				    struct uverbs_attr_bundle *attrs)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	struct fake_ib *fake = to_fake_ib(ibcq->device);

	if (fake_ib_refuses(fake))
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	ibcq->cqe = FAKE_IB_CQES;
	atomic_inc(&fake->cqs);
	return 0;
}

static inline int fake_ib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	atomic_dec(&to_fake_ib(ibcq->device)->cqs);
	return 0;
}

static inline int fake_ib_poll_cq(struct ib_cq *ibcq, int nr, struct ib_wc *wc)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	int n = 0;

	atomic_inc(&to_fake_ib(ibcq->device)->polls);
	spin_lock_irqsave(&cq->lock, flags);
	while (n < nr && cq->tail != cq->head)
		wc[n++] = cq->wc[cq->tail++ % FAKE_IB_CQES];
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static inline int fake_ib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags how)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	bool missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = cq->tail != cq->head;
	spin_unlock_irqrestore(&cq->lock, flags);
	return how & IB_CQ_REPORT_MISSED_EVENTS ? missed : 0;
}

static inline enum ib_wc_opcode fake_ib_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_SEND:
		return IB_WC_SEND;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	default:
		return IB_WC_RDMA_WRITE;
	}
}

static inline void fake_ib_complete(struct ib_qp *ibqp, const struct ib_wc *wc)
{
	struct ib_cq *ibcq = wc->opcode == IB_WC_RECV ? ibqp->recv_cq : ibqp->send_cq;
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	bool notify;

	spin_lock_irqsave(&cq->lock, flags);
	cq->wc[cq->head++ % FAKE_IB_CQES] = *wc;
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		ibcq->comp_handler(ibcq, ibcq->cq_context);
}

/* The QP goes to error, with all that it has not completed. */
static inline void fake_ib_flush(struct ib_qp *ibqp)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	unsigned long flags;
	unsigned int nr;
	unsigned int i;

	spin_lock_irqsave(&fake->lock, flags);
	qp->state = IB_QPS_ERR;
	nr = fake->dead ? 0 : qp->nr_held;
	qp->nr_held -= nr;
	spin_unlock_irqrestore(&fake->lock, flags);
	for (i = 0; i < nr; i++) {
		qp->held[i].status = IB_WC_WR_FLUSH_ERR;
		fake_ib_complete(ibqp, &qp->held[i]);
	}
}

static inline int fake_ib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
				    struct ib_udata *udata)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);

	if (fake_ib_refuses(fake))
		return -ENOMEM;
	qp->state = IB_QPS_RESET;
	ibqp->qp_num = ++fake->next_qpn;
	atomic_inc(&fake->qps);
	fake->last_qp = ibqp;
	return 0;
}

static inline int fake_ib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
				    struct ib_udata *udata)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	unsigned long flags;
	int err;

	if (!(mask & IB_QP_STATE) ||
	    !ib_modify_qp_is_ok(qp->state, attr->qp_state, ibqp->qp_type, mask))
		return -EINVAL;
	if (attr->qp_state == IB_QPS_ERR) {
		err = fake_ib_resists(fake, &fake->no_error);
		if (!err)
			fake_ib_flush(ibqp);
		return err;
	}
	if (fake_ib_refuses(fake))
		return -EIO;
	spin_lock_irqsave(&fake->lock, flags);
	qp->state = attr->qp_state;
	spin_unlock_irqrestore(&fake->lock, flags);
	return 0;
}

/* Have a queue pair executed what it is given, without a peer. */
static inline void fake_ib_connect(struct ib_qp *ibqp)
{
	container_of(ibqp, struct fake_ib_qp, ibqp)->state = IB_QPS_RTS;
}

static inline int fake_ib_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
				   struct ib_qp_init_attr *init)
{
	attr->qp_state = container_of(ibqp, struct fake_ib_qp, ibqp)->state;
	return 0;
}

static inline int fake_ib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct fake_ib *fake = to_fake_ib(ibqp->device);

	if (fake->no_destroy)
		return fake->no_destroy;
	if (fake->last_qp == ibqp)
		fake->last_qp = NULL;
	atomic_dec(&fake->qps);
	return 0;
}

/* What was flushed is with the work item of the CQ. */
static inline void fake_ib_drain_sq(struct ib_qp *ibqp)
{
	flush_work(&ibqp->send_cq->work);
}

static inline void fake_ib_drain_rq(struct ib_qp *ibqp)
{
	flush_work(&ibqp->recv_cq->work);
}

/* Nothing ever comes: it stays until the QP is in error. */
static inline int fake_ib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
				    const struct ib_recv_wr **bad)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	struct ib_wc wc = {
		.wr_cqe = wr->wr_cqe,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = IB_WC_RECV,
		.qp = ibqp,
	};
	unsigned long flags;
	bool error;

	*bad = wr;
	if (fake_ib_refuses(fake))
		return -ENOMEM;
	spin_lock_irqsave(&fake->lock, flags);
	error = qp->state == IB_QPS_ERR && !fake->dead;
	if (!error)
		qp->held[qp->nr_held++] = wc;
	spin_unlock_irqrestore(&fake->lock, flags);
	if (error && fake->no_drain)
		return fake_ib_resists(fake, &fake->no_drain);
	if (error)
		fake_ib_complete(ibqp, &wc);
	return 0;
}

static inline struct ib_mr *fake_ib_get_dma_mr(struct ib_pd *ibpd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline struct ib_mr *fake_ib_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max)
{
	struct fake_ib *fake = to_fake_ib(ibpd->device);
	struct fake_ib_mr *mr;
	unsigned long flags;

	if (fake_ib_refuses(fake) || max > fake->params.pages)
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max = max;
	spin_lock_irqsave(&fake->lock, flags);
	mr->ibmr.rkey = ++fake->next_key << 8;
	mr->ibmr.lkey = mr->ibmr.rkey;
	list_add_tail(&mr->node, &fake->mrs);
	fake->made++;
	spin_unlock_irqrestore(&fake->lock, flags);
	atomic_inc(&fake->nr_mrs);
	return &mr->ibmr;
}

static inline int fake_ib_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);
	struct fake_ib *fake = to_fake_ib(ibmr->device);
	unsigned long flags;
	bool kept;

	spin_lock_irqsave(&fake->lock, flags);
	kept = fake->keeps;
	if (kept)
		fake->keeps--;
	else
		list_del(&mr->node);
	spin_unlock_irqrestore(&fake->lock, flags);
	if (kept)
		return -EBUSY;
	atomic_dec(&fake->nr_mrs);
	kfree(mr);
	return 0;
}

static inline int fake_ib_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);

	if (mr->pages == mr->max)
		return -ENOMEM;
	mr->pages++;
	return 0;
}

static inline int fake_ib_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
				    unsigned int *offset)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);
	struct fake_ib *fake = to_fake_ib(ibmr->device);
	int n;

	if (fake_ib_refuses(fake))
		return -EINVAL;
	mr->pages = 0;
	n = ib_sg_to_pages(ibmr, sg, nents, offset, fake_ib_set_page);
	ibmr->length -= fake->map_bytes;
	return n - fake->map_entries;
}

/* Return: the MR whose key, but for the low 8 bits, that is. */
static inline struct fake_ib_mr *fake_ib_find_mr(struct fake_ib *fake, u32 key)
{
	struct fake_ib_mr *mr;

	list_for_each_entry(mr, &fake->mrs, node)
		if (mr->ibmr.rkey >> 8 == key >> 8)
			return mr;
	return NULL;
}

static inline bool fake_ib_reg(struct fake_ib *fake, struct ib_qp *ibqp,
			       const struct ib_reg_wr *wr)
{
	struct fake_ib_mr *mr = container_of(wr->mr, struct fake_ib_mr, ibmr);
	bool remote_write = wr->access & IB_ACCESS_REMOTE_WRITE;

	if (mr->valid || mr->ibmr.pd != ibqp->pd || wr->key >> 8 != mr->ibmr.rkey >> 8 ||
	    (remote_write && !(wr->access & IB_ACCESS_LOCAL_WRITE)) ||
	    __test_and_set_bit(wr->key & 0xff, mr->had)) {
		fake->bad++;
		return false;
	}
	mr->ibmr.rkey = wr->key;
	mr->ibmr.lkey = wr->key;
	mr->valid = true;
	return true;
}

static inline bool fake_ib_inv(struct fake_ib *fake, struct ib_qp *ibqp, u32 key)
{
	struct fake_ib_mr *mr = fake_ib_find_mr(fake, key);

	if (!mr || !mr->valid || mr->ibmr.rkey != key || mr->ibmr.pd != ibqp->pd) {
		fake->bad++;
		return false;
	}
	mr->valid = false;
	return true;
}

/* Is there a key for each piece that the device is to read or write? */
static inline bool fake_ib_sges(struct fake_ib *fake, struct ib_qp *ibqp,
				const struct ib_send_wr *wr)
{
	struct fake_ib_mr *mr;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->lkey == ibqp->pd->local_dma_lkey)
			continue;
		mr = fake_ib_find_mr(fake, sge->lkey);
		if (!mr || !mr->valid || mr->ibmr.lkey != sge->lkey || mr->ibmr.pd != ibqp->pd ||
		    sge->addr < mr->ibmr.iova ||
		    sge->addr + sge->length > mr->ibmr.iova + mr->ibmr.length) {
			fake->bad++;
			return false;
		}
	}
	return true;
}

/* Execute one; true for success. The QP is in RTS, under the lock. */
static inline bool fake_ib_exec(struct fake_ib *fake, struct ib_qp *ibqp,
				const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		return fake_ib_reg(fake, ibqp, reg_wr(wr));
	case IB_WR_LOCAL_INV:
		return fake_ib_inv(fake, ibqp, wr->ex.invalidate_rkey);
	case IB_WR_SEND:
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_WRITE:
		return fake_ib_sges(fake, ibqp, wr);
	default:
		fake->bad++;
		return false;
	}
}

/* The QP goes to error; told by an event only if @told. */
static inline void fake_ib_break_qp(struct ib_qp *ibqp, bool told)
{
	struct ib_event event = {
		.device = ibqp->device,
		.element.qp = ibqp,
		.event = IB_EVENT_QP_FATAL,
	};

	fake_ib_flush(ibqp);
	if (told)
		ibqp->event_handler(&event, ibqp->qp_context);
}

static inline int fake_ib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
				    const struct ib_send_wr **bad)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	unsigned long flags;
	bool failed;

	for (; wr; wr = wr->next) {
		struct ib_wc wc = {
			.wr_cqe = wr->wr_cqe,
			.status = IB_WC_WR_FLUSH_ERR,
			.opcode = fake_ib_opcode(wr->opcode),
			.qp = ibqp,
		};
		bool hit = fake_ib_hit(fake);

		*bad = wr;
		if (fake->no_post)
			return fake->no_post;
		if (hit && fake->fault == FAKE_IB_REFUSE)
			return -ENOMEM;
		if (qp->state == IB_QPS_ERR && fake->no_drain)
			return fake_ib_resists(fake, &fake->no_drain);
		if (hit && (fake->fault == FAKE_IB_FLUSH || fake->fault == FAKE_IB_EVENT))
			fake_ib_break_qp(ibqp, fake->fault == FAKE_IB_EVENT);

		spin_lock_irqsave(&fake->lock, flags);
		fake->posted++;
		fake->last_flags = wr->send_flags;
		qp->silent |= hit && fake->fault == FAKE_IB_SILENT;
		if (fake->dead || (qp->state == IB_QPS_RTS && qp->silent)) {
			qp->held[qp->nr_held++] = wc;
			spin_unlock_irqrestore(&fake->lock, flags);
			continue;
		}
		if (qp->state == IB_QPS_RTS)
			wc.status = hit || !fake_ib_exec(fake, ibqp, wr) ? IB_WC_LOC_QP_OP_ERR :
									   IB_WC_SUCCESS;
		failed = wc.status == IB_WC_LOC_QP_OP_ERR;
		spin_unlock_irqrestore(&fake->lock, flags);
		/* an error is always told */
		if (wc.status != IB_WC_SUCCESS || wr->send_flags & IB_SEND_SIGNALED)
			fake_ib_complete(ibqp, &wc);
		if (failed)
			fake_ib_flush(ibqp);
	}
	return 0;
}

#endif /* _UCB_KUNIT_FAKE_IB_VERBS_H */
