// SPDX-License-Identifier: GPL-2.0
/*
 * A driver that the suite "ending" loads, and removes in the middle of its work:
 * it has a pool of its own, a registration that is READ and WRITTEN, and a
 * mapping that is given a key whenever the last one has died.
 */
#include <linux/module.h>
#include <linux/sizes.h>
#include <ucb/pool.h>

#include "tenant.h"

#define ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

static struct tenant {
	struct ucb_pool *pool;
	struct ucb_pd *pd;
	struct ucb_buf *buf[2];
	struct ucb_mr *mr;
	struct ucb_qp *uqp;
	struct ucb_mr *map;
} tenant;

static void round_start(struct ucb_mr *map)
{
	if (!ucb_mr_grant(map, 1, SZ_32K, ACCESS) && !ucb_mr_grant_post(map, NULL, NULL))
		ucb_mr_recall(map, false);
}

static void round_over(struct ucb_mr *map, void *priv, int error)
{
	if (error)
		return;
	atomic_inc(&ucb_tenant_lease.rounds);
	round_start(map);
}

static void note(int error)
{
	ucb_tenant_lease.left = ucb_tenant_lease.left ?: error;
}

/* As in disconnect(); some of it may not be there. */
static void tenant_exit(void)
{
	int i;

	if (!IS_ERR(tenant.pool))
		ucb_pool_destroy(tenant.pool);
	if (!IS_ERR_OR_NULL(tenant.map))
		note(ucb_mr_dereg(&tenant.map));
	if (!IS_ERR_OR_NULL(tenant.mr))
		note(ucb_mr_dereg(&tenant.mr));
	if (!IS_ERR(tenant.uqp))
		note(ucb_qp_detach(tenant.uqp));
	if (!IS_ERR_OR_NULL(tenant.pd))
		note(ucb_pd_detach(tenant.pd));
	for (i = 0; i < ARRAY_SIZE(tenant.buf); i++)
		if (tenant.buf[i] && ucb_buf_free(tenant.buf[i]) != -ENODEV)
			note(-EBUSY);
}

static int tenant_move_in(void)
{
	const struct ucb_pool_params params = {
		.name = "tenant",
		.size = SZ_64K,
		.flags = UCB_POOL_RDMA,
	};
	const struct ucb_qp_attr attr = {
		.keys = 2,
		.length = SZ_64K,
		.recalled = round_over,
	};
	struct tenant_lease *lease = &ucb_tenant_lease;
	int i;

	tenant.pool = ucb_pool_create(lease->udev, &params);
	if (IS_ERR(tenant.pool))
		return PTR_ERR(tenant.pool);
	tenant.pd = ucb_pd_attach(lease->ibpd, 1);
	if (IS_ERR(tenant.pd))
		return PTR_ERR(tenant.pd);
	for (i = 0; i < ARRAY_SIZE(tenant.buf); i++) {
		tenant.buf[i] = ucb_buf_alloc(tenant.pool, GFP_KERNEL);
		if (!tenant.buf[i])
			return -ENOMEM;
	}
	tenant.mr = ucb_mr_reg(tenant.pd, tenant.buf[0], ACCESS);
	if (IS_ERR(tenant.mr))
		return PTR_ERR(tenant.mr);
	tenant.uqp = ucb_qp_attach(tenant.pd, lease->qp, &attr);
	if (IS_ERR(tenant.uqp))
		return PTR_ERR(tenant.uqp);
	tenant.map = ucb_mr_map(tenant.uqp, tenant.buf[1], IB_ACCESS_LOCAL_WRITE, NULL);
	if (IS_ERR(tenant.map))
		return PTR_ERR(tenant.map);
	round_start(tenant.map);
	return ucb_mr_get_descriptor(tenant.mr, lease->desc);
}

static int __init tenant_init(void)
{
	int ret = tenant_move_in();

	if (ret)
		tenant_exit();
	return ret;
}

module_init(tenant_init);
module_exit(tenant_exit);

MODULE_DESCRIPTION("Test driver that is removed in the middle of its work");
MODULE_LICENSE("GPL");
