// SPDX-License-Identifier: GPL-2.0
/*
 * URBs on pool buffers. Data goes to and from both real controllers: with the
 * gadget on dummy_hcd and, by DMA, with the storage device on the xHCI. A bulk
 * IN URB on the gadget's loopback stays in flight until something is sent or it
 * is killed.
 */

#include <linux/usb.h>
#include <linux/usb/storage.h>
#include <scsi/scsi_proto.h>

#include "transfer.h"

#define SIZE	4096
#define NR	32

struct flight {
	struct fake_hcd *fake;
	struct ucb_pool *pool;
	struct ucb_buf *buf[NR];
	struct urb *urb[NR];
	atomic_t completed;
	atomic_t freed;
	atomic_t refused;
	atomic_t after_end;
	bool free_in_completion;
	bool resubmit;
	bool ended;
};

static void flight_complete(struct urb *urb)
{
	struct flight *flight = urb->context;

	if (READ_ONCE(flight->ended))
		atomic_inc(&flight->after_end);
	atomic_inc(&flight->completed);
	if (flight->resubmit && ucb_submit_urb(urb, GFP_ATOMIC) == -ENODEV)
		atomic_inc(&flight->refused);
	if (flight->free_in_completion &&
	    !ucb_pool_free(flight->pool, urb->transfer_buffer, urb->transfer_dma))
		atomic_inc(&flight->freed);
}

static void flight_end(struct flight *flight)
{
	int i;

	ucb_pool_destroy(flight->pool);
	flight->pool = NULL;
	WRITE_ONCE(flight->ended, true);
	for (i = 0; i < NR; i++) {
		usb_free_urb(flight->urb[i]);
		flight->urb[i] = NULL;
	}
}

static void flight_exit(void *data)
{
	flight_end(data);
}

static struct flight *flight_get(struct kunit *test)
{
	const struct ucb_pool_params params = { .name = "urb", .size = SIZE, .min = NR };
	struct flight *flight = kunit_kzalloc(test, sizeof(*flight), GFP_KERNEL);
	unsigned int pipe;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, flight);
	flight->fake = fake_hcd_get(test, REAL_DUMMY);
	pipe = bulk_pipe(test, flight->fake->udev, USB_DIR_IN);
	flight->pool = ucb_pool_create(flight->fake->udev, &params);
	KUNIT_ASSERT_FALSE(test, IS_ERR(flight->pool));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, flight_exit, flight));
	for (i = 0; i < NR; i++) {
		flight->urb[i] = usb_alloc_urb(0, GFP_KERNEL);
		flight->buf[i] = ucb_buf_alloc(flight->pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, flight->urb[i]);
		KUNIT_ASSERT_NOT_NULL(test, flight->buf[i]);
		usb_fill_bulk_urb(flight->urb[i], flight->fake->udev, pipe, NULL, 0,
				  flight_complete, flight);
		KUNIT_ASSERT_EQ(test, 0, ucb_urb_attach(flight->urb[i], flight->buf[i], SIZE));
	}
	return flight;
}

static void flight_drop_handles(struct kunit *test, struct flight *flight)
{
	int i;

	for (i = 0; i < NR; i++)
		KUNIT_EXPECT_EQ(test, -ENODEV, ucb_buf_free(flight->buf[i]));
}

/* In flight: -EBUSY; a second URB on it too; after the kill it is free. */
static void urb_busy(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	struct urb *urb = flight->urb[0];
	struct urb *second = flight->urb[1];

	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_urb_attach(urb, flight->buf[0], SIZE + 1));
	KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(urb, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_buf_free(flight->buf[0]));
	KUNIT_EXPECT_EQ(test, 0, ucb_urb_attach(second, flight->buf[0], 64));
	KUNIT_EXPECT_EQ(test, -EBUSY, ucb_submit_urb(second, GFP_KERNEL));
	usb_kill_urb(urb);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&flight->completed));
	KUNIT_EXPECT_PTR_EQ(test, urb->context, (void *)flight);
	KUNIT_EXPECT_TRUE(test, urb->complete == flight_complete);
	flight_end(flight);
	flight_drop_handles(test, flight);
}

static struct ucb_pool *data_pool(struct kunit *test, struct usb_device *udev)
{
	const struct ucb_pool_params params = { .name = "data", .size = SIZE, .min = 1 };

