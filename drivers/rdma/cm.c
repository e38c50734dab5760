// SPDX-License-Identifier: GPL-2.0
/*
 * Registration in the shape of rdma_reg_msgs(3), rdma_reg_read(3) and
 * rdma_reg_write(3): the connection names the trust domain.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <rdma/rdma_cm.h>

#include "bridge.h"

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
