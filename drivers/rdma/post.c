// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests on registered memory, in the shape of rdma_post_send(3) and
 * rpma_send(3) and their like. They are ib_post_send() with what can be known
 * beforehand checked: the device would refuse the rest, and the connection
 * would be lost with it.
 */
#include <linux/export.h>
#include <linux/limits.h>

#include "bridge.h"

/* One page each, as a buffer behind an IOMMU may have them: 64 KiB. */
#define UCB_POST_SGES	16

/* The addresses here are the device's: an inline message is copied by the CPU. */
#define UCB_POST_FLAGS	(IB_SEND_SIGNALED | IB_SEND_SOLICITED | IB_SEND_FENCE)

static bool within(u64 offset, u64 length, u64 size)
{
	return offset <= size && length <= size - offset;
}

/* Is the registration good for this, and the queue pair for it? */
static int check_local(struct ib_qp *qp, const struct ucb_mr *mr, size_t offset,
		       size_t length, int access)
{
	if (!qp || !mr)
		return -EINVAL;
	if (atomic_read(&mr->state) != UCB_MR_LIVE)
		return -ENODEV;
	if (qp->pd != mr->pd->ibpd || (mr->uqp && mr->uqp->qp != qp))
		return -EINVAL;
	if (!within(offset, length, mr->mapped))
		return -ERANGE;
	if (length > U32_MAX)
		return -EMSGSIZE;
	return mr->map_access & access || !access ? 0 : -EACCES;
}

static int check_remote(const struct ucb_mr_remote *remote, u64 offset,
			size_t length, u8 usage)
{
	if (!remote || !remote->usage)
		return -EINVAL;
	if (!within(offset, length, remote->size) ||
	    remote->addr + offset < offset)
		return -ERANGE;
	return remote->usage & usage ? 0 : -EACCES;
}

/* Return: how many entries of @sge the bytes take, or -EMSGSIZE. */
static int fill_sges(struct ib_sge *sge, const struct ucb_mr *mr, size_t offset,
		     size_t length)
{
	struct scatterlist *sg;
	int nr = 0;
	u32 take;
	int i;

	if (!length)
		return 0;
	if (mr->fr) {
		sge->addr = mr->iova + offset;
		sge->length = length;
		sge->lkey = mr->fr->ibmr->lkey;
		return 1;
	}
	for_each_sgtable_dma_sg(&mr->sgt, sg, i) {
		if (offset >= sg_dma_len(sg)) {
			offset -= sg_dma_len(sg);
			continue;
		}
		if (nr == UCB_POST_SGES)
			return -EMSGSIZE;
		take = min_t(size_t, length, sg_dma_len(sg) - offset);
		sge[nr].addr = sg_dma_address(sg) + offset;
		sge[nr].length = take;
		sge[nr].lkey = mr->pd->ibpd->local_dma_lkey;
		nr++;
		length -= take;
		offset = 0;
		if (!length)
			break;
	}
	return nr;
}

static int post(struct ib_qp *qp, struct ib_send_wr *wr, struct ib_cqe *cqe,
		const struct ucb_mr *mr, size_t offset, size_t length, int flags)
{
	struct ib_sge sge[UCB_POST_SGES];
	int nr;

	if (flags & ~UCB_POST_FLAGS)
		return -EINVAL;
	nr = fill_sges(sge, mr, offset, length);
	if (nr < 0)
		return nr;
	wr->wr_cqe = cqe;
	wr->sg_list = sge;
	wr->num_sge = nr;
	wr->send_flags = flags;
	return ib_post_send(qp, wr, NULL);
}

static int post_send(struct ib_qp *qp, struct ib_cqe *cqe,
		     const struct ucb_mr *mr, size_t offset, size_t length,
		     int flags, enum ib_wr_opcode opcode, __be32 imm)
{
	struct ib_send_wr wr = { .opcode = opcode, .ex.imm_data = imm };
	int err;

	rcu_read_lock();
	err = check_local(qp, mr, offset, length, 0);
	if (!err)
		err = post(qp, &wr, cqe, mr, offset, length, flags);
	rcu_read_unlock();
	return err;
}

