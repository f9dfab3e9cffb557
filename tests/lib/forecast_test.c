/* SPDX-License-Identifier: MIT */
/* Waits whose answer is known: by counting, and by what queueing theory says. */
#include "base/advice/forecast.h"
#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

static void waits_are_those_that_one_counts_by_hand(void **state)
{
	/* Three jobs of 30 that are ready at 5; ticks at 0, 100, 200, ...; the sum does not depend on which is taken
	 * first. */
	static const struct {
		struct forecast_line line;
		int64_t start_us, between_us, sum;
	} cases[] = {
		{ { 0, 100, 0, 1 }, 0, 0, 95 + 125 + 155 },
		{ { 0, 100, 1, 1 }, 0, 0, 95 + 195 + 295 },
		{ { 0, 100, 2, 2 }, 0, 0, 95 + 95 + 195 },
		{ { 0, 100, 0, 2 }, 2, 1, 97 + 97 + 128 },
		{ { 0, 20, 1, 1 }, 0, 0, 15 + 55 + 95 },    /* a copy that runs is left alone */
		{ { 0, 0, 0, 1 }, 0, 0, 0 + 30 + 60 },
		{ { 0, 0, 1, 3 }, 0, 0, 0 },                /* a service has no cnt */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct forecast_job jobs[] = { { 5, 30, 0, 0 }, { 5, 30, 0, 0 }, { 5, 30, 0, 0 } };
		struct forecast_rule rule = { cases[i].start_us, cases[i].between_us, 1000, 1 };

		assert_int_equal(forecast_run(&rule, &cases[i].line, 1, jobs, 3, NULL), 0);
		assert_int_equal(jobs[0].wait_us + jobs[1].wait_us + jobs[2].wait_us, cases[i].sum);
	}
}

static void a_service_takes_what_became_ready_as_a_copy_of_cron_began(void **state)
{
	static const struct forecast_line lines[] = { { 100, 100, 1, 1 }, { 0, 0, 0, 1 } };
	struct forecast_job jobs[] = { { 100, 30, 0, 0 }, { 100, 30, 0, 0 } };
	struct forecast_rule rule = { 0, 0, 1000, 1 };

	(void)state;
	assert_int_equal(forecast_run(&rule, lines, 2, jobs, 2, NULL), 0);
	assert_int_equal(jobs[0].wait_us + jobs[1].wait_us, 0);
}

static void what_is_not_begun_and_what_is_wrong_is_said(void **state)
{
	struct forecast_job jobs[] = { { 5, 30, 0, 0 }, { 500, 30, 0, 0 } };
	struct forecast_job turned[] = { { 5, 30, 0, 0 }, { 4, 30, 0, 0 } };
	struct forecast_line line = { 0, 100, 0, 1 }, wrong = { 0, 100, 0, FORECAST_RUNNERS + 1 };
	struct forecast_rule rule = { 0, 0, 400, 1 };

	(void)state;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 2, NULL), 0);
	assert_int_equal(jobs[0].wait_us, 95);
	assert_int_equal(jobs[1].wait_us, -1);
	assert_int_equal(forecast_run(&rule, &line, 0, jobs, 2, NULL), 0);
	assert_int_equal(jobs[0].wait_us, -1);
	assert_int_equal(forecast_run(&rule, &wrong, 1, jobs, 2, NULL), -2);
	assert_int_equal(forecast_run(&rule, &line, 1, turned, 2, NULL), -2);
	jobs[1].run_us = INT64_MAX;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 2, NULL), -2);
}

static void starts_are_counted(void **state)
{
	struct forecast_job jobs[] = {
		{ 5, 30, 0, 0 }, { 5, 30, 0, 0 }, { 5, 30, 0, 0 }, { 5, 30, 0, 0 }, { 700, 30, 0, 0 },
	};
	struct forecast_line line = { 0, 50, 3, 1 };
	struct forecast_rule rule = { 0, 0, 600, 1 };
	struct forecast_result result;

	(void)state;
	/* 0 finds nothing, 50 takes three until 140, 150 takes the fourth; the fifth comes when all is over. */
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 5, &result), 0);
	assert_int_equal(result.runs, 2);
	assert_int_equal(result.skipped, 1);
	assert_int_equal(result.most, 3);
	assert_int_equal(result.left, 1);
	assert_int_equal(result.busy_us, 120);
}

