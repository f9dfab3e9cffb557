/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "page/indent.h"
#include "rows/job.h"
#include "rows/web.h"
#include "search.h"

#include <inttypes.h>
#include <string.h>

#define INDENTED_MAX (4 * STORE_WEB_PARAMS)

/* ---- a list ----------------------------------------------------------------------------------- */

/* The same search from there on. */
static void show_next_page(struct web_request *r, const struct search *s, int64_t after, const char *text)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<p class=\"pager\">%s <a href=\"/jobs?", text);
	search_query(r, s, false);
	html_printf(b, "after=%" PRId64 "\" rel=\"next\">Next page</a></p>", after);
}

static bool does_fit(const struct rows *rows, size_t i)
{
	return admin_ls_done_row(rows->res, i).fits;
}

/* The files in sql/queries say which jobs are looked at for a list, and in which order. */
static int find_jobs(struct web_request *r, const struct search *s, struct pg_result **res, struct deferred_error *err)
{
	bool indexed = s->filter.tags_len > 0 || (s->filter.label_index && !s->more.error) || s->more.value_index;
	int rc = indexed ? store_web_indexed(r->pg, s->filter.tags_len > 0, err) : 0;

	if (rc < 0)
		return rc;
	return s->filter.state && search_has_index(s) ? store_admin_ls(r->pg, &s->filter, res, err)
						      : store_web_jobs(r->pg, &s->filter, &s->more, res, err);
}

