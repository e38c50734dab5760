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

#define UCB_FR_KEYS	256
#define UCB_FR_IDLE	8

static int fr_destroy(struct ucb_fr *fr)
{
	int err;

	err = ib_dereg_mr(fr->ibmr);
	if (err)
		return err;
	kfree(fr);
	return 0;
}

/* An MR for @pages pages, at most the device's limit; ERR_PTR on failure. */
struct ucb_fr *ucb_fr_get(struct ucb_pd *pd, unsigned int pages)
{
	unsigned int limit = pd->ibdev->attrs.max_fast_reg_page_list_len;
	struct ucb_fr *fr;
	int err;

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
	return keep ? 0 : fr_destroy(fr);
}

void ucb_fr_next_key(struct ucb_fr *fr)
{
	fr->uses++;
	ib_update_fast_reg_key(fr->ibmr, (u8)(fr->ibmr->rkey + 1));
}

/* Destroy the idle MRs. Nobody is inside the domain any more. */
void ucb_fr_drain(struct ucb_pd *pd)
{
	struct ucb_fr *fr;
	struct ucb_fr *next;

	list_for_each_entry_safe(fr, next, &pd->fr_idle, node) {
		list_del(&fr->node);
		pd->fr_count--;
		if (fr_destroy(fr))
			ibdev_err(pd->ibdev, "ucb: idle MR not released\n");
	}
}
