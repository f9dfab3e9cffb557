/* SPDX-License-Identifier: MIT */
/* What becomes of attempts whose cycle failed, by the kind of the error. No server is asked. */
#include "engine/cycle/rollback.h"

#include "base/clock.h"
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static struct trip t;

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.pool.pending_tail = &t.pool.pending;
	t.loop = true;
	t.rules.max_attempts = 3;
	t.rules.backoff = (struct retry_policy){ 1000, 60000, 2 };
	t.connection.state = CONNECTION_BUSY;
	ledger_init(&t.ledger);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ledger_clear(&t.ledger);
	return 0;
}

static struct deferred_error error(int code, const char *sqlstate)
{
	struct deferred_error err = { .code = code, .message = "no" };

	snprintf(err.sqlstate, sizeof(err.sqlstate), "%s", sqlstate);
	return err;
}

static struct attempt *record(int64_t id)
{
	struct attempt *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	a->job = job_new("default", "f", "", "{}", 2);
	assert_non_null(a->job);
	a->job->id = a->job->receipt = id;
	a->job->attempt = 1;
	a->job->lease_ns = NOW;
	a->job->granted_ms = 60000;
	a->retry_after_ms = -1;
	ledger_end(&t.ledger, a, NOW);
	ledger_record(&t.ledger);
	return a;
}

static void a_lost_connection_is_reported_and_nothing_is_changed(void **state)
{
	static const char *const sqlstates[] = { "", "57P01", "25006" };

	(void)state;
	record(1);
	t.housekeeping.under_way = true;
	for (size_t i = 0; i < sizeof(sqlstates) / sizeof(sqlstates[0]); i++) {
		struct deferred_error err = error(i == 0 ? DEFERRED_ELOST : DEFERRED_EDB, sqlstates[i]);

		assert_int_equal(rollback_cycle(&t, &err, NOW), DEFERRED_ELOST);
		assert_string_equal(err.message, "no");
		assert_int_equal(t.ledger.n[LEDGER_RECORDING], 1);
		assert_false(t.housekeeping.under_way);
	}
}

static void what_may_pass_is_sent_again_later_and_later(void **state)
{
	uint64_t pause_ns = 0;

	(void)state;
	t.loop = false;
	record(1);
	for (int i = 0; i < 12; i++) {
		struct deferred_error err = error(DEFERRED_EDB, "53100");

		assert_int_equal(rollback_cycle(&t, &err, NOW), 0);
		assert_int_equal(err.code, 0);
		assert_int_equal(t.connection.state, CONNECTION_READY);
		assert_true(t.connection.retry_ns - NOW >= pause_ns);
		assert_int_equal(t.record.blocked, i >= 2);
		pause_ns = t.connection.retry_ns - NOW;
		assert_int_equal(t.ledger.n[LEDGER_ENDED], 1);
		ledger_record(&t.ledger);
	}
	assert_int_equal(pause_ns, NS_PER_S);
	assert_int_equal(rollback_cycle(&t, &(struct deferred_error){ DEFERRED_EDB, .sqlstate = "53100" }, NOW), 0);
	assert_int_equal(t.ledger.n[LEDGER_SET_ASIDE], 1); /* a run does not wait for ever */
}

static void what_cannot_pass_is_set_aside_and_then_made_fit(void **state)
{
	struct deferred_error err = error(DEFERRED_EDB, "22021");
	struct attempt *a = record(1);

	(void)state;
	a->outcome = JOB_FAILED;
	assert_int_equal(rollback_cycle(&t, &err, NOW), 0);
	assert_int_equal(t.ledger.n[LEDGER_SET_ASIDE], 1);
	ledger_record_set_aside(&t.ledger, NOW);
	t.single = true;
	err = error(DEFERRED_EDB, "22021");
	assert_int_equal(rollback_cycle(&t, &err, NOW), 0);
	assert_int_equal(t.ledger.n[LEDGER_SET_ASIDE], 1);
	assert_true(a->replaced);
	assert_non_null(strstr(a->error, "could not be recorded as it was: no"));
	ledger_record_set_aside(&t.ledger, NOW);
	err = error(DEFERRED_EDB, "22021");
	assert_int_equal(rollback_cycle(&t, &err, NOW), 0);
	assert_int_equal(ledger_len(&t.ledger), 0); /* it will count as lost, when its lease ends by itself */
	assert_int_equal(t.ledger.abandoned.len, 1);
}

static void a_cycle_without_results_that_cannot_pass_ends_the_run(void **state)
{
	struct deferred_error err = error(DEFERRED_EDB, "42501"), schema = error(DEFERRED_ESCHEMA, "");

	(void)state;
	assert_int_equal(rollback_cycle(&t, &err, NOW), DEFERRED_EDB);
	assert_string_equal(err.message, "no");
	assert_int_equal(rollback_cycle(&t, &schema, NOW), DEFERRED_ESCHEMA);
}

static void housekeeping_that_fails_is_tried_again_later(void **state)
{
	struct deferred_error err = error(DEFERRED_EDB, "42501"), schema = error(DEFERRED_ESCHEMA, "");

	(void)state;
	t.housekeeping.under_way = true;
	t.housekeeping.ns = NOW;
	assert_int_equal(rollback_cycle(&t, &err, NOW), 0);
	assert_int_equal(t.housekeeping.ns, NOW);
	assert_int_equal(t.connection.state, CONNECTION_READY);
	t.housekeeping.under_way = true;
	assert_int_equal(rollback_cycle(&t, &schema, NOW), DEFERRED_ESCHEMA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_lost_connection_is_reported_and_nothing_is_changed, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_may_pass_is_sent_again_later_and_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_pass_is_set_aside_and_then_made_fit, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_cycle_without_results_that_cannot_pass_ends_the_run, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(housekeeping_that_fails_is_tried_again_later, set_up, tear_down),
	};

	log_set_level(LOG_L_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rollback", tests, NULL, NULL);
}
