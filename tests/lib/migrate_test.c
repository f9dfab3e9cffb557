/* SPDX-License-Identifier: MIT */
/* Migrations, on databases of the test's own beside the one DEFERRED_TEST_DB names. */
#include "store/migrate.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct pg *server; /* to create and drop databases */
static char name[64], conninfo[1024];

static struct pg *connect_to(const char *to)
{
	struct deferred_error err = { 0 };
	struct pg *pg = NULL;

	if (pg_open(&pg, to, "migrate_test", &err) < 0)
		fail_msg("%s", err.message);
	return pg;
}

static void command(struct pg *pg, const char *sql)
{
	struct deferred_error err = { 0 };

	if (pg_command(pg, sql, &err) < 0)
		fail_msg("%s", err.message);
}

static int create_database(void **state)
{
	static int n;
	char sql[128];

	snprintf(name, sizeof(name), "migrate_test_%d_%d", (int)getpid(), ++n);
	snprintf(sql, sizeof(sql), "create database %s", name);
	snprintf(conninfo, sizeof(conninfo), "%s dbname=%s", getenv("DEFERRED_TEST_DB"), name);
	command(server, sql);
	*state = connect_to(conninfo);
	return 0;
}

static int drop_database(void **state)
{
	char sql[128];

	pg_close(*state);
	snprintf(sql, sizeof(sql), "drop database %s with (force)", name);
	command(server, sql);
	return 0;
}

static void a_server_that_is_too_old_is_refused_by_name(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	assert_int_equal(migrate_accepts_server(150000, &err), 0);
	assert_int_equal(migrate_accepts_server(170002, &err), 0);
	assert_int_equal(err.code, 0);
	assert_int_equal(migrate_accepts_server(140011, &err), DEFERRED_ESCHEMA);
	assert_non_null(strstr(err.message, "the server is PostgreSQL 14, the schema needs 15 or later"));
	assert_non_null(strstr(err.hint, "upgrade the server"));
}

static int newest(void)
{
	int version = 0;

	for (const struct sql_migration *m = sql_migrations; m->version; m++)
		version = m->version;
	return version;
}

struct count {
	int steps, sources;
};

static void count_item(void *data, const struct migrate_item *item)
{
	struct count *count = data;

	assert_true(item->name[0] && item->text[0]);
	if (item->version)
		count->steps++;
	else
		count->sources++;
}

static int version_of(struct pg *pg)
{
	struct deferred_error err = { 0 };
	int version;

	if (migrate_version(pg, &version, &err) < 0)
		fail_msg("%s", err.message);
	return version;
}

static void the_embedded_steps_are_numbered_from_1_without_gaps(void **state)
{
	int expected = 1;

	(void)state;
	for (const struct sql_migration *m = sql_migrations; m->version; m++)
		assert_int_equal(m->version, expected++);
	assert_int_equal(newest(), MIGRATE_VERSION_MAX);
	assert_in_range(MIGRATE_VERSION_MIN, 1, MIGRATE_VERSION_MAX);
}

static void a_database_without_schema_is_refused_with_the_remedy(void **state)
{
	struct deferred_error err = { 0 };

	assert_int_equal(version_of(*state), 0);
	assert_int_equal(migrate_check(*state, &err), DEFERRED_ESCHEMA);
	assert_non_null(strstr(err.message, "has no schema 'deferred'"));
	assert_string_equal(err.hint, "run: deferred migrate");
}

static void a_plan_changes_nothing(void **state)
{
	struct count n = { 0 };

	assert_int_equal(migrate_plan(*state, count_item, &n, NULL), 0);
	assert_int_equal(n.steps, newest());
	assert_true(n.sources > 50);
	assert_int_equal(version_of(*state), 0);
}

