/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of ucb.ko share.
 *
 * Locks, outermost first; none is held across an allocation, a URB kill, a
 * revoke or the USB core's free:
 *
 *   ucb_dropin_lock  raw, IRQs off: the table of devices with a drop-in pool
 *   ucb_pools_lock   raw, IRQs off: the list of all pools
 *   pool->lock       raw, IRQs off: the free lists, the counts, the dying,
 *                    gone and dead flags of that pool
 *   rhashtable's     bucket bits: inserting and removing addresses
 *
 * ucb_clients_srcu covers the walk over clients that revokes.
 *
 * A buffer's state is the one number ucb_buf.use, changed by cmpxchg alone:
 * 0 at home, 1 with the driver, 1 + n with the driver and n things (URBs,
 * registrations) still at work on it, UCB_QUARANTINED never to be used again.
 */
#ifndef _UCB_POOL_INTERNAL_H
#define _UCB_POOL_INTERNAL_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/usb.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <ucb/pool.h>

#define UCB_QUARANTINED		(-1)
#define UCB_GUARD_BYTES		64
#define UCB_GUARD_BYTE		0xbb
#define UCB_POISON_BYTE		0xa7

/* drop-in size classes: 32 B to 1 MiB in powers of two */
#define UCB_CLASS_MIN_SHIFT	5
#define UCB_CLASS_MAX_SHIFT	20
#define UCB_NR_CLASSES		(UCB_CLASS_MAX_SHIFT - UCB_CLASS_MIN_SHIFT + 1)
#define UCB_CLASS_NONE		UCB_NR_CLASSES

/* idle memory that a drop-in pool keeps before it gives blocks back */
#define UCB_DROPIN_IDLE_BYTES	(4UL << 20)

enum ucb_hcd_kind {
	UCB_HCD_DMA,
	UCB_HCD_PIO,
	UCB_HCD_LOCALMEM,
};

/* why a free or a submission was refused: indexes pool->misuse */
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
 * struct ucb_buf - one buffer
 * @hash: in ucb_bufs, by @addr
 * @addr: first byte
 * @dma: what the controller is given; ~0 on PIO controllers
 * @block: the allocation it was cut from
 * @node: in the pool's free list, while at home
 * @use: see above
 * @class: free list it goes home to
 * @requested: bytes asked for; what a drop-in free must name
 * @caller: who allocated it
 * @urb: submitted with our helper and not yet completed
 * @complete: the driver's completion handler of @urb
 * @context: the driver's context of @urb
 */
struct ucb_buf {
	struct rhash_head hash;
	void *addr;
	dma_addr_t dma;
	struct ucb_block *block;
	struct list_head node;
	atomic_t use;
	unsigned int class;
	size_t requested;
	unsigned long caller;
	struct urb *urb;
	usb_complete_t complete;
	void *context;
};

/**
 * struct ucb_block - one usb_alloc_coherent() allocation
 * @ref: one of the pool's while it owns the memory, one for each handle
 * @rcu: frees the record
 * @pool: owner, referenced
 * @node: in pool->blocks
 * @reap: in pool->reap, once its memory is to go back
 * @addr: of the memory
 * @dma: of the memory
 * @size: bytes, as given to usb_alloc_coherent()
 * @stride: bytes from one buffer to the next
 * @nr: buffers in @bufs
 * @bufs: the buffers
 */
struct ucb_block {
	struct kref ref;
	struct rcu_head rcu;
	struct ucb_pool *pool;
	struct list_head node;
	struct llist_node reap;
	void *addr;
	dma_addr_t dma;
	size_t size;
	size_t stride;
	unsigned int nr;
	struct ucb_buf bufs[] __counted_by(nr);
};

