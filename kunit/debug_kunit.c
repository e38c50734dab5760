// SPDX-License-Identifier: GPL-2.0
/*
 * What is reported, and how often: one corruption or refused call at a time, and
 * each must be counted once, in its own counter and no other, and be in the log
 * once. Debug pools on every kind of controller, and the drop-in pair in debug
 * mode. What a driver kept is in leaks_kunit.c.
 */

#include <linux/iommu.h>
#include <linux/jiffies.h>

#include "fake_hcd.h"
#include "guest_files.h"
#include "reports.h"
#include "shell.h"

#define SIZE	100
#define NR	8
/* as drivers/pool/internal.h has it */
#define GUARD	64
/* from one buffer to the next, but for local memory: guarded to the end */
#define STRIDE	ALIGN(SIZE + GUARD, 64)

static const char * const kinds[UCB_NR_MISUSES] = {
	[UCB_MISUSE_SIZE] = "size differs from the allocation",
	[UCB_MISUSE_DMA] = "dma differs from the allocation",
	[UCB_MISUSE_UNKNOWN] = "no buffer starts at this address",
	[UCB_MISUSE_DOUBLE] = "freed twice",
	[UCB_MISUSE_BUSY] = "a URB or registration is at work on it",
	[UCB_MISUSE_OVERRUN] = "written past the requested size",
	[UCB_MISUSE_USE_AFTER_FREE] = "written after free",
};

/* a pool, its counts when last looked at, and the log since then */
struct watch {
	struct kunit *test;
	struct reports *reports;
	struct ucb_pool *pool;
	struct ucb_pool_stats stats;
};

struct taken {
	u8 *addr;
	dma_addr_t dma;
};

static void watch_start(struct watch *w)
{
	w->reports->nr = 0;
	ucb_pool_get_stats(w->pool, &w->stats);
}

static struct watch watch_get(struct kunit *test, struct fake_hcd *fake, unsigned int flags)
{
	const struct ucb_pool_params params = {
		.name = "watched", .size = SIZE, .max = NR, .flags = flags,
	};
	struct watch w = { .test = test, .reports = reports_get(test) };

	w.pool = pool_get(test, fake->udev, &params);
	watch_start(&w);
	return w;
}

/* Since the last look: this and nothing else; and look again. */
static void expect_found(struct watch *w, enum ucb_misuse what, int live, int quarantined)
{
	struct ucb_pool_stats old = w->stats;
	struct kunit *test = w->test;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, 1, reports_count(w->reports, "ucb: pool ", ""));
	KUNIT_EXPECT_EQ(test, 1, reports_count(w->reports, kinds[what], "(watched)"));
	watch_start(w);
	for (i = 0; i < UCB_NR_MISUSES; i++)
		KUNIT_EXPECT_EQ_MSG(test, old.misuse[i] + (i == what), w->stats.misuse[i],
				    "misuse %u", i);
	KUNIT_EXPECT_EQ(test, (int)(w->stats.live - old.live), live);
	KUNIT_EXPECT_EQ(test, (int)(w->stats.quarantined - old.quarantined), quarantined);
}

static void expect_silent(struct watch *w)
{
	struct ucb_pool_stats old = w->stats;

	KUNIT_EXPECT_EQ(w->test, 0, reports_count(w->reports, "ucb: ", ""));
	watch_start(w);
	KUNIT_EXPECT_MEMEQ(w->test, old.misuse, w->stats.misuse, sizeof(old.misuse));
	KUNIT_EXPECT_EQ(w->test, old.quarantined, w->stats.quarantined);
}

/* Named in stacks: not to be inlined, nor to end in a jump. */
static noinline struct taken debug_take(struct ucb_pool *pool)
{
	struct taken taken;

	taken.addr = ucb_pool_alloc(pool, GFP_KERNEL | __GFP_NOWARN, &taken.dma);
	barrier();
	return taken;
}

static noinline int debug_give(struct ucb_pool *pool, struct taken taken)
{
	int ret = ucb_pool_free(pool, taken.addr, taken.dma);

	barrier();
	return ret;
}

static struct taken must_take(struct watch *w)
{
	struct taken taken = debug_take(w->pool);

	KUNIT_ASSERT_NOT_NULL(w->test, taken.addr);
	return taken;
}

