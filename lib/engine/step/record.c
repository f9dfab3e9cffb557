/* SPDX-License-Identifier: MIT */
#include "engine/step/record.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURN_AGAIN_NS (500 * NS_PER_MS) /* how often the return of a job with a locked row is tried */

static int out_of_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, "record", "out of memory");
}

/* ---- added to the cycle -------------------------------------------------------------------------- */

/* Moves attempts whose jobs leave the queue before the others. Returns the number of such attempts. */
static size_t final_first(struct attempt **a, size_t n)
{
	size_t final = 0;

	for (size_t i = 0; i < n; i++)
		if (a[i]->final) {
			struct attempt *other = a[final];

			a[final++] = a[i];
			a[i] = other;
		}
	return final;
}

int record_add(const struct ledger *ledger, struct store_cycle *cycle, bool *adds, struct deferred_error *err)
{
	size_t n, final;
	struct attempt **a = ledger_attempts(ledger, LEDGER_RECORDING, &n);
	int rc = a ? 0 : out_of_memory(err);

	*adds = false;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		*adds |= !a[i]->final && a[i]->delay_ms == 0;
		if (a[i]->follow && a[i]->outcome == JOB_OK) {
			*adds = true;
			rc = store_cycle_follow(cycle, a[i], err);
		}
	}
	final = final_first(a, n);
	if (rc == 0 && final > 0)
		rc = store_cycle_record(cycle, a, final, true, err);
	if (rc == 0 && n > final)
		rc = store_cycle_record(cycle, a + final, n - final, false, err);
	free(a);
	return rc;
}

int record_add_outcomes(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err)
{
	size_t n;
	struct attempt **a = ledger_attempts(ledger, LEDGER_REFUSED, &n);
	int rc = !a ? out_of_memory(err) : n > 0 ? store_cycle_outcomes(cycle, a, n, err) : 0;

	free(a);
	return rc;
}

/* Other workers may be asleep, and this worker does not take these jobs again, at least not at once. */
static int wake_others(struct store_cycle *cycle, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	int64_t *ids = malloc((n + 1) * sizeof(*ids));
	int rc;

	if (!ids)
		return out_of_memory(err);
	for (size_t i = 0; i < n; i++)
		ids[i] = jobs[i]->id;
	rc = store_cycle_wake(cycle, ids, n, err);
	free(ids);
	return rc;
}

int record_add_returns(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err)
{
	size_t n;
	struct job **jobs = ledger_jobs(ledger, LEDGER_RETURNING, &n);
	int rc = jobs ? 0 : out_of_memory(err);

	if (rc == 0 && n > 0)
		rc = store_cycle_release(cycle, jobs, n, err);
	if (rc == 0 && n > 0)
		rc = wake_others(cycle, jobs, n, err);
	free(jobs);
	return rc;
}

bool record_take_crash(struct record *r, struct record_crash *crash)
{
	if (r->crashed_len == 0)
		return false;
	*crash = r->crashed[--r->crashed_len];
	return true;
}

void record_block(struct record *r)
{
	r->blocked = true;
}

bool record_waits(const struct record *r, const struct ledger *ledger)
{
	return r->blocked && ledger->n[LEDGER_ENDED] + ledger->n[LEDGER_SET_ASIDE] > 0;
}

/* ---- when it is committed ------------------------------------------------------------------------ */

static void log_refused(struct record *r, const struct attempt *a)
{
	log_job(LOG_L_WARNING, a->job, "job %lld %s attempt %d: result (%s) refused: the lease had ended",
		(long long)a->job->id, a->job->fn, a->job->attempt, job_outcome_text(a->outcome));
	r->counts.refused++;
}

static void count_crash(struct record *r, const char *fn)
{
	size_t i = 0;

	while (i < r->crashed_len && strcmp(r->crashed[i].fn, fn) != 0)
		i++;
	if (i == RECORD_CRASHED_MAX)
		return;
	if (i == r->crashed_len) {
		snprintf(r->crashed[i].fn, sizeof(r->crashed[i].fn), "%s", fn);
		r->crashed[i].n = 0;
		r->crashed_len++;
	}
	r->crashed[i].n++;
}

static void count_attempt(struct record *r, const struct attempt *a)
{
	if (a->unready && a->outcome == JOB_FAILED && !a->final) {
		r->counts.unready++;
		return;
	}
	r->counts.attempts++;
	if (a->outcome == JOB_CRASHED)
		count_crash(r, a->job->fn);
	if (a->outcome == JOB_OK)
		r->counts.ok++;
	else if (a->outcome == JOB_CANCELLED)
		r->counts.cancelled++;
	else if (a->outcome == JOB_SNOOZED)
		r->counts.snoozed++;
	else if (a->final)
		r->counts.dead++;
	else
		r->counts.retried++;
}

