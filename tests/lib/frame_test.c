/* SPDX-License-Identifier: MIT */
/* Frames arrive whole whatever the socket does to the bytes; what a runner may send at most is kept to. */
#include "run/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int fds[2]; /* what is sent into the first is received from the second */
static struct frame_buf out, in;

static void put(enum frame_type type, unsigned int slot, const void *data, size_t len)
{
	struct frame_part part = { data, len };

	assert_int_equal(frame_put(&out, type, slot, &part, 1), 0);
}

/* Received without taking anything: all that the socket holds. */
static void fill(void)
{
	int rc;

	while ((rc = frame_fill(&in, fds[1], MSG_DONTWAIT)) == 1)
		;
	assert_int_equal(rc, -1);
	assert_int_equal(errno, EAGAIN);
}

static void assert_taken(enum frame_type type, unsigned int slot, const void *data, size_t len)
{
	struct frame_head head;
	char *payload;

	assert_int_equal(frame_take(&in, &head, &payload, FRAME_FROM_RUNNER_MAX), 1);
	assert_int_equal(head.type, type);
	assert_int_equal(head.slot, slot);
	assert_int_equal(head.len, len);
	if (len > 0)
		assert_memory_equal(payload, data, len);
	assert_int_equal(payload[len], '\0');
}

static void assert_nothing_to_take(void)
{
	struct frame_head head;
	char *payload;

	assert_int_equal(frame_take(&in, &head, &payload, FRAME_FROM_RUNNER_MAX), 0);
}

static void a_frame_is_its_parts_in_order(void **state)
{
	struct frame_part parts[] = { { "fn", 3 }, { NULL, 0 }, { "", 1 }, { "{}", 3 } };

	(void)state;
	assert_int_equal(frame_put(&out, FRAME_FOLLOW, 65535, parts, 4), 0);
	assert_int_equal(frame_flush(&out, fds[0], 0), 0);
	fill();
	assert_taken(FRAME_FOLLOW, 65535, "fn\0\0{}", 7);
	assert_nothing_to_take();
}

static void a_frame_that_comes_byte_by_byte_is_taken_with_its_last_byte(void **state)
{
	(void)state;
	put(FRAME_RESULT, 3, "a result", 8);
	put(FRAME_READY, 0, NULL, 0);
	for (size_t i = 0; i < out.len; i++) {
		assert_int_equal(send(fds[0], out.data + i, 1, 0), 1);
		fill();
		if (i + 1 == sizeof(struct frame_head) + 8)
			assert_taken(FRAME_RESULT, 3, "a result", 8);
		if (i + 1 == out.len)
			assert_taken(FRAME_READY, 0, NULL, 0);
		assert_nothing_to_take();
	}
}

static void frames_that_come_together_do_not_touch_each_other(void **state)
{
	struct frame_head head;
	char *first, *second;

	(void)state;
	put(FRAME_RESULT, 0, "one", 3);
	put(FRAME_ERROR, 1, "\0two\xff", 5);
	put(FRAME_BELL, 0, NULL, 0);
	put(FRAME_RESULT, 2, "four", 4);
	assert_int_equal(frame_flush(&out, fds[0], 0), 0);
	assert_int_equal(frame_fill(&in, fds[1], 0), 1);
	assert_int_equal(frame_take(&in, &head, &first, 100), 1);
	assert_int_equal(frame_take(&in, &head, &second, 100), 1);
	assert_string_equal(first, "one"); /* lasts until the next frame_fill() */
	assert_memory_equal(second, "\0two\xff", 6);
	assert_taken(FRAME_BELL, 0, NULL, 0);
	assert_taken(FRAME_RESULT, 2, "four", 4);
	assert_nothing_to_take();
}

static void what_is_left_of_a_read_is_kept_for_the_next(void **state)
{
	char text[1000];

	(void)state;
	for (int i = 0; i < 500; i++) {
		memset(text, 'a' + i % 26, sizeof(text));
		put(FRAME_LOG, (unsigned int)i, text, sizeof(text));
	}
	for (int i = 0, sent = 0; i < 500; i++) { /* taken while more comes in, in pieces that fit no frame */
		memset(text, 'a' + i % 26, sizeof(text));
		while (in.len - in.at < sizeof(struct frame_head) + sizeof(text)) {
			ssize_t n = send(fds[0], out.data + sent,
					 out.len - (size_t)sent < 7777 ? out.len - (size_t)sent : 7777, 0);

			assert_true(n > 0);
			sent += (int)n;
			fill();
		}
		assert_taken(FRAME_LOG, (unsigned int)i, text, sizeof(text));
	}
	assert_nothing_to_take();
	assert_true(in.cap < 4 * 65536); /* it does not grow by what was taken */
}

