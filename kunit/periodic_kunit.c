// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupt and isochronous URBs on pool buffers, with what the guest has for
 * them on its xHCI controller: a tablet and a sound card, without drivers.
 */

#include <linux/hid.h>
#include <linux/usb.h>

#include "transfer.h"

#define TABLET_VENDOR	0x0627
#define TABLET_PRODUCT	0x0001
#define SOUND_VENDOR	0x46f4
#define SOUND_PRODUCT	0x0002

#define TABLET_REPORT	6
#define SOUND_PACKETS	8
#define SOUND_PACKET	192
#define SOUND_BYTES	(SOUND_PACKETS * SOUND_PACKET)
#define SOUND_URBS	4

struct wanted {
	u16 vendor;
	u16 product;
	struct usb_device *udev;
};

static int periodic_match(struct usb_device *udev, void *data)
{
	struct wanted *wanted = data;

	if (le16_to_cpu(udev->descriptor.idVendor) != wanted->vendor ||
	    le16_to_cpu(udev->descriptor.idProduct) != wanted->product)
		return 0;
	wanted->udev = usb_get_dev(udev);
	return 1;
}

static void periodic_put(void *udev)
{
	usb_put_dev(udev);
}

static struct usb_device *periodic_find(struct kunit *test, u16 vendor, u16 product)
{
	struct wanted wanted = { .vendor = vendor, .product = product };

	usb_for_each_dev(&wanted, periodic_match);
	KUNIT_ASSERT_NOT_NULL_MSG(test, wanted.udev, "the guest has no %04x:%04x", vendor,
				  product);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, periodic_put, wanted.udev));
	return wanted.udev;
}

static struct ucb_pool *periodic_pool(struct kunit *test, struct usb_device *udev, size_t size)
{
	const struct ucb_pool_params params = { .name = "periodic", .size = size, .min = 4 };

	return pool_get(test, udev, &params);
}

/* The endpoint of @type and @dir in the current settings of @udev. */
static struct usb_host_endpoint *periodic_ep(struct kunit *test, struct usb_device *udev,
					     int type, u8 dir)
{
	struct usb_host_endpoint **eps = dir == USB_DIR_IN ? udev->ep_in : udev->ep_out;
	int i;

	for (i = 1; i < 16; i++)
		if (eps[i] && usb_endpoint_type(&eps[i]->desc) == type)
			return eps[i];
	KUNIT_ASSERT_LT_MSG(test, i, 16, "no endpoint of type %d", type);
	return NULL;
}

static void periodic_fill_interrupt(struct kunit *test, struct transfer *transfer)
{
	struct usb_host_endpoint *ep = periodic_ep(test, transfer->udev, USB_ENDPOINT_XFER_INT,
						   USB_DIR_IN);

	usb_fill_int_urb(transfer->urb, transfer->udev,
			 usb_rcvintpipe(transfer->udev, usb_endpoint_num(&ep->desc)), NULL, 0,
			 transfer_done, transfer, ep->desc.bInterval);
	KUNIT_ASSERT_EQ(test, 0, ucb_urb_attach(transfer->urb, transfer->buf,
						usb_endpoint_maxp(&ep->desc)));
}

/* How often the tablet reports with nothing to say: in 4 ms, 0 for never. */
static void tablet_set_idle(struct kunit *test, struct usb_device *udev, u8 rate)
{
	KUNIT_ASSERT_EQ(test, 0, usb_control_msg(udev, usb_sndctrlpipe(udev, 0),
						 HID_REQ_SET_IDLE,
						 USB_TYPE_CLASS | USB_RECIP_INTERFACE,
						 rate << 8, 0, NULL, 0, USB_CTRL_SET_TIMEOUT));
}

/* A report comes, again and again; one that does not come is killed. */
static void periodic_interrupt(struct kunit *test)
{
	struct usb_device *udev = periodic_find(test, TABLET_VENDOR, TABLET_PRODUCT);
	struct transfer *transfer = transfer_get(test, udev, periodic_pool(test, udev, 64));
	int i;

	tablet_set_idle(test, udev, 2);
	for (i = 0; i < 16; i++) {
		periodic_fill_interrupt(test, transfer);
		memset(ucb_buf_addr(transfer->buf), 0xee, 64);
		KUNIT_EXPECT_EQ(test, TABLET_REPORT, transfer_run(transfer));
		/* no button is pressed */
		KUNIT_EXPECT_EQ(test, 0, *(u8 *)ucb_buf_addr(transfer->buf));
	}
	tablet_set_idle(test, udev, 0);
	/* one more may have been on its way */
	periodic_fill_interrupt(test, transfer);
	for (i = 0; i < 3; i++) {
		reinit_completion(&transfer->done);
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(transfer->urb, GFP_KERNEL));
		if (!wait_for_completion_timeout(&transfer->done, HZ / 2))
			break;
	}
	KUNIT_ASSERT_LT(test, i, 3);
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_buf_free(transfer->buf));
	usb_kill_urb(transfer->urb);
	KUNIT_EXPECT_EQ(test, -ENOENT, transfer->urb->status);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(transfer->buf));
}

