/* SPDX-License-Identifier: MIT */
/*
 * db_connection - the database connection of one thread. It is opened when it is needed. After a loss it is opened
 * again, at growing intervals. Any thread may call db_connection_ready().
 */
#ifndef DB_CONNECTION_H
#define DB_CONNECTION_H

#include "port/pg.h"

#include <stdatomic.h>

struct db_connection {
	const char *conninfo; /* borrowed */
	const char *name;     /* for the log */
	struct pg *pg;
	struct deferred_backoff backoff;
	uint64_t retry_ns;
	unsigned seen; /* how many connections the process had made by the last try */
	bool told;     /* the loss was logged */
	atomic_bool ready;
};

void db_connection_init(struct db_connection *db, const char *conninfo, const char *name);

/* An open connection to a database with the right schema. It may take as long as connect_timeout. NULL: there is none,
 * and err says why. err stays as it is if the next try is not due yet. */
struct pg *db_connection_get(struct db_connection *db, struct deferred_error *err);

/* Opens it again while there is nothing to do, so that the next request does not wait. */
void db_connection_idle(struct db_connection *db);

/* A statement failed in a way that makes the connection useless. */
void db_connection_drop(struct db_connection *db, const struct deferred_error *why);
void db_connection_close(struct db_connection *db);
bool db_connection_ready(struct db_connection *db);

#endif
