/* SPDX-License-Identifier: MIT */
#include "engine/step/polling.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MS NS_PER_MS
#define NOW (1000 * NS_PER_S)

static const struct polling fresh = { .interval = { 1000, 60000, 2, 0, 0 } };

static void looks_in_vain_are_further_and_further_apart(void **state)
{
	struct polling p = fresh;
	uint64_t now = NOW, last = 0;

	(void)state;
	for (int i = 0; i < 10; i++) {
		polling_after_claim(&p, false, true, now);
		assert_true(p.poll_ns - now >= last && p.poll_ns - now <= 60000 * MS);
		last = p.poll_ns - now;
		now = p.poll_ns;
	}
	assert_int_equal(last, 60000 * MS);
	polling_after_claim(&p, true, false, now);
	polling_after_claim(&p, false, true, now);
	assert_int_equal(p.poll_ns - now, 1000 * MS);
}

static void a_look_in_between_leaves_the_interval_alone(void **state)
{
	struct polling p = fresh;
	uint64_t poll_ns;

	(void)state;
	polling_after_claim(&p, false, true, NOW);
	poll_ns = p.poll_ns;
	polling_after_claim(&p, false, true, NOW + 1);
	polling_after_claim(&p, false, false, poll_ns);
	assert_int_equal(p.poll_ns, poll_ns);
}

static void the_first_of_interval_delayed_job_and_rate_wakes(void **state)
{
	struct polling p = { .poll_ns = 300 };

	(void)state;
	assert_int_equal(polling_due_ns(&p, 0), 300);
	assert_int_equal(polling_due_ns(&p, 200), 200);
	p.due_ns = 100;
	assert_int_equal(polling_due_ns(&p, 200), 100);
	p.due_ns = 400;
	assert_int_equal(polling_due_ns(&p, 500), 300);
}

static void the_end_of_a_lease_of_others_counts_as_a_delayed_job(void **state)
{
	struct polling p = fresh;
	uint64_t now = clock_ns();

	(void)state;
	polling_learn(&p, &(struct store_due){ .known = true, .next_ms = 9000000, .lease_ms = 4000000 });
	assert_true(p.due_ns >= now + 4000000 * MS && p.due_ns < now + 9000000 * MS);
	polling_learn(&p, &(struct store_due){ .known = false });
	assert_true(p.due_ns > 0);
	polling_learn(&p, &(struct store_due){ .known = true }); /* it is due, and somebody has it locked */
	assert_int_equal(p.due_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(looks_in_vain_are_further_and_further_apart),
		cmocka_unit_test(a_look_in_between_leaves_the_interval_alone),
		cmocka_unit_test(the_first_of_interval_delayed_job_and_rate_wakes),
		cmocka_unit_test(the_end_of_a_lease_of_others_counts_as_a_delayed_job),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("polling", tests, NULL, NULL);
}
