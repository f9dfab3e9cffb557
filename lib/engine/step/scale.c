/* SPDX-License-Identifier: MIT */
/*
 * While jobs wait, the number doubles as far as jobs, limits and processors can use more runners. It falls to what was
 * needed when fewer were enough for as long as "runner_idle". Growing takes a short wait and shrinking a long idle
 * time, so the number does not flap.
 */
#include "engine/step/scale.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text/plural.h"

#include <sched.h>

#define TICK_NS (50 * NS_PER_MS)
#define TICKS_MIN 2    /* from one step up to the next, with all runners there */
#define SHORT_US 25000 /* shorter jobs are counted as work, others one by one */
#define WAIT_US 50000  /* more work than this ahead of each runner is too much */

static size_t processors(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? (size_t)CPU_COUNT(&set) : 1;
}

static void set_runners(struct scale *s, struct pool *pool, size_t n, uint64_t now)
{
	pool->runners_max = pool->runners_keep = s->runners = n;
	s->busy_max = 0;
	s->ticks = 0;
	s->window_ns = now;
}

void scale_set_up(struct scale *s, struct pool *pool, const struct config *config)
{
	s->min = (size_t)config_range_min(config, "runners");
	s->max = (size_t)config_int(config, "runners");
	if (s->max > pool->places && pool->places > 0)
		s->max = pool->places;
	s->idle_ns = (uint64_t)config_int(config, "runner_idle") * NS_PER_MS;
	s->processors = processors();
	s->runner_share = s->attempt_share = -1;
	s->cpu_demand = 0;
	if (s->max <= s->min) {
		pool->runners_max = s->max;
		s->runners = 0;
		return;
	}
	pool->idle_ns = 1; /* more runners than runners_keep leave at once */
	/* After a reload the number is the same, within the new bounds. */
	set_runners(s, pool, s->runners > s->max ? s->max : s->runners > s->min ? s->runners : s->min, clock_ns());
}

static bool is_range(const struct scale *s)
{
	return s->max > s->min;
}

/* The processors have room for this number of runners, with jobs like the recent ones. */
static size_t cpu_limit(const struct scale *s)
{
	double n = s->cpu_demand > 0 ? (double)s->processors / s->cpu_demand : (double)s->max;

	return n >= (double)s->max ? s->max : n < 1 ? 1 : (size_t)(n + 0.5);
}

static void update_average(double *average, double value)
{
	*average = *average < 0 ? value : *average + (value - *average) / 8;
}

void scale_attempt(struct scale *s, const struct attempt *a)
{
	double run_us = (double)(a->finished_ns - a->started_ns) / 1e3 / (a->batch > 0 ? a->batch : 1), share;

	if (!is_range(s) || run_us < 1)
		return;
	share = (double)(a->user_us + a->sys_us) / run_us;
	update_average(&s->attempt_share, share > 1 ? 1 : share);
}

/* The share of a processor that a runner would use if it got it. An attempt shows at its end what it got. The process
 * of a runner also shows how long it waited for a processor, but does not include attempts of isolate = job. */
static void measure_demand(struct scale *s, struct pool *pool, uint64_t now)
{
	double lately = pool_cpu_demand(pool, now);

	if (lately >= 0)
		update_average(&s->runner_share, lately > 1 ? 1 : lately);
	s->cpu_demand = s->runner_share > s->attempt_share ? s->runner_share : s->attempt_share;
}

void scale_after_claim(struct scale *s, const struct store_cycle *cycle, size_t asked)
{
	/* Jobs that were left wait for a runner of ours only if the claim got all it asked for. A limit, or other
	 * workers that were faster, are no reason for more runners. */
	if (cycle->claims)
		s->waiting = cycle->claimed_len > 0 && cycle->claimed_len >= asked ? (size_t)cycle->waiting : 0;
}

/* More by one step, if there were jobs for them. */
static size_t next_step(const struct scale *s, const struct pool *pool)
{
	size_t n = 2 * pool->runners_max, limit = cpu_limit(s);

	if (pool->short_ns)
		return pool->runners_max;
	if (limit < s->min)
		limit = s->min;
	return n < limit ? n : limit > pool->runners_max ? limit : pool->runners_max;
}

size_t scale_room(const struct scale *s, const struct pool *pool)
{
	size_t n = is_range(s) ? next_step(s, pool) : pool->runners_max, busy = pool_running(pool);

	return n > busy ? n - busy : 0;
}

static void grow_runners(struct scale *s, struct pool *pool, uint64_t now)
{
	size_t have = pool->runners_max, unstarted = pool_unstarted(pool) - pool_held(pool), busy = pool_running(pool),
	       wanted, can = next_step(s, pool);
	double us = pool_run_us(pool, now), work_us = (double)(unstarted + s->waiting) * (us < 0 ? 0 : us);

	/* First see the effect of the last step, and what its jobs need. */
	if (pool_starting(pool) || ++s->ticks < TICKS_MIN)
		return;
	if (us >= 0 && us < SHORT_US)
		wanted = work_us / (double)have > WAIT_US ? (size_t)(work_us / WAIT_US) + 1 : have;
	else
		wanted = busy + (unstarted + pool_per_call(pool) - 1) / pool_per_call(pool);
	if (wanted <= have) {
		s->full_logged = false;
		return;
	}
	if (can > have) {
		if (wanted > can)
			wanted = can;
		log_line(LOG_L_INFO, "runners %zu -> %zu: %zu job%s to run, some %.1f s of work", have, wanted,
			 unstarted + s->waiting, plural((int64_t)(unstarted + s->waiting)), work_us / 1e6);
		set_runners(s, pool, wanted, now);
	} else if (!s->full_logged && have < s->max) {
		log_line(LOG_L_INFO, "runners stay at %zu: %zu processor%s, of which each needs %.0f %%", have,
			 s->processors, plural((int64_t)s->processors), s->cpu_demand * 100);
		s->full_logged = true;
	}
}

static void shrink_runners(struct scale *s, struct pool *pool, uint64_t now)
{
	size_t have = pool->runners_max, enough = s->busy_max > s->min ? s->busy_max : s->min;

	if (enough < have) {
		log_line(LOG_L_INFO, "runners %zu -> %zu: no more than %zu were busy at once in the last %.1f s", have,
			 enough, s->busy_max, (double)(now - s->window_ns) / 1e9);
		set_runners(s, pool, enough, now);
	}
	s->window_ns = now;
	s->busy_max = pool_busy(pool);
}

void scale_run(struct scale *s, struct pool *pool, bool stopping, uint64_t now)
{
	size_t busy;

	if (!is_range(s) || pool->short_ns)
		return;
	busy = pool_busy(pool);
	if (busy > s->busy_max)
		s->busy_max = busy;
	if (s->idle_ns > 0 && now >= s->window_ns + s->idle_ns)
		shrink_runners(s, pool, now);
	if (now < s->tick_ns || pool_load(pool) == 0 || stopping)
		return;
	s->tick_ns = now + TICK_NS;
	measure_demand(s, pool, now);
	grow_runners(s, pool, now);
}

uint64_t scale_due_ns(const struct scale *s, const struct pool *pool)
{
	uint64_t ns = UINT64_MAX;

	if (!is_range(s) || pool->short_ns)
		return ns;
	if (pool->runners_max > s->min && s->idle_ns > 0)
		ns = s->window_ns + s->idle_ns;
	if (pool->runners_max < s->max && pool_unstarted(pool) > 0 && s->tick_ns < ns)
		ns = s->tick_ns;
	return ns;
}
