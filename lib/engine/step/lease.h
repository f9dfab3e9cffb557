/* SPDX-License-Identifier: MIT */
/* lease - renewing the leases of jobs in hand, and giving jobs up before their leases end. */
#ifndef LEASE_H
#define LEASE_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

struct lease {
	bool ask_first;      /* leases are renewed before the next claim, which might take what we run */
	bool fenced;         /* leases are about to end, or have ended */
	uint64_t renewal_ns; /* the last renewal was sent. A lease that was not renewed is tried again, */
	uint64_t renew_ns;   /* but not before: its row may be locked */
};

struct lease_oldest {
	uint64_t renew_ns; /* the first lease should be extended */
	uint64_t fence_ns; /* by then a claim must be given up: a little before the server sees its lease end */
	size_t n;          /* leases held */
};

/* Queues may have leases of their own, so the oldest lease need not be the first to end. */
struct lease_oldest lease_oldest(const struct lease *lease, const struct pool *pool);
uint64_t lease_shortest_ns(const struct pool *pool, int64_t lease_ms); /* until a fence, of the shortest one in use */
void lease_ask_first(struct lease *lease);                             /* there is a new connection */
bool lease_fence(struct lease *lease, struct pool *pool, struct ledger *ledger, uint64_t now); /* returns `fenced` */
/* Adds a renewal to the cycle. lease_ms: of queues without leases of their own. */
int lease_add_renewal(struct lease *lease, const struct pool *pool, struct store_cycle *cycle, int64_t lease_ms,
		      uint64_t now, struct deferred_error *err);
void lease_asked(struct lease *lease); /* or there was nothing to renew */
void lease_after_renewal(struct pool *pool, struct ledger *ledger, const struct store_cycle *cycle);

#endif
