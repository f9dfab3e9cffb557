/* SPDX-License-Identifier: MIT */
#include "search.h"

#include "pages.h"
#include "port/config.h"
#include "store/index.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static const char *const states[] = {
	"ready", "delayed", "waiting", "claimed", "done", "dead", "cancelled", "expired"
};
static const char *const outcomes[] = { "ok",         "failed", "crashed",   "timeout", "interrupted",
					"superseded", "lost",   "cancelled", "expired", "snoozed" };

static const char *one_of(const char *const *words, size_t n, const char *text)
{
	for (size_t i = 0; text && i < n; i++)
		if (strcmp(words[i], text) == 0)
			return words[i];
	return NULL;
}

/* "customer.address.0", in place. */
static void read_path(struct search *s, char *text)
{
	s->more.path = s->path;
	s->more.path_len = 0;
	for (char *dot; text; text = dot) {
		dot = strchr(text, '.');
		if (dot)
			*dot++ = '\0';
		if (s->more.path_len == SEARCH_PATH_MAX) {
			s->too_many = true;
			return;
		}
		s->path[s->more.path_len++] = text;
	}
}

/* What is no field of its own: a tag, of which there may be several, or a value of the params. */
static bool term_of_many(struct search *s, char *text, char *value)
{
	static const char params[] = "params.";

	if (strncmp(text, "tag:", 4) == 0) {
		s->too_many |= s->filter.tags_len == SEARCH_TAGS_MAX;
		if (!s->too_many && *value)
			s->tags[s->filter.tags_len++] = value;
		s->filter.tags = s->tags;
		return true;
	}
	if (strncmp(text, params, strlen(params)) != 0)
		return false;
	value[-1] = '\0';
	read_path(s, text + strlen(params));
	s->more.value = value;
	return true;
}

/* name:value or name:"a value", of a search's text; all else is part of a label. */
static void term(struct visit *v, struct search *s, char *text, struct buf *label)
{
	static const char *const names[] = { "queue", "fn", "state", "label", "key", "rule", "by", "outcome", "error" };
	const char **values[] = { &s->filter.queue, &s->filter.fn, &s->filter.state, &s->filter.label, &s->filter.key,
				  &s->filter.rule,  &s->filter.by, &s->more.outcome, &s->more.error };
	static const char error_part[] = "error~";
	char *colon = strchr(text, ':'), *value = colon ? colon + 1 : NULL;

	if (strncmp(text, error_part, strlen(error_part)) == 0 && text[strlen(error_part)]) {
		s->more.error = arena_copy(&v->arena, text + strlen(error_part), strlen(text + strlen(error_part)));
		s->more.error_part = true;
		return;
	}
	for (size_t i = 0; colon && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) != (size_t)(colon - text) || memcmp(text, names[i], (size_t)(colon - text)) != 0)
			continue;
		*values[i] = arena_copy(&v->arena, value, strlen(value));
		return;
	}
	if (colon && term_of_many(s, text, value))
		return;
	if (label->len > 0)
		html_raw(label, " ");
	buf_text(label, text);
}

static void terms(struct visit *v, struct search *s, const char *q)
{
	struct buf label = { 0 };

	while (*(q += strspn(q, " "))) {
		char *word = arena_alloc(&v->arena, strlen(q) + 1);
		bool quoted = false;
		size_t n = 0;

		for (; *q && (quoted || *q != ' '); q++) {
			if (*q == '"')
				quoted = !quoted;
			else
				word[n++] = *q;
		}
		term(v, s, word, &label);
	}
	if (label.len > 0 && !s->filter.label) {
		s->filter.label = arena_copy(&v->arena, label.p, label.len);
		s->more.part = true;
	}
	buf_clear(&label);
}

/* "2h": so long ago; else a time as the database reads it. */
static int read_times(struct visit *v, struct search *s, struct deferred_error *err)
{
	const char *text[2] = { pages_text(v, "since"), pages_text(v, "until") };
	struct deferred_error ignored = { 0 };
	struct pg_result *res = NULL;
	int64_t ms[2] = { -1, -1 };
	int rc;

	if (!text[0] && !text[1])
		return 0;
	for (int i = 0; i < 2; i++)
		if (text[i] && config_parse_ms(text[i], &ms[i], &ignored) == 0)
			text[i] = NULL;
		else
			ms[i] = -1;
	rc = store_admin_times(v->pg, text, ms, &res, err);
	if (rc < 0 && strncmp(err->sqlstate, "2200", 4) == 0) {
		int wrong = text[1] && (!text[0] || strstr(err->message, text[1])) ? 1 : 0;

		snprintf(err->message, sizeof(err->message), "%s: '%.200s' is not a time",
			 wrong ? "Until" : "Deferred since", text[wrong]);
		snprintf(err->hint, sizeof(err->hint),
			 "write a time such as 2026-01-31 14:30, or how long ago, such as 2h");
	}
	if (rc == 0) {
		s->filter.since = pg_null(res, 0, 0) ? NULL
						     : arena_copy(&v->arena, pg_text(res, 0, 0, NULL),
								  strlen(pg_text(res, 0, 0, NULL)));
		s->filter.until = pg_null(res, 0, 1) ? NULL
						     : arena_copy(&v->arena, pg_text(res, 0, 1, NULL),
								  strlen(pg_text(res, 0, 1, NULL)));
	}
	pg_result_free(res);
	return rc;
}

