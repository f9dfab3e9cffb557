/* SPDX-License-Identifier: MIT */
/*
 * store_why - reads what base/cause.h decides by. Each call makes read-only transactions of its own, in which no
 * statement takes longer than STORE_WHY_MS, nor waits for a lock longer than 100 ms; no transaction may be open before,
 * and none is after. What is counted is counted up to STORE_WHY_COUNT. A viewer may ask; only a worker's rights show
 * why an attempt failed.
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

/* Both fill *why anew; clear it whatever they return. There being no such job is no failure: that is a cause. */
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
