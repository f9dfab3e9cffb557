/* SPDX-License-Identifier: MIT */
/* How much a pool has to do, counted with runners that run commands. */
#include "run/pool/pool.h"

#include "run/orphan.h"

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define RUNNERS 2
#define JOBS 3

static struct config *load_config(void)
{
	static const char text[] = "runners = 2\nfunction \"nap\" {\n command = { \"/bin/sleep\", \"600\" }\n}\n"
				   "function \"quick\" {\n command = { \"/bin/true\" }\n}\n"
				   "function \"together\" {\n command = { \"/bin/sleep\", \"600\" }\n batch = 9\n}\n";
	char path[] = "/tmp/pool_figures_XXXXXX";
	struct deferred_error err = { 0 };
	struct config *config = NULL;
	int fd = mkstemp(path);

	assert_true(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
	close(fd);
	if (config_load(&config, path, &err) < 0)
		fail_msg("%s", err.message);
	unlink(path);
	return config;
}

/* build/tests/lib/THIS -> build/bin/deferred_runner */
static const char *runner_path(char path[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 32);

	assert_true(n > 0);
	path[n] = '\0';
	for (int i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	return strcat(path, "/bin/deferred_runner");
}

static void open_pool(struct pool *pool, const struct config *config)
{
	static char program[PATH_MAX];
	struct runner_setup setup = { .config = config, .program = runner_path(program), .instance = "test" };

	assert_int_equal(pool_init(pool, &setup, NULL), 0);
}

static void add_jobs(struct pool *pool, const char *fn, int n)
{
	for (int id = 1; id <= n; id++) {
		struct job *job = job_new("q", fn, "", "{}", 2);

		job->id = id;
		job->attempt = 1;
		job->claimed_ns = clock_ns();
		pool_add(pool, job);
	}
}

static void turn_pool(struct pool *pool)
{
	struct pollfd fds[2 * RUNNERS];
	int wait_ms;

	pool_dispatch(pool);
	wait_ms = pool_wait_ms(pool, clock_ns());
	poll(fds, pool_pollfds(pool, fds, 2 * RUNNERS), wait_ms < 0 || wait_ms > 50 ? 50 : wait_ms);
	pool_reap(pool);
	pool_read(pool);
	pool_tick(pool, clock_ns());
	assert_int_equal(pool->fatal.code, 0);
}

static void count_job(void *data, struct job *job)
{
	(void)job;
	++*(size_t *)data;
}

static void each_job_is_pending_or_waits_or_runs(void **state)
{
	struct config *config = load_config();
	struct pool pool;
	size_t seen = 0;

	(void)state;
	open_pool(&pool, config);
	assert_int_equal(pool_load(&pool), 0);
	assert_int_equal(pool_busy(&pool), 0);
	assert_false(pool_starting(&pool));
	assert_true(pool_run_us(&pool, clock_ns()) < 0);
	add_jobs(&pool, "nap", JOBS);
	assert_int_equal(pool_load(&pool), JOBS);
	assert_int_equal(pool_unstarted(&pool), JOBS);
	assert_int_equal(pool_busy(&pool), RUNNERS); /* all, because jobs are pending */
	assert_true(pool_starting(&pool));
	while (pool_running(&pool) < RUNNERS)
		turn_pool(&pool);
	assert_int_equal(pool_load(&pool), JOBS);
	assert_int_equal(pool_unstarted(&pool), JOBS - RUNNERS);
	assert_int_equal(pool_busy(&pool), RUNNERS);
	assert_false(pool_starting(&pool));
	assert_true(pool_run_us(&pool, clock_ns()) >= 0);
	pool_each_job(&pool, count_job, &seen);
	assert_int_equal(seen, JOBS);
	job_list_free(pool_recall(&pool));
	assert_int_equal(pool_load(&pool), RUNNERS);
	assert_int_equal(pool_unstarted(&pool), 0);
	pool_clear(&pool);
	config_free(config);
}

/* Of two jobs of a key one waits, though a runner is free. It needs no further runner and keeps none busy. */
static void a_job_waits_until_the_one_of_its_key_before_it_has_ended(void **state)
{
	struct config *config = load_config();
	struct attempt *a = NULL;
	struct pool pool;

	(void)state;
	open_pool(&pool, config);
	add_jobs(&pool, "nap", 3);
	for (struct job *job = pool.pending; job; job = job->next)
		job->key = job->id < 3 ? 1 : 2;
	assert_true(pool_has_free(&pool));
	while (pool_running(&pool) < 2)
		turn_pool(&pool);
	for (int i = 0; i < 5; i++)
		turn_pool(&pool);
	assert_int_equal(pool.pending_len, 1);
	assert_int_equal(pool.pending->id, 2);
	assert_false(pool_has_free(&pool));
	assert_int_equal(pool_busy(&pool), 2);
	pool_kill(&pool, 3, SIGKILL, JOB_INTERRUPTED, "by the test");
	while (!(a = pool_take(&pool)))
		turn_pool(&pool);
	assert_int_equal(a->job->id, 3);
	attempt_free(a);
	for (int i = 0; i < 5; i++)
		turn_pool(&pool);
	assert_int_equal(pool.pending_len, 1); /* job 1 still runs */
	assert_int_equal(pool.alive, 1);
	assert_int_equal(pool_busy(&pool), 1);
	pool_kill(&pool, 1, SIGKILL, JOB_INTERRUPTED, "by the test");
	while (!(a = pool_take(&pool)))
		turn_pool(&pool);
	assert_int_equal(a->job->id, 1);
	attempt_free(a);
	assert_int_equal(pool.pending_len, 0);
	assert_int_equal(pool.late->id, 2); /* it must not run before job 1 is tried again */
	pool_clear(&pool);
	config_free(config);
}

static void a_batch_has_one_job_of_a_key_and_none_whose_turn_it_is_not(void **state)
{
	static const struct {
		const char *fn;
		int32_t key;
	} jobs[] = { { "together", 1 }, { "together", 2 }, { "together", 1 }, { "together", 2 },
		     { "nap", 3 },      { "together", 3 }, { "together", 4 } };
	static const int64_t left[] = { 3, 4, 5, 6 };
	struct config *config = load_config();
	struct pool pool;

	(void)state;
	open_pool(&pool, config);
	for (int64_t id = 1; id <= 7; id++) {
		struct job *job = job_new("q", jobs[id - 1].fn, "", "{}", 2);

		job->id = id;
		job->key = jobs[id - 1].key;
		job->attempt = 1;
		job->max_attempts = 9;
		job->claimed_ns = clock_ns();
		pool_add(&pool, job);
		while (id == 1 && pool_running(&pool) < 1)
			turn_pool(&pool);
	}
	while (pool_running(&pool) < 2)
		turn_pool(&pool);
	assert_int_equal(pool.pending_len, 4);
	for (size_t i = 0; i < 4; i++) {
		struct job *job = pool.pending;

		assert_int_equal(job->id, left[i]);
		pool.pending = job->next;
		free(job);
	}
	pool.pending_tail = &pool.pending;
	pool.pending_len = 0;
	pool_clear(&pool);
	config_free(config);
}

static void jobs_of_a_key_run_in_their_order(void **state)
{
	struct config *config = load_config();
	struct attempt *a = NULL;
	struct pool pool;
	uint64_t ended_ns = 0;

	(void)state;
	open_pool(&pool, config);
	add_jobs(&pool, "quick", 6);
	for (struct job *job = pool.pending; job; job = job->next)
		job->key = 1;
	for (int64_t id = 1; id <= 6; id++) {
		while (!(a = pool_take(&pool)))
			turn_pool(&pool);
		assert_int_equal(a->job->id, id);
		assert_true(a->started_ns >= ended_ns);
		ended_ns = a->finished_ns;
		attempt_free(a);
	}
	pool_clear(&pool);
	config_free(config);
}

static void an_attempt_that_ended_leaves_the_load_and_its_time(void **state)
{
	struct config *config = load_config();
	struct attempt *a = NULL;
	struct pool pool;

	(void)state;
	open_pool(&pool, config);
	add_jobs(&pool, "quick", 1);
	while (!(a = pool_take(&pool)))
		turn_pool(&pool);
	assert_int_equal(a->outcome, JOB_OK);
	attempt_free(a);
	assert_int_equal(pool_load(&pool), 0);
	assert_int_equal(pool_busy(&pool), 0);
	assert_true(pool_run_us(&pool, clock_ns()) > 0);
	assert_true(pool_cpu_demand(&pool, clock_ns()) < 0); /* no runner has a job */
	pool_clear(&pool);
	config_free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_job_is_pending_or_waits_or_runs),
		cmocka_unit_test(a_job_waits_until_the_one_of_its_key_before_it_has_ended),
		cmocka_unit_test(a_batch_has_one_job_of_a_key_and_none_whose_turn_it_is_not),
		cmocka_unit_test(jobs_of_a_key_run_in_their_order),
		cmocka_unit_test(an_attempt_that_ended_leaves_the_load_and_its_time),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	orphan_init();
	return cmocka_run_group_tests_name("pool_figures", tests, NULL, NULL);
}
