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
#include <linux/bitmap.h>
#include <linux/dma-mapping.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>

#define FAKE_IB_KEYS	256
#define FAKE_IB_CQES	16

/* How a verb fails. All but the first are of posted work requests only. */
enum fake_ib_fault {
	FAKE_IB_REFUSE,		/* it returns an error */
	FAKE_IB_ERROR,		/* completes with an error, QP to error */
	FAKE_IB_FLUSH,		/* the QP was in error before, by itself */
	FAKE_IB_EVENT,		/* so, and an event had said it */
	FAKE_IB_SILENT,		/* never completes */
};

/*
 * @dma: has a DMA device
 * @roce: addresses come from the netdev, if it has one
 * @netdev: name or NULL
 * @grh: InfiniBand whose packets need an address; has one if @gids
 * @no_fast_reg: has no fast registration
 * @pages: limit of an MR
 */
struct fake_ib_params {
	bool dma;
	bool roce;
	const char *netdev;
	bool grh;
	bool gids;
	bool no_fast_reg;
	unsigned int pages;
};

/*
 * @port: state of the only port
 * @pds: live objects, as @cqs, @qps and @nr_mrs; @made: MRs ever
 * @task: whose verbs fail; @nth: counted down to the one that does
 * @lasting: all fail from then on; @hits: how many have
 * @map_less: what ib_map_mr_sg() leaves out: @map_entries, @map_bytes
 * @bad: what should not have been asked
 */
struct fake_ib {
	struct ib_device ibdev;
	struct kunit *test;
	struct fake_ib_params params;
	struct platform_device *pdev;
	bool registered;
	enum ib_port_state port;

	spinlock_t lock;		/* @mrs, states of QPs and MRs, counts */
	struct list_head mrs;
	struct ib_qp *last_qp;
	u32 next_qpn;
	u32 next_key;
	atomic_t pds;
	atomic_t cqs;
	atomic_t qps;
	atomic_t nr_mrs;
	unsigned int made;
	unsigned int posted;
	unsigned int bad;

	struct task_struct *task;
	unsigned int nth;
	enum fake_ib_fault fault;
	bool lasting;
	unsigned int hits;
	unsigned int map_entries;
	unsigned int map_bytes;
};

struct fake_ib_pd {
	struct ib_pd ibpd;
};

struct fake_ib_cq {
	struct ib_cq ibcq;
	spinlock_t lock;		/* all of this */
	struct ib_wc wc[FAKE_IB_CQES];
	unsigned int head;
	unsigned int tail;
	bool armed;
};

struct fake_ib_qp {
	struct ib_qp ibqp;
	enum ib_qp_state state;
};

struct fake_ib_mr {
	struct ib_mr ibmr;
	struct list_head node;
	unsigned int max;
	unsigned int pages;
	bool valid;
	DECLARE_BITMAP(had, FAKE_IB_KEYS);
};

static inline struct fake_ib *to_fake_ib(struct ib_device *ibdev)
{
	return container_of(ibdev, struct fake_ib, ibdev);
}

/* Is this the call that fails? */
static inline bool fake_ib_hit(struct fake_ib *fake)
{
	if (current != fake->task || !fake->nth)
		return false;
	if (fake->nth > 1) {
		fake->nth--;
		return false;
	}
	if (!fake->lasting)
		fake->nth = 0;
	fake->hits++;
	return true;
}

static inline bool fake_ib_refuses(struct fake_ib *fake)
{
	return fake->fault == FAKE_IB_REFUSE && fake_ib_hit(fake);
}

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

static inline int fake_ib_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
				    struct uverbs_attr_bundle *attrs)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	struct fake_ib *fake = to_fake_ib(ibcq->device);

	if (fake_ib_refuses(fake))
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	ibcq->cqe = FAKE_IB_CQES;
	atomic_inc(&fake->cqs);
	return 0;
}

static inline int fake_ib_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	atomic_dec(&to_fake_ib(ibcq->device)->cqs);
	return 0;
}

static inline int fake_ib_poll_cq(struct ib_cq *ibcq, int nr, struct ib_wc *wc)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (n < nr && cq->tail != cq->head)
		wc[n++] = cq->wc[cq->tail++ % FAKE_IB_CQES];
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

