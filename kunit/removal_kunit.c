// SPDX-License-Identifier: GPL-2.0
/*
 * The bridge on an RDMA device whose port goes down, and on one that is removed.
 *
 * Needs an RDMA device that isolates, named rxe0, and a USB device on an xHCI
 * controller. Each case makes a device of its own: on rxe, and where nothing is
 * asked of it that siw does not do, on siw too.
 */
#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <rdma/rdma_cm.h>

#include "own_rxe.h"
#include "shell.h"

static const struct transport {
	const char *type;
} transports[] = {
	{ "rxe" },
	{ "siw" },
};

static void transport_desc(const struct transport *transport, char *desc)
{
	strscpy(desc, transport->type, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(transport, transports, transport_desc);

/* The own device of a case: of the parameter's type, else on rxe. */
static struct ib_device *removal_device(struct kunit *test)
{
	const struct transport *transport = test->param_value ?: &transports[0];

	return make_own_of(test, transport->type);
}

static void set_own_port(struct kunit *test, bool up)
{
	struct net_device *ndev = dev_get_by_name(&init_net, OWN_NETDEV);
	int err = 0;

	KUNIT_ASSERT_NOT_NULL(test, ndev);
	rtnl_lock();
	if (up)
		err = dev_open(ndev, NULL);
	else
		dev_close(ndev);
	rtnl_unlock();
	dev_put(ndev);
	KUNIT_ASSERT_EQ(test, err, 0);
}

/* Without a port there is no queue pair; with it there is, with no other call. */
static void removal_port_down(struct kunit *test)
{
	struct ib_device *own = removal_device(test);
	struct ucb_buf *buf = make_buf(test);
	struct peer *peer;
	struct ucb_pd *pd;
	struct ucb_mr *mr;

	set_own_port(test, false);
	pd = make_pd(test, own);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -EAGAIN);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);

	set_own_port(test, true);
	buf = make_buf(test);
	mr = make_mr(test, pd, buf, RD);
	peer = peer_create(test, own, ucb_pd_ib(pd), SZ_64K);
	expect_read(test, peer, mr, 7);

	/* what is registered is given up without a port, and had anew with it */
	set_own_port(test, false);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	set_own_port(test, true);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	mr = make_mr(test, pd, buf, RD);
	expect_read(test, peer, mr, 8);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/*
 * The registration queue pair needs no address of anybody's giving, and once it is
 * there, no link either.
 */
static void removal_no_address(struct kunit *test)
{
	struct ib_device *own = removal_device(test);
	struct ucb_buf *buf = make_buf(test);
	struct ucb_pd *pd;
	struct ucb_mr *mr;

	KUNIT_ASSERT_EQ(test, shell("ip addr flush dev " OWN_NETDEV), 0);
	pd = make_pd(test, own);
	mr = make_mr(test, pd, buf, RD);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);

	set_own_port(test, false);
	mr = make_mr(test, pd, buf, RD | WR);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

/* Removing the device, beside the case. */
struct removal {
	int (*remove)(void);
	struct completion over;
	struct task_struct *task;
};

static int removal_thread(void *data)
{
	struct removal *rem = data;
	int err = rem->remove();

	complete(&rem->over);
	return err;
}

static struct task_struct *run(struct kunit *test, int (*fn)(void *), void *data)
{
	struct task_struct *task = kthread_run(fn, data, "ucb_removal_kunit");

	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	return get_task_struct(task);
}

/* Return: what the thread returned. */
static int join(struct task_struct *task)
{
	int ret = kthread_stop(task);

	put_task_struct(task);
	return ret;
}

static void start_removal(struct kunit *test, struct removal *rem, int (*remove)(void))
{
	rem->remove = remove;
	init_completion(&rem->over);
	rem->task = run(test, removal_thread, rem);
}

/* Over in bounded time. If not, what the case does next must end it. */
static void expect_removed(struct kunit *test, struct removal *rem)
{
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&rem->over,
							  msecs_to_jiffies(BOUND_MS)), 0);
}

