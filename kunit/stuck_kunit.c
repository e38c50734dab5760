// SPDX-License-Identifier: GPL-2.0
/*
 * An RDMA device that does not release MRs. As long as that is so the memory is
 * nobody's, whoever ends what; when it has let go after all, nothing is left.
 */
#include <linux/sizes.h>

#include "fake_bridge.h"
#include "reports.h"

static const struct fake_ib_params dma = { .dma = true };
/* for memory that is kept, thus stays mapped, and is given back by the case */
static const struct fake_ib_params no_dma = { };

struct stuck {
	struct fake_ib *fake;
	struct ucb_pd *pd;
	struct ucb_buf *buf;
	struct ucb_mr *mr;
};

/* One buffer that is registered. */
static void make_stuck(struct kunit *test, struct stuck *s, const struct fake_ib_params *params)
{
	s->fake = fake_ib_get(test, params);
	s->pd = ucb_pd_get(&s->fake->ibdev, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(s->pd));
	s->buf = make_buf(test);
	s->mr = ucb_mr_reg(s->pd, s->buf, RD | WR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(s->mr));
}

/* Where memory is kept for good: what the case has done is undone. */
static void give_back(struct kunit *test, struct fake_ib *fake, struct ucb_buf **buf)
{
	KUNIT_EXPECT_EQ(test, ucb_buf_free(*buf), -EBUSY);
	ucb_buf_busy_put(*buf);
	KUNIT_EXPECT_GT(test, atomic_read(&fake->nr_mrs), 0);
	fake_ib_release(fake);
}

/* The owner: once is told, and tried again. */
static void stuck_once(struct kunit *test)
{
	u8 desc[UCB_MR_DESC_SIZE];
	struct ib_pd *ibpd;
	struct stuck s;
	int attach;

	for (attach = 0; attach < 2; attach++) {
		make_stuck(test, &s, &dma);
		if (attach) {
			KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&s.mr), 0);
			ucb_pd_put(s.pd);
			ibpd = ib_alloc_pd(&s.fake->ibdev, 0);
			KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
			s.pd = ucb_pd_attach(ibpd, 1);
			KUNIT_ASSERT_FALSE(test, IS_ERR(s.pd));
			s.mr = ucb_mr_reg(s.pd, s.buf, RD | WR);
			KUNIT_ASSERT_FALSE(test, IS_ERR(s.mr));
		}
		/* an invalidated MR is not destroyed but kept for the next */
		fake_ib_fail(s.fake, 1, FAKE_IB_ERROR, false);
		s.fake->keeps = 1;
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), -EBUSY);
		KUNIT_EXPECT_EQ(test, fake_ib_heal(s.fake), 1);
		KUNIT_ASSERT_NOT_NULL(test, s.mr);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(s.buf), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(s.mr, desc), -ENODEV);
		KUNIT_EXPECT_EQ(test, atomic_read(&s.fake->nr_mrs), 1);
		if (attach)
			KUNIT_EXPECT_EQ(test, ucb_pd_detach(s.pd), -EBUSY);

		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), 0);
		KUNIT_EXPECT_NULL(test, s.mr);
		if (attach) {
			KUNIT_EXPECT_EQ(test, ucb_pd_detach(s.pd), 0);
			ib_dealloc_pd(ibpd);
		} else {
			ucb_pd_put(s.pd);
		}
		expect_clean(test, s.fake, &s.buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(s.buf), 0);
	}
}

/* Twice, and in the registration itself: the handle goes, the memory does not. */
static void stuck_for_good(struct kunit *test)
{
	struct stuck s;
	int reg;

	for (reg = 0; reg < 2; reg++) {
		make_stuck(test, &s, &no_dma);
		if (reg)
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), 0);
		fake_ib_fail(s.fake, 1, FAKE_IB_ERROR, false);
		s.fake->keeps = 2;
		if (reg) {
			s.mr = ucb_mr_reg(s.pd, s.buf, RD | WR);
			KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(s.mr), -EIO);
		} else {
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), -EBUSY);
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), 0);
			KUNIT_EXPECT_NULL(test, s.mr);
		}
		KUNIT_EXPECT_EQ(test, fake_ib_heal(s.fake), 1);
		give_back(test, s.fake, &s.buf);
		ucb_pd_put(s.pd);
		expect_clean(test, s.fake, &s.buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(s.buf), 0);
	}
}

/* A client of the pool's behind the bridge: what that has kept is given back. */
static struct ucb_buf *kept;
static int kept_free;

static void take_kept(struct ucb_client *client, struct ucb_pool *pool)
{
	if (!kept)
		return;
	kept_free = ucb_buf_free(kept);
	ucb_buf_busy_put(kept);
	kept = NULL;
}

static struct ucb_client kept_client = {
	.revoke = take_kept,
};

static void forget_kept(void *unused)
{
	ucb_client_unregister(&kept_client);
	kept = NULL;
}

