/* SPDX-License-Identifier: MIT */
#include "store/spans.h"

#include "rows/history.h"

#include <stdio.h>

/* A sequential scan would begin at the oldest page of the week, and a join by anything but ids at the oldest job. */
static int begin_short(struct pg *pg, struct deferred_error *err)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "set transaction read only; set local statement_timeout = %d; set local lock_timeout = 5000; set "
		 "local enable_seqscan = off",
		 STORE_SPANS_MS);
	return pg_begin(pg, sql, err);
}

int store_spans(struct pg *pg, int64_t from_us, int64_t to_us, bool any, bool all, bool errors, bool *full,
		struct pg_result **res, struct deferred_error *err)
{
	int64_t most = any ? INT64_MAX : STORE_SPANS_ROWS + 1;
	int rc = begin_short(pg, err);

	*res = NULL;
	if (rc < 0)
		return rc;
	rc = (errors ? spans_said_exec : spans_exec)(pg, from_us, to_us, most, all ? "true" : "false", res, err);
	if (!pg_broken(pg))
		pg_command(pg, "rollback", NULL);
	*full = rc == 0 && !any && spans_row(*res, 0).job > STORE_SPANS_ROWS;
	return rc;
}
