/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Remote keys for pool buffers: trust domains, registrations, descriptors.
 */
#ifndef _UCB_RDMA_H
#define _UCB_RDMA_H

#include <linux/bits.h>
#include <linux/types.h>
#include <uapi/ucb/descriptor.h>

struct ib_cqe;
struct ib_device;
struct ib_pd;
struct ib_qp;
struct ib_qp_init_attr;
struct ib_send_wr;
struct rdma_cm_id;
struct ucb_buf;
struct ucb_mr;
struct ucb_mr_remote;
struct ucb_pd;
struct ucb_pool;
struct ucb_pool_mr;
struct ucb_qp;

/* trust domains: one PD, one peer */
struct ucb_pd *ucb_pd_get(struct ib_device *ibdev, u32 port);
void ucb_pd_put(struct ucb_pd *pd);
struct ucb_pd *ucb_pd_attach(struct ib_pd *ibpd, u32 port);
int ucb_pd_detach(struct ucb_pd *pd);
struct ib_pd *ucb_pd_ib(struct ucb_pd *pd);
int ucb_create_qp(struct rdma_cm_id *id, struct ucb_pd *pd,
		  struct ib_qp_init_attr *attr);

/* registrations */
struct ucb_mr *ucb_mr_reg(struct ucb_pd *pd, struct ucb_buf *buf, int access);
struct ucb_mr *ucb_mr_reg_range(struct ucb_pd *pd, struct ucb_buf *buf,
				size_t offset, size_t length, int access);
int ucb_mr_dereg(struct ucb_mr **mr);
void *ucb_mr_get_ptr(const struct ucb_mr *mr);
size_t ucb_mr_get_size(const struct ucb_mr *mr);
u32 ucb_mr_get_rkey(const struct ucb_mr *mr);
int ucb_mr_advise(const struct ucb_mr *mr, size_t offset, size_t length,
		  int advice, u32 flags);

/* persistent keys: a whole pool, once, and no work for each transfer */
struct ucb_pool_mr *ucb_pool_mr_reg(struct ucb_pd *pd, struct ucb_pool *pool,
				    int access);
int ucb_pool_mr_dereg(struct ucb_pool_mr **pmr);
struct ucb_mr *ucb_pool_mr_find(const struct ucb_pool_mr *pmr,
				const struct ucb_buf *buf, size_t *offset);
int ucb_pool_mr_get_descriptor(const struct ucb_pool_mr *pmr,
			       const struct ucb_buf *buf, void *desc);
unsigned int ucb_pool_mr_get_count(const struct ucb_pool_mr *pmr);

/**
 * struct ucb_qp_attr - what a connection's queue pair is to do for the bridge
 * @keys: keys that may be out or on their way back at a time; 0 for none, if
 *	the connection's mappings are only ever a local source or sink
 * @length: most bytes under one key
 * @recalled: a key of ucb_mr_recall() has died, and its mapping can have
 *	another; with -ENOTCONN the connection was lost on the way, and
 *	ucb_mr_dereg() tells when the buffer is free. May be NULL.
 *	Called in any context but hardirq, with none of the bridge's locks held,
 *	also from inside ucb_qp_drain(), ucb_qp_detach(), ucb_mr_dereg() and
 *	ucb_pool_destroy(); must not sleep.
 */
struct ucb_qp_attr {
	unsigned int keys;
	size_t length;
	void (*recalled)(struct ucb_mr *mr, void *priv, int error);
};

/* per-transfer keys, by work requests on the connection's own queue pair */
struct ucb_qp *ucb_qp_attach(struct ucb_pd *pd, struct ib_qp *qp,
			     const struct ucb_qp_attr *attr);
int ucb_qp_detach(struct ucb_qp *uqp);
int ucb_qp_drain(struct ucb_qp *uqp);
struct ucb_mr *ucb_mr_map(struct ucb_qp *uqp, struct ucb_buf *buf, int access,
			  void *priv);
