/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "port/config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- search ----------------------------------------------------------------------------------- */

static const char *const states[] = { "ready", "delayed", "waiting", "claimed", "done", "dead", "cancelled", "expired" };
static const char *const outcomes[] = { "ok", "failed", "crashed", "timeout", "interrupted", "superseded", "lost", "cancelled", "expired", "snoozed" };

static const char *one_of(const char *const *words, size_t n, const char *text)
{
	for (size_t i = 0; text && i < n; i++)
		if (strcmp(words[i], text) == 0)
			return words[i];
	return NULL;
}

#define TAGS_MAX 32
#define PATH_MAX_LEN 16

struct search {
	struct store_admin_filter filter;
	struct store_web_search more;
	const char *tags[TAGS_MAX], *path[PATH_MAX_LEN];
	bool too_many; /* tags, or keys */
	int64_t id; /* that one */
};

/* "customer.address.0", in place. */
static void read_path(struct search *s, char *text)
{
	s->more.path = s->path;
	s->more.path_len = 0;
	for (char *dot; text; text = dot) {
		dot = strchr(text, '.');
		if (dot)
			*dot++ = '\0';
		if (s->more.path_len == PATH_MAX_LEN) {
			s->too_many = true;
			return;
		}
		s->path[s->more.path_len++] = text;
	}
}

/* What is no field of its own: a tag, of which there may be several, or a value of the params. */
static bool term_of_many(struct search *s, char *text, char *value)
{
	static const char params[] = "params.";

	if (strncmp(text, "tag:", 4) == 0) {
		s->too_many |= s->filter.tags_len == TAGS_MAX;
		if (!s->too_many && *value)
			s->tags[s->filter.tags_len++] = value;
		s->filter.tags = s->tags;
		return true;
	}
	if (strncmp(text, params, strlen(params)) != 0)
		return false;
	value[-1] = '\0';
	read_path(s, text + strlen(params));
	s->more.value = value;
	return true;
}

/* name:value or name:"a value", of a search's text; all else is part of a label. */
static void term(struct visit *v, struct search *s, char *text, struct buf *label)
{
	static const char *const names[] = { "queue", "fn", "state", "label", "key", "rule", "by", "outcome" };
	const char **values[] = { &s->filter.queue, &s->filter.fn, &s->filter.state, &s->filter.label, &s->filter.key, &s->filter.rule, &s->filter.by, &s->more.outcome };
	char *colon = strchr(text, ':'), *value = colon ? colon + 1 : NULL;

	for (size_t i = 0; colon && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) != (size_t)(colon - text) || memcmp(text, names[i], (size_t)(colon - text)) != 0)
			continue;
		*values[i] = arena_copy(&v->arena, value, strlen(value));
		return;
	}
	if (colon && term_of_many(s, text, value))
		return;
	if (label->len > 0)
		html_raw(label, " ");
	buf_text(label, text);
}

static void terms(struct visit *v, struct search *s, const char *q)
{
	struct buf label = { 0 };

	while (*(q += strspn(q, " "))) {
		char *word = arena_alloc(&v->arena, strlen(q) + 1);
		bool quoted = false;
		size_t n = 0;

		for (; *q && (quoted || *q != ' '); q++) {
			if (*q == '"')
				quoted = !quoted;
			else
				word[n++] = *q;
		}
		term(v, s, word, &label);
	}
	if (label.len > 0 && !s->filter.label) {
		s->filter.label = arena_copy(&v->arena, label.p, label.len);
		s->more.part = true;
	}
	buf_clear(&label);
}

/* "2h": so long ago; else a time as the database reads it. */
static int read_times(struct visit *v, struct search *s, struct deferred_error *err)
{
	const char *text[2] = { pages_text(v, "since"), pages_text(v, "until") };
	struct deferred_error ignored = { 0 };
	struct pg_result *res = NULL;
	int64_t ms[2] = { -1, -1 };
	int rc;

	if (!text[0] && !text[1])
		return 0;
	for (int i = 0; i < 2; i++)
		if (text[i] && config_parse_ms(text[i], &ms[i], &ignored) == 0)
			text[i] = NULL;
		else
			ms[i] = -1;
	rc = store_admin_times(v->pg, text, ms, &res, err);
	if (rc == 0) {
		s->filter.since = pg_null(res, 0, 0) ? NULL : arena_copy(&v->arena, pg_text(res, 0, 0, NULL), strlen(pg_text(res, 0, 0, NULL)));
		s->filter.until = pg_null(res, 0, 1) ? NULL : arena_copy(&v->arena, pg_text(res, 0, 1, NULL), strlen(pg_text(res, 0, 1, NULL)));
	}
	pg_result_free(res);
	return rc;
}

