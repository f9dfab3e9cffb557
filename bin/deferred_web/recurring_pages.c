/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "store/schedule.h"

#include <string.h>

#define COMING 5
#define GONE 50

int page_recurring(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_SCHEDULE, "name", "Schedule" }, { 1, CELL_CODE, "rule", "Rule" }, { 2, CELL_TEXT, "timezone", "Zone" }, { 7, CELL_IN, "next_s", "Next" },
		{ 8, CELL_AGO, "last_s", "Last" }, { 9, CELL_TEXT, "last_what", "Result" }, { 10, CELL_JOB, "last_job", "Job" }, { 6, CELL_BOOL, "paused", "Paused" },
		{ 3, CELL_FN, "fn", "Function" }, { 4, CELL_QUEUE, "queue", "Queue" }, { 5, CELL_TEXT, "owner", "Owner" }, { 11, CELL_HIDDEN, "last_error", NULL },
	};
	static const struct part part = PART("schedules", NULL, "No schedules yet.", columns);
	struct pg_result *res = NULL;
	int rc = store_web_schedules(v->pg, NULL, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, "Recurring");
		if (!v->json)
			html_raw(&v->reply.body, "<p class=\"hint\">A schedule defers a job at each of its ticks.</p>");
		page_live(v, "schedules");
		page_part(v, &part, res, NULL);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static void facts(struct visit *v, const struct pg_result *res)
{
	static const struct {
		int at;
		enum cell cell;
		const char *name;
	} list[] = {
		{ 1, CELL_CODE, "Rule" }, { 2, CELL_TEXT, "Time zone" }, { 3, CELL_FN, "Function" }, { 4, CELL_QUEUE, "Queue" }, { 5, CELL_TEXT, "Owner" }, { 7, CELL_IN, "Next tick" },
		{ 8, CELL_AGO, "Last tick" }, { 9, CELL_TEXT, "Result" }, { 10, CELL_JOB, "Last job" }, { 12, CELL_TEXT, "Missed ticks" },
		{ 13, CELL_TEXT, "Overlap" }, { 14, CELL_INT, "Jitter (ms)" }, { 15, CELL_TEXT, "Created" },
	};
	struct buf *b = &v->reply.body;

	if (v->json)
		return;
	html_raw(b, "<dl class=\"facts\">");
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		if (pg_null(res, 0, list[i].at))
			continue;
		html_raw(b, "<div><dt>");
		html_text(b, list[i].name);
		html_raw(b, "</dt><dd>");
		page_cell(v, list[i].cell, res, 0, list[i].at);
		html_raw(b, "</dd></div>");
	}
	html_raw(b, "</dl>");
	if (!pg_null(res, 0, 11) && v->me.reader) {
		html_raw(b, "<pre class=\"error\" tabindex=\"0\" dir=\"auto\">");
		html_text(b, pg_text(res, 0, 11, NULL));
		html_raw(b, "</pre>");
	}
}

static void buttons(struct visit *v, bool paused)
{
	struct buf place = { 0 };
	const char *base;

	html_raw(&place, "/recurring/");
	html_url(&place, v->name);
	base = arena_copy(&v->arena, place.p ? place.p : "", place.len);
	buf_clear(&place);
	if (!v->json)
		html_raw(&v->reply.body, "<div class=\"acts\">");
	if (paused)
		page_button(v, arena_printf(&v->arena, "%s/resume", base), "Resume", NULL);
	else
		page_button(v, arena_printf(&v->arena, "%s/pause", base), "Pause", "Pause this schedule? Ticks until you resume it are skipped.");
	page_button(v, arena_printf(&v->arena, "%s/run", base), "Run now", NULL);
	if (!v->json)
		html_raw(&v->reply.body, "</div>");
}

int page_schedule(struct visit *v, struct deferred_error *err)
{
	static const struct column one_columns[] = {
		{ 0, CELL_SCHEDULE, "name", NULL }, { 1, CELL_CODE, "rule", NULL }, { 2, CELL_TEXT, "timezone", NULL }, { 3, CELL_FN, "fn", NULL }, { 4, CELL_QUEUE, "queue", NULL },
		{ 5, CELL_TEXT, "owner", NULL }, { 6, CELL_BOOL, "paused", NULL }, { 7, CELL_IN, "next_s", NULL }, { 8, CELL_AGO, "last_s", NULL },
		{ 9, CELL_TEXT, "last_what", NULL }, { 10, CELL_JOB, "last_job", NULL }, { 11, CELL_TEXT, "last_error", NULL }, { 12, CELL_TEXT, "missed", NULL },
		{ 13, CELL_TEXT, "overlap", NULL }, { 14, CELL_INT, "jitter_ms", NULL },
	};
	static const struct column coming_columns[] = { { 0, CELL_TEXT, "local", "Local time" }, { 1, CELL_TEXT, "utc", "UTC" } };
	static const struct column gone_columns[] = { { 0, CELL_TEXT, "tick", "Tick" }, { 1, CELL_TEXT, "what", "Result" }, { 2, CELL_JOB, "job", "Job" } };
	static const struct part one_part = PART("schedule", NULL, NULL, one_columns);
	static const struct part coming_part = PART("coming", "Next ticks", "No ticks are left.", coming_columns);
	static const struct part gone_part = PART("ticks", "Past ticks", "No ticks yet.", gone_columns);
	struct pg_result *res = NULL, *coming = NULL, *gone = NULL;
	bool paused;
	int rc = store_web_schedules(v->pg, v->name, &res, err);

	if (rc == 0 && pg_rows(res) == 0) {
		visit_refuse(v, 404, "There is no such schedule.");
		goto done;
	}
	if (rc == 0)
		rc = store_schedule_next(v->pg, v->name, COMING, NULL, &coming, err);
	if (rc == 0)
		rc = store_schedule_ticks(v->pg, v->name, GONE, &gone, err);
	if (rc < 0)
		goto done;
	paused = pg_bool(res, 0, 6);
	page_begin(v, "Schedule", v->name);
	action_said(v);
	if (v->json)
		page_part(v, &one_part, res, NULL);
	else if (paused)
		html_raw(&v->reply.body, "<p class=\"why\">This schedule is paused. It defers no jobs.</p>");
	page_live(v, "schedule");
	facts(v, res);
	page_live_end(v);
	buttons(v, paused);
	if (!paused)
		page_part(v, &coming_part, coming, NULL);
	page_part(v, &gone_part, gone, NULL);
	rc = actions_of(v, &(struct store_web_target){ .schedule = v->name }, err);
	page_end(v);
done:
	pg_result_free(gone);
	pg_result_free(coming);
	pg_result_free(res);
	return rc;
}
