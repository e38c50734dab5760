// SPDX-License-Identifier: GPL-2.0
/*
 * One test that passes and one that must fail: "make check" runs this apart
 * from the suites, to prove that its judge sees a failure.
 */
#include <kunit/test.h>
#include <linux/module.h>

static void selftest_passes(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, true);
}

static void selftest_must_fail(struct kunit *test)
{
	KUNIT_FAIL(test, "this failure is deliberate");
}

static struct kunit_case selftest_fail_cases[] = {
	KUNIT_CASE(selftest_passes),
	KUNIT_CASE(selftest_must_fail),
	{}
};

static struct kunit_suite selftest_fail_suite = {
	.name = "selftest_fail",
	.test_cases = selftest_fail_cases,
};

kunit_test_suite(selftest_fail_suite);

MODULE_DESCRIPTION("A KUnit suite that must fail");
MODULE_LICENSE("GPL");
