/* SPDX-License-Identifier: MIT */
#include "engine/cycle/round_trip.h"

#include "base/clock.h"
#include "base/random.h"
#include "engine/step/hand.h"
#include "engine/step/parents.h"
#include "engine/step/progress_report.h"
#include "engine/step/step_save.h"

#include <stdlib.h>
#include <string.h>

#define SINGLE_LOCK_MS 20          /* the longest wait for a lock of an attempt that was set aside */
#define GATHER_NS (20 * NS_PER_MS) /* a result waits at most that long for others */

/* ---- what is due --------------------------------------------------------------------------------- */

struct balance_in round_trip_balance_in(const struct trip *t)
{
	return (struct balance_in){
		.worker = t->worker_id,
		.lease_ms = t->lease_ms,
		.wanted = !t->rules.stopping && !t->plan.exhausted && !(t->cnt > 0 && t->charged >= t->cnt),
		.charged = t->charged,
		.not_begun = (int64_t)(pool_unstarted(&t->pool) + t->ledger.n[LEDGER_RETURNED] +
				       t->ledger.n[LEDGER_RETURNING]),
	};
}

static uint64_t balance_ns(const struct trip *t)
{
	struct balance_in in;

	if (!t->balance.on)
		return UINT64_MAX;
	in = round_trip_balance_in(t);
	return balance_due_ns(&t->balance, &in);
}

static uint64_t poll_ns(const struct trip *t)
{
	return t->loop ? polling_due_ns(&t->polling, t->plan.rate_ns) : UINT64_MAX;
}

/* Leases are renewed in time, at once on a new connection, and when a job of ours may have been cancelled. */
static uint64_t renew_ns(const struct trip *t, const struct lease_oldest *leases)
{
	uint64_t check_ns = t->listening.check_ns, ns = t->lease.ask_first ? 0 : leases->renew_ns;

	return check_ns && check_ns < ns ? check_ns : ns;
}

/* Short jobs come in crowds: their results gather while there are others to be run. */
static uint64_t record_ns(const struct trip *t, uint64_t now)
{
	bool gathers = !t->rules.stopping && pool_unstarted(&t->pool) > 0 && pool_run_us(&t->pool, now) < PLAN_SHORT_US;

	return gathers ? t->ledger.ended_ns + GATHER_NS : 0;
}

void round_trip_due(const struct trip *t, const struct lease_oldest *leases, struct due *due, uint64_t now)
{
	const size_t *n = t->ledger.n;
	bool asleep = wake_asleep(&t->plan, t->rules.stopping);

	due_clear(due);
	if (!connection_can_send(&t->connection, now))
		return;
	due_add(due, DUE_RENEW, leases->n > 0, renew_ns(t, leases));
	due_add(due, DUE_RECORD, n[LEDGER_ENDED] > 0, record_ns(t, now));
	due_add(due, DUE_OUTCOMES, n[LEDGER_REFUSED] > 0, 0);
	due_add(due, DUE_PARENTS, n[LEDGER_CHILD] > 0, 0);
	due_add(due, DUE_STEP, true, step_save_due_ns(&t->pool));
	due_add(due, DUE_SET_ASIDE, true, ledger_due_ns(&t->ledger, LEDGER_SET_ASIDE));
	due_add(due, DUE_RETURN, true, ledger_due_ns(&t->ledger, LEDGER_RETURNED));
	due_add(due, DUE_BALANCE, true, balance_ns(t));
	due_add(due, DUE_CLAIM, t->plan.claim_ns > now, t->plan.claim_ns);
	due_add(due, DUE_HOUSEKEEPING, t->loop && !t->rules.stopping, t->housekeeping.ns);
	due_add(due, DUE_POLL, asleep, poll_ns(t));
	due_add(due, DUE_LISTEN, true, wake_deadline(&t->listening.wake, asleep));
}

/* ---- what is known when a claim is considered ---------------------------------------------------- */

