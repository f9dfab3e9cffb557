/* SPDX-License-Identifier: MIT */
/* Buckets, and what is told from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"

static void bounds_are_those_of_the_database(void **state)
{
	(void)state;
	assert_int_equal(histogram_bound_us(0), 10);
	assert_int_equal(histogram_bound_us(1), 12);
	assert_int_equal(histogram_bound_us(4), 25);
	assert_int_equal(histogram_bound_us(5), 31);
	assert_int_equal(histogram_bound_us(20), 1000);
	assert_int_equal(histogram_bound_us(110), 1000000000000);
	assert_true(histogram_bound_us(111) == INT64_MAX);
	for (int b = 1; b < HISTOGRAM_BUCKETS; b++)
		assert_true(histogram_bound_us(b) > histogram_bound_us(b - 1));
}

static void what_the_database_has_is_read_and_what_it_cannot_have_is_refused(void **state)
{
	static const char *const wrong[] = { "", "{", "{{1,2}", "{{1}}", "{{1,2},}", "{{112,1}}", "{{-1,1}}", "{{1,-2}}", "{{1,2}}x", "{}x", "{{1,99999999999999999999}}", "{{,}}" };
	struct histogram h = { { 0 } };

	(void)state;
	assert_true(histogram_add_text(&h, "{}"));
	assert_true(histogram_add_text(&h, "{{0,3},{111,1}}"));
	assert_true(histogram_add_text(&h, "{{0,2}}"));
	assert_int_equal(h.n[0], 5);
	assert_int_equal(histogram_count(&h), 6);
	assert_int_equal(histogram_up_to(&h, 9), 0);
	assert_int_equal(histogram_up_to(&h, 10), 5);
	assert_int_equal(histogram_up_to(&h, INT64_MAX), 5);
	histogram_add(&h, &h);
	assert_int_equal(histogram_count(&h), 12);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct histogram none = { { 0 } };

		assert_false(histogram_add_text(&none, wrong[i]));
	}
}

static void quantiles_lie_between_the_bounds(void **state)
{
	struct histogram h = { { 0 } };

	(void)state;
	assert_int_equal(histogram_quantile_us(&h, 0.5), -1);
	h.n[20] = 50;  /* up to 1 ms */
	h.n[40] = 50;  /* up to 100 ms */
	assert_int_equal(histogram_quantile_us(&h, 0.5), 1000);
	assert_int_equal(histogram_quantile_us(&h, 1), 100000);
	assert_int_equal(histogram_quantile_us(&h, 0), 800);
	assert_int_equal(histogram_quantile_us(&h, 0.75), 89443); /* half way by the logarithm from 80 to 100 ms */
	h.n[111] = 1000;
	assert_true(histogram_quantile_us(&h, 0.9) == 1000000000000);
	memset(&h, 0, sizeof(h));
	h.n[0] = 1;
	assert_in_range(histogram_quantile_us(&h, 0.5), 1, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_are_those_of_the_database),
		cmocka_unit_test(what_the_database_has_is_read_and_what_it_cannot_have_is_refused),
		cmocka_unit_test(quantiles_lie_between_the_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
