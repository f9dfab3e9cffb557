/* SPDX-License-Identifier: MIT */
/*
 * Being woken by NOTIFY (setting "listen"). The worker is armed while it holds the locks that make who defers a job
 * notify it: see sql/functions/__waits.sql for the locks, and for why no wake-up is lost.
 *
 * It arms itself in the cycle with the claim that may be the last before it sleeps, stays armed while jobs come one
 * by one, and disarms when it has enough to do, so that a busy system pays no NOTIFY.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define FULL_NS (5 * NS_PER_MS)       /* armed for so long without a use for a job: disarm */
#define REARM_NS (10 * NS_PER_MS)     /* somebody was looking at the lock that very moment: try again */
#define STAGGER_NS (2 * NS_PER_MS)    /* the second in rank looks so much later, the third twice that */
#define STAGGER_DOUBLINGS_MAX 6
#define USELESS_MAX 3                 /* so many wake-ups for nothing are taken at once */
#define USELESS_DOUBLINGS_MAX 6       /* then 1, 2, 4 ... 64 ms later */
#define CHECK_NS (100 * NS_PER_MS)    /* however often it is said that jobs were cancelled, our leases are looked at no more often */
#define HITS_MAX 2                    /* claims in a row that got something: busy */

static bool knows_queue(const struct worker *w, const char *queue)
{
	bool found = w->scope.queues_len == 0;

	for (size_t i = 0; i < w->scope.queues_len; i++)
		found |= strcmp(w->scope.queues[i], queue) == 0;
	return found;
}

static void begin(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;
	struct deferred_error err = { 0 };
	bool direct = false;

	l->begun = true;
	if (store_listen(w->pg, &direct, &err) < 0) {
		worker_lose_connection(w, &err, now);
		return;
	}
	l->hears = direct;
	plan_delayed(&w->plan);
	if (!direct && !l->complained)
		log_line(LOG_L_WARNING, "a pooler is between us and the server: no wake-up by NOTIFY, jobs are polled for");
	l->complained |= !direct;
}

void worker_listen_lost(struct worker *w)
{
	w->listen.begun = w->listen.hears = w->listen.armed = w->listen.heard = false;
	w->listen.react_ns = w->listen.look_ns = w->listen.full_ns = w->listen.check_ns = 0;
	w->listen.open.len = 0;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return b && b < a ? b : a;
}

uint64_t worker_listen_deadline(const struct worker *w)
{
	const struct worker_listen *l = &w->listen;
	uint64_t ns = UINT64_MAX;

	if (!l->hears)
		return ns;
	if (w->plan.exhausted) {
		ns = sooner(ns, l->react_ns);
		ns = sooner(ns, l->armed ? l->look_ns : l->arm_ns);
	}
	return l->armed && l->full_ns ? sooner(ns, l->full_ns + FULL_NS) : ns;
}

/* One job needs one worker: the first in rank takes it, the others look a little later whether there is more. And
 * wake-ups for nothing, whoever sends them, must not keep us spinning. */
static uint64_t reaction_ns(const struct worker_listen *l)
{
	int late = l->useless - USELESS_MAX;
	uint64_t ns = 0;

	if (l->rank > 0)
		ns = STAGGER_NS << (l->rank - 1 < STAGGER_DOUBLINGS_MAX ? l->rank - 1 : STAGGER_DOUBLINGS_MAX);
	if (late >= 0)
		ns += NS_PER_MS << (late < USELESS_DOUBLINGS_MAX ? late : USELESS_DOUBLINGS_MAX);
	return ns;
}

/* deferred.cancel() names the worker whose job it was. Who says so need not be trusted: the server is asked. */
static void note_cancel(struct worker *w, const char *worker, uint64_t now)
{
	struct worker_listen *l = &w->listen;

	if (strtoll(worker, NULL, 10) == w->worker_id && !l->check_ns)
		l->check_ns = l->checked_ns && now < l->checked_ns + CHECK_NS ? l->checked_ns + CHECK_NS : now;
}

void worker_listen_checked(struct worker *w, uint64_t now)
{
	w->listen.check_ns = 0;
	w->listen.checked_ns = now;
}

void worker_listen_ready(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;
	bool woken = false;
	char queue[64];

	if (w->loop && l->wanted && !l->begun)
		begin(w, now);
	if (!l->hears)
		return;
	while (pg_notification(w->pg, queue, sizeof(queue))) {
		if (queue[0] == '!')
			note_cancel(w, queue + 1, now);
		else
			woken |= knows_queue(w, queue);
	}
	/* Otherwise it will claim anyway, but what claims have found until now says nothing of what this tells of: the one
	 * under way may have looked before, and so may the last one of the other kind. */
	l->heard |= woken && !w->plan.exhausted;
	if (woken && w->plan.exhausted && !l->react_ns)
		l->react_ns = now + reaction_ns(l);
}

bool worker_listen_wake(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;

	if (!l->hears || !w->plan.exhausted)
		return false;
	if (!l->armed && now >= l->arm_ns) {
		plan_delayed(&w->plan); /* such a cycle arms */
		return true;
	}
	if (!l->react_ns || now < l->react_ns || (l->armed && l->rank > 0))
		return false;
	l->react_ns = 0;
	l->reacting = true;
	plan_again(&w->plan);
	w->plan.look_at_delayed = l->useless > 0;
	return true;
}

