/* SPDX-License-Identifier: MIT */
/*
 * limits - how many connections a server has, and how long each may keep it waiting.
 *
 * Above a limit, the server closes the connection that has kept it waiting longest. It waits for a request, for the
 * rest of one, or for the client to read an answer. So a client with many connections excludes nobody else.
 */
#ifndef LIMITS_H
#define LIMITS_H

#include "http/budget.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One connection. */
struct limits_entry {
	struct limits_entry *next, **before;
	int fd;
	char address[BUDGET_NAME_SIZE]; /* as budget_address() has it; "": a local socket */
	bool evicted;                   /* shut down for another one, and not counted */
	_Atomic uint64_t deadline_ns, since_ns;
};

/* All connections of a server. */
struct limits {
	pthread_mutex_t lock;
	struct limits_entry *entries;
	int open; /* entries that are not evicted */
	int open_max, per_address_max;
};

/* per_address_max 0: no limit. Local sockets never have this limit. */
void limits_init(struct limits *l, int open_max, int per_address_max);
void limits_free(struct limits *l);

/* fd and address are set. The descriptor stays open until limits_leave(). */
void limits_enter(struct limits *l, struct limits_entry *e, int64_t deadline_ms);
void limits_leave(struct limits *l, struct limits_entry *e);

/* The server waits for the client from now on, for so long at most; below 0: it does not wait. */
void limits_wait(struct limits_entry *e, int64_t deadline_ms);

/* Shuts down the connections whose deadline has passed. */
void limits_tick(struct limits *l);

#endif