/* The files of a mail are removed when its success is in the database. */
static void remove_files(struct pool *pool, const struct attempt *a)
{
	for (const struct runner_path *p = a->remove; p && a->outcome == JOB_OK; p = p->next)
		if (!pool_remove_file(pool, p->path))
			log_job(LOG_L_WARNING, a->job,
				"job %lld %s: file '%s' stays because no runner is left; hint: delete it",
				(long long)a->job->id, a->job->fn, p->path);
}

bool record_settle(struct record *r, struct pool *pool, struct attempt *a, int outcome)
{
	if (outcome == JOB_CANCELLED && a->outcome != JOB_CANCELLED) {
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: was cancelled before its result (%s) was recorded",
			(long long)a->job->id, a->job->fn, a->job->attempt, job_outcome_text(a->outcome));
		r->counts.refused++;
		return true;
	}
	if (outcome != JOB_OK && outcome != (int)a->outcome) {
		log_refused(r, a);
		return false;
	}
	if (a->outcome != JOB_OK && outcome == JOB_OK)
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: had recorded its success itself",
			(long long)a->job->id, a->job->fn, a->job->attempt);
	if (a->follow && outcome == JOB_OK && a->refused)
		log_job(LOG_L_ERROR, a->job,
			"job %lld %s attempt %d: calls of host->defer are lost because it recorded its success itself; "
			"hint: defer them in that transaction",
			(long long)a->job->id, a->job->fn, a->job->attempt);
	a->outcome = (enum job_outcome)outcome;
	count_attempt(r, a);
	remove_files(pool, a);
	return true;
}

void record_gone(struct record *r, struct pool *pool, struct ledger *ledger, struct attempt *a)
{
	if (a->job->gone == JOB_GONE_FINISHED) {
		a->refused = true;
		record_settle(r, pool, a, JOB_OK);
	} else {
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: %s: it has %s", (long long)a->job->id, a->job->fn,
			a->job->attempt, a->job->gone == JOB_GONE_CANCELLED ? "cancelled" : "taken by another worker",
			a->outcome == JOB_LOST ? "been killed" : "ended");
		r->counts.refused++;
	}
	ledger_left(ledger, a->job->receipt);
	attempt_free(a);
}

struct answers {
	struct record *record;
	struct pool *pool;
	struct ledger *ledger;
	const struct store_cycle *cycle;
	size_t outcomes; /* used */
	struct record_answer answer;
};

/* The cycle has asked for the outcome of a refused attempt. JOB_UNRECORDED: the log has none. */
static enum ledger_state take_outcome(void *data, struct job *job)
{
	struct answers *a = data;

	if (!record_settle(a->record, a->pool, job->ended, a->cycle->outcomes[a->outcomes++]))
		a->answer.lease_ended = true;
	return LEDGER_NONE;
}

static enum ledger_state take_record(void *data, struct job *job)
{
	struct answers *a = data;

	if (!store_ids_have(&a->cycle->recorded, job->id)) {
		job->ended->refused = !job->ended->resent;
		return LEDGER_REFUSED;
	}
	count_attempt(a->record, job->ended);
	remove_files(a->pool, job->ended);
	return LEDGER_NONE;
}

/* A job whose row is locked is given back later, or its lease ends. */
static enum ledger_state take_return(void *data, struct job *job)
{
	struct answers *a = data;
	bool locked = store_ids_have(&a->cycle->locked, job->id);

	if (locked && a->cycle->sent_ns < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS) {
		job->release_ns = a->cycle->sent_ns + RETURN_AGAIN_NS;
		return LEDGER_RETURNED;
	}
	if (locked)
		log_job(LOG_L_WARNING, job, "job %lld: not given back before its lease ended: its row is locked",
			(long long)job->id);
	else
		a->record->counts.released++;
	a->answer.returned++;
	ledger_left(a->ledger, job->receipt);
	return LEDGER_NONE;
}

struct record_answer record_after(struct record *r, struct pool *pool, struct ledger *ledger,
				  const struct store_cycle *cycle)
{
	struct answers answers = { r, pool, ledger, cycle, 0, { 0 } };

	if (ledger->n[LEDGER_RECORDING] > 0)
		r->blocked = false;
	if (cycle->outcomes)
		ledger_each(ledger, LEDGER_REFUSED, take_outcome, &answers);
	ledger_each(ledger, LEDGER_RECORDING, take_record, &answers);
	ledger_each(ledger, LEDGER_RETURNING, take_return, &answers);
	ledger_closed(ledger);
	return answers.answer;
}
