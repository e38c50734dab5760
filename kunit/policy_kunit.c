// SPDX-License-Identifier: GPL-2.0
/*
 * Per-transfer keys on a connection's own queue pair, and mappings without one:
 * the calls. What a peer does to them is in policy_peer_kunit.c.
 */
#include "link.h"

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
	KUNIT_CASE(policy_counts),
	KUNIT_CASE(policy_busy),
	KUNIT_CASE(policy_busy_till_done),
	KUNIT_CASE(policy_refuse),
	KUNIT_CASE(policy_keys_rotate),
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
