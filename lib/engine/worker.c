/* SPDX-License-Identifier: MIT */
#include "engine/worker.h"

#include "base/clock.h"
#include "base/log.h"
#include "engine/cycle/rollback.h"
#include "engine/cycle/round_trip.h"
#include "engine/cycle/session.h"
#include "engine/step/hand.h"
#include "engine/step/stall.h"
#include "store/figures.h"
#include "store/migrate.h"
#include "store/schedule.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define CONNECT_NS (100 * NS_PER_MS)
#define FENCED_NS (10 * NS_PER_MS)
#define RUN_ENDS 1

struct worker {
	struct trip trip;
	struct stall stall;
	uint64_t now; /* this turn began */
	struct deferred_error *err;
	uint64_t alive_ns; /* next WORKER_ALIVE */
	uint64_t stop_ns;  /* grace ends; 0: not stopping */
	int rc;            /* RUN_ENDS: with this code */
};

/* ---- settings ---------------------------------------------------------------------------------- */

static void send_event(const struct worker *w, enum worker_event event)
{
	if (w->trip.setup->event)
		w->trip.setup->event(w->trip.setup->data, event);
}

/* At the start and after a reload. */
static void apply_settings(struct trip *t)
{
	const struct worker_setup *setup = t->setup;
	const struct config *c = setup->config;

	t->config = c;
	t->loop = config_flag(c, "loop");
	t->cnt = t->loop && !config_given(c, "cnt") ? 0 : config_int(c, "cnt");
	t->lease_ms = config_int(c, "lease");
	t->batch = config_int(c, "batch");
	t->scope = (struct store_scope){
		.queues = setup->queues,
		.queues_len = setup->queues_len,
		.instance = setup->instance,
		.max_attempts = (int32_t)config_int(c, "max_attempts"),
		.watch = t->scope.watch,
		.cnt = (int32_t)t->cnt,
		.runners = (int32_t)config_int(c, "runners"),
		.mode = !t->loop                   ? "run"
			: config_flag(c, "listen") ? "listen"
						   : "loop",
	};
	t->rules.max_attempts = t->scope.max_attempts;
	t->rules.backoff = (struct retry_policy){ config_int(c, "backoff_floor"), config_int(c, "backoff_ceiling"),
						  config_real(c, "backoff_exponent") };
	t->pool.idle_ns = t->loop ? (uint64_t)config_int(c, "runner_idle") * NS_PER_MS : 0;
	t->pool.runners_keep = 1;
	polling_set_up(&t->polling, c);
	listening_set_up(&t->listening, config_flag(c, "listen"));
	scale_set_up(&t->scale, &t->pool, c);
	alerting_set_up(&t->alerting, c);
	attempt_log_set_up(&t->attempt_log, setup->who);
}

/* The queues may be others now, and "listen" may have been switched on or off. Returns 0 or DEFERRED_ELOST. */
static int listen_again(struct trip *t, struct deferred_error *err)
{
	bool listens = t->listening.wake.state != WAKE_OFF;

	wake_rearm(&t->listening.wake);
	plan_delayed(&t->plan);
	if (!listens || t->listening.wanted || !t->connection.pg)
		return 0;
	/* The locks go with the connection. */
	return error_set(err, DEFERRED_ELOST, "reload", "'listen' was switched off\nthe worker connects again");
}

/* After SIGHUP: reads settings and plugins again. */
static int reload_settings(struct worker *w)
{
	const struct worker_setup *setup = w->trip.setup;
	struct deferred_error why = { 0 };
	int rc = 0;

	send_event(w, WORKER_RELOADING);
	if (setup->reload(setup->data, &why) < 0) {
		log_error(LOG_L_ERROR, &why, "settings not reloaded, the old ones stay");
	} else {
		pool_reload(&w->trip.pool, setup->runners);
		apply_settings(&w->trip);
		unknown_function_clear(&w->trip.unknown);
		attempt_log_forget(&w->trip.attempt_log);
		rc = listen_again(&w->trip, w->err);
		log_line(LOG_L_INFO, "settings reloaded; new runners load the plugins again");
	}
	send_event(w, WORKER_RELOADED);
	return rc;
}

/* ---- stopping ---------------------------------------------------------------------------------- */

