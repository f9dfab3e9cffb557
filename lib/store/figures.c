/* SPDX-License-Identifier: MIT */
#include "store/figures.h"

#include "base/clock.h"
#include "base/job.h"
#include "store/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "figures"
#define OLD_MS (5 * 60 * 1000)
#define FOLD_READER_MS 2000 /* of one slice */
#define FIRST_OUTCOME 4     /* column */
#define AFTER_OUTCOMES (FIRST_OUTCOME + STORE_OUTCOMES)

_Static_assert(JOB_SNOOZED == STORE_OUTCOMES - 1, "an outcome has no column in the sums");

/* ---- folding ---------------------------------------------------------------------------------- */

static int fold_once(struct pg *pg, struct store_folded *sum, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = pg_exec(pg, &sql_fold, NULL, PG_TEXT, &res, err);

	if (rc == 0) {
		sum->attempts += pg_int(res, 0, 0);
		sum->arrived += pg_int(res, 0, 1);
		sum->behind_ms = pg_int(res, 0, 2);
		sum->done = pg_bool(res, 0, 3);
		sum->busy = pg_bool(res, 0, 4);
	}
	pg_result_free(res);
	return rc;
}

/* A reader does not wait for a slow log, and folds nothing as a viewer. */
static int fold_briefly(struct pg *pg, struct store_folded *sum, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	char sql[64];
	int rc;

	snprintf(sql, sizeof(sql), "begin; set local statement_timeout = %d", FOLD_READER_MS);
	rc = pg_command(pg, sql, err);
	if (rc == 0)
		rc = pg_exec(pg, &sql_fold_kept, NULL, PG_TEXT, &res, err);
	if (rc == 0)
		sum->done = !pg_bool(res, 0, 0);
	pg_result_free(res);
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
		f->more = pg_rows(res) == 1 && !pg_bool(res, 0, 0);
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

int store_fold_anew(struct pg *pg, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = pg_exec(pg, &sql_fold_anew, NULL, PG_TEXT, &res, err);

	pg_result_free(res);
	return rc;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* What stands for all of them is *, and NULL here. */
static const char *name(const struct pg_result *res, size_t row, int col)
{
	const char *text = pg_text(res, row, col, NULL);

	return strcmp(text, "*") == 0 ? NULL : text;
}

static int take_row(struct store_figure *f, const struct pg_result *res, size_t row, struct deferred_error *err)
{
	int64_t *const rest[] = { &f->dead, &f->arrived, &f->wait_us, &f->run_us, &f->cpu_us, &f->max_rss_kb };
	int col = AFTER_OUTCOMES;

	f->series = (int)pg_int(res, row, AFTER_OUTCOMES + 8);
	f->at_s = pg_int(res, row, 0);
	f->queue = name(res, row, 1);
	f->fn = name(res, row, 2);
	f->plugin = name(res, row, 3);
	for (int i = 0; i < STORE_OUTCOMES; i++)
		f->attempts += f->outcome[i] = pg_int(res, row, FIRST_OUTCOME + i);
	for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
		*rest[i] = pg_int(res, row, col++);
	if (!histogram_add_text(&f->wait, pg_text(res, row, col, NULL)) ||
	    !histogram_add_text(&f->run, pg_text(res, row, col + 1, NULL)))
		return error_set(err, DEFERRED_EDB, WHERE,
				 "the sums in the database are damaged: deferred fold --anew");
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
		if (pg_null(f.res, i, 1)) {
			f.now_s = pg_int(f.res, i, 0);
			f.folded_s = pg_int(f.res, i, FIRST_OUTCOME);
			f.exact_s = pg_int(f.res, i, FIRST_OUTCOME + 1);
		} else {
			rc = take_row(&f.row[f.n++], f.res, i, err);
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

int store_figures_marks(struct pg *pg, const char *fn, int64_t back_s, int most, struct pg_result **res,
			struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, fn);
	pg_arg_int8(&args, back_s);
	pg_arg_int4(&args, most);
	rc = pg_exec(pg, &sql_figures_marks, &args, PG_TEXT, res, err);
	pg_args_clear(&args);
	return rc;
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
	struct pg_args args;
	int rc;

	memset(depths, 0, sizeof(*depths));
	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_int8(&args, back_s);
	rc = pg_exec(pg, &sql_figures_depth, &args, PG_TEXT, &d.res, err);
	pg_args_clear(&args);
	if (rc == 0 && !(d.row = calloc(pg_rows(d.res) + 1, sizeof(*d.row))))
		rc = error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	for (size_t i = 0; rc == 0 && i < pg_rows(d.res); i++)
		d.row[d.n++] = (struct store_depth){
			pg_int(d.res, i, 0),
			pg_text(d.res, i, 1, NULL),
			pg_int(d.res, i, 2),
			pg_int(d.res, i, 3),
			pg_int(d.res, i, 4),
			pg_bool(d.res, i, 5),
			pg_null(d.res, i, 6) ? -1 : pg_int(d.res, i, 6),
			pg_bool(d.res, i, 7),
		};
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
	struct pg_result *res = NULL;
	int rc = pg_exec(pg, &sql_figures_state, NULL, PG_TEXT, &res, err);

	if (rc == 0)
		*state = (struct store_state){ pg_int(res, 0, 0), pg_int(res, 0, 1), pg_int(res, 0, 2),
					       (int)pg_int(res, 0, 3) };
	pg_result_free(res);
	return rc;
}

int store_limits_used(struct pg *pg, const char *queue, const char *fn, struct pg_result **res,
		      struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_text(&args, fn);
	rc = pg_exec(pg, &sql_figures_limits, &args, PG_TEXT, res, err);
	pg_args_clear(&args);
	return rc;
}
