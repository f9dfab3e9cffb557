/* SPDX-License-Identifier: MIT */
#include "base/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void a_lane_is_kept_once(void **state)
{
	struct lanes lanes = { 0 };
	char queue[] = "mail";

	(void)state;
	lanes_add(&lanes, queue, 0);
	lanes_add(&lanes, "mail", 0);
	lanes_add(&lanes, "mail", -5);
	lanes_add(&lanes, "mails", 0);
	lanes_add(&lanes, "mail", 0);
	queue[0] = 'x'; /* a copy was made */
	assert_int_equal(lanes.n, 3);
	assert_string_equal(lanes.queue[0], "mail");
	assert_int_equal(lanes.priority[1], -5);
	assert_string_equal(lanes.queue[2], "mails");
	lanes_clear(&lanes);
	assert_int_equal(lanes.n, 0);
}

static void no_more_are_kept_than_there_is_room_for(void **state)
{
	struct lanes lanes = { 0 };

	(void)state;
	for (int i = 0; i < LANES_MAX + 5; i++)
		lanes_add(&lanes, "q", i);
	assert_int_equal(lanes.n, LANES_MAX);
	assert_int_equal(lanes.priority[LANES_MAX - 1], LANES_MAX - 1);
	lanes_clear(&lanes);
}

static void moved_they_leave_nothing_behind(void **state)
{
	struct lanes from = { 0 }, to = { 0 };

	(void)state;
	lanes_add(&from, "new", 1);
	lanes_add(&to, "old", 2);
	lanes_move(&to, &from);
	assert_int_equal(from.n, 0);
	assert_int_equal(to.n, 1);
	assert_string_equal(to.queue[0], "new");
	lanes_move(&to, &from);
	assert_int_equal(to.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lane_is_kept_once),
		cmocka_unit_test(no_more_are_kept_than_there_is_room_for),
		cmocka_unit_test(moved_they_leave_nothing_behind),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
