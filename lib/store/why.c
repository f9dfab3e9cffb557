/* SPDX-License-Identifier: MIT */
#include "store/why.h"

#include "base/clock.h"
#include "base/text/gist.h"
#include "rows/admin.h"
#include "rows/queue.h"
#include "rows/schedule.h"
#include "rows/why.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_NOT_AVAILABLE "55P03"
/* of the log, for the last minutes: some 1,000 attempts and their jobs, 8 ms with 100 M attempts
 */
#define NEAR_PAGES 30
#define MISSED_NS (60 * NS_PER_S) /* thousands of starts are read for that: 4 ms */
#define FAR_PAGES 2000            /* and for what was before */

static int begin(struct pg *pg, struct deferred_error *err)
{
	char sql[256];

	/* A bitmap is read as a whole, and so would not end where a LIMIT does. And to begin a process that helps takes
	 * longer than such a statement. */
	snprintf(sql, sizeof(sql),
		 "set transaction read only; set local statement_timeout = %d; set local lock_timeout = 100; set local "
		 "enable_bitmapscan = off; set local max_parallel_workers_per_gather = 0",
		 STORE_WHY_MS);
	return pg_begin(pg, sql, err);
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

/* The same of a statement whose parameter is a number. */
static const struct pg_result *ask_of(struct pg *pg, struct store_why *why, const struct sql_statement *stmt,
				      int64_t number)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, number);
	return ask_more(pg, why, stmt, &args);
}

#define KNOWN(row, name) ((row).has_##name ? (row).name : CAUSE_UNKNOWN)

/* ---- parts of both answers ------------------------------------------------------------------------ */

/* xid NULL: the oldest that has written something. */
static void ask_session(struct pg *pg, struct store_why *why, const char *xid, struct cause_session *session)
{
	const struct pg_result *res;
	struct why_session_row r;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, xid);
	res = ask_more(pg, why, &sql_why_session, &args);
	if (!res)
		return;
	r = why_session_row(res, 0);
	*session = (struct cause_session){ r.pid, r.age_s, r.role, r.state, r.query };
}

/* A statement waited in vain: who has the table? False: nobody any more, or it failed for another reason. */
static bool ask_table(struct pg *pg, struct store_why *why, const struct deferred_error *failed,
		      struct cause_table *table)
{
	struct why_table_lock_row r;
	const struct pg_result *res;

	if (!failed || strcmp(failed->sqlstate, LOCK_NOT_AVAILABLE) != 0 ||
	    !(res = ask_more(pg, why, &sql_why_table_lock, NULL)))
		return false;
	r = why_table_lock_row(res, 0);
	*table = (struct cause_table){ r.table, r.wanted, { r.pid, r.age_s, r.role, r.state, r.query } };
	return true;
}

static void read_serving(const struct pg_result *res, size_t row, struct cause_serving *s)
{
	struct why_serving_row r = why_serving_row(res, row);

	s->alive = r.alive;
	s->others = r.others;
	s->seen_s = KNOWN(r, seen_s);
	s->gap_s = KNOWN(r, gap_s);
	s->started_s = KNOWN(r, started_s);
	s->instance = r.instance;
	s->service = r.service;
	s->role = r.role;
	s->grants = r.worker_lacks;
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
	const struct pg_result *res = ask_of(pg, why, &sql_why_error, id);
	const char *line;
	int len;

	if (!res)
		return NULL;
	line = gist(why_error_row(res, 0).error, &len);
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
		struct why_rates_row row = why_rates_row(res, 0);

		r->minutes = row.minutes;
		r->ended = row.attempts;
		r->failed = row.failed;
		r->superseded = row.superseded;
		r->run_s = row.run_s;
		r->fn = row.fn;
		r->fn_share = row.share;
		r->run_p50_s = KNOWN(row, p50_s);
		r->usual_run_p50_s = KNOWN(row, p50_before_s);
		r->build = row.plugin;
		if (2 * r->failed > r->ended && row.has_failed_job)
			r->error = ask_error(pg, why, row.failed_job);
	}
	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if ((res = ask_more(pg, why, &sql_why_arrivals, &args))) {
		struct why_arrivals_row row = why_arrivals_row(res, 0);

		r->arrived = KNOWN(row, per_min);
		r->usual_arrived = KNOWN(row, before_per_min);
		r->arrived_by = row.who;
	}
}

