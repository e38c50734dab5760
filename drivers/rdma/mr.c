// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations.
 *
 * Registering maps the buffer's pages for the NIC, puts exactly the bytes asked
 * for into a fast-registration MR whose addresses start below one page, and has
 * the domain's queue pair give it a key. Ending one goes the other way: the key
 * is invalidated, the MR destroyed or kept for another key, the pages unmapped,
 * and only then may the pool give the buffer to somebody else.
 *
 * Three parties can end a registration: its owner, the pool that is destroyed,
 * and the device that goes. The first claims it and takes it down, without any
 * lock; the others wait until it is dead. The handle is the owner's alone and
 * stays until ucb_mr_dereg().
 *
 * Invalidation stops new accesses, but a soft device may be in the middle of
 * copying a packet. Where that is so an MR that a peer could reach is always
 * destroyed: destruction waits for it.
 */
#include <linux/dma-mapping.h>
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "bridge.h"

#define UCB_MR_REMOTE	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)
#define UCB_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | UCB_MR_REMOTE)

/* all that are not dead; pd->live and pd->shut */
static LIST_HEAD(ucb_mrs);
static DEFINE_SPINLOCK(ucb_mrs_lock);

static void mr_release(struct kref *ref)
{
	struct ucb_mr *mr = container_of(ref, struct ucb_mr, ref);

	ucb_pd_unref(mr->pd);
	kfree(mr);
}

static int mr_list(struct ucb_mr *mr)
{
	int err = 0;

	spin_lock(&ucb_mrs_lock);
	if (mr->pd->shut) {
		err = -ENODEV;
	} else {
		mr->pd->live++;
		list_add_tail(&mr->node, &ucb_mrs);
	}
	spin_unlock(&ucb_mrs_lock);
	return err;
}

/* With an error the device may still know it: the domain counts it for good. */
static void mr_unlist(struct ucb_mr *mr)
{
	spin_lock(&ucb_mrs_lock);
	list_del_init(&mr->node);
	if (!mr->error)
		mr->pd->live--;
	spin_unlock(&ucb_mrs_lock);
}

/*
 * Let no registration into the domain any more; with @only_if_idle leave it open
 * if there are some, and name them. Return: how many there are.
 */
unsigned int ucb_mr_shut(struct ucb_pd *pd, bool only_if_idle)
{
	unsigned int live;
	struct ucb_mr *mr;

	spin_lock(&ucb_mrs_lock);
	live = pd->live;
	if (!live || !only_if_idle) {
		pd->shut = true;
		goto out;
	}
	list_for_each_entry(mr, &ucb_mrs, node)
		if (mr->pd == pd)
			ibdev_warn_ratelimited(pd->ibdev,
					       "ucb: PD has a live registration: key %#x, %zu bytes\n",
					       mr->rkey, mr->length);
	ibdev_warn_ratelimited(pd->ibdev, "ucb: PD has %u registrations in all\n",
			       live);
out:
	spin_unlock(&ucb_mrs_lock);
	return live;
}

/* Cut [@skip, @skip + @length) out of @src. */
static int cut_sgtable(struct sg_table *dst, struct sg_table *src, size_t skip,
		       size_t length)
{
	struct scatterlist *to;
	struct scatterlist *sg;
	unsigned int nents = 0;
	size_t left = length;
	size_t from = skip;
	unsigned int off;
	size_t take;
	int err;
	int i;

	for_each_sgtable_sg(src, sg, i) {
		if (from >= sg->length) {
			from -= sg->length;
			continue;
		}
		take = min(left, sg->length - from);
		left -= take;
		from = 0;
		nents++;
		if (!left)
			break;
	}
	if (left)
		return -ERANGE;

	err = sg_alloc_table(dst, nents, GFP_KERNEL);
	if (err)
		return err;

	to = dst->sgl;
	for_each_sgtable_sg(src, sg, i) {
		if (skip >= sg->length) {
			skip -= sg->length;
			continue;
		}
		take = min(length, sg->length - skip);
		off = sg->offset + skip;
		sg_set_page(to, pfn_to_page(page_to_pfn(sg_page(sg)) +
					    (off >> PAGE_SHIFT)),
			    take, offset_in_page(off));
		to = sg_next(to);
		length -= take;
		skip = 0;
		if (!length)
			break;
	}
	return 0;
}

