/* SPDX-License-Identifier: MIT */
#include "pool_members.h"

#include "base/log.h"
#include "base/text/plural.h"
#include "run/orphan.h"

#include <signal.h>
#include <stdio.h>

#define SHORT_NS (15 * NS_PER_S) /* after a runner could not be started, the next one is tried this much later */

void pool_no_runner(struct pool *pool, const struct deferred_error *err)
{
	if (pool->alive == 0) {
		if (!pool->fatal.code)
			pool->fatal = *err;
		return;
	}
	if (!pool->short_ns)
		pool->short_of = pool->runners_max;
	if (!pool->short_logged)
		log_line(LOG_L_WARNING, "%s: goes on with %zu runner%s for now, not %zu", err->message, pool->alive,
			 plural((int64_t)pool->alive), pool->short_of);
	pool->short_logged = true;
	pool->short_ns = clock_ns() + SHORT_NS;
	pool->runners_max = pool->alive;
	pool->failed_starts = 0;
}

void pool_spawn(struct pool *pool, struct pool_member *m)
{
	struct deferred_error err = { 0 };

	m->skips = passed_over_next_ns(&pool->setup.passed_over, clock_ns()) != UINT64_MAX;
	if (runner_spawn(&m->runner, &pool->setup, &err) < 0) {
		pool_no_runner(pool, &err);
		return;
	}
	m->spawned_ns = clock_ns();
	m->kill_ns = m->killed_ns = m->cancel_ns = 0;
	m->load_failed = m->retired = m->logged_alive = false;
	m->idle_since_ns = m->spawned_ns;
	m->cpu_at_ns = 0;
	pool->alive++;
	if (pool->alive == pool->runners_max && !pool->short_ns)
		pool->short_logged = false;
}

void pool_warm_up(struct pool *pool)
{
	if (pool->alive == 0 && pool->places > 0)
		pool_spawn(pool, &pool->member[0]);
}

void pool_collect(struct pool *pool, struct runner *runner)
{
	struct attempt *a;

	while ((a = runner_take(runner))) {
		double us = (double)(a->finished_ns - a->started_ns) / 1000 / (a->batch > 0 ? a->batch : 1);

		/* The average follows a change within about ten attempts, and a much longer attempt at once. */
		pool->run_us = pool->run_us < 0 || us > pool->run_us * 10 ? us : pool->run_us + (us - pool->run_us) / 8;
		if (a->outcome == JOB_CRASHED)
			crashes_add(&pool->crashes, a->job->fn);
		pool_add_ended(pool, a);
	}
}

void pool_retire(struct pool *pool, struct pool_member *m)
{
	m->retired = true;
	m->idle_since_ns = clock_ns();
	pool_add_first(pool, runner_recall(m->runner));
	runner_quit(m->runner);
}

void pool_kill_runner(struct pool *pool, struct pool_member *m, int sig, enum job_outcome why, const char *text)
{
	pool_add_first(pool, runner_recall(m->runner));
	runner_kill(m->runner, sig, why, text);
	if (sig == SIGKILL && !m->killed_ns)
		m->killed_ns = clock_ns();
}

void pool_remove_member(struct pool *pool, struct pool_member *m)
{
	pool_collect(pool, m->runner);
	pool_add_first(pool, runner_recall(m->runner));
	runner_free(m->runner);
	m->runner = NULL;
	pool->alive--;
}

static size_t known_pids(const struct pool *pool, pid_t *pids, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places && n < max; i++)
		if (pool->member[i].runner)
			pids[n++] = runner_pid(pool->member[i].runner);
	return n;
}

void pool_sweep(struct pool *pool)
{
	pid_t pids[256]; /* of the largest pool */

	orphan_sweep(pids, known_pids(pool, pids, sizeof(pids) / sizeof(pids[0])));
	pool->sweep_ns = clock_ns();
}

bool pool_is_running(struct runner *runner)
{
	uint64_t started;
	int64_t timeout;

	return runner_running(runner, &started, &timeout) != NULL;
}

bool pool_is_stuck(struct runner *runner, uint64_t now)
{
	uint64_t started;
	int64_t timeout;

	return runner_running(runner, &started, &timeout) && now > started + POOL_STUCK_NS;
}

struct job *pool_recall(struct pool *pool)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			pool_add_first(pool, runner_recall(pool->member[i].runner));
	return pool_take_pending(pool);
}

void pool_recall_stuck(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && runner_load(r) > 1 && pool_is_stuck(r, now))
			pool_add_first(pool, runner_recall(r));
	}
}

void pool_each_job(const struct pool *pool, void (*f)(void *data, struct job *job), void *data)
{
	for (struct job *job = pool->pending, *next; job; job = next) {
		next = job->next;
		f(data, job);
	}
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_each_job(pool->member[i].runner, f, data);
}

void pool_each_running(const struct pool *pool, void (*f)(void *data, const struct job *job), void *data)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;
		const struct job *job;
		unsigned int n = 0;

		while (r && pool_is_running(r) && (job = runner_current(r, &n)))
			f(data, job);
	}
}

void pool_each_progress(const struct pool *pool, void (*f)(void *data, const struct job_progress *progress), void *data)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_each_progress(pool->member[i].runner, f, data);
}

void pool_each_step(const struct pool *pool, void (*f)(void *data, struct job_step *step), void *data)
{
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner && runner_step(pool->member[i].runner))
			f(data, runner_step(pool->member[i].runner));
}

void pool_answer_step(const struct pool *pool, int64_t id, int result)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && runner_step(r) && runner_step(r)->job->id == id)
			runner_answer_step(r, result);
	}
}

bool pool_remove_file(struct pool *pool, const char *path)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && !pool->member[i].retired && runner_ready(r) && runner_remove_file(r, path))
			return runner_flush(r) == 0;
	}
	return false;
}

void pool_stop(struct pool *pool)
{
	pool->stopping = true;
	for (size_t i = 0; i < pool->places; i++)
		if (pool->member[i].runner)
			runner_ask_stop(pool->member[i].runner);
}
