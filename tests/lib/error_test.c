/* SPDX-License-Identifier: MIT */
/* Errors keep their first cause, take context in front, and are classed by sqlstate alone. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void the_first_cause_is_kept(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	assert_int_equal(error_set(&err, DEFERRED_EINVAL, "here", "queue '%s': bad", "q"), DEFERRED_EINVAL);
	assert_int_equal(error_set(&err, DEFERRED_EDB, "there", "later"), DEFERRED_EDB);
	error_hint(&err, "first");
	error_hint(&err, "second");
	assert_int_equal(err.code, DEFERRED_EINVAL);
	assert_string_equal(err.where, "here");
	assert_string_equal(err.message, "queue 'q': bad");
	assert_string_equal(err.hint, "first");
	assert_string_equal(err.sqlstate, "");
}

static void a_hint_follows_a_line_feed_of_the_format(void **state)
{
	struct deferred_error err = { 0 };
	char text[600];

	(void)state;
	error_set(&err, DEFERRED_EINVAL, NULL, "option '%s' is empty\nset it", "a\nb");
	assert_string_equal(err.message, "option 'a\nb' is empty");
	assert_string_equal(err.hint, "set it");
	error_clear(&err);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, DEFERRED_EINVAL, NULL, "%s\nset it", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_string_equal(err.hint, "set it");
	error_clear(&err);
	errno = ENOENT;
	error_errno(&err, DEFERRED_ESYSTEM, NULL, "cannot open '%s'\ncorrect the path", "f");
	assert_string_equal(err.message, "cannot open 'f': No such file or directory");
	assert_string_equal(err.hint, "correct the path");
	error_clear(&err);
	error_set(&err, DEFERRED_ENOMEM, NULL, "out of memory");
	assert_non_null(strstr(err.hint, "free memory"));
}

static void context_goes_in_front(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	error_set(&err, DEFERRED_EDB, NULL, "cause");
	error_prefix(&err, "job %d", 7);
	error_prefix(&err, "run");
	assert_string_equal(err.message, "run: job 7: cause");
	assert_int_equal(err.code, DEFERRED_EDB);
}

static void long_texts_are_cut_and_stay_terminated(void **state)
{
	struct deferred_error err = { 0 };
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, DEFERRED_EDB, text, "%s", text);
	error_hint(&err, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	assert_int_equal(strlen(err.where), sizeof(err.where) - 1);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
	error_prefix(&err, "context");
	assert_int_equal(strncmp(err.message, "context: xxx", 12), 0);
	assert_true(strlen(err.message) < sizeof(err.message));
	error_prefix(&err, "%s", text); /* no room for it: the cause is worth more */
	assert_int_equal(strncmp(err.message, "context: xxx", 12), 0);
}

static void a_cut_leaves_no_half_character(void **state)
{
	struct deferred_error err = { 0 };
	char text[2000] = "x";

	(void)state;
	for (size_t i = 1; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 3);
	/* 511 and 255 bytes are room for an odd number: x and whole characters; with one more in front the last is
	 * torn. */
	error_set(&err, DEFERRED_EDB, NULL, "x%s", text);
	error_hint(&err, "x%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 2);
	assert_int_equal(strlen(err.hint), sizeof(err.hint) - 2);
	assert_int_equal((unsigned char)err.message[strlen(err.message) - 1], 0xa4);
	error_prefix(&err, "y");
	assert_int_equal((unsigned char)err.message[strlen(err.message) - 1], 0xa4);
	error_clear(&err);
	error_set(&err, DEFERRED_EDB, NULL, "name '%.4s' and '\xe9' and '\xf0\x9f\x98\x80'", text);
	assert_string_equal(err.message, "name 'x\xc3\xa4?' and '?' and '\xf0\x9f\x98\x80'");
}

static void errno_becomes_the_end_of_the_message(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	errno = ENOENT;
	assert_int_equal(error_errno(&err, DEFERRED_ESYSTEM, "open", "file '%s'", "x"), DEFERRED_ESYSTEM);
	assert_string_equal(err.message, "file 'x': No such file or directory");
}

static void nobody_has_to_pass_an_error(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, DEFERRED_EDB, "x", "y"), DEFERRED_EDB);
	assert_int_equal(error_errno(NULL, DEFERRED_EDB, "x", "y"), DEFERRED_EDB);
	error_hint(NULL, "x");
	error_prefix(NULL, "x");
	error_clear(NULL);
}

