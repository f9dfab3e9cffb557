/* SPDX-License-Identifier: MIT */
/*
 * The cycle: one round trip in two transactions. The first records, asks, gives back, renews and reports; the second
 * claims. Each stands whatever becomes of the other.
 */
#include "engine/state.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define LOST_LATE_MS 10000          /* leases that have ended are looked for among those of late, */
#define LOST_ALL_NS (10 * NS_PER_S) /* and now and then among all: delayed.c tells why */
#define ALONE_LOCK_MS 20            /* an attempt set apart waits so long for a lock */

/* ---- what is known when a claim is considered ---------------------------------------------------- */

struct in_hand {
	size_t alone, limited;
	int64_t params; /* bytes */
};

static void count_job(void *data, struct job *job)
{
	struct in_hand *n = data;

	n->alone += job->alone;
	n->limited += job->limited;
	n->params += (int64_t)job->params_len + job->parents_len;
}

static struct plan_in what_is_known(const struct worker *w, bool hold, uint64_t now)
{
	int64_t balance = worker_balance_left(w), cnt = w->cnt > 0 ? w->cnt - w->charged : INT64_MAX;
	struct in_hand in_hand = { 0 };
	size_t children = w->ledger.n[LEDGER_CHILD] + w->ledger.n[LEDGER_ASKING];
	int64_t ledger = 0, left = cnt < balance ? cnt : balance;

	/* Nothing can be recorded: the next claim, for one job, finds out when that is over. */
	if (w->unrecordable) {
		hold = hold || worker_waits_to_record(w) || pool_load(&w->pool) > 0;
		left = left < 1 ? left : 1;
	}
	pool_each_job(&w->pool, count_job, &in_hand);
	for (struct job *job = w->ledger.first; job; job = job->next) {
		if (job->ledger == LEDGER_CHILD || job->ledger == LEDGER_ASKING)
			count_job(&in_hand, job);
		else
			ledger += job->params_len;
		/* They keep their slots in PIDFILE.begun until they are recorded. */
		in_hand.alone +=
			w->begun.file && job->alone && job->ledger != LEDGER_CHILD && job->ledger != LEDGER_ASKING;
	}
	return (struct plan_in){
		.now = now,
		.closed = w->stopping || w->pool.fatal.code,
		.hold = hold,
		.left = left,
		.batch = w->batch,
		.run_us = pool_run_us(&w->pool, now),
		.runners = w->pool.runners_max,
		.room = worker_scale_room(w),
		.idle = worker_idle_runners(w),
		.unstarted = pool_unstarted(&w->pool) + children,
		.load = pool_load(&w->pool) + children,
		.alone = in_hand.alone,
		.notes_begun = w->begun.file != NULL,
		.limited = in_hand.limited,
		.params = in_hand.params + ledger,
		.lanes = w->lanes.n > 0,
	};
}

/* ---- what is sent -------------------------------------------------------------------------------- */

/* Those that runners have, once a job of none of them was met; NULL: no such job, or no memory. Names that nobody has
 * are not learnt one by one: who defers jobs of many of them would have each claim bring one more, and nothing else. */
static const char **known_functions(const struct worker *w, size_t *len)
{
	const char **names = w->unknown_len > 0 ? malloc((w->pool.functions_len + 1) * sizeof(*names)) : NULL;

	for (size_t i = 0; names && i < w->pool.functions_len; i++)
		names[i] = w->pool.functions[i].name;
	*len = names ? w->pool.functions_len : 0;
	return names;
}

static int add_claim(struct worker *w, const struct plan_ask *ask, struct deferred_error *err)
{
	struct store_claim claim = {
		.worker = w->worker_id,
		.lease_ms = w->lease_ms,
		.seed = (int64_t)worker_random(w),
		.window = (int)config_int(w->config, "window"),
		.n = (int)ask->free,
		.limited = (int)ask->limited,
		.rated = ask->rated,
		.bytes = ask->bytes,
		.alone = ask->alone,
		.lanes = &w->lanes,
		.look = ask->look,
		.round = w->round,
		.anew = ask->anew,
		.lanes_round = w->lanes_round,
		.lanes_anew = ask->lanes_anew,
	};
	const char **known = known_functions(w, &claim.known_len);
	int rc;

	claim.known = known;
	rc = store_cycle_claim(&w->cycle, &w->scope, &claim, err);
	free(known);
	return rc;
}

