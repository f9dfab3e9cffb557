/* SPDX-License-Identifier: MIT */
#include "port/params.h"

#include "base/text/utf8.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nesting is counted before any parser recurses into the text. */
static size_t depth_of(const char *text, size_t len)
{
	size_t depth = 0, deepest = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '[' || c == '{') {
			if (++depth > deepest)
				deepest = depth;
		} else if ((c == ']' || c == '}') && depth > 0) {
			depth--;
		}
	}
	return deepest;
}

/* The text up to where its parser gave up, for a message: the end of it, and only what can be shown. */
static void quote_end(char buf[64], const char *text, size_t at)
{
	size_t from = at > 40 ? at - 40 : 0, n;

	while (from > 0 && from < at && ((unsigned char)text[from] & 0xc0) == 0x80)
		from++;
	n = at - from;
	memcpy(buf, text + from, n);
	buf[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)buf[i] < 0x20)
			buf[i] = ' ';
	for (size_t i = 0; (i += utf8_prefix(buf + i, n - i)) < n; i++)
		buf[i] = '?';
}

/*
 * The parser stops at a number that is too large for it, though we accept it. Such numbers are made small in place, so
 * that the rest can be checked. An exponent becomes 0, and a long integer keeps its last digit. An invalid number stays
 * invalid.
 */
static void tame_numbers(char *text, size_t len)
{
	bool in_string = false;

	for (size_t i = 0, n; i < len; i += n) {
		char before = i > 0 ? text[i - 1] : ' ';
		bool sign = before == '-' || before == '+';

		n = 1;
		if (in_string && text[i] == '\\')
			n = 2;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string)
			while (i + n - 1 < len && text[i + n - 1] >= '0' && text[i + n - 1] <= '9')
				n++;
		if (n == 1 || in_string)
			continue;
		n--; /* digits */
		if (before == 'e' || before == 'E' || (sign && i > 1 && (text[i - 2] == 'e' || text[i - 2] == 'E'))) {
			memset(text + i, '0', n);
		} else if (n > 15 && before != '.' && text[i] != '0') {
			memset(text + i, ' ', n - 1);
			if (before == '-')
				text[i - 1] = ' ';
		}
	}
}

