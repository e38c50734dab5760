// SPDX-License-Identifier: GPL-2.0
/*
 * Whatever can fail does: each operation is repeated with its first, second,
 * ... allocation failing, until it needs no more of them. After each failure
 * nothing of it is left, and the same operation then succeeds.
 *
 * The kernel's fault injection fails allocations of the task that asks for it:
 * slab objects and pages, so DMA mappings too. That it does so where the task
 * may sleep has been set up by the guest. Local memory fails in the gen_pool.
 */
#include <linux/fault-inject.h>
#include <linux/fs.h>
#include <linux/mman.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "../drivers/compat.h"
#include "core_calls.h"
#include "reports.h"
#include "transfer.h"

#define MOST_FAULTS	2000

/*
 * An operation, and the undoing of it. What @op needs to have and keep is in the
 * fields below; it returns 0 or an errno and leaves nothing after an errno, or
 * says that it found something wrong.
 */
struct walk {
	int (*op)(struct walk *walk);
	void (*undo)(struct walk *walk);
	struct fake_hcd *fake;
	struct usb_device *udev;
	struct ucb_pool_params params;
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	struct ucb_buf **hold;
	unsigned int held;
	struct transfer *transfer;
	struct sg_table sgt;
	struct ucb_span *spans;
	unsigned int id;
	char __user *shown;
	bool wrong;
	size_t size;
	void *addr;
	dma_addr_t dma;
};

/* The @nth call of the gen_pool fails; counted down. */
static unsigned long failing_fit(unsigned long *map, unsigned long size, unsigned long start,
				 unsigned int nr, void *data, struct gen_pool *pool,
				 unsigned long start_addr)
{
	unsigned int *nth = data;

	if (*nth && !--*nth)
		return size;
	return gen_pool_first_fit(map, size, start, nr, NULL, pool, start_addr);
}

/* A fault that does not reach the caller was borne: by trying again, or so. */
static void walk_kernel_faults(struct kunit *test, struct walk *walk)
{
	unsigned int nth, left, failed = 0;
	int ret;

	for (nth = 1; nth < MOST_FAULTS; nth++) {
		current->fail_nth = nth;
		ret = walk->op(walk);
		left = current->fail_nth;
		current->fail_nth = 0;
		if (ret)
			failed++;
		else
			walk->undo(walk);
		KUNIT_EXPECT_FALSE_MSG(test, walk->wrong, "after fault %u", nth);
		if (left)
			break;
		ret = walk->op(walk);
		KUNIT_ASSERT_EQ_MSG(test, ret, 0, "not usable after fault %u", nth);
		walk->undo(walk);
	}
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "failed without a fault");
	KUNIT_EXPECT_LT(test, nth, MOST_FAULTS);
	KUNIT_EXPECT_GT(test, nth, 1);
	kunit_info(test, "%u faults, %u of them reached the caller", nth - 1, failed);
}

static void walk_local_faults(struct kunit *test, struct walk *walk)
{
	struct gen_pool *local = walk->fake->hcd->localmem_pool;
	unsigned int nth, left, at;
	int ret;

	for (nth = 1; nth < MOST_FAULTS; nth++) {
		at = nth;
		gen_pool_set_algo(local, failing_fit, &at);
		ret = walk->op(walk);
		left = at;
		gen_pool_set_algo(local, NULL, NULL);
		if (!ret)
			walk->undo(walk);
		if (left)
			break;
		ret = walk->op(walk);
		KUNIT_ASSERT_EQ_MSG(test, ret, 0, "not usable after fault %u", nth);
		walk->undo(walk);
	}
	KUNIT_EXPECT_EQ_MSG(test, ret, 0, "failed without a fault");
	KUNIT_EXPECT_GT(test, nth, 1);
	kunit_info(test, "%u faults of local memory", nth - 1);
}

static void walk_all(struct kunit *test, struct walk *walk)
{
	walk_kernel_faults(test, walk);
	if (walk->fake->kind == FAKE_LOCALMEM)
		walk_local_faults(test, walk);
}

