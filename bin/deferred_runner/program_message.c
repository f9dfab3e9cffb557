/* SPDX-License-Identifier: MIT */
#include "program_message.h"

#include "base/text/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---------------------------------------------------------------------------------- */

struct cursor {
	char *at, *end;
};

static const char not_flat[] = "it is not a flat JSON object";

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r'))
		c->at++;
}

static bool take_char(struct cursor *c, char wanted)
{
	skip_space(c);
	if (c->at == c->end || *c->at != wanted)
		return false;
	c->at++;
	return true;
}

static bool take_hex(struct cursor *c, uint32_t *number)
{
	*number = 0;
	for (int i = 0; i < 4; i++, c->at++) {
		int digit;

		if (c->at == c->end)
			return false;
		digit = *c->at >= '0' && *c->at <= '9'   ? *c->at - '0'
			: *c->at >= 'a' && *c->at <= 'f' ? *c->at - 'a' + 10
			: *c->at >= 'A' && *c->at <= 'F' ? *c->at - 'A' + 10
							 : -1;
		if (digit < 0)
			return false;
		*number = *number * 16 + (uint32_t)digit;
	}
	return true;
}

/* What \u stands for, in at most as many bytes as it took. NUL and halves of pairs become U+FFFD. */
static bool take_escaped(struct cursor *c, char **to)
{
	uint32_t n, low;
	char *out = *to;

	if (!take_hex(c, &n))
		return false;
	if (n >= 0xd800 && n < 0xdc00 && c->end - c->at >= 6 && c->at[0] == '\\' && c->at[1] == 'u') {
		struct cursor second = { c->at + 2, c->end };

		if (!take_hex(&second, &low))
			return false;
		if (low >= 0xdc00 && low < 0xe000) {
			n = 0x10000 + ((n - 0xd800) << 10) + (low - 0xdc00);
			c->at = second.at;
		}
	}
	if (n == 0 || (n >= 0xd800 && n < 0xe000))
		n = 0xfffd;
	if (n < 0x80) {
		*out++ = (char)n;
	} else if (n < 0x800) {
		*out++ = (char)(0xc0 | n >> 6);
	} else if (n < 0x10000) {
		*out++ = (char)(0xe0 | n >> 12);
		*out++ = (char)(0x80 | (n >> 6 & 0x3f));
	} else {
		*out++ = (char)(0xf0 | n >> 18);
		*out++ = (char)(0x80 | (n >> 12 & 0x3f));
		*out++ = (char)(0x80 | (n >> 6 & 0x3f));
	}
	if (n >= 0x80)
		*out++ = (char)(0x80 | (n & 0x3f));
	*to = out;
	return true;
}

/* A string, in its own place: it never gets longer. NULL: it is not one. */
static char *take_string(struct cursor *c)
{
	static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	char *text, *to;

	if (!take_char(c, '"'))
		return NULL;
	text = to = c->at;
	while (c->at < c->end && *c->at != '"') {
		const char *letter;

		if ((unsigned char)*c->at < ' ')
			return NULL;
		if (*c->at != '\\') {
			*to++ = *c->at++;
			continue;
		}
		if (c->end - ++c->at < 1)
			return NULL;
		if (*c->at == 'u') {
			c->at++;
			if (!take_escaped(c, &to))
				return NULL;
			continue;
		}
		letter = *c->at ? strchr(letters, *c->at) : NULL;
		if (!letter)
			return NULL;
		*to++ = meant[letter - letters];
		c->at++;
	}
	if (c->at == c->end)
		return NULL;
	c->at++;
	*to = '\0';
	return text;
}

/* A whole number of JSON: "-" and digits, without zeros in front. */
static bool take_integer(struct cursor *c, int64_t *number)
{
	const char *first;
	bool below;

	skip_space(c);
	below = take_char(c, '-');
	first = c->at;
	*number = 0;
	for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, below ? '0' - *c->at : *c->at - '0', number))
			return false;
	return c->at > first && (*first != '0' || c->at == first + 1);
}

/* Where a member goes; a number may also come as a string. */
static const struct member {
	const char *name;
	size_t offset;
	bool is_text;
} members[] = {
	{ "fn", offsetof(struct message, name), true },
	{ "name", offsetof(struct message, name), true },
	{ "text", offsetof(struct message, text), true },
	{ "version", offsetof(struct message, version), true },
	{ "outcome", offsetof(struct message, outcome), true },
	{ "job", offsetof(struct message, job), false },
	{ "bytes", offsetof(struct message, bytes), false },
	{ "params", offsetof(struct message, params), false },
	{ "timeout_ms", offsetof(struct message, timeout_ms), false },
	{ "max_attempts", offsetof(struct message, max_attempts), false },
	{ "batch", offsetof(struct message, batch), false },
	{ "batch_wait_ms", offsetof(struct message, batch_wait_ms), false },
	{ "progress_resets", offsetof(struct message, progress_resets), false },
	{ "protocol", offsetof(struct message, protocol), false },
	{ "level", offsetof(struct message, level), false },
	{ "last", offsetof(struct message, last), false },
	{ "done", offsetof(struct message, done), false },
	{ "total", offsetof(struct message, total), false },
	{ "after_ms", offsetof(struct message, after_ms), false },
};

static const char *const types[MESSAGE_TYPES] = { "function", "ready", "progress", "log", "defer", "step", "done" };

static bool set_type(struct message *m, const char *text)
{
	for (size_t i = 0; i < MESSAGE_TYPES; i++)
		if (strcmp(types[i], text) == 0)
			m->type = (enum message_type)i;
	return m->type != MESSAGE_TYPES;
}

