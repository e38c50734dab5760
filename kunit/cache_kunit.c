// SPDX-License-Identifier: GPL-2.0
/*
 * The per-CPU caches and the depot behind them: how often the lock is taken,
 * that no buffer is out of reach, waiting, limits, memory pressure.
 */

#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/prandom.h>
#include <linux/ptr_ring.h>
#include <linux/sched/signal.h>

#include <ucb/pool.h>

#include "fake_hcd.h"
#include "guest_files.h"

static struct ucb_pool *cache_pool(struct kunit *test, struct fake_hcd *fake,
				   size_t size, unsigned int min,
				   unsigned int max)
{
	const struct ucb_pool_params params = {
		.name = "cache", .size = size, .min = min, .max = max,
	};

	return pool_get(test, fake->udev, &params);
}

static struct ucb_pool_stats cache_stats(struct ucb_pool *pool)
{
	struct ucb_pool_stats stats;

	ucb_pool_get_stats(pool, &stats);
	return stats;
}

/* The rest of the test runs on @cpu; at its end anywhere again. */
static void cache_unpin(void *unused)
{
	set_cpus_allowed_ptr(current, cpu_possible_mask);
}

static void cache_pin(struct kunit *test, unsigned int cpu)
{
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(cpu)));
}

static unsigned int cache_last_cpu(struct kunit *test)
{
	unsigned int cpu = cpumask_last(cpu_online_mask);

	KUNIT_ASSERT_NE_MSG(test, cpu, 0, "the guest has one CPU");
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, cache_unpin, NULL));
	return cpu;
}

#define WALK_BUFS	256
#define WALK_OPS	20000

/* One lock for 16 operations at most, as many as are out at a time. */
static void cache_locks_one_cpu(struct kunit *test)
{
	struct ucb_pool *pool = cache_pool(test, fake_hcd_get(test, FAKE_DMA), 512,
					   WALK_BUFS, 0);
	struct ucb_buf **bufs = kunit_kcalloc(test, WALK_BUFS, sizeof(*bufs), GFP_KERNEL);
	struct rnd_state rnd;
	unsigned int out = 0, op, target = 0;
	u64 locks;

	KUNIT_ASSERT_NOT_NULL(test, bufs);
	cache_last_cpu(test);
	cache_pin(test, 0);
	prandom_seed_state(&rnd, 1);
	locks = cache_stats(pool).depot_locks;
	for (op = 0; op < WALK_OPS; op++) {
		while (out == target)
			target = prandom_u32_state(&rnd) % (WALK_BUFS + 1);
		if (out < target) {
			bufs[out] = ucb_buf_alloc(pool, GFP_ATOMIC);
			KUNIT_ASSERT_NOT_NULL(test, bufs[out]);
			out++;
		} else {
			KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[--out]));
		}
	}
	locks = cache_stats(pool).depot_locks - locks;
	KUNIT_EXPECT_LE(test, locks, WALK_OPS / 16);
	/* and what never leaves the cache takes none */
	while (out)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[--out]));
	locks = cache_stats(pool).depot_locks;
	for (op = 0; op < 1000; op++) {
		bufs[0] = ucb_buf_alloc(pool, GFP_ATOMIC);
		KUNIT_ASSERT_NOT_NULL(test, bufs[0]);
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[0]));
	}
	KUNIT_EXPECT_LE(test, cache_stats(pool).depot_locks - locks, 1);
	KUNIT_EXPECT_EQ(test, 0, cache_stats(pool).live);
}

struct relay {
	struct ucb_pool *pool;
	struct ptr_ring ring;
	atomic_t bad;
	struct completion done;
};

#define RELAY_BUFS	1024
#define RELAY_RING	256
#define RELAY_PAIRS	20000

static int relay_free(void *data)
{
	struct relay *relay = data;
	unsigned int n = 0;

	while (n < RELAY_PAIRS) {
		struct ucb_buf *buf = ptr_ring_consume(&relay->ring);

		if (!buf) {
			cond_resched();
			continue;
		}
		if (ucb_buf_free(buf))
			atomic_inc(&relay->bad);
		n++;
	}
	complete(&relay->done);
	return 0;
}

