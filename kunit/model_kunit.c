// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls against a model. Workers on all CPUs take and give back buffers
 * of shared pools, of the drop-in pool and of a pool of their own, rightly and
 * in each wrong way, from task context, with IRQs or softirqs off and from an
 * interrupt on another CPU, while the controller may be unplugged. The model
 * knows what each worker has, so every answer is known.
 *
 * Not in the model: a second free of a buffer that has been given out again, for
 * that cannot be told from a right one. Second frees are of a worker's own pool.
 */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/smp.h>

#include "core_calls.h"
#include "fake_hcd.h"

static unsigned int ops = 20000;
module_param(ops, uint, 0444);
MODULE_PARM_DESC(ops, "random calls in all");

static unsigned long seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of the random calls; 0 for another each time");

#define WORKERS		4
#define SHARED		3
#define SLOTS		5	/* of each worker in each pool */
#define MAX_SIZE	9000

enum what { ALLOC, ZALLOC, FREE, DROPIN_ALLOC, DROPIN_FREE };

enum context { TASK, IRQS_OFF, BH_OFF, OTHER_CPU, CONTEXTS };

/* One call, to be made in some context. */
struct call {
	enum what what;
	enum context context;
	struct ucb_pool *pool;
	struct usb_device *udev;
	size_t size;
	gfp_t gfp;
	void *addr;
	dma_addr_t dma;
	int ret;
};

/* What a worker has, if @addr is set. */
struct slot {
	void *addr;
	dma_addr_t dma;
	size_t size;
	u8 tag;
	bool filled;
};

struct shared {
	struct ucb_pool *pool;
	size_t size;
	bool prefilled;
};

/*
 * @unplugged: set when the controller is about to go; from then on nobody
 *	touches the memory, and every call may say -ENODEV. Workers look at it
 *	under RCU.
 */
struct model {
	struct fake_hcd *fake;
	bool pio;
	struct shared shared[SHARED];
	bool unplugged;
	unsigned int ops;
};

struct worker {
	struct model *model;
	struct task_struct *task;
	struct rnd_state rnd;
	struct slot shared[SHARED][SLOTS];
	struct slot dropin[SLOTS];
	struct ucb_pool *own;
	struct slot own_slots[SLOTS];
	unsigned int done;
	char failure[160];
};

static void make_call(void *data)
{
	struct call *call = data;

	switch (call->what) {
	case ALLOC:
		call->addr = ucb_pool_alloc(call->pool, call->gfp, &call->dma);
		break;
	case ZALLOC:
		call->addr = ucb_pool_zalloc(call->pool, call->gfp, &call->dma);
		break;
	case FREE:
		call->ret = ucb_pool_free(call->pool, call->addr, call->dma);
		break;
	case DROPIN_ALLOC:
		call->addr = ucb_alloc_coherent(call->udev, call->size, call->gfp, &call->dma);
		break;
	case DROPIN_FREE:
		call->ret = ucb_free_coherent(call->udev, call->size, call->addr, call->dma);
		break;
	}
}

static void call_in_context(struct call *call)
{
	unsigned long flags;
	int cpu;

	call->gfp = call->context == TASK ? GFP_KERNEL : GFP_ATOMIC;
	switch (call->context) {
	case IRQS_OFF:
		local_irq_save(flags);
		make_call(call);
		local_irq_restore(flags);
		break;
	case BH_OFF:
		local_bh_disable();
		make_call(call);
		local_bh_enable();
		break;
	case OTHER_CPU:
		cpu = cpumask_any_but(cpu_online_mask, raw_smp_processor_id());
		if (cpu < nr_cpu_ids && !smp_call_function_single(cpu, make_call, call, 1))
			break;
		fallthrough;
	default:
		make_call(call);
	}
}

static u32 pick(struct worker *worker, u32 nr)
{
	return prandom_u32_state(&worker->rnd) % nr;
}

static bool going(struct worker *worker)
{
	return READ_ONCE(worker->model->unplugged);
}

/* The first that goes wrong ends the worker. */
static __printf(2, 3) void fail(struct worker *worker, const char *format, ...)
{
	va_list args;
	int nr;

	if (worker->failure[0])
		return;
	nr = scnprintf(worker->failure, sizeof(worker->failure), "call %u: ", worker->done);
	va_start(args, format);
	vsnprintf(worker->failure + nr, sizeof(worker->failure) - nr, format, args);
	va_end(args);
}

static void expect(struct worker *worker, struct call *call, int want, const char *what)
{
	call_in_context(call);
	if (call->ret == want || (call->ret == -ENODEV && going(worker)))
		return;
	fail(worker, "%s in context %d gave %d, not %d", what, call->context, call->ret, want);
}

