/* SPDX-License-Identifier: MIT */
/* Shares, and their differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/advice/proportion.h"

static bool near(double a, double b)
{
	return fabs(a - b) < 0.0005;
}

static void the_interval_is_that_of_newcombe(void **state)
{
	struct proportion_difference d;

	(void)state;
	/* 56 of 70 against 48 of 80, which his paper has (Statistics in Medicine 17, 873), is 0.0524 to 0.3339; with
	 * ten times as many it is this. */
	assert_true(proportion_difference((struct proportion){ 700, 560 }, (struct proportion){ 800, 480 }, &d));
	assert_true(near(d.more, 0.2) && near(d.low, 0.1543) && near(d.high, 0.2443));
	assert_true(proportion_difference((struct proportion){ 1000, 0 }, (struct proportion){ 1000, 0 }, &d));
	assert_true(near(d.more, 0) && d.low < 0 && d.low > -0.005 && near(d.low, -d.high));
	assert_true(proportion_difference((struct proportion){ 200, 200 }, (struct proportion){ 200, 0 }, &d));
	assert_true(near(d.more, 1) && d.low > 0.97 && near(d.high, 1));
}

static void of_few_nothing_is_said(void **state)
{
	struct proportion_difference d;

	(void)state;
	assert_false(proportion_difference((struct proportion){ PROPORTION_LEAST - 1, 3 },
					   (struct proportion){ 5000, 3 }, &d));
	assert_false(proportion_difference((struct proportion){ 5000, 3 }, (struct proportion){ 0, 0 }, &d));
}

static int draw(int of, double share, unsigned *seed)
{
	int n = 0;

	for (int i = 0; i < of; i++)
		n += rand_r(seed) / (RAND_MAX + 1.0) < share;
	return n;
}

static void it_holds_the_true_difference_in_19_of_20_cases(void **state)
{
	static const struct {
		int of[2];
		double share[2];
	} cases[] = { { { 200, 200 }, { 0.1, 0.1 } },
		      { { 1000, 300 }, { 0.02, 0.05 } },
		      { { 400, 3000 }, { 0.3, 0.01 } } };
	unsigned seed = 20261124;

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		double more = cases[c].share[0] - cases[c].share[1];
		int within = 0;

		for (int round = 0; round < 1000; round++) {
			struct proportion p[2];
			struct proportion_difference d;

			for (int i = 0; i < 2; i++)
				p[i] = (struct proportion){ cases[c].of[i],
							    draw(cases[c].of[i], cases[c].share[i], &seed) };
			assert_true(proportion_difference(p[0], p[1], &d));
			within += d.low <= more && more <= d.high;
		}
		printf("# %g of %d and %g of %d: in %d of 1000\n", cases[c].share[0], cases[c].of[0], cases[c].share[1],
		       cases[c].of[1], within);
		assert_in_range(within, 920, 985);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_interval_is_that_of_newcombe),
		cmocka_unit_test(of_few_nothing_is_said),
		cmocka_unit_test(it_holds_the_true_difference_in_19_of_20_cases),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("proportion", tests, NULL, NULL);
}
