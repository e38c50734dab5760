/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection with its near end lent, for the suites of per-transfer keys. What
 * goes to the device is counted in front of rxe's operations.
 */
#ifndef _UCB_KUNIT_LINK_H
#define _UCB_KUNIT_LINK_H

#include <linux/wait.h>

#include "mr_fixture.h"

#define SIZE		(4 * PAGE_SIZE)
#define NR_BUFS		16
#define NR_KEYS		32
#define CANARY		0xc5
#define WAIT		(30 * HZ)
#define LOCAL		IB_ACCESS_LOCAL_WRITE

/*
 * What is posted on @qp, and MRs made and destroyed on the device.
 *
 * @signaled: REG_MR and LOCAL_INV work requests that tell of their completion
 * @chains: posts with a LOCAL_INV; @full: those of 16
 * @fail: posts on @qp that start with one of these two fail with this
 */
static struct {
	typeof_member(struct ib_device, ops.post_send) post_send;
	typeof_member(struct ib_device, ops.alloc_mr) alloc_mr;
	typeof_member(struct ib_device, ops.dereg_mr) dereg_mr;
	struct ib_qp *qp;
	atomic_t reg;
	atomic_t inv;
	atomic_t signaled;
	atomic_t chains;
	atomic_t full;
	atomic_t allocs;
	atomic_t deregs;
	int fail;
} hook;

static inline int hook_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
				 const struct ib_send_wr **bad)
{
	const struct ib_send_wr *w;
	int inv = 0;

	if (qp != hook.qp)
		return hook.post_send(qp, wr, bad);
	if (READ_ONCE(hook.fail) &&
	    (wr->opcode == IB_WR_REG_MR || wr->opcode == IB_WR_LOCAL_INV)) {
		*bad = wr;
		return hook.fail;
	}
	for (w = wr; w; w = w->next) {
		if (w->opcode == IB_WR_REG_MR)
			atomic_inc(&hook.reg);
		else if (w->opcode == IB_WR_LOCAL_INV)
			inv++;
		else
			continue;
		if (w->send_flags & IB_SEND_SIGNALED)
			atomic_inc(&hook.signaled);
	}
	atomic_add(inv, &hook.inv);
	if (inv)
		atomic_inc(&hook.chains);
	if (inv == 16)
		atomic_inc(&hook.full);
	return hook.post_send(qp, wr, bad);
}

static inline struct ib_mr *hook_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 nr)
{
	atomic_inc(&hook.allocs);
	return hook.alloc_mr(pd, type, nr);
}

static inline int hook_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	atomic_inc(&hook.deregs);
	return hook.dereg_mr(mr, udata);
}

static inline void unhook(void *data)
{
	rxe->ops.post_send = hook.post_send;
	rxe->ops.alloc_mr = hook.alloc_mr;
	rxe->ops.dereg_mr = hook.dereg_mr;
}

static inline void set_hook(struct kunit *test, struct ib_qp *qp)
{
	memset(&hook, 0, sizeof(hook));
	hook.qp = qp;
	hook.post_send = rxe->ops.post_send;
	hook.alloc_mr = rxe->ops.alloc_mr;
	hook.dereg_mr = rxe->ops.dereg_mr;
	rxe->ops.post_send = hook_post_send;
	rxe->ops.alloc_mr = hook_alloc_mr;
	rxe->ops.dereg_mr = hook_dereg_mr;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unhook, NULL), 0);
}

/*
 * A connection with its near end lent, and mappings of buffers.
 *
 * @home: recalls that are over; @lost: those that ended with the connection
 */
struct link {
	struct peer *peer;
	struct ucb_qp *uqp;
	struct ucb_buf *buf[NR_BUFS];
	struct ucb_mr *mr[NR_BUFS];
	unsigned int nr;
	atomic_t home;
	atomic_t lost;
	wait_queue_head_t wait;
};

static struct link *the_link;

/* What is left when the case ends; the pool may have gone. */
static inline void link_drop(void *data)
{
	struct link *l = data;
	unsigned int i;

	if (l->uqp)
		ucb_qp_drain(l->uqp);
	for (i = 0; i < l->nr; i++) {
		if (l->mr[i])
			ucb_mr_dereg(&l->mr[i]);
		if (l->buf[i])
			ucb_buf_free(l->buf[i]);
	}
	ucb_qp_detach(l->uqp);
	l->uqp = NULL;
}

static inline void link_recalled(struct ucb_mr *mr, void *priv, int error)
{
	struct link *l = the_link;

	/* priv is the address of the buffer's entry */
	if (*(struct ucb_mr **)priv != mr || (error && error != -ENOTCONN))
		return;
	atomic_inc(error ? &l->lost : &l->home);
	wake_up_all(&l->wait);
}

