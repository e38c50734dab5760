/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A USB host controller without hardware, for suites: a root hub with one
 * empty port, on a platform device, whose buffers come as a test asks: from
 * the DMA API, from kmalloc (PIO), or from a gen_pool (local memory). Its root
 * hub is the usb_device that pools are made for.
 *
 * Also finds the real devices that the guest has: the gadget on dummy_hcd and
 * what is on an emulated xHCI.
 */
#ifndef _UCB_FAKE_HCD_H
#define _UCB_FAKE_HCD_H

#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/genalloc.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>
#include <linux/usb/ch11.h>
#include <ucb/pool.h>

#include "../drivers/compat.h"
#include "dma_left.h"

enum fake_kind { FAKE_DMA, FAKE_PIO, FAKE_LOCALMEM, REAL_DUMMY, REAL_XHCI };

static inline bool fake_is_real(enum fake_kind kind)
{
	return kind == REAL_DUMMY || kind == REAL_XHCI;
}

#define FAKE_LOCAL_BYTES	SZ_1M
#define FAKE_STICK_VENDOR	0x46f4
#define FAKE_STICK_PRODUCT	0x0001
#define FAKE_LOCAL_DMA		0x40000000UL

struct fake_hcd {
	enum fake_kind kind;
	struct platform_device *pdev;
	struct usb_hcd *hcd;
	struct usb_device *udev;
	void *local;
	bool removed;
};

static int fake_start(struct usb_hcd *hcd)
{
	hcd->state = HC_STATE_RUNNING;
	hcd->uses_new_polling = 1;
	return 0;
}

static void fake_stop(struct usb_hcd *hcd)
{
}

static int fake_frame(struct usb_hcd *hcd)
{
	return 0;
}

static int fake_enqueue(struct usb_hcd *hcd, struct urb *urb, gfp_t gfp)
{
	return -EOPNOTSUPP;
}

static int fake_dequeue(struct usb_hcd *hcd, struct urb *urb, int status)
{
	return -EOPNOTSUPP;
}

static int fake_hub_status(struct usb_hcd *hcd, char *buf)
{
	return 0;
}

static int fake_hub_control(struct usb_hcd *hcd, u16 request, u16 value,
			    u16 index, char *buf, u16 length)
{
	struct usb_hub_descriptor *desc = (void *)buf;

	switch (request) {
	case GetHubDescriptor:
		desc->bDescLength = 9;
		desc->bDescriptorType = USB_DT_HUB;
		desc->bNbrPorts = 1;
		desc->wHubCharacteristics =
			cpu_to_le16(HUB_CHAR_INDV_PORT_LPSM);
		memset(desc->u.hs.DeviceRemovable, 0xff,
		       sizeof(desc->u.hs.DeviceRemovable));
		return 0;
	case GetHubStatus:
	case GetPortStatus:
		memset(buf, 0, 4);
		return 0;
	case SetPortFeature:
	case ClearPortFeature:
	case SetHubFeature:
	case ClearHubFeature:
		return 0;
	}
	return -EPIPE;
}

#define FAKE_DRIVER(name, more)					\
	static const struct hc_driver name = {			\
		.description = "ucb_fake_hcd",			\
		.product_desc = "fake host controller",		\
		.flags = HCD_USB2 | (more),			\
		.start = fake_start,				\
		.stop = fake_stop,				\
		.get_frame_number = fake_frame,			\
		.urb_enqueue = fake_enqueue,			\
		.urb_dequeue = fake_dequeue,			\
		.hub_status_data = fake_hub_status,		\
		.hub_control = fake_hub_control,		\
	}

FAKE_DRIVER(fake_dma_driver, HCD_DMA);
FAKE_DRIVER(fake_pio_driver, 0);

static void fake_hcd_remove(struct fake_hcd *fake)
{
	if (fake->removed)
		return;
	fake->removed = true;
	usb_remove_hcd(fake->hcd);
}

static int fake_find_real(struct usb_device *udev, void *data)
{
	struct fake_hcd *fake = data;
	const char *bus = dev_driver_string(udev->bus->controller);
	bool dummy = !strncmp(bus, "dummy", 5);
	bool wanted = fake->kind == REAL_DUMMY;

	if (!udev->parent || dummy != wanted ||
	    (!dummy && strncmp(bus, "xhci", 4)))
		return 0;
	/* the controller has more devices, for the suite of periodic transfers */
	if (!dummy && (le16_to_cpu(udev->descriptor.idVendor) != FAKE_STICK_VENDOR ||
		       le16_to_cpu(udev->descriptor.idProduct) != FAKE_STICK_PRODUCT))
		return 0;
	fake->udev = usb_get_dev(udev);
	return 1;
}

static int fake_local_memory(struct fake_hcd *fake)
{
	fake->local = kzalloc(FAKE_LOCAL_BYTES, GFP_KERNEL);
	fake->hcd->localmem_pool = gen_pool_create(8, NUMA_NO_NODE);
	if (!fake->local || !fake->hcd->localmem_pool)
		return -ENOMEM;
	return gen_pool_add_virt(fake->hcd->localmem_pool,
				 (unsigned long)fake->local, FAKE_LOCAL_DMA,
				 FAKE_LOCAL_BYTES, NUMA_NO_NODE);
}

