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
#include <linux/ktime.h>
#include <linux/mm.h>

#include "mr_fixture.h"

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
