/* SPDX-License-Identifier: MIT */
/* A log line is one line and one write, whatever is in its text. Standard error is a pipe here. */
#include "base/log.h"

#include "base/job.h"
#include "base/traceparent.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static int saved_stderr, reader;
static char line[16384];

/* What was logged since the last call: a datagram socket keeps writes apart. */
static const char *logged(void)
{
	ssize_t n = recv(reader, line, sizeof(line) - 1, MSG_DONTWAIT);

	line[n > 0 ? n : 0] = '\0';
	return line;
}

static void a_line_has_time_program_pid_and_level(void **state)
{
	int year, month, day, hour, minute, second, ms, pid, end = 0;

	(void)state;
	log_init("check_deferred", LOG_L_INFO);
	log_line(LOG_L_WARNING, "job %d: %s", 17, "failed");
	assert_int_equal(sscanf(logged(), "%d-%d-%dT%d:%d:%d.%3dZ check_deferred[%d] warning: job 17: failed%n", &year,
				&month, &day, &hour, &minute, &second, &ms, &pid, &end),
			 8);
	assert_int_equal(pid, getpid());
	assert_string_equal(line + end, "\n");
}

static void control_characters_cannot_forge_or_split_a_line(void **state)
{
	const char *text;

	(void)state;
	log_line(LOG_L_INFO, "%s", "a\nb\r\033[31m\x7f\t\"\\ h\xc3\xa9");
	text = strstr(logged(), "info: ");
	assert_non_null(text);
	assert_string_equal(text, "info: a\\nb\\x0d\\x1b[31m\\x7f\\x09\"\\ h\xc3\xa9\n");
	assert_string_equal(logged(), "");
	/* What visible_test.c has more of. */
	log_line(LOG_L_INFO, "%s",
		 "\xc2\x9b"
		 "31m \xe2\x80\xae"
		 "evil \xff");
	assert_string_equal(strstr(logged(), "info: "), "info: \\u009b31m \\u202eevil \\xff\n");
}

static void a_long_line_is_cut_and_still_ends(void **state)
{
	char *text = malloc(100001);
	size_t len;

	(void)state;
	memset(text, '\n', 100000); /* each becomes two characters */
	text[100000] = '\0';
	log_line(LOG_L_ERROR, "%s", text);
	len = strlen(logged());
	assert_true(len > 4000 && len <= 8192);
	assert_ptr_equal(strchr(line, '\n'), line + len - 1);
	assert_string_equal(logged(), "");
	free(text);
}

static void lines_below_the_level_are_not_written(void **state)
{
	(void)state;
	log_init("x", LOG_L_WARNING);
	assert_true(log_enabled(LOG_L_ERROR) && log_enabled(LOG_L_WARNING) && !log_enabled(LOG_L_INFO));
	log_line(LOG_L_INFO, "quiet");
	assert_string_equal(logged(), "");
	log_init("x", LOG_L_INFO);
}

static void the_journal_gets_a_priority_and_no_time(void **state)
{
	struct stat st;
	char stream[64];

	(void)state;
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_init("x", LOG_L_INFO);
	log_line(LOG_L_ERROR, "text");
	assert_string_equal(logged(), "<3>error: text\n");
	setenv("JOURNAL_STREAM", "1:1", 1); /* set for somebody else's stream */
	log_init("x", LOG_L_INFO);
	log_line(LOG_L_ERROR, "text");
	assert_null(strchr(logged(), '<'));
	unsetenv("JOURNAL_STREAM");
	log_init("x", LOG_L_INFO);
}

static int set_up(void **state)
{
	int fds[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) < 0)
		return -1;
	reader = fds[0];
	saved_stderr = dup(STDERR_FILENO);
	unsetenv("JOURNAL_STREAM");
	return dup2(fds[1], STDERR_FILENO) < 0 || close(fds[1]) < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(reader);
	return dup2(saved_stderr, STDERR_FILENO) < 0 ? -1 : close(saved_stderr);
}

