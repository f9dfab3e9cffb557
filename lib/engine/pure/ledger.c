/* SPDX-License-Identifier: MIT */
#include "ledger.h"

#include <stdlib.h>
#include <string.h>

void ledger_init(struct ledger *l)
{
	memset(l, 0, sizeof(*l));
	l->tail = &l->first;
}

static void free_job(struct job *job)
{
	if (job->ended)
		attempt_free(job->ended);
	else
		free(job);
}

void ledger_clear(struct ledger *l)
{
	while (l->first) {
		struct job *job = l->first;

		l->first = job->next;
		free_job(job);
	}
	free(l->closing.id);
	free(l->closed.id);
	free(l->abandoned.id);
	ledger_init(l);
}

static void add_job(struct ledger *l, struct job *job, enum ledger_state state)
{
	job->next = NULL;
	job->ledger = state;
	*l->tail = job;
	l->tail = &job->next;
	l->n[state]++;
}

void ledger_end(struct ledger *l, struct attempt *attempt, uint64_t now)
{
	if (l->n[LEDGER_ENDED] == 0)
		l->ended_ns = now;
	attempt->job->ended = attempt;
	add_job(l, attempt->job, LEDGER_ENDED);
}

void ledger_return(struct ledger *l, struct job *job)
{
	add_job(l, job, LEDGER_RETURNED);
}

void ledger_child(struct ledger *l, struct job *job)
{
	add_job(l, job, LEDGER_CHILD);
}

/* ---- what is there ------------------------------------------------------------------------------- */

size_t ledger_len(const struct ledger *l)
{
	size_t len = 0;

	for (int state = LEDGER_ENDED; state < LEDGER_STATES; state++)
		len += l->n[state];
	return len;
}

struct job **ledger_jobs(const struct ledger *l, enum ledger_state state, size_t *n)
{
	struct job **jobs = malloc((l->n[state] + 1) * sizeof(struct job *));

	*n = 0;
	for (struct job *job = l->first; jobs && job && *n < l->n[state]; job = job->next)
		if (job->ledger == (int)state)
			jobs[(*n)++] = job;
	return jobs;
}

struct attempt **ledger_attempts(const struct ledger *l, enum ledger_state state, size_t *n)
{
	struct attempt **attempts = malloc((l->n[state] + 1) * sizeof(struct attempt *));

	*n = 0;
	for (const struct job *job = l->first; attempts && job && *n < l->n[state]; job = job->next)
		if (job->ledger == (int)state)
			attempts[(*n)++] = job->ended;
	return attempts;
}

static uint64_t goes_on_ns(const struct job *job)
{
	return job->ended ? job->ended->again_ns : job->release_ns;
}

uint64_t ledger_due_ns(const struct ledger *l, enum ledger_state state)
{
	uint64_t ns = UINT64_MAX;
	size_t left = l->n[state];

	for (const struct job *job = l->first; job && left > 0; job = job->next)
		if (job->ledger == (int)state) {
			ns = goes_on_ns(job) < ns ? goes_on_ns(job) : ns;
			left--;
		}
	return ns;
}

/* ---- from state to state ------------------------------------------------------------------------- */

void ledger_each(struct ledger *l, enum ledger_state state, ledger_fn *fn, void *data)
{
	struct job **at = &l->first;

	while (*at) {
		struct job *job = *at;
		enum ledger_state to = job->ledger == (int)state ? fn(data, job) : (enum ledger_state)job->ledger;

		if (to != (enum ledger_state)job->ledger) {
			l->n[job->ledger]--;
			l->n[to]++;
			job->ledger = to;
		}
		if (to != LEDGER_NONE) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		free_job(job);
	}
	l->tail = at;
	l->n[LEDGER_NONE] = 0;
}

struct job *ledger_take(struct ledger *l, enum ledger_state state)
{
	struct job **at = &l->first, *list = NULL, **tail = &list;

	while (*at && l->n[state] > 0) {
		struct job *job = *at;

		if (job->ledger != (int)state) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		job->next = NULL;
		job->ledger = LEDGER_NONE;
		*tail = job;
		tail = &job->next;
		l->n[state]--;
	}
	while (*at)
		at = &(*at)->next;
	l->tail = at;
	return list;
}

static enum ledger_state to_state(void *state, struct job *job)
{
	(void)job;
	return *(enum ledger_state *)state;
}

static void move_jobs(struct ledger *l, enum ledger_state from, enum ledger_state to)
{
	if (l->n[from] > 0)
		ledger_each(l, from, to_state, &to);
}

void ledger_record(struct ledger *l)
{
	move_jobs(l, LEDGER_ENDED, LEDGER_RECORDING);
}

struct pick {
	uint64_t now;
	bool found;
};

static enum ledger_state first_due(void *data, struct job *job)
{
	struct pick *pick = data;

	if (pick->found || goes_on_ns(job) > pick->now)
		return LEDGER_SET_ASIDE;
	pick->found = true;
	return LEDGER_RECORDING;
}

void ledger_record_set_aside(struct ledger *l, uint64_t now)
{
	struct pick pick = { now, false };

	ledger_each(l, LEDGER_SET_ASIDE, first_due, &pick);
}

static enum ledger_state if_due(void *now, struct job *job)
{
	return goes_on_ns(job) <= *(uint64_t *)now ? LEDGER_RETURNING : LEDGER_RETURNED;
}

void ledger_give_back(struct ledger *l, uint64_t now)
{
	if (l->n[LEDGER_RETURNED] > 0)
		ledger_each(l, LEDGER_RETURNED, if_due, &now);
}

void ledger_ask(struct ledger *l)
{
	move_jobs(l, LEDGER_CHILD, LEDGER_ASKING);
}

void ledger_undo(struct ledger *l, enum ledger_state recording)
{
	move_jobs(l, LEDGER_RECORDING, recording);
	move_jobs(l, LEDGER_RETURNING, LEDGER_RETURNED);
	move_jobs(l, LEDGER_ASKING, LEDGER_CHILD);
	l->closed.len = 0;
}

/* ---- leases -------------------------------------------------------------------------------------- */

void ledger_left(struct ledger *l, int64_t receipt)
{
	if (l->closing.len == 0 || l->closing.id[l->closing.len - 1] != receipt)
		store_ids_add(&l->closing, receipt);
}

void ledger_leave_recording(struct ledger *l)
{
	l->closed.len = 0;
	for (const struct job *job = l->first; job; job = job->next)
		if (job->ledger == LEDGER_RECORDING)
			ledger_left(l, job->receipt);
}

void ledger_abandon(struct ledger *l, int64_t receipt)
{
	store_ids_add(&l->abandoned, receipt);
}

void ledger_close(struct ledger *l, const struct store_ids *held)
{
	int64_t last = 0;

	l->closed.len = 0;
	store_ids_sort(&l->closing);
	for (size_t i = 0; i < l->closing.len; i++)
		if (l->closing.id[i] != last && !store_ids_have(held, l->closing.id[i]))
			store_ids_add(&l->closed, last = l->closing.id[i]);
}

void ledger_closed(struct ledger *l)
{
	size_t left = 0;

	for (size_t i = 0; i < l->closing.len; i++)
		if (!store_ids_have(&l->closed, l->closing.id[i]))
			l->closing.id[left++] = l->closing.id[i];
	l->closing.len = left;
	l->closed.len = 0;
}

void ledger_forget_leases(struct ledger *l)
{
	l->closing.len = l->closed.len = 0;
}
