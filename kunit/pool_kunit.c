// SPDX-License-Identifier: GPL-2.0
/*
 * Pools on every kind of controller: handing out, limits, contexts, zeroing,
 * the end of a pool and of its controller.
 */

#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/scatterlist.h>
#include <linux/sched/mm.h>

#include <ucb/pool.h>

#include "../drivers/compat.h"
#include "core_calls.h"
#include "fake_hcd.h"

static struct ucb_pool *limits_pool(struct kunit *test, struct fake_hcd *fake,
				    size_t size, unsigned int min,
				    unsigned int max, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = "kunit", .size = size, .min = min, .max = max,
		.flags = flags,
	};

	return pool_get(test, fake->udev, &params);
}

#define MANY 24

/* PIO controllers use no DMA address; local memory is where the test put it. */
static void expect_dma(struct kunit *test, const struct fake_hcd *fake, void *addr,
		       dma_addr_t dma)
{
	if (fake->kind == FAKE_PIO || fake->kind == REAL_DUMMY)
		KUNIT_EXPECT_EQ(test, dma, ~(dma_addr_t)0);
	if (fake->kind == FAKE_LOCALMEM)
		KUNIT_EXPECT_EQ(test, dma - FAKE_LOCAL_DMA, addr - fake->local);
}

/* Buffers do not overlap, keep what is written, and all come back. */
static void pool_alloc_free(struct kunit *test)
{
	static const size_t sizes[] = { 1, 64, 500, 2048, 2049, 4096, 8192 };
	struct fake_hcd *fake = kind_hcd(test);
	dma_addr_t dma[MANY];
	u8 *addr[MANY];
	int s, i, round;

	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		struct ucb_pool *pool = limits_pool(test, fake, sizes[s], 2, MANY, 0);

		for (round = 0; round < 3; round++) {
			for (i = 0; i < MANY; i++) {
				addr[i] = ucb_pool_alloc(pool, GFP_KERNEL, &dma[i]);
				KUNIT_ASSERT_NOT_NULL(test, addr[i]);
				expect_dma(test, fake, addr[i], dma[i]);
				memset(addr[i], i + 1, sizes[s]);
			}
			for (i = 0; i < MANY; i++) {
				KUNIT_EXPECT_NULL(test, memchr_inv(addr[i], i + 1, sizes[s]));
				KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr[i], dma[i]));
			}
		}
	}
}

/* C12: max - 1, max, max + 1; min over max; no size; unknown flags. */
static void pool_limits(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool_params params = { .name = "limits", .size = 700, .min = 3, .max = 2 };
	struct ucb_pool *pool;
	dma_addr_t dma[6];
	void *addr[6];
	int i;

	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR(ucb_pool_create(fake->udev, &params)));
	params.max = 0;
	params.size = 0;
	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR(ucb_pool_create(fake->udev, &params)));
	params.size = 64;
	params.flags = BIT(30);
	KUNIT_EXPECT_EQ(test, -EINVAL, PTR_ERR(ucb_pool_create(fake->udev, &params)));

	/* min is there before anybody sleeps for it */
	pool = limits_pool(test, fake, 700, 1, 5, 0);
	for (i = 0; i < 5; i++) {
		addr[i] = ucb_pool_alloc(pool, i ? GFP_KERNEL : GFP_ATOMIC, &dma[i]);
		KUNIT_ASSERT_NOT_NULL(test, addr[i]);
	}
	KUNIT_EXPECT_NULL(test, ucb_pool_alloc(pool, GFP_KERNEL, &dma[5]));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr[2], dma[2]));
	addr[2] = ucb_pool_alloc(pool, GFP_ATOMIC, &dma[2]);
	KUNIT_EXPECT_NOT_NULL(test, addr[2]);
	for (i = 0; i < 5; i++)
		KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr[i], dma[i]));
}

/* A recycled buffer keeps its bytes, unless zeroes are asked for. */
static void pool_zero(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *keep = limits_pool(test, fake, 300, 1, 1, 0);
	struct ucb_pool *zero = limits_pool(test, fake, 300, 1, 1, UCB_POOL_ZERO);
	dma_addr_t dma;
	u8 *addr;

	addr = ucb_pool_alloc(keep, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_NULL_MSG(test, memchr_inv(addr, 0, 300), "fresh memory shows old bytes");
	memset(addr, 0x5a, 300);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(keep, addr, dma));
	addr = ucb_pool_zalloc(keep, GFP_ATOMIC, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_NULL(test, memchr_inv(addr, 0, 300));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(keep, addr, dma));

	addr = ucb_pool_alloc(zero, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	memset(addr, 0x5a, 300);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(zero, addr, dma));
	addr = ucb_pool_alloc(zero, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_NULL(test, memchr_inv(addr, 0, 300));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(zero, addr, dma));
}