/* C18: idle, with an own and an attached domain, whose owners do nothing */
static void removal_idle(struct kunit *test)
{
	struct ib_device *own = removal_device(test);
	struct ib_qp_init_attr attr = {};
	struct ucb_pd *pd, *attached;
	struct ucb_mr *mr, *other;
	struct ucb_buf *buf[2];
	struct rdma_cm_id *id;
	struct removal rem;
	struct ib_pd *ibpd;

	id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, id);
	buf[0] = make_buf(test);
	buf[1] = make_buf(test);
	pd = make_pd(test, own);
	ibpd = ib_alloc_pd(own, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ibpd));
	attached = ucb_pd_attach(ibpd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(attached));
	mr = make_mr(test, pd, buf[0], RD | WR);
	other = make_mr(test, attached, buf[1], RD | WR);

	/* the owner of the attached PD keeps the device for as long as that */
	KUNIT_ASSERT_TRUE(test, ib_device_try_get(own));
	start_removal(test, &rem, own_rxe_del);
	wait_revoked(test, other);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&other), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(attached), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&ibpd->usecnt), 0);
	ib_dealloc_pd(ibpd);
	ib_device_put(own);
	expect_removed(test, &rem);

	KUNIT_EXPECT_TRUE(test, is_revoked(mr));
	KUNIT_EXPECT_NULL(test, ucb_pd_ib(pd));
	KUNIT_EXPECT_EQ(test, ucb_create_qp(id, pd, &attr), -ENODEV);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf[1], RD)), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[0]), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf[1]), 0);
	kunit_release_action(test, put_pd, pd);
	KUNIT_EXPECT_EQ(test, join(rem.task), 0);
	expect_pool_works(test);
}

/* what a thread does over and over until it fails */
struct worker {
	struct ucb_pd *pd;
	struct ucb_buf *buf;
	struct rdma_cm_id *id;
	struct ib_cq *cq;
	struct peer *peer;
	struct ucb_mr_remote remote;
	unsigned int done;
};

static void wait_done(struct kunit *test, struct worker *w, unsigned int count)
{
	ktime_t end = ktime_add_ms(ktime_get(), BOUND_MS);

	while (READ_ONCE(w->done) < count && ktime_before(ktime_get(), end))
		cond_resched();
	KUNIT_EXPECT_GE(test, READ_ONCE(w->done), count);
}

static int register_thread(void *data)
{
	struct worker *w = data;
	struct ucb_mr *mr;
	int err;

	do {
		mr = ucb_mr_reg(w->pd, w->buf, w->done % 2 ? RD : LOCAL);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		err = ucb_mr_dereg(&mr);
		WRITE_ONCE(w->done, w->done + 1);
	} while (!err);
	return err == -ENODEV ? -EBADE : err;
}

/* C18: while registrations run */
static void removal_registering(struct kunit *test)
{
	struct task_struct *task[2];
	struct worker w[2] = {};
	struct removal rem;
	struct ucb_pd *pd;
	int i;

	pd = make_pd(test, removal_device(test));
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		w[i].pd = pd;
		w[i].buf = make_buf(test);
		task[i] = run(test, register_thread, &w[i]);
	}
	for (i = 0; i < ARRAY_SIZE(w); i++)
		wait_done(test, &w[i], 5);
	start_removal(test, &rem, own_rxe_del);
	expect_removed(test, &rem);
	for (i = 0; i < ARRAY_SIZE(w); i++) {
		KUNIT_EXPECT_EQ(test, join(task[i]), -ENODEV);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(w[i].buf), 0);
	}
	kunit_release_action(test, put_pd, pd);
	KUNIT_EXPECT_EQ(test, join(rem.task), 0);
	expect_pool_works(test);
}

static int read_thread(void *data)
{
	struct worker *w = data;
	int status;

	do {
		status = peer_read(w->peer, w->remote.addr, w->remote.rkey, SZ_64K);
		WRITE_ONCE(w->done, w->done + 1);
	} while (status == OK);
	return status;
}

/*
 * C18: in mid-READ, with the netdev under it. The peer's queue pair is on the
 * domain, so the device waits for the owner's put.
 */
