/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

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

	if (job->gone)
		return; /* there is no lease to be kept, or given up */
	if (job->lease_ns + renew_after_ns(job->lease_ms) < o->renew_ns)
		o->renew_ns = job->lease_ns + renew_after_ns(job->lease_ms);
	if (job->lease_ns + fence_after_ns(job->granted_ms) < o->fence_ns)
		o->fence_ns = job->lease_ns + fence_after_ns(job->granted_ms);
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

struct collect_jobs {
	struct job **jobs;
	size_t n, max;
};

static void add_job(void *data, struct job *job)
{
	struct collect_jobs *c = data;

	if (c->n < c->max && !job->gone)
		c->jobs[c->n++] = job;
}

static bool is_over(const struct job *job, uint64_t now)
{
	return !job->gone && now >= job->lease_ns + fence_after_ns(job->granted_ms);
}

/* Of what is not begun, that whose lease is about to end is given back, and what is not ours any more forgotten. */
static void sort_out_unstarted(struct worker *w, uint64_t now)
{
	struct job *jobs = pool_recall(&w->pool), *kept = NULL, **tail = &kept;

	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		if (job->gone) {
			free(job);
		} else if (is_over(job, now)) {
			job_list_push(&w->release, job);
		} else {
			*tail = job;
			tail = &job->next;
		}
	}
	*tail = NULL;
	pool_add(&w->pool, kept);
}

/*
 * The server has not confirmed a lease in time, or this process was stopped: the job must not go on, for somebody else may
 * start it. Runs before anything else is done after a wake-up. Jobs whose leases are good are left alone: it may be
 * one row that somebody has locked.
 */
void worker_fence(struct worker *w, uint64_t now)
{
	static const char text[] = "the lease could not be renewed in time";
	struct worker_oldest o = worker_oldest_lease(w);
	bool hit = o.n > 0 && now >= o.fence_ns;
	struct collect_jobs c;

	if (hit && !w->fenced)
		log_line(LOG_L_ERROR, "leases could not be renewed in time: functions that run under them are killed, the rest is given back");
	w->fenced = hit;
	if (!hit)
		return;
	sort_out_unstarted(w, now);
	c = (struct collect_jobs){ malloc((pool_load(&w->pool) + 1) * sizeof(*c.jobs)), 0, pool_load(&w->pool) };
	if (!c.jobs) {
		pool_kill(&w->pool, 0, SIGKILL, JOB_INTERRUPTED, text);
		return;
	}
	pool_each_job(&w->pool, add_job, &c);
	for (size_t i = 0; i < c.n; i++)
		if (is_over(c.jobs[i], now))
			pool_kill(&w->pool, c.jobs[i]->id, SIGKILL, JOB_INTERRUPTED, text);
	free(c.jobs);
	/* Results in hand are still sent: the server refuses those that are too late. */
}

struct leases {
	struct worker *w;
	bool gone; /* some are */
};

static void log_gone(const struct job *job)
{
	if (job->gone == JOB_GONE_CANCELLED)
		log_line(LOG_L_INFO, "job %lld %s attempt %d: cancelled; it is to stop", (long long)job->id, job->fn, job->attempt);
	else if (job->gone == JOB_GONE_TAKEN)
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: taken by another worker; stopped here", (long long)job->id, job->fn,
			 job->attempt);
}

static void take_lease(void *data, struct job *job)
{
	struct leases *leases = data;
	const struct store_lease *l = store_cycle_lease(&leases->w->cycle, job);

	if (!l || job->gone)
		return;
	if (!l->ours) {
		job->gone = l->gone;
		leases->gone = true;
		log_gone(job);
	} else if (l->left_ms > 0) {
		job->lease_ns = leases->w->cycle.sent_ns;
		job->granted_ms = l->left_ms;
	}
}

/* What is not ours any more is not begun. What is being run is stopped, unless it has recorded its success itself. */
void worker_after_renewal(struct worker *w)
{
	struct leases leases = { w, false };
	uint64_t now = clock_ns();

	pool_each_job(&w->pool, take_lease, &leases);
	if (!leases.gone)
		return;
	sort_out_unstarted(w, now);
	pool_end_gone(&w->pool, now);
}

int worker_add_renewal(struct worker *w, struct deferred_error *err)
{
	struct collect_jobs c = { NULL, 0, pool_load(&w->pool) };
	int rc;

	c.jobs = malloc((c.max + 1) * sizeof(*c.jobs));
	if (!c.jobs)
		return error_set(err, DEFERRED_ENOMEM, "renew", "out of memory");
	pool_each_job(&w->pool, add_job, &c);
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
	struct collect_ids c = { malloc((pool_load(&w->pool) + w->unrecorded.len + w->apart.len + job_list_len(w->release) + 1) * sizeof(int64_t)), 0 };

	*n = 0;
	if (!c.ids)
		return NULL;
	pool_each_job(&w->pool, add_id, &c);
	for (const struct attempt *a = w->unrecorded.first; a; a = a->next)
		c.ids[c.n++] = a->job->id;
	for (const struct attempt *a = w->apart.first; a; a = a->next)
		c.ids[c.n++] = a->job->id;
	for (const struct job *job = w->release; job; job = job->next)
		c.ids[c.n++] = job->id;
	*n = c.n;
	return c.ids;
}
