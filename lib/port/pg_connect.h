/* SPDX-License-Identifier: MIT */
/*
 * pg_connect - how a connection is made: what is asked for, one host after the other, for how long. Used by pg.c alone,
 * and with it and answer.c the only file to include libpq.
 */
#ifndef PG_CONNECT_H
#define PG_CONNECT_H

#include "base/error.h"

struct pg_conn; /* libpq's PGconn */
struct pg_connecting;

/*
 * Begin, without waiting. As pg_open(), which see. Host names are looked up in threads. limit_ms: the most that is
 * waited for the names, and then for each address, where connect_timeout allows more. 0: connect_timeout alone counts.
 * Returns 0 or DEFERRED_ECONNECT.
 */
int pg_connect_start(struct pg_connecting **c, const char *conninfo, const char *program, int limit_ms,
		     struct deferred_error *err);

int pg_connect_fd(const struct pg_connecting *c);
short pg_connect_events(const struct pg_connecting *c);

/* Call it when the descriptor is ready, and now and then, for the limits. *conn is given when it is connected, else
 * NULL. Returns 0 or DEFERRED_ECONNECT: there is no place left to try. */
int pg_connect_poll(struct pg_connecting *c, struct pg_conn **conn, struct deferred_error *err);

/* The same, waiting. */
int pg_connect_wait(struct pg_connecting *c, struct pg_conn **conn, struct deferred_error *err);

void pg_connect_end(struct pg_connecting *c); /* NULL is accepted */

/* The text of conninfo with this login in place of its own. It contains the password, so the caller wipes it before
 * freeing it. NULL: conninfo is wrong, or there is no memory. */
char *pg_connect_as(const char *conninfo, const char *user, const char *password, struct deferred_error *err);

#endif
