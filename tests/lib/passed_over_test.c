/* SPDX-License-Identifier: MIT */
/* A plugin that a runner died of is skipped for a while, longer each time, and forgotten once it was tried again. */
#include "run/passed_over.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void an_empty_list_has_nothing_due(void **state)
{
	struct passed_over list = { 0 };

	(void)state;
	assert_false(passed_over_due(&list, UINT64_MAX));
	assert_true(passed_over_next_ns(&list, 0) == UINT64_MAX);
	assert_false(passed_over_drop(&list, UINT64_MAX));
	passed_over_clear(&list);
}

static void each_death_in_a_row_makes_the_pause_longer_up_to_five_minutes(void **state)
{
	struct passed_over list = { 0 };
	uint64_t last = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		uint64_t now = clock_ns(), pause;

		passed_over_add(&list, "a.so", false);
		pause = list.plugin[0].until_ns - now;
		assert_true(pause >= last || pause >= 300 * NS_PER_S);
		assert_true(pause < 301 * NS_PER_S);
		last = pause;
	}
	assert_int_equal(list.len, 1);
	assert_true(last >= 300 * NS_PER_S);
	passed_over_clear(&list);
}

static void a_plugin_that_hung_is_skipped_for_longer_than_one_that_killed(void **state)
{
	struct passed_over list = { 0 };

	(void)state;
	passed_over_add(&list, "dies.so", false);
	passed_over_add(&list, "hangs.so", true);
	assert_true(list.plugin[1].until_ns > list.plugin[0].until_ns + 50 * NS_PER_S);
	assert_true(passed_over_next_ns(&list, 0) == list.plugin[0].until_ns);
	assert_true(passed_over_next_ns(&list, list.plugin[0].until_ns) == list.plugin[1].until_ns);
	passed_over_clear(&list);
}

static void what_was_due_when_a_runner_started_leaves_the_list(void **state)
{
	struct passed_over list = { 0 };
	uint64_t first;

	(void)state;
	passed_over_add(&list, "dies.so", false);
	passed_over_add(&list, "hangs.so", true);
	first = list.plugin[0].until_ns;
	assert_false(passed_over_due(&list, first - 1));
	assert_true(passed_over_due(&list, first));
	assert_false(passed_over_drop(&list, first - 1));
	assert_true(passed_over_drop(&list, first));
	assert_int_equal(list.len, 1);
	assert_string_equal(list.plugin[0].file, "hangs.so");
	passed_over_clear(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_list_has_nothing_due),
		cmocka_unit_test(each_death_in_a_row_makes_the_pause_longer_up_to_five_minutes),
		cmocka_unit_test(a_plugin_that_hung_is_skipped_for_longer_than_one_that_killed),
		cmocka_unit_test(what_was_due_when_a_runner_started_leaves_the_list),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("passed_over", tests, NULL, NULL);
}
