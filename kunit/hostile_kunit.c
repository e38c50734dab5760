// SPDX-License-Identifier: GPL-2.0
/*
 * A peer that means harm: it tries what it was not given, keeps what it was to
 * give back, guesses keys, and kills them. It may lose its connection and waste
 * time; no byte outside of the range that it was given is read or changed.
 *
 * Needs a device that isolates, named rxe0, and a USB device on an xHCI
 * controller.
 */
#include <linux/ktime.h>
#include <linux/module.h>

#include "attacker.h"

static unsigned int guesses = 4;
module_param(guesses, uint, 0444);
MODULE_PARM_DESC(guesses, "MRs beside the registered one whose 256 keys are all tried");

static unsigned int leases = 6;
module_param(leases, uint, 0444);
MODULE_PARM_DESC(leases, "registrations ended under peers that keep using them");

/* Beside other guests an emulated one may stand still for a while. */
static unsigned int bound_ms = BOUND_MS;
module_param(bound_ms, uint, 0444);
MODULE_PARM_DESC(bound_ms, "the longest that ending a registration may take");

struct victim {
	struct ucb_pd *pd;
	struct marked m;
	struct ucb_mr *mr;
	struct ucb_mr_remote r;
	struct peer *peer;
};

static struct victim *victim_get(struct kunit *test, int access)
{
	struct victim *v = kunit_kzalloc(test, sizeof(*v), GFP_KERNEL);
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, v);
	v->pd = make_pd(test, f->rxe);
	marked_get(test, &v->m);
	marked_fill(&v->m);
	v->mr = marked_reg(test, v->pd, &v->m, access);
	v->r = remote_of(test, v->mr);
	v->peer = peer_create(test, f->rxe, ucb_pd_ib(v->pd), SZ_64K);
	return v;
}

static void victim_put(struct kunit *test, struct victim *v)
{
	int i;

	if (v->mr)
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&v->mr), 0);
	for (i = 0; i < ARRAY_SIZE(v->m.buf); i++)
		KUNIT_EXPECT_EQ(test, ucb_buf_free(v->m.buf[i]), 0);
}

/* Refused, with nothing read or changed. Costs the connection. */
static void expect_refused(struct kunit *test, struct victim *v, enum ib_wr_opcode opcode,
			   u64 addr, u32 rkey, size_t length)
{
	memset(v->peer->mem, ATTACK, v->peer->size);
	KUNIT_EXPECT_EQ_MSG(test, peer_op(v->peer, opcode, addr, rkey, length), REFUSED,
			    "opcode %d, %#llx + %#zx, key %#x", opcode, addr, length, rkey);
	KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, OWN));
	KUNIT_EXPECT_NULL(test, memchr_inv(v->peer->mem, ATTACK, v->peer->size));
	KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
}

/* The range is what it was, and the peer reaches it. */
static void expect_reached(struct kunit *test, struct victim *v)
{
	KUNIT_EXPECT_EQ(test, peer_read(v->peer, v->r.addr, v->r.rkey, v->r.size), OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(v->peer->mem, OWN, v->r.size));
	KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, OWN));
}

/* C14: one byte outside on either side, and wherever arithmetic may wrap */
static void hostile_bounds(struct kunit *test)
{
	static const struct {
		u64 offset;	/* from the start of the range */
		size_t length;
	} rows[] = {
		{ -1, 1 },
		{ -1, 2 },
		{ -1, RANGE_LENGTH + 1 },
		{ -8, RANGE_LENGTH },
		{ RANGE_LENGTH, 1 },
		{ RANGE_LENGTH - 1, 2 },
		{ 0, RANGE_LENGTH + 1 },
		{ -(u64)PAGE_SIZE, PAGE_SIZE },
		{ 3 * PAGE_SIZE, 1 },
		{ S64_MAX, 1 },
		{ U64_MAX - RANGE_LENGTH, RANGE_LENGTH },
		{ 1ULL << 32, 1 },
	};
	struct victim *v = victim_get(test, RD | WR);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u64 addr = v->r.addr + rows[i].offset;

		expect_refused(test, v, IB_WR_RDMA_READ, addr, v->r.rkey, rows[i].length);
		expect_refused(test, v, IB_WR_RDMA_WRITE, addr, v->r.rkey, rows[i].length);
	}
	/* the first of all addresses, and over the last one to it */
	expect_refused(test, v, IB_WR_RDMA_READ, 0, v->r.rkey, 1);
	expect_refused(test, v, IB_WR_RDMA_WRITE, U64_MAX, v->r.rkey, v->r.addr + 8);
	expect_reached(test, v);
	victim_put(test, v);
}

