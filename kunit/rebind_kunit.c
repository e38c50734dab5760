// SPDX-License-Identifier: GPL-2.0
/*
 * C25: the generic driver is unbound by hand, and bound again. The device and
 * its memory stay, and so do pools of which something is out. USB_DEVICE_REMOVE
 * comes before the interfaces' drivers hear of it, USB_DEVICE_ADD after their
 * probes.
 */

#include <linux/usb.h>

#include "core_calls.h"
#include "guest_files.h"
#include "transfer.h"

#define ROUNDS	3
/* what a transfer of the descriptor returns */
#define DONE	USB_DT_DEVICE_SIZE

/* a buffer that is kept over it, of the drop-in pair */
struct kept_buf {
	void *addr;
	dma_addr_t dma;
};

/* what the driver saw, for the case to look at: it runs in the case's thread */
static struct rebind {
	struct notifier_block nb;
	struct usb_device *udev;
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	struct kept_buf kept;
	int probes;
	int probes_at_add;
	int kept_in_probe;
	int new_in_probe;
	int hold_in_probe;
	int kept_in_remove;
	int hold_in_remove;
	int free_in_remove;
	int kept_in_disconnect;
} rebind;

static void rebind_complete(struct urb *urb)
{
	complete(urb->context);
}

/* A control transfer by the helper. Return: its length, or an errno. */
static int get_descriptor(struct kept_buf buf)
{
	struct usb_ctrlrequest *setup = kzalloc(sizeof(*setup), GFP_KERNEL);
	struct urb *urb = usb_alloc_urb(0, GFP_KERNEL);
	DECLARE_COMPLETION_ONSTACK(done);
	int ret = -ENOMEM;

	if (!setup || !urb || !buf.addr)
		goto out;
	setup->bRequestType = USB_DIR_IN;
	setup->bRequest = USB_REQ_GET_DESCRIPTOR;
	setup->wValue = cpu_to_le16(USB_DT_DEVICE << 8);
	setup->wLength = cpu_to_le16(USB_DT_DEVICE_SIZE);
	usb_fill_control_urb(urb, rebind.udev, usb_rcvctrlpipe(rebind.udev, 0), (void *)setup,
			     buf.addr, USB_DT_DEVICE_SIZE, rebind_complete, &done);
	urb->transfer_dma = buf.dma;
	urb->transfer_flags |= URB_NO_TRANSFER_DMA_MAP;
	ret = ucb_submit_urb(urb, GFP_KERNEL);
	if (ret)
		goto out;
	if (!wait_for_completion_timeout(&done, TRANSFER_TIMEOUT))
		usb_kill_urb(urb);
	ret = urb->status ?: urb->actual_length;
out:
	usb_free_urb(urb);
	kfree(setup);
	return ret;
}

static struct kept_buf take(void)
{
	struct kept_buf buf;

	buf.addr = ucb_alloc_coherent(rebind.udev, 64, GFP_KERNEL, &buf.dma);
	return buf;
}

static int give(struct kept_buf buf)
{
	return ucb_free_coherent(rebind.udev, 64, buf.addr, buf.dma);
}

static int hold(void)
{
	int ret = ucb_buf_busy_get(rebind.buf);

	if (!ret)
		ucb_buf_busy_put(rebind.buf);
	return ret;
}

static int rebind_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	struct kept_buf buf;

	if (interface_to_usbdev(intf) != rebind.udev)
		return -ENODEV;
	rebind.probes++;
	if (!rebind.kept.addr)
		rebind.kept = take();
	rebind.kept_in_probe = get_descriptor(rebind.kept);
	rebind.hold_in_probe = hold();
	buf = take();
	rebind.new_in_probe = get_descriptor(buf);
	return give(buf);
}

static void rebind_disconnect(struct usb_interface *intf)
{
	rebind.kept_in_disconnect = get_descriptor(rebind.kept);
}

static const struct usb_device_id rebind_ids[] = {
	{ USB_DEVICE(0x0525, 0xa4a0) },
	{ USB_DEVICE(FAKE_STICK_VENDOR, FAKE_STICK_PRODUCT) },
	{ }
};

