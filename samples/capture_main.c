// SPDX-License-Identifier: GPL-2.0
/*
 * Capture to a remote peer: bytes come in over USB, a peer reads them by RDMA.
 *
 * The driver takes buffers from a pool, fills them by bulk IN, gives every
 * buffer a remote key, and hands the table of descriptors to one peer, which
 * reads the buffers where they lie. The CPU never copies what came in.
 *
 * Two kinds of device can fill the buffers:
 *
 * - the Loopback gadget, 0525:a4a0: what is written to /dev/ucb_captureN goes
 *   out by bulk OUT and comes back by bulk IN (capture_loop.c);
 * - a bulk-only storage device: its first bytes are read (capture_bot.c). The
 *   kernel's own usb-storage must not be bound to it.
 *
 * To run it by hand, after insmod of ucb.ko, ucb_rdma.ko and ucb_capture.ko:
 *
 *   dd if=FILE of=/dev/ucb_capture0 bs=64k        (loopback)
 *   echo "read 16777216" > /dev/ucb_capture0_ctl  (storage)
 *   echo "serve 192.0.2.1 7471" > /dev/ucb_capture0_ctl
 *   ucb_peer 192.0.2.1 7471 COPY                  (on the peer)
 *   echo wait > /dev/ucb_capture0_ctl
 *   cat /dev/ucb_capture0_ctl
 *
 * Each write to the control file returns when its step is over: the bytes are
 * in, the server listens, the peer has left. Nothing listens before "serve",
 * and only on the address given. `make demo` runs all of this in QEMU.
 */
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include "capture.h"
#include "capture_table.h"

static unsigned int buffers = 256;
module_param(buffers, uint, 0444);
MODULE_PARM_DESC(buffers, "64 KiB buffers for each device, 1 to 4096 (default 256)");

static unsigned int peer_timeout = 60;
module_param(peer_timeout, uint, 0644);
MODULE_PARM_DESC(peer_timeout, "seconds until a peer must have come and gone (default 60)");

static DEFINE_IDA(capture_ida);
struct workqueue_struct *capture_wq;

static void release_capture(struct kref *ref)
{
	struct capture *cap = container_of(ref, struct capture, ref);

	usb_put_dev(cap->udev);
	kvfree(cap->slots);
	kfree(cap);
}

void capture_put(struct capture *cap)
{
	kref_put(&cap->ref, release_capture);
}

/* Remember the first error of a run, but not the echo of our own stop. */
void capture_fail(struct capture *cap, int err)
{
	unsigned long flags;

	spin_lock_irqsave(&cap->lock, flags);
	if (!cap->error && !cap->stopping)
		cap->error = err;
	spin_unlock_irqrestore(&cap->lock, flags);
	wake_up_all(&cap->wait);
}

/* Keep a filled buffer: the next part of the file. */
int capture_keep(struct capture *cap, struct ucb_buf *buf, u32 len)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&cap->lock, flags);
	if (cap->nr == cap->max) {
		err = -ENOSPC;
	} else {
		cap->slots[cap->nr].buf = buf;
		cap->slots[cap->nr].len = len;
		cap->nr++;
		cap->bytes += len;
		cap->filled = ktime_get();
	}
	spin_unlock_irqrestore(&cap->lock, flags);
	return err;
}

bool capture_over(struct capture *cap)
{
	return READ_ONCE(cap->gone) || READ_ONCE(cap->error);
}

static void set_state(struct capture *cap, enum capture_state state)
{
	mutex_lock(&cap->io);
	WRITE_ONCE(cap->state, state);
	mutex_unlock(&cap->io);
	wake_up_all(&cap->wait);
}

static const char *address_kind(struct capture *cap, struct ucb_buf *buf)
{
	if (is_vmalloc_addr(ucb_buf_addr(buf)))
		return "vmalloc";
	return hcd_uses_dma(bus_to_hcd(cap->udev->bus)) ? "linear" : "kmalloc";
}

/* Give every kept buffer back. */
void capture_drop_buffers(struct capture *cap)
{
	unsigned int i;

	for (i = 0; i < cap->nr; i++) {
		if (!cap->slots[i].buf)
			continue;
		if (ucb_buf_free(cap->slots[i].buf))
			dev_warn(&cap->intf->dev, "buffer %u not freed\n", i);
		else
			cap->freed++;
	}
	cap->nr = 0;
}

static void fill_work(struct work_struct *work)
{
	struct capture *cap = container_of(work, struct capture, fill_work);
	int err = capture_bot_fill(cap);

	if (err) {
		capture_fail(cap, err);
		capture_drop_buffers(cap);
	}
	set_state(cap, err ? CAPTURE_FAILED : CAPTURE_FILLED);
}

static void now_listening(struct capture *cap)
{
	set_state(cap, CAPTURE_LISTENING);
}

static void serve_work(struct work_struct *work)
{
	struct capture *cap = container_of(work, struct capture, serve_work);
	int err = 0;

	if (!cap->bot)
		err = capture_loop_finish(cap);
	if (!err && !cap->nr)
		err = -ENODATA;
	if (!err) {
		cap->buffers = cap->nr;
		cap->kind = address_kind(cap, cap->slots[0].buf);
		cap->first_dma = ucb_buf_dma(cap->slots[0].buf);
		err = capture_serve(cap, READ_ONCE(peer_timeout), now_listening);
	}
	capture_drop_buffers(cap);
	/* stopping hides late USB errors: this one is the run's result */
	if (err && !cap->error)
		cap->error = err;
	set_state(cap, err ? CAPTURE_FAILED : CAPTURE_DONE);
}

