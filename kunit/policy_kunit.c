// SPDX-License-Identifier: GPL-2.0
/*
 * Per-transfer keys on a connection's own queue pair, and mappings without one.
 * What goes to the device is counted in front of rxe's operations.
 */
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

static int hook_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
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

static struct ib_mr *hook_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 nr)
{
	atomic_inc(&hook.allocs);
	return hook.alloc_mr(pd, type, nr);
}

static int hook_dereg_mr(struct ib_mr *mr, struct ib_udata *udata)
{
	atomic_inc(&hook.deregs);
	return hook.dereg_mr(mr, udata);
}

static void unhook(void *data)
{
	rxe->ops.post_send = hook.post_send;
	rxe->ops.alloc_mr = hook.alloc_mr;
	rxe->ops.dereg_mr = hook.dereg_mr;
}

static void set_hook(struct kunit *test, struct ib_qp *qp)
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
static void link_drop(void *data)
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

static void link_recalled(struct ucb_mr *mr, void *priv, int error)
{
	struct link *l = the_link;

	/* priv is the address of the buffer's entry */
	if (*(struct ucb_mr **)priv != mr || (error && error != -ENOTCONN))
		return;
	atomic_inc(error ? &l->lost : &l->home);
	wake_up_all(&l->wait);
}

static void link_connect(struct kunit *test, struct link *l)
{
	l->peer->cap.max_send_wr = 128;
	l->peer->cap.max_recv_wr = 8;
	l->peer->cap.max_send_sge = 16;
	l->peer->cap.max_recv_sge = 16;
	l->peer->sig = IB_SIGNAL_REQ_WR;
	KUNIT_ASSERT_EQ(test, peer_connect(l->peer), 0);
}

static struct link *link_make(struct kunit *test, unsigned int nr, unsigned int keys)
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
static void link_end(struct kunit *test, struct link *l)
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
static void link_close(struct kunit *test, struct link *l)
{
	link_end(test, l);
	kunit_release_action(test, unhook, NULL);
	kunit_release_action(test, link_drop, l);
	kunit_release_action(test, peer_destroy, l->peer);
	drop_pool(test);
}

static void wait_home(struct kunit *test, struct link *l, int nr)
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

static void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->status = wc->status;
	complete(&op->done);
}

static void op_start(struct op *op)
{
	op->cqe.done = op_done;
	init_completion(&op->done);
}

static int op_wait(struct op *op)
{
	return wait_for_completion_timeout(&op->done, WAIT) ? op->status : -1;
}

static int far_recv(struct peer *peer, size_t length)
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
static struct ucb_mr_remote grant_with(struct kunit *test, struct ucb_mr *mr, size_t offset,
				       size_t length, int access, struct ib_send_wr *wr)
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

static struct ucb_mr_remote grant(struct kunit *test, struct ucb_mr *mr, size_t offset,
				  size_t length, int access)
{
	return grant_with(test, mr, offset, length, access, NULL);
}

/* The same; and the peer has had a message, so that the key is valid by now. */
static struct ucb_mr_remote grant_and_tell(struct kunit *test, struct link *l, size_t offset,
					   size_t length, int access)
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

/*
 * As a transfer goes: the key in front of the message that tells the peer of it,
 * the peer READs and WRITEs, the key is taken back and is dead.
 */
