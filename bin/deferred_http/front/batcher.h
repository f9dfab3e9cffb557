/* SPDX-License-Identifier: MIT */
/*
 * batcher - runs requests as statements. A few threads have a connection each. A free thread takes all requests of the
 * kind that has waited longest, up to BATCHER_MAX and BATCHER_MESSAGES_MAX. They become one statement and one commit.
 * A single request does not wait for others. One more thread runs slow requests, one at a time, so that clearing a
 * queue does not delay messages.
 *
 * No request is answered before its commit: wake() is called after it. If the connection is lost during a statement,
 * the outcome is unknown, and the answer is BATCHER_BUSY. Clients repeat a request that got 503.
 */
#ifndef BATCHER_H
#define BATCHER_H

#include "store/json_api.h"
#include "store/message.h"

#define BATCHER_MAX 64
#define BATCHER_MESSAGES_MAX 256 /* that one statement gets: all are in memory at once */
#define BATCHER_WAIT_MS 30000    /* longest time a request waits for a thread */

enum batcher_kind {
	BATCHER_PUT,
	BATCHER_GET,
	BATCHER_UPDATE,
	BATCHER_DELETE,
	BATCHER_DEFER,
	BATCHER_CALL,
	BATCHER_SLOW,
	BATCHER_KINDS
};

enum batcher_outcome {
	BATCHER_DONE,   /* see the status of the item */
	BATCHER_BUSY,   /* the database cannot be reached or is too busy; the outcome may be unknown */
	BATCHER_FAILED, /* the statement failed, and would fail again; it was logged */
};

#define BATCHER_AGAIN 1 /* of a BATCHER_SLOW call: it is not finished; call it again after the others that wait */

struct batcher_job {
	enum batcher_kind kind;
	union {
		struct message_put put;
		struct message_get get;
		struct message_update update;
		struct message_delete delete;
		struct json_api_defer defer;
		/* Of BATCHER_CALL and BATCHER_SLOW. Returns 0, BATCHER_AGAIN or an error. */
		struct {
			int (*f)(void *data, struct pg *pg, struct deferred_error *err);
			void *data;
		} call;
	};
	enum batcher_outcome outcome;
	bool (*may_run)(void *data); /* asked before it runs; false: the outcome is BATCHER_BUSY; NULL: not asked */
	void (*wake)(void *data);    /* called once, by another thread: then the job is the caller's again */
	void *wake_data;
	uint64_t since_ns;
	struct batcher_job *next;
};

struct batcher;

/* conninfo is copied. NULL: no memory or no thread, and err says so. */
struct batcher *batcher_start(const char *conninfo, int threads, struct deferred_error *err);

/* The job is borrowed until wake(). */
void batcher_submit(struct batcher *batcher, struct batcher_job *job);

/* Gives up jobs that waited too long because the server does not answer. Call it about every second. */
void batcher_expire(struct batcher *batcher);

/* Whether there is a connection to a database with the right schema. */
bool batcher_ready(struct batcher *batcher);

/* Runs what waits, then ends the threads. */
void batcher_stop(struct batcher *batcher);

#endif
