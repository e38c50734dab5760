// SPDX-License-Identifier: GPL-2.0
/*
 * The allocators: ours, the USB core's, and the slab.
 */
#include <linux/err.h>
#include <linux/export.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>

#include <ucb/pool.h>

#include "bench.h"

/*
 * One allocation and one free of each kind. Inlined into the loops below, so
 * that what is counted is the calls, as a driver makes them.
 */

static __always_inline bool take_slab(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = kmem_cache_alloc(b->cache, GFP_KERNEL);
	return slot->addr;
}

static __always_inline bool give_slab(const struct bench *b, struct bench_slot *slot)
{
	kmem_cache_free(b->cache, slot->addr);
	return true;
}

static __always_inline bool take_usb(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = usb_alloc_coherent(b->udev, b->size, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_usb(const struct bench *b, struct bench_slot *slot)
{
	usb_free_coherent(b->udev, b->size, slot->addr, slot->dma);
	return true;
}

static __always_inline bool take_handle(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = ucb_buf_alloc(b->pool, GFP_KERNEL);
	return slot->addr;
}

static __always_inline bool give_handle(const struct bench *b, struct bench_slot *slot)
{
	return !ucb_buf_free(slot->addr);
}

static __always_inline bool take_pool(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = ucb_pool_alloc(b->pool, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool take_zeroed(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = ucb_pool_zalloc(b->pool, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_pool(const struct bench *b, struct bench_slot *slot)
{
	return !ucb_pool_free_sized(b->pool, b->size, slot->addr, slot->dma);
}

static __always_inline bool take_dropin(const struct bench *b, struct bench_slot *slot)
{
	slot->addr = ucb_alloc_coherent(b->udev, b->size, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_dropin(const struct bench *b, struct bench_slot *slot)
{
	return !ucb_free_coherent(b->udev, b->size, slot->addr, slot->dma);
}

static __always_inline bool run_pairs(const struct bench *bench, unsigned int n,
				      bench_fn take, bench_fn give)
{
	const struct bench b = *bench;
	struct bench_slot slot;

	while (n--)
		if (!take(&b, &slot) || !give(&b, &slot))
			return false;
	return true;
}

/*
 * The same with BENCH_BURST out at a time, given back first to last: a pair in
 * a row finds what it has just given back, these do not. @n is a multiple.
 */
static __always_inline bool run_bursts(const struct bench *bench, unsigned int n,
				       bench_fn take, bench_fn give)
{
	const struct bench b = *bench;
	struct bench_slot slots[BENCH_BURST];
	unsigned int i;

	for (; n; n -= BENCH_BURST) {
		for (i = 0; i < BENCH_BURST; i++)
			if (!take(&b, &slots[i]))
				return false;
		for (i = 0; i < BENCH_BURST; i++)
			if (!give(&b, &slots[i]))
				return false;
	}
	return true;
}

#define BENCH_PAIRS(what, take, give)						\
static noinline bool pairs_##what(const struct bench *b, unsigned int n)	\
{										\
	return run_pairs(b, n, take, give);					\
}

#define BENCH_BURSTS(what, take, give)						\
static noinline bool bursts_##what(const struct bench *b, unsigned int n)	\
{										\
	return run_bursts(b, n, take, give);					\
}

BENCH_PAIRS(slab, take_slab, give_slab)
BENCH_PAIRS(usb, take_usb, give_usb)
BENCH_PAIRS(handle, take_handle, give_handle)
BENCH_PAIRS(pool, take_pool, give_pool)
BENCH_PAIRS(zeroed, take_zeroed, give_pool)
BENCH_PAIRS(dropin, take_dropin, give_dropin)
BENCH_BURSTS(slab, take_slab, give_slab)
BENCH_BURSTS(handle, take_handle, give_handle)
BENCH_BURSTS(pool, take_pool, give_pool)

static const struct bench_op ops[] = {
	{ "kmem_cache", pairs_slab, take_slab, give_slab },
	{ "usb", pairs_usb, take_usb, give_usb },
	{ "handle", pairs_handle, take_handle, give_handle },
	{ "pool", pairs_pool, take_pool, give_pool },
	{ "zalloc", pairs_zeroed, take_zeroed, give_pool },
	{ "dropin", pairs_dropin, take_dropin, give_dropin },
	{ "kmem_cache_burst", bursts_slab },
	{ "handle_burst", bursts_handle },
	{ "pool_burst", bursts_pool },
};

struct ucb_pool *bench_make_pool(struct usb_device *udev, const char *name,
				 size_t size, unsigned int count)
{
	const struct ucb_pool_params params = {
		.name = name,
		.size = size,
		.min = count,
	};

	return ucb_pool_create(udev, &params);
}
EXPORT_SYMBOL_GPL(bench_make_pool);

/* All operations at this size; or step through @step alone. */
int bench_size(struct usb_device *udev, size_t size,
	       const struct bench_op *step)
{
	struct bench b = {
		.udev = udev,
		.size = size,
	};
	int ret;

	b.cache = kmem_cache_create("ucb_bench", size, 0, 0, NULL);
	if (!b.cache)
		return -ENOMEM;
	/* enough buffers that a pool need not skip its caches */
	b.pool = bench_make_pool(udev, "bench", size, size > SZ_64K ? 64 : 256);
	if (IS_ERR(b.pool)) {
		ret = PTR_ERR(b.pool);
		goto destroy_cache;
	}
	ret = step ? bench_trace_pair(step, &b) :
		     bench_measure(ops, ARRAY_SIZE(ops), &b);
	ucb_pool_destroy(b.pool);
destroy_cache:
	kmem_cache_destroy(b.cache);
	return ret;
}

struct find {
	const char *controller;
	struct usb_device *udev;
};

static int find_root_hub(struct usb_device *udev, void *data)
{
	struct find *find = data;

	if (udev->parent || find->udev ||
	    strcmp(bus_to_hcd(udev->bus)->driver->description, find->controller))
		return 0;
	find->udev = usb_get_dev(udev);
	return 0;
}

/* The root hub of a controller of that name, with a reference. */
struct usb_device *bench_find_device(const char *controller)
{
	struct find find = { .controller = controller };

	usb_for_each_dev(&find, find_root_hub);
	return find.udev;
}
EXPORT_SYMBOL_GPL(bench_find_device);

/* Only pairs can be stepped through. */
const struct bench_op *bench_find_op(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i].take && !strcmp(ops[i].name, name))
			return &ops[i];
	return NULL;
}
