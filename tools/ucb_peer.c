// SPDX-License-Identifier: GPL-2.0
/*
 * The peer of the capture sample: reads a file out of another machine's USB
 * buffers by RDMA READ.
 *
 *   ucb_peer [-d READS] [-t SECONDS] ADDR PORT FILE
 *
 * It connects, receives the table of descriptors, checks it, reads the buffers
 * in order with up to READS (default 8) operations in flight, and writes FILE.
 * FILE appears only when it is whole. No wait lasts longer than SECONDS
 * (default 20). Prints bytes, seconds and MB/s; exit status 0 only then.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <ucb/descriptor.h>

#include "capture_table.h"

#define TABLE_ROOM	(CAPTURE_TABLE_HDR + CAPTURE_TABLE_MAX * UCB_MR_DESC_SIZE)
#define PIECE		(64 * 1024)	/* most bytes in one READ */
#define DEPTH_MAX	64
/* reasons of the IB connection manager; iWARP has an errno there */
#define REJ_NO_LISTENER	8
#define REJ_CONSUMER	28
#define WR_TABLE	UINT64_MAX

struct piece {
	uint64_t file_off;
	uint32_t len;
};

struct peer {
	const char *host, *port, *path;
	char *part;
	int timeout_ms;
	unsigned int depth;

	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	uint8_t *table, *sink;
	struct ibv_mr *table_mr, *sink_mr;

	uint32_t count;
	uint64_t bytes;
	int fd;
};

static struct peer peer = { .timeout_ms = 20000, .depth = 8, .fd = -1 };

static _Noreturn void give_up(void)
{
	if (peer.part)
		unlink(peer.part);
	exit(1);
}

/* Interrupted: nothing is left behind, and the parent sees the signal. */
static void clean_up(int sig)
{
	static const char why[] = "ucb_peer: interrupted\n";

	if (peer.part)
		unlink(peer.part);
	if (write(STDERR_FILENO, why, sizeof(why) - 1) < 0)
		_exit(1);
	raise(sig);
}

static void catch_signals(void)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, 0 };
	/* the default action is back when the handler raises it again */
	struct sigaction sa = { .sa_handler = clean_up, .sa_flags = SA_RESETHAND };
	const int *sig;

	for (sig = sigs; *sig; sig++)
		if (sigaction(*sig, &sa, NULL)) {
			perror("ucb_peer: sigaction");
			exit(1);
		}
}

