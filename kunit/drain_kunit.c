// SPDX-License-Identifier: GPL-2.0
/*
 * A lent queue pair whose end is not one: on an RDMA device that does not release
 * its MRs, or does not drain it, or not at once.
 */
#include "lent.h"
#include "reports.h"
#include "shell.h"

/*
 * MRs that the device does not release when the connection ends, one of them of a
 * key that is on its way back: tried again when its mapping is given up.
 */
static void lent_stuck(struct kunit *test)
{
	struct lent *l = lent_get(test, &(struct fake_ib_params){ });
	bool worker;
	int more;
	int i;

	for (i = 0; i < 6; i++) {
		/* found out by the drain, or by the worker that renews it */
		worker = i % 2;
		/* tries of the owner that are in vain */
		more = i / 2;
		lent_connect(l);
		attach(l);
		map(l);
		KUNIT_ASSERT_EQ(test, l->error, 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, BUF_SIZE, RD), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
		l->fake->keeps = worker + NR_KEYS + more;
		if (!worker)
			fake_ib_break_qp(l->qp, true);
		KUNIT_EXPECT_EQ(test, ucb_mr_recall(l->mr, true), 0);
		KUNIT_EXPECT_NE(test, wait_event_timeout(l->wait, atomic_read(&l->told), WAIT), 0);
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->told), 1);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), NR_KEYS);
		KUNIT_EXPECT_EQ(test, ucb_mr_grant(l->mr, 0, 1, RD), -ENOTCONN);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), -EBUSY);
		if (more) {
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr), -EBUSY);
			KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), -EBUSY);
			KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), -EBUSY);
		}
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr), 0);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), NR_KEYS - (more < 2));
		if (more == 2) {
			/* kept for good; the MR is found when the queue pair goes */
			KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), -EBUSY);
			ucb_buf_busy_put(l->buf);
		}
		KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), 0);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
}

/*
 * A queue pair that does not go to error, or takes nothing there, with a key on
 * its way and the device at work. What it completes after the end hurts nobody.
 */
static void lent_not_drained(struct kunit *test)
{
	static const struct {
		int no_error;
		int no_drain;
		int error;
	} rows[] = {
		{ -EIO, 0, -EIO },
		{ 0, -EINVAL, -EINVAL },
		/* this is what a caller is told that has mappings */
		{ 0, -EBUSY, -EIO },
	};
	struct reports *reports = reports_get(test);
	struct ucb_mr *other;
	struct lent *l;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		l = lent_get(test, &(struct fake_ib_params){ });
		lent_connect(l);
		attach(l);
		map(l);
		other = ucb_mr_map(l->uqp, l->buf, 0, l);
		KUNIT_ASSERT_FALSE(test, IS_ERR(other));
		fake_ib_fail(l->fake, 1, FAKE_IB_SILENT, false);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, BUF_SIZE, RD), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_recall(l->mr, true), 0);
		KUNIT_EXPECT_EQ(test, fake_ib_heal(l->fake), 1);
		l->fake->no_error = rows[i].no_error;
		l->fake->no_drain = rows[i].no_drain;
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), rows[i].error);
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l->uqp), rows[i].error);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->told), 1);
		/* not one of its MRs is touched */
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), NR_KEYS);
		KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), -EBUSY);

		KUNIT_EXPECT_LT(test, ucb_mr_dereg(&l->mr), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&l->mr), 0);
		KUNIT_EXPECT_LT(test, ucb_mr_dereg(&other), 0);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&other), 0);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_qp_detach(l->uqp), rows[i].error);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), NR_KEYS);

		/* the device comes to it after all */
		l->fake->no_error = 0;
		l->fake->no_drain = 0;
		fake_ib_flush(l->qp);
		ib_drain_qp(l->qp);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), -EBUSY);
		ucb_buf_busy_put(l->buf);
		ucb_buf_busy_put(l->buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
		fake_ib_release(l->fake);
		lent_disconnect(l);
		fake_ib_unregister(l->fake);
	}
	KUNIT_EXPECT_EQ(test, reports_count(reports, "queue pair not drained", ""), i);
}

