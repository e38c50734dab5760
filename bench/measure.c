// SPDX-License-Identifier: GPL-2.0
/*
 * Windows of instructions.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/export.h>
#include <linux/kernel_stat.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/tick.h>
#include <linux/time64.h>
#include <asm/msr.h>

#include "bench.h"

#define BENCH_WINDOWS	8
#define BENCH_SPREAD	128	/* stretches of a window, for buffers to 4 KiB */
#define BENCH_SPREAD_BIG	32
#define BENCH_SCALE	100	/* figures are kept in hundredths */
#define BENCH_RESULTS	128
#define BENCH_OPS	12

unsigned int bench_window = 4000000;
unsigned int bench_least_pairs = 512;

struct result {
	const char *op;
	size_t size;
	u64 cost;
	u64 late;
	unsigned int pairs;
};

/* the results are under it too */
DEFINE_MUTEX(bench_lock);
EXPORT_SYMBOL_GPL(bench_lock);

static struct result results[BENCH_RESULTS];
static unsigned int nr_results;
static struct bench_slot spread[BENCH_SPREAD];

/* What a stretch costs that has no pairs: two readings of the clock, a call. */
static u64 empty_stretch(const struct bench_op *op, const struct bench *b)
{
	u64 least = U64_MAX;
	unsigned int i;

	for (i = 0; i < BENCH_WINDOWS; i++) {
		u64 start = rdtsc_ordered();

		op->run(b, 0);
		least = min(least, rdtsc_ordered() - start);
	}
	return least;
}

static unsigned int nr_stretches(const struct bench_op *op, const struct bench *b)
{
	if (!op->take)
		return 1;
	return b->size <= SZ_4K ? BENCH_SPREAD : BENCH_SPREAD_BIG;
}

/*
 * One window of @n pairs. What is taken first would be the same buffer every
 * time, and how long a hash chain it is on a matter of luck. So the window is
 * cut into stretches, and before each, outside of the count, one more buffer is
 * taken out and kept, so that the stretch uses the next. Its first pair warms
 * up, and is not counted either.
 */
static bool measure_window(const struct bench_op *op, const struct bench *b,
			   unsigned int n, u64 *ticks)
{
	unsigned int stretches = nr_stretches(op, b);
	u64 empty = empty_stretch(op, b);
	unsigned int i, taken = 0;
	bool ok = true;

	*ticks = 0;
	for (i = 0; ok && i < stretches; i++) {
		u64 start;

		if (op->take)
			ok = op->run(b, 1);
		if (!ok)
			break;
		start = rdtsc_ordered();
		ok = op->run(b, n / stretches);
		*ticks += rdtsc_ordered() - start - empty;
		if (ok && op->take) {
			ok = op->take(b, &spread[i]);
			taken += ok;
		}
	}
	while (taken)
		ok &= op->give(b, &spread[--taken]);
	return ok;
}

/*
 * How many pairs fill a window: the same number in each of its stretches. Not
 * fewer than it takes to see work that is put off and done in batches, as an
 * IOMMU's flushes are, every 256 frees.
 */
static bool fit_window(const struct bench_op *op, const struct bench *b,
		       unsigned int *pairs)
{
	unsigned int step = max(nr_stretches(op, b), BENCH_BURST);
	u64 ticks, n;

	if (!measure_window(op, b, step, &ticks) ||
	    !measure_window(op, b, step, &ticks))
		return false;
	n = div64_u64((u64)bench_window * step, max(ticks, 1ULL));
	if (b->size <= SZ_64K)
		n = max_t(u64, n, bench_least_pairs);
	*pairs = round_up(clamp_val(n, 1, 1 << 20), step);
	return true;
}

/* Instructions that others execute while this sleeps. */
static u64 others_work(void)
{
	u64 start = rdtsc_ordered();
	u64 idle = get_cpu_idle_time_us(0, NULL);
	u64 busy;

	/* time without instructions passes only when the CPU is idle */
	msleep(20);
	idle = (get_cpu_idle_time_us(0, NULL) - idle) * NSEC_PER_USEC;
	busy = rdtsc_ordered() - start;
	return busy - min(busy, idle);
}

