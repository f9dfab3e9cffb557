/* SPDX-License-Identifier: MIT */
/* spool_call - a call as an entry of a spool, while the server cannot be reached. */
#ifndef SPOOL_CALL_H
#define SPOOL_CALL_H

#include "base/error.h"
#include "port/spool.h"

/*
 * Add the call to the spool. It was checked by defer_check(). Spans of its options count from now, on the clock of this
 * host. Some calls need the database and cannot be kept: jobs that wait for jobs or events, jobs of flows,
 * and times such as "tomorrow".
 *
 * unreachable: why the server cannot be reached, for messages. Returns DEFERRED_SPOOLED; the code of unreachable, for a
 * call that cannot be kept; DEFERRED_ESYSTEM: the spool is full or cannot be written; DEFERRED_EINVAL; DEFERRED_ENOMEM.
 */
int spool_call(const char *path, const char *conninfo, const struct deferred_call_spec *call, char id[SPOOL_ID_SIZE],
	       const struct deferred_error *unreachable, struct deferred_error *err);

#endif