/* One that takes its time, or only its driver's own drain, is drained all the same. */
static void lent_drained(struct kunit *test)
{
	static const struct {
		struct fake_ib_params device;
		int no_error;
		int no_drain;
		unsigned int refusals;
		unsigned int refused;
	} rows[] = {
		{ { .dma = true }, -EINVAL, 0, 3, 3 },
		{ { .dma = true }, 0, -ENOMEM, 3, 3 },
		{ { .dma = true, .drains = true }, 0, -EIO, 0, 2 },
	};
	struct lent *l;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		l = lent_get(test, &rows[i].device);
		lent_connect(l);
		attach(l);
		map(l);
		KUNIT_ASSERT_EQ(test, l->error, 0);
		fake_ib_fail(l->fake, 1, FAKE_IB_SILENT, false);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant(l->mr, 0, BUF_SIZE, RD), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_grant_post(l->mr, NULL, NULL), 0);
		KUNIT_EXPECT_EQ(test, fake_ib_heal(l->fake), 1);
		l->fake->no_error = rows[i].no_error;
		l->fake->no_drain = rows[i].no_drain;
		l->fake->refusals = rows[i].refusals;
		KUNIT_EXPECT_EQ_MSG(test, ucb_qp_drain(l->uqp), 0, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, l->fake->refused, rows[i].refused, "row %d", i);
		KUNIT_EXPECT_EQ(test, atomic_read(&l->fake->nr_mrs), 0);
		end(l);
		KUNIT_EXPECT_EQ_MSG(test, l->left, 0, "row %d", i);
		lent_disconnect(l);
		expect_clean(test, l->fake, &l->buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(l->buf), 0);
	}
}

#define TIMEOUT	"/sys/module/ucb_rdma/parameters/drain_timeout_ms"

static void reset_timeout(void *unused)
{
	shell("echo 30000 >" TIMEOUT);
}

/*
 * Dead, the first of its queue pairs gets all the time that there is, and each
 * behind it a part: of whichever domain, until one is drained. Those that are out
 * of room for too long are no different.
 */
static void lent_dead(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct lent *l[5];
	ktime_t start;
	int full;
	int i;

	KUNIT_ASSERT_EQ(test, shell("echo 300 >" TIMEOUT), 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, reset_timeout, NULL), 0);
	for (full = 0; full < 2; full++) {
		for (i = 0; i < ARRAY_SIZE(l); i++) {
			l[i] = i ? lent_on(test, l[0]->fake) : lent_get(test, &params);
			l[i]->poll = IB_POLL_DIRECT;
			lent_connect(l[i]);
			attach(l[i]);
			KUNIT_ASSERT_EQ(test, l[i]->error, 0);
		}
		l[0]->fake->dead = !full;
		l[0]->fake->no_drain = full ? -ENOMEM : 0;
		start = ktime_get();
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l[0]->uqp), full ? -ENOMEM : -ETIMEDOUT);
		KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), start), 250);

		l[0]->fake->dead = true;
		l[0]->fake->no_drain = 0;
		atomic_set(&l[0]->fake->polls, 0);
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l[1]->uqp), -ETIMEDOUT);
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l[2]->uqp), -ETIMEDOUT);
		/* their time is over when they have been looked at once */
		KUNIT_EXPECT_EQ(test, atomic_read(&l[0]->fake->polls), 2);

		l[0]->fake->dead = false;
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l[3]->uqp), 0);
		l[0]->fake->dead = true;
		start = ktime_get();
		KUNIT_EXPECT_EQ(test, ucb_qp_drain(l[4]->uqp), -ETIMEDOUT);
		KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), start), 250);

		l[0]->fake->dead = false;
		for (i = 0; i < ARRAY_SIZE(l); i++) {
			fake_ib_flush(l[i]->qp);
			ib_drain_qp(l[i]->qp);
			end(l[i]);
			KUNIT_EXPECT_EQ(test, ucb_buf_free(l[i]->buf), 0);
		}
		fake_ib_release(l[0]->fake);
		for (i = 0; i < ARRAY_SIZE(l); i++)
			lent_disconnect(l[i]);
		fake_ib_unregister(l[0]->fake);
	}
}

static struct kunit_case drain_cases[] = {
	KUNIT_CASE(lent_stuck),
	KUNIT_CASE(lent_not_drained),
	KUNIT_CASE(lent_drained),
	KUNIT_CASE_SLOW(lent_dead),
	{}
};

static struct kunit_suite drain_suite = {
	.name = "ucb_drain",
	.init = fake_bridge_init,
	.test_cases = drain_cases,
};

kunit_test_suite(drain_suite);

MODULE_DESCRIPTION("KUnit: lent queue pairs that are not drained, or late");
MODULE_LICENSE("GPL");
