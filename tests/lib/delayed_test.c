/* SPDX-License-Identifier: MIT */
/* Where delayed jobs are looked for, after looks that were short or long. */
#include "engine/step/delayed.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define S_US INT64_C(1000000)
#define ALL INT64_MIN

static struct delayed d;
static struct store_cycle cycle;

/* A look sent at that time has ended; the server's clock is an hour ahead of 2000. */
#define SERVER_NOW (3600 * S_US)

static void look(uint64_t sent_ns, int64_t took_us, int64_t first_us)
{
	cycle.promotes = true;
	cycle.sent_ns = sent_ns;
	cycle.due = (struct store_due){ .known = true, .first_us = first_us, .now_us = SERVER_NOW, .took_us = took_us };
	delayed_begin(&d, sent_ns);
	delayed_after(&d, &cycle);
}

static int set_up(void **state)
{
	(void)state;
	delayed_forget(&d);
	return 0;
}

static void short_looks_are_always_whole(void **state)
{
	(void)state;
	look(NS_PER_S, 0, SERVER_NOW + 60 * S_US);
	assert_true(d.from_us == ALL);
	look(2 * NS_PER_S, 4999, SERVER_NOW - 60 * S_US);
	assert_true(d.from_us == ALL);
}

static void after_a_long_one_the_dead_are_passed_by_for_a_hundred_times_as_long(void **state)
{
	uint64_t sent = 100 * NS_PER_S, end = sent + 500 * NS_PER_MS;

	(void)state;
	look(sent, 5000, SERVER_NOW - 60 * S_US);
	assert_true(d.from_us == SERVER_NOW - 60 * S_US);
	delayed_begin(&d, end - 1);
	assert_true(d.from_us == SERVER_NOW - 60 * S_US);
	delayed_begin(&d, end);
	assert_true(d.from_us == ALL);
}

static void looks_in_between_move_the_beginning_and_not_the_end(void **state)
{
	uint64_t sent = 100 * NS_PER_S;

	(void)state;
	look(sent, 10000, SERVER_NOW - 60 * S_US);
	look(sent + 900 * NS_PER_MS, 100000, SERVER_NOW - 30 * S_US);
	assert_true(d.from_us == SERVER_NOW - 30 * S_US);
	delayed_begin(&d, sent + 1000 * NS_PER_MS);
	assert_true(d.from_us == ALL);
}

static void a_minute_without_a_whole_look_is_the_most(void **state)
{
	uint64_t sent = 100 * NS_PER_S;

	(void)state;
	look(sent, 30 * S_US, SERVER_NOW - 60 * S_US);
	delayed_begin(&d, sent + 60 * NS_PER_S - 1);
	assert_true(d.from_us != ALL);
	delayed_begin(&d, sent + 60 * NS_PER_S);
	assert_true(d.from_us == ALL);
}

/* Somebody may commit a job with a short delay a moment late. */
static void the_last_ten_seconds_are_always_looked_at(void **state)
{
	static const int64_t first_us[] = { SERVER_NOW, SERVER_NOW - 10 * S_US + 1, SERVER_NOW + 3600 * S_US,
					    INT64_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(first_us) / sizeof(first_us[0]); i++) {
		delayed_forget(&d);
		look(100 * NS_PER_S, 5000, first_us[i]);
		assert_true(d.from_us == SERVER_NOW - 10 * S_US);
	}
}

static void a_cycle_that_did_not_look_teaches_nothing(void **state)
{
	(void)state;
	cycle.sent_ns = 100 * NS_PER_S;
	cycle.due = (struct store_due){ .known = true, .now_us = SERVER_NOW, .took_us = S_US };
	cycle.promotes = false;
	delayed_after(&d, &cycle);
	assert_true(d.from_us == ALL && d.whole_ns == 0);
	cycle.promotes = true;
	cycle.due.known = false;
	delayed_after(&d, &cycle);
	assert_true(d.from_us == ALL && d.whole_ns == 0);
}

static void what_was_learnt_goes_with_the_connection(void **state)
{
	(void)state;
	look(100 * NS_PER_S, S_US, SERVER_NOW);
	assert_true(d.from_us != ALL);
	delayed_forget(&d);
	assert_true(d.from_us == ALL);
	delayed_begin(&d, 1);
	look(101 * NS_PER_S, 5000, SERVER_NOW - 60 * S_US);
	delayed_begin(&d, 102 * NS_PER_S);
	assert_true(d.from_us == ALL); /* by the pause of the new look, not of the old one */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(short_looks_are_always_whole, set_up),
		cmocka_unit_test_setup(after_a_long_one_the_dead_are_passed_by_for_a_hundred_times_as_long, set_up),
		cmocka_unit_test_setup(looks_in_between_move_the_beginning_and_not_the_end, set_up),
		cmocka_unit_test_setup(a_minute_without_a_whole_look_is_the_most, set_up),
		cmocka_unit_test_setup(the_last_ten_seconds_are_always_looked_at, set_up),
		cmocka_unit_test_setup(a_cycle_that_did_not_look_teaches_nothing, set_up),
		cmocka_unit_test_setup(what_was_learnt_goes_with_the_connection, set_up),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("delayed", tests, NULL, NULL);
}
