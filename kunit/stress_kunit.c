// SPDX-License-Identifier: GPL-2.0
/*
 * Long use on the controllers that transfer: opening and closing, and buffers
 * taken and given back in completion handlers. What that costs the USB core is
 * counted from outside.
 */
#include <linux/module.h>

#include "core_calls.h"
#include "transfer.h"

#define SIZE	4096

static unsigned int opens = 300;
module_param(opens, uint, 0444);
MODULE_PARM_DESC(opens, "open, submit, kill, close cycles");

static unsigned int pairs = 50000;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "allocations and frees from completions");

static struct ucb_pool *stress_pool(struct kunit *test, struct usb_device *udev,
				    unsigned int min, unsigned int max)
{
	const struct ucb_pool_params params = {
		.name = "stress", .size = SIZE, .min = min, .max = max,
	};

	return pool_get(test, udev, &params);
}

#define OPEN_MAX	8

/* All that the pool may own can be had, so none of it is out or lost. */
static void expect_all_home(struct kunit *test, struct ucb_pool *pool)
{
	struct ucb_buf *buf[OPEN_MAX + 1];
	int i;

	for (i = 0; i < OPEN_MAX; i++) {
		buf[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, buf[i]);
	}
	KUNIT_EXPECT_NULL(test, ucb_buf_alloc(pool, GFP_ATOMIC));
	while (i--)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(buf[i]));
}

/* C7: what each open takes, its close gives back. */
static void stress_open_close(struct kunit *test)
{
	struct usb_device *udev = kind_hcd(test)->udev;
	const struct fake_param *param = test->param_value;
	struct ucb_pool *pool = stress_pool(test, udev, 0, OPEN_MAX);
	struct transfer transfer = { .udev = udev };
	struct core_calls *calls;
	dma_addr_t dma;
	unsigned int i;
	void *addr;
	int ret;

	transfer.setup = kunit_kzalloc(test, sizeof(*transfer.setup), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, transfer.setup);
	expect_all_home(test, pool);
	addr = ucb_alloc_coherent(udev, SIZE, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_ASSERT_EQ(test, 0, ucb_free_coherent(udev, SIZE, addr, dma));

	calls = core_calls_get(test, udev);
	for (i = 0; i < opens; i++) {
		init_completion(&transfer.done);
		transfer.urb = usb_alloc_urb(0, GFP_KERNEL);
		transfer.buf = ucb_buf_alloc(pool, GFP_KERNEL);
		addr = ucb_alloc_coherent(udev, SIZE, GFP_KERNEL, &dma);
		if (!transfer.urb || !transfer.buf || !addr)
			break;
		/* one that stays in flight, and one that races with the kill */
		if (param->kind == REAL_DUMMY && i % 2)
			ret = transfer_fill_bulk(&transfer,
						 bulk_pipe(test, udev, USB_DIR_IN), SIZE);
		else
			ret = transfer_fill_control(&transfer, transfer_done, &transfer);
		if (!ret)
			ret = ucb_submit_urb(transfer.urb, GFP_KERNEL);
		usb_kill_urb(transfer.urb);
		usb_free_urb(transfer.urb);
		if (ret || !completion_done(&transfer.done) ||
		    ucb_buf_free(transfer.buf) ||
		    ucb_free_coherent(udev, SIZE, addr, dma))
			break;
	}
	KUNIT_EXPECT_EQ(test, i, opens);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->allocs));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->frees));
	expect_all_home(test, pool);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->allocs));
}

#define CHURN_MIN	32
#define CHURN_MAX	64
#define CHURN_HOLD	8
#define CHURN_BATCH	128	/* pairs in one completion */

/*
 * What a completion handler does: pairs until none is left, then, with @empty,
 * it takes all that there is.
 */
struct churn {
	struct ucb_pool *pool;
	struct transfer *transfer;
	struct completion done;
	unsigned int left;
	unsigned int failed;
	unsigned int completions;
	bool empty;
	unsigned int held;
	void *addr[CHURN_MAX + 1];
	dma_addr_t dma[CHURN_MAX + 1];
};

