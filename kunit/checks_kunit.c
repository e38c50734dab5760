// SPDX-License-Identifier: GPL-2.0
/*
 * The checks: each row of the misuse table, on every kind of controller. A
 * refused call must leave the buffer as it was, so each ends with the right
 * free succeeding.
 */

#include <ucb/pool.h>

#include "kept.h"

static struct ucb_pool *checks_pool(struct kunit *test, struct fake_hcd *fake,
				    size_t size, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = "checks", .size = size, .max = 8, .flags = flags,
	};

	return pool_get(test, fake->udev, &params);
}

/* C5: sizes on either side of the USB core's own boundaries. */
static void check_size(struct kunit *test)
{
	static const size_t pairs[][2] = {
		{ 2049, 2048 }, { 2048, 2049 }, { 512, 513 }, { 513, 512 },
		{ 4096, 4095 }, { 4096, 8192 }, { 1, 2 }, { 64, 0 },
	};
	struct fake_hcd *fake = kind_hcd(test);
	struct usb_device *udev = fake->udev;
	dma_addr_t dma;
	void *addr;
	int i;

	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		addr = ucb_alloc_coherent(udev, pairs[i][0], GFP_KERNEL, &dma);
		KUNIT_ASSERT_NOT_NULL(test, addr);
		memset(addr, 0x77, pairs[i][0]);
		KUNIT_EXPECT_EQ(test, -EINVAL, ucb_free_coherent(udev, pairs[i][1], addr, dma));
		KUNIT_EXPECT_NULL(test, memchr_inv(addr, 0x77, pairs[i][0]));
		KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(udev, pairs[i][0], addr, dma));
	}
}

static void check_dma(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = checks_pool(test, fake, 1024, 0);
	dma_addr_t dma;
	void *addr;

	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(pool, addr, dma + 1));
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(pool, addr, 0));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr, dma));

	addr = ucb_alloc_coherent(fake->udev, 1024, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_free_coherent(fake->udev, 1024, addr, dma ^ 0x800));
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, 1024, addr, dma));
}

static void check_unknown(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = checks_pool(test, fake, 256, 0);
	struct ucb_pool *other = checks_pool(test, fake, 256, 0);
	dma_addr_t dma;
	int on_stack;
	void *addr;

	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(other, addr, dma));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(pool, addr + 16, dma + 16));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(pool, &on_stack, dma));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(pool, NULL, dma));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_free_coherent(fake->udev, 256, addr, dma));
	KUNIT_EXPECT_EQ(test, -ENOENT, PTR_ERR(ucb_buf_get(other, addr)));
	KUNIT_EXPECT_EQ(test, -ENOENT, PTR_ERR(ucb_buf_get(pool, addr + 1)));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr, dma));
	KUNIT_EXPECT_EQ(test, -ENOENT, PTR_ERR(ucb_buf_get(pool, addr)));
}

/* Another device's buffer is unknown to this one. */
static void check_other_device(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct fake_hcd *other = fake_hcd_get(test, FAKE_PIO);
	dma_addr_t dma, dma2;
	void *addr, *addr2;

	addr = ucb_alloc_coherent(fake->udev, 512, GFP_KERNEL, &dma);
	addr2 = ucb_alloc_coherent(other->udev, 512, GFP_KERNEL, &dma2);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_ASSERT_NOT_NULL(test, addr2);
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_free_coherent(other->udev, 512, addr, dma));
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, 512, addr, dma));
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(other->udev, 512, addr2, dma2));
}

static void check_double(struct kunit *test)
{
	static const size_t sizes[] = { 64, 2048, 2049, 65536 };
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = checks_pool(test, fake, 640, 0);
	dma_addr_t dma;
	void *addr;
	int i;

	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr, dma));
	KUNIT_EXPECT_EQ(test, -EALREADY, ucb_pool_free(pool, addr, dma));
	if (fake->kind == FAKE_LOCALMEM)
		return;	/* the drop-in pair keeps none of it */
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		addr = ucb_alloc_coherent(fake->udev, sizes[i], GFP_KERNEL, &dma);
		KUNIT_ASSERT_NOT_NULL(test, addr);
		KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, sizes[i], addr, dma));
		KUNIT_EXPECT_EQ(test, -EALREADY,
				ucb_free_coherent(fake->udev, sizes[i], addr, dma));
	}
}

