/* SPDX-License-Identifier: MIT */
#include "program/metrics.h"

#include "base/job.h"
#include "deferred.h"
#include "program/builds.h"
#include "program/exposition.h"
#include "store/admin.h"
#include "store/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "metrics"
#define OTHER "other"
#define LOOK_MS 5000

/* Bounds that our buckets have too, in microseconds. */
static const int64_t bounds_us[] = { 1000,      2500,      10000,      25000,      100000,
				     250000,    1000000,   2500000,    10000000,   25000000,
				     100000000, 250000000, 1000000000, 2500000000, 10000000000 };
#define BOUNDS (sizeof(bounds_us) / sizeof(bounds_us[0]))

/* A sample begins with its name, what follows that, and labels. A label that is NULL is left out. */
static void begin_sample(struct exposition *out, const char *after, const char *queue, const char *fn, const char *more,
			 const char *value)
{
	exposition_sample(out, after, (struct exposition_label[]){ { "queue", queue }, { "fn", fn }, { more, value } },
			  3);
}

static void print_histogram(struct exposition *out, const char *queue, const char *fn, const struct histogram *h,
			    int64_t sum_us)
{
	exposition_histogram(out, (struct exposition_label[]){ { "queue", queue }, { "fn", fn } }, 2, h, sum_us,
			     bounds_us, BOUNDS);
}

/* ---- names of rows ------------------------------------------------------------------------------ */

static int by_series(const void *a, const void *b)
{
	const struct store_figure *x = a, *y = b;

	return (x->series > y->series) - (x->series < y->series);
}

/* The sums call the functions for which they had no room "+". */
static const char *fn_name(const char *fn)
{
	return fn && strcmp(fn, "+") == 0 ? OTHER : fn;
}

static int metrics_compare(const char *x, const char *y)
{
	return x && y ? strcmp(x, y) : (x != NULL) - (y != NULL);
}

static int metrics_by_name(const void *a, const void *b)
{
	const struct store_figure *x = a, *y = b;
	int order = metrics_compare(x->queue, y->queue);

	return order ? order : metrics_compare(x->fn, y->fn);
}

/* Rows of the same name become one. */
static void merge_rows(struct store_figures *f)
{
	size_t n = 0;

	qsort(f->row, f->n, sizeof(*f->row), metrics_by_name);
	for (size_t i = 0; i < f->n; i++) {
		struct store_figure *to = n > 0 ? &f->row[n - 1] : NULL, *from = &f->row[i];

		if (!to || metrics_by_name(to, from) != 0) {
			f->row[n++] = *from;
			continue;
		}
		for (int o = 0; o < STORE_OUTCOMES; o++)
			to->outcome[o] += from->outcome[o];
		to->attempts += from->attempts;
		to->dead += from->dead;
		to->arrived += from->arrived;
		to->wait_us = store_figures_add_us(to->wait_us, from->wait_us);
		to->run_us = store_figures_add_us(to->run_us, from->run_us);
		to->cpu_us = store_figures_add_us(to->cpu_us, from->cpu_us);
		to->max_rss_kb = to->max_rss_kb > from->max_rss_kb ? to->max_rss_kb : from->max_rss_kb;
		to->series = to->series < from->series ? to->series : from->series;
		histogram_add(&to->wait, &from->wait);
		histogram_add(&to->run, &from->run);
	}
	f->n = n;
}

/* The first `most` keep their names; rows are by series then. */
static void name_rows(struct store_figures *f, size_t most)
{
	merge_rows(f);
	qsort(f->row, f->n, sizeof(*f->row), by_series);
	for (size_t i = 0; i < f->n; i++) {
		f->row[i].fn = fn_name(f->row[i].fn);
		if (i >= most && f->row[i].queue)
			f->row[i].queue = OTHER;
		if (i >= most && f->row[i].fn)
			f->row[i].fn = OTHER;
	}
	merge_rows(f);
}

static bool has_name(const struct store_figures *f, const char *queue, const char *fn)
{
	struct store_figure wanted = { .queue = queue, .fn = fn };

	return bsearch(&wanted, f->row, f->n, sizeof(*f->row), metrics_by_name) != NULL;
}

