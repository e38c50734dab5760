/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hostile peer: a thread that READs or WRITEs one range over and over, whether
 * it may or not, and connects anew when it is refused. And buffers with marks
 * around the range, so that what it must not reach is seen.
 */
#ifndef _UCB_KUNIT_ATTACKER_H
#define _UCB_KUNIT_ATTACKER_H

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>

#include "bridge.h"

#define CANARY		0xca	/* what no peer may see or change */
#define OWN		0x11	/* what the owner has in the range */
#define ATTACK		0x5a	/* what a peer writes */

/* The range: inside pages of which a peer must not have all. */
#define RANGE_OFFSET	(PAGE_SIZE + 104)
#define RANGE_LENGTH	(2 * PAGE_SIZE + 48)

/*
 * @remote: where it goes
 * @tries: operations so far; @good: those that were done
 * @leaked: a READ brought a byte that it must not see
 * @over: it has stopped, for @stop or because it cannot connect any more
 */
struct attacker {
	struct peer *peer;
	enum ib_wr_opcode opcode;
	spinlock_t lock;	/* @remote */
	struct ucb_mr_remote remote;
	unsigned int tries;
	unsigned int good;
	bool leaked;
	bool stop;
	struct completion over;
};

static inline int attacker_thread(void *data)
{
	struct attacker *a = data;
	struct ucb_mr_remote r;
	int status;

	while (!READ_ONCE(a->stop)) {
		spin_lock(&a->lock);
		r = a->remote;
		spin_unlock(&a->lock);
		memset(a->peer->mem, ATTACK, RANGE_LENGTH);
		status = peer_op(a->peer, a->opcode, r.addr, r.rkey, RANGE_LENGTH);
		if (a->opcode == IB_WR_RDMA_READ && memchr(a->peer->mem, CANARY, RANGE_LENGTH))
			a->leaked = true;
		if (status == OK)
			WRITE_ONCE(a->good, a->good + 1);
		/* who has seen the try sees what came of it */
		smp_store_release(&a->tries, a->tries + 1);
		if (status != OK && peer_connect(a->peer))
			break;
	}
	kthread_complete_and_exit(&a->over, 0);
}

static inline void attacker_aim(struct attacker *a, const struct ucb_mr_remote *remote)
{
	spin_lock(&a->lock);
	a->remote = *remote;
	spin_unlock(&a->lock);
}

/* Ends the thread; its connection stays. */
static inline void attacker_stop(void *data)
{
	struct attacker *a = data;

	WRITE_ONCE(a->stop, true);
	wait_for_completion(&a->over);
}

static inline struct attacker *attacker_start(struct kunit *test, struct ib_device *ibdev,
					      struct ib_pd *ibpd, enum ib_wr_opcode opcode,
					      const struct ucb_mr_remote *remote)
{
	struct attacker *a = kunit_kzalloc(test, sizeof(*a), GFP_KERNEL);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, a);
	spin_lock_init(&a->lock);
	init_completion(&a->over);
	a->opcode = opcode;
	a->remote = *remote;
	a->peer = peer_create(test, ibdev, ibpd, SZ_64K);
	task = kthread_run(attacker_thread, a, "ucb_attacker");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, attacker_stop, a), 0);
	return a;
}

/* So many more tries, or, with @good, of those that are done. */
static inline void attacker_wait(struct kunit *test, struct attacker *a, unsigned int more,
				 bool good)
{
	unsigned int *count = good ? &a->good : &a->tries;
	unsigned int from = READ_ONCE(*count);
	ktime_t end = ktime_add_ms(ktime_get(), BOUND_MS);

	/* behind the count is what the try has brought */
	while (smp_load_acquire(count) - from < more && !completion_done(&a->over) &&
	       ktime_before(ktime_get(), end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_GE(test, READ_ONCE(*count) - from, more);
}

/* It goes on, and nothing is done any more but what was on its way. */
static inline void attacker_expect_refused(struct kunit *test, struct attacker *a)
{
	unsigned int before, good;

	attacker_wait(test, a, 1, false);
	before = READ_ONCE(a->good);
	attacker_wait(test, a, 2, false);
	good = READ_ONCE(a->good);
	KUNIT_EXPECT_EQ(test, good, before);
}

/* Three buffers; the range is in the second. */
struct marked {
	struct ucb_buf *buf[3];
};

static inline void marked_get(struct kunit *test, struct marked *m)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(m->buf); i++)
		m->buf[i] = make_buf(test);
}

static inline void *marked_range(const struct marked *m)
{
	return ucb_buf_addr(m->buf[1]) + RANGE_OFFSET;
}

static inline void marked_fill(const struct marked *m)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(m->buf); i++)
		memset(ucb_buf_addr(m->buf[i]), CANARY, ucb_buf_size(m->buf[i]));
	memset(marked_range(m), OWN, RANGE_LENGTH);
}

/* Nothing outside of the range has changed, and inside there is only @inside. */
static inline bool marked_intact(const struct marked *m, int inside)
{
	const u8 *mem = ucb_buf_addr(m->buf[1]);
	size_t size = ucb_buf_size(m->buf[1]);
	const u8 *end = marked_range(m) + RANGE_LENGTH;

	return !memchr_inv(ucb_buf_addr(m->buf[0]), CANARY, size) &&
	       !memchr_inv(ucb_buf_addr(m->buf[2]), CANARY, size) &&
	       !memchr_inv(mem, CANARY, RANGE_OFFSET) &&
	       !memchr_inv(end, CANARY, mem + size - end) &&
	       (inside < 0 || !memchr_inv(marked_range(m), inside, RANGE_LENGTH));
}

#define ANYTHING	-1

static inline struct ucb_mr *marked_reg(struct kunit *test, struct ucb_pd *pd,
					const struct marked *m, int access)
{
	struct ucb_mr *mr = ucb_mr_reg_range(pd, m->buf[1], RANGE_OFFSET, RANGE_LENGTH, access);

	KUNIT_ASSERT_FALSE_MSG(test, IS_ERR(mr), "reg: %ld", PTR_ERR(mr));
	return mr;
}

#endif /* _UCB_KUNIT_ATTACKER_H */
