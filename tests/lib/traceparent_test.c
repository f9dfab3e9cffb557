/* SPDX-License-Identifier: MIT */
/* Only what W3C Trace Context calls one is a trace context. */
#include "base/traceparent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void well_formed_ones_are_taken(void **state)
{
	(void)state;
	assert_true(traceparent_valid(TRACEPARENT_FORM));
	assert_true(traceparent_valid("fe-00000000000000000000000000000001-0000000000000001-ff"));
}

static void others_are_not(void **state)
{
	static const char *const wrong[] = {
		"",
		"00",
		"x",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319cab7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\xc3",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(traceparent_valid(wrong[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(well_formed_ones_are_taken),
					    cmocka_unit_test(others_are_not) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("traceparent", tests, NULL, NULL);
}