static int read_search(struct visit *v, struct search *s, struct deferred_error *err)
{
	const char *q = pages_text(v, "q");

	s->filter = (struct store_admin_filter){ .limit = STORE_WEB_ROWS, .after = pages_number(v, "after") };
	if (q && strlen(q) <= 18 && !q[strspn(q, "0123456789")]) {
		s->id = strtoll(q, NULL, 10);
		return 0;
	}
	if (q)
		terms(v, s, q);
	s->filter.queue = s->filter.queue ? s->filter.queue : pages_text(v, "queue");
	s->filter.fn = s->filter.fn ? s->filter.fn : pages_text(v, "fn");
	s->filter.state = one_of(states, sizeof(states) / sizeof(states[0]), s->filter.state ? s->filter.state : pages_text(v, "state"));
	s->more.outcome = one_of(outcomes, sizeof(outcomes) / sizeof(outcomes[0]), s->more.outcome ? s->more.outcome : pages_text(v, "outcome"));
	s->more.hidden = hidden_functions(v, &s->more.hidden_len);
	return read_times(v, s, err);
}

static void select_box(struct visit *v, const char *name, const char *title, const char *const *words, size_t n, const char *chosen)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<label>");
	html_text(b, title);
	html_raw(b, " <select name=\"");
	html_text(b, name);
	html_raw(b, "\"><option value=\"\">any</option>");
	for (size_t i = 0; i < n; i++) {
		html_raw(b, "<option");
		if (chosen && strcmp(chosen, words[i]) == 0)
			html_raw(b, " selected");
		html_raw(b, ">");
		html_text(b, words[i]);
		html_raw(b, "</option>");
	}
	html_raw(b, "</select></label>");
}

static void text_box(struct visit *v, const char *name, const char *title, const char *value, const char *hint)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<label>");
	html_text(b, title);
	html_raw(b, " <input name=\"");
	html_text(b, name);
	html_raw(b, "\" maxlength=\"1000\" autocomplete=\"off\" value=\"");
	html_text(b, value ? value : "");
	html_raw(b, "\" placeholder=\"");
	html_text(b, hint);
	html_raw(b, "\"></label>");
}

static void search_form(struct visit *v, const struct search *s)
{
	if (v->json)
		return;
	html_raw(&v->reply.body, "<form class=\"search\" action=\"/jobs\">");
	text_box(v, "q", "Words", pages_text(v, "q"), "label, or tag:t key:k params.a.b:value by:role label:\"exact words\"");
	select_box(v, "state", "State", states, sizeof(states) / sizeof(states[0]), s->filter.state);
	text_box(v, "queue", "Queue", s->filter.queue, "any");
	text_box(v, "fn", "Function", s->filter.fn, "any");
	select_box(v, "outcome", "Last outcome", outcomes, sizeof(outcomes) / sizeof(outcomes[0]), s->more.outcome);
	text_box(v, "since", "Deferred since", pages_text(v, "since"), "2h, 2026-11-22 10:00");
	text_box(v, "until", "Until", pages_text(v, "until"), "now");
	html_raw(&v->reply.body, "<button>Find</button></form>");
}

/* The same search from there on. */
static void pager(struct visit *v, int64_t after, const char *text)
{
	static const char *const kept[] = { "q", "state", "queue", "fn", "outcome", "since", "until" };
	struct buf *b = &v->reply.body;

	html_raw(b, "<p class=\"pager\">");
	html_text(b, text);
	html_raw(b, " <a href=\"/jobs?");
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		const char *value = pages_text(v, kept[i]);

		if (!value)
			continue;
		html_text(b, kept[i]);
		html_raw(b, "=");
		html_url(b, value);
		html_raw(b, "&amp;");
	}
	buf_printf(b, "after=%" PRId64 "\" rel=\"next\">Go on</a></p>", after);
}

static bool fits(const struct pg_result *res, size_t row)
{
	return pg_bool(res, row, 12);
}

static bool has_index(const struct search *s)
{
	return !s->more.part && !s->more.outcome && s->more.path_len == 0;
}