static int fetch_add(struct peer *peer, u64 addr, u32 rkey)
{
	struct ib_sge sge = {
		.addr = peer->addr,
		.length = sizeof(u64),
		.lkey = peer->lkey,
	};
	struct ib_atomic_wr wr = {
		.wr = {
			.wr_cqe = &peer->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IB_SEND_SIGNALED,
		},
		.remote_addr = addr,
		.compare_add = 1,
		.rkey = rkey,
	};

	reinit_completion(&peer->done);
	return ib_post_send(peer->far, &wr.wr, NULL) ? -1 : peer_wait(peer);
}

/* No access but what was given; an atomic one never is. */
static void hostile_access(struct kunit *test)
{
	static const int accesses[] = { RD, WR, LOCAL, RD | WR };
	struct victim *v = victim_get(test, accesses[0]);
	int i;

	for (i = 0; i < ARRAY_SIZE(accesses); i++) {
		if (i) {
			KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&v->mr), 0);
			v->mr = marked_reg(test, v->pd, &v->m, accesses[i]);
			v->r = remote_of(test, v->mr);
		}
		if (!(accesses[i] & IB_ACCESS_REMOTE_READ))
			expect_refused(test, v, IB_WR_RDMA_READ, v->r.addr, v->r.rkey, v->r.size);
		if (!(accesses[i] & IB_ACCESS_REMOTE_WRITE))
			expect_refused(test, v, IB_WR_RDMA_WRITE, v->r.addr, v->r.rkey, v->r.size);
		KUNIT_EXPECT_EQ(test, fetch_add(v->peer, v->r.addr, v->r.rkey), REFUSED);
		KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, OWN));
		KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
	}
	expect_reached(test, v);
	victim_put(test, v);
}

/* WRITE with @nr keys, over a connection that none of them costs. */
static void write_with(struct kunit *test, struct victim *v, const u32 *keys, unsigned int nr)
{
	unsigned int i;

	reinit_completion(&v->peer->done);
	for (i = 0; i < nr; i++)
		KUNIT_ASSERT_EQ(test, peer_post_more(v->peer, IB_WR_RDMA_WRITE, v->r.addr, keys[i],
						     64), 0);
	while (i--)
		KUNIT_ASSERT_EQ(test, peer_wait(v->peer), OK);
}

/*
 * Guessed keys: all that differ in one bit, told by what a READ completes with;
 * and all of this MR and of those beside it, written with over a connection that
 * is not lost. On that one the last WRITE is allowed: when it has arrived all
 * before have been refused.
 */
static void hostile_guessed_keys(struct kunit *test)
{
	struct victim *v = victim_get(test, RD | WR);
	u32 mr = v->r.rkey >> 8;
	u8 *first = marked_range(&v->m);
	unsigned int tried = 0;
	u32 keys[8];	/* as many as the send queue takes */
	unsigned int nr = 0;
	ktime_t start;
	ktime_t end;
	u32 key;
	int bit;

	for (bit = 0; bit < 32; bit++)
		expect_refused(test, v, IB_WR_RDMA_READ, v->r.addr, v->r.rkey ^ BIT(bit),
			       v->r.size);

	v->peer->type = IB_QPT_UC;
	KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
	memset(v->peer->mem, ATTACK, v->peer->size);
	start = ktime_get();
	for (key = (mr - min(mr, guesses / 2)) << 8; key < (mr + 1 + guesses / 2) << 8; key++) {
		if (key == v->r.rkey)
			continue;
		keys[nr++] = key;
		if (nr == ARRAY_SIZE(keys)) {
			write_with(test, v, keys, nr);
			nr = 0;
		}
		tried++;
	}
	write_with(test, v, keys, nr);

	KUNIT_EXPECT_EQ(test, *first, OWN);
	KUNIT_ASSERT_EQ(test, peer_write(v->peer, v->r.addr, v->r.rkey, 1), OK);
	end = ktime_add_ms(ktime_get(), BOUND_MS);
	while (READ_ONCE(*first) == OWN && ktime_before(ktime_get(), end))
		cond_resched();
	KUNIT_EXPECT_EQ(test, *first, ATTACK);
	*first = OWN;
	KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, OWN));
	kunit_info(test, "%u keys tried, %lld us each", tried,
		   div_s64(ktime_us_delta(ktime_get(), start), max(tried, 1U)));
	victim_put(test, v);
}

