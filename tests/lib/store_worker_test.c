/* SPDX-License-Identifier: MIT */
/* What a worker asks and is answered, one statement at a time, against the server that DEFERRED_TEST_DB names. */
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

static struct pg *pg;
static char queue[32], instance[48];
static const char *const queues[] = { queue };
static const struct store_scope scope = { queues, 1, instance, 3 };

#define OK(call) \
	do { \
		struct deferred_error err = { 0 }; \
		if ((call) < 0) \
			fail_msg("%s: %s", err.where, err.message); \
	} while (0)

static void sql(const char *text)
{
	OK(pg_command(pg, text, &err));
}

static void put(int n, int max_attempts)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "select deferred.defer('f', '{}', '{\"queue\": \"%s\", \"max_attempts\": %d}') from "
		 "generate_series(1, %d)",
		 queue, max_attempts, n);
	sql(text);
}

static int64_t register_one(void)
{
	int64_t worker = 0, catalog;

	OK(store_register(pg, &scope, "here", (int)getpid(), "nowhere", &worker, &catalog, &err));
	assert_true(worker > 0);
	return worker;
}

static void wait_until_done(struct store_cycle *cycle)
{
	bool done = false;

	OK(store_cycle_send(cycle, &err));
	while (!done) {
		struct pollfd fd = { pg_fd(pg), pg_events(pg), 0 };

		poll(&fd, 1, 60000);
		OK(store_cycle_poll(cycle, &done, &err));
	}
}

static const struct lanes none; /* no lane is known yet: the claim looks for all */

/* Jobs of one lease, as a list. */
static struct job *claim(int64_t worker, int n)
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
	struct store_cycle cycle;
	struct job *jobs;

	store_cycle_begin(&cycle, pg);
	OK(store_cycle_claim(&cycle, &scope, &claim, &err));
	wait_until_done(&cycle);
	assert_int_equal(cycle.claimed_len, n);
	jobs = cycle.claimed;
	cycle.claimed = NULL;
	store_cycle_clear(&cycle);
	return jobs;
}

struct seen {
	int n, recorded, final;
};

static void note(void *data, int64_t id, const char *fn, int attempt, bool final, bool recorded)
{
	struct seen *seen = data;

	assert_true(id > 0);
	assert_string_equal(fn, "f");
	assert_int_equal(attempt, 1);
	seen->n++;
	seen->recorded += recorded;
	seen->final += final;
}

static void a_probe_tells_of_work_in_the_queues_served_and_of_what_a_run_left(void **state)
{
	struct store_probe probe;
	int64_t worker;

	(void)state;
	OK(store_probe(pg, &scope, &probe, &err));
	assert_true(probe.schema_version > 0 && !probe.work && !probe.unclean);
	put(1, 3);
	OK(store_probe(pg, &scope, &probe, &err));
	assert_true(probe.work && !probe.unclean);
	worker = register_one();
	job_list_free(claim(worker, 1));
	OK(store_probe(pg, &scope, &probe, &err));
	assert_true(!probe.work && probe.unclean);
	OK(store_end(pg, worker, &err));
}

static void a_new_run_takes_over_what_an_earlier_one_of_its_instance_held(void **state)
{
	int64_t old = register_one(), worker = register_one();
	struct seen seen = { 0 };

	(void)state;
	put(2, 3);
	job_list_free(claim(old, 2)); /* nobody knows which of the two had begun */
	put(1, 1);
	job_list_free(claim(old, 1)); /* its only attempt */
	OK(store_recover(pg, &scope, worker, JOB_LOST, NULL, note, &seen, &err));
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.recorded, 1);
	assert_int_equal(seen.final, 1);
	/* What it holds itself is left to it, and the old one has nothing any more. */
	job_list_free(claim(worker, 2));
	memset(&seen, 0, sizeof(seen));
	OK(store_recover(pg, &scope, worker, JOB_LOST, NULL, note, &seen, &err));
	assert_int_equal(seen.n, 0);
	OK(store_end(pg, worker, &err));
}

static void claims_whose_answer_was_lost_are_given_back_and_the_known_ones_kept(void **state)
{
	int64_t worker = register_one();
	struct job *known, *unknown;
	bool registered = false;

	(void)state;
	put(2, 3);
	known = claim(worker, 1);
	unknown = claim(worker, 1);
	/* A server that does not know us has nothing of ours. */
	OK(store_release_unknown(pg, &scope, INT64_MAX, NULL, 0, &registered, &err));
	assert_false(registered);
	OK(store_release_unknown(pg, &scope, worker, &known->receipt, 1, &registered, &err));
	assert_true(registered);
	job_list_free(unknown);
	unknown = claim(worker, 1);
	assert_true(unknown->id != known->id && unknown->attempt == 1);
	OK(store_release_unknown(pg, &scope, worker, NULL, 0, &registered, &err));
	assert_true(registered);
	job_list_free(claim(worker, 2));
	OK(store_end(pg, worker, &err));
	OK(store_release_unknown(pg, &scope, worker, NULL, 0, &registered, &err));
	assert_false(registered);
	job_list_free(known);
	job_list_free(unknown);
}

