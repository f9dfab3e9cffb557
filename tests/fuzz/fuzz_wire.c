/* SPDX-License-Identifier: MIT */
/* Bytes of a connection: however they come, the same passes on, and there is one way to read it. */
#include "fuzz.h"

#include "http/wire.h"

#include <strings.h>

#define TOKEN "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* In pieces of up to `step` bytes. *len: how much came out. */
static char *pass(struct wire *w, const uint8_t *data, size_t size, size_t step, size_t *len)
{
	char *out = malloc(2 * size + 2 * WIRE_LATER_BYTES);

	*w = (struct wire){ .state = 0 };
	*len = 0;
	HOLDS(out);
	for (size_t i = 0; i < size; i += step) {
		size_t piece = size - i < step ? size - i : step;

		*len += wire_pass(w, (const char *)data + i, piece, out + *len, piece);
		HOLDS(w->later_len < WIRE_LATER_BYTES / 2);
		*len += wire_later(w, out + *len, WIRE_LATER_BYTES);
	}
	return out;
}

/* The end of the line at p, its CR. NULL: it is not there yet. */
static const char *line_end(const char *p, const char *end)
{
	for (; p < end; p++) {
		HOLDS(*p != '\n' && *p != '\0');
		if (*p == '\r') {
			HOLDS(p + 1 == end || p[1] == '\n');
			return p + 1 == end ? NULL : p;
		}
	}
	return NULL;
}

/* What follows the chunks at p. NULL: they are not whole. */
static const char *skip_chunks(const char *p, const char *end)
{
	for (;;) {
		const char *line = line_end(p, end);
		size_t size;

		if (!line)
			return NULL;
		HOLDS(line > p && strspn(p, "0123456789abcdef") == (size_t)(line - p));
		size = strtoull(p, NULL, 16);
		p = line + 2;
		if ((size_t)(end - p) < size + 2)
			return NULL;
		HOLDS(memcmp(p + size, "\r\n", 2) == 0);
		p += size + 2;
		if (size == 0)
			return p;
	}
}

/* What follows the request at p. NULL: it is not whole. */
static const char *skip_request(const char *p, const char *end)
{
	const char *line = line_end(p, end);
	size_t lengths = 0, codings = 0, length = 0;

	if (!line)
		return NULL;
	HOLDS(line - p >= 12 && (memcmp(line - 8, "HTTP/1.1", 8) == 0 || memcmp(line - 8, "HTTP/1.0", 8) == 0));
	for (p = line + 2; (line = line_end(p, end)) && line > p; p = line + 2) {
		const char *colon = memchr(p, ':', (size_t)(line - p));

		HOLDS(colon && colon > p && strspn(p, TOKEN) == (size_t)(colon - p));
		if (colon - p == 14 && strncasecmp(p, "content-length", 14) == 0) {
			HOLDS(lengths++ == 0 && line > colon + 1 &&
			      strspn(colon + 1, "0123456789") == (size_t)(line - colon) - 1);
			length = strtoull(colon + 1, NULL, 10);
		} else if (colon - p == 17 && strncasecmp(p, "transfer-encoding", 17) == 0) {
			HOLDS(codings++ == 0 && line - colon == 8 && memcmp(colon + 1, "chunked", 7) == 0);
		}
	}
	HOLDS(lengths + codings < 2);
	if (!line)
		return NULL;
	p = line + 2;
	if (codings > 0)
		return skip_chunks(p, end);
	return (size_t)(end - p) < length ? NULL : p + length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire w, other;
	size_t len, other_len;
	unsigned requests = 0;
	char *out = pass(&w, data, size, size ? size : 1, &len),
	     *same = pass(&other, data, size, 1 + size % 7, &other_len);
	char *copy = malloc(len + 1);

	HOLDS(len == other_len && memcmp(out, same, len) == 0);
	HOLDS(w.broken == other.broken && w.status == other.status && w.requests == other.requests &&
	      w.broken == (w.status >= 400));
	HOLDS(copy);
	memcpy(copy, out, len);
	copy[len] = '\0';
	for (const char *p = copy; p && p < copy + len; p = skip_request(p, copy + len))
		requests++;
	HOLDS(requests == w.requests);
	free(copy);
	free(out);
	free(same);
	return 0;
}
