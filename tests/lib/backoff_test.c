/* SPDX-License-Identifier: MIT */
/* How long a polling loop sleeps: sequences, one row each. */
#include "base/backoff.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "deferred.h"

#define POLLS 24

/* 'e' is a poll that found nothing and sleeps for the next number of the list, 'h' one that found something. */
static const struct {
	const char *name;
	struct deferred_backoff b;
	const char *polls;
	int64_t sleeps_ms[POLLS];
} sequences[] = {
	{ "the defaults",
	  DEFERRED_BACKOFF_DEFAULTS,
	  "eeeeeeeeeheee",
	  { 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000, /* h */ 1000, 2000, 4000 } },
	{ "a hit at the start changes nothing", DEFERRED_BACKOFF_DEFAULTS, "hhehe", { 1000, 1000 } },
	{ "gradual decrease divides",
	  { 1000, 60000, 2, 1, 0 },
	  "eeeeeeehehhehhhhhhhe",
	  { 1000, 2000, 4000, 8000, 16000, 32000, 60000, /* h */ 30000, /* from 60000 hh */ 15000,
	    /* then to the floor */ 1000 } },
	{ "one hit for each empty poll keeps the level",
	  { 1000, 60000, 2, 1, 0 },
	  "eeehehehe",
	  { 1000, 2000, 4000, 4000, 4000, 4000 } },
	{ "any nonzero value asks for gradual decrease",
	  { 1000, 60000, 2, -1, 0 },
	  "eeehe",
	  { 1000, 2000, 4000, 4000 } },
	{ "never below the floor", { 700, 60000, 10, 1, 0 }, "ehhhhhe", { 700, 700 } },
	{ "the ceiling need not be a power", { 1000, 5000, 3, 0, 0 }, "eeeehe", { 1000, 3000, 5000, 5000, 1000 } },
	{ "down from a ceiling that is no power",
	  { 1000, 5000, 2, 1, 0 },
	  "eeeehehhhe",
	  { 1000, 2000, 4000, 5000, 2500, 1000 } },
	{ "exponent 1 stays at the floor", { 1000, 60000, 1, 0, 0 }, "eeehee", { 1000, 1000, 1000, 1000, 1000 } },
	{ "exponent 1, gradual", { 1000, 60000, 1, 1, 0 }, "eeehee", { 1000, 1000, 1000, 1000, 1000 } },
	{ "floor and ceiling the same", { 250, 250, 2, 1, 0 }, "eeehee", { 250, 250, 250, 250, 250 } },
	{ "a small exponent moves a short interval", { 1, 10, 1.5, 0, 0 }, "eeeeeeee", { 1, 1, 2, 3, 5, 7, 10, 10 } },
	{ "a huge exponent reaches the ceiling at once",
	  { 1, 86400000, 1e308, 0, 0 },
	  "eeehe",
	  { 1, 86400000, 86400000, 1 } },
	{ "a huge exponent, gradual, comes back at once", { 1, 86400000, 1e308, 1, 0 }, "eehe", { 1, 86400000, 1 } },
	{ "the longest ceiling does not overflow",
	  { 1, INT64_MAX, 1e300, 0, 0 },
	  "eeee",
	  { 1, INT64_MAX, INT64_MAX, INT64_MAX } },
	{ "the longest floor does not overflow",
	  { INT64_MAX, INT64_MAX, 2, 1, 0 },
	  "eehe",
	  { INT64_MAX, INT64_MAX, INT64_MAX } },
	{ "an interval below the floor begins at the floor", { 1000, 60000, 2, 0, 5 }, "ee", { 1000, 2000 } },
	{ "an interval above the ceiling begins at the ceiling",
	  { 1000, 60000, 2, 0, 1e9 },
	  "eehe",
	  { 60000, 60000, 1000 } },
};

static void intervals_are_those_of_the_rules(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		struct deferred_backoff b = sequences[i].b;
		size_t n = 0;

		assert_int_equal(deferred_backoff_check(&b, NULL), 0);
		for (const char *poll = sequences[i].polls; *poll; poll++) {
			int64_t ms;

			if (*poll == 'h') {
				deferred_backoff_hit(&b);
				continue;
			}
			ms = deferred_backoff_empty(&b);
			if (ms != sequences[i].sleeps_ms[n])
				fail_msg("%s: sleep %zu is %lld ms, not %lld", sequences[i].name, n, (long long)ms,
					 (long long)sequences[i].sleeps_ms[n]);
			n++;
		}
	}
}

