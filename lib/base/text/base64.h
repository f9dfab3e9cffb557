/* SPDX-License-Identifier: MIT */
/* base64 - RFC 4648, with the letters + and /. */
#ifndef BASE64_H
#define BASE64_H

#include <stdbool.h>
#include <stddef.h>

#define BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1) /* bytes of the text of len bytes, and a NUL */

void base64_encode(const void *bytes, size_t len, char *text);

/* `bytes` has room for strlen(text) / 4 * 3 + 3. Line ends may stand anywhere; the padding is whole, or left out. */
bool base64_decode(const char *text, char *bytes, size_t *len);

#endif
