// SPDX-License-Identifier: GPL-2.0
/*
 * The 21-byte memory descriptor that librpma's programs exchange. It has no
 * version and no checksum, so what a peer sent is refused only where no
 * registration can look so: too short, of no use, empty, or running past the
 * last address.
 */
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/string.h>

#include "../compat.h"
#include "bridge.h"

/* What the peer may do. What only the owner may do is not the peer's business. */
static u8 usage_from_access(int access)
{
	u8 usage = 0;

	if (access & IB_ACCESS_REMOTE_READ)
		usage |= UCB_MR_USAGE_READ_SRC;
	if (access & IB_ACCESS_REMOTE_WRITE)
		usage |= UCB_MR_USAGE_WRITE_DST;
	/* A READ behind a WRITE flushes it; this memory is coherent. */
	if (usage == (UCB_MR_USAGE_READ_SRC | UCB_MR_USAGE_WRITE_DST))
		usage |= UCB_MR_USAGE_FLUSH_VISIBILITY;
	if (usage)
		return usage;
	return access & IB_ACCESS_LOCAL_WRITE ? UCB_MR_USAGE_RECV :
						UCB_MR_USAGE_SEND;
}

/* addr + size is a number too, so that nobody has to look again. */
static bool remote_usable(const struct ucb_mr_remote *remote)
{
	return remote->usage && remote->size &&
	       remote->size <= U64_MAX - remote->addr;
}

/**
 * ucb_mr_remote_to_descriptor() - encode a descriptor
 * @remote: what to encode
 * @desc: UCB_MR_DESC_SIZE bytes, of any alignment
 *
 * What ucb_mr_remote_from_descriptor() decodes.
 *
 * Context: Any.
 * Return: 0, or -EINVAL for a NULL argument, a usage or size of 0, or a size that
 * runs past the last address.
 */
int ucb_mr_remote_to_descriptor(const struct ucb_mr_remote *remote, void *desc)
{
	u8 *d = desc;

	if (!remote || !desc || !remote_usable(remote))
		return -EINVAL;

	put_unaligned_le64(remote->addr, d + UCB_MR_DESC_ADDR);
	put_unaligned_le64(remote->size, d + UCB_MR_DESC_LENGTH);
	put_unaligned_le32(remote->rkey, d + UCB_MR_DESC_RKEY);
	d[UCB_MR_DESC_USAGE] = remote->usage;
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_mr_remote_to_descriptor);

/**
 * ucb_mr_remote_from_descriptor() - decode a peer's descriptor
 * @desc: what the peer sent, of any alignment
 * @desc_size: bytes there; bytes past UCB_MR_DESC_SIZE are ignored
 * @remote: filled on success, untouched on failure
 *
 * Mirrors rpma_mr_remote_from_descriptor(3). The values are the peer's: the
 * caller must check the size against what it expects.
 *
 * Context: Any.
 * Return: 0, or -EINVAL for a NULL argument, fewer than UCB_MR_DESC_SIZE bytes,
 * a usage or size of 0, or a size that runs past the last address.
 */
int ucb_mr_remote_from_descriptor(const void *desc, size_t desc_size,
				  struct ucb_mr_remote *remote)
{
	struct ucb_mr_remote found;
	const u8 *d = desc;

	if (!desc || !remote || desc_size < UCB_MR_DESC_SIZE)
		return -EINVAL;

	found.addr = get_unaligned_le64(d + UCB_MR_DESC_ADDR);
	found.size = get_unaligned_le64(d + UCB_MR_DESC_LENGTH);
	found.rkey = get_unaligned_le32(d + UCB_MR_DESC_RKEY);
	found.usage = d[UCB_MR_DESC_USAGE];
	if (!remote_usable(&found))
		return -EINVAL;
	*remote = found;
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_mr_remote_from_descriptor);

/* The descriptor of [@offset, @offset + @length), which is inside @mr. */
int ucb_mr_describe(const struct ucb_mr *mr, size_t offset, size_t length,
		    void *desc)
{
	struct ucb_mr_remote remote;

	if (!desc)
		return -EINVAL;
	if (atomic_read(&mr->state) != UCB_MR_LIVE)
		return -ENODEV;
	if (!mr->fr && !mr->key)
		return -ENOENT;

	remote.addr = mr->iova + offset;
	remote.size = length;
	remote.rkey = mr->rkey;
	remote.usage = usage_from_access(mr->access);
	return ucb_mr_remote_to_descriptor(&remote, desc);
}

/**
 * ucb_mr_get_descriptor() - encode the descriptor of a registration
 * @mr: the registration
 * @desc: ucb_mr_get_descriptor_size() bytes, of any alignment
 *
 * Mirrors rpma_mr_get_descriptor(3).
 *
 * Context: Any. A mapping's between ucb_mr_grant() and ucb_mr_recall().
 * Return: 0, -EINVAL for a NULL argument, -ENODEV when the registration was
 * revoked, or -ENOENT for a mapping that has no key (see ucb_mr_grant()).
 */
int ucb_mr_get_descriptor(const struct ucb_mr *mr, void *desc)
{
	return mr ? ucb_mr_describe(mr, 0, mr->length, desc) : -EINVAL;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_descriptor);

/**
 * ucb_mr_get_descriptor_size() - bytes that a descriptor takes
 * @mr: the registration
 *
 * Mirrors rpma_mr_get_descriptor_size(3).
 *
 * Context: Any.
 * Return: UCB_MR_DESC_SIZE.
 */
size_t ucb_mr_get_descriptor_size(const struct ucb_mr *mr)
{
	return UCB_MR_DESC_SIZE;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_descriptor_size);

/**
 * ucb_mr_remote_get_size() - the length of a peer's registration
 * @remote: from ucb_mr_remote_from_descriptor(), not NULL
 *
 * Mirrors rpma_mr_remote_get_size(3).
 *
 * Context: Any.
 * Return: bytes.
 */
u64 ucb_mr_remote_get_size(const struct ucb_mr_remote *remote)
{
	return remote->size;
}
EXPORT_SYMBOL_GPL(ucb_mr_remote_get_size);

/**
 * ucb_mr_remote_get_flush_type() - how a peer's registration can be flushed
 * @remote: from ucb_mr_remote_from_descriptor(), not NULL
 *
 * Mirrors rpma_mr_remote_get_flush_type(3).
 *
 * Context: Any.
 * Return: UCB_FLUSH_VISIBILITY and UCB_FLUSH_PERSISTENT or'ed, as the peer has
 * said, or 0. ucb_post_flush() does the first alone.
 */
int ucb_mr_remote_get_flush_type(const struct ucb_mr_remote *remote)
{
	int type = 0;

	if (remote->usage & UCB_MR_USAGE_FLUSH_VISIBILITY)
		type |= UCB_FLUSH_VISIBILITY;
	if (remote->usage & UCB_MR_USAGE_FLUSH_PERSISTENT)
		type |= UCB_FLUSH_PERSISTENT;
	return type;
}
EXPORT_SYMBOL_GPL(ucb_mr_remote_get_flush_type);

/**
 * ucb_mr_remote_delete() - forget a peer's registration
 * @remote: from ucb_mr_remote_from_descriptor(); the memory is the caller's
 *
 * Mirrors rpma_mr_remote_delete(3). Work requests that name it are refused from
 * then on.
 *
 * Context: Any.
 * Return: 0, or -EINVAL for NULL.
 */
int ucb_mr_remote_delete(struct ucb_mr_remote *remote)
{
	if (!remote)
		return -EINVAL;
	memset(remote, 0, sizeof(*remote));
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_mr_remote_delete);
