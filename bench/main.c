// SPDX-License-Identifier: GPL-2.0
/*
 * What one allocation and free cost, in guest instructions.
 *
 * For an emulated machine whose clock counts instructions (QEMU's -icount
 * shift=0) and that has one CPU: there the time stamp counter is the number of
 * instructions executed, and a run repeats. Everything is measured in one boot,
 * ours and what it is compared with in turn, with IRQs on. Of several windows
 * the smallest counts, for the other threads and the timer interrupt are in
 * the count as well. The cost of the loop itself is taken off.
 *
 * In /sys/kernel/debug/ucb_bench:
 *
 *   run   write CONTROLLER, e.g. "xhci-hcd": measure on its root hub; then read
 *         a line for each figure, "OPERATION SIZE INSTRUCTIONS LATE PAIRS":
 *         LATE are those that others execute in the 20 ms after it
 *   hold  write "CONTROLLER SIZE COUNT": keep a pool of that many buffers, so
 *         that its memory can be looked at; write "none" to end it
 *   trace write "CONTROLLER OPERATION SIZE": one pair, for a debugger that steps
 *         through it; then read what it noted, an instruction a line. Read
 *         before that, it names what the debugger must know.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/uaccess.h>
#include <linux/usb.h>

#include <ucb/pool.h>

#include "../drivers/compat.h"
#include "bench.h"

module_param_named(window, bench_window, uint, 0444);
MODULE_PARM_DESC(window, "instructions in one window (default 4000000)");

module_param_named(least_pairs, bench_least_pairs, uint, 0444);
MODULE_PARM_DESC(least_pairs, "pairs in one window, at least, up to 64 KiB (default 512)");

static unsigned int sizes[8] = { 64, 512, 2048, 4096, 65536, 1048576 };
static unsigned int nr_sizes = 6;
module_param_array(sizes, uint, &nr_sizes, 0444);
MODULE_PARM_DESC(sizes, "buffer sizes in bytes");

static struct ucb_pool *held;		/* under bench_lock */
static struct dentry *bench_dir;

int bench_copy_line(char *line, size_t max, const char __user *from, size_t len)
{
	if (len >= max)
		return -EINVAL;
	if (copy_from_user(line, from, len))
		return -EFAULT;
	line[len] = '\0';
	strim(line);
	return 0;
}
EXPORT_SYMBOL_GPL(bench_copy_line);

static ssize_t bench_write(struct file *file, const char __user *from, size_t len,
			   loff_t *pos)
{
	struct usb_device *udev;
	unsigned int i;
	char line[64];
	int ret;

	ret = bench_copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	udev = bench_find_device(line);
	if (!udev)
		return -ENODEV;
	mutex_lock(&bench_lock);
	bench_forget();
	ret = bench_check_clock();
	for (i = 0; !ret && i < nr_sizes; i++)
		ret = bench_size(udev, sizes[i], NULL);
	mutex_unlock(&bench_lock);
	usb_put_dev(udev);
	return ret ?: len;
}

DEFINE_SHOW_STORE_ATTRIBUTE(bench);

static ssize_t hold_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	struct usb_device *udev;
	struct ucb_pool *pool;
	char line[64], name[32];
	unsigned int count;
	size_t size;
	int ret;

	ret = bench_copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	mutex_lock(&bench_lock);
	ucb_pool_destroy(held);
	held = NULL;
	mutex_unlock(&bench_lock);
	if (!strcmp(line, "none"))
		return len;
	if (sscanf(line, "%31s %zu %u", name, &size, &count) != 3)
		return -EINVAL;
	udev = bench_find_device(name);
	if (!udev)
		return -ENODEV;
	pool = bench_make_pool(udev, "bench-hold", size, count);
	usb_put_dev(udev);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	mutex_lock(&bench_lock);
	swap(held, pool);
	mutex_unlock(&bench_lock);
	ucb_pool_destroy(pool);
	return len;
}

static const struct file_operations hold_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = hold_write,
	.llseek = noop_llseek,
};

static ssize_t bench_trace_write(struct file *file, const char __user *from, size_t len,
				 loff_t *pos)
{
	char line[96], controller[32], name[32];
	const struct bench_op *op;
	struct usb_device *udev;
	size_t size;
	int ret;

	ret = bench_copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	if (sscanf(line, "%31s %31s %zu", controller, name, &size) != 3)
		return -EINVAL;
	op = bench_find_op(name);
	if (!op)
		return -EINVAL;
	udev = bench_find_device(controller);
	if (!udev)
		return -ENODEV;
	mutex_lock(&bench_lock);
	ret = bench_size(udev, size, op);
	mutex_unlock(&bench_lock);
	usb_put_dev(udev);
	return ret ?: len;
}

DEFINE_SHOW_STORE_ATTRIBUTE(bench_trace);

static int __init bench_init(void)
{
	bench_dir = debugfs_create_dir("ucb_bench", NULL);
	debugfs_create_file("run", 0600, bench_dir, NULL, &bench_fops);
	debugfs_create_file("trace", 0600, bench_dir, NULL, &bench_trace_fops);
	debugfs_create_file("hold", 0200, bench_dir, NULL, &hold_fops);
	return 0;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	debugfs_remove_recursive(bench_dir);
	ucb_pool_destroy(held);
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Instructions of allocation and free, under an instruction-counting clock");
MODULE_LICENSE("GPL");
