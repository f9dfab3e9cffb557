/* SPDX-License-Identifier: MIT */
/* Flows, jobs that were deferred together and wait for each other: what became of them, and where a job stands among
 * others. */
#include "pages.h"

#include "store/flow.h"

#include <inttypes.h>

#define FLOWS 25
#define COUNTED 1000 /* jobs of a flow whose states are counted */
#define NEIGHBOURS 50

int page_flows(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_FLOW, "id", "Flow" },
		{ 2, CELL_INT, "jobs", "Jobs" },
		{ 7, CELL_TEXT, "says", "States" },
		{ 6, CELL_JOB, "failed", "First failure" },
		{ 5, CELL_TEXT, "on_failure", "On failure" },
		{ 3, CELL_TEXT, "created_at", "Deferred" },
		{ 4, CELL_TEXT, "created_by", "By" },
		{ 1, CELL_TEXT, "label", "Label" },
		{ 8, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part = PART("flows", NULL, "No flows found.", columns);
	struct buf *b = &v->reply.body;
	struct pg_result *res = NULL;
	int rc = store_flow_ls(v->pg, FLOWS, pages_number(v, "after"), &res, err);
	size_t n = pg_rows(res);

	if (rc == 0) {
		page_begin(v, NULL, "Flows");
		if (!v->json)
			html_raw(b, "<p class=\"hint\">A flow is a set of jobs that wait for each other. Newest first, "
				    "with the states of the first 200 jobs of each.</p>");
		page_live(v, "flows");
		page_part(v, &part, res, NULL);
		page_live_end(v);
		if (n == FLOWS)
			page_next(v, "/flows?after=", "Older", pg_int(res, n - 1, 0));
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

/* ---- one flow --------------------------------------------------------------------------------- */

/* JSON has all of it. */
static const struct column fact_columns[] = {
	{ 2, CELL_TEXT, NULL, "Jobs" },         { 5, CELL_TEXT, NULL, "States" },
	{ 3, CELL_TEXT, NULL, "On failure" },
	{ 7, CELL_TEXT, NULL, "Deferred" },     { 8, CELL_TEXT, NULL, "By" },
	{ 6, CELL_TEXT, NULL, "Last retry" },
	{ 4, CELL_JOB, NULL, "First failure" },
};
static const struct part fact_part = PART(NULL, NULL, NULL, fact_columns);

static int jobs_of(struct visit *v, int64_t total, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_JOB, "id", "Job" },
		{ 1, CELL_TEXT, "name", "Name" },
		{ 2, CELL_FN, "fn", "Function" },
		{ 3, CELL_STATE, "state", "State" },
		{ 8, CELL_STATE, "last_outcome", "Last outcome" },
		{ 5, CELL_TEXT, "says", "Waits for" },
		{ 4, CELL_TEXT, "label", "Label" },
		{ 7, CELL_WHOLE, NULL, NULL },
	};
	static const struct part part = PART("jobs", "Jobs", "No more jobs.", columns);
	struct pg_result *jobs = NULL, *edges = NULL;
	int64_t after = pages_number(v, "after");
	int rc = flow_show_exec(v->pg, v->number, GRAPH_MAX, after, &jobs, err);
	size_t n = pg_rows(jobs);

	if (rc == 0 && !v->json && total <= GRAPH_MAX && after == 0)
		rc = flow_edges_exec(v->pg, v->number, GRAPH_MAX, &edges, err);
	if (rc == 0) {
		flow_graph(v, jobs, edges);
		page_part(v, &part, jobs, NULL);
		if (n == GRAPH_MAX && total > GRAPH_MAX)
			page_next(v, arena_printf(&v->arena, "/flow/%" PRId64 "?after=", v->number), "Next page",
				  pg_int(jobs, n - 1, 0));
	}
	pg_result_free(edges);
	pg_result_free(jobs);
	return rc;
}

/* The flow whose page it is; of a job that of its flow is elsewhere. NULL: that was answered, or failed. */
static struct pg_result *head_of(struct visit *v, int *rc, struct deferred_error *err)
{
	struct pg_result *head = NULL;

