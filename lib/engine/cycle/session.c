/* SPDX-License-Identifier: MIT */
#include "engine/cycle/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/step/hand.h"
#include "store/admin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_LIMIT_MS 10000
#define ANSWER_LIMIT_MS 10000

/* A queue is created by the first job deferred to it. A queue that is missing may be misspelt, or early. */
void session_log_missing_queues(const struct trip *t)
{
	for (size_t i = 0; i < t->scope.queues_len; i++) {
		struct pg_result *res;

		if (admin_queue_ls_exec(t->connection.pg, t->scope.queues[i], &res, NULL) < 0)
			return; /* the next statement reports the error */
		if (pg_rows(res) == 0)
			log_line(LOG_L_WARNING,
				 "queue '%s' does not exist yet; the first job deferred to it creates it",
				 t->scope.queues[i]);
		pg_result_free(res);
	}
}

int session_lineage(const struct trip *t, struct deferred_error *err)
{
	const struct worker_setup *setup = t->setup;
	struct store_lineage l;
	int rc;

	if (!setup->lineage)
		return 0;
	rc = store_lineage(t->connection.pg, &l, err);
	if (rc < 0 && strcmp(err->sqlstate, "42501") == 0) {
		error_clear(err); /* an administrator has revoked it: then we cannot know */
		return 0;
	}
	/* A server in recovery refuses writes itself. */
	return rc == 0 && l.timeline > 0 ? setup->lineage(setup->data, l.system, l.timeline, err) : rc;
}

/* Names the advisory lock of a new session. */
static int32_t new_watch_number(struct trip *t)
{
	return (int32_t)(random_next(&t->random) % INT32_MAX) + 1;
}

int session_register(struct trip *t, struct deferred_error *err)
{
	offer_set_up(&t->offer, t->setup->runners);
	t->scope.watch = new_watch_number(t);
	return store_register(t->connection.pg, &t->scope, t->setup->host, (int)getpid(), t->offer.place, &t->worker_id,
			      &t->offer.catalog, err);
}

/* A standby that lagged behind when it was promoted does not know this worker, and may have given our number to another
 * one. */
int session_register_again(struct trip *t, struct deferred_error *err)
{
	int rc = session_register(t, err);

	offer_forget(&t->offer);
	if (rc == 0)
		log_line(LOG_L_INFO, "registered again as worker %lld", (long long)t->worker_id);
	return rc;
}

/* ---- lost ---------------------------------------------------------------------------------------- */

static enum ledger_state mark_sent(void *data, struct job *job)
{
	(void)data;
	job->ended->sent_before = true;
	return LEDGER_RECORDING;
}

void session_lose(struct trip *t, const struct deferred_error *err, uint64_t now)
{
	/* "listen" was switched off: only a connection without our locks is needed. */
	bool given_up = t->listening.wake.state != WAKE_OFF && !t->listening.wanted;

	/* The database may have what was being recorded. It is sent again, and the receipt decides. */
	ledger_each(&t->ledger, LEDGER_RECORDING, mark_sent, NULL);
	hand_undo_cycle(&t->pool, &t->ledger, &t->cycle, LEDGER_ENDED, t->rules.stopping);
	lanes_clear(&t->lanes);
	plan_lanes_lost(&t->plan);
	ledger_forget_leases(&t->ledger);
	delayed_forget(&t->delayed);
	listening_lost(&t->listening);
	if (!t->connection.lost_ns) /* no new starts while nothing can be recorded */
		pool_add(&t->pool, pool_recall(&t->pool));
	connection_lose(&t->connection, err, given_up, random_next(&t->random), now);
}

/* ---- found again --------------------------------------------------------------------------------- */

/* A question asked now may take a quarter of the time until leases must be given up. */
static void limit_answers(const struct trip *t, uint64_t now)
{
	struct lease_oldest o = lease_oldest(&t->lease, &t->pool);
	int64_t ms = ANSWER_LIMIT_MS;

	if (o.n > 0)
		ms = o.fence_ns > now ? (int64_t)((o.fence_ns - now) / NS_PER_MS / 4) : 1;
	store_set_answer_ms(ms < 1 ? 1 : ms > ANSWER_LIMIT_MS ? ANSWER_LIMIT_MS : (int)ms);
}

struct settling {
	struct trip *trip;
	const int *outcomes; /* of attempts that were sent before, in order */
};