/* All that the pool has but one; the one is not among them, however often. */
static void expect_never_again(struct watch *w, const u8 *bad, int rounds)
{
	struct taken taken[NR - 1];
	int i;

	for (; rounds; rounds--) {
		for (i = 0; i < NR - 1; i++) {
			taken[i] = must_take(w);
			KUNIT_EXPECT_PTR_NE(w->test, taken[i].addr, bad);
		}
		KUNIT_EXPECT_NULL(w->test, debug_take(w->pool).addr);
		for (i = 0; i < NR - 1; i++)
			KUNIT_EXPECT_EQ(w->test, 0, debug_give(w->pool, taken[i]));
	}
}

/* The last byte of a buffer that is watched. */
static unsigned int last_byte(const struct fake_hcd *fake)
{
	return (fake->kind == FAKE_LOCALMEM ? SIZE + GUARD : STRIDE) - 1;
}

/* One byte behind what was asked for: the first, a middle, the last guarded. */
static void debug_overrun(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	const unsigned int at[] = { SIZE, SIZE + GUARD / 2, last_byte(fake) };
	char values[40];
	int i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct watch w = watch_get(test, fake, UCB_POOL_DEBUG);
		struct taken taken = must_take(&w);

		/* all that was asked for may be written */
		memset(taken.addr, 0xff, SIZE);
		KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
		expect_silent(&w);

		taken = must_take(&w);
		watch_start(&w);
		taken.addr[at[i]] ^= 0xff;
		KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
		snprintf(values, sizeof(values), "expected %#x, got %#x,", SIZE, at[i]);
		KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, "ucb: pool", values));
		KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, "ucb: 00000000: ", ""));
		expect_found(&w, UCB_MISUSE_OVERRUN, -1, 1);

		expect_never_again(&w, taken.addr, 3);
		KUNIT_EXPECT_EQ(test, -EALREADY, debug_give(w.pool, taken));
		expect_found(&w, UCB_MISUSE_DOUBLE, 0, 0);
	}
}

/* One byte of a buffer at home; found when its turn comes. */
static void debug_after_free(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	const unsigned int at[] = { 0, SIZE / 2, SIZE - 1, last_byte(fake) };
	char values[40];
	int i;

	for (i = 0; i < ARRAY_SIZE(at); i++) {
		struct watch w = watch_get(test, fake, UCB_POOL_DEBUG);
		struct taken taken = must_take(&w);

		KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
		expect_silent(&w);
		taken.addr[at[i]] ^= 0xff;
		expect_never_again(&w, taken.addr, 1);
		snprintf(values, sizeof(values), "expected %#x, got %#x,", SIZE, at[i]);
		KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, "ucb: pool", values));
		KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, "ucb: 00000000: ", ""));
		expect_found(&w, UCB_MISUSE_USE_AFTER_FREE, 0, 1);
		expect_never_again(&w, taken.addr, 2);
		expect_silent(&w);
	}
}

/*
 * What was freed last is given out last, so that a second free and a late write
 * have all the time there is to be found: in one block, and among several.
 */
static void debug_last_freed(struct kunit *test)
{
	static const size_t sizes[] = { SIZE, 4000 };
	struct ucb_pool_params params = {
		.name = "watched", .min = NR, .max = NR, .flags = UCB_POOL_DEBUG,
	};
	struct fake_hcd *fake = kind_hcd(test);
	struct taken taken[NR], last;
	struct ucb_pool *pool;
	int i, j, round;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		params.size = sizes[i];
		pool = pool_get(test, fake->udev, &params);
		for (round = 0; round < NR + 1; round++) {
			last = debug_take(pool);
			KUNIT_ASSERT_NOT_NULL(test, last.addr);
			KUNIT_EXPECT_EQ(test, 0, debug_give(pool, last));
			for (j = 0; j < NR; j++) {
				taken[j] = debug_take(pool);
				KUNIT_ASSERT_NOT_NULL(test, taken[j].addr);
			}
			KUNIT_EXPECT_PTR_EQ(test, last.addr, taken[NR - 1].addr);
			/* another order each time */
			for (j = 0; j < NR; j++)
				KUNIT_EXPECT_EQ(test, 0,
						debug_give(pool, taken[(3 * j + round) % NR]));
		}
	}
}

/* One whose turn never comes is found when its pool ends. */
static void debug_after_free_at_end(struct kunit *test)
{
	struct watch w = watch_get(test, kind_hcd(test), UCB_POOL_DEBUG);
	struct taken bad = must_take(&w);
	struct taken good = must_take(&w);

	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, bad));
	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, good));
	bad.addr[SIZE - 1] ^= 0xff;
	w.reports->nr = 0;
	kunit_release_action(test, pool_destroy, w.pool);
	KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, "ucb: pool ", ""));
	KUNIT_EXPECT_EQ(test, 1, reports_count(w.reports, kinds[UCB_MISUSE_USE_AFTER_FREE],
					       "got 0x63, "));
}

