/* SPDX-License-Identifier: MIT */
#include "store/why.h"

#include "base/clock.h"
#include "base/gist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_NOT_AVAILABLE "55P03"
#define NEAR_PAGES \
	30 /* of the log, for the last minutes: some 1,000 attempts, of each of which a job is looked up: 8 ms beside 100 M of them */
#define MISSED_NS (60 * NS_PER_S) /* thousands of starts are read for that: 4 ms */
#define FAR_PAGES 2000            /* and for what was before */

static int begin(struct pg *pg, struct deferred_error *err)
{
	char sql[256];

	/* A bitmap is read as a whole, and so would not end where a LIMIT does. And to begin a process that helps takes
	 * longer than such a statement. */
	snprintf(
		sql, sizeof(sql),
		"begin read only; set local statement_timeout = %d; set local lock_timeout = 100; set local jit = off; "
		"set local enable_bitmapscan = off; set local max_parallel_workers_per_gather = 0; " PG_OWN_PATH,
		STORE_WHY_MS);
	return pg_command(pg, sql, err);
}

static void end(struct pg *pg)
{
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
}

/* Send a statement; the answer is kept for the texts in it. The arguments are cleared. */
static const struct pg_result *ask(struct pg *pg, struct store_why *why, const struct sql_statement *stmt,
				   struct pg_args *args, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = pg_exec(pg, stmt, args, PG_TEXT, &res, err);

	if (args)
		pg_args_clear(args);
	if (rc < 0 || why->held_len == sizeof(why->held) / sizeof(why->held[0])) {
		pg_result_free(res);
		return NULL;
	}
	why->held[why->held_len++] = res;
	return res;
}

/*
 * The same of what an answer can do without: in a transaction of its own, which may run into the time limit. NULL: it
 * did, or there is no row.
 * A server that is gone is noticed by what is asked next.
 */
static const struct pg_result *ask_more(struct pg *pg, struct store_why *why, const struct sql_statement *stmt,
					struct pg_args *args)
{
	const struct pg_result *res = NULL;

	if (begin(pg, NULL) == 0)
		res = ask(pg, why, stmt, args, NULL);
	else
		pg_args_clear(args);
	end(pg);
	return res && pg_rows(res) > 0 ? res : NULL;
}

static const char *text(const struct pg_result *res, size_t row, int col)
{
	return pg_null(res, row, col) ? NULL : pg_text(res, row, col, NULL);
}

static int64_t number(const struct pg_result *res, size_t row, int col)
{
	return pg_null(res, row, col) ? CAUSE_UNKNOWN : pg_int(res, row, col);
}

static double real(const struct pg_result *res, size_t row, int col)
{
	return pg_null(res, row, col) ? CAUSE_UNKNOWN : pg_float(res, row, col);
}

/* ---- parts of both answers ------------------------------------------------------------------------ */

/* xid NULL: the oldest that has written something. */
static void ask_session(struct pg *pg, struct store_why *why, const char *xid, struct cause_session *session)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, xid);
	res = ask_more(pg, why, &sql_why_session, &args);
	if (res)
		*session = (struct cause_session){ pg_int(res, 0, 0), pg_int(res, 0, 1), text(res, 0, 2),
						   text(res, 0, 3), text(res, 0, 4) };
}

/* A statement waited in vain: who has the table? False: nobody any more, or it failed for another reason. */
static bool ask_table(struct pg *pg, struct store_why *why, const struct deferred_error *failed,
		      struct cause_table *table)
{
	const struct pg_result *res;

	if (!failed || strcmp(failed->sqlstate, LOCK_NOT_AVAILABLE) != 0 ||
	    !(res = ask_more(pg, why, &sql_why_table_lock, NULL)))
		return false;
	*table = (struct cause_table){ text(res, 0, 0),
				       pg_bool(res, 0, 1),
				       { pg_int(res, 0, 2), pg_int(res, 0, 3), text(res, 0, 4), text(res, 0, 5),
					 text(res, 0, 6) } };
	return true;
}

static void read_serving(const struct pg_result *res, size_t row, struct cause_serving *s)
{
	s->alive = pg_bool(res, row, 1);
	s->others = pg_bool(res, row, 2);
	s->seen_s = number(res, row, 3);
	s->gap_s = number(res, row, 4);
	s->started_s = number(res, row, 5);
	s->instance = text(res, row, 6);
	s->service = pg_bool(res, row, 7);
	s->role = text(res, row, 8);
	s->grants = text(res, row, 9);
}

