/* SPDX-License-Identifier: MIT */
/* What the answers of a cycle do to attempts in the ledger. */
#include "engine/step/record.h"

#include "base/clock.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static struct pool pool;
static struct ledger ledger;
static struct record record;

static int set_up(void **state)
{
	(void)state;
	record = (struct record){ 0 };
	ledger_init(&ledger);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ledger_clear(&ledger);
	return 0;
}

static struct job *new_job(int64_t id)
{
	struct job *job = job_new("default", "f", "", "{}", 2);

	assert_non_null(job);
	job->id = job->receipt = id;
	job->lease_ns = NOW;
	job->granted_ms = 60000;
	return job;
}

static struct attempt *new_attempt(int64_t id, enum job_outcome outcome)
{
	struct attempt *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	a->job = new_job(id);
	a->outcome = outcome;
	return a;
}

static void what_is_not_recorded_is_asked_for_in_the_next_cycle(void **state)
{
	int64_t ids[] = { 1 };
	int outcomes[] = { JOB_UNRECORDED };
	struct store_cycle cycle = { .recorded = { ids, 1, 1 }, .sent_ns = NOW };

	(void)state;
	record_block(&record);
	ledger_end(&ledger, new_attempt(1, JOB_OK), NOW);
	ledger_end(&ledger, new_attempt(2, JOB_OK), NOW);
	assert_true(record_waits(&record, &ledger));
	ledger_record(&ledger);
	record_after(&record, &pool, &ledger, &cycle);
	assert_false(record.blocked); /* something was recorded */
	assert_int_equal(record.counts.ok, 1);
	assert_int_equal(ledger.n[LEDGER_REFUSED], 1);
	cycle.outcomes = outcomes;
	assert_true(record_after(&record, &pool, &ledger, &cycle).lease_ended);
	assert_int_equal(record.counts.refused, 1);
	assert_int_equal(record.counts.attempts, 1);
	assert_int_equal(ledger_len(&ledger), 0);
}

static void the_outcome_in_the_log_counts(void **state)
{
	struct {
		enum job_outcome ours, log;
		long long ok, refused;
	} table[] = {
		{ JOB_OK, JOB_OK, 1, 0 },
		{ JOB_FAILED, JOB_OK, 1, 0 },    /* it had recorded its success itself */
		{ JOB_OK, JOB_CANCELLED, 0, 1 },
		{ JOB_OK, JOB_LOST, 0, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct attempt *a = new_attempt(1, table[i].ours);

		record = (struct record){ 0 };
		assert_int_equal(record_settle(&record, &pool, a, table[i].log), table[i].log != JOB_LOST);
		assert_int_equal(record.counts.ok, table[i].ok);
		assert_int_equal(record.counts.refused, table[i].refused);
		attempt_free(a);
	}
}

static void a_job_whose_row_is_locked_is_given_back_later_or_its_lease_ends(void **state)
{
	int64_t ids[] = { 2 };
	struct store_cycle cycle = { .locked = { ids, 1, 1 }, .sent_ns = NOW };

	(void)state;
	ledger_return(&ledger, new_job(1));
	ledger_return(&ledger, new_job(2));
	ledger_give_back(&ledger, NOW);
	assert_int_equal(record_after(&record, &pool, &ledger, &cycle).returned, 1);
	assert_int_equal(record.counts.released, 1);
	assert_int_equal(ledger.n[LEDGER_RETURNED], 1);
	assert_int_equal(ledger_due_ns(&ledger, LEDGER_RETURNED), NOW + 500 * NS_PER_MS);
	cycle.sent_ns = NOW + 60 * NS_PER_S;
	ledger_give_back(&ledger, cycle.sent_ns);
	assert_int_equal(record_after(&record, &pool, &ledger, &cycle).returned, 1);
	assert_int_equal(record.counts.released, 1);
	assert_int_equal(ledger_len(&ledger), 0);
	assert_int_equal(ledger.closing.len, 2);
}

static void a_job_that_is_gone_has_its_row_already(void **state)
{
	struct attempt *a = new_attempt(1, JOB_FAILED), *b = new_attempt(2, JOB_LOST);

	(void)state;
	a->job->gone = JOB_GONE_FINISHED;
	record_gone(&record, &pool, &ledger, a);
	assert_int_equal(record.counts.ok, 1);
	b->job->gone = JOB_GONE_TAKEN;
	record_gone(&record, &pool, &ledger, b);
	assert_int_equal(record.counts.refused, 1);
	assert_int_equal(ledger_len(&ledger), 0);
	assert_int_equal(ledger.closing.len, 2);
}

static void crashes_are_handed_out_once_by_function(void **state)
{
	struct record_crash crash;
	size_t functions = 0;

	(void)state;
	for (int64_t id = 1; id <= 100; id++) {
		struct attempt *a = new_attempt(id, JOB_CRASHED);
		char fn[8];

		snprintf(fn, sizeof(fn), "f%d", (int)(id % 20));
		a->job->fn = fn;
		record_settle(&record, &pool, a, JOB_CRASHED);
		attempt_free(a);
	}
	assert_int_equal(record.counts.retried, 100);
	for (; record_take_crash(&record, &crash); functions++)
		assert_int_equal(crash.n, 5);
	assert_int_equal(functions, RECORD_CRASHED_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_not_recorded_is_asked_for_in_the_next_cycle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_outcome_in_the_log_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_job_whose_row_is_locked_is_given_back_later_or_its_lease_ends, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_job_that_is_gone_has_its_row_already, set_up, tear_down),
		cmocka_unit_test_setup_teardown(crashes_are_handed_out_once_by_function, set_up, tear_down),
	};

	log_set_level(LOG_L_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
