/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of the bridge on a fake RDMA device share: a pool, and that
 * nothing is left on the device or of a buffer.
 */
#ifndef _UCB_KUNIT_FAKE_BRIDGE_H
#define _UCB_KUNIT_FAKE_BRIDGE_H

#include <ucb/pool.h>
#include <ucb/rdma.h>

#include "fake_hcd.h"
#include "fake_ib.h"

#define RD	IB_ACCESS_REMOTE_READ
#define WR	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE)
#define LOCAL	IB_ACCESS_LOCAL_WRITE

#define MOST_VERBS	200
#define MOST_FAULTS	2000
#define BUF_SIZE	20000

struct fixture {
	struct usb_device *udev;
	struct ucb_pool *pool;
};

/* Where make_buf() takes from; of the case's, as the one before was. */
static inline struct ucb_pool *new_pool(struct kunit *test)
{
	const struct ucb_pool_params params = {
		.name = "fake_bridge",
		.size = BUF_SIZE,
		.flags = UCB_POOL_RDMA,
	};
	struct fixture *f = test->priv;

	f->pool = pool_get(test, f->udev, &params);
	return f->pool;
}

/* .init */
static inline int fake_bridge_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->udev = fake_hcd_get(test, FAKE_DMA)->udev;
	new_pool(test);
	return 0;
}

static inline struct ucb_buf *make_buf(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf = ucb_buf_alloc(f->pool, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	return buf;
}

/* Nothing is left on the device, and the buffer can be freed. */
static inline void expect_clean(struct kunit *test, struct fake_ib *fake, struct ucb_buf **buf)
{
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->pds), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->cqs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->qps), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->nr_mrs), 0);
	KUNIT_EXPECT_EQ(test, fake->bad, 0);
	KUNIT_ASSERT_EQ(test, ucb_buf_free(*buf), 0);
	*buf = make_buf(test);
}

/* An error that a verb gave, or what the calls make of it. */
static inline bool is_due(int error)
{
	return error == -ENOMEM || error == -EIO || error == -EINVAL || error == -EAGAIN ||
	       error == -ENOTCONN || error == -ENOBUFS;
}

#endif /* _UCB_KUNIT_FAKE_BRIDGE_H */
