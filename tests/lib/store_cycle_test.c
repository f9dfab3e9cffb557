/* SPDX-License-Identifier: MIT */
/* Cycles against the server that DEFERRED_TEST_DB names: two transactions, each with its own end. */
#include "store/cycle/cycle.h"
#include "store/store_worker.h"

#include "base/clock.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LEASES_OF_A_STATEMENT 16

static struct pg *pg;
static char queue[32], instance[32];
static const char *const queues[] = { queue };
static const struct store_scope scope = { queues, 1, instance, 3 };
static int64_t worker, catalog;
static struct store_cycle cycle;
static const struct lanes none; /* no lane is known yet: the claim looks for all */

#define OK(call) \
	do { \
		struct deferred_error err = { 0 }; \
		if ((call) < 0) \
			fail_msg("%s: %s", err.where, err.message); \
	} while (0)

static void cancel(int64_t id)
{
	char text[128];

	snprintf(text, sizeof(text), "select deferred.cancel(%lld)", (long long)id);
	OK(pg_command(pg, text, &err));
}

/* So many of that priority. */
static void put(int n, int priority)
{
	char text[512];

	snprintf(
		text, sizeof(text),
		"select deferred.defer('f', '{}', '{\"queue\": \"%s\", \"priority\": %d}') from generate_series(1, %d)",
		queue, priority, n);
	OK(pg_command(pg, text, &err));
}

static int add_claim(int n, struct deferred_error *err)
{
	struct store_claim claim = { .worker = worker,
				     .lease_ms = 60000,
				     .seed = 1,
				     .window = 1,
				     .n = n,
				     .alone = n,
				     .bytes = INT32_MAX,
				     .lanes = &none,
				     .look = true };

	return store_cycle_claim(&cycle, &scope, &claim, err);
}

/* Send what was added and wait; what the cycle fails with. */
static int run(struct deferred_error *err)
{
	bool done = false;
	int rc = store_cycle_send(&cycle, err);

	while (rc == 0 && (rc = store_cycle_poll(&cycle, &done, err)) == 0 && !done) {
		struct pollfd fd = { pg_fd(pg), pg_events(pg), 0 };

		poll(&fd, 1, 60000);
	}
	return rc;
}

/* n jobs, in the order in which they came. */
static void claim(struct job **jobs, size_t n)
{
	store_cycle_begin(&cycle, pg);
	OK(add_claim((int)n, &err));
	OK(run(&err));
	assert_int_equal(cycle.claimed_len, n);
	for (size_t i = 0; i < n; i++) {
		jobs[i] = cycle.claimed;
		cycle.claimed = jobs[i]->next;
		jobs[i]->next = NULL;
	}
	store_cycle_clear(&cycle);
}

static void succeeded(struct attempt *a, struct job *job)
{
	*a = (struct attempt){ .job = job,
			       .outcome = JOB_OK,
			       .exit_code = -1,
			       .retry_after_ms = -1,
			       .plugin = "test 1",
			       .final = true,
			       .counts = true };
	a->started_ns = a->finished_ns = clock_ns();
}

/* The server refuses it when all before it in its transaction is done. */
static struct runner_call refused = { .fn = "f", .params = "{" };

static int add_refused(struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, 1);
	pg_arg_int8(&args, 1);
	pg_arg_text(&args, refused.fn);
	pg_arg_json(&args, refused.params, 1);
	pg_arg_null(&args);
	rc = pg_pipeline_add(pg, &sql_job_follow, &args, 0, err);
	pg_args_clear(&args);
	return rc;
}