/* Returns NULL, or what is wrong. text: NULL if the value is a number. */
static const char *set_member(struct message *m, const char *name, char *text, int64_t number)
{
	const struct member *known = NULL;
	struct cursor digits;

	if (strcmp(name, "type") == 0)
		return text && set_type(m, text) ? NULL : "its type is unknown";
	for (size_t i = 0; !known && i < sizeof(members) / sizeof(members[0]); i++)
		if (strcmp(members[i].name, name) == 0)
			known = &members[i];
	if (!known)
		return NULL;
	if (known->is_text && !text)
		return "a number is where a string belongs";
	if (known->is_text) {
		memcpy((char *)m + known->offset, &text, sizeof(text));
		return NULL;
	}
	if (text) {
		digits = (struct cursor){ text, text + strlen(text) };
		if (!take_integer(&digits, &number) || digits.at != digits.end)
			return "a string is where a whole number belongs";
	}
	memcpy((char *)m + known->offset, &number, sizeof(number));
	return NULL;
}

static const char *read_members(char *line, size_t len, struct message *m)
{
	struct cursor c = { line, line + len };
	const char *wrong = NULL;

	*m = (struct message){ .type = MESSAGE_TYPES, .name = "", .text = "", .version = "", .outcome = "" };
	m->job = m->done = m->total = m->after_ms = -1;
	if (!take_char(&c, '{'))
		return not_flat;
	do {
		const char *name = take_string(&c);
		char *text = NULL;
		int64_t number = 0;

		if (!name || !take_char(&c, ':'))
			return not_flat;
		skip_space(&c);
		if (c.at < c.end && *c.at == '"' ? !(text = take_string(&c)) : !take_integer(&c, &number))
			return not_flat;
		wrong = set_member(m, name, text, number);
	} while (!wrong && take_char(&c, ','));
	if (wrong)
		return wrong;
	if (!take_char(&c, '}'))
		return not_flat;
	skip_space(&c);
	return c.at != c.end ? not_flat : NULL;
}

const char *message_read(char *line, size_t len, struct message *m)
{
	const char *wrong = read_members(line, len, m);

	if (wrong)
		return wrong;
	if (m->type == MESSAGE_TYPES)
		return "it has no type";
	if (m->bytes < 0 || m->bytes > MESSAGE_BODY_MAX)
		return "its body is larger than 16 MiB";
	return m->params < 0 || m->params > m->bytes ? "its params are larger than its body" : NULL;
}

const char *message_read_outcome(char *line, size_t len, struct message *m)
{
	const char *wrong = read_members(line, len, m);

	return wrong ? wrong : message_outcome(m) < 0 ? "its outcome is unknown" : NULL;
}

int message_outcome(const struct message *m)
{
	static const struct {
		const char *outcome;
		int result;
	} outcomes[] = {
		{ "ok", DEFERRED_OK },           { "failed", DEFERRED_FAILED }, { "later", DEFERRED_LATER },
		{ "dead", DEFERRED_DEAD },       { "cancel", DEFERRED_CANCEL }, { "snooze", DEFERRED_SNOOZE },
		{ "unready", DEFERRED_UNREADY },
	};

	for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
		if (strcmp(outcomes[i].outcome, m->outcome) == 0)
			return outcomes[i].result;
	return -1;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void put_bytes(struct message_head *h, const char *bytes, size_t n)
{
	if (h->len + n > sizeof(h->data) - 2) { /* "}" and the newline follow */
		h->too_long = true;
		return;
	}
	memcpy(h->data + h->len, bytes, n);
	h->len += n;
}

/* Bytes that are not UTF-8 become U+FFFD. */
static void put_string(struct message_head *h, const char *text)
{
	size_t left = strlen(text), n;
	char escaped[8];

	put_bytes(h, "\"", 1);
	for (; left > 0; text += n, left -= n) {
		n = utf8_char(text, left, NULL);
		if (n == 0) {
			put_bytes(h, "\xef\xbf\xbd", 3);
			n = 1;
		} else if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ') {
			snprintf(escaped, sizeof(escaped), "\\u%04x", (unsigned int)*text);
			put_bytes(h, escaped, strlen(escaped));
		} else {
			put_bytes(h, text, n);
		}
	}
	put_bytes(h, "\"", 1);
}

static void put_member_name(struct message_head *h, const char *name)
{
	put_bytes(h, ",", 1);
	put_string(h, name);
	put_bytes(h, ":", 1);
}

void message_begin(struct message_head *h, const char *type)
{
	h->len = 0;
	h->too_long = false;
	put_bytes(h, "{\"type\":", 8);
	put_string(h, type);
}

void message_put_text(struct message_head *h, const char *name, const char *text)
{
	put_member_name(h, name);
	put_string(h, text);
}

void message_put_number(struct message_head *h, const char *name, int64_t number)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)number);
	put_member_name(h, name);
	put_bytes(h, text, strlen(text));
}

void message_put_id(struct message_head *h, const char *name, int64_t id)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)id);
	message_put_text(h, name, text);
}

void message_put_call(struct message_head *h, const struct deferred_call *call, int64_t left_ms)
{
	message_put_id(h, "job", call->id);
	message_put_text(h, "fn", call->fn);
	message_put_number(h, "attempt", call->attempt);
	message_put_id(h, "receipt", call->receipt);
	message_put_number(h, "created_us", call->created_at_us);
	if (left_ms >= 0)
		message_put_number(h, "timeout_ms", left_ms);
	if (call->label[0])
		message_put_text(h, "label", call->label);
	if (call->traceparent[0])
		message_put_text(h, "traceparent", call->traceparent);
	if (call->tick)
		message_put_number(h, "tick_us", call->tick);
	if (call->previous_tick)
		message_put_number(h, "previous_tick_us", call->previous_tick);
}

void message_end(struct message_head *h)
{
	memcpy(h->data + h->len, "}\n", 2);
	h->len += 2;
}
