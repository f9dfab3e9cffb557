/* SPDX-License-Identifier: MIT */
#include "pool_members.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define HELD_MAX (16u << 20) /* while results of more bytes wait to be recorded, no further results are read */
#define FAILED_STARTS_MAX 5
#define LOAD_LIMIT_NS (10 * NS_PER_S)    /* for the plugins; and for programs start_timeout */
#define LEAVE_LIMIT_NS (100 * NS_PER_MS) /* and for programs kill_after */

static void take_settings(struct pool *pool, const struct runner_setup *setup)
{
	const struct config_program *programs;
	size_t n;
	int64_t longest_ms = 0;

	programs = config_programs(setup->config, &n);
	for (size_t i = 0; i < n; i++)
		if (!programs[i].declared && programs[i].start_timeout_ms > longest_ms)
			longest_ms = programs[i].start_timeout_ms;
	pool->setup = *setup;
	pool->runners_max = (size_t)config_int(setup->config, "runners");
	pool->short_ns = 0;
	pool->default_timeout_ms = config_int(setup->config, "timeout");
	pool->kill_after_ms = config_int(setup->config, "kill_after");
	pool->load_limit_ns = LOAD_LIMIT_NS + (uint64_t)longest_ms * NS_PER_MS;
	pool->leave_limit_ns = LEAVE_LIMIT_NS + (n > 0 ? (uint64_t)pool->kill_after_ms * NS_PER_MS : 0);
}

int pool_init(struct pool *pool, const struct runner_setup *setup, struct deferred_error *err)
{
	memset(pool, 0, sizeof(*pool));
	take_settings(pool, setup);
	pool->places = pool->runners_max;
	pool->pending_tail = &pool->pending;
	pool->ended_tail = &pool->ended;
	pool->run_us = -1;
	pool->member = calloc(pool->places, sizeof(*pool->member));
	if (pool->member)
		return 0;
	pool->runners_max = pool->places = 0;
	return error_set(err, DEFERRED_ENOMEM, "pool", "out of memory");
}

void pool_reload(struct pool *pool, const struct runner_setup *setup)
{
	size_t wanted = (size_t)config_int(setup->config, "runners");
	struct pool_member *bigger = wanted > pool->places ? realloc(pool->member, wanted * sizeof(*bigger)) : NULL;

	passed_over_clear(&pool->setup.passed_over);
	take_settings(pool, setup);
	if (bigger) {
		memset(bigger + pool->places, 0, (wanted - pool->places) * sizeof(*bigger));
		pool->member = bigger;
		pool->places = wanted;
	}
	if (pool->runners_max > pool->places)
		pool->runners_max = pool->places; /* no memory for more */
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && !pool->member[i].retired)
			pool_retire(pool, &pool->member[i]);
}

size_t pool_pollfds(const struct pool *pool, struct pollfd *fds, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places && n + 2 <= max; i++)
		if (pool->member[i].runner) {
			runner_pollfds(pool->member[i].runner, fds + n);
			n += 2;
		}
	return n;
}

/* This runner has become ready, and has loaded or refused what others skip. So those are replaced, also if they are not
 * ready yet: a job would fail in a runner that lacks its function. */
static void end_passed_over(struct pool *pool, const struct pool_member *m)
{
	if (!passed_over_drop(&pool->setup.passed_over, m->skips ? m->spawned_ns : UINT64_MAX))
		return;
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && &pool->member[i] != m && !pool->member[i].retired &&
		    pool->member[i].skips)
			pool_retire(pool, &pool->member[i]);
}

static void learn_functions(struct pool *pool, struct runner *r)
{
	size_t n;
	struct runner_function *list = runner_take_functions(r, &n);

	functions_learn(&pool->functions, list, n, &pool->setup.passed_over);
}

