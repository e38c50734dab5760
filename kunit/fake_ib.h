/* SPDX-License-Identifier: GPL-2.0 */
/*
 * An RDMA device without hardware, for suites: it executes the local operations
 * of fast registration, strictly, and its verbs fail on command. Nothing is sent
 * or received. On a DMA device of its own, so that mappings are real and the DMA
 * API's checks see them, or, as a soft one, without.
 *
 * What is wrong to ask of any device is counted: a key that its MR has had
 * before, a registration of an MR that is still valid, an operation on an MR of
 * another PD.
 */
#ifndef _UCB_KUNIT_FAKE_IB_H
#define _UCB_KUNIT_FAKE_IB_H

#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#include "dma_left.h"
#include "fake_ib_verbs.h"

static inline int fake_ib_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
				       struct ib_udata *udata)
{
	struct fake_ib *fake = to_fake_ib(ibdev);

	memset(attr, 0, sizeof(*attr));
	attr->max_mr_size = -1;
	attr->page_size_cap = PAGE_SIZE;
	attr->max_qp = 64;
	attr->max_qp_wr = 64;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 4;
	attr->max_cq = 64;
	attr->max_cqe = FAKE_IB_CQES;
	attr->max_mr = 64;
	attr->max_pd = 64;
	attr->max_pkeys = 1;
	attr->max_fast_reg_page_list_len = fake->params.pages;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	if (!fake->params.no_fast_reg)
		attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS;
	return 0;
}

static inline int fake_ib_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct fake_ib *fake = to_fake_ib(ibdev);

	if (fake_ib_refuses(fake))
		return -EIO;
	attr->state = READ_ONCE(fake->port);
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_1024;
	attr->pkey_tbl_len = 1;
	attr->gid_tbl_len = fake->params.roce ? 8 : fake->params.gids;
	attr->lid = 1;
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_SDR;
	return 0;
}

static inline int fake_ib_immutable(struct ib_device *ibdev, u32 port,
				    struct ib_port_immutable *immutable)
{
	struct fake_ib *fake = to_fake_ib(ibdev);

	immutable->pkey_tbl_len = 1;
	immutable->gid_tbl_len = fake->params.roce ? 8 : fake->params.gids;
	immutable->core_cap_flags = fake->params.roce ? RDMA_CORE_CAP_PROT_ROCE :
							RDMA_CORE_CAP_PROT_IB;
	if (fake->params.grh)
		immutable->core_cap_flags |= RDMA_CORE_CAP_IB_GRH_REQUIRED;
	return 0;
}

static inline enum rdma_link_layer fake_ib_link_layer(struct ib_device *ibdev, u32 port)
{
	return to_fake_ib(ibdev)->params.roce ? IB_LINK_LAYER_ETHERNET :
						IB_LINK_LAYER_INFINIBAND;
}

static inline int fake_ib_query_gid(struct ib_device *ibdev, u32 port, int index,
				    union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	gid->global.interface_id = cpu_to_be64(0x020000fffe000001ULL);
	return 0;
}

static inline int fake_ib_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return 0;
}

static inline int fake_ib_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static inline int fake_ib_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct fake_ib *fake = to_fake_ib(ibpd->device);

	if (fake_ib_refuses(fake))
		return -ENOMEM;
	atomic_inc(&fake->pds);
	return 0;
}

static inline int fake_ib_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_fake_ib(ibpd->device)->pds);
	return 0;
}

static const struct ib_device_ops fake_ib_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = fake_ib_query_device,
	.query_port = fake_ib_query_port,
	.get_port_immutable = fake_ib_immutable,
	.get_link_layer = fake_ib_link_layer,
	.query_gid = fake_ib_query_gid,
	.query_pkey = fake_ib_query_pkey,
	.alloc_pd = fake_ib_alloc_pd,
	.dealloc_pd = fake_ib_dealloc_pd,
	.create_cq = fake_ib_create_cq,
	.destroy_cq = fake_ib_destroy_cq,
	.poll_cq = fake_ib_poll_cq,
	.req_notify_cq = fake_ib_req_notify_cq,
	.create_qp = fake_ib_create_qp,
	.modify_qp = fake_ib_modify_qp,
	.query_qp = fake_ib_query_qp,
	.destroy_qp = fake_ib_destroy_qp,
	.post_send = fake_ib_post_send,
	.post_recv = fake_ib_post_recv,
	.get_dma_mr = fake_ib_get_dma_mr,
	/* user space's; asked for, and never called without a ucontext */
	.reg_user_mr = (void *)fake_ib_get_dma_mr,
	.alloc_mr = fake_ib_alloc_mr,
	.dereg_mr = fake_ib_dereg_mr,
	.map_mr_sg = fake_ib_map_mr_sg,
	INIT_RDMA_OBJ_SIZE(ib_pd, fake_ib_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_cq, fake_ib_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_qp, fake_ib_qp, ibqp),
};

