/* SPDX-License-Identifier: MIT */
/*
 * Being woken by NOTIFY (setting "listen"). The worker is armed while it holds the locks that make other sessions
 * notify it of a job. sql/functions/worker/__waits.sql explains the locks, and why no notification is lost. wake.c
 * decides what is sent when; here it is sent, and the answers are handed to wake.c.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_NS (100 * NS_PER_MS) /* least time between two looks at our leases because of notifications */

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
	if (direct)
		wake_on(&l->wake, &w->idle.interval);
	plan_delayed(&w->plan);
	if (!direct && !l->complained)
		log_line(LOG_L_WARNING,
			 "a pooler is between us and the server: no wake-up by NOTIFY, jobs are polled for");
	l->complained |= !direct;
}

void worker_listen_lost(struct worker *w)
{
	wake_off(&w->listen.wake);
	w->listen.begun = false;
	w->listen.check_ns = 0;
}

/* deferred.cancel() names the worker whose job it was. Any session may send that, so the server is asked. */
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
	char queue[64];

	if (w->loop && l->wanted && !l->begun)
		begin(w, now);
	if (l->wake.state == WAKE_OFF)
		return;
	while (pg_notification(w->pg, queue, sizeof(queue))) {
		if (queue[0] == '!')
			note_cancel(w, queue + 1, now);
		else if (knows_queue(w, queue))
			wake_notified(&l->wake, now);
	}
}

int worker_listen_add(struct worker *w, enum wake_step step, bool claims, struct deferred_error *err)
{
	struct wake *wake = &w->listen.wake;

	if (claims)
		wake_sent(wake, WAKE_CLAIM);
	if (step == WAKE_ARM)
		return store_cycle_arm(&w->cycle, &w->scope, err);
	if (step != WAKE_DISARM)
		return 0;
	wake_sent(wake, step);
	return store_cycle_disarm(&w->cycle, &w->scope, err);
}

/* Not the first in rank: look without claiming, which would cost a commit, and find a better place in the order. The
 * job may be delayed, and the first in rank may end before it is due. */
static int add_peek(struct worker *w, struct deferred_error *err)
{
	int rc = store_cycle_arm(&w->cycle, &w->scope, err);

	if (rc == 0)
		rc = store_cycle_peek(&w->cycle, &w->scope, w->delayed.from_us, err);
	return rc == 0 ? store_cycle_next_due(&w->cycle, w->worker_id, w->delayed.from_us, err) : rc;
}

int worker_listen_cycle(struct worker *w, enum wake_step step, struct deferred_error *err)
{
	int rc;

	if (step != WAKE_PEEK && step != WAKE_LOOK && step != WAKE_DISARM)
		return 0;
	store_cycle_begin(&w->cycle, w->pg);
	wake_sent(&w->listen.wake, step);
	if (step == WAKE_PEEK)
		rc = add_peek(w, err);
	else if (step == WAKE_LOOK)
		rc = store_cycle_open(&w->cycle, err);
	else
		rc = store_cycle_disarm(&w->cycle, &w->scope, err);
	if (rc == 0)
		rc = store_cycle_send(&w->cycle, err);
	if (rc == 0)
		w->db = DB_BUSY;
	return rc;
}

void worker_listen_done(struct worker *w, uint64_t now)
{
	struct wake *wake = &w->listen.wake;
	struct store_cycle *c = &w->cycle;

	if (wake->state == WAKE_OFF)
		return;
	if (c->arms)
		wake_answered_arm(wake, c->armed, c->rank, &c->open, now);
	else if (c->opens)
		wake_answered_look(wake, &w->plan, &c->open, now);
	if (c->peeks)
		wake_answered_peek(wake, &w->plan, c->work);
	if (c->claims || c->claims_limited)
		wake_answered_claim(wake, c->claimed_len + c->limited_len > 0);
}
