/* SPDX-License-Identifier: MIT */
/*
 * What becomes of a cycle that was rolled back: what may pass is sent again, what cannot is found and made fit.
 *
 * Attempts whose recording failed together are sent one by one, so that a bad one harms itself only: in cycles that do
 * nothing else and do not wait for locks, each with its own time for the next try. The others go on in between.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE_AGAIN_MAX_MS 1000      /* an attempt set apart is tried again at least so often */
#define ALONE_OVER_NS (5 * NS_PER_S) /* until its lease has surely ended on the server's clock too */
#define TRIES_MAX 12                 /* of a cycle that fails for a passing reason: some 6 s */
#define REFUSED_TRIES 3              /* failed tries after which nothing is claimed until a record succeeds */
#define TELL_AFTER_NS NS_PER_S       /* what passes sooner is nobody's concern */
#define TELL_AGAIN_NS (60 * NS_PER_S)
#define TELL_SAME_NS (4 * NS_PER_S) /* tries are no further apart; what needs no room may pass in between */

/* What the attempt says of itself cannot be stored: keep the fact. */
static void replace_texts(struct attempt *a, const char *why)
{
	char text[600];

	snprintf(text, sizeof(text), "the outcome (%s) could not be recorded as it was: %s",
		 job_outcome_text(a->outcome), why);
	attempt_set_error(a, text);
	free(a->result);
	a->result = NULL;
	a->result_len = 0;
	attempt_drop_follow(a);
	a->retry_after_ms = -1;
	a->replaced = true;
}

/* An attempt that was sent alone was refused for good. Returns false when nothing is left to try. */
static bool mend(struct worker *w, struct attempt *bad, const struct deferred_error *err)
{
	char text[600];

	if (bad->follow && bad->outcome == JOB_OK) {
		/* What it wanted to have deferred was refused: then it has not succeeded. */
		snprintf(text, sizeof(text), "a call it deferred was refused: %s", err->message);
		attempt_drop_follow(bad);
		bad->outcome = JOB_FAILED;
		attempt_set_error(bad, text);
	} else if (!bad->replaced) {
		replace_texts(bad, err->message);
	} else {
		return false;
	}
	worker_decide(w, bad);
	worker_log_attempt(w, bad);
	return true;
}

struct failure {
	struct worker *w;
	bool passing;
	const struct deferred_error *err;
	uint64_t now;
	char by[320]; /* ": held by ..." */
};

static enum ledger_state take_id(void *data, struct job *job)
{
	int64_t *id = data;

	if (job->ended->tries == 0)
		*id = job->id;
	return LEDGER_RECORDING;
}

/* Once for each that waits: who keeps it waiting? */
static void find_holders(struct worker *w, struct failure *f)
{
	struct store_holders holders;
	int64_t id = 0;

	ledger_each(&w->ledger, LEDGER_RECORDING, take_id, &id);
	if (id != 0 && store_holders(w->pg, &id, 1, &holders, NULL) == 0 && holders.text[0])
		snprintf(f->by, sizeof(f->by), ": held by %s", holders.text);
}

/* So was that of an attempt set apart. What may pass is waited for: once the lease has ended, the server refuses the
 * result. */
static enum ledger_state failed_alone(void *data, struct job *job)
{
	const struct failure *f = data;
	struct attempt *a = job->ended;
	uint64_t ms = a->tries < 7 ? 10u << a->tries : ALONE_AGAIN_MAX_MS;

	if (f->passing && f->now < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS + ALONE_OVER_NS) {
		if (a->tries++ == 0)
			log_job(LOG_L_WARNING, job,
				"job %lld %s attempt %d: its result (%s) waits to be recorded: %s%s",
				(long long)job->id, job->fn, job->attempt, job_outcome_text(a->outcome),
				f->err->message, f->by);
		a->again_ns = f->now + ms * NS_PER_MS;
	} else if (f->passing || !mend(f->w, a, f->err)) {
		log_job(LOG_L_ERROR, job, "job %lld: the attempt cannot be recorded, it will count as lost: %s",
			(long long)job->id, f->err->message);
		ledger_abandon(&f->w->ledger, job->receipt);
		return LEDGER_NONE;
	}
	return LEDGER_APART;
}