static int send(struct worker *w, int rc, struct deferred_error *err)
{
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

/* One attempt set apart, in a cycle that does nothing else. */
static int send_apart(struct worker *w, uint64_t now, struct deferred_error *err)
{
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	w->alone = true;
	ledger_record_apart(&w->ledger, now);
	rc = store_cycle_patience(&w->cycle, ALONE_LOCK_MS, err);
	return send(w, rc == 0 ? worker_add_records(w, err) : rc, err);
}

static int add_renewal(struct worker *w, uint64_t now, struct deferred_error *err)
{
	worker_listen_checked(w, now);
	w->renewal_ns = now;
	w->renew_ns = now + worker_fence_after_ns(w) / 12;
	return worker_add_renewal(w, err);
}

/* Delayed jobs that are due and those of leases that have ended become ready, for the claim that follows. */
static int add_promotion(struct worker *w, uint64_t now, struct deferred_error *err)
{
	bool all = now >= w->delayed.lost_ns;
	int rc;

	if (all)
		w->delayed.lost_ns = now + LOST_ALL_NS;
	worker_delayed_begin(w, now);
	rc = store_cycle_lost(&w->cycle, w->scope.max_attempts, all ? 0 : LOST_LATE_MS, err);
	if (rc == 0)
		rc = store_cycle_promote(&w->cycle, w->delayed.from_us, err);
	return rc == 0 ? store_cycle_next_due(&w->cycle, w->worker_id, w->delayed.from_us, err) : rc;
}

/* What came of jobs goes first: what is recorded may end, give up or make ready what follows. */
static int send_cycle(struct worker *w, const struct plan_ask *ask, enum wake_step step, bool renew, bool balance,
		      size_t progress, uint64_t now, struct deferred_error *err)
{
	bool claims = ask->free + ask->limited > 0;
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	ledger_record(&w->ledger);
	ledger_give_back(&w->ledger, now);
	ledger_ask(&w->ledger);
	rc = worker_add_records(w, err);
	if (rc == 0)
		rc = worker_add_close(w, err);
	if (rc == 0)
		rc = worker_add_outcomes(w, err);
	if (rc == 0 && progress > 0)
		rc = worker_add_progress(w, progress, err);
	if (rc == 0)
		rc = worker_add_returns(w, err);
	if (rc == 0)
		rc = worker_add_parents(w, err);
	if (rc == 0 && renew)
		rc = add_renewal(w, now, err);
	if (rc == 0 && balance)
		rc = worker_balance_add(w, err);
	if (rc == 0)
		rc = worker_listen_add(w, step, claims, err);
	if (rc == 0 && ask->promote)
		rc = add_promotion(w, now, err);
	plan_sent(&w->plan, ask, now);
	if (rc == 0 && claims)
		rc = add_claim(w, ask, err);
	return send(w, rc, err);
}

/* Begin a cycle if there is reason to. */
int worker_start_cycle(struct worker *w, uint64_t now, struct deferred_error *err)
{
	bool again = w->alone, renew, balance;
	enum wake_step step;
	struct plan_in in;
	struct plan_ask ask;
	struct due due;
	size_t progress;

	due_look(&due, w, now);
	renew = due_now(&due, DUE_RENEW, now);
	w->alone = false;
	if (!due.leases)
		w->listen.check_ns = 0; /* it was about one that has ended */
	if (due_now(&due, DUE_KEEP, now))
		return worker_idle_keep(w, now, err);
	/* By turns with the others; leases go first. */
	if (due_now(&due, DUE_APART, now) && !again && !renew)
		return send_apart(w, now, err);
	/* A claim that waited for a lock in vain may do so again: leases must not end meanwhile. */
	renew = renew || (due.leases && w->tries > 0);
	progress = worker_new_progress(w, now);
	step = wake_next(&w->listen.wake, &w->plan, w->stopping, worker_idle_look_ns(w), now);
	balance = worker_balance_due_ns(w) <= now; /* who was woken joins his group */
	in = what_is_known(w, due.leases && w->renew_first, now);
	ask = plan_next(&w->plan, &in);
	w->renew_first = false;
	if (ask.free + ask.limited > 0 || due_now(&due, DUE_RECORD, now) ||
	    (ask.wanted > 0 && w->ledger.n[LEDGER_ENDED] > 0) || due_now(&due, DUE_ASK, now) ||
	    due_now(&due, DUE_RETURN, now) || due_now(&due, DUE_PARENTS, now) || renew || balance || progress > 0)
		return send_cycle(w, &ask, step, renew, balance, progress, now, err);
	return due_now(&due, DUE_APART, now) ? send_apart(w, now, err) : worker_listen_cycle(w, step, err);
}

/* ---- what comes back ----------------------------------------------------------------------------- */

/* Those with leases of their own begin before what waits here. */
void worker_begin(struct worker *w, struct job *jobs)
{
	struct job *first = NULL, *others = NULL, **first_tail = &first, **others_tail = &others;

	while (jobs) {
		struct job ***tail = jobs->alone || jobs->limited ? &first_tail : &others_tail;

		**tail = jobs;
		*tail = &jobs->next;
		jobs = jobs->next;
	}
	*first_tail = *others_tail = NULL;
	pool_add(&w->pool, others);
	pool_add_first(&w->pool, first);
}

static void add_claimed(struct worker *w)
{
	worker_begin(w, worker_sort_out_children(w, w->cycle.claimed));
	worker_begin(w, worker_sort_out_children(w, w->cycle.limited));
	w->cycle.claimed = w->cycle.limited = NULL;
}

static void after_claim(struct worker *w)
{
	struct store_cycle *c = &w->cycle;
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
		.alone_n = c->claimed_alone,
		.busy = c->busy,
		.more = c->more,
		.cut = c->cut,
		.limits = c->limits,
		.limited_seen = (size_t)c->limited_seen,
		.limited_us = (uint64_t)c->limited_us,
		.wait_ms = c->limited_wait_ms,
		.unrecorded = w->ledger.n[LEDGER_ENDED] > 0,
		.waits = !w->loop && w->cnt == 0,
	};
	int64_t pause_ms = plan_learn(&w->plan, &got);

	if (c->claims_limited)
		memcpy(w->round, c->round, sizeof(w->round));
	if (c->looks)
		memcpy(w->lanes_round, c->lanes_round, sizeof(w->lanes_round));
	if (c->claims)
		lanes_move(&w->lanes, &c->lanes);
	if (pause_ms > 0)
		w->retry_ns = c->sent_ns + (uint64_t)pause_ms * NS_PER_MS;
	w->charged += (int64_t)(c->claimed_len + c->limited_len);
	add_claimed(w);
	if (w->stopping)
		worker_give_back_unstarted(w, NULL); /* the claim was under way when we were asked to stop */
}