static void a_start_replaces_the_copy_before_it(void **state)
{
	struct forecast_job jobs[] = { { 70, 30, 0, 0 }, { 105, 500, 0, 0 } };
	struct forecast_job more[] = { { 70, 30, 0, 0 }, { 105, 500, 0, 0 }, { 440, 1, 0, 0 } },
			    late[] = { { 70, 105, 0, 0 }, { 80, 1, 0, 0 } };
	struct forecast_line line = { 75, 100, 1, 1, .replace = true };
	struct forecast_rule rule = { .end_us = 450, .seed = 1, .grace_us = 10 };
	struct forecast_result result;

	(void)state;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 2, &result), 0);
	assert_int_equal(jobs[0].wait_us, 5);
	assert_int_equal(jobs[1].wait_us, 175 - 105);
	assert_int_equal(result.lost, 0); /* all had begun by then */
	/* Begun at 175, cut off at 285 and at 385; each time the start takes it again, at the end of the grace. */
	assert_int_equal(forecast_run(&rule, &line, 1, more, 3, &result), 0);
	assert_int_equal(more[1].wait_us, 70);
	assert_int_equal(more[2].wait_us, -1);
	assert_int_equal(result.lost, 2);
	assert_int_equal(result.left, 1);
	assert_int_equal(result.busy_us, 30 + 110 + 100 + 500);
	/* One that has 5 to go at 175 ends in the grace, and the start begins behind it. */
	assert_int_equal(forecast_run(&rule, &line, 1, late, 2, &result), 0);
	assert_int_equal(late[1].wait_us, 180 - 80);
	assert_int_equal(result.lost, 0);
	line.replace = false;
	assert_int_equal(forecast_run(&rule, &line, 1, more, 3, &result), 0);
	assert_int_equal(result.lost, 0);
	assert_int_equal(result.skipped, 2);
}

static void a_line_starts_at_the_ticks_of_its_list(void **state)
{
	static const int64_t ticks[] = { 10, 15, 300 }, turned[] = { 10, 10 };
	struct forecast_job jobs[] = { { 5, 1, 0, 0 }, { 12, 1, 0, 0 }, { 20, 1, 0, 0 }, { 302, 1, 0, 0 } };
	struct forecast_line line = { .interval_us = 100, .runners = 1, .ticks_us = ticks, .ticks_len = 3 };
	struct forecast_rule rule = { .end_us = 1000, .seed = 1 };
	struct forecast_result result;

	(void)state;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 4, &result), 0);
	assert_int_equal(jobs[0].wait_us, 5);
	assert_int_equal(jobs[1].wait_us, 3);
	assert_int_equal(jobs[2].wait_us, 280);
	assert_int_equal(jobs[3].wait_us, -1);
	assert_int_equal(result.runs, 3);
	line.ticks_len = 0;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 4, &result), 0);
	assert_int_equal(result.left, 4);
	line.ticks_us = turned;
	line.ticks_len = 2;
	assert_int_equal(forecast_run(&rule, &line, 1, jobs, 4, NULL), -2);
}

static void a_line_takes_of_its_groups_alone(void **state)
{
	static const bool first[] = { true, false, false }, second[] = { false, true, false };
	struct forecast_job jobs[] = { { 5, 30, 0, 0 }, { 5, 30, 0, 1 }, { 5, 30, 0, 1 }, { 5, 30, 0, 2 } };
	struct forecast_line lines[] = { { 0, 100, 0, 1, .serves = first },
					 { 50, 100, 0, 1, .serves = second },
					 { 0, 1000, 1, 1 } };
	struct forecast_rule rule = { .end_us = 5000, .seed = 1, .groups = 3 };
	struct forecast_result result;

	(void)state;
	assert_int_equal(forecast_run(&rule, lines, 2, jobs, 4, &result), 0);
	assert_int_equal(jobs[0].wait_us, 95);
	assert_int_equal(jobs[1].wait_us + jobs[2].wait_us, 45 + 75);
	assert_int_equal(jobs[3].wait_us, -1);
	assert_int_equal(result.left, 1);
	assert_int_equal(forecast_run(&rule, lines, 3, jobs, 4, &result), 0); /* the third one has all */
	assert_int_equal(jobs[3].wait_us, 995);
	rule.groups = 2;
	assert_int_equal(forecast_run(&rule, lines, 2, jobs, 4, NULL), -2);
	rule.groups = 0;
	assert_int_equal(forecast_run(&rule, lines, 2, jobs, 4, NULL), -2);
}

