/* SPDX-License-Identifier: MIT */
/* What limits a queue or a function: shown, and changed by a form. What the form says the database checks, as it does
 * for everybody. */
#include "pages.h"

#include "store/figures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct field {
	int at; /* of the result */
	const char *name, *title;
	bool word; /* else a number */
};

static const struct field queue_fields[] = {
	{ 3, "max_running", "Max running" },
	{ 4, "rate", "Rate limit (per second)" },
	{ 5, "burst", "Burst" },
	{ 6, "max_length", "Max length" },
	{ 10, "max_attempts", "Max attempts" },
	{ 11, "weight", "Weight" },
	{ 20, "on_dead", "Function for dead jobs", true },
};
static const struct field function_fields[] = {
	{ 2, "max_running", "Max running" },
	{ 3, "rate", "Rate limit (per second)" },
	{ 4, "burst", "Burst" },
	{ 7, "on_dead", "Function for dead jobs", true },
};

/* With each value goes what it was, so that of two who have the page open neither sets back what the other has set. */
static void form(struct visit *v, const char *place, const struct field *fields, size_t n, const struct pg_result *res)
{
	struct buf *b = &v->reply.body;

	if (!visit_may_act(v))
		return;
	html_raw(b, "<form class=\"search settings\" method=\"post\" action=\"");
	html_text(b, place);
	html_url(b, v->name);
	html_raw(b, "/set\">");
	page_token(v);
	for (size_t i = 0; i < n; i++) {
		const char *value =
			pg_rows(res) > 0 && !pg_null(res, 0, fields[i].at) ? pg_text(res, 0, fields[i].at, NULL) : "";

		html_raw(b, "<label>");
		html_text(b, fields[i].title);
		buf_text(b, fields[i].word ? " <input maxlength=\"127\" spellcheck=\"false\""
					   : " <input inputmode=\"decimal\" maxlength=\"40\"");
		html_raw(b, " autocomplete=\"off\" placeholder=\"none\" name=\"");
		html_text(b, fields[i].name);
		html_raw(b, "\" value=\"");
		html_text(b, value);
		html_raw(b, "\"></label><input type=\"hidden\" name=\"was_");
		html_text(b, fields[i].name);
		html_raw(b, "\" value=\"");
		html_text(b, value);
		html_raw(b, "\">");
	}
	html_raw(b, "<button>Save</button></form>");
}

int limit_used(struct visit *v, const char *queue, const char *fn, const struct pg_result *settings,
	       struct deferred_error *err)
{
	int at = queue ? queue_fields[0].at : function_fields[0].at, rc;
	struct buf *b = &v->reply.body;
	struct pg_result *res = NULL;
	int64_t used, most;

	if (pg_rows(settings) == 0 || pg_null(settings, 0, at))
		return 0;
	rc = figures_limits_exec(v->pg, queue, fn, &res, err);
	if (rc == 0) {
		/* Without a row none was taken by it yet. */
		used = pg_rows(res) > 0 ? pg_int(res, 0, 3) : 0;
		most = pg_int(settings, 0, at);
		if (v->json)
			buf_printf(b,
				   ",\"limit_used\":{\"running\":%" PRId64 ",\"max_running\":%" PRId64 ",\"ratio\":%g}",
				   used, most, (double)used / (double)most);
		else
			buf_printf(b,
				   "<p>Limit <progress max=\"%" PRId64 "\" value=\"%" PRId64
				   "\" aria-label=\"Share of the limit in use\"></progress> %" PRId64 " of %" PRId64
				   " running, %.0f %%%s</p>",
				   most, used < most ? used : most, used, most, 100.0 * (double)used / (double)most,
				   used < most ? "." : ": no others start until one ends.");
	}
	pg_result_free(res);
	return rc;
}

