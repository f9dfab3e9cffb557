/* SPDX-License-Identifier: MIT */
/* Jobs of a pool that no runner has been given keep their order. */
#include "run/pool/pool_members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static struct pool pool;

static int fresh(void **state)
{
	(void)state;
	pool = (struct pool){ .pending_tail = &pool.pending, .ended_tail = &pool.ended };
	return 0;
}

static struct job *make_job(int64_t id, struct job *next)
{
	struct job *job = job_new("q", "f", "", "{}", 2);

	job->id = id;
	job->next = next;
	return job;
}

static void expect_pending(const int64_t *ids, size_t n)
{
	assert_int_equal(pool.pending_len, n);
	for (size_t i = 0; i < n; i++) {
		struct job *job = pool_take_at(&pool, &pool.pending);

		assert_int_equal(job->id, ids[i]);
		assert_null(job->next);
		free(job);
	}
	assert_null(pool_take_at(&pool, &pool.pending));
	assert_int_equal(pool.pending_len, 0);
}

static void lists_are_appended_and_put_in_front(void **state)
{
	(void)state;
	pool_add(&pool, make_job(1, make_job(2, NULL)));
	pool_add(&pool, NULL);
	pool_add_first(&pool, make_job(3, make_job(4, NULL)));
	pool_add_first(&pool, NULL);
	pool_add(&pool, make_job(5, NULL));
	expect_pending((int64_t[]){ 3, 4, 1, 2, 5 }, 5);
}

static void a_list_in_front_of_an_empty_one_can_be_appended_to(void **state)
{
	(void)state;
	pool_add_first(&pool, make_job(1, make_job(2, NULL)));
	pool_add(&pool, make_job(3, NULL));
	expect_pending((int64_t[]){ 1, 2, 3 }, 3);
}

static void after_all_were_taken_it_begins_anew(void **state)
{
	struct job *list;

	(void)state;
	pool_add(&pool, make_job(1, NULL));
	list = pool_take_pending(&pool);
	assert_int_equal(list->id, 1);
	job_list_free(list);
	assert_int_equal(pool.pending_len, 0);
	pool_add(&pool, make_job(2, NULL));
	expect_pending((int64_t[]){ 2 }, 1);
}

static void attempts_are_taken_in_the_order_they_ended(void **state)
{
	struct attempt attempts[3] = { 0 };

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			pool_add_ended(&pool, &attempts[i]);
		for (int i = 0; i < 3; i++)
			assert_ptr_equal(pool_take(&pool), &attempts[i]);
		assert_null(pool_take(&pool));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lists_are_appended_and_put_in_front, fresh),
		cmocka_unit_test_setup(a_list_in_front_of_an_empty_one_can_be_appended_to, fresh),
		cmocka_unit_test_setup(after_all_were_taken_it_begins_anew, fresh),
		cmocka_unit_test_setup(attempts_are_taken_in_the_order_they_ended, fresh),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pool_jobs", tests, NULL, NULL);
}
