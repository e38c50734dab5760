// SPDX-License-Identifier: GPL-2.0
/*
 * Debug pools: bytes behind what was asked for keep a pattern while the driver
 * has the buffer, all of it keeps another while it is at home.
 */

#include <linux/printk.h>
#include <linux/string.h>

#include "internal.h"

static void ucb_guard_dump(struct ucb_buf *buf, const u8 *bad, const u8 *end,
			   enum ucb_misuse what)
{
	struct ucb_pool *pool = buf->block->pool;
	const u8 *start = buf->addr;

	ucb_refuse(pool, buf, what, 0, buf->requested, bad - start,
		   buf->caller);
	print_hex_dump(KERN_ERR, "ucb: ", DUMP_PREFIX_OFFSET, 16, 1, bad,
		       min_t(size_t, end - bad, 64), true);
}

void ucb_guard_arm(struct ucb_buf *buf, u32 requested)
{
	memset(buf->addr + requested, UCB_GUARD_BYTE,
	       buf->block->stride - requested);
}

bool ucb_guard_intact(struct ucb_buf *buf)
{
	const u8 *end = buf->addr + buf->block->stride;
	const u8 *guard = buf->addr + buf->requested;
	const u8 *bad = memchr_inv(guard, UCB_GUARD_BYTE, end - guard);

	if (bad)
		ucb_guard_dump(buf, bad, end, UCB_MISUSE_OVERRUN);
	return !bad;
}

void ucb_poison(struct ucb_buf *buf)
{
	memset(buf->addr, UCB_POISON_BYTE, buf->block->stride);
}

bool ucb_poison_intact(struct ucb_buf *buf)
{
	const u8 *end = buf->addr + buf->block->stride;
	const u8 *bad = memchr_inv(buf->addr, UCB_POISON_BYTE,
				   buf->block->stride);

	if (bad)
		ucb_guard_dump(buf, bad, end, UCB_MISUSE_USE_AFTER_FREE);
	return !bad;
}
