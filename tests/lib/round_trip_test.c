/* SPDX-License-Identifier: MIT */
/* What a cycle is due for. */
#include "engine/cycle/round_trip.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
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
	t.pool.run_us = -1;
	t.pool.runners_max = 2;
	t.plan.exhausted = true;
	t.polling.poll_ns = t.housekeeping.ns = NOW + NS_PER_S;
	ledger_init(&t.ledger);
	wake_off(&t.listening.wake);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	job_list_free(t.pool.pending);
	ledger_clear(&t.ledger);
	return 0;
}

static struct job *new_job(void)
{
	struct job *job = job_new("default", "f", "", "{}", 2);

	assert_non_null(job);
	job->lease_ns = NOW;
	job->lease_ms = job->granted_ms = 60000;
	return job;
}

static void end_attempt(void)
{
	struct attempt *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	a->job = new_job();
	ledger_end(&t.ledger, a, NOW);
}

static struct due due(void)
{
	struct lease_oldest leases = lease_oldest(&t.lease, &t.pool);
	struct due d;

	round_trip_due(&t, &leases, &d, NOW);
	return d;
}

static void a_run_with_nothing_to_do_is_due_for_nothing(void **state)
{
	struct due d = due();

	(void)state;
	assert_true(due_first_ns(&d) == UINT64_MAX);
	t.loop = true; /* a service polls and keeps house */
	d = due();
	assert_int_equal(d.ns[DUE_POLL], NOW + NS_PER_S);
	assert_int_equal(d.ns[DUE_HOUSEKEEPING], NOW + NS_PER_S);
	t.rules.stopping = true;
	d = due();
	assert_true(due_first_ns(&d) == UINT64_MAX);
}

static void each_state_of_the_ledger_is_a_reason(void **state)
{
	struct due d;

	(void)state;
	end_attempt();
	d = due();
	assert_true(due_now(&d, DUE_RECORD, NOW));
	ledger_child(&t.ledger, new_job());
	ledger_return(&t.ledger, new_job());
	d = due();
	assert_true(due_now(&d, DUE_PARENTS, NOW) && due_now(&d, DUE_RETURN, NOW));
	assert_false(due_now(&d, DUE_OUTCOMES, NOW) || due_now(&d, DUE_SET_ASIDE, NOW));
	ledger_record(&t.ledger);
	ledger_undo(&t.ledger, LEDGER_SET_ASIDE);
	d = due();
	assert_true(due_now(&d, DUE_SET_ASIDE, NOW) && !due_now(&d, DUE_RECORD, NOW));
	connection_pause(&t.connection, NOW + 1); /* nothing can be sent */
	d = due();
	assert_true(due_first_ns(&d) == UINT64_MAX);
}

static void results_of_short_jobs_wait_for_others(void **state)
{
	struct due d;

	(void)state;
	end_attempt();
	pool_add(&t.pool, new_job());
	t.pool.run_us = 100;
	d = due();
	assert_int_equal(d.ns[DUE_RECORD], NOW + 20 * NS_PER_MS);
	t.pool.run_us = 10000;
	d = due();
	assert_true(due_now(&d, DUE_RECORD, NOW));
}

static void leases_are_renewed_early_for_a_reason(void **state)
{
	struct due d;

	(void)state;
	pool_add(&t.pool, new_job());
	d = due();
	assert_int_equal(d.ns[DUE_RENEW], NOW + 5 * NS_PER_S);
	t.listening.check_ns = NOW + 1; /* a job may have been cancelled */
	d = due();
	assert_int_equal(d.ns[DUE_RENEW], NOW + 1);
	lease_ask_first(&t.lease); /* a new connection */
	d = due();
	assert_true(due_now(&d, DUE_RENEW, NOW));
	lease_asked(&t.lease);
	t.listening.check_ns = 0;
	d = due();
	assert_int_equal(d.ns[DUE_RENEW], NOW + 5 * NS_PER_S);
}

static void a_worker_of_a_group_leaves_it_when_it_wants_no_more(void **state)
{
	struct due d;

	(void)state;
	t.balance = (struct balance){ .on = true, .live = true };
	d = due();
	assert_true(due_now(&d, DUE_BALANCE, NOW));
	t.balance.live = false;
	d = due();
	assert_false(due_now(&d, DUE_BALANCE, NOW));
	t.plan.exhausted = false;
	assert_true(round_trip_balance_in(&t).wanted);
	t.cnt = t.charged = 3;
	assert_false(round_trip_balance_in(&t).wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_run_with_nothing_to_do_is_due_for_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_state_of_the_ledger_is_a_reason, set_up, tear_down),
		cmocka_unit_test_setup_teardown(results_of_short_jobs_wait_for_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(leases_are_renewed_early_for_a_reason, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_worker_of_a_group_leaves_it_when_it_wants_no_more, set_up, tear_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("round_trip", tests, NULL, NULL);
}
