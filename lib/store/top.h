/* SPDX-License-Identifier: MIT */
/*
 * store_top - what a screen shows besides what store/why.h reads: one function a file of sql/queries, which says what
 * the rows of *res are.
 * Given, to be freed with pg_result_free(). Read-only, bounded, in whatever transaction is open.
 */
#ifndef STORE_TOP_H
#define STORE_TOP_H

#include "port/pg.h"

/* queue NULL: all. */
int store_top_recent(struct pg *pg, const char *queue, struct pg_result **res, struct deferred_error *err);
int store_top_arrivals(struct pg *pg, const char *queue, struct pg_result **res, struct deferred_error *err);
int store_top_running(struct pg *pg, const char *queue, int64_t jobs, struct pg_result **res,
		      struct deferred_error *err);

#endif
