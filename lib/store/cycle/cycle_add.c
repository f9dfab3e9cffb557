/* SPDX-License-Identifier: MIT */
#include "cycle_add.h"

int cycle_add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args, enum store_tag tag,
	      struct deferred_error *err)
{
	int rc;

	if (cycle->claims || cycle->claims_limited)
		return error_set(err, DEFERRED_EINVAL, CYCLE_WHERE, "%s comes before a claim\nreport this as a defect",
				 stmt->name);
	rc = cycle->writes ? 0 : store_add_setup(cycle->pg, err);
	cycle->writes = true;
	return rc == 0 ? pg_pipeline_add(cycle->pg, stmt, args, tag, err) : rc;
}

int cycle_add_ids(struct store_cycle *cycle, const struct sql_statement *stmt, const int64_t *ids, size_t n,
		  struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_int8_array(&args, ids, NULL, n);
	rc = cycle_add(cycle, stmt, &args, TAG_IGNORE, err);
	pg_args_clear(&args);
	return rc;
}

int cycle_add_simple(struct store_cycle *cycle, const struct sql_statement *stmt, enum store_tag tag,
		     struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	rc = cycle_add(cycle, stmt, &args, tag, err);
	pg_args_clear(&args);
	return rc;
}

int cycle_rows_begin(struct pg_args *args, struct columns *c, size_t n, struct deferred_error *err)
{
	pg_args_init(args);
	return columns_init(c, n, CYCLE_WHERE, err);
}

int cycle_rows_add(struct store_cycle *cycle, const struct sql_statement *stmt, struct pg_args *args, struct columns *c,
		   enum store_tag tag, int rc, struct deferred_error *err)
{
	if (rc == 0)
		rc = cycle_add(cycle, stmt, args, tag, err);
	pg_args_clear(args);
	columns_clear(c);
	return rc;
}

int64_t cycle_age_us(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? (int64_t)((now_ns - then_ns) / 1000) : 0;
}
