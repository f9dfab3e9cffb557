/* SPDX-License-Identifier: MIT */
/* A job that an operator writes by hand. What is typed the database checks, as it does for everybody; what it refuses stays in the form. */
#include "pages.h"

#include <string.h>

struct field {
	const char *name, *title, *hint, *list; /* hint, list: NULL: none */
	int most;                               /* characters */
};

static const struct field fields[] = {
	{ "fn", "Function", NULL, "functions", 127 }, { "queue", "Queue", "default", "queues", 88 }, { "label", "Label", NULL, NULL, 1000 },
	{ "delay", "Not before", "now, or 10min", NULL, 40 }, { "expires", "Expires after", "never, or 2d", NULL, 40 }, { "key", "Key (one job at a time)", NULL, NULL, 1000 },
	{ "priority", "Priority", "0", NULL, 10 }, { "max_attempts", "Attempts", NULL, NULL, 10 }, { "timeout", "Timeout", NULL, NULL, 40 },
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* What was typed; before that, what the link said that led here. */
static const char *typed(struct visit *v, const char *name)
{
	return v->route->action ? pages_field(v, name) : pages_text(v, name);
}

/* A form sends each line with a carriage return at its end, which nobody typed. */
static const char *params_typed(struct visit *v)
{
	const char *text = typed(v, "params");
	char *unix_lines, *to;

	if (!text)
		return "{}";
	unix_lines = to = arena_copy(&v->arena, text, strlen(text));
	for (; *text; text++)
		if (text[0] != '\r' || text[1] != '\n')
			*to++ = *text;
	*to = '\0';
	return unix_lines;
}

static void names(struct visit *v, const char *id, const struct pg_result *res)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<datalist id=\"");
	html_text(b, id);
	html_raw(b, "\">");
	for (size_t row = 0; row < pg_rows(res); row++) {
		html_raw(b, "<option value=\"");
		html_text(b, pg_text(res, row, 0, NULL));
		html_raw(b, "\"></option>");
	}
	html_raw(b, "</datalist>");
}

static void form(struct visit *v)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<form class=\"search defer\" method=\"post\" action=\"/defer/now\">");
	page_token(v);
	for (size_t i = 0; i < FIELDS; i++) {
		const struct field *f = &fields[i];

		html_raw(b, "<label>");
		html_text(b, f->title);
		buf_printf(b, " <input name=\"%s\" maxlength=\"%d\" autocomplete=\"off\" spellcheck=\"false\"", f->name, f->most);
		if (f->list)
			buf_printf(b, " list=\"%s\"", f->list);
		if (f->hint)
			buf_printf(b, " placeholder=\"%s\"", f->hint);
		buf_text(b, i == 0 ? " required value=\"" : " value=\"");
		html_field(b, typed(v, f->name));
		html_raw(b, "\"></label>");
	}
	/* A browser leaves out a line break that comes first. */
	html_raw(b, "<label class=\"whole\">Params (JSON) <textarea name=\"params\" rows=\"10\" maxlength=\"65536\" spellcheck=\"false\">\n");
	html_field(b, params_typed(v));
	html_raw(b, "</textarea></label><button>Defer</button></form>");
}

/* refused NULL: nothing was tried yet. */
static int ask(struct visit *v, const char *refused, struct deferred_error *err)
{
	struct pg_result *functions = NULL, *queues = NULL;
	struct buf *b = &v->reply.body;
	int rc = store_admin_functions(v->pg, NULL, &functions, err);

	if (rc == 0)
		rc = store_admin_queue_ls(v->pg, NULL, &queues, err);
	if (rc == 0) {
		page_begin(v, NULL, "Defer a job");
		if (v->json) {
			html_raw(b, ",\"job\":null,\"refused\":");
			html_json(b, refused);
		} else {
			if (refused) {
				html_raw(b, "<p class=\"trouble\" role=\"alert\"><bdi>");
				html_text(b, refused);
				html_raw(b, "</bdi></p>");
			}
			html_raw(b, "<p class=\"hint\">Empty fields use the defaults of the queue and the function, as with <code>deferred add</code>.</p>");
			form(v);
			names(v, "functions", functions);
			names(v, "queues", queues);
		}
		page_end(v);
	}
	pg_result_free(queues);
	pg_result_free(functions);
	return rc;
}

int page_defer(struct visit *v, struct deferred_error *err)
{
	if (visit_may_act(v))
		return ask(v, NULL, err);
	visit_refuse(v, 403, "Your role may look but not act.");
	return 0;
}

/* All but the first, which is the function, as an object in the arena. */
static const char *options(struct visit *v)
{
	struct buf b = { 0 };
	const char *said;

	for (size_t i = 1; i < FIELDS; i++) {
		const char *value = typed(v, fields[i].name);

		if (!value)
			continue;
		buf_text(&b, b.len > 0 ? "," : "{");
		html_json(&b, fields[i].name);
		html_raw(&b, ":");
		html_json(&b, value);
	}
	buf_text(&b, b.len > 0 ? "}" : "{}");
	said = arena_copy(&v->arena, b.p, b.len);
	buf_clear(&b);
	return said;
}

int action_defer(struct visit *v, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = store_web_act_defer(v->pg, typed(v, "fn"), params_typed(v), options(v), v->user[0] ? v->user : v->me.role, v->address[0] ? v->address : NULL, &res, err);

	if (rc == 0 && !pg_null(res, 0, 1)) {
		rc = ask(v, pg_text(res, 0, 1, NULL), err);
	} else if (rc == 0) {
		v->number = pg_int(res, 0, 0);
		if (v->json) {
			page_begin(v, NULL, "");
			html_raw(&v->reply.body, ",\"job\":");
			buf_text(&v->reply.body, pg_text(res, 0, 0, NULL));
			html_raw(&v->reply.body, ",\"refused\":null");
			page_end(v);
		} else {
			action_leads_back(v, "defer", false);
		}
	}
	pg_result_free(res);
	return rc;
}
