/* SPDX-License-Identifier: MIT */
#include "utf8.h"

size_t utf8_char(const char *text, size_t len, uint32_t *c)
{
	static const uint32_t least[] = { 0, 1, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)text;
	size_t n = len == 0      ? 0
		   : p[0] < 0x80 ? 1
		   : p[0] < 0xc0 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf8 ? 4
				 : 0;
	uint32_t value;

	if (n == 0 || n > len)
		return 0;
	value = n == 1 ? p[0] : p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		value = value << 6 | (p[i] & 0x3f);
	}
	if (value < least[n] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
		return 0;
	if (c)
		*c = value;
	return n;
}

size_t utf8_prefix(const char *text, size_t len)
{
	size_t i = 0, n;

	while (i < len && (n = utf8_char(text + i, len - i, NULL)) > 0)
		i += n;
	return i;
}

size_t utf8_count(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}
