/* SPDX-License-Identifier: MIT */
#include "engine/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "store/figures.h"
#include "store/migrate.h"
#include "engine/state.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

uint64_t worker_random(struct worker *w)
{
	return random_next(&w->random);
}

/* ---- what runners are done with ---------------------------------------------------------------- */

void worker_decide(struct worker *w, struct attempt *a)
{
	const struct verdict_in in = { w->stopping, w->stop_outcome, w->fenced, w->scope.max_attempts, w->backoff };

	verdict(a, &in, &w->random);
}

/* Give back what no runner was given: the time to start had passed, or nobody here has the function. */
static void collect_refused(struct worker *w)
{
	struct job *job, *next;

	for (job = pool_take_late(&w->pool); job; job = next) {
		next = job->next;
		ledger_return(&w->ledger, job);
	}
	while ((job = pool_take_unknown(&w->pool))) {
		bool known = false;

		for (size_t i = 0; i < w->unknown_len; i++)
			known |= strcmp(w->unknown[i], job->fn) == 0;
		if (!known) {
			char **bigger = realloc(w->unknown, (w->unknown_len + 1) * sizeof(*bigger));
			const char *clash = pool_clash(&w->pool, job->fn);

			if (clash)
				log_job(LOG_L_WARNING, job, "job %lld: %s; left for workers that have one",
					(long long)job->id, clash);
			else
				log_job(LOG_L_WARNING, job,
					"job %lld: function '%s' is in no plugin here; left for workers that have it",
					(long long)job->id, job->fn);
			if (bigger) {
				w->unknown = bigger;
				if ((bigger[w->unknown_len] = strdup(job->fn)))
					w->unknown_len++;
			}
		}
		job->apart = true;
		ledger_return(&w->ledger, job);
	}
}

/* No longer ours: the log row is there already, written by the function itself or by whoever took the job away. */
static void end_gone(struct worker *w, struct attempt *a)
{
	if (a->job->gone == JOB_GONE_FINISHED) {
		a->refused = true;
		worker_settle(w, a, JOB_OK);
	} else {
		log_job(LOG_L_INFO, a->job, "job %lld %s attempt %d: %s: it has %s", (long long)a->job->id, a->job->fn,
			a->job->attempt, a->job->gone == JOB_GONE_CANCELLED ? "cancelled" : "not ours any more",
			a->outcome == JOB_LOST ? "been killed" : "come to its end");
		w->sum.refused++;
	}
	ledger_left(&w->ledger, a->job->receipt);
	attempt_free(a);
	plan_ended(&w->plan);
}

/* A job that has ended cannot be what ends this process. Where it may be run again, our end is not to count against it;
 * where this was its last attempt, it stays noted until that is recorded. */
static void note_end(struct worker *w, const struct job *job)
{
	int32_t most = job->max_attempts > 0 ? job->max_attempts : w->scope.max_attempts;

	if (job->alone && job->attempt - job->attempt_base < most)
		begun_drop(&w->begun, job->receipt);
}

/* Take in what the runners have ended. */
static void collect(struct worker *w, uint64_t now)
{
	struct attempt *a;

	for (struct job *job = pool_take_abandoned(&w->pool), *next; job; job = next) {
		next = job->next;
		ledger_abandon(&w->ledger, job->receipt);
		free(job);
		plan_ended(&w->plan);
	}
	while ((a = pool_take(&w->pool))) {
		if (a->outcome == JOB_LOST || a->job->gone) {
			end_gone(w, a);
			continue;
		}
		note_end(w, a->job);
		worker_decide(w, a);
		worker_log_attempt(w, a);
		worker_scale_attempt(w, a);
		ledger_end(&w->ledger, a, now);
		plan_ended(&w->plan);
	}
	collect_refused(w);
}

size_t worker_idle_runners(const struct worker *w)
{
	size_t busy = pool_running(&w->pool);

	return w->pool.runners_max > busy ? w->pool.runners_max - busy : 0;
}

/* ---- the loop ---------------------------------------------------------------------------------- */