/* And when its block goes before: here, for the pool has become smaller. */
static void debug_after_free_resized(struct kunit *test)
{
	static const struct ucb_pool_params params = {
		.name = "watched", .size = 4000, .min = 8, .max = 8, .flags = UCB_POOL_DEBUG,
	};
	struct ucb_pool *pool = pool_get(test, kind_hcd(test)->udev, &params);
	unsigned long end = jiffies + 60 * HZ;
	struct ucb_pool_stats stats;
	struct taken taken[8];
	int i;

	for (i = 0; i < ARRAY_SIZE(taken); i++) {
		taken[i] = debug_take(pool);
		KUNIT_ASSERT_NOT_NULL(test, taken[i].addr);
	}
	/* all but one, so that the block which a buffer came home to last stays */
	for (i = 0; i < ARRAY_SIZE(taken) - 1; i++) {
		KUNIT_EXPECT_EQ(test, 0, debug_give(pool, taken[i]));
		taken[i].addr[i] ^= 0xff;
	}
	KUNIT_EXPECT_EQ(test, 0, ucb_pool_resize(pool, 0, 4));
	/* by the worker: a block of four, or four of one */
	do {
		schedule_timeout_uninterruptible(1);
		ucb_pool_get_stats(pool, &stats);
	} while (stats.misuse[UCB_MISUSE_USE_AFTER_FREE] < 4 && time_before(jiffies, end));
	KUNIT_EXPECT_EQ(test, 4, stats.misuse[UCB_MISUSE_USE_AFTER_FREE]);
	KUNIT_EXPECT_EQ(test, 4, stats.buffers);
	KUNIT_EXPECT_EQ(test, 1, stats.live);
	KUNIT_EXPECT_EQ(test, 0, debug_give(pool, taken[7]));
}

/* The stacks that the report shows have the functions that did it. */
static void expect_stacks(struct watch *w)
{
	unsigned int took = reports_find(w->reports, "ucb: last allocated by:", 0);
	unsigned int gave = reports_find(w->reports, "ucb: last freed by:", 0);

	KUNIT_ASSERT_NE(w->test, took, REPORT_LINES);
	KUNIT_ASSERT_NE(w->test, gave, REPORT_LINES);
	KUNIT_EXPECT_LT(w->test, took, reports_find(w->reports, " debug_take+", took));
	KUNIT_EXPECT_LT(w->test, reports_find(w->reports, " debug_take+", took), gave);
	KUNIT_EXPECT_LT(w->test, reports_find(w->reports, " debug_give+", gave), REPORT_LINES);
	KUNIT_EXPECT_EQ(w->test, 1, reports_count(w->reports, "ucb: last allocated by:", ""));
	KUNIT_EXPECT_EQ(w->test, 1, reports_count(w->reports, "ucb: last freed by:", ""));
}

static void debug_stacks(struct kunit *test)
{
	struct watch w = watch_get(test, kind_hcd(test), UCB_POOL_DEBUG);
	struct taken taken = must_take(&w);

	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
	KUNIT_EXPECT_EQ(test, -EALREADY, ucb_pool_free(w.pool, taken.addr, taken.dma));
	expect_stacks(&w);
	expect_found(&w, UCB_MISUSE_DOUBLE, 0, 0);

	taken.addr[0] ^= 0xff;
	expect_never_again(&w, taken.addr, 1);
	expect_stacks(&w);
	expect_found(&w, UCB_MISUSE_USE_AFTER_FREE, 0, 1);
}

