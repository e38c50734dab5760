// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/ucb_rdma/stats and, for each RDMA device,
 * preflight-<device>, read by root only.
 */
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/seq_file.h>

#include "bridge.h"

static struct dentry *ucb_rdma_root;

/* @last and @max: microseconds */
static struct {
	const char *name;
	u64 count;
	u64 last;
	u64 max;
} stats[UCB_NR_STATS] = {
	[UCB_STAT_REG] = { "registrations" },
	[UCB_STAT_INV] = { "invalidations" },
	[UCB_STAT_REVOKE] = { "revocations" },
};

static DEFINE_SPINLOCK(stats_lock);

/* Any context. */
void ucb_stat_add(enum ucb_stat what, ktime_t start)
{
	u64 us = ktime_us_delta(ktime_get(), start);
	unsigned long flags;

	spin_lock_irqsave(&stats_lock, flags);
	stats[what].count++;
	stats[what].last = us;
	stats[what].max = max(stats[what].max, us);
	spin_unlock_irqrestore(&stats_lock, flags);
}

static int stats_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	spin_lock_irq(&stats_lock);
	for (i = 0; i < UCB_NR_STATS; i++)
		seq_printf(m, "%s %llu last %llu us max %llu us\n",
			   stats[i].name, stats[i].count, stats[i].last,
			   stats[i].max);
	spin_unlock_irq(&stats_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

/* NULL when buffers can be registered by way of the port. */
const char *ucb_why_no_registration(struct ib_device *ibdev, u32 port)
{
	if (!rdma_ib_or_roce(ibdev, port) && !rdma_protocol_iwarp(ibdev, port))
		return "neither InfiniBand, RoCE nor iWARP";
	if (!(ibdev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return "no fast registration";
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
	ucb_rdma_root = debugfs_create_dir("ucb_rdma", NULL);
	debugfs_create_file("stats", 0400, ucb_rdma_root, NULL, &stats_fops);
}

void ucb_stats_exit(void)
{
	debugfs_remove_recursive(ucb_rdma_root);
}
