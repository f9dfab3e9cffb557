/* SPDX-License-Identifier: MIT */
#include "form.h"

#include "base/span.h"

#include <string.h>

const char *form_typed(struct visit *v, const struct form *f, const char *name)
{
	if (v->route->action)
		return pages_field(v, name);
	for (size_t row = 0; row < pg_rows(f->was); row++)
		if (strcmp(pg_text(f->was, row, 0, NULL), name) == 0)
			return pg_text(f->was, row, 1, NULL);
	return pages_text(v, name);
}

/* A form sends each line with a carriage return at its end, which nobody typed. */
const char *form_params(struct visit *v, const struct form *f)
{
	const char *text = form_typed(v, f, "params");
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

const char *form_options(struct visit *v, const struct form *f)
{
	struct buf b = { 0 };
	const char *said;

	for (size_t i = f->first; i < f->len; i++) {
		const char *value = form_typed(v, f, f->fields[i].name);

		if (!value && !(value = f->fields[i].otherwise))
			continue;
		buf_text(&b, b.len > 0 ? "," : "{");
		html_json(&b, f->fields[i].name);
		html_raw(&b, ":");
		html_json(&b, value);
	}
	buf_text(&b, b.len > 0 ? "}" : "{}");
	said = arena_copy(&v->arena, b.p, b.len);
	buf_clear(&b);
	return said;
}

const char *form_wrong(struct visit *v, const struct form *f)
{
	for (size_t i = 0; i < f->len; i++) {
		const char *text = f->fields[i].is_span ? form_typed(v, f, f->fields[i].name) : NULL;

		if (text && span_lacks_unit(text))
			return arena_printf(&v->arena,
					    "%s '%.40s' has no unit "
					    "(" SPAN_HINT ")",
					    f->fields[i].name, text);
	}
	return NULL;
}

/* ---- markup ----------------------------------------------------------------------------------- */

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

static void choice(struct buf *b, const struct form_field *field, const char *value)
{
	buf_printf(b, " <select name=\"%s\"><option value=\"\">default</option>", field->name);
	for (const char *const *word = field->words; *word; word++)
		buf_printf(b, "<option%s>%s</option>", value && strcmp(value, *word) == 0 ? " selected" : "", *word);
	html_raw(b, "</select></label>");
}

static void show_field(struct visit *v, const struct form *f, const struct form_field *field)
{
	const char *value = form_typed(v, f, field->name), *hint = field->hint ? field->hint : field->otherwise;
	struct buf *b = &v->reply.body;

	if (field->title) {
		html_raw(b, "<label>");
		html_text(b, field->title);
	}
	if (field->words) {
		choice(b, field, value);
		return;
	}
	buf_printf(b, "%s name=\"%s\" maxlength=\"%d\"", field->title ? " <input" : "<input type=\"hidden\"",
		   field->name, field->most);
	buf_text(b, field->title ? " autocomplete=\"off\" spellcheck=\"false\"" : "");
	if (field->list)
		buf_printf(b, " list=\"%s\"", field->list);
	if (hint) {
		html_raw(b, " placeholder=\"");
		html_text(b, hint);
		html_raw(b, "\"");
	}
	if (field->is_name && form_typed(v, f, "version"))
		html_raw(b, " readonly");
	buf_text(b, field->required ? " required value=\"" : " value=\"");
	html_field(b, value);
	buf_text(b, field->title ? "\"></label>" : "\">");
}

static void show(struct visit *v, const struct form *f)
{
	struct buf *b = &v->reply.body;
	bool any = false;

	html_raw(b, "<form class=\"search fields\" method=\"post\" action=\"");
	html_text(b, f->action);
	html_raw(b, "\">");
	page_token(v);
	for (size_t i = 0; i < f->shown; i++)
		show_field(v, f, &f->fields[i]);
	for (size_t i = f->shown; i < f->len; i++)
		any |= form_typed(v, f, f->fields[i].name) != NULL;
	if (f->len > f->shown)
		buf_printf(b, "<details class=\"whole\"%s><summary>More options</summary><div class=\"search\">",
			   any ? " open" : "");
	for (size_t i = f->shown; i < f->len; i++)
		show_field(v, f, &f->fields[i]);
	if (f->len > f->shown)
		html_raw(b, "</div></details>");
	/* A browser leaves out a line break that comes first. */
	html_raw(b, "<label class=\"whole\">Params (JSON) "
		    "<textarea name=\"params\" rows=\"10\" maxlength=\"65536\" spellcheck=\"false\">\n");
	html_field(b, form_params(v, f));
	html_raw(b, "</textarea></label><button>");
	html_text(b, f->button);
	html_raw(b, "</button></form>");
}

int form_page(struct visit *v, const struct form *f, const char *kind, const char *title, const char *refused,
	      struct deferred_error *err)
{
	struct pg_result *functions = NULL, *queues = NULL;
	struct buf *b = &v->reply.body;
	int rc = admin_functions_exec(v->pg, NULL, &functions, err);

	if (rc == 0)
		rc = admin_queue_ls_exec(v->pg, NULL, &queues, err);
	if (rc == 0) {
		page_begin(v, kind, title);
		if (v->json) {
			html_raw(b, ",");
			html_json(b, f->key);
			html_raw(b, ":null,\"refused\":");
			html_json(b, refused);
		} else {
			if (refused) {
				html_raw(b, "<p class=\"trouble\" role=\"alert\"><bdi>");
				html_text(b, refused);
				html_raw(b, "</bdi></p>");
			}
			html_raw(b, "<p class=\"hint\">");
			buf_text(b, f->hint);
			html_raw(b, "</p>");
			show(v, f);
			names(v, "functions", functions);
			names(v, "queues", queues);
		}
		page_end(v);
	}
	pg_result_free(queues);
	pg_result_free(functions);
	return rc;
}

void form_done(struct visit *v, const struct form *f, const char *verb, const char *made)
{
	struct buf *b = &v->reply.body;

	if (!v->json) {
		action_leads_back(v, verb, false);
		return;
	}
	page_begin(v, NULL, "");
	html_raw(b, ",");
	html_json(b, f->key);
	html_raw(b, ":");
	buf_text(b, made);
	html_raw(b, ",\"refused\":null");
	page_end(v);
}
