/* SPDX-License-Identifier: MIT */
/* Requests become statements: what waits together runs together, against the server that DEFERRED_TEST_DB names. */
#include "front/batcher.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char queue[64];

/* Who waits for jobs, and how many have come back. */
struct waiting {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int back;
};
static struct waiting waiting = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

static void wake(void *data)
{
	struct waiting *w = data;

	pthread_mutex_lock(&w->lock);
	w->back++;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static void submit(struct batcher *batcher, struct batcher_job *job)
{
	job->wake = wake;
	job->wake_data = &waiting;
	batcher_submit(batcher, job);
}

static void wait_for(int n)
{
	pthread_mutex_lock(&waiting.lock);
	while (waiting.back < n)
		pthread_cond_wait(&waiting.changed, &waiting.lock);
	waiting.back -= n;
	pthread_mutex_unlock(&waiting.lock);
}

static struct batcher *start(int threads)
{
	struct deferred_error err = { 0 };
	struct batcher *batcher = batcher_start(getenv("DEFERRED_TEST_DB"), threads, &err);

	if (!batcher)
		fail_msg("%s", err.message);
	return batcher;
}

static int make_queue(void *data, struct pg *pg, struct deferred_error *err)
{
	enum message_status status;

	(void)data;
	return store_message_queue_create(pg, queue, NULL, &status, err);
}

/* Holds a thread up until the test lets it go. */
static int hold(void *data, struct pg *pg, struct deferred_error *err)
{
	atomic_bool *go = data;

	(void)pg;
	(void)err;
	while (!atomic_load(go))
		usleep(1000);
	return 0;
}

static int nothing(void *data, struct pg *pg, struct deferred_error *err)
{
	(void)data;
	(void)pg;
	(void)err;
	return 0;
}

static struct batcher_job call(int (*f)(void *data, struct pg *pg, struct deferred_error *err), void *data,
			       enum batcher_kind kind)
{
	struct batcher_job job = { .kind = kind };

	job.call.f = f;
	job.call.data = data;
	return job;
}

static int make(void **state)
{
	struct batcher *batcher = start(1);
	struct batcher_job job = call(make_queue, NULL, BATCHER_SLOW);

	(void)state;
	snprintf(queue, sizeof(queue), "batcher%d.mail", (int)getpid());
	submit(batcher, &job);
	wait_for(1);
	batcher_stop(batcher);
	return job.outcome == BATCHER_DONE ? 0 : -1;
}

static void what_waits_together_is_one_transaction(void **state)
{
	struct batcher *batcher = start(1);
	struct batcher_job put[70] = { 0 }, held, get = { .kind = BATCHER_GET }, delete[3] = { 0 };
	int64_t first_us, others = 0;
	atomic_bool go = false;

	(void)state;
	held = call(hold, &go, BATCHER_CALL);
	submit(batcher, &held);
	usleep(50000);
	for (int i = 0; i < 70; i++) {
		put[i].kind = BATCHER_PUT;
		put[i].put = (struct message_put){
			.queue = i == 7 ? "batcher.none" : queue, .text = "x", .text_len = 1, .ttl_s = 600
		};
		submit(batcher, &put[i]);
	}
	atomic_store(&go, true);
	wait_for(71);
	/* One transaction has one time; the 65th to the 70th had to wait for the next. */
	first_us = put[0].put.message.inserted_us;
	for (int i = 0; i < 70; i++) {
		assert_int_equal(put[i].outcome, BATCHER_DONE);
		assert_int_equal(put[i].put.status, i == 7 ? MESSAGE_NO_QUEUE : MESSAGE_OK);
		if (i != 7)
			assert_true((put[i].put.message.inserted_us == first_us) == (i < BATCHER_MAX));
		others += i != 7 && put[i].put.message.inserted_us != first_us;
	}
	assert_int_equal(others, 70 - BATCHER_MAX);

	/* Two deletes of one message that wait together: the first is right, the second comes too late. */
	get.get = (struct message_get){ .queue = queue, .max = 1, .visibility_s = 30 };
	submit(batcher, &get);
	wait_for(1);
	assert_int_equal(get.get.n, 1);
	atomic_store(&go, false);
	held = call(hold, &go, BATCHER_CALL);
	submit(batcher, &held);
	usleep(50000);
	for (int i = 0; i < 3; i++) {
		delete[i].kind = BATCHER_DELETE;
		delete[i].delete = (struct message_delete){ .queue = queue,
							    .id = get.get.messages[0].id,
							    .receipt = get.get.messages[0].receipt };
		submit(batcher, &delete[i]);
	}
	atomic_store(&go, true);
	wait_for(4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(delete[i].delete.status, i == 0 ? MESSAGE_OK : MESSAGE_NO_MESSAGE);
	message_get_clear(&get.get);
	batcher_stop(batcher);
}

static atomic_bool expire;

static void *expire_on_and_on(void *batcher)
{
	while (atomic_load(&expire))
		batcher_expire(batcher);
	return NULL;
}

/* A request that came while the old ones were looked for is not one of them. */
static void nobody_is_given_up_on_who_has_not_waited(void **state)
{
	struct batcher *batcher = start(2);
	pthread_t thread;

	(void)state;
	atomic_store(&expire, true);
	assert_int_equal(pthread_create(&thread, NULL, expire_on_and_on, batcher), 0);
	for (int i = 0; i < 3000; i++) {
		struct batcher_job job[4];

		for (int k = 0; k < 4; k++) {
			job[k] = call(nothing, NULL, k == 3 ? BATCHER_SLOW : BATCHER_CALL);
			submit(batcher, &job[k]);
		}
		wait_for(4);
		for (int k = 0; k < 4; k++)
			assert_int_equal(job[k].outcome, BATCHER_DONE);
	}
	atomic_store(&expire, false);
	pthread_join(thread, NULL);
	batcher_stop(batcher);
}

static void a_statement_that_fails_fails_for_who_sent_it(void **state)
{
	struct batcher *batcher = start(1);
	struct batcher_job put[3] = { 0 }, held;
	atomic_bool go = false;

	(void)state;
	held = call(hold, &go, BATCHER_CALL);
	submit(batcher, &held);
	usleep(50000);
	for (int i = 0; i < 3; i++) {
		put[i].kind = BATCHER_PUT;
		/* No UTF-8: the server refuses the statement as a whole. */
		put[i].put = (struct message_put){
			.queue = queue, .text = i == 1 ? "\xff" : "x", .text_len = 1, .ttl_s = 600
		};
		submit(batcher, &put[i]);
	}
	atomic_store(&go, true);
	wait_for(4);
	for (int i = 0; i < 3; i++)
		assert_int_equal(put[i].outcome, i == 1 ? BATCHER_FAILED : BATCHER_DONE);
	batcher_stop(batcher);
}

static void without_a_server_the_answer_is_busy_at_once(void **state)
{
	struct deferred_error err = { 0 };
	struct batcher *batcher = batcher_start("host=/nowhere", 2, &err);
	time_t began = time(NULL);

	(void)state;
	assert_non_null(batcher);
	assert_false(batcher_ready(batcher));
	for (int i = 0; i < 100; i++) {
		struct batcher_job job = call(nothing, NULL, i % 2 ? BATCHER_CALL : BATCHER_SLOW);

		submit(batcher, &job);
		wait_for(1);
		assert_int_equal(job.outcome, BATCHER_BUSY);
	}
	assert_true(time(NULL) - began < 10);
	batcher_stop(batcher);
}

static int twice(void *data, struct pg *pg, struct deferred_error *err)
{
	(void)pg;
	(void)err;
	return ++*(int *)data < 5 ? BATCHER_AGAIN : 0;
}

static void a_long_call_takes_turns_with_the_others(void **state)
{
	struct batcher *batcher = start(1);
	int turns = 0;
	struct batcher_job slow = call(twice, &turns, BATCHER_SLOW), other = call(nothing, NULL, BATCHER_SLOW);

	(void)state;
	submit(batcher, &slow);
	submit(batcher, &other);
	wait_for(2);
	assert_int_equal(turns, 5);
	assert_int_equal(slow.outcome, BATCHER_DONE);
	assert_int_equal(other.outcome, BATCHER_DONE);
	batcher_stop(batcher);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_together_is_one_transaction),
		cmocka_unit_test(nobody_is_given_up_on_who_has_not_waited),
		cmocka_unit_test(a_statement_that_fails_fails_for_who_sent_it),
		cmocka_unit_test(without_a_server_the_answer_is_busy_at_once),
		cmocka_unit_test(a_long_call_takes_turns_with_the_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("http_fold", tests, make, NULL);
}
