// SPDX-License-Identifier: GPL-2.0
/*
 * What a key costs, in guest instructions: ucb_bench_rdma.ko, used like
 * ucb_bench.ko, by writing CONTROLLER to /sys/kernel/debug/ucb_bench_rdma/run.
 *
 * Needs the RDMA device rxe0 with an active port. The work requests are local
 * ones and go to a queue pair that is connected to itself. The device executes
 * them in a work queue; with one CPU its instructions are counted all the same.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/usb.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include <ucb/pool.h>
#include <ucb/rdma.h>

#include "../drivers/compat.h"
#include "../kunit/rdma_device.h"
#include "bench.h"

#define BENCH_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE)
#define BENCH_KEYS	16

/*
 * @pool: of UCB_POOL_RDMA
 * @buf: a buffer of it, kept out, whose pages @sgt has mapped for the device
 * @done: the last work request of a chain has completed, with @status
 * @uqp: @qp, lent
 * @map_bufs: as many buffers as there are keys, with @maps
 * @out: of those, how many have a key; @home tells that none has
 */
struct fabric {
	struct ib_device *ibdev;
	struct ucb_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ucb_pool *pool;
	struct ucb_buf *buf;
	struct sg_table sgt;
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
	struct ucb_qp *uqp;
	struct ucb_buf *map_bufs[BENCH_KEYS];
	struct ucb_mr *maps[BENCH_KEYS];
	atomic_t out;
	struct completion home;
};

/* What goes to the device, while it is counted: in front of its operations. */
static struct {
	typeof_member(struct ib_device, ops.post_send) post_send;
	typeof_member(struct ib_device, ops.alloc_mr) alloc_mr;
	u64 reg;
	u64 inv;
	u64 completions;
	u64 allocs;
} count;

static struct dentry *rdma_dir;

static void chain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct fabric *f = container_of(wc->wr_cqe, struct fabric, cqe);

	f->status = wc->status;
	complete(&f->done);
}

/*
 * One transfer the usual way, without the transfer: an MR of its own, a key
 * before and none after. Both work requests are posted at once, and only the
 * second tells of its completion: it cannot be done for less. Mapping the pages
 * for the device is not in it.
 */
static bool run_verbs(const struct bench *b, unsigned int n)
{
	struct fabric *f = b->priv;

	while (n--) {
		struct ib_send_wr inv = {
			.opcode = IB_WR_LOCAL_INV,
			.wr_cqe = &f->cqe,
			.send_flags = IB_SEND_SIGNALED,
		};
		struct ib_reg_wr reg = {
			.wr.opcode = IB_WR_REG_MR,
			.wr.next = &inv,
			.access = BENCH_ACCESS,
		};
		struct ib_mr *mr;

		mr = ib_alloc_mr(ucb_pd_ib(f->pd), IB_MR_TYPE_MEM_REG,
				 DIV_ROUND_UP(b->size, PAGE_SIZE));
		if (IS_ERR(mr))
			return false;
		if (ib_map_mr_sg(mr, f->sgt.sgl, f->sgt.nents, NULL,
				 PAGE_SIZE) != f->sgt.nents)
			return false;
		ib_update_fast_reg_key(mr, (u8)(mr->rkey + 1));
		reg.mr = mr;
		reg.key = mr->rkey;
		inv.ex.invalidate_rkey = mr->rkey;
		reinit_completion(&f->done);
		if (ib_post_send(f->qp, &reg.wr, NULL))
			return false;
		wait_for_completion(&f->done);
		if (f->status != IB_WC_SUCCESS || ib_dereg_mr(mr))
			return false;
	}
	return true;
}

/* The same by our calls, which map the pages as well. */
static bool run_mr(const struct bench *b, unsigned int n)
{
	struct fabric *f = b->priv;

	while (n--) {
		struct ucb_mr *mr = ucb_mr_reg(f->pd, f->buf, BENCH_ACCESS);

		if (IS_ERR(mr) || ucb_mr_dereg(&mr))
			return false;
	}
	return true;
}

static void key_recalled(struct ucb_mr *mr, void *priv, int error)
{
	struct fabric *f = priv;

	if (!error && atomic_dec_and_test(&f->out))
		complete(&f->home);
}

/*
 * The same by the policy for one transfer: the pages are mapped and the MRs made
 * beforehand, and up to 16 invalidations share a completion.
 */
