/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One URB on one buffer of a pool, for suites: a control or bulk transfer with
 * a device that the guest has.
 */
#ifndef _UCB_KUNIT_TRANSFER_H
#define _UCB_KUNIT_TRANSFER_H

#include <linux/completion.h>
#include <linux/usb.h>

#include "fake_hcd.h"

#define TRANSFER_TIMEOUT	(60 * HZ)

struct transfer {
	struct usb_device *udev;
	struct ucb_buf *buf;
	struct urb *urb;
	struct usb_ctrlrequest *setup;
	struct completion done;
};

static inline void transfer_done(struct urb *urb)
{
	struct transfer *transfer = urb->context;

	complete(&transfer->done);
}

static inline void transfer_exit(void *data)
{
	struct transfer *transfer = data;

	usb_kill_urb(transfer->urb);
	usb_free_urb(transfer->urb);
}

/*
 * A URB and a buffer of @pool; the buffer's owner is the case. A pool that is
 * made before is destroyed after the URB has gone.
 */
static inline struct transfer *transfer_get(struct kunit *test, struct usb_device *udev,
					    struct ucb_pool *pool)
{
	struct transfer *transfer = kunit_kzalloc(test, sizeof(*transfer), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, transfer);
	init_completion(&transfer->done);
	transfer->udev = udev;
	transfer->setup = kunit_kzalloc(test, sizeof(*transfer->setup), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, transfer->setup);
	transfer->urb = usb_alloc_urb(0, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, transfer->urb);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, transfer_exit, transfer));
	transfer->buf = ucb_buf_alloc(pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, transfer->buf);
	return transfer;
}

/* GET_DESCRIPTOR of the device: any device answers it. */
static inline int transfer_fill_control(struct transfer *transfer, usb_complete_t complete,
					void *context)
{
	struct usb_ctrlrequest *setup = transfer->setup;

	setup->bRequestType = USB_DIR_IN;
	setup->bRequest = USB_REQ_GET_DESCRIPTOR;
	setup->wValue = cpu_to_le16(USB_DT_DEVICE << 8);
	setup->wLength = cpu_to_le16(USB_DT_DEVICE_SIZE);
	usb_fill_control_urb(transfer->urb, transfer->udev,
			     usb_rcvctrlpipe(transfer->udev, 0), (void *)setup, NULL, 0,
			     complete, context);
	return ucb_urb_attach(transfer->urb, transfer->buf, USB_DT_DEVICE_SIZE);
}

static inline int transfer_fill_bulk(struct transfer *transfer, unsigned int pipe, u32 length)
{
	usb_fill_bulk_urb(transfer->urb, transfer->udev, pipe, NULL, 0, transfer_done,
			  transfer);
	return ucb_urb_attach(transfer->urb, transfer->buf, length);
}

/* Return: the bytes transferred, or an errno. */
static inline int transfer_run(struct transfer *transfer)
{
	int ret;

	reinit_completion(&transfer->done);
	ret = ucb_submit_urb(transfer->urb, GFP_KERNEL);
	if (ret)
		return ret;
	if (!wait_for_completion_timeout(&transfer->done, TRANSFER_TIMEOUT)) {
		usb_kill_urb(transfer->urb);
		return -ETIMEDOUT;
	}
	return transfer->urb->status ?: transfer->urb->actual_length;
}

/* The bulk pipe of @dir, USB_DIR_IN or USB_DIR_OUT. */
static inline unsigned int bulk_pipe(struct kunit *test, struct usb_device *udev, u8 dir)
{
	struct usb_host_endpoint **eps = dir == USB_DIR_IN ? udev->ep_in : udev->ep_out;
	unsigned int nr = 0;
	int i;

	for (i = 1; i < 16 && !nr; i++)
		if (eps[i] && usb_endpoint_xfer_bulk(&eps[i]->desc))
			nr = i;
	KUNIT_ASSERT_NE_MSG(test, nr, 0, "no bulk endpoint");
	return dir == USB_DIR_IN ? usb_rcvbulkpipe(udev, nr) : usb_sndbulkpipe(udev, nr);
}

static const struct fake_param real_params[] = {
	{ "dummy_hcd", REAL_DUMMY },
	{ "qemu-xhci", REAL_XHCI },
};

/* KUNIT_CASE_PARAM(case, real_gen_params): on each kind that transfers */
static __maybe_unused UCB_KUNIT_GEN_PARAMS(real_gen_params, prev, desc)
{
	return fake_param_next(real_params, ARRAY_SIZE(real_params), prev, desc);
}

#endif /* _UCB_KUNIT_TRANSFER_H */