struct in_hand {
	size_t single_lease, limited;
	int64_t params; /* bytes */
};

static void count_job(void *data, struct job *job)
{
	struct in_hand *n = data;

	n->single_lease += job->alone;
	n->limited += job->limited;
	n->params += (int64_t)job->params_len + job->parents_len + job->steps_len;
}

static struct plan_in what_is_known(const struct trip *t, bool hold, uint64_t now)
{
	int64_t balance = balance_left(&t->balance, t->charged), cnt = t->cnt > 0 ? t->cnt - t->charged : INT64_MAX;
	struct in_hand in_hand = { 0 };
	size_t children = t->ledger.n[LEDGER_CHILD] + t->ledger.n[LEDGER_ASKING];
	int64_t ledger = 0, left = cnt < balance ? cnt : balance;

	/* Nothing can be recorded: the next claim, of one job, finds out when that is over. */
	if (t->record.blocked) {
		hold = hold || record_waits(&t->record, &t->ledger) || pool_load(&t->pool) > 0;
		left = left < 1 ? left : 1;
	}
	pool_each_job(&t->pool, count_job, &in_hand);
	for (struct job *job = t->ledger.first; job; job = job->next) {
		bool child = job->ledger == LEDGER_CHILD || job->ledger == LEDGER_ASKING;

		if (child)
			count_job(&in_hand, job);
		else
			ledger += job->params_len;
		/* They keep their slots in PIDFILE.begun until they are recorded. */
		in_hand.single_lease += t->begun.file && job->alone && !child;
	}
	return (struct plan_in){
		.now = now,
		.closed = t->rules.stopping || t->pool.fatal.code,
		.hold = hold,
		.left = left,
		.batch = t->batch,
		.run_us = pool_run_us(&t->pool, now),
		.runners = t->pool.runners_max,
		.per_call = pool_per_call(&t->pool),
		.room = scale_room(&t->scale, &t->pool),
		.idle = hand_idle_runners(&t->pool),
		.unstarted = pool_unstarted(&t->pool) + children,
		.load = pool_load(&t->pool) + children,
		.held = pool_held(&t->pool),
		.single_lease = in_hand.single_lease,
		.notes_begun = t->begun.file != NULL,
		.limited = in_hand.limited,
		.params = in_hand.params + ledger,
		.lanes = t->lanes.n > 0,
	};
}

/* ---- what is sent -------------------------------------------------------------------------------- */

static int add_claim(struct trip *t, const struct plan_ask *ask, struct deferred_error *err)
{
	struct store_claim claim = {
		.worker = t->worker_id,
		.lease_ms = t->lease_ms,
		.seed = (int64_t)random_next(&t->random),
		.window = (int)config_int(t->config, "window"),
		.n = (int)ask->free,
		.limited = (int)ask->limited,
		.rated = ask->rated,
		.run = ask->run,
		.bytes = ask->bytes,
		.alone = ask->single_lease,
		.lanes = &t->lanes,
		.look = ask->look,
		.round = t->round,
		.new_round = ask->new_round,
		.lanes_round = t->lanes_round,
		.new_lanes_round = ask->new_lanes_round,
	};
	const char **known = unknown_function_known(&t->unknown, &t->pool, &claim.known_len);
	int rc;

	claim.known = known;
	rc = store_cycle_claim(&t->cycle, &t->scope, &claim, err);
	free(known);
	return rc;
}

static int add_records(struct trip *t, bool *adds, struct deferred_error *err)
{
	int rc = record_add(&t->ledger, &t->cycle, adds, err);

	if (rc == 0 && t->ledger.n[LEDGER_RECORDING] > 0)
		rc = progress_report_add_end(&t->ledger, &t->cycle, err);
	return rc == 0 && t->ledger.n[LEDGER_RECORDING] > 0 ? step_save_add_end(&t->ledger, &t->cycle, err) : rc;
}

