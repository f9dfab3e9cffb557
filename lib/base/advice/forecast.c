/* SPDX-License-Identifier: MIT */
#include "forecast.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"

#define NEVER INT64_MAX

struct runner {
	int64_t busy_us; /* until then; NEVER: free */
	size_t job;      /* at which, of which pool */
	struct pool *pool;
};

struct line_state {
	size_t number;    /* of the line */
	int64_t tick_us;  /* the next one */
	size_t ticks;     /* of those of a list: how many were */
	int64_t begin_us; /* first claim of a copy that has been started; NEVER: none waits for it */
	int64_t taken;    /* attempts of this copy */
	bool alive;
	struct runner runner[FORECAST_RUNNERS];
};

struct returned {
	int64_t ready_us;
	size_t job;
};

/* Jobs of the groups that the same lines serve: each of them draws among these. */
struct pool {
	uint64_t lines;                 /* bit n: line n takes of it */
	size_t next;                    /* before next all were put into the window */
	size_t window[FORECAST_WINDOW]; /* those that are ready and came first */
	size_t ready;                   /* of them */
	struct returned *returned;      /* were cut off, and have not come into the window again */
	size_t returned_len, returned_cap;
};

struct replay {
	const struct forecast_rule *rule;
	struct forecast_job *jobs;
	size_t len;
	struct pool *pools;
	size_t pools_len;
	size_t *follow; /* of each job the next one of its pool; NULL: there is one pool */
	uint64_t random;
	bool no_memory;
	struct forecast_result result;
};

static bool forecast_is_time(int64_t us)
{
	return us >= 0 && us <= FORECAST_MAX_US;
}

static bool forecast_is_line(const struct forecast_line *line)
{
	for (size_t i = 0; line->ticks_us && i < line->ticks_len; i++)
		if (!forecast_is_time(line->ticks_us[i]) || (i > 0 && line->ticks_us[i] <= line->ticks_us[i - 1]))
			return false;
	return line->runners >= 1 && line->runners <= FORECAST_RUNNERS && forecast_is_time(line->interval_us) &&
	       line->cnt >= 0 && forecast_is_time(line->first_us) && (!line->ticks_us || line->interval_us > 0);
}

static bool valid(const struct forecast_rule *rule, const struct forecast_line *lines, size_t lines_len,
		  const struct forecast_job *jobs, size_t jobs_len)
{
	if (!forecast_is_time(rule->start_us) || !forecast_is_time(rule->between_us) ||
	    !forecast_is_time(rule->end_us) || !forecast_is_time(rule->grace_us) || lines_len > FORECAST_LINES)
		return false;
	for (size_t i = 0; i < lines_len; i++)
		if (!forecast_is_line(&lines[i]) || (lines[i].serves && rule->groups < 1))
			return false;
	for (size_t i = 0; i < jobs_len; i++)
		if (!forecast_is_time(jobs[i].run_us) || !forecast_is_time(jobs[i].ready_us) ||
		    (i > 0 && jobs[i].ready_us < jobs[i - 1].ready_us) ||
		    (rule->groups > 0 && (jobs[i].group < 0 || jobs[i].group >= rule->groups)))
			return false;
	return true;
}

/* ---- jobs that wait --------------------------------------------------------------------------- */

static uint64_t lines_of(const struct forecast_line *lines, size_t lines_len, int group)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < lines_len; i++)
		if (!lines[i].serves || lines[i].serves[group])
			bits |= UINT64_C(1) << i;
	return bits;
}

static size_t pool_for(struct replay *r, uint64_t lines)
{
	size_t i = 0;

	while (i < r->pools_len && r->pools[i].lines != lines)
		i++;
	if (i == r->pools_len)
		r->pools[r->pools_len++] = (struct pool){ .lines = lines, .next = r->len };
	return i;
}

/* From the last job on, so that each pool begins with its first one. */
static bool share_out(struct replay *r, const struct forecast_line *lines, size_t lines_len, int groups)
{
	size_t *pool = calloc((size_t)groups + 1, sizeof(*pool));

	r->follow = malloc((r->len + 1) * sizeof(*r->follow));
	for (int g = 0; pool && g < groups; g++)
		pool[g] = pool_for(r, lines_of(lines, lines_len, g));
	for (size_t i = r->len; pool && r->follow && i-- > 0;) {
		struct pool *p = &r->pools[pool[r->jobs[i].group]];

		r->follow[i] = p->next;
		p->next = i;
	}
	free(pool);
	return pool && r->follow;
}

static bool make_pools(struct replay *r, const struct forecast_line *lines, size_t lines_len)
{
	bool all = true;

	for (size_t i = 0; i < lines_len; i++)
		all &= !lines[i].serves;
	r->pools = calloc(all ? 1 : (size_t)r->rule->groups + 1, sizeof(*r->pools));
	if (!r->pools)
		return false;
	if (!all)
		return share_out(r, lines, lines_len, r->rule->groups);
	r->pools_len = 1;
	r->pools[0].lines = lines_of(lines, lines_len, 0);
	return true;
}