static int mr_map_pages(struct ucb_mr *mr, size_t offset)
{
	struct ib_device *ibdev = mr->pd->ibdev;
	struct sg_table pages;
	size_t start;
	int err;

	err = ucb_buf_get_sgtable(mr->buf, &pages, &start);
	if (err)
		return err;
	err = cut_sgtable(&mr->sgt, &pages, start + offset, mr->length);
	sg_free_table(&pages);
	if (err)
		return err;

	/* Coherent for the USB controller: nothing to flush for the NIC. */
	mr->dir = mr->access & IB_ACCESS_LOCAL_WRITE ? DMA_BIDIRECTIONAL :
						       DMA_TO_DEVICE;
	err = ib_dma_map_sgtable_attrs(ibdev, &mr->sgt, mr->dir,
				       DMA_ATTR_SKIP_CPU_SYNC);
	if (err)
		sg_free_table(&mr->sgt);
	return err;
}

static void mr_unmap_pages(struct ucb_mr *mr)
{
	ib_dma_unmap_sgtable_attrs(mr->pd->ibdev, &mr->sgt, mr->dir,
				   DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(&mr->sgt);
}

/* The whole range must be in the MR: ib_map_mr_sg() is content with a part. */
static int mr_fill(struct ucb_mr *mr)
{
	struct ib_mr *ibmr = mr->fr->ibmr;
	int n;

	n = ib_map_mr_sg(ibmr, mr->sgt.sgl, mr->sgt.nents, NULL, PAGE_SIZE);
	if (n < 0)
		return n;
	if (n != mr->sgt.nents || ibmr->length != mr->length)
		return -EOPNOTSUPP;

	mr->iova = offset_in_page(sg_dma_address(mr->sgt.sgl));
	ibmr->iova = mr->iova;
	ucb_fr_next_key(mr->fr);
	mr->rkey = ibmr->rkey;
	return 0;
}

static int mr_give_key(struct ucb_mr *mr)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = mr->fr->ibmr,
		.key = mr->rkey,
		.access = mr->access,
	};

	return ucb_rqp_exec(mr->pd, &wr.wr);
}

static int mr_take_key(struct ucb_mr *mr)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = mr->rkey,
	};
	int err;

	/* not once more the full wait, for each of maybe many */
	if (READ_ONCE(mr->pd->mute))
		return -EIO;
	err = ucb_pd_enter(mr->pd);
	if (err)
		return err;
	err = ucb_rqp_exec(mr->pd, &wr);
	ucb_pd_exit(mr->pd);
	return err;
}

/* The caller is inside the domain, and mr is listed. */
static int mr_setup(struct ucb_mr *mr, size_t offset)
{
	struct ib_device *ibdev = mr->pd->ibdev;
	unsigned int limit = ibdev->attrs.max_fast_reg_page_list_len;
	unsigned int pages;
	int err;

	err = ucb_buf_busy_get(mr->buf);
	if (err)
		return err;

	err = mr_map_pages(mr, offset);
	if (err)
		goto err_busy;

	pages = PFN_UP(mr->sgt.sgl->offset + mr->length);
	if (pages > limit || mr->length > ibdev->attrs.max_mr_size) {
		ibdev_warn_ratelimited(ibdev,
				       "ucb: %zu bytes in %u pages, the device takes %u pages\n",
				       mr->length, pages, limit);
		err = -E2BIG;
		goto err_unmap;
	}

	mr->fr = ucb_fr_get(mr->pd, pages);
	if (IS_ERR(mr->fr)) {
		err = PTR_ERR(mr->fr);
		goto err_unmap;
	}

	err = mr_fill(mr);
	if (!err)
		err = mr_give_key(mr);
	if (err)
		goto err_fr;
	return 0;

err_fr:
	/* What became of the key is not known, so the MR goes. */
	mr->error = ucb_fr_put(mr->pd, mr->fr, true);
	if (mr->error) {
		ibdev_err(ibdev, "ucb: MR not released (%d), buffer kept\n",
			  mr->error);
		return err;
	}
err_unmap:
	mr_unmap_pages(mr);
err_busy:
	ucb_buf_busy_put(mr->buf);
	return err;
}

/*
 * Take down a claimed registration. When the device does not let go of the MR,
 * the buffer stays busy for good: better lost than written by a peer.
 */
