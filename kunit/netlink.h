/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The requests that the programs ip and rdma send.
 */
#ifndef _UCB_KUNIT_NETLINK_H
#define _UCB_KUNIT_NETLINK_H

#include <linux/net.h>
#include <linux/netdevice.h>
#include <net/net_namespace.h>
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>

/* A request with its header of @size bytes behind netlink's own, and room. */
static inline struct sk_buff *nl_request(u32 type, u16 flags, const void *header, size_t size)
{
	struct sk_buff *skb = nlmsg_new(NLMSG_DEFAULT_SIZE, GFP_KERNEL);
	struct nlmsghdr *nlh;

	if (!skb)
		return NULL;
	nlh = nlmsg_put(skb, 0, 0, type, size, NLM_F_REQUEST | NLM_F_ACK | flags);
	memcpy(nlmsg_data(nlh), header, size);
	return skb;
}

/* Return: 0, or the errno that the kernel answers. Frees @skb. */
static inline int nl_send(int protocol, struct sk_buff *skb)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct msghdr msg = { .msg_name = &kernel, .msg_namelen = sizeof(kernel) };
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr err;
	} answer = {};
	struct socket *sock;
	struct kvec vec;
	int err;

	nlmsg_hdr(skb)->nlmsg_len = skb->len;
	err = sock_create_kern(&init_net, AF_NETLINK, SOCK_RAW, protocol, &sock);
	if (err)
		goto out;
	vec.iov_base = skb->data;
	vec.iov_len = skb->len;
	err = kernel_sendmsg(sock, &msg, &vec, 1, skb->len);
	if (err < 0)
		goto out_sock;
	vec.iov_base = &answer;
	vec.iov_len = sizeof(answer);
	err = kernel_recvmsg(sock, &(struct msghdr){ }, &vec, 1, sizeof(answer), 0);
	if (err >= 0)
		err = answer.err.error;
out_sock:
	sock_release(sock);
out:
	kfree_skb(skb);
	return err;
}

/* As "rdma dev set" does. */
static inline int rdma_dev_rename(u32 index, const char *name)
{
	struct sk_buff *skb = nl_request(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SET),
					 0, NULL, 0);

	if (!skb)
		return -ENOMEM;
	nla_put_u32(skb, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	nla_put_string(skb, RDMA_NLDEV_ATTR_DEV_NAME, name);
	return nl_send(NETLINK_RDMA, skb);
}

/*
 * As "rdma link del" does: the driver hears of that, which it does not of an
 * unregistration, and the socket of 7.3's rxe goes with its last device.
 */
static inline int rdma_link_del(u32 index)
{
	struct sk_buff *skb = nl_request(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_DELLINK),
					 0, NULL, 0);

	if (!skb)
		return -ENOMEM;
	nla_put_u32(skb, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	return nl_send(NETLINK_RDMA, skb);
}

#endif /* _UCB_KUNIT_NETLINK_H */
