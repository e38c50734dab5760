// SPDX-License-Identifier: GPL-2.0
/*
 * Filling from a bulk-only storage device: the first bytes of its medium.
 *
 * The smallest host side of USB Mass Storage Bulk-Only Transport 1.0: one
 * command at a time, as command block, data, status. The data stage of READ(10)
 * goes straight to a pool buffer. A stall in the data stage is cleared and the
 * status read after it; any other transport error ends the run by a reset.
 */
#include <linux/slab.h>
#include <linux/usb/storage.h>
#include <scsi/scsi_proto.h>

#include "../drivers/compat.h"
#include "capture.h"

#define BOT_CMD_BYTES	64	/* command block, status and small answers */
#define BOT_TRIES	5	/* unit attentions at power-on */
#define BOT_MIN_BLOCK	512	/* a buffer's blocks fit READ(10)'s 16 bits */

static void data_complete(struct urb *urb)
{
	struct capture *cap = urb->context;

	complete(&cap->urb_done);
}

int capture_bot_init(struct capture *cap)
{
	cap->cmd = kmalloc(BOT_CMD_BYTES, GFP_KERNEL);
	cap->urb = usb_alloc_urb(0, GFP_KERNEL);
	if (cap->cmd && cap->urb)
		return 0;
	capture_bot_free(cap);
	return -ENOMEM;
}

void capture_bot_free(struct capture *cap)
{
	usb_free_urb(cap->urb);
	cap->urb = NULL;
	kfree(cap->cmd);
	cap->cmd = NULL;
}

/* The data stage, into @buf. Returns the bytes that came, or an errno. */
static int data_to_buffer(struct capture *cap, struct ucb_buf *buf, u32 len)
{
	struct urb *urb = cap->urb;
	int err;

	reinit_completion(&cap->urb_done);
	usb_fill_bulk_urb(urb, cap->udev, cap->in_pipe, NULL, 0, data_complete, cap);
	err = ucb_urb_attach(urb, buf, len);
	if (!err)
		err = ucb_submit_urb(urb, GFP_KERNEL);
	if (err)
		return err;
	if (!wait_for_completion_timeout(&cap->urb_done,
					 msecs_to_jiffies(CAPTURE_USB_TIMEOUT_MS))) {
		usb_kill_urb(urb);
		return -ETIMEDOUT;
	}
	return urb->status ? urb->status : urb->actual_length;
}

static int bulk(struct capture *cap, unsigned int pipe, u32 len)
{
	int done = 0;
	int err;

	err = usb_bulk_msg(cap->udev, pipe, cap->cmd, len, &done, CAPTURE_USB_TIMEOUT_MS);
	return err ? err : done;
}

static void reset_recovery(struct capture *cap)
{
	int err;

	err = usb_control_msg(cap->udev, usb_sndctrlpipe(cap->udev, 0),
			      US_BULK_RESET_REQUEST,
			      USB_TYPE_CLASS | USB_RECIP_INTERFACE, 0,
			      cap->intf->cur_altsetting->desc.bInterfaceNumber,
			      NULL, 0, CAPTURE_USB_TIMEOUT_MS);
	if (!err)
		err = usb_clear_halt(cap->udev, cap->in_pipe);
	if (!err)
		err = usb_clear_halt(cap->udev, cap->out_pipe);
	if (err && err != -ENODEV)
		dev_warn(&cap->intf->dev, "reset recovery: error %d\n", err);
}

static int read_status(struct capture *cap)
{
	struct bulk_cs_wrap *csw = cap->cmd;
	int n;

	n = bulk(cap, cap->in_pipe, US_BULK_CS_WRAP_LEN);
	if (n == -EPIPE) {
		n = usb_clear_halt(cap->udev, cap->in_pipe);
		if (!n)
			n = bulk(cap, cap->in_pipe, US_BULK_CS_WRAP_LEN);
	}
	if (n < 0)
		return n;
	if (n != US_BULK_CS_WRAP_LEN ||
	    csw->Signature != cpu_to_le32(US_BULK_CS_SIGN) ||
	    csw->Tag != cap->tag || csw->Status > US_BULK_STAT_FAIL)
		return -EPROTO;
	return csw->Status == US_BULK_STAT_OK ? 0 : -EREMOTEIO;
}

/*
 * One command that reads @len bytes into @buf, or if that is NULL up to @len
 * bytes to @answer, whose rest is zeroed. A device may fill up what it cannot
 * read and say so by a residue: that is no data.
 * -EREMOTEIO means that the device refused the command and is ready for the
 * next one.
 */
