// SPDX-License-Identifier: GPL-2.0
/*
 * Draining a queue pair: what ib_drain_qp() does, but whether the device has
 * done it is known. That one returns nothing, also where it could not post, and
 * waits for as long as a dead device likes.
 *
 * mlx4, mlx5 and hns in an internal error take no work request (-EIO) but that
 * of their own drain, and complete what was posted in software there. So theirs
 * is asked then: the device executes nothing any more, and it waits for its
 * driver only.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/moduleparam.h>

#include "bridge.h"

/* Flushing takes microseconds; a device that needs this long is dead. */
static unsigned int drain_timeout_ms = 30000;
module_param(drain_timeout_ms, uint, 0644);
MODULE_PARM_DESC(drain_timeout_ms,
		 "how long a device may take to drain a queue pair, milliseconds");

/*
 * Unplug waits for its queue pairs one after the other: when a device had its
 * time, the next gets this part of it.
 */
#define UCB_DRAIN_DEAD		30
#define UCB_DRAIN_POLL		(HZ / 10)
/* cxgb4 refuses the error state while it terminates the connection */
#define UCB_ERROR_TIMEOUT	HZ

static void drain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct ucb_drain *drain = container_of(wc->wr_cqe, struct ucb_drain, cqe);

	complete(&drain->done);
}

static int post_drain(struct ib_qp *qp, struct ucb_drain *drain, bool send)
{
	struct ib_rdma_wr swr = {
		.wr.wr_cqe = &drain->cqe,
		.wr.opcode = IB_WR_RDMA_WRITE,
	};
	struct ib_recv_wr rwr = { .wr_cqe = &drain->cqe };

	return send ? ib_post_send(qp, &swr.wr, NULL) :
		      ib_post_recv(qp, &rwr, NULL);
}

/* A CQ that its owner polls is polled here, for the owner waits for us. */
static void poll_direct(struct ib_cq *cq)
{
	if (cq->poll_ctx == IB_POLL_DIRECT)
		ib_process_cq_direct(cq, -1);
}

static int qp_to_error(struct ib_qp *qp)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	unsigned long end = jiffies + UCB_ERROR_TIMEOUT;
	int err;

	while ((err = ib_modify_qp(qp, &attr, IB_QP_STATE))) {
		if (time_after(jiffies, end))
			break;
		usleep_range(10000, 20000);
	}
	return err;
}

/* Return: whether the driver has a drain of its own, which is over. */
static bool drain_by_driver(struct ib_qp *qp, bool send)
{
	const struct ib_device_ops *ops = &qp->device->ops;

	if (send ? !ops->drain_sq : !ops->drain_rq)
		return false;
	if (send)
		ib_drain_sq(qp);
	else
		ib_drain_rq(qp);
	return true;
}

/* Until @end, in jiffies. */
static int drain_queue(struct ib_qp *qp, struct ucb_drain *drain, bool send,
		       unsigned long end)
{
	struct ib_cq *cq = send ? qp->send_cq : qp->recv_cq;
	int err;

	drain->cqe.done = drain_done;
	init_completion(&drain->done);
	/* a full queue empties: that is what the error state does */
	while ((err = post_drain(qp, drain, send)) == -ENOMEM) {
		if (time_after(jiffies, end))
			break;
		poll_direct(cq);
		usleep_range(500, 1000);
	}
	if (err == -EIO && drain_by_driver(qp, send))
		return 0;
	if (err)
		return err;

	do {
		poll_direct(cq);
		if (wait_for_completion_timeout(&drain->done, UCB_DRAIN_POLL))
			return 0;
	} while (time_before(jiffies, end));
	return -ETIMEDOUT;
}

/*
 * Put the queue pair into the error state, and wait until all that was posted
 * has completed. @drains: one for each queue.
 *
 * Return: 0: the device executes nothing of the queue pair any more. Or an
 * errno, never -EBUSY, which is a caller's: it may, and until the queue pair is
 * destroyed it may also complete @drains.
 */
int ucb_drain_qp(struct ucb_dev *dev, struct ib_qp *qp,
		 struct ucb_drain drains[2])
{
	unsigned int ms = READ_ONCE(drain_timeout_ms);
	struct ib_qp_attr attr = {};
	struct ib_qp_init_attr init;
	unsigned long end;
	int err;

	/* one that was never connected takes no work requests, nor an error */
	if (!ib_query_qp(qp, &attr, IB_QP_STATE, &init) &&
	    attr.qp_state == IB_QPS_RESET)
		return 0;

	err = qp_to_error(qp);
	if (READ_ONCE(dev->dead))
		ms /= UCB_DRAIN_DEAD;
	end = jiffies + msecs_to_jiffies(ms);
	if (!err)
		err = drain_queue(qp, &drains[0], true, end);
	/* what is posted to a shared receive queue is not the queue pair's */
	if (!err && !qp->srq)
		err = drain_queue(qp, &drains[1], false, end);
	if (!err)
		WRITE_ONCE(dev->dead, false);
	else if (err == -ETIMEDOUT || err == -ENOMEM)
		WRITE_ONCE(dev->dead, true);
	return err == -EBUSY ? -EIO : err;
}
