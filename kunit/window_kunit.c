// SPDX-License-Identifier: GPL-2.0
/*
 * Windows that no load would hit often enough: a detour has the other side happen
 * right there. A waiter and memory pressure; a lock that is held, for those who are
 * not to wait for it; a device that goes under its drop-in pool.
 */

#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/irq_work.h>
#include <linux/kthread.h>
#include <linux/mman.h>
#include <linux/sched/clock.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>

#include "core_calls.h"
#include "detour.h"
#include "fake_hcd.h"
#include "guest_files.h"
#include "reports.h"
#include "symbol.h"

typedef unsigned long (*shrink_fn)(struct shrinker *shrinker, struct shrink_control *sc);

/* what the case is about, for what its detours lead to */
static struct window {
	struct kunit *test;
	struct usb_device *udev;
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	struct detour detour;
	struct irq_work *wake;
	struct completion held;
	shrink_fn count;
	shrink_fn scan;
	unsigned long counted;
	unsigned long scanned;
	bool read;
	bool late;
} window;

static void window_start(struct kunit *test)
{
	memset(&window, 0, sizeof(window));
	window.test = test;
	window.udev = fake_hcd_get(test, FAKE_DMA)->udev;
	init_completion(&window.held);
}

static void window_pool(unsigned int max)
{
	const struct ucb_pool_params params = { .name = "window", .size = 4096, .max = max };
	struct kunit *test = window.test;

	window.pool = pool_get(test, window.udev, &params);
	window.buf = ucb_buf_alloc(window.pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, window.buf);
}

/* The next call of the function, by this task if it is not for an interrupt. */
static void window_detour(const char *name, void *to, struct task_struct *task)
{
	detour_get(window.test, &window.detour, name, to, task);
}

static unsigned int window_bufs(void)
{
	struct ucb_pool_stats stats;

	ucb_pool_get_stats(window.pool, &stats);
	return stats.buffers;
}

struct waiter {
	struct ucb_buf *buf;
	struct completion done;
};

static int waiter_fn(void *data)
{
	struct waiter *waiter = data;

	waiter->buf = ucb_buf_alloc_wait(window.pool, GFP_KERNEL, 60 * HZ);
	complete(&waiter->done);
	return 0;
}

/* Until it sleeps in its wait and is off the run queue, or is over. */
static void waiter_asleep(struct waiter *waiter, struct task_struct *task)
{
	while ((READ_ONCE(task->__state) != TASK_INTERRUPTIBLE || READ_ONCE(task->on_rq)) &&
	       !completion_done(&waiter->done))
		schedule_timeout_uninterruptible(1);
}

static void wake_held(struct irq_work *work)
{
	window.wake = work;
	complete(&window.held);
}

/* A buffer is home for a waiter that has not run yet: memory pressure leaves it. */
static void window_wait_pressed(struct kunit *test)
{
	struct waiter *waiter = kunit_kzalloc(test, sizeof(*waiter), GFP_KERNEL);
	struct task_struct *task;

	KUNIT_ASSERT_NOT_NULL(test, waiter);
	init_completion(&waiter->done);
	window_start(test);
	window_pool(1);
	window_detour("ucb_wake_waiters", wake_held, NULL);
	task = kthread_create(waiter_fn, waiter, "waiter");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	wake_up_process(task);
	waiter_asleep(waiter, task);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(window.buf));
	wait_for_completion(&window.held);
	KUNIT_EXPECT_EQ(test, 0, press());
	KUNIT_EXPECT_EQ(test, 1, window_bufs());
	KUNIT_EXPECT_FALSE(test, completion_done(&waiter->done));
	detour_original(&window.detour, &wake_held)(window.wake);
	wait_for_completion(&waiter->done);
	put_task_struct(task);
	KUNIT_ASSERT_FALSE(test, IS_ERR(waiter->buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(waiter->buf));
	/* with nobody waiting, it does not */
	KUNIT_EXPECT_EQ(test, 0, press());
	KUNIT_EXPECT_EQ(test, 0, window_bufs());
}

static bool enter_pressed(struct ucb_pool *pool)
{
	KUNIT_EXPECT_EQ(window.test, 0, ucb_buf_free(window.buf));
	KUNIT_EXPECT_EQ(window.test, 0, press());
	KUNIT_EXPECT_EQ(window.test, 0, window_bufs());
	return detour_original(&window.detour, &enter_pressed)(pool);
}

