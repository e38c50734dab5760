// SPDX-License-Identifier: GPL-2.0
/*
 * All ways in which a registration ends, in the middle of a hostile peer's READs
 * and WRITEs: each alone, and each two with the second right behind the first.
 * Whichever does the work, each is over in bounded time, and from then on the
 * peer, which goes on, reaches nothing.
 *
 * And a driver that is removed with its module, which it must not be called in
 * any more. The bridge's own cannot go before that.
 *
 * Needs a device that isolates, named rxe0.
 */
#include <linux/module.h>

#include "../drivers/compat.h"
#include "attacker.h"
#include "own_rxe.h"
#include "shell.h"
#include "tenant.h"

/* Beside other guests an emulated one may stand still for a while. */
static unsigned int bound_ms = BOUND_MS;
module_param(bound_ms, uint, 0444);
MODULE_PARM_DESC(bound_ms, "the longest that an ending may take");

static bool all;
module_param(all, bool, 0444);
MODULE_PARM_DESC(all, "all pairs with a removal of the RDMA device, which takes long");

enum ending { NOTHING, DEREG, POOL, UNPLUG, RDMA };

struct run {
	struct fixture *f;
	struct ib_device *ibdev;
	struct ucb_pd *pd;
	struct marked m;
	struct ucb_mr *mr;
};

/* One ending, in a thread. */
struct end {
	struct run *run;
	enum ending ending;
	struct completion over;
	ktime_t start;
	s64 ms;
	int ret;
};

static int end_thread(void *data)
{
	struct end *end = data;
	struct run *run = end->run;

	switch (end->ending) {
	case DEREG:
		end->ret = ucb_mr_dereg(&run->mr);
		break;
	case POOL:
		ucb_pool_destroy(run->f->pool);
		break;
	case UNPLUG:
		fake_hcd_remove(run->f->hcd);
		break;
	case RDMA:
		end->ret = own_rxe_del();
		break;
	case NOTHING:
		break;
	}
	end->ms = ktime_ms_delta(ktime_get(), end->start);
	kthread_complete_and_exit(&end->over, 0);
}

/* @rare: only with the parameter "all" */
static const struct pair {
	const char *name;
	enum ending first;
	enum ending second;
	bool rare;
} pairs[] = {
	{ "dereg", DEREG },
	{ "pool", POOL },
	{ "unplug", UNPLUG },
	{ "RDMA device", RDMA },
	{ "dereg, pool", DEREG, POOL },
	{ "pool, dereg", POOL, DEREG },
	{ "dereg, unplug", DEREG, UNPLUG },
	{ "unplug, dereg", UNPLUG, DEREG },
	{ "pool, unplug", POOL, UNPLUG },
	{ "unplug, pool", UNPLUG, POOL },
	{ "dereg, RDMA device", DEREG, RDMA, true },
	{ "RDMA device, dereg", RDMA, DEREG, true },
	{ "pool, RDMA device", POOL, RDMA, true },
	{ "RDMA device, pool", RDMA, POOL },
	{ "unplug, RDMA device", UNPLUG, RDMA, true },
	{ "RDMA device, unplug", RDMA, UNPLUG, true },
};

static UCB_KUNIT_GEN_PARAMS(pair_gen_params, prev, desc)
{
	const struct pair *pair = prev ? (const struct pair *)prev + 1 : pairs;

	while (pair < pairs + ARRAY_SIZE(pairs) && pair->rare && !all)
		pair++;
	if (pair == pairs + ARRAY_SIZE(pairs))
		return NULL;
	strscpy(desc, pair->name, KUNIT_PARAM_DESC_SIZE);
	return pair;
}

static int ending_init(struct kunit *test)
{
	const struct ucb_pool_params params = {
		.name = "ending",
		.size = SZ_64K,
		.flags = UCB_POOL_RDMA,
	};
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	f->rxe = rdma_device_on("d0");
	KUNIT_ASSERT_NOT_NULL_MSG(test, f->rxe, "no RDMA device on the netdev d0");
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_rxe, f->rxe), 0);
	f->hcd = fake_hcd_get(test, FAKE_DMA);
	f->pool = ucb_pool_create(f->hcd->udev, &params);
	KUNIT_ASSERT_FALSE(test, IS_ERR(f->pool));
	test->priv = f;
	return 0;
}

