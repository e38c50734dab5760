/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of ucb.ko share.
 *
 * Locks, outermost first; none is held across an allocation, a URB kill, a
 * revoke or the USB core's free:
 *
 *   ucb_dropin_lock  raw, IRQs off: the table of devices with a drop-in pool
 *   ucb_pools_lock   raw, IRQs off: the list of all pools
 *   pool->lock       raw, IRQs off: the depot of that pool (its blocks and the
 *                    buffers at home in them), the counts, the flags
 *   ucb_bufs_lock    raw, IRQs off: changes of the table of addresses
 *
 * ucb_clients_srcu covers the walk over clients that revokes.
 *
 * A buffer's state is the one number ucb_buf.use, changed by cmpxchg alone;
 * who changes it from or to UCB_USE_HOME owns the buffer's other fields.
 *
 * What reclaiming must not run into (a free, a buffer being handed out) is
 * inside rcu_read_lock() or has IRQs off: ucb_pool_reclaim() waits for a grace
 * period after each of its steps.
 */
#ifndef _UCB_POOL_INTERNAL_H
#define _UCB_POOL_INTERNAL_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/hash.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/percpu.h>
#include <linux/ratelimit.h>
#include <linux/rculist.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/usb.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <ucb/pool.h>

/*
 * ucb_buf.use: at home; or with the driver, as the count of who is at work on
 * it: 1 for the driver itself, 1 more for each URB and registration. Bits tell
 * that it was given by handle, that a URB is in flight, and that a free must
 * look more closely.
 */
#define UCB_USE_HOME		0
#define UCB_USE_OUT		1
#define UCB_USE_COUNT		((int)GENMASK(27, 0))
#define UCB_USE_URB		((int)BIT(28))
#define UCB_USE_HANDLE		((int)BIT(29))
#define UCB_USE_SLOW		((int)BIT(30))
/* being freed, or never to be used again */
#define UCB_USE_QUARANTINED	(-1)
/* reclaimed while the driver had it; if it has a handle, that holds the block */
#define UCB_USE_RECLAIMED	(-2)
#define UCB_USE_ORPHAN		(-3)

#define UCB_GUARD_BYTES		64
#define UCB_GUARD_BYTE		0xbb
#define UCB_POISON_BYTE		0xa7

/* drop-in size classes: 32 B to 1 MiB in powers of two */
#define UCB_CLASS_MIN_SHIFT	5
#define UCB_CLASS_MAX_SHIFT	20
#define UCB_CLASS_NONE		(UCB_CLASS_MAX_SHIFT - UCB_CLASS_MIN_SHIFT + 1)
#define UCB_NR_CLASSES		(UCB_CLASS_NONE + 1)

/* idle memory that a drop-in pool keeps of a class before it gives blocks back */
#define UCB_DROPIN_IDLE_BYTES	(2UL << 20)

/* most buffers that move between a CPU's cache and the depot at once */
#define UCB_BATCH		32
/* and most bytes, in a drop-in pool */
#define UCB_DROPIN_BATCH_BYTES	(64UL << 10)

enum ucb_hcd_kind {
	UCB_HCD_DMA,
	UCB_HCD_PIO,
	UCB_HCD_LOCALMEM,
};

/**
 * struct ucb_buf - one buffer
 * @node: at home: in a CPU's cache or in its block
 * @complete: in flight: the driver's completion handler
 * @hash: in ucb_bufs, by @addr
 * @addr: first byte
 * @dma: what the controller is given; ~0 on PIO controllers
 * @block: the allocation it was cut from
 * @use: see above
 * @requested: bytes asked for; what a free must name
 * @caller: who allocated it
 */
struct ucb_buf {
	union {
		struct llist_node node;
		usb_complete_t complete;
	};
	struct hlist_node hash;
	void *addr;
	dma_addr_t dma;
	struct ucb_block *block;
	atomic_t use;
	u32 requested;
	unsigned long caller;
};

static_assert(sizeof(struct ucb_buf) <= 64);

