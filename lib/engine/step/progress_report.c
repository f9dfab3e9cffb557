/* SPDX-License-Identifier: MIT */
#include "engine/step/progress_report.h"

#include "base/clock.h"

#include <stdlib.h>

#define PROGRESS_NS (900 * NS_PER_MS) /* a turn each second finds it due */

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

size_t progress_report_count(uint64_t *next_ns, const struct pool *pool, uint64_t now)
{
	size_t n = 0;

	if (now < *next_ns)
		return 0;
	*next_ns = now + PROGRESS_NS;
	pool_each_progress(pool, count_progress, &n);
	return n;
}

int progress_report_add(const struct pool *pool, struct store_cycle *cycle, size_t n, struct deferred_error *err)
{
	struct collect_progress c = { malloc(n * sizeof(*c.p)), 0, n };
	int rc = c.p ? 0 : error_set(err, DEFERRED_ENOMEM, "progress", "out of memory");

	if (rc == 0)
		pool_each_progress(pool, add_progress, &c);
	if (rc == 0 && c.n > 0)
		rc = store_cycle_progress(cycle, c.p, c.n, err);
	for (size_t i = 0; i < c.n; i++)
		c.p[i].job->progress = c.p[i].number;
	free(c.p);
	return rc;
}

int progress_report_add_end(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err)
{
	size_t n, reported = 0;
	struct attempt **attempts = ledger_attempts(ledger, LEDGER_RECORDING, &n);
	int rc = attempts ? 0 : error_set(err, DEFERRED_ENOMEM, "record", "out of memory");

	for (size_t i = 0; i < n; i++)
		if (attempts[i]->job->progress)
			attempts[reported++] = attempts[i];
	if (reported > 0)
		rc = store_cycle_progress_end(cycle, attempts, reported, err);
	free(attempts);
	return rc;
}
