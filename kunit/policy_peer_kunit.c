// SPDX-License-Identifier: GPL-2.0
/*
 * Per-transfer keys, and a peer that wants more than it was granted, keeps what it
 * was, or is lost with its connection.
 */
#include "link.h"

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

static struct kunit_case policy_peer_cases[] = {
	KUNIT_CASE_PARAM(policy_exact, controller_gen_params),
	KUNIT_CASE_PARAM(policy_qp_error, controller_gen_params),
	KUNIT_CASE(policy_qp_error_between),
	KUNIT_CASE(policy_post_fails),
	KUNIT_CASE(policy_stuck_peer),
	KUNIT_CASE_PARAM(policy_in_flight, controller_gen_params),
	KUNIT_CASE_PARAM(policy_revoke, controller_gen_params),
	{}
};

static struct kunit_suite policy_peer_suite = {
	.name = "ucb_policy_peer",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = policy_peer_cases,
};

kunit_test_suite(policy_peer_suite);

MODULE_DESCRIPTION("KUnit: per-transfer keys and their peers");
MODULE_LICENSE("GPL");
