/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finding an RDMA device by the netdev that it stands on.
 */
#ifndef _UCB_KUNIT_RDMA_DEVICE_H
#define _UCB_KUNIT_RDMA_DEVICE_H

#include <linux/netdevice.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

/* NULL if there is none; the caller puts it with ib_device_put(). */
static inline struct ib_device *rdma_device_on(const char *netdev)
{
	struct net_device *ndev = dev_get_by_name(&init_net, netdev);
	struct ib_device *ibdev = NULL;

	if (ndev) {
		ibdev = ib_device_get_by_netdev(ndev, RDMA_DRIVER_UNKNOWN);
		dev_put(ndev);
	}
	return ibdev;
}

#endif /* _UCB_KUNIT_RDMA_DEVICE_H */
