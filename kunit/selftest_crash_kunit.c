// SPDX-License-Identifier: GPL-2.0
/*
 * A test that writes through a bad pointer: "make check" runs this apart from
 * the suites, to prove that it sees a guest that dies.
 */
#include <kunit/test.h>
#include <linux/module.h>

static int *nowhere;

static void selftest_must_crash(struct kunit *test)
{
	int *bad = READ_ONCE(nowhere);

	WRITE_ONCE(*bad, 1);
	KUNIT_FAIL(test, "the write through a bad pointer went unnoticed");
}

static struct kunit_case selftest_crash_cases[] = {
	KUNIT_CASE(selftest_must_crash),
	{}
};

static struct kunit_suite selftest_crash_suite = {
	.name = "selftest_crash",
	.test_cases = selftest_crash_cases,
};

kunit_test_suite(selftest_crash_suite);

MODULE_DESCRIPTION("A KUnit suite that must crash");
MODULE_LICENSE("GPL");
