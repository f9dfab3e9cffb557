/* SPDX-License-Identifier: MIT */
/*
 * spool_drain - stores the entries of a spool, each exactly once, and then removes them.
 *
 * The UUID of an entry is stored with its job. A drain that dies between the commit and the removal leaves entries
 * whose UUID is known, and the next one only removes them. Several drains at once store nothing twice either. Only
 * entries of this user are read, and of those only what was meant for the same database and role. So the role that
 * deferred a job stores it.
 */
#ifndef SPOOL_DRAIN_H
#define SPOOL_DRAIN_H

#include "port/pg.h"
#include "port/spool.h"

struct spool_drained {
	size_t stored;    /* also those that a drain before this one had stored, and not removed */
	size_t refused;   /* moved to the folder `refused` */
	size_t kept;      /* a queue is full, or something else that passes; why: the first reason */
	size_t elsewhere; /* of this user, for another database or role; where: the first one */
	size_t strange;   /* not regular files */
	char why[256], where[256];
};

/*
 * conninfo   of the database
 * most       entries; 0: all
 * elsewhere  also store entries that were meant for another database or role
 *
 * Connects only if there is an entry of this user. Returns 0, also if some entries stay. An error is one of the server,
 * or DEFERRED_ESYSTEM of the folder. *done has the numbers of what was done before.
 */
int spool_drain(const char *path, const char *conninfo, size_t most, bool elsewhere, struct spool_drained *done,
		struct deferred_error *err);

#endif
