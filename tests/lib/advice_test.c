/* SPDX-License-Identifier: MIT */
/* What is advised for histories made up, and whether it holds for what comes after them. */
#include "base/advice/advice.h"
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
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static double uniform(uint64_t *random)
{
	return (double)(random_next(random) >> 11) * 0x1p-53;
}

static double exponential(uint64_t *random, double mean)
{
	return -mean * log(1 - uniform(random));
}

/* Jobs that come at random, burst at a time, more by day than by night, and run for exponential times. */
struct workload {
	double a_minute, run_s;
	int burst;
	bool days;
};

static struct advice_history make(const struct workload *load, int64_t span_us, uint64_t seed)
{
	struct advice_history h = { 0 };
	size_t cap = 1000 + (size_t)(2 * load->a_minute * (double)(span_us / MINUTE));

	h.jobs = calloc(cap, sizeof(*h.jobs));
	assert_non_null(h.jobs);
	for (double at = 0;
	     (at += exponential(&seed, (double)MINUTE * load->burst / (load->a_minute * (load->days ? 2 : 1)))) <
	     (double)span_us;) {
		if (load->days && uniform(&seed) > 0.5 + 0.5 * sin(2 * 3.14159265 * at / (double)DAY))
			continue;
		for (int i = 0; i < load->burst && h.len < cap; i++)
			h.jobs[h.len++] = (struct forecast_job){
				(int64_t)at, (int64_t)exponential(&seed, load->run_s * (double)SECOND), 0, 0
			};
	}
	return h;
}

static struct advice_wanted want(const struct workload *load, int64_t within_us)
{
	double rate = load->a_minute / 60;

	return (struct advice_wanted){ .share = 0.95,
				       .within_us = within_us,
				       .headroom = 1.2,
				       .runners_max = 32,
				       .start_us = SECOND / 5,
				       .between_us = SECOND / 40,
				       .rate = rate,
				       .peak_rate = rate * (load->days ? 2 : 1),
				       .run_us = (int64_t)(load->run_s * (double)SECOND),
				       .seed = 1 };
}

static struct advice seek(const struct workload *load, int64_t within_us)
{
	struct advice_history h = make(load, 2 * DAY, 5);
	struct advice_wanted wanted = want(load, within_us);
	struct advice a;

	assert_int_equal(advice_seek(&wanted, &h, 1, &a), 0);
	free(h.jobs);
	return a;
}

static void a_share_of_waits_is_told_with_those_that_never_began(void **state)
{
	struct forecast_job jobs[] = { { 0, 0, 5, 0 }, { 0, 0, 1, 1 }, { 0, 0, -1, 1 }, { 0, 0, 3, 0 } };

	(void)state;
	assert_int_equal(advice_quantile_us(jobs, 4, -1, 0.5), 3);
	assert_int_equal(advice_quantile_us(jobs, 4, -1, 0.75), 5);
	assert_int_equal(advice_quantile_us(jobs, 4, -1, 0.76), ADVICE_NEVER);
	assert_int_equal(advice_quantile_us(jobs, 4, 0, 0.99), 5);
	assert_int_equal(advice_quantile_us(jobs, 4, 2, 0.5), -1);
}

static void what_is_served_is_what_cnt_and_starts_left_out_allow(void **state)
{
	struct advice_setting s = { 2 * MINUTE, 1, 1, 1 };

	(void)state;
	assert_float_equal(advice_served(&s, 10 * SECOND, 0, 0) * 3600, 30, 1e-9); /* the classic line: 30 an hour */
	s.cnt = 18; /* three minutes: every other start is skipped */
	assert_float_equal(advice_served(&s, 10 * SECOND, 0, 0) * 3600, 270, 1e-9);
	s.runners = 2;
	assert_float_equal(advice_served(&s, 10 * SECOND, 0, 0) * 3600, 540, 1e-9);
	s.cnt = 0;
	s.lines = 3;
	assert_float_equal(advice_served(&s, 10 * SECOND, 0, 2 * SECOND) * 3600, 1800, 1e-9);
}