/* Each refused call, in a debug pool and in another. */
static void debug_refused(struct kunit *test)
{
	static const unsigned int flags[] = { 0, UCB_POOL_DEBUG };
	struct fake_hcd *fake = kind_hcd(test);
	struct ucb_buf *buf;
	int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		struct watch w = watch_get(test, fake, flags[i]);
		struct taken taken = must_take(&w);

		watch_start(&w);
		KUNIT_EXPECT_EQ(test, -EINVAL,
				ucb_pool_free_sized(w.pool, SIZE + 1, taken.addr, taken.dma));
		expect_found(&w, UCB_MISUSE_SIZE, 0, 0);
		KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(w.pool, taken.addr, taken.dma ^ 64));
		expect_found(&w, UCB_MISUSE_DMA, 0, 0);
		KUNIT_EXPECT_EQ(test, -ENOENT, ucb_pool_free(w.pool, taken.addr + 1, taken.dma));
		expect_found(&w, UCB_MISUSE_UNKNOWN, 0, 0);
		buf = ucb_buf_get(w.pool, taken.addr);
		KUNIT_ASSERT_FALSE(test, IS_ERR(buf));
		KUNIT_ASSERT_EQ(test, 0, ucb_buf_busy_get(buf));
		KUNIT_EXPECT_EQ(test, -EBUSY, debug_give(w.pool, taken));
		expect_found(&w, UCB_MISUSE_BUSY, 0, 0);
		ucb_buf_busy_put(buf);
		ucb_buf_put(buf);
		KUNIT_EXPECT_EQ(test, 0,
				ucb_pool_free_sized(w.pool, SIZE, taken.addr, taken.dma));
		expect_silent(&w);
		KUNIT_EXPECT_EQ(test, -EALREADY, debug_give(w.pool, taken));
		expect_found(&w, UCB_MISUSE_DOUBLE, 0, 0);
	}
}

/* So are they while the device is gone by hand; the right free is not. */
static void debug_gone(struct kunit *test)
{
	struct fake_hcd *fake = kind_hcd(test);
	struct watch w[2];
	struct taken taken[2];
	int i;

	if (fake_is_real(fake->kind))
		return;	/* as the fake ones */
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = watch_get(test, fake, i ? UCB_POOL_DEBUG : 0);
		taken[i] = must_take(&w[i]);
	}
	device_release_driver(&fake->udev->dev);
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		watch_start(&w[i]);
		KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(w[i].pool, taken[i].addr,
							     taken[i].dma ^ 64));
		expect_found(&w[i], UCB_MISUSE_DMA, 0, 0);
		KUNIT_EXPECT_EQ(test, 0, debug_give(w[i].pool, taken[i]));
		expect_silent(&w[i]);
		KUNIT_EXPECT_EQ(test, 0, w[i].stats.live);
		KUNIT_EXPECT_EQ(test, -EALREADY, debug_give(w[i].pool, taken[i]));
		expect_found(&w[i], UCB_MISUSE_DOUBLE, 0, 0);
	}
}

#define FLOOD	60

/* A pool that floods the log is held back, and hides no other's first report. */
static void debug_flood(struct kunit *test)
{
	struct fake_hcd *fake = fake_hcd_get(test, FAKE_PIO);
	struct watch w = watch_get(test, fake, 0);
	struct taken taken = must_take(&w);
	unsigned long begin = jiffies;
	int i;

	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
	watch_start(&w);
	for (i = 0; i < FLOOD; i++)
		KUNIT_EXPECT_EQ(test, -EALREADY, debug_give(w.pool, taken));
	/* 10 in 5 s, says the kernel */
	KUNIT_EXPECT_LE(test, reports_count(w.reports, "ucb: pool", kinds[UCB_MISUSE_DOUBLE]),
			10 * (1 + (jiffies - begin) / (5 * HZ)));
	ucb_pool_get_stats(w.pool, &w.stats);
	KUNIT_EXPECT_EQ(test, FLOOD, w.stats.misuse[UCB_MISUSE_DOUBLE]);

	w = watch_get(test, fake, 0);
	taken = must_take(&w);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(w.pool, taken.addr, taken.dma ^ 64));
	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
	expect_found(&w, UCB_MISUSE_DMA, 0, 0);
}