static void a_line_of_json_has_the_text_and_what_it_is_about(void **state)
{
	const struct log_attempt attempt = { .queue = "q\"",
					     .fn = "f",
					     .outcome = "failed",
					     .traceparent = "",
					     .job = 7,
					     .attempt = 2,
					     .wait_ms = 3,
					     .run_ms = 4,
					     .retry_ms = 5 };
	struct log_attempt last = attempt;
	struct job *job = job_new("q", "f", "", "{}", 2);
	char *text = malloc(100001);
	const char *at;

	(void)state;
	log_set_format(LOG_JSON);
	log_line(LOG_L_WARNING, "%s",
		 "a\"b\\c\nd\x1b"
		 "e");
	at = strstr(logged(), "\",\"level\":\"warning\",\"program\":\"check_deferred\",\"pid\":");
	assert_non_null(at);
	assert_true(strncmp(line, "{\"ts\":\"20", 9) == 0);
	assert_non_null(strstr(at, ",\"event\":\"message\",\"msg\":\"a\\\"b\\\\c\\\\nd\\\\x1be\"}\n"));
	log_attempt(LOG_L_WARNING, &attempt, "%s", "x");
	assert_non_null(strstr(logged(), ",\"event\":\"attempt\",\"job\":7,\"attempt\":2,\"final\":false,\"wait_ms\":3,"
					 "\"run_ms\":4,\"retry_ms\":5,\"outcome\":\"failed\","
					 "\"queue\":\"q\\\"\",\"fn\":\"f\",\"msg\":\"x\"}\n"));
	last.final = true;
	last.retry_ms = -1;
	log_attempt(LOG_L_WARNING, &last, "%s", "x");
	assert_non_null(strstr(logged(), ",\"final\":true,\"wait_ms\":3,\"run_ms\":4,\"outcome\""));
	last.traceparent = TRACEPARENT_FORM;
	log_attempt(LOG_L_WARNING, &last, "%s", "x");
	assert_non_null(strstr(logged(), ",\"fn\":\"f\",\"traceparent\":\"" TRACEPARENT_FORM "\",\"msg\":\"x\"}\n"));
	job->id = 7;
	job->attempt = 2;
	log_job(LOG_L_INFO, job, "%s", "x");
	assert_non_null(strstr(
		logged(), ",\"event\":\"job\",\"job\":7,\"attempt\":2,\"queue\":\"q\",\"fn\":\"f\",\"msg\":\"x\"}\n"));
	memcpy(job->traceparent, TRACEPARENT_FORM, TRACEPARENT_SIZE);
	log_job(LOG_L_INFO, job, "%s", "x");
	assert_non_null(strstr(logged(), ",\"fn\":\"f\",\"traceparent\":\"" TRACEPARENT_FORM "\",\"msg\":\"x\"}\n"));
	/* However long: an object on one line. */
	assert_non_null(text);
	memset(text, '"', 100000);
	text[100000] = '\0';
	last.queue = last.fn = text;
	log_attempt(LOG_L_WARNING, &last, "%s", text);
	assert_true(strlen(logged()) <= 8192);
	assert_string_equal(line + strlen(line) - 4, "\"\"}\n");
	log_set_format(LOG_TEXT);
	log_attempt(LOG_L_WARNING, &last, "%s", text);
	assert_non_null(strstr(logged(), "\"\"; traceparent " TRACEPARENT_FORM "\n"));
	log_job(LOG_L_INFO, job, "%s", "x");
	assert_non_null(strstr(logged(), "info: x; traceparent " TRACEPARENT_FORM "\n"));
	free(text);
	free(job);
}

