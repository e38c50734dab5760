// SPDX-License-Identifier: GPL-2.0
/*
 * ucb_verbs connect|listen ADDR PORT
 *
 * The librdmacm end of the guest test "interop", by the calls of rdma_verbs.h.
 * With connect it reads and writes the buffer that the kernel's end tells of, and
 * has the kernel read what it registered with rdma_reg_read() and write what it
 * registered with rdma_reg_write(), once a line on stdin says that the kernel knows
 * of being connected; with listen it only offers a region, and says when it knows.
 * Ends with status 0 if every byte was what it should be.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <ucb/descriptor.h>

#include "interop.h"

#define TIMEOUT_S	120
#define MSG_OUT		64	/* of the memory for messages; the other is at 0 */

static struct rdma_cm_id *id;
static uint64_t theirs;
static uint32_t their_key;

static unsigned char *own, *source, *sink, *msgs;
static struct ibv_mr *own_mr, *source_mr, *sink_mr, *msgs_mr;

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "ucb_verbs: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void require(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "ucb_verbs: not so: %s\n", what);
		exit(1);
	}
	printf("ucb_verbs: %s\n", what);
}

static unsigned char *make_region(void)
{
	unsigned char *mem = aligned_alloc(4096, INTEROP_SIZE);

	must(!mem, "aligned_alloc");
	memset(mem, 0, INTEROP_SIZE);
	return mem;
}

static struct rdma_cm_id *make_id(const char *addr, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags };
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 4,
			.max_recv_wr = 4,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *found;
	struct rdma_cm_id *made;

	must(rdma_getaddrinfo(addr, port, &hints, &found), "rdma_getaddrinfo");
	must(rdma_create_ep(&made, found, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(found);
	return made;
}

static void pack_desc(unsigned char *desc, const struct ibv_mr *mr, uint8_t usage)
{
	uint64_t addr = htole64((uintptr_t)mr->addr);
	uint64_t length = htole64(mr->length);
	uint32_t rkey = htole32(mr->rkey);

	memcpy(desc + UCB_MR_DESC_ADDR, &addr, sizeof(addr));
	memcpy(desc + UCB_MR_DESC_LENGTH, &length, sizeof(length));
	memcpy(desc + UCB_MR_DESC_RKEY, &rkey, sizeof(rkey));
	desc[UCB_MR_DESC_USAGE] = usage;
}

static void take_private(const struct rdma_conn_param *conn)
{
	const unsigned char *desc = conn->private_data;

	must(conn->private_data_len < INTEROP_PRIVATE_LEN, "private data too short");
	desc += INTEROP_PRIVATE_DESC;
	memcpy(&theirs, desc + UCB_MR_DESC_ADDR, sizeof(theirs));
	memcpy(&their_key, desc + UCB_MR_DESC_RKEY, sizeof(their_key));
	theirs = le64toh(theirs);
	their_key = le32toh(their_key);
}

static void expect_sent(void)
{
	struct ibv_wc wc;

	must(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "ucb_verbs: completion: %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
}

static void read_theirs(void)
{
	memset(own, 0, INTEROP_SIZE);
	must(rdma_post_read(id, NULL, own, INTEROP_SIZE, own_mr, 0, theirs, their_key),
	     "rdma_post_read");
	expect_sent();
}

static void write_theirs(unsigned int seed)
{
	interop_fill(own, seed);
	must(rdma_post_write(id, NULL, own, INTEROP_SIZE, own_mr, 0, theirs, their_key),
	     "rdma_post_write");
	expect_sent();
}

static void post_recv(void)
{
	must(rdma_post_recv(id, NULL, msgs, INTEROP_MSG_LEN, msgs_mr), "rdma_post_recv");
}

/* Ask, with a region of ours, and return whether the answer is yes. */
static int ask(int op, unsigned int seed, const struct ibv_mr *mr, uint8_t usage)
{
	unsigned char *out = msgs + MSG_OUT;
	struct ibv_wc wc;

	out[INTEROP_MSG_OP] = op;
	out[INTEROP_MSG_SEED] = seed;
	pack_desc(out + INTEROP_MSG_DESC, mr, usage);
	must(rdma_post_send(id, NULL, out, INTEROP_MSG_LEN, msgs_mr, 0), "rdma_post_send");
	expect_sent();
	must(rdma_get_recv_comp(id, &wc) != 1, "rdma_get_recv_comp");
	if (wc.status != IBV_WC_SUCCESS || msgs[INTEROP_MSG_SEED] != seed ||
	    msgs[INTEROP_MSG_OP] != INTEROP_YES)
		return 0;
	post_recv();
	return 1;
}

static void do_connect(const char *addr, const char *port)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};

	id = make_id(addr, port, 0);
	printf("ucb_verbs: device %s\n", ibv_get_device_name(id->verbs->device));
	/* on iWARP the sink of a READ is written to by the remote side */
	own_mr = rdma_reg_write(id, own, INTEROP_SIZE);
	source_mr = rdma_reg_read(id, source, INTEROP_SIZE);
	sink_mr = rdma_reg_write(id, sink, INTEROP_SIZE);
	msgs_mr = rdma_reg_msgs(id, msgs, INTEROP_SIZE);
	must(!own_mr || !source_mr || !sink_mr || !msgs_mr, "rdma_reg");
	post_recv();
	must(rdma_connect(id, &param), "rdma_connect");
	take_private(&id->event->param.conn);
	require(getchar() != EOF, "the kernel is connected");

	read_theirs();
	require(interop_equal(own, INTEROP_SEED_FIRST), "read: the bytes of the USB buffer");
	/* the message comes behind the bytes */
	write_theirs(31);
	require(ask(INTEROP_CHECK, 31, source_mr, UCB_MR_USAGE_READ_SRC),
		"write: they are in the USB buffer");
	require(ask(INTEROP_FILL, 32, source_mr, UCB_MR_USAGE_READ_SRC),
		"the kernel fills it anew");
	read_theirs();
	require(interop_equal(own, 32), "read: the new bytes");
	interop_fill(source, 33);
	require(ask(INTEROP_PULL, 33, source_mr, UCB_MR_USAGE_READ_SRC),
		"the kernel reads what is registered for that");
	require(ask(INTEROP_PUSH, 34, sink_mr, UCB_MR_USAGE_WRITE_DST),
		"the kernel writes what is registered for that");
	require(interop_equal(sink, 34), "and the bytes are here");

	must(rdma_disconnect(id), "rdma_disconnect");
	must(rdma_dereg_mr(own_mr) || rdma_dereg_mr(source_mr) || rdma_dereg_mr(sink_mr) ||
	     rdma_dereg_mr(msgs_mr), "rdma_dereg_mr");
	rdma_destroy_ep(id);
}

