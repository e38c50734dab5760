/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the suite "ending" and the driver tenant.ko have in common.
 */
#ifndef _UCB_KUNIT_TENANT_H
#define _UCB_KUNIT_TENANT_H

#include <linux/atomic.h>
#include <linux/usb.h>
#include <rdma/ib_verbs.h>
#include <ucb/rdma.h>

/*
 * @udev, @ibpd, @qp: lent to the driver as long as it is loaded
 * @desc: of its registration; @rounds: keys that it has given and taken
 * @left: what a call in its exit returned that is not 0
 */
struct tenant_lease {
	struct usb_device *udev;
	struct ib_pd *ibpd;
	struct ib_qp *qp;
	u8 desc[UCB_MR_DESC_SIZE];
	atomic_t rounds;
	int left;
};

extern struct tenant_lease ucb_tenant_lease;

#endif /* _UCB_KUNIT_TENANT_H */
