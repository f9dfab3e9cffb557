/* SPDX-License-Identifier: MIT */
/* The page of `deferred advise`. A thread of its own replays the log, because that takes seconds. */
#include "pages.h"

#include "base/clock.h"
#include "cached.h"
#include "program/lines.h"
#include "program/promise.h"
#include "store/admin.h"

#include <inttypes.h>
#include <stdlib.h>

#define KEY "advice" /* one answer for all viewers, because all of them see the same log */
#define READ_MS 4000
#define REPLAYS_MS 20000
#define WAIT_MS 1500 /* how long the first visitor waits for the answer */
#define TOO_LONG -3  /* of advice_seek() */

/* The log that was read, for the thread that replays it. */
struct question {
	struct web_cache *cache;
	struct outlook outlook;
	struct lines lines; /* of today */
	uint64_t end_ns;
};

/* Lines of one name are terms of a list. */
static void on_line(void *data, const char *name, const char *text)
{
	struct buf *b = data;

	if (!name) {
		html_printf(b, "<p class=\"why\">%s</p>", text);
		return;
	}
	if (*name)
		html_printf(b, "<dt>%s</dt>", name);
	html_printf(b, "<dd>%s</dd>", text);
}

static void on_wait(void *data, const struct outlook_wait *w)
{
	struct buf *b = data;
	char text[32];

	html_printf(b, "<tr><td>%s</td><td class=\"n\">%" PRId64 "</td>",
		    w->queue[0] != '*' ? w->queue
		    : w->queue[1]      ? "all, busiest hours"
				       : "all",
		    w->attempts);
	for (size_t i = 0; i < OUTLOOK_SHARES; i++)
		html_printf(b, "<td class=\"n\">%s</td>", outlook_us(text, w->us[i]));
	html_raw(b, "</tr>\n");
}

static void show_lines(struct buf *b, const struct outlook *o, const struct advice *a)
{
	char text[PROMISE_LINE];

	html_printf(b,
		    "<h2>Crontab lines</h2><p class=\"hint\">%s; use the path of check_deferred on that host</p>"
		    "<pre tabindex=\"0\"><code>",
		    promise_where(a));
	for (int i = 0; i < a->setting.lines; i++) {
		promise_line(o, a, i, "check_deferred", text, sizeof(text));
		html_printf(b, "%s\n", text);
	}
	html_raw(b, "</code></pre>");
}

static int show_advice(struct buf *b, const struct outlook *o, const struct advice *a, struct deferred_error *err)
{
	const struct outlook_sink to = { on_line, on_wait, b };
	struct crontab_line made[FORECAST_LINES];
	struct outlook_lines replayed;
	int rc;

	outlook_lines_of(a, made, &replayed);
	rc = outlook_replay(o, &replayed, err);
	if (o->today) {
		html_raw(b, "<dl class=\"told\">");
		promise_today(o, &to);
		html_raw(b, "</dl>");
	}
	if (a->answer == ADVICE_FOUND)
		show_lines(b, o, a);
	if (a->answer == ADVICE_FOUND)
		html_raw(b, "<dl class=\"told\">");
	promise_tell(o, a, &to);
	if (a->answer == ADVICE_FOUND)
		html_raw(b, "</dl>");
	html_raw(b, "<h2>Expected wait times</h2><div class=\"scroll\" role=\"region\" tabindex=\"0\" "
		    "aria-label=\"Expected wait times\"><table><thead><tr><th scope=\"col\">Queue</th>"
		    "<th scope=\"col\" class=\"n\">Attempts</th><th scope=\"col\" class=\"n\">p50</th><th "
		    "scope=\"col\" class=\"n\">p95</th><th scope=\"col\" class=\"n\">p99</th>"
		    "<th scope=\"col\" class=\"n\">Max</th></tr></thead><tbody>");
	outlook_waits(o, &to);
	html_raw(b, "</tbody></table></div><h2>Basis of this advice</h2><dl class=\"told\">");
	outlook_tell(o, &replayed, &to);
	html_raw(b, "</dl>");
	return rc;
}

static bool may_go_on(void *data)
{
	const struct question *q = data;

	return clock_ns() < q->end_ns && !web_cache_is_ending(q->cache);
}