static void the_log_tells_what_was_recorded_of_each_claim(void **state)
{
	int64_t worker = register_one();
	struct attempt list[3], *attempts[3], *recorded[2];
	struct job *jobs, *job;
	struct store_cycle cycle;
	int outcomes[3] = { 77, 77, 77 };

	(void)state;
	put(3, 3);
	jobs = job = claim(worker, 3);
	for (int i = 0; i < 3; i++, job = job->next) {
		list[i] = (struct attempt){ .job = job,
					    .outcome = i ? JOB_FAILED : JOB_OK,
					    .exit_code = -1,
					    .plugin = "test 1",
					    .counts = true };
		list[i].started_ns = list[i].finished_ns = clock_ns();
		attempts[i] = &list[i];
	}
	store_cycle_begin(&cycle, pg);
	recorded[0] = &list[0];
	OK(store_cycle_record(&cycle, recorded, 1, true, &err));
	recorded[1] = &list[2];
	OK(store_cycle_record(&cycle, recorded + 1, 1, false, &err));
	wait_until_done(&cycle);
	store_cycle_clear(&cycle);
	OK(store_recorded(pg, attempts, 3, outcomes, &err));
	assert_int_equal(outcomes[0], JOB_OK);
	assert_int_equal(outcomes[1], JOB_UNRECORDED);
	assert_int_equal(outcomes[2], JOB_FAILED);
	/* Another claim of the same job is another matter. */
	list[0].job->receipt++;
	OK(store_recorded(pg, attempts, 1, outcomes, &err));
	assert_int_equal(outcomes[0], JOB_UNRECORDED);
	OK(store_recorded(pg, attempts, 0, outcomes, &err));
	OK(store_end(pg, worker, &err));
	job_list_free(jobs);
}

/* Registrations of this instance are refused until the sequence has come so far; it counts what is rolled back too. */
static void refuse(const char *sqlstate, int times)
{
	char text[1024];

	snprintf(text, sizeof(text),
		 "create sequence public.tries_%1$d;"
		 "create function public.refuse_%1$d() returns trigger language plpgsql as $$ begin if "
		 "nextval('public.tries_%1$d') <= %2$d then"
		 " raise 'not now' using errcode = '%3$s'; end if; return new; end $$;"
		 "create trigger refuse_%1$d before insert on deferred.__deferred_worker for each row when "
		 "(new.instance = '%4$s')"
		 " execute function public.refuse_%1$d()",
		 (int)getpid(), times, sqlstate, instance);
	sql(text);
}

static void tries_were(int n)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "do $$ begin if (select last_value from public.tries_%1$d) <> %2$d then raise '%% tries', (select "
		 "last_value from public.tries_%1$d);"
		 " end if; end $$",
		 (int)getpid(), n);
	sql(text);
}

static int stop_refusing(void **state)
{
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "drop function public.refuse_%1$d() cascade; drop sequence public.tries_%1$d",
		 (int)getpid());
	sql(text);
	return 0;
}

static void a_statement_that_fails_for_a_passing_reason_is_sent_again(void **state)
{
	(void)state;
	refuse("40001", 2);
	OK(store_end(pg, register_one(), &err));
	tries_were(3);
}

static void one_that_fails_for_good_is_sent_once_and_says_why(void **state)
{
	struct deferred_error why = { 0 };
	int64_t worker = -5, catalog;

	(void)state;
	refuse("23514", 1);
	assert_int_equal(store_register(pg, &scope, "here", 1, "nowhere", &worker, &catalog, &why), DEFERRED_EDB);
	assert_string_equal(why.sqlstate, "23514");
	assert_int_equal(worker, -5);
	tries_were(1);
}

static void a_statement_that_a_pooler_has_forgotten_is_sent_anew(void **state)
{
	(void)state;
	OK(store_end(pg, register_one(), &err));
	sql("deallocate all");
	OK(store_end(pg, register_one(), &err));
	assert_true(pg_is_unnamed(pg));
}

static int tear_down_each(void **state)
{
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "select deferred.cancel(h.id) from deferred.__deferred_hot h where h.queue = '%s'",
		 queue);
	sql(text);
	return 0;
}

static int set_up(void **state)
{
	struct deferred_error err = { 0 };

	(void)state;
	/* Two builds may use one database at the same time. */
	snprintf(queue, sizeof(queue), "worker%d", (int)getpid());
	snprintf(instance, sizeof(instance), "test:/worker%d", (int)getpid());
	if (pg_open(&pg, getenv("DEFERRED_TEST_DB"), "store_worker_test", &err) == 0)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int tear_down(void **state)
{
	(void)state;
	pg_close(pg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_probe_tells_of_work_in_the_queues_served_and_of_what_a_run_left,
					  tear_down_each),
		cmocka_unit_test_teardown(a_new_run_takes_over_what_an_earlier_one_of_its_instance_held,
					  tear_down_each),
		cmocka_unit_test_teardown(claims_whose_answer_was_lost_are_given_back_and_the_known_ones_kept,
					  tear_down_each),
		cmocka_unit_test_teardown(the_log_tells_what_was_recorded_of_each_claim, tear_down_each),
		cmocka_unit_test_teardown(a_statement_that_fails_for_a_passing_reason_is_sent_again, stop_refusing),
		cmocka_unit_test_teardown(one_that_fails_for_good_is_sent_once_and_says_why, stop_refusing),
		cmocka_unit_test(a_statement_that_a_pooler_has_forgotten_is_sent_anew),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("store_worker", tests, set_up, tear_down);
}
