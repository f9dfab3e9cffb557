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
	struct job job = { .key = 0 };
	struct attempt attempts[3] = { { .job = &job }, { .job = &job }, { .job = &job, .outcome = JOB_FAILED } };

	(void)state;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++)
			pool_add_ended(&pool, &attempts[i]);
		for (int i = 0; i < 3; i++)
			assert_ptr_equal(pool_take(&pool), &attempts[i]);
		assert_null(pool_take(&pool));
	}
}

static struct job *make_keyed(int64_t id, int32_t key, struct job *next)
{
	struct job *job = make_job(id, next);

	job->key = key;
	return job;
}

static void when_a_job_does_not_succeed_those_of_its_key_are_given_back(void **state)
{
	static const enum job_outcome bad[] = { JOB_FAILED, JOB_TIMEOUT, JOB_INTERRUPTED, JOB_SNOOZED };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct job job = { .key = 1 };
		struct attempt ok = { .job = &job, .outcome = JOB_OK }, failed = { .job = &job, .outcome = bad[i] };
		struct job *late;

		pool_add(&pool, make_keyed(1, 2, make_keyed(2, 1, make_keyed(3, 2, make_keyed(4, 1, NULL)))));
		pool_add(&pool, make_job(5, NULL));
		pool_add_ended(&pool, &ok);
		assert_int_equal(pool.pending_len, 5);
		assert_null(pool_take_late(&pool));
		pool_add_ended(&pool, &failed);
		late = pool_take_late(&pool);
		assert_int_equal(late->id + late->next->id, 6);
		assert_int_equal(pool.dropped, 2 * (i + 1));
		assert_null(late->next->next);
		job_list_free(late);
		pool_add(&pool, make_job(6, NULL));
		expect_pending((int64_t[]){ 1, 3, 5, 6 }, 4);
		while (pool_take(&pool))
			;
	}
}

static void the_last_pending_job_can_be_given_back(void **state)
{
	const struct job job = { .key = 1 };

	(void)state;
	pool_add(&pool, make_job(1, make_keyed(2, 1, NULL)));
	pool_drop_key(&pool, &job);
	job_list_free(pool_take_late(&pool));
	pool_add(&pool, make_job(3, NULL));
	expect_pending((int64_t[]){ 1, 3 }, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lists_are_appended_and_put_in_front, fresh),
		cmocka_unit_test_setup(a_list_in_front_of_an_empty_one_can_be_appended_to, fresh),
		cmocka_unit_test_setup(after_all_were_taken_it_begins_anew, fresh),
		cmocka_unit_test_setup(attempts_are_taken_in_the_order_they_ended, fresh),
		cmocka_unit_test_setup(when_a_job_does_not_succeed_those_of_its_key_are_given_back, fresh),
		cmocka_unit_test_setup(the_last_pending_job_can_be_given_back, fresh),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pool_jobs", tests, NULL, NULL);
}
