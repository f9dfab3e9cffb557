/* SPDX-License-Identifier: MIT */
/*
 * link - one thread's connection to the database: opened when it is needed, and again, at growing intervals, after it
 * was lost. Used by one thread; link_ready() by any.
 */
#ifndef LINK_H
#define LINK_H

#include "port/pg.h"

#include <stdatomic.h>

struct link {
	const char *conninfo; /* borrowed, for the life of the link */
	const char *name;     /* for the log */
	struct pg *pg;
	struct deferred_backoff backoff;
	uint64_t retry_ns;
	unsigned seen; /* of link.c's count of connections made */
	bool told;     /* that it is away */
	atomic_bool ready;
};

void link_init(struct link *link, const char *conninfo, const char *name);

/* An open connection to a database with the right schema; NULL: there is none now, and err says why (not set while the
 * next try is not yet due). May take as long as connect_timeout. */
struct pg *link_get(struct link *link, struct deferred_error *err);

/* Look after it while there is nothing to do, so that the next request finds it open. */
void link_idle(struct link *link);

/* A statement failed in a way that makes the connection useless. */
void link_drop(struct link *link, const struct deferred_error *why);
void link_close(struct link *link);
bool link_ready(struct link *link);

#endif
