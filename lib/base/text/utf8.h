/* SPDX-License-Identifier: MIT */
/* utf8 - is it UTF-8, and which character: the one place that walks over it. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at text, of which len are there, and its number in *c (may be NULL). 0 for none: no UTF-8 as
 * RFC 3629 has it (the shortest form, no surrogates, nothing above U+10FFFF), or a NUL. */
size_t utf8_char(const char *text, size_t len, uint32_t *c);

/* How many characters a text has, if it is valid. */
size_t utf8_count(const char *text);

/* Length of the longest prefix that is valid, and without NUL. */
size_t utf8_prefix(const char *text, size_t len);

#endif
