/* SPDX-License-Identifier: MIT */
/* When runners become more and when fewer, over a pool of which only the figures are there. */
#include "engine/step/scale.h"

#include "base/clock.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define NOW (1000 * NS_PER_S)

static struct scale scale;
static struct pool pool;

/* 1..16 runners on 4 processors, of which there are n, all started; fewer are enough after a second. */
static void range(size_t n)
{
	scale = (struct scale){
		.min = 1,
		.max = 16,
		.runners = n,
		.idle_ns = NS_PER_S,
		.processors = 4,
		.window_ns = NOW,
		.runner_share = -1,
		.attempt_share = -1,
	};
	pool = (struct pool){ .runners_max = n, .alive = n, .run_us = -1 };
}

static void pend(size_t n)
{
	while (pool.pending_len < n) {
		job_list_push(&pool.pending, job_new("q", "f", "", "{}", 2));
		pool.pending_len++;
	}
}

static int tear_down(void **state)
{
	(void)state;
	job_list_free(pool.pending);
	pool.pending = NULL;
	return 0;
}

static void room_is_what_one_step_would_bring(void **state)
{
	const struct {
		size_t have, min;
		double demand; /* of a processor */
		size_t room;
	} table[] = {
		{ 1, 1, 0, 2 },   { 2, 1, 0, 4 },    { 8, 1, 0, 16 }, { 9, 1, 0, 16 },  { 16, 1, 0, 16 },
		{ 2, 1, 1, 4 },   { 4, 1, 1, 4 },    { 3, 1, 1, 4 },  { 4, 1, 0.5, 8 }, { 4, 1, 0.6, 7 },
		{ 5, 1, 1, 5 },   { 5, 6, 1, 6 },    /* the lower end is had in any case */
		{ 1, 1, 1e9, 1 }, { 1, 1, 1e-9, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		range(table[i].have);
		scale.min = table[i].min;
		scale.cpu_demand = table[i].demand;
		if (scale_room(&scale, &pool) != table[i].room)
			fail_msg("row %zu: %zu, not %zu", i, scale_room(&scale, &pool), table[i].room);
	}
	range(2);
	pool.short_ns = 1; /* no more could be started */
	assert_int_equal(scale_room(&scale, &pool), 2);
	range(5);
	scale.min = scale.max = 5;
	assert_int_equal(scale_room(&scale, &pool), 5);
}

/* Turns of 10 ms; returns after how many there were more runners, or none. */
static int turns_until_more(int turns)
{
	size_t have = pool.runners_max;

	for (int i = 1; i <= turns; i++) {
		pool.alive = have;
		scale_run(&scale, &pool, false, NOW + (uint64_t)i * 10 * MS);
		if (pool.runners_max != have)
			return i;
	}
	return 0;
}

static void short_jobs_that_wait_double_the_runners_after_two_ticks(void **state)
{
	(void)state;
	range(1);
	pool.run_us = 10000;
	pend(100);
	assert_int_equal(turns_until_more(20), 6); /* 10 ms, 60 ms */
	assert_int_equal(pool.runners_max, 2);
	assert_int_equal(scale.runners, 2);
	assert_int_equal(pool.runners_keep, 2);
}

static void no_more_than_their_work_needs(void **state)
{
	(void)state;
	range(8);
	pool.run_us = 10000;
	pend(50); /* 0.5 s: 62 ms for each of 8, and eleven have less than 50 */
	assert_true(turns_until_more(20) > 0);
	assert_int_equal(pool.runners_max, 11);
}

static void little_work_is_no_reason(void **state)
{
	(void)state;
	range(2);
	pool.run_us = 10000;
	pend(10); /* 50 ms for each */
	assert_int_equal(turns_until_more(50), 0);
}

static void long_jobs_are_counted_one_by_one(void **state)
{
	(void)state;
	range(2);
	pool.run_us = 1e6;
	pend(3);
	assert_true(turns_until_more(20) > 0);
	assert_int_equal(pool.runners_max, 3);
}

static void runners_on_their_way_are_waited_for(void **state)
{
	(void)state;
	range(2);
	pool.run_us = 1e6;
	pend(8);
	pool.alive = 1;
	for (int i = 1; i < 100; i++)
		scale_run(&scale, &pool, false, NOW + (uint64_t)i * 10 * MS);
	assert_int_equal(pool.runners_max, 2);
}

static void one_that_is_to_stop_starts_nobody(void **state)
{
	(void)state;
	range(2);
	pool.run_us = 1e6;
	pend(8);
	for (int i = 1; i <= 20; i++)
		scale_run(&scale, &pool, true, NOW + (uint64_t)i * 10 * MS);
	assert_int_equal(pool.runners_max, 2);
}

static void after_a_while_without_use_for_them_they_go(void **state)
{
	(void)state;
	range(8);
	scale_run(&scale, &pool, false, NOW + NS_PER_S - 1);
	assert_int_equal(pool.runners_max, 8);
	scale_run(&scale, &pool, false, NOW + NS_PER_S);
	assert_int_equal(pool.runners_max, 1);
	assert_true(scale_due_ns(&scale, &pool) == UINT64_MAX);
}

static void as_many_stay_as_were_busy_at_once(void **state)
{
	(void)state;
	range(8);
	scale.busy_max = 3;
	scale.min = 2;
	scale_run(&scale, &pool, false, NOW + NS_PER_S);
	assert_int_equal(pool.runners_max, 3);
	scale_run(&scale, &pool, false, NOW + 2 * NS_PER_S);
	assert_int_equal(pool.runners_max, 2);
}

static void with_runner_idle_0_they_stay(void **state)
{
	(void)state;
	range(8);
	scale.idle_ns = 0;
	scale_run(&scale, &pool, false, NOW + 1000 * NS_PER_S);
	assert_int_equal(pool.runners_max, 8);
	assert_true(scale_due_ns(&scale, &pool) == UINT64_MAX);
}

static void it_is_woken_for_what_it_is_to_do(void **state)
{
	(void)state;
	range(2);
	assert_true(scale_due_ns(&scale, &pool) == NOW + NS_PER_S);
	pend(1);
	scale.tick_ns = NOW + 50 * MS;
	assert_true(scale_due_ns(&scale, &pool) == NOW + 50 * MS);
	pool.runners_max = 16; /* no more can be had */
	assert_true(scale_due_ns(&scale, &pool) == NOW + NS_PER_S);
	pool.short_ns = 1;
	assert_true(scale_due_ns(&scale, &pool) == UINT64_MAX);
	pool.short_ns = 0;
	scale.max = 1;
	assert_true(scale_due_ns(&scale, &pool) == UINT64_MAX);
}

static void what_a_limit_holds_back_does_not_count_as_waiting(void **state)
{
	struct store_cycle cycle = { .waiting = 100, .claimed_len = 4 };

	(void)state;
	range(2);
	scale.waiting = 5;
	scale_after_claim(&scale, &cycle, 4); /* nothing was asked for */
	assert_int_equal(scale.waiting, 5);
	cycle.claims = true;
	scale_after_claim(&scale, &cycle, 4);
	assert_int_equal(scale.waiting, 100);
	cycle.claimed_len = 3;
	scale_after_claim(&scale, &cycle, 4);
	assert_int_equal(scale.waiting, 0);
	cycle.claimed_len = 0;
	scale.waiting = 5;
	scale_after_claim(&scale, &cycle, 0);
	assert_int_equal(scale.waiting, 0);
}

static void what_attempts_use_of_a_processor_is_followed(void **state)
{
	struct attempt a = { .started_ns = NOW, .finished_ns = NOW + 10 * MS, .user_us = 3000, .sys_us = 2000 };

	(void)state;
	range(2);
	scale_attempt(&scale, &a);
	assert_true(scale.attempt_share == 0.5);
	a.user_us = 998000; /* four threads use no more than one processor of a runner */
	scale_attempt(&scale, &a);
	assert_true(scale.attempt_share == 0.5 + 0.5 / 8);
	a.finished_ns = a.started_ns; /* of no time there is no share */
	scale_attempt(&scale, &a);
	assert_true(scale.attempt_share == 0.5 + 0.5 / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_is_what_one_step_would_bring),
		cmocka_unit_test_teardown(short_jobs_that_wait_double_the_runners_after_two_ticks, tear_down),
		cmocka_unit_test_teardown(no_more_than_their_work_needs, tear_down),
		cmocka_unit_test_teardown(little_work_is_no_reason, tear_down),
		cmocka_unit_test_teardown(long_jobs_are_counted_one_by_one, tear_down),
		cmocka_unit_test_teardown(runners_on_their_way_are_waited_for, tear_down),
		cmocka_unit_test_teardown(one_that_is_to_stop_starts_nobody, tear_down),
		cmocka_unit_test(after_a_while_without_use_for_them_they_go),
		cmocka_unit_test(as_many_stay_as_were_busy_at_once),
		cmocka_unit_test(with_runner_idle_0_they_stay),
		cmocka_unit_test_teardown(it_is_woken_for_what_it_is_to_do, tear_down),
		cmocka_unit_test(what_a_limit_holds_back_does_not_count_as_waiting),
		cmocka_unit_test(what_attempts_use_of_a_processor_is_followed),
	};

	log_set_level(LOG_L_WARNING);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
