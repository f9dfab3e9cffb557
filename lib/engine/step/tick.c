/* SPDX-License-Identifier: MIT */
/*
 * Ticks have a transaction of their own, so none of them keeps results from being recorded. Each look at delayed jobs
 * also says when the next tick is due. However many ticks are due, jobs get the larger part of the time while there
 * are jobs, and a run comes to its end.
 */
#include "engine/step/tick.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

#define TICKS_MAX 100
#define AFTER_FAILURE_NS (30 * NS_PER_S)
#define SHARE 4 /* after ticks, jobs have this many times as long */
/* A run without jobs stays this long for more ticks, or as long as it took to get there if that was longer. A million
 * ends that were noted while there were jobs take longer than 30 s. */
#define BUSY_MIN_NS (30 * NS_PER_S)
#define LOCKED_NS (500 * NS_PER_MS) /* another session processes those that are due */
/* longer than an end whose row was locked is put off: sql/functions/flow/__settle.sql */
#define SHORTLY_NS (600 * NS_PER_MS)

static void set_next(struct tick *t, int64_t wait_ms)
{
	t->ns = t->due_ns = wait_ms < 0 ? UINT64_MAX : clock_ns() + (uint64_t)wait_ms * NS_PER_MS;
}

static void set_earliest(struct tick *t, uint64_t ns)
{
	t->again_ns = ns;
	if (t->ns < ns)
		t->ns = ns;
}

void tick_set_up(struct tick *t, bool due)
{
	set_next(t, due ? 0 : -1);
}

void tick_learn(struct tick *t, const struct store_due *due)
{
	if (!due->known)
		return;
	set_next(t, due->tick_ms);
	if (t->ns < t->again_ns)
		t->ns = t->again_ns;
	/* A run waits for a tick that is due shortly, except while another session processes that tick. */
	if (due->tick_ms == 0 && !t->busy_ns)
		t->more = t->ns < clock_ns() + LOCKED_NS / 2;
}

bool tick_wait_at_end(struct tick *t, uint64_t now)
{
	if (t->shared) { /* no jobs are left to share the time with */
		t->shared = false;
		t->again_ns = 0;
		t->ns = t->due_ns;
		t->more = t->ns <= now;
	}
	if (t->more)
		return true;
	if (t->waited || t->ns > now + SHORTLY_NS)
		return false;
	t->waited = t->more = true;
	return true;
}

static void set_more(struct tick *t, bool more, const struct tick_in *in, uint64_t now)
{
	uint64_t most_ns = BUSY_MIN_NS;

	if (!more || !in->idle)
		t->busy_ns = 0;
	else if (!t->busy_ns)
		t->busy_ns = now;
	if (t->busy_ns && t->busy_ns - in->started_ns > most_ns)
		most_ns = t->busy_ns - in->started_ns;
	t->more = more && (!t->busy_ns || now - t->busy_ns < most_ns);
}

static int tick_failed(struct tick *t, struct pg *pg, uint64_t now, const struct deferred_error *err)
{
	bool lost = pg_broken(pg);

	if (!lost && strcmp(err->sqlstate, "55P03") == 0) {
		set_earliest(t, clock_ns() + LOCKED_NS);
		return 0;
	}
	t->ns = t->again_ns = now + AFTER_FAILURE_NS;
	if (!lost)
		log_error(LOG_L_WARNING, err, "schedules: ticks are late, trying again in %d s",
			  (int)(AFTER_FAILURE_NS / NS_PER_S));
	return lost ? DEFERRED_ELOST : 0;
}

int tick_run(struct tick *t, const struct tick_in *in, uint64_t now, struct deferred_error *err)
{
	struct store_ticks ticks;
	uint64_t begun = clock_ns(), ended;

	if (now < t->ns)
		return 0;
	t->more = t->shared = false;
	t->again_ns = 0;
	if (store_tick(in->pg, TICKS_MAX, &ticks, err) < 0)
		return tick_failed(t, in->pg, now, err);
	set_next(t, ticks.wait_ms);
	ended = clock_ns();
	set_more(t, ticks.dealt > 0 && ticks.wait_ms == 0, in, now);
	set_earliest(t, in->idle ? ended : ended + SHARE * (ended - begun));
	t->shared = !in->idle;
	if (ticks.dealt == 0 && ticks.wait_ms == 0) {
		t->shared = false;
		set_earliest(t, ended + LOCKED_NS);
	}
	return ticks.dealt > 0;
}