/* most of the controller's memory: zeroing it is most of what the thread does */
#define ZEROED_BYTES	(3 * FAKE_LOCAL_BYTES / 4)

struct zeroing {
	struct ucb_client client;
	struct ucb_pool *pool;
	struct core_calls *calls;
	void *memory;
	bool filled;
	int revokes;
	struct task_struct *holder;
	atomic_t rounds;
	struct completion held;
	struct completion over;
	struct completion left;
};

static int zero_thread(void *data)
{
	struct zeroing *z = data;
	dma_addr_t dma;
	void *addr;

	while ((addr = ucb_pool_zalloc(z->pool, GFP_KERNEL, &dma))) {
		ucb_pool_free(z->pool, addr, dma);
		atomic_inc(&z->rounds);
	}
	kthread_complete_and_exit(&z->over, 0);
}

/*
 * The other does not run meanwhile, wherever it is. Memory that goes back before
 * it has finished is somebody else's then.
 */
static int hold_thread(void *data)
{
	unsigned long end = jiffies + 3 * HZ / 4;
	struct zeroing *z = data;

	complete(&z->held);
	while (!atomic_read(&z->calls->frees) && time_before(jiffies, end))
		cpu_relax();
	if (atomic_read(&z->calls->frees)) {
		memset(z->memory, 0x5a, FAKE_LOCAL_BYTES);
		z->filled = true;
	}
	kthread_complete_and_exit(&z->left, 0);
}

/* The second time is right before the pool is reclaimed: its device goes first. */
static void zero_revoke(struct ucb_client *client, struct ucb_pool *pool)
{
	struct zeroing *z = container_of(client, struct zeroing, client);

	if (pool != z->pool || ++z->revokes != 2)
		return;
	wake_up_process(z->holder);
	wait_for_completion(&z->held);
}

static struct task_struct *zero_start(struct kunit *test, int (*fn)(void *), struct zeroing *z)
{
	unsigned int cpu = cpumask_last(cpu_online_mask);
	struct task_struct *task = kthread_create_on_cpu(fn, z, cpu, "ucb_zero/%u");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	return task;
}

/* What is zeroed is not taken away in the middle of it when the controller goes. */
static void pool_zero_removed(struct kunit *test)
{
	static const unsigned int flags[] = { 0, UCB_POOL_DEBUG };
	struct zeroing *z = kunit_kzalloc(test, sizeof(*z), GFP_KERNEL);
	unsigned long end = jiffies + 60 * HZ;
	struct fake_hcd *fake;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, z);
	z->client.revoke = zero_revoke;
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		fake = fake_hcd_get(test, FAKE_LOCALMEM);
		z->calls = core_calls_get(test, fake->udev);
		z->pool = limits_pool(test, fake, ZEROED_BYTES, 1, 0, flags[i]);
		z->memory = fake->local;
		z->filled = false;
		z->revokes = 0;
		atomic_set(&z->rounds, 0);
		init_completion(&z->held);
		init_completion(&z->over);
		init_completion(&z->left);
		z->holder = zero_start(test, hold_thread, z);
		sched_set_fifo(z->holder);
		wake_up_process(zero_start(test, zero_thread, z));
		while (atomic_read(&z->rounds) < 5 && time_before(jiffies, end))
			schedule_timeout_uninterruptible(1);
		KUNIT_EXPECT_GE(test, atomic_read(&z->rounds), 5);
		ucb_client_register(&z->client);
		fake_hcd_remove(fake);
		ucb_client_unregister(&z->client);
		wait_for_completion(&z->over);
		wait_for_completion(&z->left);
		/* not so where the end waits for what is held: there it is right */
		if (z->filled)
			KUNIT_EXPECT_NULL(test, memchr_inv(z->memory, 0x5a, FAKE_LOCAL_BYTES));
	}
}

struct late_free {
	struct hrtimer timer;
	struct usb_device *udev;
	size_t size;
	void *addr;
	dma_addr_t dma;
	int ret;
	bool hard;
	struct completion done;
};

static enum hrtimer_restart late_free_fn(struct hrtimer *timer)
{
	struct late_free *late = container_of(timer, struct late_free, timer);

	late->hard = in_hardirq();
	late->ret = ucb_free_coherent(late->udev, late->size, late->addr, late->dma);
	complete(&late->done);
	return HRTIMER_NORESTART;
}

