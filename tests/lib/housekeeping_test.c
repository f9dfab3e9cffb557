/* SPDX-License-Identifier: MIT */
#include "engine/step/housekeeping.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/migrate.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static void the_answer_says_whether_we_are_known_and_whether_more_is_to_be_folded(void **state)
{
	struct housekeeping h = { .ns = 7, .under_way = true };
	struct store_cycle cycle = { .kept = { .registered = true,
					       .schema_version = MIGRATE_VERSION_MAX + 1,
					       .schema_oldest = MIGRATE_VERSION_MAX } };
	struct deferred_error err = { 0 };

	(void)state;
	assert_int_equal(housekeeping_after(&h, &cycle, &err), 0);
	assert_false(h.under_way);
	assert_int_equal(h.ns, 7);
	cycle.kept.fold_more = true;
	cycle.kept.registered = false;
	assert_int_equal(housekeeping_after(&h, &cycle, &err), 1);
	assert_true(h.ns >= clock_ns() && h.ns <= clock_ns() + 30 * NS_PER_S);
	cycle.kept.schema_version = 0;
	assert_int_equal(housekeeping_after(&h, &cycle, &err), DEFERRED_ESCHEMA);
}

static void a_failure_waits_and_a_lost_connection_does_not(void **state)
{
	struct housekeeping h = { .ns = NOW, .under_way = true };
	struct deferred_error err = { .code = DEFERRED_EDB, .message = "no" };

	(void)state;
	housekeeping_failed(&h, &err);
	assert_false(h.under_way);
	assert_int_equal(h.ns, NOW);
	h.under_way = true;
	housekeeping_lost(&h);
	assert_false(h.under_way);
	housekeeping_at_once(&h);
	assert_int_equal(h.ns, 0);
	h.ns = NOW;
	housekeeping_failed(&h, NULL);
	assert_int_equal(h.ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_answer_says_whether_we_are_known_and_whether_more_is_to_be_folded),
		cmocka_unit_test(a_failure_waits_and_a_lost_connection_does_not),
	};

	log_set_level(LOG_L_ERROR);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("housekeeping", tests, NULL, NULL);
}
