/* SPDX-License-Identifier: MIT */
/* The settings of a queue or a function: shown, and changed by a form. The database checks the values. */
#include "pages.h"

#include "rows/queue.h"
#include "store/figures.h"

#include <inttypes.h>
#include <string.h>

#define MARK_MS 500

struct setting {
	int at; /* AT() */
	const char *name, *title;
	bool is_word; /* else a number */
};

#define QUEUE(column) admin_queue_ls_at_##column, #column
#define FUNCTION(column) admin_function_ls_at_##column, #column
static const struct setting queue_settings[] = {
	{ QUEUE(max_running), "Max running" },
	{ QUEUE(rate), "Rate limit (per second)" },
	{ QUEUE(burst), "Burst" },
	{ QUEUE(key_rate), "Rate limit of each key (per second)" },
	{ QUEUE(key_burst), "Burst of each key" },
	{ QUEUE(max_length), "Max length" },
	{ QUEUE(max_attempts), "Max attempts" },
	{ QUEUE(weight), "Weight" },
	{ QUEUE(on_dead), "Function for dead jobs", true },
};
static const struct setting function_settings[] = {
	{ FUNCTION(max_running), "Max running" },
	{ FUNCTION(rate), "Rate limit (per second)" },
	{ FUNCTION(burst), "Burst" },
	{ FUNCTION(on_dead), "Function for dead jobs", true },
};
#define QUEUE_SETTINGS (sizeof(queue_settings) / sizeof(queue_settings[0]))
#define FUNCTION_SETTINGS (sizeof(function_settings) / sizeof(function_settings[0]))

/* Each value is sent with the one that the form began with. So of two people with the form open, neither resets what
 * the other has changed. */
static void show_settings_form(struct web_request *r, const char *place, const struct setting *settings, size_t n,
			       const struct pg_result *res)
{
	struct buf *b = &r->reply.body;

	if (!page_may_act(r))
		return;
	html_printf(b, "<form class=\"search settings\" method=\"post\" action=\"%s%s/set\">", place,
		    page_url(r, r->name));
	page_token(r);
	for (const struct setting *s = settings; s < settings + n; s++) {
		const char *value = pg_rows(res) > 0 ? pg_text(res, 0, s->at, NULL) : "";

		html_printf(b,
			    "<label>%s %-s autocomplete=\"off\" placeholder=\"none\" name=\"%s\" value=\"%s\"></label>"
			    "<input type=\"hidden\" name=\"was_%s\" value=\"%s\">",
			    s->title,
			    s->is_word ? "<input maxlength=\"127\" spellcheck=\"false\""
				       : "<input inputmode=\"decimal\" maxlength=\"40\"",
			    s->name, value, s->name, value);
	}
	html_raw(b, "<button>Save</button></form>");
}

int pages_limit_used(struct web_request *r, const char *queue, const char *fn, bool has_max, int64_t max_running,
		     struct deferred_error *err)
{
	struct buf *b = &r->reply.body;
	struct pg_result *res = NULL;
	int64_t used;
	double share;
	int rc;

	if (!has_max)
		return 0;
	rc = figures_limits_exec(r->pg, queue, fn, &res, err);
	if (rc == 0) {
		/* Without a row, no job has used the limit yet. */
		used = pg_rows(res) > 0 ? figures_limits_row(res, 0).running : 0;
		share = (double)used / (double)max_running;
		if (r->json)
			buf_printf(b,
				   ",\"limit_used\":{\"running\":%" PRId64 ",\"max_running\":%" PRId64 ",\"ratio\":%g}",
				   used, max_running, share);
		else
			html_printf(b,
				    "<p>Limit <progress max=\"%" PRId64 "\" value=\"%" PRId64
				    "\" aria-label=\"Share of the limit in use\"></progress> %" PRId64 " of %" PRId64
				    " running, %.0f %%%s</p>",
				    max_running, used < max_running ? used : max_running, used, max_running,
				    100 * share, used < max_running ? "." : ": no others start until one ends.");
	}
	pg_result_free(res);
	return rc;
}

