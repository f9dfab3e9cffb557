/* SPDX-License-Identifier: MIT */
/* What became of jobs, into the database and back: recorded, refused, given back, their leases given up. */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

#define RETURN_AGAIN_NS (500 * NS_PER_MS) /* a job to be given back whose row somebody has locked is tried so often */

static int out_of_memory(struct deferred_error *err)
{
	return error_set(err, DEFERRED_ENOMEM, "record", "out of memory");
}

/* ---- added to the cycle -------------------------------------------------------------------------- */

/* Sorts those that leave the queue before the others; returns how many they are. */
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

int worker_add_records(struct worker *w, struct deferred_error *err)
{
	size_t n, final;
	struct attempt **a = ledger_attempts(&w->ledger, LEDGER_RECORDING, &n);
	int rc = a ? 0 : out_of_memory(err);

	w->plan.adds = false;
	for (size_t i = 0; rc == 0 && i < n; i++) {
		w->plan.adds |= !a[i]->final && a[i]->delay_ms == 0;
		if (a[i]->follow && a[i]->outcome == JOB_OK) {
			w->plan.adds = true;
			rc = store_cycle_follow(&w->cycle, a[i], err);
		}
	}
	final = final_first(a, n);
	if (rc == 0 && final > 0)
		rc = store_cycle_record(&w->cycle, a, final, true, err);
	if (rc == 0 && n > final)
		rc = store_cycle_record(&w->cycle, a + final, n - final, false, err);
	free(a);
	return rc == 0 && n > 0 ? worker_end_progress(w, err) : rc;
}

/* Leases go with what was in hand of them last. */
int worker_add_close(struct worker *w, struct deferred_error *err)
{
	struct store_ids held = { 0 };
	struct attempt **a;
	size_t n;
	int rc = 0;

	a = ledger_attempts(&w->ledger, LEDGER_RECORDING, &n);
	for (size_t i = 0; i < n; i++)
		ledger_left(&w->ledger, a[i]->job->receipt);
	free(a);
	w->ledger.closed.len = 0;
	if (w->ledger.closing.len > 0 && worker_held_receipts(w, &held))
		ledger_close(&w->ledger, &held);
	if (w->ledger.closed.len > 0)
		rc = store_cycle_close(&w->cycle, w->ledger.closed.id, w->ledger.closed.len, err);
	free(held.id);
	return rc;
}

/* Why were these refused? */
int worker_add_outcomes(struct worker *w, struct deferred_error *err)
{
	size_t n;
	struct attempt **a = ledger_attempts(&w->ledger, LEDGER_REFUSED, &n);
	int rc = !a ? out_of_memory(err) : n > 0 ? store_cycle_outcomes(&w->cycle, a, n, err) : 0;

	free(a);
	return rc;
}

/* Jobs given back: others may be asleep, and we do not take them, at least not at once. */
static int wake_others(struct worker *w, struct job *const *jobs, size_t n, struct deferred_error *err)
{
	int64_t *ids = malloc((n + 1) * sizeof(*ids));
	int rc;

	if (!ids)
		return out_of_memory(err);
	for (size_t i = 0; i < n; i++)
		ids[i] = jobs[i]->id;
	rc = store_cycle_wake(&w->cycle, ids, n, err);
	free(ids);
	return rc;
}

int worker_add_returns(struct worker *w, struct deferred_error *err)
{
	size_t n;
	struct job **jobs = ledger_jobs(&w->ledger, LEDGER_RETURNING, &n);
	int rc = jobs ? 0 : out_of_memory(err);

	if (rc == 0 && n > 0)
		rc = store_cycle_release(&w->cycle, jobs, n, err);
	if (rc == 0 && n > 0)
		rc = wake_others(w, jobs, n, err);
	free(jobs);
	return rc;
}

bool worker_waits_to_record(const struct worker *w)
{
	return w->unrecordable && w->ledger.n[LEDGER_ENDED] + w->ledger.n[LEDGER_APART] > 0;
}

/* ---- when it is committed ------------------------------------------------------------------------ */

static void report_refused(struct worker *w, const struct attempt *a)
{
	log_job(LOG_L_WARNING, a->job, "job %lld %s attempt %d: result (%s) refused: the lease had ended",
		(long long)a->job->id, a->job->fn, a->job->attempt, job_outcome_text(a->outcome));
	w->sum.refused++;
	w->delayed.lost_ns = 0; /* it may have ended long ago, where the server's clock was set */
}

