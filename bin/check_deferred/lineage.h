/* SPDX-License-Identifier: MIT */
/*
 * lineage - the newest timeline of each server that starts with this pidfile have worked for.
 *
 * An old primary that comes back has an old copy of the database: nothing in it tells of the promotion. So what was
 * seen last is kept on the worker's host, in PIDFILE.server, a line for each system identifier. A higher timeline is a
 * promotion, and is remembered; a lower one is a server that was left behind, and is refused. Another system identifier
 * is another server.
 */
#ifndef LINEAGE_H
#define LINEAGE_H

#include "base/error.h"

#include <stdint.h>

/* Returns 0, or a negative code with err. The lock of the pidfile is held: nobody else reads or writes the file.
 * system: digits. */
int lineage_check(const char *pidfile, const char *system, int64_t timeline, struct deferred_error *err);

#endif