/* The slot has got @call's buffer: is it whole, and nobody else's? */
static void slot_fill(struct worker *worker, struct slot *slot, struct call *call, bool zeroed)
{
	slot->addr = call->addr;
	slot->dma = call->dma;
	slot->size = call->size;
	slot->tag = pick(worker, 255) + 1;
	slot->filled = false;
	rcu_read_lock();
	if (!going(worker)) {
		if (zeroed && memchr_inv(slot->addr, 0, slot->size))
			fail(worker, "%zu bytes are not zeroed", slot->size);
		memset(slot->addr, slot->tag, slot->size);
		slot->filled = true;
	}
	rcu_read_unlock();
	if (worker->model->pio && ~slot->dma)
		fail(worker, "a DMA address from a PIO controller");
}

static void slot_check(struct worker *worker, struct slot *slot)
{
	rcu_read_lock();
	if (slot->filled && !going(worker) && memchr_inv(slot->addr, slot->tag, slot->size))
		fail(worker, "%zu bytes were changed by somebody else", slot->size);
	rcu_read_unlock();
}

/* A miss of memory, where none may be left: what was freed waits for the worker. */
static bool short_of_memory(struct worker *worker)
{
	return going(worker) || worker->model->fake->kind == FAKE_LOCALMEM;
}

static void shared_alloc(struct worker *worker, struct shared *shared, struct slot *slot,
			 struct call *call)
{
	call->pool = shared->pool;
	call->size = shared->size;
	call->what = pick(worker, 2) ? ALLOC : ZALLOC;
	call_in_context(call);
	if (call->addr)
		slot_fill(worker, slot, call, call->what == ZALLOC);
	else if (shared->prefilled ? !going(worker) :
				     call->context == TASK && !short_of_memory(worker))
		/* no worker takes more than its part of max */
		fail(worker, "no buffer in context %d", call->context);
}

/* A free that is wrong in one way. */
static void shared_misuse(struct worker *worker, unsigned int pool, struct slot *slot,
			  struct call *call)
{
	struct shared *shared = worker->model->shared;
	struct ucb_buf *buf;

	call->what = FREE;
	call->pool = shared[pool].pool;
	call->addr = slot->addr;
	call->dma = slot->dma;
	switch (pick(worker, 7)) {
	case 0:
		call->dma += 1 + pick(worker, 4096);
		expect(worker, call, -EINVAL, "wrong dma");
		break;
	case 1:
		if (slot->size == 1)
			break;
		call->addr += 1 + pick(worker, slot->size - 1);
		expect(worker, call, -ENOENT, "inside a buffer");
		break;
	case 2:
		call->pool = shared[(pool + 1) % SHARED].pool;
		expect(worker, call, -ENOENT, "of another pool");
		break;
	case 3:
		call->addr = call;
		expect(worker, call, -ENOENT, "on the stack");
		break;
	case 4:
		call->addr = NULL;
		expect(worker, call, -ENOENT, "NULL");
		break;
	case 5:
		call->what = DROPIN_FREE;
		call->size = slot->size;
		expect(worker, call, -ENOENT, "a pool's buffer by the drop-in call");
		break;
	case 6:
		buf = ucb_buf_get(call->pool, slot->addr);
		if (IS_ERR(buf)) {
			if (!going(worker))
				fail(worker, "no handle of a live buffer");
			break;
		}
		if (!ucb_buf_busy_get(buf)) {
			expect(worker, call, -EBUSY, "busy");
			ucb_buf_busy_put(buf);
		} else if (!going(worker)) {
			fail(worker, "a live buffer cannot be made busy");
		}
		ucb_buf_put(buf);
		break;
	}
}

static void shared_op(struct worker *worker, struct call *call)
{
	unsigned int pool = pick(worker, SHARED);
	struct slot *slot = &worker->shared[pool][pick(worker, SLOTS)];
	struct shared *shared = &worker->model->shared[pool];

	if (!slot->addr) {
		shared_alloc(worker, shared, slot, call);
		return;
	}
	slot_check(worker, slot);
	if (pick(worker, 3) == 0) {
		shared_misuse(worker, pool, slot, call);
		slot_check(worker, slot);
		return;
	}
	call->what = FREE;
	call->pool = shared->pool;
	call->addr = slot->addr;
	call->dma = slot->dma;
	expect(worker, call, 0, "a right free");
	slot->addr = NULL;
}

