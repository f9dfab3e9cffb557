/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "page/chart.h"
#include "rows/admin.h"
#include "rows/queue.h"

#include <inttypes.h>
#include <string.h>

/* The reasons why jobs wait may have read them already. */
int pages_queues_read(struct web_request *r, struct pg_result **res, struct deferred_error *err)
{
	*res = r->queues;
	r->queues = NULL;
	return *res ? 0 : admin_status_queues_exec(r->pg, STORE_WEB_COUNT, res, err);
}

void pages_queues_table(struct web_request *r, const struct pg_result *res)
{
	static const struct column columns[] = {
		{ AT(admin_status_queues, queue), CELL_QUEUE, "queue", "Queue" },
		/* Counting stops at a sum of ready and running. */
		{ AT(admin_status_queues, ready), CELL_INT, "ready", "Ready", { AT(admin_status_queues, ready_more) } },
		{ AT(admin_status_queues, claimed),
		  CELL_INT,
		  "claimed",
		  "Running",
		  { AT(admin_status_queues, ready_more) } },
		{ AT(admin_status_queues, delayed),
		  CELL_INT,
		  "delayed",
		  "Delayed",
		  { AT(admin_status_queues, delayed_more) } },
		{ AT(admin_status_queues, oldest_ready_s), CELL_SPAN, "oldest_ready_s", "Oldest ready" },
		{ AT(admin_status_queues, paused),
		  CELL_PAUSED,
		  "paused",
		  "State",
		  { AT(admin_status_queues, oldest_ready_s), AT(admin_status_queues, limited) } },
		{ AT(admin_status_queues, json), CELL_WHOLE },
	};
	static const struct part part = PART("queues", NULL, "No queues yet. The first job creates one.", columns);

	part_result(r, &part, res);
}

int pages_queues(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(admin_pattern_ls, pattern), CELL_WORD, "pattern", "Pattern" },
		{ AT(admin_pattern_ls, settings), CELL_PROSE, "settings", "Settings" },
		{ AT(admin_pattern_ls, queues), CELL_INT, "queues", "Queues" },
		{ AT(admin_pattern_ls, json), CELL_WHOLE },
	};
	static const struct part part = PART("patterns", "Patterns",
					     "No patterns. A pattern gives settings to queues by their names: "
					     "deferred queue set 'tenant.*' --rate 10/s",
					     columns);
	struct pg_result *res = NULL, *patterns = NULL;
	int rc = pages_queues_read(r, &res, err);

	if (rc == 0)
		rc = admin_pattern_ls_exec(r->pg, &patterns, err);
	if (rc == 0) {
		page_begin(r, NULL, "Queues");
		page_live(r, "queues");
		pages_queues_table(r, res);
		page_live_end(r);
		part_result(r, &part, patterns);
		page_end(r);
	}
	pg_result_free(patterns);
	pg_result_free(res);
	return rc;
}

static void show_tile(struct web_request *r, const char *state, const char *name, int64_t n, bool more)
{
	html_printf(&r->reply.body,
		    "<li><a href=\"/jobs?state=%s&amp;queue=%s\"><b>%" PRId64 "%s</b> <span>%s</span></a></li>", state,
		    page_url(r, r->name), n, more && n > 0 ? "+" : "", name);
}

void pages_queue_tiles(struct web_request *r, const struct pg_result *res)
{
	struct buf *b = &r->reply.body;

	for (size_t i = 0; i < pg_rows(res); i++) {
		struct admin_status_queues_row q = admin_status_queues_row(res, i);

		if (strcmp(q.queue, r->name) != 0)
			continue;
		if (r->json) {
			html_printf(b, ",\"queue\":%-s", q.json);
			return;
		}
		html_raw(b, "<ul class=\"tiles\">");
		show_tile(r, "ready", "Ready", q.ready, q.ready_more);
		show_tile(r, "claimed", "Running", q.claimed, q.ready_more);
		show_tile(r, "delayed", "Delayed", q.delayed, q.delayed_more);
		html_printf(b, "<li><b>%s", q.has_oldest_ready_s ? "" : "\xe2\x80\x93");
		if (q.has_oldest_ready_s)
			page_span_s(b, q.oldest_ready_s);
		html_raw(b, "</b> <span>Oldest ready</span></li></ul>");
	}
}

void pages_refuse_queue(struct web_request *r)
{
	page_refuse(r, 404,
		    arena_printf(&r->arena, "Queue '%s' does not exist. The page Queues lists all queues.", r->name));
}

static void show_paused(struct web_request *r, const struct admin_queue_ls_row *q)
{
	struct buf *b = &r->reply.body;

	html_raw(b, "<p class=\"why\">This queue is paused. Workers start none of its jobs.");
	if (q->has_paused_s) {
		html_printf(b, " <bdi>%s</bdi> paused it ", q->paused_by);
		page_span_s(b, q->paused_s);
		html_raw(b, " ago.");
	}
	html_raw(b, "</p>");
}

static int queue_content(struct web_request *r, const struct pg_result *settings, const struct pg_result *depth,
			 struct deferred_error *err)
{
	struct admin_queue_ls_row q = admin_queue_ls_row(settings, 0);
	const char *place = arena_printf(&r->arena, "/queues/%s", page_url(r, r->name));
	int rc;

	pages_outcome(r);
	if (q.paused && !r->json)
		show_paused(r, &q);
	page_live(r, "depth");
	pages_why(r);
	pages_queue_tiles(r, depth);
	rc = pages_limit_used(r, r->name, NULL, q.has_max_running, q.max_running, err);
	page_live_end(r);
	if (rc < 0)
		return rc;
	if (q.paused)
		page_button(r, arena_printf(&r->arena, "%s/resume", place), "Resume", NULL);
	else
		page_button(r, arena_printf(&r->arena, "%s/pause", place), "Pause",
			    "Pause this queue? Running jobs finish. Workers start no others.");
	if (!r->json && page_may_act(r))
		html_printf(&r->reply.body, "<p class=\"pager\"><a href=\"%s/clear\">Clear this queue</a></p>", place);
	rc = chart_figures(r, r->name, NULL, err);
	pages_queue_settings(r, settings);
	return rc == 0 ? pages_actions(r, &(struct pages_target){ .queue = r->name }, err) : rc;
}

int pages_queue(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *settings = NULL, *depth = NULL;
	int rc;

	if (!chart_is_asked(r))
		return 0;
	rc = admin_queue_ls_exec(r->pg, r->name, &settings, err);
	if (rc == 0 && pg_rows(settings) == 0)
		pages_refuse_queue(r);
	else if (rc == 0 && (rc = pages_queues_read(r, &depth, err)) == 0) {
		page_begin(r, "Queue", r->name);
		rc = queue_content(r, settings, depth, err);
		page_end(r);
	}
	pg_result_free(depth);
	pg_result_free(settings);
	return rc;
}
