/* SPDX-License-Identifier: MIT */
/*
 * access_log - one line of JSON per request, appended to a file or a pipe by one write(2). Nobody needs to read the
 * pipe: see outlet.h. Signatures, receipts and queries are secrets and not written.
 */
#ifndef ACCESS_LOG_H
#define ACCESS_LOG_H

#include "base/error.h"
#include "http/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct access_log;

/* path "-": standard output. NULL: err says why. */
struct access_log *access_log_open(const char *path, struct deferred_error *err);

/* Opens the file again, since it may have been moved. After a failure the old one stays in use. */
int access_log_reopen(struct access_log *log, struct deferred_error *err);

/* Texts may be NULL. */
struct access_entry {
	const struct request *request;
	const char *id; /* of the request */
	int64_t began_us;
	uint64_t began_ns;
	const char *op, *account, *auth; /* the operation, its account, and the kind of authorization */
	int status;
	const char *code, *reason; /* of an error; why the authorization failed */
	size_t bytes_out;
	bool cut; /* the client did not take all of the answer */
};

/* May be called by several threads. */
void access_log_write(struct access_log *log, const struct access_entry *entry);
void access_log_flush(struct access_log *log, int patience_ms); /* what found no room; NULL: nothing */
void access_log_close(struct access_log *log);

#endif