static inline void link_connect(struct kunit *test, struct link *l)
{
	l->peer->cap.max_send_wr = 128;
	l->peer->cap.max_recv_wr = 8;
	l->peer->cap.max_send_sge = 16;
	l->peer->cap.max_recv_sge = 16;
	l->peer->sig = IB_SIGNAL_REQ_WR;
	KUNIT_ASSERT_EQ(test, peer_connect(l->peer), 0);
}

static inline struct link *link_make(struct kunit *test, unsigned int nr, unsigned int keys)
{
	const struct ucb_qp_attr attr = {
		.keys = keys,
		.length = SIZE,
		.recalled = link_recalled,
	};
	struct fixture *f = test->priv;
	struct link *l;
	unsigned int i;

	l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, l);
	the_link = l;
	init_waitqueue_head(&l->wait);
	l->peer = make_peer(test, SIZE);
	link_connect(test, l);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, link_drop, l), 0);
	make_pool(test, SIZE, UCB_POOL_RDMA);
	set_hook(test, l->peer->near);

	l->uqp = ucb_qp_attach(f->pd, l->peer->near, &attr);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(l->uqp), "attach: %ld", PTR_ERR(l->uqp));
	for (i = 0; i < nr; i++) {
		l->buf[i] = make_buf(test);
		l->mr[i] = ucb_mr_map(l->uqp, l->buf[i], LOCAL, &l->mr[i]);
		KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(l->mr[i]), "map: %ld",
				       PTR_ERR(l->mr[i]));
		l->nr++;
	}
	return l;
}

/* The owner gives all up, in order. */
static inline void link_end(struct kunit *test, struct link *l)
{
	unsigned int i;

	for (i = 0; i < l->nr; i++) {
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr[i]), 0);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf[i]), 0);
		l->buf[i] = NULL;
	}
	l->nr = 0;
	KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), 0);
	l->uqp = NULL;
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.allocs), atomic_read(&hook.deregs));
}

/* The same, and the connection: for a case that loses one after the other. */
static inline void link_close(struct kunit *test, struct link *l)
{
	link_end(test, l);
	kunit_release_action(test, unhook, NULL);
	kunit_release_action(test, link_drop, l);
	kunit_release_action(test, peer_destroy, l->peer);
	drop_pool(test);
}

static inline void wait_home(struct kunit *test, struct link *l, int nr)
{
	KUNIT_ASSERT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->home) == nr, WAIT),
			0);
}

/* one work request of the near end's own */
struct op {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static inline void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->status = wc->status;
	complete(&op->done);
}

static inline void op_start(struct op *op)
{
	op->cqe.done = op_done;
	init_completion(&op->done);
}

static inline int op_wait(struct op *op)
{
	return wait_for_completion_timeout(&op->done, WAIT) ? op->status : -1;
}

static inline int far_recv(struct peer *peer, size_t length)
{
	struct ib_sge sge = {
		.addr = peer->dma,
		.length = length,
		.lkey = peer->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &peer->cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	reinit_completion(&peer->done);
	return ib_post_recv(peer->far, &wr, NULL);
}

/* Give a key, and post @wr behind it. */
static inline struct ucb_mr_remote grant_with(struct kunit *test, struct ucb_mr *mr,
					      size_t offset, size_t length, int access,
					      struct ib_send_wr *wr)
{
	struct ucb_mr_remote remote = {};
	u8 desc[UCB_MR_DESC_SIZE];

	KUNIT_ASSERT_EQ(test, ucb_mr_grant(mr, offset, length, access), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(mr, wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_size(mr), SIZE);
	KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor(mr, desc), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
							    &remote), 0);
	KUNIT_EXPECT_EQ(test, remote.size, length);
	KUNIT_EXPECT_LT(test, remote.addr, PAGE_SIZE);
	return remote;
}

static inline struct ucb_mr_remote grant(struct kunit *test, struct ucb_mr *mr, size_t offset,
					 size_t length, int access)
{
	return grant_with(test, mr, offset, length, access, NULL);
}

/* The same; and the peer has had a message, so that the key is valid by now. */
static inline struct ucb_mr_remote grant_and_tell(struct kunit *test, struct link *l,
						  size_t offset, size_t length, int access)
{
	struct op op;
	struct ib_send_wr wr = {
		.wr_cqe = &op.cqe,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ucb_mr_remote remote;

	op_start(&op);
	KUNIT_ASSERT_EQ(test, far_recv(l->peer, 0), 0);
	remote = grant_with(test, l->mr[0], offset, length, access, &wr);
	KUNIT_ASSERT_EQ(test, op_wait(&op), OK);
	KUNIT_ASSERT_EQ(test, peer_wait(l->peer), OK);
	return remote;
}

#endif /* _UCB_KUNIT_LINK_H */
