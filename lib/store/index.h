/* SPDX-License-Identifier: MIT */
/*
 * store_index - indexes for searches. Each is for one term: "label", or "params." and keys with dots between.
 *
 * Each function sends the statement of its name in sql/queries. The caller frees a result with pg_result_free().
 * sql/functions/admin/__search_create.sql says how the indexes are made.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "port/pg.h"
#include "rows/admin.h"

/* And no more. *found: it was. */
int store_index_drop(struct pg *pg, const char *term, bool *found, struct deferred_error *err);

/* In no transaction. A partition that has been purged meanwhile, or what somebody else has done, is no error. */
int store_index_do(struct pg *pg, const char *statement, struct deferred_error *err);

/* May a search count on it: has each partition one? */
int store_index_usable(struct pg *pg, const char *term, bool *usable, struct deferred_error *err);

#endif
