/* SPDX-License-Identifier: MIT */
/* A runner gets its jobs in a ring, and whatever a function writes to the board, no job is lost or gains time. */
#include "run/calls.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct board board;
static struct calls calls;

static int fresh(void **state)
{
	(void)state;
	memset(&board, 0, sizeof(board));
	memset(&calls, 0, sizeof(calls));
	calls.board = &board;
	return 0;
}

static int drop_jobs(void **state)
{
	(void)state;
	job_list_free(calls_recall(&calls, true));
	return 0;
}

/* Add a batch. */
static void add_batch(int64_t from, int64_t to)
{
	struct job *list = NULL;

	for (int64_t id = to; id >= from; id--) {
		struct job *job = job_new("q", "f", "", "{}", 2);

		job->id = id;
		job->claimed_ns = clock_ns();
		job_list_push(&list, job);
	}
	calls_add(&calls, list, (unsigned int)(to - from + 1), &(struct call_terms){ .plugin = "plugin" });
}

static void add_jobs(int64_t from, int64_t to)
{
	for (int64_t id = from; id <= to; id++)
		add_batch(id, id);
}

static void assert_ids(struct job *list, int64_t from, int64_t to)
{
	const struct job *job = list;

	for (int64_t id = from; id <= to; id++, job = job->next)
		assert_int_equal(job->id, id);
	assert_null(job);
	job_list_free(list);
}

/* The jobs that run. */
static void assert_current(int64_t from, int64_t to)
{
	const struct call *c;
	unsigned int n = 0;

	for (int64_t id = from; id <= to; id++) {
		c = calls_current(&calls, &n);
		assert_non_null(c);
		assert_int_equal(c->job->id, id);
	}
	assert_null(calls_current(&calls, &n));
}

static void set_state(unsigned int i, uint32_t state)
{
	atomic_store(&board.slot[calls_slot(&calls, i)].state, state);
}

static void jobs_that_have_not_begun_come_back_but_the_first_one_of_a_living_runner(void **state)
{
	struct job *list;
	int64_t id = 2;

	(void)state;
	add_jobs(1, 5);
	list = calls_recall(&calls, false);
	for (const struct job *job = list; job; job = job->next)
		assert_int_equal(job->id, id++);
	assert_int_equal(id, 6);
	assert_int_equal(calls.load, 1);
	assert_int_equal(calls.used, 5); /* the runner has still to skip their frames */
	job_list_free(list);
	list = calls_recall(&calls, true);
	assert_int_equal(list->id, 1);
	job_list_free(list);
}

static void a_job_that_the_runner_has_taken_is_not_recalled(void **state)
{
	struct job *list;

	(void)state;
	add_jobs(1, 4);
	set_state(0, BOARD_DONE);
	set_state(1, BOARD_RUNNING);
	list = calls_recall(&calls, false);
	assert_int_equal(list->id, 3);
	assert_int_equal(list->next->id, 4);
	assert_null(list->next->next);
	assert_false(calls_are_forged(&calls));
	job_list_free(list);
}

static void a_board_on_which_a_later_job_runs_before_an_earlier_one_is_forged(void **state)
{
	(void)state;
	add_jobs(1, 4);
	set_state(2, BOARD_RUNNING);
	job_list_free(calls_recall(&calls, false));
	assert_true(calls_are_forged(&calls));
}

static void a_board_on_which_the_first_job_is_in_no_state_it_can_have_is_forged(void **state)
{
	static const uint32_t states[] = { BOARD_FREE, BOARD_RECALLED, 77 };

	(void)state;
	add_jobs(1, 1);
	assert_false(calls_are_forged(&calls));
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		set_state(0, states[i]);
		assert_true(calls_are_forged(&calls));
	}
	set_state(0, BOARD_QUEUED);
}

