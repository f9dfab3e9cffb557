/* SPDX-License-Identifier: MIT */
/* Heads between runner and program: what is read, what is refused, and what is written. */
#include "program_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct message m;
static char line[2 * MESSAGE_HEAD_MAX];

static const char *read_text(const char *text)
{
	snprintf(line, sizeof(line), "%s", text);
	return message_read(line, strlen(line), &m);
}

static void a_head_is_read(void **state)
{
	(void)state;
	assert_null(
		read_text("{\"type\":\"done\",\"job\":\"9007199254740993\",\"outcome\":\"later\",\"after_ms\":30000,"
			  "\"last\":1,\"bytes\":12}"));
	assert_int_equal(m.type, MESSAGE_DONE);
	assert_true(m.job == 9007199254740993);
	assert_string_equal(m.outcome, "later");
	assert_true(m.after_ms == 30000 && m.last == 1 && m.bytes == 12);
	assert_null(read_text(" { \"job\" : 17 ,\t\"type\":\"progress\", \"other\":\"x\", \"more\":-5 } \r"));
	assert_true(m.type == MESSAGE_PROGRESS && m.job == 17 && m.done == -1 && m.total == -1);
	assert_string_equal(m.text, "");
}

static const char *read_outcome(const char *text)
{
	snprintf(line, sizeof(line), "%s", text);
	return message_read_outcome(line, strlen(line), &m);
}

static void a_line_of_outcome_needs_no_type_and_an_outcome_that_is_known(void **state)
{
	static const struct {
		const char *word;
		int result;
	} known[] = { { "ok", DEFERRED_OK },        { "failed", DEFERRED_FAILED },   { "later", DEFERRED_LATER },
		      { "dead", DEFERRED_DEAD },    { "unready", DEFERRED_UNREADY }, { "cancel", DEFERRED_CANCEL },
		      { "snooze", DEFERRED_SNOOZE } };
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		snprintf(text, sizeof(text), "{\"job\": \"17\", \"outcome\": \"%s\"}\r", known[i].word);
		assert_null(read_outcome(text));
		assert_true(m.job == 17 && message_outcome(&m) == known[i].result && m.after_ms == -1);
	}
	assert_null(read_outcome("{\"outcome\":\"ok\",\"job\":17,\"text\":\"\\u00e4\",\"type\":\"done\"}"));
	assert_string_equal(m.text, "\303\244");
	assert_string_equal(read_outcome("{\"job\":17}"), "its outcome is unknown");
	assert_string_equal(read_outcome("{\"job\":17,\"outcome\":\"OK\"}"), "its outcome is unknown");
	assert_string_equal(read_outcome("{\"job\":17,\"outcome\":\"ok\",\"text\":null}"),
			    "it is not a flat JSON object");
	assert_string_equal(read_outcome("ok"), "it is not a flat JSON object");
}

static void a_function_may_announce_a_batch(void **state)
{
	(void)state;
	assert_null(read_text("{\"type\":\"function\",\"name\":\"f\",\"batch\":100,\"batch_wait_ms\":500}"));
	assert_true(m.batch == 100 && m.batch_wait_ms == 500);
	assert_null(read_text("{\"type\":\"function\",\"name\":\"f\"}"));
	assert_true(m.batch == 0 && m.batch_wait_ms == 0);
}

static void texts_are_read_as_json_has_them(void **state)
{
	(void)state;
	assert_null(read_text(
		"{\"type\":\"progress\",\"text\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\u20ac\\ud83d\\ude00\"}"));
	assert_string_equal(m.text, "\"\\/\b\f\n\r\t\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	/* NUL and halves of pairs have no place in a text. */
	assert_null(read_text("{\"type\":\"progress\",\"text\":\"a\\u0000b\\ud83dc\\ude00\\ud83d\\u0041\"}"));
	assert_string_equal(m.text, "a\xef\xbf\xbd"
				    "b\xef\xbf\xbd"
				    "c\xef\xbf\xbd\xef\xbf\xbd"
				    "A");
}

static void what_is_not_a_head_is_refused(void **state)
{
	static const char *const cases[][2] = {
		{ "", "not a flat JSON" },
		{ "Traceback", "not a flat JSON" },
		{ "[]", "not a flat JSON" },
		{ "{}", "not a flat JSON" },
		{ "{\"type\":\"done\"", "not a flat JSON" },
		{ "{\"type\":\"done\"} x", "not a flat JSON" },
		{ "{\"type\":\"done\",}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":1.5}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":01}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":-}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":null}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":{}}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":\"\\x\"}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":\"\\u00g0\"}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":\"\x01\"}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"a\":\"open}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"job\":\"9223372036854775808\"}", "where a whole number belongs" },
		{ "{\"type\":\"done\",\"job\":9223372036854775808}", "not a flat JSON" },
		{ "{\"type\":\"done\",\"job\":\"17x\"}", "where a whole number belongs" },
		{ "{\"type\":\"done\",\"job\":\"\"}", "where a whole number belongs" },
		{ "{\"type\":\"done\",\"outcome\":1}", "where a string belongs" },
		{ "{\"type\":\"dance\"}", "type is unknown" },
		{ "{\"type\":1}", "type is unknown" },
		{ "{\"job\":\"1\"}", "has no type" },
		{ "{\"type\":\"log\",\"bytes\":-1}", "larger than 16 MiB" },
		{ "{\"type\":\"log\",\"bytes\":16777217}", "larger than 16 MiB" },
		{ "{\"type\":\"defer\",\"bytes\":1,\"params\":2}", "params are larger" },
		{ "{\"type\":\"defer\",\"bytes\":1,\"params\":-2}", "params are larger" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *wrong = read_text(cases[i][0]);

		if (!wrong || !strstr(wrong, cases[i][1]))
			fail_msg("%s: %s", cases[i][0], wrong ? wrong : "accepted");
	}
	assert_null(read_text("{\"type\":\"log\",\"bytes\":16777216}"));
}

static void what_is_written_is_one_line(void **state)
{
	static struct message_head head;
	static char text[MESSAGE_HEAD_MAX];

	(void)state;
	message_begin(&head, "call");
	message_put_id(&head, "job", 9007199254740993);
	message_put_text(&head, "label", "a\n\"\\\xff\xc3\xa4");
	message_put_number(&head, "params", -2);
	message_end(&head);
	head.data[head.len] = '\0';
	assert_string_equal(head.data, "{\"type\":\"call\",\"job\":\"9007199254740993\",\"label\":"
				       "\"a\\u000a\\u0022\\u005c\xef\xbf\xbd\xc3\xa4\",\"params\":-2}\n");
	assert_false(head.too_long);
	memset(text, 'x', sizeof(text) - 1);
	message_begin(&head, "setting");
	message_put_text(&head, "value", text);
	message_end(&head);
	assert_true(head.too_long && head.len <= sizeof(head.data));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_is_read),
		cmocka_unit_test(a_line_of_outcome_needs_no_type_and_an_outcome_that_is_known),
		cmocka_unit_test(a_function_may_announce_a_batch),
		cmocka_unit_test(texts_are_read_as_json_has_them),
		cmocka_unit_test(what_is_not_a_head_is_refused),
		cmocka_unit_test(what_is_written_is_one_line),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("program_message", tests, NULL, NULL);
}
