/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The one message that the capture sample sends to its peer: a header, then
 * one descriptor of UCB_MR_DESC_SIZE bytes for each buffer, in file order.
 * Little-endian, no padding: u32 magic, u32 count, u64 bytes in all buffers.
 */
#ifndef _CAPTURE_TABLE_H
#define _CAPTURE_TABLE_H

#define CAPTURE_TABLE_MAGIC	0x54424355	/* "UCBT" */

#define CAPTURE_TABLE_COUNT	4
#define CAPTURE_TABLE_BYTES	8
#define CAPTURE_TABLE_HDR	16

#define CAPTURE_TABLE_MAX	4096		/* descriptors */

#endif /* _CAPTURE_TABLE_H */