static void dropin_op(struct worker *worker, struct call *call)
{
	struct slot *slot = &worker->dropin[pick(worker, SLOTS)];

	if (!slot->addr) {
		call->what = DROPIN_ALLOC;
		call->size = 1 + pick(worker, MAX_SIZE);
		call_in_context(call);
		if (call->addr)
			slot_fill(worker, slot, call, call->size > 2048);
		else if (call->context == TASK && !short_of_memory(worker))
			fail(worker, "no %zu bytes by the drop-in call", call->size);
		return;
	}
	slot_check(worker, slot);
	call->what = DROPIN_FREE;
	call->addr = slot->addr;
	call->dma = slot->dma;
	call->size = slot->size;
	switch (pick(worker, 8)) {
	case 0:
		call->size += 1 + pick(worker, 4096);
		expect(worker, call, -EINVAL, "more bytes than allocated");
		break;
	case 1:
		call->size = pick(worker, slot->size);
		expect(worker, call, -EINVAL, "fewer bytes than allocated");
		break;
	case 2:
		call->dma ^= 0x40;
		expect(worker, call, -EINVAL, "wrong dma by the drop-in call");
		break;
	default:
		expect(worker, call, 0, "a right free by the drop-in call");
		slot->addr = NULL;
		return;
	}
	slot_check(worker, slot);
}

static void own_make(struct worker *worker)
{
	static const unsigned int flags[] = { 0, UCB_POOL_ZERO, UCB_POOL_DEBUG, UCB_POOL_RDMA };
	const struct ucb_pool_params params = {
		.name = "own",
		.size = 1 + pick(worker, MAX_SIZE),
		.min = pick(worker, SLOTS),
		.max = SLOTS,
		.flags = flags[pick(worker, ARRAY_SIZE(flags))],
	};

	worker->own = ucb_pool_create(worker->model->fake->udev, &params);
	if (IS_ERR(worker->own)) {
		if (!short_of_memory(worker))
			fail(worker, "no pool of %zu bytes: %ld", params.size,
			     PTR_ERR(worker->own));
		worker->own = NULL;
	}
}

/* With what the worker has of it; a handle that is left says what happened. */
static void own_destroy(struct worker *worker)
{
	struct ucb_buf *left = ucb_buf_alloc(worker->own, GFP_KERNEL);
	int ret;

	ucb_pool_destroy(worker->own);
	worker->own = NULL;
	memset(worker->own_slots, 0, sizeof(worker->own_slots));
	if (!left)
		return;
	ret = ucb_buf_free(left);
	if (ret != -ENODEV)
		fail(worker, "a buffer of a destroyed pool gave %d", ret);
}

static void own_op(struct worker *worker, struct call *call)
{
	struct slot *slot = &worker->own_slots[pick(worker, SLOTS)];

	if (!worker->own) {
		own_make(worker);
		return;
	}
	if (!pick(worker, 64)) {
		own_destroy(worker);
		return;
	}
	call->pool = worker->own;
	if (!slot->addr) {
		call->what = ALLOC;
		call->size = 1;
		call_in_context(call);
		if (call->addr)
			slot_fill(worker, slot, call, false);
		else if (call->context == TASK && !short_of_memory(worker))
			fail(worker, "no buffer of a pool of its own");
		return;
	}
	slot_check(worker, slot);
	call->what = FREE;
	call->addr = slot->addr;
	call->dma = slot->dma;
	expect(worker, call, 0, "a right free of its own pool");
	slot->addr = NULL;
	if (pick(worker, 2)) {
		call->context = pick(worker, CONTEXTS);
		expect(worker, call, -EALREADY, "a second free");
	}
}

static int worker_thread(void *data)
{
	struct worker *worker = data;
	struct model *model = worker->model;

	while (worker->done < model->ops && !worker->failure[0]) {
		struct call call = {
			.context = pick(worker, CONTEXTS),
			.udev = model->fake->udev,
		};

		switch (pick(worker, 5)) {
		case 0:
			dropin_op(worker, &call);
			break;
		case 1:
			own_op(worker, &call);
			break;
		default:
			shared_op(worker, &call);
		}
		WRITE_ONCE(worker->done, worker->done + 1);
		cond_resched();
	}
	return 0;
}

static void give_back(struct worker *worker, struct slot *slot, struct call *call)
{
	if (!slot->addr)
		return;
	slot_check(worker, slot);
	call->context = TASK;
	call->udev = worker->model->fake->udev;
	call->addr = slot->addr;
	call->dma = slot->dma;
	call->size = slot->size;
	expect(worker, call, 0, "the last free");
	slot->addr = NULL;
}

/* What is still out goes home. */
static void worker_end(struct worker *worker)
{
	int i, pool;

	for (i = 0; i < SLOTS; i++) {
		struct call call = { .what = DROPIN_FREE };

		give_back(worker, &worker->dropin[i], &call);
		call.what = FREE;
		for (pool = 0; pool < SHARED; pool++) {
			call.pool = worker->model->shared[pool].pool;
			give_back(worker, &worker->shared[pool][i], &call);
		}
	}
	if (worker->own)
		own_destroy(worker);
}