static void a_recalled_job_is_never_the_one_that_runs(void **state)
{
	(void)state;
	add_jobs(1, 3);
	set_state(0, BOARD_DONE);
	job_list_free(calls_recall(&calls, false));
	for (uint32_t forged = 0; forged < 6; forged++) {
		set_state(1, forged);
		set_state(2, forged);
		assert_null(calls_running_job(&calls));
	}
	set_state(1, BOARD_RECALLED);
	set_state(2, BOARD_RECALLED);
}

static void a_job_counts_as_begun_within_what_is_possible(void **state)
{
	static const uint64_t said[] = { 0, 1, UINT64_MAX };
	int64_t timeout_ms;
	uint64_t started;

	(void)state;
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		uint64_t before = clock_ns();

		fresh(NULL);
		add_jobs(1, 1);
		board.slot[0].started_ns = said[i];
		set_state(0, BOARD_RUNNING);
		assert_int_equal(calls_running(&calls, &started, &timeout_ms)->id, 1);
		assert_true(started >= before && started <= clock_ns());
		/* It is believed once. */
		board.slot[0].started_ns = clock_ns() + 100 * NS_PER_S;
		before = started;
		calls_running(&calls, &started, &timeout_ms);
		assert_true(started == before);
		drop_jobs(NULL);
	}
}

static void the_jobs_of_a_batch_run_together_and_the_first_batch_stays_with_a_living_runner(void **state)
{
	(void)state;
	add_batch(1, 3);
	add_batch(4, 6);
	assert_current(1, 3);
	assert_ids(calls_recall(&calls, false), 4, 6);
	for (unsigned int i = 0; i < 3; i++)
		set_state(i, BOARD_RUNNING);
	assert_current(1, 3);
	assert_ids(calls_recall(&calls, false), 1, 0);
	set_state(0, BOARD_DONE);
	assert_current(2, 3);
	assert_false(calls_are_forged(&calls));
	assert_ids(calls_recall(&calls, true), 1, 3);
}

static void of_a_batch_that_the_runner_begins_the_last_jobs_may_be_recalled(void **state)
{
	(void)state;
	add_batch(1, 1);
	add_batch(2, 5);
	set_state(0, BOARD_DONE);
	set_state(1, BOARD_RUNNING);
	set_state(2, BOARD_RUNNING); /* it comes to the others next */
	assert_ids(calls_recall(&calls, false), 4, 5);
	assert_current(2, 3);
	assert_false(calls_are_forged(&calls));
	assert_ids(calls_recall(&calls, true), 1, 3);
}

static void a_board_on_which_a_batch_runs_before_an_earlier_one_is_forged(void **state)
{
	(void)state;
	add_batch(1, 2);
	add_batch(3, 5);
	set_state(3, BOARD_RUNNING);
	job_list_free(calls_recall(&calls, false));
	assert_true(calls_are_forged(&calls));
}

static void what_is_reported_is_of_the_call_that_it_was_reported_for(void **state)
{
	struct job_progress progress = { 0 };

	(void)state;
	add_batch(1, 2);
	board_report(&board.progress[1], 3, 4, "abc", 3, clock_ns());
	assert_false(calls_progress(&calls, &calls.call[0], &progress));
	assert_true(calls_progress(&calls, &calls.call[1], &progress));
	assert_true(progress.job->id == 2 && progress.done == 3 && progress.total == 4);
	assert_string_equal(progress.text, "abc");
}

static void the_ring_goes_round(void **state)
{
	(void)state;
	for (int64_t id = 1; id <= 3 * BOARD_SLOTS; id++) {
		add_jobs(id, id);
		assert_int_equal(calls_first(&calls)->job->id, id);
		set_state(0, BOARD_DONE);
		assert_int_equal(calls_over(&calls), 1);
		free(calls_take_job(&calls, calls_first(&calls)));
		calls_drop_first(&calls, clock_ns());
	}
	assert_int_equal(calls.load, 0);
	assert_int_equal(calls.used, 0);
}

