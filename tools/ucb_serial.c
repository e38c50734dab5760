// SPDX-License-Identifier: GPL-2.0
/*
 * Both ends of a serial gadget in one machine: HOST is the tty of the host's
 * driver, GADGET the gadget's.
 *
 * ucb_serial carry FROM TO FILE OUT: send a file, write what arrives to OUT.
 * ucb_serial stream HOST GADGET: send without end, both ways; say "streaming"
 * when 64 KiB have arrived each way, and end when a tty is hung up, or on SIGTERM
 * once what was sent has arrived.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS	120000
#define ENOUGH		65536

/* what a hung up transfer left in the ttys comes first: look for this */
static const char magic[] = "ucb_serial: the file starts behind this line\n";

/* SIGTERM is blocked and looked at where it suits */
static bool told_to_end(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGTERM);
}

static int open_raw(const char *name)
{
	int fd = open(name, O_RDWR | O_NOCTTY | O_NONBLOCK);
	struct termios t;

	if (fd < 0 || tcgetattr(fd, &t))
		return -1;
	cfmakeraw(&t);
	if (tcsetattr(fd, TCSANOW, &t) || tcflush(fd, TCIOFLUSH))
		return -1;
	return fd;
}

/* 0 for "not now", -1 for the end of it */
static ssize_t get(int fd, void *buf, size_t size)
{
	ssize_t n = read(fd, buf, size);

	if (n > 0)
		return n;
	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static ssize_t put(int fd, const void *buf, size_t size)
{
	ssize_t n = write(fd, buf, size);

	return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : n;
}

static char *load(const char *name, size_t *size)
{
	size_t head = sizeof(magic) - 1, room = 1 << 20;
	FILE *file = fopen(name, "r");
	char *buf = malloc(head + room);

	if (!file || !buf)
		return NULL;
	memcpy(buf, magic, head);
	*size = head + fread(buf + head, 1, room, file);
	fclose(file);
	return buf;
}

static int carry(int from, int to, const char *name, const char *out)
{
	size_t size, sent = 0, got = 0, want = 0, room;
	char *buf, *arrived, *start = NULL;
	FILE *file;

	buf = load(name, &size);
	room = size + (1 << 20);
	arrived = malloc(room);
	if (!buf || !arrived)
		return -1;
	while (!start || got < want) {
		struct pollfd p[2] = {
			{ .fd = to, .events = POLLIN },
			{ .fd = from, .events = sent < size ? POLLOUT : 0 },
		};
		ssize_t n;

		if (got == room || poll(p, 2, PATIENCE_MS) <= 0)
			return -1;
		n = get(to, arrived + got, room - got);
		if (n < 0)
			return -1;
		got += n;
		n = put(from, buf + sent, size - sent);
		if (n < 0)
			return -1;
		sent += n;
		if (start)
			continue;
		start = memmem(arrived, got, magic, sizeof(magic) - 1);
		if (start)
			want = start - arrived + size;
	}
	file = fopen(out, "w");
	if (!file)
		return -1;
	start += sizeof(magic) - 1;
	size -= sizeof(magic) - 1;
	if (fwrite(start, 1, size, file) != size || fclose(file))
		return -1;
	return 0;
}

static bool drained(int fd)
{
	int left;

	return ioctl(fd, TIOCOUTQ, &left) || !left;
}

static int stream(int host, int gadget)
{
	static char zeros[4096], buf[4096];
	unsigned long long out = 0, in = 0;
	bool said = false;

	for (;;) {
		bool ending = told_to_end();
		struct pollfd p[2] = {
			{ .fd = host, .events = POLLIN | (ending ? 0 : POLLOUT) },
			{ .fd = gadget, .events = POLLIN | (ending ? 0 : POLLOUT) },
		};
		ssize_t to_gadget, to_host;

		if (ending && drained(host) && drained(gadget))
			break;
		if (poll(p, 2, ending ? 10 : 100) < 0 && errno != EINTR)
			return -1;
		to_gadget = get(gadget, buf, sizeof(buf));
		to_host = get(host, buf, sizeof(buf));
		if (to_gadget < 0 || to_host < 0)
			break;
		out += to_gadget;
		in += to_host;
		if (!ending && (put(host, zeros, sizeof(zeros)) < 0 ||
				put(gadget, zeros, sizeof(zeros)) < 0))
			break;
		if (!said && out >= ENOUGH && in >= ENOUGH) {
			said = true;
			puts("streaming");
			fflush(stdout);
		}
	}
	printf("%llu bytes out, %llu bytes in\n", out, in);
	return 0;
}

int main(int argc, char **argv)
{
	sigset_t term;
	int first, second, ret;

	if (!((argc == 6 && !strcmp(argv[1], "carry")) ||
	      (argc == 4 && !strcmp(argv[1], "stream")))) {
		fputs("usage: ucb_serial carry FROM TO FILE OUT | stream HOST GADGET\n",
		      stderr);
		return 2;
	}
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	first = open_raw(argv[2]);
	second = open_raw(argv[3]);
	if (first < 0 || second < 0) {
		fprintf(stderr, "ucb_serial: %s or %s: %s\n", argv[2], argv[3],
			strerror(errno));
		return 2;
	}
	if (argc == 6)
		ret = carry(first, second, argv[4], argv[5]);
	else
		ret = stream(first, second);
	if (ret)
		fprintf(stderr, "ucb_serial: %s: %s\n", argv[1], strerror(errno));
	return ret ? 1 : 0;
}
