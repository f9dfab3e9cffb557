/* SPDX-License-Identifier: MIT */
#include "visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the first character and its number; 0: no valid UTF-8, which is the shortest form, no surrogate, nothing above U+10FFFF. */
static size_t decode(const unsigned char *p, uint32_t *c)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf8 ? 4 : 0;

	*c = len < 2 ? p[0] : p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80) /* the NUL among them */
			return 0;
		*c = *c << 6 | (p[i] & 0x3f);
	}
	return len && *c >= least[len] && *c <= 0x10ffff && (*c < 0xd800 || *c > 0xdfff) ? len : 0;
}

/* Not U+200C and U+200D, which words and emoji are written with. */
static bool misleads(uint32_t c)
{
	return (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x200b || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

size_t visible_char(const char *text, char out[VISIBLE_MAX])
{
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c;
	size_t len = decode(p, &c);

	if (c == '\n') {
		strcpy(out, "\\n");
	} else if (!len || c < 0x20 || c == 0x7f) {
		snprintf(out, VISIBLE_MAX, "\\x%02x", p[0]);
		return 1;
	} else if (misleads(c)) {
		snprintf(out, VISIBLE_MAX, "\\u%04x", (unsigned int)c & 0xffff);
	} else {
		memcpy(out, text, len);
		out[len] = '\0';
	}
	return len;
}