#define die(fmt, ...) \
	(fprintf(stderr, "ucb_peer: " fmt "\n", ##__VA_ARGS__), give_up())

/* Until @fd is readable: 1. 0 if the connection manager was first. */
static int wait_readable(int fd, const char *what)
{
	struct pollfd p[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = peer.events->fd, .events = POLLIN },
	};
	int n;

	do {
		n = poll(p, 2, peer.timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		die("poll: %s", strerror(errno));
	if (!n)
		die("no %s within %d s", what, peer.timeout_ms / 1000);
	return !!p[0].revents;
}

static enum rdma_cm_event_type next_event(int *status)
{
	enum rdma_cm_event_type type;
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(peer.events, &ev))
		die("rdma_get_cm_event: %s", strerror(errno));
	type = ev->event;
	*status = ev->status;
	rdma_ack_cm_event(ev);
	return type;
}

static void wait_event(enum rdma_cm_event_type want)
{
	const char *what = rdma_event_str(want);
	enum rdma_cm_event_type got;
	int status;

	wait_readable(peer.events->fd, what);
	got = next_event(&status);
	if (got == want)
		return;
	if (got == RDMA_CM_EVENT_REJECTED)
		die("%s port %s rejects the connection: %s (reason %d)", peer.host, peer.port,
		    status == REJ_NO_LISTENER ? "nothing listens there" :
		    status == REJ_CONSUMER ? "the server does not want this peer" : "",
		    status);
	die("%s (status %d) instead of %s", rdma_event_str(got), status, what);
}

/* The next completion, whose success is required. */
static uint64_t wait_completion(const char *what)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;
	int n;

	for (;;) {
		n = ibv_poll_cq(peer.cq, 1, &wc);
		if (n < 0)
			die("ibv_poll_cq failed");
		if (n)
			break;
		errno = ibv_req_notify_cq(peer.cq, 0);
		if (errno)
			die("ibv_req_notify_cq: %s", strerror(errno));
		/* what came before the request raised no event */
		n = ibv_poll_cq(peer.cq, 1, &wc);
		if (n < 0)
			die("ibv_poll_cq failed");
		if (n)
			break;
		if (!wait_readable(peer.comp->fd, what))
			die("%s while waiting for %s", rdma_event_str(next_event(&n)), what);
		if (ibv_get_cq_event(peer.comp, &cq, &ctx))
			die("ibv_get_cq_event: %s", strerror(errno));
		ibv_ack_cq_events(cq, 1);
	}
	if (wc.status == IBV_WC_LOC_LEN_ERR && wc.wr_id == WR_TABLE)
		die("table is longer than %d descriptors", CAPTURE_TABLE_MAX);
	if (wc.status != IBV_WC_SUCCESS)
		die("%s: %s", what, ibv_wc_status_str(wc.status));
	if (wc.wr_id == WR_TABLE)
		return wc.byte_len;
	return wc.wr_id;
}

static struct ibv_mr *reg(void *mem, size_t len)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	/* on iWARP the sink of a READ is written to by the remote side */
	if (peer.id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	mr = ibv_reg_mr(peer.pd, mem, len, access);
	if (!mr)
		die("ibv_reg_mr of %zu bytes: %s", len, strerror(errno));
	return mr;
}

static void resolve(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	int err;

	err = getaddrinfo(peer.host, peer.port, &hints, &ai);
	if (err)
		die("%s port %s: %s", peer.host, peer.port, gai_strerror(err));
	peer.events = rdma_create_event_channel();
	if (!peer.events)
		die("no RDMA connection manager: %s", strerror(errno));
	if (rdma_create_id(peer.events, &peer.id, NULL, RDMA_PS_TCP))
		die("rdma_create_id: %s", strerror(errno));
	if (rdma_resolve_addr(peer.id, NULL, ai->ai_addr, peer.timeout_ms))
		die("rdma_resolve_addr: %s", strerror(errno));
	wait_event(RDMA_CM_EVENT_ADDR_RESOLVED);
	freeaddrinfo(ai);
	if (rdma_resolve_route(peer.id, peer.timeout_ms))
		die("rdma_resolve_route: %s", strerror(errno));
	wait_event(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = peer.depth,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};

	peer.pd = ibv_alloc_pd(peer.id->verbs);
	if (!peer.pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	peer.comp = ibv_create_comp_channel(peer.id->verbs);
	if (!peer.comp)
		die("ibv_create_comp_channel: %s", strerror(errno));
	peer.cq = ibv_create_cq(peer.id->verbs, peer.depth + 1, NULL, peer.comp, 0);
	if (!peer.cq)
		die("ibv_create_cq: %s", strerror(errno));
	attr.send_cq = peer.cq;
	attr.recv_cq = peer.cq;
	if (rdma_create_qp(peer.id, peer.pd, &attr))
		die("rdma_create_qp: %s", strerror(errno));
	peer.table = calloc(1, TABLE_ROOM);
	peer.sink = calloc(peer.depth, PIECE);
	if (!peer.table || !peer.sink)
		die("out of memory");
	peer.table_mr = reg(peer.table, TABLE_ROOM);
	peer.sink_mr = reg(peer.sink, (size_t)peer.depth * PIECE);
}

static void connect_peer(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer.table,
		.length = TABLE_ROOM,
		.lkey = peer.table_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = WR_TABLE, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_device_attr dev;

	if (ibv_query_device(peer.id->verbs, &dev))
		die("ibv_query_device: %s", strerror(errno));
	param.initiator_depth = dev.max_qp_init_rd_atom < (int)peer.depth ?
				dev.max_qp_init_rd_atom : (int)peer.depth;
	errno = ibv_post_recv(peer.id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv: %s", strerror(errno));
	if (rdma_connect(peer.id, &param))
		die("rdma_connect: %s", strerror(errno));
	wait_event(RDMA_CM_EVENT_ESTABLISHED);
}

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static const uint8_t *desc(uint32_t i)
{
	return peer.table + CAPTURE_TABLE_HDR + (size_t)i * UCB_MR_DESC_SIZE;
}

static void check_table(uint64_t len)
{
	uint64_t sum = 0, addr, size;
	uint32_t i;

	if (len < CAPTURE_TABLE_HDR)
		die("table of %" PRIu64 " bytes: too short for its header", len);
	if (get32(peer.table) != CAPTURE_TABLE_MAGIC)
		die("not a table: magic is %#x", get32(peer.table));
	peer.count = get32(peer.table + CAPTURE_TABLE_COUNT);
	peer.bytes = get64(peer.table + CAPTURE_TABLE_BYTES);
	if (!peer.count || peer.count > CAPTURE_TABLE_MAX)
		die("table announces %u descriptors, not 1 to %d", peer.count, CAPTURE_TABLE_MAX);
	if (len != CAPTURE_TABLE_HDR + (uint64_t)peer.count * UCB_MR_DESC_SIZE)
		die("table of %" PRIu64 " bytes does not hold %u descriptors", len, peer.count);
	for (i = 0; i < peer.count; i++) {
		addr = get64(desc(i) + UCB_MR_DESC_ADDR);
		size = get64(desc(i) + UCB_MR_DESC_LENGTH);
		if (!(desc(i)[UCB_MR_DESC_USAGE] & UCB_MR_USAGE_READ_SRC))
			die("descriptor %u cannot be read from: usage %#x", i,
			    desc(i)[UCB_MR_DESC_USAGE]);
		if (!size)
			die("descriptor %u is empty", i);
		if (addr + size < addr)
			die("descriptor %u: address and length overflow", i);
		if (sum + size < sum || sum + size > INT64_MAX)
			die("descriptor %u: the sum of all lengths overflows", i);
		sum += size;
	}
	if (sum != peer.bytes)
		die("descriptors hold %" PRIu64 " bytes, the header says %" PRIu64, sum,
		    peer.bytes);
}

static void post_read(unsigned int slot, uint32_t i, uint64_t off, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)peer.sink + (size_t)slot * PIECE,
		.length = len,
		.lkey = peer.sink_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma.remote_addr = get64(desc(i) + UCB_MR_DESC_ADDR) + off,
		.wr.rdma.rkey = get32(desc(i) + UCB_MR_DESC_RKEY),
	}, *bad;

	errno = ibv_post_send(peer.id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send: %s", strerror(errno));
}

static void write_piece(unsigned int slot, const struct piece *p)
{
	const uint8_t *from = peer.sink + (size_t)slot * PIECE;
	uint32_t done = 0;
	ssize_t n;

	while (done < p->len) {
		n = pwrite(peer.fd, from + done, p->len - done, p->file_off + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("%s: %s", peer.part, strerror(errno));
		done += n;
	}
}

/* Every slot is one READ in flight; all start out free. */
static void read_all(void)
{
	unsigned int free_slots[DEPTH_MAX], nr_free = peer.depth, slot;
	struct piece pieces[DEPTH_MAX];
	uint64_t done = 0, posted = 0, off = 0, left;
	uint32_t i = 0, len;

	for (slot = 0; slot < peer.depth; slot++)
		free_slots[slot] = slot;
	while (done < peer.bytes) {
		while (nr_free && posted < peer.bytes) {
			left = get64(desc(i) + UCB_MR_DESC_LENGTH) - off;
			len = left < PIECE ? left : PIECE;
			slot = free_slots[--nr_free];
			pieces[slot] = (struct piece){ .file_off = posted, .len = len };
			post_read(slot, i, off, len);
			posted += len;
			off += len;
			if (len == left) {
				off = 0;
				i++;
			}
		}
		slot = wait_completion("RDMA READ");
		write_piece(slot, &pieces[slot]);
		done += pieces[slot].len;
		free_slots[nr_free++] = slot;
	}
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void open_part(void)
{
	char *name;

	if (asprintf(&name, "%s.part", peer.path) < 0)
		die("out of memory");
	/* another run's, perhaps under way, is not ours to remove */
	peer.fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (peer.fd < 0)
		die("%s: %s", name, strerror(errno));
	peer.part = name;
}

static void close_part(void)
{
	if (close(peer.fd))
		die("%s: %s", peer.part, strerror(errno));
	if (rename(peer.part, peer.path))
		die("%s: %s", peer.path, strerror(errno));
	peer.part = NULL;
}

static void disconnect_peer(void)
{
	if (rdma_disconnect(peer.id))
		die("rdma_disconnect: %s", strerror(errno));
	wait_event(RDMA_CM_EVENT_DISCONNECTED);
	rdma_destroy_qp(peer.id);
	ibv_dereg_mr(peer.table_mr);
	ibv_dereg_mr(peer.sink_mr);
	ibv_destroy_cq(peer.cq);
	ibv_destroy_comp_channel(peer.comp);
	ibv_dealloc_pd(peer.pd);
	rdma_destroy_id(peer.id);
	rdma_destroy_event_channel(peer.events);
	free(peer.table);
	free(peer.sink);
}

static void show_usage(void)
{
	fputs("usage: ucb_peer [-d READS] [-t SECONDS] ADDR PORT FILE\n", stderr);
	exit(2);
}

static long parse_number(const char *s, long min, long max)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(s, &end, 10);
	if (errno || end == s || *end || v < min || v > max) {
		fprintf(stderr, "ucb_peer: %s is not a number from %ld to %ld\n", s, min, max);
		show_usage();
	}
	return v;
}

int main(int argc, char **argv)
{
	double start, seconds;
	int c;

	while ((c = getopt(argc, argv, "d:t:")) != -1) {
		switch (c) {
		case 'd':
			peer.depth = parse_number(optarg, 1, DEPTH_MAX);
			break;
		case 't':
			peer.timeout_ms = parse_number(optarg, 1, 3600) * 1000;
			break;
		default:
			show_usage();
		}
	}
	if (argc - optind != 3)
		show_usage();
	peer.host = argv[optind];
	peer.port = argv[optind + 1];
	peer.path = argv[optind + 2];

	catch_signals();
	open_part();
	resolve();
	make_qp();
	connect_peer();
	check_table(wait_completion("table"));
	start = now();
	read_all();
	seconds = now() - start;
	close_part();
	disconnect_peer();
	printf("%" PRIu64 " bytes %.3f seconds %.1f MB/s from %u buffers\n", peer.bytes,
	       seconds, peer.bytes / 1e6 / (seconds > 0 ? seconds : 1), peer.count);
	return 0;
}
