// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/ucb_rdma/stats and, for each RDMA device,
 * preflight-<device>, read by root only.
 */
#include <linux/debugfs.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/ktime.h>
#include <linux/percpu.h>
#include <linux/seq_file.h>
#include <linux/u64_stats_sync.h>

#include "bridge.h"

static struct dentry *ucb_rdma_root;

static const char * const stat_names[UCB_NR_STATS] = {
	[UCB_STAT_REG] = "registrations",
	[UCB_STAT_INV] = "invalidations",
	[UCB_STAT_REVOKE] = "revocations",
};

/* @last, @max: microseconds; @when: the end of the last, in nanoseconds */
struct ucb_stats {
	u64_stats_t count;
	u64_stats_t last;
	u64_stats_t max;
	u64_stats_t when;
};

/* The same, of all CPUs. */
struct ucb_sum {
	u64 count;
	u64 last;
	u64 max;
	u64 when;
};

/* A CPU's own: keys are given and taken on all of them at once. */
struct ucb_stats_cpu {
	struct u64_stats_sync sync;
	struct ucb_stats stats[UCB_NR_STATS];
};

static DEFINE_PER_CPU(struct ucb_stats_cpu, ucb_stats);

/* Any context. */
void ucb_stat_add(enum ucb_stat what, ktime_t start)
{
	ktime_t now = ktime_get();
	u64 us = ktime_us_delta(now, start);
	struct ucb_stats_cpu *cpu;
	struct ucb_stats *stat;
	unsigned long flags;

	local_irq_save(flags);
	cpu = this_cpu_ptr(&ucb_stats);
	stat = &cpu->stats[what];
	u64_stats_update_begin(&cpu->sync);
	u64_stats_inc(&stat->count);
	u64_stats_set(&stat->last, us);
	u64_stats_set(&stat->max, max(u64_stats_read(&stat->max), us));
	u64_stats_set(&stat->when, ktime_to_ns(now));
	u64_stats_update_end(&cpu->sync);
	local_irq_restore(flags);
}

static struct ucb_sum sum_stats(enum ucb_stat what)
{
	const struct ucb_stats_cpu *cpu;
	const struct ucb_stats *stat;
	struct ucb_sum sum = {};
	struct ucb_sum one;
	unsigned int start;
	int i;

	for_each_possible_cpu(i) {
		cpu = per_cpu_ptr(&ucb_stats, i);
		stat = &cpu->stats[what];
		do {
			start = u64_stats_fetch_begin(&cpu->sync);
			one.count = u64_stats_read(&stat->count);
			one.last = u64_stats_read(&stat->last);
			one.max = u64_stats_read(&stat->max);
			one.when = u64_stats_read(&stat->when);
		} while (u64_stats_fetch_retry(&cpu->sync, start));
		sum.count += one.count;
		sum.max = max(sum.max, one.max);
		if (one.when > sum.when) {
			sum.when = one.when;
			sum.last = one.last;
		}
	}
	return sum;
}

static int stats_show(struct seq_file *m, void *unused)
{
	struct ucb_sum sum;
	unsigned int i;

	for (i = 0; i < UCB_NR_STATS; i++) {
		sum = sum_stats(i);
		seq_printf(m, "%s %llu last %llu us max %llu us\n",
			   stat_names[i], sum.count, sum.last, sum.max);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/*
 * A bounce buffer would never be copied. Where the DMA API may use one, for each
 * mapping, or those that the device cannot address, or that are of parts of pages
 * when the device behind an IOMMU is not trusted, it limits their size.
 */
static bool may_bounce(struct ib_device *ibdev)
{
	struct device *dev = ibdev->dma_device;

	return !ib_uses_virt_dma(ibdev) &&
	       (dma_addressing_limited(dev) ||
		dma_max_mapping_size(dev) < SIZE_MAX);
}

/* NULL when buffers can be registered by way of the port. */
const char *ucb_why_no_registration(struct ib_device *ibdev, u32 port)
{
	if (!rdma_ib_or_roce(ibdev, port) && !rdma_protocol_iwarp(ibdev, port))
		return "neither InfiniBand, RoCE nor iWARP";
	/* ocrdma takes an MR's address for that of its first page */
	if (!(ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS) ||
	    ibdev->ops.driver_id == RDMA_DRIVER_OCRDMA)
		return "no fast registration";
	if (!ib_uses_virt_dma(ibdev) && !dev_is_dma_coherent(ibdev->dma_device))
		return "not cache coherent";
	if (may_bounce(ibdev))
		return "bounce buffers";
	return NULL;
}

static const char *why_not_now(struct ib_device *ibdev, u32 port)
{
	const char *why = ucb_why_no_registration(ibdev, port);
	struct ib_port_attr attr;

	if (why)
		return why;
	if (ib_query_port(ibdev, port, &attr))
		return "the port does not answer";
	return attr.state == IB_PORT_ACTIVE ? NULL :
					      "not yet: the port is not active";
}

/* What a device does that does not isolate, or NULL. */
static const char *why_not_isolating(const struct ib_device *ibdev)
{
	if (ibdev->ops.driver_id == RDMA_DRIVER_SIW)
		return "siw checks no permission to READ, nor waits for READs at its end";
	return NULL;
}

static const char *port_kind(const struct ib_device *ibdev, u32 port)
{
	if (rdma_protocol_iwarp(ibdev, port))
		return "iWARP";
	return rdma_protocol_roce(ibdev, port) ? "RoCE" : "InfiniBand";
}

static int preflight_show(struct seq_file *m, void *unused)
{
	struct ib_device *ibdev = m->private;
	const char *why;
	u32 port;

	seq_printf(m, "pages %u\n", ibdev->attrs.max_fast_reg_page_list_len);
	why = why_not_isolating(ibdev);
	seq_printf(m, "isolates %s%s\n", why ? "no: " : "yes", why ?: "");
	seq_printf(m, "invalidation %s\n", ib_uses_virt_dma(ibdev) ?
		   "is followed by the MR's destruction if a peer can reach it" :
		   "ends a key");
	rdma_for_each_port(ibdev, port) {
		why = why_not_now(ibdev, port);
		seq_printf(m, "port %u %s registration %s%s\n", port,
			   port_kind(ibdev, port), why ? "no: " : "yes",
			   why ?: "");
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(preflight);

struct dentry *ucb_preflight_add(struct ib_device *ibdev)
{
	char name[IB_DEVICE_NAME_MAX + sizeof("preflight-")];

	snprintf(name, sizeof(name), "preflight-%s", dev_name(&ibdev->dev));
	return debugfs_create_file(name, 0400, ucb_rdma_root, ibdev,
				   &preflight_fops);
}

void ucb_stats_init(void)
{
	int i;

	for_each_possible_cpu(i)
		u64_stats_init(&per_cpu_ptr(&ucb_stats, i)->sync);
	ucb_rdma_root = debugfs_create_dir("ucb_rdma", NULL);
	debugfs_create_file("stats", 0400, ucb_rdma_root, NULL, &stats_fops);
}

void ucb_stats_exit(void)
{
	debugfs_remove_recursive(ucb_rdma_root);
}
