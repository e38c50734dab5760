// SPDX-License-Identifier: GPL-2.0
/*
 * ucb_usbtest NODE: run the cases of the kernel's usbtest driver on the device
 * with this node under /dev/bus/usb, and print them as KTAP.
 * ucb_usbtest NODE CASE ITERATIONS LENGTH VARY SGLEN [ROUNDS]: run one case so
 * many times, or until it fails; print how often it passed and why it ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/usbdevice_fs.h>

/* what usbtest.c takes; the kernel has no header for it */
struct request {
	unsigned int test_num, iterations, length, vary, sglen;
	long long duration_sec, duration_usec;
};

#define USBTEST_REQUEST	_IOWR('U', 100, struct request)

/* all that a SourceSink gadget without isochronous endpoints can do */
static const struct {
	const char *name;
	struct request request;
} cases[] = {
	{ "bulk_write", { 1, 100, 1024, 0, 0, 0, 0 } },
	{ "bulk_read", { 2, 100, 1024, 0, 0, 0, 0 } },
	{ "bulk_write_large", { 1, 20, 65536, 0, 0, 0, 0 } },
	{ "bulk_read_large", { 2, 20, 65536, 0, 0, 0, 0 } },
	{ "bulk_write_varied", { 3, 100, 4096, 421, 0, 0, 0 } },
	{ "bulk_read_varied", { 4, 100, 4096, 1024, 0, 0, 0 } },
	/* once: the driver uses its timer again after destroying it */
	{ "scattered_write", { 5, 1, 1024, 0, 16, 0, 0 } },
	{ "scattered_read", { 6, 1, 1024, 0, 16, 0, 0 } },
	{ "control_chapter_9", { 9, 5, 0, 0, 0, 0, 0 } },
	{ "control_queued", { 10, 10, 0, 0, 8, 0, 0 } },
	{ "unlink_read", { 11, 20, 4096, 0, 0, 0, 0 } },
	{ "unlink_write", { 12, 20, 4096, 0, 0, 0, 0 } },
	{ "halt", { 13, 5, 0, 0, 0, 0, 0 } },
	{ "control_write", { 14, 50, 512, 61, 0, 0, 0 } },
	{ "write_odd_address", { 17, 50, 1024, 0, 0, 0, 0 } },
	{ "read_odd_address", { 18, 50, 1024, 0, 0, 0, 0 } },
	{ "write_odd_coherent", { 19, 50, 1024, 0, 0, 0, 0 } },
	{ "read_odd_coherent", { 20, 50, 1024, 0, 0, 0, 0 } },
	{ "control_write_odd", { 21, 50, 512, 61, 0, 0, 0 } },
	{ "unlink_queued_writes", { 24, 5, 1024, 0, 32, 0, 0 } },
	{ "queued_writes", { 27, 10, 4096, 0, 32, 0, 0 } },
	{ "queued_reads", { 28, 10, 4096, 0, 32, 0, 0 } },
	{ "clear_toggle", { 29, 10, 1024, 0, 0, 0, 0 } },
};

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

static int run(int fd, struct request request)
{
	struct usbdevfs_ioctl ioc = {
		.ifno = 0,
		.ioctl_code = (int)USBTEST_REQUEST,
		.data = &request,
	};

	return ioctl(fd, USBDEVFS_IOCTL, &ioc) < 0 ? errno : 0;
}

static int run_all(int fd)
{
	unsigned int i, failed = 0;

	printf("KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: usbtest\n    1..%zu\n",
	       ARRAY_SIZE(cases));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		int error = run(fd, cases[i].request);

		if (error) {
			printf("    # %s: case %u: %s\n", cases[i].name,
			       cases[i].request.test_num, strerror(error));
			failed++;
		}
		printf("    %s %u %s\n", error ? "not ok" : "ok", i + 1,
		       cases[i].name);
		fflush(stdout);
	}
	printf("%s 1 usbtest\n", failed ? "not ok" : "ok");
	return failed ? 1 : 0;
}

static int repeat(int fd, char **argv, unsigned long limit)
{
	struct request request = {
		.test_num = atoi(argv[0]),
		.iterations = atoi(argv[1]),
		.length = atoi(argv[2]),
		.vary = atoi(argv[3]),
		.sglen = atoi(argv[4]),
	};
	unsigned long rounds = 0;
	int error = 0;

	while ((!limit || rounds < limit) && !(error = run(fd, request)))
		rounds++;
	printf("case %u: %lu rounds, then %s\n", request.test_num, rounds,
	       strerror(error));
	return rounds && rounds >= limit ? 0 : 1;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc != 2 && argc != 7 && argc != 8) {
		fputs("usage: ucb_usbtest NODE [CASE ITERATIONS LENGTH VARY SGLEN [ROUNDS]]\n",
		      stderr);
		return 2;
	}
	fd = open(argv[1], O_RDWR);
	if (fd < 0) {
		fprintf(stderr, "ucb_usbtest: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	if (argc == 2)
		return run_all(fd);
	return repeat(fd, argv + 2, argc == 8 ? strtoul(argv[7], NULL, 0) : 0);
}
