/* SPDX-License-Identifier: MIT */
#include "base64.h"

#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *bytes, size_t len, char *text)
{
	const unsigned char *in = bytes;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		unsigned int bits =
			(unsigned int)in[i] << 16 | (left > 1 ? in[i + 1] : 0u) << 8 | (left > 2 ? in[i + 2] : 0u);

		*text++ = letters[bits >> 18];
		*text++ = letters[bits >> 12 & 63];
		*text++ = left > 1 ? letters[bits >> 6 & 63] : '=';
		*text++ = left > 2 ? letters[bits & 63] : '=';
	}
	*text = '\0';
}

bool base64_decode(const char *text, char *bytes, size_t *len)
{
	size_t n = 0, padding = 0;
	unsigned int bits = 0;

	*len = 0;
	for (; *text; text++) {
		const char *at = strchr(letters, *text);

		if (*text == '\r' || *text == '\n')
			continue;
		padding += *text == '=';
		if (padding ? *text != '=' : !at)
			return false;
		if (padding)
			continue;
		bits = bits << 6 | (unsigned int)(at - letters);
		if (++n % 4 != 1)
			bytes[(*len)++] = (char)(bits >> (6 - 2 * ((n - 1) % 4)));
	}
	return n % 4 != 1 && (padding == 0 || (padding <= 2 && (n + padding) % 4 == 0));
}
