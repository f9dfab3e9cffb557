/* SPDX-License-Identifier: MIT */
#include "store/index.h"

#include "rows/admin.h"

#include <string.h>

int store_index_drop(struct pg *pg, const char *term, bool *found, struct deferred_error *err)
{
	struct index_drop_row r;
	int rc = index_drop_one(pg, term, &r, err);

	if (rc == 0)
		*found = r.existed;
	return rc;
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

int store_index_usable(struct pg *pg, const char *term, bool *usable, struct deferred_error *err)
{
	struct index_usable_row r;
	int rc = index_usable_one(pg, term, &r, err);

	if (rc == 0)
		*usable = r.usable;
	return rc;
}
