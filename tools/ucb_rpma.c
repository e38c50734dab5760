// SPDX-License-Identifier: GPL-2.0
/*
 * ucb_rpma connect|listen ADDR PORT
 *
 * The librpma end of the guest test "interop"; it knows librpma.h and nothing of
 * ucb but what both ends agree on. With connect it reads, writes and flushes the
 * buffer that the kernel's end tells of, and has the kernel read and write a
 * region of its own, once a line on stdin says that the kernel knows of being
 * connected; with listen it only offers a region, and says when it knows. Ends with
 * status 0 if every byte was what it should be.
 */
#include <inttypes.h>
#include <librpma.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interop.h"

#define TIMEOUT_S	120
#define MR_DESC_SIZE	21
#define MSG_OUT		64	/* of the memory for messages; the other is at 0 */

/* Enough for every use that librpma knows */
#define USAGE_DATA	(RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | \
			 RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST | \
			 RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY)

/* One region is for us alone, the other is the peer's to read and write. */
static struct {
	struct rpma_peer *peer;
	struct rpma_conn *conn;
	struct rpma_cq *cq;
	unsigned char *own, *offered, *msgs;
	struct rpma_mr_local *own_mr, *offered_mr, *msgs_mr;
	struct rpma_mr_remote *theirs;
} us;

static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "ucb_rpma: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void must(int ret, const char *what)
{
	if (ret)
		die("%s: %s", what, rpma_err_2str(ret));
}

#define MUST(call) must(call, #call)

static void require(int holds, const char *what)
{
	if (!holds)
		die("not so: %s", what);
	printf("ucb_rpma: %s\n", what);
}

static unsigned char *make_region(size_t size, int usage, struct rpma_mr_local **mr)
{
	unsigned char *mem = aligned_alloc(4096, size);

	if (!mem)
		die("out of memory");
	memset(mem, 0, size);
	must(rpma_mr_reg(us.peer, mem, size, usage, mr), "rpma_mr_reg");
	return mem;
}

static void make_peer(const char *addr, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *ctx;

	MUST(rpma_utils_get_ibv_context(addr, type, &ctx));
	printf("ucb_rpma: device %s\n", ibv_get_device_name(ctx->device));
	MUST(rpma_peer_new(ctx, &us.peer));
	us.own = make_region(INTEROP_SIZE, USAGE_DATA, &us.own_mr);
	us.offered = make_region(INTEROP_SIZE, USAGE_DATA, &us.offered_mr);
	us.msgs = make_region(4096, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &us.msgs_mr);
}

static void expect_event(enum rpma_conn_event want)
{
	enum rpma_conn_event got;

	MUST(rpma_conn_next_event(us.conn, &got));
	if (got != want)
		die("%s instead of %s", rpma_utils_conn_event_2str(got),
		    rpma_utils_conn_event_2str(want));
}

