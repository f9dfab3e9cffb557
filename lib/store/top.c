/* SPDX-License-Identifier: MIT */
#include "store/top.h"

#define LOG_PAGES 100 /* 800 kB, some 8,000 attempts */

static int ask(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
	       struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

int store_top_recent(struct pg *pg, const char *queue, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_int8(&args, LOG_PAGES);
	return ask(pg, &sql_top_recent, &args, res, err);
}

int store_top_arrivals(struct pg *pg, const char *queue, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	return ask(pg, &sql_top_arrivals, &args, res, err);
}

int store_top_running(struct pg *pg, const char *queue, int64_t jobs, struct pg_result **res,
		      struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_text(&args, queue);
	pg_arg_int8(&args, jobs);
	return ask(pg, &sql_top_running, &args, res, err);
}
