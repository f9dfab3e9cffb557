/* SPDX-License-Identifier: MIT */
/* Several statements in one round trip, against the server that DEFERRED_TEST_DB names. */
#include "port/pg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define LIMIT_MS 60000

static const struct sql_statement number = { "test_number", "select $1::int8" };
static const struct sql_statement ratio = { "test_ratio", "select 10 / $1::int8" };

static struct pg *pg;
static struct deferred_error err;
static char seen[256]; /* tag=value of each result, and the ends of transactions */

static int open_server(void **state)
{
	(void)state;
	seen[0] = '\0';
	error_clear(&err);
	return pg_open(&pg, getenv("DEFERRED_TEST_DB"), "pg_pipeline_test", &err);
}

static int close_server(void **state)
{
	(void)state;
	pg_close(pg);
	return 0;
}

static void note_result(void *data, int tag, const struct pg_result *res)
{
	size_t len = strlen(seen);

	(void)data;
	if (tag == PG_COMMITTED || tag == PG_FAILED)
		snprintf(seen + len, sizeof(seen) - len, tag == PG_COMMITTED ? "committed " : "failed ");
	else
		snprintf(seen + len, sizeof(seen) - len, "%d=%lld ", tag, (long long)pg_int(res, 0, 0));
}

static void add_statement(const struct sql_statement *stmt, int64_t v, int tag)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, v);
	assert_int_equal(pg_pipeline_add(pg, stmt, &args, tag, &err), 0);
	pg_args_clear(&args);
}

static void results_come_with_their_tags_in_order(void **state)
{
	(void)state;
	/* The second time they are prepared already. */
	for (int round = 0; round < 2; round++) {
		seen[0] = '\0';
		add_statement(&number, 7, 1);
		add_statement(&ratio, 5, 2);
		add_statement(&number, 8, 3);
		assert_int_equal(pg_pipeline_send(pg, &err), 0);
		assert_int_equal(pg_pipeline_wait(pg, note_result, NULL, LIMIT_MS, &err), 0);
		assert_string_equal(seen, "1=7 2=2 3=8 committed ");
	}
}

static void a_transaction_that_fails_does_not_stop_the_next_one(void **state)
{
	(void)state;
	add_statement(&number, 1, 1);
	add_statement(&ratio, 0, 2);
	add_statement(&number, 3, 3);
	assert_int_equal(pg_pipeline_commit(pg, &err), 0);
	add_statement(&number, 4, 4);
	assert_int_equal(pg_pipeline_send(pg, &err), 0);
	assert_int_equal(pg_pipeline_wait(pg, note_result, NULL, LIMIT_MS, &err), DEFERRED_EDB);
	assert_string_equal(seen, "1=1 failed 4=4 committed ");
	assert_string_equal(err.sqlstate, "22012");
	assert_false(pg_broken(pg));
}

static void the_error_of_a_commit_is_not_taken_for_that_of_the_next_statement(void **state)
{
	static const struct sql_statement twice = { "test_twice",
						    "insert into twice values ($1::int8), ($1) returning n" };

	(void)state;
	assert_int_equal(pg_command(pg, "create temp table twice (n int8 unique deferrable initially deferred)", &err),
			 0);
	add_statement(&twice, 7, 1);
	assert_int_equal(pg_pipeline_commit(pg, &err), 0);
	add_statement(&number, 4, 4);
	add_statement(&number, 5, 5);
	assert_int_equal(pg_pipeline_send(pg, &err), 0);
	assert_int_equal(pg_pipeline_wait(pg, note_result, NULL, LIMIT_MS, &err), DEFERRED_EDB);
	assert_string_equal(seen, "1=7 failed 4=4 5=5 committed ");
	assert_string_equal(err.sqlstate, "23505");
	assert_false(pg_broken(pg));
}

static void an_answer_that_does_not_come_breaks_the_connection(void **state)
{
	static const struct sql_statement slow = { "test_slow", "select pg_sleep($1::int8)" };

	(void)state;
	add_statement(&slow, 600, 1);
	assert_int_equal(pg_pipeline_send(pg, &err), 0);
	assert_int_equal(pg_pipeline_wait(pg, note_result, NULL, 1, &err), DEFERRED_ELOST);
	assert_true(pg_broken(pg));
	assert_string_equal(seen, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_server, close_server)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(results_come_with_their_tags_in_order),
		TEST(a_transaction_that_fails_does_not_stop_the_next_one),
		TEST(the_error_of_a_commit_is_not_taken_for_that_of_the_next_statement),
		TEST(an_answer_that_does_not_come_breaks_the_connection),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pg_pipeline", tests, NULL, NULL);
}
