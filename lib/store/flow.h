/* SPDX-License-Identifier: MIT */
/*
 * store_flow - the statements about flows, jobs that were deferred together. One function a file of sql/queries, of
 * that name, which says what the rows of *res are. *res is given.
 */
#ifndef STORE_FLOW_H
#define STORE_FLOW_H

#include "deferred.h"
#include "port/pg.h"
#include "rows/flow.h"

/* flow: a JSON object, as deferred.defer_flow() takes it. */
int store_flow_add(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err);

/* One to which jobs are added. flow: as above, but that there may be no jobs. */
int store_flow_open(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err);

/* Have it end with its jobs. *closed false: it was closed already. */
int store_flow_close(struct pg *pg, int64_t flow, bool *closed, struct deferred_error *err);

/* before 0: from the newest. */
int store_flow_ls(struct pg *pg, int most, int64_t before, struct pg_result **res, struct deferred_error *err);

/* All that is left of it, some jobs a transaction; *cancelled counts also what was done before it failed. */
int store_flow_cancel(struct pg *pg, int64_t flow, int64_t *cancelled, struct deferred_error *err);

/* Have workers begin it again where something failed. *noted false: they have not come to the end of it since that was
 * wanted last. */
int store_flow_retry(struct pg *pg, int64_t flow, bool *noted, struct deferred_error *err);

/* DEFERRED_ENOTFOUND: no such job. */
int store_flow_release(struct pg *pg, int64_t job, struct deferred_error *err);

/* who: what the audit log names as who did it; NULL: it says nothing. */
int store_event_send(struct pg *pg, const struct deferred_event *event, const char *who, struct deferred_error *err);

#endif