static void what_is_added_behind_a_claim_is_refused(void **state)
{
	static const char said[] = " comes before a claim";
	const int64_t id = 1;
	struct job *job = job_new(queue, "f", "", "{}", 2);
	struct job_progress progress = { .job = job };
	struct store_track track = { .group = "g" };
	struct attempt a, *attempts[] = { &a };
	struct deferred_error whys[20] = { 0 }, *why = whys;

	(void)state;
	put(1, 0);
	succeeded(&a, job);
	store_cycle_begin(&cycle, pg);
	OK(add_claim(1, &err));
	store_cycle_record(&cycle, attempts, 1, true, why++);
	store_cycle_record(&cycle, attempts, 1, false, why++);
	a.follow = &refused;
	store_cycle_follow(&cycle, &a, why++);
	store_cycle_release(&cycle, &job, 1, why++);
	store_cycle_renew(&cycle, &job, 1, why++);
	store_cycle_close(&cycle, &id, 1, why++);
	store_cycle_outcomes(&cycle, attempts, 1, why++);
	store_cycle_progress(&cycle, &progress, 1, why++);
	store_cycle_progress_end(&cycle, attempts, 1, why++);
	store_cycle_lost(&cycle, 3, 0, why++);
	store_cycle_wake(&cycle, &id, 1, why++);
	store_cycle_arm(&cycle, &scope, why++);
	store_cycle_disarm(&cycle, &scope, why++);
	store_cycle_open(&cycle, why++);
	store_cycle_peek(&cycle, &scope, INT64_MIN, why++);
	store_cycle_promote(&cycle, INT64_MIN, why++);
	store_cycle_track(&cycle, &track, why++);
	store_cycle_next_due(&cycle, 1, INT64_MIN, why++);
	store_cycle_keep(&cycle, &scope, worker, INT64_MIN, why++);
	store_cycle_patience(&cycle, 10, why++);
	assert_int_equal(why - whys, 20);
	for (why = whys; why < whys + 20; why++) {
		size_t len = strlen(why->message);

		if (why->code != DEFERRED_EINVAL || len < sizeof(said) ||
		    strcmp(why->message + len + 1 - sizeof(said), said) != 0)
			fail_msg("%d: %d \"%s\"", (int)(why - whys), why->code, why->message);
	}
	/* The claim stands as it was. */
	OK(run(&err));
	assert_true(cycle.claimed_ok);
	assert_int_equal(cycle.claimed_len, 1);
	store_cycle_clear(&cycle);
	free(job);
}

static void a_claim_that_fails_leaves_what_was_recorded(void **state)
{
	struct deferred_error why = { 0 };
	struct attempt a, *attempts[] = { &a };
	struct job *job, *next;

	(void)state;
	put(2, 0);
	claim(&job, 1);
	succeeded(&a, job);
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, 1, true, &err));
	OK(add_claim(1, &err));
	OK(add_refused(&err));
	assert_int_equal(run(&why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "22P02");
	assert_true(cycle.recorded_ok && !cycle.claimed_ok);
	assert_true(store_ids_have(&cycle.recorded, job->id));
	store_cycle_clear(&cycle);

	claim(&next, 1); /* what it had taken is free */
	assert_true(next->id != job->id && next->attempt == 1);
	/* And the other is recorded once, for good. */
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, 1, true, &err));
	OK(run(&err));
	assert_false(store_ids_have(&cycle.recorded, job->id));
	store_cycle_clear(&cycle);
	free(job);
	free(next);
}

static void what_cannot_be_recorded_leaves_the_claim(void **state)
{
	struct deferred_error why = { 0 };
	struct attempt a, *attempts[] = { &a };
	struct job *job;

	(void)state;
	put(2, 0);
	claim(&job, 1);
	succeeded(&a, job);
	a.follow = &refused;
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, 1, true, &err));
	OK(store_cycle_follow(&cycle, &a, &err));
	OK(add_claim(1, &err));
	assert_int_equal(run(&why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "22P02");
	assert_true(!cycle.recorded_ok && cycle.claimed_ok);
	assert_int_equal(cycle.claimed_len, 1);
	assert_true(cycle.claimed->id != job->id);
	store_cycle_clear(&cycle);

	/* Nothing of the first one has stayed: it can be sent again. */
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, 1, true, &err));
	OK(run(&err));
	assert_true(cycle.recorded_ok && !cycle.claimed_ok);
	assert_true(store_ids_have(&cycle.recorded, job->id));
	store_cycle_clear(&cycle);
	free(job);
}

