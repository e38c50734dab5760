/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pools of checked USB coherent buffers: the interface for USB drivers, and
 * the one that a client such as the RDMA bridge builds on.
 */
#ifndef _UCB_POOL_H
#define _UCB_POOL_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/types.h>

struct sg_table;
struct urb;
struct usb_device;
struct ucb_buf;
struct ucb_pool;

/**
 * define UCB_POOL_ZERO - hand out every buffer zeroed
 */
#define UCB_POOL_ZERO	BIT(0)

/**
 * define UCB_POOL_DEBUG - guard bytes, poison and delayed reissue
 */
#define UCB_POOL_DEBUG	BIT(1)

/**
 * define UCB_POOL_RDMA - blocks of whole pages, so that a buffer can have a key
 */
#define UCB_POOL_RDMA	BIT(2)

/**
 * struct ucb_pool_params - what a pool is to hold
 * @name: shown in reports and debugfs; copied
 * @size: bytes in each buffer, at least 1
 * @min: buffers allocated up front and kept
 * @max: most buffers the pool may own; 0 for no limit
 * @flags: UCB_POOL_ZERO, UCB_POOL_DEBUG, UCB_POOL_RDMA
 */
struct ucb_pool_params {
	const char *name;
	size_t size;
	unsigned int min;
	unsigned int max;
	unsigned int flags;
};

/**
 * enum ucb_misuse - what is counted and reported
 * @UCB_MISUSE_SIZE: a free named another size than the allocation
 * @UCB_MISUSE_DMA: a free named another DMA address
 * @UCB_MISUSE_UNKNOWN: no buffer starts at the address freed
 * @UCB_MISUSE_DOUBLE: a second free
 * @UCB_MISUSE_BUSY: a free while a URB or registration is at work on the buffer
 * @UCB_MISUSE_GONE: a free after the pool or its controller has gone
 * @UCB_MISUSE_URB: a URB does not match its buffer
 * @UCB_MISUSE_OVERRUN: bytes were written past the requested size
 * @UCB_MISUSE_USE_AFTER_FREE: bytes were written after free
 * @UCB_NR_MISUSES: how many kinds there are
 */
enum ucb_misuse {
	UCB_MISUSE_SIZE,
	UCB_MISUSE_DMA,
	UCB_MISUSE_UNKNOWN,
	UCB_MISUSE_DOUBLE,
	UCB_MISUSE_BUSY,
	UCB_MISUSE_GONE,
	UCB_MISUSE_URB,
	UCB_MISUSE_OVERRUN,
	UCB_MISUSE_USE_AFTER_FREE,
	UCB_NR_MISUSES,
};

/**
 * struct ucb_pool_stats - what a pool has and did
 * @blocks: usb_alloc_coherent() allocations owned
 * @buffers: buffers in those
 * @live: buffers that the driver has
 * @cached: buffers in the CPUs' caches
 * @quarantined: buffers never to be handed out again
 * @high: most buffers outside the depot so far: @live and @cached
 * @idle_bytes: bytes in the depot
 * @depot_locks: times that the depot's lock was taken to move buffers
 * @core_allocs: calls of usb_alloc_coherent()
 * @core_frees: calls of usb_free_coherent()
 * @misses: allocations that found no buffer
 * @misuse: refused calls and corrupted buffers, by kind
 */
struct ucb_pool_stats {
	unsigned int blocks;
	unsigned int buffers;
	unsigned int live;
	unsigned int cached;
	unsigned int quarantined;
	unsigned int high;
	size_t idle_bytes;
	u64 depot_locks;
	unsigned long core_allocs;
	unsigned long core_frees;
	unsigned long misses;
	unsigned long misuse[UCB_NR_MISUSES];
};

struct ucb_pool *ucb_pool_create(struct usb_device *udev,
				 const struct ucb_pool_params *params);
void ucb_pool_destroy(struct ucb_pool *pool);
void ucb_pool_get_stats(struct ucb_pool *pool, struct ucb_pool_stats *stats);
int ucb_pool_resize(struct ucb_pool *pool, unsigned int min, unsigned int max);
void *ucb_pool_alloc(struct ucb_pool *pool, gfp_t gfp, dma_addr_t *dma);
void *ucb_pool_zalloc(struct ucb_pool *pool, gfp_t gfp, dma_addr_t *dma);
int ucb_pool_free(struct ucb_pool *pool, void *addr, dma_addr_t dma);
int ucb_pool_free_sized(struct ucb_pool *pool, size_t size, void *addr,
			dma_addr_t dma);

/* handles */
struct ucb_buf *ucb_buf_alloc(struct ucb_pool *pool, gfp_t gfp);
struct ucb_buf *ucb_buf_alloc_wait(struct ucb_pool *pool, gfp_t gfp,
				   unsigned long timeout);
int ucb_buf_free(struct ucb_buf *buf);
struct ucb_buf *ucb_buf_get(struct ucb_pool *pool, const void *addr);
void ucb_buf_put(struct ucb_buf *buf);
void *ucb_buf_addr(const struct ucb_buf *buf);
dma_addr_t ucb_buf_dma(const struct ucb_buf *buf);
size_t ucb_buf_size(const struct ucb_buf *buf);
struct ucb_pool *ucb_buf_pool(const struct ucb_buf *buf);

/* the drop-in pair */
void *ucb_alloc_coherent(struct usb_device *udev, size_t size, gfp_t gfp,
			 dma_addr_t *dma);
int ucb_free_coherent(struct usb_device *udev, size_t size, void *addr,
		      dma_addr_t dma);

/* URBs */
int ucb_urb_attach(struct urb *urb, struct ucb_buf *buf, size_t length);
int ucb_submit_urb(struct urb *urb, gfp_t gfp);

/**
 * struct ucb_client - code that attached something to a pool's buffers
 * @revoke: take back everything attached to @pool, in bounded time. Called in
 *	process context with no lock held, at pool destruction and when the
 *	device or its bus goes; may be called more than once.
 * @node: the pool's
 */
struct ucb_client {
	void (*revoke)(struct ucb_client *client, struct ucb_pool *pool);
	struct list_head node;
};

/**
 * struct ucb_span - a block of a pool
 * @addr: first byte
 * @dma: what the controller is given; ~0 on PIO controllers
 * @size: bytes, a multiple of the page size
 */
struct ucb_span {
	void *addr;
	dma_addr_t dma;
	size_t size;
};

void ucb_client_register(struct ucb_client *client);
void ucb_client_unregister(struct ucb_client *client);
int ucb_buf_busy_get(struct ucb_buf *buf);
void ucb_buf_busy_put(struct ucb_buf *buf);
int ucb_buf_get_sgtable(struct ucb_buf *buf, struct sg_table *sgt,
			size_t *offset);
struct ucb_span *ucb_pool_get_spans(struct ucb_pool *pool, unsigned int *nr);
void ucb_pool_put_spans(struct ucb_pool *pool, struct ucb_span *spans);
int ucb_pool_pin(struct ucb_pool *pool);
void ucb_pool_unpin(struct ucb_pool *pool, bool lost);
int ucb_pool_get_sgtable(struct ucb_pool *pool, const struct ucb_span *spans,
			 unsigned int nr, struct sg_table *sgt);

#endif /* _UCB_POOL_H */
