/* SPDX-License-Identifier: MIT */
#include "program/doctor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void each_check_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (const struct doctor_check *c = doctor_checks; c->name; c++)
		for (const struct doctor_check *other = doctor_checks; other != c; other++)
			assert_string_not_equal(other->name, c->name);
}

/* A failed check lets those that need more be skipped, so it has to come before them. */
static void what_others_need_is_checked_before_them(void **state)
{
	bool schema = false, connection = false;

	(void)state;
	assert_string_equal(doctor_checks[0].name, "config");
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		assert_true(c->needs < DOCTOR_SCHEMA || schema);
		assert_true(c->needs < DOCTOR_SERVER || connection);
		schema |= strcmp(c->name, "schema") == 0;
		connection |= strcmp(c->name, "connection") == 0;
	}
	assert_true(schema && connection);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_check_has_a_name_of_its_own),
		cmocka_unit_test(what_others_need_is_checked_before_them),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("doctor_checks", tests, NULL, NULL);
}
