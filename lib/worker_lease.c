/* SPDX-License-Identifier: MIT */
#include "worker_state.h"

#include "clock.h"
#include "log.h"

#include <signal.h>
#include <stdlib.h>

#define RENEW_MAX_NS (5 * NS_PER_S)    /* so a cancelled job is noticed soon */

static uint64_t renew_after_ns(int64_t lease_ms)
{
	uint64_t third = (uint64_t)lease_ms * NS_PER_MS / 3;

	return third < RENEW_MAX_NS ? third : RENEW_MAX_NS;
}

static uint64_t fence_after_ns(int64_t lease_ms)
{
	uint64_t lease_ns = (uint64_t)lease_ms * NS_PER_MS, margin = lease_ns / 10;

	return lease_ns - (margin < NS_PER_S ? margin : NS_PER_S);
}

static void find_oldest(void *data, struct job *job)
{
	struct worker_oldest *o = data;

	if (job->lease_ns + renew_after_ns(job->lease_ms) < o->renew_ns)
		o->renew_ns = job->lease_ns + renew_after_ns(job->lease_ms);
	if (job->lease_ns + fence_after_ns(job->lease_ms) < o->fence_ns)
		o->fence_ns = job->lease_ns + fence_after_ns(job->lease_ms);
	o->n++;
}

/* Queues may have leases of their own, so the oldest need not be the first to end. n = 0: we hold none. */
struct worker_oldest worker_oldest_lease(const struct worker *w)
{
	struct worker_oldest o = { UINT64_MAX, UINT64_MAX, 0 };

	pool_each_job(&w->pool, find_oldest, &o);
	return o;
}

static void find_shortest(void *data, struct job *job)
{
	int64_t *ms = data;

	if (job->lease_ms < *ms)
		*ms = job->lease_ms;
}

uint64_t worker_fence_after_ns(const struct worker *w)
{
	int64_t ms = w->lease_ms;

	pool_each_job(&w->pool, find_shortest, &ms);
	return fence_after_ns(ms);
}

/*
 * The server has not confirmed our leases in time, or this process was stopped: what runs must not go on, for
 * somebody else may start it. Runs before anything else is done after a wake-up.
 */
void worker_fence(struct worker *w, uint64_t now)
{
	struct worker_oldest o = worker_oldest_lease(w);
	bool hit = o.n > 0 && now >= o.fence_ns;

	if (hit && !w->fenced)
		log_line(LOG_L_ERROR, "leases could not be renewed in time: running functions are killed, the rest is given back");
	w->fenced = hit;
	if (!hit)
		return;
	pool_kill(&w->pool, 0, SIGKILL, JOB_INTERRUPTED, "the lease could not be renewed in time");
	worker_give_back_unstarted(w);
	/* Results in hand are still sent: the server refuses those that are too late. */
}

struct collect_jobs {
	struct job **jobs;
	size_t n, max;
};

static void add_job(void *data, struct job *job)
{
	struct collect_jobs *c = data;

	if (c->n < c->max)
		c->jobs[c->n++] = job;
}

static void mark_renewed(void *data, struct job *job)
{
	struct worker *w = data;

	if (store_ids_have(&w->cycle.renewed, job->id))
		job->lease_ns = w->cycle.sent_ns;
}

static bool lost(const struct worker *w, const struct job *job)
{
	return store_ids_have(&w->renewing, job->id) && !store_ids_have(&w->cycle.ours, job->id);
}

/* Jobs asked about and not found with our receipt are no longer ours: somebody cancelled or took them. */
void worker_after_renewal(struct worker *w)
{
	struct job *jobs, *kept = NULL, **tail = &kept;

	pool_each_job(&w->pool, mark_renewed, w);
	if (w->renewing.len == w->cycle.ours.len)
		return;
	for (jobs = pool_recall(&w->pool); jobs;) {
		struct job *job = jobs;

		jobs = job->next;
		if (lost(w, job)) {
			free(job);
			continue;
		}
		*tail = job;
		tail = &job->next;
	}
	*tail = NULL;
	pool_add(&w->pool, kept);
	for (size_t i = 0; i < w->renewing.len; i++)
		if (!store_ids_have(&w->cycle.ours, w->renewing.id[i])) {
			log_line(LOG_L_WARNING, "job %lld: cancelled, or taken by another worker; stopped here", (long long)w->renewing.id[i]);
			pool_kill(&w->pool, w->renewing.id[i], SIGKILL, JOB_LOST, "cancelled");
		}
}

int worker_add_renewal(struct worker *w, struct deferred_error *err)
{
	struct collect_jobs c = { NULL, 0, pool_load(&w->pool) };
	int rc;

	c.jobs = malloc((c.max + 1) * sizeof(*c.jobs));
	if (!c.jobs)
		return error_set(err, DEFERRED_ENOMEM, "renew", "out of memory");
	pool_each_job(&w->pool, add_job, &c);
	w->renewing.len = 0;
	for (size_t i = 0; i < c.n; i++)
		store_ids_add(&w->renewing, c.jobs[i]->id);
	store_ids_sort(&w->renewing);
	rc = c.n == 0 ? 0 : store_cycle_renew(&w->cycle, c.jobs, c.n, err);
	free(c.jobs);
	return rc;
}

struct collect_ids {
	int64_t *ids;
	size_t n;
};

static void add_id(void *data, struct job *job)
{
	struct collect_ids *c = data;

	c->ids[c->n++] = job->id;
}

int64_t *worker_held_ids(const struct worker *w, size_t *n)
{
	struct collect_ids c = { malloc((pool_load(&w->pool) + w->unrecorded.len + job_list_len(w->release) + 1) * sizeof(int64_t)), 0 };

	*n = 0;
	if (!c.ids)
		return NULL;
	pool_each_job(&w->pool, add_id, &c);
	for (const struct attempt *a = w->unrecorded.first; a; a = a->next)
		c.ids[c.n++] = a->job->id;
	for (const struct job *job = w->release; job; job = job->next)
		c.ids[c.n++] = job->id;
	*n = c.n;
	return c.ids;
}
