/* SPDX-License-Identifier: MIT */
#include "program/outlook.h"

#include "store/admin.h"
#include "store/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000)
#define HOUR_S INT64_C(3600)
#define GRACE_US (5 * SECOND) /* of check_deferred, as its settings have it */
#define DAY_S (24 * HOUR_S)
#define WEEK_S (7 * DAY_S)
#define EPOCH_2000 INT64_C(946684800)
#define HOURS (8 * 24 + 2)
#define LATE_S 600       /* older sums say nothing about the last hour */
#define JOBS_MAX 2000000 /* to be replayed */
#define WAITING_MIN 0.05 /* a smaller share of jobs that have not begun is not reported */

void outlook_init(struct outlook *o)
{
	*o = (struct outlook){
		.since_ms = WEEK_S * 1000,
		.scale = 1,
		.now_rate = -1,
		.peak_cores = -1,
		.bounds = { .rows = 50000, .statement_ms = 10000 },
		.wanted = { .share = 0.95,
			    .within_us = 120 * SECOND,
			    .headroom = 1.2,
			    .runners_max = 32,
			    .start_us = SECOND / 5,
			    .between_us = SECOND / 40,
			    .seed = 1 },
	};
}

/* ---- the log --------------------------------------------------------------------------------- */

struct hour {
	int64_t at_s; /* since 1970 */
	int64_t arrived, attempts, cpu_us;
};

/* Jobs that functions are for: messages go to consumers. */
static int read_sums(struct outlook *o, struct pg *pg, enum store_span of, int64_t back_s, struct hour *hours,
		     size_t *n, int64_t *now_s, int64_t *folded_s, struct deferred_error *err)
{
	struct store_figures_query query = {
		.span = of, .by = o->queue ? STORE_BY_BUILD : STORE_BY_FUNCTION, .queue = o->queue, .back_s = back_s
	};
	struct store_figures figures = { 0 };
	size_t room = *n;
	int rc = store_admin_look(pg, o->bounds.statement_ms, err);

	*n = 0;
	if (rc == 0)
		rc = store_figures(pg, &query, &figures, err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	if (rc < 0) {
		store_figures_clear(&figures);
		return rc;
	}
	for (size_t i = 0; i < figures.n; i++) {
		const struct store_figure *f = &figures.row[i];

		if (!f->fn || !f->fn[0])
			continue;
		if ((*n == 0 || hours[*n - 1].at_s != f->at_s) && *n < room)
			hours[(*n)++] = (struct hour){ .at_s = f->at_s };
		hours[*n - 1].arrived += f->arrived;
		hours[*n - 1].attempts += f->attempts;
		hours[*n - 1].cpu_us = store_figures_add_us(hours[*n - 1].cpu_us, f->cpu_us);
	}
	*now_s = figures.now_s;
	*folded_s = figures.folded_s;
	store_figures_clear(&figures);
	return 0;
}

static int64_t load_of(const struct hour *hour)
{
	return hour->arrived > hour->attempts ? hour->arrived : hour->attempts;
}

static size_t busiest_hour(const struct hour *hours, size_t n)
{
	size_t at = 0;

	for (size_t i = 1; i < n; i++)
		if (load_of(&hours[i]) > load_of(&hours[at]))
			at = i;
	return at;
}

static int read_past(struct outlook *o, struct pg *pg, size_t at, int64_t from_us, int64_t to_us,
		     struct deferred_error *err)
{
	return store_advise_past(pg, o->queue, from_us, to_us, &o->bounds, o->run_scales, o->run_scales_len,
				 &o->past[at], err);
}

/* The busiest hour of the log itself, for where there are no sums of it. */
static void peak_of_log(struct outlook *o)
{
	const struct advice_history *h = &o->past[0].history;
	int64_t n = 0, hour = -1;

	for (size_t i = 0; i < h->len; i++) {
		int64_t at = h->jobs[i].ready_us / (HOUR_S * SECOND);

		n = at == hour ? n + 1 : 1;
		hour = at;
		if ((double)n / (double)HOUR_S > o->wanted.peak_rate) {
			o->wanted.peak_rate = (double)n / (double)HOUR_S;
			o->peak_us = h->begin_us + hour * HOUR_S * SECOND;
		}
	}
}

/* How much to scale arrivals, because jobs that arrived and have not begun are not in the log yet. */
static double outlook_missing(struct outlook *o, const struct hour *hours, size_t n)
{
	const struct store_past *past = &o->past[0];
	int64_t arrived = 0;

	for (size_t i = 0; i < n; i++)
		if ((hours[i].at_s - EPOCH_2000) * SECOND >= past->from_us)
			arrived += hours[i].arrived;
	if (past->history.len == 0 || (double)(arrived - past->first) < WAITING_MIN * (double)past->first)
		return 1;
	o->waiting = arrived - past->first;
	return 1 + (double)o->waiting / (double)past->history.len;
}

static int outlook_no_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, "advise", "out of memory");
}

