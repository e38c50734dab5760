/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two queue pairs on one iWARP port, connected to each other.
 */
#ifndef _UCB_RDMA_PAIR_H
#define _UCB_RDMA_PAIR_H

#include <linux/completion.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define UCB_PAIR_NONCE	16

/* The active end is the one that may send first. */
enum {
	UCB_PAIR_ACTIVE,
	UCB_PAIR_PASSIVE,
	UCB_PAIR_ENDS,
};

/*
 * @pds, @init: what the ends are made on, and like
 * @id: the ends, or NULL
 * @listen: while they are being connected
 * @nonce: whoever shows it is our own active end
 * @step: a step of the connecting has ended
 * @down: the connection failed, or is gone
 */
struct ucb_pair {
	struct ib_pd *pds[UCB_PAIR_ENDS];
	const struct ib_qp_init_attr *init;
	struct rdma_cm_id *id[UCB_PAIR_ENDS];
	struct rdma_cm_id *listen;
	u8 nonce[UCB_PAIR_NONCE];
	struct completion step;
	bool down;
};

int ucb_pair_connect(struct ucb_pair *pair, u32 port, struct ib_pd *active,
		     struct ib_pd *passive, const struct ib_qp_init_attr *init);
void ucb_pair_close(struct ucb_pair *pair);

#endif /* _UCB_RDMA_PAIR_H */