static void policy_transfer(struct kunit *test)
{
	static const struct {
		size_t offset;
		size_t length;
	} ranges[] = { { 0, SIZE }, { 512, 1 }, { 4095, 4098 }, { SIZE - 1, 1 } };
	struct link *l = link_make(test, 1, 2);
	struct peer *peer = l->peer;
	struct ucb_mr *mr = l->mr[0];
	u8 *mem = ucb_buf_addr(l->buf[0]);
	struct ucb_mr_remote remote;
	u8 desc[UCB_MR_DESC_SIZE];
	struct op op;
	u64 dma;
	u8 *note;
	int i;

	KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENOENT);
	note = kunit_kzalloc(test, sizeof(desc), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, note);
	dma = ib_dma_map_single(rxe, note, sizeof(desc), DMA_TO_DEVICE);

	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].offset;
		size_t length = ranges[i].length;
		struct ib_sge sge = {
			.addr = dma,
			.length = sizeof(desc),
			.lkey = peer->near_pd->local_dma_lkey,
		};
		struct ib_send_wr wr = {
			.wr_cqe = &op.cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		};

		memset(mem, CANARY, SIZE);
		get_random_bytes(mem + at, length);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(mr, at, length, RD | WR), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor(mr, note), 0);
		KUNIT_ASSERT_EQ(test, far_recv(peer, sizeof(desc)), 0);
		op_start(&op);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(mr, &wr, NULL), 0);
		KUNIT_ASSERT_EQ(test, op_wait(&op), OK);
		KUNIT_ASSERT_EQ(test, peer_wait(peer), OK);
		KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(peer->mem, sizeof(desc),
								    &remote), 0);
		KUNIT_EXPECT_EQ(test, remote.size, length);
		KUNIT_EXPECT_LT(test, remote.addr, PAGE_SIZE);

		KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, length), OK);
		KUNIT_EXPECT_EQ(test, memcmp(peer->mem, mem + at, length), 0);
		get_random_bytes(peer->mem, length);
		KUNIT_EXPECT_EQ(test, peer_write(peer, remote.addr, remote.rkey, length), OK);
		KUNIT_EXPECT_EQ(test, memcmp(peer->mem, mem + at, length), 0);
		KUNIT_EXPECT_NULL(test, memchr_inv(mem, CANARY, at));
		KUNIT_EXPECT_NULL(test, memchr_inv(mem + at + length, CANARY,
						   SIZE - at - length));

		KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, i & 1), 0);
		wait_home(test, l, i + 1);
	}
	ib_dma_unmap_single(rxe, dma, sizeof(desc), DMA_TO_DEVICE);
	/* one REG_MR and one LOCAL_INV each */
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.reg), i);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.inv), i);
	/* the last key is dead */
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENOENT);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, 1), REFUSED);
	link_end(test, l);
}

/* Not one byte more than was granted, on either side, nor in another way. */
static void policy_exact(struct kunit *test)
{
	static const struct {
		int access;
		enum ib_wr_opcode opcode;
		int from;	/* the start, in bytes from the granted one */
		int more;	/* and the length */
	} tries[] = {
		{ RD | WR, IB_WR_RDMA_READ, 0, 1 },
		{ RD | WR, IB_WR_RDMA_WRITE, 0, 1 },
		{ RD | WR, IB_WR_RDMA_READ, -1, 0 },
		{ RD | WR, IB_WR_RDMA_WRITE, -1, 0 },
		{ RD, IB_WR_RDMA_WRITE, 0, 0 },
		{ WR, IB_WR_RDMA_READ, 0, 0 },
		{ LOCAL, IB_WR_RDMA_READ, 0, 0 },
	};
	const size_t at = 1000;
	const size_t length = 5000;
	struct ucb_mr_remote remote;
	struct link *l;
	u8 *mem;
	int i;

	for (i = 0; i < ARRAY_SIZE(tries); i++) {
		l = link_make(test, 1, 1);
		mem = ucb_buf_addr(l->buf[0]);
		memset(mem, CANARY, SIZE);
		memset(l->peer->mem, 0x11, SIZE);
		remote = grant_and_tell(test, l, at, length, tries[i].access);
		KUNIT_EXPECT_EQ_MSG(test, peer_op(l->peer, tries[i].opcode,
						  remote.addr + tries[i].from, remote.rkey,
						  length + tries[i].more), REFUSED,
				    "row %d", i);
		KUNIT_EXPECT_NULL(test, memchr_inv(mem, CANARY, SIZE));
		KUNIT_EXPECT_NULL(test, memchr_inv(l->peer->mem, 0x11, SIZE));
		/* that has cost the connection, and with it the key */
		ucb_qp_drain(l->uqp);
		link_close(test, l);
	}
}

