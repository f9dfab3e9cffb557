/* SPDX-License-Identifier: MIT */
/* one_job - the statements about one job: cancel or change it, ask how it ended; and those of the job about itself. */
#ifndef ONE_JOB_H
#define ONE_JOB_H

#include "port/pg.h"

/* Returns DEFERRED_ENOTFOUND if there is nothing to cancel. */
int store_cancel(struct pg *pg, int64_t id, struct deferred_error *err);

/* changes: JSON. Returns DEFERRED_ENOTFOUND if there is no such job. */
int store_update(struct pg *pg, int64_t id, const char *changes, struct deferred_error *err);

/* A job about itself. DEFERRED_ESTALE: the receipt is not valid any more. */
int store_finish_self(struct pg *pg, int64_t id, int64_t receipt, const char *result, struct deferred_error *err);
int store_extend(struct pg *pg, int64_t id, int64_t receipt, int64_t lease_ms, struct deferred_error *err);

/* *ended: the job is no longer hot, and outcome was filled in. */
int store_outcome(struct pg *pg, int64_t id, bool *ended, struct deferred_outcome *outcome, struct deferred_error *err);

/* Returns DEFERRED_ENOTFOUND if there is no such job. result: cut at size - 1 bytes, if *ended. */
int store_result(struct pg *pg, int64_t id, bool *ended, char *result, size_t size, struct deferred_error *err);

#endif
