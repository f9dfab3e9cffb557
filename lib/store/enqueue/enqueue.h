/* SPDX-License-Identifier: MIT */
/*
 * enqueue - the statements that store jobs: one, many, and many by COPY.
 *
 * Arguments have been checked by defer_check(). A call is the name of a function, params, and options as in deferred.h.
 * No function here begins or ends a transaction.
 */
#ifndef ENQUEUE_H
#define ENQUEUE_H

#include "port/pg.h"

/* Most calls that store_enqueue_many() takes, and the bytes of params that they should not exceed by far. */
#define STORE_MANY_MAX 5000
#define STORE_MANY_BYTES ((size_t)16 << 20)

/* Most calls that store_enqueue_copy() takes. */
#define STORE_COPY_MAX 500000

/* The options of a call; zeros if it has none. Its params; "{}" if it has none. */
const struct deferred_opts *store_opts_of(const struct deferred_call_spec *call);

static inline const char *store_params_of(const struct deferred_call_spec *call)
{
	return call->params ? call->params : "{}";
}

/* True if the call has an option that only the statement for one job takes. */
bool store_is_alone(const struct deferred_call_spec *call);

/* The flow it is added to; 0: none. All calls of one statement are of one flow. */
int64_t store_flow_of(const struct deferred_call_spec *call);

/* Send job_enqueue_simple.sql, or with options job_enqueue.sql. */
int store_enqueue(struct pg *pg, const struct deferred_call_spec *call, int64_t *id, struct deferred_error *err);

/* ids receives n ids in the order of calls; may be NULL. */
int store_enqueue_many(struct pg *pg, const struct deferred_call_spec *calls, size_t n, int64_t *ids,
		       struct deferred_error *err);

/* ---- COPY ---- */

/* May the acting role store jobs by COPY? */
int store_enqueue_may_copy(struct pg *pg, bool *may, struct deferred_error *err);

/* COPY cannot store a message, which needs a look at its queue, nor a key, which needs a look at other jobs. Written
 * times and tags are read by the server, too. */
bool store_copy_takes(const struct deferred_call_spec *call);

/*
 * Store n calls by COPY into __deferred_hot and __deferred, inside an open transaction.
 *
 * first: the number of calls[0] in the caller's array, for messages.
 *
 * If the acting role, a queue or a function has limits, *limited is set, and nothing is stored. Then
 * store_enqueue_many() must check each job.
 */
int store_enqueue_copy(struct pg *pg, const struct deferred_call_spec *calls, size_t n, size_t first, int64_t *ids,
		       bool *limited, struct deferred_error *err);

#endif
