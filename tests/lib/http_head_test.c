/* SPDX-License-Identifier: MIT */
/* Where a request ends, whether its bytes come at once or one by one. */
#include "http/chunks.h"
#include "http/head.h"
#include "http/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define H "Host: x\r\n"
#define LINE "GET / HTTP/1.1\r\n"

/* Scans in pieces of `step` bytes. */
static enum head_found scan(struct head *h, const char *bytes, size_t len, size_t step)
{
	enum head_found found = HEAD_INCOMPLETE;

	*h = (struct head){ .start = 0 };
	for (size_t n = 0; n < len && found == HEAD_INCOMPLETE;) {
		n = n + step < len ? n + step : len;
		found = head_scan(h, bytes, n);
	}
	return found;
}

/* The status of the refusal, also where the head is complete but broken. 0: none. -1: the head is not complete. */
static int read_head(struct head *h, struct request *r, struct arena *arena, const char *bytes, size_t len, size_t step)
{
	enum head_found found = scan(h, bytes, len, step);

	if (found == HEAD_INCOMPLETE)
		return -1;
	if (found == HEAD_WRONG)
		return h->status;
	request_head(r, arena, bytes + h->start, h->len - h->start);
	request_end(r);
	return !r->broken ? 0 : r->fault_status ? r->fault_status : fault_info(r->fault)->status;
}

struct step {
	const char *bytes;
	size_t rest; /* bytes behind the head; of those that are refused it says nothing */
	int status;
};

static void check(const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(steps[i].bytes);

		for (size_t step = 1; step <= len; step = step == len ? len + 1 : step * 3 < len ? step * 3 : len) {
			struct arena arena = { 0 };
			struct request r;
			struct head h;
			int status = read_head(&h, &r, &arena, steps[i].bytes, len, step);

			if (status != steps[i].status || (status == 0 && len - h.len != steps[i].rest))
				fail_msg("%s\n(in pieces of %zu): %d, %zu bytes behind it", steps[i].bytes, step,
					 status, len - h.len);
			arena_clear(&arena);
		}
	}
}

#define CHECK(steps) check(steps, sizeof(steps) / sizeof(steps[0]))