/* The same in JSON. rc < 0: the advice failed, and err says why. */
static void add_json(struct web_cache_answer *answer, struct params_text *t, int rc, struct deferred_error *err)
{
	struct deferred_error later = { 0 };
	char *text = NULL;

	if (params_take(t, &text, rc < 0 ? &later : err) < 0 || rc < 0) {
		buf_clear(&answer->form[0]);
		buf_clear(&answer->form[1]);
		cached_fail(answer, err->message);
	} else {
		html_printf(&answer->form[1], ",\"advice\":%-s", text);
	}
	free(text);
}

static void free_question(struct question *q)
{
	lines_clear(&q->lines);
	outlook_clear(&q->outlook);
	free(q);
}

/* By the thread. */
static void answer_question(void *data)
{
	struct question *q = data;
	struct outlook *o = &q->outlook;
	struct web_cache_answer answer;
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	struct outlook_today today;
	struct advice a;
	int rc = 0;

	cached_begin(&answer);
	if (!promise_can(o)) {
		promise_too_little(o, &(struct outlook_sink){ .line = on_line, .data = &answer.form[0] });
		promise_json_too_little(o, &t);
		add_json(&answer, &t, 0, &err);
	} else if (lines_today(&q->lines, o, &today, &err) < 0) {
		cached_fail(&answer, err.message);
	} else if ((rc = advice_seek(&o->wanted, o->histories, o->n, &a)) == 0) {
		rc = show_advice(&answer.form[0], o, &a, &err);
		if (rc == 0)
			rc = promise_json(o, &a, "check_deferred", &t, &err);
		add_json(&answer, &t, rc, &err);
	} else {
		cached_fail(&answer, rc == TOO_LONG
					     ? "That took too long for a page. Run `deferred advise`, which has no "
					       "time limit."
					     : "out of memory");
	}
	web_cache_put(q->cache, KEY, &answer);
	free_question(q);
}

/* In one transaction, with the limit of the other statements. */
static int read_lines(struct question *q, struct pg *pg, struct deferred_error *err)
{
	int rc = store_admin_look(pg, q->outlook.bounds.statement_ms, err);

	if (rc == 0)
		rc = lines_seen(&q->lines, pg, NULL, err);
	if (rc == 0)
		rc = lines_rules(&q->lines, pg, err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	return rc;
}

static struct question *read_question(struct web_request *r, struct deferred_error *err)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q) {
		error_set(err, DEFERRED_ENOMEM, "advice", "out of memory");
		return NULL;
	}
	q->cache = r->web->cache;
	outlook_init(&q->outlook);
	q->outlook.bounds.statement_ms = STORE_WEB_MS;
	q->outlook.bounds.all_ms = READ_MS;
	q->outlook.wanted.go_on = may_go_on;
	q->outlook.wanted.go_on_data = q;
	q->end_ns = clock_ns() + REPLAYS_MS * NS_PER_MS;
	if (read_lines(q, r->pg, err) == 0 && outlook_read(&q->outlook, r->pg, err) == 0)
		return q;
	free_question(q);
	return NULL;
}

void pages_before_advice(struct web_request *r)
{
	struct web_cache_answer none;
	struct deferred_error err = { 0 };
	struct question *q;

	if (!cached_may_see(r) || !cached_claim(r, KEY))
		return;
	q = read_question(r, &err);
	if (!q || !web_cache_work(r->web->cache, answer_question, q, WAIT_MS)) {
		if (q)
			free_question(q);
		cached_begin(&none);
		cached_fail(&none, err.message[0] ? err.message : "It cannot be computed now.");
		web_cache_put(r->web->cache, KEY, &none);
	}
	cached_get(r, KEY);
}

int pages_advice(struct web_request *r, struct deferred_error *err)
{
	(void)err;
	return cached_page(r, "The smallest crontab lines with which 95 % of the jobs start within 2 min, computed by "
			      "replaying the log. For another share, time or queue: "
			      "<code>deferred advise --share 99 --within 5min --queue NAME</code>. "
			      "To test lines of your own: <code>deferred simulate</code>");
}
