/* SPDX-License-Identifier: MIT */
/* The table of job options (lib/store/enqueue/job_options.c) reads each member of struct deferred_opts. */
#include "store/enqueue/job_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *tags[] = { "t", NULL };
static const struct deferred_after after = { .job = 7 };
static const struct deferred_more_opts more = { .key_until_ms = 15 };

/* A number of its own for each member that is one. */
static const struct deferred_opts all = {
	.label = "label",
	.priority = 2,
	.delay_ms = 3,
	.run_at = "run_at",
	.expires_ms = 5,
	.expires_at = "expires_at",
	.key = "key",
	.on_duplicate = DEFERRED_DUPLICATE_REPLACE,
	.max_attempts = 8,
	.timeout_ms = 9,
	.backoff_floor_ms = 10,
	.backoff_ceiling_ms = 11,
	.backoff_exponent = 12,
	.concurrency_key = "concurrency_key",
	.concurrency = 13,
	.tags = tags,
	.after = &after,
	.after_len = 1,
	.traceparent = "traceparent",
	.flow = 14,
	.more = &more,
};

static void each_option_is_read_from_its_member(void **state)
{
	int numbers = 0;

	(void)state;
	for (const struct job_option *k = job_options; k->name; k++) {
		assert_true(job_option_is_given(k, &all));
		switch (k->kind) {
		case JOB_OPTION_TEXT:
			assert_string_equal(job_option_text(k, &all), k->name);
			break;
		case JOB_OPTION_TIME:
			assert_string_equal(job_option_text(k, &all), k->name);
			assert_int_equal(job_option_from_now(k, &all), strcmp(k->name, "run_at") == 0 ? 3 : 5);
			break;
		case JOB_OPTION_DUPLICATE:
			assert_string_equal(job_option_text(k, &all), "replace");
			break;
		case JOB_OPTION_FACTOR:
			assert_true(job_option_factor(k, &all) == 12);
			break;
		case JOB_OPTION_TAGS:
		case JOB_OPTION_AFTER:
			break;
		default:
			numbers += (int)job_option_number(k, &all);
		}
	}
	assert_int_equal(numbers, 2 + 3 + 5 + 8 + 9 + 10 + 11 + 13 + 14 + 15);
}

static void what_is_zero_is_not_given(void **state)
{
	static const struct deferred_more_opts no_more;
	static const char *no_tags[] = { NULL };
	const struct deferred_opts none = { 0 }, empty = { .tags = no_tags, .more = &no_more };
	const struct deferred_opts no_key = { .on_duplicate = DEFERRED_DUPLICATE_ERROR };

	(void)state;
	for (const struct job_option *k = job_options; k->name; k++) {
		assert_false(job_option_is_given(k, &none));
		assert_false(job_option_is_given(k, &empty));
		assert_false(job_option_is_given(k, &no_key));
	}
}

static void a_key_can_last_until_the_start(void **state)
{
	const struct job_option *k = job_option_find("key_until");
	const struct deferred_more_opts start = { .key_until_ms = DEFERRED_KEY_UNTIL_START };
	const struct deferred_opts o = { .key = "k", .more = &start };

	(void)state;
	assert_true(job_option_is_given(k, &o));
	assert_int_equal(job_option_number(k, &o), 0);
}

static void a_name_may_have_dashes(void **state)
{
	(void)state;
	assert_string_equal(job_option_find("max-attempts")->name, "max_attempts");
	assert_string_equal(job_option_find("max_attempts")->name, "max_attempts");
	assert_null(job_option_find("max"));
	assert_null(job_option_find("max-attempts-"));
	assert_null(job_option_find("max attempts"));
	assert_null(job_option_find(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_option_is_read_from_its_member),
		cmocka_unit_test(what_is_zero_is_not_given),
		cmocka_unit_test(a_key_can_last_until_the_start),
		cmocka_unit_test(a_name_may_have_dashes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("job_options", tests, NULL, NULL);
}
