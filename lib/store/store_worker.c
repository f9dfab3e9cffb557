/* SPDX-License-Identifier: MIT */
#include "store/store_worker.h"

#include "rows/claim.h"
#include "rows/history.h"
#include "rows/schedule.h"
#include "rows/why.h"
#include "rows/worker.h"
#include "store/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- start and end ---------------------------------------------------------------------------- */

static void on_probe(void *data, int tag, const struct pg_result *res)
{
	struct store_probe *p = data;
	struct run_probe_row r;

	if (tag != TAG_PROBE)
		return;
	r = run_probe_row(res, 0);
	p->work = r.work;
	p->unclean = r.unclean;
}

static void on_glance(void *data, int tag, const struct pg_result *res)
{
	struct store_probe *p = data;
	struct run_glance_row r;

	if (tag != TAG_PROBE || pg_rows(res) != 1)
		return;
	r = run_glance_row(res, 0);
	p->schema_version = r.version;
	p->schema_oldest = r.oldest;
	p->any = !r.has_any || r.any; /* too much is dead to be walked over */
	p->tick = r.tick;
}

int store_probe(struct pg *pg, const struct store_scope *scope, struct store_probe *probe, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	memset(probe, 0, sizeof(*probe));
	pg_args_init(&args);
	rc = store_run(pg, &sql_run_glance, &args, TAG_PROBE, on_glance, probe, err);
	if (rc < 0 || !(probe->any || probe->tick))
		return rc;
	pg_args_init(&args);
	store_arg_probe(&args, scope, INT64_MIN);
	return store_run(pg, &sql_run_probe, &args, TAG_PROBE, on_probe, probe, err);
}

static void on_lineage(void *data, int tag, const struct pg_result *res)
{
	struct store_lineage *l = data;

	if (tag != TAG_PROBE || pg_rows(res) != 1)
		return;
	snprintf(l->system, sizeof(l->system), "%s", run_lineage_row(res, 0).system);
	l->timeline = run_lineage_row(res, 0).timeline;
}

int store_lineage(struct pg *pg, struct store_lineage *lineage, struct deferred_error *err)
{
	struct pg_args args;

	memset(lineage, 0, sizeof(*lineage));
	pg_args_init(&args);
	return store_run(pg, &sql_run_lineage, &args, TAG_PROBE, on_lineage, lineage, err);
}

struct registered {
	struct pg *pg;
	int64_t worker, catalog;
	bool found;
};

/* Behind a pooler no isolation level was set for the session. */
static void note_pooler(struct pg *pg, const char *isolation)
{
	if (!isolation[0])
		pg_set_shared(pg);
}

static void on_register(void *data, int tag, const struct pg_result *res)
{
	struct registered *answer = data;

	if (tag != TAG_REGISTER || pg_rows(res) != 1)
		return;
	answer->worker = worker_register_row(res, 0).id;
	answer->catalog = worker_register_row(res, 0).catalog;
	note_pooler(answer->pg, worker_register_row(res, 0).isolation);
}

int store_register(struct pg *pg, const struct store_scope *scope, const char *host, int pid, const char *place,
		   int64_t *worker, int64_t *catalog, struct deferred_error *err)
{
	struct registered answer = { .pg = pg, .worker = *worker, .catalog = *catalog };
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, scope->instance);
	pg_arg_text(&args, host);
	pg_arg_int4(&args, pid);
	pg_arg_text(&args, DEFERRED_VERSION);
	store_arg_queues(&args, scope);
	pg_arg_text(&args, place);
	pg_arg_int4(&args, pg_server_pid(pg));
	pg_arg_int4(&args, scope->watch);
	pg_arg_int4(&args, scope->cnt);
	pg_arg_int4(&args, scope->runners);
	pg_arg_text(&args, scope->mode);
	rc = store_run(pg, &sql_worker_register, &args, TAG_REGISTER, on_register, &answer, err);
	*worker = answer.worker;
	*catalog = answer.catalog;
	return rc;
}

int store_offer(struct pg *pg, const struct store_offer *offer, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, offer->host);
	pg_arg_text(&args, offer->place);
	pg_arg_int8(&args, offer->catalog);
	pg_arg_text_array(&args, offer->fn, NULL, offer->len);
	pg_arg_text_array(&args, offer->plugin, NULL, offer->len);
	pg_arg_int8_array(&args, offer->timeout_ms, NULL, offer->len);
	pg_arg_int4_array(&args, offer->max_attempts, NULL, offer->len);
	return store_run_aside(pg, &sql_worker_offer, &args, TAG_IGNORE, NULL, NULL, err);
}

