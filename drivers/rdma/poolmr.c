// SPDX-License-Identifier: GPL-2.0
/*
 * Persistent keys: all blocks of a pool are registered once, whatever buffers
 * are out, so that a transfer takes no work at all. For a pool that serves one
 * peer: it reaches every byte of every buffer for as long as that lasts.
 */
#include <linux/export.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "bridge.h"

/* A block, and where it is registered: from @offset in @mr. */
struct place {
	void *addr;
	size_t size;
	struct ucb_mr *mr;
	size_t offset;
};

/*
 * @places: of all blocks, by address
 * @mrs: the registrations, each of as many blocks as the device takes
 */
struct ucb_pool_mr {
	struct place *places;
	unsigned int nr_places;
	struct ucb_mr **mrs;
	unsigned int nr_mrs;
};

static int place_cmp(const void *a, const void *b)
{
	const struct place *x = a;
	const struct place *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void pool_mr_free(struct ucb_pool_mr *pmr)
{
	kvfree(pmr->places);
	kvfree(pmr->mrs);
	kfree(pmr);
}

static struct ucb_pool_mr *pool_mr_alloc(unsigned int nr)
{
	struct ucb_pool_mr *pmr;

	pmr = kzalloc(sizeof(*pmr), GFP_KERNEL);
	if (!pmr)
		return NULL;
	pmr->places = kvcalloc(nr, sizeof(*pmr->places), GFP_KERNEL);
	pmr->mrs = kvcalloc(nr, sizeof(struct ucb_mr *), GFP_KERNEL);
	if (!pmr->places || !pmr->mrs) {
		pool_mr_free(pmr);
		return NULL;
	}
	return pmr;
}

/* How many of @spans one MR takes, and their bytes. */
static unsigned int spans_fit(struct ib_device *ibdev,
			      const struct ucb_span *spans, unsigned int nr,
			      size_t *bytes)
{
	u64 limit = min((u64)ibdev->attrs.max_fast_reg_page_list_len * PAGE_SIZE,
			ibdev->attrs.max_mr_size);
	unsigned int i;

	*bytes = 0;
	for (i = 0; i < nr && spans[i].size <= limit - *bytes; i++)
		*bytes += spans[i].size;
	return i;
}

/* Register @nr blocks as one. The caller is inside the domain. */
static int pool_mr_add(struct ucb_pool_mr *pmr, struct ucb_pd *pd,
		       struct ucb_pool *pool, const struct ucb_span *spans,
		       unsigned int nr, size_t bytes, int access)
{
	struct place *place;
	struct ucb_mr *mr;
	size_t offset = 0;
	unsigned int i;

	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return -ENOMEM;
	mr->pd = pd;
	mr->pool = pool;
	mr->mapped = bytes;
	mr->map_access = access;
	mr->length = bytes;
	mr->access = access;
	mr = ucb_mr_start(mr, 0, spans, nr);
	if (IS_ERR(mr))
		return PTR_ERR(mr);

	pmr->mrs[pmr->nr_mrs++] = mr;
	for (i = 0; i < nr; i++) {
		place = &pmr->places[pmr->nr_places++];
		place->addr = spans[i].addr;
		place->size = spans[i].size;
		place->mr = mr;
		place->offset = offset;
		offset += spans[i].size;
	}
	return 0;
}

static int pool_mr_fill(struct ucb_pool_mr *pmr, struct ucb_pd *pd,
			struct ucb_pool *pool, const struct ucb_span *spans,
			unsigned int nr, int access)
{
	unsigned int done = 0;
	unsigned int fit;
	size_t bytes;
	int err;

	while (done < nr) {
		fit = spans_fit(pd->ibdev, spans + done, nr - done, &bytes);
		if (!fit)
			return -E2BIG;
		err = pool_mr_add(pmr, pd, pool, spans + done, fit, bytes,
				  access);
		if (err)
			return err;
		done += fit;
	}
	sort(pmr->places, nr, sizeof(*pmr->places), place_cmp, NULL);
	return 0;
}

/**
 * ucb_pool_mr_reg() - give all buffers of a pool a remote key that stays
 * @pd: the trust domain
 * @pool: a pool made with UCB_POOL_RDMA, without UCB_POOL_DEBUG, whose min and
 *	max are the same; no buffer of it is out
 * @access: as for ucb_mr_reg_range()
 *
 * The memory is zeroed, and then the peer reaches all of it until
 * ucb_pool_mr_dereg(): buffers that are out, those at home, and what is between
 * them. So the pool serves one peer, and one that is trusted with all its data.
 * The buffers are allocated and freed as ever. Registered for a second domain
 * meanwhile, the pool is not zeroed again: the two share what is in it.
 *
 * One MR holds as many blocks as the device's limit allows.
 *
 * Context: Process context, sleeps. Calls for a pool must not overlap, and no
 * buffer of it is allocated meanwhile.
 * Return: the registration, or an ERR_PTR: -EINVAL for a NULL argument, access
 * that is not allowed or a pool that can grow or shrink; -EBUSY when a buffer
 * is out; -E2BIG for a block of more pages than the device's MRs hold;
 * -EOPNOTSUPP for a debug pool, which watches its bytes; or as
 * ucb_mr_reg_range().
 */
struct ucb_pool_mr *ucb_pool_mr_reg(struct ucb_pd *pd, struct ucb_pool *pool,
				    int access)
{
	struct ucb_pool_mr *pmr;
	struct ucb_span *spans;
	unsigned int nr;
	int err;

	might_sleep();
	if (!pd || !pool || !ucb_access_ok(access))
		return ERR_PTR(-EINVAL);

	err = ucb_pd_enter(pd);
	if (err)
		return ERR_PTR(err);
	spans = ucb_pool_get_spans(pool, &nr);
	if (IS_ERR(spans)) {
		err = PTR_ERR(spans);
		goto err_exit;
	}
	pmr = pool_mr_alloc(nr);
	err = pmr ? pool_mr_fill(pmr, pd, pool, spans, nr, access) : -ENOMEM;
	ucb_pool_put_spans(pool, spans);
	ucb_pd_exit(pd);
	if (!err)
		return pmr;

	/* outside: the pool that ends now waits for it, or does it */
	if (pmr && ucb_pool_mr_dereg(&pmr))
		ucb_pool_mr_dereg(&pmr);
	return ERR_PTR(err);

err_exit:
	ucb_pd_exit(pd);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(ucb_pool_mr_reg);

/**
 * ucb_pool_mr_dereg() - end the registration of a pool
 * @pmrp: address of the owner's pointer; set to NULL on success, left on failure
 *
 * As ucb_mr_dereg(), for all of it.
 *
 * Context: Process context, sleeps.
 * Return: 0, -EINVAL for a NULL address or a NULL pointer there, or what the
 * device gave when it did not let go. The next call tries once more, frees the
 * handle and returns 0: if that was in vain, the pool's memory never goes back to
 * the kernel.
 */
int ucb_pool_mr_dereg(struct ucb_pool_mr **pmrp)
{
	struct ucb_pool_mr *pmr;
	unsigned int i;
	int first = 0;
	int err;

	might_sleep();
	if (!pmrp || !*pmrp)
		return -EINVAL;
	pmr = *pmrp;

	for (i = 0; i < pmr->nr_mrs; i++) {
		if (!pmr->mrs[i])
			continue;
		err = ucb_mr_dereg(&pmr->mrs[i]);
		first = first ?: err;
	}
	if (first)
		return first;
	*pmrp = NULL;
	pool_mr_free(pmr);
	return 0;
}
EXPORT_SYMBOL_GPL(ucb_pool_mr_dereg);

/**
 * ucb_pool_mr_find() - where a buffer is registered
 * @pmr: from ucb_pool_mr_reg(), not NULL
 * @buf: a buffer of that pool, not NULL
 * @offset: stores where in the registration the buffer starts, in bytes; not NULL
 *
 * For ucb_post_send() and its like.
 *
 * Context: Any.
 * Return: the registration, which stays @pmr's, or NULL when the buffer is of
 * another pool.
 */
struct ucb_mr *ucb_pool_mr_find(const struct ucb_pool_mr *pmr,
				const struct ucb_buf *buf, size_t *offset)
{
	void *addr = ucb_buf_addr(buf);
	unsigned int low = 0;
	unsigned int high = pmr->nr_places;

	while (low < high) {
		unsigned int mid = low + (high - low) / 2;
		const struct place *place = &pmr->places[mid];

		if (addr < place->addr) {
			high = mid;
		} else if (addr >= place->addr + place->size) {
			low = mid + 1;
		} else {
			*offset = place->offset + (addr - place->addr);
			return place->mr;
		}
	}
	return NULL;
}
EXPORT_SYMBOL_GPL(ucb_pool_mr_find);

/**
 * ucb_pool_mr_get_descriptor() - encode the descriptor of one buffer
 * @pmr: from ucb_pool_mr_reg()
 * @buf: a buffer of that pool
 * @desc: UCB_MR_DESC_SIZE bytes, of any alignment
 *
 * As ucb_mr_get_descriptor(). It stays the same, so that it need not be made
 * anew for each transfer.
 *
 * Context: Any.
 * Return: 0; -EINVAL for a NULL argument; -ENOENT when the buffer is of another
 * pool; -ENODEV when the registration was revoked.
 */
int ucb_pool_mr_get_descriptor(const struct ucb_pool_mr *pmr,
			       const struct ucb_buf *buf, void *desc)
{
	struct ucb_mr *mr;
	size_t offset;

	if (!pmr || !buf)
		return -EINVAL;
	mr = ucb_pool_mr_find(pmr, buf, &offset);
	if (!mr)
		return -ENOENT;
	return ucb_mr_describe(mr, offset, ucb_buf_size(buf), desc);
}
EXPORT_SYMBOL_GPL(ucb_pool_mr_get_descriptor);

/**
 * ucb_pool_mr_get_count() - how many MRs a pool takes
 * @pmr: from ucb_pool_mr_reg(), not NULL
 *
 * Context: Any.
 * Return: MRs.
 */
unsigned int ucb_pool_mr_get_count(const struct ucb_pool_mr *pmr)
{
	return pmr->nr_mrs;
}
EXPORT_SYMBOL_GPL(ucb_pool_mr_get_count);