void worker_give_back_unstarted(struct worker *w, const char *fn)
{
	struct job *pending = pool_recall(&w->pool), *children = ledger_take(&w->ledger, LEDGER_CHILD), *next;

	for (struct job *job = pending; job; job = next) {
		next = job->next;
		job->next = NULL;
		if (fn && strcmp(job->fn, fn) != 0)
			pool_add(&w->pool, job);
		else
			ledger_return(&w->ledger, job);
	}
	for (struct job *job = children; job; job = next) {
		next = job->next;
		if (fn && strcmp(job->fn, fn) != 0)
			ledger_child(&w->ledger, job);
		else
			ledger_return(&w->ledger, job);
	}
}

static void begin_stop(struct worker *w, enum job_outcome outcome, uint64_t now)
{
	if (w->stopping) {
		w->stop_ns = now; /* asked twice: no more grace */
		return;
	}
	w->stopping = true;
	worker_event(w, WORKER_STOPPING);
	w->stop_outcome = outcome;
	w->stop_ns = now + (uint64_t)config_int(w->config, "grace") * NS_PER_MS;
	pool_stop(&w->pool);
	worker_give_back_unstarted(w, NULL);
}

/* The queues may be others now, and "listen" may have been switched on. */
static void relisten(struct worker *w)
{
	struct deferred_error err = { 0 };

	wake_rearm(&w->listen.wake);
	plan_delayed(&w->plan);
	if (w->listen.wake.state == WAKE_OFF || w->listen.wanted || !w->pg)
		return;
	/* The locks go with the connection. */
	error_set(&err, DEFERRED_ELOST, "reload", "'listen' was switched off");
	worker_lose_connection(w, &err, clock_ns());
}

/* SIGHUP: settings and plugins anew. */
static void reload(struct worker *w)
{
	struct deferred_error err = { 0 };

	worker_event(w, WORKER_RELOADING);
	if (w->setup->reload(w->setup->data, &err) < 0) {
		log_line(LOG_L_ERROR, "settings not reloaded, the old ones stay: %s%s%s%s", err.message,
			 err.hint[0] ? " (" : "", err.hint, err.hint[0] ? ")" : "");
	} else {
		pool_reload(&w->pool, w->setup->runners);
		worker_set_up(w);
		/* The new plugins may have them. */
		for (size_t i = 0; i < w->unknown_len; i++)
			free(w->unknown[i]);
		w->unknown_len = 0;
		worker_forget_said(w);
		relisten(w);
		log_line(LOG_L_INFO, "settings reloaded; new runners load the plugins again");
	}
	worker_event(w, WORKER_RELOADED);
}

