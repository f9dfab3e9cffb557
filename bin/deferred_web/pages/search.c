/* SPDX-License-Identifier: MIT */
#include "search.h"

#include "port/config.h"
#include "rows/admin.h"
#include "rows/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATES "ready", "delayed", "waiting", "claimed", "done", "dead", "cancelled", "expired"
#define OUTCOMES \
	"ok", "failed", "crashed", "timeout", "interrupted", "superseded", "lost", "cancelled", "expired", "snoozed"

static const char *const states[] = { STATES, NULL }, *const outcomes[] = { OUTCOMES, NULL };

/* Is the text one of the words, or NULL? False: no, and the request was refused. */
static bool is_word(struct web_request *r, const char *name, const char *text, const char *const *words)
{
	struct buf list = { 0 };

	for (const char *const *word = words; text && *word; word++)
		if (strcmp(*word, text) == 0)
			return true;
	if (!text)
		return true;
	for (const char *const *word = words; *word; word++)
		buf_printf(&list, "%s%s", word == words ? "" : ", ", *word);
	page_refuse_value(r, name, text, arena_printf(&r->arena, "Use one of: %s.", page_take(r, &list)));
	return false;
}

/* "customer.address.0", in place. */
static void read_params_path(struct search *s, char *text)
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

/* A tag, of which there may be several, or a value of the params. False: neither. */
static bool read_repeated(struct search *s, char *text, char *value)
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
	read_params_path(s, text + strlen(params));
	s->more.value = value;
	return true;
}

/* name:value or name:"a value". Other words are a part of a label. */
static void read_term(struct web_request *r, struct search *s, char *text, struct buf *label)
{
	static const char *const names[] = { "queue", "fn", "state", "label", "key", "rule", "by", "outcome", "error" };
	const char **values[] = { &s->filter.queue, &s->filter.fn, &s->filter.state, &s->filter.label, &s->filter.key,
				  &s->filter.rule,  &s->filter.by, &s->more.outcome, &s->more.error };
	static const char error_part[] = "error~";
	char *colon = strchr(text, ':'), *value = colon ? colon + 1 : NULL;

	if (strncmp(text, error_part, strlen(error_part)) == 0 && text[strlen(error_part)]) {
		s->more.error = arena_copy(&r->arena, text + strlen(error_part), strlen(text + strlen(error_part)));
		s->more.error_part = true;
		return;
	}
	for (size_t i = 0; colon && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strlen(names[i]) != (size_t)(colon - text) || memcmp(text, names[i], (size_t)(colon - text)) != 0)
			continue;
		*values[i] = arena_copy(&r->arena, value, strlen(value));
		return;
	}
	if (colon && read_repeated(s, text, value))
		return;
	if (label->len > 0)
		html_raw(label, " ");
	buf_text(label, text);
}

static void read_terms(struct web_request *r, struct search *s, const char *q)
{
	struct buf label = { 0 };

	while (*(q += strspn(q, " "))) {
		char *word = arena_alloc(&r->arena, strlen(q) + 1);
		bool quoted = false;
		size_t n = 0;

		for (; *q && (quoted || *q != ' '); q++) {
			if (*q == '"')
				quoted = !quoted;
			else
				word[n++] = *q;
		}
		read_term(r, s, word, &label);
	}
	if (label.len > 0 && !s->filter.label) {
		s->filter.label = arena_copy(&r->arena, label.p, label.len);
		s->more.part = true;
	}
	buf_clear(&label);
}

static const char *const times[] = { "since", "until", "ended_since", "ended_until" };
#define TIMES (sizeof(times) / sizeof(times[0]))

/* "2h" is that long ago. The database reads other times. */
static int read_times(struct web_request *r, struct search *s, struct deferred_error *err)
{
	static const char *const titles[TIMES] = { "Deferred since", "Until", "Ended since", "Ended until" };
	const char **to[TIMES] = { &s->filter.since, &s->filter.until, &s->filter.ended_since, &s->filter.ended_until };
	int rc = 0;

	for (size_t i = 0; i < TIMES && rc == 0; i++) {
		const char *text = page_query(r, times[i]);
		struct deferred_error ignored = { 0 };
		struct pg_result *res = NULL;
		int64_t ms;
		bool ago;

		if (!text)
			continue;
		ago = config_parse_ms(text, &ms, &ignored) == 0;
		rc = admin_time_exec(r->pg, ago ? NULL : text, ago ? &ms : NULL, &res, err);
		if (rc == 0) {
			const char *time = admin_time_row(res, 0).time;

			*to[i] = arena_copy(&r->arena, time, strlen(time));
		} else if (strncmp(err->sqlstate, "2200", 4) == 0) {
			snprintf(err->message, sizeof(err->message), "%s: '%.200s' is not a time", titles[i], text);
			snprintf(err->hint, sizeof(err->hint),
				 "write a time such as 2026-01-31 14:30, or how long ago, such as 2h");
		}
		pg_result_free(res);
	}
	return rc;
}

