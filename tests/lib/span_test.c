/* SPDX-License-Identifier: MIT */
#include "base/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A line of the list is the text, "|", and its milliseconds or "none"; tests/sql/test_defer.py reads it too. */
static void time_spans_are_read_as_in_sql(void **state)
{
	FILE *f = fopen("tests/lib/time_spans", "r");
	char line[128];
	int lines = 0;

	(void)state;
	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); lines++) {
		char *bar = strchr(line, '|');
		double ms = -1;
		bool none, read;

		if (line[0] == '#')
			continue;
		assert_non_null(bar);
		*bar = '\0';
		none = strcmp(bar + 2, "none\n") == 0;
		read = span_parse(line, &ms) && ms <= SPAN_MAX_MS;
		if (read == none || (read && (long long)(ms + 0.5) != atoll(bar + 2)))
			fail_msg("\"%s\" is%s not, but %.3f", line, bar + 1, ms);
	}
	fclose(f);
	assert_true(lines > 50);
}

static void a_bare_number_has_no_unit(void **state)
{
	double number;

	(void)state;
	assert_true(span_is_bare("5"));
	assert_true(span_is_bare("0.25"));
	assert_false(span_is_bare(""));
	assert_false(span_is_bare("5s"));
	assert_false(span_is_bare("5 "));
	assert_false(span_is_bare("-5"));
	assert_null(span_decimal("1234567890123", &number)); /* 13 digits */
	assert_string_equal(span_decimal("1.5h", &number), "h");
	assert_true(number > 1.49 && number < 1.51);
}

/* tests/sql/test_alert.py reads the list too. */
static void an_age_is_rounded_to_the_nearest_unit(void **state)
{
	FILE *f = fopen("tests/lib/ages", "r");
	char line[128], buf[SPAN_AGE_SIZE];
	int lines = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *bar = strchr(line, '|');

		if (!bar)
			continue;
		bar[strcspn(bar, "\n")] = '\0';
		assert_string_equal(span_age(buf, atoll(line)), bar + 1);
		lines++;
	}
	fclose(f);
	assert_true(lines > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_spans_are_read_as_in_sql),
		cmocka_unit_test(a_bare_number_has_no_unit),
		cmocka_unit_test(an_age_is_rounded_to_the_nearest_unit),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("span", tests, NULL, NULL);
}