/* Does the counter count instructions? Two of them, many times, must show. */
int bench_check_clock(void)
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
EXPORT_SYMBOL_GPL(bench_check_clock);

/* The loops of run, without a body. */
static bool run_nothing(const struct bench *b, unsigned int n)
{
	while (n--)
		barrier();
	return true;
}

static const struct bench_op loop = { "loop", run_nothing };

static int add_result(const char *op, size_t size, u64 cost, u64 late,
		      unsigned int pairs)
{
	struct result *r = &results[nr_results];

	if (nr_results == BENCH_RESULTS)
		return -ENOSPC;
	r->op = op;
	r->size = size;
	r->cost = cost;
	r->late = late;
	r->pairs = pairs;
	nr_results++;
	return 0;
}

/* A figure that is no cost. */
int bench_add_count(const char *name, size_t size, u64 count)
{
	return add_result(name, size, count * BENCH_SCALE, 0, 1);
}
EXPORT_SYMBOL_GPL(bench_add_count);

void bench_forget(void)
{
	nr_results = 0;
}
EXPORT_SYMBOL_GPL(bench_forget);

/* All of @ops in turn, window by window; the caller is the only one. */
int bench_measure(const struct bench_op *ops, unsigned int nr, const struct bench *b)
{
	/* the last is what the loop costs, to be taken off */
	const struct bench_op *all[BENCH_OPS];
	unsigned int pairs[BENCH_OPS];
	u64 least[BENCH_OPS], late[BENCH_OPS], ticks;
	unsigned int i, w;
	u64 overhead;
	int ret;

	if (nr >= BENCH_OPS)
		return -EINVAL;
	for (i = 0; i <= nr; i++) {
		all[i] = i < nr ? &ops[i] : &loop;
		least[i] = U64_MAX;
		late[i] = 0;
		if (!fit_window(all[i], b, &pairs[i]))
			goto fail;
	}
	for (w = 0; w < BENCH_WINDOWS; w++) {
		for (i = 0; i <= nr; i++) {
			if (!all[i]->run(b, round_up(pairs[i] / 8, BENCH_BURST)) ||
			    !measure_window(all[i], b, pairs[i], &ticks))
				goto fail;
			least[i] = min(least[i], ticks);
			/* what it has left for a worker, or for later */
			late[i] += others_work();
		}
	}
	overhead = div_u64(least[nr] * BENCH_SCALE, pairs[nr]);
	ret = add_result(loop.name, b->size, overhead, 0, pairs[nr]);
	for (i = 0; !ret && i < nr; i++) {
		u64 cost = div_u64(least[i] * BENCH_SCALE, pairs[i]);
		u64 left = late[i] - min(late[i], late[nr]);

		left = div_u64(left * BENCH_SCALE, BENCH_WINDOWS * pairs[i]);
		ret = add_result(all[i]->name, b->size,
				 cost - min(cost, overhead), left, pairs[i]);
	}
	return ret;
fail:
	pr_err("%s at %zu bytes failed\n", all[i]->name, b->size);
	return -EIO;
}
EXPORT_SYMBOL_GPL(bench_measure);

static void show_scaled(struct seq_file *m, u64 figure)
{
	u32 rest;
	u64 whole = div_u64_rem(figure, BENCH_SCALE, &rest);

	seq_printf(m, " %llu.%02u", whole, rest);
}

int bench_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	mutex_lock(&bench_lock);
	for (i = 0; i < nr_results; i++) {
		seq_printf(m, "%s %zu", results[i].op, results[i].size);
		show_scaled(m, results[i].cost);
		show_scaled(m, results[i].late);
		seq_printf(m, " %u\n", results[i].pairs);
	}
	mutex_unlock(&bench_lock);
	return 0;
}
EXPORT_SYMBOL_GPL(bench_show);
