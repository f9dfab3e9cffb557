/* SPDX-License-Identifier: MIT */
/* What a function says of its progress is read whole or not at all, and a plugin finds out which members there are. */
#include "run/board.h"

#include "deferred_plugin.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct board_progress progress, copy;

static int fresh(void **state)
{
	(void)state;
	memset(&progress, 0, sizeof(progress));
	memset(&copy, 0, sizeof(copy));
	return 0;
}

static void nothing_is_read_before_the_first_report(void **state)
{
	(void)state;
	assert_false(board_read_progress(&progress, &copy));
}

static void a_report_is_read_as_it_was_made(void **state)
{
	(void)state;
	board_report(&progress, 3, -1, "abc", 3, 99);
	assert_true(board_read_progress(&progress, &copy));
	assert_int_equal(copy.done, 3);
	assert_int_equal(copy.total, -1);
	assert_int_equal(copy.reported_ns, 99);
	assert_int_equal(copy.text_len, 3);
	assert_memory_equal(copy.text, "abc", 3);
}

static void each_report_has_another_number_that_is_even_and_not_zero(void **state)
{
	uint32_t last = 0;

	(void)state;
	atomic_store(&progress.seq, UINT32_MAX - 8);
	for (int i = 0; i < 20; i++) {
		board_report(&progress, i, i, NULL, 0, 1);
		assert_true(board_read_progress(&progress, &copy));
		assert_true(copy.seq != 0 && copy.seq % 2 == 0 && copy.seq != last);
		last = copy.seq;
	}
}

static void a_long_text_is_cut_and_a_wild_length_believed_no_further(void **state)
{
	char text[PROGRESS_TEXT_MAX + 50];

	(void)state;
	memset(text, 'x', sizeof(text));
	board_report(&progress, 1, 2, text, sizeof(text), 1);
	assert_true(board_read_progress(&progress, &copy));
	assert_int_equal(copy.text_len, PROGRESS_TEXT_MAX);
	progress.text_len = 1u << 30; /* the memory is the plugin's too */
	assert_true(board_read_progress(&progress, &copy));
	assert_int_equal(copy.text_len, PROGRESS_TEXT_MAX);
}

static void a_report_whose_writer_died_is_not_read_and_the_next_one_is(void **state)
{
	(void)state;
	board_report(&progress, 1, 2, "a", 1, 1);
	atomic_fetch_add(&progress.seq, 1);
	assert_false(board_read_progress(&progress, &copy));
	board_report(&progress, 5, 6, "b", 1, 1);
	assert_true(board_read_progress(&progress, &copy));
	assert_int_equal(copy.done, 5);
}

static atomic_bool over;

static void *report_on(void *data)
{
	(void)data;
	for (int64_t i = 1; !atomic_load(&over); i++) {
		char text[8];

		memset(text, 'a' + (int)(i % 26), sizeof(text));
		board_report(&progress, i, i, text, sizeof(text), (uint64_t)i);
	}
	return NULL;
}

static void what_is_read_beside_a_writer_is_of_one_report(void **state)
{
	pthread_t writer;
	int got = 0;

	(void)state;
	atomic_store(&over, false);
	assert_int_equal(pthread_create(&writer, NULL, report_on, NULL), 0);
	while (got < 20000)
		if (board_read_progress(&progress, &copy)) {
			got++;
			assert_true(copy.done == copy.total && copy.reported_ns == (uint64_t)copy.done);
			for (int i = 0; i < 8; i++)
				assert_int_equal(copy.text[i], 'a' + (int)(copy.done % 26));
		}
	atomic_store(&over, true);
	pthread_join(writer, NULL);
}

static void a_member_is_there_if_the_size_says_so(void **state)
{
	struct deferred_host host = { .size = sizeof(host) };
	struct deferred_call call = { .size = sizeof(call) };

	(void)state;
	assert_true(DEFERRED_HAS(&host, progress) && DEFERRED_HAS(&host, cancelled) && DEFERRED_HAS(&call, receipt));
	host.size = offsetof(struct deferred_host, cancelled); /* as it was before */
	call.size = offsetof(struct deferred_call, receipt);
	assert_false(DEFERRED_HAS(&host, progress) || DEFERRED_HAS(&host, cancelled) || DEFERRED_HAS(&call, receipt));
	assert_true(DEFERRED_HAS(&host, remove_after) && DEFERRED_HAS(&call, host_data));
	host.size += sizeof(host.cancelled);
	assert_true(DEFERRED_HAS(&host, cancelled));
	assert_false(DEFERRED_HAS(&host, progress));
}

static void what_was_there_before_is_where_it_was(void **state)
{
	(void)state;
	if (sizeof(void *) != 8)
		return;
	assert_int_equal(offsetof(struct deferred_call, id), 8);
	assert_int_equal(offsetof(struct deferred_call, params_len), 48);
	assert_int_equal(offsetof(struct deferred_call, host_data), 72);
	assert_int_equal(offsetof(struct deferred_call, receipt), 80);
	assert_int_equal(offsetof(struct deferred_host, stop_asked), 32);
	assert_int_equal(offsetof(struct deferred_host, remove_after), 64);
	assert_int_equal(offsetof(struct deferred_host, cancelled), 72);
	assert_int_equal(offsetof(struct deferred_function, run_many), 64);
	assert_int_equal(sizeof(struct deferred_plugin), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_read_before_the_first_report, fresh),
		cmocka_unit_test_setup(a_report_is_read_as_it_was_made, fresh),
		cmocka_unit_test_setup(each_report_has_another_number_that_is_even_and_not_zero, fresh),
		cmocka_unit_test_setup(a_long_text_is_cut_and_a_wild_length_believed_no_further, fresh),
		cmocka_unit_test_setup(a_report_whose_writer_died_is_not_read_and_the_next_one_is, fresh),
		cmocka_unit_test_setup(what_is_read_beside_a_writer_is_of_one_report, fresh),
		cmocka_unit_test(a_member_is_there_if_the_size_says_so),
		cmocka_unit_test(what_was_there_before_is_where_it_was),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}
