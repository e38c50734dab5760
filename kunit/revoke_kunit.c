// SPDX-License-Identifier: GPL-2.0
/*
 * The end of keys: given up, revoked with their pool, taken back in the middle
 * of a READ, gone with the device. A peer that kept one reaches nothing.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/xarray.h>

#include "mr_fixture.h"
#include "netlink.h"

static unsigned int takebacks = 16;
module_param(takebacks, uint, 0444);
MODULE_PARM_DESC(takebacks, "buffers taken back in the middle of a READ");

static unsigned int key_cycles = 300;
module_param(key_cycles, uint, 0444);
MODULE_PARM_DESC(key_cycles, "registrations of one buffer for nobody, and half of that for a peer");

static unsigned int key_probe_every = 60;
module_param(key_probe_every, uint, 0444);
MODULE_PARM_DESC(key_probe_every, "of so many keys, one is read with, too, live and dead");

static unsigned int bound_ms = BOUND_MS;
module_param(bound_ms, uint, 0444);
MODULE_PARM_DESC(bound_ms, "the longest that taking back a buffer may take");

/* C16 */
static void revoke_stale_key(struct kunit *test)
{
	const size_t size = PAGE_SIZE;
	struct ucb_mr_remote old;
	struct ucb_mr_remote now;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	u8 *mem;
	int i;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	mr = make_mr(test, buf, RD | WR);
	old = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, old.addr, old.rkey, size), OK);

	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -EBUSY);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);

	/* without and with a new registration of the same memory */
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	for (i = 0; i < 2; i++) {
		if (i)
			mr = make_mr(test, buf, RD | WR);
		memset(mem, 0xca, size);
		memset(peer->mem, 0x11, size);
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_read(peer, old.addr, old.rkey, size), REFUSED);
		KUNIT_EXPECT_NULL(test, memchr_inv(peer->mem, 0x11, size));
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_write(peer, old.addr, old.rkey, size), REFUSED);
		KUNIT_EXPECT_NULL(test, memchr_inv(mem, 0xca, size));
	}
	now = remote_of(test, mr);
	KUNIT_EXPECT_NE(test, now.rkey, old.rkey);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	KUNIT_EXPECT_EQ(test, peer_read(peer, now.addr, now.rkey, size), OK);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void revoke_by_pool(struct kunit *test)
{
	const size_t size = 2 * PAGE_SIZE;
	struct ucb_mr_remote r;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	ktime_t start;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, size);
	mr = make_mr(test, buf, RD | WR);
	r = remote_of(test, mr);
	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), OK);

	start = ktime_get();
	drop_pool(test);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), BOUND_MS);

	KUNIT_EXPECT_EQ(test, peer_read(peer, r.addr, r.rkey, size), REFUSED);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);
}

/* the pool goes while the peer READs, and the owner deregisters */
struct racer {
	struct ucb_mr *mr;
	struct completion runs;
	struct completion go;
};

static int dereg_thread(void *data)
{
	struct racer *racer = data;

	complete(&racer->runs);
	wait_for_completion(&racer->go);
	return ucb_mr_dereg(&racer->mr);
}

static void revoke_races_dereg(struct kunit *test)
{
	const size_t size = 16 * PAGE_SIZE;
	struct task_struct *task;
	struct ucb_mr_remote r;
	struct racer racer;
	struct ucb_buf *buf;
	struct peer *peer;
	int status;
	int i;

	peer = make_peer(test, size);
	for (i = 0; i < 20; i++) {
		make_pool(test, size, UCB_POOL_RDMA);
		init_completion(&racer.runs);
		init_completion(&racer.go);
		buf = make_buf(test);
		racer.mr = make_mr(test, buf, RD | WR);
		r = remote_of(test, racer.mr);
		task = kthread_run(dereg_thread, &racer, "ucb_dereg");
		KUNIT_ASSERT_FALSE(test, IS_ERR(task));
		get_task_struct(task);
		/* a thread that is stopped before it ran returns nothing of ours */
		wait_for_completion(&racer.runs);

		KUNIT_EXPECT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey,
						size), 0);
		complete(&racer.go);
		drop_pool(test);
		KUNIT_EXPECT_EQ(test, kthread_stop(task), 0);
		put_task_struct(task);
		KUNIT_EXPECT_NULL(test, racer.mr);
		KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), -ENODEV);

		status = peer_wait(peer);
		KUNIT_EXPECT_TRUE_MSG(test, status == OK || status == REFUSED,
				      "status %d", status);
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	}
}

/*
 * C17, C21: a buffer is taken back when so many pages of a READ have arrived,
 * and given out again: the next owner's bytes stay in.
 */
