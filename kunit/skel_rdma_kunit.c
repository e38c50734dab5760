// SPDX-License-Identifier: GPL-2.0
/*
 * Step 3 of the tutorial. The peer is a queue pair on the driver's trust domain,
 * with another one at the far end.
 */
#include "../samples/skel_rdma.c"
#include "skel.h"
#include "rdma_peer.h"

/* What is written is read by the peer, and by nobody once the next has come. */
static void skel_peer_reads(struct kunit *test)
{
	struct usb_device *udev;
	struct file *file = skel_bind(test, &udev);
	struct skel *skel = file->private_data;
	u8 *out = skel_bytes(test), desc[UCB_MR_DESC_SIZE];
	struct ucb_mr_remote remote, stale = {};
	struct peer *peer;
	loff_t pos = 0;
	int i;

	peer = peer_create(test, ucb_pd_ib(skel->pd)->device, ucb_pd_ib(skel->pd),
			   SKEL_SIZE);
	for (i = 0; i < ARRAY_SIZE(skel_lengths); i++) {
		size_t len = skel_lengths[i];

		KUNIT_ASSERT_EQ(test, len, kernel_write(file, out, len, &pos));
		KUNIT_ASSERT_EQ(test, sizeof(desc),
				kernel_read(file, desc, sizeof(desc), &pos));
		KUNIT_ASSERT_EQ(test, 0,
				ucb_mr_remote_from_descriptor(desc, sizeof(desc), &remote));
		KUNIT_EXPECT_EQ(test, len, remote.size);
		KUNIT_EXPECT_EQ(test, UCB_MR_USAGE_READ_SRC, remote.usage);
		KUNIT_ASSERT_EQ(test, IB_WC_SUCCESS,
				peer_read(peer, remote.addr, remote.rkey, len));
		KUNIT_EXPECT_MEMEQ(test, peer->mem, out, len);
		if (stale.rkey) {
			KUNIT_EXPECT_EQ(test, IB_WC_REM_ACCESS_ERR,
					peer_read(peer, stale.addr, stale.rkey, 1));
			KUNIT_ASSERT_EQ(test, 0, peer_connect(peer));
		}
		stale = remote;
	}
}

static struct kunit_case skel_cases[] = {
	KUNIT_CASE(skel_peer_reads),
	KUNIT_CASE(skel_goes),
	{}
};

static struct kunit_suite skel_suite = {
	.name = "ucb_skel_rdma",
	.test_cases = skel_cases,
};

kunit_test_suites(&skel_suite);