static void the_smallest_that_holds_is_advised(void **state)
{
	struct advice a = seek(&(struct workload){ .a_minute = 1, .run_s = 2, .burst = 1 }, 2 * MINUTE);

	(void)state;
	assert_int_equal(a.answer, ADVICE_FOUND);
	assert_true(a.setting.interval_us == 2 * MINUTE && a.setting.runners == 1 && a.setting.lines == 1);
	assert_in_range(a.setting.cnt, 4, 15);
	assert_in_range(a.predicted_us, 110 * SECOND, 120 * SECOND);
	assert_in_range(a.bound_us, 110 * SECOND, 120 * SECOND);
	/* 40 s of work a minute: not with one; */
	a = seek(&(struct workload){ .a_minute = 10, .run_s = 6, .burst = 1 }, 5 * MINUTE);
	assert_int_equal(a.answer, ADVICE_FOUND);
	assert_true(a.setting.runners * a.setting.lines >= 2 && a.setting.interval_us >= 2 * MINUTE);
	/* sooner than any crontab can; */
	a = seek(&(struct workload){ .a_minute = 1, .run_s = 2, .burst = 1 }, 20 * SECOND);
	assert_true(a.answer == ADVICE_FOUND && a.setting.interval_us == 0 && a.setting.runners == 1);
	/* and more than may be. */
	a = seek(&(struct workload){ .a_minute = 4, .run_s = 600, .burst = 1 }, 2 * MINUTE);
	assert_int_equal(a.answer, ADVICE_TOO_MUCH);
	/* A burst of 60 takes 32 runners long: enough is served, but late. */
	a = seek(&(struct workload){ .a_minute = 1, .run_s = 120, .burst = 240 }, 30 * SECOND);
	assert_true(a.answer == ADVICE_TOO_LATE && a.predicted_us > 30 * SECOND);
}

static void bursts_and_peaks_take_more_runners(void **state)
{
	struct workload load = { .a_minute = 1, .run_s = 10, .burst = 40 };
	struct advice_history h = make(&load, 4 * DAY, 5);
	struct advice_wanted wanted = want(&load, 2 * MINUTE);
	struct advice a, doubled;

	(void)state;
	/* 400 s of work at once, of which nearly all is to begin within 120 s. */
	assert_int_equal(advice_seek(&wanted, &h, 1, &a), 0);
	assert_true(a.answer == ADVICE_FOUND && a.setting.runners * a.setting.lines >= 4);
	wanted.peak_rate = 2;
	assert_int_equal(advice_seek(&wanted, &h, 1, &a), 0);
	assert_true(a.answer == ADVICE_FOUND && a.setting.runners * a.setting.lines > 20);
	wanted.headroom = 1;
	assert_int_equal(advice_judge(&wanted, &(struct advice_setting){ 2 * MINUTE, 0, 2, 1 }, &h, 1, &a), 0);
	wanted.headroom = 2;
	assert_int_equal(advice_judge(&wanted, &(struct advice_setting){ 2 * MINUTE, 0, 2, 1 }, &h, 1, &doubled), 0);
	assert_true(doubled.predicted_us == a.predicted_us && doubled.bound_us > a.bound_us + a.bound_us / 3);
	free(h.jobs);
}

/* Most jobs come just before a start; those of the other queue, too few to count among all, just after one. */
static void each_queue_keeps_the_promise(void **state)
{
	enum { N = 6000 };
	static struct forecast_job jobs[N];
	struct advice_history h = { .jobs = jobs, .len = N };
	struct advice_wanted wanted = want(&(struct workload){ .a_minute = 1, .run_s = 0.1 }, MINUTE);
	struct advice a;

	(void)state;
	for (int i = 0; i < N; i++)
		jobs[i] = (struct forecast_job){ i / 4 * 2 * MINUTE + (i % 40 == 0 ? SECOND : 119 * SECOND),
						 SECOND / 10, 0, i % 40 == 0 };
	assert_int_equal(advice_judge(&wanted, &(struct advice_setting){ 2 * MINUTE, 0, 1, 1 }, &h, 1, &a), 0);
	assert_true(advice_quantile_us(jobs, N, -1, 0.95) < 2 * SECOND);
	assert_true(a.predicted_us > 100 * SECOND && a.answer == ADVICE_TOO_LATE);
}

static void a_history_made_up_keeps_the_hours(void **state)
{
	struct workload load = { .a_minute = 5, .run_s = 1, .burst = 1, .days = true };
	struct advice_history h = make(&load, 5 * DAY, 3), made, doubled, none;
	size_t by_hour[2][24] = { 0 };

	(void)state;
	assert_int_equal(advice_resample(&h, 1, 9, &made), 0);
	for (size_t i = 0; i < h.len; i++)
		by_hour[0][h.jobs[i].ready_us / HOUR % 24]++;
	for (size_t i = 0; i < made.len; i++) {
		assert_true(i == 0 || made.jobs[i].ready_us >= made.jobs[i - 1].ready_us);
		by_hour[1][made.jobs[i].ready_us / HOUR % 24]++;
	}
	for (int i = 0; i < 24; i++)
		assert_true(fabs((double)by_hour[1][i] - (double)by_hour[0][i]) < 60 + 0.1 * (double)by_hour[0][i]);
	assert_int_not_equal(made.jobs[made.len / 2].ready_us, h.jobs[made.len / 2].ready_us);
	assert_int_equal(advice_scale(&h, 2.5, 1, &doubled), 0);
	assert_in_range(doubled.len, h.len * 24 / 10, h.len * 26 / 10);
	assert_int_equal(advice_scale(&h, 0, 1, &none), 0);
	assert_int_equal(none.len, 0);
	free(none.jobs);
	free(doubled.jobs);
	free(made.jobs);
	free(h.jobs);
}

