/* SPDX-License-Identifier: MIT */
#include "pool_members.h"

#include "base/log.h"

#include <signal.h>
#include <stdio.h>

#define LEAVE_LIMIT_NS (10 * NS_PER_S) /* the same of a retired one that has nothing to do and does not leave */
#define DIE_LOG_NS NS_PER_S            /* a killed runner that lives for longer is logged */
#define DIE_LIMIT_NS (5 * NS_PER_S)    /* and is given up after this time */
#define SWEEP_NS NS_PER_S

static void take_sooner(uint64_t *deadline, uint64_t at)
{
	if (at < *deadline)
		*deadline = at;
}

static size_t count_staying(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->places; i++)
		n += pool->member[i].runner && !pool->member[i].retired;
	return n;
}

/* Has this runner nothing to do, and are there enough runners without it? */
static bool may_end(const struct pool *pool, const struct pool_member *m, size_t staying)
{
	return pool->idle_ns > 0 && staying > pool->runners_keep && pool->pending_len == 0 && !m->retired &&
	       runner_ready(m->runner) && runner_load(m->runner) == 0;
}

int pool_wait_ms(const struct pool *pool, uint64_t now)
{
	uint64_t deadline = pool->short_ns ? pool->short_ns : UINT64_MAX;
	size_t staying = count_staying(pool);

	if (pool->waits_ns > now) /* else it is dispatched when that is possible again */
		take_sooner(&deadline, pool->waits_ns);
	take_sooner(&deadline, passed_over_next_ns(&pool->setup.passed_over, now));
	for (size_t i = 0; i < pool->places; i++) {
		const struct pool_member *m = &pool->member[i];
		int64_t timeout_ms;

		if (!m->runner)
			continue;
		take_sooner(&deadline, pool->sweep_ns + SWEEP_NS);
		if (m->cancel_ns)
			take_sooner(&deadline, m->cancel_ns);
		if (m->killed_ns)
			take_sooner(&deadline, m->killed_ns + DIE_LIMIT_NS);
		if (m->kill_ns)
			take_sooner(&deadline, m->kill_ns);
		else if (!runner_ready(m->runner))
			take_sooner(&deadline, m->spawned_ns + pool->load_limit_ns);
		else if (!runner_killed(m->runner))
			take_sooner(&deadline, runner_limit_ns(m->runner, &timeout_ms));
		if (may_end(pool, m, staying))
			take_sooner(&deadline, m->idle_since_ns + pool->idle_ns);
	}
	if (deadline == UINT64_MAX)
		return -1;
	return deadline <= now ? 0 : (int)((deadline - now) / NS_PER_MS) + 1;
}

static bool all_cancelled(const struct runner *runner)
{
	unsigned int n = 0;
	const struct job *first = runner_current(runner, &n), *job = first;

	while (job && job->gone == JOB_GONE_CANCELLED)
		job = runner_current(runner, &n);
	return first && !job;
}

/* The runner was asked to end its job, or all jobs of its batch, which were cancelled. */
static void check_cancelled(struct pool *pool, struct pool_member *m, uint64_t now)
{
	if (!all_cancelled(m->runner))
		m->cancel_ns = 0;
	if (!m->cancel_ns || now < m->cancel_ns)
		return;
	m->cancel_ns = 0;
	pool_kill_runner(pool, m, SIGKILL, JOB_LOST, "cancelled");
}

static void check_limits(struct pool *pool, struct pool_member *m, uint64_t now)
{
	int64_t timeout_ms;
	char text[128];

	if (m->kill_ns) {
		if (now >= m->kill_ns) {
			pool_kill_runner(pool, m, SIGKILL, JOB_TIMEOUT, "");
			m->kill_ns = now + NS_PER_S;
		}
		return;
	}
	if (runner_killed(m->runner))
		return;
	if (m->cancel_ns)
		check_cancelled(pool, m, now);
	if (runner_killed(m->runner))
		return;
	if (m->retired && runner_load(m->runner) == 0 && now > m->idle_since_ns + LEAVE_LIMIT_NS) {
		pool_kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "the runner did not leave");
		return;
	}
	if (!runner_ready(m->runner)) {
		if (now - m->spawned_ns >= pool->load_limit_ns) {
			m->load_failed = true;
			pool_kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "plugins took too long to load");
		}
		return;
	}
	if (now < runner_limit_ns(m->runner, &timeout_ms))
		return;
	if (timeout_ms == 0) {
		log_line(LOG_L_ERROR, "runner %d neither begins nor ends its job: killed", (int)runner_pid(m->runner));
		pool_kill_runner(pool, m, SIGKILL, JOB_INTERRUPTED, "the runner stalled");
		return;
	}
	snprintf(text, sizeof(text), "time limit of %lld ms exceeded", (long long)timeout_ms);
	pool_kill_runner(pool, m, SIGTERM, JOB_TIMEOUT, text);
	m->kill_ns = now + (uint64_t)pool->kill_after_ms * NS_PER_MS;
}