/* A service outlasts a full disk as it outlasts a server that is away: once it is plain that this takes longer, and
 * once a minute. */
static void tell_refused(struct worker *w, const struct deferred_error *err, uint64_t now)
{
	struct store_holders holders = { "" };

	if (now - w->refused_last_ns > TELL_SAME_NS) {
		w->refused_ns = now;
		w->refused_told_ns = 0;
	}
	w->refused_last_ns = now;
	if (now - w->refused_ns < TELL_AFTER_NS || (w->refused_told_ns && now - w->refused_told_ns < TELL_AGAIN_NS))
		return;
	w->refused_told_ns = now;
	if (strcmp(err->sqlstate, "55P03") == 0)
		store_holders(w->pg, NULL, 0, &holders, NULL);
	log_line(LOG_L_WARNING, "the server refuses what is sent to it: %s%s%s; trying again", err->message,
		 holders.text[0] ? ": held by " : "", holders.text);
}

/* Until something can be recorded, what else is run would be run twice. */
static void stop_running(struct worker *w, bool locked)
{
	struct store_holders holders = { "" };

	/* A locked row concerns one job, a locked table all of them. */
	if (locked)
		store_holders(w->pg, NULL, 0, &holders, NULL);
	if (w->unrecordable || (locked ? !holders.text[0] : w->tries < REFUSED_TRIES))
		return;
	w->unrecordable = true;
	pool_add(&w->pool, pool_recall(&w->pool));
}

/* The cycle was rolled back. Try again what may pass, set apart what cannot. */
int worker_cycle_failed(struct worker *w, struct deferred_error *err, uint64_t now)
{
	enum error_class class = error_class(err->sqlstate);
	bool locked = strcmp(err->sqlstate, "55P03") == 0, set_apart = w->alone;
	bool in_hand =
		w->ledger.n[LEDGER_APART] > 0 || pool_load(&w->pool) > 0; /* results that would be lost with us */
	bool records = w->ledger.n[LEDGER_RECORDING] > 0;
	struct failure failure = { w, class == ERROR_TRANSIENT, err, now, "" };

	if (err->code == DEFERRED_ELOST || class == ERROR_CONNECTION || class == ERROR_READ_ONLY) {
		w->idle.keeping = false;
		worker_lose_connection(w, err, now);
		error_clear(err);
		return 0;
	}
	if (w->idle.keeping && class == ERROR_PREPARED) {
		w->idle.keeping = false;
		w->idle.keep_ns = 0; /* again, at once */
	}
	if (w->idle.keeping && err->code != DEFERRED_ESCHEMA) {
		worker_idle_keep_failed(w, err);
		store_cycle_clear(&w->cycle);
		w->db = DB_READY;
		error_clear(err);
		return 0;
	}
	if (class == ERROR_PREPARED && !pg_is_unnamed(w->pg)) {
		pg_set_unnamed(w->pg);
	} else if (err->code == DEFERRED_ESCHEMA) {
		return err->code;
	} else if (w->alone) {
		if (locked) {
			find_holders(w, &failure);
			stop_running(w, locked);
		}
		ledger_each(&w->ledger, LEDGER_RECORDING, failed_alone, &failure);
	} else if (class == ERROR_TRANSIENT && (w->tries < TRIES_MAX || locked || (!records && (in_hand || w->loop)))) {
		w->retry_ns = now + (w->tries < 7 ? 10u << w->tries : 1000u) * NS_PER_MS;
		tell_refused(w, err, now);
		w->tries++;
		if (records)
			stop_running(w, locked);
		/* Somebody holds the row of one of them, for longer than another worker's claim does: it must not keep
		 * the others waiting. */
		set_apart = locked;
	} else if (!records) {
		return err->code;
	} else {
		set_apart = true;
	}
	worker_take_back(w, set_apart ? LEDGER_APART : LEDGER_ENDED);
	plan_again(&w->plan); /* whatever the cycle asked was not answered */
	w->db = DB_READY;
	error_clear(err);
	return 0;
}
