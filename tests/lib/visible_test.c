/* SPDX-License-Identifier: MIT */
/* What people see of text from others. */
#include "base/text/visible.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *shown(const char *text)
{
	static char all[256];
	char out[VISIBLE_MAX];

	for (all[0] = '\0'; *text; strcat(all, out))
		text += visible_char(text, out);
	return all;
}

static void text_stays_as_it_is(void **state)
{
	static const char text[] = "plain ~ \"\\ \xc2\xa0 \xc3\xa9 \xd8\x9b \xe2\x80\x8d \xe2\x82\xac \xef\xbf\xbd "
				   "\xf0\x9f\x8e\x89 \xf4\x8f\xbf\xbf";

	(void)state;
	assert_string_equal(shown(text), text);
}

static void what_acts_on_a_terminal_is_escaped(void **state)
{
	(void)state;
	assert_string_equal(shown("a\nb\r\t\033[31m\x7f\x01"), "a\\nb\\x0d\\x09\\x1b[31m\\x7f\\x01");
	assert_string_equal(shown("\xc2\x80 \xc2\x85 \xc2\x9b \xc2\x9f"), "\\u0080 \\u0085 \\u009b \\u009f");
}

static void what_changes_the_order_of_what_is_read_or_cannot_be_seen_is_escaped(void **state)
{
	static const uint32_t marks[] = { 0xad,   0x61c,  0x200b, 0x200e, 0x200f, 0x2028, 0x2029,
					  0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2060, 0x2063,
					  0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0xfeff };
	static const uint32_t others[] = { 0xa0,   0xac,   0xae,   0x61b,  0x61d,  0x200a, 0x200c,
					   0x200d, 0x2010, 0x2027, 0x202f, 0x205f, 0x2070, 0xfefe };
	char text[4] = "", want[8];

	(void)state;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]) + sizeof(others) / sizeof(others[0]); i++) {
		uint32_t c =
			i < sizeof(marks) / sizeof(marks[0]) ? marks[i] : others[i - sizeof(marks) / sizeof(marks[0])];

		if (c < 0x800)
			snprintf(text, sizeof(text), "%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 0x3f)));
		else
			snprintf(text, sizeof(text), "%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 0x3f)),
				 (int)(0x80 | (c & 0x3f)));
		snprintf(want, sizeof(want), "\\u%04x", (unsigned int)c);
		assert_string_equal(shown(text), i < sizeof(marks) / sizeof(marks[0]) ? want : text);
	}
}

static void bytes_that_are_no_utf_8_are_escaped_one_by_one(void **state)
{
	(void)state;
	assert_string_equal(shown("\xff\xfe \x80 \x9b"), "\\xff\\xfe \\x80 \\x9b");
	assert_string_equal(shown("\xc3"), "\\xc3");
	assert_string_equal(shown("\xc3("), "\\xc3(");
	assert_string_equal(shown("\xe2\x82"), "\\xe2\\x82");
	assert_string_equal(shown("\xf0\x9f\x8e"), "\\xf0\\x9f\\x8e");
	assert_string_equal(shown("\xc0\x9b \xc1\xbf \xe0\x82\x9b"),
			    "\\xc0\\x9b \\xc1\\xbf \\xe0\\x82\\x9b"); /* longer than need be */
	assert_string_equal(shown("\xed\xa0\x80 \xf4\x90\x80\x80 \xf8\x88\x80\x80\x80"),
			    "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xf8\\x88\\x80\\x80\\x80");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_stays_as_it_is),
		cmocka_unit_test(what_acts_on_a_terminal_is_escaped),
		cmocka_unit_test(what_changes_the_order_of_what_is_read_or_cannot_be_seen_is_escaped),
		cmocka_unit_test(bytes_that_are_no_utf_8_are_escaped_one_by_one),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("visible", tests, NULL, NULL);
}