/* Do not wait for a runner that was killed and does not die. If it dies later, it is one more unknown child. */
void pool_give_up_stuck(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		struct job *jobs, *next;

		if (!m->runner || !m->killed_ns || now < m->killed_ns + DIE_LOG_NS)
			continue;
		if (!m->logged_alive)
			runner_log_alive(m->runner);
		m->logged_alive = true;
		if (now < m->killed_ns + DIE_LIMIT_NS)
			continue;
		for (jobs = runner_give_up(m->runner); jobs; jobs = next) {
			next = jobs->next;
			pool_drop_key(pool, jobs);
			job_list_push(&pool->abandoned, jobs);
		}
		pool_remove_member(pool, m);
	}
}

/* When a skipped plugin is due, start a runner that loads it. If there is no place for it, one must leave first. */
static void load_again(struct pool *pool, uint64_t now)
{
	struct pool_member *free_place = NULL, *leaves = NULL;

	if (!passed_over_due(&pool->setup.passed_over, now) || pool->stopping || pool->fatal.code)
		return;
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner)
			free_place = m;
		else if (m->retired || !runner_ready(m->runner))
			return; /* one makes room, or is loading */
		else if (!leaves || runner_load(m->runner) < runner_load(leaves->runner))
			leaves = m;
	}
	if (free_place && pool->alive < pool->runners_max)
		pool_spawn(pool, free_place);
	else if (leaves)
		pool_retire(pool, leaves);
}

void pool_tick(struct pool *pool, uint64_t now)
{
	size_t staying = count_staying(pool);

	if (pool->short_ns && now >= pool->short_ns) {
		pool->short_ns = 0;
		pool->runners_max = pool->short_of;
	}
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner)
			continue;
		check_limits(pool, m, now);
		if (runner_load(m->runner) > 0)
			m->idle_since_ns = now;
		if (may_end(pool, m, staying) && now >= m->idle_since_ns + pool->idle_ns) {
			pool_retire(pool, m);
			staying--;
		}
	}
	pool_give_up_stuck(pool, now);
	load_again(pool, now);
	if (pool->alive > 0 && now >= pool->sweep_ns + SWEEP_NS)
		pool_sweep(pool);
}

/* Is it running this job, or about to begin it? 0 stands for any job, and for none. */
static bool has_current(const struct runner *runner, int64_t id)
{
	const struct job *job;
	unsigned int n = 0;

	while (id != 0 && (job = runner_current(runner, &n)))
		if (job->id == id)
			return true;
	return id == 0;
}

void pool_kill(struct pool *pool, int64_t id, int sig, enum job_outcome why, const char *text)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner || !has_current(m->runner, id))
			continue;
		pool_kill_runner(pool, m, sig, why, text);
		if (sig != SIGKILL && !m->kill_ns)
			m->kill_ns = clock_ns() + (uint64_t)pool->kill_after_ms * NS_PER_MS;
	}
}

void pool_end_gone(struct pool *pool, uint64_t now)
{
	for (size_t i = 0; i < pool->places; i++) {
		struct pool_member *m = &pool->member[i];
		bool taken = false, cancelled = false;
		const struct job *job;
		unsigned int n = 0;

		if (!m->runner || runner_killed(m->runner))
			continue;
		while ((job = runner_current(m->runner, &n))) {
			taken |= job->gone == JOB_GONE_TAKEN;
			cancelled |= job->gone == JOB_GONE_CANCELLED;
		}
		if (taken)
			pool_kill_runner(pool, m, SIGKILL, JOB_LOST, "taken by another claim");
		else if (cancelled && !m->cancel_ns)
			runner_ask_cancelled(m->runner);
		if (!taken && !m->cancel_ns && all_cancelled(m->runner))
			m->cancel_ns = now + (uint64_t)pool->kill_after_ms * NS_PER_MS;
	}
}
