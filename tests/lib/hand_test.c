/* SPDX-License-Identifier: MIT */
/* Jobs in hand, in a pool without runners. */
#include "engine/step/hand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static struct pool pool;
static struct ledger ledger;

static struct job *new_job(int64_t id, const char *fn)
{
	struct job *job = job_new("default", fn, "", "{}", 2);

	assert_non_null(job);
	job->id = job->receipt = id;
	return job;
}

static int set_up(void **state)
{
	(void)state;
	pool = (struct pool){ .pending_tail = &pool.pending, .run_us = -1 };
	ledger_init(&ledger);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	job_list_free(pool.pending);
	ledger_clear(&ledger);
	return 0;
}

/* The ids of pending jobs in order: {1,2} as 12. */
static int64_t pending(void)
{
	int64_t text = 0;

	for (const struct job *job = pool.pending; job; job = job->next)
		text = text * 10 + job->id;
	return text;
}

static void begin(int64_t id, const char *fn)
{
	hand_begin(&pool, new_job(id, fn));
}

static void jobs_that_must_begin_soon_begin_before_those_that_wait(void **state)
{
	struct job *jobs = new_job(3, "f");

	(void)state;
	begin(1, "f");
	begin(2, "f");
	jobs->next = new_job(4, "f");
	jobs->next->alone = true;
	jobs->next->next = new_job(5, "f");
	jobs->next->next->limited = true;
	hand_begin(&pool, jobs);
	assert_int_equal(pending(), 45123);
}

static void jobs_of_one_function_are_given_back_and_the_others_stay(void **state)
{
	(void)state;
	begin(1, "f");
	begin(2, "g");
	begin(3, "f");
	ledger_child(&ledger, new_job(4, "f"));
	ledger_child(&ledger, new_job(5, "g"));
	hand_return_unstarted(&pool, &ledger, "f");
	assert_int_equal(pending(), 2);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 3);
	assert_int_equal(ledger.n[LEDGER_CHILD], 1);
	hand_return_unstarted(&pool, &ledger, NULL);
	assert_int_equal(pending(), 0);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 5);
}

static struct job *new_keyed(int64_t id, const char *fn, struct job *next)
{
	struct job *job = new_job(id, fn);

	job->receipt = 1;
	job->key = 1;
	job->limited = true;
	job->next = next;
	return job;
}

static void jobs_behind_one_of_their_key_are_given_back_with_it(void **state)
{
	(void)state;
	begin(4, "f");
	hand_begin(&pool, new_keyed(1, "f", new_keyed(2, "broken", new_keyed(3, "f", NULL))));
	assert_int_equal(pending(), 1234);
	hand_return_unstarted(&pool, &ledger, "broken");
	assert_int_equal(pending(), 4);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 1);
	assert_false(hand_is_empty(&pool, &ledger));
	job_list_free(pool_take_pending(&pool));
	ledger_clear(&ledger);
	assert_false(hand_is_empty(&pool, &ledger)); /* the others are given back in this turn */
	job_list_free(pool_take_late(&pool));
	assert_true(hand_is_empty(&pool, &ledger));
}

static void jobs_that_stay_keep_their_order(void **state)
{
	(void)state;
	for (int64_t id = 1; id <= 4; id++)
		begin(id, "f");
	for (struct job *job = pool.pending; job; job = job->next)
		job->claimed_ns = job->id == 2 ? 0 : NOW;
	pool.run_us = 1e6;
	hand_return_waiting(&pool, &ledger, NOW);
	assert_int_equal(pending(), 134);
}

static void jobs_wait_for_a_runner_unless_all_are_busy_for_long(void **state)
{
	(void)state;
	begin(1, "f");
	begin(2, "f");
	pool.pending->next->claimed_ns = NOW;
	pool.runners_max = 1;
	pool.run_us = 1e6;
	hand_return_waiting(&pool, &ledger, NOW); /* a runner is idle */
	assert_int_equal(pending(), 12);
	pool.runners_max = 0;
	pool.run_us = 1000; /* short jobs */
	hand_return_waiting(&pool, &ledger, NOW);
	assert_int_equal(pending(), 12);
	pool.run_us = 1e6;
	hand_return_waiting(&pool, &ledger, NOW);
	assert_int_equal(pending(), 2); /* it was claimed a moment ago */
	assert_int_equal(ledger.n[LEDGER_RETURNED], 1);
}

static void a_cycle_that_came_to_nothing_is_undone(void **state)
{
	struct store_cycle cycle = { 0 };
	struct attempt *a = calloc(1, sizeof(*a));

	(void)state;
	a->job = new_job(1, "f");
	ledger_end(&ledger, a, NOW);
	begin(2, "f");
	pool.pending->progress = 7;
	ledger_child(&ledger, new_job(3, "f"));
	ledger_record(&ledger);
	ledger_ask(&ledger);
	hand_undo_cycle(&pool, &ledger, &cycle, LEDGER_SET_ASIDE, false);
	assert_int_equal(ledger.n[LEDGER_SET_ASIDE], 1);
	assert_int_equal(ledger.n[LEDGER_CHILD], 1);
	assert_int_equal(pool.pending->progress, 1); /* its last report may not have arrived */
	hand_undo_cycle(&pool, &ledger, &cycle, LEDGER_SET_ASIDE, true);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 2); /* a worker that stops begins nothing */
}

static void receipts_are_those_of_all_jobs_except_recorded_ones(void **state)
{
	struct store_ids held = { 0 };
	struct attempt *a = calloc(1, sizeof(*a));

	(void)state;
	assert_true(hand_is_empty(&pool, &ledger));
	a->job = new_job(1, "f");
	ledger_end(&ledger, a, NOW);
	ledger_record(&ledger);
	begin(9, "f");
	ledger_return(&ledger, new_job(5, "f"));
	ledger_abandon(&ledger, 7);
	assert_true(hand_receipts(&pool, &ledger, &held));
	assert_int_equal(held.len, 3);
	for (int64_t id = 5; id <= 9; id += 2)
		assert_true(store_ids_have(&held, id));
	assert_false(store_ids_have(&held, 1));
	assert_false(hand_is_empty(&pool, &ledger));
	free(held.id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(jobs_that_must_begin_soon_begin_before_those_that_wait, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(jobs_of_one_function_are_given_back_and_the_others_stay, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(jobs_behind_one_of_their_key_are_given_back_with_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(jobs_that_stay_keep_their_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(jobs_wait_for_a_runner_unless_all_are_busy_for_long, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cycle_that_came_to_nothing_is_undone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(receipts_are_those_of_all_jobs_except_recorded_ones, set_up, tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("hand", tests, NULL, NULL);
}