/*
 * No allocation, and no completion but one for each batch: of 16, or of what there
 * is half a millisecond after the first. MRs that a peer could reach are destroyed
 * by a soft device, so these cannot be.
 */
static void policy_counts(struct kunit *test)
{
	const int rounds = 40;
	struct link *l = link_make(test, NR_BUFS, NR_KEYS);
	int allocs = atomic_read(&hook.allocs);
	int signaled;
	ktime_t start;
	int late;
	int i;
	int r;

	KUNIT_EXPECT_EQ(test, allocs, NR_KEYS);
	start = ktime_get();
	for (r = 0; r < rounds; r++) {
		for (i = 0; i < NR_BUFS; i++)
			grant(test, l->mr[i], 0, SIZE, LOCAL);
		for (i = 0; i < NR_BUFS; i++)
			KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[i], false), 0);
		wait_home(test, l, (r + 1) * NR_BUFS);
	}
	late = ktime_us_delta(ktime_get(), start) / 500;
	signaled = atomic_read(&hook.signaled);
	kunit_info(test, "%d transfers, %d completions, %d batches of 16", rounds * NR_BUFS,
		   signaled, atomic_read(&hook.full));
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.reg), rounds * NR_BUFS);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.inv), rounds * NR_BUFS);
	/* the last of each batch alone */
	KUNIT_EXPECT_EQ(test, signaled, atomic_read(&hook.chains));
	KUNIT_EXPECT_GE(test, signaled, rounds * NR_BUFS / 16);
	KUNIT_EXPECT_LE(test, signaled, rounds * NR_BUFS / 16 + late);
	/* however slow all is, some had company */
	KUNIT_EXPECT_LT(test, signaled, rounds * NR_BUFS);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.allocs), allocs);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.deregs), 0);
	link_end(test, l);
}

/* A key out, or on its way back: the buffer is nobody else's. */
static void policy_busy(struct kunit *test)
{
	struct link *l = link_make(test, 1, 2);
	struct ucb_mr *mr = l->mr[0];
	int posted;

	for (posted = 0; posted < 2; posted++) {
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(mr, 0, SIZE, RD), 0);
		if (posted)
			KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant(mr, 0, SIZE, RD), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr[0]), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf[0]), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), -EBUSY);
		if (posted)
			KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), -EINVAL);

		KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, posted), 0);
		wait_home(test, l, posted + 1);
		KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, true), -EINVAL);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), -EINVAL);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf[0]), -EBUSY);
	}
	/* what the device never heard of need not be taken back from it */
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.reg), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.inv), 1);
	link_end(test, l);
}

/* As long as the device does not answer, the buffer is busy. */
static void policy_busy_till_done(struct kunit *test)
{
	struct link *l = link_make(test, 1, 2);
	struct ucb_mr *mr = l->mr[0];

	grant(test, mr, 0, SIZE, LOCAL);
	WRITE_ONCE(hook.fail, -ENOMEM);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, true), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, true), -EALREADY);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(mr, 0, SIZE, LOCAL), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr[0]), -EBUSY);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->home), 0);
	/* a full queue is no failure: it is tried again */
	WRITE_ONCE(hook.fail, 0);
	wait_home(test, l, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.inv), 1);

	/* nor for a grant, which can be repeated or given up */
	KUNIT_ASSERT_EQ(test, ucb_mr_grant(mr, 0, SIZE, LOCAL), 0);
	WRITE_ONCE(hook.fail, -ENOMEM);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), -ENOMEM);
	WRITE_ONCE(hook.fail, 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, true), 0);
	wait_home(test, l, 2);
	link_end(test, l);
}