static void revoke_in_flight(struct kunit *test)
{
	const size_t size = 16 * PAGE_SIZE;
	unsigned int refused = 0;
	unsigned int cut = 0;
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	unsigned int i;
	ktime_t begin;
	ktime_t start;
	s64 worst = 0;
	void *mem;
	int status;
	u8 *last;

	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	peer = make_peer(test, size);

	begin = ktime_get();
	for (i = 0; i < takebacks; i++) {
		memset(mem, 0x11, size);
		memset(peer->mem, 0x22, size);
		mr = make_mr(test, buf, RD);
		r = remote_of(test, mr);
		KUNIT_ASSERT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey,
						size), 0);
		last = peer->mem + (i % 16) * PAGE_SIZE;
		while (i % 16 && READ_ONCE(*last) == 0x22 &&
		       !completion_done(&peer->done))
			cond_resched();
		start = ktime_get();
		KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
		worst = max(worst, ktime_ms_delta(ktime_get(), start));
		KUNIT_ASSERT_EQ(test, ucb_buf_free(buf), 0);
		buf = make_buf(test);
		KUNIT_ASSERT_PTR_EQ(test, ucb_buf_addr(buf), mem);
		memset(mem, 0xca, size);

		status = peer_wait(peer);
		KUNIT_ASSERT_NULL(test, memchr(peer->mem, 0xca, size));
		if (status == OK)
			continue;
		KUNIT_ASSERT_EQ(test, status, REFUSED);
		refused++;
		if (memchr(peer->mem, 0x11, size))
			cut++;
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
	}
	kunit_info(test, "%u of %u refused, %u of them half way; slowest deregistration %lld ms; %lld us each",
		   refused, i, cut, worst, div_s64(ktime_us_delta(ktime_get(), begin), i));
	KUNIT_EXPECT_LT(test, worst, bound_ms);
	KUNIT_EXPECT_GT(test, cut, 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static void free_keys(void *keys)
{
	kvfree(keys);
}

static void forget_keys(void *seen)
{
	xa_destroy(seen);
}

/* Is the key dead to a peer? Costs the connection. */
static void expect_dead(struct kunit *test, struct peer *peer, u32 key)
{
	KUNIT_ASSERT_EQ(test, peer_read(peer, 0, key, 8), REFUSED);
	KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
}

#define UNTOUCHED	0xcacacacacacacacaULL

/*
 * WRITE with @key over a connection that this does not cost: if the key is good,
 * to the first word, and see it there, by when all before has arrived, too; if
 * not, to the second, which must never change.
 */
static void write_with(struct kunit *test, struct peer *peer, u64 *mem, u32 key, bool good)
{
	unsigned long end = jiffies + PEER_TIMEOUT;
	u64 word = mem[0] + 1;

	*(u64 *)peer->mem = word;
	KUNIT_ASSERT_EQ(test, peer_write(peer, good ? 0 : sizeof(word), key, sizeof(word)), OK);
	while (good && READ_ONCE(mem[0]) != word && time_before(jiffies, end))
		cond_resched();
	KUNIT_ASSERT_EQ(test, READ_ONCE(mem[0]), good ? word : word - 1);
	KUNIT_ASSERT_EQ_MSG(test, READ_ONCE(mem[1]), UNTOUCHED, "before or with key %#x", key);
}

/*
 * C15: no key comes twice, each is good while it is registered and refused from
 * then on. An MR goes through its 256 keys once, then another takes over.
 */
static void revoke_keys_never_repeat(struct kunit *test)
{
	static const int accesses[] = { 0, RD | WR };
	struct ucb_buf *buf;
	unsigned int kept;
	unsigned int nr;
	unsigned int i;
	struct peer *writer;
	struct peer *peer;
	struct ucb_mr *mr;
	struct xarray *seen;
	ktime_t start;
	u64 *mem;
	u32 *keys;
	int err;
	int a;

	make_pool(test, PAGE_SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	mem = ucb_buf_addr(buf);
	mem[1] = UNTOUCHED;
	peer = make_peer(test, PAGE_SIZE);
	writer = make_peer(test, PAGE_SIZE);
	writer->type = IB_QPT_UC;
	KUNIT_ASSERT_EQ(test, peer_connect(writer), 0);
	keys = kvcalloc(key_cycles, sizeof(*keys), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, keys);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_keys, keys), 0);
	seen = kunit_kzalloc(test, sizeof(*seen), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seen);
	xa_init(seen);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, forget_keys, seen), 0);

	for (a = 0; a < ARRAY_SIZE(accesses); a++) {
		/* those of a peer take an MR each, and more time */
		nr = accesses[a] ? key_cycles / 2 : key_cycles;
		kept = 0;
		start = ktime_get();
		for (i = 0; i < nr; i++) {
			bool probe = accesses[a] && !(i % key_probe_every);

			mr = make_mr(test, buf, accesses[a]);
			keys[i] = ucb_mr_get_rkey(mr);
			err = xa_insert(seen, keys[i], xa_mk_value(i), GFP_KERNEL);
			KUNIT_ASSERT_EQ_MSG(test, err, 0, "key %#x again", keys[i]);
			write_with(test, writer, mem, keys[i], accesses[a]);
			if (probe)
				KUNIT_ASSERT_EQ(test, peer_read(peer, 0, keys[i], 8), OK);
			KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
			write_with(test, writer, mem, keys[i], false);
			if (probe)
				expect_dead(test, peer, keys[i]);
			if (i && keys[i] >> 8 == keys[i - 1] >> 8)
				kept++;
		}
		kunit_info(test, "%u keys for access %#x, %lld us each", i, accesses[a],
			   div_s64(ktime_us_delta(ktime_get(), start), i));
		/* a peer's key ends with its MR; one no peer can use rotates */
		KUNIT_EXPECT_EQ(test, kept, accesses[a] ? 0 : nr - 1 - (nr - 1) / 256);
	}

	/* and they stay dead while the memory has another */
	mr = make_mr(test, buf, RD | WR);
	for (i = 0; i < nr; i++)
		write_with(test, writer, mem, keys[i], false);
	for (i = 0; i < nr; i += max(nr / 8, 1U))
		expect_dead(test, peer, keys[i]);
	write_with(test, writer, mem, ucb_mr_get_rkey(mr), true);
	KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static int unregister_thread(void *data)
{
	return rdma_link_del((uintptr_t)data);
}