static struct usb_driver rebind_driver = {
	.name = "ucb_rebind",
	.probe = rebind_probe,
	.disconnect = rebind_disconnect,
	.id_table = rebind_ids,
};

/* Called after the pool's own, and before the driver is unbound. */
static int rebind_event(struct notifier_block *nb, unsigned long event, void *data)
{
	if (data != rebind.udev)
		return NOTIFY_OK;
	if (event == USB_DEVICE_ADD)
		rebind.probes_at_add = rebind.probes;
	if (event == USB_DEVICE_REMOVE) {
		rebind.kept_in_remove = get_descriptor(rebind.kept);
		rebind.hold_in_remove = hold();
		rebind.free_in_remove = give(take());
	}
	return NOTIFY_OK;
}

/* The generic driver leaves the device, or finds it again. */
static int bind_generic(bool bind)
{
	struct device *hub = rebind.udev->dev.parent;
	int ret = 1;

	if (!bind) {
		device_release_driver(&rebind.udev->dev);
		return ret;
	}
	device_lock(hub);
	ret = device_attach(&rebind.udev->dev);
	device_unlock(hub);
	return ret;
}

static void rebind_end(void *unused)
{
	usb_deregister(&rebind_driver);
	usb_unregister_notify(&rebind.nb);
	bind_generic(true);
}

static void rebind_start(struct kunit *test, struct usb_device *udev)
{
	const struct ucb_pool_params params = { .name = "rebind", .size = 64 };

	memset(&rebind, 0, sizeof(rebind));
	rebind.nb.notifier_call = rebind_event;
	rebind.udev = udev;
	rebind.pool = pool_get(test, udev, &params);
	rebind.buf = ucb_buf_alloc(rebind.pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, rebind.buf);
	usb_register_notify(&rebind.nb);
	if (usb_register(&rebind_driver)) {
		usb_unregister_notify(&rebind.nb);
		KUNIT_FAIL(test, "no driver");
		return;
	}
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, rebind_end, NULL));
	KUNIT_ASSERT_EQ(test, 1, rebind.probes);
}

/* One time around, with a buffer of each pool out. */
static void rebind_round(struct kunit *test)
{
	int probes = rebind.probes;

	KUNIT_ASSERT_EQ(test, 1, bind_generic(false));
	KUNIT_EXPECT_EQ(test, -ENODEV, rebind.kept_in_remove);
	KUNIT_EXPECT_EQ(test, -ENODEV, rebind.hold_in_remove);
	KUNIT_EXPECT_EQ(test, 0, rebind.free_in_remove);
	KUNIT_EXPECT_EQ(test, -ENODEV, rebind.kept_in_disconnect);
	/* not configured */
	KUNIT_EXPECT_EQ(test, -ENODEV, get_descriptor(rebind.kept));
	KUNIT_EXPECT_EQ(test, -ENODEV, hold());
	KUNIT_EXPECT_EQ(test, 0, give(take()));

	KUNIT_ASSERT_EQ(test, 1, bind_generic(true));
	KUNIT_EXPECT_EQ(test, probes + 1, rebind.probes);
	KUNIT_EXPECT_EQ(test, probes + 1, rebind.probes_at_add);
	KUNIT_EXPECT_EQ(test, DONE, rebind.kept_in_probe);
	KUNIT_EXPECT_EQ(test, DONE, rebind.new_in_probe);
	KUNIT_EXPECT_EQ(test, 0, rebind.hold_in_probe);
	KUNIT_EXPECT_EQ(test, DONE, get_descriptor(rebind.kept));
}

/* Pools that survive are good from the next probe on, and not before. */
static void rebind_kept(struct kunit *test)
{
	int i;

	rebind_start(test, kind_hcd(test)->udev);
	KUNIT_EXPECT_EQ(test, DONE, rebind.kept_in_probe);
	KUNIT_EXPECT_EQ(test, DONE, rebind.new_in_probe);
	for (i = 0; i < ROUNDS; i++)
		rebind_round(test);
	/* of the generation before: the pool was the same all the time */
	KUNIT_EXPECT_EQ(test, 0, give(rebind.kept));
	rebind.kept.addr = NULL;
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(rebind.buf));
}

