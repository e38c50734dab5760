// SPDX-License-Identifier: GPL-2.0
/*
 * The registration queue pair on iWARP, a pair connected to itself, on siw: that
 * it fails, is wanted or not wanted in a CM callback, and admits nobody else.
 */
#include <linux/inet.h>
#include <linux/ktime.h>

#include "mr_fixture.h"

/* The registration queue pair: ours has an event handler, the peers' have none. */
static typeof_member(struct ib_device, ops.create_qp) real_create_qp;
static struct ib_qp *rqp;

static int watch_create_qp(struct ib_qp *qp, struct ib_qp_init_attr *attr,
			   struct ib_udata *udata)
{
	int err = real_create_qp(qp, attr, udata);

	if (!err && attr->event_handler)
		WRITE_ONCE(rqp, qp);
	return err;
}

static void unwatch(void *data)
{
	struct ib_device *ibdev = data;

	ibdev->ops.create_qp = real_create_qp;
}

/* A domain whose queue pair is known */
static struct ucb_pd *watched_pd(struct kunit *test)
{
	struct fixture *f = test->priv;

	ucb_pd_put(f->pd);
	real_create_qp = f->ibdev->ops.create_qp;
	f->ibdev->ops.create_qp = watch_create_qp;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unwatch, f->ibdev), 0);
	f->pd = ucb_pd_get(f->ibdev, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(f->pd));
	KUNIT_ASSERT_NOT_NULL(test, rqp);
	return f->pd;
}

static void break_rqp(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	KUNIT_ASSERT_EQ(test, ib_modify_qp(rqp, &attr, IB_QP_STATE), 0);
}

/* Register, as soon as there is a queue pair for it again. */
static struct ucb_mr *reg_patiently(struct ucb_pd *pd, struct ucb_buf *buf, int access)
{
	ktime_t end = ktime_add_ms(ktime_get(), BOUND_MS);
	struct ucb_mr *mr;

	do {
		mr = ucb_mr_reg(pd, buf, access);
		if (PTR_ERR_OR_ZERO(mr) != -EAGAIN)
			break;
		schedule_timeout_uninterruptible(1);
	} while (ktime_before(ktime_get(), end));
	return mr;
}

/* Without its queue pair a registration waits for a new one; those made are good. */
static void pair_fails(struct kunit *test)
{
	struct ucb_pd *pd = watched_pd(test);
	struct ucb_mr *first, *second;
	struct ucb_buf *buf[2];
	struct peer *peer;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf[0] = make_buf(test);
	buf[1] = make_buf(test);
	peer = make_peer(test, PAGE_SIZE);
	first = make_mr(test, buf[0], RD);
	break_rqp(test);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf[1], RD)), -EAGAIN);
	expect_reads(test, peer, first, 1);
	second = reg_patiently(pd, buf[1], RD);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(second), "reg: %ld", PTR_ERR(second));
	expect_reads(test, peer, first, 2);
	expect_reads(test, peer, second, 3);

	/* deregistering does not wait for it */
	break_rqp(test);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&first), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&second), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[0]), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[1]), 0);
}

static typeof_member(struct ib_device, ops.post_send) real_post_send;
static bool refuse;

static int refuse_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad)
{
	if (wr->opcode != IB_WR_REG_MR || !READ_ONCE(refuse))
		return real_post_send(qp, wr, bad);
	WRITE_ONCE(refuse, false);
	*bad = wr;
	return -EINVAL;
}

static void unrefuse(void *data)
{
	struct ib_device *ibdev = data;

	ibdev->ops.post_send = real_post_send;
}

/* One that takes no work request is as bad as one whose connection has failed. */
static void pair_refuses(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_pd *pd = watched_pd(test);
	struct ib_qp *first = rqp;
	struct ucb_buf *buf;
	struct ucb_mr *mr;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	real_post_send = f->ibdev->ops.post_send;
	refuse = true;
	f->ibdev->ops.post_send = refuse_post_send;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unrefuse, f->ibdev), 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EAGAIN);
	KUNIT_EXPECT_FALSE(test, refuse);
	mr = reg_patiently(pd, buf, RD);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	KUNIT_EXPECT_PTR_NE(test, rqp, first);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* A listener that registers in its callback and refuses who comes */