/* The next completion. Those of one direction come in order. */
static void expect_completion(enum ibv_wc_opcode want)
{
	struct ibv_wc wc;
	int ret;

	while ((ret = rpma_cq_get_wc(us.cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
		MUST(rpma_cq_wait(us.cq));
	must(ret, "rpma_cq_get_wc");
	if (wc.status != IBV_WC_SUCCESS)
		die("completion: %s", ibv_wc_status_str(wc.status));
	if (wc.opcode != want)
		die("completion of %d instead of %d", wc.opcode, want);
}

static void take_private(void)
{
	struct rpma_conn_private_data private = {};
	const unsigned char *p;
	int flush_type;
	size_t size;

	MUST(rpma_conn_get_private_data(us.conn, &private));
	p = private.ptr;
	if (private.len < INTEROP_PRIVATE_LEN)
		die("private data of %d bytes", private.len);
	MUST(rpma_mr_remote_from_descriptor(p + INTEROP_PRIVATE_DESC, p[INTEROP_PRIVATE_MR],
					    &us.theirs));
	MUST(rpma_mr_remote_get_size(us.theirs, &size));
	require(size == INTEROP_SIZE, "the descriptor has the buffer's size");
	MUST(rpma_mr_remote_get_flush_type(us.theirs, &flush_type));
	require(flush_type == RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY,
		"and says that a flush makes bytes visible");
}

static void read_theirs(void)
{
	memset(us.own, 0, INTEROP_SIZE);
	MUST(rpma_read(us.conn, us.own_mr, 0, us.theirs, 0, INTEROP_SIZE,
		       RPMA_F_COMPLETION_ALWAYS, NULL));
	expect_completion(IBV_WC_RDMA_READ);
}

static void write_theirs(unsigned int seed)
{
	interop_fill(us.own, seed);
	MUST(rpma_write(us.conn, us.theirs, 0, us.own_mr, 0, INTEROP_SIZE,
			RPMA_F_COMPLETION_ON_ERROR, NULL));
	MUST(rpma_flush(us.conn, us.theirs, 0, INTEROP_SIZE, RPMA_FLUSH_TYPE_VISIBILITY,
			RPMA_F_COMPLETION_ALWAYS, NULL));
	expect_completion(IBV_WC_RDMA_READ);
}

static void post_recv(void)
{
	MUST(rpma_recv(us.conn, us.msgs_mr, 0, INTEROP_MSG_LEN, NULL));
}

/* Ask, and return whether the answer is yes. */
static int ask(int op, unsigned int seed)
{
	unsigned char *out = us.msgs + MSG_OUT;

	memset(us.msgs, 0, INTEROP_MSG_LEN);
	out[INTEROP_MSG_OP] = op;
	out[INTEROP_MSG_SEED] = seed;
	MUST(rpma_mr_get_descriptor(us.offered_mr, out + INTEROP_MSG_DESC));
	MUST(rpma_send(us.conn, us.msgs_mr, MSG_OUT, INTEROP_MSG_LEN,
		       RPMA_F_COMPLETION_ON_ERROR, NULL));
	expect_completion(IBV_WC_RECV);
	if (us.msgs[INTEROP_MSG_SEED] != seed)
		die("answer to another question");
	if (us.msgs[INTEROP_MSG_OP] != INTEROP_YES)
		return 0;
	post_recv();
	return 1;
}

static void work(void)
{
	uint64_t word = 0x0123456789abcdef;
	unsigned char expected[INTEROP_SIZE];

	read_theirs();
	require(interop_equal(us.own, INTEROP_SEED_FIRST), "read: the bytes of the USB buffer");

	write_theirs(21);
	require(ask(INTEROP_CHECK, 21), "write, flush: they are in the USB buffer");
	require(ask(INTEROP_FILL, 22), "the kernel fills it anew");
	read_theirs();
	require(interop_equal(us.own, 22), "read: the new bytes");

	MUST(rpma_atomic_write(us.conn, us.theirs, 4096, (const char *)&word,
			       RPMA_F_COMPLETION_ALWAYS, NULL));
	expect_completion(IBV_WC_RDMA_WRITE);
	read_theirs();
	interop_fill(expected, 22);
	memcpy(expected + 4096, &word, sizeof(word));
	require(!memcmp(us.own, expected, INTEROP_SIZE), "atomic write: 8 bytes, no others");

	interop_fill(us.offered, 23);
	require(ask(INTEROP_PULL, 23), "the kernel reads our region");
	require(ask(INTEROP_PUSH, 24), "the kernel writes it");
	require(interop_equal(us.offered, 24), "and the bytes are here");
}

static void do_connect(const char *addr, const char *port)
{
	struct rpma_conn_cfg *cfg;
	struct rpma_conn_req *req;

	make_peer(addr, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	MUST(rpma_conn_cfg_new(&cfg));
	MUST(rpma_conn_cfg_set_timeout(cfg, 30000));
	MUST(rpma_conn_req_new(us.peer, addr, port, cfg, &req));
	MUST(rpma_conn_cfg_delete(&cfg));
	MUST(rpma_conn_req_recv(req, us.msgs_mr, 0, INTEROP_MSG_LEN, NULL));
	MUST(rpma_conn_req_connect(&req, NULL, &us.conn));
	expect_event(RPMA_CONN_ESTABLISHED);
	MUST(rpma_conn_get_cq(us.conn, &us.cq));
	take_private();
	if (getchar() == EOF)
		die("nobody said to go on");
	work();
	MUST(rpma_mr_remote_delete(&us.theirs));
	MUST(rpma_conn_disconnect(us.conn));
	expect_event(RPMA_CONN_CLOSED);
}

static void do_listen(const char *addr, const char *port)
{
	unsigned char mine[INTEROP_PRIVATE_LEN] = { [INTEROP_PRIVATE_MR] = MR_DESC_SIZE };
	struct rpma_conn_private_data private = { .ptr = mine, .len = sizeof(mine) };
	struct rpma_conn_req *req;
	struct rpma_ep *ep;
	size_t size;

	make_peer(addr, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	MUST(rpma_mr_get_descriptor_size(us.offered_mr, &size));
	require(size == MR_DESC_SIZE, "a descriptor has 21 bytes");
	MUST(rpma_mr_get_descriptor(us.offered_mr, mine + INTEROP_PRIVATE_DESC));
	interop_fill(us.offered, INTEROP_SEED_FIRST);
	MUST(rpma_ep_listen(us.peer, addr, port, &ep));
	printf("ucb_rpma: listening\n");
	fflush(stdout);
	MUST(rpma_ep_next_conn_req(ep, NULL, &req));
	MUST(rpma_conn_req_connect(&req, &private, &us.conn));
	expect_event(RPMA_CONN_ESTABLISHED);
	printf("ucb_rpma: connected\n");
	fflush(stdout);
	/* all that the kernel does needs nothing of us */
	expect_event(RPMA_CONN_CLOSED);
	MUST(rpma_conn_disconnect(us.conn));
	require(interop_equal(us.offered, INTEROP_SEED_LAST), "the kernel has written our region");
	MUST(rpma_ep_shutdown(&ep));
}

int main(int argc, char **argv)
{
	alarm(TIMEOUT_S);
	if (argc == 4 && !strcmp(argv[1], "connect")) {
		do_connect(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "listen")) {
		do_listen(argv[2], argv[3]);
	} else {
		fputs("usage: ucb_rpma connect|listen ADDR PORT\n", stderr);
		return 2;
	}
	MUST(rpma_conn_delete(&us.conn));
	MUST(rpma_mr_dereg(&us.own_mr));
	MUST(rpma_mr_dereg(&us.offered_mr));
	MUST(rpma_mr_dereg(&us.msgs_mr));
	MUST(rpma_peer_delete(&us.peer));
	free(us.own);
	free(us.offered);
	free(us.msgs);
	return 0;
}