static struct walk *walk_on(struct kunit *test, struct fake_hcd *fake,
			    int (*op)(struct walk *), void (*undo)(struct walk *))
{
	struct walk *walk = kunit_kzalloc(test, sizeof(*walk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, walk);
	walk->op = op;
	walk->undo = undo;
	walk->fake = fake;
	walk->udev = walk->fake->udev;
	walk->params.name = "fault";
	walk->params.size = 5000;
	return walk;
}

static struct walk *walk_get(struct kunit *test, int (*op)(struct walk *),
			     void (*undo)(struct walk *))
{
	return walk_on(test, kind_hcd(test), op, undo);
}

static int op_create(struct walk *walk)
{
	walk->pool = ucb_pool_create(walk->udev, &walk->params);
	return PTR_ERR_OR_ZERO(walk->pool);
}

static void undo_create(struct walk *walk)
{
	ucb_pool_destroy(walk->pool);
	walk->pool = NULL;
}

static void fault_create(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_create, undo_create);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	if (walk->fake->kind == REAL_DUMMY)
		return;	/* as the fake PIO */
	walk->params.min = 5;
	walk_all(test, walk);
	core_calls_expect_flat(test, calls);
}

/* A pool by itself, of which fault_create() has walked the faults. */
static int create_unharmed(struct walk *walk)
{
	unsigned int nth = current->fail_nth;
	int ret;

	current->fail_nth = 0;
	ret = op_create(walk);
	current->fail_nth = nth;
	return ret;
}

/* A debug pool has records of stacks too, and stacks. */
static int op_debug(struct walk *walk)
{
	int ret = create_unharmed(walk);
	struct ucb_buf *buf;

	if (ret)
		return ret;
	buf = ucb_buf_alloc(walk->pool, GFP_KERNEL);
	if (buf)
		return ucb_buf_free(buf);
	ucb_pool_destroy(walk->pool);
	return -ENOMEM;
}

static void fault_debug(struct kunit *test)
{
	struct walk *walk = walk_on(test, fake_hcd_get(test, FAKE_PIO), op_debug, undo_create);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	walk->params.flags = UCB_POOL_DEBUG;
	walk_kernel_faults(test, walk);
	core_calls_expect_flat(test, calls);
}

/* The first buffer of a pool: there is none that could come home. */
static int op_wait(struct walk *walk)
{
	int ret = create_unharmed(walk);

	if (ret)
		return ret;
	walk->buf = ucb_buf_alloc_wait(walk->pool, GFP_KERNEL, HZ / 10);
	walk->wrong = walk->buf == ERR_PTR(-ETIMEDOUT);
	if (IS_ERR(walk->buf))
		ucb_pool_destroy(walk->pool);
	return PTR_ERR_OR_ZERO(walk->buf);
}

static void undo_wait(struct walk *walk)
{
	ucb_buf_free(walk->buf);
	undo_create(walk);
}

static void fault_wait(struct kunit *test)
{
	struct walk *walk = walk_on(test, fake_hcd_get(test, FAKE_PIO), op_wait, undo_wait);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	walk_kernel_faults(test, walk);
	core_calls_expect_flat(test, calls);
}

#define FEW		1
#define MORE		4

static unsigned int nr_bufs(struct walk *walk)
{
	struct ucb_pool_stats stats;

	ucb_pool_get_stats(walk->pool, &stats);
	return stats.buffers;
}

/* After an errno the limit is what it was, and what went over it has gone. */
static int op_resize(struct walk *walk)
{
	int ret = ucb_pool_resize(walk->pool, MORE, MORE);
	unsigned int nr = nr_bufs(walk);

	walk->wrong = ret ? nr > FEW : nr != MORE;
	return ret;
}

static void undo_resize(struct walk *walk)
{
	ucb_pool_resize(walk->pool, 0, FEW);
}

static void fault_resize(struct kunit *test)
{
	struct walk *walk = walk_on(test, fake_hcd_get(test, FAKE_PIO), op_resize, undo_resize);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	/* a block of its own for each */
	walk->params.size = 17000;
	walk->params.max = FEW;
	walk->pool = pool_get(test, walk->udev, &walk->params);
	walk_kernel_faults(test, walk);
	kunit_release_action(test, pool_destroy, walk->pool);
	core_calls_expect_flat(test, calls);
}

