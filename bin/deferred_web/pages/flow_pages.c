/* SPDX-License-Identifier: MIT */
/* Flows: jobs that were deferred together and wait for each other. */
#include "pages.h"

#include "rows/job.h"
#include "rows/web.h"
#include "store/flow.h"

#include <inttypes.h>

#define FLOWS 25
#define COUNTED 1000 /* jobs of a flow whose states are counted */
#define NEIGHBOURS 50

int pages_flows(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(flow_ls, id), CELL_FLOW, "id", "Flow" },
		{ AT(flow_ls, jobs), CELL_INT, "jobs", "Jobs" },
		{ AT(flow_ls, states), CELL_TEXT, "says", "States" },
		{ AT(flow_ls, failed), CELL_JOB, "failed", "First failure" },
		{ AT(flow_ls, on_failure), CELL_TEXT, "on_failure", "On failure" },
		{ AT(flow_ls, created), CELL_ZONED, "created_at", "Deferred" },
		{ AT(flow_ls, created_by), CELL_TEXT, "created_by", "By" },
		{ AT(flow_ls, label), CELL_TEXT, "label", "Label" },
		{ AT(flow_ls, json), CELL_WHOLE },
	};
	static const struct part part = PART("flows", NULL, "No flows found.", columns);
	struct pg_result *res = NULL;
	int64_t after;
	size_t n;
	int rc;

	if (!page_query_number(r, "after", &after))
		return 0;
	rc = store_flow_ls(r->pg, FLOWS, after, &res, err);
	n = pg_rows(res);
	if (rc == 0) {
		page_begin(r, NULL, "Flows");
		if (!r->json)
			html_raw(&r->reply.body,
				 "<p class=\"hint\">A flow is a set of jobs that wait for each other. Newest first, "
				 "with the states of the first 200 jobs of each.</p>");
		page_live(r, "flows");
		part_result(r, &part, res);
		page_live_end(r);
		if (n == FLOWS)
			page_next(r, "/flows?after=", "Older", flow_ls_row(res, n - 1).id);
		page_end(r);
	}
	pg_result_free(res);
	return rc;
}

/* ---- one flow --------------------------------------------------------------------------------- */

/* JSON has its own form of a flow. */
static const struct column fact_columns[] = {
	{ AT(flow_head, jobs), CELL_TEXT, NULL, "Jobs" },
	{ AT(flow_head, states), CELL_TEXT, NULL, "States" },
	{ AT(flow_head, on_failure), CELL_TEXT, NULL, "On failure" },
	{ AT(flow_head, created), CELL_ZONED, NULL, "Deferred" },
	{ AT(flow_head, created_by), CELL_TEXT, NULL, "By" },
	{ AT(flow_head, retry), CELL_ZONED, NULL, "Last retry" },
	{ AT(flow_head, failed), CELL_JOB, NULL, "First failure" },
};
static const struct part fact_part = PART(NULL, NULL, NULL, fact_columns);

static int show_flow_jobs(struct web_request *r, int64_t total, int64_t after, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(flow_show, id), CELL_JOB, "id", "Job" },
		{ AT(flow_show, name), CELL_TEXT, "name", "Name" },
		{ AT(flow_show, fn), CELL_FN, "fn", "Function" },
		{ AT(flow_show, state), CELL_STATE, "state", "State" },
		{ AT(flow_show, last_outcome), CELL_STATE, "last_outcome", "Last outcome" },
		{ AT(flow_show, waits_for), CELL_TEXT, "says", "Waits for" },
		{ AT(flow_show, label), CELL_TEXT, "label", "Label" },
		{ AT(flow_show, json), CELL_WHOLE },
	};
	static const struct part part = PART("jobs", "Jobs", "No more jobs.", columns);
	struct pg_result *jobs = NULL, *edges = NULL;
	int rc = flow_show_exec(r->pg, r->number, PAGES_GRAPH_MAX, after, &jobs, err);
	size_t n = pg_rows(jobs);

	if (rc == 0 && !r->json && total <= PAGES_GRAPH_MAX && after == 0)
		rc = flow_edges_exec(r->pg, r->number, PAGES_GRAPH_MAX, &edges, err);
	if (rc == 0) {
		pages_flow_graph(r, jobs, edges);
		part_result(r, &part, jobs);
		if (n == PAGES_GRAPH_MAX && total > PAGES_GRAPH_MAX)
			page_next(r, arena_printf(&r->arena, "/flow/%" PRId64 "?after=", r->number), "Next page",
				  flow_show_row(jobs, n - 1).id);
	}
	pg_result_free(edges);
	pg_result_free(jobs);
	return rc;
}