/**
 * struct ucb_block - one usb_alloc_coherent() allocation
 * @ref: one of the pool's while it owns the memory, one for each holder of the
 *	record
 * @rcu: frees the record
 * @pool: owner, referenced
 * @node: in pool->blocks; changed under pool->lock, read under RCU
 * @depot: in its class's list, while a buffer is at home
 * @reap: in pool->reap, once its memory is to go back
 * @cache: where its buffers go when they are freed
 * @home: the buffers at home, but for those in a CPU's cache
 * @home_last: last of those
 * @nr_home: how many
 * @addr: of the memory
 * @dma: of the memory
 * @size: bytes, as given to usb_alloc_coherent()
 * @stride: bytes from one buffer to the next
 * @class: of its buffers
 * @stacks: in a debug pool: who allocated and freed each buffer last
 * @nr: buffers in @bufs
 * @bufs: the buffers; apart, so that their size is no more than theirs
 */
struct ucb_block {
	struct kref ref;
	struct rcu_head rcu;
	struct ucb_pool *pool;
	struct list_head node;
	struct list_head depot;
	struct llist_node reap;
	struct ucb_cache __percpu *cache;
	struct llist_node *home;
	struct llist_node *home_last;
	unsigned int nr_home;
	void *addr;
	dma_addr_t dma;
	size_t size;
	size_t stride;
	unsigned int class;
	struct ucb_stacks *stacks;
	unsigned int nr;
	struct ucb_buf *bufs;
};

/**
 * struct ucb_cache - a CPU's buffers of one class
 * @bufs: the buffers; added to and popped from by their CPU with IRQs off,
 *	taken as a whole by any
 * @nr: how many, and @taken on top; changed by their CPU with IRQs off
 * @limit: most that @nr may be; changed under pool->lock
 * @taken: how many others took away; changed under pool->lock
 */
struct ucb_cache {
	struct llist_head bufs;
	long nr;
	long limit;
	long taken;
};

/**
 * struct ucb_pool - buffers for one device
 * @id: number shown in reports
 * @zero: __GFP_ZERO when every buffer is to be handed out zeroed
 * @cache: for each CPU, a cache for each class
 * @udev: the device, referenced
 * @ref: one of the creator's, one for each block
 * @rcu: frees the structure
 * @node: in ucb_pools
 * @name: shown in reports
 * @size: bytes in each buffer; 0 in a drop-in pool
 * @flags: UCB_POOL_*
 * @kind: how the controller's memory comes
 * @dropin: a device's drop-in pool
 * @nr_classes: UCB_NR_CLASSES in a drop-in pool, else 1
 * @dropin_node: in the table of those
 * @lock: protects all below down to @depot_locks
 * @depot: blocks with a buffer at home, by class: those that are all at home
 *	last
 * @blocks: all blocks
 * @min: buffers kept
 * @max: most buffers owned; UINT_MAX for no limit
 * @nr_blocks: blocks owned
 * @nr_bufs: buffers owned
 * @nr_out: buffers that are not in the depot
 * @nr_bad: of those, quarantined
 * @high: most @nr_out so far
 * @waiters: calls that wait for a buffer
 * @idle: bytes in the depot, by class
 * @want: the worker is to add a block
 * @dying: no new submissions and registrations, for good
 * @gone: the same, until the device comes back
 * @gone_intf: first interface of the device when it went, referenced
 * @dead: memory reclaimed or about to be: no alloc, no free
 * @pins: registrations of whole blocks
 * @lost: a device may use the blocks for good
 * @depot_locks: times that @lock was taken to move buffers
 * @core_allocs: calls of usb_alloc_coherent()
 * @core_frees: calls of usb_free_coherent()
 * @misses: allocations that found no buffer
 * @misuse: refused calls and corrupted buffers, by kind
 * @reports: limits how many of those are in the log
 * @users: calls inside that reclaiming waits for
 * @idle_wait: woken when @users falls to 0
 * @home_wait: woken when a buffer comes home and @waiters says so
 * @wake: wakes those
 * @urbs: submitted with our helper
 * @reap: blocks whose memory the worker gives back
 * @work: refills and gives back
 * @show: makes the debugfs folder of a drop-in pool
 * @release: frees the pool in process context
 * @reclaimers: the first to add itself reclaims
 * @reclaimed: completed when that is over
 * @dentry: debugfs folder
 */
struct ucb_pool {
	unsigned int id;
	gfp_t zero;
	struct ucb_cache __percpu *cache;
	struct usb_device *udev;

