/* SPDX-License-Identifier: MIT */
/* Headers of an answer. */
#include "http/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void a_value_never_begins_a_header_of_its_own(void **state)
{
	struct arena arena = { 0 };
	struct reply reply;

	(void)state;
	reply_init(&reply, &arena);
	reply_header(&reply, "a", "b\r\nc: d\n\te\x7f");
	reply_header(&reply, "f", "g h");
	reply_header(&reply, "i", "");
	assert_int_equal(reply.headers_len, 3);
	assert_string_equal(reply.headers[0].value, "b  c: d  e ");
	assert_string_equal(reply.headers[1].value, "g h");
	assert_string_equal(reply.headers[2].value, "");
	arena_clear(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_value_never_begins_a_header_of_its_own) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