static const struct pg_result *ask_serving(struct pg *pg, struct store_why *why, const char *const *queues, size_t n)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text_array(&args, queues, NULL, n);
	return ask_more(pg, why, &sql_why_serving, &args);
}

static const char *ask_error(struct pg *pg, struct store_why *why, int64_t id)
{
	const struct pg_result *res;
	struct pg_args args;
	const char *line;
	int len;

	pg_args_init(&args);
	pg_arg_int8(&args, id);
	res = ask_more(pg, why, &sql_why_error, &args);
	if (!res)
		return NULL;
	line = gist(text(res, 0, 0), &len);
	snprintf(why->error, sizeof(why->error), "%.*s", len, line);
	return why->error;
}

/*
 * From the log itself and from the calls, slices of either. This is the one place to be replaced by sums that are kept:
 * nothing above it knows where a rate comes from.
 */
static void ask_rates(struct pg *pg, struct store_why *why, const char *queue, struct cause_rates *r)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_int8(&args, NEAR_PAGES);
	pg_arg_int8(&args, FAR_PAGES);
	if ((res = ask_more(pg, why, &sql_why_rates, &args))) {
		r->minutes = pg_float(res, 0, 0);
		r->ended = pg_int(res, 0, 1);
		r->failed = pg_int(res, 0, 2);
		r->superseded = pg_int(res, 0, 3);
		r->run_s = pg_float(res, 0, 4);
		r->fn = text(res, 0, 5);
		r->fn_share = pg_float(res, 0, 6);
		r->run_p50_s = real(res, 0, 7);
		r->usual_run_p50_s = real(res, 0, 8);
		r->build = text(res, 0, 9);
		if (2 * r->failed > r->ended && !pg_null(res, 0, 10))
			r->error = ask_error(pg, why, pg_int(res, 0, 10));
	}
	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if ((res = ask_more(pg, why, &sql_why_arrivals, &args))) {
		r->arrived = real(res, 0, 0);
		r->usual_arrived = real(res, 0, 1);
		r->arrived_by = text(res, 0, 2);
	}
}

/* ---- one job -------------------------------------------------------------------------------------- */

static void read_job(const struct pg_result *res, struct cause_job *j)
{
	j->there = pg_bool(res, 0, 0);
	j->last_id = number(res, 0, 1);
	j->neighbour_s = number(res, 0, 2);
	j->kept_s = number(res, 0, 3);
	j->state = text(res, 0, 4);
	j->queue = text(res, 0, 5);
	j->fn = text(res, 0, 6);
	j->outcome = text(res, 0, 7);
	j->attempts = pg_int(res, 0, 8);
	j->failures = pg_int(res, 0, 9);
	j->ended_s = pg_int(res, 0, 10);
	j->leased = pg_bool(res, 0, 11);
	j->lease_over = pg_bool(res, 0, 12);
	j->worker = pg_int(res, 0, 13);
	j->worker_there = pg_bool(res, 0, 14);
	j->worker_ended = pg_bool(res, 0, 15);
	j->worker_rebooted = pg_bool(res, 0, 16);
	j->worker_pid = pg_int(res, 0, 17);
	j->worker_host = text(res, 0, 18);
	j->worker_unseen_s = number(res, 0, 19);
	j->lease_left_s = pg_int(res, 0, 20);
	j->claimed_s = pg_int(res, 0, 21);
	j->progress = text(res, 0, 22);
	if (j->progress && !j->progress[0])
		j->progress = NULL;
	j->due_in_s = pg_int(res, 0, 23);
	j->ready_s = pg_int(res, 0, 24);
	j->expires = pg_bool(res, 0, 25);
	j->expires_in_s = pg_int(res, 0, 26);
	j->paused = pg_bool(res, 0, 27);
	j->fn_unknown = pg_bool(res, 0, 28);
	j->refused_host = text(res, 0, 29);
	j->refused_why = text(res, 0, 30);
	j->row_locked = !pg_null(res, 0, 31);
	j->lane_locked = !pg_null(res, 0, 32);
	j->stranded = pg_bool(res, 0, 33);
	j->key = text(res, 0, 37);
	j->key_max = pg_int(res, 0, 38);
	j->queue_ready = pg_int(res, 0, 40);
	j->queue_counted = STORE_WHY_COUNT;
	j->taken_s = number(res, 0, 41);
	j->flow = pg_int(res, 0, 42);
	j->flow_waits_for = pg_int(res, 0, 43);
	j->waits_for = text(res, 0, 44);
	j->paused_by = text(res, 0, 45);
	j->paused_s = number(res, 0, 46);
	j->worker_cut_off = pg_bool(res, 0, 47);
}

