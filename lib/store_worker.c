/* SPDX-License-Identifier: MIT */
#include "store_worker.h"

#include "store_args.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 5

static int answer_ms = 30000;

void store_set_answer_ms(int ms)
{
	answer_ms = ms;
}

static int try_one(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
		   void (*on_result)(void *data, int tag, const struct pg_result *res), void *data, struct deferred_error *err)
{
	int rc = stmt == &sql_run_glance ? pg_pipeline_add(pg, &sql_run_glance_setup, NULL, TAG_SETUP, err) : store_add_setup(pg, err);

	if (rc == 0)
		rc = pg_pipeline_add(pg, stmt, args, tag, err);
	if (rc == 0)
		rc = pg_pipeline_send(pg, err);
	return rc == 0 ? pg_pipeline_wait(pg, on_result, data, answer_ms, err) : rc;
}

/* Send one statement with the settings of a worker and wait for it. What fails for a passing reason is sent again. */
static int run_one(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
		   void (*on_result)(void *data, int tag, const struct pg_result *res), void *data, struct deferred_error *err)
{
	struct deferred_error why;
	int rc, tries = 0;

	for (;;) {
		error_clear(&why);
		rc = try_one(pg, stmt, args, tag, on_result, data, &why);
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

static void ignore(void *data, int tag, const struct pg_result *res)
{
	(void)data;
	(void)tag;
	(void)res;
}

/* ---- start and end ---------------------------------------------------------------------------- */

static void on_probe(void *data, int tag, const struct pg_result *res)
{
	struct store_probe *p = data;

	if (tag != TAG_PROBE)
		return;
	p->schema_version = (int)pg_int(res, 0, 0);
	p->work = pg_bool(res, 0, 1);
	p->unclean = pg_bool(res, 0, 2);
	p->live_workers = pg_int(res, 0, 3);
}

static void on_glance(void *data, int tag, const struct pg_result *res)
{
	struct store_probe *p = data;

	if (tag != TAG_PROBE)
		return;
	p->schema_version = (int)pg_int(res, 0, 0);
	p->work = pg_bool(res, 0, 1);
}

int store_probe(struct pg *pg, const struct store_scope *scope, struct store_probe *probe, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	memset(probe, 0, sizeof(*probe));
	pg_args_init(&args);
	rc = run_one(pg, &sql_run_glance, &args, TAG_PROBE, on_glance, probe, err);
	if (rc < 0 || !probe->work)
		return rc;
	pg_args_init(&args);
	store_arg_queues(&args, scope);
	pg_arg_text(&args, scope->instance);
	return run_one(pg, &sql_run_probe, &args, TAG_PROBE, on_probe, probe, err);
}

static void on_register(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_REGISTER && pg_rows(res) == 1)
		*(int64_t *)data = pg_int(res, 0, 0);
}

int store_register(struct pg *pg, const struct store_scope *scope, const char *host, int pid, int64_t *worker, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, scope->instance);
	pg_arg_text(&args, host);
	pg_arg_int4(&args, pid);
	pg_arg_text(&args, DEFERRED_VERSION);
	store_arg_queues(&args, scope);
	return run_one(pg, &sql_worker_register, &args, TAG_REGISTER, on_register, worker, err);
}

struct recover_data {
	store_recovered_fn *f;
	void *data;
};

static void on_recover(void *data, int tag, const struct pg_result *res)
{
	struct recover_data *r = data;

	for (size_t i = 0; tag == TAG_RECOVER && i < pg_rows(res); i++)
		r->f(r->data, pg_int(res, i, 0), pg_text(res, i, 1, NULL), (int)pg_int(res, i, 2), pg_bool(res, i, 3));
}

int store_recover(struct pg *pg, const struct store_scope *scope, int64_t worker, enum job_outcome outcome,
		  store_recovered_fn *recovered, void *data, struct deferred_error *err)
{
	struct recover_data r = { recovered, data };
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, scope->instance);
	pg_arg_int8(&args, worker);
	pg_arg_text(&args, job_outcome_text(outcome));
	pg_arg_int4(&args, scope->max_attempts);
	return run_one(pg, &sql_worker_recover, &args, TAG_RECOVER, on_recover, &r, err);
}

static void on_unknown(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_UNKNOWN && pg_rows(res) == 1)
		*(int64_t *)data = pg_int(res, 0, 0);
}

int store_release_unknown(struct pg *pg, int64_t worker, const int64_t *known, size_t known_len, int64_t *released, struct deferred_error *err)
{
	static const int64_t none;
	struct pg_args args;

	*released = 0;
	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	pg_arg_int8_array(&args, known ? known : &none, NULL, known_len);
	return run_one(pg, &sql_worker_orphans, &args, TAG_UNKNOWN, on_unknown, released, err);
}

static void on_track(void *data, int tag, const struct pg_result *res)
{
	store_take_track(data, tag, res);
}

int store_track_move(struct pg *pg, struct store_track *track, struct deferred_error *err)
{
	struct pg_args args;

	store_arg_track(&args, track);
	return run_one(pg, &sql_track_move, &args, TAG_TRACK, on_track, track, err);
}

static void on_direct(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_DIRECT && pg_rows(res) == 1)
		*(int *)data = (int)pg_int(res, 0, 0);
}

int store_listen(struct pg *pg, bool *direct, struct deferred_error *err)
{
	struct pg_args args;
	int pid = 0, rc;

	pg_args_init(&args);
	rc = run_one(pg, &sql_worker_direct, &args, TAG_DIRECT, on_direct, &pid, err);
	*direct = rc == 0 && pid == pg_server_pid(pg);
	if (*direct)
		rc = run_one(pg, &sql_worker_listen, &args, TAG_IGNORE, ignore, NULL, err);
	if (*direct && rc == 0)
		rc = run_one(pg, &sql_session_own, &args, TAG_IGNORE, ignore, NULL, err);
	if (*direct && rc == 0)
		pg_set_own(pg);
	return rc;
}

int store_end(struct pg *pg, int64_t worker, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	return run_one(pg, &sql_worker_end, &args, TAG_IGNORE, ignore, NULL, err);
}

int store_maintain(struct pg *pg, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	return run_one(pg, &sql_maintain, &args, TAG_IGNORE, ignore, NULL, err);
}

struct recorded {
	int *outcomes;
	size_t n;
};

static void on_recorded(void *data, int tag, const struct pg_result *res)
{
	const struct recorded *r = data;

	if (tag == TAG_RECORDED)
		store_take_outcomes(r->outcomes, r->n, res);
}

int store_recorded(struct pg *pg, struct attempt *const *attempts, size_t n, int *outcomes, struct deferred_error *err)
{
	struct recorded r = { outcomes, n };
	struct pg_args args;
	int rc;

	for (size_t i = 0; i < n; i++)
		outcomes[i] = JOB_UNRECORDED;
	pg_args_init(&args);
	rc = store_arg_claims(&args, attempts, n, err);
	if (rc < 0) {
		pg_args_clear(&args);
		return rc;
	}
	return run_one(pg, &sql_job_recorded, &args, TAG_RECORDED, on_recorded, &r, err);
}
