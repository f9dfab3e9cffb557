/* SPDX-License-Identifier: MIT */
/*
 * store_shard - the number of a database among several. lib/base/shard_route.h says what it is for. Each function has a
 * statement of its name.
 */
#ifndef STORE_SHARD_H
#define STORE_SHARD_H

#include "port/pg.h"

/* Make it the database with that number, 1 to SHARD_MAX. *set: it was none before. DEFERRED_EDB: it is another one, or
 * has jobs. Only the owner may. */
int store_shard_set(struct pg *pg, int number, bool *set, struct deferred_error *err);

struct store_shard {
	int number;      /* 0: it is none */
	int64_t ready;   /* jobs, counted to STORE_SHARD_READY_MAX */
	int64_t workers; /* live ones */
};
#define STORE_SHARD_READY_MAX 10000
int store_shard_look(struct pg *pg, struct store_shard *shard, struct deferred_error *err);

#endif
