/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fast path: a CPU's cache of buffers. How it works stands in cache.c.
 */
#ifndef _UCB_POOL_CACHE_H
#define _UCB_POOL_CACHE_H

#include "internal.h"

/*
 * On the cache's CPU, IRQs off. Others only take the whole list away, and only
 * this CPU adds, so a first entry that is still there has not been away in the
 * meantime. One that was taken away may be read, its record is freed by RCU.
 */
static __always_inline struct ucb_buf *ucb_cache_pop(struct ucb_cache *cache)
{
	/* pairs with the cmpxchg of ucb_cache_push() and ucb_cache_overflow() */
	struct llist_node *first = smp_load_acquire(&cache->bufs.first);

	do {
		if (!first)
			return NULL;
	} while (!try_cmpxchg(&cache->bufs.first, &first,
			      READ_ONCE(first->next)));
	cache->nr--;
	/* node comes first in it, so that this is no instruction */
	return llist_entry(first, struct ucb_buf, node);
}

/* On the cache's CPU, IRQs off. A full barrier. */
static __always_inline void ucb_cache_push(struct ucb_cache *cache,
					   struct ucb_buf *buf)
{
	struct llist_node *first = READ_ONCE(cache->bufs.first);

	do {
		WRITE_ONCE(buf->node.next, first);
	} while (!try_cmpxchg(&cache->bufs.first, &first, &buf->node));
}

/* The buffer is on no list: it is the caller's until use says so. */
static __always_inline void ucb_buf_hand_out(struct ucb_buf *buf, int use,
					     unsigned long caller)
{
	WRITE_ONCE(buf->caller, caller);
	atomic_set_release(&buf->use, use);
}

/*
 * IRQs off. The caller has made the buffer its own: use is UCB_USE_HOME and it
 * is on no list yet. True when the cache is over its limit: then call
 * ucb_cache_overflow(), still with IRQs off.
 */
static __always_inline bool ucb_cache_put(struct ucb_buf *buf)
{
	struct ucb_cache *cache = this_cpu_ptr(buf->block->cache);

	ucb_cache_push(cache, buf);
	/* pairs with ucb_pool_add_waiters(): it is seen, or sees the buffer */
	return unlikely(++cache->nr > READ_ONCE(cache->limit));
}

#endif /* _UCB_POOL_CACHE_H */
