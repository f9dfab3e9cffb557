/* SPDX-License-Identifier: MIT */
/* When a worker looks at the others. What it finds there is the matter of tests/faults/test_deaths.py. */
#include "engine/step/watch.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static void a_worker_without_others_is_not_woken_for_a_look(void **state)
{
	struct watch w = { .look_ns = NOW };

	(void)state;
	assert_true(watch_due_ns(&w) == UINT64_MAX);
	w.others = true;
	assert_int_equal(watch_due_ns(&w), NOW);
}

static void a_lost_lock_is_taken_again_first(void **state)
{
	struct watch w = { .others = true, .look_ns = NOW, .again_ns = NOW - 1 };

	(void)state;
	watch_unlocked(&w);
	assert_int_equal(watch_due_ns(&w), NOW - 1);
}

static void after_a_restart_of_the_server_nobody_is_suspected_for_a_while(void **state)
{
	struct watch w = { .others = true, .suspects = 3, .again = true };
	struct watch_in in = { .looks = true };

	(void)state;
	watch_connected(&w, NOW);
	assert_int_equal(w.suspects, 0);
	assert_false(w.again); /* the new session has a lock */
	assert_true(watch_due_ns(&w) >= NOW + 10 * NS_PER_S);
	assert_int_equal(watch_run(&w, &in, watch_due_ns(&w) - 1, NULL), 0); /* no server is asked */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_without_others_is_not_woken_for_a_look),
		cmocka_unit_test(a_lost_lock_is_taken_again_first),
		cmocka_unit_test(after_a_restart_of_the_server_nobody_is_suspected_for_a_while),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
