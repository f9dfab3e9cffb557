/* SPDX-License-Identifier: MIT */
/* delayed - where to begin to look for delayed jobs that are due, and when to look for all ended leases. */
#ifndef DELAYED_H
#define DELAYED_H

#include "store/cycle/cycle.h"

struct delayed {
	int64_t from_us;   /* delayed jobs due from then on are looked for, on the server; INT64_MIN: all */
	uint64_t whole_ns; /* then all are looked for again */
	uint64_t lost_ns;  /* then all ended leases are looked for, not only recent ones */
};

void delayed_forget(struct delayed *delayed);              /* what was learnt, with the connection */
void delayed_look_at_all_leases(struct delayed *delayed);  /* with the next look */
void delayed_begin(struct delayed *delayed, uint64_t now); /* before a look */
/* Adds such a look to a cycle: delayed jobs that are due and jobs of ended leases become ready. */
int delayed_add(struct delayed *delayed, struct store_cycle *cycle, int64_t worker, int32_t max_attempts, uint64_t now,
		struct deferred_error *err);
void delayed_after(struct delayed *delayed, const struct store_cycle *cycle); /* it has ended */

#endif
