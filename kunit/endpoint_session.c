// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's end of the guest test "interop": a connection to one peer, its
 * buffer and what the peer asks for.
 *
 * The peer gets the buffer's descriptor in the connection's private data. What
 * it then wants it says by messages, as interop.h has them.
 */
#include <linux/device.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include <ucb/pool.h>
#include <ucb/rdma.h>

#include "../drivers/compat.h"
#include "endpoint.h"
#include "interop.h"

#define CM_TIMEOUT_MS	10000
#define TIMEOUT		(60 * HZ)
#define MSG_OUT		64	/* of the buffer for messages; the other is at 0 */

/* A buffer with its registration, as sge and to a peer */
struct region {
	struct ucb_buf *buf;
	struct ucb_mr *mr;
	struct ucb_mr_remote self;
	u8 desc[UCB_MR_DESC_SIZE];
};

/*
 * @cm: held over what the CM's handler does with @id and @closing
 * @done: the one work request in flight has completed with @status
 * @event: the CM event that a connecting side waits for, or another
 * @over: the peer has gone
 * @error: why it was not served
 * @theirs: the region that the peer told of
 */
struct session {
	struct device *dev;
	struct ucb_pool *pool;
	struct rdma_cm_id *listen;
	struct rdma_cm_id *id;
	struct mutex cm;	/* see above */
	bool closing;
	struct ucb_pd *pd;
	struct ib_cq *cq;
	struct region data;
	struct region msgs;
	struct ib_cqe cqe;
	struct ib_cqe recv_cqe;
	struct completion done;
	enum ib_wc_status status;
	struct completion event;
	enum rdma_cm_event_type last_event;
	struct completion over;
	struct work_struct work;
	unsigned int served;
	int error;
	struct ucb_mr_remote theirs;
};

static void fail(struct session *s, int err, const char *what)
{
	dev_info(s->dev, "endpoint: %s: %d\n", what, err);
	if (!s->error)
		s->error = err;
}

static void wr_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct session *s = container_of(wc->wr_cqe, struct session, cqe);

	s->status = wc->status;
	complete(&s->done);
}

static void msg_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct session *s = container_of(wc->wr_cqe, struct session, recv_cqe);

	if (wc->status == IB_WC_SUCCESS && wc->byte_len == INTEROP_MSG_LEN)
		schedule_work(&s->work);
	else if (wc->status != IB_WC_WR_FLUSH_ERR)
		fail(s, -EPROTO, "message not received");
}

