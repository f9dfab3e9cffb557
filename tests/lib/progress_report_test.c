/* SPDX-License-Identifier: MIT */
/* How often reports of progress are looked for. Their way to the database is the matter of
 * tests/faults/test_running.py. */
#include "engine/step/progress_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW (1000 * NS_PER_S)

static void reports_are_looked_for_at_most_once_in_900_ms(void **state)
{
	struct pool pool = { 0 };
	uint64_t next_ns = 0;
	int looks = 0;

	(void)state;
	for (uint64_t now = NOW; now < NOW + 9 * NS_PER_S; now += 10 * NS_PER_MS) {
		uint64_t before = next_ns;

		assert_int_equal(progress_report_count(&next_ns, &pool, now), 0); /* no runner, no report */
		assert_true(next_ns > now);
		looks += next_ns != before;
	}
	assert_int_equal(looks, 10);
}

static void an_attempt_without_a_report_needs_no_statement_at_its_end(void **state)
{
	struct store_cycle cycle = { 0 }; /* without a connection */
	struct attempt *a = calloc(1, sizeof(*a));
	struct ledger ledger;

	(void)state;
	assert_non_null(a);
	a->job = job_new("default", "f", "", "{}", 2);
	ledger_init(&ledger);
	ledger_end(&ledger, a, NOW);
	ledger_record(&ledger);
	assert_int_equal(progress_report_add_end(&ledger, &cycle, NULL), 0);
	assert_false(cycle.writes);
	ledger_clear(&ledger);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_are_looked_for_at_most_once_in_900_ms),
		cmocka_unit_test(an_attempt_without_a_report_needs_no_statement_at_its_end),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("progress_report", tests, NULL, NULL);
}