/* ---- metrics ------------------------------------------------------------------------------------ */

struct all {
	struct store_figures queues, functions, pairs, built;
	struct builds builds;
	struct store_depths depths;
	struct store_state state;
	struct pg_result *limits;
};

static void print_flow(struct exposition *out, const struct all *all)
{
	exposition_metric(out, "deferred_jobs_deferred_total", "counter", "Jobs deferred.");
	for (size_t i = 0; i < all->queues.n; i++) {
		begin_sample(out, "", all->queues.row[i].queue, NULL, NULL, NULL);
		exposition_whole(out, all->queues.row[i].arrived);
	}
	exposition_metric(out, "deferred_attempts_total", "counter", "Attempts that ended, by how they did.");
	for (size_t i = 0; i < all->pairs.n; i++)
		for (int o = 0; o < STORE_OUTCOMES; o++) {
			begin_sample(out, "", all->pairs.row[i].queue, all->pairs.row[i].fn, "outcome",
				     job_outcome_text((enum job_outcome)o));
			exposition_whole(out, all->pairs.row[i].outcome[o]);
		}
	exposition_metric(out, "deferred_jobs_dead_total", "counter",
			  "Jobs that died: they will not be tried again by themselves.");
	for (size_t i = 0; i < all->pairs.n; i++) {
		begin_sample(out, "", all->pairs.row[i].queue, all->pairs.row[i].fn, NULL, NULL);
		exposition_whole(out, all->pairs.row[i].dead);
	}
	exposition_metric(out, "deferred_wait_seconds", "histogram", "Time from ready to started.");
	for (size_t i = 0; i < all->queues.n; i++)
		print_histogram(out, all->queues.row[i].queue, NULL, &all->queues.row[i].wait,
				all->queues.row[i].wait_us);
}

static void metrics_work(struct exposition *out, const struct all *all)
{
	exposition_metric(out, "deferred_run_seconds", "histogram", "Time from started to ended.");
	for (size_t i = 0; i < all->functions.n; i++)
		print_histogram(out, NULL, all->functions.row[i].fn, &all->functions.row[i].run,
				all->functions.row[i].run_us);
	exposition_metric(out, "deferred_cpu_seconds_total", "counter", "Processor time of attempts.");
	for (size_t i = 0; i < all->functions.n; i++) {
		begin_sample(out, "", NULL, all->functions.row[i].fn, NULL, NULL);
		exposition_seconds(out, all->functions.row[i].cpu_us);
	}
	exposition_metric(out, "deferred_max_rss_bytes", "gauge",
			  "Largest resident memory of a runner after an attempt.");
	for (size_t i = 0; i < all->functions.n; i++) {
		begin_sample(out, "", NULL, all->functions.row[i].fn, NULL, NULL);
		exposition_whole(out, all->functions.row[i].max_rss_kb * 1024);
	}
}

/* The newest build of each function, compared with the one before it. least: the bound of the interval that is nearer
 * to no difference. */
static void print_builds(struct exposition *out, const struct all *all, const char *name, const char *help,
			 bool crashes, bool least)
{
	exposition_metric(out, name, "gauge", help);
	for (size_t i = 0; i < all->builds.n; i++) {
		const struct build *b = &all->builds.list[i];
		struct proportion_difference more;
		struct histogram_ratio ratio;

		if (!has_name(&all->functions, NULL, b->fn) || strcmp(b->fn, OTHER) == 0 ||
		    !builds_newest(&all->builds, b) ||
		    !(crashes ? builds_crashes(&all->builds, b, &more) : builds_slowdown(&all->builds, b, &ratio)))
			continue;
		begin_sample(out, "", NULL, b->fn, "build", b->plugin);
		fprintf(out->fp, "%.4f\n", crashes ? (least ? more.low : more.more) : least ? ratio.low : ratio.times);
	}
}

/* A queue that was never used is not in the sums, so it has no name there. It is shown while there are few queues. */
static bool metrics_is_shown(const struct all *all, const struct store_depth *d)
{
	return has_name(&all->queues, d->queue, NULL) || all->queues.n < METRICS_QUEUES;
}