static int outlook_scale(struct outlook *o, size_t at, double factor, struct deferred_error *err)
{
	struct advice_history copy;

	if ((double)o->past[at].history.len * factor > JOBS_MAX) {
		error_set(err, DEFERRED_EINVAL, OUTLOOK_TOO_MANY,
			  "%.3g times the %zu attempts of the log are too many to be replayed\nuse a smaller factor",
			  factor, o->past[at].history.len);
		return DEFERRED_EINVAL;
	}
	o->attempts += (int64_t)o->past[at].history.len; /* more of the same tell no more */
	if (factor != 1) {
		if (advice_scale(&o->past[at].history, factor, 7, &copy) < 0)
			return outlook_no_memory(err);
		free(o->past[at].history.jobs);
		o->past[at].history = copy;
	}
	if (o->past[at].history.len > 0)
		o->histories[o->n++] = o->past[at].history;
	return 0;
}

static double lasted_s(const struct advice_history *h)
{
	return h->len > 1 ? (double)(h->jobs[h->len - 1].ready_us - h->jobs[0].ready_us) / (double)SECOND : 0;
}

double outlook_days(const struct outlook *o)
{
	return lasted_s(&o->past[0].history) / (double)DAY_S;
}

static void set_rates(struct outlook *o, double factor)
{
	double s = lasted_s(&o->past[0].history);

	o->wanted.run_us = o->past[0].run_us;
	o->wanted.rate = s > 0 ? (double)o->past[0].history.len / s : 0; /* scaled with the history */
	o->wanted.peak_rate *= factor;
	if (o->now_rate >= 0)
		o->now_rate *= o->scale;
	if (o->peak_cores >= 0)
		o->peak_cores *= factor;
	if (o->wanted.peak_rate < o->wanted.rate && s >= (double)HOUR_S)
		o->wanted.peak_rate = o->wanted.rate;
}

/* Sums of the week by hour. If the latest history does not reach back to the busiest hour, that one is read too. The
 * hour before it is read for the jobs that wait at its begin, and the hour after it for its end. */
static int read_week(struct outlook *o, struct pg *pg, struct hour *hours, size_t *n, struct deferred_error *err)
{
	int64_t now_s = 0, folded_s = 0, now_us, from_us;
	const struct hour *peak;
	int rc = read_sums(o, pg, STORE_HOURS, WEEK_S, hours, n, &now_s, &folded_s, err);

	now_us = (now_s - EPOCH_2000) * SECOND;
	from_us = now_us - o->since_ms * 1000;
	if (rc == 0)
		rc = read_past(o, pg, 0, from_us, now_us, err);
	if (rc != 0 || *n == 0)
		return rc;
	peak = &hours[busiest_hour(hours, *n)];
	o->wanted.peak_rate = (double)load_of(peak) / (double)HOUR_S;
	o->peak_us = (peak->at_s - EPOCH_2000) * SECOND;
	o->peak_cores = (double)peak->cpu_us / (double)(HOUR_S * SECOND);
	if (o->past[0].history.len == 0 || o->peak_us >= o->past[0].from_us || o->peak_us < from_us)
		return 0;
	return read_past(o, pg, 1, o->peak_us - HOUR_S * SECOND, o->peak_us + 2 * HOUR_S * SECOND, err);
}

static int read_now(struct outlook *o, struct pg *pg, struct hour *minutes, struct deferred_error *err)
{
	size_t n = HOURS;
	int64_t now_s = 0, folded_s = 0, arrived = 0;
	int rc = read_sums(o, pg, STORE_MINUTES, HOUR_S, minutes, &n, &now_s, &folded_s, err);

	for (size_t i = 0; i < n && rc == 0; i++)
		arrived += load_of(&minutes[i]);
	if (rc == 0 && folded_s >= now_s - LATE_S)
		o->now_rate = (double)arrived / (double)HOUR_S;
	return rc;
}

