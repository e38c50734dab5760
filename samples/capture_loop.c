// SPDX-License-Identifier: GPL-2.0
/*
 * Filling from the Loopback gadget: each transfer out comes back as one in.
 *
 * A fixed number of bulk IN URBs is kept in flight. Its completion keeps the
 * filled buffer and goes on with a fresh one from the pool, in atomic context.
 */
#include <linux/slab.h>

#include "capture.h"

static int submit_in(struct capture_in *in, gfp_t gfp)
{
	struct capture *cap = in->cap;
	int err;

	if (!in->buf)
		in->buf = ucb_buf_alloc(cap->pool, gfp);
	if (!in->buf)
		return -ENOMEM;
	err = ucb_urb_attach(in->urb, in->buf, CAPTURE_BUF_SIZE);
	return err ? err : ucb_submit_urb(in->urb, gfp);
}

static void in_complete(struct urb *urb)
{
	struct capture_in *in = urb->context;
	struct capture *cap = in->cap;
	int err = urb->status;

	if (!err && urb->actual_length) {
		err = capture_keep(cap, in->buf, urb->actual_length);
		if (!err)
			in->buf = NULL;
	}
	if (!err && !READ_ONCE(cap->stopping))
		err = submit_in(in, GFP_ATOMIC);
	if (err)
		capture_fail(cap, err);
	else
		wake_up_all(&cap->wait);
}

static void out_complete(struct urb *urb)
{
	if (urb->status)
		capture_fail(urb->context, urb->status);
}

int capture_loop_init(struct capture *cap)
{
	struct capture_in *in;

	for (in = cap->in; in < cap->in + CAPTURE_DEPTH; in++) {
		in->cap = cap;
		in->urb = usb_alloc_urb(0, GFP_KERNEL);
		if (!in->urb) {
			capture_loop_free(cap);
			return -ENOMEM;
		}
		usb_fill_bulk_urb(in->urb, cap->udev, cap->in_pipe, NULL, 0,
				  in_complete, in);
	}
	return 0;
}

void capture_loop_free(struct capture *cap)
{
	struct capture_in *in;

	for (in = cap->in; in < cap->in + CAPTURE_DEPTH; in++) {
		usb_free_urb(in->urb);
		in->urb = NULL;
	}
}

int capture_loop_start(struct capture *cap)
{
	struct capture_in *in;
	int err;

	for (in = cap->in; in < cap->in + CAPTURE_DEPTH; in++) {
		err = submit_in(in, GFP_KERNEL);
		if (err)
			return err;
	}
	return 0;
}

/* A URB that owns @mem, which comes from kmalloc. */
struct urb *capture_loop_urb(struct capture *cap, void *mem, size_t len)
{
	struct urb *urb = usb_alloc_urb(0, GFP_KERNEL);

	if (!urb)
		return NULL;
	usb_fill_bulk_urb(urb, cap->udev, cap->out_pipe, mem, len, out_complete, cap);
	urb->transfer_flags = URB_FREE_BUFFER;
	/* a transfer that fills the gadget's buffer ends without one */
	if (len < CAPTURE_BUF_SIZE && len % cap->out_maxp == 0)
		urb->transfer_flags |= URB_ZERO_PACKET;
	return urb;
}

static bool has_room(struct capture *cap)
{
	return cap->sent - READ_ONCE(cap->nr) < CAPTURE_DEPTH;
}

int capture_loop_send(struct capture *cap, struct urb *urb)
{
	long left;
	int err;

	if (cap->sent == cap->max)
		return -ENOSPC;
	left = wait_event_interruptible_timeout(cap->wait,
						has_room(cap) || capture_over(cap),
						msecs_to_jiffies(CAPTURE_USB_TIMEOUT_MS));
	if (left < 0)
		return left;
	if (!left)
		return -ETIMEDOUT;
	if (capture_over(cap))
		return cap->error ? cap->error : -ENODEV;
	usb_anchor_urb(urb, &cap->out);
	err = usb_submit_urb(urb, GFP_KERNEL);
	if (err) {
		usb_unanchor_urb(urb);
		return err;
	}
	cap->sent++;
	cap->sent_bytes += urb->transfer_buffer_length;
	return 0;
}

static bool all_back(struct capture *cap)
{
	unsigned long flags;
	bool back;

	spin_lock_irqsave(&cap->lock, flags);
	back = cap->bytes == cap->sent_bytes;
	spin_unlock_irqrestore(&cap->lock, flags);
	return back;
}

/* Wait until all that was sent is back, then end the URBs. */
int capture_loop_finish(struct capture *cap)
{
	long left;
	int err = 0;

	left = wait_event_timeout(cap->wait, all_back(cap) || capture_over(cap),
				  msecs_to_jiffies(CAPTURE_USB_TIMEOUT_MS));
	if (capture_over(cap))
		err = cap->error ? cap->error : -ENODEV;
	else if (!left)
		err = -ETIMEDOUT;
	capture_loop_stop(cap);
	return err;
}

void capture_loop_stop(struct capture *cap)
{
	struct capture_in *in;
	unsigned long flags;

	spin_lock_irqsave(&cap->lock, flags);
	cap->stopping = true;
	spin_unlock_irqrestore(&cap->lock, flags);
	usb_kill_anchored_urbs(&cap->out);
	for (in = cap->in; in < cap->in + CAPTURE_DEPTH; in++) {
		usb_kill_urb(in->urb);
		if (in->buf && ucb_buf_free(in->buf))
			dev_warn(&cap->intf->dev, "idle buffer not freed\n");
		in->buf = NULL;
	}
}
