// SPDX-License-Identifier: GPL-2.0
/*
 * The bridge on an RDMA device whose verbs fail: the first, the second, ... of
 * all that a domain's life needs, in each way. After each nothing is left, on
 * the device or of the buffer, and the same life then succeeds.
 */
#include <linux/completion.h>
#include <linux/fault-inject.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/swiotlb.h>

#include "fake_bridge.h"

#define NETDEV		"d0"

/*
 * A domain, some registrations and the end of all.
 *
 * @attach: on a PD of the caller's
 * @breaks: the queue pair fails before every invalidation, and every other time
 *	an event tells it
 * @access: of the registrations, @times
 * @error: the first that a call for something new returned
 * @left: what a call that ends something returned
 */
struct life {
	struct fake_ib *fake;
	struct ucb_buf *buf;
	bool attach;
	bool breaks;
	int access;
	unsigned int times;
	int error;
	int left;
};

static int register_once(struct life *life, struct ucb_pd *pd, bool told)
{
	struct ucb_mr *mr = ucb_mr_reg(pd, life->buf, life->access);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	if (life->breaks)
		fake_ib_break_qp(life->fake->last_qp, told);
	life->left = life->left ?: ucb_mr_dereg(&mr);
	return 0;
}

static void live(struct life *life)
{
	struct ib_pd *ibpd = NULL;
	struct ucb_pd *pd;
	unsigned int i;

	life->error = 0;
	life->left = 0;
	if (life->attach) {
		ibpd = ib_alloc_pd(&life->fake->ibdev, 0);
		if (IS_ERR(ibpd)) {
			life->error = PTR_ERR(ibpd);
			return;
		}
		pd = ucb_pd_attach(ibpd, 1);
	} else {
		pd = ucb_pd_get(&life->fake->ibdev, 1);
	}
	life->error = PTR_ERR_OR_ZERO(pd);

	for (i = 0; i < life->times && !life->error; i++)
		life->error = register_once(life, pd, i % 2);

	if (life->attach) {
		if (!IS_ERR(pd))
			life->left = life->left ?: ucb_pd_detach(pd);
		ib_dealloc_pd(ibpd);
	} else if (!IS_ERR(pd)) {
		ucb_pd_put(pd);
	}
}

static const struct life_param {
	const char *name;
	struct fake_ib_params device;
	enum fake_ib_fault fault;
	bool lasting;
	bool attach;
	bool breaks;
} life_params[] = {
	{ "RoCE", { .dma = true, .roce = true, .netdev = NETDEV } },
	{ "RoCE, soft", { .roce = true, .netdev = NETDEV } },
	{ "RoCE, for good", { .dma = true, .roce = true, .netdev = NETDEV }, .lasting = true },
	{ "InfiniBand with GRH", { .dma = true, .grh = true, .gids = true } },
	{ "attached", { .dma = true }, .attach = true },
	{ "rebuilt", { .dma = true }, .breaks = true },
	{ "error", { .dma = true }, .fault = FAKE_IB_ERROR },
	{ "error for good", { .dma = true }, .fault = FAKE_IB_ERROR, .lasting = true },
	{ "flush", { .dma = true }, .fault = FAKE_IB_FLUSH },
	{ "flush for good", { .dma = true }, .fault = FAKE_IB_FLUSH, .lasting = true },
	{ "flush, rebuilt", { .dma = true }, .fault = FAKE_IB_FLUSH, .breaks = true },
	{ "event", { .dma = true }, .fault = FAKE_IB_EVENT },
};

