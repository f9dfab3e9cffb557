/* SPDX-License-Identifier: MIT */
#include "store/shard.h"

int store_shard_set(struct pg *pg, int number, bool *set, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, number);
	rc = pg_exec(pg, &sql_shard_set, &args, PG_TEXT, &res, err);
	pg_args_clear(&args);
	if (rc == 0)
		*set = pg_bool(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_shard_look(struct pg *pg, struct store_shard *shard, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int4(&args, STORE_SHARD_READY_MAX);
	rc = pg_exec(pg, &sql_shard_look, &args, PG_TEXT, &res, err);
	pg_args_clear(&args);
	if (rc == 0)
		*shard = (struct store_shard){ (int)pg_int(res, 0, 0), pg_int(res, 0, 1), pg_int(res, 0, 2) };
	pg_result_free(res);
	return rc;
}
