/* SPDX-License-Identifier: MIT */
#include "form.h"

#include "indent.h"
#include "search.h"

#include <inttypes.h>
#include <string.h>

#define INDENTED_MAX (4 * STORE_WEB_PARAMS)

/* ---- a list ----------------------------------------------------------------------------------- */

/* The same search from there on. */
static void pager(struct visit *v, const struct search *s, int64_t after, const char *text)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<p class=\"pager\">");
	html_text(b, text);
	html_raw(b, " <a href=\"/jobs?");
	search_query(v, s, false);
	buf_printf(b, "after=%" PRId64 "\" rel=\"next\">Next page</a></p>", after);
}

static bool fits(const struct pg_result *res, size_t row)
{
	return pg_bool(res, row, 12);
}

/* What lists of one state are in order of, and look at, is said by sql/queries. */
static int find(struct visit *v, const struct search *s, struct pg_result **res, struct deferred_error *err)
{
	bool indexed = s->filter.tags_len > 0 || (s->filter.label_index && !s->more.error) || s->more.value_index;
	int rc = indexed ? store_web_indexed(v->pg, s->filter.tags_len > 0, err) : 0;

	if (rc < 0)
		return rc;
	return s->filter.state && search_has_index(s) ? store_admin_ls(v->pg, &s->filter, res, err)
						      : store_web_jobs(v->pg, &s->filter, &s->more, res, err);
}