/* The pool or the RDMA device goes: another try, or the only one, in vain. */
static void stuck_revoked(struct kunit *test)
{
	static const struct {
		bool device;
		bool dereg;	/* was tried before */
	} rows[] = {
		{ false, true },
		{ true, true },
		{ false, false },
	};
	struct reports *reports = reports_get(test);
	struct ucb_pool *pool;
	struct stuck s;
	int i;

	ucb_client_register(&kept_client);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, forget_kept, NULL), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		pool = new_pool(test);
		make_stuck(test, &s, &no_dma);
		kept = rows[i].dereg ? NULL : s.buf;
		fake_ib_fail(s.fake, 1, FAKE_IB_ERROR, false);
		s.fake->keeps = 1;
		if (rows[i].dereg)
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), -EBUSY);
		if (rows[i].device)
			fake_ib_unregister(s.fake);
		else
			kunit_release_action(test, pool_destroy, pool);
		fake_ib_heal(s.fake);

		if (!rows[i].dereg) {
			/* kept when the pool looked; its owner hears once */
			KUNIT_EXPECT_EQ(test, kept_free, -EBUSY);
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), -EBUSY);
			KUNIT_EXPECT_EQ(test, atomic_read(&s.fake->nr_mrs), 1);
			fake_ib_release(s.fake);
		}
		KUNIT_EXPECT_EQ(test, atomic_read(&s.fake->nr_mrs), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&s.mr), 0);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(s.buf), rows[i].device ? 0 : -ENODEV);
		ucb_pd_put(s.pd);
	}
	KUNIT_EXPECT_EQ(test, reports_count(reports, "not released (-16), memory kept", ""), 1);
}

/* A pool's registrations, of which the device keeps the first and the last. */
static void stuck_pool(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true, .pages = 4 };
	const struct ucb_pool_params shape = {
		.name = "stuck",
		.size = SZ_8K,
		.min = 6,
		.max = 6,
		.flags = UCB_POOL_RDMA,
	};
	struct fake_ib *fake = fake_ib_get(test, &params);
	struct ucb_pd *pd = ucb_pd_get(&fake->ibdev, 1);
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr;
	struct ucb_pool *pool;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	pool = pool_get(test, f->udev, &shape);
	pmr = ucb_pool_mr_reg(pd, pool, RD);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pmr));
	KUNIT_ASSERT_EQ(test, ucb_pool_mr_get_count(pmr), 3);
	fake_ib_fail(fake, 1, FAKE_IB_ERROR, true);
	fake->keeps = 2;
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), -EBUSY);
	KUNIT_ASSERT_NOT_NULL(test, pmr);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->nr_mrs), 2);
	KUNIT_EXPECT_EQ(test, ucb_pool_resize(pool, 6, 12), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_GT(test, fake_ib_heal(fake), 0);
	KUNIT_EXPECT_NULL(test, pmr);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->nr_mrs), 0);
	KUNIT_EXPECT_EQ(test, ucb_pool_resize(pool, 6, 12), 0);
	ucb_pd_put(pd);
}

/*
 * The bridge's own queue pair, on which an operation failed, or which did not come
 * to life: it may still complete something to what it was made with.
 */
static void stuck_qp(struct kunit *test)
{
	struct reports *reports = reports_get(test);
	struct fake_ib *fake = fake_ib_get(test, &dma);
	struct ucb_pd *pd = ucb_pd_get(&fake->ibdev, 1);
	struct ucb_buf *buf = make_buf(test);
	struct ib_qp *qp;
	struct ib_cq *cq;
	int i;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	for (i = 0; i < 2; i++) {
		fake->no_destroy = -EIO;
		if (i)
			fake->port = IB_PORT_DOWN;
		else
			fake_ib_fail(fake, 1, FAKE_IB_ERROR, false);
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), i ? -EAGAIN : -EIO);
		fake_ib_heal(fake);
		fake->port = IB_PORT_ACTIVE;
		fake->no_destroy = 0;
		KUNIT_EXPECT_EQ(test, atomic_read(&fake->qps), 1);
		KUNIT_EXPECT_EQ(test, atomic_read(&fake->cqs), 1);

		/* the device comes to it after all, and the case gives back what was kept */
		qp = fake->last_qp;
		cq = qp->send_cq;
		kfree(qp->qp_context);
		KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
		ib_free_cq(cq);
	}
	ucb_pd_put(pd);
	expect_clean(test, fake, &buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	KUNIT_EXPECT_EQ(test, reports_count(reports, "queue pair not destroyed (-5), kept", ""), i);
}

static struct kunit_case stuck_cases[] = {
	KUNIT_CASE(stuck_once),
	KUNIT_CASE(stuck_for_good),
	KUNIT_CASE(stuck_revoked),
	KUNIT_CASE(stuck_pool),
	KUNIT_CASE(stuck_qp),
	{}
};

static struct kunit_suite stuck_suite = {
	.name = "ucb_stuck",
	.init = fake_bridge_init,
	.test_cases = stuck_cases,
};

kunit_test_suite(stuck_suite);

MODULE_DESCRIPTION("KUnit: the bridge on an RDMA device that does not let go");
MODULE_LICENSE("GPL");
