/* SPDX-License-Identifier: MIT */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "check_deferred"
#define CONNECT_LIMIT_MS 10000

#define MINUTE_NS (60 * NS_PER_S)
#define CHANGED_NS (3 * NS_PER_S / 2) /* no connection for so long: a restart is mostly over by then */

/* A restart is over in a moment, and runners stand idle meanwhile: soon at first, then once a second. */
static const struct deferred_backoff reconnect = { 50, 1000, 2, 0, 0 };

void worker_take_back(struct worker *w, enum ledger_state recording)
{
	ledger_undo(&w->ledger, recording);
	if (w->stopping)
		worker_give_back_unstarted(w, NULL); /* those it asked about */
	worker_progress_again(w);
	store_cycle_clear(&w->cycle);
}

static enum ledger_state sent_before(void *data, struct job *job)
{
	(void)data;
	job->ended->sent_before = true;
	return LEDGER_RECORDING;
}

/* At once, and once a minute while it lasts; and once in between where it is something else by now: the server has no
 * room, say, or wants a password. */
static void tell_lost(struct worker *w, const struct deferred_error *err, uint64_t retry_ns)
{
	static const char said[] = "connection lost: ";
	const char *why =
		strncmp(err->message, said, sizeof(said) - 1) == 0 ? err->message + sizeof(said) - 1 : err->message;
	bool minute = w->lost_ns && (w->retry_ns - w->lost_ns) / MINUTE_NS != (retry_ns - w->lost_ns) / MINUTE_NS;
	bool changed = w->lost_ns && !w->lost_told && retry_ns - w->lost_ns >= CHANGED_NS &&
		       strcmp(err->message, w->lost.message) != 0;

	if (!w->lost_ns)
		log_line(LOG_L_WARNING, "%s%s; trying again", said, why);
	else if (minute || changed)
		log_line(LOG_L_WARNING, "no connection for %.0f s: %s; trying again",
			 (double)(retry_ns - w->lost_ns) / 1e9, why);
	w->lost_told = w->lost_ns && (w->lost_told || minute || changed);
}

void worker_lose_connection(struct worker *w, const struct deferred_error *err, uint64_t now)
{
	/* "listen" was switched off: all that is needed is a connection without our locks. */
	bool given_up = w->listen.wake.state != WAKE_OFF && !w->listen.wanted;
	uint64_t retry_ns;

	/* What was being recorded may or may not be: it is sent again, and the receipt tells. */
	ledger_each(&w->ledger, LEDGER_RECORDING, sent_before, NULL);
	worker_take_back(w, LEDGER_ENDED);
	pg_close(w->pg);
	w->pg = NULL;
	lanes_clear(&w->lanes);
	w->plan.lanes_ns = 0;
	ledger_forget_leases(&w->ledger);
	worker_delayed_forget(w);
	w->db = DB_WAITING;
	worker_listen_lost(w);
	if (!w->lost_ns)
		w->reconnect = reconnect;
	/* The random part keeps workers that lost the same server from coming back in step. */
	retry_ns =
		now + (uint64_t)deferred_backoff_empty(&w->reconnect) * NS_PER_MS + worker_random(w) % (50 * NS_PER_MS);
	if (!given_up)
		tell_lost(w, err, retry_ns);
	if (!w->lost_ns) {
		w->lost_ns = now;
		w->lost = *err;
		/* No new starts while nothing can be recorded. */
		pool_add(&w->pool, pool_recall(&w->pool));
	}
	w->retry_ns = retry_ns;
}

/* The questions asked now are waited for: no longer than what is left until leases must be given up. */
static void limit_answers(const struct worker *w, uint64_t now)
{
	struct worker_oldest o = worker_oldest_lease(w);
	int64_t ms = o.n == 0 ? 10000 : o.fence_ns > now ? (int64_t)((o.fence_ns - now) / NS_PER_MS / 4) : 1;

	store_set_answer_ms(ms < 1 ? 1 : ms > 10000 ? 10000 : (int)ms);
}

int worker_lineage(struct worker *w, struct deferred_error *err)
{
	struct store_lineage l;
	int rc;

	if (!w->setup->lineage)
		return 0;
	rc = store_lineage(w->pg, &l, err);
	if (rc < 0 && strcmp(err->sqlstate, "42501") == 0) {
		error_clear(err); /* an administrator has taken it from us: then nothing can be told */
		return 0;
	}
	/* One in recovery takes no writes, and says so itself. */
	return rc == 0 && l.timeline > 0 ? w->setup->lineage(w->setup->data, l.system, l.timeline, err) : rc;
}

int worker_register(struct worker *w, struct deferred_error *err)
{
	worker_offer_set_up(w);
	w->scope.watch = worker_watch_number(w);
	return store_register(w->pg, &w->scope, w->setup->host, (int)getpid(), w->offer.place, &w->worker_id,
			      &w->offer.known, err);
}

/* A standby that lagged behind when it was promoted does not know us, and may have given our number to another worker.
 * */