static void mr_teardown(struct ucb_mr *mr, bool retire)
{
	struct ib_device *ibdev = mr->pd->ibdev;

	if (!retire && mr_take_key(mr))
		retire = true;
	if (ib_uses_virt_dma(ibdev) && (mr->access & UCB_MR_REMOTE))
		retire = true;

	mr->error = ucb_fr_put(mr->pd, mr->fr, retire);
	if (mr->error) {
		ibdev_err(ibdev, "ucb: key %#x not released (%d), buffer kept\n",
			  mr->rkey, mr->error);
	} else {
		mr_unmap_pages(mr);
		ucb_buf_busy_put(mr->buf);
	}

	atomic_set(&mr->state, UCB_MR_DEAD);
	mr_unlist(mr);
	complete_all(&mr->dead);
}

/* Make sure that the device has forgotten it, whoever does that. */
static void mr_end(struct ucb_mr *mr, bool retire)
{
	if (atomic_cmpxchg(&mr->state, UCB_MR_LIVE, UCB_MR_CLAIMED) == UCB_MR_LIVE)
		mr_teardown(mr, retire);
	else
		wait_for_completion(&mr->dead);
}

/* Revoke those of @pool, or of @pd if that is given. */
static void mr_revoke(struct ucb_pool *pool, struct ucb_pd *pd)
{
	struct ucb_mr *found;
	struct ucb_mr *mr;

	do {
		found = NULL;
		spin_lock(&ucb_mrs_lock);
		list_for_each_entry(mr, &ucb_mrs, node) {
			if (pd ? mr->pd == pd : mr->pool == pool) {
				found = mr;
				kref_get(&mr->ref);
				break;
			}
		}
		spin_unlock(&ucb_mrs_lock);

		if (found) {
			wait_for_completion(&found->ready);
			mr_end(found, true);
			kref_put(&found->ref, mr_release);
		}
	} while (found);
}

void ucb_mr_revoke_pd(struct ucb_pd *pd)
{
	mr_revoke(NULL, pd);
}

static void revoke_pool(struct ucb_client *client, struct ucb_pool *pool)
{
	mr_revoke(pool, NULL);
}

struct ucb_client ucb_pool_client = {
	.revoke = revoke_pool,
};

static struct ucb_mr *mr_alloc(struct ucb_pd *pd, struct ucb_buf *buf,
			       size_t offset, size_t length, int access)
{
	struct ucb_mr *mr;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return NULL;
	kref_init(&mr->ref);
	atomic_set(&mr->state, UCB_MR_SETUP);
	init_completion(&mr->ready);
	init_completion(&mr->dead);
	mr->pd = pd;
	mr->buf = buf;
	mr->pool = ucb_buf_pool(buf);
	mr->addr = ucb_buf_addr(buf) + offset;
	mr->length = length;
	mr->access = access;
	return mr;
}

/**
 * ucb_mr_reg_range() - give a part of a buffer a remote key
 * @pd: the trust domain
 * @buf: a buffer of a pool made with UCB_POOL_RDMA
 * @offset: bytes from the start of the buffer
 * @length: bytes, at least 1
 * @access: IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE
 *	or'ed; remote write needs local write. Local read is always there.
 *
 * The peer reaches exactly the bytes named, at the addresses that
 * ucb_mr_get_descriptor() tells, in the way that @access says. Until
 * ucb_mr_dereg() the buffer cannot be freed (-EBUSY).
 *
 * Context: Process context, sleeps. Not under a lock that the pool's or the
 * RDMA device's removal needs.
 * Return: the registration, or an ERR_PTR: -EINVAL for a NULL argument, a range
 * that is empty or not inside the buffer, or access bits that are not allowed;
 * -E2BIG when it needs more pages than the device's MRs hold; -EOPNOTSUPP for
 * memory that must not have a key or that the device cannot map as one range;
 * -EAGAIN when the port is not active, or on iWARP has no registration queue pair
 * at the moment; -ENODEV when the RDMA device, the pool or
 * its USB device is going; -ENOENT when the buffer is not allocated; -ENOMEM;
 * -EIO when the device refused, or what else it gave.
 */
