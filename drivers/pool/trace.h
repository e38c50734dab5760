/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ucb

#if !defined(_UCB_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _UCB_TRACE_H

#include <linux/tracepoint.h>

#include "../compat.h"

DECLARE_EVENT_CLASS(ucb_moved,
	TP_PROTO(unsigned int pool, size_t size, unsigned long caller),
	TP_ARGS(pool, size, caller),
	TP_STRUCT__entry(
		__field(unsigned int, pool)
		__field(size_t, size)
		__field(unsigned long, caller)
	),
	TP_fast_assign(
		__entry->pool = pool;
		__entry->size = size;
		__entry->caller = caller;
	),
	TP_printk("pool=%u size=%zu caller=%pS", __entry->pool, __entry->size,
		  (void *)__entry->caller)
);

DEFINE_EVENT(ucb_moved, ucb_alloc,
	TP_PROTO(unsigned int pool, size_t size, unsigned long caller),
	TP_ARGS(pool, size, caller));

DEFINE_EVENT(ucb_moved, ucb_free,
	TP_PROTO(unsigned int pool, size_t size, unsigned long caller),
	TP_ARGS(pool, size, caller));

TRACE_EVENT(ucb_misuse,
	TP_PROTO(unsigned int pool, const char *what, int error,
		 unsigned long caller),
	TP_ARGS(pool, what, error, caller),
	TP_STRUCT__entry(
		__field(unsigned int, pool)
		__string(what, what)
		__field(int, error)
		__field(unsigned long, caller)
	),
	TP_fast_assign(
		__entry->pool = pool;
		ucb_assign_str(what, what);
		__entry->error = error;
		__entry->caller = caller;
	),
	TP_printk("pool=%u what=%s error=%d caller=%pS", __entry->pool,
		  __get_str(what), __entry->error, (void *)__entry->caller)
);

#endif /* _UCB_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
