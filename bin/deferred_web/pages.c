/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "chart.h"
#include "store/rule.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_PAUSED_BY 21 /* column of admin_queue_ls.sql, and behind it for how long */
#define DEAD_TOLD 300      /* on the overview */
/* ends without success; of each a row of the log and two others are read, from disk if need be */
#define DEAD_LOOK 2000

const char *pages_text(struct visit *v, const char *name)
{
	const char *value = guard_field(&v->arena, v->query, strlen(v->query), name);

	return value && *value ? value : NULL;
}

int64_t pages_number(struct visit *v, const char *name)
{
	const char *value = pages_text(v, name);

	return value && strlen(value) <= 18 && !value[strspn(value, "0123456789")] ? strtoll(value, NULL, 10) : 0;
}

const char *pages_field(struct visit *v, const char *name)
{
	const char *text = guard_field(&v->arena, v->request.body, v->request.body_len, name);

	return text && *text ? text : NULL;
}

int64_t pages_field_number(struct visit *v, const char *name)
{
	const char *text = pages_field(v, name);

	return text && strlen(text) <= 18 && !text[strspn(text, "0123456789")] ? strtoll(text, NULL, 10) : 0;
}

/* ---- queues ----------------------------------------------------------------------------------- */

static const struct column queue_columns[] = {
	{ 0, CELL_QUEUE, "queue", "Queue" },
	/* The sum of ready and running is what was counted. */
	{ 2, CELL_INT, "ready", "Ready", 5 },
	{ 3, CELL_INT, "claimed", "Running", 5 },
	{ 4, CELL_INT, "delayed", "Delayed", 6 },
	{ 7, CELL_SPAN, "oldest_ready_s", "Oldest ready" },
	{ 1, CELL_PAUSED, "paused", "State" },
	{ 9, CELL_WHOLE, NULL, NULL },
};
static const struct part queue_part = PART("queues", NULL, "No queues yet. The first job creates one.", queue_columns);

static int page_queues(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_rows(v->pg, WEB_QUEUES, STORE_WEB_COUNT, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, "Queues");
		page_live(v, "queues");
		page_part(v, &queue_part, res, NULL);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static bool is_queue_of_page(const struct pg_result *res, size_t row, const char *name)
{
	return strcmp(pg_text(res, row, 0, NULL), name) == 0;
}

void queue_tiles(struct visit *v, const struct pg_result *res)
{
	static const struct {
		int at, more;
		const char *key, *name, *state;
	} tiles[] = { { 2, 5, "ready", "Ready", "ready" },
		      { 3, 5, "claimed", "Running", "claimed" },
		      { 4, 6, "delayed", "Delayed", "delayed" } };
	struct buf *b = &v->reply.body;

	for (size_t row = 0; row < pg_rows(res); row++) {
		if (!is_queue_of_page(res, row, v->name))
			continue;
		if (v->json) {
			html_raw(b, ",\"queue\":");
			buf_text(b, pg_text(res, row, 9, NULL));
			return;
		}
		html_raw(b, "<ul class=\"tiles\">");
		for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++) {
			html_raw(b, "<li><a href=\"/jobs?state=");
			html_text(b, tiles[i].state);
			html_raw(b, "&amp;queue=");
			html_url(b, v->name);
			html_raw(b, "\"><b>");
			page_cell(v, CELL_INT, res, row, tiles[i].at);
			html_text(b, pg_bool(res, row, tiles[i].more) && pg_int(res, row, tiles[i].at) > 0 ? "+" : "");
			html_raw(b, "</b> <span>");
			html_text(b, tiles[i].name);
			html_raw(b, "</span></a></li>");
		}
		html_raw(b, "<li><b>");
		if (pg_null(res, row, 7))
			html_raw(b, "\xe2\x80\x93");
		page_cell(v, CELL_SPAN, res, row, 7);
		html_raw(b, "</b> <span>Oldest ready</span></li></ul>");
	}
}

static const struct column action_columns[] = {
	{ 0, CELL_HIDDEN, "id", NULL },
	{ 1, CELL_TIME, "at", "Time" },
	{ 3, CELL_TEXT, "who", "Actor" },
	{ 6, CELL_TEXT, "verb", "Action" },
	{ 8, CELL_QUEUE, "queue", "On" },
	{ 7, CELL_JOB, "job", NULL },
	{ 16, CELL_FLOW, "flow", NULL },
	{ 12, CELL_SCHEDULE, "schedule", NULL },
	{ 11, CELL_FN, "fn", NULL },
	{ 9, CELL_TEXT, "refused", "Refused because" },
	{ 13, CELL_CODE, "settings", "Settings" },
	{ 14, CELL_CODE, "filter", "Filter" },
	{ 15, CELL_INT, "jobs", "Jobs" },
	{ 4, CELL_TEXT, "role", "Role" },
	{ 10, CELL_TEXT, "login", "Login" },
	{ 5, CELL_TEXT, "address", "Address" },
};
static const struct part action_part = PART("actions", "Actions", "No actions recorded.", action_columns);

