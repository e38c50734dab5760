// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations, seen from a remote peer: the bytes that it reaches and those
 * that it does not. How keys end is in revoke_kunit.c.
 */
#include <linux/vmalloc.h>
#include <rdma/rdma_cm.h>

#include "mr_fixture.h"

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

	peer = make_peer(test, size);
	fill(ucb_buf_addr(buf), size, 1);
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, memcmp(peer->mem, ucb_buf_addr(buf), size), 0);

	fill(peer->mem, size, 2);
	KUNIT_EXPECT_EQ(test, peer_write(peer, remote.addr, remote.rkey, size), OK);
	/* siw's WRITE completes when TCP has it, a READ behind it when it is there */
	KUNIT_EXPECT_EQ(test, peer_read(peer, remote.addr, remote.rkey, 1), OK);
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
	peer = make_peer(test, size);

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
	peer = make_peer(test, PAGE_SIZE);

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
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	peer = make_peer(test, size);
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
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_get(f->ibdev, 0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_pd_get(f->ibdev, 2)), -EINVAL);
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

/* C13: a controller's own memory has no pages, so it gets no key */
static void mr_local_memory(struct kunit *test)
{
	const struct ucb_pool_params params = {
		.name = "local",
		.size = 4096,
		.flags = UCB_POOL_RDMA,
	};
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_LOCALMEM);
	struct ucb_pool *pool = pool_get(test, fake->udev, &params);
	struct fixture *f = test->priv;
	struct ucb_buf *buf;

	buf = ucb_buf_alloc(pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(f->pd, buf, RD)), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* C26 */
static void mr_detach_busy(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct ucb_buf *buf;
	struct ucb_pd *pd;
	struct ib_pd *ibpd;
	struct ucb_mr *mr;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	ibpd = ib_alloc_pd(f->ibdev, 0);
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

/* What the peer may do with the registration, and no more; ends it. */
static void expect_on_id(struct kunit *test, struct peer *peer, struct ucb_mr *mr,
			 u8 usage, enum ib_wc_status read, enum ib_wc_status write)
{
	struct ucb_mr_remote r;

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, r.usage, usage);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, peer->size), read);
	if (read != OK)
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_write(peer, r.addr, r.rkey, peer->size), write);
	if (write != OK)
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, ucb_dereg_mr(mr), 0);
}

/* the calls in the shape of rdma_reg_msgs(3) and its like */
static void mr_calls_on_id(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct rdma_cm_id *id;
	struct ucb_buf *buf;
	struct peer *peer;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, id);

	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(NULL, buf)), -EINVAL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, buf)), -EINVAL);
	id->qp = peer->far;	/* on the peer's PD, which is of no domain */
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, buf)), -ENOENT);
	id->qp = peer->near;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_reg_read(id, NULL)), -EINVAL);

	expect_on_id(test, peer, ucb_reg_read(id, buf), UCB_MR_USAGE_READ_SRC, OK, REFUSED);
	id->qp = peer->near;
	expect_on_id(test, peer, ucb_reg_write(id, buf), UCB_MR_USAGE_WRITE_DST, REFUSED, OK);
	id->qp = peer->near;
	expect_on_id(test, peer, ucb_reg_msgs(id, buf), UCB_MR_USAGE_RECV, REFUSED, REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static struct kunit_case mr_cases[] = {
	KUNIT_CASE_PARAM(mr_read_and_write, transport_gen_params),
	KUNIT_CASE_PARAM_ATTR(mr_exact_bounds, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM(mr_page_limit, controller_gen_params),
	KUNIT_CASE_PARAM(mr_access_never_wider, controller_gen_params),
	KUNIT_CASE_PARAM(mr_bad_arguments, transport_gen_params),
	KUNIT_CASE_PARAM(mr_needs_rdma_pool, transport_gen_params),
	KUNIT_CASE(mr_local_memory),
	KUNIT_CASE_PARAM(mr_detach_busy, transport_gen_params),
	KUNIT_CASE_PARAM(mr_calls_on_id, controller_gen_params),
	{}
};

static struct kunit_suite mr_suite = {
	.name = "ucb_mr",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = mr_cases,
};

kunit_test_suite(mr_suite);

MODULE_DESCRIPTION("KUnit: registrations, seen from a remote peer");
MODULE_LICENSE("GPL");