static void a_million_empty_polls_stay_at_the_ceiling(void **state)
{
	struct deferred_backoff b = DEFERRED_BACKOFF_DEFAULTS;

	(void)state;
	for (int i = 0; i < 1000000; i++) {
		int64_t ms = deferred_backoff_empty(&b);

		assert_in_range(ms, 1000, 60000);
	}
	assert_int_equal(deferred_backoff_empty(&b), 60000);
}

static void settings_changed_on_the_way_bound_the_interval_reached(void **state)
{
	struct deferred_backoff b = DEFERRED_BACKOFF_DEFAULTS;

	(void)state;
	for (int i = 0; i < 5; i++)
		deferred_backoff_empty(&b);
	b.interval_ceiling_ms = 5000; /* 32 s had been reached */
	assert_int_equal(deferred_backoff_empty(&b), 5000);
	b.interval_floor_ms = b.interval_ceiling_ms = 9000;
	assert_int_equal(deferred_backoff_empty(&b), 9000);
}

static void nonsense_is_refused_with_the_value_and_the_remedy(void **state)
{
	static const struct {
		struct deferred_backoff b;
		const char *message, *hint;
	} cases[] = {
		{ { 0, 60000, 2, 0, 0 }, "interval_floor is 0 ms", "1 ms or more" },
		{ { -1, 60000, 2, 0, 0 }, "interval_floor is -1 ms", "1 ms or more" },
		{ { INT64_MIN, INT64_MIN, 2, 0, 0 }, "interval_floor is -9223372036854775808 ms", "1 ms or more" },
		{ { 1000, 999, 2, 0, 0 },
		  "interval_ceiling is 999 ms: less than interval_floor, 1000 ms",
		  "raise interval_ceiling" },
		{ { 1000, -60000, 2, 0, 0 }, "interval_ceiling is -60000 ms", "raise interval_ceiling" },
		{ { 1000, 60000, 0.5, 0, 0 }, "exponent is 0.5", "from 1" },
		{ { 1000, 60000, 0, 0, 0 }, "exponent is 0", "from 1" },
		{ { 1000, 60000, -2, 0, 0 }, "exponent is -2", "from 1" },
		{ { 1000, 60000, NAN, 0, 0 }, "exponent is nan", "from 1" },
		{ { 1000, 60000, INFINITY, 0, 0 }, "exponent is inf", "from 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct deferred_error err;

		memset(&err, 'x', sizeof(err)); /* it need not be initialised */
		assert_int_equal(deferred_backoff_check(&cases[i].b, &err), DEFERRED_EINVAL);
		assert_int_equal(err.code, DEFERRED_EINVAL);
		assert_non_null(strstr(err.message, cases[i].message));
		assert_non_null(strstr(err.hint, cases[i].hint));
		assert_int_equal(deferred_backoff_check(&cases[i].b, NULL), DEFERRED_EINVAL);
	}
}

/* Who did not ask deferred_backoff_check() must not be made to spin, nor run into undefined behaviour. */
static void even_unchecked_nonsense_sleeps(void **state)
{
	static const int64_t ms[] = { INT64_MIN, -1, 0, 1, 1000, INT64_MAX };
	static const double reals[] = { -INFINITY, -1e308, -2, 0, 0.5, 1, 2, 1e308, INFINITY, NAN };

	(void)state;
	for (size_t f = 0; f < 6; f++)
		for (size_t c = 0; c < 6; c++)
			for (size_t e = 0; e < 10; e++)
				for (size_t i = 0; i < 10; i++)
					for (int gradual = 0; gradual < 2; gradual++) {
						struct deferred_backoff b = { ms[f], ms[c], reals[e], gradual,
									      reals[i] };

						for (int poll = 0; poll < 5; poll++) {
							assert_true(deferred_backoff_empty(&b) >= 1);
							if (poll & 1)
								deferred_backoff_hit(&b);
						}
					}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals_are_those_of_the_rules),
		cmocka_unit_test(a_million_empty_polls_stay_at_the_ceiling),
		cmocka_unit_test(settings_changed_on_the_way_bound_the_interval_reached),
		cmocka_unit_test(nonsense_is_refused_with_the_value_and_the_remedy),
		cmocka_unit_test(even_unchecked_nonsense_sleeps),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
