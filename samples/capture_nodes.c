// SPDX-License-Identifier: GPL-2.0
/*
 * The two files that user space sees: bytes to send, and control.
 *
 * A write to the control file is one command, which returns when its step is
 * over. Its waits end when the device goes, so that no unplug waits for user
 * space.
 */
#include <linux/fs.h>
#include <linux/inet.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <net/net_namespace.h>

#include "capture.h"

static const char * const state_names[] = {
	[CAPTURE_IDLE] = "idle",
	[CAPTURE_FILLING] = "filling",
	[CAPTURE_FILLED] = "filled",
	[CAPTURE_STARTING] = "starting",
	[CAPTURE_LISTENING] = "listening",
	[CAPTURE_DONE] = "done",
	[CAPTURE_FAILED] = "failed",
};

/* With @io held: begin a run. */
static int begin_fill(struct capture *cap)
{
	switch (cap->state) {
	case CAPTURE_IDLE:
	case CAPTURE_DONE:
	case CAPTURE_FAILED:
		break;
	default:
		return -EBUSY;
	}
	cap->nr = 0;
	cap->bytes = 0;
	cap->error = 0;
	cap->stopping = false;
	cap->sent = 0;
	cap->sent_bytes = 0;
	cap->kind = "-";
	cap->first_dma = 0;
	cap->first_key = 0;
	cap->registered = 0;
	cap->deregistered = 0;
	cap->freed = 0;
	cap->buffers = 0;
	cap->started = ktime_get();
	cap->filled = cap->started;
	WRITE_ONCE(cap->state, CAPTURE_FILLING);
	return 0;
}

static int data_open(struct inode *inode, struct file *file)
{
	struct capture *cap = container_of(file->private_data, struct capture, data);

	kref_get(&cap->ref);
	file->private_data = cap;
	return stream_open(inode, file);
}

static int capture_close(struct inode *inode, struct file *file)
{
	struct capture *cap = file->private_data;

	capture_put(cap);
	return 0;
}

/* One write, at most one buffer long, is one transfer out and one back in. */
static ssize_t data_write(struct file *file, const char __user *ubuf,
			  size_t count, loff_t *ppos)
{
	struct capture *cap = file->private_data;
	size_t len = min_t(size_t, count, CAPTURE_BUF_SIZE);
	struct urb *urb;
	void *mem;
	int err;

	if (cap->bot)
		return -EOPNOTSUPP;
	if (!len)
		return 0;
	mem = memdup_user(ubuf, len);
	if (IS_ERR(mem))
		return PTR_ERR(mem);
	urb = capture_loop_urb(cap, mem, len);
	if (!urb) {
		kfree(mem);
		return -ENOMEM;
	}
	err = mutex_lock_interruptible(&cap->io);
	if (err)
		goto free_urb;
	if (cap->gone) {
		err = -ENODEV;
		goto unlock;
	}
	if (cap->state != CAPTURE_FILLING) {
		err = begin_fill(cap);
		if (err)
			goto unlock;
		err = capture_loop_start(cap);
	}
	if (!err)
		err = capture_loop_send(cap, urb);
	if (err && err != -ERESTARTSYS && err != -ENOSPC) {
		capture_loop_stop(cap);
		capture_drop_buffers(cap);
		if (!cap->error)
			cap->error = err;
		WRITE_ONCE(cap->state, CAPTURE_FAILED);
	}
unlock:
	mutex_unlock(&cap->io);
free_urb:
	usb_free_urb(urb);
	return err ? err : len;
}

static const struct file_operations data_fops = {
	.owner = THIS_MODULE,
	.open = data_open,
	.release = capture_close,
	.write = data_write,
};

static int ctl_show(struct seq_file *m, void *unused)
{
	struct capture *cap = m->private;

	mutex_lock(&cap->io);
	seq_printf(m, "state %s\n", cap->gone ? "gone" : state_names[cap->state]);
	seq_printf(m, "error %d\n", cap->error);
	seq_printf(m, "controller %s\n", cap->controller);
	seq_printf(m, "kind %s\n", cap->kind);
	if (cap->first_dma == ~(dma_addr_t)0)
		seq_puts(m, "dma ~0\n");
	else
		seq_printf(m, "dma %#llx\n", (unsigned long long)cap->first_dma);
	seq_printf(m, "key %#010x\n", cap->first_key);
	seq_printf(m, "buffers %u\n", cap->buffers);
	seq_printf(m, "bytes %llu\n", cap->bytes);
	seq_printf(m, "fill_us %lld\n", ktime_us_delta(cap->filled, cap->started));
	seq_printf(m, "registered %u\n", cap->registered);
	seq_printf(m, "deregistered %u\n", cap->deregistered);
	seq_printf(m, "freed %u\n", cap->freed);
	mutex_unlock(&cap->io);
	return 0;
}

