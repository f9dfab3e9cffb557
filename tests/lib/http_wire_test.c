/* SPDX-License-Identifier: MIT */
/* What passes on to libmicrohttpd, whole or byte by byte: the same. */
#include "http/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define H "Host: x\r\n"
#define OUT_MAX 65536

static char out[OUT_MAX];

/* In pieces of `step` bytes, into room of no more than the piece. */
static size_t pass(struct wire *w, const char *in, size_t len, size_t step)
{
	size_t n = 0;

	*w = (struct wire){ .state = 0 };
	for (size_t i = 0; i < len; i += step) {
		size_t piece = len - i < step ? len - i : step;

		n += wire_pass(w, in + i, piece, out + n, piece);
		n += wire_later(w, out + n, OUT_MAX - n);
	}
	return n;
}

struct step {
	const char *in, *out;
	unsigned requests;
	int status; /* 0: it goes on */
};

static void check(const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(steps[i].in);

		for (size_t step = 1; step <= len; step = step == len ? len + 1 : step * 3 < len ? step * 3 : len) {
			struct wire w;
			size_t got = pass(&w, steps[i].in, len, step);

			if (got != strlen(steps[i].out) || memcmp(out, steps[i].out, got) != 0)
				fail_msg("%s\n(in pieces of %zu) became\n%.*s", steps[i].in, step, (int)got, out);
			assert_int_equal(w.broken, steps[i].status != 0);
			assert_int_equal(w.status, steps[i].status);
			assert_int_equal(w.requests, steps[i].requests);
		}
	}
}

#define CHECK(steps) check(steps, sizeof(steps) / sizeof(steps[0]))

static void good_requests_pass_as_they_are(void **state)
{
	static const struct step steps[] = {
		{ "GET /a?b=c HTTP/1.1\r\n" H "\r\n", "GET /a?b=c HTTP/1.1\r\n" H "\r\n", 1, 0 },
		{ "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", 1, 0 },
		{ "PUT / HTTP/1.1\r\n" H "Content-Length:  3\r\nX:\r\n\r\na\nbGET / HTTP/1.1\r\n" H "\r\n",
		  "PUT / HTTP/1.1\r\n" H "Content-Length:3\r\nX:\r\n\r\na\nbGET / HTTP/1.1\r\n" H "\r\n", 2, 0 },
		{ "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n\r\nGET /", "GET / HTTP/1.1\r\n" H "\r\nGET /", 2, 0 },
		{ "PUT / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\nGET ",
		  "PUT / HTTP/1.1\r\n" H "Content-Length:0\r\n\r\nGET ", 2, 0 },
		{ "GET / HTTP/1.1\r\n" H "Cookie: a=\"\r\nCookies: b\r\n\r\n",
		  "GET / HTTP/1.1\r\n" H "Cookie:\r\nCookies: b\r\n\r\n", 1, 0 },
		{ "GET / HTTP/1.7\r\n" H "A: b\tc \r\n\r\n", "GET / HTTP/1.1\r\n" H "A: b\tc \r\n\r\n", 1, 0 },
	};

	(void)state;
	CHECK(steps);
}

static void chunks_pass_without_extensions_and_trailers(void **state)
{
	static const struct step steps[] = {
		{ "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: "
		  "Chunked\r\n\r\n005;a=\"b\"\r\nhello\r\n1F\r\n0123456789012345678901234567890\r\n0;x\r\nA: "
		  "b\r\nC:\r\n\r\nGET ",
		  "PUT / HTTP/1.1\r\n" H "Transfer-Encoding:"
		  "chunked\r\n\r\n5\r\nhello\r\n1f\r\n0123456789012345678901234567890\r\n0\r\n\r\nGET ",
		  2, 0 },
	};

	(void)state;
	CHECK(steps);
}