static int bot_command(struct capture *cap, const u8 *cdb, u8 cdb_len,
		       struct ucb_buf *buf, void *answer, u32 len)
{
	struct bulk_cb_wrap *cbw = cap->cmd;
	struct bulk_cs_wrap *csw = cap->cmd;
	int n, err;

	if (answer)
		memset(answer, 0, len);
	memset(cbw, 0, US_BULK_CB_WRAP_LEN);
	cbw->Signature = cpu_to_le32(US_BULK_CB_SIGN);
	cbw->Tag = ++cap->tag;
	cbw->DataTransferLength = cpu_to_le32(len);
	cbw->Flags = US_BULK_FLAG_IN;
	cbw->Length = cdb_len;
	memcpy(cbw->CDB, cdb, cdb_len);
	n = bulk(cap, cap->out_pipe, US_BULK_CB_WRAP_LEN);
	if (n < 0)
		goto reset;
	n = 0;
	if (len) {
		n = buf ? data_to_buffer(cap, buf, len) : bulk(cap, cap->in_pipe, len);
		if (n > 0 && answer)
			memcpy(answer, cap->cmd, n);
		if (n == -EPIPE)
			n = usb_clear_halt(cap->udev, cap->in_pipe);
		if (n < 0)
			goto reset;
	}
	err = read_status(cap);
	if (err == -EREMOTEIO)
		return err;
	if (err) {
		n = err;
		goto reset;
	}
	return buf && (n != len || csw->Residue) ? -EPROTO : 0;

reset:
	if (!READ_ONCE(cap->gone))
		reset_recovery(cap);
	return n;
}

/* Wait through the unit attentions that follow power-on. */
static int bot_ready(struct capture *cap)
{
	static const u8 ready[6] = { TEST_UNIT_READY };
	static const u8 sense[6] = { REQUEST_SENSE, 0, 0, 0, 18 };
	u8 answer[18] = {};
	int tries, err;

	for (tries = 0; tries < BOT_TRIES; tries++) {
		err = bot_command(cap, ready, sizeof(ready), NULL, NULL, 0);
		if (err != -EREMOTEIO)
			return err;
		err = bot_command(cap, sense, sizeof(sense), NULL, answer, sizeof(answer));
		if (err)
			return err;
	}
	return -ENOMEDIUM;
}

static int bot_capacity(struct capture *cap, u32 *block, u64 *bytes)
{
	static const u8 inquiry[6] = { INQUIRY, 0, 0, 0, 36 };
	static const u8 capacity[10] = { READ_CAPACITY };
	u8 answer[36] = {};
	int err;

	err = bot_command(cap, inquiry, sizeof(inquiry), NULL, answer, 36);
	if (err)
		return err;
	if ((answer[0] & 0x1f) != TYPE_DISK)
		return -EMEDIUMTYPE;
	err = bot_ready(cap);
	if (err)
		return err;
	err = bot_command(cap, capacity, sizeof(capacity), NULL, answer, 8);
	if (err)
		return err;
	*block = get_unaligned_be32(answer + 4);
	if (*block < BOT_MIN_BLOCK || CAPTURE_BUF_SIZE % *block)
		return -EMEDIUMTYPE;
	*bytes = ((u64)get_unaligned_be32(answer) + 1) * *block;
	return 0;
}

static int read_blocks(struct capture *cap, struct ucb_buf *buf, u32 lba, u16 blocks,
		       u32 len)
{
	u8 cdb[10] = { READ_10 };

	put_unaligned_be32(lba, cdb + 2);
	put_unaligned_be16(blocks, cdb + 7);
	return bot_command(cap, cdb, sizeof(cdb), buf, NULL, len);
}

int capture_bot_fill(struct capture *cap)
{
	struct ucb_buf *buf;
	u32 block, len;
	u64 size, at;
	int err;

	err = bot_capacity(cap, &block, &size);
	if (err)
		return err;
	if (cap->want > size)
		return -ENOSPC;
	cap->started = ktime_get();
	for (at = 0; at < cap->want; at += len) {
		if (capture_over(cap))
			return -ENODEV;
		len = min_t(u64, cap->want - at, CAPTURE_BUF_SIZE);
		buf = ucb_buf_alloc(cap->pool, GFP_KERNEL);
		if (!buf)
			return -ENOMEM;
		err = read_blocks(cap, buf, div_u64(at, block), DIV_ROUND_UP(len, block),
				  round_up(len, block));
		if (!err)
			err = capture_keep(cap, buf, len);
		if (err) {
			ucb_buf_free(buf);
			return err;
		}
	}
	return 0;
}
