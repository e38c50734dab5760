// SPDX-License-Identifier: GPL-2.0
/*
 * Pools of checked USB coherent buffers: module init and exit, and what the
 * USB core tells about devices and buses.
 */

#include <linux/module.h>
#include <linux/notifier.h>

#include "internal.h"

bool ucb_debug;

/* a drop-in pool may be made where the stacks' table cannot be */
static int ucb_debug_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_bool(val, kp);

	if (!ret && ucb_debug)
		ucb_stacks_init();
	return ret;
}

static const struct kernel_param_ops ucb_debug_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = ucb_debug_set,
	.get = param_get_bool,
};
module_param_cb(debug, &ucb_debug_ops, &ucb_debug, 0644);
MODULE_PARM_DESC(debug, "guard bytes, poison and delayed reissue in pools created from now on");

struct workqueue_struct *ucb_wq;
struct workqueue_struct *ucb_end_wq;

static int ucb_usb_event(struct notifier_block *nb, unsigned long event,
			 void *data)
{
	switch (event) {
	case USB_DEVICE_ADD:
		ucb_pools_device_back(data);
		break;
	case USB_DEVICE_REMOVE:
		ucb_pools_device_gone(data);
		break;
	case USB_BUS_REMOVE:
		ucb_pools_bus_gone(data);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block ucb_usb_nb = {
	.notifier_call = ucb_usb_event,
};

static int __init ucb_init(void)
{
	int ret;

	ucb_wq = alloc_workqueue("ucb", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!ucb_wq)
		return -ENOMEM;
	ucb_end_wq = alloc_workqueue("ucb_end", WQ_UNBOUND, 0);
	if (!ucb_end_wq) {
		ret = -ENOMEM;
		goto err_wq;
	}
	ret = ucb_bufs_init();
	if (ret)
		goto err_end_wq;
	ret = ucb_shrink_init();
	if (ret)
		goto err_bufs;
	ucb_debugfs_init();
	usb_register_notify(&ucb_usb_nb);
	return 0;

err_bufs:
	ucb_bufs_exit();
err_end_wq:
	destroy_workqueue(ucb_end_wq);
err_wq:
	destroy_workqueue(ucb_wq);
	return ret;
}

static void __exit ucb_exit(void)
{
	usb_unregister_notify(&ucb_usb_nb);
	ucb_dropin_exit();
	ucb_shrink_exit();
	/* pools on their way out put themselves on the queue once more */
	drain_workqueue(ucb_end_wq);
	rcu_barrier();
	ucb_debugfs_exit();
	ucb_bufs_exit();
	destroy_workqueue(ucb_end_wq);
	destroy_workqueue(ucb_wq);
}

module_init(ucb_init);
module_exit(ucb_exit);

MODULE_DESCRIPTION("Pools of checked USB coherent buffers");
MODULE_LICENSE("GPL");
