/* SPDX-License-Identifier: MIT */
#include "base/forecast.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/random.h"

#define NEVER INT64_MAX

struct line_state {
	int64_t tick_us;                    /* the next one */
	int64_t begin_us;                   /* first claim of a copy that has been started; NEVER: none waits for it */
	int64_t taken;                      /* attempts of this copy */
	bool alive;
	int64_t busy_us[FORECAST_RUNNERS];  /* until then; NEVER: free */
};

struct replay {
	const struct forecast_rule *rule;
	struct forecast_job *jobs;
	size_t len, next;                /* before next all were put into the window */
	size_t window[FORECAST_WINDOW];  /* those that are ready and came first */
	size_t ready;                    /* of them */
	uint64_t random;
	struct forecast_result result;
};

static bool is_time(int64_t us)
{
	return us >= 0 && us <= FORECAST_MAX_US;
}

static bool valid(const struct forecast_rule *rule, const struct forecast_line *lines, size_t lines_len, const struct forecast_job *jobs, size_t jobs_len)
{
	if (!is_time(rule->start_us) || !is_time(rule->between_us) || !is_time(rule->end_us) || lines_len > FORECAST_LINES)
		return false;
	for (size_t i = 0; i < lines_len; i++)
		if (lines[i].runners < 1 || lines[i].runners > FORECAST_RUNNERS || !is_time(lines[i].interval_us) || lines[i].cnt < 0 || !is_time(lines[i].first_us))
			return false;
	for (size_t i = 0; i < jobs_len; i++)
		if (!is_time(jobs[i].run_us) || !is_time(jobs[i].ready_us) || (i > 0 && jobs[i].ready_us < jobs[i - 1].ready_us))
			return false;
	return true;
}

/* NULL: none is ready. */
static struct forecast_job *take(struct replay *r, int64_t now_us)
{
	struct forecast_job *job;
	size_t drawn;

	while (r->ready < FORECAST_WINDOW && r->next < r->len && r->jobs[r->next].ready_us <= now_us)
		r->window[r->ready++] = r->next++;
	if (r->ready == 0)
		return NULL;
	drawn = random_next(&r->random) % r->ready;
	job = &r->jobs[r->window[drawn]];
	r->window[drawn] = r->window[--r->ready];
	job->wait_us = now_us - job->ready_us;
	r->result.busy_us += job->run_us;
	return job;
}

/* Each free runner gets a job; a copy that has none in hand then is over. */
static void fill(struct replay *r, const struct forecast_line *line, struct line_state *s, int64_t now_us)
{
	bool working = false;

	for (int i = 0; i < line->runners; i++) {
		if (s->busy_us[i] == NEVER && (line->interval_us == 0 || line->cnt == 0 || s->taken < line->cnt)) {
			const struct forecast_job *job = take(r, now_us);

			if (job) {
				s->busy_us[i] = now_us + job->run_us + r->rule->between_us;
				r->result.runs += s->taken++ == 0 && line->interval_us > 0;
				if (line->interval_us > 0 && s->taken > r->result.most)
					r->result.most = s->taken;
			}
		}
		working |= s->busy_us[i] != NEVER;
	}
	s->alive = working;
}

static int64_t next_of(const struct replay *r, const struct forecast_line *line, const struct line_state *s, int64_t now_us)
{
	int64_t next = line->interval_us > 0 ? s->tick_us : NEVER;
	bool idle = false;

	if (s->begin_us < next)
		next = s->begin_us;
	for (int i = 0; i < line->runners; i++) {
		if (s->busy_us[i] < next)
			next = s->busy_us[i];
		idle |= s->busy_us[i] == NEVER;
	}
	/* What became ready while another line took its jobs is as good as an arrival. */
	if (line->interval_us == 0 && idle && r->ready > 0)
		next = now_us;
	else if (line->interval_us == 0 && idle && r->next < r->len && r->jobs[r->next].ready_us < next)
		next = r->jobs[r->next].ready_us;
	return next < now_us ? now_us : next;
}

static void step(struct replay *r, const struct forecast_line *line, struct line_state *s, int64_t now_us)
{
	bool look = line->interval_us == 0;

	for (int i = 0; i < line->runners; i++)
		if (s->busy_us[i] <= now_us) {
			s->busy_us[i] = NEVER;
			look = true;
		}
	if (line->interval_us > 0 && s->tick_us <= now_us) {
		if (!s->alive) {
			s->alive = true;
			s->taken = 0;
			s->begin_us = s->tick_us + r->rule->start_us;
		} else {
			r->result.skipped++;
		}
		s->tick_us += line->interval_us;
	}
	if (s->begin_us <= now_us) {
		s->begin_us = NEVER;
		look = true;
	}
	if (look)
		fill(r, line, s, now_us);
}

int forecast_run(const struct forecast_rule *rule, const struct forecast_line *lines, size_t lines_len, struct forecast_job *jobs, size_t jobs_len,
		 struct forecast_result *result)
{
	struct replay r = { .rule = rule, .jobs = jobs, .len = jobs_len, .random = rule->seed };
	struct line_state *states;
	int64_t now_us = 0;

	if (!valid(rule, lines, lines_len, jobs, jobs_len))
		return -2;
	for (size_t i = 0; i < jobs_len; i++)
		jobs[i].wait_us = -1;
	states = calloc(lines_len + 1, sizeof(*states));
	if (!states)
		return -1;
	for (size_t i = 0; i < lines_len; i++) {
		states[i].tick_us = lines[i].first_us;
		states[i].begin_us = NEVER;
		for (int k = 0; k < FORECAST_RUNNERS; k++)
			states[i].busy_us[k] = NEVER;
	}
	/* What is done with all jobs taken and none in the window is to no purpose. */
	while (r.next < r.len || r.ready > 0) {
		int64_t next_us = NEVER;
		size_t who = 0;

		for (size_t i = 0; i < lines_len; i++) {
			int64_t t = next_of(&r, &lines[i], &states[i], now_us);

			if (t < next_us) {
				next_us = t;
				who = i;
			}
		}
		if (next_us >= rule->end_us)
			break;
		now_us = next_us;
		step(&r, &lines[who], &states[who], now_us);
	}
	free(states);
	r.result.left = (int64_t)(r.len - r.next + r.ready);
	if (result)
		*result = r.result;
	return 0;
}