struct callback {
	struct ib_device *ibdev;
	struct ucb_pd *pd;
	struct ucb_buf *buf;
	struct ucb_mr *mr;	/* to be given up, in place of that */
	long reg;
	int dereg;
};

static int callback_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct callback *cb = id->context;
	struct ucb_mr *mr;

	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	if (cb->mr) {
		cb->dereg = ucb_mr_dereg(&cb->mr);
		return -ECONNREFUSED;
	}
	mr = ucb_mr_reg(cb->pd, cb->buf, RD);
	cb->reg = PTR_ERR_OR_ZERO(mr);
	if (!IS_ERR(mr))
		cb->dereg = ucb_mr_dereg(&mr);
	return -ECONNREFUSED;
}

/* Have the callback run, by a connection that it refuses. */
static void run_callback(struct kunit *test, struct callback *cb)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct ib_pd *ibpd = ib_alloc_pd(cb->ibdev, 0);
	struct sockaddr_storage addr;
	struct ucb_pair caller = {
		.pds = { ibpd, ibpd },
		.init = &init,
	};
	struct rdma_cm_id *listen;
	struct ib_cq *cq;

	KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
	cq = ib_alloc_cq(ibpd->device, NULL, 4, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(cq));
	init.send_cq = cq;
	init.recv_cq = cq;
	listen = rdma_create_id(&init_net, callback_event, cb, RDMA_PS_TCP, IB_QPT_RC);
	KUNIT_ASSERT_FALSE(test, IS_ERR(listen));
	KUNIT_EXPECT_EQ(test, pair_find_addr(ibpd->device, &addr), 0);
	KUNIT_EXPECT_EQ(test, rdma_bind_addr(listen, (struct sockaddr *)&addr), 0);
	KUNIT_EXPECT_EQ(test, rdma_listen(listen, 1), 0);
	init_completion(&caller.step);
	caller.listen = listen;
	cb->reg = -EINPROGRESS;
	KUNIT_EXPECT_EQ(test, pair_dial(&caller), -ECONNABORTED);
	pair_hang_up(&caller);
	ucb_pair_close(&caller);
	ib_free_cq(cq);
	ib_dealloc_pd(ibpd);
}

/* In a CM callback, in whose way the making of a queue pair would be */
static void pair_in_cm_callback(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct callback cb = { .ibdev = f->ibdev, .pd = watched_pd(test) };
	struct ucb_mr *mr;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	cb.buf = make_buf(test);
	run_callback(test, &cb);
	KUNIT_EXPECT_EQ(test, cb.reg, 0);
	KUNIT_EXPECT_EQ(test, cb.dereg, 0);

	break_rqp(test);
	run_callback(test, &cb);
	KUNIT_EXPECT_EQ(test, cb.reg, -EAGAIN);
	mr = reg_patiently(cb.pd, cb.buf, RD);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(cb.buf), 0);
}

static typeof_member(struct ib_device, ops.dealloc_pd) real_dealloc_pd;
static struct ib_pd *the_ibpd;
static struct completion dealloced;

static int watch_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	int err = real_dealloc_pd(ibpd, udata);

	if (!err && ibpd == the_ibpd)
		complete(&dealloced);
	return err;
}

static void unwatch_dealloc(void *data)
{
	struct ib_device *ibdev = data;

	ibdev->ops.dealloc_pd = real_dealloc_pd;
}

/*
 * The domain's last registration is given up there, and its queue pairs, which are
 * in the way of themselves then, go with it.
 */
static void pair_ends_in_cm_callback(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct callback cb = { .ibdev = f->ibdev };

	real_dealloc_pd = f->ibdev->ops.dealloc_pd;
	the_ibpd = ucb_pd_ib(f->pd);
	init_completion(&dealloced);
	f->ibdev->ops.dealloc_pd = watch_dealloc_pd;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unwatch_dealloc, f->ibdev), 0);
	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	cb.buf = make_buf(test);
	cb.mr = make_mr(test, cb.buf, RD);
	ucb_pd_put(f->pd);
	f->pd = NULL;
	KUNIT_EXPECT_FALSE(test, completion_done(&dealloced));
	run_callback(test, &cb);
	KUNIT_EXPECT_EQ(test, cb.dereg, 0);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&dealloced, PEER_TIMEOUT), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(cb.buf), 0);
}

