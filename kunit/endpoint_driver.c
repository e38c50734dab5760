// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel's end of the guest test "interop": a driver whose USB buffer is
 * read and written by programs over librpma and librdmacm, and which reads and
 * writes their memory.
 *
 * Every device has a folder in debugfs with the file ctl:
 *
 *   listen ADDR PORT	give a buffer a key, wait for a peer in the background
 *   connected		until that peer is
 *   wait		until it has gone; fails if it was not served well
 *   connect ADDR PORT	to a program that listens
 *   work		READ its region, WRITE it, disconnect
 */
#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/usb.h>

#include <ucb/pool.h>

#include "endpoint.h"
#include "interop.h"

struct endpoint {
	struct usb_interface *intf;
	struct ucb_pool *pool;
	struct dentry *dir;
	struct mutex lock;	/* one command at a time */
	struct session *session;
};

/* listen, connect: what makes a session */
static int run_make(struct endpoint *ep, const char *command, struct sockaddr *addr)
{
	struct device *dev = &ep->intf->dev;
	struct session *s;

	if (ep->session)
		return -EBUSY;
	if (!strcmp(command, "listen"))
		s = session_listen(dev, ep->pool, addr);
	else if (!strcmp(command, "connect"))
		s = session_connect(dev, ep->pool, addr);
	else
		return -EINVAL;
	if (IS_ERR(s))
		return PTR_ERR(s);
	ep->session = s;
	return 0;
}

/* connected, wait, work: what is for the session that there is */
static int run_use(struct endpoint *ep, const char *command)
{
	struct session *s = ep->session;

	if (!s)
		return -ENOENT;
	if (!strcmp(command, "connected"))
		return session_connected(s);
	ep->session = NULL;
	if (!strcmp(command, "wait"))
		return session_wait(s);
	if (!strcmp(command, "work"))
		return session_work(s);
	ep->session = s;
	return -EINVAL;
}

static int run(struct endpoint *ep, char *line)
{
	struct sockaddr_storage addr;
	char *words[3] = {};
	char *word;
	int n = 0;
	int err;

	line = strim(line);
	while ((word = strsep(&line, " ")))
		if (*word && n < ARRAY_SIZE(words))
			words[n++] = word;
	if (n == 1)
		return run_use(ep, words[0]);
	if (n != 3)
		return -EINVAL;
	err = inet_pton_with_scope(&init_net, AF_UNSPEC, words[1], words[2], &addr);
	return err ?: run_make(ep, words[0], (struct sockaddr *)&addr);
}

static ssize_t ctl_write(struct file *file, const char __user *from, size_t count, loff_t *pos)
{
	struct endpoint *ep = file->private_data;
	char line[128];
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = 0;
	mutex_lock(&ep->lock);
	err = run(ep, line);
	mutex_unlock(&ep->lock);
	return err ?: count;
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = ctl_write,
};

static struct dentry *endpoints;

static int endpoint_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	const struct ucb_pool_params params = {
		.name = "endpoint",
		.size = INTEROP_SIZE,
		.flags = UCB_POOL_RDMA,
	};
	struct usb_device *udev = interface_to_usbdev(intf);
	struct endpoint *ep;
	int err;

	ep = kzalloc(sizeof(*ep), GFP_KERNEL);
	if (!ep)
		return -ENOMEM;
	ep->intf = intf;
	mutex_init(&ep->lock);
	ep->pool = ucb_pool_create(udev, &params);
	if (IS_ERR(ep->pool)) {
		err = PTR_ERR(ep->pool);
		kfree(ep);
		return err;
	}
	ep->dir = debugfs_create_dir(udev->bus->controller->driver->name, endpoints);
	debugfs_create_file("ctl", 0200, ep->dir, ep, &ctl_fops);
	usb_set_intfdata(intf, ep);
	return 0;
}

static void endpoint_disconnect(struct usb_interface *intf)
{
	struct endpoint *ep = usb_get_intfdata(intf);

	/* waits for the command that runs */
	debugfs_remove(ep->dir);
	if (ep->session)
		session_end(ep->session);
	ucb_pool_destroy(ep->pool);
	kfree(ep);
}

static const struct usb_device_id endpoint_ids[] = {
	{ USB_DEVICE(0x0525, 0xa4a0) },	/* the gadget of the guests, on dummy_hcd */
	{ USB_DEVICE(0x46f4, 0x0001) },	/* QEMU's stick, on xHCI */
	{ }
};
MODULE_DEVICE_TABLE(usb, endpoint_ids);

static struct usb_driver endpoint_driver = {
	.name = "ucb_endpoint",
	.probe = endpoint_probe,
	.disconnect = endpoint_disconnect,
	.id_table = endpoint_ids,
};

static int __init endpoint_init(void)
{
	int err;

	endpoints = debugfs_create_dir("ucb_endpoint", NULL);
	err = usb_register(&endpoint_driver);
	if (err)
		debugfs_remove(endpoints);
	return err;
}

static void __exit endpoint_exit(void)
{
	usb_deregister(&endpoint_driver);
	debugfs_remove(endpoints);
}

module_init(endpoint_init);
module_exit(endpoint_exit);

MODULE_DESCRIPTION("The kernel's end of the interoperability test");
MODULE_LICENSE("GPL");