/* The values that the form changes, as a JSON object in the arena; NULL: none. */
static const char *changed_settings(struct web_request *r, const struct setting *settings, size_t n)
{
	const struct request *http = &r->http;
	struct buf b = { 0 };

	for (const struct setting *s = settings; s < settings + n; s++) {
		const char *value = guard_field(&r->arena, http->body, http->body_len, s->name);
		const char *was =
			guard_field(&r->arena, http->body, http->body_len, arena_printf(&r->arena, "was_%s", s->name));

		if (!value || (was && strcmp(value, was) == 0))
			continue;
		html_printf(&b, "%s%.s:%.s", b.len > 0 ? "," : "{", s->name, *value ? value : NULL);
	}
	if (b.len == 0)
		return NULL;
	html_raw(&b, "}");
	return page_take(r, &b);
}

int pages_act_set(struct web_request *r, struct deferred_error *err)
{
	const char *settings = page_is_below(r, "/queues/") ? changed_settings(r, queue_settings, QUEUE_SETTINGS)
							    : changed_settings(r, function_settings, FUNCTION_SETTINGS);

	if (settings)
		return pages_act(r, "set", settings, err);
	page_redirect_back(r, "nothing", false);
	return 0;
}

void pages_after_set(struct web_request *r)
{
	struct deferred_error ignored = { 0 };

	store_web_mark(r->pg, MARK_MS, &ignored);
}

void pages_queue_settings(struct web_request *r, const struct pg_result *res)
{
#define FACT(column) admin_queue_ls_at_##column
	static const struct {
		int at;
		const char *name, *unit;
	} facts[] = {
		{ FACT(max_running), "Max running", "" },
		{ FACT(running), "Running (limited)", "" },
		{ FACT(rate), "Rate limit (per second)", "" },
		{ FACT(burst), "Burst", "" },
		{ FACT(key_rate), "Rate limit of each key (per second)", "" },
		{ FACT(key_burst), "Burst of each key", "" },
		{ FACT(max_length), "Max length", "" },
		{ FACT(on_full), "When full", "" },
		{ FACT(visibility_timeout_ms), "Lease", " ms" },
		{ FACT(ttl_ms), "Expires after", " ms" },
		{ FACT(max_attempts), "Max attempts", "" },
		{ FACT(weight), "Weight", "" },
		{ FACT(fn), "Function for messages", "" },
		{ FACT(backoff_floor_ms), "Backoff floor", " ms" },
		{ FACT(backoff_ceiling_ms), "Backoff ceiling", " ms" },
		{ FACT(backoff_exponent), "Backoff exponent", "" },
		{ FACT(max_dequeue), "Max deliveries of a message", "" },
		{ FACT(params_max_bytes), "Max params size", " bytes" },
		{ FACT(on_dead), "Function for dead jobs", "" },
		{ FACT(age_ms), "Priority raised after each", " ms" },
		{ FACT(pattern), "From pattern", "" },
	};
	struct admin_queue_ls_row q = admin_queue_ls_row(res, 0);
	struct buf *b = &r->reply.body;

	if (r->json) {
		html_printf(b, ",\"settings\":%-s", q.json);
		return;
	}
	html_raw(b, "<section><h2>Settings</h2><dl class=\"facts\">");
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (!pg_null(res, 0, facts[i].at) && (facts[i].at != FACT(on_full) || q.has_max_length))
			page_fact(r, facts[i].name,
				  arena_printf(&r->arena, "%s%s", pg_text(res, 0, facts[i].at, NULL), facts[i].unit));
	html_raw(b, "</dl>");
	show_settings_form(r, "/queues/", queue_settings, QUEUE_SETTINGS, res);
	html_printf(b, "<p class=\"hint\">Other settings: <code>deferred queue set %s</code></p></section>", r->name);
}

void pages_function_settings(struct web_request *r, const struct pg_result *res)
{
	struct buf *b = &r->reply.body;
	bool has_any = pg_rows(res) > 0;

	if (r->json) {
		html_printf(b, ",\"settings\":%-s", has_any ? admin_function_ls_row(res, 0).json : "null");
		return;
	}
	html_printf(b, "<section><h2>Limits and dead jobs</h2>%-s<dl class=\"facts\">",
		    has_any ? "" : "<p class=\"empty\">No limits are set.</p>");
	for (size_t i = 0; has_any && i < FUNCTION_SETTINGS; i++)
		page_fact(r, function_settings[i].title, pg_text(res, 0, function_settings[i].at, NULL));
	if (has_any)
		page_fact(r, "Running (limited)", pg_text(res, 0, admin_function_ls_at_running, NULL));
	html_raw(b, "</dl>");
	show_settings_form(r, "/functions/", function_settings, FUNCTION_SETTINGS, res);
	html_raw(b, "</section>");
}