/* debugfs and trace events are as Documentation/ABI has them. */
static void debug_seen(struct kunit *test)
{
	static const char * const controllers[] = {
		[FAKE_DMA] = "DMA", [FAKE_PIO] = "PIO", [FAKE_LOCALMEM] = "local memory",
		[REAL_DUMMY] = "PIO", [REAL_XHCI] = "DMA",
	};
	struct fake_hcd *fake = kind_hcd(test);
	struct watch w = watch_get(test, fake, UCB_POOL_RDMA);
	struct taken taken = must_take(&w);
	struct taken kept = must_take(&w);
	char *command = kunit_kzalloc(test, SZ_2K, GFP_KERNEL);
	struct taken traced[4];
	unsigned int id, i;

	KUNIT_ASSERT_NOT_NULL(test, command);
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(w.pool, taken.addr, taken.dma ^ 64));
	id = reports_pool(test, w.reports);
	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, taken));
	snprintf(command, SZ_2K,
		 "set -e\n"
		 "cd /sys/kernel/debug/ucb/%u\n"
		 "[ \"$(echo *)\" = 'buffers preflight stats' ]\n"
		 "[ \"$(cat preflight)\" = 'controller %s\n"
		 "iommu %s\n"
		 "bounce no\n"
		 "registration %s' ]\n"
		 "[ $(wc -l < buffers) = 1 ]\n"
		 "grep -q '^100 bytes, 0 at work, allocated by debug_take+' buffers\n"
		 "for line in 'name watched' 'size 100' 'max 8' 'live 1' 'refused 1: %s'; do\n"
		 "	grep -qx \"$line\" stats\n"
		 "done\n"
		 "[ $(grep -c '^refused ' stats) = %u ]\n"
		 "cd /sys/kernel/tracing\n"
		 "echo > trace\n"
		 "echo 1 > events/ucb/enable\n",
		 id, controllers[fake->kind],
		 device_iommu_mapped(fake->udev->bus->sysdev) ? "yes" : "no",
		 fake->kind == FAKE_LOCALMEM ?
			 "no: the controller'\\''s local memory has no pages" : "yes",
		 kinds[UCB_MISUSE_DMA], UCB_NR_MISUSES);
	KUNIT_EXPECT_EQ(test, 0, shell(command));

	/* more than are in a CPU's cache: some come from the depot */
	for (i = 0; i < ARRAY_SIZE(traced); i++)
		traced[i] = must_take(&w);
	taken = traced[0];
	KUNIT_EXPECT_EQ(test, -EINVAL, ucb_pool_free(w.pool, taken.addr, taken.dma ^ 64));
	for (i = 0; i < ARRAY_SIZE(traced); i++)
		KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, traced[i]));
	KUNIT_EXPECT_EQ(test, 0, debug_give(w.pool, kept));
	snprintf(command, SZ_2K,
		 "set -e\n"
		 "cd /sys/kernel/tracing\n"
		 "echo 0 > events/ucb/enable\n"
		 "[ $(grep -c ' ucb_[a-z]*: pool=%u ' trace) = 10 ]\n"
		 "[ $(grep -c ' ucb_alloc: pool=%u size=100 caller=debug_take+' trace) = 4 ]\n"
		 "[ $(grep -c ' ucb_free: pool=%u size=100 caller=debug_give+' trace) = 5 ]\n"
		 "[ $(grep -c ' ucb_misuse: pool=%u what=%s error=-22 caller=%s+' trace) = 1 ]\n",
		 id, id, id, id, kinds[UCB_MISUSE_DMA], __func__);
	KUNIT_EXPECT_EQ(test, 0, shell(command));
}

static void clear_debug(void *unused)
{
	set_debug(false);
}

struct dropin {
	struct kunit *test;
	struct usb_device *udev;
	struct reports *reports;
};

static struct taken dropin_take(struct dropin *d, size_t size)
{
	struct taken taken;

	taken.addr = ucb_alloc_coherent(d->udev, size, GFP_KERNEL, &taken.dma);
	KUNIT_ASSERT_NOT_NULL(d->test, taken.addr);
	return taken;
}

static int dropin_give(struct dropin *d, size_t size, struct taken taken)
{
	return ucb_free_coherent(d->udev, size, taken.addr, taken.dma);
}

static void expect_dropin_found(struct dropin *d, enum ucb_misuse what)
{
	KUNIT_EXPECT_EQ(d->test, 1, reports_count(d->reports, "ucb: pool ", ""));
	KUNIT_EXPECT_EQ(d->test, 1, reports_count(d->reports, kinds[what], "(drop-in)"));
	d->reports->nr = 0;
}

