/* SPDX-License-Identifier: MIT */
/* A function that crashed is remembered, and the oldest of too many is forgotten. */
#include "run/pool/crashes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

static void a_function_that_crashed_is_known(void **state)
{
	struct crashes crashes = { 0 };

	(void)state;
	assert_false(crashes_have(&crashes, "a"));
	crashes_add(&crashes, "a");
	assert_true(crashes_have(&crashes, "a"));
	assert_false(crashes_have(&crashes, "b"));
}

static void the_oldest_makes_room_for_a_new_one(void **state)
{
	struct crashes crashes = { 0 };
	char name[16];

	(void)state;
	for (int i = 0; i <= CRASHES_MAX; i++) {
		snprintf(name, sizeof(name), "fn%d", i);
		crashes_add(&crashes, name);
	}
	assert_false(crashes_have(&crashes, "fn0"));
	for (int i = 1; i <= CRASHES_MAX; i++) {
		snprintf(name, sizeof(name), "fn%d", i);
		assert_true(crashes_have(&crashes, name));
	}
}

static void a_further_crash_does_not_take_a_second_place(void **state)
{
	struct crashes crashes = { 0 };

	(void)state;
	crashes_add(&crashes, "a");
	for (int i = 0; i < CRASHES_MAX; i++)
		crashes_add(&crashes, "b");
	assert_true(crashes_have(&crashes, "a"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_function_that_crashed_is_known),
		cmocka_unit_test(the_oldest_makes_room_for_a_new_one),
		cmocka_unit_test(a_further_crash_does_not_take_a_second_place),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("crashes", tests, NULL, NULL);
}