int actions_of(struct visit *v, const struct store_web_target *target, struct deferred_error *err)
{
	/* The object is known on its page. */
	static const struct column columns[] = {
		{ 1, CELL_TIME, "at", "Time" },
		{ 3, CELL_TEXT, "who", "Actor" },
		{ 6, CELL_TEXT, "verb", "Action" },
		{ 9, CELL_TEXT, "refused", "Refused because" },
		{ 13, CELL_CODE, "settings", "Settings" },
		{ 15, CELL_INT, "jobs", "Jobs" },
		{ 4, CELL_TEXT, "role", "Role" },
		{ 10, CELL_TEXT, "login", "Login" },
		{ 5, CELL_TEXT, "address", "Address" },
	};
	static const struct part part = PART("actions", "Actions", "No actions recorded.", columns);
	struct pg_result *res = NULL;
	int rc = store_web_actions(v->pg, target, 0, pages_hides(v), &res, err);

	if (rc == 0)
		page_part(v, &part, res, NULL);
	pg_result_free(res);
	return rc;
}

const char **hidden_functions(struct visit *v, size_t *len)
{
	const char *list = v->me.operator|| !v->web->hide_params ? "" : v->web->hide_params;
	const char **names = arena_alloc(&v->arena, (strlen(list) / 2 + 1) * sizeof(*names));

	for (*len = 0; *(list += strspn(list, ", \t")); list += strcspn(list, ", \t"))
		names[(*len)++] = arena_copy(&v->arena, list, strcspn(list, ", \t"));
	return names;
}

bool pages_hides(struct visit *v)
{
	size_t len;

	hidden_functions(v, &len);
	return len > 0;
}

static void queue_paused(struct visit *v, const struct pg_result *settings)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<p class=\"why\">This queue is paused. Workers start none of its jobs.");
	if (!pg_null(settings, 0, QUEUE_PAUSED_BY)) {
		html_raw(b, " <bdi>");
		html_text(b, pg_text(settings, 0, QUEUE_PAUSED_BY, NULL));
		html_raw(b, "</bdi> paused it ");
		page_span_us(b, pg_int(settings, 0, QUEUE_PAUSED_BY + 1) * 1000000);
		html_raw(b, " ago.");
	}
	html_raw(b, "</p>");
}

/* As they were read for why jobs wait, so that one page reads them once. */
static int queues_read(struct visit *v, struct pg_result **queues, struct deferred_error *err)
{
	*queues = v->queues;
	v->queues = NULL;
	return *queues ? 0 : store_web_rows(v->pg, WEB_QUEUES, STORE_WEB_COUNT, queues, err);
}

static int page_queue(struct visit *v, struct deferred_error *err)
{
	struct pg_result *settings = NULL, *depth = NULL;
	int rc = admin_queue_ls_exec(v->pg, v->name, &settings, err);
	char *path;

	if (rc == 0 && pg_rows(settings) == 0) {
		visit_refuse(v, 404,
			     arena_printf(&v->arena, "Queue '%s' does not exist. The page Queues lists all queues.",
					  v->name));
		goto done;
	}
	if (rc == 0)
		rc = queues_read(v, &depth, err);
	if (rc < 0)
		goto done;
	page_begin(v, "Queue", v->name);
	action_said(v);
	path = arena_printf(&v->arena, "/queues/%s/%s", v->name, pg_bool(settings, 0, 1) ? "resume" : "pause");
	if (pg_bool(settings, 0, 1) && !v->json)
		queue_paused(v, settings);
	page_live(v, "depth");
	why_told(v);
	queue_tiles(v, depth);
	rc = limit_used(v, v->name, NULL, settings, err);
	page_live_end(v);
	if (rc < 0)
		goto done;
	if (pg_bool(settings, 0, 1))
		page_button(v, path, "Resume", NULL);
	else
		page_button(v, path, "Pause", "Pause this queue? Running jobs finish. Workers start no others.");
	if (!v->json && visit_may_act(v)) {
		html_raw(&v->reply.body, "<p class=\"pager\"><a href=\"/queues/");
		html_url(&v->reply.body, v->name);
		html_raw(&v->reply.body, "/clear\">Clear this queue</a></p>");
	}
	rc = chart_figures(v, v->name, NULL, err);
	queue_settings(v, settings);
	if (rc == 0)
		rc = actions_of(v, &(struct store_web_target){ .queue = v->name }, err);
	page_end(v);
done:
	pg_result_free(depth);
	pg_result_free(settings);
	return rc;
}

