/* SPDX-License-Identifier: MIT */
/* What applications call, against a real server: a migrated database that DEFERRED_TEST_DB names. */
#include "deferred.h"

#include <errno.h>
#include <libpq-fe.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define DEADLINE_MS 20000
#define OPTIONS_TO_COME (sizeof(((struct deferred_more_opts *)0)->reserved) / sizeof(uint64_t))

static const char *conninfo;
static PGconn *db; /* to look at what was stored */

/* ---- looking at the database ------------------------------------------------------------------ */

static PGconn *connect_to(const char *info)
{
	PGconn *conn = PQconnectdb(info);

	if (PQstatus(conn) != CONNECTION_OK)
		fail_msg("%s", PQerrorMessage(conn));
	return conn;
}

static void run_on(PGconn *conn, const char *text)
{
	PGresult *res = PQexec(conn, text);

	if (PQresultStatus(res) != PGRES_COMMAND_OK && PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s: %s", text, PQresultErrorMessage(res));
	PQclear(res);
}

/* First value of the result; "NULL" for none. One of four buffers in turn, so that a few can be compared. */
static const char *value_on(PGconn *conn, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *value_on(PGconn *conn, const char *format, ...)
{
	static char values[4][4096];
	static int next;
	char *value = values[next++ % 4], text[2048];
	PGresult *res;
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	res = PQexec(conn, text);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s: %s", text, PQresultErrorMessage(res));
	snprintf(value, sizeof(values[0]), "%s",
		 PQntuples(res) == 0 || PQgetisnull(res, 0, 0) ? "NULL" : PQgetvalue(res, 0, 0));
	PQclear(res);
	return value;
}
#define value(...) value_on(db, __VA_ARGS__)

/* A worker holds this job, under this receipt. */
static void hold(int64_t id, int64_t receipt)
{
	value_on(db,
		 "insert into deferred.__deferred_lease (queue, worker, receipt, ids, span, snap, alone, expires_at)"
		 " values ('default', 1, %lld, array[%lld], int8range(%lld, %lld, '[]'), pg_current_snapshot(), false, "
		 "now() + interval '1 min')"
		 " returning receipt",
		 (long long)receipt, (long long)id, (long long)id, (long long)id);
}

static long jobs(void)
{
	return atol(value("select count(*) from deferred.__deferred"));
}

static long hot_jobs(void)
{
	return atol(value("select count(*) from deferred.__deferred_hot"));
}

static void assert_ledger_clean(void)
{
	assert_string_equal(value("select string_agg(invariant || ' ' || job_id, ', ') from deferred.check_ledger()"),
			    "NULL");
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The query is repeated until its value is `wanted`. */
static void wait_until(const char *wanted, const char *query)
{
	int64_t end = now_ms() + DEADLINE_MS;

	while (strcmp(value("%s", query), wanted) != 0)
		if (now_ms() > end)
			fail_msg("%s did not become %s", query, wanted);
}

static struct deferred *open_at(const char *info)
{
	struct deferred *d = NULL;
	struct deferred_error err;

	if (deferred_open(&d, info, &err) < 0)
		fail_msg("%s", err.message);
	return d;
}

/* The same server and database under another role. */
static struct deferred *open_as(const char *role)
{
	char info[1024];

	snprintf(info, sizeof(info), "%s options='-c role=%s'", conninfo, role);
	return open_at(info);
}

static void assert_ok(int rc, const struct deferred_error *err)
{
	if (rc < 0)
		fail_msg("%d: %s", rc, err->message);
}

static int set_up(void **state)
{
	(void)state;
	run_on(db, "truncate deferred.__deferred, deferred.__deferred_hot, deferred.__deferred_log, "
		   "deferred.__deferred_lease, deferred.__deferred_grant, "
		   "deferred.__deferred_edge, deferred.__deferred_wait, deferred.__deferred_ended, "
		   "deferred.__deferred_flow, deferred.__deferred_flow_open, deferred.__deferred_member, "
		   "deferred.__deferred_awaited, deferred.__deferred_event;"
		   "delete from deferred.__deferred_queue where name <> 'default'");
	return 0;
}

/* ---- one call --------------------------------------------------------------------------------- */

static void a_call_is_stored(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "noop", NULL, NULL, &id, &err), &err);
	assert_true(id > 0);
	assert_string_equal(value("select queue || ' ' || fn || ' ' || params from deferred.__deferred where id = %lld",
				  (long long)id),
			    "default noop {}");
	assert_string_equal(
		value("select created_by = session_user from deferred.__deferred where id = %lld", (long long)id), "t");
	assert_string_equal(value("select state from deferred.job where id = %lld", (long long)id), "ready");
	assert_ok(deferred_defer(d, "noop", "[1]", NULL, NULL, NULL), &err);
	assert_int_equal(jobs(), 2);
	deferred_close(d);
	deferred_close(NULL);
}

static void every_option_lands_in_the_row(void **state)
{
	const struct deferred_opts o = {
		.queue = "opt.q-1",
		.label = "f\xc3\xbcr Leute",
		.priority = -7,
		.delay_ms = 60000,
		.expires_ms = 120000,
		.key = "k 1",
		.max_attempts = 3,
		.timeout_ms = 1500,
		.backoff_floor_ms = 10,
		.backoff_ceiling_ms = 20,
		.backoff_exponent = 1.5,
	};
	const struct deferred_opts at = { .run_at = "2031-02-03 04:05:06+00",
					  .expires_at = "2032-02-03 04:05:06.5+00" };
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", "{}", &o, &id, &err), &err);
	assert_string_equal(value("select concat_ws('|', queue, label, priority, run_at - created_at, expires_at - "
				  "created_at, key, max_attempts,"
				  " timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent) from "
				  "deferred.__deferred where id = %lld",
				  (long long)id),
			    "opt.q-1|f\xc3\xbcr Leute|-7|00:01:00|00:02:00|k 1|3|1500|10|20|1.5");
	assert_string_equal(
		value("select concat_ws('|', h.queue, h.priority, h.due_at = d.run_at, h.visible_at = d.run_at,"
		      " h.expires_at = d.expires_at, h.key = deferred.__own_key(d.created_by, d.key), h.attempt)"
		      " from deferred.__deferred_hot h join deferred.__deferred d using (id) where id = %lld",
		      (long long)id),
		"opt.q-1|-7|t|t|t|t|0");
	assert_string_equal(value("select name from deferred.__deferred_queue where name <> 'default'"), "opt.q-1");
	assert_ok(deferred_defer(d, "f", "{}", &at, &id, &err), &err);
	assert_string_equal(value("select concat_ws('|', run_at at time zone 'UTC', expires_at at time zone 'UTC')"
				  " from deferred.__deferred where id = %lld",
				  (long long)id),
			    "2031-02-03 04:05:06|2032-02-03 04:05:06.5");
	deferred_close(d);
}

static void params_are_kept_byte_for_byte(void **state)
{
	static const char *const texts[] = {
		"{\"n\": 18446744073709551616, \"n\":1.10,  \"e\":1e400}",
		"{\"b\":1,\"a\":2,\"b\":3}",
		"\"\\u0000 \\ud83d\\ude00\"",
		" [ 0.1, -0, 9007199254740993 ]\n",
		"null",
		"\"\xf0\x9f\x98\x80\"",
		"123456789012345678901234567890.5",
	};
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		int64_t id = 0;

		assert_ok(deferred_defer(d, "f", texts[i], NULL, &id, &err), &err);
		assert_string_equal(value("select params from deferred.__deferred where id = %lld", (long long)id),
				    texts[i]);
	}
	deferred_close(d);
}

/* Text is UTF-8, and stays what it is where the session was to have another encoding. */
static void another_client_encoding_does_not_change_the_text(void **state)
{
	static const char *const ways[] = { "client_encoding=LATIN1", "options='-c client_encoding=LATIN1'" };
	struct deferred_opts opts = { .label = "f\xc3\xbcr" };
	struct deferred_error err;
	char info[1024];

	(void)state;
	setenv("PGCLIENTENCODING", "LATIN1", 1);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct deferred *d;
		int64_t id = 0;

		snprintf(info, sizeof(info), "%s %s", conninfo, ways[i]);
		d = open_at(info);
		assert_ok(deferred_defer(d, "f", "\"\xc3\xa4\"", &opts, &id, &err), &err);
		assert_string_equal(
			value("select params || label from deferred.__deferred where id = %lld", (long long)id),
			"\"\xc3\xa4\"f\xc3\xbcr");
		deferred_close(d);
	}
	unsetenv("PGCLIENTENCODING");
}

#define TEN "0123456789"