/* All are out when it looks, and given back before it waits: then one is made. */
static void window_wait_emptied(struct kunit *test)
{
	struct ucb_buf *buf;

	window_start(test);
	window_pool(1);
	window_detour("ucb_pool_enter", enter_pressed, current);
	buf = ucb_buf_alloc_wait(window.pool, GFP_KERNEL, 60 * HZ);
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	KUNIT_ASSERT_FALSE(test, IS_ERR(buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(buf));
}

/* As reclaim would, in the middle of what has the locks. */
static void limits_pressed(struct ucb_pool *pool)
{
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL, .nr_to_scan = 128 };

	window.counted = window.count(NULL, &sc);
	window.scanned = window.scan(NULL, &sc);
	detour_original(&window.detour, &limits_pressed)(pool);
}

/* The shrinker waits for no lock: neither a pool's nor that of the list of all. */
static void window_shrink_locked(struct kunit *test)
{
	window_start(test);
	window_pool(8);
	window.count = symbol_find("ucb_shrink_count");
	window.scan = symbol_find("ucb_shrink_scan");
	KUNIT_ASSERT_FALSE(test, IS_ERR(window.count));
	KUNIT_ASSERT_FALSE(test, IS_ERR(window.scan));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(window.buf));

	window_detour("ucb_cache_set_limits", limits_pressed, current);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(window.pool, 0, 16));
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	KUNIT_EXPECT_NE(test, 0, window_bufs());
	kunit_release_action(test, detour_end, &window.detour);

	window_detour("ucb_cache_set_limits", limits_pressed, current);
	device_release_driver(&window.udev->dev);
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	KUNIT_EXPECT_EQ(test, SHRINK_EMPTY, window.counted);
	KUNIT_EXPECT_EQ(test, SHRINK_STOP, window.scanned);
	KUNIT_EXPECT_NE(test, 0, window_bufs());
	KUNIT_EXPECT_EQ(test, 0, press());
	KUNIT_EXPECT_EQ(test, 0, window_bufs());
}

static void no_sweep(void)
{
}

/* The device goes. The sweep that this asks for comes before the caller goes on. */
static void device_goes(void)
{
	struct detour sweep;

	KUNIT_ASSERT_EQ(window.test, 0,
			detour_start(&sweep, "ucb_dropin_sweep", no_sweep, current));
	device_release_driver(&window.udev->dev);
	detour_end(&sweep);
	KUNIT_EXPECT_TRUE(window.test, detour_was_taken(&sweep));
}

static void exit_gone(struct ucb_pool *pool)
{
	device_goes();
	detour_original(&window.detour, &exit_gone)(pool);
}

/* It goes while a call is inside that gets nothing: that call's end is the pool's. */
static void window_dropin_last_call(struct kunit *test)
{
	struct core_calls *calls;
	dma_addr_t dma;
	void *addr;

	window_start(test);
	calls = core_calls_get(test, window.udev);
	addr = ucb_alloc_coherent(window.udev, 64, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(window.udev, 64, addr, dma));
	window_detour("ucb_pool_exit", exit_gone, current);
	KUNIT_EXPECT_NULL(test, ucb_alloc_coherent(window.udev, SZ_1G, GFP_KERNEL, &dma));
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&calls->frees));
}

static struct ucb_pool *new_gone(struct usb_device *udev, bool dropin, gfp_t gfp)
{
	struct ucb_pool *pool = detour_original(&window.detour, &new_gone)(udev, dropin, gfp);

	device_goes();
	return pool;
}

/* It goes while the pool is made, and is in no table yet: with its only buffer. */
static void window_dropin_made(struct kunit *test)
{
	struct core_calls *calls;
	dma_addr_t dma;
	void *addr;

	window_start(test);
	calls = core_calls_get(test, window.udev);
	window_detour("ucb_pool_new", new_gone, current);
	addr = ucb_alloc_coherent(window.udev, 64, GFP_KERNEL, &dma);
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(window.udev, 64, addr, dma));
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&calls->frees));
}

static void give_freed(struct ucb_buf *buf, void *request)
{
	detour_original(&window.detour, &give_freed)(buf, request);
	KUNIT_EXPECT_EQ(window.test, 0,
			ucb_free_coherent(window.udev, SZ_2M, ucb_buf_addr(buf), ucb_buf_dma(buf)));
}

/*
 * Memory that a driver has freed becomes the next one's, and is freed by the first
 * again before the other has its address. Nobody can tell; it is a free as any other.
 */
static void window_dropin_given(struct kunit *test)
{
	struct core_calls *calls;
	dma_addr_t dma;
	void *addr;

	window_start(test);
	calls = core_calls_get(test, window.udev);
	window_detour("ucb_buf_give", give_freed, current);
	addr = ucb_alloc_coherent(window.udev, SZ_2M, GFP_KERNEL, &dma);
	KUNIT_EXPECT_TRUE(test, detour_was_taken(&window.detour));
	KUNIT_ASSERT_NOT_NULL(test, addr);
	core_calls_expect_flat(test, calls);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&calls->frees));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_free_coherent(window.udev, SZ_2M, addr, dma));
}