static void life_desc(const struct life_param *param, char *desc)
{
	strscpy(desc, param->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(life, life_params, life_desc);

static void verbs_walk(struct kunit *test)
{
	const struct life_param *param = test->param_value;
	struct life life = {
		.fake = fake_ib_get(test, &param->device),
		.buf = make_buf(test),
		.attach = param->attach,
		.breaks = param->breaks,
		.access = RD | WR,
		.times = 2,
	};
	unsigned int failed = 0;
	unsigned int hits;
	unsigned int nth;

	for (nth = 1; nth < MOST_VERBS; nth++) {
		fake_ib_fail(life.fake, nth, param->fault, param->lasting);
		live(&life);
		hits = fake_ib_heal(life.fake);
		KUNIT_EXPECT_EQ_MSG(test, life.left, 0, "verb %u", nth);
		expect_clean(test, life.fake, &life.buf);
		if (!hits)
			break;
		if (life.error) {
			failed++;
			KUNIT_EXPECT_TRUE_MSG(test, is_due(life.error), "verb %u: %d", nth,
					      life.error);
		}
		live(&life);
		KUNIT_ASSERT_EQ_MSG(test, life.error, 0, "not usable after verb %u", nth);
		KUNIT_ASSERT_EQ(test, life.left, 0);
		expect_clean(test, life.fake, &life.buf);
	}
	KUNIT_EXPECT_EQ_MSG(test, life.error, 0, "failed without a fault");
	KUNIT_EXPECT_LT(test, nth, MOST_VERBS);
	KUNIT_EXPECT_GT(test, nth, 1);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
	kunit_info(test, "%u verbs failed, %u of them reached the caller", nth - 1, failed);
}

/* The same with allocations that fail instead. */
static void verbs_no_memory(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true, .roce = true, .netdev = NETDEV };
	struct life life = {
		.fake = fake_ib_get(test, &params),
		.buf = make_buf(test),
		.breaks = true,
		.access = RD | WR,
		.times = 2,
	};
	unsigned int failed = 0;
	unsigned int left;
	unsigned int nth;

	for (nth = 1; nth < MOST_FAULTS; nth++) {
		current->fail_nth = nth;
		live(&life);
		left = current->fail_nth;
		current->fail_nth = 0;
		KUNIT_EXPECT_EQ_MSG(test, life.left, 0, "fault %u", nth);
		expect_clean(test, life.fake, &life.buf);
		if (left)
			break;
		if (life.error) {
			failed++;
			KUNIT_EXPECT_EQ_MSG(test, life.error, -ENOMEM, "fault %u", nth);
		}
		live(&life);
		KUNIT_ASSERT_EQ_MSG(test, life.error, 0, "not usable after fault %u", nth);
		expect_clean(test, life.fake, &life.buf);
	}
	KUNIT_EXPECT_EQ_MSG(test, life.error, 0, "failed without a fault");
	KUNIT_EXPECT_LT(test, nth, MOST_FAULTS);
	KUNIT_EXPECT_GT(test, nth, 1);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
	kunit_info(test, "%u faults, %u of them reached the caller", nth - 1, failed);
}

/* A pool that takes three registrations, on a device that keeps no MR for later. */
static void verbs_pool(struct kunit *test)
{
	const struct fake_ib_params device = { .pages = 4 };
	const struct ucb_pool_params shape = {
		.name = "verbs",
		.size = SZ_8K,
		.min = 6,
		.max = 6,
		.flags = UCB_POOL_RDMA,
	};
	struct fake_ib *fake = fake_ib_get(test, &device);
	struct ucb_pd *pd = ucb_pd_get(&fake->ibdev, 1);
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr;
	struct ucb_pool *pool;
	unsigned int failed = 0;
	unsigned int nth = 1;
	int fault;
	int error;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	pool = pool_get(test, f->udev, &shape);
	for (fault = FAKE_IB_REFUSE; fault <= FAKE_IB_ERROR; nth++) {
		KUNIT_ASSERT_LT(test, nth, MOST_VERBS);
		fake_ib_fail(fake, nth, fault, false);
		pmr = ucb_pool_mr_reg(pd, pool, RD | WR);
		error = PTR_ERR_OR_ZERO(pmr);
		if (!error) {
			KUNIT_EXPECT_EQ(test, ucb_pool_mr_get_count(pmr), 3);
			KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
		}
		KUNIT_EXPECT_EQ(test, atomic_read(&fake->nr_mrs), 0);
		/* nothing holds the pool any more */
		KUNIT_EXPECT_EQ(test, ucb_pool_resize(pool, 6, 6), 0);
		if (error) {
			failed++;
			KUNIT_EXPECT_TRUE_MSG(test, is_due(error), "verb %u: %d", nth, error);
		}
		if (!fake_ib_heal(fake)) {
			KUNIT_EXPECT_EQ_MSG(test, error, 0, "failed without a fault");
			KUNIT_EXPECT_GT(test, nth, 6);
			fault++;
			nth = 0;
		}
	}
	KUNIT_EXPECT_GT(test, failed, 6);
	ucb_pd_put(pd);
	KUNIT_EXPECT_EQ(test, fake->bad, 0);
	kunit_info(test, "%u reached the caller", failed);
}

struct silence {
	struct life life;
	struct completion over;
	unsigned int nth;
	unsigned int hits;
	s64 ms;
};

static int silent_thread(void *data)
{
	struct silence *s = data;
	ktime_t start = ktime_get();

	fake_ib_fail(s->life.fake, s->nth, FAKE_IB_SILENT, false);
	live(&s->life);
	s->hits = fake_ib_heal(s->life.fake);
	s->ms = ktime_ms_delta(ktime_get(), start);
	kthread_complete_and_exit(&s->over, 0);
}

/* A work request that never completes: a registration, and an invalidation. */
static void verbs_silent(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct task_struct *task;
	struct silence s[2] = {};
	int i;

	for (i = 0; i < ARRAY_SIZE(s); i++) {
		s[i].nth = i + 1;
		init_completion(&s[i].over);
		s[i].life.fake = fake_ib_get(test, &params);
		s[i].life.buf = make_buf(test);
		s[i].life.access = LOCAL;
		s[i].life.times = 1;
	}
	/* each waits out its bound, so both at once */
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		task = kthread_run(silent_thread, &s[i], "ucb_silent");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	}
	for (i = 0; i < ARRAY_SIZE(s); i++)
		wait_for_completion(&s[i].over);
	for (i = 0; i < ARRAY_SIZE(s); i++) {
		KUNIT_EXPECT_EQ(test, s[i].hits, 1);
		KUNIT_EXPECT_EQ(test, s[i].life.error, i ? 0 : -EIO);
		KUNIT_EXPECT_EQ(test, s[i].life.left, 0);
		KUNIT_EXPECT_LT(test, s[i].ms, 20000);
		expect_clean(test, s[i].life.fake, &s[i].life.buf);
		live(&s[i].life);
		KUNIT_EXPECT_EQ(test, s[i].life.error, 0);
		expect_clean(test, s[i].life.fake, &s[i].life.buf);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(s[i].life.buf), 0);
	}
}