bool search_read(struct web_request *r, struct search *s, int *rc, struct deferred_error *err)
{
	const char *q = page_query(r, "q");

	*rc = 0;
	s->filter = (struct store_admin_filter){ .limit = STORE_WEB_ROWS };
	if (!page_query_number(r, "after", &s->filter.after))
		return false;
	if (q && strlen(q) <= 18 && !q[strspn(q, "0123456789")]) {
		s->id = strtoll(q, NULL, 10);
		return true;
	}
	if (q)
		read_terms(r, s, q);
	if (s->more.error && !*s->more.error)
		s->more.error = NULL;
	s->filter.queue = s->filter.queue ? s->filter.queue : page_query(r, "queue");
	s->filter.fn = s->filter.fn ? s->filter.fn : page_query(r, "fn");
	s->filter.state = s->filter.state ? s->filter.state : page_query(r, "state");
	s->more.outcome = s->more.outcome ? s->more.outcome : page_query(r, "outcome");
	s->more.hidden = page_hidden_functions(r, &s->more.hidden_len);
	if (!is_word(r, "state", s->filter.state, states) || !is_word(r, "outcome", s->more.outcome, outcomes))
		return false;
	*rc = read_times(r, s, err);
	return *rc == 0;
}

static void select_box(struct web_request *r, const char *name, const char *title, const char *const *words,
		       const char *chosen)
{
	struct buf *b = &r->reply.body;

	html_printf(b, "<label>%s <select name=\"%s\"><option value=\"\">any</option>", title, name);
	for (; *words; words++)
		html_printf(b, "<option%-s>%s</option>", chosen && strcmp(chosen, *words) == 0 ? " selected" : "",
			    *words);
	html_raw(b, "</select></label>");
}

static void text_box(struct web_request *r, const char *name, const char *title, const char *value, const char *hint)
{
	html_printf(&r->reply.body,
		    "<label>%s <input name=\"%s\" maxlength=\"1000\" autocomplete=\"off\" value=\"%s\" "
		    "placeholder=\"%s\"></label>",
		    title, name, value, hint);
}

void search_form(struct web_request *r, const struct search *s)
{
	if (r->json)
		return;
	html_raw(&r->reply.body, "<form class=\"search jobs\" action=\"/jobs\">");
	text_box(r, "q", "Words", page_query(r, "q"), "any");
	select_box(r, "state", "State", states, s->filter.state);
	text_box(r, "queue", "Queue", s->filter.queue, "any");
	text_box(r, "fn", "Function", s->filter.fn, "any");
	select_box(r, "outcome", "Last outcome", outcomes, s->more.outcome);
	text_box(r, "since", "Deferred since", page_query(r, "since"), "2h, yesterday");
	text_box(r, "until", "Until", page_query(r, "until"), "now");
	text_box(r, "ended_since", "Ended since", page_query(r, "ended_since"), "2h, yesterday");
	text_box(r, "ended_until", "Ended until", page_query(r, "ended_until"), "now");
	html_raw(&r->reply.body,
		 "<button>Find</button><p class=\"hint whole\">Words match a part of the label. Other forms: "
		 "<code>label:\"all words\"</code> <code>tag:</code> <code>key:</code> <code>by:</code> "
		 "<code>rule:</code> "
		 "<code>params.a.b:value</code> <code>error~text</code></p></form>");
}

static const char *params_term(struct web_request *r, const struct search *s)
{
	const char *term = "params";

	for (size_t i = 0; i < s->more.path_len; i++)
		term = arena_printf(&r->arena, "%s.%s", term, s->path[i]);
	return term;
}

int search_indexes(struct web_request *r, struct search *s, struct deferred_error *err)
{
	struct index_usable_row label = { 0 }, value = { 0 };
	int rc = 0;

	if (s->filter.label && !s->more.part)
		rc = index_usable_one(r->pg, "label", &label, err);
	if (rc == 0 && s->more.path_len > 0)
		rc = index_usable_one(r->pg, params_term(r, s), &value, err);
	s->filter.label_index = label.usable;
	s->more.value_index = value.usable;
	return rc;
}

bool search_has_index(const struct search *s)
{
	return !s->more.part && !s->more.outcome && !s->more.error && s->more.path_len == 0;
}

void search_query(struct web_request *r, const struct search *s, bool fixed)
{
	static const char *const names[] = { "q", "state", "queue", "fn", "outcome", "error" };
	const char *const meant[TIMES] = { s->filter.since, s->filter.until, s->filter.ended_since,
					   s->filter.ended_until };
	const size_t others = sizeof(names) / sizeof(names[0]);

	for (size_t i = 0; i < others + TIMES; i++) {
		const char *name = i < others ? names[i] : times[i - others];
		const char *value = fixed && i >= others ? meant[i - others] : page_query(r, name);

		if (value)
			html_printf(&r->reply.body, "%s=%s&amp;", name, page_url(r, value));
	}
}
