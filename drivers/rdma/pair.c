// SPDX-License-Identifier: GPL-2.0
/*
 * Two queue pairs on one iWARP port, connected to each other.
 *
 * An iWARP queue pair gets to RTS by a connection and in no other way. Where
 * there is nobody to connect to, both ends are made here, over an address of the
 * port. The listener admits one connection, which has to come from that same
 * address and to carry a nonce, and is closed as soon as it is there: a stranger
 * gets no queue pair on the protection domain.
 *
 * iwcm and rdma_cm handle events one after the other in work queues of theirs.
 * A pair cannot be made or closed in a CM callback: that would wait for events
 * which are behind itself.
 */
#include <linux/inetdevice.h>
#include <linux/random.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include "../compat.h"
#include "pair.h"

/* All of it happens in this machine. */
#define UCB_PAIR_TIMEOUT_MS	5000

static bool is_netdev_of(struct net_device *ndev, struct ib_device *ibdev)
{
	struct ib_device *found;

	found = ib_device_get_by_netdev(ndev, ibdev->ops.driver_id);
	if (!found)
		return false;
	ib_device_put(found);
	return found == ibdev;
}

static bool get_ipv4(struct net_device *ndev, struct sockaddr_storage *addr)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)addr;
	struct in_device *in_dev = __in_dev_get_rcu(ndev);
	const struct in_ifaddr *ifa;

	if (!in_dev)
		return false;
	ifa = rcu_dereference(in_dev->ifa_list);
	if (!ifa)
		return false;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = ifa->ifa_local;
	return true;
}

static bool get_ipv6(struct net_device *ndev, struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;
	struct inet6_dev *idev = __in6_dev_get(ndev);
	const struct inet6_ifaddr *ifp;

	if (!idev)
		return false;
	list_for_each_entry_rcu(ifp, &idev->addr_list, if_list) {
		if (ifp->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
			continue;
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = ifp->addr;
		if (ipv6_addr_type(&ifp->addr) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = ndev->ifindex;
		return true;
	}
	return false;
}

/* An address of the device: which, does not matter. */
static int pair_find_addr(struct ib_device *ibdev,
			  struct sockaddr_storage *addr)
{
	struct net_device *ndev;
	int err = -EAGAIN;

	memset(addr, 0, sizeof(*addr));
	rcu_read_lock();
	for_each_netdev_rcu(&init_net, ndev) {
		if (is_netdev_of(ndev, ibdev) &&
		    (get_ipv4(ndev, addr) || get_ipv6(ndev, addr))) {
			err = 0;
			break;
		}
	}
	rcu_read_unlock();
	return err;
}

static bool comes_from_itself(const struct rdma_cm_id *id)
{
	const struct sockaddr_storage *src = &id->route.addr.src_addr;
	const struct sockaddr_storage *dst = &id->route.addr.dst_addr;

	if (src->ss_family != dst->ss_family)
		return false;
	if (src->ss_family == AF_INET)
		return ((struct sockaddr_in *)src)->sin_addr.s_addr ==
		       ((struct sockaddr_in *)dst)->sin_addr.s_addr;
	return ipv6_addr_equal(&((struct sockaddr_in6 *)src)->sin6_addr,
			       &((struct sockaddr_in6 *)dst)->sin6_addr);
}

static int pair_create_qp(struct ucb_pair *pair, struct rdma_cm_id *id, int end)
{
	/* the device may write to it */
	struct ib_qp_init_attr init = *pair->init;

	return rdma_create_qp(id, pair->pds[end], &init);
}

/* A failure rejects the connection and destroys @id: the CM does so. */
static int pair_accept(struct ucb_pair *pair, struct rdma_cm_id *id,
		       const struct rdma_conn_param *req)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	int err;

	if (pair->id[UCB_PAIR_PASSIVE] || id->device != pair->listen->device ||
	    !comes_from_itself(id) ||
	    req->private_data_len < sizeof(pair->nonce) ||
	    crypto_memneq(req->private_data, pair->nonce, sizeof(pair->nonce)))
		return -ECONNREFUSED;

	err = pair_create_qp(pair, id, UCB_PAIR_PASSIVE);
	if (err)
		return err;
	err = rdma_accept(id, &param);
	if (err) {
		rdma_destroy_qp(id);
		return err;
	}
	pair->id[UCB_PAIR_PASSIVE] = id;
	return 0;
}

static int pair_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct ucb_pair *pair = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return pair_accept(pair, id, &event->param.conn);
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
	case RDMA_CM_EVENT_ESTABLISHED:
		complete(&pair->step);
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	default:
		WRITE_ONCE(pair->down, true);
		complete(&pair->step);
		break;
	}
	/* the ids are destroyed by ucb_pair_close() */
	return 0;
}

