/* SPDX-License-Identifier: MIT */
/*
 * access_log - one line of JSON a request, appended to a file by one write(2). What authorizes (signatures, receipts, the
 * query as a whole) is not written.
 */
#ifndef ACCESS_LOG_H
#define ACCESS_LOG_H

#include "front/exchange.h"

struct access_log;

/* path "-": standard output. NULL: it cannot be opened, and err says so. */
struct access_log *access_log_open(const char *path, struct deferred_error *err);

/* Open the file anew, which may have been moved away. On failure the old one stays in use. */
int access_log_reopen(struct access_log *log, struct deferred_error *err);

/* cut: the client did not take all of the answer. May be called by several threads. */
void access_log_write(struct access_log *log, const struct exchange *x, size_t bytes_out, bool cut);
void access_log_close(struct access_log *log);

#endif