static bool run_transfers(struct fabric *f, size_t size, int access, unsigned int n)
{
	unsigned int i;

	for (; n; n -= BENCH_KEYS) {
		atomic_set(&f->out, BENCH_KEYS);
		for (i = 0; i < BENCH_KEYS; i++)
			if (ucb_mr_grant(f->maps[i], 0, size, access) ||
			    ucb_mr_grant_post(f->maps[i], NULL, NULL) ||
			    ucb_mr_recall(f->maps[i], false))
				return false;
		wait_for_completion(&f->home);
	}
	return true;
}

/* By a key that no peer can use, which a soft device may reuse the MR for. */
static bool run_transfer(const struct bench *b, unsigned int n)
{
	return run_transfers(b->priv, b->size, IB_ACCESS_LOCAL_WRITE, n);
}

/* By one that a peer can: a soft device must have another MR each time. */
static bool run_transfer_renewed(const struct bench *b, unsigned int n)
{
	return run_transfers(b->priv, b->size, BENCH_ACCESS, n);
}

static int count_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
			   const struct ib_send_wr **bad)
{
	const struct ib_send_wr *w;

	for (w = wr; w; w = w->next) {
		count.reg += w->opcode == IB_WR_REG_MR;
		count.inv += w->opcode == IB_WR_LOCAL_INV;
		count.completions += !!(w->send_flags & IB_SEND_SIGNALED);
	}
	return count.post_send(qp, wr, bad);
}

static struct ib_mr *count_alloc_mr(struct ib_pd *pd, enum ib_mr_type type, u32 nr)
{
	count.allocs++;
	return count.alloc_mr(pd, type, nr);
}

/* What that posts and allocates, in numbers. */
static int count_transfers(struct fabric *f, size_t size)
{
	const unsigned int n = 64 * BENCH_KEYS;
	struct ib_device *ibdev = f->ibdev;
	bool ok;

	memset(&count, 0, sizeof(count));
	count.post_send = ibdev->ops.post_send;
	count.alloc_mr = ibdev->ops.alloc_mr;
	ibdev->ops.post_send = count_post_send;
	ibdev->ops.alloc_mr = count_alloc_mr;
	ok = run_transfers(f, size, IB_ACCESS_LOCAL_WRITE, n);
	ibdev->ops.post_send = count.post_send;
	ibdev->ops.alloc_mr = count.alloc_mr;
	if (!ok)
		return -EIO;
	return bench_add_count("transfers", size, n) ?:
	       bench_add_count("transfer_reg", size, count.reg) ?:
	       bench_add_count("transfer_inv", size, count.inv) ?:
	       bench_add_count("transfer_completions", size, count.completions) ?:
	       bench_add_count("transfer_allocs", size, count.allocs);
}

static bool run_handles(const struct bench *b, struct ucb_pool *pool,
			unsigned int n)
{
	while (n--) {
		struct ucb_buf *buf = ucb_buf_alloc(pool, GFP_KERNEL);

		if (!buf || ucb_buf_free(buf))
			return false;
	}
	return true;
}

/* a buffer of a plain pool */
static bool run_plain(const struct bench *b, unsigned int n)
{
	return run_handles(b, b->pool, n);
}

/* a buffer of a pool whose buffers can have keys */
static bool run_keyed(const struct bench *b, unsigned int n)
{
	struct fabric *f = b->priv;

	return run_handles(b, f->pool, n);
}

static const struct bench_op ops[] = {
	{ "verbs", run_verbs },
	{ "mr", run_mr },
	{ "transfer", run_transfer },
	{ "transfer_renewed", run_transfer_renewed },
	{ "plain", run_plain },
	{ "keyed", run_keyed },
};

static const struct bench_op granted_ops[] = {
	{ "persistent", run_keyed },
};