/**
 * struct ucb_pool - buffers for one device
 * @ref: one of the creator's, one for each block
 * @rcu: frees the structure
 * @node: in ucb_pools
 * @udev: the device, referenced
 * @id: number shown in reports
 * @name: shown in reports
 * @size: bytes in each buffer; 0 in a drop-in pool
 * @min: buffers kept
 * @max: most buffers owned; UINT_MAX for no limit
 * @flags: UCB_POOL_*
 * @kind: how the controller's memory comes
 * @dropin: a device's drop-in pool
 * @dropin_node: in the table of those
 * @lock: protects all below down to @dead
 * @free: buffers at home, by class
 * @blocks: all blocks
 * @nr_blocks: how many
 * @nr_bufs: buffers owned, with those being allocated
 * @nr_live: buffers with the driver
 * @high: most @nr_live so far
 * @idle: bytes at home
 * @want: the worker is to add a block
 * @dying: no new submissions and registrations, for good
 * @gone: the same, until the device comes back
 * @gone_revoked: clients were told of @gone
 * @dead: memory reclaimed or about to be: no alloc, no free
 * @allocs: buffers handed out
 * @core_allocs: calls of usb_alloc_coherent()
 * @core_frees: calls of usb_free_coherent()
 * @misses: allocations that found no buffer
 * @misuse: refused calls, by kind
 * @users: calls inside that reclaiming waits for
 * @idle_wait: woken when @users falls to 0
 * @urbs: submitted with our helper
 * @reap: blocks whose memory the worker gives back
 * @work: refills and gives back
 * @release: frees the pool in process context
 * @reclaimers: the first to add itself reclaims
 * @reclaimed: completed when that is over
 * @dentry: debugfs folder
 */
struct ucb_pool {
	struct kref ref;
	struct rcu_head rcu;
	struct list_head node;
	struct usb_device *udev;
	unsigned int id;
	char name[32];
	size_t size;
	unsigned int min;
	unsigned int max;
	unsigned int flags;
	enum ucb_hcd_kind kind;
	bool dropin;
	struct hlist_node dropin_node;

	raw_spinlock_t lock;
	struct list_head free[UCB_NR_CLASSES + 1];
	struct list_head blocks;
	unsigned int nr_blocks;
	unsigned int nr_bufs;
	unsigned int nr_live;
	unsigned int high;
	size_t idle;
	bool want;
	bool dying;
	bool gone;
	bool gone_revoked;
	bool dead;
	u64 allocs;

	atomic_long_t core_allocs;
	atomic_long_t core_frees;
	atomic_long_t misses;
	atomic_long_t misuse[UCB_NR_MISUSES];
	atomic_t users;
	wait_queue_head_t idle_wait;
	struct usb_anchor urbs;
	struct llist_head reap;
	struct work_struct work;
	struct work_struct release;
	atomic_t reclaimers;
	struct completion reclaimed;
	struct dentry *dentry;
};

extern struct workqueue_struct *ucb_wq;
extern bool ucb_debug;

/* pool.c */
struct ucb_pool *ucb_pool_new(struct usb_device *udev, gfp_t gfp);
void ucb_pool_put(struct ucb_pool *pool);
void ucb_pool_drop(struct ucb_pool *pool);
bool ucb_pool_enter(struct ucb_pool *pool);
void ucb_pool_exit(struct ucb_pool *pool);
struct ucb_buf *ucb_pool_take(struct ucb_pool *pool, unsigned int class,
			      size_t requested, unsigned long caller);
void ucb_pool_adopt(struct ucb_pool *pool, struct ucb_block *block,
		    size_t requested, unsigned long caller);
void ucb_pool_reclaim(struct ucb_pool *pool);
void ucb_pools_bus_gone(struct usb_bus *bus);
void ucb_pools_device_gone(struct usb_device *udev, bool gone);

/* block.c */
struct ucb_block *ucb_block_new(struct ucb_pool *pool, unsigned int class,
				unsigned int nr, size_t stride, size_t size,
				gfp_t gfp);
void ucb_block_hide(struct ucb_block *block);
void ucb_block_release_memory(struct ucb_block *block);
void ucb_block_put(struct ucb_block *block);
struct ucb_buf *ucb_buf_find(const void *addr);
int ucb_bufs_init(void);
void ucb_bufs_exit(void);

/* free.c */
int ucb_buf_check_and_free(struct ucb_buf *buf, const dma_addr_t *dma,
			   const size_t *size, unsigned long caller);
int ucb_refuse(struct ucb_pool *pool, struct ucb_buf *buf,
	       enum ucb_misuse what, int error, u64 want, u64 got,
	       unsigned long caller);
extern const char * const ucb_misuse_names[UCB_NR_MISUSES];

/* guard.c */
void ucb_guard_arm(struct ucb_buf *buf);
bool ucb_guard_intact(struct ucb_buf *buf);
void ucb_poison(struct ucb_buf *buf);
bool ucb_poison_intact(struct ucb_buf *buf);

/* dropin.c */
void ucb_dropin_sweep(void);
void ucb_dropin_exit(void);

/* debugfs.c */
void ucb_debugfs_init(void);
void ucb_debugfs_exit(void);
void ucb_debugfs_add(struct ucb_pool *pool);
void ucb_debugfs_remove(struct ucb_pool *pool);

#endif /* _UCB_POOL_INTERNAL_H */