/* A URB that somebody else has: anchored by the driver, or submitted past us. */
static void periodic_not_ours(struct kunit *test)
{
	struct usb_device *udev = periodic_find(test, TABLET_VENDOR, TABLET_PRODUCT);
	struct transfer *transfer = transfer_get(test, udev, periodic_pool(test, udev, 64));
	struct usb_anchor anchor;

	tablet_set_idle(test, udev, 0);
	init_usb_anchor(&anchor);
	periodic_fill_interrupt(test, transfer);
	usb_anchor_urb(transfer->urb, &anchor);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(transfer->urb, GFP_KERNEL));
	usb_unanchor_urb(transfer->urb);

	KUNIT_ASSERT_EQ(test, 0, usb_submit_urb(transfer->urb, GFP_KERNEL));
	/* unless it had a last report to make */
	if (!wait_for_completion_timeout(&transfer->done, HZ / 4)) {
		KUNIT_EXPECT_EQ(test, -EBUSY, ucb_submit_urb(transfer->urb, GFP_KERNEL));
		KUNIT_EXPECT_PTR_EQ(test, (void *)transfer->urb->complete, (void *)transfer_done);
		usb_kill_urb(transfer->urb);
	}
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(transfer->buf));
}

struct sound {
	struct urb *urb;
	struct ucb_buf *buf;
	struct completion done;
};

static void sound_done(struct urb *urb)
{
	struct sound *sound = urb->context;

	complete(&sound->done);
}

static void sound_exit(void *urb)
{
	usb_kill_urb(urb);
	usb_free_urb(urb);
}

static void sound_fill(struct kunit *test, struct sound *sound, struct usb_device *udev,
		       struct usb_host_endpoint *ep)
{
	struct urb *urb = sound->urb;
	int i;

	urb->dev = udev;
	urb->pipe = usb_sndisocpipe(udev, usb_endpoint_num(&ep->desc));
	urb->transfer_flags = URB_ISO_ASAP;
	urb->interval = ep->desc.bInterval;
	urb->complete = sound_done;
	urb->context = sound;
	urb->number_of_packets = SOUND_PACKETS;
	for (i = 0; i < SOUND_PACKETS; i++) {
		urb->iso_frame_desc[i].offset = i * SOUND_PACKET;
		urb->iso_frame_desc[i].length = SOUND_PACKET;
	}
	KUNIT_ASSERT_EQ(test, 0, ucb_urb_attach(urb, sound->buf, SOUND_BYTES));
	KUNIT_EXPECT_TRUE(test, urb->transfer_flags & URB_ISO_ASAP);
}

/* Several isochronous URBs in flight, each packet of each sent. */
static void periodic_isochronous(struct kunit *test)
{
	struct usb_device *udev = periodic_find(test, SOUND_VENDOR, SOUND_PRODUCT);
	struct ucb_pool *pool = periodic_pool(test, udev, SOUND_BYTES);
	struct sound *sounds = kunit_kcalloc(test, SOUND_URBS, sizeof(*sounds), GFP_KERNEL);
	struct usb_host_endpoint *ep;
	int i, j, round;

	KUNIT_ASSERT_NOT_NULL(test, sounds);
	KUNIT_ASSERT_EQ(test, 0, usb_set_interface(udev, 1, 1));
	ep = periodic_ep(test, udev, USB_ENDPOINT_XFER_ISOC, USB_DIR_OUT);
	for (i = 0; i < SOUND_URBS; i++) {
		init_completion(&sounds[i].done);
		sounds[i].urb = usb_alloc_urb(SOUND_PACKETS, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, sounds[i].urb);
		KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, sound_exit,
								   sounds[i].urb));
		sounds[i].buf = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, sounds[i].buf);
	}
	for (round = 0; round < 4; round++) {
		for (i = 0; i < SOUND_URBS; i++) {
			reinit_completion(&sounds[i].done);
			sound_fill(test, &sounds[i], udev, ep);
			memset(ucb_buf_addr(sounds[i].buf), 0, SOUND_BYTES);
			KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(sounds[i].urb, GFP_KERNEL));
		}
		for (i = 0; i < SOUND_URBS; i++) {
			KUNIT_ASSERT_NE(test, 0, wait_for_completion_timeout(&sounds[i].done,
									     TRANSFER_TIMEOUT));
			KUNIT_EXPECT_EQ(test, 0, sounds[i].urb->status);
			for (j = 0; j < SOUND_PACKETS; j++) {
				KUNIT_EXPECT_EQ(test, 0, sounds[i].urb->iso_frame_desc[j].status);
				KUNIT_EXPECT_EQ(test, SOUND_PACKET,
						sounds[i].urb->iso_frame_desc[j].actual_length);
			}
		}
	}
	/* a packet past the end of the buffer */
	sound_fill(test, &sounds[0], udev, ep);
	sounds[0].urb->iso_frame_desc[SOUND_PACKETS - 1].length++;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(sounds[0].urb, GFP_KERNEL));
	sound_fill(test, &sounds[0], udev, ep);
	sounds[0].urb->iso_frame_desc[1].offset = U32_MAX;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(sounds[0].urb, GFP_KERNEL));
	for (i = 0; i < SOUND_URBS; i++)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(sounds[i].buf));
	KUNIT_EXPECT_EQ(test, 0, usb_set_interface(udev, 1, 0));
}

static struct kunit_case periodic_cases[] = {
	KUNIT_CASE(periodic_interrupt),
	KUNIT_CASE(periodic_not_ours),
	KUNIT_CASE(periodic_isochronous),
	{}
};

static struct kunit_suite periodic_suite = {
	.name = "ucb_periodic",
	.test_cases = periodic_cases,
};

kunit_test_suite(periodic_suite);

MODULE_DESCRIPTION("KUnit: interrupt and isochronous URBs");
MODULE_LICENSE("GPL");