/* CPU 0 allocates, another frees: still one lock for 16 operations. */
static void cache_locks_two_cpus(struct kunit *test)
{
	struct relay *relay = kunit_kzalloc(test, sizeof(*relay), GFP_KERNEL);
	struct task_struct *task;
	unsigned int cpu, n = 0;
	u64 locks;

	KUNIT_ASSERT_NOT_NULL(test, relay);
	cpu = cache_last_cpu(test);
	relay->pool = cache_pool(test, fake_hcd_get(test, FAKE_DMA), 512, RELAY_BUFS,
				 RELAY_BUFS);
	init_completion(&relay->done);
	KUNIT_ASSERT_EQ(test, 0, ptr_ring_init(&relay->ring, RELAY_RING, GFP_KERNEL));
	task = kthread_create_on_cpu(relay_free, relay, cpu, "relay/%u");
	if (IS_ERR(task)) {
		ptr_ring_cleanup(&relay->ring, NULL);
		KUNIT_FAIL(test, "no thread: %ld", PTR_ERR(task));
		return;
	}
	cache_pin(test, 0);
	locks = cache_stats(relay->pool).depot_locks;
	wake_up_process(task);
	while (n < RELAY_PAIRS) {
		struct ucb_buf *buf = ucb_buf_alloc(relay->pool, GFP_ATOMIC);

		if (!buf) {
			/* at most the ring and two caches are out of 1024 */
			atomic_inc(&relay->bad);
			cond_resched();
			continue;
		}
		while (ptr_ring_produce(&relay->ring, buf))
			cond_resched();
		n++;
	}
	wait_for_completion(&relay->done);
	locks = cache_stats(relay->pool).depot_locks - locks;
	ptr_ring_cleanup(&relay->ring, NULL);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&relay->bad));
	KUNIT_EXPECT_LE(test, locks, 2 * RELAY_PAIRS / 16);
	KUNIT_EXPECT_EQ(test, 0, cache_stats(relay->pool).live);
}

#define REACH_MAX	512

