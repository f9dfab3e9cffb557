/* SPDX-License-Identifier: MIT */
/*
 * cycle_add - what the parts of a cycle have in common: adding statements, and taking their answers. Each file calls
 * only those to the right of it:
 *
 *     cycle.c -> cycle_record.c, cycle_lease.c, cycle_worker.c, cycle_claim.c -> cycle_add.c
 */
#ifndef CYCLE_ADD_H
#define CYCLE_ADD_H

#include "store/args.h"
#include "store/columns.h"
#include "cycle.h"

#define CYCLE_WHERE "cycle" /* of errors */

/* Add a statement to the first transaction, which ends before the claim begins. */
int cycle_add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
	      struct deferred_error *err);

/* The same without parameters, and with an array of numbers. */
int cycle_add_simple(struct store_cycle *cycle, const struct sql_statement *stmt, enum store_tag tag,
		     struct deferred_error *err);
int cycle_add_ids(struct store_cycle *cycle, const struct sql_statement *stmt, const int64_t *ids, size_t n,
		  struct deferred_error *err);

/* The same for n rows. Its parameters are columns, which are added between these two calls. rc: what failed meanwhile,
 * or 0. */
int cycle_rows_begin(struct pg_args *args, struct columns *c, size_t n, struct deferred_error *err);
int cycle_rows_add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args, struct columns *c,
		   enum store_tag tag, int rc, struct deferred_error *err);

int64_t cycle_age_us(uint64_t now_ns, uint64_t then_ns);

void cycle_take_parents(struct store_cycle *cycle, const struct pg_result *res);
void cycle_take_steps(struct store_cycle *cycle, const struct pg_result *res);
void cycle_take_leases(struct store_cycle *cycle, const struct pg_result *res);
void cycle_take_claimed_jobs(struct store_cycle *cycle, const struct pg_result *res);
void cycle_take_limited_jobs(struct store_cycle *cycle, const struct pg_result *res);

/* Answers of one row. */
void cycle_take_worker(struct store_cycle *cycle, int tag, const struct pg_result *res);

#endif
