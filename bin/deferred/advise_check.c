/* SPDX-License-Identifier: MIT */
#include "advise_check.h"

#include "past.h"
#include "program/promise.h"
#include "store/admin.h"
#include "table.h"
#include "base/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define HOUR_S 3600.0
#define NEAR 0.2 /* so far from what was predicted is as good as it gets */

/* Columns of advice_at_work.sql. */
enum {
	ID,
	AT,
	WHO,
	QUEUE,
	SHARE,
	WITHIN,
	HEADROOM,
	LINES,
	P50,
	P95,
	PREDICTED,
	BOUND,
	ARRIVE,
	INSTANCES,
	WORKERS,
	PIDFILES,
	SINCE,
	UNTIL,
	SINCE_TEXT,
	UNTIL_TEXT,
	AT_WORK,
	OTHERS,
	GIVEN,
	GIVEN_AT
};

enum answer { KEPT, NOT_KEPT, TOO_LITTLE, NOT_AT_WORK, NONE };
static const char *const words[] = { "kept", "not_kept", "too_little", "not_at_work", "none" };

struct check {
	const struct outlook *o;
	struct pg_result *res;
	struct store_past past;
	enum answer answer;
	struct promise_wanted wanted;
	double days, arrive_hour;
	int64_t p50_us, p95_us, measured_us; /* < 0: there are none */
};

static int64_t us_of(const struct check *c, int col)
{
	return pg_null(c->res, 0, col) ? ADVICE_NEVER : pg_int(c->res, 0, col);
}

/* ---- what has been since ---------------------------------------------------------------------- */

