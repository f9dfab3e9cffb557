/* SPDX-License-Identifier: MIT */
/*
 * store_cursor - the cursor (cursor.h) and the database: its parts as arguments, what a look at them finds, and what one run
 * keeps for the next.
 */
#ifndef STORE_CURSOR_H
#define STORE_CURSOR_H

#include "base/cursor.h"
#include "base/error.h"
#include "port/pg.h"
#include "store/worker.h"

#include <stddef.h>

/* Seven arguments, as $10..$16 of job_claim.sql; they hold on to nothing of the cursor. */
int store_arg_segments(struct pg_args *args, const struct cursor_segment *segments, size_t n, struct deferred_error *err);

/* Those of run_probe.sql. from_us: as of store_cycle_promote(). */
int store_arg_probe(struct pg_args *args, const struct store_scope *scope, const struct cursor *cursor, int64_t from_us,
		    struct deferred_error *err);

/* A look at where all of a cursor begins, the places of ready jobs too or not: job_look.sql is added to a pipeline, its answer taken,
 * and believed once the transaction is committed. The cursor must not have changed until then. */
struct store_look;
struct store_look *store_look_new(const struct cursor *cursor, bool ready); /* NULL: out of memory */
void store_look_free(struct store_look *look); /* NULL is accepted */
int store_look_add(struct pg *pg, const struct store_look *look, struct deferred_error *err);
void store_look_take(struct store_look *look, const struct pg_result *res);
void store_look_learn(const struct store_look *look, struct cursor *cursor);

/* Into an empty cursor what an earlier run has saved, and what can be learnt from there now. */
int store_cursor_load(struct pg *pg, const struct store_scope *scope, struct cursor *cursor, struct deferred_error *err);
int store_cursor_save(struct pg *pg, const struct cursor *cursor, struct deferred_error *err);

#endif
