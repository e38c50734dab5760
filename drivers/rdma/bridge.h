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

struct ucb_key;
struct ucb_rqp;

/*
 * An RDMA device.
 *
 * @node: as long as it can have domains
 * @dead: it did not drain the last queue pair in time
 */
struct ucb_dev {
	struct list_head node;
	struct ib_device *ibdev;
	struct dentry *preflight;
	bool dead;
};

/*
 * A trust domain.
 *
 * @ref: one of the owner and one of each registration's handle, so that a
 *	handle can outlive the device
 * @dev: until the domain is closed
 * @active: one for as long as the domain is open and one of each call inside
 *	it; @idle completes at 0
 * @holds_device: the device is going, and waits until the owner puts the domain
 *	with its queue pairs; under ucb_pds_lock
 * @given_up: the owner has put it; under ucb_pds_lock
 * @live: registrations and attached queue pairs that the device may still know;
 *	under ucb_mrs_lock
 * @shut: no registration is let in any more; under ucb_mrs_lock
 * @rqp_work: on iWARP, makes @rqp anew
 * @mute: the last local operation got no answer
 * @free_work: the end of the domain, where @ref was not put by its owner
 */
struct ucb_pd {
	struct kref ref;
	struct list_head node;
	struct ib_device *ibdev;
	struct ucb_dev *dev;
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

	struct work_struct free_work;

	spinlock_t fr_lock;		/* @fr_idle, @fr_count */
	struct list_head fr_idle;
	unsigned int fr_count;

	spinlock_t qps_lock;		/* @qps */
	struct list_head qps;
};

/* The completion of one queue's last work request, see ucb_drain_qp(). */
struct ucb_drain {
	struct ib_cqe cqe;
	struct completion done;
};

/*
 * A connection's queue pair, lent by its owner.
 *
 * @ref: one of the owner's, one of each mapping, one of who stops it; and one
 *	that is never put, of work requests that may still complete
 * @node: in pd->qps
 * @maps: mappings that are not dead
 * @lock: also for the order of what is posted
 * @idle: keys that nobody has
 * @recalled: keys that are to be invalidated, not yet posted; @nr_recalled
 * @posted: the same once posted, in the order of the send queue
 * @ended: keys that the device has forgotten, for @renew
 * @broken: nothing is posted any more
 * @late: posts what waits in @recalled for company
 * @renew: replaces MRs that must not be used again
 * @stop: the connection failed
 * @stopping: somebody is at it, and @stopped tells that it is over
 * @error: how that ended: the device may still be at it, for good
 */
struct ucb_qp {
	struct kref ref;
	struct list_head node;
	struct ucb_pd *pd;
	struct ib_qp *qp;
	struct ucb_qp_attr attr;
	unsigned int pages;
	atomic_t maps;

	spinlock_t lock;		/* all down to @broken */
	struct list_head idle;
	struct list_head recalled;
	unsigned int nr_recalled;
	struct list_head posted;
	struct list_head ended;
	bool broken;

	struct work_struct late;
	struct work_struct renew;
	struct work_struct stop;
	unsigned long stopping;
	struct completion stopped;
	int error;
	struct ucb_drain drains[2];
	struct ucb_key *keys;
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
	UCB_MR_STUCK,		/* the device did not let go: once more */
	UCB_MR_DEAD,
};

enum ucb_key_state {
	UCB_KEY_IDLE,
	UCB_KEY_FILLED,		/* given to a mapping, the device has not heard */
	UCB_KEY_OUT,		/* posted */
	UCB_KEY_RECALLED,		/* on its way back */
};

/*
 * A key, and the MR that it is of.
 *
 * @node: in a list of the queue pair's, but for UCB_KEY_FILLED and UCB_KEY_OUT
 * @fr: NULL if there was no memory for another
 * @unused: recalled before it was posted
 * @sg: what the MR maps, made of the mapping's
 * @start: when it was last given or recalled
 */
struct ucb_key {
	struct list_head node;
	struct ucb_qp *uqp;
	struct ucb_mr *mr;
	struct ucb_fr *fr;
	enum ucb_key_state state;
	bool unused;
	struct scatterlist *sg;
	struct ib_reg_wr reg;
	struct ib_send_wr inv;
	struct ib_cqe reg_cqe;
	struct ib_cqe inv_cqe;
	ktime_t start;
};

/*
 * A registration: the handle that the owner holds. Of a buffer (@buf), of whole
 * blocks of a pool (no @buf), or a mapping without an MR of its own (@uqp, no
 * @fr), which has a key now and then (@key).
 *
 * @ready: completes when registering ended, either way
 * @node: in ucb_mrs until dead
 * @error: why the device has not let go, for good; @told: the owner knows
 * @mapped: bytes from @addr that the device can reach; @map_access by its owner
 * @access, @iova, @length, @rkey: what the peer has
 */