static void where_both_fail_neither_is_committed(void **state)
{
	struct deferred_error why = { 0 };
	struct attempt a, *attempts[] = { &a };
	struct job *job;

	(void)state;
	put(1, 0);
	claim(&job, 1);
	succeeded(&a, job);
	a.follow = &refused;
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, 1, true, &err));
	OK(store_cycle_follow(&cycle, &a, &err));
	OK(add_claim(1, &err));
	OK(add_refused(&err));
	assert_int_equal(run(&why), DEFERRED_EDB);
	assert_true(!cycle.recorded_ok && !cycle.claimed_ok);
	store_cycle_clear(&cycle);
	/* A claim alone has no first transaction to fail. */
	store_cycle_begin(&cycle, pg);
	OK(add_claim(1, &err));
	OK(add_refused(&err));
	assert_int_equal(run(NULL), DEFERRED_EDB);
	assert_true(cycle.recorded_ok && !cycle.claimed_ok);
	store_cycle_clear(&cycle);
	free(job);
}

/* With and without a text, and more leases than one statement takes. */
static void attempts_of_many_leases_are_all_recorded(void **state)
{
	enum { N = 2 * LEASES_OF_A_STATEMENT + 5 };
	struct attempt list[N], *attempts[N];
	struct job *jobs[N];

	(void)state;
	put(N, 0);
	for (int i = 0; i < N; i += i % 2 + 1) /* leases of one job and of two */
		claim(jobs + i, i % 2 && i + 1 < N ? 2 : 1);
	for (int i = 0; i < N; i++) {
		succeeded(&list[i], jobs[(i * 7) % N]);
		if (i % 3 == 0) {
			list[i].outcome = JOB_FAILED;
			attempt_set_error(&list[i], "no");
		}
		attempts[i] = &list[i];
	}
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_record(&cycle, attempts, N, true, &err));
	OK(run(&err));
	assert_int_equal(cycle.recorded.len, N);
	for (int i = 0; i < N; i++) {
		assert_true(store_ids_have(&cycle.recorded, jobs[i]->id));
		free(list[i].error);
		free(jobs[i]);
	}
	store_cycle_clear(&cycle);
}

static void jobs_begin_by_priority_and_one_seed_means_one_order(void **state)
{
	int64_t ids[2][12];
	struct job *jobs[12];

	(void)state;
	put(4, 1);
	put(4, 9);
	put(4, 5);
	for (int turn = 0; turn < 2; turn++) {
		claim(jobs, 12);
		for (int i = 0; i < 12; i++) {
			assert_int_equal(jobs[i]->priority, i < 4 ? 9 : i < 8 ? 5 : 1);
			ids[turn][i] = jobs[i]->id;
		}
		store_cycle_begin(&cycle, pg);
		OK(store_cycle_release(&cycle, jobs, 12, &err));
		OK(run(&err));
		assert_int_equal(cycle.locked.len, 0);
		store_cycle_clear(&cycle);
		for (int i = 0; i < 12; i++)
			free(jobs[i]);
	}
	assert_memory_equal(ids[0], ids[1], sizeof(ids[0]));
}