static bool churn_take(struct churn *churn)
{
	unsigned int i = churn->held;

	churn->addr[i] = ucb_pool_alloc(churn->pool, GFP_ATOMIC, &churn->dma[i]);
	if (!churn->addr[i])
		return false;
	churn->held++;
	return true;
}

static void churn_give_back(struct churn *churn)
{
	while (churn->held) {
		unsigned int i = --churn->held;

		if (ucb_pool_free(churn->pool, churn->addr[i], churn->dma[i]))
			churn->failed++;
	}
}

static void churn_complete(struct urb *urb)
{
	struct churn *churn = urb->context;
	unsigned int i, nr = min_t(unsigned int, churn->left, CHURN_BATCH);

	churn->completions++;
	if (urb->status) {
		churn->failed++;
		goto end;
	}
	if (churn->empty) {
		while (churn->held <= CHURN_MAX && churn_take(churn))
			;
		goto end;
	}
	for (i = 0; i < nr; i++) {
		if (!churn_take(churn))
			churn->failed++;
		if (churn->held == CHURN_HOLD)
			churn_give_back(churn);
	}
	churn_give_back(churn);
	churn->left -= nr;
	if (churn->left && !ucb_submit_urb(urb, GFP_ATOMIC))
		return;
end:
	complete(&churn->done);
}

/* C11: prefilled, completions cost the USB core nothing; empty says so at once. */
static void stress_completions(struct kunit *test)
{
	struct usb_device *udev = kind_hcd(test)->udev;
	struct churn *churn = kunit_kzalloc(test, sizeof(*churn), GFP_KERNEL);
	unsigned long end;
	struct core_calls *calls;
	struct ucb_buf *more;
	unsigned int before;

	KUNIT_ASSERT_NOT_NULL(test, churn);
	init_completion(&churn->done);
	churn->pool = stress_pool(test, udev, CHURN_MIN, CHURN_MAX);
	churn->transfer = transfer_get(test, udev, churn->pool);
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_control(churn->transfer, churn_complete, churn));
	churn->left = pairs;
	calls = core_calls_get(test, udev);
	KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(churn->transfer->urb, GFP_KERNEL));
	wait_for_completion(&churn->done);
	kunit_info(test, "%u pairs in %u completions", pairs - churn->left, churn->completions);
	KUNIT_EXPECT_EQ(test, 0, churn->left);
	KUNIT_EXPECT_EQ(test, 0, churn->failed);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->allocs));

	/* one buffer is the URB's own */
	before = atomic_read(&calls->allocs);
	churn->empty = true;
	reinit_completion(&churn->done);
	KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(churn->transfer->urb, GFP_KERNEL));
	wait_for_completion(&churn->done);
	KUNIT_EXPECT_GE(test, churn->held, CHURN_MIN - 1);
	KUNIT_EXPECT_LT(test, churn->held, CHURN_MAX);
	KUNIT_EXPECT_EQ(test, 0, churn->failed);

	end = jiffies + 10 * HZ;
	while (!(more = ucb_buf_alloc(churn->pool, GFP_ATOMIC)) && time_before(jiffies, end))
		cond_resched();
	KUNIT_EXPECT_NOT_NULL(test, more);
	KUNIT_EXPECT_GT(test, atomic_read(&calls->allocs), before);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->atomic));
	if (more)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(more));
	churn_give_back(churn);
	KUNIT_EXPECT_EQ(test, 0, churn->failed);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(churn->transfer->buf));
}

static struct kunit_case stress_cases[] = {
	KUNIT_CASE_PARAM_ATTR(stress_open_close, real_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(stress_completions, real_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite stress_suite = {
	.name = "ucb_stress",
	.test_cases = stress_cases,
};

kunit_test_suite(stress_suite);

MODULE_DESCRIPTION("KUnit: long use of pools");
MODULE_LICENSE("GPL");