/* C1, C2: free in hardirq, in softirq, with IRQs off, under a BH lock. */
static void pool_contexts(struct kunit *test)
{
	/* the last is not kept: its memory goes back through the worker */
	static const size_t sizes[] = { 64, 2048, 2049, 65536, 1500000 };
	struct fake_hcd *fake = kind_hcd(test);
	struct late_free *late = kunit_kzalloc(test, sizeof(*late), GFP_KERNEL);
	unsigned long flags;
	spinlock_t lock; /* held to free under, protects nothing */
	int i, how;

	KUNIT_ASSERT_NOT_NULL(test, late);
	spin_lock_init(&lock);
	late->udev = fake->udev;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		late->size = sizes[i];
		if (fake->kind == FAKE_LOCALMEM && late->size > FAKE_LOCAL_BYTES)
			continue;
		for (how = 0; how < 4; how++) {
			late->addr = ucb_alloc_coherent(fake->udev, late->size, GFP_KERNEL,
							&late->dma);
			KUNIT_ASSERT_NOT_NULL(test, late->addr);
			late->ret = 1;
			init_completion(&late->done);
			if (how == 0) {
				local_irq_save(flags);
				late->ret = ucb_free_coherent(late->udev, late->size,
							      late->addr, late->dma);
				local_irq_restore(flags);
			} else if (how == 1) {
				spin_lock_bh(&lock);
				late->ret = ucb_free_coherent(late->udev, late->size,
							      late->addr, late->dma);
				spin_unlock_bh(&lock);
			} else {
				hrtimer_setup(&late->timer, late_free_fn, CLOCK_MONOTONIC,
					      how == 2 ? HRTIMER_MODE_REL_HARD :
							 HRTIMER_MODE_REL_SOFT);
				hrtimer_start(&late->timer, 1000,
					      how == 2 ? HRTIMER_MODE_REL_HARD :
							 HRTIMER_MODE_REL_SOFT);
				wait_for_completion(&late->done);
				KUNIT_EXPECT_EQ(test, how == 2, late->hard);
			}
			KUNIT_EXPECT_EQ(test, 0, late->ret);
		}
	}
}

/* C11 in small: a miss that may not sleep is NULL, and the worker refills. */
static void pool_atomic_miss(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = limits_pool(test, fake, 4096, 0, 4, 0);
	unsigned long end = jiffies + 10 * HZ;
	dma_addr_t dma;
	void *addr;

	KUNIT_EXPECT_NULL(test, ucb_pool_alloc(pool, GFP_ATOMIC, &dma));
	while (!(addr = ucb_pool_alloc(pool, GFP_ATOMIC, &dma)) && time_before(jiffies, end))
		cond_resched();
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr, dma));
}

/* C24: the drop-in pair gives zeroes where the replaced call gave them. */
static void pool_dropin_zero(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	dma_addr_t dma;
	u8 *addr;
	int i;

	for (i = 0; i < 4; i++) {
		addr = ucb_alloc_coherent(fake->udev, 4096, GFP_KERNEL, &dma);
		KUNIT_ASSERT_NOT_NULL(test, addr);
		KUNIT_EXPECT_NULL(test, memchr_inv(addr, 0, 4096));
		memset(addr, 0xee, 4096);
		KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, 4096, addr, dma));
	}
	KUNIT_EXPECT_NULL(test, ucb_alloc_coherent(fake->udev, 0, GFP_KERNEL, &dma));
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, 1, NULL, 0));
}

/* The drop-in pair keeps the alignment of what it replaces. */
static void pool_dropin_alignment(struct kunit *test)
{
	static const size_t sizes[] = { 32, 33, 128, 512, 2048, 4096, 65536 };
	struct fake_hcd *fake = kind_hcd(test);
	dma_addr_t dma[2];
	void *addr[2];
	int i, n;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t align = fake->kind == FAKE_LOCALMEM ? 1 :
			       min_t(size_t, roundup_pow_of_two(sizes[i]), PAGE_SIZE);

		for (n = 0; n < 2; n++) {
			addr[n] = ucb_alloc_coherent(fake->udev, sizes[i], GFP_KERNEL, &dma[n]);
			KUNIT_ASSERT_NOT_NULL(test, addr[n]);
			KUNIT_EXPECT_TRUE(test, IS_ALIGNED((unsigned long)addr[n], align));
		}
		for (n = 0; n < 2; n++)
			KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, sizes[i], addr[n],
								   dma[n]));
	}
}

