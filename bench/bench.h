/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the benchmark share. See main.c.
 */
#ifndef _UCB_BENCH_H
#define _UCB_BENCH_H

#include <linux/compiler_types.h>
#include <linux/types.h>

struct kmem_cache;
struct mutex;
struct seq_file;
struct ucb_pool;
struct usb_device;

#define BENCH_BURST	32

/**
 * struct bench - what the operations work on
 * @udev: the device
 * @cache: slab cache of @size
 * @pool: pool of @size
 * @size: bytes in a buffer
 * @priv: of the operation's own
 */
struct bench {
	struct usb_device *udev;
	struct kmem_cache *cache;
	struct ucb_pool *pool;
	size_t size;
	void *priv;
};

/* one thing that was allocated */
struct bench_slot {
	void *addr;
	dma_addr_t dma;
};

typedef bool (*bench_fn)(const struct bench *b, struct bench_slot *slot);

/**
 * struct bench_op - what is measured
 * @name: in the results
 * @run: do it n times; false if it failed
 * @take: its first half, if it is a pair; NULL if it is more than that
 * @give: its second half
 */
struct bench_op {
	const char *name;
	bool (*run)(const struct bench *b, unsigned int n);
	bench_fn take;
	bench_fn give;
};

/* measure.c */
extern unsigned int bench_window;
extern unsigned int bench_least_pairs;
extern struct mutex bench_lock;		/* one run at a time */
int bench_check_clock(void);
void bench_forget(void);
int bench_measure(const struct bench_op *ops, unsigned int nr, const struct bench *b);
int bench_add_count(const char *name, size_t size, u64 count);
int bench_show(struct seq_file *m, void *unused);

/* ops.c */
struct usb_device *bench_find_device(const char *controller);
struct ucb_pool *bench_make_pool(struct usb_device *udev, const char *name,
				 size_t size, unsigned int count);
int bench_size(struct usb_device *udev, size_t size, const struct bench_op *step);
const struct bench_op *bench_find_op(const char *name);

/* main.c */
int bench_copy_line(char *line, size_t max, const char __user *from, size_t len);

/* trace.c */
int bench_trace_pair(const struct bench_op *op, const struct bench *b);
int bench_trace_show(struct seq_file *m, void *unused);

#endif /* _UCB_BENCH_H */
