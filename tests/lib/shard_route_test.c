/* SPDX-License-Identifier: MIT */
/* Which shard a job goes to: what other languages have to come to as well, and how little moves when a shard comes. */
#include "base/shard_route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = { "a", "b", "c", "d" };

static void routes_go_where_everybody_knows(void **state)
{
	static const struct {
		const char *route, *of_two, *of_four;
	} known[] = {
		{ "", "a", "d" },
		{ "customer-17", "a", "d" },
		{ "customer-18", "b", "c" },
		{ "k\xc3\xb6ln", "b", "c" },
		{ "0", "a", "a" },
		{ "1", "b", "d" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_string_equal(names[shard_route_for(names, 2, known[i].route)], known[i].of_two);
		assert_string_equal(names[shard_route_for(names, 4, known[i].route)], known[i].of_four);
		assert_int_equal(shard_route_for(names, 1, known[i].route), 0);
	}
}

static void a_shard_that_comes_takes_its_share_and_nothing_else_moves(void **state)
{
	static const char *const turned[] = { "d", "c", "b", "a" };
	size_t has[4] = { 0 }, moved = 0;
	char route[32];

	(void)state;
	for (int i = 0; i < 40000; i++) {
		size_t before, after;

		snprintf(route, sizeof(route), "route %d", i);
		before = shard_route_for(names, 3, route);
		after = shard_route_for(names, 4, route);
		assert_string_equal(turned[shard_route_for(turned, 4, route)], names[after]);
		if (before != after)
			assert_int_equal(after, 3);
		moved += before != after;
		has[after]++;
	}
	for (int i = 0; i < 4; i++)
		assert_in_range(has[i], 9700, 10300);
	assert_int_equal(moved, has[3]);
}

static void an_id_tells_where_it_is(void **state)
{
	(void)state;
	assert_int_equal(shard_route_of(1), 0);
	assert_int_equal(shard_route_of(SHARD_IDS - 1), 0);
	assert_int_equal(shard_route_of(SHARD_IDS + 1), 1);
	assert_int_equal(shard_route_of(30000000004711), 3);
	assert_int_equal(shard_route_of(SHARD_MAX * SHARD_IDS + 1), SHARD_MAX);
	assert_int_equal(shard_route_of((SHARD_MAX + 1) * SHARD_IDS), 0);
	assert_int_equal(shard_route_of(INT64_MAX), 0);
	assert_int_equal(shard_route_of(0), 0);
	assert_int_equal(shard_route_of(-1), 0);
	assert_true((SHARD_MAX + 1) * SHARD_IDS < INT64_C(1) << 53);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routes_go_where_everybody_knows),
		cmocka_unit_test(a_shard_that_comes_takes_its_share_and_nothing_else_moves),
		cmocka_unit_test(an_id_tells_where_it_is),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
