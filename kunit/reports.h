/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a case causes in the kernel's log: the lines that its own thread prints,
 * seen from the tracepoint of the console.
 */
#ifndef _UCB_KUNIT_REPORTS_H
#define _UCB_KUNIT_REPORTS_H

#include <kunit/test.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <trace/events/printk.h>

#define REPORT_LINES	96
#define REPORT_WIDTH	256

struct reports {
	struct task_struct *task;
	unsigned int nr;
	char line[REPORT_LINES][REPORT_WIDTH];
};

static inline void report_seen(void *data, const char *text, size_t len)
{
	struct reports *reports = data;

	if (current != reports->task || !in_task() || reports->nr == REPORT_LINES)
		return;
	/* @text has no end of its own */
	strscpy(reports->line[reports->nr++], text, min_t(size_t, len + 1, REPORT_WIDTH));
}

static inline void reports_end(void *data)
{
	unregister_trace_console(report_seen, data);
	tracepoint_synchronize_unregister();
}

/* Look from here to the end of the case. */
static inline struct reports *reports_get(struct kunit *test)
{
	struct reports *reports = kunit_kzalloc(test, sizeof(*reports), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, reports);
	reports->task = current;
	KUNIT_ASSERT_EQ(test, 0, register_trace_console(report_seen, reports));
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, reports_end, reports));
	return reports;
}

/* The first line at or behind @from that has @text; or REPORT_LINES. */
static inline unsigned int reports_find(const struct reports *reports, const char *text,
					unsigned int from)
{
	for (; from < reports->nr; from++)
		if (strstr(reports->line[from], text))
			return from;
	return REPORT_LINES;
}

/* How many lines have all of these. */
static inline unsigned int reports_count(const struct reports *reports, const char *text,
					 const char *more)
{
	unsigned int i, nr = 0;

	for (i = 0; i < reports->nr; i++)
		if (strstr(reports->line[i], text) && strstr(reports->line[i], more))
			nr++;
	return nr;
}

/* The number that a report calls its pool by; there must be one. */
static inline unsigned int reports_pool(struct kunit *test, const struct reports *reports)
{
	unsigned int at = reports_find(reports, "ucb: pool ", 0);
	unsigned int id = 0;
	int ret;

	KUNIT_ASSERT_NE(test, at, REPORT_LINES);
	ret = sscanf(strstr(reports->line[at], "ucb: pool "), "ucb: pool %u", &id);
	KUNIT_ASSERT_EQ(test, 1, ret);
	return id;
}

#endif /* _UCB_KUNIT_REPORTS_H */