struct ucb_mr *ucb_mr_reg_range(struct ucb_pd *pd, struct ucb_buf *buf,
				size_t offset, size_t length, int access)
{
	struct ucb_mr *mr;
	size_t size;
	int err;

	might_sleep();
	if (!pd || !buf || !length || access & ~UCB_MR_ACCESS)
		return ERR_PTR(-EINVAL);
	if (access & IB_ACCESS_REMOTE_WRITE && !(access & IB_ACCESS_LOCAL_WRITE))
		return ERR_PTR(-EINVAL);
	size = ucb_buf_size(buf);
	if (offset >= size || length > size - offset)
		return ERR_PTR(-EINVAL);

	err = ucb_pd_enter(pd);
	if (err)
		return ERR_PTR(err);

	mr = mr_alloc(pd, buf, offset, length, access);
	if (!mr) {
		err = -ENOMEM;
		goto err_exit;
	}

	/*
	 * Listed before the buffer is marked busy: a pool that is being
	 * destroyed either refuses the mark or finds this on the list.
	 */
	err = mr_list(mr);
	if (err) {
		kfree(mr);
		goto err_exit;
	}
	ucb_pd_ref(pd);

	err = mr_setup(mr, offset);
	if (err) {
		atomic_set(&mr->state, UCB_MR_DEAD);
		mr_unlist(mr);
		complete_all(&mr->dead);
		complete_all(&mr->ready);
		ucb_pd_exit(pd);
		kref_put(&mr->ref, mr_release);
		return ERR_PTR(err);
	}

	atomic_set(&mr->state, UCB_MR_LIVE);
	complete_all(&mr->ready);
	ucb_pd_exit(pd);
	return mr;

err_exit:
	ucb_pd_exit(pd);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(ucb_mr_reg_range);

/**
 * ucb_mr_reg() - give a whole buffer a remote key
 * @pd: the trust domain
 * @buf: a buffer of a pool made with UCB_POOL_RDMA
 * @access: as for ucb_mr_reg_range()
 *
 * Mirrors rpma_mr_reg(3) and ibv_reg_mr(3).
 *
 * Context: Process context, sleeps.
 * Return: as ucb_mr_reg_range().
 */
struct ucb_mr *ucb_mr_reg(struct ucb_pd *pd, struct ucb_buf *buf, int access)
{
	if (!buf)
		return ERR_PTR(-EINVAL);
	return ucb_mr_reg_range(pd, buf, 0, ucb_buf_size(buf), access);
}
EXPORT_SYMBOL_GPL(ucb_mr_reg);

/**
 * ucb_mr_dereg() - end a registration
 * @mrp: address of the owner's pointer; set to NULL on success, left on failure
 *
 * When this returns 0 the device has stopped using the memory and refuses the
 * key. The owner's own work requests on the buffer must have completed before.
 * Needed, and successful, for a registration that was revoked too. Mirrors
 * rpma_mr_dereg(3).
 *
 * Context: Process context, sleeps.
 * Return: 0, -EINVAL for a NULL address or a NULL pointer there, or what the
 * device gave when it did not let go: the buffer is then never given out again,
 * and the next call frees the handle.
 */
int ucb_mr_dereg(struct ucb_mr **mrp)
{
	struct ucb_mr *mr;
	int err;

	might_sleep();
	if (!mrp || !*mrp)
		return -EINVAL;
	mr = *mrp;

	mr_end(mr, false);
	err = mr->error;
	if (err) {
		mr->error = 0;
		return err;
	}
	*mrp = NULL;
	kref_put(&mr->ref, mr_release);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_mr_dereg);

/**
 * ucb_mr_get_ptr() - the first registered byte
 * @mr: the registration
 *
 * Mirrors rpma_mr_get_ptr(3).
 *
 * Context: Any.
 * Return: its kernel address; valid as long as the buffer.
 */
void *ucb_mr_get_ptr(const struct ucb_mr *mr)
{
	return mr->addr;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_ptr);

/**
 * ucb_mr_get_size() - the length of the registered range
 * @mr: the registration
 *
 * Mirrors rpma_mr_get_size(3).
 *
 * Context: Any.
 * Return: bytes.
 */
size_t ucb_mr_get_size(const struct ucb_mr *mr)
{
	return mr->length;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_size);

/**
 * ucb_mr_get_rkey() - the key that a peer uses
 * @mr: the registration
 *
 * Context: Any.
 * Return: the key; the device refuses it once the registration was revoked.
 */
u32 ucb_mr_get_rkey(const struct ucb_mr *mr)
{
	return mr->rkey;
}
EXPORT_SYMBOL_GPL(ucb_mr_get_rkey);