static void what_can_be_read_in_two_ways_ends_the_request(void **state)
{
	static const struct step steps[] = {
		{ "GET / HTTP/1.1\r\nContent-Length:\r\n 36\r\n\r\nrest",
		  "GET / HTTP/1.1\r\nContent-Length:0\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\nrest", "GET / HTTP/1.1\r\nA: b\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\nrest", "GET / HTTP/1.1\r\nA: b\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\n\nrest", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\n\rrest", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\n: b\r\n\r\nrest", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\nrest",
		  "GET / HTTP/1.1\r\nContent-Length-:\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 5x\r\n\r\nrest",
		  "GET / HTTP/1.1\r\nContent-Length:5\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nrest",
		  "GET / HTTP/1.1\r\nContent-Length:5\r\nTransfer-Encoding-:\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\nrest",
		  "GET / HTTP/1.1\r\nTransfer-Encoding:chunked\r\nHost:-\r\n\r\n0\r\n\r\n", 1, 400 },
		{ "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\nhello",
		  "PUT / HTTP/1.1\r\n" H "Transfer-Encoding:chunked\r\n\r\n0\r\n\r\n", 1, 400 },
		{ "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n5\r\nhello!",
		  "PUT / HTTP/1.1\r\n" H "Transfer-Encoding:chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 1, 400 },
		{ "\n", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GE(", "GE / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET \r\n", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET /\r\n", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost:-\r\n\r\n", 1, 505 },
		{ "GET / HTTP/1.1\r\nContent-Length: 1234567890123456789\r\n\r\n",
		  "GET / HTTP/1.1\r\nContent-Length:123456789012345678\r\nHost:-\r\n\r\n", 1, 413 },
		{ "GET / HTTP/1.1\r\nA: b\r\n\r\nrest", "GET / HTTP/1.1\r\nA: b\r\nHost:-\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\n" H H "\r\nrest", "GET / HTTP/1.1\r\n" H "Host-:\r\n\r\n", 1, 400 },
		{ "GET / HTTP/1.1\r\n" H "\r\nGET / HTTP/1.1\r\n x",
		  "GET / HTTP/1.1\r\n" H "\r\nGET / HTTP/1.1\r\nHost:-\r\n\r\n", 2, 400 },
	};

	(void)state;
	CHECK(steps);
}

static void a_head_that_is_too_large_is_ended_within_its_limit(void **state)
{
	static char in[2 * WIRE_HEAD_MAX];
	struct wire w;
	size_t n;

	(void)state;
	memset(in, 'x', sizeof(in));
	memcpy(in, "GET /", 5);
	n = pass(&w, in, sizeof(in), 1000);
	assert_int_equal(w.status, 414);
	assert_true(n < WIRE_HEAD_MAX + 100 && memcmp(out + n - 4, "\r\n\r\n", 4) == 0);
	memcpy(in, "GET / HTTP/1.1\r\nA: ", 19);
	n = pass(&w, in, sizeof(in), 1000);
	assert_int_equal(w.status, 431);
	assert_true(n < WIRE_HEAD_MAX + 100 && memcmp(out + n - 4, "\r\n\r\n", 4) == 0);
}

/* A thread that reads goes on until it has something to pass on. */
static void what_is_dropped_has_an_end(void **state)
{
	static const struct {
		const char *begin;
		char more;
		int status;
	} ways[] = {
		{ "GET / HTTP/1.1\r\nContent-Length:", ' ', 431 },
		{ "GET / HTTP/1.1\r\nTransfer-Encoding:", '\t', 431 },
		{ "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1;", 'a', 400 },
	};
	static char in[2 * WIRE_HEAD_MAX];
	struct wire w;

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		memset(in, ways[i].more, sizeof(in));
		memcpy(in, ways[i].begin, strlen(ways[i].begin));
		pass(&w, in, sizeof(in), 1000);
		assert_int_equal(w.status, ways[i].status);
	}
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = "\r\n"[i % 2];
	pass(&w, in, sizeof(in), 1000);
	assert_int_equal(w.status, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests_pass_as_they_are),
		cmocka_unit_test(chunks_pass_without_extensions_and_trailers),
		cmocka_unit_test(what_can_be_read_in_two_ways_ends_the_request),
		cmocka_unit_test(a_head_that_is_too_large_is_ended_within_its_limit),
		cmocka_unit_test(what_is_dropped_has_an_end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
