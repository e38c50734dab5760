// SPDX-License-Identifier: GPL-2.0
/*
 * Debug pools: bytes behind what was asked for keep a pattern while the driver
 * has the buffer, all of it keeps another while it is at home; and the stacks
 * that last allocated and freed each buffer are kept for reports.
 */

#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/stackdepot.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "internal.h"

#if IS_ENABLED(CONFIG_STACKDEPOT) && IS_ENABLED(CONFIG_STACKTRACE)
struct ucb_stacks {
	depot_stack_handle_t allocated;
	depot_stack_handle_t freed;
};

#define UCB_STACK_DEPTH		16

/* Process context; it is there once for the kernel. */
void ucb_stacks_init(void)
{
	stack_depot_init();
}

bool ucb_stacks_alloc(struct ucb_block *block, gfp_t gfp)
{
	block->stacks = kcalloc(block->nr, sizeof(*block->stacks),
				UCB_RECORD_GFP(gfp));
	return block->stacks;
}

static struct ucb_stacks *ucb_stacks_of(const struct ucb_buf *buf)
{
	return &buf->block->stacks[buf - buf->block->bufs];
}

void ucb_stacks_save(struct ucb_buf *buf, bool freed)
{
	struct ucb_stacks *stacks = ucb_stacks_of(buf);
	unsigned long entries[UCB_STACK_DEPTH];
	depot_stack_handle_t handle;
	unsigned int nr;

	/* the depot allocates pages, which on RT is not for atomic context */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && !preemptible())
		return;
	nr = stack_trace_save(entries, ARRAY_SIZE(entries), 2);
	handle = stack_depot_save(entries, nr, GFP_NOWAIT | __GFP_NOWARN);
	WRITE_ONCE(*(freed ? &stacks->freed : &stacks->allocated), handle);
}

static void ucb_stack_print(const char *what, depot_stack_handle_t handle)
{
	if (!handle)
		return;
	pr_err("ucb: %s by:\n", what);
	stack_depot_print(handle);
}

void ucb_stacks_print(const struct ucb_buf *buf)
{
	if (!buf->block->stacks)
		return;
	ucb_stack_print("last allocated",
			READ_ONCE(ucb_stacks_of(buf)->allocated));
	ucb_stack_print("last freed", READ_ONCE(ucb_stacks_of(buf)->freed));
}
#else
void ucb_stacks_init(void)
{
}

bool ucb_stacks_alloc(struct ucb_block *block, gfp_t gfp)
{
	return true;
}

void ucb_stacks_save(struct ucb_buf *buf, bool freed)
{
}

void ucb_stacks_print(const struct ucb_buf *buf)
{
}
#endif

static void ucb_guard_dump(struct ucb_buf *buf, const u8 *bad, const u8 *end,
			   enum ucb_misuse what)
{
	struct ucb_pool *pool = buf->block->pool;
	const u8 *start = buf->addr;

	if (ucb_report(pool, buf, what, 0, buf->requested, bad - start,
		       buf->caller))
		print_hex_dump(KERN_ERR, "ucb: ", DUMP_PREFIX_OFFSET, 16, 1,
			       bad, min_t(size_t, end - bad, 64), true);
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

/* What is at home goes with its block: not handed out again, but looked at. */
void ucb_block_check_home(struct ucb_block *block)
{
	struct ucb_buf *buf;

	if (block->pool->flags & UCB_POOL_DEBUG)
		llist_for_each_entry(buf, block->home, node)
			ucb_poison_intact(buf);
}
