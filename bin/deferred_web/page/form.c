/* SPDX-License-Identifier: MIT */
#include "form.h"

#include "base/span.h"
#include "rows/queue.h"
#include "rows/web.h"

#include <string.h>

const char *form_typed(struct web_request *r, const struct form *f, const char *name)
{
	if (r->route->action)
		return page_field(r, name);
	for (size_t row = 0; row < pg_rows(f->was); row++)
		if (strcmp(web_schedule_form_row(f->was, row).key, name) == 0)
			return web_schedule_form_row(f->was, row).value;
	return page_query(r, name);
}

/* A form ends each line with a carriage return that nobody typed. */
const char *form_params(struct web_request *r, const struct form *f)
{
	const char *text = form_typed(r, f, "params");
	char *unix_lines, *to;

	if (!text)
		return "{}";
	unix_lines = to = arena_copy(&r->arena, text, strlen(text));
	for (; *text; text++)
		if (text[0] != '\r' || text[1] != '\n')
			*to++ = *text;
	*to = '\0';
	return unix_lines;
}

const char *form_options(struct web_request *r, const struct form *f)
{
	struct buf b = { 0 };

	for (size_t i = f->first; i < f->len; i++) {
		const char *value = form_typed(r, f, f->fields[i].name);

		if (!value && !(value = f->fields[i].otherwise))
			continue;
		html_printf(&b, "%s%.s:%.s", b.len > 0 ? "," : "{", f->fields[i].name, value);
	}
	buf_text(&b, b.len > 0 ? "}" : "{}");
	return page_take(r, &b);
}

const char *form_wrong(struct web_request *r, const struct form *f)
{
	for (size_t i = 0; i < f->len; i++) {
		const char *text = f->fields[i].is_span ? form_typed(r, f, f->fields[i].name) : NULL;

		if (text && span_lacks_unit(text))
			return arena_printf(&r->arena,
					    "%s '%.40s' has no unit "
					    "(" SPAN_HINT ")",
					    f->fields[i].name, text);
	}
	return NULL;
}

/* ---- markup ----------------------------------------------------------------------------------- */

static void form_names(struct web_request *r, const char *id, const struct pg_result *res, int at)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<datalist id=\"%s\">", id);
	for (size_t row = 0; row < pg_rows(res); row++)
		html_printf(b, "<option value=\"%s\"></option>", pg_text(res, row, at, NULL));
	html_raw(b, "</datalist>");
}

static void form_choice(struct buf *b, const struct form_field *field, const char *value)
{
	html_printf(b, " <select name=\"%s\"><option value=\"\">default</option>", field->name);
	for (const char *const *word = field->words; *word; word++)
		html_printf(b, "<option%-s>%s</option>", value && strcmp(value, *word) == 0 ? " selected" : "", *word);
	html_raw(b, "</select></label>");
}

static void form_input(struct web_request *r, const struct form *f, const struct form_field *field)
{
	const char *value = form_typed(r, f, field->name), *hint = field->hint ? field->hint : field->otherwise;
	struct buf *b = &r->reply.body;

	if (field->title)
		html_printf(b, "<label>%s", field->title);
	if (field->words) {
		form_choice(b, field, value);
		return;
	}
	html_printf(b, "%-s name=\"%s\" maxlength=\"%d\"", field->title ? " <input" : "<input type=\"hidden\"",
		    field->name, field->most);
	buf_text(b, field->title ? " autocomplete=\"off\" spellcheck=\"false\"" : "");
	if (field->list)
		html_printf(b, " list=\"%s\"", field->list);
	if (hint)
		html_printf(b, " placeholder=\"%s\"", hint);
	if (field->is_name && form_typed(r, f, "version"))
		html_raw(b, " readonly");
	buf_text(b, field->required ? " required value=\"" : " value=\"");
	html_field(b, value);
	buf_text(b, field->title ? "\"></label>" : "\">");
}

static void form_markup(struct web_request *r, const struct form *f)
{
	struct buf *b = &r->reply.body;
	bool any = false;

	html_printf(b, "<form class=\"search fields\" method=\"post\" action=\"%s\">", f->action);
	page_token(r);
	for (size_t i = 0; i < f->shown; i++)
		form_input(r, f, &f->fields[i]);
	for (size_t i = f->shown; i < f->len; i++)
		any |= form_typed(r, f, f->fields[i].name) != NULL;
	if (f->len > f->shown)
		html_printf(b, "<details class=\"whole\"%-s><summary>More options</summary><div class=\"search\">",
			    any ? " open" : "");
	for (size_t i = f->shown; i < f->len; i++)
		form_input(r, f, &f->fields[i]);
	if (f->len > f->shown)
		html_raw(b, "</div></details>");
	/* A browser drops a line break that comes first. */
	if (!f->no_params) {
		html_raw(b, "<label class=\"whole\">Params (JSON) "
			    "<textarea name=\"params\" rows=\"10\" maxlength=\"65536\" spellcheck=\"false\">\n");
		html_field(b, form_params(r, f));
		html_raw(b, "</textarea></label>");
	}
	html_printf(b, "<button>%s</button></form>", f->button);
}

int form_page(struct web_request *r, const struct form *f, const char *kind, const char *title, const char *refused,
	      struct deferred_error *err)
{
	struct pg_result *functions = NULL, *queues = NULL;
	struct buf *b = &r->reply.body;
	int rc = admin_functions_exec(r->pg, NULL, &functions, err);

	if (rc == 0)
		rc = admin_queue_ls_exec(r->pg, NULL, &queues, err);
	if (rc == 0) {
		page_begin(r, kind, title);
		page_trouble(r, refused);
		if (r->json) {
			html_printf(b, ",%.s:null,\"refused\":%.s", f->key, refused);
		} else {
			html_printf(b, "<p class=\"hint\">%-s</p>", f->hint);
			form_markup(r, f);
			form_names(r, "functions", functions, admin_functions_at_fn);
			form_names(r, "queues", queues, admin_queue_ls_at_name);
		}
		page_end(r);
	}
	pg_result_free(queues);
	pg_result_free(functions);
	return rc;
}

void form_accepted(struct web_request *r, const struct form *f, const char *verb, const char *made)
{
	struct buf *b = &r->reply.body;

	if (!r->json) {
		page_redirect_back(r, verb, false);
		return;
	}
	page_begin(r, NULL, "");
	html_printf(b, ",%.s:%-s,\"refused\":null", f->key, made);
	page_end(r);
}