static int post_rdma(struct ib_qp *qp, struct ib_cqe *cqe,
		     const struct ucb_mr *mr, size_t offset,
		     const struct ucb_mr_remote *remote, u64 remote_offset,
		     size_t length, int flags, enum ib_wr_opcode opcode,
		     u8 usage, __be32 imm)
{
	bool read = opcode == IB_WR_RDMA_READ;
	struct ib_rdma_wr wr = { .wr.opcode = opcode, .wr.ex.imm_data = imm };
	int err;

	rcu_read_lock();
	err = check_local(qp, mr, offset, length,
			  read ? IB_ACCESS_LOCAL_WRITE : 0);
	if (!err)
		err = check_remote(remote, remote_offset, length, usage);
	/* there the peer writes the sink, by the key that the READ tells it */
	if (!err && read && ucb_pd_is_iwarp(mr->pd) &&
	    (!mr->fr || !(mr->access & IB_ACCESS_REMOTE_WRITE)))
		err = -EACCES;
	if (!err) {
		wr.remote_addr = remote->addr + remote_offset;
		wr.rkey = remote->rkey;
		err = post(qp, &wr.wr, cqe, mr, offset, length, flags);
	}
	rcu_read_unlock();
	return err;
}

/**
 * ucb_post_send() - send a message
 * @qp: a connected queue pair on the registration's domain
 * @cqe: whose done() is called when the work request has completed; may be NULL
 *	where nothing can complete, which is nowhere but on success without
 *	IB_SEND_SIGNALED
 * @mr: the registration or mapping
 * @offset: bytes from its start
 * @length: bytes; 0 sends an empty message
 * @flags: IB_SEND_SIGNALED, IB_SEND_SOLICITED and IB_SEND_FENCE, or'ed
 *
 * Mirrors rdma_post_send(3) and rpma_send(3).
 *
 * Context: Any but hardirq, as ib_post_send(). The registration stays until the
 * work request has completed: that is the caller's to see to.
 * Return: 0; -EINVAL for a NULL argument, another flag or a queue pair that cannot
 * use the registration, or that has no room for the pieces of a mapping, of which
 * there can be 16; -ERANGE when the bytes are not all inside it; -ENODEV when it
 * was revoked; -EMSGSIZE when the bytes of a mapping are in more than 16 pieces
 * or too many for one message; or what the device gave, as -ENOMEM when the
 * queue is full.
 */
int ucb_post_send(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, size_t length, int flags)
{
	return post_send(qp, cqe, mr, offset, length, flags, IB_WR_SEND, 0);
}
EXPORT_SYMBOL_GPL(ucb_post_send);

/**
 * ucb_post_send_imm() - send a message with 4 bytes of immediate data
 * @qp: as for ucb_post_send()
 * @cqe: as for ucb_post_send()
 * @mr: as for ucb_post_send()
 * @offset: as for ucb_post_send()
 * @length: as for ucb_post_send()
 * @flags: as for ucb_post_send()
 * @imm: what the peer finds in its completion
 *
 * Mirrors rpma_send_with_imm(3). iWARP has no immediate data.
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_send(); on iWARP what the device gives, an error.
 */
int ucb_post_send_imm(struct ib_qp *qp, struct ib_cqe *cqe,
		      const struct ucb_mr *mr, size_t offset, size_t length,
		      int flags, __be32 imm)
{
	return post_send(qp, cqe, mr, offset, length, flags,
			 IB_WR_SEND_WITH_IMM, imm);
}
EXPORT_SYMBOL_GPL(ucb_post_send_imm);