static void free_pools(struct replay *r)
{
	for (size_t i = 0; i < r->pools_len; i++)
		free(r->pools[i].returned);
	free(r->pools);
	free(r->follow);
}

static void put_back(struct replay *r, struct pool *p, size_t job, int64_t at_us)
{
	if (p->returned_len == p->returned_cap) {
		size_t cap = 2 * p->returned_cap + FORECAST_RUNNERS;
		struct returned *more = realloc(p->returned, cap * sizeof(*more));

		if (!more) {
			r->no_memory = true;
			return;
		}
		p->returned = more;
		p->returned_cap = cap;
	}
	p->returned[p->returned_len++] = (struct returned){ at_us, job };
}

/* First the jobs whose runs were cut off: they are older than all that wait. */
static void forecast_look(const struct replay *r, struct pool *p, int64_t now_us)
{
	for (size_t i = 0; i < p->returned_len && p->ready < FORECAST_WINDOW;) {
		if (p->returned[i].ready_us > now_us) {
			i++;
			continue;
		}
		p->window[p->ready++] = p->returned[i].job;
		memmove(&p->returned[i], &p->returned[i + 1], (--p->returned_len - i) * sizeof(p->returned[i]));
	}
	while (p->ready < FORECAST_WINDOW && p->next < r->len && r->jobs[p->next].ready_us <= now_us) {
		p->window[p->ready++] = p->next;
		p->next = r->follow ? r->follow[p->next] : p->next + 1;
	}
}

/* False: none is ready. */
static bool forecast_take(struct replay *r, size_t line, struct runner *runner, int64_t now_us)
{
	struct pool *p = r->pools;
	struct forecast_job *job;
	size_t all = 0, drawn;

	for (size_t i = 0; i < r->pools_len; i++)
		if (r->pools[i].lines >> line & 1) {
			forecast_look(r, &r->pools[i], now_us);
			all += r->pools[i].ready;
		}
	if (all == 0)
		return false;
	for (drawn = random_next(&r->random) % all; !(p->lines >> line & 1) || drawn >= p->ready; p++)
		drawn -= p->lines >> line & 1 ? p->ready : 0;
	runner->pool = p;
	runner->job = p->window[drawn];
	p->window[drawn] = p->window[--p->ready];
	job = &r->jobs[runner->job];
	if (job->wait_us < 0)
		job->wait_us = now_us - job->ready_us;
	r->result.busy_us += job->run_us;
	runner->busy_us = now_us + job->run_us + r->rule->between_us;
	return true;
}

/* When there is something to take for a runner that is free. A job that became ready while another line took its jobs
 * counts as an arrival. */
static int64_t ready_us(const struct replay *r, size_t line, int64_t now_us)
{
	int64_t first = NEVER;

	for (size_t i = 0; i < r->pools_len; i++) {
		const struct pool *p = &r->pools[i];

		if (!(p->lines >> line & 1))
			continue;
		if (p->ready > 0)
			return now_us;
		for (size_t k = 0; k < p->returned_len; k++)
			first = p->returned[k].ready_us < first ? p->returned[k].ready_us : first;
		if (p->next < r->len && r->jobs[p->next].ready_us < first)
			first = r->jobs[p->next].ready_us;
	}
	return first;
}

/* Once all jobs are taken the rest is to no purpose. */
static bool is_more(const struct replay *r)
{
	for (size_t i = 0; i < r->pools_len; i++)
		if (r->pools[i].lines &&
		    (r->pools[i].next < r->len || r->pools[i].ready > 0 || r->pools[i].returned_len > 0))
			return true;
	return false;
}

/* ---- lines ------------------------------------------------------------------------------------ */

static bool is_service(const struct forecast_line *line)
{
	return line->interval_us == 0;
}

/* Each free runner gets a job; a copy that has none in hand then is over. */
static void forecast_fill(struct replay *r, const struct forecast_line *line, struct line_state *s, int64_t now_us)
{
	bool working = false;

	for (int i = 0; i < line->runners; i++) {
		if (s->runner[i].busy_us == NEVER && (is_service(line) || line->cnt == 0 || s->taken < line->cnt) &&
		    forecast_take(r, s->number, &s->runner[i], now_us)) {
			r->result.runs += s->taken++ == 0 && !is_service(line);
			if (!is_service(line) && s->taken > r->result.most)
				r->result.most = s->taken;
		}
		working |= s->runner[i].busy_us != NEVER;
	}
	s->alive = working;
}

