/* SPDX-License-Identifier: MIT */
/* hand - the jobs in hand: in the pool, and in the ledger once they have left the runners or must not begin yet. */
#ifndef HAND_H
#define HAND_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

void hand_begin(struct pool *pool, struct job *jobs); /* to the runners */
/* Jobs of a function, or of all for NULL, that have not begun. The next cycle gives them back. */
void hand_return_unstarted(struct pool *pool, struct ledger *ledger, const char *fn);
/* Jobs that wait while all runners are busy with long jobs, so that other workers can take them. The same where all of
 * them wait for long jobs of their keys. */
void hand_return_waiting(struct pool *pool, struct ledger *ledger, uint64_t now);
/* The cycle under way came to nothing. stopping: jobs that have not begun are given back. */
void hand_undo_cycle(struct pool *pool, struct ledger *ledger, struct store_cycle *cycle, enum ledger_state recording,
		     bool stopping);

bool hand_is_empty(const struct pool *pool, const struct ledger *ledger);
size_t hand_idle_runners(const struct pool *pool);
/* Receipts of all jobs in hand, except of attempts that are being recorded. Adds them to receipts, sorted. Returns
 * false when there is no memory. */
bool hand_receipts(const struct pool *pool, const struct ledger *ledger, struct store_ids *receipts);

#endif
