// SPDX-License-Identifier: GPL-2.0
/*
 * The registration queue pair.
 *
 * IB_WR_REG_MR is a work request, and only a queue pair in RTS executes it. A
 * buffer must get its key before any peer is connected, so every trust domain
 * has a queue pair of its own that is connected to itself, or on iWARP, where
 * there is no such thing, to another of its own. It carries local operations
 * only: nothing is sent or received on it.
 *
 * One work request is in flight at a time, under pd->qp_lock. A queue pair on
 * which one failed is taken out and destroyed, and the next call builds another:
 * registrations belong to the protection domain, so they stay valid.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "bridge.h"
#include "pair.h"

/* A local operation takes microseconds; a device that needs this long is dead. */
#define UCB_RQP_TIMEOUT		(5 * HZ)

/*
 * @pair: on iWARP; @qp is its active end
 * @done: the one work request in flight has completed with @status
 * @broken: an asynchronous event reported an error, or a work request failed
 */
struct ucb_rqp {
	struct ib_qp *qp;
	struct ib_cq *cq;
	struct ucb_pair pair;
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
	bool broken;
};

static void rqp_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ucb_rqp *rqp = container_of(wc->wr_cqe, struct ucb_rqp, cqe);

	rqp->status = wc->status;
	complete(&rqp->done);
}

static void rqp_event(struct ib_event *event, void *context)
{
	struct ucb_rqp *rqp = context;

	switch (event->event) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
		WRITE_ONCE(rqp->broken, true);
		break;
	default:
		break;
	}
}

/*
 * RoCE: any address of the port will do, the packets of nobody use it. It is
 * held in @ah, so that it cannot be taken from the port meanwhile.
 */
static int rqp_fill_roce(struct ucb_pd *pd, const struct ib_port_attr *port,
			 struct rdma_ah_attr *ah)
{
	const struct ib_gid_attr *gid;
	union ib_gid dgid;
	int i;

	for (i = 0; i < port->gid_tbl_len; i++) {
		gid = rdma_get_gid_attr(pd->ibdev, pd->port, i);
		if (IS_ERR(gid))
			continue;
		if (!rdma_read_gid_l2_fields(gid, NULL, ah->roce.dmac)) {
			dgid = gid->gid;
			rdma_move_grh_sgid_attr(ah, &dgid, 0, 1, 0, gid);
			return 0;
		}
		rdma_put_gid_attr(gid);
	}
	return -EAGAIN;
}

static int rqp_fill_ib(struct ucb_pd *pd, const struct ib_port_attr *port,
		       struct rdma_ah_attr *ah)
{
	union ib_gid gid;
	int err;

	rdma_ah_set_dlid(ah, port->lid);
	rdma_ah_set_path_bits(ah, 0);
	if (!rdma_is_grh_required(pd->ibdev, pd->port))
		return 0;

	err = rdma_query_gid(pd->ibdev, pd->port, 0, &gid);
	if (err)
		return -EAGAIN;
	rdma_ah_set_grh(ah, &gid, 0, 0, 1, 0);
	return 0;
}

