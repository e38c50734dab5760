/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The steps of the tutorial as suites: each includes its sample, so that it is
 * that driver's module, and uses the driver through its device node, as user
 * space does. A driver is bound to the gadget for the length of a case.
 */
#ifndef _UCB_KUNIT_SKEL_H
#define _UCB_KUNIT_SKEL_H

#include <kunit/test.h>
#include <linux/device.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/usb.h>

#include "../drivers/compat.h"
#include "fake_hcd.h"

static const size_t skel_lengths[] = { 1, 64, 1024, 2048, 2049, 4096, SKEL_LEN };

static inline struct usb_interface *skel_intf(struct usb_device *udev)
{
	return usb_ifnum_to_if(udev, 0);
}

static inline void skel_unbind(void *data)
{
	struct usb_device *udev = data;

	usb_lock_device(udev);
	device_release_driver(&skel_intf(udev)->dev);
	usb_unlock_device(udev);
}

static inline void skel_close(void *data)
{
	filp_close(data, NULL);
	/* a kernel thread's is put later, and the module is in use until then */
	flush_delayed_fput();
}

/* Bind the driver to the gadget and open its node; undone when the case ends. */
static inline struct file *skel_bind(struct kunit *test, struct usb_device **udev)
{
	struct device *dev;
	struct file *file = NULL;

	*udev = fake_hcd_get(test, REAL_DUMMY)->udev;
	dev = &skel_intf(*udev)->dev;
	/* by name: the drivers of the other steps would take the device, too */
	if (dev->driver != &skel_driver.driver)
		KUNIT_ASSERT_EQ(test, 0, device_driver_attach(&skel_driver.driver, dev));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, skel_unbind, *udev));
	scoped_with_init_fs()
		file = filp_open("/dev/skel0", O_RDWR, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, skel_close, file));
	return file;
}

static inline u8 *skel_bytes(struct kunit *test)
{
	u8 *bytes = kunit_kzalloc(test, SKEL_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	get_random_bytes(bytes, SKEL_SIZE);
	return bytes;
}

/* What is written comes back, and so do the buffers: a pool has 16. */
static inline void skel_echoes(struct kunit *test)
{
	struct usb_device *udev;
	struct file *file = skel_bind(test, &udev);
	u8 *out = skel_bytes(test), *in = skel_bytes(test);
	loff_t pos = 0;
	int i;

	for (i = 0; i < 3 * ARRAY_SIZE(skel_lengths); i++) {
		size_t len = skel_lengths[i % ARRAY_SIZE(skel_lengths)];

		KUNIT_ASSERT_EQ(test, len, kernel_write(file, out, len, &pos));
		KUNIT_ASSERT_EQ(test, len, kernel_read(file, in, SKEL_SIZE, &pos));
		KUNIT_EXPECT_MEMEQ(test, in, out, len);
	}
}

/* A file that is open when its device goes. */
static inline void skel_goes(struct kunit *test)
{
	struct usb_device *udev;
	struct file *file = skel_bind(test, &udev);
	u8 *bytes = skel_bytes(test);
	loff_t pos = 0;

	KUNIT_EXPECT_EQ(test, 64, kernel_write(file, bytes, 64, &pos));
	KUNIT_EXPECT_GT(test, kernel_read(file, bytes, SKEL_SIZE, &pos), 0);
	skel_unbind(udev);
	KUNIT_EXPECT_EQ(test, -ENODEV, kernel_write(file, bytes, 64, &pos));
	KUNIT_EXPECT_EQ(test, -ENODEV, kernel_read(file, bytes, SKEL_SIZE, &pos));
}

#endif /* _UCB_KUNIT_SKEL_H */