static int capture_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	struct usb_endpoint_descriptor *in, *out;
	struct ucb_pool_params params = {
		.name = "capture",
		.size = CAPTURE_BUF_SIZE,
		.flags = UCB_POOL_RDMA,
	};
	struct capture *cap;
	int err;

	err = usb_find_common_endpoints(intf->cur_altsetting, &in, &out, NULL, NULL);
	if (err)
		return err;
	cap = kzalloc(sizeof(*cap), GFP_KERNEL);
	if (!cap)
		return -ENOMEM;
	kref_init(&cap->ref);
	mutex_init(&cap->io);
	spin_lock_init(&cap->lock);
	init_waitqueue_head(&cap->wait);
	INIT_WORK(&cap->fill_work, fill_work);
	INIT_WORK(&cap->serve_work, serve_work);
	init_usb_anchor(&cap->out);
	init_completion(&cap->urb_done);
	cap->udev = usb_get_dev(interface_to_usbdev(intf));
	cap->intf = intf;
	cap->bot = id->driver_info;
	cap->in_pipe = usb_rcvbulkpipe(cap->udev, in->bEndpointAddress);
	cap->out_pipe = usb_sndbulkpipe(cap->udev, out->bEndpointAddress);
	cap->out_maxp = usb_endpoint_maxp(out);
	strscpy(cap->controller, bus_to_hcd(cap->udev->bus)->driver->description,
		sizeof(cap->controller));
	cap->kind = "-";
	cap->max = buffers;

	err = -ENOMEM;
	cap->slots = kvcalloc(cap->max, sizeof(*cap->slots), GFP_KERNEL);
	if (!cap->slots)
		goto put;
	cap->id = ida_alloc(&capture_ida, GFP_KERNEL);
	if (cap->id < 0) {
		err = cap->id;
		goto put;
	}
	/*
	 * The URBs in flight hold buffers beside those that are full. All are
	 * there from the start: completions cannot wait for the pool to grow.
	 */
	params.max = cap->max + (cap->bot ? 0 : CAPTURE_DEPTH);
	params.min = params.max;
	cap->pool = ucb_pool_create(cap->udev, &params);
	if (IS_ERR(cap->pool)) {
		err = PTR_ERR(cap->pool);
		goto free_id;
	}
	err = cap->bot ? capture_bot_init(cap) : capture_loop_init(cap);
	if (err)
		goto destroy_pool;
	usb_set_intfdata(intf, cap);
	err = capture_make_nodes(cap);
	if (err)
		goto free_urbs;
	dev_info(&intf->dev, "%s: %s on %s\n", cap->data_name,
		 cap->bot ? "storage" : "loopback", cap->controller);
	return 0;

free_urbs:
	usb_set_intfdata(intf, NULL);
	capture_loop_free(cap);
	capture_bot_free(cap);
destroy_pool:
	ucb_pool_destroy(cap->pool);
free_id:
	ida_free(&capture_ida, cap->id);
put:
	capture_put(cap);
	return err;
}

/*
 * The USB core has ended our URBs already. What user space holds is the
 * memory of @cap alone: every wait ends by @gone.
 */
static void capture_disconnect(struct usb_interface *intf)
{
	struct capture *cap = usb_get_intfdata(intf);

	capture_remove_nodes(cap);
	WRITE_ONCE(cap->gone, true);
	wake_up_all(&cap->wait);
	/* whoever held the lock before did not see gone; nobody queues after */
	mutex_lock(&cap->io);
	mutex_unlock(&cap->io);
	cancel_work_sync(&cap->fill_work);
	cancel_work_sync(&cap->serve_work);
	capture_loop_stop(cap);
	capture_drop_buffers(cap);
	capture_loop_free(cap);
	capture_bot_free(cap);
	ucb_pool_destroy(cap->pool);
	cap->pool = NULL;
	usb_set_intfdata(intf, NULL);
	ida_free(&capture_ida, cap->id);
	capture_put(cap);
}

static const struct usb_device_id capture_ids[] = {
	{ USB_DEVICE(0x0525, 0xa4a0) },
	{ USB_INTERFACE_INFO(USB_CLASS_MASS_STORAGE, 6, 0x50), .driver_info = 1 },
	{ }
};

/* no MODULE_DEVICE_TABLE: a sample must not be loaded for every USB stick */

static struct usb_driver capture_driver = {
	.name = "ucb_capture",
	.probe = capture_probe,
	.disconnect = capture_disconnect,
	.id_table = capture_ids,
};

static int __init capture_init(void)
{
	int err;

	if (!buffers || buffers > CAPTURE_TABLE_MAX)
		return -EINVAL;
	capture_wq = alloc_workqueue("ucb_capture", WQ_UNBOUND, 0);
	if (!capture_wq)
		return -ENOMEM;
	err = usb_register(&capture_driver);
	if (err)
		destroy_workqueue(capture_wq);
	return err;
}
module_init(capture_init);

static void __exit capture_exit(void)
{
	usb_deregister(&capture_driver);
	destroy_workqueue(capture_wq);
}
module_exit(capture_exit);

MODULE_DESCRIPTION("Sample: USB capture into buffers that a remote peer reads");
MODULE_LICENSE("GPL");
