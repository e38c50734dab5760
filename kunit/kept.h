/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Buffers kept over the unplug of their device, for a case that frees them much
 * later: taken when the suite starts, so that its other cases run meanwhile.
 */
#ifndef _UCB_KUNIT_KEPT_H
#define _UCB_KUNIT_KEPT_H

#include <linux/completion.h>
#include <linux/device.h>
#include <linux/jiffies.h>

#include "fake_hcd.h"

#define KEPT_SIZE	3000
#define KEPT_TIMEOUT	(30 * HZ)

struct kept {
	struct fake_hcd *fake;
	struct ucb_pool *pool;
	void *addr;
	dma_addr_t dma;
	void *dropin;
	dma_addr_t dropin_dma;
	unsigned long unplugged;	/* jiffies */
};

static struct kept kept[REAL_XHCI + 1];	/* by enum fake_kind */

static void kept_drop(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kept); i++) {
		if (!IS_ERR_OR_NULL(kept[i].pool))
			ucb_pool_destroy(kept[i].pool);
		if (!IS_ERR_OR_NULL(kept[i].fake))
			fake_hcd_free(kept[i].fake);
		memset(&kept[i], 0, sizeof(kept[i]));
	}
}

struct replug {
	struct notifier_block nb;
	struct usb_device *old;
	struct completion gone;
	struct completion back;
};

static int replug_event(struct notifier_block *nb, unsigned long event, void *data)
{
	struct replug *replug = container_of(nb, struct replug, nb);
	struct usb_device *udev = data;

	if (event == USB_DEVICE_REMOVE && udev == replug->old)
		complete(&replug->gone);
	if (event == USB_DEVICE_ADD && udev->parent && udev->bus == replug->old->bus)
		complete(&replug->back);
	return NOTIFY_OK;
}

/*
 * Take the device's hub out of work and put it back: the device goes as when its
 * plug is pulled, and another is found in its place.
 */
static int kept_unplug(struct kept *k)
{
	struct replug replug = { .nb.notifier_call = replug_event, .old = k->fake->udev };
	struct usb_interface *hub = usb_ifnum_to_if(k->fake->udev->parent, 0);
	int ret = 0;

	if (!hub)
		return -ENODEV;
	init_completion(&replug.gone);
	init_completion(&replug.back);
	usb_register_notify(&replug.nb);
	device_release_driver(&hub->dev);
	k->unplugged = jiffies;
	if (!wait_for_completion_timeout(&replug.gone, KEPT_TIMEOUT))
		ret = -ETIMEDOUT;
	if (device_attach(&hub->dev) != 1)
		ret = -ENODEV;
	if (!ret && !wait_for_completion_timeout(&replug.back, KEPT_TIMEOUT))
		ret = -ETIMEDOUT;
	usb_unregister_notify(&replug.nb);
	return ret;
}

/* .suite_init */
static int kept_take(struct kunit_suite *suite)
{
	const struct ucb_pool_params params = { .name = "kept", .size = KEPT_SIZE, .min = 1 };
	int i, ret = 0;

	for (i = 0; i < ARRAY_SIZE(kept) && !ret; i++) {
		struct kept *k = &kept[i];

		k->fake = fake_hcd_make(i);
		if (IS_ERR(k->fake)) {
			ret = PTR_ERR(k->fake);
			break;
		}
		k->pool = ucb_pool_create(k->fake->udev, &params);
		if (IS_ERR(k->pool)) {
			ret = PTR_ERR(k->pool);
			break;
		}
		k->addr = ucb_pool_alloc(k->pool, GFP_KERNEL, &k->dma);
		k->dropin = ucb_alloc_coherent(k->fake->udev, KEPT_SIZE, GFP_KERNEL,
					       &k->dropin_dma);
		if (!k->addr || !k->dropin) {
			ret = -ENOMEM;
			break;
		}
		if (fake_is_real(i)) {
			ret = kept_unplug(k);
		} else {
			fake_hcd_remove(k->fake);
			k->unplugged = jiffies;
		}
	}
	if (ret)
		kept_drop();
	return ret;
}

/* .suite_exit */
static void kept_end(struct kunit_suite *suite)
{
	kept_drop();
}

#endif /* _UCB_KUNIT_KEPT_H */
