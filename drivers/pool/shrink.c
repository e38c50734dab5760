// SPDX-License-Identifier: GPL-2.0
/*
 * Memory pressure: idle blocks above a pool's min go back, through its worker.
 * A lock that is taken is left alone: reclaim may run in the middle of anything.
 * So are debug pools, whose bytes at home are under watch.
 */

#include "../compat.h"
#include "internal.h"

static struct shrinker *ucb_shrinker;

/* pool->lock is held. */
static bool ucb_pool_shrinks(const struct ucb_pool *pool)
{
	return !pool->dead && !pool->waiters &&
	       !(pool->flags & UCB_POOL_DEBUG) && pool->nr_bufs > pool->min;
}

/* What is at home, in the depot or in a CPU's cache. IRQs are off. */
static unsigned long ucb_pool_idle_pages(struct ucb_pool *pool)
{
	size_t bytes = 0;

	if (!raw_spin_trylock(&pool->lock))
		return 0;
	if (ucb_pool_shrinks(pool))
		bytes = ucb_depot_bytes(pool) + ucb_cache_bytes(pool);
	raw_spin_unlock(&pool->lock);
	return bytes >> PAGE_SHIFT;
}

static unsigned long ucb_pools_idle_pages(void)
{
	unsigned long pages = 0;
	struct ucb_pool *pool;

	if (!raw_spin_trylock(&ucb_pools_lock))
		return 0;
	list_for_each_entry(pool, &ucb_pools, node)
		pages += ucb_pool_idle_pages(pool);
	raw_spin_unlock(&ucb_pools_lock);
	return pages;
}

static unsigned long ucb_shrink_count(struct shrinker *shrinker,
				      struct shrink_control *sc)
{
	unsigned long pages, flags;

	local_irq_save(flags);
	pages = ucb_pools_idle_pages();
	local_irq_restore(flags);
	return pages ?: SHRINK_EMPTY;
}

/* A pool to trim next, with a reference: each once, as @after tells. */
static struct ucb_pool *ucb_shrink_next(unsigned int after)
{
	struct ucb_pool *pool, *found = NULL;
	unsigned long flags;

	if (!raw_spin_trylock_irqsave(&ucb_pools_lock, flags))
		return NULL;
	/* they are listed in the order of their ids */
	list_for_each_entry(pool, &ucb_pools, node) {
		if (pool->id > after && kref_get_unless_zero(&pool->ref)) {
			found = pool;
			break;
		}
	}
	raw_spin_unlock_irqrestore(&ucb_pools_lock, flags);
	return found;
}

/* The lock is held for no longer than a class takes. */
static unsigned long ucb_pool_shrink(struct ucb_pool *pool, unsigned long pages)
{
	unsigned long done = 0, flags;
	unsigned int class;

	for (class = 0; class < pool->nr_classes && done < pages; class++) {
		if (!raw_spin_trylock_irqsave(&pool->lock, flags))
			break;
		if (ucb_pool_shrinks(pool)) {
			ucb_cache_drain_locked(pool, class);
			done += ucb_depot_trim(pool, class, pool->min,
					       pages - done);
		}
		raw_spin_unlock_irqrestore(&pool->lock, flags);
	}
	return done;
}

static unsigned long ucb_shrink_scan(struct shrinker *shrinker,
				     struct shrink_control *sc)
{
	unsigned long done = 0;
	struct ucb_pool *pool;
	unsigned int id = 0;

	while (done < sc->nr_to_scan && (pool = ucb_shrink_next(id))) {
		id = pool->id;
		done += ucb_pool_shrink(pool, sc->nr_to_scan - done);
		ucb_pool_put(pool);
	}
	return done ?: SHRINK_STOP;
}

int __init ucb_shrink_init(void)
{
	ucb_shrinker = shrinker_alloc(0, "ucb");
	if (!ucb_shrinker)
		return -ENOMEM;
	ucb_shrinker->count_objects = ucb_shrink_count;
	ucb_shrinker->scan_objects = ucb_shrink_scan;
	shrinker_register(ucb_shrinker);
	return 0;
}

void ucb_shrink_exit(void)
{
	shrinker_free(ucb_shrinker);
}