/* All buffers of a pool can be had, whichever CPU's cache they are in. */
static void cache_reach(struct kunit *test, unsigned int max)
{
	struct ucb_pool *pool = cache_pool(test, kind_hcd(test), 64, max, max);
	struct ucb_buf **bufs = kunit_kcalloc(test, max, sizeof(*bufs), GFP_KERNEL);
	unsigned int i, cpu, last = cache_last_cpu(test);

	KUNIT_ASSERT_NOT_NULL(test, bufs);
	/* from all CPUs in turn */
	for (i = 0; i < max; i++) {
		cpu = i * (last + 1) / max;
		if (cpu_online(cpu))
			cache_pin(test, cpu);
		bufs[i] = ucb_buf_alloc(pool, GFP_ATOMIC);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	KUNIT_EXPECT_NULL(test, ucb_buf_alloc(pool, GFP_ATOMIC));
	cache_pin(test, 0);
	for (i = 0; i < max; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
	if (max == REACH_MAX)
		KUNIT_EXPECT_GT_MSG(test, cache_stats(pool).cached, 0,
				    "nothing is kept in a cache: this tests nothing");
	cache_pin(test, last);
	for (i = 0; i < max; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_ATOMIC);
		KUNIT_ASSERT_NOT_NULL_MSG(test, bufs[i], "buffer %u of %u", i, max);
	}
	for (i = 0; i < max; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
	KUNIT_EXPECT_EQ(test, 0, cache_stats(pool).live);
}

/* C22: max = min = 8, freed on CPU 0, all 8 wanted on another. */
static void cache_reach_few(struct kunit *test)
{
	cache_reach(test, 8);
}

static void cache_reach_many(struct kunit *test)
{
	cache_reach(test, REACH_MAX);
}

/* A CPU that goes offline strands nothing. */
static void cache_reach_offline(struct kunit *test)
{
	struct ucb_pool *pool = cache_pool(test, fake_hcd_get(test, FAKE_DMA), 64,
					   REACH_MAX, REACH_MAX);
	struct ucb_buf **bufs = kunit_kcalloc(test, REACH_MAX, sizeof(*bufs), GFP_KERNEL);
	unsigned int i, last = cache_last_cpu(test);

	KUNIT_ASSERT_NOT_NULL(test, bufs);
	cache_pin(test, last);
	for (i = 0; i < REACH_MAX; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_ATOMIC);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	for (i = 0; i < REACH_MAX; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
	KUNIT_EXPECT_GT(test, cache_stats(pool).cached, 0);
	cache_pin(test, 0);
	KUNIT_ASSERT_EQ(test, 0, remove_cpu(last));
	for (i = 0; i < REACH_MAX; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_ATOMIC);
		KUNIT_EXPECT_NOT_NULL_MSG(test, bufs[i], "buffer %u", i);
	}
	KUNIT_EXPECT_EQ(test, 0, add_cpu(last));
	for (i = 0; i < REACH_MAX; i++)
		if (bufs[i])
			KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
}

struct waiter {
	struct ucb_pool *pool;
	unsigned long timeout;
	struct ucb_buf *buf;
	struct completion done;
};

static int waiter_fn(void *data)
{
	struct waiter *waiter = data;

	allow_signal(SIGUSR1);
	waiter->buf = ucb_buf_alloc_wait(waiter->pool, GFP_KERNEL, waiter->timeout);
	complete(&waiter->done);
	return 0;
}

#define NR_WAITERS 4

/* More calls wait than there are buffers; each gets one, none is forgotten. */
static void cache_wait(struct kunit *test)
{
	struct ucb_pool *pool = cache_pool(test, fake_hcd_get(test, FAKE_DMA), 64,
					   REACH_MAX, REACH_MAX);
	struct ucb_buf **bufs = kunit_kcalloc(test, REACH_MAX, sizeof(*bufs), GFP_KERNEL);
	struct waiter *waiters = kunit_kcalloc(test, NR_WAITERS, sizeof(*waiters), GFP_KERNEL);
	struct task_struct *task;
	unsigned int i, round;

	KUNIT_ASSERT_NOT_NULL(test, bufs);
	KUNIT_ASSERT_NOT_NULL(test, waiters);
	for (i = 0; i < REACH_MAX; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	for (round = 0; round < 50; round++) {
		for (i = 0; i < NR_WAITERS; i++) {
			waiters[i].pool = pool;
			waiters[i].timeout = 60 * HZ;
			init_completion(&waiters[i].done);
			task = kthread_run(waiter_fn, &waiters[i], "waiter/%u", i);
			KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		}
		/* at once: some of them are on their way to waiting only */
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[0]));
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[1]));
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[2]));
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[3]));
		for (i = 0; i < NR_WAITERS; i++) {
			wait_for_completion(&waiters[i].done);
			bufs[i] = waiters[i].buf;
			KUNIT_ASSERT_FALSE(test, IS_ERR(bufs[i]));
		}
	}
	for (i = 0; i < REACH_MAX; i++)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[i]));
	/* with nobody waiting, caches are used again */
	KUNIT_EXPECT_GT(test, cache_stats(pool).cached, 0);
}

