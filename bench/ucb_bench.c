// SPDX-License-Identifier: GPL-2.0
/*
 * What one allocation and free cost, in guest instructions.
 *
 * For an emulated machine whose clock counts instructions (QEMU's -icount
 * shift=0) and that has one CPU: there the time stamp counter is the number of
 * instructions executed, and a run repeats. Everything is measured in one boot,
 * ours and what it is compared with in turn, with IRQs on. Of several windows
 * the smallest counts, for the other threads and the timer interrupt are in
 * the count as well. The cost of the loop itself is taken off.
 *
 * In /sys/kernel/debug/ucb_bench:
 *
 *   run   write CONTROLLER, e.g. "xhci-hcd": measure on its root hub; then read
 *         a line for each figure, "OPERATION SIZE INSTRUCTIONS PAIRS"
 *   hold  write "CONTROLLER SIZE COUNT": keep a pool of that many buffers, so
 *         that its memory can be looked at; write "none" to end it
 *   trace write "CONTROLLER OPERATION SIZE": one pair, for a debugger that steps
 *         through it; then read what it noted, an instruction a line. Read
 *         before that, it names what the debugger must know.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/usb.h>
#include <linux/usb/hcd.h>
#include <asm/msr.h>

#include <ucb/pool.h>

/* The one line to change when the checked free takes other arguments. */
#define BENCH_POOL_FREE(pool, size, addr, dma) \
	((void)(size), ucb_pool_free(pool, addr, dma))

#define BENCH_BURST	32
#define BENCH_SPREAD	32
#define BENCH_WINDOWS	8
#define BENCH_SCALE	100	/* figures are kept in hundredths */
#define BENCH_RESULTS	128

static unsigned int window = 4000000;
module_param(window, uint, 0444);
MODULE_PARM_DESC(window, "instructions in one window (default 4000000)");

static unsigned int least_pairs = 512;
module_param(least_pairs, uint, 0444);
MODULE_PARM_DESC(least_pairs, "pairs in one window, at least, up to 64 KiB (default 512)");

static unsigned int sizes[8] = { 64, 512, 2048, 4096, 65536, 1048576 };
static unsigned int nr_sizes = 6;
module_param_array(sizes, uint, &nr_sizes, 0444);
MODULE_PARM_DESC(sizes, "buffer sizes in bytes");

struct bench {
	struct usb_device *udev;
	struct kmem_cache *cache;
	struct ucb_pool *pool;
	size_t size;
};

/* one thing that was allocated */
struct slot {
	void *addr;
	dma_addr_t dma;
};

struct result {
	const char *op;
	size_t size;
	u64 cost;
	unsigned int pairs;
};

static DEFINE_MUTEX(bench_lock);	/* all below */
static struct result results[BENCH_RESULTS];
static unsigned int nr_results;
static struct ucb_pool *held;
static struct dentry *bench_dir;

static struct slot spread[BENCH_SPREAD];

/*
 * One allocation and one free of each kind. Inlined into the loops below, so
 * that what is counted is the calls, as a driver makes them.
 */
typedef bool (*take_fn)(const struct bench *b, struct slot *slot);
typedef bool (*give_fn)(const struct bench *b, struct slot *slot);

static __always_inline bool take_nothing(const struct bench *b, struct slot *slot)
{
	barrier();
	return true;
}

static __always_inline bool give_nothing(const struct bench *b, struct slot *slot)
{
	barrier();
	return true;
}

static __always_inline bool take_slab(const struct bench *b, struct slot *slot)
{
	slot->addr = kmem_cache_alloc(b->cache, GFP_KERNEL);
	return slot->addr;
}

static __always_inline bool give_slab(const struct bench *b, struct slot *slot)
{
	kmem_cache_free(b->cache, slot->addr);
	return true;
}

