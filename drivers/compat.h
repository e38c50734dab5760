/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernels from 6.1 on, as the newest is: what that calls otherwise is made
 * here from what the older ones have. No other file names a version.
 */
#ifndef _UCB_COMPAT_H
#define _UCB_COMPAT_H

#include <linux/dma-mapping.h>
#include <linux/fs_struct.h>
#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/seq_file.h>
#include <linux/shrinker.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

/* 6.4: crypto_memneq() has a header that is not an algorithm's */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#include <crypto/utils.h>
#else
#include <crypto/algapi.h>
#endif

/* 7.3: a mapping that would have to be synced can be refused */
#ifndef DMA_ATTR_REQUIRE_COHERENT
#define DMA_ATTR_REQUIRE_COHERENT	0
#endif

/* 6.18: what generates a test's parameters is told the test */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
#define UCB_KUNIT_GEN_PARAMS(name, prev, desc)				\
	const void *name(struct kunit *test, const void *prev, char *desc)
#else
#define UCB_KUNIT_GEN_PARAMS(name, prev, desc)				\
	const void *name(const void *prev, char *desc)
#endif

/* 7.3: a kernel thread, as suites run in, finds init's files in this scope only */
#ifndef scoped_with_init_fs
#define scoped_with_init_fs()
#endif

/* 6.13: a timer is told its function when it is set up */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void
hrtimer_setup(struct hrtimer *timer,
	      enum hrtimer_restart (*function)(struct hrtimer *),
	      clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

/* 6.10: __assign_str() takes the source from __string() */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
#define ucb_assign_str(dst, src)	__assign_str(dst)
#else
#define ucb_assign_str(dst, src)	__assign_str(dst, src)
#endif

/* 6.9: a seq_file that is also written */
#ifndef DEFINE_SHOW_STORE_ATTRIBUTE
#define DEFINE_SHOW_STORE_ATTRIBUTE(name)				\
static int name ## _open(struct inode *inode, struct file *file)	\
{									\
	return single_open(file, name ## _show, inode->i_private);	\
}									\
									\
static const struct file_operations name ## _fops = {			\
	.owner		= THIS_MODULE,					\
	.open		= name ## _open,				\
	.read		= seq_read,					\
	.write		= name ## _write,				\
	.llseek		= seq_lseek,					\
	.release	= single_release,				\
}
#endif

/* 6.7: shrinkers are allocated by the kernel, and registering cannot fail */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)

#include <linux/printk.h>
#include <linux/slab.h>

static inline struct shrinker *shrinker_alloc(unsigned int flags,
					      const char *name)
{
	struct shrinker *shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);

	if (shrinker) {
		shrinker->flags = flags;
		shrinker->seeks = DEFAULT_SEEKS;
	}
	return shrinker;
}

static inline void shrinker_register(struct shrinker *shrinker)
{
	if (register_shrinker(shrinker, KBUILD_MODNAME))
		pr_warn(KBUILD_MODNAME ": no memory for a shrinker\n");
}

static inline void shrinker_free(struct shrinker *shrinker)
{
	unregister_shrinker(shrinker);
	kfree(shrinker);
}

#endif

#endif /* _UCB_COMPAT_H */