/* A lease is closed with the last of its jobs that was in hand. */
static int add_close(struct trip *t, struct deferred_error *err)
{
	struct store_ids held = { 0 };
	int rc = 0;

	ledger_leave_recording(&t->ledger);
	if (t->ledger.closing.len > 0 && hand_receipts(&t->pool, &t->ledger, &held))
		ledger_close(&t->ledger, &held);
	if (t->ledger.closed.len > 0)
		rc = store_cycle_close(&t->cycle, t->ledger.closed.id, t->ledger.closed.len, err);
	free(held.id);
	return rc;
}

static int add_renewal(struct trip *t, uint64_t now, struct deferred_error *err)
{
	listening_checked(&t->listening, now);
	return lease_add_renewal(&t->lease, &t->pool, &t->cycle, t->lease_ms, now, err);
}

static int add_balance(struct trip *t, struct deferred_error *err)
{
	struct balance_in in = round_trip_balance_in(t);

	return balance_add(&t->balance, &t->cycle, &in, err);
}

static int send_cycle(struct trip *t, int rc, struct deferred_error *err)
{
	if (rc == 0)
		rc = store_cycle_send(&t->cycle, err);
	if (rc == 0)
		connection_sent(&t->connection);
	return rc;
}

/* One attempt that was set aside, in a cycle that does nothing else. */
static int send_single(struct trip *t, uint64_t now, struct deferred_error *err)
{
	static const struct plan_ask no_claim;
	bool adds = false;
	int rc;

	store_cycle_begin(&t->cycle, t->connection.pg);
	t->single = true;
	ledger_record_set_aside(&t->ledger, now);
	rc = store_cycle_patience(&t->cycle, SINGLE_LOCK_MS, err);
	if (rc == 0)
		rc = step_save_add(NULL, &t->ledger, &t->cycle, now, err);
	if (rc == 0)
		rc = add_records(t, &adds, err);
	plan_sent(&t->plan, &no_claim, adds, now);
	return send_cycle(t, rc, err);
}

static int send_housekeeping(struct trip *t, uint64_t now, struct deferred_error *err)
{
	store_cycle_begin(&t->cycle, t->connection.pg);
	return send_cycle(
		t, housekeeping_add(&t->housekeeping, &t->cycle, &t->scope, t->worker_id, t->delayed.from_us, now, err),
		err);
}

static int send_listening(struct trip *t, enum wake_step step, struct deferred_error *err)
{
	store_cycle_begin(&t->cycle, t->connection.pg);
	return send_cycle(
		t, listening_add_step(&t->listening, &t->cycle, &t->scope, step, t->worker_id, t->delayed.from_us, err),
		err);
}

struct reasons {
	struct plan_ask ask;
	enum wake_step step;
	bool renew, balance;
	size_t progress;
};

/* Results go first: a recorded result may end, give up or make ready what follows. */
static int send_all(struct trip *t, const struct reasons *r, uint64_t now, struct deferred_error *err)
{
	bool claims = r->ask.free + r->ask.limited > 0, adds = false;
	int rc;

	store_cycle_begin(&t->cycle, t->connection.pg);
	ledger_record(&t->ledger);
	ledger_give_back(&t->ledger, now);
	ledger_ask(&t->ledger);
	/* Before the end of its attempt: no receipt is valid behind that. */
	rc = step_save_add(&t->pool, &t->ledger, &t->cycle, now, err);
	if (rc == 0)
		rc = add_records(t, &adds, err);
	if (rc == 0)
		rc = add_close(t, err);
	if (rc == 0)
		rc = record_add_outcomes(&t->ledger, &t->cycle, err);
	if (rc == 0 && r->progress > 0)
		rc = progress_report_add(&t->pool, &t->cycle, r->progress, err);
	if (rc == 0)
		rc = record_add_returns(&t->ledger, &t->cycle, err);
	if (rc == 0)
		rc = parents_add(&t->ledger, &t->cycle, err);
	if (rc == 0 && r->renew)
		rc = add_renewal(t, now, err);
	if (rc == 0 && r->balance)
		rc = add_balance(t, err);
	if (rc == 0)
		rc = listening_add(&t->listening, &t->cycle, &t->scope, r->step, claims, err);
	if (rc == 0 && r->ask.promote)
		rc = delayed_add(&t->delayed, &t->cycle, t->worker_id, t->scope.max_attempts, now, err);
	plan_sent(&t->plan, &r->ask, adds, now);
	if (rc == 0 && claims)
		rc = add_claim(t, &r->ask, err);
	return send_cycle(t, rc, err);
}

