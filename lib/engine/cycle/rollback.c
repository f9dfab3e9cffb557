/* SPDX-License-Identifier: MIT */
/*
 * A cycle that may pass is sent again. An attempt that cannot pass is found and made fit.
 *
 * Attempts whose recording failed together are set aside and sent one by one, so that a bad one harms only itself. Such
 * a cycle does nothing else and does not wait for locks. Each attempt has its own time for the next try. The other
 * attempts go on in between.
 */
#include "engine/cycle/rollback.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/step/hand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SINGLE_AGAIN_MAX_MS 1000      /* an attempt that was set aside is tried at least this often, */
#define SINGLE_OVER_NS (5 * NS_PER_S) /* until its lease has surely ended on the server's clock too */
#define TRIES_MAX 12                  /* of a cycle that fails for a passing reason: some 6 s */
#define REFUSED_TRIES 3               /* failed tries after which nothing is claimed until a record succeeds */
#define LOG_AFTER_NS NS_PER_S         /* what passes sooner is not logged */
#define LOG_AGAIN_NS (60 * NS_PER_S)
#define SAME_NS (4 * NS_PER_S) /* tries are no further apart; a cycle that needs no room may pass in between */

/* The texts of the attempt cannot be stored. The fact that it ended can. */
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

/* The server refused an attempt for good that was sent on its own. Returns false when nothing is left to try. */
static bool make_fit(struct trip *t, struct attempt *bad, const struct deferred_error *err)
{
	char text[600];

	if (bad->follow && bad->outcome == JOB_OK) {
		/* Without the call that it deferred it has not succeeded. */
		snprintf(text, sizeof(text), "a call it deferred was refused: %s", err->message);
		attempt_drop_follow(bad);
		bad->outcome = JOB_FAILED;
		pool_drop_key(&t->pool, bad->job);
		attempt_set_error(bad, text);
	} else if (!bad->replaced) {
		replace_texts(bad, err->message);
	} else {
		return false;
	}
	verdict(bad, &t->rules, &t->random);
	attempt_log_write(&t->attempt_log, &t->pool, bad);
	return true;
}

struct failure {
	struct trip *trip;
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

/* Finds who holds up an attempt, at its first failed try. */
static void find_holders(struct trip *t, struct failure *f)
{
	struct store_holders holders;
	int64_t id = 0;

	ledger_each(&t->ledger, LEDGER_RECORDING, take_id, &id);
	if (id != 0 && store_holders(t->connection.pg, &id, 1, &holders, NULL) == 0 && holders.text[0])
		snprintf(f->by, sizeof(f->by), ": held by %s", holders.text);
}

/* An error that may pass is waited for. Once the lease has ended, the server refuses the result. */
static enum ledger_state single_failed(void *data, struct job *job)
{
	const struct failure *f = data;
	struct attempt *a = job->ended;
	uint64_t ms = a->tries < 7 ? 10u << a->tries : SINGLE_AGAIN_MAX_MS;

