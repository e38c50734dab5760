// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/ucb/<id>/{stats,buffers,preflight}, read by root only. No
 * kernel address is shown.
 */

#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

static struct dentry *ucb_debugfs_root;

static const char * const ucb_kind_names[] = {
	[UCB_HCD_DMA] = "DMA",
	[UCB_HCD_PIO] = "PIO",
	[UCB_HCD_LOCALMEM] = "local memory",
};

/**
 * ucb_pool_get_stats() - what a pool has and did
 * @pool: the pool
 * @stats: filled in
 *
 * The counts of buffers are exact while none is handed out or freed, and near
 * that otherwise.
 *
 * Context: Any but NMI.
 */
void ucb_pool_get_stats(struct ucb_pool *pool, struct ucb_pool_stats *stats)
{
	unsigned long flags;
	unsigned int i;

	raw_spin_lock_irqsave(&pool->lock, flags);
	stats->blocks = pool->nr_blocks;
	stats->buffers = pool->nr_bufs;
	stats->live = ucb_cache_live(pool);
	stats->quarantined = pool->nr_bad;
	stats->cached = ucb_cache_total(pool);
	stats->high = pool->high;
	stats->idle_bytes = ucb_depot_bytes(pool);
	stats->depot_locks = pool->depot_locks;
	raw_spin_unlock_irqrestore(&pool->lock, flags);
	stats->core_allocs = atomic_long_read(&pool->core_allocs);
	stats->core_frees = atomic_long_read(&pool->core_frees);
	stats->misses = atomic_long_read(&pool->misses);
	for (i = 0; i < UCB_NR_MISUSES; i++)
		stats->misuse[i] = atomic_long_read(&pool->misuse[i]);
}
EXPORT_SYMBOL_GPL(ucb_pool_get_stats);

static int stats_show(struct seq_file *m, void *unused)
{
	struct ucb_pool *pool = m->private;
	struct ucb_pool_stats stats;
	unsigned int i;

	ucb_pool_get_stats(pool, &stats);
	seq_printf(m, "name %s\nsize %zu\nmin %u\nmax %u\n", pool->name,
		   pool->size, READ_ONCE(pool->min), READ_ONCE(pool->max));
	seq_printf(m, "blocks %u\nbuffers %u\nlive %u\ncached %u\nquarantined %u\nhigh %u\n",
		   stats.blocks, stats.buffers, stats.live, stats.cached,
		   stats.quarantined, stats.high);
	seq_printf(m, "idle_bytes %zu\ndepot_locks %llu\n", stats.idle_bytes,
		   stats.depot_locks);
	seq_printf(m, "core_allocs %lu\ncore_frees %lu\nmisses %lu\n",
		   stats.core_allocs, stats.core_frees, stats.misses);
	for (i = 0; i < UCB_NR_MISUSES; i++)
		seq_printf(m, "refused %lu: %s\n", stats.misuse[i],
			   ucb_misuse_names[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

#define UCB_SHOWN_BUFFERS	256

static int buffers_show(struct seq_file *m, void *unused)
{
	struct {
		size_t size;
		int use;
		unsigned long caller;
	} *rows;
	struct ucb_pool *pool = m->private;
	unsigned int i, nr = 0, more = 0;
	struct ucb_block *block;

	rows = kcalloc(UCB_SHOWN_BUFFERS, sizeof(*rows), GFP_KERNEL);
	if (!rows)
		return -ENOMEM;
	/* not under the lock, with IRQs off: there may be a million */
	rcu_read_lock();
	list_for_each_entry_rcu(block, &pool->blocks, node) {
		for (i = 0; i < block->nr; i++) {
			struct ucb_buf *buf = &block->bufs[i];
			int use = atomic_read(&buf->use);

			if (!use)
				continue;
			if (nr == UCB_SHOWN_BUFFERS) {
				more++;
				continue;
			}
			rows[nr].size = READ_ONCE(buf->requested);
			rows[nr].use = use;
			rows[nr++].caller = READ_ONCE(buf->caller);
		}
	}
	rcu_read_unlock();
	for (i = 0; i < nr; i++) {
		if (rows[i].use < 0)
			seq_printf(m, "%zu bytes quarantined, allocated by %pS\n",
				   rows[i].size, (void *)rows[i].caller);
		else
			seq_printf(m, "%zu bytes, %d at work, allocated by %pS\n",
				   rows[i].size,
				   (rows[i].use & UCB_USE_COUNT) - 1,
				   (void *)rows[i].caller);
	}
	if (more)
		seq_printf(m, "and %u more\n", more);
	kfree(rows);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(buffers);

static int preflight_show(struct seq_file *m, void *unused)
{
	struct ucb_pool *pool = m->private;
	struct device *dev = pool->udev->bus->sysdev;
	const char *why = ucb_why_no_pages(pool);

	seq_printf(m, "controller %s\n", ucb_kind_names[pool->kind]);
	seq_printf(m, "iommu %s\n", device_iommu_mapped(dev) ? "yes" : "no");
	seq_printf(m, "bounce %s\n",
		   pool->kind == UCB_HCD_DMA && dev->dma_mask &&
		   dma_addressing_limited(dev) ? "possible" : "no");
	seq_printf(m, "registration %s%s\n", why ? "no: " : "yes", why ?: "");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(preflight);

/* Once for each pool: from its creator, or from the worker of a drop-in pool. */
void ucb_debugfs_add(struct ucb_pool *pool)
{
	struct dentry *dir;
	char name[16];

	if (pool->dentry || READ_ONCE(pool->dying))
		return;
	snprintf(name, sizeof(name), "%u", pool->id);
	dir = debugfs_create_dir(name, ucb_debugfs_root);
	debugfs_create_file("stats", 0400, dir, pool, &stats_fops);
	debugfs_create_file("buffers", 0400, dir, pool, &buffers_fops);
	debugfs_create_file("preflight", 0400, dir, pool, &preflight_fops);
	pool->dentry = dir;
}

void ucb_debugfs_remove(struct ucb_pool *pool)
{
	debugfs_remove_recursive(pool->dentry);
}

void ucb_debugfs_init(void)
{
	ucb_debugfs_root = debugfs_create_dir("ucb", NULL);
}

void ucb_debugfs_exit(void)
{
	debugfs_remove_recursive(ucb_debugfs_root);
}
