/* SPDX-License-Identifier: MIT */
/* Builds are put together from sums, and each is held against the one before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/job.h"
#include "program/builds.h"

static struct store_figure ran(int series, int64_t hour, const char *fn, const char *plugin, int n, int crashed,
			       int bucket)
{
	struct store_figure f = {
		.series = series, .at_s = hour * 3600, .queue = "q", .fn = fn, .plugin = plugin, .attempts = n
	};

	f.outcome[JOB_CRASHED] = crashed;
	f.run.n[bucket] = n;
	return f;
}

static struct builds gathered(struct build *list, size_t max, struct store_figure *rows, size_t n)
{
	struct builds builds = { .list = list, .max = max };

	builds_gather(&builds, &(struct store_figures){ .row = rows, .n = n });
	return builds;
}

static void rows_of_all_queues_and_hours_become_one(void **state)
{
	struct store_figure rows[] = { ran(7, 1, "f", "p 1", 150, 1, 20), ran(4, 1, "f", "p 1", 100, 2, 20),
				       ran(7, 2, "f", "p 1", 50, 0, 30),  ran(8, 2, "f", NULL, 50, 0, 20),
				       ran(9, 2, "f", "p 1", 0, 0, 20),   ran(10, 3, "g", "p 1", 5, 0, 20) };
	struct build list[2];
	struct builds b = gathered(list, 2, rows, 6);

	(void)state;
	assert_int_equal(b.n, 2);
	assert_false(b.more);
	assert_int_equal(list[0].series, 4);
	assert_int_equal(list[0].attempts, 300);
	assert_int_equal(list[0].crashed, 3);
	assert_int_equal(list[0].first_s, 3600);
	assert_int_equal(list[0].last_s, 7200);
	assert_int_equal(histogram_count(&list[0].run), 300);
	b = gathered(list, 1, rows, 6);
	assert_true(b.n == 1 && b.more);
}

static void sums_of_times_end_at_the_largest_number(void **state)
{
	struct store_figure rows[12];
	struct build list[1];

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		rows[i] = ran(7, (int64_t)i, "f", "p 1", 1, 0, 20);
		rows[i].cpu_us = 1000000000000000000;
	}
	gathered(list, 1, rows, 9);
	assert_int_equal(list[0].cpu_us, 9000000000000000000);
	gathered(list, 1, rows, 12);
	assert_int_equal(list[0].cpu_us, INT64_MAX);
}

static void a_build_is_held_against_the_last_one_before_it_that_ran_often_enough(void **state)
{
	struct store_figure rows[] = { ran(9, 1, "f", "p 1", 300, 3, 20), ran(2, 2, "f", "p 2", 50, 0, 40),
				       ran(3, 2, "g", "p 3", 300, 0, 50), ran(4, 3, "f", "", 900, 0, 60),
				       ran(5, 4, "f", "p 4", 300, 90, 30) };
	struct build list[8];
	struct builds b = gathered(list, 8, rows, 5);
	struct proportion_difference more;
	struct histogram_ratio ratio;

	(void)state;
	assert_ptr_equal(builds_before(&b, &list[4]), &list[0]);
	assert_ptr_equal(builds_before(&b, &list[1]), &list[0]);
	assert_null(builds_before(&b, &list[0]));
	assert_null(builds_before(&b, &list[2]));
	assert_null(builds_before(&b, &list[3]));
	assert_true(builds_slowdown(&b, &list[4], &ratio) && ratio.times > 9.9 && ratio.times < 10.1 &&
		    ratio.low > BUILDS_SLOWER);
	assert_true(builds_crashes(&b, &list[4], &more) && more.more > 0.28 && more.more < 0.3 && more.low > 0.2 &&
		    more.high < 0.4);
	assert_false(builds_slowdown(&b, &list[1], &ratio));
	assert_false(builds_crashes(&b, &list[1], &more));
	assert_false(builds_slowdown(&b, &list[0], &ratio));
}

static void one_that_was_put_back_is_not_the_newest(void **state)
{
	struct store_figure rows[] = { ran(1, 1, "f", "p 1", 300, 0, 20), ran(2, 2, "f", "p 2", 300, 0, 20),
				       ran(3, 2, "g", "p 2", 300, 0, 20), ran(1, 3, "f", "p 1", 10, 0, 20) };
	struct build list[4];
	struct builds b = gathered(list, 4, rows, 4);

	(void)state;
	assert_false(builds_newest(&b, &list[0]));
	assert_false(builds_newest(&b, &list[1]));
	assert_true(builds_newest(&b, &list[2]));
	b = gathered(list, 4, rows, 3);
	assert_true(builds_newest(&b, &list[1]));
	rows[1].at_s = rows[0].at_s;
	b = gathered(list, 4, rows, 3);
	assert_true(builds_newest(&b, &list[1]) && !builds_newest(&b, &list[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_all_queues_and_hours_become_one),
		cmocka_unit_test(sums_of_times_end_at_the_largest_number),
		cmocka_unit_test(a_build_is_held_against_the_last_one_before_it_that_ran_often_enough),
		cmocka_unit_test(one_that_was_put_back_is_not_the_newest),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("builds", tests, NULL, NULL);
}