static int connect_to_itself(struct fabric *f)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = f->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	const struct ib_gid_attr *gid;
	union ib_gid dgid;
	int ret;

	gid = rdma_get_gid_attr(f->ibdev, 1, 0);
	if (IS_ERR(gid))
		return PTR_ERR(gid);
	ret = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	dgid = gid->gid;
	rdma_put_gid_attr(gid);
	if (ret)
		return ret;
	rdma_ah_set_port_num(&attr.ah_attr, 1);
	rdma_ah_set_grh(&attr.ah_attr, &dgid, 0, 0, 1, 0);

	ret = ib_modify_qp(f->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(f->qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(f->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

static int make_qp(struct fabric *f)
{
	struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr = 2 * BENCH_KEYS + 8,
			.max_recv_wr = 2,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	int ret;

	f->cqe.done = chain_done;
	init_completion(&f->done);
	f->cq = ib_alloc_cq(f->ibdev, f, 4 * BENCH_KEYS, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(f->cq))
		return PTR_ERR(f->cq);
	init.send_cq = f->cq;
	init.recv_cq = f->cq;
	f->qp = ib_create_qp(ucb_pd_ib(f->pd), &init);
	if (IS_ERR(f->qp)) {
		ret = PTR_ERR(f->qp);
		goto free_cq;
	}
	ret = connect_to_itself(f);
	if (ret)
		goto destroy_qp;
	return 0;

destroy_qp:
	ib_destroy_qp(f->qp);
free_cq:
	ib_free_cq(f->cq);
	return ret;
}

static void destroy_qp(struct fabric *f)
{
	ib_destroy_qp(f->qp);
	ib_free_cq(f->cq);
}

static int map_buf(struct fabric *f)
{
	size_t offset;
	int ret;

	ret = ucb_buf_get_sgtable(f->buf, &f->sgt, &offset);
	if (ret)
		return ret;
	ret = offset ? -EINVAL :
		       ib_dma_map_sgtable_attrs(f->ibdev, &f->sgt, DMA_BIDIRECTIONAL,
						DMA_ATTR_SKIP_CPU_SYNC);
	if (ret)
		sg_free_table(&f->sgt);
	return ret;
}

static void unmap_buf(struct fabric *f)
{
	ib_dma_unmap_sgtable_attrs(f->ibdev, &f->sgt, DMA_BIDIRECTIONAL,
				   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&f->sgt);
}

static void unlend_qp(struct fabric *f)
{
	unsigned int i;

	for (i = 0; i < BENCH_KEYS; i++) {
		if (f->maps[i] && ucb_mr_dereg(&f->maps[i]))
			pr_err("a mapping was not given up\n");
		if (f->map_bufs[i] && ucb_buf_free(f->map_bufs[i]))
			pr_err("a buffer was not freed\n");
		f->map_bufs[i] = NULL;
	}
	if (ucb_qp_detach(f->uqp))
		pr_err("the queue pair was not given back\n");
}

/* The queue pair, and buffers mapped for it. */
static int lend_qp(struct fabric *f, size_t size)
{
	const struct ucb_qp_attr attr = {
		.keys = BENCH_KEYS,
		.length = size,
		.recalled = key_recalled,
	};
	unsigned int i;

	init_completion(&f->home);
	f->uqp = ucb_qp_attach(f->pd, f->qp, &attr);
	if (IS_ERR(f->uqp))
		return PTR_ERR(f->uqp);
	for (i = 0; i < BENCH_KEYS; i++) {
		f->map_bufs[i] = ucb_buf_alloc(f->pool, GFP_KERNEL);
		if (!f->map_bufs[i])
			goto unlend;
		f->maps[i] = ucb_mr_map(f->uqp, f->map_bufs[i], IB_ACCESS_LOCAL_WRITE, f);
		if (IS_ERR(f->maps[i])) {
			f->maps[i] = NULL;
			goto unlend;
		}
	}
	return 0;

unlend:
	unlend_qp(f);
	return -ENOMEM;
}

/* All that takes buffers of its own. */
static int measure_ops(struct fabric *f, const struct bench *b)
{
	int ret;

	f->buf = ucb_buf_alloc(f->pool, GFP_KERNEL);
	if (!f->buf)
		return -ENOMEM;
	ret = map_buf(f);
	if (ret)
		goto free_buf;
	ret = make_qp(f);
	if (ret)
		goto unmap;
	ret = lend_qp(f, b->size);
	if (ret)
		goto destroy;
	ret = bench_measure(ops, ARRAY_SIZE(ops), b) ?: count_transfers(f, b->size);
	unlend_qp(f);
destroy:
	destroy_qp(f);
unmap:
	unmap_buf(f);
free_buf:
	if (ucb_buf_free(f->buf))
		pr_err("a buffer was not freed\n");
	return ret;
}

static int measure_granted(struct fabric *f, const struct bench *b)
{
	struct ucb_pool_mr *pmr;
	int ret;

	pmr = ucb_pool_mr_reg(f->pd, f->pool, BENCH_ACCESS);
	if (IS_ERR(pmr))
		return PTR_ERR(pmr);
	ret = bench_measure(granted_ops, ARRAY_SIZE(granted_ops), b);
	return ucb_pool_mr_dereg(&pmr) ?: ret;
}

static struct ucb_pool *make_fixed_pool(struct usb_device *udev, size_t size,
					unsigned int count)
{
	const struct ucb_pool_params params = {
		.name = "bench-rdma",
		.size = size,
		.min = count,
		.max = count,
		.flags = UCB_POOL_RDMA,
	};

	return ucb_pool_create(udev, &params);
}

static int measure_size(struct usb_device *udev, struct fabric *f, size_t size)
{
	struct bench b = {
		.udev = udev,
		.size = size,
		.priv = f,
	};
	int ret;

	b.pool = bench_make_pool(udev, "bench", size, 256);
	if (IS_ERR(b.pool))
		return PTR_ERR(b.pool);
	f->pool = make_fixed_pool(udev, size, 256);
	if (IS_ERR(f->pool)) {
		ret = PTR_ERR(f->pool);
		goto destroy_plain;
	}
	ret = measure_ops(f, &b) ?: measure_granted(f, &b);
	ucb_pool_destroy(f->pool);
destroy_plain:
	ucb_pool_destroy(b.pool);
	return ret;
}

/* How many MRs 64 MiB take, and how many their bytes need. */
static int count_mrs(struct usb_device *udev, struct fabric *f, size_t size)
{
	u32 limit = f->ibdev->attrs.max_fast_reg_page_list_len;
	struct ucb_pool_mr *pmr;
	struct ucb_pool *pool;
	int ret;

	pool = make_fixed_pool(udev, size, SZ_64M / size);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	pmr = ucb_pool_mr_reg(f->pd, pool, BENCH_ACCESS);
	ret = PTR_ERR_OR_ZERO(pmr);
	if (!ret)
		ret = bench_add_count("pool_mrs", size, ucb_pool_mr_get_count(pmr)) ?:
		      bench_add_count("pool_needs", size,
				      DIV_ROUND_UP(SZ_64M, limit * PAGE_SIZE)) ?:
		      ucb_pool_mr_dereg(&pmr);
	ucb_pool_destroy(pool);
	return ret;
}

static int measure(struct usb_device *udev)
{
	static const size_t sizes[] = { SZ_4K, SZ_64K };
	struct fabric f = {};
	unsigned int i;
	int ret = 0;

	f.ibdev = rdma_device_on("d0");
	if (!f.ibdev)
		return -ENODEV;
	f.pd = ucb_pd_get(f.ibdev, 1);
	if (IS_ERR(f.pd)) {
		ret = PTR_ERR(f.pd);
		goto put_device;
	}
	for (i = 0; !ret && i < ARRAY_SIZE(sizes); i++)
		ret = measure_size(udev, &f, sizes[i]) ?:
		      count_mrs(udev, &f, sizes[i]);
	ucb_pd_put(f.pd);
put_device:
	ib_device_put(f.ibdev);
	return ret;
}

static ssize_t bench_write(struct file *file, const char __user *from, size_t len,
			   loff_t *pos)
{
	struct usb_device *udev;
	char line[64];
	int ret;

	ret = bench_copy_line(line, sizeof(line), from, len);
	if (ret)
		return ret;
	udev = bench_find_device(line);
	if (!udev)
		return -ENODEV;
	mutex_lock(&bench_lock);
	bench_forget();
	ret = bench_check_clock();
	if (!ret)
		ret = measure(udev);
	mutex_unlock(&bench_lock);
	usb_put_dev(udev);
	if (ret)
		pr_err("error %d\n", ret);
	return ret ?: len;
}

DEFINE_SHOW_STORE_ATTRIBUTE(bench);

static int __init bench_rdma_init(void)
{
	rdma_dir = debugfs_create_dir("ucb_bench_rdma", NULL);
	debugfs_create_file("run", 0600, rdma_dir, NULL, &bench_fops);
	return 0;
}
module_init(bench_rdma_init);

static void __exit bench_rdma_exit(void)
{
	debugfs_remove_recursive(rdma_dir);
}
module_exit(bench_rdma_exit);

MODULE_DESCRIPTION("Instructions of keys, under an instruction-counting clock");
MODULE_LICENSE("GPL");
