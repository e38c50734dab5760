// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations, seen from a remote peer.
 *
 * Needs an RDMA device that isolates (rxe) with an active port, and USB devices:
 * the cases run on memory of a PIO and of a DMA controller, where there is one.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>
#include <linux/vmalloc.h>
#include <rdma/rdma_cm.h>
#include <ucb/pool.h>
#include <ucb/rdma.h>

#include "rdma_peer.h"

#define RD	IB_ACCESS_REMOTE_READ
#define WR	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE)
#define OK	IB_WC_SUCCESS
#define REFUSED	IB_WC_REM_ACCESS_ERR

static struct ib_device *rxe;
static struct ib_device *spare;		/* a second one, to be removed */

static int find_add(struct ib_device *ibdev)
{
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
}

static struct ib_client find_client = {
	.name = "ucb_mr_kunit",
	.add = find_add,
	.remove = find_remove,
};

struct controller {
	const char *name;
	bool dma;
	struct usb_device *udev;
};

static const struct controller controllers[] = {
	{ .name = "PIO controller" },
	{ .name = "DMA controller", .dma = true },
};

KUNIT_ARRAY_PARAM_DESC(controller, controllers, name);

/* a device on a controller of the kind, rather than its root hub */
static int find_udev(struct usb_device *udev, void *data)
{
	struct controller *want = data;

	if (hcd_uses_dma(bus_to_hcd(udev->bus)) != want->dma)
		return 0;
	if (!want->udev || (!want->udev->parent && udev->parent)) {
		usb_put_dev(want->udev);
		want->udev = usb_get_dev(udev);
	}
	return 0;
}

struct fixture {
	struct usb_device *udev;
	struct ucb_pd *pd;
	struct ucb_pool *pool;
};

/* An action, so that it runs after those of the case: its peers use the PD. */
static void put_fixture(void *data)
{
	struct fixture *f = data;

	ucb_pool_destroy(f->pool);
	if (!IS_ERR_OR_NULL(f->pd))
		ucb_pd_put(f->pd);
	usb_put_dev(f->udev);
}

static int mr_test_init(struct kunit *test)
{
	const struct controller *param = test->param_value;
	struct controller want = { .dma = param && param->dma };
	struct ib_port_attr port;
	struct fixture *f;
	int err;

	if (!rxe || ib_query_port(rxe, 1, &port) || port.state != IB_PORT_ACTIVE)
		kunit_skip(test, "no active RDMA device named rxe*");

	f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	if (!f)
		return -ENOMEM;
	err = kunit_add_action_or_reset(test, put_fixture, f);
	if (err)
		return err;

	usb_for_each_dev(&want, find_udev);
	f->udev = want.udev;
	if (!f->udev)
		kunit_skip(test, "no USB device on such a controller");
	f->pd = ucb_pd_get(rxe, 1);
	if (IS_ERR(f->pd))
		return PTR_ERR(f->pd);
	test->priv = f;
	return 0;
}

static void make_pool(struct kunit *test, size_t size, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = "mr_kunit",
		.size = size,
		.flags = flags,
	};
	struct fixture *f = test->priv;
	struct ucb_pool *pool;

	pool = ucb_pool_create(f->udev, &params);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR_OR_NULL(pool), "pool: %ld", PTR_ERR(pool));
	f->pool = pool;
}

static struct ucb_buf *make_buf(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf;

	buf = ucb_buf_alloc(f->pool, GFP_KERNEL);
	KUNIT_ASSERT_FALSE(test, IS_ERR_OR_NULL(buf));
	return buf;
}

static struct ucb_mr *make_mr(struct kunit *test, struct ucb_buf *buf, int access)
{
	struct fixture *f = test->priv;
	struct ucb_mr *mr;

	mr = ucb_mr_reg(f->pd, buf, access);
	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	return mr;
}

static struct ucb_mr_remote remote_of(struct kunit *test, struct ucb_mr *mr)
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

