/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the RDMA bridge share. Nothing here is for drivers.
 */
#ifndef _UCB_RDMA_BRIDGE_H
#define _UCB_RDMA_BRIDGE_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <ucb/pool.h>
#include <ucb/rdma.h>

struct ucb_rqp;

/*
 * A trust domain.
 *
 * @ref: one of the owner and one of each registration's handle, so that a
 *	handle can outlive the device
 * @active: one for as long as the domain is open and one of each call inside
 *	it; @idle completes at 0
 * @holds_device: the device is going, and waits until the owner puts the domain
 *	with its queue pairs; under ucb_pds_lock
 * @given_up: the owner has put it; under ucb_pds_lock
 * @live: registrations that the device may still know; under ucb_mrs_lock
 * @shut: no registration is let in any more; under ucb_mrs_lock
 * @rqp_work: on iWARP, makes @rqp anew
 * @mute: the last local operation got no answer
 */
struct ucb_pd {
	struct kref ref;
	struct list_head node;
	struct ib_device *ibdev;
	struct ib_pd *ibpd;
	u32 port;
	bool foreign;
	bool holds_device;
	bool given_up;

	refcount_t active;
	struct completion idle;
	unsigned long closing;
	struct completion closed;

	unsigned int live;
	bool shut;

	struct mutex qp_lock;		/* @rqp and the use of it */
	struct ucb_rqp *rqp;
	struct work_struct rqp_work;
	bool mute;

	spinlock_t fr_lock;		/* @fr_idle, @fr_count */
	struct list_head fr_idle;
	unsigned int fr_count;
};

/*
 * A fast-registration MR. @uses counts the keys that it has had.
 */
struct ucb_fr {
	struct list_head node;
	struct ib_mr *ibmr;
	unsigned int pages;
	unsigned int uses;
};

enum ucb_mr_state {
	UCB_MR_SETUP,		/* being registered, @ready not yet complete */
	UCB_MR_LIVE,
	UCB_MR_CLAIMED,		/* one caller takes it down, others wait */
	UCB_MR_DEAD,
};

/*
 * A registration: the handle that the owner holds.
 *
 * @ready: completes when registering ended, either way
 * @dead: completes when the device has forgotten it
 * @node: in ucb_mrs until dead
 */
struct ucb_mr {
	struct kref ref;
	struct list_head node;
	atomic_t state;
	struct completion ready;
	struct completion dead;
	int error;

	struct ucb_pd *pd;
	struct ucb_buf *buf;
	struct ucb_pool *pool;
	void *addr;
	size_t length;
	int access;
	u64 iova;
	u32 rkey;

	struct ucb_fr *fr;
	struct sg_table sgt;
	enum dma_data_direction dir;
};

/* pd.c */
int ucb_pd_enter(struct ucb_pd *pd);
void ucb_pd_exit(struct ucb_pd *pd);
struct ucb_pd *ucb_pd_find(struct ib_pd *ibpd);
void ucb_pd_ref(struct ucb_pd *pd);
void ucb_pd_unref(struct ucb_pd *pd);
extern struct ib_client ucb_ib_client;

/* qp.c */
void ucb_rqp_init(struct ucb_pd *pd);
int ucb_rqp_prepare(struct ucb_pd *pd);
int ucb_rqp_exec(struct ucb_pd *pd, struct ib_send_wr *wr);
void ucb_rqp_drop(struct ucb_pd *pd);

/* fastreg.c */
struct ucb_fr *ucb_fr_get(struct ucb_pd *pd, unsigned int pages);
int ucb_fr_put(struct ucb_pd *pd, struct ucb_fr *fr, bool retire);
void ucb_fr_next_key(struct ucb_fr *fr);
void ucb_fr_drain(struct ucb_pd *pd);

/* mr.c */
unsigned int ucb_mr_shut(struct ucb_pd *pd, bool only_if_idle);
void ucb_mr_revoke_pd(struct ucb_pd *pd);
extern struct ucb_client ucb_pool_client;

#endif /* _UCB_RDMA_BRIDGE_H */
