/* SPDX-License-Identifier: MIT */
/* When a failed job is due again. */
#include "base/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void delays_grow_by_the_exponent_up_to_the_ceiling(void **state)
{
	static const struct {
		int64_t floor_ms, ceiling_ms;
		double exponent;
		int failures;
		int64_t delay_ms;
	} cases[] = {
		{ 10000, 3600000, 2, 1, 10000 },
		{ 10000, 3600000, 2, 2, 20000 },
		{ 10000, 3600000, 2, 3, 40000 },
		{ 10000, 3600000, 2, 9, 2560000 },
		{ 10000, 3600000, 2, 10, 3600000 },
		{ 10000, 3600000, 2, 2147483647, 3600000 },
		{ 10000, 3600000, 2, 0, 10000 },
		{ 10000, 3600000, 2, -5, 10000 },
		{ 10000, 3600000, 1, 2147483647, 10000 },
		{ 1000, 3600000, 1.5, 3, 2250 },
		{ 1, 31536000000, 100, 5, 100000000 },
		{ 1, 31536000000, 100, 7, 31536000000 },
		{ 60000, 10000, 2, 1, 10000 },                 /* a ceiling below the floor wins */
		{ 1, 1, 100, 1000000, 1 },
		{ 1, INT64_MAX, 100, 1000000, 3155760000000 }, /* at most a hundred years */
		{ INT64_MAX, INT64_MAX, 2, 1, 3155760000000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct retry_policy policy = { cases[i].floor_ms, cases[i].ceiling_ms, cases[i].exponent };

		assert_int_equal(retry_delay_ms(&policy, cases[i].failures), cases[i].delay_ms);
	}
}

static void the_last_fifth_of_a_delay_is_random(void **state)
{
	int64_t least = INT64_MAX, most = 0;

	(void)state;
	for (uint64_t random = 0; random < 5000; random++) {
		int64_t delay = retry_jitter_ms(10000, random * 0x9e3779b97f4a7c15u);

		assert_in_range(delay, 8000, 10000);
		least = delay < least ? delay : least;
		most = delay > most ? delay : most;
	}
	assert_true(least < 8020 && most > 9980);
}

static void a_short_delay_is_left_alone_and_never_zero(void **state)
{
	(void)state;
	assert_int_equal(retry_jitter_ms(4, UINT64_MAX), 4);
	assert_int_equal(retry_jitter_ms(1, 12345), 1);
	assert_int_equal(retry_jitter_ms(0, 12345), 1);
	assert_true(retry_jitter_ms(INT64_MAX, UINT64_MAX) > INT64_MAX / 5 * 4 - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_grow_by_the_exponent_up_to_the_ceiling),
		cmocka_unit_test(the_last_fifth_of_a_delay_is_random),
		cmocka_unit_test(a_short_delay_is_left_alone_and_never_zero),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
