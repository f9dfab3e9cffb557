/* SPDX-License-Identifier: MIT */
#include "program/promise.h"
#include "base/text/plural.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define DAYS_MIN 0.9 /* a day has its hours, and the first and the last attempt are not at its ends */
#define ATTEMPTS_MIN 500
#define LATE_MIN 20 /* attempts that may be later than the promise: fewer tell nothing of their share */

/* ---- too little is known ---------------------------------------------------------------------- */

static int64_t attempts_wanted(const struct outlook *o)
{
	int64_t n = (int64_t)ceil(LATE_MIN / (1 - o->wanted.share));

	return n > ATTEMPTS_MIN ? n : ATTEMPTS_MIN;
}

/* Where the rows that may be read do not reach back for a day, they are many. */
bool promise_can(const struct outlook *o)
{
	return o->n > 0 && o->attempts >= attempts_wanted(o) && (outlook_days(o) >= DAYS_MIN || o->past[0].full);
}

void promise_too_little(const struct outlook *o, const struct outlook_sink *to)
{
	char within[32], each[32];

	outlook_line(to, NULL,
		     "too little is known for a promise: the log has %" PRId64 " attempts of %.1f days, and %" PRId64
		     " of at least a day are needed",
		     o->attempts, outlook_days(o), attempts_wanted(o));
	outlook_line(to, NULL,
		     "what holds without: a job waits for the next start, so for %.4g %% within %s starts have to come "
		     "at least each %s",
		     100 * o->wanted.share, outlook_us(within, o->wanted.within_us),
		     outlook_us(each, (int64_t)((double)o->wanted.within_us / o->wanted.share)));
	outlook_line(to, NULL, "workers must be able to serve as many jobs as arrive");
}

