// SPDX-License-Identifier: GPL-2.0
/*
 * Serving the filled buffers to one peer.
 *
 * A worker binds a listener to the given address, which chooses the RDMA
 * device; registers every buffer in a trust domain of its own before anyone
 * can connect; and listens. The first peer gets a QP on that domain and, by one
 * SEND, the table of descriptors. It reads when and as often as it likes. When
 * it disconnects, or fails, or its time is up, or the USB or RDMA device goes,
 * the worker ends the QP, then the keys; its caller frees the buffers.
 */
#include <linux/slab.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "../drivers/compat.h"
#include "capture.h"
#include "capture_table.h"

/*
 * @cm is held over what the CM's handler does with @id and its QP, so that the
 * worker can wait for it; @lock covers @over and @error, which a completion
 * changes too.
 */
struct server {
	struct capture *cap;
	struct rdma_cm_id *listen;
	struct ucb_pd *pd;
	struct ib_cq *cq;
	void *table;
	size_t table_len;
	u64 table_dma;
	struct ib_cqe sent;
	struct mutex cm;	/* see above */
	struct rdma_cm_id *id;
	spinlock_t lock;	/* see above */
	bool over;
	int error;
};

static void end_run(struct server *srv, int err)
{
	unsigned long flags;

	spin_lock_irqsave(&srv->lock, flags);
	if (!srv->over)
		srv->error = err;
	srv->over = true;
	spin_unlock_irqrestore(&srv->lock, flags);
	wake_up_all(&srv->cap->wait);
}

static void table_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct server *srv = container_of(wc->wr_cqe, struct server, sent);

	if (wc->status != IB_WC_SUCCESS)
		end_run(srv, -ECONNABORTED);
}