/* NULL: it is not valid, see why; or, *no_memory, nobody knows. */
static json_t *load(const char *text, size_t len, json_error_t *why, bool *no_memory)
{
	json_t *json = json_loadb(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
	char *tame;

	*no_memory = false;
	if (json || json_error_code(why) != json_error_numeric_overflow)
		return json;
	tame = malloc(len);
	*no_memory = !tame;
	if (!tame)
		return NULL;
	memcpy(tame, text, len);
	tame_numbers(tame, len);
	json = json_loadb(tame, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, why);
	free(tame);
	return json;
}

int params_check(const char *text, size_t len, struct deferred_error *err)
{
	json_error_t why;
	bool no_memory;
	json_t *json;

	if (memchr(text, '\0', len))
		return error_set(err, DEFERRED_EINVAL, "params", "invalid JSON: NUL byte\nremove the byte");
	if (depth_of(text, len) > PARAMS_MAX_DEPTH)
		return error_set(err, DEFERRED_EINVAL, "params",
				 "invalid JSON: nested deeper than %d levels\nstore deep data elsewhere",
				 PARAMS_MAX_DEPTH);
	json = load(text, len, &why, &no_memory);
	if (no_memory)
		return error_set(err, DEFERRED_ENOMEM, "params", "out of memory");
	if (!json) {
		char read[64];

		quote_end(read, text, (size_t)why.position < len ? (size_t)why.position : len);
		error_set(err, DEFERRED_EINVAL, "params", "invalid JSON: line %d column %d, after '%s': %s", why.line,
			  why.column, read, why.text);
		error_hint(err, "pass one JSON value, such as {\"id\": 17}");
		return DEFERRED_EINVAL;
	}
	json_decref(json);
	return 0;
}

struct params_object *params_read(const char *text, size_t len)
{
	json_error_t why;
	bool no_memory;

	return (struct params_object *)load(text, len, &why, &no_memory);
}

void params_free(struct params_object *object)
{
	json_decref((json_t *)object);
}

const char *params_text(const struct params_object *object, const char *key)
{
	return json_string_value(json_object_get((const json_t *)object, key));
}

const struct params_object *params_member(const struct params_object *object, const char *key)
{
	const json_t *value = json_object_get((const json_t *)object, key);

	return json_is_object(value) ? (const struct params_object *)value : NULL;
}

bool params_has(const struct params_object *object, const char *key)
{
	return json_object_get((const json_t *)object, key) != NULL;
}

int64_t params_job(const struct params_object *object, const char *key)
{
	const json_t *value = json_object_get((const json_t *)object, key);

	if (json_is_array(value))
		value = json_array_get(value, 0);
	if (json_is_object(value))
		value = json_object_get(value, "job");
	return json_integer_value(value);
}

static void put(struct params_text *t, const char *p, size_t len)
{
	if (t->len + len + 1 > t->cap) {
		size_t cap = 2 * (t->len + len + 1);
		char *q = t->no_memory ? NULL : realloc(t->p, cap);

		if (!q) {
			t->no_memory = true;
			return;
		}
		t->p = q;
		t->cap = cap;
	}
	memcpy(t->p + t->len, p, len);
	t->len += len;
	t->p[t->len] = '\0';
}

static void put_quoted(struct params_text *t, const char *s)
{
	char escape[8];

	put(t, "\"", 1);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			put(t, escape, (size_t)snprintf(escape, sizeof(escape), "\\%c", *s));
		else if ((unsigned char)*s < 0x20)
			put(t, escape, (size_t)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)*s));
		else
			put(t, s, 1);
	}
	put(t, "\"", 1);
}

/* The text before a value: a comma unless it is the first, and its key. */
static void put_key(struct params_text *t, const char *key)
{
	if (t->len && t->p[t->len - 1] != '{' && t->p[t->len - 1] != '[')
		put(t, ",", 1);
	if (key) {
		put_quoted(t, key);
		put(t, ":", 1);
	}
}

void params_open(struct params_text *t, const char *key, char bracket)
{
	put_key(t, key);
	put(t, &bracket, 1);
}

void params_close(struct params_text *t, char bracket)
{
	put(t, &bracket, 1);
}

void params_string(struct params_text *t, const char *key, const char *value)
{
	if (utf8_prefix(value, strlen(value)) != strlen(value) && !t->invalid[0])
		snprintf(t->invalid, sizeof(t->invalid), "%s", key ? key : "element");
	put_key(t, key);
	put_quoted(t, value);
}

void params_json(struct params_text *t, const char *key, const char *json)
{
	put_key(t, key);
	put(t, json, strlen(json));
}

void params_flag(struct params_text *t, const char *key, bool value)
{
	put_key(t, key);
	put(t, value ? "true" : "false", value ? 4 : 5);
}

void params_number(struct params_text *t, const char *key, double value)
{
	char text[40] = "null";

	if (isfinite(value))
		snprintf(text, sizeof(text), "%.15g", value);
	put_key(t, key);
	put(t, text, strlen(text));
}

int params_take(struct params_text *t, char **text, struct deferred_error *err)
{
	int rc = 0;

	if (t->no_memory)
		rc = error_set(err, DEFERRED_ENOMEM, "params", "out of memory");
	else if (t->invalid[0])
		rc = error_set(err, DEFERRED_EINVAL, "params", "%s is not valid UTF-8\nconvert the text to UTF-8",
			       t->invalid);
	if (rc < 0)
		free(t->p);
	*text = rc < 0 ? NULL : t->p;
	*t = (struct params_text){ 0 };
	return rc;
}
