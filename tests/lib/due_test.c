/* SPDX-License-Identifier: MIT */
#include "engine/pure/due.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void nothing_is_due_in_an_empty_table(void **state)
{
	struct due due;

	(void)state;
	due_clear(&due);
	assert_true(due_first_ns(&due) == UINT64_MAX);
	for (int reason = 0; reason < DUE_REASONS; reason++)
		assert_false(due_now(&due, (enum due_reason)reason, UINT64_MAX - 1));
}

static void the_first_of_all_reasons_ends_a_sleep(void **state)
{
	struct due due;

	(void)state;
	for (int reason = 0; reason < DUE_REASONS; reason++) {
		due_clear(&due);
		for (int other = 0; other < DUE_REASONS; other++)
			due_add(&due, (enum due_reason)other, true, 200);
		due_add(&due, (enum due_reason)reason, true, 100);
		assert_int_equal(due_first_ns(&due), 100);
		assert_false(due_now(&due, (enum due_reason)reason, 99));
		assert_true(due_now(&due, (enum due_reason)reason, 100));
	}
}

static void a_reason_that_does_not_hold_is_not_due(void **state)
{
	struct due due;

	(void)state;
	due_clear(&due);
	due_add(&due, DUE_RENEW, false, 0);
	assert_false(due_now(&due, DUE_RENEW, 1000));
	due_add(&due, DUE_RENEW, true, 0);
	assert_true(due_now(&due, DUE_RENEW, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_due_in_an_empty_table),
		cmocka_unit_test(the_first_of_all_reasons_ends_a_sleep),
		cmocka_unit_test(a_reason_that_does_not_hold_is_not_due),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("due", tests, NULL, NULL);
}
