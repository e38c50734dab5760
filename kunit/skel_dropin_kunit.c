// SPDX-License-Identifier: GPL-2.0
/*
 * Step 1 of the tutorial.
 */
#include "../samples/skel_dropin.c"
#include "skel.h"

static struct kunit_case skel_cases[] = {
	KUNIT_CASE(skel_echoes),
	KUNIT_CASE(skel_goes),
	{}
};

static struct kunit_suite skel_suite = {
	.name = "ucb_skel_dropin",
	.test_cases = skel_cases,
};

kunit_test_suites(&skel_suite);
