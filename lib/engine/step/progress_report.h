/* SPDX-License-Identifier: MIT */
/* progress_report - what functions report of their progress, on its way to the database. */
#ifndef PROGRESS_REPORT_H
#define PROGRESS_REPORT_H

#include "engine/pure/ledger.h"
#include "run/pool/pool.h"
#include "store/cycle/cycle.h"

/* Counts new reports once a second; in between it returns 0. They go with the next cycle. */
size_t progress_report_count(uint64_t *next_ns, const struct pool *pool, uint64_t now);
int progress_report_add(const struct pool *pool, struct store_cycle *cycle, size_t n, struct deferred_error *err);
/* Reports of attempts that are being recorded are of no use any more. */
int progress_report_add_end(const struct ledger *ledger, struct store_cycle *cycle, struct deferred_error *err);

#endif