static void policy_refuse(struct kunit *test)
{
	static const struct {
		size_t offset;
		size_t length;
		int access;
		int error;
	} bad[] = {
		{ 0, 0, RD, -EINVAL },
		{ 0, SIZE, IB_ACCESS_REMOTE_WRITE, -EINVAL },
		{ 0, SIZE, IB_ACCESS_REMOTE_ATOMIC | LOCAL, -EINVAL },
		{ 0, SIZE, -1, -EINVAL },
		{ 0, SIZE + 1, RD, -ERANGE },
		{ 1, SIZE, RD, -ERANGE },
		{ SIZE, 1, RD, -ERANGE },
		{ SIZE_MAX, 2, RD, -ERANGE },
		{ 1, SIZE_MAX, RD, -ERANGE },
	};
	struct ucb_qp_attr attr = { .keys = 1, .length = SIZE };
	struct link *l = link_make(test, 3, 2);
	struct fixture *f = test->priv;
	struct ucb_buf *buf = make_buf(test);
	struct ucb_mr *mr;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test, ucb_mr_grant(l->mr[0], bad[i].offset, bad[i].length,
						       bad[i].access), bad[i].error, "row %d", i);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(NULL, 0, 1, RD), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(NULL, NULL, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(NULL, true), -EINVAL);
	/* a registration has its key for good */
	mr = make_mr(test, buf, RD);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(mr, 0, 1, RD), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(mr, NULL, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(mr, true), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	/* the device may not write it, so no peer may */
	mr = ucb_mr_map(l->uqp, buf, 0, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(mr, 0, 1, WR), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_map(NULL, l->buf[0], 0, NULL)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_map(l->uqp, NULL, 0, NULL)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_map(l->uqp, l->buf[0], RD, NULL)), -EINVAL);

	/* as many as were asked for */
	grant(test, l->mr[0], 0, SIZE, LOCAL);
	grant(test, l->mr[1], 0, SIZE, LOCAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[2], 0, SIZE, LOCAL), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[0], true), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[1], true), 0);
	wait_home(test, l, 2);

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(NULL, l->peer->near, &attr)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(f->pd, NULL, &attr)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(f->pd, l->peer->near, NULL)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(f->pd, l->peer->far, &attr)), -EINVAL);
	attr.length = 0;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(f->pd, l->peer->near, &attr)), -EINVAL);
	attr.length = (size_t)rxe->attrs.max_fast_reg_page_list_len * PAGE_SIZE + 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_qp_attach(f->pd, l->peer->near, &attr)), -E2BIG);
	KUNIT_EXPECT_EQ(test, ucb_qp_detach(NULL), 0);
	link_end(test, l);
}

/* Keys are never had twice; an MR has 256, and then there is another. */
static void policy_keys_rotate(struct kunit *test)
{
	const int cycles = 600;
	struct link *l = link_make(test, 1, 1);
	u32 *keys = kunit_kcalloc(test, cycles, sizeof(*keys), GFP_KERNEL);
	int i;
	int j;

	KUNIT_ASSERT_NOT_NULL(test, keys);
	for (i = 0; i < cycles; i++) {
		keys[i] = grant(test, l->mr[0], 0, SIZE, LOCAL).rkey;
		KUNIT_EXPECT_EQ(test, ucb_mr_get_rkey(l->mr[0]), keys[i]);
		KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[0], true), 0);
		wait_home(test, l, i + 1);
		for (j = 0; j < i; j++)
			KUNIT_ASSERT_NE(test, keys[j], keys[i]);
	}
	/* the first, and one for each that had all its keys */
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.allocs), 1 + cycles / 256);
	link_end(test, l);
}

static void fail_near(struct kunit *test, struct link *l)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	KUNIT_ASSERT_EQ(test, ib_modify_qp(l->peer->near, &attr, IB_QP_STATE), 0);
}

/* The connection fails, with keys in each of their states. */
static void policy_qp_error(struct kunit *test)
{
	struct link *l = link_make(test, 4, 8);
	struct ucb_mr *late;
	int i;

	for (i = 1; i < 4; i++)
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr[i], 0, SIZE, RD | WR), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr[2], NULL, NULL), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr[3], NULL, NULL), 0);
	/* all posted are executed: what fails is what comes behind them */
	grant_and_tell(test, l, 0, SIZE, RD);
	fail_near(test, l);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[3], true), 0);

	/* the flushed invalidation tells */
	KUNIT_ASSERT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->lost) == 1, WAIT), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->home), 0);
	ucb_qp_drain(l->uqp);
	/* not one MR is used again */
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.deregs), 8);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[i], 0, SIZE, RD), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr[i], NULL, NULL), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[i], true), -ENOTCONN);
	}
	late = ucb_mr_map(l->uqp, l->buf[0], 0, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(late), -ENOTCONN);
	link_end(test, l);
}