static void free_held(void *data)
{
	struct walk *walk = data;

	while (walk->held)
		ucb_buf_free(walk->hold[--walk->held]);
	kvfree(walk->hold);
}

/* Each buffer is a block of its own, and is kept: all come from the USB core. */
static int op_grow(struct walk *walk)
{
	struct ucb_buf *buf = ucb_buf_alloc(walk->pool, GFP_KERNEL);

	if (!buf)
		return -ENOMEM;
	walk->hold[walk->held++] = buf;
	return 0;
}

static void undo_nothing(struct walk *walk)
{
}

static void fault_grow(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_grow, undo_nothing);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	if (walk->fake->kind == REAL_DUMMY)
		return;	/* as the fake PIO */
	walk->params.size = 17000;
	walk->pool = pool_get(test, walk->udev, &walk->params);
	walk->hold = kvcalloc(2 * MOST_FAULTS, sizeof(*walk->hold), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, walk->hold);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, free_held, walk));
	walk_all(test, walk);
	kunit_release_action(test, free_held, walk);
	kunit_release_action(test, pool_destroy, walk->pool);
	core_calls_expect_flat(test, calls);
}

static int op_dropin(struct walk *walk)
{
	walk->addr = ucb_alloc_coherent(walk->udev, walk->size, GFP_KERNEL, &walk->dma);
	return walk->addr ? 0 : -ENOMEM;
}

static void undo_dropin(struct walk *walk)
{
	ucb_free_coherent(walk->udev, walk->size, walk->addr, walk->dma);
}

/* So large that it is not kept: each time it comes from the USB core. */
static void fault_dropin(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_dropin, undo_dropin);
	struct core_calls *calls = core_calls_get(test, walk->udev);

	if (fake_is_real(walk->fake->kind))
		return;	/* its drop-in pool outlives the case */
	walk->size = walk->fake->kind == FAKE_LOCALMEM ? 300000 : 1500000;
	walk_all(test, walk);
	fake_hcd_remove(walk->fake);
	core_calls_expect_flat(test, calls);
}

/* The first buffer of a device, with the pool that is made for it. */
static void fault_dropin_first(struct kunit *test)
{
	unsigned int nth, left = 0;
	dma_addr_t dma;
	void *addr;

	for (nth = 1; !left && nth < 100; nth++) {
		struct fake_hcd *fake = fake_hcd_get(test, FAKE_DMA);
		struct core_calls *calls = core_calls_get(test, fake->udev);

		current->fail_nth = nth;
		addr = ucb_alloc_coherent(fake->udev, 64, GFP_KERNEL, &dma);
		left = current->fail_nth;
		current->fail_nth = 0;
		if (!addr)
			addr = ucb_alloc_coherent(fake->udev, 64, GFP_KERNEL, &dma);
		KUNIT_ASSERT_NOT_NULL_MSG(test, addr, "not usable after fault %u", nth);
		KUNIT_EXPECT_EQ(test, 0, ucb_free_coherent(fake->udev, 64, addr, dma));
		fake_hcd_remove(fake);
		core_calls_expect_flat(test, calls);
		kunit_release_action(test, core_calls_end, calls);
		kunit_release_action(test, fake_hcd_free, fake);
	}
	kunit_info(test, "%u faults", nth - 2);
	KUNIT_EXPECT_GT(test, nth, 2);
}

static int op_sgtable(struct walk *walk)
{
	size_t offset;

	return ucb_buf_get_sgtable(walk->buf, &walk->sgt, &offset);
}

static void undo_sgtable(struct walk *walk)
{
	sg_free_table(&walk->sgt);
}

static void fault_sgtable(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_sgtable, undo_sgtable);

	if (walk->fake->kind == FAKE_LOCALMEM)
		return;	/* has no pages */
	walk->params.flags = UCB_POOL_RDMA;
	walk->params.size = 300000;
	walk->pool = pool_get(test, walk->udev, &walk->params);
	walk->buf = ucb_buf_alloc(walk->pool, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, walk->buf);
	walk_kernel_faults(test, walk);
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(walk->buf));
}