static void show_found_jobs(struct web_request *r, const struct search *s, const struct pg_result *res)
{
	static const struct column columns[] = {
		{ AT(admin_ls_done, id), CELL_JOB, "id", "Job" },
		{ AT(admin_ls_done, state), CELL_STATE, "state", "State" },
		{ AT(admin_ls_done, fn), CELL_FN, "fn", "Function" },
		{ AT(admin_ls_done, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(admin_ls_done, label), CELL_TEXT, "label", "Label" },
		{ AT(admin_ls_done, attempt), CELL_INT, "attempt", "Attempts" },
		{ AT(admin_ls_done, last_outcome), CELL_STATE, "last_outcome", "Last outcome" },
		{ AT(admin_ls_done, age_s), CELL_AGO, "age_s", "Deferred" },
		{ AT(admin_ls_done, until_s), CELL_DUE, "due_s", "Due or ended", { AT(admin_ls_done, state) } },
		{ AT(admin_ls_done, json), CELL_WHOLE },
	};
	static const struct part part = PART("jobs", NULL, "No matching jobs.", columns);
	size_t n = pg_rows(res);
	struct admin_ls_done_row last = { 0 };
	bool full = n == STORE_WEB_ROWS;

	if (n > 0)
		last = admin_ls_done_row(res, n - 1);
	part_write(r, &part, &(struct rows){ .res = res, .n = n, .use = does_fit });
	if (r->json) {
		if (last.last || full)
			html_printf(&r->reply.body, ",\"after\":%" PRId64, last.id);
		return;
	}
	if (last.last)
		show_next_page(r, s, last.id,
			       arena_printf(&r->arena, "Searched %s jobs, down to job %" PRId64 ".",
					    s->more.error ? "2,000" : "10,000", last.id));
	else if (full)
		show_next_page(r, s, last.id, "");
	if (n > 0)
		pages_bulk_links(r, s);
}

/* Is the search one that can be made, by this visitor? */
static bool is_allowed(struct web_request *r, const struct search *s)
{
	/* A state is found by its own index, which has no outcomes and no parts of labels. */
	if (s->filter.state && !search_has_index(s))
		page_refuse(r, 400,
			    "A state cannot be searched together with a part of a label, an outcome, an error or "
			    "params. Leave the state out, or say label:\"the whole label\", "
			    "key:, tag:, queue: or fn:.");
	else if (store_admin_lacks_end(&s->filter))
		page_refuse(r, 400, "Times of the end need a state: " STORE_ADMIN_END_STATES ".");
	else if (s->too_many)
		page_refuse(r, 400, "A search may have 32 tags, and 16 keys in a path of params.");
	else if (s->more.path_len > 0 && !r->me.reader)
		page_refuse(r, 403, "Params are not shown to your role, and not searched either.");
	else if (s->more.error && !r->me.reader)
		page_refuse(r, 403, "Errors are not shown to your role, and not searched either.");
	else if (s->more.error && s->more.path_len > 0)
		page_refuse(r, 400, "Errors and params cannot be searched together.");
	else
		return true;
	return false;
}

int pages_jobs(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct search s = { 0 };
	int rc;

	if (!search_read(r, &s, &rc, err))
		return rc;
	if (s.id > 0) {
		page_redirect(r, arena_printf(&r->arena, "/jobs/%" PRId64 "%s", s.id, r->json ? ".json" : ""));
		return 0;
	}
	if (!is_allowed(r, &s))
		return 0;
	rc = search_indexes(r, &s, err);
	if (rc == 0)
		rc = find_jobs(r, &s, &res, err);
	if (rc == 0) {
		page_begin(r, NULL, "Jobs");
		search_form(r, &s);
		show_found_jobs(r, &s, res);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}

/* ---- one job ---------------------------------------------------------------------------------- */

/* Jobs that the system deferred, for a dead job or as an alert, have params and errors of other functions in their
 * params. */
bool pages_may_see_params(struct web_request *r, const char *fn, const char *by)
{
	size_t len;
	const char **hidden = page_hidden_functions(r, &len);

	if (len > 0 && strcmp(by, "deferred_owner") == 0)
		return false;
	for (size_t i = 0; i < len; i++)
		if (strcmp(hidden[i], fn) == 0)
			return false;
	return r->me.reader;
}

/* The state, and when the job is due or its lease ends. */
static void show_state(struct web_request *r, const struct rows *rows, size_t i)
{
	struct web_job_row job = web_job_row(rows->res, i);

	part_cell(r, CELL_STATE, rows->res, i, AT(web_job, state));
	if (*job.finished || strcmp(job.state, "ready") == 0)
		return;
	html_printf(&r->reply.body, " %s", strcmp(job.state, "claimed") == 0 ? "lease ends " : "due ");
	part_cell(r, CELL_IN, rows->res, i, AT(web_job, visible_s));
}

/* JSON has its own form of a job. */
static const struct column fact_columns[] = {
	{ AT(web_job, state), CELL_STATE, NULL, "State", .show = show_state },
	{ AT(web_job, done), CELL_PROGRESS, NULL, "Progress", { AT(web_job, total), AT(web_job, text) } },
	{ AT(web_job, fn), CELL_FN, NULL, "Function" },
	{ AT(web_job, queue), CELL_QUEUE, NULL, "Queue" },
	{ AT(web_job, created), CELL_TIME, NULL, "Deferred" },
	{ AT(web_job, created_by), CELL_TEXT, NULL, "By" },
	{ AT(web_job, priority), CELL_INT, NULL, "Priority" },
	{ AT(web_job, attempt), CELL_INT, NULL, "Attempts" },
	{ AT(web_job, worker), CELL_TEXT, NULL, "Worker" },
	{ AT(web_job, finished), CELL_TIME, NULL, "Ended" },
};
static const struct part fact_part = PART(NULL, NULL, NULL, fact_columns);

static int show_facts(struct web_request *r, const struct pg_result *job, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = job_facts_exec(r->pg, r->number, &res, err);

	part_facts_open(r, &fact_part, job);
	for (size_t i = 0; rc == 0 && i < pg_rows(res); i++) {
		struct job_facts_row f = job_facts_row(res, i);

		part_fact(r, f.name, f.timed ? CELL_ZONED : CELL_TEXT, f.value);
	}
	part_facts_close(r);
	pg_result_free(res);
	return rc;
}

static void show_job_buttons(struct web_request *r, const struct web_job_row *job)
{
	const char *place = arena_printf(&r->arena, "/jobs/%" PRId64, job->id), *state = job->state;

	if (strcmp(state, "dead") == 0 || strcmp(state, "cancelled") == 0 || strcmp(state, "expired") == 0)
		page_button(r, arena_printf(&r->arena, "%s/retry", place), "Retry", NULL);
	if (strcmp(state, "delayed") == 0)
		page_button(r, arena_printf(&r->arena, "%s/run", place), "Run now", NULL);
	if (!*job->finished)
		page_button(r, arena_printf(&r->arena, "%s/cancel", place), "Cancel",
			    "Cancel this job? A running attempt is terminated.");
	if (!*job->finished && strcmp(state, "claimed") != 0 && page_may_act(r) && !r->json)
		html_printf(&r->reply.body, "<a class=\"button\" href=\"%s/edit\">Edit</a>", place);
}

/* By this, people approve what a job waits for. */
static void show_event_form(struct web_request *r, const char *event)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<form class=\"search\" method=\"post\" action=\"/jobs/%" PRId64 "/send\">", r->number);
	page_token(r);
	html_printf(b,
		    "<input type=\"hidden\" name=\"event\" value=\"%s\"><label>Payload of %s "
		    "<input name=\"payload\" placeholder=\"JSON, or empty\" autocomplete=\"off\" "
		    "autocapitalize=\"off\" spellcheck=\"false\"></label><button>Send event</button></form>",
		    event, event);
}

