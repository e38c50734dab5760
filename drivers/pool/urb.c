// SPDX-License-Identifier: GPL-2.0
/*
 * URBs on pool buffers. A URB submitted here is anchored in the pool, so that
 * destroying the pool ends it, and its buffer cannot be freed until it has
 * completed. A URB submitted with usb_submit_urb() cannot be seen.
 */

#include "internal.h"

/**
 * ucb_urb_attach() - make a URB transfer to or from a buffer
 * @urb: the URB, not submitted
 * @buf: the buffer
 * @length: bytes to transfer
 *
 * Sets transfer_buffer, transfer_dma, transfer_buffer_length and
 * URB_NO_TRANSFER_DMA_MAP. The caller fills in the rest.
 *
 * Context: Any.
 * Return: 0; -EINVAL when @length is more than the buffer has.
 */
int ucb_urb_attach(struct urb *urb, struct ucb_buf *buf, size_t length)
{
	if (length > buf->requested)
		return -EINVAL;
	urb->transfer_buffer = buf->addr;
	urb->transfer_dma = buf->dma;
	urb->transfer_buffer_length = length;
	urb->transfer_flags |= URB_NO_TRANSFER_DMA_MAP;
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_urb_attach);

/*
 * The buffer is the driver's again before its handler runs, so that the
 * handler can free it or submit it once more.
 */
static void ucb_urb_complete(struct urb *urb)
{
	struct ucb_buf *buf;

	/* its memory cannot have been reclaimed: this URB is waited for first */
	rcu_read_lock();
	buf = ucb_buf_find(urb->transfer_buffer);
	rcu_read_unlock();
	if (!buf || !(atomic_read(&buf->use) & UCB_USE_URB)) {
		dev_err_ratelimited(&urb->dev->dev,
				    "ucb: transfer_buffer was changed in flight: no completion for that URB\n");
		return;
	}
	urb->complete = READ_ONCE(buf->complete);
	ucb_buf_release(buf, UCB_USE_URB + 1);
	urb->complete(urb);
}

/* Each packet is within the buffer. */
static bool ucb_urb_packets_fit(const struct urb *urb, const struct ucb_buf *buf)
{
	int i;

	for (i = 0; i < urb->number_of_packets; i++) {
		const struct usb_iso_packet_descriptor *packet =
			&urb->iso_frame_desc[i];

		if (packet->offset > buf->requested ||
		    packet->length > buf->requested - packet->offset)
			return false;
	}
	return true;
}

/*
 * What a URB must still say about its buffer: the check of ucb_submit_urb().
 * One that the driver has anchored cannot be anchored here as well.
 */
static bool ucb_urb_matches(const struct urb *urb, const struct ucb_buf *buf)
{
	return urb->dev == buf->block->pool->udev &&
	       urb->transfer_dma == buf->dma &&
	       (urb->transfer_flags & URB_NO_TRANSFER_DMA_MAP) &&
	       urb->transfer_buffer_length <= buf->requested &&
	       !urb->num_sgs && !urb->anchor && urb->complete &&
	       (!usb_pipeisoc(urb->pipe) || ucb_urb_packets_fit(urb, buf));
}

/**
 * ucb_submit_urb() - usb_submit_urb() for a URB on a pool buffer
 * @urb: the URB, filled in and attached with ucb_urb_attach(); of any type, and
 *	not in an anchor of the driver's
 * @gfp: as for usb_submit_urb()
 *
 * Until the completion handler runs, freeing the buffer gives -EBUSY. The
 * URB's complete and transfer_buffer belong to the pool meanwhile.
 *
 * Context: As usb_submit_urb().
 * Return: 0; -EINVAL when the URB's fields do not match its buffer; -ENOENT
 * when transfer_buffer is no buffer that the driver has; -EBUSY when @urb is in
 * flight, or another one on that buffer; -ENODEV when the pool is going or its
 * device has gone; or what usb_submit_urb() returns.
 */
int ucb_submit_urb(struct urb *urb, gfp_t gfp)
{
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	int ret;

	if (!urb)
		return -EINVAL;
	/* with usb_submit_urb(): nothing of it is ours to change */
	if (urb->hcpriv)
		return -EBUSY;
	rcu_read_lock();
	buf = ucb_buf_find(urb->transfer_buffer);
	ret = buf ? ucb_buf_hold(buf, UCB_USE_URB + 1) : -ENOENT;
	rcu_read_unlock();
	if (ret)
		return ret;
	pool = buf->block->pool;
	if (!ucb_urb_matches(urb, buf)) {
		ret = ucb_refuse(pool, buf, UCB_MISUSE_URB, -EINVAL, buf->dma,
				 urb->transfer_dma, _RET_IP_);
		goto err_put;
	}
	if (!ucb_pool_enter(pool)) {
		ret = -ENODEV;
		goto err_put;
	}
	WRITE_ONCE(buf->complete, urb->complete);
	urb->complete = ucb_urb_complete;
	usb_anchor_urb(urb, &pool->urbs);
	ret = usb_submit_urb(urb, gfp);
	if (ret) {
		usb_unanchor_urb(urb);
		urb->complete = READ_ONCE(buf->complete);
	}
	ucb_pool_exit(pool);
err_put:
	if (ret)
		ucb_buf_release(buf, UCB_USE_URB + 1);
	return ret;
}
EXPORT_SYMBOL_GPL(ucb_submit_urb);