static inline int fake_ib_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags how)
{
	struct fake_ib_cq *cq = container_of(ibcq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	bool missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = cq->tail != cq->head;
	spin_unlock_irqrestore(&cq->lock, flags);
	return how & IB_CQ_REPORT_MISSED_EVENTS ? missed : 0;
}

static inline void fake_ib_complete(struct ib_qp *ibqp, const struct ib_send_wr *wr,
				    enum ib_wc_status status)
{
	struct fake_ib_cq *cq = container_of(ibqp->send_cq, struct fake_ib_cq, ibcq);
	unsigned long flags;
	bool notify;

	/* an error is always told */
	if (status == IB_WC_SUCCESS && !(wr->send_flags & IB_SEND_SIGNALED))
		return;
	spin_lock_irqsave(&cq->lock, flags);
	cq->wc[cq->head++ % FAKE_IB_CQES] = (struct ib_wc){
		.wr_cqe = wr->wr_cqe,
		.status = status,
		.opcode = wr->opcode == IB_WR_REG_MR ? IB_WC_REG_MR : IB_WC_LOCAL_INV,
		.qp = ibqp,
	};
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify)
		ibqp->send_cq->comp_handler(ibqp->send_cq, ibqp->send_cq->cq_context);
}

static inline int fake_ib_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
				    struct ib_udata *udata)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);

	if (fake_ib_refuses(fake))
		return -ENOMEM;
	qp->state = IB_QPS_RESET;
	ibqp->qp_num = ++fake->next_qpn;
	atomic_inc(&fake->qps);
	fake->last_qp = ibqp;
	return 0;
}

static inline int fake_ib_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
				    struct ib_udata *udata)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	unsigned long flags;

	if (!(mask & IB_QP_STATE) ||
	    !ib_modify_qp_is_ok(qp->state, attr->qp_state, ibqp->qp_type, mask))
		return -EINVAL;
	/* to error a QP can always go */
	if (attr->qp_state != IB_QPS_ERR && fake_ib_refuses(fake))
		return -EIO;
	spin_lock_irqsave(&fake->lock, flags);
	qp->state = attr->qp_state;
	spin_unlock_irqrestore(&fake->lock, flags);
	return 0;
}

static inline int fake_ib_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct fake_ib *fake = to_fake_ib(ibqp->device);

	if (fake->last_qp == ibqp)
		fake->last_qp = NULL;
	atomic_dec(&fake->qps);
	return 0;
}

static inline int fake_ib_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
				    const struct ib_recv_wr **bad)
{
	*bad = wr;
	return -EOPNOTSUPP;
}

static inline struct ib_mr *fake_ib_get_dma_mr(struct ib_pd *ibpd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline struct ib_mr *fake_ib_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max)
{
	struct fake_ib *fake = to_fake_ib(ibpd->device);
	struct fake_ib_mr *mr;
	unsigned long flags;

	if (fake_ib_refuses(fake) || max > fake->params.pages)
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->max = max;
	spin_lock_irqsave(&fake->lock, flags);
	mr->ibmr.rkey = ++fake->next_key << 8;
	mr->ibmr.lkey = mr->ibmr.rkey;
	list_add_tail(&mr->node, &fake->mrs);
	fake->made++;
	spin_unlock_irqrestore(&fake->lock, flags);
	atomic_inc(&fake->nr_mrs);
	return &mr->ibmr;
}

static inline int fake_ib_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);
	struct fake_ib *fake = to_fake_ib(ibmr->device);
	unsigned long flags;

	spin_lock_irqsave(&fake->lock, flags);
	list_del(&mr->node);
	spin_unlock_irqrestore(&fake->lock, flags);
	atomic_dec(&fake->nr_mrs);
	kfree(mr);
	return 0;
}

static inline int fake_ib_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);

	if (mr->pages == mr->max)
		return -ENOMEM;
	mr->pages++;
	return 0;
}

static inline int fake_ib_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
				    unsigned int *offset)
{
	struct fake_ib_mr *mr = container_of(ibmr, struct fake_ib_mr, ibmr);
	struct fake_ib *fake = to_fake_ib(ibmr->device);
	int n;

	if (fake_ib_refuses(fake))
		return -EINVAL;
	mr->pages = 0;
	n = ib_sg_to_pages(ibmr, sg, nents, offset, fake_ib_set_page);
	ibmr->length -= fake->map_bytes;
	return n - fake->map_entries;
}