static void removal_in_read(struct kunit *test)
{
	struct ib_device *own = removal_device(test);
	struct ucb_buf *buf = make_buf(test);
	struct task_struct *task;
	struct worker w = {};
	struct removal rem;
	struct ucb_mr *mr;

	w.pd = make_pd(test, own);
	mr = make_mr(test, w.pd, buf, RD | WR);
	w.remote = remote_of(test, mr);
	w.peer = peer_create(test, own, ucb_pd_ib(w.pd), SZ_64K);
	memset(ucb_buf_addr(buf), 0x11, SZ_64K);
	task = run(test, read_thread, &w);
	wait_done(test, &w, 3);

	start_removal(test, &rem, own_netdev_del);
	wait_revoked(test, mr);
	/* revoked, it may still be on its way; with 0 the device has let go */
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	memset(ucb_buf_addr(buf), 0xca, SZ_64K);
	KUNIT_EXPECT_NE(test, join(task), OK);
	KUNIT_EXPECT_NULL(test, memchr(w.peer->mem, 0xca, SZ_64K));

	kunit_release_action(test, peer_destroy, w.peer);
	kunit_release_action(test, put_pd, w.pd);
	expect_removed(test, &rem);
	KUNIT_EXPECT_EQ(test, join(rem.task), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
	expect_pool_works(test);
}

static int make_qp_thread(void *data)
{
	struct worker *w = data;
	struct ib_qp_init_attr attr = {
		.send_cq = w->cq,
		.recv_cq = w->cq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	int err;

	while (!(err = ucb_create_qp(w->id, w->pd, &attr))) {
		rdma_destroy_qp(w->id);
		WRITE_ONCE(w->done, w->done + 1);
	}
	return err;
}

static int going(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		complete(id->context);
	return 0;
}

/* C18: while a connection's queue pair is being made */
static void removal_connecting(struct kunit *test)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct ib_device *own = removal_device(test);
	struct completion gone;
	struct task_struct *task;
	struct worker w = {};
	struct removal rem;

	init_completion(&gone);
	addr.sin_addr.s_addr = in_aton(OWN_ADDR);
	w.pd = make_pd(test, own);
	w.id = rdma_create_id(&init_net, going, &gone, RDMA_PS_TCP, IB_QPT_RC);
	KUNIT_ASSERT_FALSE(test, IS_ERR(w.id));
	KUNIT_EXPECT_EQ(test, rdma_bind_addr(w.id, (struct sockaddr *)&addr), 0);
	KUNIT_EXPECT_PTR_EQ(test, w.id->device, own);
	w.cq = ib_alloc_cq(own, NULL, 4, 0, IB_POLL_WORKQUEUE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(w.cq));
	task = run(test, make_qp_thread, &w);
	wait_done(test, &w, 5);

	start_removal(test, &rem, own_rxe_del);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&gone,
							  msecs_to_jiffies(BOUND_MS)), 0);
	KUNIT_EXPECT_EQ(test, join(task), -ENODEV);
	ib_free_cq(w.cq);
	kunit_release_action(test, put_pd, w.pd);
	rdma_destroy_id(w.id);
	expect_removed(test, &rem);
	KUNIT_EXPECT_EQ(test, join(rem.task), 0);
	expect_pool_works(test);
}

static bool has_preflight(struct kunit *test, const char *name)
{
	struct dentry *dir = debugfs_lookup("ucb_rdma", NULL);
	struct dentry *found;
	char file[64];

	KUNIT_ASSERT_NOT_NULL(test, dir);
	snprintf(file, sizeof(file), "preflight-%s", name);
	found = debugfs_lookup(file, dir);
	dput(found);
	dput(dir);
	return found;
}

/* The next device may have the old name. */
static void removal_renamed(struct kunit *test)
{
	struct ib_device *ibdev = make_own(test);
	char old[IB_DEVICE_NAME_MAX];

	strscpy(old, dev_name(&ibdev->dev), sizeof(old));
	KUNIT_EXPECT_TRUE(test, has_preflight(test, old));
	KUNIT_ASSERT_EQ(test, rdma_dev_rename(ibdev->index, "ucb_renamed"), 0);
	KUNIT_EXPECT_TRUE(test, has_preflight(test, "ucb_renamed"));
	KUNIT_EXPECT_FALSE(test, has_preflight(test, old));
	KUNIT_EXPECT_EQ(test, own_rxe_del(), 0);
	KUNIT_EXPECT_FALSE(test, has_preflight(test, "ucb_renamed"));
}

static struct kunit_case removal_cases[] = {
	KUNIT_CASE_SLOW(removal_port_down),
	KUNIT_CASE(removal_no_address),
	KUNIT_CASE(removal_renamed),
	KUNIT_CASE_PARAM_ATTR(removal_idle, transport_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(removal_registering, transport_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_SLOW(removal_in_read),
	KUNIT_CASE_PARAM_ATTR(removal_connecting, transport_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite removal_suite = {
	.name = "ucb_removal",
	.init = bridge_test_init,
	.test_cases = removal_cases,
};

kunit_test_suite(removal_suite);

MODULE_DESCRIPTION("KUnit tests of the bridge when its RDMA device goes");
MODULE_LICENSE("GPL");