/* The pair in debug mode: its classes, and what is too large for one. */
static void debug_dropin(struct kunit *test)
{
	static const size_t sizes[] = { 1, 64, 2048, 4096, SZ_1M + 1 };
	struct fake_hcd *fake = kind_hcd(test);
	struct dropin d = { .test = test, .udev = fake->udev };
	struct taken taken, other;
	unsigned int id, i;
	char command[640];

	if (fake->kind != FAKE_DMA && fake->kind != FAKE_PIO)
		return;	/* has such a pool already, or none */
	d.reports = reports_get(test);
	KUNIT_ASSERT_EQ(test, 0, set_debug(true));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, clear_debug, NULL));

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		taken = dropin_take(&d, sizes[i]);
		memset(taken.addr, 0xff, sizes[i]);
		KUNIT_EXPECT_EQ(test, 0, dropin_give(&d, sizes[i], taken));
		KUNIT_EXPECT_EQ(test, 0, reports_count(d.reports, "ucb: ", ""));
		taken = dropin_take(&d, sizes[i]);
		taken.addr[sizes[i]] ^= 0xff;
		KUNIT_EXPECT_EQ(test, 0, dropin_give(&d, sizes[i], taken));
		id = reports_pool(test, d.reports);
		expect_dropin_found(&d, UCB_MISUSE_OVERRUN);
		other = dropin_take(&d, sizes[i]);
		KUNIT_EXPECT_PTR_NE(test, other.addr, taken.addr);
		KUNIT_EXPECT_EQ(test, 0, dropin_give(&d, sizes[i], other));
	}

	taken = dropin_take(&d, SIZE);
	KUNIT_EXPECT_EQ(test, -EINVAL, dropin_give(&d, SIZE + 1, taken));
	expect_dropin_found(&d, UCB_MISUSE_SIZE);
	other = taken;
	other.dma ^= 64;
	KUNIT_EXPECT_EQ(test, -EINVAL, dropin_give(&d, SIZE, other));
	expect_dropin_found(&d, UCB_MISUSE_DMA);
	other = taken;
	other.addr++;
	KUNIT_EXPECT_EQ(test, -ENOENT, dropin_give(&d, SIZE, other));
	expect_dropin_found(&d, UCB_MISUSE_UNKNOWN);
	KUNIT_EXPECT_EQ(test, 0, dropin_give(&d, SIZE, taken));
	KUNIT_EXPECT_EQ(test, -EALREADY, dropin_give(&d, SIZE, taken));
	expect_dropin_found(&d, UCB_MISUSE_DOUBLE);
	taken.addr[SIZE / 2] ^= 0xff;
	other = dropin_take(&d, SIZE);
	KUNIT_EXPECT_PTR_NE(test, other.addr, taken.addr);
	expect_dropin_found(&d, UCB_MISUSE_USE_AFTER_FREE);
	KUNIT_EXPECT_EQ(test, 0, dropin_give(&d, SIZE, other));
	KUNIT_EXPECT_EQ(test, 0, reports_count(d.reports, "ucb: ", ""));

	/* as Documentation/ABI has it; a worker makes the folder */
	snprintf(command, sizeof(command),
		 "cd /sys/kernel/debug/ucb\n"
		 "until [ -e %u/stats ]; do usleep 50000; done\n"
		 "[ \"$(grep -E '^(live|quarantined) |^refused [1-9]' %u/stats)\" = 'live 0\n"
		 "quarantined 6\n"
		 "refused 1: %s\n"
		 "refused 1: %s\n"
		 "refused 1: %s\n"
		 "refused 1: %s\n"
		 "refused 5: %s\n"
		 "refused 1: %s' ]\n",
		 id, id, kinds[UCB_MISUSE_SIZE], kinds[UCB_MISUSE_DMA],
		 kinds[UCB_MISUSE_UNKNOWN], kinds[UCB_MISUSE_DOUBLE],
		 kinds[UCB_MISUSE_OVERRUN], kinds[UCB_MISUSE_USE_AFTER_FREE]);
	KUNIT_EXPECT_EQ(test, 0, shell(command));
}

static struct kunit_case debug_cases[] = {
	KUNIT_CASE_PARAM(debug_overrun, kind_gen_params),
	KUNIT_CASE_PARAM(debug_after_free, kind_gen_params),
	KUNIT_CASE_PARAM(debug_last_freed, kind_gen_params),
	KUNIT_CASE_PARAM(debug_after_free_at_end, kind_gen_params),
	KUNIT_CASE_PARAM(debug_after_free_resized, kind_gen_params),
	KUNIT_CASE_PARAM(debug_stacks, kind_gen_params),
	KUNIT_CASE_PARAM(debug_refused, kind_gen_params),
	KUNIT_CASE_PARAM(debug_gone, kind_gen_params),
	KUNIT_CASE(debug_flood),
	KUNIT_CASE_PARAM(debug_seen, kind_gen_params),
	KUNIT_CASE_PARAM(debug_dropin, kind_gen_params),
	{}
};

static struct kunit_suite debug_suite = {
	.name = "ucb_debug",
	.test_cases = debug_cases,
};

kunit_test_suite(debug_suite);

MODULE_DESCRIPTION("KUnit: what is reported, and how often");
MODULE_LICENSE("GPL");