/*
 * C18: the device goes in the middle of a READ, while the peer's queue pair is
 * still on the domain's PD, as a connection's is until its DEVICE_REMOVAL.
 */
static void revoke_device_removed(struct kunit *test)
{
	const size_t size = 64 * PAGE_SIZE;
	struct task_struct *task;
	u8 desc[UCB_MR_DESC_SIZE];
	struct ucb_mr_remote r;
	struct ucb_buf *buf;
	struct peer *peer;
	struct ucb_mr *mr;
	struct ucb_pd *pd;
	ktime_t start;

	KUNIT_ASSERT_NOT_NULL_MSG(test, spare, "no second RDMA device named rxe*");
	make_pool(test, size, UCB_POOL_RDMA);
	buf = make_buf(test);
	pd = ucb_pd_get(spare, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	mr = ucb_mr_reg(pd, buf, RD | WR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	r = remote_of(test, mr);
	peer = peer_create(test, spare, ucb_pd_ib(pd), size);
	KUNIT_EXPECT_EQ(test, peer_post(peer, IB_WR_RDMA_READ, r.addr, r.rkey, size), 0);

	start = ktime_get();
	task = kthread_run(unregister_thread, (void *)(uintptr_t)spare->index,
			   "ucb_unregister");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	while (!ucb_mr_get_descriptor(mr, desc) &&
	       ktime_ms_delta(ktime_get(), start) < BOUND_MS)
		cond_resched();
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(mr, desc), -ENODEV);
	peer_wait(peer);
	kunit_release_action(test, peer_destroy, peer);

	/* the buffer is the pool's again, the handles are still ours */
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ucb_mr_reg(pd, buf, RD)), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&mr), 0);
	ucb_pd_put(pd);
	KUNIT_EXPECT_EQ(test, kthread_stop(task), 0);
	put_task_struct(task);
	KUNIT_EXPECT_LT(test, ktime_ms_delta(ktime_get(), start), BOUND_MS);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

static struct kunit_case revoke_cases[] = {
	KUNIT_CASE_PARAM(revoke_stale_key, controller_gen_params),
	KUNIT_CASE_PARAM(revoke_by_pool, controller_gen_params),
	KUNIT_CASE_PARAM_ATTR(revoke_races_dereg, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(revoke_in_flight, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE_PARAM_ATTR(revoke_keys_never_repeat, controller_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	KUNIT_CASE(revoke_device_removed),
	{}
};

static struct kunit_suite revoke_suite = {
	.name = "ucb_revoke",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = revoke_cases,
};

kunit_test_suite(revoke_suite);

MODULE_DESCRIPTION("KUnit: the end of keys");
MODULE_LICENSE("GPL");