/*
 * A device takes a part of what it is given and says so, or does not; at the
 * end, one entry, it has taken nothing and calls that success.
 */
static void verbs_map_a_part(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct life life = {
		.fake = fake_ib_get(test, &params),
		.buf = make_buf(test),
		.access = RD,
		.times = 1,
	};

	life.fake->map_entries = 1;
	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, -EOPNOTSUPP);
	expect_clean(test, life.fake, &life.buf);

	life.fake->map_entries = 0;
	life.fake->map_bytes = 1;
	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, -EOPNOTSUPP);
	expect_clean(test, life.fake, &life.buf);

	life.fake->map_bytes = 0;
	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, 0);
	expect_clean(test, life.fake, &life.buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
}

static void verbs_no_fast_registration(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true, .no_fast_reg = true };
	struct life life = {
		.fake = fake_ib_get(test, &params),
		.buf = make_buf(test),
	};

	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, -EOPNOTSUPP);
	life.attach = true;
	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, -EOPNOTSUPP);
	expect_clean(test, life.fake, &life.buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
}

static struct io_tlb_mem *real_tlb;

static void restore_tlb(void *data)
{
	struct fake_ib *fake = data;

	fake->pdev->dev.dma_io_tlb_mem = real_tlb;
}

/* A device for which memory is bounced: all of it, or what it cannot address. */
static void verbs_bounced(struct kunit *test)
{
	const struct fake_ib_params params[] = { { .dma = true }, { } };
	struct life life = { .buf = make_buf(test), .access = RD, .times = 1 };
	struct io_tlb_mem *tlb = kunit_kzalloc(test, sizeof(*tlb), GFP_KERNEL);
	struct device *dev;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, tlb);
	tlb->nslabs = 1;
	tlb->force_bounce = true;
	for (i = 0; i < ARRAY_SIZE(params); i++) {
		life.fake = fake_ib_get(test, &params[i]);
		dev = &life.fake->pdev->dev;
		real_tlb = dev->dma_io_tlb_mem;
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, restore_tlb, life.fake), 0);
		dev->dma_io_tlb_mem = tlb;
		live(&life);
		KUNIT_EXPECT_EQ(test, life.error, i ? 0 : -EOPNOTSUPP);
		kunit_release_action(test, restore_tlb, life.fake);
		live(&life);
		KUNIT_EXPECT_EQ(test, life.error, 0);

		KUNIT_ASSERT_EQ(test, dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(24)), 0);
		live(&life);
		KUNIT_EXPECT_EQ(test, life.error, i ? 0 : -EOPNOTSUPP);
		expect_clean(test, life.fake, &life.buf);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
}

