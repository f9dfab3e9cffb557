/* SPDX-License-Identifier: MIT */
/* What `deferred doctor`, `deferred advise` and `deferred metrics` print: worked out once for many (kept.h), by
 * transactions of their own before that of the page, in which who asks is shown to be one who may see it. */
#include "pages.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"
#include "http/text.h"
#include "kept.h"
#include "program/doctor.h"
#include "program/exposition.h"
#include "program/lines.h"
#include "program/metrics.h"
#include "program/promise.h"
#include "store/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOCK_MS 100
#define ALL_CHECKS_MS 5000
#define PAST_MS 4000 /* what was is read for so long */
#define REPLAYS_MS 20000
#define METRICS_WAIT_MS 5000 /* who asks while another has them worked out waits so long */
#define WAIT_MS 1500         /* who asks first waits so long for an answer that is worked out elsewhere */
#define AGAIN_S "3"

/* Who may not see the page starts nothing. */
static bool may_see(struct visit *v)
{
	struct deferred_error ignored = { 0 };
	bool asked = store_web_begin(v->pg, v->role, true, &ignored) == 0 && store_web_me(v->pg, &v->me, &ignored) == 0;

	if (!pg_broken(v->pg))
		store_web_end(v->pg, false, &ignored);
	return asked && v->me.viewer;
}

/* ---- both forms ------------------------------------------------------------------------------- */

static void as_of(struct kept_answer *a)
{
	time_t now = (time_t)(text_now_us() / 1000000);
	struct tm tm;
	char text[40];

	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	html_raw(&a->html, "<p class=\"meta\">As of ");
	html_text(&a->html, text);
	html_raw(&a->html, " UTC. Kept for a minute.</p>");
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	html_raw(&a->json, ",\"as_of\":");
	html_json(&a->json, text);
}

/* That there is none is an answer too, for a while. */
static void failed(struct kept_answer *a, const char *text)
{
	a->failed = true;
	html_raw(&a->html, "<p class=\"trouble\">");
	html_text(&a->html, text);
	html_raw(&a->html, "</p>");
	html_raw(&a->json, ",\"error\":");
	html_json(&a->json, text);
}

static int page_kept(struct visit *v, enum kept_what what, const char *whose, const char *hint)
{
	page_begin(v, NULL, v->route->title);
	if (!v->json)
		buf_text(&v->reply.body, hint);
	page_live(v, "kept");
	if (!kept_show(v->web->kept, what, whose, v->json, &v->reply.body)) {
		reply_header(&v->reply, v->json ? "Retry-After" : "Refresh", AGAIN_S);
		if (v->json) {
			v->reply.status = 202;
			html_raw(&v->reply.body, ",\"under_way\":true");
		} else {
			html_raw(&v->reply.body, "<p class=\"empty\" role=\"status\">This is being computed. The page "
						 "updates by itself.</p>");
		}
	}
	page_live_end(v);
	page_end(v);
	return 0;
}

/* ---- doctor ----------------------------------------------------------------------------------- */

struct report {
	struct kept_answer rows, whole;
	size_t checks, n, of[DOCTOR_LEVELS]; /* findings by level */
};

static void member(struct buf *b, const char *key, const char *text)
{
	if (!text)
		return;
	html_raw(b, ",");
	html_json(b, key);
	html_raw(b, ":");
	html_json(b, text);
}

static void row(struct report *r, const char *check, const char *word, const char *text, const char *why,
		const char *mend)
{
	struct buf *b = &r->rows.html;

	html_raw(b, "<tr><td>");
	html_text(b, check);
	html_raw(b, "</td><td><span class=\"state is-");
	html_text(b, word);
	html_raw(b, "\">");
	html_text(b, word);
	html_raw(b, "</span></td><td class=\"told\"><bdi>");
	html_text(b, text);
	html_raw(b, "</bdi>");
	if (why) {
		html_raw(b, "<br><span class=\"hint\">why: </span><bdi>");
		html_text(b, why);
		html_raw(b, "</bdi>");
	}
	if (mend) {
		html_raw(b, "<br><span class=\"hint\">do: </span>");
		page_remedy(b, mend);
	}
	html_raw(b, "</td></tr>\n");
}

