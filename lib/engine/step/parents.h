/* SPDX-License-Identifier: MIT */
/* parents - a job that waited for others learns how those ended before it begins, and what it has saved before. */
#ifndef PARENTS_H
#define PARENTS_H

#include "engine/pure/ledger.h"
#include "store/cycle/cycle.h"

struct job *parents_take(struct ledger *ledger, struct job *jobs); /* into the ledger; returns the other jobs */
int parents_add(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err);
/* Returns the jobs that may begin now. */
struct job *parents_after(struct ledger *ledger, const struct store_cycle *cycle, uint64_t now);

#endif