/*
 * The connection fails before, between and behind the calls of one transfer, and
 * the bridge learns of it by what it posts next. On a fake device each state is in
 * lent_kunit.c.
 */
static void policy_qp_error_between(struct kunit *test)
{
	enum { MAPPED, GRANTED, POSTED, RECALLED, NR_STATES } state;
	struct link *l;

	for (state = MAPPED; state < NR_STATES; state++) {
		l = link_make(test, 1, 1);
		if (state > MAPPED)
			KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr[0], 0, SIZE, RD), 0);
		if (state > GRANTED)
			KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr[0], NULL, NULL), 0);
		if (state > POSTED)
			KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[0], false), 0);
		fail_near(test, l);
		if (state == MAPPED)
			KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[0], 0, SIZE, RD), 0);
		if (state <= GRANTED)
			KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr[0], NULL, NULL), 0);
		if (state == RECALLED)
			KUNIT_ASSERT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->home) +
								 atomic_read(&l->lost), WAIT), 0);
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[0], 0, 1, RD), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr[0], NULL, NULL), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[0], true), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->home) + atomic_read(&l->lost),
				state == RECALLED);
		link_close(test, l);
	}
}

/* A work request that the device refuses ends the connection, too. */
static void policy_post_fails(struct kunit *test)
{
	struct link *l = link_make(test, 1, 1);

	grant(test, l->mr[0], 0, SIZE, RD);
	WRITE_ONCE(hook.fail, -EIO);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr[0], true), 0);
	WRITE_ONCE(hook.fail, 0);
	KUNIT_ASSERT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->lost) == 1, WAIT), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[0], 0, SIZE, RD), -ENOTCONN);
	link_end(test, l);
}

/*
 * A peer that takes no message: what is on its connection waits for it, with the
 * completion of a key's end. What is registered for good does not, for the domain
 * has a queue pair of its own. And the connection can be ended.
 */
static void policy_stuck_peer(struct kunit *test)
{
	struct link *l = link_make(test, 2, 1);
	struct ucb_buf *buf = make_buf(test);
	struct ucb_mr *mr;
	ktime_t start;
	struct op op;

	grant(test, l->mr[0], 0, SIZE, RD);
	op_start(&op);
	KUNIT_ASSERT_EQ(test, ucb_post_send(l->peer->near, &op.cqe, l->mr[1], 0, 8,
					    IB_SEND_SIGNALED), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[0], true), 0);

	mr = make_mr(test, buf, RD);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	KUNIT_EXPECT_FALSE(test, completion_done(&op.done));
	KUNIT_EXPECT_EQ(test, atomic_read(&l->home), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr[0], 0, SIZE, RD), -EBUSY);

	start = ktime_get();
	ucb_qp_drain(l->uqp);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 10000);
	KUNIT_EXPECT_EQ(test, op_wait(&op), IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->lost), 1);
	link_end(test, l);
}

