/* SPDX-License-Identifier: MIT */
#include "form.h"

#include "store/schedule.h"

#include <string.h>

#define COMING 5
#define GONE 50

int page_recurring(struct visit *v, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ 0, CELL_SCHEDULE, "name", "Schedule" }, { 1, CELL_CODE, "rule", "Rule" },
		{ 2, CELL_TEXT, "timezone", "Zone" },     { 7, CELL_IN, "next_s", "Next" },
		{ 8, CELL_AGO, "last_s", "Last" },        { 9, CELL_TEXT, "last_what", "Result" },
		{ 10, CELL_JOB, "last_job", "Job" },      { 6, CELL_BOOL, "paused", "Paused" },
		{ 3, CELL_FN, "fn", "Function" },         { 4, CELL_QUEUE, "queue", "Queue" },
		{ 5, CELL_TEXT, "owner", "Owner" },       { 11, CELL_HIDDEN, "last_error", NULL },
	};
	static const struct part part = PART("schedules", NULL, "No schedules yet.", columns);
	struct pg_result *res = NULL;
	int rc = web_schedules_exec(v->pg, NULL, &res, err);

	if (rc == 0) {
		page_begin(v, NULL, "Recurring");
		if (!v->json)
			html_raw(&v->reply.body, "<p class=\"hint\">A schedule defers a job at each of its ticks.</p>");
		if (!v->json && visit_may_act(v))
			html_raw(&v->reply.body, "<p><a class=\"button\" href=\"/schedule\">Add a schedule</a></p>");
		page_live(v, "schedules");
		page_part(v, &part, res, NULL);
		page_live_end(v);
		page_end(v);
	}
	pg_result_free(res);
	return rc;
}

static void refuse_unknown(struct visit *v, const char *name)
{
	visit_refuse(
		v, 404,
		arena_printf(&v->arena, "Schedule '%s' does not exist. The page Recurring lists all schedules.", name));
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
		page_button(v, arena_printf(&v->arena, "%s/pause", base), "Pause",
			    "Pause this schedule? Ticks until you resume it are skipped.");
	page_button(v, arena_printf(&v->arena, "%s/run", base), "Run now", NULL);
	if (!v->json && visit_may_act(v)) {
		html_raw(&v->reply.body, "<a class=\"button\" href=\"/schedule?name=");
		html_url(&v->reply.body, v->name);
		html_raw(&v->reply.body, "\">Change</a>");
	}
	if (!v->json)
		html_raw(&v->reply.body, "</div>");
}

