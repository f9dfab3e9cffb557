/* SPDX-License-Identifier: MIT */
/* What the log is told of an attempt. */
#include "engine/state.h"

#include "base/clock.h"
#include "base/text/gist.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAY_AGAIN_NS (3600 * NS_PER_S) /* what is missing here is said so often by who runs for long */

/* All jobs of a function may want what is missing: of the same words the first is heard. */
static bool is_said(struct worker *w, const char *text, uint64_t now)
{
	for (size_t i = 0; i < w->said_len; i++) {
		bool lately = now < w->said[i].again_ns;

		if (strcmp(w->said[i].text, text) != 0)
			continue;
		if (!lately)
			w->said[i].again_ns = now + SAY_AGAIN_NS;
		return lately;
	}
	if (w->said_len < SAID_MAX && (w->said[w->said_len].text = strdup(text)))
		w->said[w->said_len++].again_ns = now + SAY_AGAIN_NS;
	return false;
}

void worker_forget_said(struct worker *w)
{
	while (w->said_len > 0)
		free(w->said[--w->said_len].text);
}

static void log_unready(struct worker *w, const struct attempt *a)
{
	const struct job *job = a->job;
	const char *text = a->error ? a->error : "";

	log_line(is_said(w, text, clock_ns()) ? LOG_L_DEBUG : LOG_L_WARNING,
		 "job %lld %s: cannot run on this host: %.*s; not counted as an attempt; retrying in %.1f s",
		 (long long)job->id, job->fn, (int)strcspn(text, "\n"), text, (double)a->delay_ms / 1000);
}

/* A job that each start cuts off begins again with each start. Only the crontab line can change that. */
static void log_cut_off(struct worker *w, const struct job *job)
{
	int64_t limit_ms = pool_limit_ms(&w->pool, job),
		gap_ms = (int64_t)((w->successor_ns - w->setup->started_ns) / NS_PER_MS);
	char may[64] = "has no time limit", text[512];

	if (!w->successor_ns || (limit_ms > 0 && limit_ms <= gap_ms))
		return;
	if (limit_ms > 0)
		snprintf(may, sizeof(may), "may take %.1f s", (double)limit_ms / 1000);
	snprintf(text, sizeof(text),
		 "function '%s' %s, but the next start came after %.1f s and ended it: it may never come to its end",
		 job->fn, may, (double)gap_ms / 1000);
	if (!is_said(w, text, w->successor_ns))
		log_line(LOG_L_WARNING,
			 "%s; hint: add --if-running=skip to the crontab line, start less often, set a shorter "
			 "timeout, or run a service%s",
			 text, w->setup->who);
}

void worker_log_attempt(struct worker *w, const struct attempt *a)
{
	const struct job *job = a->job;
	const char *error = a->error ? a->error : "";
	int len = (int)strcspn(error, "\n");
	const struct log_attempt fields = {
		.queue = job->queue,
		.fn = job->fn,
		.outcome = job_outcome_text(a->outcome),
		.traceparent = job->traceparent,
		.job = job->id,
		.attempt = job->attempt,
		.final = a->final,
		.wait_ms = (job->wait_us + (int64_t)((a->started_ns - job->claimed_ns) / 1000)) / 1000,
		.run_ms = (int64_t)((a->finished_ns - a->started_ns) / NS_PER_MS),
		.retry_ms = a->final ? -1 : a->delay_ms,
	};

	/* Of a crash we wrote the first line ourselves; what follows is how it came to it. */
	if (a->outcome == JOB_FAILED || a->outcome == JOB_CANCELLED || a->outcome == JOB_SNOOZED)
		error = gist(error, &len);

	if (a->outcome == JOB_OK) {
		log_attempt(LOG_L_DEBUG, &fields, "job %lld %s attempt %d: ok in %.3f ms", (long long)job->id, job->fn,
			    job->attempt, (double)(a->finished_ns - a->started_ns) / 1e6);
		return;
	}
	if (a->unready && a->outcome == JOB_FAILED && !a->final)
		log_unready(w, a);
	else if (a->outcome == JOB_CANCELLED)
		log_job(LOG_L_INFO, job, "job %lld %s attempt %d: cancelled by its function: %.*s", (long long)job->id,
			job->fn, job->attempt, len, error);
	else if (a->outcome == JOB_SNOOZED)
		log_job(LOG_L_DEBUG, job,
			"job %lld %s attempt %d: snoozed: %.*s; not counted as an attempt; retrying in %.1f s",
			(long long)job->id, job->fn, job->attempt, len, error, (double)a->delay_ms / 1000);
	else if (a->final)
		log_attempt(LOG_L_WARNING, &fields, "job %lld %s attempt %d: %s: %.*s; dead", (long long)job->id,
			    job->fn, job->attempt, job_outcome_text(a->outcome), len, error);
	else
		log_attempt(LOG_L_WARNING, &fields, "job %lld %s attempt %d: %s: %.*s; retrying in %.1f s",
			    (long long)job->id, job->fn, job->attempt, job_outcome_text(a->outcome), len, error,
			    (double)a->delay_ms / 1000);
	if (a->outcome == JOB_SUPERSEDED)
		log_cut_off(w, job);
}
