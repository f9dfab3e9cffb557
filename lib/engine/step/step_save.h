/* SPDX-License-Identifier: MIT */
/* step_save - steps that functions have saved, on their way to the database; the functions wait for the answers. */
#ifndef STEP_SAVE_H
#define STEP_SAVE_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

uint64_t step_save_due_ns(const struct pool *pool); /* UINT64_MAX: no function waits */
/* Those of the runners that are due, and those of attempts that are being recorded. pool NULL: the latter only. */
int step_save_add(const struct pool *pool, const struct ledger *ledger, struct store_cycle *cycle, uint64_t now,
		  struct deferred_error *err);
/* Steps of successes that are being recorded are of no use any more. */
int step_save_add_end(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err);
void step_save_after(const struct pool *pool, const struct store_cycle *cycle, uint64_t now);

#endif
