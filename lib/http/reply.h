/* SPDX-License-Identifier: MIT */
/* reply - an answer in memory. Names and values of headers, and details, are borrowed for as long as the answer. */
#ifndef REPLY_H
#define REPLY_H

#include "http/arena.h"
#include "http/buf.h"
#include "http/fault.h"

#include <stdbool.h>
#include <stddef.h>

#define REPLY_DETAILS_MAX 4

struct reply_pair {
	const char *name, *value;
};

struct reply {
	struct arena *arena;
	int status;
	enum fault fault;
	const char *message;      /* of an error, instead of the one of the table; NULL: that one */
	const char *content_type; /* of the body; NULL: that of the program */
	struct buf body;
	bool close; /* the connection is closed after it */
	struct reply_pair *headers;
	size_t headers_len, headers_cap;
	struct reply_pair details[REPLY_DETAILS_MAX]; /* elements of an error behind its message */
	size_t details_len;
};

void reply_init(struct reply *reply, struct arena *arena);
/* Control characters in value become blanks. */
void reply_header(struct reply *reply, const char *name, const char *value);

/* Answer with an error instead; what had been written is dropped. */
void reply_fault(struct reply *reply, enum fault fault);
void reply_detail(struct reply *reply, const char *name, const char *value);

void reply_clear(struct reply *reply);

#endif
