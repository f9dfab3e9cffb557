/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <signal.h>
#include <stdlib.h>

#define RENEW_MAX_NS (5 * NS_PER_S) /* so a cancelled job is noticed soon */

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

struct find_oldest {
	const struct worker *w;
	struct worker_oldest o;
};

/* Only a lease that was to be renewed, and was not, waits for the next try: a younger one may be the shorter one. */
static void find_oldest(void *data, struct job *job)
{
	struct find_oldest *f = data;
	uint64_t renew_ns = job->lease_ns + renew_after_ns(job->lease_ms);

	if (job->gone)
		return; /* there is no lease to be kept, or given up */
	if (job->lease_ns < f->w->renewal_ns && renew_ns < f->w->renew_ns)
		renew_ns = f->w->renew_ns;
	if (renew_ns < f->o.renew_ns)
		f->o.renew_ns = renew_ns;
	if (job->lease_ns + fence_after_ns(job->granted_ms) < f->o.fence_ns)
		f->o.fence_ns = job->lease_ns + fence_after_ns(job->granted_ms);
	f->o.n++;
}

/* Queues may have leases of their own, so the oldest need not be the first to end. n = 0: we hold none. */
struct worker_oldest worker_oldest_lease(const struct worker *w)
{
	struct find_oldest f = { w, { UINT64_MAX, UINT64_MAX, 0 } };

	pool_each_job(&w->pool, find_oldest, &f);
	return f.o;
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

bool worker_lease_is_over(const struct job *job, uint64_t now)
{
	return now >= job->lease_ns + fence_after_ns(job->granted_ms);
}

/* Of what is not begun, that whose lease is about to end is given back, and what is not ours any more forgotten. */
static void sort_out_unstarted(struct worker *w, uint64_t now)
{
	struct job *jobs = pool_recall(&w->pool), *kept = NULL, **tail = &kept;

	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		if (job->gone) {
			ledger_left(&w->ledger, job->receipt);
			free(job);
		} else if (worker_lease_is_over(job, now)) {
			ledger_return(&w->ledger, job);
		} else {
			*tail = job;
			tail = &job->next;
		}
	}
	*tail = NULL;
	pool_add(&w->pool, kept);
}

/*
 * The server has not confirmed a lease in time, or this process was stopped: the job must not go on, for somebody else
 * may start it. Runs before anything else is done after a wake-up. Jobs whose leases are good are left alone: it may be
 * one row that somebody has locked.
 */
void worker_fence(struct worker *w, uint64_t now)
{
	static const char text[] = "the lease could not be renewed in time";
	struct worker_oldest o = worker_oldest_lease(w);
	bool hit = o.n > 0 && now >= o.fence_ns;
	struct collect_jobs c;

	if (hit && !w->fenced)
		log_line(LOG_L_ERROR, "leases could not be renewed in time: functions that run under them are killed, "
				      "the rest is given back");
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
		if (worker_lease_is_over(c.jobs[i], now))
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
		log_job(LOG_L_INFO, job, "job %lld %s attempt %d: cancelled; it is to stop", (long long)job->id,
			job->fn, job->attempt);
	else if (job->gone == JOB_GONE_TAKEN)
		log_job(LOG_L_WARNING, job, "job %lld %s attempt %d: taken by another worker; stopped here",
			(long long)job->id, job->fn, job->attempt);
}

static void take_lease(void *data, struct job *job)
{
	struct leases *leases = data;
	const struct store_lease *l = store_cycle_lease(&leases->w->cycle, job);

	if (!l || job->gone)
		return;
	if (l->gone != JOB_HELD) {
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

struct collect_receipts {
	struct store_ids *receipts;
	bool ok;
};

static void add_receipt(void *data, struct job *job)
{
	struct collect_receipts *c = data;
	const struct store_ids *r = c->receipts;

	if (r->len == 0 || r->id[r->len - 1] != job->receipt) /* those of a batch come one after the other */
		c->ok &= store_ids_add(c->receipts, job->receipt);
}

/* All but those of the attempts that are being recorded. An abandoned lease stays held: a job of it may still run. */
bool worker_held_receipts(const struct worker *w, struct store_ids *receipts)
{
	struct collect_receipts c = { receipts, true };

	pool_each_job(&w->pool, add_receipt, &c);
	for (struct job *job = w->ledger.first; job; job = job->next)
		if (job->ledger != LEDGER_RECORDING)
			add_receipt(&c, job);
	for (size_t i = 0; i < w->ledger.abandoned.len; i++)
		c.ok &= store_ids_add(receipts, w->ledger.abandoned.id[i]);
	store_ids_sort(receipts);
	return c.ok;
}
