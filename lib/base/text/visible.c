/* SPDX-License-Identifier: MIT */
#include "visible.h"

#include "utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Not U+200C and U+200D, which words and emoji are written with. */
static bool misleads(uint32_t c)
{
	return (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x61c || c == 0x200b || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

size_t visible_char(const char *text, char out[VISIBLE_MAX])
{
	uint32_t c = 0;
	size_t len = utf8_char(text, strnlen(text, 4), &c);

	if (c == '\n') {
		strcpy(out, "\\n");
	} else if (!len || c < 0x20 || c == 0x7f) {
		snprintf(out, VISIBLE_MAX, "\\x%02x", (unsigned char)text[0]);
		return 1;
	} else if (misleads(c)) {
		snprintf(out, VISIBLE_MAX, "\\u%04hx", (unsigned short)c);
	} else {
		memcpy(out, text, len);
		out[len] = '\0';
	}
	return len;
}