int round_trip_start(struct trip *t, uint64_t now, struct deferred_error *err)
{
	struct lease_oldest leases = lease_oldest(&t->lease, &t->pool);
	bool again = t->single, set_aside;
	struct reasons r = { 0 };
	struct plan_in in;
	struct due due;

	round_trip_due(t, &leases, &due, now);
	t->single = false;
	if (leases.n == 0)
		listening_no_leases(&t->listening);
	if (due_now(&due, DUE_HOUSEKEEPING, now))
		return send_housekeeping(t, now, err);
	/* Single attempts and other cycles take turns. Leases go first. */
	r.renew = due_now(&due, DUE_RENEW, now);
	set_aside = due_now(&due, DUE_SET_ASIDE, now);
	if (set_aside && !again && !r.renew)
		return send_single(t, now, err);
	/* A claim that waited for a lock in vain may do so again: leases must not end meanwhile. */
	r.renew = r.renew || (leases.n > 0 && t->rollback.tries > 0);
	r.progress = progress_report_count(&t->progress_ns, &t->pool, now);
	r.step = wake_next(&t->listening.wake, &t->plan, t->rules.stopping, poll_ns(t), now);
	r.balance = balance_ns(t) <= now; /* a worker that was woken joins its group */
	in = what_is_known(t, leases.n > 0 && t->lease.ask_first, now);
	r.ask = plan_next(&t->plan, &in);
	lease_asked(&t->lease);
	if (r.ask.free + r.ask.limited > 0 || due_now(&due, DUE_RECORD, now) ||
	    (r.ask.wanted > 0 && t->ledger.n[LEDGER_ENDED] > 0) || due_now(&due, DUE_OUTCOMES, now) ||
	    due_now(&due, DUE_RETURN, now) || due_now(&due, DUE_PARENTS, now) || due_now(&due, DUE_STEP, now) ||
	    r.renew || r.balance || r.progress > 0)
		return send_all(t, &r, now, err);
	if (set_aside)
		return send_single(t, now, err);
	return listening_needs_cycle(r.step) ? send_listening(t, r.step, err) : 0;
}

/* ---- what comes back ----------------------------------------------------------------------------- */

static void after_claim(struct trip *t)
{
	struct store_cycle *c = &t->cycle;
	struct plan_got got = {
		.sent_ns = c->sent_ns,
		.free = c->claims,
		.limited = c->claims_limited,
		.promoted = c->promotes,
		.made_ready = c->promoted > 0 || c->losses.len > 0,
		.looked = c->looks,
		.look_us = (uint64_t)c->look_us,
		.free_n = c->claimed_len,
		.limited_n = c->limited_len,
		.limited_keyed = c->limited_keyed,
		.dropped = t->pool.dropped,
		.single_lease_n = c->claimed_alone,
		.busy = c->busy,
		.more = c->more,
		.cut = c->cut,
		.limits = c->limits,
		.limited_seen = (size_t)c->limited_seen,
		.limited_us = (uint64_t)c->limited_us,
		.wait_ms = c->limited_wait_ms,
		.unrecorded = t->ledger.n[LEDGER_ENDED] > 0,
		.waits = !t->loop && t->cnt == 0,
	};
	int64_t pause_ms = plan_learn(&t->plan, &got);

	if (c->claims_limited) {
		memcpy(t->round, c->round, sizeof(t->round));
		t->pool.dropped = 0;
	}
	if (c->looks)
		memcpy(t->lanes_round, c->lanes_round, sizeof(t->lanes_round));
	if (c->claims)
		lanes_move(&t->lanes, &c->lanes);
	if (pause_ms > 0)
		connection_pause(&t->connection, c->sent_ns + (uint64_t)pause_ms * NS_PER_MS);
	t->charged += (int64_t)(c->claimed_len + c->limited_len);
	hand_begin(&t->pool, parents_take(&t->ledger, c->claimed));
	hand_begin(&t->pool, parents_take(&t->ledger, c->limited));
	c->claimed = c->limited = NULL;
	if (t->rules.stopping)
		hand_return_unstarted(&t->pool, &t->ledger, NULL); /* claimed when we were asked to stop */
}