static void good_heads_end_where_they_say(void **state)
{
	static const struct step steps[] = {
		{ "GET /a?b=c HTTP/1.1\r\n" H "\r\n", 0, 0 },
		{ "GET / HTTP/1.0\r\n\r\n", 0, 0 },
		{ "PUT / HTTP/1.1\r\n" H "Content-Length:  3\r\nX:\r\n\r\na\nbGET ", 7, 0 },
		{ "\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n\r\nGET /", 7, 0 },
		{ LINE H "Cookie: a=\"\r\nCookies: b\r\n\r\n", 0, 0 },
		{ "GET / HTTP/1.7\r\n" H "A: b\tc \r\n\r\n", 0, 0 },
		{ "PUT / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n5\r\n", 3, 0 },
		{ LINE H "A: b\r\n", 0, -1 },
		{ "GET /", 0, -1 },
	};

	(void)state;
	CHECK(steps);
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
	static const struct step steps[] = {
		{ LINE H "Content-Length:\r\n 36\r\n\r\nrest", 0, 400 },
		{ LINE H "A: b\r\n c\r\n\r\nrest", 0, 400 },
		{ LINE H " A: b\r\n\r\nrest", 0, 400 },
		{ LINE H "A: b\nC: d\r\n\r\nrest", 0, 400 },
		{ LINE H "A: b\rC: d\r\n\r\nrest", 0, 400 },
		{ LINE "\nrest", 0, 400 },
		{ LINE "\rrest", 0, 400 },
		{ LINE H ": b\r\n\r\nrest", 0, 400 },
		{ LINE H "b\r\n\r\nrest", 0, 400 },
		{ LINE H "A: b\x01\r\n\r\nrest", 0, 400 },
		{ LINE H "Content-Length : 5\r\n\r\nrest", 0, 400 },
		{ LINE H "Content-Length: 5x\r\n\r\nrest", 0, 400 },
		{ LINE H "Content-Length: 5 \r\n\r\nrest", 0, 400 },
		{ LINE H "Content-Length: 5\r\nContent-Length: 5\r\n\r\nrest", 0, 400 },
		{ LINE H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nrest", 0, 400 },
		{ LINE H "Transfer-Encoding: identity\r\n\r\nrest", 0, 400 },
		{ LINE H "Transfer-Encoding: chunked \r\n\r\nrest", 0, 400 },
		{ "GET / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\nrest", 0, 400 },
		{ LINE H H "\r\nrest", 0, 400 },
		{ LINE "A: b\r\n\r\nrest", 0, 400 },
		{ "\n", 0, 400 },
		{ "GE(T / HTTP/1.1\r\n" H "\r\n", 0, 400 },
		{ "GET \r\n\r\n", 0, 400 },
		{ "GET /\r\n\r\n", 0, 400 },
		{ "GET / HTTP/1.1 \r\n" H "\r\n", 0, 400 },
		{ "GET / HTTP/1.x\r\n" H "\r\n", 0, 400 },
		{ "GET /\x7f HTTP/1.1\r\n" H "\r\n", 0, 400 },
		{ " / HTTP/1.1\r\n" H "\r\n", 0, 400 },
		{ "GGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGGG / HTTP/1.1\r\n" H "\r\n", 0, 400 },
		{ "GET / HTTP/2.0\r\n\r\n", 0, 505 },
		{ "PRI * HTTP/2.0\r\n\r\n", 0, 505 },
	};
	static const char nul[] = LINE H "X\0A: b\r\n\r\n";
	struct arena arena = { 0 };
	struct request r;
	struct head h;

	(void)state;
	CHECK(steps);
	assert_int_equal(read_head(&h, &r, &arena, nul, sizeof(nul) - 1, 1), 400);
	arena_clear(&arena);
}

static void a_length_is_a_number_whatever_its_size(void **state)
{
	static const struct {
		const char *bytes;
		uint64_t length;
	} lengths[] = {
		{ LINE H "\r\n", 0 },
		{ LINE H "Content-Length: 0\r\n\r\n", 0 },
		{ LINE H "Content-Length: \t 0012\r\n\r\n", 12 },
		{ LINE H "Content-Length: 999999999999999999\r\n\r\n", 999999999999999999 },
		{ LINE H "Content-Length: 18446744073709551621\r\n\r\n", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct arena arena = { 0 };
		struct request r;
		struct head h;

		assert_int_equal(read_head(&h, &r, &arena, lengths[i].bytes, strlen(lengths[i].bytes), 7), 0);
		assert_true(r.length == lengths[i].length && !r.chunked);
		arena_clear(&arena);
	}
}

/* Bytes up to the refusal of begin, and then only `more`. */
static size_t seen_before_refusal(const char *begin, const char *more, int status)
{
	static char in[2 * HEAD_MAX];
	struct head h;

	memcpy(in, begin, strlen(begin));
	for (size_t i = 0; i < sizeof(in) - strlen(begin); i++)
		in[strlen(begin) + i] = more[i % strlen(more)];
	assert_int_equal(scan(&h, in, sizeof(in), 1000), HEAD_WRONG);
	assert_int_equal(h.status, status);
	return h.len;
}

static void a_head_that_is_too_large_is_refused_early(void **state)
{
	(void)state;
	assert_in_range(seen_before_refusal("GET /", "x", 414), HEAD_MAX - 100, HEAD_MAX + 100);
	assert_in_range(seen_before_refusal("GET /?", "a&", 414), HEAD_MAX / 50, HEAD_MAX / 30);
	assert_in_range(seen_before_refusal(LINE "A: ", "x", 431), HEAD_MAX - 100, HEAD_MAX + 100);
	assert_in_range(seen_before_refusal(LINE "Content-Length:", " ", 431), HEAD_MAX - 100, HEAD_MAX + 100);
	assert_in_range(seen_before_refusal(LINE, "A: b\r\n", 431), HEAD_MAX / 15, HEAD_MAX / 10);
	assert_in_range(seen_before_refusal("", "\r\n", 400), 20, 40);
}

/* ---- bodies ----------------------------------------------------------------------------------- */

static char data[65536];

/* Decodes in pieces of `step` bytes. Returns how many bytes were read. */
static size_t decode(struct chunks *k, const char *bytes, size_t len, size_t step, size_t *data_len)
{
	size_t n = 0, used = 0;

	*k = (struct chunks){ .state = 0 };
	*data_len = 0;
	while (n < len && !k->ended && !k->wrong) {
		size_t piece = len - n < step ? len - n : step, got;

		assert_true(*data_len + piece <= sizeof(data));
		memcpy(data + *data_len, bytes + n, piece);
		used = chunks_read(k, data + *data_len, piece, &got);
		*data_len += got;
		n += used;
	}
	return n;
}

static void chunks_are_decoded_without_extensions_and_trailers(void **state)
{
	static const char bytes[] = "005;a=\"b\"\r\nhello\r\n1F\r\n0123456789012345678901234567890\r\n0;x\r\nA: "
				    "b\r\nC:\r\n\r\nGET ";
	static const char wanted[] = "hello0123456789012345678901234567890";

	(void)state;
	for (size_t step = 1; step < sizeof(bytes); step++) {
		struct chunks k;
		size_t data_len, n = decode(&k, bytes, sizeof(bytes) - 1, step, &data_len);

		assert_true(k.ended && !k.wrong);
		assert_int_equal(n, sizeof(bytes) - 1 - strlen("GET "));
		assert_int_equal(data_len, strlen(wanted));
		assert_memory_equal(data, wanted, data_len);
	}
}

static void chunks_that_can_be_read_in_two_ways_are_wrong(void **state)
{
	static const char *const bodies[] = {
		"5\nhello\r\n0\r\n\r\n",
		"5;a\nhello\r\n0\r\n\r\n",
		"5;a\rb\r\nhello\r\n0\r\n\r\n",
		"5;a\x01\r\nhello\r\n0\r\n\r\n",
		"5 \r\nhello\r\n0\r\n\r\n",
		" 5\r\nhello\r\n0\r\n\r\n",
		"0x5\r\nhello\r\n0\r\n\r\n",
		"-5\r\nhello\r\n0\r\n\r\n",
		"\r\nhello\r\n0\r\n\r\n",
		";\r\nhello\r\n0\r\n\r\n",
		"0000000000000005\r\nhello\r\n0\r\n\r\n",
		"5\r\nhello!\r\n0\r\n\r\n",
		"5\r\nhello\n0\r\n\r\n",
		"5\r\nhello\r\r\n0\r\n\r\n",
		"0\n\r\n",
		"0\r\n\n",
		"0\r\n\r\r",
		"0\r\n: b\r\n\r\n",
		"0\r\nabc\r\n\r\n",
		"0\r\nA: b\n\r\n",
		"0\r\nA: b\r\n c\r\n\r\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
		for (size_t step = 1; step <= strlen(bodies[i]); step++) {
			struct chunks k;
			size_t data_len;

			decode(&k, bodies[i], strlen(bodies[i]), step, &data_len);
			if (!k.wrong || k.ended)
				fail_msg("%s (in pieces of %zu)", bodies[i], step);
		}
}

static void extensions_and_trailers_have_a_limit_together(void **state)
{
	static const char *const begins[] = { "1;", "0\r\nA:", "0\r\n" };
	static char body[4 * CHUNKS_DROPPED_MAX];
	struct chunks k;
	size_t data_len, n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		memset(body, 'a', sizeof(body));
		memcpy(body, begins[i], strlen(begins[i]));
		assert_in_range(decode(&k, body, sizeof(body), 1000, &data_len), CHUNKS_DROPPED_MAX,
				CHUNKS_DROPPED_MAX + 10);
		assert_true(k.wrong);
	}
	while (n < sizeof(body) - 20)
		n += (size_t)snprintf(body + n, sizeof(body) - n, "1;aaaa\r\nx\r\n");
	decode(&k, body, n, 1000, &data_len);
	assert_true(k.wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_heads_end_where_they_say),
		cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
		cmocka_unit_test(a_length_is_a_number_whatever_its_size),
		cmocka_unit_test(a_head_that_is_too_large_is_refused_early),
		cmocka_unit_test(chunks_are_decoded_without_extensions_and_trailers),
		cmocka_unit_test(chunks_that_can_be_read_in_two_ways_are_wrong),
		cmocka_unit_test(extensions_and_trailers_have_a_limit_together),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
