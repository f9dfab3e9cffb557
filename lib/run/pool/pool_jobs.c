/* SPDX-License-Identifier: MIT */
#include "pool_members.h"

void pool_add(struct pool *pool, struct job *jobs)
{
	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		job->next = NULL;
		*pool->pending_tail = job;
		pool->pending_tail = &job->next;
		pool->pending_len++;
	}
}

struct job *pool_take_at(struct pool *pool, struct job **at)
{
	struct job *job = *at;

	if (job) {
		*at = job->next;
		if (!*at)
			pool->pending_tail = at;
		pool->pending_len--;
		job->next = NULL;
	}
	return job;
}

void pool_add_first(struct pool *pool, struct job *jobs)
{
	struct job *last = jobs;
	size_t n = 1;

	if (!jobs)
		return;
	for (; last->next; last = last->next)
		n++;
	last->next = pool->pending;
	if (!pool->pending)
		pool->pending_tail = &last->next;
	pool->pending = jobs;
	pool->pending_len += n;
}

struct job *pool_take_pending(struct pool *pool)
{
	struct job *list = pool->pending;

	pool->pending = NULL;
	pool->pending_tail = &pool->pending;
	pool->pending_len = 0;
	return list;
}

struct job *pool_take_late(struct pool *pool)
{
	struct job *list = pool->late;

	pool->late = NULL;
	return list;
}

struct job *pool_take_abandoned(struct pool *pool)
{
	struct job *list = pool->abandoned;

	pool->abandoned = NULL;
	return list;
}

struct job *pool_take_unknown(struct pool *pool)
{
	struct job *job = pool->unknown;

	if (job) {
		pool->unknown = job->next;
		job->next = NULL;
	}
	return job;
}

void pool_drop_key(struct pool *pool, const struct job *job)
{
	struct job **at = &pool->pending;

	while (job->key > 0 && *at) {
		if (!job_same_key(*at, job)) {
			at = &(*at)->next;
			continue;
		}
		job_list_push(&pool->late, pool_take_at(pool, at));
		pool->dropped++;
	}
}

void pool_add_ended(struct pool *pool, struct attempt *a)
{
	if (a->outcome != JOB_OK)
		pool_drop_key(pool, a->job);
	a->next = NULL;
	*pool->ended_tail = a;
	pool->ended_tail = &a->next;
}

struct attempt *pool_take(struct pool *pool)
{
	struct attempt *a = pool->ended;

	if (a) {
		pool->ended = a->next;
		if (!pool->ended)
			pool->ended_tail = &pool->ended;
		a->next = NULL;
	}
	return a;
}