static void a_line_of_logfmt_has_the_same_fields_and_quotes_what_is_no_word(void **state)
{
	const struct log_attempt attempt = { .queue = "q\"",
					     .fn = "a.b",
					     .outcome = "failed",
					     .traceparent = "",
					     .job = 7,
					     .attempt = 2,
					     .wait_ms = 3,
					     .run_ms = 4,
					     .retry_ms = 5 };
	struct log_attempt last = attempt;
	char *text = malloc(100001);
	const char *at;

	(void)state;
	log_set_format(LOG_LOGFMT);
	log_line(LOG_L_WARNING, "%s",
		 "a\"b\\c\nd=\x1b"
		 "e");
	at = strstr(logged(), "Z level=warning program=check_deferred pid=");
	assert_non_null(at);
	assert_true(strncmp(line, "ts=20", 5) == 0);
	assert_non_null(strstr(at, " event=message msg=\"a\\\"b\\\\c\\\\nd=\\\\x1be\"\n"));
	log_attempt(LOG_L_WARNING, &attempt, "%s", "x");
	assert_non_null(strstr(logged(), " event=attempt job=7 attempt=2 final=false wait_ms=3 run_ms=4 retry_ms=5 "
					 "outcome=failed queue=\"q\\\"\" fn=a.b msg=\"x\"\n"));
	last.final = true;
	last.retry_ms = -1;
	last.queue = "";
	last.fn = "h\xc3\xa9 \n";
	last.traceparent = TRACEPARENT_FORM;
	log_attempt(LOG_L_WARNING, &last, "%s", "");
	assert_non_null(strstr(logged(), " final=true wait_ms=3 run_ms=4 outcome=failed queue=\"\" fn=\"h\xc3\xa9 "
					 "\\\\n\" traceparent=" TRACEPARENT_FORM " msg=\"\"\n"));
	assert_non_null(text);
	memset(text, '"', 100000);
	text[100000] = '\0';
	last.queue = last.fn = text;
	log_attempt(LOG_L_WARNING, &last, "%s", text);
	assert_true(strlen(logged()) <= 8192);
	assert_string_equal(line + strlen(line) - 4, "\\\"\"\n");
	log_set_format(LOG_TEXT);
	free(text);
}

/* Fills a pipe that nobody reads: no line waits, and how many are missing is said when there is room. */
static void who_must_not_wait_keeps_lines_then_counts_them(void **state)
{
	static char all[1 << 20];
	int fds[2], kept, missing, saved = dup(STDERR_FILENO);
	char *at, *end;
	size_t len = 0;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	log_never_wait();
	assert_int_equal(log_waits_fd(), -1);
	signal(SIGPIPE, SIG_IGN);
	alarm(20); /* a write that waits ends the test */
	for (int i = 0; i < 5000; i++)
		log_line(LOG_L_INFO, "%05d %0100d", i, 0);
	assert_true(log_waits_fd() >= 0);
	assert_int_equal(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0); /* others share it */
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	while (len < sizeof(all) - 1 &&
	       ((n = read(fds[0], all + len, sizeof(all) - 1 - len)) > 0 || log_waits_fd() >= 0)) {
		len += n > 0 ? (size_t)n : 0;
		log_flush(0);
	}
	all[len] = '\0';
	/* In order, whole, none twice; then what is missing. */
	missing = 0;
	for (at = all, kept = 0; (end = strchr(at, '\n')); at = end + 1) {
		*end = '\0';
		if (sscanf(strstr(at, "]") + 1, " warning: %d lines of this log are missing here: nobody read it",
			   &missing) == 1)
			break;
		assert_int_equal(atoi(strstr(at, "info: ") + 6), kept++);
	}
	assert_true(kept > 1000);
	assert_int_equal(kept + missing, 5000);
	log_line(LOG_L_INFO, "after");
	assert_true(read(fds[0], all, sizeof(all)) > 0);
	assert_non_null(strstr(all, "info: after\n"));
	/* Whoever read it has gone: nothing is kept for him. */
	close(fds[0]);
	log_line(LOG_L_INFO, "nobody");
	assert_int_equal(log_waits_fd(), -1);
	alarm(0);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_time_program_pid_and_level),
		cmocka_unit_test(control_characters_cannot_forge_or_split_a_line),
		cmocka_unit_test(a_line_of_json_has_the_text_and_what_it_is_about),
		cmocka_unit_test(a_line_of_logfmt_has_the_same_fields_and_quotes_what_is_no_word),
		cmocka_unit_test(a_long_line_is_cut_and_still_ends),
		cmocka_unit_test(lines_below_the_level_are_not_written),
		cmocka_unit_test(the_journal_gets_a_priority_and_no_time),
		cmocka_unit_test(who_must_not_wait_keeps_lines_then_counts_them), /* for good: the last */
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("log", tests, set_up, tear_down);
}
