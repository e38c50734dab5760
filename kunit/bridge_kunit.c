// SPDX-License-Identifier: GPL-2.0
/*
 * The bridge on an RDMA device that fails, falls silent, maps a part, and with a
 * peer that kills keys.
 *
 * Needs a device that isolates, named rxe0, and a USB device on an xHCI
 * controller. The registration queue pair is nobody's to see: a case that is
 * after it looks for it among the device's operations.
 */
#include <linux/ktime.h>
#include <linux/module.h>

#include "bridge.h"

/*
 * In front of rxe0's operations, for one case.
 *
 * @rqp: the last registration queue pair made: ours has an event handler, the
 *	peers' have none; @made: how many
 * @swallow: what is posted on @rqp is lost
 * @shorten: mappings lose their last entry, or with @shorten_entry a page of it
 */
static struct {
	typeof_member(struct ib_device, ops.create_qp) create_qp;
	typeof_member(struct ib_device, ops.post_send) post_send;
	typeof_member(struct ib_device, ops.map_mr_sg) map_mr_sg;
	struct ib_qp *rqp;
	unsigned int made;
	bool swallow;
	bool shorten;
	bool shorten_entry;
} hook;

static int hook_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr,
			  struct ib_udata *udata)
{
	int err = hook.create_qp(qp, attr, udata);

	if (!err && attr->event_handler) {
		hook.rqp = qp;
		hook.made++;
	}
	return err;
}

static int hook_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			  const struct ib_send_wr **bad)
{
	if (hook.swallow && qp == hook.rqp)
		return 0;
	return hook.post_send(qp, wr, bad);
}

static int hook_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents,
			  unsigned int *offset)
{
	int n = hook.map_mr_sg(mr, sg, nents, offset);

	if (hook.shorten)
		return n - 1;
	if (hook.shorten_entry)
		mr->length -= PAGE_SIZE;
	return n;
}

static void unhook(void *data)
{
	struct ib_device *ibdev = data;

	ibdev->ops.create_qp = hook.create_qp;
	ibdev->ops.post_send = hook.post_send;
	ibdev->ops.map_mr_sg = hook.map_mr_sg;
}

static void set_hook(struct kunit *test)
{
	struct fixture *f = test->priv;

	memset(&hook, 0, sizeof(hook));
	hook.create_qp = f->rxe->ops.create_qp;
	hook.post_send = f->rxe->ops.post_send;
	hook.map_mr_sg = f->rxe->ops.map_mr_sg;
	f->rxe->ops.create_qp = hook_create_qp;
	f->rxe->ops.post_send = hook_post_send;
	f->rxe->ops.map_mr_sg = hook_map_mr_sg;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unhook, f->rxe), 0);
}

static void fail_rqp(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	KUNIT_ASSERT_NOT_NULL(test, hook.rqp);
	KUNIT_ASSERT_EQ(test, ib_modify_qp(hook.rqp, &attr, IB_QP_STATE), 0);
}

/* The registration queue pair fails: the next call has another, MRs stay valid. */
static void bridge_rqp_fails(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf[3];
	struct ucb_mr *mr[3];
	struct peer *peer;
	struct ucb_pd *pd;
	int i;

	set_hook(test);
	pd = make_pd(test, f->rxe);
	KUNIT_ASSERT_EQ(test, hook.made, 1);
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = make_buf(test);
	peer = peer_create(test, f->rxe, ucb_pd_ib(pd), SZ_64K);

	mr[0] = make_mr(test, pd, buf[0], RD);
	mr[1] = make_mr(test, pd, buf[1], LOCAL);
	KUNIT_EXPECT_EQ(test, hook.made, 1);
	fail_rqp(test);
	expect_read(test, peer, mr[0], 1);

	/* a registration finds it failed, then an invalidation does */
	mr[2] = make_mr(test, pd, buf[2], RD | WR);
	KUNIT_EXPECT_EQ(test, hook.made, 2);
	expect_read(test, peer, mr[0], 2);
	expect_read(test, peer, mr[2], 3);
	fail_rqp(test);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[1]), 0);
	KUNIT_EXPECT_EQ(test, hook.made, 3);
	expect_read(test, peer, mr[0], 4);
	expect_read(test, peer, mr[2], 5);

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[0]), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[2]), 0);
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[i]), 0);
}

/* A device that answers no more delays many deregistrations once, not each. */
static void bridge_device_silent(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf[4];
	struct ucb_mr *mr[4];
	struct ucb_pd *pd;
	ktime_t start;
	int i;

	set_hook(test);
	pd = make_pd(test, f->rxe);
	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		buf[i] = make_buf(test);
		mr[i] = make_mr(test, pd, buf[i], LOCAL);
	}

	hook.swallow = true;
	start = ktime_get();
	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[i]), 0);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[i]), 0);
	}
	/* 5 s for one; for each it would be 20 */
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 15000);

	/* it answers again, and deregistrations ask it again */
	hook.swallow = false;
	buf[0] = make_buf(test);
	mr[0] = make_mr(test, pd, buf[0], LOCAL);
	i = ucb_mr_get_rkey(mr[0]) >> 8;
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[0]), 0);
	mr[0] = make_mr(test, pd, buf[0], LOCAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_rkey(mr[0]) >> 8, i);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[0]), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[0]), 0);
}

