/* SPDX-License-Identifier: MIT */
/*
 * job - a job in memory, and the words for its states and outcomes.
 *
 * Life of a job. Brackets name where a state is stored: due_at is a column of __deferred_hot, leases are in
 * __deferred_lease, outcomes are rows of __deferred_log.
 *
 *                     defer with delay                        defer
 *                            |                                  |
 *                            v            due                   v
 *                        delayed ---------------------------> ready <-----------+
 *                     [due_at set]                           [no due_at]        |
 *                        ^   |                                  |               |
 *   failed, crashed,     |   | cancelled, expired         claim |               | interrupted,
 *   timeout: to be       |   +-------------+                    v               | superseded,
 *   tried again; snoozed |                 |                 claimed -----------+ lost; given back
 *                        +-----------------|------------- [held by a lease]       before it started
 *                                          |                    |
 *                      +-------------------+---------+----------+-----------+
 *                      v                             v          v           v
 *                  cancelled                      expired     done        dead
 *                                        [no hot row; final row in the log]
 *
 * A job that waits for others is waiting first [due_at infinity, a row in __deferred_wait]. Then it becomes ready or
 * delayed. It is cancelled if one of them did not end as required.
 *
 * `deferred retry` takes dead, cancelled and expired back to ready. An attempt is counted when it ends. Moves are made
 * in SQL only, each guarded by the lease where there is one (sql/functions/claim/__claim.sql).
 */
#ifndef JOB_H
#define JOB_H

#include "base/traceparent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, text): outcomes of an attempt, as in __deferred_log.outcome. */
#define JOB_OUTCOMES(X) \
	X(OK, "ok") \
	X(FAILED, "failed") \
	X(CRASHED, "crashed") \
	X(TIMEOUT, "timeout") \
	X(INTERRUPTED, "interrupted") \
	X(SUPERSEDED, "superseded") \
	X(LOST, "lost") \
	X(CANCELLED, "cancelled") \
	X(EXPIRED, "expired") \
	X(SNOOZED, "snoozed")

enum job_outcome {
#define X(name, text) JOB_##name,
	JOB_OUTCOMES(X)
#undef X
};

/* X(name, text): states of a job, as in the view deferred.job. */
#define JOB_STATES(X) \
	X(DELAYED, "delayed") \
	X(READY, "ready") \
	X(CLAIMED, "claimed") \
	X(DONE, "done") \
	X(DEAD, "dead") \
	X(CANCELLED, "cancelled") \
	X(EXPIRED, "expired") \
	X(WAITING, "waiting")

enum job_state {
#define X(name, text) JOB_IS_##name,
	JOB_STATES(X)
#undef X
};

const char *job_outcome_text(enum job_outcome outcome);
int job_outcome_of(const char *text); /* -1: none of them */
const char *job_state_text(enum job_state state);

/* Longest error and result text kept, bytes; longer ones are cut and end in " [truncated]". */
#define JOB_TEXT_MAX 8192

#define JOB_FUNCTION_NAMES "a name has 1 to 127 letters, digits, '_' and '.', and begins with a letter or '_'"

/* The function that alert.command is. No producer can defer it: its name is none that deferred.defer() takes. */
#define JOB_HOOK_FN "deferred-alert"

/* Why a job that a runner may still be at is not ours any more. */
enum job_gone {
	JOB_HELD,           /* it is */
	JOB_GONE_CANCELLED, /* it was cancelled */
	JOB_GONE_FINISHED,  /* the function has recorded its success itself */
	JOB_GONE_TAKEN      /* its lease had ended, or it was given back: another claim may be at it */
};

struct attempt;

/* A claimed job. Its texts lie in the same allocation, so free(job) releases all. */
struct job {
	struct job *next;
	int ledger;            /* where it is when it has left the runners: see engine/pure/ledger.h */
	struct attempt *ended; /* and how it did, if an attempt has ended */
	int64_t id;
	int64_t receipt;
	int64_t tid;              /* of its hot row when it was claimed: pg_tid() */
	int32_t attempt;          /* of this claim, from 1 */
	int32_t attempt_base;     /* attempts that do not count against max_attempts */
	int32_t max_attempts;     /* 0: default of the function */
	int64_t timeout_ms;       /* 0: default of the function */
	int64_t backoff_floor_ms; /* 0: default of the worker */
	int64_t backoff_ceiling_ms;
	double backoff_exponent;
	int64_t created_at_us;    /* since 1970, database clock */
	int64_t ready_at_us;      /* the same: since when it could run */
	int64_t tick_us;          /* of the schedule that made it, the same; 0: none did */
	int64_t previous_tick_us; /* the one before that became a job; 0: none did */
	int64_t wait_us;          /* from ready to claimed */
	uint64_t claimed_ns;      /* our boot-time clock when the claim was sent */
	uint64_t lease_ns;        /* the same for the claim or its last renewal: the lease counts from there */
	int64_t lease_ms;         /* how long a claim or renewal of ours lasts */
	int64_t granted_ms;       /* how long the lease lasts from there: longer, if the job had it extended */
	enum job_gone gone;
	uint32_t progress;    /* number of the last report sent; 0: none was */
	uint64_t start_by_ns; /* to be given back if it has not started then; 0: no such limit */
	uint64_t release_ns;  /* not to be given back before: somebody had the row locked; 0: at once */
	bool found_unbegun;   /* the first of a runner that died without having begun it, so that said */
	bool limited;         /* claimed under limits: started ahead of others */
	int32_t key; /* number of its concurrency key in a claim that may take several jobs of a key; 0: in any other */
	bool alone;  /* it has a lease of its own: if this worker dies, it has begun as far as anybody can tell */
	bool asks;   /* it may have waited for others, or saved steps: it gets both before it begins */
	bool has_steps; /* it has saved steps, in this attempt or before */
	bool moved_on;  /* it has saved a new one, so this attempt does not count */
	bool set_aside; /* this worker does not have its function: the job is given back and set aside */
	int priority;
	const char *fn, *params, *label, *queue; /* NUL-terminated; label "" if none */
	const char *parents;                     /* how those ended that it waited for, JSON; "": it waited for none */
	const char *steps;                       /* what it has saved before, JSON; "": nothing */
	uint32_t params_len, parents_len, steps_len;
	char traceparent[TRACEPARENT_SIZE]; /* that it was deferred in; "" if none */
	char text[];
};

/* Allocate a job with room for its texts, which are copied. NULL: out of memory. */
struct job *job_new(const char *queue, const char *fn, const char *label, const char *params, size_t params_len);

/* The same job with these texts as parents and steps, each "" if there are none. It replaces job, which must be in no
 * list and have no other reference. NULL: out of memory; job is unchanged. */
struct job *job_add_answer(struct job *job, const char *parents, const char *steps);

/* Jobs of one claim and key run one after the other, in their order. */
bool job_same_key(const struct job *a, const struct job *b);

/* Jobs are chained by `next`. */
void job_list_push(struct job **list, struct job *job);
void job_list_free(struct job *jobs);

#endif
