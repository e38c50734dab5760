// SPDX-License-Identifier: GPL-2.0
/*
 * What a driver kept: when its pool or its controller goes, the log has one line
 * for each pool, size and caller, with the count, and no other line.
 */

#include "fake_hcd.h"
#include "reports.h"

/* where buffers come from: a pool, or for a device the drop-in pair */
struct source {
	struct usb_device *udev;
	struct ucb_pool *pool;
	size_t size;
};

struct taken {
	void *addr;
	dma_addr_t dma;
};

/* Named in reports: not to be inlined, nor to become one function. */
static noinline struct taken leak_one(const struct source *from)
{
	struct taken taken;

	if (from->pool)
		taken.addr = ucb_pool_alloc(from->pool, GFP_KERNEL, &taken.dma);
	else
		taken.addr = ucb_alloc_coherent(from->udev, from->size, GFP_KERNEL, &taken.dma);
	barrier();
	return taken;
}

static noinline struct taken leak_two(const struct source *from)
{
	struct taken taken;

	if (from->pool)
		taken.addr = ucb_pool_zalloc(from->pool, GFP_KERNEL, &taken.dma);
	else
		taken.addr = ucb_alloc_coherent(from->udev, from->size, GFP_NOIO, &taken.dma);
	barrier();
	return taken;
}

static void leak(struct kunit *test, struct taken (*take)(const struct source *),
		 const struct source *from, unsigned int nr)
{
	while (nr--)
		KUNIT_ASSERT_NOT_NULL(test, take(from).addr);
}

static void give_back(struct kunit *test, const struct source *from, struct taken taken)
{
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, taken.addr);
	if (from->pool)
		ret = ucb_pool_free(from->pool, taken.addr, taken.dma);
	else
		ret = ucb_free_coherent(from->udev, from->size, taken.addr, taken.dma);
	KUNIT_EXPECT_EQ(test, 0, ret);
}

/* One line says that so many of this size were kept by this function. */
static void expect_leak(struct kunit *test, struct reports *reports, struct usb_device *udev,
			const char *pool, unsigned int nr, size_t size, const char *caller)
{
	char line[96], device[64];

	snprintf(line, sizeof(line), "(%s): %u buffers of %zu bytes allocated by %s+", pool, nr,
		 size, caller);
	snprintf(device, sizeof(device), "usb %s: ucb: pool ", dev_name(&udev->dev));
	KUNIT_EXPECT_EQ_MSG(test, 1, reports_count(reports, line, device), "%s", line);
	KUNIT_EXPECT_EQ_MSG(test, 1, reports_count(reports, line, " not freed, reclaimed"),
			    "%s", line);
}

static struct source pool_source(struct kunit *test, struct usb_device *udev, const char *name,
				 size_t size, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = name, .size = size, .min = 1, .flags = flags,
	};

	return (struct source){ .udev = udev, .pool = pool_get(test, udev, &params) };
}

/* What a driver kept is named when its pool ends, and nothing else is. */
static void leaks_of_pool(struct kunit *test)
{
	static const unsigned int flags[] = { 0, UCB_POOL_DEBUG };
	struct usb_device *udev = kind_hcd(test)->udev;
	struct reports *reports = reports_get(test);
	struct taken taken[3];
	struct source lost;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		lost = pool_source(test, udev, "lost", 1000, flags[i]);
		for (j = 0; j < ARRAY_SIZE(taken); j++) {
			taken[j] = leak_one(&lost);
			leak(test, leak_one, &lost, 1);
		}
		leak(test, leak_two, &lost, 1);
		/* lost by the second, although the first had it before */
		for (j = 0; j < ARRAY_SIZE(taken); j++)
			give_back(test, &lost, taken[j]);
		leak(test, leak_two, &lost, 1);
		KUNIT_EXPECT_EQ(test, 0, reports_count(reports, "ucb: ", ""));
		kunit_release_action(test, pool_destroy, lost.pool);
		KUNIT_EXPECT_EQ(test, 2, reports_count(reports, "ucb: ", ""));
		expect_leak(test, reports, udev, "lost", 3, 1000, "leak_one");
		expect_leak(test, reports, udev, "lost", 2, 1000, "leak_two");
		reports->nr = 0;

		lost = pool_source(test, udev, "lost", 1000, flags[i]);
		give_back(test, &lost, leak_one(&lost));
		kunit_release_action(test, pool_destroy, lost.pool);
		KUNIT_EXPECT_EQ(test, 0, reports_count(reports, "ucb: ", ""));
	}
}

/*
 * The same of several pools and the drop-in pair, when their controller goes:
 * each line has its own pool's name and size, and callers and counts that are no
 * other's.
 */
static void leaks_together(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct usb_device *udev = fake->udev;
	struct source pair = { .udev = udev, .size = 64 };
	struct source large_pair = { .udev = udev, .size = 3000 };
	struct source small, whole, large;
	struct taken taken[4];
	struct reports *reports;

	if (fake_is_real(fake->kind))
		return;	/* not ours to remove */
	reports = reports_get(test);
	small = pool_source(test, udev, "small", 200, 0);
	whole = pool_source(test, udev, "whole", 200, 0);
	large = pool_source(test, udev, "large", 5000, UCB_POOL_DEBUG);
	taken[0] = leak_one(&pair);
	taken[1] = leak_one(&large_pair);
	taken[2] = leak_one(&whole);
	taken[3] = leak_one(&large);
	leak(test, leak_one, &small, 2);
	leak(test, leak_two, &small, 1);
	leak(test, leak_two, &large, 3);
	leak(test, leak_one, &pair, 2);
	leak(test, leak_two, &pair, 1);
	leak(test, leak_two, &large_pair, 1);
	give_back(test, &pair, taken[0]);
	give_back(test, &large_pair, taken[1]);
	give_back(test, &whole, taken[2]);
	give_back(test, &large, taken[3]);
	KUNIT_EXPECT_EQ(test, 0, reports_count(reports, "ucb: ", ""));
	fake_hcd_remove(fake);
	KUNIT_EXPECT_EQ(test, 6, reports_count(reports, "ucb: ", ""));
	expect_leak(test, reports, udev, "small", 2, 200, "leak_one");
	expect_leak(test, reports, udev, "small", 1, 200, "leak_two");
	expect_leak(test, reports, udev, "large", 3, 5000, "leak_two");
	expect_leak(test, reports, udev, "drop-in", 2, 64, "leak_one");
	expect_leak(test, reports, udev, "drop-in", 1, 64, "leak_two");
	expect_leak(test, reports, udev, "drop-in", 1, 3000, "leak_two");
}

static struct kunit_case leaks_cases[] = {
	KUNIT_CASE_PARAM(leaks_of_pool, kind_gen_params),
	KUNIT_CASE_PARAM(leaks_together, kind_gen_params),
	{}
};

static struct kunit_suite leaks_suite = {
	.name = "ucb_leaks",
	.test_cases = leaks_cases,
};

kunit_test_suite(leaks_suite);

MODULE_DESCRIPTION("KUnit: what a driver kept is in the log");
MODULE_LICENSE("GPL");
