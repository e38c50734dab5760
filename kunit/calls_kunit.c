// SPDX-License-Identifier: GPL-2.0
/*
 * The calls that make a registration on a connection, and those that work with
 * one: posts, the peer's registration, advice. Bytes are compared at both ends,
 * and what must be refused is, by name.
 */
#include <rdma/rdma_cm.h>

#include "mr_fixture.h"
#include "shell.h"

#define SIZE		(4 * PAGE_SIZE)
#define CANARY		0xc5

/* one work request of ours, and how it completed */
struct op {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
};

static void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->wc = *wc;
	complete(&op->done);
}

static void op_start(struct op *op)
{
	op->cqe.done = op_done;
	init_completion(&op->done);
}

/* Return: what it completed with, or @err if it was not posted; -1 on timeout. */
static int op_wait(struct op *op, int err)
{
	if (err)
		return err;
	if (!wait_for_completion_timeout(&op->done, PEER_TIMEOUT))
		return -1;
	return op->wc.status;
}

static void fill(void *mem, size_t size, u32 seed)
{
	u8 *p = mem;
	size_t i;

	for (i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = seed >> 24;
	}
}

/*
 * Both ends of a connection, each with a buffer of the pool: @mr is of our domain,
 * @far of the peer's, which knows it by @remote.
 */
struct ends {
	struct peer *peer;
	struct ucb_pd *far_pd;
	struct ucb_buf *buf;
	struct ucb_buf *far_buf;
	struct ucb_mr *mr;
	struct ucb_mr *far;
	struct ucb_mr_remote remote;
	u8 *mem;
	u8 *far_mem;
};

static void ends_make(struct kunit *test, struct ends *e, int access, int far_access)
{
	make_pool(test, SIZE, UCB_POOL_RDMA);
	e->peer = make_peer(test, SIZE);
	e->far_pd = ucb_pd_attach(e->peer->pd, 1);
	KUNIT_ASSERT_FALSE(test, IS_ERR(e->far_pd));
	e->buf = make_buf(test);
	e->far_buf = make_buf(test);
	e->mem = ucb_buf_addr(e->buf);
	e->far_mem = ucb_buf_addr(e->far_buf);
	memset(e->mem, CANARY, SIZE);
	memset(e->far_mem, CANARY, SIZE);
	e->mr = make_mr(test, e->buf, access);
	e->far = ucb_mr_reg(e->far_pd, e->far_buf, far_access);
	KUNIT_ASSERT_FALSE(test, IS_ERR(e->far));
	e->remote = remote_of(test, e->far);
}

static void ends_drop(struct kunit *test, struct ends *e)
{
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e->mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e->far), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e->buf), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e->far_buf), 0);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(e->far_pd), 0);
}

/* @mem holds @want at @offset and canaries around it; it is wiped. */
static void expect_only(struct kunit *test, u8 *mem, size_t offset, const void *want,
			size_t length)
{
	KUNIT_EXPECT_NULL(test, memchr_inv(mem, CANARY, offset));
	KUNIT_EXPECT_EQ(test, memcmp(mem + offset, want, length), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(mem + offset + length, CANARY,
					   SIZE - offset - length));
	memset(mem, CANARY, SIZE);
}

static const struct {
	size_t offset;
	size_t far_offset;
	size_t length;
} ranges[] = {
	{ 0, 0, SIZE },
	{ 0, 1, 1 },
	{ 1, SIZE - 1, 1 },
	{ 4095, 3, 4098 },
	{ SIZE - 100, 7, 100 },
	{ 5, 5, 0 },
};

