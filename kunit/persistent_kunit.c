// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent keys: a pool registered as a whole.
 */
#include <linux/sizes.h>

#include "mr_fixture.h"

static void make_fixed_pool(struct kunit *test, size_t size, unsigned int nr)
{
	const struct ucb_pool_params params = {
		.name = "persistent",
		.size = size,
		.min = nr,
		.max = nr,
		.flags = UCB_POOL_RDMA,
	};
	struct fixture *f = test->priv;
	struct ucb_pool *pool;

	pool = ucb_pool_create(f->udev, &params);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(pool), "pool: %ld", PTR_ERR(pool));
	f->pool = pool;
}

static struct ucb_pool_mr *reg_pool(struct kunit *test, struct ucb_pd *pd, int access)
{
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr;

	pmr = ucb_pool_mr_reg(pd, f->pool, access);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(pmr), "reg: %ld", PTR_ERR(pmr));
	return pmr;
}

static struct ucb_mr_remote remote_of_buf(struct kunit *test, struct ucb_pool_mr *pmr,
					  struct ucb_buf *buf)
{
	struct ucb_mr_remote remote = {};
	u8 desc[UCB_MR_DESC_SIZE];

	KUNIT_ASSERT_EQ(test, ucb_pool_mr_get_descriptor(pmr, buf, desc), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc), &remote), 0);
	KUNIT_EXPECT_EQ(test, remote.size, ucb_buf_size(buf));
	return remote;
}

static const struct fake_param shapes[] = {
	{ "PIO, 8 of a page", REAL_DUMMY, .size = 512, .nr = 64 },
	{ "PIO, 16 pages", REAL_DUMMY, .size = SZ_64K, .nr = 40 },
	{ "DMA, part of a page", REAL_XHCI, .size = 3000, .nr = 50 },
	{ "DMA, a page", REAL_XHCI, .size = SZ_4K, .nr = 520 },
	{ "DMA, 5 pages", REAL_XHCI, .size = 17000, .nr = 120 },
	{ "DMA, the most an MR takes", REAL_XHCI, .size = SZ_2M, .nr = 3 },
};

static UCB_KUNIT_GEN_PARAMS(shape_gen_params, prev, desc)
{
	return fake_param_next(shapes, ARRAY_SIZE(shapes), prev, desc);
}

/* Each buffer has bytes of its own, for the peer and from it. */
static void persistent_reads_and_writes(struct kunit *test)
{
	const struct fake_param *shape = test->param_value;
	struct fixture *f = test->priv;
	struct ucb_mr_remote remote;
	struct ucb_pool_mr *pmr;
	struct ucb_buf **bufs;
	struct peer *peer;
	unsigned int i;
	size_t check;
	u8 *mem;

	f->udev = fake_hcd_get(test, shape->kind)->udev;
	make_fixed_pool(test, shape->size, shape->nr);
	bufs = kunit_kcalloc(test, shape->nr, sizeof(*bufs), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bufs);
	pmr = reg_pool(test, f->pd, RD | WR);
	check = min_t(size_t, shape->size, SZ_8K);
	peer = make_peer(test, check);

	for (i = 0; i < shape->nr; i++) {
		bufs[i] = make_buf(test);
		memset32(ucb_buf_addr(bufs[i]), i, shape->size / 4);
	}
	for (i = 0; i < shape->nr; i++) {
		remote = remote_of_buf(test, pmr, bufs[i]);
		mem = ucb_buf_addr(bufs[i]) + shape->size - check;
		remote.addr += shape->size - check;
		KUNIT_ASSERT_EQ(test, peer_read(peer, remote.addr, remote.rkey, check), OK);
		KUNIT_ASSERT_EQ(test, memcmp(peer->mem, mem, check), 0);
		memset32(peer->mem, ~i, check / 4);
		KUNIT_ASSERT_EQ(test, peer_write(peer, remote.addr, remote.rkey, check), OK);
	}
	for (i = 0; i < shape->nr; i++) {
		u32 *word = ucb_buf_addr(bufs[i]) + shape->size - check;

		KUNIT_EXPECT_EQ(test, word[0], ~i);
		KUNIT_EXPECT_EQ(test, word[check / 4 - 1], ~i);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(bufs[i]), 0);
	}
	/* at home or out: it is the peer's to reach */
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, check), OK);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_NULL(test, pmr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, check), REFUSED);
}

/* 64 MiB take at most as many MRs as their bytes need. */
static void persistent_64_mib(struct kunit *test)
{
	u32 limit = rxe->attrs.max_fast_reg_page_list_len;
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr;

	f->udev = fake_hcd_get(test, REAL_XHCI)->udev;
	make_fixed_pool(test, SZ_64K, SZ_64M / SZ_64K);
	pmr = reg_pool(test, f->pd, RD | WR);
	kunit_info(test, "%u MRs of %u pages", ucb_pool_mr_get_count(pmr), limit);
	KUNIT_EXPECT_LE(test, ucb_pool_mr_get_count(pmr),
			DIV_ROUND_UP(SZ_64M, limit * PAGE_SIZE));
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
}