static int64_t next_of(const struct replay *r, const struct forecast_line *line, const struct line_state *s,
		       int64_t now_us)
{
	int64_t next = s->tick_us < s->begin_us ? s->tick_us : s->begin_us;
	bool idle = false;

	for (int i = 0; i < line->runners; i++) {
		if (s->runner[i].busy_us < next)
			next = s->runner[i].busy_us;
		idle |= s->runner[i].busy_us == NEVER;
	}
	if (is_service(line) && idle) {
		int64_t ready = ready_us(r, s->number, now_us);

		next = ready < next ? ready : next;
	}
	return next < now_us ? now_us : next;
}

/* A job that still runs at the end of the grace is cut off, and ready again. Returns when the copy is gone. */
static int64_t forecast_end_copy(struct replay *r, const struct forecast_line *line, struct line_state *s,
				 int64_t now_us)
{
	int64_t until_us = now_us + r->rule->grace_us, gone_us = now_us;

	for (int i = 0; i < line->runners; i++) {
		struct runner *runner = &s->runner[i];
		int64_t end_us = runner->busy_us == NEVER ? now_us : runner->busy_us - r->rule->between_us;

		if (end_us > until_us) {
			r->result.busy_us -= end_us - until_us;
			r->result.lost++;
			put_back(r, runner->pool, runner->job, until_us);
			end_us = until_us;
		}
		gone_us = end_us > gone_us ? end_us : gone_us;
		runner->busy_us = NEVER;
	}
	return gone_us;
}

static int64_t tick_after(const struct forecast_line *line, struct line_state *s)
{
	if (!line->ticks_us)
		return s->tick_us + line->interval_us;
	return ++s->ticks < line->ticks_len ? line->ticks_us[s->ticks] : NEVER;
}

static int64_t first_tick(const struct forecast_line *line)
{
	if (is_service(line))
		return NEVER;
	if (!line->ticks_us)
		return line->first_us;
	return line->ticks_len > 0 ? line->ticks_us[0] : NEVER;
}

static void forecast_tick(struct replay *r, const struct forecast_line *line, struct line_state *s)
{
	if (s->alive && !line->replace) {
		r->result.skipped++;
	} else {
		s->begin_us = forecast_end_copy(r, line, s, s->tick_us) + r->rule->start_us;
		s->alive = true;
		s->taken = 0;
	}
	s->tick_us = tick_after(line, s);
}

static void forecast_step(struct replay *r, const struct forecast_line *line, struct line_state *s, int64_t now_us)
{
	bool again = is_service(line);

	for (int i = 0; i < line->runners; i++)
		if (s->runner[i].busy_us <= now_us) {
			s->runner[i].busy_us = NEVER;
			again = true;
		}
	if (s->tick_us <= now_us)
		forecast_tick(r, line, s);
	if (s->begin_us <= now_us) {
		s->begin_us = NEVER;
		again = true;
	}
	/* The copy that a start has ended looks no more, and the next one does not yet. */
	if (again && s->begin_us == NEVER)
		forecast_fill(r, line, s, now_us);
}

static void forecast_begin(const struct forecast_line *lines, size_t lines_len, struct line_state *states)
{
	for (size_t i = 0; i < lines_len; i++) {
		states[i].number = i;
		states[i].tick_us = first_tick(&lines[i]);
		states[i].begin_us = NEVER;
		for (int k = 0; k < FORECAST_RUNNERS; k++)
			states[i].runner[k].busy_us = NEVER;
	}
}

static void forecast_replay(struct replay *r, const struct forecast_line *lines, size_t lines_len,
			    struct line_state *states)
{
	int64_t now_us = 0;

	forecast_begin(lines, lines_len, states);
	while (is_more(r) && !r->no_memory) {
		int64_t next_us = NEVER;
		size_t who = 0;

		for (size_t i = 0; i < lines_len; i++) {
			int64_t t = next_of(r, &lines[i], &states[i], now_us);

			if (t < next_us) {
				next_us = t;
				who = i;
			}
		}
		if (next_us >= r->rule->end_us)
			break;
		now_us = next_us;
		forecast_step(r, &lines[who], &states[who], now_us);
	}
}

int forecast_run(const struct forecast_rule *rule, const struct forecast_line *lines, size_t lines_len,
		 struct forecast_job *jobs, size_t jobs_len, struct forecast_result *result)
{
	struct replay r = { .rule = rule, .jobs = jobs, .len = jobs_len, .random = rule->seed };
	struct line_state *states;

	if (!valid(rule, lines, lines_len, jobs, jobs_len))
		return -2;
	for (size_t i = 0; i < jobs_len; i++)
		jobs[i].wait_us = -1;
	states = calloc(lines_len + 1, sizeof(*states));
	if (states && make_pools(&r, lines, lines_len))
		forecast_replay(&r, lines, lines_len, states);
	else
		r.no_memory = true;
	free(states);
	free_pools(&r);
	for (size_t i = 0; i < jobs_len; i++)
		r.result.left += jobs[i].wait_us < 0;
	if (result)
		*result = r.result;
	return r.no_memory ? -1 : 0;
}