static void fake_hcd_free(void *data)
{
	struct fake_hcd *fake = data;
	struct gen_pool *local = NULL;

	if (fake->hcd) {
		local = fake->hcd->localmem_pool;
		if (fake->udev)
			fake_hcd_remove(fake);
	}
	usb_put_dev(fake->udev);
	usb_put_hcd(fake->hcd);
	if (local)
		gen_pool_destroy(local);
	kfree(fake->local);
	if (!IS_ERR_OR_NULL(fake->pdev)) {
		WARN_ON(dma_left_look(fake->pdev));
		platform_device_unregister(fake->pdev);
	}
	kfree(fake);
}

static int fake_hcd_start(struct fake_hcd *fake)
{
	const struct hc_driver *driver = &fake_pio_driver;
	struct device *dev;
	int ret;

	if (fake->kind == FAKE_DMA)
		driver = &fake_dma_driver;
	fake->pdev = platform_device_register_simple("ucb_fake_hcd",
						     PLATFORM_DEVID_AUTO, NULL,
						     0);
	if (IS_ERR(fake->pdev))
		return PTR_ERR(fake->pdev);
	dev = &fake->pdev->dev;
	ret = dma_coerce_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;
	fake->hcd = usb_create_hcd(driver, dev, "ucb_fake_hcd");
	if (!fake->hcd)
		return -ENOMEM;
	if (fake->kind == FAKE_LOCALMEM) {
		ret = fake_local_memory(fake);
		if (ret)
			return ret;
	}
	ret = usb_add_hcd(fake->hcd, 0, 0);
	if (!ret)
		fake->udev = usb_get_dev(fake->hcd->self.root_hub);
	return ret;
}

/*
 * A controller of @kind, for longer than a case; to be given to
 * fake_hcd_free(). Of a real one, a device on it is found.
 */
static struct fake_hcd *fake_hcd_make(enum fake_kind kind)
{
	struct fake_hcd *fake = kzalloc(sizeof(*fake), GFP_KERNEL);
	int ret = 0;

	if (!fake)
		return ERR_PTR(-ENOMEM);
	fake->kind = kind;
	if (fake_is_real(kind)) {
		usb_for_each_dev(fake, fake_find_real);
		if (!fake->udev)
			ret = -ENODEV;
	} else {
		ret = fake_hcd_start(fake);
	}
	if (!ret)
		return fake;
	fake_hcd_free(fake);
	return ERR_PTR(ret);
}

/* The controller of @kind for this test; gone at its end. */
static struct fake_hcd *fake_hcd_get(struct kunit *test, enum fake_kind kind)
{
	struct fake_hcd *fake = fake_hcd_make(kind);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(fake), "%s: %ld",
			       fake_is_real(kind) ? "the guest has no such device" :
						    "no fake controller",
			       PTR_ERR(fake));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, fake_hcd_free, fake));
	return fake;
}

/*
 * Behind an IOMMU is only the real xHCI; to a case on any other controller it makes no difference,
 * and make check has it in the guest without one.
 */
static inline bool kind_is_left_out(enum fake_kind kind)
{
	struct pci_dev *xhci = pci_get_class(PCI_CLASS_SERIAL_USB_XHCI, NULL);
	bool remapped = xhci && device_iommu_mapped(&xhci->dev);

	pci_dev_put(xhci);
	return remapped && kind != REAL_XHCI;
}

/* What a case runs on; the last three are for some suites only. */
struct fake_param {
	const char *name;
	enum fake_kind kind;
	bool iwarp;
	size_t size;
	unsigned int nr;
};

/* The parameter after @prev, for what generates them; NULL when that was the last. */
static inline const void *fake_param_next(const struct fake_param *params, size_t nr,
					  const void *prev, char *desc)
{
	const struct fake_param *next = prev ? (const struct fake_param *)prev + 1 : params;

	while (next != params + nr && kind_is_left_out(next->kind))
		next++;
	if (next == params + nr)
		return NULL;
	strscpy(desc, next->name, KUNIT_PARAM_DESC_SIZE);
	return next;
}

static const struct fake_param fake_params[] = {
	{ "fake DMA", FAKE_DMA },
	{ "fake PIO", FAKE_PIO },
	{ "fake local memory", FAKE_LOCALMEM },
	{ "dummy_hcd", REAL_DUMMY },
	{ "qemu-xhci", REAL_XHCI },
};

/* KUNIT_CASE_PARAM(case, kind_gen_params): the case on each kind */
static __maybe_unused UCB_KUNIT_GEN_PARAMS(kind_gen_params, prev, desc)
{
	return fake_param_next(fake_params, ARRAY_SIZE(fake_params), prev, desc);
}

/* the controller of a case with such a parameter */
static inline struct fake_hcd *kind_hcd(struct kunit *test)
{
	const struct fake_param *param = test->param_value;

	return fake_hcd_get(test, param->kind);
}

static inline void pool_destroy(void *pool)
{
	ucb_pool_destroy(pool);
}

/* A pool for this test, destroyed at its end, before its controller. */
static inline struct ucb_pool *pool_get(struct kunit *test, struct usb_device *udev,
					const struct ucb_pool_params *params)
{
	struct ucb_pool *pool = ucb_pool_create(udev, params);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(pool), "pool: %ld", PTR_ERR(pool));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, pool_destroy, pool));
	return pool;
}

#endif /* _UCB_FAKE_HCD_H */