	*rc = flow_head_exec(v->pg, v->number, COUNTED, &head, err);
	if (*rc == 0 && pg_rows(head) == 1 && pg_int(head, 0, 0) == v->number)
		return head;
	if (*rc == 0 && pg_rows(head) == 0) {
		visit_refuse(v, 404, "There is no such flow: it was never deferred, not committed yet, or purged.");
	} else if (*rc == 0) {
		v->reply.status = 303;
		reply_header(
			&v->reply, "Location",
			arena_printf(&v->arena, "/flow/%" PRId64 "%s", pg_int(head, 0, 0), v->json ? ".json" : ""));
	}
	pg_result_free(head);
	return NULL;
}

int page_flow(struct visit *v, struct deferred_error *err)
{
	struct buf *b = &v->reply.body;
	struct pg_result *head;
	int rc;

	head = head_of(v, &rc, err);
	if (!head)
		return rc;
	page_begin(v, "Flow", pg_text(head, 0, 0, NULL));
	action_said(v);
	if (v->json) {
		html_raw(b, ",\"flow\":");
		buf_text(b, pg_text(head, 0, 9, NULL));
	} else {
		if (*pg_text(head, 0, 1, NULL)) {
			html_raw(b, "<p class=\"label\">");
			page_cell(v, CELL_TEXT, head, 0, 1);
			html_raw(b, "</p>");
		}
		page_live(v, "head");
		page_facts(v, &fact_part, head);
		page_live_end(v);
		html_raw(b, "<div class=\"acts\">");
		page_button(v, arena_printf(&v->arena, "/flow/%" PRId64 "/retry", v->number), "Retry", NULL);
		page_button(v, arena_printf(&v->arena, "/flow/%" PRId64 "/cancel", v->number), "Cancel",
			    "Cancel all jobs of this flow that have not ended? Running attempts are terminated.");
		html_raw(b, "</div>");
	}
	page_live(v, "jobs");
	rc = jobs_of(v, pg_int(head, 0, 2), err);
	page_live_end(v);
	if (rc == 0)
		rc = actions_of(v, &(struct store_web_target){ .flow = v->number }, err);
	page_end(v);
	pg_result_free(head);
	return rc;
}

/* ---- what is done to one ---------------------------------------------------------------------- */

/* There is more of it: where to go on stands in the form that leads to the next step, so nothing has to be kept here.
 * */
static void next_step(struct visit *v, int64_t done, const char *next)
{
	struct buf *b = &v->reply.body;

	page_begin(v, "Cancel", "all that is left of a flow");
	buf_printf(b, "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s cancelled so far.</p></div>", done,
		   done == 1 ? " was" : "s were");
	buf_printf(b,
		   "<div class=\"acts\"><form class=\"act\" method=\"post\" data-go action=\"/flow/%" PRId64
		   "/cancel\">",
		   v->number);
	page_token(v);
	html_raw(b, "<input type=\"hidden\" name=\"before\" value=\"");
	html_text(b, next);
	buf_printf(b,
		   "\"><input type=\"hidden\" name=\"done\" value=\"%" PRId64
		   "\"><button>Continue</button></form><a class=\"stop\" href=\"/flow/%" PRId64 "\">Stop</a></div>",
		   done, v->number);
	page_end(v);
}

static int act(struct visit *v, const char *verb, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_act_flow(v->pg, verb, v->number, pages_field_number(v, "before"), visit_who(v),
				    visit_address(v), &res, err);

	if (rc == 0 && v->json) {
		page_begin(v, NULL, "");
		html_raw(&v->reply.body, ",\"refused\":");
		html_json(&v->reply.body, pg_null(res, 0, 1) ? NULL : pg_text(res, 0, 1, NULL));
		buf_printf(&v->reply.body, ",\"jobs\":%" PRId64 ",\"before\":%s",
			   pg_null(res, 0, 0) ? 0 : pg_int(res, 0, 0),
			   pg_null(res, 0, 2) ? "null" : pg_text(res, 0, 2, NULL));
		page_end(v);
	} else if (rc == 0 && !pg_null(res, 0, 2)) {
		next_step(v, pages_field_number(v, "done") + pg_int(res, 0, 0), pg_text(res, 0, 2, NULL));
	} else if (rc == 0) {
		action_leads_back(v, verb, !pg_null(res, 0, 1));
	}
	pg_result_free(res);
	return rc;
}