static void sqlstate_decides_the_class(void **state)
{
	static const struct {
		const char *sqlstate;
		enum error_class class;
	} cases[] = {
		{ "08006", ERROR_CONNECTION }, { "57P01", ERROR_CONNECTION },
		{ "57P03", ERROR_CONNECTION }, { "25006", ERROR_READ_ONLY },
		{ "26000", ERROR_PREPARED },   { "42P05", ERROR_PREPARED },
		{ "40001", ERROR_TRANSIENT },  { "40P01", ERROR_TRANSIENT },
		{ "53100", ERROR_TRANSIENT },  { "53300", ERROR_TRANSIENT },
		{ "55P03", ERROR_TRANSIENT },  { "57014", ERROR_TRANSIENT },
		{ "53400", ERROR_PERMANENT },
		{ "3F000", ERROR_SCHEMA },     { "42P01", ERROR_SCHEMA },
		{ "42703", ERROR_SCHEMA },     { "42883", ERROR_SCHEMA },
		{ "23505", ERROR_PERMANENT },  { "22P02", ERROR_PERMANENT },
		{ "42501", ERROR_PERMANENT },  { "25P02", ERROR_PERMANENT },
		{ "", ERROR_PERMANENT },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(error_class(cases[i].sqlstate), cases[i].class);
}

static void words_of_the_server_become_the_cause(void **state)
{
	static const struct {
		const char *sqlstate, *says, *hint;
	} cases[] = {
		{ "22007", "a time is not valid (raw)", "write a time" },
		{ "23505", "another transaction", "again" },
		{ "25006", "the server is read-only (raw)", "primary" },
		{ "3F000", "the schema of the database", "migrate" },
		{ "40P01", "the transaction conflicts", "again" },
		{ "42501", "the role lacks a right (raw)", "" },
		{ "42P01", "the schema of the database", "migrate" },
		{ "53100", "the disk of the server", "free" },
		{ "53200", "the server is out of memory (raw)", "free" },
		{ "55P03", "another transaction holds", "wait" },
		{ "57014", "the statement was cancelled (raw)", "statement_timeout" },
		{ "22021", "a text is not valid in the encoding of the database (raw)", "UTF-8" },
		{ "22012", "raw", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct deferred_error err = { 0 };

		error_set(&err, DEFERRED_EDB, "x", "raw");
		snprintf(err.sqlstate, sizeof(err.sqlstate), "%s", cases[i].sqlstate);
		error_explain(&err);
		assert_ptr_equal(strstr(err.message, cases[i].says), err.message);
		assert_non_null(strstr(err.hint, cases[i].hint));
		assert_int_equal(err.hint[0] == '\0', cases[i].hint[0] == '\0');
		error_hint(&err, "better");
		assert_string_equal(err.hint, "better");
		error_hint(&err, "too late");
		assert_string_equal(err.hint, "better");
		error_explain_as(&err, "rule '%s' is wrong", "r");
		assert_string_equal(err.message, "rule 'r' is wrong (raw)");
		assert_string_equal(err.hint, "");
	}
	error_explain(NULL);
	error_explain_as(NULL, "x");
}

static void each_code_has_its_number_and_text(void **state)
{
	(void)state;
	/* These numbers are in programs out there. */
	assert_int_equal(DEFERRED_EINVAL, -1);
	assert_int_equal(DEFERRED_EDB, -3);
	assert_int_equal(DEFERRED_ELOST, -5);
	assert_int_equal(DEFERRED_ESYSTEM, -12);
	assert_string_equal(deferred_strerror(0), "success");
	assert_string_equal(deferred_strerror(DEFERRED_ELOST), "connection lost, outcome unknown");
	assert_string_equal(deferred_strerror(-99), "unknown error");
	assert_string_equal(deferred_version(), DEFERRED_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_cause_is_kept),
		cmocka_unit_test(a_hint_follows_a_line_feed_of_the_format),
		cmocka_unit_test(context_goes_in_front),
		cmocka_unit_test(long_texts_are_cut_and_stay_terminated),
		cmocka_unit_test(a_cut_leaves_no_half_character),
		cmocka_unit_test(errno_becomes_the_end_of_the_message),
		cmocka_unit_test(nobody_has_to_pass_an_error),
		cmocka_unit_test(sqlstate_decides_the_class),
		cmocka_unit_test(words_of_the_server_become_the_cause),
		cmocka_unit_test(each_code_has_its_number_and_text),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