struct ucb_mr {
	struct kref ref;
	struct list_head node;
	atomic_t state;
	struct completion ready;
	int error;
	bool told;

	struct ucb_pd *pd;
	struct ucb_buf *buf;
	struct ucb_pool *pool;
	void *addr;
	size_t mapped;
	int map_access;

	int access;
	u64 iova;
	size_t length;
	u32 rkey;

	struct ucb_fr *fr;
	struct sg_table sgt;
	enum dma_data_direction dir;

	struct ucb_qp *uqp;
	struct ucb_key *key;
	void *priv;
};

enum ucb_stat {
	UCB_STAT_REG,
	UCB_STAT_INV,
	UCB_STAT_REVOKE,
	UCB_NR_STATS,
};

/* one-sided, and so not to be had without a key */
#define UCB_MR_REMOTE	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)
#define UCB_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | UCB_MR_REMOTE)

/* An MR has so many keys: 8 bits of each are ours. */
#define UCB_FR_KEYS	256

static inline bool ucb_pd_is_iwarp(const struct ucb_pd *pd)
{
	return rdma_protocol_iwarp(pd->ibdev, pd->port);
}

/* pd.c */
int ucb_pd_enter(struct ucb_pd *pd);
void ucb_pd_exit(struct ucb_pd *pd);
struct ucb_pd *ucb_pd_find(struct ib_pd *ibpd);
void ucb_pd_ref(struct ucb_pd *pd);
void ucb_pd_unref(struct ucb_pd *pd);
extern struct workqueue_struct *ucb_rdma_wq;
extern struct ib_client ucb_ib_client;

/* qp.c */
void ucb_rqp_init(struct ucb_pd *pd);
int ucb_rqp_prepare(struct ucb_pd *pd);
int ucb_rqp_exec(struct ucb_pd *pd, struct ib_send_wr *wr);
void ucb_rqp_drop(struct ucb_pd *pd);

/* fastreg.c */
struct ucb_fr *ucb_fr_alloc(struct ucb_pd *pd, unsigned int pages);
int ucb_fr_destroy(struct ucb_fr *fr);
void ucb_fr_forget(struct ucb_fr *fr);
struct ucb_fr *ucb_fr_get(struct ucb_pd *pd, unsigned int pages);
int ucb_fr_put(struct ucb_pd *pd, struct ucb_fr *fr, bool retire);
int ucb_fr_fill(struct ucb_fr *fr, struct scatterlist *sg, unsigned int nents,
		size_t length);
void ucb_fr_drain(struct ucb_pd *pd);

/* desc.c */
int ucb_mr_describe(const struct ucb_mr *mr, size_t offset, size_t length,
		    void *desc);

/* pages.c */
int ucb_mr_map_pages(struct ucb_mr *mr, size_t offset,
		     const struct ucb_span *spans, unsigned int nr);
void ucb_mr_unmap_pages(struct ucb_mr *mr, bool lost);

/* mr.c */
bool ucb_access_ok(int access);
bool ucb_must_retire(const struct ucb_pd *pd, int access);
int ucb_pd_count(struct ucb_pd *pd);
void ucb_pd_uncount(struct ucb_pd *pd);
struct ucb_mr *ucb_mr_start(struct ucb_mr *mr, size_t offset,
			    const struct ucb_span *spans, unsigned int nr);
unsigned int ucb_mr_shut(struct ucb_pd *pd, bool only_if_idle);
void ucb_mr_revoke_pd(struct ucb_pd *pd);
extern struct ucb_client ucb_pool_client;

/* key.c */
int ucb_key_init(struct ucb_qp *uqp, struct ucb_key *key);
int ucb_key_end(struct ucb_key *key);
void ucb_key_home(struct ucb_key *key, unsigned long *flags, int error);
void ucb_key_late_work(struct work_struct *work);
void ucb_key_renew_work(struct work_struct *work);

/* drain.c */
int ucb_drain_qp(struct ucb_dev *dev, struct ib_qp *qp,
		 struct ucb_drain drains[2]);

/* conn.c */
int ucb_qp_add_map(struct ucb_mr *mr);
int ucb_qp_end_map(struct ucb_mr *mr, bool stop);
void ucb_qp_del_map(struct ucb_mr *mr);
bool ucb_qp_key_out(struct ucb_mr *mr);
int ucb_qp_stop(struct ucb_qp *uqp);
void ucb_qp_put(struct ucb_qp *uqp);
void ucb_qps_stop(struct ucb_pd *pd);

/* stats.c */
void ucb_stat_add(enum ucb_stat what, ktime_t start);
void ucb_stats_init(void);
void ucb_stats_exit(void);
struct dentry *ucb_preflight_add(struct ib_device *ibdev);
const char *ucb_why_no_registration(struct ib_device *ibdev, u32 port);

#endif /* _UCB_RDMA_BRIDGE_H */