/* Into the summary, and of crashes for the breaker. */
static void count(struct worker *w, const struct attempt *a)
{
	if (a->unready && a->outcome == JOB_FAILED && !a->final) {
		w->sum.unready++;
		return;
	}
	w->sum.attempts++;
	if (a->outcome == JOB_CRASHED)
		worker_note_crash(w, a->job->fn);
	if (a->outcome == JOB_OK)
		w->sum.ok++;
	else if (a->outcome == JOB_CANCELLED)
		w->sum.cancelled++;
	else if (a->outcome == JOB_SNOOZED)
		w->sum.snoozed++;
	else if (a->final)
		w->sum.dead++;
	else
		w->sum.retried++;
}

/* The files of a mail go when its success is in the database. */
static void remove_files(struct worker *w, const struct attempt *a)
{
	for (const struct runner_path *p = a->remove; p && a->outcome == JOB_OK; p = p->next)
		if (!pool_remove_file(&w->pool, p->path))
			log_job(LOG_L_WARNING, a->job, "job %lld %s: file '%s' stays: no runner left to remove it",
				(long long)a->job->id, a->job->fn, p->path);
}

void worker_settle(struct worker *w, struct attempt *a, int outcome)
{
	if (outcome == JOB_CANCELLED && a->outcome != JOB_CANCELLED) {
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: was cancelled before its result (%s) was recorded",
			(long long)a->job->id, a->job->fn, a->job->attempt, job_outcome_text(a->outcome));
		w->sum.refused++;
		return;
	}
	if (outcome != JOB_OK && outcome != (int)a->outcome) {
		report_refused(w, a);
		return;
	}
	if (a->outcome != JOB_OK && outcome == JOB_OK)
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: had recorded its success itself",
			(long long)a->job->id, a->job->fn, a->job->attempt);
	if (a->follow && outcome == JOB_OK && a->refused)
		log_job(LOG_L_ERROR, a->job,
			"job %lld %s attempt %d: calls it handed to host->defer are lost, for it recorded its success "
			"itself",
			(long long)a->job->id, a->job->fn, a->job->attempt);
	a->outcome = (enum job_outcome)outcome;
	count(w, a);
	remove_files(w, a);
}

struct answers {
	struct worker *w;
	size_t n; /* of the outcomes asked for, taken */
};

/* The log knows, or does not, why it was refused. */
static enum ledger_state take_outcome(void *data, struct job *job)
{
	struct answers *answers = data;

	worker_settle(answers->w, job->ended, answers->w->cycle.outcomes[answers->n++]);
	return LEDGER_NONE;
}

static enum ledger_state take_record(void *data, struct job *job)
{
	struct worker *w = data;

	if (!store_ids_have(&w->cycle.recorded, job->id)) {
		job->ended->refused = !job->ended->resent;
		return LEDGER_REFUSED;
	}
	count(w, job->ended);
	remove_files(w, job->ended);
	return LEDGER_NONE;
}

/* One whose row somebody has locked stays to be given back, until the end of its lease does it. */
static enum ledger_state take_return(void *data, struct job *job)
{
	struct worker *w = data;
	bool locked = store_ids_have(&w->cycle.locked, job->id);

	if (locked && w->cycle.sent_ns < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS) {
		job->release_ns = w->cycle.sent_ns + RETURN_AGAIN_NS;
		return LEDGER_RETURNED;
	}
	if (locked)
		log_job(LOG_L_WARNING, job, "job %lld: not given back before its lease ended: its row is locked",
			(long long)job->id);
	else
		w->sum.released++;
	w->charged--;
	ledger_left(&w->ledger, job->receipt);
	return LEDGER_NONE;
}

void worker_after_records(struct worker *w)
{
	struct answers answers = { w, 0 };
	struct store_ids held = { 0 };

	if (w->ledger.n[LEDGER_RECORDING] > 0)
		w->unrecordable = false;
	if (w->cycle.outcomes)
		ledger_each(&w->ledger, LEDGER_REFUSED, take_outcome, &answers);
	ledger_each(&w->ledger, LEDGER_RECORDING, take_record, w);
	ledger_each(&w->ledger, LEDGER_RETURNING, take_return, w);
	ledger_closed(&w->ledger);
	if (w->begun.used > 0 && worker_held_receipts(w, &held))
		begun_keep(&w->begun, &held);
	free(held.id);
}