/* ---- one job -------------------------------------------------------------------------------------- */

static void read_job(const struct why_job_row *r, struct cause_job *j)
{
	j->there = r->there;
	j->last_id = KNOWN(*r, last_id);
	j->neighbour_s = KNOWN(*r, neighbour_s);
	j->kept_s = KNOWN(*r, kept_s);
	j->state = r->state;
	j->queue = r->queue;
	j->fn = r->fn;
	j->outcome = r->outcome;
	j->attempts = r->attempts;
	j->failures = r->failures;
	j->ended_s = r->ended_s;
	j->leased = r->leased;
	j->lease_over = r->lease_over;
	j->worker = r->worker;
	j->lease_left_s = r->lease_left_s;
	j->claimed_s = r->claimed_s;
	j->progress = r->progress;
	if (j->progress && !j->progress[0])
		j->progress = NULL;
	j->steps = r->steps;
	j->due_in_s = r->due_in_s;
	j->ready_s = r->ready_s;
	j->expires = r->expires;
	j->expires_in_s = r->expires_in_s;
	j->paused = r->paused;
	j->fn_unknown = r->fn_unknown;
	j->refused_host = r->refused_host;
	j->refused_why = r->refused_why;
	j->row_locked = r->row_locker != NULL;
	j->lane_locked = r->lane_locker != NULL;
	j->stranded = r->stranded;
	j->key = r->key;
	j->key_max = r->key_max;
	j->taken_s = KNOWN(*r, taken_s);
	j->own_key_state = r->key_state;
}

static void ask_worker(struct pg *pg, struct store_why *why)
{
	const struct pg_result *res = ask_of(pg, why, &sql_why_worker, why->job.worker);
	struct cause_job *j = &why->job;
	struct why_worker_row r;

	j->worker_there = true;
	if (!res)
		return;
	r = why_worker_row(res, 0);
	j->worker_there = r.there;
	j->worker_ended = r.ended;
	j->worker_rebooted = r.rebooted;
	j->worker_cut_off = r.cut_off;
	j->worker_pid = r.pid;
	j->worker_host = r.host;
	j->worker_unseen_s = KNOWN(r, unseen_s);
}

static void ask_waits(struct pg *pg, struct store_why *why)
{
	const struct pg_result *res = ask_of(pg, why, &sql_why_waits, why->job.id);
	struct why_waits_row r;

	if (!res)
		return;
	r = why_waits_row(res, 0);
	why->job.flow = r.flow;
	why->job.flow_waits_for = r.flow_waits_for;
	why->job.waits_for = r.parents;
}

static void ask_paused(struct pg *pg, struct store_why *why)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	struct why_paused_row r;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, j->queue);
	pg_arg_int8(&args, STORE_WHY_COUNT);
	if (!(res = ask_more(pg, why, &sql_why_paused, &args)))
		return;
	r = why_paused_row(res, 0);
	j->queue_ready = r.ready;
	j->queue_counted = STORE_WHY_COUNT;
	j->paused_by = r.paused_by;
	j->paused_s = KNOWN(r, paused_s);
}

static void take_running(struct cause_job *j, bool of_fn, int64_t most, int64_t running, const char *ids)
{
	if (j->max_running != CAUSE_UNKNOWN && running < most)
		return;
	j->max_running = most;
	j->running = running;
	j->running_ids = ids;
	j->fn_limit = of_fn;
}

static void take_rate(struct cause_job *j, bool of_fn, double rate, double wait_s)
{
	if (wait_s < j->rate_wait_s)
		return;
	j->rate = rate;
	j->rate_wait_s = wait_s;
	j->fn_rate = of_fn;
	j->key_rate = false;
}