static void on_finding(void *data, const struct doctor_finding *f)
{
	struct report *r = data;
	struct buf *b = &r->rows.json;

	r->of[f->level]++;
	row(r, f->check, doctor_word(f->level), f->what ? f->what : f->note, f->why, f->mend);
	html_text(b, r->n++ > 0 ? ",\n" : "");
	html_raw(b, "{\"check\":");
	html_json(b, f->check);
	member(b, "status", doctor_word(f->level));
	member(b, "note", f->note[0] ? f->note : NULL);
	member(b, "what", f->what);
	member(b, "why", f->why);
	member(b, "do", f->mend);
	html_raw(b, "}");
}

static void summary(struct report *r)
{
	struct buf *b = &r->whole.html;
	enum doctor_level worst = DOCTOR_LEVELS - 1;

	while (worst > DOCTOR_OK && r->of[worst] == 0)
		worst--;
	as_of(&r->whole);
	if (r->of[DOCTOR_WARN] + r->of[DOCTOR_FAIL] + r->of[DOCTOR_UNKNOWN] == 0)
		buf_printf(b, "<p class=\"done\">All %zu checks passed.</p>", r->checks);
	else
		buf_printf(b, "<p class=\"%s\">%zu failure%s, %zu warning%s and %zu unknown in %zu checks.</p>",
			   r->of[DOCTOR_FAIL] ? "trouble" : "why", r->of[DOCTOR_FAIL],
			   plural((int64_t)r->of[DOCTOR_FAIL]), r->of[DOCTOR_WARN], plural((int64_t)r->of[DOCTOR_WARN]),
			   r->of[DOCTOR_UNKNOWN], r->checks);
	html_raw(b, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Checks\"><table><thead><tr><th "
		    "scope=\"col\">Check</th><th scope=\"col\">Result</th>"
		    "<th scope=\"col\">Finding</th></tr></thead><tbody>");
	buf_add(b, r->rows.html.p, r->rows.html.len);
	html_raw(b, "</tbody></table></div>");
	html_raw(&r->whole.json, ",\"worst\":");
	html_json(&r->whole.json, doctor_word(worst));
	html_raw(&r->whole.json, ",\"checks\":[");
	buf_add(&r->whole.json, r->rows.json.p, r->rows.json.len);
	html_raw(&r->whole.json, "]");
}

/* Names of checks that are not made here: those for which there was no time, or which only the command makes. before
 * and after are markup of ours. */
static void left_out(struct report *r, const char *key, const char *before, bool late, const struct doctor_check *from,
		     const char *after)
{
	struct buf *html = &r->whole.html, *json = &r->whole.json;
	size_t n = 0;

	html_raw(json, ",");
	html_json(json, key);
	html_raw(json, ":[");
	for (const struct doctor_check *c = from; c->name; c++) {
		if ((c->run != NULL) != late)
			continue;
		buf_text(html, n == 0 ? before : ", ");
		html_text(json, n > 0 ? "," : "");
		html_json(json, c->name);
		html_text(html, c->name);
		n++;
	}
	html_raw(json, "]");
	if (n > 0)
		buf_text(html, after);
}

void before_doctor(struct visit *v)
{
	uint64_t end_ns = clock_ns() + ALL_CHECKS_MS * NS_PER_MS;
	const struct doctor_check *c = doctor_checks;
	struct report r = { 0 };
	struct doctor d = {
		.pg = v->pg, .role = "deferred_viewer", .lock_ms = LOCK_MS, .take = on_finding, .data = &r
	};

	if (!may_see(v) || !kept_claim(v->web->kept, KEPT_DOCTOR, v->me.role))
		return;
	d.user = arena_printf(&v->arena, "\"%s\"", v->me.role);
	for (; c->name && clock_ns() < end_ns; c++) {
		if (!c->run)
			continue;
		doctor_run(&d, c, c->run);
		r.checks++;
	}
	doctor_clear(&d);
	summary(&r);
	html_raw(&r.whole.html, "<p class=\"hint\">");
	left_out(&r, "no_time", "Not checked for lack of time: ", true, c, ". ");
	left_out(&r, "only_by_command", "Only <code>deferred doctor</code> on a worker host checks: ", false,
		 doctor_checks,
		 ". It also checks parts of <b>role</b>, <b>functions</b> and <b>interval</b> that need that host.");
	html_raw(&r.whole.html, "</p>");
	buf_clear(&r.rows.html);
	buf_clear(&r.rows.json);
	kept_put(v->web->kept, KEPT_DOCTOR, v->me.role, &r.whole);
}

