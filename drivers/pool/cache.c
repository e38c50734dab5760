// SPDX-License-Identifier: GPL-2.0
/*
 * Where buffers at home are kept: the per-CPU caches, and the depot.
 *
 * Each CPU has a short list for each class of buffers (one class, but for
 * drop-in pools). Allocating pops from it and freeing pushes to it, with IRQs
 * off and without a lock. Behind the lists is the depot, under pool->lock:
 * blocks with buffers at home, each holding its own, so that a block whose
 * buffers are all home is known at once and can be given back. When a CPU's
 * list runs empty or over, UCB_BATCH buffers move at once, so one lock is taken
 * for many operations, also when one CPU allocates what another frees.
 *
 * No buffer is out of reach: who finds the depot empty takes the lists of all
 * CPUs away, of offline ones too, and puts what was in them into the depot.
 * For that a list is taken as a whole with one exchange. Its own CPU does not
 * notice: how many were taken is added to what its count may be.
 *
 * A pool can do without the lists: then their limit is such that each push is
 * over it, so that they are empty, and both ways lead to the depot. Debug pools
 * do, to reissue in turn; a pool of few buffers; one whose device is gone, so
 * that its last free is seen; one where a call waits for a buffer, so that it
 * is given the next; and one that is reclaimed.
 */

#include <linux/cpumask.h>
#include <linux/minmax.h>
#include <linux/usb.h>

#include "cache.h"

/* pool->lock is held; a buffer is at home in @block. */
static struct ucb_buf *ucb_depot_pop(struct ucb_pool *pool,
				     struct ucb_block *block)
{
	struct llist_node *node = block->home;

	block->home = READ_ONCE(node->next);
	if (!--block->nr_home)
		list_del_init(&block->depot);
	pool->idle[block->class] -= block->stride;
	pool->nr_out++;
	return llist_entry(node, struct ucb_buf, node);
}

/* pool->lock is held. The block is the worker's from here on. */
static void ucb_depot_reap(struct ucb_pool *pool, struct ucb_block *block)
{
	list_del_init(&block->depot);
	list_del_rcu(&block->node);
	pool->nr_blocks--;
	pool->nr_bufs -= block->nr;
	pool->idle[block->class] -= block->nr * block->stride;
	ucb_pool_reap(pool, block);
}

/* pool->lock is held. */
static void ucb_depot_push(struct ucb_pool *pool, struct ucb_buf *buf)
{
	struct ucb_block *block = buf->block;
	struct list_head *depot = &pool->depot[block->class];

	if (!(pool->flags & UCB_POOL_DEBUG)) {
		WRITE_ONCE(buf->node.next, block->home);
		block->home = &buf->node;
		if (++block->nr_home == 1)
			list_add(&block->depot, depot);
		if (block->nr_home == block->nr)
			list_move_tail(&block->depot, depot);
	} else {
		/* first in, first out: in the block, and among the blocks */
		WRITE_ONCE(buf->node.next, NULL);
		if (block->nr_home++)
			WRITE_ONCE(block->home_last->next, &buf->node);
		else
			block->home = &buf->node;
		block->home_last = &buf->node;
		list_move_tail(&block->depot, depot);
	}
	pool->idle[block->class] += block->stride;
	pool->nr_out--;
	if (block->nr_home < block->nr)
		return;
	if (pool->nr_bufs > pool->max || block->class == UCB_CLASS_NONE ||
	    (pool->dropin &&
	     pool->idle[block->class] > UCB_DROPIN_IDLE_BYTES))
		ucb_depot_reap(pool, block);
}

/*
 * Most buffers to move between a CPU's cache and the depot; 0 for no cache.
 * pool->lock is held, unless nobody knows the pool yet.
 */
static unsigned int ucb_cache_batch(const struct ucb_pool *pool,
				    unsigned int class)
{
	if (pool->dead || pool->gone || pool->waiters ||
	    (pool->flags & UCB_POOL_DEBUG) || class == UCB_CLASS_NONE)
		return 0;
	if (pool->dropin)
		return min_t(unsigned int, UCB_BATCH,
			     UCB_DROPIN_BATCH_BYTES >>
				     (class + UCB_CLASS_MIN_SHIFT));
	/* few buffers are not kept from other CPUs */
	return min_t(unsigned int, UCB_BATCH,
		     pool->max / (4 * num_possible_cpus()));
}

