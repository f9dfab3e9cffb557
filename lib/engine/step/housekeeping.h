/* SPDX-License-Identifier: MIT */
/* housekeeping - a service regularly sends a cycle that reports that it is alive and maintains the tables. */
#ifndef HOUSEKEEPING_H
#define HOUSEKEEPING_H

#include "store/cycle/cycle.h"

struct housekeeping {
	uint64_t ns;    /* the next one */
	bool under_way; /* the current cycle is one */
};

int housekeeping_add(struct housekeeping *h, struct store_cycle *cycle, const struct store_scope *scope, int64_t worker,
		     int64_t from_us, uint64_t now, struct deferred_error *err);
/* The cycle has ended. Returns 1 when the server does not know this worker, or an error. */
int housekeeping_after(struct housekeeping *h, const struct store_cycle *cycle, struct deferred_error *err);
void housekeeping_at_once(struct housekeeping *h);
void housekeeping_lost(struct housekeeping *h); /* the cycle under way, with the connection */
/* The cycle was rolled back. err is NULL if it is to be sent again at once. */
void housekeeping_failed(struct housekeeping *h, const struct deferred_error *err);

#endif