/* RESET to RTS, with itself, to which @attr has the way, as the other end */
static int rqp_to_rts(struct ib_qp *qp, struct ib_qp_attr *attr,
		      const struct ib_port_attr *port)
{
	u32 psn = get_random_u32() & 0xffffff;
	int err;

	attr->qp_state = IB_QPS_INIT;
	err = ib_modify_qp(qp, attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr->qp_state = IB_QPS_RTR;
	attr->path_mtu = port->active_mtu;
	attr->dest_qp_num = qp->qp_num;
	attr->rq_psn = psn;
	attr->max_dest_rd_atomic = 1;
	attr->min_rnr_timer = 12;
	err = ib_modify_qp(qp, attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			   IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;

	attr->qp_state = IB_QPS_RTS;
	attr->timeout = 14;
	attr->retry_cnt = 7;
	attr->rnr_retry = 7;
	attr->sq_psn = psn;
	attr->max_rd_atomic = 1;
	return ib_modify_qp(qp, attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

static int rqp_connect(struct ucb_pd *pd, struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .port_num = pd->port };
	struct ib_port_attr port;
	int err;

	err = ib_query_port(pd->ibdev, pd->port, &port);
	if (err)
		return err;
	if (port.state != IB_PORT_ACTIVE)
		return -EAGAIN;

	attr.ah_attr.type = rdma_ah_find_type(pd->ibdev, pd->port);
	rdma_ah_set_port_num(&attr.ah_attr, pd->port);
	if (rdma_protocol_roce(pd->ibdev, pd->port))
		err = rqp_fill_roce(pd, &port, &attr.ah_attr);
	else
		err = rqp_fill_ib(pd, &port, &attr.ah_attr);
	if (err)
		return err;

	err = rqp_to_rts(qp, &attr, &port);
	rdma_destroy_ah_attr(&attr.ah_attr);
	return err;
}

static int rqp_make_pair(struct ucb_pd *pd, struct ucb_rqp *rqp,
			 const struct ib_qp_init_attr *init)
{
	int err;

	err = ucb_pair_connect(&rqp->pair, pd->port, pd->ibpd, pd->ibpd, init);
	if (!err)
		rqp->qp = rqp->pair.id[UCB_PAIR_ACTIVE]->qp;
	return err;
}

static int rqp_make_qp(struct ucb_pd *pd, struct ucb_rqp *rqp,
		       struct ib_qp_init_attr *init)
{
	struct ib_qp *qp = ib_create_qp(pd->ibpd, init);

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	rqp->qp = qp;
	return rqp_connect(pd, qp);
}

static void rqp_destroy(struct ucb_rqp *rqp)
{
	int err = 0;

	if (rqp->pair.id[UCB_PAIR_ACTIVE])
		ucb_pair_close(&rqp->pair);
	else if (rqp->qp)
		err = ib_destroy_qp(rqp->qp);
	if (err) {
		/* it may still complete something: better lost than used freed */
		ibdev_err(rqp->cq->device,
			  "ucb: queue pair not destroyed (%d), kept\n", err);
		return;
	}
	ib_free_cq(rqp->cq);
	kfree(rqp);
}

static bool rqp_is_broken(struct ucb_rqp *rqp)
{
	return READ_ONCE(rqp->broken) || READ_ONCE(rqp->pair.down);
}

static struct ucb_rqp *rqp_create(struct ucb_pd *pd)
{
	struct ib_qp_init_attr init = {
		.event_handler = rqp_event,
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
		.port_num = pd->port,
	};
	struct ucb_rqp *rqp;
	int err;

	rqp = kzalloc(sizeof(*rqp), GFP_KERNEL);
	if (!rqp)
		return ERR_PTR(-ENOMEM);
	rqp->cqe.done = rqp_done;
	init_completion(&rqp->done);

	/*
	 * Not IB_POLL_SOFTIRQ: ib_poll_handler() uses the CQ once more when
	 * ib_free_cq() no longer waits for it.
	 */
	rqp->cq = ib_alloc_cq(pd->ibdev, rqp, 8, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(rqp->cq)) {
		err = PTR_ERR(rqp->cq);
		kfree(rqp);
		return ERR_PTR(err);
	}

	init.qp_context = rqp;
	init.send_cq = rqp->cq;
	init.recv_cq = rqp->cq;
	if (ucb_pd_is_iwarp(pd))
		err = rqp_make_pair(pd, rqp, &init);
	else
		err = rqp_make_qp(pd, rqp, &init);
	if (err) {
		rqp_destroy(rqp);
		return ERR_PTR(err);
	}
	return rqp;
}

/*
 * Make sure that @pd has a queue pair that is thought to work. Built with no
 * lock held; when two callers build one, the second is thrown away. On iWARP not
 * from a CM callback.
 *
 * Return: 0, -EAGAIN when the port is not active or has no address yet, or
 * what the device gave.
 */
int ucb_rqp_prepare(struct ucb_pd *pd)
{
	struct ucb_rqp *fresh;
	struct ucb_rqp *old = NULL;

	mutex_lock(&pd->qp_lock);
	if (pd->rqp && rqp_is_broken(pd->rqp)) {
		old = pd->rqp;
		pd->rqp = NULL;
	}
	fresh = pd->rqp;
	mutex_unlock(&pd->qp_lock);

	if (old)
		rqp_destroy(old);
	if (fresh)
		return 0;

	fresh = rqp_create(pd);
	if (IS_ERR(fresh))
		return PTR_ERR(fresh);

	mutex_lock(&pd->qp_lock);
	if (!pd->rqp) {
		pd->rqp = fresh;
		fresh = NULL;
	}
	mutex_unlock(&pd->qp_lock);

	if (fresh)
		rqp_destroy(fresh);
	return 0;
}

static void rqp_work(struct work_struct *work)
{
	struct ucb_pd *pd = container_of(work, struct ucb_pd, rqp_work);

	if (ucb_pd_enter(pd))
		return;
	ucb_rqp_prepare(pd);
	ucb_pd_exit(pd);
}

/*
 * Registering is allowed in a CM callback, making a pair is not: a work item does
 * it, and the caller comes back.
 */
static int rqp_prepare_iwarp(struct ucb_pd *pd)
{
	bool works;

	mutex_lock(&pd->qp_lock);
	works = pd->rqp && !rqp_is_broken(pd->rqp);
	mutex_unlock(&pd->qp_lock);
	if (works)
		return 0;
	queue_work(ucb_rdma_wq, &pd->rqp_work);
	return -EAGAIN;
}

/*
 * Return: 0, -ESTALE if the queue pair had failed before, -ETIMEDOUT or -EIO.
 */
static int rqp_post_wait(struct ucb_pd *pd, struct ucb_rqp *rqp,
			 struct ib_send_wr *wr)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	reinit_completion(&rqp->done);
	wr->wr_cqe = &rqp->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	if (ib_post_send(rqp->qp, wr, NULL))
		return -ESTALE;

	if (!wait_for_completion_timeout(&rqp->done, UCB_RQP_TIMEOUT)) {
		/* With that, or when it is destroyed, nothing of it runs. */
		ib_modify_qp(rqp->qp, &attr, IB_QP_STATE);
		ibdev_err_ratelimited(pd->ibdev,
				      "ucb: no completion of a local operation\n");
		return -ETIMEDOUT;
	}
	if (rqp->status == IB_WC_SUCCESS)
		return 0;
	return rqp->status == IB_WC_WR_FLUSH_ERR ? -ESTALE : -EIO;
}

/*
 * Execute one local operation and wait for its completion. The caller is inside
 * the domain (ucb_pd_enter). The work request must leave no trace if it fails,
 * because it is repeated once when the queue pair turns out to have failed
 * before.
 *
 * Return: 0, -EAGAIN when there is no working queue pair, -EIO when the device
 * refused the operation, on a fresh queue pair too, or did not answer.
 */
int ucb_rqp_exec(struct ucb_pd *pd, struct ib_send_wr *wr)
{
	struct ucb_rqp *rqp;
	int tries;
	int err;

	for (tries = 0; tries < 2; tries++) {
		err = ucb_pd_is_iwarp(pd) ? rqp_prepare_iwarp(pd) :
					    ucb_rqp_prepare(pd);
		if (err)
			return err;

		mutex_lock(&pd->qp_lock);
		rqp = pd->rqp;
		if (!rqp) {
			mutex_unlock(&pd->qp_lock);
			err = -EAGAIN;
			continue;
		}
		err = rqp_post_wait(pd, rqp, wr);
		WRITE_ONCE(pd->mute, err == -ETIMEDOUT);
		/* a pair is closed by the work item that makes another */
		if (err && ucb_pd_is_iwarp(pd))
			WRITE_ONCE(rqp->broken, true);
		else if (err)
			pd->rqp = NULL;
		mutex_unlock(&pd->qp_lock);

		if (!err)
			return 0;
		if (!ucb_pd_is_iwarp(pd))
			rqp_destroy(rqp);
		if (err != -ESTALE)
			return -EIO;
	}
	return err == -ESTALE ? -EIO : err;
}

void ucb_rqp_init(struct ucb_pd *pd)
{
	mutex_init(&pd->qp_lock);
	INIT_WORK(&pd->rqp_work, rqp_work);
}

/*
 * Destroy the queue pair. Nobody is inside the domain any more, so there is
 * nothing in flight on it, and the work item finds the domain closed.
 */
void ucb_rqp_drop(struct ucb_pd *pd)
{
	cancel_work_sync(&pd->rqp_work);
	if (!pd->rqp)
		return;
	rqp_destroy(pd->rqp);
	pd->rqp = NULL;
}