static void ucb_cache_set_limit(struct ucb_pool *pool, struct ucb_cache *cache,
				unsigned int class)
{
	WRITE_ONCE(cache->limit,
		   cache->taken + 2 * ucb_cache_batch(pool, class));
}

/* pool->lock is held: what ucb_cache_batch() looks at has changed. */
void ucb_cache_set_limits(struct ucb_pool *pool)
{
	unsigned int class;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct ucb_cache *cache = per_cpu_ptr(pool->cache, cpu);

		for (class = 0; class < pool->nr_classes; class++)
			ucb_cache_set_limit(pool, &cache[class], class);
	}
}

/*
 * A buffer from the depot, and a batch for this CPU's cache. The caller has
 * IRQs off.
 */
struct ucb_buf *ucb_depot_get(struct ucb_pool *pool, unsigned int class)
{
	struct ucb_cache *cache = this_cpu_ptr(pool->cache + class);
	struct list_head *depot = &pool->depot[class];
	struct ucb_buf *buf = NULL;
	struct ucb_block *block;
	unsigned int more;

	raw_spin_lock(&pool->lock);
	pool->depot_locks++;
	more = ucb_cache_batch(pool, class);
	while (!pool->dead &&
	       (block = list_first_entry_or_null(depot, struct ucb_block, depot))) {
		if (buf) {
			ucb_cache_push(cache, buf);
			cache->nr++;
		}
		buf = ucb_depot_pop(pool, block);
		if (!more--)
			break;
	}
	pool->high = max(pool->high, pool->nr_out);
	raw_spin_unlock(&pool->lock);
	return buf;
}

/* Buffers that are on no list come home: so many. pool->lock is held. */
static unsigned int ucb_depot_put(struct ucb_pool *pool,
				  struct llist_node *chain)
{
	struct ucb_buf *buf, *next;
	unsigned int nr = 0;

	pool->depot_locks++;
	/* those of a dead pool go with their blocks */
	if (!pool->dead) {
		llist_for_each_entry_safe(buf, next, chain, node) {
			ucb_depot_push(pool, buf);
			nr++;
		}
	}
	if (pool->waiters)
		irq_work_queue(&pool->wake);
	if (pool->dropin && pool->gone)
		ucb_dropin_sweep();
	return nr;
}

/*
 * A new block joins the pool, unless that would then own more than max; with
 * @first_out, its first buffer is for the caller to hand out. Until here nobody
 * counts it: a pool that owns max buffers has them all. The caller is inside
 * ucb_pool_enter(), so reclaiming comes later.
 */
bool ucb_depot_add(struct ucb_pool *pool, struct ucb_block *block,
		   bool first_out)
{
	unsigned int i = first_out ? 1 : 0;
	unsigned long flags;
	bool fits;

	raw_spin_lock_irqsave(&pool->lock, flags);
	fits = pool->nr_bufs <= pool->max &&
	       block->nr <= pool->max - pool->nr_bufs;
	if (!fits)
		goto out;
	list_add_tail_rcu(&block->node, &pool->blocks);
	pool->nr_blocks++;
	pool->nr_bufs += block->nr;
	pool->nr_out += block->nr;
	if (first_out)
		pool->high = max(pool->high, pool->nr_out);
	for (; i < block->nr; i++)
		ucb_depot_push(pool, &block->bufs[i]);
	if (pool->waiters)
		irq_work_queue(&pool->wake);
out:
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	return fits;
}

/*
 * This CPU's cache is over its limit. What came last is kept, it is the most
 * likely to be in the processor's cache. The caller has IRQs off. Under the lock
 * a buffer is always in a cache or in the depot, for who looks for it in both.
 */
void ucb_cache_overflow(struct ucb_block *block)
{
	struct ucb_cache *cache = this_cpu_ptr(block->cache);
	struct llist_node *chain, *rest, *last = NULL;
	struct ucb_pool *pool = block->pool;
	long keep, nr;

	raw_spin_lock(&pool->lock);
	keep = ucb_cache_batch(pool, block->class);
	chain = llist_del_all(&cache->bufs);
	rest = chain;
	for (nr = 0; rest && nr < keep; nr++) {
		last = rest;
		rest = READ_ONCE(rest->next);
	}
	if (last) {
		WRITE_ONCE(last->next, NULL);
		/* empty, and only this CPU adds to it */
		smp_store_release(&cache->bufs.first, chain);
	}
	if (rest)
		cache->nr -= ucb_depot_put(pool, rest);
	raw_spin_unlock(&pool->lock);
}

