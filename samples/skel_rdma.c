// SPDX-License-Identifier: GPL-2.0
/*
 * Tutorial, step 3: the driver of step 2, whose reader gets no bytes but the
 * descriptor of them: a remote peer reads them where they arrived.
 *
 * For the Loopback gadget, 0525:a4a0: what is written to /dev/skel0 goes out by
 * bulk OUT, and comes back by bulk IN when the descriptor is read. It is good
 * until the next one is read.
 */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/sizes.h>
#include <linux/uio.h>
#include <linux/usb.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <ucb/pool.h>
#include <ucb/rdma.h>

#define SKEL_SIZE	SZ_16K
/* so long is a message at most: its last packet is short */
#define SKEL_LEN	(SKEL_SIZE - 1)
#define SKEL_BUFS	16
#define SKEL_TIMEOUT	10000	/* ms */

static char *netdev = "d0";
module_param(netdev, charp, 0444);
MODULE_PARM_DESC(netdev, "the RDMA device of the peer is on this one (default d0)");

/*
 * @lock: held for reading by who uses the device, for writing to set @gone
 * @pool: buffers, and the URBs on them
 * @pd: what the peer is trusted with
 * @read: covers @full and @mr, the bytes that the peer may read
 */
struct skel {
	struct kref ref;
	struct usb_device *udev;
	struct usb_interface *intf;
	struct rw_semaphore lock;
	bool gone;
	struct ucb_pool *pool;
	struct ucb_pd *pd;
	struct mutex read;	/* see above */
	struct ucb_buf *full;
	struct ucb_mr *mr;
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
	ucb_buf_free(urb->context);
}

static int skel_send(struct skel *skel, struct iov_iter *from, size_t len)
{
	struct ucb_buf *buf;
	struct urb *urb;
	int ret;

	urb = usb_alloc_urb(0, GFP_KERNEL);
	if (!urb)
		return -ENOMEM;
	buf = ucb_buf_alloc_wait(skel->pool, GFP_KERNEL,
				 msecs_to_jiffies(SKEL_TIMEOUT));
	if (IS_ERR(buf)) {
		ret = PTR_ERR(buf);
		goto out_urb;
	}
	usb_fill_bulk_urb(urb, skel->udev, skel->out_pipe, NULL, 0, skel_written, buf);
	urb->transfer_flags = URB_ZERO_PACKET;
	ret = ucb_urb_attach(urb, buf, len);
	if (!ret && !copy_from_iter_full(ucb_buf_addr(buf), len, from))
		ret = -EFAULT;
	if (!ret)
		ret = ucb_submit_urb(urb, GFP_KERNEL);
	if (ret)
		ucb_buf_free(buf);
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

static void skel_filled(struct urb *urb)
{
	complete(urb->context);
}

/* Return: the bytes that came in, or an errno. */
static int skel_fill(struct skel *skel, struct ucb_buf *buf)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct urb *urb;
	int ret;

	urb = usb_alloc_urb(0, GFP_KERNEL);
	if (!urb)
		return -ENOMEM;
	usb_fill_bulk_urb(urb, skel->udev, skel->in_pipe, NULL, 0, skel_filled, &done);
	ret = ucb_urb_attach(urb, buf, SKEL_SIZE);
	if (!ret)
		ret = ucb_submit_urb(urb, GFP_KERNEL);
	if (ret)
		goto out;
	if (!wait_for_completion_timeout(&done, msecs_to_jiffies(SKEL_TIMEOUT)))
		usb_kill_urb(urb);
	ret = urb->status ?: urb->actual_length;
out:
	usb_free_urb(urb);
	return ret;
}

/* The peer's time is over. */
static void skel_take_back(struct skel *skel)
{
	/* a buffer that the device does not let go is lost, its handle is not */
	if (skel->mr && ucb_mr_dereg(&skel->mr))
		ucb_mr_dereg(&skel->mr);
	if (skel->full)
		ucb_buf_free(skel->full);
	skel->full = NULL;
}

static int skel_offer(struct skel *skel, u8 *desc)
{
	int len, ret;

	skel_take_back(skel);
	skel->full = ucb_buf_alloc(skel->pool, GFP_KERNEL);
	if (!skel->full)
		return -ENOMEM;
	len = skel_fill(skel, skel->full);
	if (len <= 0) {
		ret = len ?: -ENODATA;
		goto err;
	}
	skel->mr = ucb_mr_reg_range(skel->pd, skel->full, 0, len, IB_ACCESS_REMOTE_READ);
	if (IS_ERR(skel->mr)) {
		ret = PTR_ERR(skel->mr);
		skel->mr = NULL;
		goto err;
	}
	ret = ucb_mr_get_descriptor(skel->mr, desc);
	if (!ret)
		return 0;
err:
	skel_take_back(skel);
	return ret;
}

static ssize_t skel_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct skel *skel = iocb->ki_filp->private_data;
	u8 desc[UCB_MR_DESC_SIZE];
	ssize_t ret = -ENODEV;

	down_read(&skel->lock);
	mutex_lock(&skel->read);
	if (!skel->gone)
		ret = skel_offer(skel, desc);
	mutex_unlock(&skel->read);
	up_read(&skel->lock);
	return ret ?: copy_to_iter(desc, sizeof(desc), to);
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

static struct ucb_pd *skel_trust(void)
{
	struct net_device *ndev;
	struct ib_device *ibdev;
	struct ucb_pd *pd;

	ndev = dev_get_by_name(&init_net, netdev);
	if (!ndev)
		return ERR_PTR(-ENODEV);
	ibdev = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);
	dev_put(ndev);
	if (!ibdev)
		return ERR_PTR(-ENODEV);
	pd = ucb_pd_get(ibdev, 1);
	/* held any longer, it would keep the RDMA device from being removed */
	ib_device_put(ibdev);
	return pd;
}

static int skel_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	const struct ucb_pool_params params = {
		.name = "skel",
		.size = SKEL_SIZE,
		.min = SKEL_BUFS,
		.max = SKEL_BUFS,
		.flags = UCB_POOL_RDMA,
	};
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
	mutex_init(&skel->read);
	skel->udev = usb_get_dev(interface_to_usbdev(intf));
	skel->intf = intf;
	skel->in_pipe = usb_rcvbulkpipe(skel->udev, in->bEndpointAddress);
	skel->out_pipe = usb_sndbulkpipe(skel->udev, out->bEndpointAddress);

	skel->pool = ucb_pool_create(skel->udev, &params);
	if (IS_ERR(skel->pool)) {
		ret = PTR_ERR(skel->pool);
		goto err_put;
	}
	skel->pd = skel_trust();
	if (IS_ERR(skel->pd)) {
		ret = PTR_ERR(skel->pd);
		goto err_pool;
	}
	usb_set_intfdata(intf, skel);
	ret = usb_register_dev(intf, &skel_class);
	if (ret)
		goto err_pd;
	return 0;

err_pd:
	usb_set_intfdata(intf, NULL);
	ucb_pd_put(skel->pd);
err_pool:
	ucb_pool_destroy(skel->pool);
err_put:
	kref_put(&skel->ref, skel_free);
	return ret;
}

static void skel_disconnect(struct usb_interface *intf)
{
	struct skel *skel = usb_get_intfdata(intf);

	usb_deregister_dev(intf, &skel_class);
	down_write(&skel->lock);
	skel->gone = true;
	up_write(&skel->lock);
	skel_take_back(skel);
	ucb_pd_put(skel->pd);
	ucb_pool_destroy(skel->pool);
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

MODULE_DESCRIPTION("Tutorial, step 3: a key for a remote peer");
MODULE_LICENSE("GPL");
