/* SPDX-License-Identifier: MIT */
/* What functions say of their progress, on its way to the database. */
#include "engine/state.h"

#include "base/clock.h"

#include <stdlib.h>

#define PROGRESS_NS (900 * NS_PER_MS) /* it is looked at so often, by a turn each second */

struct collect_progress {
	struct job_progress *p;
	size_t n, max;
};

static void add_progress(void *data, const struct job_progress *p)
{
	struct collect_progress *c = data;

	if (c->n < c->max && !p->job->gone && p->number != p->job->progress)
		c->p[c->n++] = *p;
}

static void count_progress(void *data, const struct job_progress *p)
{
	*(size_t *)data += !p->job->gone && p->number != p->job->progress;
}

/* Looked for once a second; what there is then goes along with the next cycle, which is made for it if need be. */
size_t worker_new_progress(struct worker *w, uint64_t now)
{
	size_t n = 0;

	if (now < w->progress_ns)
		return 0;
	w->progress_ns = now + PROGRESS_NS;
	pool_each_progress(&w->pool, count_progress, &n);
	return n;
}

int worker_add_progress(struct worker *w, size_t n, struct deferred_error *err)
{
	struct collect_progress c = { malloc(n * sizeof(*c.p)), 0, n };
	int rc = c.p ? 0 : error_set(err, DEFERRED_ENOMEM, "progress", "out of memory");

	if (rc == 0)
		pool_each_progress(&w->pool, add_progress, &c);
	if (rc == 0 && c.n > 0)
		rc = store_cycle_progress(&w->cycle, c.p, c.n, err);
	for (size_t i = 0; i < c.n; i++)
		c.p[i].job->progress = c.p[i].number;
	free(c.p);
	return rc;
}

static void forget_progress(void *data, struct job *job)
{
	(void)data;
	if (job->progress)
		job->progress = 1; /* odd: no number of a report */
}

void worker_progress_again(struct worker *w)
{
	pool_each_job(&w->pool, forget_progress, NULL);
}

/* Of attempts that are being recorded. */
int worker_end_progress(struct worker *w, struct deferred_error *err)
{
	size_t n, reported = 0;
	struct attempt **attempts = ledger_attempts(&w->ledger, LEDGER_RECORDING, &n);
	int rc = attempts ? 0 : error_set(err, DEFERRED_ENOMEM, "record", "out of memory");

	for (size_t i = 0; i < n; i++)
		if (attempts[i]->job->progress)
			attempts[reported++] = attempts[i];
	if (reported > 0)
		rc = store_cycle_progress_end(&w->cycle, attempts, reported, err);
	free(attempts);
	return rc;
}