/* ---- overview --------------------------------------------------------------------------------- */

static void tile(struct visit *v, const char *key, const char *name, const char *place, int64_t n, bool more, bool bad)
{
	struct buf *b = &v->reply.body;

	if (v->json) {
		html_raw(b, ",");
		html_json(b, key);
		buf_printf(b, ":%" PRId64, n);
		return;
	}
	html_raw(b, "<li");
	if (bad)
		html_raw(b, " class=\"bad\"");
	html_raw(b, "><a href=\"");
	html_text(b, place);
	buf_printf(b, "\"><b>%" PRId64 "%s</b> <span>", n, more ? "+" : "");
	html_text(b, name);
	html_raw(b, "</span></a></li>");
}

static void overview_tiles(struct visit *v, const struct pg_result *queues, const struct pg_result *dead,
			   const struct pg_result *status)
{
	int64_t ready = 0, running = 0, delayed = 0, oldest = -1;
	bool more = false, delayed_more = false;
	struct buf *b = &v->reply.body;

	for (size_t row = 0; row < pg_rows(queues); row++) {
		ready += pg_int(queues, row, 2);
		running += pg_int(queues, row, 3);
		delayed += pg_int(queues, row, 4);
		more |= pg_bool(queues, row, 5);
		delayed_more |= pg_bool(queues, row, 6);
		if (!pg_null(queues, row, 7) && !pg_bool(queues, row, 1) && pg_int(queues, row, 7) > oldest)
			oldest = pg_int(queues, row, 7);
	}
	if (!v->json)
		html_raw(b, "<ul class=\"tiles\">");
	tile(v, "ready", "Ready", "/jobs?state=ready", ready, more, false);
	tile(v, "running", "Running", "/running", running, false, false);
	tile(v, "delayed", "Delayed", "/jobs?state=delayed", delayed, delayed_more, false);
	tile(v, "dead_last_hour", "Dead in the last hour", "/dead", pg_int(dead, 0, 0), pg_bool(dead, 0, 1),
	     pg_int(dead, 0, 0) > 0);
	tile(v, "workers", "Workers alive", "/workers", pg_int(status, 0, 1), false,
	     ready > 0 && pg_int(status, 0, 1) == 0 && oldest > 600);
	if (v->json) {
		if (oldest < 0)
			html_raw(b, ",\"oldest_ready_s\":null");
		else
			buf_printf(b, ",\"oldest_ready_s\":%" PRId64, oldest);
		return;
	}
	html_raw(b, "<li><b>");
	if (oldest < 0)
		html_raw(b, "\xe2\x80\x93");
	else
		page_span_us(b, oldest * 1000000);
	html_raw(b, "</b> <span>Oldest ready</span></li></ul>");
}

static int page_overview(struct visit *v, struct deferred_error *err)
{
	struct pg_result *queues = NULL, *dead = NULL, *status = NULL;
	int rc = queues_read(v, &queues, err);

	if (rc == 0)
		rc = store_web_rows(v->pg, WEB_DEAD_COUNT, DEAD_TOLD, &dead, err);
	if (rc == 0)
		rc = admin_status_exec(v->pg, &status, err);
	if (rc == 0) {
		page_begin(v, NULL, "Overview");
		page_live(v, "now");
		why_told(v);
		overview_tiles(v, queues, dead, status);
		if (!v->json)
			html_raw(&v->reply.body, "<h2>Queues</h2>");
		page_part(v, &queue_part, queues, NULL);
		rc = chart_figures(v, NULL, NULL, err);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(status);
	pg_result_free(dead);
	pg_result_free(queues);
	return rc;
}

/* ---- lists that are one statement ------------------------------------------------------------- */

/* hint: markup of ours; NULL: none. */
static int page_list(struct visit *v, enum store_web_rows what, int64_t number, const struct part *part,
		     const char *hint, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_rows(v->pg, what, number, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, v->route->title);
		if (hint && !v->json)
			buf_text(&v->reply.body, hint);
		page_live(v, part->key);
		page_part(v, part, res, NULL);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static int page_workers(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_INT, "worker", "Worker" },     { 1, CELL_TEXT, "host", "Host" },
		{ 2, CELL_INT, "pid", "Process" },       { 4, CELL_BOOL, "alive", "Alive" },
		{ 5, CELL_AGO, "started_s", "Started" }, { 6, CELL_AGO, "seen_s", "Seen" },
		{ 7, CELL_AGO, "ended_s", "Ended" },     { 8, CELL_TEXT, "queues", "Serves only" },
		{ 3, CELL_TEXT, "version", "Version" },  { 9, CELL_HIDDEN, "instance", NULL },
	};
	static const struct part part = PART("workers", NULL, "No worker has run a job yet.", columns);

	return page_list(v, WEB_WORKERS, 0, &part,
			 "<p class=\"hint\">Live workers first, then the newest that have ended. "
			 "A run that found no job is not listed.</p>",
			 err);
}