	return pool_get(test, udev, &params);
}

/* The transfer brings the device's own descriptor. */
static void expect_descriptor(struct kunit *test, struct transfer *transfer)
{
	struct usb_device_descriptor *desc = ucb_buf_addr(transfer->buf);

	memset(desc, 0, sizeof(*desc));
	KUNIT_EXPECT_EQ(test, USB_DT_DEVICE_SIZE, transfer_run(transfer));
	KUNIT_EXPECT_EQ(test, desc->bDescriptorType, USB_DT_DEVICE);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(desc->idVendor),
			le16_to_cpu(transfer->udev->descriptor.idVendor));
	KUNIT_EXPECT_EQ(test, le16_to_cpu(desc->idProduct),
			le16_to_cpu(transfer->udev->descriptor.idProduct));
}

/* C3, C4: fields that no longer match are refused; nothing is submitted. */
static void urb_mismatch(struct kunit *test)
{
	struct usb_device *udev = kind_hcd(test)->udev;
	struct ucb_pool *pool = data_pool(test, udev);
	struct transfer *transfer = transfer_get(test, udev, pool);
	struct urb *urb = transfer->urb;
	struct usb_device *root = udev->bus->root_hub;
	struct scatterlist sg;
	dma_addr_t dma;
	u32 flags;
	void *addr;

	KUNIT_ASSERT_EQ(test, 0, transfer_fill_control(transfer, transfer_done, transfer));
	dma = urb->transfer_dma;
	flags = urb->transfer_flags;
	addr = urb->transfer_buffer;
	KUNIT_EXPECT_EQ(test, dma, ucb_buf_dma(transfer->buf));
	KUNIT_EXPECT_TRUE(test, flags & URB_NO_TRANSFER_DMA_MAP);

	urb->transfer_dma = 0;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_dma = dma + 64;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_dma = dma;
	urb->transfer_flags &= ~URB_NO_TRANSFER_DMA_MAP;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_flags = flags;
	urb->transfer_buffer_length = SIZE + 1;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_buffer_length = USB_DT_DEVICE_SIZE;
	urb->transfer_buffer = addr + 8;
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_submit_urb(urb, GFP_KERNEL));
	urb->transfer_buffer = addr;
	urb->dev = root;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->dev = udev;
	sg_init_table(&sg, 1);
	urb->sg = &sg;
	urb->num_sgs = 1;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->sg = NULL;
	urb->num_sgs = 0;
	urb->complete = NULL;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(urb, GFP_KERNEL));
	urb->complete = transfer_done;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_submit_urb(NULL, GFP_KERNEL));
	/* none went out, and the right one does */
	KUNIT_EXPECT_FALSE(test, completion_done(&transfer->done));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&urb->use_count));
	expect_descriptor(test, transfer);

	/* a free goes by the pool's own record, whatever the URB says */
	urb->transfer_dma = dma ^ SIZE;
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(pool, addr, urb->transfer_dma));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(transfer->buf));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_submit_urb(urb, GFP_KERNEL));
}

/* C3: data arrives by a control transfer. */
static void urb_control(struct kunit *test)
{
	struct usb_device *udev = kind_hcd(test)->udev;
	struct transfer *transfer = transfer_get(test, udev, data_pool(test, udev));
	int i;

	KUNIT_ASSERT_EQ(test, 0, transfer_fill_control(transfer, transfer_done, transfer));
	for (i = 0; i < 8; i++)
		expect_descriptor(test, transfer);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(transfer->buf));
}

/* What goes out to the gadget comes back. */
static void urb_loopback(struct kunit *test)
{
	const int length = SIZE - 96;	/* ends in a short packet */
	struct usb_device *udev = fake_hcd_get(test, REAL_DUMMY)->udev;
	struct ucb_pool *pool = data_pool(test, udev);
	struct transfer *out = transfer_get(test, udev, pool);
	struct transfer *in = transfer_get(test, udev, pool);

	KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(out, bulk_pipe(test, udev, USB_DIR_OUT),
						    length));
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(in, bulk_pipe(test, udev, USB_DIR_IN),
						    length));
	memset(ucb_buf_addr(out->buf), 0x9d, length);
	memset(ucb_buf_addr(in->buf), 0, length);
	KUNIT_EXPECT_EQ(test, length, transfer_run(out));
	KUNIT_EXPECT_EQ(test, length, transfer_run(in));
	KUNIT_EXPECT_NULL(test, memchr_inv(ucb_buf_addr(in->buf), 0x9d, length));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(out->buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(in->buf));
}

