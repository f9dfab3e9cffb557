/* SPDX-License-Identifier: MIT */
/* A runner reads before its first call: settings it may know, commands, skipped plugins, and the start. */
#include "run/runner_setup.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct config *load(const char *text)
{
	char path[] = "/tmp/runner_setup_XXXXXX";
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	int fd = mkstemp(path);

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	if (config_load(&config, path, &err) < 0)
		fail_msg("%s", err.message);
	unlink(path);
	return config;
}

static void it_gets_commands_and_settings_but_no_secret_of_the_database(void **state)
{
	struct config *config = load("database {\n conninfo = \"password=hushhush\"\n}\nisolate = job\n"
				     "function \"tidy\" {\n command = { \"/bin/true\", \"-x\" }\n timeout = 3s\n}\n");
	struct runner_setup setup = { .config = config, .plugin_dir = "/plugins" };
	struct frame_buf out = { 0 };
	struct frame_head head;
	bool command = false;
	char *payload;
	int last = 0;

	(void)state;
	assert_int_equal(runner_setup_send(&setup, &out), 0);
	while (frame_take(&out, &head, &payload, FRAME_FROM_RUNNER_MAX) == 1) {
		size_t at = sizeof(struct frame_function);

		assert_true(head.type >= last);
		assert_null(memmem(payload, head.len, "hushhush", 8));
		last = head.type;
		if (head.type == FRAME_COMMAND) {
			command = true;
			assert_string_equal(frame_text(payload, head.len, &at), "tidy");
			assert_string_equal(frame_text(payload, head.len, &at), "/bin/true");
			assert_string_equal(frame_text(payload, head.len, &at), "-x");
			assert_null(frame_text(payload, head.len, &at));
		}
		if (head.type == FRAME_START) {
			struct frame_start start;

			memcpy(&start, payload, sizeof(start));
			assert_int_equal(start.isolate_job, 1);
			assert_string_equal(payload + sizeof(start), "/plugins");
		}
	}
	assert_true(command);
	assert_int_equal(last, FRAME_START);
	frame_buf_clear(&out);
	config_free(config);
}

static void it_skips_a_plugin_until_that_is_due(void **state)
{
	struct config *config = load("");
	struct passed_over_plugin plugins[] = { { .file = (char *)"due.so", .until_ns = 1 },
						{ .file = (char *)"later.so", .until_ns = UINT64_MAX } };
	struct runner_setup setup = { .config = config, .passed_over = { plugins, 2 } };
	struct frame_buf out = { 0 };
	struct frame_head head;
	char *payload;
	int skipped = 0;

	(void)state;
	assert_int_equal(runner_setup_send(&setup, &out), 0);
	while (frame_take(&out, &head, &payload, FRAME_FROM_RUNNER_MAX) == 1)
		if (head.type == FRAME_PASS_OVER) {
			assert_string_equal(payload, "later.so");
			skipped++;
		}
	assert_int_equal(skipped, 1);
	frame_buf_clear(&out);
	config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_gets_commands_and_settings_but_no_secret_of_the_database),
		cmocka_unit_test(it_skips_a_plugin_until_that_is_due),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("runner_setup", tests, NULL, NULL);
}
