/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suites of the bridge share: the RDMA devices that the guest has, a
 * trust domain on the one that the case names, and a pool on a USB device of the
 * controller that it names. What is missing fails the case.
 */
#ifndef _UCB_KUNIT_MR_FIXTURE_H
#define _UCB_KUNIT_MR_FIXTURE_H

#include <linux/module.h>
#include <ucb/rdma.h>

#include "fake_hcd.h"
#include "rdma_peer.h"

#define RD	IB_ACCESS_REMOTE_READ
#define WR	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE)
#define OK	IB_WC_SUCCESS
#define REFUSED	IB_WC_REM_ACCESS_ERR

/*
 * A device that isolates (rxe), a second one of those to be removed, and one of
 * another transport, held to function only (siw).
 */
static struct ib_device *rxe;
static struct ib_device *spare;
static struct ib_device *siw;

static int find_add(struct ib_device *ibdev)
{
	if (strstarts(dev_name(&ibdev->dev), "siw") && !siw)
		siw = ibdev;
	if (!strstarts(dev_name(&ibdev->dev), "rxe"))
		return 0;
	if (!rxe)
		rxe = ibdev;
	else if (!spare)
		spare = ibdev;
	return 0;
}

static void find_remove(struct ib_device *ibdev, void *data)
{
	if (rxe == ibdev)
		rxe = NULL;
	if (spare == ibdev)
		spare = NULL;
	if (siw == ibdev)
		siw = NULL;
}

static struct ib_client find_client = {
	.name = "ucb_kunit",
	.add = find_add,
	.remove = find_remove,
};

/* .suite_init and .suite_exit */
static inline int find_rdma(struct kunit_suite *suite)
{
	return ib_register_client(&find_client);
}

static inline void find_rdma_end(struct kunit_suite *suite)
{
	ib_unregister_client(&find_client);
}

/* What every device must do is tried on both transports, what siw cannot, on rxe. */
static const struct fake_param controllers[] = {
	{ "PIO: dummy_hcd", REAL_DUMMY },
	{ "DMA: qemu-xhci", REAL_XHCI },
};

static const struct fake_param transports[] = {
	{ "PIO: dummy_hcd, rxe", REAL_DUMMY },
	{ "DMA: qemu-xhci, rxe", REAL_XHCI },
	{ "PIO: dummy_hcd, siw", REAL_DUMMY, true },
	{ "DMA: qemu-xhci, siw", REAL_XHCI, true },
};

static const struct fake_param iwarps[] = {
	{ "PIO: dummy_hcd", REAL_DUMMY, true },
	{ "DMA: qemu-xhci", REAL_XHCI, true },
};

static __maybe_unused UCB_KUNIT_GEN_PARAMS(controller_gen_params, prev, desc)
{
	return fake_param_next(controllers, ARRAY_SIZE(controllers), prev, desc);
}

static __maybe_unused UCB_KUNIT_GEN_PARAMS(transport_gen_params, prev, desc)
{
	return fake_param_next(transports, ARRAY_SIZE(transports), prev, desc);
}

static __maybe_unused UCB_KUNIT_GEN_PARAMS(iwarp_gen_params, prev, desc)
{
	return fake_param_next(iwarps, ARRAY_SIZE(iwarps), prev, desc);
}

struct fixture {
	struct ib_device *ibdev;
	struct usb_device *udev;
	struct ucb_pd *pd;
	struct ucb_pool *pool;
};

/* An action, so that it runs after those of the case: its peers use the PD. */
static inline void put_fixture(void *data)
{
	struct fixture *f = data;

	ucb_pool_destroy(f->pool);
	f->pool = NULL;
	if (!IS_ERR_OR_NULL(f->pd))
		ucb_pd_put(f->pd);
}

/* .init */
static inline int make_fixture(struct kunit *test)
{
	const struct fake_param *param = test->param_value ?: &controllers[0];
	struct ib_device *ibdev = param->iwarp ? siw : rxe;
	struct ib_port_attr port;
	struct fixture *f;

	KUNIT_ASSERT_NOT_NULL_MSG(test, ibdev, "no RDMA device named %s*",
				  param->iwarp ? "siw" : "rxe");
	KUNIT_ASSERT_EQ(test, ib_query_port(ibdev, 1, &port), 0);
	KUNIT_ASSERT_EQ(test, port.state, IB_PORT_ACTIVE);

	f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, f);
	f->ibdev = ibdev;
	f->udev = fake_hcd_get(test, param->kind)->udev;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_fixture, f), 0);
	f->pd = ucb_pd_get(ibdev, 1);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(f->pd), "PD: %ld", PTR_ERR(f->pd));
	test->priv = f;
	return 0;
}

static inline void make_pool(struct kunit *test, size_t size, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = "bridge",
		.size = size,
		.flags = flags,
	};
	struct fixture *f = test->priv;
	struct ucb_pool *pool;

	pool = ucb_pool_create(f->udev, &params);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(pool), "pool: %ld", PTR_ERR(pool));
	f->pool = pool;
}

static inline void drop_pool(struct kunit *test)
{
	struct fixture *f = test->priv;

	ucb_pool_destroy(f->pool);
	f->pool = NULL;
}

static inline struct ucb_buf *make_buf(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf;

	buf = ucb_buf_alloc(f->pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	return buf;
}

static inline struct ucb_mr *make_mr(struct kunit *test, struct ucb_buf *buf, int access)
{
	struct fixture *f = test->priv;
	struct ucb_mr *mr;

	mr = ucb_mr_reg(f->pd, buf, access);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	return mr;
}

/* What a peer learns, by way of the descriptor. */
static inline struct ucb_mr_remote remote_of(struct kunit *test, struct ucb_mr *mr)
{
	struct ucb_mr_remote remote = {};
	u8 desc[UCB_MR_DESC_SIZE];

	KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor_size(mr), sizeof(desc));
	KUNIT_ASSERT_EQ(test, ucb_mr_get_descriptor(mr, desc), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
							    &remote), 0);
	KUNIT_EXPECT_EQ(test, remote.rkey, ucb_mr_get_rkey(mr));
	KUNIT_EXPECT_EQ(test, remote.size, ucb_mr_get_size(mr));
	/* no kernel address goes out */
	KUNIT_EXPECT_LT(test, remote.addr, PAGE_SIZE);
	return remote;
}

/* A peer of the fixture's domain, with @size bytes of its own. */
static inline struct peer *make_peer(struct kunit *test, size_t size)
{
	struct fixture *f = test->priv;

	return peer_create(test, f->ibdev, ucb_pd_ib(f->pd), size);
}

/* That the peer READs the registered bytes. */
static inline void expect_reads(struct kunit *test, struct peer *peer, struct ucb_mr *mr,
				u8 fill)
{
	struct ucb_mr_remote r = remote_of(test, mr);

	memset(ucb_mr_get_ptr(mr), fill, r.size);
	memset(peer->mem, ~fill, r.size);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, r.size), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, fill, r.size));
}

#endif /* _UCB_KUNIT_MR_FIXTURE_H */