int page_doctor(struct visit *v, struct deferred_error *err)
{
	(void)err;
	return page_kept(v, KEPT_DOCTOR, v->me.role,
			 "<p class=\"hint\">Checks of <code>deferred doctor</code> on the database and its server, as "
			 "far as your role may see. "
			 "The clock is compared with that of the host of deferred_web.</p>");
}

/* ---- advice ----------------------------------------------------------------------------------- */

/* Handed from who read what was to who replays it. */
struct question {
	struct kept *kept;
	struct outlook outlook;
	struct lines lines; /* of today */
	uint64_t end_ns;
};

static void put_advice(struct kept *kept, struct kept_answer *a)
{
	kept_put(kept, KEPT_ADVICE, "", a);
}

/* Lines of one name are terms of a list. */
static void on_line(void *data, const char *name, const char *text)
{
	struct buf *b = data;

	if (!name) {
		html_raw(b, "<p class=\"why\">");
		html_text(b, text);
		html_raw(b, "</p>");
		return;
	}
	if (*name) {
		html_raw(b, "<dt>");
		html_text(b, name);
		html_raw(b, "</dt>");
	}
	html_raw(b, "<dd>");
	html_text(b, text);
	html_raw(b, "</dd>");
}

static void on_wait(void *data, const struct outlook_wait *w)
{
	struct buf *b = data;
	char text[32];

	html_raw(b, "<tr><td>");
	html_text(b, w->queue[0] == '*' ? w->queue[1] ? "all, busiest hours" : "all" : w->queue);
	buf_printf(b, "</td><td class=\"n\">%lld</td>", (long long)w->attempts);
	for (size_t i = 0; i < OUTLOOK_SHARES; i++) {
		html_raw(b, "<td class=\"n\">");
		html_text(b, outlook_us(text, w->us[i]));
		html_raw(b, "</td>");
	}
	html_raw(b, "</tr>\n");
}

static void lines_advised(struct buf *b, const struct outlook *o, const struct advice *a)
{
	char text[PROMISE_LINE];

	html_raw(b, "<h2>Crontab lines</h2><p class=\"hint\">");
	html_text(b, promise_where(a));
	html_raw(b, "; use the path of check_deferred on that host</p><pre tabindex=\"0\"><code>");
	for (int i = 0; i < a->setting.lines; i++) {
		promise_line(o, a, i, "check_deferred", text, sizeof(text));
		html_text(b, text);
		html_raw(b, "\n");
	}
	html_raw(b, "</code></pre>");
}