static void fill(void *mem, size_t size, u32 seed)
{
	u8 *p = mem;
	size_t i;

	for (i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = seed >> 24;
	}
}

static void mr_read_and_write(struct kunit *test)
{
	const size_t size = 16384;
	struct fixture *f = test->priv;
	struct ucb_mr_remote remote;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mr = make_mr(test, buf, RD | WR);
	remote = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, remote.usage, UCB_MR_USAGE_READ_SRC |
			UCB_MR_USAGE_WRITE_DST | UCB_MR_USAGE_FLUSH_VISIBILITY);
	KUNIT_EXPECT_PTR_EQ(test, ucb_mr_get_ptr(mr), ucb_buf_addr(buf));
	kunit_info(test, "%s memory", is_vmalloc_addr(ucb_buf_addr(buf)) ?
		   "vmalloc (IOMMU)" : "linear");

	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	fill(ucb_buf_addr(buf), size, 1);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, memcmp(peer->mem, ucb_buf_addr(buf), size), 0);

	fill(peer->mem, size, 2);
	KUNIT_EXPECT_EQ(test, peer_write(peer, remote.addr, remote.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, memcmp(peer->mem, ucb_buf_addr(buf), size), 0);

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C14: exactly the bytes registered, not one more on either side */
static void mr_exact_bounds(struct kunit *test)
{
	static const size_t offsets[] = { 0, 512, 4095 };
	static const size_t lengths[] = { 1, 4096, 4097 };
	const size_t size = 3 * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *before;
	u8 *mem;
	int i;
	int j;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	before = kunit_kzalloc(test, size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, before);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		for (j = 0; j < ARRAY_SIZE(lengths); j++) {
			size_t off = offsets[i];
			size_t len = lengths[j];

			mr = ucb_mr_reg_range(f->pd, buf, off, len, RD | WR);
			KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
			r = remote_of(test, mr);
			KUNIT_EXPECT_EQ(test, r.size, len);
			KUNIT_EXPECT_PTR_EQ(test, ucb_mr_get_ptr(mr), (void *)(mem + off));

			fill(mem, size, i * 8 + j);
			KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, len), OK);
			KUNIT_EXPECT_EQ(test, memcmp(peer->mem, mem + off, len), 0);

			memcpy(before, mem, size);
			fill(peer->mem, len, 99);
			memcpy(before + off, peer->mem, len);
			KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, len), OK);
			KUNIT_EXPECT_EQ(test, memcmp(before, mem, size), 0);

			/* one byte more, the byte behind, the byte before */
			KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, len + 1),
					REFUSED);
			KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
			KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, len + 1),
					REFUSED);
			KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
			KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr + len, r.rkey, 1),
					REFUSED);
			KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
			KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr - 1, r.rkey, 1),
					REFUSED);
			KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
			KUNIT_EXPECT_EQ(test, memcmp(before, mem, size), 0);

			KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
		}
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C14: the device's limit is reachable to its last byte, and no page more */
static void mr_page_limit(struct kunit *test)
{
	size_t limit = (size_t)rxe->attrs.max_fast_reg_page_list_len * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;

	make_pool(test, limit + PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), PAGE_SIZE);

	mr = ucb_mr_reg_range(f->pd, buf, 0, limit, RD);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	fill(mem + limit - PAGE_SIZE, PAGE_SIZE, 3);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr + limit - PAGE_SIZE, r.rkey,
					PAGE_SIZE), OK);
	KUNIT_EXPECT_EQ(test, memcmp(peer->mem, mem + limit - PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr + limit, r.rkey, 1), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	mr = ucb_mr_reg_range(f->pd, buf, 0, limit + PAGE_SIZE, RD);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -E2BIG);
	mr = ucb_mr_reg_range(f->pd, buf, 1, limit, RD);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -E2BIG);
	/* refused calls left nothing behind */
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void mr_access_never_wider(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	memset(mem, 0x11, size);
	memset(peer->mem, 0xee, size);

	mr = make_mr(test, buf, RD);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, UCB_MR_USAGE_READ_SRC);
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0x11, size));
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	mr = make_mr(test, buf, WR);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, UCB_MR_USAGE_WRITE_DST);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0xee, size));
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	mr = make_mr(test, buf, IB_ACCESS_LOCAL_WRITE);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, UCB_MR_USAGE_RECV);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0x11, size));
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	/* a key is good for its own domain only */
	mr = make_mr(test, buf, RD | WR);
	r = remote_of(test, mr);
	peer->near_pd = peer->pd;
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void mr_bad_arguments(struct kunit *test)
{
	static const struct {
		size_t offset;
		size_t length;
		int access;
	} bad[] = {
		{ 0, 0, RD },
		{ 0, 4097, RD },
		{ 4096, 1, RD },
		{ 1, 4096, RD },
		{ 1, SIZE_MAX, RD },
		{ SIZE_MAX, 2, RD },
		{ 0, 4096, IB_ACCESS_REMOTE_WRITE },
		{ 0, 4096, IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_LOCAL_WRITE },
		{ 0, 4096, -1 },
	};
	struct fixture *f = test->priv;
	struct ucb_mr *mr = NULL;
	struct ucb_buf *buf;
	int i;

	make_pool(test, 4096, UCB_POOL_RDMA);
	buf = make_buf(test);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    PTR_ERR_OR_ZERO(ucb_mr_reg_range(f->pd, buf,
								     bad[i].offset,
								     bad[i].length,
								     bad[i].access)),
				    -EINVAL, "row %d", i);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(NULL, buf, RD)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(f->pd, NULL, RD)), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_dereg_mr(NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_get(NULL, 1)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_get(rxe, 0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_get(rxe, 2)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_attach(NULL, 1)), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(f->pd), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void mr_needs_rdma_pool(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf;

	make_pool(test, 4096, 0);
	buf = make_buf(test);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(f->pd, buf, RD)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C16 */
static void mr_stale_key(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote old;
	struct ucb_mr_remote now;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;
	int i;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	mr = make_mr(test, buf, RD | WR);
	old = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, old.addr, old.rkey, size), OK);

	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);

	/* without and with a new registration of the same memory */
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	for (i = 0; i < 2; i++) {
		if (i)
			mr = make_mr(test, buf, RD | WR);
		memset(mem, 0xca, size);
		memset(peer->mem, 0x11, size);
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_read(peer, old.addr, old.rkey, size), REFUSED);
		KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0x11, size));
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_write(peer, old.addr, old.rkey, size), REFUSED);
		KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0xca, size));
	}
	now = remote_of(test, mr);
	KUNIT_EXPECT_NE(test, now.rkey, old.rkey);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, now.addr, now.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void mr_revoked_by_pool(struct kunit *test)
{
	const size_t size = 2 * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	ktime_t start;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	mr = make_mr(test, buf, RD | WR);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), OK);

	start = ktime_get();
	ucb_pool_destroy(f->pool);
	f->pool = NULL;
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 5000);

	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);
}