/* C3: INQUIRY to the storage device: command, data and status by bulk and DMA. */
static void urb_storage(struct kunit *test)
{
	struct usb_device *udev = fake_hcd_get(test, REAL_XHCI)->udev;
	struct ucb_pool *pool = data_pool(test, udev);
	unsigned int in = bulk_pipe(test, udev, USB_DIR_IN);
	struct transfer *command = transfer_get(test, udev, pool);
	struct transfer *data = transfer_get(test, udev, pool);
	struct transfer *status = transfer_get(test, udev, pool);
	struct bulk_cb_wrap *cbw = ucb_buf_addr(command->buf);
	struct bulk_cs_wrap *csw = ucb_buf_addr(status->buf);

	memset(cbw, 0, US_BULK_CB_WRAP_LEN);
	cbw->Signature = cpu_to_le32(US_BULK_CB_SIGN);
	cbw->Tag = 77;
	cbw->DataTransferLength = cpu_to_le32(36);
	cbw->Flags = US_BULK_FLAG_IN;
	cbw->Length = 6;
	cbw->CDB[0] = INQUIRY;
	cbw->CDB[4] = 36;
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(command, bulk_pipe(test, udev, USB_DIR_OUT),
						    US_BULK_CB_WRAP_LEN));
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(data, in, 36));
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_bulk(status, in, US_BULK_CS_WRAP_LEN));

	KUNIT_EXPECT_EQ(test, US_BULK_CB_WRAP_LEN, transfer_run(command));
	KUNIT_EXPECT_EQ(test, 36, transfer_run(data));
	KUNIT_EXPECT_MEMEQ(test, (u8 *)ucb_buf_addr(data->buf) + 8, "QEMU    ", 8);
	KUNIT_EXPECT_EQ(test, US_BULK_CS_WRAP_LEN, transfer_run(status));
	KUNIT_EXPECT_EQ(test, csw->Tag, 77);
	KUNIT_EXPECT_EQ(test, csw->Status, US_BULK_STAT_OK);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(command->buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(data->buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(status->buf));
}

/* C9: destroy waits for all 32; no completion after it returns. */
static void urb_destroy_in_flight(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
	flight_end(flight);
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->completed));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&flight->after_end));
	flight_drop_handles(test, flight);
}

/* C8: completions that resubmit do not escape destroy. */
static void urb_resubmit(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	flight->resubmit = true;
	for (i = 0; i < NR; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
	flight_end(flight);
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->refused));
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&flight->after_end));
	flight_drop_handles(test, flight);
}

/* C1: the completion handler frees the buffer it was given. */
static void urb_free_in_completion(struct kunit *test)
{
	struct flight *flight = flight_get(test);
	int i;

	flight->free_in_completion = true;
	for (i = 0; i < NR; i++) {
		KUNIT_ASSERT_EQ(test, 0, ucb_submit_urb(flight->urb[i], GFP_KERNEL));
		usb_kill_urb(flight->urb[i]);
	}
	KUNIT_EXPECT_EQ(test, NR, atomic_read(&flight->freed));
	flight_end(flight);
}

static struct kunit_case urb_cases[] = {
	KUNIT_CASE(urb_busy),
	KUNIT_CASE_PARAM(urb_mismatch, real_gen_params),
	KUNIT_CASE_PARAM(urb_control, real_gen_params),
	KUNIT_CASE(urb_loopback),
	KUNIT_CASE(urb_storage),
	KUNIT_CASE(urb_destroy_in_flight),
	KUNIT_CASE(urb_resubmit),
	KUNIT_CASE(urb_free_in_completion),
	{}
};

static struct kunit_suite urb_suite = {
	.name = "ucb_urb",
	.test_cases = urb_cases,
};

kunit_test_suite(urb_suite);

MODULE_DESCRIPTION("KUnit: URBs on pool buffers");
MODULE_LICENSE("GPL");