static int show_events(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(admin_show_events, event), CELL_TEXT, "event", "Event" },
		{ AT(admin_show_events, name), CELL_TEXT, "name", "Known as" },
		{ AT(admin_show_events, said), CELL_ZONED, "said", "State" },
		{ AT(admin_show_events, until), CELL_ZONED, "until", "Until" },
		{ AT(admin_show_events, on_timeout), CELL_TEXT, "on_timeout", "Then" },
		{ AT(admin_show_events, waits), CELL_BOOL, "waits", "" },
	};
	static const struct part part = PART("events", "Waits for events", "", columns);
	struct pg_result *res = NULL;
	int rc = admin_show_events_exec(r->pg, r->number, &res, err);

	if (rc == 0 && (r->json || pg_rows(res) > 0))
		part_result(r, &part, res);
	for (size_t i = 0; rc == 0 && i < pg_rows(res) && !r->json && page_may_act(r); i++)
		if (admin_show_events_row(res, i).waits)
			show_event_form(r, admin_show_events_row(res, i).event);
	pg_result_free(res);
	return rc;
}

/* Params, indented for people. jsonb would change the order of keys and drop repeated ones. A double would drop the
 * last digits of large numbers. */
static void show_indented(struct web_request *r, const char *text, size_t len)
{
	struct buf lines = { 0 };

	if (indent_json(&lines, text, len, (size_t)INDENTED_MAX) && lines.len != len)
		html_printf(&r->reply.body,
			    "<details><summary>Indented</summary><pre tabindex=\"0\" dir=\"auto\">%s</pre></details>",
			    lines.p);
	buf_clear(&lines);
}

static int show_params(struct web_request *r, bool may_see, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct buf *b = &r->reply.body;
	int rc;

	if (!may_see) {
		if (!r->json)
			html_raw(b, "<section><h2>Params</h2><p class=\"empty\">Not shown to your role.</p></section>");
		return 0;
	}
	rc = web_job_params_exec(r->pg, r->number, STORE_WEB_PARAMS, &res, err);
	if (rc == 0 && pg_rows(res) == 1) {
		struct web_job_params_row row = web_job_params_row(res, 0);
		size_t len = strlen(row.params);

		if (r->json && row.bytes <= STORE_WEB_PARAMS)
			html_printf(b, ",\"params\":%-s", row.params); /* valid JSON, byte for byte */
		if (!r->json)
			html_printf(b, "<section><h2>Params</h2><pre tabindex=\"0\" dir=\"auto\">%s</pre></section>",
				    row.params);
		if (!r->json && row.bytes == (int64_t)len)
			show_indented(r, row.params, len);
		else if (!r->json)
			html_printf(b,
				    "<p class=\"hint\">The first %zu of %" PRId64 " bytes. <code>deferred show %" PRId64
				    "</code> has all of them.</p>",
				    len, row.bytes, r->number);
	}
	pg_result_free(res);
	return rc;
}