static void learn_due(struct trip *t)
{
	if (t->loop)
		polling_learn(&t->polling, &t->cycle.due);
	tick_learn(&t->tick, &t->cycle.due);
}

static void after_records(struct trip *t)
{
	struct store_ids held = { 0 };

	struct record_answer answer = record_after(&t->record, &t->pool, &t->ledger, &t->cycle);

	t->charged -= (int64_t)answer.returned;
	if (answer.lease_ended)
		delayed_look_at_all_leases(&t->delayed);
	if (t->begun.used > 0 && hand_receipts(&t->pool, &t->ledger, &held))
		begun_keep(&t->begun, &held);
	free(held.id);
}

/* The first transaction of the cycle is committed. */
static void after_first(struct trip *t)
{
	struct balance_in balance_in;

	watch_log_losses(&t->cycle.losses, "did not renew its lease");
	after_records(t);
	step_save_after(&t->pool, &t->cycle, clock_ns());
	hand_begin(&t->pool, parents_after(&t->ledger, &t->cycle, clock_ns()));
	lease_after_renewal(&t->pool, &t->ledger, &t->cycle);
	if (t->cycle.tracks) {
		balance_in = round_trip_balance_in(t);
		balance_after_report(&t->balance, &t->cycle.track, t->cycle.sent_ns, &balance_in);
	}
	delayed_after(&t->delayed, &t->cycle);
	learn_due(t);
}

/* Steps that learn from a claim, when both transactions are committed. */
static void learn_claim(struct trip *t, uint64_t now)
{
	const struct store_cycle *c = &t->cycle;
	bool claims = c->claims || c->claims_limited, got_some = c->claimed_len + c->limited_len > 0;

	balance_after_claim(&t->balance, got_some, claims && plan_idle(&t->plan, c->sent_ns));
	scale_after_claim(&t->scale, c, t->plan.asked_free);
	if (t->loop && claims)
		polling_after_claim(&t->polling, got_some, t->plan.exhausted, now);
	listening_after(&t->listening, &t->plan, &t->cycle, now);
}

int round_trip_poll(struct trip *t, uint64_t now, struct deferred_error *err)
{
	bool done;
	int rc = store_cycle_poll(&t->cycle, &done, err);

	if (rc == 0 && !done)
		return 0;
	if (t->cycle.unwatched)
		watch_unlocked(&t->watch);
	/* Each of the two stands, whatever became of the other. */
	if (rc < 0 && done && t->cycle.recorded_ok && !t->housekeeping.under_way)
		after_first(t);
	if (rc < 0 && done && t->cycle.claimed_ok)
		after_claim(t);
	if (rc < 0)
		return rc;
	if (t->single)
		plan_again(&t->plan); /* what it held back may be ready now, and no claim came with it */
	else
		t->rollback.tries = 0;
	connection_answered(&t->connection);
	if (t->housekeeping.under_way) {
		learn_due(t);
		rc = housekeeping_after(&t->housekeeping, &t->cycle, err);
		alerting_set_due(&t->alerting);
		store_cycle_clear(&t->cycle);
		return rc;
	}
	after_first(t);
	after_claim(t);
	learn_claim(t, now);
	store_cycle_clear(&t->cycle);
	return 0;
}