static void read_member(struct pool *pool, struct pool_member *m)
{
	struct runner *r = m->runner;
	struct deferred_error err = { 0 };
	bool was_ready = runner_ready(r);
	int rc;

	runner_pause(r, attempt_held_bytes() > HELD_MAX);
	rc = runner_read(r, &err);
	if ((rc == DEFERRED_EPLUGIN || rc == DEFERRED_ECONFIG) && !pool->fatal.code)
		pool->fatal = err;
	else if (rc < 0 && !runner_killed(r))
		pool_kill_runner(pool, m, SIGKILL, JOB_FAILED,
				 "wrote nonsense to the socket or the board of its runner");
	else
		runner_flush(r);
	if (runner_deaf(r) && !pool_is_running(r) && !runner_killed(r) && !m->retired)
		pool_kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "a function closed the socket of its runner");
	if (!was_ready && runner_ready(r)) {
		pool->failed_starts = 0;
		end_passed_over(pool, m);
		learn_functions(pool, r);
	}
	pool_collect(pool, r);
}

void pool_read(struct pool *pool)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			read_member(pool, &pool->member[i]);
}

static void bury_member(struct pool *pool, struct pool_member *m, int status)
{
	struct deferred_error err = { 0 };
	bool was_ready, failed;
	const char *loading;
	int rc;

	/* The reason why it refused its plugins may still be in the socket. */
	rc = runner_read(m->runner, &err);
	if ((rc == DEFERRED_EPLUGIN || rc == DEFERRED_ECONFIG) && !pool->fatal.code)
		pool->fatal = err;
	was_ready = runner_ready(m->runner) || (runner_killed(m->runner) && !m->load_failed);
	loading = runner_reaped(m->runner, status);
	if (loading && !m->retired && !pool->fatal.code)
		passed_over_add(&pool->setup.passed_over, loading, m->load_failed);
	failed = !loading && !was_ready && !m->retired;
	pool_remove_member(pool, m);
	if (failed && !pool->fatal.code && ++pool->failed_starts >= FAILED_STARTS_MAX) {
		error_clear(&err);
		error_set(&err, DEFERRED_ESYSTEM, "runner", "runners die before they are ready (%s %d)",
			  WIFSIGNALED(status) ? "signal" : "exit status",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		error_hint(&err, "is '%s' there and executable?", pool->setup.program);
		pool_no_runner(pool, &err);
	}
}

void pool_reap(struct pool *pool)
{
	bool died = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (size_t i = 0; i < pool->places; i++)
			if (pool->member[i].runner && runner_pid(pool->member[i].runner) == pid) {
				bury_member(pool, &pool->member[i], status);
				died = true;
			}
	if (died)
		pool_sweep(pool); /* its children have just become ours */
}

void pool_clear(struct pool *pool)
{
	uint64_t kill_ns = clock_ns() + (pool_running(pool) > 0 ? LEAVE_LIMIT_NS : pool->leave_limit_ns);
	bool killed = false;
	struct attempt *a;

	job_list_free(pool_recall(pool));
	/* Idle runners leave when their socket closes, and have time to do so. The others are killed. */
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner) {
			pool->member[i].retired = true;
			runner_quit(pool->member[i].runner);
		}
	while (pool->alive > 0) {
		if (!killed && clock_ns() >= kill_ns) {
			pool_kill(pool, 0, SIGKILL, JOB_INTERRUPTED, "the run ended");
			killed = true;
		}
		pool_reap(pool);
		pool_give_up_stuck(pool, clock_ns());
		if (pool->alive > 0)
			poll(NULL, 0, 2);
	}
	pool_sweep(pool);
	while ((a = pool_take(pool)))
		attempt_free(a);
	job_list_free(pool_recall(pool));
	job_list_free(pool->unknown);
	job_list_free(pool->late);
	job_list_free(pool->abandoned);
	functions_clear(&pool->functions);
	passed_over_clear(&pool->setup.passed_over);
	free(pool->member);
	memset(pool, 0, sizeof(*pool));
}