static void calls_send_recv(struct kunit *test)
{
	struct ends e;
	struct op out;
	struct op in;
	int err;
	int i;
	int imm;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE);
	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t from = ranges[i].offset;
		size_t to = ranges[i].far_offset;
		size_t length = ranges[i].length;

		for (imm = 0; imm < 2; imm++) {
			op_start(&in);
			op_start(&out);
			fill(e.mem, SIZE, 2 * i + imm);
			KUNIT_ASSERT_EQ(test, ucb_post_recv(e.peer->far, &in.cqe, e.far,
							    to, length), 0);
			err = imm ? ucb_post_send_imm(e.peer->near, &out.cqe, e.mr, from, length,
						      IB_SEND_SIGNALED, cpu_to_be32(i + 7)) :
				    ucb_post_send(e.peer->near, &out.cqe, e.mr, from, length,
						  IB_SEND_SIGNALED);
			KUNIT_ASSERT_EQ(test, op_wait(&out, err), OK);
			KUNIT_ASSERT_EQ(test, op_wait(&in, 0), OK);
			KUNIT_EXPECT_EQ(test, in.wc.byte_len, length);
			KUNIT_EXPECT_EQ(test, !!(in.wc.wc_flags & IB_WC_WITH_IMM), imm);
			if (imm)
				KUNIT_EXPECT_EQ(test, be32_to_cpu(in.wc.ex.imm_data), i + 7);
			expect_only(test, e.far_mem, to, e.mem + from, length);
		}
	}
	memset(e.mem, CANARY, SIZE);
	ends_drop(test, &e);
}

static void calls_read_write(struct kunit *test)
{
	struct ends e;
	struct op op;
	struct op in;
	int err;
	int i;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	for (i = 0; i < ARRAY_SIZE(ranges); i++) {
		size_t at = ranges[i].offset;
		size_t far = ranges[i].far_offset;
		size_t length = ranges[i].length;

		fill(e.mem, SIZE, i);
		op_start(&op);
		err = ucb_post_write(e.peer->near, &op.cqe, e.mr, at, &e.remote, far, length,
				     IB_SEND_SIGNALED);
		KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
		expect_only(test, e.far_mem, far, e.mem + at, length);

		op_start(&op);
		op_start(&in);
		KUNIT_ASSERT_EQ(test, ucb_post_recv(e.peer->far, &in.cqe, e.far, 0, 0), 0);
		err = ucb_post_write_imm(e.peer->near, &op.cqe, e.mr, at, &e.remote, far, length,
					 IB_SEND_SIGNALED, cpu_to_be32(i + 9));
		KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
		KUNIT_EXPECT_EQ(test, op_wait(&in, 0), OK);
		KUNIT_EXPECT_EQ(test, be32_to_cpu(in.wc.ex.imm_data), i + 9);
		expect_only(test, e.far_mem, far, e.mem + at, length);

		fill(e.far_mem, SIZE, i + 100);
		memset(e.mem, CANARY, SIZE);
		op_start(&op);
		err = ucb_post_read(e.peer->near, &op.cqe, e.mr, at, &e.remote, far, length,
				    IB_SEND_SIGNALED);
		KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
		expect_only(test, e.mem, at, e.far_mem + far, length);
		memset(e.far_mem, CANARY, SIZE);
	}
	ends_drop(test, &e);
}

/* 8 aligned bytes; and a flush, behind which what was written is there */
static void calls_atomic_write_and_flush(struct kunit *test)
{
	struct ends e;
	struct op op;
	int err;
	int i;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	fill(e.mem, SIZE, 1);
	op_start(&op);
	err = ucb_post_atomic_write(e.peer->near, &op.cqe, e.mr, 3, &e.remote, 16,
				    IB_SEND_SIGNALED);
	KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
	expect_only(test, e.far_mem, 16, e.mem + 3, 8);
	for (i = 1; i < 8; i++)
		KUNIT_EXPECT_EQ(test, ucb_post_atomic_write(e.peer->near, &op.cqe, e.mr, 0,
							    &e.remote, 16 + i, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_post_atomic_write(e.peer->near, &op.cqe, e.mr, 0,
						    &e.remote, SIZE, 0), -ERANGE);

	/* the writes themselves tell nobody */
	e.peer->sig = IB_SIGNAL_REQ_WR;
	KUNIT_ASSERT_EQ(test, peer_connect(e.peer), 0);
	for (i = 0; i < 20; i++) {
		fill(e.mem, SIZE, i);
		KUNIT_ASSERT_EQ(test, ucb_post_write(e.peer->near, &op.cqe, e.mr, 64,
						     &e.remote, 64, SIZE - 64, 0), 0);
		op_start(&op);
		err = ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 64, SIZE - 64,
				     UCB_FLUSH_VISIBILITY, IB_SEND_SIGNALED);
		KUNIT_ASSERT_EQ(test, op_wait(&op, err), OK);
		expect_only(test, e.far_mem, 64, e.mem + 64, SIZE - 64);
	}
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, 8,
					     UCB_FLUSH_PERSISTENT, 0), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, 8,
					     0, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, 0,
					     UCB_FLUSH_VISIBILITY, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 1,
					     SIZE, UCB_FLUSH_VISIBILITY, 0), -ERANGE);
	e.remote.usage = UCB_MR_USAGE_READ_SRC | UCB_MR_USAGE_WRITE_DST;
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, 8,
					     UCB_FLUSH_VISIBILITY, 0), -EOPNOTSUPP);
	ends_drop(test, &e);
}

