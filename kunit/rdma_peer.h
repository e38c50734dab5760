/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A remote peer for the tests of the bridge: a queue pair on a PD of its own,
 * connected to another on the trust domain's PD, over one RDMA device: RoCE, or
 * iWARP by way of the connection manager.
 */
#ifndef _UCB_KUNIT_RDMA_PEER_H
#define _UCB_KUNIT_RDMA_PEER_H

#include <kunit/test.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "../drivers/rdma/pair.c"

/*
 * For what must be over in bounded time: less than the 50 s for which rxe waits
 * for a reference that nobody gives up, and enough for a loaded machine.
 */
#define BOUND_MS	30000

#define PEER_TIMEOUT	(60 * HZ)
#define PEER_CQES	512

/*
 * @far: the peer's queue pair, @near: the one on the domain under test
 * @type: of both, IB_QPT_RC; or IB_QPT_UC, on which what is refused is not told
 *	and costs no connection
 * @cap, @sig: of both; what is changed counts from the next peer_connect()
 * @pair: both, on iWARP
 * @mem: @size bytes of the peer's own memory, the source and sink of all
 * @mr: of @mem, on iWARP, where the sink of a READ has its key on the wire
 * @addr, @lkey: @mem as an sge has it
 */
struct peer {
	struct ib_device *ibdev;
	struct ib_pd *pd;
	struct ib_pd *near_pd;
	struct ib_cq *cq;
	struct ib_qp *far;
	struct ib_qp *near;
	enum ib_qp_type type;
	struct ib_qp_cap cap;
	enum ib_sig_type sig;
	struct ucb_pair pair;
	int gid_index;
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
	void *mem;
	size_t size;
	u64 dma;
	struct ib_mr *mr;
	u64 addr;
	u32 lkey;
};

static inline void peer_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct peer *peer = container_of(wc->wr_cqe, struct peer, cqe);

	peer->status = wc->status;
	complete(&peer->done);
}

/*
 * An address of port 1: IPv4 if there is one, for link-local ones settle late.
 * Return: its index, or an errno.
 */
static inline int peer_find_gid(struct ib_device *ibdev)
{
	const struct ib_gid_attr *gid;
	struct ib_port_attr port;
	int found = -EADDRNOTAVAIL;
	bool v4 = false;
	int err;
	int i;

	err = ib_query_port(ibdev, 1, &port);
	if (err)
		return err;
	for (i = 0; i < port.gid_tbl_len && !v4; i++) {
		gid = rdma_get_gid_attr(ibdev, 1, i);
		if (IS_ERR(gid))
			continue;
		v4 = ipv6_addr_v4mapped((struct in6_addr *)gid->gid.raw);
		if (v4 || found < 0)
			found = i;
		rdma_put_gid_attr(gid);
	}
	return found;
}

/* Bring a queue pair from RESET to RTS, connected to @dest on its own port. */
static inline int peer_qp_to_rts(struct ib_qp *qp, u32 dest, int gid_index)
{
	const struct ib_gid_attr *gid;
	struct ib_qp_attr attr = {};
	bool rc = qp->qp_type == IB_QPT_RC;
	struct ib_port_attr port;
	union ib_gid dgid;
	int err;

	err = ib_query_port(qp->device, 1, &port);
	if (err)
		return err;
	gid = rdma_get_gid_attr(qp->device, 1, gid_index);
	if (IS_ERR(gid))
		return PTR_ERR(gid);
	dgid = gid->gid;
	attr.ah_attr.type = rdma_ah_find_type(qp->device, 1);
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, &dgid, 0, gid_index, 64, 0);
	err = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	rdma_put_gid_attr(gid);
	if (err)
		return err;

	attr.qp_state = IB_QPS_INIT;
	attr.port_num = 1;
	attr.qp_access_flags = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE |
			       IB_ACCESS_REMOTE_ATOMIC;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = port.active_mtu;
	attr.dest_qp_num = dest;
	attr.rq_psn = dest & 0xffffff;
	attr.max_dest_rd_atomic = 4;
	attr.min_rnr_timer = 12;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			   IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   (rc ? IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER : 0));
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 19; /* 2 s: an emulated debug kernel is slow */
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.sq_psn = qp->qp_num & 0xffffff;
	attr.max_rd_atomic = 4;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
			    (rc ? IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				  IB_QP_MAX_QP_RD_ATOMIC : 0));
}

static inline bool peer_is_iwarp(struct peer *peer)
{
	return rdma_protocol_iwarp(peer->ibdev, 1);
}

static inline void peer_disconnect(struct peer *peer)
{
	if (peer_is_iwarp(peer)) {
		ucb_pair_close(&peer->pair);
	} else {
		if (peer->far)
			ib_destroy_qp(peer->far);
		if (peer->near)
			ib_destroy_qp(peer->near);
	}
	peer->far = NULL;
	peer->near = NULL;
}

