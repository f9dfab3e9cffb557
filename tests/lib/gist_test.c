/* SPDX-License-Identifier: MIT */
/* What of an error text stands in the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/gist.h"

static void an_error_is_told_by_the_line_that_says_what_it_is(void **state)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ "no such file", "no such file" },
		{ "no such file\n", "no such file" },
		{ "\n\n", "" },
		{ "connecting\nrefused by example.org\n", "refused by example.org" },
		{ "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: "
		  "\xc3\xbc is no number",
		  "ValueError: \xc3\xbc is no number" },
		{ "Traceback (most recent call last):\n", "Traceback (most recent call last):" },
		{ "/x.js:1\nthrow new Error(\"boom\")\n^\n\nError: boom\n    at Object.<anonymous> (/x.js:1:7)\n    at "
		  "Module._compile\n\nNode.js v20.19.0\n",
		  "Error: boom" },
		{ "Exception in thread \"main\" java.lang.A: b\n\tat Main.main(Main.java:3)\nCaused by: java.lang.C: "
		  "d\n\tat Main.f(Main.java:9)\n\t... 1 more\n",
		  "Caused by: java.lang.C: d" },
		{ "PHP Fatal error:  Uncaught Exception: boom in /x.php:1\nStack trace:\n#0 {main}\n  thrown in /x.php "
		  "on line 1",
		  "PHP Fatal error:  Uncaught Exception: boom in /x.php:1" },
		{ "thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` to see a "
		  "backtrace",
		  "boom" },
		{ "cannot send\r\nhint: set mail { server }\r\n", "cannot send" },
		{ "refused\n-------\n]}\n", "refused" },
		{ "starting\n[ERROR] refused\n", "[ERROR] refused" },
		{ "  indented\n  alone", "  indented" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char line[128];
		int len = -1;
		const char *found = gist(cases[i][0], &len);

		snprintf(line, sizeof(line), "%.*s", len, found);
		assert_string_equal(line, cases[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_is_told_by_the_line_that_says_what_it_is),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("gist", tests, NULL, NULL);
}
