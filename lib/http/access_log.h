/* SPDX-License-Identifier: MIT */
/*
 * access_log - one line of JSON a request, appended to a file by one write(2), or to a pipe, which nobody need read
 * (outlet.h). What authorizes (signatures, receipts, the query as a whole) is not written.
 */
#ifndef ACCESS_LOG_H
#define ACCESS_LOG_H

#include "base/error.h"
#include "http/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access_log;

/* path "-": standard output. NULL: it cannot be opened, and err says so. */
struct access_log *access_log_open(const char *path, struct deferred_error *err);

/* Open the file anew, which may have been moved away. On failure the old one stays in use. */
int access_log_reopen(struct access_log *log, struct deferred_error *err);

/* Texts may be NULL. */
struct access_entry {
	const struct request *request;
	const char *id; /* of the request */
	int64_t began_us;
	uint64_t began_ns;
	const char *op, *account, *auth; /* what was asked for, by whom, and how that was shown */
	int status;
	const char *code, *reason; /* of an error; why somebody was not let in */
	size_t bytes_out;
	bool cut; /* the client did not take all of the answer */
};

/* May be called by several threads. */
void access_log_write(struct access_log *log, const struct access_entry *entry);
void access_log_flush(struct access_log *log, int patience_ms); /* what found no room; NULL: nothing */
void access_log_close(struct access_log *log);

#endif
