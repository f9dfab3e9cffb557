/* SPDX-License-Identifier: MIT */
/*
 * error - filling, prefixing and classing a struct deferred_error.
 *
 * The first cause is kept: error_set() does not replace an error. Callers add context in front of it with
 * error_prefix(). Every function accepts err == NULL.
 */
#ifndef ERROR_H
#define ERROR_H

#include "deferred.h"

#include <stdarg.h>
#include <stdbool.h>

/* Put err into the state "no error". */
void error_clear(struct deferred_error *err);

/*
 * Describe a failure. A hint without arguments follows in fmt after a line feed; another one is for error_hint().
 * Returns code, so that `return error_set(...)` reads well.
 */
int error_set(struct deferred_error *err, int code, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The same with ": " and the text of errno at the end. */
int error_errno(struct deferred_error *err, int code, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Say what to do about it. */
void error_hint(struct deferred_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Refuse the id of a job or flow, as `what` says. The message is the same for an id that was never given out
 * and for one that the role may not see.
 */
int error_not_there(struct deferred_error *err, const char *what, long long id);

/* Put "text: " in front of the message. */
void error_prefix(struct deferred_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * error_explain() puts a message of ours in front of the server's own words, which become the cause. It adds a
 * hint. error_explain_as() does the same with a message of the caller, where the server speaks about text of a user.
 */
void error_explain(struct deferred_error *err);
void error_explain_as(struct deferred_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The meaning of a failed statement for its sender, by SQLSTATE alone. */
enum error_class {
	ERROR_PERMANENT,  /* the same again would fail again */
	ERROR_TRANSIENT,  /* the transaction was rolled back and may be sent again */
	ERROR_CONNECTION, /* the connection is gone or about to go; the outcome may be unknown */
	ERROR_READ_ONLY,  /* this server is a standby: connect again, to the primary */
	ERROR_SCHEMA,     /* table, column or function missing */
	ERROR_PREPARED,   /* prepared statement unknown: a pooler is in between */
};
enum error_class error_class(const char *sqlstate);

#endif
