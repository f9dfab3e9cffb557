/* SPDX-License-Identifier: MIT */
#include "store/figures.h"

#include "base/clock.h"
#include "base/job.h"
#include "rows/history.h"
#include "rows/queue.h"
#include "store/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "figures"
#define OLD_MS (5 * 60 * 1000)
#define FOLD_READER_MS 2000 /* of one slice */

_Static_assert(JOB_SNOOZED == STORE_OUTCOMES - 1, "an outcome has no column in the sums");

/* ---- folding ---------------------------------------------------------------------------------- */

static int fold_once(struct pg *pg, struct store_folded *sum, struct deferred_error *err)
{
	struct fold_row r;
	int rc = fold_one(pg, &r, err);

	if (rc == 0) {
		sum->attempts += r.attempts;
		sum->arrived += r.arrived;
		sum->behind_ms = r.behind_ms;
		sum->done = r.done;
		sum->busy = r.busy;
	}
	return rc;
}

/* A reader does not wait for a slow log, and folds nothing as a viewer. */
static int fold_briefly(struct pg *pg, struct store_folded *sum, struct deferred_error *err)
{
	struct fold_kept_row r = { 0 };
	char sql[64];
	int rc;

	snprintf(sql, sizeof(sql), "set local statement_timeout = %d", FOLD_READER_MS);
	rc = pg_begin(pg, sql, err);
	if (rc == 0)
		rc = fold_kept_one(pg, &r, err);
	if (rc == 0)
		sum->done = !r.more;
	if (rc == 0)
		return pg_command(pg, "commit", err);
	if (!pg_broken(pg) && pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

int store_fold(struct pg *pg, int limit_ms, struct store_folded *folded, struct deferred_error *err)
{
	uint64_t end = clock_ns() + (uint64_t)limit_ms * NS_PER_MS;
	struct store_folded sum = { 0 };
	int rc;

	do
		rc = limit_ms == 0 ? fold_once(pg, &sum, err) : fold_briefly(pg, &sum, err);
	while (rc == 0 && !sum.done && (limit_ms == 0 || clock_ns() < end));
	if (folded)
		*folded = sum;
	return rc;
}

struct fold_old {
	bool folded, more;
};

static void on_fold_old(void *data, int tag, const struct pg_result *res)
{
	struct fold_old *f = data;

	if (tag == TAG_FOLD) {
		f->more = pg_rows(res) == 1 && !fold_old_row(res, 0).done;
		f->folded |= pg_rows(res) == 1;
	}
}

int store_fold_old(struct pg *pg, int limit_ms, bool *folded, struct deferred_error *err)
{
	uint64_t end = clock_ns() + (uint64_t)limit_ms * NS_PER_MS;
	struct fold_old f = { 0 };
	int rc = 0;

	do {
		struct pg_args args;

		f.more = false;
		pg_args_init(&args);
		pg_arg_int8(&args, OLD_MS);
		rc = store_run(pg, &sql_fold_old, &args, TAG_FOLD, on_fold_old, &f, err);
	} while (rc == 0 && f.more && clock_ns() < end);
	*folded = f.folded;
	return rc;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* The name * stands for all of them, and is NULL here. */
static const char *name_or_null(const char *text)
{
	return strcmp(text, "*") == 0 ? NULL : text;
}

static int take_row(struct store_figure *f, const struct figures_row *r, struct deferred_error *err)
{
	const int64_t outcomes[STORE_OUTCOMES] = {
		[JOB_OK] = r->ok,           [JOB_FAILED] = r->failed,           [JOB_CRASHED] = r->crashed,
		[JOB_TIMEOUT] = r->timeout, [JOB_INTERRUPTED] = r->interrupted, [JOB_SUPERSEDED] = r->superseded,
		[JOB_LOST] = r->lost,       [JOB_CANCELLED] = r->cancelled,     [JOB_EXPIRED] = r->expired,
		[JOB_SNOOZED] = r->snoozed,
	};

	f->series = r->series;
	f->at_s = r->at;
	f->queue = name_or_null(r->queue);
	f->fn = name_or_null(r->fn);
	f->plugin = name_or_null(r->plugin);
	for (int i = 0; i < STORE_OUTCOMES; i++)
		f->attempts += f->outcome[i] = outcomes[i];
	f->dead = r->dead;
	f->arrived = r->arrived;
	f->wait_us = r->wait_us;
	f->run_us = r->run_us;
	f->cpu_us = r->cpu_us;
	f->max_rss_kb = r->max_rss_kb;
	if (!histogram_add_text(&f->wait, r->wait_histogram) || !histogram_add_text(&f->run, r->run_histogram))
		return error_set(err, DEFERRED_EDB, WHERE,
				 "the sums in the database are damaged\nrun: deferred fold --rebuild");
	return 0;
}

static void arg_query(struct pg_args *args, const struct store_figures_query *q)
{
	static const int spans[] = { [STORE_MINUTES] = 1, [STORE_HOURS] = 60, [STORE_EVER] = 0 };

	pg_args_init(args);
	pg_arg_int4(args, spans[q->span]);
	pg_arg_text(args, q->by == STORE_BY_QUEUE || q->by == STORE_BY_BUILD ? q->queue : "*");
	pg_arg_text(args, q->by == STORE_BY_FUNCTION || q->by == STORE_BY_BUILD ? q->fn : "*");
	pg_arg_int4(args, q->by == STORE_BY_BUILD);
	pg_arg_int8(args, q->back_s);
	pg_arg_int8(args, q->for_s > 0 ? q->for_s : q->back_s + 1);
}

/* Takes the arguments. */
static int ask(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct store_figures *figures,
	       struct deferred_error *err)
{
	struct store_figures f = { 0 };
	int rc = pg_exec(pg, stmt, args, PG_TEXT, &f.res, err);

	memset(figures, 0, sizeof(*figures));
	pg_args_clear(args);
	if (rc == 0 && !(f.row = calloc(pg_rows(f.res) + 1, sizeof(*f.row))))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	for (size_t i = 0; rc == 0 && i < pg_rows(f.res); i++) {
		struct figures_row r = figures_row(f.res, i);

		if (r.queue) {
			rc = take_row(&f.row[f.n++], &r, err);
		} else {
			f.now_s = r.at;
			f.folded_s = r.ok;
			f.exact_s = r.failed;
		}
	}
	if (rc == 0)
		*figures = f;
	else
		store_figures_clear(&f);
	return rc;
}

int store_figures(struct pg *pg, const struct store_figures_query *query, struct store_figures *figures,
		  struct deferred_error *err)
{
	struct pg_args args;

	arg_query(&args, query);
	return ask(pg, &sql_figures, &args, figures, err);
}

int store_figures_builds(struct pg *pg, struct store_figures *figures, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	return ask(pg, &sql_figures_builds, &args, figures, err);
}

int store_figures_run(struct pg *pg, const char *const *fns, size_t n, struct store_figures *figures,
		      struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text_array(&args, fns, NULL, n);
	return ask(pg, &sql_figures_run, &args, figures, err);
}

void store_figures_clear(struct store_figures *figures)
{
	free(figures->row);
	pg_result_free(figures->res);
	memset(figures, 0, sizeof(*figures));
}

int store_depth(struct pg *pg, const char *queue, int64_t back_s, struct store_depths *depths,
		struct deferred_error *err)
{
	struct store_depths d = { 0 };
	int rc = figures_depth_exec(pg, queue, back_s, &d.res, err);

	memset(depths, 0, sizeof(*depths));
	if (rc == 0 && !(d.row = calloc(pg_rows(d.res) + 1, sizeof(*d.row))))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	for (size_t i = 0; rc == 0 && i < pg_rows(d.res); i++) {
		struct figures_depth_row r = figures_depth_row(d.res, i);

		d.row[d.n++] = (struct store_depth){
			r.at, r.queue, r.ready, r.delayed, r.claimed, r.more, r.has_oldest_s ? r.oldest_s : -1, r.paused
		};
	}
	if (rc == 0)
		*depths = d;
	else
		store_depths_clear(&d);
	return rc;
}

void store_depths_clear(struct store_depths *depths)
{
	free(depths->row);
	pg_result_free(depths->res);
	memset(depths, 0, sizeof(*depths));
}

int store_state(struct pg *pg, struct store_state *state, struct deferred_error *err)
{
	struct figures_state_row r;
	int rc = figures_state_one(pg, &r, err);

	if (rc == 0)
		*state = (struct store_state){ r.workers, r.seen_at, r.snapshot_s, r.version };
	return rc;
}