/* What is too large for the page allocator is refused, and that without a WARN. */
static void pool_too_large(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = limits_pool(test, fake, KMALLOC_MAX_SIZE, 0, 0, UCB_POOL_DEBUG);
	dma_addr_t dma;
	void *addr;

	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	if (addr)
		KUNIT_EXPECT_EQ(test, 0, ucb_pool_free(pool, addr, dma));
	addr = ucb_alloc_coherent(fake->udev, KMALLOC_MAX_SIZE + 1, GFP_KERNEL, &dma);
	if (addr)
		KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, KMALLOC_MAX_SIZE + 1,
							   addr, dma));
	if (fake->kind == FAKE_PIO)
		KUNIT_EXPECT_NULL(test, addr);
}

/*
 * A drop-in pool that was made after its device had been unbound by hand goes
 * with the controller too: nobody but the case has the device then.
 */
static void pool_dropin_unbound(struct kunit *test)
{
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_PIO);
	struct kref *ref = &fake->udev->dev.kobj.kref;
	unsigned long end = jiffies + 60 * HZ;
	dma_addr_t dma;

	device_release_driver(&fake->udev->dev);
	KUNIT_ASSERT_NOT_NULL(test, ucb_alloc_coherent(fake->udev, 64, GFP_KERNEL, &dma));
	fake_hcd_remove(fake);
	while (kref_read(ref) > 1 && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, 1, kref_read(ref));
}

struct odd {
	void *addr;
	dma_addr_t dma;
	size_t size;
};

#define ODD_MAX		(FAKE_LOCAL_BYTES >> 8)

static bool local_all_home(struct fake_hcd *fake)
{
	struct gen_pool *local = fake->hcd->localmem_pool;

	return gen_pool_avail(local) == gen_pool_size(local);
}

static void free_odd(void *odd)
{
	kvfree(odd);
}

/* C13: odd sizes from local memory, to the last byte; then all of it is back. */
static void pool_local_exhausted(struct kunit *test)
{
	static const size_t sizes[] = { 100001, 65537, 10007, 4097, 2049, 2047, 513, 33, 3, 1 };
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_LOCALMEM);
	struct odd *odd = kvcalloc(ODD_MAX, sizeof(*odd), GFP_KERNEL);
	unsigned long end;
	dma_addr_t dma;
	unsigned int s, i, step, nr = 0;

	KUNIT_ASSERT_NOT_NULL(test, odd);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_odd, odd));
	for (s = 0; s < ARRAY_SIZE(sizes); s++) {
		while (nr < ODD_MAX) {
			struct odd *o = &odd[nr];

			o->size = sizes[s];
			o->addr = ucb_alloc_coherent(fake->udev, o->size, GFP_KERNEL, &o->dma);
			if (!o->addr)
				break;
			expect_dma(test, fake, o->addr, o->dma);
			KUNIT_ASSERT_NULL(test, memchr_inv(o->addr, 0, o->size));
			memset(o->addr, nr % 251 + 1, o->size);
			nr++;
		}
	}
	kunit_info(test, "%u allocations", nr);
	KUNIT_EXPECT_LT(test, gen_pool_avail(fake->hcd->localmem_pool), 256);
	KUNIT_EXPECT_NULL(test, ucb_alloc_coherent(fake->udev, 1, GFP_ATOMIC, &dma));
	for (step = 0; step < 3; step++) {
		for (i = step; i < nr; i += 3) {
			struct odd *o = &odd[i];

			KUNIT_EXPECT_NULL(test, memchr_inv(o->addr, i % 251 + 1, o->size));
			KUNIT_ASSERT_EQ(test, 0, ucb_free_coherent(fake->udev, o->size, o->addr,
								   o->dma));
		}
	}
	/* given back by the worker */
	end = jiffies + 10 * HZ;
	while (!local_all_home(fake) && time_before(jiffies, end))
		cond_resched();
	KUNIT_EXPECT_TRUE(test, local_all_home(fake));
}

