/* SPDX-License-Identifier: MIT */
#include "store/doctor.h"

#define JOBS_LOOKED_AT 10000
#define LOG_PAGES 2000 /* 16 MB */

static int ask(struct pg *pg, const struct sql_statement *stmt, struct pg_result **res, struct deferred_error *err)
{
	return pg_exec(pg, stmt, NULL, PG_TEXT, res, err);
}

static int ask_with(struct pg *pg, const struct sql_statement *stmt, int64_t number, struct pg_result **res,
		    struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, number);
	rc = pg_exec(pg, stmt, &args, PG_TEXT, res, err);
	pg_args_clear(&args);
	return rc;
}

int store_doctor_role(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_role, res, err);
}

int store_doctor_clock(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_clock, res, err);
}

int store_doctor_direct(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_direct, res, err);
}

int store_doctor_snapshots(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_snapshots, res, err);
}

int store_doctor_hidden(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_hidden, res, err);
}

int store_doctor_slots(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_slots, res, err);
}

int store_doctor_indexes(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_indexes, res, err);
}

int store_doctor_partitions(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_partitions, res, err);
}

int store_doctor_retention(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_retention, res, err);
}

int store_doctor_pidfiles(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_pidfiles, res, err);
}

int store_doctor_workers(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_workers, res, err);
}

int store_doctor_intervals(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask(pg, &sql_doctor_intervals, res, err);
}

int store_doctor_functions(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask_with(pg, &sql_doctor_functions, JOBS_LOOKED_AT, res, err);
}

int store_doctor_superseded(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return ask_with(pg, &sql_doctor_superseded, LOG_PAGES, res, err);
}
