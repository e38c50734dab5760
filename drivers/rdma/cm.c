// SPDX-License-Identifier: GPL-2.0
/*
 * Calls in the shape of the connection manager's: rdma_create_qp(3), and
 * rdma_reg_msgs(3) and its like, where the connection names the trust domain.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <rdma/rdma_cm.h>

#include "bridge.h"

/**
 * ucb_create_qp() - make a connection's queue pair in a trust domain
 * @id: the connection
 * @pd: the domain of its peer
 * @attr: as for rdma_create_qp()
 *
 * Mirrors rdma_create_qp(3). Where the device is being removed at the same time,
 * either this fails or the domain's PD stays until ucb_pd_put(), which the caller
 * calls after rdma_destroy_qp().
 *
 * Context: Process context, sleeps; a connection manager callback is fine.
 * Return: 0, -EINVAL for a NULL argument or a domain of another device, -ENODEV
 * when the device is going, or what the device gave.
 */
int ucb_create_qp(struct rdma_cm_id *id, struct ucb_pd *pd,
		  struct ib_qp_init_attr *attr)
{
	int err;

	might_sleep();
	if (!id || !pd || !attr)
		return -EINVAL;

	err = ucb_pd_enter(pd);
	if (err)
		return err;
	err = rdma_create_qp(id, pd->ibpd, attr);
	ucb_pd_exit(pd);
	return err;
}
EXPORT_SYMBOL_GPL(ucb_create_qp);

static struct ucb_mr *reg_on_id(struct rdma_cm_id *id, struct ucb_buf *buf,
				int access)
{
	struct ucb_pd *pd;
	struct ucb_mr *mr;

	if (!id || !id->qp || !buf)
		return ERR_PTR(-EINVAL);

	pd = ucb_pd_find(id->qp->pd);
	if (!pd)
		return ERR_PTR(-ENOENT);

	mr = ucb_mr_reg(pd, buf, access);
	ucb_pd_unref(pd);
	return mr;
}

/**
 * ucb_reg_msgs() - register a buffer for sending and receiving messages
 * @id: a connection with a QP on the PD of a trust domain
 * @buf: the buffer
 *
 * Mirrors rdma_reg_msgs(3): the peer gets no access.
 *
 * Context: Process context, sleeps.
 * Return: the registration, or an ERR_PTR: -EINVAL for a NULL argument or an id
 * without QP, -ENOENT when the QP's PD is of no trust domain (see
 * ucb_pd_attach()), and those of ucb_mr_reg().
 */
struct ucb_mr *ucb_reg_msgs(struct rdma_cm_id *id, struct ucb_buf *buf)
{
	return reg_on_id(id, buf, IB_ACCESS_LOCAL_WRITE);
}
EXPORT_SYMBOL_GPL(ucb_reg_msgs);

/**
 * ucb_reg_read() - register a buffer that the peer will READ
 * @id: a connection with a QP on the PD of a trust domain
 * @buf: the buffer
 *
 * Mirrors rdma_reg_read(3): the peer's WRITE is refused.
 *
 * Context: Process context, sleeps.
 * Return: the registration, or an ERR_PTR as ucb_reg_msgs() gives.
 */
struct ucb_mr *ucb_reg_read(struct rdma_cm_id *id, struct ucb_buf *buf)
{
	return reg_on_id(id, buf, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ);
}
EXPORT_SYMBOL_GPL(ucb_reg_read);

/**
 * ucb_reg_write() - register a buffer that the peer will WRITE
 * @id: a connection with a QP on the PD of a trust domain
 * @buf: the buffer
 *
 * Mirrors rdma_reg_write(3): the peer's READ is refused.
 *
 * Context: Process context, sleeps.
 * Return: the registration, or an ERR_PTR as ucb_reg_msgs() gives.
 */
struct ucb_mr *ucb_reg_write(struct rdma_cm_id *id, struct ucb_buf *buf)
{
	return reg_on_id(id, buf, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE);
}
EXPORT_SYMBOL_GPL(ucb_reg_write);

/**
 * ucb_dereg_mr() - end a registration
 * @mr: the registration; freed on success
 *
 * Mirrors rdma_dereg_mr(3), which returns 0 or an error.
 *
 * Context: Process context, sleeps.
 * Return: 0, or as ucb_mr_dereg().
 */
int ucb_dereg_mr(struct ucb_mr *mr)
{
	return ucb_mr_dereg(&mr);
}
EXPORT_SYMBOL_GPL(ucb_dereg_mr);