static void begin_stop(struct worker *w, enum job_outcome outcome)
{
	struct trip *t = &w->trip;

	if (t->rules.stopping) {
		w->stop_ns = w->now; /* asked twice: no more grace */
		return;
	}
	t->rules.stopping = true;
	t->rules.stop_outcome = outcome;
	send_event(w, WORKER_STOPPING);
	w->stop_ns = w->now + (uint64_t)config_int(t->config, "grace") * NS_PER_MS;
	pool_stop(&t->pool);
	hand_return_unstarted(&t->pool, &t->ledger, NULL);
}

static int kill_after_grace(struct worker *w)
{
	struct trip *t = &w->trip;

	if (t->pool.fatal.code && !t->rules.stopping)
		begin_stop(w, JOB_INTERRUPTED);
	if (t->rules.stopping && w->now >= w->stop_ns && pool_load(&t->pool) > 0) {
		pool_kill(&t->pool, 0, SIGTERM, t->rules.stop_outcome,
			  t->rules.stop_outcome == JOB_SUPERSEDED ? "replaced by a new start of check_deferred"
								  : "check_deferred was asked to stop");
		w->stop_ns = UINT64_MAX;
	}
	return 0;
}

static int read_signals(struct worker *w)
{
	const struct worker_setup *setup = w->trip.setup;
	struct signalfd_siginfo si;
	int rc = 0;

	while (read(setup->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		bool successor = si.ssi_code == SI_QUEUE && si.ssi_int == WORKER_SUPERSEDED;

		if (si.ssi_signo == SIGCHLD)
			continue;
		if (si.ssi_signo == SIGHUP && w->trip.loop && setup->reload) {
			if (!w->trip.rules.stopping && reload_settings(w) < 0)
				rc = DEFERRED_ELOST;
			continue;
		}
		log_line(LOG_L_INFO, "%s%s", successor ? "a new start takes over" : "asked to stop", setup->who);
		if (successor)
			attempt_log_next_start(&w->trip.attempt_log, w->now - setup->started_ns);
		begin_stop(w, successor ? JOB_SUPERSEDED : JOB_INTERRUPTED);
	}
	pool_reap(&w->trip.pool);
	return rc;
}

/* ---- jobs and runners -------------------------------------------------------------------------- */

/* A job that has ended cannot be what ends this process. Where it may be run again, our end must not count against it.
 * Where this was its last attempt, it stays noted until the attempt is recorded. */
static void note_end(struct trip *t, const struct job *job)
{
	int32_t most = job->max_attempts > 0 ? job->max_attempts : t->scope.max_attempts;

	if (job->alone && job->attempt - job->attempt_base < most)
		begun_drop(&t->begun, job->receipt);
}

/* Takes in what the runners have ended. */
static void collect_ended(struct trip *t, uint64_t now)
{
	struct attempt *a;

	for (struct job *job = pool_take_abandoned(&t->pool), *next; job; job = next) {
		next = job->next;
		ledger_abandon(&t->ledger, job->receipt);
		free(job);
		plan_ended(&t->plan);
	}
	while ((a = pool_take(&t->pool))) {
		plan_ended(&t->plan);
		if (a->outcome == JOB_LOST || a->job->gone) {
			record_gone(&t->record, &t->pool, &t->ledger, a);
			continue;
		}
		note_end(t, a->job);
		verdict(a, &t->rules, &t->random);
		attempt_log_write(&t->attempt_log, &t->pool, a);
		scale_attempt(&t->scale, a);
		ledger_end(&t->ledger, a, now);
	}
}

static int read_pool(struct worker *w)
{
	struct trip *t = &w->trip;

	pool_read(&t->pool);
	pool_tick(&t->pool, w->now);
	collect_ended(t, w->now);
	unknown_function_return(&t->unknown, &t->pool, &t->ledger);
	return 0;
}

static int dispatch_jobs(struct worker *w)
{
	struct trip *t = &w->trip;

	scale_run(&t->scale, &t->pool, t->rules.stopping, w->now);
	pool_recall_stuck(&t->pool, w->now);
	if (!t->connection.lost_ns)
		hand_return_waiting(&t->pool, &t->ledger, w->now);
	if (!t->connection.lost_ns && !record_waits(&t->record, &t->ledger))
		pool_dispatch(&t->pool);
	/* Now, or the run might end without giving them back. */
	unknown_function_return(&t->unknown, &t->pool, &t->ledger);
	return 0;
}

/* ---- other steps of a turn --------------------------------------------------------------------- */

static int fence_leases(struct worker *w)
{
	struct trip *t = &w->trip;

	t->rules.fenced = lease_fence(&t->lease, &t->pool, &t->ledger, w->now);
	return 0;
}

static int report_alive(struct worker *w)
{
	int64_t ms = w->trip.setup->alive_ms;

	if (ms > 0 && w->now >= w->alive_ns) {
		w->alive_ns = w->now + (uint64_t)ms * NS_PER_MS;
		send_event(w, WORKER_ALIVE);
	}
	return 0;
}

/* Relaxed: each value is looked at by itself. */
static int show_pulse(struct worker *w)
{
	struct worker_pulse *p = w->trip.setup->pulse;
	const struct trip *t = &w->trip;
	bool asked = t->connection.state == CONNECTION_BUSY;

	if (!p)
		return 0;
	atomic_store_explicit(&p->lost_ns, t->connection.lost_ns, memory_order_relaxed);
	atomic_store_explicit(&p->asked_ns, asked ? t->cycle.sent_ns : 0, memory_order_relaxed);
	atomic_store_explicit(&p->stopping, t->rules.stopping, memory_order_relaxed);
	atomic_store_explicit(&p->fenced, t->rules.fenced, memory_order_relaxed);
	atomic_store_explicit(&p->turned_ns, w->now, memory_order_relaxed);
	return 0;
}

static uint64_t silent_ns(const struct trip *t)
{
	return t->cycle.sent_ns + lease_shortest_ns(&t->pool, t->lease_ms);
}

static int check_answer(struct worker *w)
{
	const struct trip *t = &w->trip;

	if (t->connection.state == CONNECTION_BUSY && w->now >= silent_ns(t))
		return error_set(w->err, DEFERRED_ELOST, "cycle",
				 "connection lost: the server has not answered for %lld ms\nlook at its load, and at "
				 "the network",
				 (long long)((w->now - t->cycle.sent_ns) / NS_PER_MS));
	return 0;
}

static int look_at_stall(struct worker *w)
{
	const struct connection *c = &w->trip.connection;

	stall_run(&w->stall, config_text(w->trip.config, "database.conninfo"),
		  c->state == CONNECTION_BUSY ? c->pg : NULL, w->trip.cycle.sent_ns, w->now);
	return 0;
}

static int poll_server(struct worker *w)
{
	struct trip *t = &w->trip;
	int rc;

	if (t->connection.state == CONNECTION_READY)
		return 0;
	if (t->connection.state != CONNECTION_BUSY)
		return session_connect(t, w->now, w->err) < 0 ? DEFERRED_ELOST : 0;
	rc = round_trip_poll(t, w->now, w->err);
	if (rc > 0)
		rc = session_register_again(t, w->err);
	return rc < 0 ? rollback_cycle(t, w->err, w->now) : 0;
}

static int give_up_server(struct worker *w)
{
	if (!session_given_up(&w->trip, w->now))
		return 0;
	session_log_given_up(&w->trip);
	*w->err = w->trip.connection.lost;
	w->rc = w->err->code;
	return RUN_ENDS;
}

static int ask_breaker(struct worker *w)
{
	struct trip *t = &w->trip;
	struct record_crash crash;
	int rc = 0;

	while (rc == 0 && record_take_crash(&t->record, &crash)) {
		rc = alerting_crashed(t->connection.pg, t->config, crash.fn, crash.n, w->err);
		if (rc > 0)
			hand_return_unstarted(&t->pool, &t->ledger, crash.fn);
		rc = rc > 0 ? 0 : rc;
	}
	return rc;
}

static int listen_for_jobs(struct worker *w)
{
	struct trip *t = &w->trip;
	int rc = t->loop ? listening_begin(&t->listening, t->connection.pg, &t->polling.interval, w->err) : 0;

	if (rc < 0)
		return DEFERRED_ELOST;
	if (rc > 0)
		plan_delayed(&t->plan);
	listening_read(&t->listening, t->connection.pg, &t->scope, t->worker_id, w->now);
	return 0;
}

/* A step has made jobs ready, or may have. */
static int look_again(struct trip *t, int rc)
{
	if (rc > 0)
		plan_delayed(&t->plan);
	return rc > 0 ? 0 : rc;
}

static int send_offer(struct worker *w)
{
	struct trip *t = &w->trip;

	return look_again(t, offer_run(&t->offer, t->connection.pg, &t->pool, t->setup->host, w->now, w->err));
}

static int run_ticks(struct worker *w)
{
	struct trip *t = &w->trip;
	struct tick_in in = { t->connection.pg, t->plan.exhausted && hand_is_empty(&t->pool, &t->ledger),
			      t->setup->started_ns };

	return t->rules.stopping ? 0 : look_again(t, tick_run(&t->tick, &in, w->now, w->err));
}

static int watch_others(struct worker *w)
{
	struct trip *t = &w->trip;
	struct watch_in in = { t->connection.pg, t->worker_id,      t->scope.max_attempts,
			       t->loop,          t->setup->is_dead, t->setup->data };

	return t->rules.stopping ? 0 : look_again(t, watch_run(&t->watch, &in, w->now, w->err));
}

static int send_alerts(struct worker *w)
{
	return alerting_run(&w->trip.alerting, w->trip.connection.pg, w->err);
}

static int start_cycle(struct worker *w)
{
	return round_trip_start(&w->trip, w->now, w->err) < 0 ? rollback_cycle(&w->trip, w->err, w->now) : 0;
}

static int end_if_done(struct worker *w)
{
	struct trip *t = &w->trip;
	bool must = t->rules.stopping || t->pool.fatal.code || (t->cnt > 0 && t->charged >= t->cnt);
	bool may = t->plan.exhausted && !t->loop && !t->tick.more;
	bool away = t->loop && t->rules.stopping && t->connection.lost_ns; /* it needs no server to stop */

	if ((t->connection.state != CONNECTION_READY && !away) || !hand_is_empty(&t->pool, &t->ledger))
		return 0;
	return must || (may && !tick_wait_at_end(&t->tick, w->now)) ? RUN_ENDS : 0;
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static int wait_ms(const struct worker *w)
{
	const struct trip *t = &w->trip;
	const struct connection *c = &t->connection;
	struct lease_oldest leases = lease_oldest(&t->lease, &t->pool);
	uint64_t now = w->now, first_ns;
	bool sends = connection_can_send(c, now) && !t->rules.stopping, held = leases.n > 0;
	int ms = pool_wait_ms(&t->pool, now), own;
	struct due due;

	round_trip_due(t, &leases, &due, now);
	due_add(&due, DUE_FENCE, held, t->rules.fenced && leases.fence_ns <= now ? now + FENCED_NS : leases.fence_ns);
	due_add(&due, DUE_STOP, t->rules.stopping && w->stop_ns > now, w->stop_ns);
	due_add(&due, DUE_STUCK, held && pool_unstarted(&t->pool) > 0, now + POOL_STUCK_NS);
	due_add(&due, DUE_RETRY, c->state == CONNECTION_WAITING || c->retry_ns > now, c->retry_ns);
	due_add(&due, DUE_CONNECT, c->state == CONNECTION_CONNECTING || (c->lost_ns && !t->loop), now + CONNECT_NS);
	due_add(&due, DUE_SILENT, true, c->state == CONNECTION_BUSY ? silent_ns(t) : UINT64_MAX);
	due_add(&due, DUE_SCALE, true, scale_due_ns(&t->scale, &t->pool));
	due_add(&due, DUE_ALIVE, t->setup->alive_ms > 0, w->alive_ns);
	due_add(&due, DUE_TICK, sends, t->tick.ns);
	due_add(&due, DUE_WATCH, sends && t->loop, watch_due_ns(&t->watch));
	first_ns = due_first_ns(&due);
	if (first_ns == UINT64_MAX)
		return ms;
	own = first_ns <= now ? 0 : (int)((first_ns - now) / NS_PER_MS) + 1;
	return ms < 0 || own < ms ? own : ms;
}

static int wait_for_events(struct worker *w)
{
	struct trip *t = &w->trip;
	struct pg *pg = t->connection.pg;
	struct pollfd fds[4 + 2 * 256];
	nfds_t n = 0;

	fds[n++] = (struct pollfd){ t->setup->signal_fd, POLLIN, 0 };
	if (t->connection.state == CONNECTION_BUSY || t->connection.state == CONNECTION_CONNECTING)
		fds[n++] = (struct pollfd){ pg_fd(pg), pg_events(pg), 0 };
	else if (t->connection.state == CONNECTION_READY)
		fds[n++] = (struct pollfd){ pg_fd(pg), POLLIN, 0 }; /* the server says goodbye */
	if (w->stall.pg)
		fds[n++] = (struct pollfd){ pg_fd(w->stall.pg), pg_events(w->stall.pg), 0 };
	n += pool_pollfds(&t->pool, fds + n, sizeof(fds) / sizeof(fds[0]) - n - 1);
	fds[n++] = (struct pollfd){ log_waits_fd(), POLLOUT, 0 }; /* poll() ignores it below 0 */
	if (poll(fds, n, wait_ms(w)) < 0)
		return 0;
	if (t->connection.state != CONNECTION_READY || !fds[1].revents || pg_alive(pg))
		return 0;
	pg_gone(pg, "idle", w->err);
	return DEFERRED_ELOST;
}

/* ---- the loop ---------------------------------------------------------------------------------- */

enum when {
	ALWAYS,
	READY,    /* between cycles */
	MAY_SEND, /* and no pause before the next one */
};

/* A turn is these steps in order. A step returns 0, DEFERRED_ELOST when the connection is lost, RUN_ENDS, or the error
 * that the run ends with. */
static const struct {
	enum when when;
	int (*run)(struct worker *w);
} steps[] = {
	{ ALWAYS, fence_leases },     /* before anything else: this process may have been stopped for long */
	{ ALWAYS, report_alive },
	{ ALWAYS, read_signals },
	{ ALWAYS, read_pool },
	{ ALWAYS, kill_after_grace },
	{ ALWAYS, check_answer },
	{ ALWAYS, look_at_stall },
	{ ALWAYS, poll_server },
	{ ALWAYS, give_up_server },
	{ READY, ask_breaker },
	{ READY, listen_for_jobs },
	{ ALWAYS, dispatch_jobs },
	{ MAY_SEND, send_offer },
	{ MAY_SEND, run_ticks },
	{ MAY_SEND, watch_others },
	{ MAY_SEND, send_alerts },
	{ MAY_SEND, start_cycle },
	{ ALWAYS, end_if_done },
	{ ALWAYS, show_pulse },
	{ ALWAYS, wait_for_events },
};

static bool step_may_run(const struct connection *c, enum when when, uint64_t now)
{
	return when == ALWAYS || (when == READY ? c->state == CONNECTION_READY : connection_can_send(c, now));
}

/* Returns 0 to go on, RUN_ENDS, or an error. */
static int run_turn(struct worker *w)
{
	w->now = clock_ns();
	if (log_waits_fd() >= 0)
		log_flush(0);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		int rc = step_may_run(&w->trip.connection, steps[i].when, w->now) ? steps[i].run(w) : 0;

		if (rc != 0 && rc != DEFERRED_ELOST)
			return rc;
		if (rc == DEFERRED_ELOST) {
			w->now = clock_ns(); /* the step may have taken long, and no time lies before the loss */
			session_lose(&w->trip, w->err, w->now);
		}
		if (w->err->code)
			error_clear(w->err);
	}
	return 0;
}

/* ---- start and end ----------------------------------------------------------------------------- */

static void log_recovered(void *data, int64_t id, const char *fn, int attempt, bool final, bool recorded)
{
	const struct trip *t = data;

	if (recorded)
		log_line(LOG_L_WARNING, "job %lld %s attempt %d: %s; %s", (long long)id, fn, attempt,
			 t->setup->predecessor_killed ? "superseded" : "lost", final ? "dead" : "ready again");
	else
		log_line(LOG_L_WARNING, "job %lld %s: was held by a run that has ended; ready again", (long long)id,
			 fn);
}

/* Takes back what the run before held. */
static int recover_jobs(struct trip *t, struct deferred_error *err)
{
	const char *database = config_text(t->config, "database.conninfo");
	struct begun_file left = { 0 };
	bool known = begun_read(&left, t->setup->pidfile, database);
	const struct store_begun begun = { left.worker, left.receipt, BEGUN_MAX };
	int rc = store_recover(t->connection.pg, &t->scope, t->worker_id,
			       t->setup->predecessor_killed ? JOB_SUPERSEDED : JOB_LOST, known ? &begun : NULL,
			       log_recovered, t, err);

	if (rc < 0)
		return rc;
	begun_open(&t->begun, t->setup->pidfile, database, t->worker_id);
	t->pool.begun = t->begun.file ? &t->begun : NULL;
	return 0;
}

/* work: there are jobs, as far as is known. */
static int begin_run(struct trip *t, bool work, struct deferred_error *err)
{
	const struct worker_setup *setup = t->setup;
	int rc = store_zone_check(t->connection.pg, config_text(t->config, "timezone"), err);
	struct balance_in balance_in;

	if (rc == 0 && setup->before_work)
		rc = setup->before_work(setup->data, err);
	/* Not earlier: before_work() has looked up the user to switch to. */
	if (rc == 0)
		rc = pool_init(&t->pool, setup->runners, err);
	if (rc < 0)
		return rc;
	apply_settings(t);
	session_log_missing_queues(t);
	if (work)
		pool_warm_up(&t->pool);
	rc = session_register(t, err);
	if (rc == 0)
		rc = recover_jobs(t, err);
	balance_in = round_trip_balance_in(t);
	return rc == 0 ? balance_begin(&t->balance, t->connection.pg, t->config, &balance_in, err) : rc;
}

/* A failure here is logged, and the next run repairs it. Nothing is left in hand. */
static void end_run(struct trip *t)
{
	struct pg *pg = t->connection.pg;
	struct deferred_error err = { 0 };
	bool folded = false;

	if (t->connection.state != CONNECTION_READY)
		return;
	if (store_end(pg, t->worker_id, &err) < 0 || store_maintain(pg, &err) < 0 ||
	    store_fold_old(pg, STORE_FOLD_RUN_MS, &folded, &err) < 0) {
		log_error(LOG_L_WARNING, &err, "the end of the run could not be stored");
		folded = false;
	}
	alerting_at_end(&t->alerting, pg, folded);
}

static void clear_worker(struct worker *w)
{
	struct trip *t = &w->trip;

	store_cycle_clear(&t->cycle);
	lanes_clear(&t->lanes);
	pg_close(t->connection.pg);
	pg_close(w->stall.pg);
	ledger_clear(&t->ledger);
	free(t->listening.wake.open.id);
	unknown_function_clear(&t->unknown);
	attempt_log_forget(&t->attempt_log);
	alerting_clear(&t->alerting);
}

/* Connects, and asks whether there is work. Without work a start changes nothing and costs no more than this. */
static int probe_server(struct trip *t, struct store_probe *probe, struct deferred_error *err)
{
	struct deferred_error schema = { 0 };
	struct pg **pg = &t->connection.pg;
	int rc = pg_open(pg, config_text(t->config, "database.conninfo"), "check_deferred", err);

	if (rc == 0)
		rc = store_probe(*pg, &t->scope, probe, err);
	/* Name the cause instead of the table that is missing. */
	if (rc == DEFERRED_ESCHEMA && migrate_check(*pg, &schema) < 0 && err)
		*err = schema;
	if (rc == DEFERRED_ESCHEMA)
		error_hint(err, "run: deferred migrate");
	if (rc < 0 && *pg && strcmp(err->sqlstate, "42501") == 0)
		error_hint(err, "grant deferred_worker to \"%s\"", pg_user(*pg));
	return rc == 0 ? migrate_accepts(probe->schema_version, probe->schema_oldest, err) : rc;
}

static int run_until_done(struct worker *w, const struct store_probe *probe, struct deferred_error *err)
{
	struct trip *t = &w->trip;
	struct deferred_error fatal;
	int rc = session_lineage(t, err);

	if (rc < 0)
		return rc;
	tick_set_up(&t->tick, probe->tick);
	store_set_answer_ms(t->lease_ms / 4 < 10000 ? (int)(t->lease_ms / 4) : 10000);
	rc = begin_run(t, probe->work, err);
	if (rc == 0)
		send_event(w, WORKER_READY);
	while (rc == 0)
		rc = run_turn(w);
	if (rc == RUN_ENDS)
		rc = w->rc;
	fatal = t->pool.fatal;
	pool_clear(&t->pool);
	if (rc == 0)
		end_run(t);
	begun_close(&t->begun, rc == 0);
	if (fatal.code)
		*err = fatal;
	return fatal.code ? fatal.code : rc;
}

int worker_run(const struct worker_setup *setup, struct worker_summary *summary, struct deferred_error *err)
{
	uint64_t start = clock_ns();
	struct store_probe probe = { 0 };
	struct worker w = { .trip.setup = setup, .err = err };
	struct trip *t = &w.trip;
	bool work;
	int rc;

	delayed_forget(&t->delayed);
	ledger_init(&t->ledger);
	apply_settings(t);
	t->random = (uint64_t)config_int(t->config, "seed");
	if (t->random == 0 && getrandom(&t->random, sizeof(t->random), 0) != sizeof(t->random))
		t->random = clock_ns();
	rc = probe_server(t, &probe, err);
	work = probe.work || probe.tick || probe.unclean || t->loop;
	/* There are jobs, but none in these queues: a misspelt name would not be noticed otherwise. */
	if (rc == 0 && !work && probe.any)
		session_log_missing_queues(t);
	if (rc == 0 && work)
		rc = run_until_done(&w, &probe, err);
	*summary = (struct worker_summary){ t->record.counts, (double)(clock_ns() - start) / 1e9 };
	clear_worker(&w);
	return rc;
}