static void model_pools(struct kunit *test, struct model *model, struct rnd_state *rnd)
{
	static const unsigned int flags[] = { 0, UCB_POOL_DEBUG, UCB_POOL_RDMA };
	int i;

	for (i = 0; i < SHARED; i++) {
		struct shared *shared = &model->shared[i];
		struct ucb_pool_params params = {
			.name = "shared",
			.size = 1 + prandom_u32_state(rnd) % MAX_SIZE,
			.max = WORKERS * SLOTS,
			.flags = flags[prandom_u32_state(rnd) % ARRAY_SIZE(flags)],
		};

		shared->size = params.size;
		shared->prefilled = i == 0;
		if (shared->prefilled)
			params.min = params.max;
		shared->pool = pool_get(test, model->fake->udev, &params);
	}
}

static void model_unplug(struct model *model, struct worker *workers, unsigned int when)
{
	while (READ_ONCE(workers[0].done) < when && !READ_ONCE(workers[0].failure[0]))
		schedule_timeout_uninterruptible(1);
	WRITE_ONCE(model->unplugged, true);
	synchronize_rcu();
	fake_hcd_remove(model->fake);
}

/* All that came from the controller has gone back to it. */
static void model_expect_flat(struct kunit *test, struct model *model, struct core_calls *calls)
{
	unsigned long end = jiffies + 20 * HZ;
	int i;

	for (i = 0; i < SHARED; i++)
		kunit_release_action(test, pool_destroy, model->shared[i].pool);
	if (!model->unplugged && !fake_is_real(model->fake->kind))
		fake_hcd_remove(model->fake);
	if (fake_is_real(model->fake->kind))
		return;	/* its drop-in pool stays */
	while (atomic_read(&calls->got) != atomic_read(&calls->frees) && time_before(jiffies, end))
		schedule_timeout_uninterruptible(1);
	KUNIT_EXPECT_EQ(test, atomic_read(&calls->got), atomic_read(&calls->frees));
}

static void model_run(struct kunit *test, unsigned long this_seed, unsigned int nr_ops,
		      bool unplug)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	struct worker *workers = kunit_kcalloc(test, WORKERS, sizeof(*workers), GFP_KERNEL);
	struct core_calls *calls;
	struct rnd_state rnd;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, model);
	KUNIT_ASSERT_NOT_NULL(test, workers);
	kunit_info(test, "%u calls, seed=%lu%s", nr_ops, this_seed, unplug ? ", unplug" : "");
	prandom_seed_state(&rnd, this_seed);
	model->fake = kind_hcd(test);
	model->pio = model->fake->kind == FAKE_PIO || model->fake->kind == REAL_DUMMY;
	model->ops = nr_ops / WORKERS;
	calls = core_calls_get(test, model->fake->udev);
	model_pools(test, model, &rnd);

	for (i = 0; i < WORKERS; i++) {
		workers[i].model = model;
		prandom_seed_state(&workers[i].rnd, this_seed + i + 1);
		workers[i].task = kthread_create(worker_thread, &workers[i], "ucb_model/%d", i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(workers[i].task));
		get_task_struct(workers[i].task);
	}
	for (i = 0; i < WORKERS; i++)
		wake_up_process(workers[i].task);
	if (unplug)
		model_unplug(model, workers, model->ops / 2);
	for (i = 0; i < WORKERS; i++) {
		while (READ_ONCE(workers[i].done) < model->ops &&
		       !READ_ONCE(workers[i].failure[0]))
			schedule_timeout_uninterruptible(1);
		kthread_stop(workers[i].task);
		put_task_struct(workers[i].task);
	}
	for (i = 0; i < WORKERS; i++) {
		worker_end(&workers[i]);
		KUNIT_EXPECT_STREQ(test, workers[i].failure, "");
	}
	model_expect_flat(test, model, calls);
}

static unsigned long model_seed(void)
{
	return seed ?: get_random_u32() | 1;
}

static void model_calls(struct kunit *test)
{
	model_run(test, model_seed(), ops / 8, false);
}

static void model_unplugged(struct kunit *test)
{
	const struct fake_param *param = test->param_value;

	if (fake_is_real(param->kind))
		return;	/* not ours to remove */
	model_run(test, model_seed(), ops / 8, true);
}

static struct kunit_case model_cases[] = {
	KUNIT_CASE_PARAM_ATTR(model_calls, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(model_unplugged, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite model_suite = {
	.name = "ucb_model",
	.test_cases = model_cases,
};

kunit_test_suite(model_suite);

MODULE_DESCRIPTION("KUnit: random calls against a model");
MODULE_LICENSE("GPL");