static int post_recv(struct session *s, struct ib_qp *qp)
{
	struct ib_sge sge = {
		.addr = s->msgs.self.addr,
		.length = INTEROP_MSG_LEN,
		.lkey = s->msgs.self.rkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &s->recv_cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(qp, &wr, NULL);
}

/* Post one work request on @from and wait for it. */
static int execute(struct session *s, enum ib_wr_opcode opcode, const struct region *from,
		   size_t offset, size_t length)
{
	struct ib_sge sge = {
		.addr = from->self.addr + offset,
		.length = length,
		/* with fast registration both keys are one */
		.lkey = from->self.rkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &s->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = s->theirs.addr,
		.rkey = s->theirs.rkey,
	};
	int err;

	reinit_completion(&s->done);
	err = ib_post_send(s->id->qp, &wr.wr, NULL);
	if (err)
		return err;
	if (!wait_for_completion_timeout(&s->done, TIMEOUT))
		return -ETIMEDOUT;
	if (s->status == IB_WC_WR_FLUSH_ERR)
		return -ECONNRESET;
	return s->status == IB_WC_SUCCESS ? 0 : -EIO;
}

static int pull(struct session *s, unsigned int seed)
{
	void *mem = ucb_mr_get_ptr(s->data.mr);
	int err;

	interop_fill(mem, ~seed);
	err = execute(s, IB_WR_RDMA_READ, &s->data, 0, INTEROP_SIZE);
	if (err)
		return err;
	return interop_equal(mem, seed) ? 0 : -EBADMSG;
}

/*
 * Where the peer lets us, a READ flushes the WRITE: the bytes are placed, and
 * seen, before it completes.
 */
static int push(struct session *s, unsigned int seed)
{
	int err;

	interop_fill(ucb_mr_get_ptr(s->data.mr), seed);
	err = execute(s, IB_WR_RDMA_WRITE, &s->data, 0, INTEROP_SIZE);
	if (err || !(s->theirs.usage & UCB_MR_USAGE_FLUSH_VISIBILITY))
		return err;
	return execute(s, IB_WR_RDMA_READ, &s->data, 0, 8);
}

static int serve(struct session *s, unsigned int op, unsigned int seed)
{
	void *mem = ucb_mr_get_ptr(s->data.mr);

	switch (op) {
	case INTEROP_CHECK:
		return interop_equal(mem, seed) ? 0 : -EBADMSG;
	case INTEROP_FILL:
		interop_fill(mem, seed);
		return 0;
	case INTEROP_PULL:
		return pull(s, seed);
	case INTEROP_PUSH:
		return push(s, seed);
	default:
		return -EPROTO;
	}
}

static void serve_work(struct work_struct *work)
{
	struct session *s = container_of(work, struct session, work);
	const u8 *in = ucb_mr_get_ptr(s->msgs.mr);
	u8 *out = ucb_mr_get_ptr(s->msgs.mr) + MSG_OUT;
	u8 op = in[INTEROP_MSG_OP];
	u8 seed = in[INTEROP_MSG_SEED];
	int err;

	err = ucb_mr_remote_from_descriptor(in + INTEROP_MSG_DESC, UCB_MR_DESC_SIZE,
					    &s->theirs);
	if (!err && s->theirs.size != INTEROP_SIZE)
		err = -EPROTO;
	if (!err)
		err = post_recv(s, s->id->qp);
	if (!err)
		err = serve(s, op, seed);
	dev_info(s->dev, "endpoint: operation %u, seed %u: %d\n", op, seed, err);
	s->served++;
	if (err)
		fail(s, err, "operation");

	memcpy(out + INTEROP_MSG_DESC, s->data.desc, UCB_MR_DESC_SIZE);
	out[INTEROP_MSG_OP] = err ? INTEROP_NO : INTEROP_YES;
	out[INTEROP_MSG_SEED] = seed;
	err = execute(s, IB_WR_SEND, &s->msgs, MSG_OUT, INTEROP_MSG_LEN);
	/* a peer that has its last answer may go before we know that it has */
	if (err && err != -ECONNRESET)
		fail(s, err, "answer not sent");
}

static void fill_private(struct session *s, u8 *private)
{
	put_unaligned_le16(INTEROP_PRIVATE_LEN, private + INTEROP_PRIVATE_OFFSET);
	private[INTEROP_PRIVATE_MR] = UCB_MR_DESC_SIZE;
	memcpy(private + INTEROP_PRIVATE_DESC, s->data.desc, UCB_MR_DESC_SIZE);
}

static int make_qp(struct session *s, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		/* one of each in flight, and one for ib_drain_qp() */
		.cap = {
			.max_send_wr = 2,
			.max_recv_wr = 3,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	int err;

	err = ucb_create_qp(id, s->pd, &attr);
	if (err)
		return err;
	err = post_recv(s, id->qp);
	if (err)
		rdma_destroy_qp(id);
	return err;
}

/* A failure destroys @id: the CM does so when its handler returns an error. */
static int accept_peer(struct session *s, struct rdma_cm_id *id,
		       const struct rdma_conn_param *req)
{
	u8 private[INTEROP_PRIVATE_LEN] = {};
	struct rdma_conn_param param = {
		.private_data = private,
		.private_data_len = sizeof(private),
		.rnr_retry_count = 7,
	};
	int max = id->device->attrs.max_qp_rd_atom;
	int err;

	if (s->id || s->closing || id->device != s->listen->device) {
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
		return -EBUSY;
	}
	err = make_qp(s, id);
	if (err)
		return err;
	fill_private(s, private);
	param.responder_resources = min_t(int, req->responder_resources, max);
	param.initiator_depth = min_t(int, req->initiator_depth, max);
	/* the peer's first message can be here before rdma_accept() is back */
	s->id = id;
	err = rdma_accept(id, &param);
	if (err) {
		s->id = NULL;
		rdma_destroy_qp(id);
	}
	return err;
}

static int take_private(struct session *s, const struct rdma_conn_param *conn)
{
	const u8 *private = conn->private_data;

	if (conn->private_data_len < INTEROP_PRIVATE_LEN)
		return -EPROTO;
	return ucb_mr_remote_from_descriptor(private + INTEROP_PRIVATE_DESC,
					     private[INTEROP_PRIVATE_MR], &s->theirs);
}

static int cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct session *s = id->context;
	int err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		mutex_lock(&s->cm);
		err = accept_peer(s, id, &event->param.conn);
		mutex_unlock(&s->cm);
		return err;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (!s->listen && take_private(s, &event->param.conn))
			fail(s, -EPROTO, "no descriptor");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* the peer waits for the answer */
		rdma_disconnect(id);
		complete(&s->over);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		fail(s, event->status < 0 ? event->status : -ECONNABORTED,
		     rdma_event_msg(event->event));
		complete(&s->over);
		break;
	}
	s->last_event = event->event;
	complete(&s->event);
	/* the session destroys both ids */
	return 0;
}

