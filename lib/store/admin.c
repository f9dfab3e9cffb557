/* SPDX-License-Identifier: MIT */
#include "store/admin.h"

#include "base/job.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STEP_JOBS 5000 /* looked at in one transaction */

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

int store_admin_look(struct pg *pg, int timeout_ms, struct deferred_error *err)
{
	char sql[192];

	snprintf(sql, sizeof(sql), "set transaction read only; set local statement_timeout = %d", timeout_ms);
	return pg_begin(pg, sql, err);
}

static const struct sql_statement *ls_statement(const char *state)
{
	if (!state || strcmp(state, job_state_text(JOB_IS_READY)) == 0 ||
	    strcmp(state, job_state_text(JOB_IS_DELAYED)) == 0 || strcmp(state, job_state_text(JOB_IS_CLAIMED)) == 0 ||
	    strcmp(state, job_state_text(JOB_IS_WAITING)) == 0)
		return &sql_admin_ls_hot;
	return strcmp(state, job_state_text(JOB_IS_DONE)) == 0 ? &sql_admin_ls_done : &sql_admin_ls_ended;
}

bool store_admin_lacks_end(const struct store_admin_filter *filter)
{
	return (filter->ended_since || filter->ended_until) && ls_statement(filter->state) == &sql_admin_ls_hot;
}

/* The conditions of a filter besides queue, function, state and the time of the end. */
static void arg_rest(struct pg_args *args, const struct store_admin_filter *filter)
{
	pg_arg_text(args, filter->label);
	pg_arg_text(args, filter->key);
	pg_arg_text(args, filter->rule);
	pg_arg_text(args, filter->by);
	pg_arg_text(args, filter->since);
	pg_arg_text(args, filter->until);
	pg_arg_text_array(args, filter->tags, NULL, filter->tags_len);
}

static void arg_ended(struct pg_args *args, const struct store_admin_filter *filter)
{
	pg_arg_text(args, filter->ended_since);
	pg_arg_text(args, filter->ended_until);
}

int store_admin_ls(struct pg *pg, const struct store_admin_filter *filter, struct pg_result **res,
		   struct deferred_error *err)
{
	const struct sql_statement *stmt = filter->running ? &sql_admin_ls_running : ls_statement(filter->state);
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, filter->queue);
	pg_arg_text(&args, filter->fn);
	if (!filter->running)
		pg_arg_text(&args, filter->state);
	pg_arg_int4(&args, filter->limit);
	if (!filter->running) {
		if (filter->after > 0)
			pg_arg_int8(&args, filter->after);
		else
			pg_arg_null(&args);
		arg_rest(&args, filter);
		pg_arg_text(&args, filter->label_index ? filter->label : NULL);
	}
	if (stmt == &sql_admin_ls_done || stmt == &sql_admin_ls_ended)
		arg_ended(&args, filter);
	return exec(pg, stmt, &args, res, err);
}

const char *store_admin_user(void)
{
	const struct passwd *user = getpwuid(getuid());

	return user ? user->pw_name : "somebody";
}

static void arg_user(struct pg_args *args)
{
	pg_arg_text(args, store_admin_user());
}

int store_admin_cancel(struct pg *pg, int64_t id, struct deferred_error *err)
{
	struct admin_cancel_row r;
	int rc = admin_cancel_one(pg, id, store_admin_user(), &r, err);

	return rc == 0 && !r.cancelled ? error_not_there(err, "job", id) : rc;
}

static int retry_job(struct pg *pg, int64_t id, bool from_start, struct deferred_error *err)
{
	struct admin_retry_row r;
	int rc = admin_retry_one(pg, id, store_admin_user(), from_start, &r, err);

	return rc == 0 && !r.retried ? error_not_there(err, "job", id) : rc;
}

int store_admin_retry(struct pg *pg, int64_t id, struct deferred_error *err)
{
	return retry_job(pg, id, false, err);
}

int store_admin_retry_from_start(struct pg *pg, int64_t id, struct deferred_error *err)
{
	return retry_job(pg, id, true, err);
}

int store_admin_update(struct pg *pg, int64_t id, const char *changes, struct deferred_error *err)
{
	struct admin_update_row r;
	int rc = admin_update_one(pg, id, changes, store_admin_user(), &r, err);

	return rc == 0 && !r.changed ? error_not_there(err, "job", id) : rc;
}

int store_admin_add_lines(struct pg *pg, const char *json, size_t len, struct pg_result **res,
			  struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_json(&args, json, len);
	return exec(pg, &sql_admin_add_lines, &args, res, err);
}