static void read_signals(struct worker *w, uint64_t now)
{
	struct signalfd_siginfo si;

	while (read(w->setup->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		bool successor = si.ssi_code == SI_QUEUE && si.ssi_int == WORKER_SUPERSEDED;

		if (si.ssi_signo == SIGCHLD)
			continue;
		if (si.ssi_signo == SIGHUP && w->loop && w->setup->reload) {
			if (!w->stopping)
				reload(w);
			continue;
		}
		log_line(LOG_L_INFO, "%s%s", successor ? "a new start takes over" : "asked to stop", w->setup->who);
		if (successor && !w->successor_ns)
			w->successor_ns = now;
		begin_stop(w, successor ? JOB_SUPERSEDED : JOB_INTERRUPTED, now);
	}
	pool_reap(&w->pool);
}

/* Jobs that wait here while all runners are busy are for others to take. */
static void give_back_held(struct worker *w, uint64_t now)
{
	struct job *jobs, *keep = NULL;

	if (w->lost_ns || w->pool.pending_len == 0 || worker_idle_runners(w) > 0 ||
	    pool_run_us(&w->pool, now) < POOL_STUCK_NS / 1000.0)
		return;
	jobs = pool_take_pending(&w->pool);
	while (jobs) {
		struct job *next = jobs->next;

		if (now > jobs->claimed_ns + POOL_STUCK_NS)
			ledger_return(&w->ledger, jobs);
		else
			job_list_push(&keep, jobs);
		jobs = next;
	}
	pool_add(&w->pool, keep);
}

static int wait_ms(const struct worker *w, uint64_t now)
{
	int ms = pool_wait_ms(&w->pool, now), own;
	uint64_t first_ns;
	struct due due;

	due_look(&due, w, now);
	first_ns = due_first_ns(&due);
	if (first_ns == UINT64_MAX)
		return ms;
	own = first_ns <= now ? 0 : (int)((first_ns - now) / NS_PER_MS) + 1;
	return ms < 0 || own < ms ? own : ms;
}

static void wait_for_events(struct worker *w, uint64_t now)
{
	struct pollfd fds[4 + 2 * 256];
	nfds_t n = 0;

	fds[n++] = (struct pollfd){ w->setup->signal_fd, POLLIN, 0 };
	if (w->db == DB_BUSY || w->db == DB_CONNECTING)
		fds[n++] = (struct pollfd){ pg_fd(w->pg), pg_events(w->pg), 0 };
	else if (w->db == DB_READY)
		fds[n++] = (struct pollfd){ pg_fd(w->pg), POLLIN, 0 }; /* the server says goodbye */
	if (w->stall.pg)
		fds[n++] = (struct pollfd){ pg_fd(w->stall.pg), pg_events(w->stall.pg), 0 };
	n += pool_pollfds(&w->pool, fds + n, sizeof(fds) / sizeof(fds[0]) - n - 1);
	fds[n++] = (struct pollfd){ log_waits_fd(), POLLOUT, 0 }; /* below 0: not looked at */
	if (poll(fds, n, wait_ms(w, now)) < 0)
		return;
	if (w->db == DB_READY && fds[1].revents && !pg_alive(w->pg)) {
		struct deferred_error err = { 0 };

		pg_gone(w->pg, "idle", &err);
		worker_lose_connection(w, &err, clock_ns());
	}
}

static bool nothing_in_hand(const struct worker *w)
{
	return pool_load(&w->pool) == 0 && !w->pool.unknown && ledger_len(&w->ledger) == 0;
}

static bool finished(struct worker *w, uint64_t now)
{
	bool must = w->stopping || w->pool.fatal.code || (w->cnt > 0 && w->charged >= w->cnt);
	bool may = w->plan.exhausted && !w->loop && !w->tick.more;

	/* A service with nothing in hand needs no server to stop. */
	if (!(w->db == DB_READY || (w->loop && w->stopping && w->lost_ns)) || !nothing_in_hand(w))
		return false;
	return must || (may && !worker_tick_stays(w, now));
}

/* One turn. Returns 0 to go on, 1 when finished, a negative code on failure. */
static int turn(struct worker *w, struct deferred_error *err)
{
	uint64_t now = clock_ns();
	int rc = 0;

	if (log_waits_fd() >= 0)
		log_flush(0);
	worker_fence(w, now);
	if (w->setup->alive_ms > 0 && now >= w->alive_ns) {
		w->alive_ns = now + (uint64_t)w->setup->alive_ms * NS_PER_MS;
		worker_event(w, WORKER_ALIVE);
	}
	read_signals(w, now);
	pool_read(&w->pool);
	pool_tick(&w->pool, now);
	collect(w, now);
	if (w->pool.fatal.code && !w->stopping)
		begin_stop(w, JOB_INTERRUPTED, now);
	if (w->stopping && now >= w->stop_ns && pool_load(&w->pool) > 0) {
		pool_kill(&w->pool, 0, SIGTERM, w->stop_outcome,
			  w->stop_outcome == JOB_SUPERSEDED ? "replaced by a new start of check_deferred"
							    : "check_deferred was asked to stop");
		w->stop_ns = UINT64_MAX;
	}
	if (w->db == DB_BUSY && now >= w->cycle.sent_ns + worker_fence_after_ns(w)) {
		struct deferred_error silent = { 0 };

		error_set(&silent, DEFERRED_ELOST, "cycle", "connection lost: the server has not answered for %lld ms",
			  (long long)((now - w->cycle.sent_ns) / NS_PER_MS));
		worker_lose_connection(w, &silent, now);
	}
	worker_stall(w, now);
	if (w->db == DB_BUSY)
		rc = worker_poll_cycle(w, now, err);
	else if (w->db != DB_READY)
		worker_connect_again(w, now);
	if (rc < 0)
		return rc;
	/* A service waits for the server for as long as it takes, unless it is to stop. */
	if (w->lost_ns && (!w->loop || w->stopping) &&
	    (now - w->lost_ns) / NS_PER_MS >= (uint64_t)config_int(w->config, "reconnect")) {
		*err = w->lost;
		return err->code;
	}
	if (w->db == DB_READY && w->tell.crashed_len > 0)
		worker_ask_breaker(w, now);
	if (w->db == DB_READY)
		worker_listen_ready(w, now);
	worker_scale(w, now);
	pool_recall_stuck(&w->pool, now);
	give_back_held(w, now);
	if (!w->lost_ns && !worker_waits_to_record(w))
		pool_dispatch(&w->pool);
	collect_refused(w); /* now, or the run might end without giving them back */
	if (w->db == DB_READY && now >= w->retry_ns)
		worker_offer(w, now);
	if (w->db == DB_READY && now >= w->retry_ns)
		worker_tick(w, now);
	if (w->db == DB_READY && now >= w->retry_ns)
		worker_watch(w, now);
	if (w->db == DB_READY && now >= w->retry_ns)
		worker_tell(w, now);
	if (w->db == DB_READY && now >= w->retry_ns) {
		rc = worker_start_cycle(w, now, err);
		if (rc < 0)
			return worker_cycle_failed(w, err, now);
	}
	if (finished(w, now))
		return 1;
	wait_for_events(w, now);
	return 0;
}

/* ---- start and end ----------------------------------------------------------------------------- */

static void log_recovered(void *data, int64_t id, const char *fn, int attempt, bool final, bool recorded)
{
	const struct worker *w = data;

	if (recorded)
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: %s; %s", (long long)id, fn, attempt,
			 w->setup->predecessor_killed ? "superseded" : "lost", final ? "dead" : "ready again");
	else
		log_line(LOG_L_WARNING, "job %lld %s: was held by a run that has ended; ready again", (long long)id,
			 fn);
}