/* Keys are for page-granular memory with pages: elsewhere refused by name. */
static void pool_sgtable(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *plain = limits_pool(test, fake, 5000, 0, 0, 0);
	struct ucb_pool *pool = limits_pool(test, fake, 5000, 0, 0, UCB_POOL_RDMA);
	struct ucb_buf *buf = ucb_buf_alloc(pool, GFP_KERNEL);
	struct ucb_buf *no = ucb_buf_alloc(plain, GFP_KERNEL);
	struct sg_page_iter iter;
	struct sg_table sgt;
	size_t offset, done = 0;
	u8 *addr;
	int ret;

	KUNIT_ASSERT_NOT_NULL(test, buf);
	KUNIT_ASSERT_NOT_NULL(test, no);
	KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, ucb_buf_get_sgtable(no, &sgt, &offset));
	ret = ucb_buf_get_sgtable(buf, &sgt, &offset);
	if (fake->kind == FAKE_LOCALMEM) {
		KUNIT_EXPECT_EQ(test, -EOPNOTSUPP, ret);
	} else {
		KUNIT_ASSERT_EQ(test, 0, ret);
		addr = ucb_buf_addr(buf) - offset;
		memset(ucb_buf_addr(buf), 0x3c, 5000);
		for_each_sgtable_page(&sgt, &iter, 0) {
			/* the same bytes through the page as through the buffer */
			KUNIT_EXPECT_EQ(test, 0, memcmp(page_address(sg_page_iter_page(&iter)),
							addr + done, PAGE_SIZE));
			done += PAGE_SIZE;
		}
		KUNIT_EXPECT_GE(test, done, offset + 5000);
		sg_free_table(&sgt);
	}
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(buf));
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(no));
}

/* What a driver keeps is reclaimed; its handle then answers -ENODEV. */
static void pool_destroy_reclaims(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	const struct ucb_pool_params params = { .name = "kept", .size = 9000, .min = 1 };
	struct ucb_pool *pool = ucb_pool_create(fake->udev, &params);
	struct ucb_buf *buf;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pool));
	buf = ucb_buf_alloc(pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	ucb_pool_destroy(pool);
	KUNIT_EXPECT_EQ(test, -ENODEV, ucb_buf_free(buf));
	ucb_pool_destroy(NULL);
}

static void pool_reclaiming(struct kunit *test, struct fake_hcd *fake, gfp_t gfp, size_t size)
{
	const struct ucb_pool_params params = { .name = "noio", .size = 4096, .min = 1 };
	struct ucb_pool *pool = pool_get(test, fake->udev, &params);
	struct ucb_pool_stats stats;
	struct ucb_buf *bufs[8];
	dma_addr_t dma;
	unsigned int i;
	void *addr;

	fs_reclaim_acquire(GFP_KERNEL);
	for (i = 0; i < ARRAY_SIZE(bufs); i++)
		bufs[i] = ucb_buf_alloc(pool, gfp);
	addr = ucb_alloc_coherent(fake->udev, size, gfp, &dma);
	fs_reclaim_release(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, size, addr, dma));
	ucb_pool_get_stats(pool, &stats);
	KUNIT_EXPECT_GT_MSG(test, stats.core_allocs, 1,
			    "the core was not asked: this tests nothing");
	for (i = 0; i < ARRAY_SIZE(bufs); i++) {
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[i]));
	}
}

/*
 * C23: with GFP_NOIO, or GFP_NOFS, nothing under it waits for memory that I/O or a file
 * system must free, on any controller: lockdep sees it, with this thread marked as
 * reclaiming. Of two classes, that the USB core is asked each time.
 */
static void pool_noio(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);

	pool_reclaiming(test, fake, GFP_NOIO, 12345);
	pool_reclaiming(test, fake, GFP_NOFS, 23456);
}

static struct kunit_case pool_cases[] = {
	KUNIT_CASE_PARAM(pool_noio, kind_gen_params),
	KUNIT_CASE_PARAM(pool_alloc_free, kind_gen_params),
	KUNIT_CASE_PARAM(pool_limits, kind_gen_params),
	KUNIT_CASE_PARAM(pool_zero, kind_gen_params),
	KUNIT_CASE(pool_zero_removed),
	KUNIT_CASE_PARAM(pool_contexts, kind_gen_params),
	KUNIT_CASE_PARAM(pool_atomic_miss, kind_gen_params),
	KUNIT_CASE_PARAM(pool_dropin_zero, kind_gen_params),
	KUNIT_CASE_PARAM(pool_dropin_alignment, kind_gen_params),
	KUNIT_CASE_PARAM(pool_too_large, kind_gen_params),
	KUNIT_CASE(pool_dropin_unbound),
	KUNIT_CASE(pool_local_exhausted),
	KUNIT_CASE_PARAM(pool_sgtable, kind_gen_params),
	KUNIT_CASE_PARAM(pool_destroy_reclaims, kind_gen_params),
	{}
};

static struct kunit_suite pool_suite = {
	.name = "ucb_pool",
	.test_cases = pool_cases,
};

kunit_test_suite(pool_suite);

MODULE_DESCRIPTION("KUnit: pools on every kind of controller");
MODULE_LICENSE("GPL");