/* Both kinds of claims say in the same column which jobs have a lease of their own. */
static void jobs_with_one_attempt_are_told_apart_with_and_without_limits(void **state)
{
	struct store_claim claim = { .worker = worker,
				     .lease_ms = 60000,
				     .seed = 1,
				     .window = 1,
				     .n = 4,
				     .limited = 4,
				     .rated = 4,
				     .run = 1,
				     .alone = 4,
				     .bytes = INT32_MAX,
				     .lanes = &none,
				     .look = true };
	size_t n = 0, alone = 0;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text),
		 "select deferred.defer('f', '{}', json_build_object('queue', '%s', 'max_attempts', attempts, "
		 "'concurrency_key', key)) "
		 "from generate_series(1, 2) attempts cross join unnest('{k1, null}'::text[]) key",
		 queue);
	OK(pg_command(pg, text, &err));
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_claim(&cycle, &scope, &claim, &err));
	OK(run(&err));
	assert_int_equal(cycle.claimed_len, 2);
	assert_int_equal(cycle.limited_len, 1); /* of a key one at a time: the one with one attempt, which is older */
	for (struct job *job = cycle.claimed; job; job = job->next, n++) {
		assert_int_equal(job->alone, job->max_attempts == 1);
		alone += job->alone;
	}
	assert_int_equal(n, 2);
	assert_int_equal(alone, 1);
	assert_true(cycle.limited->alone && cycle.limited->limited && cycle.limited->max_attempts == 1);
	store_cycle_clear(&cycle);
}

static void a_renewal_tells_of_each_job_whether_it_is_ours(void **state)
{
	struct job *jobs[2], *stranger = job_new(queue, "f", "", "{}", 2);
	const struct store_lease *lease;

	(void)state;
	put(2, 0);
	claim(jobs, 2);
	cancel(jobs[1]->id);
	store_cycle_begin(&cycle, pg);
	OK(store_cycle_renew(&cycle, jobs, 2, &err));
	OK(run(&err));
	lease = store_cycle_lease(&cycle, jobs[0]);
	assert_true(lease && lease->id == 0 && lease->gone == JOB_HELD && lease->left_ms > 50000 &&
		    lease->left_ms <= 60000);
	lease = store_cycle_lease(&cycle, jobs[1]);
	assert_true(lease && lease->id == jobs[1]->id && lease->gone == JOB_GONE_CANCELLED);
	assert_null(store_cycle_lease(&cycle, stranger));
	store_cycle_clear(&cycle);
	assert_null(store_cycle_lease(&cycle, jobs[0]));
	for (int i = 0; i < 2; i++)
		free(jobs[i]);
	free(stranger);
}

static int tear_down_each(void **state)
{
	char text[128];

	(void)state;
	snprintf(text, sizeof(text), "select deferred.cancel(h.id) from deferred.__deferred_hot h where h.queue = '%s'",
		 queue);
	OK(pg_command(pg, text, &err));
	return 0;
}

static int set_up(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	/* Two builds may use one database at the same time. */
	snprintf(queue, sizeof(queue), "cycle%d", (int)getpid());
	snprintf(instance, sizeof(instance), "test:/cycle%d", (int)getpid());
	if (pg_open(&pg, getenv("DEFERRED_TEST_DB"), "store_cycle_test", &err) == 0 &&
	    store_register(pg, &scope, "here", (int)getpid(), "nowhere", &worker, &catalog, &err) == 0)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int tear_down(void **state)
{
	(void)state;
	store_end(pg, worker, NULL);
	pg_close(pg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_is_added_behind_a_claim_is_refused, tear_down_each),
		cmocka_unit_test_teardown(a_claim_that_fails_leaves_what_was_recorded, tear_down_each),
		cmocka_unit_test_teardown(what_cannot_be_recorded_leaves_the_claim, tear_down_each),
		cmocka_unit_test_teardown(where_both_fail_neither_is_committed, tear_down_each),
		cmocka_unit_test_teardown(attempts_of_many_leases_are_all_recorded, tear_down_each),
		cmocka_unit_test_teardown(jobs_begin_by_priority_and_one_seed_means_one_order, tear_down_each),
		cmocka_unit_test_teardown(jobs_with_one_attempt_are_told_apart_with_and_without_limits, tear_down_each),
		cmocka_unit_test_teardown(a_renewal_tells_of_each_job_whether_it_is_ours, tear_down_each),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_cycle", tests, set_up, tear_down);
}