/* Put what all CPUs have into the depot. pool->lock is held. */
void ucb_cache_drain_locked(struct ucb_pool *pool, unsigned int class)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct ucb_cache *cache = per_cpu_ptr(pool->cache + class, cpu);
		struct llist_node *chain;

		if (llist_empty(&cache->bufs))
			continue;
		chain = llist_del_all(&cache->bufs);
		if (!chain)
			continue;
		cache->taken += ucb_depot_put(pool, chain);
		ucb_cache_set_limit(pool, cache, class);
	}
}

void ucb_cache_drain(struct ucb_pool *pool, unsigned int class)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&pool->lock, flags);
	ucb_cache_drain_locked(pool, class);
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}

/*
 * Give idle blocks of a class back, as long as @keep buffers stay in the pool
 * and up to @pages pages; returns the pages. pool->lock is held.
 */
unsigned long ucb_depot_trim(struct ucb_pool *pool, unsigned int class,
			     unsigned int keep, unsigned long pages)
{
	struct ucb_block *block, *next;
	unsigned long done = 0;

	if (pool->dead)
		return 0;
	list_for_each_entry_safe_reverse(block, next, &pool->depot[class],
					 depot) {
		if (done >= pages || pool->nr_bufs < keep + block->nr)
			break;
		if (block->nr_home < block->nr) {
			/* a debug pool's are in the order of frees */
			if (pool->flags & UCB_POOL_DEBUG)
				continue;
			break;
		}
		done += DIV_ROUND_UP(block->size, PAGE_SIZE);
		ucb_depot_reap(pool, block);
	}
	return done;
}

void ucb_buf_quarantine(struct ucb_buf *buf)
{
	struct ucb_pool *pool = buf->block->pool;
	unsigned long flags;

	atomic_set(&buf->use, UCB_USE_QUARANTINED);
	raw_spin_lock_irqsave(&pool->lock, flags);
	pool->nr_bad++;
	/* that may have been the last that was out */
	if (pool->dropin && pool->gone)
		ucb_dropin_sweep();
	raw_spin_unlock_irqrestore(&pool->lock, flags);
}

/* Buffers of one class in the CPUs' caches. pool->lock is held. */
static unsigned int ucb_cache_nr(struct ucb_pool *pool, unsigned int class)
{
	long nr = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct ucb_cache *cache = per_cpu_ptr(pool->cache + class, cpu);

		nr += READ_ONCE(cache->nr) - cache->taken;
	}
	/* below 0 when a CPU was read in the middle of something */
	return max(nr, 0);
}

/* pool->lock is held. */
unsigned int ucb_cache_total(struct ucb_pool *pool)
{
	unsigned int class, nr = 0;

	for (class = 0; class < pool->nr_classes; class++)
		nr += ucb_cache_nr(pool, class);
	return nr;
}

/* pool->lock is held. */
size_t ucb_depot_bytes(const struct ucb_pool *pool)
{
	unsigned int class;
	size_t bytes = 0;

	for (class = 0; class < pool->nr_classes; class++)
		bytes += pool->idle[class];
	return bytes;
}

/* pool->lock is held. */
size_t ucb_cache_bytes(struct ucb_pool *pool)
{
	unsigned int class;
	size_t bytes = 0;

	if (!pool->dropin)
		return ucb_cache_nr(pool, 0) * pool->size;
	for (class = 0; class < UCB_CLASS_NONE; class++)
		bytes += (size_t)ucb_cache_nr(pool, class) <<
			 (class + UCB_CLASS_MIN_SHIFT);
	return bytes;
}

/*
 * Buffers that the driver has; exact while nothing is allocated or freed.
 * pool->lock is held.
 */
unsigned int ucb_cache_live(struct ucb_pool *pool)
{
	unsigned int home = pool->nr_bad + ucb_cache_total(pool);

	return pool->nr_out - min(pool->nr_out, home);
}

void ucb_wake_waiters(struct irq_work *work)
{
	wake_up_all(&container_of(work, struct ucb_pool, wake)->home_wait);
}
