/* SPDX-License-Identifier: MIT */
#include "engine/step/attempt_log.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int saved_stderr, reader;
static char line[16384];
static struct pool pool;

/* The line that was logged since the last call, or "". */
static const char *logged(void)
{
	ssize_t n = recv(reader, line, sizeof(line) - 1, MSG_DONTWAIT);

	line[n > 0 ? n : 0] = '\0';
	return line;
}

static int capture(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds), 0);
	saved_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	reader = fds[0];
	log_init("check_deferred", LOG_L_INFO);
	return 0;
}

static int release(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	return close(reader);
}

static struct attempt attempt(struct job *job, enum job_outcome outcome, char *error)
{
	job->id = 7;
	job->attempt = 2;
	return (struct attempt){ .job = job, .outcome = outcome, .error = error, .delay_ms = 8500 };
}

static void an_attempt_has_one_line_by_its_outcome(void **state)
{
	static const struct {
		enum job_outcome outcome;
		bool final;
		const char *line; /* "" below the level */
	} table[] = {
		{ JOB_OK, true, "" },
		{ JOB_SNOOZED, false, "" },
		{ JOB_FAILED, false, "warning: job 7 f attempt 2: failed: no such user; retrying in 8.5 s" },
		{ JOB_FAILED, true, "warning: job 7 f attempt 2: failed: no such user; dead" },
		{ JOB_TIMEOUT, false, "warning: job 7 f attempt 2: timeout: no such user; retrying in 8.5 s" },
		{ JOB_CANCELLED, true, "info: job 7 f attempt 2: cancelled by its function: no such user" },
	};
	struct job *job = job_new("default", "f", "", "{}", 2);
	struct attempt_log l = { 0 };
	char error[] = "no such user";

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct attempt a = attempt(job, table[i].outcome, error);

		a.final = table[i].final;
		attempt_log_write(&l, &pool, &a);
		assert_non_null(strstr(logged(), table[i].line));
		assert_int_equal(line[0] == '\0', table[i].line[0] == '\0');
	}
	free(job);
}

static void what_is_missing_here_is_logged_once_until_it_is_forgotten(void **state)
{
	struct job *job = job_new("default", "f", "", "{}", 2);
	struct attempt_log l = { 0 };
	char smtp[] = "no SMTP server", key[] = "no key";
	struct attempt a = attempt(job, JOB_FAILED, smtp);

	(void)state;
	a.unready = true;
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "warning: job 7 f: cannot run on this host: no SMTP server; not counted"));
	attempt_log_write(&l, &pool, &a);
	assert_string_equal(logged(), "");
	a.error = key;
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "no key"));
	attempt_log_forget(&l);
	a.error = smtp;
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "no SMTP server"));
	attempt_log_forget(&l);
	free(job);
}

static void a_job_that_may_never_end_is_named_when_a_start_has_cut_it_off(void **state)
{
	struct job *job = job_new("default", "f", "", "{}", 2);
	struct attempt_log l = { 0 };
	char error[] = "replaced";
	struct attempt a = attempt(job, JOB_SUPERSEDED, error);

	(void)state;
	attempt_log_set_up(&l, " (queue x)");
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "superseded: replaced"));
	assert_string_equal(logged(), ""); /* it was asked to stop by somebody else */
	attempt_log_next_start(&l, 60 * NS_PER_S);
	attempt_log_next_start(&l, 70 * NS_PER_S);
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "superseded: replaced"));
	assert_non_null(strstr(logged(), "function 'f' has no time limit, but the next start came after 60.0 s"));
	assert_non_null(strstr(line, "run a service (queue x)"));
	job->timeout_ms = 50000; /* the second start comes when it has ended */
	attempt_log_forget(&l);
	attempt_log_write(&l, &pool, &a);
	assert_non_null(strstr(logged(), "superseded: replaced"));
	assert_string_equal(logged(), "");
	free(job);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_attempt_has_one_line_by_its_outcome, capture, release),
		cmocka_unit_test_setup_teardown(what_is_missing_here_is_logged_once_until_it_is_forgotten, capture,
						release),
		cmocka_unit_test_setup_teardown(a_job_that_may_never_end_is_named_when_a_start_has_cut_it_off, capture,
						release),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("attempt_log", tests, NULL, NULL);
}