/* Of queue and function the one that holds it back; where both do, the function's, which is asked for less often. */
static void ask_limits(struct pg *pg, struct store_why *why)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, j->queue);
	pg_arg_text(&args, j->fn);
	pg_arg_int8(&args, j->id);
	if (!(res = ask_more(pg, why, &sql_why_limits, &args)))
		return;
	for (int of_fn = 0; of_fn <= 1; of_fn++) {
		int at = 5 * of_fn;

		if (!pg_null(res, 0, at) &&
		    (j->max_running == CAUSE_UNKNOWN || pg_int(res, 0, at + 1) >= pg_int(res, 0, at))) {
			j->max_running = pg_int(res, 0, at);
			j->running = pg_int(res, 0, at + 1);
			j->running_ids = text(res, 0, at + 2);
			j->fn_limit = of_fn;
		}
		if (!pg_null(res, 0, at + 3) && pg_float(res, 0, at + 4) >= j->rate_wait_s) {
			j->rate = pg_float(res, 0, at + 3);
			j->rate_wait_s = pg_float(res, 0, at + 4);
			j->fn_rate = of_fn;
		}
	}
	if (!pg_null(res, 0, 14))
		j->broken_s = pg_int(res, 0, 14);
	if (j->key) {
		j->key_before = pg_int(res, 0, 10);
		j->key_first = pg_int(res, 0, 11);
		j->key_first_state = text(res, 0, 12);
		j->key_running = pg_int(res, 0, 13);
	}
}

static void ask_steps(struct pg *pg, struct store_why *why)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, why->job.queue);
	if ((res = ask_more(pg, why, &sql_why_steps, &args))) {
		why->job.step_group = text(res, 0, 0);
		why->job.step_for = text(res, 0, 1);
	}
}

static void ask_ahead(struct pg *pg, struct store_why *why, const struct pg_result *job)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, why->job.queue);
	pg_arg_int4(&args, (int32_t)pg_int(job, 0, 34));
	pg_arg_text(&args, text(job, 0, 35));
	pg_arg_int8(&args, why->job.id);
	pg_arg_int8(&args, STORE_WHY_COUNT);
	res = ask_more(pg, why, &sql_why_ahead, &args);
	why->job.ahead = res ? pg_int(res, 0, 0) : STORE_WHY_COUNT;
	why->job.ahead_counted = STORE_WHY_COUNT;
}

static void ask_about_ready(struct pg *pg, struct store_why *why, const struct pg_result *job)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	bool limited = pg_bool(job, 0, 36);

	if (j->row_locked || j->lane_locked)
		ask_session(pg, why, text(job, 0, j->row_locked ? 31 : 32), &j->holder);
	if (!j->fn)
		return;
	if ((res = ask_serving(pg, why, &j->queue, 1)))
		read_serving(res, 0, &j->serving);
	ask_limits(pg, why);
	if (j->serving.alive)
		ask_steps(pg, why);
	if (!limited)
		ask_ahead(pg, why, job);
	if (j->ahead > 0)
		ask_rates(pg, why, j->queue, &j->rates);
}

int store_why_job(struct pg *pg, int64_t id, struct store_why *why, struct deferred_error *err)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	struct pg_args args;

	memset(why, 0, sizeof(*why));
	cause_job_init(j);
	j->id = id;
	pg_args_init(&args);
	pg_arg_int8(&args, id);
	pg_arg_int8(&args, STORE_WHY_COUNT);
	if (begin(pg, err) < 0) {
		pg_args_clear(&args);
		return err ? err->code : DEFERRED_EDB;
	}
	res = ask(pg, why, &sql_why_job, &args, err);
	end(pg);
	if (!res && ask_table(pg, why, err, &j->table))
		return 0;
	if (!res)
		return err && err->code ? err->code : DEFERRED_EDB;
	read_job(res, j);
	if (!j->there) {
		ask_session(pg, why, NULL, &j->writer);
		return 0;
	}
	if (pg_bool(res, 0, 39) && (j->failures > 0 || (j->outcome && strcmp(j->state, "done") != 0)))
		j->error = ask_error(pg, why, id);
	if (strcmp(j->state, "ready") == 0 && !j->lease_over)
		ask_about_ready(pg, why, res);
	return 0;
}