int worker_register_again(struct worker *w, struct deferred_error *err)
{
	int rc = worker_register(w, err);

	w->offer.again_ns = 0;

	if (rc == 0)
		log_line(LOG_L_INFO, "registered again as worker %lld", (long long)w->worker_id);
	return rc;
}

struct settling {
	struct worker *w;
	const int *outcomes; /* of those sent before, in order */
};

static enum ledger_state take_outcome(void *data, struct job *job)
{
	struct settling *settling = data;
	struct attempt *a = job->ended;

	if (a->sent_before && *settling->outcomes++ != JOB_UNRECORDED) {
		worker_settle(settling->w, a, settling->outcomes[-1]);
		return LEDGER_NONE;
	}
	a->resent |= a->sent_before;
	a->sent_before = false;
	return LEDGER_ENDED;
}

/* What was sent, and not answered: is it in the log? */
static int settle_sent(struct worker *w, struct deferred_error *err)
{
	size_t n, sent = 0;
	struct attempt **a = ledger_attempts(&w->ledger, LEDGER_ENDED, &n);
	int *outcomes = malloc((n + 1) * sizeof(*outcomes));
	struct settling settling = { w, outcomes };
	int rc = a && outcomes ? 0 : error_set(err, DEFERRED_ENOMEM, "settle", "out of memory");

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (a[i]->sent_before)
			a[sent++] = a[i];
	if (rc == 0 && sent > 0)
		rc = store_recorded(w->pg, a, sent, outcomes, err);
	if (rc == 0 && sent > 0)
		ledger_each(&w->ledger, LEDGER_ENDED, take_outcome, &settling);
	free(a);
	free(outcomes);
	return rc;
}

/* Connected again: find out what became of what was under way. */
static int settle(struct worker *w, struct deferred_error *err)
{
	bool registered = true;
	struct store_ids held = { 0 };
	int rc = settle_sent(w, err);

	w->scope.watch = worker_watch_number(w);
	if (rc == 0)
		rc = worker_held_receipts(w, &held) ? store_release_unknown(w->pg, &w->scope, w->worker_id, held.id,
									    held.len, &registered, err)
						    : error_set(err, DEFERRED_ENOMEM, "settle", "out of memory");
	if (rc == 0 && !registered)
		rc = worker_register_again(w, err);
	free(held.id);
	return rc;
}

/* The most that is waited for names and for each address. A run that will give up soon leaves time for another address.
 * */
static int connect_limit_ms(const struct worker *w)
{
	int64_t half = config_int(w->config, "reconnect") / 2;

	return w->loop || half > CONNECT_LIMIT_MS ? CONNECT_LIMIT_MS : half < 1 ? 1 : (int)half;
}

static void try_again(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };
	bool done = false;
	int rc = 0;

	if (w->db == DB_WAITING) {
		if (now < w->retry_ns)
			return;
		rc = pg_open_start(&w->pg, config_text(w->config, "database.conninfo"), PROGRAM, connect_limit_ms(w),
				   &err);
		w->db = DB_CONNECTING;
	} else {
		rc = pg_open_poll(w->pg, &done, &err);
	}
	if (rc == 0 && done) {
		limit_answers(w, now);
		rc = worker_lineage(w, &err);
		if (rc == 0)
			rc = settle(w, &err);
	}
	if (rc < 0) {
		worker_lose_connection(w, &err, now);
	} else if (done) {
		log_line(LOG_L_INFO, "connected again after %.1f s (%s)", (double)(now - w->lost_ns) / 1e9,
			 w->lost.message);
		w->lost_ns = 0;
		w->tries = 0;
		w->db = DB_READY;
		w->renew_first = true;
		worker_watch_connected(w, now);
		/* It may be another server by now: see whether it knows us, and what it has. */
		w->idle.keep_ns = 0;
		plan_again(&w->plan);
	}
}

static void tell_cut_off(void *data, const struct job *job)
{
	(void)data;
	log_job(LOG_L_WARNING, job, "job %lld %s attempt %d: cut off, for the server is lost; it will be run again",
		(long long)job->id, job->fn, job->attempt);
}

static enum ledger_state tell_unrecorded(void *data, struct job *job)
{
	(void)data;
	log_job(LOG_L_WARNING, job,
		"job %lld %s attempt %d: its outcome (%s) could not be recorded, for the server is lost; it may be run "
		"again",
		(long long)job->id, job->fn, job->attempt, job_outcome_text(job->ended->outcome));
	return LEDGER_ENDED;
}

void worker_connect_again(struct worker *w, uint64_t now)
{
	try_again(w, now);
	/* The run ends in this turn: see turn(). */
	if (w->lost_ns && (!w->loop || w->stopping) &&
	    (now - w->lost_ns) / NS_PER_MS >= (uint64_t)config_int(w->config, "reconnect")) {
		/* Nobody else can name them: the log of the database has nothing of these attempts. */
		ledger_each(&w->ledger, LEDGER_ENDED, tell_unrecorded, NULL);
		pool_each_running(&w->pool, tell_cut_off, NULL);
	}
}