/* The pool's list of buffers in debugfs, open; and where to read it to. */
struct shown {
	struct file *file;
	char __user *to;
};

static void shown_close(void *file)
{
	filp_close(file, NULL);
}

static struct shown shown_open(struct reports *reports)
{
	struct kunit *test = window.test;
	struct shown shown = { };
	char path[64];

	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(window.pool, &shown, 0));
	snprintf(path, sizeof(path), "/sys/kernel/debug/ucb/%u/buffers",
		 reports_pool(test, reports));
	scoped_with_init_fs()
		shown.file = filp_open(path, O_RDONLY, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(shown.file));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, shown_close, shown.file));
	shown.to = (char __user *)kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
						MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)shown.to);
	KUNIT_ASSERT_EQ(test, 0, clear_user(shown.to, PAGE_SIZE));
	return shown;
}

/* Return: bytes, or an errno. */
static ssize_t shown_read(struct shown *shown)
{
	loff_t pos = 0;

	return shown->file->f_op->read(shown->file, shown->to, PAGE_SIZE, &pos);
}

#define HOLD_NSECS	(5ULL * NSEC_PER_SEC)
#define HOLD_TRIES	4

/* With the pool's lock and IRQs off, until the list has been read. */
static void limits_held(struct ucb_pool *pool)
{
	u64 end = local_clock() + HOLD_NSECS;

	complete(&window.held);
	while (!READ_ONCE(window.read) && !window.late) {
		window.late = local_clock() > end;
		cpu_relax();
	}
	detour_original(&window.detour, &limits_held)(pool);
}

static int holder_fn(void *unused)
{
	ucb_pool_resize(window.pool, 0, 16);
	return 0;
}

/* Read it while another CPU has the lock. False when that gave up first. */
static bool shown_read_locked(struct shown *shown, unsigned int cpu)
{
	struct kunit *test = window.test;
	struct task_struct *task;

	window.read = false;
	window.late = false;
	reinit_completion(&window.held);
	task = kthread_create_on_cpu(holder_fn, NULL, cpu, "holder/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	window_detour("ucb_cache_set_limits", limits_held, task);
	wake_up_process(task);
	wait_for_completion(&window.held);
	KUNIT_EXPECT_GT(test, shown_read(shown), 0);
	WRITE_ONCE(window.read, true);
	kthread_stop_put(task);
	kunit_release_action(test, detour_end, &window.detour);
	return !window.late;
}

static void anywhere(void *unused)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

/*
 * Reading the list of buffers takes no lock: no CPU has IRQs off for all of them. To
 * read it once while the lock is held proves that. This CPU may just have something
 * else that waits for the other, which has IRQs off.
 */
static void window_shown_locked(struct kunit *test)
{
	unsigned int cpu = cpumask_last(cpu_online_mask);
	struct reports *reports = reports_get(test);
	struct shown shown;
	bool read = false;
	int i;

	window_start(test);
	window_pool(8);
	shown = shown_open(reports);
	KUNIT_ASSERT_NE(test, 0, cpu);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, anywhere, NULL));
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(0)));
	for (i = 0; i < HOLD_TRIES && !read; i++)
		read = shown_read_locked(&shown, cpu);
	KUNIT_EXPECT_TRUE(test, read);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(window.buf));
}

static int resizer_fn(void *unused)
{
	while (!kthread_should_stop()) {
		ucb_pool_resize(window.pool, 64, 64);
		ucb_pool_resize(window.pool, 0, 1);
	}
	return 0;
}

/* It is read while blocks come and go: what is out for all the time is in it. */
static void window_shown_moving(struct kunit *test)
{
	struct reports *reports = reports_get(test);
	struct task_struct *task;
	struct shown shown;
	int i, bad = 0;

	window_start(test);
	window_pool(1);
	shown = shown_open(reports);
	task = kthread_run(resizer_fn, NULL, "resizer");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	for (i = 0; i < 200; i++) {
		bad += shown_read(&shown) <= 0;
		cond_resched();
	}
	kthread_stop(task);
	KUNIT_EXPECT_EQ(test, 0, bad);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(window.buf));
}

static struct kunit_case window_cases[] = {
	KUNIT_CASE(window_wait_pressed),
	KUNIT_CASE(window_wait_emptied),
	KUNIT_CASE(window_shrink_locked),
	KUNIT_CASE(window_dropin_last_call),
	KUNIT_CASE(window_dropin_made),
	KUNIT_CASE(window_dropin_given),
	KUNIT_CASE(window_shown_locked),
	KUNIT_CASE(window_shown_moving),
	{}
};

static struct kunit_suite window_suite = {
	.name = "ucb_window",
	.test_cases = window_cases,
};

kunit_test_suite(window_suite);

MODULE_DESCRIPTION("KUnit: windows of races, hit on purpose");
MODULE_LICENSE("GPL");
