/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is still allocated or mapped for a device that goes. DMA debugging looks
 * when a PCI device's driver lets go of it; for the platform devices of the suites
 * it is asked to. What it finds is a warning in the kernel's log.
 */
#ifndef _UCB_KUNIT_DMA_LEFT_H
#define _UCB_KUNIT_DMA_LEFT_H

#include <linux/device/bus.h>
#include <linux/notifier.h>
#include <linux/platform_device.h>

#include "symbol.h"

/* Return: 0 when it was looked for. */
static inline int dma_left_look(struct platform_device *pdev)
{
	notifier_fn_t device_change;

	if (!IS_ENABLED(CONFIG_DMA_API_DEBUG))
		return 0;
	device_change = symbol_find("dma_debug_device_change");
	if (IS_ERR(device_change))
		return PTR_ERR(device_change);
	device_change(NULL, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
	return 0;
}

#endif /* _UCB_KUNIT_DMA_LEFT_H */