static int show_flow(struct web_request *r, const struct pg_result *head, int64_t after, struct deferred_error *err)
{
	struct flow_head_row flow = flow_head_row(head, 0);
	const char *place = arena_printf(&r->arena, "/flow/%" PRId64, r->number);
	struct buf *b = &r->reply.body;
	int rc;

	pages_outcome(r);
	if (r->json) {
		html_printf(b, ",\"flow\":%-s", flow.json);
	} else {
		if (*flow.label)
			html_printf(b, "<p class=\"label\"><bdi>%s</bdi></p>", flow.label);
		page_live(r, "head");
		part_facts(r, &fact_part, head);
		page_live_end(r);
		html_raw(b, "<div class=\"acts\">");
		page_button(r, arena_printf(&r->arena, "%s/retry", place), "Retry", NULL);
		page_button(r, arena_printf(&r->arena, "%s/cancel", place), "Cancel",
			    "Cancel all jobs of this flow that have not ended? Running attempts are terminated.");
		html_raw(b, "</div>");
	}
	page_live(r, "jobs");
	rc = show_flow_jobs(r, flow.jobs, after, err);
	page_live_end(r);
	return rc == 0 ? pages_actions(r, &(struct pages_target){ .flow = r->number }, err) : rc;
}

int pages_flow(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *head = NULL;
	int64_t after, id;
	int rc;

	if (!page_query_number(r, "after", &after))
		return 0;
	rc = flow_head_exec(r->pg, r->number, COUNTED, &head, err);
	id = rc == 0 && pg_rows(head) > 0 ? flow_head_row(head, 0).id : 0;
	if (rc == 0 && id == 0) {
		page_refuse(r, 404, "The flow does not exist. It was never deferred, is not committed, or was purged.");
	} else if (rc == 0 && id != r->number) { /* that of a job of the flow */
		page_redirect(r, arena_printf(&r->arena, "/flow/%" PRId64 "%s", id, r->json ? ".json" : ""));
	} else if (rc == 0) {
		page_begin(r, "Flow", arena_printf(&r->arena, "%" PRId64, id));
		rc = show_flow(r, head, after, err);
		page_end(r);
	}
	pg_result_free(head);
	return rc;
}

/* ---- actions ---------------------------------------------------------------------------------- */

/* The form of the next step has the place where this one ended, so the server stores nothing. */
static void show_next_step(struct web_request *r, int64_t done, int64_t next)
{
	struct buf *b = &r->reply.body;

	page_begin(r, "Cancel", "all that is left of a flow");
	html_printf(b,
		    "<div role=\"status\"><p class=\"done\">%" PRId64 " job%s cancelled so far.</p></div>"
		    "<div class=\"acts\"><form class=\"act\" method=\"post\" data-go action=\"/flow/%" PRId64
		    "/cancel\">",
		    done, done == 1 ? " was" : "s were", r->number);
	page_token(r);
	html_printf(b,
		    "<input type=\"hidden\" name=\"before\" value=\"%" PRId64 "\">"
		    "<input type=\"hidden\" name=\"done\" value=\"%" PRId64 "\"><button>Continue</button></form>"
		    "<a class=\"stop\" href=\"/flow/%" PRId64 "\">Stop</a></div>",
		    next, done, r->number);
	page_end(r);
}

