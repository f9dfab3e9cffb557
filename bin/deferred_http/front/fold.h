/* SPDX-License-Identifier: MIT */
/*
 * fold - requests become statements. A few threads, each with a connection, take what waits: whenever one is free it
 * takes all waiting requests of the kind that has waited longest, up to FOLD_MAX and FOLD_MESSAGES_MAX, and runs them
 * as one statement, one commit. A request that is alone goes at once. One more thread runs what takes longer, one
 * request at a time, so that clearing a queue holds up no message.
 *
 * Nothing is answered before its transaction is committed: wake() is called after that. When the connection is lost
 * while a statement runs, its outcome is unknown, and the answer is FOLD_BUSY: clients repeat what got a 503.
 */
#ifndef FOLD_H
#define FOLD_H

#include "store/message.h"

#define FOLD_MAX 64
#define FOLD_MESSAGES_MAX 256 /* that one statement may get: what it reads is in memory at once */
#define FOLD_WAIT_MS 30000    /* longest time a request waits for a thread */

enum fold_kind { FOLD_PUT, FOLD_GET, FOLD_UPDATE, FOLD_DELETE, FOLD_CALL, FOLD_SLOW, FOLD_KINDS };

enum fold_outcome {
	FOLD_DONE,   /* see the status of the item */
	FOLD_BUSY,   /* the database is away, or too busy; the outcome may be unknown */
	FOLD_FAILED, /* the statement failed, and would again; it has been logged */
};

#define FOLD_AGAIN 1 /* of a FOLD_SLOW call: some is left, call again after the others that wait */

struct fold_job {
	enum fold_kind kind;
	union {
		struct message_put put;
		struct message_get get;
		struct message_update update;
		struct message_delete delete;
		/* Of FOLD_CALL and FOLD_SLOW. Returns 0, FOLD_AGAIN or an error. */
		struct {
			int (*f)(void *data, struct pg *pg, struct deferred_error *err);
			void *data;
		} call;
	};
	enum fold_outcome outcome;
	bool (*may_run)(void *data); /* NULL, or asked right before it would be run; false: FOLD_BUSY instead */
	void (*wake)(void *data);    /* called once, by another thread: then the job is the caller's again */
	void *wake_data;
	uint64_t since_ns;
	struct fold_job *next;
};

struct fold;

/* conninfo is copied. NULL: no memory or no thread, and err says so. */
struct fold *fold_start(const char *conninfo, int threads, struct deferred_error *err);

/* The job is borrowed until wake(). */
void fold_submit(struct fold *fold, struct fold_job *job);

/* Give up on what has waited too long: all threads hang on a server that does not answer. To be called every second or
 * so. */
void fold_expire(struct fold *fold);

/* Is there a connection, to a database with the right schema? */
bool fold_ready(struct fold *fold);

/* Runs what waits, then ends the threads. */
void fold_stop(struct fold *fold);

#endif
