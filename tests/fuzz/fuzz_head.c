/* SPDX-License-Identifier: MIT */
/* Bytes of a connection: in whatever pieces they come, the same requests are read, and there is one way to read them.
 * */
#include "fuzz.h"

#include "http/chunks.h"
#include "http/head.h"

#include <strings.h>

#define TOKEN "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* A connection that receives bytes in pieces, as connection.c reads them. */
struct stream {
	const char *bytes;
	size_t len, step;
	size_t came, at; /* received, and read of that */
};

static bool receive(struct stream *s)
{
	if (s->came == s->len)
		return false;
	s->came = s->len - s->came < s->step ? s->len : s->came + s->step;
	return true;
}

/* The end of the line at p, its CR. */
static const char *line_end(const char *p, const char *end)
{
	for (; *p != '\r'; p++)
		HOLDS(p < end && *p != '\n' && *p != '\0');
	HOLDS(p + 1 < end && p[1] == '\n');
	return p;
}

/* Reads an accepted head once more, by hand. */
static void check_head(const char *p, const char *end, const struct request *r)
{
	size_t lengths = 0, codings = 0;
	const char *line = line_end(p, end);

	HOLDS(line - p >= 12 && memcmp(line - 8, "HTTP/1.", 7) == 0);
	for (p = line + 2; (line = line_end(p, end)) > p; p = line + 2) {
		const char *colon = memchr(p, ':', (size_t)(line - p));

		HOLDS(colon && colon > p && strspn(p, TOKEN) == (size_t)(colon - p));
		if (colon - p == 14 && strncasecmp(p, "content-length", 14) == 0) {
			const char *digits = colon + 1 + strspn(colon + 1, " \t");

			HOLDS(lengths++ == 0 && line > digits &&
			      strspn(digits, "0123456789") == (size_t)(line - digits));
			HOLDS(r->length == strtoull(digits, NULL, 10) || r->length == UINT64_MAX);
		} else if (colon - p == 17 && strncasecmp(p, "transfer-encoding", 17) == 0) {
			HOLDS(codings++ == 0 && r->chunked && strncasecmp(line - 7, "chunked", 7) == 0);
		}
	}
	HOLDS(line + 2 == end && lengths + codings < 2);
}

/* False: the body is wrong or does not end. */
static bool read_body(struct stream *s, const struct request *r, uint64_t *sum)
{
	struct chunks k = { .state = 0 };
	uint64_t left = r->length;

	while (r->chunked ? !k.ended : left > 0) {
		size_t n = s->came - s->at, data_len;
		char *copy;

		if (n == 0 && !receive(s))
			return false;
		n = s->came - s->at;
		if (!r->chunked && n > left)
			n = (size_t)left;
		copy = malloc(n);
		HOLDS(copy);
		memcpy(copy, s->bytes + s->at, n);
		data_len = n;
		s->at += r->chunked ? chunks_read(&k, copy, n, &data_len) : n;
		HOLDS(data_len <= n);
		for (size_t i = 0; i < data_len; i++)
			*sum = *sum * 31 + (unsigned char)copy[i];
		left -= r->chunked ? 0 : n;
		free(copy);
		if (k.wrong)
			return false;
	}
	return true;
}

/* A sum of all that is read, up to the first request that is refused or not complete. */
static uint64_t read_requests(const char *bytes, size_t len, size_t step, bool *refused)
{
	struct stream s = { .bytes = bytes, .len = len, .step = step };
	uint64_t sum = 0;

	*refused = false;
	for (bool goes_on = true; goes_on;) {
		struct head h = { .start = 0 };
		enum head_found found = HEAD_INCOMPLETE;
		struct arena arena = { 0 };
		struct request r;

		while ((found = head_scan(&h, bytes + s.at, s.came - s.at)) == HEAD_INCOMPLETE && receive(&s))
			;
		if (found != HEAD_COMPLETE) {
			*refused = found == HEAD_WRONG;
			return sum * 31 + (uint64_t)h.status;
		}
		request_head(&r, &arena, bytes + s.at + h.start, h.len - h.start);
		request_end(&r);
		if (!r.broken)
			check_head(bytes + s.at + h.start, bytes + s.at + h.len, &r);
		s.at += h.len;
		sum = sum * 31 + r.length + r.verb + (uint64_t)r.fault;
		*refused = r.broken;
		goes_on = !r.broken && read_body(&s, &r, &sum);
		arena_clear(&arena);
	}
	return sum * 31 + s.at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *bytes = malloc(size + 1);
	bool whole, pieces;

	HOLDS(bytes);
	memcpy(bytes, data, size);
	bytes[size] = '\0';
	HOLDS(read_requests(bytes, size, size + 1, &whole) == read_requests(bytes, size, 1 + size % 7, &pieces));
	HOLDS(whole == pieces);
	free(bytes);
	return 0;
}