static int send_table(struct server *srv, struct rdma_cm_id *id)
{
	struct ib_sge sge = {
		.addr = srv->table_dma,
		.length = srv->table_len,
		.lkey = id->qp->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_cqe = &srv->sent,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(id->qp, &wr, NULL);
}

/* A failure destroys @id: the CM does so when its handler returns an error. */
static int accept_peer(struct server *srv, struct rdma_cm_id *id,
		       const struct rdma_conn_param *req)
{
	struct ib_qp_init_attr attr = {
		.send_cq = srv->cq,
		.recv_cq = srv->cq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		/* the table, and one of each for ib_drain_qp() */
		.cap = {
			.max_send_wr = 2,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct rdma_conn_param param = {
		.rnr_retry_count = 7,
	};
	int err;

	if (srv->id || READ_ONCE(srv->over) || id->device != srv->listen->device) {
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
		return -EBUSY;
	}
	err = ucb_create_qp(id, srv->pd, &attr);
	if (err)
		return err;
	param.responder_resources = min_t(int, req->responder_resources,
					  id->device->attrs.max_qp_rd_atom);
	err = rdma_accept(id, &param);
	if (err) {
		rdma_destroy_qp(id);
		return err;
	}
	srv->id = id;
	return 0;
}

static int cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct server *srv = id->context;
	int err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		mutex_lock(&srv->cm);
		err = accept_peer(srv, id, &event->param.conn);
		mutex_unlock(&srv->cm);
		return err;
	case RDMA_CM_EVENT_ESTABLISHED:
		mutex_lock(&srv->cm);
		if (!READ_ONCE(srv->over))
			err = send_table(srv, id);
		mutex_unlock(&srv->cm);
		if (err)
			end_run(srv, err);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		end_run(srv, 0);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		end_run(srv, -ENODEV);
		break;
	default:
		end_run(srv, event->status < 0 ? event->status : -ECONNABORTED);
		break;
	}
	/* the worker destroys both ids */
	return 0;
}

static int give_key(struct capture *cap, struct ucb_pd *pd, struct capture_slot *slot)
{
	struct ucb_mr *mr;

	if (slot->len == CAPTURE_BUF_SIZE)
		mr = ucb_mr_reg(pd, slot->buf, IB_ACCESS_REMOTE_READ);
	else
		mr = ucb_mr_reg_range(pd, slot->buf, 0, slot->len, IB_ACCESS_REMOTE_READ);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	slot->mr = mr;
	cap->registered++;
	return 0;
}

static int give_keys(struct server *srv)
{
	struct capture *cap = srv->cap;
	unsigned int i;
	u8 *at;
	int err;

	srv->table_len = CAPTURE_TABLE_HDR + cap->nr * UCB_MR_DESC_SIZE;
	srv->table = kzalloc(srv->table_len, GFP_KERNEL);
	if (!srv->table)
		return -ENOMEM;
	at = srv->table;
	put_unaligned_le32(CAPTURE_TABLE_MAGIC, at);
	put_unaligned_le32(cap->nr, at + CAPTURE_TABLE_COUNT);
	put_unaligned_le64(cap->bytes, at + CAPTURE_TABLE_BYTES);
	at += CAPTURE_TABLE_HDR;
	for (i = 0; i < cap->nr; i++, at += UCB_MR_DESC_SIZE) {
		if (READ_ONCE(cap->gone))
			return -ENODEV;
		err = give_key(cap, srv->pd, &cap->slots[i]);
		if (!err)
			err = ucb_mr_get_descriptor(cap->slots[i].mr, at);
		if (err)
			return err;
	}
	cap->first_key = ucb_mr_get_rkey(cap->slots[0].mr);
	return 0;
}

/*
 * A buffer that the device does not let go of is the pool's to keep: the second
 * call tries once more and gives up the handle, and the slot is empty for the next
 * run.
 */
static void take_key(struct capture *cap, struct capture_slot *slot)
{
	int err = ucb_mr_dereg(&slot->mr);

	if (!err) {
		cap->deregistered++;
		return;
	}
	dev_warn(&cap->intf->dev, "a buffer keeps its key: error %d\n", err);
	ucb_mr_dereg(&slot->mr);
	/* refused if that, too, was in vain */
	ucb_buf_free(slot->buf);
	slot->buf = NULL;
}

static void take_keys(struct capture *cap)
{
	unsigned int i;

	for (i = 0; i < cap->nr; i++)
		if (cap->slots[i].mr)
			take_key(cap, &cap->slots[i]);
}

/* After end_run(): no peer is accepted and nothing is posted from now on. */
static void end_peer(struct server *srv)
{
	struct rdma_cm_id *id;

	mutex_lock(&srv->cm);
	id = srv->id;
	srv->id = NULL;
	mutex_unlock(&srv->cm);
	if (!id)
		return;
	rdma_disconnect(id);
	ib_drain_qp(id->qp);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static int start(struct server *srv)
{
	struct capture *cap = srv->cap;
	struct ib_device *ibdev;
	int err;

	srv->listen = rdma_create_id(&init_net, cm_event, srv, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(srv->listen))
		return PTR_ERR(srv->listen);
	err = rdma_bind_addr(srv->listen, (struct sockaddr *)&cap->addr);
	if (err)
		goto destroy_listen;
	ibdev = srv->listen->device;
	if (!ibdev) {
		err = -EADDRNOTAVAIL;
		goto destroy_listen;
	}
	srv->pd = ucb_pd_get(ibdev, srv->listen->port_num);
	if (IS_ERR(srv->pd)) {
		err = PTR_ERR(srv->pd);
		goto destroy_listen;
	}
	err = give_keys(srv);
	if (err)
		goto take_keys;
	srv->table_dma = ib_dma_map_single(ibdev, srv->table, srv->table_len,
					   DMA_TO_DEVICE);
	if (ib_dma_mapping_error(ibdev, srv->table_dma)) {
		err = -ENOMEM;
		goto take_keys;
	}
	srv->cq = ib_alloc_cq(ibdev, srv, 4, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(srv->cq)) {
		err = PTR_ERR(srv->cq);
		goto unmap_table;
	}
	err = rdma_listen(srv->listen, 1);
	if (err)
		goto free_cq;
	return 0;

free_cq:
	ib_free_cq(srv->cq);
unmap_table:
	ib_dma_unmap_single(ibdev, srv->table_dma, srv->table_len, DMA_TO_DEVICE);
take_keys:
	take_keys(cap);
	kfree(srv->table);
	ucb_pd_put(srv->pd);
destroy_listen:
	rdma_destroy_id(srv->listen);
	return err;
}

static void stop(struct server *srv)
{
	struct ib_device *ibdev = srv->listen->device;

	/* the listener goes last: it holds the device */
	end_run(srv, 0);
	end_peer(srv);
	ib_free_cq(srv->cq);
	ib_dma_unmap_single(ibdev, srv->table_dma, srv->table_len, DMA_TO_DEVICE);
	take_keys(srv->cap);
	kfree(srv->table);
	ucb_pd_put(srv->pd);
	rdma_destroy_id(srv->listen);
}

int capture_serve(struct capture *cap, unsigned int timeout_s,
		  void (*listening)(struct capture *cap))
{
	struct server srv = {
		.cap = cap,
		.sent.done = table_sent,
	};
	int err;

	mutex_init(&srv.cm);
	spin_lock_init(&srv.lock);
	err = start(&srv);
	if (err)
		return err;
	listening(cap);
	if (!wait_event_timeout(cap->wait,
				READ_ONCE(srv.over) || READ_ONCE(cap->gone),
				(long)timeout_s * HZ))
		end_run(&srv, -ETIMEDOUT);
	if (READ_ONCE(cap->gone))
		end_run(&srv, -ENODEV);
	stop(&srv);
	return srv.error;
}