/*
 * C16, C17, C21: peers that never give back what they were lent, and go on with
 * the key when it is taken: in the middle of READs and of WRITEs. By then the
 * buffer is another's, whose bytes are CANARY.
 */
static void hostile_keeps_lease(struct kunit *test)
{
	struct victim *v = victim_get(test, RD | WR);
	struct attacker *a[2];
	struct fixture *f = test->priv;
	s64 worst = 0;
	unsigned int i;
	ktime_t start;
	int k;

	a[0] = attacker_start(test, f->rxe, ucb_pd_ib(v->pd), IB_WR_RDMA_READ, &v->r);
	a[1] = attacker_start(test, f->rxe, ucb_pd_ib(v->pd), IB_WR_RDMA_WRITE, &v->r);
	for (i = 0; i < leases; i++) {
		for (k = 0; k < ARRAY_SIZE(a); k++)
			attacker_wait(test, a[k], 1 + i % 3, true);
		KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, ANYTHING));
		KUNIT_EXPECT_EQ(test, ucb_buf_free(v->m.buf[1]), -EBUSY);

		start = ktime_get();
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&v->mr), 0);
		worst = max(worst, ktime_ms_delta(ktime_get(), start));
		KUNIT_ASSERT_EQ(test, ucb_buf_free(v->m.buf[1]), 0);
		v->m.buf[1] = make_buf(test);
		memset(ucb_buf_addr(v->m.buf[1]), CANARY, ucb_buf_size(v->m.buf[1]));

		for (k = 0; k < ARRAY_SIZE(a); k++)
			attacker_expect_refused(test, a[k]);
		KUNIT_ASSERT_TRUE(test, marked_intact(&v->m, CANARY));
		KUNIT_ASSERT_FALSE(test, a[0]->leaked);

		marked_fill(&v->m);
		v->mr = marked_reg(test, v->pd, &v->m, RD | WR);
		v->r = remote_of(test, v->mr);
		for (k = 0; k < ARRAY_SIZE(a); k++)
			attacker_aim(a[k], &v->r);
	}
	for (k = 0; k < ARRAY_SIZE(a); k++)
		kunit_release_action(test, attacker_stop, a[k]);
	kunit_info(test, "%u leases taken back; %u of %u READs and %u of %u WRITEs were done; slowest deregistration %lld ms",
		   i, a[0]->good, a[0]->tries, a[1]->good, a[1]->tries, worst);
	KUNIT_EXPECT_LT(test, worst, bound_ms);
	KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, ANYTHING));
	victim_put(test, v);
}

/* The owner ends the connection first, as with a peer that is late. */
static void hostile_connection_ended(struct kunit *test)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct victim *v = victim_get(test, RD | WR);
	int op;

	for (op = 0; op < 2; op++) {
		memset(v->peer->mem, ATTACK, v->peer->size);
		KUNIT_ASSERT_EQ(test, peer_post(v->peer, op ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ,
						v->r.addr, v->r.rkey, v->r.size), 0);
		KUNIT_EXPECT_EQ(test, ib_modify_qp(v->peer->near, &attr, IB_QP_STATE), 0);
		ib_drain_qp(v->peer->near);
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&v->mr), 0);
		memset(marked_range(&v->m), CANARY, RANGE_LENGTH);

		/* the peer's end hears no answer any more: it, too, is ended */
		KUNIT_EXPECT_EQ(test, ib_modify_qp(v->peer->far, &attr, IB_QP_STATE), 0);
		KUNIT_EXPECT_NE(test, peer_wait(v->peer), -1);
		KUNIT_EXPECT_NULL(test, memchr(v->peer->mem, CANARY, v->peer->size));
		KUNIT_EXPECT_TRUE(test, marked_intact(&v->m, CANARY));

		marked_fill(&v->m);
		v->mr = marked_reg(test, v->pd, &v->m, RD | WR);
		v->r = remote_of(test, v->mr);
		KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
		expect_reached(test, v);
	}
	victim_put(test, v);
}