/* work: there are jobs, as far as is known. */
static int begin(struct worker *w, bool work, struct deferred_error *err)
{
	const char *database = config_text(w->config, "database.conninfo");
	struct begun_file left = { 0 };
	int rc = w->setup->before_work ? w->setup->before_work(w->setup->data, err) : 0;

	/* Not earlier: before_work() has looked up the user to switch to. */
	if (rc == 0)
		rc = pool_init(&w->pool, w->setup->runners, err);
	if (rc == 0)
		worker_set_up(w);
	if (rc == 0 && work)
		pool_warm_up(&w->pool);
	if (rc == 0)
		rc = worker_register(w, err);
	if (rc == 0) {
		bool known = begun_read(&left, w->setup->pidfile, database);
		const struct store_begun begun = { left.worker, left.receipt, BEGUN_MAX };

		rc = store_recover(w->pg, &w->scope, w->worker_id,
				   w->setup->predecessor_killed ? JOB_SUPERSEDED : JOB_LOST, known ? &begun : NULL,
				   log_recovered, w, err);
	}
	if (rc == 0) {
		begun_open(&w->begun, w->setup->pidfile, database, w->worker_id);
		w->pool.begun = w->begun.file ? &w->begun : NULL;
	}
	if (rc == 0)
		rc = worker_balance_begin(w, err);
	return rc;
}

void worker_event(const struct worker *w, enum worker_event event)
{
	if (w->setup->event)
		w->setup->event(w->setup->data, event);
}

void worker_set_up(struct worker *w)
{
	const struct worker_setup *setup = w->setup;
	const struct config *c = setup->config;

	w->config = c;
	w->scope = (struct store_scope){ setup->queues,
					 setup->queues_len,
					 setup->instance,
					 (int32_t)config_int(c, "max_attempts"),
					 w->scope.watch,
					 0,
					 (int32_t)config_int(c, "runners"),
					 NULL };
	w->backoff = (struct retry_policy){ config_int(c, "backoff_floor"), config_int(c, "backoff_ceiling"),
					    config_real(c, "backoff_exponent") };
	w->loop = config_flag(c, "loop");
	w->cnt = w->loop && !config_given(c, "cnt") ? 0 : config_int(c, "cnt");
	w->scope.cnt = (int32_t)w->cnt;
	w->scope.mode = !w->loop ? "run" : config_flag(c, "listen") ? "listen" : "loop";
	w->lease_ms = config_int(c, "lease");
	w->batch = config_int(c, "batch");
	w->pool.idle_ns = w->loop ? (uint64_t)config_int(c, "runner_idle") * NS_PER_MS : 0;
	w->pool.runners_keep = 1;
	worker_idle_set_up(w);
	worker_scale_set_up(w);
	worker_tell_set_up(w);
}