static void check_busy(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = checks_pool(test, fake, 4096, 0);
	struct ucb_buf *buf = ucb_buf_alloc(pool, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_EQ(test, 0, ucb_buf_busy_get(buf));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_buf_free(buf));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_pool_free(pool, ucb_buf_addr(buf), ucb_buf_dma(buf)));
	ucb_buf_busy_put(buf);
	/* keeps the record, so that the freed buffer can be asked about */
	KUNIT_EXPECT_PTR_EQ(test, buf, ucb_buf_get(pool, ucb_buf_addr(buf)));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(buf));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_buf_busy_get(buf));
	ucb_buf_put(buf);
}

/* The controller goes with buffers out: reclaimed, later frees touch nothing. */
static void check_gone(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool;
	dma_addr_t dma, dma2;
	void *addr, *addr2;

	if (fake_is_real(fake->kind))
		return;	/* not ours to remove */
	pool = checks_pool(test, fake, 3000, 0);
	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	addr2 = ucb_alloc_coherent(fake->udev, 3000, GFP_KERNEL, &dma2);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_ASSERT_NOT_NULL(test, addr2);
	fake_hcd_remove(fake);
	KUNIT_EXPECT_EQ(test, -ENODEV, ucb_pool_free(pool, addr, dma));
	KUNIT_EXPECT_EQ(test, -ENODEV, ucb_free_coherent(fake->udev, 3000, addr2, dma2));
	KUNIT_EXPECT_NULL(test, ucb_pool_alloc(pool, GFP_KERNEL, &dma));
	KUNIT_EXPECT_NULL(test, ucb_alloc_coherent(fake->udev, 3000, GFP_KERNEL, &dma));
}

/*
 * C10: freed 5 s after the unplug. With the controller gone nothing is touched;
 * while it is there a free is a free, but no new work is let in.
 */
static void check_free_after_unplug(struct kunit *test)
{
	const struct fake_param *param = test->param_value;
	struct kept *k = &kept[param->kind];
	struct ucb_buf *buf;
	int want;

	want = fake_is_real(param->kind) ? 0 : -ENODEV;
	while (time_before(jiffies, k->unplugged + 5 * HZ))
		schedule_timeout_uninterruptible(k->unplugged + 5 * HZ - jiffies);
	if (!want) {
		buf = ucb_buf_get(k->pool, k->addr);
		KUNIT_ASSERT_FALSE(test, IS_ERR(buf));
		KUNIT_EXPECT_EQ(test, -ENODEV, ucb_buf_busy_get(buf));
		ucb_buf_put(buf);
		memset(k->addr, 0x3d, KEPT_SIZE);
		memset(k->dropin, 0x3d, KEPT_SIZE);
	}
	KUNIT_EXPECT_EQ(test, want, ucb_pool_free(k->pool, k->addr, k->dma));
	KUNIT_EXPECT_EQ(test, want, ucb_free_coherent(k->fake->udev, KEPT_SIZE, k->dropin,
						      k->dropin_dma));
	/* at the end of disconnect(), or by a close that comes later */
	ucb_pool_destroy(k->pool);
	k->pool = NULL;
}

static struct kunit_case checks_cases[] = {
	KUNIT_CASE_PARAM(check_size, kind_gen_params),
	KUNIT_CASE_PARAM(check_dma, kind_gen_params),
	KUNIT_CASE_PARAM(check_unknown, kind_gen_params),
	KUNIT_CASE_PARAM(check_other_device, kind_gen_params),
	KUNIT_CASE_PARAM(check_double, kind_gen_params),
	KUNIT_CASE_PARAM(check_busy, kind_gen_params),
	KUNIT_CASE_PARAM(check_gone, kind_gen_params),
	KUNIT_CASE_PARAM(check_free_after_unplug, kind_gen_params),
	{}
};

static struct kunit_suite checks_suite = {
	.name = "ucb_checks",
	.suite_init = kept_take,
	.suite_exit = kept_end,
	.test_cases = checks_cases,
};

kunit_test_suite(checks_suite);

MODULE_DESCRIPTION("KUnit: every row of the misuse table");
MODULE_LICENSE("GPL");