/* ---- a backlog ------------------------------------------------------------------------------------ */

static int ask_queues(struct pg *pg, struct store_why *why, struct deferred_error *err)
{
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	const char **names;
	struct pg_args args;
	size_t n = 0;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, 1000);
	if ((rc = begin(pg, err)) < 0) {
		pg_args_clear(&args);
		return rc;
	}
	rc = pg_exec(pg, &sql_admin_status_queues, &args, PG_TEXT, &why->queues, err);
	pg_args_clear(&args);
	end(pg);
	if (rc < 0)
		return ask_table(pg, why, err, &b->table) ? 0 : rc;
	res = why->queues;
	b->queues = calloc(pg_rows(res) + 1, sizeof(*b->queues));
	names = calloc(pg_rows(res) + 1, sizeof(*names));
	if (!b->queues || !names) {
		free(names);
		return error_set(err, DEFERRED_ENOMEM, "why", "out of memory");
	}
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct cause_queue *q = &b->queues[n];

		if (b->queue && strcmp(b->queue, pg_text(res, i, 0, NULL)) != 0)
			continue;
		*q = (struct cause_queue){
			.name = text(res, i, 0),
			.paused = pg_bool(res, i, 1),
			.paused_by = text(res, i, 10),
			.paused_s = number(res, i, 11),
			.ready = pg_int(res, i, 2),
			.running = pg_int(res, i, 3),
			.delayed = pg_int(res, i, 4),
			.more = pg_bool(res, i, 5),
			.oldest_s = pg_int(res, i, 7),
			.serving = { .seen_s = CAUSE_UNKNOWN, .gap_s = CAUSE_UNKNOWN, .started_s = CAUSE_UNKNOWN }
		};
		names[n++] = q->name;
	}
	b->queues_len = n;
	if (n == 0 && b->queue)
		rc = error_set(err, DEFERRED_ENOTFOUND, "why", "queue '%.88s' does not exist", b->queue);
	else if ((res = ask_serving(pg, why, names, n)))
		for (size_t i = 0; i < n; i++)
			read_serving(res, i, &b->queues[i].serving);
	free(names);
	return rc;
}

static void ask_used_up(struct pg *pg, struct store_why *why)
{
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	if (!(res = ask_more(pg, why, &sql_why_queues, &args)))
		return;
	for (size_t i = 0; i < pg_rows(res) && !b->broken_fn; i++)
		if (!pg_null(res, i, 5)) {
			b->broken_fn = text(res, i, 1);
			b->broken_s = pg_int(res, i, 5);
		}
	for (size_t i = 0; i < pg_rows(res); i++)
		for (size_t k = 0; k < b->queues_len && pg_bool(res, i, 4); k++) {
			struct cause_queue *q = &b->queues[k];

			if (pg_null(res, i, 0) || strcmp(q->name, pg_text(res, i, 0, NULL)) != 0)
				continue;
			q->limit_used_up = true;
			q->max_running = number(res, i, 2);
			q->rate = pg_float(res, i, 3);
		}
}

static void ask_unknown(struct pg *pg, struct store_why *why)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, 1000);
	if (!(res = ask_more(pg, why, &sql_admin_functions_unknown, &args)))
		return;
	why->backlog.unknown_fn = text(res, 0, 0);
	why->backlog.unknown_jobs = pg_int(res, 0, 1);
	why->backlog.unknown_s = pg_int(res, 0, 2);
}

static void ask_schedules(struct pg *pg, struct store_why *why, const char *queue)
{
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if (!(res = ask_more(pg, why, &sql_schedule_trouble, &args)))
		return;
	b->schedule = text(res, 0, 0);
	b->schedule_what = text(res, 0, 1);
	b->schedule_error = text(res, 0, 2);
	b->schedule_s = number(res, 0, 3);
	b->schedule_job = number(res, 0, 4);
	while ((size_t)b->schedules < pg_rows(res) &&
	       strcmp(pg_text(res, (size_t)b->schedules, 1, NULL), b->schedule_what) == 0)
		b->schedules++;
}

