/* SPDX-License-Identifier: MIT */
/*
 * fuzz - what the fuzz targets share. A target is one function that takes any bytes, aborts where a promise is broken,
 * and leaves nothing behind. It is linked with libFuzzer where clang is installed, else with driver.c.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "protocol/auth.h"
#include "protocol/address.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
			abort(); \
		} \
	} while (0)

/* "METHOD TARGET ...\r\nName: value\r\n...": lines end at LF, one CR before it is taken off. */
static inline enum fault fuzz_request(struct request *r, struct arena *arena, const char *text, size_t size)
{
	const char *end = text + size, *line = memchr(text, '\n', size), *p = text;
	const char *line_end = line ? line : end, *space = memchr(text, ' ', (size_t)(line_end - text)), *target_end;
	char method[32] = "";

	if (space) {
		memcpy(method, text,
		       (size_t)(space - text) < sizeof(method) ? (size_t)(space - text) : sizeof(method) - 1);
		p = space + 1;
	}
	target_end = memchr(p, ' ', (size_t)(line_end - p));
	request_line(r, arena, method, p, (size_t)((target_end ? target_end : line_end) - p));
	while (line && line + 1 < end) {
		const char *start = line + 1, *colon;
		size_t len;

		line = memchr(start, '\n', (size_t)(end - start));
		len = (size_t)((line ? line : end) - start);
		if (len > 0 && start[len - 1] == '\r')
			len--;
		if (len == 0)
			break;
		colon = memchr(start, ':', len);
		request_header(r, start, colon ? (size_t)(colon - start) : len, colon ? colon + 1 : "",
			       colon ? (size_t)(start + len - colon) - 1 : 0);
	}
	return address_read(r);
}

#endif
