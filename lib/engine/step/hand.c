/* SPDX-License-Identifier: MIT */
#include "engine/step/hand.h"

#include <string.h>

/* Jobs with leases of their own begin before the jobs that wait here. */
void hand_begin(struct pool *pool, struct job *jobs)
{
	struct job *first = NULL, *others = NULL, **first_tail = &first, **others_tail = &others;

	while (jobs) {
		struct job ***tail = jobs->alone || jobs->limited ? &first_tail : &others_tail;

		**tail = jobs;
		*tail = &jobs->next;
		jobs = jobs->next;
	}
	*first_tail = *others_tail = NULL;
	pool_add(pool, others);
	pool_add_first(pool, first);
}

void hand_return_unstarted(struct pool *pool, struct ledger *ledger, const char *fn)
{
	struct job *pending = pool_recall(pool), *children = ledger_take(ledger, LEDGER_CHILD), *returned = NULL, *next;

	for (struct job *job = pending; job; job = next) {
		next = job->next;
		job->next = NULL;
		if (fn && strcmp(job->fn, fn) != 0)
			pool_add(pool, job);
		else
			job_list_push(&returned, job);
	}
	for (struct job *job = returned; job; job = next) {
		next = job->next;
		pool_drop_key(pool, job);
		ledger_return(ledger, job);
	}
	for (struct job *job = children; job; job = next) {
		next = job->next;
		if (fn && strcmp(job->fn, fn) != 0)
			ledger_child(ledger, job);
		else
			ledger_return(ledger, job);
	}
}

void hand_return_waiting(struct pool *pool, struct ledger *ledger, uint64_t now)
{
	struct job *jobs, *keep = NULL, **tail = &keep;

	if (pool->pending_len == 0 || (hand_idle_runners(pool) > 0 && pool_has_free(pool)) ||
	    pool_run_us(pool, now) * (double)pool_per_call(pool) < POOL_STUCK_NS / 1000.0)
		return;
	jobs = pool_take_pending(pool);
	for (struct job *next; jobs; jobs = next) {
		next = jobs->next;
		if (now > jobs->claimed_ns + POOL_STUCK_NS) {
			ledger_return(ledger, jobs);
			continue;
		}
		*tail = jobs;
		tail = &jobs->next;
	}
	*tail = NULL;
	pool_add(pool, keep);
}

static void report_progress_again(void *data, struct job *job)
{
	(void)data;
	if (job->progress)
		job->progress = 1; /* odd: no report has this number */
}

void hand_undo_cycle(struct pool *pool, struct ledger *ledger, struct store_cycle *cycle, enum ledger_state recording,
		     bool stopping)
{
	ledger_undo(ledger, recording);
	if (stopping)
		hand_return_unstarted(pool, ledger, NULL); /* those whose parents it asked for */
	pool_each_job(pool, report_progress_again, NULL);
	store_cycle_clear(cycle);
}

bool hand_is_empty(const struct pool *pool, const struct ledger *ledger)
{
	return pool_load(pool) == 0 && !pool->unknown && !pool->late && ledger_len(ledger) == 0;
}

size_t hand_idle_runners(const struct pool *pool)
{
	size_t busy = pool_running(pool);

	return pool->runners_max > busy ? pool->runners_max - busy : 0;
}

struct collect_receipts {
	struct store_ids *receipts;
	bool ok;
};

static void add_receipt(void *data, struct job *job)
{
	struct collect_receipts *c = data;
	const struct store_ids *r = c->receipts;

	if (r->len == 0 || r->id[r->len - 1] != job->receipt) /* jobs of one batch follow each other */
		c->ok &= store_ids_add(c->receipts, job->receipt);
}

/* An abandoned lease stays held, because one of its jobs may still run. */
bool hand_receipts(const struct pool *pool, const struct ledger *ledger, struct store_ids *receipts)
{
	struct collect_receipts c = { receipts, true };

	pool_each_job(pool, add_receipt, &c);
	for (struct job *job = ledger->first; job; job = job->next)
		if (job->ledger != LEDGER_RECORDING)
			add_receipt(&c, job);
	for (size_t i = 0; i < ledger->abandoned.len; i++)
		c.ok &= store_ids_add(receipts, ledger->abandoned.id[i]);
	store_ids_sort(receipts);
	return c.ok;
}
