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

/* The limits of the only program, and the texts behind them. */
static struct frame_program program_of(const char *text, const char **texts, size_t *n)
{
	static struct frame_buf out;
	struct config *config = load(text);
	struct runner_setup setup = { .config = config };
	struct frame_program fixed = { 0 };
	struct frame_head head;
	char *payload;

	frame_buf_clear(&out);
	*n = 0;
	assert_int_equal(runner_setup_send(&setup, &out), 0);
	while (frame_take(&out, &head, &payload, FRAME_FROM_RUNNER_MAX) == 1) {
		size_t at = sizeof(fixed);

		if (head.type != FRAME_PROGRAM)
			continue;
		memcpy(&fixed, payload, sizeof(fixed));
		while (*n < 10 && (texts[*n] = frame_text(payload, head.len, &at)))
			++*n;
	}
	config_free(config);
	return fixed;
}

static void it_gets_programs(void **state)
{
	const char *texts[10];
	struct frame_program p;
	size_t n;

	(void)state;
	p = program_of(
		"program shop {\n command = {\"/bin/cat\", \"-u\"}\n directory = \"/srv\"\n watch = {\"/a\", \"/b\"}\n"
		" max_memory = 1m\n start_timeout = 2s\n timeout = 3s\n max_attempts = 4\n}\n",
		texts, &n);
	assert_true(p.max_jobs == 1000 && p.max_memory == 1 << 20 && p.start_timeout_ms == 2000);
	assert_true(p.timeout_ms == 3000 && p.max_attempts == 4 && !p.declared && p.arguments == 2);
	assert_int_equal(n, 6);
	assert_string_equal(texts[0], "shop");
	assert_string_equal(texts[1], "/srv");
	assert_string_equal(texts[3], "-u");
	assert_string_equal(texts[5], "/b");
	p = program_of("isolate = job\nfunction f { program = shop }\nprogram shop { command = \"/bin/cat\" }\n", texts,
		       &n);
	assert_true(p.max_jobs == 1 && p.max_memory == 0 && p.start_timeout_ms == 30000 && p.declared && n == 3);
	p = program_of("isolate = job\nprogram shop { command = \"/bin/cat\" max_jobs = 0 }\n", texts, &n);
	assert_true(p.max_jobs == 0 && p.timeout_ms == 0 && p.max_attempts == 0);
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
		cmocka_unit_test(it_gets_programs),
		cmocka_unit_test(it_skips_a_plugin_until_that_is_due),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("runner_setup", tests, NULL, NULL);
}