static int op_spans(struct walk *walk)
{
	unsigned int nr;
	int ret;

	walk->spans = ucb_pool_get_spans(walk->pool, &nr);
	if (IS_ERR(walk->spans))
		return PTR_ERR(walk->spans);
	ret = ucb_pool_get_sgtable(walk->pool, walk->spans, nr, &walk->sgt);
	if (ret)
		ucb_pool_put_spans(walk->pool, walk->spans);
	return ret;
}

static void undo_spans(struct walk *walk)
{
	sg_free_table(&walk->sgt);
	ucb_pool_put_spans(walk->pool, walk->spans);
}

static void fault_spans(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_spans, undo_spans);

	if (walk->fake->kind == FAKE_LOCALMEM)
		return;	/* has no pages */
	walk->params.flags = UCB_POOL_RDMA;
	walk->params.min = 8;
	walk->params.max = 8;
	walk->pool = pool_get(test, walk->udev, &walk->params);
	walk_kernel_faults(test, walk);
	/* no pin is left */
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(walk->pool, 0, 8));
}

/* The pool's files in debugfs are opened and read. */
static int op_show(struct walk *walk)
{
	static const char * const names[] = { "stats", "buffers", "preflight" };
	struct file *file = NULL;
	char path[64];
	ssize_t ret;
	loff_t pos;
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/ucb/%u/%s", walk->id, names[i]);
		scoped_with_init_fs()
			file = filp_open(path, O_RDONLY, 0);
		if (IS_ERR(file))
			return PTR_ERR(file);
		pos = 0;
		ret = file->f_op->read(file, walk->shown, PAGE_SIZE, &pos);
		filp_close(file, NULL);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static void fault_show(struct kunit *test)
{
	struct walk *walk = walk_on(test, fake_hcd_get(test, FAKE_PIO), op_show, undo_nothing);
	struct reports *reports = reports_get(test);

	walk->shown = (char __user *)kunit_vm_mmap(test, NULL, 0, PAGE_SIZE,
						   PROT_READ | PROT_WRITE,
						   MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NOT_NULL(test, (void __force *)walk->shown);
	/* no fault of this page is among those */
	KUNIT_ASSERT_EQ(test, 0, clear_user(walk->shown, PAGE_SIZE));
	walk->pool = pool_get(test, walk->udev, &walk->params);
	KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(walk->pool, walk, 0));
	walk->id = reports_pool(test, reports);
	walk_kernel_faults(test, walk);
}

static int op_submit(struct walk *walk)
{
	int ret = transfer_run(walk->transfer);

	return ret < 0 ? ret : 0;
}

static void fault_submit(struct kunit *test)
{
	struct walk *walk = walk_get(test, op_submit, undo_nothing);

	if (!fake_is_real(walk->fake->kind))
		return;	/* transfers nothing */
	walk->pool = pool_get(test, walk->udev, &walk->params);
	walk->transfer = transfer_get(test, walk->udev, walk->pool);
	KUNIT_ASSERT_EQ(test, 0, transfer_fill_control(walk->transfer, transfer_done,
						       walk->transfer));
	walk_kernel_faults(test, walk);
	/* it is not taken for being in flight */
	KUNIT_EXPECT_EQ(test, 0, ucb_buf_free(walk->transfer->buf));
}

static struct kunit_case fault_cases[] = {
	KUNIT_CASE_PARAM_ATTR(fault_create, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(fault_grow, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(fault_dropin, kind_gen_params, { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_SLOW(fault_dropin_first),
	KUNIT_CASE(fault_debug),
	KUNIT_CASE(fault_wait),
	KUNIT_CASE(fault_resize),
	KUNIT_CASE_PARAM(fault_sgtable, kind_gen_params),
	KUNIT_CASE_PARAM(fault_spans, kind_gen_params),
	KUNIT_CASE(fault_show),
	KUNIT_CASE_PARAM(fault_submit, kind_gen_params),
	{}
};

static struct kunit_suite fault_suite = {
	.name = "ucb_fault",
	.test_cases = fault_cases,
};

kunit_test_suite(fault_suite);

MODULE_DESCRIPTION("KUnit: failing whatever can fail");
MODULE_LICENSE("GPL");
