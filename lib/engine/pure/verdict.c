/* SPDX-License-Identifier: MIT */
#include "verdict.h"

#include "base/random.h"

static int64_t delay_ms(const struct retry_policy *policy, int failures, uint64_t *random)
{
	return retry_jitter_ms(retry_delay_ms(policy, failures), random_next(random));
}

/* As the job wishes. A floor above the usual ceiling raises the ceiling. A ceiling below the usual floor lowers the
 * floor. */
static int64_t backoff_ms(const struct retry_policy *usual, const struct job *job, int failures, uint64_t *random)
{
	struct retry_policy p = *usual;

	if (job->backoff_floor_ms > 0)
		p.floor_ms = job->backoff_floor_ms;
	if (job->backoff_ceiling_ms > 0)
		p.ceiling_ms = job->backoff_ceiling_ms;
	if (job->backoff_exponent > 0)
		p.exponent = job->backoff_exponent;
	if (p.ceiling_ms < p.floor_ms && job->backoff_ceiling_ms > 0)
		p.floor_ms = p.ceiling_ms;
	else if (p.ceiling_ms < p.floor_ms)
		p.ceiling_ms = p.floor_ms;
	return delay_ms(&p, failures, random);
}

/* As it wishes, but not at once: nothing counts these attempts, so one that never tires of it would keep a runner for
 * itself. */
static int64_t snooze_ms(const struct attempt *a, const struct verdict_in *in, uint64_t *random)
{
	if (a->retry_after_ms < 0)
		return backoff_ms(&in->backoff, a->job, a->job->attempt, random);
	return a->retry_after_ms < VERDICT_SNOOZE_MIN_MS ? VERDICT_SNOOZE_MIN_MS : a->retry_after_ms;
}

static int64_t due_again_ms(const struct attempt *a, const struct verdict_in *in, uint64_t *random)
{
	const struct job *job = a->job;

	if (a->final || a->outcome == JOB_INTERRUPTED || a->outcome == JOB_SUPERSEDED)
		return 0;
	/* The job is not at fault, so its own settings do not apply. The delay grows, though none of these attempts
	 * counts. */
	if (a->unready)
		return delay_ms(&in->backoff, job->attempt, random);
	if (a->outcome == JOB_SNOOZED)
		return snooze_ms(a, in, random);
	return a->retry_after_ms >= 0 ? a->retry_after_ms
				      : backoff_ms(&in->backoff, job, job->attempt - job->attempt_base, random);
}

void verdict(struct attempt *a, const struct verdict_in *in, uint64_t *random)
{
	const struct job *job = a->job;
	int max = job->max_attempts > 0 ? job->max_attempts : in->max_attempts;

	/* A function that came to an end because it was asked to has not failed. */
	if (in->stopping && a->outcome == JOB_FAILED && !a->dead && a->retry_after_ms < 0)
		a->outcome = in->stop_outcome;
	/* Cut off by us. One whose runner was in disorder is called so too: that may be the function's doing, and
	 * counts. One that moved on does not, for a function with progress_resets. */
	a->counts = !job->moved_on && !a->unready && a->outcome != JOB_SNOOZED && a->outcome != JOB_SUPERSEDED &&
		    !a->shared &&
		    !(a->outcome == JOB_INTERRUPTED && (in->stopping || in->fenced));
	a->suspect = a->shared && !in->stopping && !in->fenced;
	a->final = a->outcome == JOB_OK || a->outcome == JOB_CANCELLED || a->dead ||
		   (a->counts && job->attempt - job->attempt_base >= max);
	a->delay_ms = due_again_ms(a, in, random);
}