/* What lists of one state are in order of, and look at, is said by sql/queries. */
static int find(struct visit *v, const struct search *s, struct pg_result **res, struct deferred_error *err)
{
	int rc = s->filter.tags_len > 0 ? store_web_tagged(v->pg, err) : 0;

	if (rc < 0)
		return rc;
	return s->filter.state && has_index(s) ? store_admin_ls(v->pg, &s->filter, res, err) : store_web_jobs(v->pg, &s->filter, &s->more, res, err);
}

static void results(struct visit *v, const struct search *s, const struct pg_result *res)
{
	static const struct column columns[] = {
		{ 0, CELL_JOB, "id", "Job" }, { 1, CELL_STATE, "state", "State" }, { 3, CELL_FN, "fn", "Function" }, { 2, CELL_QUEUE, "queue", "Queue" },
		{ 4, CELL_TEXT, "label", "Label" }, { 6, CELL_INT, "attempt", "Attempts" }, { 9, CELL_STATE, "last_outcome", "Last" }, { 7, CELL_AGO, "age_s", "Deferred" },
		{ 8, CELL_IN, "due_s", "Due, or ended" }, { 10, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part = PART("jobs", NULL, "No such job among those looked at.", columns);
	size_t n = pg_rows(res);
	bool more = n > 0 && pg_bool(res, n - 1, 13);

	(void)s;
	page_part(v, &part, res, fits);
	if (v->json) {
		if (n > 0 && (more || n == STORE_WEB_ROWS))
			buf_printf(&v->reply.body, ",\"after\":%" PRId64, pg_int(res, n - 1, 0));
		return;
	}
	if (more)
		pager(v, pg_int(res, n - 1, 0), arena_printf(&v->arena, "Looked at 10,000 jobs, to job %" PRId64 ".", pg_int(res, n - 1, 0)));
	else if (n == STORE_WEB_ROWS)
		pager(v, pg_int(res, n - 1, 0), "");
}

int page_jobs(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct search s = { 0 };
	int rc = read_search(v, &s, err);

	if (rc == 0 && s.id > 0) {
		v->reply.status = 303;
		reply_header(&v->reply, "Location", arena_printf(&v->arena, "/jobs/%" PRId64 "%s", s.id, v->json ? ".json" : ""));
		return 0;
	}
	/* A state is looked for by its own index, which knows nothing of outcomes and parts of labels. */
	if (rc == 0 && s.filter.state && !has_index(&s)) {
		visit_refuse(v, 400, "A state cannot be searched together with a part of a label, an outcome or params. Leave the state out, or say label:\"the whole label\", "
				     "key:, tag:, queue: or fn:.");
		return 0;
	}
	if (rc == 0 && s.too_many) {
		visit_refuse(v, 400, "A search may have 32 tags, and 16 keys in a path of params.");
		return 0;
	}
	if (rc == 0 && s.more.path_len > 0 && !v->me.reader) {
		visit_refuse(v, 403, "Params are not shown to your role, and not searched either.");
		return 0;
	}
	if (rc == 0)
		rc = find(v, &s, &res, err);
	if (rc == 0) {
		page_begin(v, NULL, "Jobs");
		search_form(v, &s);
		results(v, &s, res);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

/* ---- one job ---------------------------------------------------------------------------------- */

/* May what this function is given be shown to who asks? */
static bool may_see_params(struct visit *v, const char *fn)
{
	size_t len;
	const char **hidden = hidden_functions(v, &len);

	for (size_t i = 0; i < len; i++)
		if (strcmp(hidden[i], fn) == 0)
			return false;
	return v->me.reader;
}

static void facts(struct visit *v, const struct pg_result *res)
{
	static const struct {
		int at;
		const char *name;
	} list[] = {
		{ 3, "Function" }, { 2, "Queue" }, { 8, "Deferred" }, { 10, "By" }, { 11, "Not before" }, { 12, "Expires" }, { 5, "Key" },
		{ 20, "Concurrency key" }, { 21, "Rule" }, { 6, "Priority" }, { 7, "Attempts" }, { 18, "Most attempts" }, { 19, "Time limit, ms" }, { 15, "Worker" }, { 16, "Ended" },
		{ 27, "Trace context" },
	};
	struct buf *b = &v->reply.body;

	html_raw(b, "<dl class=\"facts\"><div><dt>State</dt><dd>");
	page_cell(v, CELL_STATE, res, 0, 1);
	if (pg_null(res, 0, 16) && strcmp(pg_text(res, 0, 1, NULL), "ready") != 0) {
		html_raw(b, " ");
		html_text(b, strcmp(pg_text(res, 0, 1, NULL), "claimed") == 0 ? "lease ends " : "due ");
		page_cell(v, CELL_IN, res, 0, 14);
	}
	html_raw(b, "</dd></div>");
	if (!pg_null(res, 0, 22) || !pg_null(res, 0, 24)) {
		html_raw(b, "<div><dt>Progress</dt><dd>");
		page_cell(v, CELL_PROGRESS, res, 0, 22);
		html_raw(b, "</dd></div>");
	}
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		page_fact(v, list[i].name, pg_text(res, 0, list[i].at, NULL));
	html_raw(b, "</dl>");
}

static void buttons(struct visit *v, const struct pg_result *res)
{
	const char *state = pg_text(res, 0, 1, NULL);
	bool is_over = !pg_null(res, 0, 16);

	if (strcmp(state, "dead") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "expired") == 0)
		page_button(v, arena_printf(&v->arena, "/jobs/%" PRId64 "/retry", v->number), "Retry", NULL);
	if (strcmp(state, "delayed") == 0)
		page_button(v, arena_printf(&v->arena, "/jobs/%" PRId64 "/run", v->number), "Run now", NULL);
	if (!is_over)
		page_button(v, arena_printf(&v->arena, "/jobs/%" PRId64 "/cancel", v->number), "Cancel", "Cancel this job? An attempt that runs is ended.");
}

static void block(struct visit *v, const char *name, const char *text)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<section><h2>");
	html_text(b, name);
	html_raw(b, "</h2><pre tabindex=\"0\" dir=\"auto\">");
	html_text(b, text);
	html_raw(b, "</pre></section>");
}

static int params(struct visit *v, const char *fn, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct buf *b = &v->reply.body;
	int rc;

	if (!may_see_params(v, fn)) {
		if (!v->json)
			html_raw(b, "<section><h2>Params</h2><p class=\"empty\">Not shown to your role.</p></section>");
		return 0;
	}
	rc = store_web_job_params(v->pg, v->number, &res, err);
	if (rc == 0 && pg_rows(res) == 1 && v->json && pg_int(res, 0, 1) <= STORE_WEB_PARAMS) {
		html_raw(b, ",\"params\":");
		buf_text(b, pg_text(res, 0, 0, NULL)); /* valid JSON, byte for byte */
	} else if (rc == 0 && pg_rows(res) == 1 && !v->json) {
		size_t len;

		pg_text(res, 0, 0, &len);
		block(v, "Params", pg_text(res, 0, 0, NULL));
		if (pg_int(res, 0, 1) > (int64_t)len)
			buf_printf(b, "<p class=\"hint\">The first %zu of %" PRId64 " bytes. <code>deferred show %" PRId64 "</code> has all of them.</p>", len,
				   pg_int(res, 0, 1), v->number);
	}
	pg_result_free(res);
	return rc;
}

/* One attempt: a line that tells how it went, and what it said. */
static void attempt(struct visit *v, const struct pg_result *res, const struct pg_result *said, size_t row)
{
	struct buf *b = &v->reply.body;
	bool has_said = said && row < pg_rows(said) && pg_int(said, row, 0) == pg_int(res, row, 0);

	html_raw(b, "<li><h3>");
	html_text(b, pg_int(res, row, 0) > 0 ? "Attempt " : "Ended while nobody ran it");
	if (pg_int(res, row, 0) > 0)
		page_cell(v, CELL_INT, res, row, 0);
	html_raw(b, " ");
	page_cell(v, CELL_STATE, res, row, 1);
	html_raw(b, "</h3><p class=\"meta\">");
	page_cell(v, CELL_TEXT, res, row, pg_null(res, row, 3) ? 4 : 3);
	for (int i = 5; i <= 12; i++) {
		static const char *const names[] = { "waited", "ran", "processor", "memory", "exit status", "signal", "worker", "by" };
		static const enum cell cells[] = { CELL_US, CELL_US, CELL_US, CELL_KIB, CELL_INT, CELL_INT, CELL_TEXT, CELL_TEXT };

		if (pg_null(res, row, i) || !*pg_text(res, row, i, NULL))
			continue;
		html_raw(b, " \xc2\xb7 ");
		html_text(b, names[i - 5]);
		html_raw(b, " ");
		page_cell(v, cells[i - 5], res, row, i);
	}
	html_raw(b, "</p>");
	if (has_said && !pg_null(said, row, 1)) {
		html_raw(b, "<pre class=\"error\" tabindex=\"0\" dir=\"auto\">");
		html_text(b, pg_text(said, row, 1, NULL));
		html_raw(b, "</pre>");
	}
	if (has_said && !pg_null(said, row, 2)) {
		html_raw(b, "<p class=\"meta\">Result</p><pre tabindex=\"0\" dir=\"auto\">");
		html_text(b, pg_text(said, row, 2, NULL));
		html_raw(b, "</pre>");
	}
	html_raw(b, "</li>");
}

static int attempts(struct visit *v, const char *fn, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_INT, "attempt", NULL }, { 1, CELL_TEXT, "outcome", NULL }, { 2, CELL_BOOL, "final", NULL }, { 3, CELL_TEXT, "started_at", NULL },
		{ 4, CELL_TEXT, "finished_at", NULL }, { 5, CELL_US, "wait_us", NULL }, { 6, CELL_US, "run_us", NULL }, { 7, CELL_US, "cpu_us", NULL },
		{ 8, CELL_KIB, "max_rss_kb", NULL }, { 9, CELL_INT, "exit_code", NULL }, { 10, CELL_INT, "signal", NULL }, { 11, CELL_TEXT, "worker", NULL },
		{ 12, CELL_TEXT, "plugin", NULL },
	};
	static const struct column said_columns[] = { { 0, CELL_INT, "attempt", NULL }, { 1, CELL_TEXT, "error", NULL }, { 2, CELL_TEXT, "result", NULL } };
	static const struct part part = PART("attempts", NULL, NULL, columns), said_part = PART("said", NULL, NULL, said_columns);
	struct pg_result *res = NULL, *said = NULL;
	int rc = store_web_rows(v->pg, WEB_JOB_ATTEMPTS, v->number, &res, err);

	if (rc == 0 && may_see_params(v, fn))
		rc = store_web_rows(v->pg, WEB_JOB_SAID, v->number, &said, err);
	if (rc == 0 && v->json) {
		page_part(v, &part, res, NULL);
		if (said)
			page_part(v, &said_part, said, NULL);
	} else if (rc == 0) {
		html_raw(&v->reply.body, "<section><h2>Attempts</h2>");
		if (pg_rows(res) == 0)
			html_raw(&v->reply.body, "<p class=\"empty\">None has ended yet.</p>");
		else
			html_raw(&v->reply.body, "<ol class=\"timeline\">");
		for (size_t row = 0; row < pg_rows(res); row++)
			attempt(v, res, said, row);
		if (pg_rows(res) > 0)
			html_raw(&v->reply.body, "</ol>");
		html_raw(&v->reply.body, "</section>");
	}
	pg_result_free(said);
	pg_result_free(res);
	return rc;
}