static int wait_event_type(struct session *s, enum rdma_cm_event_type type)
{
	if (!wait_for_completion_timeout(&s->event, TIMEOUT))
		return -ETIMEDOUT;
	if (s->error)
		return s->error;
	return s->last_event == type ? 0 : -ECONNABORTED;
}

static int make_region(struct session *s, struct region *r, int access)
{
	int err;

	r->buf = ucb_buf_alloc(s->pool, GFP_KERNEL);
	if (!r->buf)
		return -ENOMEM;
	r->mr = ucb_mr_reg(s->pd, r->buf, access);
	if (IS_ERR(r->mr)) {
		err = PTR_ERR(r->mr);
		r->mr = NULL;
		return err;
	}
	err = ucb_mr_get_descriptor(r->mr, r->desc);
	return err ?: ucb_mr_remote_from_descriptor(r->desc, sizeof(r->desc), &r->self);
}

static void drop_region(struct session *s, struct region *r)
{
	if (r->mr && ucb_mr_dereg(&r->mr))
		fail(s, -EBUSY, "registration kept");
	if (r->buf && ucb_buf_free(r->buf))
		fail(s, -EBUSY, "buffer kept");
}

/* Return: how the session went. It is gone. */
int session_end(struct session *s)
{
	struct rdma_cm_id *id;
	int err;

	mutex_lock(&s->cm);
	s->closing = true;
	id = s->id;
	mutex_unlock(&s->cm);

	if (id && id->qp) {
		rdma_disconnect(id);
		ib_drain_qp(id->qp);
		cancel_work_sync(&s->work);
		rdma_destroy_qp(id);
	}
	if (id)
		rdma_destroy_id(id);
	if (!IS_ERR_OR_NULL(s->cq))
		ib_free_cq(s->cq);
	drop_region(s, &s->data);
	drop_region(s, &s->msgs);
	if (!IS_ERR_OR_NULL(s->pd))
		ucb_pd_put(s->pd);
	/* last: it holds the device */
	if (!IS_ERR_OR_NULL(s->listen))
		rdma_destroy_id(s->listen);
	err = s->error;
	kfree(s);
	return err;
}

static struct session *session_alloc(struct device *dev, struct ucb_pool *pool)
{
	struct session *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return NULL;
	s->dev = dev;
	s->pool = pool;
	mutex_init(&s->cm);
	s->cqe.done = wr_done;
	s->recv_cqe.done = msg_received;
	init_completion(&s->done);
	init_completion(&s->event);
	init_completion(&s->over);
	INIT_WORK(&s->work, serve_work);
	return s;
}

