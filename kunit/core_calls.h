/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts the calls of usb_alloc_coherent() and usb_free_coherent() for one
 * device, by kprobes: what the pool asks of the USB core, seen from outside.
 */
#ifndef _UCB_KUNIT_CORE_CALLS_H
#define _UCB_KUNIT_CORE_CALLS_H

#include <kunit/test.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/usb.h>

/*
 * @allocs, @frees: calls so far
 * @got: those of @allocs that gave memory
 * @atomic: calls that were made in interrupt context
 */
struct core_calls {
	struct usb_device *udev;
	struct kretprobe alloc;
	struct kprobe free;
	atomic_t allocs;
	atomic_t got;
	atomic_t frees;
	atomic_t atomic;
};

static inline bool core_call_seen(struct core_calls *calls, atomic_t *count,
				  struct pt_regs *regs)
{
	if (regs_get_kernel_argument(regs, 0) != (unsigned long)calls->udev)
		return false;
	atomic_inc(count);
	if (!in_task())
		atomic_inc(&calls->atomic);
	return true;
}

/* Return: 0 to hear of the return too */
static inline int core_alloc_seen(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct core_calls *calls = container_of(get_kretprobe(instance), struct core_calls,
						alloc);

	return !core_call_seen(calls, &calls->allocs, regs);
}

static inline int core_alloc_done(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct core_calls *calls = container_of(get_kretprobe(instance), struct core_calls,
						alloc);

	if (regs_return_value(regs))
		atomic_inc(&calls->got);
	return 0;
}

static inline int core_free_seen(struct kprobe *probe, struct pt_regs *regs)
{
	struct core_calls *calls = container_of(probe, struct core_calls, free);

	core_call_seen(calls, &calls->frees, regs);
	return 0;
}

static inline void core_calls_end(void *data)
{
	struct core_calls *calls = data;

	unregister_kretprobe(&calls->alloc);
	unregister_kprobe(&calls->free);
}

/* Count from here to the end of the case. */
static inline struct core_calls *core_calls_get(struct kunit *test, struct usb_device *udev)
{
	struct core_calls *calls = kunit_kzalloc(test, sizeof(*calls), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, calls);
	calls->udev = udev;
	calls->alloc.kp.symbol_name = "usb_alloc_coherent";
	calls->alloc.entry_handler = core_alloc_seen;
	calls->alloc.handler = core_alloc_done;
	calls->alloc.maxactive = 64;
	calls->free.symbol_name = "usb_free_coherent";
	calls->free.pre_handler = core_free_seen;
	KUNIT_ASSERT_EQ(test, 0, register_kretprobe(&calls->alloc));
	if (register_kprobe(&calls->free)) {
		unregister_kretprobe(&calls->alloc);
		KUNIT_ASSERT_TRUE_MSG(test, false, "no kprobe on usb_free_coherent");
	}
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, core_calls_end, calls));
	return calls;
}

/* What came from the USB core is back there, in a while: frees are deferred. */
static inline void core_calls_expect_flat(struct kunit *test, struct core_calls *calls)
{
	unsigned long end = jiffies + 60 * HZ;

	while (atomic_read(&calls->got) != atomic_read(&calls->frees) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, atomic_read(&calls->got), atomic_read(&calls->frees));
}

#endif /* _UCB_KUNIT_CORE_CALLS_H */
