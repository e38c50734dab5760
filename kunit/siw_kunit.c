// SPDX-License-Identifier: GPL-2.0
/*
 * The bridge over iWARP, on siw. What both transports must do is in mr_kunit.c.
 *
 * siw is held to function. It does not isolate, and here stands what it lets
 * through, so that a kernel in which that changes is noticed:
 *
 *   siw_expected_read: a READ needs no IB_ACCESS_REMOTE_READ, for the answer is
 *	sent by siw_check_sgl_tx(), which is asked for no permission;
 *   siw_expected_late: ib_dereg_mr() does not wait for a READ that is being
 *	answered: that holds a reference to the MR's page list, not to the pages.
 *
 * A refused READ completes with an error of some kind; a refused WRITE completes
 * with success, as TCP has taken the bytes, and the READ behind it fails.
 */
#include <linux/inet.h>
#include <linux/ktime.h>
#include <linux/mm.h>

#include "mr_fixture.h"

static const struct fixture_param iwarps[] = {
	{ "PIO: dummy_hcd", REAL_DUMMY, true },
	{ "DMA: qemu-xhci", REAL_XHCI, true },
};

KUNIT_ARRAY_PARAM(iwarp, iwarps, fixture_param_desc);

/* That the peer READs the registered bytes. */
static void expect_reads(struct kunit *test, struct peer *peer, struct ucb_mr *mr, u8 fill)
{
	struct ucb_mr_remote r = remote_of(test, mr);

	memset(ucb_mr_get_ptr(mr), fill, r.size);
	memset(peer->mem, ~fill, r.size);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, r.size), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, fill, r.size));
}

/* That a READ, and a WRITE, of this range is refused; and a new connection. */
static void expect_refused(struct kunit *test, struct peer *peer, u64 addr, u32 rkey, size_t size)
{
	KUNIT_EXPECT_NE(test, peer_read(peer, addr, rkey, size), OK);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
}

static void expect_write_refused(struct kunit *test, struct peer *peer, u64 addr, u32 rkey,
				 size_t size)
{
	peer_write(peer, addr, rkey, size);
	KUNIT_EXPECT_NE(test, peer_read(peer, addr, rkey, 1), OK);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
}

static void siw_exact_bounds(struct kunit *test)
{
	const size_t size = 3 * PAGE_SIZE;
	const size_t off = PAGE_SIZE - 1;
	const size_t len = PAGE_SIZE + 1;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	peer = make_peer(test, size);
	mr = ucb_mr_reg_range(f->pd, buf, off, len, RD | WR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	/* nobody is listened to once the pair is there */
	KUNIT_EXPECT_NULL(test, peer->pair.listen);
	memset(mem, 0x11, size);
	memset(peer->mem, 0xee, size);

	expect_refused(test, peer, r.addr, r.rkey, len + 1);
	expect_refused(test, peer, r.addr + len, r.rkey, 1);
	expect_refused(test, peer, r.addr - 1, r.rkey, 1);
	KUNIT_EXPECT_NULL(test, memchr(peer->mem, 0x11, size));
	expect_write_refused(test, peer, r.addr + len, r.rkey, 1);
	expect_write_refused(test, peer, r.addr - 1, r.rkey, 1);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0x11, size));

	/* what is inside may arrive, and does when it is a WRITE of just that */
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, len), OK);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, 1), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem + off, 0xee, len));
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0x11, off));
	KUNIT_EXPECT_NULL(test, memchr_inv(mem + off + len, 0x11, size - off - len));

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void siw_write_needs_permission(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	int access;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	memset(ucb_buf_addr(buf), 0x11, size);
	for (access = 0; access <= RD; access += RD) {
		mr = make_mr(test, buf, access);
		r = remote_of(test, mr);
		memset(peer->mem, 0xee, size);
		peer_write(peer, r.addr, r.rkey, size);
		/* the connection is not there for it any more */
		KUNIT_EXPECT_NE(test, peer_read(peer, r.addr, r.rkey, size), OK);
		KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(buf), 0x11, size));
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* By the owner, and with the pool */
static void siw_revoked(struct kunit *test)
{
	const size_t size = 2 * PAGE_SIZE;
	struct ucb_mr_remote r;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	ktime_t start;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	mr = make_mr(test, buf, RD | WR);
	expect_reads(test, peer, mr, 1);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	memset(ucb_buf_addr(buf), 0xca, size);
	memset(peer->mem, 0x11, size);
	expect_refused(test, peer, r.addr, r.rkey, size);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0x11, size));
	expect_write_refused(test, peer, r.addr, r.rkey, size);
	KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(buf), 0xca, size));

	mr = make_mr(test, buf, RD | WR);
	expect_reads(test, peer, mr, 2);
	r = remote_of(test, mr);
	start = ktime_get();
	drop_pool(test);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), BOUND_MS);
	expect_refused(test, peer, r.addr, r.rkey, size);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);
}

/* one work request of the domain's own end */
struct near_wr {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static void near_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct near_wr *near = container_of(wc->wr_cqe, struct near_wr, cqe);

	near->status = wc->status;
	complete(&near->done);
}

static int near_wait(struct near_wr *near)
{
	if (!wait_for_completion_timeout(&near->done, PEER_TIMEOUT))
		return -1;
	return near->status;
}