int action_flow_retry(struct visit *v, struct deferred_error *err)
{
	return act(v, "retry", err);
}

int action_flow_cancel(struct visit *v, struct deferred_error *err)
{
	return act(v, "cancel", err);
}

/* ---- around a job ----------------------------------------------------------------------------- */

/* Parents come first; of each kind one more than is shown says that there are more. */
static bool is_shown(const struct pg_result *res, size_t row)
{
	return row < NEIGHBOURS || pg_bool(res, row - NEIGHBOURS, 0) != pg_bool(res, row, 0);
}

static bool is_parent(const struct pg_result *res, size_t row)
{
	return pg_bool(res, row, 0) && is_shown(res, row);
}

static bool is_child(const struct pg_result *res, size_t row)
{
	return !pg_bool(res, row, 0) && is_shown(res, row);
}

static bool has_more(const struct pg_result *res, bool parents)
{
	for (size_t row = NEIGHBOURS; row < pg_rows(res); row++)
		if (pg_bool(res, row, 0) == parents && !is_shown(res, row))
			return true;
	return false;
}

static void side(struct visit *v, const struct part *part, const struct pg_result *edges, bool parents)
{
	bool any = pg_rows(edges) > 0 && pg_bool(edges, parents ? 0 : pg_rows(edges) - 1, 0) == parents;

	if (v->json || any)
		page_part(v, part, edges, parents ? is_parent : is_child);
	if (!v->json && has_more(edges, parents))
		html_raw(&v->reply.body, "<p class=\"hint\">Only the first are shown.</p>");
}

int neighbours_of(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 1, CELL_JOB, "id", "Job" },         { 2, CELL_TEXT, "on", "Must end" },
		{ 3, CELL_TEXT, "name", "Known as" }, { 4, CELL_FN, "fn", "Function" },
		{ 5, CELL_STATE, "state", "State" },  { 6, CELL_TEXT, "label", "Label" },
	};
	/* The name is how the other job calls this one. */
	static const struct column children_columns[] = {
		{ 1, CELL_JOB, "id", "Job" },        { 2, CELL_TEXT, "on", "Must end" },
		{ 3, CELL_HIDDEN, "name", NULL },    { 4, CELL_FN, "fn", "Function" },
		{ 5, CELL_STATE, "state", "State" }, { 6, CELL_TEXT, "label", "Label" },
	};
	static const struct part parents = PART("parents", "Waits for", "This job waits for no other job.", columns);
	static const struct part children =
		PART("children", "Awaited by", "No other job waits for this job.", children_columns);
	struct pg_result *head = NULL, *edges = NULL;
	struct buf *b = &v->reply.body;
	int rc = flow_head_exec(v->pg, v->number, 1, &head, err);

	if (rc == 0)
		rc = admin_show_edges_exec(v->pg, v->number, &edges, err);
	if (rc == 0 && v->json) {
		html_raw(b, ",\"flow\":");
		buf_text(b, pg_rows(head) > 0 ? pg_text(head, 0, 0, NULL) : "null");
	} else if (rc == 0 && pg_rows(head) > 0) {
		html_raw(b, "<p class=\"meta\">Part of flow ");
		page_cell(v, CELL_FLOW, head, 0, 0);
		html_raw(b, " ");
		page_cell(v, CELL_TEXT, head, 0, 1);
		html_raw(b, "</p>");
	}
	if (rc == 0) {
		side(v, &parents, edges, true);
		side(v, &children, edges, false);
	}
	pg_result_free(edges);
	pg_result_free(head);
	return rc;
}
