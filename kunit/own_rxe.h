/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A software RDMA device of the case's own, on a netdev of its own, to be
 * removed; made by the requests that the programs ip and rdma send.
 */
#ifndef _UCB_KUNIT_OWN_RXE_H
#define _UCB_KUNIT_OWN_RXE_H

#include <linux/if_addr.h>
#include <linux/inet.h>
#include <linux/ktime.h>
#include <linux/rtnetlink.h>

#include "bridge.h"
#include "netlink.h"

/* the device that goes */
#define OWN_NETDEV	"ucb_d"
#define OWN_ADDR	"10.99.7.1"

#define OWN_NEW		(NLM_F_CREATE | NLM_F_EXCL)

static inline int own_netdev_add(void)
{
	const struct ifinfomsg header = { .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
	struct sk_buff *skb = nl_request(RTM_NEWLINK, OWN_NEW, &header, sizeof(header));
	struct nlattr *info;

	if (!skb)
		return -ENOMEM;
	nla_put_string(skb, IFLA_IFNAME, OWN_NETDEV);
	info = nla_nest_start(skb, IFLA_LINKINFO);
	nla_put_string(skb, IFLA_INFO_KIND, "dummy");
	nla_nest_end(skb, info);
	return nl_send(NETLINK_ROUTE, skb);
}

static inline int own_netdev_del(void)
{
	const struct ifinfomsg header = { };
	struct sk_buff *skb = nl_request(RTM_DELLINK, 0, &header, sizeof(header));

	if (!skb)
		return -ENOMEM;
	nla_put_string(skb, IFLA_IFNAME, OWN_NETDEV);
	return nl_send(NETLINK_ROUTE, skb);
}

static inline int own_addr_add(void)
{
	struct net_device *ndev = dev_get_by_name(&init_net, OWN_NETDEV);
	struct ifaddrmsg header = { .ifa_family = AF_INET, .ifa_prefixlen = 24 };
	struct sk_buff *skb;

	if (!ndev)
		return -ENODEV;
	header.ifa_index = ndev->ifindex;
	dev_put(ndev);
	skb = nl_request(RTM_NEWADDR, OWN_NEW, &header, sizeof(header));
	if (!skb)
		return -ENOMEM;
	nla_put_be32(skb, IFA_LOCAL, in_aton(OWN_ADDR));
	return nl_send(NETLINK_ROUTE, skb);
}

/*
 * By another name each time: when its netdev goes first, a device is unregistered
 * in a work item, and its name is free some time after that.
 */
static inline int own_rdma_add(const char *type)
{
	static unsigned int nr;
	char name[16];
	struct sk_buff *skb = nl_request(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK),
					  0, NULL, 0);

	if (!skb)
		return -ENOMEM;
	scnprintf(name, sizeof(name), "ucb_own%u", ++nr);
	nla_put_string(skb, RDMA_NLDEV_ATTR_DEV_NAME, name);
	nla_put_string(skb, RDMA_NLDEV_ATTR_LINK_TYPE, type);
	nla_put_string(skb, RDMA_NLDEV_ATTR_NDEV_NAME, OWN_NETDEV);
	return nl_send(NETLINK_RDMA, skb);
}

static inline int own_rxe_del(void)
{
	struct ib_device *ibdev = rdma_device_on(OWN_NETDEV);
	u32 index;

	if (!ibdev)
		return -ENODEV;
	index = ibdev->index;
	ib_device_put(ibdev);
	return rdma_link_del(index);
}

/* What is gone already is no failure here: the case itself has removed it. */
static inline void remove_own(void *unused)
{
	own_rxe_del();
	own_netdev_del();
}

/* A device of @type, rxe or siw, to be removed: known, but not held. */
static inline struct ib_device *make_own_of(struct kunit *test, const char *type)
{
	struct ib_device *ibdev;

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, remove_own, NULL), 0);
	KUNIT_ASSERT_EQ(test, own_netdev_add(), 0);
	KUNIT_ASSERT_EQ(test, own_addr_add(), 0);
	KUNIT_ASSERT_EQ(test, own_rdma_add(type), 0);
	ibdev = rdma_device_on(OWN_NETDEV);
	KUNIT_ASSERT_NOT_NULL(test, ibdev);
	ib_device_put(ibdev);
	return ibdev;
}

static inline struct ib_device *make_own(struct kunit *test)
{
	return make_own_of(test, "rxe");
}

#endif /* _UCB_KUNIT_OWN_RXE_H */