int outlook_read(struct outlook *o, struct pg *pg, struct deferred_error *err)
{
	struct hour *hours = calloc(HOURS, sizeof(*hours));
	size_t n = HOURS;
	double factor = 1;
	int rc;

	if (!hours)
		return outlook_no_memory(err);
	/* Whatever that can do: the sums say until when they count. */
	store_fold(pg, STORE_FOLD_READ_MS, NULL, NULL);
	rc = read_week(o, pg, hours, &n, err);
	if (rc == 0) {
		peak_of_log(o);
		factor = o->scale * outlook_missing(o, hours, n);
	}
	if (rc == 0 && n > 0)
		rc = read_now(o, pg, hours, err);
	free(hours);
	for (size_t i = 0; i < 2 && rc == 0; i++)
		rc = outlook_scale(o, i, factor, err);
	set_rates(o, factor);
	return rc;
}

void outlook_clear(struct outlook *o)
{
	store_past_clear(&o->past[0]);
	store_past_clear(&o->past[1]);
}

/* ---- replays ------------------------------------------------------------------------- */

void outlook_lines_of(const struct advice *advice, struct crontab_line *lines, struct outlook_lines *to)
{
	const struct advice_setting *s = &advice->setting;

	*to = (struct outlook_lines){ lines, (size_t)s->lines, advice->result };
	for (size_t i = 0; i < to->n; i++)
		lines[i] = (struct crontab_line){ .interval_us = s->interval_us, .cnt = s->cnt, .runners = s->runners };
}

/* Of a history: ticks and groups are given. */
static int outlook_make(const struct outlook *o, size_t at, const struct crontab_line *line, int64_t end_us,
			struct forecast_line *to)
{
	const struct store_past *past = &o->past[at];
	bool *serves = NULL;

	*to = (struct forecast_line){
		.interval_us = line->interval_us, .cnt = line->cnt, .runners = line->runners, .replace = line->replace
	};
	if (line->rule) {
		/* A rule that has no day has no interval either, and no tick. */
		to->interval_us = line->interval_us > 0 ? line->interval_us : 1;
		to->ticks_us = crontab_ticks(&line->when, o->histories[at].begin_us, o->histories[at].begin_us + end_us,
					     &to->ticks_len);
		if (!to->ticks_us)
			return -1;
	}
	if (line->queues > 0) {
		serves = calloc((size_t)past->queues + 1, sizeof(*serves));
		if (!serves)
			return -1;
		for (int g = 0; g < past->queues; g++)
			for (size_t q = 0; q < line->queues; q++)
				serves[g] |= strcmp(past->queue[g], line->queue[q]) == 0;
	}
	to->serves = serves;
	return 0;
}

/* As advice_replay() has it. */
static int64_t outlook_end_of(const struct outlook *o, size_t at, const struct outlook_lines *lines)
{
	const struct advice_history *h = &o->histories[at];
	int64_t last = h->jobs[h->len - 1].ready_us, longest = 0;

	for (size_t i = 0; i < lines->n; i++)
		longest = lines->line[i].interval_us > longest ? lines->line[i].interval_us : longest;
	return last + last / 4 + 10 * (longest < DAY_S * SECOND ? longest : DAY_S * SECOND) + o->wanted.within_us;
}

static int replay_history(const struct outlook *o, size_t at, struct outlook_lines *lines)
{
	struct forecast_rule rule = { .start_us = o->wanted.start_us,
				      .between_us = o->wanted.between_us,
				      .seed = o->wanted.seed,
				      .grace_us = GRACE_US,
				      .groups = o->past[at].queues,
				      .end_us = outlook_end_of(o, at, lines) };
	struct forecast_line *made = calloc(lines->n + 1, sizeof(*made));
	struct forecast_result r = { 0 };
	int rc = made ? 0 : -1;

	for (size_t i = 0; i < lines->n && rc == 0; i++)
		rc = outlook_make(o, at, &lines->line[i], rule.end_us, &made[i]);
	if (rc == 0)
		rc = forecast_run(&rule, made, lines->n, o->histories[at].jobs, o->histories[at].len, &r);
	for (size_t i = 0; made && i < lines->n; i++) {
		free((void *)made[i].ticks_us);
		free((void *)made[i].serves);
	}
	free(made);
	lines->result.runs += r.runs;
	lines->result.skipped += r.skipped;
	lines->result.lost += r.lost;
	lines->result.left += r.left;
	lines->result.busy_us += r.busy_us;
	return rc;
}

int outlook_replay(const struct outlook *o, struct outlook_lines *lines, struct deferred_error *err)
{
	lines->result = (struct forecast_result){ 0 };
	for (size_t i = 0; i < o->n; i++) {
		int rc = replay_history(o, i, lines);

		if (rc < 0)
			return rc == -1 ? outlook_no_memory(err)
					: error_set(err, DEFERRED_EINVAL, "advise",
						    "lines and history do not fit together\nrun it again");
	}
	return 0;
}