/* C14: a device that maps less than it was given, and says so or does not */
static void bridge_prefix_refused(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf;
	struct ucb_pd *pd;

	set_hook(test);
	pd = make_pd(test, f->rxe);
	buf = make_buf(test);

	hook.shorten = true;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EOPNOTSUPP);
	hook.shorten = false;
	hook.shorten_entry = true;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EOPNOTSUPP);
	/* refused calls left nothing behind */
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* one message from the domain's end to the peer's memory, out of an MR */
struct message {
	struct ib_cqe cqe;
	struct completion sent;
	enum ib_wc_status status;
};

static void message_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct message *msg = container_of(wc->wr_cqe, struct message, cqe);

	msg->status = wc->status;
	complete(&msg->sent);
}

static int post_recv(struct peer *peer, struct ib_qp *qp, size_t length)
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
	return ib_post_recv(qp, &wr, NULL);
}

/* Return: what sending completed with, or receiving if that failed; or -1. */
static int send_from_mr(struct peer *peer, u64 addr, u32 lkey, size_t length)
{
	struct message msg = { .cqe.done = message_sent };
	struct ib_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	struct ib_send_wr wr = {
		.wr_cqe = &msg.cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	int status;

	init_completion(&msg.sent);
	if (post_recv(peer, peer->far, length) || ib_post_send(peer->near, &wr, NULL))
		return -1;
	/* both are retried, and flushed, within the time */
	wait_for_completion(&msg.sent);
	status = peer_wait(peer);
	return msg.status ? msg.status : status;
}

/*
 * C19: an MR that had another buffer before gives the bytes of this one. One
 * that no peer can use is kept and used again; one that a peer can is not, on a
 * soft device, and its READ must find no other buffer either.
 */
static void bridge_current_bytes(struct kunit *test)
{
	const int cycles = 1000;
	const int local = 750;
	const size_t size = PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_pd *pd = make_pd(test, f->rxe);
	struct ucb_mr_remote r;
	struct ucb_buf *buf[8];
	unsigned int reused = 0;
	struct peer *peer;
	struct ucb_mr *mr;
	u32 last = 0;
	u32 *mem;
	int i;

	for (i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = make_buf(test);
	peer = peer_create(test, f->rxe, ucb_pd_ib(pd), size);

	for (i = 0; i < cycles; i++) {
		int b = i % ARRAY_SIZE(buf);
		bool remote = i >= local;

		mem = ucb_buf_addr(buf[b]);
		memset32(mem, i + 1, size / sizeof(*mem));
		mr = ucb_mr_reg_range(pd, buf[b], 0, size, remote ? RD : LOCAL);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
		r = remote_of(test, mr);
		if (remote) {
			KUNIT_ASSERT_EQ(test, peer_read(peer, r.addr, r.rkey, size), OK);
		} else {
			KUNIT_ASSERT_EQ(test, send_from_mr(peer, r.addr, r.rkey, size), OK);
			if (last == r.rkey >> 8)
				reused++;
			last = r.rkey >> 8;
		}
		KUNIT_ASSERT_EQ(test, memcmp(peer->mem, mem, size), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
	}
	/* an MR has 256 keys, so there were three */
	KUNIT_EXPECT_EQ(test, reused, local - 3);
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[i]), 0);
}

/* A peer that kills a key with SEND_WITH_INV harms itself only. */
static void bridge_key_killed(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_pd *pd = make_pd(test, f->rxe);
	struct ucb_buf *buf = make_buf(test);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ucb_mr_remote r;
	struct message msg = { .cqe.done = message_sent };
	struct peer *peer;
	struct ucb_mr *mr;

	peer = peer_create(test, f->rxe, ucb_pd_ib(pd), SZ_64K);
	mr = make_mr(test, pd, buf, RD | WR);
	expect_read(test, peer, mr, 6);
	r = remote_of(test, mr);

	init_completion(&msg.sent);
	wr.wr_cqe = &msg.cqe;
	wr.ex.invalidate_rkey = r.rkey;
	KUNIT_ASSERT_EQ(test, post_recv(peer, peer->near, 64), 0);
	KUNIT_ASSERT_EQ(test, ib_post_send(peer->far, &wr, NULL), 0);
	wait_for_completion(&msg.sent);
	KUNIT_EXPECT_EQ(test, msg.status, OK);
	KUNIT_EXPECT_EQ(test, peer_wait(peer), OK);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, 64), REFUSED);

	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	expect_pool_works(test);
}

static struct kunit_case bridge_cases[] = {
	KUNIT_CASE(bridge_rqp_fails),
	KUNIT_CASE_SLOW(bridge_device_silent),
	KUNIT_CASE(bridge_prefix_refused),
	KUNIT_CASE_SLOW(bridge_current_bytes),
	KUNIT_CASE(bridge_key_killed),
	{}
};

static struct kunit_suite bridge_suite = {
	.name = "ucb_bridge",
	.init = bridge_test_init,
	.test_cases = bridge_cases,
};

kunit_test_suite(bridge_suite);

MODULE_DESCRIPTION("KUnit tests of the bridge under a failing RDMA device");
MODULE_LICENSE("GPL");