/* Advised from two days, tried on the two days that follow. */
static void what_is_promised_holds_for_what_comes_after(void **state)
{
	static const int64_t within[] = { 2 * MINUTE, 5 * MINUTE, 20 * MINUTE, 30 * SECOND };
	int near = 0, kept = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct workload load = { .a_minute = 0.5 + (double)(seed % 3),
					 .run_s = 1 + (double)(seed % 7),
					 .burst = seed % 4 == 3 ? 5 : 1,
					 .days = seed % 3 == 0 };
		struct advice_history h = make(&load, 2 * DAY, seed), after = make(&load, 2 * DAY, 1000 + seed);
		struct advice_wanted wanted = want(&load, within[seed % 4]);
		struct advice a;
		int64_t us;

		assert_int_equal(advice_seek(&wanted, &h, 1, &a), 0);
		assert_int_equal(a.answer, ADVICE_FOUND);
		wanted.seed = 77;
		assert_int_equal(advice_replay(&after, &a.setting, &wanted, NULL), 0);
		us = advice_quantile_us(after.jobs, after.len, -1, 0.95);
		if (getenv("ADVICE_TOLD"))
			print_message("# seed %d: %d x %d runners, each %d s, cnt %d: %.1f s, bound %.1f s; then %.1f "
				      "s; %d replays\n",
				      (int)seed, a.setting.lines, a.setting.runners,
				      (int)(a.setting.interval_us / SECOND), (int)a.setting.cnt,
				      (double)a.predicted_us / 1e6, (double)a.bound_us / 1e6, (double)us / 1e6,
				      a.replays);
		near += us <= a.predicted_us * 12 / 10 && us >= a.predicted_us * 8 / 10;
		kept += us <= a.bound_us;
		free(h.jobs);
		free(after.jobs);
	}
	assert_int_equal(near, 20);
	/* A bound that 19 of 20 keep is missed by one of them, as a rule; by four only once in sixty times. */
	assert_in_range(kept, 17, 20);
}

static void what_makes_no_sense_is_refused(void **state)
{
	struct workload load = { .a_minute = 1, .run_s = 2, .burst = 1 };
	struct advice_history h = make(&load, HOUR, 1), empty = { .jobs = h.jobs };
	struct advice_wanted wanted = want(&load, MINUTE), wrong = wanted;
	struct advice_setting one = { 0, 0, 1, 1 }, lines = { 0, 0, 1, FORECAST_LINES + 1 };
	struct advice a;

	(void)state;
	assert_int_equal(advice_seek(&wanted, &h, 0, &a), -2);
	assert_int_equal(advice_seek(&wanted, &empty, 1, &a), -2);
	wrong.share = 1;
	assert_int_equal(advice_seek(&wrong, &h, 1, &a), -2);
	wrong = wanted;
	wrong.runners_max = FORECAST_RUNNERS + 1;
	assert_int_equal(advice_judge(&wrong, &one, &h, 1, &a), -2);
	assert_int_equal(advice_judge(&wanted, &lines, &h, 1, &a), -2);
	h.jobs[0].group = -1;
	assert_int_equal(advice_judge(&wanted, &one, &h, 1, &a), -2);
	free(h.jobs);
}

static bool so_many_more(void *data)
{
	int *left = data;

	return (*left)-- > 0;
}

static void it_is_given_up_between_two_replays(void **state)
{
	struct workload load = { .a_minute = 1, .run_s = 2, .burst = 1 };
	struct advice_history h = make(&load, DAY, 1);
	struct advice_wanted wanted = want(&load, 2 * MINUTE);
	struct advice a, b;
	int left = 1000000;

	(void)state;
	wanted.go_on = so_many_more;
	wanted.go_on_data = &left;
	assert_int_equal(advice_seek(&wanted, &h, 1, &a), 0);
	for (int share = 0; share < 4; share++) {
		left = share * (1000000 - left) / 4;
		assert_int_equal(advice_seek(&wanted, &h, 1, &b), -3);
		left = 1000000;
		assert_int_equal(advice_seek(&wanted, &h, 1, &b), 0);
	}
	assert_true(a.predicted_us == b.predicted_us && a.bound_us == b.bound_us);
	free(h.jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_of_waits_is_told_with_those_that_never_began),
		cmocka_unit_test(what_is_served_is_what_cnt_and_starts_left_out_allow),
		cmocka_unit_test(the_smallest_that_holds_is_advised),
		cmocka_unit_test(bursts_and_peaks_take_more_runners),
		cmocka_unit_test(each_queue_keeps_the_promise),
		cmocka_unit_test(a_history_made_up_keeps_the_hours),
		cmocka_unit_test(what_is_promised_holds_for_what_comes_after),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(it_is_given_up_between_two_replays),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("advice", tests, NULL, NULL);
}