static void do_listen(const char *addr, const char *port)
{
	unsigned char mine[INTEROP_PRIVATE_LEN] = { [INTEROP_PRIVATE_MR] = UCB_MR_DESC_SIZE };
	struct rdma_conn_param param = {
		.private_data = mine,
		.private_data_len = sizeof(mine),
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = 7,
	};
	struct rdma_cm_id *listener;
	struct pollfd event;

	listener = make_id(addr, port, RAI_PASSIVE);
	must(rdma_listen(listener, 1), "rdma_listen");
	printf("ucb_verbs: listening\n");
	fflush(stdout);
	must(rdma_get_request(listener, &id), "rdma_get_request");

	interop_fill(sink, INTEROP_SEED_FIRST);
	sink_mr = ibv_reg_mr(id->pd, sink, INTEROP_SIZE, IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	must(!sink_mr, "ibv_reg_mr");
	pack_desc(mine + INTEROP_PRIVATE_DESC, sink_mr, UCB_MR_USAGE_READ_SRC |
		  UCB_MR_USAGE_WRITE_DST | UCB_MR_USAGE_FLUSH_VISIBILITY);
	must(rdma_accept(id, &param), "rdma_accept");
	printf("ucb_verbs: connected\n");
	fflush(stdout);

	/* all that the kernel does needs nothing of us; then it disconnects */
	event.fd = id->channel->fd;
	event.events = POLLIN;
	must(poll(&event, 1, -1) != 1, "poll");
	must(rdma_disconnect(id), "rdma_disconnect");
	require(interop_equal(sink, INTEROP_SEED_LAST), "the kernel has written our region");
	must(rdma_dereg_mr(sink_mr), "rdma_dereg_mr");
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
	alarm(TIMEOUT_S);
	own = make_region();
	source = make_region();
	sink = make_region();
	msgs = make_region();
	if (argc == 4 && !strcmp(argv[1], "connect")) {
		do_connect(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "listen")) {
		do_listen(argv[2], argv[3]);
	} else {
		fputs("usage: ucb_verbs connect|listen ADDR PORT\n", stderr);
		return 2;
	}
	free(own);
	free(source);
	free(sink);
	free(msgs);
	return 0;
}