static void a_run_applies_everything_once(void **state)
{
	struct deferred_error err = { 0 };
	struct count n = { 0 };

	if (migrate_run(*state, count_item, &n, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(n.steps, newest());
	assert_true(n.sources > 50);
	assert_int_equal(version_of(*state), newest());
	assert_int_equal(migrate_check(*state, NULL), 0);
	n = (struct count){ 0 };
	assert_int_equal(migrate_run(*state, count_item, &n, NULL), 0);
	assert_int_equal(migrate_plan(*state, count_item, &n, NULL), 0);
	assert_int_equal(n.steps + n.sources, 0);
	assert_false(pg_in_transaction(*state));
}

static int64_t ask(struct pg *pg, const char *sql)
{
	const struct sql_statement stmt = { "ask", sql };
	struct deferred_error err = { 0 };
	struct pg_result *res;
	struct pg_args args;
	int64_t n;

	pg_set_unnamed(pg); /* each is another one */
	pg_args_init(&args);
	if (pg_exec(pg, &stmt, &args, PG_BINARY, &res, &err) < 0)
		fail_msg("%s", err.message);
	n = pg_int(res, 0, 0);
	pg_result_free(res);
	pg_args_clear(&args);
	return n;
}

static void a_function_is_applied_again_when_its_text_has_changed(void **state)
{
	struct count n = { 0 };

	assert_int_equal(migrate_run(*state, NULL, NULL, NULL), 0);
	command(*state, "create or replace function deferred.state(outcome text) returns text language sql as $$select "
			"'older'$$;"
			"update deferred.__deferred_source set checksum = 'older' where name = 'functions/state'");
	assert_int_equal(migrate_plan(*state, count_item, &n, NULL), 0);
	assert_int_equal(n.steps, 0);
	assert_int_equal(n.sources, 1);
	assert_int_equal(migrate_run(*state, NULL, NULL, NULL), 0);
	assert_int_equal(ask(*state, "select (deferred.state('ok') = 'done')::int4"), 1);
	assert_int_equal(
		ask(*state,
		    "select has_function_privilege('deferred_viewer', 'deferred.state(text)', 'execute')::int4"),
		1);
	assert_int_equal(
		ask(*state, "select has_function_privilege('public', 'deferred.state(text)', 'execute')::int4"), 0);
}

static void what_no_file_has_any_more_is_dropped(void **state)
{
	assert_int_equal(migrate_run(*state, NULL, NULL, NULL), 0);
	command(*state,
		"create function deferred.gone() returns int4 language sql as 'select 1';"
		"create function deferred.state(outcome text, older int4) returns text language sql as 'select 1';"
		"create view deferred.gone as select 1 as n;"
		"insert into deferred.__deferred_source values ('functions/gone', 'x');"
		"update deferred.__deferred_source set checksum = 'older' where name = 'functions/state'");
	assert_int_equal(migrate_run(*state, NULL, NULL, NULL), 0);
	assert_int_equal(ask(*state, "select count(*) from pg_proc where pronamespace = 'deferred'::regnamespace and "
				     "proname in ('gone', 'state')"),
			 1);
	assert_int_equal(
		ask(*state,
		    "select count(*) from pg_class where relnamespace = 'deferred'::regnamespace and relname = 'gone'"),
		0);
	assert_int_equal(ask(*state, "select count(*) from deferred.__deferred_source where name = 'functions/gone'"),
			 0);
}

struct racer {
	struct pg *pg;
	int rc;
	struct count n;
	struct deferred_error err;
};

static void *race(void *data)
{
	struct racer *racer = data;

	racer->rc = migrate_run(racer->pg, count_item, &racer->n, &racer->err);
	return NULL;
}

static void of_two_at_once_one_does_the_work(void **state)
{
	struct racer racers[2] = { { .pg = *state }, { .pg = connect_to(conninfo) } };
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		if (racers[i].rc < 0)
			fail_msg("%s", racers[i].err.message);
	assert_int_equal(racers[0].n.steps + racers[1].n.steps, newest());
	pg_close(racers[1].pg);
}

static void a_newer_database_is_left_alone(void **state)
{
	struct deferred_error err = { 0 };
	struct count n = { 0 };

	assert_int_equal(migrate_run(*state, NULL, NULL, NULL), 0);
	command(*state, "insert into deferred.__deferred_migration (version, name) values (999, 'future')");
	assert_int_equal(migrate_check(*state, &err), DEFERRED_ESCHEMA);
	assert_non_null(strstr(err.message, "version 999, but this program works with"));
	assert_int_equal(migrate_run(*state, count_item, &n, NULL), DEFERRED_ESCHEMA);
	assert_int_equal(migrate_plan(*state, count_item, &n, NULL), DEFERRED_ESCHEMA);
	assert_int_equal(n.steps + n.sources, 0);
	assert_false(pg_in_transaction(*state));
}

static void a_failed_step_leaves_nothing_and_names_itself(void **state)
{
	struct deferred_error err = { 0 };

	struct count n = { 0 };

	command(*state, "create schema deferred");
	assert_int_equal(migrate_run(*state, count_item, &n, &err), DEFERRED_EDB);
	assert_int_equal(n.steps + n.sources, 0);
	assert_non_null(strstr(err.message, "migration 1 'tables': schema \"deferred\" already exists"));
	assert_string_equal(err.sqlstate, "42P06");
	assert_false(pg_in_transaction(*state));
	assert_int_equal(version_of(*state), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (!getenv("DEFERRED_TEST_DB")) {
		fprintf(stderr, "DEFERRED_TEST_DB names no database\n");
		return -1;
	}
	server = connect_to(getenv("DEFERRED_TEST_DB"));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pg_close(server);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_embedded_steps_are_numbered_from_1_without_gaps),
		cmocka_unit_test(a_server_that_is_too_old_is_refused_by_name),
		cmocka_unit_test_setup_teardown(a_database_without_schema_is_refused_with_the_remedy, create_database,
						drop_database),
		cmocka_unit_test_setup_teardown(a_plan_changes_nothing, create_database, drop_database),
		cmocka_unit_test_setup_teardown(a_run_applies_everything_once, create_database, drop_database),
		cmocka_unit_test_setup_teardown(a_function_is_applied_again_when_its_text_has_changed, create_database,
						drop_database),
		cmocka_unit_test_setup_teardown(what_no_file_has_any_more_is_dropped, create_database, drop_database),
		cmocka_unit_test_setup_teardown(of_two_at_once_one_does_the_work, create_database, drop_database),
		cmocka_unit_test_setup_teardown(a_newer_database_is_left_alone, create_database, drop_database),
		cmocka_unit_test_setup_teardown(a_failed_step_leaves_nothing_and_names_itself, create_database,
						drop_database),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("migrate", tests, set_up, tear_down);
}
