/* SPDX-License-Identifier: MIT */
#include "engine/step/step_save.h"

#include "base/clock.h"
#include "base/log.h"
#include "deferred_plugin.h"

#include <stdlib.h>

#define LOCKED_AGAIN_NS (50 * NS_PER_MS)
#define LOCKED_MAX_NS (5 * NS_PER_S) /* the function itself may hold the lock, in a transaction that it has not ended */

struct collect_steps {
	struct job_step **s;
	size_t n, max;
	uint64_t now;
};

static void find_first(void *data, struct job_step *s)
{
	uint64_t *first_ns = data;

	if (s->again_ns < *first_ns)
		*first_ns = s->again_ns;
}

uint64_t step_save_due_ns(const struct pool *pool)
{
	uint64_t first_ns = UINT64_MAX;

	pool_each_step(pool, find_first, &first_ns);
	return first_ns;
}

static void add_step(void *data, struct job_step *s)
{
	struct collect_steps *c = data;

	if (s->again_ns <= c->now && c->n < c->max)
		c->s[c->n++] = s;
}

static bool resets(const struct pool *pool, const struct job_step *s)
{
	const struct runner_function *f = functions_find(&pool->functions, s->job->fn);

	return f && (f->flags & DEFERRED_PROGRESS_RESETS);
}

int step_save_add(const struct pool *pool, const struct ledger *ledger, struct store_cycle *cycle, uint64_t now,
		  struct deferred_error *err)
{
	size_t n, max = pool ? pool->places : 0;
	struct attempt **ended = ledger_attempts(ledger, LEDGER_RECORDING, &n);
	struct collect_steps c = { malloc((n + max + 1) * sizeof(*c.s)), 0, n + max, now };
	int rc = ended && c.s ? 0 : error_set(err, DEFERRED_ENOMEM, "step", "out of memory");

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (!ended[i]->step)
			continue;
		ended[i]->job->has_steps = true;
		c.s[c.n++] = ended[i]->step;
	}
	if (rc == 0 && pool)
		pool_each_step(pool, add_step, &c);
	for (size_t i = 0; rc == 0 && pool && i < c.n; i++)
		c.s[i]->resets = resets(pool, c.s[i]);
	if (rc == 0 && c.n > 0)
		rc = store_cycle_steps(cycle, c.s, c.n, err);
	free(ended);
	free(c.s);
	return rc;
}

int step_save_add_end(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err)
{
	size_t n, done = 0;
	struct attempt **attempts = ledger_attempts(ledger, LEDGER_RECORDING, &n);
	int rc = attempts ? 0 : error_set(err, DEFERRED_ENOMEM, "record", "out of memory");

	for (size_t i = 0; rc == 0 && i < n; i++)
		if (attempts[i]->outcome == JOB_OK && attempts[i]->job->has_steps)
			attempts[done++] = attempts[i];
	if (rc == 0 && done > 0)
		rc = store_cycle_steps_end(cycle, attempts, done, err);
	free(attempts);
	return rc;
}

struct find_step {
	int64_t id;
	struct job_step *s;
};

static void find_step(void *data, struct job_step *s)
{
	struct find_step *f = data;

	if (s->job->id == f->id)
		f->s = s;
}

/* The answer to a function that waits; 1: none yet. */
static int step_answer_of(const struct store_step *said, struct job_step *s, uint64_t now)
{
	switch (said->outcome) {
	case 'n':
	case 's':
		s->job->has_steps = true;
		s->job->moved_on |= said->outcome == 'n' && s->resets;
		return DEFERRED_STEP_SAVED;
	case 'f':
		return DEFERRED_STEP_FULL;
	case 'g':
		return DEFERRED_STEP_GONE;
	case 'l':
		s->again_ns = now + LOCKED_AGAIN_NS;
		return now < s->asked_ns + LOCKED_MAX_NS ? 1 : DEFERRED_STEP_REFUSED;
	}
	return DEFERRED_STEP_REFUSED;
}

/* One whose attempt has ended meanwhile needs no answer. */
void step_save_after(const struct pool *pool, const struct store_cycle *cycle, uint64_t now)
{
	for (size_t i = 0; i < cycle->steps_len; i++) {
		const struct store_step *said = &cycle->steps[i];
		struct find_step f = { said->id, NULL };
		int answer;

		pool_each_step(pool, find_step, &f);
		answer = f.s ? step_answer_of(said, f.s, now) : 1;
		if (answer > 0)
			continue;
		if (answer < 0)
			log_job(LOG_L_WARNING, f.s->job, "job %lld %s attempt %d: step %s was not saved: %s",
				(long long)f.s->job->id, f.s->job->fn, f.s->job->attempt, f.s->name,
				answer == DEFERRED_STEP_GONE ? "the lease had ended"
				: said->why[0]               ? said->why
							     : "a transaction has locked the row of the job");
		pool_answer_step(pool, said->id, answer);
	}
}
