/* SPDX-License-Identifier: MIT */
/*
 * The worker is armed while it holds the locks that make other sessions notify it of a job. The locks, and why no
 * notification is lost, are explained in sql/functions/worker/__waits.sql. This file sends what wake.c decides, and
 * hands the answers to wake.c.
 */
#include "engine/step/listening.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_NS (100 * NS_PER_MS) /* at least this long between two renewals because of notifications */

static bool serves_queue(const struct store_scope *scope, const char *queue)
{
	bool found = scope->queues_len == 0;

	for (size_t i = 0; i < scope->queues_len; i++)
		found |= strcmp(scope->queues[i], queue) == 0;
	return found;
}

void listening_set_up(struct listening *l, bool wanted)
{
	l->wanted = wanted;
}

void listening_lost(struct listening *l)
{
	wake_off(&l->wake);
	l->begun = false;
	l->check_ns = 0;
}

int listening_begin(struct listening *l, struct pg *pg, const struct deferred_backoff *interval,
		    struct deferred_error *err)
{
	bool direct = false;
	int rc;

	if (!l->wanted || l->begun)
		return 0;
	l->begun = true;
	rc = store_listen(pg, &direct, err);
	if (rc < 0)
		return rc;
	if (direct)
		wake_on(&l->wake, interval);
	else if (!l->complained)
		log_line(LOG_L_WARNING,
			 "a pooler is between this worker and the server, so it polls for jobs; hint: name the server "
			 "itself in database.conninfo");
	l->complained |= !direct;
	return 1;
}

/* deferred.cancel() names the worker that runs the job. Any session may send that, so the server is asked. */
static void note_cancel(struct listening *l, uint64_t now)
{
	if (!l->check_ns)
		l->check_ns = l->checked_ns && now < l->checked_ns + CHECK_NS ? l->checked_ns + CHECK_NS : now;
}

void listening_checked(struct listening *l, uint64_t now)
{
	l->check_ns = 0;
	l->checked_ns = now;
}

/* The notification was about a lease that has ended. */
void listening_no_leases(struct listening *l)
{
	l->check_ns = 0;
}

void listening_read(struct listening *l, struct pg *pg, const struct store_scope *scope, int64_t worker, uint64_t now)
{
	char queue[64];

	while (l->wake.state != WAKE_OFF && pg_notification(pg, queue, sizeof(queue))) {
		if (queue[0] == '!' && strtoll(queue + 1, NULL, 10) == worker)
			note_cancel(l, now);
		else if (queue[0] != '!' && serves_queue(scope, queue))
			wake_notified(&l->wake, now);
	}
}

int listening_add(struct listening *l, struct store_cycle *cycle, const struct store_scope *scope, enum wake_step step,
		  bool claims, struct deferred_error *err)
{
	if (claims)
		wake_sent(&l->wake, WAKE_CLAIM);
	if (step == WAKE_ARM)
		return store_cycle_arm(cycle, scope, err);
	if (step != WAKE_DISARM)
		return 0;
	wake_sent(&l->wake, step);
	return store_cycle_disarm(cycle, scope, err);
}

/* A worker that is not the first in rank looks without claiming, which would cost a commit, and finds a better rank.
 * The job may be delayed, and the first in rank may end before the job is due. */
static int add_peek(struct store_cycle *cycle, const struct store_scope *scope, int64_t worker, int64_t from_us,
		    struct deferred_error *err)
{
	int rc = store_cycle_arm(cycle, scope, err);

	if (rc == 0)
		rc = store_cycle_peek(cycle, scope, from_us, err);
	return rc == 0 ? store_cycle_next_due(cycle, worker, from_us, err) : rc;
}

bool listening_needs_cycle(enum wake_step step)
{
	return step == WAKE_PEEK || step == WAKE_LOOK || step == WAKE_DISARM;
}

int listening_add_step(struct listening *l, struct store_cycle *cycle, const struct store_scope *scope,
		       enum wake_step step, int64_t worker, int64_t from_us, struct deferred_error *err)
{
	wake_sent(&l->wake, step);
	if (step == WAKE_PEEK)
		return add_peek(cycle, scope, worker, from_us, err);
	return step == WAKE_LOOK ? store_cycle_open(cycle, err) : store_cycle_disarm(cycle, scope, err);
}

void listening_after(struct listening *l, struct plan *plan, struct store_cycle *c, uint64_t now)
{
	if (l->wake.state == WAKE_OFF)
		return;
	if (c->arms)
		wake_answered_arm(&l->wake, c->armed, c->rank, &c->open, now);
	else if (c->opens)
		wake_answered_look(&l->wake, plan, &c->open, now);
	if (c->peeks)
		wake_answered_peek(&l->wake, plan, c->work);
	if (c->claims || c->claims_limited)
		wake_answered_claim(&l->wake, c->claimed_len + c->limited_len > 0);
}
