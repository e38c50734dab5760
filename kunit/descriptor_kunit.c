// SPDX-License-Identifier: GPL-2.0
/*
 * The 21-byte descriptor, both ways.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/module.h>
#include <linux/string.h>
#include <ucb/rdma.h>

static const struct ucb_mr_remote golden_remote = {
	.addr = 0x1122334455667788ULL,
	.size = 0x99aabbccddeeff01ULL,
	.rkey = 0xdeadbe42,
	.usage = UCB_MR_USAGE_READ_SRC | UCB_MR_USAGE_WRITE_DST,
};

static const u8 golden_bytes[UCB_MR_DESC_SIZE] = {
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
	0x01, 0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99,
	0x42, 0xbe, 0xad, 0xde,
	0x09,
};

static void desc_encodes_golden_bytes(struct kunit *test)
{
	u8 out[UCB_MR_DESC_SIZE + 2];

	memset(out, 0x5a, sizeof(out));
	/* at an odd address, and not a byte further */
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_to_descriptor(&golden_remote, out + 1), 0);
	KUNIT_EXPECT_MEMEQ(test, out + 1, golden_bytes, UCB_MR_DESC_SIZE);
	KUNIT_EXPECT_EQ(test, out[0], 0x5a);
	KUNIT_EXPECT_EQ(test, out[UCB_MR_DESC_SIZE + 1], 0x5a);
}

static void desc_decodes_golden_bytes(struct kunit *test)
{
	struct ucb_mr_remote remote = {};
	u8 in[UCB_MR_DESC_SIZE + 1];

	memcpy(in + 1, golden_bytes, UCB_MR_DESC_SIZE);
	KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(in + 1,
							    UCB_MR_DESC_SIZE,
							    &remote), 0);
	KUNIT_EXPECT_EQ(test, remote.addr, golden_remote.addr);
	KUNIT_EXPECT_EQ(test, remote.size, golden_remote.size);
	KUNIT_EXPECT_EQ(test, remote.rkey, golden_remote.rkey);
	KUNIT_EXPECT_EQ(test, remote.usage, golden_remote.usage);
}

static void desc_round_trip(struct kunit *test)
{
	u8 desc[UCB_MR_DESC_SIZE];
	unsigned int usage;

	for (usage = 1; usage <= 0xff; usage++) {
		struct ucb_mr_remote out = {};
		struct ucb_mr_remote in = {
			.addr = usage * 0x0101010101010101ULL,
			.size = ~0ULL - usage,
			.rkey = usage << 24 | usage,
			.usage = usage,
		};

		KUNIT_ASSERT_EQ(test, ucb_mr_remote_to_descriptor(&in, desc), 0);
		KUNIT_ASSERT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
								    &out), 0);
		KUNIT_EXPECT_EQ(test, out.addr, in.addr);
		KUNIT_EXPECT_EQ(test, out.size, in.size);
		KUNIT_EXPECT_EQ(test, out.rkey, in.rkey);
		KUNIT_EXPECT_EQ(test, out.usage, in.usage);
	}
}

static void desc_takes_longer_refuses_shorter(struct kunit *test)
{
	struct ucb_mr_remote remote = { .rkey = 7 };
	u8 in[UCB_MR_DESC_SIZE + 24];
	size_t size;

	memset(in, 0xff, sizeof(in));
	memcpy(in, golden_bytes, UCB_MR_DESC_SIZE);

	for (size = 0; size < UCB_MR_DESC_SIZE; size++)
		KUNIT_EXPECT_EQ(test, ucb_mr_remote_from_descriptor(in, size,
								    &remote),
				-EINVAL);
	/* refused: left as it was */
	KUNIT_EXPECT_EQ(test, remote.rkey, 7);
	KUNIT_EXPECT_EQ(test, remote.usage, 0);

	for (; size <= sizeof(in); size++)
		KUNIT_EXPECT_EQ(test, ucb_mr_remote_from_descriptor(in, size,
								    &remote), 0);
	KUNIT_EXPECT_EQ(test, remote.rkey, golden_remote.rkey);
}

static void desc_refuses_no_usage(struct kunit *test)
{
	struct ucb_mr_remote remote = golden_remote;
	u8 desc[UCB_MR_DESC_SIZE];

	memcpy(desc, golden_bytes, sizeof(desc));
	desc[UCB_MR_DESC_USAGE] = 0;
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
							    &remote), -EINVAL);
	KUNIT_EXPECT_EQ(test, remote.usage, golden_remote.usage);

	remote.usage = 0;
	memset(desc, 0x5a, sizeof(desc));
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_to_descriptor(&remote, desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, desc[0], 0x5a);
}

static void desc_refuses_null(struct kunit *test)
{
	struct ucb_mr_remote remote = golden_remote;
	u8 desc[UCB_MR_DESC_SIZE] = {};

	KUNIT_EXPECT_EQ(test, ucb_mr_remote_from_descriptor(NULL, 21, &remote),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_from_descriptor(golden_bytes, 21, NULL),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_to_descriptor(NULL, desc), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_remote_to_descriptor(&remote, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ucb_mr_get_descriptor(NULL, desc), -EINVAL);
}

static struct kunit_case desc_cases[] = {
	KUNIT_CASE(desc_encodes_golden_bytes),
	KUNIT_CASE(desc_decodes_golden_bytes),
	KUNIT_CASE(desc_round_trip),
	KUNIT_CASE(desc_takes_longer_refuses_shorter),
	KUNIT_CASE(desc_refuses_no_usage),
	KUNIT_CASE(desc_refuses_null),
	{}
};

static struct kunit_suite desc_suite = {
	.name = "ucb_descriptor",
	.test_cases = desc_cases,
};

kunit_test_suite(desc_suite);

MODULE_DESCRIPTION("KUnit tests of the memory descriptor");
MODULE_LICENSE("GPL");