int search_read(struct visit *v, struct search *s, struct deferred_error *err)
{
	const char *q = pages_text(v, "q");

	s->filter = (struct store_admin_filter){ .limit = STORE_WEB_ROWS, .after = pages_number(v, "after") };
	if (q && strlen(q) <= 18 && !q[strspn(q, "0123456789")]) {
		s->id = strtoll(q, NULL, 10);
		return 0;
	}
	if (q)
		terms(v, s, q);
	if (s->more.error && !*s->more.error)
		s->more.error = NULL;
	s->filter.queue = s->filter.queue ? s->filter.queue : pages_text(v, "queue");
	s->filter.fn = s->filter.fn ? s->filter.fn : pages_text(v, "fn");
	s->filter.state = one_of(states, sizeof(states) / sizeof(states[0]),
				 s->filter.state ? s->filter.state : pages_text(v, "state"));
	s->more.outcome = one_of(outcomes, sizeof(outcomes) / sizeof(outcomes[0]),
				 s->more.outcome ? s->more.outcome : pages_text(v, "outcome"));
	s->more.hidden = hidden_functions(v, &s->more.hidden_len);
	return read_times(v, s, err);
}

static void select_box(struct visit *v, const char *name, const char *title, const char *const *words, size_t n,
		       const char *chosen)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<label>");
	html_text(b, title);
	html_raw(b, " <select name=\"");
	html_text(b, name);
	html_raw(b, "\"><option value=\"\">any</option>");
	for (size_t i = 0; i < n; i++) {
		html_raw(b, "<option");
		if (chosen && strcmp(chosen, words[i]) == 0)
			html_raw(b, " selected");
		html_raw(b, ">");
		html_text(b, words[i]);
		html_raw(b, "</option>");
	}
	html_raw(b, "</select></label>");
}

static void text_box(struct visit *v, const char *name, const char *title, const char *value, const char *hint)
{
	struct buf *b = &v->reply.body;

	html_raw(b, "<label>");
	html_text(b, title);
	html_raw(b, " <input name=\"");
	html_text(b, name);
	html_raw(b, "\" maxlength=\"1000\" autocomplete=\"off\" value=\"");
	html_text(b, value ? value : "");
	html_raw(b, "\" placeholder=\"");
	html_text(b, hint);
	html_raw(b, "\"></label>");
}

void search_form(struct visit *v, const struct search *s)
{
	if (v->json)
		return;
	html_raw(&v->reply.body, "<form class=\"search jobs\" action=\"/jobs\">");
	text_box(v, "q", "Words", pages_text(v, "q"), "any");
	select_box(v, "state", "State", states, sizeof(states) / sizeof(states[0]), s->filter.state);
	text_box(v, "queue", "Queue", s->filter.queue, "any");
	text_box(v, "fn", "Function", s->filter.fn, "any");
	select_box(v, "outcome", "Last outcome", outcomes, sizeof(outcomes) / sizeof(outcomes[0]), s->more.outcome);
	text_box(v, "since", "Deferred since", pages_text(v, "since"), "2h, yesterday");
	text_box(v, "until", "Until", pages_text(v, "until"), "now");
	html_raw(&v->reply.body,
		 "<button>Find</button><p class=\"hint whole\">Words match a part of the label. Other forms: "
		 "<code>label:\"all words\"</code> <code>tag:</code> <code>key:</code> <code>by:</code> "
		 "<code>rule:</code> "
		 "<code>params.a.b:value</code> <code>error~text</code></p></form>");
}

static const char *params_term(struct visit *v, const struct search *s)
{
	const char *term = "params";

	for (size_t i = 0; i < s->more.path_len; i++)
		term = arena_printf(&v->arena, "%s.%s", term, s->path[i]);
	return term;
}

int search_indexes(struct visit *v, struct search *s, struct deferred_error *err)
{
	int rc = 0;

	if (s->filter.label && !s->more.part)
		rc = store_index_usable(v->pg, "label", &s->filter.label_index, err);
	if (rc == 0 && s->more.path_len > 0)
		rc = store_index_usable(v->pg, params_term(v, s), &s->more.value_index, err);
	return rc;
}

bool search_has_index(const struct search *s)
{
	return !s->more.part && !s->more.outcome && !s->more.error && s->more.path_len == 0;
}

void search_query(struct visit *v, const struct search *s, bool fixed)
{
	static const char *const kept[] = { "q", "state", "queue", "fn", "outcome", "error", "since", "until" };
	struct buf *b = &v->reply.body;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		const char *value = pages_text(v, kept[i]);

		if (fixed && strcmp(kept[i], "since") == 0)
			value = s->filter.since;
		if (fixed && strcmp(kept[i], "until") == 0)
			value = s->filter.until;
		if (!value)
			continue;
		html_text(b, kept[i]);
		html_raw(b, "=");
		html_url(b, value);
		html_raw(b, "&amp;");
	}
}