/* A limit of 3 pages, of the 5 that a buffer has. */
static void verbs_small_limit(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true, .pages = 3 };
	const size_t limit = 3 * PAGE_SIZE;
	static const struct {
		size_t offset;
		size_t length;
		int error;
	} rows[] = {
		{ 0, 3 * PAGE_SIZE, 0 },
		{ PAGE_SIZE, 3 * PAGE_SIZE, 0 },
		{ 0, 3 * PAGE_SIZE + 1, -E2BIG },
		{ 1, 3 * PAGE_SIZE, -E2BIG },
		{ PAGE_SIZE - 1, 2 * PAGE_SIZE + 1, 0 },
		{ PAGE_SIZE - 1, 2 * PAGE_SIZE + 2, -E2BIG },
		{ 0, BUF_SIZE, -E2BIG },
		{ BUF_SIZE - 1, 1, 0 },
	};
	struct fake_ib *fake = fake_ib_get(test, &params);
	struct ucb_buf *buf = make_buf(test);
	struct ucb_pd *pd = ucb_pd_get(&fake->ibdev, 1);
	struct ucb_mr *mr;
	int i;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		mr = ucb_mr_reg_range(pd, buf, rows[i].offset, rows[i].length, RD);
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(mr), rows[i].error, "row %d", i);
		if (IS_ERR(mr))
			continue;
		KUNIT_EXPECT_LE(test, ucb_mr_get_size(mr), limit);
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	}
	ucb_pd_put(pd);
	expect_clean(test, fake, &buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* A port without an address, and one that is down and comes up. */
static void verbs_port(struct kunit *test)
{
	static const struct fake_ib_params params[] = {
		{ .dma = true, .roce = true },		/* no netdev */
		{ .dma = true, .grh = true },		/* no GID */
		{ .dma = true },			/* needs none */
	};
	struct life life = {
		.buf = make_buf(test),
		.access = RD,
		.times = 1,
	};
	struct ucb_pd *pd;
	struct ucb_mr *mr;
	int i;

	for (i = 0; i < ARRAY_SIZE(params); i++) {
		life.fake = fake_ib_get(test, &params[i]);
		live(&life);
		KUNIT_EXPECT_EQ(test, life.error, i < 2 ? -EAGAIN : 0);
		expect_clean(test, life.fake, &life.buf);
	}

	life.fake->port = IB_PORT_DOWN;
	pd = ucb_pd_get(&life.fake->ibdev, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, life.buf, RD)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, atomic_read(&life.fake->qps), 0);
	life.fake->port = IB_PORT_ACTIVE;
	mr = ucb_mr_reg(pd, life.buf, RD);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));

	/* it goes down, and takes the queue pair with it: no key is left */
	life.fake->port = IB_PORT_DOWN;
	fake_ib_break_qp(life.fake->last_qp, true);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&life.fake->nr_mrs), 0);
	ucb_pd_put(pd);
	expect_clean(test, life.fake, &life.buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
}

