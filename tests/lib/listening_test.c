/* SPDX-License-Identifier: MIT */
/* What listening hands to wake.c, and what it does without a server. */
#include "engine/step/listening.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static const struct deferred_backoff interval = { 1000, 60000, 2, 0, 0 };

static void without_the_setting_nothing_begins(void **state)
{
	struct listening l = { 0 };

	(void)state;
	assert_int_equal(listening_begin(&l, NULL, &interval, NULL), 0);
	listening_set_up(&l, true);
	l.begun = true; /* it was tried on this connection */
	assert_int_equal(listening_begin(&l, NULL, &interval, NULL), 0);
	listening_lost(&l);
	assert_true(l.wanted && !l.begun && l.wake.state == WAKE_OFF);
}

static void a_claim_can_carry_every_step_except_a_look(void **state)
{
	(void)state;
	for (int step = 0; step < WAKE_STEPS; step++)
		assert_int_equal(listening_needs_cycle((enum wake_step)step),
				 step == WAKE_PEEK || step == WAKE_LOOK || step == WAKE_DISARM);
}

static void answers_of_a_cycle_change_the_state(void **state)
{
	struct listening l = { 0 };
	struct plan plan = { .exhausted = true };
	struct store_cycle cycle = { .arms = true, .armed = true, .rank = 1 };

	(void)state;
	listening_after(&l, &plan, &cycle, NOW); /* this connection is not notified */
	assert_int_equal(l.wake.state, WAKE_OFF);
	wake_on(&l.wake, &interval);
	listening_after(&l, &plan, &cycle, NOW);
	assert_int_equal(l.wake.state, WAKE_ARMED);
	assert_int_equal(l.wake.rank, 1);
	assert_true(plan.exhausted);
	cycle = (struct store_cycle){ .peeks = true, .work = true };
	listening_after(&l, &plan, &cycle, NOW);
	assert_false(plan.exhausted);
}

static void a_look_at_leases_because_of_a_cancelled_job_ends_with_a_renewal(void **state)
{
	struct listening l = { .check_ns = NOW };

	(void)state;
	listening_checked(&l, NOW + 1);
	assert_true(l.check_ns == 0 && l.checked_ns == NOW + 1);
	l.check_ns = NOW;
	listening_no_leases(&l);
	assert_int_equal(l.check_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_setting_nothing_begins),
		cmocka_unit_test(a_claim_can_carry_every_step_except_a_look),
		cmocka_unit_test(answers_of_a_cycle_change_the_state),
		cmocka_unit_test(a_look_at_leases_because_of_a_cancelled_job_ends_with_a_renewal),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("listening", tests, NULL, NULL);
}
