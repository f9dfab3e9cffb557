/* SPDX-License-Identifier: MIT */
/* Each kind of parameter reaches the server that DEFERRED_TEST_DB names as it was given. */
#include "port/pg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct pg *pg;
static struct pg_args args;
static struct deferred_error err;

static int open_server(void **state)
{
	(void)state;
	return pg_open(&pg, getenv("DEFERRED_TEST_DB"), "pg_args_test", &err);
}

static int close_server(void **state)
{
	(void)state;
	pg_close(pg);
	return 0;
}

static int fresh(void **state)
{
	(void)state;
	pg_args_init(&args);
	return 0;
}

/* The server's text of what the statement makes of the parameters. */
static void expect_text(const char *sql, const char *text)
{
	struct sql_statement stmt = { "", sql };
	struct pg_result *res = NULL;

	pg_set_unnamed(pg);
	error_clear(&err);
	if (pg_exec(pg, &stmt, &args, PG_TEXT, &res, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(pg_null(res, 0, 0) ? "NULL" : pg_text(res, 0, 0, NULL), text);
	pg_result_free(res);
	pg_args_clear(&args);
}

static void numbers(void **state)
{
	(void)state;
	pg_arg_int4(&args, INT32_MIN);
	pg_arg_int8(&args, INT64_MIN);
	pg_arg_float8(&args, -0.1);
	expect_text("select concat_ws(' ', $1, $2, $3)", "-2147483648 -9223372036854775808 -0.1");
	pg_arg_id(&args, 7);
	pg_arg_id(&args, 0);
	expect_text("select concat($1::int8, ' ', $2::int8 is null)", "7 t");
}

static void times(void **state)
{
	(void)state;
	pg_arg_timestamptz(&args, 1000000);
	pg_arg_timestamptz(&args, INT64_MIN);
	expect_text("select extract(epoch from $1)::int8 || ' ' || $2::text", "946684801 -infinity");
	pg_arg_interval_array(&args, (const int64_t[]){ 1500000, -1 }, 2);
	expect_text("select extract(epoch from ($1::interval[])[1]) || ' ' || extract(epoch from ($1::interval[])[2])",
		    "1.500000 -0.000001");
}

static void texts(void **state)
{
	(void)state;
	pg_arg_text(&args, "a'b\\");
	pg_arg_text(&args, NULL);
	pg_arg_json(&args, "{\"a\": 1} and more", 8);
	pg_arg_bytea(&args, "\0\377", 2);
	pg_arg_null(&args);
	expect_text("select concat_ws(',', $1, $2 is null, $3::text, encode($4, 'hex'), $5::text is null)",
		    "a'b\\,t,{\"a\": 1},00ff,t");
}

static void arrays(void **state)
{
	const bool nulls[] = { false, true, false };

	(void)state;
	pg_arg_int4_array(&args, (const int32_t[]){ 1, 2, -3 }, nulls, 3);
	pg_arg_int8_array(&args, (const int64_t[]){ 1, 2, INT64_MAX }, nulls, 3);
	pg_arg_float8_array(&args, (const double[]){ 1, 2, 0.5 }, nulls, 3);
	expect_text("select concat_ws(' ', $1, $2, $3)", "{1,NULL,-3} {1,NULL,9223372036854775807} {1,NULL,0.5}");
	pg_arg_text_array(&args, (const char *const[]){ "a,b", NULL, "" }, NULL, 3);
	pg_arg_json_array(&args, (const char *const[]){ "1xx" }, (const size_t[]){ 1 }, 1);
	expect_text("select concat_ws(' ', $1, $2)", "{\"a,b\",NULL,\"\"} {1}");
	pg_arg_tid_array(&args, (const int64_t[]){ (int64_t)70000 << 16 | 9 }, 1);
	expect_text("select $1::text", "{\"(70000,9)\"}");
}

static void an_array_may_be_empty_or_null(void **state)
{
	(void)state;
	pg_arg_int4_array(&args, (const int32_t[]){ 1 }, NULL, 0);
	pg_arg_text_array(&args, (const char *const[]){ "a" }, NULL, 0);
	pg_arg_int8_array(&args, NULL, NULL, 0);
	pg_arg_text_array(&args, NULL, NULL, 0);
	expect_text("select concat_ws(' ', $1, $2, $3 is null, $4 is null)", "{} {} t t");
}

static void one_parameter_too_many_is_an_error_and_not_a_wild_write(void **state)
{
	struct sql_statement stmt = { "", "select 1" };
	struct pg_result *res;

	(void)state;
	for (int i = 0; i < 40; i++)
		pg_arg_int4(&args, i);
	error_clear(&err);
	assert_int_equal(pg_exec(pg, &stmt, &args, PG_TEXT, &res, &err), DEFERRED_ENOMEM);
	pg_args_clear(&args);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(numbers, fresh),
		cmocka_unit_test_setup(times, fresh),
		cmocka_unit_test_setup(texts, fresh),
		cmocka_unit_test_setup(arrays, fresh),
		cmocka_unit_test_setup(an_array_may_be_empty_or_null, fresh),
		cmocka_unit_test_setup(one_parameter_too_many_is_an_error_and_not_a_wild_write, fresh),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pg_args", tests, open_server, close_server);
}