struct recover_data {
	store_recovered_fn *f;
	void *data;
};

static void on_recover(void *data, int tag, const struct pg_result *res)
{
	struct recover_data *r = data;

	for (size_t i = 0; tag == TAG_RECOVER && i < pg_rows(res); i++) {
		struct worker_recover_row job = worker_recover_row(res, i);

		r->f(r->data, job.id, job.fn, job.attempt, job.final, job.recorded);
	}
}

int store_recover(struct pg *pg, const struct store_scope *scope, int64_t worker, enum job_outcome outcome,
		  const struct store_begun *begun, store_recovered_fn *recovered, void *data,
		  struct deferred_error *err)
{
	struct recover_data r = { recovered, data };
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, scope->instance);
	pg_arg_int8(&args, worker);
	pg_arg_text(&args, job_outcome_text(outcome));
	pg_arg_int4(&args, scope->max_attempts);
	if (begun)
		pg_arg_int8(&args, begun->worker);
	else
		pg_arg_null(&args);
	pg_arg_int8_array(&args, begun ? begun->receipt : NULL, NULL, begun ? begun->n : 0);
	return store_run(pg, &sql_worker_recover, &args, TAG_RECOVER, on_recover, &r, err);
}

int store_watch(struct pg *pg, int64_t worker, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	return store_run_aside(pg, &sql_worker_watch, &args, TAG_IGNORE, NULL, NULL, err);
}

struct look_data {
	struct store_seen *seen;
	store_dead_fn *is_dead;
	void *data;
};

static void on_look(void *data, int tag, const struct pg_result *res)
{
	struct look_data *look = data;
	struct store_seen *seen = look->seen;

	if (tag != TAG_WATCH)
		return;
	seen->others = pg_rows(res);
	seen->silent = malloc((seen->others + 1) * sizeof(*seen->silent));
	for (size_t i = 0; seen->silent && i < seen->others; i++) {
		struct worker_look_row r = worker_look_row(res, i);

		if (r.instance)
			seen->silent[seen->len++] =
				(struct store_silent){ r.id, look->is_dead(look->data, r.instance) };
	}
}

int store_look(struct pg *pg, int64_t worker, store_dead_fn *is_dead, void *data, struct store_seen *seen,
	       struct deferred_error *err)
{
	struct look_data look = { seen, is_dead, data };
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	return store_run_aside(pg, &sql_worker_look, &args, TAG_WATCH, on_look, &look, err);
}

bool store_take_losses(struct store_losses *losses, const struct pg_result *res)
{
	size_t n = losses->len + pg_rows(res);
	struct store_lost *bigger = n > losses->size ? realloc(losses->row, n * sizeof(*bigger)) : losses->row;

	if (n > losses->len && !bigger)
		return false;
	if (n > losses->size)
		losses->size = n;
	losses->row = bigger;
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct store_lost *l = &losses->row[losses->len++];
		struct job_lost_row r = job_lost_row(res, i);

		*l = (struct store_lost){
			.worker = r.worker, .id = r.id, .attempt = r.attempt, .final = r.final, .recorded = r.recorded
		};
		snprintf(l->who, sizeof(l->who), "%s", r.who);
		snprintf(l->fn, sizeof(l->fn), "%s", r.fn);
	}
	return true;
}

static void on_bury(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_LOST && !store_take_losses(data, res))
		return; /* they come back without a line */
}

int store_bury(struct pg *pg, const int64_t *worker, size_t n, size_t dead, int32_t max_attempts,
	       struct store_losses *losses, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8_array(&args, worker, NULL, n);
	pg_arg_int4(&args, (int32_t)dead);
	pg_arg_int4(&args, max_attempts);
	return store_run_aside(pg, &sql_worker_bury, &args, TAG_LOST, on_bury, losses, err);
}

static void on_unknown(void *data, int tag, const struct pg_result *res)
{
	struct registered *answer = data;

	if (tag != TAG_UNKNOWN || pg_rows(res) != 1)
		return;
	answer->found = worker_orphans_row(res, 0).registered;
	note_pooler(answer->pg, worker_orphans_row(res, 0).isolation);
}

int store_release_unknown(struct pg *pg, const struct store_scope *scope, int64_t worker, const int64_t *known,
			  size_t known_len, bool *registered, struct deferred_error *err)
{
	struct registered answer = { .pg = pg };
	static const int64_t none;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	pg_arg_int8_array(&args, known ? known : &none, NULL, known_len);
	pg_arg_text(&args, scope->instance);
	pg_arg_int4(&args, pg_server_pid(pg));
	pg_arg_int4(&args, scope->watch);
	rc = store_run(pg, &sql_worker_orphans, &args, TAG_UNKNOWN, on_unknown, &answer, err);
	*registered = answer.found;
	return rc;
}