/* The other queues are one row. A queue that has the name of that row is part of it, as in the sums. */
static void print_depths(struct exposition *out, const struct all *all)
{
	const struct store_depths *d = &all->depths;
	int64_t other[3] = { 0 };
	bool rest = false;

	exposition_metric(out, "deferred_jobs", "gauge", "Jobs in a queue, of 1000 that are looked at.");
	for (size_t i = 0; i < d->n; i++) {
		const int64_t n[3] = { d->row[i].ready, d->row[i].delayed, d->row[i].claimed };

		for (int s = JOB_IS_DELAYED; s <= JOB_IS_CLAIMED; s++) {
			int64_t count = s == JOB_IS_READY ? n[0] : s == JOB_IS_DELAYED ? n[1] : n[2];

			if (metrics_is_shown(all, &d->row[i]) && strcmp(d->row[i].queue, OTHER) != 0) {
				begin_sample(out, "", d->row[i].queue, NULL, "state",
					     job_state_text((enum job_state)s));
				exposition_whole(out, count);
			} else {
				other[s] += count;
				rest = true;
			}
		}
	}
	for (int s = JOB_IS_DELAYED; rest && s <= JOB_IS_CLAIMED; s++) {
		begin_sample(out, "", OTHER, NULL, "state", job_state_text((enum job_state)s));
		exposition_whole(out, other[s]);
	}
	exposition_metric(out, "deferred_oldest_ready_seconds", "gauge",
			  "Time the longest waiting ready job has waited.");
	for (size_t i = 0; i < d->n; i++)
		if (metrics_is_shown(all, &d->row[i])) {
			begin_sample(out, "", d->row[i].queue, NULL, NULL, NULL);
			exposition_whole(out, d->row[i].oldest_s > 0 ? d->row[i].oldest_s : 0);
		}
	exposition_metric(out, "deferred_queue_paused", "gauge", "1: nothing is taken from the queue.");
	for (size_t i = 0; i < d->n; i++)
		if (metrics_is_shown(all, &d->row[i])) {
			begin_sample(out, "", d->row[i].queue, NULL, NULL, NULL);
			exposition_whole(out, d->row[i].paused);
		}
}

/* A metric without labels. */
static void print_gauge(struct exposition *out, const char *name, const char *help, int64_t value)
{
	exposition_metric(out, name, "gauge", help);
	begin_sample(out, "", NULL, NULL, NULL, NULL);
	exposition_whole(out, value);
}

static void print_rest(struct exposition *out, const struct all *all)
{
	const struct store_state *state = &all->state;

	print_builds(out, all, "deferred_function_slowdown_ratio",
		     "How many times as long half of the attempts take as with the build before.", false, false);
	print_builds(out, all, "deferred_function_slowdown_least_ratio", "Lower bound of the factor.", false, true);
	print_builds(out, all, "deferred_function_more_crashes_ratio",
		     "How much larger the share of attempts that crash is than with the build before.", true, false);
	print_builds(out, all, "deferred_function_more_crashes_least_ratio", "Lower bound of that difference.", true,
		     true);
	exposition_metric(out, "deferred_limit_used_ratio", "gauge", "Share in use of a limit on attempts at once.");
	for (size_t i = 0; i < pg_rows(all->limits); i++) {
		struct figures_limits_row r = figures_limits_row(all->limits, i);
		const char *name = r.name;
		bool fn = r.is_fn;

		if (!has_name(fn ? &all->functions : &all->queues, fn ? NULL : name, fn ? name : NULL))
			continue;
		begin_sample(out, "", fn ? NULL : name, fn ? name : NULL, NULL, NULL);
		fprintf(out->fp, "%g\n", r.share);
	}
	print_gauge(out, "deferred_workers", "Workers that live.", state->workers);
	print_gauge(out, "deferred_last_run_timestamp_seconds", "When a worker was seen last.", state->seen_s);
	print_gauge(out, "deferred_database_oldest_snapshot_seconds",
		    "Time the oldest snapshot has been held, of sessions that may be seen.", state->snapshot_s);
	print_gauge(out, "deferred_metrics_timestamp_seconds", "Attempts that ended before this time are included.",
		    all->queues.folded_s);
	exposition_metric(out, "deferred_build_info", "gauge", "1, with the version of the program and of the schema.");
	fprintf(out->fp, "deferred_build_info{version=\"%s\",schema_version=\"%d\"} 1\n", DEFERRED_VERSION,
		state->schema_version);
}