static int told(struct kept_answer *answer, const struct outlook *o, const struct advice *a, struct deferred_error *err)
{
	struct buf *b = &answer->html;
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
		lines_advised(b, o, a);
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

static bool go_on(void *data)
{
	const struct question *q = data;

	return clock_ns() < q->end_ns && !kept_is_ending(q->kept);
}

static void put_json(struct kept_answer *answer, struct params_text *t, int rc, struct deferred_error *err)
{
	struct deferred_error later = { 0 };
	char *text = NULL;

	if (params_take(t, &text, rc < 0 ? &later : err) < 0 || rc < 0) {
		buf_clear(&answer->html);
		buf_clear(&answer->json);
		failed(answer, err->message);
	} else {
		html_raw(&answer->json, ",\"advice\":");
		buf_text(&answer->json, text);
	}
	free(text);
}

static void forget(struct question *q)
{
	lines_clear(&q->lines);
	outlook_clear(&q->outlook);
	free(q);
}

/* By a thread of its own. */
static void answer(void *data)
{
	struct question *q = data;
	struct outlook *o = &q->outlook;
	struct kept_answer answer = { 0 };
	struct deferred_error err = { 0 };
	struct params_text t = { 0 };
	struct outlook_today today;
	struct advice a;
	int rc = 0;

	as_of(&answer);
	if (!promise_can(o)) {
		promise_too_little(o, &(struct outlook_sink){ .line = on_line, .data = &answer.html });
		promise_json_too_little(o, &t);
		put_json(&answer, &t, 0, &err);
	} else if (lines_today(&q->lines, o, &today, &err) < 0) {
		failed(&answer, err.message);
	} else if ((rc = advice_seek(&o->wanted, o->histories, o->n, &a)) == 0) {
		rc = told(&answer, o, &a, &err);
		if (rc == 0)
			rc = promise_json(o, &a, "check_deferred", &t, &err);
		put_json(&answer, &t, rc, &err);
	} else {
		failed(&answer,
		       rc == -3 ? "That took too long for a page. Run `deferred advise`, which has no time limit."
				: "out of memory");
	}
	put_advice(q->kept, &answer);
	forget(q);
}

/* No longer than another statement of it. */
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

static struct question *ask(struct visit *v, struct deferred_error *err)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q) {
		error_set(err, DEFERRED_ENOMEM, "advice", "out of memory");
		return NULL;
	}
	q->kept = v->web->kept;
	outlook_init(&q->outlook);
	q->outlook.bounds.statement_ms = STORE_WEB_MS;
	q->outlook.bounds.all_ms = PAST_MS;
	q->outlook.wanted.go_on = go_on;
	q->outlook.wanted.go_on_data = q;
	q->end_ns = clock_ns() + REPLAYS_MS * NS_PER_MS;
	if (read_lines(q, v->pg, err) == 0 && outlook_read(&q->outlook, v->pg, err) == 0)
		return q;
	forget(q);
	return NULL;
}

/* The log is the same for all who may see it, so one answer is for all of them. */
void before_advice(struct visit *v)
{
	struct kept_answer none = { 0 };
	struct deferred_error err = { 0 };
	struct question *q;

	if (!may_see(v) || !kept_claim(v->web->kept, KEPT_ADVICE, ""))
		return;
	if ((q = ask(v, &err)) && kept_work(v->web->kept, answer, q, WAIT_MS))
		return;
	if (q)
		forget(q);
	as_of(&none);
	failed(&none, err.message[0] ? err.message : "It cannot be computed now.");
	put_advice(v->web->kept, &none);
}

int page_advice(struct visit *v, struct deferred_error *err)
{
	(void)err;
	return page_kept(
		v, KEPT_ADVICE, "",
		"<p class=\"hint\">The smallest crontab lines with which 95 % of the jobs start within 2 min, computed "
		"by replaying the log. "
		"For another share, time or queue: <code>deferred advise --share 99 --within 5min --queue NAME</code>. "
		"To test lines of your own: <code>deferred simulate</code></p>");
}

/* ---- metrics ---------------------------------------------------------------------------------- */

/* One reading of the database for all who ask within some seconds, in either form. */
void before_metrics(struct visit *v)
{
	struct deferred_error err = { 0 };
	struct kept_answer a = { 0 };
	char *text, *open;

	if (!may_see(v))
		return;
	if (!kept_claim(v->web->kept, KEPT_METRICS, "")) {
		kept_wait(v->web->kept, KEPT_METRICS, "", METRICS_WAIT_MS);
		return;
	}
	if (metrics_text(v->pg, &text, &open, &err) < 0) {
		log_line(LOG_L_WARNING, "web: no metrics: %s", err.message);
		kept_give_up(v->web->kept, KEPT_METRICS, "");
		return;
	}
	buf_text(&a.html, text);
	buf_text(&a.json, open);
	free(text);
	free(open);
	kept_put(v->web->kept, KEPT_METRICS, "", &a);
}

/* Not a page, but what Prometheus reads. */
int page_metrics(struct visit *v, struct deferred_error *err)
{
	bool open = exposition_wants_open(request_value(&v->request, "accept"));

	(void)err;
	v->reply.content_type = open ? EXPOSITION_TYPE_OPEN : EXPOSITION_TYPE;
	if (!kept_show(v->web->kept, KEPT_METRICS, "", open, &v->reply.body))
		visit_refuse(v, 503, "The figures are not available now.");
	return 0;
}
