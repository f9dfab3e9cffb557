/* SPDX-License-Identifier: MIT */
/* How the reader of the config file is run and what is believed of it; here it is a script of ours. */
#include "port/config_reader.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/config_reader_test.XXXXXX", program[64];

static void reader_is(const char *script)
{
	FILE *f = fopen(program, "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s\n", script);
	fclose(f);
	assert_int_equal(chmod(program, 0700), 0);
}

/* What it answers to that text, as text. Given: free(). */
static char *ask(const char *text)
{
	struct deferred_error err = { 0 };
	char *answer, *copy;
	size_t len;

	if (config_reader_run(text, strlen(text), &answer, &len, &err) < 0)
		fail_msg("%s", err.message);
	copy = calloc(1, len + 1);
	memcpy(copy, answer, len);
	free(answer);
	return copy;
}

static void says(const char *text, const char *expected)
{
	char *answer = ask(text);

	assert_string_equal(answer, expected);
	free(answer);
}

static void it_reads_the_text_and_its_answer_is_handed_back(void **state)
{
	char *text = malloc(300001), *answer;

	(void)state;
	reader_is("exec cat");
	says("", "");
	says("a = 1\n", "a = 1\n");
	memset(text, 'x', 300000); /* more than a pipe holds */
	text[300000] = '\0';
	answer = ask(text);
	assert_string_equal(answer, text);
	free(answer);
	free(text);
}

static void it_has_the_environment_but_nothing_that_changes_how_programs_are_loaded(void **state)
{
	static const char *const dropped[] = { "LD_DEBUG_OUTPUT", "MALLOC_PERTURB_", "GLIBC_TUNABLES" };

	(void)state;
	for (int i = 0; i < 3; i++)
		setenv(dropped[i], "", 1);
	setenv("DEFERRED_TEST_NAME", "kept", 1);
	reader_is("env | grep -E '^(LD_|MALLOC_|GLIBC_|DEFERRED_TEST_NAME)'");
	says("environment", "DEFERRED_TEST_NAME=kept\n");
	for (int i = 0; i < 3; i++)
		unsetenv(dropped[i]);
	unsetenv("DEFERRED_TEST_NAME");
}

static void it_has_none_of_our_descriptors_nor_our_signals(void **state)
{
	int fd = open("/dev/null", O_RDONLY); /* without O_CLOEXEC */
	struct sigaction ignore = { .sa_handler = SIG_IGN }, old;
	sigset_t all, before;

	(void)state;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	sigaction(SIGTERM, &ignore, &old);
	/* The shell keeps its script open at 10 or above; signals 32 and 33 are the C library's. */
	reader_is("for n in 3 4 5 6 7 8 9; do [ ! -e /proc/$$/fd/$n ] || echo $n; done; grep -E '^Sig(Blk|Ign)' "
		  "/proc/$$/status | sed 's/.*\\(.......\\)$/\\1/'");
	says("inherited", "0000000\n0000000\n");
	sigaction(SIGTERM, &old, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(fd);
}

static void one_that_is_not_there_is_named(void **state)
{
	struct deferred_error err = { 0 };
	char *answer = NULL;
	size_t len;

	(void)state;
	unlink(program);
	assert_int_equal(config_reader_run("missing", 7, &answer, &len, &err), DEFERRED_ESYSTEM);
	assert_non_null(strstr(err.message, program));
	assert_null(answer);
	/* A folder that is not absolute is not looked into. */
	setenv("DEFERRED_LIBEXEC_DIR", ".", 1);
	error_clear(&err);
	if (config_reader_run("relative", 8, &answer, &len, &err) == 0)
		free(answer); /* one is installed */
	else
		assert_null(strstr(err.message, "'./"));
	setenv("DEFERRED_LIBEXEC_DIR", dir, 1);
}

static void one_that_answers_without_end_is_given_up(void **state)
{
	struct deferred_error err = { 0 };
	char *answer = NULL;
	size_t len;

	(void)state;
	reader_is("exec cat /dev/zero");
	assert_int_equal(config_reader_run("endless", 7, &answer, &len, &err), DEFERRED_ENOMEM);
	assert_null(answer);
}

static void one_that_is_stopped_is_not_waited_for(void **state)
{
	struct deferred_error err = { 0 };
	char *answer = NULL;
	size_t len;

	(void)state;
	reader_is("kill -STOP $$");
	config_reader_patience_ms = 100;
	alarm(20);
	assert_int_equal(config_reader_run("stopped", 7, &answer, &len, &err), DEFERRED_ESYSTEM);
	alarm(0);
	config_reader_patience_ms = 10000;
	assert_null(answer);
	assert_non_null(strstr(err.message, "does not answer"));
}

static void an_answer_that_was_kept_is_given_again_to_the_same_text_alone(void **state)
{
	(void)state;
	reader_is("echo new");
	says("a = 1", "new\n");
	config_reader_keep("a = 1", 5, "kept", 4);
	says("a = 1", "kept");
	says("a = 2", "new\n");
	says("a = 1 ", "new\n");
	says("a = ", "new\n");
	config_reader_keep("a = 2", 5, "", 0);
	says("a = 2", "");
	says("a = 1", "new\n");
}

static void what_names_the_environment_is_read_each_time(void **state)
{
	(void)state;
	reader_is("echo new");
	config_reader_keep("a = ${NAME}", 11, "kept", 4);
	says("a = ${NAME}", "new\n");
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(program, sizeof(program), "%s/deferred_config", dir);
	return setenv("DEFERRED_LIBEXEC_DIR", dir, 1);
}

static int tear_down(void **state)
{
	(void)state;
	unlink(program);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_reads_the_text_and_its_answer_is_handed_back),
		cmocka_unit_test(it_has_the_environment_but_nothing_that_changes_how_programs_are_loaded),
		cmocka_unit_test(it_has_none_of_our_descriptors_nor_our_signals),
		cmocka_unit_test(one_that_is_not_there_is_named),
		cmocka_unit_test(one_that_answers_without_end_is_given_up),
		cmocka_unit_test(one_that_is_stopped_is_not_waited_for),
		cmocka_unit_test(an_answer_that_was_kept_is_given_again_to_the_same_text_alone),
		cmocka_unit_test(what_names_the_environment_is_read_each_time),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("config_reader", tests, set_up, tear_down);
}
