// SPDX-License-Identifier: GPL-2.0
/*
 * Where the instructions of one pair go. A debugger on the emulated machine sets
 * a breakpoint on trace_mark(), writes 1 to trace.armed, notes the instruction
 * pointer step by step from the first call of trace_mark() to the second, and
 * writes what it noted into trace. Names are given to the addresses here, where
 * the symbols are known.
 */
#include <linux/compiler.h>
#include <linux/delay.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>

#include "bench.h"

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

int bench_trace_pair(const struct bench_op *op, const struct bench *b)
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

/* Addresses are shown to root, in a machine that is there to be debugged. */
int bench_trace_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	if (!trace.nr)
		seq_printf(m, "%lx %lx\n", (unsigned long)trace_mark,
			   (unsigned long)&trace);
	for (i = 0; i < min(trace.nr, BENCH_STEPS); i++)
		seq_printf(m, "%pS\n", (void *)(unsigned long)trace.step[i]);
	return 0;
}

