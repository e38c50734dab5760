/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A lent queue pair on a fake RDMA device, and the calls of its life.
 */
#ifndef _UCB_KUNIT_LENT_H
#define _UCB_KUNIT_LENT_H

#include <linux/wait.h>

#include "fake_bridge.h"

#define NR_KEYS	2
#define WAIT	(30 * HZ)

/*
 * A connection of the case's own, on a domain of the bridge's.
 *
 * @poll: of @cq
 * @now: how keys are recalled
 * @told: recalls that are over
 * @error: the first that a call for something new returned
 * @left: what a call that ends something returned
 */
struct lent {
	struct kunit *test;
	struct fake_ib *fake;
	struct ucb_buf *buf;
	struct ucb_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ucb_qp *uqp;
	struct ucb_mr *mr;
	struct ib_cqe cqe;
	enum ib_poll_context poll;
	bool now;
	atomic_t told;
	wait_queue_head_t wait;
	int error;
	int left;
};

static inline void lent_done(struct ib_cq *cq, struct ib_wc *wc)
{
}

static inline void lent_event(struct ib_event *event, void *context)
{
}

static inline void lent_recalled(struct ucb_mr *mr, void *priv, int error)
{
	struct lent *l = priv;

	atomic_inc(&l->told);
	wake_up_all(&l->wait);
}

static inline struct lent *lent_on(struct kunit *test, struct fake_ib *fake)
{
	struct lent *l = kunit_kzalloc(test, sizeof(*l), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, l);
	l->test = test;
	l->fake = fake;
	l->buf = make_buf(test);
	l->cqe.done = lent_done;
	l->poll = IB_POLL_WORKQUEUE;
	init_waitqueue_head(&l->wait);
	return l;
}

static inline struct lent *lent_get(struct kunit *test, const struct fake_ib_params *params)
{
	return lent_on(test, fake_ib_get(test, params));
}

/* What is the case's own, and does not fail. */
static inline void lent_connect(struct lent *l)
{
	struct ib_qp_init_attr init = {
		.event_handler = lent_event,
		.cap = { .max_send_wr = 8, .max_recv_wr = 2, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct kunit *test = l->test;

	l->pd = ucb_pd_get(&l->fake->ibdev, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(l->pd));
	l->cq = ib_alloc_cq(&l->fake->ibdev, NULL, FAKE_IB_CQES, 0, l->poll);
	KUNIT_ASSERT_FALSE(test, IS_ERR(l->cq));
	init.send_cq = l->cq;
	init.recv_cq = l->cq;
	l->qp = ib_create_qp(ucb_pd_ib(l->pd), &init);
	KUNIT_ASSERT_FALSE(test, IS_ERR(l->qp));
	fake_ib_connect(l->qp);
	atomic_set(&l->told, 0);
	l->error = 0;
	l->left = 0;
}

static inline void lent_disconnect(struct lent *l)
{
	ib_destroy_qp(l->qp);
	ib_free_cq(l->cq);
	ucb_pd_put(l->pd);
}

/* Return: 0 as long as the life goes on. */
static inline int note(struct lent *l, int error)
{
	l->error = l->error ?: error;
	return l->error;
}

static inline void attach(struct lent *l)
{
	const struct ucb_qp_attr attr = {
		.keys = NR_KEYS,
		.length = BUF_SIZE,
		.recalled = lent_recalled,
	};

	l->uqp = ucb_qp_attach(l->pd, l->qp, &attr);
	if (note(l, PTR_ERR_OR_ZERO(l->uqp)))
		l->uqp = NULL;
}

static inline void map(struct lent *l)
{
	l->mr = ucb_mr_map(l->uqp, l->buf, LOCAL, l);
	if (note(l, PTR_ERR_OR_ZERO(l->mr)))
		l->mr = NULL;
}

/* A grant that failed can be recalled, too; one that was lost need not be. */
static inline void transfer(struct lent *l)
{
	int told = atomic_read(&l->told);

	if (note(l, ucb_mr_grant(l->mr, 1, BUF_SIZE - 2, RD | WR)))
		return;
	note(l, ucb_mr_grant_post(l->mr, NULL, NULL));
	if (note(l, ucb_mr_recall(l->mr, l->now)) == -ENOTCONN)
		return;
	KUNIT_EXPECT_NE(l->test, wait_event_timeout(l->wait, atomic_read(&l->told) > told, WAIT),
			0);
	KUNIT_EXPECT_EQ(l->test, atomic_read(&l->told), told + 1);
}

static inline void end(struct lent *l)
{
	if (l->mr)
		l->left = l->left ?: ucb_mr_dereg(&l->mr);
	l->left = l->left ?: ucb_qp_detach(l->uqp);
	l->uqp = NULL;
}

#endif /* _UCB_KUNIT_LENT_H */