/**
 * ucb_post_recv() - have room for a message
 * @qp: a queue pair on the registration's domain
 * @cqe: whose done() is called when a message has come
 * @mr: a registration or mapping with local write
 * @offset: bytes from its start
 * @length: bytes
 *
 * Mirrors rdma_post_recv(3) and rpma_recv(3).
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_send(), and -EACCES without local write.
 */
int ucb_post_recv(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, size_t length)
{
	struct ib_sge sge[UCB_POST_SGES];
	struct ib_recv_wr wr = { .wr_cqe = cqe, .sg_list = sge };
	int err;

	rcu_read_lock();
	err = check_local(qp, mr, offset, length, IB_ACCESS_LOCAL_WRITE);
	if (!err) {
		err = fill_sges(sge, mr, offset, length);
		wr.num_sge = err;
	}
	if (err >= 0)
		err = ib_post_recv(qp, &wr, NULL);
	rcu_read_unlock();
	return err;
}
EXPORT_SYMBOL_GPL(ucb_post_recv);

/**
 * ucb_post_read() - read a peer's memory
 * @qp: as for ucb_post_send()
 * @cqe: as for ucb_post_send()
 * @mr: a registration or mapping with local write; on iWARP a registration with
 *	remote write, for the peer is told its key
 * @offset: bytes from its start
 * @remote: the peer's registration
 * @remote_offset: bytes from its start
 * @length: bytes
 * @flags: as for ucb_post_send()
 *
 * Mirrors rdma_post_read(3) and rpma_read(3).
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_send(); -EINVAL as for ucb_post_send(), and for a remote
 * that was deleted; -ERANGE when the bytes are not all inside the registration
 * and @remote; -EACCES when either side's access does not allow it.
 */
int ucb_post_read(struct ib_qp *qp, struct ib_cqe *cqe, const struct ucb_mr *mr,
		  size_t offset, const struct ucb_mr_remote *remote,
		  u64 remote_offset, size_t length, int flags)
{
	return post_rdma(qp, cqe, mr, offset, remote, remote_offset, length,
			 flags, IB_WR_RDMA_READ, UCB_MR_USAGE_READ_SRC, 0);
}
EXPORT_SYMBOL_GPL(ucb_post_read);

/**
 * ucb_post_write() - write a peer's memory
 * @qp: as for ucb_post_send()
 * @cqe: as for ucb_post_send()
 * @mr: the registration or mapping
 * @offset: bytes from its start
 * @remote: the peer's registration
 * @remote_offset: bytes from its start
 * @length: bytes
 * @flags: as for ucb_post_send()
 *
 * Mirrors rdma_post_write(3) and rpma_write(3).
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_read().
 */
int ucb_post_write(struct ib_qp *qp, struct ib_cqe *cqe,
		   const struct ucb_mr *mr, size_t offset,
		   const struct ucb_mr_remote *remote, u64 remote_offset,
		   size_t length, int flags)
{
	return post_rdma(qp, cqe, mr, offset, remote, remote_offset, length,
			 flags, IB_WR_RDMA_WRITE, UCB_MR_USAGE_WRITE_DST, 0);
}
EXPORT_SYMBOL_GPL(ucb_post_write);

/**
 * ucb_post_write_imm() - write a peer's memory, and complete a receive there
 * @qp: as for ucb_post_send()
 * @cqe: as for ucb_post_send()
 * @mr: the registration or mapping
 * @offset: bytes from its start
 * @remote: the peer's registration
 * @remote_offset: bytes from its start
 * @length: bytes
 * @flags: as for ucb_post_send()
 * @imm: what the peer finds in its completion
 *
 * Mirrors rpma_write_with_imm(3). iWARP has no immediate data.
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_read(); on iWARP what the device gives, an error.
 */