static void set_up(struct worker *w, const struct worker_setup *setup)
{
	const struct config *c = setup->config;

	memset(w, 0, sizeof(*w));
	w->setup = setup;
	worker_delayed_forget(w);
	worker_set_up(w);
	ledger_init(&w->ledger);
	w->random = (uint64_t)config_int(c, "seed");
	if (w->random == 0 && getrandom(&w->random, sizeof(w->random), 0) != sizeof(w->random))
		w->random = clock_ns();
}

static void tear_down(struct worker *w)
{
	store_cycle_clear(&w->cycle);
	lanes_clear(&w->lanes);
	pg_close(w->pg);
	pg_close(w->stall.pg);
	ledger_clear(&w->ledger);
	free(w->listen.wake.open.id);
	for (size_t i = 0; i < w->unknown_len; i++)
		free(w->unknown[i]);
	free(w->unknown);
	worker_forget_said(w);
	worker_tell_clear(w);
}

int worker_run(const struct worker_setup *setup, struct worker_summary *summary, struct deferred_error *err)
{
	uint64_t start = clock_ns();
	struct deferred_error aside = { 0 }, told = { 0 }, fatal;
	struct store_probe probe = { 0 };
	bool folded = false;
	struct worker w;
	int rc;

	set_up(&w, setup);
	rc = pg_open(&w.pg, config_text(w.config, "database.conninfo"), "check_deferred", err);
	if (rc == 0)
		rc = store_probe(w.pg, &w.scope, &probe, err);
	/* Name the cause instead of the table that is missing. */
	if (rc == DEFERRED_ESCHEMA && migrate_check(w.pg, &told) < 0 && err)
		*err = told;
	if (rc == DEFERRED_ESCHEMA)
		error_hint(err, "run: deferred migrate");
	if (rc < 0 && w.pg && strcmp(err->sqlstate, "42501") == 0)
		error_hint(err, "grant deferred_worker to \"%s\"", pg_user(w.pg));
	if (rc == 0)
		rc = migrate_accepts(probe.schema_version, err);
	/* There are jobs, none of them in these queues: where that is a word misspelt, nothing else would tell. */
	if (rc == 0 && probe.any && !probe.work && !probe.tick && !probe.unclean && !w.loop)
		worker_tell_missing_queues(&w);
	if (rc < 0 || (!probe.work && !probe.tick && !probe.unclean && !w.loop))
		goto done;
	/* Only where there is work: a start that finds none touches nothing, and is not to cost more. */
	rc = worker_lineage(&w, err);
	if (rc < 0)
		goto done;
	worker_tick_set_up(&w, probe.tick);

	store_set_answer_ms(w.lease_ms / 4 < 10000 ? (int)(w.lease_ms / 4) : 10000);
	rc = begin(&w, probe.work, err);
	if (rc == 0)
		worker_event(&w, WORKER_READY);
	while (rc == 0)
		rc = turn(&w, err);
	fatal = w.pool.fatal;
	pool_clear(&w.pool);
	/* Nothing is left in hand; what fails now is told, and mended by the next run. */
	if (rc == 1 && w.db == DB_READY &&
	    (store_end(w.pg, w.worker_id, &aside) < 0 || store_maintain(w.pg, &aside) < 0 ||
	     store_fold_old(w.pg, STORE_FOLD_RUN_MS, &folded, &aside) < 0))
		log_line(LOG_L_WARNING, "%s", aside.message);
	else if (folded)
		worker_tell_at_end(&w);
	if (rc == 1 && w.db == DB_READY)
		worker_notice_at_end(&w);
	begun_close(&w.begun, rc == 1);
	if (rc == 1)
		rc = 0;
	if (fatal.code) {
		*err = fatal;
		rc = fatal.code;
	}
done:
	*summary = w.sum;
	summary->seconds = (double)(clock_ns() - start) / 1e9;
	tear_down(&w);
	return rc;
}
