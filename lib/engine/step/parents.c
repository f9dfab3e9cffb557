/* SPDX-License-Identifier: MIT */
/*
 * The cycle after the claim asks for the ends of the parents, and for the steps of earlier attempts. A claim keeps
 * other workers out of its lanes, so it stays short. That takes a round trip. Where a lease is about to end by then,
 * the job is given back.
 */
#include "engine/step/parents.h"

#include "engine/pure/term.h"

#include <stdlib.h>

struct job *parents_take(struct ledger *ledger, struct job *jobs)
{
	struct job *others = NULL, **tail = &others;

	while (jobs) {
		struct job *job = jobs;

		jobs = job->next;
		job->next = NULL;
		if (job->asks) {
			ledger_child(ledger, job);
		} else {
			*tail = job;
			tail = &job->next;
		}
	}
	return others;
}

int parents_add(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err)
{
	size_t n;
	struct job **jobs = ledger_jobs(ledger, LEDGER_ASKING, &n);
	int rc = jobs ? 0 : error_set(err, DEFERRED_ENOMEM, "parents", "out of memory");

	if (rc == 0 && n > 0)
		rc = store_cycle_parents(cycle, jobs, n, err);
	free(jobs);
	return rc;
}

/* A worker that stops gives these jobs back later in this turn, with all that have not begun. */
struct job *parents_after(struct ledger *ledger, const struct store_cycle *cycle, uint64_t now)
{
	struct job *jobs = ledger_take(ledger, LEDGER_ASKING), *ready = NULL, **tail = &ready;

	for (size_t i = 0; jobs; i++) {
		struct job *job = jobs, *bigger = NULL;
		bool answered = i < cycle->parents_len, late = term_is_over(job, now);

		jobs = job->next;
		job->next = NULL;
		if (answered && !late)
			bigger = job_add_answer(job, cycle->parents[i].text, cycle->parents[i].steps);
		if (bigger) {
			*tail = bigger;
			tail = &bigger->next;
		} else if (answered || late) {
			ledger_return(ledger, job);
		} else {
			ledger_child(ledger, job);
		}
	}
	return ready;
}
