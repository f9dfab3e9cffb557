/* SPDX-License-Identifier: MIT */
/* JSON is checked before it is sent, and UTF-8 is found out to the byte. */
#include "port/params.h"
#include "base/text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEXT(s) \
	{ \
		s, sizeof(s) - 1 \
	}

static void valid_texts_are_taken(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} good[] = {
		TEXT("{}"),
		TEXT("[]"),
		TEXT("null"),
		TEXT("0"),
		TEXT("\"\""),
		TEXT(" { \"a\" : [ 1 , 2 ] } \n"),
		TEXT("{\"a\":1,\"a\":2}"),    /* duplicate keys */
		TEXT("18446744073709551615"), /* 2^64-1 */
		TEXT("[1e400, -1e400, 123456789012345678901234567890]"),
		TEXT("{\"a\": -1E+999, \"1e400 \\\" 12345678901234567890\": -123456789012345678901234567890.5e-99, "
		     "\"c\": [1e400]}"),
		TEXT("1.10"),
		TEXT("-0"),
		TEXT("1E5"),
		TEXT("\"\\u0000\""), /* NUL as an escape is the function's business */
		TEXT("\"\\ud83d\\ude00\""),
		TEXT("\"\xf0\x9f\x98\x80 h\xc3\xa9\""),
		TEXT("\"[[[[ \\\" ]]] {\""),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct deferred_error err = { 0 };

		if (params_check(good[i].text, good[i].len, &err) < 0)
			fail_msg("%s: %s", good[i].text, err.message);
	}
}

static void invalid_texts_are_refused(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} bad[] = {
		TEXT(""),
		TEXT(" "),
		TEXT("{"),
		TEXT("{}}"),
		TEXT("{} {}"),
		TEXT("nul"),
		TEXT("NaN"),
		TEXT("Infinity"),
		TEXT("'a'"),
		TEXT("{a:1}"),
		TEXT("[1,]"),
		TEXT("01"),
		TEXT("1."),
		TEXT(".5"),
		TEXT("+1"),
		TEXT("0x10"),
		TEXT("// c\n1"),
		/* Behind a number the parser has no room for. */
		TEXT("[1e400"),
		TEXT("[1e400, x]"),
		TEXT("[1e400] x"),
		TEXT("123456789012345678901234567890 1"),
		TEXT("[1e400, 1e]"),
		TEXT("[1e400, 012345678901234567890]"),
		TEXT("[1e400, --12345678901234567890]"),
		TEXT("[1e400, 1-12345678901234567890]"),
		TEXT("[1e400, +12345678901234567890]"),
		TEXT("[1e400, 1.]"),
		TEXT("[1e400, \"\xff\"]"),
		TEXT("[1e400, 1e5.5]"),
		TEXT("[1e400, 1 12345678901234567890]"),
		TEXT("[1e400, .12345678901234567890]"),
		TEXT("[1e400, x12345678901234567890]"),
		TEXT("\"a\nb\""), /* control character */
		TEXT("\"a\0b\""),
		TEXT("1\0"),
		TEXT("\0"), /* NUL */
		TEXT("\"\\ud800\""),
		TEXT("\"\\udc00\\ud800\""), /* lone surrogates, escaped */
		TEXT("\"\xed\xa0\x80\""),   /* and as bytes */
		TEXT("\"\xff\""),
		TEXT("\"\xc0\x80\""),
		TEXT("\"\xf5\x80\x80\x80\""),
		TEXT("\"\xc3\""),
		TEXT("\"\\x41\""),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct deferred_error err = { 0 };

		if (params_check(bad[i].text, bad[i].len, &err) == 0)
			fail_msg("case %zu is taken: %s", i, bad[i].text);
		assert_int_equal(err.code, DEFERRED_EINVAL);
		assert_int_equal(strncmp(err.message, "invalid JSON: ", 14), 0);
	}
}

static void what_was_read_is_quoted(void **state)
{
	/* The end of it, from no place within a character, and only what can be shown. */
	static const struct {
		const char *text, *told;
	} told[] = {
		{ "{\"n\": ]", "column 7, after '{\"n\": ]': " },
		{ "", "column 0, after '': " },
		{ "[\"h\xc3\xa9 2345678901234567890123456789012345\", x",
		  ", after ' 2345678901234567890123456789012345\", x': " },
		{ "\"a\tb\"", ", after '\"a': " },
		{ "[1,\n\t2,\n\t]", "line 3 column 2, after '[1,  2,  ]': " },
		{ "\"ab\xff\"", ", after '\"ab" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct deferred_error err = { 0 };

		params_check(told[i].text, strlen(told[i].text), &err);
		if (!strstr(err.message, told[i].told) || utf8_prefix(err.message, 999) != strlen(err.message))
			fail_msg("case %zu: %s", i, err.message);
		assert_string_equal(err.hint, "pass one JSON value, such as {\"id\": 17}");
	}
}

static void members_are_found(void **state)
{
	static const char text[] = "{\"key\": \"k\\u00f6ln\", \"n\": 1e999, \"one\": 30000000000017, \"list\": [17, "
				   "18], \"named\": [{\"as\": \"x\", \"job\": 19}], \"none\": []} ";
	struct params_object *object = params_read(text, strlen(text));

	(void)state;
	assert_non_null(object);
	assert_string_equal(params_text(object, "key"), "k\u00f6ln");
	assert_null(params_text(object, "n"));
	assert_null(params_text(object, "missing"));
	assert_int_equal(params_job(object, "one"), 30000000000017);
	assert_int_equal(params_job(object, "list"), 17);
	assert_int_equal(params_job(object, "named"), 19);
	assert_int_equal(params_job(object, "none"), 0);
	assert_int_equal(params_job(object, "key"), 0);
	params_free(object);
}

static void the_text_need_not_end_in_nul(void **state)
{
	(void)state;
	assert_int_equal(params_check("{}garbage", 2, NULL), 0);
}

static int check_nested(int depth, const char *open, const char *close)
{
	size_t each = strlen(open), len = (size_t)depth * (each + 1) + 1;
	char *text = malloc(len + 1), *p = text;
	int rc;

	for (int i = 0; i < depth; i++, p += each)
		memcpy(p, open, each);
	*p++ = '1';
	for (int i = 0; i < depth; i++)
		*p++ = *close;
	rc = params_check(text, (size_t)(p - text), NULL);
	free(text);
	return rc;
}

static void nesting_is_limited_before_anything_recurses(void **state)
{
	(void)state;
	assert_int_equal(check_nested(100, "[", "]"), 0);
	assert_int_equal(check_nested(PARAMS_MAX_DEPTH, "[", "]"), 0);
	assert_int_equal(check_nested(PARAMS_MAX_DEPTH, "{\"a\":", "}"), 0);
	assert_int_equal(check_nested(PARAMS_MAX_DEPTH + 1, "[", "]"), DEFERRED_EINVAL);
	assert_int_equal(check_nested(PARAMS_MAX_DEPTH + 1, "{\"a\":", "}"), DEFERRED_EINVAL);
	assert_int_equal(check_nested(1000000, "[", "]"), DEFERRED_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_texts_are_taken),
		cmocka_unit_test(invalid_texts_are_refused),
		cmocka_unit_test(what_was_read_is_quoted),
		cmocka_unit_test(members_are_found),
		cmocka_unit_test(the_text_need_not_end_in_nul),
		cmocka_unit_test(nesting_is_limited_before_anything_recurses),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("params", tests, NULL, NULL);
}