static int64_t more_us(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

int outlook_replay_today(const struct outlook *o, struct outlook_lines *lines, struct outlook_today *today,
			 struct deferred_error *err)
{
	int rc = outlook_replay(o, lines, err);

	today->share_us = today->longest_us = 0;
	for (size_t i = 0; i < o->n && rc == 0; i++) {
		const struct advice_history *h = &o->histories[i];

		today->share_us = more_us(today->share_us, advice_worst_us(h, o->wanted.share));
		today->longest_us = more_us(today->longest_us, advice_quantile_us(h->jobs, h->len, -1, 1));
	}
	return rc;
}

/* ---- lines and JSON -------------------------------------------------------------------------- */

const char *outlook_us(char buf[32], int64_t us)
{
	if (us == ADVICE_NEVER)
		return "never";
	if (us < 600 * SECOND)
		snprintf(buf, 32, us < 10 * SECOND ? "%.1fs" : "%.0fs", (double)us / (double)SECOND);
	else if (us < 2 * HOUR_S * SECOND)
		snprintf(buf, 32, "%.1fmin", (double)us / (double)(60 * SECOND));
	else
		snprintf(buf, 32, "%.1fh", (double)us / (double)(HOUR_S * SECOND));
	return buf;
}

void outlook_number_us(struct params_text *t, const char *key, int64_t us)
{
	params_number(t, key, us == ADVICE_NEVER || us < 0 ? NAN : (double)(us / 1000) / 1000);
}

static const char *outlook_time(char buf[32], int64_t us)
{
	time_t t = (time_t)(us / SECOND + EPOCH_2000);
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(buf, 32, "%Y-%m-%d %H:%M UTC", &tm);
	return buf;
}

static double served_rate(const struct outlook *o, const struct outlook_lines *lines)
{
	double sum = 0;

	for (size_t i = 0; i < lines->n; i++) {
		const struct crontab_line *l = &lines->line[i];
		const struct advice_setting one = { l->interval_us, l->cnt, l->runners, 1 };

		sum += !l->rule || l->interval_us > 0
			       ? advice_served(&one, o->wanted.run_us, o->wanted.start_us, o->wanted.between_us)
			       : 0;
	}
	return sum;
}

/* Of the places, while the histories lasted. */
static double outlook_busy(const struct outlook *o, const struct outlook_lines *lines)
{
	double s = 0;
	int places = 0;

	for (size_t i = 0; i < o->n; i++)
		s += lasted_s(&o->histories[i]);
	for (size_t i = 0; i < lines->n; i++)
		places += lines->line[i].runners;
	return s > 0 && places > 0 ? (double)lines->result.busy_us / (double)SECOND / s / places : 0;
}

/* Can workers serve as many jobs as arrive? If not at the peak, some wait until the peak is over. If not on average,
 * they wait for ever. */
static const char *keeps_up(const struct outlook *o, const struct outlook_lines *lines)
{
	double n = served_rate(o, lines);

	if (n < o->wanted.rate || n < o->now_rate)
		return "no";
	return n < o->wanted.peak_rate ? "not at the peak" : "yes";
}

void outlook_line(const struct outlook_sink *to, const char *name, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	to->line(to->data, name, text);
}

const char *outlook_rate(char buf[32], double a_second)
{
	snprintf(buf, 32, a_second * HOUR_S < 100 ? "%.3g an hour" : "%.0f an hour", a_second * HOUR_S);
	return buf;
}

void outlook_tell(const struct outlook *o, const struct outlook_lines *lines, const struct outlook_sink *to)
{
	const char *keeps = keeps_up(o, lines);
	char a[32], b[32], peak[32];

	outlook_line(to, "arrive", "%s on average, %s in the busiest hour (%s)", outlook_rate(a, o->wanted.rate),
		     outlook_rate(peak, o->wanted.peak_rate), outlook_time(b, o->peak_us));
	if (o->now_rate >= 0)
		outlook_line(to, "", "%s in the last hour", outlook_rate(a, o->now_rate));
	outlook_line(to, "served", "at most %s%s; busy %.0f %% of the time", outlook_rate(a, served_rate(o, lines)),
		     strcmp(keeps, "yes") == 0  ? ""
		     : strcmp(keeps, "no") == 0 ? ", which is less than arrives: the backlog grows"
						: ", which is less than arrives in that hour",
		     100 * outlook_busy(o, lines));
	outlook_line(to, "based on", "%" PRId64 " attempts of %.1f days, since %s, that ran %s on average%s%s",
		     o->attempts, outlook_days(o), outlook_time(b, o->past[0].from_us),
		     outlook_us(a, o->past[0].run_us), o->n == 2 ? ", and of the busiest hours" : "",
		     o->past[0].full ? "; the log reaches back further, but only that many rows were read" : "");
	if (o->scale != 1)
		outlook_line(to, "", "arrivals %.3g times what they were", o->scale);
	for (size_t i = 0; i < o->run_scales_len; i++)
		outlook_line(to, "", "run times of %s %.3g times what they were, in %" PRId64 " attempts",
			     o->run_scales[i].fn, o->run_scales[i].factor, o->run_scales[i].attempts);
	if (o->waiting > 0)
		outlook_line(to, "", "%" PRId64 " more jobs arrived than started: the replay adds as many", o->waiting);
	if (o->past[0].cut > 0)
		outlook_line(to, "", "%" PRId64 " interrupted attempts that were retried are left out", o->past[0].cut);
	if (o->peak_cores > 0.01)
		outlook_line(to, "", "the busiest hour takes %.2f processors", o->peak_cores);
	outlook_line(to, "assumes",
		     "jobs arrive as before, and running more at once does not slow them down; limits, priorities "
		     "and concurrency keys are ignored");
}

void outlook_json(const struct outlook *o, const struct outlook_lines *lines, struct params_text *t)
{
	char buf[32];

	params_number(t, "runs", (double)lines->result.runs);
	params_number(t, "skipped", (double)lines->result.skipped);
	params_number(t, "lost", (double)lines->result.lost);
	params_number(t, "not_begun", (double)lines->result.left);
	params_number(t, "busy", outlook_busy(o, lines));
	params_number(t, "arrive_hour", o->wanted.rate * HOUR_S);
	params_number(t, "arrive_now_hour", o->now_rate >= 0 ? o->now_rate * HOUR_S : NAN);
	params_number(t, "arrive_peak_hour", o->wanted.peak_rate * HOUR_S);
	params_string(t, "peak", outlook_time(buf, o->peak_us));
	params_number(t, "served_hour", served_rate(o, lines) * HOUR_S);
	params_string(t, "keeps_up", keeps_up(o, lines));
	params_number(t, "attempts", (double)o->attempts);
	params_number(t, "days", outlook_days(o));
	params_string(t, "since", outlook_time(buf, o->past[0].from_us));
	if (o->past[0].full)
		params_flag(t, "log_reaches_further", true);
	params_number(t, "run_s", (double)o->past[0].run_us / (double)SECOND);
	params_number(t, "waiting", (double)o->waiting);
	params_number(t, "cut_off", (double)o->past[0].cut);
}

/* False: none of them is of that group. */
static bool wait_of(struct outlook_wait *w, const char *name, const struct forecast_job *jobs, size_t len, int group)
{
	static const double shares[OUTLOOK_SHARES] = { 0.5, 0.95, 0.99, 1 };

	*w = (struct outlook_wait){ .queue = name };
	for (size_t i = 0; i < len; i++)
		w->attempts += group < 0 || jobs[i].group == group;
	for (size_t i = 0; i < OUTLOOK_SHARES && w->attempts > 0; i++)
		w->us[i] = advice_quantile_us(jobs, len, group, shares[i]);
	return w->attempts > 0;
}

void outlook_waits(const struct outlook *o, const struct outlook_sink *to)
{
	struct outlook_wait w;

	for (size_t i = 0; i < o->n; i++) {
		const struct advice_history *h = &o->histories[i];
		const struct store_past *past = &o->past[i];

		for (int g = 0; i == 0 && g < past->queues; g++)
			if (wait_of(&w, past->queue[g], h->jobs, h->len, g))
				to->wait(to->data, &w);
		if ((i > 0 || past->queues > 1) &&
		    wait_of(&w, i > 0 ? "* in the busiest hours" : "*", h->jobs, h->len, -1))
			to->wait(to->data, &w);
	}
}

static void json_wait(void *data, const struct outlook_wait *w)
{
	static const char *const keys[OUTLOOK_SHARES] = { "p50_s", "p95_s", "p99_s", "longest_s" };
	struct params_text *t = data;

	params_open(t, NULL, '{');
	params_string(t, "queue", w->queue);
	params_number(t, "attempts", (double)w->attempts);
	for (size_t i = 0; i < OUTLOOK_SHARES; i++)
		outlook_number_us(t, keys[i], w->us[i]);
	params_close(t, '}');
}

void outlook_json_waits(const struct outlook *o, struct params_text *t)
{
	const struct outlook_sink to = { .wait = json_wait, .data = t };

	params_open(t, "waits", '[');
	outlook_waits(o, &to);
	params_close(t, ']');
}