int page_schedule(struct visit *v, struct deferred_error *err)
{
	static const struct column one_columns[] = {
		{ 0, CELL_SCHEDULE, "name" },
		{ 1, CELL_CODE, "rule", "Rule" },
		{ 2, CELL_TEXT, "timezone", "Time zone" },
		{ 3, CELL_FN, "fn", "Function" },
		{ 4, CELL_QUEUE, "queue", "Queue" },
		{ 5, CELL_TEXT, "owner", "Owner" },
		{ 6, CELL_BOOL, "paused" },
		{ 7, CELL_IN, "next_s", "Next tick" },
		{ 8, CELL_AGO, "last_s", "Last tick" },
		{ 9, CELL_TEXT, "last_what", "Result" },
		{ 10, CELL_JOB, "last_job", "Last job" },
		{ 11, CELL_TEXT, "last_error" },
		{ 12, CELL_TEXT, "missed", "Missed ticks" },
		{ 13, CELL_TEXT, "overlap", "Overlap" },
		{ 14, CELL_INT, "jitter_ms", "Jitter (ms)" },
		{ 15, CELL_TIME, "created_at", "Created" },
	};
	static const struct column coming_columns[] = { { 0, CELL_TEXT, "local", "Local time" },
							{ 1, CELL_TEXT, "utc", "UTC" } };
	static const struct column gone_columns[] = { { 0, CELL_TEXT, "tick", "Tick" },
						      { 1, CELL_TEXT, "what", "Result" },
						      { 2, CELL_JOB, "job", "Job" } };
	static const struct part one_part = PART("schedule", NULL, NULL, one_columns);
	static const struct part coming_part = PART("coming", "Next ticks", "No ticks are left.", coming_columns);
	static const struct part gone_part = PART("ticks", "Past ticks", "No ticks yet.", gone_columns);
	struct pg_result *res = NULL, *coming = NULL, *gone = NULL;
	bool paused;
	int rc = web_schedules_exec(v->pg, v->name, &res, err);

	if (rc == 0 && pg_rows(res) == 0) {
		refuse_unknown(v, v->name);
		goto done;
	}
	if (rc == 0)
		rc = schedule_next_exec(v->pg, v->name, COMING, NULL, &coming, err);
	if (rc == 0)
		rc = schedule_ticks_exec(v->pg, v->name, GONE, &gone, err);
	if (rc < 0)
		goto done;
	paused = pg_bool(res, 0, 6);
	page_begin(v, "Schedule", v->name);
	action_said(v);
	if (!v->json && paused)
		html_raw(&v->reply.body, "<p class=\"why\">This schedule is paused. It defers no jobs.</p>");
	page_live(v, "schedule");
	page_facts(v, &one_part, res);
	if (!v->json && !pg_null(res, 0, 11) && v->me.reader) {
		html_raw(&v->reply.body, "<pre class=\"error\" tabindex=\"0\" dir=\"auto\">");
		html_text(&v->reply.body, pg_text(res, 0, 11, NULL));
		html_raw(&v->reply.body, "</pre>");
	}
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

/* ---- the form --------------------------------------------------------------------------------- */

static const char *const missed[] = { "one", "all", "skip", NULL };
static const char *const overlap[] = { "skip", "queue", "allow", "replace", NULL };

/* As with `deferred schedule set`. */
enum { VERSION, NAME, RULE, FN, TIMEZONE, MORE = 10, FIELDS = 20 };

static const struct form_field fields[FIELDS] = {
	[VERSION] = { "version", NULL, .most = 40 },
	[NAME] = { "name", "Name", .most = 88, .required = true, .is_name = true },
	[RULE] = { "rule", "Rule", "0 3 * * *, @daily, every 5min", .most = 1000, .required = true },
	[FN] = { "fn", "Function", NULL, "functions", NULL, 127, .required = true },
	[TIMEZONE] = { "timezone", "Time zone", .most = 64 },
	{ "queue", "Queue", "default", "queues", NULL, 88 },
	{ "missed", "Missed ticks", .words = missed },
	{ "overlap", "Overlap", .words = overlap },
	{ "label", "Label", .most = 1000 },
	{ "timeout", "Timeout", .most = 40, .is_span = true },
	[MORE] = { "late", "Late (missed: skip)", "5min", .most = 40, .is_span = true },
	{ "jitter", "Jitter", "0s", .most = 40, .is_span = true },
	{ "priority", "Priority", "0", .most = 10 },
	{ "expires", "Expires after", "never, or 2d", .most = 40, .is_span = true },
	{ "max_attempts", "Max attempts", .most = 10 },
	{ "backoff_floor", "Backoff floor", .most = 40, .is_span = true },
	{ "backoff_ceiling", "Backoff ceiling", .most = 40, .is_span = true },
	{ "backoff_exponent", "Backoff exponent", .most = 14 },
	{ "concurrency_key", "Concurrency key", .most = 1000 },
	{ "concurrency", "Concurrency", "1", .most = 10 },
};

/* In the arena: the time zone of the settings is the one of a schedule that names none. */
static struct form *make_form(struct visit *v)
{
	struct form_field *own = arena_alloc(&v->arena, sizeof(fields));
	struct form *form = arena_alloc(&v->arena, sizeof(*form));

	memcpy(own, fields, sizeof(fields));
	own[TIMEZONE].otherwise = v->web->timezone;
	*form = (struct form){
		.action = "/schedule/set",
		.button = "Save",
		.key = "schedule",
		.fields = own,
		.len = FIELDS,
		.shown = MORE,
		.first = TIMEZONE,
		.hint = "A rule has the five fields of a crontab line, or is a word such as <code>@daily</code>, "
			"or <code>every 5min</code>. Empty fields use the defaults of <code>deferred schedule "
			"set</code>.",
	};
	return form;
}

static int show_form(struct visit *v, const struct form *form, const char *refused, struct deferred_error *err)
{
	bool changes = form_typed(v, form, "version") != NULL;

	return form_page(v, form, changes ? "Change schedule" : NULL,
			 changes ? form_typed(v, form, "name") : "Add a schedule", refused, err);
}

int page_schedule_form(struct visit *v, struct deferred_error *err)
{
	const char *name = pages_text(v, "name");
	struct form *form = make_form(v);
	struct pg_result *was = NULL;
	int rc = 0;

	if (!visit_may_act(v)) {
		visit_refuse_act(v);
		return 0;
	}
	if (name)
		rc = web_schedule_form_exec(v->pg, name, &was, err);
	form->was = was;
	if (rc == 0 && name && pg_rows(was) == 0)
		refuse_unknown(v, name);
	else if (rc == 0)
		rc = show_form(v, form, form_typed(v, form, "refused"), err);
	pg_result_free(was);
	return rc;
}

int action_schedule(struct visit *v, struct deferred_error *err)
{
	const struct form *form = make_form(v);
	const char *name = form_typed(v, form, "name"), *wrong = form_wrong(v, form);
	const struct store_web_schedule s = {
		.name = name,
		.version = form_typed(v, form, "version"),
		.rule = form_typed(v, form, "rule"),
		.fn = form_typed(v, form, "fn"),
		.params = form_params(v, form),
		.opts = form_options(v, form),
	};
	struct pg_result *res = NULL;
	struct buf made = { 0 };
	int rc;

	if (wrong)
		return show_form(v, form, wrong, err);
	rc = store_web_act_schedule_set(v->pg, &s, visit_who(v), visit_address(v), &res, err);
	if (rc == 0 && !pg_null(res, 0, 0)) {
		rc = show_form(v, form, pg_text(res, 0, 0, NULL), err);
	} else if (rc == 0) {
		v->name = name;
		html_json(&made, name);
		form_done(v, form, "set", arena_copy(&v->arena, made.p, made.len));
		buf_clear(&made);
	}
	pg_result_free(res);
	return rc;
}