/* The three ways in which a wait ends without a buffer. */
static void cache_wait_ends(struct kunit *test)
{
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_DMA);
	const struct ucb_pool_params params = {
		.name = "wait", .size = 64, .min = 1, .max = 1,
	};
	struct ucb_pool *pool = ucb_pool_create(fake->udev, &params);
	struct waiter *waiter = kunit_kzalloc(test, sizeof(*waiter), GFP_KERNEL);
	struct task_struct *task;
	struct ucb_buf *buf;
	unsigned long start;

	KUNIT_ASSERT_NOT_NULL(test, waiter);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pool));
	buf = ucb_buf_alloc_wait(pool, GFP_KERNEL, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(buf));
	start = jiffies;
	KUNIT_EXPECT_EQ(test, -ETIMEDOUT, PTR_ERR(ucb_buf_alloc_wait(pool, GFP_KERNEL, 5)));
	KUNIT_EXPECT_TRUE(test, time_after_eq(jiffies, start + 5));

	waiter->pool = pool;
	waiter->timeout = MAX_SCHEDULE_TIMEOUT;
	init_completion(&waiter->done);
	task = kthread_run(waiter_fn, waiter, "waiter");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	/* until it has it: it may not have allowed the signal yet */
	do {
		send_sig(SIGUSR1, task, 1);
	} while (!wait_for_completion_timeout(&waiter->done, 1));
	KUNIT_EXPECT_EQ(test, -ERESTARTSYS, PTR_ERR(waiter->buf));

	reinit_completion(&waiter->done);
	task = kthread_run(waiter_fn, waiter, "waiter");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	/* waiting or not yet: it hears of the end */
	ucb_pool_destroy(pool);
	wait_for_completion(&waiter->done);
	KUNIT_EXPECT_EQ(test, -ENODEV, PTR_ERR(waiter->buf));
	KUNIT_EXPECT_EQ(test, -ENODEV, ucb_buf_free(buf));
}

#define PRESS_BUFS	64

/* Memory pressure takes idle blocks above min, and no others. */
static void cache_shrink(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_pool *pool = cache_pool(test, fake, 4096, 8, 0);
	struct ucb_buf *bufs[PRESS_BUFS];
	struct ucb_pool_stats stats;
	unsigned int i;

	for (i = 0; i < PRESS_BUFS; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	KUNIT_EXPECT_EQ(test, 0, press());
	KUNIT_EXPECT_EQ(test, 0, cache_stats(pool).core_frees);
	/* one stays with the driver */
	for (i = 1; i < PRESS_BUFS; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
	KUNIT_EXPECT_EQ(test, 0, press());
	stats = cache_stats(pool);
	KUNIT_EXPECT_EQ(test, 1, stats.live);
	KUNIT_EXPECT_EQ(test, 0, stats.cached);
	KUNIT_EXPECT_GE(test, stats.buffers, 8);
	KUNIT_EXPECT_LT(test, stats.buffers, 8 + 2 * 4);
	memset(ucb_buf_addr(bufs[0]), 1, 4096);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[0]));
	/* and the pool works as before */
	for (i = 0; i < PRESS_BUFS; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	for (i = 0; i < PRESS_BUFS; i++)
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_free(bufs[i]));
}

/* Limits go up and down; what is refused changes nothing. */
static void cache_resize(struct kunit *test)
{
	struct ucb_pool *pool = cache_pool(test, kind_hcd(test), 4096, 4, 8);
	struct ucb_buf *bufs[16];
	unsigned int i;

	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_resize(pool, 9, 8));
	for (i = 0; i < 8; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	KUNIT_EXPECT_NULL(test, ucb_buf_alloc(pool, GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(pool, 4, 16));
	for (; i < 16; i++) {
		bufs[i] = ucb_buf_alloc(pool, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, bufs[i]);
	}
	KUNIT_EXPECT_NULL(test, ucb_buf_alloc(pool, GFP_KERNEL));
	/* what is out stays out, and its blocks go when it comes home */
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(pool, 0, 4));
	KUNIT_EXPECT_EQ(test, 16, cache_stats(pool).live);
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(bufs[i]));
	KUNIT_EXPECT_LE(test, cache_stats(pool).buffers, 4);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(pool, 12, 0));
	KUNIT_EXPECT_GE(test, cache_stats(pool).buffers, 12);
}