static int any_read(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_read(e->peer->near, NULL, e->mr, offset, &e->remote, far, length, 0);
}

static int any_write(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_write(e->peer->near, NULL, e->mr, offset, &e->remote, far, length, 0);
}

static int any_write_imm(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_write_imm(e->peer->near, NULL, e->mr, offset, &e->remote, far, length,
				  0, 0);
}

static int any_send(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_send(e->peer->near, NULL, e->mr, offset, length, 0);
}

static int any_send_imm(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_send_imm(e->peer->near, NULL, e->mr, offset, length, 0, 0);
}

static int any_recv(struct ends *e, size_t offset, u64 far, size_t length)
{
	return ucb_post_recv(e->peer->near, NULL, e->mr, offset, length);
}

static const struct {
	int (*post)(struct ends *e, size_t offset, u64 far, size_t length);
	bool remote;
	u8 usage;
	bool sink;
} posts[] = {
	{ any_read, true, UCB_MR_USAGE_READ_SRC, true },
	{ any_write, true, UCB_MR_USAGE_WRITE_DST },
	{ any_write_imm, true, UCB_MR_USAGE_WRITE_DST },
	{ any_send },
	{ any_send_imm },
	{ any_recv, .sink = true },
};

/* What is refused is not posted: the connection is as good as before. */
static void calls_refuse(struct kunit *test)
{
	static const struct {
		u64 offset;
		u64 length;
	} outside[] = {
		{ 0, SIZE + 1 },
		{ 1, SIZE },
		{ SIZE, 1 },
		{ SIZE + 1, 0 },
		{ U64_MAX, 1 },
		{ 1, SIZE_MAX },
		{ SIZE_MAX, SIZE_MAX },
	};
	struct ib_qp *near;
	struct ucb_mr *mr;
	struct ends e;
	struct op op;
	int err;
	int i;
	int j;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	near = e.peer->near;
	mr = e.mr;
	for (i = 0; i < ARRAY_SIZE(posts); i++) {
		for (j = 0; j < ARRAY_SIZE(outside); j++) {
			KUNIT_EXPECT_EQ(test, posts[i].post(&e, outside[j].offset, 0,
							    outside[j].length), -ERANGE);
			if (posts[i].remote && outside[j].length <= SIZE)
				KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, outside[j].offset,
								    outside[j].length),
						-ERANGE);
		}
		e.mr = NULL;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EINVAL);
		e.mr = mr;
		e.peer->near = NULL;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EINVAL);
		/* of the other PD */
		e.peer->near = e.peer->far;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EINVAL);
		e.peer->near = near;
		KUNIT_EXPECT_EQ(test, ucb_post_send(near, NULL, mr, 0, 8, IB_SEND_INLINE), -EINVAL);
		KUNIT_EXPECT_EQ(test, ucb_post_write(near, NULL, mr, 0, &e.remote, 0, 8,
						     IB_SEND_INLINE), -EINVAL);
		if (!posts[i].remote)
			continue;
		e.remote.usage = ~posts[i].usage;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EACCES);
		e.remote.usage = 0;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EINVAL);
		/* a peer's range that wraps around */
		e.remote = remote_of(test, e.far);
		e.remote.addr = U64_MAX - 3;
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 8, 8), -ERANGE);
		e.remote = remote_of(test, e.far);
	}

	/* not to be written by its owner either */
	KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&e.mr), 0);
	e.mr = make_mr(test, e.buf, RD);
	for (i = 0; i < ARRAY_SIZE(posts); i++)
		if (posts[i].sink)
			KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -EACCES);

	/* none of these has reached the queue pair */
	fill(e.mem, SIZE, 3);
	op_start(&op);
	err = ucb_post_write(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, SIZE, IB_SEND_SIGNALED);
	KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
	KUNIT_EXPECT_EQ(test, memcmp(e.mem, e.far_mem, SIZE), 0);

	/* revoked */
	drop_pool(test);
	for (i = 0; i < ARRAY_SIZE(posts); i++)
		KUNIT_EXPECT_EQ(test, posts[i].post(&e, 0, 0, 8), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e.mr), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e.far), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e.buf), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e.far_buf), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(e.far_pd), 0);
}

