/* SPDX-License-Identifier: MIT */
/* The table of job options (lib/store/enqueue/job_options.c) reads each member of struct deferred_opts. */
#include "store/enqueue/job_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The member of the option gets a value other than zero; nothing else does. */
static void give(const struct job_option *k, struct deferred_opts *o, struct deferred_more_opts *more)
{
	static const char *tags[] = { "t", NULL };
	static const struct deferred_after after = { .job = 7 };
	char *at = (k->more ? (char *)more : (char *)o) + k->at;

	*more = (struct deferred_more_opts){ 0 };
	*o = (struct deferred_opts){ .more = more };
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
		*(const char **)at = "text";
		break;
	case JOB_OPTION_NUMBER:
		*(int *)at = -7;
		break;
	case JOB_OPTION_FACTOR:
		*(double *)at = 1.5;
		break;
	case JOB_OPTION_DUPLICATE:
		o->on_duplicate = DEFERRED_DUPLICATE_REPLACE;
		o->key = "k";
		break;
	case JOB_OPTION_TAGS:
		o->tags = tags;
		break;
	case JOB_OPTION_AFTER:
		o->after = &after;
		o->after_len = 1;
		break;
	default:
		*(int64_t *)at = 7000000000;
	}
}

static void check_value(const struct job_option *k, const struct deferred_opts *o)
{
	switch (k->kind) {
	case JOB_OPTION_TEXT:
	case JOB_OPTION_TIME:
		assert_string_equal(job_option_text(k, o), "text");
		break;
	case JOB_OPTION_NUMBER:
		assert_int_equal(job_option_number(k, o), -7);
		break;
	case JOB_OPTION_FACTOR:
		assert_true(job_option_factor(k, o) == 1.5);
		break;
	case JOB_OPTION_DUPLICATE:
		assert_string_equal(job_option_text(k, o), "replace");
		break;
	case JOB_OPTION_TAGS:
	case JOB_OPTION_AFTER:
		break;
	default:
		assert_int_equal(job_option_number(k, o), 7000000000);
	}
}

static void each_option_is_read_from_a_member_of_its_own(void **state)
{
	(void)state;
	for (const struct job_option *k = job_options; k->name; k++) {
		struct deferred_more_opts more;
		struct deferred_opts o;

		give(k, &o, &more);
		assert_true(job_option_is_given(k, &o));
		check_value(k, &o);
		for (const struct job_option *other = job_options; other->name; other++)
			if (other != k && strcmp(other->name, "key") != 0)
				assert_false(job_option_is_given(other, &o));
	}
}

static void a_time_overrides_the_span_next_to_it(void **state)
{
	const struct deferred_opts o = { .delay_ms = 3, .expires_ms = 5 };

	(void)state;
	assert_int_equal(job_option_from_now(job_option_find("run_at"), &o), 3);
	assert_int_equal(job_option_from_now(job_option_find("expires_at"), &o), 5);
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
		cmocka_unit_test(each_option_is_read_from_a_member_of_its_own),
		cmocka_unit_test(a_time_overrides_the_span_next_to_it),
		cmocka_unit_test(what_is_zero_is_not_given),
		cmocka_unit_test(a_key_can_last_until_the_start),
		cmocka_unit_test(a_name_may_have_dashes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("job_options", tests, NULL, NULL);
}