	struct kref ref;
	struct rcu_head rcu;
	struct list_head node;
	char name[32];
	size_t size;
	unsigned int flags;
	enum ucb_hcd_kind kind;
	bool dropin;
	unsigned int nr_classes;
	struct hlist_node dropin_node;

	raw_spinlock_t lock;
	struct list_head depot[UCB_NR_CLASSES];
	struct list_head blocks;
	unsigned int min;
	unsigned int max;
	unsigned int nr_blocks;
	unsigned int nr_bufs;
	unsigned int nr_out;
	unsigned int nr_bad;
	unsigned int high;
	unsigned int waiters;
	size_t idle[UCB_NR_CLASSES];
	bool want;
	bool dying;
	bool gone;
	bool dead;
	struct usb_interface *gone_intf;
	unsigned int pins;
	bool lost;
	u64 depot_locks;

	atomic_long_t core_allocs;
	atomic_long_t core_frees;
	atomic_long_t misses;
	atomic_long_t misuse[UCB_NR_MISUSES];
	struct ratelimit_state reports;
	atomic_t users;
	wait_queue_head_t idle_wait;
	wait_queue_head_t home_wait;
	struct irq_work wake;
	struct usb_anchor urbs;
	struct llist_head reap;
	struct work_struct work;
	struct work_struct show;
	struct work_struct release;
	atomic_t reclaimers;
	struct completion reclaimed;
	struct dentry *dentry;
};

/*
 * What is asked for, off the fast path: @use is UCB_USE_OUT, with a handle or
 * not; and what was handed out, read before reclaiming can free the record.
 */
struct ucb_request {
	u32 size;
	int use;
	bool zero;
	unsigned long caller;

	struct ucb_buf *buf;
	void *addr;
	dma_addr_t dma;
};

/* refills and gives back; what ends pools waits for those, and so is apart */
extern struct workqueue_struct *ucb_wq;
extern struct workqueue_struct *ucb_end_wq;
extern bool ucb_debug;

/* pool.c */
/* flags of a caller's that do not concern our own records */
#define UCB_RECORD_GFP(gfp)	((gfp) & ~(GFP_ZONEMASK | __GFP_ZERO | __GFP_COMP))
struct ucb_pool *ucb_pool_new(struct usb_device *udev, bool dropin, gfp_t gfp);
void ucb_pool_put(struct ucb_pool *pool);
bool ucb_pools_unsettled(struct ucb_pool *pool, gfp_t gfp);
void ucb_pools_settle(void);
void ucb_pool_reap(struct ucb_pool *pool, struct ucb_block *block);
bool ucb_pool_enter(struct ucb_pool *pool);
void ucb_pool_exit(struct ucb_pool *pool);
int ucb_pool_grow(struct ucb_pool *pool, gfp_t gfp);
void ucb_pool_want(struct ucb_pool *pool);

/* alloc.c */
/* No allocator in hardirq; on RT, none where the caller cannot sleep. */
static inline bool ucb_may_allocate(gfp_t gfp)
{
	return !in_hardirq() && (!IS_ENABLED(CONFIG_PREEMPT_RT) ||
				 gfpflags_allow_blocking(gfp));
}

void ucb_buf_give(struct ucb_buf *buf, struct ucb_request *req);
bool ucb_pool_take(struct ucb_pool *pool, unsigned int class,
		   struct ucb_request *req);

/* cache.c */
struct ucb_buf *ucb_depot_get(struct ucb_pool *pool, unsigned int class);
bool ucb_depot_add(struct ucb_pool *pool, struct ucb_block *block,
		   bool first_out);
unsigned long ucb_depot_trim(struct ucb_pool *pool, unsigned int class,
			     unsigned int keep, unsigned long pages);
void ucb_cache_overflow(struct ucb_block *block);
void ucb_cache_drain(struct ucb_pool *pool, unsigned int class);
void ucb_cache_drain_locked(struct ucb_pool *pool, unsigned int class);
void ucb_cache_set_limits(struct ucb_pool *pool);
void ucb_buf_quarantine(struct ucb_buf *buf);
unsigned int ucb_cache_total(struct ucb_pool *pool);
size_t ucb_depot_bytes(const struct ucb_pool *pool);
size_t ucb_cache_bytes(struct ucb_pool *pool);
unsigned int ucb_cache_live(struct ucb_pool *pool);
void ucb_wake_waiters(struct irq_work *work);