static const struct column attempt_columns[] = {
	{ AT(web_job_attempts, attempt), CELL_INT, "attempt" },
	{ AT(web_job_attempts, outcome), CELL_TEXT, "outcome" },
	{ AT(web_job_attempts, final), CELL_BOOL, "final" },
	{ AT(web_job_attempts, started), CELL_TEXT, "started_at" },
	{ AT(web_job_attempts, finished), CELL_TEXT, "finished_at" },
	/* The line below its heading has those with a title. */
	{ AT(web_job_attempts, wait_us), CELL_US, "wait_us", "wait" },
	{ AT(web_job_attempts, run_us), CELL_US, "run_us", "run" },
	{ AT(web_job_attempts, cpu_us), CELL_US, "cpu_us", "CPU" },
	{ AT(web_job_attempts, max_rss_kb), CELL_KIB, "max_rss_kb", "peak memory" },
	{ AT(web_job_attempts, exit_code), CELL_INT, "exit_code", "exit status" },
	{ AT(web_job_attempts, signal), CELL_INT, "signal", "signal" },
	{ AT(web_job_attempts, worker), CELL_TEXT, "worker", "worker" },
	{ AT(web_job_attempts, plugin), CELL_TEXT, "plugin", "plugin" },
};
static const struct part attempt_part = PART("attempts", NULL, NULL, attempt_columns);

/* said: error and result of the same attempt; NULL: not for this visitor. */
static void show_attempt(struct web_request *r, const struct pg_result *res, size_t i,
			 const struct web_job_said_row *said)
{
	struct web_job_attempts_row a = web_job_attempts_row(res, i);
	struct buf *b = &r->reply.body;

	if (a.attempt > 0)
		html_printf(b, "<li><h3>Attempt %" PRId64 " ", a.attempt);
	else
		html_raw(b, "<li><h3>Ended without an attempt ");
	part_cell(r, CELL_STATE, res, i, AT(web_job_attempts, outcome));
	html_printf(b, "</h3><p class=\"meta\">%s UTC", *a.started ? a.started : a.finished);
	for (size_t k = 0; k < attempt_part.len; k++) {
		const struct column *c = &attempt_columns[k];

		if (!c->title || !*pg_text(res, i, c->at, NULL))
			continue;
		html_printf(b, " \xc2\xb7 %s ", c->title);
		part_cell(r, c->cell, res, i, c->at);
	}
	html_raw(b, "</p>");
	if (said && said->error)
		html_printf(b, "<pre class=\"error\" tabindex=\"0\" dir=\"auto\">%s</pre>", said->error);
	if (said && said->result)
		html_printf(b, "<p class=\"meta\">Result</p><pre tabindex=\"0\" dir=\"auto\">%s</pre>", said->result);
	html_raw(b, "</li>");
}

static void list_attempts(struct web_request *r, const struct pg_result *res, const struct pg_result *said)
{
	struct buf *b = &r->reply.body;
	size_t n = pg_rows(res);

	html_printf(b, "<section><h2>Attempts</h2>%-s",
		    n > 0 ? "<ol class=\"timeline\">" : "<p class=\"empty\">No attempts have ended.</p>");
	for (size_t i = 0; i < n; i++) {
		struct web_job_said_row row = { 0 };

		if (said && i < pg_rows(said))
			row = web_job_said_row(said, i);
		show_attempt(r, res, i, row.attempt == web_job_attempts_row(res, i).attempt ? &row : NULL);
	}
	html_printf(b, "%-s</section>", n > 0 ? "</ol>" : "");
}

