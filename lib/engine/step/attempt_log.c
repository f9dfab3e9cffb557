/* SPDX-License-Identifier: MIT */
#include "engine/step/attempt_log.h"

#include "base/clock.h"
#include "base/text/gist.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS (3600 * NS_PER_S)

void attempt_log_set_up(struct attempt_log *l, const char *who)
{
	l->who = who;
}

void attempt_log_next_start(struct attempt_log *l, uint64_t gap_ns)
{
	if (l->gap_ms == 0)
		l->gap_ms = (int64_t)(gap_ns / NS_PER_MS) + 1;
}

/* All jobs of a function may lack the same thing, so each text is logged once an hour. Returns true if it is time. */
static bool once_an_hour(struct attempt_log *l, const char *text)
{
	uint64_t now = clock_ns();

	for (size_t i = 0; i < l->len; i++) {
		bool again = now >= l->text[i].again_ns;

		if (strcmp(l->text[i].text, text) != 0)
			continue;
		if (again)
			l->text[i].again_ns = now + AGAIN_NS;
		return again;
	}
	if (l->len < ATTEMPT_LOG_TEXTS && (l->text[l->len].text = strdup(text)))
		l->text[l->len++].again_ns = now + AGAIN_NS;
	return true;
}

void attempt_log_forget(struct attempt_log *l)
{
	while (l->len > 0)
		free(l->text[--l->len].text);
}

static void log_unready(struct attempt_log *l, const struct attempt *a)
{
	const struct job *job = a->job;
	const char *text = a->error ? a->error : "";

	log_line(once_an_hour(l, text) ? LOG_L_WARNING : LOG_L_DEBUG,
		 "job %lld %s: cannot run on this host: %.*s; not counted as an attempt; retrying in %.1f s",
		 (long long)job->id, job->fn, (int)strcspn(text, "\n"), text, (double)a->delay_ms / 1000);
}

/* A job that each start cuts off begins again with each start. Only the crontab line can change that. */
static void log_cut_off(struct attempt_log *l, const struct pool *pool, const struct job *job)
{
	int64_t limit_ms = pool_limit_ms(pool, job);
	char may[64] = "has no time limit", text[512];

	if (l->gap_ms == 0 || (limit_ms > 0 && limit_ms <= l->gap_ms))
		return;
	if (limit_ms > 0)
		snprintf(may, sizeof(may), "may take %.1f s", (double)limit_ms / 1000);
	snprintf(text, sizeof(text),
		 "function '%s' %s, but the next start came after %.1f s and ended it: it may never finish",
		 job->fn, may, (double)l->gap_ms / 1000);
	if (once_an_hour(l, text))
		log_line(LOG_L_WARNING,
			 "%s; hint: add --if-running=skip to the crontab line, start less often, set a shorter "
			 "timeout, or run a service%s",
			 text, l->who);
}

void attempt_log_write(struct attempt_log *l, const struct pool *pool, const struct attempt *a)
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

	/* The first line of a crash is ours. The lines behind it say how the crash came about. */
	if (a->outcome == JOB_FAILED || a->outcome == JOB_CANCELLED || a->outcome == JOB_SNOOZED)
		error = gist(error, &len);

	if (a->outcome == JOB_OK) {
		log_attempt(LOG_L_DEBUG, &fields, "job %lld %s attempt %d: ok in %.3f ms", (long long)job->id, job->fn,
			    job->attempt, (double)(a->finished_ns - a->started_ns) / 1e6);
		return;
	}
	if (a->unready && a->outcome == JOB_FAILED && !a->final)
		log_unready(l, a);
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
		log_cut_off(l, pool, job);
}