static void on_track(void *data, int tag, const struct pg_result *res)
{
	store_take_track(data, tag, res);
}

int store_track_move(struct pg *pg, struct store_track *track, struct deferred_error *err)
{
	struct pg_args args;

	store_arg_track(&args, track);
	return store_run(pg, &sql_track_move, &args, TAG_TRACK, on_track, track, err);
}

static void on_direct(void *data, int tag, const struct pg_result *res)
{
	if (tag == TAG_DIRECT && pg_rows(res) == 1)
		*(int *)data = worker_direct_row(res, 0).pid;
}

int store_listen(struct pg *pg, bool *direct, struct deferred_error *err)
{
	struct pg_args args;
	int pid = 0, rc;

	pg_args_init(&args);
	rc = store_run(pg, &sql_worker_direct, &args, TAG_DIRECT, on_direct, &pid, err);
	*direct = rc == 0 && pid == pg_server_pid(pg);
	if (*direct)
		rc = store_run(pg, &sql_worker_listen, &args, TAG_IGNORE, NULL, NULL, err);
	if (*direct && rc == 0)
		rc = store_run(pg, &sql_session_own, &args, TAG_IGNORE, NULL, NULL, err);
	if (*direct && rc == 0)
		pg_set_own(pg);
	return rc;
}

static void on_tick(void *data, int tag, const struct pg_result *res)
{
	struct store_ticks *t = data;
	struct tick_run_row r;

	if (tag != TAG_TICK || pg_rows(res) != 1)
		return;
	r = tick_run_row(res, 0);
	t->dealt = r.dealt;
	t->wait_ms = r.has_wait_ms ? r.wait_ms : -1;
}

int store_tick(struct pg *pg, int most, struct store_ticks *ticks, struct deferred_error *err)
{
	struct pg_args args;

	*ticks = (struct store_ticks){ 0, -1 };
	pg_args_init(&args);
	pg_arg_int4(&args, most);
	return store_run_aside(pg, &sql_tick_run, &args, TAG_TICK, on_tick, ticks, err);
}

static void on_holders(void *data, int tag, const struct pg_result *res)
{
	struct store_holders *h = data;

	if (tag == TAG_TEXT && pg_rows(res) == 1)
		snprintf(h->text, sizeof(h->text), "%s", lock_rows_row(res, 0).holders);
}

/* The holder of a table lock comes first: the rows of that table cannot even be read. */
int store_holders(struct pg *pg, const int64_t *jobs, size_t n, struct store_holders *holders,
		  struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	holders->text[0] = '\0';
	pg_args_init(&args);
	pg_arg_text(&args, "false");
	rc = store_run_aside(pg, &sql_lock_tables, &args, TAG_TEXT, on_holders, holders, err);
	if (rc < 0 || holders->text[0] || n == 0)
		return rc;
	pg_args_init(&args);
	pg_arg_int8_array(&args, jobs, NULL, n);
	return store_run_aside(pg, &sql_lock_rows, &args, TAG_TEXT, on_holders, holders, err);
}

int store_waits_send(struct pg *pg, int pid, struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, pid);
	rc = pg_pipeline_add(pg, &sql_session_waits, &args, TAG_TEXT, err);
	pg_args_clear(&args);
	return rc == 0 ? pg_pipeline_send(pg, err) : rc;
}

struct waits {
	store_waits_fn *f;
	void *data;
};

static void on_waits(void *data, int tag, const struct pg_result *res)
{
	const struct waits *waits = data;

	if (tag == TAG_TEXT && pg_rows(res) == 1)
		waits->f(waits->data, session_waits_row(res, 0).waits_for);
}

int store_waits_poll(struct pg *pg, store_waits_fn *f, void *data, bool *done, struct deferred_error *err)
{
	struct waits waits = { f, data };

	return pg_pipeline_poll(pg, on_waits, &waits, done, err);
}

int store_end(struct pg *pg, int64_t worker, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, worker);
	return store_run(pg, &sql_worker_end, &args, TAG_IGNORE, NULL, NULL, err);
}

int store_maintain(struct pg *pg, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	return store_run(pg, &sql_maintain_partitions, &args, TAG_IGNORE, NULL, NULL, err);
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
	return store_run(pg, &sql_job_recorded, &args, TAG_RECORDED, on_recorded, &r, err);
}
