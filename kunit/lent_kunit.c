// SPDX-License-Identifier: GPL-2.0
/*
 * A lent queue pair on an RDMA device whose verbs fail, in whichever task: the
 * first, the second, ... of all that a connection's life needs. What the calls
 * that end something return is always 0, and nothing is left.
 */
#include <linux/fault-inject.h>
#include <linux/sched.h>

#include "lent.h"

static void post_all(struct lent *l)
{
	const struct ucb_mr_remote remote = { .size = 8, .usage = 0xff };

	note(l, ucb_post_recv(l->qp, &l->cqe, l->mr, 0, 8));
	note(l, ucb_post_send(l->qp, &l->cqe, l->mr, 0, 8, 0));
	note(l, ucb_post_write(l->qp, &l->cqe, l->mr, 0, &remote, 0, 8, 0));
	note(l, ucb_post_read(l->qp, &l->cqe, l->mr, 0, &remote, 0, 8, IB_SEND_SIGNALED));
	if (!note(l, ucb_post_atomic_write(l->qp, &l->cqe, l->mr, 0, &remote, 0, 0)))
		KUNIT_EXPECT_EQ(l->test, l->fake->last_flags, IB_SEND_FENCE);
}

static void live(struct lent *l)
{
	attach(l);
	if (!l->error)
		map(l);
	if (!l->error)
		post_all(l);
	if (!l->error)
		transfer(l);
	if (!l->error)
		transfer(l);
	end(l);
}

static const struct lent_param {
	const char *name;
	struct fake_ib_params device;
	enum fake_ib_fault fault;
	bool now;
} lent_params[] = {
	{ "refuse", { .dma = true } },
	{ "refuse, soft, now", { }, .now = true },
	{ "error", { .dma = true }, .fault = FAKE_IB_ERROR },
	{ "event, now", { .dma = true }, .fault = FAKE_IB_EVENT, .now = true },
};

static void lent_desc(const struct lent_param *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(lent, lent_params, lent_desc);

static void lent_walk(struct kunit *test)
{
	const struct lent_param *param = test->param_value;
	struct lent *l = lent_get(test, &param->device);
	unsigned int failed = 0;
	unsigned int hits;
	unsigned int nth;

	l->now = param->now;
	for (nth = 1; nth < MOST_VERBS; nth++) {
		lent_connect(l);
		fake_ib_fail(l->fake, nth, param->fault, false);
		l->fake->all = true;
		live(l);
		hits = fake_ib_heal(l->fake);
		KUNIT_EXPECT_EQ_MSG(test, l->left, 0, "verb %u", nth);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
		if (!hits)
			break;
		if (l->error) {
			failed++;
			KUNIT_EXPECT_TRUE_MSG(test, is_due(l->error), "verb %u: %d", nth,
					      l->error);
		}
		lent_connect(l);
		live(l);
		KUNIT_ASSERT_EQ_MSG(test, l->error, 0, "not usable after verb %u", nth);
		KUNIT_ASSERT_EQ(test, l->left, 0);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
	}
	KUNIT_EXPECT_EQ_MSG(test, l->error, 0, "failed without a fault");
	KUNIT_EXPECT_LT(test, nth, MOST_VERBS);
	KUNIT_EXPECT_GT(test, nth, 8);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
	kunit_info(test, "%u verbs failed, %u of them reached the caller", nth - 1, failed);
}

/* The same with the caller's allocations. */
static void lent_no_memory(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct lent *l = lent_get(test, &params);
	unsigned int failed = 0;
	unsigned int left;
	unsigned int nth;

	for (nth = 1; nth < MOST_FAULTS; nth++) {
		lent_connect(l);
		current->fail_nth = nth;
		live(l);
		left = current->fail_nth;
		current->fail_nth = 0;
		KUNIT_EXPECT_EQ_MSG(test, l->left, 0, "fault %u", nth);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
		if (left)
			break;
		if (l->error) {
			failed++;
			KUNIT_EXPECT_EQ_MSG(test, l->error, -ENOMEM, "fault %u", nth);
		}
	}
	KUNIT_EXPECT_EQ_MSG(test, l->error, 0, "failed without a fault");
	KUNIT_EXPECT_LT(test, nth, MOST_FAULTS);
	KUNIT_EXPECT_GT(test, nth, 1);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
	kunit_info(test, "%u faults, %u of them reached the caller", nth - 1, failed);
}

/* What has been done when the queue pair goes to error, each with all before. */
enum state {
	UNATTACHED,
	ATTACHED,
	MAPPED,
	GRANTED,
	POSTED,
	RECALLED,
	UNUSED,
	NR_STATES,
};

static void reach(struct lent *l, enum state state)
{
	struct kunit *test = l->test;

	if (state >= ATTACHED)
		attach(l);
	if (state >= MAPPED)
		map(l);
	KUNIT_ASSERT_EQ(test, l->error, 0);
	if (state >= GRANTED)
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, BUF_SIZE, RD), 0);
	if (state == POSTED || state == RECALLED)
		KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
	if (state >= RECALLED)
		KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr, false), 0);
}

/*
 * QP error in each state: the bridge learns of it by what it posts next. Every
 * call then says so, and what is to be ended can be.
 */