/* No bytes of before are shown; bytes of two peers at once are shared. */
static void persistent_zeroed(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_mr_remote remote;
	struct ucb_pool_mr *second;
	struct ucb_pool_mr *pmr;
	struct ucb_pd *other;
	struct ucb_buf *buf[8];
	struct peer *peer;
	int i;

	make_fixed_pool(test, SZ_16K, ARRAY_SIZE(buf));
	for (i = 0; i < 2; i++) {
		buf[0] = make_buf(test);
		memset(ucb_buf_addr(buf[0]), 0x5e, SZ_16K);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[0]), 0);
	}
	pmr = reg_pool(test, f->pd, RD | WR);
	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		buf[i] = make_buf(test);
		KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(buf[i]), 0, SZ_16K));
		memset(ucb_buf_addr(buf[i]), 0x5e, SZ_16K);
	}

	other = ucb_pd_get(rxe, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	second = reg_pool(test, other, RD);
	peer = peer_create(test, rxe, ucb_pd_ib(other), SZ_16K);
	remote = remote_of_buf(test, second, buf[0]);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, SZ_16K), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0x5e, SZ_16K));

	/* one key's end is not the other's */
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, SZ_16K), OK);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&second), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, SZ_16K), REFUSED);
	kunit_release_action(test, peer_destroy, peer);
	ucb_pd_put(other);
	for (i = 0; i < ARRAY_SIZE(buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[i]), 0);
}

/* One buffer, two domains, two keys: each works on its own, and ends so. */
static void persistent_two_domains(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_pd *pds[2] = { f->pd };
	struct ucb_mr_remote remote[2];
	struct peer *peers[2];
	struct ucb_mr *mr[2];
	struct ucb_buf *buf;
	int i;

	make_pool(test, SZ_16K, UCB_POOL_RDMA);
	buf = make_buf(test);
	get_random_bytes(ucb_buf_addr(buf), SZ_16K);
	pds[1] = ucb_pd_get(rxe, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pds[1]));
	for (i = 0; i < 2; i++) {
		peers[i] = peer_create(test, rxe, ucb_pd_ib(pds[i]), SZ_16K);
		mr[i] = ucb_mr_reg(pds[i], buf, RD | WR);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr[i]));
		remote[i] = remote_of(test, mr[i]);
	}
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, peer_read(peers[i], remote[i].addr, remote[i].rkey,
						SZ_16K), OK);
		KUNIT_EXPECT_EQ(test, memcmp(peers[i]->mem, ucb_buf_addr(buf), SZ_16K), 0);
		/* and not by the other's key */
		KUNIT_EXPECT_EQ(test, peer_read(peers[i], remote[!i].addr, remote[!i].rkey,
						SZ_16K), REFUSED);
		KUNIT_ASSERT_EQ(test, peer_connect(peers[i]), 0);
	}
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[0]), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -EBUSY);
	KUNIT_EXPECT_EQ(test, peer_read(peers[1], remote[1].addr, remote[1].rkey, SZ_16K), OK);
	KUNIT_EXPECT_EQ(test, peer_read(peers[0], remote[0].addr, remote[0].rkey, SZ_16K),
			REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr[1]), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	kunit_release_action(test, peer_destroy, peers[1]);
	ucb_pd_put(pds[1]);
}

static long try_reg(struct kunit *test, struct ucb_pool *pool, int access)
{
	struct fixture *f = test->priv;

	return PTR_ERR_OR_ZERO(ucb_pool_mr_reg(f->pd, pool, access));
}

