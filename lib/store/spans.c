/* SPDX-License-Identifier: MIT */
#include "store/spans.h"

#include <stdio.h>

int store_spans_now(struct pg *pg, const char *since, int64_t since_ms, struct store_spans_now *now,
		    struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, since);
	pg_arg_int8(&args, since_ms);
	rc = pg_exec(pg, &sql_spans_now, &args, PG_BINARY, &res, err);
	pg_args_clear(&args);
	if (rc == 0)
		*now = (struct store_spans_now){ pg_int(res, 0, 0), pg_int(res, 0, 1), pg_bool(res, 0, 2) };
	pg_result_free(res);
	return rc;
}

/* A sequential scan would begin at the oldest page of the week, and a join by anything but ids at the oldest job. */
static int begin(struct pg *pg, struct deferred_error *err)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "begin read only; set local statement_timeout = %d; set local lock_timeout = 5000; set local jit = "
		 "off; "
		 "set local enable_seqscan = off; " PG_OWN_PATH,
		 STORE_SPANS_MS);
	return pg_command(pg, sql, err);
}

int store_spans(struct pg *pg, int64_t from_us, int64_t to_us, bool any, bool all, bool errors, bool *full,
		struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;
	int rc = begin(pg, err);

	*res = NULL;
	if (rc < 0)
		return rc;
	pg_args_init(&args);
	pg_arg_timestamptz(&args, from_us);
	pg_arg_timestamptz(&args, to_us);
	pg_arg_int8(&args, any ? INT64_MAX : STORE_SPANS_ROWS + 1);
	pg_arg_text(&args, all ? "true" : "false");
	rc = pg_exec(pg, errors ? &sql_spans_said : &sql_spans, &args, PG_BINARY, res, err);
	pg_args_clear(&args);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	*full = rc == 0 && !any && pg_int(*res, 0, 0) > STORE_SPANS_ROWS;
	return rc;
}