/* the pool goes while the peer READs, and the owner deregisters */
struct racer {
	struct ucb_mr *mr;
	struct completion *go;
};

static int dereg_thread(void *data)
{
	struct racer *racer = data;

	wait_for_completion(racer->go);
	return ucb_mr_dereg(&racer->mr);
}

static void mr_revoke_races_dereg(struct kunit *test)
{
	const size_t size = 16 * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct task_struct *task;
	struct ucb_mr_remote r;
	struct completion go;
	struct racer racer;
	struct ucb_buf *buf;
	struct peer *peer;
	int status;
	int i;

	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	for (i = 0; i < 20; i++) {
		make_pool(test, size, UCB_POOL_RDMA);
		init_completion(&go);
		racer.go = &go;
		buf = make_buf(test);
		racer.mr = make_mr(test, buf, RD | WR);
		r = remote_of(test, racer.mr);
		task = kthread_run(dereg_thread, &racer, "ucb_dereg");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		get_task_struct(task);

		KUNIT_EXPECT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey,
						size), 0);
		complete(&go);
		ucb_pool_destroy(f->pool);
		f->pool = NULL;
		KUNIT_EXPECT_EQ(test, kthread_stop(task), 0);
		put_task_struct(task);
		KUNIT_EXPECT_NULL(test, racer.mr);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);

		status = peer_wait(peer);
		KUNIT_EXPECT_TRUE_MSG(test, status == OK || status == REFUSED,
				      "status %d", status);
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	}
}

