/* SPDX-License-Identifier: MIT */
/*
 * store_spans - attempts that have ended, for traces, out of the log by the time at which they ended. Each call is a
 * short transaction of its own. Times are microseconds since 2000, by the clock of the database.
 */
#ifndef STORE_SPANS_H
#define STORE_SPANS_H

#include "port/pg.h"

#define STORE_SPANS_ROWS 5000 /* of the log, that one call looks at */
#define STORE_SPANS_MS 30000  /* and how long it may take */

/*
 * Those that ended in [from, to). *full: there are more in that time than one call looks at, and the answer is of no
 * use: ask for less. any: however many they are. all: those too that their producer did not sample. *res: as the file
 * says, from row 1 on; given. Source: spans.sql, spans_said.sql.
 */
int store_spans(struct pg *pg, int64_t from_us, int64_t to_us, bool any, bool all, bool errors, bool *full,
		struct pg_result **res, struct deferred_error *err);

#endif
