/* SPDX-License-Identifier: MIT */
/*
 * context - the connection of a struct deferred, or one of the caller's, on which an operation is done.
 *
 * A statement that was refused as a whole (deadlock, standby, statement unknown behind a pooler) is sent again on the
 * connection of a context. A statement whose outcome is unknown is never sent again.
 */
#ifndef CONTEXT_H
#define CONTEXT_H

#include "port/pg.h"
#include "port/spool.h"

#include <sys/types.h>

struct deferred {
	struct pg *pg; /* NULL: lost, to be opened again */
	char *conninfo;
	int64_t params_max_bytes;
	int answer_ms, lock_ms;      /* 0: no limit */
	char *spool;                 /* folder for calls while the server cannot be reached; NULL: none */
	char spooled[SPOOL_ID_SIZE]; /* the last entry */
	uint64_t retry_ns;           /* with a spool: no attempt to connect before this time; 0: the last one worked */
	struct deferred_error unreachable; /* why that one did not */
	enum context_copy { CONTEXT_COPY_UNKNOWN, CONTEXT_COPY_NO, CONTEXT_COPY_YES } may_copy;
	pid_t pid;                  /* of the process that opened it */
	struct deferred *inherited; /* context of a parent process, whose connection is not ours to close */
};

#define CONTEXT_LIMIT_MAX_MS 86400000

int context_open(struct deferred **d, const char *conninfo, const struct deferred_open_opts *opts,
		 struct deferred_error *err);

/* There is no context: an error with a hint. where: the function. */
int context_missing(const char *where, struct deferred_error *err);

/* Is this what context_connect() returns while the server is away for a while? Nothing was sent then. */
bool context_is_away(const struct deferred_error *err);

typedef int context_fn(struct pg *pg, void *arg, struct deferred_error *err);

/* Do an operation on the connection of the context, which is opened again if it was lost before. */
int context_run(struct deferred *d, context_fn *operation, void *arg, struct deferred_error *err);

/* The same of one that stores something: where the time was up, it says that nothing was stored. */
int context_store(struct deferred *d, context_fn *operation, void *arg, struct deferred_error *err);

/* Do an operation on the caller's connection. */
int context_borrow(struct pg_conn *conn, context_fn *operation, void *arg, struct deferred_error *err);

/* The words of the server do not say which role has the right that is missing. */
void context_explain_denied(const struct pg *pg, const char *role, struct deferred_error *err);

#endif
