// SPDX-License-Identifier: GPL-2.0
/*
 * URBs on pool buffers, on the loopback gadget of dummy_hcd: a bulk IN URB
 * stays in flight there until something is sent or it is killed.
 */

#include <ucb/pool.h>

#include "fake_hcd.h"

#define SIZE	4096
#define NR	32

struct flight {
	struct fake_hcd *fake;
	struct ucb_pool *pool;
	struct ucb_buf *buf[NR];
	struct urb *urb[NR];
	atomic_t completed;
	atomic_t freed;
	atomic_t refused;
	atomic_t after_end;
	bool free_in_completion;
	bool resubmit;
	bool ended;
};

static void flight_complete(struct urb *urb)
{
	struct flight *flight = urb->context;
	int i, ret;

	if (READ_ONCE(flight->ended))
		atomic_inc(&flight->after_end);
	atomic_inc(&flight->completed);
	for (i = 0; i < NR && flight->urb[i] != urb; i++)
		;
	if (flight->resubmit && ucb_submit_urb(urb, GFP_ATOMIC) == -ENODEV)
		atomic_inc(&flight->refused);
	if (flight->free_in_completion && i < NR) {
		ret = ucb_pool_free(flight->pool, urb->transfer_buffer, urb->transfer_dma);
		if (!ret)
			atomic_inc(&flight->freed);
	}
}

static unsigned int bulk_pipe(struct kunit *test, struct usb_device *udev)
{
	struct usb_endpoint_descriptor *in = NULL;
	int i;

	for (i = 1; i < 16 && !in; i++)
		if (udev->ep_in[i] && usb_endpoint_is_bulk_in(&udev->ep_in[i]->desc))
			in = &udev->ep_in[i]->desc;
	KUNIT_ASSERT_NOT_NULL_MSG(test, in, "no bulk IN endpoint");
	return usb_rcvbulkpipe(udev, in->bEndpointAddress & USB_ENDPOINT_NUMBER_MASK);
}

static void flight_end(struct flight *flight)
{
	int i;

	ucb_pool_destroy(flight->pool);
	flight->pool = NULL;
	WRITE_ONCE(flight->ended, true);
	for (i = 0; i < NR; i++) {
		usb_free_urb(flight->urb[i]);
		flight->urb[i] = NULL;
	}
}

static void flight_exit(void *data)
{
	flight_end(data);
}

static struct flight *flight_get(struct kunit *test)
{
	const struct ucb_pool_params params = { .name = "urb", .size = SIZE, .min = NR };
	struct flight *flight = kunit_kzalloc(test, sizeof(*flight), GFP_KERNEL);
	unsigned int pipe;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, flight);
	flight->fake = fake_hcd_get(test, REAL_DUMMY);
	pipe = bulk_pipe(test, flight->fake->udev);
	flight->pool = ucb_pool_create(flight->fake->udev, &params);
	KUNIT_ASSERT_FALSE(test, IS_ERR(flight->pool));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, flight_exit, flight));
	for (i = 0; i < NR; i++) {
		flight->urb[i] = usb_alloc_urb(0, GFP_KERNEL);
		flight->buf[i] = ucb_buf_alloc(flight->pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, flight->urb[i]);
		KUNIT_ASSERT_NOT_NULL(test, flight->buf[i]);
		usb_fill_bulk_urb(flight->urb[i], flight->fake->udev, pipe, NULL, 0,
				  flight_complete, flight);
		KUNIT_ASSERT_EQ(test, 0, ucb_urb_attach(flight->urb[i], flight->buf[i], SIZE));
	}
	return flight;
}

static void flight_drop_handles(struct kunit *test, struct flight *flight)
{
	int i;

	for (i = 0; i < NR; i++)
		KUNIT_EXPECT_EQ(test, -ENODEV, ucb_buf_free(flight->buf[i]));
}

/* In flight: -EBUSY; a second URB on it too; after the kill it is free. */
static void urb_busy(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	struct urb *urb = flight->urb[0];
	struct urb *second = flight->urb[1];

	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_urb_attach(urb, flight->buf[0], SIZE + 1));
	KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(urb, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_buf_free(flight->buf[0]));
	KUNIT_EXPECT_EQ(test, 0, ucb_urb_attach(second, flight->buf[0], 64));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_submit_urb(second, GFP_KERNEL));
	usb_kill_urb(urb);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&flight->completed));
	KUNIT_EXPECT_PTR_EQ(test, urb->context, (void *)flight);
	KUNIT_EXPECT_TRUE(test, urb->complete == flight_complete);
	flight_end(flight);
	flight_drop_handles(test, flight);
}

/* C3, C4: fields that no longer match are refused; nothing is submitted. */
static void urb_mismatch(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	struct urb *urb = flight->urb[0];
	dma_addr_t dma = urb->transfer_dma;
	u32 flags = urb->transfer_flags;
	void *addr = urb->transfer_buffer;

	urb->transfer_dma = 0;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_dma = dma;
	urb->transfer_flags &= ~URB_NO_TRANSFER_DMA_MAP;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_flags = flags;
	urb->transfer_buffer_length = SIZE + 1;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_buffer_length = SIZE;
	urb->transfer_buffer = addr + 8;
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_buffer = addr;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(NULL, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&flight->completed));
	KUNIT_EXPECT_EQ(test, 0, ucb_submit_urb(urb, GFP_KERNEL));
	flight_end(flight);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&flight->completed));
	flight_drop_handles(test, flight);
}

/* C9: destroy waits for all 32; no completion after it returns. */
static void urb_destroy_in_flight(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
	flight_end(flight);
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->completed));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&flight->after_end));
	flight_drop_handles(test, flight);
}

/* C8: completions that resubmit do not escape destroy. */
static void urb_resubmit(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	flight->resubmit = true;
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
	flight_end(flight);
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->refused));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&flight->after_end));
	flight_drop_handles(test, flight);
}

/* C1: the completion handler frees the buffer it was given. */
static void urb_free_in_completion(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	flight->free_in_completion = true;
	for (i = 0; i < NR; i++) {
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
		usb_kill_urb(flight->urb[i]);
	}
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->freed));
	flight_end(flight);
}

static struct kunit_case urb_cases[] = {
	KUNIT_CASE(urb_busy),
	KUNIT_CASE(urb_mismatch),
	KUNIT_CASE(urb_destroy_in_flight),
	KUNIT_CASE(urb_resubmit),
	KUNIT_CASE(urb_free_in_completion),
	{}
};

static struct kunit_suite urb_suite = {
	.name = "ucb_urb",
	.test_cases = urb_cases,
};

kunit_test_suite(urb_suite);

MODULE_DESCRIPTION("KUnit: URBs on pool buffers");
MODULE_LICENSE("GPL");
