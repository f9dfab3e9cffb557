/* SPDX-License-Identifier: MIT */
/*
 * store_why - reads the facts for base/cause.h. Each call makes read-only transactions of its own. Their statements
 * take at most STORE_WHY_MS and wait at most 100 ms for a lock. No transaction may be open before, and none is open
 * after. Counts go up to STORE_WHY_COUNT. The rights of a viewer suffice; the reason why an attempt failed needs those
 * of a worker.
 *
 *     struct store_why why;
 *     struct cause causes[CAUSES_MAX];
 *
 *     if (store_why_job(pg, id, &why, &err) == 0)
 *             n = cause_of_job(&why.job, causes);
 *     store_why_clear(&why);
 */
#ifndef STORE_WHY_H
#define STORE_WHY_H

#include "base/cause.h"
#include "port/pg.h"

#define STORE_WHY_MS 1000
#define STORE_WHY_COUNT 10000

struct store_why {
	struct cause_job job;         /* of store_why_job() */
	struct cause_backlog backlog; /* of store_why_backlog() */
	char error[400];              /* the line that says most of the last one */
	struct pg_result *held[16];   /* what their texts are borrowed from */
	size_t held_len;
	/* of store_why_backlog(): all rows of admin_status_queues.sql, by which it was decided. To be had by setting it
	 * to NULL here */
	struct pg_result *queues;
};

/* Both overwrite *why; clear it whatever they return. A job that does not exist is no failure but a cause. */
int store_why_job(struct pg *pg, int64_t id, struct store_why *why, struct deferred_error *err);
int store_why_backlog(struct pg *pg, const char *queue, struct store_why *why,
		      struct deferred_error *err); /* queue NULL: all; borrowed */
void store_why_clear(struct store_why *why);

/* And who is missed while others come: to be called after store_why_backlog(), where that did not fail. Asked once a
 * minute; kept: zeros at first. */
struct store_why_missed {
	struct cause_absent absent;
	uint64_t at_ns;
};
void store_why_missed(struct pg *pg, struct store_why_missed *kept, struct store_why *why);

#endif
