/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ucb_rdma

#if !defined(_UCB_RDMA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _UCB_RDMA_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/ib_verbs.h>

#include "../compat.h"

TRACE_EVENT(ucb_mr_reg,
	TP_PROTO(const struct ib_device *ibdev, u32 rkey, size_t length,
		 int access, int error),
	TP_ARGS(ibdev, rkey, length, access, error),
	TP_STRUCT__entry(
		__string(dev, dev_name(&ibdev->dev))
		__field(u32, rkey)
		__field(size_t, length)
		__field(int, access)
		__field(int, error)
	),
	TP_fast_assign(
		ucb_assign_str(dev, dev_name(&ibdev->dev));
		__entry->rkey = rkey;
		__entry->length = length;
		__entry->access = access;
		__entry->error = error;
	),
	TP_printk("dev=%s key=%#x length=%zu access=%#x error=%d",
		  __get_str(dev), __entry->rkey, __entry->length,
		  __entry->access, __entry->error)
);

DECLARE_EVENT_CLASS(ucb_key_ended,
	TP_PROTO(const struct ib_device *ibdev, u32 rkey, int error),
	TP_ARGS(ibdev, rkey, error),
	TP_STRUCT__entry(
		__string(dev, dev_name(&ibdev->dev))
		__field(u32, rkey)
		__field(int, error)
	),
	TP_fast_assign(
		ucb_assign_str(dev, dev_name(&ibdev->dev));
		__entry->rkey = rkey;
		__entry->error = error;
	),
	TP_printk("dev=%s key=%#x error=%d", __get_str(dev), __entry->rkey,
		  __entry->error)
);

DEFINE_EVENT(ucb_key_ended, ucb_mr_inv,
	TP_PROTO(const struct ib_device *ibdev, u32 rkey, int error),
	TP_ARGS(ibdev, rkey, error));

DEFINE_EVENT(ucb_key_ended, ucb_mr_revoke,
	TP_PROTO(const struct ib_device *ibdev, u32 rkey, int error),
	TP_ARGS(ibdev, rkey, error));

#endif /* _UCB_RDMA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
