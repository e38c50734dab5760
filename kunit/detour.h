/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A detour: the next call of a function, of any caller or of the task that is
 * named, goes to a function of the suite's instead, in the caller's context. That may
 * do what only a race would do at that place, and call the original.
 */
#ifndef _UCB_KUNIT_DETOUR_H
#define _UCB_KUNIT_DETOUR_H

#include <kunit/test.h>
#include <linux/kprobes.h>
#include <linux/sched.h>

struct detour {
	struct kprobe probe;
	struct task_struct *task;
	void *to;
	atomic_t left;
};

static inline int detour_take(struct kprobe *probe, struct pt_regs *regs)
{
	struct detour *detour = container_of(probe, struct detour, probe);

	if (detour->task && detour->task != current)
		return 0;
	if (atomic_dec_if_positive(&detour->left) < 0)
		return 0;
	instruction_pointer_set(regs, (unsigned long)detour->to);
	return 1;
}

/* A probe that has one is told that the other may change where it goes on. */
static inline void detour_taken(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static inline int detour_start(struct detour *detour, const char *name, void *to,
			       struct task_struct *task)
{
	*detour = (struct detour){
		.probe = {
			.symbol_name = name,
			.pre_handler = detour_take,
			.post_handler = detour_taken,
		},
		.task = task,
		.to = to,
		.left = ATOMIC_INIT(1),
	};
	return register_kprobe(&detour->probe);
}

static inline void detour_end(void *detour)
{
	unregister_kprobe(&((struct detour *)detour)->probe);
}

/* Until the end of the case. */
static inline void detour_get(struct kunit *test, struct detour *detour, const char *name,
			      void *to, struct task_struct *task)
{
	KUNIT_ASSERT_EQ_MSG(test, 0, detour_start(detour, name, to, task), "%s", name);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, detour_end, detour));
}

static inline bool detour_was_taken(struct detour *detour)
{
	return !atomic_read(&detour->left);
}

/* The function itself, of the type of what it was replaced by. */
#define detour_original(detour, to)	((typeof(to))(detour)->probe.addr)

#endif /* _UCB_KUNIT_DETOUR_H */