static struct rdma_cm_id *pair_create_id(struct ucb_pair *pair)
{
	return rdma_create_id(&init_net, pair_event, pair, RDMA_PS_TCP,
			      IB_QPT_RC);
}

static int pair_listen(struct ucb_pair *pair, u32 port)
{
	struct ib_device *ibdev = pair->pds[UCB_PAIR_PASSIVE]->device;
	struct sockaddr_storage addr;
	struct rdma_cm_id *id;
	int err;

	err = pair_find_addr(ibdev, &addr);
	if (err)
		return err;
	id = pair_create_id(pair);
	if (IS_ERR(id))
		return PTR_ERR(id);
	pair->listen = id;
	err = rdma_bind_addr(id, (struct sockaddr *)&addr);
	if (err)
		return err;
	if (id->device != ibdev || id->port_num != port)
		return -EADDRNOTAVAIL;
	return rdma_listen(id, 1);
}

static int pair_wait(struct ucb_pair *pair)
{
	unsigned long timeout = msecs_to_jiffies(UCB_PAIR_TIMEOUT_MS);

	if (!wait_for_completion_timeout(&pair->step, timeout))
		return -ETIMEDOUT;
	return READ_ONCE(pair->down) ? -ECONNABORTED : 0;
}

static int pair_dial(struct ucb_pair *pair)
{
	struct rdma_conn_param param = {
		.private_data = pair->nonce,
		.private_data_len = sizeof(pair->nonce),
		.responder_resources = 1,
		.initiator_depth = 1,
	};
	struct sockaddr_storage *to = &pair->listen->route.addr.src_addr;
	struct sockaddr_storage from = *to;
	struct rdma_cm_id *id;
	int err;

	/* the same field in both families */
	((struct sockaddr_in *)&from)->sin_port = 0;

	id = pair_create_id(pair);
	if (IS_ERR(id))
		return PTR_ERR(id);
	pair->id[UCB_PAIR_ACTIVE] = id;
	err = rdma_resolve_addr(id, (struct sockaddr *)&from,
				(struct sockaddr *)to, UCB_PAIR_TIMEOUT_MS);
	if (!err)
		err = pair_wait(pair);
	if (err)
		return err;
	if (id->device != pair->listen->device)
		return -EADDRNOTAVAIL;
	err = rdma_resolve_route(id, UCB_PAIR_TIMEOUT_MS);
	if (!err)
		err = pair_wait(pair);
	if (!err)
		err = pair_create_qp(pair, id, UCB_PAIR_ACTIVE);
	if (!err)
		err = rdma_connect(id, &param);
	if (!err)
		err = pair_wait(pair);
	return err;
}

/* With this, no event of the listener comes any more. */
static void pair_hang_up(struct ucb_pair *pair)
{
	if (pair->listen)
		rdma_destroy_id(pair->listen);
	pair->listen = NULL;
}

/*
 * Connect two new queue pairs, both like @init, on PDs of one device. Process
 * context, not a CM callback.
 *
 * Return: 0, -ENOMEM, or -EAGAIN when there is no connection now: the port has no
 * address, or it changes, or is going.
 */
int ucb_pair_connect(struct ucb_pair *pair, u32 port, struct ib_pd *active,
		     struct ib_pd *passive, const struct ib_qp_init_attr *init)
{
	int err;

	memset(pair, 0, sizeof(*pair));
	pair->pds[UCB_PAIR_ACTIVE] = active;
	pair->pds[UCB_PAIR_PASSIVE] = passive;
	pair->init = init;
	init_completion(&pair->step);
	get_random_bytes(pair->nonce, sizeof(pair->nonce));

	err = pair_listen(pair, port);
	if (!err)
		err = pair_dial(pair);
	/*
	 * One end was established, now the other. What the active end sends
	 * before the passive one is, siw may overlook.
	 */
	if (!err)
		err = pair_wait(pair);
	pair_hang_up(pair);
	pair->init = NULL;
	if (!err)
		return 0;
	ucb_pair_close(pair);
	return err == -ENOMEM ? err : -EAGAIN;
}

/*
 * Destroy both queue pairs; nothing of them runs any more. Process context, not a
 * CM callback.
 */
void ucb_pair_close(struct ucb_pair *pair)
{
	int i;

	for (i = 0; i < UCB_PAIR_ENDS; i++) {
		if (!pair->id[i])
			continue;
		if (pair->id[i]->qp) {
			rdma_disconnect(pair->id[i]);
			rdma_destroy_qp(pair->id[i]);
		}
		rdma_destroy_id(pair->id[i]);
		pair->id[i] = NULL;
	}
}