bool worker_listen_reacts(const struct worker *w)
{
	return w->listen.reacting;
}

void worker_listen_hear(struct worker *w)
{
	if (w->listen.heard)
		plan_heard(&w->plan);
}

int worker_listen_add(struct worker *w, bool promote, struct deferred_error *err)
{
	struct worker_listen *l = &w->listen;

	if (!l->hears)
		return 0;
	l->heard = false;
	if (l->armed && l->hits >= HITS_MAX) {
		l->armed = false;
		return store_cycle_disarm(&w->cycle, &w->scope, err);
	}
	if (!l->armed && promote && l->hits < HITS_MAX)
		return store_cycle_arm(&w->cycle, &w->scope, err);
	return 0;
}

static int send(struct worker *w, int rc, struct deferred_error *err)
{
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

/* Not the first in rank: look without claiming, which would cost a commit, and find a better place in the order. */
static int send_peek(struct worker *w, struct deferred_error *err)
{
	int rc;

	store_cycle_begin(&w->cycle, w->pg);
	w->listen.react_ns = 0;
	rc = store_cycle_arm(&w->cycle, &w->scope, err);
	return send(w, rc == 0 ? store_cycle_peek(&w->cycle, &w->scope, w->delayed.from_us, err) : rc, err);
}

static int send_look(struct worker *w, struct deferred_error *err)
{
	store_cycle_begin(&w->cycle, w->pg);
	return send(w, store_cycle_open(&w->cycle, err), err);
}

static int send_disarm(struct worker *w, struct deferred_error *err)
{
	store_cycle_begin(&w->cycle, w->pg);
	w->listen.armed = false;
	w->listen.full_ns = 0;
	return send(w, store_cycle_disarm(&w->cycle, &w->scope, err), err);
}

int worker_listen_cycle(struct worker *w, bool useful, uint64_t now, struct deferred_error *err)
{
	struct worker_listen *l = &w->listen;

	if (!l->hears || !l->armed)
		return 0;
	if (useful)
		l->full_ns = 0;
	else if (!l->full_ns)
		l->full_ns = now;
	if (!useful && now >= l->full_ns + FULL_NS)
		return send_disarm(w, err);
	if (w->plan.exhausted && l->react_ns && now >= l->react_ns)
		return send_peek(w, err);
	if (w->plan.exhausted && l->look_ns && now >= l->look_ns)
		return send_look(w, err);
	return 0;
}

/* Has one of the transactions that we wait for ended? The list becomes what is left of it. */
static bool some_ended(struct worker_listen *l, const struct store_ids *now_open)
{
	size_t left = 0;

	for (size_t i = 0; i < l->open.len; i++)
		if (store_ids_have(now_open, l->open.id[i]))
			l->open.id[left++] = l->open.id[i];
	if (left == l->open.len)
		return false;
	l->open.len = left;
	return true;
}

static void take_armed(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;
	struct store_ids *open = &w->cycle.open;

	l->armed = w->cycle.armed;
	l->rank = w->cycle.rank;
	l->full_ns = 0;
	if (!l->armed) {
		l->arm_ns = now + REARM_NS;
		return;
	}
	free(l->open.id);
	l->open = *open;
	memset(open, 0, sizeof(*open));
	l->look = (struct deferred_backoff){ 2, w->idle.interval.interval_floor_ms > 2 ? w->idle.interval.interval_floor_ms : 2, 2, 0, 0 };
	l->look_ns = l->open.len > 0 ? now + (uint64_t)deferred_backoff_empty(&l->look) * NS_PER_MS : 0;
}

static void take_look(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;

	if (some_ended(l, &w->cycle.open)) {
		deferred_backoff_hit(&l->look);
		plan_delayed(&w->plan);
	}
	l->look_ns = l->open.len > 0 ? now + (uint64_t)deferred_backoff_empty(&l->look) * NS_PER_MS : 0;
}

void worker_listen_done(struct worker *w, uint64_t now)
{
	struct worker_listen *l = &w->listen;

	if (!l->hears)
		return;
	if (w->cycle.arms)
		take_armed(w, now);
	else if (w->cycle.opens)
		take_look(w, now);
	if (w->cycle.peeks && w->cycle.work) {
		plan_again(&w->plan);
		l->reacting = true;
	}
	if (!w->cycle.claims && !w->cycle.claims_limited)
		return;
	if (w->plan.exhausted && l->heard) {
		l->heard = false;
		l->react_ns = now + reaction_ns(l);
	}
	if (w->cycle.claimed_len + w->cycle.limited_len > 0) {
		l->hits++;
		l->useless = 0;
		l->reacting = false;
	} else if (w->plan.exhausted) {
		l->hits = 0;
		l->useless += l->reacting && l->useless < USELESS_MAX + USELESS_DOUBLINGS_MAX;
		l->reacting = false;
	} else {
		l->hits = 0;
	}
}