/*
 * The RDMA device tells its clients that it goes, and waits for the owner's put
 * as there are queue pairs on the domain: so this is what ends.
 */
static void wait_closed(struct kunit *test, struct run *run, bool dereg)
{
	ktime_t end = ktime_add_ms(ktime_get(), BOUND_MS);
	struct ucb_mr *mr;

	if (!dereg) {
		wait_revoked(test, run->mr);
		return;
	}
	do {
		mr = ucb_mr_reg(run->pd, run->m.buf[0], LOCAL);
		if (!IS_ERR(mr))
			ucb_mr_dereg(&mr);
	} while (PTR_ERR_OR_ZERO(mr) != -ENODEV && ktime_before(ktime_get(), end));
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENODEV);
}

static void start_end(struct kunit *test, struct end *end, struct run *run, enum ending ending)
{
	struct task_struct *task;

	end->run = run;
	end->ending = ending;
	end->start = ktime_get();
	init_completion(&end->over);
	task = kthread_run(end_thread, end, "ucb_ending");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
}

/* Without an end, what follows would take its data away. */
static void wait_over(struct kunit *test, struct end *end)
{
	wait_for_completion(&end->over);
	KUNIT_EXPECT_EQ(test, end->ret, 0);
}

/* It is over, but for a removal that waits for its owner. */
static void wait_end(struct kunit *test, struct end *end, bool dereg)
{
	if (end->ending == RDMA) {
		wait_closed(test, end->run, dereg);
		end->ms = ktime_ms_delta(ktime_get(), end->start);
	} else {
		wait_over(test, end);
	}
	KUNIT_EXPECT_LT(test, end->ms, bound_ms);
}

static void ending_in_traffic(struct kunit *test)
{
	const struct pair *pair = test->param_value;
	bool has[RDMA + 1] = {};
	struct attacker *a[2];
	struct ucb_mr_remote r;
	struct end ends[2] = {};
	struct run run = {};
	struct peer *held;
	bool memory;
	int i;

	has[pair->first] = true;
	has[pair->second] = true;
	memory = !has[POOL] && !has[UNPLUG];
	run.f = test->priv;
	run.ibdev = has[RDMA] ? make_own(test) : run.f->rxe;
	run.pd = make_pd(test, run.ibdev);
	marked_get(test, &run.m);
	marked_fill(&run.m);
	run.mr = marked_reg(test, run.pd, &run.m, RD | WR);
	r = remote_of(test, run.mr);
	/* one queue pair stays on the domain when the attackers connect anew */
	held = peer_create(test, run.ibdev, ucb_pd_ib(run.pd), PAGE_SIZE);
	a[0] = attacker_start(test, run.ibdev, ucb_pd_ib(run.pd), IB_WR_RDMA_READ, &r);
	a[1] = attacker_start(test, run.ibdev, ucb_pd_ib(run.pd), IB_WR_RDMA_WRITE, &r);
	for (i = 0; i < ARRAY_SIZE(a); i++)
		attacker_wait(test, a[i], 2, true);

	start_end(test, &ends[0], &run, pair->first);
	start_end(test, &ends[1], &run, pair->second);
	wait_end(test, &ends[0], has[DEREG]);
	wait_end(test, &ends[1], has[DEREG]);
	kunit_info(test, "%lld ms, %lld ms", ends[0].ms, ends[1].ms);
	/* while the RDMA device alone goes, nothing else tells that it has let go */
	if (memory && !has[DEREG])
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&run.mr), 0);

	/* the memory is another's, or the kernel's, whose checks then see a use */
	if (memory)
		memset(marked_range(&run.m), CANARY, RANGE_LENGTH);
	for (i = 0; i < ARRAY_SIZE(a); i++)
		attacker_expect_refused(test, a[i]);
	if (memory)
		KUNIT_EXPECT_TRUE(test, marked_intact(&run.m, CANARY));
	for (i = 0; i < ARRAY_SIZE(a); i++) {
		kunit_release_action(test, attacker_stop, a[i]);
		KUNIT_EXPECT_FALSE(test, a[i]->leaked);
		kunit_release_action(test, peer_destroy, a[i]->peer);
	}
	kunit_release_action(test, peer_destroy, held);
	kunit_release_action(test, put_pd, run.pd);
	for (i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i].ending == RDMA)
			wait_over(test, &ends[i]);

	if (!memory && !has[DEREG])
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&run.mr), 0);
	for (i = 0; i < ARRAY_SIZE(run.m.buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(run.m.buf[i]), memory ? 0 : -ENODEV);
	if (!has[POOL])
		ucb_pool_destroy(run.f->pool);
}