/* C21, per transfer: taken back in the middle of a READ, and filled anew */
static void policy_in_flight(struct kunit *test)
{
	const int cycles = 30;
	struct ucb_mr_remote remote;
	unsigned int refused = 0;
	struct link *l = NULL;
	int status;
	u8 *mem;
	int i;

	for (i = 0; i < cycles; i++) {
		if (!l)
			l = link_make(test, 1, 1);
		atomic_set(&l->home, 0);
		mem = ucb_buf_addr(l->buf[0]);
		memset(mem, 0x11, SIZE);
		memset(l->peer->mem, 0x22, SIZE);
		remote = grant_and_tell(test, l, 0, SIZE, RD);
		KUNIT_ASSERT_EQ(test, peer_post(l->peer, IB_WR_RDMA_READ, remote.addr,
						remote.rkey, SIZE), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[0], true), 0);
		KUNIT_ASSERT_NE(test,
				wait_event_timeout(l->wait, atomic_read(&l->home) +
						   atomic_read(&l->lost), WAIT), 0);
		memset(mem, CANARY, SIZE);
		status = peer_wait(l->peer);
		KUNIT_ASSERT_NULL(test, memchr(l->peer->mem, CANARY, SIZE));
		if (status == OK)
			continue;
		KUNIT_EXPECT_EQ(test, status, REFUSED);
		refused++;
		ucb_qp_drain(l->uqp);
		link_close(test, l);
		l = NULL;
	}
	kunit_info(test, "%u of %d refused", refused, cycles);
	if (l)
		link_end(test, l);
}

/* The pool goes, with keys out and in the middle of READs. */
static void policy_revoke(struct kunit *test)
{
	struct ucb_mr_remote remote;
	struct link *l = link_make(test, 3, 4);
	ktime_t start;
	int i;

	remote = grant_and_tell(test, l, 0, SIZE, RD);
	grant(test, l->mr[1], 0, SIZE, WR);
	KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr[2], 0, SIZE, RD), 0);
	KUNIT_ASSERT_EQ(test, peer_post(l->peer, IB_WR_RDMA_READ, remote.addr, remote.rkey,
					SIZE), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr[1], false), 0);
	start = ktime_get();
	drop_pool(test);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 10000);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_LT(test, ucb_mr_grant(l->mr[i], 0, SIZE, RD), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr[i]), 0);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf[i]), -ENODEV);
		l->buf[i] = NULL;
	}
	KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), 0);
	l->uqp = NULL;
	KUNIT_EXPECT_EQ(test, atomic_read(&hook.allocs), atomic_read(&hook.deregs));
}

/* A queue pair that was never connected, or that nothing was mapped for */
static void policy_attach_only(struct kunit *test)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	const struct ucb_qp_attr attr = { .keys = 2, .length = 1 };
	struct fixture *f = test->priv;
	struct peer *peer = make_peer(test, PAGE_SIZE);
	struct ucb_qp *uqp;
	struct ib_pd *ibpd;
	struct ucb_pd *pd;
	struct ib_qp *qp;

	init.send_cq = peer->cq;
	init.recv_cq = peer->cq;
	qp = ib_create_qp(ucb_pd_ib(f->pd), &init);
	KUNIT_ASSERT_FALSE(test, IS_ERR(qp));
	uqp = ucb_qp_attach(f->pd, qp, &attr);
	KUNIT_ASSERT_FALSE(test, IS_ERR(uqp));
	KUNIT_EXPECT_EQ(test, ucb_qp_detach(uqp), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);

	/* it keeps an attached PD as a registration does */
	ibpd = ib_alloc_pd(rxe, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
	pd = ucb_pd_attach(ibpd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	qp = ib_create_qp(ibpd, &init);
	KUNIT_ASSERT_FALSE(test, IS_ERR(qp));
	uqp = ucb_qp_attach(pd, qp, &attr);
	KUNIT_ASSERT_FALSE(test, IS_ERR(uqp));
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_qp_detach(uqp), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(pd), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ibpd->usecnt), 0);
	ib_dealloc_pd(ibpd);
}

static void not_iwarp(void *unused)
{
	rxe->port_data[1].immutable.core_cap_flags &= ~RDMA_CORE_CAP_PROT_IWARP;
}

