/* SPDX-License-Identifier: MIT */
#include "run/board.h"
#include "pool_members.h"

#include <stdlib.h>
#include <string.h>

#define PORTION_US 5000       /* a runner is given work for this time */
#define PROGRAM_GRACE_MS 1000 /* a runner kills a program that exceeds its time limit, and answers within this time */

/* How many jobs a runner should have, so that it never waits for us and no job waits long for it. */
static size_t portion_of(const struct pool *pool)
{
	double n;

	if (pool->run_us < 0)
		return 1;
	n = PORTION_US / (pool->run_us < 1 ? 1 : pool->run_us);
	return n < 1 ? 1 : n > BOARD_SLOTS / 2 ? BOARD_SLOTS / 2 : (size_t)n;
}

/* The claim does not know the limit that a function sets itself. So a job whose attempts were interrupted comes here
 * once too often. */
static void end_unrun(struct pool *pool, struct job *job, const char *plugin)
{
	struct attempt *a = calloc(1, sizeof(*a));

	if (!a) {
		pool_drop_key(pool, job);
		job_list_push(&pool->abandoned, job); /* it comes here again when its lease has ended */
		return;
	}
	a->job = job;
	a->plugin = plugin;
	a->outcome = JOB_FAILED;
	a->dead = true;
	a->retry_after_ms = -1;
	a->exit_code = -1;
	a->started_ns = a->finished_ns = clock_ns();
	attempt_set_error(a, "not run: earlier attempts, interrupted or lost, have used up those the function allows");
	pool_add_ended(pool, a);
}

int64_t pool_limit_ms(const struct pool *pool, const struct job *job)
{
	const struct runner_function *f = functions_find(&pool->functions, job->fn);

	if (job->timeout_ms > 0)
		return job->timeout_ms;
	return f && f->timeout_ms > 0 ? f->timeout_ms : pool->default_timeout_ms;
}

/* Is this job to be run here and now? Otherwise it is sorted out. f is NULL: its function is unknown here. */
static bool may_run(struct pool *pool, struct job *job, const struct runner_function *f)
{
	if (job->gone) { /* it went away while a runner that has died had it */
		free(job);
		return false;
	}
	if (!f) {
		pool_drop_key(pool, job);
		job->next = pool->unknown;
		pool->unknown = job;
		return false;
	}
	if (job->start_by_ns && clock_ns() > job->start_by_ns) {
		job_list_push(&pool->late, job);
		return false;
	}
	if (job->max_attempts == 0)
		job->max_attempts = f->max_attempts;
	if (job->max_attempts > 0 && job->attempt - job->attempt_base > job->max_attempts) {
		end_unrun(pool, job, f->plugin);
		return false;
	}
	return true;
}

/* May it be run together with others? The end of their process must not use up its only attempt. */
static bool may_share(const struct job *job, const struct runner_function *f)
{
	return f && f->batch > 1 && !job->alone && (job->max_attempts ? job->max_attempts : f->max_attempts) != 1;
}

static bool key_is_running(const struct pool *pool, const struct job *job)
{
	for (size_t i = 0; job->key > 0 && i < pool->places; i++)
		if (pool->member[i].runner && runner_has_key(pool->member[i].runner, job))
			return true;
	return false;
}

static bool list_has_key(const struct job *list, const struct job *end, const struct job *job)
{
	while (list != end && !job_same_key(list, job))
		list = list->next;
	return list != end;
}

/* Must a pending job wait for one of its key: one that runs, or is pending before it, or is in this batch? */
static bool waits_for_key(const struct pool *pool, const struct job *batch, const struct job *job)
{
	return job->key > 0 &&
	       (key_is_running(pool, job) || list_has_key(pool->pending, job, job) || list_has_key(batch, NULL, job));
}

/* The first pending job from there on that may start. NULL: all of them wait for others of their keys. The jobs of a
 * key lie in their order, so none of them lies before the one that is found. */
static struct job **find_free(const struct pool *pool, struct job **at)
{
	while (*at && key_is_running(pool, *at))
		at = &(*at)->next;
	return *at ? at : NULL;
}

bool pool_has_free(const struct pool *pool)
{
	struct job *first = pool->pending;

	return find_free(pool, &first) != NULL;
}

size_t pool_held(const struct pool *pool)
{
	size_t n = 0;

	for (const struct job *job = pool->pending; job; job = job->next)
		n += key_is_running(pool, job);
	return n;
}

/* Chain others of its function to this job, until its batch is full. The limit of the batch is the longest one. A job
 * that must start at once joins only if the runner is idle. */
static void fill_batch(struct pool *pool, struct job *job, const struct runner_function *f, bool idle,
		       struct call_terms *terms)
{
	struct job *last = job, **at = &pool->pending;
	size_t n = 1;

	while (*at && n < f->batch) {
		int64_t limit_ms;

		if (strcmp((*at)->fn, job->fn) != 0 || !may_share(*at, f) || ((*at)->start_by_ns && !idle) ||
		    waits_for_key(pool, job, *at)) {
			at = &(*at)->next;
			continue;
		}
		last->next = pool_take_at(pool, at);
		if (!may_run(pool, last->next, f)) {
			last->next = NULL;
			continue;
		}
		last = last->next;
		n++;
		limit_ms = pool_limit_ms(pool, last);
		if (terms->timeout_ms > 0 && (limit_ms == 0 || limit_ms > terms->timeout_ms))
			terms->timeout_ms = limit_ms;
	}
}