/* A pair has no name of its own if its queue or its function has none. */
static void name_pairs(struct all *all)
{
	merge_rows(&all->pairs);
	qsort(all->pairs.row, all->pairs.n, sizeof(*all->pairs.row), by_series);
	for (size_t i = 0; i < all->pairs.n; i++) {
		struct store_figure *pair = &all->pairs.row[i];

		pair->fn = fn_name(pair->fn);
		if (i >= METRICS_PAIRS || !has_name(&all->queues, pair->queue, NULL))
			pair->queue = OTHER;
		if (i >= METRICS_PAIRS || !has_name(&all->functions, NULL, pair->fn))
			pair->fn = OTHER;
	}
	merge_rows(&all->pairs);
}

static int read_builds(struct pg *pg, struct all *all, struct deferred_error *err)
{
	int rc = store_figures_builds(pg, &all->built, err);

	if (rc < 0)
		return rc;
	all->builds.max = all->built.n < METRICS_BUILDS ? all->built.n : METRICS_BUILDS;
	all->builds.list = calloc(all->builds.max + 1, sizeof(*all->builds.list));
	if (!all->builds.list)
		return error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
	builds_gather(&all->builds, &all->built);
	return 0;
}

static int metrics_read_all(struct pg *pg, struct all *all, struct deferred_error *err)
{
	int rc = store_figures(pg, &(struct store_figures_query){ .span = STORE_EVER, .by = STORE_BY_QUEUE },
			       &all->queues, err);

	if (rc == 0)
		rc = store_figures(pg, &(struct store_figures_query){ .span = STORE_EVER, .by = STORE_BY_FUNCTION },
				   &all->functions, err);
	if (rc == 0)
		rc = store_figures(pg, &(struct store_figures_query){ .span = STORE_EVER, .by = STORE_BY_BUILD },
				   &all->pairs, err);
	if (rc == 0)
		rc = read_builds(pg, all, err);
	if (rc == 0)
		rc = store_depth(pg, NULL, 0, &all->depths, err);
	if (rc == 0)
		rc = figures_limits_exec(pg, NULL, NULL, &all->limits, err);
	return rc == 0 ? store_state(pg, &all->state, err) : rc;
}

/* One form of the metrics. text NULL: it is not wanted. */
static int metrics_print(const struct all *all, bool open, char **text, struct deferred_error *err)
{
	struct exposition out;

	if (!text)
		return 0;
	if (exposition_begin(&out, open)) {
		print_flow(&out, all);
		metrics_work(&out, all);
		print_depths(&out, all);
		print_rest(&out, all);
		*text = exposition_end(&out);
	}
	return *text ? 0 : error_set(err, DEFERRED_ENOMEM, WHERE, "out of memory");
}

int metrics_text(struct pg *pg, char **text, char **open, struct deferred_error *err)
{
	struct all all = { 0 };
	int rc;

	if (text)
		*text = NULL;
	if (open)
		*open = NULL;
	store_fold(pg, STORE_FOLD_READ_MS, NULL, NULL); /* a server in recovery refuses that */
	rc = store_admin_look(pg, LOOK_MS, err);
	if (rc == 0)
		rc = metrics_read_all(pg, &all, err);
	if (rc == 0)
		rc = pg_command(pg, "commit", err);
	else if (pg_in_transaction(pg))
		pg_command(pg, "rollback", NULL);
	if (rc == 0) {
		name_rows(&all.queues, METRICS_QUEUES);
		name_rows(&all.functions, METRICS_FUNCTIONS);
		name_pairs(&all);
		rc = metrics_print(&all, false, text, err);
	}
	if (rc == 0)
		rc = metrics_print(&all, true, open, err);
	if (rc < 0 && text) {
		free(*text);
		*text = NULL;
	}
	store_figures_clear(&all.queues);
	store_figures_clear(&all.functions);
	store_figures_clear(&all.pairs);
	store_figures_clear(&all.built);
	free(all.builds.list);
	store_depths_clear(&all.depths);
	pg_result_free(all.limits);
	return rc;
}
