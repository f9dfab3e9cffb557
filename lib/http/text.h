/* SPDX-License-Identifier: MIT */
/* text - percent-encoding, UTF-8, numbers and times as they stand in requests and answers. Pure functions. */
#ifndef TEXT_H
#define TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes %XX in place. "+" stays. Returns the new length, or -1: an escape is malformed, or the result is not UTF-8 or
 * has a NUL. */
long text_percent_decode(char *text, size_t len);

bool text_is_utf8(const char *text, size_t len); /* NUL is none */

/* A whole number as people write it: perhaps "-", then digits. Beyond 64 bits it is the largest or smallest. */
bool text_whole(const char *text, int64_t *number);

#define TEXT_RFC1123_SIZE 30
/* "Fri, 20 Nov 2026 18:15:32 GMT"; us since 1970, cut to the second; beyond the year 9999 its last second. */
void text_rfc1123(int64_t us, char text[TEXT_RFC1123_SIZE]);
bool text_rfc1123_parse(const char *text, int64_t *s);

#define TEXT_ISO_SIZE 32
void text_iso8601(int64_t us, char text[TEXT_ISO_SIZE]); /* "2026-11-20T18:15:32.410Z" */

/* YYYY-MM-DD[THH:MM[:SS[.fraction]]][Z], whole seconds since 1970. */
bool text_iso8601_parse(const char *text, int64_t *s);

/* "YYYY-MM-DD", from 2009-04-14 on: a version of the protocol. */
bool text_is_version(const char *text);

int64_t text_now_us(void);

#endif
