/* SPDX-License-Identifier: MIT */
#include "html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a character that changes the direction of text or is shown as nothing; 0: it is another character.
 * They are U+061C, U+200B to U+200F, U+202A to U+202E, U+2060 to U+2069 and U+FEFF. */
static size_t invisible(const unsigned char *p, size_t len)
{
	if (len >= 2 && p[0] == 0xd8 && p[1] == 0x9c)
		return 2;
	if (len >= 3 && p[0] == 0xe2 && p[1] == 0x80 &&
	    ((p[2] >= 0x8b && p[2] <= 0x8f) || (p[2] >= 0xaa && p[2] <= 0xae)))
		return 3;
	if (len >= 3 && p[0] == 0xe2 && p[1] == 0x81 && p[2] >= 0xa0 && p[2] <= 0xa9)
		return 3;
	return len >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
}

static const char *entity(unsigned char c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		/* C0 has a picture each, from U+2400 on. */
		return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? "" : NULL;
	}
}

/* Of a character of two or three bytes. */
static unsigned code_point(const unsigned char *p, size_t len)
{
	return len == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
			: (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
}

static void escape(struct buf *b, const char *text, size_t len, bool keep)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t from = 0;

	for (size_t i = 0; i < len;) {
		const char *instead = entity(p[i]);
		size_t skip = instead ? 1 : invisible(p + i, len - i);

		if (skip == 0) {
			i++;
			continue;
		}
		buf_add(b, text + from, i - from);
		if (!instead && keep)
			buf_printf(b, "&#x%x;", code_point(p + i, skip));
		else if (!instead)
			html_raw(b, "\xef\xbf\xbd");
		else if (*instead)
			buf_text(b, instead);
		else
			buf_printf(b, "\xe2\x90%c", p[i] == 0x7f ? 0xa1 : 0x80 + p[i]);
		i += skip;
		from = i;
	}
	buf_add(b, text + from, len - from);
}

void html_text_n(struct buf *b, const char *text, size_t len)
{
	escape(b, text, len, false);
}

void html_text(struct buf *b, const char *text)
{
	html_text_n(b, text ? text : "", text ? strlen(text) : 0);
}

void html_field(struct buf *b, const char *text)
{
	escape(b, text ? text : "", text ? strlen(text) : 0, true);
}

const char *html_url(struct arena *arena, const char *text)
{
	char *url = arena_alloc(arena, 3 * strlen(text ? text : "") + 1), *to = url;

	for (const unsigned char *p = (const unsigned char *)(text ? text : ""); *p; p++) {
		if ((*p >= '0' && *p <= '9') || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'z') || strchr("-_~", *p))
			*to++ = (char)*p;
		else
			to += sprintf(to, "%%%02X", *p);
	}
	return url;
}

/* A conversion, from its "%" on. Returns its length. */
static size_t convert(struct buf *b, const char *spec, va_list *args)
{
	size_t len = strcspn(spec + 1, "sduf%") + 2;

	switch (spec[len - 1]) {
	case '%':
		html_raw(b, "%");
		break;
	case 's':
		if (spec[1] == '-')
			buf_text(b, va_arg(*args, const char *));
		else if (spec[1] == '.')
			html_json(b, va_arg(*args, const char *));
		else
			html_text(b, va_arg(*args, const char *));
		break;
	case 'f':
		buf_printf(b, "%.*f", atoi(spec + 2), va_arg(*args, double));
		break;
	case 'u':
		buf_printf(b, "%zu", spec[1] == 'z' ? va_arg(*args, size_t) : va_arg(*args, unsigned));
		break;
	default:
		buf_printf(b, "%" PRId64, spec[1] == 'l' ? va_arg(*args, int64_t) : va_arg(*args, int));
	}
	return len;
}

void html_format(struct buf *b, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	for (size_t len; *fmt; fmt += len) {
		len = strcspn(fmt, "%");
		buf_add(b, fmt, len);
		if (len == 0)
			len = convert(b, fmt, &args);
	}
	va_end(args);
}

void html_json(struct buf *b, const char *text)
{
	if (!text) {
		html_raw(b, "null");
		return;
	}
	html_raw(b, "\"");
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if (*p == '"' || *p == '\\')
			buf_printf(b, "\\%c", *p);
		else if (*p < 0x20 || *p == 0x7f || *p == '<' || *p == '>' || *p == '&')
			buf_printf(b, "\\u%04x", *p);
		else
			buf_add(b, (const char *)p, 1);
	}
	html_raw(b, "\"");
}
