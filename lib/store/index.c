/* SPDX-License-Identifier: MIT */
#include "store/index.h"

#include <string.h>

static int of_term(struct pg *pg, const struct sql_statement *stmt, const char *term, struct pg_result **res,
		   struct deferred_error *err)
{
	struct pg_args args;
	int rc;

	pg_args_init(&args);
	pg_arg_text(&args, term);
	rc = pg_exec(pg, stmt, &args, PG_TEXT, res, err);
	pg_args_clear(&args);
	return rc;
}

static int told(struct pg *pg, const struct sql_statement *stmt, const char *term, bool *is, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = of_term(pg, stmt, term, &res, err);

	if (rc == 0)
		*is = pg_bool(res, 0, 0);
	pg_result_free(res);
	return rc;
}

int store_index_add(struct pg *pg, const char *term, struct deferred_error *err)
{
	struct pg_result *res = NULL;
	int rc = of_term(pg, &sql_index_add, term, &res, err);

	pg_result_free(res);
	return rc;
}

int store_index_drop(struct pg *pg, const char *term, bool *found, struct deferred_error *err)
{
	return told(pg, &sql_index_drop, term, found, err);
}

int store_index_next(struct pg *pg, const char *term, struct pg_result **res, struct deferred_error *err)
{
	return of_term(pg, &sql_index_next, term, res, err);
}

int store_index_do(struct pg *pg, const char *statement, struct deferred_error *err)
{
	static const char *const gone[] = { "42P01", "42P07" }; /* undefined_table, duplicate_table */
	struct deferred_error why = { 0 };
	int rc = pg_command(pg, statement, &why);

	for (size_t i = 0; rc < 0 && i < sizeof(gone) / sizeof(gone[0]); i++)
		if (strcmp(why.sqlstate, gone[i]) == 0)
			return 0;
	if (rc < 0 && err)
		*err = why;
	return rc;
}

int store_index_ls(struct pg *pg, struct pg_result **res, struct deferred_error *err)
{
	return pg_exec(pg, &sql_index_ls, NULL, PG_TEXT, res, err);
}

int store_index_usable(struct pg *pg, const char *term, bool *usable, struct deferred_error *err)
{
	return told(pg, &sql_index_usable, term, usable, err);
}
