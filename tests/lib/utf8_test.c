/* SPDX-License-Identifier: MIT */
#include "base/text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void the_valid_prefix_ends_before_the_first_wrong_byte(void **state)
{
	static const struct {
		const char *text;
		size_t len, prefix;
	} cases[] = {
		{ "", 0, 0 },
		{ "abc", 3, 3 },
		{ "a\0b", 3, 1 },
		{ "h\xc3\xa9", 3, 3 },
		{ "h\xc3", 2, 1 },
		{ "\xc3(", 2, 0 },
		{ "a\x80", 2, 1 },
		{ "a\xc0\x80", 3, 1 },
		{ "a\xc1\xbf", 3, 1 },
		{ "\xe0\xa0\x80", 3, 3 },
		{ "\xe0\x9f\xbf", 3, 0 },
		{ "\xed\x9f\xbf", 3, 3 },
		{ "\xed\xa0\x80", 3, 0 },
		{ "\xef\xbf\xbf", 3, 3 },
		{ "\xf0\x90\x80\x80", 4, 4 },
		{ "\xf0\x8f\xbf\xbf", 4, 0 },
		{ "\xf4\x8f\xbf\xbf", 4, 4 },
		{ "\xf4\x90\x80\x80", 4, 0 },
		{ "\xf5\x80\x80\x80", 4, 0 },
		{ "ab\xf0\x9f\x98", 5, 2 },
		{ "ab\xf0\x9f\x98\x80", 6, 6 },
		{ "a\xff", 2, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(utf8_prefix(cases[i].text, cases[i].len), cases[i].prefix);
}

static void a_character_has_its_number(void **state)
{
	static const struct {
		const char *text;
		size_t len;
		uint32_t c;
	} cases[] = {
		{ "a", 1, 'a' },
		{ "\xc3\xa9", 2, 0xe9 },
		{ "\xe2\x82\xac", 3, 0x20ac },
		{ "\xf0\x9f\x98\x80", 4, 0x1f600 },
		{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
	};
	uint32_t c;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(utf8_char(cases[i].text, 4, &c), cases[i].len);
		assert_int_equal(c, cases[i].c);
		assert_int_equal(utf8_char(cases[i].text, cases[i].len - 1, &c), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_valid_prefix_ends_before_the_first_wrong_byte),
		cmocka_unit_test(a_character_has_its_number),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
