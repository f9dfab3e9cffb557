/* SPDX-License-Identifier: MIT */
/*
 * store_client - the statements an application needs: store jobs, cancel one, ask how it ended.
 *
 * One function a file of sql/queries. Arguments have been checked (client.c); a call is a function name,
 * params and options as in deferred.h. No function here begins or ends a transaction.
 */
#ifndef STORE_CLIENT_H
#define STORE_CLIENT_H

#include "port/pg.h"

/* Most calls store_enqueue_many() takes, and the bytes of params they should not exceed by far. */
#define STORE_MANY_MAX 5000
#define STORE_MANY_BYTES ((size_t)16 << 20)

/* Most calls store_enqueue_copy() takes. */
#define STORE_COPY_MAX 500000

/* Does it wait for other jobs? Then it is stored alone. */
bool store_waits(const struct deferred_call_spec *call);

/* The flow it is added to; 0: none. Calls of one statement are of one. */
int64_t store_flow_of(const struct deferred_call_spec *call);

/* Source: job_enqueue_simple.sql; with options job_enqueue.sql. */
int store_enqueue(struct pg *pg, const struct deferred_call_spec *call, int64_t *id, struct deferred_error *err);

/* ids receives n ids in the order of calls; may be NULL. Source: job_enqueue_many.sql. */
int store_enqueue_many(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
		       struct deferred_error *err);

/* May the acting role store jobs by COPY? Source: job_enqueue_may_copy.sql. */
int store_enqueue_may_copy(struct pg *pg, bool *may, struct deferred_error *err);

/* What COPY cannot express: a message needs a look at the queue, a key a look at other jobs, a written time has to be
 * read by the server, tags are checked there. */
bool store_copy_takes(const struct deferred_call_spec *call);

/*
 * Store n calls by COPY into __deferred_hot and __deferred, inside an open transaction. first: number
 * of calls[0] in the caller's array, for messages. *limited is set, and nothing stored, where
 * __deferred_grant limits what the acting role may defer, or a queue or a function has limits; store_enqueue_many()
 * then looks at each job.
 * Source: job_enqueue_queues.sql, job_enqueue_reserve.sql and the two COPY commands in client.c.
 */
int store_enqueue_copy(struct pg *pg, const struct deferred_call_spec *calls, size_t n, size_t first, int64_t *ids,
		       bool *limited, struct deferred_error *err);

/* Returns DEFERRED_ENOTFOUND where there is nothing to cancel. Source: job_cancel.sql. */
int store_cancel(struct pg *pg, int64_t id, struct deferred_error *err);

/* A job about itself. DEFERRED_ESTALE where the receipt is not valid any more. Source: job_finish_self.sql,
 * job_extend.sql. */
int store_finish_self(struct pg *pg, int64_t id, int64_t receipt, const char *result, struct deferred_error *err);
int store_extend(struct pg *pg, int64_t id, int64_t receipt, int64_t lease_ms, struct deferred_error *err);

/* *ended: the job is no longer hot, and outcome was filled in. Source: job_outcome.sql, job_error.sql. */
int store_outcome(struct pg *pg, int64_t id, bool *ended, struct deferred_outcome *outcome, struct deferred_error *err);

#endif