int page_job(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_rows(v->pg, WEB_JOB, v->number, &res, err);
	const char *fn;

	if (rc == 0 && pg_rows(res) == 0) {
		visit_refuse(v, 404, "There is no such job: it was never deferred, not committed yet, or purged.");
		goto done;
	}
	if (rc < 0)
		goto done;
	fn = pg_text(res, 0, 3, NULL);
	page_begin(v, "Job", pg_text(res, 0, 0, NULL));
	action_said(v);
	if (v->json) {
		html_raw(&v->reply.body, ",\"job\":");
		buf_text(&v->reply.body, pg_text(res, 0, 28, NULL));
		why_told(v);
	} else {
		if (!pg_null(res, 0, 4)) {
			html_raw(&v->reply.body, "<p class=\"label\">");
			page_cell(v, CELL_TEXT, res, 0, 4);
			html_raw(&v->reply.body, "</p>");
		}
		page_live(v, "state");
		if (pg_null(res, 0, 16))
			why_told(v);
		facts(v, res);
		page_live_end(v);
		html_raw(&v->reply.body, "<div class=\"acts\">");
		buttons(v, res);
		html_raw(&v->reply.body, "</div>");
	}
	rc = attempts(v, fn, err);
	if (rc == 0)
		rc = params(v, fn, err);
	if (rc == 0)
		rc = actions_of(v, &(struct store_web_target){ .job = v->number }, err);
	page_end(v);
done:
	pg_result_free(res);
	return rc;
}