static int page_rules(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_TEXT, "name", "Rule" },          { 1, CELL_FN, "fn", "Function" },
		{ 2, CELL_QUEUE, "queue", "Queue" },       { 3, CELL_TEXT, "owner", "Owner" },
		{ 4, CELL_AGO, "last_run_s", "Last run" }, { 5, CELL_INT, "last_run_ms", "Took (ms)" },
		{ 6, CELL_INT, "queued", "Queued" },       { 7, CELL_INT, "skipped", "Skipped" },
		{ 8, CELL_INT, "failed", "Failed" },       { 9, CELL_TEXT, "error", "Error" },
	};
	static const struct part part = PART("rules", NULL, "No rules yet.", columns);

	return page_list(v, WEB_RULES, 0, &part,
			 "<p class=\"hint\">A rule is a stored query that creates one job per row. "
			 "<code>deferred rule</code> manages rules.</p>",
			 err);
}

static int page_accounts(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_TEXT, "account", "Account" },         { 1, CELL_BOOL, "enabled", "Enabled" },
		{ 2, CELL_TEXT, "functions", "May call" },      { 3, CELL_AGO, "added_s", "Added" },
		{ 4, CELL_AGO, "key1_s", "First key created" }, { 5, CELL_AGO, "key2_s", "Second key created" },
	};
	static const struct part part = PART("accounts", NULL, "No accounts yet.", columns);

	return page_list(v, WEB_ACCOUNTS, 0, &part,
			 "<p class=\"hint\">Accounts of <code>deferred_http</code>. "
			 "<code>deferred account</code> manages them.</p>",
			 err);
}

