/* SPDX-License-Identifier: MIT */
/* Buckets, and what is told from them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/advice/histogram.h"

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

static void one_is_counted_at_the_first_bound_that_it_does_not_pass(void **state)
{
	struct histogram h = { { 0 } };

	(void)state;
	for (int b = 0; b < HISTOGRAM_BUCKETS - 1; b++) {
		int64_t bound = histogram_bound_us(b);

		histogram_count_us(&h, bound);
		histogram_count_us(&h, bound + 1); /* the next bucket's */
	}
	histogram_count_us(&h, 0);
	histogram_count_us(&h, INT64_MAX);
	for (int b = 0; b < HISTOGRAM_BUCKETS; b++)
		assert_int_equal(h.n[b], 2);
}

static void what_the_database_has_is_read_and_what_it_cannot_have_is_refused(void **state)
{
	static const char *const wrong[] = { "",
					     "{",
					     "{{1,2}",
					     "{{1}}",
					     "{{1,2},}",
					     "{{112,1}}",
					     "{{-1,1}}",
					     "{{1,-2}}",
					     "{{1,2}}x",
					     "{}x",
					     "{{1,99999999999999999999}}",
					     "{{,}}" };
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
	h.n[20] = 50; /* up to 1 ms */
	h.n[40] = 50; /* up to 100 ms */
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

/* Of pairs of histograms that are drawn from one distribution, or from two of which one is half as long again: how
 * often the true ratio lies within. */
static void the_interval_of_a_ratio_of_medians_holds_the_true_one_in_19_of_20_cases(void **state)
{
	static const struct {
		int n[2];
		double times;
	} cases[] = { { { 200, 200 }, 1 }, { { 1000, 250 }, 1 }, { { 400, 3000 }, 1.5 } };
	struct histogram h[2] = { { { 0 } } };
	struct histogram_ratio ratio;
	unsigned seed = 20261123;

	(void)state;
	assert_false(histogram_ratio(&h[0], &h[1], &ratio));
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		int within = 0;

		for (int round = 0; round < 1000; round++) {
			memset(h, 0, sizeof(h));
			for (int i = 0; i < 2; i++)
				for (int n = 0; n < cases[c].n[i]; n++) {
					double us = -log(1 - rand_r(&seed) / (RAND_MAX + 1.0)) * 50000 *
						    (i == 0 ? cases[c].times : 1);
					int b = 0;

					while ((double)histogram_bound_us(b) < us)
						b++;
					h[i].n[b]++;
				}
			assert_true(histogram_ratio(&h[0], &h[1], &ratio));
			assert_true(ratio.low <= ratio.times && ratio.times <= ratio.high && ratio.low > 0);
			within += ratio.low <= cases[c].times && cases[c].times <= ratio.high;
		}
		printf("# %d and %d attempts: in %d of 1000\n", cases[c].n[0], cases[c].n[1], within);
		assert_in_range(within, 920, 985);
	}
	h[1].n[HISTOGRAM_BUCKETS - 1] = 1000000; /* the median of what is beyond all bounds is the last of them */
	assert_true(histogram_ratio(&h[0], &h[1], &ratio) && ratio.times < 1e-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_are_those_of_the_database),
		cmocka_unit_test(one_is_counted_at_the_first_bound_that_it_does_not_pass),
		cmocka_unit_test(what_the_database_has_is_read_and_what_it_cannot_have_is_refused),
		cmocka_unit_test(quantiles_lie_between_the_bounds),
		cmocka_unit_test(the_interval_of_a_ratio_of_medians_holds_the_true_one_in_19_of_20_cases),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