static void bad_arguments_are_refused_before_anything_is_sent(void **state)
{
	static const char *const empty_tag[] = { "a", "", NULL }, *const torn_tag[] = { "\xff", NULL },
				 *const long_tag[] = { "a", TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "!", NULL };
	static const char *many_tags[34];
	static const struct deferred_more_opts no_key = { .key_until_ms = 1 }, no_span = { .key_until_ms = -2 },
					       not_zero = { .reserved = { [OPTIONS_TO_COME - 1] = 7 } };
	static const struct deferred_after no_job = { 0 }, no_condition = { 1, (enum deferred_after_on)3, NULL },
					   no_name = { 1, DEFERRED_AFTER_OK, "" };
	static const struct {
		const char *fn, *params;
		struct deferred_opts opts;
		const char *says;
	} bad[] = {
		{ NULL, "{}", { 0 }, "the function is missing" },
		{ "", "{}", { 0 }, "function name '' is invalid" },
		{ "1x", "{}", { 0 }, "function name '1x' is invalid" },
		{ "a b", "{}", { 0 }, "function name 'a b' is invalid" },
		{ "f", "{", { 0 }, "invalid JSON" },
		{ "f", "", { 0 }, "invalid JSON" },
		{ "f", "{} x", { 0 }, "invalid JSON" },
		{ "f", "\"\xff\"", { 0 }, "invalid JSON" },
		{ "f", "\"\xed\xa0\x80\"", { 0 }, "invalid JSON" },
		{ "f", NULL, { .queue = "" }, "queue name '' is invalid" },
		{ "f", NULL, { .queue = "a b" }, "queue name 'a b' is invalid" },
		{ "f", NULL, { .queue = "-a" }, "queue name '-a' is invalid" },
		{ "f", NULL, { .label = "\xc3" }, "option 'label' is not valid UTF-8" },
		{ "f", NULL, { .key = "\xff" }, "option 'key' is not valid UTF-8" },
		{ "f", NULL, { .key = "" }, "option 'key' is empty" },
		{ "f", NULL, { .priority = 32768 }, "option 'priority' is out of range: 32768" },
		{ "f", NULL, { .delay_ms = -1 }, "option 'delay_ms' is out of range: -1 ms" },
		{ "f", NULL, { .delay_ms = INT64_MAX }, "option 'delay_ms' is out of range" },
		{ "f", NULL, { .expires_ms = -5 }, "option 'expires_ms' is out of range" },
		{ "f", NULL, { .timeout_ms = -5 }, "option 'timeout_ms' is out of range" },
		{ "f", NULL, { .backoff_floor_ms = -5 }, "option 'backoff_floor_ms' is out of range" },
		{ "f", NULL, { .backoff_ceiling_ms = -5 }, "option 'backoff_ceiling_ms' is out of range" },
		{ "f", NULL, { .backoff_exponent = 0.5 }, "'backoff_exponent' is out of range: 0.5" },
		{ "f", NULL, { .backoff_exponent = NAN }, "'backoff_exponent' is out of range" },
		{ "f", NULL, { .max_attempts = -1 }, "'max_attempts' is out of range: -1" },
		{ "f",
		  NULL,
		  { .key = "k", .on_duplicate = (enum deferred_on_duplicate)4 },
		  "'on_duplicate' has the invalid value 4" },
		{ "f", NULL, { .more = &no_key }, "'key_until_ms' is given, but 'key' is missing" },
		{ "f", NULL, { .key = "k", .more = &no_span }, "option 'key_until_ms' is out of range: -2 ms" },
		{ "f", NULL, { .more = &not_zero }, "is not zero: the options were not initialised" },
		{ "f", NULL, { .concurrency = 2 }, "'concurrency' is 2, but 'concurrency_key' is missing" },
		{ "f", NULL, { .concurrency_key = "k", .concurrency = -1 }, "'concurrency' is out of range: -1" },
		{ "f", NULL, { .concurrency_key = "k", .concurrency = 10001 }, "'concurrency' is out of range: 10001" },
		{ "f", NULL, { .concurrency_key = "" }, "option 'concurrency_key' is empty" },
		{ "f", NULL, { .concurrency_key = "\xff" }, "option 'concurrency_key' is not valid UTF-8" },
		{ NULL, "{}", { .label = "for no queue" }, "the function is missing" },
		{ NULL, "{", { .queue = "q" }, "params of function 'message'" },
		{ "f", NULL, { .tags = empty_tag }, "tags[1] is empty" },
		{ "f", NULL, { .tags = torn_tag }, "tags[0] is not valid UTF-8" },
		{ "f", NULL, { .tags = long_tag }, "tags[1] has 101 characters, more than 100: '0123" },
		{ "f", NULL, { .tags = many_tags }, "more than 32 tags, the first is 't'" },
		{ "f", NULL, { .after_len = 1 }, "'after' is NULL, but after_len is 1" },
		{ "f", NULL, { .after = &no_job, .after_len = 1001 }, "'after' names 1001 jobs, more than 1000" },
		{ "f", NULL, { .after = &no_job, .after_len = 1 }, "after[0]: 0 is not the id of a job" },
		{ "f", NULL, { .after = &no_condition, .after_len = 1 }, "after[0]: condition 3 is unknown" },
		{ "f", NULL, { .after = &no_name, .after_len = 1 }, "after[0]: the name is empty" },
		{ "f", NULL, { .traceparent = "00-1" }, "'traceparent' has the invalid value '00-1'" },
	};
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;

	(void)state;
	for (size_t i = 0; i < 33; i++)
		many_tags[i] = "t";
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t id = -42;

		assert_int_equal(deferred_defer(d, bad[i].fn, bad[i].params, &bad[i].opts, &id, &err), DEFERRED_EINVAL);
		if (!strstr(err.message, bad[i].says))
			fail_msg("'%s' does not say '%s'", err.message, bad[i].says);
		assert_true(err.hint[0]);
		assert_int_equal(id, -42);
		assert_int_equal(deferred_defer_conn(db, bad[i].fn, bad[i].params, &bad[i].opts, NULL, &err),
				 DEFERRED_EINVAL);
	}
	assert_int_equal(deferred_defer(d, NULL, "{}", NULL, NULL, &err), DEFERRED_EINVAL);
	assert_string_equal(err.hint, "name a function; only a message has none, and needs a queue: set opts.queue");
	assert_int_equal(jobs(), 0);
	deferred_close(d);
}