/* A deadlock with a worker costs a repetition: nothing of what failed was done. */
static int some(struct pg *pg, enum store_admin_verb verb, const struct store_admin_filter *filter, bool dry,
		const char *at, struct pg_result **res, struct deferred_error *err)
{
	static const struct sql_statement *const statements[] = { &sql_admin_cancel_some, &sql_admin_retry_some,
								  &sql_admin_update_some };
	struct deferred_error why;
	int rc, tries = 0;

	do {
		struct pg_args args;

		error_clear(&why);
		pg_args_init(&args);
		pg_arg_text(&args, filter->state);
		pg_arg_text(&args, filter->queue);
		pg_arg_text(&args, filter->fn);
		arg_rest(&args, filter);
		pg_arg_text(&args, at);
		pg_arg_int4(&args, dry);
		if (verb != STORE_ADMIN_CANCEL)
			pg_arg_text(&args, verb == STORE_ADMIN_RETRY ? filter->error : filter->changes);
		arg_user(&args);
		arg_ended(&args, filter);
		if (verb == STORE_ADMIN_RETRY)
			pg_arg_int4(&args, filter->from_start);
		rc = exec(pg, statements[verb], &args, res, &why);
	} while (rc < 0 && strncmp(why.sqlstate, "40", 2) == 0 && ++tries < 5);
	if (rc < 0 && err)
		*err = why;
	return rc;
}

static int64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int store_admin_some(struct pg *pg, enum store_admin_verb verb, const struct store_admin_filter *filter, bool dry,
		     int limit_ms, const volatile sig_atomic_t *stop, struct store_admin_bulk *bulk,
		     struct deferred_error *err)
{
	int64_t end_us = limit_ms ? clock_us() + limit_ms * INT64_C(1000) : INT64_MAX;
	struct pg_result *last = NULL, *res; /* last holds where to go on */
	struct admin_cancel_some_row r;
	int rc;

	memset(bulk, 0, sizeof(*bulk));
	do {
		rc = some(pg, verb, filter, dry, last ? admin_cancel_some_row(last, 0).after : NULL, &res, err);
		pg_result_free(last);
		last = res;
		if (rc < 0)
			break;
		r = admin_cancel_some_row(res, 0);
		bulk->done += r.done;
		if (bulk->refused == 0)
			snprintf(bulk->why, sizeof(bulk->why), "%s", r.why);
		bulk->refused += r.refused;
		bulk->more = r.after != NULL;
	} while (bulk->more && !*stop && clock_us() < end_us && !(dry && bulk->done >= STORE_ADMIN_COUNT_MAX));
	pg_result_free(last);
	return rc;
}

/* One step of many: adds to *done and moves *id on, to 0 when that was all. A deadlock with a worker costs a
 * repetition. */
static int step(struct pg *pg, const char *queue, int64_t *id, int64_t last_id, int64_t *done,
		struct deferred_error *err)
{
	struct admin_queue_clear_row cleared = { 0 };
	struct admin_queue_mark_row marked = { 0 };
	struct deferred_error why;
	int rc, tries = 0;

	do {
		error_clear(&why);
		if (queue)
			rc = admin_queue_clear_one(pg, queue, *id, last_id, STEP_JOBS, store_admin_user(), &cleared,
						   &why);
		else
			rc = admin_queue_mark_one(pg, *id, STEP_JOBS, &marked, &why);
	} while (rc < 0 && strncmp(why.sqlstate, "40", 2) == 0 && ++tries < 5);
	if (rc == 0) {
		*done += queue ? cleared.cancelled : marked.marked;
		*id = queue ? cleared.next_id : marked.next_id;
	} else if (err) {
		*err = why;
	}
	return rc;
}

int store_admin_mark(struct pg *pg, int64_t *marked, struct deferred_error *err)
{
	int64_t id = 1;
	int rc;

	do {
		rc = step(pg, NULL, &id, 0, marked, err);
	} while (rc == 0 && id > 0);
	return rc;
}

int store_admin_queue_clear(struct pg *pg, const char *queue, int64_t last_id, int64_t *cancelled,
			    struct deferred_error *err)
{
	int64_t id = 1;
	int rc;

	do {
		rc = step(pg, queue, &id, last_id, cancelled, err);
	} while (rc == 0 && id > 0);
	return rc;
}

int store_admin_queue_hot(struct pg *pg, const char *queue, int64_t *hot, int64_t *last_id, struct deferred_error *err)
{
	struct admin_queue_hot_row r;
	int rc = admin_queue_hot_one(pg, queue, STORE_ADMIN_COUNT_MAX, &r, err);

	if (rc == 0) {
		*hot = r.hot;
		*last_id = r.last_id;
		if (!r.exists) {
			rc = error_set(err, DEFERRED_ENOTFOUND, "queue", "queue '%s' does not exist", queue);
			error_hint(err, "list the queues: deferred queue ls");
		}
	}
	return rc;
}

/* Whole numbers, which the log keeps as real: a large one would be written with an exponent. */
#define MEASURE(column) "deferred.__measure(" column ") as " column ", "
static const char log_columns[] = "job_id, finished_at, started_at, worker, receipt, attempt, " MEASURE("wait_us")
	MEASURE("run_us") MEASURE("user_us") MEASURE("sys_us")
		MEASURE("max_rss_kb") "final, outcome, plugin, exit_code, signal, error, result";

int store_admin_copy_out(struct pg *pg, const char *aside,
			 int (*row)(void *data, const char *row, size_t len, struct deferred_error *err), void *data,
			 int64_t *rows, struct deferred_error *err)
{
	bool is_log = strstr(aside, "_log_") != NULL;
	char sql[1024];

	snprintf(sql, sizeof(sql), "copy (select %s from deferred.%s) to stdout (format csv, header)",
		 is_log ? log_columns : "*", aside);
	return pg_copy_out(pg, sql, row, data, rows, err);
}
