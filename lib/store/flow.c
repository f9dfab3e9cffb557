/* SPDX-License-Identifier: MIT */
#include "store/flow.h"

#include "store/admin.h"

#include <inttypes.h>
#include <string.h>

/* Send a statement; the arguments are cleared, *res is NULL on failure. */
static int exec(struct pg *pg, const struct sql_statement *stmt, struct pg_args *args, struct pg_result **res,
		struct deferred_error *err)
{
	int rc = pg_exec(pg, stmt, args, PG_TEXT, res, err);

	pg_args_clear(args);
	return rc;
}

static int make(struct pg *pg, const struct sql_statement *stmt, const char *flow, int64_t *id,
		struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_json(&args, flow, strlen(flow));
	rc = exec(pg, stmt, &args, &res, err);
	if (rc == 0 && id)
		*id = pg_int(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_flow_add(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err)
{
	return make(pg, &sql_flow_add, flow, id, err);
}

int store_flow_open(struct pg *pg, const char *flow, int64_t *id, struct deferred_error *err)
{
	return make(pg, &sql_flow_open, flow, id, err);
}

int store_flow_jobs(struct pg *pg, int64_t flow, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, flow);
	return exec(pg, &sql_flow_jobs, &args, res, err);
}

int store_flow_ls(struct pg *pg, int most, int64_t before, struct pg_result **res, struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int4(&args, most);
	pg_arg_id(&args, before);
	return exec(pg, &sql_flow_ls, &args, res, err);
}

static int look(struct pg *pg, const struct sql_statement *stmt, int64_t what, int most, struct pg_result **res,
		struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, what);
	pg_arg_int4(&args, most);
	return exec(pg, stmt, &args, res, err);
}

int store_flow_head(struct pg *pg, int64_t what, int most, struct pg_result **res, struct deferred_error *err)
{
	return look(pg, &sql_flow_head, what, most, res, err);
}

int store_flow_show(struct pg *pg, int64_t what, int most, int64_t after, struct pg_result **res,
		    struct deferred_error *err)
{
	struct pg_args args;

	pg_args_init(&args);
	pg_arg_int8(&args, what);
	pg_arg_int4(&args, most);
	pg_arg_int8(&args, after);
	return exec(pg, &sql_flow_show, &args, res, err);
}

int store_flow_edges(struct pg *pg, int64_t what, int most, struct pg_result **res, struct deferred_error *err)
{
	return look(pg, &sql_flow_edges, what, most, res, err);
}

int store_flow_cancel(struct pg *pg, int64_t flow, int64_t *cancelled, struct deferred_error *err)
{
	int64_t before = 0;
	int rc;

	*cancelled = 0;
	do {
		struct pg_result *res;
		struct pg_args args;

		pg_args_init(&args);
		pg_arg_int8(&args, flow);
		pg_arg_id(&args, before);
		pg_arg_text(&args, store_admin_user());
		rc = exec(pg, &sql_flow_cancel, &args, &res, err);
		if (rc == 0) {
			*cancelled += pg_int(res, 0, 0);
			before = pg_null(res, 0, 1) ? 0 : pg_int(res, 0, 1);
		}
		pg_result_free(res);
	} while (rc == 0 && before > 0);
	return rc;
}

/* One statement, which answers a bool. user: who is written down for it; NULL: it takes none. */
static int act(struct pg *pg, const struct sql_statement *stmt, int64_t flow, const char *user, bool *done,
	       struct deferred_error *err)
{
	struct pg_result *res;
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8(&args, flow);
	if (user)
		pg_arg_text(&args, user);
	rc = exec(pg, stmt, &args, &res, err);
	*done = rc == 0 && pg_bool(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_flow_close(struct pg *pg, int64_t flow, bool *closed, struct deferred_error *err)
{
	return act(pg, &sql_flow_close, flow, NULL, closed, err);
}

int store_flow_retry(struct pg *pg, int64_t flow, bool *noted, struct deferred_error *err)
{
	return act(pg, &sql_flow_retry, flow, store_admin_user(), noted, err);
}

int store_flow_release(struct pg *pg, int64_t job, struct deferred_error *err)
{
	bool released;
	int rc = act(pg, &sql_flow_release, job, NULL, &released, err);

	return rc == 0 && !released ? error_not_there(err, "job", job) : rc;
}
