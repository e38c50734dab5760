/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files of the guest's that suites write to.
 */
#ifndef _UCB_KUNIT_GUEST_FILES_H
#define _UCB_KUNIT_GUEST_FILES_H

#include <linux/err.h>
#include <linux/fs.h>
#include <linux/string.h>

#include "../drivers/compat.h"

/* Return: 0, or an errno. */
static inline int write_file(const char *path, const char *text)
{
	struct file *file = NULL;
	loff_t pos = 0;
	ssize_t ret;

	scoped_with_init_fs()
		file = filp_open(path, O_WRONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	ret = kernel_write(file, text, strlen(text), &pos);
	filp_close(file, NULL);
	return ret < 0 ? ret : 0;
}

/* Debug mode, for pools that are made from now on. */
static inline int set_debug(bool on)
{
	return write_file("/sys/module/ucb/parameters/debug", on ? "1" : "0");
}

/* Memory pressure: all shrinkers are asked. */
static inline int press(void)
{
	return write_file("/proc/sys/vm/drop_caches", "2\n");
}

#endif /* _UCB_KUNIT_GUEST_FILES_H */