void promise_json_too_little(const struct outlook *o, struct params_text *t)
{
	params_open(t, NULL, '{');
	params_string(t, "answer", "too_little");
	params_number(t, "attempts", (double)o->attempts);
	params_number(t, "attempts_wanted", (double)attempts_wanted(o));
	params_number(t, "days", outlook_days(o));
	params_number(t, "days_wanted", 1);
	params_close(t, '}');
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void promise_when(char buf[32], int64_t interval_us)
{
	if (interval_us == 60 * MINUTE)
		snprintf(buf, 32, "0 * * * *");
	else if (interval_us == MINUTE)
		snprintf(buf, 32, "* * * * *");
	else
		snprintf(buf, 32, "*/%d * * * *", (int)(interval_us / MINUTE));
}

/* A queue that a crontab cannot have as it is has no name that a queue may have. */
static void crontab_command(const struct outlook *o, const struct advice_setting *s, int line, const char *program,
			    char *buf, size_t size)
{
	int n = snprintf(buf, size, "%s%s", program, s->interval_us > 0 ? "" : " --loop --listen");

	if (s->interval_us > 0)
		n += snprintf(buf + n, size - (size_t)n, " --cnt %" PRId64 " --if-running=skip", s->cnt);
	if (s->runners > 1)
		n += snprintf(buf + n, size - (size_t)n, " --runners %d", s->runners);
	if (o->queue)
		n += snprintf(buf + n, size - (size_t)n, " --queue %.100s", o->queue);
	/* No queue has a + in its name, so no two queues have one file. */
	if (s->lines > 1)
		snprintf(buf + n, size - (size_t)n, " --pidfile /run/defer%s%.100s+%d", o->queue ? "_" : "",
			 o->queue ? o->queue : "", line + 1);
	else if (o->queue)
		snprintf(buf + n, size - (size_t)n, " --pidfile /run/defer_%.100s", o->queue);
}

void promise_line(const struct outlook *o, const struct advice *a, int line, const char *program, char *buf,
		  size_t size)
{
	const struct advice_setting *s = &a->setting;
	char ticks[32], words[PROMISE_LINE];

	crontab_command(o, s, line, program, words, sizeof(words));
	if (s->interval_us == 0) {
		snprintf(buf, size, "%s", words);
		return;
	}
	promise_when(ticks, s->interval_us);
	snprintf(buf, size, "%-12s  root   %s 2>>/var/log/deferred.log", ticks, words);
}

const char *promise_where(const struct advice *a)
{
	return a->setting.interval_us > 0 ? "in /etc/cron.d/deferred; in a user's own crontab without the sixth field"
					  : "a service: ExecStart= of cron/check_deferred.service, or a shell";
}

/* ---- the answer ------------------------------------------------------------------------------- */

static const char *answer_word(enum advice_answer answer)
{
	static const char *const words[] = {
		[ADVICE_FOUND] = "found", [ADVICE_TOO_MUCH] = "too_much", [ADVICE_TOO_LATE] = "too_late"
	};

	return words[answer];
}

void promise_today(const struct outlook *o, const struct outlook_sink *to)
{
	const struct outlook_today *today = o->today;
	char a[32], b[32];

	if (!today)
		return;
	outlook_line(to, "today",
		     "%.4g %% of the jobs start within %s, the longest wait is %s, in a replay of the log with%s",
		     100 * o->wanted.share, outlook_us(a, today->share_us), outlook_us(b, today->longest_us),
		     today->given ? "" : " the crontab lines of the last day");
	for (size_t i = 0; i < today->n; i++)
		outlook_line(to, "", "%s", today->text[i]);
}

static void json_today(const struct outlook_today *today, struct params_text *t)
{
	params_open(t, "today", '{');
	params_open(t, "lines", '[');
	for (size_t i = 0; i < today->n; i++)
		params_string(t, NULL, today->text[i]);
	params_close(t, ']');
	params_flag(t, "given", today->given);
	outlook_number_us(t, "share_s", today->share_us);
	outlook_number_us(t, "longest_s", today->longest_us);
	params_close(t, '}');
}

int promise_json(const struct outlook *o, const struct advice *a, const char *program, struct params_text *t,
		 struct deferred_error *err)
{
	struct crontab_line lines[FORECAST_LINES];
	struct outlook_lines replayed;
	char text[PROMISE_LINE];
	int rc;

	params_open(t, NULL, '{');
	params_string(t, "answer", answer_word(a->answer));
	if (o->today)
		json_today(o->today, t);
	params_open(t, "lines", '[');
	for (int i = 0; i < a->setting.lines && a->answer == ADVICE_FOUND; i++) {
		promise_line(o, a, i, program, text, sizeof(text));
		params_string(t, NULL, text);
	}
	params_close(t, ']');
	params_number(t, "share", 100 * o->wanted.share);
	outlook_number_us(t, "within_s", o->wanted.within_us);
	outlook_number_us(t, "predicted_s", a->predicted_us);
	outlook_number_us(t, "bound_s", a->bound_us);
	params_number(t, "headroom", o->wanted.headroom);
	params_number(t, "replays", a->replays);
	params_number(t, "interval_s", (double)a->setting.interval_us / (double)SECOND);
	params_number(t, "cnt", (double)a->setting.cnt);
	params_number(t, "runners", a->setting.runners);
	params_number(t, "instances", a->setting.lines);
	outlook_lines_of(a, lines, &replayed);
	rc = outlook_replay(o, &replayed, err);
	outlook_json(o, &replayed, t);
	outlook_json_waits(o, t);
	params_close(t, '}');
	return rc;
}

static void tell_refusal(const struct outlook *o, const struct advice *a, const struct outlook_sink *to)
{
	char predicted[32], within[32], run[32];

	if (a->answer == ADVICE_TOO_MUCH) {
		outlook_line(to, NULL,
			     "more arrives than %d runner%s can serve with something to spare: %s in the busiest "
			     "hour, %s on average, each of %s",
			     o->wanted.runners_max, plural(o->wanted.runners_max),
			     outlook_rate(predicted, o->wanted.peak_rate), outlook_rate(within, o->wanted.rate),
			     outlook_us(run, o->past[0].run_us));
		outlook_line(to, NULL,
			     "change neither interval nor cnt; use more runners, more hosts, or shorter jobs");
	} else {
		outlook_line(to, NULL,
			     "with no setting of at most %d runners do %.4g %% of the jobs start within %s; nearest is "
			     "a service with %d: %s by the replay, and the bound is beyond",
			     o->wanted.runners_max, 100 * o->wanted.share, outlook_us(within, o->wanted.within_us),
			     a->setting.runners, outlook_us(predicted, a->predicted_us));
	}
}

void promise_tell(const struct outlook *o, const struct advice *a, const struct outlook_sink *to)
{
	char predicted[32], bound[32];

	if (a->answer != ADVICE_FOUND) {
		tell_refusal(o, a, to);
		return;
	}
	outlook_line(to, "promise", "%.4g %% of the jobs of each queue start within %s in a replay of the log;",
		     100 * o->wanted.share, outlook_us(predicted, a->predicted_us));
	outlook_line(to, "", "within %s in %d of %d random orders of its hours, with %.3g times the arrivals",
		     outlook_us(bound, a->bound_us), ADVICE_ROUNDS - 1, ADVICE_ROUNDS, o->wanted.headroom);
}