static void a_missing_context_is_an_invalid_argument(void **state)
{
	const struct deferred_call_spec call = { .fn = "f" };
	struct deferred_outcome outcome;
	struct deferred_error err;

	(void)state;
	assert_int_equal(deferred_open(NULL, conninfo, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_defer(NULL, "f", NULL, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_string_equal(err.hint, "open a context with deferred_open()");
	assert_int_equal(deferred_defer_many(NULL, &call, 1, NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_cancel(NULL, 1, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_wait(NULL, 1, 0, &outcome, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_defer_conn(NULL, "f", NULL, NULL, NULL, &err), DEFERRED_ECONNECT);
	assert_int_equal(deferred_finish_conn(NULL, 1, 1, NULL, &err), DEFERRED_ECONNECT);
}

static char *big_params(size_t len)
{
	char *text = malloc(len + 1);

	assert_non_null(text);
	memset(text, 'x', len);
	text[0] = text[len - 1] = '"';
	text[len] = '\0';
	return text;
}

static void params_of_10_mb_or_600_levels_are_refused(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	char *big = big_params(10 << 20), *deep = malloc(1201);

	(void)state;
	assert_int_equal(deferred_defer(d, "f", big, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "params_max_bytes"));
	/* On a connection of the caller the limit of the queue counts. */
	assert_int_equal(deferred_defer_conn(db, "f", big, NULL, NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "54000");
	memset(deep, '[', 600);
	memset(deep + 600, ']', 600);
	deep[1200] = '\0';
	assert_int_equal(deferred_defer(d, "f", deep, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "512"));
	assert_int_equal(jobs(), 0);
	/* Just what fits is taken. */
	memset(deep, '[', 512);
	memset(deep + 512, ']', 512);
	deep[1024] = '\0';
	assert_ok(deferred_defer(d, "f", deep, NULL, NULL, &err), &err);
	free(big);
	big = big_params(1 << 20);
	assert_ok(deferred_defer(d, "f", big, NULL, NULL, &err), &err);
	free(big);
	free(deep);
	deferred_close(d);
}

/* ---- the caller's connection ------------------------------------------------------------------ */

static void the_job_shares_the_fate_of_the_callers_transaction(void **state)
{
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	run_on(conn, "begin");
	assert_ok(deferred_defer_conn(conn, "f", NULL, NULL, &id, &err), &err);
	assert_int_equal(jobs(), 0);
	run_on(conn, "rollback");
	assert_int_equal(jobs() + hot_jobs(), 0);
	run_on(conn, "begin");
	assert_ok(deferred_defer_conn(conn, "f", NULL, NULL, &id, &err), &err);
	run_on(conn, "commit");
	assert_int_equal(jobs(), 1);
	assert_ok(deferred_defer_conn(conn, "f", NULL, NULL, NULL, NULL), &err);
	assert_int_equal(jobs(), 2);
	PQfinish(conn);
}

static void the_callers_session_is_left_as_it_was(void **state)
{
	static const char settings[] =
		"select md5(string_agg(name || setting, ',' order by name)) || (select count(*) from "
		"pg_prepared_statements)"
		" from pg_settings where name !~ '^plpgsql'"; /* which appear when the language is loaded */
	struct deferred_call_spec calls[3] = { { .fn = "a" }, { .fn = "b" }, { .fn = "c" } };
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	char before[256];

	(void)state;
	snprintf(before, sizeof(before), "%s", value_on(conn, settings));
	assert_ok(deferred_defer_conn(conn, "f", NULL, NULL, NULL, &err), &err);
	assert_ok(deferred_defer_many_conn(conn, calls, 3, NULL, &err), &err);
	assert_string_equal(value_on(conn, settings), before);
	assert_int_equal(PQtransactionStatus(conn), PQTRANS_IDLE);
	PQfinish(conn);
}

static void an_aborted_transaction_and_a_busy_connection_are_named(void **state)
{
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	PGresult *res;

	(void)state;
	run_on(conn, "begin");
	PQclear(PQexec(conn, "select 1/0"));
	assert_int_equal(deferred_defer_conn(conn, "f", NULL, NULL, NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "25P02");
	assert_non_null(strstr(err.hint, "roll the transaction back"));
	run_on(conn, "rollback");

	assert_int_equal(PQsendQuery(conn, "select 1"), 1);
	assert_int_equal(deferred_defer_conn(conn, "f", NULL, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "busy"));
	while ((res = PQgetResult(conn)) != NULL)
		PQclear(res);

	PQsetClientEncoding(conn, "LATIN1");
	assert_int_equal(deferred_defer_conn(conn, "f", NULL, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "client_encoding LATIN1"));
	PQfinish(conn);
	assert_int_equal(deferred_defer_conn(NULL, "f", NULL, NULL, NULL, &err), DEFERRED_ECONNECT);
	assert_int_equal(jobs(), 0);
}

/* ---- keys ------------------------------------------------------------------------------------- */

static void a_key_in_use_skips_refuses_or_replaces(void **state)
{
	struct deferred_opts o = { .key = "once" };
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t first = 0, second = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", "1", &o, &first, &err), &err);
	assert_ok(deferred_defer(d, "f", "2", &o, &second, &err), &err);
	assert_int_equal(second, first);
	o.on_duplicate = DEFERRED_DUPLICATE_ERROR;
	assert_int_equal(deferred_defer(d, "f", "3", &o, &second, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "23505");
	o.on_duplicate = DEFERRED_DUPLICATE_REPLACE;
	assert_ok(deferred_defer(d, "f", "4", &o, &second, &err), &err);
	assert_int_not_equal(second, first);
	assert_string_equal(value("select state from deferred.job where id = %lld", (long long)first), "cancelled");
	hold(second, 1);
	assert_int_equal(deferred_defer(d, "f", "5", &o, &second, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "55006");
	o.queue = "other";
	assert_ok(deferred_defer(d, "f", "6", &o, &second, &err), &err);
	assert_int_equal(hot_jobs(), 2);
	deferred_close(d);
}

static void a_waiting_job_is_updated_and_gives_its_key_up_when_it_starts(void **state)
{
	const struct deferred_more_opts start = { .key_until_ms = DEFERRED_KEY_UNTIL_START },
					mins = { .key_until_ms = 600000 };
	struct deferred_opts o = { .key = "page", .more = &start }, span = { .key = "mail", .more = &mins };
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t first = 0, second = 0, third = 0, ids[2] = { 0 };
	const struct deferred_call_spec calls[] = { { "f", "6", &span }, { "f", "7", &o } };

	(void)state;
	assert_ok(deferred_defer(d, "f", "1", &o, &first, &err), &err);
	o.on_duplicate = DEFERRED_DUPLICATE_UPDATE;
	o.label = "later";
	assert_ok(deferred_defer(d, "f", "2", &o, &second, &err), &err);
	assert_int_equal(second, first);
	assert_string_equal(
		value("select params || ' ' || label from deferred.__deferred where id = %lld", (long long)first),
		"2 later");
	hold(first, 1);
	assert_ok(deferred_defer(d, "f", "3", &o, &second, &err), &err);
	assert_int_not_equal(second, first);
	assert_ok(deferred_defer(d, "f", "4", &span, &third, &err), &err);
	span.on_duplicate = DEFERRED_DUPLICATE_UPDATE;
	assert_ok(deferred_defer_many(d, calls, 2, ids, &err), &err);
	assert_int_equal(ids[0], third);
	assert_int_equal(ids[1], second);
	assert_string_equal(value("select string_agg(key_until_ms || ' ' || params, ', ' order by id)"
				  " from deferred.__deferred"),
			    "0 2, 0 7, 600000 6");
	deferred_close(d);
}

/* ---- a mail ------------------------------------------------------------------------------------ */

static void a_mail_shares_the_fate_of_the_callers_transaction(void **state)
{
	const struct deferred_mailbox to[] = { { "ann@x.org", "Ann" }, { "bob@x.org", NULL } };
	struct deferred_mail mail = { .to = to,
				      .to_len = 2,
				      .subject = "Gr\xc3\xbc\xc3\x9f"
						 "e",
				      .text = "hi" };
	const struct deferred_opts opts = { .queue = "mail", .key = "k" };
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	/* Nothing is read, and nothing sent, that could not be rolled back. */
	setenv("DEFERRED_CONFIG", "/nonexistent", 1);
	run_on(conn, "begin");
	assert_ok(deferred_send_mail_conn(conn, &mail, &opts, &id, &err), &err);
	run_on(conn, "rollback");
	assert_int_equal(jobs(), 0);
	run_on(conn, "begin");
	assert_ok(deferred_send_mail_conn(conn, &mail, &opts, &id, &err), &err);
	assert_int_equal(jobs(), 0);
	run_on(conn, "commit");
	assert_string_equal(
		value("select concat_ws('|', fn, queue, label, key, params) from deferred.__deferred where id = %lld",
		      (long long)id),
		"send_mail|mail|Gr\xc3\xbc\xc3\x9f"
		"e|k|{\"to\":[{\"mail\":\"ann@x.org\",\"label\":\"Ann\"},{\"mail\":\"bob@x.org\"}],\"subject\":"
		"\"Gr\xc3\xbc\xc3\x9f"
		"e\",\"text\":\"hi\"}");
	run_on(conn, "begin");
	mail.subject = "a\r\nBcc: eve@x.org";
	assert_int_equal(deferred_send_mail_conn(conn, &mail, NULL, &id, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_send_mail_conn(conn, NULL, NULL, &id, &err), DEFERRED_EINVAL);
	mail.subject = NULL;
	mail.label = "mine";
	assert_ok(deferred_send_mail_conn(conn, &mail, NULL, &id, &err),
		  &err); /* what was refused here has not spoilt the transaction */
	run_on(conn, "commit");
	assert_string_equal(value("select label from deferred.__deferred where id = %lld", (long long)id), "mine");
	setenv("DEFERRED_CONFIG", "/dev/null", 1);
	PQfinish(conn);
}

/* ---- many calls ------------------------------------------------------------------------------- */

/* n calls, each with its number as params; released with free(). */
struct batch {
	struct deferred_call_spec *calls;
	int64_t *ids;
	char (*params)[1100]; /* some of them heavy: sql/functions/job/__params_bytes.sql */
};

static struct batch batch_new(size_t n)
{
	struct batch b = { calloc(n, sizeof(*b.calls)), calloc(n, sizeof(*b.ids)), calloc(n, sizeof(*b.params)) };

	assert_true(b.calls && b.ids && b.params);
	for (size_t i = 0; i < n; i++) {
		snprintf(b.params[i], sizeof(b.params[i]), "%-*zu", i % 5 == 3 ? 1090 : 1, i);
		b.calls[i] = (struct deferred_call_spec){ .fn = "f", .params = b.params[i] };
	}
	return b;
}

static void batch_free(struct batch *b)
{
	free(b->calls);
	free(b->ids);
	free(b->params);
}

/* Every job is there once, under the id handed out for it. */
static void assert_stored(const struct batch *b, size_t n)
{
	PGresult *res = PQexec(
		db,
		"select d.id, d.params from deferred.__deferred d join deferred.__deferred_hot h using (id, queue, fn)"
		" order by d.params::text::int");

	assert_int_equal(PQntuples(res), n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(atoll(PQgetvalue(res, (int)i, 0)), b->ids[i]);
		assert_string_equal(PQgetvalue(res, (int)i, 1), b->params[i]);
	}
	PQclear(res);
	assert_int_equal(jobs(), n);
	assert_int_equal(hot_jobs(), n);
	assert_ledger_clean();
}

static const struct deferred_opts many_opts = {
	.queue = "bulk",
	.label = "b\xc3\xa4tch",
	.priority = 9,
	.delay_ms = 60000,
	.expires_ms = 120000,
	.max_attempts = 3,
	.timeout_ms = 1500,
	.backoff_floor_ms = 10,
	.backoff_ceiling_ms = 20,
	.backoff_exponent = 2.5,
};

static void assert_many_opts(int64_t id)
{
	assert_string_equal(value("select concat_ws('|', d.queue, label, d.priority, run_at - created_at, d.expires_at "
				  "- created_at, d.max_attempts,"
				  " timeout_ms, backoff_floor_ms, backoff_ceiling_ms, backoff_exponent, due_at = "
				  "run_at, visible_at = run_at,"
				  " h.expires_at = d.expires_at, h.priority, h.max_attempts) from deferred.__deferred d"
				  " join deferred.__deferred_hot h using (id) where id = %lld",
				  (long long)id),
			    "bulk|b\xc3\xa4tch|9|00:01:00|00:02:00|3|1500|10|20|2.5|t|t|t|9|3");
}

/* A batch of n, with options on one in the middle, through `d`. */
static void defer_batch(struct deferred *d, size_t n)
{
	struct batch b = batch_new(n);
	struct deferred_error err;

	b.calls[n / 2].opts = &many_opts;
	assert_ok(deferred_defer_many(d, b.calls, n, b.ids, &err), &err);
	assert_stored(&b, n);
	assert_many_opts(b.ids[n / 2]);
	assert_string_equal(value("select string_agg(distinct created_by, ',') from deferred.__deferred"),
			    value("select created_by from deferred.__deferred where id = %lld", (long long)b.ids[0]));
	assert_ok(deferred_defer_many(d, b.calls, 0, NULL, &err), &err);
	batch_free(&b);
}

static void many_calls_go_in_one_statement(void **state)
{
	struct deferred *d = open_at(conninfo);

	(void)state;
	defer_batch(d, 3000);
	deferred_close(d);
}

static void very_many_calls_go_by_copy_for_the_owner(void **state)
{
	struct deferred *d = open_at(conninfo);

	(void)state;
	defer_batch(d, 12000);
	/* The trace COPY leaves: one moment for all. */
	assert_string_equal(value("select count(distinct created_at) from deferred.__deferred"), "1");
	deferred_close(d);
}

/* What COPY found wrong is said only when it ends. */
static void what_copy_refuses_at_its_end_is_an_error(void **state)
{
	const struct deferred_call_spec refused = { .fn = "refused" };
	struct deferred *d = open_at(conninfo);
	PGconn *conn = connect_to(conninfo);
	struct batch b = batch_new(6000);
	struct deferred_error err;

	(void)state;
	run_on(db, "alter table deferred.__deferred_hot add constraint refused check (fn <> 'refused')");
	b.calls[5990] = refused;
	assert_int_equal(deferred_defer_many(d, b.calls, 6000, b.ids, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "23514");
	run_on(conn, "begin");
	assert_int_equal(deferred_defer_many_conn(conn, b.calls, 6000, b.ids, &err), DEFERRED_EDB);
	assert_int_equal(PQtransactionStatus(conn), PQTRANS_INERROR);
	run_on(conn, "rollback");
	run_on(db, "alter table deferred.__deferred_hot drop constraint refused");
	assert_int_equal(jobs() + hot_jobs(), 0);
	/* The connection is of use afterwards. */
	assert_ok(deferred_defer_many(d, b.calls, 5000, b.ids, &err), &err);
	batch_free(&b);
	PQfinish(conn);
	deferred_close(d);
}

static void very_many_calls_go_in_several_statements_for_a_producer(void **state)
{
	struct deferred *d = open_as("deferred_producer");

	(void)state;
	run_on(db, "insert into deferred.__deferred_queue (name) values ('bulk')");
	defer_batch(d, 12000);
	assert_string_equal(value("select count(distinct created_at) from deferred.__deferred"), "3");
	assert_string_equal(value("select distinct created_by from deferred.__deferred"), "deferred_producer");
	deferred_close(d);
}

static void tags_are_stored_alone_and_in_bulk(void **state)
{
	static const char *const words[] = { "caf\xc3\xa9", "a,\"b\"", "caf\xc3\xa9", NULL, "x", NULL };
	static const struct deferred_opts two = { .tags = words }, one = { .tags = words + 4 },
					  none = { .tags = words + 3 };
	static const size_t sizes[] = { 4, 5500 }; /* the larger one would go by COPY */
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, &two, &id, &err), &err);
	assert_string_equal(value("select tags from deferred.__deferred where id = %lld", (long long)id),
			    "{caf\xc3\xa9,\"a,\\\"b\\\"\"}");
	assert_ok(deferred_defer(d, "f", NULL, &none, &id, &err), &err);
	assert_string_equal(value("select tags from deferred.__deferred where id = %lld", (long long)id), "NULL");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct batch b = batch_new(sizes[i]);

		run_on(db, "truncate deferred.__deferred, deferred.__deferred_hot");
		b.calls[1].opts = &two;
		b.calls[2].opts = &one;
		b.calls[3].opts = &none;
		assert_ok(deferred_defer_many(d, b.calls, sizes[i], b.ids, &err), &err);
		assert_string_equal(value("select string_agg(id - (select min(id) from deferred.__deferred) || "
					  "tags::text, ' ' order by id)"
					  " from deferred.__deferred where tags is not null"),
				    "1{caf\xc3\xa9,\"a,\\\"b\\\"\"} 2{x}");
		batch_free(&b);
	}
	deferred_close(d);
}

static void a_trace_context_is_stored_alone_and_in_bulk(void **state)
{
	struct deferred_after root = { 0 };
	const struct deferred_opts opts = { .traceparent = TRACE },
				   waits = { .traceparent = TRACE, .after = &root, .after_len = 1 };
	static const size_t sizes[] = { 4, 5500 }; /* the larger one would go by COPY */
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, NULL, &root.job, &err), &err);
	assert_ok(deferred_defer(d, "f", NULL, &opts, NULL, &err), &err);
	assert_ok(deferred_defer(d, "f", NULL, &waits, NULL, &err), &err);
	assert_string_equal(
		value("select string_agg(coalesce(traceparent, '-'), ' ' order by id) from deferred.__deferred"),
		"- " TRACE " " TRACE);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct batch b = batch_new(sizes[i]);

		run_on(db, "truncate deferred.__deferred, deferred.__deferred_hot");
		b.calls[1].opts = &opts;
		assert_ok(deferred_defer_many(d, b.calls, sizes[i], b.ids, &err), &err);
		assert_string_equal(value("select id - (select min(id) from deferred.__deferred) || traceparent from "
					  "deferred.__deferred where traceparent is not null"),
				    "1" TRACE);
		batch_free(&b);
	}
	deferred_close(d);
}

static void a_message_a_key_and_a_limit_are_stored_alone_and_in_bulk(void **state)
{
	static const struct deferred_opts bound = { .queue = "bound" }, plain = { .queue = "plain" },
					  key = { .concurrency_key = "k\xc3\xa9y", .concurrency = 3 },
					  limited = { .queue = "limited" };
	static const size_t sizes[] = { 100, 6000 };
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	run_on(db, "insert into deferred.__deferred_queue (name, fn, max_running) values ('bound', 'handle', null), "
		   "('plain', null, null),"
		   " ('limited', null, 5)");
	assert_ok(deferred_defer(d, NULL, "\"m\"", &bound, &id, &err), &err);
	assert_string_equal(value("select fn from deferred.__deferred where id = %lld", (long long)id), "handle");
	assert_ok(deferred_defer(d, NULL, NULL, &plain, &id, &err), &err);
	assert_string_equal(value("select fn from deferred.__deferred where id = %lld", (long long)id), "NULL");
	assert_ok(deferred_defer(d, "f", NULL, &key, &id, &err), &err);
	assert_string_equal(
		value("select concat_ws('|', d.concurrency_key, d.concurrency, h.concurrency_key = "
		      "deferred.__own_key(d.created_by, d.concurrency_key), h.concurrency, h.limited)"
		      " from deferred.__deferred d join deferred.__deferred_hot h using (id) where id = %lld",
		      (long long)id),
		"k\xc3\xa9y|3|t|3|t");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct batch b = batch_new(sizes[i]);

		run_on(db, "truncate deferred.__deferred, deferred.__deferred_hot");
		b.calls[1] = (struct deferred_call_spec){ .opts = &bound };
		b.calls[2] = (struct deferred_call_spec){ .opts = &plain };
		b.calls[3].opts = &key;
		for (size_t k = 4; k < 14; k++)
			b.calls[k].opts = &limited;
		assert_ok(deferred_defer_many(d, b.calls, sizes[i], b.ids, &err), &err);
		/* With limits in play COPY is not taken, also where every call could go by it. */
		b.calls[1] = b.calls[2] = b.calls[3] = (struct deferred_call_spec){ .fn = "f", .opts = &limited };
		assert_ok(deferred_defer_many(d, b.calls, sizes[i], b.ids, &err), &err);
		assert_string_equal(value("select string_agg(f, ' ' order by f) from (select coalesce(fn, '-') || "
					  "count(*) || limited as f"
					  " from deferred.__deferred_hot where queue <> 'default' or limited group by "
					  "fn, limited) x"),
				    "-1false f24true handle1false");
		assert_string_equal(
			value("select count(*) > 0 from deferred.__deferred_limited where queue = 'default'"), "t");
		assert_int_equal(hot_jobs(), 2 * sizes[i]);
		batch_free(&b);
	}
	assert_ledger_clean();
	deferred_close(d);
}

static void a_full_queue_refuses_or_drops(void **state)
{
	static const struct deferred_opts o = { .queue = "full" };
	struct deferred *d = open_at(conninfo);
	struct batch b = batch_new(6000);
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	run_on(db, "insert into deferred.__deferred_queue (name, max_length) values ('full', 1)");
	for (size_t i = 0; i < 6000; i++)
		b.calls[i].opts = &o;
	assert_ok(deferred_defer(d, "f", NULL, &o, &id, &err), &err);
	assert_int_equal(deferred_defer(d, "f", NULL, &o, &id, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "53400");
	assert_int_equal(deferred_defer_many(d, b.calls, 6000, b.ids, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "53400");
	assert_int_equal(hot_jobs(), 1);
	run_on(db, "update deferred.__deferred_queue set on_full = 'drop', max_length = 3 where name = 'full'");
	assert_ok(deferred_defer_many(d, b.calls, 6000, b.ids, &err), &err);
	assert_true(b.ids[0] > 0 && b.ids[1] > 0 && b.ids[2] == 0 && b.ids[5999] == 0);
	assert_ok(deferred_defer(d, "f", NULL, &o, &id, &err), &err);
	assert_int_equal(id, 0);
	assert_int_equal(hot_jobs(), 3);
	batch_free(&b);
	deferred_close(d);
}

static void one_bad_call_in_the_middle_stores_none(void **state)
{
	static const size_t sizes[] = { 1000, 8000 };
	static const char *const roles[] = { "none", "deferred_producer" };
	struct deferred_error err;

	(void)state;
	run_on(db, "insert into deferred.__deferred_queue (name, params_max_bytes) values ('narrow', 10)");
	for (size_t r = 0; r < 2; r++) {
		struct deferred *d = open_as(roles[r]);

		for (size_t s = 0; s < 2; s++) {
			const struct deferred_opts narrow = { .queue = "narrow" };
			struct batch b = batch_new(sizes[s]);
			size_t bad = sizes[s] - 7;
			char number[32];

			snprintf(number, sizeof(number), "call %zu: ", bad);
			b.calls[bad].params = "{";
			assert_int_equal(deferred_defer_many(d, b.calls, sizes[s], b.ids, &err), DEFERRED_EINVAL);
			assert_non_null(strstr(err.message, number));
			b.calls[bad].params = "\"longer than ten bytes\"";
			b.calls[bad].opts = &narrow;
			assert_int_equal(deferred_defer_many(d, b.calls, sizes[s], b.ids, &err), DEFERRED_EDB);
			assert_string_equal(err.sqlstate, "54000");
			assert_int_equal(deferred_defer_many_conn(db, b.calls, sizes[s], b.ids, &err), DEFERRED_EDB);
			assert_int_equal(PQtransactionStatus(db), PQTRANS_IDLE);
			assert_int_equal(jobs() + hot_jobs(), 0);
			/* The connection is of use afterwards. */
			assert_ok(deferred_defer(d, "f", NULL, NULL, NULL, &err), &err);
			set_up(NULL);
			run_on(db,
			       "insert into deferred.__deferred_queue (name, params_max_bytes) values ('narrow', 10)");
			batch_free(&b);
		}
		deferred_close(d);
	}
}

static void many_calls_share_the_fate_of_the_callers_transaction(void **state)
{
	static const size_t sizes[] = { 10, 6000 };
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;

	(void)state;
	for (size_t s = 0; s < 2; s++) {
		struct batch b = batch_new(sizes[s]);

		run_on(conn, "begin");
		assert_ok(deferred_defer_many_conn(conn, b.calls, sizes[s], b.ids, &err), &err);
		assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
		run_on(conn, "rollback");
		assert_int_equal(jobs() + hot_jobs(), 0);
		run_on(conn, "begin");
		assert_ok(deferred_defer_many_conn(conn, b.calls, sizes[s], b.ids, &err), &err);
		run_on(conn, "commit");
		assert_stored(&b, sizes[s]);
		set_up(NULL);
		assert_ok(deferred_defer_many_conn(conn, b.calls, sizes[s], b.ids, &err), &err);
		assert_stored(&b, sizes[s]);
		set_up(NULL);
		batch_free(&b);
	}
	PQfinish(conn);
}

static void keys_among_many_are_honoured(void **state)
{
	const struct deferred_opts same = { .key = "same" },
				   strict = { .key = "same", .on_duplicate = DEFERRED_DUPLICATE_ERROR };
	struct deferred *d = open_at(conninfo);
	struct batch b = batch_new(6000);
	struct deferred_error err;

	(void)state;
	b.calls[5].opts = b.calls[5800].opts = &same;
	assert_ok(deferred_defer_many(d, b.calls, 6000, b.ids, &err), &err);
	assert_int_equal(b.ids[5], b.ids[5800]);
	assert_int_equal(jobs(), 5999);
	b.calls[5800].opts = &strict;
	assert_int_equal(deferred_defer_many(d, b.calls, 6000, b.ids, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "23505");
	assert_int_equal(jobs(), 5999);
	batch_free(&b);
	deferred_close(d);
}

static void a_limited_role_stays_limited_in_bulk(void **state)
{
	struct deferred *d = open_as("deferred_owner");
	struct batch b = batch_new(6000);
	struct deferred_error err;

	(void)state;
	run_on(db, "insert into deferred.__deferred_grant (role, fn) values ('deferred_owner', 'f')");
	assert_ok(deferred_defer_many(d, b.calls, 6000, b.ids, &err), &err);
	b.calls[5999].fn = "g";
	assert_int_equal(deferred_defer_many(d, b.calls, 6000, b.ids, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "42501");
	assert_null(strstr(err.hint, "deferred_producer")); /* it has that right, and is limited on purpose */
	assert_int_equal(jobs(), 6000);
	batch_free(&b);
	deferred_close(d);
}

/* ---- rights ----------------------------------------------------------------------------------- */

static void the_producer_role_alone_suffices(void **state)
{
	const struct deferred_opts o = { .key = "k", .queue = "fresh", .on_duplicate = DEFERRED_DUPLICATE_REPLACE };
	struct deferred *d = open_as("deferred_producer");
	struct deferred_error err;
	char hint[128];
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, &o, &id, &err), &err);
	assert_ok(deferred_defer(d, "f", NULL, &o, &id, &err), &err);
	assert_ok(deferred_cancel(d, id, &err), &err);
	assert_int_equal(deferred_cancel(d, id, &err), DEFERRED_ENOTFOUND);
	assert_ok(deferred_defer_conn(db, "f", NULL, NULL, &id, &err), &err);
	assert_int_equal(deferred_cancel(d, id, &err), DEFERRED_ENOTFOUND); /* somebody else's */
	assert_int_equal(deferred_wait(d, id, 0, NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "42501");
	snprintf(hint, sizeof(hint), "grant deferred_viewer to \"%s\"", PQuser(db));
	assert_string_equal(err.hint, hint);
	deferred_close(d);
}

/* ---- opening ---------------------------------------------------------------------------------- */

static void a_role_without_rights_is_told_which_to_ask_for(void **state)
{
	struct deferred_error err;
	struct deferred *d = NULL;
	char info[1024], hint[128];
	PGconn *conn;

	(void)state;
	snprintf(info, sizeof(info), "%s options='-c role=pg_monitor'", conninfo);
	snprintf(hint, sizeof(hint), "grant deferred_producer to \"%s\"", PQuser(db));
	assert_int_equal(deferred_open(&d, info, &err), DEFERRED_EDB);
	assert_null(d);
	assert_string_equal(err.sqlstate, "42501");
	assert_string_equal(err.hint, hint);
	conn = connect_to(info);
	assert_int_equal(deferred_defer_conn(conn, "f", NULL, NULL, NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.hint, hint);
	PQfinish(conn);
}

static void opening_says_what_is_wrong(void **state)
{
	struct deferred_error err;
	struct deferred *d = NULL;
	char info[1024];

	(void)state;
	assert_int_equal(deferred_open(&d, "host=/nonexistent dbname=x", &err), DEFERRED_ECONNECT);
	assert_null(d);
	assert_int_equal(deferred_open(&d, "nonsense", &err), DEFERRED_ECONNECT);
	assert_non_null(strstr(err.message, "invalid connection string"));
	snprintf(info, sizeof(info), "%s dbname=template1", conninfo);
	assert_int_equal(deferred_open(&d, info, &err), DEFERRED_ESCHEMA);
	assert_int_equal(setenv("DEFERRED_CONFIG", "/nonexistent.conf", 1), 0);
	assert_int_equal(deferred_open(&d, conninfo, &err), DEFERRED_ECONFIG);
	assert_int_equal(setenv("DEFERRED_CONFIG", "/dev/null", 1), 0);
	/* Without a string DEFERRED_DB counts. */
	assert_int_equal(setenv("DEFERRED_DB", "host=/nonexistent", 1), 0);
	assert_int_equal(deferred_open(&d, NULL, &err), DEFERRED_ECONNECT);
	assert_int_equal(setenv("DEFERRED_DB", conninfo, 1), 0);
	assert_ok(deferred_open(&d, NULL, &err), &err);
	deferred_close(d);
}

/* ---- lost connections ------------------------------------------------------------------------- */

/* What is written to standard error from here on goes into a file. Returns what to hand to stderr_end(). */
static int stderr_begin(FILE *to)
{
	int kept = dup(STDERR_FILENO);

	fflush(stderr);
	assert_true(kept >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
	return kept;
}

static void stderr_end(int kept)
{
	fflush(stderr);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	close(kept);
}

static void what_the_server_says_while_connecting_is_not_printed(void **state)
{
	FILE *said = tmpfile();
	char info[1024];
	struct deferred *d;
	int kept;

	(void)state;
	assert_non_null(said);
	/* The warning of a database whose collation has changed. */
	run_on(db, "drop database if exists warns");
	run_on(db, "create database warns template template0");
	run_on(db, "update pg_database set datcollversion = '1' where datname = 'warns'");
	snprintf(info, sizeof(info), "%s dbname=warns", conninfo);
	kept = stderr_begin(said);
	PQfinish(PQconnectdb(info));
	stderr_end(kept);
	assert_true(ftell(said) > 0); /* as libpq does it */
	assert_int_equal(ftruncate(fileno(said), 0), 0);
	rewind(said);
	kept = stderr_begin(said);
	deferred_open(&d, info, NULL);
	snprintf(info, sizeof(info), "host=/nowhere,%s port=5432,%s user=%s dbname=warns", PQhost(db), PQport(db),
		 PQuser(db));
	deferred_open(&d, info, NULL);
	stderr_end(kept);
	assert_int_equal(lseek(fileno(said), 0, SEEK_END), 0);
	fclose(said);
	run_on(db, "drop database warns");
}

/* A server that takes connections and then is silent. Returns the socket, fills in the port. */
static int silent_server(int *port, int backlog)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(a);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)) | listen(fd, backlog) |
				 getsockname(fd, (struct sockaddr *)&a, &len),
			 0);
	*port = ntohs(a.sin_port);
	return fd;
}

static void a_silent_server_is_given_up_after_connect_timeout(void **state)
{
	struct deferred_error err;
	struct deferred *d = NULL;
	int64_t start = now_ms();
	char info[1024];
	int port, full_port, fd = silent_server(&port, 5), full = silent_server(&full_port, 0), queued[4];
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons((uint16_t)full_port) };

	(void)state;
	snprintf(info, sizeof(info), "host=127.0.0.1 port=%d connect_timeout=2", port);
	assert_int_equal(deferred_open(&d, info, &err), DEFERRED_ECONNECT);
	assert_non_null(strstr(err.message, "timeout expired"));
	assert_in_range(now_ms() - start, 1500, 6000);
	/* One that does not even take connections: its queue is full. */
	for (size_t i = 0; i < sizeof(queued) / sizeof(queued[0]); i++) {
		queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(queued[i], (struct sockaddr *)&a, sizeof(a));
	}
	snprintf(info, sizeof(info), "host=127.0.0.1 port=%d connect_timeout=2", full_port);
	start = now_ms();
	assert_int_equal(deferred_open(&d, info, &err), DEFERRED_ECONNECT);
	assert_non_null(strstr(err.message, "timeout expired"));
	assert_in_range(now_ms() - start, 1500, 6000);
	for (size_t i = 0; i < sizeof(queued) / sizeof(queued[0]); i++)
		close(queued[i]);
	close(full);
	/* The next host is tried after it. */
	snprintf(info, sizeof(info), "host=127.0.0.1,%s port=%d,%s user=%s dbname=%s connect_timeout=2", PQhost(db),
		 port, PQport(db), PQuser(db), PQdb(db));
	assert_ok(deferred_open(&d, info, &err), &err);
	deferred_close(d);
	assert_int_equal(deferred_open(&d, "host=/nowhere connect_timeout=soon", &err), DEFERRED_ECONNECT);
	close(fd);
}

static void a_connection_lost_before_sending_is_opened_again(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_call_spec call = { .fn = "f" };
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
	for (int i = 0; i < 3; i++) {
		run_on(db, "select pg_terminate_backend(pid) from pg_stat_activity"
			   " where application_name = 'libdeferred' and datname = current_database()");
		wait_until("0", "select count(*) from pg_stat_activity where application_name = 'libdeferred'"
				" and datname = current_database()");
		if (i == 0)
			assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
		else if (i == 1)
			assert_ok(deferred_defer_many(d, &call, 1, &id, &err), &err);
		else
			assert_ok(deferred_cancel(d, id, &err), &err);
	}
	assert_int_equal(jobs(), 3);
	deferred_close(d);
}

/* A proxy in front of the server: passes everything on, until it is told to drop the next answer. */
struct proxy {
	char dir[64];
	struct sockaddr_un server, own;
	int listener;
	atomic_bool drop_answer, stop;
	pthread_t thread;
};

static int proxy_dial(const struct sockaddr_un *to)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Move what is there. Returns false when the connection is at its end. */
static bool proxy_move(struct proxy *p, int from, int to, bool is_answer)
{
	char buf[65536];
	ssize_t n = read(from, buf, sizeof(buf));

	if (n <= 0 || (is_answer && atomic_exchange(&p->drop_answer, false)))
		return false;
	for (ssize_t at = 0; at < n;) {
		ssize_t w = write(to, buf + at, (size_t)(n - at));

		if (w <= 0)
			return false;
		at += w;
	}
	return true;
}

/* One connection at a time is enough here. */
static void *proxy_main(void *data)
{
	struct proxy *p = data;

	while (!atomic_load(&p->stop)) {
		struct pollfd l = { .fd = p->listener, .events = POLLIN };
		int client, server;
		bool open = true;

		if (poll(&l, 1, 50) <= 0)
			continue;
		client = accept(p->listener, NULL, NULL);
		server = proxy_dial(&p->server);
		while (open && client >= 0 && server >= 0 && !atomic_load(&p->stop)) {
			struct pollfd f[2] = { { .fd = client, .events = POLLIN }, { .fd = server, .events = POLLIN } };

			if (poll(f, 2, 50) <= 0)
				continue;
			if (f[0].revents)
				open = proxy_move(p, client, server, false);
			if (open && f[1].revents)
				open = proxy_move(p, server, client, true);
		}
		close(client);
		close(server);
	}
	return NULL;
}

static void proxy_start(struct proxy *p)
{
	memset(p, 0, sizeof(*p));
	snprintf(p->dir, sizeof(p->dir), "/tmp/deferred-proxy.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->server.sun_family = p->own.sun_family = AF_UNIX;
	snprintf(p->server.sun_path, sizeof(p->server.sun_path), "%.80s/.s.PGSQL.%.10s", PQhost(db), PQport(db));
	snprintf(p->own.sun_path, sizeof(p->own.sun_path), "%s/.s.PGSQL.5432", p->dir);
	p->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(p->listener, (struct sockaddr *)&p->own, sizeof(p->own)), 0);
	assert_int_equal(listen(p->listener, 5), 0);
	assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
}

static void proxy_stop(struct proxy *p)
{
	atomic_store(&p->stop, true);
	pthread_join(p->thread, NULL);
	close(p->listener);
	unlink(p->own.sun_path);
	rmdir(p->dir);
}

static void a_lost_answer_is_an_unknown_outcome_and_a_key_makes_it_safe(void **state)
{
	const struct deferred_opts o = { .key = "answer" };
	struct deferred_error err;
	struct deferred *d;
	struct proxy p;
	char info[1024];
	int64_t id = 0;

	(void)state;
	proxy_start(&p);
	snprintf(info, sizeof(info), "%s host=%s port=5432", conninfo, p.dir);
	d = open_at(info);
	/* The second time the statement is prepared, which has an answer too. */
	assert_ok(deferred_defer(d, "warm_up", NULL, NULL, NULL, &err), &err);
	assert_ok(deferred_defer(d, "warm_up", NULL, NULL, NULL, &err), &err);
	atomic_store(&p.drop_answer, true);
	assert_int_equal(deferred_defer(d, "f", NULL, &o, &id, &err), DEFERRED_ELOST);
	assert_int_equal(id, 0);
	wait_until("1", "select count(*) from deferred.__deferred where key = 'answer'");
	assert_ok(deferred_defer(d, "f", NULL, &o, &id, &err), &err);
	assert_int_equal(atoll(value("select id from deferred.__deferred where key = 'answer'")), id);
	assert_int_equal(jobs(), 3);
	/* A question is asked again by the library. */
	atomic_store(&p.drop_answer, true);
	assert_int_equal(deferred_wait(d, id, 0, NULL, &err), DEFERRED_ETIMEOUT);
	deferred_close(d);
	proxy_stop(&p);
}

/* ---- default context -------------------------------------------------------------------------- */

static void defer_works_on_both_sides_of_a_fork(void **state)
{
	int64_t first = defer("f", "1", NULL), child_id = 0, last;
	char before[32];
	int fds[2], status;
	pid_t child;

	(void)state;
	assert_true(first > 0);
	snprintf(before, sizeof(before), "%s",
		 value("select pid from pg_stat_activity where application_name = 'libdeferred'"
		       " and datname = current_database()"));
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		child_id = defer("f", "2", NULL);
		status = write(fds[1], &child_id, sizeof(child_id)) != sizeof(child_id);
		_exit(status);
	}
	assert_int_equal(read(fds[0], &child_id, sizeof(child_id)), sizeof(child_id));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(child_id > first);
	last = defer("f", "3", NULL);
	assert_true(last > child_id);
	/* The parent goes on with the session it had. */
	wait_until("1", "select count(*) from pg_stat_activity where application_name = 'libdeferred' and datname = "
			"current_database()");
	assert_string_equal(value("select pid from pg_stat_activity where application_name = 'libdeferred' and datname "
				  "= current_database()"),
			    before);
	assert_int_equal(jobs(), 3);
	close(fds[0]);
	close(fds[1]);
}

/* Not under the sanitizer: a child may find the lock of its own malloc() taken. */
#ifndef __SANITIZE_ADDRESS__
static atomic_bool forks_done;

static void *open_again_and_again(void *data)
{
	struct deferred_error err;
	struct deferred *d;

	(void)data;
	while (!atomic_load(&forks_done))
		/* Nobody is there to connect to: most of the time goes by in the config file. */
		if (deferred_open(&d, "host=/nowhere", &err) != DEFERRED_ECONNECT)
			return (void *)"opened";
	return NULL;
}

/* A child made while another thread reads the config file has to read it too. */
static void a_child_can_defer_whatever_the_threads_of_its_parent_were_at(void **state)
{
	char file[] = "/tmp/client_test.XXXXXX", *before = getenv("DEFERRED_CONFIG");
	void *why = NULL;
	pthread_t thread;
	FILE *fp;

	(void)state;
	fp = fdopen(mkstemp(file), "w");
	before = before ? strdup(before) : NULL;
	for (int i = 0; i < 2000; i++)
		assert_true(fprintf(fp, "settings \"plugin_%d\" { one = 1 two = 2 }\n", i) > 0);
	assert_int_equal(fclose(fp), 0);
	setenv("DEFERRED_CONFIG", file, 1);
	atomic_store(&forks_done, false);
	assert_int_equal(pthread_create(&thread, NULL, open_again_and_again, NULL), 0);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			alarm(DEADLINE_MS / 1000); /* one that hangs is killed */
			_exit(defer("f", NULL, NULL) > 0 ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	atomic_store(&forks_done, true);
	pthread_join(thread, &why);
	assert_null(why);
	assert_int_equal(jobs(), 20);
	if (before)
		setenv("DEFERRED_CONFIG", before, 1);
	else
		unsetenv("DEFERRED_CONFIG");
	free(before);
	unlink(file);
}
#endif

#define THREADS 4
#define CALLS 100

static void *defer_some(void *data)
{
	int64_t *ids = data;

	for (int i = 0; i < CALLS; i++)
		ids[i] = defer("f", NULL, NULL);
	return NULL;
}

static void threads_take_turns_on_defer(void **state)
{
	static int64_t ids[THREADS][CALLS];
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, defer_some, ids[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < CALLS; j++)
			assert_true(ids[i][j] > 0);
	assert_int_equal(jobs(), THREADS * CALLS);
	assert_ledger_clean();
}

static void *defer_badly(void *data)
{
	(void)data;
	assert_int_equal(defer("not a name", NULL, NULL), DEFERRED_EINVAL);
	assert_int_equal(deferred_last_error()->code, DEFERRED_EINVAL);
	return NULL;
}

static void the_last_error_belongs_to_its_thread(void **state)
{
	pthread_t thread;

	(void)state;
	assert_true(defer("f", NULL, NULL) > 0);
	assert_int_equal(deferred_last_error()->code, 0);
	assert_int_equal(pthread_create(&thread, NULL, defer_badly, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(deferred_last_error()->code, 0);
	assert_int_equal(defer("f", "{", NULL), DEFERRED_EINVAL);
	assert_non_null(strstr(deferred_last_error()->message, "invalid JSON"));
}

/* ---- cancel, wait ----------------------------------------------------------------------------- */

/* ---- a job about itself ----------------------------------------------------------------------- */

/* A job that is claimed with this receipt. */
static int64_t claimed(int64_t receipt)
{
	struct deferred_error err;
	int64_t id = 0;

	assert_ok(deferred_defer_conn(db, "f", NULL, NULL, &id, &err), &err);
	hold(id, receipt);
	return id;
}

/* What its function is told. */
static int64_t token_of_claim(int64_t id)
{
	return strtoll(value_on(db,
				"select deferred.__token(%lld, receipt, worker) from deferred.__deferred_lease where "
				"%lld = any (ids)",
				(long long)id, (long long)id),
		       NULL, 10);
}

static void a_job_finishes_in_the_callers_transaction(void **state)
{
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	int64_t id = claimed(-5), token = token_of_claim(id);

	(void)state;
	run_on(conn, "begin");
	assert_ok(deferred_extend_conn(conn, id, token, 1000, &err), &err);
	assert_ok(deferred_finish_conn(conn, id, token, "d\xc3\xb6ne", &err), &err);
	assert_int_equal(hot_jobs(), 1);
	run_on(conn, "rollback");
	assert_int_equal(hot_jobs(), 1);
	assert_ok(deferred_extend_conn(conn, id, token, INT64_C(604800000), NULL), &err);
	assert_string_equal(
		value_on(db, "select max(expires_at) > now() + interval '6 days' from deferred.__deferred_lease"), "t");
	assert_ok(deferred_finish_conn(conn, id, token, "d\xc3\xb6ne", NULL), &err);
	assert_int_equal(hot_jobs(), 0);
	assert_string_equal(value_on(db, "select outcome || attempt || result from deferred.__deferred_log"),
			    "ok1d\xc3\xb6ne");
	PQfinish(conn);
}

static void a_claim_that_is_not_valid_is_stale_and_spoils_the_transaction(void **state)
{
	PGconn *conn = connect_to(conninfo);
	struct deferred_error err;
	int64_t id = claimed(5), token = token_of_claim(id);

	(void)state;
	run_on(conn, "begin");
	assert_int_equal(deferred_finish_conn(conn, id, 5, NULL, &err), DEFERRED_ESTALE);
	assert_int_equal(err.code, DEFERRED_ESTALE);
	assert_string_equal(err.sqlstate, "55000");
	assert_non_null(strstr(err.message, "another worker has claimed it"));
	assert_non_null(strstr(err.hint, "roll back"));
	assert_int_equal(PQtransactionStatus(conn), PQTRANS_INERROR);
	assert_int_equal(deferred_finish_conn(conn, id, token, NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "25P02");
	run_on(conn, "rollback");
	assert_int_equal(deferred_extend_conn(conn, id, token ^ 1, 1, &err), DEFERRED_ESTALE);
	assert_int_equal(hot_jobs(), 1);
	PQfinish(conn);
	assert_string_equal(deferred_strerror(DEFERRED_ESTALE), "the claim is not valid any more");
}

static void what_is_no_claim_is_refused_before_anything_is_sent(void **state)
{
	static char big[8194];
	struct deferred_error err;

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(deferred_finish_conn(db, 0, 5, NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_finish_conn(db, 5, 0, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.hint, "deferred run"));
	assert_int_equal(deferred_finish_conn(db, 1, 1, big, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "8193 bytes"));
	assert_int_equal(deferred_finish_conn(db, 1, 1, "\xff", &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_extend_conn(db, 1, 1, 0, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_extend_conn(db, 1, 1, INT64_C(604800001), &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_extend_conn(db, -1, 1, 5, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_extend_conn(NULL, 1, 1, 5, &err), DEFERRED_ECONNECT);
}

static void *finish_job(void *data)
{
	PGconn *conn = connect_to(conninfo);
	const int64_t *id = data;

	value_on(conn,
		 "with gone as (delete from deferred.__deferred_hot where id = %lld returning id)"
		 " insert into deferred.__deferred_log (job_id, attempt, outcome, final, error)"
		 " select id, 1, 'crashed', true, repeat('\xc3\xa9', 400) from gone returning job_id",
		 (long long)*id);
	PQfinish(conn);
	return NULL;
}

static void waiting_ends_with_the_job(void **state)
{
	struct deferred *d = open_at(conninfo), *viewer = open_as("deferred_viewer");
	struct deferred_outcome outcome;
	struct deferred_error err;
	pthread_t thread;
	int64_t id = 0;

	(void)state;
	assert_int_equal(deferred_wait(d, 4711, -1, NULL, &err), DEFERRED_ENOTFOUND);
	assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
	assert_int_equal(deferred_wait(d, id, 0, &outcome, &err), DEFERRED_ETIMEOUT);
	assert_int_equal(deferred_wait(d, id, 30, &outcome, &err), DEFERRED_ETIMEOUT);
	assert_int_equal(pthread_create(&thread, NULL, finish_job, &id), 0);
	assert_ok(deferred_wait(d, id, DEADLINE_MS, &outcome, &err), &err);
	pthread_join(thread, NULL);
	assert_string_equal(outcome.state, "dead");
	assert_string_equal(outcome.outcome, "crashed");
	assert_int_equal(outcome.attempt, 1);
	assert_int_equal(strlen(outcome.error), 510); /* 255 characters of two bytes: none is cut in two */
	assert_ok(deferred_wait(d, id, -1, NULL, &err), &err);
	assert_ok(deferred_wait(viewer, id, 0, &outcome, &err), &err);
	assert_string_equal(outcome.outcome, "crashed");
	assert_string_equal(outcome.error, "");
	deferred_close(d);
	deferred_close(viewer);
}

static void a_cancelled_job_is_gone_for_good(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_outcome outcome;
	struct deferred_error err;
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
	assert_ok(deferred_cancel(d, id, &err), &err);
	assert_int_equal(hot_jobs(), 0);
	assert_ok(deferred_wait(d, id, 0, &outcome, &err), &err);
	assert_string_equal(outcome.state, "cancelled");
	assert_int_equal(outcome.attempt, 0);
	assert_int_equal(deferred_cancel(d, id, &err), DEFERRED_ENOTFOUND);
	assert_int_equal(deferred_cancel(d, id + 1000, &err), DEFERRED_ENOTFOUND);
	assert_ledger_clean();
	deferred_close(d);
}

static void a_job_that_waits_is_changed(void **state)
{
	static const char changed[] = "select concat_ws(' ', queue, priority, params) from deferred.__deferred "
				      "where id = %lld";
	struct deferred *d = open_as("deferred_producer"), *other = open_at(conninfo);
	struct deferred_error err;
	int64_t id = 0, foreign = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", "{\"a\": 1}", NULL, &id, &err), &err);
	assert_ok(deferred_update(d, id, "{\"queue\": \"q\", \"priority\": 5, \"params\": {\"a\":  2}}", &err), &err);
	assert_string_equal(value(changed, (long long)id), "q 5 {\"a\":  2}");
	PQclear(PQexec(db, "begin"));
	assert_ok(deferred_update_conn(db, id, "{\"priority\": 6}", &err), &err);
	PQclear(PQexec(db, "rollback"));
	assert_string_equal(value(changed, (long long)id), "q 5 {\"a\":  2}");
	assert_ok(deferred_update_conn(db, id, "{\"priority\": 7}", &err), &err);
	assert_string_equal(value(changed, (long long)id), "q 7 {\"a\":  2}");

	assert_int_equal(deferred_update(d, id, "{\"priority\": \"high\"}", &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "22023");
	assert_non_null(strstr(err.message, "option 'priority'"));
	assert_int_equal(deferred_update(d, id, "{\"priority\": 5", &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "changes of job"));
	assert_int_equal(deferred_update(d, id, "{\"label\": \"\xff\"}", &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_update_conn(db, id, NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_update(NULL, id, "{}", &err), DEFERRED_EINVAL);
	assert_ok(deferred_defer(other, "f", NULL, NULL, &foreign, &err), &err);
	assert_int_equal(deferred_update(d, foreign, "{\"priority\": 5}", &err), DEFERRED_ENOTFOUND);
	assert_int_equal(deferred_update(d, id + 1000, "{\"priority\": 5}", &err), DEFERRED_ENOTFOUND);
	assert_ok(deferred_cancel(d, id, &err), &err);
	assert_int_equal(deferred_update(d, id, "{\"priority\": 5}", &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "55006");
	assert_string_equal(value(changed, (long long)id), "q 7 {\"a\":  2}");
	assert_ledger_clean();
	deferred_close(other);
	deferred_close(d);
}

static void a_producer_reads_the_result_of_its_job(void **state)
{
	struct deferred *d = open_as("deferred_producer"), *other = open_at(conninfo);
	struct deferred_error err;
	char text[8193] = "before", small[4];
	int64_t id = 0;

	(void)state;
	assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
	assert_int_equal(deferred_result(d, id, text, sizeof(text), &err), DEFERRED_ETIMEOUT);
	assert_string_equal(text, "before");
	PQclear(PQexec(db, "with gone as (delete from deferred.__deferred_hot returning id) "
			   "insert into deferred.__deferred_log (job_id, attempt, outcome, final, result) "
			   "select id, 1, 'ok', true, 'ab\xe2\x82\xac' from gone"));
	assert_ok(deferred_result(d, id, text, sizeof(text), &err), &err);
	assert_string_equal(text, "ab\xe2\x82\xac");
	assert_ok(deferred_result(d, id, small, sizeof(small), &err), &err);
	assert_string_equal(small, "ab");
	assert_ok(deferred_defer(d, "f", NULL, NULL, &id, &err), &err);
	assert_ok(deferred_cancel(d, id, &err), &err);
	assert_ok(deferred_result(d, id, text, sizeof(text), &err), &err);
	assert_string_equal(text, "");
	assert_int_equal(deferred_result(d, id + 1000, text, sizeof(text), &err), DEFERRED_ENOTFOUND);
	assert_ok(deferred_defer(other, "f", NULL, NULL, &id, &err), &err);
	assert_int_equal(deferred_result(d, id, text, sizeof(text), &err), DEFERRED_ENOTFOUND);
	assert_int_equal(deferred_result(d, id, NULL, 0, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_result(NULL, id, text, sizeof(text), &err), DEFERRED_EINVAL);
	deferred_close(other);
	deferred_close(d);
}

/* Whatever it waits for: here a table that somebody has locked. */
static void a_context_waits_no_longer_than_asked(void **state)
{
	const struct deferred_open_opts opts = { .answer_ms = 150 }, locks = { .lock_ms = 50 },
					wrong = { .reserved = { 1 } };
	const struct deferred_call_spec calls[2] = { { .fn = "f" }, { .fn = "f" } };
	struct deferred_error err;
	struct deferred *d, *e;

	(void)state;
	assert_int_equal(deferred_open_with(&d, NULL, &wrong, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_open_with(&d, NULL, &opts, &err), 0);
	assert_int_equal(deferred_open_with(&e, NULL, &locks, &err), 0);
	PQclear(PQexec(db, "begin; lock table deferred.__deferred_hot in access exclusive mode"));
	assert_int_equal(deferred_defer(d, "f", NULL, NULL, NULL, &err), DEFERRED_ETIMEOUT);
	assert_string_equal(err.message, "not stored: no answer for 150 ms; nothing has been changed");
	assert_string_equal(err.sqlstate, "57014");
	assert_int_equal(deferred_defer_many(d, calls, 2, NULL, &err), DEFERRED_ETIMEOUT);
	assert_int_equal(deferred_defer_many(e, calls, 2, NULL, &err), DEFERRED_ETIMEOUT);
	assert_string_equal(err.sqlstate, "55P03");
	PQclear(PQexec(db, "rollback"));
	assert_int_equal(jobs(), 0);
	assert_int_equal(deferred_defer(d, "f", NULL, NULL, NULL, &err), 0); /* on a new connection */
	assert_int_equal(deferred_defer(e, "f", NULL, NULL, NULL, &err), 0);
	assert_int_equal(jobs(), 2);
	deferred_close(d);
	deferred_close(e);
}

static void a_job_waits_for_others_alone_and_among_many(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	struct deferred_after after[2] = { { .as = "pack \"it\"" }, { .on = DEFERRED_AFTER_FAILED } };
	const struct deferred_opts opts = { .after = after, .after_len = 2, .queue = "q" };
	const struct deferred_call_spec calls[] = { { .fn = "a" }, { .fn = "b", .opts = &opts }, { .fn = "c" } };
	int64_t ids[3];

	(void)state;
	assert_ok(deferred_defer(d, "a", NULL, NULL, &after[0].job, &err), &err);
	assert_ok(deferred_defer(d, "a", NULL, NULL, &after[1].job, &err), &err);
	assert_ok(deferred_defer(d, "b", NULL, &opts, &ids[0], &err), &err);
	assert_string_equal(value("select state || ' ' || queue from deferred.job where id = %lld", (long long)ids[0]),
			    "waiting q");
	assert_string_equal(value("select string_agg(format('%%s %%s %%s', parent = %lld, \"on\", name), ', ' order by "
				  "parent) from deferred.parents(%lld)",
				  (long long)after[0].job, (long long)ids[0]),
			    "t ok pack \"it\", f failed ");
	assert_ok(deferred_defer_many(d, calls, 3, ids, &err), &err);
	assert_string_equal(value("select string_agg(fn || ' ' || state, ', ' order by id) from deferred.job where id "
				  "in (%lld, %lld, %lld)",
				  (long long)ids[0], (long long)ids[1], (long long)ids[2]),
			    "a ready, b waiting, c ready");
	after[1].job = 1000000;
	assert_int_equal(deferred_defer_many(d, calls, 3, ids, &err), DEFERRED_EDB);
	assert_non_null(strstr(err.message, "job 1000000 does not exist"));
	assert_int_equal(jobs(), 6);
	assert_ok(deferred_defer_flow(
			  d, "{\"jobs\": [{\"name\": \"a\", \"fn\": \"a\"}, {\"fn\": \"b\", \"after\": \"a\"}]}", ids,
			  &err),
		  &err);
	assert_string_equal(
		value("select string_agg(coalesce(name, '?') || ' ' || state, ', ') from deferred.flow_jobs(%lld)",
		      (long long)ids[0]),
		"a ready, ? waiting");
	PQclear(PQexec(db, "begin"));
	assert_ok(deferred_defer_flow_conn(db, "{\"jobs\": [{\"fn\": \"a\"}]}", NULL, &err), &err);
	assert_int_equal(jobs(), 9);
	PQclear(PQexec(db, "rollback"));
	assert_int_equal(jobs(), 8);
	assert_int_equal(deferred_defer_flow(d, "{", NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_defer_flow_conn(db, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_defer_flow(NULL, "{}", NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_defer_flow(d, "{}", NULL, &err), DEFERRED_EDB);
	assert_string_equal(err.message, "flow: 'jobs' is missing");
	deferred_close(d);
}

static int64_t members(int64_t flow)
{
	return strtoll(value("select count(*) from deferred.flow_jobs(%lld)", (long long)flow), NULL, 10);
}

static void a_flow_is_opened_filled_and_closed(void **state)
{
	struct deferred *d = open_at(conninfo);
	struct deferred_error err;
	struct deferred_after after = { 0 };
	struct deferred_opts opts = { 0 }, other = { 0 }, waits = { .after = &after, .after_len = 1 };
	const struct deferred_call_spec calls[] = { { .fn = "a", .opts = &opts },
						    { .fn = "b", .opts = &opts },
						    { .fn = "c", .opts = &waits },
						    { .fn = "d", .opts = &other },
						    { .fn = "e" } };
	struct deferred_call_spec *many = calloc(6000, sizeof(*many));
	int64_t ids[5];

	(void)state;
	assert_ok(deferred_flow_open(d, "{\"then\": [{\"fn\": \"report\"}]}", &opts.flow, &err), &err);
	assert_ok(deferred_flow_open(d, "{}", &other.flow, &err), &err);
	assert_ok(deferred_defer(d, "a", NULL, &opts, &after.job, &err), &err);
	waits.flow = after.job; /* a job stands for its flow */
	assert_ok(deferred_defer_many(d, calls, 5, ids, &err), &err);
	assert_int_equal(members(opts.flow), 4);
	assert_int_equal(members(other.flow), 1);
	assert_string_equal(value("select state from deferred.job where id = %lld", (long long)ids[2]), "waiting");
	/* More than a statement takes, and what COPY would not add. */
	for (int i = 0; i < 6000; i++)
		many[i] = calls[3];
	assert_ok(deferred_defer_many(d, many, 6000, NULL, &err), &err);
	free(many);
	assert_int_equal(members(other.flow), 6001);
	PQclear(PQexec(db, "begin"));
	assert_ok(deferred_flow_open_conn(db, "{}", &ids[0], &err), &err);
	assert_ok(deferred_flow_close_conn(db, other.flow, &err), &err);
	PQclear(PQexec(db, "rollback"));
	assert_int_equal(deferred_flow_close(d, ids[0], &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "P0002");
	assert_ok(deferred_flow_close(d, opts.flow, &err), &err);
	assert_ok(deferred_flow_close(d, opts.flow, &err), &err);
	assert_int_equal(members(opts.flow), 5);
	assert_string_equal(
		value("select string_agg(flow::text, ' ') from deferred.__deferred_flow_open where closed_at is null"),
		value("select %lld", (long long)other.flow));
	assert_int_equal(deferred_flow_open(d, "[", NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_flow_open(NULL, "{}", NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_flow_open_conn(db, NULL, NULL, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_flow_close(NULL, 1, &err), DEFERRED_EINVAL);
	opts.flow = -1;
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EINVAL);
	assert_string_equal(err.message, "a: option 'flow' is not the number of a flow: -1");
	deferred_close(d);
}

static void jobs_wait_for_events(void **state)
{
	struct deferred_error err = { 0 };
	struct deferred *d = open_at(conninfo);
	const struct deferred_after events[] = {
		{ .job = DEFERRED_AFTER_EVENT, .as = "paid \"1\"" },
		{ .job = DEFERRED_AFTER_EVENT,
		  .as = "{\"event\": \"ok\", \"within\": \"1h\", \"on_timeout\": \"run\"}" },
	};
	struct deferred_opts opts = { .after = events, .after_len = 2 };
	struct deferred_event event = { .name = "paid \"1\"", .payload = "{\"amount\": 12}" };
	const struct deferred_call_spec calls[] = { { "a", NULL, &opts }, { "b", NULL, NULL } };
	struct deferred_after wrong = { .job = DEFERRED_AFTER_EVENT };
	int64_t ids[2];

	(void)state;
	assert_ok(deferred_defer_many(d, calls, 2, ids, &err), &err);
	assert_string_equal(value("select string_agg(name || on_timeout::text, ' ' order by parent desc) from "
				  "deferred.__deferred_awaited where child = %lld",
				  (long long)ids[0]),
			    "paid \"1\"c okr");
	assert_ok(deferred_send_event(d, &event, &err), &err);
	PQclear(PQexec(db, "begin"));
	event = (struct deferred_event){ .name = "ok", .keep_ms = -1 };
	assert_ok(deferred_send_event_conn(db, &event, &err), &err);
	PQclear(PQexec(db, "rollback"));
	event.keep_ms = 60000;
	assert_ok(deferred_send_event_conn(db, &event, &err), &err);
	assert_string_equal(
		value("select string_agg(concat_ws(' ', name, payload, kept_until - sent_at), ', ' order by id) "
		      "from deferred.__deferred_event"),
		"paid \"1\" {\"amount\": 12} 1 day, ok 00:01:00");
	PQclear(PQexec(db, "select deferred.__settle(10)"));
	assert_string_equal(value("select state from deferred.job where id = %lld", (long long)ids[0]), "ready");

	event.role = "nobody_of_this_name";
	opts.after_len = 1;
	opts.after = &wrong;
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "a: after[0]: an event needs its name"));
	wrong = (struct deferred_after){ .job = DEFERRED_AFTER_EVENT, .on = DEFERRED_AFTER_ENDED, .as = "e" };
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EINVAL);
	wrong = (struct deferred_after){ .job = DEFERRED_AFTER_EVENT, .as = "{" };
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EINVAL);
	wrong.as = "\xff";
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EINVAL);
	wrong.as = "{\"within\": \"1h\"}";
	assert_int_equal(deferred_defer(d, "a", NULL, &opts, NULL, &err), DEFERRED_EDB);
	assert_int_equal(deferred_send_event(NULL, &event, &err), DEFERRED_EINVAL);
	assert_int_equal(deferred_send_event(d, NULL, &err), DEFERRED_EINVAL);
	event.payload = "{";
	assert_int_equal(deferred_send_event_conn(db, &event, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "payload of event 'ok'"));
	event.payload = NULL;
	event.reserved[3] = 1;
	assert_int_equal(deferred_send_event_conn(db, &event, &err), DEFERRED_EINVAL);
	event = (struct deferred_event){ .name = "" };
	assert_int_equal(deferred_send_event_conn(db, &event, &err), DEFERRED_EDB);
	assert_string_equal(err.sqlstate, "22023");
	deferred_close(d);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, set_up)
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_stored),
		TEST(every_option_lands_in_the_row),
		TEST(params_are_kept_byte_for_byte),
		TEST(another_client_encoding_does_not_change_the_text),
		TEST(bad_arguments_are_refused_before_anything_is_sent),
		TEST(a_missing_context_is_an_invalid_argument),
		TEST(params_of_10_mb_or_600_levels_are_refused),
		TEST(the_job_shares_the_fate_of_the_callers_transaction),
		TEST(the_callers_session_is_left_as_it_was),
		TEST(an_aborted_transaction_and_a_busy_connection_are_named),
		TEST(a_key_in_use_skips_refuses_or_replaces),
		TEST(a_waiting_job_is_updated_and_gives_its_key_up_when_it_starts),
		TEST(a_mail_shares_the_fate_of_the_callers_transaction),
		TEST(many_calls_go_in_one_statement),
		TEST(very_many_calls_go_by_copy_for_the_owner),
		TEST(what_copy_refuses_at_its_end_is_an_error),
		TEST(very_many_calls_go_in_several_statements_for_a_producer),
		TEST(tags_are_stored_alone_and_in_bulk),
		TEST(a_trace_context_is_stored_alone_and_in_bulk),
		TEST(a_full_queue_refuses_or_drops),
		TEST(a_message_a_key_and_a_limit_are_stored_alone_and_in_bulk),
		TEST(a_full_queue_refuses_or_drops),
		TEST(a_job_waits_for_others_alone_and_among_many),
		TEST(a_flow_is_opened_filled_and_closed),
		TEST(jobs_wait_for_events),
		TEST(one_bad_call_in_the_middle_stores_none),
		TEST(many_calls_share_the_fate_of_the_callers_transaction),
		TEST(keys_among_many_are_honoured),
		TEST(a_limited_role_stays_limited_in_bulk),
		TEST(the_producer_role_alone_suffices),
		TEST(a_role_without_rights_is_told_which_to_ask_for),
		TEST(opening_says_what_is_wrong),
		TEST(what_the_server_says_while_connecting_is_not_printed),
		TEST(a_silent_server_is_given_up_after_connect_timeout),
		TEST(a_connection_lost_before_sending_is_opened_again),
		TEST(a_lost_answer_is_an_unknown_outcome_and_a_key_makes_it_safe),
		TEST(defer_works_on_both_sides_of_a_fork),
#ifndef __SANITIZE_ADDRESS__
		TEST(a_child_can_defer_whatever_the_threads_of_its_parent_were_at),
#endif
		TEST(threads_take_turns_on_defer),
		TEST(the_last_error_belongs_to_its_thread),
		TEST(a_job_finishes_in_the_callers_transaction),
		TEST(a_claim_that_is_not_valid_is_stale_and_spoils_the_transaction),
		TEST(what_is_no_claim_is_refused_before_anything_is_sent),
		TEST(waiting_ends_with_the_job),
		TEST(a_cancelled_job_is_gone_for_good),
		TEST(a_job_that_waits_is_changed),
		TEST(a_producer_reads_the_result_of_its_job),
		TEST(a_context_waits_no_longer_than_asked),
	};

	int rc;

	conninfo = getenv("DEFERRED_TEST_DB");
	if (!conninfo) {
		fprintf(stderr, "DEFERRED_TEST_DB names no database\n");
		return 1;
	}
	setenv("DEFERRED_DB", conninfo, 1);
	db = PQconnectdb(conninfo);
	if (PQstatus(db) != CONNECTION_OK) {
		fprintf(stderr, "%s", PQerrorMessage(db));
		return 1;
	}
	run_on(db, "set client_min_messages = warning; set timezone = 'UTC'");
	cmocka_set_message_output(CM_OUTPUT_TAP);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	PQfinish(db);
	return rc;
}