static int near_send(struct peer *peer, struct near_wr *near, enum ib_wr_opcode opcode,
		     const struct ucb_mr_remote *r)
{
	struct ib_sge sge = { .addr = r->addr, .length = r->size, .lkey = r->rkey };
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &near->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = peer->mr->iova,
		.rkey = peer->mr->rkey,
	};

	near->cqe.done = near_done;
	init_completion(&near->done);
	return ib_post_send(peer->near, &wr.wr, NULL);
}

/* Messages both ways, out of a registered buffer and into it */
static void siw_messages(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct near_wr near = { .cqe.done = near_done };
	struct ib_recv_wr recv = { .num_sge = 1 };
	struct ucb_mr_remote r;
	struct ib_sge sge;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	mr = make_mr(test, buf, IB_ACCESS_LOCAL_WRITE);
	r = remote_of(test, mr);

	init_completion(&near.done);
	sge = (struct ib_sge){ .addr = r.addr, .length = size, .lkey = r.rkey };
	recv.sg_list = &sge;
	recv.wr_cqe = &near.cqe;
	memset(peer->mem, 0x21, size);
	KUNIT_ASSERT_EQ(test, ib_post_recv(peer->near, &recv, NULL), 0);
	KUNIT_EXPECT_EQ(test, peer_op(peer, IB_WR_SEND, 0, 0, size), OK);
	KUNIT_EXPECT_EQ(test, near_wait(&near), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(buf), 0x21, size));

	sge = (struct ib_sge){ .addr = peer->addr, .length = size, .lkey = peer->lkey };
	recv.wr_cqe = &peer->cqe;
	reinit_completion(&peer->done);
	memset(ucb_buf_addr(buf), 0x22, size);
	KUNIT_ASSERT_EQ(test, ib_post_recv(peer->far, &recv, NULL), 0);
	KUNIT_ASSERT_EQ(test, near_send(peer, &near, IB_WR_SEND, &r), 0);
	KUNIT_EXPECT_EQ(test, near_wait(&near), OK);
	KUNIT_EXPECT_EQ(test, peer_wait(peer), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0x22, size));

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/*
 * The sink of our READ goes on the wire with its key: that of a registration, for
 * local_dma_lkey names all memory.
 */
static void siw_read_sink(struct kunit *test)
{
	const size_t size = 4 * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct near_wr near;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	mr = make_mr(test, buf, WR);
	r = remote_of(test, mr);
	KUNIT_EXPECT_NE(test, r.rkey, ucb_pd_ib(f->pd)->local_dma_lkey);

	/* the active end of an iWARP connection is to send first */
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, 1), OK);
	memset(peer->mem, 0x31, size);
	KUNIT_ASSERT_EQ(test, near_send(peer, &near, IB_WR_RDMA_READ, &r), 0);
	KUNIT_EXPECT_EQ(test, near_wait(&near), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(buf), 0x31, size));

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

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
static void siw_rqp_fails(struct kunit *test)
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
static void siw_in_cm_callback(struct kunit *test)
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
static void siw_ends_in_cm_callback(struct kunit *test)
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
static void siw_stranger(struct kunit *test)
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
static void siw_comes_from_itself(struct kunit *test)
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

static void siw_expected_read(struct kunit *test)
{
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, PAGE_SIZE);
	mr = make_mr(test, buf, WR);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ_MSG(test, peer_read(peer, r.addr, r.rkey, r.size), OK,
			    "siw refuses a READ without permission now: take it off the list");
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* Whether the late bytes come is a race; that it is lost is no failure here. */
static void siw_expected_late(struct kunit *test)
{
	const size_t size = 64 * PAGE_SIZE;
	const int tries = 2;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	int late = 0;
	int i;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	for (i = 0; i < tries; i++) {
		memset(ucb_buf_addr(buf), 0x11, size);
		memset(peer->mem, 0x22, size);
		mr = make_mr(test, buf, RD);
		r = remote_of(test, mr);
		KUNIT_ASSERT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey, size), 0);
		while (READ_ONCE(*(u8 *)peer->mem) == 0x22 && !completion_done(&peer->done))
			cond_resched();
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
		memset(ucb_buf_addr(buf), 0xca, size);
		KUNIT_EXPECT_NE(test, peer_wait(peer), -1);
		if (memchr(peer->mem, 0xca, size))
			late++;
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	}
	kunit_info(test, "%d of %d READs got bytes from after the deregistration", late, tries);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static struct kunit_case siw_cases[] = {
	KUNIT_CASE_PARAM(siw_exact_bounds, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_write_needs_permission, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_revoked, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_messages, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_read_sink, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_rqp_fails, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_in_cm_callback, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_ends_in_cm_callback, iwarp_gen_params),
	KUNIT_CASE_PARAM(siw_stranger, iwarp_gen_params),
	KUNIT_CASE(siw_comes_from_itself),
	KUNIT_CASE_PARAM(siw_expected_read, iwarp_gen_params),
	KUNIT_CASE_PARAM_ATTR(siw_expected_late, iwarp_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite siw_suite = {
	.name = "ucb_siw",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = siw_cases,
};

kunit_test_suite(siw_suite);

MODULE_DESCRIPTION("KUnit: the bridge over iWARP");
MODULE_LICENSE("GPL");
