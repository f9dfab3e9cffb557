/* SPDX-License-Identifier: MIT */
/*
 * store_doctor - what `deferred doctor` asks the database: one function a file of sql/queries, which says what the rows
 * of *res are. Given, to be freed with pg_result_free(). To be called between store_admin_look() and a rollback.
 */
#ifndef STORE_DOCTOR_H
#define STORE_DOCTOR_H

#include "port/pg.h"

int store_doctor_role(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_clock(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_direct(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_functions(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_snapshots(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_hidden(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_slots(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_indexes(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_partitions(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_retention(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_pidfiles(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_workers(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_intervals(struct pg *pg, struct pg_result **res, struct deferred_error *err);
int store_doctor_superseded(struct pg *pg, struct pg_result **res, struct deferred_error *err);

#endif