static void persistent_refuse(struct kunit *test)
{
	struct ucb_pool_params params = {
		.name = "persistent",
		.size = SZ_4K,
		.min = 16,
		.max = 16,
	};
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr = NULL;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_pool *other;
	struct ucb_buf *buf;
	size_t offset;

	/* what can grow or shrink, what watches its bytes, what has no pages */
	make_pool(test, SZ_4K, UCB_POOL_RDMA);
	KUNIT_EXPECT_EQ(test, try_reg(test, f->pool, RD), -EINVAL);
	drop_pool(test);
	other = pool_get(test, f->udev, &params);
	KUNIT_EXPECT_EQ(test, try_reg(test, other, RD), -EOPNOTSUPP);
	params.flags = UCB_POOL_RDMA | UCB_POOL_DEBUG;
	other = pool_get(test, f->udev, &params);
	KUNIT_EXPECT_EQ(test, try_reg(test, other, RD), -EOPNOTSUPP);
	params.flags = UCB_POOL_RDMA;
	other = pool_get(test, fake_hcd_get(test, FAKE_LOCALMEM)->udev, &params);
	KUNIT_EXPECT_EQ(test, try_reg(test, other, RD), -EOPNOTSUPP);
	params.size = SZ_2M + SZ_4K;
	params.min = 1;
	params.max = 1;
	other = pool_get(test, f->udev, &params);
	KUNIT_EXPECT_EQ(test, try_reg(test, other, RD), -E2BIG);

	make_fixed_pool(test, SZ_4K, 16);
	KUNIT_EXPECT_EQ(test, try_reg(test, f->pool, IB_ACCESS_REMOTE_WRITE), -EINVAL);
	KUNIT_EXPECT_EQ(test, try_reg(test, f->pool, -1), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pool_mr_reg(NULL, f->pool, RD)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pool_mr_reg(f->pd, NULL, RD)), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), -EINVAL);
	/* it would be zeroed under its owner */
	buf = make_buf(test);
	KUNIT_EXPECT_EQ(test, try_reg(test, f->pool, RD), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);

	/* what was refused has left nothing behind */
	KUNIT_EXPECT_EQ(test, ucb_pool_resize(f->pool, 16, 16), 0);
	pmr = reg_pool(test, f->pd, RD);
	KUNIT_EXPECT_EQ(test, ucb_pool_resize(f->pool, 16, 32), -EBUSY);
	buf = ucb_buf_alloc(other, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_get_descriptor(pmr, buf, desc), -ENOENT);
	KUNIT_EXPECT_NULL(test, ucb_pool_mr_find(pmr, buf, &offset));
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_get_descriptor(NULL, buf, desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_get_descriptor(pmr, NULL, desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_EQ(test, ucb_pool_resize(f->pool, 16, 32), 0);
}

/* A buffer at home is no reason not to end: C16, C17 for whole pools */
static void persistent_revoke(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_mr_remote remote;
	struct ucb_pool_mr *pmr;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_buf *buf;
	struct peer *peer;
	ktime_t start;
	int status;

	make_fixed_pool(test, SZ_64K, 40);
	pmr = reg_pool(test, f->pd, RD | WR);
	buf = make_buf(test);
	peer = make_peer(test, SZ_64K);
	remote = remote_of_buf(test, pmr, buf);
	KUNIT_EXPECT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, remote.addr, remote.rkey,
					SZ_64K), 0);
	start = ktime_get();
	drop_pool(test);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 10000);
	status = peer_wait(peer);
	KUNIT_EXPECT_TRUE(test, status == OK || status == REFUSED);
	if (status != OK)
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, SZ_64K), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_get_descriptor(pmr, buf, desc), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);
}

/* Posts on a buffer of the pool: by the registration that it is in */
static void persistent_post(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_pool_mr *pmr;
	struct ucb_pd *far_pd;
	struct ucb_pool_mr *far;
	struct ucb_mr_remote remote;
	struct ucb_buf *to;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	size_t offset;

	make_fixed_pool(test, 3000, 20);
	peer = make_peer(test, PAGE_SIZE);
	far_pd = ucb_pd_attach(peer->pd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(far_pd));
	pmr = reg_pool(test, f->pd, IB_ACCESS_LOCAL_WRITE);
	far = reg_pool(test, far_pd, RD | WR);
	buf = make_buf(test);
	to = make_buf(test);
	get_random_bytes(ucb_buf_addr(buf), 3000);
	remote = remote_of_buf(test, far, to);
	mr = ucb_pool_mr_find(pmr, buf, &offset);
	KUNIT_ASSERT_NOT_NULL(test, mr);
	reinit_completion(&peer->done);
	KUNIT_ASSERT_EQ(test, ucb_post_write(peer->near, &peer->cqe, mr, offset, &remote, 0,
					     3000, IB_SEND_SIGNALED), 0);
	KUNIT_EXPECT_EQ(test, peer_wait(peer), OK);
	KUNIT_EXPECT_EQ(test, memcmp(ucb_buf_addr(to), ucb_buf_addr(buf), 3000), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(to), 0);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&pmr), 0);
	KUNIT_EXPECT_EQ(test, ucb_pool_mr_dereg(&far), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(far_pd), 0);
}

static struct kunit_case persistent_cases[] = {
	KUNIT_CASE_PARAM(persistent_reads_and_writes, shape_gen_params),
	KUNIT_CASE_SLOW(persistent_64_mib),
	KUNIT_CASE(persistent_zeroed),
	KUNIT_CASE(persistent_two_domains),
	KUNIT_CASE(persistent_refuse),
	KUNIT_CASE(persistent_revoke),
	KUNIT_CASE(persistent_post),
	{}
};

static struct kunit_suite persistent_suite = {
	.name = "ucb_persistent",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = persistent_cases,
};

kunit_test_suite(persistent_suite);

MODULE_DESCRIPTION("KUnit: keys of whole pools");
MODULE_LICENSE("GPL");