static int page_dead(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_FN, "fn", "Function" },        { 1, CELL_QUEUE, "queue", "Queue" },
		{ 2, CELL_INT, "dead", "Dead" },         { 4, CELL_AGO, "last_s", "Last" },
		{ 3, CELL_AGO, "first_s", "First" },     { 6, CELL_STATE, "outcome", "Last outcome" },
		{ 5, CELL_JOB, "newest", "Newest job" }, { 7, CELL_HIDDEN, "more", NULL },
	};
	static const struct part part = PART("dead", NULL, "No dead jobs.", columns);

	struct pg_result *res = NULL;
	int rc = store_web_rows(v->pg, WEB_DEAD, DEAD_LOOK, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, "Dead");
		if (!v->json)
			html_raw(&v->reply.body,
				 "<p class=\"hint\">Dead jobs among the newest 2,000 failed jobs. <a "
				 "href=\"/jobs?state=dead\">List them one by one</a>. "
				 "To retry all jobs of a function: <code>deferred retry --fn NAME</code></p>");
		page_live(v, "dead");
		page_part(v, &part, res, NULL);
		rc = errors_of(v, NULL, err);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static int page_functions(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_FN, "fn", "Function" },
		{ 1, CELL_TEXT, "plugin", "Plugin" },
		{ 2, CELL_TEXT, "version", "Version" },
		{ 3, CELL_INT, "timeout_ms", "Timeout (ms)" },
		{ 4, CELL_INT, "max_attempts", "Max attempts" },
		{ 5, CELL_INT, "max_running", "Max running" },
		{ 6, CELL_INT, "rate", "Rate limit (per second)" },
		{ 7, CELL_INT, "hosts", "Hosts" },
		{ 8, CELL_TEXT, "some_hosts", "Examples" },
		{ 9, CELL_AGO, "seen_s", "Reported" },
		{ 10, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part = PART("functions", NULL, "No worker has reported its functions yet.", columns);
	struct pg_result *res = NULL;
	int rc = admin_functions_exec(v->pg, NULL, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, "Functions");
		if (!v->json && visit_may_act(v))
			html_raw(&v->reply.body, "<p><a href=\"/defer\">Defer a job</a></p>");
		page_part(v, &part, res, NULL);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static int page_audit(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_actions(v->pg, &(struct store_web_target){ 0 }, pages_number(v, "after"), pages_hides(v),
				   &res, err);
	size_t n = pg_rows(res);

	if (rc == 0) {
		page_begin(v, NULL, "Audit");
		page_part(v, &action_part, res, NULL);
		if (n == STORE_WEB_ROWS && !v->json)
			buf_printf(&v->reply.body,
				   "<p class=\"pager\"><a href=\"/audit?after=%" PRId64 "\">Older</a></p>",
				   pg_int(res, n - 1, 0));
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

const struct route routes[] = {
	{ "/", "overview", "Overview", page_overview, false, before_backlog, NULL, true },
	{ "/queues", "queues", "Queues", page_queues, false, NULL, NULL, true },
	{ "/queues/*", "queue", "Queue", page_queue, false, before_queue, NULL },
	{ "/queues/*/pause", "pause", NULL, action_pause, true, NULL, NULL },
	{ "/queues/*/resume", "resume", NULL, action_resume, true, NULL, NULL },
	{ "/queues/*/clear", "clear", "Clear queue", page_clear, false, NULL, NULL },
	{ "/queues/*/clear/step", "clear", NULL, action_clear, true, NULL, NULL },
	{ "/queues/*/set", "set", NULL, action_set, true, NULL, after_set },
	{ "/jobs", "jobs", "Jobs", page_jobs, false, NULL, NULL },
	{ "/jobs/all", "bulk", "Jobs", page_bulk, false, NULL, NULL },
	{ "/jobs/all/retry", "retry-all", NULL, action_retry_all, true, NULL, NULL },
	{ "/jobs/all/cancel", "cancel-all", NULL, action_cancel_all, true, NULL, NULL },
	{ "/jobs/#", "job", "Job", page_job, false, before_job, NULL, true },
	{ "/jobs/#/retry", "retry", NULL, action_retry, true, NULL, NULL },
	{ "/jobs/#/run", "run", NULL, action_run, true, NULL, NULL },
	{ "/jobs/#/cancel", "cancel", NULL, action_cancel, true, NULL, NULL },
	{ "/flows", "flows", "Flows", page_flows, false, NULL, NULL },
	{ "/flow/#", "flow", "Flow", page_flow, false, NULL, NULL },
	{ "/flow/#/retry", "retry", NULL, action_flow_retry, true, NULL, NULL },
	{ "/flow/#/cancel", "cancel", NULL, action_flow_cancel, true, NULL, NULL },
	{ "/running", "running", "Running", page_running, false, before_figures, NULL, true },
	{ "/dead", "dead", "Dead", page_dead, false, NULL, NULL, true },
	{ "/functions", "functions", "Functions", page_functions, false, NULL, NULL },
	{ "/functions/*", "function", "Function", page_function, false, before_figures, NULL },
	{ "/functions/*/set", "set", NULL, action_set, true, NULL, after_set },
	{ "/defer", "defer", "Defer a job", page_defer, false, NULL, NULL },
	{ "/defer/now", "defer", NULL, action_defer, true, NULL, NULL, .long_form = true },
	{ "/recurring", "recurring", "Recurring", page_recurring, false, NULL, NULL },
	{ "/recurring/*", "schedule", "Schedule", page_schedule, false, NULL, NULL },
	{ "/recurring/*/pause", "pause", NULL, action_pause, true, NULL, NULL },
	{ "/recurring/*/resume", "resume", NULL, action_resume, true, NULL, NULL },
	{ "/recurring/*/run", "run", NULL, action_run, true, NULL, NULL },
	{ "/schedule", "schedule-form", "Schedule", page_schedule_form, false, NULL, NULL },
	{ "/schedule/set", "set", NULL, action_schedule, true, NULL, NULL, .long_form = true },
	{ "/workers", "workers", "Workers", page_workers, false, NULL, NULL, true },
	{ "/rules", "rules", "Rules", page_rules, false, NULL, NULL },
	{ "/accounts", "accounts", "Accounts", page_accounts, false, NULL, NULL },
	{ "/audit", "audit", "Audit", page_audit, false, NULL, NULL },
	{ "/advice", "advice", "Advice", page_advice, false, before_advice, NULL },
	{ "/doctor", "doctor", "Doctor", page_doctor, false, before_doctor, NULL },
	{ "/metrics", "metrics", "Metrics", page_metrics, false, before_metrics, NULL },
	{ NULL, NULL, NULL, NULL, false, NULL, NULL },
};