static int add_step(unsigned int slot, uint32_t number, const char *texts, size_t len)
{
	static char payload[200000];

	memcpy(payload, &number, sizeof(number));
	memcpy(payload + sizeof(number), texts, len);
	payload[sizeof(number) + len] = '\0';
	return calls_add_step(&calls, slot, payload, sizeof(number) + len);
}

static void a_step_waits_for_its_answer_which_goes_to_the_board(void **state)
{
	(void)state;
	add_jobs(1, 2);
	assert_int_equal(add_step(1, 5, "name\0{}", 8), 0);
	assert_int_equal(calls.step->job->id, 2);
	assert_string_equal(calls.step->name, "name");
	assert_string_equal(calls.step->value, "{}");
	assert_int_equal(add_step(1, 6, "other\0{}", 9), -1);
	calls_answer_step(&calls, -3);
	assert_int_equal(atomic_load(&board.slot[1].step), 5 << 3 | 3);
	assert_int_equal(atomic_load(&board.slot[0].step), 0);
	assert_null(calls.step);
}

static void the_step_of_a_job_goes_with_it(void **state)
{
	struct job_step *step;

	(void)state;
	add_jobs(1, 3);
	assert_int_equal(add_step(2, 1, "name\0{}", 8), 0);
	assert_null(calls_take_step(&calls, calls_first(&calls)->job));
	job_list_free(calls_recall(&calls, false));
	assert_null(calls.step);
	assert_int_equal(add_step(0, 1, "name\0{}", 8), 0);
	step = calls_take_step(&calls, calls_first(&calls)->job);
	assert_non_null(step);
	assert_null(calls.step);
	free(step);
}

static void a_step_that_the_runner_would_have_refused_is_nonsense(void **state)
{
	static char value[STEP_VALUE_MAX + 10];
	static const struct {
		const char *texts;
		size_t len;
	} wrong[] = { { "", 0 },         { "name", 4 },     { "name\0", 5 }, { "name\0{}", 7 }, { "\0{}", 4 },
		      { "1a\0{}", 6 }, { "a b\0{}", 7 }, { "name\0{", 7 }, { "name\0", 6 },   { "name\0\xff", 7 } };

	(void)state;
	add_jobs(1, 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(add_step(0, 1, wrong[i].texts, wrong[i].len), -1);
		assert_null(calls.step);
	}
	assert_int_equal(calls_add_step(&calls, 0, "abc", 3), -1);
	memset(value, ' ', sizeof(value));
	memcpy(value, "n\0 1", 4);
	value[2 + STEP_VALUE_MAX + 1] = '\0';
	assert_int_equal(add_step(0, 1, value, 2 + STEP_VALUE_MAX + 2), -1);
	value[2 + STEP_VALUE_MAX] = '\0';
	assert_int_equal(add_step(0, 1, value, 2 + STEP_VALUE_MAX + 1), 0);
	free(calls_take_step(&calls, calls_first(&calls)->job));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, drop_jobs)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(jobs_that_have_not_begun_come_back_but_the_first_one_of_a_living_runner),
		TEST(a_job_that_the_runner_has_taken_is_not_recalled),
		TEST(a_board_on_which_a_later_job_runs_before_an_earlier_one_is_forged),
		TEST(a_board_on_which_the_first_job_is_in_no_state_it_can_have_is_forged),
		TEST(a_recalled_job_is_never_the_one_that_runs),
		TEST(a_job_counts_as_begun_within_what_is_possible),
		TEST(the_jobs_of_a_batch_run_together_and_the_first_batch_stays_with_a_living_runner),
		TEST(of_a_batch_that_the_runner_begins_the_last_jobs_may_be_recalled),
		TEST(a_board_on_which_a_batch_runs_before_an_earlier_one_is_forged),
		TEST(what_is_reported_is_of_the_call_that_it_was_reported_for),
		TEST(the_ring_goes_round),
		TEST(a_step_waits_for_its_answer_which_goes_to_the_board),
		TEST(the_step_of_a_job_goes_with_it),
		TEST(a_step_that_the_runner_would_have_refused_is_nonsense),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