static void results(struct visit *v, const struct search *s, const struct pg_result *res)
{
	static const struct column columns[] = {
		{ 0, CELL_JOB, "id", "Job" },
		{ 1, CELL_STATE, "state", "State" },
		{ 3, CELL_FN, "fn", "Function" },
		{ 2, CELL_QUEUE, "queue", "Queue" },
		{ 4, CELL_TEXT, "label", "Label" },
		{ 6, CELL_INT, "attempt", "Attempts" },
		{ 9, CELL_STATE, "last_outcome", "Last outcome" },
		{ 7, CELL_AGO, "age_s", "Deferred" },
		{ 8, CELL_DUE, "due_s", "Due or ended" },
		{ 10, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part = PART("jobs", NULL, "No matching jobs.", columns);
	size_t n = pg_rows(res);
	bool more = n > 0 && pg_bool(res, n - 1, 13);

	page_part(v, &part, res, fits);
	if (v->json) {
		if (n > 0 && (more || n == STORE_WEB_ROWS))
			buf_printf(&v->reply.body, ",\"after\":%" PRId64, pg_int(res, n - 1, 0));
		return;
	}
	if (more)
		pager(v, s, pg_int(res, n - 1, 0),
		      arena_printf(&v->arena, "Searched %s jobs, down to job %" PRId64 ".",
				   s->more.error ? "2,000" : "10,000", pg_int(res, n - 1, 0)));
	else if (n == STORE_WEB_ROWS)
		pager(v, s, pg_int(res, n - 1, 0), "");
	if (n > 0)
		bulk_links(v, s);
}

int page_jobs(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct search s = { 0 };
	int rc = search_read(v, &s, err);

	if (rc == 0 && s.id > 0) {
		v->reply.status = 303;
		reply_header(&v->reply, "Location",
			     arena_printf(&v->arena, "/jobs/%" PRId64 "%s", s.id, v->json ? ".json" : ""));
		return 0;
	}
	/* A state is looked for by its own index, which knows nothing of outcomes and parts of labels. */
	if (rc == 0 && s.filter.state && !search_has_index(&s)) {
		visit_refuse(v, 400,
			     "A state cannot be searched together with a part of a label, an outcome, an error or "
			     "params. Leave the state out, or say label:\"the whole label\", "
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
	if (rc == 0 && s.more.error && !v->me.reader) {
		visit_refuse(v, 403, "Errors are not shown to your role, and not searched either.");
		return 0;
	}
	if (rc == 0 && s.more.error && s.more.path_len > 0) {
		visit_refuse(v, 400, "Errors and params cannot be searched together.");
		return 0;
	}
	if (rc == 0)
		rc = search_indexes(v, &s, err);
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

/*
 * May what a function is given, and what it said, be shown to who asks? What the system deferred itself, for a job that
 * died or as an alert, has params and errors of other functions in its params.
 */
static bool may_see_params(struct visit *v, const char *fn, const char *by)
{
	size_t len;
	const char **hidden = hidden_functions(v, &len);

	if (len > 0 && strcmp(by, "deferred_owner") == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (strcmp(hidden[i], fn) == 0)
			return false;
	return v->me.reader;
}

static void facts(struct visit *v, const struct pg_result *res)
{
	static const struct {
		int at;
		enum cell cell;
		const char *name;
	} list[] = {
		{ 3, CELL_FN, "Function" },
		{ 2, CELL_QUEUE, "Queue" },
		{ 8, CELL_TIME, "Deferred" },
		{ 10, CELL_TEXT, "By" },
		{ 11, CELL_TIME, "Not before" },
		{ 12, CELL_TIME, "Expires" },
		{ 5, CELL_TEXT, "Key" },
		{ 20, CELL_TEXT, "Concurrency key" },
		{ 21, CELL_TEXT, "Rule" },
		{ 6, CELL_INT, "Priority" },
		{ 7, CELL_INT, "Attempts" },
		{ 18, CELL_INT, "Max attempts" },
		{ 19, CELL_INT, "Timeout (ms)" },
		{ 15, CELL_TEXT, "Worker" },
		{ 16, CELL_TIME, "Ended" },
		{ 27, CELL_TEXT, "Trace context" },
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
		page_fact_cell(v, list[i].name, list[i].cell, res, list[i].at);
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
		page_button(v, arena_printf(&v->arena, "/jobs/%" PRId64 "/cancel", v->number), "Cancel",
			    "Cancel this job? A running attempt is terminated.");
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

/* The params once more, for people. jsonb would drop keys that come twice and their order, and a double the digits of
 * large numbers. */
static void indented(struct visit *v, const char *text, size_t len)
{
	struct buf lines = { 0 };

	if (indent_json(&lines, text, len, (size_t)INDENTED_MAX) && lines.len != len) {
		html_raw(&v->reply.body, "<details><summary>Indented</summary><pre tabindex=\"0\" dir=\"auto\">");
		html_text_n(&v->reply.body, lines.p, lines.len);
		html_raw(&v->reply.body, "</pre></details>");
	}
	buf_clear(&lines);
}

static int params(struct visit *v, bool may_see, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct buf *b = &v->reply.body;
	int rc;

	if (!may_see) {
		if (!v->json)
			html_raw(b, "<section><h2>Params</h2><p class=\"empty\">Not shown to your role.</p></section>");
		return 0;
	}
	rc = web_job_params_exec(v->pg, v->number, STORE_WEB_PARAMS, &res, err);
	if (rc == 0 && pg_rows(res) == 1 && v->json && pg_int(res, 0, 1) <= STORE_WEB_PARAMS) {
		html_raw(b, ",\"params\":");
		buf_text(b, pg_text(res, 0, 0, NULL)); /* valid JSON, byte for byte */
	} else if (rc == 0 && pg_rows(res) == 1 && !v->json) {
		size_t len;

		pg_text(res, 0, 0, &len);
		block(v, "Params", pg_text(res, 0, 0, NULL));
		if (pg_int(res, 0, 1) == (int64_t)len)
			indented(v, pg_text(res, 0, 0, NULL), len);
		else
			buf_printf(b,
				   "<p class=\"hint\">The first %zu of %" PRId64 " bytes. <code>deferred show %" PRId64
				   "</code> has all of them.</p>",
				   len, pg_int(res, 0, 1), v->number);
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
	html_text(b, pg_int(res, row, 0) > 0 ? "Attempt " : "Ended without an attempt");
	if (pg_int(res, row, 0) > 0)
		page_cell(v, CELL_INT, res, row, 0);
	html_raw(b, " ");
	page_cell(v, CELL_STATE, res, row, 1);
	html_raw(b, "</h3><p class=\"meta\">");
	page_cell(v, CELL_TIME, res, row, pg_null(res, row, 3) ? 4 : 3);
	for (int i = 5; i <= 12; i++) {
		static const char *const names[] = { "wait",        "run",    "CPU",    "peak memory",
						     "exit status", "signal", "worker", "plugin" };
		static const enum cell cells[] = { CELL_US,  CELL_US,  CELL_US,   CELL_KIB,
						   CELL_INT, CELL_INT, CELL_TEXT, CELL_TEXT };

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

static int attempts(struct visit *v, bool may_see, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_INT, "attempt", NULL },      { 1, CELL_TEXT, "outcome", NULL },
		{ 2, CELL_BOOL, "final", NULL },       { 3, CELL_TEXT, "started_at", NULL },
		{ 4, CELL_TEXT, "finished_at", NULL }, { 5, CELL_US, "wait_us", NULL },
		{ 6, CELL_US, "run_us", NULL },        { 7, CELL_US, "cpu_us", NULL },
		{ 8, CELL_KIB, "max_rss_kb", NULL },   { 9, CELL_INT, "exit_code", NULL },
		{ 10, CELL_INT, "signal", NULL },      { 11, CELL_TEXT, "worker", NULL },
		{ 12, CELL_TEXT, "plugin", NULL },
	};
	static const struct column said_columns[] = { { 0, CELL_INT, "attempt", NULL },
						      { 1, CELL_TEXT, "error", NULL },
						      { 2, CELL_TEXT, "result", NULL } };
	static const struct part part = PART("attempts", NULL, NULL, columns),
				 said_part = PART("said", NULL, NULL, said_columns);
	struct pg_result *res = NULL, *said = NULL;
	int rc = store_web_rows(v->pg, WEB_JOB_ATTEMPTS, v->number, &res, err);

	if (rc == 0 && may_see)
		rc = store_web_rows(v->pg, WEB_JOB_SAID, v->number, &said, err);
	if (rc == 0 && v->json) {
		page_part(v, &part, res, NULL);
		if (said)
			page_part(v, &said_part, said, NULL);
	} else if (rc == 0) {
		html_raw(&v->reply.body, "<section><h2>Attempts</h2>");
		if (pg_rows(res) == 0)
			html_raw(&v->reply.body, "<p class=\"empty\">No attempts have ended.</p>");
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
	size_t hidden_len;
	const char **hidden = hidden_functions(v, &hidden_len);
	int rc = web_job_exec(v->pg, v->number, hidden, hidden_len, &res, err);
	bool may_see;

	if (rc == 0 && pg_rows(res) == 0) {
		visit_refuse(v, 404, "There is no such job: it was never deferred, not committed yet, or purged.");
		goto done;
	}
	if (rc < 0)
		goto done;
	may_see = may_see_params(v, pg_text(res, 0, 3, NULL), pg_text(res, 0, 10, NULL));
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
	rc = neighbours_of(v, err);
	if (rc == 0)
		rc = attempts(v, may_see, err);
	if (rc == 0)
		rc = params(v, may_see, err);
	if (rc == 0)
		rc = actions_of(v, &(struct store_web_target){ .job = v->number }, err);
	page_end(v);
done:
	pg_result_free(res);
	return rc;
}

/* ---- one that an operator writes by hand ------------------------------------------------------ */

static const struct form_field defer_fields[] = {
	{ "fn", "Function", NULL, "functions", NULL, 127, .required = true },
	{ "queue", "Queue", "default", "queues", NULL, 88 },
	{ "label", "Label", .most = 1000 },
	{ "delay", "Not before", "now, or 10min", .most = 40, .is_span = true },
	{ "expires", "Expires after", "never, or 2d", .most = 40, .is_span = true },
	{ "key", "Key (one job at a time)", .most = 1000 },
	{ "priority", "Priority", "0", .most = 10 },
	{ "max_attempts", "Max attempts", .most = 10 },
	{ "timeout", "Timeout", .most = 40, .is_span = true },
};
#define DEFER_FIELDS (sizeof(defer_fields) / sizeof(defer_fields[0]))

static const struct form defer_form = {
	.action = "/defer/now",
	.button = "Defer",
	.key = "job",
	.fields = defer_fields,
	.len = DEFER_FIELDS,
	.shown = DEFER_FIELDS,
	.first = 1,
	.hint = "Empty fields use the defaults of the queue and the function, as with <code>deferred add</code>.",
};

int page_defer(struct visit *v, struct deferred_error *err)
{
	if (visit_may_act(v))
		return form_page(v, &defer_form, NULL, "Defer a job", NULL, err);
	visit_refuse_act(v);
	return 0;
}

int action_defer(struct visit *v, struct deferred_error *err)
{
	const char *wrong = form_wrong(v, &defer_form);
	struct pg_result *res = NULL;
	int rc;

	if (wrong)
		return form_page(v, &defer_form, NULL, "Defer a job", wrong, err);
	rc = web_act_defer_exec(v->pg, form_typed(v, &defer_form, "fn"), form_params(v, &defer_form),
				form_options(v, &defer_form), visit_who(v), visit_address(v), &res, err);
	if (rc == 0 && !pg_null(res, 0, 1)) {
		rc = form_page(v, &defer_form, NULL, "Defer a job", pg_text(res, 0, 1, NULL), err);
	} else if (rc == 0) {
		v->number = pg_int(res, 0, 0);
		form_done(v, &defer_form, "defer", pg_text(res, 0, 0, NULL));
	}
	pg_result_free(res);
	return rc;
}
