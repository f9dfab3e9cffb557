/* SPDX-License-Identifier: MIT */
#include "run/begun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/begun_test.XXXXXX", pidfile[64], file[80];

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(pidfile, sizeof(pidfile), "%s/pid", folder);
	snprintf(file, sizeof(file), "%s/pid.begun", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(folder);
}

static bool has(const struct begun_file *left, int64_t receipt)
{
	bool found = false;

	for (size_t i = 0; i < BEGUN_MAX; i++)
		found |= left->receipt[i] == receipt;
	return found;
}

static void what_was_marked_and_not_recorded_is_there_for_the_next_run(void **state)
{
	struct store_ids held = { 0 };
	struct begun_file left;
	struct begun b;

	(void)state;
	assert_false(begun_read(&left, pidfile, "db"));
	begun_open(&b, pidfile, "db", 7);
	assert_non_null(b.file);
	for (int64_t receipt = 1; receipt <= 3; receipt++)
		assert_true(begun_mark(&b, receipt));
	assert_true(store_ids_add(&held, 2));
	begun_keep(&b, &held);
	assert_true(begun_mark(&b, 4) && begun_mark(&b, 4) && begun_mark(&b, 5));
	begun_drop(&b, 5);
	begun_close(&b, false);
	assert_true(begun_read(&left, pidfile, "db"));
	assert_int_equal(left.worker, 7);
	assert_true(!has(&left, 1) && has(&left, 2) && !has(&left, 3) && has(&left, 4) && !has(&left, 5));
	assert_false(begun_read(&left, pidfile, "another database"));
	begun_open(&b, pidfile, "db", 8);
	begun_close(&b, false);
	assert_true(begun_read(&left, pidfile, "db"));
	assert_true(left.worker == 8 && !has(&left, 2));
	begun_open(&b, pidfile, "db", 9);
	begun_close(&b, true);
	assert_int_not_equal(access(file, F_OK), 0);
	free(held.id);
}

static void no_more_is_begun_than_there_is_room_to_note(void **state)
{
	struct store_ids held = { 0 };
	struct begun b;

	(void)state;
	begun_open(&b, pidfile, "db", 7);
	for (int64_t receipt = 1; receipt <= BEGUN_MAX; receipt++)
		assert_true(begun_mark(&b, receipt));
	assert_false(begun_mark(&b, 1000));
	begun_keep(&b, &held);
	assert_true(begun_mark(&b, 1000));
	begun_close(&b, true);
}

static void a_file_that_others_may_write_or_that_is_cut_is_not_believed(void **state)
{
	struct begun_file left;
	struct begun b;

	(void)state;
	begun_open(&b, pidfile, "db", 7);
	begun_close(&b, false);
	assert_int_equal(chmod(file, 0620), 0);
	assert_false(begun_read(&left, pidfile, "db"));
	assert_int_equal(chmod(file, 0600), 0);
	assert_true(begun_read(&left, pidfile, "db"));
	assert_int_equal(truncate(file, 100), 0);
	assert_false(begun_read(&left, pidfile, "db"));
	unlink(file);
	assert_int_equal(symlink("/dev/zero", file), 0);
	assert_false(begun_read(&left, pidfile, "db"));
	begun_open(&b, pidfile, "db", 7); /* in its place */
	assert_non_null(b.file);
	begun_close(&b, true);
}

static void without_a_place_for_it_nothing_is_noted(void **state)
{
	struct begun b;

	(void)state;
	begun_open(&b, "/nonexistent/pid", "db", 7);
	assert_null(b.file);
	begun_close(&b, true);
	begun_open(&b, NULL, "db", 7);
	assert_null(b.file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_marked_and_not_recorded_is_there_for_the_next_run),
		cmocka_unit_test(no_more_is_begun_than_there_is_room_to_note),
		cmocka_unit_test(a_file_that_others_may_write_or_that_is_cut_is_not_believed),
		cmocka_unit_test(without_a_place_for_it_nothing_is_noted),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("begun", tests, set_up, tear_down);
}