struct tenant_lease ucb_tenant_lease;
EXPORT_SYMBOL_GPL(ucb_tenant_lease);

KUNIT_DEFINE_ACTION_WRAPPER(dealloc_pd, ib_dealloc_pd, struct ib_pd *);

/* A queue pair for the driver, with room for what it has it do. */
static struct peer *make_lease(struct kunit *test, struct ib_device *ibdev, struct ib_pd *ibpd)
{
	struct peer *peer = peer_create(test, ibdev, ibpd, PAGE_SIZE);

	peer->cap.max_send_wr = 16;
	peer->cap.max_recv_wr = 2;
	peer->sig = IB_SIGNAL_REQ_WR;
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	return peer;
}

/*
 * A driver is removed while its registration is READ and WRITTEN and its mapping
 * is given one key after the other.
 */
static void ending_rmmod(struct kunit *test)
{
	struct tenant_lease *lease = &ucb_tenant_lease;
	struct fixture *f = test->priv;
	struct attacker *a[2];
	struct ucb_mr_remote r;
	struct ib_pd *ibpd;
	struct peer *peer;
	ktime_t start;
	ktime_t end;
	s64 ms;
	int i;

	ibpd = ib_alloc_pd(f->rxe, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dealloc_pd, ibpd), 0);
	peer = make_lease(test, f->rxe, ibpd);
	*lease = (struct tenant_lease){ .udev = f->hcd->udev, .ibpd = ibpd, .qp = peer->near };
	KUNIT_ASSERT_EQ(test, shell("insmod /ko/tenant.ko"), 0);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(lease->desc, sizeof(lease->desc), &r),
			0);
	a[0] = attacker_start(test, f->rxe, ibpd, IB_WR_RDMA_READ, &r);
	a[1] = attacker_start(test, f->rxe, ibpd, IB_WR_RDMA_WRITE, &r);
	for (i = 0; i < ARRAY_SIZE(a); i++)
		attacker_wait(test, a[i], 2, true);
	end = ktime_add_ms(ktime_get(), BOUND_MS);
	while (atomic_read(&lease->rounds) < 3 && ktime_before(ktime_get(), end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_GE(test, atomic_read(&lease->rounds), 3);

	start = ktime_get();
	KUNIT_EXPECT_EQ(test, shell("rmmod tenant"), 0);
	ms = ktime_ms_delta(ktime_get(), start);
	kunit_info(test, "%lld ms, after %d keys", ms, atomic_read(&lease->rounds));
	KUNIT_EXPECT_LT(test, ms, BOUND_MS);
	KUNIT_EXPECT_EQ(test, lease->left, 0);
	for (i = 0; i < ARRAY_SIZE(a); i++) {
		attacker_expect_refused(test, a[i]);
		kunit_release_action(test, attacker_stop, a[i]);
		kunit_release_action(test, peer_destroy, a[i]->peer);
	}
	kunit_release_action(test, peer_destroy, peer);
	KUNIT_EXPECT_EQ(test, atomic_read(&ibpd->usecnt), 0);
	ucb_pool_destroy(f->pool);
}

static struct kunit_case ending_cases[] = {
	KUNIT_CASE_SLOW(ending_rmmod),
	KUNIT_CASE_PARAM_ATTR(ending_in_traffic, pair_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite ending_suite = {
	.name = "ucb_ending",
	.init = ending_init,
	.test_cases = ending_cases,
};

kunit_test_suite(ending_suite);

MODULE_DESCRIPTION("KUnit: registrations that end in the middle of traffic");
MODULE_LICENSE("GPL");