/* The first transaction of the cycle is committed. */
static void after_first(struct worker *w)
{
	worker_tell_losses(&w->cycle.losses, "did not renew its lease");
	worker_after_records(w);
	worker_after_parents(w);
	worker_after_renewal(w);
	worker_balance_after_report(w);
	worker_delayed_learn(w);
	worker_tick_learn(w);
}

int worker_poll_cycle(struct worker *w, uint64_t now, struct deferred_error *err)
{
	bool done;
	int rc = store_cycle_poll(&w->cycle, &done, err);

	if (rc == 0 && !done)
		return 0;
	w->watch.again |= w->cycle.unwatched;
	/* Each of the two stands, whatever became of the other. */
	if (rc < 0 && done && w->cycle.recorded_ok && !w->idle.keeping)
		after_first(w);
	if (rc < 0 && done && w->cycle.claimed_ok)
		after_claim(w);
	if (rc < 0)
		return worker_cycle_failed(w, err, now);
	if (w->alone)
		plan_again(&w->plan); /* what it held back may be ready now, and no claim came with it */
	else
		w->tries = 0;
	w->db = DB_READY;
	if (w->idle.keeping) {
		rc = worker_idle_kept(w, err);
		store_cycle_clear(&w->cycle);
		return rc < 0 ? worker_cycle_failed(w, err, now) : 0;
	}
	after_first(w);
	after_claim(w);
	worker_balance_after_claim(w);
	worker_scale_claimed(w);
	worker_idle_done(w, now);
	worker_listen_done(w, now);
	store_cycle_clear(&w->cycle);
	return 0;
}
