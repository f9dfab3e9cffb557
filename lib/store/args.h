/* SPDX-License-Identifier: MIT */
/*
 * store_args - common parts of the statements of a worker, in worker.c and in cycles (cycle.c): settings of the
 * transaction, execution, arguments, answers.
 */
#ifndef STORE_ARGS_H
#define STORE_ARGS_H

#include "base/attempt.h"
#include "base/error.h"
#include "port/pg.h"
#include "store/store_worker.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tags of the statements, by which their answers are recognised. */
enum store_tag {
	TAG_SETUP,
	TAG_PROBE,
	TAG_REGISTER,
	TAG_RECOVER,
	TAG_RECORD,
	TAG_REFUSED,
	TAG_RELEASE,
	TAG_RENEW,
	TAG_PROMOTE,
	TAG_CLAIM,
	TAG_CLAIM_LIMITED,
	TAG_IGNORE,
	TAG_UNKNOWN,
	TAG_RECORDED,
	TAG_OUTCOMES,
	TAG_PARENTS,
	TAG_STEPS,
	TAG_TRACK,
	TAG_NEXT_DUE,
	TAG_KEEP,
	TAG_ARM,
	TAG_OPEN,
	TAG_PEEK,
	TAG_DIRECT,
	TAG_FOLD,
	TAG_TICK,
	TAG_ALERT,
	TAG_LOST,
	TAG_WATCH,
	TAG_TEXT
};

int store_add_setup(struct pg *pg, struct deferred_error *err);

/*
 * Send one statement with the settings of a worker and wait for it. It is sent again after a transient error. Clears
 * the arguments. on_result NULL: there is no result.
 */
typedef void store_result_fn(void *data, int tag, const struct pg_result *res);
int store_run(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
	      store_result_fn *on_result, void *data, struct deferred_error *err);

/* The same of one that can be left out: it waits STORE_PATIENCE for a lock, and is not sent again. */
#define STORE_PATIENCE "50ms"
int store_run_aside(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
		    store_result_fn *on_result, void *data, struct deferred_error *err);

void store_arg_queues(struct pg_args *args, const struct store_scope *scope);
void store_arg_probe(struct pg_args *args, const struct store_scope *scope,
		     int64_t from_us); /* of run_probe.sql; from_us: as of store_cycle_promote() */
void store_arg_track(struct pg_args *args, const struct store_track *track);
void store_take_track(struct store_track *track, int tag, const struct pg_result *res);
int store_arg_claims(struct pg_args *args, struct attempt *const *a, size_t n, struct deferred_error *err);
void store_take_outcomes(int *outcomes, size_t n, const struct pg_result *res);

#endif
