/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The 21-byte memory descriptor that crosses the wire, as librpma packs it:
 * little-endian, no padding: u64 address, u64 length, u32 rkey, u8 usage.
 */
#ifndef _UAPI_UCB_DESCRIPTOR_H
#define _UAPI_UCB_DESCRIPTOR_H

#define UCB_MR_DESC_SIZE		21

#define UCB_MR_DESC_ADDR		0
#define UCB_MR_DESC_LENGTH		8
#define UCB_MR_DESC_RKEY		16
#define UCB_MR_DESC_USAGE		20

#define UCB_MR_USAGE_READ_SRC		0x01
#define UCB_MR_USAGE_READ_DST		0x02
#define UCB_MR_USAGE_WRITE_SRC		0x04
#define UCB_MR_USAGE_WRITE_DST		0x08
#define UCB_MR_USAGE_FLUSH_VISIBILITY	0x10
#define UCB_MR_USAGE_FLUSH_PERSISTENT	0x20
#define UCB_MR_USAGE_SEND		0x40
#define UCB_MR_USAGE_RECV		0x80

#endif /* _UAPI_UCB_DESCRIPTOR_H */
