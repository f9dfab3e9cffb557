/* SPDX-License-Identifier: MIT */
#include "engine/pure/term.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS NS_PER_MS

static void a_lease_is_renewed_after_a_third_and_at_least_every_five_seconds(void **state)
{
	(void)state;
	assert_int_equal(term_renew_after_ns(3000), 1000 * MS);
	assert_int_equal(term_renew_after_ns(15000), 5000 * MS);
	assert_int_equal(term_renew_after_ns(60000), 5000 * MS);
}

static void a_claim_is_given_up_a_tenth_or_a_second_before_its_lease_ends(void **state)
{
	struct job job = { .lease_ns = 1000 * MS, .granted_ms = 60000 };

	(void)state;
	assert_int_equal(term_fence_after_ns(5000), 4500 * MS);
	assert_int_equal(term_fence_after_ns(60000), 59000 * MS);
	assert_false(term_is_over(&job, 60000 * MS - 1));
	assert_true(term_is_over(&job, 60000 * MS));
}

static void a_renewal_comes_before_the_fence(void **state)
{
	(void)state;
	for (int64_t ms = 1; ms < 1000000; ms = ms * 3 / 2 + 1)
		assert_true(term_renew_after_ns(ms) < term_fence_after_ns(ms));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_is_renewed_after_a_third_and_at_least_every_five_seconds),
		cmocka_unit_test(a_claim_is_given_up_a_tenth_or_a_second_before_its_lease_ends),
		cmocka_unit_test(a_renewal_comes_before_the_fence),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("term", tests, NULL, NULL);
}
