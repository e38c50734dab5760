// SPDX-License-Identifier: GPL-2.0
/*
 * The 21-byte descriptor, both ways, and whatever else a peer may send.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/string.h>
#include <ucb/rdma.h>

#include "../drivers/compat.h"

#define MOST_BYTES	64

static unsigned int inputs = 250000;
module_param(inputs, uint, 0444);
MODULE_PARM_DESC(inputs, "random inputs to decode");

static ulong seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of the random inputs; 0 for one of its own");

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

	for (usage = 1; usage < 0xff; usage++) {
		struct ucb_mr_remote out = {};
		struct ucb_mr_remote in = {
			.addr = usage * 0x0101010101010101ULL,
			.size = U64_MAX - usage * 0x0101010101010101ULL,
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

/* What runs past the last address, or has no byte, is no memory. */
static void desc_refuses_wrap(struct kunit *test)
{
	static const struct {
		u64 addr;
		u64 size;
		int error;
	} rows[] = {
		{ 0, 0, -EINVAL },
		{ 0x1000, 0, -EINVAL },
		{ U64_MAX, 0, -EINVAL },
		{ 0, 1, 0 },
		{ 0, U64_MAX, 0 },
		{ 1, U64_MAX - 1, 0 },
		{ 1, U64_MAX, -EINVAL },
		{ U64_MAX, 1, -EINVAL },
		{ U64_MAX - 1, 1, 0 },
		{ U64_MAX - 1, 2, -EINVAL },
		{ U64_MAX, U64_MAX, -EINVAL },
		{ BIT_ULL(63), BIT_ULL(63), -EINVAL },
		{ BIT_ULL(63), BIT_ULL(63) - 1, 0 },
		{ U64_MAX - 0xfff, 0x1000, -EINVAL },
		{ U64_MAX - 0xfff, 0xfff, 0 },
	};
	struct ucb_mr_remote remote;
	u8 desc[UCB_MR_DESC_SIZE];
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		memcpy(desc, golden_bytes, sizeof(desc));
		put_unaligned_le64(rows[i].addr, desc + UCB_MR_DESC_ADDR);
		put_unaligned_le64(rows[i].size, desc + UCB_MR_DESC_LENGTH);
		remote = golden_remote;
		KUNIT_EXPECT_EQ_MSG(test, ucb_mr_remote_from_descriptor(desc, sizeof(desc),
									&remote),
				    rows[i].error, "row %d", i);
		KUNIT_EXPECT_EQ(test, remote.addr,
				rows[i].error ? golden_remote.addr : rows[i].addr);

		remote.addr = rows[i].addr;
		remote.size = rows[i].size;
		KUNIT_EXPECT_EQ_MSG(test, ucb_mr_remote_to_descriptor(&remote, desc),
				    rows[i].error, "row %d", i);
	}
}

/* Little-endian, byte by byte. */
static u64 number(const u8 *from, int bytes)
{
	u64 n = 0;

	while (bytes--)
		n = n << 8 | from[bytes];
	return n;
}

/* Is @remote what @in says, or as it was where that is to be refused? */
static bool decoded_right(const u8 *in, size_t size, int error, const struct ucb_mr_remote *remote)
{
	struct ucb_mr_remote want;

	if (size >= UCB_MR_DESC_SIZE) {
		want.addr = number(in, 8);
		want.size = number(in + 8, 8);
		want.rkey = number(in + 16, 4);
		want.usage = in[20];
	}
	if (size < UCB_MR_DESC_SIZE || !want.usage || !want.size ||
	    want.size > U64_MAX - want.addr) {
		want = golden_remote;
		if (error != -EINVAL)
			return false;
	} else if (error) {
		return false;
	}
	return remote->addr == want.addr && remote->size == want.size &&
	       remote->rkey == want.rkey && remote->usage == want.usage;
}

/* Of each length from 0, every one in memory that ends with it. */
static void desc_takes_any_bytes(struct kunit *test)
{
	u64 start_seed = seed ?: get_random_u64();
	struct ucb_mr_remote remote;
	unsigned int taken = 0;
	struct rnd_state rnd;
	u8 *in[MOST_BYTES + 1];
	unsigned int i;
	ktime_t start;
	size_t size;
	int error;

	for (size = 0; size <= MOST_BYTES; size++) {
		/* of no bytes: an address that is not to be read */
		in[size] = kunit_kmalloc(test, size ?: 1, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, in[size]);
	}
	in[0]++;

	prandom_seed_state(&rnd, start_seed);
	start = ktime_get();
	for (i = 0; i < inputs; i++) {
		size = i % ARRAY_SIZE(in);
		prandom_bytes_state(&rnd, in[size], size);
		/* a usage or the upper half of a length of 0 would be rare */
		if (size >= UCB_MR_DESC_SIZE && !(i % 16))
			in[size][UCB_MR_DESC_USAGE] = 0;
		if (size >= UCB_MR_DESC_SIZE && !(i % 3))
			memset(in[size] + UCB_MR_DESC_LENGTH + i % 5, 0, 8 - i % 5);
		remote = golden_remote;
		error = ucb_mr_remote_from_descriptor(in[size], size, &remote);
		if (!error)
			taken++;
		if (!decoded_right(in[size], size, error, &remote))
			KUNIT_FAIL_AND_ABORT(test, "seed %llu, input %u, %zu bytes: %d", start_seed,
					     i, size, error);
	}
	kunit_info(test, "seed %llu: %u of %u inputs taken, %llu ns each", start_seed, taken, i,
		   div_u64(ktime_to_ns(ktime_sub(ktime_get(), start)), max(i, 1U)));
	KUNIT_EXPECT_GT(test, taken, 0);
	KUNIT_EXPECT_LT(test, taken, i);
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
	KUNIT_CASE(desc_refuses_wrap),
	KUNIT_CASE_SLOW(desc_takes_any_bytes),
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
