/* SPDX-License-Identifier: MIT */
#include "engine/step/lease.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/pure/term.h"

#include <signal.h>
#include <stdlib.h>

struct find_oldest {
	const struct lease *lease;
	struct lease_oldest o;
};

static void find_oldest(void *data, struct job *job)
{
	struct find_oldest *f = data;
	uint64_t renew_ns = job->lease_ns + term_renew_after_ns(job->lease_ms);
	uint64_t fence_ns = job->lease_ns + term_fence_after_ns(job->granted_ms);

	if (job->gone)
		return; /* there is no lease to renew, or to give up */
	/* Only a lease that a renewal left out waits for the next try. A younger lease may be shorter. */
	if (job->lease_ns < f->lease->renewal_ns && renew_ns < f->lease->renew_ns)
		renew_ns = f->lease->renew_ns;
	if (renew_ns < f->o.renew_ns)
		f->o.renew_ns = renew_ns;
	if (fence_ns < f->o.fence_ns)
		f->o.fence_ns = fence_ns;
	f->o.n++;
}

struct lease_oldest lease_oldest(const struct lease *lease, const struct pool *pool)
{
	struct find_oldest f = { lease, { UINT64_MAX, UINT64_MAX, 0 } };

	pool_each_job(pool, find_oldest, &f);
	return f.o;
}

static void find_shortest(void *data, struct job *job)
{
	int64_t *ms = data;

	if (job->lease_ms < *ms)
		*ms = job->lease_ms;
}

uint64_t lease_shortest_ns(const struct pool *pool, int64_t lease_ms)
{
	pool_each_job(pool, find_shortest, &lease_ms);
	return term_fence_after_ns(lease_ms);
}

struct collect_jobs {
	struct job **jobs;
	size_t n, max;
};

static void collect_job(void *data, struct job *job)
{
	struct collect_jobs *c = data;

	if (c->n < c->max && !job->gone)
		c->jobs[c->n++] = job;
}

/* The jobs in hand that are still ours. jobs is NULL when there is no memory. */
static struct collect_jobs collect_jobs(const struct pool *pool)
{
	size_t max = pool_load(pool);
	struct collect_jobs c = { malloc((max + 1) * sizeof(*c.jobs)), 0, max };

	if (c.jobs)
		pool_each_job(pool, collect_job, &c);
	return c;
}

/* Of the jobs that have not begun, gives back those whose lease is about to end, and forgets those that are gone. */
static void sort_out_unstarted(struct pool *pool, struct ledger *ledger, uint64_t now)
{
	struct job *jobs = pool_recall(pool), *ours = NULL, **tail = &ours;

	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		if (job->gone) {
			ledger_left(ledger, job->receipt);
			free(job);
		} else if (term_is_over(job, now)) {
			ledger_return(ledger, job);
		} else {
			*tail = job;
			tail = &job->next;
		}
	}
	*tail = NULL;
	pool_add(pool, ours);
}

/*
 * The server has not confirmed a lease in time, or this process was stopped. The job must not go on, because another
 * worker may start it. This runs before anything else after a wake-up. Jobs with good leases go on, since a single row
 * may be locked. Results in hand are still sent. The server refuses those that are too late.
 */
bool lease_fence(struct lease *l, struct pool *pool, struct ledger *ledger, uint64_t now)
{
	static const char text[] = "the lease could not be renewed in time";
	struct lease_oldest o = lease_oldest(l, pool);
	bool hit = o.n > 0 && now >= o.fence_ns;
	struct collect_jobs c;

	if (hit && !l->fenced)
		log_line(LOG_L_ERROR, "leases could not be renewed in time: functions that run under them are killed, "
				      "the other jobs are given back");
	l->fenced = hit;
	if (!hit)
		return false;
	sort_out_unstarted(pool, ledger, now);
	c = collect_jobs(pool);
	if (!c.jobs)
		pool_kill(pool, 0, SIGKILL, JOB_INTERRUPTED, text);
	for (size_t i = 0; i < c.n; i++)
		if (term_is_over(c.jobs[i], now))
			pool_kill(pool, c.jobs[i]->id, SIGKILL, JOB_INTERRUPTED, text);
	free(c.jobs);
	return true;
}

void lease_ask_first(struct lease *l)
{
	l->ask_first = true;
}

void lease_asked(struct lease *l)
{
	l->ask_first = false;
}

int lease_add_renewal(struct lease *l, const struct pool *pool, struct store_cycle *cycle, int64_t lease_ms,
		      uint64_t now, struct deferred_error *err)
{
	struct collect_jobs c = collect_jobs(pool);
	int rc;

	l->renewal_ns = now;
	l->renew_ns = now + lease_shortest_ns(pool, lease_ms) / 12;
	if (!c.jobs)
		return error_set(err, DEFERRED_ENOMEM, "renew", "out of memory");
	rc = c.n == 0 ? 0 : store_cycle_renew(cycle, c.jobs, c.n, err);
	free(c.jobs);
	return rc;
}

struct renewal {
	const struct store_cycle *cycle;
	bool gone; /* some jobs are */
};

static void log_gone(const struct job *job)
{
	if (job->gone == JOB_GONE_CANCELLED)
		log_job(LOG_L_INFO, job, "job %lld %s attempt %d: cancelled; it is asked to stop", (long long)job->id,
			job->fn, job->attempt);
	else if (job->gone == JOB_GONE_TAKEN)
		log_job(LOG_L_WARNING, job, "job %lld %s attempt %d: taken by another worker; stopped here",
			(long long)job->id, job->fn, job->attempt);
}

static void update_job(void *data, struct job *job)
{
	struct renewal *renewal = data;
	const struct store_lease *l = store_cycle_lease(renewal->cycle, job);

	if (!l || job->gone)
		return;
	if (l->gone != JOB_HELD) {
		job->gone = l->gone;
		renewal->gone = true;
		log_gone(job);
	} else if (l->left_ms > 0) {
		job->lease_ns = renewal->cycle->sent_ns;
		job->granted_ms = l->left_ms;
	}
}

/* A job that is not ours any more is not begun. A running one is stopped, unless it has recorded its success itself. */
void lease_after_renewal(struct pool *pool, struct ledger *ledger, const struct store_cycle *cycle)
{
	struct renewal renewal = { cycle, false };
	uint64_t now = clock_ns();

	pool_each_job(pool, update_job, &renewal);
	if (!renewal.gone)
		return;
	sort_out_unstarted(pool, ledger, now);
	pool_end_gone(pool, now);
}
