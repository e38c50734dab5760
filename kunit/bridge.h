/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of the bridge under a failing device share: a pool on an xHCI
 * controller, the RDMA device rxe0, and a peer of it.
 */
#ifndef _UCB_KUNIT_BRIDGE_H
#define _UCB_KUNIT_BRIDGE_H

#include <ucb/pool.h>
#include <ucb/rdma.h>

#include "fake_hcd.h"
#include "rdma_device.h"
#include "rdma_peer.h"

#define RD	IB_ACCESS_REMOTE_READ
#define WR	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE)
#define LOCAL	IB_ACCESS_LOCAL_WRITE
#define OK	IB_WC_SUCCESS
#define REFUSED	IB_WC_REM_ACCESS_ERR

struct fixture {
	struct ib_device *rxe;
	struct fake_hcd *hcd;
	struct ucb_pool *pool;
};

KUNIT_DEFINE_ACTION_WRAPPER(put_rxe, ib_device_put, struct ib_device *);
KUNIT_DEFINE_ACTION_WRAPPER(put_pd, ucb_pd_put, struct ucb_pd *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_pool, ucb_pool_destroy, struct ucb_pool *);

static inline int bridge_test_init(struct kunit *test)
{
	const struct ucb_pool_params params = {
		.name = "bridge_kunit",
		.size = SZ_64K,
		.flags = UCB_POOL_RDMA,
	};
	struct fixture *f;
	int err;

	f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	if (!f)
		return -ENOMEM;
	f->rxe = rdma_device_on("d0");
	KUNIT_ASSERT_NOT_NULL_MSG(test, f->rxe, "no RDMA device on the netdev d0");
	err = kunit_add_action_or_reset(test, put_rxe, f->rxe);
	if (err)
		return err;
	f->hcd = fake_hcd_get(test, REAL_XHCI);
	f->pool = ucb_pool_create(f->hcd->udev, &params);
	if (IS_ERR(f->pool))
		return PTR_ERR(f->pool);
	test->priv = f;
	return kunit_add_action_or_reset(test, destroy_pool, f->pool);
}

static inline struct ucb_pd *make_pd(struct kunit *test, struct ib_device *ibdev)
{
	struct ucb_pd *pd = ucb_pd_get(ibdev, 1);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(pd), "pd: %ld", PTR_ERR(pd));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_pd, pd), 0);
	return pd;
}

static inline struct ucb_buf *make_buf(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf = ucb_buf_alloc(f->pool, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	return buf;
}

static inline struct ucb_mr *make_mr(struct kunit *test, struct ucb_pd *pd,
				     struct ucb_buf *buf, int access)
{
	struct ucb_mr *mr = ucb_mr_reg(pd, buf, access);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	return mr;
}

static inline struct ucb_mr_remote remote_of(struct kunit *test, struct ucb_mr *mr)
{
	struct ucb_mr_remote remote = {};
	u8 desc[UCB_MR_DESC_SIZE];

	KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor(mr, desc), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
							    &remote), 0);
	return remote;
}

static inline bool is_revoked(struct ucb_mr *mr)
{
	u8 desc[UCB_MR_DESC_SIZE];

	return ucb_mr_get_descriptor(mr, desc) == -ENODEV;
}

static inline void wait_revoked(struct kunit *test, struct ucb_mr *mr)
{
	ktime_t end = ktime_add_ms(ktime_get(), BOUND_MS);

	while (!is_revoked(mr) && ktime_before(ktime_get(), end))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, is_revoked(mr));
}

/* The peer READs the buffer and gets its bytes. */
static inline void expect_read(struct kunit *test, struct peer *peer, struct ucb_mr *mr, u8 fill)
{
	struct ucb_mr_remote r = remote_of(test, mr);

	memset(ucb_mr_get_ptr(mr), fill, r.size);
	memset(peer->mem, ~fill, r.size);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, r.size), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, fill, r.size));
}

/* All is as before: the pool gives a buffer, and rxe0 gives it a key. */
static inline void expect_pool_works(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_pd *pd = make_pd(test, f->rxe);
	struct ucb_buf *buf = make_buf(test);
	struct ucb_mr *mr = make_mr(test, pd, buf, RD);
	struct peer *peer = peer_create(test, f->rxe, ucb_pd_ib(pd), SZ_64K);

	expect_read(test, peer, mr, 0x42);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

#endif /* _UCB_KUNIT_BRIDGE_H */
