/* SPDX-License-Identifier: MIT */
/* Lines that start check_deferred: what is read out of them, what is refused, and when they do. */
#include "base/advice/crontab.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MINUTE INT64_C(60000000)
#define DAY (24 * 60 * MINUTE)

static void what_a_line_says_is_read(void **state)
{
	static const struct {
		const char *text;
		bool service;
		const char *rule;
		int64_t cnt;
		int runners;
		bool replace;
		size_t queues;
		const char *pidfile;
	} cases[] = {
		{ "*/2 * * * *", false, "*/2 * * * *", 1, 1, true, 0, NULL },
		{ "  */2\t* * *  1-5  --cnt 10 --runners=2", false, "*/2 * * * 1-5", 10, 2, true, 0, NULL },
		{ "*/2 * * * *   root   /usr/local/bin/check_deferred --cnt 14 --if-running=skip "
		  "2>>/var/log/deferred.log",
		  false, "*/2 * * * *", 14, 1, false, 0, NULL },
		{ "@hourly check_deferred --queue mail --queue=images --pidfile /run/defer_1 >/dev/null", false,
		  "@hourly", 1, 1, true, 2, "/run/defer_1" },
		{ "* * * * * root flock -n /run/x check_deferred", false, "* * * * *", 1, 1, true, 0, NULL },
		{ "0 3 * * * --config /etc/check_deferred --allow-root --cnt 0 # at night", false, "0 3 * * *", 0, 1,
		  true, 0, NULL },
		{ "* * * * * --runners 1..8 | logger", false, "* * * * *", 1, 8, true, 0, NULL },
		{ "runners 4", true, NULL, 0, 4, false, 0, NULL },
		{ "", true, NULL, 0, 1, false, 0, NULL },
		{ "/opt/bin/check_deferred --loop --listen --runners 4 --queue mail", true, NULL, 0, 4, false, 1,
		  NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct deferred_error err = { 0 };
		struct crontab_line line;

		if (crontab_read(cases[i].text, cases[i].service, &line, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.message);
		assert_int_equal(line.rule == NULL, cases[i].rule == NULL);
		if (line.rule)
			assert_string_equal(line.rule, cases[i].rule);
		assert_int_equal(line.cnt, cases[i].cnt);
		assert_int_equal(line.runners, cases[i].runners);
		assert_int_equal(line.replace, cases[i].replace);
		assert_int_equal(line.queues, cases[i].queues);
		assert_int_equal(line.interval_us > 0, !cases[i].service);
		assert_int_equal(line.pidfile == NULL, cases[i].pidfile == NULL);
		if (line.pidfile)
			assert_string_equal(line.pidfile, cases[i].pidfile);
		crontab_clear(&line);
	}
}

static void what_is_no_line_is_quoted(void **state)
{
	static const struct {
		const char *text;
		bool service;
		const char *word;
	} cases[] = {
		{ "", false, "fewer than five fields" },
		{ "*/2 * * *", false, "'*/2 * * *'" },
		{ "*/2 * * * * --cnt", false, "missing behind '--cnt'" },
		{ "*/2 * * * * --cnt -1", false, "'-1'" },
		{ "*/2 * * * * --cnt 1e3", false, "'1e3'" },
		{ "*/2 * * * * --runners 65", false, "'65'" },
		{ "*/2 * * * * --if-running=wait", false, "'wait'" },
		{ "*/2 * * * * runners 4", false, "'runners'" },
		{ "*/2 * * * * root backup", false, "'root'" },
		{ "*/2 * * * * --nosuch 1", false, "'--nosuch'" },
		{ "*/2 * * * * --window 10", false, "'10'" },
		{ "*/2 * * * * --balance g:1", false, "'g:1'" },
		{ "*/2 * * * * --loop --listen", false, "cron starts no service" },
		{ "*/2 * * * * --allow-root=1", false, "no value goes with" },
		{ "check_deferred --loop", true, "sleeps" },
		{ "five", true, "'five'" },
		{ "runners 0", true, "'0'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct deferred_error err = { 0 };
		struct crontab_line line;

		assert_int_equal(crontab_read(cases[i].text, cases[i].service, &line, &err), DEFERRED_EINVAL);
		if (!strstr(err.message, cases[i].word) || !strstr(err.message, cases[i].text) || !err.hint[0])
			fail_msg("%s: %s (%s)", cases[i].text, err.message, err.hint);
		crontab_clear(&line);
	}
}

static void two_lines_of_one_pid_file_are_none(void **state)
{
	struct crontab_line lines[] = { { .pidfile = "/run/a" }, { 0 }, { .pidfile = "/run/b" }, { 0 } };
	struct deferred_error err = { 0 };

	(void)state;
	assert_int_equal(crontab_apart(lines, 4, &err), 0);
	lines[3].pidfile = "/run/a";
	assert_int_equal(crontab_apart(lines, 4, &err), DEFERRED_EINVAL);
	assert_non_null(strstr(err.message, "/run/a"));
}

static struct crontab_when all(void)
{
	return (struct crontab_when){ (INT64_C(1) << 60) - 1, (1 << 24) - 1, (INT64_C(1) << 32) - 2,
				      (1 << 13) - 2,          127,           true };
}

static void ticks_are_when_the_clocks_show_it(void **state)
{
	struct crontab_when when = all();
	int64_t begin_us = DAY + 30 * MINUTE + 1, *ticks; /* Sunday 2 January 2000 */
	size_t n;

	(void)state;
	setenv("TZ", "UTC", 1);
	assert_int_equal(crontab_interval_us(&when), MINUTE);
	ticks = crontab_ticks(&when, begin_us, begin_us + 10 * MINUTE, &n);
	assert_int_equal(n, 9);
	assert_int_equal(ticks[0], MINUTE - 1);
	free(ticks);

	when.minutes = 1 | INT64_C(1) << 30;
	when.hours = 1 << 7;
	assert_int_equal(crontab_interval_us(&when), DAY / 2);
	setenv("TZ", "IST-5:30", 1); /* 7:00 there is 1:30 */
	ticks = crontab_ticks(&when, DAY, 3 * DAY, &n);
	assert_int_equal(n, 4);
	assert_int_equal(ticks[0], 90 * MINUTE);
	assert_int_equal(ticks[3], DAY + 120 * MINUTE);
	free(ticks);

	/* The first of the month or a Monday, of January 2000. */
	setenv("TZ", "UTC", 1);
	when = all();
	when.minutes = when.hours = 1;
	when.days = 2;
	when.weekdays = 2;
	when.both_days = false;
	ticks = crontab_ticks(&when, 0, 31 * DAY, &n);
	assert_int_equal(n, 1 + 5);
	free(ticks);
	when.days = INT64_C(1) << 30;
	when.months = 4;
	when.both_days = true;
	assert_int_equal(crontab_interval_us(&when), 0); /* 30 February */
	ticks = crontab_ticks(&when, 0, 400 * DAY, &n);
	assert_int_equal(n, 0);
	free(ticks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_line_says_is_read),
		cmocka_unit_test(what_is_no_line_is_quoted),
		cmocka_unit_test(two_lines_of_one_pid_file_are_none),
		cmocka_unit_test(ticks_are_when_the_clocks_show_it),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("crontab", tests, NULL, NULL);
}
