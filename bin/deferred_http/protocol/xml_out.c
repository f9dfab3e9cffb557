/* SPDX-License-Identifier: MIT */
#include "protocol/xml_out.h"

#include <string.h>

void xml_start(struct buf *out)
{
	buf_text(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?>");
}

/* What stands for the byte at p: an entity, or the replacement of what XML has no way to write. *len bytes are used up.
 * */
static const char *instead(const unsigned char *p, size_t left, size_t *len)
{
	*len = 1;
	if (*p == '&')
		return "&amp;";
	if (*p == '<')
		return "&lt;";
	if (*p == '>')
		return "&gt;";
	if (*p == '\r')
		return "&#xD;";
	if (*p < 0x20 && *p != '\t' && *p != '\n')
		return "\xef\xbf\xbd";
	if (*p == 0xef && left >= 3 && p[1] == 0xbf && p[2] >= 0xbe) { /* U+FFFE, U+FFFF */
		*len = 3;
		return "\xef\xbf\xbd";
	}
	return NULL;
}

void xml_text(struct buf *out, const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + len, *from = p;

	while (p < end) {
		size_t used;
		const char *other = *p >= 0x40 && *p != 0xef ? NULL : instead(p, (size_t)(end - p), &used);

		if (!other) {
			p++;
			continue;
		}
		buf_add(out, (const char *)from, (size_t)(p - from));
		buf_text(out, other);
		from = p += used;
	}
	buf_add(out, (const char *)from, (size_t)(end - from));
}

void xml_open(struct buf *out, const char *name)
{
	buf_add(out, "<", 1);
	buf_text(out, name);
	buf_add(out, ">", 1);
}

void xml_close(struct buf *out, const char *name)
{
	buf_add(out, "</", 2);
	buf_text(out, name);
	buf_add(out, ">", 1);
}

void xml_element(struct buf *out, const char *name, const char *text)
{
	if (!text[0]) {
		buf_add(out, "<", 1);
		buf_text(out, name);
		buf_add(out, "/>", 2);
		return;
	}
	xml_open(out, name);
	xml_text(out, text, strlen(text));
	xml_close(out, name);
}
