/* SPDX-License-Identifier: MIT */
/* Columns of results are read the same in both formats, from the server that DEFERRED_TEST_DB names. */
#include "port/pg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static struct pg *pg;
static struct deferred_error err;

static int open_server(void **state)
{
	int rc = pg_open(&pg, getenv("DEFERRED_TEST_DB"), "pg_result_test", &err);

	(void)state;
	if (rc == 0)
		pg_set_unnamed(pg);
	return rc;
}

static int close_server(void **state)
{
	(void)state;
	pg_close(pg);
	return 0;
}

static struct pg_result *query(const char *sql, enum pg_format format)
{
	struct sql_statement stmt = { "", sql };
	struct pg_result *res = NULL;

	error_clear(&err);
	if (pg_exec(pg, &stmt, NULL, format, &res, &err) < 0)
		fail_msg("%s", err.message);
	return res;
}

static void numbers_flags_and_texts(void **state)
{
	static const enum pg_format formats[] = { PG_TEXT, PG_BINARY };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct pg_result *res = query("select -2::int2 as a, -70000::int4, -5000000000::int8, 0.25::float8, "
					      "true, false, 'text'::text union all select 0, 0, 0, 0, true, true, ''",
					      formats[i]);
		size_t len;

		assert_int_equal(pg_rows(res), 2);
		assert_int_equal(pg_column(res, "a"), 0);
		assert_int_equal(pg_column(res, "b"), -1);
		assert_int_equal(pg_int(res, 0, 0), -2);
		assert_int_equal(pg_int(res, 0, 1), -70000);
		assert_true(pg_int(res, 0, 2) == -5000000000);
		assert_true(pg_float(res, 0, 3) == 0.25);
		assert_true(pg_bool(res, 0, 4));
		assert_false(pg_bool(res, 0, 5));
		assert_string_equal(pg_text(res, 0, 6, &len), "text");
		assert_int_equal(len, 4);
		pg_result_free(res);
	}
}

static void null_is_zero_false_and_empty(void **state)
{
	static const enum pg_format formats[] = { PG_TEXT, PG_BINARY };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct pg_result *res =
			query("select null::int8, null::float8, null::bool, null::text, null::tid", formats[i]);

		for (int col = 0; col < 5; col++)
			assert_true(pg_null(res, 0, col));
		assert_int_equal(pg_int(res, 0, 0), 0);
		assert_true(pg_float(res, 0, 1) == 0);
		assert_false(pg_bool(res, 0, 2));
		assert_string_equal(pg_text(res, 0, 3, NULL), "");
		assert_int_equal(pg_tid(res, 0, 4), 0);
		pg_result_free(res);
	}
}

static void the_place_of_a_row(void **state)
{
	struct pg_result *res = query("select '(70000,9)'::tid", PG_BINARY);

	(void)state;
	assert_true(pg_tid(res, 0, 0) == ((int64_t)70000 << 16 | 9));
	pg_result_free(res);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_flags_and_texts),
		cmocka_unit_test(null_is_zero_false_and_empty),
		cmocka_unit_test(the_place_of_a_row),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pg_result", tests, open_server, close_server);
}
