/* SPDX-License-Identifier: MIT */
/*
 * pg_connect - how a connection is made: what is asked for, one host after the other, for how long. Used by pg.c alone, and with
 * it and answer.c the only file to include libpq.
 */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "base/error.h"

struct pg_conn; /* libpq's PGconn */

/* Begin. As pg_open(), which see. *conn is NULL or to be finished. Returns 0 or DEFERRED_ECONNECT. */
int pg_connect_start(struct pg_conn **conn, const char *conninfo, const char *program, struct deferred_error *err);

/* The host it waits for does not answer: begin anew with the others that conninfo names. DEFERRED_ECONNECT: there are none left. */
int pg_connect_next(struct pg_conn **conn, const char *conninfo, const char *program, struct deferred_error *err);

/* Wait for what was begun; connect_timeout counts for each address. Returns 0 or DEFERRED_ECONNECT. */
int pg_connect_wait(struct pg_conn **conn, const char *conninfo, const char *program, struct deferred_error *err);

/* The text of conninfo with this login in place of its own; given, and to be wiped before it is freed: it has the password in it. NULL: conninfo is wrong,
 * or there is no memory. */
char *pg_connect_as(const char *conninfo, const char *user, const char *password, struct deferred_error *err);

/* What libpq says of a connection that failed. Returns DEFERRED_ECONNECT. conn NULL: out of memory. */
int pg_connect_failed(const struct pg_conn *conn, struct deferred_error *err);

#endif
