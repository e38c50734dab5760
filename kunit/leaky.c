// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that loses buffers on purpose, for the guest test "convert": what it
 * keeps must be in the log, with who took it, and what it gives back must not.
 *
 * It keeps, for the source and sink gadget that it binds to:
 *
 *   3 of 1000 bytes from its own pool, of 5 taken by leaky_take_pool()
 *   2 of 64 bytes of the drop-in pair, taken by leaky_take_small()
 *   1 of 9000 bytes, of 2 taken by leaky_take_large()
 *
 * What it kept of the drop-in pair it frees when it is unloaded, and says in
 * the log what each of these late frees returned.
 */

#include <linux/module.h>
#include <linux/usb.h>

#include <ucb/pool.h>

struct leaky_buf {
	void *addr;
	dma_addr_t dma;
	size_t size;
};

static struct leaky_buf leaky_kept[3];
static struct ucb_pool *leaky_pool;
static struct usb_device *leaky_udev;

static noinline struct leaky_buf leaky_take_pool(void)
{
	struct leaky_buf buf = { .size = 1000 };

	buf.addr = ucb_pool_alloc(leaky_pool, GFP_KERNEL, &buf.dma);
	return buf;
}

static noinline struct leaky_buf leaky_take_small(void)
{
	struct leaky_buf buf = { .size = 64 };

	buf.addr = ucb_alloc_coherent(leaky_udev, buf.size, GFP_KERNEL,
				      &buf.dma);
	return buf;
}

static noinline struct leaky_buf leaky_take_large(void)
{
	struct leaky_buf buf = { .size = 9000 };

	buf.addr = ucb_alloc_coherent(leaky_udev, buf.size, GFP_KERNEL,
				      &buf.dma);
	return buf;
}

static int leaky_give_back(const struct leaky_buf *buf)
{
	return ucb_free_coherent(leaky_udev, buf->size, buf->addr, buf->dma);
}

static int leaky_probe(struct usb_interface *intf,
		       const struct usb_device_id *id)
{
	static const struct ucb_pool_params params = {
		.name = "leaky",
		.size = 1000,
		.min = 4,
	};
	struct leaky_buf buf[5];
	int i;

	if (leaky_udev)
		return -EBUSY;
	leaky_pool = ucb_pool_create(interface_to_usbdev(intf), &params);
	if (IS_ERR(leaky_pool))
		return PTR_ERR(leaky_pool);
	leaky_udev = usb_get_dev(interface_to_usbdev(intf));

	for (i = 0; i < ARRAY_SIZE(buf); i++)
		buf[i] = leaky_take_pool();
	for (i = 0; i < 2; i++)
		WARN_ON(ucb_pool_free(leaky_pool, buf[i].addr, buf[i].dma));

	leaky_kept[0] = leaky_take_small();
	leaky_kept[1] = leaky_take_small();
	leaky_kept[2] = leaky_take_large();
	buf[0] = leaky_take_large();
	WARN_ON(leaky_give_back(&buf[0]));
	dev_info(&intf->dev, "leaky: bound\n");
	return 0;
}

static void leaky_disconnect(struct usb_interface *intf)
{
	ucb_pool_destroy(leaky_pool);
	dev_info(&intf->dev, "leaky: disconnected\n");
}

static const struct usb_device_id leaky_ids[] = {
	{ USB_DEVICE(0x0525, 0xa4a0) },
	{ }
};
MODULE_DEVICE_TABLE(usb, leaky_ids);

static struct usb_driver leaky_driver = {
	.name = "leaky",
	.probe = leaky_probe,
	.disconnect = leaky_disconnect,
	.id_table = leaky_ids,
};

static int __init leaky_init(void)
{
	return usb_register(&leaky_driver);
}

static void __exit leaky_exit(void)
{
	int i;

	usb_deregister(&leaky_driver);
	if (!leaky_udev)
		return;
	for (i = 0; i < ARRAY_SIZE(leaky_kept); i++)
		dev_info(&leaky_udev->dev, "leaky: late free of %zu bytes: %d\n",
			 leaky_kept[i].size, leaky_give_back(&leaky_kept[i]));
	usb_put_dev(leaky_udev);
}

module_init(leaky_init);
module_exit(leaky_exit);

MODULE_DESCRIPTION("Test driver that loses coherent buffers");
MODULE_LICENSE("GPL");