static void nobody_overtakes_more_than_the_window(void **state)
{
	enum { N = 1000 };
	static struct forecast_job jobs[N];
	struct forecast_line line = { 0, 0, 0, 1 };
	struct forecast_rule rule = { 0, 0, FORECAST_MAX_US, 0 };
	bool drawn = false;

	(void)state;
	for (int i = 0; i < N; i++)
		jobs[i] = (struct forecast_job){ 0, 10, 0, 0 };
	for (rule.seed = 1; rule.seed <= 5; rule.seed++) {
		assert_int_equal(forecast_run(&rule, &line, 1, jobs, N, NULL), 0);
		for (int i = 0; i < N; i++)
			assert_true(jobs[i].wait_us / 10 > i - FORECAST_WINDOW);
		drawn |= jobs[0].wait_us > 0;
	}
	assert_true(drawn);
}

/* ---- queueing theory: the mean wait ----------------------------------------------------------- */

static double exponential(uint64_t *random, double mean)
{
	return -mean * log(1 - (double)(random_next(random) >> 11) * 0x1p-53);
}

/* Mean wait of n jobs that arrive at random, in run times. */
static double simulated(const struct forecast_line *line, double load, bool constant)
{
	enum { N = 300000 };
	static struct forecast_job jobs[N];
	struct forecast_rule rule = { 0, 0, FORECAST_MAX_US, 1 };
	uint64_t random = 42;
	double at = 0, sum = 0;

	for (int i = 0; i < N; i++) {
		at += exponential(&random, (double)SECOND / (load * line->runners));
		jobs[i] = (struct forecast_job){ (int64_t)at,
						 constant ? SECOND : (int64_t)exponential(&random, (double)SECOND), 0,
						 0 };
	}
	assert_int_equal(forecast_run(&rule, line, 1, jobs, N, NULL), 0);
	for (int i = 0; i < N; i++) {
		assert_true(jobs[i].wait_us >= 0);
		sum += (double)jobs[i].wait_us;
	}
	return sum / N / (double)SECOND;
}

/* Erlang C: mean wait of M/M/c in run times. */
static double erlang_c(int c, double load)
{
	double a = load * c, term = 1, sum = 0, all_busy;

	for (int k = 0; k < c; k++) {
		sum += term;
		term *= a / (k + 1);
	}
	all_busy = term / (1 - load) / (sum + term / (1 - load));
	return all_busy / (c * (1 - load));
}

static void assert_near(double is, double expected)
{
	if (fabs(is - expected) > 0.05 * expected)
		fail_msg("%.4f, where theory has %.4f", is, expected);
}

static void a_service_is_as_theory_has_it(void **state)
{
	static const double loads[] = { 0.3, 0.6, 0.8 };

	(void)state;
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		for (int c = 1; c <= 4; c *= 2)
			assert_near(simulated(&(struct forecast_line){ .runners = c }, loads[i], false),
				    erlang_c(c, loads[i]));
		assert_near(simulated(&(struct forecast_line){ .runners = 1 }, loads[i], true),
			    loads[i] / (2 * (1 - loads[i])));
	}
}

/* Few short jobs of a line wait for its next tick alone: evenly between 0 and its interval. */
static void a_line_with_little_to_do_is_its_gate(void **state)
{
	struct forecast_line line = { .interval_us = 200 * SECOND, .runners = 1 };

	(void)state;
	assert_near(simulated(&line, 0.001, true), 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits_are_those_that_one_counts_by_hand),
		cmocka_unit_test(a_service_takes_what_became_ready_as_a_copy_of_cron_began),
		cmocka_unit_test(what_is_not_begun_and_what_is_wrong_is_said),
		cmocka_unit_test(starts_are_counted),
		cmocka_unit_test(a_start_replaces_the_copy_before_it),
		cmocka_unit_test(a_line_starts_at_the_ticks_of_its_list),
		cmocka_unit_test(a_line_takes_of_its_groups_alone),
		cmocka_unit_test(nobody_overtakes_more_than_the_window),
		cmocka_unit_test(a_service_is_as_theory_has_it),
		cmocka_unit_test(a_line_with_little_to_do_is_its_gate),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("forecast", tests, NULL, NULL);
}
