/* SPDX-License-Identifier: MIT */
/* A sorted set has what was added to it, and nothing else. */
#include "base/ids.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void an_empty_set_has_nothing(void **state)
{
	struct store_ids ids = { 0 };

	(void)state;
	store_ids_sort(&ids);
	assert_false(store_ids_have(&ids, 0));
	assert_false(store_ids_have(&ids, INT64_MIN));
	free(ids.id);
}

/* Their difference fits no int64_t. */
static void the_ends_of_the_range_are_told_apart(void **state)
{
	static const int64_t some[] = { INT64_MAX, 0, INT64_MIN, 1, -1, INT64_MAX - 1, INT64_MIN + 1 };
	static const int64_t in_order[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
	struct store_ids ids = { 0 };

	(void)state;
	for (size_t i = 0; i < 7; i++)
		assert_true(store_ids_add(&ids, some[i]));
	store_ids_sort(&ids);
	assert_memory_equal(ids.id, in_order, sizeof(in_order));
	for (size_t i = 0; i < 7; i++)
		assert_true(store_ids_have(&ids, some[i]));
	assert_false(store_ids_have(&ids, 2));
	assert_false(store_ids_have(&ids, INT64_MIN + 2));
	assert_false(store_ids_have(&ids, INT64_MAX - 2));
	free(ids.id);
}

static void it_grows_past_every_room_it_had(void **state)
{
	struct store_ids ids = { 0 };
	uint64_t seed = 5;

	(void)state;
	for (size_t n = 1; n <= 1000; n++) {
		assert_true(store_ids_add(&ids, 2 * (int64_t)n));
		assert_int_equal(ids.len, n);
		assert_true(ids.cap >= n);
	}
	for (size_t i = 999; i > 0; i--) {
		size_t j = random_next(&seed) % (i + 1);
		int64_t id = ids.id[i];

		ids.id[i] = ids.id[j];
		ids.id[j] = id;
	}
	store_ids_sort(&ids);
	for (int64_t id = -1; id <= 2002; id++)
		assert_true(store_ids_have(&ids, id) == (id >= 2 && id <= 2000 && id % 2 == 0));
	free(ids.id);
}

static void a_number_that_came_twice_is_there(void **state)
{
	struct store_ids ids = { 0 };

	(void)state;
	assert_true(store_ids_add(&ids, 7) && store_ids_add(&ids, 3) && store_ids_add(&ids, 7));
	store_ids_sort(&ids);
	assert_int_equal(ids.len, 3);
	assert_true(store_ids_have(&ids, 7) && store_ids_have(&ids, 3));
	free(ids.id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_set_has_nothing),
		cmocka_unit_test(the_ends_of_the_range_are_told_apart),
		cmocka_unit_test(it_grows_past_every_room_it_had),
		cmocka_unit_test(a_number_that_came_twice_is_there),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