int ucb_mr_grant(struct ucb_mr *mr, size_t offset, size_t length, int access);
int ucb_mr_grant_post(struct ucb_mr *mr, struct ib_send_wr *wr,
		      const struct ib_send_wr **bad);
int ucb_mr_recall(struct ucb_mr *mr, bool now);

/*
 * work requests, in the shape of rdma_post_send(3) and rpma_send(3) and their
 * like; @flags are IB_SEND_*
 */
int ucb_post_send(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, size_t length, int flags);
int ucb_post_send_imm(struct ib_qp *qp, struct ib_cqe *cqe,
		      const struct ucb_mr *mr, size_t offset, size_t length,
		      int flags, __be32 imm);
int ucb_post_recv(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, size_t length);
int ucb_post_read(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, const struct ucb_mr_remote *remote,
		  u64 remote_offset, size_t length, int flags);
int ucb_post_write(struct ib_qp *qp, struct ib_cqe *cqe,
		   const struct ucb_mr *mr, size_t offset,
		   const struct ucb_mr_remote *remote, u64 remote_offset,
		   size_t length, int flags);
int ucb_post_write_imm(struct ib_qp *qp, struct ib_cqe *cqe,
		       const struct ucb_mr *mr, size_t offset,
		       const struct ucb_mr_remote *remote, u64 remote_offset,
		       size_t length, int flags, __be32 imm);
int ucb_post_atomic_write(struct ib_qp *qp, struct ib_cqe *cqe,
			  const struct ucb_mr *mr, size_t offset,
			  const struct ucb_mr_remote *remote, u64 remote_offset,
			  int flags);
int ucb_post_flush(struct ib_qp *qp, struct ib_cqe *cqe,
		   const struct ucb_mr *mr, size_t offset,
		   const struct ucb_mr_remote *remote, u64 remote_offset,
		   size_t length, int type, int flags);

/* in the shape of rdma_reg_msgs(3), rdma_reg_read(3), rdma_reg_write(3) */
struct ucb_mr *ucb_reg_msgs(struct rdma_cm_id *id, struct ucb_buf *buf);
struct ucb_mr *ucb_reg_read(struct rdma_cm_id *id, struct ucb_buf *buf);
struct ucb_mr *ucb_reg_write(struct rdma_cm_id *id, struct ucb_buf *buf);
int ucb_dereg_mr(struct ucb_mr *mr);

/* descriptors, in the shape of librpma's */
int ucb_mr_get_descriptor(const struct ucb_mr *mr, void *desc);
size_t ucb_mr_get_descriptor_size(const struct ucb_mr *mr);
int ucb_mr_remote_to_descriptor(const struct ucb_mr_remote *remote, void *desc);
int ucb_mr_remote_from_descriptor(const void *desc, size_t desc_size,
				  struct ucb_mr_remote *remote);
u64 ucb_mr_remote_get_size(const struct ucb_mr_remote *remote);
int ucb_mr_remote_get_flush_type(const struct ucb_mr_remote *remote);
int ucb_mr_remote_delete(struct ucb_mr_remote *remote);

/**
 * define UCB_FLUSH_VISIBILITY - what was written is seen by who reads it there
 */
#define UCB_FLUSH_VISIBILITY	BIT(0)

/**
 * define UCB_FLUSH_PERSISTENT - what was written outlives a loss of power there
 */
#define UCB_FLUSH_PERSISTENT	BIT(1)

/**
 * struct ucb_mr_remote - a peer's registration, decoded from its descriptor
 * @addr: iova of the first byte
 * @size: bytes
 * @rkey: remote key
 * @usage: UCB_MR_USAGE_* bits, never 0
 */
struct ucb_mr_remote {
	u64 addr;
	u64 size;
	u32 rkey;
	u8 usage;
};

#endif /* _UCB_RDMA_H */