/* Returns false when the runner takes no more. */
static bool give_job(struct pool *pool, struct runner *runner, struct job **at)
{
	struct job *job = pool_take_at(pool, at);
	const struct runner_function *f = functions_find(&pool->functions, job->fn);
	struct call_terms terms;

	if (!may_run(pool, job, f))
		return true;
	terms = (struct call_terms){
		.timeout_ms = pool_limit_ms(pool, job),
		.grace_ms = f->flags & FRAME_OF_PROGRAM ? pool->kill_after_ms + PROGRAM_GRACE_MS : 0,
		.plugin = f->plugin,
		.plain_crash = crashes_have(&pool->crashes, job->fn),
	};
	pool->batch = f->batch;
	if (may_share(job, f))
		fill_batch(pool, job, f, runner_load(runner) == 0, &terms);
	if ((!job->alone || !pool->begun || begun_mark(pool->begun, job->receipt)) && runner_send(runner, job, &terms))
		return true;
	pool_add_first(pool, job);
	return false;
}

static struct runner_function *find_sharer(struct pool *pool, const struct job *job)
{
	const struct runner_function *f = functions_find(&pool->functions, job->fn);

	/* A job under limits holds a place, and must start soon. */
	return !job->limited && may_share(job, f) ? &pool->functions.served[f - pool->functions.served] : NULL;
}

/* Of each function, how many of the jobs fill batches? */
static void count_ready(struct pool *pool)
{
	struct runner_function *served = pool->functions.served, *f;

	for (size_t i = 0; i < pool->functions.served_len; i++)
		served[i].ready = 0;
	for (const struct job *job = pool->pending; job; job = job->next)
		if ((f = find_sharer(pool, job)))
			f->ready++;
	for (size_t i = 0; i < pool->functions.served_len; i++)
		served[i].ready -= served[i].ready % served[i].batch;
}

/* Take out the jobs that wait until their batch is full. When the first of them has waited for long enough, the others
 * go with it. */
static struct job *hold_waiting(struct pool *pool, uint64_t now)
{
	struct job *list = NULL, **tail = &list, **at = &pool->pending;

	pool->waiting = 0;
	pool->waits_ns = 0;
	if (!pool->functions.wait || pool->pending_len == 0)
		return NULL;
	count_ready(pool);
	while (*at) {
		struct runner_function *f = find_sharer(pool, *at);
		uint64_t due_ns = f ? (*at)->claimed_ns + (uint64_t)f->batch_wait_ms * NS_PER_MS : 0;

		if (f && f->ready == 0 && due_ns <= now)
			f->ready = SIZE_MAX;
		if (!f || f->ready > 0) {
			at = &(*at)->next;
			if (f)
				f->ready--;
			continue;
		}
		pool->waits_ns = pool->waits_ns && pool->waits_ns < due_ns ? pool->waits_ns : due_ns;
		pool->batch = f->batch;
		pool->waiting++;
		*tail = pool_take_at(pool, at);
		tail = &(*tail)->next;
	}
	return list;
}

/* Jobs that were handed out as short ones may turn out to be long. They must not wait for one runner while another is
 * idle. */
static void level_load(struct pool *pool, size_t each)
{
	bool idle = pool->alive < pool->runners_max;

	for (size_t i = 0; i < pool->places && !idle; i++) {
		const struct pool_member *m = &pool->member[i];

		idle = m->runner && !m->retired && runner_ready(m->runner) && runner_load(m->runner) == 0;
	}
	for (size_t i = 0; i < pool->places && idle; i++)
		if (pool->member[i].runner && runner_load(pool->member[i].runner) > each + 1)
			pool_add_first(pool, runner_recall(pool->member[i].runner));
}

static void dispatch_ready(struct pool *pool, uint64_t now)
{
	size_t each = portion_of(pool), idle = 0;
	struct job **at;

	if (pool->stopping || pool->fatal.code)
		return;
	if (!pool_has_free(pool))
		level_load(pool, each);
	at = find_free(pool, &pool->pending);
	for (size_t i = 0; i < pool->places; i++) {
		struct runner *r = pool->member[i].runner;

		if (r && !pool->member[i].retired && !runner_killed(r) && runner_load(r) == 0)
			idle++;
	}
	for (size_t i = 0; i < pool->places && at; i++) {
		struct pool_member *m = &pool->member[i];

		if (!m->runner) {
			/* One more runner only for a job that no idle one will take. */
			if (idle < pool->pending_len && pool->alive < pool->runners_max) {
				pool_spawn(pool, m);
				idle++;
			}
			continue;
		}
		if (m->retired || !runner_ready(m->runner))
			continue;
		if (pool_is_stuck(m->runner, now))
			continue;
		/* Adding jobs one by one would cost a message per job: wait until half of them are done. */
		if (runner_load(m->runner) > each / 2)
			continue;
		/* A job that must start at once waits for a runner that has no other job. */
		while (at && runner_load(m->runner) < each &&
		       !(((*at)->start_by_ns || (*at)->alone) && runner_load(m->runner) > 0)) {
			if (!give_job(pool, m->runner, at)) {
				at = find_free(pool, &pool->pending); /* the job is the first one again */
				break;
			}
			at = find_free(pool, at);
		}
		runner_flush(m->runner);
	}
}

void pool_dispatch(struct pool *pool)
{
	uint64_t now = clock_ns();
	struct job *waiting = hold_waiting(pool, now);

	dispatch_ready(pool, now);
	pool_add_first(pool, waiting);
}
