/* SPDX-License-Identifier: MIT */
/*
 * round_trip - one cycle of two transactions. The first records, asks, gives back, renews and reports. The second
 * claims. Each stands whatever becomes of the other.
 */
#ifndef ROUND_TRIP_H
#define ROUND_TRIP_H

#include "engine/cycle/trip.h"

/* When a cycle is due, by reason. leases: as lease_oldest() returned it. */
void round_trip_due(const struct trip *t, const struct lease_oldest *leases, struct due *due, uint64_t now);
/* Sends a cycle if there is reason to. An error: it was not sent, see rollback.h. */
int round_trip_start(struct trip *t, uint64_t now, struct deferred_error *err);
/* Returns 1 if the server does not know this worker any more. An error: the cycle was rolled back, see rollback.h. */
int round_trip_poll(struct trip *t, uint64_t now, struct deferred_error *err);
struct balance_in round_trip_balance_in(const struct trip *t);

#endif
