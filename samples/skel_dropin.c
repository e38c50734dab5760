// SPDX-License-Identifier: GPL-2.0
/*
 * Tutorial, step 1: a driver in the shape of the kernel's usb-skeleton, with
 * the drop-in pair in place of usb_alloc_coherent() and usb_free_coherent().
 *
 * For the Loopback gadget, 0525:a4a0: what is written to /dev/skel0 goes out by
 * bulk OUT, and comes back by bulk IN to who reads.
 */
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/sizes.h>
#include <linux/uio.h>
#include <linux/usb.h>
#include <ucb/pool.h>

#define SKEL_SIZE	SZ_16K
/* so long is a message at most: its last packet is short */
#define SKEL_LEN	(SKEL_SIZE - 1)
#define SKEL_TIMEOUT	10000	/* ms */

/*
 * @lock: held for reading by who uses the device, for writing to set @gone
 * @writes: URBs in flight
 */
struct skel {
	struct kref ref;
	struct usb_device *udev;
	struct usb_interface *intf;
	struct rw_semaphore lock;
	bool gone;
	struct usb_anchor writes;
	unsigned int in_pipe;
	unsigned int out_pipe;
};

static struct usb_driver skel_driver;

static void skel_free(struct kref *ref)
{
	struct skel *skel = container_of(ref, struct skel, ref);

	usb_put_dev(skel->udev);
	kfree(skel);
}

static int skel_open(struct inode *inode, struct file *file)
{
	struct usb_interface *intf = usb_find_interface(&skel_driver, iminor(inode));
	struct skel *skel = intf ? usb_get_intfdata(intf) : NULL;

	if (!skel)
		return -ENODEV;
	kref_get(&skel->ref);
	file->private_data = skel;
	return 0;
}

static int skel_release(struct inode *inode, struct file *file)
{
	struct skel *skel = file->private_data;

	kref_put(&skel->ref, skel_free);
	return 0;
}

static void skel_written(struct urb *urb)
{
	if (urb->status)
		dev_dbg(&urb->dev->dev, "write: %d\n", urb->status);
	ucb_free_coherent(urb->dev, urb->transfer_buffer_length,
			  urb->transfer_buffer, urb->transfer_dma);
}

static int skel_send(struct skel *skel, struct iov_iter *from, size_t len)
{
	struct usb_device *udev = skel->udev;
	struct urb *urb;
	void *buf;
	int ret;

	urb = usb_alloc_urb(0, GFP_KERNEL);
	if (!urb)
		return -ENOMEM;
	buf = ucb_alloc_coherent(udev, len, GFP_KERNEL, &urb->transfer_dma);
	if (!buf) {
		ret = -ENOMEM;
		goto out_urb;
	}
	usb_fill_bulk_urb(urb, udev, skel->out_pipe, buf, len, skel_written, skel);
	urb->transfer_flags = URB_NO_TRANSFER_DMA_MAP | URB_ZERO_PACKET;
	ret = -EFAULT;
	if (!copy_from_iter_full(buf, len, from))
		goto out_buf;
	usb_anchor_urb(urb, &skel->writes);
	ret = usb_submit_urb(urb, GFP_KERNEL);
	if (!ret)
		goto out_urb;
	usb_unanchor_urb(urb);
out_buf:
	ucb_free_coherent(udev, len, buf, urb->transfer_dma);
out_urb:
	/* the USB core has its own reference */
	usb_free_urb(urb);
	return ret;
}

static ssize_t skel_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct skel *skel = iocb->ki_filp->private_data;
	size_t len = min_t(size_t, iov_iter_count(from), SKEL_LEN);
	ssize_t ret = -ENODEV;

	if (!len)
		return 0;
	down_read(&skel->lock);
	if (!skel->gone)
		ret = skel_send(skel, from, len);
	up_read(&skel->lock);
	return ret ?: len;
}

static ssize_t skel_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct skel *skel = iocb->ki_filp->private_data;
	ssize_t ret = -ENODEV;
	void *buf;
	int len;

	buf = kmalloc(SKEL_SIZE, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;
	down_read(&skel->lock);
	if (!skel->gone)
		ret = usb_bulk_msg(skel->udev, skel->in_pipe, buf, SKEL_SIZE, &len,
				   SKEL_TIMEOUT);
	up_read(&skel->lock);
	if (!ret)
		ret = copy_to_iter(buf, len, to);
	kfree(buf);
	return ret;
}

static const struct file_operations skel_fops = {
	.owner = THIS_MODULE,
	.open = skel_open,
	.release = skel_release,
	.read_iter = skel_read,
	.write_iter = skel_write,
};

static struct usb_class_driver skel_class = {
	.name = "skel%d",
	.fops = &skel_fops,
};

static int skel_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	struct usb_endpoint_descriptor *in, *out;
	struct skel *skel;
	int ret;

	ret = usb_find_common_endpoints(intf->cur_altsetting, &in, &out, NULL, NULL);
	if (ret)
		return ret;
	skel = kzalloc(sizeof(*skel), GFP_KERNEL);
	if (!skel)
		return -ENOMEM;
	kref_init(&skel->ref);
	init_rwsem(&skel->lock);
	init_usb_anchor(&skel->writes);
	skel->udev = usb_get_dev(interface_to_usbdev(intf));
	skel->intf = intf;
	skel->in_pipe = usb_rcvbulkpipe(skel->udev, in->bEndpointAddress);
	skel->out_pipe = usb_sndbulkpipe(skel->udev, out->bEndpointAddress);

	usb_set_intfdata(intf, skel);
	ret = usb_register_dev(intf, &skel_class);
	if (ret) {
		usb_set_intfdata(intf, NULL);
		kref_put(&skel->ref, skel_free);
	}
	return ret;
}

static void skel_disconnect(struct usb_interface *intf)
{
	struct skel *skel = usb_get_intfdata(intf);

	usb_deregister_dev(intf, &skel_class);
	down_write(&skel->lock);
	skel->gone = true;
	up_write(&skel->lock);
	usb_kill_anchored_urbs(&skel->writes);
	usb_set_intfdata(intf, NULL);
	kref_put(&skel->ref, skel_free);
}

static const struct usb_device_id skel_ids[] = {
	{ USB_DEVICE(0x0525, 0xa4a0) },
	{ }
};

static struct usb_driver skel_driver = {
	.name = KBUILD_MODNAME,
	.probe = skel_probe,
	.disconnect = skel_disconnect,
	.id_table = skel_ids,
};
module_usb_driver(skel_driver);

MODULE_DESCRIPTION("Tutorial, step 1: the drop-in pair");
MODULE_LICENSE("GPL");