/* Connect, anew if it was: after an error both ends are dead. */
static inline int peer_connect(struct peer *peer)
{
	struct ib_qp_init_attr init = {
		.cap = peer->cap,
		.sq_sig_type = peer->sig,
		.qp_type = peer->type,
		.port_num = 1,
		.send_cq = peer->cq,
		.recv_cq = peer->cq,
	};
	struct ib_qp *qp;
	int err;

	peer_disconnect(peer);
	if (peer_is_iwarp(peer)) {
		err = ucb_pair_connect(&peer->pair, 1, peer->pd, peer->near_pd, &init);
		if (err)
			return err;
		peer->far = peer->pair.id[UCB_PAIR_ACTIVE]->qp;
		peer->near = peer->pair.id[UCB_PAIR_PASSIVE]->qp;
		return 0;
	}

	qp = ib_create_qp(peer->pd, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	peer->far = qp;
	qp = ib_create_qp(peer->near_pd, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	peer->near = qp;

	err = peer_qp_to_rts(peer->near, peer->far->qp_num, peer->gid_index);
	if (err)
		return err;
	return peer_qp_to_rts(peer->far, peer->near->qp_num, peer->gid_index);
}

/* Return: what the work request completed with, -1 if it did not. */
static inline int peer_wait(struct peer *peer)
{
	if (!wait_for_completion_timeout(&peer->done, PEER_TIMEOUT))
		return -1;
	return peer->status;
}

static inline void peer_destroy(void *data)
{
	struct peer *peer = data;

	peer_disconnect(peer);
	if (!IS_ERR_OR_NULL(peer->mr))
		ib_dereg_mr(peer->mr);
	if (peer->dma)
		ib_dma_unmap_single(peer->ibdev, peer->dma, peer->size,
				    DMA_BIDIRECTIONAL);
	kvfree(peer->mem);
	if (peer->cq)
		ib_free_cq(peer->cq);
	if (peer->pd)
		ib_dealloc_pd(peer->pd);
	kfree(peer);
}

/* Give @mem a key of its own. */
static inline void peer_reg_mem(struct kunit *test, struct peer *peer)
{
	struct ib_reg_wr wr = {
		.wr.wr_cqe = &peer->cqe,
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	struct scatterlist sg;

	peer->mr = ib_alloc_mr(peer->pd, IB_MR_TYPE_MEM_REG, PFN_UP(peer->size) + 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(peer->mr));
	sg_init_one(&sg, peer->mem, peer->size);
	sg_dma_address(&sg) = peer->dma;
	sg_dma_len(&sg) = peer->size;
	KUNIT_ASSERT_EQ(test, ib_map_mr_sg(peer->mr, &sg, 1, NULL, PAGE_SIZE), 1);
	wr.mr = peer->mr;
	wr.key = peer->mr->rkey;
	reinit_completion(&peer->done);
	KUNIT_ASSERT_EQ(test, ib_post_send(peer->far, &wr.wr, NULL), 0);
	KUNIT_ASSERT_EQ(test, peer_wait(peer), IB_WC_SUCCESS);
	peer->addr = peer->mr->iova;
	peer->lkey = peer->mr->lkey;
}

static inline struct peer *peer_create(struct kunit *test,
				       struct ib_device *ibdev,
				       struct ib_pd *near_pd, size_t size)
{
	struct peer *peer;

	peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, peer);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, peer_destroy, peer), 0);
	peer->ibdev = ibdev;
	peer->near_pd = near_pd;
	peer->type = IB_QPT_RC;
	peer->size = size;
	peer->cap.max_send_wr = 8;
	peer->cap.max_recv_wr = 1;
	peer->cap.max_send_sge = 1;
	peer->cap.max_recv_sge = 1;
	peer->sig = IB_SIGNAL_ALL_WR;
	if (!peer_is_iwarp(peer)) {
		peer->gid_index = peer_find_gid(ibdev);
		KUNIT_ASSERT_GE(test, peer->gid_index, 0);
	}
	peer->cqe.done = peer_done;
	init_completion(&peer->done);

	peer->mem = kzalloc(size, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, peer->mem);
	peer->dma = ib_dma_map_single(ibdev, peer->mem, size, DMA_BIDIRECTIONAL);
	peer->pd = ib_alloc_pd(ibdev, 0);
	if (IS_ERR(peer->pd))
		peer->pd = NULL;
	KUNIT_ASSERT_NOT_NULL(test, peer->pd);
	peer->cq = ib_alloc_cq(ibdev, NULL, PEER_CQES, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(peer->cq))
		peer->cq = NULL;
	KUNIT_ASSERT_NOT_NULL(test, peer->cq);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	peer->addr = peer->dma;
	peer->lkey = peer->pd->local_dma_lkey;
	if (peer_is_iwarp(peer))
		peer_reg_mem(test, peer);
	return peer;
}

/* Post one more; it completes in its turn. */
static inline int peer_post_more(struct peer *peer, enum ib_wr_opcode opcode,
				 u64 addr, u32 rkey, size_t length)
{
	struct ib_sge sge = {
		.addr = peer->addr,
		.length = length,
		.lkey = peer->lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &peer->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = addr,
		.rkey = rkey,
	};

	return ib_post_send(peer->far, &wr.wr, NULL);
}

static inline int peer_post(struct peer *peer, enum ib_wr_opcode opcode,
			    u64 addr, u32 rkey, size_t length)
{
	reinit_completion(&peer->done);
	return peer_post_more(peer, opcode, addr, rkey, length);
}

static inline int peer_op(struct peer *peer, enum ib_wr_opcode opcode, u64 addr,
			  u32 rkey, size_t length)
{
	if (length > peer->size || peer_post(peer, opcode, addr, rkey, length))
		return -1;
	return peer_wait(peer);
}

static inline int peer_read(struct peer *peer, u64 addr, u32 rkey, size_t length)
{
	return peer_op(peer, IB_WR_RDMA_READ, addr, rkey, length);
}

static inline int peer_write(struct peer *peer, u64 addr, u32 rkey, size_t length)
{
	return peer_op(peer, IB_WR_RDMA_WRITE, addr, rkey, length);
}

#endif /* _UCB_KUNIT_RDMA_PEER_H */