static __always_inline bool take_usb(const struct bench *b, struct slot *slot)
{
	slot->addr = usb_alloc_coherent(b->udev, b->size, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_usb(const struct bench *b, struct slot *slot)
{
	usb_free_coherent(b->udev, b->size, slot->addr, slot->dma);
	return true;
}

static __always_inline bool take_handle(const struct bench *b, struct slot *slot)
{
	slot->addr = ucb_buf_alloc(b->pool, GFP_KERNEL);
	return slot->addr;
}

static __always_inline bool give_handle(const struct bench *b, struct slot *slot)
{
	return !ucb_buf_free(slot->addr);
}

static __always_inline bool take_pool(const struct bench *b, struct slot *slot)
{
	slot->addr = ucb_pool_alloc(b->pool, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool take_zeroed(const struct bench *b, struct slot *slot)
{
	slot->addr = ucb_pool_zalloc(b->pool, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_pool(const struct bench *b, struct slot *slot)
{
	return !BENCH_POOL_FREE(b->pool, b->size, slot->addr, slot->dma);
}

static __always_inline bool take_dropin(const struct bench *b, struct slot *slot)
{
	slot->addr = ucb_alloc_coherent(b->udev, b->size, GFP_KERNEL, &slot->dma);
	return slot->addr;
}

static __always_inline bool give_dropin(const struct bench *b, struct slot *slot)
{
	return !ucb_free_coherent(b->udev, b->size, slot->addr, slot->dma);
}

static __always_inline bool run_pairs(const struct bench *bench, unsigned int n,
				      take_fn take, give_fn give)
{
	const struct bench b = *bench;
	struct slot slot;

	while (n--)
		if (!take(&b, &slot) || !give(&b, &slot))
			return false;
	return true;
}

/*
 * The same with BENCH_BURST out at a time, given back first to last: a pair in
 * a row finds what it has just given back, these do not. @n is a multiple.
 */
static __always_inline bool run_bursts(const struct bench *bench, unsigned int n,
				       take_fn take, give_fn give)
{
	const struct bench b = *bench;
	struct slot slots[BENCH_BURST];
	unsigned int i;

	for (; n; n -= BENCH_BURST) {
		for (i = 0; i < BENCH_BURST; i++)
			if (!take(&b, &slots[i]))
				return false;
		for (i = 0; i < BENCH_BURST; i++)
			if (!give(&b, &slots[i]))
				return false;
	}
	return true;
}

struct op {
	const char *name;
	bool (*run)(const struct bench *b, unsigned int n);
	take_fn take;	/* NULL for bursts: they use many buffers anyway */
	give_fn give;
};

#define BENCH_PAIRS(what, take, give)						\
static noinline bool pairs_##what(const struct bench *b, unsigned int n)	\
{										\
	return run_pairs(b, n, take, give);					\
}

#define BENCH_BURSTS(what, take, give)						\
static noinline bool bursts_##what(const struct bench *b, unsigned int n)	\
{										\
	return run_bursts(b, n, take, give);					\
}

BENCH_PAIRS(nothing, take_nothing, give_nothing)
BENCH_PAIRS(slab, take_slab, give_slab)
BENCH_PAIRS(usb, take_usb, give_usb)
BENCH_PAIRS(handle, take_handle, give_handle)
BENCH_PAIRS(pool, take_pool, give_pool)
BENCH_PAIRS(zeroed, take_zeroed, give_pool)
BENCH_PAIRS(dropin, take_dropin, give_dropin)
BENCH_BURSTS(slab, take_slab, give_slab)
BENCH_BURSTS(handle, take_handle, give_handle)
BENCH_BURSTS(pool, take_pool, give_pool)

static const struct op ops[] = {
	/* the first is what the loop costs without a body, to be taken off */
	{ "loop", pairs_nothing },
	{ "kmem_cache", pairs_slab, take_slab, give_slab },
	{ "usb", pairs_usb, take_usb, give_usb },
	{ "handle", pairs_handle, take_handle, give_handle },
	{ "pool", pairs_pool, take_pool, give_pool },
	{ "zalloc", pairs_zeroed, take_zeroed, give_pool },
	{ "dropin", pairs_dropin, take_dropin, give_dropin },
	{ "kmem_cache_burst", bursts_slab },
	{ "handle_burst", bursts_handle },
	{ "pool_burst", bursts_pool },
};

/* What reading the clock twice costs. */
static u64 clock_cost(void)
{
	u64 least = U64_MAX;
	unsigned int i;

	for (i = 0; i < BENCH_WINDOWS; i++) {
		u64 start = rdtsc_ordered();

		least = min(least, rdtsc_ordered() - start);
	}
	return least;
}

/*
 * One window of @n pairs. What is taken first would be the same buffer every
 * time, and how long a hash chain it is on a matter of luck. So the window is
 * cut into stretches, and before each, outside of the count, one more buffer is
 * taken out and kept, so that the stretch uses the next. Its first pair warms
 * up, and is not counted either.
 */
static bool measure_window(const struct op *op, const struct bench *b,
			   unsigned int n, u64 *ticks)
{
	unsigned int stretches = op->take ? BENCH_SPREAD : 1;
	u64 reading = clock_cost();
	unsigned int i, taken = 0;
	bool ok = true;

	*ticks = 0;
	for (i = 0; ok && i < stretches; i++) {
		u64 start;

		if (op->take && !op->run(b, 1))
			break;
		start = rdtsc_ordered();
		ok = op->run(b, n / stretches);
		*ticks += rdtsc_ordered() - start - reading;
		if (ok && op->take) {
			ok = op->take(b, &spread[i]);
			taken += ok;
		}
	}
	ok = i == stretches && ok;
	while (taken)
		ok &= op->give(b, &spread[--taken]);
	return ok;
}

/* Does the counter count instructions? Two of them, many times, must show. */
static int check_clock(void)
{
	const unsigned long turns = 100000;
	u64 ticks, least = U64_MAX;
	unsigned long left;
	unsigned int i;

	for (i = 0; i < BENCH_WINDOWS; i++) {
		u64 start = rdtsc_ordered();

		left = turns;
		asm volatile("1: dec %0\n\tjnz 1b" : "+r" (left) : : "cc");
		ticks = rdtsc_ordered() - start;
		least = min(least, ticks);
	}
	if (least < 2 * turns || least > 2 * turns + turns / 50) {
		pr_err("the clock does not count instructions: %llu for %lu\n",
		       least, 2 * turns);
		return -ENODEV;
	}
	return 0;
}

/*
 * How many pairs fill a window: the same number in each of its stretches. Not
 * fewer than it takes to see work that is put off and done in batches, as an
 * IOMMU's flushes are, every 256 frees.
 */
static bool fit_window(const struct op *op, const struct bench *b,
		       unsigned int *pairs)
{
	u64 ticks, n;

	if (!measure_window(op, b, BENCH_SPREAD, &ticks) ||
	    !measure_window(op, b, BENCH_SPREAD, &ticks))
		return false;
	n = div64_u64((u64)window * BENCH_SPREAD, max(ticks, 1ULL));
	if (b->size <= SZ_64K)
		n = max(n, least_pairs);
	*pairs = round_up(clamp_val(n, 1, 1 << 20), BENCH_SPREAD);
	return true;
}

static int measure_size(const struct bench *b)
{
	u64 least[ARRAY_SIZE(ops)], ticks;
	unsigned int pairs[ARRAY_SIZE(ops)];
	unsigned int i, w;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (!fit_window(&ops[i], b, &pairs[i]))
			goto fail;
		least[i] = U64_MAX;
	}
	for (w = 0; w < BENCH_WINDOWS; w++) {
		for (i = 0; i < ARRAY_SIZE(ops); i++) {
			/* let what the others left for later be done */
			msleep(20);
			if (!ops[i].run(b, round_up(pairs[i] / 8, BENCH_BURST)) ||
			    !measure_window(&ops[i], b, pairs[i], &ticks))
				goto fail;
			least[i] = min(least[i], ticks);
		}
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct result *r = &results[nr_results];

		if (nr_results == BENCH_RESULTS)
			return -ENOSPC;
		r->op = ops[i].name;
		r->size = b->size;
		r->pairs = pairs[i];
		r->cost = div_u64(least[i] * BENCH_SCALE, pairs[i]);
		if (i)
			r->cost -= min(r->cost, results[nr_results - i].cost);
		nr_results++;
	}
	return 0;
fail:
	pr_err("%s at %zu bytes failed\n", ops[i].name, b->size);
	return -EIO;
}

/*
 * Where the instructions of one pair go. A debugger on the emulated machine sets
 * a breakpoint on trace_mark(), writes 1 to trace.armed, notes the instruction
 * pointer step by step from the first call of trace_mark() to the second, and
 * writes what it noted into trace. Names are given to the addresses here, where
 * the symbols are known.
 */
#define BENCH_STEPS	16384

static struct {
	u64 armed;
	u64 nr;
	u64 step[BENCH_STEPS];
} trace;

static noinline void trace_mark(void)
{
	/* the debugger may have changed anything */
	barrier();
}

static int trace_pair(const struct op *op, const struct bench *b)
{
	unsigned int i;

	for (i = 0; !READ_ONCE(trace.armed); i++) {
		if (i == 36000)
			return -ETIMEDOUT;
		msleep(100);
	}
	if (!op->run(b, 8 * BENCH_BURST))
		return -EIO;
	trace_mark();
	if (!op->run(b, 1))
		return -EIO;
	trace_mark();
	return 0;
}

static struct ucb_pool *make_pool(struct usb_device *udev, const char *name,
				  size_t size, unsigned int count)
{
	const struct ucb_pool_params params = {
		.name = name,
		.size = size,
		.min = count,
	};

	return ucb_pool_create(udev, &params);
}

/* All operations at this size; or step through @step alone. */
static int bench_size(struct usb_device *udev, size_t size, const struct op *step)
{
	struct bench b = {
		.udev = udev,
		.size = size,
	};
	int ret;

	b.cache = kmem_cache_create("ucb_bench", size, 0, 0, NULL);
	if (!b.cache)
		return -ENOMEM;
	/* enough buffers that a pool need not skip its caches */
	b.pool = make_pool(udev, "bench", size, size > SZ_64K ? 64 : 256);
	if (IS_ERR(b.pool)) {
		ret = PTR_ERR(b.pool);
		goto destroy_cache;
	}
	ret = step ? trace_pair(step, &b) : measure_size(&b);
	ucb_pool_destroy(b.pool);
destroy_cache:
	kmem_cache_destroy(b.cache);
	return ret;
}

struct find {
	const char *controller;
	struct usb_device *udev;
};

static int find_root_hub(struct usb_device *udev, void *data)
{
	struct find *find = data;

	if (udev->parent || find->udev ||
	    strcmp(bus_to_hcd(udev->bus)->driver->description, find->controller))
		return 0;
	find->udev = usb_get_dev(udev);
	return 0;
}

/* The root hub of a controller of that name, with a reference. */
static struct usb_device *find_device(const char *controller)
{
	struct find find = { .controller = controller };

	usb_for_each_dev(&find, find_root_hub);
	return find.udev;
}

static int copy_line(char *line, size_t max, const char __user *from, size_t len)
{
	if (len >= max)
		return -EINVAL;
	if (copy_from_user(line, from, len))
		return -EFAULT;
	line[len] = '\0';
	strim(line);
	return 0;
}

static ssize_t run_write(struct file *file, const char __user *from, size_t len,
			 loff_t *pos)
{
	struct usb_device *udev;
	unsigned int i;
	char line[64];
	int ret;

	ret = copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	udev = find_device(line);
	if (!udev)
		return -ENODEV;
	mutex_lock(&bench_lock);
	nr_results = 0;
	ret = check_clock();
	for (i = 0; !ret && i < nr_sizes; i++)
		ret = bench_size(udev, sizes[i], NULL);
	mutex_unlock(&bench_lock);
	usb_put_dev(udev);
	return ret ?: len;
}

static int run_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	mutex_lock(&bench_lock);
	for (i = 0; i < nr_results; i++) {
		u32 rest;
		u64 whole = div_u64_rem(results[i].cost, BENCH_SCALE, &rest);

		seq_printf(m, "%s %zu %llu.%02u %u\n", results[i].op,
			   results[i].size, whole, rest, results[i].pairs);
	}
	mutex_unlock(&bench_lock);
	return 0;
}

static int run_open(struct inode *inode, struct file *file)
{
	return single_open(file, run_show, NULL);
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = run_open,
	.read = seq_read,
	.write = run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static ssize_t hold_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	struct usb_device *udev;
	struct ucb_pool *pool;
	char line[64], name[32];
	unsigned int count;
	size_t size;
	int ret;

	ret = copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	mutex_lock(&bench_lock);
	ucb_pool_destroy(held);
	held = NULL;
	mutex_unlock(&bench_lock);
	if (!strcmp(line, "none"))
		return len;
	if (sscanf(line, "%31s %zu %u", name, &size, &count) != 3)
		return -EINVAL;
	udev = find_device(name);
	if (!udev)
		return -ENODEV;
	pool = make_pool(udev, "bench-hold", size, count);
	usb_put_dev(udev);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	mutex_lock(&bench_lock);
	swap(held, pool);
	mutex_unlock(&bench_lock);
	ucb_pool_destroy(pool);
	return len;
}

static const struct file_operations hold_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = hold_write,
	.llseek = noop_llseek,
};

static ssize_t trace_write(struct file *file, const char __user *from, size_t len,
			   loff_t *pos)
{
	char line[96], controller[32], name[32];
	struct usb_device *udev;
	unsigned int i;
	size_t size;
	int ret;

	ret = copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	if (sscanf(line, "%31s %31s %zu", controller, name, &size) != 3)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (ops[i].take && !strcmp(ops[i].name, name))
			break;
	if (i == ARRAY_SIZE(ops))
		return -EINVAL;
	udev = find_device(controller);
	if (!udev)
		return -ENODEV;
	mutex_lock(&bench_lock);
	ret = bench_size(udev, size, &ops[i]);
	mutex_unlock(&bench_lock);
	usb_put_dev(udev);
	return ret ?: len;
}

/* Addresses are shown to root, in a machine that is there to be debugged. */
static int trace_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	if (!trace.nr)
		seq_printf(m, "%lx %lx\n", (unsigned long)trace_mark,
			   (unsigned long)&trace);
	for (i = 0; i < min(trace.nr, BENCH_STEPS); i++)
		seq_printf(m, "%pS\n", (void *)(unsigned long)trace.step[i]);
	return 0;
}

static int trace_open(struct inode *inode, struct file *file)
{
	return single_open(file, trace_show, NULL);
}

static const struct file_operations trace_fops = {
	.owner = THIS_MODULE,
	.open = trace_open,
	.read = seq_read,
	.write = trace_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init bench_init(void)
{
	bench_dir = debugfs_create_dir("ucb_bench", NULL);
	debugfs_create_file("run", 0600, bench_dir, NULL, &run_fops);
	debugfs_create_file("trace", 0600, bench_dir, NULL, &trace_fops);
	debugfs_create_file("hold", 0200, bench_dir, NULL, &hold_fops);
	return 0;
}
module_init(bench_init);

static void __exit bench_exit(void)
{
	debugfs_remove_recursive(bench_dir);
	ucb_pool_destroy(held);
}
module_exit(bench_exit);

MODULE_DESCRIPTION("Instructions of allocation and free, under an instruction-counting clock");
MODULE_LICENSE("GPL");