/* C17, C21: taken back in the middle of a READ, the next owner's bytes stay in */
static void mr_taken_back_in_flight(struct kunit *test)
{
	const size_t size = 16 * PAGE_SIZE;
	struct fixture *f = test->priv;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	unsigned int refused = 0;
	unsigned int cut = 0;
	struct ucb_mr *mr;
	ktime_t start;
	s64 worst = 0;
	int status;
	u8 *last;
	int i;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);

	for (i = 0; i < 16; i++) {
		memset(ucb_buf_addr(buf), 0x11, size);
		memset(peer->mem, 0x22, size);
		mr = make_mr(test, buf, RD);
		r = remote_of(test, mr);
		KUNIT_ASSERT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey,
						size), 0);
		/* when that much has arrived */
		last = peer->mem + i * PAGE_SIZE;
		while (i && READ_ONCE(*last) == 0x22 &&
		       !completion_done(&peer->done))
			cond_resched();
		start = ktime_get();
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
		worst = max(worst, ktime_ms_delta(ktime_get(), start));
		memset(ucb_buf_addr(buf), 0xca, size);

		status = peer_wait(peer);
		KUNIT_EXPECT_NULL(test, memchr(peer->mem, 0xca, size));
		if (status == OK)
			continue;
		KUNIT_EXPECT_EQ(test, status, REFUSED);
		refused++;
		if (memchr(peer->mem, 0x11, size))
			cut++;
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	}
	kunit_info(test, "%u of %d refused, %u of them half way; slowest deregistration %lld ms",
		   refused, i, cut, worst);
	KUNIT_EXPECT_LT(test, worst, 1000);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C15: an MR goes through its 256 keys once, then another takes over */