/* With these the RDMA core takes addresses from the netdev. */
static const struct ib_device_ops fake_ib_roce_ops = {
	.add_gid = fake_ib_gid,
	.del_gid = fake_ib_gid,
};

static const struct ib_device_ops fake_ib_drain_ops = {
	.drain_sq = fake_ib_drain_sq,
	.drain_rq = fake_ib_drain_rq,
};

/* Take the device from the RDMA core. Its clients give everything back. */
static inline void fake_ib_unregister(struct fake_ib *fake)
{
	if (fake->registered)
		ib_unregister_device(&fake->ibdev);
	fake->registered = false;
}

static inline int fake_ib_register(struct fake_ib *fake)
{
	struct net_device *ndev;
	int err;

	fake->pdev = platform_device_register_simple("ucb_fake_ib", PLATFORM_DEVID_AUTO, NULL, 0);
	if (IS_ERR(fake->pdev))
		return PTR_ERR(fake->pdev);
	err = dma_coerce_mask_and_coherent(&fake->pdev->dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	dma_set_max_seg_size(&fake->pdev->dev, UINT_MAX);

	ib_set_device_ops(&fake->ibdev, &fake_ib_ops);
	if (fake->params.roce)
		ib_set_device_ops(&fake->ibdev, &fake_ib_roce_ops);
	if (fake->params.drains)
		ib_set_device_ops(&fake->ibdev, &fake_ib_drain_ops);
	fake->ibdev.node_type = RDMA_NODE_IB_CA;
	fake->ibdev.phys_port_cnt = 1;
	fake->ibdev.num_comp_vectors = 1;
	fake->ibdev.dev.parent = &fake->pdev->dev;
	if (fake->params.netdev) {
		ndev = dev_get_by_name(&init_net, fake->params.netdev);
		if (!ndev)
			return -ENODEV;
		err = ib_device_set_netdev(&fake->ibdev, ndev, 1);
		dev_put(ndev);
		if (err)
			return err;
	}
	err = ib_register_device(&fake->ibdev, "ucb_fake%d",
				 fake->params.dma ? &fake->pdev->dev : NULL);
	if (!err)
		fake->registered = true;
	return err;
}

/* Release all MRs, whoever has lost them. */
static inline void fake_ib_release(struct fake_ib *fake)
{
	struct fake_ib_mr *mr, *next;

	fake->keeps = 0;
	list_for_each_entry_safe(mr, next, &fake->mrs, node)
		ib_dereg_mr(&mr->ibmr);
}

static inline void fake_ib_free(void *data)
{
	struct fake_ib *fake = data;
	struct kunit *test = fake->test;

	fake_ib_unregister(fake);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->pds), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->cqs), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->qps), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->nr_mrs), 0);
	KUNIT_EXPECT_EQ(test, fake->bad, 0);
	if (!IS_ERR_OR_NULL(fake->pdev)) {
		KUNIT_EXPECT_EQ(test, dma_left_look(fake->pdev), 0);
		platform_device_unregister(fake->pdev);
	}
	ib_dealloc_device(&fake->ibdev);
}

/* A device for this test. At its end all that it ever made must have gone. */
static inline struct fake_ib *fake_ib_get(struct kunit *test, const struct fake_ib_params *params)
{
	struct fake_ib *fake = ib_alloc_device(fake_ib, ibdev);
	int err;

	KUNIT_ASSERT_NOT_NULL(test, fake);
	fake->test = test;
	fake->params = *params;
	if (!fake->params.pages)
		fake->params.pages = 256;
	fake->port = IB_PORT_ACTIVE;
	spin_lock_init(&fake->lock);
	INIT_LIST_HEAD(&fake->mrs);
	err = fake_ib_register(fake);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, fake_ib_free, fake), 0);
	KUNIT_ASSERT_EQ_MSG(test, err, 0, "no fake RDMA device");
	return fake;
}

/* From here on the @nth verb of this task that can, fails. */
static inline void fake_ib_fail(struct fake_ib *fake, unsigned int nth, enum fake_ib_fault fault,
				bool lasting)
{
	fake->task = current;
	fake->fault = fault;
	fake->lasting = lasting;
	fake->hits = 0;
	fake->nth = nth;
}

/* No more. Return: how many have failed. */
static inline unsigned int fake_ib_heal(struct fake_ib *fake)
{
	fake->task = NULL;
	fake->all = false;
	fake->nth = 0;
	return fake->hits;
}

#endif /* _UCB_KUNIT_FAKE_IB_H */