/* Who has no nonce is refused, and who is second, too. */
static void pair_stranger(struct kunit *test)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct fixture *f = test->priv;
	struct ib_pd *ibpd = ucb_pd_ib(f->pd);
	struct ucb_pair guard = { .pds = { ibpd, ibpd }, .init = &init };
	struct ucb_pair caller[3];
	struct ib_cq *cq;
	int i;

	cq = ib_alloc_cq(f->ibdev, NULL, 16, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(cq));
	init.send_cq = cq;
	init.recv_cq = cq;
	init_completion(&guard.step);
	get_random_bytes(guard.nonce, sizeof(guard.nonce));
	KUNIT_EXPECT_EQ(test, pair_listen(&guard, 1), 0);
	for (i = 0; i < ARRAY_SIZE(caller); i++) {
		caller[i] = guard;
		init_completion(&caller[i].step);
	}
	caller[0].nonce[UCB_PAIR_NONCE - 1] ^= 1;
	KUNIT_EXPECT_EQ(test, pair_dial(&caller[0]), -ECONNABORTED);
	KUNIT_EXPECT_NULL(test, guard.id[UCB_PAIR_PASSIVE]);
	KUNIT_EXPECT_EQ(test, pair_dial(&caller[1]), 0);
	KUNIT_EXPECT_NOT_NULL(test, guard.id[UCB_PAIR_PASSIVE]);
	KUNIT_EXPECT_EQ(test, pair_dial(&caller[2]), -ECONNABORTED);
	pair_hang_up(&guard);
	for (i = 0; i < ARRAY_SIZE(caller); i++)
		ucb_pair_close(&caller[i]);
	ucb_pair_close(&guard);
	ib_free_cq(cq);
}

/* Whether a connection comes from this machine is told by both its addresses. */
static void pair_comes_from_itself(struct kunit *test)
{
	static const struct {
		int family;
		const char *src;
		const char *dst;
		bool itself;
	} rows[] = {
		{ AF_INET, "10.0.0.1", "10.0.0.1", true },
		{ AF_INET, "10.0.0.1", "10.0.0.2", false },
		{ AF_INET6, "fe80::1", "fe80::1", true },
		{ AF_INET6, "fe80::1", "fe80::2", false },
	};
	struct rdma_cm_id *id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	struct sockaddr_storage *src = &id->route.addr.src_addr;
	struct sockaddr_storage *dst = &id->route.addr.dst_addr;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, id);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(id, 0, sizeof(*id));
		KUNIT_ASSERT_EQ(test, inet_pton_with_scope(&init_net, rows[i].family, rows[i].src,
							   "1", src), 0);
		KUNIT_ASSERT_EQ(test, inet_pton_with_scope(&init_net, rows[i].family, rows[i].dst,
							   "2", dst), 0);
		KUNIT_EXPECT_EQ_MSG(test, comes_from_itself(id), rows[i].itself, "row %d", i);
	}
	src->ss_family = AF_INET;
	KUNIT_EXPECT_FALSE(test, comes_from_itself(id));
}

/*
 * All that is asked of who comes. Who has passed gets as far as the making of a
 * queue pair, on a device that has no PD here.
 */
