/* SPDX-License-Identifier: MIT */
/*
 * pg_state - a connection as the files of pg.h see it. Each of them calls only those to the right of it:
 *
 *     pg_pipeline.c, pg_copy.c -> pg_exec.c -> pg.c -> pg_answer.c;  pg_args.c, pg_result.c
 */
#ifndef PG_STATE_H
#define PG_STATE_H

#include "port/answer.h"
#include "port/pg.h"

#include <libpq-fe.h>

#define PG_PREPARED_MAX 64

struct pg {
	PGconn *conn;
	bool borrowed;
	bool unnamed;
	bool transactions; /* pg_exec() makes them */
	bool pinned;       /* the session: see pg_pin() */
	bool own, shared;
	bool denied;                      /* the last failure: see pg_denied() */
	bool here_only;                   /* a commit is not known to be on the synchronous standby */
	int answer_ms, lock_ms;           /* see pg_set_limits() */
	enum answer answer;               /* the last one; anything but ANSWER_CAME: the connection is not used again */
	char last_word[200];              /* why the server ended the session, said while nothing was asked of it */
	struct pg_connecting *connecting; /* conn is NULL until that ends */
	const struct sql_statement *prepared[PG_PREPARED_MAX];
	int prepared_len;
	const struct sql_statement *sent_once[PG_PREPARED_MAX]; /* unnamed, that is */
	int sent_once_len;
	/* Results that the pipeline expects, in order. preparing: it is that of the preparation, else NULL. */
	struct expected {
		int tag;
		const struct sql_statement *preparing;
		const struct sql_statement *stmt;
	} * expected;
	size_t expected_len, expected_at, expected_cap;
	size_t syncs; /* transactions whose end has not been read */
	bool failed;  /* a statement of the transaction whose answers are being read has */
	struct deferred_error pipeline_err;
	void (*on_notice)(void *data, const char *sqlstate, const char *message);
	void *notice_data;
};

/* The parameters of a statement as libpq wants them. */
struct pg_wire {
	unsigned int types[32];
	const char *values[32];
	int lengths[32], formats[32];
	int n;
};

int pg_to_wire(struct pg_wire *wire, const struct pg_args *args, const char *where, struct deferred_error *err);

/* Keep why the server ends the session, if this result says it. */
void pg_note_last_word(struct pg *pg, const PGresult *res);

/* Notices of the server come here. libpq would print them to standard error. */
void pg_receive_notice(void *pg, const PGresult *res);

/* Turn a failed result into an error. res NULL: none came. */
int pg_failed_result(struct pg *pg, const PGresult *res, const char *where, struct deferred_error *err);

/*
 * Fail if somebody cancelled the wait for the synchronous standby. The commit is on this server only then, and is lost
 * if this server is lost. So it is neither a success nor a failure. On a borrowed connection the notice goes to
 * the caller's own receiver.
 */
int pg_known_elsewhere(struct pg *pg, const char *where, struct deferred_error *err);

/* No answer came, or one that says it was cancelled. commits: what was sent may have been committed by itself. */
int pg_too_late(struct pg *pg, bool commits, const char *where, struct deferred_error *err);

/*
 * Take the answer to what has just been sent. sent: libpq's word that it could be. *out receives it if it is a good
 * one. A request to cancel that the server heard ends in an error, so that nothing was changed. If it came too late,
 * the answer is good, or the commit waits for a standby.
 */
int pg_take_answer(struct pg *pg, int sent, bool commits, const char *where, PGresult **out,
		   struct deferred_error *err);

bool pg_is_prepared(const struct pg *pg, const struct sql_statement *stmt);
void pg_set_prepared(struct pg *pg, const struct sql_statement *stmt);

#endif