/* Of queue and function the one that holds it back; where both do, the function's, which is asked for less often. */
static void ask_limits(struct pg *pg, struct store_why *why)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	struct why_limits_row r;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, j->queue);
	pg_arg_text(&args, j->fn);
	pg_arg_int8(&args, j->id);
	if (!(res = ask_more(pg, why, &sql_why_limits, &args)))
		return;
	r = why_limits_row(res, 0);
	if (r.has_queue_max_running)
		take_running(j, false, r.queue_max_running, r.queue_running, r.queue_ids);
	j->pattern = r.pattern;
	if (r.has_queue_rate)
		take_rate(j, false, r.queue_rate, r.queue_wait_s);
	if (r.has_fn_max_running)
		take_running(j, true, r.fn_max_running, r.fn_running, r.fn_ids);
	if (r.has_fn_rate)
		take_rate(j, true, r.fn_rate, r.fn_wait_s);
	if (r.has_paused_s)
		j->broken_s = r.paused_s;
	if (j->key) {
		if (r.has_key_rate && r.key_wait_s > j->rate_wait_s) {
			take_rate(j, false, r.key_rate, r.key_wait_s);
			j->key_rate = true;
		}
		j->key_before = r.key_ahead;
		j->key_first = r.key_first;
		j->key_first_state = r.key_state;
		j->key_running = r.key_running;
	}
}

static void ask_steps(struct pg *pg, struct store_why *why)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, why->job.queue);
	if ((res = ask_more(pg, why, &sql_why_steps, &args))) {
		why->job.step_group = why_steps_row(res, 0).group_name;
		why->job.step_for = why_steps_row(res, 0).waited_for;
	}
}

static void ask_ahead(struct pg *pg, struct store_why *why, const struct why_job_row *job)
{
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, why->job.queue);
	pg_arg_int4(&args, job->priority);
	pg_arg_text(&args, job->xid);
	pg_arg_int8(&args, why->job.id);
	pg_arg_int8(&args, STORE_WHY_COUNT);
	res = ask_more(pg, why, &sql_why_ahead, &args);
	why->job.ahead = res ? why_ahead_row(res, 0).jobs : STORE_WHY_COUNT;
	why->job.ahead_counted = STORE_WHY_COUNT;
}

static void ask_about_ready(struct pg *pg, struct store_why *why, const struct why_job_row *job)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;

	if (j->row_locked || j->lane_locked)
		ask_session(pg, why, j->row_locked ? job->row_locker : job->lane_locker, &j->holder);
	if (!j->fn)
		return;
	if ((res = ask_serving(pg, why, &j->queue, 1)))
		read_serving(res, 0, &j->serving);
	ask_limits(pg, why);
	if (j->serving.alive)
		ask_steps(pg, why);
	if (!job->limited)
		ask_ahead(pg, why, job);
	if (j->ahead > 0)
		ask_rates(pg, why, j->queue, &j->rates);
}

int store_why_job(struct pg *pg, int64_t id, struct store_why *why, struct deferred_error *err)
{
	struct cause_job *j = &why->job;
	const struct pg_result *res;
	struct why_job_row r;
	struct pg_args args;

	memset(why, 0, sizeof(*why));
	cause_job_init(j);
	j->id = id;
	pg_args_init(&args);
	pg_arg_int8(&args, id);
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
	r = why_job_row(res, 0);
	read_job(&r, j);
	if (!j->there) {
		ask_session(pg, why, NULL, &j->writer);
		return 0;
	}
	if (r.leased)
		ask_worker(pg, why);
	if (strcmp(j->state, "waiting") == 0)
		ask_waits(pg, why);
	if (r.paused)
		ask_paused(pg, why);
	if (r.may_read && (j->failures > 0 || (j->outcome && strcmp(j->state, "done") != 0)))
		j->error = ask_error(pg, why, id);
	if (strcmp(j->state, "ready") == 0 && !j->lease_over)
		ask_about_ready(pg, why, &r);
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
		struct admin_status_queues_row r = admin_status_queues_row(res, i);
		struct cause_queue *q = &b->queues[n];

		if (b->queue && strcmp(b->queue, r.queue) != 0)
			continue;
		*q = (struct cause_queue){
			.name = r.queue,
			.paused = r.paused,
			.paused_by = r.paused_by,
			.paused_s = KNOWN(r, paused_s),
			.ready = r.ready,
			.running = r.claimed,
			.delayed = r.delayed,
			.more = r.ready_more,
			.oldest_s = r.oldest_ready_s,
			.serving = { .seen_s = CAUSE_UNKNOWN, .gap_s = CAUSE_UNKNOWN, .started_s = CAUSE_UNKNOWN }
		};
		names[n++] = q->name;
	}
	b->queues_len = n;
	if (n == 0 && b->queue)
		rc = error_set(err, DEFERRED_ENOTFOUND, "why",
			       "queue '%.88s' does not exist\ndeferred queue ls lists the queues", b->queue);
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
	for (size_t i = 0; i < pg_rows(res); i++) {
		struct why_queues_row r = why_queues_row(res, i);

		if (r.has_paused_s && !b->broken_fn) {
			b->broken_fn = r.fn;
			b->broken_s = r.paused_s;
		}
		for (size_t k = 0; k < b->queues_len && r.used_up && r.queue; k++) {
			struct cause_queue *q = &b->queues[k];

			if (strcmp(q->name, r.queue) != 0)
				continue;
			q->limit_used_up = true;
			q->max_running = KNOWN(r, max_running);
			q->rate = r.rate;
			q->pattern = r.pattern;
		}
	}
}