static void unheard(struct ib_cq *cq, struct ib_wc *wc)
{
}

static int post_recv(struct peer *peer)
{
	static struct ib_cqe unused = { .done = unheard };
	struct ib_recv_wr wr = { .wr_cqe = &unused };

	return ib_post_recv(peer->near, &wr, NULL);
}

/* Return: what the peer's SEND_WITH_INV completed with. */
static int kill_key(struct peer *peer, u32 key)
{
	struct ib_send_wr wr = {
		.wr_cqe = &peer->cqe,
		.opcode = IB_WR_SEND_WITH_INV,
		.send_flags = IB_SEND_SIGNALED,
		.ex.invalidate_rkey = key,
	};

	if (post_recv(peer))
		return -1;
	reinit_completion(&peer->done);
	return ib_post_send(peer->far, &wr, NULL) ? -1 : peer_wait(peer);
}

/*
 * A peer kills keys: its own, those of another domain and of nobody, one that
 * is only for its owner, one that is dead. That costs who has the key its use,
 * until it is had anew, and nothing else.
 */
static void hostile_kills_keys(struct kunit *test)
{
	struct victim *other = victim_get(test, RD | WR);
	struct victim *v = victim_get(test, RD | WR);
	struct ucb_buf *local = make_buf(test);
	struct ucb_mr *lmr = make_mr(test, v->pd, local, LOCAL);
	u32 keys[] = {
		v->r.rkey ^ 1,			/* bogus */
		v->r.rkey ^ 0x00ff0000,		/* of no MR */
		0,
		U32_MAX,
		ucb_mr_get_rkey(lmr),
		v->r.rkey,			/* right */
		v->r.rkey,			/* dead */
		other->r.rkey,			/* another's */
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		KUNIT_EXPECT_NE(test, kill_key(v->peer, keys[i]), -1);
		KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
		if (i < 5)
			expect_reached(test, v);
		else
			expect_refused(test, v, IB_WR_RDMA_READ, v->r.addr, v->r.rkey, v->r.size);
		KUNIT_EXPECT_TRUE(test, marked_intact(&other->m, OWN));
		/* killed or not, the memory stays its owner's until that ends */
		KUNIT_EXPECT_EQ(test, ucb_buf_free(v->m.buf[1]), -EBUSY);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(local), -EBUSY);
	}

	/* one MR is used again for its owner: what was killed does no harm there */
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&lmr), 0);
		lmr = make_mr(test, v->pd, local, LOCAL);
		KUNIT_EXPECT_NE(test, kill_key(v->peer, ucb_mr_get_rkey(lmr)), -1);
		KUNIT_ASSERT_EQ(test, peer_connect(v->peer), 0);
	}
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&lmr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(local), 0);

	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&v->mr), 0);
	v->mr = marked_reg(test, v->pd, &v->m, RD | WR);
	v->r = remote_of(test, v->mr);
	expect_reached(test, v);
	victim_put(test, v);
	victim_put(test, other);
	expect_pool_works(test);
}

static struct kunit_case hostile_cases[] = {
	KUNIT_CASE_SLOW(hostile_bounds),
	KUNIT_CASE(hostile_access),
	KUNIT_CASE_SLOW(hostile_guessed_keys),
	KUNIT_CASE_SLOW(hostile_keeps_lease),
	KUNIT_CASE(hostile_connection_ended),
	KUNIT_CASE(hostile_kills_keys),
	{}
};

static struct kunit_suite hostile_suite = {
	.name = "ucb_hostile",
	.init = bridge_test_init,
	.test_cases = hostile_cases,
};

kunit_test_suite(hostile_suite);

MODULE_DESCRIPTION("KUnit: a peer that means harm");
MODULE_LICENSE("GPL");