static enum ledger_state take_outcome(void *data, struct job *job)
{
	struct settling *s = data;
	struct attempt *a = job->ended;

	if (a->sent_before && *s->outcomes++ != JOB_UNRECORDED) {
		if (!record_settle(&s->trip->record, &s->trip->pool, a, s->outcomes[-1]))
			delayed_look_at_all_leases(&s->trip->delayed);
		return LEDGER_NONE;
	}
	a->resent |= a->sent_before;
	a->sent_before = false;
	return LEDGER_ENDED;
}

/* Looks up in the log what was sent and not answered. */
static int settle_sent(struct trip *t, struct deferred_error *err)
{
	size_t n, sent = 0;
	struct attempt **a = ledger_attempts(&t->ledger, LEDGER_ENDED, &n);
	int *outcomes = malloc((n + 1) * sizeof(*outcomes));
	struct settling settling = { t, outcomes };
	int rc = a && outcomes ? 0 : error_set(err, DEFERRED_ENOMEM, "settle", "out of memory");

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (a[i]->sent_before)
			a[sent++] = a[i];
	if (rc == 0 && sent > 0)
		rc = store_recorded(t->connection.pg, a, sent, outcomes, err);
	if (rc == 0 && sent > 0)
		ledger_each(&t->ledger, LEDGER_ENDED, take_outcome, &settling);
	free(a);
	free(outcomes);
	return rc;
}

/* Finds out what became of everything that was under way. */
static int settle_all(struct trip *t, struct deferred_error *err)
{
	bool registered = true;
	struct store_ids held = { 0 };
	int rc = settle_sent(t, err);

	t->scope.watch = new_watch_number(t);
	if (rc == 0 && !hand_receipts(&t->pool, &t->ledger, &held))
		rc = error_set(err, DEFERRED_ENOMEM, "settle", "out of memory");
	if (rc == 0)
		rc = store_release_unknown(t->connection.pg, &t->scope, t->worker_id, held.id, held.len, &registered,
					   err);
	if (rc == 0 && !registered)
		rc = session_register_again(t, err);
	free(held.id);
	return rc;
}

/* A run that will give up soon leaves time for another address. */
static int connect_limit_ms(const struct trip *t)
{
	int64_t half = config_int(t->config, "reconnect") / 2;

	return t->loop || half > CONNECT_LIMIT_MS ? CONNECT_LIMIT_MS : half < 1 ? 1 : (int)half;
}

int session_connect(struct trip *t, uint64_t now, struct deferred_error *err)
{
	int rc = connection_retry(&t->connection, config_text(t->config, "database.conninfo"), connect_limit_ms(t), now,
				  err);

	if (rc <= 0)
		return rc;
	limit_answers(t, now);
	rc = session_lineage(t, err);
	if (rc == 0)
		rc = settle_all(t, err);
	if (rc < 0)
		return rc;
	connection_found(&t->connection, now);
	t->rollback.tries = 0;
	lease_ask_first(&t->lease);
	watch_connected(&t->watch, now);
	/* This may be another server: see whether it knows this worker, and what it has. */
	housekeeping_at_once(&t->housekeeping);
	plan_again(&t->plan);
	return 0;
}

/* A service waits for the server for as long as it takes, unless it is to stop. */
bool session_given_up(const struct trip *t, uint64_t now)
{
	return (!t->loop || t->rules.stopping) &&
	       connection_lost_for(&t->connection, config_int(t->config, "reconnect"), now);
}

static void log_cut_off(void *data, const struct job *job)
{
	(void)data;
	log_job(LOG_L_WARNING, job,
		"job %lld %s attempt %d: stopped because the connection is lost; it will be run again",
		(long long)job->id, job->fn, job->attempt);
}

static enum ledger_state log_unrecorded(void *data, struct job *job)
{
	(void)data;
	log_job(LOG_L_WARNING, job,
		"job %lld %s attempt %d: its result (%s) could not be recorded because the connection is lost; it may "
		"be run "
		"again",
		(long long)job->id, job->fn, job->attempt, job_outcome_text(job->ended->outcome));
	return LEDGER_ENDED;
}

/* The database has nothing of these attempts, so only this log can name them. */
void session_log_given_up(struct trip *t)
{
	ledger_each(&t->ledger, LEDGER_ENDED, log_unrecorded, NULL);
	pool_each_running(&t->pool, log_cut_off, NULL);
}