	if (f->passing && f->now < job->lease_ns + (uint64_t)job->granted_ms * NS_PER_MS + SINGLE_OVER_NS) {
		if (a->tries++ == 0)
			log_job(LOG_L_WARNING, job,
				"job %lld %s attempt %d: its result (%s) waits to be recorded: %s%s",
				(long long)job->id, job->fn, job->attempt, job_outcome_text(a->outcome),
				f->err->message, f->by);
		a->again_ns = f->now + ms * NS_PER_MS;
	} else if (f->passing || !make_fit(f->trip, a, f->err)) {
		log_job(LOG_L_ERROR, job, "job %lld: the attempt cannot be recorded and will count as lost: %s",
			(long long)job->id, f->err->message);
		pool_drop_key(&f->trip->pool, job);
		ledger_abandon(&f->trip->ledger, job->receipt);
		return LEDGER_NONE;
	}
	return LEDGER_SET_ASIDE;
}

/* A service outlasts a full disk as it outlasts a server that is away. It logs that once it is plain that this takes
 * longer, and once a minute. */
static void log_refused(struct trip *t, const struct deferred_error *err, uint64_t now)
{
	struct store_holders holders = { "" };

	if (now - t->rollback.last_ns > SAME_NS) {
		t->rollback.first_ns = now;
		t->rollback.log_ns = 0;
	}
	t->rollback.last_ns = now;
	if (now - t->rollback.first_ns < LOG_AFTER_NS ||
	    (t->rollback.log_ns && now - t->rollback.log_ns < LOG_AGAIN_NS))
		return;
	t->rollback.log_ns = now;
	if (strcmp(err->sqlstate, "55P03") == 0)
		store_holders(t->connection.pg, NULL, 0, &holders, NULL);
	log_line(LOG_L_WARNING, "the server refuses a statement: %s%s%s; trying again", err->message,
		 holders.text[0] ? ": held by " : "", holders.text);
}

/* Until something can be recorded, jobs that begin would be run twice. */
static void stop_starting(struct trip *t, bool locked)
{
	struct store_holders holders = { "" };

	/* A locked row concerns one job, a locked table all of them. */
	if (locked)
		store_holders(t->connection.pg, NULL, 0, &holders, NULL);
	if (t->record.blocked || (locked ? !holders.text[0] : t->rollback.tries < REFUSED_TRIES))
		return;
	record_block(&t->record);
	pool_add(&t->pool, pool_recall(&t->pool));
}

/* The cycle may succeed later: results that would be lost with this process, and services, have patience. */
static bool worth_a_try(const struct trip *t, bool locked)
{
	bool in_hand = t->ledger.n[LEDGER_SET_ASIDE] > 0 || pool_load(&t->pool) > 0;

	return t->rollback.tries < TRIES_MAX || locked || (t->ledger.n[LEDGER_RECORDING] == 0 && (in_hand || t->loop));
}

/* Decides whether what was being recorded is sent again together, or one by one. Returns 0, or the code to end with. */
static int sort_failure(struct trip *t, const struct deferred_error *err, uint64_t now, bool *set_aside)
{
	enum error_class class = error_class(err->sqlstate);
	bool locked = strcmp(err->sqlstate, "55P03") == 0, records = t->ledger.n[LEDGER_RECORDING] > 0;
	struct failure failure = { t, class == ERROR_TRANSIENT, err, now, "" };
	int tries = t->rollback.tries;

	*set_aside = t->single;
	if (class == ERROR_PREPARED && !pg_is_unnamed(t->connection.pg)) {
		pg_set_unnamed(t->connection.pg);
	} else if (err->code == DEFERRED_ESCHEMA) {
		return err->code;
	} else if (t->single) {
		if (locked) {
			find_holders(t, &failure);
			stop_starting(t, locked);
		}
		ledger_each(&t->ledger, LEDGER_RECORDING, single_failed, &failure);
	} else if (class == ERROR_TRANSIENT && worth_a_try(t, locked)) {
		connection_pause(&t->connection, now + (tries < 7 ? 10u << tries : 1000u) * NS_PER_MS);
		log_refused(t, err, now);
		t->rollback.tries++;
		if (records)
			stop_starting(t, locked);
		/* A session holds the row of one of them, for longer than another worker's claim does. The other
		 * attempts must not wait for that. */
		*set_aside = locked;
	} else if (!records) {
		return err->code;
	} else {
		*set_aside = true;
	}
	return 0;
}

int rollback_cycle(struct trip *t, struct deferred_error *err, uint64_t now)
{
	enum error_class class = error_class(err->sqlstate);
	bool set_aside;
	int rc;

	if (err->code == DEFERRED_ELOST || class == ERROR_CONNECTION || class == ERROR_READ_ONLY) {
		housekeeping_lost(&t->housekeeping);
		return DEFERRED_ELOST;
	}
	if (t->housekeeping.under_way && class == ERROR_PREPARED) {
		housekeeping_failed(&t->housekeeping, NULL);
	} else if (t->housekeeping.under_way && err->code != DEFERRED_ESCHEMA) {
		housekeeping_failed(&t->housekeeping, err);
		store_cycle_clear(&t->cycle);
		connection_answered(&t->connection);
		error_clear(err);
		return 0;
	}
	rc = sort_failure(t, err, now, &set_aside);
	if (rc < 0)
		return rc;
	hand_undo_cycle(&t->pool, &t->ledger, &t->cycle, set_aside ? LEDGER_SET_ASIDE : LEDGER_ENDED,
			t->rules.stopping);
	plan_again(&t->plan); /* the cycle got no answer to what it asked */
	connection_answered(&t->connection);
	error_clear(err);
	return 0;
}
