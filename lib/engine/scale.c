/* SPDX-License-Identifier: MIT */
/*
 * How many runners there are, where the setting "runners" is a range: doubled while jobs wait, as far as jobs, limits
 * and processors can make use of more; back to what was needed after a while ("runner_idle") in which fewer would have
 * done.
 * Growing takes a moment of waiting, shrinking a long one of idleness: in between nothing flaps.
 */
#include "engine/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"

#include <sched.h>

#define TICK_NS (50 * NS_PER_MS)
#define TICKS_MIN 2    /* from one step up to the next, all runners being there */
#define SHORT_US 25000 /* jobs that take less are counted as work, others one by one */
#define WAIT_US 50000  /* so much work ahead of each runner is too much */

static size_t processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? (size_t)CPU_COUNT(&set) : 1;
}

static void set_runners(struct worker *w, size_t n, uint64_t now)
{
	w->pool.runners_max = w->pool.runners_keep = w->scale.runners = n;
	w->scale.busy_max = 0;
	w->scale.ticks = 0;
	w->scale.window_ns = now;
}

void worker_scale_set_up(struct worker *w)
{
	struct worker_scale *s = &w->scale;
	s->min = (size_t)config_range_min(w->config, "runners");
	s->max = (size_t)config_int(w->config, "runners");
	if (s->max > w->pool.places && w->pool.places > 0)
		s->max = w->pool.places;
	s->idle_ns = (uint64_t)config_int(w->config, "runner_idle") * NS_PER_MS;
	s->processors = processors();
	s->runner_share = s->attempt_share = -1;
	s->cpu_demand = 0;
	if (s->max <= s->min) {
		w->pool.runners_max = s->max;
		s->runners = 0;
		return;
	}
	w->pool.idle_ns = 1; /* those beyond the number kept go at once */
	/* A reload finds as many as there were, within the new bounds. */
	set_runners(w, s->runners > s->max ? s->max : s->runners > s->min ? s->runners : s->min, clock_ns());
}

static bool ranges(const struct worker_scale *s)
{
	return s->max > s->min;
}

/* What the processors have room for, with jobs such as lately. */
static size_t cpu_limit(const struct worker_scale *s)
{
	double n = s->cpu_demand > 0 ? (double)s->processors / s->cpu_demand : (double)s->max;

	return n >= (double)s->max ? s->max : n < 1 ? 1 : (size_t)(n + 0.5);
}

static void follow(double *average, double value)
{
	*average = *average < 0 ? value : *average + (value - *average) / 8;
}

void worker_scale_attempt(struct worker *w, const struct attempt *a)
{
	double run_us = (double)(a->finished_ns - a->started_ns) / 1e3, share;

	if (!ranges(&w->scale) || run_us < 1)
		return;
	share = (double)(a->user_us + a->sys_us) / run_us;
	follow(&w->scale.attempt_share, share > 1 ? 1 : share);
}

/* The share of a processor that a runner would use if it got it. An attempt tells what it got, at its end; the runner's
 * process, at any time, also how long it waited for a processor (but nothing of isolate = job). */
static void measure_demand(struct worker *w, uint64_t now)
{
	struct worker_scale *s = &w->scale;
	double lately = pool_cpu_demand(&w->pool, now);

	if (lately >= 0)
		follow(&s->runner_share, lately > 1 ? 1 : lately);
	s->cpu_demand = s->runner_share > s->attempt_share ? s->runner_share : s->attempt_share;
}

void worker_scale_claimed(struct worker *w)
{
	/* Jobs that were left wait for a runner of ours only if the claim got all it asked for: what a limit holds
	 * back, or others were quicker with, is no reason for more. */
	if (w->cycle.claims)
		w->scale.waiting = w->cycle.claimed_len > 0 && w->cycle.claimed_len >= w->plan.asked_free
					   ? (size_t)w->cycle.waiting
					   : 0;
}