static int ctl_open(struct inode *inode, struct file *file)
{
	struct capture *cap = container_of(file->private_data, struct capture, ctl);
	int err;

	/* single_open() wants the field for itself */
	file->private_data = NULL;
	err = single_open(file, ctl_show, cap);
	if (!err)
		kref_get(&cap->ref);
	return err;
}

static int ctl_close(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;
	struct capture *cap = m->private;
	int err = single_release(inode, file);

	capture_put(cap);
	return err;
}

/* True when no work is under way that a command could wait for. */
static bool step_over(struct capture *cap, bool listening_too)
{
	if (READ_ONCE(cap->gone))
		return true;
	switch (READ_ONCE(cap->state)) {
	case CAPTURE_STARTING:
		return false;
	case CAPTURE_FILLING:
		return !cap->bot;
	case CAPTURE_LISTENING:
		return !listening_too;
	default:
		return true;
	}
}

static int wait_step(struct capture *cap, bool listening_too)
{
	int err;

	err = wait_event_interruptible(cap->wait, step_over(cap, listening_too));
	if (err)
		return err;
	if (READ_ONCE(cap->gone))
		return -ENODEV;
	if (READ_ONCE(cap->state) == CAPTURE_FAILED)
		return READ_ONCE(cap->error) ?: -EIO;
	return 0;
}

static int ctl_read(struct capture *cap, u64 bytes)
{
	int err;

	if (!cap->bot)
		return -EOPNOTSUPP;
	if (!bytes || bytes > (u64)cap->max * CAPTURE_BUF_SIZE)
		return -EINVAL;
	mutex_lock(&cap->io);
	err = cap->gone ? -ENODEV : begin_fill(cap);
	if (!err) {
		cap->want = bytes;
		queue_work(capture_wq, &cap->fill_work);
	}
	mutex_unlock(&cap->io);
	return err ? err : wait_step(cap, false);
}

static int ctl_serve(struct capture *cap, const char *addr, const char *port)
{
	struct sockaddr_storage ss;
	int err;

	err = inet_pton_with_scope(&init_net, AF_UNSPEC, addr, port, &ss);
	if (err)
		return err;
	mutex_lock(&cap->io);
	if (cap->gone) {
		err = -ENODEV;
	} else if (cap->state == CAPTURE_FILLED ||
		   (cap->state == CAPTURE_FILLING && !cap->bot)) {
		cap->addr = ss;
		WRITE_ONCE(cap->state, CAPTURE_STARTING);
		queue_work(capture_wq, &cap->serve_work);
	} else {
		err = step_over(cap, true) ? -ENODATA : -EBUSY;
	}
	mutex_unlock(&cap->io);
	return err ? err : wait_step(cap, false);
}

static ssize_t ctl_write(struct file *file, const char __user *ubuf,
			 size_t count, loff_t *ppos)
{
	struct seq_file *m = file->private_data;
	struct capture *cap = m->private;
	char addr[64], port[8];
	char line[96];
	u64 bytes;
	int err;

	if (count >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, ubuf, count))
		return -EFAULT;
	line[count] = '\0';
	if (sscanf(line, "read %llu", &bytes) == 1)
		err = ctl_read(cap, bytes);
	else if (sscanf(line, "serve %63s %7s", addr, port) == 2)
		err = ctl_serve(cap, addr, port);
	else if (sysfs_streq(line, "wait"))
		err = wait_step(cap, true);
	else
		err = -EINVAL;
	return err ? err : count;
}

static const struct file_operations ctl_fops = {
	.owner = THIS_MODULE,
	.open = ctl_open,
	.release = ctl_close,
	.read = seq_read,
	.llseek = seq_lseek,
	.write = ctl_write,
};

int capture_make_nodes(struct capture *cap)
{
	int err;

	snprintf(cap->data_name, sizeof(cap->data_name), "ucb_capture%d", cap->id);
	snprintf(cap->ctl_name, sizeof(cap->ctl_name), "ucb_capture%d_ctl", cap->id);
	cap->data.name = cap->data_name;
	cap->data.minor = MISC_DYNAMIC_MINOR;
	cap->data.fops = &data_fops;
	cap->data.mode = 0600;
	cap->ctl.name = cap->ctl_name;
	cap->ctl.minor = MISC_DYNAMIC_MINOR;
	cap->ctl.fops = &ctl_fops;
	cap->ctl.mode = 0600;
	err = misc_register(&cap->data);
	if (err)
		return err;
	err = misc_register(&cap->ctl);
	if (err)
		misc_deregister(&cap->data);
	return err;
}

void capture_remove_nodes(struct capture *cap)
{
	misc_deregister(&cap->ctl);
	misc_deregister(&cap->data);
}
