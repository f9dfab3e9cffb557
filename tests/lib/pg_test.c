/* SPDX-License-Identifier: MIT */
/* Connections to the server that DEFERRED_TEST_DB names: what they say, and how they end. */
#include "port/pg.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

static struct deferred_error err;

static struct pg *open_server(void)
{
	struct pg *pg = NULL;

	error_clear(&err);
	if (pg_open(&pg, getenv("DEFERRED_TEST_DB"), "pg_test", &err) < 0)
		fail_msg("%s", err.message);
	return pg;
}

static void run_sql(struct pg *pg, const char *sql)
{
	if (pg_command(pg, sql, &err) < 0)
		fail_msg("%s", err.message);
}

static void a_connection_string_that_is_wrong_is_named(void **state)
{
	struct pg *pg;

	(void)state;
	error_clear(&err);
	assert_int_equal(pg_open(&pg, "no such thing", "pg_test", &err), DEFERRED_ECONNECT);
	assert_string_equal(err.where, PG_CONNINFO);
	assert_null(pg);
	pg_close(NULL);
}

static void a_name_that_cannot_be_looked_up_has_one_cause(void **state)
{
	struct rlimit before, none;
	struct pg *pg;
	int next = dup(STDERR_FILENO);

	(void)state;
	close(next);
	getrlimit(RLIMIT_NOFILE, &before);
	none = (struct rlimit){ (rlim_t)next, before.rlim_max };
	error_clear(&err);
	setrlimit(RLIMIT_NOFILE, &none);
	assert_int_equal(pg_open(&pg, "host=nowhere.invalid", "pg_test", &err), DEFERRED_ECONNECT);
	setrlimit(RLIMIT_NOFILE, &before);
	assert_string_equal(err.message, "cannot connect: cannot start to look up a host name: Too many open files");
	assert_non_null(strstr(err.hint, "ulimit -n"));
}

static void a_connection_that_nobody_opened_is_not_borrowed(void **state)
{
	struct pg *pg;

	(void)state;
	error_clear(&err);
	assert_int_equal(pg_borrow(&pg, NULL, &err), DEFERRED_ECONNECT);
	assert_null(pg);
}

static void it_knows_whether_a_transaction_is_open(void **state)
{
	struct pg *pg = open_server();

	(void)state;
	assert_false(pg_in_transaction(pg));
	run_sql(pg, "begin");
	assert_true(pg_in_transaction(pg));
	assert_int_equal(pg_command(pg, "select 1 / 0", NULL), DEFERRED_EDB);
	assert_true(pg_in_transaction(pg));
	run_sql(pg, "rollback");
	assert_false(pg_in_transaction(pg));
	pg_close(pg);
}

static void notifications_are_taken_one_by_one_and_cut_to_fit(void **state)
{
	struct pg *pg = open_server();
	char payload[4];

	(void)state;
	run_sql(pg, "listen pg_test");
	run_sql(pg, "begin; notify pg_test, 'one'; notify pg_test, 'second'; commit");
	assert_true(pg_alive(pg));
	assert_true(pg_notification(pg, payload, sizeof(payload)));
	assert_string_equal(payload, "one");
	assert_true(pg_notification(pg, payload, sizeof(payload)));
	assert_string_equal(payload, "sec");
	assert_false(pg_notification(pg, payload, sizeof(payload)));
	pg_close(pg);
}

static void count_notice(void *data, const char *sqlstate, const char *message)
{
	assert_string_equal(sqlstate, "00000");
	assert_string_equal(message, "hello");
	++*(int *)data;
}

static void notices_are_handed_out_where_somebody_wants_them(void **state)
{
	struct pg *pg = open_server();
	int n = 0;

	(void)state;
	pg_on_notice(pg, count_notice, &n);
	run_sql(pg, "do $$ begin raise notice 'hello'; end $$");
	assert_int_equal(n, 1);
	pg_on_notice(pg, NULL, NULL);
	run_sql(pg, "do $$ begin raise notice 'hello'; end $$");
	assert_int_equal(n, 1);
	pg_close(pg);
}

static void a_session_that_the_server_ended_says_why(void **state)
{
	struct pg *pg = open_server(), *other = open_server();
	struct pollfd fd = { pg_fd(pg), POLLIN, 0 };
	char sql[128];

	(void)state;
	snprintf(sql, sizeof(sql), "select pg_terminate_backend(%d)", pg_server_pid(pg));
	run_sql(other, sql);
	assert_int_equal(poll(&fd, 1, 60000), 1);
	while (pg_alive(pg))
		poll(&fd, 1, 1);
	error_clear(&err);
	assert_int_equal(pg_gone(pg, "test", &err), DEFERRED_ELOST);
	assert_non_null(strstr(err.message, "connection lost: "));
	assert_non_null(strstr(err.message, "terminating connection"));
	assert_true(pg_broken(pg));
	pg_close(pg);
	pg_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_string_that_is_wrong_is_named),
		cmocka_unit_test(a_name_that_cannot_be_looked_up_has_one_cause),
		cmocka_unit_test(a_connection_that_nobody_opened_is_not_borrowed),
		cmocka_unit_test(it_knows_whether_a_transaction_is_open),
		cmocka_unit_test(notifications_are_taken_one_by_one_and_cut_to_fit),
		cmocka_unit_test(notices_are_handed_out_where_somebody_wants_them),
		cmocka_unit_test(a_session_that_the_server_ended_says_why),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pg", tests, NULL, NULL);
}
