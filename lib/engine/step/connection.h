/* SPDX-License-Identifier: MIT */
/* connection - the connection to the server: lost, and found again. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "base/error.h"
#include "deferred.h"
#include "port/pg.h"

#include <stdbool.h>
#include <stdint.h>

enum connection_state {
	CONNECTION_READY,      /* between cycles */
	CONNECTION_BUSY,       /* a cycle is under way */
	CONNECTION_CONNECTING, /* to be polled */
	CONNECTION_WAITING,    /* lost: the next try begins at retry_ns */
};

struct connection {
	enum connection_state state;
	struct pg *pg;
	uint64_t lost_ns;  /* when it was lost; 0: it was not */
	uint64_t retry_ns; /* next try: to connect, or to send a cycle that failed */
	struct deferred_backoff backoff;
	struct deferred_error lost; /* why */
	bool logged;                /* the reason why there is no other connection yet */
};

/* random: any 64 bits. silent: it was given up on purpose. */
void connection_lose(struct connection *c, const struct deferred_error *err, bool silent, uint64_t random,
		     uint64_t now);
/* A step of connecting again. limit_ms: the longest wait for names, and for each address. Returns 1 when connected. */
int connection_retry(struct connection *c, const char *conninfo, int limit_ms, uint64_t now,
		     struct deferred_error *err);
void connection_found(struct connection *c, uint64_t now); /* and all is settled */
void connection_sent(struct connection *c);                /* a cycle */
void connection_answered(struct connection *c);            /* the cycle has ended */
void connection_pause(struct connection *c, uint64_t until_ns);
bool connection_can_send(const struct connection *c, uint64_t now);
bool connection_lost_for(const struct connection *c, int64_t ms, uint64_t now); /* for that long or longer */

#endif
