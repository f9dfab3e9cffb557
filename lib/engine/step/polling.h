/* SPDX-License-Identifier: MIT */
/* polling - when a service looks for jobs again, where nothing is ready and no notification comes. */
#ifndef POLLING_H
#define POLLING_H

#include "deferred.h"
#include "port/config.h"
#include "store/cycle/cycle.h"

struct polling {
	struct deferred_backoff interval;
	uint64_t poll_ns; /* the next look; 0: not set */
	uint64_t due_ns;  /* the next delayed job is due; 0: none is known */
};

void polling_set_up(struct polling *polling, const struct config *config);
uint64_t polling_due_ns(const struct polling *polling, uint64_t rate_ns); /* rate_ns: struct plan */
void polling_learn(struct polling *polling, const struct store_due *due);
/* A cycle with a claim has ended. */
void polling_after_claim(struct polling *polling, bool got_some, bool exhausted, uint64_t now);

#endif