static void lent_qp_error(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct lent *l = lent_get(test, &params);
	enum state state;
	int told;

	for (state = UNATTACHED; state < NR_STATES; state++) {
		lent_connect(l);
		reach(l, state);
		told = state >= RECALLED;
		fake_ib_break_qp(l->qp, state % 2);
		/* one that fails before it is lent is found out no earlier */
		if (state == UNATTACHED)
			attach(l);
		if (state < MAPPED)
			map(l);
		KUNIT_ASSERT_EQ(test, l->error, 0);
		if (state < GRANTED)
			KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr, 0, BUF_SIZE, RD), 0);
		if (state <= GRANTED)
			KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
		if (state <= GRANTED || state == POSTED) {
			KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), 0);
			KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr, true), -ENOTCONN);
		} else {
			KUNIT_EXPECT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->told),
								 WAIT), 0);
			KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), 0);
		}
		KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr, 0, 1, RD), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_map(l->uqp, l->buf, 0, l)),
				-ENOTCONN);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->told), told);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), 0);
		end(l);
		KUNIT_EXPECT_EQ_MSG(test, l->left, 0, "state %d", state);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
}

/*
 * A key is made valid before what uses it, and taken back when its own
 * invalidation has completed, not another's. With a CQ that the case polls.
 */
static void lent_order(struct kunit *test)
{
	struct lent *l = lent_get(test, &(struct fake_ib_params){ .dma = true });
	struct ucb_buf *buf = make_buf(test);
	struct ib_sge sge = { .length = 16 };
	struct ib_send_wr wr = {
		.wr_cqe = &l->cqe,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IB_WR_SEND,
	};
	struct ucb_mr *other;

	l->poll = IB_POLL_DIRECT;
	lent_connect(l);
	attach(l);
	map(l);
	other = ucb_mr_map(l->uqp, buf, LOCAL, l);
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, 16, RD), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_grant(other, 0, 16, RD), 0);
	sge.lkey = ucb_mr_get_rkey(l->mr);
	sge.addr = offset_in_page(ucb_buf_addr(l->buf));
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(l->mr, &wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant_post(other, NULL, NULL), 0);
	KUNIT_EXPECT_EQ(test, l->fake->bad, 0);

	KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr, true), 0);
	fake_ib_fail(l->fake, 1, FAKE_IB_SILENT, false);
	KUNIT_EXPECT_EQ(test, ucb_mr_recall(other, true), 0);
	KUNIT_EXPECT_EQ(test, fake_ib_heal(l->fake), 1);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr, 0, 16, RD), -EBUSY);
	KUNIT_EXPECT_EQ(test, ib_process_cq_direct(l->cq, -1), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->told), 1);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(other, 0, 16, RD), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr, 0, 16, RD), 0);

	/* the drain polls it, too */
	KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&l->told), 2);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&other), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	end(l);
	KUNIT_EXPECT_EQ(test, l->left, 0);
	lent_disconnect(l);
	expect_clean(test, l->fake, &l->buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
}

/* A soft device has done with an MR that a peer could reach when it is destroyed. */
static void lent_renew(struct kunit *test)
{
	static const struct {
		bool dma;
		int access;
		unsigned int made;	/* for two transfers */
	} rows[] = { { false, RD, 2 }, { false, LOCAL }, { true, RD } };
	struct lent *l;
	int i;
	int k;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		l = lent_get(test, &(struct fake_ib_params){ .dma = rows[i].dma });
		lent_connect(l);
		attach(l);
		map(l);
		KUNIT_ASSERT_EQ(test, l->error, 0);
		for (k = 0; k < 2; k++) {
			KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, 16, rows[i].access), 0);
			KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
			KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr, true), 0);
			KUNIT_EXPECT_NE(test, wait_event_timeout(l->wait,
								 atomic_read(&l->told) > k, WAIT),
					0);
		}
		KUNIT_EXPECT_EQ_MSG(test, l->fake->made, NR_KEYS + rows[i].made, "row %d", i);
		/* without memory for another there is the other key's */
		fake_ib_fail(l->fake, 4, FAKE_IB_REFUSE, false);
		l->fake->all = true;
		transfer(l);
		KUNIT_EXPECT_EQ(test, fake_ib_heal(l->fake), !rows[i].dma);
		transfer(l);
		KUNIT_EXPECT_EQ_MSG(test, l->error, 0, "row %d", i);
		end(l);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
	}
}

static struct kunit_case lent_cases[] = {
	KUNIT_CASE_PARAM(lent_walk, lent_gen_params),
	KUNIT_CASE_SLOW(lent_no_memory),
	KUNIT_CASE(lent_qp_error),
	KUNIT_CASE(lent_order),
	KUNIT_CASE(lent_renew),
	{}
};

static struct kunit_suite lent_suite = {
	.name = "ucb_lent",
	.init = fake_bridge_init,
	.test_cases = lent_cases,
};

kunit_test_suite(lent_suite);

MODULE_DESCRIPTION("KUnit: lent queue pairs on an RDMA device whose verbs fail");
MODULE_LICENSE("GPL");
