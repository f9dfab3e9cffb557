/* SPDX-License-Identifier: MIT */
/*
 * answer - what the server answers to one statement, and no longer waited for than the caller wants. Used by pg.c
 * alone, and with it and pg_connect.c the only file to include libpq.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include <stdbool.h>

struct pg_conn;   /* libpq's PGconn */
struct pg_result; /* libpq's PGresult */

enum answer {
	ANSWER_CAME,      /* in time, or the connection broke */
	ANSWER_CANCELLED, /* after the server was asked to give up */
	ANSWER_NONE,      /* not even then */
};

/*
 * Send the queued data and take the last result, as PQexec() does. If the server said why it ends the session, take
 * that. limit_ms 0: no limit. *res NULL: there is none. After anything but ANSWER_CAME the connection must not be used
 * again. The cancel request may reach the server late and would end another statement.
 */
enum answer answer_take(struct pg_conn *conn, int limit_ms, struct pg_result **res);

/* The next row of a COPY to here, as PQgetCopyData() gives it: its length; or ANSWER_ROW_NONE, the result tells why; or
 * ANSWER_ROW_LATE. */
enum { ANSWER_ROW_LATE = 0, ANSWER_ROW_NONE = -1 };
int answer_row(struct pg_conn *conn, int limit_ms, char **row);

/* Send what was queued and wait for nothing else. False: it cannot be sent in time. */
bool answer_flush(struct pg_conn *conn, int limit_ms);

#endif