/* Refused on a queue pair that was made for it: to wait would not help. */
static void verbs_refused(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct fake_ib *fake = fake_ib_get(test, &params);
	struct ucb_pd *pd = ucb_pd_get(&fake->ibdev, 1);
	struct ucb_buf *buf = make_buf(test);
	struct ucb_mr *mr;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	fake->no_post = -EOPNOTSUPP;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EIO);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->qps), 0);
	fake->no_post = 0;
	mr = ucb_mr_reg(pd, buf, RD);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	ucb_pd_put(pd);
	expect_clean(test, fake, &buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/*
 * Keys on a device that keeps an MR for another registration: always
 * invalidated before, never one twice, and a new MR when all 256 are used up.
 * The device counts as bad what is otherwise.
 */
static void verbs_keys(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	const unsigned int times = 2 * FAKE_IB_KEYS + 10;
	struct life life = {
		.fake = fake_ib_get(test, &params),
		.buf = make_buf(test),
		.access = RD | WR,
		.times = times,
	};

	live(&life);
	KUNIT_EXPECT_EQ(test, life.error, 0);
	KUNIT_EXPECT_EQ(test, life.fake->made, 3);
	KUNIT_EXPECT_EQ(test, life.fake->posted, 2 * times);
	expect_clean(test, life.fake, &life.buf);

	/* where an invalidation fails the MR is not used again */
	life.fake->made = 0;
	life.times = 5;
	fake_ib_fail(life.fake, 2, FAKE_IB_ERROR, false);
	live(&life);
	KUNIT_EXPECT_EQ(test, fake_ib_heal(life.fake), 1);
	KUNIT_EXPECT_EQ(test, life.error, 0);
	KUNIT_EXPECT_EQ(test, life.fake->made, 2);
	expect_clean(test, life.fake, &life.buf);

	/* on a soft device one that a peer could reach never is */
	life.fake = fake_ib_get(test, &(struct fake_ib_params){ });
	live(&life);
	KUNIT_EXPECT_EQ(test, life.fake->made, 5);
	expect_clean(test, life.fake, &life.buf);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(life.buf), 0);
}

/* The device goes, with registrations on it and verbs that fail. */
static void verbs_removed(struct kunit *test)
{
	const struct fake_ib_params params = { .dma = true };
	struct fake_ib *fake;
	struct ucb_buf *buf[3];
	struct ucb_mr *mr[3];
	struct ucb_pd *pd;
	unsigned int nth;
	int i;

	for (i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = make_buf(test);
	for (nth = 0; nth < 4; nth++) {
		fake = fake_ib_get(test, &params);
		pd = ucb_pd_get(&fake->ibdev, 1);
		KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
		for (i = 0; i < ARRAY_SIZE(mr); i++) {
			mr[i] = ucb_mr_reg(pd, buf[i], RD | WR);
			KUNIT_ASSERT_FALSE(test, IS_ERR(mr[i]));
		}
		fake_ib_fail(fake, nth, FAKE_IB_REFUSE, true);
		fake_ib_unregister(fake);
		fake_ib_heal(fake);
		for (i = 0; i < ARRAY_SIZE(mr); i++) {
			KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[i]), 0);
			expect_clean(test, fake, &buf[i]);
		}
		ucb_pd_put(pd);
	}
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[i]), 0);
}

static struct kunit_case verbs_cases[] = {
	KUNIT_CASE_PARAM(verbs_walk, life_gen_params),
	KUNIT_CASE_SLOW(verbs_no_memory),
	KUNIT_CASE(verbs_pool),
	KUNIT_CASE_SLOW(verbs_silent),
	KUNIT_CASE(verbs_map_a_part),
	KUNIT_CASE(verbs_no_fast_registration),
	KUNIT_CASE(verbs_bounced),
	KUNIT_CASE(verbs_small_limit),
	KUNIT_CASE(verbs_port),
	KUNIT_CASE(verbs_refused),
	KUNIT_CASE(verbs_keys),
	KUNIT_CASE(verbs_removed),
	{}
};

static struct kunit_suite verbs_suite = {
	.name = "ucb_verbs",
	.init = fake_bridge_init,
	.test_cases = verbs_cases,
};

kunit_test_suite(verbs_suite);

MODULE_DESCRIPTION("KUnit: the bridge on an RDMA device whose verbs fail");
MODULE_LICENSE("GPL");
