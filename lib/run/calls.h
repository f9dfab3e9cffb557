/* SPDX-License-Identifier: MIT */
/*
 * calls - the jobs that one runner was given, in the order it takes them, and what the board says about each.
 *
 * call[] is a ring: `used` slots from `first` on. Only the first call can be running, and the others of its batch,
 * unless the board says that it is done. It cannot have begun earlier than `first_ns`. Whatever a function writes to
 * the board, it moves no call, removes no call and gains no time.
 */
#ifndef CALLS_H
#define CALLS_H

#include "run/asks.h"
#include "run/board.h"
#include "base/step.h"

/* The terms that a job is sent with. */
struct call_terms {
	int64_t timeout_ms, grace_ms; /* grace: the runner itself keeps the limit, and is killed so much later */
	const char *plugin;
	bool plain_crash; /* report a crash without symbols */
};

struct call {
	struct job *job; /* NULL: not in use, or recalled while the runner has not skipped its frame yet */
	int64_t timeout_ms, grace_ms;
	const char *plugin;
	unsigned int batch, more; /* calls of its batch, as it was sent, and those of them behind it */
	uint64_t begun_ns;        /* counts as begun since; 0: not yet */
	uint64_t done_ns;         /* done on the board, but part of its texts is missing since; 0: not the case */
	char *error, *result;
	size_t error_len, result_len;
	struct asks asks;
};

struct calls {
	struct board *board;
	struct call call[BOARD_SLOTS];
	unsigned int first, used;
	uint64_t first_ns; /* since then no other call comes before the first one */
	uint64_t ended_ns; /* end of the last attempt, as the runner reported it */
	size_t load;       /* calls that have a job */
	bool forged;       /* the board has said something impossible */
	/* The step that the running function waits for; NULL: none. */
	struct job_step *step;
	unsigned int step_slot;
};

/* The slot of the i-th call. */
static inline unsigned int calls_slot(const struct calls *calls, unsigned int i)
{
	return (calls->first + i) % BOARD_SLOTS;
}

static inline struct call *calls_first(struct calls *calls)
{
	return &calls->call[calls->first];
}

static inline uint64_t calls_clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Append a batch, chained by `next`. There must be free slots: used + n <= BOARD_SLOTS. */
void calls_add(struct calls *calls, struct job *jobs, unsigned int n, const struct call_terms *terms);
void calls_drop_first(struct calls *calls, uint64_t now);

/* By the board: how many calls from the first on has the runner finished, or skipped because they were recalled? */
unsigned int calls_over(const struct calls *calls);
bool calls_first_is_over(const struct calls *calls);
bool calls_first_is_queued(const struct calls *calls);

/* Does the board say something impossible? The first call is queued, then running, then done. */
bool calls_are_forged(const struct calls *calls);

/* The job that runs, as the board says; NULL: none. */
const struct job *calls_running(struct calls *calls, uint64_t *started_ns, int64_t *timeout_ms);

/* The same without its start, for log lines. */
const struct job *calls_running_job(const struct calls *calls);

/* The calls that run, one after the other. If the board names none, these are the first call and the others of its
 * batch. Set *n to 0 for the first one; it is moved on. NULL: there is no more. */
const struct call *calls_current(const struct calls *calls, unsigned int *n);

/* When the runner must be killed if nothing changes. See runner_limit_ns(). */
uint64_t calls_limit_ns(struct calls *calls, bool paused, int64_t *timeout_ms);

/* Has it a job of this job's key? */
bool calls_have_key(const struct calls *calls, const struct job *job);

/* Take back the jobs that have not begun, as a list. A living runner keeps its first one, and the batch of that. */
struct job *calls_recall(struct calls *calls, bool dead);

/* Take the job out of a call and forget the rest of it. */
struct job *calls_take_job(struct calls *calls, struct call *call);

/* A step of a call, from the payload of its frame, which a NUL follows. Returns 0, or -1: nonsense, or no memory. */
int calls_add_step(struct calls *calls, unsigned int slot, const char *payload, size_t len);
/* Answer the step: enum deferred_step. */
void calls_answer_step(struct calls *calls, int result);
/* The step, if it is of this job, which the caller owns then. NULL: there is none. */
struct job_step *calls_take_step(struct calls *calls, const struct job *job);

/* The last report about this call. False: there is none. */
bool calls_progress(const struct calls *calls, const struct call *call, struct job_progress *progress);

#endif
