/* SPDX-License-Identifier: MIT */
#include "store/args.h"

#include "rows/claim.h"
#include "rows/worker.h"
#include "store/columns.h"

#include <poll.h>

#define STATEMENT_TIMEOUT "30s"
#define TRIES_MAX 5

static int answer_ms = 30000;

void store_set_answer_ms(int ms)
{
	answer_ms = ms;
}

/* ---- running one statement -------------------------------------------------------------------- */

int store_add_setup(struct pg *pg, struct deferred_error *err)
{
	struct pg_args args;
	int rc = 0;

	if (pg_is_own(pg))
		return 0;
	if (pg_is_shared(pg))
		rc = pg_pipeline_add(pg, &sql_session_isolation, NULL, TAG_SETUP, err);
	pg_args_init(&args);
	pg_arg_text(&args, STATEMENT_TIMEOUT);
	if (rc == 0)
		rc = pg_pipeline_add(pg, &sql_session_setup, &args, TAG_SETUP, err);
	pg_args_clear(&args);
	return rc;
}

static void ignore(void *data, int tag, const struct pg_result *res)
{
	(void)data;
	(void)tag;
	(void)res;
}

/* patience: how long it waits for a lock, text; NULL: as the setup says. */
static int try_one(struct pg *pg, const char *patience, const struct sql_statement *stmt, struct pg_args *args,
		   enum store_tag tag, store_result_fn *on_result, void *data, struct deferred_error *err)
{
	bool glance = stmt == &sql_run_glance;
	int rc = glance ? pg_pipeline_add(pg, &sql_run_glance_setup, NULL, TAG_SETUP, err) : store_add_setup(pg, err);
	struct pg_args setting;

	pg_args_init(&setting);
	pg_arg_text(&setting, patience);
	if (rc == 0 && patience)
		rc = pg_pipeline_add(pg, &sql_job_patience, &setting, TAG_SETUP, err);
	pg_args_clear(&setting);
	if (rc == 0)
		rc = pg_pipeline_add(pg, stmt, args, tag, err);
	if (rc == 0)
		rc = pg_pipeline_send(pg, err);
	return rc == 0 ? pg_pipeline_wait(pg, on_result ? on_result : ignore, data, answer_ms, err) : rc;
}

int store_run(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
	      store_result_fn *on_result, void *data, struct deferred_error *err)
{
	struct deferred_error why;
	int rc, tries = 0;

	for (;;) {
		error_clear(&why);
		rc = try_one(pg, NULL, stmt, args, tag, on_result, data, &why);
		if (rc == 0)
			break;
		if (error_class(why.sqlstate) == ERROR_PREPARED && !pg_is_unnamed(pg)) {
			pg_set_unnamed(pg);
		} else if (error_class(why.sqlstate) == ERROR_TRANSIENT && tries < TRIES_MAX) {
			poll(NULL, 0, 10 << tries);
			tries++;
		} else {
			if (err && !err->code)
				*err = why;
			break;
		}
	}
	pg_args_clear(args);
	return rc;
}

int store_run_aside(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
		    store_result_fn *on_result, void *data, struct deferred_error *err)
{
	struct deferred_error why = { 0 };
	int rc = try_one(pg, STORE_PATIENCE, stmt, args, tag, on_result, data, &why);

	/* A pooler has given us another session, which has not prepared it. */
	if (rc < 0 && error_class(why.sqlstate) == ERROR_PREPARED && !pg_is_unnamed(pg)) {
		pg_set_unnamed(pg);
		error_clear(&why);
		rc = try_one(pg, STORE_PATIENCE, stmt, args, tag, on_result, data, &why);
	}
	if (rc < 0 && err && !err->code)
		*err = why;
	pg_args_clear(args);
	return rc;
}

/* ---- arguments and answers -------------------------------------------------------------------- */

void store_arg_queues(struct pg_args *args, const struct store_scope *scope)
{
	pg_arg_text_array(args, scope->queues, NULL, scope->queues_len);
}

void store_arg_probe(struct pg_args *args, const struct store_scope *scope, int64_t from_us)
{
	store_arg_queues(args, scope);
	pg_arg_text(args, scope->instance);
	pg_arg_timestamptz(args, from_us);
}

void store_arg_track(struct pg_args *args, const struct store_track *track)
{
	pg_args_init(args);
	pg_arg_int8(args, track->worker);
	pg_arg_text(args, track->group);
	pg_arg_int4(args, (int32_t)track->range);
	pg_arg_int8(args, track->live ? track->lease_ms : 0);
	pg_arg_int8(args, track->round);
	pg_arg_int4(args, (int32_t)track->made);
}

void store_take_track(struct store_track *track, int tag, const struct pg_result *res)
{
	struct track_move_row r;

	if (tag != TAG_TRACK || pg_rows(res) != 1)
		return;
	r = track_move_row(res, 0);
	track->live = r.live;
	track->round = r.round;
	track->steps = r.steps;
	track->made = r.made;
}

int store_arg_claims(struct pg_args *args, struct attempt *const *a, size_t n, struct deferred_error *err)
{
	struct columns c;
	int rc = columns_init(&c, n, "recorded", err);

	if (rc == 0) {
		COLUMN_INT8(args, &c, a[i]->job->id);
		COLUMN_INT8(args, &c, a[i]->job->receipt);
	}
	columns_clear(&c);
	return rc;
}

void store_take_outcomes(int *outcomes, size_t n, const struct pg_result *res)
{
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct job_recorded_row r = job_recorded_row(res, i);

		if (r.n >= 1 && (uint64_t)r.n <= n)
			outcomes[r.n - 1] = job_outcome_of(r.outcome);
	}
}