/* The free that names the size, too. */
static void cache_free_sized(struct kunit *test)
{
	struct ucb_pool *pool = cache_pool(test, kind_hcd(test), 700, 1, 8);
	dma_addr_t dma;
	void *addr;

	addr = ucb_pool_alloc(pool, GFP_KERNEL, &dma);
	KUNIT_ASSERT_NOT_NULL(test, addr);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free_sized(pool, 699, addr, dma));
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free_sized(pool, 704, addr, dma));
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free_sized(pool, 700, addr, dma - 1));
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free_sized(pool, 700, addr + 1, dma));
	KUNIT_EXPECT_EQ(test, 1, cache_stats(pool).live);
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_free_sized(pool, 700, addr, dma));
	KUNIT_EXPECT_EQ(test, -EALREADY, ucb_pool_free_sized(pool, 700, addr, dma));
	KUNIT_EXPECT_EQ(test, 0, cache_stats(pool).live);
}

#define NR_TAKERS	4
#define TAKER_PART	3

struct taker {
	struct ucb_pool *pool;
	unsigned int misses;
	struct completion done;
};

static int taker_fn(void *data)
{
	struct ucb_buf *bufs[TAKER_PART];
	struct taker *taker = data;
	unsigned int i, round;

	for (round = 0; round < 60; round++) {
		for (i = 0; i < TAKER_PART; i++) {
			bufs[i] = ucb_buf_alloc(taker->pool, GFP_KERNEL);
			taker->misses += !bufs[i];
		}
		for (i = 0; i < TAKER_PART; i++)
			if (bufs[i])
				ucb_buf_free(bufs[i]);
		cond_resched();
	}
	complete(&taker->done);
	return 0;
}

/* Who takes no more than its part of max gets it, while others make the pool grow. */
static void cache_parts(struct kunit *test)
{
	struct taker *takers = kunit_kcalloc(test, NR_TAKERS, sizeof(*takers), GFP_KERNEL);
	const struct ucb_pool_params params = {
		.name = "parts", .size = 1024, .max = NR_TAKERS * TAKER_PART,
	};
	struct fake_hcd *fake = kind_hcd(test);
	struct task_struct *task;
	struct ucb_pool *pool;
	unsigned int i, nr;

	KUNIT_ASSERT_NOT_NULL(test, takers);
	for (nr = 0; nr < 8; nr++) {
		pool = ucb_pool_create(fake->udev, &params);
		KUNIT_ASSERT_FALSE(test, IS_ERR(pool));
		for (i = 0; i < NR_TAKERS; i++) {
			takers[i].pool = pool;
			init_completion(&takers[i].done);
			task = kthread_run(taker_fn, &takers[i], "taker/%u", i);
			KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		}
		for (i = 0; i < NR_TAKERS; i++)
			wait_for_completion(&takers[i].done);
		ucb_pool_destroy(pool);
	}
	for (i = 0; i < NR_TAKERS; i++)
		KUNIT_EXPECT_EQ_MSG(test, 0, takers[i].misses, "taker %u", i);
}

static struct kunit_case cache_cases[] = {
	KUNIT_CASE(cache_locks_one_cpu),
	KUNIT_CASE(cache_locks_two_cpus),
	KUNIT_CASE_PARAM(cache_reach_few, kind_gen_params),
	KUNIT_CASE_PARAM(cache_reach_many, kind_gen_params),
	KUNIT_CASE(cache_reach_offline),
	KUNIT_CASE(cache_wait),
	KUNIT_CASE(cache_wait_ends),
	KUNIT_CASE_PARAM(cache_parts, kind_gen_params),
	KUNIT_CASE_PARAM(cache_shrink, kind_gen_params),
	KUNIT_CASE_PARAM(cache_resize, kind_gen_params),
	KUNIT_CASE_PARAM(cache_free_sized, kind_gen_params),
	{}
};

static struct kunit_suite cache_suite = {
	.name = "ucb_cache",
	.test_cases = cache_cases,
};

kunit_test_suite(cache_suite);

MODULE_DESCRIPTION("Suite: per-CPU caches and the depot");
MODULE_LICENSE("GPL");
