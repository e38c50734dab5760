// SPDX-License-Identifier: GPL-2.0
/*
 * Remote keys for USB coherent buffers.
 */
#include <linux/module.h>

#include "bridge.h"

static int __init ucb_rdma_init(void)
{
	int err;

	ucb_rdma_wq = alloc_workqueue("ucb_rdma", WQ_UNBOUND, 0);
	if (!ucb_rdma_wq)
		return -ENOMEM;
	ucb_stats_init();
	ucb_client_register(&ucb_pool_client);
	err = ib_register_client(&ucb_ib_client);
	if (err) {
		ucb_client_unregister(&ucb_pool_client);
		ucb_stats_exit();
		destroy_workqueue(ucb_rdma_wq);
	}
	return err;
}

static void __exit ucb_rdma_exit(void)
{
	ib_unregister_client(&ucb_ib_client);
	ucb_client_unregister(&ucb_pool_client);
	ucb_stats_exit();
	destroy_workqueue(ucb_rdma_wq);
}

module_init(ucb_rdma_init);
module_exit(ucb_rdma_exit);

MODULE_DESCRIPTION("Remote keys for USB coherent buffers");
MODULE_LICENSE("GPL");