/* Return: the MR whose key, but for the low 8 bits, that is. */
static inline struct fake_ib_mr *fake_ib_find_mr(struct fake_ib *fake, u32 key)
{
	struct fake_ib_mr *mr;

	list_for_each_entry(mr, &fake->mrs, node)
		if (mr->ibmr.rkey >> 8 == key >> 8)
			return mr;
	return NULL;
}

static inline bool fake_ib_reg(struct fake_ib *fake, struct ib_qp *ibqp,
			       const struct ib_reg_wr *wr)
{
	struct fake_ib_mr *mr = container_of(wr->mr, struct fake_ib_mr, ibmr);
	bool remote_write = wr->access & IB_ACCESS_REMOTE_WRITE;

	if (mr->valid || mr->ibmr.pd != ibqp->pd || wr->key >> 8 != mr->ibmr.rkey >> 8 ||
	    (remote_write && !(wr->access & IB_ACCESS_LOCAL_WRITE)) ||
	    __test_and_set_bit(wr->key & 0xff, mr->had)) {
		fake->bad++;
		return false;
	}
	mr->ibmr.rkey = wr->key;
	mr->ibmr.lkey = wr->key;
	mr->valid = true;
	return true;
}

static inline bool fake_ib_inv(struct fake_ib *fake, struct ib_qp *ibqp, u32 key)
{
	struct fake_ib_mr *mr = fake_ib_find_mr(fake, key);

	if (!mr || !mr->valid || mr->ibmr.rkey != key || mr->ibmr.pd != ibqp->pd) {
		fake->bad++;
		return false;
	}
	mr->valid = false;
	return true;
}

/* Execute one; true for success. The QP is in RTS, under the lock. */
static inline bool fake_ib_exec(struct fake_ib *fake, struct ib_qp *ibqp,
				const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_REG_MR:
		return fake_ib_reg(fake, ibqp, reg_wr(wr));
	case IB_WR_LOCAL_INV:
		return fake_ib_inv(fake, ibqp, wr->ex.invalidate_rkey);
	default:
		fake->bad++;
		return false;
	}
}

/* The QP goes to error; told by an event only if @told. */
static inline void fake_ib_break_qp(struct ib_qp *ibqp, bool told)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct ib_event event = {
		.device = ibqp->device,
		.element.qp = ibqp,
		.event = IB_EVENT_QP_FATAL,
	};
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	unsigned long flags;

	spin_lock_irqsave(&fake->lock, flags);
	qp->state = IB_QPS_ERR;
	spin_unlock_irqrestore(&fake->lock, flags);
	if (told)
		ibqp->event_handler(&event, ibqp->qp_context);
}

static inline int fake_ib_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
				    const struct ib_send_wr **bad)
{
	struct fake_ib_qp *qp = container_of(ibqp, struct fake_ib_qp, ibqp);
	struct fake_ib *fake = to_fake_ib(ibqp->device);
	enum ib_wc_status status;
	unsigned long flags;

	for (; wr; wr = wr->next) {
		bool hit = fake_ib_hit(fake);

		if (hit && fake->fault == FAKE_IB_REFUSE) {
			*bad = wr;
			return -ENOMEM;
		}
		if (hit && fake->fault == FAKE_IB_SILENT)
			continue;
		if (hit && (fake->fault == FAKE_IB_FLUSH || fake->fault == FAKE_IB_EVENT))
			fake_ib_break_qp(ibqp, fake->fault == FAKE_IB_EVENT);

		spin_lock_irqsave(&fake->lock, flags);
		fake->posted++;
		status = IB_WC_WR_FLUSH_ERR;
		if (qp->state == IB_QPS_RTS) {
			status = IB_WC_SUCCESS;
			if (hit || !fake_ib_exec(fake, ibqp, wr)) {
				status = IB_WC_LOC_QP_OP_ERR;
				qp->state = IB_QPS_ERR;
			}
		}
		spin_unlock_irqrestore(&fake->lock, flags);
		fake_ib_complete(ibqp, wr, status);
	}
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
	if (!IS_ERR_OR_NULL(fake->pdev))
		platform_device_unregister(fake->pdev);
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
	fake->nth = 0;
	return fake->hits;
}

#endif /* _UCB_KUNIT_FAKE_IB_H */
