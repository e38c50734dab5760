/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Remote keys for pool buffers: trust domains, registrations, descriptors.
 */
#ifndef _UCB_RDMA_H
#define _UCB_RDMA_H

#include <linux/types.h>
#include <uapi/ucb/descriptor.h>

struct ib_device;
struct ib_pd;
struct ib_qp_init_attr;
struct rdma_cm_id;
struct ucb_buf;
struct ucb_mr;
struct ucb_mr_remote;
struct ucb_pd;

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