static void an_empty_payload_is_a_frame_and_an_empty_string(void **state)
{
	(void)state;
	assert_int_equal(frame_put(&out, FRAME_READY, 0, NULL, 0), 0);
	put(FRAME_RESULT, 0, "", 0);
	assert_int_equal(frame_flush(&out, fds[0], 0), 0);
	fill();
	assert_taken(FRAME_READY, 0, NULL, 0);
	assert_taken(FRAME_RESULT, 0, NULL, 0);
	assert_nothing_to_take();
}

static void a_frame_longer_than_allowed_is_refused_by_its_head_alone(void **state)
{
	struct frame_head head = { .len = 101, .type = FRAME_RESULT }, taken;
	char *payload;

	(void)state;
	put(FRAME_RESULT, 0, "x", 1);
	assert_int_equal(frame_flush(&out, fds[0], 0), 0);
	assert_int_equal(send(fds[0], &head, sizeof(head), 0), sizeof(head));
	fill();
	assert_int_equal(frame_take(&in, &taken, &payload, 1), 1); /* just as long as allowed */
	assert_int_equal(frame_take(&in, &taken, &payload, 100), -1);
	assert_int_equal(frame_take(&in, &taken, &payload, 101), 0);
	head.len = UINT32_MAX;
	frame_buf_clear(&in);
	assert_int_equal(send(fds[0], &head, sizeof(head), 0), sizeof(head));
	fill();
	assert_int_equal(frame_take(&in, &taken, &payload, FRAME_FROM_RUNNER_MAX), -1);
	assert_true(in.cap < 4 * 65536);
}

static void text_without_its_nul_is_no_text(void **state)
{
	size_t at = 0;

	(void)state;
	assert_string_equal(frame_text("fn\0\0open", 8, &at), "fn");
	assert_int_equal(at, 3);
	assert_string_equal(frame_text("fn\0\0open", 8, &at), "");
	assert_int_equal(at, 4);
	assert_null(frame_text("fn\0\0open", 8, &at)); /* the NUL behind lies outside the payload */
	assert_int_equal(at, 4);
	assert_string_equal(frame_text("fn\0\0open", 9, &at), "open");
	assert_null(frame_text("fn\0\0open", 9, &at));
	at = 0;
	assert_null(frame_text("", 0, &at));
	at = 3; /* behind the end */
	assert_null(frame_text("x", 2, &at));
}

static void what_a_full_socket_does_not_take_goes_out_later(void **state)
{
	size_t len = 3u << 20, left;
	char *text = malloc(len);
	int rounds = 0;

	(void)state;
	for (size_t i = 0; i < len; i++)
		text[i] = (char)(i * 2654435761u >> 24);
	put(FRAME_RESULT, 7, text, len);
	assert_int_equal(frame_flush(&out, fds[0], MSG_DONTWAIT), 0);
	left = out.len - out.at;
	assert_true(out.at > 0 && left > 0);
	assert_int_equal(frame_flush(&out, fds[0], MSG_DONTWAIT), 0); /* still full: nothing lost, nothing sent twice */
	assert_int_equal(out.len - out.at, left);
	put(FRAME_BELL, 8, NULL, 0); /* behind what waits */
	for (; out.len > out.at; rounds++) {
		fill();
		assert_int_equal(frame_flush(&out, fds[0], MSG_DONTWAIT), 0);
	}
	fill();
	assert_true(rounds > 1);
	assert_taken(FRAME_RESULT, 7, text, len);
	assert_taken(FRAME_BELL, 8, NULL, 0);
	assert_nothing_to_take();
	free(text);
}

static void the_other_side_going_is_seen_and_is_no_signal(void **state)
{
	struct frame_head head;
	char *payload;

	(void)state;
	put(FRAME_RESULT, 0, "cut", 3);
	assert_int_equal(send(fds[0], out.data, out.len - 1, 0), out.len - 1);
	close(fds[0]);
	assert_int_equal(frame_fill(&in, fds[1], 0), 1);
	assert_int_equal(frame_fill(&in, fds[1], 0), 0);
	assert_int_equal(frame_take(&in, &head, &payload, 100), 0);
	assert_int_equal(frame_flush(&out, fds[1], 0), -1);
	assert_int_equal(errno, EPIPE);
	fds[0] = -1;
}

static int set_up(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
}

static int tear_down(void **state)
{
	(void)state;
	frame_buf_clear(&out);
	frame_buf_clear(&in);
	if (fds[0] >= 0)
		close(fds[0]);
	return close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_frame_is_its_parts_in_order),
		TEST(a_frame_that_comes_byte_by_byte_is_taken_with_its_last_byte),
		TEST(frames_that_come_together_do_not_touch_each_other),
		TEST(what_is_left_of_a_read_is_kept_for_the_next),
		TEST(an_empty_payload_is_a_frame_and_an_empty_string),
		TEST(a_frame_longer_than_allowed_is_refused_by_its_head_alone),
		TEST(text_without_its_nul_is_no_text),
		TEST(what_a_full_socket_does_not_take_goes_out_later),
		TEST(the_other_side_going_is_seen_and_is_no_signal),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