/* lifetime.c */
extern struct list_head ucb_pools;
extern raw_spinlock_t ucb_pools_lock;
void ucb_pool_reclaim(struct ucb_pool *pool);
void ucb_pool_drop(struct ucb_pool *pool);
void ucb_pools_bus_gone(struct usb_bus *bus);
void ucb_pools_device_gone(struct usb_device *udev);
void ucb_pools_device_back(struct usb_device *udev);
struct usb_interface *ucb_first_interface(const struct usb_device *udev);
bool ucb_pool_closed(const struct ucb_pool *pool);

/* shrink.c */
int ucb_shrink_init(void);
void ucb_shrink_exit(void);

/* block.c */
extern struct hlist_head *ucb_bufs;
extern unsigned int ucb_bufs_shift;
struct ucb_block *ucb_block_new(struct ucb_pool *pool, unsigned int class,
				unsigned int nr, size_t stride, size_t size,
				gfp_t gfp);
void ucb_block_hide(struct ucb_block *block);
void ucb_block_release_memory(struct ucb_block *block);
void ucb_block_put(struct ucb_block *block);
int ucb_bufs_init(void);
void ucb_bufs_exit(void);

static __always_inline struct hlist_head *ucb_bufs_bucket(const void *addr)
{
	return &ucb_bufs[(unsigned long)addr * GOLDEN_RATIO_PRIME >>
			 ucb_bufs_shift];
}

/*
 * Where an architecture stores words by one instruction, that is faster than
 * its memset() on most of its processors; where it does not, memset() is.
 */
static inline void *ucb_zero(void *addr, size_t size)
{
#ifdef __HAVE_ARCH_MEMSET64
	size_t words = size / sizeof(u64);

	memset64(addr, 0, words);
	memset(addr + words * sizeof(u64), 0, size % sizeof(u64));
	return addr;
#else
	return memset(addr, 0, size);
#endif
}

/* The caller is inside rcu_read_lock(), or has IRQs off. */
static __always_inline struct ucb_buf *ucb_buf_find(const void *addr)
{
	struct ucb_buf *buf;

	hlist_for_each_entry_rcu(buf, ucb_bufs_bucket(addr), hash)
		if (buf->addr == addr)
			return buf;
	return NULL;
}

/* free.c */
bool ucb_report(struct ucb_pool *pool, const struct ucb_buf *buf,
		enum ucb_misuse what, int error, u64 want, u64 got,
		unsigned long caller);
int ucb_refuse(struct ucb_pool *pool, const struct ucb_buf *buf,
	       enum ucb_misuse what, int error, u64 want, u64 got,
	       unsigned long caller);
extern const char * const ucb_misuse_names[UCB_NR_MISUSES];
int ucb_free_checked(struct ucb_buf *buf, const dma_addr_t *dma,
		     const size_t *size, unsigned long caller);
int ucb_buf_hold(struct ucb_buf *buf, int add);
void ucb_buf_release(struct ucb_buf *buf, int sub);

/* guard.c */
void ucb_stacks_init(void);
bool ucb_stacks_alloc(struct ucb_block *block, gfp_t gfp);
void ucb_stacks_save(struct ucb_buf *buf, bool freed);
void ucb_stacks_print(const struct ucb_buf *buf);
void ucb_guard_arm(struct ucb_buf *buf, u32 requested);
bool ucb_guard_intact(struct ucb_buf *buf);
void ucb_poison(struct ucb_buf *buf);
bool ucb_poison_intact(struct ucb_buf *buf);
void ucb_block_check_home(struct ucb_block *block);

/* sgtable.c */
const char *ucb_why_no_pages(const struct ucb_pool *pool);

/* dropin.c */
struct ucb_pool *ucb_dropin_find(const struct usb_device *udev);
void ucb_dropin_sweep(void);
void ucb_dropin_exit(void);

/* debugfs.c */
void ucb_debugfs_init(void);
void ucb_debugfs_exit(void);
void ucb_debugfs_add(struct ucb_pool *pool);
void ucb_debugfs_remove(struct ucb_pool *pool);

#endif /* _UCB_POOL_INTERNAL_H */