/* A mapping as it is: all posts, by a key that the peer never sees */
static void policy_mapping(struct kunit *test)
{
	struct link *l = link_make(test, 2, 0);
	struct peer *peer = l->peer;
	struct ucb_mr *mr = l->mr[0];
	u8 *mem = ucb_buf_addr(l->buf[0]);
	struct ucb_buf *far_buf;
	struct ucb_mr_remote remote;
	struct ucb_pd *far_pd;
	struct peer *second;
	struct ucb_mr *far;
	u8 *far_mem;
	struct op op;

	far_pd = ucb_pd_attach(peer->pd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(far_pd));
	far_buf = make_buf(test);
	far_mem = ucb_buf_addr(far_buf);
	far = ucb_mr_reg(far_pd, far_buf, RD | WR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(far));
	remote = remote_of(test, far);

	get_random_bytes(mem, SIZE);
	KUNIT_ASSERT_EQ(test, far_recv(peer, SIZE), 0);
	op_start(&op);
	KUNIT_ASSERT_EQ(test, ucb_post_send(peer->near, &op.cqe, mr, 1, SIZE - 2,
					    IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, op_wait(&op), OK);
	KUNIT_EXPECT_EQ(test, peer_wait(peer), OK);
	KUNIT_EXPECT_EQ(test, memcmp(peer->mem, mem + 1, SIZE - 2), 0);

	op_start(&op);
	KUNIT_ASSERT_EQ(test, ucb_post_write(peer->near, &op.cqe, mr, 0, &remote, 0, SIZE,
					     IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, op_wait(&op), OK);
	KUNIT_EXPECT_EQ(test, memcmp(far_mem, mem, SIZE), 0);

	get_random_bytes(far_mem, SIZE);
	memset(mem, CANARY, SIZE);
	op_start(&op);
	KUNIT_ASSERT_EQ(test, ucb_post_read(peer->near, &op.cqe, mr, 4000, &remote, 5, 5000,
					    IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, op_wait(&op), OK);
	KUNIT_EXPECT_EQ(test, memcmp(mem + 4000, far_mem + 5, 5000), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, CANARY, 4000));
	KUNIT_EXPECT_NULL(test, memchr_inv(mem + 9000, CANARY, SIZE - 9000));

	/* of this connection only, on whose end others depend; never told to a peer */
	KUNIT_EXPECT_EQ(test, ucb_post_send(peer->far, NULL, mr, 0, 1, 0), -EINVAL);
	second = make_peer(test, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ucb_post_send(second->near, &peer->cqe, mr, 0, 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(mr, 0, 1, RD), -ENOBUFS);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_rkey(mr), 0);
	rxe->port_data[1].immutable.core_cap_flags |= RDMA_CORE_CAP_PROT_IWARP;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, not_iwarp, NULL), 0);
	KUNIT_EXPECT_EQ(test, ucb_post_read(peer->near, NULL, mr, 0, &remote, 0, 8, 0), -EACCES);
	kunit_release_action(test, not_iwarp, NULL);

	KUNIT_EXPECT_EQ(test, atomic_read(&hook.reg), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&far), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(far_buf), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(far_pd), 0);
	link_end(test, l);
}

static struct kunit_case policy_cases[] = {
	KUNIT_CASE_PARAM(policy_transfer, controller_gen_params),
	KUNIT_CASE_PARAM(policy_exact, controller_gen_params),
	KUNIT_CASE(policy_counts),
	KUNIT_CASE(policy_busy),
	KUNIT_CASE(policy_busy_till_done),
	KUNIT_CASE(policy_refuse),
	KUNIT_CASE(policy_keys_rotate),
	KUNIT_CASE_PARAM(policy_qp_error, controller_gen_params),
	KUNIT_CASE(policy_qp_error_between),
	KUNIT_CASE(policy_post_fails),
	KUNIT_CASE(policy_stuck_peer),
	KUNIT_CASE_PARAM(policy_in_flight, controller_gen_params),
	KUNIT_CASE_PARAM(policy_revoke, controller_gen_params),
	KUNIT_CASE(policy_attach_only),
	KUNIT_CASE_PARAM(policy_mapping, controller_gen_params),
	{}
};

static struct kunit_suite policy_suite = {
	.name = "ucb_policy",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = policy_cases,
};

kunit_test_suite(policy_suite);

MODULE_DESCRIPTION("KUnit: per-transfer keys");
MODULE_LICENSE("GPL");
