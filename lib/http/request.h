/* SPDX-License-Identifier: MIT */
/*
 * request - parses the head of a request. No sockets, no database.
 *
 * Order of calls: request_head(), or request_line() and request_header() for each header; then request_end(). The
 * caller adds the body. Everything lives in the arena.
 */
#ifndef REQUEST_H
#define REQUEST_H

#include "http/arena.h"
#include "http/buf.h"
#include "http/fault.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_BODY_MAX (512 * 1024)
#define REQUEST_ACCOUNT_MAX 24
#define REQUEST_QUEUE_MAX 63

enum request_verb {
	VERB_GET = 1,
	VERB_HEAD = 2,
	VERB_PUT = 4,
	VERB_POST = 8,
	VERB_DELETE = 16,
	VERB_OPTIONS = 32,
	VERB_PATCH = 64,
	VERB_OTHER = 128,
};

/* The kind of resource in the path. */
enum request_level { LEVEL_ACCOUNT, LEVEL_QUEUE, LEVEL_MESSAGES, LEVEL_MESSAGE };

struct request_header {
	const char *name;  /* lower case */
	const char *spelt; /* as it came */
	const char *value; /* trimmed; values of a repeated header joined with "," */
	size_t times;
	size_t order;     /* of arrival */
	bool blank_after; /* a blank stood behind the value */
};

struct request_param {
	const char *name, *value; /* decoded; a name without "=" has the value "" */
};

struct request {
	struct arena *arena;
	const char *method;
	enum request_verb verb;
	const char *raw_path;           /* as it came, without query; "/" where empty */
	const char *host;               /* without port; "" where there is none */
	const char *authority;          /* with it */
	struct request_header *headers; /* sorted by name from request_end() on */
	size_t headers_len, headers_cap;
	struct request_param *params;
	size_t params_len;

	/* Set by protocol/address.c of deferred_http. Other programs do not use them. */
	const char *account; /* addressed; "" where none is */
	bool secondary;      /* by its name with "-secondary" */
	bool path_style;
	enum request_level level;
	const char *queue;   /* from LEVEL_QUEUE on */
	const char *id;      /* of the message, at LEVEL_MESSAGE */
	bool form_2008;      /* no version anywhere: a client from before there were versions */
	const char *version; /* x-ms-version, or the version of the SAS; NULL: none */

	bool tls;
	struct sockaddr_storage peer;
	int64_t peer_uid; /* user of this machine who connected to a Unix socket, plus 1; 0: not known */

	unsigned minor;         /* 1: HTTP/1.1, which has a Host header and may have chunks; 0: HTTP/1.0 */
	bool chunked;           /* the body comes in chunks */
	uint64_t length;        /* of the body, if it does not; beyond 18 digits UINT64_MAX */
	bool broken;            /* it is unclear where this request ends: the connection is closed */
	enum fault fault;       /* what is wrong with line or headers */
	int fault_status;       /* of the answer; 0: that of the fault */
	const char *fault_name; /* the header or parameter; NULL: none */

	const char *body; /* with a NUL behind it; NULL: none */
	size_t body_len;
	size_t body_max;     /* of the program; 0: REQUEST_BODY_MAX */
	bool body_too_large; /* it was longer, and is not kept */
};

/* The lines that head_scan() found. */
void request_head(struct request *r, struct arena *arena, const char *head, size_t len);

/* method and target as they stand in the request line; target may be in absolute form. */
void request_line(struct request *r, struct arena *arena, const char *method, const char *target, size_t target_len);
void request_header(struct request *r, const char *name, size_t name_len, const char *value, size_t value_len);

/* Sorts the headers, and parses framing, query and host. Returns the first fault, which the request keeps too. */
enum fault request_end(struct request *r);

/* Sets the fault, unless the request has one. Returns the first. */
enum fault request_wrong(struct request *r, enum fault fault, const char *name);

/* NULL: not there. The name in lower case. */
const char *request_value(const struct request *r, const char *name);
const char *request_param(const struct request *r, const char *name);
size_t request_param_times(const struct request *r, const char *name);

#endif