static void not_iwarp(void *ibdev)
{
	struct ib_device *dev = ibdev;

	dev->port_data[1].immutable.core_cap_flags &= ~RDMA_CORE_CAP_PROT_IWARP;
}

/*
 * There a READ tells the peer the key of its sink. What counts is the protocol of
 * the port, so rxe will do, with that bit set.
 */
static void calls_iwarp_sink(struct kunit *test)
{
	struct ends e;
	struct op op;
	int err;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	rxe->port_data[1].immutable.core_cap_flags |= RDMA_CORE_CAP_PROT_IWARP;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, not_iwarp, rxe), 0);

	KUNIT_EXPECT_EQ(test, any_read(&e, 0, 0, 8), -EACCES);
	KUNIT_EXPECT_EQ(test, ucb_post_flush(e.peer->near, NULL, e.mr, 0, &e.remote, 0, 8,
					     UCB_FLUSH_VISIBILITY, 0), -EACCES);
	KUNIT_ASSERT_EQ(test, ucb_mr_dereg(&e.mr), 0);
	e.mr = make_mr(test, e.buf, WR);
	op_start(&op);
	err = ucb_post_read(e.peer->near, &op.cqe, e.mr, 0, &e.remote, 0, SIZE, IB_SEND_SIGNALED);
	KUNIT_EXPECT_EQ(test, op_wait(&op, err), OK);
	kunit_release_action(test, not_iwarp, rxe);
	ends_drop(test, &e);
}

static void calls_remote(struct kunit *test)
{
	static const struct {
		u8 usage;
		int type;
	} types[] = {
		{ UCB_MR_USAGE_READ_SRC, 0 },
		{ UCB_MR_USAGE_FLUSH_VISIBILITY, UCB_FLUSH_VISIBILITY },
		{ UCB_MR_USAGE_FLUSH_PERSISTENT, UCB_FLUSH_PERSISTENT },
		{ 0xff, UCB_FLUSH_VISIBILITY | UCB_FLUSH_PERSISTENT },
	};
	struct ucb_mr_remote remote = {};
	u8 desc[UCB_MR_DESC_SIZE];
	struct ends e;
	int i;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_get_size(&e.remote), SIZE);
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		remote.usage = types[i].usage;
		KUNIT_EXPECT_EQ(test, ucb_mr_remote_get_flush_type(&remote), types[i].type);
	}
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_delete(NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_delete(&e.remote), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_to_descriptor(&e.remote, desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, any_read(&e, 0, 0, 8), -EINVAL);
	ends_drop(test, &e);
}

static void calls_advise(struct kunit *test)
{
	const int prefetch = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
	const int prefetch_write = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	const int no_fault = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	const u32 flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct ends e;

	ends_make(test, &e, RD, WR);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 0, SIZE, prefetch, 0), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, SIZE, 0, no_fault, flush), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 0, 1, prefetch_write, 0), -EACCES);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.far, 0, 1, prefetch_write, flush), 0);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 1, SIZE, prefetch, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, SIZE + 1, 0, prefetch, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 0, 1, no_fault + 1, 0), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 0, 1, -1, 0), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(e.mr, 0, 1, prefetch, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_advise(NULL, 0, 1, prefetch, 0), -EINVAL);
	ends_drop(test, &e);
}