static void ask_unknown(struct pg *pg, struct store_why *why)
{
	struct admin_functions_unknown_row r;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, 1000);
	if (!(res = ask_more(pg, why, &sql_admin_functions_unknown, &args)))
		return;
	r = admin_functions_unknown_row(res, 0);
	why->backlog.unknown_fn = r.fn;
	why->backlog.unknown_jobs = r.jobs;
	why->backlog.unknown_s = r.oldest_s;
}

static void ask_schedules(struct pg *pg, struct store_why *why, const char *queue)
{
	struct schedule_trouble_row r;
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if (!(res = ask_more(pg, why, &sql_schedule_trouble, &args)))
		return;
	r = schedule_trouble_row(res, 0);
	b->schedule = r.name;
	b->schedule_what = r.what;
	b->schedule_error = r.why;
	b->schedule_s = KNOWN(r, since_s);
	b->schedule_job = KNOWN(r, job);
	while ((size_t)b->schedules < pg_rows(res) &&
	       strcmp(schedule_trouble_row(res, (size_t)b->schedules).what, b->schedule_what) == 0)
		b->schedules++;
}

static void ask_runs(struct pg *pg, struct store_why *why, int64_t oldest_s)
{
	struct why_runs_row r;
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, oldest_s);
	pg_arg_int8(&args, NEAR_PAGES);
	if (!(res = ask_more(pg, why, &sql_why_runs, &args)))
		return;
	r = why_runs_row(res, 0);
	b->runs = r.runs;
	b->runs_by_count = r.full;
	b->count = r.most;
	b->runs_of = r.instance;
}

static void ask_server(struct pg *pg, struct store_why *why)
{
	struct why_server_row r;
	struct cause_backlog *b = &why->backlog;
	const struct pg_result *res;
	struct pg_args args;

	pg_args_init(&args);
	if (!(res = ask_more(pg, why, &sql_why_server, &args)))
		return;
	r = why_server_row(res, 0);
	b->read_only = r.read_only;
	b->connections = r.connections;
	b->connections_max = r.connections_max;
	b->idle_s = KNOWN(r, seen_s);
	if (r.has_pid)
		b->snapshot = (struct cause_session){ r.pid, r.age_s, r.role, r.state, r.query };
	b->commits = r.sync_waiting;
	b->commits_s = r.sync_wait_s;
	b->standbys = r.sync_names;
}

static void ask_gone(struct pg *pg, struct store_why *why, const char *queue)
{
	const struct pg_result *res;
	struct why_gone_row r;
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	if (!(res = ask_more(pg, why, &sql_why_gone, &args)))
		return;
	r = why_gone_row(res, 0);
	why->backlog.gone = (struct cause_gone){ r.id, r.pid, r.host, r.jobs, r.lease_s };
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
			struct why_absent_row r = why_absent_row(res, 0);

			snprintf(a->host, sizeof(a->host), "%s", r.host);
			snprintf(a->pidfile, sizeof(a->pidfile), "%s", r.pidfile);
			a->service = r.service;
			a->starts = r.starts;
			a->every_s = r.every_s;
			a->seen_s = r.seen_s;
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
