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
				   "function \"quick\" {\n command = { \"/bin/true\" }\n}\n";
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
		cmocka_unit_test(an_attempt_that_ended_leaves_the_load_and_its_time),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	orphan_init();
	return cmocka_run_group_tests_name("pool_figures", tests, NULL, NULL);
}