/* Everything that has a key, before there is a connection */
static int session_prepare(struct session *s, struct rdma_cm_id *id)
{
	int err;

	if (!id->device)
		return -EADDRNOTAVAIL;
	s->pd = ucb_pd_get(id->device, id->port_num);
	if (IS_ERR(s->pd))
		return PTR_ERR(s->pd);
	err = make_region(s, &s->data, IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE |
			  IB_ACCESS_LOCAL_WRITE);
	if (err)
		return err;
	err = make_region(s, &s->msgs, IB_ACCESS_LOCAL_WRITE);
	if (err)
		return err;
	s->cq = ib_alloc_cq(id->device, s, 8, 0, IB_POLL_WORKQUEUE);
	return PTR_ERR_OR_ZERO(s->cq);
}

static int listen_on(struct session *s, struct sockaddr *addr)
{
	int err;

	s->listen = rdma_create_id(&init_net, cm_event, s, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(s->listen))
		return PTR_ERR(s->listen);
	err = rdma_bind_addr(s->listen, addr);
	if (err)
		return err;
	err = session_prepare(s, s->listen);
	if (err)
		return err;
	interop_fill(ucb_mr_get_ptr(s->data.mr), INTEROP_SEED_FIRST);
	return rdma_listen(s->listen, 1);
}

static int connect_to(struct session *s, struct sockaddr *addr)
{
	u8 private[INTEROP_PRIVATE_LEN] = {};
	struct rdma_conn_param param = {
		.private_data = private,
		.private_data_len = sizeof(private),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_id *id;
	int err;

	id = rdma_create_id(&init_net, cm_event, s, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	s->id = id;
	err = rdma_resolve_addr(id, NULL, addr, CM_TIMEOUT_MS);
	if (!err)
		err = wait_event_type(s, RDMA_CM_EVENT_ADDR_RESOLVED);
	if (!err)
		err = rdma_resolve_route(id, CM_TIMEOUT_MS);
	if (!err)
		err = wait_event_type(s, RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (!err)
		err = session_prepare(s, id);
	if (!err)
		err = make_qp(s, id);
	if (err)
		return err;

	fill_private(s, private);
	err = rdma_connect(id, &param);
	if (!err)
		err = wait_event_type(s, RDMA_CM_EVENT_ESTABLISHED);
	if (err)
		return err;
	return s->theirs.size == INTEROP_SIZE ? 0 : -EPROTO;
}

static struct session *session_make(struct device *dev, struct ucb_pool *pool,
				    int (*start)(struct session *, struct sockaddr *),
				    struct sockaddr *addr)
{
	struct session *s = session_alloc(dev, pool);
	int err;

	if (!s)
		return ERR_PTR(-ENOMEM);
	err = start(s, addr);
	if (err) {
		session_end(s);
		return ERR_PTR(err);
	}
	return s;
}

struct session *session_listen(struct device *dev, struct ucb_pool *pool,
			       struct sockaddr *addr)
{
	return session_make(dev, pool, listen_on, addr);
}

int session_connected(struct session *s)
{
	return wait_event_type(s, RDMA_CM_EVENT_ESTABLISHED);
}

int session_wait(struct session *s)
{
	bool over = wait_for_completion_timeout(&s->over, TIMEOUT);
	int err;

	if (over && !s->error && !s->served)
		s->error = -ENODATA;
	err = session_end(s);
	return over ? err : -ETIMEDOUT;
}

struct session *session_connect(struct device *dev, struct ucb_pool *pool,
				struct sockaddr *addr)
{
	return session_make(dev, pool, connect_to, addr);
}

int session_work(struct session *s)
{
	int err = pull(s, INTEROP_SEED_FIRST) ?: push(s, INTEROP_SEED_LAST);
	int end = session_end(s);

	return err ?: end;
}