/* URBs in flight when it goes: each completes, and its buffer comes home. */
static void rebind_in_flight(struct kunit *test)
{
	struct usb_device *udev = fake_hcd_get(test, REAL_DUMMY)->udev;
	struct transfer *transfer[8];
	unsigned int pipe;
	int i, round;

	rebind_start(test, udev);
	for (i = 0; i < ARRAY_SIZE(transfer); i++)
		transfer[i] = transfer_get(test, udev, rebind.pool);
	for (round = 0; round < ROUNDS; round++) {
		pipe = bulk_pipe(test, udev, USB_DIR_IN);
		for (i = 0; i < ARRAY_SIZE(transfer); i++) {
			KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(transfer[i], pipe, 64));
			reinit_completion(&transfer[i]->done);
			KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(transfer[i]->urb, GFP_KERNEL));
		}
		KUNIT_EXPECT_EQ(test, -EBUSY, ucb_buf_free(transfer[0]->buf));
		rebind_round(test);
		for (i = 0; i < ARRAY_SIZE(transfer); i++) {
			KUNIT_EXPECT_TRUE(test, completion_done(&transfer[i]->done));
			KUNIT_EXPECT_EQ(test, -ESHUTDOWN, transfer[i]->urb->status);
		}
	}
	for (i = 0; i < ARRAY_SIZE(transfer); i++)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(transfer[i]->buf));
	KUNIT_EXPECT_EQ(test, 0, give(rebind.kept));
	rebind.kept.addr = NULL;
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(rebind.buf));
}

/*
 * What nobody binds again goes with its last buffer, and not before: then all of
 * the drop-in pair's memory is the USB core's again.
 */
static void rebind_never(struct kunit *test)
{
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_DMA);
	struct core_calls *calls = core_calls_get(test, fake->udev);
	struct kept_buf buf[3];
	int i;

	rebind.udev = fake->udev;
	for (i = 0; i < ARRAY_SIZE(buf); i++) {
		buf[i] = take();
		KUNIT_ASSERT_NOT_NULL(test, buf[i].addr);
	}
	KUNIT_EXPECT_EQ(test, 0, give(buf[0]));
	device_release_driver(&fake->udev->dev);
	KUNIT_EXPECT_EQ(test, 0, give(buf[1]));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&calls->frees));
	memset(buf[2].addr, 0x5a, 64);
	KUNIT_EXPECT_EQ(test, 0, give(buf[2]));
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&calls->frees));

	/* nor does what is asked for afterwards stay */
	buf[0] = take();
	KUNIT_ASSERT_NOT_NULL(test, buf[0].addr);
	KUNIT_EXPECT_EQ(test, 0, give(buf[0]));
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 4, atomic_read(&calls->frees));
}

static void clear_debug(void *unused)
{
	set_debug(false);
}

/* The same when the last is not good to be handed out again. */
static void rebind_never_quarantined(struct kunit *test)
{
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_DMA);
	struct core_calls *calls = core_calls_get(test, fake->udev);
	struct kept_buf good, bad;

	KUNIT_ASSERT_EQ(test, 0, set_debug(true));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_debug, NULL));
	rebind.udev = fake->udev;
	good = take();
	bad = take();
	KUNIT_ASSERT_NOT_NULL(test, good.addr);
	KUNIT_ASSERT_NOT_NULL(test, bad.addr);
	device_release_driver(&fake->udev->dev);
	KUNIT_EXPECT_EQ(test, 0, give(good));
	((u8 *)bad.addr)[64] ^= 0xff;
	KUNIT_EXPECT_EQ(test, 0, give(bad));
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&calls->frees));
}

static struct kunit_case rebind_cases[] = {
	KUNIT_CASE_PARAM(rebind_kept, real_gen_params),
	KUNIT_CASE(rebind_never),
	KUNIT_CASE(rebind_never_quarantined),
	KUNIT_CASE(rebind_in_flight),
	{}
};

static struct kunit_suite rebind_suite = {
	.name = "ucb_rebind",
	.test_cases = rebind_cases,
};

kunit_test_suite(rebind_suite);

MODULE_DESCRIPTION("KUnit: a device whose generic driver is unbound, and bound again");
MODULE_LICENSE("GPL");