/* A connection whose queue pair is not connected yet registers as well. */
static void calls_before_connecting(struct kunit *test)
{
	static struct ucb_mr *(* const regs[])(struct rdma_cm_id *id, struct ucb_buf *buf) = {
		ucb_reg_msgs, ucb_reg_read, ucb_reg_write,
	};
	static const int reads[] = { REFUSED, OK, REFUSED };
	static const int writes[] = { REFUSED, REFUSED, OK };
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1 },
		.qp_type = IB_QPT_RC,
	};
	struct ucb_mr_remote remote[3];
	struct ucb_mr *mr[3];
	struct rdma_cm_id *id;
	struct ucb_buf *buf;
	struct peer *peer;
	int i;

	make_pool(test, SIZE, UCB_POOL_RDMA);
	buf = make_buf(test);
	peer = make_peer(test, SIZE);
	peer_disconnect(peer);
	id = kunit_kzalloc(test, sizeof(*id), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, id);
	init.send_cq = peer->cq;
	init.recv_cq = peer->cq;
	id->qp = ib_create_qp(peer->near_pd, &init);
	KUNIT_ASSERT_FALSE(test, IS_ERR(id->qp));
	for (i = 0; i < 3; i++) {
		mr[i] = regs[i](id, buf);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr[i]));
		remote[i] = remote_of(test, mr[i]);
	}
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(id->qp), 0);

	for (i = 0; i < 3; i++) {
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_read(peer, remote[i].addr, remote[i].rkey, SIZE),
				reads[i]);
		KUNIT_ASSERT_EQ(test, peer_connect(peer), 0);
		KUNIT_EXPECT_EQ(test, peer_write(peer, remote[i].addr, remote[i].rkey, SIZE),
				writes[i]);
		KUNIT_EXPECT_EQ(test, ucb_dereg_mr(mr[i]), 0);
	}
	KUNIT_EXPECT_EQ(test, ucb_buf_free(buf), 0);
}

#define SHOWN "/sys/kernel/debug/ucb_rdma/"

/* The count of these, modulo 256: that is what a status holds. */
static int shown(struct kunit *test, const char *what)
{
	char command[128];
	int status;

	snprintf(command, sizeof(command),
		 "while read -r name n rest; do [ $name = %s ] && exit $((n %% 256)); done < "
		 SHOWN "stats", what);
	status = shell(command);
	KUNIT_ASSERT_GE(test, status, 0);
	return status >> 8;
}

/* What root sees: counts, and what to expect of the device */
static void calls_shown(struct kunit *test)
{
	static const char * const lines[] = {
		"^pages 512$", "^isolates yes$", "^port 1 RoCE registration yes$",
		"^invalidation is followed by",
	};
	int reg = shown(test, "registrations");
	int inv = shown(test, "invalidations");
	int revoke = shown(test, "revocations");
	char command[128];
	struct ends e;
	int i;

	ends_make(test, &e, IB_ACCESS_LOCAL_WRITE, RD | WR);
	KUNIT_EXPECT_EQ(test, shown(test, "registrations"), (reg + 2) % 256);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e.mr), 0);
	KUNIT_EXPECT_EQ(test, shown(test, "invalidations"), (inv + 1) % 256);
	drop_pool(test);
	KUNIT_EXPECT_EQ(test, shown(test, "revocations"), (revoke + 1) % 256);
	KUNIT_EXPECT_EQ(test, ucb_mr_dereg(&e.far), 0);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e.buf), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_buf_free(e.far_buf), -ENODEV);
	KUNIT_EXPECT_EQ(test, ucb_pd_detach(e.far_pd), 0);

	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		snprintf(command, sizeof(command), "grep -q '%s' " SHOWN "preflight-%s",
			 lines[i], dev_name(&rxe->dev));
		KUNIT_EXPECT_EQ_MSG(test, shell(command), 0, "%s", lines[i]);
	}
}

static struct kunit_case calls_cases[] = {
	KUNIT_CASE_PARAM(calls_send_recv, controller_gen_params),
	KUNIT_CASE_PARAM(calls_read_write, controller_gen_params),
	KUNIT_CASE_PARAM(calls_atomic_write_and_flush, controller_gen_params),
	KUNIT_CASE(calls_refuse),
	KUNIT_CASE(calls_iwarp_sink),
	KUNIT_CASE(calls_remote),
	KUNIT_CASE(calls_advise),
	KUNIT_CASE(calls_before_connecting),
	KUNIT_CASE(calls_shown),
	{}
};

static struct kunit_suite calls_suite = {
	.name = "ucb_calls",
	.suite_init = find_rdma,
	.suite_exit = find_rdma_end,
	.init = make_fixture,
	.test_cases = calls_cases,
};

kunit_test_suite(calls_suite);

MODULE_DESCRIPTION("KUnit: work requests on registered memory");
MODULE_LICENSE("GPL");
