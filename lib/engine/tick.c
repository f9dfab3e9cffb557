/* SPDX-License-Identifier: MIT */
/*
 * worker_tick - ticks of schedules that are due become jobs, whatever queues are served here. In a transaction of its
 * own, so that none of them can keep results from being recorded; when the next one is due is learnt with each look at
 * delayed jobs.
 * However many are due, jobs get the larger part of the time while there are any, and a run comes to its end.
 */
#include "base/clock.h"
#include "base/log.h"
#include "engine/state.h"

#include <string.h>

#define TICKS_MAX 100
#define AFTER_FAILURE_NS (30 * NS_PER_S)
#define SHARE 4 /* after ticks, so many times what they took is for the jobs */
/* so long a run that has no jobs stays for more of them; and as long as it took to come to that, where it is longer */
#define BUSY_MIN_NS (30 * NS_PER_S)
#define LOCKED_NS (500 * NS_PER_MS) /* somebody else is at those that are due */
/* more than an end that somebody had locked is put off: sql/functions/flow/__settle.sql */
#define SHORTLY_NS (600 * NS_PER_MS)

static void wait_for_next(struct worker *w, int64_t wait_ms)
{
	w->tick.ns = w->tick.due_ns = wait_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)wait_ms * NS_PER_MS;
}

void worker_tick_set_up(struct worker *w, bool due)
{
	wait_for_next(w, due ? 0 : -1);
}

void worker_tick_learn(struct worker *w)
{
	uint64_t again_ns = w->tick.again_ns;

	if (!w->cycle.due.known)
		return;
	wait_for_next(w, w->cycle.due.tick_ms);
	if (w->tick.ns < again_ns)
		w->tick.ns = again_ns;
	/* A run stays for what it is to wait for shortly; where somebody else is at it, it does not. */
	if (w->cycle.due.tick_ms == 0 && !w->tick.busy_ns)
		w->tick.more = w->tick.ns < clock_ns() + LOCKED_NS / 2;
}

/* There are no jobs left to have the larger part of the time. */
static void share_no_more(struct worker *w)
{
	w->tick.shared = false;
	w->tick.again_ns = 0;
	w->tick.ns = w->tick.due_ns;
}

bool worker_tick_stays(struct worker *w, uint64_t now)
{
	if (w->tick.shared) {
		share_no_more(w);
		w->tick.more = w->tick.ns <= now;
	}
	if (w->tick.more)
		return true;
	if (w->tick.stayed || w->tick.ns > now + SHORTLY_NS)
		return false;
	w->tick.stayed = w->tick.more = true;
	return true;
}

static bool no_jobs(const struct worker *w)
{
	return w->plan.exhausted && pool_load(&w->pool) == 0 && ledger_len(&w->ledger) == 0;
}

/* A million ends that were noted while there were jobs take longer than 30 s to be told. */
static uint64_t busy_max_ns(const struct worker *w)
{
	uint64_t before_ns = w->tick.busy_ns - w->setup->started_ns;

	return before_ns > BUSY_MIN_NS ? before_ns : BUSY_MIN_NS;
}

static void note_more(struct worker *w, bool more, bool idle, uint64_t now)
{
	if (!more || !idle)
		w->tick.busy_ns = 0;
	else if (!w->tick.busy_ns)
		w->tick.busy_ns = now;
	w->tick.more = more && (!w->tick.busy_ns || now - w->tick.busy_ns < busy_max_ns(w));
}

static void not_before(struct worker *w, uint64_t ns)
{
	w->tick.again_ns = ns;
	if (w->tick.ns < ns)
		w->tick.ns = ns;
}

void worker_tick(struct worker *w, uint64_t now)
{
	struct deferred_error err = { 0 };
	struct store_ticks ticks;
	uint64_t begun = clock_ns(), ended;
	bool idle = no_jobs(w);

	if (w->stopping || now < w->tick.ns)
		return;
	w->tick.more = w->tick.shared = false;
	w->tick.again_ns = 0;
	if (store_tick(w->pg, TICKS_MAX, &ticks, &err) < 0) {
		if (!pg_broken(w->pg) && strcmp(err.sqlstate, "55P03") == 0) {
			not_before(w, clock_ns() + LOCKED_NS);
			return;
		}
		w->tick.ns = w->tick.again_ns = now + AFTER_FAILURE_NS;
		if (pg_broken(w->pg))
			worker_lose_connection(w, &err, now);
		else
			log_line(LOG_L_WARNING, "ticks of schedules are late, next try in %d s: %s",
				 (int)(AFTER_FAILURE_NS / NS_PER_S), err.message);
		return;
	}
	wait_for_next(w, ticks.wait_ms);
	ended = clock_ns();
	note_more(w, ticks.dealt > 0 && ticks.wait_ms == 0, idle, now);
	not_before(w, idle ? ended : ended + SHARE * (ended - begun));
	w->tick.shared = !idle;
	if (ticks.dealt == 0 && ticks.wait_ms == 0) {
		w->tick.shared = false;
		not_before(w, ended + LOCKED_NS);
	}
	if (ticks.dealt > 0)
		plan_delayed(&w->plan);
}
