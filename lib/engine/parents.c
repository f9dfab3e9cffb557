/* SPDX-License-Identifier: MIT */
/*
 * Jobs that waited for others are told how those ended before they begin. It is asked in the cycle behind the one that
 * claimed them, so that a claim, which keeps others out of its lanes, is as short as ever. That takes a round trip;
 * where it takes so long that a lease is about to end, the job is given back.
 */
#include "engine/state.h"

#include "base/clock.h"

#include <stdlib.h>

struct job *worker_sort_out_children(struct worker *w, struct job *jobs)
{
	struct job *others = NULL, **tail = &others;

	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		job->next = NULL;
		if (job->asks) {
			ledger_child(&w->ledger, job);
		} else {
			*tail = job;
			tail = &job->next;
		}
	}
	return others;
}

int worker_add_parents(struct worker *w, struct deferred_error *err)
{
	size_t n;
	struct job **jobs = ledger_jobs(&w->ledger, LEDGER_ASKING, &n);
	int rc = jobs ? 0 : error_set(err, DEFERRED_ENOMEM, "parents", "out of memory");

	if (rc == 0 && n > 0)
		rc = store_cycle_parents(&w->cycle, jobs, n, err);
	free(jobs);
	return rc;
}

/* Its answer is there. NULL: no memory to keep it. */
static struct job *told(struct job *job, const struct store_parents *parents)
{
	return parents->text ? job_add_parents(job, parents->text, parents->len) : job;
}

/* Where the worker stops they are given back behind this, as all that has not begun. */
void worker_after_parents(struct worker *w)
{
	struct job *jobs = ledger_take(&w->ledger, LEDGER_ASKING), *ready = NULL, **tail = &ready;
	uint64_t now = clock_ns();

	for (size_t i = 0; jobs; i++) {
		struct job *job = jobs, *bigger = NULL;
		bool answered = i < w->cycle.parents_len, late = worker_lease_is_over(job, now);

		jobs = job->next;
		job->next = NULL;
		if (answered && !late)
			bigger = told(job, &w->cycle.parents[i]);
		if (bigger) {
			*tail = bigger;
			tail = &bigger->next;
		} else if (answered || late) {
			ledger_return(&w->ledger, job);
		} else {
			ledger_child(&w->ledger, job);
		}
	}
	worker_begin(w, ready);
}
