/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is still allocated or mapped for a device that goes. DMA debugging looks
 * when a PCI device's driver lets go of it; for the platform devices of the suites
 * it is asked to. What it finds is a warning in the kernel's log.
 */
#ifndef _UCB_KUNIT_DMA_LEFT_H
#define _UCB_KUNIT_DMA_LEFT_H

#include <linux/device/bus.h>
#include <linux/kprobes.h>
#include <linux/notifier.h>
#include <linux/platform_device.h>

/* Return: 0 when it was looked for. */
static inline int dma_left_look(struct platform_device *pdev)
{
	struct kprobe look = { .symbol_name = "dma_debug_device_change" };
	notifier_fn_t device_change;
	int err;

	if (!IS_ENABLED(CONFIG_DMA_API_DEBUG))
		return 0;
	/* not exported; a probe finds it */
	err = register_kprobe(&look);
	if (err)
		return err;
	device_change = (notifier_fn_t)look.addr;
	unregister_kprobe(&look);
	device_change(NULL, BUS_NOTIFY_UNBOUND_DRIVER, &pdev->dev);
	return 0;
}

#endif /* _UCB_KUNIT_DMA_LEFT_H */
