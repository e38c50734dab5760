// SPDX-License-Identifier: GPL-2.0
/*
 * ucb_wait SECONDS DIR NAME: wait until DIR/NAME exists. For a device node that
 * the kernel makes when the hub has found a device; woken by inotify.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000L + ts.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	char path[PATH_MAX], events[4096];
	struct pollfd p = { .events = POLLIN };
	long end, left;

	if (argc != 4 || atoi(argv[1]) <= 0) {
		fputs("usage: ucb_wait SECONDS DIR NAME\n", stderr);
		return 2;
	}
	end = now_ms() + atoi(argv[1]) * 1000L;
	if (snprintf(path, sizeof(path), "%s/%s", argv[2], argv[3]) >= (int)sizeof(path)) {
		fputs("ucb_wait: path too long\n", stderr);
		return 2;
	}
	/* watch first, then look: what comes in between is an event */
	p.fd = inotify_init1(IN_NONBLOCK);
	if (p.fd < 0 || inotify_add_watch(p.fd, argv[2], IN_CREATE | IN_MOVED_TO) < 0) {
		fprintf(stderr, "ucb_wait: %s: %s\n", argv[2], strerror(errno));
		return 1;
	}
	while (access(path, F_OK)) {
		left = end - now_ms();
		if (left <= 0 || poll(&p, 1, left) == 0) {
			fprintf(stderr, "ucb_wait: no %s within %s s\n", path, argv[1]);
			return 1;
		}
		while (read(p.fd, events, sizeof(events)) > 0)
			;
	}
	return 0;
}