int ucb_post_write_imm(struct ib_qp *qp, struct ib_cqe *cqe,
		       const struct ucb_mr *mr, size_t offset,
		       const struct ucb_mr_remote *remote, u64 remote_offset,
		       size_t length, int flags, __be32 imm)
{
	return post_rdma(qp, cqe, mr, offset, remote, remote_offset, length,
			 flags, IB_WR_RDMA_WRITE_WITH_IMM,
			 UCB_MR_USAGE_WRITE_DST, imm);
}
EXPORT_SYMBOL_GPL(ucb_post_write_imm);

/**
 * ucb_post_atomic_write() - write 8 aligned bytes of a peer's memory
 * @qp: as for ucb_post_send()
 * @cqe: as for ucb_post_send()
 * @mr: the registration or mapping
 * @offset: bytes from its start, where the 8 bytes are
 * @remote: the peer's registration
 * @remote_offset: bytes from its start
 * @flags: as for ucb_post_send()
 *
 * Mirrors rpma_atomic_write(3) on a device without native atomic write: an RDMA
 * WRITE of 8 bytes behind a fence, so that the READs before it, flushes among
 * them, are over. The transport does not promise that the 8 bytes appear in one
 * piece; network adapters write so few aligned bytes so. The native work
 * request is of no use here: no driver of the kernel takes its remote address
 * from a kernel caller.
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_read(); -EINVAL as for ucb_post_read(), and when the remote
 * address is not a multiple of 8.
 */
int ucb_post_atomic_write(struct ib_qp *qp, struct ib_cqe *cqe,
			  const struct ucb_mr *mr, size_t offset,
			  const struct ucb_mr_remote *remote, u64 remote_offset,
			  int flags)
{
	if (remote && !IS_ALIGNED(remote->addr + remote_offset, sizeof(u64)))
		return -EINVAL;
	return ucb_post_write(qp, cqe, mr, offset, remote, remote_offset,
			      sizeof(u64), flags | IB_SEND_FENCE);
}
EXPORT_SYMBOL_GPL(ucb_post_atomic_write);

/**
 * ucb_post_flush() - have what was written to a peer's memory visible there
 * @qp: as for ucb_post_send(); the one that the writes were posted on
 * @cqe: as for ucb_post_send()
 * @mr: as for ucb_post_read()
 * @offset: bytes from its start, where 1 byte is overwritten
 * @remote: the peer's registration
 * @remote_offset: bytes from its start
 * @length: bytes to be flushed, at least 1
 * @type: UCB_FLUSH_VISIBILITY
 * @flags: as for ucb_post_send()
 *
 * Mirrors rpma_flush(3) on a device without native flush: an RDMA READ, which
 * the peer's device answers when the writes before it have reached its memory.
 * When it has completed, so have they.
 *
 * Context: As ucb_post_send().
 * Return: As ucb_post_read(); -EOPNOTSUPP for UCB_FLUSH_PERSISTENT, which a
 * READ does not give, or when the peer has not offered the other; -EINVAL as
 * for ucb_post_read(), and for another type or no bytes.
 */
int ucb_post_flush(struct ib_qp *qp, struct ib_cqe *cqe,
		   const struct ucb_mr *mr, size_t offset,
		   const struct ucb_mr_remote *remote, u64 remote_offset,
		   size_t length, int type, int flags)
{
	if (type == UCB_FLUSH_PERSISTENT)
		return -EOPNOTSUPP;
	if (type != UCB_FLUSH_VISIBILITY || !length)
		return -EINVAL;
	if (remote && remote->usage) {
		if (!(remote->usage & UCB_MR_USAGE_FLUSH_VISIBILITY))
			return -EOPNOTSUPP;
		if (!within(remote_offset, length, remote->size))
			return -ERANGE;
	}
	return post_rdma(qp, cqe, mr, offset, remote, remote_offset, 1, flags,
			 IB_WR_RDMA_READ, UCB_MR_USAGE_FLUSH_VISIBILITY, 0);
}
EXPORT_SYMBOL_GPL(ucb_post_flush);
