/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include "page/form.h"
#include "rows/schedule.h"
#include "rows/web.h"

#include <string.h>

#define NEXT_TICKS 5
#define PAST_TICKS 50
#define SCHEDULE_HINT "A schedule defers a job at each of its ticks."

int pages_recurring(struct web_request *r, struct deferred_error *err)
{
	static const struct column columns[] = {
		{ AT(web_schedules, name), CELL_SCHEDULE, "name", "Schedule" },
		{ AT(web_schedules, rule), CELL_CODE, "rule", "Rule" },
		{ AT(web_schedules, zone), CELL_TEXT, "timezone", "Zone" },
		{ AT(web_schedules, next_s), CELL_IN, "next_s", "Next" },
		{ AT(web_schedules, last_s), CELL_AGO, "last_s", "Last" },
		{ AT(web_schedules, last_what), CELL_TEXT, "last_what", "Result" },
		{ AT(web_schedules, last_job), CELL_JOB, "last_job", "Job" },
		{ AT(web_schedules, paused), CELL_BOOL, "paused", "Paused" },
		{ AT(web_schedules, fn), CELL_FN, "fn", "Function" },
		{ AT(web_schedules, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(web_schedules, owner), CELL_TEXT, "owner", "Owner" },
		{ AT(web_schedules, last_error), CELL_TEXT, "last_error", "" },
	};
	static const struct part part = PART("schedules", NULL, "No schedules yet.", columns);
	struct pg_result *res = NULL;
	int rc = web_schedules_exec(r->pg, NULL, &res, err);

	return pages_list(r, &part,
			  page_may_act(r) ? "<p class=\"hint\">" SCHEDULE_HINT
					    "</p><p><a class=\"button\" href=\"/schedule\">Add a schedule</a></p>"
					  : "<p class=\"hint\">" SCHEDULE_HINT "</p>",
			  res, rc);
}

static void refuse_unknown(struct web_request *r, const char *name)
{
	page_refuse(
		r, 404,
		arena_printf(&r->arena, "Schedule '%s' does not exist. The page Recurring lists all schedules.", name));
}

static void show_schedule_buttons(struct web_request *r, bool paused)
{
	const char *name = page_url(r, r->name), *place = arena_printf(&r->arena, "/recurring/%s", name);

	if (r->json)
		return;
	html_raw(&r->reply.body, "<div class=\"acts\">");
	if (paused)
		page_button(r, arena_printf(&r->arena, "%s/resume", place), "Resume", NULL);
	else
		page_button(r, arena_printf(&r->arena, "%s/pause", place), "Pause",
			    "Pause this schedule? Ticks until you resume it are skipped.");
	page_button(r, arena_printf(&r->arena, "%s/run", place), "Run now", NULL);
	if (page_may_act(r))
		html_printf(&r->reply.body, "<a class=\"button\" href=\"/schedule?name=%s\">Change</a>", name);
	html_raw(&r->reply.body, "</div>");
}

static int show_schedule(struct web_request *r, const struct pg_result *res, const struct pg_result *next,
			 const struct pg_result *past, struct deferred_error *err)
{
	static const struct column fact_columns[] = {
		{ AT(web_schedules, name), CELL_SCHEDULE, "name", "" },
		{ AT(web_schedules, rule), CELL_CODE, "rule", "Rule" },
		{ AT(web_schedules, zone), CELL_TEXT, "timezone", "Time zone" },
		{ AT(web_schedules, fn), CELL_FN, "fn", "Function" },
		{ AT(web_schedules, queue), CELL_QUEUE, "queue", "Queue" },
		{ AT(web_schedules, owner), CELL_TEXT, "owner", "Owner" },
		{ AT(web_schedules, paused), CELL_BOOL, "paused", "" },
		{ AT(web_schedules, next_s), CELL_IN, "next_s", "Next tick" },
		{ AT(web_schedules, last_s), CELL_AGO, "last_s", "Last tick" },
		{ AT(web_schedules, last_what), CELL_TEXT, "last_what", "Result" },
		{ AT(web_schedules, last_job), CELL_JOB, "last_job", "Last job" },
		{ AT(web_schedules, last_error), CELL_TEXT, "last_error", "" },
		{ AT(web_schedules, missed), CELL_TEXT, "missed", "Missed ticks" },
		{ AT(web_schedules, overlap), CELL_TEXT, "overlap", "Overlap" },
		{ AT(web_schedules, jitter_ms), CELL_INT, "jitter_ms", "Jitter (ms)" },
		{ AT(web_schedules, created), CELL_TIME, "created_at", "Created" },
	};
	static const struct column next_columns[] = {
		{ AT(admin_schedule_next, local), CELL_TEXT, "local", "Local time" },
		{ AT(admin_schedule_next, utc), CELL_TEXT, "utc", "UTC" },
	};
	static const struct column past_columns[] = { { AT(schedule_ticks, tick), CELL_TEXT, "tick", "Tick" },
						      { AT(schedule_ticks, what), CELL_TEXT, "what", "Result" },
						      { AT(schedule_ticks, job_id), CELL_JOB, "job", "Job" } };
	static const struct part fact_part = PART("schedule", NULL, NULL, fact_columns),
				 next_part = PART("coming", "Next ticks", "No ticks are left.", next_columns),
				 past_part = PART("ticks", "Past ticks", "No ticks yet.", past_columns);
	struct web_schedules_row schedule = web_schedules_row(res, 0);
	struct buf *b = &r->reply.body;

	pages_outcome(r);
	if (!r->json && schedule.paused)
		html_raw(b, "<p class=\"why\">This schedule is paused. It defers no jobs.</p>");
	page_live(r, "schedule");
	part_facts(r, &fact_part, res);
	if (!r->json && *schedule.last_error && r->me.reader)
		html_printf(b, "<pre class=\"error\" tabindex=\"0\" dir=\"auto\">%s</pre>", schedule.last_error);
	page_live_end(r);
	show_schedule_buttons(r, schedule.paused);
	if (!schedule.paused)
		part_result(r, &next_part, next);
	part_result(r, &past_part, past);
	return pages_actions(r, &(struct pages_target){ .schedule = r->name }, err);
}

int pages_schedule(struct web_request *r, struct deferred_error *err)
{
	struct pg_result *res = NULL, *next = NULL, *past = NULL;
	int rc = web_schedules_exec(r->pg, r->name, &res, err);
	bool is_there = rc == 0 && pg_rows(res) > 0;

	if (is_there)
		rc = admin_schedule_next_exec(r->pg, r->name, NEXT_TICKS, NULL, &next, err);
	if (is_there && rc == 0)
		rc = schedule_ticks_exec(r->pg, r->name, PAST_TICKS, &past, err);
	if (rc == 0 && !is_there) {
		refuse_unknown(r, r->name);
	} else if (rc == 0) {
		page_begin(r, "Schedule", r->name);
		rc = show_schedule(r, res, next, past, err);
		page_end(r);
	}
	pg_result_free(past);
	pg_result_free(next);
	pg_result_free(res);
	return rc;
}

/* ---- the form --------------------------------------------------------------------------------- */

static const char *const missed_words[] = { "one", "all", "skip", NULL };
static const char *const overlap_words[] = { "skip", "queue", "allow", "replace", NULL };

/* As with `deferred schedule set`. */
enum { VERSION, NAME, RULE, FN, TIMEZONE, MORE = 10, FIELDS = 20 };

static const struct form_field schedule_fields[FIELDS] = {
	[VERSION] = { "version", NULL, .most = 40 },
	[NAME] = { "name", "Name", .most = 88, .required = true, .is_name = true },
	[RULE] = { "rule", "Rule", "0 3 * * *, @daily, every 5min", .most = 1000, .required = true },
	[FN] = { "fn", "Function", NULL, "functions", NULL, 127, .required = true },
	[TIMEZONE] = { "timezone", "Time zone", .most = 64 },
	{ "queue", "Queue", "default", "queues", NULL, 88 },
	{ "missed", "Missed ticks", .words = missed_words },
	{ "overlap", "Overlap", .words = overlap_words },
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

/* In the arena, because the time zone of the settings is the one of a schedule that names none. */
static struct form *make_form(struct web_request *r)
{
	struct form_field *own = arena_alloc(&r->arena, sizeof(schedule_fields));
	struct form *form = arena_alloc(&r->arena, sizeof(*form));

	memcpy(own, schedule_fields, sizeof(schedule_fields));
	own[TIMEZONE].otherwise = r->web->timezone;
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

static int show_schedule_form(struct web_request *r, const struct form *form, const char *refused,
			      struct deferred_error *err)
{
	bool changes = form_typed(r, form, "version") != NULL;

	return form_page(r, form, changes ? "Change schedule" : NULL,
			 changes ? form_typed(r, form, "name") : "Add a schedule", refused, err);
}

int pages_schedule_form(struct web_request *r, struct deferred_error *err)
{
	const char *name = page_query(r, "name");
	struct form *form = make_form(r);
	struct pg_result *was = NULL;
	int rc = 0;

	if (!page_may_act(r)) {
		page_refuse_act(r);
		return 0;
	}
	if (name)
		rc = web_schedule_form_exec(r->pg, name, &was, err);
	form->was = was;
	if (rc == 0 && name && pg_rows(was) == 0)
		refuse_unknown(r, name);
	else if (rc == 0)
		rc = show_schedule_form(r, form, form_typed(r, form, "refused"), err);
	pg_result_free(was);
	return rc;
}

int pages_act_schedule(struct web_request *r, struct deferred_error *err)
{
	const struct form *form = make_form(r);
	const char *name = form_typed(r, form, "name"), *wrong = form_wrong(r, form), *refused;
	struct pg_result *res = NULL;
	struct buf made = { 0 };
	int rc;

	if (wrong)
		return show_schedule_form(r, form, wrong, err);
	rc = web_act_schedule_set_exec(r->pg, name, form_typed(r, form, "version"), form_typed(r, form, "rule"),
				       form_typed(r, form, "fn"), form_params(r, form), form_options(r, form),
				       page_actor(r), page_address(r), &res, err);
	if (rc == 0 && (refused = web_act_schedule_set_row(res, 0).refused)) {
		const char *zone = form_typed(r, form, "timezone");

		if (strncmp(refused, "time zone ", 10) == 0 && (!zone || !*zone))
			refused = arena_printf(&r->arena, "setting 'timezone': %s", refused);
		rc = show_schedule_form(r, form, refused, err);
	} else if (rc == 0) {
		r->name = name;
		html_json(&made, name);
		form_accepted(r, form, "set", page_take(r, &made));
	}
	pg_result_free(res);
	return rc;
}