static void mr_keys_never_repeat(struct kunit *test)
{
	static const int accesses[] = { 0, RD | WR };
	const int cycles = 600;
	struct ucb_buf *buf;
	unsigned int kept;
	struct ucb_mr *mr;
	u32 *keys;
	int a;
	int i;
	int j;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	keys = kunit_kcalloc(test, cycles, sizeof(*keys), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, keys);

	for (a = 0; a < ARRAY_SIZE(accesses); a++) {
		kept = 0;
		for (i = 0; i < cycles; i++) {
			mr = make_mr(test, buf, accesses[a]);
			keys[i] = ucb_mr_get_rkey(mr);
			KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
			for (j = 0; j < i && keys[j] != keys[i]; j++)
				;
			KUNIT_ASSERT_EQ_MSG(test, j, i, "key %#x again", keys[i]);
			if (i && keys[i] >> 8 == keys[i - 1] >> 8)
				kept++;
		}
		/* a peer's key ends with its MR; one no peer can use rotates */
		KUNIT_EXPECT_EQ(test, kept, accesses[a] ? 0 : cycles - 3);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C26 */
static void mr_detach_busy(struct kunit *test)
{
	struct ucb_buf *buf;
	struct ucb_pd *pd;
	struct ib_pd *ibpd;
	struct ucb_mr *mr;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	ibpd = ib_alloc_pd(rxe, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
	pd = ucb_pd_attach(ibpd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	KUNIT_EXPECT_PTR_EQ(test, ucb_pd_ib(pd), ibpd);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_attach(ibpd, 1)), -EEXIST);

	mr = ucb_mr_reg(pd, buf, RD);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(pd), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(pd), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ibpd->usecnt), 0);
	ib_dealloc_pd(ibpd);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* the calls in the shape of rdma_reg_msgs(3) and its like */
static void mr_calls_on_id(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct fixture *f = test->priv;
	struct rdma_cm_id *id;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = peer_create(test, rxe, ucb_pd_ib(f->pd), size);
	id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, id);

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(NULL, buf)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, buf)), -EINVAL);
	id->qp = peer->far;	/* on the peer's PD, which is of no domain */
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, buf)), -ENOENT);
	id->qp = peer->near;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, NULL)), -EINVAL);

	mr = ucb_reg_read(id, buf);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, UCB_MR_USAGE_READ_SRC);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_dereg_mr(mr), 0);

	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	id->qp = peer->near;
	mr = ucb_reg_write(id, buf);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, UCB_MR_USAGE_WRITE_DST);
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_dereg_mr(mr), 0);

	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	id->qp = peer->near;
	mr = ucb_reg_msgs(id, buf);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_dereg_mr(mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static int unregister_thread(void *data)
{
	ib_unregister_device(data);
	return 0;
}

/*
 * C18: the device goes in the middle of a READ, while the peer's queue pair is
 * still on the domain's PD, as a connection's is until its DEVICE_REMOVAL.
 */
static void mr_device_removed(struct kunit *test)
{
	const size_t size = 64 * PAGE_SIZE;
	struct task_struct *task;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	struct ucb_pd *pd;
	ktime_t start;

	if (!spare)
		kunit_skip(test, "no second RDMA device named rxe*, to be removed");

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	pd = ucb_pd_get(spare, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	mr = ucb_mr_reg(pd, buf, RD | WR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	peer = peer_create(test, spare, ucb_pd_ib(pd), size);
	KUNIT_EXPECT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey, size), 0);

	start = ktime_get();
	task = kthread_run(unregister_thread, spare, "ucb_unregister");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	while (!ucb_mr_get_descriptor(mr, desc) &&
	       ktime_ms_delta(ktime_get(), start) < 10000)
		cond_resched();
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENODEV);
	peer_wait(peer);
	kunit_release_action(test, peer_destroy, peer);

	/* the buffer is the pool's again, the handles are still ours */
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	ucb_pd_put(pd);
	KUNIT_EXPECT_EQ(test, kthread_stop(task), 0);
	put_task_struct(task);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), 10000);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static int mr_suite_init(struct kunit_suite *suite)
{
	return ib_register_client(&find_client);
}

static void mr_suite_exit(struct kunit_suite *suite)
{
	ib_unregister_client(&find_client);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE_PARAM(mr_read_and_write, controller_gen_params),
	KUNIT_CASE_PARAM_ATTR(mr_exact_bounds, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM(mr_page_limit, controller_gen_params),
	KUNIT_CASE_PARAM(mr_access_never_wider, controller_gen_params),
	KUNIT_CASE_PARAM(mr_bad_arguments, controller_gen_params),
	KUNIT_CASE_PARAM(mr_needs_rdma_pool, controller_gen_params),
	KUNIT_CASE_PARAM(mr_stale_key, controller_gen_params),
	KUNIT_CASE_PARAM(mr_revoked_by_pool, controller_gen_params),
	KUNIT_CASE_PARAM_ATTR(mr_revoke_races_dereg, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(mr_taken_back_in_flight, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(mr_keys_never_repeat, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM(mr_detach_busy, controller_gen_params),
	KUNIT_CASE_PARAM(mr_calls_on_id, controller_gen_params),
	KUNIT_CASE(mr_device_removed),
	{}
};

static struct kunit_suite mr_suite = {
	.name = "ucb_mr",
	.suite_init = mr_suite_init,
	.suite_exit = mr_suite_exit,
	.init = mr_test_init,
	.test_cases = mr_cases,
};

kunit_test_suite(mr_suite);

MODULE_DESCRIPTION("KUnit tests of registrations");
MODULE_LICENSE("GPL");
