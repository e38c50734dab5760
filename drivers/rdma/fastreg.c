// SPDX-License-Identifier: GPL-2.0
/*
 * Fast-registration MRs and their keys.
 *
 * The device gives an MR the upper 24 bits of its key, the lower 8 are ours to
 * choose at every registration. An MR goes through all 256 values and is then
 * destroyed: a key that a peer has kept never becomes valid again while its MR
 * lives. A few idle MRs are kept for the next registration of the same size.
 */
#include <linux/log2.h>
#include <linux/slab.h>

#include "bridge.h"

#define UCB_FR_IDLE	8

int ucb_fr_destroy(struct ucb_fr *fr)
{
	int err;

	err = ib_dereg_mr(fr->ibmr);
	if (err)
		return err;
	kfree(fr);
	return 0;
}

/* The device keeps the MR, for good. */
void ucb_fr_forget(struct ucb_fr *fr)
{
	kfree(fr);
}

struct ucb_fr *ucb_fr_alloc(struct ucb_pd *pd, unsigned int pages)
{
	struct ucb_fr *fr;
	int err;

	fr = kzalloc(sizeof(*fr), GFP_KERNEL);
	if (!fr)
		return ERR_PTR(-ENOMEM);

	fr->pages = pages;
	fr->ibmr = ib_alloc_mr(pd->ibpd, IB_MR_TYPE_MEM_REG, pages);
	if (IS_ERR(fr->ibmr)) {
		err = PTR_ERR(fr->ibmr);
		kfree(fr);
		return ERR_PTR(err);
	}
	return fr;
}

/* An MR for @pages pages, at most the device's limit; ERR_PTR on failure. */
struct ucb_fr *ucb_fr_get(struct ucb_pd *pd, unsigned int pages)
{
	unsigned int limit = pd->ibdev->attrs.max_fast_reg_page_list_len;
	struct ucb_fr *fr;

	pages = min_t(unsigned int, roundup_pow_of_two(pages), limit);

	spin_lock(&pd->fr_lock);
	list_for_each_entry(fr, &pd->fr_idle, node) {
		if (fr->pages == pages) {
			list_del(&fr->node);
			pd->fr_count--;
			spin_unlock(&pd->fr_lock);
			return fr;
		}
	}
	spin_unlock(&pd->fr_lock);
	return ucb_fr_alloc(pd, pages);
}

/*
 * Give the MR back. With @retire, or when it has had all its keys, it is
 * destroyed, and when this returns 0 the device has stopped using the memory.
 * Without, the caller has invalidated it.
 */
int ucb_fr_put(struct ucb_pd *pd, struct ucb_fr *fr, bool retire)
{
	bool keep = false;

	if (!retire && fr->uses < UCB_FR_KEYS) {
		spin_lock(&pd->fr_lock);
		if (pd->fr_count < UCB_FR_IDLE) {
			list_add(&fr->node, &pd->fr_idle);
			pd->fr_count++;
			keep = true;
		}
		spin_unlock(&pd->fr_lock);
	}
	return keep ? 0 : ucb_fr_destroy(fr);
}

/*
 * Put mapped pages into the MR, and give it its next key. The whole range must be
 * in it: ib_map_mr_sg() is content with a part. The addresses start below one
 * page: what a peer is told is not an address of ours.
 */
int ucb_fr_fill(struct ucb_fr *fr, struct scatterlist *sg, unsigned int nents,
		size_t length)
{
	struct ib_mr *ibmr = fr->ibmr;
	int n;

	n = ib_map_mr_sg(ibmr, sg, nents, NULL, PAGE_SIZE);
	if (n < 0)
		return n;
	if (n != nents || ibmr->length != length)
		return -EOPNOTSUPP;

	ibmr->iova = offset_in_page(sg_dma_address(sg));
	fr->uses++;
	ib_update_fast_reg_key(ibmr, (u8)(ibmr->rkey + 1));
	return 0;
}

/* Destroy the idle MRs. Nobody is inside the domain any more. */
void ucb_fr_drain(struct ucb_pd *pd)
{
	struct ucb_fr *fr;
	struct ucb_fr *next;

	list_for_each_entry_safe(fr, next, &pd->fr_idle, node) {
		list_del(&fr->node);
		pd->fr_count--;
		if (ucb_fr_destroy(fr)) {
			ibdev_err(pd->ibdev, "ucb: idle MR not released\n");
			ucb_fr_forget(fr);
		}
	}
}