static int act_flow(struct web_request *r, const char *verb, struct deferred_error *err)
{
	int64_t before = page_field_number(r, "before");
	struct buf *b = &r->reply.body;
	struct pg_result *res = NULL;
	int rc = web_act_flow_exec(r->pg, verb, r->number, pages_optional(&before), page_actor(r), page_address(r),
				   &res, err);

	if (rc == 0) {
		struct web_act_flow_row step = web_act_flow_row(res, 0);

		if (r->json) {
			page_begin(r, NULL, "");
			html_printf(b, ",\"refused\":%.s,\"jobs\":%" PRId64 ",\"before\":", step.refused, step.jobs);
			if (step.has_next)
				html_printf(b, "%" PRId64, step.next);
			else
				html_raw(b, "null");
			page_end(r);
		} else if (step.has_next) {
			show_next_step(r, page_field_number(r, "done") + step.jobs, step.next);
		} else {
			page_redirect_back(r, verb, step.refused);
		}
	}
	pg_result_free(res);
	return rc;
}

int pages_act_flow_retry(struct web_request *r, struct deferred_error *err)
{
	return act_flow(r, "retry", err);
}

int pages_act_flow_cancel(struct web_request *r, struct deferred_error *err)
{
	return act_flow(r, "cancel", err);
}

/* ---- around a job ----------------------------------------------------------------------------- */

/* Rows of admin_show_edges.sql: parents come first. Of each side there is one more than is shown. */
struct side {
	size_t first, end;
};

static bool is_of_side(const struct rows *rows, size_t i)
{
	const struct side *side = rows->context;

	return i >= side->first && i < side->end && i < side->first + NEIGHBOURS;
}

static void show_side(struct web_request *r, const struct part *part, const struct pg_result *res, size_t first,
		      size_t end)
{
	const struct side side = { first, end };

	if (r->json || end > first)
		part_write(r, part,
			   &(struct rows){ .res = res, .n = pg_rows(res), .use = is_of_side, .context = &side });
	if (!r->json && end - first > NEIGHBOURS)
		html_raw(&r->reply.body, "<p class=\"hint\">Only the first are shown.</p>");
}

static void show_neighbours(struct web_request *r, const struct pg_result *edges)
{
	/* The name is what the job that waits calls its parent. */
#define EDGE_COLUMNS(name_title) \
	{ \
		{ AT(admin_show_edges, id), CELL_JOB, "id", "Job" }, \
			{ AT(admin_show_edges, on), CELL_TEXT, "on", "Must end" }, \
			{ AT(admin_show_edges, name), CELL_TEXT, "name", name_title }, \
			{ AT(admin_show_edges, fn), CELL_FN, "fn", "Function" }, \
			{ AT(admin_show_edges, state), CELL_STATE, "state", "State" }, \
			{ AT(admin_show_edges, label), CELL_TEXT, "label", "Label" }, \
	}
	static const struct column columns[] = EDGE_COLUMNS("Known as"), child_columns[] = EDGE_COLUMNS("");
	static const struct part parents = PART("parents", "Waits for", "This job waits for no other job.", columns),
				 children = PART("children", "Awaited by", "No other job waits for this job.",
						 child_columns);
	size_t n = 0;

	while (n < pg_rows(edges) && admin_show_edges_row(edges, n).above)
		n++;
	show_side(r, &parents, edges, 0, n);
	show_side(r, &children, edges, n, pg_rows(edges));
}

int pages_neighbours(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *head = NULL, *edges = NULL;
	struct buf *b = &r->reply.body;
	int rc = flow_head_exec(r->pg, r->number, 1, &head, err);

	if (rc == 0)
		rc = admin_show_edges_exec(r->pg, r->number, &edges, err);
	if (rc == 0) {
		struct flow_head_row flow = { 0 };

		if (pg_rows(head) > 0)
			flow = flow_head_row(head, 0);
		if (r->json && flow.id)
			html_printf(b, ",\"flow\":%" PRId64, flow.id);
		else if (r->json)
			html_raw(b, ",\"flow\":null");
		else if (flow.id)
			html_printf(b,
				    "<p class=\"meta\">Part of flow <a href=\"/flow/%" PRId64 "\"><bdi>%" PRId64
				    "</bdi></a> <bdi>%s</bdi></p>",
				    flow.id, flow.id, flow.label);
		show_neighbours(r, edges);
	}
	pg_result_free(edges);
	pg_result_free(head);
	return rc;
}