static int show_attempts(struct web_request *r, bool may_see, struct deferred_error *err)
{
	static const struct column columns[] = { { AT(web_job_said, attempt), CELL_INT, "attempt" },
						 { AT(web_job_said, error), CELL_TEXT, "error" },
						 { AT(web_job_said, result), CELL_TEXT, "result" } };
	static const struct part said_part = PART("said", NULL, NULL, columns);
	struct pg_result *res = NULL, *said = NULL;
	int rc = web_job_attempts_exec(r->pg, r->number, &res, err);

	if (rc == 0 && may_see)
		rc = web_job_said_exec(r->pg, r->number, &said, err);
	if (rc == 0 && r->json) {
		part_result(r, &attempt_part, res);
		if (said)
			part_result(r, &said_part, said);
	} else if (rc == 0) {
		list_attempts(r, res, said);
	}
	pg_result_free(said);
	pg_result_free(res);
	return rc;
}

/* Their values are not for everybody. */
static int show_steps(struct web_request *r, bool may_see, struct deferred_error *err)
{
	static const struct column columns[] = { { AT(web_job_steps, number), CELL_INT, "number", "No." },
						 { AT(web_job_steps, name), CELL_TEXT, "name", "Step" },
						 { AT(web_job_steps, attempt), CELL_INT, "attempt", "Attempt" },
						 { AT(web_job_steps, saved), CELL_TIME, "saved_at", "Saved" },
						 { AT(web_job_steps, bytes), CELL_INT, "bytes", "Bytes" },
						 { AT(web_job_steps_values, value), CELL_TEXT, "value", "Value" } };
	static const struct part names = { "steps", "Steps", NULL, columns, 5 };
	static const struct part values = PART("steps", "Steps", NULL, columns);
	struct pg_result *res = NULL;
	int rc = may_see ? web_job_steps_values_exec(r->pg, r->number, &res, err)
			 : web_job_steps_exec(r->pg, r->number, &res, err);

	if (rc == 0 && (r->json || pg_rows(res) > 0))
		part_result(r, may_see ? &values : &names, res);
	pg_result_free(res);
	return rc;
}

static int show_job(struct web_request *r, const struct pg_result *res, struct deferred_error *err)
{
	struct web_job_row job = web_job_row(res, 0);
	bool may_see = pages_may_see_params(r, job.fn, job.created_by);
	struct buf *b = &r->reply.body;
	int rc = 0;

	pages_outcome(r);
	if (r->json) {
		html_printf(b, ",\"job\":%-s", job.json);
		pages_why(r);
	} else {
		if (!pg_null(res, 0, AT(web_job, label)))
			html_printf(b, "<p class=\"label\"><bdi>%s</bdi></p>", job.label);
		page_live(r, "state");
		if (!*job.finished)
			pages_why(r);
		rc = show_facts(r, res, err);
		page_live_end(r);
		html_raw(b, "<div class=\"acts\">");
		show_job_buttons(r, &job);
		html_raw(b, "</div>");
	}
	if (rc == 0)
		rc = show_events(r, err);
	if (rc == 0)
		rc = pages_neighbours(r, err);
	if (rc == 0)
		rc = show_steps(r, may_see, err);
	if (rc == 0)
		rc = show_attempts(r, may_see, err);
	if (rc == 0)
		rc = show_params(r, may_see, err);
	return rc == 0 ? pages_actions(r, &(struct pages_target){ .job = r->number }, err) : rc;
}

void pages_refuse_job(struct web_request *r)
{
	page_refuse(r, 404, "The job does not exist. It was never deferred, is not committed, or was purged.");
}

int pages_job(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	size_t hidden_len;
	const char **hidden = page_hidden_functions(r, &hidden_len);
	int rc = web_job_exec(r->pg, r->number, hidden, hidden_len, &res, err);

	if (rc == 0 && pg_rows(res) == 0) {
		pages_refuse_job(r);
	} else if (rc == 0) {
		page_begin(r, "Job", arena_printf(&r->arena, "%" PRId64, r->number));
		rc = show_job(r, res, err);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}