static void ask_runs(struct pg *pg, struct store_why *why, int64_t oldest_s)
{
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, oldest_s);
	pg_arg_int8(&args, NEAR_PAGES);
	if (!(res = ask_more(pg, why, &sql_why_runs, &args)))
		return;
	b->runs = pg_int(res, 0, 0);
	b->runs_by_count = pg_int(res, 0, 1);
	b->count = pg_int(res, 0, 2);
	b->runs_of = text(res, 0, 3);
}

static void ask_server(struct pg *pg, struct store_why *why)
{
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	if (!(res = ask_more(pg, why, &sql_why_server, &args)))
		return;
	b->read_only = pg_bool(res, 0, 0);
	b->connections = pg_int(res, 0, 1);
	b->connections_max = pg_int(res, 0, 2);
	b->idle_s = number(res, 0, 3);
	if (!pg_null(res, 0, 4))
		b->snapshot = (struct cause_session){ pg_int(res, 0, 4), pg_int(res, 0, 5), text(res, 0, 6),
						      text(res, 0, 7), text(res, 0, 8) };
	b->commits = pg_int(res, 0, 9);
	b->commits_s = pg_int(res, 0, 10);
	b->standbys = text(res, 0, 11);
}

static void ask_gone(struct pg *pg, struct store_why *why, const char *queue)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if ((res = ask_more(pg, why, &sql_why_gone, &args)))
		why->backlog.gone = (struct cause_gone){ pg_int(res, 0, 0), pg_int(res, 0, 1), text(res, 0, 2),
							 pg_int(res, 0, 3), pg_int(res, 0, 4) };
}

int store_why_backlog(struct pg *pg, const char *queue, struct store_why *why, struct deferred_error *err)
{
	struct cause_backlog *b = &why->backlog;
	int64_t ready = 0, oldest_s = 0;
	int rc;

	memset(why, 0, sizeof(*why));
	cause_backlog_init(b);
	b->queue = queue;
	if ((rc = ask_queues(pg, why, err)) < 0 || b->table.name)
		return rc;
	for (size_t i = 0; i < b->queues_len; i++) {
		ready += b->queues[i].ready;
		if (b->queues[i].ready > 0 && b->queues[i].oldest_s > oldest_s)
			oldest_s = b->queues[i].oldest_s;
	}
	ask_schedules(pg, why, queue);
	ask_gone(pg, why, queue);
	if (ready == 0)
		return 0;
	ask_server(pg, why);
	ask_used_up(pg, why);
	if (!queue)
		ask_unknown(pg, why);
	ask_runs(pg, why, oldest_s);
	ask_rates(pg, why, queue, &b->rates);
	return 0;
}

static void ask_missed(struct pg *pg, struct cause_absent *a)
{
	struct pg_result *res = NULL;

	if (begin(pg, NULL) == 0 && pg_exec(pg, &sql_why_absent, NULL, PG_TEXT, &res, NULL) == 0) {
		*a = (struct cause_absent){ .n = (int64_t)pg_rows(res) };
		if (a->n > 0) {
			snprintf(a->host, sizeof(a->host), "%s", pg_text(res, 0, 1, NULL));
			snprintf(a->pidfile, sizeof(a->pidfile), "%s", pg_text(res, 0, 2, NULL));
			a->service = pg_bool(res, 0, 3);
			a->starts = pg_int(res, 0, 4);
			a->every_s = pg_int(res, 0, 5);
			a->seen_s = pg_int(res, 0, 6);
		}
	}
	pg_result_free(res);
	end(pg);
}

void store_why_missed(struct pg *pg, struct store_why_missed *kept, struct store_why *why)
{
	struct cause_absent *a = &why->backlog.absent;
	uint64_t now = clock_ns();

	if (why->backlog.queue || why->backlog.table.name)
		return;
	if (kept->at_ns == 0 || now - kept->at_ns >= MISSED_NS) {
		ask_missed(pg, &kept->absent);
		kept->at_ns = now;
	}
	*a = kept->absent;
	a->seen_s += (int64_t)((now - kept->at_ns) / NS_PER_S);
}

void store_why_clear(struct store_why *why)
{
	for (size_t i = 0; i < why->held_len; i++)
		pg_result_free(why->held[i]);
	pg_result_free(why->queues);
	free(why->backlog.queues);
	memset(why, 0, sizeof(*why));
}
