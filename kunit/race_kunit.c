// SPDX-License-Identifier: GPL-2.0
/*
 * C6: two CPUs free one buffer at the same time; one of them succeeds. Each round
 * is a handover between the two. Where they have one processor of the host it takes
 * two of that's time slices, and 100,000 would take longer than a case may.
 */

#include <linux/kthread.h>

#include <ucb/pool.h>

#include "fake_hcd.h"

struct race {
	struct ucb_pool *pool;
	void *addr;
	dma_addr_t dma;
	atomic_t arrived;
	atomic_t won;
	atomic_t already;
	int round;
};

static void race_free_once(struct race *race)
{
	int ret = ucb_pool_free(race->pool, race->addr, race->dma);

	if (!ret)
		atomic_inc(&race->won);
	else if (ret == -EALREADY)
		atomic_inc(&race->already);
}

static int race_thread(void *data)
{
	struct race *race = data;
	int seen = 0;

	while (!kthread_should_stop()) {
		/* pairs with the release that starts a round */
		int round = smp_load_acquire(&race->round);

		if (round == seen) {
			cpu_relax();
			continue;
		}
		seen = round;
		race_free_once(race);
		atomic_inc(&race->arrived);
	}
	return 0;
}

#define RACES		100000
#define RACES_LEAST	1000
#define RACES_TIME	(120 * HZ)

static void race_double_free(struct kunit *test)
{
	const struct ucb_pool_params params = { .name = "race", .size = 256, .max = 8 };
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_PIO);
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	unsigned long end = jiffies + RACES_TIME;
	struct task_struct *task;
	int here, i, bad = 0;

	KUNIT_ASSERT_NOT_NULL(test, race);
	KUNIT_ASSERT_GT(test, num_online_cpus(), 1);
	race->pool = pool_get(test, fake->udev, &params);
	here = raw_smp_processor_id();
	KUNIT_ASSERT_EQ(test, 0, set_cpus_allowed_ptr(current, cpumask_of(here)));
	task = kthread_create_on_cpu(race_thread, race, cpumask_any_but(cpu_online_mask, here),
				     "ucb_race/%u");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	wake_up_process(task);
	for (i = 1; i <= RACES && !bad; i++) {
		if (i > RACES_LEAST && time_after(jiffies, end))
			break;
		race->addr = ucb_pool_alloc(race->pool, GFP_KERNEL, &race->dma);
		atomic_set(&race->arrived, 0);
		atomic_set(&race->won, 0);
		atomic_set(&race->already, 0);
		/* pairs with the acquire: the buffer is set before the round */
		smp_store_release(&race->round, i);
		race_free_once(race);
		while (!atomic_read_acquire(&race->arrived))
			cpu_relax();
		bad = !race->addr || atomic_read(&race->won) != 1 ||
		      atomic_read(&race->already) != 1;
	}
	kthread_stop(task);
	KUNIT_EXPECT_EQ(test, 0, bad);
	kunit_info(test, "%d races", i - 1);
}

static struct kunit_case race_cases[] = {
	KUNIT_CASE_SLOW(race_double_free),
	{}
};

static struct kunit_suite race_suite = {
	.name = "ucb_race",
	.test_cases = race_cases,
};

kunit_test_suite(race_suite);

MODULE_DESCRIPTION("Suite: frees that race");
MODULE_LICENSE("GPL");