const char *settings_said(struct visit *v, bool of_queue)
{
	const struct field *fields = of_queue ? queue_fields : function_fields;
	size_t n = of_queue ? sizeof(queue_fields) / sizeof(queue_fields[0])
			    : sizeof(function_fields) / sizeof(function_fields[0]);
	const struct request *r = &v->request;
	struct buf b = { 0 };
	const char *said;

	for (size_t i = 0; i < n; i++) {
		const char *value = guard_field(&v->arena, r->body, r->body_len, fields[i].name);
		const char *was =
			guard_field(&v->arena, r->body, r->body_len, arena_printf(&v->arena, "was_%s", fields[i].name));

		if (!value || (was && strcmp(value, was) == 0))
			continue;
		buf_text(&b, b.len > 0 ? "," : "{");
		html_json(&b, fields[i].name);
		html_raw(&b, ":");
		html_json(&b, *value ? value : NULL);
	}
	if (b.len > 0)
		html_raw(&b, "}");
	said = b.len > 0 ? arena_copy(&v->arena, b.p, b.len) : "";
	buf_clear(&b);
	return said;
}

void queue_settings(struct visit *v, const struct pg_result *res)
{
	static const struct {
		int at;
		const char *name, *unit;
	} facts[] = {
		{ 3, "Max running", "" },
		{ 2, "Running (limited)", "" },
		{ 4, "Rate limit (per second)", "" },
		{ 5, "Burst", "" },
		{ 6, "Max length", "" },
		{ 7, "When full", "" },
		{ 8, "Lease", " ms" },
		{ 9, "Expires after", " ms" },
		{ 10, "Max attempts", "" },
		{ 11, "Weight", "" },
		{ 12, "Function for messages", "" },
		{ 14, "Backoff floor", " ms" },
		{ 15, "Backoff ceiling", " ms" },
		{ 16, "Backoff exponent", "" },
		{ 17, "Max deliveries of a message", "" },
		{ 18, "Max params size", " bytes" },
		{ 20, "Function for dead jobs", "" },
	};

	if (v->json) {
		html_raw(&v->reply.body, ",\"settings\":");
		buf_text(&v->reply.body, pg_text(res, 0, 13, NULL));
		return;
	}
	html_raw(&v->reply.body, "<section><h2>Settings</h2><dl class=\"facts\">");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (!pg_null(res, 0, facts[i].at) && !(facts[i].at == 7 && pg_null(res, 0, 6)))
			page_fact(v, facts[i].name,
				  arena_printf(&v->arena, "%s%s", pg_text(res, 0, facts[i].at, NULL), facts[i].unit));
	html_raw(&v->reply.body, "</dl>");
	form(v, "/queues/", queue_fields, sizeof(queue_fields) / sizeof(queue_fields[0]), res);
	html_raw(&v->reply.body, "<p class=\"hint\">Other settings: <code>deferred queue set ");
	html_text(&v->reply.body, v->name);
	html_raw(&v->reply.body, "</code></p></section>");
}

void function_settings(struct visit *v, const struct pg_result *res)
{
	if (v->json) {
		html_raw(&v->reply.body, ",\"settings\":");
		buf_text(&v->reply.body, pg_rows(res) > 0 ? pg_text(res, 0, 6, NULL) : "null");
		return;
	}
	html_raw(&v->reply.body, "<section><h2>Limits and dead jobs</h2>");
	if (pg_rows(res) == 0)
		html_raw(&v->reply.body, "<p class=\"empty\">No limits are set.</p>");
	html_raw(&v->reply.body, "<dl class=\"facts\">");
	for (size_t i = 0; pg_rows(res) > 0 && i < sizeof(function_fields) / sizeof(function_fields[0]); i++)
		page_fact(v, function_fields[i].title, pg_text(res, 0, function_fields[i].at, NULL));
	if (pg_rows(res) > 0)
		page_fact(v, "Running (limited)", pg_text(res, 0, 1, NULL));
	html_raw(&v->reply.body, "</dl>");
	form(v, "/functions/", function_fields, sizeof(function_fields) / sizeof(function_fields[0]), res);
	html_raw(&v->reply.body, "</section>");
}
