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
 * The attempts that ended in [from, to). If *full, one call cannot read them all, and the result is useless. Ask for
 * a shorter time. With any, it reads them however many they are. With all, it includes attempts that their producer
 * did not sample. The caller frees *res, whose rows start at 1. Source: spans.sql, spans_said.sql.
 */
int store_spans(struct pg *pg, int64_t from_us, int64_t to_us, bool any, bool all, bool errors, bool *full,
		struct pg_result **res, struct deferred_error *err);

#endif