static int read_advice(struct check *c, struct pg *pg, struct deferred_error *err)
{
	int rc = store_admin_look(pg, c->o->bounds.statement_ms, err);

	if (rc == 0)
		rc = store_advice_at_work(pg, c->o->queue, &c->res, err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

static int measure(struct check *c, struct pg *pg, struct deferred_error *err)
{
	const struct advice_history *h = &c->past.history;
	int rc = store_advise_past(pg, c->o->queue, pg_int(c->res, 0, SINCE), pg_int(c->res, 0, UNTIL), &c->o->bounds,
				   NULL, 0, &c->past, err);
	double s;

	if (rc < 0 || h->len == 0)
		return rc;
	s = (double)(h->jobs[h->len - 1].ready_us - h->jobs[0].ready_us) / (double)SECOND;
	c->days = s / 24 / HOUR_S;
	c->arrive_hour = s > 0 ? (double)h->len / s * HOUR_S : 0;
	c->p50_us = advice_quantile_us(h->jobs, h->len, -1, 0.5);
	c->p95_us = advice_quantile_us(h->jobs, h->len, -1, 0.95);
	c->measured_us = advice_worst_us(h, pg_float(c->res, 0, SHARE));
	return 0;
}

static int look(struct check *c, struct pg *pg, struct deferred_error *err)
{
	int rc = read_advice(c, pg, err);

	if (rc < 0)
		return rc;
	c->answer = pg_int(c->res, 0, GIVEN) == 0 ? NONE : NOT_AT_WORK;
	if (pg_null(c->res, 0, ID))
		return 0;
	rc = measure(c, pg, err);
	c->wanted = promise_wanted(pg_float(c->res, 0, SHARE));
	if (c->past.history.len < (size_t)c->wanted.attempts || (c->days < c->wanted.days && !c->past.full))
		c->answer = TOO_LITTLE;
	else
		c->answer = c->measured_us <= pg_int(c->res, 0, BOUND) ? KEPT : NOT_KEPT;
	return rc;
}

/* ---- how it is told --------------------------------------------------------------------------- */

static void tell(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What is written down is the word of whoever asked. */
static void tell(const char *name, const char *fmt, ...)
{
	char text[2048], *clean;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	clean = table_clean(text, 0, TABLE_ONE_LINE);
	past_lines.line(past_lines.data, name, clean);
	free(clean);
}

static void tell_none(const struct check *c)
{
	const char *queue = c->o->queue ? c->o->queue : "all queues together";

	if (c->answer == NONE)
		tell(NULL, "no advice was given for %s: deferred advise gives one, and writes it down", queue);
	else
		tell(NULL,
		     "no advice is followed for %s: of %" PRId64
		     " given, the last one on %s, no worker has registered since with the settings of any",
		     queue, pg_int(c->res, 0, GIVEN), pg_text(c->res, 0, GIVEN_AT, NULL));
}

static void tell_wait(const char *name, int64_t predicted_us, int64_t measured_us, double share)
{
	char predicted[32], measured[32], than[64] = "";

	if (predicted_us != ADVICE_NEVER && predicted_us > 0 && measured_us >= 0)
		snprintf(than, sizeof(than), " (%+.0f %%)", 100 * ((double)measured_us / (double)predicted_us - 1));
	tell(name, "%.4g %% of the jobs %s within %s, predicted was %s%s", 100 * share,
	     name[0] ? "began" : "in each queue", outlook_us(measured, measured_us),
	     outlook_us(predicted, predicted_us), than);
}

static void tell_measured(const struct check *c)
{
	double share = pg_float(c->res, 0, SHARE), then = pg_float(c->res, 0, ARRIVE);
	int64_t predicted_us = pg_int(c->res, 0, PREDICTED);
	char bound[32], within[32];

	tell_wait("measured", us_of(c, P50), c->p50_us, 0.5);
	tell_wait("measured", us_of(c, P95), c->p95_us, 0.95);
	tell_wait("", predicted_us, c->measured_us, share);
	if (c->answer == TOO_LITTLE)
		return;
	tell("promise", "%s: %.4g %% within %s was the bound, within %s what was asked for",
	     c->answer == KEPT ? "kept" : "not kept", 100 * share, outlook_us(bound, pg_int(c->res, 0, BOUND)),
	     outlook_us(within, pg_int(c->res, 0, WITHIN)));
	if (c->answer == KEPT && (double)c->measured_us < (1 - NEAR) * (double)predicted_us)
		tell("",
		     "more than %.0f %% shorter than predicted: fewer runners or starts may do, deferred advise says",
		     100 * NEAR);
	if (then > 0 && c->arrive_hour > then * pg_float(c->res, 0, HEADROOM))
		tell("",
		     "%.3g an hour arrive, for %.3g with %.3g times that to spare was the advice: deferred advise "
		     "gives another one",
		     c->arrive_hour, then, pg_float(c->res, 0, HEADROOM));
}

static void print(const struct check *c)
{
	int64_t lines = pg_int(c->res, 0, INSTANCES), pidfiles = pg_int(c->res, 0, PIDFILES),
		others = pg_int(c->res, 0, OTHERS);
	const char *line = pg_text(c->res, 0, LINES, NULL);

	tell("advice", "of %s, to %s, for %s: %s", pg_text(c->res, 0, AT, NULL), pg_text(c->res, 0, WHO, NULL),
	     c->o->queue ? c->o->queue : "all queues", line);
	tell("at work", "since %s%s%s: %" PRId64 " run%s of %" PRId64 " pid file%s, advised %s %" PRId64,
	     pg_text(c->res, 0, SINCE_TEXT, NULL), pg_bool(c->res, 0, AT_WORK) ? "" : ", until ",
	     pg_bool(c->res, 0, AT_WORK) ? "" : pg_text(c->res, 0, UNTIL_TEXT, NULL), pg_int(c->res, 0, WORKERS),
	     plural(pg_int(c->res, 0, WORKERS)), pidfiles, plural(pidfiles), lines == 1 ? "is" : "are", lines);
	if (others > 0)
		tell("",
		     "%" PRId64 " other run%s, with other settings or not at its ticks, served the same: what is "
		     "measured is theirs too",
		     others, plural(others));
	if (pidfiles < lines)
		tell("", "%" PRId64 " of the lines ha%s not started anything yet, or nothing was left for %s",
		     lines - pidfiles, lines - pidfiles == 1 ? "s" : "ve", lines - pidfiles == 1 ? "it" : "them");
	if (c->answer == TOO_LITTLE)
		tell("too little",
		     "is known to compare: %zu attempts of %.1f days since then, and %" PRId64
		     " of at least a day are needed",
		     c->past.history.len, c->days, c->wanted.attempts);
	if (c->past.history.len > 0)
		tell_measured(c);
}

static void number(struct params_text *t, const char *key, int64_t us)
{
	outlook_number_us(t, key, us);
}

static int print_json(const struct check *c, const struct cli *cli)
{
	struct params_text t = { 0 };

	params_open(&t, NULL, '{');
	params_string(&t, "answer", words[c->answer]);
	params_number(&t, "advices", (double)pg_int(c->res, 0, GIVEN));
	if (!pg_null(c->res, 0, ID)) {
		params_number(&t, "advice", (double)pg_int(c->res, 0, ID));
		params_string(&t, "at", pg_text(c->res, 0, AT, NULL));
		params_string(&t, "who", pg_text(c->res, 0, WHO, NULL));
		params_string(&t, "lines", pg_text(c->res, 0, LINES, NULL));
		params_string(&t, "since", pg_text(c->res, 0, SINCE_TEXT, NULL));
		params_string(&t, "until", pg_text(c->res, 0, UNTIL_TEXT, NULL));
		params_flag(&t, "at_work", pg_bool(c->res, 0, AT_WORK));
		params_number(&t, "workers", (double)pg_int(c->res, 0, WORKERS));
		params_number(&t, "instances", (double)pg_int(c->res, 0, PIDFILES));
		params_number(&t, "instances_advised", (double)pg_int(c->res, 0, INSTANCES));
		params_number(&t, "other_workers", (double)pg_int(c->res, 0, OTHERS));
		params_number(&t, "share", 100 * pg_float(c->res, 0, SHARE));
		number(&t, "within_s", pg_int(c->res, 0, WITHIN));
		number(&t, "bound_s", pg_int(c->res, 0, BOUND));
		number(&t, "predicted_s", pg_int(c->res, 0, PREDICTED));
		number(&t, "measured_s", c->measured_us);
		number(&t, "p50_predicted_s", us_of(c, P50));
		number(&t, "p50_measured_s", c->p50_us);
		number(&t, "p95_predicted_s", us_of(c, P95));
		number(&t, "p95_measured_s", c->p95_us);
		params_number(&t, "attempts", (double)c->past.history.len);
		params_number(&t, "attempts_wanted", (double)c->wanted.attempts);
		params_number(&t, "days", c->days);
		params_number(&t, "arrive_hour", c->arrive_hour);
		params_number(&t, "arrive_hour_advised", pg_float(c->res, 0, ARRIVE));
	}
	params_close(&t, '}');
	return past_print(cli, &t, 0, NULL);
}

int advise_check(struct outlook *o, struct cli *cli)
{
	struct check c = { .o = o, .p50_us = -1, .p95_us = -1, .measured_us = -1 };
	struct deferred_error err = { 0 };
	int rc = look(&c, cli->pg, &err);

	if (rc < 0)
		rc = cli_fail(cli, &err);
	else if (cli->json)
		rc = print_json(&c, cli);
	else if (pg_null(c.res, 0, ID))
		tell_none(&c);
	else
		print(&c);
	store_past_clear(&c.past);
	pg_result_free(c.res);
	return rc == 0 && c.answer != KEPT ? CLI_NOT_DONE : rc;
}