/* More by one step, if there were jobs for them. */
static size_t next_step(const struct worker *w)
{
	const struct worker_scale *s = &w->scale;
	size_t n = 2 * w->pool.runners_max, limit = cpu_limit(s);

	if (w->pool.short_ns)
		return w->pool.runners_max;
	if (limit < s->min)
		limit = s->min;
	return n < limit ? n : limit > w->pool.runners_max ? limit : w->pool.runners_max;
}

size_t worker_scale_room(const struct worker *w)
{
	size_t n = ranges(&w->scale) ? next_step(w) : w->pool.runners_max, busy = pool_running(&w->pool);

	return n > busy ? n - busy : 0;
}

static void grow(struct worker *w, uint64_t now)
{
	struct worker_scale *s = &w->scale;
	size_t have = w->pool.runners_max, unstarted = pool_unstarted(&w->pool), busy = pool_running(&w->pool), wanted,
	       can = next_step(w);
	double us = pool_run_us(&w->pool, now), work_us = (double)(unstarted + s->waiting) * (us < 0 ? 0 : us);

	/* See first what the last step brought, and what its jobs need. */
	if (pool_starting(&w->pool) || ++s->ticks < TICKS_MIN)
		return;
	if (us >= 0 && us < SHORT_US)
		wanted = work_us / (double)have > WAIT_US ? (size_t)(work_us / WAIT_US) + 1 : have;
	else
		wanted = busy + unstarted;
	if (wanted <= have) {
		s->full_logged = false;
		return;
	}
	if (can > have) {
		if (wanted > can)
			wanted = can;
		log_line(LOG_L_INFO, "runners %zu -> %zu: %zu job%s to run, some %.1f s of work", have, wanted,
			 unstarted + s->waiting, plural((int64_t)(unstarted + s->waiting)), work_us / 1e6);
		set_runners(w, wanted, now);
	} else if (!s->full_logged && have < s->max) {
		log_line(LOG_L_INFO, "runners stay at %zu: %zu processor%s, of which each needs %.0f %%", have,
			 s->processors, plural((int64_t)s->processors), s->cpu_demand * 100);
		s->full_logged = true;
	}
}

static void shrink(struct worker *w, uint64_t now)
{
	struct worker_scale *s = &w->scale;
	size_t have = w->pool.runners_max, enough = s->busy_max > s->min ? s->busy_max : s->min;

	if (enough < have) {
		log_line(LOG_L_INFO, "runners %zu -> %zu: no more than %zu were busy at once in the last %.1f s", have,
			 enough, s->busy_max, (double)(now - s->window_ns) / 1e9);
		set_runners(w, enough, now);
	}
	s->window_ns = now;
	s->busy_max = pool_busy(&w->pool);
}

void worker_scale(struct worker *w, uint64_t now)
{
	struct worker_scale *s = &w->scale;
	size_t busy;

	if (!ranges(s) || w->pool.short_ns)
		return;
	busy = pool_busy(&w->pool);
	if (busy > s->busy_max)
		s->busy_max = busy;
	if (s->idle_ns > 0 && now >= s->window_ns + s->idle_ns)
		shrink(w, now);
	if (now < s->tick_ns || pool_load(&w->pool) == 0 || w->stopping)
		return;
	s->tick_ns = now + TICK_NS;
	measure_demand(w, now);
	grow(w, now);
}

uint64_t worker_scale_deadline(const struct worker *w)
{
	const struct worker_scale *s = &w->scale;
	uint64_t ns = UINT64_MAX;

	if (!ranges(s) || w->pool.short_ns)
		return ns;
	if (w->pool.runners_max > s->min && s->idle_ns > 0)
		ns = s->window_ns + s->idle_ns;
	if (w->pool.runners_max < s->max && pool_unstarted(&w->pool) > 0 && s->tick_ns < ns)
		ns = s->tick_ns;
	return ns;
}