static void pair_asks(struct kunit *test)
{
	static const struct {
		const char *src;
		bool other_device;
		bool other_nonce;
		u8 missing;	/* bytes of the nonce */
		bool second;
		int error;
	} rows[] = {
		{ "10.0.0.1", .error = -EINVAL },
		{ "10.0.0.2", .error = -ECONNREFUSED },
		{ "10.0.0.1", .other_device = true, .error = -ECONNREFUSED },
		{ "10.0.0.1", .other_nonce = true, .error = -ECONNREFUSED },
		{ "10.0.0.1", .missing = 1, .error = -ECONNREFUSED },
		{ "10.0.0.1", .second = true, .error = -ECONNREFUSED },
	};
	struct rdma_cm_id *ids = kunit_kcalloc(test, 3, sizeof(*ids), GFP_KERNEL);
	struct fixture *f = test->priv;
	struct ib_pd *ibpd = ucb_pd_ib(f->pd);
	const struct ib_qp_init_attr init = {};
	struct ucb_pair guard = { .pds = { ibpd, ibpd }, .init = &init };
	struct rdma_conn_param req = { .private_data = guard.nonce };
	struct rdma_cm_id *id;
	u8 other[UCB_PAIR_NONCE];
	int i;

	KUNIT_ASSERT_NOT_NULL(test, ids);
	id = &ids[0];
	guard.listen = &ids[1];
	get_random_bytes(guard.nonce, sizeof(guard.nonce));
	memcpy(other, guard.nonce, sizeof(other));
	other[0] ^= 0x80;
	KUNIT_ASSERT_EQ(test, inet_pton_with_scope(&init_net, AF_INET, "10.0.0.1", "1",
						   &id->route.addr.dst_addr), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		KUNIT_ASSERT_EQ(test, inet_pton_with_scope(&init_net, AF_INET, rows[i].src, "2",
							   &id->route.addr.src_addr), 0);
		guard.listen->device = rows[i].other_device ? f->ibdev : NULL;
		req.private_data = rows[i].other_nonce ? other : guard.nonce;
		req.private_data_len = UCB_PAIR_NONCE - rows[i].missing;
		guard.id[UCB_PAIR_PASSIVE] = rows[i].second ? &ids[2] : NULL;
		KUNIT_EXPECT_EQ_MSG(test, pair_accept(&guard, id, &req), rows[i].error, "row %d",
				    i);
	}
}

/* Nobody is listened to once the pair is there: not to who has the nonce, either. */
static void pair_hangs_up(struct kunit *test)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct fixture *f = test->priv;
	struct ib_pd *ibpd = ucb_pd_ib(f->pd);
	struct ucb_pair caller;
	struct ucb_pair pair;
	struct ib_cq *cq;

	cq = ib_alloc_cq(f->ibdev, NULL, 16, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(cq));
	init.send_cq = cq;
	init.recv_cq = cq;
	KUNIT_ASSERT_EQ(test, ucb_pair_connect(&pair, 1, ibpd, ibpd, &init), 0);
	caller = (struct ucb_pair){ .pds = { ibpd, ibpd }, .init = &init };
	memcpy(caller.nonce, pair.nonce, sizeof(caller.nonce));
	init_completion(&caller.step);
	/* it would take one more */
	caller.listen = pair.id[UCB_PAIR_PASSIVE];
	pair.id[UCB_PAIR_PASSIVE] = NULL;
	pair.init = &init;
	KUNIT_EXPECT_NE(test, pair_dial(&caller), 0);
	KUNIT_EXPECT_NULL(test, pair.id[UCB_PAIR_PASSIVE]);
	pair.id[UCB_PAIR_PASSIVE] = caller.listen;
	ucb_pair_close(&caller);
	ucb_pair_close(&pair);
	ib_free_cq(cq);
}

static struct kunit_case pair_cases[] = {
	KUNIT_CASE_PARAM(pair_fails, iwarp_gen_params),
	KUNIT_CASE_PARAM(pair_refuses, iwarp_gen_params),
	KUNIT_CASE_PARAM(pair_in_cm_callback, iwarp_gen_params),
	KUNIT_CASE_PARAM(pair_ends_in_cm_callback, iwarp_gen_params),
	KUNIT_CASE_PARAM(pair_stranger, iwarp_gen_params),
	KUNIT_CASE(pair_comes_from_itself),
	KUNIT_CASE(pair_asks),
	KUNIT_CASE_PARAM(pair_hangs_up, iwarp_gen_params),
	{}
};

static struct kunit_suite pair_suite = {
	.name = "ucb_pair",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = pair_cases,
};

kunit_test_suite(pair_suite);

MODULE_DESCRIPTION("KUnit: the registration queue pair on iWARP");
MODULE_LICENSE("GPL");
